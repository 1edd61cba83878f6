"""BLAS on one thread, for products that run on threads of their own."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager
from typing import Any

__all__ = ["single_threaded_blas"]


@functools.cache
def _controller(with_scipy: bool) -> Any:
    """Return the controller of the loaded BLAS libraries.

    Finding them takes longer than a small product.
    """
    if with_scipy:
        import scipy.linalg.cython_blas
        import scipy.linalg.cython_lapack  # noqa: F401 - only loaded libraries can be limited
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def single_threaded_blas(with_scipy: bool = False) -> AbstractContextManager[Any]:
    """Limit the BLAS of NumPy, and on request that of SciPy, to one thread.

    As a context manager, for the length of a block.
    """
    limits: AbstractContextManager[Any] = _controller(with_scipy).limit(limits=1)
    return limits
