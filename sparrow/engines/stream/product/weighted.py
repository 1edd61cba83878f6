"""Sums of entries times the cells of arrays at their coordinates: one pass over a scan, straight into a loop."""

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
from sparrow.kernels.coo import Block, accumulator_dtype, flat_positions
from sparrow.kernels.jit.warmup import as_readonly
from sparrow.plan import DenseContraction, Scan
from sparrow.runtime import memory

__all__ = ["weighted"]

_FEW = 1 << 12
"""Products up to which NumPy adds them as fast as the loop."""
_NOWHERE = -1


@dataclass(frozen=True, slots=True)
class _Factor:
    """An array by the axes of the scan that it shares."""

    axes: tuple[int, ...]
    shape: tuple[int, ...]
    cells: NDArray[Any]
    """By its axes, then all of the further letters, broadcast; of shape (n,) where it has none of those."""

    @property
    def wide(self) -> bool:
        """Whether it has any of the further letters."""
        return self.cells.ndim > 1


def weighted(node: DenseContraction, scan: Scan) -> Any:
    """Return the sums, reading the scan once, chunk by chunk.

    Letters of the scan that the result has number its rows, those of arrays alone its columns. Where rows stand
    together in the scan, threads sum their chunks side by side and only the rows on the borders of chunks are added up
    afterwards; elsewhere threads decode and one adds.

    Raises
    ------
    TooLargeError
        If the result, or the arrays in the type of the sums, would pass the memory limit.
    """
    dtype = accumulator_dtype(node.schema.dtype)
    given = list(zip(node.arrays, node.array_indices, node.surviving_array_indices, strict=True))
    first = [[letter not in letters for letter in own] for _, own, letters in given]
    arrays = [
        (letters, _summed(each.array, gone, dtype)) for (each, _, letters), gone in zip(given, first, strict=True)
    ]
    sums = _of_arrays(node, scan, arrays, dtype)
    if any(map(any, first)) and dtype.kind == "f" and np.isinf(sums).any():
        arrays = [
            (letters, _of_one_sign(each.array, gone, array))
            for (each, _, letters), gone, (_, array) in zip(given, first, arrays, strict=True)
        ]
        sums[np.isnan(_of_arrays(node, scan, arrays, dtype, infinite=True))] = np.nan
    with np.errstate(all="ignore"):
        found = sums != 0 if node.schema.dtype.kind == "b" else sums.astype(node.schema.dtype, copy=False)
    return found if found.ndim else found[()]


def _of_arrays(
    node: DenseContraction, scan: Scan, arrays: list[tuple[tuple[int, ...], NDArray[Any]]], dtype: np.dtype[Any],
    infinite: bool = False,
) -> NDArray[Any]:  # fmt: skip
    """Return the sums of entries, or of the ``infinite`` ones, times cells of arrays, in a type."""
    sizes = dict(zip(node.indices, scan.schema.shape, strict=True))
    for letters, array in arrays:
        sizes |= zip(letters, array.shape, strict=True)
    kept = [letter for letter in node.indices if letter in node.output_indices]
    further = [letter for letter in sizes if letter not in node.indices]
    height, width = (math.prod(sizes[letter] for letter in part) for part in (kept, further))
    factors = _factors(node.indices, arrays, sizes, further)
    cells = height * width + sum(math.prod(each.shape) * (width if each.wide else 1) for each in factors)
    what = lambda: f"the dense result of shape {node.schema.shape} and type {dtype}, and its arrays"  # noqa: E731
    memory.check(cells * dtype.itemsize, what, "multiply a part of the tensor")
    sums = np.zeros((height, width), dtype)
    if sums.size and scan.view.size:
        _add_up(scan, tuple(map(node.indices.index, kept)), factors, sums, infinite)
    with np.errstate(all="ignore"):
        found = sums.reshape([sizes[letter] for letter in (*kept, *further)])
        gone = tuple(len(kept) + k for k, letter in enumerate(further) if letter not in node.output_indices)
        found = found.sum(axis=gone, dtype=dtype) if gone else found
        left = [letter for letter in (*kept, *further) if letter in node.output_indices]
        return np.asarray(found.transpose([left.index(letter) for letter in node.output_indices]))


def _summed(array: NDArray[Any], gone: list[bool], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the sums of an array along axes, in a type; the array along none."""
    with np.errstate(all="ignore"):
        return np.asarray(array.sum(tuple(np.flatnonzero(gone)), dtype=dtype)) if any(gone) else array


def _of_one_sign(array: NDArray[Any], gone: list[bool], sums: NDArray[Any]) -> NDArray[Any]:
    """Return sums of an array along axes, NaN where an infinite number times one cell after the other adds up to it."""
    if not any(gone):
        return sums
    axes = tuple(np.flatnonzero(gone).tolist())
    alike = (array > 0).all(axes) | (array < 0).all(axes)
    return np.where(alike, sums, np.nan)


def _factors(
    own: tuple[int, ...], arrays: list[tuple[tuple[int, ...], NDArray[Any]]], sizes: dict[int, int], further: list[int]
) -> list[_Factor]:
    """Return the arrays, each with all of the further letters or none; nothing is copied but what is not contiguous."""
    found = []
    for letters, given in arrays:
        along = [letter for letter in letters if letter not in further]
        shape = tuple(sizes[letter] for letter in along)
        array = given.transpose([letters.index(letter) for letter in (*along, *further) if letter in letters])
        if len(along) < len(letters):
            array = array.reshape(*shape, *(sizes[letter] if letter in letters else 1 for letter in further))
            array = np.broadcast_to(array, (*shape, *(sizes[letter] for letter in further)))
        else:
            array = array.reshape(-1)
        found.append(_Factor(tuple(map(own.index, along)), shape, array))
    return found


def _table(wide: list[_Factor], width: int, dtype: np.dtype[Any]) -> tuple[NDArray[Any], list[int]]:
    """Return the cells of factors below one another, as rows of the further letters, and where those of each begin."""
    lengths = [math.prod(factor.shape) for factor in wide]
    starts = [0, *itertools.accumulate(lengths)]
    if not wide:
        return np.zeros((0, 1), dtype), []
    with np.errstate(all="ignore"):
        if len(wide) == 1:
            return np.ascontiguousarray(wide[0].cells, dtype).reshape(-1, width), starts[:1]
        table = np.empty((starts[-1], width), dtype)
        for factor, start, length in zip(wide, starts, lengths, strict=False):
            own = table[start : start + length].reshape(factor.cells.shape)
            np.copyto(own, factor.cells, casting="unsafe")
    return table, starts[:-1]


def _add_up(
    scan: Scan, axes: tuple[int, ...], factors: list[_Factor], sums: NDArray[Any], infinite: bool = False
) -> None:
    """Add the entries of a scan, times factors, to the rows that their coordinates along ``axes`` number."""
    schema, width = scan.schema, sums.shape[1]
    shape = [schema.shape[axis] for axis in axes]
    wide = [factor for factor in factors if factor.wide]
    with np.errstate(all="ignore"):
        numbers = [(factor, factor.cells.astype(sums.dtype, copy=False)) for factor in factors if not factor.wide]
    table, starts = _table(wide, width, sums.dtype)
    table = as_readonly(table)

    narrow = max(len(sums), len(table)) < 1 << 31
    kind = np.dtype(np.int32 if narrow else np.int64)

    def prepared(block: Block) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        block = block.take(np.isinf(block.values)) if infinite else block
        rows = _positions(block, axes, shape)
        places = np.empty((len(wide), block.count), kind)
        with np.errstate(all="ignore"):
            values = block.values.astype(sums.dtype, copy=bool(numbers))
            for factor, cells in numbers:
                values *= cells[_positions(block, factor.axes, factor.shape)]
        for line, factor, start in zip(places, wide, starts, strict=True):
            np.add(_positions(block, factor.axes, factor.shape), kind.type(start), out=line, casting="same_kind")
        return as_readonly(rows.astype(kind, copy=False)), as_readonly(places), as_readonly(values)

    order = product_order(scan, axes)
    chunks, others = scan_reader.split_runs(scan.relation, scan.view.box(), order)
    products = sum(chunk.rows for chunk in (*chunks, *others)) * width * max(len(wide), 1)
    if products <= _FEW:
        for rows, places, values in scan_reader.map_blocks(scan, prepared, order, chunks + others):
            _add(rows, places, values, table, sums)
        return
    if not groups_output(scan.view, order, axes):
        chunks, others = [], chunks + others
    from sparrow.kernels.matmul.weighted import sum_weighted

    def summed(block: Block) -> list[tuple[int, NDArray[Any]]]:
        ends = (block.take(slice(at, at + 1)) for at in (0, block.count - 1))
        first, last = (int(_positions(end, axes, shape)[0]) for end in ends)
        edges = np.zeros((2, width), sums.dtype)
        sum_weighted(*prepared(block), table, first, last, sums, edges)
        return [(first, edges[0])] if first == last else [(first, edges[0]), (last, edges[1])]

    for ends in scan_reader.map_blocks(scan, summed, order, chunks, doing="multiplying"):
        for row, edge in ends:
            if 0 <= row < len(sums):
                with np.errstate(all="ignore"):
                    sums[row] += edge
    nowhere = np.zeros((2, width), sums.dtype)
    for arguments in scan_reader.map_blocks(scan, prepared, order, others, doing="multiplying"):
        sum_weighted(*arguments, table, _NOWHERE, _NOWHERE, sums, nowhere)


def _positions(block: Block, axes: Sequence[int], shape: Sequence[int]) -> NDArray[Any]:
    """Return where entries stand among the cells along axes."""
    if len(axes) == 1:
        return block.coords[axes[0]]
    return flat_positions([block.coords[axis] for axis in axes], shape, block.count)


def _add(
    rows: NDArray[Any], places: NDArray[Any], values: NDArray[Any], table: NDArray[Any], sums: NDArray[Any]
) -> None:
    """Add a few entries by NumPy, which takes less than to load the loop."""
    with np.errstate(all="ignore"):
        products = np.repeat(values[:, None], sums.shape[1], axis=1)
        for line in places:
            products *= table[line]
        np.add.at(sums, rows, products)
