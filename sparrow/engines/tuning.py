"""Tuning parameters of the choice of engines, plan rendering and density maps."""

from __future__ import annotations

from dataclasses import dataclass

from sparrow.runtime.tuning import Tunable, memory_share, parameter

__all__ = ["EnginesTuning", "tuning"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class EnginesTuning:
    """Thresholds of the choice of engines; limits of rendered plans and density maps."""

    persisted_share: int = memory_share(4, "Rows of matrices that are multiplied repeatedly, until they are evicted.")
    sorting_repeats: int = parameter(4, "ratio", "Products of persisted rows that repay sorting them by row.")
    kept_depth: int = parameter(16, "nodes", "Depths at multiples of it have small results kept for later evaluations.")
    kept_elements: int = parameter(1 << 16, "elements", "Results of this size are small.")
    kept_ratio: int = parameter(4, "ratio", "Elements read per element of a larger result that is small beside them.")
    kept_parts: int = memory_share(32, "Results in the middle of deep plans, until they are evicted.")
    device_min_products: int = parameter(
        1 << 27, "products", "Fewer take the processor a tenth of a second. Not measured."
    )
    device_products_per_element: int = parameter(
        32, "ratio", "Fewer take the processor less time than decoding and moving the elements. Not measured."
    )
    duckdb_min_elements: int = parameter(1 << 20, "elements", "Smaller products end before a query has started.")
    duckdb_element_ns: float = parameter(8, "nanoseconds", "Processor time per element of the larger side of a join.")
    duckdb_product_ns: float = parameter(300, "nanoseconds", "Processor time per product of a join, hashed and sorted.")
    duckdb_query_ms: float = parameter(10, "milliseconds", "Start of a query.")
    duckdb_load_ms: float = parameter(300, "milliseconds", "Import of DuckDB, and its first query.")
    stream_element_ns: float = parameter(
        15, "nanoseconds", "Processor time per element of the larger operand of a product; up to 60 if it is the left."
    )
    min_gain: float = parameter(1.2, "ratio", "Estimated gain from which another engine than stream is chosen.")
    max_indent_levels: int = parameter(
        30, "levels", "Deepest indentation of a rendered plan; deeper nodes align there."
    )
    density_sample_chunks: int = parameter(96, "chunks", "Chunks that a sampled density map reads.")
    repr_chunks: int = parameter(2, "chunks", "Chunks that a representation as text reads: the first and the last.")
    picture_chunks: int = parameter(16, "chunks", "Chunks that a representation with a picture reads.")
    memory_chunks_ratio: int = parameter(2, "ratio", "Chunks of arrays in memory per chunk of files in the same time.")
    survey_values: int = parameter(1 << 17, "values", "Values kept for the histogram of a representation.")


tuning = Tunable(
    "engines",
    EnginesTuning(),
    strategies={
        "joins": {
            "duckdb_min_elements": 0,
            "duckdb_element_ns": 0.0,
            "duckdb_product_ns": 0.0,
            "duckdb_query_ms": 0.0,
            "duckdb_load_ms": 0.0,
        },
        "kept_results": {"kept_depth": 1},
        "device": {"device_min_products": 0, "device_products_per_element": 0},
        "operators_on_disk": {"persisted_share": 1 << 60},
    },
)
