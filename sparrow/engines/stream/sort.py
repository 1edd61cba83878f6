"""Lines of cells along one axis: sorted, which leaves them sparse, and added up from their start, which does not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.schema import Schema
from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.operator import PhysicalOperator, ReadRange, open_cursors, partition_bounds
from sparrow.kernels.coo import Block, write_dense
from sparrow.kernels.runs import group_starts, run_lengths
from sparrow.plan import Accumulate, Scan, Sort
from sparrow.runtime import memory

__all__ = ["accumulated", "sorted_lines"]


def sorted_lines(node: Sort, scan: Scan) -> PhysicalOperator:
    """Return the cells of a scan with each line along the last axis in order.

    The lines of a piece are sorted in memory; a vector is one line.
    """
    schema = node.schema
    shape = schema.shape

    def begin(first: int, last: int) -> ReadRange:
        if len(shape) == 1:
            return vector
        (piece,) = open_cursors([scan], first, last)
        return lambda start, stop: _sorted(piece(start, stop), schema)

    def vector(start: int, stop: int) -> Block:
        line = _sorted(scan_reader.read_block(scan), schema)
        first, last = np.searchsorted(line.coords[0], [start, stop])
        return line.take(slice(int(first), int(last)))

    def cuts() -> list[int]:
        return partition_bounds([scan], shape[0]) if len(shape) > 1 else [0, shape[0]] if shape[0] else [0]

    return PhysicalOperator(node, [scan], cuts, lambda start, stop: begin(start, stop)(start, stop), begin=begin)


def _sorted(block: Block, schema: Schema) -> Block:
    """Return canonical entries with those of each line in order, at the places that they then have."""
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


def accumulated(node: Accumulate, scan: Scan) -> NDArray[Any]:
    """Return what a ufunc makes of each line from its start up to each cell; entries are streamed into the array.

    Raises
    ------
    TooLargeError
        If the array would pass the memory limit.
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
