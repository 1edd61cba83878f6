"""Sums whose order of additions does not depend on who adds which terms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, Protocol, Self, TypeVar

__all__ = ["TreeSum"]


class _Addable(Protocol):
    def __add__(self, other: Any, /) -> Self: ...


T = TypeVar("T", bound=_Addable)


class TreeSum(Generic[T]):
    """Sum of numbered terms, added pairwise as in a binary tree.

    Node k of level l is the sum of terms k * 2^l to (k + 1) * 2^l - 1. Processes that add adjacent ranges of terms
    exchange their nodes, and get the bits of one that adds all.

    Examples
    --------
    >>> left, right, total = TreeSum(), TreeSum(), TreeSum()
    >>> for number in range(5):
    ...     (left if number < 3 else right).add(number, float(number))
    >>> left.nodes, right.nodes
    ([(1, 0, 1.0), (0, 2, 2.0)], [(0, 3, 3.0), (0, 4, 4.0)])
    >>> total.extend(left.nodes + right.nodes)
    >>> total.nodes, total.total()
    ([(2, 0, 6.0), (0, 4, 4.0)], 10.0)
    """

    def __init__(self) -> None:
        self.nodes: list[tuple[int, int, T]] = []
        """Level, number and sum of the largest complete nodes, in the order of their terms."""

    def add(self, number: int, term: T, level: int = 0) -> None:
        """Add a node, by default a term.

        Nodes must come in the order of their terms, without gaps.
        """
        while number % 2 and self.nodes and self.nodes[-1][:2] == (level, number - 1):
            term = self.nodes.pop()[2] + term
            level, number = level + 1, number // 2
        self.nodes.append((level, number, term))

    def extend(self, nodes: Iterable[tuple[int, int, T]]) -> None:
        """Add nodes of other sums, in order."""
        for level, number, term in nodes:
            self.add(number, term, level)

    def total(self) -> T | None:
        """Return the sum of all terms, None if there are none."""
        found: T | None = None
        for _, _, term in reversed(self.nodes):
            found = term if found is None else term + found
        return found
