"""K-panels added by an external sort: for operands whose rows do not tile.

Both operands are read once, in the order of the shared index: a panel of the right one that fits in memory, and the
left elements that match it, in batches. Partial sums of a batch go to an external sort, which adds equal coordinates
in order. The result stays in a spill file and is read from there.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.partitioning import range_slice
from sparrow.engines.stream.product.kernels import ProductKernels
from sparrow.engines.stream.product.layouts import CSROperand
from sparrow.engines.stream.product.operands import Operand, Operands
from sparrow.engines.stream.product.spill import SpilledOperands, concat_nonempty
from sparrow.engines.stream.product.tiling import SpilledTiling
from sparrow.engines.stream.product.tuning import tuning
from sparrow.kernels.coo import Block, Duplicates, concat_blocks, sort_block
from sparrow.runtime import events, memory, progress, settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.sorting import Rows, SpilledBlocks, SpillFile

if TYPE_CHECKING:
    from sparrow.sorting.sorter import Sorter

__all__ = ["ExternalSum"]

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
    def build(cls, operands: Operands, spilled: SpilledOperands) -> ExternalSum:
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
            for block in sorter.blocks(dtypes, fill):
                found, _ = operands.finish(block.coords[: schema.ndim], block.values)
                if found.count:
                    self._result.append(found)
                advance(block.count)


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
