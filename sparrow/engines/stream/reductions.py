"""Operators of reductions; those of one scan to the same axes are fused."""

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
from sparrow.engines.profile import active
from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.capabilities import Cursor, SumPushdown
from sparrow.engines.stream.groupby import GroupBy, GroupState, first_extreme, is_in_flat_order
from sparrow.engines.stream.marginals import MarginalSums, find_marginal_sums
from sparrow.engines.stream.operator import PhysicalOperator
from sparrow.errors import InvalidValueError
from sparrow.kernels.coo import Block
from sparrow.kernels.folds import ExtremumFold, Fold, UfuncFold
from sparrow.plan import Node, Reduce, Scan
from sparrow.plan.aggregates import GroupCounts

__all__ = ["FusedReductions", "GroupByOp", "build_reductions", "group_by_scan", "scalars"]

_Array: TypeAlias = NDArray[Any]

_lock = threading.Lock()
_known: WeakKeyDictionary[Node, tuple[FusedReductions, int]] = WeakKeyDictionary()
"""Groups of reductions while their nodes exist: evaluating a reduction again reads nothing."""


class FusedReductions:
    """Reductions of one scan to the same axes, computed by one pass.

    Methods take the node, which this object does not reference: it lives as long as the nodes do.

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
        self.scan = scan
        self.groups = GroupBy(scan, kept, list(folds.values()), counted, nodes[0].axes[:1] == kept[:1])

    @property
    def is_single(self) -> bool:
        """True if there is one reduction."""
        return len(self._meanings) == 1

    def scalar(self, number: int, node: Reduce) -> Any:
        """Return the result of a reduction over all axes, by position of its node."""
        return [*self.finish(number, node, self.groups.read(0, 1), 1), node.schema.fill_value][0]

    def operator(self, number: int, node: Reduce) -> GroupByOp:
        """Return the operator of a reduction, given its position among the nodes."""
        marginals = find_marginal_sums(node, self.scan) if self.is_single else None
        return GroupByOp(self, number, node) if marginals is None else MarginalSumOp(self, number, node, marginals)

    def finish(self, number: int, node: Reduce, groups: GroupState, size: int) -> _Array:
        """Return the results of groups, of ``size`` output elements in all."""
        meaning = self._meanings[number]
        totals = GroupCounts(groups.counts, node.group_size, meaning.fill, node.stored)
        values = meaning.result([groups.states[self._slots[key]] for key in meaning.folds], totals)
        lacks = len(values) < size and node.schema.fill_value < 0
        if meaning.no_position_message and not node.stored and (lacks or (values < 0).any()):
            raise InvalidValueError(meaning.no_position_message)
        return values


class GroupByOp(PhysicalOperator):
    """A reduction over some axes.

    Parameters
    ----------
    fused
        The reductions that share its pass.
    number
        Its position among them.
    node
        The reduction.
    children
        Scans that it reads, by default the operand.
    """

    node: Reduce

    def __init__(
        self, fused: FusedReductions, number: int, node: Reduce, children: Sequence[Scan] | None = None
    ) -> None:
        super().__init__(node, [fused.scan] if children is None else children)
        self._fused, self._number = fused, number

    @property
    def groups(self) -> GroupBy | None:
        """The groups of its pass, None if several reductions share them."""
        return self._fused.groups if self._fused.is_single else None

    def partitions(self) -> Sequence[int]:
        """Return bounds between which groups fit in memory."""
        return self._fused.groups.partitions()

    def open(self, start: int, stop: int) -> Cursor:
        """Open a cursor that keeps those of the operand open."""
        return _GroupByCursor(self, self._fused.groups.pin(start, stop))

    def strategy(self) -> str | None:
        """Return the grouping strategy."""
        return self._fused.groups.strategy

    def compute_small(self) -> Block:
        """Return all elements, without a cursor."""
        return self.aggregate(0, self.schema.shape[0] if self.schema.shape else 1)

    def aggregate(self, start: int, stop: int) -> Block:
        """Return the elements of rows [start, stop)."""
        node, schema = self.node, self.schema
        groups = self._fused.groups.read(start, stop)
        values = self._fused.finish(self._number, node, groups, (stop - start) * math.prod(schema.shape[1:]))
        columns = iter(groups.coords)
        coords = tuple(np.zeros(len(values), np.int32) if k is None else next(columns) for k in node.axes)
        block = Block(coords, values)
        absent = is_fill(values, schema.fill_value)
        return block.take(~absent) if np.count_nonzero(absent) else block


class _GroupByCursor:
    __slots__ = ("_operator", "_pin")

    def __init__(self, operator: GroupByOp, pin: object) -> None:
        self._operator, self._pin = operator, pin

    def read(self, start: int, stop: int) -> Block:
        """Return the elements of rows [start, stop)."""
        return self._operator.aggregate(start, stop)


class MarginalSumOp(GroupByOp):
    """The sum of a product along an axis, without forming it if sums are finite."""

    def __init__(self, fused: FusedReductions, number: int, node: Reduce, marginals: MarginalSums) -> None:
        super().__init__(fused, number, node, marginals.scans)
        self._marginals = marginals

    @property
    def groups(self) -> None:
        """None: sums of a product may need none."""

    def partitions(self) -> Sequence[int]:
        """Return the bounds of partitions: one, unless the product has to be formed."""
        return super().partitions() if self._marginals.values() is None else [0, *self.schema.shape]

    def max_rows(self, start: int, stop: int) -> int:
        """Return an upper bound on the nnz of rows [start, stop)."""
        return stop - start

    def strategy(self) -> str | None:
        """Return the summation strategy."""
        return super().strategy() if self._marginals.values() is None else "marginal_sums"

    def aggregate(self, start: int, stop: int) -> Block:
        """Return the elements of rows [start, stop)."""
        sums = self._marginals.values()
        if sums is None:
            return super().aggregate(start, stop)
        (at,) = np.nonzero(sums[start:stop])
        at += start
        return Block((at.astype(self.schema.coordinate_dtype(0)),), sums[at])


def group_by_scan(steps: Iterable[Node]) -> list[list[Reduce]]:
    """Return reductions in groups that one pass computes with the same bits."""
    groups: dict[Hashable, list[Reduce]] = defaultdict(list)
    for step in steps:
        if isinstance(step, Reduce):
            scan = step.operand
            folds = step.reduction.folds.values()
            way = all(fold.scatters for fold in folds), any(fold.needs_positions for fold in folds)
            groups[scan.source.token, scan.view, step.axes, str(step.options.get("dtype")), way].append(step)
    return list(groups.values())


def build_reductions(nodes: Sequence[Reduce], scan: Scan) -> list[GroupByOp]:
    """Return the operators of reductions that share a scan, of a relation."""
    with _lock:
        fused = _known.get(nodes[0], (None, 0))[0]
        if fused is None or any(_known.get(node) != (fused, k) for k, node in enumerate(nodes)):
            fused = FusedReductions(nodes, scan)
            for k, node in enumerate(nodes):
                _known[node] = fused, k
    return [fused.operator(k, node) for k, node in enumerate(nodes)]


def scalars(nodes: Sequence[Reduce], scan: Scan) -> list[Any]:
    """Return reductions over all axes of one scan, of a relation, as NumPy scalars."""
    profile = active()
    if profile is None:
        return _scalars(nodes, scan)[0]
    counters = profile.operator(nodes[0])
    with counters.measure():
        found, strategy = _scalars(nodes, scan)
    counters.record(rows=len(nodes), bytes=sum(value.nbytes for value in found), partitions=1, strategy=strategy)
    return found


def _scalars(nodes: Sequence[Reduce], scan: Scan) -> tuple[list[Any], str | None]:
    """Return the results and the name of the strategy."""
    if len(nodes) == 1:
        (node,) = nodes
        if node.name == "count":
            return [np.int64(scan_reader.count_nnz(scan))], "count"
        total = _pushed_down_sum(node, scan)
        if total is not None:
            return [total], "sum_pushdown"
        marginals = find_marginal_sums(node, scan)
        sums = None if marginals is None else marginals.values()
        if sums is not None:
            return [sums[0]], "marginal_sums"
        if node.name in ("argmin", "argmax") and not node.stored and scan.schema.size and not is_in_flat_order(scan):
            extreme = first_extreme(scan, ExtremumFold(scan.schema.dtype, node.name == "argmax"))
            return [np.int64(extreme)], "two_passes"
    fused = FusedReductions(nodes, scan)
    return [fused.scalar(k, node) for k, node in enumerate(nodes)], fused.groups.strategy


def _pushed_down_sum(node: Reduce, scan: Scan) -> Any:
    """Return a sum that an operator computes without materializing, else None."""
    relation = scan.relation
    if not isinstance(relation, SumPushdown) or node.name != "sum" or not scan.view.is_identity:
        return None
    is_same = node.schema.dtype == scan.schema.dtype and scan.schema.fill_value == 0
    return relation.sum() if is_same else None
