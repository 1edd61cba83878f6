"""What the loops of products do, by NumPy: for few products in a process that has loaded no compiled loop yet.

To load the first one takes 0.3 seconds, whatever it does. Sums are added up in the same order, to the same bits.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["loaded", "products", "products_before", "suffices"]

_FEW = 1 << 16
"""Entries or products that NumPy multiplies in a small part of the time that loading takes."""


def loaded() -> bool:
    """Return whether the process has loaded what compiled loops need."""
    return "numba" in sys.modules


def suffices(count: int) -> bool:
    """Return whether so many entries or products are better multiplied here."""
    return count <= _FEW and not loaded()


def products_before(pointers: NDArray[Any], places: NDArray[Any], starts: NDArray[Any]) -> NDArray[np.int64]:
    """Return how many products there are before each row and in all: as the loop in :mod:`sparrow.kernels.spgemm`."""
    before = np.zeros(len(places) + 1, np.int64)
    np.cumsum(starts[places + 1] - starts[places], out=before[1:])
    found: NDArray[np.int64] = before[pointers]
    return found


def products(
    width: int, pointers: NDArray[Any], places: NDArray[Any], left: NDArray[Any], starts: NDArray[Any],
    columns: NDArray[Any], right: NDArray[Any],
) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[Any]]:  # fmt: skip
    """Return the sums of the products of rows that are not 0: where each row begins, their columns, and they.

    Parameters
    ----------
    width
        The number of columns.
    pointers, places, left, starts, columns, right
        As of a loop ``rows`` of :mod:`sparrow.kernels.spgemm`, under plus and times.
    """
    first, last = starts[places].astype(np.int64), starts[places + np.uint32(1)].astype(np.int64)
    counts = last - first
    own = np.repeat(np.arange(len(places)), counts)
    at = np.arange(len(own)) + np.repeat(first - (np.cumsum(counts) - counts), counts)
    height = len(pointers) - 1
    lengths = (pointers[1:] - pointers[:-1]).astype(np.int64)
    row = np.repeat(np.arange(height), lengths)[own]
    key = row * width + columns[at].astype(np.int64)
    order = np.argsort(key, kind="stable")
    key = key[order]
    fresh = np.ones(len(key), bool)
    np.not_equal(key[1:], key[:-1], out=fresh[1:])
    out = np.zeros(int(fresh.sum()), left.dtype)
    with np.errstate(all="ignore"):
        np.add.at(out, np.cumsum(fresh) - 1, (left[own] * right[at])[order])
    kept = out != 0
    found = key[fresh][kept]
    return np.searchsorted(found, np.arange(height + 1) * width), (found % max(width, 1)).astype(np.uint32), out[kept]
