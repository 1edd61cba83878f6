"""Tuning parameters of the stream engine, without those of products."""

from __future__ import annotations

from dataclasses import dataclass

from sparrow.runtime.tuning import Tunable, memory_share, parameter

__all__ = ["StreamTuning", "tuning"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class StreamTuning:
    """Thresholds of operators, cursors and scans of the stream engine."""

    # Partitions
    partition_rows: int = parameter(1 << 18, "elements", "Target size: larger partitions use the cores no better.")
    min_partition_rows: int = parameter(1 << 14, "elements", "Target under small limits; less is all dispatch.")
    partition_copies: int = parameter(16, "ratio", "Copies of a partition in memory: read, sorted, merged, written.")
    rescan_factor: int = parameter(
        4, "ratio", "Factor on partitions that each rescan their input; inputs repeated more often are rescanned."
    )
    element_bytes: int = parameter(32, "bytes", "Memory of an element while it is sorted or looked up.")

    # Sorting of inputs that do not come in the order of their axes
    sort_parts: int = memory_share(8, "Input that a cursor sorts in memory.")
    spill_min_partitions: int = parameter(
        8, "partitions", "Larger inputs are sorted on disk; smaller ones are rescanned in the same time."
    )
    sort_copies: int = parameter(4, "ratio", "Copies of a result in memory while it is sorted.")

    # Reading
    max_listed_rows: int = parameter(1 << 12, "rows", "Members of a list that are searched in a chunk one by one.")
    max_shown_elements: int = parameter(
        1 << 20, "elements", "Elements that a chunk shows through lists that repeat them; larger chunks are split."
    )
    unreserved_elements: int = parameter(1 << 10, "elements", "Results that skip the check of the memory limit.")
    csr_min_elements: int = parameter(1 << 18, "elements", "Results that stay in CSR form until COO is needed.")

    # Plans
    max_pipeline_depth: int = parameter(24, "operators", "Nested operators; deeper plans are materialized in between.")
    max_recomputations: int = parameter(
        4, "computations", "Computations of a shared node without a cache; nodes that need more are materialized."
    )
    max_fused_scans: int = parameter(2, "scans", "Inputs of a fused kernel: two are merged by a loop, more are sorted.")
    cache_parts: int = memory_share(8, "Chunks that several operators read, kept until all have read them.")
    cache_bytes: int | None = parameter(None, "bytes", "Fixed budget of shared chunks, for tests; None computes it.")

    # Element-wise maps
    lookup_parts: int = memory_share(8, "Broadcast operand that is looked up instead of repeated.")
    repeated_parts: int = memory_share(8, "Elements of a broadcast operand that are repeated in the result.")
    inside_margin: int = parameter(4, "ratio", "Elements of a chunk that may be in a box per element estimated.")
    lookup_ratio: int = parameter(
        4, "ratio", "Positions per element up to which a broadcast operand is looked up in an array of ranks."
    )
    min_lookup_positions: int = parameter(1 << 14, "positions", "Arrays of ranks of this length are always used.")
    dense_repeat_ratio: int = parameter(
        2, "ratio", "Positions per repeated element up to which a function is evaluated at all positions."
    )
    silent_repeat_bytes: int = parameter(100_000_000, "bytes", "Repeated elements of this size raise no warning.")
    max_repeated_elements: int = parameter(
        1 << 31, "elements", "Repeated elements that a broadcast may produce whatever the memory limit."
    )
    dense_partition_elements: int = parameter(1 << 20, "elements", "Dense block of a partition that changes its fill.")

    # Reductions
    group_parts: int = memory_share(4, "Groups of a reduction, or the dense array that holds them.")
    group_bytes: int | None = parameter(None, "bytes", "Fixed budget of groups, for tests; None computes it.")
    max_dense_groups: int = parameter(1 << 16, "groups", "Dense arrays of this size are always used.")
    dense_groups_per_element: int = parameter(4, "ratio", "Groups per element up to which a dense array pays off.")
    sum_lanes: int = parameter(4, "lanes", "Partial sums side by side; fixed, so that bits do not depend on threads.")
    absent_window: int = parameter(1 << 26, "positions", "Positions searched per scan for the first absent element.")
    use_marginal_sums: bool = parameter(True, "flag", "Sum a product of matrices without forming it.")
    marginal_length_ratio: int = parameter(4, "ratio", "Length of an axis per element up to which a vector pays off.")
    min_marginal_length: int = parameter(1 << 16, "elements", "Axes of this length always get a vector.")

    # Batches: slices along a short leading dimension
    max_batches: int = parameter(1 << 12, "slices", "Slices evaluated one by one.")
    min_batch_elements: int = parameter(1 << 20, "elements", "Smaller slices are evaluated as rows of a partition.")
    batch_copies: float = parameter(16, "ratio", "Copies of a slice in memory; slices that fit so are not batched.")
    max_open_batches: int = parameter(2, "slices", "Slices with open cursors: one finishes while the next begins.")
    listed_files: int = parameter(
        8, "files", "Footers read to find the first elements; of more files they are read as they are needed."
    )
    sampled_share: int = parameter(
        50,
        "ratio",
        "Samples of at most 1/n of the elements read the chunks that they hit; NumPy draws them one by one.",
    )


tuning = Tunable(
    "stream",
    StreamTuning(),
    strategies={
        "partitioned": {"partition_rows": 16, "min_partition_rows": 1},
        "sorted": {"sort_parts": 1e-9},
        "spilled_sort": {"sort_parts": 1 << 60, "spill_min_partitions": 0},
        "batched": {"min_batch_elements": 1, "batch_copies": float("inf")},
        "materialized": {"max_pipeline_depth": 1},
        "lookup_in_ranges": {"lookup_parts": 1 << 60},
        "form_products": {"use_marginal_sums": False},
        "single_lane": {"sum_lanes": 1},
    },
)
