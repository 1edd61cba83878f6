"""Lower a plan to physical operators, bottom-up and without recursion.

:data:`BUILDERS` maps kinds of nodes to operators. Relations that several operators read are cached. Plans deeper than
``max_pipeline_depth`` operators are materialized in between, so that no plan is too deep.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from sparrow.core.indexing import View
from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.batched import BatchedOp, has_large_slices
from sparrow.engines.stream.cache import Cache, CachedRelation, cache_bytes
from sparrow.engines.stream.elementwise.fusion import FusedKernel, fuse_maps
from sparrow.engines.stream.elementwise.map import build_map
from sparrow.engines.stream.operator import PhysicalOperator
from sparrow.engines.stream.product.chain import lower_contraction
from sparrow.engines.stream.reductions import build_reductions, group_by_scan
from sparrow.engines.stream.structural import ConcatOp, DiagonalOp, FillOp, ReshapeOp, SortOp, TriangleOp, ViewOp
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
    Triangle,
    WithFill,
    as_elementwise,
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
    WithFill: FillOp,
}
"""Operator of each kind of node, made of the node and its scans. ``Map`` and ``Reduce`` are missing: :class:`_Lowering`
fuses several of them into one operator."""


def lower(scans: Sequence[Scan], share: bool = True) -> list[Scan]:
    """Lower plans to scans of relations whose elements are computed on read.

    Parameters
    ----------
    scans
        Roots of the plans.
    share
        Whether chunks that several operators or roots read are cached.

    Raises
    ------
    UnsupportedError
        If a node has no operator.
    """
    if len(scans) == 1:
        scan = scans[0]
        if not isinstance(scan.source, Node):
            return [scan]
        children = _children_of_single(scan)
        if children:
            node = scan.source
            return [Scan(_build_batched(node, children) or _build(node, children), scan.view, scan.schema)]
    if not any(isinstance(scan.source, Node) for scan in scans):
        if not share or not scans:
            return list(scans)
        steps: list[Node] = []
    else:
        scans = optimize_plan(scans)
        steps = nodes_below(scans)
    return _Lowering(steps, scans, share).scans


def _children_of_single(scan: Scan) -> Sequence[Scan]:
    """Return the children of a plan of one node over relations, else nothing.

    Such a plan has nothing to rewrite, fuse or share.
    """
    if not scan.view.is_identity or not scan.view.size:
        return ()
    node: Any = scan.source
    if isinstance(node, Contraction) and as_elementwise(node) is not None:
        return ()
    children: Sequence[Scan] = node.scans
    for below in children:
        if isinstance(below.source, Node) or not below.view.size:
            return ()
    return children


def _build(node: Node, scans: Sequence[Scan]) -> PhysicalOperator:
    """Return the operator of one node."""
    build = BUILDERS.get(type(node))
    if build is not None:
        return build(node, *scans)
    if isinstance(node, Map):
        kernel = FusedKernel([node])
        return build_map(kernel, kernel.scans)
    if isinstance(node, Reduce):
        return build_reductions([node], scans[0])[0]
    raise UnsupportedError(f"engine='stream' has no implementation of the step {type(node).__name__}")


def _build_batched(node: Node, scans: Sequence[Scan]) -> BatchedOp | None:
    """Return the slice-by-slice operator of a node, None unless slices are large."""
    return BatchedOp(node, scans, _lower_slice) if has_large_slices(node, scans) else None


def _lower_slice(node: Node) -> Scan:
    """Return the scan of all of a relation that has the elements of a node."""
    everything = View.identity(node.schema.shape)
    (found,) = lower([Scan(node, everything, node.schema)])
    return found if found.view.is_identity else Scan(ViewOp(node, found), everything, node.schema)


class _Lowering:
    """The relations of the nodes of a plan."""

    def __init__(self, steps: list[Node], roots: Sequence[Scan], share: bool) -> None:
        self._relations: dict[Hashable, Relation] = {}
        self._depth: dict[Hashable, int] = {}
        programs = fuse_maps(steps, roots)
        groups = group_by_scan(steps)
        kernels = {node: FusedKernel(calls) for node, calls in programs.items()}
        group_of = {node: group for group in groups for node in group}
        fused_away = {call for calls in programs.values() for call in calls[:-1]}
        inputs: list[Sequence[Scan]] = [kernel.scans for kernel in kernels.values()]
        inputs += [group[0].scans for group in groups]
        inputs += [step.scans for step in steps if not isinstance(step, Map | Reduce)]
        inputs += [(scan,) for scan in roots]
        uses = Counter(token for scans in inputs for token in {scan.source.token for scan in scans})
        self._shared = {token for token, count in uses.items() if share and count > 1}
        self._cache = Cache(cache_bytes())
        for step in steps:
            if step in fused_away or step in self._relations:
                continue
            below = kernels[step].scans if isinstance(step, Map) else step.scans
            scans = self._lower_scans(below)
            batched = _build_batched(step, scans)
            if batched is not None:
                self._add(step, batched, below)
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
        if depth > tuning().max_pipeline_depth:
            everything = Scan(operator, View.identity(operator.schema.shape), operator.schema)
            relation, depth = MemoryRelation(operator.schema, scan_reader.read_block(everything)), 0
        elif step in self._shared:
            relation = CachedRelation(operator, self._cache)
        self._relations[step], self._depth[step] = relation, depth

    def _lower_scans(self, scans: Sequence[Scan]) -> list[Scan]:
        """Return scans of the relations of their sources."""
        return [Scan(self._relation(scan), scan.view, scan.schema) for scan in scans]

    def _relation(self, scan: Scan) -> Relation:
        source: Any = scan.source
        token = scan.source.token
        if token not in self._relations:
            is_shared = token in self._shared and not isinstance(source, MemoryRelation)
            self._relations[token] = CachedRelation(source, self._cache) if is_shared else source
        return self._relations[token]
