"""Lines of cells along one axis: sorted, which leaves them sparse, and added up from their start, which does not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow import settings
from sparrow.engines import stream
from sparrow.engines.derived import Derived, Evaluate, pieces, pieces_of
from sparrow.errors import TooLargeError, UnsupportedError
from sparrow.kernels.entries import Block
from sparrow.kernels.reduce import group_starts, run_lengths
from sparrow.plan import Scan
from sparrow.schema import Schema

__all__ = ["accumulated", "sorted_lines"]


def sorted_lines(scan: Scan) -> Derived:
    """Return the cells of a scan, each line along the last axis in ascending order, NaN last.

    In a line come the entries that are less than fill, then the absent cells, then the other entries: no cell becomes
    an entry that was none. The lines of a piece are sorted in memory; a vector is one line.
    """
    shape = scan.schema.shape
    schema = Schema(shape, scan.schema.dims, scan.schema.dtype, scan.schema.fill_value)

    def begin(first: int, last: int) -> Evaluate:
        if len(shape) == 1:
            return vector
        (piece,) = pieces_of([scan], first, last)
        return lambda start, stop: _sorted(piece(start, stop), schema)

    def vector(start: int, stop: int) -> Block:
        line = _sorted(stream.entries(scan), schema)
        first, last = np.searchsorted(line.coords[0], [start, stop])
        return line.take(slice(int(first), int(last)))

    def cuts() -> list[int]:
        return pieces([scan], shape[0]) if len(shape) > 1 else [0, shape[0]] if shape[0] else [0]

    return Derived(schema, [scan], cuts, lambda start, stop: begin(start, stop)(start, stop), begin=begin)


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


def accumulated(
    scan: Scan, ufunc: np.ufunc, axis: int | None, dtype: np.dtype[Any] | None = None, initial: Any = None
) -> NDArray[Any]:
    """Return what a ufunc makes of each line from its start up to each cell: an array, dense after the first entry.

    Parameters
    ----------
    scan
        What is added up; its entries are streamed into the array.
    ufunc
        ``np.add`` or ``np.multiply``.
    axis
        Along which; None means all cells in row-major order.
    dtype
        In which cells are added up, NumPy's choice by default.
    initial
        What stands before the first cell of each line, if that is wanted.

    Raises
    ------
    TooLargeError
        If the array would pass the memory limit.
    UnsupportedError
        If ``dtype`` drops the imaginary parts of complex cells.
    """
    schema = scan.schema
    if dtype is not None and schema.dtype.kind == "c" != dtype.kind:
        raise UnsupportedError(f"dtype={dtype} drops the imaginary parts of {schema.dtype}: take A.real first")
    if dtype is None:
        dtype = ufunc.accumulate(np.zeros(1, schema.dtype)).dtype
    along = schema.ndim - 1 if axis is None else axis
    before = 0 if initial is None else 1
    shape = tuple(n + before * (k == along) for k, n in enumerate(schema.shape))
    nbytes = math.prod(shape) * dtype.itemsize
    limit = settings.current().memory_limit
    if nbytes > limit:
        raise TooLargeError(
            f"running totals are dense: those of shape {shape} and type {dtype} take {nbytes} bytes, beyond the memory "
            f"limit of {limit}: take a part of the tensor, or raise the limit with sp.config(memory_limit=...)"
        )
    with np.errstate(all="ignore"):
        out = np.full(shape, initial if before else schema.fill_value, dtype)
        key: Any = tuple(slice(before * (k == along), None) for k in range(schema.ndim))
        cells = out[(*key, ...)]
        cells[...] = np.asarray(schema.fill_value).astype(dtype)
        for block in stream.blocks(scan):
            at: Any = (*block.coords, ...)
            cells[at] = block.values.astype(dtype) if schema.ndim else block.values[0]
        totals = cells.reshape(-1) if axis is None else cells
        ufunc.accumulate(totals, axis=axis or 0, out=totals)
    return totals if before == 0 else out
