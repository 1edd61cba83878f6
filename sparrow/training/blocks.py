"""Rows of parameters in shared memory: how a block is laid out, and how rows change so that they are always whole.

A block is the number of pushes, for each shard a journal, and the rows, each with the optimiser's state of it. Rows
that change are written to the journal first, then to their places: whoever comes next finishes what a process that
died there began.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.errors import TooLargeError
from sparrow.runtime import memory

__all__ = ["JOURNAL", "Block", "Entry", "finish", "shared"]

_SHARED = "/dev/shm"
JOURNAL = 1 << 20
"""Bytes of a shard's journal, unless it is for one row that has more."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A parameter: where its block is, and how it is laid out."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    states: int
    """Arrays of the optimiser's state."""
    shards: int
    place: int
    """The byte of the lock file that stands for its first shard; the one before it stands for the count of pushes."""

    @property
    def width(self) -> int:
        """Numbers in a row."""
        return int(np.prod(self.shape[1:], dtype=np.int64))

    def bounds(self, shard: int) -> tuple[int, int]:
        """Return the rows of a shard."""
        return self.shape[0] * shard // self.shards, self.shape[0] * (shard + 1) // self.shards

    @property
    def row_bytes(self) -> int:
        """Bytes of a row with its states."""
        return (1 + self.states) * self.width * self.dtype.itemsize

    @property
    def journal(self) -> int:
        """The most rows of a shard that change at once."""
        return max(min(JOURNAL // max(self.row_bytes, 1), -(-self.shape[0] // self.shards)), 1)

    @property
    def nbytes(self) -> int:
        """Bytes of the block."""
        journals = self.shards * self.journal * (8 + self.row_bytes)
        return 8 * (1 + self.shards) + journals + self.shape[0] * self.row_bytes


class Block:
    """The arrays of a parameter in this process."""

    def __init__(self, entry: Entry, memory: SharedMemory) -> None:
        self.entry, self.memory = entry, memory
        self._at = 0
        shards, width, kinds = entry.shards, entry.width, 1 + entry.states
        self.pushes = self._array((1,), np.int64)
        self.pending = self._array((shards,), np.int64)
        """Of each shard how many rows of its journal are on their way to their places."""
        self.ids = self._array((shards, entry.journal), np.int64)
        self.journal = self._array((shards, entry.journal, kinds, width), entry.dtype)
        self.rows = self._array((entry.shape[0], kinds, width), entry.dtype)
        """Of each row its weights, then its states."""

    def _array(self, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        array = np.ndarray(shape, dtype, self.memory.buf, self._at)
        self._at += array.nbytes
        return array

    def commit(self, shard: int, ids: NDArray[np.int64], rows: NDArray[Any]) -> None:
        """Write rows of a shard, so that either all of them are written or none, whenever the process dies."""
        count = len(ids)
        self.ids[shard, :count] = ids
        self.journal[shard, :count] = rows
        self.pending[shard] = count
        self.settle(shard)

    def settle(self, shard: int) -> None:
        """Bring rows from the journal to their places; again from the beginning where a process died over it."""
        count = int(self.pending[shard])
        if count:
            _place(self.rows, self.ids[shard, :count], self.journal[shard, :count])
            self.pending[shard] = 0

    def close(self) -> None:
        """Let go of the block."""
        del self.pushes, self.pending, self.ids, self.journal, self.rows
        self.memory.close()


def _place(rows: NDArray[Any], ids: NDArray[np.int64], values: NDArray[Any]) -> None:
    rows[ids] = values


def finish(blocks: dict[int | str, Block], file: int, path: str, entries: dict[int | str, Entry], owner: int) -> None:
    """Let go of the parameters, and in the process that made them take them away."""
    for block in blocks.values():
        if os.getpid() == owner:
            block.memory.unlink()
        block.close()
    blocks.clear()
    entries.clear()
    os.close(file)
    if os.getpid() == owner:
        os.unlink(path)


def shared(nbytes: int, what: str) -> SharedMemory:
    """Return new shared memory, if the machine has so much: writing to what is not there kills a process."""
    memory.check(nbytes, what, "use float32")
    if os.path.isdir(_SHARED):
        found = os.statvfs(_SHARED)
        free = found.f_bavail * found.f_frsize
        if nbytes > free:
            raise TooLargeError(
                f"{what} takes {nbytes} bytes of shared memory, and {_SHARED} has {free} free: make it larger (of a "
                "container, by --shm-size), or use float32"
            )
    return SharedMemory(create=True, size=nbytes)
