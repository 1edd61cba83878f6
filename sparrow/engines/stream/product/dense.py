"""Contractions of a sparse tensor with dense arrays, in one pass by chunk.

Indices of the tensor that the output has number its rows, those of arrays alone its columns. A product of a matrix and
an array is the contraction with one factor. Where rows are adjacent in the scan, threads sum chunks in parallel and
only rows on chunk borders are added afterwards; elsewhere threads decode and one adds.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.sort_orders import groups_output, product_order
from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.product.tuning import tuning
from sparrow.engines.stream.structural import UnaryOperator
from sparrow.errors import UnsupportedError
from sparrow.kernels.coo import Block, accumulator_dtype, filter_block, flat_positions
from sparrow.kernels.dispatch import prefer_numpy
from sparrow.kernels.jit.warmup import as_readonly
from sparrow.kernels.matmul.numpy_fallback import multiply_unfused
from sparrow.kernels.tuning import dispatch
from sparrow.plan import Contraction, Dense, MatrixForm, Scan, surviving_array_indices
from sparrow.relations import csr
from sparrow.relations.memory import MemoryRelation
from sparrow.runtime import events, memory, progress, settings
from sparrow.runtime.thread_pool import ordered_map

__all__ = ["SampledOp", "contract_dense", "matmul_dense"]

Accumulate: TypeAlias = Callable[[Scan, NDArray[Any], NDArray[Any]], None]

_NO_ROW = -1
_LANES = 8
"""Partial sums of a row in the kernel of sampled products, which NumPy adds in the same order."""


@dataclass(frozen=True, slots=True)
class _Factor:
    """An array, laid out by the axes of the scan that it shares."""

    axes: tuple[int, ...]
    shape: tuple[int, ...]
    array: NDArray[Any]
    """Shape: shared axes, then all extra indices, broadcast; (n,) if it has no extra index."""

    @property
    def is_wide(self) -> bool:
        """True if it has any of the extra indices."""
        return self.array.ndim > 1

    def places(self, block: Block) -> NDArray[Any]:
        """Return the row of the factor that each element is multiplied with."""
        return _flat_positions(block, self.axes, self.shape)


# -- products with one array ---------------------------------------------------------------------


def matmul_dense(form: MatrixForm, result: np.dtype[Any], accumulate: Accumulate | None = None) -> Any:
    """Multiply a sparse tensor with a dense array.

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
            (accumulate or _accumulate_product)(scan, as_readonly(flat), target)
    if fill != 0:
        with np.errstate(all="ignore"):
            out += fill.astype(dtype) * x.sum(axis=0, dtype=dtype)
    out = out != 0 if result.kind == "b" else _cast(out, result)
    if scan.view.ndim == 1:
        out = out[0]
    return out.T if form.transposed else out


def _accumulate_product(scan: Scan, x: NDArray[Any], out: NDArray[Any]) -> None:
    """Add ``scan @ x`` to zeros of shape (n,) or (n, k)."""
    rows = csr.csr_rows(scan.relation, scan.view)
    if rows is not None:
        csr.accumulate(rows, scan.schema.fill_value, x, out)
        return
    relation, contracted = scan.relation, scan.view.ndim - 1
    if isinstance(relation, MemoryRelation) and relation.is_small and contracted:
        block = relation.block  # one chunk, in which elements that the view shows need no search
        if block.count <= dispatch().small_work and prefer_numpy("matvec", block.count * out[0].size):
            coords, kept = block.coords, None
            if not scan.view.is_identity:
                coords, kept = scan.view.from_base(coords, block.count)
            values = block.values if kept is None else block.values[kept]
            with contextlib.suppress(IndexError):  # coordinates of a damaged file: below, they are skipped
                _add_at(coords[0], coords[1:], _subtract_fill(values, scan.schema.fill_value, out.dtype), x, out)
                return
            out[...] = 0
    factor = _Factor((contracted,), x.shape[:1], x)
    _accumulate(scan, tuple(range(contracted)), [factor], out if out.ndim == 2 else out[:, None])


def _cast(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    if values.dtype == dtype:
        return values
    with np.errstate(all="ignore"):
        return values.astype(dtype)


def _subtract_fill(values: NDArray[Any], fill: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return values in the dtype of the sums, less the fill."""
    numbers = _cast(values, dtype)
    if fill == 0:
        return numbers
    with np.errstate(all="ignore"):
        less: NDArray[Any] = numbers - fill.astype(dtype)
    return less


def _add_with_numpy(
    rows: NDArray[Any], places: Sequence[NDArray[Any]], values: NDArray[Any], table: NDArray[Any], sums: NDArray[Any]
) -> None:
    """Add elements that are inside the arrays, times table rows."""
    inside = (rows >= 0) & (rows < len(sums))
    for line in places:
        inside &= (line >= 0) & (line < len(table))
    if not inside.all():
        rows, places, values = rows[inside], [line[inside] for line in places], values[inside]
    with np.errstate(all="ignore"):
        _add_at(rows, places, values, table, sums)


def _add_at(
    rows: NDArray[Any], places: Sequence[NDArray[Any]], values: NDArray[Any], table: NDArray[Any], sums: NDArray[Any]
) -> None:
    """Add elements times table rows with NumPy, to the bits of the kernels."""
    events.emit("product.dense_numpy", elements=len(rows))
    products = values if table.ndim == 1 else values[:, None]
    for line in places:
        products = multiply_unfused(products, table[line])
    np.add.at(sums, rows, products)


# -- contractions --------------------------------------------------------------------------------


def contract_dense(node: Contraction, scan: Scan) -> Any:
    """Return the contraction of a scan with arrays.

    Raises
    ------
    TooLargeError
        If the output, or the arrays in the dtype of the sums, exceed the memory limit.
    """
    dtype = accumulator_dtype(node.schema.dtype)
    pairs = list(zip(node.operands, node.indices, strict=True))
    own_indices = next(own for each, own in pairs if isinstance(each, Scan))
    operands = [(each, own) for each, own in pairs if isinstance(each, Dense)]
    given = [(*pair, left) for pair, left in zip(operands, surviving_array_indices(node), strict=True)]
    dropped_axes = [[index not in indices for index in own] for _, own, indices in given]
    arrays = [
        (indices, _sum_axes(each.array, dropped, dtype))
        for (each, _, indices), dropped in zip(given, dropped_axes, strict=True)
    ]
    sums = _contract(node, scan, own_indices, arrays, dtype)
    if any(map(any, dropped_axes)) and dtype.kind == "f" and np.isinf(sums).any():
        arrays = [
            (indices, _sum_infinite(each.array, dropped, array))
            for (each, _, indices), dropped, (_, array) in zip(given, dropped_axes, arrays, strict=True)
        ]
        sums[np.isnan(_contract(node, scan, own_indices, arrays, dtype, infinite=True))] = np.nan
    with np.errstate(all="ignore"):
        found = sums != 0 if node.schema.dtype.kind == "b" else sums.astype(node.schema.dtype, copy=False)
    return found if found.ndim else found[()]


def _contract(
    node: Contraction, scan: Scan, own: tuple[int, ...], arrays: list[tuple[tuple[int, ...], NDArray[Any]]],
    dtype: np.dtype[Any], infinite: bool = False,
) -> NDArray[Any]:  # fmt: skip
    """Return the sums of elements, or of infinite ones only, times arrays."""
    sizes = dict(zip(own, scan.schema.shape, strict=True))
    for indices, array in arrays:
        sizes |= zip(indices, array.shape, strict=True)
    kept = [index for index in own if index in node.output_indices]
    extra = [index for index in sizes if index not in own]
    height, width = (math.prod(sizes[index] for index in part) for part in (kept, extra))
    factors = _factors(own, arrays, sizes, extra)
    n_values = height * width + sum(math.prod(each.shape) * (width if each.is_wide else 1) for each in factors)
    what = lambda: f"the dense result of shape {node.schema.shape} and type {dtype}, and its arrays"  # noqa: E731
    memory.check(n_values * dtype.itemsize, what, "multiply a part of the tensor")
    sums = np.zeros((height, width), dtype)
    if sums.size and scan.view.size:
        _accumulate(scan, tuple(map(own.index, kept)), factors, sums, infinite)
    with np.errstate(all="ignore"):
        found = sums.reshape([sizes[index] for index in (*kept, *extra)])
        dropped = tuple(len(kept) + k for k, index in enumerate(extra) if index not in node.output_indices)
        found = found.sum(axis=dropped, dtype=dtype) if dropped else found
        left = [index for index in (*kept, *extra) if index in node.output_indices]
        return np.asarray(found.transpose([left.index(index) for index in node.output_indices]))


def _sum_axes(array: NDArray[Any], dropped: list[bool], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the sums of an array along the dropped axes, if there are any."""
    with np.errstate(all="ignore"):
        return np.asarray(array.sum(tuple(np.flatnonzero(dropped)), dtype=dtype)) if any(dropped) else array


def _sum_infinite(array: NDArray[Any], dropped: list[bool], sums: NDArray[Any]) -> NDArray[Any]:
    """Return sums along dropped axes, NaN where infinity times the values gives NaN."""
    if not any(dropped):
        return sums
    axes = tuple(np.flatnonzero(dropped).tolist())
    has_one_sign = (array > 0).all(axes) | (array < 0).all(axes)
    return np.where(has_one_sign, sums, np.nan)


def _factors(
    own: tuple[int, ...], arrays: list[tuple[tuple[int, ...], NDArray[Any]]], sizes: dict[int, int], extra: list[int]
) -> list[_Factor]:
    """Return the arrays, each with all extra indices or none."""
    found = []
    for indices, source in arrays:
        along = [index for index in indices if index not in extra]
        shape = tuple(sizes[index] for index in along)
        array = source.transpose([indices.index(index) for index in (*along, *extra) if index in indices])
        if len(along) < len(indices):
            array = array.reshape(*shape, *(sizes[index] if index in indices else 1 for index in extra))
            array = np.broadcast_to(array, (*shape, *(sizes[index] for index in extra)))
        else:
            array = array.reshape(-1)
        found.append(_Factor(tuple(map(own.index, along)), shape, array))
    return found


def _table(wide: list[_Factor], width: int, dtype: np.dtype[Any]) -> tuple[NDArray[Any], list[int]]:
    """Return the rows of all wide factors, stacked, and the first row of each."""
    lengths = [math.prod(factor.shape) for factor in wide]
    starts = [0, *itertools.accumulate(lengths)]
    if not wide:
        return np.zeros((0, 1), dtype), []
    with np.errstate(all="ignore"):
        if len(wide) == 1:
            return np.ascontiguousarray(wide[0].array, dtype).reshape(-1, width), starts[:1]
        table = np.empty((starts[-1], width), dtype)
        for factor, start, length in zip(wide, starts, lengths, strict=False):
            own = table[start : start + length].reshape(factor.array.shape)
            np.copyto(own, factor.array, casting="unsafe")
    return table, starts[:-1]


def _accumulate(
    scan: Scan, axes: tuple[int, ...], factors: list[_Factor], sums: NDArray[Any], infinite: bool = False
) -> None:
    """Add elements, less the fill, times factors, to rows along ``axes``."""
    multiply = _Multiply(scan, axes, factors, sums, infinite)
    order = product_order(scan, axes)
    chunks, others = scan_reader.split_runs(scan.relation, scan.view.box(), order)
    work = sum(chunk.rows for chunk in (*chunks, *others)) * sums.shape[1] * len(multiply.wide)
    if not groups_output(scan.view, order, axes):
        chunks, others = [], chunks + others
    if prefer_numpy("matvec", work):
        for elements in scan_reader.map_blocks(scan, multiply.prepare, order, chunks):
            part = np.zeros_like(sums) if len(chunks) > 1 else sums
            multiply.add_with_numpy(elements, part)
            if part is not sums:
                sums += part
        for elements in scan_reader.map_blocks(scan, multiply.prepare, order, others):
            multiply.add_with_numpy(elements, sums)
        return
    for ends in scan_reader.map_blocks(scan, multiply.sum_runs, order, chunks, doing="multiplying"):
        for row, edge in ends:
            if 0 <= row < len(sums):
                with np.errstate(all="ignore"):
                    sums[row] += edge
    for elements in scan_reader.map_blocks(scan, multiply.prepare, order, others, doing="multiplying"):
        multiply.scatter(elements)


_Elements: TypeAlias = "tuple[NDArray[Any], NDArray[Any], NDArray[Any]]"
"""Output row, table rows, and value of each element, as kernels take them."""


class _Multiply:
    """Multiplies blocks of a scan with factors.

    The wide factors are a table, whose rows kernels multiply with eight columns at a time. If there are none, the last
    factor is a vector, whose product with the elements is fused with the sum.

    Parameters
    ----------
    scan, axes, factors, sums
        As for :func:`_accumulate`.
    infinite
        Whether only infinite elements count.
    """

    def __init__(
        self, scan: Scan, axes: tuple[int, ...], factors: list[_Factor], sums: NDArray[Any], infinite: bool
    ) -> None:
        schema, dtype = scan.schema, sums.dtype
        self._axes, self._shape, self._sums = axes, [schema.shape[axis] for axis in axes], sums
        self._fill, self._infinite = schema.fill_value, infinite
        narrow = [factor for factor in factors if not factor.is_wide]
        self.wide = [factor for factor in factors if factor.is_wide]
        self._is_vector = not self.wide
        if self._is_vector:
            self.wide = [narrow.pop() if narrow else _Factor((), (1,), np.ones(1, dtype))]
        self._numbers = [(factor, _cast(factor.array, dtype)) for factor in narrow]
        table, self._starts = _table(self.wide, sums.shape[1], dtype)
        self._table = as_readonly(table[:, 0] if self._is_vector else table)
        is_narrow = max(len(sums), len(table)) < 1 << 31
        self._index_dtype = np.dtype(np.int32 if is_narrow else np.int64)

    def prepare(self, block: Block) -> _Elements:
        """Return the elements of a block, multiplied with the factors beside the table."""
        block = block.take(np.isinf(block.values)) if self._infinite else block
        values = _subtract_fill(block.values, self._fill, self._sums.dtype)
        with np.errstate(all="ignore"):
            for factor, array in self._numbers:
                values = multiply_unfused(values, array[factor.places(block)])
        rows = _flat_positions(block, self._axes, self._shape).astype(self._index_dtype, copy=False)
        if len(self.wide) == 1:
            places = self.wide[0].places(block).astype(self._index_dtype, copy=False)[None]
        else:
            places = np.empty((len(self.wide), block.count), self._index_dtype)
            for line, factor, start in zip(places, self.wide, self._starts, strict=True):
                np.add(factor.places(block), self._index_dtype.type(start), out=line, casting="same_kind")
        return as_readonly(rows), as_readonly(places), as_readonly(values)

    def sum_runs(self, block: Block) -> list[tuple[int, NDArray[Any]]]:
        """Add the runs of a block; return the first and last row with their sums."""
        from sparrow.kernels.matmul import dense

        rows, places, values = self.prepare(block)
        if not len(rows):
            return []
        first, last = int(rows[0]), int(rows[-1])
        edges = np.zeros((2, self._sums.shape[1]), self._sums.dtype)
        if self._is_vector:
            dense.sorted_coo_matvec(rows, places[0], values, self._table, self._sums[:, 0], edges[:, 0])
        else:
            dense.mttkrp(rows, places, values, self._table, first, last, self._sums, edges)
        return [(first, edges[0])] if first == last else [(first, edges[0]), (last, edges[1])]

    def scatter(self, elements: _Elements) -> None:
        """Add elements in any order, on one thread."""
        from sparrow.kernels.matmul import dense

        rows, places, values = elements
        if self._is_vector:
            dense.coo_matvec(rows, places[0], values, self._table, self._sums[:, 0])
            return
        no_edges = np.zeros((2, self._sums.shape[1]), self._sums.dtype)
        dense.mttkrp(rows, places, values, self._table, _NO_ROW, _NO_ROW, self._sums, no_edges)

    def add_with_numpy(self, elements: _Elements, sums: NDArray[Any]) -> None:
        """Add elements with NumPy."""
        rows, places, values = elements
        _add_with_numpy(rows, list(places), values, self._table, sums[:, 0] if self._is_vector else sums)


def _flat_positions(block: Block, axes: Sequence[int], shape: Sequence[int]) -> NDArray[Any]:
    """Return the flat positions of elements along axes."""
    if len(axes) == 1:
        return block.coords[axes[0]]
    return flat_positions([block.coords[axis] for axis in axes], shape, block.count)


# -- sampled products ----------------------------------------------------------------------------


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
            if prefer_numpy("sddmm", block.count * self._left.shape[1]):
                left, right = self._left[block.coords[0]], self._right[block.coords[1]]
                out = multiply_unfused(given, _sum_in_lanes(multiply_unfused(left, right)))
            else:
                out = np.empty(block.count, self._left.dtype)
                self._multiply((*map(as_readonly, (*block.coords, given)),), out)
            return out != 0 if dtype.kind == "b" else out.astype(dtype, copy=False)

    def _multiply(self, elements: tuple[NDArray[Any], ...], out: NDArray[Any]) -> None:
        """Write values times products to ``out``, in batches on threads."""
        from sparrow.kernels.matmul import dense

        multiply: Any = dense.sddmm
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
