"""Rearrangements that are no views: cells joined, regrouped and cut by their position, lazily and piece by piece."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import Box
from sparrow.core.schema import Schema
from sparrow.engines.stream.operator import (
    PhysicalOperator,
    ReadRange,
    fits_one_partition,
    open_cursors,
    partition_bounds,
    range_slice,
    read_range,
)
from sparrow.kernels.coo import Block, canonicalize
from sparrow.plan import Concat, Diagonal, Reshape, Scan, Triangle, concat_offsets
from sparrow.relations.base import Chunk

__all__ = ["diagonal", "joined", "reshaped", "triangle"]

_ROWS = 1 << 18
"""About how many entries a piece has."""


def joined(node: Concat, *scans: Scan) -> PhysicalOperator:
    """Return scans joined along an axis."""
    axis, schema = node.axis, node.schema
    shape, dtype = schema.shape, schema.dtype
    starts = concat_offsets(node)

    def joined_at(offsets: Sequence[int], blocks: Sequence[Block]) -> Block:
        coords: list[Sequence[NDArray[Any]]] = list(zip(*[block.coords for block in blocks], strict=True))
        kind = schema.coordinate_dtypes[axis]
        along = zip(coords[axis], offsets, strict=True)
        coords[axis] = [column.astype(kind, copy=False) + by if by else column for column, by in along]
        if len(blocks) == 1:
            return Block(tuple([column for (column,) in coords]), blocks[0].values.astype(dtype, copy=False))
        values = np.concatenate([block.values for block in blocks]).astype(dtype, copy=False)
        block = Block(tuple(map(np.concatenate, coords)), values)
        return block if axis == 0 else canonicalize(block, shape, schema.fill_value, keep_fill=True)

    def cuts() -> list[int]:
        if axis or fits_one_partition(scans):
            return partition_bounds(scans, shape[0])
        bounds = [0]
        for scan, start in zip(scans, starts, strict=False):
            bounds.extend(start + bound for bound in partition_bounds([scan], scan.schema.shape[0])[1:])
        return bounds

    def within(scan: Scan, offset: int, start: int, stop: int) -> tuple[int, int]:
        """Return what bounds along the leading dimension of the result are along that of a scan."""
        return (start, stop) if axis else (max(start - offset, 0), min(stop - offset, scan.schema.shape[0]))

    def begin(first: int, last: int) -> ReadRange:
        parts: list[tuple[Scan, int, ReadRange]] = []
        for scan, offset in zip(scans, starts, strict=False):
            low, high = within(scan, offset, first, last)
            if low < high:
                parts.append((scan, offset, open_cursors([scan], low, high)[0]))

        def evaluate(start: int, stop: int) -> Block:
            offsets, found = [], []
            for scan, offset, piece in parts:
                low, high = within(scan, offset, start, stop)
                if low < high:
                    offsets.append(offset)
                    found.append(piece(low, high))
            return joined_at(offsets, found)

        return evaluate

    return PhysicalOperator(
        node,
        scans,
        cuts,
        lambda start, stop: begin(start, stop)(start, stop),
        begin=begin,
        merged=lambda *blocks: joined_at(starts[:-1], blocks),
        fresh=len(scans) > 1,
    )


def reshaped(node: Reshape, scan: Scan) -> PhysicalOperator:
    """Return the cells of a scan in another shape of as many cells, in row-major order."""
    return _Reshaped(node, scan)


@dataclass(frozen=True, slots=True)
class _Rows:
    """A piece that is made of what the input has between two bounds along its leading dimension."""

    start: int
    stop: int
    piece: ReadRange


class _Reshaped(PhysicalOperator):
    """The cells of a scan in another shape.

    Pieces are those of the input, wherever in the result they end: its leading dimension may be short, and one of its
    slices hold more than memory does.
    """

    def __init__(self, node: Reshape, scan: Scan) -> None:
        self._scan, self._old, self._new = scan, scan.schema.shape, node.schema
        shape = node.schema.shape
        self._inner, self._outer = math.prod(shape[1:]), math.prod(self._old[1:])
        fresh = len(shape) > 1 or len(self._old) > 1
        super().__init__(node, [scan], self._bounds_of_result, self._between, merged=self._all, fresh=fresh)

    @cached_property
    def _rows(self) -> list[int]:
        """The bounds of the pieces along the leading dimension of the input."""
        return partition_bounds([self._scan], self._old[0])

    def _bounds_of_result(self) -> list[int]:
        shape, inner = self._new.shape, self._inner
        if not shape or (inner and fits_one_partition([self._scan])):
            return [0, shape[0] if shape else 1]
        bounds = self._rows if self._old else [0, 1]
        return sorted({0, shape[0], *(bound * self._outer // inner for bound in bounds)}) if inner else [0]

    def chunks(self, box: Box, order: tuple[int, ...] | None = None) -> list[Chunk]:
        """Return the pieces that meet the box along the leading dimension. Reads no data pages."""
        shape = self._new.shape
        if not shape or not self._old or self.is_small or any(len(r) == 0 for r in box.ranges):
            return super().chunks(box, order)
        inner, outer = self._inner, self._outer
        begin, end = self._rows_between(box.ranges[0][0], box.ranges[0][-1] + 1)
        wanted = next((found for dim, found in box.members if dim == 0), None)
        piece = self._begun(box.ranges[0][0], box.ranges[0][-1] + 1, self._read_between)
        out = []
        for start, stop in itertools.pairwise(self._rows):
            start, stop = max(start, begin), min(stop, end)
            low, high = start * outer // inner, (stop * outer - 1) // inner
            if start < stop and (wanted is None or len(wanted[range_slice(wanted, low, high + 1)])):
                ends = (low, *(0 for _ in shape[1:])), (high, *(size - 1 for size in shape[1:]))
                out.append(Chunk(_ROWS, *ends, _Rows(start, stop, piece), False))
        return out

    def _read_between(self, first: int, last: int) -> ReadRange:
        """Return what reads the input where the result has cells between two bounds."""
        begin, end = self._rows_between(first, last)
        return open_cursors([self._scan], begin, min(end, self._old[0]))[0]

    def _rows_between(self, first: int, last: int) -> tuple[int, int]:
        """Return the bounds along the leading dimension of the input of what the result has between two bounds."""
        return first * self._inner // self._outer, -(-last * self._inner // self._outer)

    def read(self, chunk: Chunk, dims: Sequence[int] | None = None) -> Block:
        """Compute a piece."""
        if not isinstance(chunk.ref, _Rows):
            return super().read(chunk, dims)
        first, last = chunk.ref.start, chunk.ref.stop
        block, start = chunk.ref.piece(first, last), chunk.low[0]
        offset = first * self._outer - start * self._inner
        position = _positions(block, self._old, first, last, max(offset, *self._new.shape))  # divided by these
        return _placed(position + offset if offset else position, block.values, self._new, start)

    def _between(self, start: int, stop: int) -> Block:
        low, high = (start * self._inner, stop * self._inner) if self._new.shape else (0, 1)
        base, end = (low // self._outer, -(-high // self._outer)) if self._old else (0, 1)
        block = read_range(self._scan, base, end)
        position, values = _positions(block, self._old, base, end), block.values
        offset = low - base * self._outer
        if offset or high < end * self._outer:
            kept = (position >= offset) & (position < offset + (high - low))
            position, values = position[kept] - offset, values[kept]
        return _placed(position, values, self._new, start)

    def _all(self, block: Block) -> Block:
        end = self._old[0] if self._old else 1
        return _placed(_positions(block, self._old, 0, end), block.values.copy(), self._new, 0)


def _positions(block: Block, shape: tuple[int, ...], base: int, end: int, room: int = 0) -> NDArray[Any]:
    """Return the places of entries in row-major order, counted from the leading index ``base`` and up to ``end``.

    Their type has room for so much more.
    """
    cells = (end - base + 1) * math.prod(shape[1:]) + room
    kind: Any = np.int32 if cells < 2**31 else np.int64 if cells < 2**63 else object  # Python's integers hold them all
    position: NDArray[Any] = block.coords[0] if shape else np.zeros(block.count, kind)
    position = (position.astype(np.int64) - base if base else position).astype(kind, copy=False)
    for column, size in zip(block.coords[1:], shape[1:], strict=True):
        position = position * size + column
    return position


def _placed(position: NDArray[Any], values: NDArray[Any], schema: Schema, start: int) -> Block:
    """Return entries at places in row-major order that are counted from the leading index ``start``."""
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


def triangle(node: Triangle, scan: Scan) -> PhysicalOperator:
    """Return the cells of the last two axes on one side of a diagonal."""
    schema, k = node.schema, node.k

    def cut(block: Block) -> Block:
        distance = block.coords[-1] - block.coords[-2]  # of coordinates, none negative: it fits their type
        return block.take((distance >= k if node.upper else distance <= k).nonzero()[0])

    def begin(first: int, last: int) -> ReadRange:
        (piece,) = open_cursors([scan], first, last)
        return lambda start, stop: cut(piece(start, stop))

    return PhysicalOperator(
        node,
        [scan],
        lambda: partition_bounds([scan], schema.shape[0]),
        lambda start, stop: cut(read_range(scan, start, stop)),
        begin=begin,
        merged=cut,
        fresh=True,
    )


def diagonal(node: Diagonal, scan: Scan) -> PhysicalOperator:
    """Return the diagonal of a matrix."""
    offset, schema = node.offset, node.schema
    height = scan.schema.shape[0]
    row = max(-offset, 0)
    length = schema.shape[0]

    def cut(block: Block) -> Block:
        kept = (block.coords[1] - block.coords[0] == offset).nonzero()[0]
        place = block.coords[0][kept]
        place = (place.astype(np.int64) - row if row else place).astype(schema.coordinate_dtype(0), copy=False)
        return Block((place,), block.values[kept])

    def begin(first: int, last: int) -> ReadRange:
        (piece,) = open_cursors([scan], first + row, last + row)
        return lambda start, stop: cut(piece(start + row, stop + row))

    def cuts() -> list[int]:
        return sorted(
            {min(max(bound - row, 0), length) for bound in [*partition_bounds([scan], height), row, row + length]}
        )

    return PhysicalOperator(
        node, [scan], cuts, lambda start, stop: begin(start, stop)(start, stop), begin=begin, merged=cut, fresh=True
    )
