"""Row pointers, runs of rows, and reordering of rows and sorted columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.kernels.jit.compiler import njit
from sparrow.kernels.jit.warmup import as_readonly
from sparrow.kernels.simd import LANES, broadcast, load, store, store_fence, store_nontemporal

__all__ = [
    "copy_rows",
    "count_rows",
    "counting_sort",
    "find_row_runs",
    "find_section_end",
    "indptr_from_sorted",
    "insert_sorted",
    "merge_positions",
    "repeat_rows",
    "stream_copy",
]


@njit(cache=True, nogil=True)
def _pointers(rows, first, out):  # type: ignore[no-untyped-def]
    """Write the end of each row, counted from row ``first``, to ``out`` (zeros)."""
    for k in range(len(rows)):
        out[np.int64(rows[k]) - first + 1] = k + 1
    for k in range(1, len(out)):
        out[k] = max(out[k], out[k - 1])


def indptr_from_sorted(rows: NDArray[Any], start: int, stop: int) -> NDArray[np.int64]:
    """Return the row pointers of elements sorted by row.

    Parameters
    ----------
    rows
        Row of each element, int32 or int64, ascending.
    start, stop
        Bounds of the rows.

    Examples
    --------
    >>> indptr_from_sorted(np.array([3, 3, 5]), 2, 7)
    array([0, 0, 2, 2, 3, 3])
    """
    out = np.zeros(stop - start + 1, np.int64)
    _pointers(as_readonly(rows), start, out)
    return out


@njit(cache=True, nogil=True)
def _repeat(values, indptr, out):  # type: ignore[no-untyped-def]
    """Write eight elements at a time; the next row overwrites the excess."""
    end = np.uint64(indptr[-1])
    for k in range(len(values)):
        at, stop, value = np.uint64(indptr[k]), np.uint64(indptr[k + 1]), broadcast(values[k])
        store(out, at, end - at, value)
        while at + LANES < stop:
            at += LANES
            store(out, at, end - at, value)


def repeat_rows(values: NDArray[Any], indptr: NDArray[np.int64], out: NDArray[Any]) -> None:
    """Repeat each row value for all elements of the row, without the GIL.

    Parameters
    ----------
    values
        Integers, shape (rows,).
    indptr
        Row pointers into ``out``, shape (rows + 1,).
    out
        Receives the values, int32 or int64.

    Examples
    --------
    >>> out = np.zeros(3, np.int64)
    >>> repeat_rows(np.array([5, 6, 7]), np.array([0, 2, 2, 3]), out)
    >>> out
    array([5, 5, 7])
    """
    _repeat(as_readonly(values.astype(out.dtype, copy=False)), as_readonly(indptr), out)


@njit(cache=True, nogil=True)
def _place(starts, stops, begins, source, out):  # type: ignore[no-untyped-def]
    """Copy slices ``[starts[k], stops[k])`` of ``source`` to ``begins[k]``."""
    for k in range(len(begins)):
        first, at = np.uint64(starts[k]), np.uint64(begins[k])  # unsigned: skips the test for negative indices
        for j in range(np.uint64(stops[k]) - first):
            out[at + j] = source[first + j]


def copy_rows(
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    begins: NDArray[np.int64],
    source: NDArray[Any],
    out: NDArray[Any],
) -> None:
    """Copy rows of a compressed array to other positions, without the GIL.

    Parameters
    ----------
    starts, stops
        Bounds of the rows in ``source``, shape (rows,).
    begins
        Start of each row in ``out``, shape (rows,).
    source, out
        Arrays of one dtype.

    Examples
    --------
    >>> out = np.zeros(4, np.int64)
    >>> copy_rows(np.array([0, 2]), np.array([2, 3]), np.array([2, 0]), np.array([5, 6, 7]), out)
    >>> out
    array([7, 0, 5, 6])
    """
    width = min(out.itemsize, 8)
    words = np.dtype(f"u{width}")  # one compiled loop per item size
    each = out.itemsize // width
    bounds = as_readonly(starts * each), as_readonly(stops * each), as_readonly(begins * each)
    _place(*bounds, as_readonly(source).view(words), out.view(words))


@njit(cache=True, nogil=True)
def _copy(source, first, out):  # type: ignore[no-untyped-def]
    count = np.uint64(len(source))
    for i in range(first):
        out[i] = source[i]
    at = first
    while at + LANES <= count:
        store_nontemporal(out, at, load(source, at, LANES))
        at += LANES
    for i in range(at, count):
        out[i] = source[i]
    store_fence()


def stream_copy(source: NDArray[Any], out: NDArray[Any]) -> None:
    """Copy with non-temporal stores that bypass the cache, without the GIL.

    Regular stores read memory before they write it, which doubles the time of copies larger than the cache.

    Parameters
    ----------
    source, out
        Contiguous arrays of one length and one dtype of 4, 8 or 16 bytes.

    Examples
    --------
    >>> out = np.zeros(3)
    >>> stream_copy(np.array([1.0, 2.0, 3.0]), out)
    >>> out
    array([1., 2., 3.])
    """
    words = f"u{min(out.itemsize, 8)}"
    to = out.view(words)
    first = min(-out.ctypes.data % 64 // to.itemsize, len(to))
    _copy(as_readonly(source).view(words), np.uint64(first), to)


@njit(cache=True, nogil=True)
def _scatter(rows, at, words, out):  # type: ignore[no-untyped-def]
    for k in range(np.uint64(len(rows))):
        row = np.uint64(rows[k])
        out[at[row]] = words[k]
        at[row] += np.uint64(1)


def counting_sort(rows: NDArray[Any], begins: NDArray[np.int64], column: NDArray[Any]) -> NDArray[Any]:
    """Return a column sorted stably by row, without the GIL.

    Parameters
    ----------
    rows
        Row of each element, int32 or int64.
    begins
        Row pointers, shape (rows + 1,).
    column
        Values of at most 8 bytes.

    Examples
    --------
    >>> counting_sort(np.array([1, 0, 1]), np.array([0, 1, 3]), np.array([5, 6, 7]))
    array([6, 5, 7])
    """
    out, words = np.empty(column.shape, column.dtype), np.dtype(f"u{column.itemsize}")
    at = begins.astype(np.uint64)
    _scatter(as_readonly(rows), at, as_readonly(column).view(words), out.view(words))
    return out


@njit(cache=True, nogil=True)
def _tally(rows, out):  # type: ignore[no-untyped-def]
    for k in range(np.uint64(len(rows))):
        out[np.uint64(rows[k])] += 1


def count_rows(rows: NDArray[Any], out: NDArray[np.int64]) -> None:
    """Add the number of elements of each row to ``out``, without the GIL.

    Several times faster than NumPy.

    Parameters
    ----------
    rows
        Row of each element, int32 or int64.
    out
        Counts, shape (rows,); incremented.

    Examples
    --------
    >>> out = np.zeros(3, np.int64)
    >>> count_rows(np.array([2, 0, 2]), out)
    >>> out
    array([1, 0, 2])
    """
    _tally(as_readonly(rows), out)


@njit(cache=True, nogil=True)
def _splice(words, at, more, out):  # type: ignore[no-untyped-def]
    first = k = np.uint64(0)  # unsigned: skips the test for negative indices
    for j in range(np.uint64(len(more))):
        stop = np.uint64(at[j])
        for i in range(first, stop):
            out[k] = words[i]
            k += np.uint64(1)
        first = stop
        out[k] = more[j]
        k += np.uint64(1)
    for i in range(first, np.uint64(len(words))):
        out[k] = words[i]
        k += np.uint64(1)


def insert_sorted(values: NDArray[Any], at: NDArray[np.int64], more: NDArray[Any]) -> NDArray[Any]:
    """Return ``np.insert(values, at, more)`` for ascending positions.

    Several times faster than NumPy, and without the GIL.

    Parameters
    ----------
    values, more
        Arrays of one dtype; ``more`` is inserted into ``values``.
    at
        Positions in ``values`` to insert before, one per element of ``more``.

    Examples
    --------
    >>> insert_sorted(np.array([1, 2, 3]), np.array([0, 2, 3]), np.array([7, 8, 9]))
    array([7, 1, 2, 8, 3, 9])
    """
    if values.dtype.itemsize > 8:
        return np.insert(values, at, more)
    out = np.empty(len(values) + len(more), values.dtype)
    words = f"u{values.dtype.itemsize}"
    _splice(as_readonly(values).view(words), as_readonly(at), as_readonly(more).view(words), out.view(words))
    return out


@njit(cache=True, nogil=True)
def _places(rows, rest, wanted, wanted_rest, out):  # type: ignore[no-untyped-def]
    at, count = np.uint64(0), np.uint64(len(rows))
    for k in range(np.uint64(len(wanted))):
        row, other = wanted[k], wanted_rest[k]
        while at < count and (rows[at] < row or (rows[at] == row and rest[at] < other)):
            at += np.uint64(1)
        out[k] = at


def merge_positions(
    rows: NDArray[Any], rest: NDArray[Any], wanted: NDArray[Any], wanted_rest: NDArray[Any]
) -> NDArray[np.int64]:
    """Return insertion positions of elements sorted by row and a second key.

    Parameters
    ----------
    rows, rest
        Both keys of the elements to insert among, int32 or int64.
    wanted, wanted_rest
        Both keys of the elements to insert, of the same dtypes.

    Examples
    --------
    >>> rows, rest = np.array([1, 1, 4]), np.array([0, 7, 2])
    >>> merge_positions(rows, rest, np.array([0, 1, 4, 5]), np.array([9, 3, 2, 0]))
    array([0, 1, 2, 3])
    """
    out = np.empty(len(wanted), np.int64)
    _places(as_readonly(rows), as_readonly(rest), as_readonly(wanted), as_readonly(wanted_rest), out)
    return out


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
