"""Fall back to the stream engine for nodes that an engine does not support."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sparrow.core.indexing import View
from sparrow.engines.protocol import Engine
from sparrow.engines.stream import lower
from sparrow.plan import Node, Scan, expand_contractions, nodes_below, optimize_plan
from sparrow.relations.protocol import Relation
from sparrow.runtime.events import emit

__all__ = ["lower_with_fallback", "optimize_for", "unsupported_nodes"]


def lower_with_fallback(engine: Engine, scans: Sequence[Scan]) -> list[Scan]:
    """Return optimized scans whose plans hold only nodes that an engine supports.

    Unsupported nodes, those nested too deep and those over too many scans become relations that the stream engine
    computes when they are read.
    """
    scans = optimize_for(engine, scans)
    nodes = nodes_below(scans)
    unsupported = unsupported_nodes(engine, nodes)
    if not unsupported:
        return list(scans)
    reached: dict[Node, None] = {}  # without passing through unsupported ones
    pending = [scan.source for scan in scans if isinstance(scan.source, Node)]
    while pending:
        node = pending.pop()
        if node not in reached:
            reached[node] = None
            if node not in unsupported:
                pending.extend(scan.source for scan in node.scans if isinstance(scan.source, Node))
    border = [node for node in reached if node in unsupported]
    emit("engines.fallback", engine=engine, nodes=border)
    lowered = lower([Scan(node, View.identity(node.schema.shape), node.schema) for node in border])
    replaced: dict[Node, Node | Relation] = {node: low.relation for node, low in zip(border, lowered, strict=True)}

    def replace_source(scan: Scan) -> Scan:
        source = scan.source
        return Scan(replaced[source], scan.view, scan.schema) if isinstance(source, Node) else scan

    for node in nodes:
        if node in reached and node not in replaced:
            below = [replace_source(scan) for scan in node.scans]
            changed = any(a.source is not b.source for a, b in zip(below, node.scans, strict=True))
            replaced[node] = node.with_inputs(below) if changed else node
    return [replace_source(scan) for scan in scans]


def optimize_for(engine: Engine, scans: Sequence[Scan]) -> list[Scan]:
    """Return optimized scans, with contractions of pairs if the engine needs that."""
    scans = optimize_plan(scans)
    return list(scans) if engine.max_operands is None else expand_contractions(scans)


def unsupported_nodes(engine: Engine, nodes: Sequence[Node]) -> dict[Node, str]:
    """Return the nodes that an engine does not support, each with the reason.

    Parameters
    ----------
    nodes
        In topological order, operands first.
    """
    found: dict[Node, str] = {}
    depth: dict[Node, int] = {}
    count: dict[Node, int] = {}
    uses = Counter(scan.source for node in nodes for scan in node.scans)
    for node in nodes:
        below = [scan.source for scan in node.scans if isinstance(scan.source, Node)]
        depth[node] = 1 + max((depth[one] for one in below), default=0)
        reason = engine.unsupported_reason(node)
        if reason is None and engine.max_depth is not None and depth[node] > engine.max_depth:
            reason = f"more than {engine.max_depth} nested nodes"
        shared = [uses[one] > 1 for one in below]  # a table of its own
        count[node] = sum(count[one] - 1 for one, is_shared in zip(below, shared, strict=True) if not is_shared)
        count[node] += len(node.scans)
        if reason is None and engine.max_scans is not None and count[node] > engine.max_scans:
            reason = f"more than {engine.max_scans} scans"
        if reason is not None:
            found[node] = reason
            depth[node], count[node] = 0, 1
    return found
