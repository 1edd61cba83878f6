"""Contraction paths, by estimated flops and output nnz.

The search minimizes the cost of sparse products. The optimizers of ``opt_einsum`` cannot: they derive costs from dense
sizes of index sets, and an estimate here belongs to an operand.
"""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.plan.semirings import Semiring
from sparrow.plan.tuning import tuning

__all__ = ["DegreeCounts", "Estimate", "Path", "Step", "estimate_steps", "optimal_path", "surviving_indices"]

Path: TypeAlias = "list[tuple[int, ...]]"
"""Positions of the operands of each step among those that are left; a result is appended. As in ``np.einsum_path``."""


class DegreeCounts:
    """Numbers of stored elements at each coordinate along an axis.

    Parameters
    ----------
    counts
        Shape (n,).
    """

    __slots__ = ("__weakref__", "_agreements", "counts", "distinct", "total")

    def __init__(self, counts: NDArray[Any]) -> None:
        self.counts: NDArray[np.float32] = counts.astype(np.float32)
        self.distinct = float(np.count_nonzero(counts))
        self.total = float(counts.sum())
        self._agreements: weakref.WeakKeyDictionary[DegreeCounts, float] = weakref.WeakKeyDictionary()

    def agreement(self, other: DegreeCounts) -> float:
        """Return the probability that elements of both have equal coordinates."""
        found = self._agreements.get(other)
        if found is None:
            both = max(self.total * other.total, 1.0)
            found = self._agreements[other] = other._agreements[self] = float(self.counts @ other.counts) / both
        return found


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated size of an operand of a contraction."""

    indices: tuple[Any, ...]
    nnz: float
    distinct: Mapping[Hashable, float]
    """The number of distinct coordinates along each index."""
    degrees: Mapping[Hashable, DegreeCounts] = field(default_factory=dict)
    """The counts per coordinate along some indices."""

    @classmethod
    def of(
        cls,
        indices: Sequence[Any],
        nnz: float,
        shape: Sequence[int],
        degrees: Mapping[Hashable, DegreeCounts] | None = None,
    ) -> Estimate:
        """Return the estimate of a tensor, uniform along indices without degrees."""
        degrees = degrees or {}
        distinct = {
            index: degrees[index].distinct if index in degrees else min(nnz, float(n))
            for index, n in zip(indices, shape, strict=True)
        }
        return cls(tuple(indices), nnz, distinct, degrees)

    def times(self, other: Estimate, output_indices: Sequence[Any]) -> tuple[float, Estimate]:
        """Return the estimated flops of a product, and its estimate."""
        flops = self.nnz * other.nnz
        for k in set(self.indices) & set(other.indices):
            if k in self.degrees and k in other.degrees:
                flops *= self.degrees[k].agreement(other.degrees[k])
            else:
                flops /= max(self.distinct[k], other.distinct[k], 1.0)
        sides = {
            k: min((own for own in (self, other) if k in own.distinct), key=lambda own: own.distinct[k])
            for k in output_indices
        }
        size = math.prod(own.distinct[k] for k, own in sides.items())
        nnz = min(flops, size * -math.expm1(-flops / size)) if size else 0.0
        distinct = {k: min(nnz, own.distinct[k]) for k, own in sides.items()}
        return flops, Estimate(
            tuple(output_indices), nnz, distinct, {k: own.degrees[k] for k, own in sides.items() if k in own.degrees}
        )


@dataclass(frozen=True, slots=True)
class Step:
    """One product of a contraction path."""

    operands: tuple[tuple[Any, ...], tuple[Any, ...]]
    """The indices of both operands, in the order in which they were given."""
    flops: float
    result: Estimate


def surviving_indices(
    left: Sequence[Any],
    right: Sequence[Any],
    rest: Sequence[Sequence[Any]],
    output_indices: Sequence[Any],
    semiring: Semiring,
) -> tuple[Any, ...]:
    """Return the indices of a product that later operands or the output need.

    Parameters
    ----------
    left, right, rest
        The indices of the two, and of each other operand.
    output_indices
        The indices of the final result.
    semiring
        If it does not distribute, all indices survive until the last product.

    Examples
    --------
    >>> from sparrow.plan import as_semiring
    >>> surviving_indices("ij", "jk", ["kl"], "il", as_semiring("plus_times"))
    ('i', 'k')
    """
    if not rest:
        return tuple(output_indices)
    found = tuple(dict.fromkeys((*left, *right)))
    if not semiring.reorderable:
        return found
    needed = set(output_indices).union(*rest)
    return tuple(index for index in found if index in needed)


def optimal_path(
    estimates: Sequence[Estimate], output_indices: Sequence[Hashable], semiring: Semiring, exhaustive: bool = True
) -> Path:
    """Return the path with the lowest estimated cost.

    Parameters
    ----------
    estimates
        One per operand.
    output_indices
        The indices of the result.
    semiring
        A reorderable one.
    exhaustive
        Try all orders of few operands; otherwise take the cheapest step each time.
    """
    if exhaustive and len(estimates) <= tuning().optimal_path_operands:
        order = _dynamic_programming(estimates, output_indices, semiring)
    else:
        order = _greedy(estimates, output_indices, semiring)
    names = list(range(len(estimates)))
    path: Path = []
    for number, pair in enumerate(order, len(estimates)):
        path.append(tuple(sorted(names.index(k) for k in pair)))
        names = [*(k for k in names if k not in pair), number]
    return path


def _greedy(estimates: Sequence[Estimate], last: Sequence[Hashable], semiring: Semiring) -> list[tuple[int, int]]:
    """Take the cheapest step each time; pairs of operands in SSA form."""
    order: list[tuple[int, int]] = []
    left = dict(enumerate(estimates))
    while len(left) > 1:
        tried = {}
        for a, b in itertools.combinations(left, 2):
            rest = [left[k].indices for k in left if k not in (a, b)]
            out = surviving_indices(left[a].indices, left[b].indices, rest, last, semiring)
            tried[a, b] = left[a].times(left[b], out)
        pair = min(tried, key=lambda pair: tried[pair][0] + tried[pair][1].nnz)
        found = tried[pair][1]
        order.append(pair)
        for k in pair:
            del left[k]
        left[len(estimates) + len(order) - 1] = found
    return order


def _dynamic_programming(
    estimates: Sequence[Estimate], last: Sequence[Hashable], semiring: Semiring
) -> list[tuple[int, int]]:
    """Search all orders by dynamic programming; pairs in SSA form."""
    count = len(estimates)
    best: dict[int, tuple[float, Estimate, tuple[int, int] | None]] = {
        1 << k: (0.0, each, None) for k, each in enumerate(estimates)
    }
    everything = (1 << count) - 1
    for size in range(2, count + 1):
        for members in itertools.combinations(range(count), size):
            whole = sum(1 << k for k in members)
            rest = [estimates[k].indices for k in range(count) if k not in members]
            part = (whole - 1) & whole
            while part:
                other = whole ^ part
                if part < other:
                    (spent, a, _), (more, b, _) = best[part], best[other]
                    out = surviving_indices(a.indices, b.indices, rest, last, semiring)
                    cost, found = a.times(b, out)
                    total = spent + more + cost + found.nnz
                    if whole not in best or total < best[whole][0]:
                        best[whole] = total, found, (part, other)
                part = (part - 1) & whole
    order: list[tuple[int, int]] = []

    def number(whole: int) -> int:
        pair = best[whole][2]
        if pair is None:
            return whole.bit_length() - 1
        own = number(pair[0]), number(pair[1])
        order.append(own)
        return count + len(order) - 1

    number(everything)
    return order


def estimate_steps(
    path: Path, estimates: Sequence[Estimate], output_indices: Sequence[Any], semiring: Semiring
) -> Iterator[Step]:
    """Yield the steps of a path of pairs, with their estimates.

    Parameters
    ----------
    estimates
        One per operand.
    output_indices
        The indices of the result.
    """
    left = list(enumerate(estimates))
    for step in path:
        pair = sorted((left[k] for k in step), key=itemgetter(0))
        left = [each for k, each in enumerate(left) if k not in step]
        for (at, one), (_, other) in [pair] if len(pair) == 2 else []:
            rest = [each.indices for _, each in left]
            out = surviving_indices(one.indices, other.indices, rest, output_indices, semiring)
            flops, found = one.times(other, out)
            yield Step((one.indices, other.indices), flops, found)
            left.append((at, found))
