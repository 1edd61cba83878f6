"""Shapes of tensors: joining, splitting, folding. What can be a view is one; the rest is lazy."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from sparrow import engines, plan
from sparrow.errors import InvalidValueError, ShapeError, UnsupportedError
from sparrow.interop.conversion import from_object
from sparrow.plan import concatenated, resolved_axis, triangle
from sparrow.relation import MemoryHandle, MemoryRelation
from sparrow.schema import check_integer, check_integers, check_shape
from sparrow.tensor import Tensor

__all__ = [
    "as_tensor", "broadcast_to", "concat", "diagonal", "expand_dims", "flip", "kron", "moveaxis", "nonzero", "repeat",
    "reshape", "roll", "split", "squeeze", "stack", "tile", "tril", "triu", "unique",
]  # fmt: skip


def as_tensor(obj: Any) -> Tensor:
    """Return a tensor as it is, and anything :func:`sparrow.asarray` takes as one in memory."""
    return obj if isinstance(obj, Tensor) else Tensor(MemoryHandle(MemoryRelation(*from_object(obj))))


def concat(tensors: Sequence[Any], axis: int | None = 0) -> Tensor:
    """Return tensors joined along an axis that they have, lazily; without one, their cells in row-major order.

    Raises
    ------
    ShapeError
        If there are none, or shapes differ in another axis.
    UnsupportedError
        If their fill values differ.

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
    at = resolved_axis(axis, scans[0].schema.ndim)
    return Tensor(concatenated(scans, at))


def _several(tensors: Any) -> list[Tensor]:
    """Return the tensors to join, at least one."""
    if not isinstance(tensors, Sequence | Tensor | np.ndarray) or isinstance(tensors, str):
        raise UnsupportedError(f"{tensors!r} is no sequence of tensors: give them as a list")
    if not len(tensors):
        raise ShapeError("nothing to join: give at least one tensor")
    return [as_tensor(tensor) for tensor in tensors]


def stack(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Return tensors of one shape joined along a new axis, lazily."""
    found = _several(tensors)
    if len({tensor.shape for tensor in found}) > 1:
        raise ShapeError(f"tensors to stack must have one shape, got {', '.join(str(t.shape) for t in found)}")
    return concat([expand_dims(tensor, axis) for tensor in found], axis)


def split(tensor: Tensor, sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Return views that cut a tensor along an axis: into equal parts, or before the given positions.

    Raises
    ------
    ShapeError
        If the axis is not a multiple of the number of parts.
    """
    tensor = as_tensor(tensor)
    axis = resolved_axis(axis, tensor.ndim)
    size = tensor.shape[axis]
    if isinstance(sections, int | np.integer):
        if sections < 1 or size % sections:
            raise ShapeError(f"an axis of size {size} does not split into {sections} equal parts")
        bounds = [size * k // int(sections) for k in range(int(sections) + 1)]
    else:
        cuts = check_integers(sections, "sections")
        bounds = [0, *(slice(None, at).indices(size)[1] for at in cuts), size]
    before = (slice(None),) * axis
    return [tensor[(*before, slice(a, b), ...)] for a, b in itertools.pairwise(bounds)]


def expand_dims(tensor: Tensor, axis: int) -> Tensor:
    """Return the view with a new axis of length 1 at a position."""
    tensor = as_tensor(tensor)
    at = resolved_axis(axis, tensor.ndim + 1)
    view: Tensor = tensor[(*(slice(None),) * at, None, ...)]
    return view


def squeeze(tensor: Tensor, axis: int | Sequence[int] | None = None) -> Tensor:
    """Return the view without axes of length 1, or without those given.

    Raises
    ------
    ShapeError
        If one given is longer.
    """
    tensor = as_tensor(tensor)
    gone = {k for k, n in enumerate(tensor.shape) if n == 1} if axis is None else set(_axes(axis, tensor.ndim))
    for k in gone:
        if tensor.shape[k] != 1:
            raise ShapeError(f"cannot squeeze axis {k} of size {tensor.shape[k]}: its size must be 1")
    view: Tensor = tensor[(*(0 if k in gone else slice(None) for k in range(tensor.ndim)), ...)]
    return view


def moveaxis(tensor: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Return the view with axes moved to other positions; the others keep their order.

    Raises
    ------
    ShapeError
        If an axis is out of range or named twice, or there are not as many sources as destinations.
    """
    tensor = as_tensor(tensor)
    sources, targets = (_axes(axes, tensor.ndim) for axes in (source, destination))
    if len(sources) != len(targets):
        raise ShapeError(f"{len(sources)} axes {source} do not move to {len(targets)} positions {destination}")
    order = [k for k in range(tensor.ndim) if k not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return tensor.transpose(order)


def _axes(axes: int | Sequence[int], ndim: int) -> list[int]:
    """Return axes counted from the front, none of them twice."""
    found = [resolved_axis(axis, ndim) for axis in (axes if isinstance(axes, Sequence) else [axes])]
    if len(set(found)) < len(found):
        raise ShapeError(f"axes {axes} name one of {ndim} dimensions twice")
    return found


def flip(tensor: Tensor, axis: int | Sequence[int] | None = None) -> Tensor:
    """Return the view with axes reversed, all by default."""
    tensor = as_tensor(tensor)
    turned = _axes(range(tensor.ndim) if axis is None else axis, tensor.ndim)
    view: Tensor = tensor[(*(slice(None, None, -1 if k in turned else 1) for k in range(tensor.ndim)), ...)]
    return view


def roll(tensor: Tensor, shift: int | Sequence[int], axis: int | Sequence[int] | None = None) -> Tensor:
    """Return the cells moved by ``shift`` along axes, the last ones coming in first; without an axis row-major.

    Raises
    ------
    ShapeError
        If an axis is out of range, or there are not as many shifts as axes.
    """
    tensor = as_tensor(tensor)
    if axis is None:
        return reshape(roll(reshape(tensor, -1), shift, 0), tensor.shape)
    axes = list(axis) if isinstance(axis, Sequence) else [axis]
    shifts = check_integers(shift, "shift")
    shifts = shifts * len(axes) if len(shifts) == 1 else shifts
    if len(shifts) != len(axes):
        raise ShapeError(f"{len(shifts)} shifts {shift} do not fit {len(axes)} axes {axis}")
    for by, along in zip(shifts, axes, strict=True):
        along = resolved_axis(along, tensor.ndim)
        size = tensor.shape[along]
        if size and by % size:
            first, last = split(tensor, [size - by % size], along)
            tensor = concat([last, first], along)
    return tensor


def reshape(tensor: Tensor, *shape: int | Sequence[int]) -> Tensor:
    """Return the cells in another shape of as many cells, in row-major order, lazily; one size may be -1.

    Raises
    ------
    ShapeError
        If the number of cells differs.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.reshape(sp.asarray([[1, 0, 2], [0, 3, 0]]), (3, -1)).to_numpy()
    array([[1, 0],
           [2, 0],
           [3, 0]])
    """
    return as_tensor(tensor).reshape(*shape)


def broadcast_to(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    """Return the read-only view of the cells repeated to a shape by NumPy's rule.

    Raises
    ------
    ShapeError
        If the shape does not fit.
    """
    tensor = as_tensor(tensor)
    wanted = check_shape(shape)
    return tensor._with(tensor._view.broadcast_to(wanted), lambda whole: whole.broadcast_to(wanted), "broadcast_to")


def tril(tensor: Tensor, k: int = 0) -> Tensor:
    """Return the cells on and below the diagonal that lies ``k`` to the right, of the last two axes, lazily."""
    tensor = as_tensor(tensor)
    return Tensor(triangle(tensor.__sparrow_scan__(), check_integer(k, "k"), upper=False))


def triu(tensor: Tensor, k: int = 0) -> Tensor:
    """Return the cells on and above the diagonal that lies ``k`` to the right, of the last two axes, lazily."""
    tensor = as_tensor(tensor)
    return Tensor(triangle(tensor.__sparrow_scan__(), check_integer(k, "k"), upper=True))


def diagonal(tensor: Tensor, offset: int = 0) -> Tensor:
    """Return the diagonal of a matrix that lies ``offset`` to the right, lazily."""
    tensor = as_tensor(tensor)
    return Tensor(plan.diagonal(tensor.__sparrow_scan__(), check_integer(offset, "offset")))


def tile(tensor: Tensor, times: int | Sequence[int]) -> Tensor:
    """Return the tensor laid side by side ``times`` along each axis, lazily."""
    tensor = as_tensor(tensor)
    counts = check_integers(times, "times")
    while len(counts) < tensor.ndim:
        counts.insert(0, 1)
    for _ in range(len(counts) - tensor.ndim):
        tensor = expand_dims(tensor, 0)
    if any(n < 0 for n in counts):
        raise InvalidValueError(f"a tensor cannot be laid side by side {counts} times")
    for axis, n in enumerate(counts):
        if n == 0:
            tensor = split(tensor, [0], axis)[0]
        elif n > 1:
            tensor = concat([tensor] * n, axis)
    return tensor


def repeat(tensor: Tensor, times: int | Sequence[int], axis: int | None = None) -> Tensor:
    """Return the tensor with each slice of an axis ``times`` in a row; a copy, lazily.

    Parameters
    ----------
    tensor
        Of any shape.
    times
        How often, one number for all slices or one for each.
    axis
        Along which; without one the cells in row-major order are repeated.

    Raises
    ------
    ShapeError
        If there is no such axis, or not one number for each slice.
    InvalidValueError
        If a number is negative or no integer.
    """
    tensor = as_tensor(tensor)
    if axis is None:
        return repeat(reshape(tensor, -1), times, 0)
    axis = resolved_axis(axis, tensor.ndim)
    size = tensor.shape[axis]
    counts = np.asarray(times)
    if counts.size and (counts.dtype.kind not in "iu" or (counts < 0).any()):
        raise InvalidValueError(f"slices cannot be repeated {times} times: give integers from 0 on")
    if counts.shape not in ((), (1,), (size,)):
        raise ShapeError(f"times of shape {counts.shape} for axis {axis} of size {size}: give one number, or {size}")
    view: Tensor = tensor[(*(slice(None),) * axis, np.repeat(np.arange(size), counts.astype(np.int64)), ...)]
    return view


def nonzero(tensor: Tensor) -> tuple[np.ndarray[Any, Any], ...]:
    """Return the positions of cells that are not 0, one array for each axis, row-major, at once.

    Raises
    ------
    ShapeError
        If there is no axis.
    """
    tensor = as_tensor(tensor)
    if not tensor.ndim:
        raise ShapeError("nonzero gives positions along axes, and a tensor without dimensions has none")
    if tensor.fill_value != 0:
        return tensor.to_numpy().nonzero()
    found = engines.entries(tensor.__sparrow_scan__())
    return tuple(column.astype(np.int64) for column in found.coords)


def unique(tensor: Tensor) -> np.ndarray[Any, Any]:
    """Return the distinct values of all cells, ascending, fill among them where a cell is absent, at once."""
    tensor = as_tensor(tensor)
    values = engines.entries(tensor.__sparrow_scan__()).values
    if len(values) < tensor.size:
        values = np.append(values, tensor.fill_value)
    return np.unique(values)


def kron(left: Any, right: Any) -> Tensor:
    """Return the Kronecker product of two matrices, in memory.

    Raises
    ------
    ShapeError
        If one is no matrix.
    """
    a, b = as_tensor(left), as_tensor(right)
    if a.ndim != 2 or b.ndim != 2:
        raise ShapeError(f"kron takes two matrices, got shapes {a.shape} and {b.shape}")
    import scipy.sparse

    return as_tensor(scipy.sparse.kron(a.to_scipy("coo"), b.to_scipy("coo"), format="coo"))
