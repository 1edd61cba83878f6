"""CuPy engine: element-wise functions, reductions and products on a GPU.

Chunks are decoded on CPU threads, as in the stream engine, and copied to the device in tiles: ranges of the leading
dimension that fit its memory. Results are copied back as COO blocks. All functions use an array namespace
(:mod:`~sparrow.engines.cupy.device`), so that tests can replace CuPy by NumPy.
"""

from __future__ import annotations

from sparrow.engines.cupy.engine import CuPy

__all__ = ["CuPy"]
