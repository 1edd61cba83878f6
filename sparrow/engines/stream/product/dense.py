"""Products with dense arrays: chunks of a relation, decoded on threads, straight into kernels."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import RangeAxis
from sparrow.engines.sort_orders import groups_output, product_order
from sparrow.engines.stream.scan_reader import clip_to_view, split_runs
from sparrow.errors import UnsupportedError
from sparrow.kernels.coo import accumulator_dtype
from sparrow.kernels.jit.warmup import as_readonly
from sparrow.plan import MatMulDense, Scan
from sparrow.relations import csr
from sparrow.relations.base import Chunk, MemoryRelation
from sparrow.runtime import memory, progress, settings
from sparrow.runtime.thread_pool import ordered_map

__all__ = ["matmul"]

Accumulating: TypeAlias = Callable[[Scan, NDArray[Any], NDArray[Any]], None]

_FEW, _FEW_AT_FIRST = 1 << 12, 1 << 23
"""Products up to which NumPy adds them as fast as the loops, and all that a process adds as fast as it loads them."""
_LOOPS = "sparrow.kernels.matmul.matvec"
_added = 0
"""Products that NumPy has added in this process: about, of threads at once; it decides on speed alone, not on bits."""


@dataclass(frozen=True, slots=True)
class _Loader:
    """Turns chunks into the arguments of a kernel: rows, cols, values, row0, col0."""

    scan: Scan
    order: tuple[int, ...]
    dtype: np.dtype[Any]
    """The type in which products are summed."""

    def load(self, chunk: Chunk) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], int, int]:
        """Read a chunk. Its coordinates are copied only where offsets do not say what the view shows."""
        view = self.scan.view
        block = clip_to_view(self.scan.relation.read(chunk), view, self.order, chunk)
        values = block.values
        row0 = col0 = 0
        columns: list[NDArray[Any] | None]
        if self._plain(chunk):
            places = [(axis.dim, axis.start) if isinstance(axis, RangeAxis) else None for axis in view.axes]
            columns = [None if place is None else block.coords[place[0]] for place in places]
            starts = [0 if place is None else place[1] for place in places]
            row0, col0 = (0, starts[0]) if view.ndim == 1 else (starts[0], starts[1])
        else:
            coords, kept = view.from_base(block.coords, block.count)
            columns = list(coords)
            values = values if kept is None else values[kept]
        if view.ndim == 1:
            columns.insert(0, None)
        rows, cols = (np.zeros(len(values), np.int32) if column is None else column for column in columns)
        if rows.dtype != np.int32 or cols.dtype != np.int32:
            rows, cols = rows.astype(np.int64, copy=False), cols.astype(np.int64, copy=False)
        numbers = _numbers(values, self.scan.schema.fill_value, self.dtype)
        return as_readonly(rows), as_readonly(cols), as_readonly(numbers), row0, col0

    def _plain(self, chunk: Chunk) -> bool:
        """Return whether subtracting offsets is all there is to do after trimming; kernels check the bounds."""
        view = self.scan.view
        if view.points or view.repeats > 1 or any(isinstance(axis, RangeAxis) and axis.step != 1 for axis in view.axes):
            return False
        fixed = dict(view.fixed)
        trimmed = True
        for dim in self.order:
            if dim not in fixed:
                trimmed = False
            elif not trimmed and not chunk.low[dim] == chunk.high[dim] == fixed[dim]:
                return False
        return True


def matmul(contract: MatMulDense, accumulate: Accumulating | None = None) -> Any:
    """Return the product of a tensor and a dense array, reading the tensor once, chunk by chunk.

    Where output coordinates stand together in the scan, threads sum their chunks side by side and only the rows on
    the borders of chunks are added up afterwards; elsewhere threads decode and one adds.

    An absent cell of fill 0 annihilates, against NaN and infinity too. Another fill f counts as f: the
    product is then ``(A - f) @ x + f * sum(x)``, stored entries alone taking part in the first.

    Parameters
    ----------
    accumulate
        What adds the product with the stored entries, less the fill, to an array of 0; by default loops on threads.

    Raises
    ------
    TooLargeError
        If the result would pass the memory limit.
    UnsupportedError
        If the fill is not 0 and it or the dense array is not finite.
    """
    scan, operand = contract.operands
    result = contract.schema.dtype
    dtype = accumulator_dtype(result)
    height = 1 if scan.view.ndim == 1 else scan.view.shape[0]
    shape = (height, *operand.shape[1:])
    further = 0 if operand.dtype == dtype else operand.size * dtype.itemsize
    needed = math.prod(shape) * dtype.itemsize + further
    what = lambda: f"the dense result of shape {shape} and type {dtype}"  # noqa: E731 - told where it is too much
    memory.check(needed, what, "multiply a part of the tensor")
    fill = scan.schema.fill_value
    if fill != 0 and not (np.isfinite(fill) and np.isfinite(operand).all()):
        raise UnsupportedError(
            f"a product with NaN or infinity where absent cells are {fill}: use A.to_numpy() @ x, which multiplies "
            "every cell"
        )
    x = _cast(operand, dtype)
    out = np.zeros(shape, dtype)
    if out.size and scan.view.size:
        single = x.ndim == 2 and x.shape[1] == 1
        flat, target = (x[:, 0], out[:, 0]) if single else (x, out)
        with np.errstate(all="ignore"):
            (accumulate or _accumulate)(scan, as_readonly(flat), target)
    if fill != 0:
        with np.errstate(all="ignore"):
            out += fill.astype(dtype) * x.sum(axis=0, dtype=dtype)
    return _finished(out, contract)


def _accumulate(scan: Scan, x: NDArray[Any], out: NDArray[Any]) -> None:
    """Add ``scan @ x`` to ``out``, which is 0; both have shape (n,) or (n, k)."""
    global _added
    laid_out = csr.csr_rows(scan.relation, scan.view)
    if laid_out is not None:
        csr.accumulate(laid_out, scan.schema.fill_value, x, out)
        return
    relation = scan.relation
    few = _FEW if _LOOPS in sys.modules else _FEW_AT_FIRST - _added
    if isinstance(relation, MemoryRelation) and relation.is_small and scan.view.is_identity and scan.view.ndim == 2:
        block = relation.block  # one chunk, all of it shown
        if block.count * out[0].size <= few:
            _added += block.count * out[0].size
            rows, cols = block.coords
            _add(rows, cols, _numbers(block.values, scan.schema.fill_value, out.dtype), 0, 0, x, out)
            return
    order = product_order(scan)
    loader = _Loader(scan, order, out.dtype)
    chunks, others = split_runs(relation, scan.view.box(), order)
    count = sum(chunk.rows for chunk in (*chunks, *others))
    grouped = groups_output(scan.view, order)
    if count * out[0].size <= few:
        _added += count * out[0].size
        for chunk in chunks:
            part = np.zeros_like(out) if grouped and len(chunks) > 1 else out
            _add(*loader.load(chunk), x, part)
            if part is not out:
                out += part
        for chunk in others:
            _add(*loader.load(chunk), x, out)
        return
    from sparrow.kernels.matmul import matvec

    if not grouped:
        chunks, others = [], chunks + others
    scatter, sum_runs = (
        (matvec.scatter_vector, matvec.sum_runs_vector)
        if x.ndim == 1
        else (matvec.scatter_matrix, matvec.sum_runs_matrix)
    )

    def summed(chunk: Chunk) -> tuple[int, int, NDArray[Any]]:
        edges = np.zeros((2, *out.shape[1:]), out.dtype)
        first, last = sum_runs(*loader.load(chunk), x, out, edges)
        return first, last, edges

    height, threads = len(out), settings.current().threads
    with progress.bar("multiplying", count, "entries") as advance:
        for chunk, (first, last, edges) in zip(chunks, ordered_map(summed, chunks, threads), strict=True):
            if first < height:
                out[first] += edges[0]
            if last < height:
                out[last] += edges[1]
            advance(chunk.rows)
        for chunk, arguments in zip(others, ordered_map(loader.load, others, threads), strict=True):
            scatter(*arguments, x, out)
            advance(chunk.rows)


def _add(
    rows: NDArray[Any], cols: NDArray[Any], values: NDArray[Any], row0: int, col0: int, x: Any, out: NDArray[Any]
) -> None:
    """Add a few entries by NumPy, one after the other as the loops do: to the same bits."""
    rows, cols = rows - row0 if row0 else rows, cols - col0 if col0 else cols
    inside = (rows >= 0) & (rows < len(out)) & (cols >= 0) & (cols < len(x))
    if not inside.all():
        rows, cols, values = rows[inside], cols[inside], values[inside]
    with np.errstate(all="ignore"):
        np.add.at(out, rows, (values if x.ndim == 1 else values[:, None]) * x[cols])


def _numbers(values: NDArray[Any], fill: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return values as what is multiplied: of the type of the sums, and less the fill."""
    numbers = _cast(values, dtype)
    if fill == 0:
        return numbers
    with np.errstate(all="ignore"):
        less: NDArray[Any] = numbers - fill.astype(dtype)
    return less


def _cast(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    if values.dtype == dtype:
        return values
    with np.errstate(all="ignore"):
        return values.astype(dtype)


def _finished(out: NDArray[Any], contract: MatMulDense) -> Any:
    """Return sums as the result: its dtype, its shape, a scalar where it has no dimensions."""
    dtype = contract.schema.dtype
    out = out != 0 if dtype.kind == "b" else _cast(out, dtype)
    if contract.operands[0].view.ndim == 1:
        out = out[0]
    return out.T if contract.flipped else out
