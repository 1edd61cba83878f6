"""Point groups: listed base coordinates, and their join with stored elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.core.bisection import bisect_sorted
from sparrow.core.tuning import tuning
from sparrow.runtime import memory

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
    def _is_ascending(self) -> bool:
        """True if the points strictly ascend in one dimension, as those of a mask."""
        if len(self.coords) != 1:
            return False
        column = self.coords[0].reshape(-1)
        return bool((column[1:] > column[:-1]).all())

    @cached_property
    def is_sorted(self) -> bool:
        """True if the points are a list in one dimension that never descends."""
        if len(self.coords) != 1 or len(self.shape) != 1:
            return False
        column = self.coords[0]
        return self._is_ascending or bool((column[1:] >= column[:-1]).all())

    @cached_property
    def distinct(self) -> tuple[IntArray, ...]:
        """Sorted distinct coordinates per dimension."""
        if self._is_ascending:
            return (self.coords[0].reshape(-1),)
        return tuple(_sort_unique(column) for column in self.coords)

    @cached_property
    def is_last(self) -> NDArray[np.bool_]:
        """Mask of the points that no later one equals, shape (count,)."""
        out = np.ones(self.count, bool)
        if not self.dims:
            out[:-1] = False
        if not self.dims or self.max_repeats <= 1:
            return out
        if self._flat_keys is not None:
            keys, order = self._flat_keys.keys, self._flat_keys.order
        else:
            _, keys, order = self._sorted_keys
        same = np.flatnonzero(keys[1:] == keys[:-1])  # equal points come in order, as the sort is stable
        out[same if order is None else order[same]] = False
        return out

    @cached_property
    def max_repeats(self) -> int:
        """Largest number of equal points."""
        if not self.dims or not self.count:
            return self.count
        if self._is_ascending:
            return 1
        table = self._lookup_table if len(self.dims) == 1 else None
        if table is not None and table[2] is not None:
            return int(np.diff(table[2]).max())
        keys = self._flat_keys.keys if self._flat_keys is not None else self._sorted_keys[1]
        starts = np.flatnonzero(np.diff(keys, prepend=keys[:1] - 1))
        return int(np.diff(starts, append=len(keys)).max())

    @cached_property
    def _flat_keys(self) -> _FlatKeys | None:
        """Row-major positions of the points in their bounding box.

        None if it has 2^62 positions or more.
        """
        if self._is_ascending and self.count:
            column = self.coords[0].reshape(-1)
            return _FlatKeys([0], [int(column[-1]) + 1], column, None, True)
        lows = [int(column.min()) if column.size else 0 for column in self.coords]
        spans = [
            int(column.max()) - low + 1 if column.size else 1 for column, low in zip(self.coords, lows, strict=True)
        ]
        if math.prod(spans) >= 2**62:
            return None
        keys: IntArray = np.zeros(self.count, np.int64)
        for column, low, span in zip(self.coords, lows, spans, strict=True):
            keys *= span
            keys += column.reshape(-1)
            keys -= low
        order = None
        if (keys[1:] < keys[:-1]).any():
            order = np.argsort(keys, kind="stable")
            keys = keys[order]
        return _FlatKeys(lows, spans, keys, order, bool((keys[1:] > keys[:-1]).all()))

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
    def _lookup_table(self) -> tuple[int, IntArray, IntArray | None, IntArray | None] | None:
        """Lookup table for points of one dimension with a small span, else None.

        The smallest coordinate; the rank of each coordinate from there among the distinct ones, or -1; offsets of the
        points of each rank and the points by rank, both None if the points ascend.
        """
        column = self.coords[0].reshape(-1)
        if not len(column):
            return None
        low = int(column.min())
        span = int(column.max()) - low + 1
        if span > max(tuning().lookup_table_max_span, 4 * len(column)):
            return None
        kind = np.int32 if len(column) < 2**31 else np.int64
        ranks: IntArray = np.full(span, -1, dtype=kind)
        if self._is_ascending:
            ranks[column - low if low else column] = np.arange(len(column), dtype=kind)
            return low, ranks, None, None
        counts = np.bincount(column - low, minlength=span)
        distinct = np.flatnonzero(counts)
        counts = counts[distinct]
        ranks[distinct] = np.arange(len(distinct), dtype=kind)
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
        if starts is None or points is None:
            return elements, rank.astype(np.int64)
        if len(points) == len(starts) - 1:
            return elements, points[rank]
        repeats = starts[rank + 1] - starts[rank]
        if repeats.max(initial=0) <= 1:  # no matched point is repeated
            return elements, points[starts[rank]]
        elements, at = _repeat_runs(elements, starts[rank], repeats)
        return elements, points[at]

    def count_matches(self, coords: Sequence[IntArray]) -> IntArray:
        """Return the number of points at each base element; see :meth:`match`."""
        if self.dims and self._flat_keys is not None:
            elements, _, lengths = self._flat_keys.find_runs(coords)
            if elements is None:
                return lengths
        else:
            elements, lengths = self.match(coords)[0], None
        out = np.zeros(len(coords[0]), np.int64)
        np.add.at(out, elements, 1 if lengths is None else lengths)
        return out

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
        if self._flat_keys is not None:
            return self._flat_keys.match(coords)
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
        elements, at = _repeat_runs(elements, low, np.searchsorted(keys, key, side="right") - low)
        return elements, by_key[at]


@dataclass(frozen=True, slots=True, eq=False)
class _FlatKeys:
    """Sorted row-major positions of points in their bounding box."""

    lows: list[int]
    spans: list[int]
    keys: IntArray
    order: IntArray | None
    """The points in the order of the keys; None if they are in it."""
    is_unique: bool

    def find_runs(self, coords: Sequence[IntArray]) -> tuple[IntArray | None, IntArray, IntArray]:
        """Return elements with equal keys, and where these are: starts and lengths.

        None for all elements.
        """
        inside: NDArray[np.bool_] | None = None
        for column, low, span in zip(coords, self.lows, self.spans, strict=True):
            own = (column >= low) & (column < low + span)
            inside = own if inside is None else inside & own
        assert inside is not None
        elements: IntArray | None = None if inside.all() else np.flatnonzero(inside)
        wanted: IntArray = np.zeros(len(inside) if elements is None else len(elements), np.int64)
        for column, low, span in zip(coords, self.lows, self.spans, strict=True):
            wanted *= span
            wanted += column if elements is None else column[elements]
            wanted -= low
        if self.is_unique:
            found, at = _isin_sorted(wanted, self.keys)
            if not found.all():
                hit = np.flatnonzero(found)
                elements = hit if elements is None else elements[hit]
            return elements, at, np.ones(len(at), np.int64)
        starts = np.searchsorted(self.keys, wanted, side="left")
        return elements, starts, np.searchsorted(self.keys, wanted, side="right") - starts

    def match(self, coords: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
        """Join base elements with points of equal coordinates."""
        elements, at, lengths = self.find_runs(coords)
        elements = np.arange(len(at)) if elements is None else elements
        if not self.is_unique:
            elements, at = _repeat_runs(elements, at, lengths)
        return elements, at if self.order is None else self.order[at]


def _repeat_runs(elements: IntArray, starts: IntArray, lengths: IntArray) -> tuple[IntArray, IntArray]:
    """Repeat elements by the lengths of runs; return positions in these too."""
    count = int(lengths.sum())
    memory.check(4 * 8 * count, f"the positions of {count} repeated elements", "take a smaller view")
    first = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    first += np.arange(count)
    return np.repeat(elements, lengths), first


def _sort_unique(column: IntArray) -> IntArray:
    """Return sorted distinct values, by counting or by sorting.

    The hash table of ``np.unique`` is more than ten times slower.
    """
    if column.size:
        low = int(column.min())
        span = int(column.max()) - low + 1
        if span <= 4 * column.size:
            return np.flatnonzero(np.bincount(column.reshape(-1) - low, minlength=span)) + low
    ordered: IntArray = np.sort(column, axis=None)
    distinct: IntArray = ordered[np.diff(ordered, prepend=ordered[:1] - 1) != 0]
    return distinct


def _isin_sorted(values: IntArray, table: IntArray) -> tuple[NDArray[np.bool_], IntArray]:
    """Return a mask of the values in a sorted table, and the positions of those."""
    if len(table) == 0:
        return np.zeros(len(values), dtype=bool), np.zeros(0, dtype=np.int64)
    positions = bisect_sorted(table, values)
    positions[positions == len(table)] = 0
    found = table[positions] == values
    return found, positions[found]
