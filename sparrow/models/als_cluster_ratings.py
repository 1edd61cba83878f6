"""Ratings of ALS for tasks, which read batches from the stored tensor."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow import engines, storage
from sparrow.engines.task_rounds import Rounds, pack_array
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
from sparrow.models.als_long_rows import long_row_bounds
from sparrow.models.tuning import tuning
from sparrow.plan import Scan
from sparrow.plan.estimates import estimate_nnz
from sparrow.runtime import memory, progress, settings
from sparrow.tensor import Tensor

__all__ = ["Batch", "ClusterRatings", "ClusterSide", "Counting", "RowSums", "Share", "SideFiles"]


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
        True if a value differs from 1.
    """

    def __init__(self, rounds: Rounds, scan: Scan, counts: NDArray[np.int64], factors: int, weighted: bool) -> None:
        super().__init__(counts, factors)
        self.scan, self.weighted = scan, weighted
        rows_of_task = max(int(rounds.memory_limit / tuning().als_gather_share) // (4 * factors), 1)
        self.cut = self._cut(rounds.max_tasks, -(-len(counts) // rows_of_task))
        self.cut_rows: tuple[int, ...] = tuple(self.chunk_bounds[list(self.cut)].tolist())
        """First row of each range of :attr:`cut`, and the end."""
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
