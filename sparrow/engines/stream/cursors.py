"""Cursors over scans: chunks are read once, or the scan is sorted once."""

from __future__ import annotations

import bisect
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from sparrow.core.indexing import RangeAxis
from sparrow.engines.profile import active
from sparrow.engines.sort_orders import sorted_order
from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.capabilities import Cursor
from sparrow.engines.stream.operator import PhysicalOperator
from sparrow.engines.stream.partitioning import cursor_strategy, range_slice
from sparrow.engines.stream.repeats import kept_axes, repeat_block, without_repeats
from sparrow.engines.stream.tuning import tuning
from sparrow.kernels.coo import Block, concat_blocks
from sparrow.plan import Scan
from sparrow.relations.memory import MemoryRelation
from sparrow.relations.protocol import Chunk
from sparrow.runtime import memory, settings
from sparrow.runtime.once import Once
from sparrow.sorting import SpilledBlocks, SpillFile

__all__ = [
    "ChunkCursor",
    "KeptCursor",
    "RangeCursor",
    "RepeatedCursor",
    "SortedCursor",
    "SpilledCursor",
    "open_cursor",
    "open_cursors",
    "pin",
    "read_range",
]


def open_cursor(scan: Scan, start: int, stop: int) -> Cursor:
    """Open a cursor over rows [start, stop) of a scan.

    A chunk with rows in several partitions is read once. A scan that does not come in the order of its axes is sorted
    once for all partitions, in memory or on disk; one of middling size is rescanned for each of a few partitions. What
    broadcasting repeats is read once.
    """
    strategy = cursor_strategy(scan)
    return RangeCursor(scan, start, stop) if strategy is None else _CURSORS[strategy](scan, start, stop)


def open_cursors(scans: Sequence[Scan], start: int, stop: int) -> list[Cursor]:
    """Open a cursor over rows [start, stop) of each scan."""
    return [open_cursor(scan, start, stop) for scan in scans]


def pin(scan: Scan, key: tuple[slice, ...]) -> object:
    """Return an object that lets readers of ``scan[key]`` share a cursor.

    They do so for as long as the object is referenced.
    """
    relation = scan.relation
    return relation.pin(scan.view.then(key).box()) if isinstance(relation, PhysicalOperator) else None


def read_range(scan: Scan, start: int, stop: int) -> Block:
    """Return the canonical elements of rows [start, stop) of a scan.

    Coordinates are those of the scan.
    """
    relation, schema = scan.relation, scan.schema
    shape = schema.shape
    if not shape:
        return scan_reader.read_block(scan)
    small = scan_reader.read_small(scan) if start == 0 and stop == shape[0] else None
    if small is not None:
        return small
    part = scan.then(scan.view.then((slice(start, stop),)))
    view = part.view
    order = sorted_order(part)
    chunks = relation.chunks(view.box(), order) if view.size and view.preserves_order(order) else None
    shown = max(view.repeats, 1) * sum(chunk.rows for chunk in chunks or ())
    if chunks is None or shown * tuning().element_bytes > memory.limit():
        block = scan_reader.read_block(part)
    elif scan.view.is_identity and order[0] == 0:
        found = [_clip(relation.read(chunk), chunk, start, stop) for chunk in chunks]
        return concat_blocks(found, schema.ndim, schema.dtype)
    else:
        block = concat_blocks(list(map(scan_reader.reader(part, order), chunks)), schema.ndim, schema.dtype)
    leading = block.coords[0].astype(schema.coordinate_dtype(0), copy=False)
    moved = leading + np.asarray(start, dtype=leading.dtype) if start else leading
    return Block((moved, *block.coords[1:]), block.values)


def _clip(block: Block, chunk: Chunk, start: int, stop: int) -> Block:
    """Return the elements in rows [start, stop) of a chunk sorted by rows."""
    if start <= chunk.low[0] and chunk.high[0] < stop:
        return block
    return block.take(range_slice(block.coords[0], start, stop))


class RangeCursor:
    """Cursor that reads each range from the scan anew.

    Operators below keep their own cursors open meanwhile.
    """

    __slots__ = ("_pin", "_scan")

    def __init__(self, scan: Scan, start: int, stop: int) -> None:
        self._scan = scan
        self._pin = pin(scan, (slice(start, stop),) if scan.view.ndim else ())

    def read(self, start: int, stop: int) -> Block:
        """Return the elements of rows [start, stop)."""
        return read_range(self._scan, start, stop)


class ChunkCursor:
    """Cursor over rows [start, stop) that reads each chunk of a sort order once.

    A chunk with rows in several ranges is kept until all of them were read; if they never are, until others were read
    since.
    """

    def __init__(self, scan: Scan, start: int, stop: int) -> None:
        self._scan, self._bounds = scan, (start, stop)
        if scan.view.is_identity:
            self._shift, part, order = 0, scan, scan.relation.orders[0]
        else:  # only these rows are moved to coordinates of the scan
            self._shift, part = start, scan.then(scan.view.then((slice(start, stop),)))
            order = sorted_order(part)
        self._read = scan_reader.reader(part, order)
        self._chunks = scan.relation.chunks(scan.view.then((slice(start, stop),)).box(), order)
        axis = scan.view.axes[0]
        assert isinstance(axis, RangeAxis)
        self._low = [-((axis.start - chunk.low[axis.dim]) // axis.step) for chunk in self._chunks]
        self._high = [(chunk.high[axis.dim] - axis.start) // axis.step for chunk in self._chunks]
        self._cached: OrderedDict[int, Once[Block]] = OrderedDict()
        self._unread: dict[int, int] = {}
        """Rows of each cached chunk that were not read yet."""
        self._threads = settings.current().threads + 2
        self._capacity = 0
        self._lock = threading.Lock()

    def read(self, start: int, stop: int) -> Block:
        """Return the elements of rows [start, stop)."""
        first, last = bisect.bisect_left(self._high, start), bisect.bisect_left(self._low, stop)
        self._capacity = max(self._capacity, self._threads * (last - first))
        # The last chunk first: another thread probably decodes the first one for the range before, so waiting for it
        # comes last.
        found = [self._read_chunk(at, start, stop) for at in reversed(range(first, last))]
        schema = self._scan.schema
        block = concat_blocks(found[::-1], schema.ndim, schema.dtype)
        if self._scan.view.is_identity:
            return block
        leading = block.coords[0].astype(schema.coordinate_dtype(0), copy=False)
        return Block((leading + leading.dtype.type(self._shift), *block.coords[1:]), block.values)

    def _read_chunk(self, at: int, start: int, stop: int) -> Block:
        """Return the elements of a chunk in rows [start, stop); cache the rest."""
        if start <= self._low[at] and self._high[at] < stop:
            return self._read(self._chunks[at])
        block = self._decode(at)
        block = block.take(range_slice(block.coords[0], start - self._shift, stop - self._shift))
        with self._lock:
            if at in self._cached:
                self._unread[at] -= self._num_rows(at, start, stop)
                if self._unread[at] <= 0:
                    del self._cached[at], self._unread[at]
        return block

    def _num_rows(self, at: int, start: int, stop: int) -> int:
        """Return the length of the overlap of a chunk and rows [start, stop)."""
        return min(self._high[at] + 1, stop) - max(self._low[at], start)

    def _decode(self, at: int) -> Block:
        with self._lock:
            once = self._cached.get(at)
            if once is None:
                once = self._cached[at] = Once(partial(self._read, self._chunks[at]))
                self._unread[at] = self._num_rows(at, *self._bounds)
                if len(self._cached) > self._capacity:
                    del self._unread[self._cached.popitem(last=False)[0]]
        return once()


class SortedCursor:
    """Cursor over rows [start, stop) of a scan, sorted in memory by the first read."""

    def __init__(self, scan: Scan, start: int, stop: int) -> None:
        self._bounds = (start, stop)
        self._block = Once(partial(read_range, scan, start, stop))

    def read(self, start: int, stop: int) -> Block:
        """Return the elements of rows [start, stop)."""
        block = self._block()
        return block if (start, stop) == self._bounds else block.take(range_slice(block.coords[0], start, stop))


class RepeatedCursor:
    """Cursor over rows of a scan that broadcasting repeats, read once."""

    def __init__(self, scan: Scan, start: int, stop: int) -> None:
        self._schema, self._kept = scan.schema, kept_axes(scan)
        self._block = Once(partial(scan_reader.read_block, without_repeats(scan), own=False))

    def read(self, start: int, stop: int) -> Block:
        """Return the elements of rows [start, stop)."""
        return repeat_block(self._block(), self._kept, self._schema, start, stop)


class KeptCursor:
    """Cursor over a scan whose lists repeat elements, which are read once."""

    def __init__(self, scan: Scan, start: int, stop: int) -> None:
        self._scan = Once(partial(_keep_listed, scan))

    def read(self, start: int, stop: int) -> Block:
        """Return the elements of rows [start, stop)."""
        return read_range(self._scan(), start, stop)


def _keep_listed(scan: Scan) -> Scan:
    """Return a scan of a relation in memory with all elements that it shows."""
    relation, view = scan.relation.relation, scan.view  # type: ignore[attr-defined]
    order = relation.orders[0]
    chunks = relation.chunks(view.box(), order)
    blocks = [scan_reader.clip_to_view(relation.read(chunk), view, order, chunk) for chunk in chunks]
    schema = relation.schema
    return Scan(MemoryRelation(schema, concat_blocks(blocks, schema.ndim, schema.dtype)), view, scan.schema)


class SpilledCursor:
    """Cursor over rows [start, stop) of a scan, sorted on disk by the first read."""

    def __init__(self, scan: Scan, start: int, stop: int) -> None:
        self._schema = scan.schema
        self._file = Once(partial(_spill_sorted, scan, start, stop))

    def read(self, start: int, stop: int) -> Block:
        """Return the elements of rows [start, stop)."""
        spilled, found = self._file(), []
        for at in range(bisect.bisect_left(spilled.high, start), bisect.bisect_left(spilled.low, stop)):
            if start <= spilled.low[at] and spilled.high[at] < stop:
                found.append(spilled.read(at))
            else:
                own = range_slice(spilled.column(at, 0), start, stop)
                found.append(spilled.read(at, own.start, own.stop))
        return concat_blocks(found, self._schema.ndim, self._schema.dtype)


def _spill_sorted(scan: Scan, start: int, stop: int) -> SpilledBlocks:
    """Write rows [start, stop) of a scan to a spill file, sorted by its axes."""
    part = scan.then(scan.view.then((slice(start, stop),)))
    kind = scan.schema.coordinate_dtype(0)
    spilled, nbytes = SpilledBlocks(SpillFile()), 0
    weakref.finalize(spilled, spilled.spool.close)
    for block in scan_reader.iter_sorted_blocks(part):
        if block.count:
            leading = block.coords[0].astype(kind, copy=False) + kind.type(start)
            spilled.append(Block((leading, *block.coords[1:]), block.values))
            nbytes += block.nbytes
    memory.trim()
    profile = active()
    if profile is not None:
        profile.operator(scan).record(spilled_bytes=nbytes, strategy="spilled_sort")
    return spilled


_CURSORS: dict[str, Callable[[Scan, int, int], Cursor]] = {
    "chunks": ChunkCursor,
    "kept": KeptCursor,
    "repeated": RepeatedCursor,
    "sorted": SortedCursor,
    "spilled_sort": SpilledCursor,
}
