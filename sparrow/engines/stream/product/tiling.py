"""Operands of a product that memory does not hold, put aside on disk, and cut into parts that it holds.

The operand that is multiplied by rows is cut along the matched letter, into panels, or across it, into strips of its
columns. The other one is put aside in stretches of whole rows, which one part after the other is multiplied with.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.product.indexing import members
from sparrow.engines.stream.product.operands import Operand, Operands
from sparrow.kernels.coo import Block, concat_blocks, filter_block, row_pointers
from sparrow.kernels.runs import group_starts
from sparrow.runtime import memory, progress, settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.sorting import Segment, SpilledBlocks, SpillFile

__all__ = [
    "Stretch", "joined", "panels", "put_aside", "read_in_order", "room_of_part", "size_of", "stretches",
    "strips",
]  # fmt: skip

_HELD = 2
"""Of the memory to work in, one part for a panel or a strip."""
_NARROWEST = 1 << 20
"""The bytes that one takes at least."""
_UNEVEN = 2
"""How many times more than that one may take, where entries are uneven."""
_SAMPLED = 64
"""One entry of so many says where strips begin."""
_LONGEST = 16
"""Of the memory to work in, one part for a row of the other operand, which no stretch divides."""
_STRETCH = 11
"""Of the memory limit in bytes, one part of two to this is the number of entries of a stretch."""
_LEAST, _LARGEST = 1 << 14, 1 << 18
"""The fewest and the most entries that are dealt with at a time."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Whole rows of the operand of rows, in a spool."""

    spool: SpillFile
    rows: tuple[Segment, ...]
    """The coordinates of each row along the letters of rows, where the result is."""
    shares: tuple[tuple[Segment, ...] | None, ...]
    """The entries that each panel is multiplied with: the number of the row, coordinates, and the value of each. For
    strips there is one, without numbers, for all of them."""
    low: int
    """The first leading coordinate."""
    high: int

    def count(self, part: int) -> int:
        """Return how many entries a part is multiplied with."""
        share = self._share(part)
        return 0 if share is None else share[-1].count

    def read(self, part: int) -> tuple[NDArray[np.int32] | None, Block]:
        """Return the entries that a part is multiplied with, and in which row each is; None if all rows are there."""
        share = self._share(part)
        assert share is not None
        *coords, values = (self.spool.read(segment, 0, segment.count) for segment in share)
        return (None if len(self.shares) == 1 else coords.pop(0)), Block(tuple(coords), values)

    def _share(self, part: int) -> tuple[Segment, ...] | None:
        return self.shares[min(part, len(self.shares) - 1)]


def size_of(parts: int) -> int:
    """Return how many entries are dealt with at a time: one of two to so many of the bytes of the limit."""
    return min(max(memory.limit() >> parts, _LEAST), _LARGEST)


def room_of_part() -> int:
    """Return the bytes that a part takes: that depends on the limit alone, and so do the bits."""
    return max(memory.working_bytes() // _HELD, _NARROWEST)


def read_in_order(operand: Operand) -> Iterator[Block]:
    """Yield the entries of an operand, sorted."""
    with progress.bar("reading an operand", operand.rows, "entries") as advance:
        for block in scan_reader.sorted_blocks(operand.scan):
            advance(block.count)
            found = operand.cleaned(block)
            if found.count:
                yield found


def put_aside(
    operands: Operands, spool: SpillFile, wanted: NDArray[Any] | None
) -> tuple[SpilledBlocks | None, SpilledBlocks | None]:
    """Write both operands in blocks of whole rows, that of rows first; None of one of which a row is too long.

    Parameters
    ----------
    wanted
        The leading coordinates of the operand of rows that are, None if all of them.
    """
    left, right = operands.left, operands.right
    room = max(room_of_part() // operands.width, 1)
    same = wanted is None and left.same_as(right)
    size = min(size_of(_STRETCH), room) if same else size_of(_STRETCH)
    most = max(memory.working_bytes() // (_LONGEST * left.width(operands.dtype)), 2 * size)
    blocks = read_in_order(left)
    if wanted is not None:
        blocks = (filter_block(block, members(block.coords[0], wanted)) for block in blocks)
        blocks = (block for block in blocks if block.count)
    one = _aside(blocks, spool, size, most)
    memory.trim()
    if one is None or same:
        return one, one
    other = _aside(read_in_order(right), spool, min(room, size), _UNEVEN * room)
    memory.trim()
    return one, other


def _aside(blocks: Iterator[Block], spool: SpillFile, size: int, most: int) -> SpilledBlocks | None:
    """Write blocks of whole rows, of about so many entries; None where a row has more than ``most``."""
    out = SpilledBlocks(spool)
    for block in _whole_rows(blocks, size, most):
        if block.count > most:
            return None
        out.append(block)
    return out


def panels(operands: Operands, right: SpilledBlocks) -> tuple[list[SpilledBlocks], NDArray[Any]]:
    """Return the operand that is held in panels, each of whole rows, and the first of those of all but the first."""
    size = max(room_of_part() // operands.width, 1)
    out: list[SpilledBlocks] = []
    held = 0
    for at, count in enumerate(right.counts()):
        if not out or held + count > size + size // 8:
            out.append(SpilledBlocks(right.spool))
            held = 0
        out[-1].share(right, at)
        held += count
    return out, np.array([panel.low[0] for panel in out[1:]], np.int64)


def strips(operands: Operands, aside: SpilledBlocks | None, spool: SpillFile) -> list[SpilledBlocks] | None:
    """Write the operand that is held in strips of its columns; None where few columns hold too much of it.

    Parameters
    ----------
    aside
        The operand; None to read it.
    spool
        Where strips go.
    """
    right, columns = operands.right, operands.roles.columns
    if aside is None:
        aside = SpilledBlocks(spool)
        for block in read_in_order(right):
            aside.append(block)
    source = aside
    counts, room, each = source.counts(), room_of_part(), operands.width
    number = -(-sum(counts) * each // room)
    rng = np.random.default_rng(0)

    def sampled(at: int) -> NDArray[Any]:
        return _keys(right, columns, source.read(at).take(rng.integers(0, counts[at], -(-counts[at] // _SAMPLED))))

    keys = np.sort(np.concatenate([sampled(at) for at in range(len(counts))] or [np.empty(0, np.int64)]))
    bounds = np.unique(keys[[len(keys) * k // number for k in range(1, number)]])
    out = [SpilledBlocks(spool) for _ in range(len(bounds) + 1)]

    def routed(at: int) -> list[tuple[int, Block]]:
        block = source.read(at)
        return _routed(block, _keys(right, columns, block), bounds)

    for found in ordered_map(routed, range(len(counts)), settings.current().threads):
        for strip, block in found:
            out[strip].append(block)
    out = [strip for strip in out if strip.parts]
    return out if all(sum(strip.counts()) * each <= _UNEVEN * room for strip in out) else None


def stretches(
    operands: Operands, aside: SpilledBlocks, result: SpillFile, bounds: NDArray[Any] | None
) -> list[Stretch]:
    """Write the operand of rows in stretches.

    Parameters
    ----------
    aside
        The operand.
    result
        Where coordinates of rows go.
    bounds
        Of panels; None where all entries are multiplied with each part.
    """
    from sparrow.kernels.rows import repeat_rows

    left, roles = operands.left, operands.roles

    def written(at: int) -> Stretch:
        block = aside.read(at)
        rows = left.columns(block, roles.rows)
        starts = group_starts(rows, block.count)
        shares: list[tuple[Segment, ...] | None] = [aside.parts[at]]
        if bounds is not None and len(bounds):
            numbers = np.empty(block.count, np.int32)
            repeat_rows(np.arange(len(starts), dtype=np.int32), np.append(starts, block.count), numbers)
            (key,) = left.columns(block, roles.matched[:1])
            shares = [None] * (len(bounds) + 1)
            for number, share in _routed(Block((numbers, *block.coords), block.values), key, bounds):
                shares[number] = tuple(map(aside.spool.append, (*share.coords, share.values)))
        own = tuple(result.append(column[starts]) for column in rows)
        return Stretch(aside.spool, own, tuple(shares), aside.low[at], aside.high[at])

    return list(ordered_map(written, range(len(aside.parts)), settings.current().threads))


def _whole_rows(blocks: Iterator[Block], size: int, most: int) -> Iterator[Block]:
    """Yield sorted entries in blocks of about so many, none of which ends within a leading coordinate.

    The last block is longer than ``most`` where a row is, of which no more is read.
    """
    rest: list[Block] = []
    held = 0
    for block in blocks:
        leading, start = block.coords[0], 0
        while start + size - held < block.count:
            if held < size:
                row = leading[start + size - held]
                stop = int(np.searchsorted(leading, row))
                if stop <= start:
                    stop = int(np.searchsorted(leading, row, "right"))
            else:
                stop = int(np.searchsorted(leading, rest[-1].coords[0][-1], "right"))
            if stop == block.count:
                break  # the last row may go on
            if start < stop:
                rest.append(block.take(slice(start, stop)))
            yield joined(rest)
            rest, held, start = [], 0, stop
        rest.append(block.take(slice(start, None)))
        held += rest[-1].count
        if held > most + size:  # with fewer than ``size`` entries of rows before
            break
    if rest:
        yield joined(rest)


def joined(blocks: Sequence[Block]) -> Block:
    """Return the entries of some blocks, of which there is one at least, as one."""
    return concat_blocks(blocks, len(blocks[0].coords), blocks[0].values.dtype)


def _routed(block: Block, keys: NDArray[Any], bounds: NDArray[Any]) -> list[tuple[int, Block]]:
    """Return the entries of each part, in their order, of those that have some; bounds lie between parts."""
    from sparrow.kernels.rows import counting_sort

    if not len(bounds):
        return [(0, block)]
    part = np.searchsorted(bounds.astype(keys.dtype, copy=False), keys, "right")
    begins = row_pointers(part, len(bounds) + 1)
    scatter: Callable[[NDArray[Any]], NDArray[Any]] = lambda column: counting_sort(part, begins, column)  # noqa: E731
    values = block.values
    values = scatter(values) if values.itemsize <= 8 else values.take(scatter(np.arange(block.count)))
    together = Block(tuple(map(scatter, block.coords)), values)
    spans = enumerate(itertools.pairwise(begins.tolist()))
    return [(number, together.take(slice(*span))) for number, span in spans if span[0] < span[1]]


def _keys(right: Operand, columns: tuple[int, ...], block: Block) -> NDArray[Any]:
    """Return one number for the coordinates of entries along letters, or along as many of them as 63 bits hold."""
    first, *others = right.columns(block, columns)
    key, cells = first, right.sizes[columns[0]]
    for letter, column in zip(columns[1:], others, strict=True):
        cells *= right.sizes[letter]
        if cells >= 2**63:
            break
        key = key.astype(np.int64) * right.sizes[letter] + column
    return key
