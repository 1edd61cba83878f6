"""Composition of a view with a parsed index: basic items first, then arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from sparrow.core.indexing.axes import Axis, ListAxis, NewAxis, RangeAxis, range_axis
from sparrow.core.indexing.parse import Array, Flag, Integer, Key, Mode, Slice
from sparrow.core.indexing.points import IntArray, Points
from sparrow.errors import IndexingError

__all__ = ["ViewParts", "compose_index"]

ViewParts: TypeAlias = tuple[tuple[tuple[int, int], ...], tuple[Axis, ...], tuple[Points, ...]]
"""Fixed coordinates, axes and point groups of a view, without its base."""


def compose_index(items: Key, mode: Mode, parts: ViewParts) -> ViewParts:
    """Index a view; arrays combine by ``mode``, see :meth:`View.then`."""
    parts = _apply_basic(items, parts)
    return _apply_arrays(items, mode, parts) if items.arrays else parts


def _apply_basic(items: Key, parts: ViewParts) -> ViewParts:
    """Apply integers, slices and new axes; axes indexed by arrays stay unchanged."""
    fixed, old, points = dict(parts[0]), parts[1], list(parts[2])
    dropped: list[list[int]] = [[] for _ in points]
    axes: list[Axis] = []
    for item in items.items:
        if item is None:
            axes.append(NewAxis())
            continue
        if isinstance(item, Flag):
            continue
        axis = old[item.axis]
        if isinstance(item, Integer):
            if isinstance(axis, RangeAxis):
                fixed[axis.dim] = axis.start + axis.step * item.value
            elif isinstance(axis, ListAxis):
                one = slice(item.value, item.value + 1)
                points[axis.group] = _index_group(points[axis.group], axis.position, one)
                dropped[axis.group].append(axis.position)
        elif isinstance(item, Slice):
            n = len(item.positions)
            if isinstance(axis, RangeAxis):
                start = axis.start + axis.step * item.positions.start
                axes.append(range_axis(axis.dim, start, axis.step * item.positions.step, n))
            elif isinstance(axis, ListAxis):
                at = np.arange(item.positions.start, item.positions.stop, item.positions.step)
                points[axis.group] = _index_group(points[axis.group], axis.position, at)
                axes.append(replace(axis, length=n))
            else:
                axes.append(NewAxis(n))
        else:
            axes.append(axis)
    return _squeeze_groups(fixed, axes, points, dropped)


def _apply_arrays(items: Key, mode: Mode, parts: ViewParts) -> ViewParts:
    """Apply the arrays, after :func:`_apply_basic`."""
    axis_of: dict[int, int] = {}
    axis = 0
    for number, item in enumerate(items.items):
        if isinstance(item, Integer):
            continue
        axis_of[number] = axis
        axis += 0 if isinstance(item, Flag) else 1
    if mode == "orthogonal":
        # Each array becomes a group at its own axis; from the last to the first, so that axis numbers stay valid.
        for arrays in reversed(items.arrays_by_mask()):
            first = axis_of[arrays[0][0]]
            consumed = [axis_of[number] for number, item in arrays if isinstance(item, Array)]
            parts = _index_together(consumed, [item for _, item in arrays], first, parts)
        return parts
    consumed = [axis_of[number] for number, item in items.arrays if isinstance(item, Array)]
    first = items.first_advanced() if mode == "paired" and items.is_contiguous() else 0
    together: list[Array | Flag] = [item for _, item in items.arrays]
    if len(consumed) == len(together) > 1 and (crossed := _crossed_arrays(together)) is not None:
        return _index_crossed(consumed, crossed, first, parts)
    return _index_together(consumed, together, first, parts)


def _crossed_arrays(arrays: Sequence[Array | Flag]) -> list[Array] | None:
    """Return arrays of an outer product, such as those of ``np.ix_``, as vectors.

    None unless the first varies along the first axis only, the second along the second and so on.
    """
    count, out = len(arrays), []
    if max(item.values.ndim for item in arrays) != count:
        return None
    for k, item in enumerate(arrays):
        shape = (1,) * (count - item.values.ndim) + item.values.shape
        if any(n != 1 for axis, n in enumerate(shape) if axis != k) or isinstance(item, Flag):
            return None
        out.append(replace(item, values=item.values.reshape(-1)))
    return out


def _index_crossed(consumed: Sequence[int], arrays: Sequence[Array], first: int, parts: ViewParts) -> ViewParts:
    """Index each of several axes by an array; they come together at ``first``.

    Unlike lists that pair up, each axis keeps its name and labels.
    """
    for axis, array in sorted(zip(consumed, arrays, strict=True), key=lambda pair: -pair[0]):
        parts = _index_together([axis], [array], axis, parts)
    fixed, axes, points = parts
    rest = [axis for k, axis in enumerate(axes) if k not in consumed]
    rest[first:first] = [axes[k] for k in consumed]
    return fixed, tuple(rest), points


def _index_together(consumed: Sequence[int], arrays: Sequence[Array | Flag], first: int, parts: ViewParts) -> ViewParts:
    """Index the axes ``consumed`` by arrays that broadcast together.

    The result axes start at ``first``.
    """
    fixed, old, groups = parts
    try:
        shape = np.broadcast_shapes(*(item.values.shape for item in arrays))
    except ValueError:
        shapes = " and ".join(str(item.values.shape) for item in arrays)
        raise IndexingError(
            f"index lists must broadcast together, got shapes {shapes}: use A.oindex[...] for their outer product"
        ) from None
    by_axis = dict(zip(consumed, (i for i in arrays if isinstance(i, Array)), strict=True))
    involved = sorted({a.group for k in consumed if isinstance(a := old[k], ListAxis)})
    remaining: list[tuple[int, int, int]] = []  # (group, position, axis number) of other axes of involved groups
    for number, axis in enumerate(old):
        if isinstance(axis, ListAxis) and axis.group in involved and number not in by_axis:
            remaining.append((axis.group, axis.position, number))
    full = shape + tuple(old[number].length for _, _, number in remaining)
    pad = (1,) * len(remaining)
    dims: list[int] = []
    columns: list[IntArray] = []
    for number in consumed:
        axis = old[number]
        if isinstance(axis, RangeAxis):
            values = by_axis[number].values
            if max(axis.start, axis.start + axis.step * (axis.length - 1)) >= 2**31:
                values = values.astype(np.int64, copy=False)
            column = axis.start + axis.step * values
            dims.append(axis.dim)
            columns.append(np.broadcast_to(column.reshape(column.shape + pad), full))
    for g in involved:
        index: list[IntArray] = [np.zeros(1, dtype=np.int64)] * len(groups[g].shape)
        for number in consumed:
            axis = old[number]
            if isinstance(axis, ListAxis) and axis.group == g:
                values = by_axis[number].values
                index[axis.position] = values.reshape(values.shape + pad)
        for slot, (group, position, number) in enumerate(remaining):
            if group == g:
                length = old[number].length
                index[position] = np.arange(length).reshape((length,) + (1,) * (len(remaining) - slot - 1))
        for dim, column in zip(groups[g].dims, groups[g].coords, strict=True):
            dims.append(dim)
            columns.append(np.broadcast_to(column[tuple(index)], full))
    unchanged = [g for g in range(len(groups)) if g not in involved]
    renumber = {g: k for k, g in enumerate(unchanged)}
    merged = len(unchanged)
    slots = {number: slot for slot, (_, _, number) in enumerate(remaining)}
    axes: list[Axis] = []
    new_axes: list[Axis] = [ListAxis(merged, k, n) for k, n in enumerate(shape)]
    for number, axis in enumerate(old):
        if number in by_axis:
            continue
        if number in slots:
            axes.append(ListAxis(merged, len(shape) + slots[number], axis.length))
        elif isinstance(axis, ListAxis):
            axes.append(replace(axis, group=renumber[axis.group]))
        else:
            axes.append(axis)
    axes[first:first] = new_axes
    points = [*(groups[g] for g in unchanged), Points(tuple(dims), tuple(columns), full)]
    return _squeeze_groups(dict(fixed), axes, points, [[] for _ in points])


def _index_group(group: Points, position: int, at: slice | IntArray) -> Points:
    """Index dimension ``position`` of the coordinate arrays of a group."""
    key = (slice(None),) * position + (at,)
    coords = tuple(column[key] for column in group.coords)
    n = len(np.empty(group.shape[position], dtype=np.int8)[at])
    shape = (*group.shape[:position], n, *group.shape[position + 1 :])
    return Points(group.dims, coords, shape)


def _squeeze_groups(
    fixed: dict[int, int], axes: list[Axis], points: list[Points], dropped: list[list[int]]
) -> ViewParts:
    """Drop dimensions of groups; a 0-D group becomes fixed coordinates."""
    if not points:
        return tuple(sorted(fixed.items())), tuple(axes), ()
    renumber: dict[int, int] = {}
    groups: list[Points] = []
    for number, group in enumerate(points):
        squeezed = tuple(dropped[number])
        if squeezed:
            shape = tuple(n for k, n in enumerate(group.shape) if k not in squeezed)
            group = Points(group.dims, tuple(column.reshape(shape) for column in group.coords), shape)
        if group.shape == ():
            fixed.update((dim, int(column)) for dim, column in zip(group.dims, group.coords, strict=True))
            continue
        renumber[number] = len(groups)
        groups.append(group)
    out: list[Axis] = []
    for axis in axes:
        if isinstance(axis, ListAxis):
            shift = sum(1 for k in dropped[axis.group] if k < axis.position)
            axis = ListAxis(renumber[axis.group], axis.position - shift, axis.length)
        out.append(axis)
    return tuple(sorted(fixed.items())), tuple(out), tuple(groups)
