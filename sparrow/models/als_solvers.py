"""Half steps of ALS: solve all rows of one table while the other is fixed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sparrow.errors import ConvergenceError
from sparrow.models.als_data import RowBlocks, RowLayout, RowPartition, block_columns, to_float32
from sparrow.models.als_long_rows import is_long, solve_long_partition
from sparrow.models.factor_table import FactorTable, Table, TableStatistics
from sparrow.models.tree_sum import TreeSum
from sparrow.models.tuning import tuning
from sparrow.runtime import events, settings
from sparrow.runtime.thread_pool import ordered_map

__all__ = [
    "SOLVERS", "Backend", "CPUBackend", "Objective", "PartitionBackend", "PartitionSolver", "Ridge", "Solver",
    "half_step", "solve_partitions", "solve_rows",
]  # fmt: skip

Solver = Literal["cg", "exact", "subspace"]
SOLVERS = ("cg", "exact", "subspace")


@dataclass(frozen=True, slots=True)
class Objective:
    """Hyperparameters of the objective."""

    regularization: float
    unobserved_weight: float
    frequency_scaling: float

    @np.errstate(over="ignore")
    def ridge(self, counts: NDArray[np.int64], others: int) -> NDArray[np.float64]:
        """Return the ridge penalty of rows with ``counts`` of ``others`` ratings."""
        if self.frequency_scaling == 0:
            return np.full(len(counts), self.regularization)
        weights = counts + self.unobserved_weight * others
        return np.asarray(self.regularization * weights**self.frequency_scaling)


@dataclass(frozen=True, slots=True)
class Ridge:
    """Ridge penalties of the rows of a table."""

    objective: Objective
    others: int
    """Number of rows of the other table."""

    def __call__(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the penalties of rows with ``counts`` ratings."""
        return self.objective.ridge(counts, self.others)


@np.errstate(all="ignore")
def half_step(
    side: RowLayout,
    fixed: Table,
    statistics: TableStatistics,
    solved: Table,
    objective: Objective,
    backend: Backend,
    advance: Callable[[int], None],
    offsets: NDArray[np.float32] | None = None,
) -> tuple[float, TableStatistics]:
    """Solve, or improve, all rows of a table.

    Parameters
    ----------
    side
        Ratings by the rows to solve.
    fixed, statistics
        The other table and its statistics. Where the equations are well conditioned it is rotated, in place, into the
        eigenbasis of its Gramian: factors are determined up to a rotation of both tables.
    solved
        Table to solve for. Its rows are the initial guess of iterative solvers, in the basis of ``fixed``.
    objective
        Hyperparameters.
    backend
        Device and solver.
    advance
        Called with the number of ratings of each finished partition.
    offsets
        Subtracted from the ratings of each row of the fixed table.

    Returns
    -------
    loss
        Value of the objective after the half step; not finite if a result is not.
    statistics
        Statistics of the solved table.

    Raises
    ------
    ConvergenceError
        If the equations are singular.
    """
    ridge = Ridge(objective, fixed.shape[0])
    alpha = objective.unobserved_weight
    spectrum, basis = _eigenbasis(statistics.gramian, alpha)
    found: tuple[float, TableStatistics] | None = None
    gramian = statistics.gramian
    condition = _condition(side, spectrum, statistics, ridge) if backend.solver == "exact" else 1.0
    if condition <= tuning().als_mixed_condition:
        if alpha:
            fixed.rotate(basis)
            gramian = np.diag(spectrum / alpha)
        double = condition > tuning().als_float32_condition
        solve = backend.eigenbasis_solver(spectrum, basis if alpha else basis[:0], double)
        found = backend.solve(side, fixed, solved, ridge, solve, advance, offsets)
        if found is None and backend.solver != "exact":
            raise _singular_error(objective)
    if found is None:
        if alpha:
            gramian = fixed.statistics(lambda first, last: np.zeros(last - first), precise=True).gramian
        solve = backend.float64_solver(alpha * gramian)
        found = backend.solve(side, fixed, solved, ridge, solve, advance, offsets)
        if found is None:
            raise _singular_error(objective)
    events.emit("models.half_step")
    errors, after = found
    loss = errors + alpha * float(np.sum(gramian * after.gramian)) + statistics.penalty + after.penalty
    return loss, after


def solve_rows(
    side: RowBlocks,
    fixed: FactorTable,
    gramian: NDArray[np.float64],
    objective: Objective,
    offsets: NDArray[np.float32] | None = None,
) -> NDArray[Any]:
    """Return the exact solutions of rows, shape (rows, d), in float64.

    Parameters
    ----------
    side
        Ratings by row.
    fixed, gramian
        The other table T and its Gramian T'T.
    objective
        Hyperparameters.
    offsets
        Subtracted from the ratings of each row of the fixed table.

    Raises
    ------
    ConvergenceError
        If the equations are singular.
    """
    solved = FactorTable(side.rows, fixed.shape[1], "float32")
    backend = CPUBackend("exact")
    solve = backend.float64_solver(objective.unobserved_weight * gramian)

    ridge = Ridge(objective, fixed.shape[0])
    if solve_partitions(side, fixed, solved, ridge, backend, solve, offsets=offsets) is None:
        raise _singular_error(objective)
    return solved.to_numpy()


def _singular_error(objective: Objective) -> ConvergenceError:
    return ConvergenceError(
        f"the equations of a row are singular: raise regularization (now {objective.regularization:g})"
    )


def _eigenbasis(gramian: NDArray[np.float64], alpha: float) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """Return eigenvalues and eigenvectors (columns) of the weighted Gramian."""
    if not alpha:
        return np.zeros(len(gramian)), np.eye(len(gramian), dtype=np.float32)
    values, vectors = np.linalg.eigh(alpha * gramian)
    return np.maximum(values, 0.0), np.ascontiguousarray(vectors, np.float32)


def _condition(side: RowLayout, spectrum: NDArray[np.float64], statistics: TableStatistics, ridge: Ridge) -> float:
    """Return an estimate of the worst condition number of a row's equations."""
    counts = np.diff(side.indptr)
    counts = counts[counts > 0]
    if not len(counts):
        return 1.0
    weights = ridge(np.array([counts.min(), counts.max()]))
    rank = min(int(counts.max()), len(spectrum))
    return float((spectrum[-1] + weights[1] + rank * statistics.largest) / np.float64(spectrum[0] + weights[0]))


PartitionSolver = Callable[[RowPartition, Any, NDArray[np.float64], Any, NDArray[np.float64]], int | None]
"""Solver of a partition: ``(partition, fixed, ridge, factors, losses)``.

It replaces ``factors``, shape (rows, d), and writes the sum of squared errors of each block to ``losses``. It returns
the number of a row with singular equations; -1 or None if there is none.
"""


class Backend(Protocol):
    """Solves half steps: in this process, on a GPU, or in other processes."""

    @property
    def solver(self) -> Solver:
        """Solver, as in :class:`sparrow.models.ALS`."""

    def load_tables(self, *tables: FactorTable) -> tuple[Table, ...]:
        """Return the tables as the backend holds them."""

    def sync_tables(self) -> None:
        """Copy the tables back to those in memory."""

    def eigenbasis_solver(self, spectrum: NDArray[np.float64], basis: NDArray[np.float32], double: bool) -> Any:
        """Return the solver in the eigenbasis; ``double`` asks for float64."""

    def float64_solver(self, weighted: NDArray[np.float64]) -> Any:
        """Return the exact solver in float64, from the weighted Gramian."""

    def solve(
        self,
        side: Any,
        fixed: Any,
        solved: Any,
        ridge: Ridge,
        solve: Any,
        advance: Callable[[int], None],
        offsets: NDArray[np.float32] | None,
    ) -> tuple[float, TableStatistics] | None:
        """Solve all rows of a table with a solver of this backend.

        Parameters are those of :func:`half_step`.

        Returns
        -------
        errors
            Sum of squared errors.
        statistics
            Statistics of the solved table.
        None
            If equations are singular.
        """


class PartitionBackend(Protocol):
    """A backend that solves partitions of rows one by one."""

    @property
    def threads(self) -> int:
        """Number of partitions to solve at once."""

    def activate(self) -> AbstractContextManager[Any]:
        """Make the device current for a thread, for the length of a block."""

    def solve(
        self,
        side: RowBlocks,
        fixed: Any,
        solved: Any,
        ridge: Ridge,
        solve: PartitionSolver,
        advance: Callable[[int], None],
        offsets: NDArray[np.float32] | None,
    ) -> tuple[float, TableStatistics] | None:
        """Solve all rows of a table in this process; see :meth:`Backend.solve`."""
        errors = solve_partitions(side, fixed, solved, ridge, self, solve, advance, offsets)
        if errors is None:
            return None
        total = TreeSum[float]()
        for number, error in enumerate(errors):
            total.add(number, error)
        after = solved.statistics(lambda first, last: ridge(np.diff(side.indptr[first : last + 1])))
        return total.total() or 0.0, after


def solve_partitions(
    side: RowBlocks,
    fixed: Any,
    solved: Any,
    ridge: Ridge,
    backend: PartitionBackend,
    solve: PartitionSolver,
    advance: Callable[[int], None] = lambda count: None,
    offsets: NDArray[np.float32] | None = None,
) -> list[float] | None:
    """Solve all partitions and return the sum of squared errors of each chunk.

    None means that equations are singular.
    """
    losses = np.zeros(side.blocks)

    def solve_partition(part: RowPartition) -> int | None:
        part = part if offsets is None else part.subtract_columns(offsets)
        stop = part.first + len(part.indptr) - 1
        out = losses[part.block : part.block + len(part.block_starts) - 1]
        with backend.activate():
            factors = solved.read(part.first, stop)
            failed = solve(part, fixed, ridge(np.diff(part.indptr)), factors, out)
            solved.write(part.first, factors)
        return None if failed is not None and failed >= 0 else len(part.cols)

    for count in ordered_map(solve_partition, side.partitions(), backend.threads):
        if count is None:
            return None
        advance(count)
    return side.sum_chunks(losses)


def _kernel_arguments(part: RowPartition, fixed: FactorTable) -> tuple[Any, Any, Any]:
    """Return the ratings and the fixed table as arguments of the kernels."""
    from sparrow.kernels.jit.warmup import as_readonly

    ratings = as_readonly(part.cols), as_readonly(part.values), len(part.values) > 0
    return as_readonly(part.indptr), ratings, fixed.kernel_arguments()


@dataclass(frozen=True, slots=True)
class CPUBackend(PartitionBackend):
    """Compiled kernels over tables in memory."""

    solver: Solver
    cg_steps: int = 0
    block: int = 1

    @property
    def threads(self) -> int:
        """Number of threads in the settings."""
        return settings.current().threads

    def activate(self) -> AbstractContextManager[None]:
        """Do nothing."""
        return nullcontext()

    def load_tables(self, *tables: FactorTable) -> tuple[FactorTable, ...]:
        """Return the tables themselves."""
        return tables

    def sync_tables(self) -> None:
        """Do nothing."""

    def eigenbasis_solver(
        self, spectrum: NDArray[np.float64], basis: NDArray[np.float32], double: bool
    ) -> PartitionSolver:
        """Return the solver in float32; ``double`` uses float64 for long rows."""
        from sparrow.kernels.jit.warmup import as_readonly
        from sparrow.kernels.ml import als
        from sparrow.kernels.ml.blas import address

        rows, columns = tuning().als_block_rows, block_columns(len(spectrum))
        lapack = (address("ssyrk"), address("spotrf"), address("spotrs"))
        diagonal, rotation = as_readonly(to_float32(spectrum)), as_readonly(basis)

        def cg(part: RowPartition, fixed: FactorTable, ridge: Any, factors: Any, losses: Any) -> None:
            als.conjugate_gradient(
                as_readonly(part.block_starts), rows, columns, *_kernel_arguments(part, fixed), diagonal,
                as_readonly(to_float32(ridge)), rotation, self.cg_steps, address("sgemm"), factors, losses,
            )  # fmt: skip

        def subspace(part: RowPartition, fixed: FactorTable, ridge: Any, factors: Any, losses: Any) -> int:
            failed: int = als.subspace(
                as_readonly(part.block_starts), rows, columns, *_kernel_arguments(part, fixed), diagonal,
                as_readonly(to_float32(ridge)), rotation, min(self.block, len(spectrum)), address("sgemm"), lapack,
                factors, losses,
            )  # fmt: skip
            return failed

        def exact(part: RowPartition, fixed: FactorTable, ridge: Any, factors: Any, losses: Any) -> int:
            failed: int = als.eigenbasis(
                as_readonly(part.block_starts), *_kernel_arguments(part, fixed), as_readonly(spectrum),
                as_readonly(ridge), double, lapack, _float64_lapack(), factors, losses,
            )  # fmt: skip
            return failed

        solvers: dict[Solver, PartitionSolver] = {"cg": cg, "subspace": subspace, "exact": exact}
        return _with_long_rows(solvers[self.solver], spectrum)

    def float64_solver(self, weighted: NDArray[np.float64]) -> PartitionSolver:
        """Return the exact solver in float64."""
        from sparrow.kernels.jit.warmup import as_readonly
        from sparrow.kernels.ml import als

        matrix = as_readonly(weighted)

        def exact(part: RowPartition, fixed: FactorTable, ridge: Any, factors: Any, losses: Any) -> int:
            failed: int = als.normal_equations(
                as_readonly(part.block_starts),
                *_kernel_arguments(part, fixed),
                matrix,
                as_readonly(ridge),
                _float64_lapack(),
                factors,
                losses,
            )
            return failed

        return _with_long_rows(exact, weighted)


def _with_long_rows(solve: PartitionSolver, weighted: NDArray[np.float64]) -> PartitionSolver:
    """Return a solver that sums the equations of long rows over their parts.

    ``weighted`` is the weighted Gramian, or its diagonal.
    """

    def run(part: RowPartition, fixed: FactorTable, ridge: Any, factors: Any, losses: Any) -> int | None:
        if is_long(part, fixed.shape[1]):
            return solve_long_partition(part, fixed, ridge, factors, losses, weighted)
        return solve(part, fixed, ridge, factors, losses)

    return run


def _float64_lapack() -> tuple[int, int, int]:
    from sparrow.kernels.ml.blas import address

    return address("dsyrk"), address("dpotrf"), address("dpotrs")
