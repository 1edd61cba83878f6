"""K-panels and column strips: products computed part by part before a read.

Both operands are read once and spill: the right one in parts that fit in memory, the left one in tiles of whole rows.
Each part is multiplied with all tiles; the results spill row by row and are combined when they are read.

A k-panel holds some of the shared coordinates, a strip some of the columns. Each left element meets one panel, but
every strip. Partial sums of panels have to be added, while a row of the output is the concatenation of the rows of
all strips: for any semiring, with the bits of a product in memory. So strips are chosen where rows are long.
"""

from __future__ import annotations

import contextlib
import weakref
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.stream.partitioning import range_slice
from sparrow.engines.stream.product import spill
from sparrow.engines.stream.product.combine import AddRows, CSRPart, concat_rows
from sparrow.engines.stream.product.kernels import ProductKernels
from sparrow.engines.stream.product.layouts import CSROperand, LhsRows, MaskRows
from sparrow.engines.stream.product.operands import Operands
from sparrow.engines.stream.product.physical import can_add_partial_sums
from sparrow.engines.stream.product.spill import LhsTile, SpilledOperands
from sparrow.engines.stream.product.tiling import SpilledTiling
from sparrow.engines.stream.product.tuning import tuning
from sparrow.kernels.coo import Block, canonicalize, concat_blocks
from sparrow.runtime import events, memory, progress, settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.sorting import Segment, SpilledBlocks, SpillFile

__all__ = ["ColumnStrips", "KPanels", "SpilledParts"]


@dataclass(frozen=True, slots=True)
class _PartResult:
    """Result of a part and a tile: row lengths, and elements by batch of rows."""

    counts: Segment
    elements: tuple[tuple[Segment, ...], ...]
    total: int
    flops: int


class SpilledParts(SpilledTiling):
    """Elements of a product that was computed part by part, in a spill file.

    Parameters
    ----------
    operands
        Operands of the product.
    parts
        Parts of the right operand.
    tiles
        Tiles of the left operand; their row coordinates are in ``spool``.
    spool
        Spill file of the result, closed with this object.
    """

    _topk: int | None = None
    """Number of the largest elements of each row that a part keeps, None for all."""

    def __init__(self, operands: Operands, parts: list[SpilledBlocks], tiles: list[LhsTile], spool: SpillFile) -> None:
        self._operands, self._node, self._schema = operands, operands.node, operands.node.schema
        self._spool, self._tiles = spool, tiles
        self.elements_read = sum(sum(part.counts()) for part in parts)
        weakref.finalize(self, spool.close)
        events.emit("product.spill_file", spool=spool)
        self._results: list[list[_PartResult]] = [[] for _ in tiles]
        self._multiply(parts)
        self._bounds, self._before = self._cut_output()
        self.spilled_bytes = spool.nbytes + (tiles[0].spool.nbytes if tiles else 0)

    @abstractmethod
    def _combine(self, parts: list[CSRPart]) -> CSRPart:
        """Combine rows of which each part has some elements."""

    @abstractmethod
    def _span(self, number: int) -> tuple[int, int] | None:
        """Return the shared coordinates [start, stop) of a part, None for all."""

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
        block, _ = operands.finish(block.coords, block.values)
        if not operands.is_in_order and block.count:
            block = canonicalize(block, schema.shape, None, keep_fill=True)
        return block

    def _multiply(self, parts: list[SpilledBlocks]) -> None:
        """Multiply each part with all tiles."""
        events.emit("product.parts", parts=len(parts), tiling=self.name)
        threads = settings.current().threads
        shares = [[tile.count(k) for tile in self._tiles] for k in range(len(parts))]
        with progress.bar("multiplying part by part", sum(map(sum, shares)), "elements") as advance:
            for number, (part, counts) in enumerate(zip(parts, shares, strict=True)):
                room = self._operands.reserve_rhs()
                block = part.concat()
                room.grow(block.nbytes)
                rhs = CSROperand(self._operands, block, room, self._span(number))
                del block
                kernels = ProductKernels(self._operands, rhs, topk=self._topk)

                def multiply(
                    at: int, number: int = number, rhs: CSROperand = rhs, kernels: ProductKernels = kernels
                ) -> _PartResult:
                    tile = self._tiles[at]
                    numbers, elements = tile.read(number)
                    rows = rhs.lhs_rows(elements)
                    lengths = np.zeros(tile.rows[0].count, np.int32)
                    at_rows = slice(None) if numbers is None else numbers[rows.indptr[:-1]]
                    lengths[at_rows], found, total = self._spill_product(rows, rhs.read_mask_rows(rows), kernels)
                    return _PartResult(self._spool.append(lengths), found, total, rows.flops)

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
        for first, last in rows.row_spans(spill.batch_elements(tuning().part_output_divisor)):
            indptr, columns, values = kernels.to_csr_part(rows, mask, first, last)
            lengths[first:last] = np.diff(indptr)
            if len(values):
                elements.append(tuple(map(self._spool.append, (*columns, values))))
                total += len(values)
        return lengths, tuple(elements), total

    def _cut_output(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return bounds of batches along the leading axis, and the elements before each."""
        size = spill.batch_elements(tuning().part_output_divisor)
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
        indptr, (*columns, values) = self._combine(parts)
        found: dict[int, NDArray[Any]] = dict(zip(operands.roles.columns, columns, strict=True))
        for index, column in zip(operands.roles.rows, coords, strict=True):
            found[index] = np.empty(len(values), schema.coordinate_dtype(node.output_indices.index(index)))
            repeat_rows(column[own], indptr, found[index])
        return Block(tuple(found[index] for index in node.output_indices), values)

    def _read_elements(self, result: _PartResult, start: int, stop: int) -> list[NDArray[Any]]:
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


class KPanels(SpilledParts):
    """Elements of a product computed panel by panel; panels' rows are added.

    Parameters
    ----------
    operands, parts, tiles, spool
        As for :class:`SpilledParts`.
    bounds
        First shared coordinate of every panel but the first.
    """

    name = "k_panels"

    def __init__(
        self,
        operands: Operands,
        parts: list[SpilledBlocks],
        tiles: list[LhsTile],
        spool: SpillFile,
        bounds: NDArray[np.int64],
    ) -> None:
        size = operands.rhs.sizes[operands.roles.shared[0]]
        self._panel_bounds = [0, *bounds.tolist(), size]
        self._add_rows = AddRows(operands.node, operands.roles.columns, operands.dropped_value)
        super().__init__(operands, parts, tiles, spool)

    @classmethod
    def build(cls, operands: Operands, spilled: SpilledOperands) -> KPanels | None:
        """Multiply panel by panel; None if a row is too long, or nothing is shared."""
        lhs, rhs = spilled.blocks()
        if lhs is None or rhs is None or not operands.roles.shared:
            return None
        if not can_add_partial_sums(operands.node.semiring):
            return None
        parts, bounds = spill.cut_panels(operands, rhs)
        with _result_file() as result:
            return cls(operands, parts, spill.cut_tiles(operands, lhs, result, bounds), result, bounds)

    def _combine(self, parts: list[CSRPart]) -> CSRPart:
        return self._add_rows(parts)

    def _span(self, number: int) -> tuple[int, int]:
        return self._panel_bounds[number], self._panel_bounds[number + 1]


class ColumnStrips(SpilledParts):
    """Elements of a product computed strip by strip; strips' rows are concatenated."""

    name = "column_strips"

    @classmethod
    def build(cls, operands: Operands, spilled: SpilledOperands) -> ColumnStrips | None:
        """Multiply strip by strip; None if there are too many, or a column is too long."""
        lhs, rhs = spilled.blocks()
        number = -(-operands.rhs.nnz_estimate * operands.rhs_element_bytes // operands.part_bytes())
        if lhs is None or not operands.roles.columns or number > tuning().max_strips:
            return None
        parts = spill.cut_strips(operands, rhs, lhs.spool)
        if parts is None:
            return None
        with _result_file() as result:
            return cls(operands, parts, spill.cut_tiles(operands, lhs, result, None), result)

    @property
    def _topk(self) -> int | None:  # type: ignore[override]
        return self._node.topk

    def _combine(self, parts: list[CSRPart]) -> CSRPart:
        return concat_rows(parts)

    def _span(self, number: int) -> None:
        return None


@contextlib.contextmanager
def _result_file() -> Iterator[SpillFile]:
    """Yield a spill file for a result, closed if it is not computed."""
    memory.trim()
    result = SpillFile()
    try:
        yield result
    except BaseException:
        result.close()
        raise


def _to_indptr(lengths: NDArray[Any]) -> NDArray[np.int64]:
    out = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=out[1:])
    return out
