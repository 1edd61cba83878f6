"""Top-k selection per row, over blocks of columns.

A candidate is a uint64 key: the upper half decreases with the score, the lower half is the column. Ascending keys are
therefore descending scores, smaller columns first among ties. Keys of a row are unique, so the result does not depend
on how columns are split into blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.kernels.jit.compiler import njit

__all__ = ["LARGEST", "NO_CANDIDATE", "decode", "exclude_columns", "sort_candidates", "update_candidates"]

NO_CANDIDATE = np.iinfo(np.uint64).max
"""Key of an empty slot; no score has it."""

LARGEST = 1 << 32
"""Maximal number of columns: a key has 32 bits for them."""

_SEGMENT = 64
"""Scores compared together, in a loop that the compiler vectorizes."""


@njit(cache=True, nogil=True, error_model="numpy")
def exclude_columns(scores, first, indptr, indices, cursors):  # type: ignore[no-untyped-def]
    """Set excluded scores of a block to NaN, which is never selected.

    Parameters
    ----------
    scores
        Scores of columns ``first, first + 1, ...``, shape (rows, width); modified.
    first
        Column of ``scores[:, 0]``.
    indptr, indices
        Sorted columns to exclude per row: ``indices[indptr[r]:indptr[r + 1]]``.
    cursors
        Position of each row in ``indices``, shape (rows,); advanced past this block.
    """
    rows, width = scores.shape
    stop = first + width
    for row in range(rows):
        at = cursors[row]
        while at < indptr[row + 1] and indices[at] < stop:
            if indices[at] >= first:
                scores[row, indices[at] - first] = np.nan
            at += 1
        cursors[row] = at


@njit(cache=True, nogil=True, error_model="numpy")
def update_candidates(scores, first, k, keys, counts, thresholds):  # type: ignore[no-untyped-def]
    """Merge the scores of a block of columns into the best k of each row.

    Blocks must come in ascending order of columns.

    Parameters
    ----------
    scores
        Scores of columns ``first, first + 1, ...``, shape (rows, width). NaN and -inf are ignored.
    first
        Column of ``scores[:, 0]``.
    k
        Number of scores to keep per row.
    keys
        Candidates of each row, shape (rows, capacity), capacity > k.
    counts
        Number of candidates per row, shape (rows,); 0 initially.
    thresholds
        Score that a candidate must exceed, shape (rows,), float32; -inf initially. Once a row has k candidates, its
        threshold is at most the k-th best score, since an equal score of a later column ranks lower.
    """
    rows, width = scores.shape
    room, whole = keys.shape[1], width // _SEGMENT
    for row in range(rows):
        line = scores[row]
        threshold = thresholds[row]
        count = counts[row]
        for number in range(whole + 1):
            start = number * _SEGMENT
            if number < whole:
                segment = line[start : start + _SEGMENT]
                above = 0
                for place in range(_SEGMENT):  # constant length and no branch, so the compiler vectorizes it
                    above |= segment[place] > threshold
                if not above:
                    continue
            for column in range(start, min(start + _SEGMENT, width)):
                score = line[column]
                if score > threshold:
                    keys[row, count] = _key(score, first + column)
                    count += 1
                    if count == room:
                        threshold = _score(_select(keys[row], k))
                        count = k
        thresholds[row] = threshold
        counts[row] = count


@njit(cache=True, nogil=True, error_model="numpy")
def _select(keys, k):  # type: ignore[no-untyped-def]
    """Partition keys at the k-th smallest; return it (quickselect, Hoare 1961)."""
    low, high = 0, len(keys) - 1
    while low < high:
        middle = (low + high) >> 1
        a, b, c = keys[low], keys[middle], keys[high]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = low, high
        while i <= j:
            while keys[i] < pivot:
                i += 1
            while keys[j] > pivot:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                i += 1
                j -= 1
        if k - 1 <= j:
            high = j
        elif k - 1 >= i:
            low = i
        else:
            break
    return keys[k - 1]


def sort_candidates(keys: NDArray[np.uint64], counts: NDArray[np.int64]) -> None:
    """Sort the candidates of each row, the best first, and pad with ``NO_CANDIDATE``."""
    keys[np.arange(keys.shape[1]) >= counts[:, None]] = NO_CANDIDATE
    keys.sort(axis=1)


@njit(cache=True, nogil=True, error_model="numpy")
def _key(score, column):  # type: ignore[no-untyped-def]
    bits = np.float32(score + np.float32(0)).view(np.uint32)  # -0.0 becomes 0.0
    falling = np.uint32(bits if bits >> 31 else ~bits & np.uint32(0x7FFFFFFF))
    return (np.uint64(falling) << np.uint64(32)) | np.uint64(column)


@njit(cache=True, nogil=True, error_model="numpy")
def _score(key):  # type: ignore[no-untyped-def]
    falling = np.uint32(key >> np.uint64(32))
    return np.uint32(falling if falling >> 31 else ~falling & np.uint32(0x7FFFFFFF)).view(np.float32)


def decode(keys: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return columns and scores of keys; -1 and -inf for ``NO_CANDIDATE``."""
    absent = keys == NO_CANDIDATE
    columns = (keys & np.uint64(LARGEST - 1)).astype(np.int64)
    falling = (keys >> np.uint64(32)).astype(np.uint32)
    scores: NDArray[Any] = np.where(falling >> 31, falling, ~falling & np.uint32(0x7FFFFFFF)).view(np.float32)
    columns[absent] = -1
    return columns, np.where(absent, np.float32(-np.inf), scores)
