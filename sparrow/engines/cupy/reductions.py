"""Reductions on a device: fold states per tile.

States have the form of the folds of :mod:`sparrow.plan.aggregates`, which merge the tiles and compute results on the
CPU.
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
from sparrow.engines.cupy.coo import DeviceCOO, Groups, drop_fill, project_keys
from sparrow.engines.cupy.device import Device, order_unsupported_reason
from sparrow.engines.cupy.tiles import Tile, TiledOp, map_tiles
from sparrow.engines.stream.capabilities import Cursor
from sparrow.engines.stream.operator import PhysicalOperator
from sparrow.engines.stream.partitioning import range_slice
from sparrow.kernels.coo import Block
from sparrow.kernels.folds import Fold, MomentsFold, State
from sparrow.plan import Reduce, Scan
from sparrow.plan.aggregates import GroupCounts
from sparrow.runtime import memory
from sparrow.runtime.once import Once

__all__ = ["build_reduction", "reduce_all", "unsupported_reason"]

_States: TypeAlias = "list[tuple[Any, ...]]"


def _sum_states(device: Device, node: Reduce, groups: Groups, values: Any) -> _States:
    """Return sums, and the counts of numbers for forms that skip NaN."""
    skips = node.name.startswith("nan") and values.dtype.kind in "fc"
    dtype = _folds(node)[0].dtype
    if not skips:
        return [(groups.sums(values.astype(dtype, copy=False)),)]
    numbers = ~device.xp.isnan(values)
    cleaned = device.xp.where(numbers, values, values.dtype.type(0)).astype(dtype, copy=False)
    both: _States = [(groups.sums(cleaned),), (groups.sums(numbers),)]
    return both[: len(_folds(node))]


def _moment_states(device: Device, node: Reduce, groups: Groups, values: Any) -> _States:
    """Return means and sums of squared deviations, in two passes."""
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


def _extreme_states(device: Device, node: Reduce, groups: Groups, values: Any) -> _States:
    """Return minima or maxima, with NaN propagated or skipped."""
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


def _truth_states(device: Device, node: Reduce, groups: Groups, values: Any) -> _States:
    """Return whether any, or all, values differ from 0."""
    if node.name == "any":
        return [(groups.sums(values != 0) > 0,)]
    return [(groups.sums(values == 0) == 0,)]


def _norm_states(device: Device, node: Reduce, groups: Groups, values: Any) -> _States:
    """Return sums of powers of magnitudes, or their extremes."""
    order = float(node.options.get("ord", 2))
    if order == 0:
        return [(groups.sums((values != 0).astype(np.float64)),)]
    sizes = device.xp.absolute(values.astype(np.float64, copy=False))
    if math.isinf(order):
        return [(_extreme(device, groups, sizes, order > 0, False),)]
    return [(groups.sums(sizes if order == 1 else sizes * sizes),)]


def _no_states(device: Device, node: Reduce, groups: Groups, values: Any) -> _States:
    """Return no states: counts suffice."""
    return []


_STATES: dict[str, Callable[[Device, Reduce, Groups, Any], _States]] = {
    **dict.fromkeys(["sum", "mean", "nansum", "nanmean"], _sum_states),
    **dict.fromkeys(["var", "std", "nanvar", "nanstd"], _moment_states),
    **dict.fromkeys(["min", "max", "nanmin", "nanmax"], _extreme_states),
    **dict.fromkeys(["any", "all"], _truth_states),
    **dict.fromkeys(["count", "density"], _no_states),
    "norm": _norm_states,
}
"""Functions that compute the states of each reduction."""


def _folds(node: Reduce) -> list[Any]:
    return list(node.reduction.folds.values())


def unsupported_reason(node: Reduce) -> str | None:
    """Return why a reduction is not supported, None if it is."""
    name, dtype = node.name, node.operand.schema.dtype
    if name not in _STATES:
        return f"{name}: groups are added up and sorted on a device, not multiplied or searched"
    if dtype == np.float16 or (dtype.kind == "c" and name not in ("sum", "mean", "any", "all", "count", "density")):
        return f"{name} of {dtype}"
    if node.options.get("dtype") not in (None, dtype):
        return f"{name} with dtype=: use astype() first"
    if name == "norm" and node.options.get("ord", 2) not in (0, 1, 2, math.inf, -math.inf):
        return f"the norm of order {node.options['ord']}"
    adds = name in ("sum", "nansum", "mean", "nanmean", "var", "std", "nanvar", "nanstd", "norm")
    return order_unsupported_reason(node.schema.dtype) if adds else None


@dataclass(frozen=True, slots=True, eq=False)
class _GroupTable:
    """Groups in host memory: ascending keys, counts, and the states of each node."""

    numbers: NDArray[np.int64]
    counts: NDArray[np.int64]
    states: tuple[State, ...]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (self.numbers, self.counts, *(a for state in self.states for a in state)))

    def take(self, at: Any) -> _GroupTable:
        return _GroupTable(
            self.numbers[at], self.counts[at], tuple(tuple(array[at] for array in state) for state in self.states)
        )


def _reduce_tile(device: Device, nodes: Sequence[Reduce], elements: DeviceCOO) -> _GroupTable:
    """Return the groups of a tile, for reductions to equal axes."""
    node = nodes[0]
    shape = node.operand.schema.shape
    if not elements.count:
        return _empty_groups(nodes)
    groups = Groups(device, project_keys(elements.keys, shape, node.kept_axes))
    values = groups.sort_values(elements.values)
    states = [state for one in nodes for state in _STATES[one.name](device, one, groups, values)]
    moved = tuple(tuple(device.get(array) for array in state) for state in states)
    return _GroupTable(device.get(groups.numbers), device.get(groups.counts), moved)


def _empty_groups(nodes: Sequence[Reduce]) -> _GroupTable:
    """Return an empty table of groups."""
    states = tuple(fold.empty(0) for node in nodes for fold in _folds(node))
    return _GroupTable(np.zeros(0, np.int64), np.zeros(0, np.int64), states)


def _merge_groups(folds: Sequence[Fold], earlier: _GroupTable, later: _GroupTable) -> _GroupTable:
    """Merge the groups of two tiles."""
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
    return _GroupTable(numbers, counts, tuple(states))


def _reduce_scan(device: Device, nodes: Sequence[Reduce], scan: Scan) -> _GroupTable:
    """Return the groups of all elements of a scan of a relation.

    Raises
    ------
    TooLargeError
        If they exceed the memory limit.
    """
    folds = [fold for node in nodes for fold in _folds(node)]
    out: _GroupTable | None = None
    what = f"the groups of a reduction of shape {scan.schema.shape}"
    with memory.reserve(0, what, "reduce a part of the tensor") as room:
        for found in map_tiles(device, scan, lambda elements: _reduce_tile(device, nodes, elements), what):
            if not len(found.numbers):
                continue
            out = found if out is None else _merge_groups(folds, out, found)
            room.resize(0)
            room.grow(3 * out.nbytes)
    return _empty_groups(nodes) if out is None else out


def _results(nodes: Sequence[Reduce], found: _GroupTable) -> list[NDArray[Any]]:
    """Return the result of each reduction for its groups."""
    out, states = [], list(found.states)
    for node in nodes:
        own = [states.pop(0) for _ in _folds(node)]
        totals = GroupCounts(found.counts, node.group_size, node.reduction.fill, node.stored)
        out.append(node.reduction.result(own, totals))
    return out


def reduce_all(device: Device, nodes: Sequence[Reduce], scan: Scan) -> list[Any]:
    """Return reductions of a scan over all axes, as NumPy scalars."""
    found = _reduce_scan(device, nodes, scan)
    pairs = zip(nodes, _results(nodes, found), strict=True)
    return [values[0] if len(values) else node.schema.fill_value for node, values in pairs]


def build_reduction(device: Device, node: Reduce, scans: list[Scan]) -> PhysicalOperator:
    """Return the operator of a reduction, by tiles if the leading axis stays."""
    (scan,) = scans
    schema = node.schema
    if node.axes[:1] == (0,):

        def compute(tile: Tile) -> DeviceCOO:
            found = _reduce_tile(device, [node], tile.elements(scan))
            (values,) = _results([node], found)
            elements = DeviceCOO(device.put(found.numbers), device.put(values))
            return drop_fill(device, elements, schema.fill_value) if elements.count else elements

        return TiledOp(device, node, scans, compute)
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
    return _block(node, _reduce_scan(device, [node], scan))


def _block(node: Reduce, found: _GroupTable) -> Block:
    """Return results as a block."""
    (values,) = _results([node], found)
    stored = ~is_fill(values, node.schema.fill_value)
    at, shape = found.numbers[stored], node.schema.shape
    columns = np.unravel_index(at, shape) if shape else ()
    dtypes = [node.schema.coordinate_dtype(axis) for axis in range(len(shape))]
    return Block(tuple(c.astype(t) for c, t in zip(columns, dtypes, strict=True)), values[stored])
