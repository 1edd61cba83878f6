"""What computes: an array namespace, and the way in and out of the memory that its arrays are in."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sparrow.errors import MissingDependencyError
from sparrow.runtime import memory, settings

__all__ = ["Device", "current_gpu", "tile_rows", "unordered"]

_ENTRY_BYTES = 256
"""About what an entry takes on the device while it is computed with: keys and values, sorted, and what they make."""
_HOST_BYTES = 128
"""About what it takes beside the device, on its way in and out."""
_TILE_ROWS = 1 << 22
"""Entries of a tile, at most: enough to keep a device busy, few enough that others are decoded meanwhile."""

_EXHAUSTED = ("ALLOC_FAILED", "INSUFFICIENT_RESOURCES", "cudaErrorMemoryAllocation")
"""What the ``RuntimeError`` of cuBLAS, cuSOLVER, cuSPARSE and CUDA says where memory ends."""


class Device(Protocol):
    """Where arrays are computed with.

    Nothing of it may be mixed with NumPy's arrays: what goes in goes through ``put``, and out through ``get``.
    """

    xp: Any
    """The array namespace: CuPy, or what has its names."""
    sparse: Any
    """The namespace of ``csr_matrix``: cupyx.scipy.sparse, or what has its names."""

    def put(self, array: NDArray[Any]) -> Any:
        """Return an array as one of the device."""

    def get(self, array: Any) -> NDArray[Any]:
        """Return an array of the device as one of NumPy."""

    def solve(self, matrices: Any, vectors: Any) -> Any:
        """Return the solution of each of some symmetric systems, shapes (m, n, n) and (m, n), in their type.

        Raises
        ------
        numpy.linalg.LinAlgError
            If a matrix is not positive definite.
        """

    def room(self) -> int:
        """Return the bytes of its memory that are free."""

    def exhausted(self, error: Exception) -> bool:
        """Return whether an error says that there is too little memory."""

    def release(self) -> None:
        """Give back what is kept for later, after it has run out of memory."""

    def here(self) -> AbstractContextManager[Any]:
        """Return what makes the device that of the thread which enters it."""


class _GPU:
    """A CUDA device, by CuPy."""

    def __init__(self, cupy: Any, sparse: Any, number: int) -> None:
        self.xp, self.sparse, self._number = cupy, sparse, number

    def put(self, array: NDArray[Any]) -> Any:
        """Return a copy on the device."""
        return self.xp.asarray(array)

    def get(self, array: Any) -> NDArray[Any]:
        """Return a copy in the memory of the machine."""
        return np.asarray(self.xp.asnumpy(array))

    def solve(self, matrices: Any, vectors: Any) -> Any:
        """Return the solutions by cuSOLVER's factors of Cholesky."""
        import cupyx
        import cupyx.lapack

        with cupyx.errstate(linalg="raise"):  # else what is not positive definite goes unseen
            return cupyx.lapack.posv(matrices, vectors)

    def room(self) -> int:
        """Return what the driver has free and CuPy keeps for later, within the limit that CuPy was given."""
        with self.here():
            pool = self.xp.get_default_memory_pool()
            free = self.xp.cuda.runtime.memGetInfo()[0] + pool.free_bytes()
            limit = pool.get_limit()
            return int(min(free, limit - pool.used_bytes()) if limit else free)

    def exhausted(self, error: Exception) -> bool:
        """Return whether it is CuPy's own error, or one of libraries that take memory beside CuPy's."""
        return isinstance(error, MemoryError) or any(name in str(error) for name in _EXHAUSTED)

    def release(self) -> None:
        """Give back what CuPy keeps."""
        self.xp.get_default_memory_pool().free_all_blocks()

    def here(self) -> AbstractContextManager[Any]:
        """Return CuPy's own context of the device."""
        found: AbstractContextManager[Any] = self.xp.cuda.Device(self._number)
        return found


def current_gpu() -> Device:
    """Return the CUDA device that is current on this thread.

    Raises
    ------
    MissingDependencyError
        If CuPy is not installed, or finds no device.
    """
    try:
        import cupy
        import cupyx.scipy.sparse
    except ImportError as error:
        raise MissingDependencyError(
            "engine='cupy' needs CuPy: pip install 'sparrow-tensor[gpu]' (for CUDA 12; cupy-cuda13x for CUDA 13), or "
            f"use engine='stream' ({error})"
        ) from error
    try:
        number = cupy.cuda.Device().id
        cupy.cuda.runtime.memGetInfo()
    except RuntimeError as error:  # CuPy's CUDARuntimeError, of which there may be no device at all
        raise MissingDependencyError(
            f"engine='cupy' needs a CUDA device, and CuPy finds none ({error}): use engine='stream'"
        ) from error
    return _GPU(cupy, cupyx.scipy.sparse, number)


def tile_rows(device: Device) -> int:
    """Return how many entries a tile may have: as many threads may hold one each."""
    most = min(device.room() // _ENTRY_BYTES, memory.limit() // _HOST_BYTES) // settings.current().threads
    return max(min(most, _TILE_ROWS), 1)


def unordered(dtype: np.dtype[Any]) -> str | None:
    """Return why sums in a type are not done on a device, where the settings ask for the same bits every time."""
    if settings.current().deterministic and dtype.kind in "fc":
        return "floats are added in no fixed order there, and deterministic=True asks for one"
    return None
