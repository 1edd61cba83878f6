"""BLAS on one thread, for products that run on threads of their own."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["single_threaded_blas"]


@functools.cache
def _find_libraries(with_scipy: bool) -> list[Any]:
    """Return the loaded BLAS libraries.

    Finding them takes longer than a small product.
    """
    if with_scipy:
        import scipy.linalg.cython_blas
        import scipy.linalg.cython_lapack  # noqa: F401 - only loaded libraries can be limited
    from threadpoolctl import ThreadpoolController

    libraries: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
    return libraries


@contextmanager
def single_threaded_blas(with_scipy: bool = False) -> Iterator[None]:
    """Limit the BLAS of NumPy, and on request that of SciPy, to one thread.

    As a context manager, for the length of a block. OpenBLAS ignores limits that a thread other than the first sets.
    """
    limited = [
        (library, before) for library in _find_libraries(with_scipy) if (before := library.get_num_threads()) != 1
    ]
    try:
        for library, _ in limited:
            library.set_num_threads(1)
        yield
    finally:
        for library, before in limited:
            library.set_num_threads(before)
