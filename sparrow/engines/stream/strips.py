"""Products of an operand that memory does not hold: strip by strip of its columns.

Both operands are read once and put aside on disk: the one that is multiplied by rows in strips, ranges of its columns
of so many entries, the other one in stretches of whole rows. A strip is held and multiplied with all stretches. The
columns that it gives are no other strip's, so nothing is added up across strips: a row of the result is those of all
strips, one behind the other, whatever the semiring, with the bits that it has where the operand is held whole. What
comes out is put aside row by row, and joined when it is read.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparrow import memory, progress, settings
from sparrow.engines.stream.aside import Aside, read_in_order, whole_rows
from sparrow.engines.stream.computed import range_of
from sparrow.engines.stream.held import Held
from sparrow.engines.stream.loops import Loops
from sparrow.kernels.entries import Block, canonical, concatenate
from sparrow.sorting import Segment, Spool
from sparrow.workers import ordered_map

if TYPE_CHECKING:
    from sparrow.engines.stream.contraction import Multiplication
    from sparrow.engines.stream.operands import MaskRows, Operand, OperandRows

__all__ = ["Strips", "in_strips"]

_HELD = 2
"""Of the memory to work in, one part for a strip."""
_UNEVEN = 2
"""How many times more than that a strip may take, where columns are uneven."""
_NARROWEST = 1 << 20
"""The bytes that a strip takes at least."""
_MOST = 64
"""Strips beyond which going through the other operand for each of them takes too long."""
_SAMPLED = 64
"""One entry of so many says where strips begin."""
_STRETCH = 11
"""Of the memory limit in bytes, one part of two to this is the number of entries of a stretch."""
_PIECE = 10
"""The same of what is computed, and of what is read of the result, at a time."""
_LEAST, _LARGEST = 1 << 14, 1 << 18
"""The fewest and the most of either."""
_LONGEST = 16
"""Of the memory to work in, one part for a row of the other operand, which no stretch divides."""


@dataclass(frozen=True, slots=True)
class _Part:
    """What a strip gives for a stretch: of each row how many entries, and these, some rows at a time."""

    counts: Segment
    entries: tuple[tuple[Segment, ...], ...]
    total: int


class Strips:
    """The entries of a product, computed strip by strip, on disk.

    Parameters
    ----------
    work
        The product.
    strips
        The operand that is held, strip by strip.
    stretches
        The other one.
    """

    def __init__(self, work: Multiplication, strips: list[Aside], stretches: Aside) -> None:
        self._operands, self._node, self._schema = work.operands, work.node, work.schema
        self._spool = Spool()
        weakref.finalize(self, self._spool.close)
        self._rows: list[tuple[Segment, ...]] = []
        """The coordinates of the rows of each stretch."""
        self._parts: list[list[_Part]] = [[] for _ in stretches.parts]
        self._low, self._high = stretches.low, stretches.high
        try:
            self._multiply(work, strips, stretches)
            self._bounds, self._before = self._pieces()
        except BaseException:
            self._spool.close()
            raise

    def cuts(self) -> list[int]:
        """Return bounds along the leading dimension between which there is about so much as is read at a time."""
        size = self._schema.shape[0]
        return [0, *(int(bound) for bound in self._bounds if bound), size] if size else [0]

    def most(self, start: int, stop: int) -> int:
        """Return how many entries there are at most between two bounds along the leading dimension."""
        first = np.searchsorted(self._bounds, start, "right") - 1
        last = np.searchsorted(self._bounds, stop)
        return int(self._before[last] - self._before[max(first, 0)])

    def between(self, start: int, stop: int) -> Block:
        """Return the entries between two bounds along the leading dimension."""
        operands, schema = self._operands, self._schema
        found = [
            self._joined(at, start, stop)
            for at, (low, high) in enumerate(zip(self._low, self._high, strict=True))
            if low < stop and start <= high
        ]
        block = concatenate(found, schema.ndim, operands.dtype)
        block, _ = operands.finished(block.coords, block.values)
        if not operands.in_order and block.count:
            block = canonical(block, schema.shape, None, keep_fill=True)
        return block

    def _multiply(self, work: Multiplication, strips: list[Aside], stretches: Aside) -> None:
        """Multiply all strips with all stretches."""
        threads, counts = settings.current().threads, stretches.counts()
        with progress.bar("multiplying strips", sum(counts) * len(strips), "entries") as advance:
            for strip in strips:
                room = work.reserved()
                block = strip.together()
                room.grow(block.nbytes)
                held = Held(work.operands, block, room)
                del block
                loops = Loops(work.operands, held)

                def product(at: int, held: Held = held, loops: Loops = loops) -> tuple[Sequence[NDArray[Any]], _Part]:
                    rows, mask = work.laid_out(held, stretches.read(at))
                    return rows.coords, self._product(rows, mask, loops)

                for at, (rows, part) in enumerate(ordered_map(product, range(len(counts)), threads)):
                    if not self._parts[at]:
                        self._rows.append(tuple(map(self._spool.append, rows)))
                    self._parts[at].append(part)
                    advance(counts[at])
                del held, loops, product
                room.release()
                memory.trim()

    def _product(self, rows: OperandRows, mask: MaskRows | None, loops: Loops) -> _Part:
        """Multiply a strip with the rows of a stretch."""
        lengths = np.zeros(len(rows.pointers) - 1, np.int32)
        entries, total = [], 0
        for first, last in rows.spans(_size(_PIECE)):
            pointers, columns, values = loops.by_letters(rows, mask, first, last)
            lengths[first:last] = np.diff(pointers)
            if len(values):
                entries.append(tuple(map(self._spool.append, (*columns, values))))
                total += len(values)
        return _Part(self._spool.append(lengths), tuple(entries), total)

    def _pieces(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where pieces of about one size begin along the leading dimension, and the entries before each."""
        size = _size(_PIECE)
        bounds, before, done = [0], [0], 0
        for at, parts in enumerate(self._parts):
            total = sum(part.total for part in parts)
            if done > before[-1] and done + total > before[-1] + size:
                bounds.append(self._low[at])
                before.append(done)
            if total > size:
                leading = self._read(self._rows[at][0])
                ends = done + np.cumsum(sum(self._read(part.counts).astype(np.int64) for part in parts))
                rows = np.searchsorted(ends, np.arange(done + size, done + total, size), "right")
                for row in np.unique(np.searchsorted(leading, leading[rows])).tolist():
                    if row:
                        bounds.append(int(leading[row]))
                        before.append(int(ends[row - 1]))
            done += total
        return np.array(bounds, np.int64), np.array([*before, done], np.int64)

    def _joined(self, at: int, start: int, stop: int) -> Block:
        """Return the entries that all strips gave for those rows of a stretch that lie between two bounds."""
        from sparrow.kernels.rows import place_rows, repeat

        operands, schema, node = self._operands, self._schema, self._node
        coords = [self._read(segment) for segment in self._rows[at]]
        own = range_of(coords[0], start, stop)
        lengths = [self._read(part.counts) for part in self._parts[at]]
        begins = [int(each[: own.start].sum(dtype=np.int64)) for each in lengths]
        pointers = [_pointers(each[own]) for each in lengths]
        ends = np.add.reduce(pointers)
        kinds = [schema.coordinate_dtype(node.out.index(letter)) for letter in operands.roles.columns]
        arrays = [np.empty(int(ends[-1]), kind) for kind in (*kinds, operands.dtype)]
        places = ends[:-1].copy()
        for part, first, each in zip(self._parts[at], begins, pointers, strict=True):
            for number, array in enumerate(arrays):
                if each[-1]:
                    place_rows(each, places, self._some(part, number, first, first + int(each[-1])), array)
            places += each[1:] - each[:-1]
        found: dict[int, NDArray[Any]] = dict(zip(operands.roles.columns, arrays[:-1], strict=True))
        for letter, column in zip(operands.roles.rows, coords, strict=True):
            found[letter] = np.empty(len(arrays[-1]), schema.coordinate_dtype(node.out.index(letter)))
            repeat(column[own], ends, found[letter])
        return Block(tuple(found[letter] for letter in node.out), arrays[-1])

    def _some(self, part: _Part, number: int, start: int, stop: int) -> NDArray[Any]:
        """Return a column of some of the entries of a part."""
        segments = [each[number] for each in part.entries]
        out = np.empty(stop - start, segments[0].dtype)
        done = 0
        for segment in segments:
            first, last = max(start - done, 0), min(stop - done, segment.count)
            if first < last:
                to = done + first - start
                self._spool.read(segment, first, last, out[to : to + last - first])
            done += segment.count
        return out

    def _read(self, segment: Segment) -> NDArray[Any]:
        return self._spool.read(segment, 0, segment.count)


def in_strips(work: Multiplication) -> Strips | None:
    """Return a product computed in strips; None where the operand cannot be cut that way.

    It cannot where no letter is its alone, where a few of its columns hold nearly everything, and where a row of the
    other operand is too long.
    """
    operands = work.operands
    left, right, columns = operands.left, operands.right, operands.roles.columns
    if not operands.roles.rows or not columns:
        return None
    spool = Spool()
    try:
        same = left.same_as(right)
        aside = _aside(right, spool, whole=same)
        stretches = aside if same else _aside(left, spool, whole=True)
        memory.trim()
        most = max(memory.working() // (_LONGEST * _width(left, operands.dtype)), 2 * _size(_STRETCH))
        if max(stretches.counts(), default=0) > most:
            return None
        strips = _cut(right, columns, aside, spool, operands.dtype)
        memory.trim()
        return None if strips is None else Strips(work, strips, stretches)
    finally:
        spool.close()


def _aside(operand: Operand, spool: Spool, whole: bool) -> Aside:
    """Put the entries of an operand aside, in stretches of whole rows if they must be."""
    out, blocks = Aside(spool), read_in_order(operand)
    for block in whole_rows(blocks, _size(_STRETCH)) if whole else blocks:
        out.append(block)
    return out


def _cut(
    right: Operand, columns: tuple[int, ...], aside: Aside, spool: Spool, dtype: np.dtype[Any]
) -> list[Aside] | None:
    """Return the entries of the operand that is held in strips; None where they are too large or too many."""
    room = max(memory.working() // _HELD, _NARROWEST)
    counts = aside.counts()
    total = sum(counts)
    number = -(-total * _width(right, dtype) // room)
    rng = np.random.default_rng(0)

    def sampled(at: int) -> NDArray[Any]:
        return _keys(right, columns, aside.read(at).take(rng.integers(0, counts[at], -(-counts[at] // _SAMPLED))))

    keys = np.sort(np.concatenate([sampled(at) for at in range(len(counts))]))
    bounds = np.unique(keys[[len(keys) * k // number for k in range(1, number)]])
    strips = [Aside(spool) for _ in range(len(bounds) + 1)]

    def routed(at: int) -> list[tuple[int, Block]]:
        block = aside.read(at)
        return _routed(block, _keys(right, columns, block), bounds)

    for found in ordered_map(routed, range(len(counts)), settings.current().threads):
        for strip, block in found:
            strips[strip].append(block)
    strips = [strip for strip in strips if strip.parts]
    largest = max(sum(strip.counts()) for strip in strips) * _width(right, dtype)
    return strips if len(strips) <= _MOST and largest <= _UNEVEN * room else None


def _routed(block: Block, keys: NDArray[Any], bounds: NDArray[Any]) -> list[tuple[int, Block]]:
    """Return the entries of each strip, in their order, of those strips that have some."""
    from sparrow.kernels.entries import row_pointers
    from sparrow.kernels.rows import scattered

    if not len(bounds):
        return [(0, block)]
    strip = np.searchsorted(bounds, keys, "right")
    begins = row_pointers(strip, len(bounds) + 1)
    values = block.values
    if values.itemsize > 8:
        values = values.take(scattered(strip, begins, np.arange(block.count)))
    else:
        values = scattered(strip, begins, values)
    together = Block(tuple(scattered(strip, begins, column) for column in block.coords), values)
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


def _width(operand: Operand, dtype: np.dtype[Any]) -> int:
    """Return the bytes that an entry of an operand takes where it is held."""
    schema = operand.scan.schema
    return memory.entry_bytes(schema) + (dtype.itemsize if schema.dtype != dtype else 0)


def _size(parts: int) -> int:
    """Return how many entries are dealt with at a time: one of two to so many of the bytes of the limit."""
    return min(max(memory.limit() >> parts, _LEAST), _LARGEST)


def _pointers(lengths: NDArray[Any]) -> NDArray[np.int64]:
    out = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=out[1:])
    return out
