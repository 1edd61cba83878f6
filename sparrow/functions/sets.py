"""Distinct values by the names of the array API standard: each NaN is one, and the fill where a cell is absent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparrow.errors import NumberRangeError
from sparrow.functions.elementwise import as_operand
from sparrow.functions.views import as_tensor
from sparrow.runtime import memory
from sparrow.runtime.validation import check_flag
from sparrow.tensor import Tensor

__all__ = [
    "IsIn", "UniqueAll", "UniqueCounts", "UniqueInverse", "isin", "unique_all", "unique_counts", "unique_inverse",
    "unique_values",
]  # fmt: skip


class UniqueAll(NamedTuple):
    """What :func:`unique_all` returns."""

    values: NDArray[Any]
    indices: NDArray[np.int64]
    inverse_indices: NDArray[np.int64]
    counts: NDArray[np.int64]


class UniqueCounts(NamedTuple):
    """What :func:`unique_counts` returns."""

    values: NDArray[Any]
    counts: NDArray[np.int64]


class UniqueInverse(NamedTuple):
    """What :func:`unique_inverse` returns."""

    values: NDArray[Any]
    inverse_indices: NDArray[np.int64]


def unique_all(x: Tensor, /) -> UniqueAll:
    """Return the distinct values with first positions, the value of each cell, and numbers of cells, at once.

    Parameters
    ----------
    x
        A tensor whose cells fit in memory as an array: the second and third answers are about each of them.

    Returns
    -------
    UniqueAll
        Arrays ``values``, ascending, ``indices``, where in row-major order each comes first, ``inverse_indices``, of
        the shape of ``x``, and ``counts``.

    Raises
    ------
    TooLargeError
        If the array of all cells would pass the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> found = sp.unique_all(sp.asarray([[0, 2, 0], [3, 0, 2]]))
    >>> found.values, found.indices, found.counts
    (array([0, 2, 3]), array([0, 1, 3]), array([3, 2, 1]))
    """
    return UniqueAll(*np.unique_all(as_tensor(x).to_numpy()))


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """Return the distinct values and how many cells have each, at once; of entries and fill alone, whatever the shape.

    Parameters
    ----------
    x
        A tensor.

    Returns
    -------
    UniqueCounts
        Arrays ``values``, ascending, and ``counts``.

    Raises
    ------
    NumberRangeError
        If 2^63 cells or more have one value.
    TooLargeError
        If the entries, or absent cells of fill NaN, would pass the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.unique_counts(sp.from_coords([[0, 5], [1, 1]], [2, 2], shape=(10**6, 10**6)))
    UniqueCounts(values=array([0, 2]), counts=array([999999999998,            2]))
    """
    tensor = as_tensor(x)
    values, counts = np.unique_counts(tensor.to_format("coo").data)
    absent = tensor.size - int(counts.sum())
    if not absent:
        return UniqueCounts(values, counts)
    if absent > np.iinfo(counts.dtype).max:
        raise NumberRangeError(
            f"{absent} cells of shape {tensor.shape} are {tensor.fill_value}, beyond the largest count, 2^63 - 1: "
            "take a smaller view, or count the entries"
        )
    fill = np.asarray(tensor.fill_value, values.dtype)
    if fill == fill:
        values, counts = np.append(values, fill), np.append(counts, absent)
    else:
        memory.check(
            absent * (fill.itemsize + counts.itemsize), f"a value for each of {absent} absent cells of fill NaN"
        )
        values, counts = np.append(values, np.full(absent, fill)), np.append(counts, np.ones(absent, counts.dtype))
    order = np.argsort(values, stable=True)
    return UniqueCounts(values[order], counts[order])


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """Return the distinct values and for each cell which of them it has, at once.

    Parameters
    ----------
    x
        A tensor whose cells fit in memory as an array.

    Returns
    -------
    UniqueInverse
        Arrays ``values``, ascending, and ``inverse_indices``, of the shape of ``x``.

    Raises
    ------
    TooLargeError
        If the array of all cells would pass the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.unique_inverse(sp.asarray([0, 2, 0, 3])).inverse_indices
    array([0, 1, 0, 2])
    """
    return UniqueInverse(*np.unique_inverse(as_tensor(x).to_numpy()))


def unique_values(x: Tensor, /) -> NDArray[Any]:
    """Return the distinct values of all cells, ascending, at once; NaN is there as often as in cells.

    :func:`sparrow.unique` gives one NaN for all, as ``np.unique`` does.

    Parameters
    ----------
    x
        A tensor.

    Returns
    -------
    ndarray

    Raises
    ------
    TooLargeError
        If the entries, or absent cells of fill NaN, would pass the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.unique_values(sp.asarray([[0, 2, 0], [3, 0, 2]]))
    array([0, 2, 3])
    """
    return unique_counts(x).values


@dataclass(frozen=True, eq=False)
class IsIn:
    """The function of cells that says which are among given values."""

    values: NDArray[Any]
    invert: bool

    def __call__(self, cells: Any) -> Any:
        """Return whether each cell is among the values, or whether it is not."""
        return np.isin(cells, self.values, invert=self.invert)


def isin(x1: Any, x2: Tensor | ArrayLike, /, *, assume_unique: bool = False, invert: bool = False) -> Any:
    """Return whether each cell is among given values, lazily.

    Parameters
    ----------
    x1
        A tensor; or an array or a number, of which the result is NumPy's.
    x2
        The values: a tensor, an array or a number.
    assume_unique
        Whether all values differ; nothing follows of it.
    invert
        Return whether each is among none of them.

    Returns
    -------
    Tensor
        Booleans of the shape of ``x1``; NaN is among no values.

    Raises
    ------
    UnsupportedError
        If one is no tensor, array or number.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.isin(sp.asarray([[0, 2, 0], [3, 0, 5]]), [2, 3]).nnz
    2
    """
    cells, among = as_operand(x1), as_operand(x2)
    values = np.unique(unique_values(among) if isinstance(among, Tensor) else np.asarray(among))
    function = IsIn(values, check_flag("invert", invert))
    return cells._cells(function, cells) if isinstance(cells, Tensor) else function(cells)
