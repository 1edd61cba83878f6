"""Commit plans: the files that a commit adds and removes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.core.indexing import Box
from sparrow.core.schema import Schema, is_fill
from sparrow.errors import NotFoundError, ShapeError
from sparrow.kernels.coo import Block
from sparrow.relations.edits import Edit, apply_edit
from sparrow.relations.protocol import Chunk
from sparrow.runtime import settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.storage.delta.append_runs import Part, isin_block, plan_chunks, search_key
from sparrow.storage.delta.file_table import FileTable, file_tables
from sparrow.storage.delta.labels import WrittenLabels, is_partial, write_labels
from sparrow.storage.delta.log import ActiveFiles
from sparrow.storage.delta.merge_plan import plan_merge, rewrite_pieces, write_blocks
from sparrow.storage.delta.rewrite_plan import (
    Piece,
    Rewrite,
    WriteSet,
    count_rows_met,
    delete_files,
    duplicate_error,
    plan_rewrites,
    write_rewrites,
)
from sparrow.storage.delta.snapshot import Snapshot
from sparrow.storage.fs.filesystem import get_filesystem
from sparrow.storage.parquet.layout import METADATA_KEY, Profile, Sizes, arrow_schema
from sparrow.storage.parquet.writer import DataFile
from sparrow.storage.tuning import tuning

__all__ = [
    "CommitPlan",
    "all_files",
    "files_at",
    "plan_compaction",
    "plan_edit",
    "plan_restore",
    "rows_between",
    "runs_to_merge",
    "schema_with_metadata",
]


@dataclass(frozen=True, slots=True)
class CommitPlan:
    """Files to add and remove in a commit, planned against one snapshot."""

    added: list[DataFile] = field(default_factory=list)
    removed: list[tuple[str, int]] = field(default_factory=list)
    schema: pa.Schema | None = None
    """New schema if column dtypes or metadata change; it replaces every file."""
    shape: tuple[int, ...] | None = None
    """New shape, if it changes."""
    labels: Mapping[int, str] | None = None
    """Label files by dimension, if they change."""
    label_parts: Collection[str] = ()
    """Further files that these labels consist of, unless the version before has them."""
    write_set: WriteSet | None = None
    """Elements that are written, if the task did not know them."""
    is_written: bool = True
    """True if the added files are new, and deleted if the commit fails."""
    written_labels: WrittenLabels | None = None
    """Label files that are deleted if the commit fails."""

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to commit."""
        return (
            not self.added and not self.removed and self.shape is None and self.schema is None and self.labels is None
        )

    def undo(self, path: str) -> None:
        """Delete the files that were written."""
        if self.is_written:
            delete_files(path, self.added)
        if self.written_labels is not None:
            self.written_labels.undo()

    def fits(self, before: Snapshot, latest: Snapshot) -> bool:
        """Return whether the plan can be committed on a later snapshot.

        It can if the files it removes are still there and no file was added within the keys of its own.
        """
        if not self.is_written or self.schema is not None:
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
        new_files = [
            table.footer(at) for table in latest.tables for at, name in enumerate(table.names) if name not in then
        ]
        return not any(
            mine.first <= theirs.last and theirs.first <= mine.last for mine in self.added for theirs in new_files
        )


def plan_edit(snapshot: Snapshot, edit: Edit, sizes: Sizes) -> CommitPlan:
    """Write the files of a prepared edit.

    Appends that are spread over all keys become append runs; every other edit folds the runs into the base files.
    """
    if edit.operation == "append" and edit.upsert is not None and not edit.clear:
        return _plan_append(snapshot, edit, edit.upsert, sizes)
    if not edit.clear and edit.upsert is None:
        return _rewrite_files(snapshot, edit, sizes)
    return _chain(snapshot, fold_runs(snapshot, sizes), lambda draft: _rewrite_files(draft, edit, sizes))


def _plan_append(snapshot: Snapshot, edit: Edit, upsert: Block, sizes: Sizes) -> CommitPlan:
    """Write appended elements into base files or as an append run.

    Elements that exist already are changed where they are: in base files, which become small ones, or in runs.
    """
    bound = settings.current().append_runs
    in_runs = [_find_existing(snapshot, run, upsert) for run in snapshot.runs]
    in_run = np.any(in_runs, axis=0) if in_runs else np.zeros(upsert.count, dtype=bool)
    # Files may have other coordinate dtypes than those in which they are read, since shapes change.
    read = tuple(map(snapshot.schema.coordinate_dtype, range(snapshot.schema.ndim)))
    fits = all(
        column.max() <= min(np.iinfo(kind).max for kind in dtypes)
        for column, *dtypes in zip(upsert.coords, snapshot.base.coordinate_dtypes, read, strict=True)
    )
    factor = tuning().append_run_factor
    rewrite_limit = max(sizes.group_rows // factor, factor * upsert.count)
    if not in_run.any() and (count_rows_met(snapshot, upsert) <= rewrite_limit or not (bound or snapshot.runs)):
        return _rewrite_files(snapshot, edit, sizes)
    if not bound or not fits or is_fill(upsert.values, snapshot.schema.fill_value).any():
        return _chain(snapshot, fold_runs(snapshot, sizes), lambda draft: _rewrite_files(draft, edit, sizes))
    in_order = _find_existing(snapshot, snapshot.base, upsert)
    exists = in_order | in_run
    if edit.existing == "error" and exists.any():
        raise duplicate_error(tuple(int(column[exists.argmax()]) for column in upsert.coords))
    coords = tuple(column.astype(kind, copy=False) for column, kind in zip(upsert.coords, read, strict=True))
    new = Block(coords, upsert.values).take(~exists)
    if edit.existing == "first":
        in_run[:] = in_order[:] = False
    changing = replace(edit, upsert=upsert.take(in_run & ~in_order)) if in_run.any() else None
    meeting = [changing is not None and bool(found.any()) for found in in_runs]
    replaced, rows = runs_to_merge(snapshot, new.count, meeting, bound)
    if (
        len(replaced) == len(snapshot.runs)
        and new.count
        and rows_between(snapshot, *new.coords[0][[0, -1]].tolist()) <= tuning().fold_factor * rows
    ):
        if changing is None and not in_order.any():
            return replace(fold_runs(snapshot, sizes, new), shape=edit.shape)
        return _chain(snapshot, fold_runs(snapshot, sizes), lambda draft: _rewrite_files(draft, edit, sizes))
    run = _write_run(snapshot, new, changing, replaced, rows, sizes)
    try:
        changed = replace(edit, upsert=upsert.take(in_order), shape=None)
        inside = _rewrite_files(snapshot, changed, sizes.for_changing_files()) if in_order.any() else CommitPlan()
    except BaseException:
        run.undo(snapshot.path)
        raise
    return CommitPlan(inside.added + run.added, inside.removed + run.removed, shape=edit.shape)


def _find_existing(snapshot: Snapshot, table: FileTable, wanted: Block) -> NDArray[np.bool_]:
    """Test which of some sorted elements exist in the files of a table."""
    out = np.zeros(wanted.count, dtype=bool)
    if not wanted.count:
        return out
    box = Box(tuple(range(int(column.min()), int(column.max()) + 1) for column in wanted.coords))

    def find(part: Part) -> tuple[NDArray[Any], NDArray[np.bool_]] | None:
        mask = np.ones(wanted.count, dtype=bool)
        for column, low, high in zip(wanted.coords, part.low, part.high, strict=True):
            mask &= (column >= low) & (column <= high)
        places = np.flatnonzero(mask)
        return (places, isin_block(snapshot.read_part(part), wanted.take(places))) if len(places) else None

    parts = list(snapshot.iter_parts(table, box))
    for found in ordered_map(find, parts, settings.current().threads if len(parts) > 1 else 1):
        if found is not None:
            out[found[0]] |= found[1]
    return out


def runs_to_merge(
    snapshot: Snapshot, rows: int, meeting: Sequence[bool], bound: int
) -> tuple[tuple[FileTable, ...], int]:
    """Return the runs merged with new elements, and the resulting size.

    They are the runs whose elements change, and the runs that are at most about as large. So every element is written
    O(log n) times, and there are O(log n) runs.
    """
    kept = list(zip(snapshot.runs, meeting, strict=True))
    replaced = [run for run, changes in kept if changes]
    kept = [(run, changes) for run, changes in kept if not changes]
    rows += sum(int(run.rows.sum()) for run in replaced)
    while kept and rows and (int(kept[-1][0].rows.sum()) <= rows or len(kept) >= bound):
        replaced.append(kept.pop()[0])
        rows += int(replaced[-1].rows.sum())
    return tuple(replaced), rows


def _write_run(
    snapshot: Snapshot, new: Block, changing: Edit | None, replaced: Sequence[FileTable], rows: int, sizes: Sizes
) -> CommitPlan:
    """Write new elements, and those of other runs, as one run."""
    if not new.count and changing is None:
        return CommitPlan()
    everything = Box.from_shape(snapshot.schema.shape)
    parts = [part for table in replaced for part in snapshot.iter_parts(table, everything)]
    chunks = plan_chunks([*parts, _memory_part(new)] if new.count else parts, sizes.group_rows)

    def read(chunk: Chunk) -> Block:
        block = snapshot.read(chunk)
        if changing is None or changing.upsert is None:
            return block
        bounds, more = chunk.ref, changing.upsert
        start = 0 if bounds.start is None else search_key(more, bounds.start)
        stop = more.count if bounds.stop is None else search_key(more, bounds.stop)
        shape = changing.shape or snapshot.schema.shape
        share = Edit(changing.operation, upsert=more.take(slice(start, stop)), existing=changing.existing)
        return apply_edit(block, share, replace(snapshot.schema, shape=shape)) if start < stop else block

    blocks = ordered_map(read, chunks, settings.current().threads if len(chunks) > 1 else 1)
    return CommitPlan(write_blocks(snapshot, blocks, rows, sizes, run=True), all_files(replaced))


def _memory_part(block: Block) -> Part:
    low, high = (tuple(int(side(column)) for column in block.coords) for side in (np.min, np.max))
    return Part(low, high, block.count, True, block)


def rows_between(snapshot: Snapshot, first: int, last: int) -> int:
    """Return the number of base elements that a fold of new elements reads.

    ``first`` and ``last`` are the leading coordinates between which these lie.
    """
    base = snapshot.base
    low = min([first, *(int(run.low[:, 0].min()) for run in snapshot.runs)])
    high = max([last, *(int(run.high[:, 0].max()) for run in snapshot.runs)])
    return int(base.rows[(base.high[:, 0] >= low) & (base.low[:, 0] <= high)].sum())


def fold_runs(snapshot: Snapshot, sizes: Sizes, more: Block | None = None) -> CommitPlan:
    """Merge runs, and elements that no file has, into the base files.

    Files that they do not meet stay.
    """
    if not snapshot.runs and more is None:
        return CommitPlan()
    beside = snapshot.run_parts() + ([] if more is None else [_memory_part(more)])
    pieces = plan_merge(snapshot, beside, sizes)
    changes = [any(part.run for part in piece.chunk.ref.parts) for piece in pieces]
    added, places = rewrite_pieces(snapshot, pieces, changes, snapshot.read, sizes)
    return CommitPlan(added, files_at(snapshot, places) + all_files(snapshot.runs))


def _chain(snapshot: Snapshot, first: CommitPlan, then: Callable[[Snapshot], CommitPlan]) -> CommitPlan:
    """Return the plan of ``first`` followed by a second step planned on top of it."""
    if first.is_empty:
        return then(snapshot)
    try:
        second = then(_preview(snapshot, first))
    except BaseException:
        first.undo(snapshot.path)
        raise
    added, replaced = {file.name: file for file in first.added}, dict(second.removed)
    delete_files(snapshot.path, [file for name, file in added.items() if name in replaced])
    kept = [file for name, file in added.items() if name not in replaced]
    removed = first.removed + [(name, nbytes) for name, nbytes in second.removed if name not in added]
    return replace(second, added=kept + second.added, removed=removed, schema=second.schema or first.schema)


def _rewrite_files(snapshot: Snapshot, edit: Edit, sizes: Sizes) -> CommitPlan:
    """Write the base files that a prepared edit changes."""
    old, ndim = snapshot.schema, snapshot.schema.ndim
    shape = edit.shape or old.shape
    joint_schema = Schema(tuple(map(max, shape, old.shape)), old.dims, old.dtype, old.fill_value, old.stype)
    dtypes = [
        np.dtype(np.int64)
        if edit.upsert is not None and edit.upsert.coords[dim].max() >= 2**31
        else snapshot.base.coordinate_dtypes[dim]
        for dim in range(ndim)
    ]
    widening = tuple(dtypes) != snapshot.base.coordinate_dtypes
    runs = plan_rewrites(snapshot, edit, sizes, joint_schema, widening)
    places = [at for run in runs for at in run.places]
    added = write_rewrites(snapshot, edit, runs, sizes, dtypes, joint_schema)
    try:
        kept = np.ones(len(snapshot.base), dtype=bool)
        kept[places] = False
        tops = [file.high for file in added] + snapshot.base.high[kept].tolist()
        for dim in range(ndim):
            top = max((high[dim] for high in tops), default=-1)
            if top >= shape[dim]:
                raise ShapeError(
                    f"dimension {old.dims[dim]!r} cannot become {shape[dim]} long: there are elements up to "
                    f"coordinate {top}"
                )
    except BaseException:
        delete_files(snapshot.path, added)
        raise
    columns = None
    if widening and (added or places):
        columns = schema_with_metadata(snapshot, shape, dtypes, snapshot.metadata.profile)
    return CommitPlan(added, files_at(snapshot, places), columns, edit.shape)


def _preview(snapshot: Snapshot, work: CommitPlan) -> Snapshot:
    """Return the snapshot that a plan would make."""
    more, new = work.added, ActiveFiles.from_data_files(work.added, snapshot.schema.ndim)
    dtypes = tuple(map(np.dtype, more[0].coordinate_dtypes)) if more else snapshot.base.coordinate_dtypes
    draft = copy.copy(snapshot)
    active = snapshot.active.without({name for name, _ in work.removed}).concat(new)
    draft.set_tables(*file_tables(snapshot.path, snapshot.base.order, active, dtypes))
    draft._content_digest = None
    return draft


def plan_restore(snapshot: Snapshot, old: Snapshot) -> CommitPlan:
    """Return the plan that makes an old version current.

    Raises
    ------
    NotFoundError
        If a file of the old version is gone.
    """
    now = snapshot.active
    present = set(now.paths)
    shape = None if old.schema.shape == snapshot.schema.shape else old.schema.shape
    incoming = [(table, at) for table in old.tables for at, name in enumerate(table.names) if name not in present]
    for table, at in incoming:
        try:
            get_filesystem(old.path).touch(table.path(at))  # so that no vacuum deletes it before the commit
        except NotFoundError:
            raise NotFoundError(
                f"version {old.version} of {old.path!r} cannot be restored: its file {table.names[at]!r} is gone, "
                "deleted by vacuum(); restore a later version, see history()"
            ) from None
    leaving = now.without(set(old.active.paths))
    columns, profile = None, old.metadata.profile
    rewidened = (incoming or leaving.paths) and old.base.coordinate_dtypes != snapshot.base.coordinate_dtypes
    if rewidened or profile != snapshot.metadata.profile:
        columns = schema_with_metadata(snapshot, old.schema.shape, old.base.coordinate_dtypes, profile)
    added = [_to_data_file(table, at) for table, at in incoming]
    labels = None if old.metadata.labels == snapshot.metadata.labels else old.metadata.labels
    parts = () if labels is None else old.label_files(strict=False)
    removed = list(zip(leaving.paths, leaving.nbytes.tolist(), strict=True))
    return CommitPlan(added, removed, columns, shape, labels, parts, is_written=False)


def plan_compaction(snapshot: Snapshot, profile: Profile, sizes: Sizes) -> CommitPlan:
    """Merge adjacent files that are less than half full.

    Rewrite all files if the profile changes.

    Runs are folded first, and labels in several files are merged into one.
    """
    return _chain(snapshot, fold_runs(snapshot, sizes), lambda draft: _merge_small_files(draft, profile, sizes))


def _merge_small_files(snapshot: Snapshot, profile: Profile, sizes: Sizes) -> CommitPlan:
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
    added = write_rewrites(snapshot, Edit("compact"), runs, sizes, table.coordinate_dtypes, snapshot.schema, wanted)
    columns = None
    if everything:
        columns = schema_with_metadata(snapshot, snapshot.schema.shape, table.coordinate_dtypes, wanted)
    target = WrittenLabels(snapshot.path)
    try:
        labels = _merge_label_files(snapshot, target)
    except BaseException:
        delete_files(snapshot.path, added)
        target.undo()
        raise
    removed = files_at(snapshot, [at for run in runs for at in run.places])
    return CommitPlan(added, removed, columns, labels=labels, written_labels=target)


def _merge_label_files(snapshot: Snapshot, target: WrittenLabels) -> dict[int, str] | None:
    """Write labels that are in several files as one.

    Return the files of all dimensions, or None if nothing changes.
    """
    arrays: dict[str, pa.Array] = {}
    several: dict[int, pa.Array] = {}
    for dim, name in snapshot.metadata.labels.items():
        found = snapshot.vocabulary(dim) if is_partial(name) else None
        if found is not None and len(found.parts) > 1:
            several[dim] = arrays.setdefault(name, found.array[: snapshot.schema.shape[dim]])
    if not several:
        return None
    return {**snapshot.metadata.labels, **write_labels(target, snapshot.schema, several)}


def schema_with_metadata(
    snapshot: Snapshot, shape: tuple[int, ...], dtypes: Iterable[np.dtype[np.generic]], profile: Profile
) -> pa.Schema:
    """Return the columns of the files with updated metadata."""
    old = snapshot.schema
    schema = Schema(shape, old.dims, old.dtype, old.fill_value, old.stype)
    metadata = replace(snapshot.metadata, schema=schema, profile=profile)
    return arrow_schema(old.dims, old.dtype, list(dtypes), {METADATA_KEY: metadata.to_json()})


def files_at(snapshot: Snapshot, places: Iterable[int]) -> list[tuple[str, int]]:
    """Return names and sizes of some base files."""
    return [(snapshot.base.names[at], int(snapshot.base.nbytes[at])) for at in places]


def all_files(tables: Iterable[FileTable]) -> list[tuple[str, int]]:
    """Return names and sizes of all files of some tables."""
    return [(name, nbytes) for table in tables for name, nbytes in zip(table.names, table.nbytes.tolist(), strict=True)]


def _to_data_file(table: FileTable, at: int) -> DataFile:
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
