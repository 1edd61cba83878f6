"""Entries of operands of a product, put aside on disk as they are read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from sparrow import progress
from sparrow.engines.stream import reading
from sparrow.kernels.entries import Block, concatenate
from sparrow.sorting import Segment, Spool

if TYPE_CHECKING:
    from sparrow.engines.stream.operands import Operand

__all__ = ["Aside", "read_in_order", "whole_rows"]


@dataclass(slots=True)
class Aside:
    """Blocks of entries in a spool."""

    spool: Spool
    parts: list[tuple[Segment, ...]] = field(default_factory=list)
    low: list[int] = field(default_factory=list)
    """The first leading coordinate of each block."""
    high: list[int] = field(default_factory=list)

    def append(self, block: Block) -> None:
        """Write a block."""
        self.parts.append(tuple(map(self.spool.append, (*block.coords, block.values))))
        if block.coords:
            self.low.append(int(block.coords[0][0]))
            self.high.append(int(block.coords[0][-1]))

    def counts(self) -> list[int]:
        """Return the number of entries of each block."""
        return [part[-1].count for part in self.parts]

    def read(self, at: int) -> Block:
        """Return a block."""
        *coords, values = (self.spool.read(segment, 0, segment.count) for segment in self.parts[at])
        return Block(tuple(coords), values)

    def together(self) -> Block:
        """Return all entries as one block, held once."""
        columns = list(zip(*self.parts, strict=True))
        arrays = [np.empty(sum(segment.count for segment in column), column[0].dtype) for column in columns]
        for array, column in zip(arrays, columns, strict=True):
            start = 0
            for segment in column:
                self.spool.read(segment, 0, segment.count, array[start : start + segment.count])
                start += segment.count
        return Block(tuple(arrays[:-1]), arrays[-1])

    def batches(self, size: int) -> Iterator[Block]:
        """Yield the entries, some blocks at a time."""
        waiting: list[Block] = []
        for at in range(len(self.parts)):
            waiting.append(self.read(at))
            if sum(block.count for block in waiting) >= size or at == len(self.parts) - 1:
                yield concatenate(waiting, len(waiting[0].coords), waiting[0].values.dtype)
                waiting = []


def read_in_order(operand: Operand) -> Iterator[Block]:
    """Yield the entries of an operand, sorted."""
    with progress.bar("reading an operand", operand.rows, "entries") as advance:
        for block in reading.sorted_blocks(operand.scan):
            advance(block.count)
            found = operand.cleaned(block)
            if found.count:
                yield found


def whole_rows(blocks: Iterator[Block], size: int) -> Iterator[Block]:
    """Yield sorted entries in blocks of about so many, none of which ends within a leading coordinate."""
    rest: list[Block] = []
    for block in blocks:
        rest.append(block)
        if len(rest) > 1 and rest[-2].coords[0][-1] == block.coords[0][-1]:
            continue  # all of it in a row that may go on
        block = _joined(rest)
        leading = block.coords[0]
        start, last = 0, int(np.searchsorted(leading, leading[-1]))
        while last - start >= size:
            stop = int(np.searchsorted(leading, leading[start + size]))
            if stop == start:
                stop = int(np.searchsorted(leading, leading[start], "right"))
            yield block.take(slice(start, stop))
            start = stop
        rest = [block.take(slice(start, None))]
    if rest:
        yield _joined(rest)


def _joined(blocks: list[Block]) -> Block:
    return concatenate(blocks, len(blocks[0].coords), blocks[0].values.dtype)
