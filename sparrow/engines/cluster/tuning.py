"""Tuning parameters of the engine for clusters."""

from __future__ import annotations

from dataclasses import dataclass

from sparrow.runtime.tuning import Tunable, memory_share, parameter

__all__ = ["ClusterTuning", "tuning"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ClusterTuning:
    """Sizes of tasks, and of what travels with them."""

    min_task_elements: int = parameter(
        4_000_000, "elements", "Work of a task: 0.1 s of the stream engine, 10 times what sending a task takes."
    )
    min_task_bytes: int = parameter(
        64_000_000, "bytes", "Files that a task parses: about as many elements, and the time, of a task of a plan."
    )
    tasks_per_slot: int = parameter(4, "tasks", "So that a slow task delays the end of a round by a quarter at most.")
    max_read_ratio: float = parameter(
        1.5, "ratio", "Reads of the largest input by all tasks: plans that exceed it run in this process."
    )
    result_bytes: int = parameter(
        64_000_000, "bytes", "Results that travel through the scheduler; larger ones are written to files by tasks."
    )
    inline_bytes: int = parameter(1_000_000, "bytes", "Arrays that travel with each task; larger ones go to a file.")
    worker_wait_seconds: float = parameter(
        30.0, "seconds", "Until Dask has a worker: starting one takes 1 to 10 s, on a cluster that adapts too."
    )
    min_product_elements: int = parameter(
        40_000_000, "elements", "Rows in files that a task multiplies: 0.06 s, 10 times what sending a task takes."
    )
    local_product_elements: int = parameter(
        1_000_000_000, "elements",
        "Matrix whose repeated products run in this process if its rows fit in memory: 1 ns each, where a round sends "
        "the vector.",
    )  # fmt: skip
    run_parts: int = memory_share(8, "Run of a sort on a cluster, which a task gathers, sorts and writes.")
    merge_copies: int = parameter(4, "ratio", "Copies of a range of sorted runs in the task that merges them.")
    batch_elements: int = parameter(1 << 20, "elements", "Elements of a run that are read at once.")
    sample_elements: int = parameter(
        1 << 10, "elements", "Samples of a run: ranges differ by 0.1 % of its elements, and samples of 8 kB travel."
    )
    progress_poll_seconds: float = parameter(0.5, "seconds", "Between looks for tasks that ended, for a progress bar.")
    max_attempts: int = parameter(4, "attempts", "A task whose process died as often is given up.")


tuning = Tunable(
    "cluster",
    ClusterTuning(),
    strategies={
        "tiny_tasks": {
            "min_task_elements": 1,
            "min_task_bytes": 1,
            "min_product_elements": 1,
            "tasks_per_slot": 2,
            "max_read_ratio": float("inf"),
            "result_bytes": 1024,
            "inline_bytes": 256,
            "local_product_elements": 0,
        }
    },
)
