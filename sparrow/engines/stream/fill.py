"""The cells of a tensor as entries beside another fill: what was absent is listed, piece by piece."""

from __future__ import annotations

import math

import numpy as np

from sparrow.core.schema import is_fill
from sparrow.engines.stream.operator import PhysicalOperator, ReadRange, open_cursors
from sparrow.kernels.coo import Block, write_dense
from sparrow.plan import Scan, WithFill

__all__ = ["refilled"]

_PIECE_CELLS = 1 << 20


def refilled(node: WithFill, scan: Scan) -> PhysicalOperator:
    """Return the cells of a scan as entries beside the fill of the node."""
    old, schema = scan.schema, node.schema
    shape = schema.shape

    def listed(block: Block, start: int, stop: int) -> Block:
        cells = np.full((stop - start, *shape[1:]) if shape else (), old.fill_value, old.dtype)
        write_dense(cells, Block((block.coords[0] - start, *block.coords[1:]), block.values) if shape else block)
        stored = ~is_fill(cells, schema.fill_value)
        coords = list(stored.nonzero()) if shape else []
        if shape:
            coords[0] += start
        columns = tuple(column.astype(schema.coordinate_dtype(dim)) for dim, column in enumerate(coords))
        return Block(columns, cells[stored])

    def cuts() -> list[int]:
        if not shape:
            return [0, 1]
        step = max(_PIECE_CELLS // max(math.prod(shape[1:]), 1), 1)
        return [*range(0, shape[0], step), shape[0]]

    def begin(first: int, last: int) -> ReadRange:
        (piece,) = open_cursors([scan], first, last)
        return lambda start, stop: listed(piece(start, stop), start, stop)

    return PhysicalOperator(node, [scan], cuts, lambda start, stop: begin(start, stop)(start, stop), begin=begin)
