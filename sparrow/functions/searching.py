"""Positions of cells by the names of the array API standard, and the choice between cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparrow.errors import InvalidValueError, ShapeError
from sparrow.functions.elementwise import operand
from sparrow.functions.statistics import Where, reduced
from sparrow.functions.views import as_tensor
from sparrow.tensor.operators import where as chosen

__all__ = ["argmax", "argmin", "count_nonzero", "searchsorted", "where"]


def argmax(x: Any, /, axis: int | str | None = None, *, keepdims: bool = False, where: Where = "all") -> Any:
    """Return the first position of the largest cell, int64; NaN wins, and absent cells have the fill value.

    Parameters
    ----------
    x
        A tensor; or an array or a number, of which the result is NumPy's.
    axis
        The axis that goes; without one all cells are taken in row-major order.
    keepdims
        Keep it with length 1.
    where
        "all" cells, or the "stored" ones. Of no stored ones the position is -1.

    Returns
    -------
    Tensor
        A tensor; a number over all axes without ``keepdims``.

    Raises
    ------
    ShapeError
        If an axis is out of range, or there are no cells.
    UnsupportedError
        If ``x`` is none of these.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[0, 2, 0], [3, 0, -1]])
    >>> sp.argmax(A), sp.argmax(A, axis=1).to_numpy()
    (np.int64(3), array([1, 0]))
    """
    return reduced("argmax", x, where, axis=axis, keepdims=keepdims)


def argmin(x: Any, /, axis: int | str | None = None, *, keepdims: bool = False, where: Where = "all") -> Any:
    """Return the first position of the smallest cell, int64; NaN wins, and absent cells have the fill value.

    Parameters
    ----------
    x
        A tensor; or an array or a number, of which the result is NumPy's.
    axis
        The axis that goes; without one all cells are taken in row-major order.
    keepdims
        Keep it with length 1.
    where
        "all" cells, or the "stored" ones. Of no stored ones the position is -1.

    Returns
    -------
    Tensor
        A tensor; a number over all axes without ``keepdims``.

    Raises
    ------
    ShapeError
        If an axis is out of range, or there are no cells.
    UnsupportedError
        If ``x`` is none of these.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[0, 2, 0], [3, 0, -1]])
    >>> sp.argmin(A), sp.argmin(A, axis=1).to_numpy()
    (np.int64(5), array([0, 2]))
    """
    return reduced("argmin", x, where, axis=axis, keepdims=keepdims)


def count_nonzero(x: Any, /, axis: int | str | Sequence[int | str] | None = None, *, keepdims: bool = False) -> Any:
    """Return how many cells are not 0, int64.

    Parameters
    ----------
    x
        A tensor; or an array or a number, of which the result is NumPy's.
    axis
        The axes that go: an integer, a tuple, or all by default.
    keepdims
        Keep them with length 1.

    Returns
    -------
    Tensor
        A tensor; a number over all axes without ``keepdims``.

    Raises
    ------
    ShapeError
        If an axis is out of range or named twice.
    UnsupportedError
        If ``x`` is none of these.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[0, 2, 0], [3, 0, -1]])
    >>> sp.count_nonzero(A), sp.count_nonzero(A, axis=1).to_numpy()
    (np.int64(3), array([1, 2]))
    """
    given: Any = tuple(axis) if isinstance(axis, list) else axis  # NumPy knows nothing of names
    return np.count_nonzero(operand(x), axis=given, keepdims=keepdims)


def searchsorted(
    x1: Any, x2: Any, /, *, side: Literal["left", "right"] = "left", sorter: ArrayLike | None = None
) -> NDArray[np.int64] | np.int64:
    """Return where values would have to be put into a sorted vector to keep it sorted, at once.

    Of a tensor only the entries are looked at, however long it is.

    Parameters
    ----------
    x1
        A vector in ascending order, NaN last.
    x2
        The values, of any shape.
    side
        Before the cells that equal a value, "left", or after them, "right".
    sorter
        The positions that put ``x1`` in order, if it is in none.

    Returns
    -------
    ndarray
        Of the shape of ``x2``, int64; a number where ``x2`` is one.

    Raises
    ------
    ShapeError
        If ``x1`` is no vector.
    InvalidValueError
        If there is no such side.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.from_coords([[0, 2**40 - 1]], [-5, 7], shape=(2**40,))
    >>> sp.searchsorted(A, [-6, 0, 7])
    array([            0,             1, 1099511627775])
    """
    if side not in ("left", "right"):
        raise InvalidValueError(f"side={side!r} must be 'left' or 'right'")
    vector, values = as_tensor(x1), np.asarray(operand(x2))
    if vector.ndim != 1:
        raise ShapeError(f"searchsorted looks at a vector, not at a tensor of shape {vector.shape}")
    if sorter is not None:
        vector = vector[np.asarray(sorter)]
    stored = vector.to_format("coo").data
    absent = np.searchsorted(np.asarray([vector.fill_value]), values, side) * (vector.size - len(stored))
    return np.searchsorted(stored, values, side) + absent


def where(condition: Any, x1: Any, x2: Any, /) -> Any:
    """Return the cells of ``x1`` where ``condition`` holds and those of ``x2`` elsewhere; shapes broadcast.

    Parameters
    ----------
    condition
        A tensor, array or number, of booleans or of what is not 0.
    x1, x2
        Tensors, arrays or numbers.

    Returns
    -------
    Tensor
        Lazy where all three are tensors or numbers; an array at once where one is an array that leaves nothing sparse.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    UnsupportedError
        If none is a tensor, or one is no operand.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[0, 2], [-3, 4]])
    >>> sp.where(A > 0, A, 0).to_numpy()
    array([[0, 2],
           [0, 4]])
    """
    return chosen(condition, x1, x2)
