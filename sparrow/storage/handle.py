"""Opening stored tensors and committing edits to them."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa

from sparrow.errors import ConflictError, NotFoundError, ReadOnlyError, ShapeError, UnsupportedError
from sparrow.kernels.entries import Block
from sparrow.relation import Edit
from sparrow.schema import Schema
from sparrow.storage.bundle import is_bundle, is_tensor, open_bundle
from sparrow.storage.creation import create, creating, local_path
from sparrow.storage.edits import Claim, discard, plan, prepare, write
from sparrow.storage.layout import METADATA_KEY, Metadata, Sizes, arrow_schema
from sparrow.storage.log import Log, LostRace
from sparrow.storage.orders import build_order
from sparrow.storage.snapshot import FileRecord, Snapshot
from sparrow.storage.vacuum import vacuum
from sparrow.storage.verify import Finding, verify
from sparrow.storage.writer import DataFile, TensorWriter

__all__ = ["StoredHandle", "open", "save"]

_ATTEMPTS = 200
_LONGEST_WAIT = 0.05


class _PathLock:
    """A lock that can be referred to weakly."""

    def __init__(self) -> None:
        self.lock = threading.RLock()


_locks: WeakValueDictionary[str, _PathLock] = WeakValueDictionary()
_locks_guard = threading.Lock()


def _path_lock(path: str) -> _PathLock:
    with _locks_guard:
        found = _locks.get(path)
        if found is None:
            found = _locks[path] = _PathLock()
        return found


@dataclass(frozen=True, slots=True)
class _Work:
    """Files written for a commit, against one snapshot."""

    added: list[DataFile]
    removed: list[tuple[str, int]]
    schema: pa.Schema | None
    """Set where the coordinate columns widen, which replaces every file."""


class StoredHandle:
    """What the live tensors of one stored tensor share: the snapshot they see, and commits.

    Implements :class:`sparrow.relation.Handle`. Reads are safe from several threads; commits of one
    process to one path take turns, those of several processes race by compare-and-swap.
    """

    def __init__(self, log: Log, read_only: bool = False, sizes: Sizes | None = None) -> None:
        self._log = log
        self._snapshot = Snapshot(log)
        self._read_only = read_only
        self._sizes = sizes or Sizes()
        self._turn = _path_lock(os.path.realpath(log.path))

    def __repr__(self) -> str:
        return f"<StoredHandle of {self.path!r}, version {self._snapshot.version}>"

    def __reduce__(self) -> tuple[Callable[..., StoredHandle], tuple[str, int]]:
        return open, (self.path, self._snapshot.version)

    @property
    def current(self) -> Snapshot:
        """The version that this process sees."""
        return self._snapshot

    @property
    def path(self) -> str:
        """The folder."""
        return self._snapshot.path

    @property
    def read_only(self) -> bool:
        """Whether a version was named when opening."""
        return self._read_only

    def refresh(self) -> Snapshot:
        """Take in commits of other processes."""
        if not self._read_only:
            with self._turn.lock:
                self._log.reload()
                if self._log.version != self._snapshot.version:
                    self._snapshot = Snapshot(self._log)
                else:
                    self._snapshot.forget_orders()
        return self._snapshot

    def commit(self, edit: Edit) -> Snapshot:
        """Apply an edit to the current version, atomically, and return the new one.

        Only files whose keys the edit meets are read and rewritten. Where other processes committed
        meanwhile to cells apart from the edit's, it goes on top of theirs. An edit that changes
        nothing makes no version.

        Raises
        ------
        ConflictError
            If another process changed some of the same cells since the current version.
        DuplicateError
            If ``edit.existing`` is ``"error"`` and a cell has an entry.
        ShapeError
            If a coordinate lies outside the shape.
        ReadOnlyError
            If a version was named when opening.
        StorageError
            If files or log cannot be written. Whatever is raised, nothing was changed.
        """
        if self._read_only:
            raise ReadOnlyError(
                f"{self.path!r} was opened at version {self._snapshot.version}, which is read-only: "
                "open it without version= to write"
            )
        with self._turn.lock:
            edit = prepare(edit, self._snapshot.schema)
            if not edit.clear and edit.upsert is None and edit.shape is None:
                return self._snapshot
            return self._commit(edit)

    def _commit(self, edit: Edit) -> Snapshot:
        """Try until the edit is in, or cannot go in."""
        log, snapshot, claim, nonce = self._log, self._snapshot, Claim.of(edit), os.urandom(8).hex()
        work: _Work | None = None
        try:
            for attempt in range(_ATTEMPTS):
                if attempt or os.path.exists(log.next_commit):
                    log = Log.open(self.path)
                    latest = Snapshot(log)
                    self._check_apart(latest, edit, claim)
                    if work is not None and not _reusable(work, snapshot, latest):
                        discard(Path(self.path), work.added)
                        work = None
                    snapshot = latest
                if work is None:
                    work = self._write(snapshot, edit)
                if not work.added and not work.removed and edit.shape is None:
                    break
                rows = snapshot.nnz + sum(file.rows for file in work.added)
                gone = {name for name, _ in work.removed}
                rows -= sum(
                    int(n) for name, n in zip(snapshot.base.names, snapshot.base.rows, strict=True) if name in gone
                )
                notes = {
                    "operation": edit.operation,
                    "nonce": nonce,
                    "nnz": rows,
                    "shape": list(edit.shape or snapshot.schema.shape),
                    "claim": claim.to_json(),
                }
                try:
                    log.commit(work.added, work.removed, notes, edit.shape, work.schema)
                except LostRace:
                    time.sleep(random.uniform(0, min(_LONGEST_WAIT, 0.002 * 2**attempt)))
                    continue
                work = None
                snapshot = Snapshot(log)
                break
            else:
                raise ConflictError(f"lost {_ATTEMPTS} races to commit to {self.path!r}: try again when it is quieter")
        except BaseException:
            if work is not None and not log.landed(snapshot.version, nonce):
                discard(Path(self.path), work.added)
            raise
        self._log, self._snapshot = log, snapshot
        return snapshot

    def _check_apart(self, latest: Snapshot, edit: Edit, claim: Claim) -> None:
        """Check that what others committed since the current version is apart from an edit."""
        base = self._snapshot
        way_out = "call refresh(), read again and repeat the write"
        for commit in self._log.commits(base.version + 1):
            if commit.notes is None:
                raise ConflictError(f"another tool committed version {commit.version} of {self.path!r}: {way_out}")
            if "claim" in commit.notes and claim.meets(Claim.from_json(commit.notes["claim"])):
                raise ConflictError(
                    f"version {commit.version} of {self.path!r} ({commit.notes['operation']}), by another writer, "
                    f"changed cells of this write: {way_out}"
                )
        if latest.schema.shape != base.schema.shape:
            message = (
                f"another writer changed the shape of {self.path!r} from {base.schema.shape} "
                f"to {latest.schema.shape}: {way_out}"
            )
            if edit.shape is not None:
                raise ConflictError(message)
            try:
                prepare(edit, latest.schema)
            except ShapeError:
                raise ConflictError(message) from None

    def _write(self, snapshot: Snapshot, edit: Edit) -> _Work:
        """Write the files that an edit needs on top of a snapshot."""
        old, ndim = snapshot.schema, snapshot.schema.ndim
        shape = edit.shape or old.shape
        schema = Schema(shape, old.dims, old.dtype, old.fill_value, old.stype)
        whole = Schema(tuple(map(max, shape, old.shape)), old.dims, old.dtype, old.fill_value, old.stype)
        kinds = [
            np.dtype(np.int64)
            if edit.upsert is not None and edit.upsert.coords[dim].max() >= 2**31
            else snapshot.base.coordinate_dtypes[dim]
            for dim in range(ndim)
        ]
        widening = tuple(kinds) != snapshot.base.coordinate_dtypes
        runs = plan(snapshot, edit, self._sizes, whole, widening)
        places = [at for run in runs for at in run.places]
        added = write(snapshot, edit, runs, self._sizes, kinds, whole)
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
            discard(Path(self.path), added)
            raise
        removed = [(snapshot.base.names[at], int(snapshot.base.nbytes[at])) for at in places]
        columns = None
        if widening and (added or removed):
            found = snapshot.metadata
            metadata = Metadata(schema, found.profile, found.order, found.labels, found.built_from, found.extra)
            columns = arrow_schema(old.dims, old.dtype, kinds, {METADATA_KEY: metadata.to_json()})
        return _Work(added, removed, columns)

    def history(self) -> list[dict[str, Any]]:
        """Return what was committed, newest first.

        Each record has ``version``, ``timestamp`` (UTC), ``operation``, ``nonce``, ``nnz`` and
        ``shape`` after it, ``files_added`` and ``files_removed``.
        """
        out: list[dict[str, Any]] = []
        for commit in self._log.commits():
            if commit.version > self._snapshot.version:
                break
            notes: Mapping[str, Any] = commit.notes or {}
            out.append(
                {
                    "version": commit.version,
                    "timestamp": commit.timestamp,
                    "operation": notes.get("operation", commit.raw.get("operation")),
                    "nonce": notes.get("nonce"),
                    "nnz": notes.get("nnz"),
                    "shape": tuple(notes["shape"]) if "shape" in notes else None,
                    "files_added": len(commit.added),
                    "files_removed": len(commit.removed),
                }
            )
        return out[::-1]

    def add_order(self, order: Sequence[int]) -> None:
        """Build a sort order from the current version, or rebuild a stale one. Sorts under the memory limit.

        Raises
        ------
        ShapeError
            If ``order`` does not name each dimension once.
        """
        if self._read_only:
            raise ReadOnlyError(f"{self.path!r} was opened at a version: open it without version= to add an order")
        with self._turn.lock:
            build_order(self._snapshot, order, self._sizes)
            self._snapshot.forget_orders()

    def vacuum(self, older_than: str | timedelta = "7 days", dry_run: bool = False) -> list[str]:
        """Delete files that no version newer than the horizon uses; see :func:`sparrow.storage.vacuum.vacuum`."""
        if self._read_only:
            raise ReadOnlyError(f"{self.path!r} was opened at a version: open it without version= to vacuum")
        with self._turn.lock:
            return vacuum(self.path, older_than, dry_run)

    def verify(self) -> list[Finding]:
        """Check every file that the current version references; see :func:`sparrow.storage.verify.verify`."""
        return verify(self._snapshot)

    def files(self, order: Sequence[int] | None = None) -> list[FileRecord]:
        """Return the data files of an order."""
        return self._snapshot.files(order)


def _reusable(work: _Work, before: Snapshot, latest: Snapshot) -> bool:
    """Return whether files written against one snapshot can be committed on top of a later one.

    They can when the files they replace are still there, and nothing was added within their keys.
    """
    if work.schema is not None or latest.base.coordinate_dtypes != before.base.coordinate_dtypes:
        return False
    now, then = set(latest.base.names), set(before.base.names)
    if not now.issuperset(name for name, _ in work.removed):
        return False
    fresh = [latest.base.footer(at) for at, name in enumerate(latest.base.names) if name not in then]
    return not any(mine.first <= theirs.last and theirs.first <= mine.last for mine in work.added for theirs in fresh)


def open(  # noqa: A001
    path: str | os.PathLike[str],
    version: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    sizes: Sizes | None = None,
) -> StoredHandle:
    """Open a stored tensor: its latest version for reading and writing, or an older one for reading.

    Parameters
    ----------
    path
        The folder.
    version
        A version; the handle is then read-only.
    storage_options
        For object stores, which are not supported.
    sizes
        How large the files of later commits become.

    Raises
    ------
    NotFoundError
        If there is no tensor, or not that version.
    UnsupportedError
        If the path is a URL.
    """
    final = local_path(path)
    if storage_options:
        raise UnsupportedError("storage_options are for object stores: tensors are stored in local folders only")
    if is_bundle(final) and not is_tensor(final):
        names = ", ".join(map(repr, open_bundle(final)))
        raise NotFoundError(f"{final!r} is a bundle, not a tensor: open one of its members {names}")
    return StoredHandle(Log.open(final, version), version is not None, sizes)


def save(
    path: str | os.PathLike[str],
    schema: Schema,
    blocks: Iterable[Block],
    *,
    profile: str = "fast",
    overwrite: bool = False,
    labels: Mapping[int, pa.Array] | None = None,
    orders: Iterable[Sequence[int]] = (),
    operation: str = "save",
    extra: Mapping[str, Any] | None = None,
    sizes: Sizes | None = None,
) -> StoredHandle:
    """Store a tensor: it appears whole, or not at all.

    Parameters
    ----------
    path
        The folder that is made.
    schema
        Shape, names, dtype, fill.
    blocks
        Entries, canonical over all blocks together.
    profile
        ``"fast"`` or ``"small"``.
    overwrite
        Replace a tensor or bundle that is there.
    labels
        Labels by dimension number.
    orders
        Further sort orders to build.
    operation, extra
        What history shows, and JSON values to keep with the tensor.
    sizes
        Where files and row groups end.

    Raises
    ------
    ExistsError
        If something is there.
    StorageError
        If the disk is full.
    """
    with creating(path, overwrite) as folder:
        kinds = [schema.coordinate_dtype(dim) for dim in range(schema.ndim)]
        with TensorWriter(
            folder, schema.dims, schema.dtype, profile=profile, coordinate_dtypes=kinds, sizes=sizes
        ) as writer:
            for block in blocks:
                writer.write(block)
            files = writer.finish()
        create(folder, schema, files, labels=labels, profile=profile, operation=operation, extra=extra)
        for order in orders:
            build_order(Snapshot(Log.open(str(folder))), order, sizes or Sizes())
    return open(path, sizes=sizes)
