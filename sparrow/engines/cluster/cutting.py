"""Ranges of the leading axis of a plan, of about equal work."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from sparrow.core.indexing import RangeAxis
from sparrow.engines.cluster.tuning import tuning
from sparrow.engines.round_profile import PlannedRound
from sparrow.engines.sort_orders import scan_order
from sparrow.engines.stream.partitioning import partition_bounds
from sparrow.plan import Contraction, Scan, nodes_below, optimize_plan
from sparrow.plan.estimates import estimate_contraction
from sparrow.storage import Snapshot

__all__ = [
    "Cut",
    "count_tasks",
    "cut_chunks",
    "cut_rows",
    "lead_with",
    "orders_of_leaves",
    "plan_chunks",
    "share_of_result",
    "widen_ranges",
]


@dataclass(frozen=True, slots=True)
class Cut:
    """Bounds of the tasks of a round, or the reason for having none."""

    bounds: tuple[int, ...] = ()
    """Ascending, from 0 to the length of the axis."""
    reason: str = ""
    """Why there are no tasks; empty if there are."""
    elements: float = 0
    """Estimated elements and products of all tasks."""
    nbytes: int = 0
    """Bytes that the tasks read of files and arrays, if each reads its range."""
    reads_all: bool = False
    """True if the reason is that each task would read all of the largest input."""

    def plan(self, work: str) -> PlannedRound:
        """Return the estimates of its round."""
        return PlannedRound(work, len(self.bounds) - 1, self.elements, self.nbytes)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A scan of a relation at the bottom of a plan."""

    scan: Scan
    rows: int
    nbytes: int


def _leaves(scan: Scan) -> list[_Leaf]:
    """Return the scans of relations of an optimized plan. Reads footers."""
    (root,) = optimize_plan([scan])
    out = []
    for each in (root, *(below for node in nodes_below([root]) for below in node.scans)):
        if each.step is None and each.view.size:
            stats = each.relation.stats(each.view.box(), scan_order(each))
            out.append(_Leaf(each, stats.rows * max(each.view.repeats, 1), stats.nbytes))
    return out


def count_tasks(elements: float, slots: int) -> int:
    """Return the number of tasks for work, 1 if it is too little for two."""
    limits = tuning()
    return max(min(limits.tasks_per_slot * slots, int(elements // limits.min_task_elements)), 1)


def share_of_result(tasks: int) -> int:
    """Return the bytes of the result of a task that travel through the scheduler."""
    return tuning().result_bytes // tasks


def lead_with(scan: Scan, axis: int) -> Scan:
    """Return a scan with an axis first."""
    return scan.then(scan.view.permute((axis, *(k for k in range(scan.view.ndim) if k != axis))))


def cut_rows(scan: Scan, slots: int) -> Cut:
    """Cut a scan along its leading axis, by the elements of its largest input.

    Reads the log and footers, no data. The bounds decide which task computes a row, not how: they do not change bits.

    Parameters
    ----------
    slots
        Tasks that run at the same time.
    """
    if not scan.view.ndim or scan.view.shape[0] < 4:
        return Cut(reason="the result has fewer than four rows")
    size, middle = scan.view.shape[0], scan.view.shape[0] // 2
    leaves = _leaves(scan)
    (root,) = optimize_plan([scan])
    products = sum(estimate_contraction(node)[0] for node in nodes_below([root]) if isinstance(node, Contraction))
    elements, nbytes = sum(leaf.rows for leaf in leaves) + products, sum(leaf.nbytes for leaf in leaves)
    count = min(count_tasks(elements, slots), size)
    if count < 2:
        return Cut(reason=f"{elements:.3g} elements are too few for two tasks", elements=elements)
    halves = [_leaves(scan.then(scan.view.then((slice(*ends),)))) for ends in ((0, middle), (middle, size))]
    parts = [_by_token(half) for half in halves]
    most = max((leaf.rows for leaf in leaves), default=0)
    divided = [
        leaf for leaf in leaves if 2 * leaf.rows >= most
        and _rows_read(parts, leaf.scan.source.token) <= tuning().max_read_ratio * max(leaf.rows, 1)
    ]  # fmt: skip
    if not divided:
        return Cut(
            reason="each task would read all of the largest input; add_order() sorts a stored one by another dimension",
            elements=elements,
            reads_all=True,
        )
    bounds = None
    for leaf in sorted(divided, key=lambda leaf: -leaf.rows):
        bounds = bounds or _bounds_of_leaf(leaf, halves[0], size, middle, count)
    bounds = bounds or [size * number // count for number in range(count + 1)]
    return Cut(tuple(bounds), "", elements, nbytes)


def widen_ranges(bounds: Sequence[int]) -> tuple[int, ...]:
    """Return bounds without ranges of a single row, which are merged with a neighbor.

    A reversed axis of length 1 has no direction, so that the stream engine would read it in other chunks.
    """
    out = [bounds[0]]
    for at in bounds[1:-1]:
        if at - out[-1] > 1 and bounds[-1] - at > 1:
            out.append(at)
    return (*out, bounds[-1])


def _by_token(leaves: list[_Leaf]) -> dict[Hashable, int]:
    """Return the fewest rows that a scan reads of each relation."""
    found: dict[Hashable, int] = {}
    for leaf in leaves:
        token = leaf.scan.source.token
        found[token] = min(found.get(token, leaf.rows), leaf.rows)
    return found


def _rows_read(parts: list[dict[Hashable, int]], token: Hashable) -> int:
    return sum(part.get(token, 0) for part in parts)


def orders_of_leaves(scan: Scan) -> list[tuple[Scan, tuple[int, ...]]]:
    """Return the large stored inputs that tasks do not divide, with an order.

    In that order they would. Inputs that do not get shorter with the leading axis have none, such as a right operand.
    """
    size, middle = scan.view.shape[0], scan.view.shape[0] // 2
    leaves = _leaves(scan)
    first_half = _leaves(scan.then(scan.view.then((slice(0, middle),))))
    most = max((leaf.rows for leaf in leaves), default=0)
    found = []
    for leaf in leaves:
        axis = _divided_axis(leaf, first_half, size, middle)
        if 2 * leaf.rows < most or axis is None or not isinstance(leaf.scan.relation, Snapshot):
            continue
        along = leaf.scan.view.axes[axis]
        assert isinstance(along, RangeAxis)
        fixed = {dim for dim, _ in leaf.scan.view.fixed}
        ndim = len(leaf.scan.view.base_shape)
        if all(next(dim for dim in order if dim not in fixed) != along.dim for order in leaf.scan.relation.orders):
            found.append((leaf.scan, (along.dim, *(dim for dim in range(ndim) if dim != along.dim))))
    return found


def _bounds_of_leaf(leaf: _Leaf, first_half: list[_Leaf], size: int, middle: int, count: int) -> list[int] | None:
    """Return bounds by the chunks of a scan, None if the plan does not lead with it."""
    axis = _divided_axis(leaf, first_half, size, middle)
    if axis is None:
        return None
    found = partition_bounds([lead_with(leaf.scan, axis)], size, rows=math.ceil(leaf.rows / count))
    return found if len(found) > 2 else None


def _divided_axis(leaf: _Leaf, first_half: list[_Leaf], size: int, middle: int) -> int | None:
    """Return the axis of a leaf that leads the plan, None without one."""
    view = leaf.scan.view
    for other in first_half:
        own = other.scan.view
        if other.scan.source.token != leaf.scan.source.token or own.ndim != view.ndim or own.fixed != view.fixed:
            continue
        changed = [k for k, (a, b) in enumerate(zip(view.axes, own.axes, strict=True)) if a != b]
        if len(changed) != 1:
            continue
        axis = view.axes[changed[0]]
        if isinstance(axis, RangeAxis) and axis.length == size and own.axes[changed[0]] == replace(axis, length=middle):
            return changed[0]
    return None


def plan_chunks(scan: Scan, tasks: int) -> PlannedRound:
    """Return the estimates of a round that aggregates all of a scan."""
    leaves = _leaves(scan)
    return PlannedRound("states", tasks, sum(leaf.rows for leaf in leaves), sum(leaf.nbytes for leaf in leaves))


def cut_chunks(rows: list[int], slots: int, least: int = 1) -> list[int]:
    """Return bounds of consecutive chunks of about equal numbers of rows.

    Parameters
    ----------
    slots
        Tasks that run at the same time.
    least
        Least number of tasks.
    """
    total = sum(rows)
    count, bounds, gathered = min(max(count_tasks(total, slots), least), len(rows)), [0], 0
    for number, each in enumerate(rows[:-1], 1):
        gathered += each
        if gathered * count >= total * len(bounds):
            bounds.append(number)
    return [*bounds, len(rows)]
