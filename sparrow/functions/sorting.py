"""Cells in order along an axis, and running totals of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sparrow import engines
from sparrow.errors import InvalidValueError, ShapeError
from sparrow.functions.manipulation import as_tensor, flip, moveaxis
from sparrow.plan import accumulated, resolved_axis, sorted_lines
from sparrow.schema import check_dtype
from sparrow.tensor import Tensor

__all__ = ["cumulative_prod", "cumulative_sum", "sort"]


def sort(tensor: Tensor, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the cells of each line along an axis in order, lazily: a sorted line is as sparse as it was.

    NaN counts as the largest number, as in NumPy. Absent cells take their place between the entries that are less than
    the fill value and the others. A line is sorted in memory, so that the entries of one must fit there.

    Parameters
    ----------
    tensor
        Of at least one dimension.
    axis
        Along which.
    descending
        The largest first, NaN before all others.
    stable
        Whether equal cells keep their order; they cannot be told apart, so the result is the same.

    Raises
    ------
    ShapeError
        If there is no such axis.
    TooLargeError
        When it is computed, if the entries of a line pass the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[3, 0, 0, -1], [0, 2, 1, 0]])
    >>> sp.sort(A).to_numpy()
    array([[-1,  0,  0,  3],
           [ 0,  0,  1,  2]])
    >>> sp.sort(A, descending=True).nnz == A.nnz
    True
    """
    tensor = as_tensor(tensor)
    axis = resolved_axis(axis, tensor.ndim)
    last = tensor.ndim - 1
    lines = Tensor(sorted_lines(moveaxis(tensor, axis, last).__sparrow_scan__()))
    ordered = moveaxis(lines, last, axis)
    return flip(ordered, axis) if descending else ordered


def cumulative_sum(
    tensor: Tensor, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> NDArray[Any]:
    """Return the sum of each line along an axis up to each cell: an array, at once.

    A running total is dense after the first entry of a line, so there is nothing sparse to keep; the entries are
    streamed into the array.

    Parameters
    ----------
    tensor
        Of at least one dimension.
    axis
        Along which; it may be left out where there is one.
    dtype
        In which cells are added up; NumPy's choice by default.
    include_initial
        Start each line with the 0 that it has before its first cell.

    Returns
    -------
    ndarray
        Of the shape of the tensor, one longer along the axis with ``include_initial``.

    Raises
    ------
    ShapeError
        If there is no such axis, or several and none is named.
    TooLargeError
        If the array would pass the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.cumulative_sum(sp.asarray([[0, 2, 0], [1, 0, 1]]), axis=1)
    array([[0, 2, 2],
           [1, 1, 2]])
    """
    return _totals(tensor, np.add, axis, dtype, include_initial)


def cumulative_prod(
    tensor: Tensor, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> NDArray[Any]:
    """Return the product of each line along an axis up to each cell, as :func:`cumulative_sum` does the sum."""
    return _totals(tensor, np.multiply, axis, dtype, include_initial)


def _totals(
    tensor: Tensor, ufunc: np.ufunc, axis: int | None, dtype: DTypeLike | None, include_initial: bool
) -> NDArray[Any]:
    tensor = as_tensor(tensor)
    if axis is None and tensor.ndim != 1:
        raise ShapeError(f"say axis=: along which of the axes of shape {tensor.shape}")
    if not isinstance(include_initial, bool | np.bool_):
        raise InvalidValueError(f"include_initial={include_initial!r} must be True or False")
    node = accumulated(
        tensor.__sparrow_scan__(),
        ufunc,
        resolved_axis(0 if axis is None else axis, tensor.ndim),
        None if dtype is None else check_dtype(dtype),
        ufunc.identity if include_initial else None,
    )
    totals: NDArray[Any] = engines.array(node)
    return totals
