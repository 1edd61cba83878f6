"""Parser of libffm lines: a label, then ``field:index:value`` per feature."""

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
    scan_float,
    scan_integer,
    scan_value,
)

__all__ = [
    "BAD_INTEGER",
    "BAD_LABEL",
    "BAD_VALUE",
    "GOOD",
    "LARGE",
    "NEGATIVE",
    "NO_COLON",
    "count_samples",
    "parse_fields",
]

GOOD: Final = 0
BAD_LABEL: Final = 1
"""The first token of a line is not a number."""
BAD_INTEGER: Final = 2
"""A field or an index is not an integer."""
NO_COLON: Final = 3
"""A token does not have the form ``field:index:value``."""
BAD_VALUE: Final = 4
"""A value is not a number."""
NEGATIVE: Final = 5
LARGE: Final = 6
"""A field or an index exceeds int64."""


@kernel
def count_samples(data: NDArray[np.uint8]) -> Any:
    """Return the number of lines that are neither blank nor a comment."""
    text = address(data)
    count = at = 0
    while at < len(data):
        while is_blank(byte_at(text, at)):
            at += 1
        count += byte_at(text, at) != 10 and byte_at(text, at) != 35
        at = next_line(text, at)
    return count


@kernel
def parse_fields(
    data: NDArray[np.uint8],
    labels: NDArray[np.float64],
    rows: NDArray[np.int64],
    pairs: NDArray[np.int64],
    values: NDArray[np.float64],
    hard: NDArray[np.int64],
    facts: NDArray[np.int64],
) -> Any:
    r"""Parse complete lines.

    Parameters
    ----------
    data
        Text, shape (n,), that ends with ``\n``.
    labels
        Receives the label of each line that is not blank.
    rows, pairs, values
        Receive line, field and index (shape (m, 2)), and value of each feature.
    hard
        Receives pairs (feature, position) of values for the interpreter to parse, shape (2 * (lines + m),); label k has
        number -1 - k in place of a feature.
    facts
        Receives the number of comment lines, the number of integers rounded to floats, and the first feature with one;
        shape (3,), zeros before.

    Returns
    -------
    lines, count, hards, status, at
        Lines and features, pairs in ``hard``, ``GOOD`` or an error code, and its position.
    """
    text = address(data)
    lines = count = hards = at = 0
    while at < len(data):
        while is_blank(byte_at(text, at)):
            at += 1
        if byte_at(text, at) == 10 or byte_at(text, at) == 35:
            facts[0] += byte_at(text, at) == 35
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
            number, at, status = scan_value(text, at)
            if status == BAD or not (is_blank(byte_at(text, at)) or byte_at(text, at) == 10):
                return lines, count, hards, NO_COLON if byte_at(text, at) == 58 else BAD_VALUE, begin
            if status == INEXACT:
                facts[2] = count if facts[1] == 0 else facts[2]
                facts[1] += 1
            elif status != OK:
                hard[2 * hards], hard[2 * hards + 1] = count, start
                hards += 1
            values[count] = number
            rows[count] = lines
            count += 1
        at = next_line(text, at)
        lines += 1
    return lines, count, hards, GOOD, at
