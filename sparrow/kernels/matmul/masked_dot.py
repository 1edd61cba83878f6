"""Products at the cells of a mask one by one: a row of the left matrix times a column of the right one.

For masks of few cells beside the products of their rows. They are added in the order of the matched coordinate, as
:mod:`sparrow.kernels.matmul.spgemm` adds them, so the bits are the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparrow.kernels.jit.compiler import njit
from sparrow.kernels.matmul.intrinsics import SEARCHED, place_of

__all__ = ["by_columns", "dotted", "steps_of_dots"]

_ZERO, _ONE = np.uint64(0), np.uint64(1)


@njit(cache=True, nogil=True)
def by_columns(starts, columns, right, begins, rows, values):  # type: ignore[no-untyped-def]
    """Write a matrix that is given by rows by columns, rows ascending.

    Parameters
    ----------
    starts, columns, right
        The matrix by rows: uint64 (k + 1,), uint32 (n,), values (n,).
    begins
        Where columns begin, uint64 (width + 1,), zeros: written.
    rows, values
        Shape (n,), the first uint32: written.
    """
    for p in range(len(columns)):
        begins[np.uint64(columns[p]) + _ONE] += _ONE
    for k in range(1, len(begins)):
        begins[k] += begins[k - 1]
    at = begins[:-1].copy()
    for row in range(np.uint64(len(starts) - 1)):
        for p in range(starts[row], starts[row + _ONE]):
            c = np.uint64(columns[p])
            rows[at[c]] = row
            values[at[c]] = right[p]
            at[c] += _ONE


@njit(cache=True, nogil=True)
def steps_of_dots(pointers, col_begins, begins, ends, wanted):  # type: ignore[no-untyped-def]
    """Return about how many steps :func:`dotted` takes; the arguments are some of its."""
    found = 0.0
    for i in range(np.uint64(len(begins))):
        length = pointers[i + _ONE] - pointers[i]
        for m in range(begins[i], ends[i]):
            c = np.uint64(wanted[m])
            other = col_begins[c + _ONE] - col_begins[c]
            found += min(length + other, SEARCHED * min(length, other))
    return found


def dotted(add: Any, multiply: Any) -> Any:
    """Return the loop of a semiring."""

    @njit(cache=True, nogil=True)
    def loop(  # type: ignore[no-untyped-def]
        adding, multiplying, pointers, places, left, col_begins, rows, right, begins, ends, wanted, fill, out_at, out
    ):  # fmt: skip
        """Write the products at the cells of a mask, in its order, and where in it they are; return their number.

        Parameters
        ----------
        adding, multiplying
            As of a kernel ``rows``.
        pointers, places, left
            The left matrix by rows, the matched coordinate ascending in each, none twice: uint64 (m + 1,), uint32 (n,),
            values (n,).
        col_begins, rows, right
            The right one by columns, as :func:`by_columns` writes it, none twice.
        begins, ends, wanted, fill, out_at, out
            As of a kernel ``masked``.
        """
        n = _ZERO
        for i in range(np.uint64(len(begins))):
            start, high = pointers[i], pointers[i + _ONE]
            for m in range(begins[i], ends[i]):
                c = np.uint64(wanted[m])
                q, p, stop = start, col_begins[c], col_begins[c + _ONE]
                skips = high - q > SEARCHED * (stop - p)
                leaps = stop - p > SEARCHED * (high - q)
                found = False
                while q < high and p < stop:
                    here, there = places[q], rows[p]
                    if here < there:
                        q += _ONE
                        if skips:
                            q = place_of(there, places, q, high)
                    elif there < here:
                        p += _ONE
                        if leaps:
                            p = place_of(here, rows, p, stop)
                    else:
                        value = multiply(multiplying, left[q], right[p])
                        out[n] = add(adding, out[n], value) if found else value
                        found = True
                        q += _ONE
                        p += _ONE
                if found:
                    out_at[n] = m
                    n += np.uint64(out[n] != fill)
        return n

    return loop
