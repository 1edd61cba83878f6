"""One half step of alternating least squares: the rows of one table, the other held fixed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sparrow.errors import ConvergenceError
from sparrow.models.als_data import HEIGHT, Part, Side, room_for, single
from sparrow.models.tables import FactorTable, Survey, Table
from sparrow.runtime import settings
from sparrow.runtime.thread_pool import ordered_map

__all__ = ["SOLVERS", "Equations", "Place", "Processor", "Solver", "Work", "half_step", "solve_rows"]

Solver = Literal["cg", "exact", "subspace"]
SOLVERS = ("cg", "exact", "subspace")

_SINGLE, _MIXED = 2e3, 1e7
"""Up to the first condition float32 gives every exact solution to 1e-5; up to the second it depends on the row."""


@dataclass(frozen=True, slots=True)
class Equations:
    """What the equations of a row consist of besides its links."""

    regularization: float
    unobserved_weight: float
    frequency_scaling: float

    @np.errstate(over="ignore")
    def ridge(self, counts: NDArray[np.int64], others: int) -> NDArray[np.float64]:
        """Return the multiple of the identity for rows with so many links, of ``others`` cells each."""
        if self.frequency_scaling == 0:
            return np.full(len(counts), self.regularization)
        seen = counts + self.unobserved_weight * others
        return np.asarray(self.regularization * seen**self.frequency_scaling)


@np.errstate(all="ignore")
def half_step(
    side: Side,
    fixed: Table,
    survey: Survey,
    solved: Table,
    equations: Equations,
    place: Place,
    advance: Callable[[int], None],
    shift: NDArray[np.float32] | None = None,
) -> tuple[float, Survey]:
    """Solve or improve all rows of a table.

    Parameters
    ----------
    side
        The links by the rows to solve.
    fixed, survey
        The other table and what is known of it. Where the equations are well conditioned it is turned into the
        eigenbasis of its Gramian, in place: factors are determined up to a rotation of both tables.
    solved
        The table to solve for: rows of the solver's start, if it has one, in the basis that ``fixed`` comes in.
    equations
        What the rows' equations consist of.
    place
        What solves them, and how.
    advance
        Told the number of links of each part that is done.
    shift
        What is taken off the values of each row of the fixed table.

    Returns
    -------
    loss
        The objective after the half step.
    survey
        What is known of the table that was solved for.

    Raises
    ------
    ConvergenceError
        If the equations have no solution. A result that is not finite shows in the loss.
    """

    def ridge(counts: NDArray[np.int64]) -> NDArray[np.float64]:
        return equations.ridge(counts, fixed.shape[0])

    alpha = equations.unobserved_weight
    spectrum, basis = _eigenbasis(survey.gramian, alpha)
    errors: float | None = None
    gramian = survey.gramian
    condition = _condition(side, spectrum, survey, ridge) if place.solver == "exact" else 1.0
    if condition <= _MIXED:
        if alpha:
            fixed.rotate(basis)
            gramian = np.diag(spectrum / alpha)
        work = place.single(spectrum, basis if alpha else basis[:0], condition > _SINGLE)
        errors = _run(side, fixed, solved, ridge, place, work, advance, shift)
        if errors is None and place.solver != "exact":
            raise _singular(equations)
    if errors is None:
        if alpha:
            gramian = fixed.survey(lambda first, last: np.zeros(last - first), precise=True).gramian
        errors = _run(side, fixed, solved, ridge, place, place.double(alpha * gramian), advance, shift)
        if errors is None:
            raise _singular(equations)
    after = solved.survey(lambda first, last: ridge(np.diff(side.indptr[first : last + 1])))
    loss = errors + alpha * float(np.sum(gramian * after.gramian)) + survey.penalty + after.penalty
    return loss, after


def solve_rows(
    side: Side,
    fixed: FactorTable,
    gramian: NDArray[np.float64],
    equations: Equations,
    shift: NDArray[np.float32] | None = None,
) -> NDArray[Any]:
    """Return the exact solutions of rows, shape (rows, d), from T'T of the fixed table in float64.

    Raises
    ------
    ConvergenceError
        If the equations have no solution.
    """
    solved = FactorTable(side.rows, fixed.shape[1], "float32")
    place = Processor("exact")
    work = place.double(equations.unobserved_weight * gramian)

    def ridge(counts: NDArray[np.int64]) -> NDArray[np.float64]:
        return equations.ridge(counts, fixed.shape[0])

    if _run(side, fixed, solved, ridge, place, work, lambda n: None, shift) is None:
        raise _singular(equations)
    return solved.to_numpy()


def _singular(equations: Equations) -> ConvergenceError:
    return ConvergenceError(
        f"the equations of a row have no unique solution: raise regularization (now {equations.regularization:g})"
    )


def _eigenbasis(gramian: NDArray[np.float64], alpha: float) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """Return the eigenvalues of the weighted Gramian, and its eigenvectors as columns."""
    if not alpha:
        return np.zeros(len(gramian)), np.eye(len(gramian), dtype=np.float32)
    values, vectors = np.linalg.eigh(alpha * gramian)
    return np.maximum(values, 0.0), np.ascontiguousarray(vectors, np.float32)


def _condition(
    side: Side, spectrum: NDArray[np.float64], survey: Survey, ridge: Callable[[NDArray[np.int64]], NDArray[np.float64]]
) -> float:
    """Return about how badly the worst row's equations may be conditioned."""
    counts = np.diff(side.indptr)
    counts = counts[counts > 0]
    if not len(counts):
        return 1.0
    weights = ridge(np.array([counts.min(), counts.max()]))
    few = min(int(counts.max()), len(spectrum))
    return float((spectrum[-1] + weights[1] + few * survey.largest) / np.float64(spectrum[0] + weights[0]))


Work = Callable[[Part, Any, NDArray[np.float64], Any, NDArray[np.float64]], int | None]
"""Solves the rows of a part: from the fixed table, the ridge of each row and, in their place, the factors to improve.

Writes the sums of squared errors of blocks; returns the number of a row without a solution, -1 or None without one.
"""


class Place(Protocol):
    """What solves half steps: the processor, or a device with memory of its own."""

    @property
    def solver(self) -> Solver:
        """Which solver of :class:`sparrow.models.ALS` it is."""

    def here(self) -> AbstractContextManager[Any]:
        """Return what a thread enters to compute there."""

    def take(self, *tables: FactorTable) -> tuple[Table, ...]:
        """Return tables that stand for those in memory."""

    def bring(self) -> None:
        """Have the tables in memory hold what was computed."""

    def single(self, spectrum: NDArray[np.float64], basis: NDArray[np.float32], double: bool) -> Work:
        """Return the work of the solver in the eigenbasis, in float32 but for what needs more where ``double``."""

    def double(self, weighted: NDArray[np.float64]) -> Work:
        """Return the work of the exact solver in float64, from the weighted Gramian."""


def _run(
    side: Side,
    fixed: Table,
    solved: Table,
    ridge: Callable[[NDArray[np.int64]], NDArray[np.float64]],
    place: Place,
    work: Work,
    advance: Callable[[int], None],
    shift: NDArray[np.float32] | None,
) -> float | None:
    """Do the work of all parts on threads; return the sum of squared errors, or None where it broke down."""
    losses = np.zeros(side.blocks)

    def done(part: Part) -> int | None:
        part = part if shift is None else part.less(shift)
        stop = part.first + len(part.indptr) - 1
        out = losses[part.block : part.block + len(part.cuts) - 1]
        with place.here():
            factors = solved.read(part.first, stop)
            failed = work(part, fixed, ridge(np.diff(part.indptr)), factors, out)
            solved.write(part.first, factors)
        return None if failed is not None and failed >= 0 else len(part.cols)

    for links in ordered_map(done, side.parts(), settings.current().threads):
        if links is None:
            return None
        advance(links)
    return float(np.sum(losses))


def _arguments(part: Part, fixed: FactorTable) -> tuple[Any, Any, Any]:
    """Return the arguments of the kernels that say what the links are, and the fixed table."""
    from sparrow.kernels.jit.warmup import as_readonly

    links = as_readonly(part.cols), as_readonly(part.values), len(part.values) > 0
    return as_readonly(part.indptr), links, fixed.operands()


@dataclass(frozen=True, slots=True)
class Processor:
    """The compiled loops, over tables in memory."""

    solver: Solver
    cg_steps: int = 0
    block: int = 1

    def here(self) -> AbstractContextManager[None]:
        """Return what does nothing."""
        return nullcontext()

    def take(self, *tables: FactorTable) -> tuple[FactorTable, ...]:
        """Return the tables."""
        return tables

    def bring(self) -> None:
        """Do nothing: they are there."""

    def single(self, spectrum: NDArray[np.float64], basis: NDArray[np.float32], double: bool) -> Work:
        """Return the work of the solver, in float32 but for the long rows of "exact" where ``double``."""
        from sparrow.kernels.jit.warmup import as_readonly
        from sparrow.kernels.ml import als
        from sparrow.kernels.ml.blas import address

        room = room_for(len(spectrum))
        lapack = (address("ssyrk"), address("spotrf"), address("spotrs"))
        diagonal, turn = as_readonly(single(spectrum)), as_readonly(basis)

        def cg(part: Part, fixed: FactorTable, ridge: Any, factors: Any, losses: Any) -> None:
            als.conjugate_gradient(
                as_readonly(part.cuts), HEIGHT, room, *_arguments(part, fixed), diagonal, as_readonly(single(ridge)),
                turn, self.cg_steps, address("sgemm"), factors, losses,
            )  # fmt: skip

        def subspace(part: Part, fixed: FactorTable, ridge: Any, factors: Any, losses: Any) -> int:
            failed: int = als.subspace(
                as_readonly(part.cuts), HEIGHT, room, *_arguments(part, fixed), diagonal, as_readonly(single(ridge)),
                turn, min(self.block, len(spectrum)), address("sgemm"), lapack, factors, losses,
            )  # fmt: skip
            return failed

        def exact(part: Part, fixed: FactorTable, ridge: Any, factors: Any, losses: Any) -> int:
            failed: int = als.eigenbasis(
                as_readonly(part.cuts), *_arguments(part, fixed), as_readonly(spectrum), as_readonly(ridge),
                double, lapack,
                _double_lapack(), factors, losses,
            )  # fmt: skip
            return failed

        works: dict[Solver, Work] = {"cg": cg, "subspace": subspace, "exact": exact}
        return works[self.solver]

    def double(self, weighted: NDArray[np.float64]) -> Work:
        """Return the work of the exact solver in float64."""
        from sparrow.kernels.jit.warmup import as_readonly
        from sparrow.kernels.ml import als

        matrix = as_readonly(weighted)

        def exact(part: Part, fixed: FactorTable, ridge: Any, factors: Any, losses: Any) -> int:
            failed: int = als.normal_equations(
                as_readonly(part.cuts),
                *_arguments(part, fixed),
                matrix,
                as_readonly(ridge),
                _double_lapack(),
                factors,
                losses,
            )
            return failed

        return exact


def _double_lapack() -> tuple[int, int, int]:
    from sparrow.kernels.ml.blas import address

    return address("dsyrk"), address("dpotrf"), address("dpotrs")
