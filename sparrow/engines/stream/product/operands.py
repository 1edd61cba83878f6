"""Operands of a product: roles of their indices, and reading them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import RangeAxis
from sparrow.core.schema import is_fill
from sparrow.engines.sort_orders import sorted_order
from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.partitioning import range_slice
from sparrow.engines.stream.product.indexing import is_factorized, isin_sorted
from sparrow.engines.stream.product.tuning import tuning
from sparrow.kernels.coo import Block, accumulator_dtype, concat_blocks, filter_block
from sparrow.plan import Contraction, Scan
from sparrow.relations.memory import MemoryRelation
from sparrow.relations.protocol import Chunk
from sparrow.runtime import memory

__all__ = ["LhsRows", "MaskRows", "Operand", "Operands"]


@dataclass(frozen=True, slots=True)
class IndexRoles:
    """Roles of the indices of a product: rows, shared, columns."""

    swapped: bool
    """Whether the right operand provides the rows."""
    rows: tuple[int, ...]
    shared: tuple[int, ...]
    columns: tuple[int, ...]


def _assign_roles(node: Contraction) -> IndexRoles:
    """Decide which operand provides the rows, and the roles of all indices."""
    left, right = map(set, node.indices)

    def is_prefix(own: set[int]) -> bool:
        within = [index in own for index in node.output_indices]
        return within == sorted(within, reverse=True)

    leads = [not node.output_indices or node.output_indices[0] in own for own in (left, right)]
    swapped = not leads[0] or (leads[1] and not is_prefix(left) and is_prefix(right))
    if left.isdisjoint(node.output_indices) and node.indices[1] and node.indices[1][0] in left:
        swapped = False  # one row, and the right operand is read in its own order
    own = right if swapped else left
    rows = tuple(index for index in node.output_indices if index in own)
    columns = tuple(index for index in node.output_indices if index not in own)
    shared = tuple(dict.fromkeys(index for index in node.indices[not swapped] if index in own))
    return IndexRoles(swapped, rows, shared, columns)


class Operand:
    """An operand with its axes in the order in which the product reads them."""

    def __init__(self, scan: Scan, indices: tuple[int, ...], wanted: tuple[int, ...]) -> None:
        order = [indices.index(index) for index in dict.fromkeys(wanted)]
        order += [axis for axis in range(len(indices)) if axis not in order]
        self.scan = scan if order == sorted(order) else scan.then(scan.view.permute(order))
        self.indices = tuple(indices[axis] for axis in order)
        self.sizes = dict(zip(indices, scan.schema.shape, strict=True))

    def same_as(self, other: Operand) -> bool:
        """Return whether both operands read the same elements in the same order."""
        mine, theirs = self.scan, other.scan
        alike = mine.source.token == theirs.source.token and mine.view == theirs.view
        return alike and len(set(self.indices)) == len(self.indices) and len(set(other.indices)) == len(other.indices)

    @property
    def nnz_estimate(self) -> int:
        """Estimate of the stored elements that are read."""
        return self.scan.relation.stats(self.scan.view.box(), sorted_order(self.scan)).rows

    def element_bytes(self, dtype: np.dtype[Any]) -> int:
        """Return the bytes of an element in memory, with its value in another dtype too."""
        schema = self.scan.schema
        return schema.element_bytes() + (dtype.itemsize if schema.dtype != dtype else 0)

    def read(self, room: memory.Reservation, wanted_rows: NDArray[Any] | None = None) -> Block:
        """Return the elements, sorted, or only rows at ascending leading coordinates."""
        found = None if wanted_rows is None else self.read_rows(room, wanted_rows)
        if found is not None:
            return found
        relation = self.scan.relation
        if isinstance(relation, MemoryRelation) and self.scan.view.is_identity:
            return self.take_diagonals(relation.as_csr_block())
        return self.take_diagonals(scan_reader.read_block(self.scan, room))

    def read_rows(
        self, room: memory.Reservation, wanted_rows: NDArray[Any], max_bytes: int | None = None
    ) -> Block | None:
        """Return the rows at ascending leading coordinates, by reading few chunks.

        Returns None if the elements are not stored in that order, if they take more than ``max_bytes``, or if most of
        an operand in memory is wanted anyway.
        """
        scan, order = self.scan, sorted_order(self.scan)
        if isinstance(scan.relation, MemoryRelation) and scan.view.is_identity:
            places = scan.relation.find_rows(wanted_rows)
            nbytes = int(places.lengths.sum()) * scan.schema.element_bytes()
            if 2 * nbytes > scan.relation.block.nbytes or (max_bytes is not None and nbytes > max_bytes):
                return None
            room.grow(nbytes)
            return self.take_diagonals(scan.relation.read_rows(wanted_rows, places))
        axis = scan.view.axes[0]
        if not scan.view.preserves_order(order) or not isinstance(axis, RangeAxis):
            return None
        targets = axis.start + axis.step * wanted_rows.astype(np.int64)
        leads = order[0] == axis.dim

        def has_rows(chunk: Chunk) -> bool:
            first = int(np.searchsorted(targets, chunk.low[axis.dim]))
            return first < len(targets) and targets[first] <= chunk.high[axis.dim]

        def select(block: Block) -> Block:
            return filter_block(block, isin_sorted(block.coords[0], wanted_rows))

        chunks = scan.relation.chunks(scan.view.box(), order) if len(wanted_rows) else []
        parts, read_bytes = [], 0
        for part in scan_reader.map_blocks(
            scan, select, order, [c for c in chunks if has_rows(c)] if leads else chunks
        ):
            room.grow(part.nbytes)
            parts.append(part)
            read_bytes += part.nbytes
            if max_bytes is not None and read_bytes > max_bytes:
                return None
        return self.take_diagonals(concat_blocks(parts, scan.schema.ndim, scan.schema.dtype))

    def take_diagonals(self, block: Block) -> Block:
        """Return the elements whose coordinates along repeated indices are equal."""
        for axis, index in enumerate(self.indices):
            first = self.indices.index(index)
            if first != axis:
                block = block.take(block.coords[first] == block.coords[axis])
        return block

    def columns(self, block: Block, indices: tuple[int, ...]) -> list[NDArray[Any]]:
        """Return the coordinates of elements along some indices."""
        return [block.column(self.indices.index(index)) for index in indices]


class Operands:
    """Operands and mask of a product, with axes in the order of multiplication.

    Parameters
    ----------
    node
        Plan node of the product.
    left, right, mask
        Scans of its operands and of its mask.
    """

    def __init__(self, node: Contraction, left: Scan, right: Scan, mask: Scan | None = None) -> None:
        self.node, self.roles = node, _assign_roles(node)
        indices = node.indices
        if self.roles.swapped:
            left, right, indices = right, left, (indices[1], indices[0])
        rows, shared, columns = self.roles.rows, self.roles.shared, self.roles.columns
        self.lhs = Operand(left, indices[0], (*rows, *shared))
        """The operand whose rows are rows of the output."""
        self.rhs = Operand(right, indices[1], (*shared, *columns))
        """The operand that is laid out in CSR, its rows along the shared indices."""
        self.mask = None if mask is None else Operand(mask, node.output_indices, (*rows, *columns))
        self.dtype = _accumulator(node)
        """Dtype in which products are accumulated."""

    def reserve_rhs(self) -> memory.Reservation:
        """Return an empty memory reservation for ``rhs`` in CSR."""
        which, shape = "left" if self.roles.swapped else "right", self.rhs.scan.schema.shape
        what = f"the {which} operand of a product, of shape {shape}, in CSR"
        return memory.reserve(0, what, "multiply some of its columns at a time")

    @property
    def is_in_order(self) -> bool:
        """Whether rows and columns are the axes of the output in order."""
        return (*self.roles.rows, *self.roles.columns) == self.node.output_indices

    @property
    def rhs_element_bytes(self) -> int:
        """Bytes of an element of ``rhs`` in memory, with its composite codes."""
        roles = self.roles
        return self.rhs.element_bytes(self.dtype) + sum(map(self.index_width, (roles.shared, roles.columns)))

    def index_width(self, indices: tuple[int, ...]) -> int:
        """Return the bytes of a composite code along some indices of ``rhs``; 0 if plain."""
        right = self.rhs
        size = math.prod(right.sizes[index] for index in indices)
        return tuning().index_bytes if is_factorized(size, right.nnz_estimate) else 0

    def cast_values(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return values in the dtype in which products are accumulated."""
        multiply = self.node.semiring.multiply
        if multiply == "pair":
            return np.empty(len(values), self.dtype)  # values are unused for `pair`
        with np.errstate(all="ignore"):
            if multiply == "and" or self.node.semiring.add == "or":
                values = values != 0
            return values.astype(self.dtype, copy=False)

    @property
    def dropped_value(self) -> Any:
        """Accumulated value that is not stored; NaN, which equals nothing, to keep all."""
        if not self.node.keep_fill:
            return self.dtype.type(self.node.schema.fill_value)
        return self.dtype.type(np.nan) if self.dtype.kind in "fc" else np.float64(np.nan)

    def finish(self, coords: Sequence[NDArray[Any]], out: NDArray[Any], weights: Any = None) -> tuple[Block, Any]:
        """Return accumulated values in the output dtype, without fill, and weights."""
        schema = self.node.schema
        with np.errstate(all="ignore"):
            values = out != 0 if schema.dtype.kind == "b" else out.astype(schema.dtype, copy=False)
        block = Block(tuple(coords), values)
        if self.node.keep_fill:
            return block, weights
        if values.dtype != out.dtype or schema.fill_value != schema.fill_value:
            is_absent = is_fill(values, schema.fill_value)
            if is_absent.any():
                block, weights = block.take(~is_absent), None if weights is None else weights[~is_absent]
        return block, weights


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
        found = np.unique(leading[at[at < len(leading)]])
        return [int(bound) for bound in found if leading[0] < bound < stop]

    def row_spans(self, size: int) -> list[tuple[int, int]]:
        """Return spans of rows by position with about ``size`` products each."""
        count = len(self.indptr) - 1
        if count <= 0 or self.product_offsets[-1] == self.product_offsets[0]:
            return []
        bounds = np.unique([0, *np.minimum(self._rows_at(size), count), count])
        return list(itertools.pairwise(bounds.tolist()))

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


def _accumulator(node: Contraction) -> np.dtype[Any]:
    """Return the dtype in which products are formed and accumulated."""
    semiring, dtype = node.semiring, node.schema.dtype
    if callable(semiring.add) or callable(semiring.multiply):  # functions receive operands in a common dtype
        dtype = np.result_type(*(scan.schema.dtype for scan in node.tensors), dtype)
        if semiring.add == "plus":
            return accumulator_dtype(dtype)
    elif semiring.add not in ("min", "max") or semiring.multiply not in ("times", "plus"):
        modular = semiring.plain or (semiring.add == "plus" and semiring.multiply in ("first", "second", "pair"))
        return np.dtype(np.uint64) if dtype == np.uint64 and not modular else accumulator_dtype(dtype)
    return dtype if dtype.kind in "iu" else accumulator_dtype(dtype)  # integers wrap around before they are compared
