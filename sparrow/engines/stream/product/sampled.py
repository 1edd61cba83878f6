"""Sampled products of two arrays at the stored elements of a matrix (SDDMM)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.stream.product.tuning import tuning
from sparrow.engines.stream.structural import UnaryOperator
from sparrow.kernels.coo import Block, accumulator_dtype, filter_block
from sparrow.kernels.jit.warmup import as_readonly
from sparrow.kernels.matmul.numpy_fallback import multiply_unfused, use_numpy
from sparrow.plan import Contraction, Dense, Scan
from sparrow.runtime import progress, settings
from sparrow.runtime.thread_pool import ordered_map

__all__ = ["SampledOp"]

_LANES = 8
"""Partial sums of a row in the compiled loop, which the NumPy fallback adds in the same order."""


class SampledOp(UnaryOperator):
    """Stored elements of a matrix times the product of two arrays there.

    Parameters
    ----------
    node
        Contraction ``ij,ik,kj->ij`` of a scan and two arrays.
    scan
        The scan, of a relation.
    """

    def __init__(self, node: Contraction, scan: Scan) -> None:
        super().__init__(node, scan)
        left, right = (each.array for each in node.operands if isinstance(each, Dense))
        self._product_dtype = np.result_type(left.dtype, right.dtype)
        summed = accumulator_dtype(self._product_dtype)
        with np.errstate(all="ignore"):
            self._left = as_readonly(np.ascontiguousarray(left, summed))
            self._right = as_readonly(np.ascontiguousarray(right.T, summed))

    def transform(self, block: Block, start: int, stop: int) -> Block:
        """Return the elements of a block times the products at their coordinates."""
        dtype, product = self.schema.dtype, self._product_dtype
        if dtype == product:
            values = self._sample(block, dtype)
        else:  # the product has its own dtype, in which integers wrap
            sums = self._sample(Block(block.coords, np.ones(block.count, product)), product)
            with np.errstate(all="ignore"):
                values = np.multiply(block.values, sums, dtype=dtype)
        return filter_block(Block(block.coords, values), values != 0)

    def _sample(self, block: Block, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return values times products at their coordinates, in a dtype."""
        with np.errstate(all="ignore"):
            given = block.values.astype(self._left.dtype, copy=False)
            if use_numpy(block.count * self._left.shape[1]):
                left, right = self._left[block.coords[0]], self._right[block.coords[1]]
                out = multiply_unfused(given, _sum_in_lanes(multiply_unfused(left, right)))
            else:
                out = np.empty(block.count, self._left.dtype)
                self._multiply((*map(as_readonly, (*block.coords, given)),), out)
            return out != 0 if dtype.kind == "b" else out.astype(dtype, copy=False)

    def _multiply(self, elements: tuple[NDArray[Any], ...], out: NDArray[Any]) -> None:
        """Write values times products to ``out``, in batches on threads."""
        from sparrow.kernels.matmul import sddmm

        multiply: Any = sddmm.sddmm
        batch = tuning().sampled_batch_elements

        def multiply_batch(start: int) -> int:
            part = slice(start, start + batch)
            multiply(*(array[part] for array in elements), self._left, self._right, out[part])
            return len(out[part])

        with progress.bar("multiplying", len(out), "elements") as advance:
            for done in ordered_map(multiply_batch, list(range(0, len(out), batch)), settings.current().threads):
                advance(done)


def _sum_in_lanes(products: NDArray[Any]) -> NDArray[Any]:
    """Return row sums in the order of the compiled loop: eight partial sums."""
    lanes = np.zeros((len(products), _LANES), products.dtype)
    for first in range(0, products.shape[1], _LANES):
        part = products[:, first : first + _LANES]
        lanes[:, : part.shape[1]] += part
    while lanes.shape[1] > 1:
        half = lanes.shape[1] // 2
        lanes = lanes[:, :half] + lanes[:, half:]
    return lanes[:, 0]
