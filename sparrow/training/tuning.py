"""Tuning parameters of training data and parameter stores."""

from __future__ import annotations

from dataclasses import dataclass

from sparrow.runtime.tuning import Tunable, memory_share, parameter

__all__ = ["TrainingTuning", "tuning"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class TrainingTuning:
    """Sizes and memory shares of :mod:`sparrow.training`."""

    window_partitions: int = parameter(
        8, "partitions", "Partitions that are shuffled together; it defines the order of an epoch."
    )
    prefetch_share: int = memory_share(4, "Windows of rows that are read ahead.")
    coded_rows: int = parameter(1 << 20, "rows", "Rows of stratified splits whose classes are looked up at a time.")
    label_share: int = memory_share(8, "Labels of one tensor in memory; larger ones are memory-mapped.")
    journal_bytes: int = parameter(
        1 << 20, "bytes", "Journal of one shard of a shared parameter, unless a single row is larger."
    )


tuning = Tunable("training", TrainingTuning())
