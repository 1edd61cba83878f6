"""Operands in spill files, in blocks of rows: panels, strips and left tiles.

The right operand is cut along the shared index into k-panels, or across it into column strips. The left operand is cut
into tiles of whole rows, which are multiplied with one part of the right operand after the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.product.indexing import isin_sorted
from sparrow.engines.stream.product.operands import Operand, Operands
from sparrow.engines.stream.product.tuning import tuning
from sparrow.kernels.coo import Block, concat_blocks, filter_block, row_pointers
from sparrow.kernels.runs import group_starts
from sparrow.runtime import events, memory, progress, settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.sorting import Segment, SpilledBlocks, SpillFile

__all__ = [
    "LhsTile", "SpilledOperands", "batch_elements", "concat_nonempty", "cut_panels", "cut_strips", "cut_tiles",
    "read_sorted",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class LhsTile:
    """Whole rows of ``lhs`` in a spill file.

    Attributes
    ----------
    spool
        The spill file of the elements.
    rows
        Coordinates of each row along the row indices, in the spill file of the output.
    shares
        Elements multiplied with each panel: row number, coordinates and value of each, None if there are none. For
        strips one share without row numbers, for all of them.
    low, high
        First and last leading coordinate.
    """

    spool: SpillFile
    rows: tuple[Segment, ...]
    shares: tuple[tuple[Segment, ...] | None, ...]
    low: int
    high: int

    def count(self, part: int) -> int:
        """Return the number of elements multiplied with a part."""
        share = self._share(part)
        return 0 if share is None else share[-1].count

    def read(self, part: int) -> tuple[NDArray[np.int32] | None, Block]:
        """Return the row numbers (None for all) and elements multiplied with a part."""
        share = self._share(part)
        assert share is not None
        *coords, values = (self.spool.read(segment, 0, segment.count) for segment in share)
        return (None if len(self.shares) == 1 else coords.pop(0)), Block(tuple(coords), values)

    def _share(self, part: int) -> tuple[Segment, ...] | None:
        return self.shares[min(part, len(self.shares) - 1)]


def batch_elements(divisor: int) -> int:
    """Return the elements processed at a time: memory limit / ``divisor``, bounded."""
    current = tuning()
    return min(max(memory.limit() // divisor, current.min_batch_elements), current.max_batch_elements)


def read_sorted(operand: Operand) -> Iterator[Block]:
    """Yield the elements of an operand, sorted."""
    with progress.bar("reading an operand", operand.nnz_estimate, "elements") as advance:
        for block in scan_reader.iter_sorted_blocks(operand.scan):
            advance(block.count)
            found = operand.take_diagonals(block)
            if found.count:
                yield found


class SpilledOperands:
    """Both operands in spill files, written when a tiling asks for them.

    A context manager that closes the spill file unless a tiling has taken it over.

    Parameters
    ----------
    operands
        Operands of the product.
    wanted_rows
        Leading coordinates of ``lhs`` to spill, None for all.
    """

    def __init__(self, operands: Operands, wanted_rows: NDArray[Any] | None) -> None:
        self._operands, self.wanted_rows = operands, wanted_rows
        self._spool: SpillFile | None = None
        self._blocks: tuple[SpilledBlocks | None, SpilledBlocks | None] = None, None
        self._is_taken = False

    def blocks(self) -> tuple[SpilledBlocks | None, SpilledBlocks | None]:
        """Return ``lhs`` and ``rhs`` in blocks of rows; None if a row is too long."""
        if self._spool is None:
            self._spool = SpillFile()
            self._blocks = self._spill(self._spool)
        return self._blocks

    @property
    def spool(self) -> SpillFile:
        """The spill file."""
        assert self._spool is not None
        return self._spool

    def take(self) -> SpillFile:
        """Return the spill file to an owner who closes it."""
        self._is_taken = True
        return self.spool

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._spool is not None and not self._is_taken:
            self._spool.close()

    def _spill(self, spool: SpillFile) -> tuple[SpilledBlocks | None, SpilledBlocks | None]:
        events.emit("product.spill")
        events.emit("product.spill_file", spool=spool)
        current, lhs, rhs = tuning(), self._operands.lhs, self._operands.rhs
        room = max(self._operands.part_bytes() // self._operands.rhs_element_bytes, 1)
        same = self.wanted_rows is None and lhs.same_as(rhs)
        size = batch_elements(current.lhs_tile_divisor)
        size = min(size, room) if same else size
        row_bytes = current.lhs_row_share * lhs.element_bytes(self._operands.dtype)
        max_row = max(int(self._operands.budget.working_bytes() / row_bytes), 2 * size)
        blocks = read_sorted(lhs)
        wanted_rows = self.wanted_rows
        if wanted_rows is not None:
            blocks = (filter_block(block, isin_sorted(block.coords[0], wanted_rows)) for block in blocks)
            blocks = (block for block in blocks if block.count)
        spilled = _spill_rows(blocks, spool, size, max_row)
        memory.trim()
        if spilled is None or same:
            return spilled, spilled
        other = _spill_rows(read_sorted(rhs), spool, min(room, size), current.max_part_ratio * room)
        memory.trim()
        return spilled, other


def _spill_rows(blocks: Iterator[Block], spool: SpillFile, size: int, max_row: float) -> SpilledBlocks | None:
    """Spill blocks of whole rows; None if a row has more than ``max_row``."""
    out = SpilledBlocks(spool)
    for block in split_at_rows(blocks, size, max_row):
        if block.count > max_row:
            return None
        out.append(block)
    return out


def cut_panels(operands: Operands, rhs: SpilledBlocks) -> tuple[list[SpilledBlocks], NDArray[Any]]:
    """Return ``rhs`` in panels of whole rows, and the bounds between them."""
    size = max(operands.part_bytes() // operands.rhs_element_bytes, 1)
    out: list[SpilledBlocks] = []
    count = 0
    for at, more in enumerate(rhs.counts()):
        if not out or count + more > size + size // 8:
            out.append(SpilledBlocks(rhs.spool))
            count = 0
        out[-1].append_from(rhs, at)
        count += more
    return out, np.array([panel.low[0] for panel in out[1:]], np.int64)


def cut_strips(operands: Operands, source: SpilledBlocks | None, spool: SpillFile) -> list[SpilledBlocks] | None:
    """Write ``rhs`` in column strips; return None if a few columns hold too much.

    Parameters
    ----------
    operands
        Operands of the product.
    source
        The spilled operand; None to read it.
    spool
        Spill file of the strips.
    """
    rhs, columns, current = operands.rhs, operands.roles.columns, tuning()
    if source is None:
        source = SpilledBlocks(spool)
        for block in read_sorted(rhs):
            source.append(block)
    spilled = source
    counts, room, element_bytes = spilled.counts(), operands.part_bytes(), operands.rhs_element_bytes
    number = -(-sum(counts) * element_bytes // room)
    rng = np.random.default_rng(0)

    def sample(at: int) -> NDArray[Any]:
        size = -(-counts[at] // current.strip_sample_ratio)
        return _column_keys(rhs, columns, spilled.read(at).take(rng.integers(0, counts[at], size)))

    keys = np.sort(np.concatenate([sample(at) for at in range(len(counts))] or [np.empty(0, np.int64)]))
    bounds = np.unique(keys[[len(keys) * k // number for k in range(1, number)]])
    out = [SpilledBlocks(spool) for _ in range(len(bounds) + 1)]

    def split(at: int) -> list[tuple[int, Block]]:
        block = spilled.read(at)
        return _split_by_bounds(block, _column_keys(rhs, columns, block), bounds)

    for parts in ordered_map(split, range(len(counts)), settings.current().threads):
        for strip, block in parts:
            out[strip].append(block)
    out = [strip for strip in out if strip.parts]
    fits = all(sum(strip.counts()) * element_bytes <= current.max_part_ratio * room for strip in out)
    return out if fits else None


def cut_tiles(
    operands: Operands, source: SpilledBlocks, result: SpillFile, bounds: NDArray[Any] | None
) -> list[LhsTile]:
    """Return spilled ``lhs`` as tiles.

    Parameters
    ----------
    operands
        Operands of the product.
    source
        The spilled operand.
    result
        Spill file of the output, which row coordinates are written to.
    bounds
        Bounds of panels; None if all elements are multiplied with each part.
    """
    from sparrow.kernels.rows import repeat_rows

    lhs, roles = operands.lhs, operands.roles

    def write_tile(at: int) -> LhsTile:
        block = source.read(at)
        rows = lhs.columns(block, roles.rows)
        starts = group_starts(rows, block.count)
        shares: list[tuple[Segment, ...] | None] = [source.parts[at]]
        if bounds is not None and len(bounds):
            numbers = np.empty(block.count, np.int32)
            repeat_rows(np.arange(len(starts), dtype=np.int32), np.append(starts, block.count), numbers)
            (key,) = lhs.columns(block, roles.shared[:1])
            shares = [None] * (len(bounds) + 1)
            for number, share in _split_by_bounds(Block((numbers, *block.coords), block.values), key, bounds):
                shares[number] = tuple(map(source.spool.append, (*share.coords, share.values)))
        row_coords = tuple(result.append(column[starts]) for column in rows)
        return LhsTile(source.spool, row_coords, tuple(shares), source.low[at], source.high[at])

    return list(ordered_map(write_tile, range(len(source.parts)), settings.current().threads))


def split_at_rows(blocks: Iterator[Block], size: int, max_row: float) -> Iterator[Block]:
    """Yield sorted elements in blocks of about ``size`` that end with a row.

    A row longer than ``max_row`` ends the iteration: the last block is longer then, and no more is read.
    """
    rest: list[Block] = []
    count = 0
    for block in blocks:
        leading, start = block.coords[0], 0
        while start + size - count < block.count:
            if count < size:
                row = leading[start + size - count]
                stop = int(np.searchsorted(leading, row))
                if stop <= start:
                    stop = int(np.searchsorted(leading, row, "right"))
            else:
                stop = int(np.searchsorted(leading, rest[-1].coords[0][-1], "right"))
            if stop == block.count:
                break  # the last row may continue
            if start < stop:
                rest.append(block.take(slice(start, stop)))
            yield concat_nonempty(rest)
            rest, count, start = [], 0, stop
        rest.append(block.take(slice(start, None)))
        count += rest[-1].count
        if count > max_row + size:  # earlier rows in it have fewer than ``size`` elements
            break
    if rest:
        yield concat_nonempty(rest)


def concat_nonempty(blocks: Sequence[Block]) -> Block:
    """Concatenate at least one block."""
    return concat_blocks(blocks, len(blocks[0].coords), blocks[0].values.dtype)


def _split_by_bounds(block: Block, keys: NDArray[Any], bounds: NDArray[Any]) -> list[tuple[int, Block]]:
    """Return the elements of each part between bounds that has some."""
    from sparrow.kernels.rows import counting_sort

    if not len(bounds):
        return [(0, block)]
    part = np.searchsorted(bounds.astype(keys.dtype, copy=False), keys, "right")
    begins = row_pointers(part, len(bounds) + 1)
    scatter: Callable[[NDArray[Any]], NDArray[Any]] = lambda column: counting_sort(part, begins, column)  # noqa: E731
    values = block.values
    values = scatter(values) if values.itemsize <= 8 else values.take(scatter(np.arange(block.count)))
    grouped = Block(tuple(map(scatter, block.coords)), values)
    spans = enumerate(itertools.pairwise(begins.tolist()))
    return [(number, grouped.take(slice(*span))) for number, span in spans if span[0] < span[1]]


def _column_keys(rhs: Operand, columns: tuple[int, ...], block: Block) -> NDArray[Any]:
    """Return a composite key of column coordinates, as far as 63 bits hold them."""
    first, *others = rhs.columns(block, columns)
    key, size = first, rhs.sizes[columns[0]]
    for index, column in zip(columns[1:], others, strict=True):
        size *= rhs.sizes[index]
        if size >= 2**63:
            break
        key = key.astype(np.int64) * rhs.sizes[index] + column
    return key
