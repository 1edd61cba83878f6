"""Rounds of products of a matrix that is multiplied again and again."""

from __future__ import annotations

import itertools
import math
import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.cluster.cutting import Cut, count_tasks, cut_chunks, share_of_result, widen_ranges
from sparrow.engines.cluster.engine import Cluster
from sparrow.engines.cluster.row_files import (
    MergeRows,
    MultiplyRows,
    RowFiles,
    SortRows,
    StoreRows,
    chunks_in_order,
)
from sparrow.engines.cluster.schedulers import Scheduler
from sparrow.engines.cluster.scratch import scratch_folder
from sparrow.engines.cluster.sorting import bound_ranges
from sparrow.engines.cluster.tasks import chunk_checksum
from sparrow.engines.cluster.tuning import tuning
from sparrow.engines.repeats import RepeatedProducts, rows_bytes
from sparrow.engines.round_profile import PlannedRound, RoundsPlan
from sparrow.engines.sort_orders import groups_output, product_order
from sparrow.engines.stream.product.dense import matmul_dense
from sparrow.errors import TooLargeError
from sparrow.kernels.coo import accumulator_dtype
from sparrow.plan import Contraction, Node, Root, Scan, matrix_form
from sparrow.plan.estimates import estimate_nnz
from sparrow.relations.memory import MemoryRelation
from sparrow.runtime.progress import format_quantity
from sparrow.storage import Snapshot

__all__ = ["RepeatedRounds"]


@dataclass(frozen=True, slots=True)
class _Layout:
    """Rounds that write the rows of a matrix, or the reason for having none."""

    cut: Cut
    """Ranges of rows, or of what is sorted."""
    nbytes: int = 0
    """Bytes of the rows, estimated."""
    sorts: bool = False
    """True if the elements are sorted by row first."""

    @property
    def reason(self) -> str:
        """Why each product reads the matrix; empty if files of its rows are read."""
        return self.cut.reason


_COPIES = 8
"""Copies of the elements of a range that a task may hold: while it sorts them, and others."""
_lock = threading.Lock()


class RepeatedRounds(Cluster):
    """The engine of a scheduler, for products of one matrix.

    Parameters
    ----------
    engine
        The engine.
    repeats
        What counts the products of the matrix.
    """

    def __init__(self, engine: Cluster, repeats: RepeatedProducts) -> None:
        super().__init__(engine.name, engine._open, engine._cut)
        self._repeats = repeats

    def evaluate_dense(self, node: Node) -> Any:
        """Return a product, of rows in files if there are any."""
        form = matrix_form(node) if isinstance(node, Contraction) else None
        if form is None or form.scan.view.ndim != 2:
            return super().evaluate_dense(node)
        dtype = accumulator_dtype(node.schema.dtype)
        scheduler = self._scheduler()
        with _lock:
            files = self._find(form.scan, dtype, scheduler)
        if files is None:
            return super().evaluate_dense(node)

        def accumulate(scan: Scan, x: NDArray[Any], out: NDArray[Any]) -> None:
            self._multiply(scheduler, files, x, out)

        return matmul_dense(form, node.schema.dtype, accumulate)

    def plan_rounds(self, root: Root, saves: bool = False) -> RoundsPlan | None:
        """Return the rounds of a product. Reads footers."""
        form = matrix_form(root) if isinstance(root, Contraction) else None
        if form is None or form.scan.view.ndim != 2:
            return super().plan_rounds(root, saves)
        assert isinstance(root, Contraction)
        dtype, slots = accumulator_dtype(root.schema.dtype), self._scheduler().slots
        files: RowFiles | None = self._repeats.files.get(self._key(form.scan, dtype))
        shared = form.array.size * dtype.itemsize
        if files is not None:
            tasks = len(_product_bounds(files.bounds, files.elements, slots)) - 1
            product = PlannedRound("multiplyrows", tasks, files.elements, files.nbytes)
            return RoundsPlan((product,), "", shared, f"of rows in files of {scratch_folder()}")
        layout = self._plan(form.scan, dtype, self._scheduler())
        if layout.reason or not self._is_due(form.scan, dtype, layout):
            return super().plan_rounds(root, saves)
        elements, nbytes = layout.cut.elements, layout.nbytes
        tasks = len(_product_bounds(layout.cut.bounds, elements, slots)) - 1
        write = replace(layout.cut.plan("sortrows" if layout.sorts else "storerows"), bytes_between=nbytes)
        merge = PlannedRound("mergerows", count_tasks(elements, slots), elements, nbytes, nbytes)
        rounds = (write, *([merge] if layout.sorts else []), PlannedRound("multiplyrows", tasks, elements, nbytes))
        return RoundsPlan(rounds, "", shared, f"later products take one round, of rows in files of {scratch_folder()}")

    def _key(self, scan: Scan, dtype: np.dtype[Any]) -> Any:
        return self.name, scratch_folder(), scan.view, dtype

    def _find(self, scan: Scan, dtype: np.dtype[Any], scheduler: Scheduler) -> RowFiles | None:
        """Return files of the rows of a matrix; None if they are not written."""
        known, key = self._repeats.files, self._key(scan, dtype)
        found: RowFiles | None = known.get(key)
        if found is not None:
            return found
        if scan.step is None and not isinstance(scan.relation, Snapshot | MemoryRelation):
            relation = self._materialize(scan.relation)
            scan = Scan(relation, scan.view, scan.schema)
        layout = self._plan(scan, dtype, scheduler)
        if layout.reason or not self._is_due(scan, dtype, layout):
            return None
        write = self._sort if layout.sorts else self._store
        try:
            found = known[key] = write(scan, dtype, scheduler, layout)
        except TooLargeError as error:  # a row of most elements
            self._repeats.find(scan.view, dtype).files_refusal = str(error)
        return found

    def _is_due(self, scan: Scan, dtype: np.dtype[Any], layout: _Layout) -> bool:
        """Return whether rows are written for the next product.

        A first product in tasks reads the matrix, since there may be no second one: PageRank takes one of ``A``.
        """
        product, after = self._repeats.find(scan.view, dtype), self._repeats.after
        if product.files_refusal or after is None or (not layout.sorts and not product.count):
            return False
        return self._repeats.is_due(product, scan) if scan.step is None else product.count >= after

    def _plan(self, scan: Scan, dtype: np.dtype[Any], scheduler: Scheduler) -> _Layout:
        """Return the plan of the rounds that write the rows of a matrix."""
        is_expression = scan.step is not None
        order = tuple(range(len(scan.source.schema.shape))) if is_expression else product_order(scan)
        is_grouped = groups_output(scan.view, order)
        if is_grouped:
            cut = self._cut_for_memory(scan, scheduler)
        elif is_expression:
            cut = self._cut_for_memory(scan.transpose(), scheduler)
        else:
            rows = [chunk.rows for chunk in chunks_in_order(scan)]
            least = math.ceil(_COPIES * sum(rows) * scan.schema.element_bytes() / scheduler.memory_limit)
            bounds = cut_chunks(rows, scheduler.slots, least)
            enough = count_tasks(sum(rows), scheduler.slots) > 1
            reason = "" if enough else f"{sum(rows):.3g} elements are too few for two tasks"
            cut = Cut(tuple(bounds), reason, sum(rows), scan.relation.stats(scan.view.box()).nbytes)
        if cut.reason:
            return _Layout(cut)
        if is_expression:
            width = scan.schema.coordinate_dtype(1).itemsize + dtype.itemsize
            nbytes = round(estimate_nnz(scan)) * width + 8 * scan.schema.shape[0]
        else:
            nbytes = rows_bytes(scan, dtype)
        needed, free = nbytes * (1 if is_grouped else 3), shutil.disk_usage(scratch_folder()).free
        if needed > free:
            sizes = (format_quantity(size, "bytes") for size in (needed, free))
            reason = "{} of rows exceed the free space of {}, {}".format(*sizes, scratch_folder())
            return _Layout(Cut(reason=reason))
        return _Layout(cut, nbytes, not is_grouped)

    def _cut_for_memory(self, scan: Scan, scheduler: Scheduler) -> Cut:
        """Return tasks that each hold their range in memory."""
        cut = self._cut_axis(scan, scheduler.slots)
        if cut.reason:
            return cut
        nbytes = _COPIES * cut.elements * scan.schema.element_bytes() / (len(cut.bounds) - 1)
        parts = math.ceil(nbytes / scheduler.memory_limit)
        inside = {
            start + (stop - start) * number // parts
            for start, stop in itertools.pairwise(cut.bounds) for number in range(parts)
        }  # fmt: skip
        return replace(cut, bounds=widen_ranges(sorted(inside | {cut.bounds[-1]})))

    def _store(self, scan: Scan, dtype: np.dtype[Any], scheduler: Scheduler, layout: _Layout) -> RowFiles:
        """Write the rows of a matrix whose order leads with them."""
        files = RowFiles(scratch_folder())
        files.bounds, files.elements = list(layout.cut.bounds), layout.cut.elements
        with self._run(scheduler, scan, StoreRows(files.scratch.path, dtype), files.bounds) as sizes:
            files.nbytes = sum(sizes)
        return files

    def _sort(self, scan: Scan, dtype: np.dtype[Any], scheduler: Scheduler, layout: _Layout) -> RowFiles:
        """Sort a matrix by row, and write its rows."""
        files, bounds = RowFiles(scratch_folder()), layout.cut.bounds
        files.elements = layout.cut.elements
        checksum = 0 if scan.step is not None else chunk_checksum(chunks_in_order(scan))
        with self.open_rounds(scheduler) as rounds:
            prepared = self.prepare(scan, rounds.folder, axis=1)
            runs = rounds.run([prepared], SortRows(checksum), bounds)
            files.bounds = list(bound_ranges(runs, scan.schema.shape[0], scheduler.slots, rounds.memory_limit))
            files.nbytes = sum(rounds.run([], MergeRows(files.scratch.path, runs, scan.schema, dtype), files.bounds))
        return files

    def _multiply(self, scheduler: Scheduler, files: RowFiles, x: NDArray[Any], out: NDArray[Any]) -> None:
        """Write the product of rows in files with an array to ``out``."""
        bounds = _product_bounds(files.bounds, files.elements, scheduler.slots)
        with self.open_rounds(scheduler) as rounds:
            work = MultiplyRows(
                files.scratch.path, tuple(files.bounds[:-1]), rounds.pack(x), share_of_result(len(bounds) - 1)
            )
            for (start, stop), part in zip(itertools.pairwise(bounds), rounds.run([], work, bounds), strict=True):
                out[start:stop] = part


def _product_bounds(bounds: Sequence[int], elements: float, slots: int) -> list[int]:
    """Return bounds of the tasks of a product, each of several files.

    A product takes less than reading: there is one task per slot, and more only if they are large.
    """
    count = len(bounds) - 1
    tasks = min(max(int(elements // tuning().min_product_elements), slots), count)
    return [bounds[count * number // tasks] for number in range(tasks + 1)]
