"""Rearrangements that are no views: cells joined, regrouped and cut by their position, lazily and piece by piece."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from sparrow.engines.derived import Derived, piece_of, pieces
from sparrow.errors import ShapeError, UnsupportedError
from sparrow.kernels.entries import Block, canonical, concatenate
from sparrow.plan import Concat, Diagonal, Reshape, Scan, Triangle
from sparrow.schema import Schema

__all__ = ["concatenated", "diagonal", "reshaped", "triangle"]


def concatenated(scans: Sequence[Scan], axis: int) -> Derived:
    """Return scans joined along an axis that they have; fills must be equal, dtypes are promoted.

    Raises
    ------
    ShapeError
        If shapes differ in another axis.
    UnsupportedError
        If fills differ.
    """
    first = scans[0].schema
    for scan in scans[1:]:
        other = scan.schema
        if other.ndim != first.ndim or any(
            n != m for k, (n, m) in enumerate(zip(first.shape, other.shape, strict=True)) if k != axis
        ):
            raise ShapeError(f"shapes {first.shape} and {other.shape} do not join along axis {axis}")
    dtype = np.result_type(*(scan.schema.dtype for scan in scans))
    fills = [scan.schema.fill_value.astype(dtype) for scan in scans]
    if any(not (fill == fills[0] or (fill != fill and fills[0] != fills[0])) for fill in fills):
        raise UnsupportedError(f"tensors of fills {', '.join(map(str, fills))} do not join: their fills must be equal")
    starts = [0, *itertools.accumulate(scan.schema.shape[axis] for scan in scans)]
    shape = (*first.shape[:axis], starts[-1], *first.shape[axis + 1 :])
    schema = Schema(shape, first.dims, dtype, fills[0])

    def shifted(block: Block, by: int) -> Block:
        moved = block.coords[axis].astype(schema.coordinate_dtype(axis)) + by
        coords = (*block.coords[:axis], moved, *block.coords[axis + 1 :])
        return Block(coords, block.values.astype(dtype, copy=False))

    def cuts() -> list[int]:
        if axis:
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

    return Derived(schema, scans, cuts, evaluate, node=Concat(tuple(scans), axis, schema))


def reshaped(scan: Scan, shape: tuple[int, ...]) -> Derived:
    """Return the cells of a scan in another shape of as many cells, in row-major order.

    Raises
    ------
    ShapeError
        If the numbers of cells differ.
    """
    old = scan.schema.shape
    if math.prod(old) != math.prod(shape):
        raise ShapeError(f"cannot reshape {old} of {math.prod(old)} cells into {shape} of {math.prod(shape)}")
    schema = Schema(shape, (), scan.schema.dtype, scan.schema.fill_value)
    inner, outer = math.prod(shape[1:]), math.prod(old[1:])

    def cuts() -> list[int]:
        if not shape:
            return [0, 1]
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
        position = np.zeros(block.count, dtype=object if (end - base + 1) * outer >= 2**63 else np.int64)
        for k, (column, size) in enumerate(zip(block.coords, old, strict=True)):
            position = position * size + (column - base if k == 0 else column)
        offset = low - base * outer
        kept = (position >= offset) & (position < offset + (high - low))
        position = position[kept] - offset
        coords = []
        for k in range(len(shape) - 1, 0, -1):
            quotient = position // max(shape[k], 1)
            coords.append((position - quotient * shape[k]).astype(schema.coordinate_dtype(k)))
            position = quotient
        if shape:
            coords.append(position.astype(schema.coordinate_dtype(0)) + start)
        return Block(tuple(reversed(coords)), block.values[kept])

    return Derived(schema, [scan], cuts, evaluate, node=Reshape(scan, schema))


def triangle(scan: Scan, k: int, upper: bool) -> Derived:
    """Return the cells of the last two axes on and above (below) the diagonal that lies ``k`` to the right.

    Raises
    ------
    ShapeError
        If the scan has fewer than two axes.
    """
    if scan.schema.ndim < 2:
        raise ShapeError(f"a triangle needs two axes, the tensor has shape {scan.schema.shape}")
    fill = scan.schema.dtype.type(0)
    if scan.schema.fill_value != 0:
        raise UnsupportedError(f"a triangle of a tensor of fill {scan.schema.fill_value} is dense: its rest is 0")
    schema = Schema(scan.schema.shape, scan.schema.dims, scan.schema.dtype, fill)

    def evaluate(start: int, stop: int) -> Block:
        block = piece_of(scan, start, stop)
        distance = block.coords[-1].astype(np.int64) - block.coords[-2]
        return block.take(distance >= k if upper else distance <= k)

    node = Triangle(scan, k, upper, schema)
    return Derived(schema, [scan], lambda: pieces([scan], schema.shape[0]), evaluate, node=node)


def diagonal(scan: Scan, offset: int) -> Derived:
    """Return the diagonal of a matrix that lies ``offset`` to the right.

    Raises
    ------
    ShapeError
        If the scan has not two axes.
    """
    if scan.schema.ndim != 2:
        raise ShapeError(f"a diagonal needs a matrix, the tensor has shape {scan.schema.shape}")
    height, width = scan.schema.shape
    row, column = max(-offset, 0), max(offset, 0)
    length = max(min(height - row, width - column), 0)
    schema = Schema((length,), (), scan.schema.dtype, scan.schema.fill_value)

    def evaluate(start: int, stop: int) -> Block:
        block = piece_of(scan, start + row, stop + row)
        kept = block.coords[1].astype(np.int64) - block.coords[0] == offset
        place = block.coords[0][kept].astype(schema.coordinate_dtype(0)) - row
        return Block((place,), block.values[kept])

    def cuts() -> list[int]:
        return sorted({min(max(bound - row, 0), length) for bound in [*pieces([scan], height), row, row + length]})

    return Derived(schema, [scan], cuts, evaluate, node=Diagonal(scan, offset, schema))
