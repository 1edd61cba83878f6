"""Small results in the middle of deep plans, kept for later evaluations.

A loop such as ``y = A @ x; x = y / y.max()`` makes a plan that is deeper in each step, and evaluates it in each step.
If nothing were kept, ``n`` steps would compute ``n * n / 2`` products. So every ``kept_depth``-th node of a deep plan
is evaluated by itself, if its result is small, and kept as long as the node exists and there is room: later
evaluations start from it. A result that turns out not to be small is dropped at once. Which nodes these are depends on
the plan only, not on what was evaluated before, and so do the bits.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable, Hashable, Sequence

from sparrow.core.indexing import View
from sparrow.engines.tuning import tuning
from sparrow.errors import TooLargeError
from sparrow.kernels.coo import Block
from sparrow.plan import Map, Node, Scan
from sparrow.plan.estimates import CostModel, estimate_nnz
from sparrow.relations.memory import MemoryRelation
from sparrow.runtime import memory
from sparrow.runtime.events import emit

__all__ = ["start_from_kept"]


def start_from_kept(scans: Sequence[Scan], evaluate: Callable[[Scan, int], Block | None]) -> Sequence[Scan]:
    """Return scans of equal elements whose plans are not deep.

    They start from kept results, which are computed if they are not kept yet. Results that are not small are part of
    the plans, as they were.

    Parameters
    ----------
    evaluate
        Function of a scan and a number that returns its elements, None if they are more.
    """
    every = tuning().kept_depth
    if all(not isinstance(scan.source, Node) or scan.source.depth < every for scan in scans):
        return scans
    now: dict[Node, Node | MemoryRelation] = {}
    rows: dict[Hashable, float] = {}
    read: dict[Node, frozenset[Hashable]] = {}  # tokens of the relations below a node, and of large results

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
            tokens: set[Hashable] = set()
            for scan in below:
                if isinstance(scan.source, Node):
                    tokens |= read[scan.source]
                    continue
                tokens.add(scan.source.token)
                if scan.source.token not in rows:
                    rows[scan.source.token] = estimate_nnz(scan)
            changed = any(one.source is not other.source for one, other in zip(below, node.scans, strict=True))
            found = node.with_inputs(below) if changed else node
            now[node] = found
            read[found] = frozenset(tokens)
            if node.depth % every or node.is_dense:
                continue
            if not _kept.is_large(node):
                most = _most_elements(found, sum(rows[token] for token in tokens))
                block = _evaluate_small(_scan(found), most, evaluate)
                if block is not None:
                    now[node] = _kept.add(node, block)
                    continue
                _kept.note_large(node)
            # What is above reads as much as this reads of one relation. A union of all would grow with the plan.
            rows[found] = max((rows[token] for token in tokens), default=0.0)
            read[found] = frozenset([found])
    return replace(scans)


def _scan(node: Node) -> Scan:
    return Scan(node, View.identity(node.schema.shape), node.schema)


def _most_elements(node: Node, rows: float) -> int:
    """Return the most elements of a result that is small.

    Parameters
    ----------
    rows
        Elements that are read for it.
    """
    limits = tuning()
    fit = memory.limit() // limits.kept_parts // node.schema.element_bytes()
    return int(min(max(limits.kept_elements, rows / limits.kept_ratio), fit))


def _evaluate_small(scan: Scan, most: int, evaluate: Callable[[Scan, int], Block | None]) -> Block | None:
    """Return the elements of a scan, None if they may be more than a number."""
    if _RepeatsModel().nnz(scan) > most:
        return None
    try:
        return evaluate(scan, most)
    except TooLargeError:  # it may fit in its place in the plan, such as a product that a mask follows
        return None


class _RepeatsModel(CostModel):
    """Estimates that count elements as often as broadcasting and lists repeat them."""

    __slots__ = ()

    def below(self) -> CostModel:
        """Return the model of the operands of a node, which looks through one node fewer."""
        return _RepeatsModel(self.depth - 1)

    def nnz(self, scan: Scan) -> float:
        """Return the estimated number of stored elements of a scan; at most its size."""
        size, node, view = float(scan.schema.size), scan.step, scan.view
        if isinstance(node, Map) and any(node.required) and self.depth > 0 and node.known_nnz is None:
            needed = [one for one, needs in zip(node.scans, node.required, strict=True) if needs]
            found = min(map(self.below().nnz, needed))
        else:
            found = super().nnz(scan)
        times = max(view.repeats, 1) * math.prod(
            min(group.max_repeats, group.count / max(len(group.distinct[0]), 1)) if group.dims else group.count
            for group in view.points
        )
        return min(found * times, size)


class _KeptResults:
    """Results by node; the least recently used are dropped first."""

    def __init__(self) -> None:
        self._kept: weakref.WeakKeyDictionary[Node, tuple[MemoryRelation, memory.Reservation]]
        self._kept = weakref.WeakKeyDictionary()
        self._large: weakref.WeakSet[Node] = weakref.WeakSet()
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

    def is_large(self, node: Node) -> bool:
        """Return whether the result of a node turned out not to be small."""
        with self._lock:
            return node in self._large

    def note_large(self, node: Node) -> None:
        """Remember that the result of a node is not small."""
        with self._lock:
            self._large.add(node)

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
