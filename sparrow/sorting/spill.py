"""Spill files of arrays and blocks, and the memory budget of a sort."""

from __future__ import annotations

import os
import tempfile
import threading
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from sparrow.errors import StorageError
from sparrow.kernels.coo import Block
from sparrow.runtime import memory, settings
from sparrow.sorting.tuning import tuning

__all__ = ["Segment", "SpillFile", "SpilledBlocks", "memory_budget"]


@dataclass(frozen=True, slots=True)
class Segment:
    """Array in a spill file."""

    offset: int
    count: int
    dtype: np.dtype[Any]


class SpillFile:
    """Arrays in an unnamed file of the temporary directory.

    The system deletes it when the process ends. Thread-safe.

    Raises
    ------
    StorageError
        If the directory is not writable, or its disk is full.
    """

    def __init__(self) -> None:
        self._folder = settings.current().temp_directory
        self._size = 0
        self._file: IO[bytes] | None = None
        self._closed = False
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """Bytes reserved in the file."""
        return self._size

    def reserve(self, count: int, dtype: np.dtype[Any]) -> Segment:
        """Allocate an array of shape (count,)."""
        with self._lock:
            segment = Segment(self._size, count, dtype)
            self._size += count * dtype.itemsize
        return segment

    def write(self, segment: Segment, start: int, array: NDArray[Any]) -> None:
        """Write elements of an array from ``start``."""
        offset = segment.offset + start * segment.dtype.itemsize
        try:
            with self._lock:
                if self._closed:
                    raise ValueError("the spill file is closed")
                if self._file is None:
                    self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115 - until close()
            view = _bytes(np.ascontiguousarray(array))
            while view:
                n_written = os.pwrite(self._file.fileno(), view[: 1 << 28], offset)
                offset += n_written
                view = view[n_written:]
        except OSError as error:
            raise StorageError(
                f"cannot spill {self._size} bytes to the disk of {self._folder!r}: {error.strerror or error}; "
                "free space, or set another directory with sp.config(temp_directory=...)"
            ) from error

    def append(self, array: NDArray[Any]) -> Segment:
        """Write an array and return its segment."""
        segment = self.reserve(len(array), array.dtype)
        self.write(segment, 0, array)
        return segment

    def read(self, segment: Segment, start: int, stop: int, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Read elements of an array, into ``out`` if given."""
        out = np.empty(max(stop - start, 0), segment.dtype) if out is None else out
        view = _bytes(out)
        offset = segment.offset + start * segment.dtype.itemsize
        while view:
            if self._file is None:
                raise ValueError("the spill file is closed, or was never written")
            n_read = os.preadv(self._file.fileno(), [view], offset)
            if n_read <= 0:
                raise StorageError(f"the spill file in {self._folder!r} was truncated")
            offset += n_read
            view = view[n_read:]
        return out

    def close(self) -> None:
        """Free the disk space."""
        self._closed = True
        if self._file is not None:
            self._file.close()
            self._file = None


class SpilledBlocks:
    """Blocks in a spill file."""

    def __init__(self, spool: SpillFile) -> None:
        self.spool = spool
        self.parts: list[tuple[Segment, ...]] = []
        self.low: list[int] = []
        """First leading coordinate of each block."""
        self.high: list[int] = []

    def append(self, block: Block) -> None:
        """Write a block."""
        self.parts.append(tuple(map(self.spool.append, (*block.coords, block.values))))
        if block.coords:
            self.low.append(int(block.coords[0][0]))
            self.high.append(int(block.coords[0][-1]))

    def counts(self) -> list[int]:
        """Return the number of elements of each block."""
        return [part[-1].count for part in self.parts]

    def append_from(self, other: SpilledBlocks, at: int) -> None:
        """Append a block that is already in the file, written through ``other``."""
        self.parts.append(other.parts[at])
        self.low.append(other.low[at])
        self.high.append(other.high[at])

    def read(self, at: int, start: int = 0, stop: int | None = None) -> Block:
        """Read a block, or a slice of it."""
        stop = self.parts[at][-1].count if stop is None else stop
        *coords, values = (self.spool.read(segment, start, stop) for segment in self.parts[at])
        return Block(tuple(coords), values)

    def column(self, at: int, axis: int) -> NDArray[Any]:
        """Read the coordinates of a block along an axis."""
        segment = self.parts[at][axis]
        return self.spool.read(segment, 0, segment.count)

    def concat(self) -> Block:
        """Read all elements as one block, without a second copy."""
        columns = list(zip(*self.parts, strict=True))
        arrays = [np.empty(sum(segment.count for segment in column), column[0].dtype) for column in columns]
        for array, column in zip(arrays, columns, strict=True):
            start = 0
            for segment in column:
                self.spool.read(segment, 0, segment.count, array[start : start + segment.count])
                start += segment.count
        return Block(tuple(arrays[:-1]), arrays[-1])


def _bytes(array: NDArray[Any]) -> memoryview:
    view: Any = array.view(np.uint8)
    return memoryview(view)


def memory_budget() -> int:
    """Return the bytes of rows in memory above which they are spilled."""
    limits = tuning()
    if limits.budget_bytes is not None:
        return limits.budget_bytes
    minimum = max(memory.working_bytes() // 6, limits.min_budget_bytes)
    minimum = min(minimum, limits.max_floor_bytes, memory.limit() // 4)
    return memory.share(limits.memory_parts, minimum=minimum, unreserved=limits.unreserved_bytes)
