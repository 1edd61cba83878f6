"""Kernels of tensors with dense arrays: SpMV, SpMM, MTTKRP and SDDMM.

A chunk of COO elements comes as output row, table row and value of each element. Elements outside the arrays are
skipped, which keeps a damaged file from writing out of bounds.

* ``sorted_coo_matvec`` expects equal rows to be adjacent. Runs inside the chunk are summed in a register and written
  once. The first and last run may continue in neighboring chunks, so their sums are returned in ``edges`` for the
  caller to add in chunk order: no two threads write one element, and no sum depends on the number of threads.
* ``coo_matvec`` takes elements in any order and scatter-adds them; one thread at a time.
* ``mttkrp`` does both for k columns and the product of any number of factors, eight columns at a time by
  :mod:`sparrow.kernels.simd`. One factor is SpMM.
* ``csr_*`` take complete rows in CSR. Rows may be distributed over threads freely: each is summed from left to right,
  as a run is, so a row that lies in one chunk has the same bits.

Absent elements are never multiplied, so NaN and infinity reach only rows that store an element there. Kernels prefetch
the dense array that is accessed at random.

Numba compiles a kernel for each combination of argument types. Callers pass read-only arrays
(:func:`~sparrow.kernels.jit.warmup.as_readonly`), coordinates of one width and values and arrays of one of the dtypes
of :func:`~sparrow.kernels.coo.accumulator_dtype`, so that few combinations exist.
"""

from __future__ import annotations

import numpy as np

from sparrow.kernels.jit.compiler import njit
from sparrow.kernels.simd import LANES, broadcast, load, prefetch, reduce_add, store

__all__ = [
    "coo_matvec", "csr_constant_matvec", "csr_constant_matvecs", "csr_matvec", "csr_matvecs", "mttkrp", "sddmm",
    "sorted_coo_matvec",
]  # fmt: skip

_PREFETCH, _PREFETCH_ROWS = 64, 16
"""Elements between a prefetch and its use: of an element, and of a row."""
_ZERO, _ONE, _PREFETCH_U, _PREFETCH_ROWS_U = (np.uint64(k) for k in (0, 1, _PREFETCH, _PREFETCH_ROWS))


@njit(cache=True, nogil=True)
def sorted_coo_matvec(rows, cols, values, x, y, edges):  # type: ignore[no-untyped-def]
    """Sum runs of equal rows: ``y[row] = sum(value * x[col])``.

    Parameters
    ----------
    rows, cols, values
        Coordinates and values, shape (n,), at least one.
    x, y
        Shapes (k,) and (m,).
    edges
        Receives the sums of the first and last run, shape (2,); those of a single run go to the first.
    """
    height, width = np.uint64(len(y)), np.uint64(len(x))
    edges[0] = edges[1] = 0
    zero = edges[0]
    total = zero
    current = rows[0]
    inside = False
    ahead = len(rows) - _PREFETCH
    for k in range(len(rows)):
        if k < ahead:
            prefetch(x, np.int64(cols[k + _PREFETCH]))
        row = rows[k]
        if row != current:
            if inside:
                cell = np.uint64(current)
                if cell < height:
                    y[cell] = total
            else:
                edges[0] = total
                inside = True
            total = zero
            current = row
        col = np.uint64(cols[k])
        if col < width:
            total += values[k] * x[col]
    edges[1 if inside else 0] = total


@njit(cache=True, nogil=True)
def coo_matvec(rows, cols, values, x, y):  # type: ignore[no-untyped-def]
    """Add each element in order: ``y[row] += value * x[col]``."""
    height, width = np.uint64(len(y)), np.uint64(len(x))
    ahead = len(rows) - _PREFETCH
    for k in range(len(rows)):
        if k < ahead:
            prefetch(y, np.int64(rows[k + _PREFETCH]))
        row, col = np.uint64(rows[k]), np.uint64(cols[k])
        if row < height and col < width:
            y[row] += values[k] * x[col]


@njit(cache=True, nogil=True)
def mttkrp(rows, places, values, table, first, last, y, edges):  # type: ignore[no-untyped-def]
    """Accumulate ``y[row, :] += value * table[p0, :] * table[p1, :] * ...``.

    Matricized tensor times Khatri-Rao product. Eight columns at a time are summed along a run of equal rows.

    Parameters
    ----------
    rows, values
        Output row and value of each element, shape (n,).
    places
        Table rows to multiply each element with, shape (f, n), f > 0. Elements with a row past the end are skipped.
    table
        Rows of all factors, shape (t, k).
    first, last
        Rows whose sums go to ``edges[0]`` and ``edges[1]`` instead of ``y``: they may continue in neighboring chunks.
    y, edges
        Accumulators, shapes (m, k) and (2, k).
    """
    height, size, columns = np.uint64(y.shape[0]), np.uint64(table.shape[0]), np.uint64(table.shape[1])
    n, factors = np.uint64(len(rows)), np.uint64(places.shape[0])
    ahead = np.uint64(max(len(rows) - _PREFETCH_ROWS, 0))
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
                if k < ahead:
                    prefetch(table, np.uint64(places[0, k + _PREFETCH_ROWS_U]) * columns + panel)
                place = np.uint64(places[0, k])
                if place >= size:
                    continue
                product, inside = broadcast(values[k]) * load(table, place * columns + panel, left), True
                for f in range(_ONE, factors):
                    place = np.uint64(places[f, k])
                    if place >= size:
                        inside = False
                        break
                    product *= load(table, place * columns + panel, left)
                if inside:
                    total += product
            store(target, panel, left, total)
        start = stop


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
    ahead = len(indices) - _PREFETCH_ROWS
    for i in range(np.uint64(y.shape[0])):
        start, stop = indptr[i] - base, indptr[i + _ONE] - base
        for panel in range(_ZERO, columns, LANES):
            left, total = columns - panel, broadcast(zero)
            for k in range(start, stop):
                if k < ahead:
                    prefetch(x, np.uint64(indices[k + _PREFETCH_ROWS]) * columns + panel)
                total += broadcast(values[k]) * load(x, np.uint64(indices[k]) * columns + panel, left)
            store(y, i * columns + panel, left, total)


@njit(cache=True, nogil=True)
def csr_constant_matvecs(indptr, indices, value, x, y):  # type: ignore[no-untyped-def]
    """Multiply rows of elements ``value`` by k columns; see :func:`csr_matvec`."""
    base, zero, columns, factor = indptr[0], y.dtype.type(0), np.uint64(x.shape[1]), broadcast(value)
    ahead = len(indices) - _PREFETCH_ROWS
    for i in range(np.uint64(y.shape[0])):
        start, stop = indptr[i] - base, indptr[i + _ONE] - base
        for panel in range(_ZERO, columns, LANES):
            left, total = columns - panel, broadcast(zero)
            for k in range(start, stop):
                if k < ahead:
                    prefetch(x, np.uint64(indices[k + _PREFETCH_ROWS]) * columns + panel)
                total += factor * load(x, np.uint64(indices[k]) * columns + panel, left)
            store(y, i * columns + panel, left, total)


@njit(cache=True, nogil=True)
def sddmm(rows, columns, values, x, y, out):  # type: ignore[no-untyped-def]
    """Write ``out[e] = values[e] * sum(x[rows[e], :] * y[columns[e], :])``.

    Parameters
    ----------
    rows, columns, values
        Coordinates and values, shape (n,). Elements outside the arrays yield 0.
    x, y
        Dense factors, shapes (m, k) and (n, k), in the dtype of the values.
    out
        Receives the products, shape (n,).
    """
    height, width, depth = np.uint64(x.shape[0]), np.uint64(y.shape[0]), np.uint64(x.shape[1])
    zero = out.dtype.type(0)
    ahead = len(rows) - _PREFETCH_ROWS
    for e in range(len(rows)):
        if e < ahead:
            prefetch(y, np.uint64(columns[e + _PREFETCH_ROWS]) * depth)
        row, column = np.uint64(rows[e]), np.uint64(columns[e])
        if row >= height or column >= width:
            out[e] = zero
            continue
        products = broadcast(zero)
        for panel in range(_ZERO, depth, LANES):
            left = depth - panel
            products += load(x, row * depth + panel, left) * load(y, column * depth + panel, left)
        out[e] = values[e] * reduce_add(products)
