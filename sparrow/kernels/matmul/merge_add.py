"""Merge kernel: add two CSR matrices under a named operation, branch-free."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from sparrow.kernels.jit.compiler import njit
from sparrow.kernels.matmul.spgemm import OPERATIONS

__all__ = ["build_merge_add"]

_ONE = np.uint64(1)


@functools.cache
def build_merge_add(add: str) -> Any:
    """Return the kernel that adds two sets of rows, compiled when first called."""
    operation = OPERATIONS[add]

    @njit(cache=True, nogil=True)
    def merge_add(begins, columns, values, more_begins, more_columns, more, fill, pointers, out_columns, out):  # type: ignore[no-untyped-def]
        """Write rows with the elements of both inputs; return the number of elements.

        Parameters
        ----------
        begins, columns, values
            First input: row bounds int64 (m + 1,), columns ascending in each row, and values (n,).
        others, more_columns, more
            Second input, in the same form; it is the right operand of ``add``.
        fill
            Sums equal to it are dropped.
        pointers, out_columns, out
            Receive the result: row pointers (m + 1,), and arrays one longer than the elements of both inputs.
        """
        n = np.uint64(0)
        for i in range(len(begins) - 1):
            pointers[i] = n
            p, end = np.uint64(begins[i]), np.uint64(begins[i + 1])
            q, stop = np.uint64(more_begins[i]), np.uint64(more_begins[i + 1])
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

    return merge_add
