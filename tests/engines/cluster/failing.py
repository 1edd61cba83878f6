"""Functions of plans that fail where they run, found by name in other processes."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import sparrow as sp
from sparrow.plan import make_map
from sparrow.runtime import settings


@dataclass(frozen=True)
class Deadly:
    """The identity, whose process dies at its first call for a value."""

    folder: str
    value: float
    times: int = 1
    levels: int = 0
    """Number of the ancestor that dies, 0 for the process itself."""

    def __call__(self, values: Any) -> Any:
        values = np.asarray(values)
        if (values == self.value).any():
            for number in range(self.times):
                dying = [psutil.Process(), *psutil.Process().parents()][self.levels]
                try:
                    with open(Path(self.folder, f"died {number}"), "x") as file:
                        file.write(dying.name())
                except FileExistsError:
                    continue
                os.kill(dying.pid, signal.SIGKILL)
        return values * 1


@dataclass(frozen=True)
class Refusing:
    """A function that raises for a value."""

    value: float

    def __call__(self, values: Any) -> Any:
        values = np.asarray(values)
        if (values == self.value).any():
            raise OverflowError(f"{self.value} is refused")
        return values * 1


COUNTED = [0]
"""Number of values that :func:`count_values` was given in this process."""


def count_values(values: Any) -> Any:
    """Return values, after counting them."""
    values = np.asarray(values)
    COUNTED[0] += values.size
    return values * 1


@dataclass(frozen=True)
class Hungry:
    """The identity, which needs memory for a value, and then waits to be killed."""

    value: float
    nbytes: int

    def __call__(self, values: Any) -> Any:
        values = np.asarray(values)
        if (values == self.value).any():
            filled = np.ones(self.nbytes // 8)
            threading.Event().wait(60)
            del filled
        return values * 1


class OddError(Exception):
    """An exception that pickles, but does not unpickle."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} and {other}")


def raise_odd_error(values: Any) -> Any:
    """Raise an exception that does not travel, for the value 300."""
    values = np.asarray(values)
    if (values == 300).any():
        raise OddError(1, 2)
    return values * 1


def report_settings(values: Any) -> Any:
    """Return the memory limit and the threads in force, in place of values."""
    now = settings.current()
    return np.where(np.asarray(values) == 1, now.memory_limit, now.threads).astype(np.float64)


def map_elements(function: Any, A: Any) -> Any:
    """Return a tensor whose elements a function of Python computes."""
    return sp.Tensor(make_map(function, [A.__sparrow_scan__()]))


class Lethal:
    """A scheduler that runs each task as :func:`run_and_die`, for one kind of work."""

    def __init__(self, scheduler: Any, work: str, folder: Path) -> None:
        self._scheduler, self._work, self._folder = scheduler, work, folder
        self.slots, self.threads, self.memory_limit = scheduler.slots, scheduler.threads, scheduler.memory_limit

    def map(self, function: Any, count: int, shared: Any) -> list[Any]:
        found: list[Any] = self._scheduler.map(
            run_and_die, count, (function, shared, self._work, str(self._folder / "died"))
        )
        return found


def run_and_die(shared: Any, number: int) -> Any:
    """Run a task; the process of the second one dies before it returns, once."""
    function, job, work, path = shared
    found = function(job, number)
    if number == 1 and type(job.work).__name__ == work:
        try:
            with open(path, "x"):
                pass
        except FileExistsError:
            return found
        os.kill(os.getpid(), signal.SIGKILL)
    return found
