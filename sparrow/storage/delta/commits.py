"""What a commit puts in and takes out: the files of an edit, of many, of an old version, of a compaction."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.core.indexing import Box
from sparrow.core.schema import Schema, is_fill
from sparrow.errors import NotFoundError, ShapeError
from sparrow.kernels.coo import Block
from sparrow.relations.base import Chunk, Edit, Growth, apply_edit, merge_labels
from sparrow.runtime import settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.storage.delta.append_runs import Part, cut, members, place
from sparrow.storage.delta.file_table import FileTable, file_tables
from sparrow.storage.delta.labels import is_part, write_labels, write_more
from sparrow.storage.delta.log import Active
from sparrow.storage.delta.rewrite_plan import (
    Claim,
    Piece,
    Rewrite,
    discard,
    exists_already,
    met,
    plan,
    prepare,
    width,
    write,
)
from sparrow.storage.delta.snapshot import Snapshot
from sparrow.storage.fs.filesystem import get_filesystem
from sparrow.storage.parquet.layout import METADATA_KEY, Profile, Sizes, arrow_schema
from sparrow.storage.parquet.writer import DataFile, TensorWriter

__all__ = ["Work", "appended", "compacted", "edited", "grown", "restored"]

_WORTH_A_RUN = 8
"""New entries stand beside those that they lie between where these are so many times as many, and so large a part of a
row group."""
_WORTH_FOLDING = 2
"""Runs are put in order where the entries in between are at most so many times as many."""


@dataclass(frozen=True, slots=True)
class Work:
    """Files for a commit, against one snapshot."""

    added: list[DataFile] = field(default_factory=list)
    removed: list[tuple[str, int]] = field(default_factory=list)
    schema: pa.Schema | None = None
    """Set where types of columns or metadata change, which replaces every file."""
    shape: tuple[int, ...] | None = None
    """The new shape, if it changes."""
    labels: Mapping[int, str] | None = None
    """The files of labels by dimension, if they change."""
    label_parts: Collection[str] = ()
    """Further files that these labels are in, where they are not those of the version before."""
    claim: Claim | None = None
    """The cells that are written, where the job did not know them."""
    written: bool = True
    """Whether the added files are new ones, to be deleted where they do not get in."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to commit."""
        return (
            not self.added and not self.removed and self.shape is None and self.schema is None and self.labels is None
        )

    def undo(self, path: str) -> None:
        """Delete what was written."""
        if self.written:
            discard(path, self.added)

    def fits(self, before: Snapshot, latest: Snapshot) -> bool:
        """Return whether the files, made against one snapshot, can be committed on top of a later one.

        They can when the files they replace are still there, and nothing was added within their keys.
        """
        if not self.written or self.schema is not None:
            return False
        if latest.base.coordinate_dtypes != before.base.coordinate_dtypes:
            return False
        if self.labels is not None and latest.schema != before.schema:
            return False
        if self.labels is not None and latest.metadata.labels != before.metadata.labels:
            return False
        now, then = set(latest.active.paths), set(before.active.paths)
        if not now.issuperset(name for name, _ in self.removed):
            return False
        fresh = [table.footer(at) for table in latest.tables for at, name in enumerate(table.names) if name not in then]
        return not any(
            mine.first <= theirs.last and theirs.first <= mine.last for mine in self.added for theirs in fresh
        )


def edited(snapshot: Snapshot, edit: Edit, sizes: Sizes) -> Work:
    """Write the files that a prepared edit needs on top of a snapshot.

    What is appended all over the keys stands beside the files in order; whatever else is written puts them in order.
    """
    if edit.operation == "append" and edit.upsert is not None and not edit.clear:
        return _laid(snapshot, edit, edit.upsert, sizes)
    if not edit.clear and edit.upsert is None:
        return _rewritten(snapshot, edit, sizes)
    return _then(snapshot, folded(snapshot, sizes), lambda draft: _rewritten(draft, edit, sizes))


def _laid(snapshot: Snapshot, edit: Edit, upsert: Block, sizes: Sizes) -> Work:
    """Write entries that are appended: into the files that they meet where these are few, else beside them.

    Those whose cells have an entry go where it is: into files in order, which become small ones, or runs.
    """
    bound = settings.current().append_runs
    in_runs = [_members(snapshot, run, upsert) for run in snapshot.runs]
    taken = np.any(in_runs, axis=0) if in_runs else np.zeros(upsert.count, dtype=bool)
    # The types in which what they are merged with is read; files may hold others, since shapes change.
    read = tuple(map(snapshot.schema.coordinate_dtype, range(snapshot.schema.ndim)))
    fits = all(
        column.max() <= min(np.iinfo(kind).max for kind in kinds)
        for column, *kinds in zip(upsert.coords, snapshot.base.coordinate_dtypes, read, strict=True)
    )
    few = max(sizes.group_rows // _WORTH_A_RUN, _WORTH_A_RUN * upsert.count)
    if not taken.any() and (met(snapshot, upsert) <= few or not (bound or snapshot.runs)):
        return _rewritten(snapshot, edit, sizes)
    if not bound or not fits or is_fill(upsert.values, snapshot.schema.fill_value).any():
        return _then(snapshot, folded(snapshot, sizes), lambda draft: _rewritten(draft, edit, sizes))
    in_order = _members(snapshot, snapshot.base, upsert)
    there = in_order | taken
    if edit.existing == "error" and there.any():
        raise exists_already(tuple(int(column[there.argmax()]) for column in upsert.coords))
    coords = tuple(column.astype(kind, copy=False) for column, kind in zip(upsert.coords, read, strict=True))
    new = Block(coords, upsert.values).take(~there)
    if edit.existing == "first":
        taken[:] = in_order[:] = False
    changing = replace(edit, upsert=upsert.take(taken & ~in_order)) if taken.any() else None
    meeting = [changing is not None and bool(found.any()) for found in in_runs]
    gone, rows = _taken_in(snapshot, new.count, meeting, bound)
    if len(gone) == len(snapshot.runs) and new.count and _between(snapshot, new) <= _WORTH_FOLDING * rows:
        if changing is None and not in_order.any():
            return replace(folded(snapshot, sizes, new), shape=edit.shape)
        return _then(snapshot, folded(snapshot, sizes), lambda draft: _rewritten(draft, edit, sizes))
    beside = _beside(snapshot, new, changing, gone, rows, sizes)
    try:
        changed = replace(edit, upsert=upsert.take(in_order), shape=None)
        inside = _rewritten(snapshot, changed, sizes.smaller()) if in_order.any() else Work()
    except BaseException:
        beside.undo(snapshot.path)
        raise
    return Work(inside.added + beside.added, inside.removed + beside.removed, shape=edit.shape)


def _members(snapshot: Snapshot, table: FileTable, wanted: Block) -> NDArray[np.bool_]:
    """Return which of some sorted entries have their cells in some files."""
    out = np.zeros(wanted.count, dtype=bool)
    if not wanted.count:
        return out
    box = Box(tuple(range(int(column.min()), int(column.max()) + 1) for column in wanted.coords))

    def look(part: Part) -> tuple[NDArray[Any], NDArray[np.bool_]] | None:
        near = np.ones(wanted.count, dtype=bool)
        for column, low, high in zip(wanted.coords, part.low, part.high, strict=True):
            near &= (column >= low) & (column <= high)
        places = np.flatnonzero(near)
        return (places, members(snapshot.read_part(part), wanted.take(places))) if len(places) else None

    parts = list(snapshot.parts(table, box))
    for found in ordered_map(look, parts, settings.current().threads if len(parts) > 1 else 1):
        if found is not None:
            out[found[0]] |= found[1]
    return out


def _taken_in(snapshot: Snapshot, rows: int, meeting: Sequence[bool], bound: int) -> tuple[tuple[FileTable, ...], int]:
    """Return the runs that become one with new entries, and how many entries that has.

    They are those whose entries change, and those that are at most about as large: so an entry is written about as
    often as the number of entries has digits, and there are about as many runs.
    """
    kept = list(zip(snapshot.runs, meeting, strict=True))
    gone = [run for run, changes in kept if changes]
    kept = [(run, changes) for run, changes in kept if not changes]
    rows += sum(int(run.rows.sum()) for run in gone)
    while kept and rows and (int(kept[-1][0].rows.sum()) <= rows or len(kept) >= bound):
        gone.append(kept.pop()[0])
        rows += int(gone[-1].rows.sum())
    return tuple(gone), rows


def _beside(
    snapshot: Snapshot, new: Block, changing: Edit | None, gone: Sequence[FileTable], rows: int, sizes: Sizes
) -> Work:
    """Write new entries as a run, with those of other runs, some of which change."""
    if not new.count and changing is None:
        return Work()
    everything = Box.everything(snapshot.schema.shape)
    parts = [part for table in gone for part in snapshot.parts(table, everything)]
    chunks = cut([*parts, _part(new)] if new.count else parts, sizes.group_rows)
    added = _written(snapshot, chunks, rows, sizes, run=True, changing=changing)
    return Work(added, _whole(gone))


def _part(block: Block) -> Part:
    low, high = (tuple(int(side(column)) for column in block.coords) for side in (np.min, np.max))
    return Part(low, high, block.count, True, block)


def _between(snapshot: Snapshot, upsert: Block) -> int:
    """Return how many entries the files have that are to be read where these and all runs are put in order."""
    base, leading = snapshot.base, upsert.coords[0]
    lows = [int(leading[0]), *(int(run.low[:, 0].min()) for run in snapshot.runs)]
    highs = [int(leading[-1]), *(int(run.high[:, 0].max()) for run in snapshot.runs)]
    return int(base.rows[(base.high[:, 0] >= min(lows)) & (base.low[:, 0] <= max(highs))].sum())


def folded(snapshot: Snapshot, sizes: Sizes, more: Block | None = None) -> Work:
    """Put what stands beside the files, and entries that no file has, in order; files that are apart stay."""
    if not snapshot.runs and more is None:
        return Work()
    base = snapshot.base
    everything = Box.everything(snapshot.schema.shape)
    parts = [part for table in snapshot.tables for part in snapshot.parts(table, everything)]
    chunks = cut(parts if more is None else [*parts, _part(more)], sizes.group_rows)
    needs = [{part.ref[0] for part in chunk.ref.parts if not part.run} for chunk in chunks]
    touched = {path for chunk, files in zip(chunks, needs, strict=True) for path in files if _mixed(chunk)}
    while grown := {path for files in needs if files & touched for path in files} - touched:
        touched |= grown
    runs: list[list[Chunk]] = [[]]
    for chunk, files in zip(chunks, needs, strict=True):
        if _mixed(chunk) or files & touched:
            runs[-1].append(chunk)
        elif runs[-1]:
            runs.append([])
    added: list[DataFile] = []
    try:
        for run in filter(None, runs):
            added += _written(snapshot, run, sum(chunk.rows for chunk in run), sizes)
    except BaseException:
        discard(snapshot.path, added)
        raise
    places = [at for at in range(len(base)) if base.path(at) in touched]
    return Work(added, _removed(snapshot, places) + _whole(snapshot.runs))


def _mixed(chunk: Chunk) -> bool:
    return any(part.run for part in chunk.ref.parts)


def _written(
    snapshot: Snapshot,
    chunks: list[Chunk],
    rows: int,
    sizes: Sizes,
    run: bool = False,
    changing: Edit | None = None,
) -> list[DataFile]:
    """Write the entries of chunks, of which an edit changes some, to new files."""
    schema = snapshot.schema

    def read(chunk: Chunk) -> Block:
        block = snapshot.read(chunk)
        if changing is None or changing.upsert is None:
            return block
        bounds, more = chunk.ref, changing.upsert
        start = 0 if bounds.start is None else place(more, bounds.start)
        stop = more.count if bounds.stop is None else place(more, bounds.stop)
        shape = changing.shape or schema.shape
        share = Edit(changing.operation, upsert=more.take(slice(start, stop)), existing=changing.existing)
        return apply_edit(block, share, replace(schema, shape=shape)) if start < stop else block

    with TensorWriter(
        snapshot.path,
        schema.dims,
        schema.dtype,
        profile=snapshot.metadata.profile,
        coordinate_dtypes=snapshot.base.coordinate_dtypes,
        sizes=sizes.for_total(rows * width(snapshot), rows),
        run=run,
    ) as writer:
        for block in ordered_map(read, chunks, settings.current().threads if len(chunks) > 1 else 1):
            writer.write(block)
        return writer.finish()


def _then(snapshot: Snapshot, first: Work, job: Callable[[Snapshot], Work]) -> Work:
    """Return both of two jobs, the second on top of the first."""
    if first.empty:
        return job(snapshot)
    try:
        second = job(_draft(snapshot, first))
    except BaseException:
        first.undo(snapshot.path)
        raise
    added, gone = {file.name: file for file in first.added}, dict(second.removed)
    discard(snapshot.path, [file for name, file in added.items() if name in gone])
    kept = [file for name, file in added.items() if name not in gone]
    removed = first.removed + [(name, nbytes) for name, nbytes in second.removed if name not in added]
    return replace(second, added=kept + second.added, removed=removed, schema=second.schema or first.schema)


def _rewritten(snapshot: Snapshot, edit: Edit, sizes: Sizes) -> Work:
    """Write the files in order that a prepared edit changes."""
    old, ndim = snapshot.schema, snapshot.schema.ndim
    shape = edit.shape or old.shape
    whole = Schema(tuple(map(max, shape, old.shape)), old.dims, old.dtype, old.fill_value, old.stype)
    kinds = [
        np.dtype(np.int64)
        if edit.upsert is not None and edit.upsert.coords[dim].max() >= 2**31
        else snapshot.base.coordinate_dtypes[dim]
        for dim in range(ndim)
    ]
    widening = tuple(kinds) != snapshot.base.coordinate_dtypes
    runs = plan(snapshot, edit, sizes, whole, widening)
    places = [at for run in runs for at in run.places]
    added = write(snapshot, edit, runs, sizes, kinds, whole)
    try:
        kept = np.ones(len(snapshot.base), dtype=bool)
        kept[places] = False
        tops = [file.high for file in added] + snapshot.base.high[kept].tolist()
        for dim in range(ndim):
            top = max((high[dim] for high in tops), default=-1)
            if top >= shape[dim]:
                raise ShapeError(
                    f"dimension {old.dims[dim]!r} cannot become {shape[dim]} long: there are entries up to "
                    f"coordinate {top}"
                )
    except BaseException:
        discard(snapshot.path, added)
        raise
    columns = None
    if widening and (added or places):
        columns = _columns(snapshot, shape, kinds, snapshot.metadata.profile)
    return Work(added, _removed(snapshot, places), columns, edit.shape)


def appended(snapshot: Snapshot, edits: Iterable[Edit], sizes: Sizes) -> Work:
    """Write the files of several prepared edits, each on top of the one before; one edit is held at a time."""
    rest = iter(edits)
    first = list(itertools.islice(rest, 2))
    if len(first) < 2:
        return replace(edited(snapshot, first[0], sizes), shape=None) if first else Work()
    work = folded(snapshot, sizes)
    try:
        for edit in itertools.chain(first, rest):
            work = replace(_then(snapshot, work, partial(_rewritten, edit=edit, sizes=sizes)), shape=None)
    except BaseException:
        work.undo(snapshot.path)
        raise
    return work


def grown(snapshot: Snapshot, growth: Growth, sizes: Sizes) -> Work:
    """Write the labels and the files of an append that makes dimensions longer."""
    schema = replace(snapshot.schema, shape=growth.shape)
    whole: dict[int, pa.Array] = {}
    more: dict[int, str] = {}
    written: dict[int, str] = {}  # the very same array once
    for dim, names in growth.labels.items():
        stored = snapshot.vocabulary(dim) if dim in growth.kept else None
        if names is not None and stored is not None and len(stored.array) == growth.kept[dim]:
            more[dim] = written.get(id(names)) or write_more(snapshot.path, names, stored)
            written[id(names)] = more[dim]
        elif names is not None:
            whole[dim] = names
    files = dict.fromkeys(growth.labels) | write_labels(snapshot.path, schema, whole) | more
    labels = merge_labels(snapshot.metadata.labels, files)
    low: list[int] = []
    high: list[int] = []

    def edits() -> Iterator[Edit]:
        for edit in growth.edits():
            found = prepare(replace(edit, shape=growth.shape), snapshot.schema)
            if found.upsert is None:
                continue
            tops, bottoms = ([int(f(column)) for column in found.upsert.coords] for f in (np.max, np.min))
            low[:] = list(map(min, low, bottoms)) if low else bottoms
            high[:] = list(map(max, high, tops)) if high else tops
            yield found

    work = appended(snapshot, edits(), sizes)
    box = Box(tuple(range(a, b + 1) for a, b in zip(low, high, strict=True)))
    shape = growth.shape if growth.shape != snapshot.schema.shape else None
    return replace(work, shape=shape, labels=labels, claim=Claim((), (box,) if low else ()))


def _draft(snapshot: Snapshot, work: Work) -> Snapshot:
    """Return what a snapshot would be with files put in and taken out."""
    more, new = work.added, Active.of(work.added, snapshot.schema.ndim)
    kinds = tuple(map(np.dtype, more[0].coordinate_dtypes)) if more else snapshot.base.coordinate_dtypes
    draft = copy.copy(snapshot)
    active = snapshot.active.without({name for name, _ in work.removed}).plus(new)
    draft.take(*file_tables(snapshot.path, snapshot.base.order, active, kinds))
    draft._digest = None
    return draft


def restored(snapshot: Snapshot, old: Snapshot) -> Work:
    """Return what takes a snapshot back to an old version.

    Raises
    ------
    NotFoundError
        If a file of the old version is gone.
    """
    now, then = snapshot.active, old.active
    there = set(now.paths)
    shape = None if old.schema.shape == snapshot.schema.shape else old.schema.shape
    coming = [(table, at) for table in old.tables for at, name in enumerate(table.names) if name not in there]
    for table, at in coming:
        try:
            get_filesystem(old.path).touch(table.path(at))  # young again, so that no vacuum takes it before the commit
        except NotFoundError:
            raise NotFoundError(
                f"version {old.version} of {old.path!r} cannot be restored: its file {table.names[at]!r} is gone, "
                "which vacuum() does to old versions; restore a later one, see history()"
            ) from None
    leaving = now.without(set(then.paths))
    columns = None
    if (coming or leaving.paths) and old.base.coordinate_dtypes != snapshot.base.coordinate_dtypes:
        columns = _columns(snapshot, old.schema.shape, old.base.coordinate_dtypes, snapshot.metadata.profile)
    added = [_data_file(table, at) for table, at in coming]
    labels = None if old.metadata.labels == snapshot.metadata.labels else old.metadata.labels
    parts = () if labels is None else old.label_files(strict=False)
    removed = list(zip(leaving.paths, leaving.nbytes.tolist(), strict=True))
    return Work(added, removed, columns, shape, labels, parts, written=False)


def compacted(snapshot: Snapshot, profile: Profile, sizes: Sizes) -> Work:
    """Write neighbouring files that are less than half full as full ones; all files where the profile changes.

    Before that what stands beside them is put in order. Labels that are in several files come into one.
    """
    return _then(snapshot, folded(snapshot, sizes), lambda draft: _filled(draft, profile, sizes))


def _filled(snapshot: Snapshot, profile: Profile, sizes: Sizes) -> Work:
    table, wanted = snapshot.base, profile
    everything = wanted != snapshot.metadata.profile
    runs: list[Rewrite] = []
    run = Rewrite()
    for at in range(len(table)):
        full = 2 * int(table.nbytes[at]) >= sizes.file_bytes or 2 * int(table.rows[at]) >= sizes.file_rows
        if full and not everything:
            runs.append(run)
            run = Rewrite()
        else:
            run.pieces.append(Piece(at, 0, 0))
    runs = [found for found in (*runs, run) if len(found.pieces) > (0 if everything else 1)]
    added = write(snapshot, Edit("compact"), runs, sizes, table.coordinate_dtypes, snapshot.schema, wanted)
    columns = None
    if everything:
        columns = _columns(snapshot, snapshot.schema.shape, table.coordinate_dtypes, wanted)
    try:
        labels = _whole_labels(snapshot)
    except BaseException:
        discard(snapshot.path, added)
        raise
    return Work(added, _removed(snapshot, [at for run in runs for at in run.places]), columns, labels=labels)


def _whole_labels(snapshot: Snapshot) -> dict[int, str] | None:
    """Write labels that are in several files as one, and return the files of all dimensions; None where none are."""
    arrays: dict[str, pa.Array] = {}
    several: dict[int, pa.Array] = {}
    for dim, name in snapshot.metadata.labels.items():
        found = snapshot.vocabulary(dim) if is_part(name) else None
        if found is not None and len(found.parts) > 1:
            several[dim] = arrays.setdefault(name, found.array[: snapshot.schema.shape[dim]])
    if not several:
        return None
    return {**snapshot.metadata.labels, **write_labels(snapshot.path, snapshot.schema, several)}


def _columns(
    snapshot: Snapshot, shape: tuple[int, ...], kinds: Iterable[np.dtype[np.generic]], profile: Profile
) -> pa.Schema:
    """Return the columns of the files with the metadata of a snapshot, as the log keeps them."""
    old = snapshot.schema
    schema = Schema(shape, old.dims, old.dtype, old.fill_value, old.stype)
    metadata = replace(snapshot.metadata, schema=schema, profile=profile)
    return arrow_schema(old.dims, old.dtype, list(kinds), {METADATA_KEY: metadata.to_json()})


def _removed(snapshot: Snapshot, places: Iterable[int]) -> list[tuple[str, int]]:
    return [(snapshot.base.names[at], int(snapshot.base.nbytes[at])) for at in places]


def _whole(tables: Iterable[FileTable]) -> list[tuple[str, int]]:
    return [(name, nbytes) for table in tables for name, nbytes in zip(table.names, table.nbytes.tolist(), strict=True)]


def _data_file(table: FileTable, at: int) -> DataFile:
    found = table.footer(at)
    return DataFile(
        table.names[at],
        int(table.rows[at]),
        int(table.nbytes[at]),
        tuple(table.low[at].tolist()),
        tuple(table.high[at].tolist()),
        found.first,
        found.last,
        tuple(kind.name for kind in table.coordinate_dtypes),
    )
