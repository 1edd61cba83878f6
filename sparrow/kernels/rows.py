"""Loops over compressed rows, compiled: rows brought into another order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sparrow.kernels.compiling import announce, readonly

__all__ = ["gather_rows"]


@njit(cache=True, nogil=True)
def _gather(indptr, rows, begins, source, out):  # type: ignore[no-untyped-def]
    """Copy stretches ``rows`` of ``source``, which ``indptr`` bounds, to where ``begins`` says in ``out``."""
    for k in range(len(rows)):
        first = indptr[rows[k]]
        at = begins[k]
        for j in range(indptr[rows[k] + 1] - first):
            out[at + j] = source[first + j]


def gather_rows(
    indptr: NDArray[np.int64], arrays: tuple[NDArray[Any], ...], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], tuple[NDArray[Any], ...]]:
    """Return the pointers and the arrays of some rows, in their order.

    Parameters
    ----------
    indptr
        Shape (height + 1,): where rows begin and end in the arrays.
    arrays
        Of one length, of whatever type.
    rows
        Numbers of rows, in any order; one may come twice.

    Examples
    --------
    >>> indptr, (cols,) = gather_rows(np.array([0, 2, 3]), (np.array([5, 6, 7]),), np.array([1, 0, 1]))
    >>> indptr, cols
    (array([0, 1, 3, 4]), array([7, 5, 6, 7]))
    """
    announce()
    out = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(indptr[rows + 1] - indptr[rows], out=out[1:])
    gathered = []
    for array in arrays:
        found = np.empty(int(out[-1]), array.dtype)
        width = min(array.itemsize, 8)
        words = np.dtype(f"u{width}")  # whatever the numbers are, words of one size move alike
        each = array.itemsize // width
        _gather(
            readonly(indptr * each), readonly(rows), readonly(out[:-1] * each),
            readonly(array).view(words), found.view(words),
        )  # fmt: skip
        gathered.append(found)
    return out, tuple(gathered)
