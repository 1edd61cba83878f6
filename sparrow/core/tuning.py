"""Tuning parameters of label look-ups and point groups."""

from __future__ import annotations

from dataclasses import dataclass

from sparrow.runtime.tuning import Tunable, parameter

__all__ = ["CoreTuning", "tuning"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class CoreTuning:
    """Thresholds of label look-ups and of joins with point groups."""

    reported_labels: int = parameter(
        5, "labels", "Missing labels that an error message lists; more make it unreadable."
    )
    label_chunk_rows: int = parameter(1 << 18, "labels", "Labels that one thread searches at a time.")
    lookup_table_max_span: int = parameter(
        1 << 22, "coordinates", "Points within this span use a lookup table: 32 MB of int64."
    )
    lookup_table_min_elements: int = parameter(
        1 << 16, "elements", "Fewer elements use bisection, which is faster than filling the table."
    )
    mask_copies: int = parameter(
        4, "copies", "Integers per element that a mask of several dimensions selects, besides its coordinates."
    )


tuning = Tunable(
    "core",
    CoreTuning(),
    strategies={
        "points_table": {"lookup_table_min_elements": 0},
        "points_bisection": {"lookup_table_min_elements": 1 << 62},
    },
)
