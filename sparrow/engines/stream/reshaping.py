"""Rearrangements that are no views: cells joined, regrouped and cut by their position, lazily and piece by piece."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.stream.computed import Computed, fit_one_piece, piece_of, pieces
from sparrow.kernels.entries import Block, canonical
from sparrow.plan import Concat, Diagonal, Reshape, Scan, Triangle, starts_of
from sparrow.schema import Schema

__all__ = ["diagonal", "joined", "reshaped", "triangle"]


def joined(node: Concat, *scans: Scan) -> Computed:
    """Return scans joined along an axis."""
    axis, schema = node.axis, node.schema
    shape, dtype = schema.shape, schema.dtype
    starts = starts_of(node)

    def joined_at(offsets: Sequence[int], blocks: Sequence[Block]) -> Block:
        coords: list[Sequence[NDArray[Any]]] = list(zip(*[block.coords for block in blocks], strict=True))
        kind = schema.coordinate_dtypes[axis]
        along = zip(coords[axis], offsets, strict=True)
        coords[axis] = [column.astype(kind, copy=False) + by if by else column for column, by in along]
        if len(blocks) == 1:
            return Block(tuple([column for (column,) in coords]), blocks[0].values.astype(dtype, copy=False))
        values = np.concatenate([block.values for block in blocks]).astype(dtype, copy=False)
        block = Block(tuple(map(np.concatenate, coords)), values)
        return block if axis == 0 else canonical(block, shape, schema.fill_value, keep_fill=True)

    def cuts() -> list[int]:
        if axis or fit_one_piece(scans):
            return pieces(scans, shape[0])
        bounds = [0]
        for scan, start in zip(scans, starts, strict=False):
            bounds.extend(start + bound for bound in pieces([scan], scan.schema.shape[0])[1:])
        return bounds

    def evaluate(start: int, stop: int) -> Block:
        offsets, found = [], []
        for scan, offset in zip(scans, starts, strict=False):
            low, high = (start, stop) if axis else (max(start - offset, 0), min(stop - offset, scan.schema.shape[0]))
            if low < high:
                offsets.append(offset)
                found.append(piece_of(scan, low, high))
        return joined_at(offsets, found)

    return Computed(
        node, scans, cuts, evaluate, merged=lambda *blocks: joined_at(starts[:-1], blocks), fresh=len(scans) > 1
    )


def reshaped(node: Reshape, scan: Scan) -> Computed:
    """Return the cells of a scan in another shape of as many cells, in row-major order."""
    old, schema = scan.schema.shape, node.schema
    shape = schema.shape
    inner, outer = math.prod(shape[1:]), math.prod(old[1:])

    def cuts() -> list[int]:
        if not shape:
            return [0, 1]
        if inner and fit_one_piece([scan]):
            return [0, shape[0]]
        bounds = pieces([scan], old[0]) if old else [0, 1]
        return sorted({0, shape[0], *(bound * outer // inner for bound in bounds)}) if inner else [0]

    def evaluate(start: int, stop: int) -> Block:
        low = start * inner if shape else 0
        high = stop * inner if shape else 1
        base = low // outer if old else 0
        end = -(-high // outer) if old else 1
        block = piece_of(scan, base, end)
        position, values = _positions(block, old, base, end), block.values
        offset = low - base * outer
        if offset or high < end * outer:
            kept = (position >= offset) & (position < offset + (high - low))
            position, values = position[kept] - offset, values[kept]
        return _placed(position, values, schema, start)

    def merged(block: Block) -> Block:
        return _placed(_positions(block, old, 0, old[0] if old else 1), block.values.copy(), schema, 0)

    return Computed(node, [scan], cuts, evaluate, merged=merged, fresh=len(shape) > 1 or len(old) > 1)


def _positions(block: Block, shape: tuple[int, ...], base: int, end: int) -> NDArray[Any]:
    """Return the places of entries in row-major order, counted from the leading index ``base`` and up to ``end``."""
    cells = (end - base + 1) * math.prod(shape[1:])
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


def triangle(node: Triangle, scan: Scan) -> Computed:
    """Return the cells of the last two axes on one side of a diagonal."""
    schema, k = node.schema, node.k

    def cut(block: Block) -> Block:
        distance = block.coords[-1] - block.coords[-2]  # of coordinates, none negative: it fits their type
        return block.take((distance >= k if node.upper else distance <= k).nonzero()[0])

    def evaluate(start: int, stop: int) -> Block:
        return cut(piece_of(scan, start, stop))

    return Computed(node, [scan], lambda: pieces([scan], schema.shape[0]), evaluate, merged=cut, fresh=True)


def diagonal(node: Diagonal, scan: Scan) -> Computed:
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

    def evaluate(start: int, stop: int) -> Block:
        return cut(piece_of(scan, start + row, stop + row))

    def cuts() -> list[int]:
        return sorted({min(max(bound - row, 0), length) for bound in [*pieces([scan], height), row, row + length]})

    return Computed(node, [scan], cuts, evaluate, merged=cut, fresh=True)
