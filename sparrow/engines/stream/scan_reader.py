"""Read scans of relations: chunks are decoded on threads, straight into arrays.

Nothing here loads a tensor whole unless its elements are the result. Chunks are processed in order, whatever the number
of threads, so the same relation gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparrow.core.bisection import bisect_sorted
from sparrow.core.indexing import Box, ListAxis, RangeAxis, View
from sparrow.engines.sort_orders import scan_order, sorted_order
from sparrow.engines.stream.block_buffer import BlockBuffer
from sparrow.engines.stream.capabilities import CSRChunks, SmallEvaluation
from sparrow.engines.stream.tuning import tuning
from sparrow.kernels.coo import Block, canonicalize, sort_block
from sparrow.plan import Scan
from sparrow.plan.estimates import outer_nnz
from sparrow.relations.memory import MemoryRelation, RowSlices
from sparrow.relations.protocol import Chunk, Relation, count_elements
from sparrow.relations.split import SplitRelation
from sparrow.runtime import memory, progress, settings
from sparrow.runtime.events import emit
from sparrow.runtime.thread_pool import ordered_map

__all__ = [
    "chunks_between",
    "clip_to_view",
    "count_nnz",
    "is_row_list",
    "is_small",
    "iter_blocks",
    "iter_sorted_blocks",
    "many_files",
    "map_blocks",
    "read_block",
    "read_element",
    "read_small",
    "reader",
    "reserve_for",
    "split_runs",
    "unordered_chunks",
]

T = TypeVar("T")

_LEADING = frozenset([0])
_REMEDY = "read them in batches with to_batches(), take a smaller view"


def iter_blocks(
    scan: Scan,
    order: tuple[int, ...] | None = None,
    chunks: Sequence[Chunk] | None = None,
    axes: Sequence[int] | None = None,
) -> Iterator[Block]:
    """Yield the elements of a scan in a sort order of its relation.

    Parameters
    ----------
    scan
        Scan of a relation.
    order
        Sort order to read, by default the one that reads the fewest rows.
    chunks
        Some of the chunks of that order, by default all.
    axes
        Axes whose coordinates are needed, by default all; the other columns have undefined contents.
    """
    yield from map_blocks(scan, lambda block: block, order, chunks, axes)


def split_runs(relation: Relation, box: Box, order: tuple[int, ...]) -> tuple[list[Chunk], list[Chunk]]:
    """Return the ordered chunks of a relation, and those of append runs.

    Each chunk is sorted in itself. For aggregations that accept elements in any order.
    """
    found = getattr(relation, "split_runs", None)
    return (relation.chunks(box, order), []) if found is None else found(box, order)


def many_files(scan: Scan, order: tuple[int, ...]) -> list[Chunk] | None:
    """Return the files of a scan as chunks that cannot be read, in sort order.

    None if they are few, so that all their footers may be read, or cannot be read one after the other.
    """
    found, box = getattr(scan.relation, "file_bounds", None), scan.view.box()
    if found is None or not order or box.members or box.ranges[order[0]].step != 1:
        return None
    files: list[Chunk] | None = found(box, order)
    return files if files is not None and len(files) > tuning().listed_files else None


def chunks_between(scan: Scan, order: tuple[int, ...], low: int, high: int) -> list[Chunk]:
    """Return the chunks of a scan with leading coordinates from low to high."""
    box, dim = scan.view.box(), order[0]
    ranges = list(box.ranges)
    ranges[dim] = range(max(ranges[dim].start, low), min(ranges[dim].stop, high + 1))
    return scan.relation.chunks(Box(tuple(ranges)), order)


def unordered_chunks(scan: Scan, order: tuple[int, ...]) -> list[Chunk]:
    """Return all chunks of a scan in any order, without merging append runs."""
    return [chunk for chunks in split_runs(scan.relation, scan.view.box(), order) for chunk in chunks]


def map_blocks(
    scan: Scan,
    work: Callable[[Block], T],
    order: tuple[int, ...] | None = None,
    chunks: Sequence[Chunk] | None = None,
    axes: Sequence[int] | None = None,
    doing: str | None = None,
) -> Iterator[T]:
    """Yield ``work(block)`` for each block, computed by the decoding threads.

    Parameters
    ----------
    scan, order, chunks, axes
        See :func:`iter_blocks`.
    work
        Function of a block.
    doing
        Description of a progress bar, by default none.
    """
    view = scan.view
    if view.size == 0:
        return
    if order is None:
        order = scan_order(scan)
    if chunks is None:
        chunks = scan.relation.chunks(view.box(), order)
    read = reader(scan, order, axes)
    emit("stream.scan", scan=scan, num_chunks=len(chunks))

    def apply(chunk: Chunk) -> tuple[T] | None:
        block = read(chunk)
        return (work(block),) if block.count else None

    threads = min(settings.current().threads, len(chunks))
    with progress.bar(doing, sum(chunk.rows for chunk in chunks), "elements") if doing else nullcontext() as advance:
        for chunk, found in zip(chunks, ordered_map(apply, chunks, threads), strict=True):
            if found is not None:
                yield found[0]
            if advance is not None:
                advance(chunk.rows)


def reader(scan: Scan, order: tuple[int, ...], axes: Sequence[int] | None = None) -> Callable[[Chunk], Block]:
    """Return a function that reads one chunk of a sort order.

    See :func:`iter_blocks` for the arguments.
    """
    relation, view = scan.relation, scan.view
    dims = None if axes is None else _dims(view, axes)
    if view.is_identity:
        return lambda chunk: relation.read(chunk, dims)
    return lambda chunk: _apply_view(clip_to_view(relation.read(chunk, dims), view, order, chunk), scan)


def _dims(view: View, axes: Sequence[int]) -> tuple[int, ...]:
    """Return the dimensions that a view and coordinates along axes need."""
    wanted = {dim for dim, _ in view.fixed}.union(*(group.dims for group in view.points))
    for number, axis in enumerate(view.axes):
        if isinstance(axis, RangeAxis) and (number in axes or axis.length < view.base_shape[axis.dim]):
            wanted.add(axis.dim)
    return tuple(sorted(wanted))


def read_block(scan: Scan, room: memory.Reservation | None = None, own: bool = True) -> Block:
    """Return all elements of a scan, canonical in the order of the view's axes.

    Parameters
    ----------
    scan
        Scan of a relation.
    room
        Reservation that accounts for them, by default one that is released on return.
    own
        Whether the caller owns the arrays and may write to them.

    Raises
    ------
    TooLargeError
        If they would exceed the memory limit.
    """
    if not own and room is None and isinstance(scan.relation, MemoryRelation) and scan.view.is_identity:
        return scan.relation.block
    known = outer_nnz(scan.relation.token)
    if known is not None and scan.view.is_identity:  # fail early instead of after the work
        memory.check(known * scan.schema.element_bytes(), lambda: _describe(scan), _REMEDY)
    block = read_small(scan)
    if block is not None:
        if not own and room is None:
            return block
        schema, count = scan.schema, len(block.values)
        if room is not None:
            room.grow(count * schema.element_bytes())
        elif count > tuning().unreserved_elements:
            memory.check(count * schema.element_bytes(), lambda: _describe(scan), _REMEDY)
        if scan.view.is_identity and isinstance(scan.source, SmallEvaluation) and scan.source.is_fresh:
            return block
        return block.copy(schema.coordinate_dtypes, schema.dtype)
    if room is None:
        with reserve_for(scan) as room:
            return read_block(scan, room)
    if scan.view.size == 0:
        return _collect(scan, iter(()), 0, room)
    rows_at = find_listed_rows(scan)
    if rows_at is not None:
        return _take_rows(scan, rows_at, room)
    order = sorted_order(scan)
    rows = scan.relation.stats(scan.view.box(), order).rows
    if scan.view.preserves_order(order) or scan.view.ndim == 0:
        return _read_in_place(scan, order, rows, room)
    if tuning().sort_copies * rows * scan.schema.element_bytes(wide=True) > memory.available():
        return _collect(scan, iter_sorted_blocks(scan), rows, room)
    leading = _out_of_order(scan.view, order)
    transposed = _transposed_block(scan)
    if transposed is not None:
        room.grow(transposed.count * scan.schema.element_bytes())
        found = sort_block(transposed, scan.schema.shape, leading)
        return Block(tuple(map(np.copy, found.coords)), found.values.copy()) if found is transposed else found
    block = _read_in_place(scan, order, rows, room)
    return canonicalize(block, scan.schema.shape, scan.schema.fill_value, keep_fill=True, leading=leading)


def _transposed_block(scan: Scan) -> Block | None:
    """Return a transposed relation in memory, unsorted; None for other scans."""
    view, relation = scan.view, scan.relation
    if not isinstance(relation, MemoryRelation) or not view.is_permutation:
        return None
    block = relation.block
    coords = (block.coords[axis.dim] for axis in view.axes if isinstance(axis, RangeAxis))
    kinds = map(scan.schema.coordinate_dtype, range(view.ndim))
    return Block(tuple(c.astype(kind, copy=False) for c, kind in zip(coords, kinds, strict=True)), block.values)


def find_listed_rows(scan: Scan) -> RowSlices | None:
    """Return the positions of rows if a scan is a list of rows in memory."""
    if not is_row_list(scan):
        return None
    relation: Any = _in_memory(scan.relation)
    found: RowSlices = relation.find_rows(scan.view.points[0].coords[0])
    return found


def is_row_list(scan: Scan) -> bool:
    """Return whether a scan is a list of rows in memory."""
    view = scan.view
    if _in_memory(scan.relation) is None or view.axes[:1] != (ListAxis(0, 0, view.shape[0] if view.ndim else 0),):
        return False
    whole = tuple(RangeAxis(dim, 0, 1, n) for dim, n in enumerate(view.base_shape))
    return view.points[0].dims == (0,) and view.axes[1:] == whole[1:]


def is_sorted_list(scan: Scan, order: Sequence[int]) -> bool:
    """Return whether the first axis is an ascending list of the leading dimension.

    The list may repeat coordinates; ``order`` is the sort order.
    """
    view = scan.view
    axis = view.axes[0] if view.ndim else None
    if not isinstance(axis, ListAxis) or not order or view.points[axis.group].dims != (order[0],):
        return False
    return view.points[axis.group].is_sorted


def _in_memory(relation: Relation) -> MemoryRelation | None:
    """Return a relation in memory that may be split, None for any other."""
    found = relation.relation if isinstance(relation, SplitRelation) else relation
    return found if isinstance(found, MemoryRelation) else None


def _take_rows(scan: Scan, rows: RowSlices, room: memory.Reservation) -> Block:
    """Return the elements of a list of rows, in the order of the list."""
    relation = _in_memory(scan.relation)
    assert relation is not None
    lengths = rows.lengths
    room.grow(int(lengths.sum()) * scan.schema.element_bytes())
    dtypes = [scan.schema.coordinate_dtype(axis) for axis in range(scan.schema.ndim)]
    leading = np.repeat(np.arange(len(lengths), dtype=dtypes[0]), lengths)
    *coords, values = rows.take([*relation.block.coords[1:], relation.block.values])
    others = [column.astype(dtype, copy=False) for column, dtype in zip(coords, dtypes[1:], strict=True)]
    return Block((leading, *others), values)


def _out_of_order(view: View, order: tuple[int, ...]) -> int:
    """Return the number of leading axes to sort by; the rest are in order."""
    fixed = {dim for dim, _ in view.fixed}
    dims = [axis.dim for axis in view.axes if isinstance(axis, RangeAxis) and axis.step > 0]
    if view.points or len(dims) < view.ndim:
        return view.ndim
    rest = [dim for dim in order if dim not in fixed]
    return next(k for k in range(view.ndim + 1) if [dim for dim in rest if dim not in dims[:k]] == dims[k:])


def reserve_for(scan: Scan) -> memory.Reservation:
    """Return an empty reservation for the elements of a scan."""
    return memory.reserve(0, _describe(scan), _REMEDY)


def _describe(scan: Scan) -> str:
    return f"the elements of a tensor of shape {scan.schema.shape}"


def is_small(scan: Scan) -> bool:
    """Return whether a scan is at most one chunk, computed without I/O."""
    view = scan.view
    return scan.relation.is_small and view.repeats <= 1 and view.size > 0


def read_small(scan: Scan) -> Block | None:
    """Return the elements of a small scan, read-only; None if it is not small.

    They are sorted by the axes of the view.
    """
    view, relation = scan.view, scan.relation
    if view.repeats > 1 or not view.size:
        return None
    block = relation.read_small()
    if block is None:
        return None
    if view.is_identity:
        return block
    order, cut = relation.orders[0], view.sliced_dims
    if cut is not None and not cut:
        new = np.zeros(len(block.values), np.int32) if len(view.axes) > len(order) else None
        block = Block(tuple([new if dim is None else block.coords[dim] for dim in view.sources]), block.values)  # type: ignore[misc]
    elif cut == _LEADING:
        block = _slice_rows(block, scan)
    else:
        everything = Chunk(block.count, (0,) * len(order), tuple([n - 1 for n in view.base_shape]), None)
        block = _apply_view(clip_to_view(block, view, order, everything), scan)
    if not view.axes or view.preserves_order(order):
        return block
    return sort_block(block, scan.schema.shape, _out_of_order(view, order))


def _slice_rows(block: Block, scan: Scan) -> Block:
    """Return the elements of a view that slices only the leading dimension."""
    view = scan.view
    first = next(axis for axis in view.axes if isinstance(axis, RangeAxis) and axis.dim == 0)
    column = block.coords[0]
    kind = column.dtype.type  # a Python integer would cast the whole column
    start = column.searchsorted(kind(first.start))
    stop = column.searchsorted(kind(first.start + first.length - 1), "right")
    block = block.take(slice(start, stop))
    columns: list[NDArray[Any]] = []
    for axis, dtype in zip(view.axes, scan.schema.coordinate_dtypes, strict=True):
        if isinstance(axis, RangeAxis):
            column = block.coords[axis.dim]
            moved = column - axis.start if axis.start else column
            columns.append(moved if moved.dtype is dtype else moved.astype(dtype))
        else:
            columns.append(np.zeros(len(block.values), dtype))
    return Block(tuple(columns), block.values)


def _apply_view(block: Block, scan: Scan) -> Block:
    """Return the elements of the base that a scan shows, at its coordinates."""
    coords, kept = scan.view.from_base(block.coords, block.count)
    columns = tuple(column.astype(scan.schema.coordinate_dtype(axis), copy=False) for axis, column in enumerate(coords))
    return Block(columns, block.values if kept is None else block.values[kept])


def _read_in_place(scan: Scan, order: tuple[int, ...], rows: int, room: memory.Reservation) -> Block:
    """Return the elements of a scan in a sort order as one block.

    ``rows`` estimates their number.
    """
    buffer = BlockBuffer(scan.schema, rows, room)
    chunks = scan.relation.chunks(scan.view.box(), order)
    relation = scan.relation
    is_csr = scan.view.is_identity and isinstance(relation, CSRChunks)
    emit("stream.scan", scan=scan, num_chunks=len(chunks))
    read = relation.read_csr if is_csr else reader(scan, order)  # type: ignore[attr-defined]

    def place(numbered: tuple[int, Chunk]) -> None:
        buffer.put(numbered[0], read(numbered[1]))

    threads = min(settings.current().threads, len(chunks))
    # Work is handed out ahead, so that a fast thread does not wait for a slow chunk.
    ahead = threads + (threads if settings.current().has_ample_memory else 1)
    doing = "computing" if scan.relation.version is None else "reading"
    with progress.bar(doing, sum(chunk.rows for chunk in chunks), "elements") as advance:
        work = ordered_map(place, enumerate(chunks), threads, ahead)
        for chunk, _ in zip(chunks, work, strict=True):
            advance(chunk.rows)
    return buffer.block()


def _collect(scan: Scan, pieces: Iterator[Block], rows: int, room: memory.Reservation) -> Block:
    """Return blocks as one block; ``rows`` estimates their number of elements."""
    buffer = BlockBuffer(scan.schema, rows, room)
    for number, piece in enumerate(pieces):
        buffer.put(number, piece)
    return buffer.block()


def iter_sorted_blocks(scan: Scan) -> Iterator[Block]:
    """Yield all elements of a scan in canonical blocks, sorted by its axes.

    Streamed if a sort order of the relation is that order, else sorted, on disk if necessary.
    """
    if scan.view.size == 0:
        return
    order = sorted_order(scan)
    if scan.view.preserves_order(order) or scan.view.ndim == 0:
        yield from iter_blocks(scan, order)
        return
    from sparrow.sorting import Rows, sorter

    rows = map_blocks(scan, lambda block: Rows(block.coords, block.values), doing="putting in order")
    yield from sorter.sorted_blocks(rows, scan.schema)


def count_nnz(scan: Scan) -> int:
    """Return the number of elements; chunks inside the view are not read."""
    relation, view = scan.relation, scan.view
    if view.is_identity:
        return count_elements(relation)
    if view.size == 0:
        return 0
    rows = find_listed_rows(scan)
    if rows is not None:
        return int(rows.lengths.sum())
    order = scan_order(scan)
    box = view.box()
    countable = not view.points
    dims = _dims(view, ())

    def count_chunk(chunk: Chunk) -> int:
        if countable and chunk.is_exact and _is_inside(box, chunk):
            return chunk.rows * max(view.repeats, 1)
        block = clip_to_view(relation.read(chunk, dims), view, order, chunk)
        return view.count_shown(block.coords, block.count)

    return sum(ordered_map(count_chunk, unordered_chunks(scan, order), settings.current().threads))


def read_element(scan: Scan) -> Any:
    """Return the only element of a scan without axes, as a NumPy scalar."""
    if isinstance(scan.relation, MemoryRelation):
        found = scan.relation.value_at([coordinate for _, coordinate in scan.view.fixed])
        return scan.schema.fill_value if found is None else found
    order = scan_order(scan)
    for block in iter_blocks(scan, order, unordered_chunks(scan, order)):
        return block.values[0]
    return scan.schema.fill_value


def _is_inside(box: Box, chunk: Chunk) -> bool:
    """Return whether every element of a chunk lies in a box."""
    return all(
        r.start <= low and high <= r[-1] and (r.step == 1 or len(r) == 1)
        for r, low, high in zip(box.ranges, chunk.low, chunk.high, strict=True)
    )


def clip_to_view(block: Block, view: View, order: tuple[int, ...], chunk: Chunk) -> Block:
    """Return a slice of a sorted chunk that contains all that a view shows.

    Dimensions are searched in the sort order while the ones before are fixed. In a dimension indexed by a list, the
    elements of its members are selected unless they are many.
    """
    fixed = dict(view.fixed)
    listed = {dim: found for group in view.points for dim, found in zip(group.dims, group.distinct, strict=True)}
    ranges = {axis.dim: axis for axis in view.axes if isinstance(axis, RangeAxis)}
    for dim in order:
        if dim in fixed:
            low = high = fixed[dim]
        elif dim in ranges:
            axis = ranges[dim]
            low, high = sorted((axis.start, axis.start + axis.step * (axis.length - 1)))
        elif dim in listed:
            column = block.coords[dim]
            wanted = listed[dim]
            first, last = bisect_sorted(wanted, chunk.low[dim]), bisect_sorted(wanted, chunk.high[dim], "right")
            wanted = wanted[first:last].astype(column.dtype)
            if len(wanted) > tuning().max_listed_rows:
                return block
            ends = np.searchsorted(column, wanted, "left"), np.searchsorted(column, wanted, "right")
            return RowSlices(*ends).take_block(block)
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
