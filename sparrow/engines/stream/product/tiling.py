"""Tilings of products: the order in which parts of the operands are multiplied.

A tiling computes rows of the output when they are read, or it has computed everything into a spill file before. The
products of a row are added in the order of the shared indices. All tilings but k-panels, which add partial sums, give
the same bits.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, TypeVar

from numpy.typing import NDArray

from sparrow.engines.stream.capabilities import ReadRange
from sparrow.engines.stream.cursors import open_cursor
from sparrow.engines.stream.partitioning import partition_bounds, range_slice
from sparrow.engines.stream.product.indexing import unique_sorted
from sparrow.engines.stream.product.kernels import ProductKernels
from sparrow.engines.stream.product.layouts import CSROperand, LhsRows
from sparrow.engines.stream.product.operands import Operands, is_cheap
from sparrow.engines.stream.product.physical import PhysicalPlan
from sparrow.engines.stream.product.tuning import tuning
from sparrow.kernels.coo import Block
from sparrow.plan.estimates import estimate_contraction
from sparrow.runtime import memory, settings
from sparrow.runtime.thread_pool import ordered_map

__all__ = ["InMemoryTiling", "RowTiling", "SpilledTiling", "Tiling", "partition_products"]

T = TypeVar("T")


class Tiling(ABC):
    """Parts of a product, and the partitions of its output that follow from them."""

    name: str
    """Name of the tiling in :data:`sparrow.engines.stream.product.physical.SCHEDULES`."""
    held_bytes: int = 0
    """Bytes of operands held in memory, at most."""
    spilled_bytes: int = 0
    """Bytes written to spill files."""
    elements_read: int = 0
    """Elements of operands read from their source or from spill files so far."""
    flops: int = 0
    """Multiplications before the output is read."""

    @abstractmethod
    def partitions(self) -> list[int]:
        """Return bounds of partitions along the leading axis of the output."""

    @abstractmethod
    def max_rows(self, start: int, stop: int) -> int:
        """Return an upper bound on the elements of rows [start, stop); may do I/O.

        It is an estimate where the left operand is read partition by partition.
        """


class RowTiling(Tiling):
    """A tiling that computes rows of the output when they are read."""

    has_small_partitions: ClassVar[bool] = False
    """Whether partitions are never larger than a thread multiplies at a time."""

    @property
    def is_lhs_held(self) -> bool:
        """Whether all rows of the left operand are in memory."""
        return False

    @property
    def own_mask(self) -> Block | None:
        """The elements of the left operand, if they are those of the mask."""
        return None

    def open(self, first: int, last: int) -> ReadRange | None:
        """Open a cursor over rows [first, last) of the left operand, if it is streamed."""
        return None

    @abstractmethod
    def map_rows(
        self,
        start: int,
        stop: int,
        read_lhs: ReadRange | None,
        function: Callable[[CSROperand, ProductKernels, LhsRows], T],
    ) -> list[T]:
        """Return the results of a function for rows [start, stop) and their operand."""


class SpilledTiling(Tiling):
    """A tiling whose output is computed before the first read, into a spill file."""

    @abstractmethod
    def read(self, start: int, stop: int) -> Block:
        """Return the elements with leading coordinates in [start, stop)."""


class InMemoryTiling(RowTiling):
    """The right operand in memory, or those of its rows that the left one matches.

    Parameters
    ----------
    operands
        Operands of the product.
    rhs
        The right operand.
    rows
        The left operand; None to read it by partition.
    wanted_rows
        Leading coordinates of the left operand to multiply, None for all.
    own_mask
        Elements of the left operand, if they are those of the mask, in its order.
    name
        "whole" or "row_subset".
    held_bytes
        Bytes of both.
    """

    def __init__(
        self,
        operands: Operands,
        rhs: CSROperand,
        rows: LhsRows | None,
        wanted_rows: NDArray[Any] | None,
        own_mask: Block | None,
        name: str,
        held_bytes: int,
    ) -> None:
        self._operands, self._rhs, self._rows, self._wanted_rows = operands, rhs, rows, wanted_rows
        self._own_mask, self.name, self.held_bytes = own_mask, name, held_bytes
        is_same = rows is not None and operands.lhs.same_as(operands.rhs)
        self.elements_read = len(rhs.csr[1]) + (0 if rows is None or is_same else len(rows.rhs_rows))
        try_dots = rows is not None and _may_use_dots(operands, rhs, rows)
        self._kernels = ProductKernels(operands, rhs, try_dots=try_dots, topk=operands.node.topk)

    @classmethod
    def build(cls, operands: Operands, plan: PhysicalPlan, wanted_rows: NDArray[Any] | None) -> InMemoryTiling | None:
        """Read the operands; return None if a row subset would hold too much."""
        roles, lhs, rhs, mask = operands.roles, operands.lhs, operands.rhs, operands.mask
        schedule, same, room = plan.schedule, lhs.same_as(rhs), operands.reserve_rhs()
        left = right = None
        name = "whole"
        if not same and (schedule.lhs_layout == "csr" or not roles.rows):
            left = lhs.read(room, wanted_rows)
        if left is not None and _matches_few_rows(operands, left):
            max_bytes = int(operands.budget.working_bytes() / tuning().rhs_share) if plan.is_rhs_large else None
            right = rhs.read_rows(room, unique_sorted(lhs.columns(left, roles.shared)[0]), max_bytes)
            name = "whole" if right is None else "row_subset"
        if right is None and schedule.tiling == "row_subset" and plan.is_rhs_large:
            room.release()
            return None
        right = rhs.read(room) if right is None else right
        operand = CSROperand(operands, right, room)
        left = right if same else left
        rows = None if left is None else operand.lhs_rows(left, wanted_rows)
        room.grow(0 if rows is None else rows.nbytes)
        is_mask = mask is not None and wanted_rows is None and mask.same_as(lhs)
        return cls(operands, operand, rows, wanted_rows, left if is_mask else None, name, room.nbytes)

    @property
    def is_lhs_held(self) -> bool:
        """Whether all rows of the left operand are in memory."""
        return self._rows is not None

    @property
    def own_mask(self) -> Block | None:
        """The elements of the left operand, if they are those of the mask."""
        return self._own_mask

    def partitions(self) -> list[int]:
        """Return bounds of partitions along the leading axis of the output."""
        size = self._operands.node.schema.shape[0]
        if not size:
            return [0]
        if self._rows is not None:
            return [0, *self._rows.cut_bounds(size, partition_products(self._operands)), size]
        lhs = self._operands.lhs.scan
        bounds = partition_bounds([lhs], size)
        bounds = [0, *dict.fromkeys(bound for bound in bounds[1:-1] if 0 < bound < size), size]
        read = open_cursor(lhs, 0, size).read

        def refine(span: tuple[int, int]) -> list[int]:
            rows = self._read_rows(*span, read)
            return [*rows.cut_bounds(span[1], partition_products(self._operands)), span[1]]

        refined = ordered_map(refine, itertools.pairwise(bounds), settings.current().threads)
        return [0, *itertools.chain.from_iterable(refined)]

    def max_rows(self, start: int, stop: int) -> int:
        """Return an upper bound on the elements of rows [start, stop); may do I/O."""
        schema = self._operands.node.schema
        if self._rows is None:
            share = (stop - start) / schema.shape[0] if schema.ndim else 1
            return max(partition_products(self._operands), int(self._nnz_estimate * share))
        offsets, coords = self._rows.product_offsets, self._rows.coords
        at = range_slice(coords[0], start, stop) if coords else slice(0, len(offsets) - 1)
        return int(offsets[at.stop] - offsets[at.start]) if len(offsets) else 0

    @cached_property
    def _nnz_estimate(self) -> float:
        """Estimate of the elements of the output, or of products if they are fewer."""
        return min(estimate_contraction(self._operands.node))

    def open(self, first: int, last: int) -> ReadRange | None:
        """Open a cursor over rows [first, last) of the left operand, if it is streamed."""
        return None if self._rows is not None else open_cursor(self._operands.lhs.scan, first, last).read

    def map_rows(
        self,
        start: int,
        stop: int,
        read_lhs: ReadRange | None,
        function: Callable[[CSROperand, ProductKernels, LhsRows], T],
    ) -> list[T]:
        """Return the result of a function for rows [start, stop)."""
        return [function(self._rhs, self._kernels, self._read_rows(start, stop, read_lhs))]

    def _read_rows(self, start: int, stop: int, read_lhs: ReadRange | None) -> LhsRows:
        """Return the left rows with leading coordinates in [start, stop), held or read."""
        if read_lhs is None:
            assert self._rows is not None
            return self._rows.between(start, stop)
        block = self._operands.lhs.take_diagonals(read_lhs(start, stop))
        self.elements_read += block.count  # approximate: threads may lose a count
        return self._rhs.lhs_rows(block, self._wanted_rows)


def partition_products(operands: Operands) -> int:
    """Return the products of a partition, given by memory limit and plan."""
    current = tuning()
    if settings.current().has_ample_memory:
        return current.partition_products
    fits = operands.budget.working_bytes() // (current.product_bytes * current.partition_threads)
    return min(current.partition_products // 2, max(fits, current.min_partition_products))


def _matches_few_rows(operands: Operands, left: Block) -> bool:
    """Return whether only the matching rows of the right operand are read."""
    current = tuning()
    if len(operands.roles.shared) != 1 or current.tiling == "whole":
        return False
    return current.tiling == "row_subset" or left.count <= operands.rhs.nnz_estimate // current.row_subset_ratio


def _may_use_dots(operands: Operands, rhs: CSROperand, rows: LhsRows) -> bool:
    """Return whether dot products may be faster at the mask."""
    lhs, roles, mask, current = operands.lhs, operands.roles, operands.mask, tuning()
    if mask is None or operands.node.complement or not rhs.has_unique_columns or not rhs.row_index.is_plain:
        return False
    if len(set(lhs.indices)) != len(roles.rows) + len(roles.shared) or current.kernel == "masked":
        return False
    if current.kernel == "dot":
        return True
    if sum(array.nbytes for array in rhs.csr) > memory.share(current.lhs_share):
        return False
    n_products, nnz = int(rows.product_offsets[-1]), len(rhs.csr[1])
    n_mask = mask.nnz_estimate if is_cheap(mask.scan.relation) else n_products
    conversion = current.csc_element_products * (nnz + rhs.column_index.size)
    return conversion + current.dot_step_products * n_mask < n_products
