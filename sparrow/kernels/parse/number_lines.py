"""Parser of lines of numbers: some integer coordinates, then some values."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sparrow.kernels.parse.numbers import (
    BAD,
    INEXACT,
    OK,
    address,
    byte_at,
    is_blank,
    kernel,
    next_line,
    scan_integer,
    scan_value,
)

__all__ = ["BAD_COORDINATE", "BAD_VALUE", "GOOD", "LARGE", "TOO_FEW", "TOO_MANY", "parse_numbers"]

GOOD: Final = 0
BAD_COORDINATE: Final = 1
"""A coordinate is not an integer."""
LARGE: Final = 2
"""A coordinate exceeds int64."""
BAD_VALUE: Final = 3
"""A value is not a number, or not an integer as expected."""
TOO_FEW: Final = 4
"""A line has too few numbers."""
TOO_MANY: Final = 5
"""A line has too many numbers."""


@kernel
def _ends(byte: Any) -> Any:
    """Return whether a byte ends a number."""
    return byte == 10 or byte == 35 or is_blank(byte)


@kernel
def _over(byte: Any) -> Any:
    """Return whether a byte ends the numbers of a line: line end or comment."""
    return byte == 10 or byte == 37 or byte == 35


@kernel
def parse_numbers(
    data: NDArray[np.uint8],
    as_integers: bool,
    base: int,
    extents: NDArray[np.int64],
    coords: NDArray[np.int64],
    floats: NDArray[np.float64],
    integers: NDArray[np.int64],
    hard: NDArray[np.int64],
    facts: NDArray[np.int64],
) -> Any:
    r"""Parse complete lines.

    Parameters
    ----------
    data
        Text, shape (n,), that ends with ``\n``.
    as_integers
        Whether values are integers.
    base
        Smallest coordinate in the text.
    extents
        Receives the smallest and largest coordinate in the text, shape (k, 2); 2^63 - 1 and -2^63 without lines.
    coords
        Receives the coordinates of at most m lines, counted from 0, shape (k, m).
    floats, integers
        Shape (m, v); ``as_integers`` selects the array that receives the values; the other may have no rows.
    hard
        Receives pairs (number of the value, position) of values for the interpreter to parse, shape (2 * m * v,).
    facts
        Receives the number of comment lines, the number of integers rounded to floats, and the line of the first of
        these, counted from 0 among the lines of data; shape (3,), zeros before.

    Returns
    -------
    count, hards, status, at
        Lines, pairs in ``hard``, ``GOOD`` or an error code, and its position.
    """
    k, v = coords.shape[0], floats.shape[1]
    text = address(data)
    at = count = hards = 0
    extents[:, 0] = 2**63 - 1
    extents[:, 1] = -(2**63)
    while at < len(data):
        while is_blank(byte_at(text, at)):
            at += 1
        byte = byte_at(text, at)
        if _over(byte):
            facts[0] += byte != 10
            at = next_line(text, at)
            continue
        for j in range(k):
            start = at
            number, at, status = scan_integer(text, start)
            byte = byte_at(text, at)
            if byte != 32 and (status == BAD or not _ends(byte)):
                return count, hards, TOO_FEW if _over(byte_at(text, start)) else BAD_COORDINATE, start
            if status != OK:
                return count, hards, BAD_COORDINATE if status == BAD else LARGE, start
            coords[j, count] = number - base
            extents[j, 0] = min(extents[j, 0], number)
            extents[j, 1] = max(extents[j, 1], number)
            while is_blank(byte):
                at += 1
                byte = byte_at(text, at)
        for j in range(v):
            start = at
            if as_integers:
                integers[count, j], at, status = scan_integer(text, start)
            else:
                floats[count, j], at, status = scan_value(text, start)
            byte = byte_at(text, at)
            if status == BAD or not _ends(byte):
                return count, hards, TOO_FEW if _over(byte_at(text, start)) else BAD_VALUE, start
            if status == INEXACT:
                facts[2] = count if facts[1] == 0 else facts[2]
                facts[1] += 1
            elif status != OK:
                hard[2 * hards] = count * v + j
                hard[2 * hards + 1] = start
                hards += 1
            while is_blank(byte):
                at += 1
                byte = byte_at(text, at)
        count += 1
        if byte != 10:
            if not _over(byte):
                return count - 1, hards, TOO_MANY, at
            at = next_line(text, at)
        else:
            at += 1
    return count, hards, GOOD, at
