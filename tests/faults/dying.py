"""A process that dies, in this one or for good: what storage does to files is counted and ends at the n-th time."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from typing import Any, ClassVar

from sparrow.storage.fs import local

EVENTS = {"link", "makedirs", "mkdir", "rename", "replace", "rmdir", "unlink", "utime", "fsync"}
"""Calls of ``os`` that change something or make it last; ``open`` of a new file counts too."""


class Killed(BaseException):
    """What stands for the end of a process: no handler runs to any effect after it."""


class Events:
    """Counts what ``sparrow.storage.fs.local`` does and calls ``reached`` from the n-th event on."""

    def __init__(self, last: int, reached: Callable[[], None]) -> None:
        self.count = 0
        self._last, self._reached = last, reached

    def happen(self, name: str) -> None:
        """Count one more call of this name."""
        self.count += 1
        if self.count >= self._last:
            self._reached()

    def install(self, put: Callable[[Any, str, Any], None] = setattr) -> None:
        """Begin to count."""
        put(local, "os", _Counted(os, EVENTS, self))
        put(local, "shutil", _Tree(self))
        put(local, "open", self._open)

    def _open(self, path: str, mode: str, **more: Any) -> Any:
        if "x" in mode:
            self.happen("open")
        return open(path, mode, **more)


class _Counted:
    def __init__(self, real: Any, counted: set[str], events: Events) -> None:
        self._real, self._counted, self._events = real, counted, events

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if name not in self._counted:
            return found

        def call(*args: Any, **more: Any) -> Any:
            self._events.happen(name)
            return found(*args, **more)

        return call


class _Tree:
    """Stands for ``shutil``: a folder goes file by file."""

    def __init__(self, events: Events) -> None:
        self._events = events

    def rmtree(self, path: str, ignore_errors: bool = False) -> None:
        for folder, _, names in os.walk(path):
            for name in names:
                self._events.happen("unlink")
                os.unlink(os.path.join(folder, name))
        self._events.happen("rmdir")
        shutil.rmtree(path, ignore_errors=ignore_errors)


def die() -> None:
    """End as far as the test can tell."""
    raise Killed


class FullDisk(Events):
    """Refuses, from the n-th event on, whatever takes room; what is there can be deleted."""

    TAKES_ROOM: ClassVar = {"open", "link", "makedirs", "mkdir", "rename", "replace", "fsync"}

    def __init__(self, last: int) -> None:
        super().__init__(last, die)

    def happen(self, name: str) -> None:
        """Count one more call of this name."""
        self.count += 1
        if self.count >= self._last and name in self.TAKES_ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
