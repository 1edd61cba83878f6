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
    def merge_add(  # type: ignore[no-untyped-def]
        indptr, columns, values, other_indptr, other_columns, other_values, fill, out_indptr, out_columns, out
    ):  # fmt: skip
        """Write rows with the elements of both inputs; return the number of elements.

        Parameters
        ----------
        indptr, columns, values
            First input: row pointers int64 (m + 1,), columns ascending in each row, and values (n,).
        other_indptr, other_columns, other_values
            Second input, in the same form; it is the right operand of ``add``.
        fill
            Sums equal to it are dropped.
        out_indptr, out_columns, out
            Receive the result: row pointers (m + 1,), and arrays one longer than the elements of both inputs.
        """
        n = np.uint64(0)
        for i in range(len(indptr) - 1):
            out_indptr[i] = n
            p, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
            q, stop = np.uint64(other_indptr[i]), np.uint64(other_indptr[i + 1])
            while p < end and q < stop:
                a, b = columns[p], other_columns[q]
                x, y = values[p], other_values[q]
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
                out_columns[n] = other_columns[q]
                out[n] = other_values[q]
                q += _ONE
                n += _ONE
        out_indptr[len(indptr) - 1] = n
        return n

    return merge_add
