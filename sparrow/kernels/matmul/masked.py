"""Masked SpGEMM kernels: products at the stored elements of a mask only.

One kernel is Gustavson's algorithm with the columns of the mask marked in a dense row. The other computes one dot
product per mask element, for masks that are small relative to the products of their rows. Both add in the order of the
contracted index, as :mod:`sparrow.kernels.matmul.spgemm` does, so the bits are the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparrow.kernels.jit.compiler import njit
from sparrow.kernels.matmul.symbolic import PREFETCH_FAR, PREFETCH_NEAR
from sparrow.kernels.simd import BINARY_SEARCH_RATIO, lower_bound, prefetch

__all__ = ["build_masked", "build_masked_dot", "build_masked_sum", "csr_to_csc", "estimate_dot_steps"]

_ZERO, _ONE = np.uint64(0), np.uint64(1)
_TWO, _THREE, _FOUR = np.uint64(2), np.uint64(3), np.uint64(4)


def build_masked(add: Any, multiply: Any) -> Any:
    """Return the kernel of a semiring that writes products at the elements of a mask."""

    @njit(cache=True, nogil=True)
    def masked_rows(  # type: ignore[no-untyped-def]
        add_address, multiply_address, lhs_indptr, lhs_indices, lhs_data, rhs_indptr, rhs_indices, rhs_data,
        mask_begins, mask_ends, mask_columns, first, last, fill, dense, state, out_at, out
    ):  # fmt: skip
        """Write the products at mask elements and their positions; return their number.

        In a right row that is much longer than the mask row, the columns of the mask are found by binary search.

        Parameters
        ----------
        add_address, multiply_address, lhs_indptr, lhs_indices, lhs_data, rhs_indptr, rhs_indices, rhs_data, fill
            As for the kernel ``rows`` of :mod:`sparrow.kernels.matmul.spgemm`.
        mask_begins, mask_ends, mask_columns
            Bounds of each row in the mask, and column of each mask element, ascending in a row: uint64 (m,), uint64
            (m,), uint32 (n,).
        first, last
            Rows [first, last) are computed.
        dense
            Accumulators, one per column; need not be cleared.
        state
            State of each column, uint8, 0 before and after.
        out_at, out
            Receive positions and products; one longer than the number of mask elements in these rows.
        """
        n = _ZERO
        entries = np.uint64(len(lhs_indices))
        for i in range(first, last):
            begin, end = mask_begins[i], mask_ends[i]
            if begin == end:
                continue
            count = end - begin
            for m in range(begin, end):
                state[mask_columns[m]] = 1
            for q in range(lhs_indptr[i], lhs_indptr[i + _ONE]):
                if q + PREFETCH_FAR < entries:
                    prefetch(rhs_indptr, np.uint64(lhs_indices[q + PREFETCH_FAR]))
                if q + PREFETCH_NEAR < entries:
                    ahead = rhs_indptr[np.uint64(lhs_indices[q + PREFETCH_NEAR])]
                    prefetch(rhs_indices, ahead)
                    prefetch(rhs_data, ahead)
                x = lhs_data[q]
                k = np.uint64(lhs_indices[q])
                low, high = rhs_indptr[k], rhs_indptr[k + _ONE]
                if high - low > BINARY_SEARCH_RATIO * count:
                    for m in range(begin, end):
                        c = mask_columns[m]
                        low = lower_bound(c, rhs_indices, low, high)
                        while low < high and rhs_indices[low] == c:
                            value = multiply(multiply_address, x, rhs_data[low])
                            dense[c] = value if state[c] == 1 else add(add_address, dense[c], value)
                            state[c] = 2
                            low += _ONE
                    continue
                for p in range(low, high):
                    c = rhs_indices[p]
                    seen = state[c]
                    if seen == 1:
                        state[c] = 2
                        dense[c] = multiply(multiply_address, x, rhs_data[p])
                    elif seen == 2:
                        dense[c] = add(add_address, dense[c], multiply(multiply_address, x, rhs_data[p]))
            for m in range(begin, end):
                c = mask_columns[m]
                if state[c] == 2:
                    out_at[n] = m
                    out[n] = dense[c]
                    n += np.uint64(out[n] != fill)
                state[c] = 0
        return n

    return masked_rows


def build_masked_sum(multiply: Any) -> Any:
    """Return the kernel that sums products at mask elements, for additions by plus."""

    @njit(cache=True, nogil=True)
    def masked_sum(  # type: ignore[no-untyped-def]
        multiply_address, lhs_indptr, lhs_indices, lhs_data, rhs_indptr, rhs_indices, rhs_data, mask_begins, mask_ends,
        mask_columns, weights, first, last, dense, state, out
    ):  # fmt: skip
        """Write, for each row, the weighted sum of its products at mask elements.

        Products elsewhere are added times 0, which saves a branch; a row whose sum is not finite is recomputed with it.

        Parameters
        ----------
        multiply_address, lhs_indptr, lhs_indices, lhs_data, rhs_indptr, rhs_indices, rhs_data
            As for the kernel ``rows`` of :mod:`sparrow.kernels.matmul.spgemm`.
        mask_begins, mask_ends, mask_columns, first, last
            As for :func:`build_masked`.
        weights
            Weight of each mask element, (n,).
        dense
            Weight of each column, 0 before and after.
        state
            State of each column, uint8, 0 before and after.
        out
            Receives the sums, shape (m,).
        """
        entries = np.uint64(len(lhs_indices))
        for i in range(first, last):
            begin, end = mask_begins[i], mask_ends[i]
            found = second = third = fourth = dense[0] * 0
            if begin == end:
                out[i] = found
                continue
            count = end - begin
            for m in range(begin, end):
                dense[mask_columns[m]] = weights[m]
            for q in range(lhs_indptr[i], lhs_indptr[i + _ONE]):
                if q + PREFETCH_FAR < entries:
                    prefetch(rhs_indptr, np.uint64(lhs_indices[q + PREFETCH_FAR]))
                if q + PREFETCH_NEAR < entries:
                    ahead = rhs_indptr[np.uint64(lhs_indices[q + PREFETCH_NEAR])]
                    prefetch(rhs_indices, ahead)
                    prefetch(rhs_data, ahead)
                x = lhs_data[q]
                k = np.uint64(lhs_indices[q])
                low, high = rhs_indptr[k], rhs_indptr[k + _ONE]
                if high - low > BINARY_SEARCH_RATIO * count:
                    for m in range(begin, end):
                        c = mask_columns[m]
                        low = lower_bound(c, rhs_indices, low, high)
                        while low < high and rhs_indices[low] == c:
                            found += multiply(multiply_address, x, rhs_data[low]) * dense[c]
                            low += _ONE
                    continue
                while low + _FOUR <= high:  # four independent sums hide the latency of additions
                    found += multiply(multiply_address, x, rhs_data[low]) * dense[rhs_indices[low]]
                    second += multiply(multiply_address, x, rhs_data[low + _ONE]) * dense[rhs_indices[low + _ONE]]
                    third += multiply(multiply_address, x, rhs_data[low + _TWO]) * dense[rhs_indices[low + _TWO]]
                    fourth += multiply(multiply_address, x, rhs_data[low + _THREE]) * dense[rhs_indices[low + _THREE]]
                    low += _FOUR
                for p in range(low, high):
                    found += multiply(multiply_address, x, rhs_data[p]) * dense[rhs_indices[p]]
            found += second + (third + fourth)
            for m in range(begin, end):
                dense[mask_columns[m]] = 0
            if found - found != 0:
                found = dense[0] * 0
                for m in range(begin, end):
                    state[mask_columns[m]] = 1
                for q in range(lhs_indptr[i], lhs_indptr[i + _ONE]):
                    k = np.uint64(lhs_indices[q])
                    for p in range(rhs_indptr[k], rhs_indptr[k + _ONE]):
                        if state[rhs_indices[p]]:
                            dense[rhs_indices[p]] += multiply(multiply_address, lhs_data[q], rhs_data[p])
                for m in range(begin, end):
                    c = mask_columns[m]
                    if dense[c] != 0:
                        found += dense[c] * weights[m]
                    dense[c] = 0
                    state[c] = 0
            out[i] = found

    return masked_sum


@njit(cache=True, nogil=True)
def csr_to_csc(indptr, indices, data, csc_indptr, csc_indices, csc_data):  # type: ignore[no-untyped-def]
    """Convert a matrix from CSR to CSC, rows ascending in each column.

    Parameters
    ----------
    indptr, indices, data
        CSR: uint64 (k + 1,), uint32 (n,), values (n,).
    csc_indptr
        Receives the column pointers, uint64 (width + 1,); 0 initially.
    csc_indices, csc_data
        Receive row indices, uint32 (n,), and values (n,).
    """
    for p in range(len(indices)):
        csc_indptr[np.uint64(indices[p]) + _ONE] += _ONE
    for k in range(1, len(csc_indptr)):
        csc_indptr[k] += csc_indptr[k - 1]
    at = csc_indptr[:-1].copy()
    for row in range(np.uint64(len(indptr) - 1)):
        for p in range(indptr[row], indptr[row + _ONE]):
            c = np.uint64(indices[p])
            csc_indices[at[c]] = row
            csc_data[at[c]] = data[p]
            at[c] += _ONE


@njit(cache=True, nogil=True)
def estimate_dot_steps(lhs_indptr, csc_indptr, mask_begins, mask_ends, mask_columns):  # type: ignore[no-untyped-def]
    """Estimate the steps that the dot products of mask elements take."""
    found = 0.0
    for i in range(np.uint64(len(mask_begins))):
        length = lhs_indptr[i + _ONE] - lhs_indptr[i]
        for m in range(mask_begins[i], mask_ends[i]):
            c = np.uint64(mask_columns[m])
            other = csc_indptr[c + _ONE] - csc_indptr[c]
            found += min(length + other, BINARY_SEARCH_RATIO * min(length, other))
    return found


def build_masked_dot(add: Any, multiply: Any) -> Any:
    """Return the kernel of a semiring that computes one dot product per mask element."""

    @njit(cache=True, nogil=True)
    def masked_dot(  # type: ignore[no-untyped-def]
        add_address, multiply_address, lhs_indptr, lhs_indices, lhs_data, csc_indptr, csc_indices, csc_data,
        mask_begins, mask_ends, mask_columns, fill, out_at, out
    ):  # fmt: skip
        """Write the products at mask elements and their positions; return their number.

        Parameters
        ----------
        add_address, multiply_address
            As for the kernel ``rows`` of :mod:`sparrow.kernels.matmul.spgemm`.
        lhs_indptr, lhs_indices, lhs_data
            Left matrix in CSR without duplicates, indices ascending in each row: uint64 (m + 1,), uint32 (n,), values
            (n,).
        csc_indptr, csc_indices, csc_data
            Right matrix in CSC without duplicates, from :func:`csr_to_csc`.
        mask_begins, mask_ends, mask_columns, fill, out_at, out
            As for :func:`build_masked`.
        """
        n = _ZERO
        for i in range(np.uint64(len(mask_begins))):
            start, high = lhs_indptr[i], lhs_indptr[i + _ONE]
            for m in range(mask_begins[i], mask_ends[i]):
                c = np.uint64(mask_columns[m])
                q, p, stop = start, csc_indptr[c], csc_indptr[c + _ONE]
                skips = high - q > BINARY_SEARCH_RATIO * (stop - p)
                leaps = stop - p > BINARY_SEARCH_RATIO * (high - q)
                found = False
                while q < high and p < stop:
                    here, there = lhs_indices[q], csc_indices[p]
                    if here < there:
                        q += _ONE
                        if skips:
                            q = lower_bound(there, lhs_indices, q, high)
                    elif there < here:
                        p += _ONE
                        if leaps:
                            p = lower_bound(here, csc_indices, p, stop)
                    else:
                        value = multiply(multiply_address, lhs_data[q], csc_data[p])
                        out[n] = add(add_address, out[n], value) if found else value
                        found = True
                        q += _ONE
                        p += _ONE
                if found:
                    out_at[n] = m
                    n += np.uint64(out[n] != fill)
        return n

    return masked_dot
