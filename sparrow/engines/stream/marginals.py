"""Sums of a product of matrices along its axes, without the product: what is summed away goes into vectors first.

``(A @ B).sum(axis=1)`` is ``A @ (B @ ones)``. Integers modulo 2^64 come out the same, floats to rounding; where NaN,
infinity or an overflow on the way shows in the result the product is formed after all, so those are as if it were.
Cells that overflow and whose factors cancel do not show: their sum is that of numbers without bounds.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.stream.operator import PhysicalOperator
from sparrow.engines.stream.product.chain import ChainMatMulOp
from sparrow.engines.stream.product.dense import matmul_dense
from sparrow.plan import Dense, MatMulDense, Product, Reduce, Scan

__all__ = ["Marginals", "marginals_of"]

_SPREAD = 4
"""Cells along an axis for each entry, up to which a vector is worth its room."""
_FEW = 1 << 16
"""Cells along an axis that are never too many."""


class Marginals:
    """The sums of a product of two matrices along one axis or both, computed once.

    Parameters
    ----------
    product
        Of two matrices, under plus and times and no mask.
    scans
        Its operands, of relations.
    kept
        The axes of the result that stay, at most one.
    """

    def __init__(self, product: Product, scans: Sequence[Scan], kept: Sequence[int]) -> None:
        self.scans = tuple(scans)
        self._product, self._kept = product, tuple(kept)
        self._lock = threading.Lock()
        self._found: tuple[NDArray[Any] | None] | None = None

    def values(self) -> NDArray[Any] | None:
        """Return the sums by coordinate, shape (1,) if no axis stays; None where the product has to be formed."""
        with self._lock:
            if self._found is None:
                with np.errstate(all="ignore"):
                    out = self._computed()
                self._found = (out if out.dtype.kind in "iu" or bool(np.isfinite(out).all()) else None,)
            return self._found[0]

    def _computed(self) -> NDArray[Any]:
        product, dtype = self._product, self._product.schema.dtype
        first = 1 if self._kept and product.output_indices[self._kept[0]] in product.indices[0] else 0
        inner = self._summed(first, None)
        if self._kept:
            return self._summed(1 - first, inner)
        return np.add.reduce(inner * self._summed(1 - first, None), keepdims=True, dtype=dtype)

    def _summed(self, which: int, weights: NDArray[Any] | None) -> NDArray[Any]:
        """Return the sums of an operand along its own axis, or along the matched one with weights."""
        product = self._product
        own = product.indices[which]
        away = next(k for k, letter in enumerate(own) if (letter in product.output_indices) == (weights is None))
        scan = self.scans[which]
        if weights is None:
            weights = np.ones(scan.schema.shape[away], product.schema.dtype)
        turned = scan if away == 1 else scan.then(scan.view.permute((1, 0)))
        found: NDArray[Any] = matmul_dense(MatMulDense(turned, Dense(weights)))
        return found


def marginals_of(node: Reduce, scan: Scan) -> Marginals | None:
    """Return what computes a reduction of a product without forming it; None where it has to be formed."""
    relation = scan.relation
    if not isinstance(relation, PhysicalOperator) or node.name != "sum" or not scan.view.is_identity:
        return None
    product = relation.token
    if not isinstance(product, Product) or not product.semiring.plain or product.mask is not None:
        return None
    dtype = product.schema.dtype
    alike = dtype == node.schema.dtype and (dtype.kind == "c" or dtype in (np.float32, np.float64, np.int64, np.uint64))
    if not alike or len(node.kept_axes) > 1 or node.schema.ndim != len(node.kept_axes) or not _of_matrices(product):
        return None
    factors = relation.scans if isinstance(relation, ChainMatMulOp) else relation.children
    entries = sum(each.relation.stats(each.view.box()).rows for each in factors)
    sizes = [n for each in factors for n in each.schema.shape]
    return Marginals(product, factors, node.kept_axes) if max(sizes) <= _SPREAD * entries + _FEW else None


def _of_matrices(product: Product) -> bool:
    """Return whether rows of one matrix meet columns of another, along one letter."""
    left, right = map(set, product.indices)
    lengths = [len(own) for own in (*product.indices, left, right, product.output_indices)]
    return lengths == [2] * 5 and set(product.output_indices) == left ^ right
