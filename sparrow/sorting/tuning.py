"""Tuning parameters of external sorting."""

from __future__ import annotations

from dataclasses import dataclass

from sparrow.runtime.tuning import Tunable, memory_share, parameter

__all__ = ["SortingTuning", "tuning"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class SortingTuning:
    """Memory budget, sampling, and sizes of ranges and parts.

    A sorter keeps the parameters in force when it was created.
    """

    memory_parts: float = memory_share(2.5, "Rows waiting to be sorted; merging them takes another share.")
    budget_bytes: int | None = parameter(None, "bytes", "Fixed budget for rows in memory, for tests; None computes it.")
    unreserved_bytes: int = parameter(400_000_000, "bytes", "Libraries and merge buffers without a reservation.")
    min_budget_bytes: int = parameter(4_000_000, "bytes", "Budget under the smallest limits; less spills tiny runs.")
    max_floor_bytes: int = parameter(40_000_000, "bytes", "The budget is at least this if the limit permits it.")
    sample_stride: int = parameter(1024, "keys", "One key in n stays in memory to locate a range in a run.")
    chunk_rows: int = parameter(1 << 18, "rows", "Unit of sequential reads from the spill file: 2 MB of keys.")
    min_range_rows: int = parameter(1 << 15, "rows", "Smaller ranges spend more time on dispatch than on sorting.")
    max_range_rows: int = parameter(1 << 20, "rows", "Larger ranges no longer fit the caches of a core.")
    range_row_bytes: int = parameter(48, "bytes", "Memory of a row while its range is merged by one thread.")
    tie_row_bytes: int = parameter(240, "bytes", "Memory of a row in a range of ties, which cannot be split.")
    cached_range_rows: int = parameter(1 << 17, "rows", "A range of this size is sorted within the L2 cache.")
    range_rows_per_run: int = parameter(1 << 10, "rows", "Rows a range reads of each run on average; fewer seek more.")
    single_part_max_rows: int = parameter(
        1 << 21, "rows", "Larger outputs have several parts. Independent of threads, so that parts are reproducible."
    )
    max_part_rows: int = parameter(1 << 24, "rows", "Rows of one of several parts; independent of threads as well.")
    id_table_gap: int = parameter(4, "ratio", "Largest id per distinct id up to which ids are looked up in a table.")


tuning = Tunable(
    "sorting",
    SortingTuning(),
    strategies={
        "spill": {"budget_bytes": 1},
        "small_ranges": {"min_range_rows": 64, "max_range_rows": 64, "sample_stride": 8},
    },
)
