"""The order of the steps of an einsum: which two operands are multiplied next, by estimates of their products."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from typing import Any, TypeAlias

from sparrow.plan.estimates import Estimate
from sparrow.plan.semirings import Semiring

__all__ = ["Path", "optimal_path", "surviving_indices"]

Path: TypeAlias = "list[tuple[int, ...]]"
"""Steps: the positions of the operands of each among those that are left; a result comes last."""

_SEARCHED = 7
"""Operands of which every order is looked at; of more the cheapest step is taken each time."""


def surviving_indices(
    one: Sequence[Any], other: Sequence[Any], rest: Sequence[Sequence[Any]], out: Sequence[Any], semiring: Semiring
) -> tuple[Any, ...]:
    """Return the letters of the product of two operands: those that others have, all where nothing is summed first.

    Parameters
    ----------
    one, other, rest
        The letters of the two, and of each of the others.
    out
        Those of the last result.

    Examples
    --------
    >>> from sparrow.plan import semiring_of
    >>> kept("ij", "jk", ["kl"], "il", semiring_of("plus_times"))
    ('i', 'k')
    """
    if not rest:
        return tuple(out)
    found = tuple(dict.fromkeys((*one, *other)))
    if not semiring.reorderable:
        return found
    needed = set(out).union(*rest)
    return tuple(letter for letter in found if letter in needed)


def optimal_path(
    estimates: Sequence[Estimate], out: Sequence[Hashable], semiring: Semiring,
    every: bool = True,
) -> Path:  # fmt: skip
    """Return the steps with the fewest products expected.

    Parameters
    ----------
    estimates
        What is known of each operand.
    out
        The letters of the result.
    semiring
        One that may be re-ordered.
    every
        Whether all orders are looked at where operands are few, not the cheapest step each time.
    """
    if every and len(estimates) <= _SEARCHED:
        order = _searched(estimates, out, semiring)
    else:
        order = _greedy(estimates, out, semiring)
    names = list(range(len(estimates)))
    path: Path = []
    for number, pair in enumerate(order, len(estimates)):
        path.append(tuple(sorted(names.index(k) for k in pair)))
        names = [*(k for k in names if k not in pair), number]
    return path


def _greedy(estimates: Sequence[Estimate], last: Sequence[Hashable], semiring: Semiring) -> list[tuple[int, int]]:
    """Return the cheapest step each time: pairs of operands, results numbered after them."""
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


def _searched(estimates: Sequence[Estimate], last: Sequence[Hashable], semiring: Semiring) -> list[tuple[int, int]]:
    """Return the best order of all, by subsets: pairs of operands, results numbered after them."""
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
