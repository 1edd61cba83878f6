"""NumPy's ufuncs called with tensors: their arguments, and their methods over reductions and cumulative sums."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sparrow.core.schema import check_dtype
from sparrow.errors import UnsupportedError
from sparrow.interop.conversion import is_foreign_sparse
from sparrow.plan import Output, resolved_axis
from sparrow.tensor.base import Base
from sparrow.tensor.products import matmul
from sparrow.tensor.results import into

__all__ = ["applied", "is_operand"]

_KNOWN = (Base, np.ndarray, np.generic, bool, int, float, complex, list, tuple)
_REDUCTIONS = {
    np.add: "sum",
    np.multiply: "prod",
    np.minimum: "min",
    np.maximum: "max",
    np.fmin: "nanmin",
    np.fmax: "nanmax",
    np.logical_and: "all",
    np.logical_or: "any",
}
_CUMULATIVE = {np.add: "cumsum", np.multiply: "cumprod"}


def is_operand(obj: Any) -> bool:
    """Return whether this is something that tensors are combined with, cell by cell."""
    return isinstance(obj, _KNOWN) or is_foreign_sparse(obj)


def applied(tensor: Any, ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: dict[str, Any]) -> Any:
    """Return what a ufunc, or one of its methods, makes of operands: ``__array_ufunc__``.

    Parameters
    ----------
    tensor
        A tensor, whose kind the result is of.
    ufunc, method, inputs, options
        As NumPy gives them.

    Raises
    ------
    UnsupportedError
        If one is no operand, or the method or an option is none that tensors take.
    """
    strange = [operand for operand in inputs if not is_operand(operand)]
    if any(hasattr(type(operand), "__array_ufunc__") for operand in strange):
        return NotImplemented
    name = f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
    if strange:
        raise UnsupportedError(
            f"{name}: {type(strange[0]).__name__} {strange[0]!r} is no operand: use tensors, arrays and numbers"
        )
    outs = options.pop("out", None) or (None,) * ufunc.nout
    casting = options.get("casting", "same_kind")
    if not any(isinstance(operand, Base) or is_foreign_sparse(operand) for operand in inputs):
        found = getattr(ufunc, method)(*inputs, **options)  # the tensor is where it is to be written
    elif method == "__call__":
        found = _called(tensor, ufunc, inputs, outs, name, options)
    elif method == "outer":
        found = _called(tensor, ufunc, _crossed(tensor, *inputs), outs, name, options)
    elif method == "reduce" and ufunc in _REDUCTIONS:
        found = _reduced(_REDUCTIONS[ufunc], inputs[0], **options)
    elif method == "accumulate" and ufunc in _CUMULATIVE:
        found = getattr(inputs[0], _CUMULATIVE[ufunc])(options.get("axis", 0), options.get("dtype"))
    elif method == "accumulate":
        found = _accumulated(ufunc, inputs[0], **options)
    else:
        raise UnsupportedError(f"{name} is not supported on sparse tensors: A.to_numpy() where it fits")
    if not isinstance(found, tuple):
        return into(outs[0], found, name, casting)
    return tuple(into(out, one, name, casting) for out, one in zip(outs, found, strict=True))


def _called(
    tensor: Any, ufunc: np.ufunc, inputs: Sequence[Any], outs: Sequence[Any], name: str, options: dict[str, Any]
) -> Any:
    """Return what a ufunc makes of its operands: one result, or as many as it has."""
    given = dict(options)
    dtype, casting, where = given.pop("dtype", None), given.pop("casting", "same_kind"), given.pop("where", True)
    for ignored, usual in (("order", "K"), ("subok", True)):  # of how arrays lie in memory, and of their classes
        if given.get(ignored) in (usual, None, "C", "F", "A", True, False):
            given.pop(ignored, None)
    along = {"axis": given.pop("axis")} if ufunc is np.vecdot and "axis" in given else {}
    if given:
        raise UnsupportedError(
            f"{name}({next(iter(given))}=) is not supported on sparse tensors: A.to_numpy() where it fits"
        )
    if ufunc.signature is not None:
        own = matmul if ufunc is np.matmul else tensor._functions.get(ufunc)
        if own is None:
            raise UnsupportedError(f"{name} is not supported on sparse tensors: A.to_numpy() where it fits")
        product = own(*(tensor._taken_in(operand) for operand in inputs), **along)
        return product if dtype is None else product.astype(check_dtype(dtype))
    if dtype is not None or "casting" in options:
        inputs = _cast(ufunc, inputs, None if dtype is None else check_dtype(dtype), casting)
    if ufunc.nout > 1:
        found = tuple(tensor._cells(Output(ufunc, k), *inputs) for k in range(ufunc.nout))
    else:
        found = (tensor._cells(ufunc, *inputs),)
    if where is not True:
        if any(out is None for out in outs):
            raise UnsupportedError(f"{name}(where=) needs out=, whose cells stay where the condition does not hold")
        found = tuple(tensor._cells(np.where, where, one, out) for one, out in zip(found, outs, strict=True))
    return found if ufunc.nout > 1 else found[0]


def _cast(ufunc: np.ufunc, inputs: Sequence[Any], dtype: np.dtype[Any] | None, casting: Any) -> list[Any]:
    """Return operands in the types in which a ufunc computes a result of a type.

    Raises
    ------
    UnsupportedError
        If it has no such form, or needs a change of type that is not allowed.
    """
    operands = [np.asarray(one) if isinstance(one, list | tuple) else one for one in inputs]
    types = [type(one) if type(one) in (int, float, complex) else _dtype_of(one) for one in operands]
    signature = None if dtype is None else (*(None for _ in operands), *(dtype for _ in range(ufunc.nout)))
    try:
        loop = ufunc.resolve_dtypes((*types, *(None,) * ufunc.nout), signature=signature, casting=casting)
    except (TypeError, ValueError) as error:
        raise UnsupportedError(f"np.{ufunc.__name__}: {error}") from None
    return [
        np.asarray(one, wanted)[()] if np.ndim(one) == 0 and not isinstance(one, Base) else one.astype(wanted)
        for one, wanted in zip(operands, loop, strict=False)
    ]


def _dtype_of(operand: Any) -> np.dtype[Any]:
    found: np.dtype[Any] = operand.dtype if hasattr(operand, "dtype") else np.asarray(operand).dtype
    return found


def _crossed(tensor: Any, left: Any, right: Any) -> tuple[Any, Any]:
    """Return two operands so that each cell of one meets each of the other: new axes behind those of the first.

    Nothing of this goes by name: dimensions of the second that the first has too are named anew.
    """
    given = (np.asarray(x) if isinstance(x, list | tuple) else x for x in (left, right))
    one, other = map(tensor._taken_in, given)
    if isinstance(one, Base) and isinstance(other, Base):
        used = {*one.dims, *other.dims}
        fresh = (name for k in itertools.count() if (name := f"d{k}") not in used)
        named: Any = other
        other = named.rename({dim: next(fresh) for dim in other.dims if dim in one.dims})
    return (one[(..., *(None,) * np.ndim(other))] if np.ndim(one) else one), other


def _accumulated(ufunc: np.ufunc, tensor: Any, axis: int = 0, dtype: DTypeLike | None = None) -> NDArray[Any]:
    """Return what NumPy accumulates, which is dense by nature, as sums are."""
    along = resolved_axis(axis, tensor.ndim, tensor.dims)
    try:
        return ufunc.accumulate(np.asarray(tensor), along, dtype)
    except (TypeError, ValueError) as error:
        raise UnsupportedError(f"np.{ufunc.__name__}.accumulate: {error}") from None


def _reduced(
    own: str,
    tensor: Any,
    axis: Any = 0,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    where: Any = "all",
    casting: Any = None,
    **given: Any,
) -> Any:
    """Return a reduction under NumPy's arguments of ``reduce``, whose axis is the first by default."""
    if dtype is not None:
        tensor = tensor.astype(dtype)
        if own in ("sum", "prod"):
            given["dtype"] = dtype
    return tensor._reduced(own, axis, keepdims, where, **given)
