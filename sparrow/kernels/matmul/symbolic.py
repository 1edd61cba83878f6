"""Symbolic phase of SpGEMM: choose an accumulator per row, without values.

The phase does not depend on values, so it is compiled once rather than for every semiring and dtype.
:func:`count_products` counts products per row. :func:`plan_rows` chooses the accumulator of each row
(:mod:`sparrow.kernels.matmul.spgemm`) and sorts the columns of gathered rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparrow.kernels.jit.compiler import njit, register_jitable
from sparrow.kernels.matmul.intrinsics import BINARY_SEARCH_RATIO, lower_bound, prefetch
from sparrow.kernels.matmul.simd import LANES, broadcast, less_than, load, store

__all__ = [
    "COLUMNS_PER_PRODUCT",
    "DENSE",
    "EMPTY",
    "GATHERED",
    "MAX_GATHERED",
    "MAX_GATHERED_CLUSTERED",
    "ORDERED",
    "PREFETCH_FAR",
    "PREFETCH_NEAR",
    "PREFETCH_OUTPUT",
    "SLOT_IS_FIRST",
    "SLOT_MASK",
    "count_products",
    "plan_rows",
]  # fmt: skip

MAX_GATHERED = 256
"""Maximal number of products in a gathered row."""
MAX_GATHERED_CLUSTERED = 16
"""The same for clustered columns, for which a dense row is fast."""
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
        Buffers of a :class:`~sparrow.kernels.matmul.workspace.Workspace`.
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
    n = written = _ZERO
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
        if n_products > np.uint64(MAX_GATHERED_CLUSTERED) and last_column - first_column < _CACHED_SPAN:
            row_kinds[i] = DENSE
            needs_dense = True
            continue
        row_kinds[i] = GATHERED
        size = last = _ZERO
        ascending: Any = True
        for q in range(low, high):
            k = np.uint64(lhs_indices[q])
            p, behind = rhs_indptr[k], rhs_indptr[k + _ONE]
            if p == behind:
                continue
            ascending &= np.uint64(rhs_indices[p]) >= last
            last = np.uint64(rhs_indices[behind - _ONE])
            while p < behind:
                order[0, size] = (np.uint64(rhs_indices[p]) << _POSITION_BITS) | size
                size += _ONE
                p += _ONE
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
