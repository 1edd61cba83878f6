"""How many products a contraction takes and how many entries come out: estimates from numbers of entries alone."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparrow.plan.nodes import Product, Scan

__all__ = ["Estimate", "entries_at_most", "entries_expected", "products_expected"]

_DEEPEST = 6
"""Steps that an estimate looks through; below, a step may have all of its cells."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is expected of an operand."""

    letters: tuple[Any, ...]
    nnz: float
    different: Mapping[Hashable, float]
    """How many different coordinates there are along each letter."""

    @classmethod
    def of(cls, letters: Sequence[Any], nnz: float, shape: Sequence[int]) -> Estimate:
        """Return what is expected of so many entries anywhere in a shape."""
        return cls(tuple(letters), nnz, {letter: min(nnz, float(n)) for letter, n in zip(letters, shape, strict=True)})

    def times(self, other: Estimate, out: Sequence[Any], sizes: Mapping[Any, int]) -> tuple[float, Estimate]:
        """Return the number of products of two operands, and what is expected of the result."""
        shared = set(self.letters) & set(other.letters)
        chance = math.prod(max(self.different[k], other.different[k], 1.0) for k in shared)
        products = self.nnz * other.nnz / chance
        both = {k: min(own.different[k] for own in (self, other) if k in own.different) for k in out}
        cells = math.prod(float(sizes[k]) for k in out)
        nnz = min(products, cells * -math.expm1(-products / cells)) if cells else 0.0
        return products, Estimate(tuple(out), nnz, {k: min(nnz, n) for k, n in both.items()})


def products_expected(node: Product, depth: int = _DEEPEST) -> tuple[float, float]:
    """Return about how many products a node takes and how many entries it has; a mask is not looked at."""
    sides = []
    sizes: dict[int, int] = {}
    for scan, letters in zip((node.left, node.right), node.letters, strict=True):
        sizes |= dict(zip(letters, scan.schema.shape, strict=True))
        sides.append(Estimate.of(letters, entries_expected(scan, depth - 1), scan.schema.shape))
    products, found = sides[0].times(sides[1], node.out, sizes)
    return products, found.nnz


def entries_at_most(scan: Scan, order: tuple[int, ...] | None = None) -> int | None:
    """Return the most entries that a scan may have in an order; None where that shows only when it is computed."""
    if scan.step is not None or scan.view.repeats > 1 or scan.view.points:
        return None
    return scan.relation.stats(scan.view.box(), order).rows


def entries_expected(scan: Scan, depth: int = _DEEPEST) -> float:
    """Return about how many entries a scan has: of a step that is no product at most those of what it reads."""
    cells, step = float(scan.schema.size), scan.step
    if step is None:
        return min(float(scan.relation.stats(scan.view.box()).rows), cells) if scan.view.size else 0.0
    if step.known_nnz is not None:
        return min(float(step.known_nnz), cells)
    if depth <= 0:
        return cells
    if isinstance(step, Product):
        return min(products_expected(step, depth)[1], cells)
    return min(sum(entries_expected(below, depth - 1) for below in step.scans), cells)
