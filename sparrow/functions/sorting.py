"""Cells in order along an axis, running totals of them, and differences."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.schema import as_integer
from sparrow.errors import InvalidValueError
from sparrow.functions.manipulation import concat
from sparrow.functions.views import as_tensor, flip, moveaxis
from sparrow.plan import Cast, axis_labels, make_map, make_sort, normalize_axis
from sparrow.runtime.validation import check_flag
from sparrow.tensor import Tensor

__all__ = ["argsort", "diff", "sort"]


def sort(tensor: Tensor, axis: int | str = -1, descending: bool = False, stable: bool = True) -> Tensor:
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

    Returns
    -------
    Tensor

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
    check_flag("stable", stable)
    descending = check_flag("descending", descending)
    tensor = as_tensor(tensor)
    axis = normalize_axis(axis, tensor.ndim, tensor.dims)
    last = tensor.ndim - 1
    lines = Tensor(make_sort(moveaxis(tensor, axis, last).__sparrow_scan__()))
    ordered = moveaxis(lines, last, axis)
    return flip(ordered, axis) if descending else ordered


def argsort(tensor: Tensor, axis: int | str = -1, descending: bool = False, stable: bool = True) -> NDArray[np.int64]:
    """Return the positions that put the cells of each line along an axis in order: an array, at once.

    Parameters
    ----------
    tensor
        Of at least one dimension, whose cells fit in memory as an array: each has a position.
    axis
        Along which.
    descending
        The largest first, NaN before all others.
    stable
        Whether equal cells keep their order; they do anyhow.

    Returns
    -------
    ndarray
        Of the shape of the tensor, int64.

    Raises
    ------
    ShapeError
        If there is no such axis.
    TooLargeError
        If the array of all cells would pass the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.argsort(sp.asarray([[3, 0, 0, -1]]))
    array([[3, 1, 2, 0]])
    """
    check_flag("stable", stable)
    descending = check_flag("descending", descending)
    tensor = as_tensor(tensor)
    axis = normalize_axis(axis, tensor.ndim, tensor.dims)
    cells = tensor.to_numpy()
    if not descending:
        return np.argsort(cells, axis, stable=True)
    turned = np.argsort(np.flip(cells, axis), axis, stable=True)
    return np.flip(cells.shape[axis] - 1 - turned, axis)


def diff(
    tensor: Tensor, axis: int | str = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """Return the difference of each cell along an axis and the one before it, lazily; of booleans whether they differ.

    Parameters
    ----------
    tensor
        Of at least one dimension.
    axis
        Along which; the result is shorter by ``n``. Labels along it are those of the later cells.
    n
        How many times differences are taken, of differences from the second time on; 0 gives the tensor as it is.
    prepend, append
        Cells to put before and after the tensor first, of its fill value.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If there is no such axis, or what is to be put before or after does not fit.
    InvalidValueError
        If ``n`` is negative.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.diff(sp.asarray([[0, 2, 2, 0]])).to_numpy()
    array([[ 2,  0, -2]])
    """
    tensor = as_tensor(tensor)
    axis = normalize_axis(axis, tensor.ndim, tensor.dims)
    times = as_integer(n, "n")
    if times < 0:
        raise InvalidValueError(f"n={n}: differences are taken 0 times or more")
    if not times:
        return tensor
    parts = [part for part in (prepend, tensor, append) if part is not None]
    found: Any = concat(parts, axis) if len(parts) > 1 else tensor
    before = (slice(None),) * axis
    for _ in range(min(times, found.shape[axis])):
        later, earlier = (
            found[(*before, slice(1, None), ...)],
            _by_position(found[(*before, slice(None, -1), ...)], axis),
        )
        found = later != earlier if found.dtype == bool else later - earlier
    return as_tensor(found)


def _by_position(tensor: Tensor, axis: int) -> Tensor:
    """Return a tensor without labels along an axis, so that it meets others by position."""
    scan = tensor.__sparrow_scan__()
    names = dict(axis_labels(scan))
    if names.pop(axis, None) is None:
        return tensor
    return Tensor(make_map(Cast(scan.schema.dtype), [scan]).with_labels(names))
