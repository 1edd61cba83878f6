"""Products computed into spill files, panel by panel, before a read.

The right operand spills in panels that fit in memory, the left one in tiles of whole rows. Each panel is multiplied
with all tiles; the results spill row by row, and their rows are added when they are read. A panel holds some of the
shared coordinates, so a left element meets one panel, and two or more if a right row is longer than a panel. Without
shared indices it meets all panels, which hold different columns.

An external sum is for left rows that are too long for a tile. Both operands are read once, in the order of the shared
index: a panel of the right one, and the left elements that match it, in batches. Partial sums of a batch go to an
external sort, which adds equal coordinates in order.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.partitioning import range_slice
from sparrow.engines.stream.product.combine import AddRows, CSRPart
from sparrow.engines.stream.product.kernels import ProductKernels
from sparrow.engines.stream.product.layouts import CSROperand, LhsRows, MaskRows
from sparrow.engines.stream.product.operands import (
    Operand,
    Operands,
    SpilledOperands,
    batch_elements,
    concat_nonempty,
)
from sparrow.engines.stream.product.physical import PhysicalPlan
from sparrow.engines.stream.product.tiling import SpilledTiling
from sparrow.engines.stream.product.tuning import tuning
from sparrow.kernels.coo import Block, Duplicates, canonicalize, concat_blocks, row_pointers, sort_block
from sparrow.kernels.runs import group_starts
from sparrow.runtime import events, memory, progress, settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.sorting import Rows, Segment, SpilledBlocks, SpillFile

if TYPE_CHECKING:
    from sparrow.sorting.sorter import Sorter

__all__ = ["ExternalSum", "KPanels"]


# -- panels and tiles ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Panel:
    """Right elements that fit in memory."""

    blocks: SpilledBlocks
    span: tuple[int, int] | None
    """Bounds of the left elements that meet it, along the first shared index; None for all."""


@dataclass(frozen=True, slots=True)
class _Tile:
    """Whole rows of ``lhs`` in a spill file."""

    spool: SpillFile
    """Spill file of the elements."""
    rows: tuple[Segment, ...]
    """Coordinates of each row along the row indices, in the spill file of the output."""
    shares: Sequence[tuple[Segment, ...] | None]
    """Elements multiplied with each panel: row number, coordinates and value; None if there are none."""
    low: int
    high: int
    """First and last leading coordinate."""

    def count(self, panel: int) -> int:
        """Return the number of elements multiplied with a panel."""
        share = self.shares[panel]
        return 0 if share is None else share[-1].count

    def read(self, panel: int) -> tuple[NDArray[np.int32], Block]:
        """Return the row numbers and elements multiplied with a panel."""
        share = self.shares[panel]
        assert share is not None
        numbers, *coords, values = (self.spool.read(segment, 0, segment.count) for segment in share)
        return numbers, Block(tuple(coords), values)


def _cut_panels(operands: Operands, rhs: SpilledBlocks) -> list[_Panel]:
    """Return ``rhs`` in panels, of whole rows where these fit."""
    size = operands.panel_elements()
    parts: list[SpilledBlocks] = []
    count = 0
    for at, more in enumerate(rhs.counts()):
        if not parts or count + more > size + size // 8:
            parts.append(SpilledBlocks(rhs.spool))
            count = 0
        parts[-1].append_from(rhs, at)
        count += more
    if not operands.roles.shared:
        return [_Panel(part, None) for part in parts]
    starts = [0, *(part.low[0] for part in parts[1:])]
    stops = [*starts[1:], operands.rhs.sizes[operands.roles.shared[0]]]
    spans = zip(starts, (max(stop, part.high[-1] + 1) for part, stop in zip(parts, stops, strict=True)), strict=True)
    return list(map(_Panel, parts, spans))


def _cut_tiles(operands: Operands, source: SpilledBlocks, result: SpillFile, panels: Sequence[_Panel]) -> list[_Tile]:
    """Return spilled ``lhs`` as tiles; row coordinates are written to ``result``."""
    from sparrow.kernels.rows import repeat_rows

    lhs, roles = operands.lhs, operands.roles

    def write_tile(at: int) -> _Tile:
        block = source.read(at)
        rows = lhs.columns(block, roles.rows)
        starts = group_starts(rows, block.count)
        numbers = np.empty(block.count, np.int32)
        repeat_rows(np.arange(len(starts), dtype=np.int32), np.append(starts, block.count), numbers)
        numbered = Block((numbers, *block.coords), block.values)
        shares = [
            tuple(map(source.spool.append, (*share.coords, share.values))) if share.count else None
            for share in _split_by_panels(numbered, lhs.columns(block, roles.shared[:1]), panels)
        ]
        row_coords = tuple(result.append(column[starts]) for column in rows)
        if not roles.shared:
            shares *= len(panels)  # each panel has all rows
        return _Tile(source.spool, row_coords, shares, source.low[at], source.high[at])

    return list(ordered_map(write_tile, range(len(source.parts)), settings.current().threads))


def _split_by_panels(block: Block, leading: list[NDArray[Any]], panels: Sequence[_Panel]) -> list[Block]:
    """Return the elements that meet each panel, all without shared indices."""
    from sparrow.kernels.rows import counting_sort

    spans = [panel.span for panel in panels if panel.span is not None]
    if not leading or len(panels) <= 1:
        return [block] * min(len(panels), 1)
    (keys,) = leading
    if any(stop > start for (_, stop), (start, _) in itertools.pairwise(spans)):  # a right row is cut
        return [block.take((keys >= start) & (keys < stop)) for start, stop in spans]
    bounds = np.array([start for start, _ in spans[1:]], keys.dtype)
    part = np.searchsorted(bounds, keys, "right")
    begins = row_pointers(part, len(panels))
    scatter: Callable[[NDArray[Any]], NDArray[Any]] = lambda column: counting_sort(part, begins, column)  # noqa: E731
    values = block.values
    values = scatter(values) if values.itemsize <= 8 else values.take(scatter(np.arange(block.count)))
    grouped = Block(tuple(map(scatter, block.coords)), values)
    return [grouped.take(slice(*ends)) for ends in itertools.pairwise(begins.tolist())]


@dataclass(frozen=True, slots=True)
class _Result:
    """Product of a panel and a tile: row lengths, and elements by batch of rows."""

    counts: Segment
    elements: tuple[tuple[Segment, ...], ...]
    total: int
    flops: int


class KPanels(SpilledTiling):
    """Elements of a product that was computed panel by panel, in a spill file.

    Parameters
    ----------
    operands
        Operands of the product.
    lhs, rhs
        The spilled operands.
    spool
        Spill file of the result, closed with this object.
    """

    name = "k_panels"

    def __init__(self, operands: Operands, lhs: SpilledBlocks, rhs: SpilledBlocks, spool: SpillFile) -> None:
        self._operands, self._node, self._schema = operands, operands.node, operands.node.schema
        self._spool, panels = spool, _cut_panels(operands, rhs)
        self._tiles = _cut_tiles(operands, lhs, spool, panels)
        self._add_rows = AddRows(operands.node, operands.roles.columns, operands.dropped_value)
        self.elements_read = sum(rhs.counts())
        weakref.finalize(self, spool.close)
        events.emit("product.spill_file", spool=spool)
        self._results: list[list[_Result]] = [[] for _ in self._tiles]
        self._multiply(panels)
        self._bounds, self._before = self._cut_output()
        self.spilled_bytes = spool.nbytes + lhs.spool.nbytes

    @classmethod
    def build(cls, operands: Operands, plan: PhysicalPlan, spilled: SpilledOperands) -> Self | None:
        """Multiply panel by panel; return None if a left row is too long."""
        blocks = spilled.blocks()
        if blocks is None:
            return None
        memory.trim()
        result = SpillFile()
        try:
            return cls(operands, *blocks, result)
        except BaseException:
            result.close()
            raise

    def partitions(self) -> list[int]:
        """Return bounds along the leading axis between which a batch of elements lies."""
        size = self._schema.shape[0]
        return [0, *(int(bound) for bound in self._bounds if bound), size] if size else [0]

    def max_rows(self, start: int, stop: int) -> int:
        """Return an upper bound on the elements of rows [start, stop)."""
        first, last = np.searchsorted(self._bounds, start, "right") - 1, np.searchsorted(self._bounds, stop)
        return int(self._before[last] - self._before[first])

    def read(self, start: int, stop: int) -> Block:
        """Return the elements with leading coordinates in [start, stop)."""
        operands, schema = self._operands, self._schema
        found = [
            self._read_tile(at, start, stop)
            for at, tile in enumerate(self._tiles)
            if tile.low < stop and start <= tile.high
        ]
        block = concat_blocks(found, schema.ndim, operands.dtype)
        block, _ = operands.finish(block.coords, operands.score(block.coords, block.values))
        if not operands.is_in_order and block.count:
            block = canonicalize(block, schema.shape, None, keep_fill=True)
        return block

    def _multiply(self, panels: Sequence[_Panel]) -> None:
        """Multiply each panel with all tiles."""
        events.emit("product.parts", parts=len(panels), tiling=self.name)
        threads = settings.current().threads
        shares = [[tile.count(number) for tile in self._tiles] for number in range(len(panels))]
        with progress.bar("multiplying part by part", sum(map(sum, shares)), "elements") as advance:
            for number, (panel, counts) in enumerate(zip(panels, shares, strict=True)):
                room = self._operands.reserve_rhs()
                block = panel.blocks.concat()
                room.grow(block.nbytes)
                rhs = CSROperand(self._operands, block, room, panel.span)
                del block
                kernels = ProductKernels(self._operands, rhs)

                def multiply(
                    at: int, number: int = number, rhs: CSROperand = rhs, kernels: ProductKernels = kernels
                ) -> _Result:
                    tile = self._tiles[at]
                    numbers, elements = tile.read(number)
                    rows = rhs.lhs_rows(elements)
                    lengths = np.zeros(tile.rows[0].count, np.int32)
                    own, found, total = self._spill_product(rows, rhs.read_mask_rows(rows), kernels)
                    lengths[numbers[rows.indptr[:-1]]] = own
                    return _Result(self._spool.append(lengths), found, total, rows.flops)

                wanted = [at for at, count in enumerate(counts) if count]
                for at, result in zip(wanted, ordered_map(multiply, wanted, threads), strict=True):
                    self.flops += result.flops
                    if result.total:
                        self._results[at].append(result)
                    advance(counts[at])
                self.held_bytes = max(self.held_bytes, room.nbytes)
                self.elements_read += sum(counts)
                del rhs, kernels, multiply
                room.release()
                memory.trim()

    def _spill_product(
        self, rows: LhsRows, mask: MaskRows | None, kernels: ProductKernels
    ) -> tuple[NDArray[np.int32], tuple[tuple[Segment, ...], ...], int]:
        """Multiply rows and spill the result; return row lengths, elements, number."""
        lengths = np.zeros(len(rows.indptr) - 1, np.int32)
        elements, total = [], 0
        for first, last in rows.row_spans(batch_elements(tuning().part_output_divisor)):
            indptr, columns, values = kernels.to_csr_part(rows, mask, first, last)
            lengths[first:last] = np.diff(indptr)
            if len(values):
                elements.append(tuple(map(self._spool.append, (*columns, values))))
                total += len(values)
        return lengths, tuple(elements), total

    def _cut_output(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return bounds of batches along the leading axis, and the elements before each."""
        size = batch_elements(tuning().part_output_divisor)
        bounds, before, done = [0], [0], 0
        for tile, results in zip(self._tiles, self._results, strict=True):
            total = sum(result.total for result in results)
            if not total:
                continue
            if done > before[-1] and done + total > before[-1] + size:
                bounds.append(tile.low)
                before.append(done)
            if total > size:
                leading = self._read_segment(tile.rows[0])
                counts = np.add.reduce([self._read_segment(result.counts) for result in results], dtype=np.int64)
                ends: NDArray[np.int64] = done + np.cumsum(counts)
                rows = np.searchsorted(ends, np.arange(done + size, done + total, size), "right")
                for row in np.unique(np.searchsorted(leading, leading[rows])).tolist():
                    if row:
                        bounds.append(int(leading[row]))
                        before.append(int(ends[row - 1]))
            done += total
        return np.array(bounds, np.int64), np.array([*before, done], np.int64)

    def _read_tile(self, at: int, start: int, stop: int) -> Block:
        """Return the elements of rows [start, stop) of a tile."""
        from sparrow.kernels.rows import repeat_rows

        operands, schema, node = self._operands, self._schema, self._node
        coords = [self._read_segment(segment) for segment in self._tiles[at].rows]
        own = range_slice(coords[0], start, stop)
        parts: list[CSRPart] = []
        for result in self._results[at]:
            lengths = self._read_segment(result.counts)
            first, indptr = int(lengths[: own.start].sum(dtype=np.int64)), _to_indptr(lengths[own])
            if indptr[-1]:
                parts.append((indptr, self._read_elements(result, first, first + int(indptr[-1]))))
        if not parts:
            return concat_blocks([], schema.ndim, operands.dtype)
        indptr, (*columns, values) = self._add_rows(parts)
        found: dict[int, NDArray[Any]] = dict(zip(operands.roles.columns, columns, strict=True))
        for index, column in zip(operands.roles.rows, coords, strict=True):
            found[index] = np.empty(len(values), schema.coordinate_dtype(node.output_indices.index(index)))
            repeat_rows(column[own], indptr, found[index])
        return Block(tuple(found[index] for index in node.output_indices), values)

    def _read_elements(self, result: _Result, start: int, stop: int) -> list[NDArray[Any]]:
        """Return elements [start, stop) of a result, as arrays."""
        out = [np.empty(stop - start, segment.dtype) for segment in result.elements[0]]
        done = 0
        for segments in result.elements:
            first, last = max(start - done, 0), min(stop - done, segments[0].count)
            if first < last:
                to = done + first - start
                for segment, array in zip(segments, out, strict=True):
                    self._spool.read(segment, first, last, array[to : to + last - first])
            done += segments[0].count
        return out

    def _read_segment(self, segment: Segment) -> NDArray[Any]:
        return self._spool.read(segment, 0, segment.count)


def _to_indptr(lengths: NDArray[Any]) -> NDArray[np.int64]:
    out = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=out[1:])
    return out


# -- external sum --------------------------------------------------------------------------------

_DUPLICATES: dict[Any, Duplicates] = {"plus": "sum", "min": "min", "max": "max", "or": "max", "any": "first"}
"""Rule by which the sorter combines partial sums of one coordinate."""


def _panel_elements(operands: Operands) -> int:
    """Return the size of a panel, which depends on the memory limit alone."""
    current = tuning()
    size = int(operands.budget.working_bytes() / (current.panel_share * current.panel_element_bytes))
    return max(size, current.min_panel_elements)


class ExternalSum(SpilledTiling):
    """Elements of a product, computed panel by panel and added by an external sort.

    Parameters
    ----------
    operands
        Operands of the product.
    wanted_rows
        Leading coordinates of the left operand to multiply, None for all.
    """

    name = "external_sum"

    def __init__(self, operands: Operands, wanted_rows: NDArray[Any] | None = None) -> None:
        from sparrow.sorting.sorter import Sorter  # imports Numba

        self._operands, self._schema = operands, operands.node.schema
        self._result = SpilledBlocks(SpillFile())
        weakref.finalize(self, self._result.spool.close)
        events.emit("product.spill_file", spool=self._result.spool)
        duplicates = _DUPLICATES[operands.node.semiring.add]
        sorter = Sorter(max(self._schema.ndim, 1), operands.dtype, weighted=True, duplicates=duplicates)
        try:
            flops: list[int] = []
            sorter.consume(_partial_sums(operands, sorter, wanted_rows, flops))
            self.flops = sum(flops)
            memory.trim()
            self._write(sorter)
            self.elements_read = operands.lhs.nnz_estimate + operands.rhs.nnz_estimate
            self.spilled_bytes = self._result.spool.nbytes
        finally:
            sorter.close()
            memory.trim()

    @classmethod
    def build(cls, operands: Operands, plan: PhysicalPlan, spilled: SpilledOperands) -> Self:
        """Multiply panel by panel, reading both operands in the shared order."""
        return cls(operands, spilled.wanted_rows)

    def partitions(self) -> list[int]:
        """Return bounds along the leading axis between which about a block lies."""
        size = self._schema.shape[0]
        return [0, *dict.fromkeys(low for low in self._result.low if low), size] if size else [0]

    def max_rows(self, start: int, stop: int) -> int:
        """Return an upper bound on the elements of rows [start, stop)."""
        counts = self._result.counts()
        return sum(counts[at] for at in self._find(start, stop))

    def read(self, start: int, stop: int) -> Block:
        """Return the elements with leading coordinates in [start, stop)."""
        found = []
        memory.trim()
        for at in self._find(start, stop):
            block = self._result.read(at)
            found.append(block.take(range_slice(block.coords[0], start, stop)) if block.coords else block)
        return concat_blocks(found, self._schema.ndim, self._schema.dtype)

    def _find(self, start: int, stop: int) -> list[int]:
        if not self._schema.ndim:
            return list(range(len(self._result.parts)))
        ends = zip(self._result.low, self._result.high, strict=True)
        return [at for at, (low, high) in enumerate(ends) if low < stop and start <= high]

    def _write(self, sorter: Sorter) -> None:
        """Add partial sums and write the result."""
        schema, operands = self._schema, self._operands
        dtypes = [schema.coordinate_dtype(axis) for axis in range(schema.ndim)] or [np.dtype(np.int32)]
        fill = None if operands.node.keep_fill else operands.dropped_value
        with progress.bar("adding up panels", sorter.count, "elements") as advance:
            for block in sorter.blocks(dtypes, fill, advance=advance):
                coords = block.coords[: schema.ndim]
                found, _ = operands.finish(coords, operands.score(coords, block.values))
                if found.count:
                    self._result.append(found)


def _partial_sums(
    operands: Operands, sorter: Sorter, wanted_rows: NDArray[Any] | None, flops: list[int]
) -> Iterator[Any]:
    """Yield the products of panels and matching batches, prepared for the sorter.

    The number of products of each batch is appended to ``flops``.
    """
    current, threads = tuning(), settings.current().threads
    lhs, rhs, roles = operands.lhs, operands.rhs, operands.roles
    source = Operand(lhs.scan, lhs.indices, (*roles.shared, *roles.rows))
    axes = [source.indices.index(index) for index in lhs.indices]
    shape = [lhs.sizes[index] for index in lhs.indices]
    size, spool = _panel_elements(operands), SpillFile()
    batch = min(current.max_panel_batch, max(size // 2, current.min_panel_elements))
    max_products = max(memory.limit() // current.panel_products_divisor, current.min_panel_elements)
    max_products = min(current.max_panel_products, max_products)
    leading = roles.shared[:1]
    events.emit("product.spill_file", spool=spool)
    matching = _MatchingElements(source, leading, batch, spool)
    try:
        with progress.bar("multiplying panels", lhs.nnz_estimate + rhs.nnz_estimate, "elements") as advance:
            number = itertools.count()  # enumerate would keep a reference to the panel
            for panel in _split(rhs, size):
                events.emit("product.external_panel", number=next(number))
                count = panel.count
                with operands.reserve_rhs() as room:
                    room.grow(panel.nbytes)
                    low, high = _leading_key(rhs, leading, panel)[[0, -1]].tolist()
                    operand = CSROperand(operands, panel, room)
                    del panel
                    multiply = ProductKernels(operands, operand, partial=True).multiply

                    def prepare(block: Block, operand: CSROperand = operand, multiply: Any = multiply) -> list[Any]:
                        if source.indices != lhs.indices:
                            block = sort_block(Block(tuple(block.coords[axis] for axis in axes), block.values), shape)
                        rows = operand.lhs_rows(block, wanted_rows)
                        flops.append(rows.flops)
                        mask = operand.read_mask_rows(rows)
                        parts = [multiply(rows, mask, *span)[0] for span in rows.row_spans(max_products)]
                        return [sorter.prepare(Rows(p.coords or (_zeros(p.count),), p.values)) for p in parts]

                    batches = matching.between(low, high, advance)
                    yield from itertools.chain.from_iterable(ordered_map(prepare, batches, threads))
                    del operand, multiply, prepare
                advance(count)
                memory.trim()
    finally:
        spool.close()


def _zeros(count: int) -> NDArray[np.int32]:
    """Return coordinates for elements without any."""
    return np.zeros(count, np.int32)


def _split(operand: Operand, size: int) -> Iterator[Block]:
    """Yield the elements of an operand, sorted, in blocks of ``size``."""
    waiting: list[Block] = []
    room = size
    for block in map(operand.take_diagonals, scan_reader.iter_sorted_blocks(operand.scan)):
        start = 0
        while start < block.count:
            waiting.append(block.take(slice(start, start + room)))
            start, room = start + waiting[-1].count, room - waiting[-1].count
            if not room:
                yield concat_nonempty(waiting)
                waiting, room = [], size
    if waiting:
        yield concat_nonempty(waiting)


def _leading_key(operand: Operand, leading: tuple[int, ...], block: Block) -> NDArray[Any]:
    """Return the coordinates along the leading shared index, zeros if there is none."""
    return operand.columns(block, leading)[0] if leading else _zeros(block.count)


class _MatchingElements:
    """Elements of an operand between bounds that ascend from call to call.

    Those at the upper bound spill, because the next call may ask for them again.
    """

    def __init__(self, operand: Operand, leading: tuple[int, ...], size: int, spool: SpillFile) -> None:
        self._operand, self._leading, self._blocks = operand, leading, _split(operand, size)
        self._rest = next(self._blocks, None)
        self._spool, self._at, self._again = spool, -1, SpilledBlocks(spool)

    def between(self, low: int, high: int, advance: Callable[[int], None]) -> Iterator[Block]:
        """Yield the elements with keys from ``low`` to ``high``, both included."""
        if self._at == low:
            yield from map(self._again.read, range(len(self._again.parts)))
        if self._at != high:
            self._at, self._again = high, SpilledBlocks(self._spool)
        while self._rest is not None:
            key = _leading_key(self._operand, self._leading, self._rest)
            first, again, last = np.searchsorted(key, [low, high, high + 1]).tolist()
            block, ended = self._rest, last == self._rest.count
            self._rest = next(self._blocks, None) if ended else block.take(slice(last, None))
            advance(last)
            if again < last:
                self._again.append(block.take(slice(again, last)))
            if first < last:
                yield block.take(slice(first, last))
            if not ended:
                break
