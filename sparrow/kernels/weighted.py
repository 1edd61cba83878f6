"""Sums of entries, each times rows of a table: the loop under contractions of a tensor with several arrays."""

from __future__ import annotations

import numpy as np

from sparrow.kernels.jit import njit

__all__ = ["sum_weighted"]


@njit(cache=True, nogil=True)
def sum_weighted(rows, places, values, table, whole, y, edges):  # type: ignore[no-untyped-def]
    """Add each entry to its row of k cells: ``y[row, :] += value * table[place, :] * table[other place, :] * ...``.

    Eight columns at a time are summed in registers along a run of equal rows.

    Parameters
    ----------
    rows, values
        Shape (n,): the row of the result that an entry belongs to, and the entry.
    places
        Shape (f, n): the rows of the table that it is multiplied with. Entries that point past the end are left out.
    table
        Shape (t, k).
    whole
        Whether all sums go to ``y``. Otherwise those of the first and of the last run of equal rows go to ``edges``:
        they may go on in the neighbouring chunks.
    y, edges
        Shapes (m, k) and (2, k): added to, and written.

    Returns
    -------
    first, last
        The rows of ``y`` that ``edges[0]`` and ``edges[1]`` belong to, unsigned; past the end where there is nothing
        to add.
    """
    height, size, columns = np.uint64(y.shape[0]), np.uint64(table.shape[0]), np.uint64(table.shape[1])
    one, eight = np.uint64(1), np.uint64(8)
    edges[:] = 0
    first = last = height
    n = np.uint64(len(rows))
    zero = edges[0, 0]
    start = np.uint64(0)
    while start < n:
        row = rows[start]
        stop = start + one
        while stop < n and rows[stop] == row:
            stop += one
        cell = np.uint64(row)
        if not whole and start == 0:
            target = edges[0]
            first = cell
        elif not whole and stop == n:
            target = edges[1]
            last = cell
        elif cell < height:
            target = y[cell]
        else:
            start = stop
            continue
        panel = np.uint64(0)
        while panel + eight <= columns:
            a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = zero
            for k in range(start, stop):
                b0 = b1 = b2 = b3 = b4 = b5 = b6 = b7 = values[k]
                for f in range(np.uint64(places.shape[0])):
                    place = np.uint64(places[f, k])
                    if place >= size:
                        b0 = b1 = b2 = b3 = b4 = b5 = b6 = b7 = zero
                        break
                    b0 *= table[place, panel]
                    b1 *= table[place, panel + np.uint64(1)]
                    b2 *= table[place, panel + np.uint64(2)]
                    b3 *= table[place, panel + np.uint64(3)]
                    b4 *= table[place, panel + np.uint64(4)]
                    b5 *= table[place, panel + np.uint64(5)]
                    b6 *= table[place, panel + np.uint64(6)]
                    b7 *= table[place, panel + np.uint64(7)]
                a0 += b0
                a1 += b1
                a2 += b2
                a3 += b3
                a4 += b4
                a5 += b5
                a6 += b6
                a7 += b7
            target[panel] += a0
            target[panel + np.uint64(1)] += a1
            target[panel + np.uint64(2)] += a2
            target[panel + np.uint64(3)] += a3
            target[panel + np.uint64(4)] += a4
            target[panel + np.uint64(5)] += a5
            target[panel + np.uint64(6)] += a6
            target[panel + np.uint64(7)] += a7
            panel += eight
        for column in range(panel, columns):
            total = zero
            for k in range(start, stop):
                b0 = values[k]
                for f in range(np.uint64(places.shape[0])):
                    place = np.uint64(places[f, k])
                    if place >= size:
                        b0 = zero
                        break
                    b0 *= table[place, column]
                total += b0
            target[column] += total
        start = stop
    return first, last
