"""NumPy's quantiles of sparse tensors, of all elements or those not NaN.

Lines are sorted lazily; a quantile is an element of its line, or lies between two neighbors. The position in the line
is computed by NumPy's formulas (Hyndman and Fan 1996) in NumPy's types, so results are bit-identical.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparrow.errors import InvalidValueError, ShapeError, UnsupportedError
from sparrow.functions.creation import from_coords
from sparrow.functions.manipulation import concat, nonzero, reshape
from sparrow.functions.searching import where
from sparrow.functions.sorting import sort
from sparrow.functions.views import as_tensor, expand_dims, moveaxis
from sparrow.plan import normalize_axis
from sparrow.tensor import Tensor

__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]

_CONTINUOUS = {
    "interpolated_inverted_cdf": (0, 1), "hazen": (0.5, 0.5), "weibull": (0, 0),
    "median_unbiased": (1 / 3.0, 1 / 3.0), "normal_unbiased": (3 / 8.0, 3 / 8.0),
}  # fmt: skip
"""Parameters alpha and beta of the continuous methods."""
_DISCRETE = ("inverted_cdf", "closest_observation", "lower", "higher", "nearest")
"""Methods whose results are elements."""
_METHODS = ("linear", *_CONTINUOUS, "averaged_inverted_cdf", "midpoint", *_DISCRETE)
_MAX_EXACT_SIZE = 2**53
"""Length of a line up to which a position is exact as a float."""


class _Place(NamedTuple):
    """Place of a quantile in a sorted line: between two positions."""

    low: int
    high: int
    share: Any
    """Distance from ``low`` to ``high``, from 0 to 1; None if the quantile is the element at ``low``."""


def quantile(a: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False) -> Any:
    """Return quantiles of lines along axes, lazily."""
    return _quantiles(a, q, axis, method, keepdims, ignore_nan=False)


def nanquantile(a: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False) -> Any:
    """Return quantiles of lines along axes, ignoring NaN."""
    return _quantiles(a, q, axis, method, keepdims, ignore_nan=True)


def percentile(a: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False) -> Any:
    """Return :func:`quantile` of percentages."""
    return quantile(a, _percent(q), axis, method, keepdims)


def nanpercentile(a: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False) -> Any:
    """Return :func:`nanquantile` of percentages."""
    return nanquantile(a, _percent(q), axis, method, keepdims)


def _percent(q: Any) -> Any:
    return q / 100 if type(q) in (int, float) else np.true_divide(_shares(q), 100)


def median(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the median of lines along axes, lazily; NaN of lines without elements."""
    return _median(a, axis, keepdims, ignore_nan=False)


def nanmedian(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the median of lines along axes, ignoring NaN."""
    return _median(a, axis, keepdims, ignore_nan=True)


def _median(a: Any, axis: Any, keepdims: bool, ignore_nan: bool) -> Any:
    tensor = as_tensor(a)
    if not tensor.size:
        found = tensor.mean(axis, keepdims=keepdims)  # NaN of empty lines
        return found.astype(found.dtype if found.dtype.kind == "f" else np.float64)
    lines, kept_shape = _sorted_lines(tensor.astype(np.float64) if tensor.dtype == bool else tensor, axis)
    lines = lines if lines.dtype.kind == "f" else lines.astype(np.float64)

    def middle(size: int) -> _Place:
        return _Place((size - 1) // 2, size // 2, None)

    def mean(low: Any, high: Any, share: Any) -> Any:
        wide = high.astype(np.promote_types(lines.dtype, np.float32))  # sums may overflow float16
        return ((low + wide) / 2).astype(lines.dtype)

    found = _at_place(lines, middle, mean, ignore_nan)
    return np.reshape(found, kept_shape) if keepdims else found


def _quantiles(a: Any, q: Any, axis: Any, method: str, keepdims: bool, ignore_nan: bool) -> Any:
    tensor, shares = as_tensor(a), _shares(q)
    if not ((shares >= 0) & (shares <= 1)).all():
        raise InvalidValueError(f"q must be between 0 and 1 (percentiles: 0 and 100), got {q!r}")
    if method not in _METHODS:
        raise InvalidValueError(f"method must be one of {', '.join(map(repr, _METHODS))}, got {method!r}")
    is_element = method in _DISCRETE or (method == "linear" and shares.dtype.kind in "iu")
    if tensor.dtype == bool and not is_element:
        raise UnsupportedError("quantiles between booleans are not defined: use A.astype(float), or method='lower'")
    lines, kept_shape = _sorted_lines(tensor, axis)
    wide = lines.dtype
    if not lines.shape[-1]:
        raise ShapeError(f"quantiles require elements along axis {axis}, got shape {tensor.shape}")
    if not is_element:
        position = _place(method, 2, shares.reshape(-1)[:1])[1]
        wide = np.result_type(lines.dtype, position * 0.5 if method == "midpoint" else position)
        if type(q) in (int, float):
            wide = lines.dtype if lines.dtype.kind == "f" else np.dtype(np.float64)
        if lines.dtype.kind != "f":  # differences of integers may overflow
            lines = lines.astype(wide)
    found = []
    for share in shares.reshape(-1):
        given = share.item() if type(q) in (int, float) else share
        one = _at_place(lines, partial(_place_only, method, given), _between, ignore_nan)
        one = one if is_element else one.astype(wide)
        found.append(np.reshape(one, kept_shape) if keepdims else one)
    if not shares.ndim:
        return found[0]
    if not found:
        shape = kept_shape if keepdims else lines.shape[:-1]
        return from_coords([[]] * (1 + len(shape)), np.empty(0, wide), shape=(0, *shape))
    stacked = concat([expand_dims(as_tensor(one), 0) for one in found])
    return reshape(stacked, (*shares.shape, *stacked.shape[1:]))


def _place_only(method: str, share: Any, size: int) -> _Place:
    return _place(method, size, share)[0]


def _shares(q: Any) -> NDArray[Any]:
    """Return q as an array of integers or floats."""
    try:
        found = np.asarray(q)
        return found if found.dtype.kind in "iuf" else found.astype(np.float64)
    except (TypeError, ValueError):
        raise InvalidValueError(f"q must be numeric, got {q!r}") from None


def _place(method: str, size: int, share: Any) -> tuple[_Place, Any]:
    """Return the place of a quantile in a line, and NumPy's position."""
    n: Any = size
    if size > _MAX_EXACT_SIZE:
        share = Fraction(float(share)) if not isinstance(share, int | np.integer) else int(share)
    if method == "linear" or method in ("lower", "higher", "nearest", "midpoint"):
        position = (n - 1) * share
    elif method in _CONTINUOUS:
        alpha, beta = _CONTINUOUS[method]
        position = n * share + (alpha + share * (1 - alpha - beta)) - 1
    else:
        position = n * share - 1 - (0.5 if method == "closest_observation" else 0)
    if np.ndim(position):  # only its type is asked for
        return _Place(0, 0, None), position
    low = math.floor(position)
    gap = position - low
    last = size - 1
    if method in _DISCRETE:
        at = {
            "lower": low,
            "higher": math.ceil(position),
            "nearest": round(position if isinstance(position, Fraction | int) else float(position)),
            "inverted_cdf": low + (gap != 0),
            "closest_observation": low + (not (gap == 0 and low % 2 == 1)),
        }[method]
        return _Place(min(max(at, 0), last), 0, None), position
    if method == "linear" and isinstance(position, int | np.integer):
        return _Place(min(int(position), last), 0, None), position
    if isinstance(position, int | np.integer):
        gap = 0
    else:
        kind = float if isinstance(position, Fraction) else type(position)
        if method == "averaged_inverted_cdf":
            gap = 0.5 if gap == 0 else 1.0
        elif method == "midpoint":
            gap = 0.0 if gap == 0 else 0.5
        gap = kind(gap)  # NumPy's type, which the result is promoted to
    if position >= last:
        return _Place(last, last, gap), position
    if position < 0:
        return _Place(0, 0, gap), position
    return _Place(low, low + 1, gap), position


def _between(low: Any, high: Any, share: Any) -> Any:
    """Interpolate between two elements as NumPy does; inf - inf is NaN."""
    step = high - low
    return low + step * share if share < 0.5 else high - step * (1 - share)


def _sorted_lines(tensor: Tensor, axis: Any) -> tuple[Tensor, tuple[int, ...]]:
    """Return sorted lines, and the shape of the result with ``keepdims``."""
    if tensor.dtype.kind == "c":
        raise UnsupportedError(f"quantiles require a real dtype, got {tensor.dtype}: take A.real or abs(A)")
    given = range(tensor.ndim) if axis is None else axis if isinstance(axis, tuple | list) else (axis,)
    reduced = [normalize_axis(one, tensor.ndim, tensor.dims) for one in given]
    left = tensor.ndim - len(reduced)
    moved = moveaxis(tensor, reduced, range(left, tensor.ndim))
    lines = reshape(moved, (*moved.shape[:left], math.prod(tensor.shape[one] for one in reduced)))
    return sort(lines), tuple(1 if k in reduced else n for k, n in enumerate(tensor.shape))


def _at_place(
    lines: Tensor, place: Callable[[int], _Place], combine: Callable[[Any, Any, Any], Any], ignore_nan: bool
) -> Any:
    """Return the values of sorted lines at a place.

    The place depends on the number of elements. ``combine`` is called with the elements at both ends and the share,
    unless the place is a single element.
    """
    size = lines.shape[-1]
    found = _values(place(size), lambda at: lines[..., at], combine)
    if lines.dtype.kind != "f":
        return found
    last = lines[..., -1]
    if not ignore_nan:
        values = where(np.isnan(last), last, found).astype(found.dtype)
        return values if values.ndim else values.to_numpy()[()]
    if lines.ndim == 1:
        count = size - int(np.isnan(lines).sum())
        return _values(place(count), lambda at: lines[at], combine) if count else lines.dtype.type(np.nan)
    return _replace_lines(lines, place, combine, found)


def _values(place: _Place, read: Callable[[Any], Any], combine: Callable[[Any, Any, Any], Any]) -> Any:
    low, high, share = place
    if share is None and low >= high:
        return read(low)
    with np.errstate(all="ignore"):
        return combine(read(low), read(high), share)


def _replace_lines(
    lines: Tensor, place: Callable[[int], _Place], combine: Callable[[Any, Any, Any], Any], found: Any
) -> Any:
    """Replace the values of lines with NaN by those of their other elements."""
    is_broken = np.isnan(lines[..., -1])
    coords = nonzero(is_broken)
    if not len(coords[0]):
        return found
    broken = lines.vindex[coords].compute()
    counts = broken.shape[-1] - np.isnan(broken).sum(axis=-1).to_numpy()
    values = np.full(len(counts), np.nan, found.dtype)
    for count in np.unique(counts[counts > 0]).tolist():
        rows = np.flatnonzero(counts == count)

        def read(at: Any, rows: NDArray[np.intp] = rows) -> NDArray[Any]:
            taken: NDArray[Any] = broken[rows, np.full(len(rows), at)].to_numpy()
            return taken

        values[rows] = _values(place(count), read, combine)
    replaced = from_coords(coords, values, shape=is_broken.shape)
    return where(is_broken, replaced, found).astype(found.dtype)
