"""Half steps of ALS as rounds of tasks in other processes.

The tables are files of the scratch folder, one per task that wrote it. A half step rotates the fixed table in one
round, if its basis changes, and solves for the other one in the next: a task reads the ratings of its rows from the
stored tensor, gathers the rows of the fixed table that they refer to, solves with the kernels of this process, writes
its rows to a new file and returns the sums over them. Tasks are ranges of chunks
(:class:`sparrow.models.als_data.RowLayout`), whose sums are added as a tree, so that results have the bits of a fit in
one process, however rows are cut. The parts of a long row are tasks of their own; this process adds their equations and
solves the row.
"""

from __future__ import annotations

import functools
import itertools
import operator
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.task_rounds import Rounds, pack_array
from sparrow.models.als_cluster_ratings import ClusterRatings, ClusterSide, Share, SideFiles
from sparrow.models.als_cluster_tables import ClusterTable, TableFiles, write_rows
from sparrow.models.als_data import RowLayout
from sparrow.models.als_long_rows import NormalEquations, solve_long_row, sum_equations
from sparrow.models.als_solvers import CPUBackend, Ridge, Solver, solve_partitions
from sparrow.models.blas_threads import single_threaded_blas
from sparrow.models.factor_table import FactorTable, TableStatistics, TableSums, total_statistics
from sparrow.models.tree_sum import TreeSum
from sparrow.models.tuning import tuning
from sparrow.plan import Scan
from sparrow.plan.estimates import estimate_nnz

__all__ = ["ClusterBackend", "has_work_for_tasks"]


def has_work_for_tasks(scan: Scan, factors: int) -> bool:
    """Return whether a half step is enough work for two tasks."""
    return estimate_nnz(scan) * factors >= 2 * tuning().als_task_products


@dataclass(frozen=True, slots=True)
class SolverCall:
    """Call of a method of :class:`CPUBackend` that returns a solver."""

    name: str
    arguments: tuple[Any, ...]
    weighted: NDArray[np.float64]
    """The weighted Gramian, or its diagonal."""


@dataclass(frozen=True, slots=True)
class _Solved:
    """Result of a task: its rows, and sums over them."""

    name: str
    """Name of the file."""
    errors: list[tuple[int, int, float]]
    sums: list[tuple[int, int, TableSums]]
    last: NDArray[np.float32] | None
    """Last column, if there are biases."""


@dataclass(frozen=True, slots=True)
class HalfStep:
    """Solve for rows of a table."""

    side: SideFiles
    shares: tuple[Share, ...]
    fixed: TableFiles
    solved: TableFiles
    ridge: Ridge
    backend: CPUBackend
    call: SolverCall
    offsets: Any
    """Subtracted from the ratings of each row of the fixed table, or None."""
    has_biases: bool
    folder: str
    """Folder of the new files."""

    def __call__(self, scans: list[Scan], start: int, stop: int, folder: str) -> Any:
        """Solve for the rows of a share, or return the equations of a part of a long row.

        None means that equations are singular.
        """
        share = self.shares[start]
        with single_threaded_blas(with_scipy=True), np.errstate(all="ignore"):
            if share.ratings is None:
                return self._solve(scans[0], share, folder)
            cols, values = self.side.read_part(scans[0], share.first, share.ratings)
            if self.offsets is not None:
                values = (values if len(values) else np.float32(1)) - np.asarray(self.offsets[cols])
            return sum_equations(lambda rows: self.fixed.take(rows)[:], self.fixed.width, cols, values)

    def _solve(self, scan: Scan, share: Share, folder: str) -> _Solved | None:
        bounds = self.side.chunk_bounds
        first, last = int(bounds[share.first]), int(bounds[share.stop])
        if self.backend.solver == "exact":  # ignores the factors before
            rows = FactorTable(last - first, self.solved.width, self.solved.dtype)
        else:
            rows = self.solved.read(first, last)
        solve = getattr(self.backend, self.call.name)(*self.call.arguments)
        errors, sums = TreeSum[float](), TreeSum[TableSums]()
        for batch in self.side.read(scan, share.first, share.stop):
            needed, numbered = batch.number_columns()
            at, side = batch.row - first, numbered.blocks()
            fixed, solved = self.fixed.take(needed), rows.rows(at, at + side.rows)
            offsets = None if self.offsets is None else np.asarray(self.offsets[needed])
            found = solve_partitions(side, fixed, solved, self.ridge, self.backend, solve, offsets=offsets)
            if found is None:
                return None
            _add_chunks(side, solved, self.ridge, batch.chunk, found, errors, sums)
        column = pack_array(folder, rows.read_last_column()) if self.has_biases else None
        return _Solved(write_rows(self.folder, rows), errors.nodes, sums.nodes, column)


def _add_chunks(
    side: RowLayout,
    solved: FactorTable,
    ridge: Ridge,
    first: int,
    found: list[float],
    errors: TreeSum[float],
    sums: TreeSum[TableSums],
) -> None:
    """Add the errors and the statistics of solved chunks from ``first`` on to sums."""
    for number, error in enumerate(found, first):
        errors.add(number, error)
    solved.chunk_bounds = side.chunk_bounds
    solved.add_chunks(sums, first, lambda a, b: ridge(np.diff(side.indptr[a : b + 1])))


class ClusterBackend:
    """Half steps in tasks; the tables are files that tasks share.

    Parameters
    ----------
    rounds
        Runs the tasks.
    ratings
        The ratings.
    backend
        Solver of the tasks.
    """

    def __init__(self, rounds: Rounds, ratings: ClusterRatings, backend: CPUBackend) -> None:
        self._rounds, self._ratings, self._backend = rounds, ratings, backend
        self._tables: list[ClusterTable] = []

    @property
    def solver(self) -> Solver:
        """Solver, as in :class:`sparrow.models.ALS`."""
        return self._backend.solver

    def load_tables(self, *tables: FactorTable) -> tuple[ClusterTable, ...]:
        """Write the tables to files of the scratch folder."""
        sides = (self._ratings.rows, self._ratings.cols)
        self._tables = [ClusterTable(self._rounds, table, side) for table, side in zip(tables, sides, strict=True)]
        return tuple(self._tables)

    def sync_tables(self) -> None:
        """Copy the tables back to those in memory."""
        for table in self._tables:
            table.sync()

    def eigenbasis_solver(self, spectrum: NDArray[np.float64], basis: NDArray[np.float32], double: bool) -> SolverCall:
        """Return the solver in float32; ``double`` uses float64 for long rows."""
        return SolverCall("eigenbasis_solver", (spectrum, self._rounds.pack(basis), double), spectrum)

    def float64_solver(self, weighted: NDArray[np.float64]) -> SolverCall:
        """Return the exact solver in float64."""
        return SolverCall("float64_solver", (weighted,), weighted)

    def solve(
        self,
        side: ClusterSide,
        fixed: ClusterTable,
        solved: ClusterTable,
        ridge: Ridge,
        solve: SolverCall,
        advance: Callable[[int], None],
        offsets: NDArray[np.float32] | None,
    ) -> tuple[float, TableStatistics] | None:
        """Solve all rows of a table in a round of tasks; see the protocol."""
        folder, shares = solved.new_folder(), side.shares()
        work = HalfStep(
            side.files(), tuple(shares), fixed.files(), solved.files(), ridge, self._backend, solve,
            None if offsets is None else pack_array(folder, offsets), solved.has_biases, folder,
        )  # fmt: skip
        count, done, advanced = self._ratings.count, 0, 0

        def count_tasks(ended: int) -> None:
            nonlocal done, advanced
            done += ended
            advance(count * done // len(shares) - advanced)
            advanced = count * done // len(shares)

        found = self._rounds.run([side.scan], work, range(len(shares) + 1), count_tasks)
        advance(count - advanced)
        answers = []
        for share, group in itertools.groupby(zip(shares, found, strict=True), lambda pair: pair[0].first):
            parts = [answer for _, answer in group]
            if isinstance(parts[0], NormalEquations):
                parts = [_solve_long(side, share, parts, solved, ridge, solve, folder)]
            answers += parts
        if any(answer is None for answer in answers):
            shutil.rmtree(folder, ignore_errors=True)
            return None
        errors, sums = TreeSum[float](), TreeSum[TableSums]()
        for answer in answers:
            errors.extend(answer.errors)
            sums.extend(answer.sums)
        if solved.has_biases:
            solved.set_last_column(np.concatenate([np.zeros(0, np.float32), *(answer.last for answer in answers)]))
        starts = sorted({int(side.chunk_bounds[share.first]) for share in shares})
        solved.replace_files(folder, [*starts, side.rows], [answer.name for answer in answers])
        return errors.total() or 0.0, total_statistics(sums, solved.shape[1])


def _solve_long(
    side: ClusterSide,
    chunk: int,
    parts: list[NormalEquations],
    solved: ClusterTable,
    ridge: Ridge,
    solve: SolverCall,
    folder: str,
) -> _Solved | None:
    """Solve the long row of a chunk from the equations of its parts."""
    first, stop = side.chunk_bounds[chunk : chunk + 2].tolist()
    counts = np.diff(side.indptr[first : stop + 1])
    row = int(np.argmax(counts))
    found = solve_long_row(functools.reduce(operator.add, parts), solve.weighted, float(ridge(counts)[row]))
    if found is None:
        return None
    table = FactorTable(stop - first, solved.shape[1], solved.dtype)
    factors = np.zeros(table.shape, np.float32)
    factors[row] = found[0]
    table.write(0, factors)
    errors, sums = TreeSum[float](), TreeSum[TableSums]()
    _add_chunks(RowLayout(counts, side.factors), table, ridge, chunk, [found[1]], errors, sums)
    last = table.read_last_column() if solved.has_biases else None
    return _Solved(write_rows(folder, table), errors.nodes, sums.nodes, last)
