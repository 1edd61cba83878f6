"""Cost model of contractions: estimated flops and output nnz.

An estimate uses the number of stored elements of each operand and, where they have been counted, the numbers per
coordinate along an axis: skewed axes make many more products than uniform ones.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import RangeAxis
from sparrow.plan.contraction_path import DegreeCounts, Estimate, Path, Step, estimate_steps, optimal_path
from sparrow.plan.nodes import Contraction, Dense, Scan
from sparrow.plan.tuning import tuning
from sparrow.relations.memory import MemoryRelation

__all__ = [
    "CostModel", "DegreeCache", "DegreeCounts", "Estimate", "count_degrees", "degree_cache", "estimate_contraction",
    "estimate_nnz", "estimate_operand", "is_countable", "max_nnz", "outer_nnz",
]  # fmt: skip


class DegreeCache:
    """FIFO cache of counts, bounded in bytes.

    Parameters
    ----------
    counts
        Dictionary that stores them, empty by default.
    """

    def __init__(self, counts: OrderedDict[Hashable, DegreeCounts] | None = None) -> None:
        self._counts: OrderedDict[Hashable, DegreeCounts] = OrderedDict() if counts is None else counts
        self._nbytes = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._counts)

    @property
    def nbytes(self) -> int:
        """Bytes of the counts, overhead included."""
        return self._nbytes

    def get(self, key: Hashable) -> DegreeCounts | None:
        """Return counts, None if there are none."""
        with self._lock:
            return self._counts.get(key)

    def put(self, key: Hashable, counts: DegreeCounts) -> None:
        """Add counts and evict the oldest ones."""
        limits = tuning()
        with self._lock:
            replaced = [self._counts.pop(key)] if key in self._counts else []
            self._counts[key] = counts
            overhead = limits.degree_entry_bytes
            self._nbytes += counts.counts.nbytes + overhead
            self._nbytes -= sum(each.counts.nbytes + overhead for each in replaced)
            while self._nbytes > limits.degree_cache_bytes and len(self._counts) > 1:
                self._nbytes -= self._counts.popitem(last=False)[1].counts.nbytes + overhead

    def clear(self) -> None:
        """Remove all counts."""
        with self._lock:
            self._counts.clear()
            self._nbytes = 0


degree_cache = DegreeCache()
"""The counts that estimates use."""


class CostModel:
    """Estimates of scans and products that look through a limited number of nodes.

    Parameters
    ----------
    depth
        Nodes that are looked through; the tuning parameter ``estimate_depth`` by default.
    """

    __slots__ = ("depth",)

    def __init__(self, depth: int | None = None) -> None:
        self.depth = tuning().estimate_depth if depth is None else depth

    def below(self) -> CostModel:
        """Return the model of the operands of a node, which looks through one node fewer."""
        return CostModel(self.depth - 1)

    def nnz(self, scan: Scan) -> float:
        """Return the estimated number of stored elements of a scan; at most its size."""
        size, node = float(scan.schema.size), scan.step
        if node is None:
            return min(scan.relation.stats(scan.view.box()).inside, size) if scan.view.size else 0.0
        if node.known_nnz is not None:
            return min(float(node.known_nnz), size)
        if self.depth <= 0:
            return size
        return min(node.estimate_nnz(self.below()), size)

    def operand(self, indices: Sequence[Any], scan: Scan) -> Estimate:
        """Return the estimate of an operand without reading files."""
        degrees: dict[Hashable, DegreeCounts] = {}
        if is_countable(scan) and len(set(indices)) == len(indices):
            for axis, (index, along) in enumerate(zip(indices, scan.view.axes, strict=True)):
                columns = None
                if (
                    isinstance(scan.relation, MemoryRelation)
                    and isinstance(along, RangeAxis)
                    and scan.view.is_permutation
                ):
                    columns = [scan.relation.block.coords[along.dim]]
                found = count_degrees(scan, axis, columns)
                if found is not None:
                    degrees[index] = found
        return Estimate.of(indices, self.nnz(scan), scan.schema.shape, degrees)

    def contraction(self, node: Contraction) -> tuple[float, float]:
        """Return the estimated flops and nnz of a contraction; a mask is ignored."""
        arrays = [each for each in node.operands if isinstance(each, Dense)]
        if arrays:
            nnz = sum(map(self.nnz, node.tensors))
            own = {index for each, along in zip(node.operands, node.indices, strict=True)
                   if isinstance(each, Scan) for index in along}  # fmt: skip
            further = {index: n for each, along in zip(node.operands, node.indices, strict=True)
                       for index, n in zip(along, each.schema.shape, strict=True) if index not in own}  # fmt: skip
            return nnz * math.prod(further.values()), float(node.schema.size) if node.schema.is_array else nnz
        steps = self.steps(node)
        return sum(step.flops for step in steps), steps[-1].result.nnz

    def steps(self, node: Contraction) -> list[Step]:
        """Return the pairwise products of a contraction in the cheapest order."""
        terms = [self.operand(own, scan) for own, scan in zip(node.indices, node.tensors, strict=True)]
        path: Path = optimal_path(terms, node.output_indices, node.semiring) if len(terms) > 2 else [(0, 1)]
        return list(estimate_steps(path, terms, node.output_indices, node.semiring))


def estimate_nnz(scan: Scan) -> float:
    """Return the estimated number of stored elements of a scan."""
    return CostModel().nnz(scan)


def estimate_operand(indices: Sequence[Any], scan: Scan) -> Estimate:
    """Return the estimate of an operand of a contraction."""
    return CostModel().operand(indices, scan)


def estimate_contraction(node: Contraction) -> tuple[float, float]:
    """Return the estimated multiplications and stored elements of a contraction."""
    return CostModel().below().contraction(node)


def is_countable(scan: Scan) -> bool:
    """Return whether elements of a relation are few enough to be counted."""
    return scan.step is None and scan.relation.has_exact_counts and scan.relation.nnz <= tuning().counted_elements


def count_degrees(scan: Scan, axis: int, columns: Iterable[NDArray[Any]] | None = None) -> DegreeCounts | None:
    """Return the cached counts per coordinate along an axis, or None.

    Parameters
    ----------
    columns
        The coordinates along the axis, in parts; None if they are not at hand.
    """
    size, key = scan.schema.shape[axis], (scan.source.token, scan.view, axis)
    found = degree_cache.get(key)
    if found is None and columns is not None and size <= tuning().counted_axis_length:
        counts = np.zeros(size, np.int64)
        for part in columns:
            np.add.at(counts, part, 1)
        found = DegreeCounts(counts)
        degree_cache.put(key, found)
    return found


def max_nnz(scan: Scan, order: tuple[int, ...] | None = None) -> int | None:
    """Return an upper bound on the nnz of a scan; None if it must be computed."""
    if scan.step is not None or scan.view.repeats > 1 or scan.view.points:
        return None
    return scan.relation.stats(scan.view.box(), order).rows


def outer_nnz(node: Hashable) -> int | None:
    """Return the number of stored elements of an outer product, underflow aside.

    None for any other node, and if the numbers of the operands are unknown.
    """
    if not isinstance(node, Contraction) or node.mask is not None or node.topk is not None:
        return None
    if len(node.tensors) < len(node.operands):
        return None
    every = [index for own in node.indices for index in own]
    if len(set(every)) < len(every) or set(every) != set(node.output_indices):
        return None
    found = 1
    for scan in node.tensors:
        below = scan.step
        known = below.known_nnz if below is not None else scan.relation.nnz if scan.relation.has_exact_counts else None
        if known is None or not scan.view.is_identity:
            return None
        found *= known
    return found
