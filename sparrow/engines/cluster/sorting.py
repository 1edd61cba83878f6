"""Sorts as two rounds of tasks, with files in the scratch folder between.

Tasks of the first round compute ranges of a plan in the order of its inputs, and write them as runs that are sorted by
the axes of the result. Samples of the runs tell the bounds of ranges with equal numbers of elements. Tasks of the
second round merge one range of all runs each. Nothing is added up, so neither bounds nor runs change a bit.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import View
from sparrow.core.schema import Schema
from sparrow.engines.cluster.cutting import Cut, count_tasks
from sparrow.engines.cluster.scratch import block_result, map_array, store_array
from sparrow.engines.cluster.tasks import FileTarget, cut_range, shift_range
from sparrow.engines.cluster.tuning import tuning
from sparrow.engines.round_profile import PlannedRound
from sparrow.engines.stream import Stream
from sparrow.engines.stream.partitioning import range_slice
from sparrow.kernels.coo import Block, concat_blocks, sort_block
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
    nodes_below,
    optimize_plan,
)
from sparrow.plan.estimates import estimate_nnz
from sparrow.relations.protocol import Relation
from sparrow.runtime import memory
from sparrow.runtime.events import emit
from sparrow.sorting import Rows
from sparrow.storage import DataFile, count_files

__all__ = [
    "MergedElements", "MergedFiles", "Runs", "SortPlan", "StoredRun", "bound_ranges", "computes_elements_alone",
    "merge_runs", "plan_sort", "replace_leaves", "store_columns", "store_run",
]  # fmt: skip

_stream = Stream()


@dataclass(frozen=True, slots=True)
class SortPlan:
    """A scan in another order of its axes, in which tasks divide its inputs."""

    source: Scan
    order: tuple[int, ...]
    """Axis of the source for each axis of the result, primary sort key first."""
    cut: Cut
    """Ranges of the leading axis of the source."""

    def rounds(self, slots: int, work: str) -> tuple[PlannedRound, PlannedRound]:
        """Return the estimates of both rounds; the second makes elements or files."""
        elements = estimate_nnz(self.source)
        nbytes = int(elements * self.source.schema.element_bytes())
        first = replace(self.cut.plan("runs"), bytes_between=nbytes)
        return first, PlannedRound(f"merged {work}", count_tasks(elements, slots), elements, nbytes)


def plan_sort(scan: Scan, cut_axis: Callable[[Scan], Cut]) -> SortPlan | None:
    """Return the rounds that sort a scan, None if they do not help.

    None, too, if bits could change. Elements in memory are not sorted in tasks: the way to them and back takes longer.

    Parameters
    ----------
    cut_axis
        Cuts a scan along its leading axis.
    """
    (root,) = optimize_plan([scan])
    nodes = nodes_below([root])
    scans = [root, *(below for node in nodes for below in node.scans)]
    if not any(each.is_stored for each in scans) or not all(map(computes_elements_alone, nodes)):
        return None
    for axis in range(1, scan.view.ndim):
        order = (axis, *(k for k in range(scan.view.ndim) if k != axis))
        source = scan.then(scan.view.permute(order))
        cut = cut_axis(source)
        if not cut.reason:
            return SortPlan(source, tuple(order.index(k) for k in range(len(order))), cut)
    return None


def computes_elements_alone(node: Node) -> bool:
    """Return whether elements have the same bits in any order of the axes."""
    if isinstance(node, Contraction):
        return node.schema.dtype.kind in "biu" and node.topk is None and node.score is None
    if isinstance(node, Reduce):
        return all(fold.is_exact for fold in node.reduction.folds.values())
    return isinstance(node, Concat | Diagonal | Map | Reshape | Sort | TopK | Triangle | WithFill)


def replace_leaves(scan: Scan, relations: Mapping[tuple[Hashable, View], Relation]) -> Scan | None:
    """Return a plan whose inputs have other sort orders, None if bits could change.

    Parameters
    ----------
    relations
        The relation to read in place of that of an input, by its token and view.
    """
    (root,) = optimize_plan([scan])
    now: dict[Hashable, Node] = {}
    products: set[Hashable] = set()

    def other(found: Scan) -> Scan:
        source = relations.get((found.source.token, found.view)) or now.get(found.source.token) or found.source
        return Scan(source, found.view, found.schema)

    for node in nodes_below([root]):
        is_parent = any((below.source.token, below.view) in relations for below in node.scans)
        is_alone = computes_elements_alone(node)
        if is_parent and not (is_alone or isinstance(node, Contraction)):
            return None
        if not is_alone and isinstance(node, Reduce) and node.operand.source.token in products:
            return None  # sums of a product may be sums of its operands, in the order of these
        if is_parent and isinstance(node, Contraction):
            products.add(node.token)
        now[node] = node.with_inputs([other(below) for below in node.scans])
    return other(root)


# -- the first round -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class StoredRun:
    """Sorted elements in files of the scratch folder."""

    paths: tuple[str, ...]
    """Files of the coordinates, then that of the values."""
    count: int
    sample: NDArray[Any]
    """Leading coordinates of every ``stride``-th element."""
    stride: int
    has_values: bool = True
    """True if the last file has values; else each element counts 1."""

    def read(self, start: int, stop: int) -> Iterator[Rows]:
        """Yield the elements at leading coordinates [start, stop), in batches.

        Files are closed after each batch: there may be more runs than a process may open.
        """
        at = range_slice(map_array(self.paths[0]), start, stop)
        for first in range(at.start, at.stop, tuning().batch_elements):
            batch = slice(first, min(first + tuning().batch_elements, at.stop))
            columns = tuple(np.array(map_array(path)[batch]) for path in self.paths)
            rows = Rows(columns[:-1], columns[-1]) if self.has_values else Rows(columns, None)
            count_files(read=rows.nbytes)
            yield rows


@dataclass(frozen=True, slots=True)
class Runs:
    """Write ranges of a scan as runs that are sorted by other axes."""

    order: tuple[int, ...]
    """Axis of the scan for each axis of the runs, primary sort key first."""

    def __call__(self, scans: list[Scan], start: int, stop: int, folder: str) -> list[StoredRun]:
        """Write the elements of rows [start, stop)."""
        (scan,) = scans
        budget, out, waiting, nbytes = memory.share(tuning().run_parts), list[StoredRun](), list[Block](), 0
        for block in _stream.iter_blocks(cut_range(scan, start, stop)):
            block = shift_range(block, scan, start)
            waiting.append(Block(tuple(block.coords[axis] for axis in self.order), block.values))
            nbytes += block.nbytes
            if nbytes > budget:
                out.append(self._store(waiting, scan.schema, folder))
                waiting, nbytes = [], 0
        return [*out, self._store(waiting, scan.schema, folder)] if waiting else out

    def _store(self, blocks: list[Block], schema: Schema, folder: str) -> StoredRun:
        """Return blocks as one sorted run."""
        block = concat_blocks(blocks, schema.ndim, schema.dtype)
        blocks.clear()
        emit("cluster.sort", elements=block.count)
        block = sort_block(block, [schema.shape[axis] for axis in self.order], self._unsorted_axes())
        return store_run(block, folder)

    def _unsorted_axes(self) -> int:
        """Return the number of leading axes to sort by; the rest are in order."""
        ndim = len(self.order)
        return next(k for k in range(ndim + 1) if self.order[k:] == tuple(sorted(self.order[k:])))


def store_run(block: Block, folder: str) -> StoredRun:
    """Write sorted elements to files of the scratch folder."""
    return store_columns((*block.coords, block.values), folder)


def store_columns(columns: Sequence[NDArray[Any]], folder: str, has_values: bool = True) -> StoredRun:
    """Write coordinates, and values if there are any, of sorted rows to files."""
    paths = tuple(store_array(folder, column).path for column in columns)
    leading = columns[0]
    stride = max(len(leading) // tuning().sample_elements, 1)
    return StoredRun(paths, len(leading), leading[::stride].copy(), stride, has_values)


def bound_ranges(runs: Sequence[StoredRun], size: int, slots: int, memory_limit: int) -> tuple[int, ...]:
    """Return bounds of ranges with about equal numbers of elements.

    Parameters
    ----------
    size
        Length of the leading axis of the runs, which the bounds divide.
    slots
        Tasks that run at the same time.
    memory_limit
        Bytes that a task may use: tasks that would spill are divided further.
    """
    total = sum(run.count for run in runs)
    if not total:
        return (0, size)
    nbytes = 8 * total * len(runs[0].paths)
    count = max(count_tasks(total, slots), nbytes * tuning().merge_copies // memory_limit)
    sample = np.concatenate([run.sample.astype(np.int64) for run in runs])
    order = np.argsort(sample, kind="stable")
    ends = np.cumsum(np.concatenate([np.full(len(run.sample), run.stride) for run in runs])[order])
    at = np.searchsorted(ends, ends[-1] * np.arange(1, count) // count, "right")
    inside = sample[order][at]
    return (0, *np.unique(inside[(inside > 0) & (inside < size)]).tolist(), size)


# -- the second round ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class MergedElements:
    """Merge ranges of runs and return their elements."""

    runs: Sequence[StoredRun]
    schema: Schema
    """Schema of the result."""
    max_bytes: int

    def __call__(self, scans: list[Scan], start: int, stop: int, folder: str) -> Block:
        """Return the elements with leading coordinates in [start, stop)."""
        block = concat_blocks(
            list(merge_runs(self.runs, self.schema, start, stop)), self.schema.ndim, self.schema.dtype
        )
        return block_result(folder, block, self.max_bytes)


@dataclass(frozen=True, slots=True, eq=False)
class MergedFiles:
    """Merge ranges of runs and write them to data files."""

    runs: Sequence[StoredRun]
    schema: Schema
    """Schema of the axes in their order."""
    target: FileTarget

    def __call__(self, scans: list[Scan], start: int, stop: int, folder: str) -> list[DataFile]:
        """Write the elements with leading coordinates in [start, stop); return the files."""
        return self.target.write(merge_runs(self.runs, self.schema, start, stop))


def merge_runs(runs: Sequence[StoredRun], schema: Schema, start: int, stop: int) -> Iterator[Block]:
    """Yield the elements at leading coordinates [start, stop), canonical."""
    from sparrow.sorting.sorter import sorted_blocks

    emit("cluster.merge", start=start, runs=len(runs))
    yield from sorted_blocks(itertools.chain.from_iterable(run.read(start, stop) for run in runs), schema)
