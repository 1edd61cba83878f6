"""Shapes of tensors: joining, splitting, folding. What can be a view is one; the rest is lazy."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from sparrow import engines
from sparrow.conversion import from_object
from sparrow.errors import InvalidValueError, ShapeError
from sparrow.relation import MemoryHandle, MemoryRelation
from sparrow.schema import check_shape
from sparrow.tensor import Tensor

__all__ = [
    "broadcast_to", "concat", "diagonal", "expand_dims", "flip", "kron", "moveaxis", "nonzero", "repeat", "reshape",
    "roll", "split", "squeeze", "stack", "tile", "tril", "triu", "unique",
]  # fmt: skip


def _tensor(obj: Any) -> Tensor:
    return obj if isinstance(obj, Tensor) else Tensor(MemoryHandle(MemoryRelation(*from_object(obj))))


def _axis(axis: int, ndim: int) -> int:
    """Return an axis counted from the front.

    Raises
    ------
    ShapeError
        If there is none such.
    """
    resolved = operator.index(axis) + (ndim if axis < 0 else 0)
    if not 0 <= resolved < ndim:
        raise ShapeError(f"axis {axis} is out of range for {ndim} dimensions")
    return resolved


def concat(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Return tensors joined along an axis that they have, lazily; their fill must be one.

    Raises
    ------
    ShapeError
        If there are none, or shapes differ in another axis.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.concat([sp.asarray([[1, 0]]), sp.asarray([[0, 2]])]).to_numpy()
    array([[1, 0],
           [0, 2]])
    """
    if not len(tensors):
        raise ShapeError("nothing to join: give at least one tensor")
    scans = [_tensor(tensor).__sparrow_scan__() for tensor in tensors]
    return Tensor(engines.concatenated(scans, _axis(axis, scans[0].schema.ndim)))


def stack(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Return tensors of one shape joined along a new axis, lazily."""
    found = [_tensor(tensor) for tensor in tensors]
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
    axis = _axis(axis, tensor.ndim)
    size = tensor.shape[axis]
    if isinstance(sections, int | np.integer):
        if sections < 1 or size % sections:
            raise ShapeError(f"an axis of size {size} does not split into {sections} equal parts")
        bounds = [size * k // int(sections) for k in range(int(sections) + 1)]
    else:
        bounds = [0, *(slice(None, at).indices(size)[1] for at in sections), size]
    before = (slice(None),) * axis
    return [tensor[(*before, slice(a, b), ...)] for a, b in itertools.pairwise(bounds)]


def expand_dims(tensor: Tensor, axis: int) -> Tensor:
    """Return the view with a new axis of length 1 at a position."""
    at = _axis(axis, tensor.ndim + 1)
    view: Tensor = tensor[(*(slice(None),) * at, None, ...)]
    return view


def squeeze(tensor: Tensor, axis: int | Sequence[int] | None = None) -> Tensor:
    """Return the view without axes of length 1, or without those given.

    Raises
    ------
    ShapeError
        If one given is longer.
    """
    if axis is None:
        gone = {k for k, n in enumerate(tensor.shape) if n == 1}
    else:
        gone = {_axis(k, tensor.ndim) for k in ([axis] if isinstance(axis, int | np.integer) else axis)}
    for k in gone:
        if tensor.shape[k] != 1:
            raise ShapeError(f"cannot squeeze axis {k} of size {tensor.shape[k]}: its size must be 1")
    view: Tensor = tensor[(*(0 if k in gone else slice(None) for k in range(tensor.ndim)), ...)]
    return view


def moveaxis(tensor: Tensor, source: int, destination: int) -> Tensor:
    """Return the view with one axis moved to another position."""
    source, destination = _axis(source, tensor.ndim), _axis(destination, tensor.ndim)
    order = [k for k in range(tensor.ndim) if k != source]
    order.insert(destination, source)
    return tensor.transpose(order)


def flip(tensor: Tensor, axis: int | Sequence[int] | None = None) -> Tensor:
    """Return the view with axes reversed, all by default."""
    axes = range(tensor.ndim) if axis is None else [axis] if isinstance(axis, int | np.integer) else axis
    turned = {_axis(k, tensor.ndim) for k in axes}
    view: Tensor = tensor[(*(slice(None, None, -1 if k in turned else 1) for k in range(tensor.ndim)), ...)]
    return view


def roll(tensor: Tensor, shift: int, axis: int | None = None) -> Tensor:
    """Return the cells moved by ``shift`` along an axis, the last ones coming in first; without an axis row-major."""
    if axis is None:
        return reshape(roll(reshape(tensor, -1), shift, 0), tensor.shape)
    axis = _axis(axis, tensor.ndim)
    size = tensor.shape[axis]
    if not size or not shift % size:
        return tensor
    last, first = split(tensor, [size - shift % size], axis)[::-1]
    return concat([last, first], axis)


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
    given: Any = shape[0] if len(shape) == 1 else shape
    sizes = [operator.index(n) for n in ([given] if isinstance(given, int | np.integer) else given)]
    if sizes.count(-1) == 1:
        rest = 1
        for n in sizes:
            rest *= n if n != -1 else 1
        if not rest or tensor.size % rest:
            raise ShapeError(f"cannot reshape {tensor.shape} of {tensor.size} cells into {tuple(sizes)}")
        sizes[sizes.index(-1)] = tensor.size // rest
    wanted = check_shape(sizes)
    return tensor if wanted == tensor.shape else Tensor(engines.reshaped(tensor.__sparrow_scan__(), wanted))


def broadcast_to(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    """Return the read-only view of the cells repeated to a shape by NumPy's rule.

    Raises
    ------
    ShapeError
        If the shape does not fit.
    """
    return tensor._with(tensor._view.broadcast_to(check_shape(tuple(shape))))


def tril(tensor: Tensor, k: int = 0) -> Tensor:
    """Return the cells on and below the diagonal that lies ``k`` to the right, of the last two axes, lazily."""
    return Tensor(engines.triangle(tensor.__sparrow_scan__(), k, upper=False))


def triu(tensor: Tensor, k: int = 0) -> Tensor:
    """Return the cells on and above the diagonal that lies ``k`` to the right, of the last two axes, lazily."""
    return Tensor(engines.triangle(tensor.__sparrow_scan__(), k, upper=True))


def diagonal(tensor: Tensor, offset: int = 0) -> Tensor:
    """Return the diagonal of a matrix that lies ``offset`` to the right, lazily."""
    return Tensor(engines.diagonal(tensor.__sparrow_scan__(), offset))


def tile(tensor: Tensor, times: int | Sequence[int]) -> Tensor:
    """Return the tensor laid side by side ``times`` along each axis, lazily."""
    counts = [operator.index(n) for n in ([times] if isinstance(times, int | np.integer) else times)]
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


def repeat(tensor: Tensor, times: int, axis: int) -> Tensor:
    """Return the tensor with each slice of an axis ``times`` in a row; a copy, lazily."""
    axis = _axis(axis, tensor.ndim)
    at = np.repeat(np.arange(tensor.shape[axis]), times)
    view: Tensor = tensor[(*(slice(None),) * axis, at, ...)]
    return view


def nonzero(tensor: Tensor) -> tuple[np.ndarray[Any, Any], ...]:
    """Return the positions of cells that are not 0, one array for each axis, row-major, at once."""
    if tensor.fill_value != 0:
        return tensor.to_numpy().nonzero()
    found = engines.entries(tensor.__sparrow_scan__())
    return tuple(column.astype(np.int64) for column in found.coords)


def unique(tensor: Tensor) -> np.ndarray[Any, Any]:
    """Return the distinct values of all cells, ascending, fill among them where a cell is absent, at once."""
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
    a, b = _tensor(left), _tensor(right)
    if a.ndim != 2 or b.ndim != 2:
        raise ShapeError(f"kron takes two matrices, got shapes {a.shape} and {b.shape}")
    import scipy.sparse

    return _tensor(scipy.sparse.kron(a.to_scipy("coo"), b.to_scipy("coo"), format="coo"))
