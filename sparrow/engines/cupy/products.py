"""Products on a device: cuSPARSE for floats, expand-sort-reduce for integers.

cupyx.scipy.sparse has no integers and 32-bit indices, so matrices are passed in tiles without empty rows and columns:
their memory depends on the stored elements, not on the shape.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.cupy.coo import DeviceCOO, Groups, drop_fill
from sparrow.engines.cupy.device import Device, order_unsupported_reason, tile_rows
from sparrow.engines.cupy.elementwise import find_keys
from sparrow.engines.cupy.tiles import Tile, TiledOp, is_tiled, map_halving, map_tiles, read_all
from sparrow.engines.cupy.tuning import tuning
from sparrow.engines.sort_orders import product_order
from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.partitioning import partition_bounds
from sparrow.errors import TooLargeError
from sparrow.kernels.coo import Block, concat_blocks
from sparrow.plan import Contraction, Scan, matrix_form
from sparrow.plan.estimates import estimate_contraction, estimate_nnz
from sparrow.runtime import settings

__all__ = ["accumulate_matmul", "build_product", "unsupported_reason"]

_INT32_MAX = 2**31 - 1


# -- tensors and dense arrays --------------------------------------------------------------------


def unsupported_reason(node: Contraction) -> str | None:
    """Return why a contraction is not supported, None if it is."""
    return _array_reason(node) if node.schema.is_array else _tensor_reason(node)


def _array_reason(node: Contraction) -> str | None:
    form = matrix_form(node)
    if form is None:
        return "gathers of several arrays on the device are not implemented"
    if max(form.scan.schema.shape + form.array.shape) > _INT32_MAX:
        return f"cuSPARSE indices are limited to {_INT32_MAX}"
    return order_unsupported_reason(node.schema.dtype)


def accumulate_matmul(device: Device, scan: Scan, x: NDArray[Any], out: NDArray[Any]) -> None:
    """Add ``scan @ x`` to ``out``, which is 0; both have shape (n,) or (n, k).

    Raises
    ------
    TooLargeError
        If one column of both does not fit the device.
    """
    columns, target = (x[:, None], out[:, None]) if x.ndim == 1 else (x, out)
    per = (len(columns) + len(target)) * out.itemsize
    most = device.room() // (4 * per)
    if not most:
        raise TooLargeError(
            f"one column of an array of shape {x.shape} and of the result takes {per} bytes, and the device has "
            f"{device.room()} bytes of memory free: use engine='stream'"
        )
    for start in range(0, columns.shape[1], most):
        part = slice(start, start + most)
        with device.here():
            target[:, part] = device.get(_columns(device, scan, columns[:, part], target[:, part]))


def _columns(device: Device, scan: Scan, x: NDArray[Any], out: NDArray[Any]) -> Any:
    """Return columns of the product on the device."""
    dtype, fill = out.dtype, scan.schema.fill_value
    moved = device.put(np.ascontiguousarray(x))
    found = device.xp.zeros(out.shape, dtype)
    width = scan.schema.shape[-1]

    def multiply(rows: Any, columns: Any, values: Any) -> tuple[Any, Any]:
        values = values.astype(dtype, copy=False)
        if fill != 0:
            values = values - fill.astype(dtype)
        groups = Groups(device, rows)
        values, columns = groups.sort_values(values), groups.sort_values(columns)
        if dtype.kind not in "fc":
            return groups.numbers, groups.sums(values[:, None] * moved[columns])
        matrix = _matrix(device, values, columns, groups.pointers, width)
        return groups.numbers, matrix @ moved

    each = 1 if dtype.kind in "fc" else out.shape[1]  # integers are multiplied for all columns before they are added
    for rows, part in _parts(device, scan, max(tile_rows(device) // each, 1), multiply):
        found[rows] += part
    return found


def _parts(
    device: Device, scan: Scan, most: int, work: Callable[[Any, Any, Any], tuple[Any, Any]]
) -> Iterator[tuple[Any, Any]]:
    """Yield ``work(rows, columns, values)`` of tiles of about ``most`` elements."""
    what, width = f"a product of shape {scan.schema.shape}", scan.schema.shape[-1]
    if is_tiled(scan):

        def compute(elements: DeviceCOO) -> tuple[Any, Any] | None:
            return work(elements.keys // width, elements.keys % width, elements.values) if elements.count else None

        yield from filter(None, map_tiles(device, scan, compute, what))
        return
    for block in _large_blocks(scan, most):

        def copy_in(start: int, stop: int, block: Block = block) -> tuple[Any, Any]:
            part = block.take(slice(start, stop))
            *rows, columns = map(device.put, part.coords)
            own = rows[0].astype(np.int64, copy=False) if rows else device.xp.zeros(part.count, np.int64)
            return work(own, columns, device.put(part.values))

        yield from map_halving(device, copy_in, 0, block.count, what)


def _large_blocks(scan: Scan, rows: int) -> Iterator[Block]:
    """Yield the elements of a scan in blocks of at least ``rows`` elements."""
    waiting: list[Block] = []
    for block in scan_reader.map_blocks(scan, lambda block: block, product_order(scan), doing="multiplying"):
        waiting.append(block)
        if sum(one.count for one in waiting) >= rows:
            yield concat_blocks(waiting, scan.schema.ndim, scan.schema.dtype)
            waiting = []
    if waiting:
        yield concat_blocks(waiting, scan.schema.ndim, scan.schema.dtype)


def _matrix(device: Device, values: Any, columns: Any, pointers: Any, width: int) -> Any:
    """Return a CSR matrix on the device."""
    parts = values, columns.astype(np.int32, copy=False), pointers.astype(np.int32, copy=False)
    return device.sparse.csr_matrix(parts, shape=(pointers.size - 1, width))


# -- two tensors ---------------------------------------------------------------------------------


def _tensor_reason(node: Contraction) -> str | None:
    if not node.semiring.plain:
        return f"semiring {node.semiring}: cuSPARSE has plus_times only"
    if node.mask is not None:
        return "cuSPARSE has no masked product"
    if node.topk is not None:
        return "cuSPARSE forms all elements of a row"
    if _sides(node) is None:
        return "not a product of two matrices"
    if node.schema.dtype == np.float16:
        return "a product in float16"
    return order_unsupported_reason(node.schema.dtype)


def _sides(node: Contraction) -> tuple[tuple[int, tuple[int, int]], tuple[int, tuple[int, int]]] | None:
    """Return the operands of rows and columns, each with the order of its axes.

    The first times the second, permuted, is the product. None if it is not a matrix product.
    """
    if len(node.tensors) != 2 or len(node.operands) != 2:
        return None
    own, other = node.indices
    if (len(own), len(other), len(node.output_indices)) != (2, 2, 2) or len({*own, *other}) != 3 or len(set(own)) != 2:
        return None
    (matched,) = set(own) & set(other)
    if matched in node.output_indices:
        return None
    first = 0 if node.output_indices[0] in own else 1
    rows, columns = node.indices[first], node.indices[1 - first]
    return (
        (first, (rows.index(node.output_indices[0]), rows.index(matched))),
        (1 - first, (columns.index(matched), columns.index(node.output_indices[1]))),
    )


class _Rows:
    """Stored elements of a matrix by non-empty rows."""

    def __init__(self, device: Device, elements: DeviceCOO, width: int) -> None:
        self.device = device
        self.rows, self.columns, self.values = elements.keys // width, elements.keys % width, elements.values
        groups = Groups(device, self.rows)
        self.numbers, self.pointers = groups.numbers, groups.pointers

    @cached_property
    def across(self) -> tuple[Any, Any]:
        """Return the non-empty columns, and the index of each element's column."""
        found: tuple[Any, Any] = self.device.xp.unique(self.columns, return_inverse=True)
        return found


def build_product(device: Device, node: Contraction, scans: list[Scan]) -> TiledOp:
    """Return the operator of a product: tiles of rows of one operand times the other.

    The other operand is resident on the device; if it takes more than a quarter of the free memory, panels of it are
    read for each tile.
    """
    sides = _sides(node)
    assert sides is not None
    left, right = (_permute(scans[number], order) for number, order in sides)
    inner, width = right.schema.shape
    dtype, fill = node.schema.dtype, node.schema.fill_value
    lock = threading.Lock()
    held: list[_Rows | None] = []

    def panels() -> Iterator[_Rows | None]:
        most = min(device.room() // (4 * tuning().resident_element_bytes), _INT32_MAX)
        bounds = partition_bounds([right], inner, max(most, 1))
        if len(bounds) > 2:
            for first, last in itertools.pairwise(bounds):
                yield _panel(device, right, first, last)
            return
        with lock:
            if not held:
                held.append(_panel(device, right, 0, inner))
        yield held[0]

    def compute(tile: Tile) -> DeviceCOO:
        xp = device.xp
        elements = tile.elements(left)
        several = tile.stop - tile.start > 1
        found = [_product(device, elements, panel, (inner, width), dtype, several) for panel in panels() if panel]
        found = [part for part in found if part.count]
        if not found:
            return DeviceCOO(xp.zeros(0, np.int64), xp.zeros(0, dtype))
        out = found[0]
        if len(found) > 1:
            groups = Groups(device, xp.concatenate([part.keys for part in found]))
            sums = groups.sums(groups.sort_values(xp.concatenate([part.values for part in found])))
            out = DeviceCOO(groups.numbers, sums)
        values = out.values != 0 if dtype.kind == "b" else out.values.astype(dtype, copy=False)
        return drop_fill(device, DeviceCOO(out.keys, values), fill)

    products, read = estimate_contraction(node.with_inputs(scans))[0], estimate_nnz(left)
    return TiledOp(device, node, [left], compute, max(products / read, 1.0) if read else 1.0)


def _permute(scan: Scan, order: tuple[int, int]) -> Scan:
    return scan if order == (0, 1) else scan.then(scan.view.permute(order))


def _panel(device: Device, scan: Scan, first: int, last: int) -> _Rows | None:
    """Return rows of an operand on the device, None if they are empty."""
    height, width = scan.schema.shape
    part = scan if (first, last) == (0, height) else scan.then(scan.view.then((slice(first, last),)))
    found = read_all(device, part, f"an operand of a product, of shape {scan.schema.shape}")
    return _Rows(device, DeviceCOO(found.keys + first * width, found.values), width) if found.count else None


def _product(
    device: Device, elements: DeviceCOO, right: _Rows, shape: tuple[int, int], dtype: np.dtype[Any], several: bool
) -> DeviceCOO:
    """Return rows times a panel; integers in 64 bits.

    Raises
    ------
    MemoryError
        If there are too many multiplications and ``several`` rows, so that the tile can be halved.
    """
    xp, (inner, width) = device.xp, shape
    places, there = find_keys(device, right.numbers, elements.keys % inner)
    elements, places = elements.take(there), places[there]
    if not elements.count:
        return elements
    left = _Rows(device, elements, inner)
    lengths = right.pointers[places + 1] - right.pointers[places]
    count = int(lengths.sum())
    most = min(device.room() // (tuning().product_bytes * settings.current().threads), _INT32_MAX)
    if several and count > most:
        raise MemoryError(f"{count} products")
    if dtype.kind not in "fc":
        return _expand_sort_reduce(device, left, right, places, lengths, count, width)
    across, own = right.across
    one = _matrix(device, left.values.astype(dtype, copy=False), places, left.pointers, right.numbers.size)
    two = _matrix(device, right.values.astype(dtype, copy=False), own, right.pointers, across.size)
    out = one @ two
    rows = xp.searchsorted(out.indptr, xp.arange(out.indices.size, dtype=out.indptr.dtype), side="right") - 1
    keys = left.numbers[rows] * width + across[out.indices]
    order = xp.argsort(keys)
    return DeviceCOO(keys[order], out.data[order])


def _expand_sort_reduce(
    device: Device, left: _Rows, right: _Rows, places: Any, lengths: Any, count: int, width: int
) -> DeviceCOO:
    """Return products of integers modulo 2^64 by expand-sort-reduce."""
    xp = device.xp
    ends = xp.cumsum(lengths)
    each = xp.arange(count, dtype=np.int64)
    which = xp.searchsorted(ends, each, side="right")
    other = right.pointers[places[which]] + each - (ends - lengths)[which]
    groups = Groups(device, left.rows[which] * width + right.columns[other])
    products = left.values.astype(np.int64)[which] * right.values.astype(np.int64)[other]
    return DeviceCOO(groups.numbers, groups.sums(groups.sort_values(products)))
