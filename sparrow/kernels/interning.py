"""Numbers for texts, in the order in which they are first met: a hash table over bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparrow.kernels.text import kernel

__all__ = ["Interner"]


@kernel
def _hash(data: Any, start: Any, end: Any) -> Any:
    h = np.uint64(0xCBF29CE484222325)
    for at in range(start, end):
        h = (h ^ np.uint64(data[at])) * np.uint64(0x100000001B3)
    h ^= h >> np.uint64(32)
    h *= np.uint64(0xD6E8FEB86659FD93)
    return h ^ (h >> np.uint64(32))


@kernel
def _intern(
    data: NDArray[np.uint8],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    first: int,
    codes: NDArray[np.int64],
    slots: NDArray[np.int32],
    hashes: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    pool: NDArray[np.uint8],
    known: int,
) -> Any:
    """Give texts numbers, from text ``first``; return where room ran out, and how many texts are known."""
    mask = np.uint64(len(slots) - 1)
    for i in range(first, len(start)):
        length = end[i] - start[i]
        if 2 * known >= len(slots) or known + 1 >= len(offsets) or offsets[known] + length > len(pool):
            return i, known
        h = _hash(data, start[i], end[i])
        slot = h & mask
        while True:
            code = slots[slot]
            if code < 0:
                code = known
                slots[slot] = code
                hashes[code] = h
                to = offsets[code]
                for k in range(length):
                    pool[to + k] = data[start[i] + k]
                offsets[code + 1] = to + length
                known += 1
                break
            if hashes[code] == h and offsets[code + 1] - offsets[code] == length:
                to = offsets[code]
                same = True
                for k in range(length):
                    if pool[to + k] != data[start[i] + k]:
                        same = False
                        break
                if same:
                    break
            slot = (slot + np.uint64(1)) & mask
        codes[i] = code
    return len(start), known


@kernel
def _rehash(slots: NDArray[np.int32], hashes: NDArray[np.uint64], known: int) -> None:
    mask = np.uint64(len(slots) - 1)
    for code in range(known):
        slot = hashes[code] & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = code


class Interner:
    """Give each distinct text a number.

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
        self._slots = np.full(1 << 12, -1, np.int32)
        self._hashes = np.zeros(1 << 11, np.uint64)
        self._offsets = np.zeros((1 << 11) + 1, np.int64)
        self._pool = np.zeros(1 << 15, np.uint8)
        self._known = 0

    def __len__(self) -> int:
        return self._known

    @property
    def nbytes(self) -> int:
        """Bytes of the table."""
        return self._slots.nbytes + self._hashes.nbytes + self._offsets.nbytes + self._pool.nbytes

    def codes_of(
        self, data: NDArray[np.uint8], start: NDArray[np.int64], end: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the numbers, shape (n,), of the texts ``data[start[i]:end[i]]``."""
        codes = np.empty(len(start), np.int64)
        done = 0
        while True:
            done, self._known = _intern(
                data, start, end, done, codes, self._slots, self._hashes, self._offsets, self._pool, self._known
            )
            if done == len(start):
                return codes
            self._grow(int(end[done] - start[done]))

    def codes(self, texts: pa.Array) -> NDArray[np.int64]:
        """Return the numbers, shape (n,), of an array of strings without nulls."""
        texts = texts.cast(pa.large_string())
        if not len(texts):
            return np.zeros(0, np.int64)
        _, offsets, data = texts.buffers()
        bounds = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        # A writable copy of the bytes in use: one compiled version serves this and text blocks.
        low, high = int(bounds[0]), int(bounds[-1])
        used = np.array(np.frombuffer(data, np.uint8)[low:high] if high > low else [], np.uint8)
        return self.codes_of(used, bounds[:-1] - low, bounds[1:] - low)

    def _grow(self, length: int) -> None:
        if int(self._offsets[self._known]) + length > len(self._pool):
            self._pool = _longer(self._pool, 2 * len(self._pool) + length)
        if self._known + 1 >= len(self._offsets):
            self._hashes = _longer(self._hashes, 2 * len(self._hashes))
            self._offsets = _longer(self._offsets, len(self._hashes) + 1)
        if 2 * self._known >= len(self._slots):
            self._slots = np.full(2 * len(self._slots), -1, np.int32)
            _rehash(self._slots, self._hashes, self._known)

    def finish(self) -> tuple[pa.Array, NDArray[np.int64]]:
        """Return the texts, sorted by their bytes, and the position of each number's among them; once."""
        known, offsets, pool = self._known, self._offsets, self._pool
        self._clear()
        texts = pa.LargeStringArray.from_buffers(
            known, pa.py_buffer(offsets[: known + 1]), pa.py_buffer(pool[: int(offsets[known])])
        )
        order = pc.array_sort_indices(texts).to_numpy()
        rank = np.empty(known, np.int64)
        rank[order] = np.arange(known)
        labels = texts.take(order)
        if int(offsets[known]) < 2**31:
            labels = labels.cast(pa.string())
        return labels, rank


def _longer(array: NDArray[Any], size: int) -> NDArray[Any]:
    out = np.zeros(size, array.dtype)
    out[: len(array)] = array
    return out
