"""Tilings of products: the order in which parts of the operands are multiplied.

A tiling computes rows of the output when they are read, or it has computed everything into a spill file before. The
products of a row are added in the order of the shared indices. All tilings but k-panels, which add partial sums, give
the same bits.

Row sections are for spilled operands. The left one is cut into sections of rows, each as long as memory holds the right
rows that it multiplies: these are read back, and the kernel in memory computes the output rows, in order. No result
spills. Where neighboring rows multiply the same right rows, as those of a web graph do, few sections read little more
than the operand has; elsewhere so much may be read again that spilling partial results is faster.
"""

from __future__ import annotations

import itertools
import math
import threading
import weakref
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.stream.capabilities import ReadRange
from sparrow.engines.stream.cursors import open_cursor
from sparrow.engines.stream.partitioning import partition_bounds, range_slice
from sparrow.engines.stream.product.indexing import unique_sorted
from sparrow.engines.stream.product.kernels import ProductKernels
from sparrow.engines.stream.product.layouts import CSROperand, LhsRows
from sparrow.engines.stream.product.operands import Operands, SpilledOperands, is_cheap
from sparrow.engines.stream.product.physical import PhysicalPlan
from sparrow.engines.stream.product.tuning import tuning
from sparrow.kernels.coo import Block
from sparrow.kernels.jit.warmup import as_readonly
from sparrow.kernels.runs import group_starts, run_lengths
from sparrow.plan.estimates import estimate_contraction
from sparrow.runtime import events, memory, settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.runtime.threads import Waiters

if TYPE_CHECKING:
    from sparrow.sorting import Segment, SpilledBlocks

__all__ = ["InMemoryTiling", "RowSections", "RowTiling", "SpilledTiling", "Tiling", "partition_products"]

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

    @classmethod
    @abstractmethod
    def build(cls, operands: Operands, plan: PhysicalPlan, spilled: SpilledOperands) -> Self | None:
        """Return the tiling of a plan; None if the operands do not admit it."""

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
    """True if partitions are never larger than a thread multiplies at a time."""

    @property
    def is_lhs_held(self) -> bool:
        """True if all rows of the left operand are in memory."""
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
    def build(cls, operands: Operands, plan: PhysicalPlan, spilled: SpilledOperands) -> Self | None:
        """Read the operands; return None if a row subset would hold too much."""
        wanted_rows = spilled.wanted_rows
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
        """True if all rows of the left operand are in memory."""
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


# -- row sections --------------------------------------------------------------------------------

_ROW_BYTES = 13
"""Bytes per right row: its pointer, its length, and whether it is needed."""


@dataclass(frozen=True, slots=True)
class _Partition:
    """Rows [first, last) of a left block, with leading coordinates low to high."""

    section: int
    block: int
    first: int
    last: int
    low: int
    high: int
    products: int


class RowSections(RowTiling):
    """Rows of a product, computed with the right rows of one section in memory.

    Parameters
    ----------
    operands
        Operands of the product.
    lhs, rhs
        The spilled operands; their spill file is closed with this object.
    rows
        Coordinates of the rows of each left block, row pointers, and products before each row.
    lengths
        Stored elements of each right row.
    needs
        Bit set of the right rows that each section multiplies, in the spill file.
    partitions
        Partitions of all sections, in order.
    max_elements
        Right elements that a section multiplies at most.
    """

    name = "row_sections"
    has_small_partitions = True

    def __init__(
        self,
        operands: Operands,
        lhs: SpilledBlocks,
        rhs: SpilledBlocks,
        rows: list[tuple[Segment, ...]],
        lengths: NDArray[np.int32],
        needs: list[Segment],
        partitions: list[_Partition],
        max_elements: int,
    ) -> None:
        weakref.finalize(self, lhs.spool.close)
        self._operands, self._lhs, self._rhs = operands, lhs, rhs
        self._rows, self._lengths, self._needs, self._partitions = rows, lengths, needs, partitions
        self._low, self._high = (np.array([getattr(each, end) for each in partitions]) for end in ("low", "high"))
        self._before = np.cumsum([0, *(each.products for each in partitions)])
        self._counts = Counter(each.section for each in partitions)
        self._lock, self._waiters = threading.RLock(), Waiters()
        self._section, self._users, self._rest = -1, 0, 0
        """Section in memory, threads that use it, and partitions of it that are not computed yet."""
        self._loaded: tuple[CSROperand, ProductKernels] | None = None
        self.spilled_bytes = lhs.spool.nbytes
        self.elements_read = sum(lhs.counts()) + (0 if rhs is lhs else sum(rhs.counts()))
        self._room = operands.reserve_rhs()
        dtypes = [segment.dtype for segment in rhs.parts[0]]
        self._has_one_shared = len(operands.roles.shared) == 1
        """True if row pointers replace the leading coordinates of right elements."""
        self._largest = max(rhs.counts())
        self._buffers = [np.empty(max_elements + self._largest, dtype) for dtype in dtypes[self._has_one_shared :]]
        self._buffer_bytes = max_elements * sum(buffer.itemsize for buffer in self._buffers)
        self._room.grow(self._buffer_bytes)  # here rather than on workers, which must not wait
        events.emit("product.row_sections", sections=len(needs), partitions=len(partitions))

    @classmethod
    def build(cls, operands: Operands, plan: PhysicalPlan, spilled: SpilledOperands) -> Self | None:
        """Cut the left operand into sections; return None if that reads too much."""
        blocks = spilled.blocks()
        if blocks is None or not spilled.has_whole_right_rows:
            return None
        found = cls._plan(operands, *blocks)
        if found is not None:
            spilled.take()
        return found

    @classmethod
    def _plan(cls, operands: Operands, lhs: SpilledBlocks, rhs: SpilledBlocks) -> Self | None:
        """Plan a product by row sections; return None if that reads too much."""
        from sparrow.kernels.rows import find_section_end

        current, shared = tuning(), operands.roles.shared
        if not shared or not lhs.parts or not rhs.parts:
            return None
        size = operands.rhs.sizes[shared[0]]
        max_elements = _section_elements(operands, rhs, size)
        if not max_elements:
            return None
        lengths = as_readonly(_row_lengths(rhs, size))
        axis, counts = operands.lhs.indices.index(shared[0]), np.array(rhs.counts())
        spans = np.array([rhs.low, np.array(rhs.high) + 1]).T.ravel()
        marks, state = np.full(size, -1, np.int32), np.array([-1, 0, 0])
        rows: list[tuple[Segment, ...]] = []
        needs: list[Segment] = []
        partitions: list[_Partition] = []
        products = read = longest = 0
        partition_products = memory.limit() // current.section_partition_divisor
        partition_products = min(partition_products, current.section_max_partition_products)

        def close_section(end: int) -> bool:
            """Spill the right rows of a section as bits; return whether reads are in bounds."""
            nonlocal read, longest
            needed = (marks >= state[1]) & (marks < end)
            needs.append(lhs.spool.append(np.packbits(needed)))
            read += int(counts[np.logical_or.reduceat(np.append(needed, False), spans)[::2]].sum())
            longest = max(longest, int(state[2]))
            fits = longest <= current.section_uneven_ratio * max_elements
            fits &= read <= current.section_max_reads * (products + counts.sum())
            state[1], state[2] = state[0] + 1, 0
            return bool(fits)

        for at in range(len(lhs.parts)):
            columns, keys = [lhs.column(at, k) for k in range(len(operands.roles.rows))], lhs.column(at, axis)
            bounds = np.append(group_starts(columns, len(keys)), len(keys))
            coords = [column[bounds[:-1]] for column in columns]
            work, row = np.empty(len(bounds) - 1, np.int64), 0
            if len(work) + state[0] >= current.section_max_rows:
                return None
            while row < len(work):
                stop = find_section_end(
                    as_readonly(bounds), as_readonly(keys.astype(np.int32, copy=False)), lengths, max_elements, row,
                    marks, state, work,
                )  # fmt: skip
                before = np.append(0, np.cumsum(work[row:stop]))
                for first, last in _cut(before, partition_products):
                    low, high = coords[0][[row + first, row + last - 1]].tolist()
                    n_products = int(before[last] - before[first])
                    partitions.append(_Partition(len(needs), at, row + first, row + last, low, high, n_products))
                products += int(before[-1])
                if stop < len(work) and not close_section(int(state[0])):
                    return None
                row = stop
            rows.append(tuple(map(lhs.spool.append, (*coords, bounds, np.append(0, np.cumsum(work))))))
        if not close_section(int(state[0]) + 1):
            return None
        return cls(operands, lhs, rhs, rows, lengths, needs, partitions, longest)

    def partitions(self) -> list[int]:
        """Return bounds along the leading axis between which a partition lies."""
        size = self._operands.node.schema.shape[0]
        return [0, *dict.fromkeys(each.low for each in self._partitions if each.low), size] if size else [0]

    def max_rows(self, start: int, stop: int) -> int:
        """Return an upper bound on the elements of rows [start, stop)."""
        first, last = self._find(start, stop)
        return int(self._before[last] - self._before[first])

    def map_rows(
        self,
        start: int,
        stop: int,
        read_lhs: ReadRange | None,
        function: Callable[[CSROperand, ProductKernels, LhsRows], T],
    ) -> list[T]:
        """Return the results of a function for rows [start, stop), by partition."""
        return [self._apply(self._partitions[at], start, stop, function) for at in range(*self._find(start, stop))]

    def _find(self, start: int, stop: int) -> tuple[int, int]:
        first = int(np.searchsorted(self._high, start))
        return first, max(int(np.searchsorted(self._low, stop)), first)

    def _apply(
        self, partition: _Partition, start: int, stop: int, function: Callable[[CSROperand, ProductKernels, LhsRows], T]
    ) -> T:
        """Return the result for rows of a partition, as soon as its section is in memory."""
        section = partition.section
        self._waiters.wait_until(lambda: self._section == section or not self._users)
        # A section that later partitions need stays for a while after its last user.
        self._waiters.wait_until(lambda: self._may_use(section), tuning().section_wait_seconds)
        while (loaded := self._take(section)) is None:
            self._waiters.wait_until(lambda: not self._users)
        rhs, kernels = loaded
        del loaded
        try:
            return function(rhs, kernels, self._read_rows(partition, start, stop, rhs))
        finally:
            del rhs, kernels
            with self._lock:
                self._users -= 1
                self._rest -= stop > partition.high  # other bounds may split its rows
                self._waiters.notify()
                events.emit("product.section_read", section=self._section, rest=self._rest)

    def _may_use(self, section: int) -> bool:
        """Return whether a section is in memory, or no partition needs the one that is."""
        with self._lock:
            return self._section == section or not (self._users or self._rest > 0)

    def _take(self, section: int) -> tuple[CSROperand, ProductKernels] | None:
        """Return a section, loaded if need be, and count its user.

        None while threads use another one.
        """
        with self._lock:
            if self._section != section:
                if self._users:
                    return None
                self._load(section)
            self._users += 1
            return self._loaded

    def _read_rows(self, partition: _Partition, start: int, stop: int, rhs: CSROperand) -> LhsRows:
        """Read the rows of a partition with leading coordinates in [start, stop)."""
        lhs, read = self._operands.lhs, self._lhs.spool.read
        *row_coords, bounds, products = self._rows[partition.block]
        own = slice(partition.first, partition.last)
        if start > partition.low or stop <= partition.high:
            inside = range_slice(read(row_coords[0], partition.first, partition.last), start, stop)
            own = slice(partition.first + inside.start, partition.first + inside.stop)
        indptr, offsets = (read(segment, own.start, own.stop + 1) for segment in (bounds, products))
        first, last = indptr[[0, -1]].tolist()
        *axes, values = self._lhs.parts[partition.block]
        shared = [read(axes[lhs.indices.index(index)], first, last) for index in self._operands.roles.shared]
        coords = tuple(read(segment, own.start, own.stop) for segment in row_coords)
        return rhs.to_csr(
            coords, indptr - first, shared, read(values, first, last), offsets if self._has_one_shared else None
        )

    def _load(self, section: int) -> None:
        """Read the right rows of a section into buffers that all sections share."""
        from sparrow.kernels.rows import copy_rows, find_row_runs

        self._section, self._loaded = -1, None
        self._room.resize(self._buffer_bytes)
        memory.trim()
        rhs, bits, lengths = self._rhs, self._needs[section], as_readonly(self._lengths)
        needed = as_readonly(np.unpackbits(rhs.spool.read(bits, 0, bits.count), count=len(lengths)))
        indptr, runs = np.zeros(len(lengths) + 2, np.int64), np.empty((3, self._largest), np.int64)
        done = count = 0
        for segments, low, high in zip(rhs.parts, rhs.low, rhs.high, strict=True):
            indptr[done : low + 1] = count
            done = high + 1
            if not needed[low:done].any():
                indptr[low + 1 : done] = count
                continue
            size = segments[-1].count
            n_runs = find_row_runs(needed, lengths, low, done, indptr, *runs)
            starts, stops, begins = runs[:, :n_runs]
            for segment, buffer in zip(segments[self._has_one_shared :], self._buffers, strict=True):
                elements = rhs.spool.read(segment, 0, size, buffer[count : count + size])
                copy_rows(starts, stops, begins, elements, buffer)
            count = int(indptr[done])
        indptr[done:] = count
        *coords, values = (buffer[:count] for buffer in self._buffers)
        if self._has_one_shared:
            coords = [np.empty(0, rhs.parts[0][0].dtype), *coords]
        block = Block(tuple(coords), values)
        self.held_bytes = max(self.held_bytes, block.nbytes)
        self.elements_read += count
        operand = CSROperand(self._operands, block, self._room, indptr=indptr if self._has_one_shared else None)
        self._loaded = (
            operand,
            ProductKernels(self._operands, operand, topk=self._operands.node.topk, has_dense_rows=True),
        )
        self._section, self._rest = section, self._counts[section]


def _section_elements(operands: Operands, rhs: SpilledBlocks, n_rows: int) -> int:
    """Return the right elements that a section may hold; 0 if overhead is too large."""
    current, operand, roles = tuning(), operands.rhs, operands.roles
    if n_rows >= 2**31:
        return 0
    if current.section_elements is not None:
        return current.section_elements
    element_bytes = operand.element_bytes(operands.dtype) + operands.index_width(roles.columns)
    if len(roles.shared) == 1:
        element_bytes -= rhs.parts[0][0].dtype.itemsize  # row pointers replace the leading coordinates
    n_columns = math.prod(operand.sizes[index] for index in roles.columns)
    n_columns = min(n_columns, current.dense_codes_ratio * operand.nnz_estimate)
    thread_bytes = n_columns * operands.dtype.itemsize
    thread_bytes += 0 if operands.mask is None else current.section_mask_bytes
    room = operands.budget.working_bytes() / current.section_share
    overhead = _ROW_BYTES * n_rows + settings.current().threads * thread_bytes
    return 0 if overhead > room / current.section_overhead_share else int(room - overhead) // element_bytes


def _row_lengths(rhs: SpilledBlocks, size: int) -> NDArray[np.int32]:
    """Return the number of elements of each row, from blocks of whole rows."""
    out = np.zeros(size, np.int32)
    for at in range(len(rhs.parts)):
        column = rhs.column(at, 0)
        starts = group_starts((column,), len(column))
        out[column[starts]] = run_lengths(starts, len(column))
    return out


def _cut(before: NDArray[np.int64], size: int) -> list[tuple[int, int]]:
    """Return spans of rows of about ``size`` products."""
    at = np.searchsorted(before, np.arange(size, before[-1], size), "left")
    return list(itertools.pairwise(np.unique([0, *at, len(before) - 1]).tolist()))
