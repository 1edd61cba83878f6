"""Tuning parameters of writes to tensors, and of their representations."""

from __future__ import annotations

from dataclasses import dataclass

from sparrow.runtime.tuning import Tunable, memory_share, parameter

__all__ = ["TensorTuning", "tuning"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class TensorTuning:
    """Tuning parameters of writes to tensors, and of their representations."""

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
    repr_rows: int = parameter(3, "elements", "First and last elements shown as text.")
    html_rows: int = parameter(5, "elements", "First and last elements, or largest ones, shown as HTML.")
    table_side: int = parameter(10, "positions", "Vectors and matrices of this size are shown with all positions.")
    repr_width: int = parameter(100, "characters", "Wider tables of positions are shown as elements.")
    picture_cells: int = parameter(120, "cells", "Cells of a density map along its longer side.")
    histogram_bins: int = parameter(24, "bins", "Bins of the histogram of a vector.")
    log_scale_ratio: float = parameter(
        1000, "ratio", "Largest to smallest positive value from which on the bins of a histogram are logarithmic."
    )
    repeated_elements: int = parameter(1 << 20, "elements", "Views that repeat more elements are not read to be shown.")
    labels_read: int = parameter(
        1 << 22, "labels", "Elements of a stored tensor with a longer dimension are shown by position."
    )


tuning = Tunable(
    "tensor",
    TensorTuning(),
    strategies={"clear_boxes": {"clear_box_max_elements": 0}, "append_in_batches": {"append_memory_parts": 10**7}},
)
