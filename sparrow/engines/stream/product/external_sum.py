"""Products of operands that memory does not hold and no rows divide: both are read side by side, and sums added up.

Both are read once, in the order of the matched letters: of the one that is multiplied by rows so much at a time as
memory holds, a panel, and of the other one what matches it, batch by batch. What a batch gives are sums of its own,
which a sort that spills brings together and adds up in their order. The result stays on disk and is read from there.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.operator import range_slice
from sparrow.engines.stream.product.kernels import Loops
from sparrow.engines.stream.product.layouts import Held
from sparrow.engines.stream.product.operands import Operand
from sparrow.engines.stream.product.tiling import joined
from sparrow.kernels.coo import Block, Duplicates, concat_blocks, sort_block
from sparrow.plan import Semiring
from sparrow.runtime import memory, progress, settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.sorting import Rows, SpilledBlocks, SpillFile
from sparrow.sorting.sorter import Sorter

if TYPE_CHECKING:
    from sparrow.engines.stream.product.matmul import Multiplication

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
    return max(memory.working_bytes() // (_HELD * _ENTRY_BYTES), _LEAST)


class Summed:
    """The entries of a product, computed panel by panel, on disk.

    Parameters
    ----------
    work
        The product.
    """

    def __init__(self, work: Multiplication) -> None:
        self._schema = work.schema
        self._result = SpilledBlocks(SpillFile())
        weakref.finalize(self, self._result.spool.close)
        sorter = Sorter(
            max(self._schema.ndim, 1), work.operands.dtype, weighted=True, duplicates=_RULES[work.node.semiring.add]
        )
        try:
            sorter.consume(_sums(work, sorter))
            memory.trim()
            self._gather(work, sorter)
        finally:
            sorter.close()
            memory.trim()

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
            found.append(block.take(range_slice(block.coords[0], start, stop)) if block.coords else block)
        return concat_blocks(found, self._schema.ndim, self._schema.dtype)

    def _between(self, start: int, stop: int) -> list[int]:
        if not self._schema.ndim:
            return list(range(len(self._result.parts)))
        ends = zip(self._result.low, self._result.high, strict=True)
        return [at for at, (low, high) in enumerate(ends) if low < stop and start <= high]

    def _gather(self, work: Multiplication, sorter: Sorter) -> None:
        """Add up, and write the result."""
        schema = self._schema
        kinds = [schema.coordinate_dtype(axis) for axis in range(schema.ndim)] or [np.dtype(np.int32)]
        with progress.bar("adding up panels", sorter.count, "entries") as advance:
            for block in sorter.blocks(kinds, None if work.node.keep_fill else work.operands.left_out):
                found, _ = work.operands.finished(block.coords[: schema.ndim], block.values)
                if found.count:
                    self._result.append(found)
                advance(block.count)


def _sums(work: Multiplication, sorter: Sorter) -> Iterator[Any]:
    """Yield the products of each panel with batches of what matches it, as the sorter takes them."""
    operands, threads = work.operands, settings.current().threads
    left, right, (rows, matched) = operands.left, operands.right, (operands.roles.rows, operands.roles.matched)
    source = Operand(left.scan, left.indices, (*matched, *rows))
    own = [source.indices.index(letter) for letter in left.indices]
    shape = [left.sizes[letter] for letter in left.indices]
    size, spool = _panel_size(), SpillFile()
    batch = min(_BATCH, max(size // 2, _LEAST))
    most = min(_PRODUCTS, max(memory.limit() // _SMALLEST, _LEAST))
    matching = _Matching(source, matched[:1], batch, spool)
    try:
        with progress.bar("multiplying panels", left.rows + right.rows, "entries") as advance:
            for panel in _of_size(right, size):
                count = panel.count
                with work.reserved() as room:
                    room.grow(panel.nbytes)
                    low, high = _key(right, matched[:1], panel)[[0, -1]].tolist()
                    held = Held(operands, panel, room)
                    del panel
                    multiply = Loops(operands, held, partial=True).work

                    def sums(block: Block, held: Held = held, multiply: Any = multiply) -> list[Any]:
                        if source.indices != left.indices:
                            block = sort_block(Block(tuple(block.coords[axis] for axis in own), block.values), shape)
                        found = held.rows(block, work.wanted)
                        mask = work.cells_at(held, found)
                        parts = [multiply(found, mask, *span)[0] for span in found.spans(most)]
                        return [sorter.prepare(Rows(p.coords or (_one_cell(p.count),), p.values)) for p in parts]

                    yield from itertools.chain.from_iterable(
                        ordered_map(sums, matching.between(low, high, advance), threads)
                    )
                    del held, multiply, sums
                advance(count)
                memory.trim()
    finally:
        spool.close()


def _one_cell(count: int) -> NDArray[np.int32]:
    """Return the coordinates of sums that have none, for the sorter."""
    return np.zeros(count, np.int32)


def _of_size(operand: Operand, size: int) -> Iterator[Block]:
    """Yield the entries of an operand, sorted, so many at a time."""
    waiting: list[Block] = []
    room = size
    for block in map(operand.cleaned, scan_reader.sorted_blocks(operand.scan)):
        start = 0
        while start < block.count:
            waiting.append(block.take(slice(start, start + room)))
            start, room = start + waiting[-1].count, room - waiting[-1].count
            if not room:
                yield joined(waiting)
                waiting, room = [], size
    if waiting:
        yield joined(waiting)


def _key(operand: Operand, letter: tuple[int, ...], block: Block) -> NDArray[Any]:
    """Return the coordinates along a letter; without one all entries match."""
    return operand.columns(block, letter)[0] if letter else _one_cell(block.count)


class _Matching:
    """Entries of an operand, in the order of a letter, that lie between bounds: both ascend from call to call.

    Those at the upper bound are put aside, for they may be asked for again.
    """

    def __init__(self, operand: Operand, letter: tuple[int, ...], size: int, spool: SpillFile) -> None:
        self._operand, self._letter, self._blocks = operand, letter, _of_size(operand, size)
        self._rest = next(self._blocks, None)
        self._spool, self._at, self._again = spool, -1, SpilledBlocks(spool)

    def between(self, low: int, high: int, advance: Callable[[int], None]) -> Iterator[Block]:
        """Yield the entries from one bound to the other one, both included."""
        if self._at == low:
            yield from map(self._again.read, range(len(self._again.parts)))
        if self._at != high:
            self._at, self._again = high, SpilledBlocks(self._spool)
        while self._rest is not None:
            key = _key(self._operand, self._letter, self._rest)
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
