"""Rounds of tasks, for models that cut their own work."""

from __future__ import annotations

from contextlib import AbstractContextManager

from sparrow.engines.cluster.engine import Cluster
from sparrow.engines.cluster.rounds import Rounds
from sparrow.engines.cluster.scratch import map_array, pack_array
from sparrow.engines.registry import engine_for

__all__ = ["Rounds", "map_array", "open_rounds", "pack_array"]


def open_rounds(engine: str) -> AbstractContextManager[Rounds] | None:
    """Return a context manager of the rounds of an engine.

    None is returned if the engine has no tasks. The scheduler is found when the context is entered.
    """
    found = engine_for(engine)
    return found.open_rounds() if isinstance(found, Cluster) else None
