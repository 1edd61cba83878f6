"""Packed coordinates: one non-negative int64 per entry whose order is the lexicographic order of its coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.kernels.jit.compiler import njit

__all__ = [
    "Keys",
    "Layout",
    "choose_layout",
    "gather_values",
    "layout_covers",
    "pack",
    "repack",
    "sort_stable",
    "sortedness",
    "unpack",
]  # fmt: skip

Layout: TypeAlias = tuple[int, ...]
"""Bits of each dimension in a key, the first dimension highest; 63 at most in all."""

Keys: TypeAlias = NDArray[np.int64]


def choose_layout(maxima: Sequence[int]) -> Layout | None:
    """Return a layout for coordinates up to ``maxima``, the bits left over shared out; None past 63 bits.

    Examples
    --------
    >>> layout_for((5, 1000))
    (28, 35)
    >>> layout_for((2**40, 2**40)) is None
    True
    """
    needed = [int(largest).bit_length() for largest in maxima]
    spare = 63 - sum(needed)
    if spare < 0:
        return None
    share = spare // len(needed)
    bits = [n + share for n in needed]
    bits[-1] += spare - share * len(needed)
    return tuple(bits)


def layout_covers(layout: Layout, maxima: Sequence[int]) -> bool:
    """Return whether coordinates up to ``maxima`` fit the layout."""
    return all(int(largest).bit_length() <= bits for largest, bits in zip(maxima, layout, strict=True))


def pack(coords: Sequence[NDArray[Any]], layout: Layout) -> Keys:
    """Return the keys of entries; every coordinate must fit."""
    keys = coords[0].astype(np.int64)
    for column, bits in zip(coords[1:], layout[1:], strict=True):
        keys <<= bits
        keys |= column
    return keys


def unpack(keys: Keys, layout: Layout, dtypes: Sequence[np.dtype[Any]] | None = None) -> tuple[NDArray[Any], ...]:
    """Return the coordinates of keys, as int64 or in the dtypes given."""
    columns: list[NDArray[Any]] = []
    shift = sum(layout)
    for dim, bits in enumerate(layout):
        shift -= bits
        column = keys >> shift
        if dim:
            column &= (1 << bits) - 1
        columns.append(column if dtypes is None else column.astype(dtypes[dim], copy=False))
    return tuple(columns)


def repack(keys: Keys, old: Layout, new: Layout) -> Keys:
    """Return the same entries' keys in another layout."""
    return keys if old == new else pack(unpack(keys, old), new)


@njit(cache=True, nogil=True)
def sortedness(keys: Keys, bits: Any) -> Any:
    """Return whether keys ascend strictly, whether they never descend, and whether their lowest bits never do."""
    mask = (np.int64(1) << bits) - 1
    strictly = ascending = below = True
    for i in range(1, len(keys)):
        before, here = keys[i - 1], keys[i]
        strictly &= before < here
        ascending &= before <= here
        below &= (before & mask) <= (here & mask)
    return strictly, ascending, below


@njit(cache=True, nogil=True)
def sort_stable(keys: Keys, sorted_bits: Any) -> tuple[Keys, NDArray[np.int32]]:
    """Return the keys in ascending order and the stable order that sorts them: shape (n,), n below 2^31.

    A radix sort, least digit first, which leaves out the bits that all keys share, and so many lowest bits as keys that
    agree above them are sorted by already.
    """
    n = len(keys)
    differing = np.int64(0)
    for i in range(n):
        differing |= keys[i] ^ keys[0]
    width = 14 if n >= 1 << 16 else 11  # the counts stay in a cache, and are few beside the keys
    digits = np.int64(1) << width
    counts = np.empty(digits, np.int32)
    source, target, spare = keys, np.empty(n, np.int64), np.empty(0, np.int64)
    order, other = np.empty(0, np.int32), np.empty(n, np.int32)
    shift, passes = sorted_bits, 0
    while shift < 63 and (differing >> shift) != 0:
        # Start at a digit's lowest bit that differs: fewer passes where few bits do.
        while ((differing >> shift) & 1) == 0:
            shift += 1
        counts[:] = 0
        for i in range(n):
            counts[(source[i] >> shift) & (digits - 1)] += 1
        at = np.int32(0)
        for digit in range(digits):
            here = counts[digit]
            counts[digit] = at
            at += here
        if passes == 1:
            target, other = np.empty(n, np.int64), np.empty(n, np.int32)
        for i in range(n):
            key = source[i]
            digit = (key >> shift) & (digits - 1)
            to = counts[digit]
            counts[digit] = to + 1
            target[to] = key
            other[to] = order[i] if passes else i
        source, target, spare = target, spare, target
        order, other = other, order
        passes += 1
        shift += width
    if passes == 0:
        target[:] = keys
        other[:] = np.arange(n)
        return target, other
    return source, order


@njit(cache=True, nogil=True)
def _gather(words: NDArray[Any], order: NDArray[np.int32]) -> NDArray[Any]:
    out = np.empty(len(order), words.dtype)
    for i in range(len(order)):
        out[i] = words[order[i]]
    return out


def gather_values(values: NDArray[Any], order: NDArray[np.int32]) -> NDArray[Any]:
    """Return ``values[order]`` without holding the GIL, for values of any type."""
    if values.dtype.itemsize > 8:
        return values[order]
    return np.asarray(_gather(values.view(f"u{values.dtype.itemsize}"), order).view(values.dtype))
