"""Decoder of BVGraph successor lists (WebGraph, Boldi and Vigna 2004)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sparrow.kernels.parse.numbers import kernel, leading_zeros

__all__ = ["BAD", "DELTA", "DONE", "GAMMA", "GOLOMB", "MORE", "NIBBLE", "PADDING", "ROOM", "UNARY", "ZETA", "decode"]

UNARY: Final = 0
GAMMA: Final = 1
DELTA: Final = 2
ZETA: Final = 3
NIBBLE: Final = 4
GOLOMB: Final = 5

DONE: Final = 0
ROOM: Final = 1
"""The list of the next node does not fit the output."""
MORE: Final = 2
"""The input ends within the list of the next node."""
BAD: Final = 3
"""The list of the next node is invalid: not ascending, or out of range."""

PADDING: Final = 16
"""Bytes after the last one that are read but ignored."""

_NONE = np.int64(2**63 - 1)


@kernel
def _peek(data: Any, at: Any) -> Any:
    """Return the 64 bits from bit ``at``, the first one highest."""
    byte, shift = at >> 3, np.uint64(at & 7)
    word = np.uint64(0)
    for k in range(8):
        word = (word << np.uint64(8)) | np.uint64(data[byte + k])
    return (word << shift) | (np.uint64(data[byte + 8]) >> (np.uint64(8) - shift))


@kernel
def _unary(data: Any, at: Any, end: Any) -> Any:
    zeros = 0
    while at < end:
        lead = leading_zeros(_peek(data, at))
        if lead < 64:
            return zeros + lead, at + lead + 1
        zeros += 64
        at += 64
    return 0, end + 1


@kernel
def _bits(data: Any, at: Any, count: Any) -> Any:
    """Return the number in ``count`` bits, 0 to 63."""
    return np.int64((_peek(data, at) >> np.uint64(1)) >> np.uint64(63 - count))


@kernel
def _gamma(data: Any, at: Any, end: Any) -> Any:
    if at >= end:
        return 0, end + 1
    word = _peek(data, at)
    lead = leading_zeros(word)
    if lead < 32:
        return np.int64((word << np.uint64(lead)) >> np.uint64(63 - lead)) - 1, at + 2 * lead + 1
    lead, at = _unary(data, at, end)
    if lead > 62:
        return -1, at
    if at + lead > end:
        return 0, end + 1
    return (np.int64(1) << lead) - 1 + _bits(data, at, lead), at + lead


@kernel
def _read(data: Any, at: Any, end: Any, code: Any, k: Any) -> Any:
    """Return the number of a code word (-1 if invalid) and the position after it."""
    if code == 1:
        return _gamma(data, at, end)
    if at >= end:
        return 0, end + 1
    if code == 3:
        h, at = _unary(data, at, end)
        if (h + 1) * k > 62:
            return -1, at
        width = h * k + k - 1
        if at + width > end:
            return 0, end + 1
        left = np.int64(1) << (h * k)
        number = _bits(data, at, width)
        at += width
        if number < left:
            return number + left - 1, at
        number = 2 * number + _bits(data, at, 1)
        return number - 1, at + 1
    if code == 0:
        return _unary(data, at, end)
    if code == 2:
        lead, at = _gamma(data, at, end)
        if lead < 0 or lead > 62:
            return -1, at
        if at + lead > end:
            return 0, end + 1
        return (np.int64(1) << lead) - 1 + _bits(data, at, lead), at + lead
    if code == 5:
        whole, at = _unary(data, at, end)
        if whole > (np.int64(1) << 40):
            return -1, at
        width = 63 - leading_zeros(np.uint64(k))
        if at + width > end:
            return 0, end + 1
        rest = _bits(data, at, width)
        at += width
        short = (np.int64(2) << width) - k
        if rest >= short:
            rest = 2 * rest + _bits(data, at, 1) - short
            at += 1
        return whole * k + rest, at
    number = np.int64(0)
    for _ in range(20):
        if at + 4 > end:
            return 0, end + 1
        group = _bits(data, at, 4)
        at += 4
        number = 8 * number + (group & 7)
        if group & 8:
            return number, at
    return -1, at


@kernel
def _zigzag_decode(number: Any) -> Any:
    return (number >> 1) ^ -(number & 1)


@kernel
def _copy_blocks(data: Any, at: Any, end: Any, codes: Any, k: Any, succ: Any, start: Any, stop: Any, out: Any) -> Any:
    """Copy blocks of a reference list; return node count (-1 if invalid) and end."""
    blocks, at = _read(data, at, end, codes[3], k)
    count = 0
    if blocks < 0 or blocks > stop - start + 1:
        return (0 if at > end else -1), at
    for i in range(blocks):
        length, at = _read(data, at, end, codes[4], k)
        if at > end:
            return 0, at
        length += i > 0
        if length < 0 or length > stop - start:
            return -1, at
        if not i & 1:
            for j in range(start, start + length):
                out[count] = succ[j]
                count += 1
        start += length
    if not blocks & 1:
        for j in range(start, stop):
            out[count] = succ[j]
            count += 1
    return count, at


@kernel
def decode(
    data: NDArray[np.uint8],
    at: int,
    end: int,
    node: int,
    nodes: int,
    sizes: NDArray[np.int64],
    codes: NDArray[np.int64],
    succ: NDArray[np.int64],
    offsets: NDArray[np.int64],
    known: int,
) -> Any:
    """Decode successor lists until nodes, input or output space run out.

    Parameters
    ----------
    data
        Bit stream, followed by ``PADDING`` bytes.
    at, end
        Start of the list of ``node``, and end of the stream, in bits.
    node, nodes
        Next node, and number of nodes of the graph.
    sizes
        Window, minimal interval length (0 for no intervals) and k of the zeta codes.
    codes
        Codes of degrees, references, residuals, block counts and blocks.
    succ, offsets
        Receive the lists; list i is ``succ[offsets[i]:offsets[i + 1]]``.
    known
        Number of lists of preceding nodes that ``succ`` holds already.

    Returns
    -------
    lists, at, status, wanted
        Lists in ``succ``, start of the next one in bits, reason to stop, and the degree that needs space.
    """
    window, least, k = sizes[0], sizes[1], sizes[2]
    lists = known
    copied, left, length = np.empty(len(succ), np.int64), np.empty(len(succ), np.int64), np.empty(len(succ), np.int64)
    for x in range(node, nodes):
        if lists + 1 >= len(offsets):
            return lists, at, ROOM, 0
        begin = at
        fill = offsets[lists]
        degree, at = _read(data, at, end, codes[0], k)
        if at > end:
            return lists, begin, MORE, 0
        if degree < 0 or degree > nodes:
            return lists, begin, BAD, 0
        if fill + degree > len(succ):
            return lists, begin, ROOM, degree
        if degree == 0:
            lists += 1
            offsets[lists] = fill
            continue
        reference = 0
        if window > 0:
            reference, at = _read(data, at, end, codes[1], k)
            if at > end:
                return lists, begin, MORE, 0
            if reference < 0 or reference > window or reference > lists:
                return lists, begin, BAD, 0
        copies = 0
        if reference > 0:
            of = lists - reference
            copies, at = _copy_blocks(data, at, end, codes, k, succ, offsets[of], offsets[of + 1], copied)
            if at > end:
                return lists, begin, MORE, 0
            if copies < 0 or copies > degree:
                return lists, begin, BAD, 0
        extra = degree - copies
        intervals = 0
        if extra > 0 and least > 0:
            intervals, at = _gamma(data, at, end)
            if at > end:
                return lists, begin, MORE, 0
            if intervals < 0 or intervals > extra:
                return lists, begin, BAD, 0
            before = np.int64(0)
            for i in range(intervals):
                first, at = _gamma(data, at, end)
                more, at = _gamma(data, at, end)
                if at > end:
                    return lists, begin, MORE, 0
                if first < 0 or more < 0 or more > extra:
                    return lists, begin, BAD, 0
                before = x + _zigzag_decode(first) if i == 0 else before + first + 1
                left[i] = before
                length[i] = more + least
                before += more + least
                extra -= more + least
                if extra < 0 or before > nodes or left[i] < 0:
                    return lists, begin, BAD, 0
        residual = _NONE
        if extra > 0:
            first, at = _read(data, at, end, codes[2], k)
            if at > end:
                return lists, begin, MORE, 0
            if first < 0:
                return lists, begin, BAD, 0
            residual = x + _zigzag_decode(first)
            extra -= 1
        c = i = 0
        copy = copied[0] if copies else _NONE
        inner = left[0] if intervals else _NONE
        last = np.int64(-1)
        for place in range(fill, fill + degree):
            if copy <= inner and copy <= residual:
                least_of = copy
                c += 1
                copy = copied[c] if c < copies else _NONE
            elif inner <= residual:
                least_of = inner
                inner += 1
                if inner == left[i] + length[i]:
                    i += 1
                    inner = left[i] if i < intervals else _NONE
            else:
                least_of = residual
                residual = _NONE
                if extra > 0:
                    gap, at = _read(data, at, end, codes[2], k)
                    if at > end:
                        return lists, begin, MORE, 0
                    if gap < 0 or gap > nodes:
                        return lists, begin, BAD, 0
                    residual = least_of + gap + 1
                    extra -= 1
            if least_of <= last or least_of >= nodes:
                return lists, begin, BAD, 0
            succ[place] = last = least_of
        lists += 1
        offsets[lists] = fill + degree
    return lists, at, DONE, 0
