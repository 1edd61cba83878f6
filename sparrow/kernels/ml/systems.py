"""Equations of one row of alternating least squares, solved with LAPACK.

See :mod:`sparrow.kernels.ml.als` for the equations. Rows of the fixed table are in a buffer, or copied to it in
batches; ``lapack`` has the addresses of ``syrk``, ``potrf`` and ``potrs`` in the precision of the buffer.
"""

from __future__ import annotations

import math

import numpy as np

from sparrow.kernels.jit.compiler import njit
from sparrow.kernels.ml.blas import fortran
from sparrow.kernels.ml.factors import load

__all__ = [
    "FIRST_COLUMN",
    "assign",
    "clear",
    "combine_rows",
    "copy_targets",
    "refine_cholesky",
    "row_products",
    "solve_cholesky",
    "solve_woodbury",
    "squared_error",
]

FIRST_COLUMN = np.int64(0)
"""First column when all are used; a typed constant, since Numba compiles literals separately."""
_N, _T, _L = np.uint8(ord("N")), np.uint8(ord("T")), np.uint8(ord("L"))
_ZERO, _ONE = np.float32(0), np.float32(1)
_SYRK_MIN_ROWS = 64
"""Below, loops compute the inner products of all pairs of rows faster than ``ssyrk``."""


@njit(cache=True, nogil=True, error_model="numpy")
def assign(out, source):  # type: ignore[no-untyped-def]
    """Copy numbers with a cast."""
    for j in range(len(out)):  # Numba takes seconds to compile slice assignment, because of its error path
        out[j] = source[j]


@njit(cache=True, nogil=True, error_model="numpy")
def clear(out):  # type: ignore[no-untyped-def]
    """Fill with zeros."""
    for j in range(len(out)):
        out[j] = 0


@njit(cache=True, nogil=True, error_model="numpy")
def copy_targets(ratings, start, count, out):  # type: ignore[no-untyped-def]
    """Copy the values of edges from ``start``, or 1 for implicit feedback."""
    values, weighted = ratings[1], ratings[2]
    for k in range(count):
        out[k] = values[start + k] if weighted else _ONE


@njit(cache=True, nogil=True, error_model="numpy")
def squared_error(targets, found, count):  # type: ignore[no-untyped-def]
    """Return the sum of squared differences, in float64."""
    total = 0.0
    for k in range(count):
        gap = np.float64(targets[k]) - np.float64(found[k])
        total += gap * gap
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def row_products(table, low, count, x, out):  # type: ignore[no-untyped-def]
    """Write the products of ``x`` with rows of a buffer, from column ``low``."""
    for k in range(count):
        row = table[k][low : low + len(x)]
        total = out.dtype.type(0)
        for j in range(len(x)):
            total += row[j] * x[j]
        out[k] = total


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def combine_rows(table, low, count, by, out):  # type: ignore[no-untyped-def]
    """Add ``by[k]`` times each row of a buffer, from column ``low``, to ``out``."""
    high = low + len(out)
    k = 0
    while k + 4 <= count:
        h0, h1 = table[k][low:high], table[k + 1][low:high]
        h2, h3 = table[k + 2][low:high], table[k + 3][low:high]
        s0, s1, s2, s3 = by[k], by[k + 1], by[k + 2], by[k + 3]
        for j in range(len(out)):
            out[j] += s0 * h0[j] + s1 * h1[j] + s2 * h2[j] + s3 * h3[j]
        k += 4
    while k < count:
        h, s = table[k][low:high], by[k]
        for j in range(len(out)):
            out[j] += s * h[j]
        k += 1


@njit(cache=True, nogil=True, error_model="numpy")
def solve_cholesky(  # type: ignore[no-untyped-def]
    start, n, ratings, table, base, weight, lapack, buffer, matrix, w, y, found
):
    """Solve a row by Cholesky factorization of its d x d matrix.

    Returns
    -------
    float
        Sum of squared errors, negative if the matrix is not positive definite.
    """
    syrk, potrf, potrs = lapack
    d, room = len(w), len(buffer)
    one, info = w.dtype.type(1), np.zeros(1, np.int32)
    clear(w)
    for j in range(d):
        assign(matrix[j], base[j])
        matrix[j, j] += w.dtype.type(weight)
    for done in range(0, n, room):
        size = min(room, n - done)
        load(table, ratings, start + done, size, buffer)
        copy_targets(ratings, start + done, size, y)
        fortran(syrk, (_L, _N, d, size, one, buffer, d, one, matrix, d))
        combine_rows(buffer, FIRST_COLUMN, size, y, w)
    fortran(potrf, (_L, d, matrix, d, info))
    if info[0] != 0:
        return -1.0
    fortran(potrs, (_L, d, 1, matrix, d, w, d, info))
    total = 0.0
    for done in range(0, n, room):
        size = min(room, n - done)
        if n > room:
            load(table, ratings, start + done, size, buffer)
            copy_targets(ratings, start + done, size, y)
        row_products(buffer, FIRST_COLUMN, size, w, found)
        total += squared_error(y, found, size)
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def refine_cholesky(  # type: ignore[no-untyped-def]
    start, n, ratings, table, spectrum, weight, lapack, buffer, factor, w, wide, slope, step, y
):
    """Refine a solution of :func:`solve_cholesky` with residuals in float64.

    Iterative refinement in mixed precision (Wilkinson 1963).

    Returns
    -------
    float
        Sum of squared errors, negative if the steps do not converge.
    """
    potrs = lapack[2]
    d, room, info = len(w), len(buffer), np.zeros(1, np.int32)
    assign(wide, w)
    for _ in range(6):
        total = 0.0
        for j in range(d):
            slope[j] = -(spectrum[j] + weight) * wide[j]
        for done in range(0, n, room):
            size = min(room, n - done)
            if n > room:
                load(table, ratings, start + done, size, buffer)
                copy_targets(ratings, start + done, size, y)
            for k in range(size):
                row = buffer[k]
                gap = np.float64(y[k])
                for j in range(d):
                    gap -= row[j] * wide[j]
                for j in range(d):
                    slope[j] += gap * row[j]
                total += gap * gap
        for j in range(d):
            step[j] = slope[j]
        fortran(potrs, (_L, d, 1, factor, d, step, d, info))
        moved = length = 0.0
        for j in range(d):
            wide[j] += step[j]
            moved += np.float64(step[j]) * step[j]
            length += wide[j] * wide[j]
        if moved <= 1e-14 * length:
            assign(w, wide)
            return total
    return -1.0


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _products_of_pairs(table, low, count, width, matrix):  # type: ignore[no-untyped-def]
    """Write inner products of rows of a buffer, from column ``low``, to ``matrix``.

    The product of rows i and j <= i is ``matrix[j * count + i]``.
    """
    high = low + width
    i = 0
    while i + 4 <= count:
        h0, h1 = table[i][low:high], table[i + 1][low:high]
        h2, h3 = table[i + 2][low:high], table[i + 3][low:high]
        for j in range(i + 4):  # includes elements above the diagonal, which are not read
            h = table[j][low:high]
            s0 = s1 = s2 = s3 = _ZERO
            for at in range(width):
                s0 += h0[at] * h[at]
                s1 += h1[at] * h[at]
                s2 += h2[at] * h[at]
                s3 += h3[at] * h[at]
            place = j * count + i
            matrix[place], matrix[place + 1], matrix[place + 2], matrix[place + 3] = s0, s1, s2, s3
        i += 4
    while i < count:
        h0 = table[i][low:high]
        for j in range(i + 1):
            h = table[j][low:high]
            s0 = _ZERO
            for at in range(width):
                s0 += h0[at] * h[at]
            matrix[j * count + i] = s0
        i += 1


@njit(cache=True, nogil=True, error_model="numpy")
def solve_woodbury(buffer, low, n, spectrum, weight, most, lapack, matrix, root, targets, w):  # type: ignore[no-untyped-def]
    """Solve for a block of factors of a row by the Woodbury identity.

    Factors an n x n matrix, for rows with fewer ratings than factors. The buffer holds the rows Z of the fixed table
    from column ``low`` and is overwritten. ``targets`` is replaced by the errors, the solution of the n equations.
    ``w`` receives the factors.

    Returns
    -------
    bool
        Whether the matrix is positive definite and the sum of its eigenvalues at most ``most``.
    """
    syrk, potrf, potrs = lapack
    d, k, info = buffer.shape[1], len(w), np.zeros(1, np.int32)
    for j in range(k):
        root[j] = np.float32(1.0 / math.sqrt(spectrum[low + j] + weight))
    for rating in range(n):
        row = buffer[rating][low : low + k]
        for j in range(k):
            row[j] *= root[j]
    if n < _SYRK_MIN_ROWS:
        _products_of_pairs(buffer, low, n, k, matrix)
    else:
        fortran(syrk, (_L, _T, n, k, _ONE, buffer[:, low:], d, _ZERO, matrix, n))
    trace = _ZERO
    for rating in range(n):
        trace += matrix[rating * n + rating]
        matrix[rating * n + rating] += _ONE
    if trace > most:
        return False
    fortran(potrf, (_L, n, matrix, n, info))
    if info[0] != 0:
        return False
    fortran(potrs, (_L, n, 1, matrix, n, targets, n, info))
    clear(w)
    combine_rows(buffer, low, n, targets, w)
    for j in range(k):
        w[j] *= root[j]
    return True
