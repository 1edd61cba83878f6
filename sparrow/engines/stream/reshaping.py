"""Rearrangements that are no views: cells joined, regrouped and cut by their position, lazily and piece by piece."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparrow.engines.stream.computed import Computed, fit_one_piece, piece_of, pieces
from sparrow.kernels.entries import Block, canonical, concatenate
from sparrow.plan import Concat, Diagonal, Reshape, Scan, Triangle, starts_of

__all__ = ["diagonal", "joined", "reshaped", "triangle"]


def joined(node: Concat, *scans: Scan) -> Computed:
    """Return scans joined along an axis."""
    axis, schema = node.axis, node.schema
    shape, dtype = schema.shape, schema.dtype
    starts = starts_of(node)

    def shifted(block: Block, by: int) -> Block:
        coords = block.coords
        if by:
            moved = coords[axis].astype(schema.coordinate_dtype(axis), copy=False) + by
            coords = (*coords[:axis], moved, *coords[axis + 1 :])
        return Block(coords, block.values if block.values.dtype == dtype else block.values.astype(dtype))

    def cuts() -> list[int]:
        if axis or fit_one_piece(scans):
            return pieces(scans, shape[0])
        bounds = [0]
        for scan, start in zip(scans, starts, strict=False):
            bounds.extend(start + bound for bound in pieces([scan], scan.schema.shape[0])[1:])
        return bounds

    def evaluate(start: int, stop: int) -> Block:
        found = []
        for scan, offset in zip(scans, starts, strict=False):
            low, high = (start, stop) if axis else (max(start - offset, 0), min(stop - offset, scan.schema.shape[0]))
            if low < high:
                found.append(shifted(piece_of(scan, low, high), offset))
        block = concatenate(found, schema.ndim, dtype)
        return block if axis == 0 else canonical(block, shape, schema.fill_value, keep_fill=True)

    return Computed(node, scans, cuts, evaluate)


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
        # Positions are counted from the first leading index read; where they pass 2^63 all the same, Python's
        # integers hold them.
        cells = (end - base + 1) * outer
        kind: Any = np.int32 if cells < 2**31 else np.int64 if cells < 2**63 else object
        position = block.coords[0].astype(kind) if old else np.zeros(block.count, kind)
        position = position - base if base else position
        for column, size in zip(block.coords[1:], old[1:], strict=True):
            position = position * size + column
        offset, values = low - base * outer, block.values
        if offset or high < end * outer:
            kept = (position >= offset) & (position < offset + (high - low))
            position, values = position[kept] - offset, values[kept]
        coords = []
        for k in range(len(shape) - 1, 0, -1):
            quotient = position // max(shape[k], 1)
            coords.append((position - quotient * shape[k]).astype(schema.coordinate_dtype(k), copy=False))
            position = quotient
        if shape:
            leading = position.astype(schema.coordinate_dtype(0), copy=False)
            coords.append(leading + start if start else leading)
        return Block(tuple(reversed(coords)), values)

    return Computed(node, [scan], cuts, evaluate)


def triangle(node: Triangle, scan: Scan) -> Computed:
    """Return the cells of the last two axes on one side of a diagonal."""
    schema, k = node.schema, node.k

    def evaluate(start: int, stop: int) -> Block:
        block = piece_of(scan, start, stop)
        distance = block.coords[-1] - block.coords[-2]  # of coordinates, none negative: it fits their type
        return block.take(np.flatnonzero(distance >= k if node.upper else distance <= k))

    return Computed(node, [scan], lambda: pieces([scan], schema.shape[0]), evaluate)


def diagonal(node: Diagonal, scan: Scan) -> Computed:
    """Return the diagonal of a matrix."""
    offset, schema = node.offset, node.schema
    height = scan.schema.shape[0]
    row = max(-offset, 0)
    length = schema.shape[0]

    def evaluate(start: int, stop: int) -> Block:
        block = piece_of(scan, start + row, stop + row)
        kept = np.flatnonzero(block.coords[1] - block.coords[0] == offset)
        place = block.coords[0][kept].astype(schema.coordinate_dtype(0)) - row
        return Block((place,), block.values[kept])

    def cuts() -> list[int]:
        return sorted({min(max(bound - row, 0), length) for bound in [*pieces([scan], height), row, row + length]})

    return Computed(node, [scan], cuts, evaluate)
