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
    """Listed base coordinates: ``coords[k]`` (shape ``shape``) are those of dimension ``dims[k]``.

    Points may repeat and come in any order.
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
        return tuple(_distinct(column) for column in self.coords)

    @cached_property
    def _keys(self) -> tuple[list[tuple[IntArray, IntArray]], IntArray, IntArray]:
        """Distinct coordinates and composite-key prefixes per dimension, then sorted keys and their points."""
        steps: list[tuple[IntArray, IntArray]] = []
        key: IntArray = np.zeros(self.count, dtype=np.int64)
        for column in self.coords:
            distinct, rank = np.unique(column.reshape(-1), return_inverse=True)
            prefixes, key = np.unique(key * len(distinct) + rank, return_inverse=True)
            steps.append((distinct, prefixes))
        by_key = np.argsort(key, kind="stable")
        return steps, key[by_key], by_key

    @cached_property
    def _table(self) -> tuple[int, IntArray, IntArray, IntArray] | None:
        """Lookup table for points along one dimension with a small span, else None.

        The smallest coordinate; for each coordinate from there its rank among the distinct ones, or -1; offsets of
        the points of each rank; the points by rank.
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

    def _look_up(self, column: IntArray) -> tuple[IntArray, IntArray]:
        assert self._table is not None
        low, ranks, starts, points = self._table
        inside = (column >= low) & (column < low + len(ranks))
        entries: IntArray | None = None if inside.all() else np.flatnonzero(inside)
        rank = ranks[(column if entries is None else column[entries]) - low]
        hit = np.flatnonzero(rank >= 0)
        rank = rank[hit]
        entries = hit if entries is None else entries[hit]
        if len(points) == len(starts) - 1:
            return entries, points[rank]
        repeats = starts[rank + 1] - starts[rank]
        if repeats.max(initial=0) <= 1:  # every repeated point matches no element
            return entries, points[starts[rank]]
        first = np.repeat(starts[rank] - (np.cumsum(repeats) - repeats), repeats)
        return np.repeat(entries, repeats), points[first + np.arange(len(first))]

    def match(self, coords: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
        """Join base elements with equal points.

        Parameters
        ----------
        coords
            One array of shape (n,) per dimension in :attr:`dims`.

        Returns
        -------
        entries, points
            Of equal length: element ``entries[k]`` equals flat point ``points[k]``. Elements ascend.
        """
        if len(coords) == 1 and len(coords[0]) >= tuning().lookup_table_min_elements and self._table is not None:
            return self._look_up(coords[0])
        steps, keys, by_key = self._keys
        n = len(coords[0]) if coords else 0
        entries: IntArray = np.arange(n)
        key: IntArray = np.zeros(n, dtype=np.int64)
        for column, (distinct, prefixes) in zip(coords, steps, strict=True):
            kept, rank = _find(distinct, column[entries])
            entries, key = entries[kept], key[kept] * len(distinct) + rank
            kept, key = _find(prefixes, key)
            entries = entries[kept]
        low = np.searchsorted(keys, key, side="left")
        repeats = np.searchsorted(keys, key, side="right") - low
        first = np.repeat(low - (np.cumsum(repeats) - repeats), repeats)
        return np.repeat(entries, repeats), by_key[first + np.arange(len(first))]


def _distinct(column: IntArray) -> IntArray:
    """Return sorted distinct values; the hash table of ``np.unique`` is tens of times slower than sorting."""
    ordered: IntArray = np.sort(column, axis=None)
    distinct: IntArray = ordered[np.diff(ordered, prepend=ordered[:1] - 1) != 0]
    return distinct


def _find(table: IntArray, wanted: IntArray) -> tuple[NDArray[np.bool_], IntArray]:
    """Return which of ``wanted`` are in the sorted ``table``, and their positions in it."""
    if len(table) == 0:
        return np.zeros(len(wanted), dtype=bool), np.zeros(0, dtype=np.int64)
    place = np.searchsorted(table, wanted)
    place[place == len(table)] = 0
    kept = table[place] == wanted
    return kept, place[kept]
