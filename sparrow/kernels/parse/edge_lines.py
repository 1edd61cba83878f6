"""Parser of edge list lines: two ids and an optional weight."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sparrow.kernels.parse.numbers import (
    BAD,
    HARD,
    INEXACT,
    OK,
    OVERFLOW,
    address,
    byte_at,
    is_blank,
    kernel,
    next_line,
    scan_integer,
    scan_value,
)

__all__ = [
    "ANY_MARK", "BAD_ID", "BAD_WEIGHT", "COMMENTS", "EXTRA", "EXTRA_AT", "FACTS", "GOOD", "INEXACT_AT",
    "INEXACT_WEIGHTS", "JOINED", "LARGE_ID", "LARGE_WEIGHT", "MIXED", "NEGATIVE", "NO_NAME", "ONE_COLUMN", "PADDED",
    "REWRITTEN", "data_line", "gather_texts", "parse_edges", "parse_vertices",
]  # fmt: skip

GOOD: Final = 0
BAD_ID: Final = 1
"""An id is not an integer."""
LARGE_ID: Final = 2
"""An id exceeds int64."""
NEGATIVE: Final = 3
"""An id is negative."""
ONE_COLUMN: Final = 4
"""The second id is missing."""
BAD_WEIGHT: Final = 5
"""A weight is not a number of the expected kind."""
LARGE_WEIGHT: Final = 6
"""An integer weight exceeds int64."""
MIXED: Final = 7
"""Some lines have a weight and some do not."""
NO_NAME: Final = 8
"""A vertex has no name."""
PADDED: Final = 9
"""An id has leading zeros, so ids are names."""

COMMENTS: Final = 0
"""Fact: number of comment lines."""
INEXACT_WEIGHTS: Final = 1
"""Fact: number of weights that are integers which float64 rounds."""
INEXACT_AT: Final = 2
"""Fact: edge of the first of these."""
EXTRA: Final = 3
"""Fact: number of lines with more than three columns."""
JOINED: Final = 4
"""Fact: number of these that may be two lines run together: a number comes fourth, or there are six columns."""
EXTRA_AT: Final = 5
"""Fact: edge of the first line of the latter kind, or of the former if there is none."""
REWRITTEN: Final = 6
"""Fact: number of ids that were not written as plain integers, such as 007, 1.0 and 1e3."""
FACTS: Final = 7
"""Number of facts."""

_LARGEST_TENTH: Final = (2**63 - 1) // 10
ANY_MARK: Final = -1
"""Length of a comment prefix that stands for ``#`` and ``%``, see :func:`parse_edges`."""


@kernel
def _separator(text: Any, at: Any, comma: Any) -> Any:
    """Return the position after blanks and at most one comma."""
    while True:
        byte = byte_at(text, at)
        if byte == comma:
            comma = -1
        elif not is_blank(byte):
            return at
        at += 1


@kernel
def _ends(byte: Any, comma: Any) -> Any:
    """Return whether a byte ends a token."""
    return byte == 10 or byte == comma or is_blank(byte)


@kernel
def _token_end(text: Any, at: Any, comma: Any) -> Any:
    while not _ends(byte_at(text, at), comma):
        at += 1
    return at


@kernel
def _begins(text: Any, at: Any, prefix: Any, size: Any) -> Any:
    """Return whether bytes at a position equal those of a prefix without line ends."""
    for k in range(size):  # noqa: SIM110 - Numba compiles no generators
        if byte_at(text, at + k) != byte_at(prefix, k):
            return False
    return True


@kernel
def _field(text: Any, at: Any, delimiter: Any, size: Any) -> Any:
    """Return the bounds of a field without blanks, and the position of its end."""
    lead = byte_at(delimiter, 0)
    end = at
    while byte_at(text, end) != 10 and not (byte_at(text, end) == lead and _begins(text, end, delimiter, size)):
        end += 1
    stop = end
    while at < stop and is_blank(byte_at(text, at)):
        at += 1
    while stop > at and is_blank(byte_at(text, stop - 1)):
        stop -= 1
    return at, stop, end


@kernel
def _float_id(text: Any, value: Any, at: Any) -> Any:
    """Return an integral id such as 1.0 or 1e3, its end and a code, from its digits."""
    if value < 0:
        return value, at, NEGATIVE
    power = 0
    if byte_at(text, at) == 46:
        at += 1
        zeros = 0
        while byte_at(text, at) >= 48 and byte_at(text, at) <= 57:
            digit = byte_at(text, at) - 48
            zeros += 1
            while digit != 0 and zeros > 0:
                if value > _LARGEST_TENTH - 1:
                    return value, at, BAD_ID
                value = value * 10
                power -= 1
                zeros -= 1
            value += digit
            at += 1
    if byte_at(text, at) == 101 or byte_at(text, at) == 69:
        at += 1
        sign = 1
        if byte_at(text, at) == 43 or byte_at(text, at) == 45:
            sign = 44 - byte_at(text, at)
            at += 1
        if byte_at(text, at) < 48 or byte_at(text, at) > 57:
            return value, at, BAD_ID
        exponent = 0
        while byte_at(text, at) >= 48 and byte_at(text, at) <= 57:
            exponent = min(exponent * 10 + byte_at(text, at) - 48, 1000)
            at += 1
        power += sign * exponent
    while value != 0 and power != 0:
        if power < 0:
            if value % 10 != 0:
                return value, at, BAD_ID
            value = value // 10
            power += 1
        else:
            if value > _LARGEST_TENTH:
                return value, at, LARGE_ID
            value = value * 10
            power -= 1
    return value, at, GOOD


@kernel
def _id(text: Any, start: Any, padded: Any) -> Any:
    """Return an id, its end, ``GOOD`` or an error code, and whether it is odd."""
    value, at, status = scan_integer(text, start)
    zeros = byte_at(text, start) == 48 and at > start + 1
    if not padded and zeros:
        return value, at, PADDED, True
    if status == BAD:
        return value, at, BAD_ID, False
    if status == OVERFLOW:
        return value, at, LARGE_ID, False
    byte = byte_at(text, at)
    if byte == 46 or byte == 101 or byte == 69:
        value, at, status = _float_id(text, value, at)
        zeros = True
        if status != GOOD:
            return value, at, status, False
    return value, at, NEGATIVE if value < 0 else GOOD, zeros


@kernel
def _is_comment(text: Any, at: Any, comment: Any, size: Any, header_end: Any) -> Any:
    """Return whether a comment begins at a position."""
    if size != ANY_MARK:
        return size > 0 and _begins(text, at, comment, size)
    byte = byte_at(text, at)
    if byte != 35 and byte != 37:
        return False
    after = byte_at(text, at + 1)
    return at < header_end or after == 10 or is_blank(after)


@kernel
def data_line(data: NDArray[np.uint8], number: int, comment: NDArray[np.uint8], size: int, header_end: int) -> Any:
    """Return the bounds of a line of data; the end is 0 if there are fewer.

    Comments are as in :func:`parse_edges`.
    """
    text, prefix = address(data), address(comment)
    at = 0
    while at < len(data):
        start = at
        while is_blank(byte_at(text, at)):
            at += 1
        passed = byte_at(text, at) == 10 or _is_comment(text, at, prefix, size, header_end)
        at = next_line(text, at)
        if not passed:
            if number == 0:
                return start, at
            number -= 1
    return 0, 0


@kernel
def parse_edges(
    data: NDArray[np.uint8],
    as_text: bool,
    padded: bool,
    integers: bool,
    weighted: int,
    delimiter: NDArray[np.uint8],
    comment: NDArray[np.uint8],
    comment_size: int,
    header_end: int,
    src: NDArray[np.int64],
    dst: NDArray[np.int64],
    src_end: NDArray[np.int64],
    dst_end: NDArray[np.int64],
    weights: NDArray[np.float64],
    integer_weights: NDArray[np.int64],
    hard: NDArray[np.int64],
    facts: NDArray[np.int64],
) -> Any:
    r"""Parse complete lines.

    Parameters
    ----------
    data
        Text, shape (n,), that ends with ``\n``.
    as_text
        Whether ids are strings: ``data[src:src_end]`` and ``data[dst:dst_end]``. Otherwise ``src`` and ``dst`` receive
        integer ids.
    padded
        Whether integer ids may have leading zeros.
    integers
        Whether to parse weights as integers, into ``integer_weights``.
    weighted
        Whether lines have a weight: 0, 1, or -1 if unknown.
    delimiter
        The only separator of columns. A blank stands for any run of blanks and tabs; without bytes a comma separates
        too, and a mark such as ``#`` in the place of a weight begins a comment.
    comment, comment_size
        Bytes that begin a line to pass over, and their number; 0 for none. With :data:`ANY_MARK` these are ``#`` and
        ``%`` before ``header_end``, and further down if a blank or the line end follows.
    header_end
        Position of the first line that may begin with a mark and be an edge.
    src, dst, src_end, dst_end, weights, integer_weights
        Receive one element per line; unused ones are empty.
    hard
        Receives pairs (edge, position) of weights for the interpreter to parse.
    facts
        Receives facts about the lines, shape (FACTS,), zeros before.

    Returns
    -------
    count, weighted, hard, status, at
        Number of edges; whether they have weights; pairs in ``hard``; ``GOOD`` or an error code, and its position.
    """
    text, separator, prefix = address(data), address(delimiter), address(comment)
    size = len(delimiter)
    blank = size == 1 and delimiter[0] == 32
    fields = size > 0 and not blank
    comma = -1 if size else 44
    mark: Any = 35
    if size or comment_size == 0 or comment_size > 1:
        mark = -1
    elif comment_size == 1:
        mark = np.int64(comment[0])
    at = 0
    count = 0
    hards = 0
    n = len(data)
    while at < n:
        begin = at
        while is_blank(byte_at(text, at)):
            at += 1
        if byte_at(text, at) == 10:
            at += 1
            continue
        if _is_comment(text, at, prefix, comment_size, header_end):
            facts[COMMENTS] += 1
            at = next_line(text, at)
            continue
        start = at
        stop = at
        if fields:
            start, stop, at = _field(text, begin, separator, size)
        elif as_text:
            stop = at = _token_end(text, at, comma)
        if as_text:
            if stop == start:
                return count, weighted, hards, ONE_COLUMN, start
            src[count] = start
            src_end[count] = stop
        else:
            value, end, fault, odd = _id(text, start, padded)
            if fault == GOOD and not (end == stop if fields else _ends(byte_at(text, end), comma)):
                fault = BAD_ID
            if fault != GOOD:
                return count, weighted, hards, fault, start
            facts[REWRITTEN] += odd
            src[count] = value
            at = at if fields else end
        if fields:
            start = at
            if byte_at(text, at) != 10:
                start, stop, at = _field(text, at + size, separator, size)
            if start == stop or byte_at(text, start) == 10:
                return count, weighted, hards, ONE_COLUMN, start
        else:
            start = at = _separator(text, at, comma)
            byte = byte_at(text, at)
            is_note = byte == mark and (byte_at(text, at + 1) == 10 or is_blank(byte_at(text, at + 1)))
            if byte == 10 or byte == comma or is_note:
                return count, weighted, hards, ONE_COLUMN, start
            if as_text:
                stop = at = _token_end(text, at, comma)
        if as_text:
            dst[count] = start
            dst_end[count] = stop
        else:
            value, end, fault, odd = _id(text, start, padded)
            if fault == GOOD and not (end == stop if fields else _ends(byte_at(text, end), comma)):
                fault = BAD_ID
            if fault != GOOD:
                return count, weighted, hards, fault, start
            facts[REWRITTEN] += odd
            dst[count] = value
            at = at if fields else end
        is_over = byte_at(text, at) == 10
        if fields:
            if not is_over:
                start, stop, at = _field(text, at + size, separator, size)
                is_over = start == stop and byte_at(text, at) == 10
        else:
            if not is_over:
                at = _separator(text, at, comma)
            start = at
            is_over = byte_at(text, at) == 10 or byte_at(text, at) == mark
        found = 0
        if not is_over:
            found = 1
            braces = byte_at(text, start) == 123 and byte_at(text, start + 1) == 125
            if braces and (stop == start + 2 if fields else _ends(byte_at(text, start + 2), comma)):
                found = 0
                at = at if fields else start + 2
        if weighted != found:
            if weighted != -1:
                return count, weighted, hards, MIXED, start
            weighted = found
        if found == 1:
            status = OK
            end = start
            if integers:
                value, end, status = scan_integer(text, start)
                if status != BAD:
                    integer_weights[count] = value
            else:
                number, end, status = scan_value(text, start)
                if status != BAD:
                    weights[count] = number
            if status == BAD or not (end == stop if fields else _ends(byte_at(text, end), comma)):
                return count, weighted, hards, BAD_WEIGHT, start
            if status == OVERFLOW:
                return count, weighted, hards, LARGE_WEIGHT, start
            if status == HARD:
                hard[2 * hards] = count
                hard[2 * hards + 1] = start
                hards += 1
            elif status == INEXACT:
                if facts[INEXACT_WEIGHTS] == 0:
                    facts[INEXACT_AT] = count
                facts[INEXACT_WEIGHTS] += 1
            at = at if fields else end
        if not is_over and byte_at(text, at) != 10:
            at = at + size if fields else _separator(text, at, comma)
            while fields and is_blank(byte_at(text, at)):
                at += 1
            first = byte_at(text, at)
            if first != 10 and first != mark:
                columns = 4
                blanks = False
                is_number = (first >= 48 and first <= 57) or first == 45
                while byte_at(text, at) != 10:
                    if fields:
                        columns += byte_at(text, at) == byte_at(separator, 0)
                    else:
                        now = _ends(byte_at(text, at), comma)
                        columns += blanks and not now
                        blanks = now
                    at += 1
                joined = found == 1 and (is_number or columns == 6)
                if facts[EXTRA] == 0 or (joined and facts[JOINED] == 0):
                    facts[EXTRA_AT] = count
                facts[EXTRA] += 1
                facts[JOINED] += joined
        at = next_line(text, at)
        count += 1
    return count, weighted, hards, GOOD, n


@kernel
def parse_vertices(
    data: NDArray[np.uint8], ids: NDArray[np.int64], start: NDArray[np.int64], end: NDArray[np.int64]
) -> Any:
    """Parse lines of an id and a name; other columns are ignored.

    A name after a tab extends to the next tab.

    Returns
    -------
    count, status, at
        Number of vertices, ``GOOD`` or an error code, and its position.
    """
    text = address(data)
    at = 0
    count = 0
    while at < len(data):
        while is_blank(byte_at(text, at)):
            at += 1
        byte = byte_at(text, at)
        if byte == 10:
            at += 1
            continue
        if byte == 35 or byte == 37:
            at = next_line(text, at)
            continue
        first = at
        value, at, fault, _ = _id(text, at, True)
        if fault == GOOD and not _ends(byte_at(text, at), 44):
            fault = BAD_ID
        if fault != GOOD:
            return count, fault, first
        tab = byte_at(text, at) == 9
        at = at + 1 if tab else _separator(text, at, 44)
        begin = at
        if tab:
            while byte_at(text, at) != 9 and byte_at(text, at) != 10:
                at += 1
        else:
            at = _token_end(text, at, 44)
        stop = at
        while stop > begin and is_blank(byte_at(text, stop - 1)):
            stop -= 1
        while begin < stop and is_blank(byte_at(text, begin)):
            begin += 1
        if begin == stop:
            return count, NO_NAME, first
        ids[count] = value
        start[count] = begin
        end[count] = stop
        count += 1
        at = next_line(text, at)
    return count, GOOD, at


@kernel
def gather_texts(
    data: NDArray[np.uint8],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    offsets: NDArray[np.int32],
    out: NDArray[np.uint8],
) -> None:
    """Concatenate strings into ``out`` and fill their offsets."""
    text = address(data)
    to = 0
    for i in range(len(start)):
        offsets[i] = to
        for at in range(start[i], end[i]):
            out[to] = byte_at(text, at)
            to += 1
    offsets[len(start)] = to
