"""Products of an operand that memory does not hold, section by section of the rows of the other one.

Both operands are put aside on disk. The operand of rows is cut into sections, each as long as memory holds the rows
that it multiplies of the other one: those are read from disk, and the loop in memory gives the rows of the result, in
their order, with the bits that they have where all of it is held. Nothing that is computed is put aside.

Where rows that stand together multiply the same ones, as those of a web graph do, few sections read little more than
the operand has; where they multiply any, so much may be read again and again that to put results aside takes less.
"""

from __future__ import annotations

import itertools
import math
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.stream.operator import range_slice
from sparrow.engines.stream.product.kernels import Loops
from sparrow.engines.stream.product.layouts import Held
from sparrow.kernels.coo import Block
from sparrow.kernels.jit.warmup import as_readonly
from sparrow.kernels.runs import group_starts, run_lengths
from sparrow.runtime import memory, settings
from sparrow.sorting import Segment, SpilledBlocks

if TYPE_CHECKING:
    from sparrow.engines.stream.product.matmul import Multiplication
    from sparrow.engines.stream.product.operands import OperandRows

__all__ = ["Sections", "sections"]

T = TypeVar("T")

_HELD = 1.5
"""Of the memory to work in, one part for what a section multiplies."""
_BESIDE = 1.5
"""Of that, one part at most for where its rows begin and what threads need."""
_ROW_BYTES = 13
"""What a row takes of that: where it begins, its length, and whether it is needed."""
_MASK_BYTES = 4_000_000
"""What a thread takes of it for the mask, read a row group at a time."""
_SPARE = 4
"""Columns for each entry that are told apart at most."""
_AGAIN = 4
"""Entries that may be read for each product: more take longer than to put results aside."""
_NUMBERED = 2**31 - 1
"""Rows of the operand of rows that are told apart."""
_UNEVEN = 1.5
"""How many times more than its room a section of one row may take."""
_ON_ITS_WAY = 0.02
"""Seconds that a thread waits for one that was given a piece before its own, and may not have begun."""
_PIECE = 9
"""Of the memory limit in bytes, one part of two to this are the products of a piece."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """Rows that are computed at a time: some of those of a block of the operand of rows."""

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
    rows
        Of each block of the left one the coordinates of rows, where they begin, and the products before each.
    lengths
        The number of entries of each row of the right one.
    needs
        Which of those rows each section multiplies, in bits, in that spool.
    pieces
        Those of all sections.
    most
        The entries of the right one that a section multiplies, at most.
    """

    def __init__(
        self,
        work: Multiplication,
        left: SpilledBlocks,
        right: SpilledBlocks,
        rows: list[tuple[Segment, ...]],
        lengths: NDArray[np.int32],
        needs: list[Segment],
        pieces: list[_Piece],
        most: int,
    ) -> None:
        weakref.finalize(self, left.spool.close)
        self._operands, self._left, self._right = work.operands, left, right
        self._rows, self._lengths, self._needs, self._pieces = rows, lengths, needs, pieces
        self._low, self._high = (np.array([getattr(piece, end) for piece in pieces]) for end in ("low", "high"))
        self._before = np.cumsum([0, *(piece.products for piece in pieces)])
        self._counts = Counter(piece.section for piece in pieces)
        self._lock = threading.RLock()  # taken by itself: as in sparrow.runtime.thread_pool
        self._changed = threading.Condition(self._lock)
        self._number, self._users, self._rest = -1, 0, 0
        """The section that something is held for, how many threads work with that, and how many pieces are to come."""
        self._held: tuple[Held, Loops] | None = None
        self._room = work.reserved()
        kinds = [segment.dtype for segment in right.parts[0]]
        self._alone = len(work.operands.roles.matched) == 1
        """Whether pointers say all of which row an entry is in: nobody looks at its leading coordinate then."""
        self._largest = max(right.counts())
        self._buffers = [np.empty(most + self._largest, kind) for kind in kinds[self._alone :]]

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
        with self._lock:
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
            return work(held, loops, self._read(piece, start, stop, held))
        finally:
            del held, loops
            with self._lock:
                self._users -= 1
                self._rest -= stop > piece.high  # bounds of others may part its rows
                self._changed.notify_all()

    def _read(self, piece: _Piece, start: int, stop: int, held: Held) -> OperandRows:
        """Return the rows of a piece, those between two bounds."""
        left, read = self._operands.left, self._left.spool.read
        *letters, bounds, products = self._rows[piece.block]
        own = slice(piece.first, piece.last)
        if start > piece.low or stop <= piece.high:
            inside = range_slice(read(letters[0], piece.first, piece.last), start, stop)
            own = slice(piece.first + inside.start, piece.first + inside.stop)
        pointers, done = (read(segment, own.start, own.stop + 1) for segment in (bounds, products))
        first, last = pointers[[0, -1]].tolist()
        *axes, values = self._left.parts[piece.block]
        matched = [read(axes[left.indices.index(letter)], first, last) for letter in self._operands.roles.matched]
        coords = tuple(read(segment, own.start, own.stop) for segment in letters)
        return held.laid_out(
            coords, pointers - first, matched, read(values, first, last), done if self._alone else None
        )

    def _load(self, number: int) -> None:
        """Read what a section multiplies, into arrays that hold what any of them does."""
        from sparrow.kernels.matmul.sections import moves
        from sparrow.kernels.rows import copy_rows

        self._number, self._held = -1, None
        self._room.release()
        memory.trim()
        right, operands, bits, lengths = self._right, self._operands, self._needs[number], as_readonly(self._lengths)
        needed = as_readonly(np.unpackbits(right.spool.read(bits, 0, bits.count), count=len(lengths)))
        pointers, runs = np.zeros(len(lengths) + 2, np.int64), np.empty((3, self._largest), np.int64)
        done = count = 0
        for segments, low, high in zip(right.parts, right.low, right.high, strict=True):
            pointers[done : low + 1] = count
            done = high + 1
            if not needed[low:done].any():
                pointers[low + 1 : done] = count
                continue
            size = segments[-1].count
            found = moves(needed, lengths, low, done, pointers, *runs)
            starts, stops, begins = runs[:, :found]
            for segment, buffer in zip(segments[self._alone :], self._buffers, strict=True):
                whole = right.spool.read(segment, 0, size, buffer[count : count + size])
                copy_rows(starts, stops, begins, whole, buffer)
            count = int(pointers[done])
        pointers[done:] = count
        *coords, values = (buffer[:count] for buffer in self._buffers)
        if self._alone:
            coords = [np.empty(0, right.parts[0][0].dtype), *coords]
        block = Block(tuple(coords), values)
        self._room.grow(block.nbytes)
        held = Held(operands, block, self._room, starts=pointers if self._alone else None)
        self._held = held, Loops(operands, held, roomy=True)
        self._number, self._rest = number, self._counts[number]


def sections(work: Multiplication, left: SpilledBlocks, right: SpilledBlocks) -> Sections | None:
    """Return a product computed section by section; None where that reads too much.

    Parameters
    ----------
    work
        The product.
    left, right
        Its operands, put aside; their spool is closed with what is returned.
    """
    from sparrow.kernels.matmul.sections import section_end

    operands = work.operands
    held, matched = operands.right, operands.roles.matched
    if not matched or not left.parts or not right.parts:
        return None
    size = held.sizes[matched[0]]
    width = held.width(operands.dtype) + operands.numbers_of(operands.roles.columns)
    if len(matched) == 1:
        width -= right.parts[0][0].dtype.itemsize  # pointers say which row an entry is in
    across = min(math.prod(held.sizes[letter] for letter in operands.roles.columns), _SPARE * held.rows)
    each = across * operands.dtype.itemsize + (0 if operands.mask is None else _MASK_BYTES)
    most = _most(size, width, settings.current().threads * each)
    if not most:
        return None
    lengths = as_readonly(_lengths(right, size))
    axis, counts = operands.left.indices.index(matched[0]), np.array(right.counts())
    spans = np.array([right.low, np.array(right.high) + 1]).T.ravel()
    marks, state = np.full(size, -1, np.int32), np.array([-1, 0, 0])
    rows: list[tuple[Segment, ...]] = []
    needs: list[Segment] = []
    pieces: list[_Piece] = []
    products = read = longest = 0

    def closed(end: int) -> bool:
        """Put aside what a section multiplies, that ends before a row; return whether it may be had so."""
        nonlocal read, longest
        needed = (marks >= state[1]) & (marks < end)
        needs.append(left.spool.append(np.packbits(needed)))
        read += int(counts[np.logical_or.reduceat(np.append(needed, False), spans)[::2]].sum())
        longest = max(longest, int(state[2]))
        fits = longest <= _UNEVEN * most and read <= _AGAIN * (products + counts.sum())
        state[1], state[2] = state[0] + 1, 0
        return bool(fits)

    for at in range(len(left.parts)):
        columns, keys = [left.column(at, k) for k in range(len(operands.roles.rows))], left.column(at, axis)
        bounds = np.append(group_starts(columns, len(keys)), len(keys))
        coords = [column[bounds[:-1]] for column in columns]
        own, row = np.empty(len(bounds) - 1, np.int64), 0
        if len(own) + state[0] >= _NUMBERED:
            return None
        while row < len(own):
            stop = section_end(
                as_readonly(bounds), as_readonly(keys.astype(np.int32, copy=False)), lengths, most, row, marks,
                state, own,
            )  # fmt: skip
            done = np.append(0, np.cumsum(own[row:stop]))
            for first, last in _cut(done, min(memory.limit() >> _PIECE, 1 << 20)):
                low, high = coords[0][[row + first, row + last - 1]].tolist()
                pieces.append(_Piece(len(needs), at, row + first, row + last, low, high, int(done[last] - done[first])))
            products += int(done[-1])
            if stop < len(own) and not closed(int(state[0])):
                return None
            row = stop
        rows.append(tuple(map(left.spool.append, (*coords, bounds, np.append(0, np.cumsum(own))))))
    return Sections(work, left, right, rows, lengths, needs, pieces, longest) if closed(int(state[0]) + 1) else None


def _most(size: int, width: int, beside: int) -> int:
    """Return how many entries of so many bytes a section may multiply, of so many rows; 0 where these take too much.

    ``beside`` are the bytes that threads need: dense rows, and pieces of a mask.
    """
    room, rows = memory.working_bytes() / _HELD, _ROW_BYTES * size + beside
    return 0 if rows > room / _BESIDE or size >= 2**31 else int(room - rows) // width


def _lengths(right: SpilledBlocks, size: int) -> NDArray[np.int32]:
    """Return how many entries there are of each row, in blocks of whole rows."""
    out = np.zeros(size, np.int32)
    for at in range(len(right.parts)):
        column = right.column(at, 0)
        starts = group_starts((column,), len(column))
        out[column[starts]] = run_lengths(starts, len(column))
    return out


def _cut(done: NDArray[np.int64], size: int) -> list[tuple[int, int]]:
    """Return stretches of about so many products, given those before each row."""
    at = np.searchsorted(done, np.arange(size, done[-1], size), "left")
    return list(itertools.pairwise(np.unique([0, *at, len(done) - 1]).tolist()))
