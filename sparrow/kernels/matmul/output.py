"""Output of accumulated rows in column order, for any semiring.

Functions that write return the new number of output elements and leave accumulators clean.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparrow.kernels.jit.compiler import register_jitable
from sparrow.kernels.matmul.intrinsics import prefetch
from sparrow.kernels.matmul.simd import (
    FLAGS,
    LANES,
    broadcast,
    compress_store,
    lane_range,
    load,
    not_equal_bits,
    popcount,
    store,
    take_flags,
)
from sparrow.kernels.matmul.symbolic import PREFETCH_FAR

__all__ = [
    "collect_groups",
    "collect_lines",
    "column_span",
    "write_seeded",
    "write_slots",
    "write_touched",
]

_ZERO, _ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)
_GROUP_BITS = np.uint64(3)
_WORD_PAIR_BITS = np.uint64(13)
"""log2 of the columns whose line flags fill two 64-bit words."""
_LAST = np.uint64(2**32 - 1)

_inline: Any = register_jitable(cache=True, forceinline=True)


@_inline
def write_seeded(dense, at, stop, column, touched, seed, fill, out_columns, out, n):  # type: ignore[no-untyped-def]
    """Write elements that differ from the seed and from fill; reset to the seed."""
    none, left_out = broadcast(seed), broadcast(fill)
    for cell in range(at, stop, LANES):
        found = load(dense, cell, LANES)
        store(dense, cell, LANES, none)
        which = not_equal_bits(found, none) & not_equal_bits(found, left_out)
        compress_store(out_columns, n, lane_range(np.uint32(column + (cell - at))), which)
        compress_store(out, n, found, which)
        n += popcount(which)
    return n


@_inline
def write_touched(dense, at, stop, column, touched, seed, fill, out_columns, out, n):  # type: ignore[no-untyped-def]
    """Write elements that were added to and differ from fill; clear their flags."""
    for first in range(at, stop, LANES):
        for c in range(first, first + LANES):
            value = dense[c]
            out_columns[n] = c
            out[n] = value
            n += np.uint64((touched[c] != 0) & (value != fill))
            touched[c] = 0
    return n


@_inline
def write_slots(slot_values, size, keys, first, fill, out_columns, out, n):  # type: ignore[no-untyped-def]
    """Write the slots of a gathered row, whose columns are keys from ``first`` on."""
    for j in range(size):
        out_columns[n] = keys[first + j]
        out[n] = slot_values[j]
        n += np.uint64(out[n] != fill)
    return n


@_inline
def column_span(lhs_indices, low, high, rhs_indptr, rhs_indices, rhs_data):  # type: ignore[no-untyped-def]
    """Return the first and last column of a row's products, first > last if none."""
    smallest, largest, end = _LAST, _ZERO, np.uint64(len(lhs_indices))
    for q in range(low, high):
        if q + PREFETCH_FAR < end:
            prefetch(rhs_indptr, np.uint64(lhs_indices[q + PREFETCH_FAR]))
        k = np.uint64(lhs_indices[q])
        begin, stop = rhs_indptr[k], rhs_indptr[k + _ONE]
        if begin < stop:
            smallest = min(smallest, np.uint64(rhs_indices[begin]))
            largest = max(largest, np.uint64(rhs_indices[stop - _ONE]))
            prefetch(rhs_data, begin)
    return smallest, largest


@_inline
def collect_lines(smallest, largest, line_flags, line_words, found_lines):  # type: ignore[no-untyped-def]
    """Collect and clear the flagged lines of a dense row; return their number."""
    count = _ZERO
    for word in range((smallest >> _WORD_PAIR_BITS) << _ONE, ((largest >> _WORD_PAIR_BITS) + _ONE) << _ONE, _TWO):
        if line_words[word] | line_words[word + _ONE]:
            count += take_flags(line_flags, word << _GROUP_BITS, found_lines, count)
    return count


@_inline
def collect_groups(first, last, group_flags, found, size):  # type: ignore[no-untyped-def]
    """Append and clear the flagged groups [first, last); return the new size."""
    for flag in range(first, last, FLAGS):
        size += take_flags(group_flags, flag, found, size)
    return size
