"""Lower a plan to physical operators, bottom-up and without recursion.

:data:`BUILDERS` maps kinds of nodes to operators. Relations that several operators read are cached. Nodes that would
still be computed again and again, and every ``max_pipeline_depth``-th of nested operators, are materialized.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from sparrow.core.indexing import View
from sparrow.engines.stream.batched import BatchedOp, has_large_slices
from sparrow.engines.stream.cache import Cache, CachedRelation, cache_bytes
from sparrow.engines.stream.elementwise.fusion import FusedKernel, fuse_maps
from sparrow.engines.stream.elementwise.map import build_map
from sparrow.engines.stream.materialize import materialize
from sparrow.engines.stream.operator import PhysicalOperator
from sparrow.engines.stream.product.operands import divide_memory
from sparrow.engines.stream.product.product import lower_contraction
from sparrow.engines.stream.reductions import build_reductions, group_by_scan
from sparrow.engines.stream.repeats import split_repeats
from sparrow.engines.stream.structural import (
    ConcatOp,
    DiagonalOp,
    FillOp,
    ReshapeOp,
    SortOp,
    TopKOp,
    TriangleOp,
    ViewOp,
)
from sparrow.engines.stream.tuning import tuning
from sparrow.errors import UnsupportedError
from sparrow.plan import (
    Concat,
    Contraction,
    Diagonal,
    Map,
    Node,
    Reduce,
    Reshape,
    Scan,
    Sort,
    TopK,
    Triangle,
    WithFill,
    is_elementwise,
    nodes_below,
    optimize_plan,
)
from sparrow.relations.memory import MemoryRelation
from sparrow.relations.protocol import Relation

__all__ = ["BUILDERS", "lower"]

BUILDERS: dict[type[Node], Callable[..., PhysicalOperator]] = {
    Concat: ConcatOp,
    Contraction: lower_contraction,
    Reshape: ReshapeOp,
    Triangle: TriangleOp,
    Diagonal: DiagonalOp,
    Sort: SortOp,
    TopK: TopKOp,
    WithFill: FillOp,
}
"""Operator of each kind of node, made of the node and its scans. ``Map`` and ``Reduce`` are missing: :class:`_Lowering`
fuses several of them into one operator."""


def lower(scans: Sequence[Scan]) -> list[Scan]:
    """Lower plans to scans of relations whose elements are computed on read.

    Parameters
    ----------
    scans
        Roots of the plans. Chunks that several operators or roots read are cached.

    Raises
    ------
    UnsupportedError
        If a node has no operator.
    """
    if len(scans) == 1:
        scan = scans[0]
        if not isinstance(scan.source, Node):
            return [split_repeats(scan)]
        children = _children_of_single(scan)
        if children:
            node = scan.source
            children = list(map(split_repeats, children))
            if has_large_slices(node, children):
                return [Scan(BatchedOp(node, node, children, _lower_slice), scan.view, scan.schema)]
            return [Scan(_build(node, children), scan.view, scan.schema)]
    if not any(isinstance(scan.source, Node) for scan in scans):
        if not scans:
            return []
        steps: list[Node] = []
    else:
        scans = optimize_plan(scans)
        steps = nodes_below(scans)
    with divide_memory(sum(isinstance(step, Contraction) for step in steps)):
        return _Lowering(steps, scans).scans


def _children_of_single(scan: Scan) -> Sequence[Scan]:
    """Return the children of a plan of one node over relations, else nothing.

    Such a plan has nothing to rewrite, fuse or share.
    """
    if not scan.view.is_identity or not scan.view.size:
        return ()
    node: Any = scan.source
    if isinstance(node, Contraction) and is_elementwise(node):
        return ()
    children: Sequence[Scan] = node.scans
    for below in children:
        if isinstance(below.source, Node) or not below.view.size:
            return ()
    if type(node) is Concat:
        stored = [below.source.token for below in children if below.is_stored]
        return () if len(set(stored)) < len(stored) else children
    return children


def _build(node: Node, scans: Sequence[Scan]) -> PhysicalOperator:
    """Return the operator of one node."""
    build = BUILDERS.get(type(node))
    if build is not None:
        return build(node, *scans)
    if isinstance(node, Map):
        kernel = FusedKernel([node])
        return build_map(kernel, list(map(split_repeats, kernel.scans)))
    if isinstance(node, Reduce):
        return build_reductions([node], scans[0])[0]
    raise UnsupportedError(f"engine='stream' has no implementation of the step {type(node).__name__}")


def _lower_slice(node: Node) -> Scan:
    """Return the scan of all of a relation that has the elements of a node."""
    everything = View.identity(node.schema.shape)
    (found,) = lower([Scan(node, everything, node.schema)])
    return found if found.view.is_identity else Scan(ViewOp(node, found), everything, node.schema)


class _Lowering:
    """The relations of the nodes of a plan."""

    def __init__(self, steps: list[Node], roots: Sequence[Scan]) -> None:
        self._relations: dict[Hashable, Relation] = {}
        self._depth: dict[Hashable, int] = {}
        programs = fuse_maps(steps, roots)
        groups = group_by_scan(steps)
        kernels = {node: FusedKernel(calls) for node, calls in programs.items()}
        group_of = {node: group for group in groups for node in group}
        fused_away = {call for calls in programs.values() for call in calls[:-1]}
        inputs: dict[Node, Sequence[Scan]] = {}
        for step in steps:
            if step not in fused_away and (not isinstance(step, Reduce) or group_of[step][0] is step):
                inputs[step] = kernels[step].scans if isinstance(step, Map) else step.scans
        self._uses = _count_uses(inputs, roots)
        self._kept = _find_repeated(inputs, roots, self._uses)
        self._cache = Cache(cache_bytes())
        for step in steps:
            if step in fused_away or step in self._depth:
                continue
            below = kernels[step].scans if isinstance(step, Map) else step.scans
            scans = self._lower_scans(below)
            if has_large_slices(step, scans):
                calls = programs[step] if isinstance(step, Map) else [step]
                lowered = _replace_inputs(calls, below, scans)
                self._add(step, BatchedOp(step, lowered, scans, _lower_slice), below)
            elif isinstance(step, Map):
                self._add(step, build_map(kernels[step], scans), below)
            elif isinstance(step, Reduce):
                group = group_of[step]
                (scan,) = scans
                for node, operator in zip(group, build_reductions(group, scan), strict=True):
                    self._add(node, operator, node.scans)
            else:
                self._add(step, _build(step, scans), below)
        self.scans = self._lower_scans(roots)

    def _add(self, step: Node, operator: PhysicalOperator, below: Sequence[Scan]) -> None:
        depth = 1 + max((self._depth.get(scan.source.token, 0) for scan in below), default=0)
        relation: Relation = operator
        if depth > tuning().max_pipeline_depth or step in self._kept:
            relation, depth = materialize(operator), 0
        elif self._uses[step] > 1:
            relation = CachedRelation(operator, self._cache)
        self._relations[step], self._depth[step] = relation, depth

    def _lower_scans(self, scans: Sequence[Scan]) -> list[Scan]:
        """Return scans of the relations of their sources."""
        return [split_repeats(Scan(self._relation(scan), scan.view, scan.schema)) for scan in scans]

    def _relation(self, scan: Scan) -> Relation:
        source: Any = scan.source
        token = scan.source.token
        if token not in self._relations:
            is_shared = self._uses[token] > 1 and not isinstance(source, MemoryRelation)
            self._relations[token] = CachedRelation(source, self._cache) if is_shared else source
        return self._relations[token]


def _replace_inputs(calls: Sequence[Node], inputs: Sequence[Scan], others: Sequence[Scan]) -> Node:
    """Return the last of some nodes on other scans of equal schemas.

    Parameters
    ----------
    calls
        Nodes in topological order, each an operand of a later one.
    inputs, others
        The scans that they take, apart from each other, and those to take instead.
    """
    by_input = {(scan.source.token, scan.view): other for scan, other in zip(inputs, others, strict=True)}
    now: dict[Node, Node] = {}
    for call in calls:
        scans = [
            Scan(now[scan.source], scan.view, scan.schema)
            if scan.source in now
            else by_input[scan.source.token, scan.view]
            for scan in call.scans
        ]
        now[call] = call.with_inputs(scans)
    return now[calls[-1]]


def _count_uses(inputs: Mapping[Node, Sequence[Scan]], roots: Sequence[Scan]) -> Counter[Hashable]:
    """Count the reads of each source if nothing is shared, by token.

    An operator that reads files through several views, other than one that joins them, reads them once: its views
    overlap little, and files are cheap to read beside results.
    """
    uses: Counter[Hashable] = Counter(scan.source.token for scan in roots)
    for node, scans in inputs.items():
        computed = [scan.source.token for scan in scans if isinstance(scan.source, Node) or isinstance(node, Concat)]
        uses.update(computed)
        uses.update({scan.source.token for scan in scans}.difference(computed))
    return uses


def _find_repeated(
    inputs: dict[Node, Sequence[Scan]], roots: Sequence[Scan], uses: Mapping[Hashable, int]
) -> set[Node]:
    """Return nodes to materialize, which would be computed again and again.

    The cache of shared results forgets those that do not fit. A node would then be computed as often as the nodes that
    read it together, and so on: a number that is exponential in the depth of a plan, unless some results are kept.
    """
    times: Counter[Hashable] = Counter(scan.source.token for scan in roots)
    kept: set[Node] = set()
    for node in reversed(inputs):  # users come before operands
        if times[node] > max(uses[node], tuning().max_recomputations):
            kept.add(node)
            times[node] = 1
        for scan in inputs[node]:
            times[scan.source.token] += 1 if isinstance(node, Reduce) else times[node]  # groups are cached
    return kept
