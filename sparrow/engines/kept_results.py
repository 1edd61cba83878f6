"""Small results in the middle of deep plans, kept for later evaluations.

A loop such as ``y = A @ x; x = y / y.max()`` makes a plan that is deeper in each step, and evaluates it in each step.
If nothing were kept, ``n`` steps would compute ``n * n / 2`` products. So every ``kept_depth``-th node of a deep plan
is evaluated by itself, if its result is small, and kept as long as the node exists and there is room: later
evaluations start from it. Which nodes these are depends on the plan only, not on what was evaluated before, and so do
the bits.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable, Sequence

from sparrow.core.indexing import View
from sparrow.engines.tuning import tuning
from sparrow.kernels.coo import Block
from sparrow.plan import Node, Scan
from sparrow.plan.estimates import estimate_nnz
from sparrow.relations.memory import MemoryRelation
from sparrow.runtime import memory
from sparrow.runtime.events import emit

__all__ = ["start_from_kept"]


def start_from_kept(scans: Sequence[Scan], evaluate: Callable[[Scan], Block]) -> Sequence[Scan]:
    """Return scans of equal elements whose plans are not deep.

    They start from kept results, which are computed if they are not kept yet. Results that are not small are part of
    the plans, as they were.

    Parameters
    ----------
    evaluate
        Function that returns the elements of a scan.
    """
    every = tuning().kept_depth
    if all(not isinstance(scan.source, Node) or scan.source.depth < every for scan in scans):
        return scans
    now: dict[Node, Node | MemoryRelation] = {}
    rows: dict[Hashable, float] = {}

    def replace(below: Sequence[Scan]) -> list[Scan]:
        return [
            Scan(now[scan.source], scan.view, scan.schema) if isinstance(scan.source, Node) else scan for scan in below
        ]

    waiting = [(scan.source, False) for scan in scans if isinstance(scan.source, Node)]
    while waiting:
        node, is_done = waiting.pop()
        if node in now:
            continue
        kept = _kept.get(node) if node.depth % every == 0 else None
        if kept is not None:
            now[node] = kept
        elif not is_done:
            waiting.append((node, True))
            waiting.extend((scan.source, False) for scan in node.scans if isinstance(scan.source, Node))
        else:
            below = replace(node.scans)
            for scan in below:
                if isinstance(scan.source, Node) or scan.source.token in rows:
                    continue
                rows[scan.source.token] = estimate_nnz(scan)
            changed = any(one.source is not other.source for one, other in zip(below, node.scans, strict=True))
            found = node.with_inputs(below) if changed else node
            now[node] = found
            if node.depth % every == 0 and not node.is_dense and _is_small(found, sum(rows.values())):
                now[node] = _kept.add(node, evaluate(_scan(found)))
    return replace(scans)


def _scan(node: Node) -> Scan:
    return Scan(node, View.identity(node.schema.shape), node.schema)


def _is_small(node: Node, rows: float) -> bool:
    """Return whether a result is small beside the elements that are read for it."""
    limits, nnz = tuning(), estimate_nnz(_scan(node))
    if nnz > max(limits.kept_elements, rows / limits.kept_ratio):
        return False
    return nnz * node.schema.element_bytes() <= memory.share(limits.kept_parts)


class _KeptResults:
    """Results by node; the least recently used are dropped first."""

    def __init__(self) -> None:
        self._kept: weakref.WeakKeyDictionary[Node, tuple[MemoryRelation, memory.Reservation]]
        self._kept = weakref.WeakKeyDictionary()
        self._lock = threading.RLock()  # garbage collection may end a reservation while it is held

    def get(self, node: Node) -> MemoryRelation | None:
        """Return the result of a node, None if it is not kept."""
        with self._lock:
            found = self._kept.pop(node, None)
            if found is None:
                return None
            self._kept[node] = found  # the last one that is dropped
            return found[0]

    def add(self, node: Node, block: Block) -> MemoryRelation:
        """Keep the elements of a node; drop others that exceed the budget."""
        relation = MemoryRelation(node.schema, block)
        room = memory.Reservation("results of expressions", "")
        emit("engines.keep_result", node=node, nnz=block.count)
        with self._lock:
            self._drop(self._nbytes + relation.nbytes - memory.share(tuning().kept_parts))
            room.resize(relation.nbytes)
            self._kept[node] = relation, room
        return relation

    def evict(self, nbytes: int) -> bool:
        """Drop at least ``nbytes``, or nothing; return whether it did."""
        with self._lock:
            if self._nbytes < nbytes:
                return False
            self._drop(nbytes)
            return True

    @property
    def _nbytes(self) -> int:
        return sum(room.nbytes for _, room in list(self._kept.values()))

    def _drop(self, nbytes: int) -> None:
        """Drop at least ``nbytes``, or all."""
        for node, (_, room) in list(self._kept.items()):
            if nbytes <= 0:
                break
            nbytes -= room.nbytes
            room.release()
            self._kept.pop(node, None)


_kept = _KeptResults()
memory.add_cache(_kept.evict)
