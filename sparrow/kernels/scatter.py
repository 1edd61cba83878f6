"""Scatter half of :mod:`sparrow.kernels.folds`, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparrow.kernels.jit.compiler import njit
from sparrow.kernels.simd import LANES, compress_store, lane_range, load, not_equal_bits, popcount

__all__ = ["run_starts", "scatter_add", "scatter_best", "scatter_moments"]


@njit(cache=True, nogil=True)
def run_starts(column):  # type: ignore[no-untyped-def]
    """Return the start of each run of equal integers, int64; n is at least 1."""
    end = np.uint64(len(column))
    one: Any = np.uint64(1)
    runs = one
    for k in range(one, end):
        runs += np.uint64(column[k] != column[k - one])
    out = np.empty(runs + LANES, np.int64)
    out[0] = 0
    n = k = one
    while k + LANES <= end:
        fresh = not_equal_bits(load(column, k, LANES), load(column, k - one, LANES))
        compress_store(out, n, lane_range(np.int64(k)), fresh)
        n += popcount(fresh)
        k += LANES
    while k < end:
        out[n] = k
        n += np.uint64(column[k] != column[k - one])
        k += one
    return out[:n]


@njit(cache=True, nogil=True)
def scatter_add(keys, values, out):  # type: ignore[no-untyped-def]
    """Add each of ``values`` (shape (n,)) to ``out[keys]``, in order."""
    size = np.uint64(len(out))
    for k in range(len(keys)):
        cell = np.uint64(keys[k])
        if cell < size:
            out[cell] += values[k]


@njit(cache=True, nogil=True)
def scatter_moments(keys, values, mean, away, count):  # type: ignore[no-untyped-def]
    """Update means and sums of squared deviations of groups, in order (Welford 1962)."""
    size = np.uint64(len(mean))
    for k in range(len(keys)):
        cell = np.uint64(keys[k])
        if cell < size:
            count[cell] += 1
            before = values[k] - mean[cell]
            mean[cell] += before / count[cell]
            away[cell] += before * (values[k] - mean[cell])


@njit(cache=True, nogil=True)
def scatter_best(keys, positions, ranks, where, first, follows, count, rank):  # type: ignore[no-untyped-def]
    """Update extrema of groups with elements in ascending positions.

    Returns a mask, shape (n,), of the elements that became the extremum of their group.
    """
    size = np.uint64(len(where))
    changed = np.zeros(len(keys), np.bool_)
    for k in range(len(keys)):
        cell = np.uint64(keys[k])
        if cell >= size:
            continue
        if count[cell] == 0:
            first[cell] = positions[k]
        if count[cell] == 0 or ranks[k] > rank[cell]:
            rank[cell] = ranks[k]
            where[cell] = positions[k]
            changed[k] = True
        if follows[cell] == count[cell] and positions[k] == first[cell] + count[cell]:
            follows[cell] += 1
        count[cell] += 1
    return changed
