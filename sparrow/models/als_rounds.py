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

import itertools
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow import engines, storage
from sparrow.engines.task_rounds import Rounds, map_array, pack_array
from sparrow.errors import StorageError
from sparrow.models.als_data import (
    MemorySource,
    RatingArrays,
    RowBlocks,
    RowLayout,
    ScannedSource,
    hash_ratings,
    is_rereadable,
    long_row_ratings,
    to_finite,
)
from sparrow.models.als_long_rows import NormalEquations, long_row_bounds, solve_long_row, sum_equations
from sparrow.models.als_solvers import CPUBackend, Ridge, Solver, solve_partitions
from sparrow.models.blas_threads import single_threaded_blas
from sparrow.models.factor_table import RAW_DTYPES, FactorTable, Precision, TableStatistics, TableSums
from sparrow.models.tree_sum import TreeSum
from sparrow.models.tuning import tuning
from sparrow.plan import Scan
from sparrow.plan.estimates import estimate_nnz
from sparrow.runtime import events, memory, progress, settings
from sparrow.tensor import Tensor

__all__ = ["ClusterBackend", "ClusterRatings", "has_work_for_tasks"]


def has_work_for_tasks(scan: Scan, factors: int) -> bool:
    """Return whether a half step is enough work for two tasks."""
    return estimate_nnz(scan) * factors >= 2 * tuning().als_task_products


# -- tables ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TableFiles:
    """A factor table in files, one per range of rows."""

    folder: str
    width: int
    dtype: Precision
    starts: tuple[int, ...]
    """First row of each file, and the end."""
    names: tuple[str, ...]
    last: Any = None
    """Values of the last column other than in the files: an array, a scalar, or None."""

    def take(self, rows: NDArray[Any]) -> FactorTable:
        """Return ascending rows."""
        out = self._empty(len(rows))
        cuts = np.searchsorted(rows, self.starts).tolist()
        for k, name in enumerate(self.names):
            low, high = cuts[k], cuts[k + 1]
            if low < high:
                source = self._map(name)
                np.take(source, rows[low:high] - self.starts[k], axis=0, out=out.raw[low:high], mode="clip")
        storage.count_files(read=out.raw.nbytes)
        self._write_last(out, rows)
        return out

    def read(self, first: int, stop: int) -> FactorTable:
        """Return a range of rows."""
        out = self._empty(stop - first)
        for start, end, name in zip(self.starts, self.starts[1:], self.names, strict=False):
            low, high = max(first, start), min(stop, end)
            if low < high:
                source = self._map(name)
                out.raw[low - first : high - first] = source[low - start : high - start]
        storage.count_files(read=out.raw.nbytes)
        self._write_last(out, slice(first, stop))
        return out

    def _map(self, name: str) -> NDArray[Any]:
        found: NDArray[Any] = map_array(os.path.join(self.folder, name)).view(np.ndarray)
        return found

    def _empty(self, rows: int) -> FactorTable:
        return FactorTable.of_array(np.empty((rows, self.width), RAW_DTYPES[self.dtype]), self.dtype)

    def _write_last(self, out: FactorTable, rows: Any) -> None:
        if self.last is not None and out.shape[0]:
            out.write_last_column(self.last if np.ndim(self.last) == 0 else np.asarray(self.last[rows]))


def _write_rows(folder: str, rows: FactorTable) -> str:
    """Write rows to a new file of a folder, and return its name."""
    name = f"{uuid.uuid4().hex}.npy"
    try:
        np.save(os.path.join(folder, name), rows.raw.view(np.ndarray))
    except OSError as error:
        raise StorageError(f"cannot write factors to {folder!r}: {error.strerror or error}") from error
    storage.count_files(written=rows.raw.nbytes)
    return name


class ClusterTable:
    """A factor table that tasks read and write.

    Parameters
    ----------
    rounds
        Runs the tasks.
    table
        The table in memory, which the new one starts as.
    side
        Ratings by the rows of the table.
    """

    def __init__(self, rounds: Rounds, table: FactorTable, side: ClusterSide) -> None:
        self._rounds, self._table, self.side = rounds, table, side
        self.shape = table.shape
        self._last: Any = None
        self._new_column: NDArray[np.float32] | None = None
        self._is_synced = True
        folder = self.new_folder()
        bounds = side.chunk_bounds[list(side.cut)].tolist()
        names = [_write_rows(folder, table.rows(*ends)) for ends in itertools.pairwise(bounds)]
        self._files = TableFiles(folder, self.shape[1], table.dtype, tuple(bounds), tuple(names))

    def new_folder(self) -> str:
        """Return a new folder for files of the table."""
        folder = os.path.join(self._rounds.folder, uuid.uuid4().hex)
        os.mkdir(folder)
        return folder

    def files(self) -> TableFiles:
        """Return the files as tasks read them."""
        last = self._last
        if last is not None and np.ndim(last):
            last = pack_array(self._files.folder, last)
        now = self._files
        return TableFiles(now.folder, now.width, now.dtype, now.starts, now.names, last)

    def replace_files(self, folder: str, starts: Sequence[int], names: Sequence[str]) -> None:
        """Continue with other files, and remove the earlier ones."""
        before, self._is_synced = self._files, False
        self._files = TableFiles(folder, before.width, before.dtype, tuple(starts), tuple(names))
        self._last = None
        shutil.rmtree(before.folder, ignore_errors=True)

    def set_last_column(self, values: NDArray[np.float32]) -> None:
        """Remember what the files have in their last column, so that it need not be read."""
        self._new_column = values

    def read_last_column(self) -> NDArray[np.float32]:
        """Return the last column that the latest round wrote."""
        assert self._new_column is not None
        return self._new_column

    def write_last_column(self, values: NDArray[np.float32] | np.float32) -> None:
        """Let tasks read other values in the last column."""
        self._last, self._is_synced = values, False

    @property
    def has_biases(self) -> bool:
        """True if the last column is written and read by itself."""
        return self._last is not None

    def rotate(self, basis: NDArray[np.float32]) -> None:
        """Multiply the table by an orthogonal matrix, in a round of tasks."""
        folder, side = self.new_folder(), self.side
        work = Rotation(self.files(), side.chunk_bounds_file, self._rounds.pack(basis), folder)
        names = self._rounds.run([], work, side.cut)
        self.replace_files(folder, side.chunk_bounds[list(side.cut)].tolist(), names)

    def statistics(self, ridge: Callable[[int, int], NDArray[np.float64]], precise: bool = False) -> TableStatistics:
        """Return the Gramian and norms, from a round of tasks."""
        penalties = pack_array(self._files.folder, ridge(0, self.shape[0]))
        work = Statistics(self.files(), self.side.chunk_bounds_file, penalties, precise)
        sums = TreeSum[TableSums]()
        for nodes in self._rounds.run([], work, self.side.cut):
            sums.extend(nodes)
        return _statistics(sums, self.shape[1])

    def sync(self) -> None:
        """Copy the table back to the one in memory."""
        if self._is_synced:
            return
        files, table = self._files, self._table
        for start, end, name in zip(files.starts, files.starts[1:], files.names, strict=False):
            table.raw[start:end] = map_array(os.path.join(files.folder, name))
        if self._last is not None:
            table.write_last_column(self._last)
        self._is_synced = True


def _statistics(sums: TreeSum[TableSums], factors: int) -> TableStatistics:
    return (sums.total() or TableSums(np.zeros((factors, factors)), 0.0, 0.0)).statistics()


@dataclass(frozen=True, slots=True)
class Rotation:
    """Multiply rows of a table by a matrix."""

    table: TableFiles
    chunk_bounds: Any
    basis: NDArray[np.float32]
    folder: str
    """Folder of the new files."""

    def __call__(self, scans: list[Scan], start: int, stop: int, folder: str) -> str:
        """Write the rows of chunks [start, stop), and return the name of the file."""
        rows = _read_chunks(self.table, self.chunk_bounds, start, stop)
        with single_threaded_blas(with_scipy=True):
            rows.rotate(self.basis)
        return _write_rows(self.folder, rows)


@dataclass(frozen=True, slots=True)
class Statistics:
    """Sum the Gramian and norms of rows of a table."""

    table: TableFiles
    chunk_bounds: Any
    ridge: Any
    """Ridge penalty of each row."""
    precise: bool

    def __call__(self, scans: list[Scan], start: int, stop: int, folder: str) -> list[Any]:
        """Return the nodes of the sum of chunks [start, stop)."""
        rows = _read_chunks(self.table, self.chunk_bounds, start, stop)
        ridge = np.asarray(self.ridge[self.chunk_bounds[start] : self.chunk_bounds[stop]])
        sums = TreeSum[TableSums]()
        with single_threaded_blas(with_scipy=True):
            rows.add_chunks(sums, start, lambda a, b: ridge[a:b], self.precise)
        return sums.nodes


def _read_chunks(table: TableFiles, chunk_bounds: NDArray[np.int64], start: int, stop: int) -> FactorTable:
    """Return the rows of chunks [start, stop)."""
    bounds = np.array(chunk_bounds[start : stop + 1])
    rows = table.read(int(bounds[0]), int(bounds[-1]))
    rows.chunk_bounds = bounds - bounds[0]
    return rows


# -- ratings ---------------------------------------------------------------------------------------


class ClusterSide(RowLayout):
    """Ratings by row (or by column, which are then called rows) for tasks.

    Parameters
    ----------
    rounds
        Runs the tasks.
    scan
        The matrix, stored in the order of its rows.
    counts
        Number of ratings of each row.
    factors
        Number of factors.
    weighted
        Whether a value differs from 1.
    """

    def __init__(self, rounds: Rounds, scan: Scan, counts: NDArray[np.int64], factors: int, weighted: bool) -> None:
        super().__init__(counts, factors)
        self.scan, self.weighted = scan, weighted
        rows_of_task = max(int(rounds.memory_limit / tuning().als_gather_share) // (4 * factors), 1)
        self.cut = self._cut(rounds.max_tasks, -(-len(counts) // rows_of_task))
        self.chunk_bounds_file = pack_array(rounds.folder, self.chunk_bounds)
        self.indptr_file = pack_array(rounds.folder, self.indptr)

    def _cut(self, max_tasks: int, min_tasks: int) -> tuple[int, ...]:
        """Return the bounds of tasks of about equal work, in chunks.

        They are multiples of a power of 2, so that tasks return few nodes of the sums.
        """
        costs = np.diff(self.indptr[self.chunk_bounds]) + tuning().als_row_ratings * np.diff(self.chunk_bounds)
        ends, chunks = np.cumsum(costs), len(costs)
        if not chunks:
            return (0,)
        products = int(ends[-1]) * self.factors
        count = min(max(min(products // tuning().als_task_products, max_tasks), min_tasks, 1), chunks)
        found = np.searchsorted(ends, ends[-1] * np.arange(1, count) / count) + 1
        grain = 1 << max((chunks // count).bit_length() - 3, 0)
        inner = np.clip((found + grain // 2) // grain * grain, 1, chunks)
        return (0, *np.setdiff1d(inner, [chunks]).tolist(), chunks)

    def shares(self) -> list[Share]:
        """Return the tasks of a half step: ranges of chunks, and parts of long rows."""
        limit, starts = long_row_ratings(self.factors), self.indptr[self.chunk_bounds]
        is_long = np.diff(starts) > limit
        found = []
        for first, stop in itertools.pairwise(self.cut):
            at = first
            for chunk in (np.flatnonzero(is_long[first:stop]) + first).tolist():
                if at < chunk:
                    found.append(Share(at, chunk))
                bounds = long_row_bounds(int(starts[chunk + 1] - starts[chunk]), self.factors)
                found += [Share(chunk, chunk + 1, ends) for ends in itertools.pairwise(bounds)]
                at = chunk + 1
            if at < stop:
                found.append(Share(at, stop))
        return found

    def files(self) -> SideFiles:
        """Return the layout for tasks."""
        return SideFiles(self.indptr_file, self.chunk_bounds_file, self.factors, self.weighted)


@dataclass(frozen=True, slots=True)
class Share:
    """Rows of chunks [first, stop), or some ratings of a long row."""

    first: int
    stop: int
    ratings: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Ratings of consecutive chunks."""

    chunk: int
    """Number of the first chunk."""
    row: int
    """Number of the first row."""
    counts: NDArray[np.int64]
    cols: NDArray[Any]
    values: NDArray[np.float32]
    factors: int

    def blocks(self) -> RowBlocks:
        """Return the ratings in blocks."""
        size = len(self.cols) // (8 * settings.current().threads)
        size = min(max(size, tuning().als_partition_min_ratings), tuning().als_partition_max_ratings)
        return RowBlocks(self.counts, MemorySource(self.cols, self.values), self.factors, size)

    def number_columns(self) -> tuple[NDArray[Any], Batch]:
        """Return the distinct columns, and the ratings with columns by number.

        The columns ascend.
        """
        cols = self.cols
        if not len(cols):
            return cols, self
        low, high = int(cols.min()), int(cols.max())
        if high - low < 16 * len(cols):
            numbers, shifted = np.zeros(high + 1 - low, np.int32), cols - cols.dtype.type(low)
            numbers[shifted] = 1
            needed = np.flatnonzero(numbers)
            numbers[needed] = np.arange(len(needed), dtype=np.int32)
            return needed + low, replace(self, cols=numbers[shifted])
        distinct, at = np.unique(cols, return_inverse=True)
        return distinct, replace(self, cols=at.astype(np.int32))


@dataclass(frozen=True, slots=True)
class SideFiles:
    """Layout of a side, as tasks read it."""

    indptr: Any
    chunk_bounds: Any
    factors: int
    weighted: bool

    def read(self, scan: Scan, first: int, stop: int) -> Iterator[Batch]:
        """Yield chunks [first, stop) in batches.

        A batch has as many ratings as rows of a table fit a share of the memory limit.
        """
        most = max(memory.share(tuning().als_gather_share) // (4 * self.factors), tuning().als_chunk_ratings)
        bounds = np.array(self.chunk_bounds[first : stop + 1])
        indptr = np.array(self.indptr[bounds[0] : bounds[-1] + 1])
        rows, ends = bounds - bounds[0], indptr[bounds - bounds[0]] - indptr[0]
        cuts = [0]
        for chunk in range(1, stop - first):
            if ends[chunk + 1] - ends[cuts[-1]] > most:
                cuts.append(chunk)
        cuts.append(stop - first)
        source = self._source(scan, int(bounds[0]), int(bounds[-1]))
        ranges = itertools.pairwise(ends[cuts].tolist())
        for (low, high), (cols, values) in zip(itertools.pairwise(cuts), source.read(list(ranges)), strict=True):
            counts = np.diff(indptr[rows[low] : rows[high] + 1])
            yield Batch(first + low, int(bounds[low]), counts, cols, values, self.factors)

    def read_part(self, scan: Scan, chunk: int, ratings: tuple[int, int]) -> RatingArrays:
        """Return some ratings of a long row, the only one with ratings of its chunk."""
        source = self._source(scan, int(self.chunk_bounds[chunk]), int(self.chunk_bounds[chunk + 1]))
        step = long_row_ratings(self.factors)
        skipped = [(start, start + step) for start in range(0, ratings[0], step)]
        return next(itertools.islice(source.read([*skipped, ratings]), len(skipped), None))

    def _source(self, scan: Scan, first: int, stop: int) -> ScannedSource:
        return ScannedSource(scan.then(scan.view.then((slice(first, stop),))), self.weighted)


class ClusterRatings:
    """Ratings of a stored matrix by rows and by columns, for tasks.

    An order that is not stored is written to the scratch folder first.

    Parameters
    ----------
    rounds
        Runs the tasks.
    scan, transposed
        The matrix and its transpose.
    factors
        Number of factors.
    digest
        Whether to compute :attr:`digest`.
    """

    def __init__(self, rounds: Rounds, scan: Scan, transposed: Scan, factors: int, digest: bool) -> None:
        self._rounds = rounds
        with progress.bar("counting ratings", 2 * estimate_nnz(scan), "ratings") as advance:
            stored, found = list[Scan](), list[_Counted]()
            for name, each in (("rows", scan), ("cols", transposed)):
                stored.append(each if is_rereadable(each) else self._store(each, name))
                found.append(self._count(stored[-1], digest and not found))
                advance(found[-1].nnz)
        rows, cols = found
        self.count, self.weighted = rows.nnz, rows.weighted
        self.digest = rows.digest.tobytes().hex() if digest else ""
        self.rows = ClusterSide(rounds, stored[0], rows.counts, factors, self.weighted)
        self.cols = ClusterSide(rounds, stored[1], cols.counts, factors, self.weighted)

    @property
    def nbytes(self) -> int:
        """Memory that this process needs for the layout of the ratings."""
        return 2 * (self.rows.indptr.nbytes + self.cols.indptr.nbytes)

    def _store(self, scan: Scan, name: str) -> Scan:
        """Store a matrix in the order of its rows in the scratch folder."""
        path = os.path.join(self._rounds.folder, name)
        with settings.config(engine=self._rounds.engine):
            handle = storage.save(
                path,
                scan.schema,
                engines.iter_sorted_blocks(scan),
                write_files=lambda folder: engines.write_files(scan, folder, "fast"),
            )
        return Tensor(handle).__sparrow_scan__()

    def _count(self, scan: Scan, digest: bool) -> _Counted:
        height = scan.schema.shape[0]
        bounds = self._rounds.cut_rows(scan)
        total = _Counted(np.zeros(height, np.int64), False, np.zeros(2, np.uint64))
        for (first, stop), part in zip(
            itertools.pairwise(bounds), self._rounds.run([scan], Counting(digest), bounds), strict=True
        ):
            total.counts[first:stop] = part.counts
            total.weighted |= part.weighted
            total.digest += part.digest
        return total

    def sum_rows(self) -> NDArray[np.float64]:
        """Return the sum of the ratings of each row, from a round of tasks."""
        side = self.rows
        sums = self._rounds.run([side.scan], RowSums(side.files()), side.cut)
        return np.concatenate([np.zeros(0), *sums])


@dataclass(slots=True)
class _Counted:
    """Numbers of ratings of a range of rows."""

    counts: NDArray[np.int64]
    weighted: bool
    digest: NDArray[np.uint64]

    @property
    def nnz(self) -> int:
        return int(self.counts.sum())


@dataclass(frozen=True, slots=True)
class Counting:
    """Count, check and hash ratings."""

    digest: bool

    def __call__(self, scans: list[Scan], start: int, stop: int, folder: str) -> _Counted:
        """Count the ratings of rows [start, stop)."""
        (scan,) = scans
        found = _Counted(np.zeros(stop - start, np.int64), False, np.zeros(2, np.uint64))
        for block in engines.iter_sorted_blocks(scan.then(scan.view.then((slice(start, stop),)))):
            if not block.count:
                continue
            values, rows = to_finite(block, start), block.coords[0]
            found.weighted = found.weighted or bool((values != 1).any())
            first, last = int(rows[0]), int(rows[-1])
            found.counts[first : last + 1] += np.bincount(rows - rows.dtype.type(first), minlength=last + 1 - first)
            if self.digest:
                found.digest += hash_ratings(block, values, start)
        found.counts = pack_array(folder, found.counts)
        return found


@dataclass(frozen=True, slots=True)
class RowSums:
    """Sum the ratings of rows."""

    side: SideFiles

    def __call__(self, scans: list[Scan], start: int, stop: int, folder: str) -> NDArray[np.float64]:
        """Return the sum of each row of chunks [start, stop)."""
        sums: NDArray[np.float64] = np.concatenate(
            [batch.blocks().sum_rows() for batch in self.side.read(scans[0], start, stop)]
        )
        return sums


# -- half steps ------------------------------------------------------------------------------------


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
        return _Solved(_write_rows(self.folder, rows), errors.nodes, sums.nodes, column)


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
        has_biases = solved.has_biases
        starts = sorted({int(side.chunk_bounds[share.first]) for share in shares})
        solved.replace_files(folder, [*starts, side.rows], [answer.name for answer in answers])
        if has_biases:
            solved.set_last_column(np.concatenate([np.zeros(0, np.float32), *(answer.last for answer in answers)]))
        events.emit("models.half_step")
        return errors.total() or 0.0, _statistics(sums, solved.shape[1])


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
    equations = parts[0]
    for part in parts[1:]:
        equations = equations + part
    found = solve_long_row(equations, solve.weighted, float(ridge(counts)[row]))
    if found is None:
        return None
    table = FactorTable(stop - first, solved.shape[1], solved.files().dtype)
    factors = np.zeros(table.shape, np.float32)
    factors[row] = found[0]
    table.write(0, factors)
    errors, sums = TreeSum[float](), TreeSum[TableSums]()
    _add_chunks(RowLayout(counts, side.factors), table, ridge, chunk, [found[1]], errors, sums)
    last = table.read_last_column() if solved.has_biases else None
    return _Solved(_write_rows(folder, table), errors.nodes, sums.nodes, last)
