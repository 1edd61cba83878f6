"""Records of delimited text, and fields with leading zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.kernels.parse.numbers import kernel

__all__ = ["has_padded_field", "replace_blanks", "scan_records"]


@kernel
def scan_records(data: NDArray[np.uint8], delimiter: int, quote: int, lines: NDArray[np.int64]) -> Any:
    r"""Scan the records of complete lines.

    Parameters
    ----------
    data
        Text, shape (n,), that ends with ``\n``.
    delimiter, quote
        Delimiter of fields, and quote of fields that may contain line ends; -1 for no quotes.
    lines
        Receives the first line of each record, counted from 0, as far as it has space. Blank lines are not records.

    Returns
    -------
    end, line
        Position after the last complete record, and the line there.
    """
    n = len(data)
    at = 0
    line = 0
    count = 0
    end = 0
    first = 0
    while at < n:
        if data[at] == 10 or (data[at] == 13 and data[at + 1] == 10):
            at += 1 + (data[at] == 13)
            line += 1
            end = at
            first = line
            continue
        while True:  # fields
            if data[at] == quote:
                at += 1
                while at < n and (data[at] != quote or (at + 1 < n and data[at + 1] == quote)):
                    line += data[at] == 10
                    at += 1 + (data[at] == quote)
                if at >= n:
                    return end, first
            while data[at] != delimiter and data[at] != 10:
                at += 1
            at += 1
            if data[at - 1] == 10:
                break
        if count < len(lines):
            lines[count] = first
        count += 1
        line += 1
        end = at
        first = line
    return end, first


@kernel
def has_padded_field(data: NDArray[np.uint8], delimiter: int) -> bool:
    """Return whether a field, quoted or not, is a number with leading zeros."""
    before = True
    for k in range(len(data) - 1):
        byte = data[k]
        if before and byte == 48 and data[k + 1] >= 48 and data[k + 1] <= 57:
            return True
        before = byte == delimiter or byte == 10 or byte == 34
    return False


@kernel
def replace_blanks(data: NDArray[np.uint8], quote: int, separator: int, inside: bool, out: NDArray[np.uint8]) -> Any:
    r"""Replace runs of blanks and tabs between fields by a separator.

    Parameters
    ----------
    data
        Text, shape (n,), that ends with ``\n``.
    quote
        Quote of fields whose blanks are kept.
    separator
        Byte that parts fields in the result; lines neither begin nor end with it.
    inside
        Whether the text begins within a quoted field.
    out
        Receives the text, shape (n,).

    Returns
    -------
    size, inside
        Length of the result, and whether it ends within a quoted field.
    """
    size = 0
    gap = False
    begins = not inside
    for byte in data:
        if inside:
            inside = byte != quote
        elif byte == 32 or byte == 9 or byte == 13:
            gap = True
            continue
        elif byte == 10:
            gap = False
            begins = True
            out[size] = byte
            size += 1
            continue
        else:
            inside = byte == quote
        if gap and not begins:
            out[size] = separator
            size += 1
        gap = False
        begins = False
        out[size] = byte
        size += 1
    return size, inside
