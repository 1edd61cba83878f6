"""Table of NumPy's functions that work on tensors.

For example ``np.concatenate([A, B])`` and ``np.linalg.norm(A)``.

Importing this module registers the table for ``__array_function__``. What is not in it raises; what is dense by nature
(the rest of ``np.linalg`` and ``np.fft``) is computed by NumPy on the dense array.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sparrow.core.schema import check_array
from sparrow.errors import IndexingError, InvalidValueError, ShapeError, UnsupportedError
from sparrow.functions.contraction import einsum, einsum_path, tensordot
from sparrow.functions.creation import asarray
from sparrow.functions.dtypes import astype, result_type
from sparrow.functions.elementwise import clip
from sparrow.functions.fourier import fftshift, ifftshift
from sparrow.functions.generation import meshgrid
from sparrow.functions.indexing import take, take_along_axis
from sparrow.functions.manipulation import (
    concat,
    diagonal,
    kron,
    nonzero,
    repeat,
    reshape,
    roll,
    split,
    stack,
    tile,
    tril,
    triu,
)
from sparrow.functions.numpy.functions import (
    all_close,
    append,
    argwhere,
    array_split,
    at_least,
    average,
    bincount,
    block,
    column_stack,
    compress,
    delete,
    diag,
    digitize,
    dsplit,
    dstack,
    fliplr,
    flipud,
    histogram,
    hsplit,
    hstack,
    interp,
    isclose,
    like,
    median,
    nan_to_num,
    on_unique_values,
    outer,
    pad,
    percentile,
    ptp,
    quantile,
    rot90,
    select,
    unique,
    vsplit,
    vstack,
)
from sparrow.functions.products import matmul, matrix_power, multi_dot, vecdot
from sparrow.functions.reductions import cumulative_prod, cumulative_sum
from sparrow.functions.searching import searchsorted, where
from sparrow.functions.sets import isin, unique_all, unique_counts, unique_inverse, unique_values
from sparrow.functions.sorting import argsort, diff, sort
from sparrow.functions.views import (
    as_tensor,
    broadcast_arrays,
    broadcast_to,
    expand_dims,
    flip,
    matrix_transpose,
    moveaxis,
    squeeze,
    swapaxes,
    unstack,
)
from sparrow.plan import Axis, normalize_axis
from sparrow.tensor import Tensor
from sparrow.tensor.ufuncs import NUMPY_FUNCTIONS, write_out

__all__ = ["Adapted"]

_UNSET = object()


@dataclass(frozen=True, slots=True)
class Adapted:
    """Implementation that is called with the arguments of NumPy's function.

    Parameters
    ----------
    function
        Takes NumPy's first argument first and the others by name.
    a2
        The implementation's name of NumPy's parameter ``a2``.
    """

    function: Callable[..., Any]
    a2: str = "a2"

    def to(self, numpy_function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the implementation with the signature of NumPy's function.

        It raises ``UnsupportedError`` for an argument, other than NumPy's default, that it does not accept.
        """
        signature = inspect.signature(numpy_function)
        first = next(iter(signature.parameters))
        function, accepted = self.function, inspect.signature(self.function).parameters

        def call(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind(*args, **kwargs).arguments
            out = None if "out" in accepted else given.pop("out", None)
            options = {}
            for name, value in given.items():
                if name == first or value is signature.parameters[name].default:
                    continue
                target = self.a2 if name == "a2" else name
                if target not in accepted:
                    raise UnsupportedError(
                        f"np.{numpy_function.__name__}({name}=) is not supported on sparse tensors: omit it, or use "
                        "A.to_numpy() if it fits in memory"
                    )
                options[target] = value
            return write_out(out, function(given[first], **options), f"np.{numpy_function.__name__}")

        return call


def _array_equal(a: Any, b: Any) -> bool:
    """Return whether shapes and elements are equal."""
    one, other = as_tensor(a), as_tensor(b)
    return one.shape == other.shape and bool((one == other).all())


def _may_share_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    """Return whether both are views of one tensor."""
    return isinstance(a, Tensor) and isinstance(b, Tensor) and a._base is b._base


def _trace(a: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None) -> Any:
    found = diagonal(a, offset, axis1, axis2)
    return found.sum(None if found.ndim == 1 else -1, dtype=dtype)


def _sort(tensor: Tensor, axis: int | None = -1, kind: str | None = None, stable: bool | None = None) -> Tensor:
    """Sort along an axis, or all elements; ``kind`` is ignored."""
    return sort(reshape(tensor, -1)) if axis is None else sort(tensor, axis)


def _where(condition: Any, *choices: Any) -> Any:
    if len(choices) == 1:
        raise InvalidValueError("np.where requires both x and y or neither, got one")
    return where(condition, *choices) if choices else nonzero(condition)


def _argsort(
    a: Tensor, axis: int | None = -1, kind: str | None = None, stable: bool | None = None
) -> NDArray[np.int64]:
    return argsort(reshape(a, -1)) if axis is None else argsort(a, axis)


def _astype(x: Tensor, dtype: DTypeLike, copy: bool = True, device: str | None = None) -> Tensor:
    return astype(x, dtype, copy=copy, device=device)


def _isin(element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False) -> Any:
    return isin(element, test_elements, assume_unique=assume_unique, invert=invert)


def _meshgrid(
    *xi: Any, copy: bool = True, sparse: bool = False, indexing: Literal["xy", "ij"] = "xy"
) -> tuple[Tensor, ...]:
    if sparse:
        raise UnsupportedError(
            "np.meshgrid(sparse=True) is not supported on sparse tensors: use A[:, None], B[None, :]"
        )
    return meshgrid(*xi, indexing=indexing)


def _search_sorted(a: Any, v: Any, side: Literal["left", "right"] = "left", sorter: Any = None) -> Any:
    return searchsorted(a, v, side=side, sorter=sorter)


def _can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    return np.can_cast(from_.dtype if isinstance(from_, Tensor) else from_, to, casting)


def _ravel(a: Tensor, order: Literal["C", "F", "A"] = "C") -> Tensor:
    return reshape(a, -1, order=order)


def _clip(a: Any, a_min: Any = _UNSET, a_max: Any = _UNSET, min: Any = None, max: Any = None) -> Any:
    """Clip with NumPy's names of the limits or those of the array API."""
    if a_min is _UNSET and a_max is _UNSET:
        return clip(a, min, max)
    if min is not None or max is not None:
        raise InvalidValueError("np.clip: pass a_min and a_max, or min and max, not both")
    return clip(a, *(None if limit is _UNSET else limit for limit in (a_min, a_max)))


def _size(a: Tensor, axis: int | tuple[int, ...] | None = None) -> int:
    if axis is None:
        return a.size
    axes = axis if isinstance(axis, tuple) else (axis,)
    return math.prod(a.shape[normalize_axis(one, a.ndim)] for one in axes)


def _on_dtypes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return NumPy's function of dtypes or arrays, applied to the dtypes of tensors."""
    return lambda *given: function(*(np.empty(0, one.dtype) if isinstance(one, Tensor) else one for one in given))


def _with_dtype_and_out(function: Callable[..., Tensor]) -> Callable[..., Any]:
    """Return a function with NumPy's ``dtype=``, ``casting=`` and ``out=``."""

    def call(*args: Any, dtype: DTypeLike | None = None, casting: Any = "same_kind", out: Any = None, **kw: Any) -> Any:
        found = function(*args, **kw)
        name = f"np.{function.__name__}"
        return write_out(out, found if dtype is None else found.astype(dtype, casting=casting), name, casting)

    return call


def _constant_like(value: Any) -> Callable[..., Tensor]:
    """Return ``np.zeros_like`` or its kin; ``order=`` and ``subok=`` are ignored."""

    def call(
        a: Any, dtype: Any = None, order: Any = None, subok: Any = None, shape: Any = None, device: str | None = None
    ) -> Tensor:
        return like(value, a, dtype, shape, device)

    return call


def _full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: Any = None, subok: Any = None, shape: Any = None,
    device: str | None = None,
) -> Tensor:  # fmt: skip
    return like(fill_value, a, dtype, shape, device)


def _copy(a: Tensor) -> Tensor:
    return asarray(a, copy=True)


def _flatnonzero(a: Tensor) -> NDArray[np.int64]:
    return nonzero(reshape(a, -1))[0]


def _matrix_diagonal(x: Tensor, offset: int = 0) -> Tensor:
    return diagonal(x, offset, -2, -1) if x.ndim > 2 else diagonal(x, offset)


def _matrix_trace(x: Tensor, offset: int = 0, dtype: DTypeLike | None = None) -> Any:
    return _trace(x, offset, *((-2, -1) if x.ndim > 2 else (0, 1)), dtype=dtype)


def _dot(a: Any, b: Any, out: Any = None) -> Any:
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


def _multi_dot(arrays: Sequence[Any], *, out: Any = None) -> Any:
    return write_out(out, multi_dot(arrays), "np.linalg.multi_dot")


def _inner(a: Any, b: Any) -> Any:
    if not np.ndim(a) or not np.ndim(b):
        return _multiply_scalar(a, b)
    return tensordot(a, b, axes=([np.ndim(a) - 1], [np.ndim(b) - 1]))


def _einsum(
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


def _vdot(a: Any, b: Any) -> Any:
    return vecdot(reshape(a, -1), reshape(b, -1))


def _matvec(a: Any, b: Any) -> Any:
    """Return matrix-vector products over the last axes."""
    b = b if isinstance(b, Tensor) else check_array(b, "np.matvec: x2")
    _check_matrices(a, "np.matvec: x1")
    return matmul(a, b) if np.ndim(b) < 2 else matmul(a, b[..., None])[..., 0]


def _vecmat(a: Any, b: Any) -> Any:
    """Return vector-matrix products, with conjugated vectors, over the last axes."""
    rows = a if isinstance(a, Tensor) else check_array(a, "np.vecmat: x1")
    rows = np.conj(rows) if rows.dtype.kind == "c" else rows
    _check_matrices(b, "np.vecmat: x2")
    return matmul(rows, b) if np.ndim(rows) < 2 else matmul(rows[..., None, :], b)[..., 0, :]


def _check_matrices(given: Any, what: str) -> None:
    if np.ndim(given) < 2:
        raise ShapeError(f"{what} must have at least 2 dimensions, got shape {np.shape(given)}")


def _outer_of_vectors(x1: Any, x2: Any) -> Tensor:
    if np.ndim(x1) != 1 or np.ndim(x2) != 1:
        raise ShapeError(f"np.linalg.outer: operands must be vectors, got shapes {np.shape(x1)} and {np.shape(x2)}")
    return outer(x1, x2)


def _diagflat(v: Any, k: int = 0) -> Tensor:
    return diag(reshape(v, -1), k)


def _extract(condition: Any, arr: Any) -> Any:
    return compress(reshape(condition, -1) if isinstance(condition, Tensor) else np.ravel(condition), arr)


def _rollaxis(a: Tensor, axis: int, start: int = 0) -> Tensor:
    at = normalize_axis(axis, a.ndim)
    to = a.ndim if start == a.ndim else normalize_axis(start, a.ndim)
    return moveaxis(a, at, to - (at < to))


def _angle(z: Tensor, deg: bool = False) -> Any:
    """Return the angles of complex numbers; pi for negative real ones."""
    found = np.arctan2(z.imag if z.dtype.kind == "c" else 0, z.real)
    return np.rad2deg(found) if deg else found


def _take(a: Tensor, indices: Any, axis: int | None = None, mode: Literal["raise", "clip", "wrap"] = "raise") -> Any:
    """Return slices at positions, which are checked, clipped or wrapped."""
    if mode == "raise":
        return take(a, indices, axis)
    if mode not in ("clip", "wrap"):
        raise InvalidValueError(f"mode must be 'raise', 'clip' or 'wrap', got {mode!r}")
    size = a.size if axis is None else a.shape[normalize_axis(axis, a.ndim)]
    places = np.asarray(indices)
    if places.size and not size:
        raise IndexingError("np.take: cannot take elements from an axis of size 0")
    return take(a, places.clip(0, size - 1) if mode == "clip" else places % max(size, 1), axis)


def _elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return an element-wise function of NumPy that is not a ufunc."""
    return lambda x: x._elementwise(function, x)


def _ignoring_nan(accumulate: Callable[..., Any], neutral: int) -> Callable[..., Any]:
    """Return a cumulative function that treats NaN as its neutral element."""

    def call(a: Tensor, axis: int | None = None, dtype: DTypeLike | None = None) -> Any:
        values = where(np.isnan(a), np.asarray(neutral, a.dtype), a) if a.dtype.kind in "fc" else a
        return accumulate(values, axis, dtype)

    return call


def _dense(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return NumPy's function applied to dense arrays: its result is dense by nature."""
    signature = inspect.signature(function)

    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        out = bound.arguments.pop("out", None)
        for name, one in bound.arguments.items():
            if isinstance(one, Tensor):
                bound.arguments[name] = np.asarray(one)
        return write_out(out, function(*bound.args, **bound.kwargs), f"np.{function.__name__}")

    return call


def _count_nonzero(tensor: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    if tensor.fill_value == 0:
        return tensor.count(axis, keepdims=keepdims)
    return (tensor != 0).sum(axis, keepdims=keepdims)


def _norm(tensor: Any, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Any:
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


def _matrix_norm(tensor: Any, keepdims: bool = False, ord: Any = "fro") -> Any:
    return _norm(tensor, ord, (-2, -1), keepdims)


def _copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """Copy elements to a tensor, which keeps its dtype, fill value and storage type."""
    if where is not True or casting != "same_kind":
        raise UnsupportedError("np.copyto does not support casting= and where= on tensors: use dst[mask] = src[mask]")
    given = src if hasattr(src, "dtype") else np.asarray(src)
    write_out(dst, given if np.shape(given) == dst.shape else np.broadcast_to(given, dst.shape), "np.copyto")


_TABLE: dict[Any, Any] = {
    np.all: Adapted(Tensor.all),
    np.allclose: Adapted(all_close),
    np.amax: Adapted(Tensor.max),
    np.amin: Adapted(Tensor.min),
    np.angle: Adapted(_angle),
    np.any: Adapted(Tensor.any),
    np.append: Adapted(append),
    np.argmax: Adapted(Tensor.argmax),
    np.argmin: Adapted(Tensor.argmin),
    np.argsort: Adapted(_argsort),
    np.argwhere: Adapted(argwhere),
    np.around: Adapted(Tensor.round),
    np.array_equal: Adapted(_array_equal, a2="b"),
    np.array_split: Adapted(array_split),
    np.astype: Adapted(_astype),
    np.atleast_1d: partial(at_least, 1),
    np.atleast_2d: partial(at_least, 2),
    np.atleast_3d: partial(at_least, 3),
    np.average: Adapted(average),
    np.bincount: bincount,
    np.block: block,
    np.broadcast_arrays: broadcast_arrays,
    np.broadcast_to: Adapted(broadcast_to),
    np.can_cast: Adapted(_can_cast),
    np.clip: Adapted(_clip),
    np.column_stack: Adapted(column_stack),
    np.common_type: _on_dtypes(np.common_type),
    np.compress: Adapted(compress),
    np.concatenate: _with_dtype_and_out(concat),
    np.copy: Adapted(_copy),
    np.copyto: _copyto,
    np.count_nonzero: Adapted(_count_nonzero),
    np.cumprod: Adapted(Tensor.cumprod),
    np.cumsum: Adapted(Tensor.cumsum),
    np.cumulative_prod: Adapted(cumulative_prod),
    np.cumulative_sum: Adapted(cumulative_sum),
    np.delete: Adapted(delete),
    np.diag: Adapted(diag),
    np.diagflat: Adapted(_diagflat),
    np.diagonal: Adapted(diagonal),
    np.diff: Adapted(diff),
    np.digitize: Adapted(digitize),
    np.dot: _dot,
    np.dsplit: dsplit,
    np.dstack: Adapted(dstack),
    np.einsum: _einsum,
    np.einsum_path: einsum_path,
    np.empty_like: _constant_like(0),
    np.expand_dims: Adapted(expand_dims),
    np.extract: _extract,
    np.fix: np.trunc,
    np.flatnonzero: Adapted(_flatnonzero),
    np.flip: Adapted(flip),
    np.fliplr: Adapted(fliplr),
    np.flipud: Adapted(flipud),
    np.full_like: _full_like,
    np.histogram: Adapted(histogram),
    np.hsplit: hsplit,
    np.hstack: _with_dtype_and_out(hstack),
    np.imag: lambda val: val.imag,
    np.inner: _inner,
    np.interp: Adapted(interp),
    np.intersect1d: Adapted(on_unique_values(np.intersect1d)),
    np.isclose: Adapted(isclose),
    np.iscomplex: lambda x: np.imag(x) != 0,
    np.iscomplexobj: _on_dtypes(np.iscomplexobj),
    np.isin: Adapted(_isin),
    np.isneginf: _elementwise(np.isneginf),
    np.isposinf: _elementwise(np.isposinf),
    np.isreal: lambda x: np.imag(x) == 0,
    np.isrealobj: _on_dtypes(np.isrealobj),
    np.kron: Adapted(kron),
    np.matrix_transpose: Adapted(matrix_transpose),
    np.matvec: _matvec,
    np.max: Adapted(Tensor.max),
    np.may_share_memory: _may_share_memory,
    np.mean: Adapted(Tensor.mean),
    np.median: Adapted(median),
    np.meshgrid: _meshgrid,
    np.min: Adapted(Tensor.min),
    np.moveaxis: Adapted(moveaxis),
    np.nan_to_num: Adapted(nan_to_num),
    np.nanargmax: Adapted(Tensor.nanargmax),
    np.nanargmin: Adapted(Tensor.nanargmin),
    np.nancumprod: Adapted(_ignoring_nan(Tensor.cumprod, 1)),
    np.nancumsum: Adapted(_ignoring_nan(Tensor.cumsum, 0)),
    np.nanmax: Adapted(Tensor.nanmax),
    np.nanmean: Adapted(Tensor.nanmean),
    np.nanmin: Adapted(Tensor.nanmin),
    np.nanprod: Adapted(Tensor.nanprod),
    np.nanstd: Adapted(Tensor.nanstd),
    np.nansum: Adapted(Tensor.nansum),
    np.nanvar: Adapted(Tensor.nanvar),
    np.ndim: lambda a: a.ndim,
    np.nonzero: Adapted(nonzero),
    np.ones_like: _constant_like(1),
    np.outer: Adapted(outer),
    np.pad: pad,
    np.percentile: Adapted(percentile),
    np.prod: Adapted(Tensor.prod),
    np.ptp: Adapted(ptp),
    np.quantile: Adapted(quantile),
    np.ravel: Adapted(_ravel),
    np.real: lambda val: val.real,
    np.repeat: Adapted(repeat),
    np.reshape: Adapted(reshape),
    np.result_type: result_type,
    np.roll: Adapted(roll),
    np.rollaxis: Adapted(_rollaxis),
    np.rot90: Adapted(rot90),
    np.round: Adapted(Tensor.round),
    np.searchsorted: Adapted(_search_sorted),
    np.select: Adapted(select),
    np.setdiff1d: Adapted(on_unique_values(np.setdiff1d)),
    np.setxor1d: Adapted(on_unique_values(np.setxor1d)),
    np.shape: lambda a: a.shape,
    np.shares_memory: _may_share_memory,
    np.size: Adapted(_size),
    np.sort: Adapted(_sort),
    np.split: Adapted(split),
    np.squeeze: Adapted(squeeze),
    np.stack: _with_dtype_and_out(stack),
    np.std: Adapted(Tensor.std),
    np.sum: Adapted(Tensor.sum),
    np.swapaxes: Adapted(swapaxes),
    np.take: Adapted(_take),
    np.take_along_axis: Adapted(take_along_axis),
    np.tensordot: tensordot,
    np.tile: Adapted(tile),
    np.trace: Adapted(_trace),
    np.transpose: lambda a, axes=None: a.transpose() if axes is None else a.transpose(axes),
    np.tril: Adapted(tril),
    np.triu: Adapted(triu),
    np.union1d: Adapted(on_unique_values(np.union1d)),
    np.unique: Adapted(unique),
    np.unique_all: Adapted(unique_all),
    np.unique_counts: Adapted(unique_counts),
    np.unique_inverse: Adapted(unique_inverse),
    np.unique_values: Adapted(unique_values),
    np.unstack: Adapted(unstack),
    np.var: Adapted(Tensor.var),
    np.vdot: _vdot,
    np.vecdot: vecdot,
    np.vecmat: _vecmat,
    np.vsplit: vsplit,
    np.vstack: _with_dtype_and_out(vstack),
    np.where: _where,
    np.zeros_like: _constant_like(0),
    np.fft.fftshift: Adapted(fftshift),
    np.fft.ifftshift: Adapted(ifftshift),
    np.linalg.diagonal: Adapted(_matrix_diagonal),
    np.linalg.matmul: matmul,
    np.linalg.matrix_norm: Adapted(_matrix_norm),
    np.linalg.matrix_power: matrix_power,
    np.linalg.matrix_transpose: Adapted(matrix_transpose),
    np.linalg.multi_dot: _multi_dot,
    np.linalg.norm: Adapted(_norm),
    np.linalg.outer: _outer_of_vectors,
    np.linalg.tensordot: tensordot,
    np.linalg.trace: Adapted(_matrix_trace),
    np.linalg.vecdot: vecdot,
    np.linalg.vector_norm: Adapted(Tensor.norm),
}

NUMPY_FUNCTIONS.update({own: found.to(own) if isinstance(found, Adapted) else found for own, found in _TABLE.items()})
NUMPY_FUNCTIONS.update(
    {
        function: _dense(function)
        for module in (np, np.linalg, np.fft)
        for name in (("corrcoef", "cov", "cross") if module is np else module.__all__)
        for function in (getattr(module, name),)
        if hasattr(function, "__wrapped__") and function not in NUMPY_FUNCTIONS
    }
)
