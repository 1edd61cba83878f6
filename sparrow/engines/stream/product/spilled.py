"""Products of an operand that memory does not hold, on disk: part by part of it.

Both operands are read once and put aside on disk: the one that is multiplied by rows in parts that memory holds, the
other one in stretches of whole rows. Each part is multiplied with all stretches, what comes out is put aside row by
row, and brought together when it is read.

A part is a panel, some of the matched coordinates, or a strip, some of the columns. Each entry of the other operand
meets one panel, but every strip; sums of panels have to be added up, while columns of a strip are no other strip's: a
row of the result is those of all strips, one behind the other, whatever the semiring, with the bits that it has where
the operand is held whole. So strips it is where rows are long.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.stream.operator import range_slice
from sparrow.engines.stream.product import tiling
from sparrow.engines.stream.product.combine import Adding, Given, side_by_side
from sparrow.engines.stream.product.kernels import Loops
from sparrow.engines.stream.product.layouts import Held
from sparrow.engines.stream.product.tiling import Stretch
from sparrow.kernels.coo import Block, canonicalize, concat_blocks
from sparrow.runtime import memory, progress, settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.sorting import Segment, SpilledBlocks, SpillFile

if TYPE_CHECKING:
    from sparrow.engines.stream.product.matmul import Multiplication
    from sparrow.engines.stream.product.operands import MaskRows, OperandRows

__all__ = ["Spilled", "spilled"]

_LONG = 4
"""Entries of a row in each strip from which going through all strips costs less than sums do."""
_MOST = 64
"""Strips beyond which going through the other operand for each of them takes too long."""
_PIECE = 10
"""Of the memory limit in bytes, one part of two to this are the entries computed, and read of the result, at a time."""


@dataclass(frozen=True, slots=True)
class _Part:
    """What a part gives for a stretch: of each row how many entries, and these, some rows at a time."""

    counts: Segment
    entries: tuple[tuple[Segment, ...], ...]
    total: int


class Spilled:
    """The entries of a product, computed part by part, on disk.

    Parameters
    ----------
    work
        The product.
    parts
        Those of the operand that is held.
    bounds
        The first matched coordinates of all panels but the first; None of strips.
    stretches
        The other operand; the coordinates of rows are in ``spool``.
    spool
        Where the result goes; closed with it.
    """

    def __init__(
        self, work: Multiplication, parts: list[SpilledBlocks], bounds: Any, stretches: list[Stretch], spool: SpillFile
    ) -> None:
        self._operands, self._node, self._schema = work.operands, work.node, work.schema
        self._spool, self._stretches = spool, stretches
        weakref.finalize(self, spool.close)
        self._parts: list[list[_Part]] = [[] for _ in stretches]
        self._join: Callable[[list[Given]], Given] = side_by_side
        if bounds is not None:
            self._join = Adding(work.node, work.operands.roles.columns, work.operands.left_out)
        self._multiply(work, parts, bounds)
        self._bounds, self._before = self._pieces()

    def cuts(self) -> list[int]:
        """Return bounds along the leading dimension between which there is about so much as is read at a time."""
        size = self._schema.shape[0]
        return [0, *(int(bound) for bound in self._bounds if bound), size] if size else [0]

    def most(self, start: int, stop: int) -> int:
        """Return how many entries there are at most between two bounds along the leading dimension."""
        first, last = np.searchsorted(self._bounds, start, "right") - 1, np.searchsorted(self._bounds, stop)
        return int(self._before[last] - self._before[first])

    def between(self, start: int, stop: int) -> Block:
        """Return the entries between two bounds along the leading dimension."""
        operands, schema = self._operands, self._schema
        found = [
            self._joined(at, start, stop)
            for at, stretch in enumerate(self._stretches)
            if stretch.low < stop and start <= stretch.high
        ]
        block = concat_blocks(found, schema.ndim, operands.dtype)
        block, _ = operands.finished(block.coords, block.values)
        if not operands.in_order and block.count:
            block = canonicalize(block, schema.shape, None, keep_fill=True)
        return block

    def _multiply(self, work: Multiplication, parts: list[SpilledBlocks], bounds: Any) -> None:
        """Multiply each part with all stretches."""
        threads, shares = settings.current().threads, [[s.count(k) for s in self._stretches] for k in range(len(parts))]
        with progress.bar("multiplying part by part", sum(map(sum, shares)), "entries") as advance:
            for number, (part, counts) in enumerate(zip(parts, shares, strict=True)):
                room = work.reserved()
                block = part.together()
                room.grow(block.nbytes)
                between = None
                if bounds is not None:
                    between = _between(bounds, number, work.operands.right.sizes[work.operands.roles.matched[0]])
                held = Held(work.operands, block, room, between)
                del block
                loops = Loops(work.operands, held)

                def product(at: int, number: int = number, held: Held = held, loops: Loops = loops) -> _Part:
                    stretch = self._stretches[at]
                    numbers, entries = stretch.read(number)
                    rows = held.rows(entries)
                    lengths = np.zeros(stretch.rows[0].count, np.int32)
                    at_rows = slice(None) if numbers is None else numbers[rows.pointers[:-1]]
                    lengths[at_rows], found, total = self._product(rows, work.cells_at(held, rows), loops)
                    return _Part(self._spool.append(lengths), found, total)

                wanted = [at for at, count in enumerate(counts) if count]
                for at, found in zip(wanted, ordered_map(product, wanted, threads), strict=True):
                    if found.total:
                        self._parts[at].append(found)
                    advance(counts[at])
                del held, loops, product
                room.release()
                memory.trim()

    def _product(
        self, rows: OperandRows, mask: MaskRows | None, loops: Loops
    ) -> tuple[NDArray[np.int32], tuple[tuple[Segment, ...], ...], int]:
        """Multiply a part with rows; return how many entries each gives, where they are, and their number."""
        lengths = np.zeros(len(rows.pointers) - 1, np.int32)
        entries, total = [], 0
        for first, last in rows.spans(tiling.size_of(_PIECE)):
            pointers, columns, values = loops.by_letters(rows, mask, first, last)
            lengths[first:last] = np.diff(pointers)
            if len(values):
                entries.append(tuple(map(self._spool.append, (*columns, values))))
                total += len(values)
        return lengths, tuple(entries), total

    def _pieces(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where pieces of about one size begin along the leading dimension, and the entries before each."""
        size = tiling.size_of(_PIECE)
        bounds, before, done = [0], [0], 0
        for at, parts in enumerate(self._parts):
            total = sum(part.total for part in parts)
            if not total:
                continue
            if done > before[-1] and done + total > before[-1] + size:
                bounds.append(self._stretches[at].low)
                before.append(done)
            if total > size:
                leading = self._read(self._stretches[at].rows[0])
                ends: NDArray[np.int64] = done + np.cumsum(
                    np.add.reduce([self._read(part.counts) for part in parts], dtype=np.int64)
                )
                rows = np.searchsorted(ends, np.arange(done + size, done + total, size), "right")
                for row in np.unique(np.searchsorted(leading, leading[rows])).tolist():
                    if row:
                        bounds.append(int(leading[row]))
                        before.append(int(ends[row - 1]))
            done += total
        return np.array(bounds, np.int64), np.array([*before, done], np.int64)

    def _joined(self, at: int, start: int, stop: int) -> Block:
        """Return the entries that all parts gave for those rows of a stretch that lie between two bounds."""
        from sparrow.kernels.rows import repeat_rows

        operands, schema, node = self._operands, self._schema, self._node
        coords = [self._read(segment) for segment in self._stretches[at].rows]
        own = range_slice(coords[0], start, stop)
        given: list[Given] = []
        for part in self._parts[at]:
            lengths = self._read(part.counts)
            first, pointers = int(lengths[: own.start].sum(dtype=np.int64)), _pointers(lengths[own])
            if pointers[-1]:
                given.append((pointers, self._some(part, first, first + int(pointers[-1]))))
        if not given:
            return concat_blocks([], schema.ndim, operands.dtype)
        pointers, (*columns, values) = self._join(given)
        found: dict[int, NDArray[Any]] = dict(zip(operands.roles.columns, columns, strict=True))
        for letter, column in zip(operands.roles.rows, coords, strict=True):
            found[letter] = np.empty(len(values), schema.coordinate_dtype(node.output_indices.index(letter)))
            repeat_rows(column[own], pointers, found[letter])
        return Block(tuple(found[letter] for letter in node.output_indices), values)

    def _some(self, part: _Part, start: int, stop: int) -> list[NDArray[Any]]:
        """Return the arrays of some of the entries of a part."""
        out = [np.empty(stop - start, segment.dtype) for segment in part.entries[0]]
        done = 0
        for segments in part.entries:
            first, last = max(start - done, 0), min(stop - done, segments[0].count)
            if first < last:
                to = done + first - start
                for segment, array in zip(segments, out, strict=True):
                    self._spool.read(segment, first, last, array[to : to + last - first])
            done += segments[0].count
        return out

    def _read(self, segment: Segment) -> NDArray[Any]:
        return self._spool.read(segment, 0, segment.count)


def spilled(work: Multiplication, left: SpilledBlocks, right: SpilledBlocks | None, adds_up: bool) -> Spilled | None:
    """Return a product computed part by part; None where its operands cannot be cut.

    They cannot where there are neither rows nor columns to tell stretches and strips apart, and where a few rows or
    columns hold nearly everything.

    Parameters
    ----------
    work
        The product.
    left, right
        Its operands, put aside; None of that which is held where a row of it is too long.
    adds_up
        Whether sums of panels can be added up.
    """
    operands = work.operands
    held, roles = operands.right, operands.roles
    number = -(-held.rows * operands.width // tiling.room_of_part())
    rows = min(held.rows, math.prod(held.sizes[letter] for letter in roles.matched))
    long = held.rows >= _LONG * number * rows
    bounds = None
    parts: list[SpilledBlocks] | None = None
    if right is not None and roles.matched and adds_up and not (roles.columns and long):
        parts, bounds = tiling.panels(operands, right)
    elif roles.columns and number <= _MOST:
        parts = tiling.strips(operands, right, left.spool)
    if parts is None:
        return None
    memory.trim()
    result = SpillFile()
    try:
        stretches = tiling.stretches(operands, left, result, bounds)
        memory.trim()
        return Spilled(work, parts, bounds, stretches, result)
    except BaseException:
        result.close()
        raise


def _between(bounds: NDArray[np.int64], number: int, size: int) -> tuple[int, int]:
    """Return the matched coordinates between which those of a panel lie."""
    edges = [0, *bounds.tolist(), size]
    return edges[number], edges[number + 1]


def _pointers(lengths: NDArray[Any]) -> NDArray[np.int64]:
    out = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=out[1:])
    return out
