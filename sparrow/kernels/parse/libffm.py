"""Parser of libffm lines: a label, then ``field:index:value`` per feature."""

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

__all__ = ["BAD_INTEGER", "BAD_LABEL", "BAD_VALUE", "GOOD", "LARGE", "NEGATIVE", "NO_COLON", "parse_fields"]

GOOD: Final = 0
BAD_LABEL: Final = 1
"""A line whose first token is no number."""
BAD_INTEGER: Final = 2
"""A field or an index that is no integer."""
NO_COLON: Final = 3
"""A token that is not of three parts."""
BAD_VALUE: Final = 4
"""A value that is no number."""
NEGATIVE: Final = 5
LARGE: Final = 6
"""A field or an index beyond int64."""


@kernel
def parse_fields(
    data: NDArray[np.uint8],
    labels: NDArray[np.float64],
    rows: NDArray[np.int64],
    pairs: NDArray[np.int64],
    values: NDArray[np.float64],
    hard: NDArray[np.int64],
) -> Any:
    r"""Parse complete lines.

    Parameters
    ----------
    data
        Text, shape (n,), that ends with ``\n``.
    labels
        Takes the label of each line that is not blank.
    rows, pairs, values
        Take, of each feature, its line, its field and index, shape (m, 2), and its value.
    hard
        Shape (2 * (lines + m),): takes pairs (number of the value, or -1 - that of the label, where it begins) of
        numbers that the interpreter must read.

    Returns
    -------
    lines, count, hards, status, at
        Lines and features, pairs in ``hard``, ``GOOD`` or what is wrong, and where.
    """
    text = address(data)
    lines = count = hards = at = 0
    while at < len(data):
        while is_blank(byte_at(text, at)):
            at += 1
        if byte_at(text, at) == 10 or byte_at(text, at) == 35:
            at = next_line(text, at)
            continue
        begin = at
        number, at, status = scan_float(text, at)
        if status == BAD or not (is_blank(byte_at(text, at)) or byte_at(text, at) == 10):
            return lines, count, hards, BAD_LABEL, begin
        if status == HARD:
            hard[2 * hards], hard[2 * hards + 1] = -1 - lines, begin
            hards += 1
        labels[lines] = number
        while True:
            while is_blank(byte_at(text, at)):
                at += 1
            if byte_at(text, at) == 10 or byte_at(text, at) == 35:
                break
            begin = at
            for k in range(2):
                whole, at, status = scan_integer(text, at)
                if status == OVERFLOW:
                    return lines, count, hards, LARGE, begin
                if status == BAD:
                    return lines, count, hards, BAD_INTEGER, begin
                if byte_at(text, at) != 58:
                    return lines, count, hards, NO_COLON, begin
                if whole < 0:
                    return lines, count, hards, NEGATIVE, begin
                pairs[count, k] = whole
                at += 1
            start = at
            number, at, status = scan_float(text, at)
            if status == BAD or not (is_blank(byte_at(text, at)) or byte_at(text, at) == 10):
                return lines, count, hards, NO_COLON if byte_at(text, at) == 58 else BAD_VALUE, begin
            if status != OK:
                hard[2 * hards], hard[2 * hards + 1] = count, start
                hards += 1
            values[count] = number
            rows[count] = lines
            count += 1
        at = next_line(text, at)
        lines += 1
    return lines, count, hards, GOOD, at
