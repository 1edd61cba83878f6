"""Matrices that are multiplied by arrays again and again: their rows, persisted.

The stream engine decodes a stored matrix for each product. Where a process multiplies the same version of a matrix
several times, its rows are kept as CSR, within a share of the memory limit, until another operation needs the memory.

The bits stay the same: the stream engine sums a row from left to right within a chunk, then adds the sums of chunks in
order, and so do persisted rows.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import View
from sparrow.engines.sort_orders import groups_output, product_order
from sparrow.engines.stream.block_buffer import BlockBuffer
from sparrow.engines.stream.scan_reader import map_blocks, split_runs
from sparrow.engines.tuning import tuning
from sparrow.errors import TooLargeError
from sparrow.kernels.coo import Block, row_pointers, sort_to_csr
from sparrow.plan import Scan
from sparrow.relations import csr
from sparrow.relations.csr import CSRRows
from sparrow.relations.memory import MemoryRelation
from sparrow.relations.protocol import Relation
from sparrow.runtime import memory
from sparrow.runtime.events import emit
from sparrow.runtime.progress import format_quantity

__all__ = [
    "PersistedRows", "RepeatedProduct", "RepeatedProducts", "finish_values", "persist_rows", "persisted_budget",
    "repeats_of", "rows_bytes", "to_rows",
]  # fmt: skip

_MAX_SCANS = 64
"""Views and dtypes of one matrix whose products are counted."""


@dataclass(frozen=True, slots=True, eq=False)
class PersistedRows:
    """Rows of a matrix in CSR form, in the dtype of the sums and less the fill.

    A row that several chunks hold is several rows here, whose sums are added.
    """

    rows: CSRRows
    parts: NDArray[np.int64]
    """Ascending numbers in ``rows`` of those that continue the row before them."""
    targets: NDArray[np.int64]
    """For each of ``parts`` the row that it belongs to."""
    order: tuple[int, ...] | None = None
    """Sort order of the relation that the elements are in; None if they have another one."""

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        rows = self.rows
        arrays = (rows.indptr, rows.indices, rows.values, self.parts, self.targets)
        return sum(array.nbytes for array in arrays)

    @property
    def height(self) -> int:
        """Number of rows of the matrix."""
        return len(self.rows.indptr) - 1 - len(self.parts)

    def accumulate(self, scan: Scan | None, x: NDArray[Any], out: NDArray[Any]) -> None:
        """Write the product with ``x``, of shape (k,) or (k, c), to ``out``."""
        if not len(self.parts):
            csr.accumulate(self.rows, 0, x, out)
            return
        sums = np.empty((len(self.rows.indptr) - 1, *out.shape[1:]), out.dtype)
        csr.accumulate(self.rows, 0, x, sums)
        is_first = np.ones(len(sums), np.bool_)
        is_first[self.parts] = False
        with np.errstate(all="ignore"):
            out[...] = sums[is_first]
            np.add.at(out, self.targets, sums[self.parts])


def persist_rows(
    scan: Scan, dtype: np.dtype[Any], room: memory.Reservation, transposed: PersistedRows | None = None
) -> PersistedRows:
    """Return the rows of a matrix that a scan of a relation shows.

    Parameters
    ----------
    dtype
        Dtype of the sums.
    room
        Reservation that accounts for them.
    transposed
        Rows of the transposed scan, in the same dtype: the files need not be read again.

    Raises
    ------
    TooLargeError
        If they exceed the available memory.
    """
    schema, relation = scan.schema, scan.relation
    fill, none = schema.fill_value, np.zeros(0, np.int64)
    known = csr.csr_rows(relation, scan.view)
    if known is not None:
        values = finish_values(known.values, fill, dtype, room)
        return PersistedRows(CSRRows(known.indptr - known.indptr[0], known.indices, values), none, none)
    order = product_order(scan)
    is_grouped = groups_output(scan.view, order)
    if transposed is not None and transposed.order == order and not is_grouped:
        indptr = np.delete(transposed.rows.indptr, transposed.parts)
        room.grow(len(transposed.rows.indices) * schema.coordinate_dtype(1).itemsize)
        columns = np.repeat(np.arange(schema.shape[1], dtype=schema.coordinate_dtype(1)), np.diff(indptr))
        return to_rows(transposed.rows.indices, columns, transposed.rows.values, none, order, schema.shape, room)
    chunks, runs = split_runs(relation, scan.view.box(), order)
    if isinstance(relation, MemoryRelation) and scan.view.is_identity:
        (rows, columns), values = relation.block.coords, relation.block.values
        ends, sorted_count = np.cumsum([chunk.rows for chunk in chunks], dtype=np.int64), len(rows)
    else:
        buffer, ends, sorted_count = BlockBuffer(schema, sum(chunk.rows for chunk in (*chunks, *runs)), room), none, 0
        for block in map_blocks(scan, lambda block: block, order, chunks, doing="persisting"):
            buffer.put(len(ends), block)
            sorted_count += block.count
            ends = np.append(ends, sorted_count)
        for number, block in enumerate(map_blocks(scan, lambda block: block, order, runs), len(ends)):
            buffer.put(number, block)
        elements = buffer.block()
        (rows, columns), values = elements.coords, elements.values
        del elements
    values = finish_values(values, fill, dtype, room)
    # Elements of append runs are added to their rows one by one, after the sums of the chunks.
    starts = np.append(ends[ends < sorted_count], np.arange(sorted_count, len(rows)))
    return to_rows(rows, columns, values, starts if is_grouped else none, order, schema.shape, room)


def finish_values(values: NDArray[Any], fill: Any, dtype: np.dtype[Any], room: memory.Reservation) -> NDArray[Any]:
    """Return values in the dtype of the sums, less the fill.

    One of them, of shape (), if all are equal.
    """
    if values.size and dtype.kind in "if" and (values == values[0]).all():
        values = np.asarray(values[0])
    if values.dtype == dtype and fill == 0:
        return values
    room.grow(values.size * dtype.itemsize)
    with np.errstate(all="ignore"):
        values = values.astype(dtype)
        return values if fill == 0 else np.asarray(values - fill.astype(dtype))


def to_rows(
    rows: NDArray[Any],
    columns: NDArray[Any],
    values: NDArray[Any],
    starts: NDArray[np.int64],
    order: tuple[int, ...] | None,
    shape: tuple[int, ...],
    room: memory.Reservation,
) -> PersistedRows:
    """Return elements in the order of a scan as rows, each continued at ``starts``."""
    if bool((rows[1:] >= rows[:-1]).all()):
        indptr = row_pointers(rows, shape[0])
    else:
        room.grow(rows.nbytes + columns.nbytes + values.nbytes)
        marks = np.zeros(len(rows) if len(starts) else 0, np.int8)
        marks[starts] = 1
        if len(starts):
            starts = np.flatnonzero(_sort(rows, columns, marks, shape)[2])
        indptr, columns, values = _sort(rows, columns, values, shape)
        order = None
    targets = np.searchsorted(indptr, starts, "right") - 1
    continues = indptr[targets] < starts
    starts, targets = starts[continues], targets[continues]
    parts = targets + 1 + np.arange(len(starts))
    return PersistedRows(CSRRows(np.insert(indptr, targets + 1, starts), columns, values), parts, targets, order)


def _sort(
    rows: NDArray[Any], columns: NDArray[Any], values: NDArray[Any], shape: tuple[int, ...]
) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[Any]]:
    """Return row pointers, columns and values; elements of a row stay in order."""
    if values.ndim == 0:
        indptr, columns, _ = _sort(rows, columns, np.zeros(len(rows), np.int8), shape)
        return indptr, columns, values
    return sort_to_csr(Block((rows, columns), values), shape)


class RepeatedProduct:
    """Products of one view of a matrix with arrays, summed in one dtype."""

    def __init__(self) -> None:
        self.count = 0
        """Products so far."""
        self.rows: PersistedRows | None = None
        self.refusal = ""
        """Why rows are not persisted; empty if they may be."""
        self.files_refusal = ""
        """Why rows are not written to files of a cluster; empty if they may be."""
        self.used = 0
        """Time of the last product, in products of the process."""
        self._reservation = memory.Reservation("rows persisted for products", "")
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """Bytes of persisted rows, without arrays of a tensor in memory."""
        return self._reservation.nbytes

    def note(self) -> None:
        """Count a product."""
        self.count += 1
        self.used = next(_clock)

    def find_refusal(self, scan: Scan, dtype: np.dtype[Any]) -> str:
        """Return why the rows of a scan are not persisted; empty if they may be.

        Reads footers, no data. Rows used since the last product are not evicted for these, so that two matrices that
        are multiplied in turn, and do not fit together, do not evict each other.
        """
        nbytes, budget = rows_bytes(scan, dtype), persisted_budget()
        size = format_quantity(nbytes, "bytes")
        if nbytes > budget:
            return f"{size} exceed a quarter of the memory limit, {format_quantity(budget, 'bytes')}"
        if nbytes + _cache.bytes_used_since(self.used) > budget:
            return f"{size} exceed a quarter of the memory limit together with those of other matrices"
        if 2 * nbytes > memory.available() + _cache.nbytes:  # sorting takes a copy
            return f"{size} exceed the free memory"
        return ""

    def persist(self, scan: Scan, dtype: np.dtype[Any], transposed: PersistedRows | None) -> PersistedRows | None:
        """Return the persisted rows, read at first; None if they do not fit.

        None as well while another thread reads them. See :func:`persist_rows`.
        """
        if self.rows is None and self._lock.acquire(blocking=False):
            try:
                self._read(scan, dtype, transposed)
            finally:
                self._lock.release()
        return self.rows

    def _read(self, scan: Scan, dtype: np.dtype[Any], transposed: PersistedRows | None) -> None:
        self.refusal = self.find_refusal(scan, dtype)
        if self.refusal:
            return
        _cache.make_room(rows_bytes(scan, dtype))
        room = memory.Reservation("rows persisted for products", "")
        try:
            rows = persist_rows(scan, dtype, room, transposed)
        except TooLargeError:
            self.refusal = f"{format_quantity(rows_bytes(scan, dtype), 'bytes')} exceed the free memory"
            return
        finally:
            room.release()
        emit("engines.persist_rows", nnz=len(rows.rows.indices), nbytes=rows.nbytes)
        self._reservation.resize(_own_bytes(rows, scan.relation))
        self.rows = rows
        _cache.add(self)

    def release(self) -> int:
        """Forget the rows; return the bytes released."""
        nbytes = self._reservation.nbytes
        self.rows, self.count = None, 0
        self._reservation.release()
        return nbytes


def _own_bytes(rows: PersistedRows, relation: Relation) -> int:
    """Return the bytes of rows without arrays that a relation in memory owns."""
    shared: list[NDArray[Any]] = []
    if isinstance(relation, MemoryRelation):
        own = (*relation.block.coords, relation.block.values)
        both = rows.rows.indices, rows.rows.values
        shared = [array for array in both if any(np.may_share_memory(array, other) for other in own)]
    return rows.nbytes - sum(array.nbytes for array in shared)


def rows_bytes(scan: Scan, dtype: np.dtype[Any]) -> int:
    """Return an upper bound on the bytes of the rows of a scan of a relation."""
    elements = scan.relation.stats(scan.view.box(), product_order(scan)).rows * max(scan.view.repeats, 1)
    return int(elements * (scan.schema.coordinate_dtype(1).itemsize + dtype.itemsize) + 8 * (scan.schema.shape[0] + 1))


def persisted_budget() -> int:
    """Return the bytes that all persisted rows may take."""
    return memory.limit() // tuning().persisted_share


class RepeatedProducts:
    """Products of one matrix with arrays, by view and dtype of the sums.

    Parameters
    ----------
    after
        Products of a view before its rows are persisted, four times as many if they have to be sorted; None if they
        never are.
    """

    def __init__(self, after: int | None = 1) -> None:
        self.after = after
        self.files: dict[Any, Any] = {}
        """Rows in files of a cluster, which are removed with this object."""
        self._products: dict[tuple[View, np.dtype[Any]], RepeatedProduct] = {}

    def find(self, view: View, dtype: np.dtype[Any]) -> RepeatedProduct:
        """Return the products of a view with sums of a dtype."""
        found = self._products.get((view, dtype))
        if found is None:
            if len(self._products) >= _MAX_SCANS:
                self._products.pop(next(iter(self._products)), None)
            found = self._products.setdefault((view, dtype), RepeatedProduct())
        return found

    def persist(self, scan: Scan, dtype: np.dtype[Any]) -> PersistedRows | None:
        """Return the persisted rows of a scan of the matrix, or None.

        See :meth:`RepeatedProduct.persist`.
        """
        transposed = self._products.get((scan.transpose().view, dtype))
        return self.find(scan.view, dtype).persist(scan, dtype, None if transposed is None else transposed.rows)

    def is_due(self, product: RepeatedProduct, scan: Scan) -> bool:
        """Return whether rows are persisted for the next product, if they fit."""
        if self.after is None or product.count < self.after:
            return False
        repays_sorting = product.count >= tuning().sorting_repeats * self.after
        return repays_sorting or groups_output(scan.view, product_order(scan))

    @property
    def nbytes(self) -> int:
        """Bytes of persisted rows, in memory and in files."""
        kept = [*list(self._products.values()), *list(self.files.values())]
        return sum(each.nbytes for each in kept)

    @property
    def is_persisted(self) -> bool:
        """True if rows of a view are persisted."""
        return bool(self.files) or any(product.rows is not None for product in list(self._products.values()))

    @property
    def refusal(self) -> str:
        """Why rows of a view are not persisted; empty if they may be."""
        return next((product.refusal for product in list(self._products.values()) if product.refusal), "")


class _Cache:
    """All persisted rows of the process; the least recently used are evicted first."""

    def __init__(self) -> None:
        self._products: weakref.WeakSet[RepeatedProduct] = weakref.WeakSet()
        self._lock = threading.RLock()  # garbage collection may end a reservation while it is held

    @property
    def nbytes(self) -> int:
        """Bytes of all persisted rows."""
        with self._lock:
            return sum(product.nbytes for product in self._products)

    def bytes_used_since(self, time: int) -> int:
        """Return the bytes of rows used after a time."""
        with self._lock:
            return sum(product.nbytes for product in self._products if product.used > time)

    def make_room(self, nbytes: int) -> None:
        """Evict rows that exceed the budget together with further ones."""
        with self._lock:
            self._release(self.nbytes + nbytes - persisted_budget(), list(self._products))

    def add(self, product: RepeatedProduct) -> None:
        """Add rows."""
        with self._lock:
            self._products.add(product)

    def evict(self, nbytes: int) -> bool:
        """Release at least ``nbytes``, or nothing; return whether it did."""
        with self._lock:
            if self.nbytes < nbytes:
                return False
            self._release(nbytes, list(self._products))
        return True

    def _release(self, nbytes: int, products: list[RepeatedProduct]) -> None:
        for product in sorted(products, key=lambda each: each.used):
            if nbytes <= 0:
                return
            nbytes -= product.release()
            self._products.discard(product)


_clock = itertools.count(1)
_cache = _Cache()
memory.add_cache(_cache.evict)

_by_source: weakref.WeakKeyDictionary[Relation, RepeatedProducts] = weakref.WeakKeyDictionary()
_by_token: weakref.WeakValueDictionary[Any, RepeatedProducts] = weakref.WeakValueDictionary()
"""Products of stored tensors: two snapshots of one version share them."""


def repeats_of(relation: Relation) -> RepeatedProducts:
    """Return the products of a relation with arrays.

    They are forgotten when it is garbage-collected.
    """
    found = _by_source.get(relation)
    if found is None:
        found = RepeatedProducts()
        if relation.version is not None:
            found = _by_token.setdefault(relation.token, found)
        found = _by_source.setdefault(relation, found)
    return found
