"""CSR layouts of persisted tensors, for repeated products.

``A.persist()`` keeps row pointers beside the elements of a matrix. Products then read no row coordinates, and threads
write disjoint rows. The first ``A.T @ x`` computes the layout by columns. A layout that does not pay off or does not
fit in memory is omitted; products then treat the tensor like any other in memory.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.core.indexing import RangeAxis, View
from sparrow.core.schema import Schema
from sparrow.kernels.coo import Block, sort_to_csr
from sparrow.kernels.dispatch import prefer_numpy
from sparrow.kernels.jit.warmup import as_readonly
from sparrow.kernels.matmul.numpy_fallback import multiply_unfused
from sparrow.relations.memory import MemoryRelation, RowSlices
from sparrow.relations.protocol import Relation
from sparrow.relations.tuning import tuning
from sparrow.runtime import memory, progress, settings
from sparrow.runtime.thread_pool import ordered_map

__all__ = ["CSRRelation", "CSRRows", "accumulate", "csr_rows"]


@dataclass(frozen=True, slots=True, eq=False)
class CSRRows:
    """Rows of a matrix in CSR form, by either dimension.

    ``indptr`` (shape (m + 1,), int64) holds row pointers, ``indices`` (shape (nnz,), int32 if possible) the ascending
    columns of each row, and ``values`` (shape (nnz,)) the values; shape () if all are equal, for products only.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    values: NDArray[Any]

    def between(self, start: int, stop: int) -> CSRRows:
        """Return rows ``start:stop``; pointers keep their offset."""
        first, last = int(self.indptr[start]), int(self.indptr[stop])
        return CSRRows(self.indptr[start : stop + 1], self.indices[first:last], self.values[first:last])

    def partitions(self, threads: int) -> list[tuple[int, int]]:
        """Return bounds of partitions of about equally many elements."""
        base, count = self.indptr[0], len(self.indices)
        limits = tuning()
        size = min(max(count // (4 * threads), limits.min_partition_elements), limits.max_partition_elements)
        bounds = np.searchsorted(self.indptr, base + np.arange(size, count, size))
        return list(itertools.pairwise(np.unique([0, *bounds, len(self.indptr) - 1]).tolist()))


class CSRRelation(MemoryRelation):
    """Relation in memory with CSR layouts."""

    def __init__(
        self,
        schema: Schema,
        block: Block,
        labels: dict[int, pa.Array] | None = None,
        origin: tuple[Hashable, View] | None = None,
    ) -> None:
        super().__init__(schema, block, labels, origin)
        self._layouts: dict[int, CSRRows] = {}
        self._lock = threading.Lock()

    def rows(self, dim: int) -> CSRRows | None:
        """Return the rows (dimension 0) or columns (1) of a matrix in CSR form; cached.

        Return None if there are far more rows than elements, or a second copy of the elements exceeds the memory limit.
        """
        with self._lock:
            if dim not in self._layouts:
                rows = self._make_rows(dim)
                if rows is None:
                    return None
                self._layouts[dim] = rows
            return self._layouts[dim]

    def find_rows(self, leading: NDArray[Any]) -> RowSlices:
        """Return the slices of rows, by row pointers if available."""
        rows = self.rows(0) if self.schema.ndim == 2 else None
        return super().find_rows(leading) if rows is None else RowSlices(rows.indptr[leading], rows.indptr[leading + 1])

    def _make_rows(self, dim: int) -> CSRRows | None:
        n_rows = self.schema.shape[dim]
        copy_bytes = self.nbytes if dim else 0
        limits = tuning()
        max_rows = limits.max_pointers_per_element * self.nnz + limits.min_partition_elements
        if n_rows > max_rows or 8 * (n_rows + 1) + copy_bytes > memory.available():
            return None
        block = self.block
        if not dim:
            return CSRRows(block.indptr(n_rows), block.column(1), block.values)
        return CSRRows(*sort_to_csr(Block(block.coords[::-1], block.values), self.schema.shape[::-1]))


def csr_rows(relation: Relation, view: View) -> CSRRows | None:
    """Return the rows of a matrix view in CSR form, or None if no layout matches.

    Contiguous rows of a persisted matrix, or of its transpose, match.
    """
    if not isinstance(relation, CSRRelation) or view.ndim != 2 or relation.schema.ndim != 2 or view.points:
        return None
    rows_axis, columns_axis = view.axes
    if (
        not isinstance(rows_axis, RangeAxis)
        or not isinstance(columns_axis, RangeAxis)
        or rows_axis.step != 1
        or not view.size
    ):
        return None
    if (columns_axis.start, columns_axis.step, columns_axis.length) != (0, 1, relation.schema.shape[columns_axis.dim]):
        return None
    rows = relation.rows(rows_axis.dim)
    return None if rows is None else rows.between(rows_axis.start, rows_axis.start + rows_axis.length)


def accumulate(rows: CSRRows, fill: Any, x: NDArray[Any], out: NDArray[Any]) -> None:
    """Write the product of rows and ``x`` to ``out``.

    ``x`` and ``out`` have shapes (k,) and (m,), or (k, c) and (m, c), and one dtype. Partitions of rows run on threads.
    One thread sums each row from left to right, so the bits do not depend on the number of threads.
    """
    is_constant, count = rows.values.ndim == 0, len(rows.indices)
    if prefer_numpy("matvec", count * out[:1].size):
        at = np.repeat(np.arange(len(out)), np.diff(rows.indptr))
        out[...] = 0
        with np.errstate(all="ignore"):
            values = _less_fill(rows.values, fill, out.dtype)
            values = values if x.ndim == 1 or is_constant else values[:, None]
            np.add.at(out, at, multiply_unfused(values, x[rows.indices]))
        return
    from sparrow.kernels.matmul import dense

    base, threads, x = rows.indptr[0], settings.current().threads, as_readonly(x)
    partitions = rows.partitions(threads)
    multiply: Any = dense.csr_matvec if x.ndim == 1 else dense.csr_matvecs
    if is_constant:
        multiply = dense.csr_constant_matvec if x.ndim == 1 else dense.csr_constant_matvecs

    def multiply_partition(bounds: tuple[int, int]) -> int:
        start, stop = bounds
        low, high = int(rows.indptr[start] - base), int(rows.indptr[stop] - base)
        indptr, indices = as_readonly(rows.indptr[start : stop + 1]), as_readonly(rows.indices[low:high])
        with np.errstate(all="ignore"):
            values = _less_fill(rows.values if is_constant else rows.values[low:high], fill, out.dtype)
        multiply(indptr, indices, values[()] if is_constant else as_readonly(values), x, out[start:stop])
        return high - low

    with progress.bar("multiplying", count, "elements") as advance:
        for done in ordered_map(multiply_partition, partitions, min(threads, len(partitions))):
            advance(done)


def _less_fill(values: NDArray[Any], fill: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return values in the dtype of the sums, less the fill."""
    values = values.astype(dtype, copy=False)
    return values if fill == 0 else values - fill.astype(dtype)
