"""Physical operators on a device, evaluated tile by tile.

A tile is a range of the leading dimension. Nested operators keep it on the device; inputs from files, memory and
operators with another order are decoded by the stream engine and copied in. A tile that does not fit the device is
halved and tried again.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from sparrow.engines.cupy.coo import DeviceCOO, to_device, to_host
from sparrow.engines.cupy.device import Device, tile_rows
from sparrow.engines.stream.cache import Cache, CachedRelation, cache_bytes
from sparrow.engines.stream.capabilities import Cursor
from sparrow.engines.stream.cursors import open_cursor
from sparrow.engines.stream.operator import PhysicalOperator
from sparrow.engines.stream.partitioning import partition_bounds
from sparrow.errors import TooLargeError
from sparrow.kernels.coo import Block, concat_blocks
from sparrow.plan import Node, Scan
from sparrow.relations.protocol import Relation
from sparrow.runtime import settings
from sparrow.runtime.thread_pool import ordered_map

__all__ = ["Builder", "Tile", "TiledOp", "is_tiled", "lower", "map_halving", "map_tiles", "read_all"]

T = TypeVar("T")

Builder: TypeAlias = "Callable[[Device, Any, list[Scan]], PhysicalOperator]"
"""Makes the operator of a node, given the device, the node and its scans of relations."""


class _Readers:
    """Cursors over scans between two bounds, opened on first use."""

    def __init__(self, first: int, last: int) -> None:
        self._bounds = first, last
        self._made: dict[Hashable, Cursor] = {}
        self._lock = threading.Lock()

    def read(self, scan: Scan, start: int, stop: int) -> Block:
        """Return the elements of a scan in rows [start, stop)."""
        key = scan.source.token, scan.view
        with self._lock:
            if key not in self._made:
                self._made[key] = open_cursor(scan, *self._bounds)
            cursor = self._made[key]
        return cursor.read(start, stop)


class Tile:
    """A range of the leading dimension, with the elements of all nested operators."""

    def __init__(self, device: Device, readers: _Readers, start: int, stop: int) -> None:
        self.device, self.start, self.stop = device, start, stop
        self._readers = readers
        self._found: dict[Hashable, DeviceCOO] = {}

    def elements(self, scan: Scan) -> DeviceCOO:
        """Return the elements of a scan, computed or read once."""
        key = scan.source.token, scan.view
        if key not in self._found:
            inner = _tiled_op(scan)
            if inner is None:
                block = self._readers.read(scan, self.start, self.stop)
                self._found[key] = to_device(self.device, block, scan.schema.shape)
            else:
                self._found[key] = inner.compute_tile(self)
        return self._found[key]


class TiledOp(PhysicalOperator):
    """Operator whose tiles are computed from equal tiles of its inputs.

    Parameters
    ----------
    device
        Device that computes.
    step
        Node that is computed.
    scans
        Inputs read by tiles, of relations.
    compute
        Returns the elements of a tile, on the device.
    weight
        Work and memory per input element, relative to one element.
    """

    def __init__(
        self,
        device: Device,
        step: Node,
        scans: Sequence[Scan],
        compute: Callable[[Tile], DeviceCOO],
        weight: float = 1.0,
    ) -> None:
        self.device, self.compute_tile = device, compute
        below = [(_tiled_op(scan), scan) for scan in scans]
        self.weight: float = max([weight, *(inner.weight for inner, _ in below if inner is not None)])
        found = (inner.children if inner is not None else (scan,) for inner, scan in below)
        read = {(scan.source.token, scan.view): scan for scan in itertools.chain.from_iterable(found)}
        super().__init__(step, tuple(read.values()))

    def partitions(self) -> list[int]:
        """Return the bounds of tiles."""
        shape = self.schema.shape
        return _bounds(self.device, self.children, shape[0] if shape else 1, self.weight)

    def open(self, start: int, stop: int) -> Cursor:
        """Open a cursor that computes tiles on the device."""
        return _TileCursor(self, start, stop)


class _TileCursor:
    """Cursor over the tiles of an operator."""

    def __init__(self, operator: TiledOp, start: int, stop: int) -> None:
        self._operator, self._readers = operator, _Readers(start, stop)

    def read(self, start: int, stop: int) -> Block:
        """Return the elements of rows [start, stop)."""
        operator = self._operator
        schema = operator.schema
        what = f"a result of shape {schema.shape}"
        return concat_blocks(map_halving(operator.device, self._read, start, stop, what), schema.ndim, schema.dtype)

    def _read(self, start: int, stop: int) -> Block:
        operator = self._operator
        found = operator.compute_tile(Tile(operator.device, self._readers, start, stop))
        return to_host(operator.device, found, operator.schema)


def _tiled_op(scan: Scan) -> TiledOp | None:
    """Return the operator whose tiles are those of a scan, None if the scan is read."""
    return scan.source if isinstance(scan.source, TiledOp) and scan.view.is_identity else None


def is_tiled(scan: Scan) -> bool:
    """Return whether the tiles of a scan are computed on the device."""
    return _tiled_op(scan) is not None


def _bounds(device: Device, scans: Sequence[Scan], size: int, weight: float = 1.0) -> list[int]:
    """Return the bounds of tiles along the leading dimension."""
    if any(not scan.schema.ndim for scan in scans):
        return [0, size] if size else [0]
    return partition_bounds(scans, size, max(int(tile_rows(device) / weight), 1))


def map_tiles(device: Device, scan: Scan, work: Callable[[DeviceCOO], T], what: str) -> Iterator[T]:
    """Yield ``work`` of the elements of each tile, in order, on threads.

    Parameters
    ----------
    work
        Called with the elements of a tile on the device, on one of the threads.
    what
        Description for errors.

    Raises
    ------
    TooLargeError
        If one row does not fit the device.
    """
    if scan.view.size == 0:
        return
    size = scan.schema.shape[0] if scan.schema.ndim else 1
    inner = _tiled_op(scan)
    bounds = _bounds(device, *((inner.children, size, inner.weight) if inner is not None else ([scan], size)))
    readers = _Readers(0, size)

    def one(start: int, stop: int) -> T:
        return work(Tile(device, readers, start, stop).elements(scan))

    def in_halves(pair: tuple[int, int]) -> list[T]:
        return map_halving(device, one, *pair, what)

    for found in ordered_map(in_halves, itertools.pairwise(bounds), settings.current().threads):
        yield from found


def read_all(device: Device, scan: Scan, what: str) -> DeviceCOO:
    """Return all elements of a scan on the device; ``what`` describes them in errors."""
    parts = [elements for elements in map_tiles(device, scan, lambda elements: elements, what) if elements.count]
    if not parts:
        return DeviceCOO(device.xp.zeros(0, np.int64), device.xp.zeros(0, scan.schema.dtype))
    keys = device.xp.concatenate([elements.keys for elements in parts])
    return DeviceCOO(keys, device.xp.concatenate([elements.values for elements in parts]))


def map_halving(device: Device, work: Callable[[int, int], T], start: int, stop: int, what: str) -> list[T]:
    """Return ``work`` of a range, halved until it fits the device."""
    found: list[T] = []
    waiting = [(start, stop)]
    while waiting:
        first, last = waiting.pop()
        try:
            with device.here():
                found.append(work(first, last))
            continue
        except TooLargeError:
            raise
        except (MemoryError, RuntimeError) as error:
            if not device.is_exhausted(error):
                raise
            if last - first < 2:
                raise TooLargeError(
                    f"{what}: the device has {device.room()} bytes of memory free, too few for one row along the "
                    "leading dimension: use engine='stream', or free memory of the device"
                ) from error
        device.release()  # not before: the error references the arrays
        middle = (first + last) // 2
        waiting += [(middle, last), (first, middle)]
    return found


def lower(device: Device, builders: dict[type[Any], Builder], scans: Sequence[Scan], steps: list[Node]) -> list[Scan]:
    """Return scans of operators that compute a plan on the device when they are read.

    Parameters
    ----------
    builders
        Builders by node type.
    scans
        Roots of the plan.
    steps
        All nodes below, in topological order.
    """
    uses = Counter(scan.source for step in steps for scan in step.scans if isinstance(scan.source, Node))
    cache = Cache(cache_bytes())
    made: dict[Node, PhysicalOperator] = {}
    shared: dict[Node, Relation] = {}

    def replace_source(scan: Scan) -> Scan:
        source: Any = scan.source
        if not isinstance(source, Node):
            return scan
        found = made[source] if scan.view.is_identity and isinstance(made[source], TiledOp) else shared[source]
        return Scan(found, scan.view, scan.schema)

    for step in steps:
        computed = made[step] = builders[type(step)](device, step, [replace_source(scan) for scan in step.scans])
        shared[step] = CachedRelation(computed, cache) if uses[step] > 1 else computed
    return [replace_source(scan) for scan in scans]
