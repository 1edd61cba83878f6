"""Products of an operand that memory does not hold: panel by panel of its entries, added up by the sorter.

Both operands are read once and written to disk: the one that is multiplied by rows in panels of so many entries, in the
order of the matched letters, and of the other one for each panel what matches it. The products of each panel are
sums of their own, which a sort that spills brings together and adds up in the order of the panels. The result stays
on disk and is read from there.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sparrow import memory, progress, settings
from sparrow.engines.stream.computed import range_of
from sparrow.engines.stream.cutting import Aside, read_in_order
from sparrow.engines.stream.held import Held
from sparrow.engines.stream.loops import Loops
from sparrow.kernels.entries import Block, Duplicates, concatenate
from sparrow.plan import Semiring
from sparrow.sorting import Rows, Spool
from sparrow.sorting.sorter import Sorter
from sparrow.workers import ordered_map

if TYPE_CHECKING:
    from sparrow.engines.stream.contraction import Multiplication
    from sparrow.engines.stream.operands import MaskRows, Operand, OperandRows

__all__ = ["Summed", "adds_up"]

_RULES: dict[Any, Duplicates] = {"plus": "sum", "min": "min", "max": "max", "or": "max", "any": "first"}
"""What the sorter does with several sums of a cell."""
_ENTRY_BYTES = 64
"""About what an entry takes while it is multiplied."""
_HELD = 4
"""Of the memory to work in, one part for a panel; half of one for what is multiplied with it at a time."""
_LEAST = 1 << 14
"""The fewest entries of either, and of products that a thread computes at a time."""
_BATCH = 1 << 18
"""Entries that are multiplied with a panel at a time, at most."""
_PRODUCTS = 1 << 20
"""Products that a thread computes at a time, at most."""
_SMALLEST = 1 << 12
"""Of the memory limit in bytes, one part is their number where it is small."""


def adds_up(semiring: Semiring) -> bool:
    """Return whether sums of panels can be added up."""
    return semiring.add in _RULES


def _panel_size() -> int:
    """Return how many entries a panel has: that depends on the limit alone, and so do the bits."""
    return max(memory.working() // (_HELD * _ENTRY_BYTES), _LEAST)


class Summed:
    """The entries of a product, computed panel by panel, on disk.

    Parameters
    ----------
    work
        The product.
    """

    def __init__(self, work: Multiplication) -> None:
        self._schema = work.schema
        self._result = Aside(Spool())
        weakref.finalize(self, self._result.spool.close)
        spool = Spool()
        try:
            panels, bounds = self._panels(work.operands.right, spool)
            shares = self._shares(work.operands.left, work.operands.roles.matched, bounds, spool)
            self._gather(work, panels, shares)
        finally:
            spool.close()

    def cuts(self) -> list[int]:
        """Return bounds along the leading dimension between which about a block lies."""
        size = self._schema.shape[0]
        return [0, *dict.fromkeys(low for low in self._result.low if low), size] if size else [0]

    def most(self, start: int, stop: int) -> int:
        """Return how many entries there are at most between two bounds along the leading dimension."""
        counts = self._result.counts()
        return sum(counts[at] for at in self._between(start, stop))

    def between(self, start: int, stop: int) -> Block:
        """Return the entries between two bounds along the leading dimension."""
        found = []
        memory.trim()
        for at in self._between(start, stop):
            block = self._result.read(at)
            found.append(block.take(range_of(block.coords[0], start, stop)) if block.coords else block)
        return concatenate(found, self._schema.ndim, self._schema.dtype)

    def _between(self, start: int, stop: int) -> list[int]:
        if not self._schema.ndim:
            return list(range(len(self._result.parts)))
        ends = zip(self._result.low, self._result.high, strict=True)
        return [at for at, (low, high) in enumerate(ends) if low < stop and start <= high]

    def _panels(self, right: Operand, spool: Spool) -> tuple[list[Aside], list[tuple[int, int]]]:
        """Write the operand that is multiplied by rows, panel by panel; return the first and the last row of each."""
        size = _panel_size()
        panels: list[Aside] = []
        held = size
        for block in read_in_order(right):
            start = 0
            while start < block.count:
                if held == size:
                    panels.append(Aside(spool))
                    held = 0
                part = block.take(slice(start, start + size - held))
                panels[-1].append(part)
                held += part.count
                start += part.count
        memory.trim()
        return panels, [(panel.low[0], panel.high[-1]) for panel in panels]

    def _shares(
        self, left: Operand, matched: Sequence[int], bounds: Sequence[tuple[int, int]], spool: Spool
    ) -> list[Aside]:
        """Write what each panel is multiplied with."""
        if not matched:
            everything = Aside(spool)
            for block in read_in_order(left):
                everything.append(block)
            memory.trim()
            return [everything] * len(bounds)
        shares = [Aside(spool) for _ in bounds]
        for block in read_in_order(left):
            (column,) = left.columns(block, tuple(matched[:1]))
            for share, (low, high) in zip(shares, bounds, strict=True):
                part = block.take((column >= low) & (column <= high))
                if part.count:
                    share.append(part)
        memory.trim()
        return shares

    def _gather(self, work: Multiplication, panels: Sequence[Aside], shares: Sequence[Aside]) -> None:
        """Multiply panel by panel, and add up."""
        schema = self._schema
        sorter = Sorter(
            max(schema.ndim, 1), work.operands.dtype, weighted=True, duplicates=_RULES[work.node.semiring.add]
        )
        threads, size = settings.current().threads, min(_BATCH, max(_panel_size() // 2, _LEAST))
        most = min(_PRODUCTS, max(memory.limit() // _SMALLEST, _LEAST))

        def multiplied(panel: Aside, share: Aside, advance: Any) -> Iterator[Any]:
            memory.trim()  # of what the panel before took
            with work.reserved() as room:
                block = panel.together()
                room.grow(block.nbytes)
                held = Held(work.operands, block, room)
                del block
                multiply = Loops(work.operands, held, partial=True).work
                for batch in share.batches(size):
                    rows = held.rows(batch, work.wanted)
                    mask = work.cells_at(held, rows)

                    def sums(span: tuple[int, int], rows: OperandRows = rows, mask: MaskRows | None = mask) -> Any:
                        found, _ = multiply(rows, mask, *span)
                        return sorter.prepare(Rows(found.coords or (np.zeros(found.count, np.int32),), found.values))

                    yield from ordered_map(sums, rows.spans(most), threads)
                    advance(batch.count)

        try:
            total = sum(sum(share.counts()) for share in shares)
            with progress.bar("multiplying panels", total, "entries") as advance:
                pairs = zip(panels, shares, strict=True)
                sorter.consume(itertools.chain.from_iterable(multiplied(*pair, advance) for pair in pairs))
            memory.trim()
            kinds = [schema.coordinate_dtype(axis) for axis in range(schema.ndim)] or [np.dtype(np.int32)]
            with progress.bar("adding up panels", sorter.count, "entries") as advance:
                for block in sorter.blocks(kinds, work.operands.dtype.type(schema.fill_value)):
                    found, _ = work.operands.finished(block.coords[: schema.ndim], block.values)
                    if found.count:
                        self._result.append(found)
                    advance(block.count)
        finally:
            sorter.close()
            memory.trim()
