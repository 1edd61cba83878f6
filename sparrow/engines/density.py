"""Density maps: stored elements counted on a coarse grid, in one scan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import RangeAxis
from sparrow.engines.chunks import scan_chunks
from sparrow.engines.tuning import tuning
from sparrow.kernels.coo import Block
from sparrow.plan import Scan
from sparrow.relations.protocol import Chunk
from sparrow.runtime import settings
from sparrow.runtime.thread_pool import ordered_map

__all__ = ["DensityGrid", "DensityMap", "density", "spread_chunks"]


@dataclass(frozen=True)
class DensityMap:
    """Stored elements counted on a grid over two axes."""

    counts: NDArray[np.float64]
    """Shape (H, W): stored elements in each cell of the grid; estimates if ``sampled``."""
    extent: tuple[int, int]
    """The sizes of the two axes."""
    sampled: bool
    """True if only some of the row groups were read."""

    @property
    def is_even(self) -> bool:
        """True if all cells have about as many elements, as those of a random matrix.

        The variance of counts of elements at random positions is their mean (Poisson).
        """
        mean = float(self.counts.mean()) if self.counts.size else 0.0
        return self.counts.size > 1 and mean >= 8 and float(self.counts.min()) > 0 and self.counts.var() <= 1.5 * mean


def spread_chunks(count: int, limit: int) -> NDArray[np.int64]:
    """Return the numbers of at most ``limit`` chunks, evenly spread over all.

    The first and the last are among them if the limit is at least 2.
    """
    if count <= limit:
        return np.arange(count)
    return np.unique(np.linspace(0, count - 1, limit).round().astype(np.int64)) if limit > 1 else np.zeros(1, np.int64)


class DensityGrid:
    """Grid over two axes of a scan, to which the elements of chunks are added.

    Chunks that are not read are estimated from what is known without reading them: their number of elements and their
    bounding boxes. Within its box the columns of a chunk are distributed as those of the nearest chunks that were read.

    Parameters
    ----------
    scan
        Scan of a relation.
    axes
        The vertical and the horizontal axis.
    bins
        Cells of the grid along the longer axis, at most one per index.
    """

    def __init__(self, scan: Scan, axes: tuple[int, int], bins: int) -> None:
        self._scan, self._axes = scan, axes
        self._sizes = (scan.schema.shape[axes[0]], scan.schema.shape[axes[1]])
        self._cells = tuple(min(bins, max(size, 1)) for size in self._sizes)
        self._counts = np.zeros(self._cells)
        self._profiles: dict[int, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}

    def add(self, number: int, block: Block) -> None:
        """Add the elements of a chunk, given its number."""
        position: NDArray[Any] = np.zeros(block.count, dtype=np.int64)
        for axis, size, n in zip(self._axes, self._sizes, self._cells, strict=True):
            position = position * n + _cell_of(block.coords[axis], size, n)
        found = np.bincount(position, minlength=self._counts.size).reshape(self._cells)
        self._counts += found
        self._profiles[number] = found.sum(axis=1).astype(np.float64), found.sum(axis=0).astype(np.float64)

    def estimate(self, chunks: Sequence[Chunk]) -> DensityMap:
        """Return the map, with estimates of the chunks that were not added."""
        numbers = np.array(sorted(self._profiles), np.int64)
        unread = [number for number in range(len(chunks)) if number not in self._profiles] if len(numbers) else []
        for number in unread:
            after = int(np.searchsorted(numbers, number))
            ends = [int(numbers[max(after - 1, 0)]), int(numbers[min(after, len(numbers) - 1)])]
            share = (number - ends[0]) / (ends[1] - ends[0]) if ends[1] > ends[0] else 0.0
            parts = [self._within(chunks[number], k, ends, share) for k in range(2)]
            self._counts += chunks[number].rows * np.outer(*parts)
        return DensityMap(self._counts, self._sizes, bool(unread))

    def _within(self, chunk: Chunk, k: int, ends: list[int], share: float) -> NDArray[np.float64]:
        """Return the estimated distribution of a chunk along one of the axes."""
        n, size = self._cells[k], self._sizes[k]
        axis = self._scan.view.axes[self._axes[k]]
        first, last = 0, n - 1
        leading = False
        if isinstance(axis, RangeAxis):
            places = sorted((bound[axis.dim] - axis.start) // axis.step for bound in (chunk.low, chunk.high))
            first, last = (int(_cell_of(np.array([min(max(at, 0), size - 1)]), size, n)[0]) for at in places)
            leading = axis.dim == self._scan.relation.orders[0][0]
        inside = np.zeros(n)
        inside[first : last + 1] = 1.0
        if not leading:  # along the leading dimension chunks follow each other
            before, after = (self._profiles[end][k] for end in ends)
            near = inside * ((1 - share) * before / max(before.sum(), 1) + share * after / max(after.sum(), 1))
            inside = near if near.any() else inside
        out: NDArray[np.float64] = inside / inside.sum()
        return out


def _cell_of(column: NDArray[Any], size: int, n: int) -> NDArray[np.int64]:
    """Return the cell of each coordinate along an axis of n cells."""
    at = column // -(-size // n) if size * n >= 2**63 else column.astype(np.int64) * n // size
    return at.astype(np.int64, copy=False)


def density(scan: Scan, axes: tuple[int, int], bins: int, sample: bool) -> DensityMap:
    """Return the number of stored elements in each cell of a grid over two axes.

    Parameters
    ----------
    axes
        The vertical and the horizontal axis.
    bins
        Cells of the grid along the longer axis, at most one per index.
    sample
        Read a limited number of chunks, evenly spread in the scan order, and estimate the others.
    """
    found = scan_chunks(scan, axes)
    grid, chunks = DensityGrid(found.scan, axes, bins), found.chunks
    numbers = spread_chunks(len(chunks), tuning().density_sample_chunks if sample else len(chunks))
    blocks = ordered_map(lambda number: found.read(chunks[number]), numbers.tolist(), settings.current().threads)
    for number, block in zip(numbers.tolist(), blocks, strict=True):
        grid.add(number, block)
    return grid.estimate(chunks)
