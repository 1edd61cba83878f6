"""Physical operators of matrix products, unmasked and masked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from sparrow.engines import profile
from sparrow.engines.stream.capabilities import RowOutput, SumPushdown
from sparrow.engines.stream.operator import PhysicalOperator
from sparrow.engines.stream.product.spgemm import SpGEMM
from sparrow.kernels.coo import Block
from sparrow.plan import Contraction, Scan

__all__ = ["CSRProductCursor", "MaskedMatMulOp", "MatMulOp", "ProductCursor", "lower_matmul"]


def lower_matmul(node: Contraction, *scans: Scan) -> PhysicalOperator:
    """Lower a product of two scans, under a mask if there is a third.

    Raises
    ------
    TooLargeError
        On reading, if an operand does not fit in memory and can be cut neither into strips nor into panels.
    """
    work = SpGEMM(node, *scans)
    if node.mask is None or node.complement:
        return MatMulOp(node, scans, work)
    return MaskedMatMulOp(node, scans, work)


class ProductCursor:
    """Cursor over a product, with cursors over operands that are not in memory."""

    def __init__(self, work: SpGEMM, start: int, stop: int) -> None:
        self._work, self._sources = work, work.open_sources(start, stop)

    def read(self, start: int, stop: int) -> Block:
        """Return the elements of rows [start, stop)."""
        block: Block = self._work.compute(start, stop, self._sources)[0]
        return block


class CSRProductCursor(ProductCursor, RowOutput):
    """Cursor over a product that also returns elements in CSR form."""

    def read_csr(self, start: int, stop: int) -> Block:
        """Return the elements of rows [start, stop), in CSR if the kernel gives it."""
        found = self._work.compute_csr(start, stop, self._sources)
        return self.read(start, stop) if found is None else found


class MatMulOp(PhysicalOperator):
    """Elements of a product, or of one at the absent elements of a mask."""

    def __init__(self, node: Contraction, scans: Sequence[Scan], work: SpGEMM) -> None:
        super().__init__(node, scans)
        self._work = work

    def partitions(self) -> list[int]:
        """Return bounds of partitions along the leading axis."""
        return self._work.partitions()

    def open(self, start: int, stop: int) -> ProductCursor:
        """Open a cursor over rows [start, stop)."""
        return CSRProductCursor(self._work, start, stop)

    def max_rows(self, start: int, stop: int) -> int:
        """Return an upper bound on the nnz of rows [start, stop)."""
        return self._work.max_rows(start, stop)

    def strategy(self) -> str | None:
        """Return the name of the tiling."""
        return self._work.strategy


class MaskedMatMulOp(MatMulOp, SumPushdown):
    """Elements of a product at the stored elements of a mask."""

    def open(self, start: int, stop: int) -> ProductCursor:
        """Open a cursor over rows [start, stop)."""
        return ProductCursor(self._work, start, stop)

    def sum(self) -> Any:
        """Return the sum of all elements; None where the kernel cannot."""
        return self._work.sum_at_mask()

    def is_masked_by(self, scan: Scan) -> bool:
        """Return whether a scan is the mask, and the output is in its order."""
        mask = self.children[2]
        is_mask = mask.source.token == scan.source.token and mask.view == scan.view
        return is_mask and self._work.operands.is_in_order

    def sum_weighted(self) -> Any:
        """Return the sum of the elements times the mask; None where the kernel cannot."""
        return self._work.sum_at_mask(weighted=True)

    def open_with_mask_values(self, first: int, last: int) -> Callable[[int, int], tuple[Block, NDArray[Any]]]:
        """Open a cursor that reads elements and the mask's values at them."""
        sources = self._work.open_sources(first, last)

        def read(start: int, stop: int) -> tuple[Block, NDArray[Any]]:
            active = profile.active()
            if active is None:
                found: tuple[Block, NDArray[Any]] = self._work.compute(start, stop, sources, with_mask_values=True)
                return found
            counters = active.operator(self.node)
            with counters.measure():
                block, values = self._work.compute(start, stop, sources, with_mask_values=True)
            counters.record(rows=block.count, bytes=block.nbytes, partitions=1)
            return block, values

        return read
