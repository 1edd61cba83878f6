"""Opening stored tensors and committing edits to them."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from weakref import WeakSet, WeakValueDictionary

import pyarrow as pa

from sparrow.core.indexing import Box
from sparrow.core.schema import Schema, as_integer
from sparrow.errors import ConflictError, NotFoundError, ReadOnlyError, ShapeError, UnsupportedError
from sparrow.kernels.coo import Block
from sparrow.relations.base import Edit, Growth, Relation
from sparrow.storage.bundle import is_bundle, is_tensor, open_bundle
from sparrow.storage.creation import create, stage_folder
from sparrow.storage.delta.commits import Work, appended, compacted, edited, grown, restored
from sparrow.storage.delta.history import Commit
from sparrow.storage.delta.log import Log, LostRace, forked
from sparrow.storage.delta.rewrite_plan import Claim, prepare
from sparrow.storage.delta.snapshot import FileRecord, Snapshot
from sparrow.storage.fs.credentials import use_storage_options
from sparrow.storage.fs.filesystem import absolute_path, get_filesystem
from sparrow.storage.parquet.layout import Sizes, check_profile
from sparrow.storage.parquet.sort_orders import build_order
from sparrow.storage.parquet.writer import TensorWriter
from sparrow.storage.vacuum import vacuum
from sparrow.storage.verify import Finding, verify

__all__ = ["StoredHandle", "open", "save"]

_ATTEMPTS = 200
_LONGEST_WAIT = 0.05


class _PathLock:
    """A lock that can be referred to weakly."""

    def __init__(self) -> None:
        self.lock = threading.RLock()


_locks: WeakValueDictionary[str, _PathLock] = WeakValueDictionary()
_locks_guard = threading.Lock()
_handles: WeakSet[StoredHandle] = WeakSet()
"""All that there are, for processes that inherit them by a fork."""


def _path_lock(path: str) -> _PathLock:
    with _locks_guard:
        found = _locks.get(path)
        if found is None:
            found = _locks[path] = _PathLock()
        return found


@dataclass(frozen=True, slots=True)
class _Job:
    """A commit to be made, on whichever version it turns out to go on top of."""

    operation: str
    claim: Claim
    work: Callable[[Snapshot], Work]
    """Write the files."""
    check: Callable[[Schema], object]
    """Raise ``ShapeError`` where another shape than that of the current version does not suit."""

    def intersects(self, notes: Mapping[str, Any]) -> bool:
        """Return whether it may write cells that a commit changed; appends say themselves what two of them make."""
        both = self.operation == notes.get("operation") == "append"
        return not both and "claim" in notes and self.claim.intersects(Claim.from_json(notes["claim"]))


class StoredHandle:
    """What the live tensors of one stored tensor share: the snapshot they see, and commits.

    Implements :class:`sparrow.relations.base.Handle`. Reads are safe from several threads; commits of one
    process to one path take turns, those of several processes race by compare-and-swap.
    """

    def __init__(self, log: Log, read_only: bool = False, sizes: Sizes | None = None) -> None:
        self._log = log
        self._snapshot = Snapshot(log)
        self._read_only = read_only
        self._sizes = sizes or Sizes()
        self._turn = _path_lock(get_filesystem(log.path).identity(log.path))
        _handles.add(self)

    def __repr__(self) -> str:
        return f"<StoredHandle of {self.path!r}, version {self._snapshot.version}>"

    def __reduce__(self) -> tuple[Callable[..., StoredHandle], tuple[str, int]]:
        return reopen, (self.path, self._snapshot.version)

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

    def _check_there(self) -> None:
        """Check that the folder still holds the table that was opened: one saved over it has versions of its own."""
        if self._log.is_replaced():
            raise self._gone()

    def _gone(self) -> ConflictError:
        return ConflictError(
            f"the tensor at {self.path!r} was removed, or another one was saved over it, since it was opened: "
            "open it again with sp.open()"
        )

    def refresh(self) -> Snapshot:
        """Take in commits of other processes.

        Raises
        ------
        ConflictError
            If another tensor was saved over this one.
        """
        if not self._read_only:
            with self._turn.lock:
                self._check_there()
                self._log.reload()
                if self._log.version != self._snapshot.version:
                    latest = Snapshot(self._log, self._snapshot)
                    if latest.identity != self._snapshot.identity:
                        self._log = Log.open(self.path, self._snapshot.version)
                        raise self._gone()
                    self._snapshot = latest
                else:
                    self._snapshot.invalidate_orders()
        return self._snapshot

    def commit(self, edit: Edit) -> Snapshot:
        """Apply an edit to the current version, atomically, and return the new one.

        Only files whose keys the edit meets are read and rewritten. Where other processes committed
        meanwhile to cells apart from the edit's, it goes on top of theirs. An edit that changes
        nothing makes no version.

        Raises
        ------
        ConflictError
            If another process changed some of the same cells since the current version, or saved another tensor
            over this one.
        DuplicateError
            If ``edit.existing`` is ``"error"`` and a cell has an entry.
        ShapeError
            If a coordinate lies outside the shape.
        ReadOnlyError
            If a version was named when opening.
        StorageError
            If files or log cannot be written. Whatever is raised, nothing was changed.
        """
        self._check_writable("write")
        with self._turn.lock:
            edit = prepare(edit, self._snapshot.schema)
            if not edit.clear and edit.upsert is None and edit.shape is None:
                return self._snapshot

            def check(schema: Schema) -> None:
                if edit.shape is not None:
                    raise ShapeError("two changes of the shape")
                prepare(edit, schema)

            job = _Job(edit.operation, Claim.of(edit), lambda found: edited(found, edit, self._sizes), check)
            return self._commit(job)

    def append(self, edits: Callable[[], Iterable[Edit]], box: Box) -> Snapshot:
        """Apply edits one after the other and commit all of them at once; only one is held in memory.

        Parameters
        ----------
        edits
            Begins the edits, again where the commit has to be repeated; none clears or changes the shape.
        box
            The cells that they may write.

        Raises
        ------
        ConflictError, DuplicateError, ShapeError, ReadOnlyError, StorageError
            As :meth:`commit`; nothing was changed.
        """
        self._check_writable("write")
        with self._turn.lock:

            def work(snapshot: Snapshot) -> Work:
                wanted = (prepare(edit, snapshot.schema) for edit in edits())
                return appended(snapshot, (edit for edit in wanted if edit.upsert is not None), self._sizes)

            def check(schema: Schema) -> None:
                if any(len(r) and r[-1] >= n for r, n in zip(box.ranges, schema.shape, strict=True)):
                    raise ShapeError("cells outside the shape")

            return self._commit(_Job("append", Claim((), (box,)), work, check))

    def grow(self, growth: Callable[[Relation], Growth], operation: str = "append") -> Snapshot:
        """Append entries with labels that dimensions have not had so far, all in one commit.

        Parameters
        ----------
        growth
            What is appended on top of a version. It is asked again where another writer was first, so that a label
            gets one coordinate, whoever brings it.
        operation
            What history shows.

        Raises
        ------
        ConflictError, DuplicateError, ReadOnlyError, StorageError
            As :meth:`commit`; nothing was changed.
        """
        self._check_writable("write")
        with self._turn.lock:
            return self._commit(
                _Job(operation, Claim(), lambda found: grown(found, growth(found), self._sizes), lambda schema: None)
            )

    def restore(self, version: int) -> Snapshot:
        """Commit a version whose entries and shape are those of an old one; writes no data.

        Raises
        ------
        NotFoundError
            If there is no such version, or its files were vacuumed away.
        UnsupportedError
            If that was another tensor, which this one was saved over.
        ConflictError
            If another process wrote since the current version.
        ReadOnlyError
            If a version was named when opening.
        """
        self._check_writable("restore")
        with self._turn.lock:
            self._check_there()
            old = Snapshot(Log.open(self.path, as_integer(version, "version")))
            if old.identity != self._snapshot.identity:
                raise UnsupportedError(
                    f"version {version} of {self.path!r} is another tensor, which this one was saved over: "
                    f"sp.open({self.path!r}, version={version}).save(..., overwrite=True) brings it back"
                )
            shape = tuple(map(max, old.schema.shape, self._snapshot.schema.shape))

            def check(schema: Schema) -> None:
                raise ShapeError("the version to restore has a shape of its own")

            claim = Claim((), (Box.everything(shape),))
            return self._commit(_Job("restore", claim, lambda found: restored(found, old), check))

    def compact(self, profile: str | None = None) -> Snapshot:
        """Write small neighbouring files as full ones in one commit; derived orders are rebuilt.

        Entries stay as they are, so commits of others never conflict with it.

        Parameters
        ----------
        profile
            ``"fast"`` or ``"small"``, for all files and later ones; the default keeps what there is.

        Raises
        ------
        InvalidValueError
            If there is no such profile.
        ReadOnlyError
            If a version was named when opening.
        """
        self._check_writable("compact")
        wanted = None if profile is None else check_profile(profile)
        with self._turn.lock:
            self._check_there()
            self._snapshot.invalidate_orders()
            orders = self._snapshot.orders[1:]
            job = _Job(
                "compact",
                Claim(),
                lambda found: compacted(found, wanted or found.metadata.profile, self._sizes),
                lambda schema: None,
            )
            snapshot = self._commit(job)
            for order in orders:
                build_order(snapshot, order, self._sizes)
            snapshot.invalidate_orders()
            return snapshot

    def _check_writable(self, what: str) -> None:
        if self._read_only:
            raise ReadOnlyError(
                f"{self.path!r} was opened at version {self._snapshot.version}, which is read-only: "
                f"open it without version= to {what}"
            )

    def _commit(self, job: _Job) -> Snapshot:
        """Try until the job is done, or cannot be."""
        log, snapshot, nonce = self._log, self._snapshot, os.urandom(8).hex()
        work: Work | None = None
        try:
            for attempt in range(_ATTEMPTS):
                self._check_there()
                if attempt or get_filesystem(self.path).exists(log.next_commit):
                    log = Log.open(self.path)
                    latest = Snapshot(log, snapshot)
                    if latest.identity != snapshot.identity:
                        raise self._gone()
                    self._check_apart(latest, job)
                    if work is not None and not work.fits(snapshot, latest):
                        work.undo(self.path)
                        work = None
                    snapshot = latest
                if work is None:
                    work = job.work(snapshot)
                if work.empty:
                    break
                gone = {name for name, _ in work.removed}
                rows = snapshot.nnz + sum(file.rows for file in work.added)
                active = snapshot.active
                rows -= sum(n for name, n in zip(active.paths, active.rows.tolist(), strict=True) if name in gone)
                notes = {
                    "operation": job.operation,
                    "nonce": nonce,
                    "nnz": rows,
                    "shape": list(work.shape or snapshot.schema.shape),
                    "claim": (work.claim or job.claim).to_json(),
                }
                if work.labels is not None:
                    notes["labels"] = sorted(
                        {*snapshot.label_files(strict=False), *work.labels.values(), *work.label_parts}
                    )
                self._check_there()  # writing the files may have taken a while
                try:
                    log.commit(work.added, work.removed, notes, work.shape, work.schema, work.labels)
                except LostRace:
                    time.sleep(random.uniform(0, min(_LONGEST_WAIT, 0.002 * 2**attempt)))
                    continue
                work = None
                snapshot = Snapshot(log, snapshot)
                break
            else:
                raise ConflictError(f"lost {_ATTEMPTS} races to commit to {self.path!r}: try again when it is quieter")
        except BaseException:
            if work is not None and not log.has_landed(snapshot.version, nonce):
                work.undo(self.path)
            raise
        self._log, self._snapshot = log, snapshot
        return snapshot

    def _check_apart(self, latest: Snapshot, job: _Job) -> None:
        """Check that what others committed since the current version is apart from a job."""
        base = self._snapshot
        way_out = "call refresh(), read again and repeat the write"
        for commit in self._log.commits(base.version + 1):
            if commit.notes is None:
                raise ConflictError(f"another tool committed version {commit.version} of {self.path!r}: {way_out}")
            if job.intersects(commit.notes):
                raise ConflictError(
                    f"version {commit.version} of {self.path!r} ({commit.notes['operation']}), by another writer, "
                    f"changed cells of this write: {way_out}"
                )
        if latest.schema.shape != base.schema.shape:
            try:
                job.check(latest.schema)
            except ShapeError:
                raise ConflictError(
                    f"another writer changed the shape of {self.path!r} from {base.schema.shape} "
                    f"to {latest.schema.shape}: {way_out}"
                ) from None

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
            self._check_there()
            self._snapshot.invalidate_orders()
            build_order(self._snapshot, order, self._sizes)
            self._snapshot.invalidate_orders()

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
        Options of an object store; they hold for the tensor in this process, and are kept nowhere else.
    sizes
        How large the files of later commits become.

    Raises
    ------
    NotFoundError
        If there is no tensor, or not that version.
    UnsupportedError
        If there are options and the path is no URL, or it is a URL that holds no tensors.
    """
    final = absolute_path(path)
    with use_storage_options(final, storage_options):
        get_filesystem(final).recover(final)
        try:
            log = Log.open(final, version)
        except NotFoundError:
            if is_bundle(final) and not is_tensor(final):
                names = ", ".join(map(repr, open_bundle(final)))
                raise NotFoundError(f"{final!r} is a bundle, not a tensor: open one of its members {names}") from None
            raise
        return StoredHandle(log, version is not None, sizes)


def reopen(path: str, version: int) -> StoredHandle:
    """Open what a pickled tensor stands for, read-only; where a fork forbids that it is what was inherited.

    Raises
    ------
    StorageError
        If it cannot be opened.
    """
    for handle in list(_handles) if forked() else ():
        if (handle.path, handle.current.version) == (path, version):
            inherited = object.__new__(StoredHandle)  # a copy would open it
            vars(inherited).update(vars(handle), _read_only=True)
            return inherited
    return open(path, version)


def iter_commits(path: str | os.PathLike[str]) -> Iterator[Commit]:
    """Return the commits of a tensor, newest first, each read when it is asked for.

    Raises
    ------
    NotFoundError
        If there is no tensor.
    """
    log = Log.open(absolute_path(path))
    return log.iter_commits_backward(log.version)


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
    storage_options: Mapping[str, str] | None = None,
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
    storage_options
        Options of an object store.

    Raises
    ------
    ExistsError
        If something is there.
    StorageError
        If the disk is full.
    """
    with stage_folder(path, overwrite, storage_options) as folder:
        kinds = [schema.coordinate_dtype(dim) for dim in range(schema.ndim)]
        with TensorWriter(
            folder, schema.dims, schema.dtype, profile=profile, coordinate_dtypes=kinds, sizes=sizes
        ) as writer:
            for block in blocks:
                writer.write(block)
            files = writer.finish()
        create(folder, schema, files, labels=labels, profile=profile, operation=operation, extra=extra)
        for order in orders:
            build_order(Snapshot(Log.open(os.fspath(folder))), order, sizes or Sizes())
    return open(path, sizes=sizes)
