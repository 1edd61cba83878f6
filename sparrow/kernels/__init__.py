"""Kernels: loops over arrays, without I/O or knowledge of plans and storage.

APIs take and return NumPy arrays. Compiled functions live in modules that import
:mod:`sparrow.kernels.jit.compiler`; import those lazily, since they load Numba.

"""

from __future__ import annotations

from sparrow.kernels.jit import cache_dir

cache_dir.ensure_cache_dir()  # before any loop is defined
