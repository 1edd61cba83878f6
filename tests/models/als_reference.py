"""Reference implementation of ALS, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def matrix(
    rows: int, cols: int, degree: float, *, seed: int = 0, weighted: bool = False, empty: float = 0.1
) -> NDArray[Any]:
    """Return a random matrix with some empty rows and columns, one row nearly full."""
    rng = np.random.default_rng(seed)
    out = (rng.random((rows, cols)) < degree / cols).astype(float)
    out[min(3, rows - 1)] = rng.random(cols) < 0.9
    out[rng.random(rows) < empty] = 0
    out[:, rng.random(cols) < empty] = 0
    return out * rng.normal(2.0, 1.0, out.shape) if weighted else out


def ridge(counts: NDArray[Any], others: int, regularization: float, alpha: float, nu: float) -> Floats:
    return np.asarray(regularization * (counts + alpha * others) ** nu)


def solve(A: NDArray[Any], H: NDArray[Any], regularization: float, alpha: float, nu: float = 0.0) -> Floats:
    """Return the exact factors of the rows of A."""
    H = H.astype(np.float64)
    d = H.shape[1]
    weights = ridge((A != 0).sum(axis=1), A.shape[1], regularization, alpha, nu)
    out = np.zeros((len(A), d))
    for u, row in enumerate(A):
        at = np.flatnonzero(row)
        if len(at):
            left = H[at].T @ H[at] + alpha * H.T @ H + weights[u] * np.eye(d)
            out[u] = np.linalg.solve(left, H[at].T @ row[at])
    return out


def objective(
    A: NDArray[Any], W: NDArray[Any], H: NDArray[Any], regularization: float, alpha: float, nu: float = 0.0
) -> float:
    """Return the loss, by a look at every cell."""
    W, H = W.astype(np.float64), H.astype(np.float64)
    scores = W @ H.T
    counts = (A != 0).sum(axis=1), (A != 0).sum(axis=0)
    users = ridge(counts[0], A.shape[1], regularization, alpha, nu) @ (W**2).sum(axis=1)
    items = ridge(counts[1], A.shape[0], regularization, alpha, nu) @ (H**2).sum(axis=1)
    return float(((A - scores)[A != 0] ** 2).sum() + alpha * (scores**2).sum() + users + items)


def distance(result: NDArray[Any], expected: NDArray[Any]) -> float:
    """Return the largest relative error of a row."""
    lengths = np.linalg.norm(expected, axis=1)
    return float((np.linalg.norm(result - expected, axis=1)[lengths > 0] / lengths[lengths > 0]).max())
