"""Products of tensors by the names of the array API standard."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sparrow.errors import ShapeError
from sparrow.functions.elementwise import operand
from sparrow.functions.statistics import sum as total
from sparrow.plan import resolved_axis
from sparrow.tensor import Tensor
from sparrow.tensor.products import matmul

__all__ = ["matmul", "vecdot"]


def vecdot(x1: Tensor | ArrayLike, x2: Tensor | ArrayLike, /, *, axis: int = -1) -> Any:
    """Return the sums of products of cells along an axis, of the first one's conjugates; other axes broadcast.

    Parameters
    ----------
    x1, x2
        Tensors or arrays, one of them a tensor.
    axis
        Along which, counted from the end; of as many cells in both.

    Returns
    -------
    Tensor
        Lazy, without the axis; a number of two vectors.

    Raises
    ------
    ShapeError
        If there is no such axis, the sizes along it differ, or the others do not broadcast.
    UnsupportedError
        If one is no operand.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[0, 2, 0], [3, 0, -1]])
    >>> sp.vecdot(A, [1, 10, 100]).to_numpy()
    array([  20,  -97])
    """
    one, other = operand(x1), operand(x2)
    sizes = [np.shape(each)[resolved_axis(axis, np.ndim(each))] for each in (one, other)]
    if sizes[0] != sizes[1]:
        raise ShapeError(f"vecdot: {sizes[0]} and {sizes[1]} cells along axis {axis}")
    conjugated = np.conj(one) if np.result_type(_dtype(one)).kind == "c" else one
    product = np.multiply(conjugated, other)
    return total(product, axis=axis, dtype=product.dtype)


def _dtype(obj: Any) -> np.dtype[Any]:
    found: np.dtype[Any] = obj.dtype if hasattr(obj, "dtype") else np.asarray(obj).dtype
    return found
