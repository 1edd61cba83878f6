"""How the rows of a product of sparse matrices are had, told before any value is looked at.

What knows no values is compiled once, not for every semiring and type: :func:`products_before` counts products,
:func:`planned` says for each row which way of :mod:`sparrow.kernels.matmul.spgemm` takes it, and sorts the columns of
those of few products. Where rows of both matrices are other rows moved on, as those of grids are, so is what is planned
for them: :func:`patterns` tells which are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparrow.kernels.jit.compiler import njit, register_jitable
from sparrow.kernels.matmul.intrinsics import SEARCHED, place_of, prefetch
from sparrow.kernels.matmul.simd import LANES, below, load, ones, spread, store, unlike

__all__ = [
    "AHEAD", "FEW", "FEWER", "FEW_PRODUCTS", "FIRST", "MANY", "NOTHING", "RECENT", "SHIFTED", "SLOT", "SOON",
    "STRAIGHT", "THICK", "THICKNESS", "WRITTEN_AHEAD", "patterns", "planned", "products_before",
]  # fmt: skip

FEW = 256
"""Products of a row that are gathered rather than added to a dense row, at most."""
FEWER = 16
"""The same where a dense row is quick to add to."""
NOTHING, STRAIGHT, FEW_PRODUCTS, SHIFTED, THICK, MANY = (np.uint8(kind) for kind in range(6))
"""Rows without products; whose columns come in order as they are; of few products; whose products go where those of the
row of few products before them do, so many columns further; of few products with about as many columns; of many."""
THICKNESS = np.uint64(2)
"""Columns between the first and the last for each product up to which a row is looked through rather than marked."""
FIRST, SLOT = np.uint64(2 * FEW), np.uint64(2 * FEW - 1)
"""Of the slot of a product: that it is the first in it, and its number."""
AHEAD, SOON = np.uint64(16), np.uint64(6)
"""How many entries of the left matrix before their turn it is fetched where rows of the right one begin, or short ones,
and long ones."""
WRITTEN_AHEAD = np.uint64(128)
"""How far ahead of where is written memory is fetched."""
RECENT = np.uint64(32)
"""Patterns of rows, and plans, that are looked at again: a grid of three dimensions has 27 patterns."""

_ZERO, _ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)
_NONE, _LAST = np.uint64(2**64 - 1), np.uint64(2**32 - 1)
_NEAR = np.uint64(1 << 16)
"""Columns between the first and the last of a row up to which it stays in the cache."""
_FARTHEST = np.uint64(2**16 - 1)
"""Columns by which a row may be further than the one that it is like."""
_LINE = np.uint64(16)
"""Columns that share a line of the cache."""
_FEWEST, _RANKED = 8, 32
"""Products up to which each is compared with all others, which needs no branch; eight at once from the first on."""
_RANKS = np.uint64(2 * FEW)
"""Where ranks stand behind the two buffers that are sorted in."""
_SHIFT, _POSITION = np.uint64(8), np.uint64(FEW - 1)
"""Where a column stands beside the position of its product while they are sorted."""


@njit(cache=True, nogil=True)
def products_before(pointers, places, starts, own, pattern, out):  # type: ignore[no-untyped-def]
    """Write how many products there are before each row of the left matrix, and in all.

    Parameters
    ----------
    pointers, places
        The left matrix by rows: uint64 (m + 1,), rows of the right one uint32 (n,).
    starts
        Where the rows of the right one begin, uint64 (k + 1,).
    own, pattern
        The patterns of the rows of the left and of the right matrix, uint32 (m,) and (k,), or nothing: see
        :func:`patterns`.
    out
        Shape (m + 1,), int64: written, but for the first, before which there is none.
    """
    done = work = done_with = _ZERO
    end, height = np.uint64(len(places)), np.uint64(len(pointers) - 1)
    for i in range(height):
        if i >= done_with:
            work = _ZERO
            for q in range(pointers[i], pointers[i + _ONE]):
                if q + AHEAD < end:
                    prefetch(starts, np.uint64(places[q + AHEAD]))
                k = np.uint64(places[q])
                work += starts[k + _ONE] - starts[k]
            if len(own) > 0:
                done_with = i + _ONE + _alike(pointers, places, own, pattern, i, height - i - _ONE)
        done += work
        out[i + _ONE] = done


@njit(cache=True, nogil=True)
def patterns(starts, columns, first, last, recent, out):  # type: ignore[no-untyped-def]
    """Write for each row of a matrix another one that it is, each column so many further as the row is: its pattern.

    It is the first row that was found so, or the row itself where none is: two of the same number have one pattern.
    Looked at are the row before, and a row of each of the last few patterns, first what followed the pattern before the
    last time.

    Parameters
    ----------
    starts, columns
        The matrix by rows: uint64 (k + 1,), uint32 (n,).
    first, last
        The rows that are looked at, uint64.
    recent
        How many patterns are looked at beside that of the row before, uint64, RECENT at most.
    out
        Shape (k,), uint32: written between them.
    """
    known = np.empty(RECENT, np.uint64)
    size = at = written = _ZERO
    for k in range(first, last):
        if k > first and _moved(starts, columns, k - _ONE, k):
            out[k] = out[k - _ONE]
            continue
        found: Any = False
        for _ in range(size):
            at = at + _ONE if at + _ONE < size else _ZERO
            found = _moved(starts, columns, known[at], k)
            if found:
                break
        if not found:
            at = written % RECENT
            known[at] = k
            written += _ONE
            size = min(written, recent)
        out[k] = known[at]


@register_jitable
def _moved(starts: Any, columns: Any, one: Any, other: Any) -> bool:
    """Return whether a row is another one, each column so many further as the row is."""
    before, begin, stop, end = starts[one], starts[other], starts[other + _ONE], np.uint64(len(columns))
    if starts[one + _ONE] - before != stop - begin:
        return False
    further = spread(np.uint32(other - one))
    while begin < stop:
        differ = unlike(load(columns, begin, end - begin), load(columns, before, end - before) + further)
        if stop - begin < LANES:
            differ &= np.uint8((_ONE << (stop - begin)) - _ONE)
        if differ != 0:
            return False
        begin += LANES
        before += LANES
    return True


@njit(cache=True, nogil=True)
def _alike(pointers, places, own, pattern, row, most):  # type: ignore[no-untyped-def]
    """Return how many rows after one, of so many at most, are it moved on, and so are the rows that they multiply.

    By one for each row. Patterns tell, so no row but that one is looked at.
    """
    found = _run(own, row, most)
    for q in range(pointers[row], pointers[row + _ONE]):
        if found == _ZERO:
            break
        found = _run(pattern, np.uint64(places[q]), found)
    return found


@register_jitable
def _run(numbers: Any, at: Any, most: Any) -> Any:
    """Return how many numbers after one, of so many at most, are equal to it."""
    found, wanted = _ZERO, spread(numbers[at])
    while found < most:
        differ = np.int64(unlike(load(numbers, at + _ONE + found, most - found), wanted))
        if differ:
            found += ones((differ - 1) & ~differ)
            break
        found += LANES
    return min(found, most)


@njit(cache=True, nogil=True)
def _known(places, pattern, plans, size, after, low, count, work):  # type: ignore[no-untyped-def]
    """Return which of the plans that were made, looked at from one on, is that of a row too; their number if none is.

    It is where the places are those of its row, so much further each, and rows of the same patterns.
    """
    at = after
    for _ in range(size):
        at = at if at < size else _ZERO
        if plans[at, 1] == count and plans[at, 2] == work:
            like = plans[at, 0]
            step = np.uint64(places[low]) - np.uint64(places[like])
            same: Any = True
            for q in range(count):
                k, other = np.uint64(places[low + q]), np.uint64(places[like + q])
                same &= (k - other == step) & (pattern[k] == pattern[other])
            if same:
                return at
        at += _ONE
    return size


@njit(cache=True, nogil=True)
def planned(  # type: ignore[no-untyped-def]
    pointers, places, own, starts, columns, pattern, begins, ends, unwanted, done, single, seeded, few, order, counts,
    plans, kinds, sizes, slots, keys
):  # fmt: skip
    """Say how each row is had, and bring the columns of those of few products into order; no values are looked at.

    Returns whether some are added up in a dense row.

    Parameters
    ----------
    pointers, places, starts, columns, begins, ends, unwanted, single
        As of a loop ``rows`` of :func:`sparrow.kernels.matmul.spgemm.kernels_of`.
    own, pattern
        The patterns of the rows of the left and of the right matrix, as :func:`patterns` says: uint32 (m,) and (k,).
        Empty where few rows of the right one have that of the row before.
    done
        How many products there are before each row, uint64 (m + 1,).
    seeded
        Whether dense rows hold what ``add`` leaves as it is.
    few
        How many products of a row are gathered, at most FEW.
    order, counts, plans
        Those of a :class:`~sparrow.kernels.matmul.workspace.Workspace`.
    kinds
        Shape (m,), uint8: written.
    sizes
        How many columns each row of few products has, or may have where it is thick, and how much further they are of
        one that is like it: uint16 (m,), written.
    slots
        Which of the columns of its row each product of those rows is added to, uint16: written; FEW is none of them.
    keys
        Those columns, row by row, or the first that a thick one may have: uint32, written.
    """
    end = np.uint64(len(places))
    n = written = like = count = shift = _ZERO
    after = made = _ZERO
    repeated, dense = len(pattern) > 0, False
    height, done_with = np.uint64(len(kinds)), _ZERO
    for i in range(height):
        if i < done_with:
            continue
        work = done[i + _ONE] - done[i]
        low, high = pointers[i], pointers[i + _ONE]
        m = stop = _ZERO
        if i < np.uint64(len(begins)):
            m, stop = begins[i], ends[i]
        if work == _ZERO:
            kinds[i] = NOTHING
            continue
        straight: Any = single and m == stop
        if straight and high - low == _ONE:
            kinds[i] = STRAIGHT
            continue
        if work > few and not (straight and work == high - low):
            kinds[i] = MANY
            dense = True
            continue
        if high - low == count and m == stop:
            step = np.uint64(places[low]) - np.uint64(places[like])
            same: Any = step <= _ONE and shift + step <= _FARTHEST
            for q in range(count):
                k = np.uint64(places[low + q])
                same &= k - np.uint64(places[like + q]) == step
                if same and step == _ONE:  # so there is a row before
                    same = pattern[k] == pattern[k - _ONE]
            if same:
                kinds[i] = SHIFTED
                shift += step
                sizes[i] = shift
                like = low
                if step == _ONE and len(begins) == 0 and len(own) > 0:
                    more = _alike(pointers, places, own, pattern, i, min(height - i - _ONE, _FARTHEST - shift))
                    for j in range(_ONE, more + _ONE):
                        kinds[i + j] = SHIFTED
                        sizes[i + j] = shift + j
                    shift += more
                    like += more * count
                    done_with = i + more + _ONE
                continue
        if repeated and m == stop:
            p = _known(places, pattern, plans, min(made, RECENT), after, low, high - low, work)
            if p < min(made, RECENT):
                step = np.uint64(places[low]) - np.uint64(places[plans[p, 0]])
                begin, behind, size = plans[p, 3], plans[p, 4], plans[p, 5]
                for e in range(work):
                    slots[n + e] = slots[begin + e]
                for e in range(size):
                    keys[written + e] = np.uint64(keys[behind + e]) + step
                kinds[i], sizes[i] = FEW_PRODUCTS, size
                n += work
                written += size
                like, count, shift = low, high - low, _ZERO
                after = p + _ONE
                continue
        smallest, largest, past = _LAST, _ZERO, _ZERO
        for q in range(low, high):
            if q + AHEAD + AHEAD < end:
                prefetch(starts, np.uint64(places[q + AHEAD + AHEAD]))
            if q + AHEAD < end:
                ahead = np.uint64(places[q + AHEAD])
                prefetch(columns, starts[ahead])
                prefetch(columns, starts[ahead + _ONE] - _ONE)
            k = np.uint64(places[q])
            begin, behind = starts[k], starts[k + _ONE]
            if begin < behind:
                c = np.uint64(columns[begin])
                straight &= c >= past
                smallest = min(smallest, c)
                past = np.uint64(columns[behind - _ONE]) + _ONE
                largest = max(largest, past - _ONE)
        if straight:
            kinds[i] = STRAIGHT
            continue
        if work > few:
            kinds[i] = MANY
            dense = True
            continue
        if seeded and not repeated and m == stop and largest - smallest < THICKNESS * work:
            kinds[i] = THICK
            keys[written] = smallest
            written += _ONE
            sizes[i] = largest - smallest + _ONE
            continue
        if work > np.uint64(FEWER) and largest - smallest < _NEAR and not repeated:
            kinds[i] = MANY
            dense = True
            continue
        kinds[i] = FEW_PRODUCTS
        size = last = _ZERO
        ascending: Any = True
        for q in range(low, high):
            k = np.uint64(places[q])
            p, behind = starts[k], starts[k + _ONE]
            if p == behind:
                continue
            ascending &= np.uint64(columns[p]) >= last
            last = np.uint64(columns[behind - _ONE])
            while p < behind:
                order[0, size] = (np.uint64(columns[p]) << _SHIFT) | size
                size += _ONE
                p += _ONE
        side = _ZERO
        if not ascending:
            _sort(order, size, smallest, largest, counts)
            side = _ONE
        prefetch(keys, written + WRITTEN_AHEAD)
        prefetch(keys, written + WRITTEN_AHEAD + _LINE)
        prefetch(slots, n + WRITTEN_AHEAD + WRITTEN_AHEAD)
        found = _ZERO
        last = _NONE
        if m == stop:
            for e in range(size):
                c = order[side, e] >> _SHIFT
                new = np.uint64(c != last)
                last = c
                found += new
                keys[written + found - _ONE] = c
                slots[n + (order[side, e] & _POSITION)] = (found - _ONE) | (new * FIRST)
            if repeated:
                like, count, shift = low, high - low, _ZERO
                p = made % RECENT
                plans[p, 0], plans[p, 1], plans[p, 2] = low, count, work
                plans[p, 3], plans[p, 4], plans[p, 5] = n, written, found
                made += _ONE
                after = p + _ONE
        else:
            slot = np.uint64(FEW)
            for e in range(size):
                c = order[side, e] >> _SHIFT
                if c != last:
                    last = c
                    if stop - m > SEARCHED * size:
                        m = place_of(c, unwanted, m, stop)
                    while m < stop and unwanted[m] < c:
                        m += _ONE
                    slot = np.uint64(FEW)
                    if m == stop or unwanted[m] != c:
                        slot = found
                        keys[written + found] = c
                        found += _ONE
                    slots[n + (order[side, e] & _POSITION)] = slot | FIRST
                else:
                    slots[n + (order[side, e] & _POSITION)] = slot
            count = _ZERO
        n += size
        written += found
        sizes[i] = found
    return dense


@register_jitable
def _rank(order: Any, size: Any, most: int) -> None:
    """Sort so many numbers, of which there are at most ``most``: a constant, so that nothing is asked on the way."""
    for e in range(size, np.uint64(most), LANES):
        store(order, e, LANES, spread(_NONE))
    for e in range(_ZERO, np.uint64(most), LANES):
        own, ranks = load(order, e, LANES), spread(_ZERO)
        for j in range(np.uint64(most)):
            ranks += below(spread(order[0, j]), own)
        store(order, _RANKS + e, LANES, ranks)
    for e in range(np.uint64(most)):
        order[1, order[2, e]] = order[0, e]


@njit(cache=True, nogil=True)
def _sort(order, size, smallest, largest, counts):  # type: ignore[no-untyped-def]
    """Sort numbers of a column and a position each, all different, from the first buffer into the second."""
    if size <= _FEWEST:
        for e in range(size):
            key = np.int64(order[0, e])
            rank: Any = 0
            for j in range(size):
                rank += np.int64(order[0, j]) < key
            order[1, np.uint64(rank)] = order[0, e]
        return
    if size <= _RANKED // 2:
        _rank(order, size, _RANKED // 2)
        return
    if size <= _RANKED:
        _rank(order, size, _RANKED)
        return
    shift = _SHIFT
    while ((largest - smallest) >> (shift - _SHIFT)) > np.uint64(255):
        shift += _ONE
    counts[:] = 0
    base = smallest << _SHIFT
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
