"""Tuning parameters of writes to tensors."""

from __future__ import annotations

from dataclasses import dataclass

from sparrow.runtime.tuning import Tunable, memory_share, parameter

__all__ = ["TensorTuning", "tuning"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class TensorTuning:
    """Tuning parameters of writes to tensors."""

    append_memory_parts: float = memory_share(
        20, "Elements of one batch of an append; sorting holds them several times."
    )
    clear_box_max_elements: int = parameter(
        1024, "elements", "A box that an edit clears is kept as explicit fill up to this size, otherwise as a box."
    )
    write_copies: int = parameter(
        5, "copies", "Copies of written elements in memory, while they are moved to the base, sorted and merged."
    )
    small_commits_before_warning: int = parameter(
        100, "commits", "Commits of a single element, or appends, after which a PerformanceWarning may be raised."
    )
    append_rewrite_ratio: float = parameter(
        100, "ratio", "Elements written per element appended from which on repeated appends warn."
    )
    append_rewrite_min_elements: int = parameter(
        1 << 18,
        "elements",
        "Elements written per append below which repeated appends never warn: they take milliseconds.",
    )


tuning = Tunable(
    "tensor",
    TensorTuning(),
    strategies={"clear_boxes": {"clear_box_max_elements": 0}, "append_in_batches": {"append_memory_parts": 10**7}},
)
