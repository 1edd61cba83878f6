"""NumPy's functions that work on tensors, ``np.concatenate([A, B])`` among them, and what does them.

Of any other NumPy's function a tensor says that it is not supported. Those that reduce are in
:mod:`sparrow.tensor.numpy_reductions`; functions of cells need no list, they come as ufuncs. What here is not NumPy's
way of naming arguments of a function of ``sp`` is in :mod:`sparrow.functions.numpy.functions`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
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
    of_sets,
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
from sparrow.functions.searching import searchsorted
from sparrow.functions.sets import isin, unique_all, unique_counts, unique_inverse, unique_values
from sparrow.functions.sorting import argsort, cumulative_prod, cumulative_sum, diff, sort
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
from sparrow.plan import resolved_axis
from sparrow.tensor import Tensor
from sparrow.tensor.operators import where
from sparrow.tensor.results import into
from sparrow.tensor.signatures import called_as

__all__: list[str] = []

_NOT_GIVEN = object()


def _array_equal(a: Any, b: Any) -> bool:
    """Return whether shapes and cells are equal."""
    one, other = as_tensor(a), as_tensor(b)
    return one.shape == other.shape and bool((one == other).all())


def _may_share_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    """Return whether both are views of one tensor: an array is always a copy of the cells of a tensor."""
    return isinstance(a, Tensor) and isinstance(b, Tensor) and a._base is b._base


def _trace(a: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None) -> Any:
    """Return the sums of diagonals."""
    found = diagonal(a, offset, axis1, axis2)
    return found.sum(None if found.ndim == 1 else -1, dtype=dtype)


def _sort(tensor: Tensor, axis: int | None = -1, kind: str | None = None, stable: bool | None = None) -> Tensor:
    """Return the cells in order, whatever the kind: equal values cannot be told apart; of no axis as a vector."""
    return sort(reshape(tensor, -1)) if axis is None else sort(tensor, axis)


def _where(condition: Any, *choices: Any) -> Any:
    """Return the cells of one or the other, or without these the positions at which the condition holds."""
    if len(choices) == 1:
        raise InvalidValueError("np.where takes both choices or none: say what the other cells are")
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
        raise UnsupportedError("np.meshgrid(sparse=True) is not supported on sparse tensors: A[:, None], B[None, :]")
    return meshgrid(*xi, indexing=indexing)


def _searchsorted(a: Any, v: Any, side: Literal["left", "right"] = "left", sorter: Any = None) -> Any:
    return searchsorted(a, v, side=side, sorter=sorter)


def _can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    return np.can_cast(from_.dtype if isinstance(from_, Tensor) else from_, to, casting)


def _ravel(a: Tensor, order: Literal["C", "F", "A"] = "C") -> Tensor:
    return reshape(a, -1, order=order)


def _clip(a: Any, a_min: Any = _NOT_GIVEN, a_max: Any = _NOT_GIVEN, min: Any = None, max: Any = None) -> Any:
    """Return the cells limited, with NumPy's names for the limits or those of the standard."""
    if a_min is _NOT_GIVEN and a_max is _NOT_GIVEN:
        return clip(a, min, max)
    if min is not None or max is not None:
        raise InvalidValueError("np.clip takes a_min and a_max, or min and max, not both")
    return clip(a, *(None if limit is _NOT_GIVEN else limit for limit in (a_min, a_max)))


def _size(a: Tensor, axis: int | tuple[int, ...] | None = None) -> int:
    if axis is None:
        return a.size
    axes = axis if isinstance(axis, tuple) else (axis,)
    return math.prod(a.shape[resolved_axis(one, a.ndim)] for one in axes)


def _typed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what NumPy's function of types or arrays does, of the types of tensors."""
    return lambda *given: function(*(np.empty(0, one.dtype) if isinstance(one, Tensor) else one for one in given))


def _joined(function: Callable[..., Tensor]) -> Callable[..., Any]:
    """Return what joins tensors, with NumPy's type of the result and its place."""

    def call(*args: Any, dtype: DTypeLike | None = None, casting: Any = "same_kind", out: Any = None, **kw: Any) -> Any:
        found = function(*args, **kw)
        name = f"np.{function.__name__}"
        return into(out, found if dtype is None else found.astype(dtype, casting=casting), name, casting)

    return call


def _like(value: Any) -> Callable[..., Tensor]:
    """Return what makes tensors of one value, whatever ``order=`` and ``subok=`` say of arrays in memory."""

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


def _last_diagonal(x: Tensor, offset: int = 0) -> Tensor:
    return diagonal(x, offset, -2, -1) if x.ndim > 2 else diagonal(x, offset)


def _last_trace(x: Tensor, offset: int = 0, dtype: DTypeLike | None = None) -> Any:
    return _trace(x, offset, *((-2, -1) if x.ndim > 2 else (0, 1)), dtype=dtype)


def _dot(a: Any, b: Any, out: Any = None) -> Any:
    """Return the sums of products over the last axis of one and the last but one of the other."""
    if not np.ndim(a) or not np.ndim(b):
        found = _scaled(a, b)
    else:
        found = tensordot(a, b, axes=([np.ndim(a) - 1], [max(np.ndim(b) - 2, 0)]))
    return into(out, found, "np.dot")


def _scaled(a: Any, b: Any) -> Any:
    """Return a product with a number, which has a type of its own here."""
    one, other = (each if isinstance(each, Tensor) else np.asarray(each) for each in (a, b))
    return np.multiply(one, other)


def _multi_dot(arrays: Sequence[Any], *, out: Any = None) -> Any:
    return into(out, multi_dot(arrays), "np.linalg.multi_dot")


def _inner(a: Any, b: Any) -> Any:
    if not np.ndim(a) or not np.ndim(b):
        return _scaled(a, b)
    return tensordot(a, b, axes=([np.ndim(a) - 1], [np.ndim(b) - 1]))


def _einsum(
    *operands: Any,
    out: Any = None,
    dtype: DTypeLike | None = None,
    order: Any = None,
    casting: Any = "safe",
    **own: Any,
) -> Any:
    """Return sums of products, with NumPy's rule of which types operands may be cast to."""
    given = [each.dtype for each in operands if isinstance(each, Tensor | np.ndarray)]
    if dtype is not None and not all(np.can_cast(each, dtype, casting) for each in given):
        names = ", ".join(map(str, given))
        raise UnsupportedError(f"np.einsum: casting={casting!r} does not allow {names} to become {np.dtype(dtype)}")
    return into(out, einsum(*operands, dtype=dtype, **own), "np.einsum")


def _vdot(a: Any, b: Any) -> Any:
    return vecdot(reshape(a, -1), reshape(b, -1))


def _matvec(a: Any, b: Any) -> Any:
    """Return the products of matrices and vectors."""
    b = b if isinstance(b, Tensor) else check_array(b, "np.matvec: x2")
    _check_matrices(a, "np.matvec: x1")
    return matmul(a, b) if np.ndim(b) < 2 else matmul(a, b[..., None])[..., 0]


def _vecmat(a: Any, b: Any) -> Any:
    """Return the products of vectors, their conjugates, and matrices."""
    rows = a if isinstance(a, Tensor) else check_array(a, "np.vecmat: x1")
    rows = np.conj(rows) if rows.dtype.kind == "c" else rows
    _check_matrices(b, "np.vecmat: x2")
    return matmul(rows, b) if np.ndim(rows) < 2 else matmul(rows[..., None, :], b)[..., 0, :]


def _check_matrices(given: Any, what: str) -> None:
    if np.ndim(given) < 2:
        raise ShapeError(f"{what} of shape {np.shape(given)} is no matrix")


def _vectors(x1: Any, x2: Any) -> Tensor:
    if np.ndim(x1) != 1 or np.ndim(x2) != 1:
        raise ShapeError(f"np.linalg.outer takes two vectors, got shapes {np.shape(x1)} and {np.shape(x2)}")
    return outer(x1, x2)


def _diagflat(v: Any, k: int = 0) -> Tensor:
    """Return the matrix with the cells on a diagonal."""
    return diag(reshape(v, -1), k)


def _extract(condition: Any, arr: Any) -> Any:
    """Return the cells at which a condition holds, as a vector."""
    return compress(reshape(condition, -1) if isinstance(condition, Tensor) else np.ravel(condition), arr)


def _rollaxis(a: Tensor, axis: int, start: int = 0) -> Tensor:
    """Return the view with an axis before another, or as the last one."""
    at = resolved_axis(axis, a.ndim)
    to = a.ndim if start == a.ndim else resolved_axis(start, a.ndim)
    return moveaxis(a, at, to - (at < to))


def _angle(z: Tensor, deg: bool = False) -> Any:
    """Return the angles of complex numbers; pi where a real one is negative."""
    found = np.arctan2(z.imag if z.dtype.kind == "c" else 0, z.real)
    return np.rad2deg(found) if deg else found


def _take(a: Tensor, indices: Any, axis: int | None = None, mode: Literal["raise", "clip", "wrap"] = "raise") -> Any:
    """Return slices by their numbers; those out of range are refused, or the nearest, or counted round and round."""
    if mode == "raise":
        return take(a, indices, axis)
    if mode not in ("clip", "wrap"):
        raise InvalidValueError(f"mode={mode!r} must be 'raise', 'clip' or 'wrap'")
    size = a.size if axis is None else a.shape[resolved_axis(axis, a.ndim)]
    places = np.asarray(indices)
    if places.size and not size:
        raise IndexingError("np.take: there is nothing to take from an axis of size 0")
    return take(a, places.clip(0, size - 1) if mode == "clip" else places % max(size, 1), axis)


def _of_cells(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of cells that NumPy has, but not as a ufunc."""
    return lambda x: x._cells(function, x)


def _without_nan(accumulated: Callable[..., Any], neutral: int) -> Callable[..., Any]:
    """Return what accumulates cells, of which NaN do not count."""

    def call(a: Tensor, axis: int | None = None, dtype: DTypeLike | None = None) -> Any:
        cells = where(np.isnan(a), np.asarray(neutral, a.dtype), a) if a.dtype.kind in "fc" else a
        return accumulated(cells, axis, dtype)

    return call


def _dense(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return NumPy's function of the dense cells of tensors: what it makes is dense by nature."""
    signature = inspect.signature(function)

    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        out = bound.arguments.pop("out", None)
        for name, one in bound.arguments.items():
            if isinstance(one, Tensor):
                bound.arguments[name] = np.asarray(one)
        return into(out, function(*bound.args, **bound.kwargs), f"np.{function.__name__}")

    return call


_OWN: dict[Any, Callable[..., Any]] = {
    np.allclose: all_close,
    np.angle: _angle,
    np.amax: Tensor.max,
    np.amin: Tensor.min,
    np.append: append,
    np.argsort: _argsort,
    np.argwhere: argwhere,
    np.around: Tensor.round,
    np.array_split: array_split,
    np.astype: _astype,
    np.average: average,
    np.broadcast_to: broadcast_to,
    np.column_stack: column_stack,
    np.compress: compress,
    np.copy: _copy,
    np.cumulative_prod: cumulative_prod,
    np.cumulative_sum: cumulative_sum,
    np.delete: delete,
    np.diag: diag,
    np.diagflat: _diagflat,
    np.diagonal: diagonal,
    np.diff: diff,
    np.digitize: digitize,
    np.dstack: dstack,
    np.expand_dims: expand_dims,
    np.flatnonzero: _flatnonzero,
    np.flip: flip,
    np.fliplr: fliplr,
    np.flipud: flipud,
    np.histogram: histogram,
    np.interp: interp,
    np.intersect1d: of_sets(np.intersect1d),
    np.isclose: isclose,
    np.isin: _isin,
    np.kron: kron,
    np.linalg.diagonal: _last_diagonal,
    np.linalg.matrix_transpose: matrix_transpose,
    np.linalg.trace: _last_trace,
    np.matrix_transpose: matrix_transpose,
    np.median: median,
    np.moveaxis: moveaxis,
    np.nan_to_num: nan_to_num,
    np.nancumprod: _without_nan(Tensor.cumprod, 1),
    np.nancumsum: _without_nan(Tensor.cumsum, 0),
    np.nonzero: nonzero,
    np.outer: outer,
    np.percentile: percentile,
    np.ptp: ptp,
    np.quantile: quantile,
    np.ravel: _ravel,
    np.repeat: repeat,
    np.reshape: reshape,
    np.roll: roll,
    np.rollaxis: _rollaxis,
    np.rot90: rot90,
    np.round: Tensor.round,
    np.select: select,
    np.setdiff1d: of_sets(np.setdiff1d),
    np.setxor1d: of_sets(np.setxor1d),
    np.size: _size,
    np.sort: _sort,
    np.split: split,
    np.squeeze: squeeze,
    np.swapaxes: swapaxes,
    np.take: _take,
    np.take_along_axis: take_along_axis,
    np.tile: tile,
    np.trace: _trace,
    np.tril: tril,
    np.triu: triu,
    np.union1d: of_sets(np.union1d),
    np.unique: unique,
    np.unique_all: unique_all,
    np.unique_counts: unique_counts,
    np.unique_inverse: unique_inverse,
    np.unique_values: unique_values,
    np.unstack: unstack,
}
Tensor._functions.update({function: called_as(function, own) for function, own in _OWN.items()})
Tensor._functions.update(
    {
        np.array_equal: called_as(np.array_equal, _array_equal, a2="b"),
        np.block: block,
        np.dsplit: dsplit,
        np.extract: _extract,
        np.fix: np.trunc,
        np.hsplit: hsplit,
        np.iscomplex: lambda x: np.imag(x) != 0,
        np.isneginf: _of_cells(np.isneginf),
        np.isposinf: _of_cells(np.isposinf),
        np.isreal: lambda x: np.imag(x) == 0,
        np.vsplit: vsplit,
        np.atleast_1d: partial(at_least, 1),
        np.atleast_2d: partial(at_least, 2),
        np.atleast_3d: partial(at_least, 3),
        np.bincount: bincount,
        np.broadcast_arrays: broadcast_arrays,
        np.can_cast: called_as(np.can_cast, _can_cast),
        np.clip: called_as(np.clip, _clip),
        np.dot: _dot,
        np.einsum: _einsum,
        np.einsum_path: einsum_path,
        np.inner: _inner,
        np.linalg.matmul: matmul,
        np.linalg.matrix_power: matrix_power,
        np.linalg.multi_dot: _multi_dot,
        np.linalg.outer: _vectors,
        np.linalg.tensordot: tensordot,
        np.linalg.vecdot: vecdot,
        np.matvec: _matvec,
        np.tensordot: tensordot,
        np.vdot: _vdot,
        np.vecmat: _vecmat,
        np.concatenate: _joined(concat),
        np.common_type: _typed(np.common_type),
        np.empty_like: _like(0),
        np.full_like: _full_like,
        np.hstack: _joined(hstack),
        np.iscomplexobj: _typed(np.iscomplexobj),
        np.isrealobj: _typed(np.isrealobj),
        np.may_share_memory: _may_share_memory,
        np.meshgrid: _meshgrid,
        np.ones_like: _like(1),
        np.pad: pad,
        np.result_type: result_type,
        np.shares_memory: _may_share_memory,
        np.stack: _joined(stack),
        np.vecdot: vecdot,
        np.vstack: _joined(vstack),
        np.zeros_like: _like(0),
        np.searchsorted: called_as(np.searchsorted, _searchsorted),
        np.where: _where,
    }
)
Tensor._functions.update({np.fft.fftshift: called_as(np.fft.fftshift, fftshift)})
Tensor._functions.update({np.fft.ifftshift: called_as(np.fft.ifftshift, ifftshift)})
Tensor._functions.update(
    {
        function: _dense(function)
        for module in (np, np.linalg, np.fft)
        for name in (("corrcoef", "cov", "cross") if module is np else module.__all__)
        for function in (getattr(module, name),)
        if hasattr(function, "__wrapped__") and function not in Tensor._functions
    }
)
