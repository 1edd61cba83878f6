"""Views with other axes: moved, added, removed, reversed, broadcast. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from sparrow.core.schema import check_shape
from sparrow.errors import ShapeError
from sparrow.interop.conversion import from_object
from sparrow.plan import normalize_axis
from sparrow.relations.memory import MemoryHandle, MemoryRelation
from sparrow.runtime.docs import SharedText, document_as
from sparrow.tensor import Tensor

__all__ = [
    "as_tensor", "as_tensors", "broadcast_arrays", "broadcast_shapes", "broadcast_to", "expand_dims", "flip",
    "matrix_transpose", "moveaxis", "permute_dims", "shared", "squeeze", "swapaxes", "transpose", "unstack",
]  # fmt: skip


def as_tensor(obj: Any) -> Tensor:
    """Return a tensor as it is, and other objects converted to one."""
    return obj if isinstance(obj, Tensor) else Tensor(MemoryHandle(MemoryRelation(*from_object(obj))))


def as_tensors(objects: Iterable[Any]) -> list[Tensor]:
    """Return objects as tensors; arrays adopt the fill of the first tensor."""
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


shared = SharedText(
    tensor="""
    tensor
        Tensor of any shape.
    """,
    result="""
    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If an axis is out of range or repeated.
    """,
)


@shared
def expand_dims(tensor: Tensor, axis: int | Sequence[int] = 0) -> Tensor:
    """Return a view with new axes of length 1.

    Parameters
    ----------
    %(tensor)s
    axis
        Positions of the new axes in the result.

    %(result)s

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
    new = _resolve_axes(several, ndim)
    return tensor._derive_view(tensor._view.insert_axes(new), lambda base: base.insert_axes(new), "indexing")


@document_as(Tensor.squeeze, tensor="Tensor of any shape.")
def squeeze(tensor: Tensor, axis: int | str | Sequence[int | str] | None = None) -> Tensor:
    """Return a view without axes of length 1."""
    tensor = as_tensor(tensor)
    dropped = (
        {k for k, n in enumerate(tensor.shape) if n == 1}
        if axis is None
        else set(_resolve_axes(axis, tensor.ndim, tensor.dims))
    )
    for k in dropped:
        if tensor.shape[k] != 1:
            raise ShapeError(f"cannot squeeze axis {k} of size {tensor.shape[k]}: its size must be 1")
    view: Tensor = tensor[(*(0 if k in dropped else slice(None) for k in range(tensor.ndim)), ...)]
    return view


@shared
def moveaxis(tensor: Tensor, source: int | str | Sequence[int | str], destination: int | Sequence[int]) -> Tensor:
    """Return a view with axes moved to other positions; the others keep their order.

    Parameters
    ----------
    %(tensor)s
    source
        Axes to move.
    destination
        Their positions in the result.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If an axis is out of range or repeated, or the numbers of axes and positions differ.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.moveaxis(sp.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    tensor = as_tensor(tensor)
    sources, targets = (_resolve_axes(axes, tensor.ndim, tensor.dims) for axes in (source, destination))
    if len(sources) != len(targets):
        raise ShapeError(
            f"moveaxis: expected one destination for each of {len(sources)} axes {source}, got {destination}"
        )
    order = [k for k in range(tensor.ndim) if k not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return tensor.transpose(order)


@shared
def permute_dims(tensor: Tensor, axes: Sequence[int | str]) -> Tensor:
    """Return a view with the axes in another order.

    Parameters
    ----------
    %(tensor)s
    axes
        Axes of the tensor in the order of the result, by number or name.

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


@shared
def transpose(tensor: Tensor, axes: Sequence[int | str] | None = None) -> Tensor:
    """Return a view with the axes reversed, or in another order: ``np.transpose``.

    Parameters
    ----------
    %(tensor)s
    axes
        Axes of the tensor in the order of the result, by number or name; reversed by default.

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
    >>> sp.transpose(sp.zeros((2, 3, 4))).shape
    (4, 3, 2)
    """
    tensor = as_tensor(tensor)
    return tensor.transpose() if axes is None else tensor.transpose(axes)


def swapaxes(tensor: Tensor, axis1: int, axis2: int) -> Tensor:
    """Return a view with two axes exchanged: ``np.swapaxes``."""
    tensor = as_tensor(tensor)
    order = list(range(tensor.ndim))
    one, other = normalize_axis(axis1, tensor.ndim, tensor.dims), normalize_axis(axis2, tensor.ndim, tensor.dims)
    order[one], order[other] = other, one
    return tensor.transpose(order)


def matrix_transpose(tensor: Tensor) -> Tensor:
    """Return a view with the last two axes exchanged.

    Parameters
    ----------
    tensor
        Tensor of at least two dimensions.

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
    >>> sp.matrix_transpose(sp.zeros((2, 3, 4))).shape
    (2, 4, 3)
    """
    return swapaxes(tensor, -2, -1)


def unstack(tensor: Tensor, axis: int | str = 0) -> tuple[Any, ...]:
    """Return the slices of an axis, each a view.

    Parameters
    ----------
    tensor
        Tensor of at least one dimension.
    axis
        The axis.

    Returns
    -------
    tuple of Tensor
        Of scalars for a vector.

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


def _resolve_axes(axes: int | str | Sequence[int | str], ndim: int, dims: Sequence[str] = ()) -> list[int]:
    """Return distinct axes counted from the front."""
    several = axes if isinstance(axes, Sequence) and not isinstance(axes, str) else [axes]
    found = [normalize_axis(axis, ndim, dims) for axis in several]
    if len(set(found)) < len(found):
        raise ShapeError(f"axes must not repeat, got {axes} of {ndim} dimensions")
    return found


@shared
def flip(tensor: Tensor, axis: int | str | Sequence[int | str] | None = None) -> Tensor:
    """Return a view with axes reversed.

    Parameters
    ----------
    %(tensor)s
    axis
        The axes, all by default.

    %(result)s

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.flip(sp.asarray([[0, 2], [3, 0]]), axis=0).to_numpy()
    array([[3, 0],
           [0, 2]])
    """
    tensor = as_tensor(tensor)
    reversed_axes = _resolve_axes(range(tensor.ndim) if axis is None else axis, tensor.ndim, tensor.dims)
    view: Tensor = tensor[(*(slice(None, None, -1 if k in reversed_axes else 1) for k in range(tensor.ndim)), ...)]
    return view


def broadcast_arrays(*tensors: Any) -> tuple[Tensor, ...]:
    """Broadcast tensors to one shape, as read-only views.

    Parameters
    ----------
    *tensors
        Tensors of shapes that broadcast.

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
    """Return the shape that several shapes broadcast to.

    Parameters
    ----------
    *shapes
        The shapes.

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
            raise ShapeError(f"shapes {', '.join(map(str, sizes))} do not broadcast: sizes {sorted(found)} differ")
        out.append(found.pop() if found else 1)
    return tuple(out)


@shared
def broadcast_to(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    """Broadcast a tensor to a shape, as a read-only view.

    Parameters
    ----------
    %(tensor)s
    shape
        The shape: additional axes come first, and axes of length 1 take any size.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If the tensor does not broadcast to the shape.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.broadcast_to(sp.asarray([0, 2]), (3, 2)).nnz
    3
    """
    tensor = as_tensor(tensor)
    target = check_shape(shape)
    view = tensor._view.broadcast_to(target)
    return tensor._derive_view(view, lambda base: base.broadcast_to(target), "broadcast_to")
