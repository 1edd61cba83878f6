"""NumPy's ufuncs and their methods on tensors, ``out=`` included."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sparrow.core.schema import check_dtype
from sparrow.errors import ShapeError, UnsupportedError
from sparrow.interop.conversion import is_foreign_sparse
from sparrow.interop.interchange import check_expansion
from sparrow.interop.labelled_objects import is_pandas, is_polars
from sparrow.interop.tuning import tuning
from sparrow.plan import Map, Output, normalize_axis
from sparrow.tensor.base import Base, as_scan
from sparrow.tensor.matching import contracted_axes, reject_frame, reject_other_labels, to_implicit_array
from sparrow.tensor.products import matmul

__all__ = [
    "NUMPY_FUNCTIONS", "apply_ufunc", "cast_in_place", "check_cast", "find_numpy_function", "is_operand", "write_out",
]  # fmt: skip

NUMPY_FUNCTIONS: dict[Any, Callable[..., Any]] = {}
"""NumPy's functions that tensors support, with what implements them: filled by :mod:`sparrow.functions.numpy`."""

_OPERAND_TYPES = (Base, np.ndarray, np.generic, bool, int, float, complex, list, tuple)
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
_ACCUMULATIONS = {np.add: "cumsum", np.multiply: "cumprod"}


def find_numpy_function(function: Any) -> Callable[..., Any] | None:
    """Return the implementation of a function of NumPy on tensors, or None."""
    if not NUMPY_FUNCTIONS:
        importlib.import_module("sparrow.functions.numpy.dispatch")  # a layer above, which fills the table
    return NUMPY_FUNCTIONS.get(function)


def is_operand(obj: Any) -> bool:
    """Return whether an object can be an operand of element-wise functions."""
    return isinstance(obj, _OPERAND_TYPES) or is_foreign_sparse(obj)


def apply_ufunc(tensor: Any, ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: dict[str, Any]) -> Any:
    """Apply a ufunc, or one of its methods, as ``__array_ufunc__`` does.

    Parameters
    ----------
    tensor
        Tensor whose class the result has.
    ufunc, method, inputs, options
        Arguments of ``__array_ufunc__``.

    Raises
    ------
    UnsupportedError
        If an input is not an operand, or tensors do not support the method or an option.
    """
    unknown = [operand for operand in inputs if not is_operand(operand)]
    for operand in unknown:
        if is_polars(operand):
            reject_frame(operand)
    if any(hasattr(type(operand), "__array_ufunc__") for operand in unknown):
        return _yield_to_foreign(tensor, ufunc, method, inputs, unknown, options)
    name = f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
    if unknown:
        raise UnsupportedError(
            f"{name}: operands must be tensors, arrays or numbers, got {type(unknown[0]).__name__} {unknown[0]!r}"
        )
    outs = options.pop("out", None) or (None,) * ufunc.nout
    casting = options.get("casting", "same_kind")
    if isinstance(options.get("where"), Base) and not any(isinstance(operand, Base) for operand in inputs):
        first = as_scan(inputs[0])
        inputs = (type(tensor)(first.source, first.view), *inputs[1:])
    if not any(isinstance(operand, Base) or is_foreign_sparse(operand) for operand in inputs):
        found = getattr(ufunc, method)(*inputs, **options)  # the tensor is among the outputs
    elif method == "__call__":
        found = _call(tensor, ufunc, inputs, outs, name, options)
    elif method == "outer":
        found = _call(tensor, ufunc, _expand_outer(tensor, *inputs), outs, name, options)
    elif method == "reduce" and ufunc in _REDUCTIONS:
        found = _reduce(_REDUCTIONS[ufunc], inputs[0], **options)
    elif method == "accumulate" and ufunc in _ACCUMULATIONS:
        found = getattr(inputs[0], _ACCUMULATIONS[ufunc])(options.get("axis", 0), options.get("dtype"))
    elif method == "accumulate":
        found = _accumulate_dense(ufunc, inputs[0], **options)
    else:
        raise _unsupported_error(name)
    if not isinstance(found, tuple):
        if isinstance(outs[0], Base):
            _check_stored(outs[0], found, inputs)
        return write_out(outs[0], found, name, casting)
    return tuple(write_out(out, one, name, casting) for out, one in zip(outs, found, strict=True))


def _yield_to_foreign(
    tensor: Any, ufunc: np.ufunc, method: str, inputs: Sequence[Any], unknown: Sequence[Any], options: dict[str, Any]
) -> Any:
    """Return a ufunc of tensors and objects of a library that computes with arrays.

    pandas does not take tensors, but arrays; the result is its object, or a tensor if that has more dimensions.

    Raises
    ------
    LabelError
        If labels differ: the library goes by position.
    UnsupportedError
        If one is a frame.
    """
    is_product = ufunc is np.matmul and len(inputs) == 2
    for operand in unknown:
        if not is_product:
            reject_frame(operand)
        for k, own in enumerate(inputs):
            if isinstance(own, Base):
                axes = contracted_axes(own, operand, k == 0) if is_product and np.ndim(operand) else None
                reject_other_labels(own, operand, axes)
    if ufunc.signature is not None or not all(map(is_pandas, unknown)):
        return NotImplemented
    if method == "__call__" and max(np.ndim(one) for one in inputs) > max(np.ndim(one) for one in unknown):
        return ufunc(*(np.asarray(one) if is_pandas(one) else one for one in inputs), **options)
    outs = options.pop("out", (None,) * ufunc.nout)
    given = (to_implicit_array(one.__sparrow_scan__()) if isinstance(one, Base) else one for one in inputs)
    found = getattr(ufunc, method)(*given, **options)
    found = tuple(
        write_out(out, one, f"np.{ufunc.__name__}")
        for out, one in zip(outs, found if ufunc.nout > 1 else (found,), strict=True)
    )
    return found if ufunc.nout > 1 else found[0]


def _unsupported_error(name: str) -> UnsupportedError:
    return UnsupportedError(f"{name} is not supported on sparse tensors: use A.to_numpy() if it fits in memory")


def _call(
    tensor: Any, ufunc: np.ufunc, inputs: Sequence[Any], outs: Sequence[Any], name: str, options: dict[str, Any]
) -> Any:
    """Return the result of a ufunc, or a tuple of its results."""
    given = dict(options)
    dtype, casting, where = given.pop("dtype", None), given.pop("casting", "same_kind"), given.pop("where", True)
    for ignored, default in (("order", "K"), ("subok", True)):  # memory layout and subclasses of arrays
        if given.get(ignored) in (default, None, "C", "F", "A", True, False):
            given.pop(ignored, None)
    axis = {"axis": given.pop("axis")} if ufunc is np.vecdot and "axis" in given else {}
    if given:
        raise _unsupported_error(f"{name}({next(iter(given))}=)")
    if ufunc.signature is not None:
        own = matmul if ufunc is np.matmul else find_numpy_function(ufunc)
        if own is None:
            raise _unsupported_error(name)
        product = own(*(tensor._convert_foreign(operand) for operand in inputs), **axis)
        return product if dtype is None else product.astype(check_dtype(dtype))
    if dtype is not None or "casting" in options:
        inputs = _cast(ufunc, inputs, None if dtype is None else check_dtype(dtype), casting)
    if ufunc.nout > 1:
        found = tuple(tensor._elementwise(Output(ufunc, k), *inputs) for k in range(ufunc.nout))
    else:
        found = (tensor._elementwise(ufunc, *inputs),)
    if where is not True:
        if any(out is None for out in outs):
            raise UnsupportedError(f"{name}(where=) requires out=, whose elements stay where the condition is False")
        found = tuple(tensor._elementwise(np.where, where, one, out) for one, out in zip(found, outs, strict=True))
    return found if ufunc.nout > 1 else found[0]


def _cast(ufunc: np.ufunc, inputs: Sequence[Any], dtype: np.dtype[Any] | None, casting: Any) -> list[Any]:
    """Return the operands cast to the types of the ufunc's loop for a result type."""
    operands = [np.asarray(one) if isinstance(one, list | tuple) else one for one in inputs]
    types = [type(one) if type(one) in (int, float, complex) else _dtype_of(one) for one in operands]
    signature = (*(None for _ in operands), *(dtype for _ in range(ufunc.nout)))  # None for any type
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


def _expand_outer(tensor: Any, left: Any, right: Any) -> tuple[Any, Any]:
    """Return two operands that broadcast to their outer product.

    Dimensions of the right operand that the left one has too are renamed, so that none are matched by name.
    """
    given = (np.asarray(x) if isinstance(x, list | tuple) else x for x in (left, right))
    one, other = map(tensor._convert_foreign, given)
    if isinstance(one, Base) and isinstance(other, Base):
        used = {*one.dims, *other.dims}
        fresh = (name for k in itertools.count() if (name := f"d{k}") not in used)
        named: Any = other
        other = named.rename({dim: next(fresh) for dim in other.dims if dim in one.dims})
    return (one[(..., *(None,) * np.ndim(other))] if np.ndim(one) else one), other


def _accumulate_dense(ufunc: np.ufunc, tensor: Any, axis: int = 0, dtype: DTypeLike | None = None) -> NDArray[Any]:
    """Return NumPy's accumulation of the dense array."""
    along = normalize_axis(axis, tensor.ndim, tensor.dims)
    try:
        return ufunc.accumulate(np.asarray(tensor), along, dtype)
    except (TypeError, ValueError) as error:
        raise UnsupportedError(f"np.{ufunc.__name__}.accumulate: {error}") from None


def _reduce(
    own: str,
    tensor: Any,
    axis: Any = 0,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    where: Any = "all",
    casting: Any = None,
    **given: Any,
) -> Any:
    """Return a reduction with the arguments of ``ufunc.reduce``."""
    if dtype is not None:
        tensor = tensor.astype(dtype)
        if own in ("sum", "prod"):
            given["dtype"] = dtype
    return tensor._reduce(own, axis, keepdims, where, **given)


# -- results that are written to something -------------------------------------------------------


def write_out(out: Any, result: Any, name: str, casting: Any = "same_kind") -> Any:
    """Write a result to ``out``, if given, and return that.

    ``out`` keeps its dtype and fill value.

    Parameters
    ----------
    out
        Array, writable tensor or None.
    result
        Tensor, array or number.
    name
        Name of the operation, for errors.
    casting
        Casts allowed, as in ``numpy.can_cast``.

    Raises
    ------
    UnsupportedError
        If ``out`` is neither an array nor a tensor, or the result cannot be cast to its type.
    ShapeError
        If the shapes differ.
    ReadOnlyError
        If ``out`` is a read-only tensor.
    """
    if out is None:
        return result
    if not isinstance(out, np.ndarray | Base):
        raise UnsupportedError(f"{name}: out= must be an array or a tensor, got {type(out).__name__}")
    _check_target(out, result, name, casting)
    out[...] = result.to_numpy() if isinstance(out, np.ndarray) and isinstance(result, Base) else result  # type: ignore[index,attr-defined]
    return out


def _check_stored(out: Any, result: Any, inputs: Sequence[Any]) -> None:
    """Warn, or raise, where an array among the operands would store every element."""
    width, fill, size = out._schema.element_bytes(), out.fill_value, np.size(result)
    given = sum(operand.nbytes for operand in inputs if isinstance(operand, np.ndarray))
    if not given or size * width <= tuning().silent_dense_bytes:
        return
    node = result.__sparrow_scan__().source if isinstance(result, Base) else None
    if node is not None and not (isinstance(node, Map) and not any(node.required) and _has_dense_operand(node)):
        return
    check_expansion(
        size * width,
        max(out.nnz * width, given),
        f"a dense result, written to a tensor of fill {fill} as {size:,} elements,",
        f"A += x * (A != {fill}) changes stored elements only; A[...] = A + x stores all on purpose",
    )


def _has_dense_operand(node: Map) -> bool:
    return any(scan.source.schema.stype == "dense" for scan in node.scans)


def cast_in_place(target: Any, result: Any, name: str) -> Any:
    """Return the result of an operator in place on a read-only tensor.

    It is cast to the dtype of the tensor.

    Raises
    ------
    UnsupportedError
        If the result cannot be cast to the type of the target.
    ShapeError
        If the shapes differ.
    """
    _check_target(target, result, name, "same_kind")
    return result.astype(target.dtype)


def check_cast(target: Any, result: Any, name: str, casting: Any) -> None:
    """Raise ``UnsupportedError`` if a result cannot be cast to the type of a target."""
    given = _dtype_of(result)
    if not np.can_cast(given, target.dtype, casting):
        raise UnsupportedError(
            f"{name}: a result of {given} cannot be cast to {target.dtype} of the target: use A = A.astype(...) first, "
            "or an out= of that type"
        )


def _check_target(target: Any, result: Any, name: str, casting: Any) -> None:
    check_cast(target, result, name, casting)
    if np.shape(result) != target.shape:
        raise ShapeError(f"{name}: the target must have shape {np.shape(result)}, got {target.shape}")
