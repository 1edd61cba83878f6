"""How far rows of a product go until what they multiply fills memory, and how that is brought together, compiled."""

from __future__ import annotations

import numpy as np

from sparrow.kernels.jit.compiler import njit

__all__ = ["moves", "section_end"]


@njit(cache=True, nogil=True)
def section_end(bounds, keys, lengths, room, row, marks, state, work):  # type: ignore[no-untyped-def]
    """Return the row at which what is multiplied would take more than there is room for, or the number of rows.

    A row that alone does is taken into a section of its own.

    Parameters
    ----------
    bounds, keys
        Where rows begin and end, int64 (m + 1,), and which row of the other matrix each entry multiplies, int32 (n,).
    lengths
        How long those are, int32 (k,).
    room
        Entries of the other matrix.
    row
        Where to begin.
    marks
        Of each row of the other matrix the first row of the section that multiplies it, by number; int32 (k,).
    state
        The number of the last row, that of the first row of the section, and the entries multiplied so far: changed.
    work
        Shape (m,): the products of each row are written.
    """
    number, begin, held = state[0], state[1], state[2]
    while row < len(work):
        number += 1
        more = products = 0
        for q in range(np.uint64(bounds[row]), np.uint64(bounds[row + 1])):
            k = np.uint64(keys[q])  # unsigned: a negative index would be looked for
            products += lengths[k]
            if marks[k] < begin:
                marks[k] = number
                more += lengths[k]
        if held and held + more > room:
            break
        held += more
        work[row] = products
        row += 1
    state[0], state[1], state[2] = number, begin, held
    return row


@njit(cache=True, nogil=True)
def moves(needed, lengths, first, last, pointers, starts, stops, begins):  # type: ignore[no-untyped-def]
    """Return how many stretches of a matrix by rows hold the rows that are needed, of those between two.

    Parameters
    ----------
    needed
        Whether each row is, uint8.
    lengths
        How long each is, int32.
    first, last
        The first row, and that after the last one.
    pointers
        Where each row that is needed begins behind those before, which ``pointers[first]`` says: written beyond it.
    starts, stops, begins
        Written: where stretches begin and end among the entries from the first row on, and where they go.
    """
    at, to, found, inside = 0, pointers[first], 0, False
    for row in range(np.uint64(first), np.uint64(last)):
        length = lengths[row]
        if length and (needed[row] != 0) != inside:
            inside = not inside
            if inside:
                starts[found], begins[found] = at, to
            else:
                stops[found] = at
                found += 1
        if inside:
            to += length
        at += length
        pointers[row + np.uint64(1)] = to
    if inside:
        stops[found] = at
        found += 1
    return found
