"""Open-addressing hash table that dictionary-encodes int64 keys."""

from __future__ import annotations

import numpy as np

from sparrow.kernels.jit.compiler import njit
from sparrow.kernels.simd import prefetch

__all__ = ["factorize", "lookup"]

_FIBONACCI = np.uint64(0x9E3779B97F4A7C15)
"""2^64 / golden ratio, the multiplier of Fibonacci hashing (Knuth, TAOCP 3, 6.4)."""
_PREFETCH_DISTANCE = 16
"""Number of keys by which slots are prefetched ahead."""


@njit(cache=True, nogil=True)
def _probe(value, shift, last, slots, distinct):  # type: ignore[no-untyped-def]
    """Return the slot of a key, or the free slot for it, and the code stored there."""
    at = (np.uint64(value) * _FIBONACCI) >> shift
    known = slots[at]
    while known >= 0 and distinct[known] != value:
        at = (at + np.uint64(1)) & last
        known = slots[at]
    return at, known


@njit(cache=True, nogil=True)
def factorize(values, bits, slots, distinct, out):  # type: ignore[no-untyped-def]
    """Encode keys in order of first appearance; return the number of distinct keys.

    Parameters
    ----------
    values
        Shape (n,), int64.
    bits
        log2 of the number of slots, which must exceed the number of distinct keys.
    slots
        Slots, shape (2 ** bits,), int32, -1 initially; receive the codes.
    distinct
        Receives the distinct keys, shape (n,), int64.
    out
        Receives the code of each key, shape (n,), int32.
    """
    shift, last = np.uint64(64 - bits), np.uint64(len(slots) - 1)
    count = 0
    for i in range(len(values)):
        if i + _PREFETCH_DISTANCE < len(values):
            prefetch(slots, (np.uint64(values[i + _PREFETCH_DISTANCE]) * _FIBONACCI) >> shift)
        value = values[i]
        at, known = _probe(value, shift, last, slots, distinct)
        if known < 0:
            known = np.int32(count)
            slots[at] = known
            distinct[count] = value
            count += 1
        out[i] = known
    return count


@njit(cache=True, nogil=True)
def lookup(values, bits, slots, distinct, out):  # type: ignore[no-untyped-def]
    """Write the code of each key, -1 for keys unknown to :func:`factorize`.

    Parameters
    ----------
    values
        Shape (n,), int64.
    bits, slots, distinct
        Hash table built by :func:`factorize`.
    out
        Receives the codes, shape (n,), int32.
    """
    shift, last = np.uint64(64 - bits), np.uint64(len(slots) - 1)
    for i in range(len(values)):
        if i + _PREFETCH_DISTANCE < len(values):
            prefetch(slots, (np.uint64(values[i + _PREFETCH_DISTANCE]) * _FIBONACCI) >> shift)
        value = values[i]
        out[i] = _probe(value, shift, last, slots, distinct)[1]
