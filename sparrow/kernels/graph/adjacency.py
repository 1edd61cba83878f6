"""Adjacency in CSR form: counting, transposition, partitioning into row blocks."""

from __future__ import annotations

import numpy as np

from sparrow.kernels.jit.compiler import njit

__all__ = ["count_edges", "part_bounds", "row_block_bounds", "transpose"]


@njit(cache=True, nogil=True, error_model="numpy")
def count_edges(rows, cols, row_counts, col_counts):  # type: ignore[no-untyped-def]
    """Add the edges of a chunk to the out- and in-degrees."""
    height, width = np.uint64(len(row_counts)), np.uint64(len(col_counts))
    for k in range(len(rows)):
        row, col = np.uint64(rows[k]), np.uint64(cols[k])
        if row < height and col < width:
            row_counts[row] += 1
            col_counts[col] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def transpose(indptr, cols, values, weighted, starts, out_rows, out_values):  # type: ignore[no-untyped-def]
    """Transpose edges sorted by row into ``out_rows`` and ``out_values``.

    ``starts``, shape (columns,), holds the start of each column and is advanced.
    """
    for row in range(len(indptr) - 1):
        for k in range(indptr[row], indptr[row + 1]):
            at = starts[cols[k]]
            starts[cols[k]] = at + 1
            out_rows[at] = row
            if weighted:
                out_values[at] = values[k]


@njit(cache=True, nogil=True, error_model="numpy")
def row_block_bounds(indptr, max_nonempty, max_edges, max_rows):  # type: ignore[no-untyped-def]
    """Return the bounds of row blocks.

    A block has at most ``max_nonempty`` non-empty rows, ``max_edges`` edges and ``max_rows`` rows. A row with more
    edges is a block of its own.
    """
    n = len(indptr) - 1
    bounds = np.zeros(n + 1, np.int64)
    if n == 0:
        return bounds
    count, filled = 1, 0
    for row in range(n):
        begin = bounds[count - 1]
        more = indptr[row + 1] > indptr[row]
        if row - begin == max_rows or (
            filled and more and (filled == max_nonempty or indptr[row + 1] - indptr[begin] > max_edges)
        ):
            bounds[count] = row
            count += 1
            filled = 0
        filled += more
    bounds[count] = n
    return bounds[: count + 1].copy()


@njit(cache=True, nogil=True, error_model="numpy")
def part_bounds(indptr, bounds, max_edges, max_rows):  # type: ignore[no-untyped-def]
    """Return the bounds of groups of blocks.

    A group has at most ``max_edges`` edges and ``max_rows`` rows; a larger block is a group of its own.
    """
    n = len(bounds) - 1
    parts = np.zeros(n + 1, np.int64)
    if n == 0:
        return parts
    count = 1
    for block in range(1, n):
        begin = bounds[parts[count - 1]]
        end = bounds[block + 1]
        if indptr[end] - indptr[begin] > max_edges or end - begin > max_rows:
            parts[count] = block
            count += 1
    parts[count] = n
    return parts[: count + 1].copy()
