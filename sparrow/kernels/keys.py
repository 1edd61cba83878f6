"""Packed coordinates: one int64 key per element, in lexicographic order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.kernels.jit.compiler import njit
from sparrow.kernels.jit.warmup import as_readonly

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
"""Bits of each dimension in a key, the first dimension highest; at most 63 in total."""

Keys: TypeAlias = NDArray[np.int64]


def choose_layout(maxima: Sequence[int]) -> Layout | None:
    """Choose the bits per dimension for coordinates up to ``maxima``.

    Spare bits are distributed evenly. Returns None if coordinates need more than 63 bits.

    Examples
    --------
    >>> choose_layout((5, 1000))
    (28, 35)
    >>> choose_layout((2**40, 2**40)) is None
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
    """Return whether coordinates up to ``maxima`` fit a layout."""
    return all(int(largest).bit_length() <= bits for largest, bits in zip(maxima, layout, strict=True))


def pack(coords: Sequence[NDArray[Any]], layout: Layout) -> Keys:
    """Return the keys of coordinates, which must fit the layout."""
    keys = coords[0].astype(np.int64)
    for column, bits in zip(coords[1:], layout[1:], strict=True):
        keys <<= bits
        keys |= column
    return keys


def unpack(keys: Keys, layout: Layout, dtypes: Sequence[np.dtype[Any]] | None = None) -> tuple[NDArray[Any], ...]:
    """Return the coordinates of keys, shape (n,) each, by default int64."""
    columns = tuple(np.empty(len(keys), dtype) for dtype in dtypes or (np.dtype(np.int64),) * len(layout))
    keys = as_readonly(keys)
    shift = sum(layout)
    for column, bits in zip(columns, layout, strict=True):
        shift -= bits
        _unpack_column(keys, shift, (1 << bits) - 1, column)
    return columns


@njit(cache=True, nogil=True)
def _unpack_column(keys, shift, mask, out):  # type: ignore[no-untyped-def]
    """Write ``(keys >> shift) & mask`` to ``out``."""
    for k in range(len(keys)):
        out[k] = (keys[k] >> shift) & mask


def repack(keys: Keys, old: Layout, new: Layout) -> Keys:
    """Convert keys to another layout."""
    return keys if old == new else pack(unpack(keys, old), new)


@njit(cache=True, nogil=True)
def sortedness(keys: Keys, bits: Any) -> Any:
    """Return whether keys are strictly sorted, sorted, and sorted by low ``bits``."""
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
    """Return sorted keys and the stable sort order, shape (n,), n below 2^31.

    LSD radix sort (Knuth, TAOCP 3, 5.2.5) that skips bits shared by all keys. It also skips the ``sorted_bits`` low
    bits, by which keys with equal high bits must be sorted already.
    """
    n = len(keys)
    differing = np.int64(0)
    for i in range(n):
        differing |= keys[i] ^ keys[0]
    width = 14 if n >= 1 << 16 else 11  # the histogram stays in cache and is small beside the keys
    digits = np.int64(1) << width
    counts = np.empty(digits, np.int32)
    source, target, spare = keys, np.empty(n, np.int64), np.empty(0, np.int64)
    order, other = np.empty(0, np.int32), np.empty(n, np.int32)
    shift, passes = sorted_bits, 0
    while shift < 63 and (differing >> shift) != 0:
        # A digit starts at the lowest bit that differs, which saves passes.
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
    """Return ``values[order]`` without the GIL, for any dtype."""
    if values.dtype.itemsize > 8:
        return values[order]
    return np.asarray(_gather(values.view(f"u{values.dtype.itemsize}"), order).view(values.dtype))
