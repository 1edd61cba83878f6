"""SpMV and SpMM kernels: stored elements times a dense vector or matrix.

A chunk of COO elements comes as three arrays: output coordinate (``rows``), contracted coordinate (``cols``) and
value. ``row0`` and ``col0`` are subtracted from the coordinates, so a contiguous range of a tensor needs no copies.
Elements outside ``y`` or ``x`` are skipped, which selects the range and keeps a damaged file from writing out of
bounds.

* ``sorted_coo_*`` expect equal output coordinates to be adjacent. Runs inside the chunk are summed in a register and
  written once. The first and last run may continue in neighboring chunks, so their sums are returned in ``edges``
  (shape (2,) or (2, k)) for the caller to add in chunk order: no two threads write one element, and no sum depends
  on the number of threads.
* ``coo_*`` take elements in any order and scatter-add them to ``y``; one thread at a time.
* ``csr_*`` take complete rows in CSR. Rows may be distributed over threads freely: each is summed from left to right,
  as a run is, so a row that lies in one chunk has the bits of ``sorted_coo_*``.

Every kernel exists for one vector (``matvec``) and for k columns, row-major (``matvecs``, eight columns at a time by
:mod:`sparrow.kernels.matmul.simd`). Absent elements are never multiplied, so NaN and infinity in ``x`` reach only rows
that store an element there. Kernels prefetch ``x`` (``y`` in a scatter), since access to it is random.

Numba compiles a kernel for each combination of argument types. Callers pass read-only arrays
(:func:`~sparrow.kernels.jit.warmup.as_readonly`), coordinates of one width and values, ``x`` and ``y`` of one of the
dtypes of :func:`~sparrow.kernels.coo.accumulator_dtype`, so that few combinations exist.
"""

from __future__ import annotations

import numpy as np

from sparrow.kernels.jit.compiler import njit
from sparrow.kernels.matmul.intrinsics import prefetch
from sparrow.kernels.matmul.simd import LANES, broadcast, load, store

__all__ = [
    "coo_matvec",
    "coo_matvecs",
    "csr_constant_matvec",
    "csr_constant_matvecs",
    "csr_matvec",
    "csr_matvecs",
    "sorted_coo_matvec",
    "sorted_coo_matvecs",
]

_PREFETCH = 64
"""Elements between a prefetch and its use."""
_ZERO, _ONE, _PREFETCH_U = (np.uint64(k) for k in (0, 1, _PREFETCH))


@njit(cache=True, nogil=True)
def sorted_coo_matvec(rows, cols, values, row0, col0, x, y, edges):  # type: ignore[no-untyped-def]
    """Sum runs of equal rows: ``y[row - row0] = sum(value * x[col - col0])``.

    Returns
    -------
    first, last
        Positions in ``y`` of the sums ``edges[0]`` and ``edges[1]``, unsigned; past the end of ``y`` if there is no
        such sum. A single run has its sum in ``edges[0]``, and ``last`` is past the end.
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
    ahead = len(rows) - _PREFETCH
    for k in range(len(rows)):
        if k < ahead:
            prefetch(x, cols[k + _PREFETCH] - col0)
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
def sorted_coo_matvecs(rows, cols, values, row0, col0, x, y, edges):  # type: ignore[no-untyped-def]
    """Sum runs of equal rows for k columns, as :func:`sorted_coo_matvec` does.

    Returns
    -------
    first, last
        As for :func:`sorted_coo_matvec`; ``edges`` has shape (2, k).
    """
    nothing = np.uint64(y.shape[0])
    edges[:] = 0
    n = len(rows)
    if n == 0:
        return nothing, nothing
    height, width, columns = np.uint64(y.shape[0]), np.uint64(x.shape[0]), np.uint64(x.shape[1])
    zero = edges[0, 0]
    first, last = np.uint64(rows[0] - row0), nothing
    ahead = n - _PREFETCH // 4
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
            left, total = columns - panel, broadcast(zero)
            for k in range(start, stop):
                if k < ahead:
                    prefetch(x, np.uint64(cols[k + _PREFETCH // 4] - col0) * columns + panel)
                col = np.uint64(cols[k] - col0)
                if col < width:
                    total += broadcast(values[k]) * load(x, col * columns + panel, left)
            store(target, panel, left, total)
        start = stop
    return first, last


@njit(cache=True, nogil=True)
def coo_matvec(rows, cols, values, row0, col0, x, y):  # type: ignore[no-untyped-def]
    """Add each element in order: ``y[row - row0] += value * x[col - col0]``."""
    height, width = np.uint64(len(y)), np.uint64(len(x))
    ahead = len(rows) - _PREFETCH
    for k in range(len(rows)):
        if k < ahead:
            prefetch(y, rows[k + _PREFETCH] - row0)
        row, col = np.uint64(rows[k] - row0), np.uint64(cols[k] - col0)
        if row < height and col < width:
            y[row] += values[k] * x[col]


@njit(cache=True, nogil=True)
def coo_matvecs(rows, cols, values, row0, col0, x, y):  # type: ignore[no-untyped-def]
    """Add each element in order to its row of k columns, as :func:`coo_matvec` does."""
    height, width, columns = np.uint64(y.shape[0]), np.uint64(x.shape[0]), y.shape[1]
    ahead = len(rows) - _PREFETCH // 4
    for k in range(len(rows)):
        if k < ahead:
            prefetch(y, (rows[k + _PREFETCH // 4] - row0) * columns)
        row, col = np.uint64(rows[k] - row0), np.uint64(cols[k] - col0)
        if row < height and col < width:
            value = values[k]
            for column in range(columns):
                y[row, column] += value * x[col, column]


@njit(cache=True, nogil=True)
def csr_matvec(indptr, indices, values, x, y):  # type: ignore[no-untyped-def]
    """Multiply rows: ``y[i] = sum(values[k] * x[indices[k]])``.

    Parameters
    ----------
    indptr
        Shape (m + 1,): row i has the elements ``indptr[i] - indptr[0]`` to ``indptr[i + 1] - indptr[0]``.
    indices, values
        Elements of these rows, shape (n,); ``indices`` must be within ``x``.
    x, y
        Shapes (k,) and (m,); ``y`` is overwritten.
    """
    base, zero = indptr[0], y.dtype.type(0)
    ahead = np.uint64(max(len(indices) - _PREFETCH, 0))
    for i in range(len(y)):
        # Unsigned positions skip the test for negative indices.
        k, stop = np.uint64(indptr[i] - base), np.uint64(indptr[i + 1] - base)
        total = zero
        while k < stop:
            if k < ahead:
                prefetch(x, np.int64(indices[k + _PREFETCH_U]))
            total += values[k] * x[np.uint64(indices[k])]
            k += _ONE
        y[i] = total


@njit(cache=True, nogil=True)
def csr_constant_matvec(indptr, indices, value, x, y):  # type: ignore[no-untyped-def]
    """Multiply rows of equal elements, ``value``; see :func:`csr_matvec`."""
    base, zero = indptr[0], y.dtype.type(0)
    for i in range(len(y)):
        k, stop = np.uint64(indptr[i] - base), np.uint64(indptr[i + 1] - base)
        total = zero
        while k < stop:
            total += value * x[np.uint64(indices[k])]
            k += _ONE
        y[i] = total


@njit(cache=True, nogil=True)
def csr_matvecs(indptr, indices, values, x, y):  # type: ignore[no-untyped-def]
    """Multiply rows by the k columns of ``x``; see :func:`csr_matvec`."""
    base, zero, columns = indptr[0], y.dtype.type(0), np.uint64(x.shape[1])
    ahead = len(indices) - _PREFETCH // 4
    for i in range(np.uint64(y.shape[0])):
        start, stop = indptr[i] - base, indptr[i + _ONE] - base
        for panel in range(_ZERO, columns, LANES):
            left, total = columns - panel, broadcast(zero)
            for k in range(start, stop):
                if k < ahead:
                    prefetch(x, np.uint64(indices[k + _PREFETCH // 4]) * columns + panel)
                total += broadcast(values[k]) * load(x, np.uint64(indices[k]) * columns + panel, left)
            store(y, i * columns + panel, left, total)


@njit(cache=True, nogil=True)
def csr_constant_matvecs(indptr, indices, value, x, y):  # type: ignore[no-untyped-def]
    """Multiply rows of elements ``value`` by k columns; see :func:`csr_matvec`."""
    base, zero, columns, factor = indptr[0], y.dtype.type(0), np.uint64(x.shape[1]), broadcast(value)
    ahead = len(indices) - _PREFETCH // 4
    for i in range(np.uint64(y.shape[0])):
        start, stop = indptr[i] - base, indptr[i + _ONE] - base
        for panel in range(_ZERO, columns, LANES):
            left, total = columns - panel, broadcast(zero)
            for k in range(start, stop):
                if k < ahead:
                    prefetch(x, np.uint64(indices[k + _PREFETCH // 4]) * columns + panel)
                total += factor * load(x, np.uint64(indices[k]) * columns + panel, left)
            store(y, i * columns + panel, left, total)
