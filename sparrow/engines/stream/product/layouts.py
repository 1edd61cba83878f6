"""Layouts of operands in memory: CSR, and rows of the left one and the mask."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.cursors import open_cursor
from sparrow.engines.stream.partitioning import range_slice
from sparrow.engines.stream.product.indexing import CompositeIndex, isin_sorted
from sparrow.engines.stream.product.operands import Operand, Operands
from sparrow.engines.stream.product.tuning import tuning
from sparrow.kernels.coo import Block, CSRBlock, RowIndex, filter_block, row_pointers
from sparrow.kernels.dispatch import prefer_numpy
from sparrow.kernels.jit.warmup import as_readonly
from sparrow.kernels.matmul import numpy_fallback
from sparrow.kernels.runs import group_starts
from sparrow.runtime import events, memory, settings
from sparrow.runtime.once import Once
from sparrow.runtime.thread_pool import ordered_map

if TYPE_CHECKING:
    from sparrow.kernels.matmul.count import RowCounter, ValueRange

__all__ = ["CSROperand", "LhsRows", "MaskRows"]


@dataclass(frozen=True, slots=True)
class LhsRows:
    """Rows of ``lhs`` in CSR, with column indices translated to rows of ``rhs``."""

    coords: tuple[NDArray[Any], ...]
    """Coordinates of each row along the row indices, shape (m,) each."""
    indptr: NDArray[np.int64]
    rhs_rows: NDArray[Any]
    """Row of ``rhs`` that each element multiplies, shape (n,)."""
    values: NDArray[Any]
    product_offsets: NDArray[np.int64]
    """Products before each row, shape (m + 1,)."""

    @property
    def nbytes(self) -> int:
        """Bytes beside the values."""
        return sum(array.nbytes for array in (*self.coords, self.indptr, self.rhs_rows, self.product_offsets))

    @property
    def flops(self) -> int:
        """Number of products of all rows."""
        return int(self.product_offsets[-1] - self.product_offsets[0]) if len(self.product_offsets) else 0

    def between(self, start: int, stop: int) -> LhsRows:
        """Return the rows whose leading coordinate is in [start, stop)."""
        if not self.coords:
            return self
        at = range_slice(self.coords[0], start, stop)
        return self.slice_rows(at.start, at.stop)

    def slice_rows(self, first: int, last: int) -> LhsRows:
        """Return the rows [first, last) by position."""
        coords = tuple(column[first:last] for column in self.coords)
        own = slice(first, last + 1)
        return LhsRows(coords, self.indptr[own], self.rhs_rows, self.values, self.product_offsets[own])

    def leading_bounds(self, size: int) -> tuple[int, int]:
        """Return the bounds of the leading coordinates of the rows."""
        if not self.coords:
            return 0, size
        leading = self.coords[0]
        return (int(leading[0]), int(leading[-1]) + 1) if len(leading) else (0, 0)

    def cut_bounds(self, stop: int, size: int) -> list[int]:
        """Return leading coordinates that cut the rows into ``size`` products each."""
        if len(self.product_offsets) <= 1 or not self.coords:
            return []
        leading = self.coords[0]
        at = self._rows_at(size)
        found = set(leading[at[at < len(leading)]].tolist())
        return [bound for bound in sorted(found) if leading[0] < bound < stop]

    def row_spans(self, size: int) -> list[tuple[int, int]]:
        """Return spans of rows by position with about ``size`` products each."""
        count = len(self.indptr) - 1
        if count <= 0 or self.product_offsets[-1] == self.product_offsets[0]:
            return []
        return _pair_bounds(np.minimum(self._rows_at(size), count), count)

    def _rows_at(self, size: int) -> NDArray[np.intp]:
        """Return the rows before which there are multiples of ``size`` products."""
        targets = np.arange(size, int(self.product_offsets[-1] - self.product_offsets[0]), size)
        found: NDArray[np.intp] = np.searchsorted(self.product_offsets, self.product_offsets[0] + targets)
        return found


@dataclass(frozen=True, slots=True)
class MaskRows:
    """Stored elements of a mask by output row."""

    block: Block
    """The elements, sorted by row and column."""
    begins: NDArray[np.uint64]
    """Position of the first element of each row, shape (m,)."""
    ends: NDArray[np.uint64]
    columns: NDArray[np.uint32]
    """Column of each element."""


class CSROperand:
    """Elements of ``rhs`` in CSR, with rows along the shared indices.

    Parameters
    ----------
    operands
        Operands of the product.
    block
        The elements, sorted.
    reservation
        Grows by what is laid out.
    span
        Bounds along the first shared index, if ``block`` holds only the elements between them.
    indptr
        Row pointers along the only shared index, with one empty row at the end, if they are known; coordinates along
        it are then not read.

    Attributes
    ----------
    row_index, column_index
        Codes of rows and of columns.
    csr
        Row pointers uint64 (k + 1,), column codes uint32 (n,), and values (n,), read-only.
    has_unique_columns
        Whether no column occurs twice in a row.
    """

    def __init__(
        self,
        operands: Operands,
        block: Block,
        reservation: memory.Reservation,
        span: tuple[int, int] | None = None,
        indptr: NDArray[np.int64] | None = None,
    ) -> None:
        self._operands = operands
        roles, rhs = operands.roles, operands.rhs
        heads = None if span is not None or indptr is not None else _known_rows(block, rhs, roles.shared)
        shared = [*heads.coords] if heads is not None else rhs.columns(block, roles.shared)
        self._column_coords = rhs.columns(block, roles.columns)
        sizes = [rhs.sizes[index] for index in roles.shared]
        self._first = 0
        if span is not None:
            self._first, sizes[0] = span[0], span[1] - span[0]
        count = None if indptr is None else len(indptr)
        self.row_index = CompositeIndex(self._shift(shared), sizes, count if heads is None else block.count)
        self.column_index = CompositeIndex(self._column_coords, [rhs.sizes[index] for index in roles.columns])
        codes = self.row_index.codes
        if indptr is None:
            height = self.row_index.size + 1  # the last row is empty: left elements without a counterpart refer to it
            if codes is None:
                indptr = np.array([0, block.count, block.count])
            elif heads is not None:
                indptr = RowIndex((codes,), heads.pointers).indptr(height)
            else:
                indptr = _to_indptr(codes, height)
        columns = self.column_index.codes
        if columns is None:
            columns = np.zeros(block.count, np.int32)
        self._indptr = indptr
        self.row_index.codes = None  # ``indptr`` holds them from here on
        reservation.grow(indptr.nbytes + self.row_index.nbytes + self.column_index.nbytes)
        self.has_unique_columns = len(set(rhs.indices)) == len(roles.shared) + len(roles.columns)
        self.csr = (
            as_readonly(indptr.view(np.uint64)),
            as_readonly(columns.astype(np.int32, copy=False).view(np.uint32)),
            as_readonly(operands.cast_values(block.values)),
        )
        self.value_range = Once(functools.partial(_find_value_range, self.csr[2]))
        """Returns the bounds of the values, None unless they are finite real numbers."""
        self.row_counter = Once(functools.partial(_make_row_counter, self.csr, self.column_index.size, reservation))
        """Returns the counter of distinct columns, built on first use."""
        self.to_csc = Once(functools.partial(_to_csc, self.csr, self.column_index.size, reservation))
        """Returns column pointers, row numbers and values by column, converted on first use."""

    def _shift(self, columns: list[NDArray[Any]]) -> list[NDArray[Any]]:
        """Return shared coordinates, counted from the start of the span."""
        return [columns[0] - columns[0].dtype.type(self._first), *columns[1:]] if self._first else columns

    def column_coords(self, codes: NDArray[Any], dtypes: list[np.dtype[Any]]) -> list[NDArray[Any]]:
        """Return the coordinates of column codes along the column indices."""
        return self.column_index.decode(codes, self._column_coords, dtypes)

    def lhs_rows(self, block: Block, wanted_rows: NDArray[Any] | None = None) -> LhsRows:
        """Return sorted elements of ``lhs`` in CSR, or only some of the rows."""
        lhs, roles = self._operands.lhs, self._operands.roles
        if wanted_rows is not None and block.count:
            block = filter_block(block, isin_sorted(block.coords[0], wanted_rows))
        heads = _known_rows(block, lhs, roles.rows)
        shared = lhs.columns(block, roles.shared)
        if heads is not None:
            rows = self.to_csr(heads.coords, heads.pointers, shared, block.values)
        else:
            columns = lhs.columns(block, roles.rows)
            starts = group_starts(columns, block.count) if columns else np.zeros(min(block.count, 1), np.int64)
            coords = tuple(column[starts] for column in columns)
            rows = self.to_csr(coords, np.append(starts, block.count), shared, block.values)
        events.emit("product.lhs_rows", products=rows.product_offsets[-1])
        return rows

    def to_csr(
        self,
        coords: tuple[NDArray[Any], ...],
        indptr: NDArray[np.int64],
        shared: list[NDArray[Any]],
        values: NDArray[Any],
        product_offsets: NDArray[np.int64] | None = None,
    ) -> LhsRows:
        """Return rows of ``lhs`` in CSR, as kernels take them.

        Parameters
        ----------
        coords, indptr
            Coordinates of each row, and row pointers.
        shared, values
            Coordinates of the elements along the shared indices, and their values.
        product_offsets
            Products before each row, from any offset; counted by default.
        """
        rhs_rows = self.row_index.encode(self._shift(shared), len(values))
        rhs_rows = as_readonly(rhs_rows.astype(np.int32, copy=False))
        if product_offsets is None:
            product_offsets = _count_products(indptr, rhs_rows, self._indptr)
        return LhsRows(coords, indptr, rhs_rows, self._operands.cast_values(values), product_offsets)

    def mask_rows(self, rows: LhsRows, block: Block, start: int, stop: int) -> MaskRows:
        """Return the elements of a mask by output row.

        Parameters
        ----------
        rows
            Rows of ``lhs``, which are the rows of the output.
        block
            Elements of the mask with leading coordinates in [start, stop).
        start, stop
            These bounds.
        """
        mask, roles = self._operands.mask, self._operands.roles
        assert mask is not None
        count = len(rows.indptr) - 1
        columns = self.column_index.encode(mask.columns(block, roles.columns), block.count)
        is_known = columns < self.column_index.size if self.column_index.size < self._max_columns else None
        row: NDArray[Any] | None = None
        if len(rows.coords) > 1:
            row_index = CompositeIndex(rows.coords, [self._operands.lhs.sizes[index] for index in roles.rows])
            order = np.full(row_index.size + 1, -1, np.int64)
            order[row_index.codes] = np.arange(count)
            row = order[row_index.encode(mask.columns(block, roles.rows), block.count)]
            is_known = (row >= 0) & (True if is_known is None else is_known)
        if is_known is not None and not is_known.all():
            block, columns, row = block.take(is_known), columns[is_known], None if row is None else row[is_known]
        if row is None and rows.coords:
            leading = block.coords[0]
            wanted = rows.coords[0].astype(leading.dtype, copy=False)
            if stop - start <= tuning().counted_rows_ratio * (block.count + count):
                from sparrow.kernels.rows import indptr_from_sorted

                bounds = indptr_from_sorted(leading, start, stop)
                begins, ends = bounds[wanted - start], bounds[wanted - start + 1]
            else:
                begins, ends = np.searchsorted(leading, wanted, "left"), np.searchsorted(leading, wanted, "right")
        else:
            bounds = row_pointers(np.zeros(block.count, np.int64) if row is None else row, count)
            begins, ends = bounds[:-1], bounds[1:]
        return MaskRows(block, begins.view(np.uint64), ends.view(np.uint64), columns.astype(np.uint32))

    def read_mask_rows(self, rows: LhsRows) -> MaskRows | None:
        """Read the elements of the mask in some rows; return None without a mask."""
        mask, schema = self._operands.mask, self._operands.node.schema
        if mask is None:
            return None
        if not schema.ndim:
            return self.mask_rows(rows, scan_reader.read_block(mask.scan), *rows.leading_bounds(1))
        start, stop = rows.leading_bounds(schema.shape[0])
        cursor = open_cursor(mask.scan, start, stop)
        return self.mask_rows(rows, cursor.read(start, stop), start, stop)

    def own_mask_rows(self, rows: LhsRows, block: Block) -> MaskRows | None:
        """Return the mask's rows if it has the elements of ``lhs``, else None."""
        has_plain_axes = self.row_index.is_plain and self.column_index.is_plain
        if not (len(rows.coords) == 1 and len(block.coords) == 2 and has_plain_axes):
            return None
        events.emit("product.own_mask")
        first, last = int(rows.indptr[0]), int(rows.indptr[-1])
        indptr = (rows.indptr - first).view(np.uint64)
        columns = rows.rhs_rows[first:last].view(np.uint32)
        return MaskRows(block.take(slice(first, last)), indptr[:-1], indptr[1:], columns)

    @property
    def _max_columns(self) -> int:
        """Number of columns of the output, stored or not."""
        return math.prod(self._operands.rhs.sizes[index] for index in self._operands.roles.columns)


def _count_products(lhs_indptr: NDArray[Any], rhs_rows: NDArray[Any], rhs_indptr: NDArray[Any]) -> NDArray[np.int64]:
    """Return the number of products before each left row, and in all."""
    if prefer_numpy("count_products", len(rhs_rows)):
        return numpy_fallback.count_products(lhs_indptr, rhs_rows, rhs_indptr)
    from sparrow.kernels.matmul import symbolic

    offsets = np.empty(len(lhs_indptr), np.int64)
    offsets[0] = 0
    begins, rhs_indptr = (as_readonly(each.view(np.uint64)) for each in (lhs_indptr, rhs_indptr))
    rows_u32 = as_readonly(rhs_rows.view(np.uint32))
    batch = tuning().count_batch_elements
    bounds = np.searchsorted(lhs_indptr, np.arange(batch, len(rhs_rows), batch))
    spans = _pair_bounds(bounds, len(lhs_indptr) - 1)

    def count(span: tuple[int, int]) -> tuple[int, int]:
        bounds = slice(span[0], span[1] + 1)
        symbolic.count_products(begins[bounds], rows_u32, rhs_indptr, offsets[bounds])
        return span

    for first, last in ordered_map(count, spans, settings.current().threads):
        offsets[first + 1 : last + 1] += offsets[first]
    return offsets


def _find_value_range(values: NDArray[Any]) -> ValueRange | None:
    from sparrow.kernels.matmul.count import ValueRange

    return ValueRange.from_values(values)


def _pair_bounds(inner: NDArray[Any], stop: int) -> list[tuple[int, int]]:
    """Return the ranges between bounds from 0 to ``stop``, in any order or equal."""
    return list(itertools.pairwise(sorted({0, *inner.tolist(), stop})))


def _make_row_counter(
    csr: tuple[NDArray[Any], NDArray[Any], NDArray[Any]], n_columns: int, reservation: memory.Reservation
) -> RowCounter:
    from sparrow.kernels.matmul.count import RowCounter

    found = RowCounter(csr[0], csr[1], n_columns)
    reservation.grow(found.nbytes)
    return found


def _to_csc(
    csr: tuple[NDArray[Any], NDArray[Any], NDArray[Any]], n_columns: int, reservation: memory.Reservation
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Convert CSR to CSC."""
    from sparrow.kernels.matmul.masked import csr_to_csc

    _, columns, values = csr
    indptr = np.zeros(n_columns + 1, np.uint64)
    rows, csc_values = np.empty(len(columns), np.uint32), np.empty_like(values)
    reservation.grow(indptr.nbytes + rows.nbytes + csc_values.nbytes)
    csr_to_csc(*csr, indptr, rows, csc_values)
    return as_readonly(indptr), as_readonly(rows), as_readonly(csc_values)


def _known_rows(block: Block, operand: Operand, indices: tuple[int, ...]) -> RowIndex | None:
    """Return the row coordinates and pointers of a block, if it has them."""
    if not isinstance(block, CSRBlock) or len(block.heads.coords) > 1 or indices != operand.indices[:1]:
        return None
    return block.heads if operand.indices.count(indices[0]) == 1 else None


def _to_indptr(rows: NDArray[Any], size: int) -> NDArray[np.int64]:
    """Return row pointers of elements sorted by row."""
    if prefer_numpy("indptr_from_sorted", max(len(rows), size)):
        return row_pointers(rows, size)
    from sparrow.kernels.rows import indptr_from_sorted

    return indptr_from_sorted(rows, 0, size)
