"""Marks of tasks in the scratch folder: how often each started, and which ended.

All schedulers have them, and they cost a task two small files.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from contextvars import copy_context
from types import TracebackType
from typing import Any, Self

from sparrow.engines.cluster.tuning import tuning
from sparrow.runtime.threads import Waiters

__all__ = ["RoundProgress", "mark_end", "mark_start", "remove_marks"]


def mark_start(folder: str, name: str, number: int) -> int:
    """Note that a task of a round starts; return how often it has."""
    with open(os.path.join(folder, f"{name}-{number}"), "ab") as file:
        file.write(b".")
        return file.tell()


def mark_end(folder: str, name: str, number: int) -> None:
    """Note that a task of a round has ended."""
    with open(os.path.join(folder, f"{name}-{number}.done"), "wb"):
        pass


def remove_marks(folder: str, name: str, count: int) -> None:
    """Remove the marks of the tasks of a round that has ended."""
    for number in range(count):
        for mark in (f"{name}-{number}", f"{name}-{number}.done"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, mark))


class RoundProgress:
    """Advance a bar by the tasks that end, for the length of a block.

    Parameters
    ----------
    folder, name
        Scratch folder, and name of the round.
    count
        Number of its tasks.
    advance
        Advances the bar.
    """

    def __init__(self, folder: str, name: str, count: int, advance: Callable[[int], Any]) -> None:
        self._folder, self._name, self._count, self._advance = folder, name, count, advance
        self._seen, self._ended, self._waiters = 0, False, Waiters()
        self._thread = threading.Thread(target=copy_context().run, args=(self._follow,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended = True
        self._waiters.notify()
        self._thread.join()
        if error is None:
            self._advance(self._count - self._seen)

    def _follow(self) -> None:
        while not self._ended:
            self._waiters.wait_until(lambda: self._ended, tuning().progress_poll_seconds)
            if not self._ended:
                self.refresh()

    def refresh(self) -> None:
        """Advance the bar by the tasks that ended since the last time."""
        names = os.listdir(self._folder)
        done = sum(name.startswith(f"{self._name}-") and name.endswith(".done") for name in names)
        self._advance(done - self._seen)
        self._seen = done
