"""What an engine declines of a plan, computed by the stream engine and handed over as a relation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sparrow.core.indexing import View
from sparrow.engines.stream import lower
from sparrow.plan import Scan, Step, rewritten, steps_below

if TYPE_CHECKING:
    from sparrow.engines.registry import Engine
    from sparrow.relations.base import Relation

__all__ = ["declined", "prepared"]


def prepared(engine: Engine, scans: Sequence[Scan]) -> list[Scan]:
    """Return scans of the same entries whose plans hold only steps that an engine takes.

    Views are pushed down and equal steps made one first. Steps that it declines, and those on which too many stand, are
    relations that the stream engine computes when they are read.
    """
    scans = rewritten(scans)
    steps = steps_below(scans)
    away = declined(engine, steps)
    if not away:
        return list(scans)
    reached: dict[Step, None] = {}  # without going through what is handed over
    waiting = [scan.source for scan in scans if isinstance(scan.source, Step)]
    while waiting:
        step = waiting.pop()
        if step not in reached:
            reached[step] = None
            if step not in away:
                waiting.extend(scan.source for scan in step.scans if isinstance(scan.source, Step))
    border = [step for step in reached if step in away]
    lows = lower([Scan(step, View.identity(step.schema.shape), step.schema) for step in border])
    now: dict[Step, Step | Relation] = {step: low.relation for step, low in zip(border, lows, strict=True)}

    def moved(scan: Scan) -> Scan:
        source = scan.source
        return Scan(now[source], scan.view, scan.schema) if isinstance(source, Step) else scan

    for step in steps:
        if step in reached and step not in now:
            below = [moved(scan) for scan in step.scans]
            changed = any(a.source is not b.source for a, b in zip(below, step.scans, strict=True))
            now[step] = step.on(below) if changed else step
    return [moved(scan) for scan in scans]


def declined(engine: Engine, steps: Sequence[Step]) -> dict[Step, str]:
    """Return the steps that an engine does not run, each with the reason; those taken in come first."""
    found: dict[Step, str] = {}
    depth: dict[Step, int] = {}
    for step in steps:
        below = [scan.source for scan in step.scans if isinstance(scan.source, Step)]
        depth[step] = 1 + max((depth[one] for one in below), default=0)
        reason = engine.declines(step)
        if reason is None and engine.deepest is not None and depth[step] > engine.deepest:
            reason = f"more than {engine.deepest} steps stand on one another"
        if reason is not None:
            found[step] = reason
            depth[step] = 0
    return found
