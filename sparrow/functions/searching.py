"""Searching functions of the array API standard."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparrow.core.schema import check_array
from sparrow.errors import InvalidValueError, ShapeError, UnsupportedError
from sparrow.functions.elementwise import as_operand
from sparrow.functions.views import as_tensor
from sparrow.tensor import Tensor

__all__ = ["searchsorted", "where"]


def searchsorted(
    x1: Any, x2: Any, /, *, side: Literal["left", "right"] = "left", sorter: ArrayLike | None = None
) -> NDArray[np.int64] | np.int64:
    """Return the positions at which to insert values into a sorted vector.

    Only stored elements are read, whatever the length of the vector.

    Parameters
    ----------
    x1
        Vector in ascending order, NaN last.
    x2
        Values, of any shape.
    side
        Insert before elements equal to a value, "left", or after them, "right".
    sorter
        Positions that sort ``x1``, if it is unsorted.

    Returns
    -------
    ndarray
        Of the shape of ``x2``, int64; a scalar if ``x2`` is one.

    Raises
    ------
    ShapeError
        If ``x1`` is not a vector.
    InvalidValueError
        If ``side`` is unknown.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.from_coords([[0, 2**40 - 1]], [-5, 7], shape=(2**40,))
    >>> sp.searchsorted(A, [-6, 0, 7])
    array([            0,             1, 1099511627775])
    """
    if side not in ("left", "right"):
        raise InvalidValueError(f"side must be 'left' or 'right', got {side!r}")
    vector, values = as_tensor(x1), np.asarray(as_operand(x2))
    if vector.ndim != 1:
        raise ShapeError(f"searchsorted: x1 must be a vector, got shape {vector.shape}")
    if sorter is not None:
        vector = vector[check_array(sorter, "sorter")]
    stored = vector.to_format("coo").data
    absent = np.searchsorted(np.asarray([vector.fill_value]), values, side) * (vector.size - len(stored))
    return np.searchsorted(stored, values, side) + absent


def where(condition: Any, x1: Any, x2: Any, /) -> Any:
    """Return elements of ``x1`` where ``condition`` is True and of ``x2`` elsewhere.

    Parameters
    ----------
    condition
        Tensor, array or number; non-zero means True.
    x1, x2
        Tensors, arrays or numbers; shapes broadcast.

    Returns
    -------
    Tensor
        Lazy; an array, at once, if an array operand leaves nothing sparse.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    UnsupportedError
        If none is a tensor, or one is not an operand.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[0, 2], [-3, 4]])
    >>> sp.where(A > 0, A, 0).to_numpy()
    array([[0, 2],
           [0, 4]])
    """
    tensor = next((each for each in (condition, x1, x2) if isinstance(each, Tensor)), None)
    if tensor is None:
        raise UnsupportedError("where: one argument must be a tensor, got none: use NumPy for dense arrays")
    return tensor._elementwise(np.where, condition, x1, x2)
