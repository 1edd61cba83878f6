"""Products of sparse matrices at the cells of a mask: only these are added up, row by row.

As :mod:`sparrow.kernels.matmul.spgemm`, whose loops take the same arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparrow.kernels.jit.compiler import njit
from sparrow.kernels.matmul.intrinsics import SEARCHED, place_of, prefetch
from sparrow.kernels.matmul.symbolic import AHEAD, SOON

__all__ = ["added", "masked"]

_ZERO, _ONE = np.uint64(0), np.uint64(1)
_TWO, _THREE, _FOUR = np.uint64(2), np.uint64(3), np.uint64(4)


def masked(add: Any, multiply: Any) -> Any:
    """Return the loop of a semiring that writes products at the cells of a mask."""

    @njit(cache=True, nogil=True)
    def loop(  # type: ignore[no-untyped-def]
        adding, multiplying, pointers, places, left, starts, columns, right, begins, ends, wanted, first, last, fill,
        total, state, out_at, out
    ):  # fmt: skip
        """Write the products at the cells of a mask, in its order, and where in it they are; return their number.

        Of a row of the right matrix that is much longer than the mask's only the columns of the mask are looked for.

        Parameters
        ----------
        adding, multiplying, pointers, places, left, starts, columns, right, fill, total
            As of a loop ``rows`` of :mod:`sparrow.kernels.matmul.spgemm`.
        begins, ends, wanted
            Between which positions the cells of each row are in the mask, and the column of each, ascending in a row:
            uint64 (m,), uint64 (m,), uint32 (n,).
        state
            A byte for each column (uint8), 0 before and after.
        out_at, out
            Room for the products at as many cells as the mask has in these rows, and one more.
        """
        n = _ZERO
        entries = np.uint64(len(places))
        for i in range(first, last):
            begin, end = begins[i], ends[i]
            if begin == end:
                continue
            count = end - begin
            for m in range(begin, end):
                state[wanted[m]] = 1
            for q in range(pointers[i], pointers[i + _ONE]):
                if q + AHEAD < entries:
                    prefetch(starts, np.uint64(places[q + AHEAD]))
                if q + SOON < entries:
                    ahead = starts[np.uint64(places[q + SOON])]
                    prefetch(columns, ahead)
                    prefetch(right, ahead)
                x = left[q]
                k = np.uint64(places[q])
                low, high = starts[k], starts[k + _ONE]
                if high - low > SEARCHED * count:
                    for m in range(begin, end):
                        c = wanted[m]
                        low = place_of(c, columns, low, high)
                        while low < high and columns[low] == c:
                            value = multiply(multiplying, x, right[low])
                            total[c] = value if state[c] == 1 else add(adding, total[c], value)
                            state[c] = 2
                            low += _ONE
                    continue
                for p in range(low, high):
                    c = columns[p]
                    seen = state[c]
                    if seen == 1:
                        state[c] = 2
                        total[c] = multiply(multiplying, x, right[p])
                    elif seen == 2:
                        total[c] = add(adding, total[c], multiply(multiplying, x, right[p]))
            for m in range(begin, end):
                c = wanted[m]
                if state[c] == 2:
                    out_at[n] = m
                    out[n] = total[c]
                    n += np.uint64(out[n] != fill)
                state[c] = 0
        return n

    return loop


def added(multiply: Any) -> Any:
    """Return the loop of a semiring that adds up the products at the cells of a mask, where ``add`` is ``plus``."""

    @njit(cache=True, nogil=True)
    def loop(  # type: ignore[no-untyped-def]
        multiplying, pointers, places, left, starts, columns, right, begins, ends, wanted, weights, first, last, total,
        state, out
    ):  # fmt: skip
        """Write for each row the sum of its products at the cells of a mask, each times the weight of its cell.

        Products elsewhere are added times 0, which spares a branch; a row where that gave no finite number is added
        once more with it.

        Parameters
        ----------
        multiplying, pointers, places, left, starts, columns, right, begins, ends, wanted, first, last
            As of a kernel ``masked``.
        weights
            A number for each cell of the mask, (n,).
        total
            A number for each column, 0 before and after.
        state
            A byte for each column (uint8), 0 before and after.
        out
            Room for a number for each row.
        """
        entries = np.uint64(len(places))
        for i in range(first, last):
            begin, end = begins[i], ends[i]
            found = second = third = fourth = total[0] * 0
            if begin == end:
                out[i] = found
                continue
            count = end - begin
            for m in range(begin, end):
                total[wanted[m]] = weights[m]
            for q in range(pointers[i], pointers[i + _ONE]):
                if q + AHEAD < entries:
                    prefetch(starts, np.uint64(places[q + AHEAD]))
                if q + SOON < entries:
                    ahead = starts[np.uint64(places[q + SOON])]
                    prefetch(columns, ahead)
                    prefetch(right, ahead)
                x = left[q]
                k = np.uint64(places[q])
                low, high = starts[k], starts[k + _ONE]
                if high - low > SEARCHED * count:
                    for m in range(begin, end):
                        c = wanted[m]
                        low = place_of(c, columns, low, high)
                        while low < high and columns[low] == c:
                            found += multiply(multiplying, x, right[low]) * total[c]
                            low += _ONE
                    continue
                while low + _FOUR <= high:  # sums of their own: none waits for the one before
                    found += multiply(multiplying, x, right[low]) * total[columns[low]]
                    second += multiply(multiplying, x, right[low + _ONE]) * total[columns[low + _ONE]]
                    third += multiply(multiplying, x, right[low + _TWO]) * total[columns[low + _TWO]]
                    fourth += multiply(multiplying, x, right[low + _THREE]) * total[columns[low + _THREE]]
                    low += _FOUR
                for p in range(low, high):
                    found += multiply(multiplying, x, right[p]) * total[columns[p]]
            found += second + (third + fourth)
            for m in range(begin, end):
                total[wanted[m]] = 0
            if found - found != 0:
                found = total[0] * 0
                for m in range(begin, end):
                    state[wanted[m]] = 1
                for q in range(pointers[i], pointers[i + _ONE]):
                    k = np.uint64(places[q])
                    for p in range(starts[k], starts[k + _ONE]):
                        if state[columns[p]]:
                            total[columns[p]] += multiply(multiplying, left[q], right[p])
                for m in range(begin, end):
                    c = wanted[m]
                    if total[c] != 0:
                        found += total[c] * weights[m]
                    total[c] = 0
                    state[c] = 0
            out[i] = found

    return loop
