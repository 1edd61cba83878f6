"""Operators of element-wise functions: inputs are aligned or looked up."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import Box, RangeAxis
from sparrow.engines.sort_orders import count_rows_to_read, sorted_order
from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.capabilities import Cursor, SumPushdown
from sparrow.engines.stream.cursors import open_cursor, open_cursors
from sparrow.engines.stream.elementwise.broadcast import Lookup, check_repeats, find_outer_split, split_outer
from sparrow.engines.stream.elementwise.fusion import FusedKernel
from sparrow.engines.stream.operator import PhysicalOperator, RangeRef
from sparrow.engines.stream.partitioning import partition_bounds
from sparrow.engines.stream.product.product import MaskedMatMulOp
from sparrow.kernels.coo import Block, filter_block, write_dense
from sparrow.kernels.elementwise import apply, combine
from sparrow.plan import Dense, Map, Scan, apply_function
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
    if len(scans) == 1:
        return MapPerChunk(kernel, scans)
    if len(scans) == 2:
        split = find_outer_split(scans, kernel.required)
        if split is not None:
            return MapOuter(kernel, scans, *split)
        walked = [k for k, scan in enumerate(scans) if kernel.required[k] and scan.view.repeats <= 1]
        if len(walked) == 1 and scans[1 - walked[0]].view.repeats > 1:
            return MapBroadcast(kernel, scans, walked[0])
    return MapAligned(kernel, scans)


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


# -- a broadcast operand that is looked up -------------------------------------------------------------


class MapBroadcast(MapAligned):
    """Product with a broadcast operand that is looked up instead of repeated.

    Parameters
    ----------
    kernel
        Element-wise functions of two inputs.
    scans
        The inputs.
    walked
        Index of the input that is read element by element.
    """

    def __init__(self, kernel: FusedKernel, scans: Sequence[Scan], walked: int) -> None:
        super().__init__(kernel, scans)
        self._walked = walked

    @property
    def _is_lookup(self) -> bool:
        return Lookup.fits(self.children[1 - self._walked])

    def strategy(self) -> str | None:
        """Return "lookup" if the broadcast operand fits in memory."""
        return "lookup" if self._is_lookup else None

    def partitions(self) -> list[int]:
        """Return the bounds of partitions."""
        if not self._is_lookup:
            return super().partitions()
        check_repeats(self.kernel.node, self.children, self.kernel.required)
        return partition_bounds([self.children[self._walked]], self.schema.shape[0])

    def open(self, start: int, stop: int) -> Cursor:
        """Open a cursor that looks up the broadcast operand, or aligns a large one."""
        if not self._is_lookup:
            return super().open(start, stop)
        lookup = Lookup(self.children[1 - self._walked], start, stop)
        return _LookupCursor(self, self._walked, open_cursor(self.children[self._walked], start, stop), lookup)


class _LookupCursor:
    __slots__ = ("_cursor", "_lookup", "_operator", "_walked")

    def __init__(self, operator: MapBroadcast, walked: int, cursor: Cursor, lookup: Lookup) -> None:
        self._operator, self._walked, self._cursor, self._lookup = operator, walked, cursor, lookup

    def read(self, start: int, stop: int) -> Block:
        """Return the elements of rows [start, stop)."""
        kernel, walked = self._operator.kernel, self._walked
        block = self._cursor.read(start, stop)
        values, present = self._lookup.at(block)
        if kernel.required[1 - walked] and not present.all():
            block, values = filter_block(block, present), values[present]
        columns = [block.values, values] if walked == 0 else [values, block.values]
        return apply(kernel, block.coords, columns, self._operator.schema.fill_value)


# -- outer products ------------------------------------------------------------------------------------


class MapOuter(MapAligned):
    """Product of inputs that share no axis: all pairs of their elements.

    Parameters
    ----------
    kernel
        Element-wise functions of two inputs.
    scans
        The inputs.
    first
        Index of the input with the leading axes.
    split
        Number of its axes.
    """

    def __init__(self, kernel: FusedKernel, scans: Sequence[Scan], first: int, split: int) -> None:
        super().__init__(kernel, scans)
        self._first = first
        self._rows, self._others = split_outer(scans, first, split)
        self._other_block = Once(partial(scan_reader.read_block, self._others))

    @property
    def _is_outer(self) -> bool:
        return Lookup.fits(self.children[1 - self._first])

    def strategy(self) -> str | None:
        """Return "outer" if one input fits in memory."""
        return "outer" if self._is_outer else None

    def partitions(self) -> list[int]:
        """Return the bounds of partitions."""
        if not self._is_outer:
            return super().partitions()
        check_repeats(self.kernel.node, self.children, self.kernel.required)
        leading = self.children[self._first]
        growth = count_rows_to_read(self._others) / leading.view.repeats
        return partition_bounds([leading], leading.schema.shape[0], growth=max(growth, 1 / leading.view.repeats))

    def open(self, start: int, stop: int) -> Cursor:
        """Open a cursor over the outer product, or over aligned inputs if large."""
        if not self._is_outer:
            return super().open(start, stop)
        return _OuterCursor(self, open_cursor(self._rows, start, stop))

    def cross(self, rows: Block) -> Block:
        """Return the product of some elements of the leading input with all of the other."""
        others = self._other_block()
        coords = [np.repeat(column, others.count) for column in rows.coords]
        coords += [np.tile(column, rows.count) for column in others.coords]
        columns = [np.repeat(rows.values, others.count), np.tile(others.values, rows.count)]
        return apply(self.kernel, tuple(coords), columns[:: -1 if self._first else 1], self.schema.fill_value)


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
    array = np.full(scan.schema.shape, scan.schema.fill_value, dtype=scan.schema.dtype)
    for block in scan_reader.iter_blocks(scan):
        write_dense(array, block)
    return array
