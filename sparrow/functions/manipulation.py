"""Shapes of tensors: joining, splitting, folding. What can be a view is one; the rest is lazy."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparrow import engines, plan
from sparrow.core.schema import as_integer, as_integers, check_array
from sparrow.errors import InvalidValueError, ShapeError, UnsupportedError
from sparrow.functions.contraction import einsum
from sparrow.functions.tuning import tuning
from sparrow.functions.views import as_tensor, as_tensors, expand_dims, moveaxis
from sparrow.plan import PLUS_TIMES, make_concat, make_triangle, normalize_axis
from sparrow.runtime import memory
from sparrow.tensor import Tensor
from sparrow.tensor.products import contract

__all__ = [
    "concat", "diagonal", "kron", "nonzero", "repeat", "reshape", "roll", "split", "stack", "tile", "tril", "triu",
    "unique",
]  # fmt: skip


def concat(tensors: Sequence[Any], axis: int | str | None = 0) -> Tensor:
    """Return tensors joined along an axis that they have, lazily; without one, their cells in row-major order.

    Parameters
    ----------
    tensors
        At least one, of one number of dimensions.
    axis
        Along which; None for all of their cells as one vector.

    Returns
    -------
    Tensor
        Of the type that NumPy gives.

    Raises
    ------
    ShapeError
        If there are none, or shapes differ in another axis.
    UnsupportedError
        If the fill values of tensors differ; dense arrays take that of the tensors.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.concat([sp.asarray([[1, 0]]), sp.asarray([[0, 2]])]).to_numpy()
    array([[1, 0],
           [0, 2]])
    """
    found = _several(tensors)
    if axis is None:
        found, axis = [reshape(tensor, -1) for tensor in found], 0
    scans = [tensor.__sparrow_scan__() for tensor in found]
    at = normalize_axis(axis, scans[0].schema.ndim, scans[0].schema.dims)
    return Tensor(make_concat(scans, at))


def _several(tensors: Any) -> list[Tensor]:
    """Return the tensors to join, at least one."""
    several = type(tensors) in (list, tuple) or isinstance(tensors, Sequence | Tensor | np.ndarray)
    if not several or isinstance(tensors, str):
        raise UnsupportedError(f"{tensors!r} is no sequence of tensors: give them as a list")
    if not len(tensors):
        raise ShapeError("nothing to join: give at least one tensor")
    return as_tensors(tensors)


def stack(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Return tensors of one shape joined along a new axis, lazily.

    Parameters
    ----------
    tensors
        At least one.
    axis
        Where the new axis is in the result.

    Returns
    -------
    Tensor
        Of the type that NumPy gives.

    Raises
    ------
    ShapeError
        If there are none, their shapes differ, or there is no such axis.
    UnsupportedError
        If the fill values of tensors differ; dense arrays take that of the tensors.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.stack([sp.asarray([1, 0]), sp.asarray([0, 2])], axis=1).to_numpy()
    array([[1, 0],
           [0, 2]])
    """
    scans = [tensor.__sparrow_scan__() for tensor in _several(tensors)]
    shapes = [scan.schema.shape for scan in scans]
    if len(set(shapes)) > 1:
        labelled = any(plan.axis_labels(scan) for scan in scans)  # these may fit once they are brought together
        if not labelled or len(set(map(len, shapes))) > 1:
            raise ShapeError(f"tensors to stack must have one shape, got {', '.join(map(str, shapes))}")
    at = normalize_axis(axis, len(shapes[0]) + 1)
    return Tensor(make_concat([scan.then(scan.view.insert_axes((at,))) for scan in scans], at))


def split(tensor: Tensor, indices_or_sections: int | Sequence[int], axis: int | str = 0) -> list[Tensor]:
    """Return views that cut a tensor along an axis: into equal parts, or before the given positions.

    Parameters
    ----------
    tensor
        Of at least one dimension.
    indices_or_sections
        The number of equal parts, or the positions before which to cut.
    axis
        Along which.

    Returns
    -------
    list of Tensor

    Raises
    ------
    ShapeError
        If there is no such axis, or its size is not a multiple of the number of parts.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[0, 2, 0, 1], [3, 0, -1, 0]])
    >>> [part.shape for part in sp.split(A, [1, 3], axis=1)]
    [(2, 1), (2, 2), (2, 1)]
    """
    tensor = as_tensor(tensor)
    axis = normalize_axis(axis, tensor.ndim, tensor.dims)
    size = tensor.shape[axis]
    if isinstance(indices_or_sections, int | np.integer):
        parts = int(indices_or_sections)
        if parts < 1 or size % parts:
            raise ShapeError(f"an axis of size {size} does not split into {parts} equal parts")
        bounds = [size * k // parts for k in range(parts + 1)]
    else:
        cuts = as_integers(indices_or_sections, "indices_or_sections")
        bounds = [0, *(slice(None, at).indices(size)[1] for at in cuts), size]
    before = (slice(None),) * axis
    return [tensor[(*before, slice(a, b), ...)] for a, b in itertools.pairwise(bounds)]


def roll(tensor: Tensor, shift: int | Sequence[int], axis: int | str | Sequence[int | str] | None = None) -> Tensor:
    """Return the cells moved along axes, the last ones coming in first, lazily; without an axis in row-major order.

    Parameters
    ----------
    tensor
        Of any shape.
    shift
        By how many cells, one number for all axes or one for each.
    axis
        Along which.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If an axis is out of range, or there are not as many shifts as axes.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.roll(sp.asarray([[1, 0, 2], [0, 3, 0]]), 1, axis=1).to_numpy()
    array([[2, 1, 0],
           [0, 0, 3]])
    """
    tensor = as_tensor(tensor)
    if axis is None:
        return reshape(roll(reshape(tensor, -1), shift, 0), tensor.shape)
    axes = list(axis) if isinstance(axis, Sequence) and not isinstance(axis, str) else [axis]
    shifts = as_integers(shift, "shift")
    shifts = shifts * len(axes) if len(shifts) == 1 else shifts
    if len(shifts) != len(axes):
        raise ShapeError(f"{len(shifts)} shifts {shift} do not fit {len(axes)} axes {axis}")
    for by, along in zip(shifts, axes, strict=True):
        along = normalize_axis(along, tensor.ndim, tensor.dims)
        size = tensor.shape[along]
        if size and by % size:
            first, last = split(tensor, [size - by % size], along)
            tensor = concat([last, first], along)
    return tensor


def reshape(
    tensor: Tensor,
    shape: int | Sequence[int],
    *sizes: int,
    order: Literal["C", "F", "A"] = "C",
    copy: bool | None = None,
) -> Tensor:
    """Return the cells in another shape of as many cells, in row-major order, lazily; one size may be -1.

    Parameters
    ----------
    tensor
        Of any shape.
    shape
        The shape, or the first of its sizes.
    *sizes
        The others.
    order
        "F" to take and put the cells in column-major order; "A" is "C".
    copy
        False to refuse what is not the tensor itself; any other result is read-only anyhow.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If the number of cells differs.
    InvalidValueError
        If there is no such order, or ``copy`` is False and the shape is another.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.reshape(sp.asarray([[1, 0, 2], [0, 3, 0]]), (3, -1)).to_numpy()
    array([[1, 0],
           [2, 0],
           [3, 0]])
    """
    return as_tensor(tensor).reshape(*((shape, *sizes) if sizes else (shape,)), order=order, copy=copy)


def tril(tensor: Tensor, k: int = 0) -> Tensor:
    """Return the cells on and below a diagonal of the last two axes, lazily, and the fill value elsewhere.

    Parameters
    ----------
    tensor
        Of at least two dimensions.
    k
        How far the diagonal lies to the right of the main one, negative to the left.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If there are fewer dimensions.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.tril(sp.asarray([[1, 2, 3], [4, 5, 6]])).to_numpy()
    array([[1, 0, 0],
           [4, 5, 0]])
    """
    tensor = as_tensor(tensor)
    return Tensor(make_triangle(tensor.__sparrow_scan__(), as_integer(k, "k"), upper=False))


def triu(tensor: Tensor, k: int = 0) -> Tensor:
    """Return the cells on and above a diagonal of the last two axes, lazily, and the fill value elsewhere.

    Parameters
    ----------
    tensor
        Of at least two dimensions.
    k
        How far the diagonal lies to the right of the main one, negative to the left.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If there are fewer dimensions.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.triu(sp.asarray([[1, 2, 3], [4, 5, 6]])).to_numpy()
    array([[1, 2, 3],
           [0, 5, 6]])
    """
    tensor = as_tensor(tensor)
    return Tensor(make_triangle(tensor.__sparrow_scan__(), as_integer(k, "k"), upper=True))


def diagonal(tensor: Tensor, offset: int = 0, axis1: int | str = 0, axis2: int | str = 1) -> Tensor:
    """Return a diagonal of a matrix as a vector, or those of a stack of matrices along a new last axis, lazily.

    Parameters
    ----------
    tensor
        Of two dimensions or more.
    offset
        How far the diagonal lies to the right of the main one, negative to the left.
    axis1, axis2
        The axes that count the rows and the columns of the matrices.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If there are fewer dimensions, no such axes, or both are one.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.diagonal(sp.asarray([[1, 2, 3], [4, 5, 6]]), offset=1).to_numpy()
    array([2, 6])
    """
    tensor = as_tensor(tensor)
    if tensor.ndim > 2 or (tensor.ndim == 2 and (axis1, axis2) != (0, 1)):
        rows, columns = normalize_axis(axis1, tensor.ndim, tensor.dims), normalize_axis(axis2, tensor.ndim, tensor.dims)
        if rows == columns:
            raise ShapeError(f"axis1={axis1} and axis2={axis2} are one axis: a diagonal needs two")
        matrices = moveaxis(tensor, (rows, columns), (-2, -1))
        if tensor.ndim == 2:
            return diagonal(matrices, offset)
        right = as_integer(offset, "offset")
        height, width = matrices.shape[-2:]
        top, left = max(-right, 0), max(right, 0)
        length = max(min(height - top, width - left), 0)
        if length > tuning().diagonal_gather_max_length and matrices.fill_value == 0:  # by entries, not by cells
            square = matrices[..., top : top + length, left : left + length]
            axes = list(range(tensor.ndim - 1))
            return einsum(square, [*axes, axes[-1]], axes)  # type: ignore[no-any-return]
        memory.check(2 * 8 * length, f"the places of {length} cells of a diagonal")
        place = np.arange(length)
        found: Tensor = matrices[..., place + top, place + left]
        return found
    return Tensor(plan.make_diagonal(tensor.__sparrow_scan__(), as_integer(offset, "offset")))


def tile(tensor: Tensor, reps: int | Sequence[int]) -> Tensor:
    """Return the tensor laid side by side along each axis, lazily.

    Parameters
    ----------
    tensor
        Of any shape.
    reps
        How often along each axis; further axes in front.

    Returns
    -------
    Tensor

    Raises
    ------
    InvalidValueError
        If a number is negative.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.tile(sp.asarray([[0, 2]]), (2, 2)).to_numpy()
    array([[0, 2, 0, 2],
           [0, 2, 0, 2]])
    """
    tensor = as_tensor(tensor)
    counts = as_integers(reps, "reps")
    while len(counts) < tensor.ndim:
        counts.insert(0, 1)
    for _ in range(len(counts) - tensor.ndim):
        tensor = expand_dims(tensor, 0)
    if any(n < 0 for n in counts):
        raise InvalidValueError(f"a tensor cannot be laid side by side {counts} times")
    what = f"{max(counts, default=0)} copies of a tensor side by side"
    memory.check(tuning().tile_copy_bytes * max(counts, default=0), what, "broadcast along a new axis instead")
    for axis, n in enumerate(counts):
        if n == 0:
            tensor = split(tensor, [0], axis)[0]
        elif n > 1:
            tensor = concat([tensor] * n, axis)
    return tensor if any(n != 1 for n in counts) else tensor.astype(tensor.dtype, copy=True)


def repeat(tensor: Tensor, repeats: int | Sequence[int], axis: int | str | None = None) -> Tensor:
    """Return the tensor with each slice of an axis several times in a row; a copy, lazily.

    Parameters
    ----------
    tensor
        Of any shape.
    repeats
        How often, one number for all slices or one for each.
    axis
        Along which; without one the cells in row-major order are repeated.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If there is no such axis, or not one number for each slice.
    InvalidValueError
        If a number is negative or no integer.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.repeat(sp.asarray([[0, 2], [3, 0]]), [1, 2], axis=0).to_numpy()
    array([[0, 2],
           [3, 0],
           [3, 0]])
    """
    tensor = as_tensor(tensor)
    if axis is None:
        return repeat(reshape(tensor, -1), repeats, 0)
    axis = normalize_axis(axis, tensor.ndim, tensor.dims)
    size = tensor.shape[axis]
    counts = check_array(repeats, "repeats")
    if counts.size and (counts.dtype.kind not in "iu" or (counts < 0).any()):
        raise InvalidValueError(f"slices cannot be repeated {repeats} times: give integers from 0 on")
    if counts.shape not in ((), (1,), (size,)):
        raise ShapeError(f"repeats of shape {counts.shape} for axis {axis} of size {size}: give one number, or {size}")
    total = int(counts.sum(dtype=np.float64)) * (size if counts.size == 1 else 1)
    memory.check(8 * total, f"the places of {total} slices", "broadcast along a new axis instead")
    view: Tensor = tensor[(*(slice(None),) * axis, np.repeat(np.arange(size), counts.astype(np.int64)), ...)]
    return view


def nonzero(tensor: Tensor) -> tuple[NDArray[np.int64], ...]:
    """Return the positions of cells that are not 0, at once.

    Parameters
    ----------
    tensor
        Of at least one dimension.

    Returns
    -------
    tuple of ndarray
        One array of int64 for each axis, in row-major order.

    Raises
    ------
    ShapeError
        If there is no axis.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.nonzero(sp.asarray([[0, 2], [3, 0]]))
    (array([0, 1]), array([1, 0]))
    """
    tensor = as_tensor(tensor)
    if not tensor.ndim:
        raise ShapeError("nonzero gives positions along axes, and a tensor without dimensions has none")
    if tensor.fill_value != 0:
        return tensor.to_numpy().nonzero()
    found = engines.evaluate(tensor.__sparrow_scan__())
    return tuple(column.astype(np.int64) for column in found.coords)


def unique(tensor: Tensor) -> NDArray[Any]:
    """Return the distinct values of all cells, ascending, fill among them where a cell is absent, at once.

    Parameters
    ----------
    tensor
        Of any shape.

    Returns
    -------
    ndarray
        One NaN for all, as of ``np.unique``; :func:`sparrow.unique_values` keeps each.

    Raises
    ------
    TooLargeError
        If the entries would pass the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.unique(sp.asarray([[0, 2], [3, 2]]))
    array([0, 2, 3])
    """
    tensor = as_tensor(tensor)
    values = engines.evaluate(tensor.__sparrow_scan__()).values
    if len(values) < tensor.size:
        values = np.append(values, tensor.fill_value)
    return np.unique(values)


def kron(a: Any, b: Any) -> Tensor:
    """Return the Kronecker product of two tensors, lazily.

    Parameters
    ----------
    a, b
        Tensors or arrays of fill 0. The one with fewer dimensions gets new ones in front.

    Returns
    -------
    Tensor
        Of the type that NumPy gives their product.

    Raises
    ------
    UnsupportedError
        If the fill of one is not 0.
    TooLargeError
        If the entries would pass the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.kron(sp.eye(2), sp.asarray([[0, 2]])).to_numpy()
    array([[0., 2., 0., 0.],
           [0., 0., 0., 2.]])
    """
    pair = [as_tensor(one) for one in (a, b)]
    ndim = max(one.ndim for one in pair)
    left, right = (one.reshape(*(1,) * (ndim - one.ndim), *one.shape) if one.ndim < ndim else one for one in pair)
    letters = tuple(range(0, 2 * ndim, 2)), tuple(range(1, 2 * ndim, 2))
    product = contract((left, right), letters, range(2 * ndim), semiring=PLUS_TIMES)
    return reshape(as_tensor(product), tuple(n * m for n, m in zip(left.shape, right.shape, strict=True)))
