"""Sorting along an axis, and differences of neighboring elements."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.schema import as_integer
from sparrow.errors import InvalidValueError
from sparrow.functions.generation import full
from sparrow.functions.labels import drop_labels
from sparrow.functions.manipulation import concat
from sparrow.functions.views import as_tensor, flip, moveaxis
from sparrow.plan import make_sort, normalize_axis
from sparrow.runtime.validation import check_flag
from sparrow.tensor import Tensor

__all__ = ["argsort", "diff", "sort"]


def sort(tensor: Tensor, axis: int | str = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Sort the elements of each line along an axis, lazily.

    NaN is the largest number, as in NumPy. Absent elements are placed between the stored elements below the fill value
    and those above it. The stored elements of a line must fit in memory.

    Parameters
    ----------
    tensor
        Tensor of at least one dimension.
    axis
        The axis.
    descending
        Largest first, NaN before all others.
    stable
        Ignored: equal elements are indistinguishable.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If there is no such axis.
    TooLargeError
        When it is computed, if the stored elements of a line exceed the memory limit.

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
    """Return the positions that sort each line along an axis, a dense array.

    Parameters
    ----------
    tensor
        Tensor of at least one dimension that fits in memory as a dense array.
    axis
        The axis.
    descending
        Largest first, NaN before all others.
    stable
        Ignored: the order of equal elements is always kept.

    Returns
    -------
    ndarray
        Of the shape of the tensor, int64.

    Raises
    ------
    ShapeError
        If there is no such axis.
    TooLargeError
        If the dense array would exceed the memory limit.

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
    dense = tensor.to_numpy()
    if not descending:
        return np.argsort(dense, axis, stable=True)
    flipped = np.argsort(np.flip(dense, axis), axis, stable=True)
    return np.flip(dense.shape[axis] - 1 - flipped, axis)


def diff(tensor: Tensor, axis: int | str = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Tensor:
    """Return the differences of neighboring elements along an axis, lazily.

    For booleans the result is whether they differ.

    Parameters
    ----------
    tensor
        Tensor of at least one dimension.
    axis
        The axis, by ``n`` shorter in the result. Its labels are those of the later elements.
    n
        Number of times that differences are taken; 0 returns the tensor itself.
    prepend, append
        Elements to concatenate before and after the tensor first, of the same fill value; or a number for all.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If there is no such axis, or the shapes of ``prepend`` or ``append`` do not match.
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
        raise InvalidValueError(f"n must not be negative, got {n}")
    if not times:
        return tensor
    parts = [part if np.ndim(part) else _fill_slice(tensor, axis, part) for part in (prepend, tensor, append)
             if part is not None]  # fmt: skip
    found: Any = concat(parts, axis) if len(parts) > 1 else tensor
    before = (slice(None),) * axis
    for _ in range(min(times, found.shape[axis])):
        later, earlier = (
            found[(*before, slice(1, None), ...)],
            drop_labels(found[(*before, slice(None, -1), ...)], axis),
        )
        found = later != earlier if found.dtype == bool else later - earlier
    return as_tensor(found)


def _fill_slice(tensor: Tensor, axis: int, value: Any) -> Tensor:
    """Return a slice of a tensor along an axis, of one value."""
    sizes = (*tensor.shape[:axis], 1, *tensor.shape[axis + 1 :])
    made = full(sizes, value).refill(tensor.fill_value)
    return made.rename(**dict(zip(made.dims, tensor.dims, strict=True)))
