"""Matrix products of tensors (SpGEMM): choose a tiling, compute partitions.

Every product of two tensors is one of matrices: rows are the output indices of one operand, columns those that only
the other has, and indices that both have are matched. Indices that neither the output nor the other operand has are
dropped: elements that then coincide are added with the rest.

A partition is a range of the leading output index with about as many products as fit a thread's buffers. A row is
computed by one thread, its products added in the order of the matched indices, so the bits depend neither on
partitions nor on threads. Reductions of a product round per partition, so partitions depend on the memory limit, not
on the number of threads.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparrow.engines import profile
from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.capabilities import ReadRange
from sparrow.engines.stream.cursors import open_cursor
from sparrow.engines.stream.operator import PhysicalOperator
from sparrow.engines.stream.partitioning import partition_bounds, range_slice
from sparrow.engines.stream.product.indexing import unique_sorted
from sparrow.engines.stream.product.kernels import ProductKernels
from sparrow.engines.stream.product.layouts import CSROperand
from sparrow.engines.stream.product.operands import LhsRows, MaskRows, Operands
from sparrow.engines.stream.product.tuning import tuning
from sparrow.kernels.coo import Block, CSRBlock, canonicalize, concat_blocks
from sparrow.kernels.elementwise import align
from sparrow.plan import Contraction, Node, Scan
from sparrow.plan.estimates import estimate_contraction
from sparrow.relations.memory import MemoryRelation
from sparrow.runtime import events, memory, settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.sorting import SpillFile

if TYPE_CHECKING:
    from sparrow.engines.stream.product.external_accumulate import ExternalAccumulate
    from sparrow.engines.stream.product.parts import SpilledParts
    from sparrow.engines.stream.product.row_sections import RowSections

__all__ = ["SpGEMM"]

T = TypeVar("T")


class SpGEMM:
    """One product of two tensors: operands, tiling, and partitions of the output.

    Parameters
    ----------
    node
        Plan node of the product.
    left, right, mask
        Scans of its operands and of its mask.
    profiled_as
        Node that the profile of an evaluation names; ``node`` by default.
    reservations
        Memory of the operands, released with this object.
    """

    def __init__(
        self,
        node: Contraction,
        left: Scan,
        right: Scan,
        mask: Scan | None = None,
        *,
        profiled_as: Node | None = None,
        reservations: tuple[memory.Reservation, ...] = (),
    ) -> None:
        self.operands = Operands(node, left, right, mask)
        self.node, self.schema = node, node.schema
        self._profiled_as = node if profiled_as is None else profiled_as
        self._reservations = reservations
        self._lock = threading.Lock()
        self._is_prepared = False
        self._rhs: CSROperand | None = None
        self._rows: LhsRows | None = None
        """The left operand, if it is held in memory."""
        self._spilled: SpilledParts | ExternalAccumulate | None = None
        self._sections: RowSections | None = None
        self._own_mask: Block | None = None
        """Elements of the left operand, if they are those of the mask, in its order."""
        self._wanted_rows: NDArray[Any] | None = None
        """Leading coordinates at which the mask has elements, if they are few."""

    # -- operands ------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Read the right operand, and the left one unless it is large; or spill both."""
        with self._lock:
            if self._is_prepared:
                return
            events.emit("product.prepare", product=self)
            current, room = tuning(), self.operands.reserve_rhs()
            roles, lhs, rhs, mask = self.operands.roles, self.operands.lhs, self.operands.rhs, self.operands.mask
            same = lhs.same_as(rhs)
            nbytes = lhs.nnz_estimate * lhs.scan.schema.element_bytes(wide=True)
            left = rows_to_read = None
            is_large, fits = self._is_rhs_large(), nbytes <= memory.share(current.lhs_share)
            self._wanted_rows = self._find_mask_rows()
            if not same and fits:
                left = lhs.read(room, self._wanted_rows)
                if len(roles.shared) == 1 and left.count <= rhs.nnz_estimate // current.row_subset_ratio:
                    rows_to_read = unique_sorted(lhs.columns(left, roles.shared)[0])
            max_bytes = None
            if is_large:
                max_bytes = 0 if current.strategy else int(memory.working_bytes() / current.rhs_share)
            right = None if rows_to_read is None else rhs.read_rows(room, rows_to_read, max_bytes)
            if right is None and (is_large or not (roles.rows or same or fits)):
                left = None
                room.release()
                if self._spill():
                    self._finish_preparing()
                    return
            if left is None and not (roles.rows or same):
                left = lhs.read(room, self._wanted_rows)  # one row, which partitions do not divide
            if right is None:
                right = rhs.read(room)
            self._rhs = CSROperand(self.operands, right, room)
            if same:
                left = right
            self._rows = None if left is None else self._rhs.lhs_rows(left, self._wanted_rows)
            room.grow(0 if self._rows is None else self._rows.nbytes)
            if mask is not None and self._wanted_rows is None and mask.same_as(lhs):
                self._own_mask = left
            try_dots = self._rows is not None and self._may_use_dots(self._rhs, self._rows)
            self._kernels = ProductKernels(self.operands, self._rhs, try_dots=try_dots)
            self._finish_preparing()

    def _finish_preparing(self) -> None:
        self._is_prepared = True
        events.emit("product.strategy", strategy=self.strategy)
        spilled = self._sections or self._spilled
        active = profile.active()
        if active is not None:
            spilled_bytes = 0 if spilled is None else spilled.spilled_bytes
            active.operator(self._profiled_as).record(strategy=self.strategy, spilled_bytes=spilled_bytes)

    @property
    def strategy(self) -> str:
        """Name of the tiling in use: see ``ProductTuning.strategy``."""
        spilled = self._sections or self._spilled
        if spilled is not None:
            return spilled.strategy
        return "streamed_lhs" if self._rows is None else "in_memory"

    def _may_use_dots(self, rhs: CSROperand, rows: LhsRows) -> bool:
        """Return whether dot products may be faster at the mask."""
        lhs, roles, mask, current = self.operands.lhs, self.operands.roles, self.operands.mask, tuning()
        if mask is None or self.node.complement or not rhs.has_unique_columns or not rhs.row_index.is_plain:
            return False
        if len(set(lhs.indices)) != len(roles.rows) + len(roles.shared) or current.masked_method == "gustavson":
            return False
        if current.masked_method == "dot":
            return True
        if sum(array.nbytes for array in rhs.csr) > memory.share(current.lhs_share):
            return False
        n_products, nnz = int(rows.product_offsets[-1]), len(rhs.csr[1])
        n_mask = mask.nnz_estimate if _is_cheap(mask.scan.relation) else n_products
        conversion = current.csc_element_products * (nnz + rhs.column_index.size)
        return conversion + current.dot_step_products * n_mask < n_products

    def _find_mask_rows(self) -> NDArray[Any] | None:
        """Return the leading coordinates of the mask, or None if they are not few."""
        mask, current = self.operands.mask, tuning()
        if mask is None or self.node.complement or not self.operands.roles.rows or not _is_cheap(mask.scan.relation):
            return None
        n_mask, dtype = mask.nnz_estimate, self.schema.coordinate_dtype(0)
        if current.mask_rows_ratio * n_mask > self.operands.lhs.nnz_estimate:
            return None
        if n_mask * dtype.itemsize > memory.share(current.lhs_share):
            return None
        found = list(scan_reader.map_blocks(mask.scan, lambda block: unique_sorted(block.coords[0]), axes=(0,)))
        wanted = unique_sorted(np.concatenate(found)) if found else np.empty(0, dtype)
        return wanted if 2 * len(wanted) <= self.schema.shape[0] else None  # a filter for most rows does not pay

    def _is_rhs_large(self) -> bool:
        """Return whether the right operand should spill."""
        rhs, current = self.operands.rhs, tuning()
        is_held = isinstance(rhs.scan.relation, MemoryRelation) and rhs.scan.view.is_identity
        if is_held or current.strategy is not None:
            return not is_held and current.strategy != "in_memory"
        return rhs.nnz_estimate * self.operands.rhs_element_bytes > memory.working_bytes() // current.rhs_share

    def _spill(self) -> bool:
        """Spill the operands and choose a tiling; return whether there is one."""
        from sparrow.engines.stream.product import tiling
        from sparrow.engines.stream.product.external_accumulate import ExternalAccumulate, can_accumulate
        from sparrow.engines.stream.product.parts import plan_parts
        from sparrow.engines.stream.product.row_sections import plan_row_sections

        operands, can_add = self.operands, can_accumulate(self.node.semiring)
        spool = SpillFile()
        try:
            lhs = rhs = None
            if operands.roles.rows:
                lhs, rhs = tiling.spill(operands, spool, self._wanted_rows)
            if lhs is not None and rhs is not None:
                self._sections = plan_row_sections(operands, lhs, rhs)
            if lhs is not None and self._sections is None and tuning().strategy != "external_sum":
                self._spilled = plan_parts(operands, lhs, rhs, can_add)
        finally:
            if self._sections is None:
                spool.close()
        if self._sections is None and self._spilled is None and can_add:
            self._spilled = ExternalAccumulate(operands, self._wanted_rows)
        return self._sections is not None or self._spilled is not None

    # -- partitions ----------------------------------------------------------------------------------

    def partitions(self) -> list[int]:
        """Return bounds of partitions along the leading output axis."""
        self._prepare()
        spilled, size = self._spilled or self._sections, self.schema.shape[0]
        if spilled is not None:
            mask = self.operands.mask  # a partition of few results may have many mask elements
            mask_bounds = [] if mask is None or not size else partition_bounds([mask.scan], size)
            return sorted({*spilled.partitions(), *mask_bounds})
        if not size:
            return [0]
        if self._rows is not None:
            return [0, *self._rows.cut_bounds(size, _partition_products()), size]
        lhs = self.operands.lhs.scan
        bounds = partition_bounds([lhs], size)
        bounds = [0, *dict.fromkeys(bound for bound in bounds[1:-1] if 0 < bound < size), size]
        read = open_cursor(lhs, 0, size).read

        def refine(span: tuple[int, int]) -> list[int]:
            rows = self._read_rows(*span, read)
            return [*rows.cut_bounds(span[1], _partition_products()), span[1]]

        refined = ordered_map(refine, itertools.pairwise(bounds), settings.current().threads)
        return [0, *itertools.chain.from_iterable(refined)]

    def max_rows(self, start: int, stop: int) -> int:
        """Return an upper bound on the elements of rows [start, stop); may do I/O.

        It is an estimate where the left operand is read partition by partition.
        """
        self._prepare()
        spilled = self._spilled or self._sections
        if spilled is not None:
            return spilled.max_rows(start, stop)
        if self._rows is None:
            share = (stop - start) / self.schema.shape[0] if self.schema.ndim else 1
            return max(_partition_products(), int(self._nnz_estimate * share))
        offsets, coords = self._rows.product_offsets, self._rows.coords
        at = range_slice(coords[0], start, stop) if coords else slice(0, len(offsets) - 1)
        return int(offsets[at.stop] - offsets[at.start]) if len(offsets) else 0

    @functools.cached_property
    def _nnz_estimate(self) -> float:
        """Estimate of the elements of the output, or of products if they are fewer."""
        return min(estimate_contraction(self.node))

    def open_sources(self, first: int, last: int) -> tuple[ReadRange | None, ReadRange | None]:
        """Open cursors of the left operand and the mask; None if in memory or absent."""
        self._prepare()
        is_held = self._rows is not None or self._spilled is not None or self._sections is not None
        lhs = None if is_held else open_cursor(self.operands.lhs.scan, first, last).read
        mask = self.operands.mask
        return lhs, None if mask is None or not self.schema.ndim else open_cursor(mask.scan, first, last).read

    def compute(
        self,
        start: int,
        stop: int,
        sources: tuple[ReadRange | None, ReadRange | None],
        with_mask_values: bool = False,
    ) -> Any:
        """Return the elements of rows [start, stop), and the mask's values or None."""
        events.emit("product.partition", start=start, stop=stop)
        lhs, mask = sources
        if self._spilled is not None:
            block = self._spilled.read(start, stop)
            if mask is None or self.node.complement or not with_mask_values:
                return block, None
            mask_block = mask(start, stop)
            events.emit("product.mask_values", elements=mask_block.count)
            _, (_, weights) = align([block, mask_block], [0, 0], self.schema.shape, (True, True))
            return block, weights

        what = f"the elements of a product of shape {self.schema.shape} at one coordinate of its first dimension"
        with memory.reserve(0, what, "put one first of which each coordinate has fewer, take a smaller view") as room:

            def multiply(
                rhs: CSROperand, kernels: ProductKernels, rows: LhsRows
            ) -> list[tuple[Block, NDArray[Any] | None]]:
                results: list[tuple[Block, NDArray[Any] | None]] = []
                for result in self._multiply_rows(kernels, rows, self._mask_rows(rhs, rows, mask, start, stop)):
                    if results:  # one coordinate has more products than a partition is meant to have
                        room.grow(result[0].nbytes)
                    results.append(result)
                return results

            results = list(itertools.chain.from_iterable(self._map_rows(start, stop, lhs, multiply)))
            block = concat_blocks([elements for elements, _ in results], self.schema.ndim, self.schema.dtype)
        if not self.operands.is_in_order and block.count:
            block = canonicalize(block, self.schema.shape, None, keep_fill=True)
        values = [mask_values for _, mask_values in results if mask_values is not None]
        empty = np.empty(0, None if self.operands.mask is None else self.operands.mask.scan.schema.dtype)
        weights = np.concatenate(values) if len(values) > 1 else next(iter(values), empty)
        if self.operands.roles.rows or not self.schema.ndim:
            return block, weights
        at = range_slice(block.coords[0], start, stop)  # the only row has the elements of all partitions
        return block.take(at), weights[at]

    def sum_at_mask(self, weighted: bool = False) -> Any:
        """Return the sum of all elements at a mask; None where the kernel cannot.

        Parameters
        ----------
        weighted
            Whether each element is multiplied by the mask's value.
        """
        total = self._sum_at_mask(weighted)
        events.emit("product.sum", is_computed=total is not None)
        return total

    def _sum_at_mask(self, weighted: bool) -> Any:
        dtype = self.operands.dtype
        is_plain = self.node.semiring.add == "plus" and dtype == self.schema.dtype and dtype.kind in "if"
        if not is_plain or not self.operands.roles.rows:
            return None
        bounds = self.partitions()
        if self._spilled is not None:
            return None
        if self._rows is not None:
            bounds = [*bounds[: -1 : tuning().masked_sum_partitions], bounds[-1]]
        sources = self.open_sources(0, bounds[-1]) if len(bounds) > 1 else (None, None)

        def sum_partition(span: tuple[int, int]) -> Any:
            def sum_rows(rhs: CSROperand, kernels: ProductKernels, rows: LhsRows) -> Any:
                mask = self._mask_rows(rhs, rows, sources[1], *span)
                assert mask is not None
                return kernels.sum_at_mask(rows, mask, weighted)

            return sum(self._map_rows(*span, sources[0], sum_rows), dtype.type(0))

        with np.errstate(all="ignore"):
            spans = itertools.pairwise(bounds)
            return sum(ordered_map(sum_partition, spans, settings.current().threads), dtype.type(0))

    def _map_rows(
        self,
        start: int,
        stop: int,
        read_lhs: ReadRange | None,
        function: Callable[[CSROperand, ProductKernels, LhsRows], T],
    ) -> list[T]:
        """Return the results of a function for rows [start, stop) and their operand."""
        if self._sections is not None:
            return self._sections.map_partitions(start, stop, function)
        assert self._rhs is not None
        return [function(self._rhs, self._kernels, self._read_rows(start, stop, read_lhs))]

    def _read_rows(self, start: int, stop: int, read_lhs: ReadRange | None) -> LhsRows:
        """Return the left rows with leading coordinates in [start, stop), held or read."""
        if read_lhs is not None:
            assert self._rhs is not None
            return self._rhs.lhs_rows(self.operands.lhs.take_diagonals(read_lhs(start, stop)), self._wanted_rows)
        assert self._rows is not None
        return self._rows.between(start, stop)

    def _mask_rows(
        self, rhs: CSROperand, rows: LhsRows, read_mask: ReadRange | None, start: int, stop: int
    ) -> MaskRows | None:
        """Return the mask in rows [start, stop); None without a mask."""
        mask = self.operands.mask
        if mask is None:
            return None
        own = None if self._own_mask is None else rhs.own_mask_rows(rows, self._own_mask)
        if own is not None:
            return own
        block = scan_reader.read_block(mask.scan) if read_mask is None else read_mask(start, stop)
        return rhs.mask_rows(rows, block, start, stop)

    def _multiply_rows(
        self, kernels: ProductKernels, rows: LhsRows, mask: MaskRows | None
    ) -> Iterator[tuple[Block, NDArray[Any] | None]]:
        """Yield the products of rows, some at a time in order, and mask values."""
        multiply = kernels.multiply
        if self._sections is not None:  # whose partitions are no larger than wanted
            yield multiply(rows, mask, 0, len(rows.indptr) - 1)
            return
        spans = rows.row_spans(_partition_products())
        threads = min(settings.current().threads, len(spans))
        yield from ordered_map(lambda span: multiply(rows, mask, *span), spans, threads)

    def compute_csr(self, start: int, stop: int, sources: tuple[ReadRange | None, ReadRange | None]) -> CSRBlock | None:
        """Return a partition in CSR, or None if its elements need further work."""
        schema, roles = self.schema, self.operands.roles
        if self._spilled is not None or not roles.rows or not self.operands.is_in_order:
            return None

        def multiply(rhs: CSROperand, kernels: ProductKernels, rows: LhsRows) -> CSRBlock | None:
            n_products = rows.product_offsets[-1] - rows.product_offsets[0]
            if len(rows.coords) > 1 and n_products > tuning().csr_output_partitions * _partition_products():
                return None
            return kernels.to_csr_block(rows, self._mask_rows(rhs, rows, sources[1], start, stop))

        is_exact = self.operands.dtype == schema.dtype and schema.fill_value == schema.fill_value
        results = self._map_rows(start, stop, sources[0], multiply) if is_exact else []
        found = results[0] if len(results) == 1 else None
        events.emit("product.csr_output", row_axes=0 if found is None else len(found.heads.coords))
        return found


def _partition_products() -> int:
    """Return the products of a partition, which depend on the memory limit alone."""
    current = tuning()
    if settings.current().has_ample_memory:
        return current.partition_products
    fits = memory.working_bytes() // (current.product_bytes * current.partition_threads)
    return min(current.partition_products // 2, max(fits, current.min_partition_products))


def _is_cheap(relation: Any) -> bool:
    """Return whether a relation is cheap to read twice: not computed by a product."""
    if isinstance(relation, PhysicalOperator):
        return not isinstance(relation.token, Contraction) and all(
            _is_cheap(scan.relation) for scan in relation.children
        )
    return bool(relation.has_exact_counts)
