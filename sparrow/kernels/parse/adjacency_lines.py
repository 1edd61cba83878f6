"""Parser of adjacency lists: one line of neighbors per vertex."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sparrow.kernels.parse.numbers import BAD, OK, OVERFLOW, address, byte_at, is_blank, kernel, next_line, scan_integer

__all__ = ["BAD_NUMBER", "GOOD", "LARGE", "NO_WEIGHT", "TOO_FEW", "count_numbers", "parse_lists"]

GOOD: Final = 0
BAD_NUMBER: Final = 1
"""A token is not an integer."""
LARGE: Final = 2
"""A number exceeds int64."""
NO_WEIGHT: Final = 3
"""A neighbor has no weight."""
TOO_FEW: Final = 4
"""A line ends within its leading numbers."""


@kernel
def count_numbers(data: NDArray[np.uint8]) -> Any:
    """Count the tokens of a text."""
    count = 0
    before = True
    for byte in data:
        parted = byte == 10 or is_blank(byte)
        count += before and not parted
        before = parted
    return count


@kernel
def parse_lists(
    data: NDArray[np.uint8],
    comment: int,
    first: int,
    weighted: bool,
    lines: NDArray[np.int64],
    numbers: NDArray[np.int64],
    weights: NDArray[np.int64],
    heads: NDArray[np.int64],
) -> Any:
    r"""Parse complete lines; a blank line is an empty list.

    Parameters
    ----------
    data
        Text, shape (n,), that ends with ``\n``.
    comment
        First byte of comment lines; -1 for none.
    first
        Number of leading numbers per line.
    weighted
        Whether a weight follows each number after these.
    lines, numbers, weights
        Receive the list (counted from 0), value and weight of each number.
    heads
        Receives the leading numbers, shape (lists, first).

    Returns
    -------
    count, lists, status, at
        Numbers and lists, ``GOOD`` or an error code, and its position.
    """
    text = address(data)
    count = lists = at = 0
    while at < len(data):
        if comment >= 0 and byte_at(text, at) == comment:
            at = next_line(text, at)
            continue
        place = 0
        status = OK
        while True:
            while is_blank(byte_at(text, at)):
                at += 1
            if byte_at(text, at) == 10:
                break
            begin = at
            number, at, status = scan_integer(text, at)
            if status == OVERFLOW:
                return count, lists, LARGE, begin
            if status == BAD or not (byte_at(text, at) == 10 or is_blank(byte_at(text, at))):
                return count, lists, BAD_NUMBER, begin
            if place < first:
                heads[lists, place] = number
            elif weighted and (place - first) & 1:
                weights[count] = number
                count += 1
            else:
                lines[count] = lists
                numbers[count] = number
                count += not weighted
            place += 1
        if place < first:
            return count, lists, TOO_FEW, at
        if weighted and (place - first) & 1:
            return count, lists, NO_WEIGHT, at
        lists += 1
        at += 1
    return count, lists, GOOD, at
