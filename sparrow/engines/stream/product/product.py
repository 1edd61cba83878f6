"""Products of tensors (SpGEMM): their tiling, and the operators.

Every product of two tensors is one of matrices: rows are the output indices of one operand, columns those that only
the other has, and indices that both have are matched. Indices that neither the output nor the other operand has are
dropped: elements that then coincide are added with the rest.

A partition is a range of the leading output index with about as many products as fit a thread's buffers. A row is
computed by one thread, its products added in the order of the matched indices, so the bits depend neither on
partitions nor on threads. Reductions of a product round per partition, so partitions depend on the memory limit, not
on the number of threads.

A contraction of several tensors is ordered at run time, by counts of elements along the axes that meet others. The
cheapest step is computed into memory if its result is expected to fit, and the rest is ordered again by its size.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import View
from sparrow.engines import profile
from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.capabilities import CountPushdown, Cursor, ReadRange, RowOutput, SumPushdown
from sparrow.engines.stream.cursors import open_cursor
from sparrow.engines.stream.operator import PhysicalOperator
from sparrow.engines.stream.partitioning import partition_bounds, range_slice
from sparrow.engines.stream.product.combine import find_largest
from sparrow.engines.stream.product.dense import SampledOp
from sparrow.engines.stream.product.kernels import ProductKernels
from sparrow.engines.stream.product.layouts import CSROperand, LhsRows, MaskRows
from sparrow.engines.stream.product.operands import Operands, SpilledOperands
from sparrow.engines.stream.product.physical import plan_product
from sparrow.engines.stream.product.spilled import ExternalSum, KPanels
from sparrow.engines.stream.product.tiling import (
    InMemoryTiling,
    RowSections,
    RowTiling,
    SpilledTiling,
    Tiling,
    partition_products,
)
from sparrow.engines.stream.product.tuning import tuning
from sparrow.errors import TooLargeError
from sparrow.kernels.coo import Block, CSRBlock, canonicalize, concat_blocks
from sparrow.kernels.elementwise import align
from sparrow.kernels.runs import group_starts
from sparrow.plan import Contraction, Node, Scan, is_sampled, make_contraction
from sparrow.plan.contraction_path import optimal_path, surviving_indices
from sparrow.plan.estimates import Estimate, count_degrees, estimate_operand, is_countable
from sparrow.relations.memory import MemoryRelation
from sparrow.relations.protocol import Relation
from sparrow.runtime import events, memory, progress, settings
from sparrow.runtime.once import Once
from sparrow.runtime.thread_pool import ordered_map

__all__ = [
    "ChainMatMulOp", "ChainStep", "ChainTerm", "MaskedMatMulOp", "MatMulOp", "Product", "ProductCursor", "chain_steps",
    "count_operand", "lower_contraction", "order_steps",
]  # fmt: skip

Sources = tuple[ReadRange | None, ReadRange | None]
"""Cursors over the left operand and the mask; None if they are in memory or absent."""

TILINGS: dict[tuple[str, str], type[Tiling]] = {
    ("whole", "concat"): InMemoryTiling,
    ("row_subset", "concat"): InMemoryTiling,
    ("row_sections", "concat"): RowSections,
    ("k_panels", "add"): KPanels,
    ("k_panels", "external_sort"): ExternalSum,
}
"""Class of each tiling and combination in :data:`sparrow.engines.stream.product.physical.SCHEDULES`."""


class Product:
    """One product of two tensors: operands, tiling, and partitions of the output.

    Parameters
    ----------
    node
        Plan node of the product.
    scans
        Scans of its operands, and of its mask if there is one.
    profiled_as
        Node that the profile of an evaluation names; ``node`` by default.
    reservations
        Memory of the operands, released with this object.
    """

    def __init__(
        self,
        node: Contraction,
        scans: Sequence[Scan],
        *,
        profiled_as: Node | None = None,
        reservations: tuple[memory.Reservation, ...] = (),
    ) -> None:
        self.operands = Operands(node, *scans)
        self.node, self.schema = node, node.schema
        self._profiled_as = node if profiled_as is None else profiled_as
        self._reservations = reservations
        self._lock = threading.Lock()
        self._tiling: Tiling | None = None

    # -- tiling --------------------------------------------------------------------------------------

    @property
    def tiling(self) -> Tiling:
        """The tiling, for which the operands are read on first use."""
        with self._lock:
            if self._tiling is None:
                events.emit("product.prepare", product=self)
                self._tiling = self._choose_tiling()
                self.record(self._tiling.flops)
                is_lhs_held = isinstance(self._tiling, RowTiling) and self._tiling.is_lhs_held
                events.emit("product.tiling", tiling=self._tiling.name, is_lhs_held=is_lhs_held)
            return self._tiling

    def _choose_tiling(self) -> Tiling:
        """Return the first tiling of the preferred plans that the operands admit."""
        operands = self.operands
        with SpilledOperands(operands, operands.find_mask_rows()) as spilled:
            for plan in plan_product(operands):
                tiling = TILINGS[plan.schedule.tiling, plan.schedule.combine].build(operands, plan, spilled)
                if tiling is not None:
                    return tiling
        raise AssertionError("the last plan holds both operands in memory")

    @property
    def strategy(self) -> str:
        """Name of the tiling, once it is known."""
        return _strategy(self.tiling)

    def record(self, flops: int = 0) -> None:
        """Add the products of a partition, and the state of the tiling, to a profile."""
        active, tiling = profile.active(), self._tiling
        if active is not None and tiling is not None:
            counters = active.operator(self._profiled_as)
            counters.record(flops=flops, strategy=_strategy(tiling))
            counters.record_state(
                held_bytes=tiling.held_bytes, spilled_bytes=tiling.spilled_bytes, elements_read=tiling.elements_read
            )

    # -- partitions ----------------------------------------------------------------------------------

    def partitions(self) -> list[int]:
        """Return bounds of partitions along the leading output axis."""
        tiling, size = self.tiling, self.schema.shape[0]
        if isinstance(tiling, InMemoryTiling):
            return tiling.partitions()
        mask = self.operands.mask  # a partition of few results may have many mask elements
        mask_bounds = [] if mask is None or not size else partition_bounds([mask.scan], size)
        return sorted({*tiling.partitions(), *mask_bounds})

    def max_rows(self, start: int, stop: int) -> int:
        """Return an upper bound on the elements of rows [start, stop); may do I/O."""
        return self.tiling.max_rows(start, stop)

    def open_sources(self, first: int, last: int) -> Sources:
        """Open cursors over the left operand and the mask."""
        tiling, mask = self.tiling, self.operands.mask
        lhs = tiling.open(first, last) if isinstance(tiling, RowTiling) else None
        return lhs, None if mask is None or not self.schema.ndim else open_cursor(mask.scan, first, last).read

    def compute(self, start: int, stop: int, sources: Sources, with_mask_values: bool = False) -> Any:
        """Return the elements of rows [start, stop), and the mask's values or None."""
        events.emit("product.partition", start=start, stop=stop)
        tiling = self.tiling
        if isinstance(tiling, SpilledTiling):
            return self._read_spilled(tiling, start, stop, sources[1] if with_mask_values else None)
        assert isinstance(tiling, RowTiling)
        what = f"the elements of a product of shape {self.schema.shape} at one coordinate of its first dimension"
        with memory.reserve(0, what, "put one first of which each coordinate has fewer, take a smaller view") as room:

            def multiply(
                rhs: CSROperand, kernels: ProductKernels, rows: LhsRows
            ) -> list[tuple[Block, NDArray[Any] | None]]:
                results: list[tuple[Block, NDArray[Any] | None]] = []
                mask = self._mask_rows(tiling, rhs, rows, sources[1], start, stop)
                for result in self._multiply_rows(tiling, kernels, rows, mask):
                    if results:  # one coordinate has more products than a partition is meant to have
                        room.grow(result[0].nbytes)
                    results.append(result)
                return results

            results = list(itertools.chain.from_iterable(tiling.map_rows(start, stop, sources[0], multiply)))
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

    def _read_spilled(
        self, tiling: SpilledTiling, start: int, stop: int, read_mask: ReadRange | None
    ) -> tuple[Block, NDArray[Any] | None]:
        """Return the elements of rows [start, stop), and the values of a mask there."""
        block = tiling.read(start, stop)
        if self.node.topk is not None:
            starts = np.append(group_starts(block.coords[:-1], block.count), block.count) if block.count else [0]
            block = block.take(find_largest(np.asarray(starts, np.int64), block.values, self.node.topk))
        self.record()
        if read_mask is None or self.node.complement:
            return block, None
        mask_block = read_mask(start, stop)
        events.emit("product.mask_values", elements=mask_block.count)
        _, (_, weights) = align([block, mask_block], [0, 0], self.schema.shape, (True, True))
        return block, weights

    def compute_csr(self, start: int, stop: int, sources: Sources) -> CSRBlock | None:
        """Return a partition in CSR, or None if its elements need further work."""
        tiling = self.tiling
        if not isinstance(tiling, RowTiling) or not self.operands.can_output_csr:
            return None

        def multiply(rhs: CSROperand, kernels: ProductKernels, rows: LhsRows) -> CSRBlock | None:
            if len(rows.coords) > 1 and rows.flops > tuning().csr_output_partitions * partition_products(self.operands):
                return None
            self.record(rows.flops)
            return kernels.to_csr_block(rows, self._mask_rows(tiling, rhs, rows, sources[1], start, stop))

        results = tiling.map_rows(start, stop, sources[0], multiply)
        found = results[0] if len(results) == 1 else None
        events.emit("product.csr_output", row_axes=0 if found is None else len(found.heads.coords))
        return found

    def count(self) -> int | None:
        """Return the number of stored elements without forming their values.

        None if the tiling has computed them anyway.
        """
        tiling = self.tiling
        if not isinstance(tiling, RowTiling) or tuning().output == "blocks" or not self.schema.ndim:
            return None
        bounds = self.partitions()
        sources = self.open_sources(0, bounds[-1])

        def count_partition(span: tuple[int, int]) -> int:
            def count_rows(rhs: CSROperand, kernels: ProductKernels, rows: LhsRows) -> int:
                mask = self._mask_rows(tiling, rhs, rows, sources[1], *span)
                found = kernels.count(rows, mask)
                events.emit("product.count", is_symbolic=found is not None)
                if found is not None:
                    self.record(rows.flops)
                    return found
                return sum(block.count for block, _ in self._multiply_rows(tiling, kernels, rows, mask))

            return sum(tiling.map_rows(*span, sources[0], count_rows))

        with progress.bar("counting", len(bounds) - 1, "partitions") as advance:
            total = 0
            for found in ordered_map(count_partition, list(itertools.pairwise(bounds)), settings.current().threads):
                total += found
                advance(1)
        return total

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
        dtype, current = self.operands.dtype, tuning()
        is_plain = (
            self.node.semiring.add == "plus"
            and self.node.topk is None
            and dtype == self.schema.dtype
            and dtype.kind in "if"
        )
        if not is_plain or not self.operands.roles.rows or current.output == "blocks":
            return None
        bounds, tiling = self.partitions(), self.tiling
        if not isinstance(tiling, RowTiling):
            return None
        if tiling.is_lhs_held:
            bounds = [*bounds[: -1 : current.masked_sum_partitions], bounds[-1]]
        sources = self.open_sources(0, bounds[-1]) if len(bounds) > 1 else (None, None)

        def sum_partition(span: tuple[int, int]) -> Any:
            def sum_rows(rhs: CSROperand, kernels: ProductKernels, rows: LhsRows) -> Any:
                mask = self._mask_rows(tiling, rhs, rows, sources[1], *span)
                assert mask is not None
                self.record(rows.flops)
                return kernels.sum_at_mask(rows, mask, weighted)

            return sum(tiling.map_rows(*span, sources[0], sum_rows), dtype.type(0))

        with np.errstate(all="ignore"):
            spans = itertools.pairwise(bounds)
            return sum(ordered_map(sum_partition, spans, settings.current().threads), dtype.type(0))

    def _mask_rows(
        self, tiling: RowTiling, rhs: CSROperand, rows: LhsRows, read_mask: ReadRange | None, start: int, stop: int
    ) -> MaskRows | None:
        """Return the mask in rows [start, stop); None without a mask."""
        mask = self.operands.mask
        if mask is None:
            return None
        own = None if tiling.own_mask is None else rhs.own_mask_rows(rows, tiling.own_mask)
        if own is not None:
            return own
        block = scan_reader.read_block(mask.scan) if read_mask is None else read_mask(start, stop)
        return rhs.mask_rows(rows, block, start, stop)

    def _multiply_rows(
        self, tiling: RowTiling, kernels: ProductKernels, rows: LhsRows, mask: MaskRows | None
    ) -> Iterator[tuple[Block, NDArray[Any] | None]]:
        """Yield the products of rows, some at a time in order, and mask values."""
        multiply = kernels.multiply
        self.record(rows.flops)
        if tiling.has_small_partitions:
            yield multiply(rows, mask, 0, len(rows.indptr) - 1)
            return
        spans = rows.row_spans(partition_products(self.operands))
        threads = min(settings.current().threads, len(spans))
        yield from ordered_map(lambda span: multiply(rows, mask, *span), spans, threads)


def _strategy(tiling: Tiling) -> str:
    """Return the name of a tiling, which says whether the left operand is streamed."""
    is_streamed = tiling.name == "whole" and isinstance(tiling, RowTiling) and not tiling.is_lhs_held
    return "streamed_lhs" if is_streamed else tiling.name


# -- operators -----------------------------------------------------------------------------------


def lower_matmul(node: Contraction, *scans: Scan) -> PhysicalOperator:
    """Lower a product of two scans, under a mask if there is a third.

    Raises
    ------
    TooLargeError
        On reading, if the left operand has a row that does not fit in memory, and functions add.
    """
    operator = MatMulOp if node.mask is None or node.complement else MaskedMatMulOp
    return operator(node, scans, Product(node, scans))


class ProductCursor:
    """Cursor over a product, with cursors over operands that are not in memory."""

    def __init__(self, product: Product, start: int, stop: int) -> None:
        self._product, self._sources = product, product.open_sources(start, stop)

    def read(self, start: int, stop: int) -> Block:
        """Return the elements of rows [start, stop)."""
        block: Block = self._product.compute(start, stop, self._sources)[0]
        return block


class CSRProductCursor(ProductCursor, RowOutput):
    """Cursor over a product that also returns elements in CSR form."""

    def read_csr(self, start: int, stop: int) -> Block:
        """Return the elements of rows [start, stop), in CSR if the kernel gives it."""
        found = self._product.compute_csr(start, stop, self._sources)
        return self.read(start, stop) if found is None else found


class MatMulOp(PhysicalOperator, CountPushdown):
    """Elements of a product, or of one at the absent elements of a mask."""

    def __init__(self, node: Contraction, scans: Sequence[Scan], product: Product) -> None:
        super().__init__(node, scans)
        self._product = product

    def partitions(self) -> list[int]:
        """Return bounds of partitions along the leading axis."""
        return self._product.partitions()

    def open(self, start: int, stop: int) -> ProductCursor:
        """Open a cursor over rows [start, stop)."""
        return CSRProductCursor(self._product, start, stop)

    def max_rows(self, start: int, stop: int) -> int:
        """Return an upper bound on the nnz of rows [start, stop)."""
        return self._product.max_rows(start, stop)

    def strategy(self) -> str | None:
        """Return the name of the tiling."""
        return self._product.strategy

    def count(self) -> int | None:
        """Return the number of stored elements; None if they are computed already."""
        return self._product.count()


class MaskedMatMulOp(MatMulOp, SumPushdown):
    """Elements of a product at the stored elements of a mask."""

    def open(self, start: int, stop: int) -> ProductCursor:
        """Open a cursor over rows [start, stop)."""
        return ProductCursor(self._product, start, stop)

    def sum(self) -> Any:
        """Return the sum of all elements; None where the kernel cannot."""
        return self._product.sum_at_mask()

    def is_masked_by(self, scan: Scan) -> bool:
        """Return whether a scan is the mask, and the output is in its order."""
        mask = self.children[2]
        is_mask = mask.source.token == scan.source.token and mask.view == scan.view
        return is_mask and self._product.operands.is_in_order

    def sum_weighted(self) -> Any:
        """Return the sum of the elements times the mask; None where the kernel cannot."""
        return self._product.sum_at_mask(weighted=True)

    def open_with_mask_values(self, first: int, last: int) -> Callable[[int, int], tuple[Block, NDArray[Any]]]:
        """Open a cursor that reads elements and the mask's values at them."""
        sources = self._product.open_sources(first, last)

        def read(start: int, stop: int) -> tuple[Block, NDArray[Any]]:
            active = profile.active()
            if active is None:
                found: tuple[Block, NDArray[Any]] = self._product.compute(start, stop, sources, with_mask_values=True)
                return found
            counters = active.operator(self.node)
            with counters.measure():
                block, values = self._product.compute(start, stop, sources, with_mask_values=True)
            counters.record(rows=block.count, bytes=block.nbytes, partitions=1)
            return block, values

        return read


# -- contractions of several tensors -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChainTerm:
    """An operand with the indices of its axes."""

    indices: tuple[int, ...]
    scan: Scan
    known: Estimate
    reservations: tuple[memory.Reservation, ...] = ()
    """Memory of the steps in it that were computed."""


@dataclass(frozen=True, slots=True)
class ChainStep:
    """A step that ran, with its estimates and the elements found, if counted."""

    node: Contraction
    products: float
    entries: float
    found: int | None


chain_steps: ContextVar[list[ChainStep] | None] = ContextVar("sparrow_chain_steps", default=None)
"""List that steps are appended to as they run; None if they are not recorded."""


def lower_contraction(node: Contraction, *scans: Scan) -> PhysicalOperator:
    """Lower a contraction that is no array: of two scans, of more, or sampled.

    Parameters
    ----------
    node
        Plan node of the contraction.
    scans
        Its operands, and its mask if there is one.

    Raises
    ------
    TooLargeError
        On reading, as for :func:`lower_matmul`.
    """
    if is_sampled(node):
        return SampledOp(node, *scans)
    return lower_matmul(node, *scans) if len(node.operands) == 2 else ChainMatMulOp(node, scans)


class ChainMatMulOp(PhysicalOperator, CountPushdown, SumPushdown):
    """Elements of a chain of products, whose order is decided on the first read.

    Parameters
    ----------
    node
        Plan node of the contraction.
    scans
        Its operands and its mask.
    """

    def __init__(self, node: Contraction, scans: Sequence[Scan]) -> None:
        super().__init__(node, scans)
        count = len(node.operands)
        terms = list(zip(node.indices, scans[:count], strict=True))
        self._last_step = Once(functools.partial(_run_steps, node, terms, scans[count:]))
        self._is_masked = node.mask is not None and not node.complement

    def partitions(self) -> list[int]:
        """Return bounds of partitions along the leading axis."""
        return self._last_step().partitions()

    def open(self, start: int, stop: int) -> Cursor:
        """Open a cursor over rows [start, stop) of the last product."""
        cursor = ProductCursor if self._is_masked else CSRProductCursor
        return cursor(self._last_step(), start, stop)

    def max_rows(self, start: int, stop: int) -> int:
        """Return an upper bound on the nnz of rows [start, stop)."""
        return self._last_step().max_rows(start, stop)

    def strategy(self) -> str | None:
        """Return the name of the tiling of the last product."""
        return self._last_step().strategy

    def count(self) -> int | None:
        """Return the number of stored elements; None if they are computed already."""
        return self._last_step().count()

    def sum(self) -> Any:
        """Return the sum of all elements at the mask; None where there is no sum."""
        return self._last_step().sum_at_mask() if self._is_masked else None


def _run_steps(node: Contraction, terms: Sequence[tuple[tuple[int, ...], Scan]], mask: Sequence[Scan]) -> Product:
    """Run all steps of a chain but the last, and return that."""
    rest = [ChainTerm(indices, scan, count_operand(indices, scan)) for indices, scan in terms]
    one, other = order_steps(node, rest, _multiply)
    last = replace(node, operands=(one.scan, other.scan), indices=(one.indices, other.indices))
    _record_step(last, *one.known.times(other.known, last.output_indices), None)
    events.emit("product.chain_last_step")
    reservations = (*one.reservations, *other.reservations)
    return Product(last, (one.scan, other.scan, *mask), profiled_as=node, reservations=reservations)


MultiplyStep: TypeAlias = "Callable[[Contraction, bool, tuple[memory.Reservation, ...]], _Step]"
"""Function of a product, whether its elements are computed at once, and the memory of its operands."""
_Step: TypeAlias = "tuple[Relation | Node, int | None, tuple[memory.Reservation, ...]]"
"""A product, the number of its elements if they are computed, and the memory that it holds."""


def order_steps(node: Contraction, terms: list[ChainTerm], multiply: MultiplyStep) -> list[ChainTerm]:
    """Run all steps of a chain but the last, the cheapest first; return its operands."""
    while len(terms) > 2:
        terms = _run_step(node, terms, multiply)
    return terms


def _run_step(node: Contraction, terms: list[ChainTerm], multiply: MultiplyStep) -> list[ChainTerm]:
    """Run the cheapest step of a chain; return the other terms and its result."""
    semiring, last = node.semiring, node.output_indices
    step = optimal_path([term.known for term in terms], last, semiring)[0]
    one, other = (terms[k] for k in step)
    rest = [term for k, term in enumerate(terms) if k not in step]
    out = surviving_indices(one.indices, other.indices, [term.indices for term in rest], last, semiring)
    node = make_contraction((one.scan, other.scan), (one.indices, other.indices), out, semiring)
    products, expected = one.known.times(other.known, out)
    is_held = expected.nnz * node.schema.element_bytes() <= memory.share(tuning().chain_step_share)
    source, found, reservations = multiply(node, is_held, (*one.reservations, *other.reservations))
    scan = Scan(source, View.identity(node.schema.shape), node.schema)
    _record_step(node, products, expected, found)
    known = expected if found is None else estimate_operand(out, scan)
    result = ChainTerm(out, scan, known, reservations)
    return [*rest[: step[0]], result, *rest[step[0] :]]  # where its first operand was


def _multiply(node: Contraction, is_held: bool, reservations: tuple[memory.Reservation, ...]) -> _Step:
    """Return the product of two scans of relations."""
    relation: Any = lower_matmul(node, *node.scans)
    if not is_held:
        return relation, None, reservations
    room = memory.reserve(0, f"a step of einsum, of shape {node.schema.shape}", "take a part of its operands")
    events.emit("product.chain_step", reservation=room)
    try:
        block = scan_reader.read_block(Scan(relation, View.identity(node.schema.shape), node.schema), room)
    except TooLargeError:
        room.release()  # larger than expected: computed when it is read, by partition
        return relation, None, reservations
    for each in reservations:
        each.release()
    return MemoryRelation(node.schema, block), block.count, (room,)


def _record_step(node: Contraction, products: float, expected: Estimate, found: int | None) -> None:
    """Append a step to the list of steps, if there is one."""
    steps = chain_steps.get()
    if steps is not None:
        steps.append(ChainStep(node, products, expected.nnz, found))


def count_operand(indices: tuple[int, ...], scan: Scan) -> Estimate:
    """Estimate an operand by counting elements along its axes; may read columns."""
    for axis in range(scan.schema.ndim) if is_countable(scan) else ():
        if count_degrees(scan, axis) is None:
            count_degrees(scan, axis, _read_column(scan, axis))
    return estimate_operand(indices, scan)


def _read_column(scan: Scan, axis: int) -> Iterator[NDArray[Any]]:
    """Yield the coordinates along an axis, of all elements in any order."""
    for block in scan_reader.iter_blocks(scan, axes=(axis,)):
        yield block.coords[axis]
