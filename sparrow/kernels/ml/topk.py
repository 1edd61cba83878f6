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
"""The key of a place without a candidate; no score has it."""

LARGEST = 1 << 32
"""Columns that a key can tell apart."""

_SEGMENT = 64
"""Scores looked at together: as many as the compiler turns into vector instructions."""


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
    """Merge the scores of a block into the best k of each row; blocks come in ascending columns.

    Parameters
    ----------
    scores
        Shape (rows, width), the columns ``first, first + 1, ...``. NaN and -inf are no candidates.
    first
        The column of ``scores[:, 0]``.
    k
        How many a row keeps.
    keys
        Shape (rows, room), room > k: the candidates of each row.
    counts
        Shape (rows,): how many there are; 0 to begin with.
    thresholds
        Shape (rows,), float32: what a score must be above, -inf to begin with. Once a row has k
        candidates it is at most the k-th best, and an equal score of a later column comes after that.
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
                for place in range(_SEGMENT):  # a constant length and no branch: vector instructions
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
    """Move the k smallest of distinct keys to the front; return the largest of these (quickselect, Hoare 1961)."""
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
