"""Simulated kills and full disks: the n-th change of files fails."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import sparrow.testing


class Killed(BaseException):
    """Simulated end of a process: later changes of files raise it too."""


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
    def count_calls(self) -> Iterator[None]:
        """Count in a block."""
        with sparrow.testing.on("storage.file_operation", self._handle):
            yield

    def _handle(self, call: str, path: Any) -> None:
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
