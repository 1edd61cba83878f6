"""Devices: an array namespace, and transfers to and from its memory."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.cupy.tuning import tuning
from sparrow.errors import MissingDependencyError
from sparrow.runtime import memory, settings
from sparrow.runtime.dependencies import missing_dependency

__all__ = ["Device", "current_gpu", "order_unsupported_reason", "tile_rows"]

_EXHAUSTED = ("ALLOC_FAILED", "INSUFFICIENT_RESOURCES", "cudaErrorMemoryAllocation")
"""Texts in the ``RuntimeError`` of cuBLAS, cuSOLVER, cuSPARSE and CUDA if memory is exhausted."""


class Device(Protocol):
    """A device, whose arrays do not mix with NumPy's: use ``put`` and ``get``."""

    xp: Any
    """The array namespace: CuPy, or one with its names."""
    sparse: Any
    """The namespace of ``csr_matrix``: cupyx.scipy.sparse, or one with its names."""

    def put(self, array: NDArray[Any]) -> Any:
        """Copy an array to the device."""

    def get(self, array: Any) -> NDArray[Any]:
        """Copy an array of the device to a NumPy array."""

    def solve(self, matrices: Any, vectors: Any) -> Any:
        """Solve symmetric positive definite systems, shapes (m, n, n) and (m, n).

        Raises
        ------
        numpy.linalg.LinAlgError
            If a matrix is not positive definite.
        """

    def room(self) -> int:
        """Return the free bytes of its memory."""

    def is_exhausted(self, error: Exception) -> bool:
        """Return whether an error means that memory is exhausted."""

    def release(self) -> None:
        """Free cached memory."""

    def here(self) -> AbstractContextManager[Any]:
        """Return a context manager that makes it the device of the current thread."""


class _GPU:
    """A CUDA device, through CuPy."""

    def __init__(self, cupy: Any, sparse: Any, number: int) -> None:
        self.xp, self.sparse, self._number = cupy, sparse, number

    def put(self, array: NDArray[Any]) -> Any:
        """Copy to the device."""
        return self.xp.asarray(array)

    def get(self, array: Any) -> NDArray[Any]:
        """Copy to host memory."""
        return np.asarray(self.xp.asnumpy(array))

    def solve(self, matrices: Any, vectors: Any) -> Any:
        """Solve by cuSOLVER's Cholesky factorization."""
        import cupyx
        import cupyx.lapack

        with cupyx.errstate(linalg="raise"):  # otherwise a matrix that is not positive definite goes unnoticed
            return cupyx.lapack.posv(matrices, vectors)

    def room(self) -> int:
        """Return the bytes free in the driver and in CuPy's pool."""
        with self.here():
            pool = self.xp.get_default_memory_pool()
            free = self.xp.cuda.runtime.memGetInfo()[0] + pool.free_bytes()
            limit = pool.get_limit()
            return int(min(free, limit - pool.used_bytes()) if limit else free)

    def is_exhausted(self, error: Exception) -> bool:
        """Return whether CuPy or a library beside it ran out of memory."""
        return isinstance(error, MemoryError) or any(name in str(error) for name in _EXHAUSTED)

    def release(self) -> None:
        """Free the blocks of CuPy's pool."""
        self.xp.get_default_memory_pool().free_all_blocks()

    def here(self) -> AbstractContextManager[Any]:
        """Return CuPy's context of the device."""
        found: AbstractContextManager[Any] = self.xp.cuda.Device(self._number)
        return found


def current_gpu() -> Device:
    """Return the current CUDA device of this thread.

    Raises
    ------
    MissingDependencyError
        If CuPy is not installed, or finds no device.
    """
    try:
        import cupy
        import cupyx.scipy.sparse
    except ImportError as error:
        hint = missing_dependency("engine='cupy'", "cupy")
        raise MissingDependencyError(f"{hint}, or use engine='stream' ({error})") from error
    try:
        number = cupy.cuda.Device().id
        cupy.cuda.runtime.memGetInfo()
    except RuntimeError as error:  # CUDARuntimeError, also if there is no device
        raise MissingDependencyError(
            f"engine='cupy' needs a CUDA device, and CuPy finds none ({error}): use engine='stream'"
        ) from error
    return _GPU(cupy, cupyx.scipy.sparse, number)


def tile_rows(device: Device) -> int:
    """Return the most elements of a tile, given that each thread may hold one tile."""
    limits = tuning()
    most = min(device.room() // limits.element_device_bytes, memory.limit() // limits.element_host_bytes)
    return max(min(most // settings.current().threads, limits.tile_rows), 1)


def order_unsupported_reason(dtype: np.dtype[Any]) -> str | None:
    """Return why ``deterministic=True`` rules out sums of a dtype, or None."""
    if settings.current().deterministic and dtype.kind in "fc":
        return "floats are added in no fixed order on a device, and deterministic=True requires one"
    return None
