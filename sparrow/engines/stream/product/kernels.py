"""Kernels of a product, bound to its operands."""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.stream.product.combine import find_largest
from sparrow.engines.stream.product.layouts import CSROperand, LhsRows, MaskRows
from sparrow.engines.stream.product.operands import Operands
from sparrow.engines.stream.product.tuning import tuning
from sparrow.kernels.coo import Block, CSRBlock, RowIndex
from sparrow.kernels.dispatch import prefer_numpy
from sparrow.kernels.jit.warmup import as_readonly
from sparrow.kernels.matmul import numpy_fallback
from sparrow.runtime import buffer_pool, events, memory, settings

if TYPE_CHECKING:
    from sparrow.kernels.matmul.symbolic import Workspace

__all__ = ["ProductKernels"]

_NO_BOUNDS, _NO_COLUMNS = as_readonly(np.empty(0, np.uint64)), as_readonly(np.empty(0, np.uint32))
"""Rows of an absent mask."""


class ProductKernels:
    """Multiplies rows of ``lhs`` with ``rhs`` in CSR.

    Parameters
    ----------
    operands
        Operands of the product.
    rhs
        The right operand, or a part of it.
    try_dots
        Whether dot products may be faster at a mask.
    partial
        Whether results are added to others, so that they stay in the dtype of accumulation.
    topk
        Number of the largest elements of each row that are kept, None for all.
    has_dense_rows
        Whether there is memory for a dense row per thread.
    """

    def __init__(
        self,
        operands: Operands,
        rhs: CSROperand,
        try_dots: bool = False,
        partial: bool = False,
        topk: int | None = None,
        has_dense_rows: bool = False,
    ) -> None:
        self._operands, self._node, self._schema = operands, operands.node, operands.node.schema
        self._rhs, self._try_dots, self._partial, self._topk = rhs, try_dots, partial, topk
        self._fill = operands.dropped_value
        self._scratch = buffer_pool.ScratchPool()
        self._workspaces: queue.SimpleQueue[Workspace | None] = queue.SimpleQueue()
        nbytes, current = rhs.column_index.size * (operands.dtype.itemsize + 1), settings.current()
        threads = current.threads if current.has_ample_memory else min(current.threads, tuning().partition_threads)
        if not has_dense_rows:
            threads = max(min(threads, memory.share(tuning().dense_rows_share) // max(nbytes, 1)), 1)
        for _ in range(threads):
            self._workspaces.put(None)

    @property
    def multiply(self) -> Callable[[LhsRows, MaskRows | None, int, int], tuple[Block, Any]]:
        """Function that returns the elements of rows [first, last), and mask values."""
        return (
            self._multiply_unmasked if self._operands.mask is None or self._node.complement else self._multiply_masked
        )

    def _multiply_masked(
        self, rows: LhsRows, mask: MaskRows | None, first: int, last: int
    ) -> tuple[Block, NDArray[Any]]:
        """Return the products of some rows at mask elements, and the mask's values there."""
        assert mask is not None
        at, out = self._mask_hits(rows, mask, first, last)
        if self._topk is not None:
            indptr = np.append(np.searchsorted(at, mask.begins[first:last]), len(at))
            largest = find_largest(indptr, self._operands.cast_results(out), self._topk)
            at, out = at[largest], out[largest]
        hits = mask.block.take(at)
        coords: list[Any] = [None] * self._schema.ndim
        roles = self._operands.roles
        for index, column in zip((*roles.rows, *roles.columns), hits.coords, strict=True):
            coords[self._node.output_indices.index(index)] = column
        return self._finish(coords, out, hits.values)

    def _mask_hits(self, rows: LhsRows, mask: MaskRows, first: int, last: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the positions of mask elements with products, and the products."""
        bounds = self._mask_arguments(mask, first, last)
        n_mask = int((bounds[1] - bounds[0]).sum())
        n_products = int(rows.product_offsets[last] - rows.product_offsets[first])
        csr = self._csr_arguments(rows, first, last)
        if self._prefers_numpy("masked", max(n_mask, n_products, last - first)):
            by_numpy: Any = numpy_fallback.masked_spgemm
            at, out = by_numpy(*self._operations, self._rhs.column_index.size, *csr, *bounds, self._fill)
            return at, out
        at = np.empty(n_mask + 1, np.uint32 if mask.block.count < 2**32 else np.uint64)
        out = np.empty(n_mask + 1, self._operands.dtype)
        if self._try_dots and self._prefers_dots(csr[0], bounds, n_products):
            n = self._kernels().masked_dot(*csr[:3], *self._rhs.to_csc(), *bounds, self._fill, at, out)
        else:
            with self._workspace() as space:
                n = self._kernels().masked(
                    *csr, *bounds, np.uint64(0), np.uint64(last - first), self._fill, space.row, space.state, at, out
                )
        return at[:n], out[:n]

    def _prefers_dots(self, lhs_indptr: NDArray[Any], bounds: tuple[NDArray[Any], ...], n_products: int) -> bool:
        """Return whether dot products are estimated to be faster."""
        from sparrow.kernels.matmul.masked import estimate_dot_steps

        method, step = tuning().kernel, tuning().dot_step_products
        prefers = bool(step * estimate_dot_steps(lhs_indptr, self._rhs.to_csc()[0], *bounds) < n_products)
        prefers = prefers if method is None else method == "dot"
        events.emit("product.masked", dots=prefers)
        return prefers

    def _multiply_unmasked(self, rows: LhsRows, mask: MaskRows | None, first: int, last: int) -> tuple[Block, None]:
        """Return the products of some rows, except at mask elements."""
        indptr, codes, out = self._multiply_csr(rows, mask, first, last)
        events.emit("product.unmasked", rows=last - first)
        roles, dtypes = self._operands.roles, self._schema.coordinate_dtypes
        kinds = dict(zip(self._node.output_indices, dtypes, strict=True))
        coords = {}
        for index, column in zip(roles.rows, rows.coords, strict=True):
            coords[index] = _repeat(column[first:last], indptr, kinds[index])
        columns = self._rhs.column_coords(codes, [kinds[index] for index in roles.columns])
        coords.update(zip(roles.columns, columns, strict=False))
        return self._finish([coords[index] for index in self._node.output_indices], out, None)

    def to_csr_block(self, rows: LhsRows, mask: MaskRows | None) -> CSRBlock:
        """Return the products of all rows by row, in the order of the output."""
        indptr, codes, out = self._multiply_csr(rows, mask, 0, len(rows.indptr) - 1)
        dtypes = self._schema.coordinate_dtypes
        columns = self._rhs.column_coords(codes, list(dtypes[len(rows.coords) :]))
        leading = zip(rows.coords, dtypes, strict=False)
        heads = RowIndex(tuple([column.astype(dtype, copy=False) for column, dtype in leading]), indptr)
        return CSRBlock(heads, Block(tuple(columns), out))

    def to_csr_part(
        self, rows: LhsRows, mask: MaskRows | None, first: int, last: int
    ) -> tuple[NDArray[np.int64], list[NDArray[Any]], NDArray[Any]]:
        """Return row pointers, column coordinates and accumulated values of some rows."""
        columns = self._operands.roles.columns
        dtypes = [self._schema.coordinate_dtype(self._node.output_indices.index(index)) for index in columns]
        if mask is None or self._node.complement:
            indptr, codes, out = self._multiply_csr(rows, mask, first, last)
            return indptr, self._rhs.column_coords(codes, dtypes), out
        at, out = self._mask_hits(rows, mask, first, last)
        indptr = np.append(np.searchsorted(at, mask.begins[first:last]), len(at))
        coords = mask.block.take(at).coords[len(self._operands.roles.rows) :]
        return indptr, [column.astype(dtype, copy=False) for column, dtype in zip(coords, dtypes, strict=True)], out

    def count(self, rows: LhsRows, mask: MaskRows | None) -> int | None:
        """Return the number of stored elements of all rows, without their values.

        None if a sum may equal the value that is not stored, or NumPy multiplies so few products as fast.
        """
        if self._topk is not None or not self._rhs.has_unique_columns or self._prefers_numpy("count", rows.flops):
            return None
        first, last = int(rows.indptr[0]), int(rows.indptr[-1])
        if not self._node.keep_fill:
            from sparrow.kernels.matmul.count import ValueRange, can_cancel

            lhs, rhs = ValueRange.from_values(rows.values[first:last]), self._rhs.value_range()
            longest = int(np.diff(rows.product_offsets).max(initial=0))
            types = self._operands.dtype, self._schema.dtype, self._schema.fill_value
            if can_cancel(*self._operations, *types, lhs, rhs, longest):
                return None
        count = len(rows.indptr) - 1
        bounds: Any = None if mask is None else self._mask_arguments(mask, 0, count)
        indptr, indices, _ = self._csr_arguments(rows, 0, count)[:3]
        counts = self._rhs.row_counter().count(indptr, indices, bounds, self._node.complement)
        return int(counts.sum())

    def sum_at_mask(self, rows: LhsRows, mask: MaskRows, weighted: bool) -> Any:
        """Return the sum of products at mask elements, times the mask if ``weighted``."""
        dtype, count = self._operands.dtype, len(rows.indptr) - 1
        out = np.empty(count, dtype)
        weights = mask.block.values if weighted else np.broadcast_to(np.ones(1, dtype), mask.block.count)
        with self._workspace() as space:
            self._kernels().masked_sum(
                *self._csr_arguments(rows, 0, count), *self._mask_arguments(mask, 0, count),
                as_readonly(np.ascontiguousarray(weights, dtype)),
                np.uint64(0), np.uint64(count), space.weights, space.state, out,
            )  # fmt: skip
        return np.add.reduce(out)

    def _multiply_csr(
        self, rows: LhsRows, mask: MaskRows | None, first: int, last: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]]:
        """Return row pointers, column codes and values of some rows."""
        if self._topk is not None and self._selects(rows, first, last, self._topk):
            return self._multiply_topk(rows, mask, first, last, self._topk)
        indptr, codes, out = self._multiply_all(rows, mask, first, last)
        if self._topk is None:
            return indptr, codes, out
        if self._node.score is not None:
            columns = self._rhs.column_coords(codes, [np.dtype(np.int64)])
            out = self._operands.score([np.repeat(rows.coords[0][first:last], np.diff(indptr)), *columns], out)
        largest = find_largest(indptr, self._operands.cast_results(out), self._topk)
        return np.searchsorted(largest, indptr), codes[largest], out[largest]

    def _selects(self, rows: LhsRows, first: int, last: int, k: int) -> bool:
        """Return whether a kernel selects the largest before it writes rows."""
        own, dtype, current = self._operands.dtype, self._schema.dtype, tuning()
        n_products = int(rows.product_offsets[last] - rows.product_offsets[first])
        columns = max(self._rhs.column_index.size, current.topk_columns * k)
        if n_products * current.topk_columns_ratio < columns * (last - first):
            return False
        is_ordered = own.kind in "iuf" and (own == dtype or (own == np.float64 and dtype == np.float32))
        if not is_ordered or self._node.score is not None or self._seed is None:
            return False
        return not self._prefers_numpy("topk", max(n_products, last - first))

    def _multiply_topk(
        self, rows: LhsRows, mask: MaskRows | None, first: int, last: int, k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]]:
        """Return row pointers, column codes and values of the largest elements."""
        from sparrow.kernels.matmul.select import get_topk_kernel

        events.emit("product.topk", rows=last - first)
        count, width, dtype = last - first, self._rhs.column_index.size, self._operands.dtype
        bounds = (_NO_BOUNDS, _NO_BOUNDS, _NO_COLUMNS) if mask is None else self._mask_arguments(mask, first, last)
        k = min(k, width)
        indptr = np.empty(count + 1, np.int64)
        codes, out = np.empty(count * k, np.uint32), np.empty(count * k, dtype)
        add, multiply = self._operations
        swapped = self._operands.roles.swapped and callable(multiply)
        kernel = get_topk_kernel(add, multiply, dtype, swapped, rounds=dtype != self._schema.dtype)
        with self._workspace() as space:
            n = kernel(
                *self._csr_arguments(rows, first, last), *bounds, np.uint64(width), self._fill, space.seed, space.row,
                np.uint64(k), indptr, codes, out,
            )  # fmt: skip
        return indptr, codes[:n].view(np.int32), out[:n]

    def _multiply_all(
        self, rows: LhsRows, mask: MaskRows | None, first: int, last: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]]:
        """Return row pointers, column codes and values of all elements of some rows."""
        events.emit("product.multiply")
        count = last - first
        n_products = int(rows.product_offsets[last] - rows.product_offsets[first])
        bounds = (_NO_BOUNDS, _NO_BOUNDS, _NO_COLUMNS) if mask is None else self._mask_arguments(mask, first, last)
        csr = self._csr_arguments(rows, first, last)
        width = self._rhs.column_index.size
        if self._prefers_numpy("rows", max(n_products, count, int((bounds[1] - bounds[0]).sum()))):
            by_numpy: Any = numpy_fallback.spgemm
            indptr, codes, out = by_numpy(*self._operations, width, *csr, *bounds, self._fill)
            return indptr, codes.view(np.int32), out
        from sparrow.kernels.matmul import symbolic
        from sparrow.kernels.matmul.symbolic import OUTPUT_SLACK

        plan_rows: Any = symbolic.plan_rows
        size = min(n_products, count * max(width, 1)) + OUTPUT_SLACK
        indptr = np.empty(count + 1, np.int64)
        codes, out = (
            buffer_pool.Buffer(size, dtype, self._scratch) for dtype in (np.dtype(np.uint32), self._operands.dtype)
        )
        lhs_indptr, lhs_indices, _, rhs_indptr, rhs_indices, _ = csr
        offsets = as_readonly(rows.product_offsets[first : last + 1].view(np.uint64))
        unique, max_gathered = self._rhs.has_unique_columns, np.uint64(tuning().gather_limit)
        with self._workspace() as space:
            plan = space.plan(count, min(n_products, count * int(max_gathered)))
            needs_dense = plan_rows(
                lhs_indptr, lhs_indices, rhs_indptr, rhs_indices, *bounds, offsets, unique, max_gathered,
                space.order, space.counts, *plan,
            )  # fmt: skip
            events.emit(
                "product.plan_rows", row_kinds=plan[0], slots=len(plan[2]), products=n_products, needs_dense=needs_dense
            )
            n = self._kernels().rows(
                *csr, *bounds, offsets, *plan, unique, np.uint64(width), self._fill,
                *space.dense(needs_dense), indptr, codes.array, out.array,
            )  # fmt: skip
        return indptr, codes.truncate(n).view(np.int32), out.truncate(n)

    def _finish(self, coords: Sequence[NDArray[Any]], out: NDArray[Any], weights: Any) -> tuple[Block, Any]:
        """Return results in the output dtype, unless more is added to them."""
        if self._partial:
            return Block(tuple(coords), out), weights
        return self._operands.finish(coords, out, weights)

    def _mask_arguments(self, mask: MaskRows, first: int, last: int) -> tuple[NDArray[Any], ...]:
        """Return a mask in rows [first, last) as kernel arguments."""
        return as_readonly(mask.begins[first:last]), as_readonly(mask.ends[first:last]), as_readonly(mask.columns)

    def _csr_arguments(self, rows: LhsRows, first: int, last: int) -> tuple[NDArray[Any], ...]:
        """Return rows [first, last) and ``rhs`` as kernel arguments."""
        begin, end = int(rows.indptr[first]), int(rows.indptr[last])
        indptr = as_readonly((rows.indptr[first : last + 1] - begin).view(np.uint64))
        indices = as_readonly(rows.rhs_rows[begin:end].view(np.uint32))
        return indptr, indices, as_readonly(rows.values[begin:end]), *self._rhs.csr

    @property
    def _seed(self) -> Any:
        """Content of dense rows where nothing was added; None if it is undefined."""
        from sparrow.kernels.matmul.symbolic import get_seed

        semiring = self._node.semiring
        if semiring.identity is not None or (self._operands.mask is not None and not self._node.complement):
            return None  # the identity of ``add`` may be a stored element; masked kernels leave rows as they are
        return get_seed(semiring.add, self._operands.dtype, self._rhs.column_index.size, len(self._rhs.csr[1]))

    @property
    def _operations(self) -> tuple[Any, Any]:
        """Addition and multiplication, with the value of ``lhs`` first."""
        semiring = self._node.semiring
        swapped = {"first": "second", "second": "first"} if self._operands.roles.swapped else {}
        multiply = semiring.multiply
        return semiring.add, swapped.get(multiply, multiply) if isinstance(multiply, str) else multiply

    def _prefers_numpy(self, kernel: str, count: int) -> bool:
        """Return whether NumPy multiplies ``count`` products in place of the kernel."""
        return numpy_fallback.prefers_fallback(kernel, *self._operations, self._operands.dtype, count)

    @contextlib.contextmanager
    def _workspace(self) -> Iterator[Workspace]:
        """Lend a thread a workspace; one that may not be clean is dropped."""
        from sparrow.kernels.matmul.symbolic import Workspace

        space, clean = self._workspaces.get(), None
        try:
            if space is None:
                events.emit("product.workspace", width=self._rhs.column_index.size)
                space = Workspace(self._rhs.column_index.size, self._operands.dtype, self._seed)
            yield space
            clean = space
        finally:
            self._workspaces.put(clean)

    def _kernels(self) -> Any:
        from sparrow.kernels.matmul.spgemm import get_kernels

        add, multiply = self._operations
        swapped = self._operands.roles.swapped and callable(multiply)
        return get_kernels(add, multiply, self._operands.dtype, swapped, seeded=self._seed is not None)


def _repeat(values: NDArray[Any], indptr: NDArray[np.int64], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the value of each row at all of its elements."""
    count = int(indptr[-1])
    if prefer_numpy("repeat_rows", count):
        return np.repeat(values, np.diff(indptr)).astype(dtype, copy=False)
    from sparrow.kernels.rows import repeat_rows

    out = np.empty(count, dtype)
    repeat_rows(values, indptr, out)
    return out
