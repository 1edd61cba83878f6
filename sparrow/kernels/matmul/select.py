"""Largest values of each row, by a heap of bounded size."""

from __future__ import annotations

import numpy as np

from sparrow.kernels.jit.compiler import njit

__all__ = ["select_largest"]


@njit(cache=True, nogil=True)
def select_largest(indptr, values, k, out):  # type: ignore[no-untyped-def]
    """Write the positions of the ``k`` largest values of each row, ascending.

    Of equal values the first ones are taken, and NaN only where nothing else is left.

    Parameters
    ----------
    indptr
        Bounds of each row, int64 (m + 1,).
    values
        Values, shape (n,).
    k
        Number of values of each row, at least 1.
    out
        Receives the positions, int64, as many as there may be.

    Returns
    -------
    int
        The number of positions.
    """
    n = 0
    heap = np.empty(k, np.int64)  # positions; the root is the first to be replaced
    for row in range(len(indptr) - 1):
        start, stop = indptr[row], indptr[row + 1]
        if stop - start <= k:
            for p in range(start, stop):
                out[n] = p
                n += 1
            continue
        for p in range(start, start + k):
            child = p - start
            while child > 0:
                parent = (child - 1) // 2
                if not _is_after(values, p, heap[parent]):
                    break
                heap[child] = heap[parent]
                child = parent
            heap[child] = p
        worst = values[heap[0]]
        for p in range(start + k, stop):
            value = values[p]
            if not (value > worst or (worst != worst and value == value)):  # a later equal one does not replace it
                continue
            parent = 0
            while 2 * parent + 1 < k:
                child = 2 * parent + 1
                if child + 1 < k and _is_after(values, heap[child + 1], heap[child]):
                    child += 1
                if not _is_after(values, heap[child], p):
                    break
                heap[parent] = heap[child]
                parent = child
            heap[parent] = p
            worst = values[heap[0]]
        out[n : n + k] = np.sort(heap)
        n += k
    return n


@njit(cache=True, nogil=True)
def _is_after(values, p, q):  # type: ignore[no-untyped-def]
    """Return whether the value at ``p`` is taken after that at ``q``."""
    a, b = values[p], values[q]
    if a == b or (a != a and b != b):
        return p > q
    return a != a or a < b
