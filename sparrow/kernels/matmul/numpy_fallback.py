"""What the loops of products do, by NumPy: for few products in a process that has not loaded the loop yet.

To load the first loop takes 0.3 seconds, whatever it does, every other some 0.1, and one that nobody has compiled here
before it 2. Sums are added up in the same order, to the same bits.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["at_cells", "known", "loaded", "products", "products_before", "spares", "suffices"]

_FEW = 1 << 16
"""Entries or products that NumPy multiplies in a small part of the time that loading takes."""
_CALL, _WORTH = 1 << 10, 1 << 20
"""The products that take as long as a call does beside them, and all that take as long as loading a loop."""
_spared: dict[Hashable, float] = {}
"""For each loop the products that NumPy has multiplied in its place, endless once it is loaded: about, of threads at
once; it decides on speed alone, not on bits."""

_KINDS = "iuf"
"""Types of which NumPy's operations have the bits of the loops."""


def _least(a: Any, b: Any) -> Any:
    return np.where((a < b) | (a != a), a, b)  # of zeros the last one, as the loops have it


def _most(a: Any, b: Any) -> Any:
    return np.where((a > b) | (a != a), a, b)


_MULTIPLIED: dict[str, Callable[[Any, Any], Any]] = {
    "plus": np.add, "times": np.multiply, "min": _least, "max": _most, "and": np.bitwise_and,
    "first": lambda a, b: a, "second": lambda a, b: b, "pair": lambda a, b: np.ones_like(a),
}  # fmt: skip
_ADDED: dict[str, Any] = {"plus": np.add, "min": np.minimum, "max": np.maximum, "or": np.bitwise_or, "any": None}


def loaded() -> bool:
    """Return whether the process has loaded what compiled loops need."""
    return "numba" in sys.modules


def suffices(count: int) -> bool:
    """Return whether so many entries or products are better multiplied here than by the first loop to be loaded."""
    return count <= _FEW and not loaded()


def known(add: Any, multiply: Any, dtype: np.dtype[Any]) -> bool:
    """Return whether a semiring is one of named operations of numbers, which NumPy has too."""
    product = getattr(multiply, "of", multiply)
    return all(isinstance(each, str) for each in (add, product)) and dtype.kind in _KINDS


def spares(loop: Hashable, count: int) -> bool:
    """Return whether so many products are better multiplied here than by a loop; if not, it is loaded from then on.

    They are until what was multiplied here has taken as long as it takes to load the loop.
    """
    before = _spared.get(loop, 0)
    spared = count <= _FEW and before <= _WORTH
    _spared[loop] = before + count + _CALL if spared else math.inf
    return spared


def products_before(pointers: NDArray[Any], places: NDArray[Any], starts: NDArray[Any]) -> NDArray[np.int64]:
    """Return the cumulative number of products per row, as the symbolic phase does."""
    before = np.zeros(len(places) + 1, np.int64)
    np.cumsum(starts[places + 1] - starts[places], out=before[1:])
    found: NDArray[np.int64] = before[pointers]
    return found


def products(
    add: Any, multiply: Any, width: int, pointers: NDArray[Any], places: NDArray[Any], left: NDArray[Any],
    starts: NDArray[Any], columns: NDArray[Any], right: NDArray[Any], begins: NDArray[Any], ends: NDArray[Any],
    unwanted: NDArray[Any], fill: Any,
) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[Any]]:  # fmt: skip
    """Return the sums of the products of rows: where each row begins, their columns, and they.

    Parameters
    ----------
    add, multiply
        Operations that are :func:`known`; ``multiply`` takes the left value first.
    width
        The number of columns.
    pointers, places, left, starts, columns, right, begins, ends, unwanted, fill
        As of a loop ``rows`` of :mod:`sparrow.kernels.matmul.spgemm`.
    """
    height = len(pointers) - 1
    found, out = _added_up(add, multiply, width, pointers, places, left, starts, columns, right)
    kept = out != fill
    if len(begins):
        kept &= ~np.isin(found, _keys(width, begins, ends, unwanted)[0])
    found = found[kept]
    return np.searchsorted(found, np.arange(height + 1) * width), (found % max(width, 1)).astype(np.uint32), out[kept]


def at_cells(
    add: Any, multiply: Any, width: int, pointers: NDArray[Any], places: NDArray[Any], left: NDArray[Any],
    starts: NDArray[Any], columns: NDArray[Any], right: NDArray[Any], begins: NDArray[Any], ends: NDArray[Any],
    wanted: NDArray[Any], fill: Any,
) -> tuple[NDArray[np.int64], NDArray[Any]]:  # fmt: skip
    """Return which cells of a mask have sums of the products of rows, and those.

    Parameters
    ----------
    add, multiply, width, pointers, places, left, starts, columns, right, fill
        As of :func:`products`.
    begins, ends, wanted
        As of a loop ``masked`` of :mod:`sparrow.kernels.matmul.spgemm`.
    """
    found, out = _added_up(add, multiply, width, pointers, places, left, starts, columns, right)
    cells, at = _keys(width, begins, ends, wanted)
    place = np.searchsorted(found, cells)
    kept = np.append(found, -1)[place] == cells
    kept[kept] = out[place[kept]] != fill
    return at[kept], out[place[kept]]


def _keys(
    width: int, begins: NDArray[Any], ends: NDArray[Any], columns: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the cells of a mask as numbers, row by row, and where each is in the mask."""
    counts = (ends - begins).astype(np.int64)
    rows = np.repeat(np.arange(len(begins)), counts)
    at = np.arange(len(rows)) + np.repeat(begins.astype(np.int64) - (np.cumsum(counts) - counts), counts)
    return rows * width + columns[at].astype(np.int64), at


def _added_up(
    add: Any, multiply: Any, width: int, pointers: NDArray[Any], places: NDArray[Any], left: NDArray[Any],
    starts: NDArray[Any], columns: NDArray[Any], right: NDArray[Any],
) -> tuple[NDArray[np.int64], NDArray[Any]]:  # fmt: skip
    """Return the cells that have products, ascending, as numbers, and the sums."""
    first, last = starts[places].astype(np.int64), starts[places + np.uint32(1)].astype(np.int64)
    counts = last - first
    own = np.repeat(np.arange(len(places)), counts)
    at = np.arange(len(own)) + np.repeat(first - (np.cumsum(counts) - counts), counts)
    lengths = (pointers[1:] - pointers[:-1]).astype(np.int64)
    row = np.repeat(np.arange(len(lengths)), lengths)[own]
    key = row * width + columns[at].astype(np.int64)
    order = np.argsort(key, kind="stable")
    key = key[order]
    fresh = np.ones(len(key), bool)
    np.not_equal(key[1:], key[:-1], out=fresh[1:])
    with np.errstate(all="ignore"):
        times = _MULTIPLIED[multiply] if isinstance(multiply, str) else multiply
        values = times(left[own], right[at]).astype(left.dtype, copy=False)[order]
        out = values[fresh]
        if add != "any" and len(out) < len(values):
            cell = np.cumsum(fresh) - 1
            _ADDED[add].at(out, cell[~fresh], values[~fresh])
            if add in ("min", "max") and left.dtype.kind == "f":  # of zeros the last one
                zero = (values == 0) & (out[cell] == 0)
                out[cell[zero]] = values[zero]
    return key[fresh], out
