"""What an engine declines of a plan, computed by the stream engine and handed over as a relation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sparrow.core.indexing import View
from sparrow.engines.stream import lower
from sparrow.plan import Node, Scan, nodes_below, optimize_plan

if TYPE_CHECKING:
    from sparrow.engines.registry import Engine
    from sparrow.relations.base import Relation

__all__ = ["lower_with_fallback", "unsupported_nodes"]


def lower_with_fallback(engine: Engine, scans: Sequence[Scan]) -> list[Scan]:
    """Return scans of the same entries whose plans hold only steps that an engine takes.

    Views are pushed down and equal steps made one first. Steps that it declines, and those on which too many stand, are
    relations that the stream engine computes when they are read.
    """
    scans = optimize_plan(scans)
    steps = nodes_below(scans)
    away = unsupported_nodes(engine, steps)
    if not away:
        return list(scans)
    reached: dict[Node, None] = {}  # without going through what is handed over
    waiting = [scan.source for scan in scans if isinstance(scan.source, Node)]
    while waiting:
        step = waiting.pop()
        if step not in reached:
            reached[step] = None
            if step not in away:
                waiting.extend(scan.source for scan in step.scans if isinstance(scan.source, Node))
    border = [step for step in reached if step in away]
    lows = lower([Scan(step, View.identity(step.schema.shape), step.schema) for step in border])
    now: dict[Node, Node | Relation] = {step: low.relation for step, low in zip(border, lows, strict=True)}

    def moved(scan: Scan) -> Scan:
        source = scan.source
        return Scan(now[source], scan.view, scan.schema) if isinstance(source, Node) else scan

    for step in steps:
        if step in reached and step not in now:
            below = [moved(scan) for scan in step.scans]
            changed = any(a.source is not b.source for a, b in zip(below, step.scans, strict=True))
            now[step] = step.with_inputs(below) if changed else step
    return [moved(scan) for scan in scans]


def unsupported_nodes(engine: Engine, steps: Sequence[Node]) -> dict[Node, str]:
    """Return the steps that an engine does not run, each with the reason; those taken in come first."""
    found: dict[Node, str] = {}
    depth: dict[Node, int] = {}
    for step in steps:
        below = [scan.source for scan in step.scans if isinstance(scan.source, Node)]
        depth[step] = 1 + max((depth[one] for one in below), default=0)
        reason = engine.unsupported_reason(step)
        if reason is None and engine.max_depth is not None and depth[step] > engine.max_depth:
            reason = f"more than {engine.max_depth} steps stand on one another"
        if reason is not None:
            found[step] = reason
            depth[step] = 0
    return found
