"""Pictures of a window: elements counted in bins, refined chunk by chunk.

A picture starts from the key ranges of chunks alone. Chunks are then read in an order that is evenly spread at every
moment (van der Corput 1935). A chunk that was not read yet is drawn along the axis that the chunks are sorted by, where
its key range lies, with the number of elements that the nearest chunk read leads to expect and with that chunk's
distribution over the other axis. Once all chunks are read, all counts are exact.
"""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import RangeAxis
from sparrow.engines import scan_chunks
from sparrow.explorer.counters import DegreeCounter, ValueHistogram
from sparrow.explorer.tuning import tuning
from sparrow.kernels.coo import Block
from sparrow.plan import Scan
from sparrow.runtime import settings
from sparrow.runtime.events import emit
from sparrow.runtime.thread_pool import ordered_map

__all__ = ["Picture", "WindowCounts", "spread_order"]


def spread_order(count: int) -> NDArray[np.int64]:
    """Return ``range(count)`` in an order of which every beginning is evenly spread.

    Examples
    --------
    >>> spread_order(6).tolist()
    [0, 3, 2, 5, 1, 4]
    """
    bits = max(count.bit_length() - 1, 0)
    slots = np.arange(count, dtype=np.int64) * (1 << bits) // max(count, 1)
    keys = np.zeros_like(slots)
    for bit in range(bits):
        keys |= (slots >> bit & 1) << (bits - 1 - bit)
    keys[1:][slots[1:] == slots[:-1]] += 1 << bits  # the second of two in a slot follows all first ones
    return np.argsort(keys, kind="stable")


@dataclass(frozen=True)
class Picture:
    """Elements in the bins of a window."""

    counts: NDArray[np.float64]
    """Elements in each bin, shape (H, W) or (1, W); estimates unless all chunks were read."""
    sums: NDArray[np.float64] | None
    """Sums of their values, if they were asked for."""
    steps: tuple[int, ...]
    """Positions of a bin along each axis."""
    read: int
    """Chunks read."""
    chunks: int
    """Chunks that may hold elements of the window."""

    @property
    def is_exact(self) -> bool:
        """True if every element was counted."""
        return self.read == self.chunks


@dataclass(frozen=True)
class _Tally:
    """Counts of one chunk."""

    rows: int
    counts: NDArray[np.float64]
    sums: NDArray[np.float64] | None


class WindowCounts:
    """Counts of the elements of a window, of as many chunks as were read so far.

    Thread-safe: one thread at a time reads chunks.

    Parameters
    ----------
    scan
        Scan of the window.
    axes
        The vertical and the horizontal axis of the scan, or the axis of a vector.
    bins
        Largest number of bins along each axis.
    with_sums
        Add up values too.
    """

    def __init__(self, scan: Scan, axes: tuple[int, ...], bins: tuple[int, ...], with_sums: bool = False) -> None:
        found = scan_chunks(scan, axes)
        scan = found.scan
        self.axes = axes
        self.lengths = tuple(scan.schema.shape[axis] for axis in axes)
        self.steps = tuple(-(-max(length, 1) // max(n, 1)) for length, n in zip(self.lengths, bins, strict=True))
        self.cells = tuple(-(-length // step) for length, step in zip(self.lengths, self.steps, strict=True))
        self._scan, self._with_sums = scan, with_sums
        self.order, self._chunks, self._read = found.order, found.chunks, found.read
        count = len(self._chunks)
        self._queue = spread_order(count)
        self._rows = np.array([chunk.rows for chunk in self._chunks], np.float64)
        bounds = [
            np.array(side, np.int64).reshape(count, len(scan.view.base_shape))
            for side in ([chunk.low for chunk in self._chunks], [chunk.high for chunk in self._chunks])
        ]
        self._fractions = scan.view.box().overlap_fractions(*bounds) if count else np.zeros(0)
        self._ranges = [self._axis_range(axis, *bounds) for axis in axes]
        self._along = self._sorted_axis()
        """Number, among the axes, of the one that chunks are narrow in; None if there is none."""
        shape = self._grid_shape
        self._counts = np.zeros(shape)
        self._sums = np.zeros(shape) if with_sums else None
        other = shape[1 - self._along] if self._along is not None else 0
        self._profiles: list[NDArray[np.float32]] = []
        """Elements of each chunk read, by bin of the other axis."""
        self._sum_profiles: list[NDArray[np.float32]] = []
        self._profile_bytes = 4 * other * (1 + with_sums)
        self._inside: list[float] = []
        """Elements of each chunk read that lie in the window."""
        self.degrees = tuple(map(DegreeCounter, self.lengths))
        self.values = ValueHistogram(scan.schema.dtype)
        self._lock, self._counting = threading.Lock(), threading.Lock()

    @property
    def _grid_shape(self) -> tuple[int, int]:
        return (1, self.cells[0]) if len(self.cells) == 1 else (self.cells[0], self.cells[1])

    @property
    def num_chunks(self) -> int:
        """Chunks that may hold elements of the window."""
        return len(self._chunks)

    @property
    def num_read(self) -> int:
        """Chunks read so far."""
        return len(self._inside)

    @property
    def is_exact(self) -> bool:
        """True if every element was counted."""
        return self.num_read == self.num_chunks

    @property
    def nbytes(self) -> int:
        """Bytes of grids and counters."""
        arrays = (self._counts, self._sums, self._rows, *self._ranges)
        grids = sum(array.nbytes for array in arrays if array is not None) + self.num_chunks * self._profile_bytes
        return grids + sum(counter.nbytes for counter in self.degrees) + self.values.nbytes

    def _axis_range(self, axis: int, low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the first and last position of each chunk along an axis, clipped."""
        length = self._scan.schema.shape[axis]
        found = self._scan.view.axes[axis]
        if not isinstance(found, RangeAxis) or not len(low):
            return np.tile([0, length - 1], (len(low), 1))
        ends = [(side[:, found.dim] - found.start) // found.step for side in (low, high)]
        out: NDArray[np.int64] = np.stack([np.minimum(*ends), np.maximum(*ends)], axis=1)
        return out.clip(0, max(length - 1, 0))

    def _sorted_axis(self) -> int | None:
        """Return the axis that chunks cover the least of, if that is under half."""
        if len(self._chunks) < 2:
            return None
        covered = [
            float((ends[:, 1] - ends[:, 0] + 1).mean()) / max(n, 1)
            for ends, n in zip(self._ranges, self.lengths, strict=True)
        ]
        if len(covered) == 1:
            covered = [1.0, *covered]
        best = int(np.argmin(covered))
        return best if covered[best] < 0.5 else None

    def is_sorted_by(self, place: int) -> bool:
        """Return whether chunks hold all elements of most positions of an axis."""
        return self._along is not None and self._along - (2 - len(self.lengths)) == place

    # -- reading ----------------------------------------------------------------------------------

    def read(self, limit: int) -> None:
        """Read up to ``limit`` further chunks, fewer if that takes long."""
        deadline = time.monotonic() + tuning().step_seconds
        with self._lock:
            numbers = self._queue[self.num_read : self.num_read + limit].tolist()
            if not numbers:
                return
            emit("explorer.read", chunks=len(numbers), total=self.num_chunks)
            threads = min(settings.current().threads, len(numbers))
            in_time = itertools.takewhile(lambda number: number == numbers[0] or time.monotonic() < deadline, numbers)
            for tally in ordered_map(self._tally, in_time, threads):
                self._add(tally)

    def _tally(self, number: int) -> _Tally:
        """Read a chunk and count its elements."""
        chunk = self._chunks[number]
        block: Block = self._read(chunk)
        columns = tuple(block.coords[axis] for axis in self.axes)
        height, width = self._grid_shape
        at = self._bin(columns[-1], self.steps[-1])
        if len(columns) == 2:
            at += self._bin(columns[0], self.steps[0]) * width
        counts = np.bincount(at, minlength=height * width).reshape(height, width).astype(np.float64)
        sums: NDArray[np.float64] | None = None
        if self._with_sums:
            values = np.abs(block.values) if block.values.dtype.kind == "c" else block.values
            sums = np.bincount(at, values.astype(np.float64), height * width).reshape(height, width).astype(np.float64)
        with self._counting:
            for counter, positions in zip(self.degrees, columns, strict=True):
                counter.add(positions)
            self.values.add(block.values)
        return _Tally(block.count, counts, sums)

    @staticmethod
    def _bin(column: NDArray[Any], step: int) -> NDArray[np.int64]:
        return (column // step if step > 1 else column).astype(np.int64)

    def _add(self, tally: _Tally) -> None:
        self._counts += tally.counts
        if self._sums is not None and tally.sums is not None:
            self._sums += tally.sums
        if self._along is not None:
            self._profiles.append(tally.counts.sum(axis=self._along).astype(np.float32))
            if tally.sums is not None:
                self._sum_profiles.append(tally.sums.sum(axis=self._along).astype(np.float32))
        self._inside.append(float(tally.rows))

    # -- estimates --------------------------------------------------------------------------------

    def picture(self) -> Picture:
        """Return the counts, with estimates of the chunks that were not read."""
        with self._lock:
            counts, sums = self._counts, self._sums
            if not self.is_exact:
                counts, sums = self._estimate()
            else:
                counts, sums = counts.copy(), None if sums is None else sums.copy()
            return Picture(counts, sums, self.steps, self.num_read, self.num_chunks)

    def scale(self) -> float:
        """Return the estimated elements of the window, relative to those read."""
        with self._lock:
            read = sum(self._inside)
            if self.is_exact or not read:
                return 1.0
            unread = self._queue[self.num_read :]
            return 1.0 + float(self._expect(unread, self._nearest_read(unread)).sum()) / read

    def _nearest_read(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return for chunks the place, in the order of reading, of the nearest one read."""
        done = np.sort(self._queue[: self.num_read])
        places = np.argsort(self._queue[: self.num_read])
        right = np.clip(np.searchsorted(done, numbers), 0, len(done) - 1)
        left = np.maximum(right - 1, 0)
        closer = np.where(np.abs(done[left] - numbers) <= np.abs(done[right] - numbers), left, right)
        found: NDArray[np.int64] = places[closer]
        return found

    def _expect(self, unread: NDArray[np.int64], like: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the number of elements to expect of unread chunks in the window."""
        done = self._queue[: self.num_read]
        ideal = self._rows[done] * self._fractions[done]
        ratio = np.array(self._inside) / np.maximum(ideal, 1e-300)
        return np.minimum(self._rows[unread] * self._fractions[unread] * ratio[like], self._rows[unread])

    def _estimate(self) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        unread = np.sort(self._queue[self.num_read :])
        if self._along is None:
            if not self.num_read:
                total = self._rows[unread] @ self._fractions[unread]
                flat = np.full(self._counts.shape, total / max(self._counts.size, 1))
                return flat, None if self._sums is None else np.zeros_like(self._counts)
            ratio = 1.0 + float(self._expect(unread, self._nearest_read(unread)).sum()) / max(sum(self._inside), 1.0)
            return self._counts * ratio, None if self._sums is None else self._sums * ratio
        if not self.num_read:
            return self._from_ranges(unread), None if self._sums is None else np.zeros_like(self._counts)
        like = self._nearest_read(unread)
        strips = self._strips(unread, like, self._expect(unread, like), self.num_read)
        totals = np.maximum(np.array(self._inside), 1.0)[:, None].astype(np.float32)
        counts = self._counts + self._cross(strips, np.stack(self._profiles) / totals)
        if self._sums is None:
            return counts, None
        return counts, self._sums + self._cross(strips, np.stack(self._sum_profiles) / totals)

    def _cross(self, strips: NDArray[np.float32], profiles: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the grid of strips along one axis by profiles of the other."""
        return strips.T @ profiles if self._along == 0 else profiles.T @ strips

    def _strips(
        self, numbers: NDArray[np.int64], group: NDArray[np.int64], expected: NDArray[np.float64], groups: int
    ) -> NDArray[np.float32]:
        """Return elements by group of chunks and bin of the axis of the sort order."""
        place = (self._along or 0) - (2 - len(self.lengths))
        step, cells = self.steps[place], self.cells[place]
        low, high = self._ranges[place][numbers].T
        first, last = low // step, high // step
        lengths = last - first + 1
        chunk = np.repeat(np.arange(len(numbers)), lengths)
        cell = np.arange(len(chunk)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + first[chunk]
        inside = np.minimum(high[chunk] + 1, (cell + 1) * step) - np.maximum(low[chunk], cell * step)
        weight = (expected / (high - low + 1))[chunk] * inside
        found = np.bincount(group[chunk] * cells + cell, weight, groups * cells)
        return found.reshape(groups, cells).astype(np.float32)

    def _from_ranges(self, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the picture of unread chunks, even within their key ranges."""
        groups = min(len(numbers), tuning().range_groups)
        group = np.arange(len(numbers)) * groups // len(numbers)
        strips = self._strips(numbers, group, self._rows[numbers] * self._fractions[numbers], groups)
        if len(self.lengths) == 1:
            total: NDArray[np.float64] = strips.sum(axis=0, keepdims=True).astype(np.float64)
            return total
        other = 1 - (self._along or 0)
        step, cells = self.steps[other], self.cells[other]
        low = np.full(groups, self.lengths[other])
        high = np.zeros(groups, np.int64)
        np.minimum.at(low, group, self._ranges[other][numbers, 0])
        np.maximum.at(high, group, self._ranges[other][numbers, 1])
        starts = np.arange(cells) * step
        inside = np.minimum(high[:, None] + 1, starts + step) - np.maximum(low[:, None], starts)
        profiles = np.maximum(inside, 0) / (high - low + 1)[:, None]
        out: NDArray[np.float64] = self._cross(strips, profiles.astype(np.float32)).astype(np.float64)
        return out
