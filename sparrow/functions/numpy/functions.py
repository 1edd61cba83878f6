"""NumPy's functions beyond the array API standard.

They are reached through NumPy: ``np.quantile(A, 0.5)``. See :mod:`sparrow.functions.numpy.dispatch`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow import engines
from sparrow.core.schema import as_integer, as_integers, check_array
from sparrow.errors import InvalidValueError, NumberRangeError, ShapeError, UnsupportedError
from sparrow.functions.creation import from_coords
from sparrow.functions.elementwise import logical_not
from sparrow.functions.generation import full, full_like
from sparrow.functions.indexing import take
from sparrow.functions.labels import align
from sparrow.functions.manipulation import concat, diagonal, nonzero, reshape, split
from sparrow.functions.products import outer_product
from sparrow.functions.searching import where
from sparrow.functions.sets import unique_counts
from sparrow.functions.views import as_tensor, as_tensors, expand_dims, flip, moveaxis, swapaxes
from sparrow.plan import align_columns, normalize_axis
from sparrow.runtime import memory
from sparrow.tensor import Tensor
from sparrow.tensor.matching import match_axes, to_labelled

__all__ = [
    "Digitize", "Interp", "IsClose", "NanToNum", "all_close", "append", "argwhere", "array_split", "at_least",
    "average", "bincount", "block", "column_stack", "compress", "delete", "diag", "digitize", "dsplit", "dstack",
    "fliplr", "flipud", "histogram", "hsplit", "hstack", "interp", "isclose", "like", "nan_to_num",
    "on_unique_values", "outer", "ptp", "rot90", "select", "sliding_window_view",
    "unique", "vsplit", "vstack",
]  # fmt: skip


def like(value: Any, a: Any, dtype: Any = None, shape: Any = None, device: str | None = None) -> Tensor:
    """Return a tensor of one value like another: ``np.full_like``."""
    tensor = as_tensor(a)
    if shape is None:
        return full_like(tensor, value, dtype, device=device)
    return full(shape, value, tensor.dtype if dtype is None else dtype, device=device)


def at_least(ndim: int, *tensors: Any) -> Any:
    """Return views with new axes, as ``np.atleast_1d`` and its kin do."""
    found = []
    for tensor in map(as_tensor, tensors):
        while tensor.ndim < ndim:
            tensor = expand_dims(tensor, 2 if tensor.ndim == 2 else 0)
        found.append(tensor)
    return found[0] if len(found) == 1 else tuple(found)


def vstack(tup: Sequence[Any]) -> Tensor:
    """Concatenate along the first axis, vectors as rows."""
    return concat([at_least(2, one) for one in as_tensors(tup)])


def hstack(tup: Sequence[Any]) -> Tensor:
    """Concatenate along the second axis, vectors along their only one."""
    found = [at_least(1, one) for one in as_tensors(tup)]
    return concat(found, 0 if found and found[0].ndim == 1 else 1)


def dstack(tup: Sequence[Any]) -> Tensor:
    """Concatenate along the third axis."""
    return concat([at_least(3, one) for one in as_tensors(tup)], 2)


def column_stack(tup: Sequence[Any]) -> Tensor:
    """Concatenate along the second axis, vectors as columns."""
    found = [at_least(1, one) for one in as_tensors(tup)]
    return concat([one[:, None] if one.ndim == 1 else one for one in found], 1)


def append(arr: Any, values: Any, axis: int | None = None) -> Tensor:
    """Concatenate two tensors along an axis, or all their elements."""
    return concat([arr, values], axis)


def array_split(ary: Any, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Split a tensor into views of nearly equal size, or between positions."""
    tensor = as_tensor(ary)
    if isinstance(indices_or_sections, int | np.integer):
        parts, size = int(indices_or_sections), tensor.shape[normalize_axis(axis, tensor.ndim)]
        if parts < 1:
            raise InvalidValueError(f"array_split: the number of sections must be positive, got {parts}")
        least, longer = divmod(size, parts)
        indices_or_sections = [k * least + min(k, longer) for k in range(1, parts)]
    return split(tensor, indices_or_sections, axis)


def hsplit(ary: Any, indices_or_sections: int | Sequence[int]) -> list[Tensor]:
    """Split a tensor along the second axis, a vector along its only one."""
    tensor = as_tensor(ary)
    return split(tensor, indices_or_sections, 1 if tensor.ndim > 1 else 0)


def vsplit(ary: Any, indices_or_sections: int | Sequence[int]) -> list[Tensor]:
    """Split a tensor of at least two dimensions along the first axis."""
    return _split(ary, indices_or_sections, 0, 2)


def dsplit(ary: Any, indices_or_sections: int | Sequence[int]) -> list[Tensor]:
    """Split a tensor of at least three dimensions along the third axis."""
    return _split(ary, indices_or_sections, 2, 3)


def _split(ary: Any, indices_or_sections: int | Sequence[int], axis: int, min_ndim: int) -> list[Tensor]:
    tensor = as_tensor(ary)
    if tensor.ndim < min_ndim:
        raise ShapeError(f"a split along axis {axis} requires at least {min_ndim} dimensions, got shape {tensor.shape}")
    return split(tensor, indices_or_sections, axis)


def block(arrays: Any) -> Tensor:
    """Assemble a tensor from nested lists of blocks."""
    if not isinstance(arrays, list):
        return at_least(0, arrays)  # type: ignore[no-any-return]
    depth, leaves = _flatten_lists(arrays)
    ndim = max(depth, *(leaf.ndim for leaf in leaves))
    blocks = iter([_prepend_axes(leaf, ndim) for leaf in leaves])

    def assemble(part: Any, axis: int) -> Tensor:
        return concat([assemble(one, axis + 1) for one in part], axis) if isinstance(part, list) else next(blocks)

    return assemble(arrays, -depth)


def _flatten_lists(arrays: list[Any]) -> tuple[int, list[Tensor]]:
    """Return the depth of nested lists, and the blocks in them as tensors."""
    found: list[Any] = []

    def depth(part: Any) -> int:
        if not isinstance(part, list):
            found.append(part)
            return 0
        below = {depth(one) for one in part}
        if len(below) != 1:
            raise ShapeError("np.block: lists must be non-empty and of one depth")
        return 1 + below.pop()

    return depth(arrays), as_tensors(found)


def _prepend_axes(tensor: Tensor, ndim: int) -> Tensor:
    """Return a view with leading axes added up to a number of dimensions."""
    view: Tensor = tensor[(*(None,) * (ndim - tensor.ndim), ...)]
    return view


def delete(arr: Any, obj: Any, axis: int | None = None) -> Any:
    """Return slices of an axis, or elements, without some, lazily."""
    if not isinstance(arr, Tensor):
        return np.delete(arr, obj.to_numpy(), axis)
    tensor = arr
    at = 0 if axis is None else normalize_axis(axis, tensor.ndim)
    lines = reshape(tensor, -1) if axis is None else tensor
    if isinstance(obj, Tensor) and obj.dtype == bool:
        obj = match_axes(obj, lines, {0: at}, "delete: obj", "mask")
        if obj.shape != lines.shape[at : at + 1]:
            raise ShapeError(f"delete: a mask must have shape {lines.shape[at : at + 1]}, got {obj.shape}")
        kept: Tensor = lines[(*(slice(None),) * at, logical_not(obj), ...)]
        return kept
    obj = obj.to_numpy() if isinstance(obj, Tensor) else obj
    memory.check(17 * lines.shape[at], f"a list of {lines.shape[at]} positions", "concatenate views of the rest")
    view: Tensor = lines[(*(slice(None),) * at, np.delete(np.arange(lines.shape[at]), obj), ...)]
    return view


def flipud(m: Any) -> Tensor:
    """Return the view with the first axis reversed."""
    return flip(m, 0)


def fliplr(m: Any) -> Tensor:
    """Return the view with the second axis reversed."""
    return flip(m, 1)


def rot90(m: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    """Return the view rotated by ``k`` times 90 degrees in the plane of two axes."""
    tensor = as_tensor(m)
    one, other = (normalize_axis(axis, tensor.ndim) for axis in axes)
    if one == other:
        raise ShapeError(f"rot90: axes must be two different axes, got {tuple(axes)}")
    turns = as_integer(k, "k") % 4
    if turns == 2:
        return flip(tensor, (one, other))
    if turns == 1:
        return swapaxes(flip(tensor, other), one, other)
    return flip(swapaxes(tensor, one, other), other) if turns else tensor


def diag(v: Any, k: int = 0) -> Tensor:
    """Return a diagonal of a matrix, or the matrix with a vector as its diagonal."""
    tensor = as_tensor(v)
    if tensor.ndim != 1:
        return diagonal(tensor, k)
    offset = as_integer(k, "k")
    stored = (tensor if tensor.fill_value == 0 else tensor.refill(0)).to_format("coo")
    position = stored.coords[0].astype(np.int64)
    size = len(tensor) + abs(offset)
    return from_coords([position + max(-offset, 0), position + max(offset, 0)], stored.data, shape=(size, size))


def argwhere(a: Any) -> NDArray[np.int64]:
    """Return the coordinates of the non-zero elements, one row per element."""
    tensor = as_tensor(a)
    if not tensor.ndim:
        return np.argwhere(tensor.to_numpy())
    return np.stack(nonzero(tensor), axis=1)


@dataclass(frozen=True, eq=False)
class Digitize:
    """Element-wise number of the bin between edges."""

    bins: NDArray[Any]
    right: bool

    def __call__(self, x: Any) -> Any:
        """Return the number of the bin of each element."""
        return np.digitize(x, self.bins, self.right)


def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """Return the number of the bin of each element, lazily."""
    function = Digitize(np.asarray(bins), right)
    return x._elementwise(function, x) if isinstance(x, Tensor) else function(x)


@dataclass(frozen=True)
class IsClose:
    """Element-wise comparison within tolerances."""

    rtol: float
    atol: float
    equal_nan: bool

    def __call__(self, a: Any, b: Any) -> Any:
        """Return whether elements are close."""
        return np.isclose(a, b, self.rtol, self.atol, self.equal_nan)


def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Return whether elements are equal within tolerances, lazily; shapes broadcast."""
    tensor = a if isinstance(a, Tensor) else b if isinstance(b, Tensor) else as_tensor(a)
    return tensor._elementwise(IsClose(_number(rtol, "rtol"), _number(atol, "atol"), bool(equal_nan)), a, b)


def all_close(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Return whether all elements are equal within tolerances."""
    return bool(isclose(a, b, rtol, atol, equal_nan).all())


@dataclass(frozen=True)
class NanToNum:
    """Element-wise replacement of NaN and infinities by numbers."""

    nan: float
    posinf: float | None
    neginf: float | None

    def __call__(self, x: Any) -> Any:
        """Return finite elements."""
        return np.nan_to_num(x, nan=self.nan, posinf=self.posinf, neginf=self.neginf)


def nan_to_num(
    x: Any, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Any:
    """Replace NaN and infinities by numbers, lazily."""
    if not copy:
        raise UnsupportedError("np.nan_to_num(copy=False) is not supported: use A[...] = np.nan_to_num(A)")
    return as_tensor(x)._elementwise(NanToNum(nan, posinf, neginf), x)


@dataclass(frozen=True, eq=False)
class Interp:
    """Element-wise piecewise linear function."""

    xp: NDArray[Any]
    fp: NDArray[Any]
    outside: tuple[Any, Any, Any]

    def __call__(self, x: Any) -> Any:
        """Return the interpolated values."""
        return np.interp(x, self.xp, self.fp, *self.outside)


def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """Return a piecewise linear function of the elements, lazily."""
    given, values = map(np.asarray, align_columns([xp, fp], ["interp: xp", "interp: fp"]))
    if given.ndim != 1 or given.shape != values.shape or not len(given):
        raise ShapeError(
            f"np.interp: xp and fp must be non-empty vectors of one length, got shapes {given.shape} and {values.shape}"
        )
    function = Interp(given, values, (left, right, period))
    return x._elementwise(function, x) if isinstance(x, Tensor) else function(x)


def outer(a: Any, b: Any) -> Tensor:
    """Return the outer product of the elements of two tensors, lazily."""
    return outer_product(reshape(a, -1), reshape(b, -1))


def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    equal_nan: bool = True,
) -> Any:
    """Return the distinct values of all elements and their counts.

    Positions, inverse positions and distinct slices are computed on the dense array.
    """
    if return_index or return_inverse or axis is not None:
        dense = as_tensor(ar).to_numpy()
        options: dict[str, Any] = {
            "return_index": return_index, "return_inverse": return_inverse, "return_counts": return_counts,
        }  # fmt: skip
        return np.unique(dense, equal_nan=equal_nan, axis=axis, **options)
    values, counts = unique_counts(ar)
    merged = np.isnan(values) if equal_nan and values.dtype.kind in "fc" else np.zeros(len(values), bool)
    if merged.sum() > 1:
        first = int(merged.argmax())
        values, counts = np.append(values[~merged], values[first]), np.append(counts[~merged], counts[merged].sum())
    return (values, counts) if return_counts else values


def on_unique_values(function: Callable[..., NDArray[Any]]) -> Callable[..., Any]:
    """Return NumPy's function of two sets, applied to the distinct values of tensors."""

    def call(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
        return function(*(unique(one) if isinstance(one, Tensor) else one for one in (ar1, ar2)))

    return call


def ptp(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the difference of the largest and the smallest element."""
    tensor = as_tensor(a)
    return tensor.max(axis, keepdims=keepdims) - tensor.min(axis, keepdims=keepdims)


def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, keepdims: bool = False) -> Any:
    """Return the weighted mean."""
    tensor = as_tensor(a)
    if weights is None:
        mean = tensor.mean(axis, keepdims=keepdims)
        number = tensor.size / max(math.prod(np.shape(mean)), 1)
        return (mean, np.full(np.shape(mean), number, mean.dtype)[()]) if returned else mean
    shares = weights if isinstance(weights, Tensor) else np.asarray(weights)
    if shares.ndim == tensor.ndim:
        shares = match_axes(shares, tensor, {k: k for k in range(tensor.ndim)}, "average: weights", "values")
    elif axis is not None and shares.ndim == np.size(axis):
        given = axis if isinstance(axis, tuple) else (axis,)
        axes = {k: normalize_axis(one, tensor.ndim) for k, one in enumerate(given)}
        shares = match_axes(shares, tensor, axes, "average: weights", "values")
    if shares.shape != tensor.shape:
        if axis is None:
            raise UnsupportedError(
                f"average: weights of shape {shares.shape} require axis= for a tensor of shape {tensor.shape}"
            )
        along = [normalize_axis(one, tensor.ndim) for one in (axis if isinstance(axis, tuple) else (axis,))]
        if shares.shape != tuple(tensor.shape[one] for one in along):
            raise ShapeError(
                f"average: weights of shape {shares.shape} do not match axes {along} of shape {tensor.shape}"
            )
        shares = shares.transpose(np.argsort(along).tolist())
        shares = shares[tuple(slice(None) if k in along else None for k in range(tensor.ndim))]
        shares = np.broadcast_to(shares, tensor.shape)
    wide = np.result_type(tensor.dtype, shares.dtype, *(() if tensor.dtype.kind in "fc" else (np.float64,)))
    total = np.sum(shares, axis=axis, dtype=wide, keepdims=keepdims)
    if (total == 0).any():
        raise InvalidValueError("average: weights must not sum to 0")
    found = np.sum(tensor * shares, axis=axis, keepdims=keepdims) / total
    return (found, total) if returned else found


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    """Return elements of the first choice whose condition is True, lazily."""
    if len(condlist) != len(choicelist) or not len(condlist):
        raise InvalidValueError(
            f"select: expected one condition per choice, got {len(condlist)} conditions and {len(choicelist)} choices"
        )
    dtype = np.result_type(*map(_dtype_operand, (*choicelist, default)))
    found = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        tensors = any(isinstance(one, Tensor) for one in (condition, choice, found))
        found = (where if tensors else np.where)(condition, choice, found).astype(dtype)
    return found


def _dtype_operand(choice: Any) -> Any:
    """Return an operand of ``np.result_type`` for a choice."""
    return choice if type(choice) in (int, float, complex) else getattr(choice, "dtype", None) or np.asarray(choice)


def compress(condition: Any, a: Any, axis: int | None = None) -> Any:
    """Return the slices of an axis where a condition is True, lazily."""
    tensor = as_tensor(a)
    condition = to_labelled(condition, tensor)
    mask = condition if isinstance(condition, Tensor) else check_array(condition, "condition")
    if mask.ndim != 1:
        raise ShapeError(f"compress: the condition must be a vector, got shape {mask.shape}")
    at = 0 if axis is None else normalize_axis(axis, tensor.ndim)
    lines = reshape(tensor, -1) if axis is None else tensor
    mask = match_axes(mask, lines, {0: at}, "compress: the condition", "mask")
    positions = nonzero(mask)[0] if isinstance(mask, Tensor) else np.flatnonzero(mask)
    return lines[(*(slice(None),) * at, positions, ...)]


def _numbers(given: Any, name: str) -> NDArray[np.float64]:
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidValueError(f"{name} must be numeric, got {given!r}") from None


def _number(given: Any, name: str) -> float:
    found = _numbers(given, name)
    if found.ndim:
        raise InvalidValueError(f"{name} must be a single number, got {given!r}")
    return float(found)


def histogram(
    a: Any,
    bins: Any = 10,
    range: tuple[float, float] | None = None,
    density: bool | None = None,
    weights: Any = None,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the number or weight of the elements in each bin, and the bin edges."""
    tensor = as_tensor(a)
    if isinstance(bins, str):
        raise UnsupportedError(f"np.histogram(bins={bins!r}) is not supported: pass a number or edges")
    bins = bins.to_numpy() if isinstance(bins, Tensor) else bins
    if not isinstance(a, Tensor):
        own = weights.to_numpy() if isinstance(weights, Tensor) else weights
        return np.histogram(np.asarray(a), bins, range, density, own)
    if weights is not None:
        values, shares = _weigh_values(tensor, weights, "histogram")
        return np.histogram(values, bins, range, density, shares)
    if tensor.dtype == bool:
        tensor = tensor.astype(np.uint8)
    ends: Any = range
    if ends is None and not np.ndim(bins) and tensor.size:
        ends = tensor.min(), tensor.max()
    counts, edges = np.histogram(np.zeros(0, tensor.dtype), bins, ends)
    stored = 0
    for block in engines.iter_blocks(tensor.__sparrow_scan__(), axes=()):
        counts += np.histogram(block.values, bins, ends)[0]
        stored += block.count
    absent = tensor.size - stored
    if absent > np.iinfo(np.int64).max:
        raise NumberRangeError(
            f"np.histogram: {absent} absent elements of shape {tensor.shape} exceed the largest count, 2^63 - 1: take "
            "a smaller view"
        )
    counts += absent * np.histogram(np.asarray([tensor.fill_value], tensor.dtype), bins, ends)[0]
    return (counts / np.diff(edges) / counts.sum() if density else counts), edges


def bincount(x: Any, weights: Any = None, minlength: int = 0) -> NDArray[Any]:
    """Return the number, or weight, of occurrences of 0, 1, 2, ... in a vector."""
    tensor = as_tensor(x)
    if tensor.ndim != 1:
        raise ShapeError(f"bincount: x must be a vector, got shape {tensor.shape}")
    if tensor.dtype.kind not in "iub":
        raise UnsupportedError(f"bincount: x must be integers, got {tensor.dtype}")
    values, numbers = unique_counts(tensor) if weights is None else _weigh_values(tensor, weights, "bincount")
    if len(values) and (smallest := int(values.min())) < 0:
        raise InvalidValueError(f"bincount: x must not be negative, got {smallest}")
    size = max(minlength, int(values.max()) + 1 if len(values) else 0)
    if weights is not None:
        return np.bincount(values.astype(np.int64), numbers, size)
    counts = np.zeros(size, np.int64)
    counts[values.astype(np.int64)] = numbers
    return counts


def _weigh_values(tensor: Tensor, weights: Any, function: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the values of elements with their weights.

    The last one is the fill value, with the weight of all absent elements together.
    """
    shares: Any = weights if isinstance(weights, Tensor) else np.asarray(weights)
    if shares.shape != tensor.shape:
        raise ShapeError(f"{function}: weights must have shape {tensor.shape}, got {shares.shape}")
    if isinstance(shares, Tensor):
        tensor, shares = align(tensor, shares, join="exact")
    stored = tensor.to_format("coo")
    at = tuple(stored.coords)
    own = shares.vindex[at].to_numpy() if isinstance(shares, Tensor) else shares[at]
    if len(own) == tensor.size:
        return stored.data, own
    fill = tensor.fill_value
    is_absent = tensor == fill if fill == fill else np.isnan(tensor)
    rest = np.sum(shares, where=is_absent) if isinstance(shares, Tensor) else as_tensor(shares).sum(where=is_absent)
    return np.append(stored.data, fill), np.append(own, np.asarray(rest, own.dtype))


def sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Tensor:
    """Return the windows that slide along axes, lazily; ``subok=`` is ignored."""
    tensor = as_tensor(x)
    sizes = as_integers(window_shape, "window_shape")
    axes = range(tensor.ndim) if axis is None else [normalize_axis(at, tensor.ndim) for at in as_integers(axis, "axis")]
    if writeable:
        raise UnsupportedError("sliding_window_view(writeable=True) is not supported on sparse tensors: omit it")
    if len(sizes) != len(axes):
        raise InvalidValueError(f"sliding_window_view: expected {len(axes)} sizes of windows, got {len(sizes)}")
    for at, size in zip(axes, sizes, strict=True):
        length = tensor.shape[at]
        if not 0 <= size <= length:
            raise InvalidValueError(
                f"sliding_window_view: the window of axis {at} must have from 0 to {length} elements, got {size}"
            )
        count = length - size + 1
        memory.check(8 * count * size, f"a list of {count * size} positions", "take a part of the tensor")
        tensor = moveaxis(take(tensor, np.add.outer(np.arange(count), np.arange(size)), at), at + 1, -1)
    return tensor
