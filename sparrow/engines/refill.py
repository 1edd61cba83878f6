"""The cells of a tensor as entries beside another fill: what was absent is listed, piece by piece."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from sparrow import settings
from sparrow.engines.derived import Derived, piece_of
from sparrow.errors import TooLargeError
from sparrow.kernels.entries import Block
from sparrow.plan import Scan
from sparrow.schema import Schema, is_fill

__all__ = ["refilled"]

_PIECE_CELLS = 1 << 20


def refilled(scan: Scan, fill_value: Any, labels: Callable[[int], pa.Array | None]) -> Derived:
    """Return the cells of a scan as entries of a relation of fill ``fill_value``, with labels by dimension number.

    Raises
    ------
    TooLargeError
        If as many entries as there are cells would pass the memory limit.
    """
    old = scan.schema
    schema = Schema(old.shape, old.dims, old.dtype, fill_value)
    shape = schema.shape
    width = schema.dtype.itemsize + sum(schema.coordinate_dtype(dim).itemsize for dim in range(schema.ndim))
    nbytes, limit = schema.size * width, settings.current().memory_limit
    if nbytes > limit:
        raise TooLargeError(
            f"a tensor of shape {shape} and fill {old.fill_value} has an entry for nearly every cell once its fill is "
            f"{schema.fill_value}: {nbytes} bytes, beyond the memory limit of {limit}. Keep the storage type 'coo', "
            "take a smaller view, or raise the limit with sp.config(memory_limit=...)"
        )

    def evaluate(start: int, stop: int) -> Block:
        block = piece_of(scan, start, stop)
        cells = np.full((stop - start, *shape[1:]) if shape else (), old.fill_value, old.dtype)
        if shape:
            cells[(block.coords[0] - start, *block.coords[1:])] = block.values
        elif block.count:
            cells[...] = block.values[0]
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

    return Derived(schema, [scan], cuts, evaluate, labels)
