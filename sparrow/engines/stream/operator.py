"""Physical operators: relations computed on read, partition by partition.

A partition is a range of the leading dimension, small enough that a few of them fit in memory whatever the size of the
inputs. The operators of each kind of node live beside their subject: ``elementwise``, ``structural``, ``reductions``,
``batched`` and ``product``.
"""

from __future__ import annotations

import functools
import itertools
import threading
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from sparrow.core.indexing import Box, View
from sparrow.engines.profile import Profile, active
from sparrow.engines.sort_orders import scan_order
from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.capabilities import CountPushdown, CSRChunks, Cursor, RowOutput, SmallEvaluation
from sparrow.engines.stream.partitioning import fits_one_partition, range_slice
from sparrow.engines.stream.tuning import tuning
from sparrow.kernels.coo import Block, concat_blocks
from sparrow.plan import Node, Scan
from sparrow.relations.arrow import arrow_table
from sparrow.relations.protocol import ArrowSource, Chunk, ScanStats, base_orders
from sparrow.runtime import memory
from sparrow.runtime.events import emit

__all__ = ["PhysicalOperator", "RangeRef"]


@dataclass(frozen=True, slots=True)
class RangeRef:
    """Reference of a chunk that is a range of rows, read by a cursor."""

    cursor: Cursor | None
    """None to open one when the chunk is read."""
    start: int
    stop: int


class _Pin:
    """A range of rows whose partitions share a cursor, opened by the first read."""

    def __init__(self, first: int, last: int) -> None:
        self.first, self.last = first, last
        self.cursor: Cursor | None = None


class PhysicalOperator(CSRChunks):
    """A relation whose elements are computed when they are read.

    Subclasses implement ``partitions`` and ``open``, or ``chunks`` and ``compute`` if chunks are no ranges of rows.
    Those with an optional capability also inherit from a class of :mod:`sparrow.engines.stream.capabilities`.

    Parameters
    ----------
    node
        Node of the plan that the operator computes.
    children
        Scans of the relations that it reads.
    """

    has_exact_counts = False
    version = None
    label_keys: Mapping[int, Hashable] = {}

    def __init__(self, node: Node, children: Sequence[Scan]) -> None:
        self.node = node
        self.token: Hashable = node
        self.schema = node.schema
        self.children = tuple(children)
        self._bounds: Sequence[int] | None = None
        self._nnz: int | None = None
        self._is_small: bool | None = None
        self._input_stats: ScanStats | None = None
        self._lock = threading.Lock()  # a Once of a method of this object would be a reference cycle
        self._pins: list[weakref.ref[_Pin]] = []
        self._pinning = threading.Lock()

    def partitions(self) -> Sequence[int]:
        """Return ascending bounds of partitions, from 0 to the number of rows."""
        raise NotImplementedError

    def open(self, start: int, stop: int) -> Cursor:
        """Open a cursor over rows [start, stop) that shares state between partitions."""
        raise NotImplementedError

    def max_rows(self, start: int, stop: int) -> int | None:
        """Return an upper bound on the nnz of rows [start, stop). May do I/O.

        None if the inputs have the best estimate.
        """
        return None

    def strategy(self) -> str | None:
        """Return the strategy of the last read, None if there is only one."""
        return None

    @property
    def bounds(self) -> Sequence[int]:
        """The bounds of ``partitions``, computed once."""
        if self._bounds is None:
            with self._lock:
                if self._bounds is None:
                    self._bounds = self.partitions() if self.schema.shape else (0, 1)
        return self._bounds

    def set_partitions(self, bounds: Sequence[int]) -> None:
        """Compute the partitions that another process chose for the same plan."""
        self._bounds = bounds

    # -- Relation ------------------------------------------------------------------------------------

    @property
    def orders(self) -> tuple[tuple[int, ...], ...]:
        """The base order only."""
        return base_orders(len(self.schema.shape))

    @property
    def nnz(self) -> int:
        """The number of stored elements, computed once."""
        if self._nnz is None and isinstance(self, CountPushdown):
            self._nnz = self.count()
        if self._nnz is None:
            scan = Scan(self, View.identity(self.schema.shape), self.schema)
            counts = scan_reader.map_blocks(scan, lambda block: block.count, axes=(), doing="counting")
            self._nnz = sum(counts)
        return self._nnz

    @property
    def nbytes(self) -> int:
        """Bytes of the elements in arrays."""
        width = sum(self.schema.coordinate_dtype(dim).itemsize for dim in range(self.schema.ndim))
        return self.nnz * (width + self.schema.dtype.itemsize)

    def labels(self, dim: int) -> None:
        """Return None: the plan knows the labels of a node."""

    @property
    def is_small(self) -> bool:
        """True if all of it is one partition of small inputs, evaluated at once."""
        if self._is_small is None:
            self._is_small = all(map(scan_reader.is_small, self.children)) and (
                (isinstance(self, SmallEvaluation) and fits_one_partition(self.children)) or len(self.bounds) <= 2
            )
        return self._is_small

    def read_small(self) -> Block | None:
        """Return all elements if ``is_small``, else None."""
        if not self.is_small:
            return None
        emit("stream.evaluate", operator=self)
        profile = active()
        return self.compute_small() if profile is None else self._record_profile(profile, "small", self.compute_small)

    def compute_small(self) -> Block:
        """Return all elements, those of the inputs being small."""
        if isinstance(self, SmallEvaluation):
            return self.evaluate(*[scan_reader.read_small(scan) for scan in self.children])  # type: ignore[arg-type]
        size = self.schema.shape[0] if self.schema.shape else 1
        return self.open(0, size).read(0, size)

    def chunks(self, box: Box, order: tuple[int, ...] | None = None) -> list[Chunk]:
        """Return the partitions that meet a box, clipped to its rows.

        Reads no data pages.
        """
        shape = self.schema.shape
        if any(len(r) == 0 for r in box.ranges):
            return []
        if not shape:
            return [Chunk(1, (), (), RangeRef(None, 0, 1), False)]
        bounds = self.bounds
        first, last = box.ranges[0][0], box.ranges[0][-1]
        low, high = (0,) * (len(shape) - 1), tuple(n - 1 for n in shape[1:])
        cursor = self.open_shared(first, last + 1)
        members = next((found for dim, found in box.members if dim == 0), None)
        out = []
        for start, stop in itertools.pairwise(bounds):
            start, stop = max(start, first), min(stop, last + 1)
            if members is not None:
                inside = members[range_slice(members, start, stop)]
                start, stop = (int(inside[0]), int(inside[-1]) + 1) if len(inside) else (0, 0)
            if start < stop:
                rows = self.max_rows(start, stop)
                rows = tuning().partition_rows if rows is None else rows
                out.append(Chunk(rows, (start, *low), (stop - 1, *high), RangeRef(cursor, start, stop), False))
        return out

    def read(self, chunk: Chunk, dims: Sequence[int] | None = None) -> Block:
        """Compute a chunk."""
        emit("stream.read", operator=self, chunk=chunk)
        profile = active()
        if profile is None:
            return self.compute(chunk, dims)
        return self._record_profile(profile, "partitioned", lambda: self.compute(chunk, dims))

    def compute(self, chunk: Chunk, dims: Sequence[int] | None) -> Block:
        """Return the elements of a chunk."""
        ref: RangeRef = chunk.ref
        cursor = self.open(ref.start, ref.stop) if ref.cursor is None else ref.cursor
        return cursor.read(ref.start, ref.stop)

    def read_csr(self, chunk: Chunk) -> Block:
        """Compute a chunk, in CSR form if its cursor offers that."""
        ref = chunk.ref
        cursor = ref.cursor if isinstance(ref, RangeRef) else None
        if not isinstance(cursor, RowOutput):
            return self.read(chunk)
        emit("stream.read", operator=self, chunk=chunk)
        profile = active()
        if profile is None:
            return cursor.read_csr(ref.start, ref.stop)
        return self._record_profile(profile, "partitioned", lambda: cursor.read_csr(ref.start, ref.stop))

    def _record_profile(self, profile: Profile, strategy: str, compute: Callable[[], Block]) -> Block:
        counters = profile.operator(self.node)
        with counters.measure():
            block = compute()
        counters.record(rows=block.count, bytes=block.nbytes, partitions=1, strategy=self.strategy() or strategy)
        return block

    def partition_range(self, chunk: Chunk) -> tuple[int, int] | None:
        """Return the rows [start, stop) of a chunk, None if it is no range of rows."""
        return (chunk.ref.start, chunk.ref.stop) if isinstance(chunk.ref, RangeRef) else None

    def stats(self, box: Box, order: tuple[int, ...] | None = None) -> ScanStats:
        """Return the statistics of the scans of all inputs."""
        if self._input_stats is None:
            found = (scan.relation.stats(scan.view.box(), scan_order(scan)) for scan in self.children)
            self._input_stats = functools.reduce(ScanStats.plus, found, ScanStats(0, 0, 0, 0, 0, 0, 0.0))
        sums = self._input_stats
        leading = box.ranges[0] if box.ranges else range(1)
        rows = self.max_rows(leading[0], leading[-1] + 1) if len(leading) else None
        return sums if rows is None else replace(sums, rows=rows, inside=float(rows))

    def source(self, box: Box, order: tuple[int, ...] | None = None) -> ArrowSource:
        """Compute the elements of a box and return them as an Arrow table.

        Raises
        ------
        TooLargeError
            If they would exceed the memory limit.
        """
        blocks = []
        what = f"the elements of an expression of shape {self.schema.shape}"
        with memory.reserve(0, what, "save(path) it and query the stored tensor") as room:
            for chunk in self.chunks(box, order):
                block = self.read(chunk)
                room.grow(block.nbytes)
                blocks.append(block)
        return ArrowSource(arrow_table(self.schema, concat_blocks(blocks, self.schema.ndim, self.schema.dtype)))

    # -- Cursors that several readers share ----------------------------------------------------------

    def pin(self, box: Box) -> object:
        """Return an object that lets readers of a box share one cursor.

        They do so for as long as the object is referenced.
        """
        if any(len(r) == 0 for r in box.ranges) or not self.schema.shape:
            return None
        found = _Pin(box.ranges[0][0], box.ranges[0][-1] + 1)
        with self._pinning:
            self._pins = [each for each in self._pins if each() is not None] + [weakref.ref(found)]
        return found

    def open_shared(self, start: int, stop: int) -> Cursor:
        """Open a cursor over rows [start, stop), or return a pinned one."""
        with self._pinning:
            for each in self._pins:
                pin = each()
                if pin is not None and pin.first <= start and stop <= pin.last:
                    if pin.cursor is None:
                        pin.cursor = self.open(pin.first, pin.last)
                    return pin.cursor
        return self.open(start, stop)
