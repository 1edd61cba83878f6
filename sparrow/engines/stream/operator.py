"""A relation that is computed when it is read: the result of a step, piece by piece.

What reads files and memory reads the result of a step the same way. Pieces are ranges of the leading dimension, small
enough that a few of them fit in memory, whatever the size of the operands; those of a function of one operand are the
chunks of that operand.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import Box, RangeAxis, View
from sparrow.engines.sort_orders import scan_order, sorted_order
from sparrow.engines.stream import scan_reader
from sparrow.kernels.coo import Block, concat_blocks
from sparrow.plan import Node, Scan
from sparrow.relations.base import ArrowSource, Chunk, ScanStats, arrow_table, base_orders
from sparrow.runtime import memory, settings
from sparrow.sorting import SpilledBlocks, SpillFile

__all__ = [
    "PhysicalOperator",
    "ReadRange",
    "fits_one_partition",
    "holding",
    "open_cursors",
    "partition_bounds",
    "pin",
    "range_slice",
    "read_range",
]

ReadRange: TypeAlias = Callable[[int, int], Block]

_PIECE_ROWS, _LEAST_ROWS = 1 << 18, 1 << 14
_COPIES = 16
"""How many times the entries of a piece are in memory: what threads read, sort and merge, and what is to be written."""
_PASS = 4
"""How much larger pieces are of a scan that is read whole for each of them."""
_ENTRY_BYTES = 32
"""About what an entry takes in memory, and some more."""
_SORT_COPIES = 8
"""Of the memory limit, one part for entries that are put in order."""
_READ_AGAIN = 8
"""How many times a scan is read whole in the time that it takes to put it in order on disk."""


@dataclass(frozen=True, slots=True)
class _Below:
    """A piece that is made of a chunk of the input."""

    order: tuple[int, ...]
    chunk: Chunk


@dataclass(frozen=True, slots=True)
class _Span:
    """A piece between two bounds along the leading dimension."""

    evaluate: ReadRange
    start: int
    stop: int


class _Opened:
    """Bounds between which all pieces share what begins them; it is begun when the first is asked for."""

    def __init__(self, first: int, last: int) -> None:
        self.first, self.last = first, last
        self.evaluate: ReadRange | None = None


class PhysicalOperator:
    """The entries of a step, a relation that is computed when it is read.

    Parameters
    ----------
    step
        What is computed.
    inputs
        The scans that it reads, of relations.
    cuts
        Returns the pieces: ascending bounds along the leading dimension, from 0 to its size.
    evaluate
        Returns the canonical entries between two bounds, at coordinates of the whole result.
    each
        What is done with a block of entries where there is one input and entries keep their coordinates: the pieces
        are then the chunks of the input, if it has them in order.
    axes
        The axes whose coordinates ``each`` looks at, all by default.
    begin
        Returns an ``evaluate`` for the pieces between two bounds, where what they share is worth keeping meanwhile.
    most
        Returns about how many entries lie between two bounds, where the inputs do not tell. It may read them.
    total
        Returns the sum of all entries in their type where it is had without them, else None.
    rowwise
        Whether what ``begin`` returns may be asked for entries row by row, with ``rowwise=True``.
    merged
        Returns all entries, of those of the inputs, of a step that gives no more than it takes in.
    fresh
        Whether what ``merged`` returns has memory of its own, in the types of the schema.
    """

    exact = False
    version = None
    label_keys: Mapping[int, Hashable] = {}

    def __init__(
        self,
        step: Node,
        inputs: Sequence[Scan],
        cuts: Callable[[], Sequence[int]],
        evaluate: ReadRange,
        each: Callable[[Block], Block] | None = None,
        axes: Sequence[int] | None = None,
        begin: Callable[[int, int], ReadRange] | None = None,
        most: Callable[[int, int], int] | None = None,
        total: Callable[[], Any] | None = None,
        rowwise: bool = False,
        merged: Callable[..., Block] | None = None,
        fresh: bool = False,
    ) -> None:
        self._rowwise = rowwise
        self._begin = begin
        self._most = most
        self._total = total
        self._merged = merged
        self.fresh = fresh
        self._each = each
        self._axes = axes
        self.schema = step.schema
        self.token: Hashable = step
        self._inputs = tuple(inputs)
        self._cuts = cuts
        self._bounds: Sequence[int] | None = None
        self._evaluate = evaluate
        self._count: int | None = None
        self._few: bool | None = None
        self._lock = threading.Lock()
        self._opened: list[weakref.ref[_Opened]] = []
        self._opening = threading.Lock()

    @property
    def orders(self) -> tuple[tuple[int, ...], ...]:
        """The base order only."""
        return base_orders(len(self.schema.shape))

    @property
    def children(self) -> tuple[Scan, ...]:
        """The scans that it reads."""
        return self._inputs

    @property
    def nnz(self) -> int:
        """The number of entries: computed once, and kept."""
        if self._count is None:
            everything = Scan(self, View.identity(self.schema.shape), self.schema)
            self._count = sum(scan_reader.map_blocks(everything, lambda block: block.count, axes=(), doing="counting"))
        return self._count

    def total(self) -> Any:
        """Return the sum of all entries in their type, None where it is not had without them."""
        return None if self._total is None else self._total()

    @property
    def nbytes(self) -> int:
        """Bytes that the entries take in arrays."""
        width = sum(self.schema.coordinate_dtype(dim).itemsize for dim in range(self.schema.ndim))
        return self.nnz * (width + self.schema.dtype.itemsize)

    def labels(self, dim: int) -> None:
        """Return None: what a step's labels are is said in its plan."""

    def chunks(self, box: Box, order: tuple[int, ...] | None = None) -> list[Chunk]:
        """Return the pieces that meet the box, cut to it along the leading dimension. Reads no data pages."""
        shape = self.schema.shape
        if any(len(r) == 0 for r in box.ranges):
            return []
        order = self._own_order()
        if order is not None:
            below = self._inputs[0].relation
            return [self._seen(chunk, order) for chunk in below.chunks(self._narrowed(box), order)]
        if not shape:
            return [Chunk(1, (), (), _Span(self._evaluate, 0, 1), False)]
        bounds = self._pieces()
        first, last = box.ranges[0][0], box.ranges[0][-1]
        low, high = (0,) * (len(shape) - 1), tuple(n - 1 for n in shape[1:])
        evaluate = self._evaluate if self._begin is None else self._begun(first, last + 1, self._begin)
        wanted = next((found for dim, found in box.members if dim == 0), None)
        out = []
        for start, stop in itertools.pairwise(bounds):
            start, stop = max(start, first), min(stop, last + 1)
            if wanted is not None:
                inside = wanted[range_slice(wanted, start, stop)]
                start, stop = (int(inside[0]), int(inside[-1]) + 1) if len(inside) else (0, 0)
            if start < stop:
                rows = _PIECE_ROWS if self._most is None else self._most(start, stop)
                out.append(Chunk(rows, (start, *low), (stop - 1, *high), _Span(evaluate, start, stop), False))
        return out

    def pin(self, box: Box) -> object:
        """Return what lets the pieces of a box share what begins them for as long as it is held, however cut."""
        if any(len(r) == 0 for r in box.ranges) or not self.schema.shape:
            return None
        if self._own_order() is not None:
            below = self._inputs[0].relation
            return below.pin(self._narrowed(box)) if isinstance(below, PhysicalOperator) else None
        found = _Opened(box.ranges[0][0], box.ranges[0][-1] + 1)
        with self._opening:
            self._opened = [each for each in self._opened if each() is not None] + [weakref.ref(found)]
        return found

    def _begun(self, first: int, last: int, begin: Callable[[int, int], ReadRange]) -> ReadRange:
        """Return what begins the pieces between two bounds: what wider ones that are open share, if there is that."""
        with self._opening:
            for each in self._opened:
                wider = each()
                if wider is not None and wider.first <= first and last <= wider.last:
                    if wider.evaluate is None:
                        wider.evaluate = begin(wider.first, wider.last)
                    return wider.evaluate
        return begin(first, last)

    @property
    def is_small(self) -> bool:
        """Whether it is one piece of few entries: then nothing is cut, counted or handed to threads on the way."""
        if self._few is None:
            self._few = all(map(scan_reader.is_small, self._inputs)) and (
                (self._merged is not None and fits_one_partition(self._inputs)) or len(self._pieces()) <= 2
            )
        return self._few

    def read_small(self) -> Block:
        """Compute the one piece."""
        if self._merged is not None:
            return self._merged(*[scan_reader.read_small(scan) for scan in self._inputs])
        return self._evaluate(0, self.schema.shape[0] if self.schema.shape else 1)

    def _pieces(self) -> Sequence[int]:
        """Return the bounds of the pieces."""
        if self._bounds is None:
            with self._lock:
                if self._bounds is None:
                    self._bounds = self._cuts() if self.schema.shape else (0, 1)
        return self._bounds

    def _own_order(self) -> tuple[int, ...] | None:
        """Return the order in which the chunks of the input are the pieces, if they are."""
        if self._each is None:
            return None
        order = sorted_order(self._inputs[0])
        return order if self._inputs[0].view.preserves_order(order) else None

    def _narrowed(self, box: Box) -> Box:
        """Return the box of the input's base that a box of the result shows."""
        key: list[Any] = [slice(r.start, r.stop, r.step) for r in box.ranges]
        for dim, wanted in box.members:
            key[dim] = wanted
        return self._inputs[0].view.then(tuple(key), "orthogonal").box()

    def split_runs(self, box: Box, order: tuple[int, ...] | None = None) -> tuple[list[Chunk], list[Chunk]]:
        """Return the pieces where they are the chunks of the input: those that it has in order, and beside."""
        order = self._own_order()
        if order is None or any(len(r) == 0 for r in box.ranges):
            return self.chunks(box), []
        first, beside = scan_reader.split_runs(self._inputs[0].relation, self._narrowed(box), order)
        return [self._seen(chunk, order) for chunk in first], [self._seen(chunk, order) for chunk in beside]

    def _seen(self, chunk: Chunk, order: tuple[int, ...]) -> Chunk:
        """Return a chunk of the input as one of the result: bounds at the coordinates of the view."""
        low, high = [], []
        for axis in self._inputs[0].view.axes:
            if isinstance(axis, RangeAxis):
                low.append(max(-((axis.start - chunk.low[axis.dim]) // axis.step), 0))
                high.append(min((chunk.high[axis.dim] - axis.start) // axis.step, axis.length - 1))
            else:
                low.append(0)
                high.append(0)
        return Chunk(chunk.rows, tuple(low), tuple(high), _Below(order, chunk), False)

    def read(self, chunk: Chunk, dims: Sequence[int] | None = None) -> Block:
        """Compute a piece."""
        ref = chunk.ref
        if isinstance(ref, _Span):
            return ref.evaluate(ref.start, ref.stop)
        assert self._each is not None
        axes = None if dims is None or self._axes is None else (*dims, *self._axes)
        return self._each(scan_reader.reader(self._inputs[0], ref.order, axes)(ref.chunk))

    def read_rows(self, chunk: Chunk) -> Block:
        """Compute a piece, row by row where that spares the coordinates of rows."""
        ref = chunk.ref
        if self._rowwise and self.schema.shape and isinstance(ref, _Span):
            rows: Block = ref.evaluate(ref.start, ref.stop, rowwise=True)  # type: ignore[call-arg]
            return rows
        return self.read(chunk)

    def span(self, chunk: Chunk) -> tuple[int, int] | None:
        """Return the bounds along the leading dimension that a chunk is computed for; None of a chunk of the input."""
        return (chunk.ref.start, chunk.ref.stop) if isinstance(chunk.ref, _Span) else None

    def stats(self, box: Box, order: tuple[int, ...] | None = None) -> ScanStats:
        """Return what computing it reads of its inputs, all of them where they are several."""
        own = self._own_order()
        if own is not None and all(len(r) for r in box.ranges):
            return self._inputs[0].relation.stats(self._narrowed(box), own)
        found = (scan.relation.stats(scan.view.box(), scan_order(scan)) for scan in self._inputs)
        sums = functools.reduce(ScanStats.plus, found, ScanStats(0, 0, 0, 0, 0, 0, 0.0))
        leading = box.ranges[0] if box.ranges else range(1)
        if self._most is None or not len(leading):
            return sums
        rows = self._most(leading[0], leading[-1] + 1)
        return replace(sums, rows=rows, inside=float(rows))

    def source(self, box: Box, order: tuple[int, ...] | None = None) -> ArrowSource:
        """Compute the entries of the box and return them as an Arrow table.

        Raises
        ------
        TooLargeError
            If they would pass the memory limit.
        """
        blocks = []
        what = f"the entries of an expression of shape {self.schema.shape}"
        with memory.reserve(0, what, "save(path) it and query the stored tensor") as room:
            for chunk in self.chunks(box, order):
                block = self.read(chunk)
                room.grow(block.nbytes)
                blocks.append(block)
        return ArrowSource(arrow_table(self.schema, concat_blocks(blocks, self.schema.ndim, self.schema.dtype)))


def partition_bounds(scans: Sequence[Scan], size: int, rows: int | None = None, more: float = 1) -> list[int]:
    """Return bounds along the leading axis, of ``size`` cells, between which the scans have entries for one piece.

    Bounds come from the chunks of scans whose leading axis walks the leading dimension of an order; where there is
    none such the axis is cut evenly. Reads footers, no data pages.

    Parameters
    ----------
    rows
        About how many entries a piece has.
    more
        How many come of each that the scans show.
    """
    rows = max(int((_rows_of(scans) if rows is None else rows) / more), 1)
    if fits_one_partition(scans, rows):
        return [0, size] if size else [0]
    steps: list[tuple[int, int]] = []
    for scan in scans:
        axis = scan.view.axes[0]
        order = scan_order(scan)
        chunks = scan.relation.chunks(scan.view.box(), order)
        repeats = max(scan.view.repeats, 1)
        total = repeats * sum(chunk.rows for chunk in chunks)
        fixed = {dim for dim, _ in scan.view.fixed}
        if isinstance(axis, RangeAxis) and next(dim for dim in order if dim not in fixed) == axis.dim:
            for chunk in chunks:
                low, high = ((end[axis.dim] - axis.start) // axis.step for end in (chunk.low, chunk.high))
                low, high = min(max(min(low, high), 0), size), min(max(low, high) + 1, size)
                count = -(-repeats * chunk.rows // rows) if repeats > 1 else 1
                steps.extend(
                    (low + (high - low) * (k + 1) // count, repeats * chunk.rows // count) for k in range(count)
                )
        else:
            rows_each = rows if _keeping(scan) else _PASS * rows
            count = -(-total // rows_each)
            steps.extend((size * (k + 1) // count, rows_each) for k in range(count))
    bounds, gathered = [0], 0
    least = rows - rows // 8  # a row group may be so much smaller, to end where a row does
    for at, count in sorted(steps):
        gathered += count
        if gathered >= least and bounds[-1] < at < size:
            bounds.append(at)
            gathered = 0
    return [*bounds, size] if size else [0]


def _rows_of(scans: Sequence[Scan]) -> int:
    """Return about how many entries a piece has: fewer than elsewhere where there is little memory to work in."""
    width = _COPIES * max(scan.schema.element_bytes() for scan in scans)
    return min(_PIECE_ROWS, max(memory.working_bytes() // width, _LEAST_ROWS))


def fits_one_partition(scans: Sequence[Scan], rows: int | None = None) -> bool:
    """Return whether scans are known to have no more entries than one piece may: looks at counts, at no footers."""
    count = 0
    for scan in scans:
        relation, repeats = scan.relation, scan.view.repeats
        if not relation.exact:
            return False
        count += relation.nnz * (repeats or 1)
    return count < (_PIECE_ROWS if rows is None else rows)


def read_range(scan: Scan, start: int, stop: int) -> Block:
    """Return the canonical entries of a scan whose leading coordinate lies between two bounds, where they stand."""
    relation, schema = scan.relation, scan.schema
    shape = schema.shape
    if not shape:
        return scan_reader.read_block(scan)
    block = scan_reader.read_small(scan) if start == 0 and stop == shape[0] else None
    if block is not None:
        return block
    part = scan.then(scan.view.then((slice(start, stop),)))
    view = part.view
    order = sorted_order(part)
    chunks = relation.chunks(view.box(), order) if view.size and view.preserves_order(order) else None
    shown = max(view.repeats, 1) * sum(chunk.rows for chunk in chunks or ())
    if chunks is None or shown * _ENTRY_BYTES > memory.limit():
        block = scan_reader.read_block(part)
    elif scan.view.is_identity and order[0] == 0:
        found = [_between(relation.read(chunk), chunk, start, stop) for chunk in chunks]
        return concat_blocks(found, schema.ndim, schema.dtype)
    else:
        block = concat_blocks(list(map(scan_reader.reader(part, order), chunks)), schema.ndim, schema.dtype)
    leading = block.coords[0].astype(schema.coordinate_dtype(0), copy=False)
    moved = leading + np.asarray(start, dtype=leading.dtype) if start else leading
    return Block((moved, *block.coords[1:]), block.values)


def _between(block: Block, chunk: Chunk, start: int, stop: int) -> Block:
    """Return the entries of a chunk, sorted by its first dimension, that lie between two bounds along it."""
    if start <= chunk.low[0] and chunk.high[0] < stop:
        return block
    return block.take(range_slice(block.coords[0], start, stop))


def range_slice(column: NDArray[Any], start: int, stop: int) -> slice:
    """Return where an ascending column lies between two bounds."""
    if not len(column):
        return slice(0, 0)  # of any type: a bound need not fit
    kind = column.dtype.type  # a Python integer would cast the whole column
    first, last = np.searchsorted(column, kind(start), "left"), np.searchsorted(column, kind(stop - 1), "right")
    return slice(int(first), int(last))


def open_cursors(scans: Sequence[Scan], start: int, stop: int) -> list[ReadRange]:
    """Return :func:`read_range` for each scan, for pieces that lie between two bounds.

    A chunk that lies in several pieces is read once. A scan whose entries do not come in the order of its axes is put
    in order once for all pieces, in memory or on disk, but for one in between that is read whole for a few of them.
    """
    return [_pieces_of(scan, start, stop) for scan in scans]


def _pieces_of(scan: Scan, start: int, stop: int) -> ReadRange:
    kept = _keeping(scan)
    if kept is not None:
        return kept(scan, start, stop).piece
    return holding(pin(scan, (slice(start, stop),) if scan.view.ndim else ()), partial(read_range, scan))


def pin(scan: Scan, key: tuple[slice, ...]) -> object:
    """Return what lets the pieces of a part of a scan share what begins them, for as long as it is held."""
    return scan.relation.pin(scan.view.then(key).box()) if isinstance(scan.relation, PhysicalOperator) else None


def holding(what: object, evaluate: ReadRange) -> ReadRange:
    """Return ``evaluate``; what pieces share is held for as long as that is."""
    return partial(_evaluated, what, evaluate)


def _evaluated(what: object, evaluate: ReadRange, start: int, stop: int) -> Block:
    return evaluate(start, stop)


def _keeping(scan: Scan) -> type[_Whole | _Sorted | _PutAside] | None:
    """Return what keeps the entries of a scan for several pieces, None where they are read for each of them."""
    view = scan.view
    if view.ndim and scan_reader.is_small(scan):
        return _Sorted
    if not view.ndim or not view.size or view.repeats > _PASS:
        return None
    order = sorted_order(scan)
    if view.preserves_order(order):
        return _Whole if view.is_identity else None
    rows = max(view.repeats, 1) * scan.relation.stats(view.box(), order).rows
    if 0 < rows * _ENTRY_BYTES <= memory.limit() // _SORT_COPIES:
        return _Sorted
    return _PutAside if rows > _READ_AGAIN * _PIECE_ROWS else None


class _Whole:
    """The entries of a relation shown as it is, in pieces.

    A chunk with parts in several pieces is kept until all of it was given; of those that are not, the last ones read.
    """

    def __init__(self, scan: Scan, start: int, stop: int) -> None:
        box = scan.view.then((slice(start, stop),)).box()
        self._scan, self._bounds = scan, (start, stop)
        self._chunks = scan.relation.chunks(box)
        self._low = [chunk.low[0] for chunk in self._chunks]
        self._high = [chunk.high[0] for chunk in self._chunks]
        self._kept: OrderedDict[int, Future[Block]] = OrderedDict()
        self._left: dict[int, int] = {}
        """Of each chunk that is kept, the leading coordinates that were not asked for."""
        self._ahead = settings.current().threads + 2
        self._room = 0
        self._lock = threading.Lock()

    def piece(self, start: int, stop: int) -> Block:
        """Return the entries between two bounds."""
        first, last = bisect.bisect_left(self._high, start), bisect.bisect_left(self._low, stop)
        self._room = max(self._room, self._ahead * (last - first))
        # The last one first: the first is mostly on its way for the piece before, and waiting for it can wait.
        found = [self._between(at, start, stop) for at in reversed(range(first, last))]
        return concat_blocks(found[::-1], self._scan.schema.ndim, self._scan.schema.dtype)

    def _between(self, at: int, start: int, stop: int) -> Block:
        """Return the entries of a chunk that lie between two bounds; it is kept if others have a part in it."""
        chunk = self._chunks[at]
        if start <= chunk.low[0] and chunk.high[0] < stop:
            return self._scan.relation.read(chunk)
        block = _between(self._read(at), chunk, start, stop)
        with self._lock:
            if at in self._kept:
                self._left[at] -= self._length(at, start, stop)
                if self._left[at] <= 0:
                    del self._kept[at], self._left[at]
        return block

    def _length(self, at: int, start: int, stop: int) -> int:
        """Return how many leading coordinates a chunk has between two bounds."""
        return min(self._high[at] + 1, stop) - max(self._low[at], start)

    def _read(self, at: int) -> Block:
        with self._lock:
            future = self._kept.get(at)
            mine = future is None
            if future is None:
                future = self._kept[at] = Future()
                self._left[at] = self._length(at, *self._bounds)
                if len(self._kept) > self._room:
                    del self._left[self._kept.popitem(last=False)[0]]
        if mine:
            try:
                future.set_result(self._scan.relation.read(self._chunks[at]))
            except BaseException as error:
                future.set_exception(error)
                raise
        return future.result()


class _Sorted:
    """The entries of a scan between two bounds along its leading axis, put in order when first asked for."""

    def __init__(self, scan: Scan, start: int, stop: int) -> None:
        self._scan, self._bounds = scan, (start, stop)
        self._block: Block | None = None
        self._lock = threading.Lock()

    def piece(self, start: int, stop: int) -> Block:
        """Return the entries between two bounds."""
        with self._lock:
            if self._block is None:
                self._block = read_range(self._scan, *self._bounds)
        if (start, stop) == self._bounds:
            return self._block
        return self._block.take(range_slice(self._block.coords[0], start, stop))


class _PutAside:
    """The entries of a scan between two bounds along its leading axis, put in order on disk when first asked for."""

    def __init__(self, scan: Scan, start: int, stop: int) -> None:
        self._scan, self._bounds = scan, (start, stop)
        self._aside: SpilledBlocks | None = None
        self._lock = threading.Lock()

    def piece(self, start: int, stop: int) -> Block:
        """Return the entries between two bounds."""
        with self._lock:
            if self._aside is None:
                self._aside = self._sorted()
        aside, schema = self._aside, self._scan.schema
        found = []
        for at in range(bisect.bisect_left(aside.high, start), bisect.bisect_left(aside.low, stop)):
            if start <= aside.low[at] and aside.high[at] < stop:
                found.append(aside.read(at))
            else:
                own = range_slice(aside.column(at, 0), start, stop)
                found.append(aside.read(at, own.start, own.stop))
        return concat_blocks(found, schema.ndim, schema.dtype)

    def _sorted(self) -> SpilledBlocks:
        start, stop = self._bounds
        part = self._scan.then(self._scan.view.then((slice(start, stop),)))
        kind = self._scan.schema.coordinate_dtype(0)
        aside = SpilledBlocks(SpillFile())
        weakref.finalize(self, aside.spool.close)
        for block in scan_reader.iter_sorted_blocks(part):
            if block.count:
                leading = block.coords[0].astype(kind, copy=False) + kind.type(start)
                aside.append(Block((leading, *block.coords[1:]), block.values))
        memory.trim()
        return aside
