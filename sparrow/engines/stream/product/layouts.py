"""The operand of a product that is held by rows, and rows of the other one and of a mask laid out to meet it."""

from __future__ import annotations

import functools
import math
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.stream.product import row_patterns
from sparrow.engines.stream.product.indexing import Numbering, members
from sparrow.engines.stream.product.operands import MaskRows, Operand, OperandRows, Operands
from sparrow.kernels.coo import Block, CSRBlock, RowIndex, filter_block, row_pointers
from sparrow.kernels.jit.warmup import as_readonly
from sparrow.kernels.matmul import numpy_fallback
from sparrow.kernels.runs import group_starts
from sparrow.runtime import memory

__all__ = ["Held"]

_SPREAD = 4
"""Of a mask's entries and the rows, so many times more cells up to which it is counted where each row begins."""


class Held:
    """Entries of the operand that is held, by rows: the matched letters; columns are those that only it has.

    Parameters
    ----------
    operands
        Those of the product.
    block
        The entries, sorted.
    room
        Grows by what is laid out.
    between
        Bounds along the first matched letter, where only what lies between them is multiplied; none by default.
    starts
        Where the rows of the one matched letter begin, and twice where the last one ends, if that is known: the
        coordinates along it are then not looked at.
    """

    def __init__(
        self,
        operands: Operands,
        block: Block,
        room: memory.Reservation,
        between: tuple[int, int] | None = None,
        starts: NDArray[np.int64] | None = None,
    ) -> None:
        self._operands, self._room = operands, room
        roles, right = operands.roles, operands.right
        heads = None if between is not None or starts is not None else _heads(block, right, roles.matched)
        inner = [*heads.coords] if heads is not None else right.columns(block, roles.matched)
        outer = right.columns(block, roles.columns)
        sizes = [right.sizes[letter] for letter in roles.matched]
        self._first = 0
        if between is not None:
            self._first, sizes[0] = between[0], between[1] - between[0]
        count = None if starts is None else len(starts)
        self.matched = Numbering(self._matched(inner), sizes, count if heads is None else block.count)
        self.across = Numbering(outer, [right.sizes[letter] for letter in roles.columns])
        self._outer = outer
        own = self.matched.own
        if starts is None:
            height = self.matched.size + 1  # one row more, of nothing, for what has no counterpart
            if own is None:
                starts = np.array([0, block.count, block.count])
            elif heads is not None:
                starts = RowIndex((own,), heads.pointers).indptr(height)
            else:
                starts = _starts(own, height)
        columns = np.zeros(block.count, np.int32) if self.across.own is None else self.across.own
        self._starts = starts
        self.matched.own = None  # rows know it now
        room.grow(self._starts.nbytes + self.matched.nbytes + self.across.nbytes)
        self.single = len(set(right.indices)) == len(roles.matched) + len(roles.columns)
        """Whether no column comes twice in a row."""
        self.arrays = (
            as_readonly(self._starts.view(np.uint64)),
            as_readonly(columns.astype(np.int32, copy=False).view(np.uint32)),
            as_readonly(operands.numbers(block.values)),
        )
        """Where rows begin, columns, and values, as loops take them."""
        self._patterns = row_patterns.NO_PATTERNS
        self._looked = False
        self._turned: tuple[NDArray[Any], ...] | None = None
        self._lock = threading.Lock()

    @functools.cached_property
    def gathered(self) -> np.uint64:
        """Up to how many products of a row are gathered."""
        return np.uint64(row_patterns.gathered(self.arrays[1].view(np.int32), self.patterns()))

    def patterns(self) -> NDArray[np.uint32]:
        """Return the pattern of each row; empty where few are that of the row before, each column one further."""
        with self._lock:
            if not self._looked:
                self._patterns = as_readonly(row_patterns.patterns(*self.arrays[:2]))
                self._room.grow(self._patterns.nbytes)
                self._looked = True
        return self._patterns

    def _matched(self, columns: list[NDArray[Any]]) -> list[NDArray[Any]]:
        """Return matched coordinates, those along the first letter counted from the first that there is."""
        return [columns[0] - columns[0].dtype.type(self._first), *columns[1:]] if self._first else columns

    def by_columns(self) -> tuple[NDArray[Any], ...]:
        """Return the same by columns, laid out when first asked for."""
        from sparrow.kernels.matmul.masked_dot import by_columns

        with self._lock:
            if self._turned is None:
                starts, columns, values = self.arrays
                begins = np.zeros(self.across.size + 1, np.uint64)
                rows, turned = np.empty(len(columns), np.uint32), np.empty_like(values)
                self._room.grow(begins.nbytes + rows.nbytes + turned.nbytes)
                by_columns(starts, columns, values, begins, rows, turned)
                self._turned = as_readonly(begins), as_readonly(rows), as_readonly(turned)
            return self._turned

    def named(self, columns: NDArray[Any], dtypes: list[np.dtype[Any]]) -> list[NDArray[Any]]:
        """Return the coordinates of columns along their letters, in types."""
        return self.across.columns(columns, self._outer, dtypes)

    def rows(self, block: Block, wanted: NDArray[Any] | None = None) -> OperandRows:
        """Return entries of the operand of rows, which are sorted by rows, row by row, but for rows nobody wants."""
        left, roles = self._operands.left, self._operands.roles
        if wanted is not None and block.count:
            block = filter_block(block, members(block.coords[0], wanted))
        heads = _heads(block, left, roles.rows)
        if heads is not None:
            return self.laid_out(heads.coords, heads.pointers, left.columns(block, roles.matched), block.values)
        coords = left.columns(block, roles.rows)
        starts = group_starts(coords, block.count) if coords else np.zeros(min(block.count, 1), np.int64)
        own = tuple(column[starts] for column in coords)
        return self.laid_out(own, np.append(starts, block.count), left.columns(block, roles.matched), block.values)

    def laid_out(
        self,
        coords: tuple[NDArray[Any], ...],
        pointers: NDArray[np.int64],
        matched: list[NDArray[Any]],
        values: NDArray[Any],
        done: NDArray[np.int64] | None = None,
    ) -> OperandRows:
        """Return rows of the operand of rows as loops take them.

        Parameters
        ----------
        coords, pointers
            Of each row, and where each begins among the entries.
        matched, values
            The coordinates of the entries along the matched letters, and their values.
        done
            The products of all rows before each, counted from anywhere; they are counted by default.
        """
        places = self.matched.of(self._matched(matched), len(values))
        places = as_readonly(places.astype(np.int32, copy=False))
        own = self._own_patterns(pointers, places)
        if done is None:
            done = row_patterns.products_before(pointers, places, self._starts, own, self._patterns)
        return OperandRows(coords, pointers, places, self._operands.numbers(values), done, own)

    def _own_patterns(self, pointers: NDArray[np.int64], places: NDArray[np.int32]) -> NDArray[np.uint32]:
        """Return the patterns of rows of the operand of rows; nothing where those of what is held are not known."""
        if numpy_fallback.suffices(len(places)) or not len(self.patterns()):
            return row_patterns.NO_PATTERNS
        columns, found = self.arrays[1], self._patterns[: len(pointers) - 1]
        same = len(places) == len(columns) and places.ctypes.data == columns.ctypes.data
        if same and np.array_equal(pointers, self._starts[: len(pointers)]):
            return found
        return as_readonly(row_patterns.patterns_of(pointers.view(np.uint64), places.view(np.uint32)))

    def mask_rows(self, rows: OperandRows, block: Block, start: int, stop: int) -> MaskRows:
        """Return the cells that a mask has in each row, of its entries between two bounds."""
        mask, roles = self._operands.mask, self._operands.roles
        assert mask is not None
        count = len(rows.pointers) - 1
        columns = self.across.of(mask.columns(block, roles.columns), block.count)
        known = columns < self.across.size if self.across.size < self._most_columns else None
        row: NDArray[Any] | None = None
        if len(rows.coords) > 1:
            numbering = Numbering(rows.coords, [self._operands.left.sizes[letter] for letter in roles.rows])
            order = np.full(numbering.size + 1, -1, np.int64)
            order[numbering.own] = np.arange(count)
            row = order[numbering.of(mask.columns(block, roles.rows), block.count)]
            known = (row >= 0) & (True if known is None else known)
        if known is not None and not known.all():
            block, columns, row = block.take(known), columns[known], None if row is None else row[known]
        if row is None and rows.coords:
            leading = block.coords[0]
            wanted = rows.coords[0].astype(leading.dtype, copy=False)
            if stop - start <= _SPREAD * (block.count + count):
                from sparrow.kernels.rows import indptr_from_sorted

                bounds = indptr_from_sorted(leading, start, stop)
                begins, ends = bounds[wanted - start], bounds[wanted - start + 1]
            else:
                begins, ends = np.searchsorted(leading, wanted, "left"), np.searchsorted(leading, wanted, "right")
        else:
            bounds = row_pointers(np.zeros(block.count, np.int64) if row is None else row, count)
            begins, ends = bounds[:-1], bounds[1:]
        return MaskRows(block, begins.view(np.uint64), ends.view(np.uint64), columns.astype(np.uint32))

    def own_cells(self, rows: OperandRows, block: Block) -> MaskRows | None:
        """Return the cells of a mask that has the very entries of rows; None where these must be looked for."""
        if not (len(rows.coords) == 1 and len(block.coords) == 2 and self.matched.plain and self.across.plain):
            return None
        first, last = int(rows.pointers[0]), int(rows.pointers[-1])
        pointers = (rows.pointers - first).view(np.uint64)
        columns = rows.places[first:last].view(np.uint32)
        return MaskRows(block.take(slice(first, last)), pointers[:-1], pointers[1:], columns)

    @property
    def _most_columns(self) -> int:
        """How many columns there could be."""
        return math.prod(self._operands.right.sizes[letter] for letter in self._operands.roles.columns)


def _heads(block: Block, operand: Operand, letters: tuple[int, ...]) -> RowIndex | None:
    """Return what tells the coordinates along letters once for each row, if that is known."""
    if not isinstance(block, CSRBlock) or len(block.heads.coords) > 1 or letters != operand.indices[:1]:
        return None
    return block.heads if operand.indices.count(letters[0]) == 1 else None


def _starts(rows: NDArray[Any], size: int) -> NDArray[np.int64]:
    """Return where rows begin and end among entries sorted by row."""
    if numpy_fallback.suffices(max(len(rows), size)):
        return row_pointers(rows, size)
    from sparrow.kernels.rows import indptr_from_sorted

    return indptr_from_sorted(rows, 0, size)
