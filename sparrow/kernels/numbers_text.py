"""Lines of numbers in bytes: so many whole coordinates, then so many values, parted by blanks.

Blank lines say nothing, nor do lines that begin with ``%`` or ``#``, nor what follows these signs in a line.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sparrow.kernels.text import BAD, OK, OVERFLOW, is_blank, kernel, scan_float, scan_integer

__all__ = ["BAD_COORDINATE", "BAD_VALUE", "GOOD", "LARGE", "TOO_FEW", "TOO_MANY", "parse_numbers"]

GOOD: Final = 0
BAD_COORDINATE: Final = 1
"""A coordinate that is no integer."""
LARGE: Final = 2
"""A coordinate beyond int64."""
BAD_VALUE: Final = 3
"""A value that is no number, or no integer where these are wanted."""
TOO_FEW: Final = 4
"""A line that ends before all its numbers."""
TOO_MANY: Final = 5
"""A line that goes on after them."""


@kernel
def _ends(byte: Any) -> Any:
    return byte == 10 or byte == 37 or byte == 35 or is_blank(byte)


@kernel
def parse_numbers(
    data: NDArray[np.uint8],
    whole: bool,
    coords: NDArray[np.int64],
    floats: NDArray[np.float64],
    integers: NDArray[np.int64],
    hard: NDArray[np.int64],
) -> Any:
    r"""Read whole lines.

    Parameters
    ----------
    data
        Text, shape (n,), that ends with ``\n``.
    whole
        Whether values are integers.
    coords
        Shape (k, m): takes the coordinates of m lines at most.
    floats, integers
        Shape (m, v), the one that ``whole`` names takes the values; the other may have no rows, but as many columns.
    hard
        Shape (2 * m * v,): takes pairs (number of the value, where it begins) of values that the interpreter must read.

    Returns
    -------
    count, hards, status, at
        Lines with numbers, pairs in ``hard``, ``GOOD`` or what is wrong, and where.
    """
    k, v = coords.shape[0], floats.shape[1]
    at = count = hards = 0
    while at < len(data):
        while is_blank(data[at]):
            at += 1
        if data[at] != 10 and data[at] != 37 and data[at] != 35:
            for j in range(k + v):
                while is_blank(data[at]):
                    at += 1
                if _ends(data[at]):
                    return count, hards, TOO_FEW, at
                start = at
                if j < k or whole:
                    number, at, status = scan_integer(data, start)
                    if status == BAD or not _ends(data[at]):
                        return count, hards, BAD_COORDINATE if j < k else BAD_VALUE, start
                    if j < k:
                        if status == OVERFLOW:
                            return count, hards, LARGE, start
                        coords[j, count] = number
                    else:
                        integers[count, j - k] = number
                else:
                    value, at, status = scan_float(data, start)
                    if status == BAD or not _ends(data[at]):
                        return count, hards, BAD_VALUE, start
                    floats[count, j - k] = value
                if j >= k and status != OK:
                    hard[2 * hards] = count * v + j - k
                    hard[2 * hards + 1] = start
                    hards += 1
            while is_blank(data[at]):
                at += 1
            if not _ends(data[at]):
                return count, hards, TOO_MANY, at
            count += 1
        while data[at] != 10:
            at += 1
        at += 1
    return count, hards, GOOD, at
