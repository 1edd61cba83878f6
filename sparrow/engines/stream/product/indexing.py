"""Coordinates of several letters as one number, so that two operands of a product can be matched and laid out."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.kernels.jit.warmup import as_readonly
from sparrow.kernels.matmul import numpy_fallback
from sparrow.runtime import memory, settings
from sparrow.runtime.thread_pool import ordered_map

__all__ = ["Numbering", "distinct", "members", "numbered"]

_Columns: TypeAlias = "Sequence[NDArray[Any]]"

_SPARE = 4
"""Numbers for each entry up to which those that nobody has are not taken out."""
_FEW = 1 << 16
"""Numbers that are never too many."""
_MOST = 2**31
_LOOKED_FOR = 1 << 18
"""Values that a thread looks for at a time."""
_HASHED = 1 << 14
"""Values from which on a table is quicker than a search in order."""


def numbered(cells: int, count: int) -> bool:
    """Return whether so many cells are too many for so many entries: those that occur get numbers of their own."""
    return cells > min(max(_SPARE * count, _FEW), _MOST - 1)


def distinct(values: NDArray[Any]) -> NDArray[Any]:
    """Return the different values, ascending."""
    ordered = np.sort(values)
    return ordered[_fresh(ordered)]


def _fresh(ordered: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which of ascending values differ from the one before."""
    fresh = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    return fresh


def members(column: NDArray[Any], known: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which values are among ascending ones."""
    return ~_searched(known, column)[1]


def _searched(known: NDArray[Any], values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return where values are among ascending ones, and which are not: quick where they come in order, as rows do."""
    if not len(known):
        return np.zeros(len(values), np.int64), np.ones(len(values), bool)
    at = np.minimum(np.searchsorted(known, values.astype(known.dtype, copy=False)), len(known) - 1)
    return at, known[at] != values


class _Names:
    """Values that occur, ascending: each is known by its place among them."""

    def __init__(self, values: NDArray[Any]) -> None:
        self.values = values
        self._table: NDArray[Any] | None = None

    @classmethod
    def of(cls, values: NDArray[Any]) -> tuple[_Names, NDArray[Any]]:
        """Return the different ones of values, and the place of each."""
        if bool((values[1:] >= values[:-1]).all()):
            fresh = _fresh(values)
            return cls(values[fresh]), np.cumsum(fresh, dtype=np.int32 if len(values) < _MOST else np.int64) - 1
        if not _HASHED <= len(values) < _MOST:
            names = cls(distinct(values))
            return names, np.searchsorted(names.values, values)
        from sparrow.kernels.keys import gather_values, sort_stable

        found, numbers, _ = _hashed(values)
        ordered, order = sort_stable(found, 0)
        ranks = np.empty(len(found), np.int32)
        ranks[order] = np.arange(len(found), dtype=np.int32)
        return cls(ordered.astype(values.dtype, copy=False)), gather_values(ranks, numbers)

    @property
    def nbytes(self) -> int:
        """The bytes that it takes, with the table once values are looked for in it."""
        count = len(self.values)
        return self.values.nbytes + (4 << _bits(count) if _HASHED <= count < _MOST else 0)

    def placed(self, values: NDArray[Any], strange: NDArray[np.bool_] | None) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return where values are among those that occur, and which are not, or were not before."""
        known = self.values
        if len(values) >= _HASHED and _HASHED <= len(known) < _MOST:
            from sparrow.kernels.hashtable import lookup

            if self._table is None:
                self._table = _hashed(known)[2]
            at: NDArray[Any] = np.empty(len(values), np.int32)
            missing = np.empty(len(values), bool)
            looked_for, table, found = _integers(values), self._table, _integers(known)

            def look(start: int) -> None:
                own = slice(start, start + _LOOKED_FOR)
                lookup(looked_for[own], len(table).bit_length() - 1, table, found, at[own])
                np.less(at[own], 0, out=missing[own])

            starts = list(range(0, len(values), _LOOKED_FOR))
            deque(ordered_map(look, starts, settings.current().threads), 0)
        else:
            at, missing = _searched(known, values)
        return at, missing if strange is None else missing | strange


def _taken(values: NDArray[Any], at: NDArray[Any]) -> NDArray[Any]:
    """Return the values at some places, without holding the GIL where they are many."""
    if numpy_fallback.suffices(len(at)) or at.dtype != np.int32:
        return values.take(at)
    from sparrow.kernels.keys import gather_values

    return gather_values(values, at)


def _integers(values: NDArray[Any]) -> NDArray[Any]:
    return as_readonly(values.astype(np.int64, copy=False))


def _hashed(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the different values as they first come, the number of each value among them, and the table of numbers."""
    from sparrow.kernels.hashtable import factorize

    bits = _bits(len(values))
    nbytes = (4 << bits) + 20 * len(values)
    with memory.reserve(nbytes, "numbers for the coordinates of a product", "multiply a part of the operands"):
        places = np.full(1 << bits, -1, np.int32)
        found, numbers = np.empty(len(values), np.int64), np.empty(len(values), np.int32)
        count = factorize(_integers(values), bits, places, found, numbers)
        return found[:count].copy(), numbers, places


def _bits(count: int) -> int:
    """Return the binary digits of a place in a table of so many values."""
    return (3 * count // 2 + 1).bit_length()


class Numbering:
    """Numbers for the coordinates of entries along some letters, ascending with them: 0 to ``size``, which is none's.

    Where the cells along the letters are not many more than entries each cell has its number; otherwise only those
    that occur do, so that coordinates up to 2^63 take room by entries.

    Parameters
    ----------
    columns
        The coordinates along each letter, each of shape (n,).
    sizes
        The number of cells along each letter.
    count
        The number of entries, where it is not that of the columns.
    """

    def __init__(self, columns: _Columns, sizes: Sequence[int], count: int | None = None) -> None:
        if count is None:
            count = len(columns[0]) if columns else 1
        self._sizes = tuple(sizes)
        self._known: list[tuple[_Names | None, _Names | None]] = []
        self._spans: list[int] = []
        key: NDArray[Any] | None = None
        span = 1
        for column, size in zip(columns, sizes, strict=True):
            before = own = None
            if key is not None and span * size >= 2**63:
                before, key = _Names.of(key)
                span = len(before.values)
            if span * size >= 2**63 and key is not None:
                own, column = _Names.of(column)
                size = len(own.values)
            key = column if key is None else key.astype(np.int64, copy=False) * size + column
            span *= size
            self._known.append((before, own))
            self._spans.append(size)
        self._last: _Names | None = None
        self._names: list[NDArray[Any]] | None = None
        """The coordinates of each number, once they were asked for."""
        if numbered(span, count):
            assert key is not None
            self._last, key = _Names.of(key)
            span = len(self._last.values)
        self.size = span
        self.own = key
        """The numbers of the columns given; None of no letters, where each is 0."""

    @property
    def nbytes(self) -> int:
        """The bytes that it takes, with what it makes to name coordinates and to find others."""
        names = [names for pair in (*self._known, (self._last, None)) for names in pair if names is not None]
        if not names:
            return 0
        named = 0 if self.own is None else self.own.nbytes + 8 * self.size * (1 + len(self._sizes))
        return named + sum(each.nbytes for each in names)

    @property
    def plain(self) -> bool:
        """Whether the number is the coordinate along the one letter."""
        return len(self._sizes) == 1 and self._last is None

    def of(self, columns: _Columns, count: int) -> NDArray[Any]:
        """Return the numbers of other coordinates, ``size`` where nobody has them."""
        key: NDArray[Any] = np.zeros(count, np.int32)
        strange: NDArray[np.bool_] | None = None
        for k, (column, (before, own), size) in enumerate(zip(columns, self._known, self._spans, strict=True)):
            if before is not None:
                key, strange = before.placed(key, strange)
            if own is not None:
                column, strange = own.placed(column, strange)
            key = key.astype(np.int64, copy=False) * size + column if k else column
        if self._last is not None:
            key, strange = self._last.placed(key, strange)
        if strange is not None and strange.any():
            key = np.where(strange, self.size, key)
        return key

    def columns(self, numbers: NDArray[Any], given: _Columns, dtypes: Sequence[np.dtype[Any]]) -> list[NDArray[Any]]:
        """Return the coordinates of numbers in the types given; ``given`` are the columns it was made of."""
        if self.plain:
            return [numbers.astype(dtypes[0], copy=False)]
        if self._last is None and all(before is own is None for before, own in self._known):
            found: list[NDArray[Any]] = []
            for size, dtype in zip(reversed(self._sizes), reversed(dtypes), strict=True):
                rest = numbers // max(size, 1)
                found.append((numbers - rest * size).astype(dtype))
                numbers = rest
            return found[::-1]
        return [_taken(column, numbers) for column in self._named(given, dtypes)]

    def _named(self, given: _Columns, dtypes: Sequence[np.dtype[Any]]) -> list[NDArray[Any]]:
        """Return the coordinates of each number."""
        if self._names is None:
            if len(self._sizes) == 1 and self._last is not None:
                self._names = [self._last.values.astype(dtypes[0], copy=False)]
                return self._names
            assert self.own is not None
            first = np.zeros(self.size, np.int64)  # some numbers may be nobody's
            first[self.own] = np.arange(len(self.own))
            self._names = [column[first].astype(dtype, copy=False) for column, dtype in zip(given, dtypes, strict=True)]
        return self._names
