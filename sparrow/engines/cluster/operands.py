"""Operands that tasks do not divide, which are computed once for all of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from sparrow.core.indexing import View
from sparrow.plan import Contraction, Node, Reduce, Scan, nodes_below, optimize_plan
from sparrow.relations.protocol import Relation

__all__ = ["find_divided", "find_shared", "replace_scans"]


def find_shared(scan: Scan, axis: int = 0) -> list[Scan]:
    """Return scans of nodes that each range of an optimized plan computes as a whole.

    Parameters
    ----------
    scan
        Root of the plan.
    axis
        Axis of which tasks compute ranges.
    """
    first, known = _compare_halves(scan, axis)
    keys, own = _keys(scan), _keys(first)
    nodes = {found: node for node, found in keys.items()}
    whole = {(keys[each.source], each.view): each for each in _scans(scan)}
    found: dict[Hashable, Scan] = {}
    waiting, seen = [first], set[Node]()
    while waiting:
        each = waiting.pop()
        source = each.source
        if not isinstance(source, Node):
            continue
        at = own[source], each.view
        if at not in known:
            if source not in seen and not _adds_chunks(source):
                waiting.extend(source.scans)
            seen.add(source)
        elif at in whole:
            found[at] = whole[at]
        elif at[0] in nodes:  # ranges repeat it along a new axis
            node = nodes[at[0]]
            found[at[0]] = Scan(node, View.identity(node.schema.shape), node.schema)
    return list(found.values())


def find_divided(scan: Scan) -> list[Scan]:
    """Return the shared scans of a plan that ranges read a part of as well.

    Tasks divide ``E`` of ``E @ E`` once it is computed.
    """
    first, known = _compare_halves(scan, 0)
    own, keys = _keys(first), _keys(scan)
    divided = {own[each.source] for each in _scans(first) if (own[each.source], each.view) not in known}
    return [each for each in find_shared(scan) if isinstance(each.source, Node) and keys[each.source] in divided]


def _compare_halves(scan: Scan, axis: int) -> tuple[Scan, set[tuple[Hashable, View]]]:
    """Return the plan of the first half of a scan, and what the second half reads.

    The latter are scans of nodes, by key and view.
    """
    half, key = scan.view.shape[axis] // 2, (slice(None),) * axis
    ranges = (scan.view.then((*key, slice(start, start + half))) for start in (0, half))
    first, second = (optimize_plan([scan.then(view)])[0] for view in ranges)
    keys = _keys(second)
    return first, {(keys[each.source], each.view) for each in _scans(second)}


def _adds_chunks(node: Node) -> bool:
    """Return whether bits of a node depend on chunks of its operand's operands."""
    below = [scan.source for scan in node.scans]
    return isinstance(node, Reduce) and isinstance(below[0], Contraction) and node.schema.dtype.kind in "fc"


def _scans(root: Scan) -> Iterator[Any]:
    """Yield the scans of nodes of a plan."""
    for scan in (root, *(scan for node in nodes_below([root]) for scan in node.scans)):
        if isinstance(scan.source, Node):
            yield scan


def _keys(root: Scan) -> dict[Node, Hashable]:
    """Return a value for each node of a plan that is equal for equal nodes."""
    found: dict[Node, Hashable] = {}
    for node in nodes_below([root]):
        sources = [found[each] if isinstance(each := scan.source, Node) else each.token for scan in node.scans]
        found[node] = type(node), node.key(), tuple(sources), tuple(scan.view for scan in node.scans)
    return found


def replace_scans(scans: Sequence[Scan], computed: Mapping[tuple[Node, View], Relation]) -> list[Scan]:
    """Return scans of plans in which scans read relations instead of nodes.

    Parameters
    ----------
    computed
        Relation with the elements of a scan, by its source and view.
    """
    whole = {source: relation for (source, view), relation in computed.items() if view.is_identity}
    made: dict[Node, Node] = {}

    def replace_source(scan: Scan) -> Scan:
        source = scan.source
        if not isinstance(source, Node):
            return scan
        relation = computed.get((source, scan.view))
        if relation is not None:
            return Scan(relation, View.identity(relation.schema.shape), scan.schema)
        return Scan(whole.get(source) or made[source], scan.view, scan.schema)

    for node in nodes_below(scans):
        made[node] = node.with_inputs([replace_source(scan) for scan in node.scans])
    return [replace_source(scan) for scan in scans]
