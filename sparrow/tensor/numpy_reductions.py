"""NumPy's reductions and running totals called with tensors, by NumPy's names and arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparrow.errors import ShapeError, UnsupportedError
from sparrow.plan import Axis, resolved_axis
from sparrow.tensor.accumulations import Accumulations
from sparrow.tensor.nanreductions import NanReductions
from sparrow.tensor.signatures import called_as

__all__ = ["NUMPY"]


def _count_nonzero(tensor: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    return (
        tensor.count(axis, keepdims=keepdims) if tensor.fill_value == 0 else (tensor != 0).sum(axis, keepdims=keepdims)
    )


def _norm(tensor: Any, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Any:
    """Return what ``np.linalg.norm`` does: of a matrix and an order a norm of the matrix, else of vectors."""
    pair = axis if isinstance(axis, tuple) else tuple(range(tensor.ndim)) if axis is None else (axis,)
    if ord is None or (ord == "fro" and len(pair) == 2):
        return tensor.norm(2, axis, keepdims=keepdims)
    if len(pair) == 1:
        return tensor.norm(ord, pair, keepdims=keepdims)
    if len(pair) != 2:
        raise ShapeError(f"np.linalg.norm: ord={ord!r} is for vectors and matrices, not for {len(pair)} axes")
    if ord not in (1, -1, np.inf, -np.inf):
        known = ord in (2, -2, "nuc")
        why = "is of its singular values, which sp.linalg.norm finds of a dense one" if known else "is not known"
        raise UnsupportedError(
            f"norm: ord={ord!r} of a matrix {why}: use 'fro', 1, -1, inf or -inf{', 2, -2 or nuc' * (not known)}, or "
            "A.norm(ord), which is that of all cells as one vector"
        )
    rows, columns = (resolved_axis(k, tensor.ndim) for k in pair)
    inner, outer = (rows, columns) if abs(ord) == 1 else (columns, rows)
    numbers = tensor if tensor.dtype.kind in "fc" else tensor.astype(np.float64)
    sums = abs(numbers).sum(inner, keepdims=True)
    both = (sums.max if ord > 0 else sums.min)(outer, keepdims=True)
    return both if keepdims else both[tuple(0 if k in (rows, columns) else slice(None) for k in range(tensor.ndim))]


_BY_NAME = (
    "sum", "prod", "mean", "var", "std", "min", "max", "any", "all", "argmin", "argmax", "nansum", "nanprod", "nanmean",
    "nanvar", "nanstd", "nanmin", "nanmax", "nanargmin", "nanargmax",
)  # fmt: skip


def _matrix_norm(tensor: Any, keepdims: bool = False, ord: Any = "fro") -> Any:
    return _norm(tensor, ord, (-2, -1), keepdims)


NUMPY = {getattr(np, name): called_as(getattr(np, name), getattr(NanReductions, name)) for name in _BY_NAME} | {
    np.count_nonzero: called_as(np.count_nonzero, _count_nonzero),
    np.cumprod: called_as(np.cumprod, Accumulations.cumprod),
    np.cumsum: called_as(np.cumsum, Accumulations.cumsum),
    np.linalg.matrix_norm: called_as(np.linalg.matrix_norm, _matrix_norm),
    np.linalg.norm: called_as(np.linalg.norm, _norm),
    np.linalg.vector_norm: called_as(np.linalg.vector_norm, NanReductions.norm),
}
"""NumPy's functions, and what does them, with NumPy's arguments."""
