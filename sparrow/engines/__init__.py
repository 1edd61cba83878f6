"""Engines: from a plan to its result. The terminals are here; what computes is in the packages of the engines."""

from __future__ import annotations

from sparrow.engines.density import DensityMap, density
from sparrow.engines.registry import ENGINES, Engine, engine_for, register, unregister
from sparrow.engines.run import (
    count_nnz,
    evaluate,
    evaluate_dense,
    evaluate_element,
    evaluate_many,
    explain,
    iter_blocks,
    iter_sorted_blocks,
    open_partitions,
    reduce_all,
)
from sparrow.engines.tracing import explained

__all__ = [
    "ENGINES",
    "DensityMap",
    "Engine",
    "count_nnz",
    "density",
    "engine_for",
    "evaluate",
    "evaluate_dense",
    "evaluate_element",
    "evaluate_many",
    "explain",
    "explained",
    "iter_blocks",
    "iter_sorted_blocks",
    "open_partitions",
    "reduce_all",
    "register",
    "unregister",
]  # fmt: skip
