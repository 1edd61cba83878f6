"""Partitions: ranges of rows with a target number of elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import ListAxis, RangeAxis
from sparrow.core.schema import Schema
from sparrow.engines.sort_orders import scan_order, sorted_order
from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.repeats import fits_in_memory
from sparrow.engines.stream.tuning import tuning
from sparrow.plan import Scan
from sparrow.relations.split import SplitRelation
from sparrow.runtime import memory

__all__ = ["cursor_strategy", "fits_one_partition", "is_large_slice", "partition_bounds", "range_slice"]


def partition_bounds(scans: Sequence[Scan], size: int, rows: int | None = None, growth: float = 1) -> list[int]:
    """Return bounds of partitions, from 0 to ``size``, along the leading axis.

    Bounds follow the chunks of scans whose leading axis is the leading dimension of a sort order; other scans divide
    the axis evenly. Reads footers, no data pages.

    Parameters
    ----------
    scans
        Scans with a leading axis of the same size.
    size
        Length of the leading axis.
    rows
        Target number of elements of a partition, by default one that fits the memory limit.
    growth
        Elements of the output per element of the scans.
    """
    rows = max(int((_target_rows(scans) if rows is None else rows) / growth), 1)
    if fits_one_partition(scans, rows):
        return [0, size] if size else [0]
    steps: list[tuple[int, int]] = []
    # Chunks of many scans may end at the same row, so that these are divided further.
    most = rows * min(tuning().rescan_factor / len(scans), 1)
    for scan in scans:
        axis = scan.view.axes[0]
        order = scan_order(scan)
        chunks = scan.relation.chunks(scan.view.box(), order)
        repeats = max(scan.view.repeats, 1)
        total = repeats * sum(chunk.rows for chunk in chunks)
        fixed = {dim for dim, _ in scan.view.fixed}
        if isinstance(axis, RangeAxis) and next(dim for dim in order if dim not in fixed) == axis.dim:
            for chunk in chunks:
                low, high = ((end[axis.dim] - axis.start) // axis.step for end in (chunk.low, chunk.high))
                low, high = min(max(min(low, high), 0), size), min(max(low, high) + 1, size)
                count = math.ceil(repeats * chunk.rows / most) if repeats > 1 or most < rows else 1
                count = min(count, max(high - low, 1))
                steps.extend(
                    (low + (high - low) * (k + 1) // count, repeats * chunk.rows // count) for k in range(count)
                )
        elif isinstance(axis, ListAxis) and (weights := _list_weights(scan)) is not None:
            ends = np.cumsum(weights)
            cuts = np.searchsorted(ends, np.arange(rows, float(ends[-1]), rows)) + 1
            steps.extend((int(at), rows) for at in np.unique(cuts))
            steps.append((size, rows))
        else:
            rows_each = rows if cursor_strategy(scan) else tuning().rescan_factor * rows
            count = min(-(-total // rows_each), size)
            steps.extend((size * (k + 1) // count, rows_each) for k in range(count))
    bounds, gathered = [0], 0
    least = rows - rows // 8  # a row group may be so much smaller, to end where a row does
    for at, count in sorted(steps):
        gathered += count
        if gathered >= least and bounds[-1] < at < size:
            bounds.append(at)
            gathered = 0
    return [*bounds, size] if size else [0]


def _list_weights(scan: Scan) -> NDArray[np.float64] | None:
    """Return the number of elements at each position of a split leading list.

    None for any other list.
    """
    relation, view = scan.relation, scan.view
    group = view.points[view.axes[0].group] if isinstance(view.axes[0], ListAxis) else None
    if not isinstance(relation, SplitRelation) or group is None or group.dims != (0,) or len(group.shape) > 1:
        return None
    others = math.prod(
        each.count / max(len(each.distinct[0]), 1) for each in view.points if each is not group and each.dims
    )
    return relation.row_lengths(group.coords[0]) * others * max(view.repeats, 1)


def _target_rows(scans: Sequence[Scan]) -> int:
    """Return the target number of elements of a partition under the memory limit."""
    parameters = tuning()
    width = parameters.partition_copies * max(scan.schema.element_bytes() for scan in scans)
    return min(parameters.partition_rows, max(memory.working_bytes() // width, parameters.min_partition_rows))


def fits_one_partition(scans: Sequence[Scan], rows: int | None = None) -> bool:
    """Return whether scans fit one partition of ``rows``. Reads no footers."""
    count = 0
    for scan in scans:
        relation, repeats = scan.relation, scan.view.repeats
        if not relation.has_exact_counts:
            return False
        count += relation.nnz * (repeats or 1)
    return count < (tuning().partition_rows if rows is None else rows)


def is_large_slice(rows: float, schema: Schema) -> bool:
    """Return whether a slice of ``rows`` elements exceeds a partition."""
    parameters = tuning()
    nbytes = rows * parameters.batch_copies * schema.element_bytes()
    return rows >= parameters.min_batch_elements and nbytes >= memory.working_bytes()


def cursor_strategy(scan: Scan) -> Literal["chunks", "kept", "repeated", "sorted", "spilled_sort"] | None:
    """Return the strategy of a cursor: what it keeps between partitions.

    None if it rescans the input for each of them.
    """
    view = scan.view
    if view.ndim and scan_reader.is_small(scan):
        return "sorted"
    parameters = tuning()
    if not view.ndim or not view.size:
        return None
    if view.repeats > parameters.rescan_factor:
        return "repeated" if fits_in_memory(scan) else None
    order = sorted_order(scan)
    if view.preserves_order(order):
        axis = view.axes[0]
        return "chunks" if isinstance(axis, RangeAxis) and axis.dim == order[0] else None
    if isinstance(scan.relation, SplitRelation):  # how many elements its lists show is not known exactly
        if scan_reader.is_row_list(scan):
            return None
        if fits_in_memory(Scan(scan.relation.relation, view, scan.schema)):
            return "kept"
        if scan_reader.is_sorted_list(scan, order):
            return None  # each partition reads a few chunks
    rows = max(view.repeats, 1) * scan.relation.stats(view.box(), order).rows
    if 0 < rows * parameters.element_bytes <= memory.limit() // parameters.sort_parts:
        return "sorted"
    return "spilled_sort" if rows > parameters.spill_min_partitions * parameters.partition_rows else None


def range_slice(column: NDArray[Any], start: int, stop: int) -> slice:
    """Return the slice of an ascending column with values in [start, stop)."""
    if not len(column):
        return slice(0, 0)  # of any type: a bound need not fit
    kind = column.dtype.type  # a Python integer would cast the whole column
    first, last = np.searchsorted(column, kind(start), "left"), np.searchsorted(column, kind(stop - 1), "right")
    return slice(int(first), int(last))
