"""Tuning parameters of the models."""

from __future__ import annotations

from dataclasses import dataclass

from sparrow.runtime.tuning import Tunable, memory_share, parameter

__all__ = ["ModelsTuning", "tuning"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ModelsTuning:
    """Block sizes and thresholds of :mod:`sparrow.models`.

    Blocks, partitions and chunks set the order of summation of ALS, so changing them changes the last bits of a fit.
    """

    als_block_rows: int = parameter(64, "rows", "Rows with ratings of one block of equations.")
    als_block_span_rows: int = parameter(1 << 12, "rows", "Rows of a block, empty ones included.")
    als_block_bytes: int = parameter(
        512 << 10, "bytes", "Rows of the fixed table that a block refers to; they stay in the cache of a core."
    )
    als_partition_min_ratings: int = parameter(1 << 14, "ratings", "Smallest unit of work of a thread.")
    als_partition_max_ratings: int = parameter(1 << 18, "ratings", "Largest unit of work, unless a row is longer.")
    als_partition_rows: int = parameter(1 << 14, "rows", "Rows of a unit of work.")
    als_chunk_ratings: int = parameter(
        1 << 17, "ratings", "Ratings whose sums are one term of the sums over all rows: 80 chunks of cnr-2000."
    )
    als_long_row_ratings: int = parameter(
        1 << 20, "ratings", "A longer row is solved from sums over parts of as many ratings: 0.5 GB of 128 factors."
    )
    als_task_products: int = parameter(
        50_000_000, "products", "Ratings times factors of a task of a half step: 0.1 s. Less for two runs here."
    )
    als_row_ratings: int = parameter(8, "ratings", "Ratings that take a task as long as a row without any.")
    als_gather_share: float = memory_share(
        8, "Rows that a task solves, and rows of the other table that a batch of ratings needs."
    )
    als_stream_bytes: int = parameter(128_000_000, "bytes", "Buffers for ratings that are read again in every pass.")
    als_process_bytes: int = parameter(300_000_000, "bytes", "Memory of the process besides tables and ratings.")
    als_float32_condition: float = parameter(
        2e3, "condition number", "Up to it, float32 gives exact solutions to 1e-5; beyond it, long rows use float64."
    )
    als_mixed_condition: float = parameter(1e7, "condition number", "Beyond it, all rows are solved in float64.")
    table_chunk_rows: int = parameter(1 << 12, "rows", "Rows of a factor table processed at once.")
    device_chunk_rows: int = parameter(1 << 16, "rows", "Rows of a factor table copied or multiplied at once on a GPU.")
    device_table_ratio: float = parameter(0.9, "ratio", "Free GPU memory that the factor tables may take.")
    topk_block_items: int = parameter(
        1024, "items", "Items scored at once; with topk_block_rows, 2 MB of scores that stay in the cache."
    )
    topk_block_rows: int = parameter(512, "rows", "Rows ranked at once by a thread.")
    topk_block_bytes: int = parameter(4 << 20, "bytes", "Factors of the items scored at once for few rows.")
    recommend_cache_share: float = memory_share(
        32, "Pattern of the ratings, or normalized item factors, that a model keeps for later recommendations."
    )
    topk_candidates: int = parameter(1 << 21, "candidates", "Candidates of one thread, unless a row has more.")
    rank_task_products: int = parameter(
        5_000_000_000, "products", "Rows times items times factors of a task that ranks: 0.1 s. Less for two runs here."
    )
    predict_pairs: int = parameter(1 << 16, "pairs", "Pairs of rows and items scored at once.")
    ranking_row_group_rows: int = parameter(1 << 20, "rows", "Row groups of Parquet files of recommendations.")
    factor_write_bytes: int = parameter(1 << 24, "bytes", "Factors written to Parquet at once.")
    label_block_rows: int = parameter(1 << 22, "rows", "Labels examined at once.")
    chunk_elements: int = parameter(1 << 17, "elements", "Stored elements of a training chunk, about.")
    chunk_rows: int = parameter(1 << 16, "rows", "Largest number of rows of a training chunk.")
    lazy_row_elements: int = parameter(
        16, "elements per row", "Assumed for a lazy tensor, whose stored elements are unknown."
    )


tuning = Tunable("models", ModelsTuning())
