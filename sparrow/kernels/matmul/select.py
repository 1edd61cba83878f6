"""Largest values of each row, by a heap of bounded size.

:func:`select_largest` selects from rows that are written, :func:`get_topk_kernel` from those of a product before they
are: a row is accumulated in a dense row as by :mod:`sparrow.kernels.matmul.spgemm`, so results have the same bits, and
eight columns at a time are compared with the smallest value in the heap.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from sparrow.kernels.jit.compiler import njit, register_jitable
from sparrow.kernels.matmul.spgemm import resolve_operations
from sparrow.kernels.matmul.symbolic import PREFETCH_NEAR
from sparrow.kernels.simd import LANES, broadcast, exceeding_bits, load, not_equal_bits, prefetch, store

__all__ = ["get_topk_kernel", "select_largest"]

_ZERO, _ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)

_inline: Any = register_jitable(forceinline=True)


@njit(cache=True, nogil=True)
def select_largest(indptr, values, k, out):  # type: ignore[no-untyped-def]
    """Write the positions of the ``k`` largest values of each row, ascending.

    Of equal values the first ones are taken, and NaN only where nothing else is left.

    Parameters
    ----------
    indptr
        Bounds of each row, int64 (m + 1,).
    values
        Values, shape (n,).
    k
        Number of values of each row, at least 1.
    out
        Receives the positions, int64, as many as there may be.

    Returns
    -------
    int
        The number of positions.
    """
    n = 0
    heap = np.empty(k, np.int64)  # positions; the root is the first to be replaced
    for row in range(len(indptr) - 1):
        start, stop = indptr[row], indptr[row + 1]
        if stop - start <= k:
            for p in range(start, stop):
                out[n] = p
                n += 1
            continue
        for p in range(start, start + k):
            child = p - start
            while child > 0:
                parent = (child - 1) // 2
                if not _is_after(values, p, heap[parent]):
                    break
                heap[child] = heap[parent]
                child = parent
            heap[child] = p
        worst = values[heap[0]]
        for p in range(start + k, stop):
            value = values[p]
            if not (value > worst or (worst != worst and value == value)):  # a later equal one does not replace it
                continue
            parent = 0
            while 2 * parent + 1 < k:
                child = 2 * parent + 1
                if child + 1 < k and _is_after(values, heap[child + 1], heap[child]):
                    child += 1
                if not _is_after(values, heap[child], p):
                    break
                heap[parent] = heap[child]
                parent = child
            heap[parent] = p
            worst = values[heap[0]]
        out[n : n + k] = np.sort(heap)
        n += k
    return n


@njit(cache=True, nogil=True)
def _is_after(values, p, q):  # type: ignore[no-untyped-def]
    """Return whether the value at ``p`` is taken after that at ``q``."""
    a, b = values[p], values[q]
    if a == b or (a != a and b != b):
        return p > q
    return a != a or a < b


def get_topk_kernel(
    add: Any, multiply: Any, dtype: np.dtype[Any], swap: bool = False, rounds: bool = False
) -> Callable[..., int]:
    """Return the kernel of a semiring that writes the k largest results of each row.

    Parameters and errors are those of :func:`sparrow.kernels.matmul.spgemm.get_kernels`. The dtype is real, and ``add``
    has an identity. Results are rounded to float32 before they are compared if ``rounds``.
    """
    add, multiply, *addresses = resolve_operations(add, multiply, dtype, swap)
    return functools.partial(_build_topk(add, multiply, rounds), *addresses)


@_inline
def _keep(value):  # type: ignore[no-untyped-def]
    return value


@_inline
def _round(value):  # type: ignore[no-untyped-def]
    return np.float64(np.float32(value))


@_inline
def _is_before(value, column, other, other_column):  # type: ignore[no-untyped-def]
    """Return whether a result is taken before another one."""
    if value == other or (value != value and other != other):
        return column < other_column
    return value > other or other != other


@_inline
def _offer(value, column, values, columns, size):  # type: ignore[no-untyped-def]
    """Offer a result to the heap, whose root is replaced first; return its size."""
    if size < np.uint64(len(values)):
        child = size
        while child > _ZERO:
            parent = (child - _ONE) // _TWO
            if not _is_before(values[parent], columns[parent], value, column):
                break
            values[child], columns[child] = values[parent], columns[parent]
            child = parent
        values[child], columns[child] = value, column
        return size + _ONE
    if _is_before(value, column, values[0], columns[0]):
        parent = _ZERO
        while _TWO * parent + _ONE < size:
            child = _TWO * parent + _ONE
            other = child + _ONE
            if other < size and _is_before(values[child], columns[child], values[other], columns[other]):
                child = other
            if not _is_before(value, column, values[child], columns[child]):
                break
            values[parent], columns[parent] = values[child], columns[child]
            parent = child
        values[parent], columns[parent] = value, column
    return size


@_inline
def _sort_by_column(values, columns, size):  # type: ignore[no-untyped-def]
    """Sort results by Shell's method."""
    gap = size // _TWO
    while gap > _ZERO:
        for e in range(gap, size):
            value, column, at = values[e], columns[e], e
            while at >= gap and columns[at - gap] > column:
                values[at], columns[at] = values[at - gap], columns[at - gap]
                at -= gap
            values[at], columns[at] = value, column
        gap //= _TWO


@functools.cache
def _build_topk(add: Any, multiply: Any, rounds: bool) -> Any:
    rounded: Any = _round if rounds else _keep

    @njit(cache=True, nogil=True)
    def topk_rows(  # type: ignore[no-untyped-def]
        add_address, multiply_address, lhs_indptr, lhs_indices, lhs_data, rhs_indptr, rhs_indices, rhs_data,
        mask_begins, mask_ends, mask_columns, width, fill, seed, dense, k, out_indptr, out_columns, out
    ):  # fmt: skip
        """Write the k largest results of each row in CSR; return their number.

        Columns ascend. Of equal results those of lower columns are taken, and NaN only where nothing else is left.
        Results at mask elements are left out.

        Parameters
        ----------
        add_address, multiply_address, lhs_indptr, lhs_indices, lhs_data, rhs_indptr, rhs_indices, rhs_data,
        mask_begins, mask_ends, mask_columns, width, fill, seed, dense
            As for the kernel ``rows`` of :mod:`sparrow.kernels.matmul.spgemm`; dense rows are filled with the seed.
        k
            Number of results of each row, uint64, at least 1.
        out_indptr
            Receives the row pointers, int64 (m + 1,).
        out_columns, out
            Receive columns and results, as many as there may be.
        """
        n = _ZERO
        values, columns = np.empty(k, out.dtype), np.empty(k, np.uint32)
        for i in range(np.uint64(len(lhs_indptr) - 1)):
            out_indptr[i] = n
            low, high = lhs_indptr[i], lhs_indptr[i + _ONE]
            for q in range(low, high):
                if q + PREFETCH_NEAR < high:
                    ahead = rhs_indptr[np.uint64(lhs_indices[q + PREFETCH_NEAR])]
                    prefetch(rhs_indices, ahead)
                    prefetch(rhs_data, ahead)
                x, r = lhs_data[q], np.uint64(lhs_indices[q])
                for p in range(rhs_indptr[r], rhs_indptr[r + _ONE]):
                    c = np.uint64(rhs_indices[p])
                    dense[c] = add(add_address, dense[c], multiply(multiply_address, x, rhs_data[p]))
            if i < np.uint64(len(mask_begins)):
                for m in range(mask_begins[i], mask_ends[i]):
                    dense[np.uint64(mask_columns[m])] = seed
            size, worst = _ZERO, seed
            for at in range(_ZERO, width, LANES):
                found = load(dense, at, LANES)
                if size < k or exceeding_bits(found, broadcast(worst)):
                    hits = not_equal_bits(found, broadcast(seed)) & not_equal_bits(found, broadcast(fill))
                    if size == k:
                        hits &= exceeding_bits(found, broadcast(worst))
                    for lane in range(LANES):
                        if (hits >> lane) & _ONE:
                            size = _offer(rounded(dense[at + lane]), np.uint32(at + lane), values, columns, size)
                    worst = values[0]
                store(dense, at, LANES, broadcast(seed))
            _sort_by_column(values, columns, size)
            for e in range(size):
                out_columns[n], out[n] = columns[e], values[e]
                n += _ONE
        out_indptr[np.uint64(len(lhs_indptr) - 1)] = n
        return n

    return topk_rows
