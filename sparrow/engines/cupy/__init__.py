"""The CuPy engine: functions of cells, reductions and products on a GPU, tile by tile.

Chunks are decoded on threads of the processor, as the stream engine does it, and moved to the device in tiles, ranges
of the leading dimension that fit there; what comes out is moved back as entries. Every function is written against an
array namespace (:mod:`~sparrow.engines.cupy.device`), so that anything with CuPy's names can stand in for CuPy.
"""

from __future__ import annotations

from sparrow.engines.cupy.engine import CuPy

__all__ = ["CuPy"]
