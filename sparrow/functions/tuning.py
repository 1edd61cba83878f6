"""Tuning parameters of functions."""

from __future__ import annotations

from dataclasses import dataclass

from sparrow.runtime.tuning import Tunable, memory_share, parameter

__all__ = ["FunctionsTuning", "tuning"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class FunctionsTuning:
    """Tuning parameters of functions."""

    diagonal_gather_max_length: int = parameter(
        1 << 20,
        "elements",
        "Diagonals of a stack up to this length are gathered by position, longer ones by an einsum.",
    )
    tile_copy_bytes: int = parameter(
        64, "bytes", "Estimated memory of each of the copies that tile concatenates, checked against the limit."
    )
    compared_rows_share: float = memory_share(
        8, "Distances of some rows to all others, where a few candidates do not hold the nearest."
    )
    sampled_share: float = memory_share(4, "Result of sddmm in memory; a larger one is computed when it is read.")
    counted_values_share: float = memory_share(
        4, "Distinct values of blocks with their counts, until they are merged; then twice as many."
    )
    merged_values: int = parameter(1 << 18, "values", "Distinct values that are merged at a time, about 10 MB.")
    einsum_single_pass_cost_ratio: float = parameter(
        4,
        "ratio",
        "An einsum of one tensor and several arrays runs in a single pass up to this many times the multiplications of "
        "its best path: it reads the tensor once and allocates no intermediate.",
    )


tuning = Tunable(
    "functions",
    FunctionsTuning(),
    strategies={"diagonal_by_einsum": {"diagonal_gather_max_length": -1}},
)
