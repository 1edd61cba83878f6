"""Element-wise functions of sparse operands of one shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.core.schema import is_fill
from sparrow.kernels.coo import Block, concat_blocks, filter_block, linear_keys, sort_order
from sparrow.kernels.dispatch import prefer_numpy
from sparrow.kernels.tuning import dispatch, tuning

__all__ = ["Function", "align", "apply", "combine"]

Function: TypeAlias = Callable[[tuple[NDArray[Any], ...], Sequence[NDArray[Any]]], NDArray[Any]]
"""Function of coordinates and operand values, arrays of shape (n,), to n results."""


def combine(
    function: Function,
    blocks: Sequence[Block],
    fills: Sequence[Any],
    shape: Sequence[int],
    required: Sequence[bool],
    fill_value: Any,
) -> Block:
    """Apply a function to operands and drop results equal to the fill value.

    Two operands whose coordinates fit a 63-bit key are merged by compiled loops; other operands, and small ones, are
    aligned by :func:`align`.

    Parameters
    ----------
    function
        Function of coordinates and operand values.
    blocks, fills, shape, required
        See :func:`align`.
    fill_value
        Result at all other coordinates.
    """
    layout = None
    if len(blocks) == 2 and shape and not prefer_numpy("merge", sum(block.count for block in blocks)):
        from sparrow.kernels.keys import choose_layout

        layout = choose_layout([max(n - 1, 0) for n in shape])
    if layout is None:
        coords, columns = align(blocks, fills, shape, required)
        return apply(function, coords, columns, fill_value)
    return _combine_merged(function, blocks, fills, layout, required, fill_value)


def _combine_merged(
    function: Function,
    blocks: Sequence[Block],
    fills: Sequence[Any],
    layout: tuple[int, ...],
    required: Sequence[bool],
    fill_value: Any,
) -> Block:
    """Merge two operands chunk by chunk of their keys."""
    from sparrow.kernels import merge
    from sparrow.kernels.keys import pack, unpack

    one, two = blocks
    a, b = pack(one.coords, layout), pack(two.coords, layout)
    dtypes = [column.dtype for column in one.coords]
    left, right = (merge.WordCodec(block.values, fill) for block, fill in zip(blocks, fills, strict=True))
    longer = max(a, b, key=len)
    chunk = tuning().merge_chunk_elements
    borders = longer[chunk::chunk]
    cuts_a, cuts_b = ([0, *np.searchsorted(keys, borders).tolist(), len(keys)] for keys in (a, b))
    found = []
    for start_a, stop_a, start_b, stop_b in zip(cuts_a, cuts_a[1:], cuts_b, cuts_b[1:], strict=False):
        p, q = a[start_a:stop_a], b[start_b:stop_b]
        x, y = one.values[start_a:stop_a], two.values[start_b:stop_b]
        if len(p) == len(q) and np.array_equal(p, q):
            keys = p
        elif all(required):
            keys, *found_at = merge.intersection(p, q, left.words(start_a, stop_a), right.words(start_b, stop_b))
            x, y = left.values(found_at[0]), right.values(found_at[1])
        elif required[0]:
            keys, y = p, right.values(merge.lookup(p, q, right.words(start_b, stop_b), right.fill))
        elif required[1]:
            keys, x = q, left.values(merge.lookup(q, p, left.words(start_a, stop_a), left.fill))
        else:
            words = left.words(start_a, stop_a), right.words(start_b, stop_b)
            keys, *found_at = merge.union(p, q, *words, left.fill, right.fill)
            x, y = left.values(found_at[0]), right.values(found_at[1])
        coords = unpack(keys, layout, dtypes)
        found.append(apply(function, coords, [x, y], fill_value))
    return concat_blocks(found, len(layout), found[0].values.dtype)


def align(
    blocks: Sequence[Block], fills: Sequence[Any], shape: Sequence[int], required: Sequence[bool]
) -> tuple[tuple[NDArray[Any], ...], list[NDArray[Any]]]:
    """Return coordinates where an operand stores an element, and all values there.

    Parameters
    ----------
    blocks
        Canonical elements of each operand.
    fills
        Fill value of each operand.
    shape
        Shape of the operands.
    required
        Whether each operand must store an element; if all must, the result is the intersection.

    Returns
    -------
    coords
        One sorted array of shape (m,) per dimension.
    values
        One array of shape (m,) per operand.
    """
    if len(blocks) == 1:
        return blocks[0].coords, [blocks[0].values]
    counts = [block.count for block in blocks]
    ndim = len(shape)
    coords = tuple(np.concatenate([block.coords[dim] for block in blocks]) for dim in range(ndim))
    total = sum(counts)
    key = linear_keys(coords, shape) if coords and total <= dispatch().small_work else None
    order = sort_order(coords, shape) if key is None else np.argsort(key, kind="stable")
    if order is None:
        order = np.arange(total)
    fresh = np.zeros(total, dtype=bool)
    fresh[:1] = True
    for column in coords if key is None else (key,):
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
    function: Function, coords: tuple[NDArray[Any], ...], columns: Sequence[NDArray[Any]], fill_value: Any
) -> Block:
    """Evaluate a function at sorted coordinates; drop results equal to the fill."""
    with np.errstate(all="ignore"):
        values = function(coords, columns)
    absent = is_fill(values, fill_value)
    block = Block(coords, values)
    return filter_block(block, ~absent) if absent.any() else block
