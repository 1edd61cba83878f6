"""SDDMM kernel: sampled dense-dense matrix multiplication."""

from __future__ import annotations

import numpy as np

from sparrow.kernels.jit.compiler import njit
from sparrow.kernels.matmul.intrinsics import prefetch
from sparrow.kernels.matmul.simd import LANES, broadcast, load, reduce_add

__all__ = ["sddmm"]

_PREFETCH = 16
"""Elements between a prefetch and its use."""
_ZERO = np.uint64(0)


@njit(cache=True, nogil=True)
def sddmm(rows, columns, values, x, y, out):  # type: ignore[no-untyped-def]
    """Write ``out[e] = values[e] * sum(x[rows[e], :] * y[columns[e], :])``.

    Parameters
    ----------
    rows, columns, values
        Coordinates and values, shape (n,). Elements outside the arrays yield 0.
    x, y
        Dense factors, shapes (m, k) and (n, k), in the dtype of the values.
    out
        Receives the products, shape (n,).
    """
    height, width, depth = np.uint64(x.shape[0]), np.uint64(y.shape[0]), np.uint64(x.shape[1])
    zero = out.dtype.type(0)
    ahead = len(rows) - _PREFETCH
    for e in range(len(rows)):
        if e < ahead:
            prefetch(y, np.uint64(columns[e + _PREFETCH]) * depth)
        row, column = np.uint64(rows[e]), np.uint64(columns[e])
        if row >= height or column >= width:
            out[e] = zero
            continue
        products = broadcast(zero)
        for panel in range(_ZERO, depth, LANES):
            left = depth - panel
            products += load(x, row * depth + panel, left) * load(y, column * depth + panel, left)
        out[e] = values[e] * reduce_add(products)
