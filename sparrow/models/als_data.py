"""Both ways through the links of a matrix: by rows and by columns, part by part, whole rows in each part.

Links that fit the budget are decoded once and kept. Others are read anew in every pass: from the files, where the
tensor is stored in the order of the pass, else from a temporary file into which they were sorted once. Blocks of rows
are cut by the numbers of links alone, so what is computed from them does not depend on which of the two happens.
"""

from __future__ import annotations

import hashlib
import itertools
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sparrow import engines
from sparrow.engines.sort_orders import sorted_order
from sparrow.errors import InvalidValueError, ShapeError, UnsupportedError
from sparrow.kernels.coo import Block
from sparrow.plan import Scan
from sparrow.plan.estimates import max_nnz
from sparrow.runtime import progress, settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.sorting.spill import Segment, SpillFile

__all__ = ["HEIGHT", "Links", "Part", "Side", "check_matrix", "room_for", "whole_side"]

HEIGHT = 64
"""The most rows with links of a block."""
_SPAN = 1 << 12
"""The most rows of a block."""
_BUFFER = 512 << 10
"""Bytes of the rows of the fixed table that a block refers to: they stay in a core's cache."""
_PART = (1 << 14, 1 << 18)
"""The fewest and the most links of a part, unless a row has more."""
_PART_ROWS = 1 << 14


def room_for(factors: int) -> int:
    """Return how many rows of the fixed table a block may refer to."""
    return max(_BUFFER // (4 * factors), 64)


def check_matrix(scan: Scan, columns: int | None = None) -> None:
    """Raise an error unless a scan is a matrix of real numbers with fill 0, of so many columns.

    Raises
    ------
    ShapeError
        If it has not two dimensions, or not ``columns`` columns.
    UnsupportedError
        If its numbers are complex, or its fill is not 0.
    """
    schema = scan.schema
    if schema.ndim != 2:
        raise ShapeError(f"a model of rows and columns needs a matrix, not shape {schema.shape}")
    if columns is not None and schema.shape[1] != columns:
        raise ShapeError(f"the rows have {schema.shape[1]} columns, the model was fitted to {columns}")
    if schema.dtype.kind == "c":
        raise UnsupportedError("ratings must be real: the tensor is complex; take its real part or its modulus")
    if schema.fill_value != 0:
        raise UnsupportedError(f"absent cells must be 0, not {schema.fill_value}: subtract the fill first")


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive rows with all their links."""

    first: int
    """The number of the first row."""
    indptr: NDArray[np.int64]
    """Where the links of each row begin, and the end; shape (rows + 1,), from 0."""
    cols: NDArray[Any]
    """The column of each link, int32 or int64, shape (links,)."""
    values: NDArray[np.float32]
    """The value of each link, shape (links,), or (0,) where all are 1."""
    cuts: NDArray[np.int64]
    """Where blocks of rows begin, and the end; shape (blocks + 1,), from 0."""
    block: int
    """The number of the first block."""

    def less(self, shift: NDArray[np.float32]) -> Part:
        """Return the part with a number taken off the values of each column, shape (columns,)."""
        values = (self.values if len(self.values) else np.float32(1)) - shift[self.cols]
        return replace(self, values=values)


class _Source(Protocol):
    """Links sorted by row, that are asked for in ascending ranges that cover them all."""

    def pieces(self, bounds: list[tuple[int, int]]) -> Iterator[tuple[NDArray[Any], NDArray[np.float32]]]:
        """Yield columns and values of the links of each range; no values where all are 1."""


@dataclass(frozen=True, slots=True)
class _Held:
    """Links in memory."""

    cols: NDArray[Any]
    values: NDArray[np.float32]

    def pieces(self, bounds: list[tuple[int, int]]) -> Iterator[tuple[NDArray[Any], NDArray[np.float32]]]:
        """Yield the links of each range, without a copy."""
        for start, stop in bounds:
            yield self.cols[start:stop], self.values[start:stop]


@dataclass(frozen=True, slots=True)
class _Spooled:
    """Links in a temporary file, chunk after chunk."""

    spool: SpillFile
    starts: list[int]
    cols: list[Segment]
    values: list[Segment]
    """The values of each chunk; nothing where all are 1."""

    def pieces(self, bounds: list[tuple[int, int]]) -> Iterator[tuple[NDArray[Any], NDArray[np.float32]]]:
        """Yield the links of each range, read ahead on threads."""

        def read(bound: tuple[int, int]) -> tuple[NDArray[Any], NDArray[np.float32]]:
            return self._read(self.cols, *bound), self._read(self.values, *bound) if self.values else _NOTHING

        yield from ordered_map(read, bounds, 2)

    def _read(self, segments: list[Segment], start: int, stop: int) -> NDArray[Any]:
        at = max(bisect_right(self.starts, start) - 1, 0)
        pieces = []
        while at < len(segments) and self.starts[at] < stop:
            begin = self.starts[at]
            pieces.append(self.spool.read(segments[at], max(start - begin, 0), min(stop - begin, segments[at].count)))
            at += 1
        return np.concatenate(pieces) if pieces else np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class _Scanned:
    """Links in the files of a tensor, decoded anew each time."""

    scan: Scan
    weighted: bool

    def pieces(self, bounds: list[tuple[int, int]]) -> Iterator[tuple[NDArray[Any], NDArray[np.float32]]]:
        """Yield the links of each range, row groups decoded ahead on threads."""
        blocks = engines.iter_sorted_blocks(self.scan)
        held = [(np.empty(0, self.scan.schema.coordinate_dtype(1)), _NOTHING)]
        begin = have = 0  # the links held are those from begin to have
        for start, stop in bounds:
            while have < stop:
                block = next(blocks)
                held.append((block.coords[1], single(block.values) if self.weighted else _NOTHING))
                have += block.count
            cols, values = (np.concatenate([piece[k] for piece in held]) for k in (0, 1))
            held = [(cols[stop - begin :].copy(), values[stop - begin :].copy())]
            yield cols[start - begin : stop - begin], values[start - begin : stop - begin]
            begin = stop


_NOTHING = np.empty(0, np.float32)


def single(values: NDArray[Any]) -> NDArray[np.float32]:
    """Return numbers in float32, infinite where they are too large for it."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32, copy=False)


class Side:
    """The links sorted by row, or by column, which are then the rows.

    Parameters
    ----------
    counts
        The number of links of each row, shape (rows,).
    source
        The links.
    factors
        The number of factors, which says how large blocks are.
    links
        The most links of a part, unless one row has more.
    """

    def __init__(self, counts: NDArray[np.int64], source: _Source, factors: int, links: int) -> None:
        from sparrow.kernels.graph import adjacency as loops

        self.indptr = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=self.indptr[1:])
        self._source = source
        self.cuts = loops.row_block_bounds(self.indptr, HEIGHT, room_for(factors), _SPAN)
        self._parts = loops.part_bounds(self.indptr, self.cuts, links, _PART_ROWS)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.indptr) - 1

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return len(self.cuts) - 1

    def parts(self) -> Iterator[Part]:
        """Yield the parts in order."""
        if not self.rows:
            return
        edges = self.cuts[self._parts]
        ends = self.indptr[edges].tolist()
        bounds = list(itertools.pairwise(ends))
        for k, (cols, values) in enumerate(self._source.pieces(bounds)):
            low, high = self._parts[k], self._parts[k + 1]
            first, last = self.cuts[low], self.cuts[high]
            indptr = self.indptr[first : last + 1] - self.indptr[first]
            yield Part(int(first), indptr, cols, values, self.cuts[low : high + 1] - first, int(low))


class Links:
    """The links of a matrix, by rows and by columns.

    Parameters
    ----------
    scan, transposed
        The matrix, and its transpose.
    factors
        The number of factors.
    budget
        Bytes that links may take in memory. If all fit, in both orders, they are kept.
    buffers
        Bytes that they may take on the way, if not. At least a few row groups of the files, and the longest row.
    digest
        Whether to find :attr:`digest`.

    Raises
    ------
    InvalidValueError
        If a value is not finite in float32.
    """

    def __init__(self, scan: Scan, transposed: Scan, factors: int, budget: int, buffers: int, digest: bool) -> None:
        self._spool = SpillFile()
        try:
            self._read(scan, transposed, factors, budget, buffers, digest)
        except BaseException:
            self.close()
            raise

    rows: Side
    cols: Side
    count: int
    """The number of links."""
    weighted: bool
    """Whether some value is not 1."""
    kept: bool
    """Whether the links are in memory."""
    nbytes: int
    """Bytes of memory that they take, in both orders or on the way."""
    digest: str
    """What identifies the links: a hash of all of them, or nothing where none was asked for."""

    def close(self) -> None:
        """Give the temporary file back."""
        self._spool.close()

    def _read(self, scan: Scan, transposed: Scan, factors: int, budget: int, buffers: int, digest: bool) -> None:
        kinds = [scan.schema.coordinate_dtype(axis) for axis in (0, 1)]
        most = max_nnz(scan, sorted_order(scan)) if scan.step is None else None
        needed = None if most is None else most * (kinds[0].itemsize + kinds[1].itemsize + 8)
        self.kept = needed is not None and needed <= budget
        self.nbytes = needed if self.kept and needed is not None else buffers
        census = _Census(scan, self._spool)
        if self.kept:
            census.hold(most or 0)
        elif not _rereads(scan):
            census.spill(weighted=True)
        census.run(digest)
        self.count, self.weighted, self.digest = census.count, census.weighted, census.digest
        if self.kept:
            size = min(max(self.count // (8 * settings.current().threads), _PART[0]), _PART[1])
        else:
            # Half of the buffers are for row groups being decoded, half for parts waiting, at work and being cut.
            size = min(max(buffers // (2 * 8 * (settings.current().threads + 4)), _PART[0] // 8), _PART[1])
        self.rows = Side(census.row_counts, census.source(), factors, size)
        self.cols = Side(census.col_counts, self._turned(census, transposed), factors, size)

    def _turned(self, census: _Census, transposed: Scan) -> _Source:
        """Return the links by columns."""
        if self.kept:
            from sparrow.kernels.graph import adjacency as loops

            held = census.source()
            assert isinstance(held, _Held)
            rows = np.empty(self.count, transposed.schema.coordinate_dtype(1))
            values = np.empty_like(held.values)
            places = np.cumsum(census.col_counts) - census.col_counts
            loops.transpose(self.rows.indptr, held.cols, held.values, self.weighted, places, rows, values)
            return _Held(rows, values)
        if _rereads(transposed):
            return _Scanned(transposed, self.weighted)
        turned = _Census(transposed, self._spool)
        turned.spill(self.weighted)
        turned.run(digest=False)
        return turned.source()


def _rereads(scan: Scan) -> bool:
    """Return whether a scan can be read again and again in its order: files, not sums or sorts."""
    return scan.step is None and scan.relation.version is not None and scan.view.preserves_order(sorted_order(scan))


class _Census:
    """Counts links by row and column, checks their values and puts them where they will be read from."""

    def __init__(self, scan: Scan, spool: SpillFile) -> None:
        height, width = scan.schema.shape
        self._scan, self._spool = scan, spool
        self.row_counts, self.col_counts = np.zeros(height, np.int64), np.zeros(width, np.int64)
        self.count, self.weighted, self.digest = 0, False, ""
        self._held: tuple[NDArray[Any], NDArray[np.float32]] | None = None
        self._spooled: _Spooled | None = None
        self._valued = True

    def hold(self, most: int) -> None:
        """Keep the links in memory. What is not written to takes none."""
        self._held = np.empty(most, self._scan.schema.coordinate_dtype(1)), np.empty(most, np.float32)

    def spill(self, weighted: bool) -> None:
        """Keep the links in a temporary file, their values where they are ``weighted``."""
        self._spooled, self._valued = _Spooled(self._spool, [], [], []), weighted

    def run(self, digest: bool) -> None:
        """Read all links once."""
        hashes = [hashlib.blake2b(digest_size=16) for _ in range(3)] if digest else []
        with progress.bar("counting links", None, "links") as advance:
            for block in engines.iter_sorted_blocks(self._scan):
                values = self._checked(block)
                arrays: tuple[NDArray[Any], ...] = (
                    *(column.astype(np.int64, copy=False) for column in block.coords),
                    values,
                )
                for found, array in zip(hashes, arrays, strict=False):
                    found.update(array.tobytes())
                self._add(block, values)
                advance(block.count)
        self.digest = "".join(found.hexdigest() for found in hashes)

    def load(self, block: Block) -> None:
        """Take in all links at once and keep them in memory."""
        self.hold(block.count)
        self._add(block, self._checked(block))

    def _checked(self, block: Block) -> NDArray[np.float32]:
        values = single(block.values)
        finite = np.isfinite(values)
        if not finite.all():
            at = int(np.argmin(finite))
            cell = tuple(int(column[at]) for column in block.coords)
            raise InvalidValueError(
                f"the value {block.values[at]} at cell {cell} is not finite in float32: leave such cells out, or "
                "scale the values down"
            )
        return values

    def _add(self, block: Block, values: NDArray[np.float32]) -> None:
        from sparrow.kernels.graph import adjacency as loops
        from sparrow.kernels.jit.warmup import as_readonly

        rows, cols = (as_readonly(column) for column in block.coords)
        loops.count_edges(rows, cols, self.row_counts, self.col_counts)
        start, self.count = self.count, self.count + block.count
        self.weighted = self.weighted or bool((values != 1).any())
        if self._held is not None:
            self._held[0][start : self.count], self._held[1][start : self.count] = cols, values
        if self._spooled is not None:
            self._spooled.starts.append(start)
            self._spooled.cols.append(self._spool.append(cols))
            if self._valued:
                self._spooled.values.append(self._spool.append(values))

    def source(self) -> _Source:
        """Return where the links are now."""
        if self._held is not None:
            return _Held(self._held[0][: self.count], self._held[1][: self.count] if self.weighted else _NOTHING)
        if self._spooled is not None:
            values = self._spooled.values if self.weighted else []
            return _Spooled(self._spool, self._spooled.starts, self._spooled.cols, values)
        return _Scanned(self._scan, self.weighted)


def whole_side(scan: Scan, factors: int) -> Side:
    """Return the links of a matrix by rows, held in memory.

    Raises
    ------
    InvalidValueError
        If a value is not finite in float32.
    TooLargeError
        If they pass the memory limit.
    """
    census = _Census(scan, SpillFile())
    census.load(engines.evaluate(scan))
    return Side(census.row_counts, census.source(), factors, _PART[0])
