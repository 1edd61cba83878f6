"""Rounds of tasks of an engine for clusters: as planned, and as they ran."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import Any

from sparrow.runtime.quantities import format_quantity

__all__ = ["PlannedRound", "RoundProfile", "RoundsPlan", "TaskProfile", "collect_rounds", "record_round"]


@dataclass(frozen=True, slots=True)
class PlannedRound:
    """Estimates of a round."""

    work: str
    """Name of what its tasks do."""
    tasks: int
    elements: float
    """Elements and products of all tasks."""
    bytes_read: int
    """Bytes that all tasks read of files and arrays."""
    bytes_between: int = 0
    """Bytes that they write to files for the next round."""

    def describe(self) -> str:
        """Return the figures as text."""
        text = f"{self.tasks} tasks, {self.elements / self.tasks:.3g} elements each"
        text += f", {format_quantity(self.bytes_read, 'bytes')} read in all"
        between = format_quantity(self.bytes_between, "bytes")
        return f"{text}, {between} in files for the next round" if self.bytes_between else text


@dataclass(frozen=True, slots=True)
class RoundsPlan:
    """The rounds of a plan, or the reason for having none."""

    rounds: tuple[PlannedRound, ...] = ()
    reason: str = ""
    """Why this process computes it; empty if tasks do."""
    bytes_shared: int = 0
    """Bytes of arrays that this process writes to files for its tasks."""
    result: str = ""
    """Way of the result to this process."""

    def details(self) -> list[tuple[str, str]]:
        """Return names and texts for plans."""
        if not self.rounds:
            return [("rounds", f"none, computed in this process: {self.reason}")]
        if len(self.rounds) == 1:
            found = [("rounds", f"1 round of {self.rounds[0].describe()}")]
        else:
            between = format_quantity(sum(each.bytes_between for each in self.rounds), "bytes")
            found = [("rounds", f"{len(self.rounds)} rounds, {between} between them")]
            found += [
                (f"round {number}", f"{each.work}: {each.describe()}") for number, each in enumerate(self.rounds, 1)
            ]
        if self.bytes_shared:
            size = format_quantity(self.bytes_shared, "bytes")
            found.append(("shared", f"{size} of arrays in files that tasks map into memory"))
        return [*found, ("result", self.result)] if self.result else found

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the figures of each round by name."""
        return [asdict(each) for each in self.rounds]


@dataclass(frozen=True, slots=True)
class TaskProfile:
    """Measurements of a task."""

    seconds: float
    bytes_read: int
    """Compressed bytes of the row groups that it read."""
    bytes_written: int
    """Bytes of files that it wrote to the scratch folder, or of the result."""
    host: str
    pid: int
    attempts: int
    """Times that it was started, on this process or ones that died."""


@dataclass(frozen=True, slots=True)
class RoundProfile:
    """Measurements of the tasks of a round."""

    work: str
    seconds: float
    """From sending the tasks to the last answer."""
    bytes_shared: int
    """Bytes of arrays that this process wrote to files for the tasks."""
    tasks: Sequence[TaskProfile]

    def to_dict(self) -> dict[str, Any]:
        """Return the figures by name."""
        seconds = [task.seconds for task in self.tasks]
        return {
            "work": self.work,
            "tasks": len(self.tasks),
            "seconds": self.seconds,
            "task_seconds": {
                "min": min(seconds), "median": statistics.median(seconds), "max": max(seconds), "sum": sum(seconds),
            },
            "bytes_read": sum(task.bytes_read for task in self.tasks),
            "bytes_written": sum(task.bytes_written for task in self.tasks),
            "bytes_shared": self.bytes_shared,
            "retries": sum(task.attempts - 1 for task in self.tasks),
            "processes": len({(task.host, task.pid) for task in self.tasks}),
            "hosts": dict(Counter(task.host for task in self.tasks)),
        }  # fmt: skip

    def describe(self) -> str:
        """Return the figures as text."""
        found = self.to_dict()
        least, median, most = (1000 * found["task_seconds"][name] for name in ("min", "median", "max"))
        sizes = [
            f"{format_quantity(found[f'bytes_{name}'], 'bytes')} {name}" for name in ("read", "written", "shared")
            if found[f"bytes_{name}"] or name != "shared"
        ]  # fmt: skip
        hosts = ", ".join(f"{count} on {host}" for host, count in found["hosts"].items())
        return (
            f"{self.work}, {len(self.tasks)} tasks in {1000 * self.seconds:.1f} ms, of {least:.1f} to {most:.1f} ms, "
            f"median {median:.1f} ms; {', '.join(sizes)}; {found['retries']} retries; "
            f"{found['processes']} processes: {hosts}"
        )


_collecting: ContextVar[tuple[list[RoundProfile], ...]] = ContextVar("sparrow_rounds", default=())


@contextmanager
def collect_rounds() -> Iterator[list[RoundProfile]]:
    """Collect the rounds that run in a block, with those of enclosing blocks."""
    found: list[RoundProfile] = []
    _collecting.set((*_collecting.get(), found))
    try:
        yield found
    finally:  # no token: a generator may end in another context than it began in
        _collecting.set(tuple(each for each in _collecting.get() if each is not found))


def record_round(profile: RoundProfile) -> None:
    """Add a round to every enclosing :func:`collect_rounds` block."""
    for found in _collecting.get():
        found.append(profile)
