"""From a plan to relations that are read: each step by the function of its kind, in an order that needs no recursion.

:data:`BUILDERS` is the table from node kind to implementation. What several parts of a plan read is shared. Steps that
stand on very many others are computed bottom-up, at every so many levels into memory, so that depth never matters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from sparrow.core.indexing import View
from sparrow.engines.stream import fill, scan_reader, sort, structural
from sparrow.engines.stream.batched import BatchedOp, has_large_slices, shown
from sparrow.engines.stream.cache import Cache, CachedRelation, cache_bytes
from sparrow.engines.stream.elementwise.fusion import FusedKernel, fuse_maps
from sparrow.engines.stream.elementwise.map import build_map
from sparrow.engines.stream.operator import PhysicalOperator
from sparrow.engines.stream.product.chain import lower_product
from sparrow.engines.stream.reductions import group_by_scan, reduced_cells
from sparrow.errors import UnsupportedError
from sparrow.plan import (
    Concat,
    Diagonal,
    Map,
    Node,
    Product,
    Reduce,
    Reshape,
    Scan,
    Sort,
    Triangle,
    WithFill,
    nodes_below,
    optimize_plan,
)
from sparrow.relations.base import MemoryRelation, Relation

__all__ = ["BUILDERS", "lower"]

BUILDERS: dict[type[Node], Callable[..., PhysicalOperator]] = {
    Concat: structural.joined,
    Product: lower_product,
    Reshape: structural.reshaped,
    Triangle: structural.triangle,
    Diagonal: structural.diagonal,
    Sort: sort.sorted_lines,
    WithFill: fill.refilled,
}
"""What computes the entries of each kind of step, of the step and its scans; of ``Map`` and ``Reduce`` several are
computed in one go, which :class:`_Lowering` sees to."""

_DEEPEST = 24
"""Steps that are computed one inside the other."""


def lower(scans: Sequence[Scan], share: bool = True) -> list[Scan]:
    """Return scans of relations that hold the entries of a plan, computed when they are read.

    Parameters
    ----------
    scans
        What is wanted.
    share
        Whether what several steps or scans read is kept for the others while they run.
    """
    if len(scans) == 1:
        scan = scans[0]
        if not isinstance(scan.source, Node):
            return [scan]
        inputs = _inputs_of_one(scan)
        if inputs:
            return [Scan(_whole(scan.source, inputs) or _computed(scan.source, inputs), scan.view, scan.schema)]
    if not any(isinstance(scan.source, Node) for scan in scans):
        if not share or not scans:
            return list(scans)
        steps: list[Node] = []
    else:
        scans = optimize_plan(scans)
        steps = nodes_below(scans)
    return _Lowering(steps, scans, share).scans


def _inputs_of_one(scan: Scan) -> Sequence[Scan]:
    """Return the scans of a plan that is one step over relations, all of it wanted: nothing to rewrite, fuse or share.

    None of any other plan.
    """
    if not scan.view.is_identity or not scan.view.size:
        return ()
    inputs = scan.source.scans  # type: ignore[union-attr]
    for below in inputs:
        if isinstance(below.source, Node) or not below.view.size:
            return ()
    return inputs


def _computed(step: Node, scans: Sequence[Scan]) -> PhysicalOperator:
    """Return what computes the entries of a step by itself, of scans of relations.

    Raises
    ------
    UnsupportedError
        If nothing does.
    """
    build = BUILDERS.get(type(step))
    if build is not None:
        return build(step, *scans)
    if isinstance(step, Map):
        program = FusedKernel([step])
        return build_map(program, program.scans)
    if isinstance(step, Reduce):
        return reduced_cells([step], scans[0])[0]
    raise UnsupportedError(f"engine='stream' has no implementation of the step {type(step).__name__}")


def _whole(step: Node, scans: Sequence[Scan]) -> BatchedOp | None:
    """Return what computes the entries of a step slice by slice, None where its slices are no longer than pieces."""
    return BatchedOp(step, scans, _alone) if has_large_slices(step, scans) else None


def _alone(step: Node) -> Scan:
    """Return the scan of a relation that has the entries of a step."""
    (found,) = lower([Scan(step, View.identity(step.schema.shape), step.schema)])
    return found if found.view.is_identity else Scan(shown(step, found), View.identity(step.schema.shape), step.schema)


class _Lowering:
    """Relations for the steps of a plan."""

    def __init__(self, steps: list[Node], roots: Sequence[Scan], share: bool) -> None:
        self._made: dict[Hashable, Relation] = {}
        self._depth: dict[Hashable, int] = {}
        programs = fuse_maps(steps, roots)
        groups = group_by_scan(steps)
        ready = {node: FusedKernel(calls) for node, calls in programs.items()}
        together = {node: group for group in groups for node in group}
        inside = {call for calls in programs.values() for call in calls[:-1]}
        takes: list[Sequence[Scan]] = [program.scans for program in ready.values()]
        takes += [group[0].scans for group in groups]
        takes += [step.scans for step in steps if not isinstance(step, Map | Reduce)]
        takes += [(scan,) for scan in roots]
        uses = Counter(token for scans in takes for token in {scan.source.token for scan in scans})
        self._shared = {token for token, count in uses.items() if share and count > 1}
        self._cache = Cache(cache_bytes())
        for step in steps:
            if step in inside or step in self._made:
                continue
            below = ready[step].scans if isinstance(step, Map) else step.scans
            reads = self._on(below)
            sliced = _whole(step, reads)
            if sliced is not None:
                self._keep(step, sliced, below)
            elif isinstance(step, Map):
                self._keep(step, build_map(ready[step], reads), below)
            elif isinstance(step, Reduce):
                group = together[step]
                (scan,) = reads
                for node, computed in zip(group, reduced_cells(group, scan), strict=True):
                    self._keep(node, computed, node.scans)
            else:
                self._keep(step, _computed(step, reads), below)
        self.scans = self._on(roots)

    def _keep(self, step: Node, computed: PhysicalOperator, below: Sequence[Scan]) -> None:
        depth = 1 + max((self._depth.get(scan.source.token, 0) for scan in below), default=0)
        relation: Relation = computed
        if depth > _DEEPEST:
            whole = Scan(computed, View.identity(computed.schema.shape), computed.schema)
            relation, depth = MemoryRelation(computed.schema, scan_reader.read_block(whole)), 0
        elif step in self._shared:
            relation = CachedRelation(computed, self._cache)
        self._made[step], self._depth[step] = relation, depth

    def _on(self, scans: Sequence[Scan]) -> list[Scan]:
        """Return scans of the relations that were made for their sources."""
        return [Scan(self._source(scan), scan.view, scan.schema) for scan in scans]

    def _source(self, scan: Scan) -> Relation:
        source: Any = scan.source
        token = scan.source.token
        if token not in self._made:
            in_memory = isinstance(source, MemoryRelation)
            self._made[token] = (
                CachedRelation(source, self._cache) if token in self._shared and not in_memory else source
            )
        return self._made[token]
