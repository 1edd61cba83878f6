"""Kernels that split the left operand into row sections and gather right rows."""

from __future__ import annotations

import numpy as np

from sparrow.kernels.jit.compiler import njit

__all__ = ["find_row_runs", "find_section_end"]


@njit(cache=True, nogil=True)
def find_section_end(bounds, keys, lengths, room, row, marks, state, work):  # type: ignore[no-untyped-def]
    """Return the first row whose right rows exceed the section's room.

    Returns the number of rows if all fit. A row that exceeds the room by itself becomes a section of its own.

    Parameters
    ----------
    bounds, keys
        Left operand in CSR: row pointers, int64 (m + 1,), and the right row of each element, int32 (n,).
    lengths
        Stored elements of each right row, int32 (k,).
    room
        Stored elements of the right operand that a section may hold.
    row
        First row to visit.
    marks
        Last row that marked each right row, int32 (k,); updated.
    state
        Last row, first row of the section, and elements in the section; updated.
    work
        Receives the number of products of each row, shape (m,).
    """
    number, begin, held = state[0], state[1], state[2]
    while row < len(work):
        number += 1
        more = products = 0
        for q in range(np.uint64(bounds[row]), np.uint64(bounds[row + 1])):
            k = np.uint64(keys[q])  # unsigned: skips the test for negative indices
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
def find_row_runs(needed, lengths, first, last, pointers, starts, stops, begins):  # type: ignore[no-untyped-def]
    """Find the runs of consecutive needed rows of a CSR matrix; return their number.

    Parameters
    ----------
    needed
        Whether each row is needed, uint8.
    lengths
        Stored elements of each row, int32.
    first, last
        Range of rows, [first, last).
    pointers
        Start of each needed row in the output; ``pointers[first]`` is read, later ones are written.
    starts, stops, begins
        Receive the source bounds of each run, relative to row ``first``, and its destination.
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
