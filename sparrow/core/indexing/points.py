"""Point groups: listed base coordinates, and their join with stored elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.core.tuning import tuning

__all__ = ["IntArray", "Points"]

IntArray: TypeAlias = NDArray[np.signedinteger[Any]]


@dataclass(frozen=True, eq=False)
class Points:
    """Listed base coordinates of one or more dimensions.

    Parameters
    ----------
    dims
        Base dimensions.
    coords
        Coordinates of each dimension in ``dims``, arrays of shape ``shape``. Points may repeat, in any order.
    shape
        Common shape.
    """

    dims: tuple[int, ...]
    coords: tuple[IntArray, ...]
    shape: tuple[int, ...]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Points)
            and self.dims == other.dims
            and self.shape == other.shape
            and all(np.array_equal(a, b) for a, b in zip(self.coords, other.coords, strict=True))
        )

    def __hash__(self) -> int:
        return hash((self.dims, self.shape))

    @property
    def count(self) -> int:
        """Number of points."""
        return math.prod(self.shape)

    @cached_property
    def distinct(self) -> tuple[IntArray, ...]:
        """Sorted distinct coordinates per dimension."""
        return tuple(_sort_unique(column) for column in self.coords)

    @cached_property
    def _sorted_keys(self) -> tuple[list[tuple[IntArray, IntArray]], IntArray, IntArray]:
        """Composite keys: (coordinates, prefixes) per dimension, sorted keys, points."""
        steps: list[tuple[IntArray, IntArray]] = []
        key: IntArray = np.zeros(self.count, dtype=np.int64)
        for column in self.coords:
            distinct, rank = np.unique(column.reshape(-1), return_inverse=True)
            prefixes, key = np.unique(key * len(distinct) + rank, return_inverse=True)
            steps.append((distinct, prefixes))
        by_key = np.argsort(key, kind="stable")
        return steps, key[by_key], by_key

    @cached_property
    def _lookup_table(self) -> tuple[int, IntArray, IntArray, IntArray] | None:
        """Lookup table for points of one dimension with a small span, else None.

        The smallest coordinate; the rank of each coordinate from there among the distinct ones, or -1; offsets of the
        points of each rank; the points by rank.
        """
        column = self.coords[0].reshape(-1)
        if not len(column):
            return None
        low = int(column.min())
        span = int(column.max()) - low + 1
        if span > max(tuning().lookup_table_max_span, 4 * len(column)):
            return None
        counts = np.bincount(column - low, minlength=span)
        distinct = np.flatnonzero(counts)
        counts = counts[distinct]
        ranks = np.full(span, -1, dtype=np.int64)
        ranks[distinct] = np.arange(len(distinct))
        starts = np.zeros(len(distinct) + 1, dtype=np.int64)
        np.cumsum(counts, out=starts[1:])
        return low, ranks, starts, np.argsort(column, kind="stable")

    def _match_by_table(self, column: IntArray) -> tuple[IntArray, IntArray]:
        assert self._lookup_table is not None
        low, ranks, starts, points = self._lookup_table
        inside = (column >= low) & (column < low + len(ranks))
        elements: IntArray | None = None if inside.all() else np.flatnonzero(inside)
        rank = ranks[(column if elements is None else column[elements]) - low]
        hit = np.flatnonzero(rank >= 0)
        rank = rank[hit]
        elements = hit if elements is None else elements[hit]
        if len(points) == len(starts) - 1:
            return elements, points[rank]
        repeats = starts[rank + 1] - starts[rank]
        if repeats.max(initial=0) <= 1:  # no matched point is repeated
            return elements, points[starts[rank]]
        first = np.repeat(starts[rank] - (np.cumsum(repeats) - repeats), repeats)
        return np.repeat(elements, repeats), points[first + np.arange(len(first))]

    def match(self, coords: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
        """Join base elements with points of equal coordinates.

        Parameters
        ----------
        coords
            One array of shape (n,) per dimension in :attr:`dims`.

        Returns
        -------
        elements, points
            Arrays of equal length: element ``elements[k]`` is at flat point ``points[k]``. Elements ascend.
        """
        if len(coords) == 1 and len(coords[0]) >= tuning().lookup_table_min_elements and self._lookup_table is not None:
            return self._match_by_table(coords[0])
        steps, keys, by_key = self._sorted_keys
        n = len(coords[0]) if coords else 0
        elements: IntArray = np.arange(n)
        key: IntArray = np.zeros(n, dtype=np.int64)
        for column, (distinct, prefixes) in zip(coords, steps, strict=True):
            found, rank = _isin_sorted(column[elements], distinct)
            elements, key = elements[found], key[found] * len(distinct) + rank
            found, key = _isin_sorted(key, prefixes)
            elements = elements[found]
        low = np.searchsorted(keys, key, side="left")
        repeats = np.searchsorted(keys, key, side="right") - low
        first = np.repeat(low - (np.cumsum(repeats) - repeats), repeats)
        return np.repeat(elements, repeats), by_key[first + np.arange(len(first))]


def _sort_unique(column: IntArray) -> IntArray:
    """Return sorted distinct values by sorting.

    The hash table of ``np.unique`` is more than ten times slower.
    """
    ordered: IntArray = np.sort(column, axis=None)
    distinct: IntArray = ordered[np.diff(ordered, prepend=ordered[:1] - 1) != 0]
    return distinct


def _isin_sorted(values: IntArray, table: IntArray) -> tuple[NDArray[np.bool_], IntArray]:
    """Return a mask of the values in a sorted table, and the positions of those."""
    if len(table) == 0:
        return np.zeros(len(values), dtype=bool), np.zeros(0, dtype=np.int64)
    positions = np.searchsorted(table, values)
    positions[positions == len(table)] = 0
    found = table[positions] == values
    return found, positions[found]
