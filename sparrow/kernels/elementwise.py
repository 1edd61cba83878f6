"""One function over the cells of several sparse operands of one shape, their entries aligned first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.kernels.entries import Block, sort_order
from sparrow.schema import is_fill

__all__ = ["align", "apply"]


def align(
    blocks: Sequence[Block], fills: Sequence[Any], shape: Sequence[int], required: Sequence[bool]
) -> tuple[tuple[NDArray[Any], ...], list[NDArray[Any]]]:
    """Return the cells where some operand has an entry, and each operand's values there.

    Parameters
    ----------
    blocks
        Canonical entries of each operand, coordinates within ``shape``.
    fills
        The value of an operand where it has no entry.
    shape
        The shape of the operands.
    required
        Operands without which a cell does not count: where all are required the cells are an intersection.

    Returns
    -------
    coords
        One sorted array of shape (m,) for each dimension.
    values
        One array of shape (m,) for each operand.
    """
    if len(blocks) == 1:
        return blocks[0].coords, [blocks[0].values]
    counts = [block.count for block in blocks]
    ndim = len(shape)
    coords = tuple(np.concatenate([block.coords[dim] for block in blocks]) for dim in range(ndim))
    total = sum(counts)
    order = sort_order(coords, shape)
    if order is None:
        order = np.arange(total)
    fresh = np.zeros(total, dtype=bool)
    fresh[:1] = True
    for column in coords:
        by_order = column[order]
        fresh[1:] |= by_order[1:] != by_order[:-1]
    cell = np.empty(total, dtype=np.int64)
    cell[order] = np.cumsum(fresh) - 1
    first = order[fresh]
    kept = np.ones(len(first), dtype=bool)
    columns: list[NDArray[Any]] = []
    start = 0
    for block, fill, needed in zip(blocks, fills, required, strict=True):
        at = cell[start : start + block.count]
        values = np.full(len(first), fill, dtype=block.values.dtype)
        values[at] = block.values
        columns.append(values)
        if needed:
            present = np.zeros(len(first), dtype=bool)
            present[at] = True
            kept &= present
        start += block.count
    if kept.all():
        return tuple(column[first] for column in coords), columns
    first = first[kept]
    return tuple(column[first] for column in coords), [column[kept] for column in columns]


def apply(
    function: Callable[..., NDArray[Any]],
    coords: tuple[NDArray[Any], ...],
    arguments: Sequence[Any],
    dtype: np.dtype[Any],
    fill_value: Any,
) -> Block:
    """Return the entries of ``function(*arguments)`` at sorted coordinates, without results that equal fill."""
    with np.errstate(all="ignore"):
        values = np.asarray(function(*arguments)).astype(dtype, copy=False)
    if values.ndim == 0:
        values = np.full(len(coords[0]) if coords else 1, values)
    absent = is_fill(values, fill_value)
    block = Block(coords, values)
    return block.take(~absent) if absent.any() else block
