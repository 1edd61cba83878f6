"""What a commit puts in and takes out: the files of an edit, of many, of an old version, of a compaction."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from sparrow.errors import NotFoundError, ShapeError
from sparrow.index import Box
from sparrow.relation import Edit, Growth, with_labels
from sparrow.schema import Schema
from sparrow.storage.filesystem import of
from sparrow.storage.labels import is_part, write_labels, write_more
from sparrow.storage.layout import METADATA_KEY, Profile, Sizes, arrow_schema
from sparrow.storage.log import Active
from sparrow.storage.rewrites import Claim, Piece, Rewrite, discard, plan, prepare, write
from sparrow.storage.snapshot import FileTable, Snapshot
from sparrow.storage.writer import DataFile

__all__ = ["Work", "appended", "compacted", "edited", "grown", "restored"]


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
        now, then = set(latest.base.names), set(before.base.names)
        if not now.issuperset(name for name, _ in self.removed):
            return False
        fresh = [latest.base.footer(at) for at, name in enumerate(latest.base.names) if name not in then]
        return not any(
            mine.first <= theirs.last and theirs.first <= mine.last for mine in self.added for theirs in fresh
        )


def edited(snapshot: Snapshot, edit: Edit, sizes: Sizes) -> Work:
    """Write the files that a prepared edit needs on top of a snapshot."""
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
    draft, schema = snapshot, None
    removed: dict[str, int] = {}
    added: dict[str, DataFile] = {}
    try:
        for edit in edits:
            work = edited(draft, edit, sizes)
            added.update((file.name, file) for file in work.added)
            schema = work.schema or schema
            gone = dict(work.removed)
            removed.update((name, nbytes) for name, nbytes in gone.items() if name not in added)
            discard(snapshot.path, [added.pop(name) for name in gone if name in added])
            draft = _draft(draft, work)
    except BaseException:
        discard(snapshot.path, list(added.values()))
        raise
    return Work(list(added.values()), list(removed.items()), schema)


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
    labels = with_labels(snapshot.metadata.labels, files)
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
    table, gone = snapshot.base, {name for name, _ in work.removed}
    kept = [at for at, name in enumerate(table.names) if name not in gone]
    ndim, more = snapshot.schema.ndim, work.added
    active = Active(
        [table.names[at] for at in kept] + [file.name for file in more],
        np.append(table.nbytes[kept], [file.nbytes for file in more]).astype(np.int64),
        np.append(table.rows[kept], [file.rows for file in more]).astype(np.int64),
        np.concatenate([table.low[kept], np.array([f.low for f in more], np.int64).reshape(len(more), ndim)]),
        np.concatenate([table.high[kept], np.array([f.high for f in more], np.int64).reshape(len(more), ndim)]),
    )
    kinds = tuple(map(np.dtype, more[0].coordinate_dtypes)) if more else table.coordinate_dtypes
    draft = copy.copy(snapshot)
    draft.base = FileTable(table.folder, table.order, active, kinds)
    draft._digest = None
    return draft


def restored(snapshot: Snapshot, old: Snapshot) -> Work:
    """Return what takes a snapshot back to an old version.

    Raises
    ------
    NotFoundError
        If a file of the old version is gone.
    """
    now, then = set(snapshot.base.names), set(old.base.names)
    shape = None if old.schema.shape == snapshot.schema.shape else old.schema.shape
    coming = [at for at, name in enumerate(old.base.names) if name not in now]
    for at in coming:
        try:
            of(old.path).touch(old.base.path(at))  # young again, so that no vacuum takes it before the commit
        except NotFoundError:
            raise NotFoundError(
                f"version {old.version} of {old.path!r} cannot be restored: its file {old.base.names[at]!r} is gone, "
                "which vacuum() does to old versions; restore a later one, see history()"
            ) from None
    leaving = [at for at, name in enumerate(snapshot.base.names) if name not in then]
    columns = None
    if (coming or leaving) and old.base.coordinate_dtypes != snapshot.base.coordinate_dtypes:
        columns = _columns(snapshot, old.schema.shape, old.base.coordinate_dtypes, snapshot.metadata.profile)
    added = [_data_file(old.base, at) for at in coming]
    labels = None if old.metadata.labels == snapshot.metadata.labels else old.metadata.labels
    parts = () if labels is None else old.label_files(strict=False)
    return Work(added, _removed(snapshot, leaving), columns, shape, labels, parts, written=False)


def compacted(snapshot: Snapshot, profile: Profile, sizes: Sizes) -> Work:
    """Write neighbouring files that are less than half full as full ones; all files where the profile changes.

    Labels that are in several files come into one.
    """
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
