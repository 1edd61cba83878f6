"""Rows of very many ratings: sums of normal equations over parts of a row."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.models.als_data import RowPartition, long_row_ratings
from sparrow.models.factor_table import FactorTable

__all__ = ["NormalEquations", "is_long", "long_row_bounds", "solve_long_partition", "solve_long_row", "sum_equations"]

_BATCH_RATINGS = 1 << 14
"""Rows of the fixed table in float64 at a time: 16 MB of 128 factors."""


@dataclass(frozen=True, slots=True)
class NormalEquations:
    """Sums over ratings y of items with factors h, in float64."""

    gramian: NDArray[np.float64]
    """Sum of h h', shape (d, d)."""
    target: NDArray[np.float64]
    """Sum of y h, shape (d,)."""
    squares: float
    """Sum of y^2."""

    def __add__(self, other: NormalEquations) -> NormalEquations:
        return NormalEquations(self.gramian + other.gramian, self.target + other.target, self.squares + other.squares)


def is_long(part: RowPartition, factors: int) -> bool:
    """Return whether a partition is a long row."""
    return len(part.block_starts) == 2 and len(part.cols) > long_row_ratings(factors)


def long_row_bounds(ratings: int, factors: int) -> list[int]:
    """Return the bounds of the parts of a long row."""
    return [*range(0, ratings, long_row_ratings(factors)), ratings]


def sum_equations(
    read: Callable[[NDArray[Any]], NDArray[Any]], factors: int, cols: NDArray[Any], values: NDArray[np.float32]
) -> NormalEquations:
    """Return the equations of a part of a row.

    Parameters
    ----------
    read
        Returns rows of the fixed table, which has ``factors`` columns.
    cols, values
        Ratings; values are empty if all are 1.
    """
    gramian, target, squares = np.zeros((factors, factors)), np.zeros(factors), 0.0
    for first in range(0, len(cols), _BATCH_RATINGS):
        rows = read(cols[first : first + _BATCH_RATINGS]).astype(np.float64)
        y = values[first : first + _BATCH_RATINGS].astype(np.float64) if len(values) else np.ones(len(rows))
        gramian += rows.T @ rows
        target += y @ rows
        squares += float(y @ y)
    return NormalEquations(gramian, target, squares)


def solve_long_row(
    equations: NormalEquations, weighted: NDArray[np.float64], ridge: float
) -> tuple[NDArray[np.float64], float] | None:
    """Return the factors of a row and the sum of its squared errors.

    None means that the equations are singular.

    Parameters
    ----------
    weighted
        The weighted Gramian, shape (d, d), or its diagonal.
    """
    from scipy.linalg import cho_factor, cho_solve

    system = equations.gramian + (weighted if weighted.ndim == 2 else np.diag(weighted))
    system[np.diag_indices_from(system)] += ridge
    try:
        w = cho_solve(cho_factor(system, lower=True), equations.target)
    except (np.linalg.LinAlgError, ValueError):  # ValueError: not finite
        return None
    error = equations.squares - 2 * float(w @ equations.target) + float(w @ equations.gramian @ w)
    return w, max(error, 0.0)


def solve_long_partition(
    part: RowPartition,
    fixed: FactorTable,
    ridge: NDArray[np.float64],
    factors: NDArray[np.float32],
    losses: NDArray[np.float64],
    weighted: NDArray[np.float64],
) -> int:
    """Solve a partition that is a long row.

    See :data:`sparrow.models.als_solvers.PartitionSolver`.
    """
    row = int(np.argmax(np.diff(part.indptr)))
    d = fixed.shape[1]
    bounds = itertools.pairwise(long_row_bounds(len(part.cols), d))
    parts = (sum_equations(fixed.__getitem__, d, part.cols[a:b], part.values[a:b]) for a, b in bounds)
    found = solve_long_row(functools.reduce(operator.add, parts), weighted, float(ridge[row]))
    if found is None:
        return row
    factors[:] = 0
    factors[row], losses[0] = found
    return -1
