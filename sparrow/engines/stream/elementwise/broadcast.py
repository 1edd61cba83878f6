"""Broadcast inputs of maps: lookup tables, outer products, size limits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import NewAxis
from sparrow.engines.sort_orders import count_rows_to_read
from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.tuning import tuning
from sparrow.kernels.coo import Block, flat_positions
from sparrow.plan import Map, Scan, function_name
from sparrow.runtime import memory
from sparrow.runtime.once import Once
from sparrow.runtime.progress import format_quantity

__all__ = ["Lookup", "check_repeats", "find_outer_split", "split_outer"]

_NAN_AT_FILL = (np.true_divide, np.floor_divide, np.remainder, np.fmod)
"""Functions that make NaN of two zeros, so that absent elements become stored ones."""


class Lookup:
    """Sorted table of the elements that broadcasting repeats.

    Parameters
    ----------
    scan
        Scan with new axes.
    start, stop
        Rows [start, stop) that are looked up.
    """

    def __init__(self, scan: Scan, start: int, stop: int) -> None:
        axes = scan.view.axes
        self._axes = [k for k, axis in enumerate(axes) if not isinstance(axis, NewAxis)]
        key = tuple(0 if isinstance(axis, NewAxis) else slice(None) for axis in axes)
        self._start = 0 if isinstance(axes[0], NewAxis) else start
        view = scan.view.then(key if isinstance(axes[0], NewAxis) else (slice(start, stop), *key[1:]))
        self._scan = scan.then(view)
        self._table = Once(partial(_sorted_table, self._scan))

    @staticmethod
    def fits(scan: Scan) -> bool:
        """Return whether broadcasting repeats a scan that fits in memory once.

        Reads footers, no data.
        """
        view, parameters = scan.view, tuning()
        if view.repeats <= 1 or not view.size or view.size // view.repeats >= 2**63:
            return False
        return count_rows_to_read(scan) * parameters.element_bytes <= memory.limit() // parameters.lookup_parts

    def at(self, block: Block) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the values at the coordinates of a block, and whether they are stored.

        Absent elements have the fill value.
        """
        keys, values = self._table()
        columns = [block.coords[k] for k in self._axes]
        if self._start:
            columns[0] = columns[0] - columns[0].dtype.type(self._start)
        wanted = flat_positions(columns, self._scan.schema.shape, block.count)
        if not len(keys):
            return np.full(block.count, self._scan.schema.fill_value), np.zeros(block.count, bool)
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        present = keys[place] == wanted
        return np.where(present, values[place], self._scan.schema.fill_value), present


def _sorted_table(scan: Scan) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the flat positions and values of a scan."""
    block = scan_reader.read_block(scan)
    return flat_positions(block.coords, scan.schema.shape, block.count), block.values


def find_outer_split(scans: Sequence[Scan], required: Sequence[bool]) -> tuple[int, int] | None:
    """Return the input with the leading axes of an outer product, and their number.

    An outer product is one of inputs that share no axis, as in ``v[:, None] * w``. None for other maps.
    """
    if len(scans) != 2 or not all(required) or min(scan.view.repeats for scan in scans) <= 1:
        return None
    own = [[not isinstance(axis, NewAxis) for axis in scan.view.axes] for scan in scans]
    first = 0 if own[0][0] else 1
    split = sum(own[first])
    leading = [k < split for k in range(len(own[first]))]
    is_outer = own[first] == leading and own[1 - first] == [not each for each in leading]
    return (first, split) if is_outer else None


def split_outer(scans: Sequence[Scan], first: int, split: int) -> tuple[Scan, Scan]:
    """Return both scans without broadcast axes, that of the leading axes first."""
    trailing = (0,) * (scans[0].schema.ndim - split)
    rows = scans[first].then(scans[first].view.then((slice(None),) * split + trailing))
    others = scans[1 - first].then(scans[1 - first].view.then((0,) * split + (slice(None),) * len(trailing)))
    return rows, others


def check_repeats(node: Map, scans: Sequence[Scan], required: Sequence[bool]) -> None:
    """Raise if broadcasting produces billions of elements beyond the memory limit.

    Outer products are known to; other products drop an unknown number of the repeated elements.

    Parameters
    ----------
    node
        Last function of a fused kernel.
    scans
        Inputs of the kernel, of relations.
    required
        Whether the output has elements only where the input has.

    Raises
    ------
    TooLargeError
        If broadcasting produces more elements than the memory limit and tuning permit.
    """
    size = node.schema.size
    split = find_outer_split(scans, required)
    if split is not None:
        rows, others = split_outer(scans, *split)
        count = min(count_rows_to_read(rows) * count_rows_to_read(others), size)
        _check_count(node, count, "an outer product")
    elif not any(required):
        for scan in scans:
            if scan.view.repeats > 1:
                count = count_rows_to_read(scan)
                _check_count(node, min(count * scan.view.repeats, size), f"a broadcast of {count} elements")


def _check_count(node: Map, count: int, what: str) -> None:
    nbytes = count * node.schema.element_bytes()
    if count > tuning().max_repeated_elements and nbytes > memory.limit():
        of = f"{function_name(node.function)} of shape {node.schema.shape}"
        message = f"{of}, {what} with up to {format_quantity(count, 'elements')},"
        ones = ", give a divisor 1 instead of 0 (np.where(d == 0, 1, d))" if node.function in _NAN_AT_FILL else ""
        raise memory.too_large(message, nbytes, f"take a part of it{ones}")
