"""Parser of libsvm lines.

A line is ``label[,label...] [qid:n] index:value ... [# comment]``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparrow.core.casting import is_rounded_integer
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

__all__ = ["Fault", "Parsed", "parse"]

BAD_LABEL: Final = 1
BAD_QID: Final = 2
NO_COLON: Final = 3
BAD_INDEX: Final = 4
BELOW: Final = 5
BEYOND: Final = 6
BAD_VALUE: Final = 7
LATE_QID: Final = 8
QID_RANGE: Final = 9
INDEX_RANGE: Final = 10
NEGATIVE: Final = 11

_SLICE = 1 << 16


class Fault(NamedTuple):
    """First invalid token of a block."""

    code: int
    start: int
    stop: int


@dataclass(slots=True)
class Parsed:
    """Parsed block of text: r rows and e elements in input order."""

    at: NDArray[np.int32]
    """Position of the first token of each row, shape (r,)."""
    labels: NDArray[np.float64]
    """First label of each row, shape (r,); 0 for rows without labels."""
    label_ends: NDArray[np.int32]
    """Shape (r + 1,); the labels of row k are ``label_text[label_ends[k]:label_ends[k + 1]]``."""
    label_text: NDArray[np.uint8]
    qids: NDArray[np.int64]
    """Query id of each row, shape (r,); 0 for rows without one."""
    rows: NDArray[np.int32]
    """Row of each element within the block, shape (e,)."""
    indices: NDArray[np.int64]
    """Index of each element as written, shape (e,)."""
    values: NDArray[np.float64]
    """Value of each element, shape (e,)."""
    exact: list[tuple[int, int, int]]
    """With ``integers``: element, start and stop of values that float64 may round."""
    smallest: int
    """Smallest index, 2^63 - 1 if there are no elements."""
    largest: int
    """Largest index, -1 if there are no elements."""
    sorted: bool
    """True if indices ascend strictly within each row."""
    zeros: int
    """Number of values that are 0."""
    several: bool
    """True if a row has several labels."""
    qid: bool
    """True if a row has a qid."""
    unlabelled: int
    """First row without a label, or -1."""
    at_limit: int
    """Position of the first index equal to the limit, or -1."""
    comments: int
    """Number of lines that are only a comment."""
    rounded: int
    """Number of values that are integers which float64 rounds, unless ``integers``."""
    rounded_labels: int
    """Number of labels that are integers which float64 rounds."""
    fault: Fault | None
    """First invalid token; it follows all elements here, and its row may be included."""


@kernel
def _ends(byte: Any) -> Any:
    """Return whether a byte ends a token."""
    return byte == 32 or byte == 10 or byte == 35 or is_blank(byte)


@kernel
def _parse(
    data: Any,
    least: Any,
    limit: Any,
    integers: Any,
    at: Any,
    labels: Any,
    label_ends: Any,
    label_text: Any,
    qids: Any,
    rows: Any,
    indices: Any,
    values: Any,
    hard: Any,
    info: Any,
) -> None:
    """Fill the arrays of ``Parsed``; ``info`` receives the scalars."""
    n = len(data)
    source = address(data)
    row = 0
    entry = 0
    text = 0
    hards = 0
    smallest = np.int64(2**63 - 1)
    largest = np.int64(-1)
    ordered = True
    zeros = 0
    comments = 0
    rounded = 0
    rounded_labels = 0
    several = False
    any_qid = False
    unlabelled = -1
    at_limit = -1
    code = 0
    p = 0
    token = 0
    label_ends[0] = 0
    while p < n and code == 0:
        while is_blank(byte_at(source, p)):
            p += 1
        if byte_at(source, p) == 10:
            p += 1
            continue
        if byte_at(source, p) == 35:
            comments += 1
            p = next_line(source, p)
            continue
        token = p
        at[row] = p
        labels[row] = 0.0
        qids[row] = 0
        position = 0
        unsure = False
        first_end = p
        while True:
            value, p, status = scan_value(source, p)
            if status != BAD:
                rounded_labels += status == INEXACT
                if position == 0:
                    labels[row] = value
                    unsure = status == HARD
                    first_end = p
                position += 1
                if byte_at(source, p) == 44:
                    p += 1
                    continue
                if _ends(byte_at(source, p)):
                    break
            # A first token with a colon is not a label.
            p = token
            while byte_at(source, p) != 58 and not _ends(byte_at(source, p)):
                p += 1
            if byte_at(source, p) != 58:
                code = BAD_LABEL
            position = 0
            labels[row] = 0.0
            break
        if code != 0:
            break
        several |= position > 1
        if position > 0:
            if unsure:
                hard[hards, 0] = -1 - row
                hard[hards, 1] = token
                hard[hards, 2] = first_end
                hards += 1
            for k in range(token, p):
                label_text[text] = byte_at(source, k)
                text += 1
        else:
            p = token
            if unlabelled < 0:
                unlabelled = row
        label_ends[row + 1] = text
        row += 1
        previous = np.int64(-1)
        first = True
        while True:
            while is_blank(byte_at(source, p)):
                p += 1
            if byte_at(source, p) == 10 or byte_at(source, p) == 35:
                break
            token = p
            index, p, status = scan_integer(source, p)
            if status != OK or byte_at(source, p) != 58:
                if (
                    byte_at(source, token) == 113
                    and byte_at(source, token + 1) == 105
                    and byte_at(source, token + 2) == 100
                    and byte_at(source, token + 3) == 58
                ):
                    if not first:
                        code = LATE_QID
                        break
                    index, p, status = scan_integer(source, token + 4)
                    if status == OVERFLOW:
                        code = QID_RANGE
                        break
                    if status != OK or not _ends(byte_at(source, p)):
                        code = BAD_QID
                        break
                    qids[row - 1] = index
                    any_qid = True
                    first = False
                    continue
                if status == OVERFLOW and byte_at(source, p) == 58:
                    code = INDEX_RANGE
                else:
                    code = NO_COLON
                    while not _ends(byte_at(source, p)):
                        if byte_at(source, p) == 58:
                            code = BAD_INDEX
                        p += 1
                break
            first = False
            if index < least:
                code = NEGATIVE if index < 0 else BELOW
                break
            if index >= limit:
                if index > limit:
                    code = BEYOND
                    break
                if at_limit < 0:
                    at_limit = token
            start = p + 1
            value, p, status = scan_value(source, start)
            if status == BAD or not _ends(byte_at(source, p)):
                code = BAD_VALUE
                break
            if status == HARD or (integers and not abs(value) < 9007199254740992.0):
                hard[hards, 0] = entry
                hard[hards, 1] = start
                hard[hards, 2] = p
                hards += 1
            elif status == INEXACT:
                rounded += 1
            zeros += value == 0.0
            ordered &= index > previous
            previous = index
            smallest = min(smallest, index)
            largest = max(largest, index)
            rows[entry] = row - 1
            indices[entry] = index
            values[entry] = value
            entry += 1
        if code == 0:
            p = next_line(source, p)
    stop = token
    if code != 0:
        while not _ends(byte_at(source, stop)):
            stop += 1
    info[0] = row
    info[1] = entry
    info[2] = text
    info[3] = hards
    info[4] = smallest
    info[5] = largest
    info[6] = ordered
    info[7] = zeros
    info[8] = several
    info[9] = any_qid
    info[10] = unlabelled
    info[11] = at_limit
    info[12] = code
    info[13] = token
    info[14] = stop
    info[15] = comments
    info[16] = rounded
    info[17] = rounded_labels


def parse(data: NDArray[np.uint8], lines: int, least: int, limit: int, integers: bool = False) -> Parsed:
    r"""Parse complete lines of libsvm text up to the first invalid token.

    Parameters
    ----------
    data
        Text, shape (n,), that ends with ``\n``.
    lines
        Number of lines.
    least, limit
        Smallest and largest valid index.
    integers
        Whether values are integers: list those that float64 may round in ``exact``.
    """
    n = len(data)
    most = sum(np.count_nonzero(data[k : k + _SLICE] == 58) for k in range(0, n, _SLICE))
    at = np.empty(lines, np.int32)
    labels, qids = np.empty(lines, np.float64), np.empty(lines, np.int64)
    label_ends, label_text = np.empty(lines + 1, np.int32), np.empty(n, np.uint8)
    rows, indices, values = np.empty(most, np.int32), np.empty(most, np.int64), np.empty(most, np.float64)
    hard = np.empty((most + lines if integers else n // 20 + 1, 3), np.int32)
    info = np.zeros(18, np.int64)
    _parse(data, least, limit, integers, at, labels, label_ends, label_text, qids, rows, indices, values, hard, info)
    r, e, t, h, smallest, largest, ordered, zeros, several, qid, unlabelled, at_limit, code, start, stop = info[
        :15
    ].tolist()
    comments, rounded, rounded_labels = info[15:].tolist()
    exact: list[tuple[int, int, int]] = []
    for k, first, last in hard[:h].tolist():
        token = bytes(data[first:last])
        if k < 0:
            labels[-1 - k] = float(token)
            rounded_labels += is_rounded_integer(token)
        elif integers:
            exact.append((k, first, last))
        else:
            values[k] = float(token)
            rounded += is_rounded_integer(token)
    return Parsed(
        at[:r], labels[:r], label_ends[: r + 1], label_text[:t], qids[:r], rows[:e], indices[:e], values[:e],
        exact, smallest, largest, bool(ordered), zeros, bool(several), bool(qid), unlabelled, at_limit,
        comments, rounded, rounded_labels,
        Fault(code, start, stop) if code else None,
    )  # fmt: skip
