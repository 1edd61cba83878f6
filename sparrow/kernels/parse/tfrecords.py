"""TFRecord frames and the integer lists of their ``tf.train.Example`` messages."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sparrow.kernels.parse.numbers import kernel

__all__ = [
    "BAD_CHECKSUM",
    "BAD_LENGTH",
    "BAD_MESSAGE",
    "BAD_ROW",
    "FRAME",
    "GOOD",
    "NEGATIVE",
    "digest",
    "parse",
    "split_frames",
    "write_record",
]  # fmt: skip

FRAME: Final = 16
"""Bytes of a frame without its message."""

GOOD: Final = 0
BAD_LENGTH: Final = 1
"""The checksum of the length does not match."""
BAD_CHECKSUM: Final = 2
"""The checksum of the message does not match."""
BAD_MESSAGE: Final = 3
"""The message is not an ``Example`` of integer lists."""
BAD_ROW: Final = 4
"""``row_tag`` does not have exactly one integer."""
NEGATIVE: Final = 5
"""An id is negative."""


def _table() -> NDArray[np.uint32]:
    """Return the CRC-32C tables for slicing by 8, shape (8, 256)."""
    out = np.empty((8, 256), np.uint32)
    for byte in range(256):
        rest = byte
        for _ in range(8):
            rest = rest >> 1 ^ (0x82F63B78 if rest & 1 else 0)
        out[0, byte] = rest
    for k in range(1, 8):
        out[k] = out[0, out[k - 1] & 255] ^ out[k - 1] >> 8
    return out


_TABLE = _table()
_LAST = np.uint32(255)


@kernel
def _masked_crc32c(data: Any, at: Any, end: Any) -> Any:
    """Return the masked CRC-32C of bytes."""
    rest = np.uint32(0xFFFFFFFF)
    while at + 8 <= end:
        low = rest ^ (
            np.uint32(data[at])
            | (np.uint32(data[at + 1]) << np.uint32(8))
            | (np.uint32(data[at + 2]) << np.uint32(16))
            | (np.uint32(data[at + 3]) << np.uint32(24))
        )
        rest = (
            _TABLE[7, low & _LAST]
            ^ _TABLE[6, (low >> np.uint32(8)) & _LAST]
            ^ _TABLE[5, (low >> np.uint32(16)) & _LAST]
            ^ _TABLE[4, low >> np.uint32(24)]
            ^ _TABLE[3, data[at + 4]]
            ^ _TABLE[2, data[at + 5]]
            ^ _TABLE[1, data[at + 6]]
            ^ _TABLE[0, data[at + 7]]
        )
        at += 8
    while at < end:
        rest = _TABLE[0, (rest ^ np.uint32(data[at])) & _LAST] ^ (rest >> np.uint32(8))
        at += 1
    rest ^= np.uint32(0xFFFFFFFF)
    return np.uint32((rest >> np.uint32(15)) | (rest << np.uint32(17))) + np.uint32(0xA282EAD8)


@kernel
def _number(data: Any, at: Any, width: Any) -> Any:
    out = np.uint64(0)
    for k in range(width):
        out |= np.uint64(data[at + k]) << np.uint64(8 * k)
    return out


@kernel
def _is(data: Any, at: Any, checksum: Any) -> Any:
    return np.uint32(_number(data, at, 4)) == np.uint32(checksum)


@kernel
def split_frames(data: NDArray[np.uint8]) -> Any:
    """Return the end of complete frames, next frame size (if known) and validity."""
    at: Any = 0
    while at + 12 <= len(data):
        if not _is(data, at + 8, _masked_crc32c(data, at, at + 8)):
            return at, 0, BAD_LENGTH
        length = np.int64(_number(data, at, 8))
        if length < 0 or length > len(data) - at - FRAME:
            return at, length + FRAME if length >= 0 else length, GOOD
        at += length + FRAME
    return at, 0, GOOD


@kernel
def _varint(data: Any, at: Any, end: Any) -> Any:
    """Return a varint and the position after it, beyond ``end`` if truncated."""
    out = np.uint64(0)
    for k in range(10):
        if at >= end:
            return np.int64(0), end + 1
        byte = data[at]
        at += 1
        out |= np.uint64(byte & 127) << np.uint64(7 * k)
        if byte < 128:
            return np.int64(out), at
    return np.int64(0), end + 1


@kernel
def _field(data: Any, at: Any, end: Any) -> Any:
    """Return field number (0 if invalid), wire type and bounds of the content."""
    tag, at = _varint(data, at, end)
    kind = tag & 7
    stop = end + 1
    if kind == 0:
        _, stop = _varint(data, at, end)
    elif kind == 1:
        stop = at + 8
    elif kind == 2:
        length, at = _varint(data, at, end)
        if 0 <= length <= end - at:
            stop = at + length
    elif kind == 5:
        stop = at + 4
    if at > end or stop > end or tag < 8:
        return np.int64(0), kind, at, end
    return tag >> 3, kind, at, stop


@kernel
def _lists(data: Any, at: Any, end: Any, found: Any) -> Any:
    """Find the bounds of the lists row_tag, col_tag and gt_tag of an ``Example``."""
    found[:] = 0
    while at < end:
        number, kind, inner, at = _field(data, at, end)
        if number == 0 or (number == 1 and kind != 2):
            return False
        if number != 1:
            continue
        features = at
        while inner < features:
            number, kind, entry, inner = _field(data, inner, features)
            if number != 1 or kind != 2:
                return False
            which = -1
            start = stop = 0
            part = entry
            while part < inner:
                number, kind, begin, part = _field(data, part, inner)
                if number == 0 or kind != 2:
                    return False
                if number == 1:
                    length = part - begin
                    which = -1
                    if length == 7 and data[begin] == 114 and data[begin + 1] == 111 and data[begin + 2] == 119:
                        which = 0
                    elif length == 7 and data[begin] == 99 and data[begin + 1] == 111 and data[begin + 2] == 108:
                        which = 1
                    elif length == 6 and data[begin] == 103 and data[begin + 1] == 116:
                        which = 2
                    if which >= 0:
                        for k, byte in enumerate((95, 116, 97, 103)):  # _tag
                            if data[part - 4 + k] != byte:
                                which = -1
                elif number == 2:
                    start, stop = begin, part
            if which < 0:
                continue
            found[which, 0] = found[which, 1] = 0
            while start < stop:
                number, kind, begin, start = _field(data, start, stop)
                if number != 3 or kind != 2:
                    return False
                found[which, 0], found[which, 1] = begin, start
    return True


@kernel
def _integers(data: Any, at: Any, end: Any, out: Any, count: Any) -> Any:
    """Read the integers of a list, packed or not; return their number, or -1."""
    while at < end:
        number, kind, begin, at = _field(data, at, end)
        if number != 1 or (kind != 0 and kind != 2):
            return -1
        while begin < at:
            value, begin = _varint(data, begin, at)
            if begin > at:
                return -1
            out[count] = value
            count += 1
    return count


@kernel
def parse(data: NDArray[np.uint8], which: int, src: NDArray[np.int64], dst: NDArray[np.int64]) -> Any:
    """Parse complete frames: pairs of the row and each id of one of its lists.

    Parameters
    ----------
    data
        Complete frames.
    which
        1 for the ids of ``col_tag``, 2 for those of ``gt_tag``.
    src, dst
        Receive the pairs; as long as the number of bytes below 128 in ``data``.

    Returns
    -------
    count, rows, largest, status, at
        Pairs, messages, largest id of all lists, ``GOOD`` or an error code, and position of its frame.
    """
    found = np.empty((3, 2), np.int64)
    row = np.empty(len(src), np.int64)
    at: Any = 0
    count: Any = 0
    rows = 0
    largest = np.int64(-1)
    while at < len(data):
        begin = at + 12
        end = begin + np.int64(_number(data, at, 8))
        if not _is(data, end, _masked_crc32c(data, begin, end)):
            return count, rows, largest, BAD_CHECKSUM, at
        if not _lists(data, begin, end, found):
            return count, rows, largest, BAD_MESSAGE, at
        read = _integers(data, found[0, 0], found[0, 1], row, 0)
        if read != 1:
            return count, rows, largest, BAD_ROW if read >= 0 else BAD_MESSAGE, at
        own = row[0]
        smallest = min(own, np.int64(0))
        largest = max(largest, own)
        for k in (1, 2):
            ids = dst[count:] if k == which else row
            read = _integers(data, found[k, 0], found[k, 1], ids, 0)
            if read < 0:
                return count, rows, largest, BAD_MESSAGE, at
            for i in range(read):
                smallest = min(smallest, ids[i])
                largest = max(largest, ids[i])
            if k == which:
                src[count : count + read] = own
                filled = read
        if smallest < 0:
            return count, rows, largest, NEGATIVE, at
        count += filled
        rows += 1
        at = end + 4
    return count, rows, largest, GOOD, at


@kernel
def digest(src: NDArray[np.int64], dst: NDArray[np.int64]) -> Any:
    """Return an order-independent hash of pairs; hashes of chunks add up."""
    out = np.uint64(0)
    for i in range(len(src)):
        word = np.uint64(src[i]) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(dst[i])
        word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        out += word ^ (word >> np.uint64(31))
    return out


@kernel
def _put(out: Any, at: Any, number: Any) -> Any:
    rest = np.uint64(number)
    while rest > np.uint64(127):
        out[at] = (rest & np.uint64(127)) | np.uint64(128)
        rest >>= np.uint64(7)
        at += 1
    out[at] = rest
    return at + 1


@kernel
def _width(number: Any) -> Any:
    width = 1
    while number > 127:
        number >>= 7
        width += 1
    return width


@kernel
def _put_list(out: Any, at: Any, name: Any, ids: Any) -> Any:
    """Write a map entry: a name and a feature with a packed list."""
    packed = 0
    for number in ids:
        packed += _width(number)
    values = 1 + _width(packed) + packed
    feature = 1 + _width(values) + values
    entry = 2 + len(name) + 1 + _width(feature) + feature
    out[at] = 10
    at = _put(out, at + 1, entry)
    out[at] = 10
    out[at + 1] = len(name)
    at += 2
    for byte in name:
        out[at] = byte
        at += 1
    for tag, size in ((18, feature), (26, values), (10, packed)):
        out[at] = tag
        at = _put(out, at + 1, size)
    for number in ids:
        at = _put(out, at, number)
    return at


@kernel
def write_record(
    out: NDArray[np.uint8],
    names: NDArray[np.uint8],
    row: NDArray[np.int64],
    cols: NDArray[np.int64],
    truth: NDArray[np.int64],
    with_truth: bool,
) -> Any:
    """Write the frame of a row; return its bytes.

    Parameters
    ----------
    out
        Receives the frame; needs 11 bytes per id and 200 more.
    names
        The bytes ``row_tagcol_taggt_tag``.
    row, cols, truth
        Id of the row, and ids of its lists.
    with_truth
        Whether to write the list ``gt_tag``.
    """
    # The length of the header depends on the features, so these are written first, after a gap.
    room = 40
    at = _put_list(out, room, names[:7], row)
    at = _put_list(out, at, names[7:14], cols)
    if with_truth:
        at = _put_list(out, at, names[14:], truth)
    inner = at - room
    size = 1 + _width(inner) + inner
    out[12] = 10
    begin = _put(out, 13, inner)
    for k in range(inner):
        out[begin + k] = out[room + k]
    end = begin + inner
    for k in range(8):
        out[k] = (size >> (8 * k)) & 255
    head = _masked_crc32c(out, 0, 8)
    body = _masked_crc32c(out, 12, end)
    for k in range(4):
        out[8 + k] = (head >> np.uint32(8 * k)) & np.uint32(255)
        out[end + k] = (body >> np.uint32(8 * k)) & np.uint32(255)
    return end + 4
