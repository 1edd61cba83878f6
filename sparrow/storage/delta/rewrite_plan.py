"""Rewrite plans: which base files an edit keeps, drops and rewrites.

An edit divides the key space into files and the gaps between them. Files that it changes and gaps that get elements
form rewrites, runs of neighbors without a kept file in between, each streamed into new files. Files whose elements come
out unchanged are kept.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from sparrow.core.bisection import bisect_sorted
from sparrow.core.indexing import Box
from sparrow.core.schema import Schema, is_fill
from sparrow.errors import DuplicateError, ShapeError
from sparrow.kernels.coo import Block, concat_blocks
from sparrow.relations.edits import Edit, apply_edit
from sparrow.runtime import settings
from sparrow.runtime.events import emit
from sparrow.runtime.thread_pool import ordered_map
from sparrow.storage.delta.append_runs import isin_block
from sparrow.storage.delta.file_table import FileTable
from sparrow.storage.delta.snapshot import Snapshot
from sparrow.storage.fs.filesystem import get_filesystem
from sparrow.storage.parquet.layout import Profile, Sizes
from sparrow.storage.parquet.reader import read_row_group
from sparrow.storage.parquet.writer import DataFile, TensorWriter
from sparrow.storage.tuning import tuning

__all__ = [
    "Piece",
    "Rewrite",
    "WriteSet",
    "bytes_per_element",
    "count_rows_met",
    "delete_files",
    "duplicate_error",
    "files_to_merge",
    "is_equal",
    "plan_rewrites",
    "prepare",
    "write_rewrites",
]

Key: TypeAlias = tuple[int, ...]


def prepare(edit: Edit, schema: Schema) -> Edit:
    """Return the edit without parts that have no effect, checked against the shape.

    Raises
    ------
    ShapeError
        If a coordinate is out of range.
    """
    shape = schema.shape if edit.shape is None else edit.shape
    upsert = edit.upsert
    if upsert is not None and upsert.count:
        for dim, column in enumerate(upsert.coords):
            low, high = int(column.min()), int(column.max())
            if low < 0 or high >= shape[dim]:
                raise ShapeError(
                    f"coordinate {low if low < 0 else high} is out of range for dimension "
                    f"{schema.dims[dim]!r} of size {shape[dim]}"
                )
        upsert = Block(upsert.coords, np.asarray(upsert.values, dtype=schema.dtype))
    else:
        upsert = None
    clear = tuple(box for box in edit.clear if box.size)
    return Edit(edit.operation, clear, upsert, edit.existing, edit.shape if shape != schema.shape else None)


# -- the keys that an edit claims ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WriteSet:
    """Elements that an edit may have changed: key ranges and boxes."""

    ranges: tuple[tuple[Key, Key], ...] = ()
    boxes: tuple[Box, ...] = ()

    @classmethod
    def from_edit(cls, edit: Edit) -> WriteSet:
        """Return the write set of an edit, exact if it has few elements."""
        upsert = edit.upsert
        boxes = tuple(part for box in edit.clear for part in box.parts(tuning().write_set_ranges))
        if upsert is None:
            return cls((), boxes)
        count = upsert.count
        cuts = np.unique(np.linspace(0, count, min(count, tuning().write_set_ranges) + 1).astype(np.int64)).tolist()
        keys = [(_key(upsert, start), _key(upsert, stop - 1)) for start, stop in itertools.pairwise(cuts)]
        return cls(tuple(keys), boxes)

    def overlaps(self, other: WriteSet) -> bool:
        """Return whether an element may be in both."""
        mine, theirs = 0, 0
        while mine < len(self.ranges) and theirs < len(other.ranges):
            (a, b), (c, d) = self.ranges[mine], other.ranges[theirs]
            if a <= d and c <= b:
                return True
            if b < d:
                mine += 1
            else:
                theirs += 1
        return (
            any(_box_overlaps_keys(box, *keys) for box in self.boxes for keys in other.ranges)
            or any(_box_overlaps_keys(box, *keys) for box in other.boxes for keys in self.ranges)
            or any(_boxes_overlap(a, b) for a in self.boxes for b in other.boxes)
        )

    def to_json(self) -> dict[str, Any]:
        """Serialize to JSON values."""
        boxes = [[[r.start, r.stop, r.step] for r in box.ranges] for box in self.boxes]
        return {"ranges": [[list(a), list(b)] for a, b in self.ranges], "boxes": boxes}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> WriteSet:
        """Deserialize the output of :meth:`to_json`."""
        ranges = tuple((tuple(a), tuple(b)) for a, b in data["ranges"])
        boxes = tuple(Box(tuple(range(*part) for part in box)) for box in data["boxes"])
        return cls(ranges, boxes)


def _box_overlaps_keys(box: Box, first: Key, last: Key) -> bool:
    """Return whether a box has an element between two keys, both included."""
    rest = box.ranges
    if not all(map(len, rest)):
        return False
    dim = 0
    while dim < len(first) and first[dim] == last[dim]:
        if first[dim] not in rest[dim]:
            return False
        dim += 1
    if dim == len(first):
        return True
    r, low, high = rest[dim], first[dim], last[dim]
    above = r[0] if r[0] > low else low + 1 + (r[0] - low - 1) % r.step
    if above < high and above in r:
        return True
    if low in r and tuple(part[-1] for part in rest[dim + 1 :]) >= first[dim + 1 :]:
        return True
    return high in r and tuple(part[0] for part in rest[dim + 1 :]) <= last[dim + 1 :]


def _boxes_overlap(a: Box, b: Box) -> bool:
    return all(map(_ranges_overlap, a.ranges, b.ranges))


def _ranges_overlap(a: range, b: range) -> bool:
    """Return whether two ascending ranges share a number."""
    if not a or not b:
        return False
    common = math.gcd(a.step, b.step)
    apart, rest = divmod(b[0] - a[0], common)
    if rest:
        return False
    period = b.step // common
    meeting = a[0] + a.step * (apart * pow(a.step // common, -1, period) % period)
    low, every = max(a[0], b[0]), a.step * period
    return low + (meeting - low) % every <= min(a[-1], b[-1])


# -- the plan ------------------------------------------------------------------------------------


@dataclass(slots=True)
class Piece:
    """A file, or a gap between files, with its slice of the elements to write."""

    at: int | None
    start: int
    stop: int
    dropped: bool = False
    """All elements of the file are cleared: it need not be read."""


@dataclass(slots=True)
class Rewrite:
    """Neighboring pieces that are streamed into new files."""

    pieces: list[Piece] = field(default_factory=list)

    @property
    def places(self) -> list[int]:
        """Numbers of the files that are replaced."""
        return [piece.at for piece in self.pieces if piece.at is not None]


def _key(block: Block, at: int) -> Key:
    return tuple(int(column[at]) for column in block.coords)


def _position(block: Block, key: Key, start: int, stop: int, right: bool) -> int:
    """Return the place of a key among elements ``start`` to ``stop``.

    It comes before equal elements, or after them if ``right``.
    """
    for dim, column in enumerate(block.coords):
        part = column[start:stop]
        low = start + int(bisect_sorted(part, key[dim]))
        high = start + int(bisect_sorted(part, key[dim], "right"))
        if low == high:
            return low
        start, stop = low, high
    return stop if right else start


def _split_upsert(snapshot: Snapshot, upsert: Block | None) -> tuple[list[int], list[int]]:
    """Return start and stop of each file's slice of the elements.

    Bounds in the log decide for most files; footers are read where elements lie on the bounds of the leading dimension.
    """
    table = snapshot.base
    if upsert is None:
        return [0] * len(table), [0] * len(table)
    if not upsert.coords:
        return [0] * len(table), [upsert.count] * len(table)
    leading = upsert.coords[0]
    starts = bisect_sorted(leading, table.low[:, 0])
    stops = bisect_sorted(leading, table.high[:, 0], "right")
    for at in np.flatnonzero(stops > starts).tolist():
        if table.low.shape[1] == 1:
            break
        found = table.footer(at)
        start, stop = int(starts[at]), int(stops[at])
        starts[at] = _position(upsert, found.first, start, stop, right=False)
        stops[at] = _position(upsert, found.last, start, stop, right=True)
    return starts.tolist(), stops.tolist()


def count_rows_met(snapshot: Snapshot, upsert: Block) -> int:
    """Return the rows of base files whose key ranges contain new elements."""
    starts, stops = map(np.array, _split_upsert(snapshot, upsert))
    return int(snapshot.base.rows[stops > starts].sum())


def plan_rewrites(
    snapshot: Snapshot, edit: Edit, sizes: Sizes, schema: Schema, widening: bool = False
) -> list[Rewrite]:
    """Return the rewrites of a prepared edit; none if no element changes.

    Parameters
    ----------
    snapshot, edit, sizes
        The current version, the edit (see :func:`prepare`), and target sizes.
    schema
        Schema that holds old and new coordinates.
    widening
        Rewrite every file.
    """
    table, upsert = snapshot.base, edit.upsert
    count = len(table)
    starts, stops = _split_upsert(snapshot, upsert)
    total = 0 if upsert is None else upsert.count
    new = np.zeros(total + 1, dtype=np.int64)
    if upsert is not None:
        np.cumsum(~is_fill(upsert.values, snapshot.schema.fill_value), out=new[1:])
    pieces: list[Piece] = []
    changing: list[bool] = []
    for at in range(count + 1):
        gap = Piece(None, stops[at - 1] if at else 0, starts[at] if at < count else total)
        pieces.append(gap)
        changing.append(bool(new[gap.stop] > new[gap.start]))
        if at < count:
            piece = Piece(at, starts[at], stops[at])
            pieces.append(piece)
            changing.append(widening or _changes_file(snapshot, edit, piece, schema))
    element_bytes = bytes_per_element(snapshot)
    for k in range(0, len(pieces), 2):
        added = int(new[pieces[k].stop] - new[pieces[k].start])
        if not added or not sizes.is_small(added * element_bytes, added):
            continue
        if any(changing[m] for m in (k - 1, k + 1) if 0 <= m < len(pieces)):
            continue
        for step in (-1, 1):
            merged = files_to_merge(table, sizes, added, (m // 2 for m in _unchanged_files(changing, k, step)))
            for at in merged:
                changing[2 * at + 1] = True
            if merged:
                break
    runs: list[Rewrite] = []
    run = Rewrite()
    for k, piece in enumerate(pieces):
        if changing[k]:
            run.pieces.append(piece)
        elif k % 2 and run.pieces:
            runs.append(run)
            run = Rewrite()
    if run.pieces:
        runs.append(run)
    return runs


def _unchanged_files(changing: Sequence[bool], gap: int, step: int) -> Iterator[int]:
    """Yield the file pieces on one side of a gap, up to the first one that changes."""
    at = gap + step
    while 0 <= at < len(changing) and not changing[at]:
        yield at
        at += 2 * step


def files_to_merge(table: FileTable, sizes: Sizes, added: int, neighbors: Iterable[int]) -> list[int]:
    """Return the files to rewrite with new elements beside them.

    A file is merged if it is small and has no more elements than it is written with. So appends at one end write every
    element O(log n) times, and leave O(log n) files.
    """
    out: list[int] = []
    rows = added
    for at in neighbors:
        count = int(table.rows[at])
        if count > max(rows, sizes.group_rows // tuning().merge_group_divisor) or not sizes.is_small(
            int(table.nbytes[at]), count
        ):
            break
        out.append(at)
        rows += count
    return out


def bytes_per_element(snapshot: Snapshot) -> int:
    """Return about how many bytes an element takes."""
    return (
        max(1, snapshot.nbytes // max(snapshot.nnz, 1))
        if snapshot.nnz >= tuning().measured_width_min_nnz
        else 2 * snapshot.schema.ndim + 4
    )


def _changes_file(snapshot: Snapshot, edit: Edit, piece: Piece, schema: Schema) -> bool:
    """Return whether an edit changes elements of a file.

    Reads only row groups that it meets.
    """
    table, at = snapshot.base, piece.at
    assert at is not None
    low, high = table.low[at].tolist(), table.high[at].tolist()
    boxes = [box for box in edit.clear if box.intersects(low, high)]
    if any(box.covers(low, high) for box in boxes):
        piece.dropped = True
        return True
    if piece.start == piece.stop and not boxes:
        return False
    for group, start, stop in _split_by_row_group(snapshot, edit.upsert, piece):
        found = table.footer(at)
        near = [box for box in boxes if box.intersects(found.low[group].tolist(), found.high[group].tolist())]
        if start == stop and not near:
            continue
        old = _read(snapshot, at, group)
        if not is_equal(old, _apply_share(old, edit, near, start, stop, schema)):
            return True
    return False


def is_equal(a: Block, b: Block) -> bool:
    """Return whether two blocks hold the same elements, to the bit."""
    if a is b:
        return True
    if a.count != b.count or not all(map(np.array_equal, a.coords, b.coords)):
        return False
    return a.values.tobytes() == b.values.tobytes()


def _read(snapshot: Snapshot, at: int, group: int) -> Block:
    schema = snapshot.schema
    dtypes = [schema.coordinate_dtype(dim) for dim in range(schema.ndim)]
    return read_row_group(snapshot.base.path(at), group, schema.ndim, schema.dtype, dtypes)


def _split_by_row_group(snapshot: Snapshot, upsert: Block | None, piece: Piece) -> list[tuple[int, int, int]]:
    """Return (row group, start, stop) for the elements to write to a file.

    Bounds of row groups decide; a row group is read where they do not.
    """
    assert piece.at is not None
    found = snapshot.base.footer(piece.at)
    count = len(found.rows)
    if upsert is None or piece.start == piece.stop:
        return [(group, piece.start, piece.start) for group in range(count)]
    out: list[tuple[int, int, int]] = []
    start = piece.start
    for group in range(count):
        if group == count - 1:
            stop = piece.stop
        elif not upsert.coords or start == piece.stop:
            stop = start
        else:
            leading = upsert.coords[0][start : piece.stop]
            top = int(found.high[group, 0])
            low = start + int(bisect_sorted(leading, top))
            stop = start + int(bisect_sorted(leading, top, "right"))
            if low != stop and int(found.low[group + 1, 0]) == top:
                bottom, last = found.low[group].tolist(), tuple(found.high[group].tolist())
                if bottom[:-1] != list(last[:-1]):
                    last = _key(_read(snapshot, piece.at, group), -1)
                stop = _position(upsert, last, start, stop, right=True)
        out.append((group, start, stop))
        start = stop
    return out


def _apply_share(old: Block, edit: Edit, boxes: Sequence[Box], start: int, stop: int, schema: Schema) -> Block:
    """Return elements after a slice of an edit; the same block if that is empty."""
    if start == stop and not boxes:
        return old
    share = None if edit.upsert is None or start == stop else edit.upsert.take(slice(start, stop))
    try:
        return apply_edit(old, Edit(edit.operation, tuple(boxes), share, edit.existing), schema)
    except DuplicateError:
        raise _duplicate_error_in(old, share, boxes) from None


def _duplicate_error_in(old: Block, share: Block | None, boxes: Sequence[Box]) -> DuplicateError:
    assert share is not None
    for box in boxes:
        old = old.take(~box.contains(old.coords))
    return duplicate_error(_key(share, int(isin_block(old, share).argmax())))


def duplicate_error(cell: Key) -> DuplicateError:
    """Return the error for an element that exists already."""
    return DuplicateError(
        f"element {cell} is already stored; nothing was written: pass duplicates='sum', 'last', "
        "'first', 'min' or 'max'",
        cell,
    )


# -- writing -------------------------------------------------------------------------------------


def write_rewrites(
    snapshot: Snapshot,
    edit: Edit,
    runs: Sequence[Rewrite],
    sizes: Sizes,
    dtypes: Sequence[Any],
    schema: Schema,
    profile: Profile | None = None,
) -> list[DataFile]:
    """Stream rewrites into new files and return them; on failure none is left.

    Parameters
    ----------
    snapshot, edit, runs, sizes
        The current version, the edit, its rewrites, and target sizes.
    dtypes
        Dtypes of the coordinate columns.
    schema
        Schema after the edit.
    profile
        Profile of the files, that of the snapshot by default.
    """
    folder = snapshot.path
    out: list[DataFile] = []
    try:
        for run in runs:
            places = run.places
            rows = int(snapshot.base.rows[places].sum()) + sum(piece.stop - piece.start for piece in run.pieces)
            with TensorWriter(
                folder,
                schema.dims,
                schema.dtype,
                profile=profile or snapshot.metadata.profile,
                coordinate_dtypes=dtypes,
                sizes=sizes.for_total(rows * bytes_per_element(snapshot), rows),
            ) as writer:
                for block in _rewritten_blocks(snapshot, edit, run, sizes.group_rows, schema):
                    writer.write(block)
                out += writer.finish()
    except BaseException:
        delete_files(folder, out)
        raise
    emit("storage.write_files", path=folder, files=len(out))
    return out


def delete_files(folder: str, files: Sequence[DataFile]) -> None:
    """Delete files that will not be committed."""
    for file in files:
        get_filesystem(folder).delete(os.path.join(folder, file.name))


def _rewritten_blocks(snapshot: Snapshot, edit: Edit, run: Rewrite, rows: int, schema: Schema) -> Iterator[Block]:
    """Yield the elements of a rewrite after the edit."""
    empty = concat_blocks([], schema.ndim, schema.dtype)
    table = snapshot.base
    for piece in run.pieces:
        if piece.at is None or piece.dropped:
            for start in range(piece.start, piece.stop, rows):
                yield _apply_share(empty, edit, (), start, min(start + rows, piece.stop), schema)
            continue
        at, found = piece.at, table.footer(piece.at)
        boxes = [box for box in edit.clear if box.intersects(table.low[at].tolist(), table.high[at].tolist())]

        def read(share: tuple[int, int, int], at: int = at, boxes: list[Box] = boxes, found: Any = found) -> Block:
            group, start, stop = share
            near = [box for box in boxes if box.intersects(found.low[group].tolist(), found.high[group].tolist())]
            return _apply_share(_read(snapshot, at, group), edit, near, start, stop, schema)

        threads = settings.current().threads if int(table.rows[at]) > tuning().parallel_rewrite_min_rows else 1
        yield from ordered_map(read, _split_by_row_group(snapshot, edit.upsert, piece), threads)
