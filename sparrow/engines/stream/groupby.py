"""Grouped aggregation of elements by the axes that a reduction keeps.

Three strategies, chosen per scan: *adjacent groups*, if the kept axes lead a sort order, so that only one group is open
at a time; *dense groups*, in accumulators that fit memory; *sorted groups*, sorted by the kept axes, on disk if
necessary. A result that does not fit is computed in partitions of its leading axis. Sums are added in the order of
chunks, or of a fixed number of lanes of chunks, so bits do not depend on the number of threads.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.core.bisection import bisect_sorted
from sparrow.core.indexing import NewAxis, RangeAxis, View
from sparrow.engines.sort_orders import scan_order
from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.cursors import pin
from sparrow.engines.stream.partitioning import partition_bounds
from sparrow.engines.stream.tuning import tuning
from sparrow.kernels.coo import Block, flat_positions
from sparrow.kernels.folds import ExtremumFold, Fold, State, UfuncFold
from sparrow.kernels.runs import group_starts, run_lengths
from sparrow.plan import Node, Scan
from sparrow.relations.protocol import Chunk
from sparrow.runtime import memory, progress, settings
from sparrow.runtime.thread_pool import ordered_map

__all__ = [
    "DenseState", "GroupBy", "GroupState", "adds_rows_alone", "first_extreme", "is_in_flat_order", "lane_bounds",
    "num_lanes",
]  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class GroupState:
    """Groups in ascending order: coordinates, element counts, states of folds."""

    coords: tuple[NDArray[Any], ...]
    counts: NDArray[np.int64] | None
    """None unless counts are wanted."""
    states: tuple[State, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        arrays = [*self.coords, *(array for state in self.states for array in state)]
        return sum(a.nbytes for a in arrays) + (0 if self.counts is None else self.counts.nbytes)

    def take(self, at: slice) -> GroupState:
        """Return the groups in a slice."""
        return GroupState(
            tuple(column[at] for column in self.coords),
            None if self.counts is None else self.counts[at],
            tuple(tuple(array[at] for array in state) for state in self.states),
        )


def _concat(parts: Sequence[GroupState]) -> GroupState:
    if len(parts) == 1:
        return parts[0]
    counts = [part.counts for part in parts if part.counts is not None]
    return GroupState(
        tuple(np.concatenate(columns) for columns in zip(*(part.coords for part in parts), strict=True)),
        np.concatenate(counts) if counts else None,
        tuple(
            tuple(np.concatenate(arrays) for arrays in zip(*states, strict=True))
            for states in zip(*(part.states for part in parts), strict=True)
        ),
    )


class GroupBy:
    """The groups of a scan, for one reduction or several.

    Parameters
    ----------
    scan
        Operand of the reductions, of a relation.
    kept
        Axes that stay, ascending.
    folds
        Aggregates of each group.
    counted
        Whether element counts are wanted. Without them, groups whose states are all 0 may be omitted.
    leads
        Whether the first kept axis is the leading one of the result, so that it has partitions.
    """

    def __init__(self, scan: Scan, kept: tuple[int, ...], folds: Sequence[Fold], counted: bool, leads: bool) -> None:
        self.scan, self.kept, self.folds, self.counted = scan, kept, tuple(folds), counted
        self._is_leading = leads and bool(kept)
        self.strategy: str | None = None
        """Strategy of the last pass: "small", "adjacent_groups", "dense_groups" or "sorted_groups"."""
        self._all: GroupState | None = None
        self._lock = threading.Lock()  # a Once of a method of this object would be a reference cycle

    def partitions(self) -> list[int]:
        """Return the bounds of partitions whose groups fit in memory. Reads footers."""
        if not self._is_leading:
            return [0, 1]
        axes = self.scan.view.axes
        size = axes[self.kept[0]].length
        if not size:
            return [0]
        if scan_reader.is_small(self.scan):
            return [0, size]
        order = _order(self.scan, self.kept)
        rows = _rows(self.scan, order)
        cells = math.prod(axes[k].length for k in self.kept)
        nbytes = 4 * min(cells, rows) * (8 * len(self.kept) + _width(self.folds))
        budget = tuning().group_bytes
        budget = memory.limit() // tuning().group_parts if budget is None else budget
        if nbytes <= budget:
            return [0, size]
        if _leads(self.scan.view, self.kept, order):
            return partition_bounds([_permute_kept_first(self.scan, self.kept)], size)
        count = min(-(-nbytes // budget), size)
        return [size * k // count for k in range(count + 1)]

    def read(self, start: int, stop: int) -> GroupState:
        """Return the groups of rows [start, stop) of the result.

        All groups are cached if asked for at once.

        Raises
        ------
        TooLargeError
            If they would exceed the memory limit.
        """
        if not self._is_leading or (start, stop) == (0, self.scan.view.axes[self.kept[0]].length):
            with self._lock:
                if self._all is None:
                    self._all = self._aggregate(self.scan)
                return self._all
        axis = self.kept[0]
        if self._all is not None:
            first, last = bisect_sorted(self._all.coords[0], [start, stop])
            return self._all.take(slice(int(first), int(last)))
        found = self._aggregate(self.scan.then(self.scan.view.then(self._key(start, stop))))
        dtype = self.scan.schema.coordinate_dtype(axis)
        leading = found.coords[0].astype(dtype) + np.asarray(start, dtype)
        return GroupState((leading, *found.coords[1:]), found.counts, found.states)

    def scalar_chunks(self) -> list[Chunk] | None:
        """Return the chunks whose states, merged in order, are the only group.

        None if some axes stay, or positions or a small input lead to another strategy.
        """
        scan = self.scan
        if self.kept or scan.view.size == 0 or scan_reader.is_small(scan):
            return None
        if any(fold.needs_positions for fold in self.folds):
            return None
        return scan_reader.unordered_chunks(scan, _order(scan, ()))

    def chunk_states(self, chunks: Sequence[Chunk]) -> Iterator[GroupState]:
        """Yield the states of some of :meth:`scalar_chunks`."""
        aggregate = _Aggregator(self.scan.schema.shape, (), self.folds)
        yield from scan_reader.map_blocks(self.scan, aggregate, _order(self.scan, ()), chunks, ())

    def merge_states(self, states: Iterable[GroupState]) -> None:
        """Merge the states of all chunks, in their order, into the only group."""
        self._all = self._concat_groups(self.scan, list(_merge_adjacent(iter(states), self.folds)))

    def dense_chunks(self) -> tuple[list[Chunk], int] | None:
        """Return the chunks that are added up in dense arrays, and the number of lanes.

        Lanes are consecutive ranges of chunks, merged in order. If the order of additions does not change bits, each
        chunk is a lane. None for another strategy, a small input, or several partitions.
        """
        scan, kept = self.scan, self.kept
        if not kept or self._all is not None or scan.view.size == 0 or scan_reader.is_small(scan):
            return None
        if not all(isinstance(fold, UfuncFold) for fold in self.folds) or len(self.partitions()) > 2:
            return None
        if self._choose(scan, _order(scan, kept)) != "dense_groups":
            return None
        chunks = self.unordered_chunks()
        cells = math.prod(scan.schema.shape[k] for k in kept)
        is_exact = all(fold.is_exact for fold in self.folds)
        return chunks, len(chunks) if is_exact else num_lanes(sum(chunk.rows for chunk in chunks), cells, self.folds)

    @property
    def dense_bytes(self) -> int:
        """Bytes of dense arrays of all possible groups."""
        return math.prod(self.scan.schema.shape[k] for k in self.kept) * (8 + _width(self.folds))

    def unordered_chunks(self) -> list[Chunk]:
        """Return all chunks in the order in which they are added up."""
        return scan_reader.unordered_chunks(self.scan, _order(self.scan, self.kept))

    def add_chunks(self, chunks: Sequence[Chunk]) -> DenseState:
        """Return the sums of some of :meth:`unordered_chunks`, in their order."""
        order = _order(self.scan, self.kept)
        return _Scatter(self.scan, order, self.kept, self.folds, self.counted).add(chunks).state

    def merge_dense(self, states: Iterable[DenseState]) -> None:
        """Merge the sums of all lanes, in their order, into the groups."""
        shape = tuple(self.scan.schema.shape[k] for k in self.kept)
        first, *others = (_DenseGroups(shape, self.folds, self.counted, state) for state in states)
        for later in others:
            first.merge(later)
        found = first.groups([self.scan.schema.coordinate_dtype(k) for k in self.kept])
        with self._lock:
            self.strategy, self._all = "dense_groups", self._concat_groups(self.scan, [found])

    def pin(self, start: int, stop: int) -> object:
        """Return an object that lets reads of rows [start, stop) share a cursor.

        They do so for as long as the object is referenced.
        """
        return pin(self.scan, self._key(start, stop)) if self._is_leading else None

    def _key(self, start: int, stop: int) -> tuple[slice, ...]:
        """Return the index of the scan for rows [start, stop) of the result."""
        return (slice(None),) * self.kept[0] + (slice(start, stop),)

    def _aggregate(self, scan: Scan) -> GroupState:
        if scan_reader.is_small(scan):
            parts = list(self._groups(scan))
            return parts[0] if len(parts) == 1 else self._concat_groups(scan, parts)
        parts = []
        what = f"the groups of a reduction of shape {scan.schema.shape} to axes {self.kept}"
        with memory.reserve(0, what, "reduce a part of the tensor") as room:
            for part in self._groups(scan):
                room.grow(part.nbytes)
                parts.append(part)
        return self._concat_groups(scan, parts)

    def _concat_groups(self, scan: Scan, parts: Sequence[GroupState]) -> GroupState:
        """Return successive groups as one state."""
        if parts:
            return _concat(parts)
        coords = tuple(np.zeros(0, scan.schema.coordinate_dtype(k)) for k in self.kept)
        states = tuple(fold.empty(0) for fold in self.folds)
        return GroupState(coords, np.zeros(0, np.int64) if self.counted else None, states)

    def _groups(self, scan: Scan) -> Iterator[GroupState]:
        """Yield the groups of a scan in ascending order, each once."""
        view, kept = scan.view, self.kept
        if view.size == 0:
            return
        order = _order(scan, kept)
        needs_positions = any(fold.needs_positions for fold in self.folds)
        aggregate = _Aggregator(scan.schema.shape, kept, self.folds)
        leads = self._leads(scan, order)
        block = scan_reader.read_small(scan) if leads and view.preserves_order(order) else None
        if block is not None:
            self.strategy = "small"
            if block.count:
                yield aggregate(block)
            return
        self.strategy = self._choose(scan, order)
        if self.strategy == "adjacent_groups":
            first, runs = self._split_runs(scan, order)
            chunks = None if needs_positions or (kept and runs) else first + runs
            axes = None if needs_positions else kept
            parts = scan_reader.map_blocks(scan, aggregate, order, chunks, axes, "reducing")
        elif self.strategy == "dense_groups":
            yield _scatter(scan, order, kept, self.folds, self.counted)
            return
        else:
            permuted = _permute_kept_first(scan, kept)
            aggregate = _Aggregator(permuted.schema.shape, tuple(range(len(kept))), self.folds)
            parts = ordered_map(aggregate, scan_reader.iter_sorted_blocks(permuted), settings.current().threads)
        yield from _merge_adjacent(parts, self.folds)

    def _leads(self, scan: Scan, order: tuple[int, ...]) -> bool:
        """Return whether groups are adjacent, with ascending positions if needed."""
        return _leads(scan.view, self.kept, order) and self._is_ordered(scan, order)

    def _is_ordered(self, scan: Scan, order: tuple[int, ...]) -> bool:
        """Return whether elements of a group come in the order that folds need."""
        needs_positions = any(fold.needs_positions for fold in self.folds)
        return not needs_positions or _positions_ascend(scan.view, self.kept, order)

    def _split_runs(self, scan: Scan, order: tuple[int, ...]) -> tuple[list[Chunk], list[Chunk]]:
        """Return the chunks of a scan, and those of append runs to read unmerged.

        Folds that need positions read the merged order.
        """
        needs_positions = any(fold.needs_positions for fold in self.folds)
        return ([], []) if needs_positions else scan_reader.split_runs(scan.relation, scan.view.box(), order)

    def _choose(self, scan: Scan, order: tuple[int, ...]) -> str:
        """Return the strategy for a scan that is not small."""
        kept, parameters = self.kept, tuning()
        cells = math.prod(scan.view.axes[k].length for k in kept)
        small = cells <= max(parameters.dense_groups_per_element * _rows(scan, order), parameters.max_dense_groups)
        fits = cells * (8 + _width(self.folds)) <= memory.limit() // parameters.group_parts
        scatters = small and fits and all(fold.scatters for fold in self.folds)
        if self._leads(scan, order) and not (kept and scatters and self._split_runs(scan, order)[1]):
            return "adjacent_groups"
        return "dense_groups" if scatters and self._is_ordered(scan, order) else "sorted_groups"


def adds_rows_alone(scan: Scan, kept: tuple[int, ...], folds: Sequence[Fold]) -> bool:
    """Return whether groups of a row have the same bits beside any other rows.

    Parameters
    ----------
    scan, kept, folds
        As for :class:`GroupBy`; the scan may also be one of a node.
    """
    if all(fold.is_exact for fold in folds):
        return True
    if isinstance(scan.source, Node):
        return _leads(scan.view, kept, tuple(range(scan.source.schema.ndim)))
    order = _order(scan, kept)
    return _leads(scan.view, kept, order) and not scan_reader.split_runs(scan.relation, scan.view.box(), order)[1]


def _width(folds: Iterable[Fold]) -> int:
    """Return the bytes of the states of a group."""
    return 8 + sum(array.itemsize for fold in folds for array in fold.empty(0))


def _rows(scan: Scan, order: tuple[int, ...]) -> int:
    """Return an estimate of the number of elements of a scan."""
    return scan.relation.stats(scan.view.box(), order).rows * max(scan.view.repeats, 1)


def _order(scan: Scan, kept: tuple[int, ...]) -> tuple[int, ...]:
    """Return the cheapest order; groups that are not adjacent double the cost."""
    orders = scan.relation.orders
    if len(orders) == 1:
        return orders[0]
    return min(orders, key=lambda order: _rows(scan, order) * (1 if _leads(scan.view, kept, order) else 2))


def _leads(view: View, kept: tuple[int, ...], order: tuple[int, ...]) -> bool:
    """Return whether the sort order starts with the kept axes."""
    settled = {dim for dim, _ in view.fixed}
    settled.update(axis.dim for axis in view.axes if isinstance(axis, RangeAxis) and axis.length == 1)
    dims = []
    for axis in (view.axes[k] for k in kept):
        if axis.length == 1 and isinstance(axis, NewAxis | RangeAxis):
            continue
        if not isinstance(axis, RangeAxis) or axis.step < 0:
            return False
        dims.append(axis.dim)
    return dims == [dim for dim in order if dim not in settled][: len(dims)]


def _positions_ascend(view: View, kept: tuple[int, ...], order: tuple[int, ...]) -> bool:
    """Return whether elements of a group come in the order of reduced axes."""
    reduced = [axis for k, axis in enumerate(view.axes) if k not in kept]
    if len(reduced) == 1:
        axis = reduced[0]
        return axis.length <= 1 or (isinstance(axis, RangeAxis) and axis.step > 0)
    return not kept and view.preserves_order(order)


def is_in_flat_order(scan: Scan) -> bool:
    """Return whether one scan yields all elements in row-major order."""
    return _positions_ascend(scan.view, (), _order(scan, ()))


def _permute_kept_first(scan: Scan, kept: tuple[int, ...]) -> Scan:
    """Return the scan with the kept axes first."""
    reduced = tuple(k for k in range(scan.view.ndim) if k not in kept)
    return scan.then(scan.view.permute(kept + reduced))


def _reduced_positions(block: Block, kept: tuple[int, ...], shape: tuple[int, ...], folds: Sequence[Fold]) -> Any:
    """Return positions along the reduced axes, None unless a fold needs them."""
    if not any(fold.needs_positions for fold in folds):
        return None
    reduced = [k for k in range(len(shape)) if k not in kept]
    return flat_positions([block.coords[k] for k in reduced], [shape[k] for k in reduced], block.count)


class _Aggregator:
    """Aggregates blocks whose groups are adjacent."""

    def __init__(self, shape: tuple[int, ...], kept: tuple[int, ...], folds: Sequence[Fold]) -> None:
        self._shape, self._kept, self._folds = shape, kept, folds

    def __call__(self, block: Block) -> GroupState:
        """Return the groups of a block."""
        columns = [block.coords[k] for k in self._kept]
        starts = group_starts(columns, block.count)
        positions = _reduced_positions(block, self._kept, self._shape, self._folds)
        with np.errstate(all="ignore"):
            states = tuple([self._aggregate(fold, block.values, starts, positions) for fold in self._folds])
        return GroupState(tuple([c[starts] for c in columns]), run_lengths(starts, block.count), states)

    def _aggregate(self, fold: Fold, values: NDArray[Any], starts: NDArray[np.int64], positions: Any) -> State:
        if not self._kept and isinstance(fold, UfuncFold):
            return fold.total(values)
        return fold.runs(values, starts, positions)


def _merge_adjacent(parts: Iterator[GroupState], folds: Sequence[Fold]) -> Iterator[GroupState]:
    """Yield the groups of blocks; the last of a block may continue in the next."""
    pending: GroupState | None = None
    for part in parts:
        if pending is not None:
            if all(a[0] == b[0] for a, b in zip(pending.coords, part.coords, strict=True)):
                _merge_first(pending, part, folds)
            else:
                yield pending
        assert part.counts is not None
        last = len(part.counts) - 1
        pending = part.take(slice(last, None))
        if last:
            yield part.take(slice(0, last))
    if pending is not None:
        yield pending


def _merge_first(earlier: GroupState, later: GroupState, folds: Sequence[Fold]) -> None:
    """Merge a group into the first of some later groups, in place."""
    assert earlier.counts is not None
    assert later.counts is not None
    head = later.take(slice(0, 1))
    for fold, a, b in zip(folds, earlier.states, head.states, strict=True):
        with np.errstate(all="ignore"):
            merged = fold.merge(a, earlier.counts, b, later.counts[:1])
        for array, value in zip(b, merged, strict=True):
            array[:] = value
    later.counts[:1] += earlier.counts


DenseState: TypeAlias = "tuple[NDArray[np.int64] | None, tuple[State, ...]]"
"""Element counts and states of folds of all possible groups."""


class _DenseGroups:
    """Accumulators of all possible groups as dense arrays."""

    def __init__(
        self, shape: tuple[int, ...], folds: Sequence[Fold], counted: bool, state: DenseState | None = None
    ) -> None:
        self._shape, self._folds = shape, folds
        if state is not None:
            self._counts, self._states = state[0], list(state[1])
            return
        size = math.prod(shape)
        self._states = [fold.empty(size) for fold in folds]
        self._counts = np.zeros(size, np.int64) if counted else None

    @property
    def state(self) -> DenseState:
        """Element counts, and the states of folds."""
        return self._counts, tuple(self._states)

    def add(self, keys: NDArray[np.int64], values: NDArray[Any], positions: NDArray[np.int64] | None) -> None:
        """Add elements to the groups of their keys, in order."""
        counts = self._counts
        if counts is not None and len(counts) <= len(keys):
            counts += np.bincount(keys, minlength=len(counts))
        elif counts is not None:
            np.add.at(counts, keys, 1)
        with np.errstate(all="ignore"):
            for fold, state in zip(self._folds, self._states, strict=True):
                fold.scatter(state, keys, values, positions)

    def merge(self, later: _DenseGroups) -> None:
        """Merge the accumulators of later elements; folds must all be :class:`UfuncFold`."""
        one = np.ones(1, np.int64)
        with np.errstate(all="ignore"):
            pairs = zip(self._folds, self._states, later._states, strict=True)
            self._states = [fold.merge(a, one, b, one) for fold, a, b in pairs]
        if self._counts is not None and later._counts is not None:
            self._counts = self._counts + later._counts

    def groups(self, dtypes: Sequence[np.dtype[Any]]) -> GroupState:
        """Return the groups with elements, with coordinates in the given dtypes."""
        if self._counts is not None:
            found = self._counts != 0
        else:
            found = np.logical_or.reduce([state[0] != 0 for state in self._states])
        at = np.flatnonzero(found)
        columns = (at,) if len(self._shape) == 1 else np.unravel_index(at, self._shape)
        return GroupState(
            tuple(column.astype(dtype, copy=False) for column, dtype in zip(columns, dtypes, strict=True)),
            None if self._counts is None else self._counts[at],
            tuple(tuple(array[at] for array in state) for state in self._states),
        )


def _scatter(
    scan: Scan, order: tuple[int, ...], kept: tuple[int, ...], folds: Sequence[Fold], counted: bool
) -> GroupState:
    """Return the groups of unordered elements, accumulated in dense arrays.

    If there are many elements per group and the folds can be merged, chunks are dealt to several lanes.
    """
    work = _Scatter(scan, order, kept, folds, counted)
    # Folds that need positions need them in ascending order.
    is_ordered = any(fold.needs_positions for fold in folds)
    chunks = scan.relation.chunks(scan.view.box(), order) if is_ordered else scan_reader.unordered_chunks(scan, order)
    rows = sum(chunk.rows for chunk in chunks)
    lanes = num_lanes(rows, math.prod(scan.schema.shape[k] for k in kept), folds)
    bounds = lane_bounds(len(chunks), lanes)
    with progress.bar("reducing", rows, "elements") as advance:

        def accumulate(lane: int) -> _DenseGroups:
            threads = settings.current().threads if lanes == 1 else 1
            return work.add(chunks[bounds[lane] : bounds[lane + 1]], threads, advance)

        first, *others = ordered_map(accumulate, range(lanes), min(settings.current().threads, lanes))
    for later in others:
        first.merge(later)
    return first.groups([scan.schema.coordinate_dtype(k) for k in kept])


class _Scatter:
    """Adds chunks of a scan to dense arrays."""

    def __init__(
        self, scan: Scan, order: tuple[int, ...], kept: tuple[int, ...], folds: Sequence[Fold], counted: bool
    ) -> None:
        self._shape, self._kept, self._folds, self._counted = scan.schema.shape, kept, folds, counted
        self._cells = tuple(self._shape[k] for k in kept)
        axes = None if any(fold.needs_positions for fold in folds) else kept
        self._read = scan_reader.reader(scan, order, axes)

    def add(
        self, chunks: Sequence[Chunk], threads: int | None = None, advance: Callable[[int], None] = lambda n: None
    ) -> _DenseGroups:
        """Return the sums of chunks, in their order."""
        out = _DenseGroups(self._cells, self._folds, self._counted)
        found = ordered_map(self._to_keys, chunks, threads or settings.current().threads)
        for chunk, entries in zip(chunks, found, strict=True):
            out.add(*entries)
            advance(chunk.rows)
        return out

    def _to_keys(self, chunk: Chunk) -> tuple[NDArray[np.int64], NDArray[Any], Any]:
        """Return the groups, values and positions of the elements of a chunk."""
        block = self._read(chunk)
        keys = flat_positions([block.coords[k] for k in self._kept], self._cells, block.count)
        return keys, block.values, _reduced_positions(block, self._kept, self._shape, self._folds)


def lane_bounds(chunks: int, lanes: int) -> list[int]:
    """Return bounds of the lanes of some chunks."""
    return [chunks * lane // lanes for lane in range(lanes + 1)]


def num_lanes(rows: int, cells: int, folds: Sequence[Fold]) -> int:
    """Return the number of lanes.

    It does not depend on the number of threads, so neither do sums.
    """
    if not all(isinstance(fold, UfuncFold) for fold in folds):
        return 1
    lanes = tuning().sum_lanes
    fit = memory.limit() // tuning().group_parts // (cells * (8 + _width(folds)))
    return max(min(lanes, rows // (lanes * cells), fit), 1)


def first_extreme(scan: Scan, fold: ExtremumFold) -> int:
    """Return the position of the first extreme of an unordered scan.

    Absent elements are included; positions are row-major.

    One pass finds the extreme, another its first position, without sorting.
    """
    shape = scan.schema.shape
    best: NDArray[Any] | None = None
    start = np.zeros(1, np.int64)
    order = scan_order(scan)
    chunks = scan_reader.unordered_chunks(scan, order)
    for block in scan_reader.iter_blocks(scan, order, chunks, axes=()):
        here = fold.runs(block.values, start, np.arange(block.count))[0]
        if best is None or bool(fold.beats(here, best)[0]):
            best = here
    if best is None:
        return 0
    fill = np.asarray(scan.schema.fill_value)
    count = scan_reader.count_nnz(scan)
    if count < scan.schema.size and bool(fold.beats(fill, best)[0]):
        return _first_absent(scan, order, count)
    target = best[0]
    first = scan.schema.size
    for block in scan_reader.iter_blocks(scan, order, chunks):
        hit = block.values == target if target == target else np.isnan(block.values)
        if hit.any():
            first = min(first, int(flat_positions(block.coords, shape, block.count)[hit].min()))
    return first


def _first_absent(scan: Scan, order: tuple[int, ...], count: int) -> int:
    """Return the smallest row-major position without a stored element."""
    chunks = scan_reader.unordered_chunks(scan, order)
    window = tuning().absent_window
    for low in range(0, count + 1, window):
        taken = np.zeros(min(window, count + 1 - low), bool)
        for block in scan_reader.iter_blocks(scan, order, chunks):
            at = flat_positions(block.coords, scan.schema.shape, block.count) - low
            taken[at[(at >= 0) & (at < len(taken))]] = True
        if not taken.all():
            return low + int(np.argmin(taken))
    return count
