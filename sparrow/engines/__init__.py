"""Engines: from a plan to its result. The terminals are here; what computes is in the packages of the engines."""

from __future__ import annotations

from sparrow.engines.density import DensityMap, density
from sparrow.engines.registry import ENGINES, Engine, engine_for, register, unregister
from sparrow.engines.run import array, blocks, cell, count, entries, explain, scalars, several, sorted_blocks, stretches
from sparrow.engines.tracing import explained

__all__ = [
    "ENGINES", "DensityMap", "Engine", "array", "blocks", "cell", "count", "density", "engine_for", "entries",
    "explain", "explained", "register", "scalars", "several", "sorted_blocks", "stretches", "unregister",
]  # fmt: skip
