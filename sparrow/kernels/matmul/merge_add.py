"""Adding up two sets of rows, entry by entry, under any named operation, without branches that depend on data."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from sparrow.kernels.jit.compiler import njit
from sparrow.kernels.matmul.spgemm import NAMED

__all__ = ["adding_of"]

_ONE = np.uint64(1)


@functools.cache
def adding_of(add: str) -> Any:
    """Return the loop that adds up two sets of rows, compiled when it is first called."""
    operation = NAMED[add]

    @njit(cache=True, nogil=True)
    def added(begins, columns, values, others, more_columns, more, fill, pointers, out_columns, out):  # type: ignore[no-untyped-def]
        """Write rows that have the entries of both, columns ascending; return their number.

        Parameters
        ----------
        begins, columns, values
            Where rows begin and end, int64 (m + 1,), columns, ascending in a row, and values (n,).
        others, more_columns, more
            The same of the rows that come after them.
        fill
            Sums that equal it are left out.
        pointers, out_columns, out
            Shape (m + 1,), and room for the entries of both and one more: written.
        """
        n = np.uint64(0)
        for i in range(len(begins) - 1):
            pointers[i] = n
            p, end = np.uint64(begins[i]), np.uint64(begins[i + 1])
            q, stop = np.uint64(others[i]), np.uint64(others[i + 1])
            while p < end and q < stop:
                a, b = columns[p], more_columns[q]
                x, y = values[p], more[q]
                both = operation(0, x, y)
                value = x if a < b else y
                value = both if a == b else value
                out_columns[n] = min(a, b)
                out[n] = value
                p += np.uint64(a <= b)
                q += np.uint64(b <= a)
                n += np.uint64(value != fill)
            while p < end:
                out_columns[n] = columns[p]
                out[n] = values[p]
                p += _ONE
                n += _ONE
            while q < stop:
                out_columns[n] = more_columns[q]
                out[n] = more[q]
                q += _ONE
                n += _ONE
        pointers[len(begins) - 1] = n
        return n

    return added
