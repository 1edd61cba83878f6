"""The mean and the biases of explicit ratings: one more unknown a row, its factor on the other side fixed at 1.

While they are fitted, a table has a column beyond the factors. It is 1, so that what the other side's rows have there
is their bias; while a table is solved for, it holds the table's own. The biases of the fixed side and the mean are
taken off the ratings on their way to the solvers, which know of none of this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.models.als_data import Side
from sparrow.models.tables import FactorTable, Survey, Table

__all__ = ["BiasedItems", "BiasedUsers", "Biases", "RatedItems"]


class Biases:
    """What is known of the ratings besides the factors, of tables whose last column is theirs.

    Parameters
    ----------
    side
        The ratings by rows.
    users, items
        The tables, one column wider than there are factors.
    """

    def __init__(self, side: Side, users: FactorTable, items: FactorTable) -> None:
        self.mean = _mean(side)
        self.tables = (users, items)
        self.biases = (np.zeros(users.shape[0], np.float32), np.zeros(items.shape[0], np.float32))

    def begin(self) -> None:
        """Prepare tables that were started: biases begin at 0."""
        for table in self.tables:
            table.put_last(np.float32(1))

    def shift(self, which: int) -> NDArray[np.float32]:
        """Return what is taken off the ratings where the users (0) or the items (1) are solved for."""
        return np.float32(self.mean) + self.biases[1 - which]

    def solve(
        self, which: int, solved: Table, survey: Survey, half_step: Callable[..., tuple[float, Survey]]
    ) -> tuple[float, Survey]:
        """Run a half step for the users or the items, in the table that stands for theirs."""
        solved.put_last(self.biases[which])
        # The largest row has 1 where the survey saw a bias.
        found = half_step(replace(survey, largest=survey.largest + 1), shift=self.shift(which))
        self.biases[which][:] = solved.last()
        solved.put_last(np.float32(1))
        return found

    def factors(self) -> tuple[BiasedUsers, BiasedItems]:
        """Return the factors of users and of items with their biases, to read in pieces."""
        users, items = self.tables
        return BiasedUsers(users, self.biases[0], self.mean), BiasedItems(items, self.biases[1], self.mean)

    def candidates(self) -> RatedItems:
        """Return the factors of the items that may be recommended."""
        return RatedItems(self.tables[1], self.biases[1], self.mean)

    def folded(self, solved: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return solved rows, whose last column is their bias, as those of users."""
        out = np.append(solved, np.ones((len(solved), 1), np.float32), axis=1)
        out[:, -2] += np.float32(self.mean)
        return out

    def survey(self, which: int, table: Table, ridge: Callable[[int, int], NDArray[np.float64]]) -> Survey:
        """Return what is known of the table that stands for that of the users or the items, with its biases."""
        table.put_last(self.biases[which])
        found = table.survey(ridge)
        table.put_last(np.float32(1))
        return found


def _mean(side: Side) -> float:
    """Return the mean rating, summed row by row, so that it does not depend on where parts are cut."""
    sums = np.zeros(side.rows)
    for part in side.parts():
        filled = np.flatnonzero(np.diff(part.indptr))
        if len(part.values):
            wide = part.values.astype(np.float64)
            sums[part.first + filled] = np.add.reduceat(wide, part.indptr[filled]) if len(filled) else 0
        else:
            sums[part.first : part.first + len(part.indptr) - 1] = np.diff(part.indptr)
    count = int(side.indptr[-1])
    return float(np.float32(sums.sum() / count)) if count else 0.0


class _Biased:
    """A table with its biases, as factors whose inner products are the predictions; read in pieces."""

    def __init__(self, table: FactorTable, biases: NDArray[np.float32], mean: float) -> None:
        self._table, self._biases, self._mean = table, biases, mean

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, and factors with both columns of biases."""
        rows, width = self._table.shape
        return rows, width + 1

    def _beside(self, rows: Any, column: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.append(self._table[rows].astype(np.float32, copy=False), column[:, None], axis=1)


class BiasedUsers(_Biased):
    """Rows ``w, mean + b, 1``."""

    def __getitem__(self, rows: Any) -> NDArray[np.float32]:
        biases = np.float32(self._mean) + self._biases[rows]
        out = self._beside(rows, np.ones_like(biases))
        out[:, -2] = biases
        return out


class BiasedItems(_Biased):
    """Rows ``h, 1, b``."""

    def __getitem__(self, rows: Any) -> NDArray[np.float32]:
        return self._beside(rows, self._biases[rows])


class RatedItems(BiasedItems):
    """The items to recommend: NaN, which is never the best, for those that nobody rated, whose bias says nothing."""

    def __getitem__(self, rows: Any) -> NDArray[np.float32]:
        found = super().__getitem__(rows)
        found[~found[:, :-2].any(axis=1) & (found[:, -1] == 0)] = np.nan
        return found
