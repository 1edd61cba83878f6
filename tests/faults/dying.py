"""Simulated kills and full disks: the n-th change of files fails, counted by events of storage."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import sparrow.testing


class Killed(BaseException):
    """The simulated end of a process: every later change of files raises it too, so no handler has any effect."""


class Events:
    """Count the system calls that change files and call ``reached`` from the n-th on."""

    def __init__(self, last: int, reached: Callable[[], None]) -> None:
        self.count = 0
        self._last, self._reached = last, reached

    def happen(self, name: str) -> None:
        """Count a call of this name."""
        self.count += 1
        if self.count >= self._last:
            self._reached()

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count in a block."""
        with sparrow.testing.on("storage.file_operation", self._announced):
            yield

    def _announced(self, call: str, path: Any) -> None:
        if call != "rmtree":
            self.happen(call)
            return
        for folder, _, names in os.walk(path):  # a folder is deleted file by file
            for name in names:
                self.happen("unlink")
                os.unlink(os.path.join(folder, name))
        self.happen("rmdir")


def die() -> None:
    """Raise :class:`Killed`."""
    raise Killed


class FullDisk(Events):
    """Refuse, from the n-th event on, whatever takes space; files can be deleted."""

    TAKES_ROOM: ClassVar = {"open", "link", "makedirs", "mkdir", "rename", "replace", "fsync"}

    def __init__(self, last: int) -> None:
        super().__init__(last, die)

    def happen(self, name: str) -> None:
        """Count a call of this name."""
        self.count += 1
        if self.count >= self._last and name in self.TAKES_ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
