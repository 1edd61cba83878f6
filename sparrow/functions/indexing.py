"""Indexing functions of the array API standard."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sparrow.core.schema import check_array
from sparrow.errors import ShapeError
from sparrow.functions.labels import to_labelled_tensor
from sparrow.functions.manipulation import reshape
from sparrow.functions.views import as_tensor, broadcast_to
from sparrow.plan import axis_labels, normalize_axis
from sparrow.tensor import Tensor
from sparrow.tensor.matching import label_operands, match_axes

__all__ = ["take", "take_along_axis"]


def take(x: Tensor, /, indices: ArrayLike | Tensor, axis: int | str | None = None) -> Any:
    """Return the elements or slices at positions along an axis, lazily.

    Parameters
    ----------
    x
        Tensor.
    indices
        Positions, negative ones from the end; of any shape, which replaces the axis. Or a boolean mask, a labelled one
        matched by label.
    axis
        The axis; by default positions count all elements in row-major order.

    Returns
    -------
    Tensor
        A scalar if ``indices`` is one and ``x`` a vector.

    Raises
    ------
    ShapeError
        If there is no such axis.
    IndexingError
        If a position is out of range.
    LabelError
        If a mask has labels, and none in common with the axis.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.take(sp.asarray([[0, 2, 0], [3, 0, -1]]), [2, 0, 0], axis=1).to_numpy()
    array([[ 0,  0,  0],
           [-1,  3,  3]])
    """
    tensor = as_tensor(x)
    lines, at = (reshape(tensor, -1), 0) if axis is None else (tensor, normalize_axis(axis, tensor.ndim, tensor.dims))
    if getattr(indices, "dtype", None) == np.bool_ and np.ndim(indices) == 1:
        indices = match_axes(indices, lines, {0: at}, "take: indices", "mask")
    return lines[(*(slice(None),) * at, check_array(indices, "indices"))]


def take_along_axis(x: Tensor, /, indices: ArrayLike | Tensor, axis: int | str = -1) -> Tensor:
    """Return the elements at separate positions for each line along an axis, lazily.

    Parameters
    ----------
    x
        Tensor.
    indices
        Positions along the axis, negative ones from the end, with as many dimensions as ``x``; the other axes
        broadcast.
    axis
        The axis.

    Returns
    -------
    Tensor
        Of the size of ``indices`` along the axis.

    Raises
    ------
    ShapeError
        If there is no such axis, or the shapes do not broadcast.
    IndexingError
        If a position is out of range.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.take_along_axis(sp.asarray([[0, 2, 0], [3, 0, -1]]), [[1], [0]]).to_numpy()
    array([[2],
           [3]])
    """
    tensor = as_tensor(x)
    at = normalize_axis(axis, tensor.ndim, tensor.dims)
    others = {k: k for k in range(tensor.ndim) if k != at}
    _, indices = label_operands((tensor, indices))
    if isinstance(indices, Tensor) and indices.ndim == tensor.ndim:
        indices = match_axes(indices, tensor, others, "indices", "values")
    positions = check_array(indices, "indices")
    around = tuple(1 if k == at else n for k, n in enumerate(tensor.shape))
    if positions.ndim != tensor.ndim:
        raise ShapeError(f"indices must have {tensor.ndim} dimensions, got shape {positions.shape}")
    try:
        shape = np.broadcast_shapes(around, positions.shape)
    except ValueError:
        raise ShapeError(
            f"indices of shape {positions.shape} do not broadcast to {tensor.shape} beside axis {at}"
        ) from None
    labels = axis_labels(tensor.__sparrow_scan__())
    kept = {k: labels[k] for k in others if k in labels and shape[k] == tensor.shape[k]}
    dims = tensor.dims
    if any(shape[k] != n for k, n in enumerate(tensor.shape) if k != at):
        stretched = (n if k == at else shape[k] for k, n in enumerate(tensor.shape))
        tensor = broadcast_to(tensor, tuple(stretched))
    grid: list[Any] = list(np.ix_(*(range(n) for n in shape)))
    grid[at] = np.broadcast_to(positions, shape)
    found: Tensor = tensor.vindex[tuple(np.broadcast_arrays(*grid))]
    found = found.rename(dict(zip(found.dims, dims, strict=True)))
    return to_labelled_tensor(found.__sparrow_scan__(), kept) if kept else found
