"""Reductions: those of one scan by the same groups share it; what was found is kept with them."""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from sparrow.core.schema import is_fill
from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.groupby import GroupBy, GroupState, first_extreme, is_in_flat_order
from sparrow.engines.stream.marginals import marginals_of
from sparrow.engines.stream.operator import PhysicalOperator, ReadRange, holding
from sparrow.errors import InvalidValueError
from sparrow.kernels.coo import Block
from sparrow.kernels.folds import ExtremumFold, Fold, UfuncFold
from sparrow.plan import Node, Reduce, Scan
from sparrow.plan.aggregates import GroupCounts

__all__ = ["FusedReductions", "group_by_scan", "reduced_cells", "scalars"]

_Array: TypeAlias = NDArray[Any]

_lock = threading.Lock()
_kept: WeakKeyDictionary[Node, tuple[FusedReductions, int]] = WeakKeyDictionary()
"""The groups of reductions, for as long as these are there: computing a result again reads nothing."""


class FusedReductions:
    """Reductions of one scan to the same axes, computed by one pass over it.

    Parameters
    ----------
    nodes
        Reductions of equal operands and axes.
    scan
        Their operand, of a relation.
    """

    def __init__(self, nodes: Sequence[Reduce], scan: Scan) -> None:
        self._meanings = [node.reduction for node in nodes]
        folds: dict[str, Fold] = {}
        for meaning in self._meanings:
            folds.update(meaning.folds)
        counted = (
            not folds
            or not all(isinstance(fold, UfuncFold) for fold in folds.values())
            or any(meaning.needs_counts or meaning.fill != 0 for meaning in self._meanings)
            or any(node.stored for node in nodes)
        )
        self._slots = {key: k for k, key in enumerate(folds)}
        kept = nodes[0].kept_axes
        self._scan = scan
        self.grouping = GroupBy(scan, kept, list(folds.values()), counted, nodes[0].axes[:1] == kept[:1])

    # Nodes are given, not kept: this is kept for as long as they are there.

    def scalar(self, number: int, node: Reduce) -> Any:
        """Return the one result of a reduction over all axes, by its number among the nodes."""
        return [*self._answered(number, node, self.grouping.between(0, 1), 1), node.schema.fill_value][0]

    def computed(self, number: int, node: Reduce) -> PhysicalOperator:
        """Return the entries of a reduction, by its number among the nodes."""
        schema = node.schema
        marginals = marginals_of(node, self._scan) if len(self._meanings) == 1 else None

        def cuts() -> Sequence[int]:
            if marginals is None or marginals.values() is None:
                return self.grouping.cuts()
            return [0, *schema.shape]

        def evaluate(start: int, stop: int) -> Block:
            sums = None if marginals is None else marginals.values()
            if sums is not None:
                (at,) = np.nonzero(sums[start:stop])
                at += start
                return Block((at.astype(schema.coordinate_dtype(0)),), sums[at])
            groups = self.grouping.between(start, stop)
            values = self._answered(number, node, groups, (stop - start) * math.prod(schema.shape[1:]))
            columns = iter(groups.coords)
            coords = tuple(np.zeros(len(values), np.int32) if k is None else next(columns) for k in node.axes)
            block = Block(coords, values)
            absent = is_fill(values, schema.fill_value)
            return block.take(~absent) if np.count_nonzero(absent) else block

        def begin(first: int, last: int) -> ReadRange:
            return holding(self.grouping.pin(first, last), evaluate)

        if marginals is None:
            return PhysicalOperator(node, [self._scan], cuts, evaluate, begin=begin if schema.shape else None)
        return PhysicalOperator(node, marginals.scans, cuts, evaluate, most=lambda start, stop: stop - start)

    def _answered(self, number: int, node: Reduce, groups: GroupState, size: int) -> _Array:
        """Return the results of the groups that have entries, of ``size`` in all."""
        meaning = self._meanings[number]
        totals = GroupCounts(groups.counts, node.group_size, meaning.fill, node.stored)
        values = meaning.result([groups.states[self._slots[key]] for key in meaning.folds], totals)
        lacks = len(values) < size and node.schema.fill_value < 0
        if meaning.no_position_message and not node.stored and (lacks or (values < 0).any()):
            raise InvalidValueError(meaning.no_position_message)
        return values


def group_by_scan(steps: Iterable[Node]) -> list[list[Reduce]]:
    """Return the reductions among steps in groups that one scan computes, adding up in the same order as alone."""
    groups: dict[Hashable, list[Reduce]] = defaultdict(list)
    for step in steps:
        if isinstance(step, Reduce):
            scan = step.operand
            folds = step.reduction.folds.values()
            way = all(fold.scatters for fold in folds), any(fold.needs_positions for fold in folds)
            groups[scan.source.token, scan.view, step.axes, str(step.options.get("dtype")), way].append(step)
    return list(groups.values())


def reduced_cells(nodes: Sequence[Reduce], scan: Scan) -> list[PhysicalOperator]:
    """Return the entries of reductions that share a scan, of a relation."""
    with _lock:
        together = _kept.get(nodes[0], (None, 0))[0]
        if together is None or any(_kept.get(node) != (together, k) for k, node in enumerate(nodes)):
            together = FusedReductions(nodes, scan)
            for k, node in enumerate(nodes):
                _kept[node] = together, k
    return [together.computed(k, node) for k, node in enumerate(nodes)]


def scalars(nodes: Sequence[Reduce], scan: Scan) -> list[Any]:
    """Return reductions over all axes of one scan, of a relation, as NumPy scalars."""
    if len(nodes) == 1:
        (node,) = nodes
        if node.name == "count":
            return [np.int64(scan_reader.count_nnz(scan))]
        found = _total(node, scan)
        if found is not None:
            return [found]
        marginals = marginals_of(node, scan)
        sums = None if marginals is None else marginals.values()
        if sums is not None:
            return [sums[0]]
        if node.name in ("argmin", "argmax") and not node.stored and scan.schema.size and not is_in_flat_order(scan):
            return [np.int64(first_extreme(scan, ExtremumFold(scan.schema.dtype, node.name == "argmax")))]
    together = FusedReductions(nodes, scan)
    return [together.scalar(k, node) for k, node in enumerate(nodes)]


def _total(node: Reduce, scan: Scan) -> Any:
    """Return a sum of all entries that is had without them, None where it is not."""
    relation = scan.relation
    if not isinstance(relation, PhysicalOperator) or node.name != "sum" or not scan.view.is_identity:
        return None
    alike = node.schema.dtype == scan.schema.dtype and scan.schema.fill_value == 0
    return relation.total() if alike else None
