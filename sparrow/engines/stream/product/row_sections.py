"""Products with a spilled right operand, by sections of rows of the left one.

Both operands spill. The left one is cut into sections of rows, each as long as memory holds the right rows that it
multiplies: these are read back, and the kernel in memory computes the output rows, in order, with the bits of a
product in memory. No result spills.

Where neighboring rows multiply the same right rows, as those of a web graph do, few sections read little more than
the operand has; elsewhere so much may be read again that spilling partial results is faster.
"""

from __future__ import annotations

import itertools
import math
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.stream.capabilities import ReadRange
from sparrow.engines.stream.partitioning import range_slice
from sparrow.engines.stream.product.kernels import ProductKernels
from sparrow.engines.stream.product.layouts import CSROperand, LhsRows
from sparrow.engines.stream.product.operands import Operands
from sparrow.engines.stream.product.spill import SpilledOperands
from sparrow.engines.stream.product.tiling import RowTiling
from sparrow.engines.stream.product.tuning import tuning
from sparrow.kernels.coo import Block
from sparrow.kernels.jit.warmup import as_readonly
from sparrow.kernels.runs import group_starts, run_lengths
from sparrow.runtime import events, memory, settings
from sparrow.sorting import Segment, SpilledBlocks

__all__ = ["RowSections"]

T = TypeVar("T")

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
        self._lock = threading.RLock()  # not a Condition's own lock: see sparrow.runtime.thread_pool
        self._changed = threading.Condition(self._lock)
        self._section, self._users, self._rest = -1, 0, 0
        """Section in memory, threads that use it, and partitions of it that are not computed yet."""
        self._loaded: tuple[CSROperand, ProductKernels] | None = None
        self.spilled_bytes = lhs.spool.nbytes
        self.elements_read = sum(lhs.counts()) + (0 if rhs is lhs else sum(rhs.counts()))
        self._room = operands.reserve_rhs()
        dtypes = [segment.dtype for segment in rhs.parts[0]]
        self._has_one_shared = len(operands.roles.shared) == 1
        """Whether row pointers replace the leading coordinates of right elements."""
        self._largest = max(rhs.counts())
        self._buffers = [np.empty(max_elements + self._largest, dtype) for dtype in dtypes[self._has_one_shared :]]
        self._buffer_bytes = max_elements * sum(buffer.itemsize for buffer in self._buffers)
        self._room.grow(self._buffer_bytes)  # here rather than on workers, which must not wait
        events.emit("product.row_sections", sections=len(needs), partitions=len(partitions))

    @classmethod
    def build(cls, operands: Operands, spilled: SpilledOperands) -> RowSections | None:
        """Cut the left operand into sections; return None if that reads too much."""
        lhs, rhs = spilled.blocks()
        if lhs is None or rhs is None:
            return None
        found = _plan_row_sections(operands, lhs, rhs)
        if found is not None:
            spilled.take()
        return found

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
        with self._lock:
            waited = False
            while self._section != section and (self._users or (self._rest > 0 and not waited)):
                waited = not self._users
                self._changed.wait(tuning().section_wait_seconds if waited else None)
            if self._section != section:
                self._load(section)
            assert self._loaded is not None
            rhs, kernels = self._loaded
            self._users += 1
        try:
            return function(rhs, kernels, self._read_rows(partition, start, stop, rhs))
        finally:
            del rhs, kernels
            with self._lock:
                self._users -= 1
                self._rest -= stop > partition.high  # other bounds may split its rows
                self._changed.notify_all()
                events.emit("product.section_read", section=self._section, rest=self._rest)

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
        from sparrow.kernels.matmul.row_sections import find_row_runs
        from sparrow.kernels.rows import copy_rows

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


def _plan_row_sections(operands: Operands, lhs: SpilledBlocks, rhs: SpilledBlocks) -> RowSections | None:
    """Plan a product by row sections; return None if that reads too much."""
    from sparrow.kernels.matmul.row_sections import find_section_end

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
    return RowSections(operands, lhs, rhs, rows, lengths, needs, partitions, longest)


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
