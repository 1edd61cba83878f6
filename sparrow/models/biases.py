"""Biases of explicit ratings, fitted as one more column of the factor tables.

During a fit each table has a column beyond the factors, which is 1 in the fixed table, so that the solved table's
column is its bias. The mean and the biases of the fixed side are subtracted from the ratings on their way to the
solvers, which are unaware of biases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.models.als_data import Ratings
from sparrow.models.factor_table import FactorTable, Table, TableStatistics

__all__ = ["BiasedItems", "BiasedUsers", "Biases", "RatedItems"]


class Biases:
    """Mean and biases of a model whose tables have one column more than factors.

    Parameters
    ----------
    tables
        Factor tables of users and items, shape (rows, d + 1).
    mean
        Mean rating.
    biases
        Biases of users and items, shape (rows,).
    rated
        Whether each item has ratings.
    """

    def __init__(
        self,
        tables: tuple[FactorTable, FactorTable],
        mean: float,
        biases: tuple[NDArray[np.float32], NDArray[np.float32]],
        rated: NDArray[np.bool_],
    ) -> None:
        self.tables, self.mean, self.biases, self.rated = tables, mean, biases, rated

    @classmethod
    def of_ratings(cls, ratings: Ratings, users: FactorTable, items: FactorTable) -> Biases:
        """Return biases of 0 for ratings."""
        biases = np.zeros(users.shape[0], np.float32), np.zeros(items.shape[0], np.float32)
        mean = float(np.float32(ratings.sum_rows().sum() / ratings.count)) if ratings.count else 0.0
        return cls((users, items), mean, biases, np.diff(ratings.cols.indptr) > 0)

    def initialize(self) -> None:
        """Prepare tables that contain factors only."""
        for table in self.tables:
            table.write_last_column(np.float32(1))

    def offsets(self, which: int) -> NDArray[np.float32]:
        """Return the offsets of the ratings in a half step for users (0) or items (1)."""
        return np.float32(self.mean) + self.biases[1 - which]

    def solve(
        self,
        which: int,
        solved: Table,
        statistics: TableStatistics,
        half_step: Callable[..., tuple[float, TableStatistics]],
    ) -> tuple[float, TableStatistics]:
        """Run a half step for users (0) or items (1) in their table."""
        solved.write_last_column(self.biases[which])
        # The fixed table has 1 where the statistics saw a bias.
        result = half_step(replace(statistics, largest=statistics.largest + 1), offsets=self.offsets(which))
        self.biases[which][:] = solved.read_last_column()
        solved.write_last_column(np.float32(1))
        return result

    def factors(self) -> tuple[BiasedUsers, BiasedItems]:
        """Return lazy factor tables of users and items that include the biases."""
        users, items = self.tables
        return BiasedUsers(users, self.biases[0], self.mean), BiasedItems(items, self.biases[1], self.mean)

    def candidates(self) -> RatedItems:
        """Return the lazy factor table of items that may be recommended."""
        return RatedItems(self.tables[1], self.biases[1], self.mean, self.rated)

    def append_bias_columns(self, solved: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return solved rows, whose last column is the bias, as user factors."""
        out = np.append(solved, np.ones((len(solved), 1), np.float32), axis=1)
        out[:, -2] += np.float32(self.mean)
        return out

    def statistics(self, which: int, table: Table, ridge: Callable[[int, int], NDArray[np.float64]]) -> TableStatistics:
        """Return the statistics of the table of users (0) or items (1) with its biases."""
        table.write_last_column(self.biases[which])
        result = table.statistics(ridge)
        table.write_last_column(np.float32(1))
        return result


class _BiasedFactors:
    """Lazy factor table with bias columns; inner products are predictions."""

    def __init__(self, table: FactorTable, biases: NDArray[np.float32], mean: float) -> None:
        self._table, self._biases, self._mean = table, biases, mean

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and factors, both bias columns included."""
        rows, width = self._table.shape
        return rows, width + 1

    def _append_column(self, rows: Any, column: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.append(self._table[rows].astype(np.float32, copy=False), column[:, None], axis=1)


class BiasedUsers(_BiasedFactors):
    """Rows ``[w, mean + b, 1]``."""

    def __getitem__(self, rows: Any) -> NDArray[np.float32]:
        biases = np.float32(self._mean) + self._biases[rows]
        out = self._append_column(rows, np.ones_like(biases))
        out[:, -2] = biases
        return out


class BiasedItems(_BiasedFactors):
    """Rows ``[h, 1, b]``."""

    def __getitem__(self, rows: Any) -> NDArray[np.float32]:
        return self._append_column(rows, self._biases[rows])


class RatedItems(BiasedItems):
    """Items to recommend: rows without ratings, whose bias is meaningless, are NaN.

    NaN scores never rank.
    """

    def __init__(self, table: FactorTable, biases: NDArray[np.float32], mean: float, rated: NDArray[np.bool_]) -> None:
        super().__init__(table, biases, mean)
        self._rated = rated

    def __getitem__(self, rows: Any) -> NDArray[np.float32]:
        result = super().__getitem__(rows)
        result[~self._rated[rows]] = np.nan
        return result
