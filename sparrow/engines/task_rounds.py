"""Rounds of tasks, for models and readers that cut their own work."""

from __future__ import annotations

from contextlib import AbstractContextManager

from sparrow.engines.cluster.cutting import cut_chunks
from sparrow.engines.cluster.engine import Cluster
from sparrow.engines.cluster.rounds import Rounds
from sparrow.engines.cluster.scratch import map_array, pack_array, store_array
from sparrow.engines.cluster.sorting import StoredRun, bound_ranges, store_columns
from sparrow.engines.cluster.tasks import FileTarget
from sparrow.engines.cluster.tuning import tuning
from sparrow.engines.registry import engine_for

__all__ = [
    "FileTarget", "Rounds", "StoredRun", "bound_ranges", "cut_chunks", "map_array", "open_rounds", "pack_array",
    "store_array", "store_columns", "tuning",
]  # fmt: skip


def open_rounds(engine: str) -> AbstractContextManager[Rounds] | None:
    """Return a context manager of the rounds of an engine.

    None is returned if the engine has no tasks. The scheduler is found when the context is entered.
    """
    found = engine_for(engine)
    return found.open_rounds() if isinstance(found, Cluster) else None
