"""Alternating least squares: solve for rows while the other table is fixed.

Row u has ratings of the items ``cols[indptr[u]:indptr[u + 1]]`` with values y. With the weighted Gramian
M = ``unobserved_weight * H'H`` of the fixed table and regularization ``ridge[u]``, its factors w solve

    (sum of h h' over its items + M + ridge[u] I) w = sum of y h.

Rows without ratings get zeros. Single-precision solvers expect the fixed table in the eigenbasis of its Gramian: M is
then diagonal, its ``spectrum``, and a product with it costs d instead of d^2. Factors are determined up to a common
rotation of both tables, so nothing is rotated back.

This module has the loops over blocks of rows and the conjugate gradient steps; :mod:`sparrow.kernels.ml.systems` solves
one row with LAPACK. Each kernel copies the rows of the fixed table that it needs to a buffer, and writes the loss of
each block. Results depend on the blocks alone, not on the number of blocks per call.
"""

from __future__ import annotations

import numpy as np

from sparrow.kernels.jit.compiler import njit
from sparrow.kernels.ml.blas import fortran
from sparrow.kernels.ml.factors import load
from sparrow.kernels.ml.systems import (
    FIRST_COLUMN,
    assign,
    clear,
    combine_rows,
    copy_targets,
    refine_cholesky,
    row_products,
    solve_cholesky,
    solve_woodbury,
    squared_error,
)

__all__ = ["conjugate_gradient", "eigenbasis", "normal_equations", "subspace"]

_N, _L = np.uint8(ord("N")), np.uint8(ord("L"))
_ZERO, _ONE = np.float32(0), np.float32(1)
_SMALLEST = np.finfo(np.float32).tiny
"""Smallest normal number; quotients of smaller squared norms are meaningless."""
_YES, _NO = np.bool_(True), np.bool_(False)
"""Typed booleans: Numba compiles a function once more for each literal argument."""
_FLOAT32_MAX_CONDITION = 1e4
"""Sum of eigenvalues, the smallest above 1, up to which float32 is accurate to 1e-5."""


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _sweep(table, count, x, targets, at, residual, found, out):  # type: ignore[no-untyped-def]
    """Multiply rows h_k of a buffer by ``x`` and add their weighted sum to ``out``.

    Sets ``found[at + k] = h_k . x``. The weights are ``targets[at + k] - found[at + k]`` if ``residual``, else
    ``found[at + k]``.
    """
    d = len(x)
    k = 0
    while k + 4 <= count:
        h0, h1, h2, h3 = table[k], table[k + 1], table[k + 2], table[k + 3]
        s0 = s1 = s2 = s3 = _ZERO
        for j in range(d):
            s0 += h0[j] * x[j]
            s1 += h1[j] * x[j]
            s2 += h2[j] * x[j]
            s3 += h3[j] * x[j]
        a = at + k
        found[a], found[a + 1], found[a + 2], found[a + 3] = s0, s1, s2, s3
        if residual:
            s0, s1, s2, s3 = targets[a] - s0, targets[a + 1] - s1, targets[a + 2] - s2, targets[a + 3] - s3
        for j in range(d):
            out[j] += s0 * h0[j] + s1 * h1[j] + s2 * h2[j] + s3 * h3[j]
        k += 4
    while k < count:
        h = table[k]
        s = _ZERO
        for j in range(d):
            s += h[j] * x[j]
        found[at + k] = s
        if residual:
            s = targets[at + k] - s
        for j in range(d):
            out[j] += s * h[j]
        k += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _start(indptr, first, last, rows, basis, gemm, factors, given, x):  # type: ignore[no-untyped-def]
    """Rotate the factors of the non-empty rows of a block into the basis.

    Writes the numbers of these rows to ``rows``, sets the factors of empty rows to zero and returns the number of
    non-empty rows.
    """
    d = x.shape[1]
    count = 0
    for row in range(first, last):
        if indptr[row + 1] > indptr[row]:
            rows[count] = row
            assign(given[count], factors[row])
            count += 1
        else:
            clear(factors[row])
    if count == 0:
        return 0
    if len(basis):
        fortran(gemm, (_N, _N, d, count, d, _ONE, basis, d, given, d, _ZERO, x, d))
    else:
        for k in range(count):
            assign(x[k], given[k])
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def _longest(cuts, indptr):  # type: ignore[no-untyped-def]
    found = 0
    for block in range(len(cuts) - 1):
        found = max(found, indptr[cuts[block + 1]] - indptr[cuts[block]])
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def _copy(x, i, point, r):  # type: ignore[no-untyped-def]
    """Copy a row to ``point`` and clear ``r``."""
    for j in range(len(point)):
        point[j] = x[i, j]
        r[j] = _ZERO


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _direct(x, r, p, spectrum, weight):  # type: ignore[no-untyped-def]
    """Complete the residual at ``x``, the first direction; return its squared norm."""
    total = _ZERO
    for j in range(len(x)):
        gap = r[j] - (spectrum[j] + weight) * x[j]
        r[j] = gap
        p[j] = gap
        total += gap * gap
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _advance(x, r, p, q, spectrum, weight, energy):  # type: ignore[no-untyped-def]
    """Take a conjugate gradient step; return its length and the new residual norm^2."""
    curvature = _ZERO
    for j in range(len(x)):
        bent = q[j] + (spectrum[j] + weight) * p[j]
        q[j] = bent
        curvature += bent * p[j]
    if curvature == _ZERO:  # it underflows before the squared norm of the residual does
        return _ZERO, _ZERO
    length = energy / curvature
    left = _ZERO
    for j in range(len(x)):
        x[j] += length * p[j]
        gap = r[j] - length * q[j]
        r[j] = gap
        left += gap * gap
    turn = left / energy
    for j in range(len(x)):
        p[j] = r[j] + turn * p[j]
    return length, left


@njit(cache=True, nogil=True, error_model="numpy")
def conjugate_gradient(  # type: ignore[no-untyped-def]
    cuts, height, room, indptr, ratings, table, spectrum, ridge, basis, steps, gemm, factors, losses
):
    """Improve the factors of rows by conjugate gradient steps.

    Starts at the current factors (Takács et al. 2011).

    Parameters
    ----------
    cuts
        Bounds of blocks of rows, relative to the first row of this call, shape (blocks + 1,).
    height, room
        Maximal number of non-empty rows per block, and of rows of the fixed table in the buffer.
    indptr
        Row pointers, shape (rows + 1,).
    ratings
        Columns, shape (nnz,); values, float32; whether to use the values instead of 1.
    table
        Fixed table, shape (items, d), as in :mod:`sparrow.kernels.ml.factors`.
    spectrum
        Diagonal of M, shape (d,), float32.
    ridge
        Regularization per row, shape (rows,), float32.
    basis
        Rotation of the fixed table to its eigenbasis, shape (d, d), float32, which is applied to the input factors too;
        shape (0, d) for none.
    steps
        Maximal number of steps; converged rows stop early.
    gemm
        Address of ``sgemm``.
    factors
        Start and result, shape (rows, d), float32.
    losses
        Receives the sum of squared errors of each block, shape (blocks,), float64.
    """
    d = len(spectrum)
    longest = _longest(cuts, indptr)
    buffer = np.empty((room, d), np.float32)
    y, found, along = np.empty(longest, np.float32), np.empty(longest, np.float32), np.empty(longest, np.float32)
    rows = np.empty(height, np.int64)
    x, given = np.empty((height, d), np.float32), np.empty((height, d), np.float32)
    point, r = np.empty(d, np.float32), np.empty(d, np.float32)
    p, q = np.empty(d, np.float32), np.empty(d, np.float32)
    for block in range(len(cuts) - 1):
        total = 0.0
        count = _start(indptr, cuts[block], cuts[block + 1], rows, basis, gemm, factors, given, x)
        for i in range(count):
            start, n = indptr[rows[i]], indptr[rows[i] + 1] - indptr[rows[i]]
            weight = ridge[rows[i]]
            copy_targets(ratings, start, n, y)
            _copy(x, i, point, r)
            for done in range(0, n, room):
                size = min(room, n - done)
                load(table, ratings, start + done, size, buffer)
                _sweep(buffer, size, point, y, done, _YES, found, r)
            energy = _direct(point, r, p, spectrum, weight)
            enough = max(energy * np.float32(1e-13), _SMALLEST)
            for _ in range(steps):
                if energy < enough:  # false if both have overflowed
                    break
                clear(q)
                for done in range(0, n, room):
                    size = min(room, n - done)
                    if n > room:
                        load(table, ratings, start + done, size, buffer)
                    _sweep(buffer, size, p, y, done, _NO, along, q)
                length, energy = _advance(point, r, p, q, spectrum, weight, energy)
                for k in range(n):
                    found[k] += length * along[k]
            assign(factors[rows[i]], point)
            total += squared_error(y, found, n)
        losses[block] = total


@njit(cache=True, nogil=True, error_model="numpy")
def eigenbasis(  # type: ignore[no-untyped-def]
    cuts, indptr, ratings, table, spectrum, ridge, double, single_lapack, double_lapack, factors, losses
):
    """Solve rows exactly, with the fixed table in the eigenbasis of its Gramian.

    With the diagonal D = M + ridge, a row of n < d ratings solves n equations by the Woodbury identity:
    ``w = D^-1 Z' (I + Z D^-1 Z')^-1 y``, in float32. This is far less sensitive to the condition of D than the d
    equations of ``D + Z'Z``, which rows with more ratings solve.

    Parameters
    ----------
    spectrum
        Diagonal of M, shape (d,), float64.
    double
        Whether to check the condition of each row, and to refine or solve ill-conditioned rows in float64.
    single_lapack, double_lapack
        Addresses of ``ssyrk``, ``spotrf`` and ``spotrs``, and of their float64 versions.
    cuts, indptr, ratings, table, ridge, factors, losses
        See :func:`conjugate_gradient`; the initial ``factors`` are ignored.

    Returns
    -------
    int
        First row with a matrix that is not positive definite, or -1.
    """
    d = len(spectrum)
    room = max(d, 128)
    base, base32 = np.zeros((d, d), np.float64), np.zeros((d, d), np.float32)
    diagonal = np.empty(d, np.float64)
    for j in range(d):
        diagonal[j] = base[j, j] = base32[j, j] = spectrum[j]
    buffer, wide = np.empty((room, d), np.float32), np.empty((128, d), np.float64)
    matrix32, matrix64 = np.empty((d, d), np.float32), np.empty((d, d), np.float64)
    small = np.empty(d * d, np.float32)
    root, y32, found32 = np.empty(d, np.float32), np.empty(room, np.float32), np.empty(room, np.float32)
    w64, y64, found64 = np.empty(d, np.float64), np.empty(128, np.float64), np.empty(128, np.float64)
    slope, step = np.empty(d, np.float64), np.empty(d, np.float32)
    for block in range(len(cuts) - 1):
        losses[block] = 0.0
        for row in range(cuts[block], cuts[block + 1]):
            start, n, weight = indptr[row], indptr[row + 1] - indptr[row], ridge[row]
            w = factors[row]
            if n == 0:
                clear(w)
                continue
            error = -1.0
            if n < d:
                load(table, ratings, start, n, buffer)
                copy_targets(ratings, start, n, y32)
                if solve_woodbury(
                    buffer,
                    FIRST_COLUMN,
                    n,
                    diagonal,
                    weight,
                    _FLOAT32_MAX_CONDITION,
                    single_lapack,
                    small,
                    root,
                    y32,
                    w,
                ):
                    clear(found32[:n])
                    error = squared_error(y32, found32, n)
            else:
                error = solve_cholesky(
                    start, n, ratings, table, base32, weight, single_lapack, buffer, matrix32, w, y32, found32
                )
                if double and error >= 0:
                    error = refine_cholesky(
                        start,
                        n,
                        ratings,
                        table,
                        spectrum,
                        weight,
                        single_lapack,
                        buffer,
                        matrix32,
                        w,
                        w64,
                        slope,
                        step,
                        y32,
                    )
            if double and error < 0:
                error = solve_cholesky(
                    start, n, ratings, table, base, weight, double_lapack, wide, matrix64, w64, y64, found64
                )
                assign(w, w64)
            if error < 0:
                return row
            losses[block] += error
    return -1


@njit(cache=True, nogil=True, error_model="numpy")
def normal_equations(  # type: ignore[no-untyped-def]
    cuts, indptr, ratings, table, gramian, ridge, double_lapack, factors, losses
):
    """Solve rows exactly in float64 by the normal equations, for any basis.

    Parameters
    ----------
    gramian
        M, shape (d, d), float64.
    double_lapack
        Addresses of ``dsyrk``, ``dpotrf`` and ``dpotrs``.
    cuts, indptr, ratings, table, ridge, factors, losses
        See :func:`conjugate_gradient`; the initial ``factors`` are ignored.

    Returns
    -------
    int
        First row with a matrix that is not positive definite, or -1.
    """
    d, base = len(gramian), gramian.copy()
    buffer, matrix, w = np.empty((128, d), np.float64), np.empty((d, d), np.float64), np.empty(d, np.float64)
    y, found = np.empty(128, np.float64), np.empty(128, np.float64)
    for block in range(len(cuts) - 1):
        losses[block] = 0.0
        for row in range(cuts[block], cuts[block + 1]):
            start, n = indptr[row], indptr[row + 1] - indptr[row]
            if n == 0:
                clear(factors[row])
                continue
            error = solve_cholesky(
                start, n, ratings, table, base, ridge[row], double_lapack, buffer, matrix, w, y, found
            )
            if error < 0:
                return row
            assign(factors[row], w)
            losses[block] += error
    return -1


@njit(cache=True, nogil=True, error_model="numpy")
def subspace(  # type: ignore[no-untyped-def]
    cuts, height, room, indptr, ratings, table, spectrum, ridge, basis, width, gemm, lapack, factors, losses
):
    """Improve the factors of rows by block Newton steps (iALS++, Rendle et al. 2021).

    Each block of ``width`` coordinates has ``width x width`` equations in the errors of the row, or n x n for a row
    with n < ``width`` ratings. Errors are updated from one block to the next.

    Parameters
    ----------
    width
        Number of coordinates per block.
    gemm, lapack
        Addresses of ``sgemm``, and of ``ssyrk``, ``spotrf`` and ``spotrs``.
    cuts, height, room, indptr, ratings, table, spectrum, ridge, basis, factors, losses
        See :func:`conjugate_gradient`.

    Returns
    -------
    int
        First row with a matrix that is not positive definite in float32, or -1.
    """
    d = len(spectrum)
    syrk, potrf, potrs = lapack
    longest = _longest(cuts, indptr)
    buffer = np.empty((room, d), np.float32)
    y, found, error = np.empty(longest, np.float32), np.empty(longest, np.float32), np.empty(room, np.float32)
    rows = np.empty(height, np.int64)
    x, given = np.empty((height, d), np.float32), np.empty((height, d), np.float32)
    held, diagonal = np.empty(width * width, np.float32), np.empty(d, np.float64)
    assign(diagonal, spectrum)
    move, root = np.empty(width, np.float32), np.empty(width, np.float32)
    info = np.zeros(1, np.int32)
    for block in range(len(cuts) - 1):
        losses[block] = 0.0
        count = _start(indptr, cuts[block], cuts[block + 1], rows, basis, gemm, factors, given, x)
        for i in range(count):
            start, n = indptr[rows[i]], indptr[rows[i] + 1] - indptr[rows[i]]
            weight = ridge[rows[i]]
            copy_targets(ratings, start, n, y)
            for done in range(0, n, room):
                size = min(room, n - done)
                load(table, ratings, start + done, size, buffer)
                row_products(buffer, FIRST_COLUMN, size, x[i], found[done : done + size])
            for low in range(0, d, width):
                k = min(width, d - low)
                if n < k:
                    place = x[i][low : low + k]
                    row_products(buffer, low, n, place, error)
                    for e in range(n):
                        error[e] += y[e] - found[e]
                    if not solve_woodbury(
                        buffer, low, n, diagonal, np.float64(weight), np.inf, lapack, held, root, error, place
                    ):
                        return rows[i]
                    for e in range(n):
                        found[e] = y[e] - error[e]
                    continue
                system, step = held[: k * k], move[:k]
                clear(system)
                for a in range(k):
                    system[a * k + a] = spectrum[low + a] + weight
                    step[a] = -system[a * k + a] * x[i, low + a]
                for done in range(0, n, room):
                    size = min(room, n - done)
                    if n > room:
                        load(table, ratings, start + done, size, buffer)
                    for e in range(size):
                        error[e] = y[done + e] - found[done + e]
                    fortran(syrk, (_L, _N, k, size, _ONE, buffer[:, low:], d, _ONE, system, k))
                    combine_rows(buffer, low, size, error, step)
                fortran(potrf, (_L, k, system, k, info))
                if info[0] != 0:
                    return rows[i]
                fortran(potrs, (_L, k, 1, system, k, step, k, info))
                for a in range(k):
                    x[i, low + a] += step[a]
                for done in range(0, n, room):
                    size = min(room, n - done)
                    if n > room:
                        load(table, ratings, start + done, size, buffer)
                    row_products(buffer, low, size, step, error)
                    for e in range(size):
                        found[done + e] += error[e]
            assign(factors[rows[i]], x[i])
            losses[block] += squared_error(y, found, n)
    return -1
