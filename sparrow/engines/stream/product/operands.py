"""Operands of a product: which is that of rows, how they are read, and rows of one and of a mask as loops take them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import RangeAxis
from sparrow.core.schema import is_fill
from sparrow.engines.sort_orders import sorted_order
from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.operator import range_slice
from sparrow.engines.stream.product.indexing import members, numbered
from sparrow.kernels.coo import Block, accumulator_dtype, concat_blocks, filter_block
from sparrow.plan import Product, Scan
from sparrow.relations.base import Chunk, MemoryRelation
from sparrow.runtime import memory

__all__ = ["MaskRows", "Operand", "OperandRows", "Operands"]

_NUMBERED = 24
"""The bytes that the number of an entry takes, and to find it: among rows or columns that are too many for arrays."""


@dataclass(frozen=True, slots=True)
class Roles:
    """What the letters of a product are for."""

    swapped: bool
    """Whether the right operand is that of rows."""
    rows: tuple[int, ...]
    matched: tuple[int, ...]
    columns: tuple[int, ...]


def _roles(node: Product) -> Roles:
    """Return which operand is that of rows, and the letters that are rows, matched, and columns."""
    left, right = map(set, node.indices)

    def ordered(own: set[int]) -> bool:
        within = [letter in own for letter in node.output_indices]
        return within == sorted(within, reverse=True)

    leads = [not node.output_indices or node.output_indices[0] in own for own in (left, right)]
    swapped = not leads[0] or (leads[1] and not ordered(left) and ordered(right))
    if left.isdisjoint(node.output_indices) and node.indices[1] and node.indices[1][0] in left:
        swapped = False  # one row, and the right operand is read as it lies
    own = right if swapped else left
    rows = tuple(letter for letter in node.output_indices if letter in own)
    columns = tuple(letter for letter in node.output_indices if letter not in own)
    matched = tuple(dict.fromkeys(letter for letter in node.indices[not swapped] if letter in own))
    return Roles(swapped, rows, matched, columns)


class Operand:
    """An operand, its axes in the order in which a product wants them."""

    def __init__(self, scan: Scan, letters: tuple[int, ...], wanted: tuple[int, ...]) -> None:
        order = [letters.index(letter) for letter in dict.fromkeys(wanted)]
        order += [axis for axis in range(len(letters)) if axis not in order]
        self.scan = scan if order == sorted(order) else scan.then(scan.view.permute(order))
        self.indices = tuple(letters[axis] for axis in order)
        self.sizes = dict(zip(letters, scan.schema.shape, strict=True))

    def same_as(self, other: Operand) -> bool:
        """Return whether both read the same entries in the same order."""
        mine, theirs = self.scan, other.scan
        alike = mine.source.token == theirs.source.token and mine.view == theirs.view
        return alike and len(set(self.indices)) == len(self.indices) and len(set(other.indices)) == len(other.indices)

    @property
    def rows(self) -> int:
        """About how many entries are read."""
        return self.scan.relation.stats(self.scan.view.box(), sorted_order(self.scan)).rows

    def width(self, dtype: np.dtype[Any]) -> int:
        """Return the bytes that an entry takes where it is held, and multiplied in a type."""
        schema = self.scan.schema
        return schema.element_bytes() + (dtype.itemsize if schema.dtype != dtype else 0)

    def entries(self, room: memory.Reservation, used: NDArray[Any] | None = None) -> Block:
        """Return all entries, sorted; if not all are wanted, those at ascending coordinates along the first axis."""
        found = None if used is None else self.some(room, used)
        if found is not None:
            return found
        relation = self.scan.relation
        if isinstance(relation, MemoryRelation) and self.scan.view.is_identity:
            return self.cleaned(relation.by_rows())
        return self.cleaned(scan_reader.entries(self.scan, room))

    def some(self, room: memory.Reservation, used: NDArray[Any], most: int | None = None) -> Block | None:
        """Return the entries at ascending coordinates along the first axis, of the chunks that have some.

        None where the entries do not lie in that order, where those take more bytes than ``most``, and where they are
        in memory anyway and most of them are wanted.
        """
        scan, order = self.scan, sorted_order(self.scan)
        if isinstance(scan.relation, MemoryRelation) and scan.view.is_identity:
            places = scan.relation.places(used)
            nbytes = int(places.lengths.sum()) * scan.schema.element_bytes()
            if 2 * nbytes > scan.relation.block.nbytes or (most is not None and nbytes > most):
                return None
            room.grow(nbytes)
            return self.cleaned(scan.relation.some(used, places))
        axis = scan.view.axes[0]
        if not scan.view.preserves_order(order) or not isinstance(axis, RangeAxis):
            return None
        walked = axis.start + axis.step * used.astype(np.int64)
        leads = order[0] == axis.dim

        def wanted(chunk: Chunk) -> bool:
            first = int(np.searchsorted(walked, chunk.low[axis.dim]))
            return first < len(walked) and walked[first] <= chunk.high[axis.dim]

        def member(block: Block) -> Block:
            return filter_block(block, members(block.coords[0], used))

        chunks = scan.relation.chunks(scan.view.box(), order) if len(used) else []
        parts, taken = [], 0
        for part in scan_reader.map_blocks(scan, member, order, [c for c in chunks if wanted(c)] if leads else chunks):
            room.grow(part.nbytes)
            parts.append(part)
            taken += part.nbytes
            if most is not None and taken > most:
                return None
        return self.cleaned(concat_blocks(parts, scan.schema.ndim, scan.schema.dtype))

    def cleaned(self, block: Block) -> Block:
        """Return the entries whose coordinates along equal letters are equal."""
        for axis, letter in enumerate(self.indices):
            first = self.indices.index(letter)
            if first != axis:
                block = block.take(block.coords[first] == block.coords[axis])
        return block

    def columns(self, block: Block, letters: tuple[int, ...]) -> list[NDArray[Any]]:
        """Return the coordinates of entries along letters."""
        return [block.column(self.indices.index(letter)) for letter in letters]


class Operands:
    """The operands of a product and its mask, each in the order in which it is multiplied.

    Parameters
    ----------
    node
        The product.
    left, right, mask
        Scans of what it multiplies, and of its mask.
    """

    def __init__(self, node: Product, left: Scan, right: Scan, mask: Scan | None = None) -> None:
        self.node, self.roles = node, _roles(node)
        letters = node.indices
        if self.roles.swapped:
            left, right, letters = right, left, (letters[1], letters[0])
        rows, matched, columns = self.roles.rows, self.roles.matched, self.roles.columns
        self.left = Operand(left, letters[0], (*rows, *matched))
        """That of rows."""
        self.right = Operand(right, letters[1], (*matched, *columns))
        """That which is held by rows."""
        self.mask = None if mask is None else Operand(mask, node.output_indices, (*rows, *columns))
        self.dtype = _working(node)
        """The type in which products are added up."""

    @property
    def in_order(self) -> bool:
        """Whether rows and columns are the axes of the result as they are."""
        return (*self.roles.rows, *self.roles.columns) == self.node.output_indices

    @property
    def width(self) -> int:
        """The bytes that an entry of the operand that is held takes, with the numbers of its coordinates."""
        roles = self.roles
        return self.right.width(self.dtype) + sum(map(self.numbers_of, (roles.matched, roles.columns)))

    def numbers_of(self, letters: tuple[int, ...]) -> int:
        """Return the bytes that the number along letters of an entry that is held takes; 0 where it has none."""
        right = self.right
        return _NUMBERED if numbered(math.prod(right.sizes[letter] for letter in letters), right.rows) else 0

    def numbers(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return values in the type in which products are added up."""
        multiply = self.node.semiring.multiply
        if multiply == "pair":
            return np.empty(len(values), self.dtype)  # nobody looks at them
        with np.errstate(all="ignore"):
            if multiply == "and" or self.node.semiring.add == "or":
                values = values != 0
            return values.astype(self.dtype, copy=False)

    @property
    def left_out(self) -> Any:
        """What is no entry among products as they are added up; where all are, a NaN, which nothing equals."""
        if not self.node.keep_fill:
            return self.dtype.type(self.node.schema.fill_value)
        return self.dtype.type(np.nan) if self.dtype.kind in "fc" else np.float64(np.nan)

    def finished(self, coords: Sequence[NDArray[Any]], out: NDArray[Any], weights: Any = None) -> tuple[Block, Any]:
        """Return results in the type of the result, without those that then are its fill, and what is beside them."""
        schema = self.node.schema
        with np.errstate(all="ignore"):
            values = out != 0 if schema.dtype.kind == "b" else out.astype(schema.dtype, copy=False)
        block = Block(tuple(coords), values)
        if self.node.keep_fill:
            return block, weights
        if values.dtype != out.dtype or schema.fill_value != schema.fill_value:
            absent = is_fill(values, schema.fill_value)
            if absent.any():
                block, weights = block.take(~absent), None if weights is None else weights[~absent]
        return block, weights


@dataclass(frozen=True, slots=True)
class OperandRows:
    """Entries of the operand of rows, row by row."""

    coords: tuple[NDArray[Any], ...]
    """Of each row, along the letters of rows."""
    pointers: NDArray[np.int64]
    places: NDArray[Any]
    """The row of the other operand that each entry multiplies, shape (n,)."""
    values: NDArray[Any]
    done: NDArray[np.int64]
    """The products of all rows before each, shape (m + 1,)."""
    patterns: NDArray[np.uint32]
    """The pattern of each, shape (m,), where it is known: see :func:`sparrow.kernels.matmul.symbolic.patterns`."""

    @property
    def nbytes(self) -> int:
        """The bytes that it takes beside the values."""
        return sum(array.nbytes for array in (*self.coords, self.pointers, self.places, self.done, self.patterns))

    def between(self, start: int, stop: int) -> OperandRows:
        """Return the rows whose leading coordinate lies between two bounds."""
        if not self.coords:
            return self
        at = range_slice(self.coords[0], start, stop)
        return self.stretch(at.start, at.stop)

    def stretch(self, first: int, last: int) -> OperandRows:
        """Return the rows between two positions."""
        coords = tuple(column[first:last] for column in self.coords)
        own = slice(first, last + 1)
        return OperandRows(
            coords, self.pointers[own], self.places, self.values, self.done[own], self.patterns[first:last]
        )

    def bounds(self, size: int) -> tuple[int, int]:
        """Return the bounds along the leading dimension, of so many cells, between which the rows lie."""
        if not self.coords:
            return 0, size
        leading = self.coords[0]
        return (int(leading[0]), int(leading[-1]) + 1) if len(leading) else (0, 0)

    def cut(self, stop: int, size: int) -> list[int]:
        """Return leading coordinates below a bound between which there are about so many products."""
        if len(self.done) <= 1 or not self.coords:
            return []
        leading = self.coords[0]
        at = self._every(size)
        found = np.unique(leading[at[at < len(leading)]])
        return [int(bound) for bound in found if leading[0] < bound < stop]

    def spans(self, size: int) -> list[tuple[int, int]]:
        """Return stretches of rows of about so many products."""
        count = len(self.pointers) - 1
        if count <= 0 or self.done[-1] == self.done[0]:
            return []
        bounds = np.unique([0, *np.minimum(self._every(size), count), count])
        return list(itertools.pairwise(bounds.tolist()))

    def _every(self, size: int) -> NDArray[np.intp]:
        """Return the rows before which there are one, two and more times so many products."""
        targets = np.arange(size, int(self.done[-1] - self.done[0]), size)
        found: NDArray[np.intp] = np.searchsorted(self.done, self.done[0] + targets)
        return found


@dataclass(frozen=True, slots=True)
class MaskRows:
    """The cells of a mask, row by row."""

    block: Block
    """Its entries, in the order of rows and columns."""
    begins: NDArray[np.uint64]
    """The first of them of each row, shape (m,)."""
    ends: NDArray[np.uint64]
    columns: NDArray[np.uint32]
    """The column of each of them."""


def _working(node: Product) -> np.dtype[Any]:
    """Return the type in which products are formed and added up."""
    semiring, dtype = node.semiring, node.schema.dtype
    if callable(semiring.add) or callable(semiring.multiply):  # given numbers as they are, which have another type
        dtype = np.result_type(node.left.schema.dtype, node.right.schema.dtype, dtype)
        if semiring.add == "plus":
            return accumulator_dtype(dtype)
    elif semiring.add not in ("min", "max") or semiring.multiply not in ("times", "plus"):
        modular = semiring.plain or (semiring.add == "plus" and semiring.multiply in ("first", "second", "pair"))
        return np.dtype(np.uint64) if dtype == np.uint64 and not modular else accumulator_dtype(dtype)
    return dtype if dtype.kind in "iu" else accumulator_dtype(dtype)  # integers wrap around before they are compared
