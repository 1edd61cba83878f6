"""Element-wise functions on a device: supported functions and dtypes, and calls.

Operands are first cast to the dtypes of NumPy's loop, so that results do not depend on CuPy's promotion. Functions of
CuPy that differ from NumPy's are not supported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from sparrow.engines.cupy.device import Device
from sparrow.plan import Dense, Map, Scan, function_name
from sparrow.plan.functions import Cast

__all__ = ["apply_on_device", "unsupported_reason"]

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
"""Supported functions, each with the dtype kinds for which CuPy equals NumPy."""


def unsupported_reason(node: Map) -> str | None:
    """Return why a device does not reproduce NumPy, None if it does."""
    if node.is_dense:
        return "every element of the result is stored: the stream engine computes arrays"
    for dtype in (node.schema.dtype, *map(_dtype_or_type, node.operands)):
        if isinstance(dtype, np.dtype) and (dtype.kind == "c" or dtype == np.float16):
            return f"functions of {dtype} are not supported on a device"
    return _resolve_dtypes(node)[1]


def _dtype_or_type(operand: Any) -> Any:
    """Return the dtype of an operand; the class of a weakly typed Python scalar."""
    if isinstance(operand, Scan):
        return operand.schema.dtype
    if isinstance(operand, Dense):
        return operand.array.dtype
    if isinstance(operand, np.generic):
        return operand.dtype
    return np.dtype(bool) if isinstance(operand, bool) else type(operand)


def _resolve_dtypes(node: Map) -> tuple[_Types, str | None]:
    """Return the dtypes to cast operands to, or why there are none."""
    function, name, out = node.function, function_name(node.function), node.schema.dtype
    given = [_dtype_or_type(operand) for operand in node.operands]
    if isinstance(function, Cast):
        (old,) = given
        if old.kind == "f" and out.kind in "iu":
            return (), f"{old} to {out}: overflow is undefined"
        return (old,), None
    if function is np.where:
        return (np.dtype(bool), out, out), _scalar_misfit(node, (np.dtype(bool), out, out))
    if not isinstance(function, np.ufunc) or name not in _KINDS:
        return (), f"CuPy has no {name} that equals NumPy's"
    try:
        *types, found = function.resolve_dtypes((*given, None))
    except TypeError as error:
        return (), str(error)
    if found.kind == "f":
        types = [found] * len(types)  # NumPy has integer loops with float results, of equal values
    if len(set(types)) > 1:
        return (), f"{name} of {' and '.join(map(str, types))}"
    if types[0].kind not in _KINDS[name] or found != out:
        return (), f"{name} of {types[0]}"
    return tuple(types), _scalar_misfit(node, types)


def _scalar_misfit(node: Map, types: Sequence[np.dtype[Any]]) -> str | None:
    """Return why a scalar operand does not fit its dtype, None if all fit."""
    for operand, dtype in zip(node.operands, types, strict=True):
        if isinstance(operand, Scan | Dense) or dtype.kind not in "iu":
            continue
        try:
            dtype.type(operand)
        except (OverflowError, ValueError):
            return f"{operand!r} is not a value of {dtype}"
    return None


def apply_on_device(device: Device, node: Map, arguments: Sequence[Any]) -> Any:
    """Call a function with device arrays of shape (n,) and scalars."""
    types, reason = _resolve_dtypes(node)
    assert reason is None, reason
    with np.errstate(all="ignore"):
        cast = [
            _cast_scalar(argument, dtype)
            if not isinstance(operand, Scan | Dense)
            else argument.astype(dtype, copy=False)
            for operand, argument, dtype in zip(node.operands, arguments, types, strict=True)
        ]
        found = cast[0] if isinstance(node.function, Cast) else getattr(device.xp, node.function.__name__)(*cast)
        return found.astype(node.schema.dtype, copy=False)


def _cast_scalar(given: Any, dtype: np.dtype[Any]) -> Any:
    """Cast a scalar as NumPy casts arrays."""
    return np.asarray(given).astype(dtype)[()]
