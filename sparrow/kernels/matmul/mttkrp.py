"""MTTKRP kernel: matricized tensor times Khatri-Rao product of dense factors."""

from __future__ import annotations

import numpy as np

from sparrow.kernels.jit.compiler import njit
from sparrow.kernels.matmul.simd import LANES, broadcast, load, store

__all__ = ["mttkrp"]

_ZERO, _ONE = np.uint64(0), np.uint64(1)


@njit(cache=True, nogil=True)
def mttkrp(rows, places, values, table, first, last, y, edges):  # type: ignore[no-untyped-def]
    """Accumulate ``y[row, :] += value * table[p0, :] * table[p1, :] * ...``.

    Eight columns at a time are summed along a run of equal rows.

    Parameters
    ----------
    rows, values
        Output row and value of each element, shape (n,).
    places
        Table rows to multiply each element with, shape (f, n). Elements with a row past the end are skipped.
    table
        Rows of all factors, shape (t, k).
    first, last
        Rows whose sums go to ``edges[0]`` and ``edges[1]`` instead of ``y``: they may continue in neighboring chunks.
    y, edges
        Accumulators, shapes (m, k) and (2, k).
    """
    height, size, columns = np.uint64(y.shape[0]), np.uint64(table.shape[0]), np.uint64(table.shape[1])
    n = np.uint64(len(rows))
    start = _ZERO
    while start < n:
        row = rows[start]
        stop = start + _ONE
        while stop < n and rows[stop] == row:
            stop += _ONE
        if row == first:
            target = edges[0]
        elif row == last:
            target = edges[1]
        elif np.uint64(row) < height:
            target = y[np.uint64(row)]
        else:
            start = stop
            continue
        for panel in range(_ZERO, columns, LANES):
            left, total = columns - panel, load(target, panel, columns - panel)
            for k in range(start, stop):
                product, inside = broadcast(values[k]), True
                for f in range(np.uint64(places.shape[0])):
                    place = np.uint64(places[f, k])
                    if place >= size:
                        inside = False
                        break
                    product *= load(table, place * columns + panel, left)
                if inside:
                    total += product
            store(target, panel, left, total)
        start = stop
