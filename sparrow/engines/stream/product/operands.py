"""Operands of a product: roles of their indices, reading, memory, spilling.

The products of a plan are read at the same time, so each gets an equal part of the working memory. That depends on the
plan alone, and so do the bits. Products of plans that other threads evaluate are independent: one that finds too little
memory waits until they release theirs. A plan that holds memory already does not wait, so that no two plans wait for
each other.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import RangeAxis
from sparrow.core.schema import is_fill
from sparrow.engines.sort_orders import sorted_order
from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.operator import PhysicalOperator
from sparrow.engines.stream.product.indexing import is_factorized, isin_sorted, unique_sorted
from sparrow.engines.stream.product.tuning import tuning
from sparrow.kernels.coo import Block, accumulator_dtype, concat_blocks, filter_block
from sparrow.plan import Contraction, Scan
from sparrow.plan.estimates import estimate_nnz
from sparrow.relations.memory import MemoryRelation
from sparrow.relations.protocol import Chunk
from sparrow.runtime import events, memory, progress
from sparrow.runtime.threads import Waiters
from sparrow.sorting import SpilledBlocks, SpillFile

__all__ = [
    "Operand", "Operands", "ProductBudget", "SpilledOperands", "batch_elements", "concat_nonempty", "divide_memory",
    "is_cheap", "split_at_rows",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class IndexRoles:
    """Roles of the indices of a product: rows, shared, columns."""

    swapped: bool
    """True if the right operand provides the rows."""
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
        if self.scan.step is not None:
            return round(estimate_nnz(self.scan))
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
        self.budget = ProductBudget()
        """Memory that the product may hold."""
        self.dtype = _accumulator(node)
        """Dtype in which products are accumulated."""

    def panel_bytes(self) -> int:
        """Return the bytes of a panel of ``rhs``."""
        current = tuning()
        return max(int(self.budget.working_bytes() / current.part_share), current.min_part_bytes)

    def panel_elements(self) -> int:
        """Return the elements of a panel of ``rhs``."""
        return max(self.panel_bytes() // self.rhs_element_bytes, 1)

    @property
    def is_masked(self) -> bool:
        """True if only positions at stored elements of a mask are computed."""
        return self.mask is not None and not self.node.complement

    @property
    def can_output_csr(self) -> bool:
        """True if rows in CSR are the elements of the output, in its order and dtype."""
        schema = self.node.schema
        is_exact = self.dtype == schema.dtype and schema.fill_value == schema.fill_value
        return is_exact and self.is_in_order and bool(self.roles.rows) and tuning().output in (None, "csr")

    def find_mask_rows(self) -> NDArray[Any] | None:
        """Return the leading coordinates of the mask, or None if they are not few."""
        mask, current, schema = self.mask, tuning(), self.node.schema
        if mask is None or self.node.complement or not self.roles.rows or not is_cheap(mask.scan.relation):
            return None
        n_mask, dtype = mask.nnz_estimate, schema.coordinate_dtype(0)
        if current.mask_rows_ratio * n_mask > self.lhs.nnz_estimate:
            return None
        if n_mask * dtype.itemsize > memory.share(current.lhs_share):
            return None
        found = list(scan_reader.map_blocks(mask.scan, lambda block: unique_sorted(block.coords[0]), axes=(0,)))
        wanted = unique_sorted(np.concatenate(found)) if found else np.empty(0, dtype)
        return wanted if 2 * len(wanted) <= schema.shape[0] else None  # a filter for most rows does not pay

    def reserve_rhs(self) -> memory.Reservation:
        """Return an empty memory reservation for ``rhs`` in CSR."""
        which, shape = "left" if self.roles.swapped else "right", self.rhs.scan.schema.shape
        what = f"the {which} operand of a product, of shape {shape}, in CSR"
        return self.budget.reserve(what, "multiply some of its columns at a time")

    @property
    def is_in_order(self) -> bool:
        """True if rows and columns are the axes of the output in order."""
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

    def cast_results(self, out: NDArray[Any]) -> NDArray[Any]:
        """Return accumulated values in the output dtype."""
        dtype = self.node.schema.dtype
        with np.errstate(all="ignore"):
            return out != 0 if dtype.kind == "b" else out.astype(dtype, copy=False)

    def score(self, coords: Sequence[NDArray[Any]], out: NDArray[Any]) -> NDArray[Any]:
        """Return the scores of accumulated values, or the values if the product has none."""
        score = self.node.score
        if score is None:
            return out
        with np.errstate(all="ignore"):
            found = score.function(out, score.row_terms[coords[0]], score.column_terms[coords[1]])
            return found.astype(out.dtype, copy=False)

    def finish(self, coords: Sequence[NDArray[Any]], out: NDArray[Any], weights: Any = None) -> tuple[Block, Any]:
        """Return accumulated values in the output dtype, without fill, and weights."""
        schema, values = self.node.schema, self.cast_results(out)
        block = Block(tuple(coords), values)
        if self.node.keep_fill:
            return block, weights
        if values.dtype != out.dtype or schema.fill_value != schema.fill_value:
            is_absent = is_fill(values, schema.fill_value)
            if is_absent.any():
                block, weights = block.take(~is_absent), None if weights is None else weights[~is_absent]
        return block, weights


def is_cheap(relation: Any) -> bool:
    """Return whether a relation is cheap to read twice: not computed by a product."""
    if isinstance(relation, PhysicalOperator):
        is_product = isinstance(relation.token, Contraction)
        return not is_product and all(is_cheap(scan.relation) for scan in relation.children)
    return bool(relation.has_exact_counts)


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


# -- memory --------------------------------------------------------------------------------------

_products: ContextVar[int] = ContextVar("sparrow_products_of_plan", default=1)
"""Number of products of the plan that is lowered."""

_rooms: weakref.WeakSet[_Room] = weakref.WeakSet()
_lock, _waiters = threading.RLock(), Waiters()


@contextlib.contextmanager
def divide_memory(products: int) -> Iterator[None]:
    """Give each product that is lowered within the block an equal part of the memory."""
    token = _products.set(max(products, 1))
    try:
        yield
    finally:
        _products.reset(token)


class ProductBudget:
    """The part of the working memory that one product may hold.

    The thread that lowers a plan owns the memory of its products.
    """

    __slots__ = ("_owner", "_products")

    def __init__(self) -> None:
        self._owner, self._products = threading.get_ident(), min(_products.get(), tuning().max_divided_products)

    def working_bytes(self) -> int:
        """Return the working memory of the product, given by limit and plan."""
        return memory.working_bytes() // self._products

    def reserve(self, what: str, remedy: str) -> memory.Reservation:
        """Return an empty reservation, which waits for other plans where it grows."""
        return _Room(what, remedy, self._owner)


class _Room(memory.Reservation):
    """A reservation of a product."""

    __slots__ = ("__weakref__", "_owner")

    def __init__(self, what: str, remedy: str, owner: int) -> None:
        super().__init__(what, remedy)
        self._owner = owner
        with _lock:
            _rooms.add(self)

    def grow(self, nbytes: int) -> None:
        """Reserve ``nbytes`` more, waiting while other plans hold too much.

        Raises
        ------
        TooLargeError
            If they are not available; the reservation is unchanged.
        """
        limit, deadline = memory.working_bytes(), time.monotonic() + tuning().wait_seconds
        while True:
            with _lock:
                if not self._must_wait(nbytes, limit) or time.monotonic() >= deadline:
                    super().grow(nbytes)
                    return
            events.emit("product.wait", nbytes=nbytes)
            # Reservations that are collected do not notify.
            _waiters.wait_until(lambda: not self._must_wait(nbytes, limit), tuning().wait_poll_seconds)

    def resize(self, nbytes: int) -> None:
        """Set the size without a check."""
        super().resize(nbytes)
        _waiters.notify()

    def _must_wait(self, nbytes: int, limit: int) -> bool:
        """Return whether plans of other threads hold memory that this one could wait for."""
        with _lock:
            rooms = list(_rooms)
        if any(room.nbytes for room in rooms if room._owner == self._owner):
            return False
        held = sum(room.nbytes for room in rooms)
        return held > 0 and held + nbytes > limit


# -- spilled operands ----------------------------------------------------------------------------


def batch_elements(divisor: int) -> int:
    """Return the elements processed at a time: memory limit / ``divisor``, bounded."""
    current = tuning()
    return min(max(memory.limit() // divisor, current.min_batch_elements), current.max_batch_elements)


class SpilledOperands:
    """Both operands in spill files, written when a tiling asks for them.

    A context manager that closes the spill file unless a tiling has taken it over.

    Parameters
    ----------
    operands
        Operands of the product.
    wanted_rows
        Leading coordinates of ``lhs`` to spill, None for all.
    """

    def __init__(self, operands: Operands, wanted_rows: NDArray[Any] | None) -> None:
        self._operands, self.wanted_rows = operands, wanted_rows
        self._spool: SpillFile | None = None
        self._blocks: tuple[SpilledBlocks, SpilledBlocks] | None = None
        self._is_taken = False

    def blocks(self) -> tuple[SpilledBlocks, SpilledBlocks] | None:
        """Return both operands in blocks of rows; None if a left row is too long.

        Right rows that are longer than a panel are cut.
        """
        if self._spool is None:
            self._spool = SpillFile()
            self._blocks = self._spill(self._spool)
        return self._blocks

    @property
    def has_whole_right_rows(self) -> bool:
        """True if no right row is cut between two blocks."""
        assert self._blocks is not None
        rhs = self._blocks[1]
        return all(high < low for high, low in zip(rhs.high, rhs.low[1:], strict=False))

    def take(self) -> None:
        """Leave the spill file to an owner who closes it."""
        self._is_taken = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._spool is not None and not self._is_taken:
            self._spool.close()

    def _spill(self, spool: SpillFile) -> tuple[SpilledBlocks, SpilledBlocks] | None:
        events.emit("product.spill")
        events.emit("product.spill_file", spool=spool)
        current, lhs, rhs = tuning(), self._operands.lhs, self._operands.rhs
        room, wanted = self._operands.panel_elements(), self.wanted_rows
        same = wanted is None and lhs.same_as(rhs)
        size = batch_elements(current.lhs_tile_divisor)
        size = min(size, room) if same else size
        row_bytes = current.lhs_row_share * lhs.element_bytes(self._operands.dtype)
        max_row = max(int(self._operands.budget.working_bytes() / row_bytes), 2 * size)
        blocks = _read_sorted(lhs)
        if wanted is not None:
            blocks = (filter_block(block, isin_sorted(block.coords[0], wanted)) for block in blocks)
            blocks = (block for block in blocks if block.count)
        tiles = SpilledBlocks(spool)
        for block in split_at_rows(blocks, size, max_row):
            if tiles.high and block.coords[0][0] == tiles.high[-1]:  # a row is cut
                return None
            tiles.append(block)
        memory.trim()
        if same:
            return tiles, tiles
        panels = SpilledBlocks(spool)
        for block in split_at_rows(_read_sorted(rhs), min(room, size), room):
            panels.append(block)
        memory.trim()
        return tiles, panels


def _read_sorted(operand: Operand) -> Iterator[Block]:
    """Yield the elements of an operand, sorted."""
    with progress.bar("reading an operand", operand.nnz_estimate, "elements") as advance:
        for block in scan_reader.iter_sorted_blocks(operand.scan):
            advance(block.count)
            found = operand.take_diagonals(block)
            if found.count:
                yield found


def split_at_rows(blocks: Iterator[Block], size: int, max_row: int) -> Iterator[Block]:
    """Yield sorted elements in blocks of about ``size`` that end with a row.

    A row longer than ``max_row`` is cut into blocks of this length.
    """
    rest: list[Block] = []
    count = 0
    for block in blocks:
        leading, start = block.coords[0], 0
        while start + size - count < block.count:
            if count < size:
                row = leading[start + size - count]
                stop = int(np.searchsorted(leading, row))
                if stop <= start:
                    stop = int(np.searchsorted(leading, row, "right"))
            else:
                stop = int(np.searchsorted(leading, rest[-1].coords[0][-1], "right"))
            if stop == block.count:
                break  # the last row may continue
            if start < stop:
                rest.append(block.take(slice(start, stop)))
            yield concat_nonempty(rest)
            rest, count, start = [], 0, stop
        rest.append(block.take(slice(start, None)))
        count += rest[-1].count
        while count > max_row + size:  # earlier rows in it have fewer than ``size`` elements
            long = concat_nonempty(rest)
            yield long.take(slice(0, max_row))
            rest, count = [long.take(slice(max_row, None))], count - max_row
    if rest:
        yield concat_nonempty(rest)


def concat_nonempty(blocks: Sequence[Block]) -> Block:
    """Concatenate at least one block."""
    return concat_blocks(blocks, len(blocks[0].coords), blocks[0].values.dtype)
