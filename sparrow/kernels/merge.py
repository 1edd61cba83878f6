"""Merges of sorted keys of two operands, and compaction by a mask, compiled.

Keys are those of :mod:`sparrow.kernels.keys`. Values are reinterpreted as unsigned words, so that one loop serves all
dtypes; merges of two operands use 64-bit words (:class:`WordCodec`). The loops are free of data-dependent branches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.kernels.jit.compiler import njit

__all__ = ["WordCodec", "as_words", "compress", "intersection", "lookup", "union"]


def as_words(values: NDArray[Any]) -> NDArray[Any]:
    """View or copy values as a contiguous read-only array of words."""
    array = np.ascontiguousarray(values)
    view = array.view(f"u{array.dtype.itemsize}" if array.dtype.itemsize <= 8 else array.dtype.type)
    view.setflags(write=False)
    return view


class WordCodec:
    """Codec of values as 64-bit words.

    A word holds the bits of a value, or its position if the dtype is wider.

    Parameters
    ----------
    values
        Shape (n,).
    fill
        Value where the operand has no key.
    """

    def __init__(self, values: NDArray[Any], fill: Any) -> None:
        self._dtype = values.dtype
        self._wide = values.dtype.itemsize > 8
        ended = np.array([fill], values.dtype)
        if self._wide:
            self._values = np.concatenate([values, ended])
            self._words = np.arange(len(values) + 1, dtype=np.uint64)
            self.fill = self._words[-1]
        else:
            self._words = as_words(values)
            self.fill = np.uint64(as_words(ended)[0])

    def words(self, start: int, stop: int) -> NDArray[np.uint64]:
        """Return the words of a slice of the values."""
        part = self._words[start:stop].astype(np.uint64, copy=False)
        part.setflags(write=False)
        return part

    def values(self, found: NDArray[np.uint64]) -> NDArray[Any]:
        """Return the values of words."""
        if self._wide:
            return self._values[found]
        return found.astype(self._words.dtype, copy=False).view(self._dtype)


@njit(cache=True, nogil=True)
def union(a, b, values_a, values_b, fill_a, fill_b):  # type: ignore[no-untyped-def]
    """Return the keys of either operand, and the values of both operands there.

    Parameters
    ----------
    a, b
        Sorted unique keys, shapes (n,) and (m,).
    values_a, values_b
        Their values.
    fill_a, fill_b
        Values where an operand has no key.

    Returns
    -------
    keys, left, right
        Shape (k,), k at most n + m.
    """
    n, m = len(a), len(b)
    keys = np.empty(n + m, np.int64)
    left = np.empty(n + m, values_a.dtype)
    right = np.empty(n + m, values_b.dtype)
    i = j = k = 0
    while i < n and j < m:
        x, y = a[i], b[j]
        keys[k] = min(x, y)
        left[k] = values_a[i] if x <= y else fill_a
        right[k] = values_b[j] if y <= x else fill_b
        i += x <= y
        j += y <= x
        k += 1
    for rest in range(i, n):
        keys[k] = a[rest]
        left[k] = values_a[rest]
        right[k] = fill_b
        k += 1
    for rest in range(j, m):
        keys[k] = b[rest]
        left[k] = fill_a
        right[k] = values_b[rest]
        k += 1
    return keys[:k], left[:k], right[:k]


@njit(cache=True, nogil=True)
def intersection(a, b, values_a, values_b):  # type: ignore[no-untyped-def]
    """Return the keys of both operands, and their values there; see :func:`union`."""
    n, m = len(a), len(b)
    size = min(n, m)
    keys = np.empty(size, np.int64)
    left = np.empty(size, values_a.dtype)
    right = np.empty(size, values_b.dtype)
    i = j = k = 0
    while i < n and j < m:  # both have keys left, so k is below size
        x, y = a[i], b[j]
        keys[k] = x
        left[k] = values_a[i]
        right[k] = values_b[j]
        i += x <= y
        j += y <= x
        k += x == y
    return keys[:k], left[:k], right[:k]


@njit(cache=True, nogil=True)
def lookup(a, b, values_b, fill_b):  # type: ignore[no-untyped-def]
    """Return values of the second operand at keys of the first; see :func:`union`."""
    out = np.empty(len(a), values_b.dtype)
    j = 0
    for i in range(len(a)):
        while j < len(b) and b[j] < a[i]:
            j += 1
        out[i] = values_b[j] if j < len(b) and b[j] == a[i] else fill_b
    return out


@njit(cache=True, nogil=True)
def compress(array, keep, count):  # type: ignore[no-untyped-def]
    """Return the ``count`` elements of an array where ``keep`` is true."""
    out = np.empty(count + 1, array.dtype)
    k = 0
    for i in range(len(array)):
        out[k] = array[i]
        k += keep[i]
    return out[:count]
