"""The stream engine: chunks of a relation, decoded on threads, straight into arrays and kernels.

Nothing here loads a tensor whole unless its entries are the result. Every sum runs in the order of the
chunks, whatever the number of threads, so the same relation gives the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparrow import progress, settings
from sparrow.engines import persisted, sharing
from sparrow.engines.choose import groups_output, product_order, scan_order, sorted_order
from sparrow.errors import TooLargeError, UnsupportedError
from sparrow.index import Box, Range, View
from sparrow.kernels.entries import Block, canonical
from sparrow.plan import Contract, Scan
from sparrow.relation import Chunk, Relation
from sparrow.workers import ordered_map

__all__ = ["blocks", "cell", "check_output", "count", "entries", "mapped", "matmul", "reader", "sorted_blocks"]

T = TypeVar("T")

_SORT_COPIES = 4
"""Entries are held about so many times while they are sorted in memory."""


def blocks(
    scan: Scan,
    order: tuple[int, ...] | None = None,
    chunks: Sequence[Chunk] | None = None,
    axes: Sequence[int] | None = None,
) -> Iterator[Block]:
    """Yield the entries of a scan at the view's coordinates, in the order of the base entries.

    Parameters
    ----------
    order
        The sort order to scan; by default the one in which the fewest rows are read.
    chunks
        Some of the chunks of that order, where not all are wanted.
    axes
        The axes whose coordinates are wanted, all by default; the columns of the others may hold anything.
    """
    yield from mapped(scan, lambda block: block, order, chunks, axes)


def mapped(
    scan: Scan,
    work: Callable[[Block], T],
    order: tuple[int, ...] | None = None,
    chunks: Sequence[Chunk] | None = None,
    axes: Sequence[int] | None = None,
    doing: str | None = None,
) -> Iterator[T]:
    """Yield ``work(block)`` for each of the :func:`blocks` of a scan, done by the threads that read them.

    Parameters
    ----------
    order, chunks, axes
        As of :func:`blocks`.
    doing
        What a progress bar says; there is none by default.
    """
    view = scan.view
    if view.size == 0:
        return
    if order is None:
        order = scan_order(scan)
    if chunks is None:
        chunks = scan.relation.chunks(view.box(), order)
    read = reader(scan, order, axes)

    def worked(chunk: Chunk) -> tuple[T] | None:
        block = read(chunk)
        return (work(block),) if block.count else None

    threads = min(settings.current().threads, len(chunks))
    with progress.bar(doing, sum(chunk.rows for chunk in chunks), "entries") if doing else nullcontext() as advance:
        for chunk, found in zip(chunks, ordered_map(worked, chunks, threads), strict=True):
            if found is not None:
                yield found[0]
            if advance is not None:
                advance(chunk.rows)


def reader(scan: Scan, order: tuple[int, ...], axes: Sequence[int] | None = None) -> Callable[[Chunk], Block]:
    """Return the function that reads one chunk of a sort order; the arguments are those of :func:`blocks`."""
    relation, view = scan.relation, scan.view
    dims = None if axes is None else _dims(view, axes)
    if view.is_identity:
        return lambda chunk: sharing.read(relation, chunk, dims)
    dtypes = [scan.schema.coordinate_dtype(axis) for axis in range(view.ndim)]

    def shown(chunk: Chunk) -> Block:
        block = _trimmed(sharing.read(relation, chunk, dims), view, order, chunk)
        coords, kept = view.from_base(block.coords, block.count)
        columns = tuple(column.astype(dtype, copy=False) for column, dtype in zip(coords, dtypes, strict=True))
        return Block(columns, block.values if kept is None else block.values[kept])

    return shown


def _dims(view: View, axes: Sequence[int]) -> tuple[int, ...]:
    """Return the dimensions that tell which entries a view shows, and their coordinates along some of its axes."""
    wanted = {dim for dim, _ in view.fixed}.union(*(group.dims for group in view.points))
    for number, axis in enumerate(view.axes):
        if isinstance(axis, Range) and (number in axes or axis.length < view.base_shape[axis.dim]):
            wanted.add(axis.dim)
    return tuple(sorted(wanted))


def entries(scan: Scan) -> Block:
    """Return all entries of a scan, canonical in the order of the view's axes.

    Raises
    ------
    TooLargeError
        If they would pass the memory limit.
    """
    if scan.view.size == 0:
        return _collected(scan, iter(()), 0)
    order = sorted_order(scan)
    rows = scan.relation.stats(scan.view.box(), order).rows
    doing = "computing" if scan.relation.version is None else "reading"
    read = mapped(scan, lambda block: block, order, doing=doing)
    if scan.view.keeps_order(order) or scan.view.ndim == 0:
        return _collected(scan, read, rows)
    width = scan.schema.dtype.itemsize + 8 * scan.schema.ndim
    if _SORT_COPIES * rows * width > settings.current().memory_limit:
        return _collected(scan, sorted_blocks(scan), rows)
    block = _collected(scan, read, rows)
    leading = _out_of_order(scan.view, order)
    return canonical(block, scan.schema.shape, scan.schema.fill_value, keep_fill=True, leading=leading)


def _out_of_order(view: View, order: tuple[int, ...]) -> int:
    """Return how many first axes entries read in an order have to be sorted by: the rest then are in theirs."""
    fixed = {dim for dim, _ in view.fixed}
    dims = [axis.dim for axis in view.axes if isinstance(axis, Range) and axis.step > 0]
    if view.points or len(dims) < view.ndim:
        return view.ndim
    rest = [dim for dim in order if dim not in fixed]
    return next(k for k in range(view.ndim + 1) if [dim for dim in rest if dim not in dims[:k]] == dims[k:])


def _collected(scan: Scan, pieces: Iterator[Block], rows: int) -> Block:
    """Return blocks as one, held once; ``rows`` is about their number of entries."""
    schema, limit = scan.schema, settings.current().memory_limit
    dtypes = [schema.coordinate_dtype(axis) for axis in range(schema.ndim)]
    width = schema.dtype.itemsize + sum(dtype.itemsize for dtype in dtypes)
    # Memory is taken when it is written to, so a bound that is far too large costs nothing.
    arrays = [np.empty(min(rows, limit // width), dtype) for dtype in (*dtypes, schema.dtype)]
    count = 0
    for piece in pieces:
        stop = count + piece.count
        if stop * width > limit:
            raise TooLargeError(
                f"the entries of shape {schema.shape} pass the memory limit of {limit} bytes: read them in "
                "pieces with to_batches(), take a smaller view, or raise the limit with sp.config(memory_limit=...)"
            )
        if stop > len(arrays[-1]):
            arrays = [_longer(array, count, max(stop, 2 * count)) for array in arrays]
        for array, column in zip(arrays, (*piece.coords, piece.values), strict=True):
            array[count:stop] = column
        count = stop
    if count < len(arrays[-1]):
        arrays = [array[:count] if 2 * count > len(array) else array[:count].copy() for array in arrays]
    return Block(tuple(arrays[:-1]), arrays[-1])


def _longer(array: NDArray[Any], count: int, size: int) -> NDArray[Any]:
    out = np.empty(size, array.dtype)
    out[:count] = array[:count]
    return out


def sorted_blocks(scan: Scan) -> Iterator[Block]:
    """Yield all entries of a scan in canonical blocks, in the order of the view's axes, within the memory limit.

    Streamed where a sort order gives them so; otherwise sorted, on disk where they are too many.
    """
    if scan.view.size == 0:
        return
    order = sorted_order(scan)
    if scan.view.keeps_order(order) or scan.view.ndim == 0:
        yield from blocks(scan, order)
        return
    from sparrow.sorting import Rows, Sorter

    dtypes = [scan.schema.coordinate_dtype(axis) for axis in range(scan.schema.ndim)]
    sorter = Sorter(scan.schema.ndim, scan.schema.dtype, weighted=True, duplicates="error")
    try:
        rows = (Rows(block.coords, block.values) for block in blocks(scan))
        sorter.consume(ordered_map(sorter.prepare, rows, settings.current().threads))
        yield from sorter.blocks(dtypes, scan.schema.fill_value)
    finally:
        sorter.close()


def count(scan: Scan) -> int:
    """Return the number of entries of a scan; chunks that lie within the view are not read."""
    relation, view = scan.relation, scan.view
    if view.is_identity:
        return relation.nnz
    if view.size == 0:
        return 0
    order = scan_order(scan)
    box = view.box()
    # The footers of files say how many entries a chunk holds; what is computed knows about how many.
    countable = not view.points and view.repeats == 1 and relation.version is not None
    dims = _dims(view, ())

    def counted(chunk: Chunk) -> int:
        if countable and _inside(box, chunk):
            return chunk.rows
        block = _trimmed(sharing.read(relation, chunk, dims), view, order, chunk)
        _, kept = view.from_base(block.coords, block.count)
        return block.count if kept is None else len(kept)

    return sum(ordered_map(counted, relation.chunks(box, order), settings.current().threads))


def cell(relation: Relation, view: View) -> Any:
    """Return the one cell that a view without axes shows, as a NumPy scalar."""
    scan = Scan(relation, view, relation.schema.through(view))
    for block in blocks(scan):
        return block.values[0]
    return relation.schema.fill_value


def _inside(box: Box, chunk: Chunk) -> bool:
    """Return whether every entry of a chunk lies in the box."""
    return all(
        r.start <= low and high <= r[-1] and (r.step == 1 or len(r) == 1)
        for r, low, high in zip(box.ranges, chunk.low, chunk.high, strict=True)
    )


def _trimmed(block: Block, view: View, order: tuple[int, ...], chunk: Chunk) -> Block:
    """Return a part of a sorted chunk that holds what the view shows of it, found by bisection.

    Dimensions are looked at in the sort order as long as the ones before are fixed.
    """
    fixed = dict(view.fixed)
    ranges = {axis.dim: axis for axis in view.axes if isinstance(axis, Range)}
    for dim in order:
        if dim in fixed:
            low = high = fixed[dim]
        elif dim in ranges:
            axis = ranges[dim]
            low, high = sorted((axis.start, axis.start + axis.step * (axis.length - 1)))
        else:
            return block
        if chunk.low[dim] < low or high < chunk.high[dim]:
            column = block.coords[dim]
            kind = column.dtype.type  # a Python integer would cast the whole column
            start, stop = np.searchsorted(column, kind(low), "left"), np.searchsorted(column, kind(high), "right")
            block = block.take(slice(int(start), int(stop)))
        if low != high:
            return block
    return block


def check_output(shape: tuple[int, ...], dtype: np.dtype[Any], further: int = 0) -> None:
    """Raise ``TooLargeError`` if a dense result, and ``further`` bytes beside it, would pass the memory limit."""
    nbytes = math.prod(shape) * dtype.itemsize + further
    limit = settings.current().memory_limit
    if nbytes > limit:
        raise TooLargeError(
            f"the dense result of shape {shape} and type {dtype} takes {nbytes} bytes, beyond the memory limit of "
            f"{limit}: multiply a part of the tensor, or raise the limit with sp.config(memory_limit=...)"
        )


# -- products ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Loader:
    """Turns chunks into the arguments of a kernel: rows, cols, values, row0, col0."""

    scan: Scan
    order: tuple[int, ...]
    dtype: np.dtype[Any]
    """The type in which products are summed."""

    def load(self, chunk: Chunk) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], int, int]:
        """Read a chunk. Its coordinates are copied only where offsets do not say what the view shows."""
        from sparrow.kernels.matvec import readonly

        view = self.scan.view
        block = _trimmed(sharing.read(self.scan.relation, chunk), view, self.order, chunk)
        values = block.values
        row0 = col0 = 0
        columns: list[NDArray[Any] | None]
        if self._plain(chunk):
            places = [(axis.dim, axis.start) if isinstance(axis, Range) else None for axis in view.axes]
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
        fill = self.scan.schema.fill_value
        with np.errstate(all="ignore"):
            numbers = values.astype(self.dtype, copy=False)
            if fill != 0:
                numbers = numbers - fill.astype(self.dtype)
        return readonly(rows), readonly(cols), readonly(numbers), row0, col0

    def _plain(self, chunk: Chunk) -> bool:
        """Return whether subtracting offsets is all there is to do after trimming; kernels check the bounds."""
        view = self.scan.view
        if view.points or view.repeats > 1 or any(isinstance(axis, Range) and axis.step != 1 for axis in view.axes):
            return False
        fixed = dict(view.fixed)
        trimmed = True
        for dim in self.order:
            if dim not in fixed:
                trimmed = False
            elif not trimmed and not chunk.low[dim] == chunk.high[dim] == fixed[dim]:
                return False
        return True


def matmul(contract: Contract) -> Any:
    """Return the product of a tensor and a dense array, reading the tensor once, chunk by chunk.

    Where output coordinates stand together in the scan, threads sum their chunks side by side and only the rows on
    the borders of chunks are added up afterwards; elsewhere threads decode and one adds.

    An absent cell of fill 0 annihilates, against NaN and infinity too. Another fill f counts as f: the
    product is then ``(A - f) @ x + f * sum(x)``, stored entries alone taking part in the first.

    Raises
    ------
    TooLargeError
        If the result would pass the memory limit.
    UnsupportedError
        If the fill is not 0 and it or the dense array is not finite.
    """
    from sparrow.kernels import matvec

    scan, operand = contract.operands
    result = contract.schema.dtype
    dtype = matvec.accumulator(result)
    height = 1 if scan.view.ndim == 1 else scan.view.shape[0]
    shape = (height, *operand.shape[1:])
    check_output(shape, dtype, 0 if operand.dtype == dtype else operand.size * dtype.itemsize)
    fill = scan.schema.fill_value
    if fill != 0 and not (np.isfinite(fill) and np.isfinite(operand).all()):
        raise UnsupportedError(
            f"a product with NaN or infinity where absent cells are {fill}: use A.to_numpy() @ x, which multiplies "
            "every cell"
        )
    with np.errstate(all="ignore"):
        x = operand.astype(dtype, copy=False)
    out = np.zeros(shape, dtype)
    if out.size and scan.view.size:
        single = x.ndim == 2 and x.shape[1] == 1
        flat, target = (x[:, 0], out[:, 0]) if single else (x, out)
        _accumulate(scan, matvec.readonly(flat), target)
    if fill != 0:
        with np.errstate(all="ignore"):
            out += fill.astype(dtype) * x.sum(axis=0, dtype=dtype)
    return _finished(out, contract)


def _accumulate(scan: Scan, x: NDArray[Any], out: NDArray[Any]) -> None:
    """Add ``scan @ x`` to ``out``, which is 0; both have shape (n,) or (n, k)."""
    from sparrow.kernels import matvec

    laid_out = persisted.rows_of(scan)
    if laid_out is not None:
        persisted.accumulate(laid_out, scan.schema.fill_value, x, out)
        return
    relation = scan.relation
    order = product_order(scan)
    loader = _Loader(scan, order, out.dtype)
    chunks = relation.chunks(scan.view.box(), order)
    threads = min(settings.current().threads, len(chunks))
    rows = sum(chunk.rows for chunk in chunks)
    if not groups_output(scan.view, order):
        scatter = matvec.scatter_vector if x.ndim == 1 else matvec.scatter_matrix
        with progress.bar("multiplying", rows, "entries") as advance:
            for chunk, arguments in zip(chunks, ordered_map(loader.load, chunks, threads), strict=True):
                scatter(*arguments, x, out)
                advance(chunk.rows)
        return
    sum_runs = matvec.sum_runs_vector if x.ndim == 1 else matvec.sum_runs_matrix

    def summed(chunk: Chunk) -> tuple[int, int, NDArray[Any]]:
        edges = np.zeros((2, *out.shape[1:]), out.dtype)
        first, last = sum_runs(*loader.load(chunk), x, out, edges)
        return first, last, edges

    height = len(out)
    with progress.bar("multiplying", rows, "entries") as advance:
        for chunk, (first, last, edges) in zip(chunks, ordered_map(summed, chunks, threads), strict=True):
            if first < height:
                out[first] += edges[0]
            if last < height:
                out[last] += edges[1]
            advance(chunk.rows)


def _finished(out: NDArray[Any], contract: Contract) -> Any:
    """Return sums as the result: its dtype, its shape, a scalar where it has no dimensions."""
    dtype = contract.schema.dtype
    with np.errstate(all="ignore"):
        out = out != 0 if dtype.kind == "b" else out.astype(dtype, copy=False)
    if contract.operands[0].view.ndim == 1:
        out = out[0]
    return out.T if contract.flipped else out
