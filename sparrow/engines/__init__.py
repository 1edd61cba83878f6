"""Engines: evaluate plans."""

from __future__ import annotations

from sparrow.engines.choice import runs_tasks
from sparrow.engines.chunks import ScanChunks, scan_chunks
from sparrow.engines.density import DensityMap, density
from sparrow.engines.duckdb import contract_sql, register_select
from sparrow.engines.explain import Plan
from sparrow.engines.portable_plan import MemorySource, PortablePlan
from sparrow.engines.protocol import Engine, EngineName, device_of
from sparrow.engines.registry import ENGINES, engine_for, register, unregister
from sparrow.engines.run import (
    count_nnz,
    evaluate,
    evaluate_array,
    evaluate_dense,
    evaluate_element,
    evaluate_many,
    explain,
    fold_ranges,
    iter_blocks,
    iter_sorted_blocks,
    open_partitions,
    reduce_all,
    shorten,
    write_files,
    write_order,
)
from sparrow.engines.sort_orders import sorted_order
from sparrow.engines.summaries import (
    best_elements,
    count_values,
    first_elements,
    histogram,
    sample_elements,
    value_range,
)
from sparrow.engines.survey import Survey, survey
from sparrow.engines.tracing import explained

__all__ = [
    "ENGINES", "DensityMap", "Engine", "EngineName", "MemorySource", "Plan", "PortablePlan", "ScanChunks", "Survey",
    "best_elements", "contract_sql", "count_nnz", "count_values", "density", "device_of", "engine_for",
    "evaluate", "evaluate_array", "evaluate_dense", "evaluate_element", "evaluate_many", "explain", "explained",
    "first_elements", "fold_ranges", "histogram", "iter_blocks",
    "iter_sorted_blocks", "open_partitions", "reduce_all", "register", "register_select", "runs_tasks",
    "sample_elements", "scan_chunks", "shorten", "sorted_order", "survey", "unregister", "value_range", "write_files",
    "write_order",
]  # fmt: skip
