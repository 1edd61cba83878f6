"""Composite indices: coordinates along several axes as one integer code."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.stream.product.tuning import tuning
from sparrow.kernels.dispatch import prefer_numpy
from sparrow.kernels.jit.warmup import as_readonly
from sparrow.runtime import memory, settings
from sparrow.runtime.thread_pool import ordered_map

__all__ = ["CompositeIndex", "is_factorized", "isin_sorted", "unique_sorted"]

_Columns: TypeAlias = "Sequence[NDArray[Any]]"

_INT32_CODES = 2**31


def is_factorized(coordinates: int, count: int) -> bool:
    """Return whether ``count`` elements are too few for a code per coordinate."""
    current = tuning()
    return coordinates > min(max(current.dense_codes_ratio * count, current.dense_codes_min), _INT32_CODES - 1)


def unique_sorted(values: NDArray[Any]) -> NDArray[Any]:
    """Return the distinct values, ascending."""
    ordered = np.sort(values)
    return ordered[_is_new(ordered)]


def _is_new(ordered: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a mask of ascending values that differ from the one before."""
    is_new = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    return is_new


def isin_sorted(column: NDArray[Any], known: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a mask of the values that occur in ascending, distinct values."""
    return ~_search(known, column)[1]


def _search(known: NDArray[Any], values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return positions among ascending values, and a mask of missing queries."""
    if not len(known):
        return np.zeros(len(values), np.int64), np.ones(len(values), bool)
    at = np.minimum(np.searchsorted(known, values.astype(known.dtype, copy=False)), len(known) - 1)
    return at, known[at] != values


class Factorizer:
    """Distinct values, ascending; the code of a value is its position."""

    def __init__(self, values: NDArray[Any]) -> None:
        self.values = values
        self._table: NDArray[Any] | None = None

    @classmethod
    def fit(cls, values: NDArray[Any]) -> tuple[Factorizer, NDArray[Any]]:
        """Factorize values: return the distinct ones and the code of each value."""
        if bool((values[1:] >= values[:-1]).all()):
            is_new = _is_new(values)
            return cls(values[is_new]), np.cumsum(
                is_new, dtype=np.int32 if len(values) < _INT32_CODES else np.int64
            ) - 1
        if not _is_hashed(len(values)):
            factorizer = cls(unique_sorted(values))
            return factorizer, np.searchsorted(factorizer.values, values)
        from sparrow.kernels.keys import gather_values, sort_stable

        found, codes, _ = _factorize_by_hash(values)
        ordered, order = sort_stable(found, 0)
        ranks = np.empty(len(found), np.int32)
        ranks[order] = np.arange(len(found), dtype=np.int32)
        return cls(ordered.astype(values.dtype, copy=False)), gather_values(ranks, codes)

    @property
    def nbytes(self) -> int:
        """Bytes of the values and of the hash table for lookups."""
        count = len(self.values)
        return self.values.nbytes + (4 << _table_bits(count) if _is_hashed(count) else 0)

    def lookup(
        self, values: NDArray[Any], is_missing: NDArray[np.bool_] | None
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the codes of values, and which are missing here or before."""
        known = self.values
        if len(known) and known[-1] < len(values):
            codes = np.full(int(known[-1]) + 2, -1, np.int32)
            codes[known] = np.arange(len(known), dtype=np.int32)
            at: NDArray[Any] = codes.take(values, mode="clip")  # the last code is -1
            missing = at < 0
        elif len(values) >= tuning().hash_min_values and _is_hashed(len(known)):
            from sparrow.kernels.hashtable import lookup

            if self._table is None:
                self._table = _factorize_by_hash(known)[2]
            at = np.empty(len(values), np.int32)
            missing = np.empty(len(values), bool)
            queries, table, found = _as_int64(values), self._table, _as_int64(known)
            batch = tuning().lookup_batch_values

            def look(start: int) -> None:
                part = slice(start, start + batch)
                lookup(queries[part], len(table).bit_length() - 1, table, found, at[part])
                np.less(at[part], 0, out=missing[part])

            deque(ordered_map(look, list(range(0, len(values), batch)), settings.current().threads), 0)
        else:
            at, missing = _search(known, values)
        return at, missing if is_missing is None else missing | is_missing


def _gather(values: NDArray[Any], at: NDArray[Any]) -> NDArray[Any]:
    """Return the values at positions, without the GIL where there are many."""
    if prefer_numpy("gather_values", len(at)) or at.dtype != np.int32:
        return values.take(at)
    from sparrow.kernels.keys import gather_values

    return gather_values(values, at)


def _as_int64(values: NDArray[Any]) -> NDArray[Any]:
    return as_readonly(values.astype(np.int64, copy=False))


def _factorize_by_hash(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return distinct values as first seen, the codes, and the hash table."""
    from sparrow.kernels.hashtable import factorize

    bits = _table_bits(len(values))
    nbytes = (4 << bits) + 20 * len(values)
    with memory.reserve(nbytes, "the hash table of a product's coordinates", "multiply a part of the operands"):
        places = np.full(1 << bits, -1, np.int32)
        found, codes = np.empty(len(values), np.int64), np.empty(len(values), np.int32)
        count = factorize(_as_int64(values), bits, places, found, codes)
        return found[:count].copy(), codes, places


def _is_hashed(count: int) -> bool:
    """Return whether n values are looked up by hashing, not by binary search."""
    return tuning().hash_min_values <= count < _INT32_CODES


def _table_bits(count: int) -> int:
    """Return log2 of the size of a hash table for n values."""
    return (3 * count // 2 + 1).bit_length()


class CompositeIndex:
    """Codes from 0 to ``size`` - 1 that ascend with coordinates along some axes.

    Where there are few more coordinates than elements, every coordinate has a code; otherwise coordinates are
    factorized, so that coordinates up to 2^63 take memory in proportion to elements. The code ``size`` means "not
    found".

    Parameters
    ----------
    columns
        Coordinates along each axis, each of shape (n,).
    sizes
        Length of each axis.
    count
        Number of elements, if it is not the length of the columns.
    """

    def __init__(self, columns: _Columns, sizes: Sequence[int], count: int | None = None) -> None:
        if count is None:
            count = len(columns[0]) if columns else 1
        self._sizes = tuple(sizes)
        self._factorizers: list[tuple[Factorizer | None, Factorizer | None]] = []
        self._radices: list[int] = []
        key: NDArray[Any] | None = None
        span = 1
        for column, size in zip(columns, sizes, strict=True):
            before = after = None
            if key is not None and span * size >= 2**63:
                before, key = Factorizer.fit(key)
                span = len(before.values)
            if span * size >= 2**63 and key is not None:
                after, column = Factorizer.fit(column)
                size = len(after.values)
            key = column if key is None else key.astype(np.int64, copy=False) * size + column
            span *= size
            self._factorizers.append((before, after))
            self._radices.append(size)
        self._last: Factorizer | None = None
        self._coordinates: list[NDArray[Any]] | None = None
        """Coordinates of every code, cached."""
        if is_factorized(span, count):
            assert key is not None
            self._last, key = Factorizer.fit(key)
            span = len(self._last.values)
        self.size = span
        self.codes = key
        """Codes of the columns; None without axes, where every code is 0."""

    @property
    def nbytes(self) -> int:
        """Bytes held, including what decoding and lookups will build."""
        factorizers = [each for pair in (*self._factorizers, (self._last, None)) for each in pair if each is not None]
        if not factorizers:
            return 0
        decoded = 0 if self.codes is None else self.codes.nbytes + 8 * self.size * (1 + len(self._sizes))
        return decoded + sum(each.nbytes for each in factorizers)

    @property
    def is_plain(self) -> bool:
        """True if a code is the coordinate along the only axis."""
        return len(self._sizes) == 1 and self._last is None

    def encode(self, columns: _Columns, count: int) -> NDArray[Any]:
        """Return the codes of other coordinates, ``size`` for those not found."""
        key: NDArray[Any] = np.zeros(count, np.int32)
        is_missing: NDArray[np.bool_] | None = None
        for k, (column, (before, after), size) in enumerate(
            zip(columns, self._factorizers, self._radices, strict=True)
        ):
            if before is not None:
                key, is_missing = before.lookup(key, is_missing)
            if after is not None:
                column, is_missing = after.lookup(column, is_missing)
            key = key.astype(np.int64, copy=False) * size + column if k else column
        if self._last is not None:
            key, is_missing = self._last.lookup(key, is_missing)
        if is_missing is not None and is_missing.any():
            key = np.where(is_missing, self.size, key)
        return key

    def decode(self, codes: NDArray[Any], fitted: _Columns, dtypes: Sequence[np.dtype[Any]]) -> list[NDArray[Any]]:
        """Return the coordinates of codes; ``fitted`` are the columns it was built from."""
        if self.is_plain:
            return [codes.astype(dtypes[0], copy=False)]
        if self._last is None and all(before is after is None for before, after in self._factorizers):
            found: list[NDArray[Any]] = []
            for size, dtype in zip(reversed(self._sizes), reversed(dtypes), strict=True):
                rest = codes // max(size, 1)
                found.append((codes - rest * size).astype(dtype))
                codes = rest
            return found[::-1]
        return [_gather(column, codes) for column in self._decode_all(fitted, dtypes)]

    def _decode_all(self, fitted: _Columns, dtypes: Sequence[np.dtype[Any]]) -> list[NDArray[Any]]:
        """Return the coordinates of every code."""
        if self._coordinates is None:
            if len(self._sizes) == 1 and self._last is not None:
                self._coordinates = [self._last.values.astype(dtypes[0], copy=False)]
                return self._coordinates
            assert self.codes is not None
            first = np.zeros(self.size, np.int64)  # some codes may be unused
            first[self.codes] = np.arange(len(self.codes))
            self._coordinates = [
                column[first].astype(dtype, copy=False) for column, dtype in zip(fitted, dtypes, strict=True)
            ]
        return self._coordinates
