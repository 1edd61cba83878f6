"""Numba: imports, cache folder and compile-time notices."""
