"""Plan rewrites: view pushdown, common subexpressions, product masks.

A view of a node becomes views of its operands, so that scans skip what is not needed; equal nodes become one. All of it
is arithmetic on shapes and iterates over a plan instead of recursing, whatever its depth.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from sparrow.core.indexing import Axis, Points, RangeAxis, View
from sparrow.core.schema import Schema
from sparrow.kernels.coo import concat_blocks
from sparrow.plan.contraction import as_elementwise, is_elementwise, make_contraction
from sparrow.plan.contraction_path import optimal_path, surviving_indices
from sparrow.plan.distribution import distribute_contraction
from sparrow.plan.estimates import estimate_operand
from sparrow.plan.nodes import Concat, Contraction, Dense, Map, Node, Reduce, Scan, Sort, TopK, Triangle, WithFill
from sparrow.plan.tuning import tuning
from sparrow.relations.memory import MemoryRelation

__all__ = [
    "BasicIndex",
    "expand_contractions",
    "nodes_below",
    "optimize_plan",
    "push_index",
    "replace_contractions",
    "split_view",
    "transpose_map",
]

BasicIndex: TypeAlias = tuple[int | slice, ...]


def split_view(view: View) -> tuple[BasicIndex, View]:
    """Split a view into an index of its base and a view of the rest.

    Returns
    -------
    key
        An integer or a slice for each dimension of the base; under a list the slice that contains it.
    rest
        Permuted, new and repeated axes, and lists.

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
        if isinstance(axis, RangeAxis):
            key[axis.dim] = _range_slice(range(axis.start, axis.start + axis.step * axis.length, axis.step))
    ranges = view.box().ranges
    for group in view.points:
        for dim in group.dims:
            key[dim] = _range_slice(ranges[dim])
    place = {dim: k for k, dim in enumerate(dim for dim, item in enumerate(key) if isinstance(item, slice))}
    axes: list[Axis] = [
        RangeAxis(place[axis.dim], 0, 1, axis.length) if isinstance(axis, RangeAxis) else axis for axis in view.axes
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


def push_index(node: Node, key: BasicIndex) -> Node | None:
    """Push an index into the operands of a node; None if impossible.

    Parameters
    ----------
    key
        An integer or a slice for each axis of the result; no slice is empty.
    """
    narrow = _NARROW.get(type(node))
    return None if narrow is None else narrow(node, key)


def transpose_map(node: Map, order: Sequence[int]) -> Map:
    """Return an element-wise node with permuted axes."""

    def operand(of: Any) -> Any:
        if isinstance(of, Scan):
            return of.then(of.view.permute(order))
        if isinstance(of, Dense):
            return Dense(np.broadcast_to(of.array, node.schema.shape).transpose(order))
        return of

    schema = node.schema.with_view(View.identity(node.schema.shape).permute(order))
    return replace(node, operands=tuple(map(operand, node.operands)), schema=schema)


def _map(node: Map, key: BasicIndex) -> Map:
    def operand(of: Any) -> Any:
        if isinstance(of, Scan):
            return _index_scan(of, key)
        if isinstance(of, Dense):
            return Dense(np.broadcast_to(of.array, node.schema.shape)[key])
        return of

    return replace(node, operands=tuple(map(operand, node.operands)), schema=_index_schema(node.schema, key))


def _reduce(node: Reduce, key: BasicIndex) -> Reduce:
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
        operand=_index_scan(node.operand, tuple(taken)),
        axes=tuple(None if axis is None else place[axis] for axis in axes),
        schema=_index_schema(node.schema, key),
    )


def _concat(node: Concat, key: BasicIndex) -> Concat | None:
    along = key[node.axis]
    if not isinstance(along, slice):
        return _concat_operand(node, key, along)
    walk = range(*along.indices(node.schema.shape[node.axis]))
    parts, start = [], 0
    for scan in node.operands:
        size = scan.schema.shape[node.axis]
        mine = _clip_range(walk, start, start + size)
        if len(mine):
            item = _range_slice(range(mine.start - start, mine.stop - start, mine.step))
            parts.append(_index_scan(scan, (*key[: node.axis], item, *key[node.axis + 1 :])))
        start += size
    if walk.step < 0:
        parts.reverse()
    axis = sum(isinstance(item, slice) for item in key[: node.axis])
    return replace(node, operands=tuple(parts), axis=axis, schema=_index_schema(node.schema, key))


def _concat_operand(node: Concat, key: BasicIndex, along: int) -> Concat | None:
    """Return the one operand at an index along the axis, as a concatenation of one."""
    if not any(isinstance(item, slice) for item in key):
        return None
    for scan in node.operands:
        size = scan.schema.shape[node.axis]
        if along < size:
            item = _index_scan(scan, (*key[: node.axis], along, *key[node.axis + 1 :]))
            return replace(node, operands=(item,), axis=0, schema=_index_schema(node.schema, key))
        along -= size
    raise AssertionError("the index is within bounds")


def _lines(node: Sort | TopK, key: BasicIndex) -> Node | None:
    last = key[-1]
    if node.schema.ndim < 2 or not isinstance(last, slice):
        return None
    if range(*last.indices(node.schema.shape[-1])) != range(node.schema.shape[-1]):
        return None
    return replace(node, operand=_index_scan(node.operand, key), schema=_index_schema(node.schema, key))


def _with_fill(node: WithFill, key: BasicIndex) -> WithFill:
    return replace(node, operand=_index_scan(node.operand, key), schema=_index_schema(node.schema, key))


def _triangle(node: Triangle, key: BasicIndex) -> Triangle | None:
    down, across = key[-2:]
    if not isinstance(down, slice) or not isinstance(across, slice):
        return None
    rows, columns = (range(*item.indices(n)) for item, n in zip((down, across), node.schema.shape[-2:], strict=True))
    if rows.step != 1 or columns.step != 1:
        return None
    k = node.k + rows.start - columns.start
    return replace(node, operand=_index_scan(node.operand, key), k=k, schema=_index_schema(node.schema, key))


def _contraction(node: Contraction, key: BasicIndex) -> Contraction | None:
    if node.score is not None:
        return None
    size, last = node.schema.shape[-1:], key[-1:]
    if node.topk is not None and not all(isinstance(item, slice) and range(*item.indices(n)) == range(n)
                                         for n, item in zip(size, last, strict=True)):  # fmt: skip
        return None  # the largest of all columns are not those of some
    at = dict(zip(node.output_indices, key, strict=True))
    operands: list[Scan | Dense] = []
    indices = []
    for each, own in zip(node.operands, node.indices, strict=True):
        items = tuple(at.get(index, slice(None)) for index in own)
        indices.append(tuple(index for index, item in zip(own, items, strict=True) if isinstance(item, slice)))
        operands.append(_index_scan(each, items) if isinstance(each, Scan) else Dense(each.array[items]))
    return replace(
        node,
        operands=tuple(operands),
        indices=tuple(indices),
        output_indices=tuple(index for index in node.output_indices if isinstance(at[index], slice)),
        mask=None if node.mask is None else _index_scan(node.mask, key),
        schema=_index_schema(node.schema, key),
    )


def _transpose_contraction(node: Contraction, order: Sequence[int]) -> Contraction:
    mask = None if node.mask is None else node.mask.then(node.mask.view.permute(order))
    schema = node.schema.with_view(View.identity(node.schema.shape).permute(order))
    return replace(node, output_indices=tuple(node.output_indices[k] for k in order), mask=mask, schema=schema)


_NARROW: dict[type[Node], Callable[[Any, BasicIndex], Node | None]] = {
    Map: _map,
    Reduce: _reduce,
    Concat: _concat,
    Contraction: _contraction,
    Triangle: _triangle,
    Sort: _lines,
    TopK: _lines,
    WithFill: _with_fill,
}
"""Pushdown of an index per node type; the result of any other node is indexed afterwards."""


def _index_scan(scan: Scan, key: BasicIndex) -> Scan:
    return scan.then(scan.view.then(key))


def _index_schema(schema: Schema, key: BasicIndex) -> Schema:
    return schema.with_view(View.identity(schema.shape).then(key))


def _clip_range(walk: range, start: int, stop: int) -> range:
    """Return the part of a range between two bounds."""
    ascending = walk if walk.step > 0 else walk[::-1]
    step = ascending.step
    first = max(-(-(start - ascending.start) // step), 0)
    last = min(max(-(-(stop - ascending.start) // step), 0), len(ascending))
    part = ascending[first : max(first, last)]
    return part if walk.step > 0 else part[::-1]


def _range_slice(walk: Sequence[int]) -> slice:
    """Return the slice equal to a range of non-negative indices."""
    if not len(walk):
        return slice(0, 0)
    step = walk[1] - walk[0] if len(walk) > 1 else 1
    stop = walk[-1] + (1 if step > 0 else -1)
    return slice(walk[0], None if stop < 0 else stop, step)


# -- whole plans ---------------------------------------------------------------------------------


def nodes_below(scans: Iterable[Scan]) -> list[Node]:
    """Return the nodes below scans in topological order, operands first."""

    def sources(of: Iterable[Scan]) -> list[Node]:
        return [scan.source for scan in of if isinstance(scan.source, Node)]

    found: list[Node] = []
    seen: set[Node] = set()
    waiting = [(node, False) for node in sources(scans)]
    while waiting:
        node, done = waiting.pop()
        if done:
            found.append(node)
        elif node not in seen:
            seen.add(node)
            waiting.append((node, True))
            waiting.extend((below, False) for below in sources(node.scans))
    return found


def optimize_plan(scans: Sequence[Scan]) -> list[Scan]:
    """Return scans with equal results, of plans that read and compute less.

    A view is pushed into the operands of a node unless another scan needs the whole result. Several views that overlap
    are pushed as one box that contains them, so that a plan never has more nodes than the scans of the original one.
    Transposes are always pushed into element-wise nodes, and permute the output indices of contractions. A contraction
    of equal indices becomes a reduced element-wise product, and a tensor that is multiplied element-wise with a
    contraction its mask. A contraction of a sum with broadcast terms becomes one of each
    (:mod:`sparrow.plan.distribution`).
    """
    if not any(isinstance(scan.source, Node) for scan in scans):
        return list(scans)
    scans = list(map(_without_empty_view, scans))
    below = nodes_below(scans)
    if any(isinstance(node, Contraction) for node in below):
        if any(isinstance(node, Contraction) and is_elementwise(node) for node in below):
            scans = _replace_nodes(scans, below, as_elementwise)
            below = nodes_below(scans)
        if any(isinstance(node, Map) for node in below):
            scans = _add_masks(scans, below)
            scans = _replace_nodes(scans, nodes_below(scans), distribute_contraction)
            below = nodes_below(scans)
    if len(scans) == len(below) == 1 and scans[0].view.is_identity:
        return scans  # one node over relations, read in full
    wanted: dict[Node, dict[View, None]] = {node: {} for node in below}

    def want(of: Iterable[Scan]) -> None:
        for scan in of:
            if isinstance(scan.source, Node):
                wanted[scan.source][scan.view] = None

    want(scans)
    uses = _count_uses(below, scans)
    pushed: dict[tuple[Node, View], tuple[Node, View]] = {}
    for node in reversed(below):  # users come before operands
        for view, found in _push_views(node, list(wanted[node]), uses[node], len(uses)).items():
            now, rest = found
            if isinstance(now, Concat):
                now = _flatten_concat(now, uses)
            operands = now.scans
            needed = [_without_empty_view(scan) for scan in operands]
            if any(a is not b for a, b in zip(needed, operands, strict=True)):
                now = now.with_inputs(needed)
            pushed[node, view] = now, rest
            want(now.scans)
    made: dict[tuple[Node, View], tuple[Node, View]] = {}
    known: dict[Hashable, Node] = {}

    def resolve(scan: Scan) -> Scan:
        if not isinstance(scan.source, Node):
            return scan
        node, rest = made[scan.source, scan.view]
        return scan if node is scan.source else Scan(node, rest, scan.schema)

    for node in below:
        for view in wanted[node]:  # empty for nodes that are no longer read
            now, rest = pushed[node, view]
            below_it = [resolve(scan) for scan in now.scans]
            if any(a is not b for a, b in zip(below_it, now.scans, strict=True)):
                now = now.with_inputs(below_it)
            key = type(now), now.key(), tuple((scan.source.token, scan.view) for scan in below_it)
            made[node, view] = known.setdefault(key, now), rest
    return [resolve(scan) for scan in scans]


def expand_contractions(scans: Sequence[Scan]) -> list[Scan]:
    """Return scans of plans whose contractions take two tensors each."""
    return replace_contractions(scans, _expand_contraction)


def replace_contractions(scans: Sequence[Scan], replacement: Callable[[Contraction], Contraction | None]) -> list[Scan]:
    """Return scans of plans in which contractions are replaced, operands first."""
    return _replace_nodes(scans, nodes_below(scans), replacement)


def _expand_contraction(node: Contraction) -> Contraction | None:
    """Return a contraction of several tensors as nested ones of two, else None."""
    if len(node.tensors) < 3:
        return None
    terms = list(zip(node.indices, node.tensors, strict=True))
    estimates = [estimate_operand(own, scan) for own, scan in terms]
    for step in optimal_path(estimates, node.output_indices, node.semiring)[:-1]:
        (own, one), (beside, other) = (terms[k] for k in step)
        terms = [term for k, term in enumerate(terms) if k not in step]
        out = surviving_indices(own, beside, [term[0] for term in terms], node.output_indices, node.semiring)
        inner = make_contraction((one, other), (own, beside), out, node.semiring)
        terms.append((out, Scan(inner, View.identity(inner.schema.shape), inner.schema)))
    indices, operands = zip(*terms, strict=True)
    return replace(node, operands=operands, indices=indices)


def _replace_nodes(
    scans: Sequence[Scan], below: Sequence[Node], replacement: Callable[[Contraction], Node | None]
) -> list[Scan]:
    """Return scans of plans in which contractions are replaced.

    Parameters
    ----------
    below
        The nodes of the plans in topological order.
    """
    now: dict[Node, Node] = {}

    def replace_source(scan: Scan) -> Scan:
        found = now.get(scan.source) if isinstance(scan.source, Node) else None
        return scan if found is None else Scan(found, scan.view, scan.schema)

    for node in below:
        operands = [replace_source(scan) for scan in node.scans]
        changed = any(a is not b for a, b in zip(operands, node.scans, strict=True))
        same = node.with_inputs(operands) if changed else node
        found = replacement(same) if isinstance(same, Contraction) else None
        if changed or found is not None:
            now[node] = same if found is None else found
    return [replace_source(scan) for scan in scans] if now else list(scans)


def _add_masks(scans: Sequence[Scan], below: Sequence[Node]) -> list[Scan]:
    """Return scans of plans in which ``A @ B * M`` is a contraction with mask ``M``."""
    uses = _count_uses(below, scans)
    now: dict[Node, Node] = {}

    def replace_source(scan: Scan) -> Scan:
        found = now.get(scan.source) if isinstance(scan.source, Node) else None
        return scan if found is None else Scan(found, scan.view, scan.schema)

    def through(inner: Scan, other: Scan, before: Scan) -> Scan | None:
        node = inner.source
        if not isinstance(node, Contraction) or node.mask is not None or isinstance(other.source, Contraction):
            return None
        if len(node.tensors) < len(node.operands) or node.topk is not None:
            return None
        alone = inner.view.is_identity and isinstance(before.source, Node) and uses[before.source] == 1
        return Scan(replace(node, mask=other), inner.view, inner.schema) if alone else None

    for node in below:
        operands = [replace_source(scan) for scan in node.scans]
        if isinstance(node, Map) and node.function is np.multiply and node.required == (True, True):
            one, other = operands
            if (thin := through(one, other, node.scans[0])) is not None:
                operands[0] = thin
            elif (thin := through(other, one, node.scans[1])) is not None:
                operands[1] = thin
        if any(a is not b for a, b in zip(operands, node.scans, strict=True)):
            now[node] = node.with_inputs(operands)
    return [replace_source(scan) for scan in scans]


def _without_empty_view(scan: Scan) -> Scan:
    """Replace an empty view of a node by a scan of an empty relation."""
    if not isinstance(scan.source, Node) or scan.view.size:
        return scan
    schema = scan.source.schema
    empty = concat_blocks([], schema.ndim, schema.dtype)
    return Scan(MemoryRelation(schema, empty), scan.view, scan.schema)


def _count_uses(below: Iterable[Node], scans: Iterable[Scan]) -> Counter[Node]:
    """Return the number of scans of each node in a plan."""
    uses = Counter(scan.source for node in below for scan in node.scans if isinstance(scan.source, Node))
    uses.update(scan.source for scan in scans if isinstance(scan.source, Node))
    return uses


def _push_views(node: Node, views: Sequence[View], uses: int, most: int) -> dict[View, tuple[Node, View]]:
    """Push views into a node; return the new node and the remaining view of each.

    Parameters
    ----------
    views
        Distinct views.
    uses
        Number of scans of the node in the original plan: as many views that do not overlap are pushed one by one.
    most
        Number of views up to which small ones are.
    """
    whole = any(view.is_identity for view in views)
    if whole or len(views) == 1 or not node.schema.shape:
        return {view: _push_view(node, view, whole) for view in views}
    boxes = [view.box().ranges for view in views]
    hull = [
        range(min(r[0] for r in ranges), max(r[-1] for r in ranges) + 1) for ranges in zip(*boxes, strict=True)
    ]  # no view is empty
    size, parts = math.prod(map(len, hull)), sum(math.prod(map(len, box)) for box in boxes)
    if (parts <= size and len(views) <= uses) or (parts * tuning().small_views_ratio <= size and len(views) <= most):
        return {view: _push_view(node, view, False) for view in views}
    if [len(r) for r in hull] == list(node.schema.shape):
        return {view: _push_view(node, view, True) for view in views}
    base = push_index(node, tuple(slice(r.start, r.stop) for r in hull))
    if base is None:
        return {view: (node, view) for view in views}
    return {view: _push_view(base, view.within(hull), True) for view in views}


def _push_view(node: Node, view: View, whole: bool) -> tuple[Node, View]:
    """Push a view into a node; return the new node and the remaining view."""
    if view.is_identity or not view.size or not view.base_shape:
        return node, view
    key, rest = split_view(view)
    turns = not rest.is_identity and all(isinstance(axis, RangeAxis) for axis in rest.axes)
    if key == tuple(slice(0, n, 1) for n in node.schema.shape) and not (turns and _can_transpose(node)):
        return node, view  # nothing left to push: an optimized plan is optimized to itself
    found = None if whole and not (turns and isinstance(node, Map)) else push_index(node, key)
    if found is None:
        return node, view
    if turns and isinstance(found, Map | Contraction) and _can_transpose(found):
        order = [axis.dim for axis in rest.axes if isinstance(axis, RangeAxis)]
        now = transpose_map(found, order) if isinstance(found, Map) else _transpose_contraction(found, order)
        return now, View.identity(view.shape)
    return found, rest


def _can_transpose(node: Node) -> bool:
    """Return whether a node with permuted axes is a node of the same kind."""
    return isinstance(node, Map) or (isinstance(node, Contraction) and node.topk is None)


def _flatten_concat(join: Concat, uses: Mapping[Node, int]) -> Concat:
    """Flatten nested concatenations along one axis that no other scan reads."""
    operands: list[Scan] = []
    waiting = list(reversed(join.operands))
    while waiting:
        scan = waiting.pop()
        inner = scan.source
        if (
            isinstance(inner, Concat)
            and inner.axis == join.axis
            and inner.schema.dtype == join.schema.dtype
            and scan.view.is_identity
            and uses[inner] == 1
        ):
            waiting.extend(reversed(inner.operands))
        else:
            operands.append(scan)
    return join if len(operands) == len(join.operands) else replace(join, operands=tuple(operands))
