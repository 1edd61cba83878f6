"""Density maps: stored elements counted on a coarse grid, in one scan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import RangeAxis
from sparrow.engines.sort_orders import scan_order
from sparrow.engines.stream import lower
from sparrow.engines.stream.scan_reader import iter_blocks
from sparrow.engines.tuning import tuning
from sparrow.plan import Scan

__all__ = ["DensityMap", "density"]


@dataclass(frozen=True)
class DensityMap:
    """Stored elements counted on a grid over two axes."""

    counts: NDArray[np.float64]
    """Shape (H, W): stored elements in each cell of the grid; estimates if ``sampled``."""
    extent: tuple[int, int]
    """The sizes of the two axes."""
    sampled: bool
    """True if only some of the row groups were read."""


def density(scan: Scan, axes: tuple[int, int], bins: int, sample: bool) -> DensityMap:
    """Return the number of stored elements in each cell of a grid over two axes.

    Parameters
    ----------
    axes
        The vertical and the horizontal axis.
    bins
        Cells of the grid along the longer axis, at most one per index.
    sample
        Read a limited number of chunks, evenly spread in the scan order, each standing for those up to the next.
    """
    (scan,) = lower([scan])
    sizes = (scan.schema.shape[axes[0]], scan.schema.shape[axes[1]])
    cells = tuple(min(bins, max(size, 1)) for size in sizes)
    grid = np.zeros(cells[0] * cells[1])
    order = scan_order(scan)
    chunks = scan.relation.chunks(scan.view.box(), order) if scan.view.size else []
    stride = -(-len(chunks) // tuning().density_sample_chunks) if sample else 1
    is_read = [np.zeros(n, dtype=bool) for n in cells]
    for block in iter_blocks(scan, order, chunks[:: max(stride, 1)]):
        position: NDArray[Any] = np.zeros(block.count, dtype=np.int64)
        for axis, size, n, strips in zip(axes, sizes, cells, is_read, strict=True):
            column = block.coords[axis]
            at = column // -(-size // n) if size * n >= 2**63 else column.astype(np.int64) * n // size
            strips[at] = True
            position = position * n + at
        grid += np.bincount(position, minlength=len(grid))
    counts = grid.reshape(cells)
    if stride > 1:
        leading = next((k for k, axis in enumerate(axes) if _runs_along(scan, axis, order[0])), None)
        if leading is not None:
            counts = np.take(counts, _nearest_read(is_read[leading]), axis=leading)
    return DensityMap(counts, sizes, stride > 1)


def _runs_along(scan: Scan, axis: int, dim: int) -> bool:
    """Return whether an axis of the view runs along a dimension of the base."""
    found = scan.view.axes[axis]
    return isinstance(found, RangeAxis) and found.dim == dim


def _nearest_read(is_read: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return for each strip the last one read at or before it, or the first one read."""
    if not is_read.any():
        return np.arange(len(is_read))
    known = np.maximum.accumulate(np.where(is_read, np.arange(len(is_read)), -1))
    known[known < 0] = np.flatnonzero(is_read)[0]
    return known
