"""Origin of a scan: the one tensor that it is an element-wise function of.

``N.T * 1`` and ``N.T.copy()`` are other nodes and relations than ``N``, yet each of their elements belongs to one of
``N``. Alignment by name (:mod:`sparrow.plan.alignment`) asks this, to find a tensor that meets its own transpose.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias

from sparrow.core.indexing import RangeAxis, View
from sparrow.core.schema import is_given_name
from sparrow.plan.nodes import Map, Node, Scan, Triangle, WithFill

__all__ = ["Origin", "find_origin", "named_origin"]

Origin: TypeAlias = tuple[Hashable, View]
"""Token of a tensor, and the view of it that a scan is a function of."""

_ELEMENTWISE = (Map, WithFill, Triangle)


def find_origin(scan: Scan) -> Origin:
    """Return the origin of a scan; its own source where it is a function of several.

    Arrays, scalars and tensors of fewer dimensions do not count, nor what is broadcast from the origin itself, such as
    the sums that it is divided by.
    """
    found: dict[Node, Origin] = {}
    waiting = [scan.source] if isinstance(scan.source, _ELEMENTWISE) else []
    while waiting:
        node = waiting[-1]
        missing = [
            below.source for below in node.scans if isinstance(below.source, _ELEMENTWISE) and below.source not in found
        ]
        if missing:
            waiting.extend(missing)
        else:
            found[node] = _origin_of_node(node, found)
            waiting.pop()
    return _origin_of_scan(scan, found)


def named_origin(scan: Scan) -> Origin | None:
    """Return the origin to keep with a computed copy, or None.

    Names that no person gave need none. Only relations are kept, by token: the copy of an expression forgets its
    operands.
    """
    if scan.schema.ndim < 2 or not any(map(is_given_name, scan.schema.dims)):
        return None
    token, view = find_origin(scan)
    return None if isinstance(token, Node) or view.points else (token, view)


def _origin_of_scan(scan: Scan, found: dict[Node, Origin]) -> Origin:
    source, view = scan.source, scan.view
    origin = found.get(source) if isinstance(source, Node) else getattr(source, "origin", None)
    composed = None if origin is None else _compose(origin[1], view)
    return (source.token, view) if origin is None or composed is None else (origin[0], composed)


def _origin_of_node(node: Node, found: dict[Node, Origin]) -> Origin:
    own = node.token, View.identity(node.schema.shape)
    whole = [scan for scan in node.scans if scan.view.repeats == 1]
    origins = [_origin_of_scan(scan, found) for scan in whole]
    if not origins or any(origin != origins[0] for origin in origins[1:]):
        return own
    repeated = [scan for scan in node.scans if scan.view.repeats > 1 and scan.source.schema.ndim >= node.schema.ndim]
    return own if repeated and _tensors_below(repeated) - _tensors_below(whole[:1]) else origins[0]


def _tensors_below(scans: list[Scan]) -> set[Hashable]:
    """Return the tokens of the tensors that scans are computed from."""
    tokens: set[Hashable] = set()
    seen: set[Node] = set()
    waiting = [scan.source for scan in scans]
    while waiting:
        source = waiting.pop()
        if not isinstance(source, Node):
            origin = getattr(source, "origin", None)
            tokens.add(source.token if origin is None else origin[0])
        elif source not in seen:
            seen.add(source)
            waiting.extend(below.source for below in source.scans)
    return tokens


def _compose(inner: View, outer: View) -> View | None:
    """Return a view of a view; None through lists or new axes."""
    if outer.is_identity:
        return inner
    key: list[int | slice] = [slice(None)] * len(outer.base_shape)
    for dim, coordinate in outer.fixed:
        key[dim] = coordinate
    for axis in outer.axes:
        if not isinstance(axis, RangeAxis):
            return None
        stop = axis.start + axis.step * axis.length
        key[axis.dim] = slice(axis.start, stop if stop >= 0 else None, axis.step)
    kept = sorted(axis.dim for axis in outer.axes if isinstance(axis, RangeAxis))
    order = [kept.index(axis.dim) for axis in outer.axes if isinstance(axis, RangeAxis)]
    return inner.then(tuple(key)).permute(order)
