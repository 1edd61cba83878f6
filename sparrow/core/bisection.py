"""Bisection in sorted coordinates, without a copy of them."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["bisect_sorted"]


def bisect_sorted(column: NDArray[Any], wanted: ArrayLike, side: Literal["left", "right"] = "left") -> Any:
    """Return ``np.searchsorted`` of integers without casting the column.

    NumPy casts a column of int32 to int64 for a Python integer, which takes twice its memory and reads all of it.

    Examples
    --------
    >>> int(bisect_sorted(np.array([1, 5, 7], np.int32), 5, "right"))
    2
    """
    found = np.asarray(wanted)
    if found.dtype != column.dtype and found.size:
        kind = np.iinfo(column.dtype)
        if kind.min <= found.min() and found.max() <= kind.max:
            found = found.astype(column.dtype)
    return np.searchsorted(column, found, side)
