"""Reductions over axes: entries in groups of equal coordinates along the axes that are kept, in one scan.

Where the axes kept lead a sort order, groups come one after the other and only one is held; where the cells that are
kept fit arrays in memory, entries are added to them as they come; elsewhere they are sorted by the axes kept, on disk
where they are too many. A result that would not fit is computed in pieces of its leading axis. Sums run in the order of
the chunks, or of a fixed number of stretches of them and within these, whatever the number of threads.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import NewAxis, RangeAxis, View
from sparrow.engines.sort_orders import scan_order
from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.operator import partition_bounds, pin
from sparrow.kernels.coo import Block, flat_positions
from sparrow.kernels.folds import ExtremumFold, Fold, State, UfuncFold
from sparrow.kernels.runs import group_starts, run_lengths
from sparrow.plan import Scan
from sparrow.runtime import memory, progress, settings
from sparrow.runtime.thread_pool import ordered_map

__all__ = ["GroupBy", "GroupState", "first_extreme", "is_in_flat_order"]

_SMALL = 1 << 16
"""Cells of a dense array that are never too many."""
_LANES = 4
"""Stretches of chunks that are added up side by side; a fixed number, so that no sum depends on that of threads."""
_WINDOW = 1 << 26
"""Positions looked at in one scan for the first that has no entry."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupState:
    """Groups of entries, ascending: coordinates along the axes kept, numbers of entries, states of the folds."""

    coords: tuple[NDArray[Any], ...]
    counts: NDArray[np.int64] | None
    """None where nobody asked."""
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


def _joined(parts: Sequence[GroupState]) -> GroupState:
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
        What is reduced.
    kept
        The axes that stay, ascending.
    folds
        What is computed of each group.
    counted
        Whether numbers of entries are wanted; without, a group whose states are all 0 may be left out.
    lead
        Whether the first axis kept is the leading one of the result, so that pieces of it may be computed.
    """

    def __init__(self, scan: Scan, kept: tuple[int, ...], folds: Sequence[Fold], counted: bool, lead: bool) -> None:
        self.scan, self.kept, self.folds, self.counted = scan, kept, tuple(folds), counted
        self._lead = lead and bool(kept)
        self._whole: GroupState | None = None
        self._lock = threading.Lock()

    def cuts(self) -> list[int]:
        """Return bounds along the leading axis of the result between which groups fit in memory. Reads footers."""
        if not self._lead:
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
        budget = memory.limit() // 4
        if nbytes <= budget:
            return [0, size]
        if _leads(self.scan.view, self.kept, order):
            return partition_bounds([_permuted(self.scan, self.kept)], size)
        count = min(-(-nbytes // budget), size)
        return [size * k // count for k in range(count + 1)]

    def between(self, start: int, stop: int) -> GroupState:
        """Return the groups between two bounds along the leading axis of the result; all of them are kept.

        Raises
        ------
        TooLargeError
            If they would pass the memory limit.
        """
        if not self._lead or (start, stop) == (0, self.scan.view.axes[self.kept[0]].length):
            with self._lock:
                if self._whole is None:
                    self._whole = self._gathered(self.scan)
                return self._whole
        axis = self.kept[0]
        if self._whole is not None:
            first, last = np.searchsorted(self._whole.coords[0], [start, stop])
            return self._whole.take(slice(int(first), int(last)))
        found = self._gathered(self.scan.then(self.scan.view.then(self._key(start, stop))))
        dtype = self.scan.schema.coordinate_dtype(axis)
        leading = found.coords[0].astype(dtype) + np.asarray(start, dtype)
        return GroupState((leading, *found.coords[1:]), found.counts, found.states)

    def pin(self, start: int, stop: int) -> object:
        """Return what lets the groups between two bounds share what their entries are read of, while it is held."""
        return pin(self.scan, self._key(start, stop)) if self._lead else None

    def _key(self, start: int, stop: int) -> tuple[slice, ...]:
        """Return the part of the scan between two bounds along the leading axis of the result."""
        return (slice(None),) * self.kept[0] + (slice(start, stop),)

    def _gathered(self, scan: Scan) -> GroupState:
        if scan_reader.is_small(scan):
            parts = list(self._groups(scan))
            return parts[0] if len(parts) == 1 else self._together(scan, parts)
        parts = []
        what = f"the groups of a reduction of shape {scan.schema.shape} to axes {self.kept}"
        with memory.reserve(0, what, "reduce a part of the tensor") as room:
            for part in self._groups(scan):
                room.grow(part.nbytes)
                parts.append(part)
        return self._together(scan, parts)

    def _together(self, scan: Scan, parts: Sequence[GroupState]) -> GroupState:
        """Return successive groups as one."""
        if parts:
            return _joined(parts)
        coords = tuple(np.zeros(0, scan.schema.coordinate_dtype(k)) for k in self.kept)
        states = tuple(fold.empty(0) for fold in self.folds)
        return GroupState(coords, np.zeros(0, np.int64) if self.counted else None, states)

    def _groups(self, scan: Scan) -> Iterator[GroupState]:
        """Yield the groups of a scan, ascending, none twice."""
        view, kept = scan.view, self.kept
        if view.size == 0:
            return
        order = _order(scan, kept)
        placed = any(fold.needs_positions for fold in self.folds)
        anyhow = not (placed and not _positions_ascend(view, kept, order))
        leads = _leads(view, kept, order) and anyhow
        grouped = _grouped(scan.schema.shape, kept, self.folds)
        block = scan_reader.read_small(scan) if leads and view.preserves_order(order) else None
        if block is not None:
            if block.count:
                yield grouped(block)
            return
        cells = math.prod(view.axes[k].length for k in kept)
        small = cells <= max(4 * _rows(scan, order), _SMALL)
        fits = cells * (8 + _width(self.folds)) <= memory.limit() // 4
        scatters = small and fits and all(fold.scatters for fold in self.folds)
        # Entries without positions are read file by file where others stand beside those in order, merged where not.
        first, others = ([], []) if placed else scan_reader.split_runs(scan.relation, view.box(), order)
        if leads and not (kept and others and scatters):
            chunks = None if placed or (kept and others) else first + others
            axes = None if placed else kept
            yield from _runs(scan_reader.map_blocks(scan, grouped, order, chunks, axes, "reducing"), self.folds)
            return
        if scatters and anyhow:
            yield _scattered(scan, order, kept, self.folds, self.counted)
            return
        permuted = _permuted(scan, kept)
        grouped = _grouped(permuted.schema.shape, tuple(range(len(kept))), self.folds)
        parts = ordered_map(grouped, scan_reader.iter_sorted_blocks(permuted), settings.current().threads)
        yield from _runs(parts, self.folds)


def _width(folds: Iterable[Fold]) -> int:
    """Return the bytes of a group's states."""
    return 8 + sum(array.itemsize for fold in folds for array in fold.empty(0))


def _rows(scan: Scan, order: tuple[int, ...]) -> int:
    """Return about how many entries a scan shows."""
    return scan.relation.stats(scan.view.box(), order).rows * max(scan.view.repeats, 1)


def _order(scan: Scan, kept: tuple[int, ...]) -> tuple[int, ...]:
    """Return the order to read: adding to groups that lie anywhere costs about as much again."""
    orders = scan.relation.orders
    if len(orders) == 1:
        return orders[0]
    return min(orders, key=lambda order: _rows(scan, order) * (1 if _leads(scan.view, kept, order) else 2))


def _leads(view: View, kept: tuple[int, ...], order: tuple[int, ...]) -> bool:
    """Return whether entries sorted by the order come sorted by the axes kept, so that groups stand together."""
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
    """Return whether the entries of a group come with ascending positions along the axes that are reduced."""
    reduced = [axis for k, axis in enumerate(view.axes) if k not in kept]
    if len(reduced) == 1:
        axis = reduced[0]
        return axis.length <= 1 or (isinstance(axis, RangeAxis) and axis.step > 0)
    return not kept and view.preserves_order(order)


def is_in_flat_order(scan: Scan) -> bool:
    """Return whether one scan gives all entries in the order of their flat positions."""
    return _positions_ascend(scan.view, (), _order(scan, ()))


def _permuted(scan: Scan, kept: tuple[int, ...]) -> Scan:
    """Return the scan with the axes kept first."""
    reduced = tuple(k for k in range(scan.view.ndim) if k not in kept)
    return scan.then(scan.view.permute(kept + reduced))


def _placed(block: Block, kept: tuple[int, ...], shape: tuple[int, ...], folds: Sequence[Fold]) -> Any:
    """Return the positions of entries along the axes that are reduced, if a fold wants them."""
    if not any(fold.needs_positions for fold in folds):
        return None
    reduced = [k for k in range(len(shape)) if k not in kept]
    return flat_positions([block.coords[k] for k in reduced], [shape[k] for k in reduced], block.count)


def _grouped(shape: tuple[int, ...], kept: tuple[int, ...], folds: Sequence[Fold]) -> Callable[[Block], GroupState]:
    """Return the function that finds the groups of a block in which they stand together."""

    def grouped(block: Block) -> GroupState:
        columns = [block.coords[k] for k in kept]
        starts = group_starts(columns, block.count)
        positions = _placed(block, kept, shape, folds)
        with np.errstate(all="ignore"):
            states = tuple([fold.runs(block.values, starts, positions) for fold in folds])
        return GroupState(tuple([c[starts] for c in columns]), run_lengths(starts, block.count), states)

    return grouped


def _runs(parts: Iterator[GroupState], folds: Sequence[Fold]) -> Iterator[GroupState]:
    """Yield the groups of successive blocks, ascending; the last of one may go on in the next."""
    pending: GroupState | None = None
    for part in parts:
        if pending is not None:
            if all(a[0] == b[0] for a, b in zip(pending.coords, part.coords, strict=True)):
                _absorb(pending, part, folds)
            else:
                yield pending
        assert part.counts is not None
        last = len(part.counts) - 1
        pending = part.take(slice(last, None))
        if last:
            yield part.take(slice(0, last))
    if pending is not None:
        yield pending


def _absorb(earlier: GroupState, later: GroupState, folds: Sequence[Fold]) -> None:
    """Merge one group into the first of the groups that come later, in place."""
    assert earlier.counts is not None
    assert later.counts is not None
    head = later.take(slice(0, 1))
    for fold, a, b in zip(folds, earlier.states, head.states, strict=True):
        with np.errstate(all="ignore"):
            merged = fold.merge(a, earlier.counts, b, later.counts[:1])
        for array, value in zip(b, merged, strict=True):
            array[:] = value
    later.counts[:1] += earlier.counts


class _Cells:
    """Groups as the cells of dense arrays that entries are added to as they come."""

    def __init__(self, shape: tuple[int, ...], folds: Sequence[Fold], counted: bool) -> None:
        self._shape, self._folds = shape, folds
        size = math.prod(shape)
        self._states = [fold.empty(size) for fold in folds]
        self._counts = np.zeros(size, np.int64) if counted else None

    def add(self, keys: NDArray[np.int64], values: NDArray[Any], positions: NDArray[np.int64] | None) -> None:
        """Add entries to the cells of their keys, in order."""
        counts = self._counts
        if counts is not None and len(counts) <= len(keys):
            counts += np.bincount(keys, minlength=len(counts))
        elif counts is not None:
            np.add.at(counts, keys, 1)
        with np.errstate(all="ignore"):
            for fold, state in zip(self._folds, self._states, strict=True):
                fold.scatter(state, keys, values, positions)

    def merge(self, later: _Cells) -> None:
        """Add what others hold of entries that come later; folds must all be :class:`UfuncFold`."""
        one = np.ones(1, np.int64)
        with np.errstate(all="ignore"):
            pairs = zip(self._folds, self._states, later._states, strict=True)
            self._states = [fold.merge(a, one, b, one) for fold, a, b in pairs]
        if self._counts is not None and later._counts is not None:
            self._counts += later._counts

    def groups(self, dtypes: Sequence[np.dtype[Any]]) -> GroupState:
        """Return the cells that hold something, their coordinates in the types given."""
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


def _scattered(
    scan: Scan, order: tuple[int, ...], kept: tuple[int, ...], folds: Sequence[Fold], counted: bool
) -> GroupState:
    """Return the groups of entries that come in any order, added to dense arrays.

    Where entries are many for each cell and folds can be merged, stretches of the chunks are added up side by side.
    """
    shape = scan.schema.shape
    cells = tuple(shape[k] for k in kept)
    axes = None if any(fold.needs_positions for fold in folds) else kept
    # Positions have to ascend where a fold looks at them.
    chunks = scan.relation.chunks(scan.view.box(), order) if axes is None else scan_reader.unordered_chunks(scan, order)

    def keyed(block: Block) -> tuple[NDArray[np.int64], NDArray[Any], Any]:
        keys = flat_positions([block.coords[k] for k in kept], cells, block.count)
        return keys, block.values, _placed(block, kept, shape, folds)

    lanes = _lanes(sum(chunk.rows for chunk in chunks), math.prod(cells), folds)
    bounds = [len(chunks) * lane // lanes for lane in range(lanes + 1)]
    read = scan_reader.reader(scan, order, axes)
    with progress.bar("reducing", sum(chunk.rows for chunk in chunks), "entries") as advance:

        def added(lane: int) -> _Cells:
            out = _Cells(cells, folds, counted)
            mine = chunks[bounds[lane] : bounds[lane + 1]]
            threads = settings.current().threads if lanes == 1 else 1
            for chunk, entries in zip(mine, ordered_map(lambda c: keyed(read(c)), mine, threads), strict=True):
                out.add(*entries)
                advance(chunk.rows)
            return out

        whole, *further = ordered_map(added, range(lanes), min(settings.current().threads, lanes))
    for later in further:
        whole.merge(later)
    return whole.groups([scan.schema.coordinate_dtype(k) for k in kept])


def _lanes(rows: int, cells: int, folds: Sequence[Fold]) -> int:
    """Return into how many stretches entries are dealt; it does not depend on the threads, so neither do sums."""
    if not all(isinstance(fold, UfuncFold) for fold in folds):
        return 1
    room = memory.limit() // 4 // (cells * (8 + _width(folds)))
    return max(min(_LANES, rows // (_LANES * cells), room), 1)


def first_extreme(scan: Scan, fold: ExtremumFold) -> int:
    """Return the flat position of the first best cell of a scan in any order, absent cells taking part.

    One scan finds the best value, another its first position, without sorting.
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
    """Return the smallest flat position without an entry; the number of entries bounds it."""
    chunks = scan_reader.unordered_chunks(scan, order)
    for low in range(0, count + 1, _WINDOW):
        taken = np.zeros(min(_WINDOW, count + 1 - low), bool)
        for block in scan_reader.iter_blocks(scan, order, chunks):
            at = flat_positions(block.coords, scan.schema.shape, block.count) - low
            taken[at[(at >= 0) & (at < len(taken))]] = True
        if not taken.all():
            return low + int(np.argmin(taken))
    return count
