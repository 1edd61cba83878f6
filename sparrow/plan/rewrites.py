"""Views of a step pushed into its operands, so that scans skip what nobody looks at. Pure arithmetic on shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from sparrow.index import Axis, Points, Range, View
from sparrow.plan.nodes import Concat, Contract, Dense, Map, Node, Reduce, Scan, Step, Triangle
from sparrow.schema import Schema

__all__ = ["Key", "narrowed", "operands_of", "split_view"]

Key: TypeAlias = tuple[int | slice, ...]


def operands_of(node: Node) -> tuple[Any, ...]:
    """Return what a node takes in, in order; scalars of a ``Map`` too."""
    if isinstance(node, Map | Concat):
        return node.operands
    if isinstance(node, Scan | Dense):
        return ()
    return (node.left, node.right) if isinstance(node, Contract) else (node.operand,)


def split_view(view: View) -> tuple[Key, View]:
    """Return a view as an index of its base and a view of what that shows, which cuts nothing off.

    Returns
    -------
    key
        An integer or a slice for each dimension of the base; of one under a list the slice that the list lies in.
    rest
        What remains: axes in another order, new and repeated axes, lists.

    Examples
    --------
    >>> key, rest = split_view(View.identity((9, 5)).then((slice(8, 2, -2), 3)).permute((0,)))
    >>> key, rest.is_identity
    ((slice(8, 3, -2), 3), True)
    """
    key: list[int | slice] = [slice(None)] * len(view.base_shape)
    for dim, coordinate in view.fixed:
        key[dim] = coordinate
    for axis in view.axes:
        if isinstance(axis, Range):
            key[axis.dim] = _slice(range(axis.start, axis.start + axis.step * axis.length, axis.step))
    ranges = view.box().ranges
    for group in view.points:
        for dim in group.dims:
            key[dim] = _slice(ranges[dim])
    place = {dim: k for k, dim in enumerate(dim for dim, item in enumerate(key) if isinstance(item, slice))}
    axes: list[Axis] = [
        Range(place[axis.dim], 0, 1, axis.length) if isinstance(axis, Range) else axis for axis in view.axes
    ]
    points = tuple(
        Points(
            tuple(place[dim] for dim in group.dims),
            tuple(coords - ranges[dim].start for dim, coords in zip(group.dims, group.coords, strict=True)),
            group.shape,
        )
        for group in view.points
    )
    shape = tuple(len(range(*item.indices(view.base_shape[dim]))) for dim, item in enumerate(key)
                  if isinstance(item, slice))  # fmt: skip
    return tuple(key), View(shape, (), tuple(axes), points)


def narrowed(node: Step, key: Key) -> Step | None:
    """Return the step whose result is what an index shows of a step's result; None where it must be taken afterwards.

    Parameters
    ----------
    key
        An integer or a slice for each axis of the result; no slice is empty.
    """
    if isinstance(node, Map):
        return _map(node, key)
    if isinstance(node, Reduce):
        return _reduce(node, key)
    if isinstance(node, Concat):
        return _concat(node, key)
    if isinstance(node, Triangle):
        return _triangle(node, key)
    return None


def _map(node: Map, key: Key) -> Map:
    def operand(of: Any) -> Any:
        if isinstance(of, Scan):
            return _taken(of, key)
        if isinstance(of, Dense):
            return Dense(np.broadcast_to(of.array, node.schema.shape)[key])
        return of

    return replace(node, operands=tuple(map(operand, node.operands)), schema=_shown(node.schema, key))


def _reduce(node: Reduce, key: Key) -> Reduce:
    taken: list[int | slice] = [slice(None)] * node.operand.schema.ndim
    axes: list[int | None] = []
    for axis, item in zip(node.axes, key, strict=True):
        if axis is not None:
            taken[axis] = item
        if isinstance(item, slice):
            axes.append(axis)
    place = {dim: k for k, dim in enumerate(dim for dim, item in enumerate(taken) if isinstance(item, slice))}
    return replace(
        node,
        operand=_taken(node.operand, tuple(taken)),
        axes=tuple(None if axis is None else place[axis] for axis in axes),
        schema=_shown(node.schema, key),
    )


def _concat(node: Concat, key: Key) -> Concat | None:
    along = key[node.axis]
    if not isinstance(along, slice):
        return None
    walk = range(*along.indices(node.schema.shape[node.axis]))
    parts, start = [], 0
    for scan in node.operands:
        size = scan.schema.shape[node.axis]
        mine = _within(walk, start, start + size)
        if len(mine):
            item = _slice(range(mine.start - start, mine.stop - start, mine.step))
            parts.append(_taken(scan, (*key[: node.axis], item, *key[node.axis + 1 :])))
        start += size
    if walk.step < 0:
        parts.reverse()
    axis = sum(isinstance(item, slice) for item in key[: node.axis])
    return replace(node, operands=tuple(parts), axis=axis, schema=_shown(node.schema, key))


def _triangle(node: Triangle, key: Key) -> Triangle | None:
    down, across = key[-2:]
    if not isinstance(down, slice) or not isinstance(across, slice):
        return None
    rows, columns = (range(*item.indices(n)) for item, n in zip((down, across), node.schema.shape[-2:], strict=True))
    if rows.step != 1 or columns.step != 1:
        return None
    k = node.k + rows.start - columns.start
    return replace(node, operand=_taken(node.operand, key), k=k, schema=_shown(node.schema, key))


def _taken(scan: Scan, key: Key) -> Scan:
    view = scan.view.then(key)
    return Scan(scan.relation, view, scan.relation.schema.through(view))


def _shown(schema: Schema, key: Key) -> Schema:
    return schema.through(View.identity(schema.shape).then(key))


def _within(walk: range, start: int, stop: int) -> range:
    """Return the part of a walk whose steps lie between two bounds."""
    ascending = walk if walk.step > 0 else walk[::-1]
    step = ascending.step
    first = max(-(-(start - ascending.start) // step), 0)
    last = min(max(-(-(stop - ascending.start) // step), 0), len(ascending))
    part = ascending[first : max(first, last)]
    return part if walk.step > 0 else part[::-1]


def _slice(walk: Sequence[int]) -> slice:
    """Return the slice that visits what a range visits; its steps are none below 0."""
    if not len(walk):
        return slice(0, 0)
    step = walk[1] - walk[0] if len(walk) > 1 else 1
    stop = walk[-1] + (1 if step > 0 else -1)
    return slice(walk[0], None if stop < 0 else stop, step)
