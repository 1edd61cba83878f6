"""Products of an operand that memory does not hold, section by section of the rows of the other one.

Both operands are put aside on disk. The operand of rows is cut into sections, each as long as memory holds the rows
that it multiplies of the other one: those are read from disk, and the loop in memory gives the rows of the result, in
their order, with the bits that they have where all of it is held. Nothing that is computed is put aside.

Where rows that stand together multiply the same ones, as those of a web graph do, few sections read little more than
the operand has; where they multiply any, so much may be read again and again that to put results aside takes less.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparrow import memory
from sparrow.engines.stream.computed import range_of
from sparrow.engines.stream.cutting import Aside
from sparrow.engines.stream.held import Held
from sparrow.engines.stream.loops import Loops
from sparrow.kernels.compiling import readonly
from sparrow.kernels.entries import Block
from sparrow.kernels.runs import group_starts
from sparrow.sorting import Segment

if TYPE_CHECKING:
    from sparrow.engines.stream.contraction import Multiplication
    from sparrow.engines.stream.operands import OperandRows

__all__ = ["Sections", "sections"]

T = TypeVar("T")

_HELD = 2
"""Of the memory to work in, one part for what a section multiplies."""
_POINTERS = 4
"""Of that, one part at most for where its rows begin."""
_AGAIN = 4
"""Entries that may be read for each product: more take longer than to put results aside."""
_UNEVEN = 2
"""How many times more than its room a section of one row may take."""
_ON_ITS_WAY = 0.02
"""Seconds that a thread waits for one that was given a piece before its own, and may not have begun."""
_PIECE = 9
"""Of the memory limit in bytes, one part of two to this are the products of a piece."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """Rows that are computed at a time: entries of a block of the operand of rows."""

    section: int
    block: int
    first: int
    last: int
    low: int
    high: int
    products: int


class Sections:
    """The rows of a product, computed with what is held for a section of them at a time.

    Parameters
    ----------
    work
        The product.
    left, right
        Its operands, put aside; the spool is closed with this.
    starts
        Where the rows of the right one begin among its entries.
    needs
        The rows that each section multiplies, in that spool.
    pieces
        Those of all sections.
    most
        The entries of the right one that a section multiplies, at most.
    """

    def __init__(
        self,
        work: Multiplication,
        left: Aside,
        right: Aside,
        starts: NDArray[np.int64],
        needs: list[Segment],
        pieces: list[_Piece],
        most: int,
    ) -> None:
        weakref.finalize(self, left.spool.close)
        self._operands, self._left, self._right = work.operands, left, right
        self._starts, self._needs, self._pieces = starts, needs, pieces
        self._low, self._high = (np.array([getattr(piece, end) for piece in pieces]) for end in ("low", "high"))
        self._before = np.cumsum([0, *(piece.products for piece in pieces)])
        self._counts = Counter(piece.section for piece in pieces)
        self._changed = threading.Condition()
        self._number, self._users, self._rest = -1, 0, 0
        """The section that something is held for, how many threads work with that, and how many pieces are to come."""
        self._held: tuple[Held, Loops] | None = None
        self._room = work.reserved()
        kinds = [segment.dtype for segment in right.parts[0]]
        self._alone = len(work.operands.roles.matched) == 1
        """Whether pointers say all of which row an entry is in: nobody looks at its leading coordinate then."""
        self._buffers = [np.empty(0 if self._alone else most, kinds[0]), *(np.empty(most, kind) for kind in kinds[1:])]
        self._sources = [np.empty(max(right.counts()), kind) for kind in kinds[1:]]

    def cuts(self) -> list[int]:
        """Return bounds along the leading dimension between which a piece lies."""
        size = self._operands.node.schema.shape[0]
        return [0, *dict.fromkeys(piece.low for piece in self._pieces if piece.low), size] if size else [0]

    def most(self, start: int, stop: int) -> int:
        """Return how many entries there are at most between two bounds along the leading dimension."""
        first, last = self._between(start, stop)
        return int(self._before[last] - self._before[first])

    def each(self, start: int, stop: int, work: Callable[[Held, Loops, OperandRows], T]) -> list[T]:
        """Return what becomes of the rows between two bounds, piece by piece, with what is held for them."""
        return [self._at(self._pieces[at], start, stop, work) for at in range(*self._between(start, stop))]

    def _between(self, start: int, stop: int) -> tuple[int, int]:
        first = int(np.searchsorted(self._high, start))
        return first, max(int(np.searchsorted(self._low, stop)), first)

    def _at(self, piece: _Piece, start: int, stop: int, work: Callable[[Held, Loops, OperandRows], T]) -> T:
        """Return what becomes of the rows of a piece, those between two bounds."""
        with self._changed:
            waited = False
            while self._number != piece.section and (self._users or (self._rest > 0 and not waited)):
                waited = not self._users
                self._changed.wait(_ON_ITS_WAY if waited else None)
            if self._number != piece.section:
                self._load(piece.section)
            assert self._held is not None
            held, loops = self._held
            self._users += 1
        try:
            block = self._left.read(piece.block, piece.first, piece.last)
            if start > piece.low or stop <= piece.high:
                block = block.take(range_of(block.coords[0], start, stop))
            return work(held, loops, held.rows(block))
        finally:
            del held, loops
            with self._changed:
                self._users -= 1
                self._rest -= 1
                self._changed.notify_all()

    def _load(self, number: int) -> None:
        """Read what a section multiplies, into arrays that hold what any of them does."""
        from sparrow.kernels.rows import place_rows, repeat

        self._number, self._held = -1, None
        self._room.release()
        right, operands, needs = self._right, self._operands, self._needs[number]
        rows = right.spool.read(needs, 0, needs.count)
        starts, stops = self._starts[rows], self._starts[rows + 1]
        pointers = np.zeros(len(self._starts) + 1, np.int64)
        pointers[rows + 1] = stops - starts
        np.cumsum(pointers, out=pointers)
        begins, count = pointers[rows], int(pointers[-1])
        leading, *arrays = (buffer[:count] for buffer in self._buffers)
        for at, (first, last) in enumerate(_of_blocks(right, rows).tolist()):
            own, offset = slice(first, last), self._starts[right.low[at]]
            if not (stops[own] > starts[own]).any():
                continue
            moves = starts[own] - offset, stops[own] - offset, begins[own]
            for segment, array, source in zip(right.parts[at][1:], arrays, self._sources, strict=True):
                right.spool.read(segment, 0, segment.count, source[: segment.count])
                place_rows(*moves, source, array)
        if not self._alone:
            repeat(rows, np.append(begins, count), leading)
        *coords, values = leading, *arrays
        block = Block(tuple(coords), values)
        self._room.grow(block.nbytes)
        held = Held(operands, block, self._room, starts=pointers if self._alone else None)
        self._held = held, Loops(operands, held)
        self._number, self._rest = number, self._counts[number]


def sections(work: Multiplication, left: Aside, right: Aside) -> Sections | None:
    """Return a product computed section by section; None where that reads too much.

    Parameters
    ----------
    work
        The product.
    left, right
        Its operands, put aside; their spool is closed with what is returned.
    """
    from sparrow.kernels.sections import section_end

    operands = work.operands
    held, matched = operands.right, operands.roles.matched
    if not matched or not left.parts or not right.parts:
        return None
    size = held.sizes[matched[0]]
    width = held.width(operands.dtype)
    if len(matched) == 1:
        width -= right.parts[0][0].dtype.itemsize  # pointers say which row an entry is in
    most = _most(size, width)
    if not most:
        return None
    starts = _starts(right, size)
    lengths = readonly(np.diff(starts).astype(np.int32))
    axis, counts = operands.left.letters.index(matched[0]), np.array(right.counts())
    marks, state = np.full(size, -1, np.int32), np.array([-1, 0, 0])
    needs: list[Segment] = []
    pieces: list[_Piece] = []
    products = read = longest = 0

    def closed(end: int) -> bool:
        """Put aside what a section multiplies, that ends before a row; return whether it may be had so."""
        nonlocal read, longest
        rows = np.flatnonzero((marks >= state[1]) & (marks < end)).astype(np.int32)
        needs.append(left.spool.append(rows))
        first, last = _of_blocks(right, rows).T
        read += int(counts[first < last].sum())
        longest = max(longest, int(lengths[rows].sum(dtype=np.int64)))
        fits = longest <= _UNEVEN * most and read <= _AGAIN * (products + counts.sum())
        state[1], state[2] = state[0] + 1, 0
        return bool(fits)

    for at in range(len(left.parts)):
        leading, keys = left.column(at, 0), left.column(at, axis)
        bounds = np.append(group_starts((leading,), len(leading)), len(leading))
        own, row = np.empty(len(bounds) - 1, np.int64), 0
        while row < len(own):
            stop = section_end(
                readonly(bounds), readonly(keys.astype(np.int32, copy=False)), lengths, most, row, marks,
                state, own,
            )  # fmt: skip
            done = np.append(0, np.cumsum(own[row:stop]))
            for first, last in _cut(done, min(memory.limit() >> _PIECE, 1 << 20)):
                ends = int(bounds[row + first]), int(bounds[row + last])
                edges = int(leading[ends[0]]), int(leading[ends[1] - 1])
                pieces.append(_Piece(len(needs), at, *ends, *edges, int(done[last] - done[first])))
            products += int(done[-1])
            if stop < len(own) and not closed(int(state[0])):
                return None
            row = stop
    return Sections(work, left, right, starts, needs, pieces, longest) if closed(int(state[0]) + 1) else None


def _most(size: int, width: int) -> int:
    """Return how many entries of so many bytes a section may multiply, of so many rows; 0 where these take too much."""
    room, pointers = memory.working() / _HELD, 2 * 8 * size
    return 0 if pointers > room / _POINTERS or size >= 2**31 else int(room - pointers) // width


def _starts(right: Aside, size: int) -> NDArray[np.int64]:
    """Return where the rows begin of blocks of whole rows, and the number of their entries."""
    from sparrow.kernels.rows import pointers

    out, done = np.zeros(size + 1, np.int64), 0
    for at, (low, high, count) in enumerate(zip(right.low, right.high, right.counts(), strict=True)):
        out[low + 1 : high + 2] = done + pointers(right.column(at, 0), low, high + 1)[1:]
        done += count
    return np.maximum.accumulate(out, out=out)


def _of_blocks(right: Aside, rows: NDArray[Any]) -> NDArray[np.int64]:
    """Return between which of some rows those of each block are."""
    ends = np.searchsorted(rows, np.array([right.low, np.array(right.high) + 1], rows.dtype))
    return ends.T


def _cut(done: NDArray[np.int64], size: int) -> list[tuple[int, int]]:
    """Return stretches of about so many products, given those before each row."""
    at = np.searchsorted(done, np.arange(size, done[-1], size), "left")
    return list(itertools.pairwise(np.unique([0, *at, len(done) - 1]).tolist()))
