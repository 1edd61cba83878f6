"""Contraction of a sparse tensor with several dense arrays in one pass."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.sort_orders import groups_output, product_order
from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.product.tuning import tuning
from sparrow.kernels.coo import Block, accumulator_dtype, flat_positions
from sparrow.kernels.jit.warmup import as_readonly
from sparrow.kernels.matmul.numpy_fallback import multiply_unfused
from sparrow.plan import Contraction, Dense, Scan, surviving_array_indices
from sparrow.runtime import memory

__all__ = ["contract_dense"]

_NO_ROW = -1


@dataclass(frozen=True, slots=True)
class _Factor:
    """An array, laid out by the axes of the scan that it shares."""

    axes: tuple[int, ...]
    shape: tuple[int, ...]
    array: NDArray[Any]
    """Shape: shared axes, then all extra indices, broadcast; (n,) if it has no extra index."""

    @property
    def is_wide(self) -> bool:
        """Whether it has any of the extra indices."""
        return self.array.ndim > 1


def contract_dense(node: Contraction, scan: Scan) -> Any:
    """Return the contraction of a scan with arrays, reading the scan once by chunk.

    Indices of the scan that the output has number its rows, those of arrays alone its columns. Where rows are adjacent
    in the scan, threads sum chunks in parallel and only rows on chunk borders are added afterwards; elsewhere threads
    decode and one adds.

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
    """Add the elements of a scan, times factors, to rows numbered along ``axes``."""
    schema, width = scan.schema, sums.shape[1]
    shape = [schema.shape[axis] for axis in axes]
    wide = [factor for factor in factors if factor.is_wide]
    with np.errstate(all="ignore"):
        numbers = [(factor, factor.array.astype(sums.dtype, copy=False)) for factor in factors if not factor.is_wide]
    table, starts = _table(wide, width, sums.dtype)
    table = as_readonly(table)

    narrow = max(len(sums), len(table)) < 1 << 31
    kind = np.dtype(np.int32 if narrow else np.int64)

    def prepare(block: Block) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        block = block.take(np.isinf(block.values)) if infinite else block
        rows = _flat_positions(block, axes, shape)
        places = np.empty((len(wide), block.count), kind)
        with np.errstate(all="ignore"):
            values = block.values.astype(sums.dtype, copy=bool(numbers))
            for factor, array in numbers:
                values *= array[_flat_positions(block, factor.axes, factor.shape)]
        for line, factor, start in zip(places, wide, starts, strict=True):
            np.add(_flat_positions(block, factor.axes, factor.shape), kind.type(start), out=line, casting="same_kind")
        return as_readonly(rows.astype(kind, copy=False)), as_readonly(places), as_readonly(values)

    order = product_order(scan, axes)
    chunks, others = scan_reader.split_runs(scan.relation, scan.view.box(), order)
    products = sum(chunk.rows for chunk in (*chunks, *others)) * width * max(len(wide), 1)
    if products <= tuning().mttkrp_numpy_max_products:
        for rows, places, values in scan_reader.map_blocks(scan, prepare, order, chunks + others):
            _add_with_numpy(rows, places, values, table, sums)
        return
    if not groups_output(scan.view, order, axes):
        chunks, others = [], chunks + others
    from sparrow.kernels.matmul.mttkrp import mttkrp

    def sum_block(block: Block) -> list[tuple[int, NDArray[Any]]]:
        ends = (block.take(slice(at, at + 1)) for at in (0, block.count - 1))
        first, last = (int(_flat_positions(end, axes, shape)[0]) for end in ends)
        edges = np.zeros((2, width), sums.dtype)
        mttkrp(*prepare(block), table, first, last, sums, edges)
        return [(first, edges[0])] if first == last else [(first, edges[0]), (last, edges[1])]

    for ends in scan_reader.map_blocks(scan, sum_block, order, chunks, doing="multiplying"):
        for row, edge in ends:
            if 0 <= row < len(sums):
                with np.errstate(all="ignore"):
                    sums[row] += edge
    no_edges = np.zeros((2, width), sums.dtype)
    for arguments in scan_reader.map_blocks(scan, prepare, order, others, doing="multiplying"):
        mttkrp(*arguments, table, _NO_ROW, _NO_ROW, sums, no_edges)


def _flat_positions(block: Block, axes: Sequence[int], shape: Sequence[int]) -> NDArray[Any]:
    """Return the flat positions of elements along axes."""
    if len(axes) == 1:
        return block.coords[axes[0]]
    return flat_positions([block.coords[axis] for axis in axes], shape, block.count)


def _add_with_numpy(
    rows: NDArray[Any], places: NDArray[Any], values: NDArray[Any], table: NDArray[Any], sums: NDArray[Any]
) -> None:
    """Add a few elements with NumPy, which is faster than loading the kernel."""
    with np.errstate(all="ignore"):
        products = np.repeat(values[:, None], sums.shape[1], axis=1)
        for line in places:
            products = multiply_unfused(products, table[line])
        np.add.at(sums, rows, products)
