"""NumPy's functions that work on tensors, ``np.concatenate([A, B])`` among them, and what does them.

Of any other NumPy's function a tensor says that it is not supported. Those that reduce are in
:mod:`sparrow.tensor.reductions`; functions of cells need no list, they come as ufuncs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparrow.functions.generation import full_like, ones_like, zeros_like
from sparrow.functions.indexing import take
from sparrow.functions.manipulation import (
    concat,
    diagonal,
    kron,
    nonzero,
    repeat,
    reshape,
    roll,
    split,
    stack,
    tile,
    tril,
    triu,
    unique,
)
from sparrow.functions.sets import unique_values
from sparrow.functions.sorting import cumulative_prod, cumulative_sum, sort
from sparrow.functions.views import (
    as_tensor,
    broadcast_to,
    expand_dims,
    flip,
    matrix_transpose,
    moveaxis,
    squeeze,
    swapaxes,
    unstack,
)
from sparrow.tensor import Tensor
from sparrow.tensor.operators import where
from sparrow.tensor.signatures import called_as

__all__: list[str] = []


def _array_equal(a: Any, b: Any) -> bool:
    """Return whether shapes and cells are equal."""
    one, other = as_tensor(a), as_tensor(b)
    return one.shape == other.shape and bool((one == other).all())


def _trace(tensor: Tensor, offset: int = 0, dtype: Any = None) -> Any:
    """Return the sum of a diagonal of a matrix."""
    return diagonal(tensor, offset).sum(dtype=dtype)


def _reshape(tensor: Tensor, shape: Any) -> Tensor:
    return reshape(tensor, shape)


def _sort(tensor: Tensor, axis: int | None = -1, kind: str | None = None, stable: bool | None = None) -> Tensor:
    """Return the cells in order, whatever the kind: equal values cannot be told apart; of no axis as a vector."""
    return sort(reshape(tensor, -1)) if axis is None else sort(tensor, axis)


def _where(condition: Any, *choices: Any) -> Any:
    """Return the cells of one or the other, or without these the positions at which the condition holds."""
    return where(condition, *choices) if choices else nonzero(condition)


def _astype(tensor: Tensor, dtype: Any) -> Any:
    return tensor.astype(dtype)


_OWN: dict[Any, Callable[..., Any]] = {
    np.astype: _astype,
    np.broadcast_to: broadcast_to,
    np.concatenate: concat,
    np.cumulative_prod: cumulative_prod,
    np.cumulative_sum: cumulative_sum,
    np.diagonal: diagonal,
    np.expand_dims: expand_dims,
    np.flip: flip,
    np.full_like: full_like,
    np.kron: kron,
    np.linalg.diagonal: diagonal,
    np.linalg.matrix_transpose: matrix_transpose,
    np.linalg.trace: _trace,
    np.matrix_transpose: matrix_transpose,
    np.moveaxis: moveaxis,
    np.nonzero: nonzero,
    np.ones_like: ones_like,
    np.repeat: repeat,
    np.reshape: _reshape,
    np.roll: roll,
    np.sort: _sort,
    np.split: split,
    np.squeeze: squeeze,
    np.stack: stack,
    np.swapaxes: swapaxes,
    np.take: take,
    np.tile: tile,
    np.trace: _trace,
    np.tril: tril,
    np.triu: triu,
    np.unique: unique,
    np.unique_values: unique_values,
    np.unstack: unstack,
    np.zeros_like: zeros_like,
}
Tensor._functions.update({function: called_as(function, own) for function, own in _OWN.items()})
Tensor._functions.update({np.array_equal: called_as(np.array_equal, _array_equal, a2="b"), np.where: _where})
