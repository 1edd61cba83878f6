"""Sums of a product of matrices along its axes, without forming it.

``(A @ B).sum(axis=1)`` is ``A @ (B @ ones)``. Integers modulo 2^64 are exact, floats agree to rounding. If NaN,
infinity or an overflow shows in the sums, the product is formed after all. Elements of the product that overflow but
cancel in the sums do not show: the sum is then that of unbounded numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.stream.operator import PhysicalOperator
from sparrow.engines.stream.product.dense import matmul_dense
from sparrow.engines.stream.tuning import tuning
from sparrow.plan import Contraction, MatrixForm, Reduce, Scan
from sparrow.runtime.once import Once

__all__ = ["MarginalSums", "find_marginal_sums"]


class MarginalSums:
    """The sums of a product of two matrices along one axis or both, computed once.

    Parameters
    ----------
    product
        Product of two matrices under plus and times, without a mask.
    scans
        Its operands, of relations.
    kept
        Axes of the product that stay, at most one.
    """

    def __init__(self, product: Contraction, scans: Sequence[Scan], kept: Sequence[int]) -> None:
        self.scans = tuple(scans)
        self.values = Once(partial(_sum_product, product, self.scans, tuple(kept)))
        """Returns the sums by coordinate, shape (1,) if no axis stays, or None if the product has to be formed."""


def _sum_product(product: Contraction, scans: Sequence[Scan], kept: tuple[int, ...]) -> NDArray[Any] | None:
    """Return the sums of a product along axes, None unless they are finite."""
    dtype = product.schema.dtype
    with np.errstate(all="ignore"):
        first = 1 if kept and product.output_indices[kept[0]] in product.indices[0] else 0
        out = _sum_operand(product, scans, first, None)
        if kept:
            out = _sum_operand(product, scans, 1 - first, out)
        else:
            out = np.add.reduce(out * _sum_operand(product, scans, 1 - first, None), keepdims=True, dtype=dtype)
    return out if out.dtype.kind in "iu" or bool(np.isfinite(out).all()) else None


def _sum_operand(product: Contraction, scans: Sequence[Scan], which: int, weights: NDArray[Any] | None) -> NDArray[Any]:
    """Return the sums of an operand along an axis, with weights if given."""
    own = product.indices[which]
    summed = next(k for k, letter in enumerate(own) if (letter in product.output_indices) == (weights is None))
    scan = scans[which]
    if weights is None:
        weights = np.ones(scan.schema.shape[summed], product.schema.dtype)
    rows = scan if summed == 1 else scan.then(scan.view.permute((1, 0)))
    found: NDArray[Any] = matmul_dense(MatrixForm(rows, weights, False), product.schema.dtype)
    return found


def find_marginal_sums(node: Reduce, scan: Scan) -> MarginalSums | None:
    """Return the sums that a reduction of a product needs, None to form it."""
    relation = scan.relation
    if not isinstance(relation, PhysicalOperator) or node.name != "sum" or not scan.view.is_identity:
        return None
    product, parameters = relation.node, tuning()
    if (
        not isinstance(product, Contraction)
        or not product.semiring.plain
        or product.mask is not None
        or product.topk is not None
    ):
        return None
    dtype = product.schema.dtype
    if not parameters.use_marginal_sums:
        return None
    is_same = dtype == node.schema.dtype and (
        dtype.kind == "c" or dtype in (np.float32, np.float64, np.int64, np.uint64)
    )
    if (
        not is_same
        or len(node.kept_axes) > 1
        or node.schema.ndim != len(node.kept_axes)
        or not _is_matrix_product(product)
    ):
        return None
    factors = relation.children
    nnz = sum(each.relation.stats(each.view.box()).rows for each in factors)
    longest = max(n for each in factors for n in each.schema.shape)
    fits = longest <= parameters.marginal_length_ratio * nnz + parameters.min_marginal_length
    return MarginalSums(product, factors, node.kept_axes) if fits else None


def _is_matrix_product(product: Contraction) -> bool:
    """Return whether rows of one matrix meet columns of another, along one index."""
    if len(product.operands) != 2 or len(product.tensors) != 2:
        return False
    left, right = map(set, product.indices)
    lengths = [len(own) for own in (*product.indices, left, right, product.output_indices)]
    return lengths == [2] * 5 and set(product.output_indices) == left ^ right
