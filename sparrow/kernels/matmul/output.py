"""Writing out what rows of a product were added up in, in the order of columns: of any semiring, compiled once for all.

All return how many entries there are behind those that they wrote, and leave buffers as they are to be found.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparrow.kernels.jit.compiler import register_jitable
from sparrow.kernels.matmul.intrinsics import prefetch
from sparrow.kernels.matmul.simd import FLAGS, LANES, counted, flagged, load, ones, pack, spread, store, unlike
from sparrow.kernels.matmul.symbolic import AHEAD, SHIFTED
from sparrow.kernels.matmul.workspace import DEPTH

__all__ = ["differing", "eights_of", "lines_between", "run_of", "side_by_side", "slots_out", "span", "touched"]

_ZERO, _ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)
_EIGHTS = np.uint64(3)
_PAIRS = np.uint64(13)
"""How far the number of a column is shifted to that of two words of flags of lines."""
_LAST = np.uint64(2**32 - 1)

_kept: Any = register_jitable(cache=True, forceinline=True)


@_kept
def differing(total, at, stop, column, seen, seed, fill, out_columns, out, n):  # type: ignore[no-untyped-def]
    """Write out those of eights of cells, from a column on, that differ from their seed and from fill; clear them."""
    none, left_out = spread(seed), spread(fill)
    for cell in range(at, stop, LANES):
        found = load(total, cell, LANES)
        store(total, cell, LANES, none)
        which = unlike(found, none) & unlike(found, left_out)
        pack(out_columns, n, counted(np.uint32(column + (cell - at))), which)
        pack(out, n, found, which)
        n += ones(which)
    return n


@_kept
def touched(total, at, stop, column, seen, seed, fill, out_columns, out, n):  # type: ignore[no-untyped-def]
    """Write out those of eights of cells of a dense row that were added to and differ from fill, and forget that."""
    for first in range(at, stop, LANES):
        for c in range(first, first + LANES):
            value = total[c]
            out_columns[n] = c
            out[n] = value
            n += np.uint64((seen[c] != 0) & (value != fill))
            seen[c] = 0
    return n


@_kept
def slots_out(held, size, keys, behind, shift, fill, out_columns, out, n):  # type: ignore[no-untyped-def]
    """Write out as many slots as a row has columns, which are keys moved on."""
    for j in range(size):
        out_columns[n] = np.uint64(keys[behind + j]) + shift
        out[n] = held[j]
        n += np.uint64(out[n] != fill)
    return n


@_kept
def run_of(kinds, sizes, row, most):  # type: ignore[no-untyped-def]
    """Return how many rows from one on, of so many at most, are it moved on, each as much further as the second is."""
    shift, run = np.uint64(sizes[row]), _ONE
    while run < most and kinds[row + run] == SHIFTED:
        if sizes[row + run] != shift + run * (np.uint64(sizes[row + _ONE]) - shift):
            break
        run += _ONE
    return run


@_kept
def side_by_side(  # type: ignore[no-untyped-def]
    held, size, run, keys, behind, shift, step, fill, out_pointers, row, out_columns, out, n
):
    """Write out the slots of a run of rows that were added up side by side, each so many columns further."""
    whole: Any = True
    for j in range(size):
        for r in range(run):
            whole &= held[j * DEPTH + r] != fill
    for r in range(run):
        out_pointers[row + r] = n
        further = shift + r * step
        if whole:
            for j in range(_ZERO, size, LANES):
                found = load(keys, behind + j, np.uint64(len(keys)) - behind - j)
                store(out_columns, n + j, LANES, found + spread(np.uint32(further)))
            for j in range(size):
                out[n + j] = held[j * DEPTH + r]
            n += size
            continue
        for j in range(size):
            out_columns[n] = np.uint64(keys[behind + j]) + further
            out[n] = held[j * DEPTH + r]
            n += np.uint64(out[n] != fill)
    return n


@_kept
def span(places, low, high, starts, columns, right):  # type: ignore[no-untyped-def]
    """Return the first and the last column that products of a row have; the first is greater if there are none."""
    smallest, largest, end = _LAST, _ZERO, np.uint64(len(places))
    for q in range(low, high):
        if q + AHEAD < end:
            prefetch(starts, np.uint64(places[q + AHEAD]))
        k = np.uint64(places[q])
        begin, stop = starts[k], starts[k + _ONE]
        if begin < stop:
            smallest = min(smallest, np.uint64(columns[begin]))
            largest = max(largest, np.uint64(columns[stop - _ONE]))
            prefetch(right, begin)
    return smallest, largest


@_kept
def lines_between(smallest, largest, lines, line_words, found_lines):  # type: ignore[no-untyped-def]
    """Write which lines of a dense row are flagged, and take the flags off; return their number."""
    count = _ZERO
    for word in range((smallest >> _PAIRS) << _ONE, ((largest >> _PAIRS) + _ONE) << _ONE, _TWO):
        if line_words[word] | line_words[word + _ONE]:
            count += flagged(lines, word << _EIGHTS, found_lines, count)
    return count


@_kept
def eights_of(first, last, eights, found, size):  # type: ignore[no-untyped-def]
    """Write which of some eights of a dense row are flagged, behind so many, take the flags off; return how many."""
    for flag in range(first, last, FLAGS):
        size += flagged(eights, flag, found, size)
    return size
