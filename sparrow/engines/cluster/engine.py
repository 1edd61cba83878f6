"""Engine that cuts plans into tasks for other processes."""

from __future__ import annotations

import functools
import os
import uuid
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import View
from sparrow.engines.cluster.cutting import (
    Cut,
    count_tasks,
    cut_rows,
    lead_with,
    orders_of_leaves,
    plan_chunks,
    share_of_result,
    widen_ranges,
)
from sparrow.engines.cluster.node_cuts import cut_groups, cut_totals, find_output_axis, summed_axes
from sparrow.engines.cluster.operands import find_divided, find_shared, replace_scans
from sparrow.engines.cluster.rounds import Rounds
from sparrow.engines.cluster.schedulers import Scheduler, check_installed, connect
from sparrow.engines.cluster.scratch import Scratch, scratch_folder
from sparrow.engines.cluster.sorting import (
    MergedElements,
    MergedFiles,
    Runs,
    SortPlan,
    StoredRun,
    bound_ranges,
    plan_sort,
    replace_leaves,
)
from sparrow.engines.cluster.tasks import (
    Arrays,
    Count,
    Elements,
    Files,
    FileTarget,
    Fold,
    Products,
    States,
    Sums,
    Work,
    chunk_checksum,
    root_scan,
)
from sparrow.engines.cluster.tuning import tuning
from sparrow.engines.fallback import lower_with_fallback
from sparrow.engines.protocol import FoldRange
from sparrow.engines.round_profile import PlannedRound, RoundsPlan
from sparrow.engines.sort_orders import scan_in_order
from sparrow.engines.stream import Stream, lower
from sparrow.engines.stream.groupby import GroupState, adds_rows_alone
from sparrow.engines.stream.operator import PhysicalOperator
from sparrow.engines.stream.product.product import ChainTerm, count_operand, order_steps
from sparrow.engines.stream.reductions import FusedReductions, GroupByOp
from sparrow.kernels.coo import Block, concat_blocks
from sparrow.kernels.folds import UfuncFold
from sparrow.plan import (
    Accumulate,
    Contraction,
    Dense,
    Map,
    Node,
    Reduce,
    Root,
    Scan,
    nodes_below,
    optimize_plan,
    replace_contractions,
    scans_of,
)
from sparrow.plan.estimates import estimate_nnz
from sparrow.relations.memory import MemoryRelation
from sparrow.relations.protocol import Relation
from sparrow.runtime import memory, settings
from sparrow.runtime.progress import format_quantity
from sparrow.storage import DataFile, Snapshot, create, save

__all__ = ["Cluster"]

SUPPORT = {
    Accumulate: ("notyet", "sums carried over from task to task"),
    Contraction: ("partly", "with arrays along an axis that a sort order of the tensor leads with"),
    Reduce: ("partly", "over the leading axis sums, products, means, extremes and counts"),
}
"""Support of types of nodes other than "yes", with the reason."""


class Cluster:
    """Engine of a scheduler.

    Nodes that it does not support are computed in this process, and sent along; so is a plan that is too small to be
    cut, or whose tasks would each read all of it.

    Parameters
    ----------
    name
        Name of the scheduler.
    open_scheduler
        Returns the scheduler of the setting ``cluster``, by default the adapter of the name.
    cut
        Returns the tasks of a scan, given the number of slots.
    """

    reads_chunks = False
    max_operands: int | None = None
    max_depth: int | None = None
    max_scans: int | None = None

    def __init__(
        self,
        name: str,
        open_scheduler: Callable[[Any], Scheduler] | None = None,
        cut: Callable[[Scan, int], Cut] = cut_rows,
    ) -> None:
        self.name = name
        self._open = open_scheduler
        self._cut = cut
        self._stream = Stream()

    def check(self) -> None:
        """Raise ``MissingDependencyError`` if the scheduler is not installed."""
        if self._open is None:
            check_installed(self.name)

    def _scheduler(self) -> Scheduler:
        cluster = settings.current().cluster
        return connect(self.name, cluster) if self._open is None else self._open(cluster)

    def support(self, node_type: type[Any]) -> tuple[str, str]:
        """Return the support for a type of nodes, and a reason."""
        mark, reason = self._stream.support(node_type)
        return SUPPORT.get(node_type, ("yes", "")) if mark == "yes" else (mark, reason)

    def unsupported_reason(self, root: Root) -> str | None:
        """Return why tasks do not compute a node; None if they do."""
        reason = self._stream.unsupported_reason(root)
        if reason is not None or isinstance(root, Scan | Dense):
            return reason
        if isinstance(root, Accumulate):
            return "sums would be carried over from task to task"
        if isinstance(root, Reduce) and root.axes and root.axes[0] != 0:
            if all(isinstance(fold, UfuncFold) for fold in root.reduction.folds.values()):
                return "tasks add up chunks of its operand, and this process the sums of tasks"
            return "each task would reduce all of its operand"
        if isinstance(root, Reduce) and root.axes:
            folds = list(root.reduction.folds.values())
            if not adds_rows_alone(root.operand, root.kept_axes, folds):
                return "float sums of unsorted elements depend on the cut"
        return None

    def repeats_here(self, scan: Scan) -> bool:
        """Return whether rows that fit in memory are multiplied in this process."""
        return scan.relation.stats(scan.view.box()).rows <= tuning().local_product_elements

    # -- rounds ----------------------------------------------------------------------------------

    def _cut_scan(self, scan: Scan, slots: int) -> Cut:
        """Return the tasks of a scan."""
        if scan.step is None:
            return Cut(reason="nothing is computed, only read")
        return self._cut_axis(scan, slots)

    def _cut_axis(self, scan: Scan, slots: int) -> Cut:
        cut = self._cut(scan, slots)
        if cut.reason:
            return cut
        bounds = widen_ranges(cut.bounds)
        return replace(cut, bounds=bounds, reason="" if len(bounds) > 2 else "one range of rows has all elements")

    @contextmanager
    def open_rounds(self, scheduler: Scheduler | None = None) -> Iterator[Rounds]:
        """Open rounds of tasks that share a scratch folder, for a block."""
        with Scratch(scratch_folder()) as scratch:
            yield Rounds(self.name, scheduler or self._scheduler(), scratch, self._materialize)

    @contextmanager
    def _run(self, scheduler: Scheduler, scan: Scan, work: Work, bounds: Sequence[int]) -> Iterator[list[Any]]:
        """Run one task per range; results in files exist for the length of the block."""
        with self.open_rounds(scheduler) as rounds:
            yield rounds.run([self.prepare(scan, rounds.folder)], work, bounds)

    def prepare(self, scan: Scan, folder: str, axis: int = 0) -> Scan:
        """Return a plan of which tasks compute ranges without doing the same work.

        Ranges are along an axis. Chains of products are ordered, and operands that no task divides are computed once:
        in rounds of their own, which write large ones to the folder.
        """
        if scan.step is None:
            return scan
        if scan.step.is_dense:
            return root_scan(scan.step.with_inputs([self.prepare(below, folder, axis) for below in scan.step.scans]))
        (root,) = self._order_chains(optimize_plan([scan]))
        shared = find_shared(root, axis)
        if not shared:
            return root
        computed: Any = {(each.source, each.view): self._compute_operand(each, folder) for each in shared}
        (prepared,) = replace_scans([root], computed)
        return prepared

    def _order_chains(self, scans: Sequence[Scan]) -> list[Scan]:
        """Return plans whose chains of products are computed up to the last step."""
        return replace_contractions(scans, self._order_chain)

    def _order_chain(self, node: Contraction) -> Contraction | None:
        """Return the last step of a chain; other rounds compute its operands.

        Tasks would each compute the steps; that order of products which the stream engine takes has the same bits.
        """
        if len(node.tensors) < 3:
            return None

        def multiply(step: Contraction, is_held: bool, reservations: Any) -> Any:
            if not is_held:
                return step, None, ()
            relation = MemoryRelation(step.schema, self.evaluate(root_scan(step)))
            return relation, relation.nnz, ()

        pairs = zip(node.indices, node.tensors, lower(node.tensors), strict=True)
        terms = [ChainTerm(indices, scan, count_operand(indices, lowered)) for indices, scan, lowered in pairs]
        one, other = order_steps(node, terms, multiply)
        return replace(node, operands=(one.scan, other.scan), indices=(one.indices, other.indices))

    def _compute_operand(self, scan: Scan, folder: str) -> Relation:
        """Return a relation of the elements of a scan; many are stored."""
        if estimate_nnz(scan) * scan.schema.element_bytes() <= tuning().result_bytes:
            return MemoryRelation(scan.schema, self.evaluate(scan))
        path = os.path.join(folder, f"{uuid.uuid4().hex}.sparrow")
        blocks = self.iter_blocks(scan)
        return save(path, scan.schema, blocks, write_files=lambda to: self.write_files(scan, to, "fast")).current

    @contextmanager
    def _run_sort(
        self, scheduler: Scheduler, plan: SortPlan, size: int, merge: Callable[[list[StoredRun], int], Work]
    ) -> Iterator[list[Any]]:
        """Run the two rounds of a sort.

        Parameters
        ----------
        size
            Length of the leading axis of the result.
        merge
            Returns the work of the second round, given runs and the number of tasks.
        """
        with self.open_rounds(scheduler) as rounds:
            found = rounds.run([self.prepare(plan.source, rounds.folder)], Runs(plan.order), plan.cut.bounds)
            runs = [run for part in found for run in part]
            bounds = bound_ranges(runs, size, scheduler.slots, rounds.memory_limit)
            yield rounds.run([], merge(runs, len(bounds) - 1), bounds)

    @contextmanager
    def _sort_leaves(self, scan: Scan, cut: Cut) -> Iterator[Scan | None]:
        """Sort the inputs of a plan so that tasks divide them, in the scratch folder.

        Inputs that are computed, such as ``E`` of ``E @ E``, are computed there instead. Yields the plan with these
        inputs, None if that is not possible.
        """
        if self._find_divided(scan, cut):
            with self.open_rounds() as rounds:
                computed = self.prepare(scan, rounds.folder)
                yield None if self._cut_scan(computed, rounds.slots).reason else computed
            return
        wanted = _find_leaves_to_sort(scan, cut)
        if not wanted:
            yield None
            return
        with self.open_rounds() as rounds:
            relations: dict[tuple[Hashable, View], Relation] = {}
            for leaf, order in wanted:
                snapshot = leaf.relation
                assert isinstance(snapshot, Snapshot)
                folder = os.path.join(rounds.folder, f"order-{len(relations)}")
                os.mkdir(folder)
                files = self.write_files(
                    scan_in_order(snapshot, order), folder, "fast", order, snapshot.base.coordinate_dtypes
                )
                if files is None:
                    yield None
                    return
                create(folder, snapshot.schema, files, operation="sort", order=order, built_from=snapshot.digest)
                relations[leaf.source.token, leaf.view] = snapshot.with_order(order, folder)
            found = replace_leaves(scan, relations)
            yield None if found is None or self._cut_scan(found, rounds.slots).reason else found

    def _plan_order(self, leaf: Scan, order: tuple[int, ...], slots: int) -> tuple[PlannedRound, ...]:
        """Return the rounds that sort an input of a plan."""
        source = scan_in_order(leaf.relation, order)
        plan = self._plan_sort(source, self._cut_axis(source, slots), slots)
        return () if plan is None else plan.rounds(slots, "files")

    def _plan_sort(self, scan: Scan, cut: Cut, slots: int) -> SortPlan | None:
        """Return the rounds that sort a scan, None if tasks do not sort it."""
        return plan_sort(scan, lambda source: self._cut_axis(source, slots)) if cut.reads_all else None

    def _materialize(self, relation: Relation) -> MemoryRelation:
        """Compute what tasks do not support, so that it travels with them."""
        schema = relation.schema
        everything = Scan(relation, View.identity(schema.shape), schema)
        self._add_chunks(relation)
        return MemoryRelation(schema, self._stream.evaluate(everything))

    def _add_chunks(self, source: Relation | Node) -> None:
        """Compute the sums of a reduction over the leading axis in tasks, if it is one.

        This process reads them afterwards.
        """
        if not isinstance(source, GroupByOp):
            return
        scheduler = self._scheduler()
        groups, work, bounds = cut_groups(source, scheduler)
        if groups is None or work is None or has_chains(source.node.scans):
            return
        sent = source.node.with_inputs(lower_with_fallback(self, source.node.scans))
        with self.open_rounds(scheduler) as rounds:
            groups.merge_dense(rounds.run([root_scan(sent)], work, bounds))

    # -- results ---------------------------------------------------------------------------------

    def evaluate(self, scan: Scan) -> Block:
        """Return all elements of a scan, canonical in the order of the view's axes."""
        with self._compute_blocks(scan) as blocks:
            if blocks is None:
                return self._stream.evaluate(scan)
            what = f"the elements of an expression of shape {scan.schema.shape}"
            with memory.reserve(sum(block.nbytes for block in blocks), what, "save(path) it, take a smaller view"):
                found = concat_blocks(blocks, scan.schema.ndim, scan.schema.dtype)
                return Block(tuple(map(_own, found.coords)), _own(found.values))

    def iter_blocks(self, scan: Scan) -> Iterator[Block]:
        """Yield the elements of a scan in canonical blocks, in the order of its axes."""
        with self._compute_blocks(scan) as found:
            yield from self._stream.iter_blocks(scan) if found is None else (block for block in found if block.count)

    @contextmanager
    def _compute_blocks(self, scan: Scan) -> Iterator[list[Block] | None]:
        """Compute the elements of a scan in tasks; None if this process should."""
        self._add_chunks(scan.source)
        scheduler = self._scheduler()
        cut = self._cut_scan(scan, scheduler.slots)
        plan = self._plan_sort(scan, cut, scheduler.slots)
        if plan is not None:
            shape = scan.schema.shape
            with self._run_sort(
                scheduler,
                plan,
                shape[0],
                lambda runs, tasks: MergedElements(runs, scan.schema, share_of_result(tasks)),
            ) as found:
                yield found
        elif cut.reason:
            with self._sort_leaves(scan, cut) as other:
                if other is None:
                    yield None
                    return
                with self._compute_blocks(other) as blocks:
                    yield blocks
        else:
            with self._run(scheduler, scan, Elements(share_of_result(len(cut.bounds) - 1)), cut.bounds) as found:
                yield found

    def write_files(
        self,
        scan: Scan,
        folder: str,
        profile: str,
        order: Sequence[int] = (),
        coordinate_dtypes: Sequence[np.dtype[Any]] = (),
    ) -> list[DataFile] | None:
        """Write the elements of a scan to data files in tasks.

        Parameters
        ----------
        folder
            Folder of a tensor that is being created.
        profile
            Profile of the files.
        order
            Dimension of each axis, for files of a derived sort order.
        coordinate_dtypes
            Dtypes of the coordinate columns by dimension, by default those of the scan.

        Returns
        -------
        list of DataFile or None
            None if this process should write them.
        """
        self._add_chunks(scan.source)
        if not (scan.step is not None or scan.is_stored):
            return None
        schema, dims = scan.schema, tuple(order) or tuple(range(scan.schema.ndim))
        axes = [dims.index(dim) for dim in range(schema.ndim)]
        dtypes = tuple(coordinate_dtypes) or tuple(schema.coordinate_dtypes[axis] for axis in axes)
        names = tuple(schema.dims[axis] for axis in axes)
        target = FileTarget(folder, profile, names, schema.dtype, dtypes, dims)
        scheduler = self._scheduler()
        cut = self._cut_axis(scan, scheduler.slots)
        plan = self._plan_sort(scan, cut, scheduler.slots)
        if plan is not None:
            rounds = self._run_sort(
                scheduler, plan, schema.shape[0], lambda runs, tasks: MergedFiles(runs, schema, target)
            )
        elif cut.reason:
            with self._sort_leaves(scan, cut) as other:
                return None if other is None else self.write_files(other, folder, profile, order, coordinate_dtypes)
        else:
            rounds = self._run(scheduler, scan, Files(target), cut.bounds)
        with rounds as found:
            return [file for files in found for file in files]

    def fold_ranges(self, scan: Scan, function: FoldRange) -> Iterator[tuple[Any, ...]] | None:
        """Apply a function to the elements of ranges; see the protocol."""
        scheduler = self._scheduler()
        cut = self._cut_axis(scan, scheduler.slots)
        if cut.reason:
            return None

        def run() -> Iterator[tuple[Any, ...]]:
            work = Fold(function, share_of_result(len(cut.bounds) - 1))
            with self._run(scheduler, scan, work, cut.bounds) as found:
                yield from found

        return run()

    def count_nnz(self, scan: Scan) -> int:
        """Return the number of stored elements of a scan."""
        self._add_chunks(scan.source)
        scheduler = self._scheduler()
        cut = self._cut_scan(scan, scheduler.slots)
        plan = self._plan_sort(scan, cut, scheduler.slots)
        if plan is not None:
            scan, cut = plan.source, plan.cut
        if cut.reason:
            return self._stream.count_nnz(scan)
        with self._run(scheduler, scan, Count(), cut.bounds) as found:
            return sum(found)

    def reduce_all(self, nodes: Sequence[Reduce]) -> list[Any]:
        """Return reductions over all axes of one scan.

        The states of chunks are merged in the order of chunks, as the stream engine does.
        """
        if len(nodes) == 1 and nodes[0].name == "count":
            return [np.int64(self.count_nnz(nodes[0].scans[0]))]
        scheduler = self._scheduler()
        if has_chains(nodes[0].scans) and not self._cut_axis(nodes[0].scans[0], scheduler.slots).reason:
            operands = self._order_chains(optimize_plan(nodes[0].scans))
            nodes = [node.with_inputs(operands) for node in nodes]
        groups, work, bounds = cut_totals(nodes, scheduler.slots)
        if work is None:
            return self._stream.reduce_all(nodes)
        with self.open_rounds(scheduler) as rounds:
            prepared, work = self._prepare_totals(nodes, work, bounds[-1], rounds.folder)
            found = rounds.run([root_scan(node) for node in prepared], work, bounds)
            groups.groups.merge_states(_own_state(state) for states in found for state in states)
        return [groups.scalar(number, node) for number, node in enumerate(nodes)]

    def _prepare_totals(
        self, nodes: Sequence[Reduce], work: States, count: int, folder: str
    ) -> tuple[Sequence[Reduce], States]:
        """Return reductions of as many chunks whose tasks share no work."""
        operand = self.prepare(nodes[0].scans[0], folder)
        prepared = [node.with_inputs([operand]) for node in nodes]
        (scan,) = lower([operand])
        if work.partitions is None or not isinstance(scan.relation, PhysicalOperator):
            return nodes, work
        scan.relation.set_partitions(work.partitions)
        chunks = FusedReductions(prepared, scan).groups.scalar_chunks()
        if chunks is None or len(chunks) != count:
            return nodes, work
        return prepared, States(work.partitions, chunk_checksum(chunks))

    def evaluate_dense(self, node: Node) -> Any:
        """Return the dense result of a node."""
        scheduler = self._scheduler()
        cut, work = self._cut_dense(node, scheduler.slots)
        if work is None:
            return self._stream.evaluate_dense(node)
        with self.open_rounds(scheduler) as rounds:
            axis = 0 if isinstance(work, Arrays) else work.axis
            prepared = self.prepare(root_scan(node), rounds.folder, axis)
            found = rounds.run([prepared], work, cut.bounds)
            if not isinstance(work, Sums):
                return np.concatenate(found, axis=work.output_axis)
            with np.errstate(all="ignore"):
                return functools.reduce(np.add, found)

    def _cut_dense(self, node: Root, slots: int) -> tuple[Cut, Products | Sums | Arrays | None]:
        """Return the tasks of a node with a dense result."""
        if isinstance(node, Map):
            return self._cut_array(node, slots)
        if not isinstance(node, Contraction):
            return Cut(reason="sums would be carried over from task to task"), None
        (scan,) = node.scans if len(node.scans) == 1 else (None,)
        found = find_output_axis(node)
        cut = Cut(reason="no axis of the result leads the sort order of the tensor; add_order() makes one")
        if found is not None and scan is not None:
            axis, output_axis = found
            cut = self._cut_axis(lead_with(scan, axis), slots)
            if not cut.reason:
                return cut, Products(axis, output_axis, share_of_result(len(cut.bounds) - 1))
        for axis in summed_axes(node) if found is None or cut.reads_all else ():
            other = self._cut_axis(lead_with(node.scans[0], axis), slots)
            if not other.reason:
                return other, Sums(axis, share_of_result(len(other.bounds) - 1))
        return cut, None

    def _cut_array(self, node: Map, slots: int) -> tuple[Cut, Arrays | None]:
        """Return the tasks of an element-wise function whose result is an array."""
        cuts = [self._cut_axis(scan, slots) for scan in node.scans]
        reason = next((cut.reason for cut in cuts if cut.reads_all), "")
        size, height = node.schema.size, node.schema.shape[0] if node.schema.ndim else 0
        count = min(count_tasks(size, slots), height)
        if count < 2:
            reason = f"{size:.3g} elements are too few for two tasks"
        if reason:
            return Cut(reason=reason), None
        bounds = tuple(height * number // count for number in range(count + 1))
        nbytes = sum(cut.nbytes for cut in cuts)
        return Cut(bounds, "", size, nbytes), Arrays(share_of_result(count))

    # -- plans -----------------------------------------------------------------------------------

    def describe(self, root: Root) -> str:
        """Return the physical strategy for a node; empty if there is only one."""
        is_chain = isinstance(root, Contraction) and len(root.tensors) > 2
        return "products of two tensors, each in rounds of its own" if is_chain else ""

    def plan_rounds(self, root: Root, saves: bool = False) -> RoundsPlan | None:
        """Return the rounds of a root, None if tasks do not compute it; reads footers."""
        slots = self._scheduler().slots
        node = root.step if isinstance(root, Scan) else root
        if isinstance(node, Node) and self.unsupported_reason(node) is not None:
            if isinstance(node, Reduce) and node.axes:
                return self._plan_groups(node)
            return None
        size = format_quantity(tuning().result_bytes, "bytes")
        result = f"through the scheduler, above {size} as files in {scratch_folder()}"
        if isinstance(root, Reduce) and not root.axes:
            if root.name == "count":
                return self.plan_rounds(root.scans[0])
            _, states, bounds = cut_totals([root], slots)
            if states is None:
                return RoundsPlan(reason="the input is small, or its total needs no elements")
            planned = plan_chunks(root.scans[0], len(bounds) - 1)
            return RoundsPlan((planned,), "", _bytes_shared(root), "states of chunks, merged in the order of chunks")
        if isinstance(root, Scan) and saves:
            cut, work = self._cut_axis(root, slots), "files"
            result = "data files by tasks, committed once by this process"
        elif isinstance(root, Scan):
            cut, work = self._cut_scan(root, slots), "elements"
            result += "; save() has tasks write data files, and commits once"
        elif isinstance(root, Node) and root.is_dense:
            cut, work = self._cut_dense(root, slots)[0], "products"
        else:
            return None
        plan = self._plan_sort(root, cut, slots) if isinstance(root, Scan) else None
        if plan is None and cut.reason:
            if not isinstance(root, Scan):
                return RoundsPlan(reason=cut.reason)
            first = [each for scan in self._find_divided(root, cut) for each in self._plan_operand(scan)]
            leaves = [] if first else _find_leaves_to_sort(root, cut)
            first += [each for leaf, order in leaves for each in self._plan_order(leaf, order, slots)]
            if not first:
                return RoundsPlan(reason=cut.reason)
            last = PlannedRound(work, count_tasks(cut.elements, slots), cut.elements, first[-1].bytes_read)
            return RoundsPlan((*first, last), "", _bytes_shared(root), result)
        divided = plan.source if plan is not None else root if isinstance(root, Scan) else None
        operands = [] if divided is None else find_shared(divided)
        first = [each for scan in operands for each in self._plan_operand(scan)]
        nbytes = sum(round(estimate_nnz(scan)) * scan.schema.element_bytes() for scan in operands)
        rounds = (*first, *((cut.plan(work),) if plan is None else plan.rounds(slots, work)))
        return RoundsPlan(rounds, "", _bytes_shared(root) + nbytes, result)

    def _find_divided(self, scan: Scan, cut: Cut) -> list[Scan]:
        """Return operands that tasks divide once they are computed."""
        if not cut.reads_all:
            return []
        (root,) = optimize_plan([scan])
        return find_divided(root)

    def _plan_operand(self, scan: Scan) -> list[PlannedRound]:
        """Return the rounds that compute an operand of all tasks."""
        plan = self.plan_rounds(scan)
        return [] if plan is None else [replace(each, work=f"operand, {each.work}") for each in plan.rounds]

    def _plan_groups(self, node: Reduce) -> RoundsPlan | None:
        """Return the round of a reduction over the leading axis, None without one."""
        if has_chains(node.scans):
            return None
        (lowered,) = lower([root_scan(node)])
        work, bounds = cut_groups(lowered.relation, self._scheduler())[1:]
        if work is None:
            return None
        planned = replace(plan_chunks(node.scans[0], len(bounds) - 1), work="groups")
        return RoundsPlan((planned,), "", _bytes_shared(node), "sums of chunks, merged in the order of chunks")


def has_chains(scans: Sequence[Scan]) -> bool:
    """Return whether plans have products of more than two tensors."""
    return any(isinstance(node, Contraction) and len(node.tensors) > 2 for node in nodes_below(scans))


def _find_leaves_to_sort(scan: Scan, cut: Cut) -> list[tuple[Scan, tuple[int, ...]]]:
    """Return inputs of a plan to sort, with their orders; tasks then divide them.

    Nothing if that does not help, or could change bits.
    """
    found = orders_of_leaves(scan) if cut.reads_all and scan.step is not None else []
    same = {(leaf.source.token, leaf.view): leaf.relation for leaf, _ in found}
    return [] if replace_leaves(scan, same) is None else found


def _bytes_shared(root: Root) -> int:
    """Return the bytes of arrays of a plan that are written to files for tasks."""
    nodes = nodes_below([root] if isinstance(root, Scan) else scans_of(root))
    nodes += [root] if isinstance(root, Node) else []
    arrays = {id(each.array): each.array.nbytes for node in nodes for each in node.children if isinstance(each, Dense)}
    return sum(nbytes for nbytes in arrays.values() if nbytes >= tuning().inline_bytes)


def _own(array: NDArray[Any]) -> NDArray[Any]:
    """Return a writable array that needs no file."""
    return np.array(array) if isinstance(array, np.memmap) or not array.flags.writeable else array


def _own_state(state: GroupState) -> GroupState:
    """Return a state whose arrays can be merged in place."""
    counts = None if state.counts is None else _own(state.counts)
    return GroupState(
        tuple(map(_own, state.coords)), counts, tuple(tuple(map(_own, arrays)) for arrays in state.states)
    )
