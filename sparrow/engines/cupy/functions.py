"""Functions of cells on a device: which there are, in which types, and how they are called.

NumPy says in which types a function is computed; operands are cast to these first, so that nothing depends on how
others promote. What CuPy's function of the same name does not do as NumPy's does is declined.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from sparrow.engines.cupy.device import Device
from sparrow.plan import Dense, Map, Scan, function_name
from sparrow.plan.functions import Cast

__all__ = ["called", "unsupported_reason"]

_Types: TypeAlias = tuple[np.dtype[Any], ...]

_ALL, _SIGNED, _WHOLE, _REAL = "biuf", "iuf", "biu", "f"

_KINDS: dict[str, str] = {
    **dict.fromkeys(["add", "multiply", "absolute", "maximum", "minimum", "fmax", "fmin"], _ALL),
    **dict.fromkeys(["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"], _ALL),
    **dict.fromkeys(["logical_and", "logical_or", "logical_xor", "logical_not"], _ALL),
    **dict.fromkeys(["subtract", "negative", "square", "sign"], _SIGNED),
    **dict.fromkeys(["bitwise_and", "bitwise_or", "bitwise_xor", "invert"], _WHOLE),
    **dict.fromkeys(
        ["divide", "sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan",
         "arcsin", "arccos", "arctan", "arctan2", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "hypot",
         "floor", "ceil", "trunc", "rint", "isnan", "isinf", "isfinite", "copysign"],
        _REAL,
    ),
}  # fmt: skip
"""The functions, each with the kinds of the types in which it is computed as NumPy does it."""


def unsupported_reason(node: Map) -> str | None:
    """Return why a device does not give what NumPy does, None where it does."""
    if node.is_dense:
        return "every cell is an entry: the stream engine gives this array"
    for dtype in (node.schema.dtype, *map(_given, node.operands)):
        if isinstance(dtype, np.dtype) and (dtype.kind == "c" or dtype == np.float16):
            return f"functions of {dtype} are not computed there"
    return _typed(node)[1]


def _given(operand: Any) -> Any:
    """Return the type of an operand; of a Python number the class, which bends to the types of others."""
    if isinstance(operand, Scan):
        return operand.schema.dtype
    if isinstance(operand, Dense):
        return operand.array.dtype
    if isinstance(operand, np.generic):
        return operand.dtype
    return np.dtype(bool) if isinstance(operand, bool) else type(operand)


def _typed(node: Map) -> tuple[_Types, str | None]:
    """Return the types to which operands are cast, or why there are none."""
    function, name, out = node.function, function_name(node.function), node.schema.dtype
    given = [_given(operand) for operand in node.operands]
    if isinstance(function, Cast):
        (old,) = given
        if old.kind == "f" and out.kind in "iu":
            return (), f"{old} to {out}: what does not fit is the processor's choice"
        return (old,), None
    if function is np.where:
        return (np.dtype(bool), out, out), _fitting(node, (np.dtype(bool), out, out))
    if not isinstance(function, np.ufunc) or name not in _KINDS:
        return (), f"no {name} there that is NumPy's"
    try:
        *types, found = function.resolve_dtypes((*given, None))
    except TypeError as error:
        return (), str(error)
    if found.kind == "f":
        types = [found] * len(types)  # NumPy has loops of integers that give floats, of the same numbers
    if len(set(types)) > 1:
        return (), f"{name} of {' and '.join(map(str, types))}"
    if types[0].kind not in _KINDS[name] or found != out:
        return (), f"{name} of {types[0]}"
    return tuple(types), _fitting(node, types)


def _fitting(node: Map, types: Sequence[np.dtype[Any]]) -> str | None:
    """Return what is wrong with a number among the operands, None where nothing is."""
    for operand, dtype in zip(node.operands, types, strict=True):
        if isinstance(operand, Scan | Dense) or dtype.kind not in "iu":
            continue
        try:
            dtype.type(operand)
        except (OverflowError, ValueError):
            return f"{operand!r} is no {dtype}"
    return None


def called(device: Device, node: Map, arguments: Sequence[Any]) -> Any:
    """Return the function of cells, of arrays of the device of shape (n,) and of numbers, in the type of the result."""
    types, reason = _typed(node)
    assert reason is None, reason
    with np.errstate(all="ignore"):
        cast = [
            _number(argument, dtype) if not isinstance(operand, Scan | Dense) else argument.astype(dtype, copy=False)
            for operand, argument, dtype in zip(node.operands, arguments, types, strict=True)
        ]
        found = cast[0] if isinstance(node.function, Cast) else getattr(device.xp, node.function.__name__)(*cast)
        return found.astype(node.schema.dtype, copy=False)


def _number(given: Any, dtype: np.dtype[Any]) -> Any:
    """Return a number in a type: its own cast, as NumPy's of arrays."""
    return np.asarray(given).astype(dtype)[()]
