"""Tasks of reductions, and of contractions with arrays."""

from __future__ import annotations

from collections.abc import Sequence

from sparrow.core.indexing import RangeAxis
from sparrow.engines.cluster.cutting import count_tasks, cut_chunks, share_of_result
from sparrow.engines.cluster.schedulers import Scheduler
from sparrow.engines.cluster.tasks import Groups, States, chunk_checksum
from sparrow.engines.cluster.tuning import tuning
from sparrow.engines.sort_orders import groups_output, product_order
from sparrow.engines.stream import lower
from sparrow.engines.stream.capabilities import SumPushdown
from sparrow.engines.stream.groupby import GroupBy, lane_bounds
from sparrow.engines.stream.marginals import find_marginal_sums
from sparrow.engines.stream.operator import PhysicalOperator
from sparrow.engines.stream.reductions import FusedReductions, GroupByOp
from sparrow.plan import Contraction, Dense, Reduce, Scan
from sparrow.relations.memory import MemoryRelation
from sparrow.relations.protocol import Relation, base_orders
from sparrow.storage import Snapshot

__all__ = ["cut_groups", "cut_totals", "find_output_axis", "summed_axes"]


def cut_groups(relation: Relation, scheduler: Scheduler) -> tuple[GroupBy | None, Groups | None, list[int]]:
    """Return the groups of a reduction, and the tasks that add up its chunks.

    A task adds up a lane of chunks, as a thread of the stream engine does; any chunks where bits do not depend on it.
    """
    groups = relation.groups if isinstance(relation, GroupByOp) else None
    if groups is None or not isinstance(groups.scan.relation, PhysicalOperator | MemoryRelation | Snapshot):
        return None, None, []
    found = groups.dense_chunks()
    if found is None or tuning().merge_copies * groups.dense_bytes > scheduler.memory_limit:
        return None, None, []
    chunks, lanes = found
    if lanes == len(chunks):
        bounds = cut_chunks([chunk.rows for chunk in chunks], scheduler.slots)
    else:
        bounds = lane_bounds(len(chunks), lanes)
    if len(bounds) < 3 or count_tasks(sum(chunk.rows for chunk in chunks), scheduler.slots) < 2:
        return None, None, []
    source = groups.scan.relation
    partitions = tuple(source.bounds) if isinstance(source, PhysicalOperator) else None
    return groups, Groups(partitions, chunk_checksum(chunks), share_of_result(len(bounds) - 1)), bounds


def cut_totals(nodes: Sequence[Reduce], slots: int) -> tuple[FusedReductions, States | None, list[int]]:
    """Return reductions over all axes, and the tasks that aggregate their chunks."""
    (scan,) = lower([nodes[0].scans[0]])
    reductions = FusedReductions(nodes, scan)
    chunks = None if _is_pushed_down(nodes, scan) else reductions.groups.scalar_chunks()
    if chunks is None:
        return reductions, None, []
    bounds = cut_chunks([chunk.rows for chunk in chunks], slots)
    partitions = tuple(scan.relation.bounds) if isinstance(scan.relation, PhysicalOperator) else None
    return reductions, States(partitions, chunk_checksum(chunks)) if len(bounds) > 2 else None, bounds


def _is_pushed_down(nodes: Sequence[Reduce], scan: Scan) -> bool:
    """Return whether the stream engine has a sum without its elements."""
    if len(nodes) > 1:
        return False
    return isinstance(scan.relation, SumPushdown) or find_marginal_sums(nodes[0], scan) is not None


def summed_axes(node: Contraction) -> list[int]:
    """Return the axes of the tensor that are summed.

    None of floats, whose sums depend on the cut.
    """
    if len(node.scans) != 1 or node.mask is not None or not node.semiring.plain or node.schema.dtype.kind not in "iu":
        return []
    (scan,) = node.scans
    own = next(indices for each, indices in zip(node.operands, node.indices, strict=True) if isinstance(each, Scan))
    if len(set(own)) < len(own) or scan.schema.fill_value != 0:
        return []
    return [axis for axis, index in enumerate(own) if index not in node.output_indices]


def find_output_axis(node: Contraction) -> tuple[int, int] | None:
    """Return the axis of the tensor that is cut, and the same axis of the result.

    Rows of the result along that axis are sums of adjacent elements, so that cuts do not change the order of additions.
    """
    if len(node.scans) != 1 or node.mask is not None:
        return None
    (scan,) = node.scans
    own = next(indices for each, indices in zip(node.operands, node.indices, strict=True) if isinstance(each, Scan))
    others = [
        set(indices) for each, indices in zip(node.operands, node.indices, strict=True) if isinstance(each, Dense)
    ]
    kept = tuple(own.index(index) for index in own if index in node.output_indices)
    if len(set(own)) < len(own) or not kept:
        return None
    order = base_orders(len(scan.source.schema.shape))[0] if scan.step is not None else product_order(scan, kept)
    if not groups_output(scan.view, order, kept):
        return None
    fixed = {dim for dim, _ in scan.view.fixed}
    leading = next(dim for dim in order if dim not in fixed)
    for axis in kept:
        view_axis = scan.view.axes[axis]
        if isinstance(view_axis, RangeAxis) and view_axis.dim == leading:
            if any(own[axis] in indices for indices in others):
                return None
            return axis, node.output_indices.index(own[axis])
    return None
