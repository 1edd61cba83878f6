"""Contraction paths of einsum, by estimated flops and output nnz.

The search minimizes the cost of sparse products. The optimizers of ``opt_einsum`` cannot: they derive costs from dense
sizes of index sets, and an estimate here belongs to an operand.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from typing import Any, TypeAlias

from sparrow.plan.estimates import Estimate
from sparrow.plan.semirings import Semiring
from sparrow.plan.tuning import tuning

__all__ = ["Path", "optimal_path", "surviving_indices"]

Path: TypeAlias = "list[tuple[int, ...]]"
"""Positions of the operands of each step among those that are left; a result is appended. As in ``np.einsum_path``."""


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
