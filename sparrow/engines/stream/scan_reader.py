"""Reading scans of relations: chunks, decoded on threads, straight into arrays.

Nothing here loads a tensor whole unless its entries are the result. Every sum runs in the order of the
chunks, whatever the number of threads, so the same relation gives the same bits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import Box, ListAxis, RangeAxis, View
from sparrow.engines.sort_orders import scan_order, sorted_order
from sparrow.kernels.coo import Block, CSRBlock, RowIndex, canonicalize, sort_block
from sparrow.plan import Scan
from sparrow.plan.estimates import outer_nnz
from sparrow.relations.base import Chunk, MemoryRelation, Relation, RowSlices
from sparrow.runtime import buffer_pool, memory, progress, settings
from sparrow.runtime.thread_pool import ordered_map

__all__ = [
    "clip_to_view",
    "count_nnz",
    "is_small",
    "iter_blocks",
    "iter_sorted_blocks",
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

_FEW_ROWS = 1 << 12
"""The most members of a list whose entries are looked for in a chunk one by one."""
_LEADING = frozenset([0])
_HANDFUL = 1 << 10
"""Entries for which there is always room."""
_FEWEST = 1 << 18
"""Entries from which they are left so in what is read: fewer are at once written out."""
_SORT_COPIES = 4
"""Entries are held about so many times while they are sorted in memory."""


def iter_blocks(
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
    yield from map_blocks(scan, lambda block: block, order, chunks, axes)


def split_runs(relation: Relation, box: Box, order: tuple[int, ...]) -> tuple[list[Chunk], list[Chunk]]:
    """Return the chunks of a relation that has files beside those in order: the ones in order, and the others.

    Each is sorted in itself. For those who add up entries in any order, whom that spares to merge them.
    """
    found = getattr(relation, "split_runs", None)
    return (relation.chunks(box, order), []) if found is None else found(box, order)


def unordered_chunks(scan: Scan, order: tuple[int, ...]) -> list[Chunk]:
    """Return all chunks of :func:`split_runs` of a scan."""
    return [chunk for chunks in split_runs(scan.relation, scan.view.box(), order) for chunk in chunks]


def map_blocks(
    scan: Scan,
    work: Callable[[Block], T],
    order: tuple[int, ...] | None = None,
    chunks: Sequence[Chunk] | None = None,
    axes: Sequence[int] | None = None,
    doing: str | None = None,
) -> Iterator[T]:
    """Yield ``work(block)`` for each of the :func:`iter_blocks` of a scan, done by the threads that read them.

    Parameters
    ----------
    order, chunks, axes
        As of :func:`iter_blocks`.
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
    """Return the function that reads one chunk of a sort order; the arguments are those of :func:`iter_blocks`."""
    relation, view = scan.relation, scan.view
    dims = None if axes is None else _dims(view, axes)
    if view.is_identity:
        return lambda chunk: relation.read(chunk, dims)
    return lambda chunk: _shown(clip_to_view(relation.read(chunk, dims), view, order, chunk), scan)


def _dims(view: View, axes: Sequence[int]) -> tuple[int, ...]:
    """Return the dimensions that tell which entries a view shows, and their coordinates along some of its axes."""
    wanted = {dim for dim, _ in view.fixed}.union(*(group.dims for group in view.points))
    for number, axis in enumerate(view.axes):
        if isinstance(axis, RangeAxis) and (number in axes or axis.length < view.base_shape[axis.dim]):
            wanted.add(axis.dim)
    return tuple(sorted(wanted))


def read_block(scan: Scan, room: memory.Reservation | None = None, own: bool = True) -> Block:
    """Return all entries of a scan, canonical in the order of the view's axes.

    Parameters
    ----------
    room
        What they are added to while they are gathered, and after; by default it is given back at the end.
    own
        Whether they are the caller's, to keep and to write to.

    Raises
    ------
    TooLargeError
        If they would pass the memory limit.
    """
    if not own and room is None and isinstance(scan.relation, MemoryRelation) and scan.view.is_identity:
        return scan.relation.block
    known = outer_nnz(scan.relation.token)
    if known is not None and scan.view.is_identity:  # who has no room for them need not wait for that to show
        memory.check(known * scan.schema.element_bytes(), lambda: _told(scan), _REMEDY)
    block = read_small(scan)
    if block is not None:
        if not own and room is None:
            return block
        schema, count = scan.schema, len(block.values)
        if room is not None:
            room.grow(count * schema.element_bytes())
        elif count > _HANDFUL:
            memory.check(count * schema.element_bytes(), lambda: _told(scan), _REMEDY)
        if scan.view.is_identity and getattr(scan.source, "fresh", False):
            return block
        return block.copy(schema.coordinate_dtypes, schema.dtype)  # these are the caller's
    if room is None:
        with reserve_for(scan) as room:
            return read_block(scan, room)
    if scan.view.size == 0:
        return _collected(scan, iter(()), 0, room)
    rows_at = find_listed_rows(scan)
    if rows_at is not None:
        return _gathered(scan, rows_at, room)
    order = sorted_order(scan)
    rows = scan.relation.stats(scan.view.box(), order).rows
    if scan.view.preserves_order(order) or scan.view.ndim == 0:
        return _read_in_place(scan, order, rows, room)
    if _SORT_COPIES * rows * scan.schema.element_bytes(wide=True) > memory.available():
        return _collected(scan, iter_sorted_blocks(scan), rows, room)
    leading = _out_of_order(scan.view, order)
    turned = _turned(scan)
    if turned is not None:
        room.grow(turned.count * scan.schema.element_bytes())
        found = sort_block(turned, scan.schema.shape, leading)
        return Block(tuple(map(np.copy, found.coords)), found.values.copy()) if found is turned else found
    block = _read_in_place(scan, order, rows, room)
    return canonicalize(block, scan.schema.shape, scan.schema.fill_value, keep_fill=True, leading=leading)


def _turned(scan: Scan) -> Block | None:
    """Return entries in memory as they lie, where a scan shows all of them with axes in another order."""
    view, relation = scan.view, scan.relation
    if not isinstance(relation, MemoryRelation) or not view.is_permutation:
        return None
    block = relation.block
    coords = (block.coords[axis.dim] for axis in view.axes if isinstance(axis, RangeAxis))
    kinds = map(scan.schema.coordinate_dtype, range(view.ndim))
    return Block(tuple(c.astype(kind, copy=False) for c, kind in zip(coords, kinds, strict=True)), block.values)


def find_listed_rows(scan: Scan) -> RowSlices | None:
    """Return where the entries of each row stand, if a scan shows a list of whole rows of entries in memory."""
    relation, view = scan.relation, scan.view
    if not isinstance(relation, MemoryRelation) or view.axes[:1] != (
        ListAxis(0, 0, view.shape[0] if view.ndim else 0),
    ):
        return None
    whole = tuple(RangeAxis(dim, 0, 1, n) for dim, n in enumerate(view.base_shape))
    if view.points[0].dims != (0,) or view.axes[1:] != whole[1:]:
        return None
    return relation.places(view.points[0].coords[0])


def _gathered(scan: Scan, rows: RowSlices, room: memory.Reservation) -> Block:
    """Return the entries of a list of rows, which come sorted as the list is in their order."""
    assert isinstance(scan.relation, MemoryRelation)
    lengths = rows.lengths
    room.grow(int(lengths.sum()) * scan.schema.element_bytes())
    dtypes = [scan.schema.coordinate_dtype(axis) for axis in range(scan.schema.ndim)]
    leading = np.repeat(np.arange(len(lengths), dtype=dtypes[0]), lengths)
    *coords, values = rows.take([*scan.relation.block.coords[1:], scan.relation.block.values])
    others = [column.astype(dtype, copy=False) for column, dtype in zip(coords, dtypes[1:], strict=True)]
    return Block((leading, *others), values)


def _out_of_order(view: View, order: tuple[int, ...]) -> int:
    """Return how many first axes entries read in an order have to be sorted by: the rest then are in theirs."""
    fixed = {dim for dim, _ in view.fixed}
    dims = [axis.dim for axis in view.axes if isinstance(axis, RangeAxis) and axis.step > 0]
    if view.points or len(dims) < view.ndim:
        return view.ndim
    rest = [dim for dim in order if dim not in fixed]
    return next(k for k in range(view.ndim + 1) if [dim for dim in rest if dim not in dims[:k]] == dims[k:])


def reserve_for(scan: Scan) -> memory.Reservation:
    """Return room for the entries of a scan, none taken yet."""
    return memory.reserve(0, _told(scan), _REMEDY)


_REMEDY = "read them in pieces with to_batches(), take a smaller view"


def _told(scan: Scan) -> str:
    return f"the entries of shape {scan.schema.shape}"


def is_small(scan: Scan) -> bool:
    """Return whether a scan shows at most the entries of one chunk, in memory or computed of such: see ``at_once``."""
    view = scan.view
    return scan.relation.is_small and view.repeats <= 1 and view.size > 0


def read_small(scan: Scan) -> Block | None:
    """Return few entries, canonical in the order of the view's axes, without chunks; not to be written to.

    None where they are not few.
    """
    view, relation = scan.view, scan.relation
    if not relation.is_small or view.repeats > 1 or not view.size:
        return None
    block = relation.read_small()
    if view.is_identity:
        return block
    order, cut = relation.orders[0], view.sliced_dims
    if cut is not None and not cut:
        new = np.zeros(len(block.values), np.int32) if len(view.axes) > len(order) else None
        block = Block(tuple([new if dim is None else block.coords[dim] for dim in view.sources]), block.values)  # type: ignore[misc]
    elif cut == _LEADING:
        block = _stretch(block, scan)
    else:
        everything = Chunk(block.count, (0,) * len(order), tuple([n - 1 for n in view.base_shape]), None)
        block = _shown(clip_to_view(block, view, order, everything), scan)
    if not view.axes or view.preserves_order(order):
        return block
    return sort_block(block, scan.schema.shape, _out_of_order(view, order))


def _stretch(block: Block, scan: Scan) -> Block:
    """Return what a view shows that cuts sorted entries along their first dimension alone."""
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


def _shown(block: Block, scan: Scan) -> Block:
    """Return those of some entries of the base that a scan shows, where it shows them."""
    coords, kept = scan.view.from_base(block.coords, block.count)
    columns = tuple(column.astype(scan.schema.coordinate_dtype(axis), copy=False) for axis, column in enumerate(coords))
    return Block(columns, block.values if kept is None else block.values[kept])


class _Whole:
    """Blocks as one, held once: each is copied to its place by the thread that made it.

    Parameters
    ----------
    scan
        Whose entries they are.
    rows
        About their number.
    room
        What they are added to.
    """

    def __init__(self, scan: Scan, rows: int, room: memory.Reservation) -> None:
        schema = scan.schema
        self._width, self._room = schema.element_bytes(), room
        dtypes = [*(schema.coordinate_dtype(axis) for axis in range(schema.ndim)), schema.dtype]
        self._cells = [buffer_pool.Buffer(min(rows, memory.limit() // self._width), dtype) for dtype in dtypes]
        self._heads: list[tuple[int, RowIndex]] = []
        """The leading coordinates that are not written out, and where they begin."""
        self._early: dict[int, Block] = {}
        """Blocks that came before their turn, by their numbers."""
        self._count = self._turn = self._writing = 0
        self._lock = threading.RLock()  # taken by itself: as in sparrow.runtime.thread_pool
        self._changed = threading.Condition(self._lock)

    def put(self, number: int, block: Block) -> None:
        """Take in a block: it is copied when those of smaller numbers are there, by the thread that brings the last."""
        with self._lock:
            self._early[number] = block
        while True:
            with self._lock:
                own = self._early.pop(self._turn, None)
                if own is None:
                    return
                arrays, start = self._places(own)
                self._turn += 1
                self._writing += 1
            rest = own.rest if isinstance(own, CSRBlock) and len(arrays) < len(self._cells) else own
            rest.write(arrays, start, start + own.count)
            with self._lock:
                self._writing -= 1
                self._changed.notify_all()

    def _places(self, block: Block) -> tuple[list[NDArray[Any]], int]:
        """Return where the next block comes to stand: arrays, without those of what its rows are told by, and from."""
        self._room.grow(block.count * self._width)
        start, stop = self._count, self._count + block.count
        while stop > self._cells[-1].count and self._writing:
            self._changed.wait()
        if stop > self._cells[-1].count:
            self._cells = [cells.grow(max(stop, 2 * start), start) for cells in self._cells]
        cells = self._cells
        if isinstance(block, CSRBlock) and block.heads.saves_memory:
            self._heads.append((start, block.heads))
            cells = cells[len(block.heads.coords) :]
        self._count = stop
        return [each.array for each in cells], start

    def block(self) -> Block:
        """Return everything that was taken in, once."""
        cells, heads = self._cells, [part for _, part in self._heads]
        by_rows = _FEWEST <= self._count == sum(part.count for part in heads)
        if by_rows:
            cells = cells[len(heads[0].coords) :]
        for start, part in () if by_rows else self._heads:
            part.write([each.array for each in cells[: len(part.coords)]], start)
        *coords, values = (each.truncate(self._count) for each in cells)
        block = Block(tuple(coords), values)
        return CSRBlock(RowIndex.joined(heads), block) if by_rows else block


def _read_in_place(scan: Scan, order: tuple[int, ...], rows: int, room: memory.Reservation) -> Block:
    """Return the entries of a scan in a sort order as one block; ``rows`` is about their number."""
    whole = _Whole(scan, rows, room)
    chunks = scan.relation.chunks(scan.view.box(), order)
    read = getattr(scan.relation, "read_rows", None) if scan.view.is_identity else None
    read = read or reader(scan, order)

    def placed(numbered: tuple[int, Chunk]) -> None:
        whole.put(numbered[0], read(numbered[1]))

    threads = min(settings.current().threads, len(chunks))
    ahead = threads + (
        threads if settings.current().has_ample_memory else 1
    )  # who is quick does not wait for a long piece
    doing = "computing" if scan.relation.version is None else "reading"
    with progress.bar(doing, sum(chunk.rows for chunk in chunks), "entries") as advance:
        work = ordered_map(placed, enumerate(chunks), threads, ahead)
        for chunk, _ in zip(chunks, work, strict=True):
            advance(chunk.rows)
    return whole.block()


def _collected(scan: Scan, pieces: Iterator[Block], rows: int, room: memory.Reservation) -> Block:
    """Return blocks as one, held once; ``rows`` is about their number of entries."""
    whole = _Whole(scan, rows, room)
    for number, piece in enumerate(pieces):
        whole.put(number, piece)
    return whole.block()


def iter_sorted_blocks(scan: Scan) -> Iterator[Block]:
    """Yield all entries of a scan in canonical blocks, in the order of the view's axes, within the memory limit.

    Streamed where a sort order gives them so; otherwise sorted, on disk where they are too many.
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
    """Return the number of entries of a scan; chunks that lie within the view are not read."""
    relation, view = scan.relation, scan.view
    if view.is_identity:
        return relation.nnz
    if view.size == 0:
        return 0
    rows = find_listed_rows(scan)
    if rows is not None:
        return int(rows.lengths.sum())
    order = scan_order(scan)
    box = view.box()
    countable = not view.points and view.repeats == 1
    dims = _dims(view, ())

    def counted(chunk: Chunk) -> int:
        if countable and chunk.counted and _inside(box, chunk):
            return chunk.rows
        block = clip_to_view(relation.read(chunk, dims), view, order, chunk)
        _, kept = view.from_base(block.coords, block.count)
        return block.count if kept is None else len(kept)

    return sum(ordered_map(counted, unordered_chunks(scan, order), settings.current().threads))


def read_element(scan: Scan) -> Any:
    """Return the one cell that a scan without axes shows, as a NumPy scalar."""
    if isinstance(scan.relation, MemoryRelation):
        found = scan.relation.at([coordinate for _, coordinate in scan.view.fixed])
        return scan.schema.fill_value if found is None else found
    order = scan_order(scan)
    for block in iter_blocks(scan, order, unordered_chunks(scan, order)):
        return block.values[0]
    return scan.schema.fill_value


def _inside(box: Box, chunk: Chunk) -> bool:
    """Return whether every entry of a chunk lies in the box."""
    return all(
        r.start <= low and high <= r[-1] and (r.step == 1 or len(r) == 1)
        for r, low, high in zip(box.ranges, chunk.low, chunk.high, strict=True)
    )


def clip_to_view(block: Block, view: View, order: tuple[int, ...], chunk: Chunk) -> Block:
    """Return a part of a sorted chunk that holds what the view shows of it, found by bisection.

    Dimensions are looked at in the sort order as long as the ones before are fixed; of one under a list the entries of
    its members are taken, where they are few.
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
            wanted = wanted[slice(*np.searchsorted(wanted, [chunk.low[dim], chunk.high[dim] + 1]))].astype(column.dtype)
            if len(wanted) > _FEW_ROWS:
                return block
            ends = np.searchsorted(column, wanted, "left"), np.searchsorted(column, wanted, "right")
            return RowSlices(*ends).block(block)
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
