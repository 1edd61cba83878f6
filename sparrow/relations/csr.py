"""Entries in memory laid out for repeated products: what ``A.persist()`` holds, and the product that uses it.

A matrix keeps beside its entries where each row begins (CSR), so that a product reads no row coordinates and threads
write rows of their own. The layout by columns is made when ``A.T @ x`` is first asked for. Both are left out where they
would not pay or not fit; the product is then that of any tensor in memory.
"""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.core.indexing import RangeAxis, View
from sparrow.core.schema import Schema
from sparrow.kernels.coo import Block, sort_to_csr
from sparrow.kernels.jit.warmup import as_readonly
from sparrow.relations.base import MemoryRelation, Relation, RowSlices
from sparrow.runtime import memory, progress, settings
from sparrow.runtime.thread_pool import ordered_map

__all__ = ["CSRRelation", "CSRRows", "accumulate", "csr_rows"]

_PIECES = (1 << 17, 1 << 19)
"""About how many entries a thread takes at a time: the fewest, and the most."""
_SPARE = 8
"""Row pointers are kept up to so many for each entry."""


@dataclass(frozen=True, slots=True, eq=False)
class CSRRows:
    """Entries row by row, by either dimension of a matrix.

    ``indptr`` (shape (m + 1,), int64) says where each row begins, ``indices`` (shape (nnz,), int32 where the columns
    allow it) holds the columns, ascending within a row, and ``values`` (shape (nnz,)) the values.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    values: NDArray[Any]

    def between(self, start: int, stop: int) -> CSRRows:
        """Return some of the rows; their pointers still count from the first row of all."""
        first, last = int(self.indptr[start]), int(self.indptr[stop])
        return CSRRows(self.indptr[start : stop + 1], self.indices[first:last], self.values[first:last])

    def pieces(self, threads: int) -> list[tuple[int, int]]:
        """Return stretches of rows of about as many entries each, which are dealt out to so many threads."""
        base, count = self.indptr[0], len(self.indices)
        size = min(max(count // (4 * threads), _PIECES[0]), _PIECES[1])
        cuts = np.searchsorted(self.indptr, base + np.arange(size, count, size))
        return list(itertools.pairwise(np.unique([0, *cuts, len(self.indptr) - 1]).tolist()))


class CSRRelation(MemoryRelation):
    """Canonical entries in arrays, with the layouts that products ask for."""

    def __init__(self, schema: Schema, block: Block, labels: dict[int, pa.Array] | None = None) -> None:
        super().__init__(schema, block, labels)
        self._layouts: dict[int, CSRRows] = {}
        self._lock = threading.Lock()

    def rows(self, dim: int) -> CSRRows | None:
        """Return the entries of a matrix by rows (dimension 0) or by columns (1); kept once made.

        None where there are so few entries in so many rows that pointers would take most of the memory, or where a
        second copy of the entries would pass the memory limit.
        """
        with self._lock:
            if dim not in self._layouts:
                made = self._laid_out(dim)
                if made is None:
                    return None
                self._layouts[dim] = made
            return self._layouts[dim]

    def places(self, leading: NDArray[Any]) -> RowSlices:
        """Return where the entries of some rows stand, by the pointers where there are some."""
        laid = self.rows(0) if self.schema.ndim == 2 else None
        return super().places(leading) if laid is None else RowSlices(laid.indptr[leading], laid.indptr[leading + 1])

    def _laid_out(self, dim: int) -> CSRRows | None:
        height = self.schema.shape[dim]
        copy = self.nbytes if dim else 0
        if height > _SPARE * self.nnz + _PIECES[0] or 8 * (height + 1) + copy > memory.available():
            return None
        block = self.block
        if not dim:
            return CSRRows(block.indptr(height), block.column(1), block.values)
        return CSRRows(*sort_to_csr(Block(block.coords[::-1], block.values), self.schema.shape[::-1]))


def csr_rows(relation: Relation, view: View) -> CSRRows | None:
    """Return the rows that a matrix view of a relation shows, or None where no layout has them as they are.

    There are some for a persisted matrix and its transpose, and for contiguous rows of either.
    """
    if not isinstance(relation, CSRRelation) or view.ndim != 2 or relation.schema.ndim != 2 or view.points:
        return None
    down, across = view.axes
    if not isinstance(down, RangeAxis) or not isinstance(across, RangeAxis) or down.step != 1 or not view.size:
        return None
    if (across.start, across.step, across.length) != (0, 1, relation.schema.shape[across.dim]):
        return None
    rows = relation.rows(down.dim)
    return None if rows is None else rows.between(down.start, down.start + down.length)


def accumulate(rows: CSRRows, fill: Any, x: NDArray[Any], out: NDArray[Any]) -> None:
    """Write the product of rows and ``x`` into ``out``, shapes (k,) and (m,) or (k, c) and (m, c), both of one dtype.

    Rows are dealt out to threads in pieces of about as many entries each. A row is summed by one thread, in an order
    of its own, so the bits do not depend on their number.
    """
    from sparrow.kernels.matmul import matvec

    multiply: Any = matvec.csr_matvec if x.ndim == 1 else matvec.csr_matvecs
    base, count = rows.indptr[0], len(rows.indices)
    threads = settings.current().threads
    pieces = rows.pieces(threads)

    def multiplied(piece: tuple[int, int]) -> int:
        start, stop = piece
        low, high = int(rows.indptr[start] - base), int(rows.indptr[stop] - base)
        with np.errstate(all="ignore"):
            values = rows.values[low:high].astype(out.dtype, copy=False)
            if fill != 0:
                values = values - fill.astype(out.dtype)
        indptr, indices = rows.indptr[start : stop + 1], rows.indices[low:high]
        multiply(*map(as_readonly, (indptr, indices, values)), x, out[start:stop])
        return high - low

    with progress.bar("multiplying", count, "entries") as advance:
        for done in ordered_map(multiplied, pieces, min(threads, len(pieces))):
            advance(done)
