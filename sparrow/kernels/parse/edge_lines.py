"""Parser of edge list lines: two ids and an optional weight."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sparrow.kernels.parse.numbers import (
    BAD,
    HARD,
    OK,
    OVERFLOW,
    address,
    byte_at,
    is_blank,
    kernel,
    next_line,
    scan_float,
    scan_integer,
)

__all__ = [
    "BAD_ID",
    "BAD_WEIGHT",
    "FOURTH",
    "GOOD",
    "LARGE_ID",
    "LARGE_WEIGHT",
    "MIXED",
    "NEGATIVE",
    "NO_NAME",
    "ONE_COLUMN",
    "PADDED",
    "first_data_line",
    "gather_texts",
    "parse_edges",
    "parse_vertices",
]

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

FOURTH: Final = 3


@kernel
def _separator(text: Any, at: Any) -> Any:
    """Return the position after blanks and at most one comma."""
    comma = False
    while True:
        byte = byte_at(text, at)
        if byte == 44 and not comma:
            comma = True
        elif not is_blank(byte):
            return at
        at += 1


@kernel
def _ends(byte: Any) -> Any:
    """Return whether a byte ends a token."""
    return byte == 10 or byte == 44 or is_blank(byte)


@kernel
def _token_end(text: Any, at: Any) -> Any:
    while not _ends(byte_at(text, at)):
        at += 1
    return at


@kernel
def _id(text: Any, start: Any, padded: Any) -> Any:
    """Return an id, the position after it, and ``GOOD`` or an error code."""
    value, at, status = scan_integer(text, start)
    if not padded and byte_at(text, start) == 48 and at > start + 1:
        return value, at, PADDED
    if status == BAD or not _ends(byte_at(text, at)):
        return value, at, BAD_ID
    if status == OVERFLOW:
        return value, at, LARGE_ID
    if value < 0:
        return value, at, NEGATIVE
    return value, at, GOOD


@kernel
def first_data_line(data: NDArray[np.uint8]) -> Any:
    """Return the bounds of the first line with data; the end is 0 if none has."""
    text = address(data)
    at = 0
    while at < len(data):
        start = at
        while is_blank(byte_at(text, at)):
            at += 1
        byte = byte_at(text, at)
        at = next_line(text, at)
        if byte != 10 and byte != 35 and byte != 37:
            return start, at
    return 0, 0


@kernel
def parse_edges(
    data: NDArray[np.uint8],
    as_text: bool,
    padded: bool,
    integers: bool,
    weighted: int,
    src: NDArray[np.int64],
    dst: NDArray[np.int64],
    src_end: NDArray[np.int64],
    dst_end: NDArray[np.int64],
    weights: NDArray[np.float64],
    integer_weights: NDArray[np.int64],
    hard: NDArray[np.int64],
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
    src, dst, src_end, dst_end, weights, integer_weights
        Receive one element per line; unused ones are empty.
    hard
        Receives pairs (edge, position) of weights for the interpreter to parse.

    Returns
    -------
    count, weighted, columns, hard, status, at
        Number of edges; whether they have weights; largest number of columns, at most 4; pairs in ``hard``; ``GOOD`` or
        an error code, and its position.
    """
    text = address(data)
    at = 0
    count = 0
    hards = 0
    columns = 0
    n = len(data)
    while at < n:
        while is_blank(byte_at(text, at)):
            at += 1
        byte = byte_at(text, at)
        if byte == 10:
            at += 1
            continue
        if byte == 35 or byte == 37:
            at = next_line(text, at)
            continue
        start = at
        if as_text:
            at = _token_end(text, at)
            if at == start:
                return count, weighted, columns, hards, ONE_COLUMN, start
            src[count] = start
            src_end[count] = at
        else:
            value, at, fault = _id(text, at, padded)
            if fault != GOOD:
                return count, weighted, columns, hards, fault, start
            src[count] = value
        at = _separator(text, at)
        start = at
        if byte_at(text, at) == 10 or byte_at(text, at) == 44 or byte_at(text, at) == 35:
            return count, weighted, columns, hards, ONE_COLUMN, start
        if as_text:
            at = _token_end(text, at)
            dst[count] = start
            dst_end[count] = at
        else:
            value, at, fault = _id(text, at, padded)
            if fault != GOOD:
                return count, weighted, columns, hards, fault, start
            dst[count] = value
        if byte_at(text, at) != 10:
            at = _separator(text, at)
        start = at
        byte = byte_at(text, at)
        found = 0
        if byte != 10 and byte != 35:
            columns = max(columns, 3)
            if byte == 123 and byte_at(text, at + 1) == 125 and _ends(byte_at(text, at + 2)):
                at += 2
            else:
                found = 1
        if weighted != found:
            if weighted != -1:
                return count, weighted, columns, hards, MIXED, start
            weighted = found
        if found == 1:
            if integers:
                value, at, status = scan_integer(text, at)
                if status == OVERFLOW and _ends(byte_at(text, at)):
                    return count, weighted, columns, hards, LARGE_WEIGHT, start
                if status != OK or not _ends(byte_at(text, at)):
                    return count, weighted, columns, hards, BAD_WEIGHT, start
                integer_weights[count] = value
            else:
                number, at, status = scan_float(text, at)
                if status == BAD or not _ends(byte_at(text, at)):
                    return count, weighted, columns, hards, BAD_WEIGHT, start
                if status == HARD:
                    hard[2 * hards] = count
                    hard[2 * hards + 1] = start
                    hards += 1
                weights[count] = number
        if byte_at(text, at) != 10:
            at = _separator(text, at)
            if byte_at(text, at) != 10 and byte_at(text, at) != 35:
                columns = 4
            at = next_line(text, at)
        else:
            at += 1
        count += 1
    return count, weighted, columns, hards, GOOD, n


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
        value, at, fault = _id(text, at, True)
        if fault != GOOD:
            return count, fault, first
        tab = byte_at(text, at) == 9
        at = at + 1 if tab else _separator(text, at)
        begin = at
        if tab:
            while byte_at(text, at) != 9 and byte_at(text, at) != 10:
                at += 1
        else:
            at = _token_end(text, at)
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
