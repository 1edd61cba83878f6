"""Operators of element-wise functions: inputs are aligned or looked up."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import Box, RangeAxis, View
from sparrow.core.schema import is_fill
from sparrow.engines.sort_orders import count_rows_to_read, sorted_order
from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.capabilities import Cursor, SumPushdown
from sparrow.engines.stream.cursors import open_cursor, open_cursors
from sparrow.engines.stream.elementwise.broadcast import (
    BroadcastTable,
    BroadcastTables,
    check_repeated,
    check_repeats,
    find_lookups,
    find_outer_split,
    keep_repeated,
    split_outer,
)
from sparrow.engines.stream.elementwise.fusion import FusedKernel
from sparrow.engines.stream.operator import PhysicalOperator, RangeRef
from sparrow.engines.stream.partitioning import partition_bounds
from sparrow.engines.stream.product.product import MaskedMatMulOp
from sparrow.engines.stream.repeats import fits_in_memory, kept_axes, without_repeats
from sparrow.kernels.coo import Block, filter_block, write_dense
from sparrow.kernels.elementwise import apply, combine
from sparrow.plan import Dense, Map, Scan, apply_function
from sparrow.relations.memory import MemoryRelation
from sparrow.relations.protocol import Chunk, ScanStats
from sparrow.runtime import memory
from sparrow.runtime.once import Once

__all__ = ["build_map", "evaluate_dense"]


def build_map(kernel: FusedKernel, scans: list[Scan]) -> PhysicalOperator:
    """Return the operator that evaluates a fused kernel.

    Parameters
    ----------
    kernel
        Element-wise functions, fused.
    scans
        The inputs of the kernel, of relations.
    """
    masked = _find_masked_product(scans, kernel.required)
    if masked is not None:
        return MapMasked(kernel, scans, masked)
    split = find_outer_split(scans)
    if split is not None:
        return MapOuter(kernel, scans, split[0])
    looked_up = find_lookups(scans)
    if looked_up:
        return MapBroadcast(kernel, scans, looked_up)
    return MapPerChunk(kernel, scans) if len(scans) == 1 else MapAligned(kernel, scans)


# -- aligned inputs ------------------------------------------------------------------------------------


class MapAligned(PhysicalOperator):
    """Element-wise function of inputs that are merged by coordinate.

    Parameters
    ----------
    kernel
        Element-wise functions, fused.
    scans
        The inputs of the kernel.
    """

    def __init__(self, kernel: FusedKernel, scans: Sequence[Scan]) -> None:
        super().__init__(kernel.node, scans)
        self.kernel = kernel
        self._fills = [scan.schema.fill_value for scan in scans]

    def partitions(self) -> list[int]:
        """Return the bounds of partitions.

        Raises
        ------
        TooLargeError
            If broadcasting would produce more elements than the memory limit and tuning permit.
        """
        check_repeats(self.kernel.node, self.children, self.kernel.required)
        return partition_bounds(self.children, self.schema.shape[0])

    def open(self, start: int, stop: int) -> Cursor:
        """Open a cursor that aligns the inputs."""
        return _AlignedCursor(self, open_cursors(self.children, start, stop))

    def compute_small(self) -> Block:
        """Return all elements."""
        if not self.schema.shape:
            return super().compute_small()
        return self.align([scan_reader.read_small(scan) for scan in self.children])  # type: ignore[misc]

    def align(self, blocks: list[Block]) -> Block:
        """Return the elements of the output for the same rows of each input."""
        kernel = self.kernel
        return combine(kernel, blocks, self._fills, self.schema.shape, kernel.required, self.schema.fill_value)


class _AlignedCursor:
    __slots__ = ("_cursors", "_operator")

    def __init__(self, operator: MapAligned, cursors: Sequence[Cursor]) -> None:
        self._operator, self._cursors = operator, cursors

    def read(self, start: int, stop: int) -> Block:
        """Return the elements of rows [start, stop)."""
        return self._operator.align([cursor.read(start, stop) for cursor in self._cursors])


@dataclass(frozen=True, slots=True)
class _ChunkRef:
    """Reference of a chunk of the input, in one of its sort orders."""

    order: tuple[int, ...]
    chunk: Chunk


class MapPerChunk(MapAligned):
    """Element-wise function of one input, evaluated chunk by chunk.

    The chunks of the input are the partitions if they come in the order of its axes.
    """

    def _chunk_order(self) -> tuple[int, ...] | None:
        """Return the sort order whose chunks are the partitions, None if there is none."""
        order = sorted_order(self.children[0])
        return order if self.children[0].view.preserves_order(order) else None

    def _input_box(self, box: Box) -> Box:
        """Return the box of the input's relation for a box of the output."""
        key: list[Any] = [slice(r.start, r.stop, r.step) for r in box.ranges]
        for dim, members in box.members:
            key[dim] = members
        return self.children[0].view.then(tuple(key), "orthogonal").box()

    def _to_output(self, chunk: Chunk, order: tuple[int, ...]) -> Chunk:
        """Return a chunk of the input as one of the output."""
        low, high = [], []
        for axis in self.children[0].view.axes:
            if isinstance(axis, RangeAxis):
                low.append(max(-((axis.start - chunk.low[axis.dim]) // axis.step), 0))
                high.append(min((chunk.high[axis.dim] - axis.start) // axis.step, axis.length - 1))
            else:
                low.append(0)
                high.append(0)
        return Chunk(chunk.rows, tuple(low), tuple(high), _ChunkRef(order, chunk), False)

    def chunks(self, box: Box, order: tuple[int, ...] | None = None) -> list[Chunk]:
        """Return the chunks that meet a box. Reads no data pages."""
        own = self._chunk_order()
        if own is None or any(len(r) == 0 for r in box.ranges):
            return super().chunks(box, order)
        return [self._to_output(chunk, own) for chunk in self.children[0].relation.chunks(self._input_box(box), own)]

    def split_runs(self, box: Box, order: tuple[int, ...] | None = None) -> tuple[list[Chunk], list[Chunk]]:
        """Return the chunks of the input that come in order, and those of appended runs."""
        own = self._chunk_order()
        if own is None or any(len(r) == 0 for r in box.ranges):
            return self.chunks(box), []
        first, runs = scan_reader.split_runs(self.children[0].relation, self._input_box(box), own)
        return [self._to_output(chunk, own) for chunk in first], [self._to_output(chunk, own) for chunk in runs]

    def pin(self, box: Box) -> object:
        """Return an object that lets readers of a box share a cursor of the input."""
        if any(len(r) == 0 for r in box.ranges) or not self.schema.shape or self._chunk_order() is None:
            return super().pin(box)
        below = self.children[0].relation
        return below.pin(self._input_box(box)) if isinstance(below, PhysicalOperator) else None

    def stats(self, box: Box, order: tuple[int, ...] | None = None) -> ScanStats:
        """Return the statistics of the scan of the input for a box."""
        own = self._chunk_order()
        if own is None or any(len(r) == 0 for r in box.ranges):
            return super().stats(box, order)
        return self.children[0].relation.stats(self._input_box(box), own)

    def strategy(self) -> str | None:
        """Return "per_chunk" if the chunks of the input are the partitions."""
        return None if self.is_small or self._chunk_order() is None else "per_chunk"

    def compute(self, chunk: Chunk, dims: Sequence[int] | None) -> Block:
        """Return the elements of a chunk."""
        ref = chunk.ref
        if isinstance(ref, RangeRef):
            return super().compute(chunk, dims)
        axes = None if dims is None or self.kernel.is_dense else tuple(dims)
        block = scan_reader.reader(self.children[0], ref.order, axes)(ref.chunk)
        return apply(self.kernel, block.coords, [block.values], self.schema.fill_value)


# -- broadcast inputs that are looked up -----------------------------------------------------------------


class MapBroadcast(MapAligned):
    """Element-wise function of broadcast inputs that are looked up.

    They are kept in memory, or read in ranges if they do not fit; see
    :class:`~sparrow.engines.stream.elementwise.broadcast.BroadcastTable`.

    Parameters
    ----------
    kernel
        Element-wise functions.
    scans
        The inputs.
    looked_up
        Indices of the inputs that are repeated along the same axes.
    """

    def __init__(self, kernel: FusedKernel, scans: Sequence[Scan], looked_up: Sequence[int]) -> None:
        super().__init__(kernel, scans)
        self.walked = [k for k in range(len(scans)) if k not in looked_up]
        """Indices of the other inputs."""
        self._looked_up = looked_up
        self._fits: bool | None = None
        self.table = Once(partial(BroadcastTable, kernel, scans, looked_up))
        self._tables = Once(partial(BroadcastTables, kernel, scans, looked_up))
        self._walked_scans = Once(partial(_keep_repeated, [scans[k] for k in self.walked]))

    @property
    def fits(self) -> bool:
        """True if the inputs that are repeated fit in memory. Reads footers."""
        if self._fits is None:
            self._fits = all(fits_in_memory(self.children[k]) for k in self._looked_up)
        return self._fits

    @property
    def is_small(self) -> bool:
        """True if all of it is one partition of small inputs, evaluated at once."""
        if self._is_small is None:
            small = [without_repeats(self.children[k]) for k in self._looked_up]
            small += [self.children[k] for k in self.walked]
            self._is_small = self.schema.size > 0 and all(map(scan_reader.is_small, small)) and len(self.bounds) <= 2
        return self._is_small

    def compute_small(self) -> Block:
        """Return all elements."""
        size = self.schema.shape[0]
        return self.open(0, size).read(0, size)

    def strategy(self) -> str | None:
        """Return "lookup" if the broadcast inputs fit in memory."""
        return "lookup" if self.fits else "lookup_in_ranges"

    def partitions(self) -> list[int]:
        """Return the bounds of partitions. Reads the broadcast inputs.

        Raises
        ------
        TooLargeError
            If broadcasting would produce more elements than the memory limit and tuning permit.
        """
        table = self._whole_table()
        if table is None:
            return super().partitions()
        scans = self._walked_scans()
        if table.remainder.count:
            scans = [*scans, table.remainder_scan()]
        for scan in scans:
            if scan.view.repeats > 1 and not table.is_needed:
                count = count_rows_to_read(scan)
                check_repeated(self.kernel.node, count * scan.view.repeats, f"a broadcast of {count} elements")
        size = self.schema.shape[0]
        return partition_bounds(scans, size) if scans else [0, size]

    def open(self, start: int, stop: int) -> Cursor:
        """Open a cursor over the inputs that are read element by element."""
        if self._whole_table() is None:
            return super().open(start, stop)
        tables = None if self.fits else self._tables()
        own = () if tables is None else tables.open(start, stop)
        return _LookupCursor(self, open_cursors(self._walked_scans(), start, stop), tables, own)

    def _whole_table(self) -> BroadcastTable | None:
        """Return the table of all rows, without its values if they do not fit in memory.

        None if the elements to repeat do not fit either, or positions do not fit in 64 bits.
        """
        return self.table() if self.fits else self._tables().remainder_table

    def evaluate_at(
        self, table: BroadcastTable, coords: tuple[NDArray[Any], ...], walked: Sequence[NDArray[Any]], count: int
    ) -> NDArray[Any]:
        """Return the function at n coordinates, given the inputs not looked up."""
        at, found = table.find(coords, count)
        values = self._call(coords, walked, table.values(at, found))
        if found is not None and table.is_needed:
            return np.where(found, values, values.dtype.type(self.schema.fill_value))
        return values

    def _call(
        self, coords: tuple[NDArray[Any], ...], walked: Sequence[NDArray[Any]], looked_up: Sequence[NDArray[Any]]
    ) -> NDArray[Any]:
        """Return the function, given the values of both kinds of inputs."""
        columns = dict(zip((*self.walked, *self._looked_up), (*walked, *looked_up), strict=True))
        return self.kernel(coords, [columns[k] for k in range(len(columns))])

    def look_up(self, table: BroadcastTable, block: Block) -> Block:
        """Return the output at the elements of the only other input."""
        at, found = table.find(block.coords, block.count)
        if found is not None and table.is_needed:
            block, at, found = filter_block(block, found), at[found], None
        values = table.values(at, found)
        return apply(
            lambda coords, columns: self._call(coords, columns, values),
            block.coords,
            [block.values],
            self.schema.fill_value,
        )

    def merge(self, table: BroadcastTable, blocks: Sequence[Block], start: int, stop: int) -> Block:
        """Return rows [start, stop) of the output, given the other inputs."""
        repeated = table.repeat(start, stop)
        schema, required = self.schema, self.kernel.required
        if not blocks and self.kernel.is_dense:
            return apply(
                lambda coords, _: self.evaluate_at(table, coords, [], repeated.count),
                repeated.coords,
                [],
                schema.fill_value,
            )
        if not blocks:
            return repeated
        flags = Block(repeated.coords, np.ones(repeated.count, bool))
        fills = [*(self.children[k].schema.fill_value for k in self.walked), np.bool_(False)]
        needs = [*(required[k] for k in self.walked), False]
        with_flags = [*blocks, flags] if repeated.count else [*blocks]
        return combine(
            lambda coords, columns: self.evaluate_at(table, coords, columns[: len(blocks)], len(columns[0])),
            with_flags, fills[: len(with_flags)], schema.shape, needs[: len(with_flags)], schema.fill_value,
        )  # fmt: skip

    def evaluate_everywhere(self, table: BroadcastTable, blocks: Sequence[Block], start: int, stop: int) -> Block:
        """Return the output in rows [start, stop), evaluated at all positions."""
        schema = self.schema
        shape = (stop - start, *schema.shape[1:])
        columns = []
        for number, block in zip(self.walked, blocks, strict=True):
            own = self.children[number].schema
            cells = np.full(shape, own.fill_value, own.dtype)
            write_dense(
                cells, Block((block.coords[0] - block.coords[0].dtype.type(start), *block.coords[1:]), block.values)
            )
            columns.append(cells.reshape(-1))
        kinds = schema.coordinate_dtypes
        sizes = zip(shape, (start, *(0 for _ in shape[1:])), kinds, strict=True)
        grid = np.meshgrid(*(np.arange(low, low + n, dtype=kind) for n, low, kind in sizes), indexing="ij", copy=False)
        coords = tuple(column.reshape(-1) for column in grid)
        with np.errstate(all="ignore"):
            values = self._call(coords, columns, table.spread(start, stop))
        absent = is_fill(values, schema.fill_value)
        block = Block(coords, values)
        return filter_block(block, ~absent) if absent.any() else block


def _keep_repeated(scans: Sequence[Scan]) -> list[Scan]:
    """Return scans; those that are repeated are in memory if they fit."""
    return [keep_repeated(scan) if scan.view.repeats > 1 and fits_in_memory(scan) else scan for scan in scans]


class _LookupCursor:
    __slots__ = ("_cursors", "_operator", "_own", "_tables")

    def __init__(
        self, operator: MapBroadcast, cursors: Sequence[Cursor], tables: BroadcastTables | None, own: Sequence[Cursor]
    ) -> None:
        self._operator, self._cursors, self._tables, self._own = operator, cursors, tables, own

    def read(self, start: int, stop: int) -> Block:
        """Return the elements of rows [start, stop)."""
        operator, tables = self._operator, self._tables
        blocks = [cursor.read(start, stop) for cursor in self._cursors]
        table = operator.table() if tables is None else tables.read(self._own, blocks, start, stop)
        if table.is_dense(start, stop):
            return operator.evaluate_everywhere(table, blocks, start, stop)
        if len(blocks) == 1 and not table.remainder.count:
            return operator.look_up(table, blocks[0])
        return operator.merge(table, blocks, start, stop)


# -- outer products ------------------------------------------------------------------------------------


class MapOuter(MapBroadcast):
    """Function of inputs that share no axis, of all pairs of their elements.

    It is one of these if nothing but pairs has elements: the function of an element and the fill of the other input is
    the fill of the result.

    Parameters
    ----------
    kernel
        Element-wise functions of two inputs.
    scans
        The inputs.
    first
        Index of the input with the leading axes.
    """

    def __init__(self, kernel: FusedKernel, scans: Sequence[Scan], first: int) -> None:
        super().__init__(kernel, scans, [1 - first])
        self._first = first
        self._rows, self._others = split_outer(scans, first)
        self._other_block = Once(partial(scan_reader.read_block, self._others, own=False))
        self._row_table = Once(partial(BroadcastTable, kernel, scans, [first]))
        self._leading = Once(partial(_keep_leading, scans[first], self._rows))
        self._is_pairs: bool | None = None

    @property
    def _is_outer(self) -> bool:
        if self._is_pairs is None:
            if all(self.kernel.required):
                self._is_pairs = self.fits
            else:
                self._is_pairs = (
                    all(map(fits_in_memory, self.children))
                    and not self.table().remainder.count
                    and not self._row_table().remainder.count
                )
        return self._is_pairs

    def strategy(self) -> str | None:
        """Return "outer" for pairs of elements."""
        return "outer" if self._is_outer else super().strategy()

    def partitions(self) -> list[int]:
        """Return the bounds of partitions. Reads the inputs that fit in memory.

        Raises
        ------
        TooLargeError
            If there are more pairs than the memory limit and tuning permit.
        """
        if not self._is_outer:
            if not self.fits:
                check_repeats(self.kernel.node, self.children, self.kernel.required)
            return super().partitions()
        rows, count = self._leading(), self._other_block().count
        check_repeated(self.kernel.node, count_rows_to_read(rows) * count, "an outer product", warns=False)
        return partition_bounds([rows], rows.schema.shape[0], growth=max(count, 1))

    def open(self, start: int, stop: int) -> Cursor:
        """Open a cursor over pairs of elements, or over the leading input."""
        if not self._is_outer:
            return super().open(start, stop)
        return _OuterCursor(self, open_cursor(self._leading(), start, stop))

    def cross(self, rows: Block) -> Block:
        """Return the function of some elements of the leading input and all of the other."""
        others = self._other_block()
        coords = [np.repeat(column, others.count) for column in rows.coords]
        coords += [np.tile(column, rows.count) for column in others.coords]
        columns = [np.repeat(rows.values, others.count), np.tile(others.values, rows.count)]
        return apply(self.kernel, tuple(coords), columns[:: -1 if self._first else 1], self.schema.fill_value)


def _keep_leading(scan: Scan, rows: Scan) -> Scan:
    """Return the leading input of an outer product, in memory if it fits."""
    if not fits_in_memory(scan):
        return rows
    block = scan_reader.read_block(rows, own=False)
    return Scan(MemoryRelation(rows.schema, block), View.identity(rows.schema.shape), rows.schema)


class _OuterCursor:
    __slots__ = ("_cursor", "_operator")

    def __init__(self, operator: MapOuter, cursor: Cursor) -> None:
        self._operator, self._cursor = operator, cursor

    def read(self, start: int, stop: int) -> Block:
        """Return the elements of rows [start, stop)."""
        return self._operator.cross(self._cursor.read(start, stop))


# -- products and their masks --------------------------------------------------------------------------


def _find_masked_product(scans: Sequence[Scan], required: Sequence[bool]) -> int | None:
    """Return the index of a product that is masked by the other scan, else None."""
    if len(scans) != 2 or not all(required):
        return None
    for number, (scan, other) in enumerate([(scans[0], scans[1]), (scans[1], scans[0])]):
        if isinstance(scan.relation, MaskedMatMulOp) and scan.view.is_identity and scan.relation.is_masked_by(other):
            return number
    return None


class MapMasked(PhysicalOperator, SumPushdown):
    """Element-wise function of a masked product and its mask.

    Both have elements at the same coordinates, so they need no alignment.

    Parameters
    ----------
    kernel
        Element-wise functions of two inputs.
    scans
        The product and its mask, in any order.
    product
        Index of the product.
    """

    def __init__(self, kernel: FusedKernel, scans: Sequence[Scan], product: int) -> None:
        super().__init__(kernel.node, scans)
        relation = scans[product].relation
        assert isinstance(relation, MaskedMatMulOp)
        self._kernel, self._number, self._product = kernel, product, relation

    def partitions(self) -> Sequence[int]:
        """Return the bounds of partitions, those of the product."""
        return self._product.partitions()

    def open(self, start: int, stop: int) -> Cursor:
        """Open a cursor over the product and the values of its mask."""
        return _MaskedCursor(self, self._product.open_with_mask_values(start, stop))

    def sum(self) -> Any:
        """Return the sum of the product times its mask, None for other functions."""
        node = self._kernel.node
        is_multiply = self._kernel.is_one("multiply") and all(
            np.can_cast(scan.schema.dtype, node.schema.dtype) for scan in self.children
        )
        return self._product.sum_weighted() if is_multiply and node.schema.dtype == self._product.schema.dtype else None

    def map_values(self, block: Block, weights: NDArray[Any]) -> Block:
        """Return the output at the elements of the product, given the mask's values."""
        columns = [block.values, weights] if self._number == 0 else [weights, block.values]
        return apply(self._kernel, block.coords, columns, self.schema.fill_value)


class _MaskedCursor:
    __slots__ = ("_operator", "_read")

    def __init__(self, operator: MapMasked, read: Callable[[int, int], tuple[Block, NDArray[Any]]]) -> None:
        self._operator, self._read = operator, read

    def read(self, start: int, stop: int) -> Block:
        """Return the elements of rows [start, stop)."""
        return self._operator.map_values(*self._read(start, stop))


# -- dense results --------------------------------------------------------------------------


def evaluate_dense(node: Map) -> NDArray[Any]:
    """Return the dense result of an element-wise function with a dense operand.

    Parameters
    ----------
    node
        Function whose scans are of relations.

    Raises
    ------
    TooLargeError
        If the result would exceed the memory limit.
    """
    shape = node.schema.shape
    what = f"the dense result of shape {shape} and type {node.schema.dtype}"
    memory.check(math.prod(shape) * node.schema.dtype.itemsize, what, "take a part of the tensor")
    arguments = [
        _to_dense(operand) if isinstance(operand, Scan)
        else np.broadcast_to(operand.array, shape) if isinstance(operand, Dense) else operand
        for operand in node.operands
    ]  # fmt: skip
    with np.errstate(all="ignore"):
        return np.asarray(apply_function(node.function, *arguments))


def _to_dense(scan: Scan) -> NDArray[Any]:
    """Return a scan as an array, of which broadcasting repeats nothing in memory."""
    core, kept = without_repeats(scan), kept_axes(scan)
    array = np.full(core.schema.shape, core.schema.fill_value, dtype=scan.schema.dtype)
    for block in scan_reader.iter_blocks(core):
        write_dense(array, block)
    new = [k for k in range(scan.schema.ndim) if k not in kept]
    return np.broadcast_to(np.expand_dims(array, new), scan.schema.shape)
