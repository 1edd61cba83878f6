"""String interner: dictionary-encode strings in order of first appearance.

A record in the pool is the code of a string, its length (4 bytes each) and its bytes. A slot of the hash table is the
offset of a record in its low bits and part of the hash in its high bits. A lookup takes two memory accesses; those of
several strings overlap.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparrow.kernels.parse.numbers import kernel
from sparrow.kernels.tuning import tuning
from sparrow.runtime import events

__all__ = ["Interner"]

_BATCH = 32
_PLACE = (1 << 40) - 1


@kernel
def _hash(data: Any, start: Any, end: Any) -> Any:
    h = np.uint64(0xCBF29CE484222325)
    for at in range(start, end):
        h = (h ^ np.uint64(data[at])) * np.uint64(0x100000001B3)
    h ^= h >> np.uint64(32)
    h *= np.uint64(0xD6E8FEB86659FD93)
    return h ^ (h >> np.uint64(32))


@kernel
def _number(pool: Any, at: Any) -> Any:
    return (
        np.int64(pool[at])
        | (np.int64(pool[at + 1]) << 8)
        | (np.int64(pool[at + 2]) << 16)
        | (np.int64(pool[at + 3]) << 24)
    )


@kernel
def _intern(
    data: NDArray[np.uint8],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    first: int,
    codes: NDArray[np.int64],
    slots: NDArray[np.int64],
    pool: NDArray[np.uint8],
    known: int,
    used: int,
) -> Any:
    """Encode strings from ``first`` on; return position, code count and pool size."""
    mask = np.uint64(len(slots) - 1)
    room = len(slots) * 7 // 10
    hashes = np.empty(_BATCH, np.uint64)
    fetched = np.zeros(1, np.int64)
    n = len(start)
    for begin in range(first, n, _BATCH):
        stop = min(begin + _BATCH, n)
        for i in range(begin, stop):
            hashes[i - begin] = _hash(data, start[i], end[i])
        # Prefetch the slots and records of a batch, so that memory accesses overlap.
        for i in range(begin, stop):
            fetched[0] += slots[hashes[i - begin] & mask]
        for i in range(begin, stop):
            entry = slots[hashes[i - begin] & mask]
            if entry >= 0:
                fetched[0] += pool[entry & _PLACE]
        for i in range(begin, stop):
            length = end[i] - start[i]
            h = hashes[i - begin]
            tag = np.int64(h >> np.uint64(41))
            slot = h & mask
            while True:
                entry = slots[slot]
                if entry < 0:
                    if known >= room or used + 8 + length > len(pool):
                        return i, known, used
                    slots[slot] = (tag << 40) | used
                    for k in range(4):
                        pool[used + k] = (known >> (8 * k)) & 255
                        pool[used + 4 + k] = (length >> (8 * k)) & 255
                    used += 8
                    for at in range(start[i], end[i]):
                        pool[used] = data[at]
                        used += 1
                    codes[i] = known
                    known += 1
                    break
                if entry >> 40 == tag:
                    place = entry & _PLACE
                    if _number(pool, place + 4) == length:
                        same = True
                        for k in range(length):
                            if pool[place + 8 + k] != data[start[i] + k]:
                                same = False
                                break
                        if same:
                            codes[i] = _number(pool, place)
                            break
                slot = (slot + np.uint64(1)) & mask
    return n, known, used


@kernel
def _rehash(slots: NDArray[np.int64], pool: NDArray[np.uint8], known: int) -> None:
    mask = np.uint64(len(slots) - 1)
    at = 0
    for _ in range(known):
        end = at + 8 + _number(pool, at + 4)
        h = _hash(pool, at + 8, end)
        slot = h & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = (np.int64(h >> np.uint64(41)) << 40) | at
        at = end


@kernel
def _texts(pool: NDArray[np.uint8], offsets: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
    at = 0
    to = 0
    for i in range(len(offsets) - 1):
        offsets[i] = to
        length = _number(pool, at + 4)
        at += 8
        for _ in range(length):
            out[to] = pool[at]
            to += 1
            at += 1
    offsets[len(offsets) - 1] = to


class Interner:
    """Dictionary-encode strings; at most 2^31 distinct ones.

    Examples
    --------
    >>> names = Interner()
    >>> names.codes(pa.array(["b", "a", "b"])).tolist()
    [0, 1, 0]
    >>> labels, rank = names.finish()
    >>> labels.to_pylist(), rank.tolist()
    (['a', 'b'], [1, 0])
    """

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._slots = np.full(1 << 12, -1, np.int64)
        self._pool = np.zeros(1 << 16, np.uint8)
        self._known = self._used = 0

    def __len__(self) -> int:
        return self._known

    @property
    def nbytes(self) -> int:
        """Bytes of the table."""
        return self._slots.nbytes + self._pool.nbytes

    def codes_of(self, data: NDArray[np.uint8], start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the codes, shape (n,), of the strings ``data[start[i]:end[i]]``."""
        codes = np.empty(len(start), np.int64)
        done = 0
        while True:
            done, self._known, self._used = _intern(
                data, start, end, done, codes, self._slots, self._pool, self._known, self._used
            )
            if done == len(start):
                return codes
            self._grow(int(end[done] - start[done]))

    def codes(self, texts: pa.Array) -> NDArray[np.int64]:
        """Return the codes, shape (n,), of a string array without nulls."""
        texts = texts.cast(pa.large_string())
        if not len(texts):
            return np.zeros(0, np.int64)
        _, offsets, data = texts.buffers()
        bounds = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        # A writable copy: strings and blocks of text share one compiled version.
        low, high = int(bounds[0]), int(bounds[-1])
        used = np.array(np.frombuffer(data, np.uint8)[low:high] if high > low else [], np.uint8)
        return self.codes_of(used, bounds[:-1] - low, bounds[1:] - low)

    def _grow(self, length: int) -> None:
        if self._used + 8 + length > len(self._pool):
            size = 9 * len(self._pool) // 8 + length + 8
            self._pool.resize(size, refcheck=False)  # in place: a copy would double the memory
        if self._known >= len(self._slots) * 7 // 10:
            size = 2 * len(self._slots)
            self._slots = np.empty(0, np.int64)
            self._slots = np.full(size, -1, np.int64)
            _rehash(self._slots, self._pool, self._known)

    def finish(self, room: int = 0) -> tuple[pa.Array, NDArray[np.int32]]:
        """Return the strings sorted by bytes and the rank of each code.

        The interner is empty afterwards.

        Parameters
        ----------
        room
            Available memory beside the table, in bytes; a parallel sort needs more.
        """
        known, narrow = self._known, self._used - 8 * self._known < 2**31
        rank = np.empty(known, np.int32)
        limits = tuning()
        if known <= limits.intern_parallel_min_strings or room < limits.intern_parallel_memory * self.nbytes:
            self._slots = np.empty(0, np.int64)
            labels = self._strings_by_code()
            self._clear()  # before the sort, which needs the memory
            order = pc.array_sort_indices(labels)
            labels = labels.take(order)
            rank[order.to_numpy()] = np.arange(known, dtype=np.int32)
        else:
            chunk = limits.intern_chunk_strings
            labels = self._sort_strings()
            for start in range(0, known, chunk):
                part = labels.slice(start, chunk)
                rank[self.codes(part)] = np.arange(start, start + len(part), dtype=np.int32)
            self._clear()
        return labels.cast(pa.string()) if narrow else labels, rank

    def _strings_by_code(self) -> pa.Array:
        """Return the strings in the order of their codes."""
        offsets = np.empty(self._known + 1, np.int64)
        out = np.empty(self._used - 8 * self._known, np.uint8)
        _texts(self._pool, offsets, out)
        return pa.LargeStringArray.from_buffers(self._known, pa.py_buffer(offsets), pa.py_buffer(out))

    def _sort_strings(self) -> pa.Array:
        """Return the strings sorted by their bytes, on threads."""
        import polars as pl

        events.emit("kernels.sort_strings", strings=self._known)

        return pl.Series(self._strings_by_code()).sort().to_arrow().cast(pa.large_string())
