"""Tokenizer of lines with a fixed number of tokens."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sparrow.kernels.parse.numbers import OK, address, is_blank, kernel, scan_integer

__all__ = ["GOOD", "TOO_FEW", "TOO_MANY", "parse_integers", "split_tokens"]

GOOD: Final = 0
TOO_FEW: Final = 1
"""A line has too few tokens, or an empty one."""
TOO_MANY: Final = 2
"""A line has too many tokens."""


@kernel
def split_tokens(data: NDArray[np.uint8], delimiter: int, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Any:
    r"""Find the tokens of complete lines; blank lines are ignored.

    Parameters
    ----------
    data
        Text, shape (n,), that ends with ``\n``.
    delimiter
        Separator of tokens, with optional blanks around it; -1 for blanks alone.
    starts, ends
        Receive the bounds of the k tokens of each line, shape (lines, k).

    Returns
    -------
    count, status, at
        Non-blank lines, ``GOOD`` or an error code, and the start of its line.
    """
    k = starts.shape[1]
    count = at = 0
    while at < len(data):
        while data[at] != delimiter and is_blank(data[at]):
            at += 1
        if data[at] == 10:
            at += 1
            continue
        line = at
        for i in range(k):
            while data[at] != delimiter and is_blank(data[at]):
                at += 1
            begin = at
            if delimiter < 0:
                while data[at] != 10 and not is_blank(data[at]):
                    at += 1
            else:
                while data[at] != 10 and data[at] != delimiter:
                    at += 1
            end = at
            while end > begin and is_blank(data[end - 1]):
                end -= 1
            if end == begin:
                return count, TOO_FEW, line
            starts[count, i], ends[count, i] = begin, end
            if i < k - 1:
                if data[at] == 10:
                    return count, TOO_FEW, line
                at += 1
        while data[at] != 10 and is_blank(data[at]):
            at += 1
        if data[at] != 10:
            return count, TOO_MANY, line
        count += 1
        at += 1
    return count, GOOD, at


@kernel
def parse_integers(
    data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64], out: NDArray[np.int64]
) -> Any:
    """Parse non-negative integers; return the number before the first invalid token."""
    text = address(data)
    for i in range(len(starts)):
        value, at, status = scan_integer(text, starts[i])
        if status != OK or at != ends[i] or value < 0:
            return i
        out[i] = value
    return len(starts)
