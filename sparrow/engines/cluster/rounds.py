"""Rounds of tasks that share a scratch folder."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from numpy.typing import NDArray

from sparrow.engines.cluster.schedulers import Scheduler
from sparrow.engines.cluster.scratch import Scratch
from sparrow.engines.cluster.tasks import Job, Work, collect_overrides, run_task
from sparrow.engines.portable_plan import PortablePlan
from sparrow.plan import Scan
from sparrow.relations.memory import MemoryRelation
from sparrow.relations.protocol import Relation
from sparrow.runtime import settings
from sparrow.runtime.events import emit

__all__ = ["Rounds"]


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
        self._name, self._scheduler, self._scratch, self._compute = name, scheduler, scratch, materialize
        self._computed: dict[Hashable, MemoryRelation] = {}

    @property
    def slots(self) -> int:
        """Tasks that run at the same time."""
        return self._scheduler.slots

    @property
    def folder(self) -> str:
        """The scratch folder, which tasks see."""
        return self._scratch.path

    def pack(self, array: NDArray[Any]) -> Any:
        """Return an array as it travels with tasks.

        A large one is a file, which exists as long as the scratch folder.
        """
        return self._scratch.pack(array)

    def run(self, scans: Sequence[Scan], work: Work, bounds: Sequence[int]) -> list[Any]:
        """Run one task per range, and return their results in order.

        Results in files exist as long as the scratch folder.
        """
        scheduler, tasks = self._scheduler, len(bounds) - 1
        job = Job(
            PortablePlan(scans, self.pack, self._materialize), work, tuple(bounds), self.folder,
            min(scheduler.memory_limit, settings.current().memory_limit), scheduler.threads, collect_overrides(),
        )  # fmt: skip
        emit("cluster.round", engine=self._name, tasks=tasks, work=work, folder=self.folder)
        return scheduler.map(run_task, tasks, job)

    def _materialize(self, relation: Relation) -> MemoryRelation:
        if relation.token not in self._computed:
            self._computed[relation.token] = self._compute(relation)
        return self._computed[relation.token]
