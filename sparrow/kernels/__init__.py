"""Loops over arrays: no I/O, no plans, no knowledge of where the arrays come from."""

from __future__ import annotations

from sparrow.kernels.jit import cache_dir

cache_dir.ensure_cache_dir()  # before any loop is defined
