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
def transpose(indptr, cols, values, weighted, places, rows, moved):  # type: ignore[no-untyped-def]
    """Write edges sorted by row into ``rows`` and ``moved``, sorted by column.

    ``places`` (shape (columns,)) says where the links of each column begin; it is counted up.
    """
    for row in range(len(indptr) - 1):
        for k in range(indptr[row], indptr[row + 1]):
            at = places[cols[k]]
            places[cols[k]] = at + 1
            rows[at] = row
            if weighted:
                moved[at] = values[k]


@njit(cache=True, nogil=True, error_model="numpy")
def row_block_bounds(indptr, height, links, span):  # type: ignore[no-untyped-def]
    """Return the bounds of row blocks of about ``links`` edges and at most ``span`` rows.

    A block has at most ``height`` rows with links, ``links`` links and ``span`` rows in all; a row with more links is
    a block of its own.
    """
    n = len(indptr) - 1
    cuts = np.empty(n + 1, np.int64)
    cuts[0] = 0
    count, filled = 1, 0
    for row in range(n):
        begin = cuts[count - 1]
        more = indptr[row + 1] > indptr[row]
        if row - begin == span or (filled and more and (filled == height or indptr[row + 1] - indptr[begin] > links)):
            cuts[count] = row
            count += 1
            filled = 0
        filled += more
    cuts[count] = n
    return cuts[: count + 1].copy()


@njit(cache=True, nogil=True, error_model="numpy")
def part_bounds(indptr, cuts, links, span):  # type: ignore[no-untyped-def]
    """Return the bounds of groups of blocks: at most so many edges and rows each, or one block."""
    n = len(cuts) - 1
    parts = np.empty(n + 1, np.int64)
    parts[0] = 0
    count = 1
    for block in range(1, n):
        begin = cuts[parts[count - 1]]
        end = cuts[block + 1]
        if indptr[end] - indptr[begin] > links or end - begin > span:
            parts[count] = block
            count += 1
    parts[count] = n
    return parts[: count + 1].copy()
