"""How many products a contraction takes and how many entries come out: estimates from what is known of operands.

That is the number of their entries and, where somebody counted them, how many there are at each coordinate along an
axis: where a few coordinates have most of the entries there are many times more products.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import RangeAxis
from sparrow.plan.nodes import Product, Scan
from sparrow.relations.base import MemoryRelation

__all__ = [
    "DegreeCounts",
    "Estimate",
    "count_degrees",
    "estimate_nnz",
    "estimate_operand",
    "estimate_product",
    "is_countable",
    "max_nnz",
    "outer_nnz",
]  # fmt: skip

_DEEPEST = 6
"""Steps that an estimate looks through; below, a step may have all of its cells."""
_WIDEST = 1 << 22
"""Coordinates along an axis, up to which it is counted how many entries each has."""
_MOST = 1 << 24
"""Entries that are counted."""
_KEPT = 1 << 26
"""Bytes of counts that are kept..."""
_BESIDE = 1 << 9
"""... each taken for so many more."""


class DegreeCounts:
    """How many entries there are at each coordinate along an axis.

    Parameters
    ----------
    counts
        Of each coordinate.
    """

    __slots__ = ("__weakref__", "_agreements", "counts", "different", "total")

    def __init__(self, counts: NDArray[Any]) -> None:
        self.counts: NDArray[np.float32] = counts.astype(np.float32)
        self.different = float(np.count_nonzero(counts))
        self.total = float(counts.sum())
        self._agreements: weakref.WeakKeyDictionary[DegreeCounts, float] = weakref.WeakKeyDictionary()

    def agreement(self, other: DegreeCounts) -> float:
        """Return the chance that an entry of one and an entry of the other have the same coordinate."""
        found = self._agreements.get(other)
        if found is None:
            both = max(self.total * other.total, 1.0)
            found = self._agreements[other] = other._agreements[self] = float(self.counts @ other.counts) / both
        return found


_known: OrderedDict[Hashable, DegreeCounts] = OrderedDict()
_held = 0
"""Bytes of these."""
_lock = threading.Lock()


def _keep(key: Hashable, found: DegreeCounts) -> None:
    """Keep counts, in the place of the oldest where they are too many."""
    global _held
    with _lock:
        given_up = [_known.pop(key)] if key in _known else []
        _known[key] = found
        _held += found.counts.nbytes + _BESIDE - sum(each.counts.nbytes + _BESIDE for each in given_up)
        while _held > _KEPT and len(_known) > 1:
            _held -= _known.popitem(last=False)[1].counts.nbytes + _BESIDE


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is expected of an operand."""

    indices: tuple[Any, ...]
    nnz: float
    different: Mapping[Hashable, float]
    """How many different coordinates there are along each letter."""
    degrees: Mapping[Hashable, DegreeCounts] = field(default_factory=dict)
    """How many entries there are at each coordinate along some letters."""

    @classmethod
    def of(
        cls,
        letters: Sequence[Any],
        nnz: float,
        shape: Sequence[int],
        degrees: Mapping[Hashable, DegreeCounts] | None = None,
    ) -> Estimate:
        """Return what is expected of so many entries in a shape: anywhere along letters without degrees."""
        degrees = degrees or {}
        different = {
            letter: degrees[letter].different if letter in degrees else min(nnz, float(n))
            for letter, n in zip(letters, shape, strict=True)
        }
        return cls(tuple(letters), nnz, different, degrees)

    def times(self, other: Estimate, out: Sequence[Any]) -> tuple[float, Estimate]:
        """Return the number of products of two operands, and what is expected of the result."""
        products = self.nnz * other.nnz
        for k in set(self.indices) & set(other.indices):
            if k in self.degrees and k in other.degrees:
                products *= self.degrees[k].agreement(other.degrees[k])
            else:
                products /= max(self.different[k], other.different[k], 1.0)
        sides = {k: min((own for own in (self, other) if k in own.different), key=lambda own: own.different[k])
                 for k in out}  # fmt: skip
        cells = math.prod(own.different[k] for k, own in sides.items())
        nnz = min(products, cells * -math.expm1(-products / cells)) if cells else 0.0
        different = {k: min(nnz, own.different[k]) for k, own in sides.items()}
        return products, Estimate(
            tuple(out), nnz, different, {k: own.degrees[k] for k, own in sides.items() if k in own.degrees}
        )


def is_countable(scan: Scan) -> bool:
    """Return whether the entries of a scan, of files or of memory, are few enough to be counted along their axes."""
    return scan.step is None and scan.relation.exact and scan.relation.nnz <= _MOST


def count_degrees(scan: Scan, axis: int, columns: Iterable[NDArray[Any]] | None = None) -> DegreeCounts | None:
    """Return how many entries a scan has at each coordinate along an axis, which is kept; None if nobody counted.

    Parameters
    ----------
    columns
        The coordinates along the axis, in parts; None where they are not at hand.
    """
    size, key = scan.schema.shape[axis], (scan.source.token, scan.view, axis)
    with _lock:
        found = _known.get(key)
    if found is None and columns is not None and size <= _WIDEST:
        counts = np.zeros(size, np.int64)
        for part in columns:
            np.add.at(counts, part, 1)
        found = DegreeCounts(counts)
        _keep(key, found)
    return found


def estimate_operand(letters: Sequence[Any], scan: Scan, depth: int = _DEEPEST) -> Estimate:
    """Return what is known of an operand without reading files: entries in memory are counted along their axes."""
    degrees: dict[Hashable, DegreeCounts] = {}
    if is_countable(scan) and len(set(letters)) == len(letters):
        for axis, (letter, along) in enumerate(zip(letters, scan.view.axes, strict=True)):
            columns = None
            if isinstance(scan.relation, MemoryRelation) and isinstance(along, RangeAxis) and scan.view.is_permutation:
                columns = [scan.relation.block.coords[along.dim]]
            found = count_degrees(scan, axis, columns)
            if found is not None:
                degrees[letter] = found
    return Estimate.of(letters, estimate_nnz(scan, depth), scan.schema.shape, degrees)


def estimate_product(node: Product, depth: int = _DEEPEST) -> tuple[float, float]:
    """Return about how many products a node takes and how many entries it has; a mask is not looked at."""
    sides = []
    for scan, letters in zip((node.left, node.right), node.indices, strict=True):
        sides.append(estimate_operand(letters, scan, depth - 1))
    products, found = sides[0].times(sides[1], node.output_indices)
    return products, found.nnz


def max_nnz(scan: Scan, order: tuple[int, ...] | None = None) -> int | None:
    """Return the most entries that a scan may have in an order; None where that shows only when it is computed."""
    if scan.step is not None or scan.view.repeats > 1 or scan.view.points:
        return None
    return scan.relation.stats(scan.view.box(), order).rows


def outer_nnz(step: Hashable) -> int | None:
    """Return how many entries a product has of which nothing is summed, but for those too small to differ from fill.

    None of any other step, and where the entries of its operands are not known.
    """
    if not isinstance(step, Product) or step.mask is not None:
        return None
    left, right = (set(letters) for letters in step.indices)
    if left & right or left | right != set(step.output_indices):
        return None
    found = 1
    for scan in (step.left, step.right):
        below = scan.step
        known = below.known_nnz if below is not None else scan.relation.nnz if scan.relation.exact else None
        if known is None or not scan.view.is_identity:
            return None
        found *= known
    return found


def estimate_nnz(scan: Scan, depth: int = _DEEPEST) -> float:
    """Return about how many entries a scan has: of a step that is no product at most those of what it reads."""
    cells, step = float(scan.schema.size), scan.step
    if step is None:
        return min(scan.relation.stats(scan.view.box()).inside, cells) if scan.view.size else 0.0
    if step.known_nnz is not None:
        return min(float(step.known_nnz), cells)
    if depth <= 0:
        return cells
    if isinstance(step, Product):
        return min(estimate_product(step, depth)[1], cells)
    return min(sum(estimate_nnz(below, depth - 1) for below in step.scans), cells)
