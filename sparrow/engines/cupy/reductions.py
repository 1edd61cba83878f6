"""Reductions on a device: what each needs of the groups of a tile; tiles are merged, and results made, as elsewhere.

Which results there are of a group's sums and extremes is said in :mod:`sparrow.plan.aggregates`; the states of a tile
take the form of the folds there, and are merged by these, on the processor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.core.schema import is_fill
from sparrow.engines.cupy.device import Device, order_unsupported_reason
from sparrow.engines.cupy.entries import Entries, Groups, regrouped, without_fill
from sparrow.engines.cupy.tiles import Tile, Tiled, tiles_of
from sparrow.engines.stream.capabilities import Cursor
from sparrow.engines.stream.operator import PhysicalOperator
from sparrow.engines.stream.partitioning import range_slice
from sparrow.kernels.coo import Block
from sparrow.kernels.folds import Fold, MomentsFold, State
from sparrow.plan import Reduce, Scan
from sparrow.plan.aggregates import GroupCounts
from sparrow.runtime import memory
from sparrow.runtime.once import Once

__all__ = ["reduced", "scalars", "unsupported_reason"]

_States: TypeAlias = "list[tuple[Any, ...]]"


def _summed(device: Device, node: Reduce, groups: Groups, values: Any) -> _States:
    """Return sums; of the forms that skip NaN in fractions the numbers of what is none, too."""
    skips = node.name.startswith("nan") and values.dtype.kind in "fc"
    dtype = _folds(node)[0].dtype
    if not skips:
        return [(groups.sums(values.astype(dtype, copy=False)),)]
    numbers = ~device.xp.isnan(values)
    cleaned = device.xp.where(numbers, values, values.dtype.type(0)).astype(dtype, copy=False)
    both: _States = [(groups.sums(cleaned),), (groups.sums(numbers),)]
    return both[: len(_folds(node))]


def _spread(device: Device, node: Reduce, groups: Groups, values: Any) -> _States:
    """Return means and sums of squared deviations from them, in two passes."""
    xp, (fold,) = device.xp, _folds(node)
    values = values.astype(np.float64, copy=False)
    if isinstance(fold, MomentsFold):
        mean = groups.sums(values) / groups.counts
        away = values - groups.spread(mean)
        return [(mean, groups.sums(away * away))]
    numbers = ~xp.isnan(values)
    counts = groups.sums(numbers)
    mean = groups.sums(xp.where(numbers, values, 0.0)) / xp.maximum(counts, 1)
    away = xp.where(numbers, values - groups.spread(mean), 0.0)
    return [(mean, groups.sums(away * away), counts)]


def _extremes(device: Device, node: Reduce, groups: Groups, values: Any) -> _States:
    """Return smallest or largest values: NaN where there is one, or where there is nothing else."""
    return [(_extreme(device, groups, values, node.name.endswith("max"), node.name.startswith("nan")),)]


def _extreme(device: Device, groups: Groups, values: Any, largest: bool, skips: bool) -> Any:
    if values.dtype.kind != "f":
        return groups.extremes(values, largest)
    xp = device.xp
    blind = xp.isnan(values)
    worst = values.dtype.type(-np.inf if largest else np.inf)
    found = groups.extremes(xp.where(blind, worst, values), largest)
    count = groups.sums(blind)
    return xp.where(count == groups.counts if skips else count > 0, values.dtype.type(np.nan), found)


def _truth(device: Device, node: Reduce, groups: Groups, values: Any) -> _States:
    """Return whether any is not 0, or none is 0."""
    if node.name == "any":
        return [(groups.sums(values != 0) > 0,)]
    return [(groups.sums(values == 0) == 0,)]


def _norms(device: Device, node: Reduce, groups: Groups, values: Any) -> _States:
    """Return sums of powers of magnitudes, or the largest or smallest of these."""
    degree = float(node.options.get("ord", 2))
    if degree == 0:
        return [(groups.sums((values != 0).astype(np.float64)),)]
    sizes = device.xp.absolute(values.astype(np.float64, copy=False))
    if math.isinf(degree):
        return [(_extreme(device, groups, sizes, degree > 0, False),)]
    return [(groups.sums(sizes if degree == 1 else sizes * sizes),)]


def _nothing(device: Device, node: Reduce, groups: Groups, values: Any) -> _States:
    """Return nothing: numbers of entries are enough."""
    return []


_STATES: dict[str, Callable[[Device, Reduce, Groups, Any], _States]] = {
    **dict.fromkeys(["sum", "mean", "nansum", "nanmean"], _summed),
    **dict.fromkeys(["var", "std", "nanvar", "nanstd"], _spread),
    **dict.fromkeys(["min", "max", "nanmin", "nanmax"], _extremes),
    **dict.fromkeys(["any", "all"], _truth),
    **dict.fromkeys(["count", "density"], _nothing),
    "norm": _norms,
}
"""The reductions, each with what gives the states of its folds."""


def _folds(node: Reduce) -> list[Any]:
    return list(node.reduction.folds.values())


def unsupported_reason(node: Reduce) -> str | None:
    """Return why a reduction is not computed on a device, None where it is."""
    name, dtype = node.name, node.operand.schema.dtype
    if name not in _STATES:
        return f"{name}: groups are added up and sorted there, not multiplied or searched"
    if dtype == np.float16 or (dtype.kind == "c" and name not in ("sum", "mean", "any", "all", "count", "density")):
        return f"{name} of {dtype}"
    if node.options.get("dtype") not in (None, dtype):
        return f"{name} in another type: use astype() first"
    if name == "norm" and node.options.get("ord", 2) not in (0, 1, 2, math.inf, -math.inf):
        return f"the norm of order {node.options['ord']}"
    adds = name in ("sum", "nansum", "mean", "nanmean", "var", "std", "nanvar", "nanstd", "norm")
    return order_unsupported_reason(node.schema.dtype) if adds else None


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """Groups, ascending, in memory: their numbers, how many entries each has, and for each node the states."""

    numbers: NDArray[np.int64]
    counts: NDArray[np.int64]
    states: tuple[State, ...]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (self.numbers, self.counts, *(a for state in self.states for a in state)))

    def take(self, at: Any) -> _Found:
        return _Found(
            self.numbers[at], self.counts[at], tuple(tuple(array[at] for array in state) for state in self.states)
        )


def _found(device: Device, nodes: Sequence[Reduce], entries: Entries) -> _Found:
    """Return the groups of entries of the operand of reductions to the same axes."""
    node = nodes[0]
    shape = node.operand.schema.shape
    if not entries.count:
        return _nothing_of(nodes)
    groups = Groups(device, regrouped(entries.keys, shape, node.kept_axes))
    values = groups.ordered(entries.values)
    states = [state for one in nodes for state in _STATES[one.name](device, one, groups, values)]
    moved = tuple(tuple(device.get(array) for array in state) for state in states)
    return _Found(device.get(groups.numbers), device.get(groups.counts), moved)


def _nothing_of(nodes: Sequence[Reduce]) -> _Found:
    """Return no groups."""
    states = tuple(fold.empty(0) for node in nodes for fold in _folds(node))
    return _Found(np.zeros(0, np.int64), np.zeros(0, np.int64), states)


def _merged(folds: Sequence[Fold], earlier: _Found, later: _Found) -> _Found:
    """Return the groups of entries of two tiles."""
    numbers = np.union1d(earlier.numbers, later.numbers)
    one, two = (np.searchsorted(numbers, found.numbers) for found in (earlier, later))
    _, first, second = np.intersect1d(earlier.numbers, later.numbers, assume_unique=True, return_indices=True)
    counts = np.zeros(len(numbers), np.int64)
    counts[one] = earlier.counts
    counts[two] += later.counts
    n, m = earlier.counts[first], later.counts[second]
    states = []
    for fold, a, b in zip(folds, earlier.states, later.states, strict=True):
        with np.errstate(all="ignore"):
            both = fold.merge(tuple(x[first] for x in a), n, tuple(y[second] for y in b), m)
        state = []
        for x, y, together in zip(a, b, both, strict=False):
            out = np.empty(len(numbers), x.dtype)
            out[one], out[two] = x, y
            out[one[first]] = together
            state.append(out)
        states.append(tuple(state))
    return _Found(numbers, counts, tuple(states))


def _gathered(device: Device, nodes: Sequence[Reduce], scan: Scan) -> _Found:
    """Return the groups of all entries of a scan, of a relation.

    Raises
    ------
    TooLargeError
        If they would pass the memory limit.
    """
    folds = [fold for node in nodes for fold in _folds(node)]
    out: _Found | None = None
    what = f"the groups of a reduction of shape {scan.schema.shape}"
    with memory.reserve(0, what, "reduce a part of the tensor") as room:
        for found in tiles_of(device, scan, lambda entries: _found(device, nodes, entries), what):
            if not len(found.numbers):
                continue
            out = found if out is None else _merged(folds, out, found)
            room.resize(0)
            room.grow(3 * out.nbytes)
    return _nothing_of(nodes) if out is None else out


def _results(nodes: Sequence[Reduce], found: _Found) -> list[NDArray[Any]]:
    """Return the result of each reduction for the groups found."""
    out, states = [], list(found.states)
    for node in nodes:
        own = [states.pop(0) for _ in _folds(node)]
        totals = GroupCounts(found.counts, node.group_size, node.reduction.fill, node.stored)
        out.append(node.reduction.result(own, totals))
    return out


def scalars(device: Device, nodes: Sequence[Reduce], scan: Scan) -> list[Any]:
    """Return reductions of a scan over all of its axes, as NumPy scalars."""
    found = _gathered(device, nodes, scan)
    pairs = zip(nodes, _results(nodes, found), strict=True)
    return [values[0] if len(values) else node.schema.fill_value for node, values in pairs]


def reduced(device: Device, node: Reduce, scans: list[Scan]) -> PhysicalOperator:
    """Return what computes a reduction over some axes: tile by tile where the leading axis stays, else as a whole."""
    (scan,) = scans
    schema = node.schema
    if node.axes[:1] == (0,):

        def compute(tile: Tile) -> Entries:
            found = _found(device, [node], tile.entries(scan))
            (values,) = _results([node], found)
            entries = Entries(device.put(found.numbers), device.put(values))
            return without_fill(device, entries, schema.fill_value) if entries.count else entries

        return Tiled(device, node, scans, compute)
    return _WholeReduction(device, node, scan)


class _WholeReduction(PhysicalOperator):
    """A reduction that is computed as a whole by the first read."""

    def __init__(self, device: Device, node: Reduce, scan: Scan) -> None:
        super().__init__(node, [scan])
        self._result = Once(partial(_reduce_all, device, node, scan))

    def partitions(self) -> list[int]:
        """Return the bounds of one partition."""
        size = self.schema.shape[0]
        return [0, size] if size else [0]

    def open(self, start: int, stop: int) -> Cursor:
        """Open a cursor over the result."""
        return _WholeCursor(self._result)


class _WholeCursor:
    def __init__(self, result: Once[Block]) -> None:
        self._result = result

    def read(self, start: int, stop: int) -> Block:
        """Return the elements of rows [start, stop)."""
        block = self._result()
        return block.take(range_slice(block.coords[0], start, stop)) if block.coords else block


def _reduce_all(device: Device, node: Reduce, scan: Scan) -> Block:
    return _block(node, _gathered(device, [node], scan))


def _block(node: Reduce, found: _Found) -> Block:
    """Return results as entries."""
    (values,) = _results([node], found)
    stored = ~is_fill(values, node.schema.fill_value)
    at, shape = found.numbers[stored], node.schema.shape
    columns = np.unravel_index(at, shape) if shape else ()
    dtypes = [node.schema.coordinate_dtype(axis) for axis in range(len(shape))]
    return Block(tuple(c.astype(t) for c, t in zip(columns, dtypes, strict=True)), values[stored])
