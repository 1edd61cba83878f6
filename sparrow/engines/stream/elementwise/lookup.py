"""The entries of an operand that broadcasting repeats, looked up where a product needs them instead of repeated."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import NewAxis
from sparrow.engines.sort_orders import count_rows_to_read
from sparrow.engines.stream import scan_reader
from sparrow.kernels.coo import Block, flat_positions
from sparrow.plan import Scan
from sparrow.runtime import memory

__all__ = ["Lookup"]

_ENTRY_BYTES = 32
"""About what an entry takes in memory, and some more."""
_SHARE = 8
"""Of the memory limit, one part for the entries that are looked up."""


class Lookup:
    """The cells of a scan whose entries broadcasting repeats.

    Parameters
    ----------
    scan
        Some of its axes are new ones.
    start, stop
        Bounds along the leading axis between which cells are asked for.
    """

    def __init__(self, scan: Scan, start: int, stop: int) -> None:
        axes = scan.view.axes
        self._axes = [k for k, axis in enumerate(axes) if not isinstance(axis, NewAxis)]
        key = tuple(0 if isinstance(axis, NewAxis) else slice(None) for axis in axes)
        self._start = 0 if isinstance(axes[0], NewAxis) else start
        view = scan.view.then(key if isinstance(axes[0], NewAxis) else (slice(start, stop), *key[1:]))
        self._scan = scan.then(view)
        self._found: tuple[NDArray[np.int64], NDArray[Any]] | None = None
        self._lock = threading.Lock()

    @staticmethod
    def fits(scan: Scan) -> bool:
        """Return whether broadcasting repeats entries and what it repeats fits in memory. Reads footers, no data."""
        view = scan.view
        if view.repeats <= 1 or not view.size or view.size // view.repeats >= 2**63:
            return False
        return count_rows_to_read(scan) * _ENTRY_BYTES <= memory.limit() // _SHARE

    def at(self, block: Block) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the value at each entry's coordinates, fill where there is none, and where there is one."""
        keys, values = self._entries()
        wanted = self._positions(block, self._start)
        if not len(keys):
            return np.full(block.count, self._scan.schema.fill_value), np.zeros(block.count, bool)
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        present = keys[place] == wanted
        return np.where(present, values[place], self._scan.schema.fill_value), present

    def _entries(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        with self._lock:
            if self._found is None:
                own = scan_reader.read_block(self._scan)
                self._found = flat_positions(own.coords, self._scan.schema.shape, own.count), own.values
        return self._found

    def _positions(self, block: Block, start: int) -> NDArray[np.int64]:
        """Return the flat positions of entries of the whole among the cells that are looked up."""
        columns = [block.coords[k] for k in self._axes]
        if start:
            columns[0] = columns[0] - columns[0].dtype.type(start)
        return flat_positions(columns, self._scan.schema.shape, block.count)
