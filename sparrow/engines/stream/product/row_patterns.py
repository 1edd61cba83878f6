"""Row patterns and product counts of operands, found before multiplication."""

from __future__ import annotations

import itertools
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.stream.product.tuning import tuning
from sparrow.kernels.jit.warmup import as_readonly
from sparrow.kernels.matmul import numpy_fallback
from sparrow.runtime import settings
from sparrow.runtime.thread_pool import ordered_map

__all__ = ["NO_PATTERNS", "compute_patterns", "count_products", "find_patterns", "gather_limit"]

NO_PATTERNS = as_readonly(np.empty(0, np.uint32))
"""Patterns of rows that repeat too rarely to be looked for."""


def count_products(
    lhs_indptr: NDArray[Any],
    rhs_rows: NDArray[Any],
    rhs_indptr: NDArray[Any],
    lhs_patterns: NDArray[Any],
    rhs_patterns: NDArray[Any],
) -> NDArray[np.int64]:
    """Return the number of products before each left row, and in all."""
    if numpy_fallback.use_numpy(len(rhs_rows)):
        return numpy_fallback.count_products(lhs_indptr, rhs_rows, rhs_indptr)
    from sparrow.kernels.matmul import symbolic

    offsets = np.empty(len(lhs_indptr), np.int64)
    offsets[0] = 0
    begins, rhs_indptr = (as_readonly(each.view(np.uint64)) for each in (lhs_indptr, rhs_indptr))
    rows_u32 = as_readonly(rhs_rows.view(np.uint32))
    batch = tuning().count_batch_elements
    bounds = np.searchsorted(lhs_indptr, np.arange(batch, len(rhs_rows), batch))
    spans = list(itertools.pairwise(np.unique([0, *bounds, len(lhs_indptr) - 1]).tolist()))

    def count(span: tuple[int, int]) -> tuple[int, int]:
        rows, bounds = slice(*span), slice(span[0], span[1] + 1)
        symbolic.count_products(begins[bounds], rows_u32, rhs_indptr, lhs_patterns[rows], rhs_patterns, offsets[bounds])
        return span

    for first, last in ordered_map(count, spans, settings.current().threads):
        offsets[first + 1 : last + 1] += offsets[first]
    return offsets


def find_patterns(indptr: NDArray[np.uint64], indices: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the pattern of each row; empty if few rows repeat the one before."""
    current = tuning()
    if len(indices) < current.pattern_min_elements:
        return NO_PATTERNS
    from sparrow.kernels.matmul import symbolic

    count = len(indptr) - 1
    out = np.empty(count, np.uint32)
    sample = current.pattern_sample_rows
    every = max(count // 16, sample)
    samples = [(first, min(first + sample, count)) for first in range(0, count, every)]
    for first, last in samples:
        symbolic.find_patterns(indptr, indices, np.uint64(first), np.uint64(last), np.uint64(0), out)
    rows = np.concatenate([np.arange(first + 1, last) for first, last in samples])
    rows = rows[indptr[rows] < indptr[rows + 1]]
    is_repetitive = 2 * np.count_nonzero(out[rows] == out[rows - 1]) > len(rows)
    return compute_patterns(indptr, indices) if is_repetitive else NO_PATTERNS


def compute_patterns(indptr: NDArray[np.uint64], indices: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the pattern of each row of a CSR matrix, computed by all threads."""
    from sparrow.kernels.matmul import symbolic

    count, batch = len(indptr) - 1, tuning().pattern_batch_rows
    out, indptr, indices = np.empty(count, np.uint32), as_readonly(indptr), as_readonly(indices)

    def find(first: int) -> None:
        last = np.uint64(min(first + batch, count))
        symbolic.find_patterns(indptr, indices, np.uint64(first), last, symbolic.MAX_PATTERNS, out)

    deque(ordered_map(find, list(range(0, count, batch)), settings.current().threads), 0)
    return out


def gather_limit(indices: NDArray[Any], rhs_patterns: NDArray[np.uint32]) -> int:
    """Return the number of products of a row that are gathered into slots at most."""
    from sparrow.kernels.matmul.symbolic import MAX_GATHERED, MAX_GATHERED_CLUSTERED

    limit = tuning().gather_limit
    if limit is not None:
        return limit
    return MAX_GATHERED_CLUSTERED if not len(rhs_patterns) and _is_clustered(indices) else MAX_GATHERED


def _is_clustered(indices: NDArray[Any]) -> bool:
    """Return whether most elements, in row order, are close to the one before."""
    current = tuning()
    starts = range(0, len(indices), max(len(indices) // 16, 1))
    samples = [indices[start : start + current.clustered_sample] for start in starts]
    steps = np.concatenate([np.diff(sample) for sample in samples]) if len(indices) else indices
    return bool(2 * np.count_nonzero((steps >= 0) & (steps < current.clustered_columns)) > len(steps))
