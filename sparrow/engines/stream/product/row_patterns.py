"""How alike the rows of a product's operands are, and how many products come of them: told before any is formed."""

from __future__ import annotations

import itertools
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.kernels.jit.warmup import as_readonly
from sparrow.kernels.matmul import numpy_fallback
from sparrow.runtime import settings
from sparrow.runtime.thread_pool import ordered_map

__all__ = ["NO_PATTERNS", "gathered", "patterns", "patterns_of", "products_before"]

_COUNTED = 1 << 19
"""Entries whose products a thread counts at a time."""
_ALIKE = 1 << 14
"""Entries from which on it is looked whether rows are alike."""
_LOOKED_AT, _TOLD = 64, 1 << 17
"""Rows that are looked at together, to see if they are alike, and where they are."""
NO_PATTERNS = as_readonly(np.empty(0, np.uint32))
"""Those of rows that are not known."""
_NEAR, _STRETCH = 64, 1 << 12
"""Columns that share a word of the marks of a dense row; entries that are looked at together, to see if they do."""


def products_before(
    pointers: NDArray[Any], places: NDArray[Any], starts: NDArray[Any], own: NDArray[Any], patterns: NDArray[Any]
) -> NDArray[np.int64]:
    """Return how many products there are before each row, and in all."""
    if numpy_fallback.suffices(len(places)):
        return numpy_fallback.products_before(pointers, places, starts)
    from sparrow.kernels.matmul import symbolic

    done = np.empty(len(pointers), np.int64)
    done[0] = 0
    begins, starts = (as_readonly(each.view(np.uint64)) for each in (pointers, starts))
    matched = as_readonly(places.view(np.uint32))
    cuts = np.searchsorted(pointers, np.arange(_COUNTED, len(places), _COUNTED))
    spans = list(itertools.pairwise(np.unique([0, *cuts, len(pointers) - 1]).tolist()))

    def counted(span: tuple[int, int]) -> tuple[int, int]:
        rows, bounds = slice(*span), slice(span[0], span[1] + 1)
        symbolic.products_before(begins[bounds], matched, starts, own[rows], patterns, done[bounds])
        return span

    for first, last in ordered_map(counted, spans, settings.current().threads):
        done[first + 1 : last + 1] += done[first]
    return done


def patterns(starts: NDArray[np.uint64], columns: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the pattern of each row of a matrix; nothing where most differ from the row before, and of few entries."""
    if len(columns) < _ALIKE:
        return NO_PATTERNS
    from sparrow.kernels.matmul import symbolic

    count = len(starts) - 1
    out = np.empty(count, np.uint32)
    every = max(count // 16, _LOOKED_AT)
    looked_at = [(first, min(first + _LOOKED_AT, count)) for first in range(0, count, every)]
    for first, last in looked_at:
        symbolic.patterns(starts, columns, np.uint64(first), np.uint64(last), np.uint64(0), out)
    rows = np.concatenate([np.arange(first + 1, last) for first, last in looked_at])
    rows = rows[starts[rows] < starts[rows + 1]]
    alike = 2 * np.count_nonzero(out[rows] == out[rows - 1]) > len(rows)
    return patterns_of(starts, columns) if alike else NO_PATTERNS


def patterns_of(starts: NDArray[np.uint64], columns: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the pattern of each row of a matrix: those of stretches of rows, by all threads."""
    from sparrow.kernels.matmul import symbolic

    count = len(starts) - 1
    out, starts, columns = np.empty(count, np.uint32), as_readonly(starts), as_readonly(columns)

    def tell(first: int) -> None:
        last = np.uint64(min(first + _TOLD, count))
        symbolic.patterns(starts, columns, np.uint64(first), last, symbolic.RECENT, out)

    deque(ordered_map(tell, list(range(0, count, _TOLD)), settings.current().threads), 0)
    return out


def gathered(columns: NDArray[Any], patterns: NDArray[np.uint32]) -> int:
    """Return up to how many products of a row are gathered, where there are such columns."""
    from sparrow.kernels.matmul.symbolic import FEW, FEWER

    return FEWER if not len(patterns) and _clustered(columns) else FEW


def _clustered(columns: NDArray[Any]) -> bool:
    """Return whether most entries, sorted by rows, are near to the one before."""
    stretches = [columns[start : start + _STRETCH] for start in range(0, len(columns), max(len(columns) // 16, 1))]
    steps = np.concatenate([np.diff(stretch) for stretch in stretches]) if len(columns) else columns
    return bool(2 * np.count_nonzero((steps >= 0) & (steps < _NEAR)) > len(steps))
