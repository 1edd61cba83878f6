"""Sorted passes over the ratings of a matrix, by row and by column.

Ratings that fit the memory budget are decoded once and kept. Others are read again in every pass: from the files if the
tensor is stored in the order of the pass, else from a spill file that they are sorted into once. Blocks of rows depend
on the numbers of ratings alone, so results do not depend on the source.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sparrow import engines
from sparrow.engines import sorted_order
from sparrow.errors import InvalidValueError
from sparrow.kernels.coo import Block
from sparrow.models.tuning import tuning
from sparrow.plan import Scan
from sparrow.plan.estimates import estimate_nnz, max_nnz
from sparrow.runtime import progress, settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.sorting.spill import Segment, SpillFile
from sparrow.training.features import hash_integers

__all__ = [
    "MemorySource", "Ratings", "RowBlocks", "RowLayout", "RowPartition", "ScannedSource", "SparseRatings",
    "block_columns", "hash_ratings", "is_rereadable", "load_rows", "long_row_ratings", "to_finite", "to_float32",
]  # fmt: skip

_NO_VALUES = np.empty(0, np.float32)
RatingArrays = tuple[NDArray[Any], NDArray[np.float32]]
"""Columns and values of ratings; values are empty if all are 1."""


def block_columns(factors: int) -> int:
    """Return the number of rows of the fixed table that a block may refer to."""
    return max(tuning().als_block_bytes // (4 * factors), 64)


def long_row_ratings(factors: int) -> int:
    """Return the number of ratings of a row above which it is a long row."""
    return max(tuning().als_long_row_ratings, block_columns(factors))


def to_float32(values: NDArray[Any]) -> NDArray[np.float32]:
    """Return values as float32; those out of range become infinite."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32, copy=False)


@dataclass(frozen=True, slots=True)
class RowPartition:
    """Consecutive rows with all their ratings, the unit of work of a thread."""

    first: int
    """Number of the first row."""
    indptr: NDArray[np.int64]
    """Offsets of the ratings of each row, shape (rows + 1,), from 0."""
    cols: NDArray[Any]
    """Column of each rating, int32 or int64, shape (ratings,)."""
    values: NDArray[np.float32]
    """Value of each rating, shape (ratings,), or (0,) if all are 1."""
    block_starts: NDArray[np.int64]
    """First row of each block, and the end; shape (blocks + 1,), from 0."""
    block: int
    """Number of the first block."""

    def subtract_columns(self, offsets: NDArray[np.float32]) -> RowPartition:
        """Return the partition with an offset per column subtracted from the values."""
        values = (self.values if len(self.values) else np.float32(1)) - offsets[self.cols]
        return replace(self, values=values)


class _RatingSource(Protocol):
    """Ratings sorted by row, read in ascending ranges that cover all of them."""

    def read(self, bounds: list[tuple[int, int]]) -> Iterator[RatingArrays]:
        """Yield the ratings of each range [start, stop)."""


@dataclass(frozen=True, slots=True)
class MemorySource:
    """Ratings in memory."""

    cols: NDArray[Any]
    values: NDArray[np.float32]

    def read(self, bounds: list[tuple[int, int]]) -> Iterator[RatingArrays]:
        """Yield the ratings of each range, without a copy."""
        for start, stop in bounds:
            yield self.cols[start:stop], self.values[start:stop]


@dataclass(frozen=True, slots=True)
class _SpilledSource:
    """Ratings in a spill file, chunk after chunk."""

    spill: SpillFile
    starts: list[int]
    cols: list[Segment]
    values: list[Segment]
    """Values of each chunk; empty if all are 1."""

    def read(self, bounds: list[tuple[int, int]]) -> Iterator[RatingArrays]:
        """Yield the ratings of each range, read ahead on threads."""

        def read_range(bound: tuple[int, int]) -> RatingArrays:
            return self._read(self.cols, *bound), self._read(self.values, *bound) if self.values else _NO_VALUES

        yield from ordered_map(read_range, bounds, 2)

    def _read(self, segments: list[Segment], start: int, stop: int) -> NDArray[Any]:
        at = max(bisect_right(self.starts, start) - 1, 0)
        arrays = []
        while at < len(segments) and self.starts[at] < stop:
            begin = self.starts[at]
            arrays.append(self.spill.read(segments[at], max(start - begin, 0), min(stop - begin, segments[at].count)))
            at += 1
        return np.concatenate(arrays) if arrays else np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class ScannedSource:
    """Ratings in the files of a tensor, decoded again in each pass."""

    scan: Scan
    weighted: bool

    def read(self, bounds: list[tuple[int, int]]) -> Iterator[RatingArrays]:
        """Yield the ratings of each range; row groups are decoded ahead on threads."""
        blocks = engines.iter_sorted_blocks(self.scan)
        buffered = [(np.empty(0, self.scan.schema.coordinate_dtype(1)), _NO_VALUES)]
        begin = end = 0  # the buffer holds the ratings [begin, end)
        for start, stop in bounds:
            while end < stop:
                block = next(blocks)
                buffered.append((block.coords[1], to_float32(block.values) if self.weighted else _NO_VALUES))
                end += block.count
            cols, values = (np.concatenate([arrays[k] for arrays in buffered]) for k in (0, 1))
            buffered = [(cols[stop - begin :].copy(), values[stop - begin :].copy())]
            yield cols[start - begin : stop - begin], values[start - begin : stop - begin]
            begin = stop


class RowLayout:
    """Division of rows into blocks and chunks, by their numbers of ratings.

    A block is what a solver works on, a chunk is several blocks whose sums are added as one term of a
    :class:`~sparrow.models.tree_sum.TreeSum`. A row of more ratings than ``als_long_row_ratings`` has a chunk of its
    own. The rows from the start of a chunk on have the same blocks and chunks without the rows before.

    Parameters
    ----------
    counts
        Number of ratings of each row, shape (rows,).
    factors
        Number of factors; it sets the size of blocks.
    """

    def __init__(self, counts: NDArray[np.int64], factors: int) -> None:
        from sparrow.kernels.graph import adjacency as loops

        sizes = tuning()
        self.indptr = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=self.indptr[1:])
        self.factors = factors
        self.block_starts = loops.row_block_bounds(
            self.indptr, sizes.als_block_rows, block_columns(factors), sizes.als_block_span_rows
        )
        self.chunk_starts = self.group_blocks(sizes.als_chunk_ratings, sizes.table_chunk_rows)
        self.chunk_bounds: NDArray[np.int64] = self.block_starts[self.chunk_starts]
        """First row of each chunk, and the end."""

    def group_blocks(self, max_ratings: int, max_rows: int) -> NDArray[np.int64]:
        """Return the first block of each group of blocks, and the end.

        A long row is a group.
        """
        from sparrow.kernels.graph import adjacency as loops

        limit = min(max_ratings, long_row_ratings(self.factors))
        found: NDArray[np.int64] = loops.part_bounds(self.indptr, self.block_starts, limit, max_rows)
        return found

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return len(self.block_starts) - 1

    def sum_chunks(self, losses: NDArray[np.float64]) -> list[float]:
        """Return the sum of the losses of the blocks of each chunk."""
        return [float(losses[a:b].sum()) for a, b in itertools.pairwise(self.chunk_starts.tolist())]


class RowBlocks(RowLayout):
    """Ratings sorted by row (or by column, which are then called rows), in blocks.

    Parameters
    ----------
    counts, factors
        As in :class:`RowLayout`.
    source
        The ratings.
    max_ratings
        Ratings of a partition, unless one row has more.
    """

    def __init__(self, counts: NDArray[np.int64], source: _RatingSource, factors: int, max_ratings: int) -> None:
        super().__init__(counts, factors)
        self._source = source
        self._partition_starts = self.group_blocks(max_ratings, tuning().als_partition_rows)

    def partitions(self) -> Iterator[RowPartition]:
        """Yield the partitions in order."""
        if not self.rows:
            return
        edges = self.block_starts[self._partition_starts]
        ends = self.indptr[edges].tolist()
        bounds = list(itertools.pairwise(ends))
        for k, (cols, values) in enumerate(self._source.read(bounds)):
            low, high = self._partition_starts[k], self._partition_starts[k + 1]
            first, last = self.block_starts[low], self.block_starts[high]
            indptr = self.indptr[first : last + 1] - self.indptr[first]
            yield RowPartition(int(first), indptr, cols, values, self.block_starts[low : high + 1] - first, int(low))

    def sum_rows(self) -> NDArray[np.float64]:
        """Return the sum of the ratings of each row.

        It does not depend on the partitions.
        """
        sums = np.zeros(self.rows)
        for part in self.partitions():
            filled = np.flatnonzero(np.diff(part.indptr))
            if len(part.values):
                wide = part.values.astype(np.float64)
                sums[part.first + filled] = np.add.reduceat(wide, part.indptr[filled]) if len(filled) else 0
            else:
                sums[part.first : part.first + len(part.indptr) - 1] = np.diff(part.indptr)
        return sums


class Ratings(Protocol):
    """Ratings of a matrix, by rows and by columns, wherever they are."""

    @property
    def rows(self) -> RowLayout:
        """Layout of the rows."""

    @property
    def cols(self) -> RowLayout:
        """Layout of the columns."""

    @property
    def count(self) -> int:
        """Number of ratings."""

    @property
    def digest(self) -> str:
        """Hash of all ratings; empty unless requested."""

    @property
    def nbytes(self) -> int:
        """Memory that they take in this process."""

    def sum_rows(self) -> NDArray[np.float64]:
        """Return the sum of the ratings of each row."""


class SparseRatings:
    """Ratings of a matrix, by rows and by columns.

    Parameters
    ----------
    scan, transposed
        The matrix and its transpose.
    factors
        Number of factors.
    budget
        Memory for the ratings, in bytes. If all fit, in both orders, they are kept.
    buffers
        Memory for streaming them otherwise. A few row groups, and the longest row, are the minimum.
    digest
        Whether to compute :attr:`digest`.

    Raises
    ------
    InvalidValueError
        If a value is not finite in float32.
    """

    rows: RowBlocks
    cols: RowBlocks
    count: int
    """Number of ratings."""
    weighted: bool
    """True if a value differs from 1."""
    in_memory: bool
    """True if the ratings are kept in memory."""
    nbytes: int
    """Memory of the ratings in both orders, or of the buffers."""
    digest: str
    """Hash of all ratings; empty unless requested."""

    def __init__(self, scan: Scan, transposed: Scan, factors: int, budget: int, buffers: int, digest: bool) -> None:
        self._spill = SpillFile()
        try:
            self._read(scan, transposed, factors, budget, buffers, digest)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Delete the spill file."""
        self._spill.close()

    def sum_rows(self) -> NDArray[np.float64]:
        """Return the sum of the ratings of each row."""
        return self.rows.sum_rows()

    def _read(self, scan: Scan, transposed: Scan, factors: int, budget: int, buffers: int, digest: bool) -> None:
        dtypes = [scan.schema.coordinate_dtype(axis) for axis in (0, 1)]
        bound = max_nnz(scan, sorted_order(scan)) if scan.step is None else None
        needed = None if bound is None else bound * (dtypes[0].itemsize + dtypes[1].itemsize + 8)
        self.in_memory = needed is not None and needed <= budget
        self.nbytes = needed if self.in_memory and needed is not None else buffers
        collector = _RatingCollector(scan, self._spill)
        if self.in_memory:
            collector.keep_in_memory(bound or 0)
        elif not is_rereadable(scan):
            collector.spill(weighted=True)
        collector.collect(digest)
        self.count, self.weighted, self.digest = collector.count, collector.weighted, collector.digest
        smallest, largest = tuning().als_partition_min_ratings, tuning().als_partition_max_ratings
        if self.in_memory:
            size = min(max(self.count // (8 * settings.current().threads), smallest), largest)
        else:
            # Half of the buffers hold row groups being decoded, half partitions that wait, are solved or are cut.
            size = min(max(buffers // (2 * 8 * (settings.current().threads + 4)), smallest // 8), largest)
        self.rows = RowBlocks(collector.row_counts, collector.source(), factors, size)
        self.cols = RowBlocks(collector.col_counts, self._by_columns(collector, transposed), factors, size)

    def _by_columns(self, collector: _RatingCollector, transposed: Scan) -> _RatingSource:
        if self.in_memory:
            from sparrow.kernels.graph import adjacency as loops

            source = collector.source()
            assert isinstance(source, MemorySource)
            rows = np.empty(self.count, transposed.schema.coordinate_dtype(1))
            values = np.empty_like(source.values)
            places = np.cumsum(collector.col_counts) - collector.col_counts
            loops.transpose(self.rows.indptr, source.cols, source.values, self.weighted, places, rows, values)
            return MemorySource(rows, values)
        if is_rereadable(transposed):
            return ScannedSource(transposed, self.weighted)
        by_columns = _RatingCollector(transposed, self._spill)
        by_columns.spill(self.weighted)
        by_columns.collect(digest=False)
        return by_columns.source()


def is_rereadable(scan: Scan) -> bool:
    """Return whether each pass can read the files in order.

    An expression, or a tensor without that order, cannot.
    """
    return scan.is_stored and scan.view.preserves_order(sorted_order(scan))


def to_finite(block: Block, first_row: int = 0) -> NDArray[np.float32]:
    """Return the values of ratings in float32.

    Raises
    ------
    InvalidValueError
        If a value is not finite.
    """
    values = to_float32(block.values)
    finite = np.isfinite(values)
    if not finite.all():
        at = int(np.argmin(finite))
        position = int(block.coords[0][at]) + first_row, int(block.coords[1][at])
        raise InvalidValueError(
            f"ratings must be finite in float32, got {block.values[at]} at {position}: "
            + (
                "if NaN is no rating, pass a tensor with fill_value=nan"
                if np.isnan(values[at])
                else "remove it, or scale the values down"
            )
        )
    return values


def hash_ratings(block: Block, values: NDArray[np.float32], first_row: int = 0) -> NDArray[np.uint64]:
    """Return two sums of hashes of ratings, shape (2,).

    Sums of blocks are added modulo 2^64, in any order, so that tasks hash parts of a matrix.
    """
    rows, cols = (column.astype(np.uint64) for column in block.coords)
    rows += np.uint64(first_row)
    words = values.view(np.uint32).astype(np.uint64)
    sums = np.empty(2, np.uint64)
    for number, salt in enumerate((0x9E3779B97F4A7C15, 0xD1B54A32D192ED03)):
        mixed = hash_integers(rows + np.uint64(salt))
        mixed = hash_integers(mixed + cols)
        sums[number] = hash_integers(mixed + words).sum(dtype=np.uint64)
    return sums


class _RatingCollector:
    """Pass over the ratings that counts, checks and optionally stores them."""

    def __init__(self, scan: Scan, spill: SpillFile) -> None:
        height, width = scan.schema.shape
        self._scan, self._spill = scan, spill
        self.row_counts, self.col_counts = np.zeros(height, np.int64), np.zeros(width, np.int64)
        self.count, self.weighted, self.digest = 0, False, ""
        self._arrays: RatingArrays | None = None
        self._spilled: _SpilledSource | None = None
        self._spills_values = True

    def keep_in_memory(self, bound: int) -> None:
        """Keep up to ``bound`` ratings in memory; pages that are not written take none."""
        self._arrays = np.empty(bound, self._scan.schema.coordinate_dtype(1)), np.empty(bound, np.float32)

    def spill(self, weighted: bool) -> None:
        """Write the ratings to the spill file, with their values if ``weighted``."""
        self._spilled, self._spills_values = _SpilledSource(self._spill, [], [], []), weighted

    def collect(self, digest: bool) -> None:
        """Read all ratings once."""
        total = np.zeros(2, np.uint64)
        with progress.bar("counting ratings", estimate_nnz(self._scan), "ratings") as advance:
            for block in engines.iter_sorted_blocks(self._scan):
                values = to_finite(block)
                if digest:
                    total += hash_ratings(block, values)
                self._add(block, values)
                advance(block.count)
        self.digest = total.tobytes().hex() if digest else ""

    def collect_block(self, block: Block) -> None:
        """Collect the only block, in memory."""
        self.keep_in_memory(block.count)
        self._add(block, to_finite(block))

    def _add(self, block: Block, values: NDArray[np.float32]) -> None:
        from sparrow.kernels.graph import adjacency as loops
        from sparrow.kernels.jit.warmup import as_readonly

        rows, cols = (as_readonly(column) for column in block.coords)
        loops.count_edges(rows, cols, self.row_counts, self.col_counts)
        start, self.count = self.count, self.count + block.count
        self.weighted = self.weighted or bool((values != 1).any())
        if self._arrays is not None:
            self._arrays[0][start : self.count], self._arrays[1][start : self.count] = cols, values
        if self._spilled is not None:
            self._spilled.starts.append(start)
            self._spilled.cols.append(self._spill.append(cols))
            if self._spills_values:
                self._spilled.values.append(self._spill.append(values))

    def source(self) -> _RatingSource:
        """Return the source of later passes."""
        if self._arrays is not None:
            cols, values = self._arrays
            return MemorySource(cols[: self.count], values[: self.count] if self.weighted else _NO_VALUES)
        if self._spilled is not None:
            segments = self._spilled.values if self.weighted else []
            return _SpilledSource(self._spill, self._spilled.starts, self._spilled.cols, segments)
        return ScannedSource(self._scan, self.weighted)


def load_rows(scan: Scan, factors: int) -> RowBlocks:
    """Return the ratings of a matrix by rows, in memory.

    Raises
    ------
    InvalidValueError
        If a value is not finite in float32.
    TooLargeError
        If they exceed the memory limit.
    """
    collector = _RatingCollector(scan, SpillFile())
    collector.collect_block(engines.evaluate(scan))
    return RowBlocks(collector.row_counts, collector.source(), factors, tuning().als_partition_min_ratings)
