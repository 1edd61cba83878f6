"""Implementations of NumPy's functions with NumPy's argument lists.

They adapt functions of the array API standard, whose arguments differ; see :mod:`sparrow.functions.numpy.dispatch`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sparrow.core.schema import check_array
from sparrow.errors import IndexingError, InvalidValueError, ShapeError, UnsupportedError
from sparrow.functions.contraction import einsum, tensordot
from sparrow.functions.creation import asarray
from sparrow.functions.dtypes import astype
from sparrow.functions.elementwise import clip
from sparrow.functions.generation import meshgrid
from sparrow.functions.indexing import take
from sparrow.functions.manipulation import diagonal, nonzero, reshape
from sparrow.functions.numpy.functions import compress, diag, like, outer
from sparrow.functions.products import matmul, multi_dot, vecdot
from sparrow.functions.searching import searchsorted, where
from sparrow.functions.sets import isin
from sparrow.functions.sorting import argsort, sort
from sparrow.functions.views import as_tensor, moveaxis
from sparrow.plan import Axis, axis_labels, normalize_axis
from sparrow.tensor import Tensor
from sparrow.tensor.matching import match_condition
from sparrow.tensor.ufuncs import check_cast, write_out

__all__ = [
    "angle", "array_equal", "can_cast", "constant_like", "copy", "copyto", "count_nonzero", "diagflat", "dot",
    "elementwise", "extract", "flatnonzero", "full_like", "ignoring_nan", "inner", "matrix_diagonal", "matrix_norm",
    "matrix_trace", "matvec", "may_share_memory", "norm", "numpy_argsort", "numpy_astype", "numpy_clip", "numpy_einsum",
    "numpy_isin", "numpy_meshgrid", "numpy_multi_dot", "numpy_sort", "numpy_take", "numpy_where", "on_dtypes",
    "outer_of_vectors", "ravel", "rollaxis", "search_sorted", "size", "trace", "vdot", "vecmat", "with_dtype_and_out",
]  # fmt: skip

_UNSET = object()


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    """Return whether shapes and elements are equal, NaN too if ``equal_nan``."""
    one, other = as_tensor(a1), as_tensor(a2)
    if one.shape != other.shape:
        return False
    equal = one == other
    if equal_nan and one.dtype.kind in "fc" and other.dtype.kind in "fc":
        equal = np.logical_or(equal, np.logical_and(np.isnan(one), np.isnan(other)))
    return bool(equal.all())


def may_share_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    """Return whether both are views of one tensor."""
    return isinstance(a, Tensor) and isinstance(b, Tensor) and a._base is b._base


def trace(a: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None) -> Any:
    """Implement ``np.trace``."""
    found = diagonal(a, offset, axis1, axis2)
    return found.sum(None if found.ndim == 1 else -1, dtype=dtype)


def numpy_sort(tensor: Tensor, axis: int | None = -1, kind: str | None = None, stable: bool | None = None) -> Tensor:
    """Sort along an axis, or all elements; ``kind`` is ignored."""
    return sort(reshape(tensor, -1)) if axis is None else sort(tensor, axis)


def numpy_where(condition: Any, *choices: Any) -> Any:
    """Implement ``np.where``."""
    if len(choices) == 1:
        raise InvalidValueError("np.where requires both x and y or neither, got one")
    return where(condition, *choices) if choices else nonzero(condition)


def numpy_argsort(
    a: Tensor, axis: int | None = -1, kind: str | None = None, stable: bool | None = None
) -> NDArray[np.int64]:
    """Implement ``np.argsort``."""
    return argsort(reshape(a, -1)) if axis is None else argsort(a, axis)


def numpy_astype(x: Tensor, dtype: DTypeLike, copy: bool = True, device: str | None = None) -> Tensor:
    """Implement ``np.astype``."""
    return astype(x, dtype, copy=copy, device=device)


def numpy_isin(element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False) -> Any:
    """Implement ``np.isin``."""
    return isin(element, test_elements, assume_unique=assume_unique, invert=invert)


def numpy_meshgrid(
    *xi: Any, copy: bool = True, sparse: bool = False, indexing: Literal["xy", "ij"] = "xy"
) -> tuple[Tensor, ...]:
    """Implement ``np.meshgrid``."""
    if sparse:
        raise UnsupportedError(
            "np.meshgrid(sparse=True) is not supported on sparse tensors: use A[:, None], B[None, :]"
        )
    return meshgrid(*xi, indexing=indexing)


def search_sorted(a: Any, v: Any, side: Literal["left", "right"] = "left", sorter: Any = None) -> Any:
    """Implement ``np.searchsorted``."""
    return searchsorted(a, v, side=side, sorter=sorter)


def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """Implement ``np.can_cast``."""
    return np.can_cast(from_.dtype if isinstance(from_, Tensor) else from_, to, casting)


def ravel(a: Tensor, order: Literal["C", "F", "A"] = "C") -> Tensor:
    """Implement ``np.ravel``."""
    return reshape(a, -1, order=order)


def numpy_clip(a: Any, a_min: Any = _UNSET, a_max: Any = _UNSET, min: Any = None, max: Any = None) -> Any:
    """Clip with NumPy's names of the limits or those of the array API."""
    if a_min is _UNSET and a_max is _UNSET:
        return clip(a, min, max)
    if min is not None or max is not None:
        raise InvalidValueError("np.clip: pass a_min and a_max, or min and max, not both")
    return clip(a, *(None if limit is _UNSET else limit for limit in (a_min, a_max)))


def size(a: Tensor, axis: int | tuple[int, ...] | None = None) -> int:
    """Implement ``np.size``."""
    if axis is None:
        return a.size
    axes = axis if isinstance(axis, tuple) else (axis,)
    return math.prod(a.shape[normalize_axis(one, a.ndim)] for one in axes)


def on_dtypes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return NumPy's function of dtypes or arrays, applied to the dtypes of tensors."""
    return lambda *given: function(*(np.empty(0, one.dtype) if isinstance(one, Tensor) else one for one in given))


def with_dtype_and_out(function: Callable[..., Tensor]) -> Callable[..., Any]:
    """Return a function with NumPy's ``dtype=``, ``casting=`` and ``out=``."""

    def call(*args: Any, dtype: DTypeLike | None = None, casting: Any = "same_kind", out: Any = None, **kw: Any) -> Any:
        found = function(*args, **kw)
        name = f"np.{function.__name__}"
        return write_out(out, found if dtype is None else found.astype(dtype, casting=casting), name, casting)

    return call


def constant_like(value: Any) -> Callable[..., Tensor]:
    """Return ``np.zeros_like`` or its kin; ``order=`` and ``subok=`` are ignored."""

    def call(
        a: Any, dtype: Any = None, order: Any = None, subok: Any = None, shape: Any = None, device: str | None = None
    ) -> Tensor:
        return like(value, a, dtype, shape, device)

    return call


def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: Any = None, subok: Any = None, shape: Any = None,
    device: str | None = None,
) -> Tensor:  # fmt: skip
    """Implement ``np.full_like``."""
    return like(fill_value, a, dtype, shape, device)


def copy(a: Tensor) -> Tensor:
    """Implement ``np.copy``."""
    return asarray(a, copy=True)


def flatnonzero(a: Tensor) -> NDArray[np.int64]:
    """Implement ``np.flatnonzero``."""
    return nonzero(reshape(a, -1))[0]


def matrix_diagonal(x: Tensor, offset: int = 0) -> Tensor:
    """Implement ``np.linalg.diagonal``."""
    return diagonal(x, offset, -2, -1) if x.ndim > 2 else diagonal(x, offset)


def matrix_trace(x: Tensor, offset: int = 0, dtype: DTypeLike | None = None) -> Any:
    """Implement ``np.linalg.trace``."""
    return trace(x, offset, *((-2, -1) if x.ndim > 2 else (0, 1)), dtype=dtype)


def dot(a: Any, b: Any, out: Any = None) -> Any:
    """Contract the last axis of ``a`` with the second to last of ``b``."""
    if not np.ndim(a) or not np.ndim(b):
        found = _multiply_scalar(a, b)
    else:
        found = tensordot(a, b, axes=([np.ndim(a) - 1], [max(np.ndim(b) - 2, 0)]))
    return write_out(out, found, "np.dot")


def _multiply_scalar(a: Any, b: Any) -> Any:
    """Return a product with a scalar, which keeps its own dtype here."""
    one, other = (each if isinstance(each, Tensor) else np.asarray(each) for each in (a, b))
    return np.multiply(one, other)


def numpy_multi_dot(arrays: Sequence[Any], *, out: Any = None) -> Any:
    """Implement ``np.linalg.multi_dot``."""
    return write_out(out, multi_dot(arrays), "np.linalg.multi_dot")


def inner(a: Any, b: Any) -> Any:
    """Implement ``np.inner``."""
    if not np.ndim(a) or not np.ndim(b):
        return _multiply_scalar(a, b)
    return tensordot(a, b, axes=([np.ndim(a) - 1], [np.ndim(b) - 1]))


def numpy_einsum(
    *operands: Any,
    out: Any = None,
    dtype: DTypeLike | None = None,
    order: Any = None,
    casting: Any = "safe",
    **own: Any,
) -> Any:
    """Return :func:`sparrow.einsum` with NumPy's ``casting=`` rule and ``out=``."""
    given = [each.dtype for each in operands if isinstance(each, Tensor | np.ndarray)]
    if dtype is not None and not all(np.can_cast(each, dtype, casting) for each in given):
        names = ", ".join(map(str, given))
        raise UnsupportedError(f"np.einsum: casting={casting!r} does not allow {names} to become {np.dtype(dtype)}")
    return write_out(out, einsum(*operands, dtype=dtype, **own), "np.einsum")


def vdot(a: Any, b: Any) -> Any:
    """Return the sum of products of all elements, the first ones conjugated."""
    if all(isinstance(one, Tensor) and axis_labels(one.__sparrow_scan__()) for one in (a, b)) and a.ndim == b.ndim > 1:
        return tensordot(np.conj(a) if a.dtype.kind == "c" else a, b, axes=a.ndim)
    return vecdot(reshape(a, -1), reshape(b, -1))


def matvec(a: Any, b: Any) -> Any:
    """Return matrix-vector products over the last axes."""
    b = b if isinstance(b, Tensor) else check_array(b, "np.matvec: x2")
    _check_matrices(a, "np.matvec: x1")
    return matmul(a, b) if np.ndim(b) < 2 else matmul(a, b[..., None])[..., 0]


def vecmat(a: Any, b: Any) -> Any:
    """Return vector-matrix products, with conjugated vectors, over the last axes."""
    rows = a if isinstance(a, Tensor) else check_array(a, "np.vecmat: x1")
    rows = np.conj(rows) if rows.dtype.kind == "c" else rows
    _check_matrices(b, "np.vecmat: x2")
    return matmul(rows, b) if np.ndim(rows) < 2 else matmul(rows[..., None, :], b)[..., 0, :]


def _check_matrices(given: Any, what: str) -> None:
    if np.ndim(given) < 2:
        raise ShapeError(f"{what} must have at least 2 dimensions, got shape {np.shape(given)}")


def outer_of_vectors(x1: Any, x2: Any) -> Tensor:
    """Implement ``np.linalg.outer``."""
    if np.ndim(x1) != 1 or np.ndim(x2) != 1:
        raise ShapeError(f"np.linalg.outer: operands must be vectors, got shapes {np.shape(x1)} and {np.shape(x2)}")
    return outer(x1, x2)


def diagflat(v: Any, k: int = 0) -> Tensor:
    """Implement ``np.diagflat``."""
    return diag(reshape(v, -1), k)


def extract(condition: Any, arr: Any) -> Any:
    """Implement ``np.extract``."""
    condition = match_condition(condition, arr, "extract: the condition")
    return compress(reshape(condition, -1) if isinstance(condition, Tensor) else np.ravel(condition), arr)


def rollaxis(a: Tensor, axis: int, start: int = 0) -> Tensor:
    """Implement ``np.rollaxis``."""
    at = normalize_axis(axis, a.ndim)
    to = a.ndim if start == a.ndim else normalize_axis(start, a.ndim)
    return moveaxis(a, at, to - (at < to))


def angle(z: Tensor, deg: bool = False) -> Any:
    """Return the angles of complex numbers; pi for negative real ones."""
    found = np.arctan2(z.imag if z.dtype.kind == "c" else 0, z.real)
    return np.rad2deg(found) if deg else found


def numpy_take(
    a: Tensor, indices: Any, axis: int | None = None, mode: Literal["raise", "clip", "wrap"] = "raise"
) -> Any:
    """Return slices at positions, which are checked, clipped or wrapped."""
    if mode == "raise" or (isinstance(indices, Tensor) and indices.dtype == bool):
        return take(a, indices, axis)
    if mode not in ("clip", "wrap"):
        raise InvalidValueError(f"mode must be 'raise', 'clip' or 'wrap', got {mode!r}")
    size = a.size if axis is None else a.shape[normalize_axis(axis, a.ndim)]
    places = check_array(indices, "indices")
    if places.size and not size:
        raise IndexingError("np.take: cannot take elements from an axis of size 0")
    return take(a, places.clip(0, size - 1) if mode == "clip" else places % max(size, 1), axis)


def elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return an element-wise function of NumPy that is not a ufunc."""
    return lambda x: x._elementwise(function, x)


def ignoring_nan(accumulate: Callable[..., Any], neutral: int) -> Callable[..., Any]:
    """Return a cumulative function that treats NaN as its neutral element."""

    def call(a: Tensor, axis: int | None = None, dtype: DTypeLike | None = None) -> Any:
        values = where(np.isnan(a), np.asarray(neutral, a.dtype), a) if a.dtype.kind in "fc" else a
        return accumulate(values, axis, dtype)

    return call


def count_nonzero(tensor: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """Implement ``np.count_nonzero``."""
    if tensor.fill_value == 0:
        return tensor.count(axis, keepdims=keepdims)
    return (tensor != 0).sum(axis, keepdims=keepdims)


def norm(tensor: Any, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Any:
    """Return ``np.linalg.norm``: a matrix norm or a vector norm."""
    axes = axis if isinstance(axis, tuple) else tuple(range(tensor.ndim)) if axis is None else (axis,)
    if ord is None or (ord == "fro" and len(axes) == 2):
        return tensor.norm(2, axis, keepdims=keepdims)
    if len(axes) == 1:
        return tensor.norm(ord, axes, keepdims=keepdims)
    if len(axes) != 2:
        raise ShapeError(f"np.linalg.norm: ord={ord!r} requires 1 or 2 axes, got {len(axes)} axes")
    if ord not in (1, -1, np.inf, -np.inf):
        if ord in (2, -2, "nuc"):
            raise UnsupportedError(
                f"norm: ord={ord!r} of a matrix requires its singular values: use sp.linalg.norm if it fits in "
                "memory as a dense matrix, or ord 'fro', 1, -1, inf or -inf"
            )
        raise UnsupportedError(
            f"norm: ord of a matrix must be 'fro', 1, -1, inf, -inf, 2, -2 or 'nuc', got {ord!r}; A.norm(ord) is the "
            "norm of all elements as one vector"
        )
    rows, columns = (normalize_axis(k, tensor.ndim) for k in axes)
    inner, outer = (rows, columns) if abs(ord) == 1 else (columns, rows)
    values = tensor if tensor.dtype.kind in "fc" else tensor.astype(np.float64)
    sums = abs(values).sum(inner, keepdims=True)
    found = (sums.max if ord > 0 else sums.min)(outer, keepdims=True)
    return found if keepdims else found[tuple(0 if k in (rows, columns) else slice(None) for k in range(tensor.ndim))]


def matrix_norm(tensor: Any, keepdims: bool = False, ord: Any = "fro") -> Any:
    """Implement ``np.linalg.matrix_norm``."""
    return norm(tensor, ord, (-2, -1), keepdims)


def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """Copy elements to a tensor, which keeps its dtype, fill value and storage type."""
    if where is not True or casting != "same_kind":
        raise UnsupportedError("np.copyto does not support casting= and where= on tensors: use dst[mask] = src[mask]")
    given = src if hasattr(src, "dtype") else np.asarray(src)
    if isinstance(given, Tensor) and isinstance(dst, Tensor):  # its labels say where it goes
        check_cast(dst, given, "np.copyto", "same_kind")
        dst[...] = given
        return
    write_out(dst, given if np.shape(given) == dst.shape else np.broadcast_to(given, dst.shape), "np.copyto")
