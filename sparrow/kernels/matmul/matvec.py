"""Products of entries with a dense operand: the loops under ``A @ x``.

A chunk of entries comes as three arrays: the output coordinate of each entry (``rows``), its
coordinate along the contracted dimension (``cols``) and its value. ``row0`` and ``col0`` are
subtracted from the coordinates, so that a contiguous range of a tensor needs no copies; entries
that then lie outside of ``y`` or ``x`` are skipped, which cuts the range out and keeps a damaged
file from writing over foreign memory.

* ``sum_runs_*`` want equal output coordinates to stand together. A run inside the chunk is summed in
  a register and written once. The first and the last run may go on in the neighbouring chunks, so
  their sums come back in ``edges`` (shape (2,) or (2, k)) with their rows, for the caller to add up in the
  order of the chunks: no two threads write one cell and no sum depends on their number.
* ``scatter_*`` take entries in any order and add each to its cell of ``y``; one thread at a time.
* ``rows_*`` take whole rows with pointers to where each begins (CSR) and write each row's sum. The sum of a row runs in
  the same order whatever rows come with it, so rows may be dealt out to threads at will.

Every kernel exists for one column (``vector``) and for k columns, row-major (``matrix``), where eight
columns at a time are summed with SIMD (:mod:`sparrow.kernels.matmul.simd`); that of rows also for a column of ones.
Entries that are absent are never multiplied, so NaN and infinity in ``x`` reach only the rows that hold an entry there.

The entries of ``x`` (of ``y`` in a scatter) lie anywhere, and decoding the chunk has just pushed them out of the
caches: each kernel asks for those it needs some entries ahead.

Numba compiles a kernel for each combination of argument types. Callers pass read-only arrays
(:func:`.as_readonly`), coordinates of one width and values, ``x`` and ``y`` of one of the types
of :func:`~sparrow.kernels.coo.accumulator_dtype`, so that few combinations exist.
"""

from __future__ import annotations

import numpy as np

from sparrow.kernels.jit.compiler import njit
from sparrow.kernels.matmul.intrinsics import prefetch
from sparrow.kernels.matmul.simd import LANES, load, spread, store

__all__ = [
    "rows_matrix",
    "rows_sums",
    "rows_vector",
    "scatter_matrix",
    "scatter_vector",
    "sum_runs_matrix",
    "sum_runs_vector",
]

_AHEAD = 64
"""Entries between asking for memory and using it."""
_ZERO, _ONE, _TWO, _THREE, _FOUR, _FAR = (np.uint64(k) for k in (0, 1, 2, 3, 4, _AHEAD))


@njit(cache=True, nogil=True)
def sum_runs_vector(rows, cols, values, row0, col0, x, y, edges):  # type: ignore[no-untyped-def]
    """Sum runs of equal rows: ``y[row - row0] = sum(value * x[col - col0])``.

    Returns
    -------
    first, last
        The cells of ``y`` that ``edges[0]`` and ``edges[1]`` belong to, unsigned; past the end of ``y`` where there
        is nothing to add. With one run both sums stand in ``edges[0]`` and ``last`` is past the end.
    """
    nothing = np.uint64(len(y))
    edges[0] = edges[1] = 0
    if len(rows) == 0:
        return nothing, nothing
    height, width = np.uint64(len(y)), np.uint64(len(x))
    zero = edges[0]
    total = zero
    current = rows[0]
    first = np.uint64(current - row0)
    inside = False
    ahead = len(rows) - _AHEAD
    for k in range(len(rows)):
        if k < ahead:
            prefetch(x, cols[k + _AHEAD] - col0)
        row = rows[k]
        if row != current:
            if inside:
                cell = np.uint64(current - row0)
                if cell < height:
                    y[cell] = total
            else:
                edges[0] = total
                inside = True
            total = zero
            current = row
        col = np.uint64(cols[k] - col0)
        if col < width:
            total += values[k] * x[col]
    if inside:
        edges[1] = total
        return first, np.uint64(current - row0)
    edges[0] = total
    return first, nothing


@njit(cache=True, nogil=True)
def sum_runs_matrix(rows, cols, values, row0, col0, x, y, edges):  # type: ignore[no-untyped-def]
    """Sum runs of equal rows for k columns: ``y[row - row0, :] = sum(value * x[col - col0, :])``.

    Returns
    -------
    first, last
        As of :func:`sum_runs_vector`; ``edges`` has shape (2, k).
    """
    nothing = np.uint64(y.shape[0])
    edges[:] = 0
    n = len(rows)
    if n == 0:
        return nothing, nothing
    height, width, columns = np.uint64(y.shape[0]), np.uint64(x.shape[0]), np.uint64(x.shape[1])
    zero = edges[0, 0]
    first, last = np.uint64(rows[0] - row0), nothing
    ahead = n - _AHEAD // 4
    start = 0
    while start < n:
        current = rows[start]
        stop = start + 1
        while stop < n and rows[stop] == current:
            stop += 1
        cell = np.uint64(current - row0)
        if start == 0:
            target = edges[0]
        elif stop == n:
            target = edges[1]
            last = cell
        elif cell < height:
            target = y[cell]
        else:
            start = stop
            continue
        for panel in range(_ZERO, columns, LANES):
            left, total = columns - panel, spread(zero)
            for k in range(start, stop):
                if k < ahead:
                    prefetch(x, np.uint64(cols[k + _AHEAD // 4] - col0) * columns + panel)
                col = np.uint64(cols[k] - col0)
                if col < width:
                    total += spread(values[k]) * load(x, col * columns + panel, left)
            store(target, panel, left, total)
        start = stop
    return first, last


@njit(cache=True, nogil=True)
def scatter_vector(rows, cols, values, row0, col0, x, y):  # type: ignore[no-untyped-def]
    """Add each entry to its cell, in order: ``y[row - row0] += value * x[col - col0]``."""
    height, width = np.uint64(len(y)), np.uint64(len(x))
    ahead = len(rows) - _AHEAD
    for k in range(len(rows)):
        if k < ahead:
            prefetch(y, rows[k + _AHEAD] - row0)
        row, col = np.uint64(rows[k] - row0), np.uint64(cols[k] - col0)
        if row < height and col < width:
            y[row] += values[k] * x[col]


@njit(cache=True, nogil=True)
def scatter_matrix(rows, cols, values, row0, col0, x, y):  # type: ignore[no-untyped-def]
    """Add each entry to its row of k cells, in order: ``y[row - row0, :] += value * x[col - col0, :]``."""
    height, width, columns = np.uint64(y.shape[0]), np.uint64(x.shape[0]), y.shape[1]
    ahead = len(rows) - _AHEAD // 4
    for k in range(len(rows)):
        if k < ahead:
            prefetch(y, (rows[k + _AHEAD // 4] - row0) * columns)
        row, col = np.uint64(rows[k] - row0), np.uint64(cols[k] - col0)
        if row < height and col < width:
            value = values[k]
            for column in range(columns):
                y[row, column] += value * x[col, column]


@njit(cache=True, nogil=True)
def rows_vector(indptr, indices, values, x, y):  # type: ignore[no-untyped-def]
    """Multiply rows: ``y[i] = sum(values[k] * x[indices[k]])`` for the entries of row i, in four partial sums.

    Parameters
    ----------
    indptr
        Shape (m + 1,): row i has the entries from ``indptr[i] - indptr[0]`` up to ``indptr[i + 1] - indptr[0]``.
    indices, values
        Shape (n,), the entries of these rows; ``indices`` count from 0 and lie within ``x``.
    x, y
        Shapes (k,) and (m,); ``y`` is overwritten.
    """
    base, zero = indptr[0], y.dtype.type(0)
    ahead = np.uint64(max(len(indices) - _AHEAD - 3, 0))
    for i in range(len(y)):
        # Unsigned positions spare the question whether they count from the end.
        k, stop = np.uint64(indptr[i] - base), np.uint64(indptr[i + 1] - base)
        a0 = a1 = a2 = a3 = zero
        while k + _FOUR <= stop:
            if k < ahead:
                prefetch(x, np.int64(indices[k + _FAR]))
                prefetch(x, np.int64(indices[k + _FAR + _ONE]))
                prefetch(x, np.int64(indices[k + _FAR + _TWO]))
                prefetch(x, np.int64(indices[k + _FAR + _THREE]))
            a0 += values[k] * x[np.uint64(indices[k])]
            a1 += values[k + _ONE] * x[np.uint64(indices[k + _ONE])]
            a2 += values[k + _TWO] * x[np.uint64(indices[k + _TWO])]
            a3 += values[k + _THREE] * x[np.uint64(indices[k + _THREE])]
            k += _FOUR
        while k < stop:
            a0 += values[k] * x[np.uint64(indices[k])]
            k += _ONE
        y[i] = (a0 + a1) + (a2 + a3)


@njit(cache=True, nogil=True)
def rows_sums(indptr, indices, x, y):  # type: ignore[no-untyped-def]
    """Multiply rows of ones: ``y[i] = sum(x[indices[k]])``; as :func:`rows_vector`, which reads values."""
    base, zero = indptr[0], y.dtype.type(0)
    for i in range(len(y)):
        k, stop = np.uint64(indptr[i] - base), np.uint64(indptr[i + 1] - base)
        a0 = a1 = a2 = a3 = zero
        while k + _FOUR <= stop:
            a0 += x[np.uint64(indices[k])]
            a1 += x[np.uint64(indices[k + _ONE])]
            a2 += x[np.uint64(indices[k + _TWO])]
            a3 += x[np.uint64(indices[k + _THREE])]
            k += _FOUR
        while k < stop:
            a0 += x[np.uint64(indices[k])]
            k += _ONE
        y[i] = (a0 + a1) + (a2 + a3)


@njit(cache=True, nogil=True)
def rows_matrix(indptr, indices, values, x, y):  # type: ignore[no-untyped-def]
    """Multiply rows by k columns: ``y[i, :] = sum(values[k] * x[indices[k], :])``; as :func:`rows_vector`."""
    base, zero, columns = indptr[0], y.dtype.type(0), np.uint64(x.shape[1])
    ahead = len(indices) - _AHEAD // 4
    for i in range(np.uint64(y.shape[0])):
        start, stop = indptr[i] - base, indptr[i + _ONE] - base
        for panel in range(_ZERO, columns, LANES):
            left, total = columns - panel, spread(zero)
            for k in range(start, stop):
                if k < ahead:
                    prefetch(x, np.uint64(indices[k + _AHEAD // 4]) * columns + panel)
                total += spread(values[k]) * load(x, np.uint64(indices[k]) * columns + panel, left)
            store(y, i * columns + panel, left, total)
