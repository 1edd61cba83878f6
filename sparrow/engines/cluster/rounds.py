"""Rounds of tasks that share a scratch folder."""

from __future__ import annotations

import io
import pickle
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.cluster.cutting import cut_rows
from sparrow.engines.cluster.marks import RoundProgress, remove_marks
from sparrow.engines.cluster.schedulers import Scheduler
from sparrow.engines.cluster.scratch import Scratch
from sparrow.engines.cluster.tasks import Job, Work, collect_overrides, run_task
from sparrow.engines.cluster.tuning import tuning
from sparrow.engines.portable_plan import PortablePlan
from sparrow.engines.round_profile import RoundProfile, record_round
from sparrow.plan import Scan
from sparrow.relations.memory import MemoryRelation
from sparrow.relations.protocol import Relation
from sparrow.runtime import progress, settings
from sparrow.runtime.events import emit

__all__ = ["Rounds"]


class _Packing(pickle.Pickler):
    """Pickles objects, with packed arrays."""

    def __init__(self, buffer: io.BytesIO, pack: Callable[[NDArray[Any]], Any]) -> None:
        super().__init__(buffer, pickle.HIGHEST_PROTOCOL)
        self._pack = pack

    def reducer_override(self, value: Any) -> Any:
        """Reduce a large array to its file."""
        if isinstance(value, np.ndarray) and (packed := self._pack(value)) is not value:
            return packed.__reduce__()
        return NotImplemented


@dataclass(frozen=True, slots=True)
class _PackedObject:
    """A pickled object, which unpickles as the object."""

    content: bytes

    def __reduce__(self) -> tuple[Any, ...]:
        return pickle.loads, (self.content,)


class Rounds:
    """Runs rounds of tasks, one after the other.

    Parameters
    ----------
    name
        Name of the engine.
    scheduler
        Runs the tasks.
    scratch
        Folder for arrays between this process and the tasks.
    materialize
        Computes a relation that tasks do not support, so that it travels with them; once for all rounds.
    """

    def __init__(
        self, name: str, scheduler: Scheduler, scratch: Scratch, materialize: Callable[[Relation], MemoryRelation]
    ) -> None:
        self.engine = name
        self._scheduler, self._scratch, self._compute = scheduler, scratch, materialize
        self._computed: dict[Hashable, MemoryRelation] = {}

    @property
    def slots(self) -> int:
        """Tasks that run at the same time."""
        return self._scheduler.slots

    @property
    def memory_limit(self) -> int:
        """Bytes that a task may use."""
        return self._scheduler.memory_limit

    @property
    def max_tasks(self) -> int:
        """Tasks of a round beyond which more would be shorter, but no faster."""
        return tuning().tasks_per_slot * self.slots

    def cut_rows(self, scan: Scan) -> tuple[int, ...]:
        """Return the bounds of tasks that each read a range of rows of a scan."""
        return cut_rows(scan, self.slots).bounds or (0, scan.view.shape[0])

    @property
    def folder(self) -> str:
        """The scratch folder, which tasks see."""
        return self._scratch.path

    def pack(self, array: NDArray[Any]) -> Any:
        """Return an array as it travels with tasks.

        A large one is a file, which exists as long as the scratch folder.
        """
        return self._scratch.pack(array)

    def pack_object(self, value: Any) -> Any:
        """Return an object as it travels with tasks: large arrays in it are files."""
        buffer = io.BytesIO()
        _Packing(buffer, self.pack).dump(value)
        return _PackedObject(buffer.getvalue())

    def run(
        self, scans: Sequence[Scan], work: Work, bounds: Sequence[int], advance: Callable[[int], Any] | None = None
    ) -> list[Any]:
        """Run one task per range, and return their results in order.

        A progress bar counts them, and :func:`~sparrow.engines.round_profile.collect_rounds` collects what they did.

        Results in files exist as long as the scratch folder.

        Parameters
        ----------
        scans
            Scans of the plan that travels with the tasks.
        work
            Function of a task.
        bounds
            Bounds of the ranges.
        advance
            Called with the number of tasks that ended while bars are shown, instead of a bar.
        """
        scheduler, tasks, shared = self._scheduler, len(bounds) - 1, self._scratch.nbytes
        job = Job(
            PortablePlan(scans, self.pack, self._materialize).flatten(), work, tuple(bounds), self.folder,
            self.memory_limit, scheduler.threads, collect_overrides(),
        )  # fmt: skip
        emit("cluster.round", engine=self.engine, tasks=tasks, work=work, folder=self.folder)
        start = time.perf_counter()
        with ExitStack() as stack:
            advance = advance or stack.enter_context(progress.bar(f"tasks on {self.engine}", tasks, "tasks"))
            if settings.current().show_progress():
                stack.enter_context(RoundProgress(self.folder, job.name, tasks, advance))
            answers = scheduler.map(run_task, tasks, job)
        remove_marks(self.folder, job.name, tasks)
        seconds, name = time.perf_counter() - start, type(work).__name__.lower()
        profiles = [answer.profile for answer in answers]
        record_round(RoundProfile(name, seconds, self._scratch.nbytes - shared, profiles))
        return [answer.result for answer in answers]

    def _materialize(self, relation: Relation) -> MemoryRelation:
        if relation.token not in self._computed:
            self._computed[relation.token] = self._compute(relation)
        return self._computed[relation.token]
