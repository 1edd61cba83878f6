"""Tuning parameters of the engine for clusters."""

from __future__ import annotations

from dataclasses import dataclass

from sparrow.runtime.tuning import Tunable, parameter

__all__ = ["ClusterTuning", "tuning"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ClusterTuning:
    """Sizes of tasks, and of what travels with them."""

    min_task_elements: int = parameter(
        4_000_000, "elements", "Work of a task: 0.1 s of the stream engine, 10 times what sending a task takes."
    )
    tasks_per_slot: int = parameter(4, "tasks", "So that a slow task delays the end of a round by a quarter at most.")
    max_read_ratio: float = parameter(
        1.5, "ratio", "Reads of the largest input by all tasks: plans that exceed it run in this process."
    )
    result_bytes: int = parameter(
        64_000_000, "bytes", "Results that travel through the scheduler; larger ones are written to files by tasks."
    )
    inline_bytes: int = parameter(1_000_000, "bytes", "Arrays that travel with each task; larger ones go to a file.")
    progress_poll_seconds: float = parameter(0.5, "seconds", "Between looks for tasks that ended, for a progress bar.")
    max_attempts: int = parameter(4, "attempts", "A task whose process died as often is given up.")


tuning = Tunable(
    "cluster",
    ClusterTuning(),
    strategies={
        "tiny_tasks": {
            "min_task_elements": 1,
            "tasks_per_slot": 2,
            "max_read_ratio": float("inf"),
            "result_bytes": 1024,
            "inline_bytes": 256,
        }
    },
)
