"""Products of a sparse tensor with a dense array: SpMV and SpMM by chunk."""

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
from sparrow.engines.stream.product.tuning import tuning
from sparrow.engines.stream.scan_reader import clip_to_view, split_runs
from sparrow.errors import UnsupportedError
from sparrow.kernels.coo import accumulator_dtype
from sparrow.kernels.jit.warmup import as_readonly
from sparrow.kernels.matmul.numpy_fallback import multiply_unfused
from sparrow.plan import MatrixForm, Scan
from sparrow.relations import csr
from sparrow.relations.memory import MemoryRelation
from sparrow.relations.protocol import Chunk
from sparrow.runtime import events, memory, progress, settings
from sparrow.runtime.thread_pool import ordered_map

__all__ = ["matmul_dense"]

Accumulate: TypeAlias = Callable[[Scan, NDArray[Any], NDArray[Any]], None]

_KERNELS = "sparrow.kernels.matmul.matvec"
_numpy_products = 0
"""Products that NumPy added in this process; approximate under threads, decides speed alone, never bits."""


@dataclass(frozen=True, slots=True)
class _Loader:
    """Turns chunks into kernel arguments: rows, cols, values, row0, col0."""

    scan: Scan
    order: tuple[int, ...]
    dtype: np.dtype[Any]
    """Dtype of the sums."""

    def load(self, chunk: Chunk) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], int, int]:
        """Read a chunk; copy its coordinates only where offsets do not express the view."""
        view = self.scan.view
        block = clip_to_view(self.scan.relation.read(chunk), view, self.order, chunk)
        values = block.values
        row0 = col0 = 0
        columns: list[NDArray[Any] | None]
        if self._is_offset(chunk):
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
        numbers = _subtract_fill(values, self.scan.schema.fill_value, self.dtype)
        return as_readonly(rows), as_readonly(cols), as_readonly(numbers), row0, col0

    def _is_offset(self, chunk: Chunk) -> bool:
        """Return whether the view only subtracts offsets; kernels check the bounds."""
        view = self.scan.view
        if view.points or view.repeats > 1 or any(isinstance(axis, RangeAxis) and axis.step != 1 for axis in view.axes):
            return False
        fixed = dict(view.fixed)
        is_prefix = True
        for dim in self.order:
            if dim not in fixed:
                is_prefix = False
            elif not is_prefix and not chunk.low[dim] == chunk.high[dim] == fixed[dim]:
                return False
        return True


def matmul_dense(form: MatrixForm, result: np.dtype[Any], accumulate: Accumulate | None = None) -> Any:
    """Multiply a sparse tensor with a dense array, reading the tensor once.

    Where output coordinates are adjacent in the scan, threads sum chunks in parallel and only rows on chunk borders are
    added afterwards; elsewhere threads decode and one adds.

    Absent elements of fill 0 annihilate, against NaN and infinity too. Another fill f counts as f: the product is then
    ``(A - f) @ x + f * sum(x)``, with stored elements only in the first term.

    Parameters
    ----------
    form
        The product, with a scan of a relation.
    result
        Dtype of the result.
    accumulate
        Adds the product of the stored elements, less the fill, to zeros; by default kernels on threads.

    Raises
    ------
    TooLargeError
        If the result exceeds the memory limit.
    UnsupportedError
        If the fill is not 0, and it or the dense array is not finite.
    """
    scan, operand = form.scan, form.array
    dtype = accumulator_dtype(result)
    height = 1 if scan.view.ndim == 1 else scan.view.shape[0]
    shape = (height, *operand.shape[1:])
    copied = 0 if operand.dtype == dtype else operand.size * dtype.itemsize
    needed = math.prod(shape) * dtype.itemsize + copied
    what = lambda: f"the dense result of shape {shape} and type {dtype}"  # noqa: E731 - formatted only on error
    memory.check(needed, what, "multiply a part of the tensor")
    fill = scan.schema.fill_value
    if fill != 0 and not (np.isfinite(fill) and np.isfinite(operand).all()):
        raise UnsupportedError(
            f"fill and dense operand must be finite where the fill is not 0, got fill {fill} and NaN or infinity: "
            "use A.to_numpy() @ x, which multiplies every element"
        )
    x = _cast(operand, dtype)
    out = np.zeros(shape, dtype)
    if out.size and scan.view.size:
        is_column = x.ndim == 2 and x.shape[1] == 1
        flat, target = (x[:, 0], out[:, 0]) if is_column else (x, out)
        with np.errstate(all="ignore"):
            (accumulate or _accumulate)(scan, as_readonly(flat), target)
    if fill != 0:
        with np.errstate(all="ignore"):
            out += fill.astype(dtype) * x.sum(axis=0, dtype=dtype)
    return _finish(out, result, form)


def _accumulate(scan: Scan, x: NDArray[Any], out: NDArray[Any]) -> None:
    """Add ``scan @ x`` to zeros of shape (n,) or (n, k)."""
    global _numpy_products
    csr_rows = csr.csr_rows(scan.relation, scan.view)
    if csr_rows is not None:
        csr.accumulate(csr_rows, scan.schema.fill_value, x, out)
        return
    relation = scan.relation
    current = tuning()
    max_products = current.dense_numpy_max_products
    if _KERNELS not in sys.modules:
        max_products = current.dense_numpy_total_products - _numpy_products
    if isinstance(relation, MemoryRelation) and relation.is_small and scan.view.is_identity and scan.view.ndim == 2:
        block = relation.block  # one chunk, shown completely
        if block.count * out[0].size <= max_products:
            _numpy_products += block.count * out[0].size
            rows, cols = block.coords
            _add_at(rows, cols, _subtract_fill(block.values, scan.schema.fill_value, out.dtype), x, out)
            return
    order = product_order(scan)
    loader = _Loader(scan, order, out.dtype)
    chunks, others = split_runs(relation, scan.view.box(), order)
    count = sum(chunk.rows for chunk in (*chunks, *others))
    grouped = groups_output(scan.view, order)
    if count * out[0].size <= max_products:
        _numpy_products += count * out[0].size
        for chunk in chunks:
            part = np.zeros_like(out) if grouped and len(chunks) > 1 else out
            _add_with_numpy(*loader.load(chunk), x, part)
            if part is not out:
                out += part
        for chunk in others:
            _add_with_numpy(*loader.load(chunk), x, out)
        return
    from sparrow.kernels.matmul import matvec

    if not grouped:
        chunks, others = [], chunks + others
    scatter, sum_runs = (
        (matvec.coo_matvec, matvec.sorted_coo_matvec)
        if x.ndim == 1
        else (matvec.coo_matvecs, matvec.sorted_coo_matvecs)
    )

    def sum_chunk(chunk: Chunk) -> tuple[int, int, NDArray[Any]]:
        edges = np.zeros((2, *out.shape[1:]), out.dtype)
        first, last = sum_runs(*loader.load(chunk), x, out, edges)
        return first, last, edges

    height, threads = len(out), settings.current().threads
    with progress.bar("multiplying", count, "elements") as advance:
        for chunk, (first, last, edges) in zip(chunks, ordered_map(sum_chunk, chunks, threads), strict=True):
            if first < height:
                out[first] += edges[0]
            if last < height:
                out[last] += edges[1]
            advance(chunk.rows)
        for chunk, arguments in zip(others, ordered_map(loader.load, others, threads), strict=True):
            scatter(*arguments, x, out)
            advance(chunk.rows)


def _add_with_numpy(
    rows: NDArray[Any], cols: NDArray[Any], values: NDArray[Any], row0: int, col0: int, x: Any, out: NDArray[Any]
) -> None:
    """Add those of a few elements that are inside the view."""
    rows, cols = rows - row0 if row0 else rows, cols - col0 if col0 else cols
    inside = (rows >= 0) & (rows < len(out)) & (cols >= 0) & (cols < len(x))
    if not inside.all():
        rows, cols, values = rows[inside], cols[inside], values[inside]
    _add_at(rows, cols, values, x, out)


def _add_at(rows: NDArray[Any], cols: NDArray[Any], values: NDArray[Any], x: Any, out: NDArray[Any]) -> None:
    """Add a few elements with NumPy in the order of the kernels, to the same bits."""
    events.emit("product.dense_numpy", elements=len(rows))
    np.add.at(out, rows, multiply_unfused(values if x.ndim == 1 else values[:, None], x[cols]))


def _subtract_fill(values: NDArray[Any], fill: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return values in the dtype of the sums, less the fill."""
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


def _finish(out: NDArray[Any], dtype: np.dtype[Any], form: MatrixForm) -> Any:
    """Return sums in the dtype and shape of the result; a scalar if it has no axes."""
    out = out != 0 if dtype.kind == "b" else _cast(out, dtype)
    if form.scan.view.ndim == 1:
        out = out[0]
    return out.T if form.transposed else out
