"""Axes of tensors: moved, added, dropped, turned, broadcast. All of them are views, which read nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from sparrow.core.schema import check_shape
from sparrow.errors import ShapeError
from sparrow.interop.conversion import from_object
from sparrow.plan import normalize_axis
from sparrow.relations.base import MemoryHandle, MemoryRelation
from sparrow.tensor import Tensor

__all__ = [
    "as_tensor", "as_tensors", "broadcast_arrays", "broadcast_shapes", "broadcast_to", "expand_dims", "flip",
    "matrix_transpose", "moveaxis", "permute_dims", "squeeze", "swapaxes", "unstack",
]  # fmt: skip


def as_tensor(obj: Any) -> Tensor:
    """Return a tensor as it is, and anything :func:`sparrow.asarray` takes as one in memory.

    Parameters
    ----------
    obj
        A tensor, or anything else that it takes.
    """
    return obj if isinstance(obj, Tensor) else Tensor(MemoryHandle(MemoryRelation(*from_object(obj))))


def as_tensors(objects: Iterable[Any]) -> list[Tensor]:
    """Return tensors as they are, and dense arrays, whose cells are all given, with the fill of the first tensor.

    Parameters
    ----------
    objects
        Tensors, and anything else that :func:`as_tensor` takes.
    """
    given = list(objects)
    found = [as_tensor(each) for each in given]
    first = next((each for each in given if isinstance(each, Tensor)), None)
    if first is None or not first.fill_value:
        return found
    dtype = np.result_type(*(each.dtype for each in found))
    fill = first.fill_value.astype(dtype)
    return [
        own if own is each or hasattr(each, "nnz") else own.astype(dtype).refill(fill)
        for own, each in zip(found, given, strict=True)
    ]


def expand_dims(tensor: Tensor, axis: int | Sequence[int] = 0) -> Tensor:
    """Return the view with a new axis of length 1 at a position, or several at several.

    Parameters
    ----------
    tensor
        Of any shape.
    axis
        Where the new axes are in the result.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If a position is out of range or named twice.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.zeros((3, 4))
    >>> sp.expand_dims(A, 1).shape, sp.expand_dims(A, (0, -1)).shape
    ((3, 1, 4), (1, 3, 4, 1))
    """
    tensor = as_tensor(tensor)
    several = tuple(axis) if isinstance(axis, Sequence) and not isinstance(axis, str) else (axis,)
    ndim = tensor.ndim + len(several)
    new = _axes(several, ndim)
    return tensor._with(tensor._view.insert_axes(new), lambda whole: whole.insert_axes(new), "indexing")


def squeeze(tensor: Tensor, axis: int | str | Sequence[int | str] | None = None) -> Tensor:
    """Return the view without axes of length 1, or without those given.

    Parameters
    ----------
    tensor
        Of any shape.
    axis
        The axes that go, all of length 1 by default.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If there is no such axis, or one given is longer.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.squeeze(sp.zeros((1, 3, 1))).shape
    (3,)
    """
    tensor = as_tensor(tensor)
    gone = (
        {k for k, n in enumerate(tensor.shape) if n == 1}
        if axis is None
        else set(_axes(axis, tensor.ndim, tensor.dims))
    )
    for k in gone:
        if tensor.shape[k] != 1:
            raise ShapeError(f"cannot squeeze axis {k} of size {tensor.shape[k]}: its size must be 1")
    view: Tensor = tensor[(*(0 if k in gone else slice(None) for k in range(tensor.ndim)), ...)]
    return view


def moveaxis(tensor: Tensor, source: int | str | Sequence[int | str], destination: int | Sequence[int]) -> Tensor:
    """Return the view with axes moved to other positions; the others keep their order.

    Parameters
    ----------
    tensor
        Of at least one dimension.
    source
        The axes to move.
    destination
        Where each of them goes.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If an axis is out of range or named twice, or there are not as many sources as destinations.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.moveaxis(sp.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    tensor = as_tensor(tensor)
    sources, targets = (_axes(axes, tensor.ndim, tensor.dims) for axes in (source, destination))
    if len(sources) != len(targets):
        raise ShapeError(f"{len(sources)} axes {source} do not move to {len(targets)} positions {destination}")
    order = [k for k in range(tensor.ndim) if k not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return tensor.transpose(order)


def permute_dims(tensor: Tensor, axes: Sequence[int | str]) -> Tensor:
    """Return the view with its axes in another order.

    Parameters
    ----------
    tensor
        Of any shape.
    axes
        For each axis of the result, which of the tensor's it is, by number or the name of its dimension.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If ``axes`` does not name each axis once.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.permute_dims(sp.zeros((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    tensor = as_tensor(tensor)
    order = [axes] if isinstance(axes, str) or not np.iterable(axes) else list(axes)
    return tensor.transpose(order) if tensor.ndim or order else tensor


def swapaxes(tensor: Tensor, axis1: int, axis2: int) -> Tensor:
    """Return the view with two axes exchanged.

    Parameters
    ----------
    tensor
        Of at least one dimension.
    axis1, axis2
        The axes.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If there is no such axis.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> np.swapaxes(sp.zeros((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    tensor = as_tensor(tensor)
    order = list(range(tensor.ndim))
    one, other = normalize_axis(axis1, tensor.ndim, tensor.dims), normalize_axis(axis2, tensor.ndim, tensor.dims)
    order[one], order[other] = other, one
    return tensor.transpose(order)


def matrix_transpose(tensor: Tensor) -> Tensor:
    """Return the view with the last two axes exchanged.

    Parameters
    ----------
    tensor
        Of at least two dimensions.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If there are fewer.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.matrix_transpose(sp.zeros((2, 3, 4))).shape
    (2, 4, 3)
    """
    return swapaxes(tensor, -2, -1)


def unstack(tensor: Tensor, axis: int | str = 0) -> tuple[Any, ...]:
    """Return the slices of an axis, each a view.

    Parameters
    ----------
    tensor
        Of at least one dimension.
    axis
        Along which.

    Returns
    -------
    tuple of Tensor
        Of numbers where there is no other axis.

    Raises
    ------
    ShapeError
        If there is no such axis.

    Examples
    --------
    >>> import sparrow as sp
    >>> one, other = sp.unstack(sp.asarray([[0, 2], [3, 0]]), axis=1)
    >>> one.to_numpy(), other.to_numpy()
    (array([0, 3]), array([2, 0]))
    """
    return tuple(moveaxis(tensor, axis, 0))


def _axes(axes: int | str | Sequence[int | str], ndim: int, dims: Sequence[str] = ()) -> list[int]:
    """Return axes counted from the front, none of them twice."""
    several = axes if isinstance(axes, Sequence) and not isinstance(axes, str) else [axes]
    found = [normalize_axis(axis, ndim, dims) for axis in several]
    if len(set(found)) < len(found):
        raise ShapeError(f"axes {axes} name one of {ndim} dimensions twice")
    return found


def flip(tensor: Tensor, axis: int | str | Sequence[int | str] | None = None) -> Tensor:
    """Return the view with axes reversed, all by default.

    Parameters
    ----------
    tensor
        Of any shape.
    axis
        The axes.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If an axis is out of range or named twice.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.flip(sp.asarray([[0, 2], [3, 0]]), axis=0).to_numpy()
    array([[3, 0],
           [0, 2]])
    """
    tensor = as_tensor(tensor)
    turned = _axes(range(tensor.ndim) if axis is None else axis, tensor.ndim, tensor.dims)
    view: Tensor = tensor[(*(slice(None, None, -1 if k in turned else 1) for k in range(tensor.ndim)), ...)]
    return view


def broadcast_arrays(*tensors: Any) -> tuple[Tensor, ...]:
    """Return read-only views of tensors, repeated to the one shape that NumPy's rule gives.

    Parameters
    ----------
    *tensors
        Of shapes that broadcast.

    Returns
    -------
    tuple of Tensor

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import sparrow as sp
    >>> row, column = sp.broadcast_arrays(sp.zeros(3), sp.zeros((2, 1)))
    >>> row.shape, column.shape
    ((2, 3), (2, 3))
    """
    found = [as_tensor(tensor) for tensor in tensors]
    shape = broadcast_shapes(*(tensor.shape for tensor in found))
    return tuple(tensor if tensor.shape == shape else broadcast_to(tensor, shape) for tensor in found)


def broadcast_shapes(*shapes: int | Sequence[int]) -> tuple[int, ...]:
    """Return the shape that NumPy's rule makes of several.

    Parameters
    ----------
    *shapes
        Shapes.

    Returns
    -------
    tuple of int

    Raises
    ------
    ShapeError
        If they do not broadcast.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.broadcast_shapes((3,), (2, 1))
    (2, 3)
    """
    sizes = [check_shape(shape) for shape in shapes]
    ndim = max(map(len, sizes), default=0)
    out = []
    for axis in range(-ndim, 0):
        found = {shape[axis] for shape in sizes if len(shape) >= -axis} - {1}
        if len(found) > 1:
            raise ShapeError(f"shapes {', '.join(map(str, sizes))} do not broadcast: sizes {sorted(found)} meet")
        out.append(found.pop() if found else 1)
    return tuple(out)


def broadcast_to(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    """Return the read-only view of the cells repeated to a shape by NumPy's rule.

    Parameters
    ----------
    tensor
        Of any shape.
    shape
        The shape: further axes in front, and any size where the tensor has 1.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If the shape does not fit.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.broadcast_to(sp.asarray([0, 2]), (3, 2)).nnz
    3
    """
    tensor = as_tensor(tensor)
    wanted = check_shape(shape)
    return tensor._with(tensor._view.broadcast_to(wanted), lambda whole: whole.broadcast_to(wanted), "broadcast_to")
