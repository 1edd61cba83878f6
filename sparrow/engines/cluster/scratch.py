"""Folder of a job, for arrays between this process and its tasks."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import uuid
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.cluster.tuning import tuning
from sparrow.errors import WorkerError
from sparrow.kernels.coo import Block
from sparrow.runtime import settings
from sparrow.storage import count_files

__all__ = [
    "Scratch", "array_result", "block_result", "check_visible", "map_array", "pack_array", "scratch_folder",
    "store_array",
]  # fmt: skip

_PREFIX = "sparrow-cluster-"
_MARK = "job"


def scratch_folder() -> str:
    """Return the folder that this process and its tasks share."""
    now = settings.current()
    return now.scratch or now.temp_directory


class Scratch:
    """A folder that exists for the length of a block, or until it is closed.

    Folders of processes of this machine that were killed are removed when the next one is created.

    Parameters
    ----------
    parent
        The folder that this process and its tasks share.
    """

    def __init__(self, parent: str) -> None:
        _sweep(parent)
        self.path = os.path.join(parent, f"{_PREFIX}{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:12]}")
        self._arrays: dict[int, tuple[NDArray[Any], _ArrayFile]] = {}
        self._owner = os.getpid()
        self.nbytes = 0
        """Bytes of the arrays that this process wrote."""

    def __enter__(self) -> Self:
        os.mkdir(self.path)
        with open(os.path.join(self.path, _MARK), "x"):
            return self

    def close(self) -> None:
        """Remove the folder, unless this is a fork of the process that created it."""
        if os.getpid() == self._owner:
            shutil.rmtree(self.path, ignore_errors=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def pack(self, array: NDArray[Any]) -> Any:
        """Return a large array as a file that tasks map into memory."""
        if array.nbytes < tuning().inline_bytes:
            return array
        found = self._arrays.get(id(array))
        if found is None:
            found = self._arrays[id(array)] = array, store_array(self.path, array)
            self.nbytes += array.nbytes
        return found[1]


@dataclass(frozen=True, slots=True)
class _ArrayFile:
    """An array in a file, which unpickles as the array."""

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any] = field(compare=False)

    def __len__(self) -> int:
        return self.shape[0]

    def __reduce__(self) -> tuple[Any, ...]:
        return map_array, (self.path,)


def map_array(path: str) -> Any:
    """Return an array of a file, mapped into memory.

    Raises
    ------
    WorkerError
        If this process does not see the folder of the job.
    """
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise _invisible(os.path.dirname(path)) from None


def _invisible(path: str) -> WorkerError:
    return WorkerError(
        f"scratch must be a folder that every worker sees, got {os.path.dirname(path)!r}, which does not show the "
        f"files of this job on {socket.gethostname()}: pass a shared folder, sp.config(scratch=...)"
    )


def check_visible(path: str) -> None:
    """Raise ``WorkerError`` in a task that does not see the folder of its job."""
    if not os.path.exists(os.path.join(path, _MARK)):
        raise _invisible(path)


def store_array(folder: str, array: NDArray[Any], name: str | None = None) -> Any:
    """Return an array as a new file of a folder, which unpickles as the array.

    Parameters
    ----------
    name
        Name of the file without its suffix, which is replaced if it exists; unique by default.
    """
    written = os.path.join(folder, f"{uuid.uuid4().hex}.npy")
    np.save(written, array, allow_pickle=False)
    path = written if name is None else os.path.join(folder, f"{name}.npy")
    os.replace(written, path)
    count_files(written=array.nbytes)
    return _ArrayFile(path, array.shape, array.dtype)


def pack_array(folder: str, array: NDArray[Any]) -> Any:
    """Return an array as it is pickled.

    A large one becomes a file of a folder, which unpickles as the array.
    """
    return array if array.nbytes < tuning().inline_bytes else store_array(folder, array)


def array_result(folder: str, array: NDArray[Any], max_bytes: int) -> Any:
    """Return an array as a result of a task: a large one as a new file."""
    return store_array(folder, array) if array.nbytes > max_bytes else array


def block_result(folder: str, block: Block, max_bytes: int) -> Block:
    """Return elements as a result of a task: many as new files, one a column."""
    if block.nbytes <= max_bytes:
        return block
    return Block(tuple(store_array(folder, column) for column in block.coords), store_array(folder, block.values))


def _sweep(parent: str) -> None:
    """Remove the folders of processes of this machine that ended without doing so."""
    mine = f"{_PREFIX}{socket.gethostname()}-"
    for name in os.listdir(parent):
        if name.startswith(mine):
            owner = name[len(mine) :].partition("-")[0]
            with contextlib.suppress(ValueError, PermissionError):
                try:
                    os.kill(int(owner), 0)
                except ProcessLookupError:
                    shutil.rmtree(os.path.join(parent, name), ignore_errors=True)
