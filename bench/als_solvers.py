"""Alternative half-step solvers: LU, QR, Cholesky, full CG, bfloat16.

Every row's normal matrix is formed and solved on its own, by LAPACK through Numba, on one thread. What ALX runs on TPUs
(Mehta et al., ALX: Large Scale Matrix Factorization on TPUs, 2021) is here as far as a CPU can show it.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import scipy.sparse

Array = np.ndarray[Any, Any]

SOLVERS = {"none": 0, "LU": 1, "QR": 2, "Cholesky": 3, "CG": 4}
PRECISIONS = ("float32", "bfloat16 tables", "+ Gramian", "+ normal matrices", "+ CG", "+ sums: all bfloat16")
"""Levels of rounding to bfloat16, each with those before it: none, the factors, H'H (as in ALX's released code), each
row's matrix and right side after sums in float32, the vectors and scalars of CG, the sums over a row's links."""
_PIECE = 16
"""Links of one piece of a row in ALX's dense batching; what a TPU sums in float32 before it rounds."""


@numba.njit(cache=True, nogil=True, error_model="numpy")
def round_bfloat16(values: Array) -> None:
    """Round float32 values, shape (n,), in place to bfloat16, ties to even."""
    bits = values.view(np.uint32)
    for k in range(len(bits)):
        odd = bits[k] >> np.uint32(16) & np.uint32(1)
        bits[k] = (bits[k] + np.uint32(0x7FFF) + odd) & np.uint32(0xFFFF0000)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _round_to_bfloat16(value: np.float32, cell: Array) -> np.float32:
    cell[0] = value
    round_bfloat16(cell)
    return cell[0]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _triangular(L: Array, b: Array) -> Array:
    """Solve L L' x = b."""
    d = len(b)
    x = b.copy()
    for i in range(d):
        x[i] = (x[i] - np.dot(L[i, :i], x[:i])) / L[i, i]
    for i in range(d - 1, -1, -1):
        x[i] /= L[i, i]
        for j in range(i):
            x[j] -= L[i, j] * x[i]
    return x


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _upper(R: Array, b: Array) -> Array:
    """Solve R x = b."""
    x = b.copy()
    for i in range(len(b) - 1, -1, -1):
        x[i] = (x[i] - np.dot(R[i, i + 1 :], x[i + 1 :])) / R[i, i]
    return x


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _conjugate_gradients(A: Array, b: Array, narrow: bool) -> tuple[Array, int]:
    """Solve A x = b to a relative residual of 1e-5 in at most 10 d CG steps.

    ``narrow`` rounds every vector and number to bfloat16 as soon as it is computed.
    """
    d = len(b)
    cell = np.empty(1, np.float32)
    x = np.zeros_like(b)
    r, p = b.copy(), b.copy()
    gamma = np.dot(r, r)
    if narrow:
        gamma = _round_to_bfloat16(gamma, cell)
    goal = np.float32(1e-10) * np.dot(b, b)
    steps = 0
    while gamma > goal and steps < 10 * d:
        q = np.dot(A, p)
        if narrow:
            round_bfloat16(q)
        alpha = gamma / np.dot(p, q)
        if narrow:
            alpha = _round_to_bfloat16(alpha, cell)
        x += alpha * p
        r -= alpha * q
        if narrow:
            round_bfloat16(x)
            round_bfloat16(r)
        before = gamma
        gamma = np.dot(r, r)
        if narrow:
            gamma = _round_to_bfloat16(gamma, cell)
        p = r + gamma / before * p
        if narrow:
            round_bfloat16(p)
        steps += 1
    return x, steps


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _normal_equations(gathered: Array, everywhere: Array, strength: np.float32, level: int) -> tuple[Array, Array]:
    """Return matrix and right side of a row's normal equations."""
    d = gathered.shape[1]
    b = np.zeros(d, np.float32)
    if level >= 5:
        A = np.zeros((d, d), np.float32)
        for first in range(0, len(gathered), _PIECE):
            piece = gathered[first : first + _PIECE]
            outer = np.dot(piece.T, piece).reshape(d * d)
            round_bfloat16(outer)
            A += outer.reshape(d, d)
            round_bfloat16(A.reshape(d * d))
            for i in range(len(piece)):
                b += piece[i]
            round_bfloat16(b)
    else:
        A = np.dot(gathered.T, gathered)
        for i in range(len(gathered)):
            b += gathered[i]
    A += everywhere
    if level >= 5:
        round_bfloat16(A.reshape(d * d))
    for i in range(d):
        A[i, i] += strength
    if level >= 3:
        round_bfloat16(A.reshape(d * d))
        round_bfloat16(b)
    return A, b


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _solve_rows(
    indptr: Array, indices: Array, H: Array, everywhere: Array, regularization: Array, solver: int, level: int,
    out: Array,
) -> int:  # fmt: skip
    total = 0
    for row in range(len(out)):
        links = indices[indptr[row] : indptr[row + 1]]
        if len(links) == 0:
            out[row] = 0
            continue
        A, b = _normal_equations(H[links], everywhere, regularization[row], level)
        if solver == 1:
            out[row] = np.linalg.solve(A, b)
        elif solver == 2:
            Q, R = np.linalg.qr(A)
            out[row] = _upper(np.ascontiguousarray(R), np.dot(np.ascontiguousarray(Q).T, b))
        elif solver == 3:
            out[row] = _triangular(np.ascontiguousarray(np.linalg.cholesky(A)), b)
        elif solver == 4:
            out[row], steps = _conjugate_gradients(A, b, level >= 4)
            total += steps
        else:
            out[row] = A[0]
    return total


def gramian(H: Array, unobserved_weight: float, precision: str = "float32") -> Array:
    """Return ``alpha H'H``, float32 of shape (d, d)."""
    level = PRECISIONS.index(precision)
    found = H.T @ H
    if level >= 2:
        round_bfloat16(found.reshape(-1))
    found *= np.float32(unobserved_weight)
    if level >= 3:
        round_bfloat16(found.reshape(-1))
    return found


def solve_rows(
    links: scipy.sparse.csr_array,
    H: Array,
    everywhere: Array,
    regularization: float | Array,
    solver: str = "CG",
    precision: str = "float32",
) -> tuple[Array, int]:
    """Return the factors of rows, float32 of shape (rows, d), and the CG steps taken.

    Each row is ``(sum h h' + everywhere + lambda I)^-1 sum h``, summed over its links; a row without links is zero.
    """
    m = links.shape[0]
    level = PRECISIONS.index(precision)
    strength = np.broadcast_to(np.asarray(regularization, np.float32), m).copy()
    out = np.empty((m, H.shape[1]), np.float32)
    steps = _solve_rows(
        links.indptr.astype(np.int64),
        links.indices.astype(np.int64),
        H,
        everywhere,
        strength,
        SOLVERS[solver],
        level,
        out,
    )
    if level >= 1:
        round_bfloat16(out.reshape(-1))
    return out, steps


def indefinite(
    links: scipy.sparse.csr_array, H: Array, everywhere: Array, regularization: Array, precision: str, longest: int
) -> tuple[int, float]:
    """Count indefinite matrices among the longest rows; return the least eigenvalue.

    The eigenvalue is that over the lambda of its row; in exact arithmetic it is at least 1.
    """
    level = PRECISIONS.index(precision)
    least = []
    for row in np.argsort(-np.diff(links.indptr), kind="stable")[:longest]:
        gathered = H[links.indices[links.indptr[row] : links.indptr[row + 1]]]
        A, _ = _normal_equations(gathered, everywhere, np.float32(regularization[row]), level)
        least.append(np.linalg.eigvalsh(A.astype(np.float64))[0] / regularization[row])
    return int(np.count_nonzero(np.asarray(least) <= 0)), float(min(least))


def padding(lengths: Array) -> dict[str, float]:
    """Return the share of padded slots for several ways of batching rows."""
    lengths = lengths[lengths > 0]
    links = lengths.sum()
    out = {f"chunks of {size}": 1 - links / (size * -(-lengths // size)).sum() for size in (8, 16, 32)}
    out["rows to a power of 2"] = 1 - links / (1 << np.ceil(np.log2(lengths)).astype(int)).sum()
    out["rows to the longest"] = 1 - links / (len(lengths) * lengths.max())
    return out


def window_top_k(scores: Array, k: int, multiplier: int = 5) -> Array:
    """Return ALX's approximate top k, shape (rows, k): the best of window maxima.

    Scores of shape (rows, items), items in windows of consecutive ids. Of two items in one window the
    lesser is lost.
    """
    rows, items = scores.shape
    width = items // k // multiplier + 1
    padded = np.full((rows, multiplier * k * width), -np.inf, np.float32)
    padded[:, :items] = scores
    windows = padded.reshape(rows, multiplier * k, width)
    best = windows.argmax(axis=2)
    tops = np.take_along_axis(windows, best[:, :, None], axis=2)[:, :, 0]
    chosen = np.argsort(-tops, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(best + width * np.arange(multiplier * k), chosen, axis=1)
