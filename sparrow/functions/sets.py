"""Set functions of the array API standard: distinct values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparrow import engines
from sparrow.errors import NumberRangeError
from sparrow.functions.elementwise import as_operand
from sparrow.functions.tuning import tuning
from sparrow.functions.views import as_tensor
from sparrow.runtime import memory
from sparrow.runtime.validation import check_flag
from sparrow.tensor import Tensor

__all__ = [
    "IsIn", "UniqueAll", "UniqueCounts", "UniqueInverse", "count_stored", "isin", "unique_all", "unique_counts",
    "unique_inverse", "unique_values",
]  # fmt: skip


class UniqueAll(NamedTuple):
    """Result of :func:`unique_all`."""

    values: NDArray[Any]
    indices: NDArray[np.int64]
    inverse_indices: NDArray[np.int64]
    counts: NDArray[np.int64]


class UniqueCounts(NamedTuple):
    """Result of :func:`unique_counts`."""

    values: NDArray[Any]
    counts: NDArray[np.int64]


class UniqueInverse(NamedTuple):
    """Result of :func:`unique_inverse`."""

    values: NDArray[Any]
    inverse_indices: NDArray[np.int64]


def unique_all(x: Tensor, /) -> UniqueAll:
    """Return the distinct values with first positions, inverse positions and counts.

    Parameters
    ----------
    x
        Tensor that fits in memory as a dense array.

    Returns
    -------
    UniqueAll
        ``values``, ascending; ``indices``, the first flat position of each; ``inverse_indices``, of the shape of ``x``;
        and ``counts``.

    Raises
    ------
    TooLargeError
        If the dense array would exceed the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> found = sp.unique_all(sp.asarray([[0, 2, 0], [3, 0, 2]]))
    >>> found.values, found.indices, found.counts
    (array([0, 2, 3]), array([0, 1, 3]), array([3, 2, 1]))
    """
    return UniqueAll(*np.unique_all(as_tensor(x).to_numpy()))


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """Return the distinct values and their counts, from the stored elements only.

    Parameters
    ----------
    x
        Tensor of any shape.

    Returns
    -------
    UniqueCounts
        ``values``, ascending, and ``counts``.

    Raises
    ------
    NumberRangeError
        If a value occurs 2^63 times or more.
    TooLargeError
        If the distinct values, or absent elements of fill NaN, would exceed the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.unique_counts(sp.from_coords([[0, 5], [1, 1]], [2, 2], shape=(10**6, 10**6)))
    UniqueCounts(values=array([0, 2]), counts=array([999999999998,            2]))
    """
    tensor = as_tensor(x)
    values, counts = count_stored(tensor)
    absent = tensor.size - int(counts.sum())
    if not absent:
        return UniqueCounts(values, counts)
    if absent > np.iinfo(counts.dtype).max:
        raise NumberRangeError(
            f"{absent} absent elements of shape {tensor.shape} exceed the largest count, 2^63 - 1: take a smaller "
            "view, or count the stored elements"
        )
    fill = np.asarray(tensor.fill_value, values.dtype)
    if fill == fill:  # not NaN
        values, counts = np.append(values, fill), np.append(counts, absent)
    else:
        memory.check(
            absent * (fill.itemsize + counts.itemsize), f"a value for each of {absent} absent elements of fill NaN"
        )
        values, counts = np.append(values, np.full(absent, fill)), np.append(counts, np.ones(absent, counts.dtype))
    order = np.argsort(values, stable=True)
    return UniqueCounts(values[order], counts[order])


_Counted = tuple[NDArray[Any], NDArray[np.int64]]
"""Distinct values, ascending with every NaN, and their counts."""


def count_stored(tensor: Tensor) -> _Counted:
    """Return the distinct values of stored elements and their counts."""
    runs: list[_Counted] = []
    what = f"the distinct values of a tensor of shape {tensor.shape}"
    with memory.reserve(0, what, "count a view, or round the values") as room:
        maximum = memory.share(tuning().counted_values_share)
        for block in engines.iter_blocks(tensor.__sparrow_scan__(), axes=()):
            runs.append(np.unique_counts(block.values))
            room.grow(_nbytes(runs[-1:]))
            if room.nbytes > maximum and len(runs) > 1:
                runs = [_merge_counts(runs)]
                room.resize(_nbytes(runs))
                maximum = max(maximum, 2 * room.nbytes)
        return _merge_counts(runs) if runs else np.unique_counts(np.zeros(0, tensor.dtype))


def _nbytes(runs: Sequence[_Counted]) -> int:
    return sum(values.nbytes + counts.nbytes for values, counts in runs)


def _merge_counts(runs: list[_Counted]) -> _Counted:
    """Return the distinct values of several runs and the sums of their counts.

    Ranges of values are merged one by one, so that the memory beyond runs and result is that of a range. Pages of the
    result that are not written take no memory.
    """
    if len(runs) == 1:
        return runs[0]
    total = sum(len(values) for values, _ in runs)
    parts = -(-total // tuning().merged_values)
    largest = max((values for values, _ in runs), key=len)
    bounds = np.unique(largest[np.linspace(0, len(largest), parts, endpoint=False, dtype=np.int64)[1:]])
    bounds = bounds[bounds == bounds]  # NaN is the last of all, and never equal
    ends = [[0, *np.searchsorted(values, bounds).tolist(), len(values)] for values, _ in runs]
    merged: _Counted = np.empty(total, runs[0][0].dtype), np.empty(total, np.int64)
    count = 0
    for k in range(len(bounds) + 1):
        slices = [slice(end[k], end[k + 1]) for end in ends]
        values, counts = _sum_counts(
            *(np.concatenate([run[n][at] for run, at in zip(runs, slices, strict=True)]) for n in (0, 1))
        )
        merged[0][count : count + len(values)], merged[1][count : count + len(values)] = values, counts
        count += len(values)
    for array in merged:
        array.resize(count, refcheck=False)
    return merged


def _sum_counts(values: NDArray[Any], counts: NDArray[np.int64]) -> _Counted:
    order = np.argsort(values, kind="stable")
    values, counts = values[order], counts[order]
    starts = np.flatnonzero(np.concatenate([np.ones(min(len(values), 1), bool), values[1:] != values[:-1]]))
    return values[starts], np.add.reduceat(counts, starts) if len(starts) else counts


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """Return the distinct values and, for each element, the position of its value.

    Parameters
    ----------
    x
        Tensor that fits in memory as a dense array.

    Returns
    -------
    UniqueInverse
        ``values``, ascending, and ``inverse_indices``, of the shape of ``x``.

    Raises
    ------
    TooLargeError
        If the dense array would exceed the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.unique_inverse(sp.asarray([0, 2, 0, 3])).inverse_indices
    array([0, 1, 0, 2])
    """
    return UniqueInverse(*np.unique_inverse(as_tensor(x).to_numpy()))


def unique_values(x: Tensor, /) -> NDArray[Any]:
    """Return the distinct values of all elements, ascending, with every NaN.

    :func:`sparrow.unique` merges NaN, as ``np.unique`` does.

    Parameters
    ----------
    x
        Tensor.

    Returns
    -------
    ndarray

    Raises
    ------
    TooLargeError
        If the distinct values, or absent elements of fill NaN, would exceed the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.unique_values(sp.asarray([[0, 2, 0], [3, 0, 2]]))
    array([0, 2, 3])
    """
    return unique_counts(x).values


@dataclass(frozen=True, eq=False)
class IsIn:
    """Element-wise membership in a set of values."""

    values: NDArray[Any]
    invert: bool

    def __call__(self, x: Any) -> Any:
        """Return whether each element is among the values."""
        return np.isin(x, self.values, invert=self.invert)


def isin(x1: Any, x2: Tensor | ArrayLike, /, *, assume_unique: bool = False, invert: bool = False) -> Any:
    """Return whether each element is in a set of values, lazily.

    Parameters
    ----------
    x1
        Tensor; the result for arrays and numbers is NumPy's.
    x2
        Values: a tensor, an array or a number.
    assume_unique
        Ignored.
    invert
        Return whether each element is not among the values.

    Returns
    -------
    Tensor
        Booleans of the shape of ``x1``; NaN is never among the values.

    Raises
    ------
    UnsupportedError
        If one is not a tensor, an array or a number.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.isin(sp.asarray([[0, 2, 0], [3, 0, 5]]), [2, 3]).nnz
    2
    """
    x, given = as_operand(x1), as_operand(x2)
    values = np.unique(unique_values(given) if isinstance(given, Tensor) else np.asarray(given))
    function = IsIn(values, check_flag("invert", invert))
    return x._elementwise(function, x) if isinstance(x, Tensor) else function(x)
