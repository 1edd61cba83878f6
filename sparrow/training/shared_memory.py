"""Parameters in shared memory, with a journal per shard for atomic row updates.

A block holds the number of pushes, a journal for each shard, and the rows, each followed by its optimizer state.
Updated rows are written to the journal first, then to their place; if a process dies in between, the next one to lock
the shard replays the journal.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.errors import SparrowError, StorageError, TooLargeError
from sparrow.runtime import events, memory
from sparrow.training.tuning import tuning

__all__ = ["ParameterBlock", "ParameterLayout", "allocate", "journal_rows", "release", "translate_os_errors"]

_SHM_FOLDER = "/dev/shm"


def journal_rows(shape: tuple[int, ...], dtype: np.dtype[Any], states: int, shards: int) -> int:
    """Return the number of rows that a journal holds."""
    row_bytes = (1 + states) * int(np.prod(shape[1:], dtype=np.int64)) * dtype.itemsize
    return max(min(tuning().journal_bytes // max(row_bytes, 1), -(-shape[0] // shards)), 1)


@dataclass(frozen=True, slots=True)
class ParameterLayout:
    """Location and layout of the block of a parameter."""

    name: str
    """Name of the shared memory."""
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    states: int
    """Number of arrays of the optimizer state."""
    shards: int
    lock_offset: int
    """Byte of the lock file for the first shard; the byte before it locks the number of pushes."""
    journal_rows: int
    """Rows of a shard that are updated at once."""

    @property
    def width(self) -> int:
        """Number of elements of a row."""
        return int(np.prod(self.shape[1:], dtype=np.int64))

    def bounds(self, shard: int) -> tuple[int, int]:
        """Return the row bounds [start, stop) of a shard."""
        return self.shape[0] * shard // self.shards, self.shape[0] * (shard + 1) // self.shards

    @property
    def row_bytes(self) -> int:
        """Size of a row with its states, in bytes."""
        return (1 + self.states) * self.width * self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Size of the block, in bytes."""
        journals = self.shards * self.journal_rows * (8 + self.row_bytes)
        return 8 * (1 + self.shards) + journals + self.shape[0] * self.row_bytes


class ParameterBlock:
    """Arrays of a parameter, mapped into this process."""

    def __init__(self, layout: ParameterLayout, memory: SharedMemory) -> None:
        self.layout, self.memory = layout, memory
        self._offset = 0
        shards, width, arrays = layout.shards, layout.width, 1 + layout.states
        self.pushes = self._map((1,), np.int64)
        self.pending = self._map((shards,), np.int64)
        """Number of journaled rows of each shard that may not be in their place yet."""
        self.ids = self._map((shards, layout.journal_rows), np.int64)
        self.journal = self._map((shards, layout.journal_rows, arrays, width), layout.dtype)
        self.rows = self._map((layout.shape[0], arrays, width), layout.dtype)
        """Weights of each row, then its states."""

    def _map(self, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        array = np.ndarray(shape, dtype, self.memory.buf, self._offset)
        self._offset += array.nbytes
        return array

    def commit(self, shard: int, ids: NDArray[np.int64], rows: NDArray[Any]) -> None:
        """Update rows of a shard atomically, even if the process dies."""
        count = len(ids)
        self.ids[shard, :count] = ids
        self.journal[shard, :count] = rows
        self.pending[shard] = count
        self.replay_journal(shard)

    def replay_journal(self, shard: int) -> None:
        """Write journaled rows to their place."""
        count = int(self.pending[shard])
        if count:
            ids, values = self.ids[shard, :count], self.journal[shard, :count]
            events.emit("training.replay_journal", rows=self.rows, ids=ids, values=values)
            self.rows[ids] = values
            self.pending[shard] = 0

    def close(self) -> None:
        """Unmap the block."""
        del self.pushes, self.pending, self.ids, self.journal, self.rows
        self.memory.close()


def release(
    blocks: dict[int | str, ParameterBlock],
    file: int,
    path: str,
    layouts: dict[int | str, ParameterLayout],
    owner: int,
) -> None:
    """Unmap all parameters; in the process that created them, delete them."""
    for block in blocks.values():
        if os.getpid() == owner:
            block.memory.unlink()
        block.close()
    blocks.clear()
    layouts.clear()
    os.close(file)
    if os.getpid() == owner:
        os.unlink(path)


def allocate(nbytes: int, task: str) -> SharedMemory:
    """Return new shared memory; raise ``TooLargeError`` if the machine lacks it.

    Without the check, writing beyond the available memory kills the process.
    """
    memory.check(nbytes, task, "use float32")
    if os.path.isdir(_SHM_FOLDER):
        stat = os.statvfs(_SHM_FOLDER)
        free = stat.f_bavail * stat.f_frsize
        if nbytes > free:
            raise TooLargeError(
                f"{task} requires {nbytes} bytes of shared memory, {_SHM_FOLDER} has {free} free: enlarge it (of a "
                "container, with --shm-size), or use float32"
            )
    with translate_os_errors(f"create shared memory for {task}"):
        resource_tracker.ensure_running()  # it needs open files too, and would fail after the memory was created
        return SharedMemory(create=True, size=nbytes)


_WAYS_OUT = {
    errno.EMFILE: "close files, or raise the limit of open files (ulimit -n)",
    errno.ENFILE: "close files of other processes",
    errno.EFBIG: "raise the limit of file sizes (ulimit -f)",
    errno.ENOSPC: "free some space",
}


@contextmanager
def translate_os_errors(task: str) -> Iterator[None]:
    """Raise ``StorageError`` with a way out for an error of the operating system."""
    try:
        yield
    except SparrowError:
        raise
    except OSError as error:
        way = _WAYS_OUT.get(error.errno or 0)
        problem = f"cannot {task}: {error.strerror or error}{f': {way}' if way else ''}"
        raise StorageError(problem) from error
