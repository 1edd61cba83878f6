"""Engines: from a plan to its result."""

from __future__ import annotations

from sparrow.engines.choose import ENGINES
from sparrow.engines.density import DensityMap, density
from sparrow.engines.derived import Derived
from sparrow.engines.elementwise import elementwise
from sparrow.engines.explain import explain
from sparrow.engines.lines import accumulated, sorted_lines
from sparrow.engines.reshaping import concatenated, diagonal, reshaped, triangle
from sparrow.engines.run import cell, count, entries, matmul, sorted_blocks

__all__ = [
    "ENGINES", "DensityMap", "Derived", "accumulated", "cell", "concatenated", "count", "density", "diagonal",
    "elementwise", "entries", "explain", "matmul", "reshaped", "sorted_blocks", "sorted_lines", "triangle",
]  # fmt: skip
