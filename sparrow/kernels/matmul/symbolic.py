"""Symbolic phase of SpGEMM: choose an accumulator per row, without values.

The phase does not depend on values, so it is compiled once rather than for every semiring and dtype.
:func:`count_products` counts products per row. :func:`plan_rows` chooses the accumulator of each row
(:mod:`sparrow.kernels.matmul.spgemm`) and sorts the columns of gathered rows. :class:`Workspace` is the memory of a
thread, which both phases use.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.kernels.jit.compiler import njit, register_jitable
from sparrow.kernels.simd import (
    BINARY_SEARCH_RATIO,
    FLAGS,
    LANES,
    broadcast,
    less_than,
    load,
    lower_bound,
    prefetch,
    store,
)
from sparrow.kernels.tuning import tuning

__all__ = [
    "COLUMNS_PER_PRODUCT", "DENSE", "EMPTY", "GATHERED", "GROUPS_PER_LINE", "MAX_FOUND_GROUPS", "MAX_GATHERED",
    "MAX_GATHERED_NEAR", "ORDERED", "OUTPUT_SLACK", "PREFETCH_FAR", "PREFETCH_NEAR", "PREFETCH_OUTPUT",
    "SLOT_IS_FIRST", "SLOT_MASK", "Workspace", "count_products", "get_seed", "plan_rows",
]  # fmt: skip

MAX_GATHERED = 256
"""Maximal number of products in a gathered row."""
MAX_GATHERED_NEAR = 16
"""The same where the columns of a dense row stay in the cache."""
EMPTY, ORDERED, GATHERED, DENSE = (np.uint8(kind) for kind in range(4))
"""Row kinds: no products; products in column order; gathered into slots; accumulated in a dense row.
"""
COLUMNS_PER_PRODUCT = np.uint64(2)
"""Columns per product up to which a span of columns is scanned instead of flagged."""
SLOT_IS_FIRST, SLOT_MASK = np.uint64(2 * MAX_GATHERED), np.uint64(2 * MAX_GATHERED - 1)
"""Bits of a slot: flag of the first product in it, and its number."""
PREFETCH_FAR, PREFETCH_NEAR = np.uint64(16), np.uint64(6)
"""Left elements between a prefetch and its use: of row pointers and short rows; of long rows."""
PREFETCH_OUTPUT = np.uint64(128)
"""Output elements between a prefetch and its use."""

_ZERO, _ONE = np.uint64(0), np.uint64(1)
_NO_KEY, _MAX_COLUMN = np.uint64(2**64 - 1), np.uint64(2**32 - 1)
_CACHED_SPAN = np.uint64(1 << 16)
"""Columns of a dense row that stay in the cache."""
_COLUMNS_PER_CACHE_LINE = np.uint64(16)
"""Columns that share a cache line."""
_MAX_RANKED_SCALAR, _MAX_RANKED = 8, 32
"""Products up to which a rank sort is branch-free: scalar, and with SIMD."""
_RANK_OFFSET = np.uint64(2 * MAX_GATHERED)
"""Offset of ranks behind the two sort buffers."""
_POSITION_BITS, _POSITION_MASK = np.uint64(8), np.uint64(MAX_GATHERED - 1)
"""Sort keys hold a column above the position of its product."""


@njit(cache=True, nogil=True)
def count_products(lhs_indptr, lhs_indices, rhs_indptr, out):  # type: ignore[no-untyped-def]
    """Write the number of products before each row of the left matrix, and in total.

    Parameters
    ----------
    lhs_indptr, lhs_indices
        Left matrix in CSR: uint64 (m + 1,), rows of the right matrix uint32 (n,).
    rhs_indptr
        Right matrix, uint64 (k + 1,).
    out
        Receives the counts, int64 (m + 1,), except for the first element.
    """
    n_products = _ZERO
    end = np.uint64(len(lhs_indices))
    for i in range(np.uint64(len(lhs_indptr) - 1)):
        for q in range(lhs_indptr[i], lhs_indptr[i + _ONE]):
            if q + PREFETCH_FAR < end:
                prefetch(rhs_indptr, np.uint64(lhs_indices[q + PREFETCH_FAR]))
            k = np.uint64(lhs_indices[q])
            n_products += rhs_indptr[k + _ONE] - rhs_indptr[k]
        out[i + _ONE] = n_products


@njit(cache=True, nogil=True)
def plan_rows(  # type: ignore[no-untyped-def]
    lhs_indptr, lhs_indices, rhs_indptr, rhs_indices, mask_begins, mask_ends, mask_columns, product_offsets,
    has_unique_columns, max_gathered, order, counts, row_kinds, row_sizes, slots, keys
):  # fmt: skip
    """Choose the accumulator of each row; return whether one needs a dense row.

    Sorts the columns of gathered rows.

    Parameters
    ----------
    lhs_indptr, lhs_indices, rhs_indptr, rhs_indices, mask_begins, mask_ends, mask_columns, has_unique_columns
        As for a kernel ``rows`` of :func:`sparrow.kernels.matmul.spgemm.get_kernels`.
    product_offsets
        Products before each row, uint64 (m + 1,).
    max_gathered
        Maximal number of products in a gathered row, at most MAX_GATHERED.
    order, counts
        Buffers of a :class:`~sparrow.kernels.matmul.symbolic.Workspace`.
    row_kinds
        Receives the row kinds, uint8 (m,).
    row_sizes
        Receives the number of columns of gathered rows, uint16 (m,).
    slots
        Receives the slot of each product of gathered rows, uint16; MAX_GATHERED for products at mask elements.
    keys
        Receives the columns of gathered rows, row by row, uint32.
    """
    end = np.uint64(len(lhs_indices))
    n = written = last_size = found = _ZERO
    needs_dense = False
    for i in range(np.uint64(len(row_kinds))):
        n_products = product_offsets[i + _ONE] - product_offsets[i]
        low, high = lhs_indptr[i], lhs_indptr[i + _ONE]
        m = stop = _ZERO
        if i < np.uint64(len(mask_begins)):
            m, stop = mask_begins[i], mask_ends[i]
        if n_products == _ZERO:
            row_kinds[i] = EMPTY
            continue
        is_ordered: Any = has_unique_columns and m == stop
        if is_ordered and high - low == _ONE:
            row_kinds[i] = ORDERED
            continue
        if n_products > max_gathered and not (is_ordered and n_products == high - low):
            row_kinds[i] = DENSE
            needs_dense = True
            continue
        first_column, last_column, past = _MAX_COLUMN, _ZERO, _ZERO
        for q in range(low, high):
            if q + PREFETCH_FAR + PREFETCH_FAR < end:
                prefetch(rhs_indptr, np.uint64(lhs_indices[q + PREFETCH_FAR + PREFETCH_FAR]))
            if q + PREFETCH_FAR < end:
                ahead = np.uint64(lhs_indices[q + PREFETCH_FAR])
                prefetch(rhs_indices, rhs_indptr[ahead])
                prefetch(rhs_indices, rhs_indptr[ahead + _ONE] - _ONE)
            k = np.uint64(lhs_indices[q])
            begin, behind = rhs_indptr[k], rhs_indptr[k + _ONE]
            if begin < behind:
                c = np.uint64(rhs_indices[begin])
                is_ordered &= c >= past
                first_column = min(first_column, c)
                past = np.uint64(rhs_indices[behind - _ONE]) + _ONE
                last_column = max(last_column, past - _ONE)
        if is_ordered:
            row_kinds[i] = ORDERED
            continue
        if n_products > max_gathered:
            row_kinds[i] = DENSE
            needs_dense = True
            continue
        if n_products > np.uint64(MAX_GATHERED_NEAR) and last_column - first_column < _CACHED_SPAN:
            row_kinds[i] = DENSE
            needs_dense = True
            continue
        row_kinds[i] = GATHERED
        size = last = _ZERO
        ascending: Any = True
        repeats: Any = m == stop  # the last gathered row, shifted
        shift = np.int64(0)
        for q in range(low, high):
            k = np.uint64(lhs_indices[q])
            p, behind = rhs_indptr[k], rhs_indptr[k + _ONE]
            if p == behind:
                continue
            ascending &= np.uint64(rhs_indices[p]) >= last
            last = np.uint64(rhs_indices[behind - _ONE])
            while p < behind:
                key = (np.uint64(rhs_indices[p]) << _POSITION_BITS) | size
                further = np.int64(key) - np.int64(order[0, size])
                shift = further if size == _ZERO else shift
                repeats &= further == shift
                order[0, size] = key
                size += _ONE
                p += _ONE
        if repeats and size == last_size:
            for e in range(size):
                slots[n + e] = slots[n - size + e]
            for e in range(found):
                keys[written + e] = np.int64(keys[written - found + e]) + (shift >> np.int64(_POSITION_BITS))
            n += size
            written += found
            row_sizes[i] = found
            continue
        last_size = size if m == stop else _ZERO
        side = _ZERO
        if not ascending:
            _sort(order, size, first_column, last_column, counts)
            side = _ONE
        prefetch(keys, written + PREFETCH_OUTPUT)
        prefetch(keys, written + PREFETCH_OUTPUT + _COLUMNS_PER_CACHE_LINE)
        prefetch(slots, n + PREFETCH_OUTPUT + PREFETCH_OUTPUT)
        found = _ZERO
        last = _NO_KEY
        if m == stop:
            for e in range(size):
                c = order[side, e] >> _POSITION_BITS
                new = np.uint64(c != last)
                last = c
                found += new
                keys[written + found - _ONE] = c
                slots[n + (order[side, e] & _POSITION_MASK)] = (found - _ONE) | (new * SLOT_IS_FIRST)
        else:
            slot = np.uint64(MAX_GATHERED)
            for e in range(size):
                c = order[side, e] >> _POSITION_BITS
                if c != last:
                    last = c
                    if stop - m > BINARY_SEARCH_RATIO * size:
                        m = lower_bound(c, mask_columns, m, stop)
                    while m < stop and mask_columns[m] < c:
                        m += _ONE
                    slot = np.uint64(MAX_GATHERED)
                    if m == stop or mask_columns[m] != c:
                        slot = found
                        keys[written + found] = c
                        found += _ONE
                    slots[n + (order[side, e] & _POSITION_MASK)] = slot | SLOT_IS_FIRST
                else:
                    slots[n + (order[side, e] & _POSITION_MASK)] = slot
        n += size
        written += found
        row_sizes[i] = found
    return needs_dense


@register_jitable
def _rank_sort(order: Any, size: Any, limit: int) -> None:
    """Sort ``size`` numbers by rank, branch-free up to a compile-time ``limit``."""
    for e in range(size, np.uint64(limit), LANES):
        store(order, e, LANES, broadcast(_NO_KEY))
    for e in range(_ZERO, np.uint64(limit), LANES):
        numbers, ranks = load(order, e, LANES), broadcast(_ZERO)
        for j in range(np.uint64(limit)):
            ranks += less_than(broadcast(order[0, j]), numbers)
        store(order, _RANK_OFFSET + e, LANES, ranks)
    for e in range(np.uint64(limit)):
        order[1, order[2, e]] = order[0, e]


@njit(cache=True, nogil=True)
def _sort(order, size, first_column, last_column, counts):  # type: ignore[no-untyped-def]
    """Sort distinct keys from the first buffer into the second."""
    if size <= _MAX_RANKED_SCALAR:
        for e in range(size):
            key = np.int64(order[0, e])
            rank: Any = 0
            for j in range(size):
                rank += np.int64(order[0, j]) < key
            order[1, np.uint64(rank)] = order[0, e]
        return
    if size <= _MAX_RANKED // 2:
        _rank_sort(order, size, _MAX_RANKED // 2)
        return
    if size <= _MAX_RANKED:
        _rank_sort(order, size, _MAX_RANKED)
        return
    shift = _POSITION_BITS
    while ((last_column - first_column) >> (shift - _POSITION_BITS)) > np.uint64(255):
        shift += _ONE
    counts[:] = 0
    base = first_column << _POSITION_BITS
    for e in range(size):
        counts[((order[0, e] - base) >> shift) + _ONE] += np.uint32(1)
    for b in range(np.uint64(1), np.uint64(257)):
        counts[b] += counts[b - _ONE]
    for e in range(size):
        bucket = (order[0, e] - base) >> shift
        to = np.uint64(counts[bucket])
        counts[bucket] += np.uint32(1)
        order[1, to] = order[0, e]
    for e in range(_ONE, size):
        key = order[1, e]
        at: Any = e
        while at > _ZERO and order[1, at - _ONE] > key:
            order[1, at] = order[1, at - _ONE]
            at -= _ONE
        order[1, at] = key


# -- workspace -----------------------------------------------------------------------------------

OUTPUT_SLACK = 8
"""Output elements beyond the number of products: stores of eight lanes write past the last one."""
_COLUMNS_PER_LINE, GROUPS_PER_LINE = 512, np.uint64(64)
"""Columns, and groups of eight columns, that share a line flag."""
MAX_FOUND_GROUPS = 1024
"""Touched groups collected before they are written out."""
_UNTRACKED = np.empty(0, np.uint8)
"""Touched flags of a seeded dense row, which needs none."""


class Workspace:
    """Accumulators of one thread for products of some width, clean between calls.

    A dense row is divided into groups of eight columns and lines of 64 groups; flags mark the touched ones.

    Parameters
    ----------
    width
        Number of columns.
    dtype
        Dtype in which products are accumulated.
    seed
        Identity of the addition that fills the dense row. None to leave the row undefined and track touched columns.
    """

    def __init__(self, width: int, dtype: np.dtype[Any], seed: Any = None) -> None:
        n_lines = -(-(width + 1) // (_COLUMNS_PER_LINE * int(FLAGS))) * int(FLAGS)
        self._is_seeded = seed is not None
        self.seed = dtype.type(seed or 0)
        self.group_flags = np.zeros(n_lines * int(GROUPS_PER_LINE), np.uint8)
        self.line_flags = np.zeros(n_lines, np.uint8)
        self.line_words = self.line_flags.view(np.uint64)
        self.found_lines = np.empty(n_lines + int(FLAGS), np.uint32)
        self.found_groups = np.empty(MAX_FOUND_GROUPS + int(GROUPS_PER_LINE + FLAGS), np.uint32)
        self.slot_values = np.empty(MAX_GATHERED + 1, dtype)
        self.order = np.empty((3, MAX_GATHERED), np.uint64)
        self.counts = np.zeros(257, np.uint32)
        self._plan: tuple[NDArray[Any], ...] = ()
        self._width = width
        self._row: NDArray[Any] | None = None
        self._state: NDArray[np.uint8] | None = None
        self._weights: NDArray[Any] | None = None

    def plan(self, rows: int, products: int) -> tuple[NDArray[Any], ...]:
        """Return plan buffers for rows that gather at most ``products`` products."""
        if not self._plan or len(self._plan[0]) < rows or len(self._plan[2]) < products:
            slots, keys = np.empty(products, np.uint16), np.empty(products, np.uint32)
            self._plan = np.empty(rows, np.uint8), np.empty(rows, np.uint16), slots, keys
        kinds, sizes, *gathered = self._plan
        return kinds[:rows], sizes[:rows], *gathered

    def dense(self, needed: bool) -> tuple[Any, ...]:
        """Return the accumulator arguments of the kernel ``rows``."""
        touched = self.state if needed and not self._is_seeded else _UNTRACKED
        row = self.row if needed else self.slot_values[:0]
        flags = self.group_flags, self.line_flags, self.line_words, self.found_lines, self.found_groups
        return self.seed, row, touched, self.slot_values, *flags

    @property
    def row(self) -> NDArray[Any]:
        """Dense row filled with the seed, padded to complete lines."""
        if self._row is None:
            self._row = _full_aligned(len(self.line_flags) * _COLUMNS_PER_LINE, self.seed)
        return self._row

    @property
    def state(self) -> NDArray[np.uint8]:
        """State of each column, 0, padded to complete lines."""
        if self._state is None:
            self._state = np.zeros(len(self.line_flags) * _COLUMNS_PER_LINE, np.uint8)
        return self._state

    @property
    def weights(self) -> NDArray[Any]:
        """Weight of each column, 0."""
        if self._weights is None:
            self._weights = np.zeros(max(self._width, 1), self.slot_values.dtype)
        return self._weights


def _full_aligned(count: int, value: Any) -> NDArray[Any]:
    """Return an array of one value, aligned to cache lines."""
    room = np.zeros(count + 64 // value.itemsize, value.dtype)
    first = -room.ctypes.data % 64 // value.itemsize
    if value != 0:
        room[:] = value
    return room[first : first + count]


def get_seed(add: Any, dtype: np.dtype[Any], width: int, nnz: int) -> Any:
    """Return the identity of ``add`` to fill dense rows with, or None.

    None if no identity exists, or if filling a row is expensive relative to the ``nnz`` elements of the right matrix.
    """
    if not isinstance(add, str) or dtype.kind not in "iuf":
        return None  # the parts of a complex zero are signed
    if add in ("plus", "or"):
        return 0
    if add not in ("min", "max") or width > max(tuning().seeded_max_columns, nnz):
        return None
    if dtype.kind == "f":
        return np.inf if add == "min" else -np.inf
    bounds = np.iinfo(dtype)
    return bounds.max if add == "min" else bounds.min
