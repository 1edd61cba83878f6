"""Structural operators: concatenate, reshape, cut, refill, sort, accumulate."""

from __future__ import annotations

import bisect
import itertools
import math
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.bisection import bisect_sorted
from sparrow.core.indexing import Box
from sparrow.core.schema import Schema, is_fill
from sparrow.engines.sort_orders import scan_order
from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.capabilities import Cursor, SmallEvaluation
from sparrow.engines.stream.cursors import open_cursor, read_range
from sparrow.engines.stream.operator import PhysicalOperator
from sparrow.engines.stream.partitioning import fits_one_partition, is_large_slice, partition_bounds, range_slice
from sparrow.engines.stream.selection import best_elements, best_of_lines
from sparrow.engines.stream.tuning import tuning
from sparrow.kernels.coo import Block, canonicalize, concat_blocks, write_dense
from sparrow.kernels.runs import group_starts, run_lengths
from sparrow.plan import Accumulate, Concat, Diagonal, Node, Reshape, Scan, TopK, Triangle, concat_offsets
from sparrow.relations.protocol import Chunk
from sparrow.runtime import memory
from sparrow.runtime.events import emit

__all__ = ["ConcatOp", "DiagonalOp", "FillOp", "ReshapeOp", "SortOp", "TopKOp", "TriangleOp", "ViewOp", "accumulate"]


# -- concatenation -------------------------------------------------------------------------------------


class ConcatOp(PhysicalOperator, SmallEvaluation):
    """Inputs joined along an axis."""

    def __init__(self, node: Concat, *scans: Scan) -> None:
        super().__init__(node, scans)
        self._axis, self._offsets = node.axis, concat_offsets(node)
        self.is_fresh = len(scans) > 1

    def partitions(self) -> list[int]:
        """Return the bounds of partitions, those of each input in turn."""
        if self._axis or fits_one_partition(self.children):
            return partition_bounds(self.children, self.schema.shape[0])
        bounds = [0]
        for scan, offset in zip(self.children, self._offsets, strict=False):
            bounds.extend(offset + bound for bound in partition_bounds([scan], scan.schema.shape[0])[1:])
        return bounds

    def open(self, start: int, stop: int) -> Cursor:
        """Open a cursor over the inputs with rows in [start, stop)."""
        rows = self.rows_of(start, stop)
        emit("stream.concat", operands=len(rows))
        return _ConcatCursor(self, {k: open_cursor(self.children[k], low, high) for k, low, high in rows})

    def rows_of(self, start: int, stop: int) -> list[tuple[int, int, int]]:
        """Return the inputs for rows [start, stop) of the output, and the rows of each."""
        if self._axis:
            return [(k, start, stop) for k in range(len(self.children))]
        first, last = bisect.bisect_right(self._offsets, start) - 1, bisect.bisect_left(self._offsets, stop)
        found = ((k, self._offsets[k], self._offsets[k + 1]) for k in range(first, last))
        return [(k, max(start, low) - low, min(stop, high) - low) for k, low, high in found if low < high]

    def evaluate(self, *blocks: Block) -> Block:
        """Return all elements of the output."""
        return self.join(range(len(blocks)), blocks)

    def join(self, numbers: Iterable[int], blocks: Sequence[Block]) -> Block:
        """Return elements of inputs, given by number, as those of the output."""
        schema, axis = self.schema, self._axis
        offsets = [self._offsets[k] for k in numbers]
        coords: list[Sequence[NDArray[Any]]] = list(zip(*[block.coords for block in blocks], strict=True))
        kind = schema.coordinate_dtypes[axis]
        along = zip(coords[axis], offsets, strict=True)
        coords[axis] = [column.astype(kind, copy=False) + by if by else column for column, by in along]
        if len(blocks) == 1:
            values = blocks[0].values.astype(schema.dtype, copy=False)
            return Block(tuple([column for (column,) in coords]), values)
        values = np.concatenate([block.values for block in blocks]).astype(schema.dtype, copy=False)
        block = Block(tuple(map(np.concatenate, coords)), values)
        return block if axis == 0 else canonicalize(block, schema.shape, schema.fill_value, keep_fill=True)


class _ConcatCursor:
    __slots__ = ("_cursors", "_operator")

    def __init__(self, operator: ConcatOp, cursors: dict[int, Cursor]) -> None:
        self._operator, self._cursors = operator, cursors

    def read(self, start: int, stop: int) -> Block:
        """Return the elements of rows [start, stop)."""
        rows = self._operator.rows_of(start, stop)
        return self._operator.join([k for k, _, _ in rows], [self._cursors[k].read(low, high) for k, low, high in rows])


# -- reshaping -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _InputRows:
    """Reference of a chunk made of rows [start, stop) of a slice of the input."""

    cursor: _ReshapeCursor | None
    """None to open one of the slice when the chunk is read."""
    slice: int
    start: int
    stop: int


class ReshapeOp(PhysicalOperator, SmallEvaluation):
    """Elements of the input in another shape of the same size, in row-major order.

    Chunks are the partitions of the input, wherever in the output they end: the leading dimension of the output may be
    short, and one of its slices exceed memory.
    """

    def __init__(self, node: Reshape, scan: Scan) -> None:
        super().__init__(node, [scan])
        self._old = scan.schema.shape
        shape = node.schema.shape
        self._inner, self._outer = math.prod(shape[1:]), math.prod(self._old[1:])
        self._input_bounds: list[int] | None = None
        self._depth: int | None = None
        self._slices: OrderedDict[int, Cursor] = OrderedDict()
        self._opening = threading.Lock()
        self.is_fresh = len(shape) > 1 or len(self._old) > 1

    def _bounds_of_input(self) -> list[int]:
        if self._input_bounds is None:
            self._input_bounds = partition_bounds(self.children, self._old[0]) if self._old else [0, 1]
        return self._input_bounds

    @property
    def depth(self) -> int:
        """Number of leading axes of the input whose slices are read one by one.

        Not 0 if a slice along the first axis is larger than a partition.
        """
        if self._depth is None:
            self._depth, count = 0, 1
            (scan,), shape = self.children, self._old
            if len(shape) > 1 and scan.view.size and not fits_one_partition(self.children):
                rows = max(scan.view.repeats, 1) * scan.relation.stats(scan.view.box(), scan_order(scan)).rows
                while self._depth < len(shape) - 1 and is_large_slice(rows / count / shape[self._depth], scan.schema):
                    count *= shape[self._depth]
                    if count > tuning().max_batches:
                        break
                    self._depth += 1
        return self._depth

    def _slice(self, number: int) -> Scan:
        """Return a slice of the input, by the row-major position of its indices."""
        scan, leading = self.children[0], self._old[: self.depth]
        return scan.then(scan.view.then(tuple(map(int, np.unravel_index(number, leading))))) if leading else scan

    def _open_slice(self, number: int) -> Cursor:
        """Return a cursor over a slice; the last ones used stay open."""
        with self._opening:
            if number not in self._slices:
                self._slices[number] = open_cursor(self._slice(number), 0, self._old[self.depth])
                if len(self._slices) > tuning().max_open_batches:
                    self._slices.popitem(last=False)
            self._slices.move_to_end(number)
            return self._slices[number]

    def partitions(self) -> list[int]:
        """Return the bounds of partitions: those of the input, in output rows."""
        shape, inner = self.schema.shape, self._inner
        if inner and fits_one_partition(self.children):
            return [0, shape[0]]
        if not inner:
            return [0]
        if not self.depth:
            return sorted({0, shape[0], *(bound * self._outer // inner for bound in self._bounds_of_input())})
        size, outer = math.prod(self._old[self.depth :]), math.prod(self._old[self.depth + 1 :])
        ends = {
            (number * size + bound * outer) // inner
            for number in range(math.prod(self._old[: self.depth]))
            for bound in partition_bounds([self._slice(number)], self._old[self.depth])
        }
        return sorted({0, shape[0], *ends})

    def open(self, start: int, stop: int) -> _ReshapeCursor:
        """Open a cursor; it keeps one of the input open unless the input is small."""
        cursor = None
        if self.schema.shape and self._old and not self.is_small and not self.depth:
            first, last = self._input_rows(start, stop)
            cursor = open_cursor(self.children[0], first, min(last, self._old[0]))
        return _ReshapeCursor(self, cursor)

    def _input_rows(self, start: int, stop: int) -> tuple[int, int]:
        """Return the rows of the input that hold rows [start, stop) of the output."""
        return start * self._inner // self._outer, -(-stop * self._inner // self._outer)

    def chunks(self, box: Box, order: tuple[int, ...] | None = None) -> list[Chunk]:
        """Return the partitions of the input that meet the rows of a box.

        Reads no data pages.
        """
        shape = self.schema.shape
        if not shape or not self._old or self.is_small or any(len(r) == 0 for r in box.ranges):
            return super().chunks(box, order)
        inner, depth = self._inner, self.depth
        size, outer = math.prod(self._old[depth:]), math.prod(self._old[depth + 1 :])
        begin, end = box.ranges[0][0] * inner, (box.ranges[0][-1] + 1) * inner
        members = next((found for dim, found in box.members if dim == 0), None)
        cursor: Any = None if depth else self.open_shared(box.ranges[0][0], box.ranges[0][-1] + 1)
        out = []
        for number in range(begin // size, -(-end // size)):
            first, last = max(begin - number * size, 0) // outer, min(-(-(end - number * size) // outer), size // outer)
            bounds = partition_bounds([self._slice(number)], self._old[depth]) if depth else self._bounds_of_input()
            for start, stop in itertools.pairwise(bounds):
                start, stop = max(start, first), min(stop, last)
                low, high = (number * size + start * outer) // inner, (number * size + stop * outer - 1) // inner
                if start < stop and (members is None or len(members[range_slice(members, low, high + 1)])):
                    ends = (low, *(0 for _ in shape[1:])), (high, *(n - 1 for n in shape[1:]))
                    ref = _InputRows(cursor, number, start, stop)
                    out.append(Chunk(tuning().partition_rows, *ends, ref, False))
        return out

    def compute(self, chunk: Chunk, dims: Sequence[int] | None) -> Block:
        """Return the elements of a chunk."""
        ref = chunk.ref
        if not isinstance(ref, _InputRows):
            return super().compute(chunk, dims)
        sizes, start = self._old[self.depth :], chunk.low[0]
        if ref.cursor is None:
            block = self._open_slice(ref.slice).read(ref.start, ref.stop)
        else:
            block = ref.cursor.read_input(ref.start, ref.stop)
        offset = ref.slice * math.prod(sizes) + ref.start * math.prod(sizes[1:]) - start * self._inner
        margin = max(offset, *self.schema.shape)  # positions are divided by these
        position = _flat_positions(block, sizes, ref.start, ref.stop, margin)
        return _unravel(position + offset if offset else position, block.values, self.schema, start)

    def read_rows(self, start: int, stop: int) -> Block:
        """Return the elements of rows [start, stop), without an open cursor of the input."""
        low, high = (start * self._inner, stop * self._inner) if self.schema.shape else (0, 1)
        sizes = self._old[self.depth :]
        size, outer = math.prod(sizes), math.prod(sizes[1:])
        blocks = []
        for number in range(low // size, -(-high // size)) if size else ():
            begin, end = max(low - number * size, 0), min(high - number * size, size)
            base, last = (begin // outer, -(-end // outer)) if sizes else (0, 1)
            block = read_range(self._slice(number), base, last)
            position, values = _flat_positions(block, sizes, base, last, high - low), block.values
            offset = begin - base * outer
            if offset or end < last * outer:
                kept = (position >= offset) & (position < offset + (end - begin))
                position, values = position[kept] - offset, values[kept]
            moved = number * size + begin - low
            blocks.append(_unravel(position + moved if moved else position, values, self.schema, start))
        return blocks[0] if len(blocks) == 1 else concat_blocks(blocks, self.schema.ndim, self.schema.dtype)

    def evaluate(self, *blocks: Block) -> Block:
        """Return all elements of the output."""
        (block,) = blocks
        end = self._old[0] if self._old else 1
        return _unravel(_flat_positions(block, self._old, 0, end), block.values.copy(), self.schema, 0)


class _ReshapeCursor:
    __slots__ = ("_cursor", "_operator")

    def __init__(self, operator: ReshapeOp, cursor: Cursor | None) -> None:
        self._operator, self._cursor = operator, cursor

    def read(self, start: int, stop: int) -> Block:
        """Return the elements of rows [start, stop) of the output."""
        return self._operator.read_rows(start, stop)

    def read_input(self, start: int, stop: int) -> Block:
        """Return the elements of rows [start, stop) of the input."""
        assert self._cursor is not None
        return self._cursor.read(start, stop)


def _flat_positions(block: Block, shape: tuple[int, ...], base: int, end: int, margin: int = 0) -> NDArray[Any]:
    """Return row-major positions of rows [base, end), relative to row ``base``.

    Their dtype holds positions up to ``margin`` beyond the last row.
    """
    size = (end - base + 1) * math.prod(shape[1:]) + margin
    kind: Any = np.int32 if size < 2**31 else np.int64 if size < 2**63 else object  # Python integers hold any
    position: NDArray[Any] = block.coords[0] if shape else np.zeros(block.count, kind)
    position = (position.astype(np.int64) - base if base else position).astype(kind, copy=False)
    for column, length in zip(block.coords[1:], shape[1:], strict=True):
        position = position * length + column
    return position


def _unravel(position: NDArray[Any], values: NDArray[Any], schema: Schema, start: int) -> Block:
    """Return the elements at row-major positions relative to row ``start``."""
    shape, kinds = schema.shape, schema.coordinate_dtypes
    coords = []
    for k in range(len(shape) - 1, 0, -1):
        quotient = position // max(shape[k], 1)
        coords.append((position - quotient * shape[k]).astype(kinds[k], copy=False))
        position = quotient
    if shape:
        leading = position.astype(kinds[0], copy=False)
        coords.append(leading + start if start else leading)
    return Block(tuple(coords[::-1]), values)


# -- one block in, one block out -----------------------------------------------------------------------


class UnaryOperator(PhysicalOperator):
    """An operator that transforms its one input block by block."""

    row_offset = 0
    """Row of the input that gives row 0 of the output."""

    def __init__(self, node: Node, scan: Scan) -> None:
        super().__init__(node, [scan])

    def partitions(self) -> list[int]:
        """Return the bounds of partitions, those of the input."""
        return partition_bounds(self.children, self.schema.shape[0])

    def open(self, start: int, stop: int) -> Cursor:
        """Open a cursor over the input."""
        cursor = open_cursor(self.children[0], start + self.row_offset, stop + self.row_offset)
        return _UnaryCursor(self, cursor)

    def transform(self, block: Block, start: int, stop: int) -> Block:
        """Return rows [start, stop) of the output, given the input's elements."""
        raise NotImplementedError


class _UnaryCursor:
    __slots__ = ("_cursor", "_operator")

    def __init__(self, operator: UnaryOperator, cursor: Cursor) -> None:
        self._operator, self._cursor = operator, cursor

    def read(self, start: int, stop: int) -> Block:
        """Return the elements of rows [start, stop)."""
        offset = self._operator.row_offset
        return self._operator.transform(self._cursor.read(start + offset, stop + offset), start, stop)


class ViewOp(UnaryOperator):
    """The elements that a scan shows, as those of a node."""

    def transform(self, block: Block, start: int, stop: int) -> Block:
        """Return the block as it is."""
        return block


class TriangleOp(UnaryOperator, SmallEvaluation):
    """Elements of the last two axes on one side of a diagonal."""

    node: Triangle

    def transform(self, block: Block, start: int, stop: int) -> Block:
        """Return the elements of a block on the side that is kept."""
        return self.evaluate(block)

    def evaluate(self, *blocks: Block) -> Block:
        """Return all elements of the output."""
        (block,) = blocks
        distance = block.coords[-1] - block.coords[-2]  # coordinates are not negative, so this fits their dtype
        return block.take((distance >= self.node.k if self.node.upper else distance <= self.node.k).nonzero()[0])


class DiagonalOp(UnaryOperator, SmallEvaluation):
    """The diagonal of a matrix."""

    node: Diagonal

    def __init__(self, node: Diagonal, scan: Scan) -> None:
        super().__init__(node, scan)
        self.row_offset = max(-node.offset, 0)

    def partitions(self) -> list[int]:
        """Return the bounds of partitions: those of the input along the diagonal."""
        row, length = self.row_offset, self.schema.shape[0]
        bounds = [*partition_bounds(self.children, self.children[0].schema.shape[0]), row, row + length]
        return sorted({min(max(bound - row, 0), length) for bound in bounds})

    def transform(self, block: Block, start: int, stop: int) -> Block:
        """Return the elements of a block on the diagonal."""
        return self.evaluate(block)

    def evaluate(self, *blocks: Block) -> Block:
        """Return all elements of the output."""
        (block,), row = blocks, self.row_offset
        kept = (block.coords[1] - block.coords[0] == self.node.offset).nonzero()[0]
        place = block.coords[0][kept]
        place = (place.astype(np.int64) - row if row else place).astype(self.schema.coordinate_dtype(0), copy=False)
        return Block((place,), block.values[kept])


class FillOp(UnaryOperator):
    """The same values with another fill, computed on dense partitions."""

    def partitions(self) -> list[int]:
        """Return the bounds of partitions that fit memory when dense."""
        shape = self.schema.shape
        step = max(tuning().dense_partition_elements // max(math.prod(shape[1:]), 1), 1)
        return [*range(0, shape[0], step), shape[0]]

    def transform(self, block: Block, start: int, stop: int) -> Block:
        """Return all elements of a block that differ from the new fill."""
        old, schema = self.children[0].schema, self.schema
        shape = schema.shape
        dense = np.full((stop - start, *shape[1:]) if shape else (), old.fill_value, old.dtype)
        write_dense(dense, Block((block.coords[0] - start, *block.coords[1:]), block.values) if shape else block)
        stored = ~is_fill(dense, schema.fill_value)
        coords = list(stored.nonzero()) if shape else []
        if shape:
            coords[0] += start
        columns = tuple(column.astype(schema.coordinate_dtype(dim)) for dim, column in enumerate(coords))
        return Block(columns, dense[stored])


# -- lines along an axis -------------------------------------------------------------------------------


class SortOp(UnaryOperator):
    """Each line along the last axis in ascending order.

    A vector is one line, sorted in memory.
    """

    def partitions(self) -> list[int]:
        """Return the bounds of partitions; those of a vector are its ends."""
        shape = self.schema.shape
        return super().partitions() if len(shape) > 1 else [0, shape[0]] if shape[0] else [0]

    def open(self, start: int, stop: int) -> Cursor:
        """Open a cursor over the input, over all of it if it is a vector."""
        if len(self.schema.shape) > 1:
            return super().open(start, stop)
        return _VectorCursor(self)

    def transform(self, block: Block, start: int, stop: int) -> Block:
        """Return a block with the values of each line in order."""
        schema = self.schema
        starts = group_starts(block.coords[:-1], block.count)
        lengths = run_lengths(starts, block.count)
        values = block.values.copy()
        for line in np.flatnonzero(lengths > 1):
            values[starts[line] : starts[line] + lengths[line]].sort()
        fill = schema.fill_value
        rank = np.arange(block.count) - np.repeat(starts, lengths)
        with np.errstate(invalid="ignore"):
            after = (values > fill) | (values != values) if fill == fill else np.zeros(block.count, bool)
        place = np.where(after, rank + np.repeat(schema.shape[-1] - lengths, lengths), rank)
        return Block((*block.coords[:-1], place.astype(schema.coordinate_dtype(schema.ndim - 1))), values)


class _VectorCursor:
    __slots__ = ("_operator",)

    def __init__(self, operator: SortOp) -> None:
        self._operator = operator

    def read(self, start: int, stop: int) -> Block:
        """Return the elements in [start, stop) of the sorted vector."""
        operator = self._operator
        line = operator.transform(scan_reader.read_block(operator.children[0]), 0, operator.schema.shape[0])
        first, last = bisect_sorted(line.coords[0], [start, stop])
        return line.take(slice(int(first), int(last)))


class TopKOp(UnaryOperator, SmallEvaluation):
    """The best elements of each line along the last axis.

    A vector is one line, read chunk by chunk.
    """

    node: TopK
    is_fresh = False

    def partitions(self) -> list[int]:
        """Return the bounds of partitions; those of a vector are its ends."""
        shape = self.schema.shape
        return super().partitions() if len(shape) > 1 else [0, shape[0]] if shape[0] else [0]

    def open(self, start: int, stop: int) -> Cursor:
        """Open a cursor over the input, over all of it if it is a vector."""
        return super().open(start, stop) if len(self.schema.shape) > 1 else _BestOfVectorCursor(self)

    def transform(self, block: Block, start: int, stop: int) -> Block:
        """Return the best elements of each line."""
        return self.evaluate(block)

    def evaluate(self, *blocks: Block) -> Block:
        """Return all elements of the output."""
        (block,) = blocks
        starts = group_starts(block.coords[:-1], block.count)
        return block.take(best_of_lines(np.append(starts, block.count), block.values, self.node.k, self.node.largest))


class _BestOfVectorCursor:
    __slots__ = ("_operator",)

    def __init__(self, operator: TopKOp) -> None:
        self._operator = operator

    def read(self, start: int, stop: int) -> Block:
        """Return the best elements in [start, stop)."""
        node = self._operator.node
        found = best_elements(self._operator.children[0], node.k, node.largest)
        order = np.argsort(found.coords[0])
        first, last = bisect_sorted(found.coords[0][order], [start, stop])
        return found.take(order[int(first) : int(last)])


def accumulate(node: Accumulate, scan: Scan) -> NDArray[Any]:
    """Return the running totals of each line as a dense array.

    Parameters
    ----------
    node
        Ufunc, axis, initial value and dtype.
    scan
        The operand, of a relation.

    Raises
    ------
    TooLargeError
        If the array would exceed the memory limit.
    """
    ufunc, axis, initial, dtype = node.ufunc, node.axis, node.initial, node.schema.dtype
    schema = scan.schema
    along = schema.ndim - 1 if axis is None else axis
    before = 0 if initial is None else 1
    shape = tuple(n + before * (k == along) for k, n in enumerate(schema.shape))
    what = f"running totals are dense: those of shape {shape} and type {dtype}"
    memory.check(math.prod(shape) * dtype.itemsize, what, "take a part of the tensor")
    with np.errstate(all="ignore"):
        out = np.full(shape, initial if before else schema.fill_value, dtype)
        key: Any = tuple(slice(before * (k == along), None) for k in range(schema.ndim))
        cells = out[(*key, ...)]
        cells[...] = np.asarray(schema.fill_value).astype(dtype)
        for block in scan_reader.iter_blocks(scan):
            coords = tuple(
                [column + before if before and k == along else column for k, column in enumerate(block.coords)]
            )
            write_dense(out, Block(coords, block.values.astype(dtype)))
        totals = cells.reshape(-1) if axis is None else cells
        ufunc.accumulate(totals, axis=axis or 0, out=totals)
    return totals if before == 0 else out
