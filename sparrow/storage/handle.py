"""Handle of a stored tensor: opening, refreshing and committing."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from weakref import WeakSet, WeakValueDictionary

import pyarrow as pa

from sparrow.core.indexing import Box
from sparrow.core.schema import Schema, as_integer
from sparrow.errors import (
    ConflictError,
    CorruptionError,
    NotFoundError,
    ReadOnlyError,
    ShapeError,
    StorageError,
    UnsupportedError,
)
from sparrow.kernels.coo import Block
from sparrow.relations.edits import Edit, Growth
from sparrow.relations.protocol import Relation
from sparrow.storage.bundle import is_bundle, is_tensor, open_bundle
from sparrow.storage.creation import create, stage_folder
from sparrow.storage.delta.append_plan import plan_appends, plan_growth
from sparrow.storage.delta.commit_plan import CommitPlan, plan_compaction, plan_edit, plan_restore
from sparrow.storage.delta.history import Commit, entry_versions, read_commits
from sparrow.storage.delta.log import Log, LostRace, is_forked, read_stable
from sparrow.storage.delta.rewrite_plan import WriteSet, prepare
from sparrow.storage.delta.snapshot import FileRecord, Snapshot
from sparrow.storage.fs.credentials import use_storage_options
from sparrow.storage.fs.failures import UNCHANGED, DoneClaim, UnchangedClaim
from sparrow.storage.fs.filesystem import get_filesystem
from sparrow.storage.fs.paths import absolute_path
from sparrow.storage.parquet.layout import Sizes, check_profile
from sparrow.storage.parquet.sort_orders import WriteOrder, build_order
from sparrow.storage.parquet.writer import DataFile, TensorWriter
from sparrow.storage.tuning import tuning
from sparrow.storage.vacuum import vacuum
from sparrow.storage.verify import Finding, verify

__all__ = ["StoredHandle", "open", "save"]


class _PathLock:
    """Lock that can be referenced weakly."""

    def __init__(self) -> None:
        self.lock = threading.RLock()


_locks: WeakValueDictionary[str, _PathLock] = WeakValueDictionary()
_locks_guard = threading.Lock()
_handles: WeakSet[StoredHandle] = WeakSet()
"""All handles, for processes that inherit them by a fork."""


def _lock_for(path: str) -> _PathLock:
    with _locks_guard:
        found = _locks.get(path)
        if found is None:
            found = _locks[path] = _PathLock()
        return found


@dataclass(frozen=True, slots=True)
class CommitTask:
    """A commit to be made, on top of whichever version is the latest then."""

    operation: str
    write_set: WriteSet
    plan: Callable[[Snapshot], CommitPlan]
    """Writes the files of the commit."""
    check: Callable[[Schema], object]
    """Raises ``ShapeError`` if the task does not suit a schema of another shape."""

    def conflicts_with(self, notes: Mapping[str, Any]) -> bool:
        """Return whether a commit with these notes may have written the same elements.

        Two appends do not conflict: their rule for duplicates combines them.
        """
        both_append = self.operation == notes.get("operation") == "append"
        return not both_append and "claim" in notes and self.write_set.overlaps(WriteSet.from_json(notes["claim"]))


class StoredHandle:
    """Snapshot and commits that the live tensors of one stored tensor share.

    Implements :class:`.Handle`. Reads are thread-safe. Commits of one process to one path take
    turns; those of several processes race by compare-and-swap.
    """

    def __init__(self, log: Log, read_only: bool = False, sizes: Sizes | None = None) -> None:
        self._log = log
        self._snapshot = Snapshot(log)
        self._read_only = read_only
        self._sizes = sizes or Sizes()
        self._path_lock = _lock_for(get_filesystem(log.path).canonical_path(log.path))
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
        """True if it was opened at a version."""
        return self._read_only

    def _check_not_replaced(self) -> None:
        """Raise ``ConflictError`` if the folder contains another table by now."""
        if self._log.is_replaced():
            raise self._replaced_error()

    def _replaced_error(self) -> ConflictError:
        return ConflictError(
            f"the tensor at {self.path!r} was removed, or another one was saved over it, since it was opened: "
            "open it again with sp.open()"
        )

    @contextmanager
    def _damage_by_replacement(self) -> Iterator[None]:
        """Raise ``ConflictError`` for damage if another tensor was saved over this one.

        A log that is read in part before and in part after looks damaged.
        """
        try:
            yield
        except (CorruptionError, NotFoundError):
            self._check_not_replaced()
            raise

    def refresh(self) -> Snapshot:
        """Load commits of other processes.

        Raises
        ------
        ConflictError
            If another tensor was saved over this one.
        """
        if not self._read_only:
            with self._path_lock.lock:
                self._check_not_replaced()
                with self._damage_by_replacement():
                    self._log.reload()
                    if self._log.version != self._snapshot.version:
                        latest = Snapshot(self._log, self._snapshot)
                        if latest.identity != self._snapshot.identity:
                            self._log = Log.open(self.path, self._snapshot.version)
                            raise self._replaced_error()
                        self._snapshot = latest
                    else:
                        self._snapshot.invalidate_orders()
        return self._snapshot

    def commit(self, edit: Edit) -> Snapshot:
        """Apply an edit to the current version, atomically, and return the new one.

        Only files whose keys the edit meets are read and rewritten. If other processes committed meanwhile to other
        elements, the edit goes on top. An edit that changes nothing makes no version.

        Raises
        ------
        ConflictError
            If another process changed some of the same elements since the current version, or saved another tensor over
            this one.
        DuplicateError
            If ``edit.existing`` is ``"error"`` and an element exists.
        ShapeError
            If a coordinate is out of range.
        ReadOnlyError
            If the handle was opened at a version.
        StorageError
            If files or log cannot be written. The message says whether something was changed.
        """
        self._check_writable("write")
        with self._path_lock.lock:
            edit = prepare(edit, self._snapshot.schema)
            if not edit.clear and edit.upsert is None and edit.shape is None:
                return self._snapshot

            def check(schema: Schema) -> None:
                if edit.shape is not None:
                    raise ShapeError("two changes of the shape")
                prepare(edit, schema)

            task = CommitTask(
                edit.operation, WriteSet.from_edit(edit), lambda found: plan_edit(found, edit, self._sizes), check
            )
            return self._commit(task)

    def append(self, edits: Callable[[], Iterable[Edit]], box: Box) -> Snapshot:
        """Append the elements of several edits in one commit.

        Only one is in memory at a time.

        Parameters
        ----------
        edits
            Begins the edits; called again if the commit is repeated. Their elements are in ascending order of their
            keys, within and across edits, and none equals the fill value. None of them clears or changes the shape.
        box
            Elements that they may write.

        Raises
        ------
        ConflictError, DuplicateError, ShapeError, ReadOnlyError, StorageError
            As :meth:`commit`.
        """
        self._check_writable("write")
        with self._path_lock.lock:

            def plan(snapshot: Snapshot) -> CommitPlan:
                wanted = (prepare(edit, snapshot.schema) for edit in edits())
                return plan_appends(snapshot, (edit for edit in wanted if edit.upsert is not None), self._sizes)

            def check(schema: Schema) -> None:
                if any(len(r) and r[-1] >= n for r, n in zip(box.ranges, schema.shape, strict=True)):
                    raise ShapeError("cells outside the shape")

            return self._commit(CommitTask("append", WriteSet((), (box,)), plan, check))

    def grow(self, growth: Callable[[Relation], Growth], operation: str = "append") -> Snapshot:
        """Append elements with labels that are new to their dimensions, in one commit.

        Parameters
        ----------
        growth
            Returns what is appended on top of a version. Called again if another writer was first, so that a label gets
            one coordinate whoever adds it.
        operation
            Operation in the history.

        Raises
        ------
        ConflictError, DuplicateError, ReadOnlyError, StorageError
            As :meth:`commit`.
        """
        self._check_writable("write")
        with self._path_lock.lock:
            return self._commit(
                CommitTask(
                    operation,
                    WriteSet(),
                    lambda found: plan_growth(found, growth(found), self._sizes),
                    lambda schema: None,
                )
            )

    def restore(self, version: int) -> Snapshot:
        """Commit a version with the elements and shape of an old one; no data is written.

        Raises
        ------
        NotFoundError
            If there is no such version, or its files were vacuumed away.
        UnsupportedError
            If that was another tensor, over which this one was saved.
        ConflictError
            If another process wrote since the current version.
        ReadOnlyError
            If the handle was opened at a version.
        """
        self._check_writable("restore")
        if isinstance(version, bool):
            raise UnsupportedError(f"version must be an integer, got {version!r}")
        with self._path_lock.lock:
            self._check_not_replaced()
            with self._damage_by_replacement():
                old = Snapshot(Log.open(self.path, as_integer(version, "version")))
            if old.identity != self._snapshot.identity:
                raise UnsupportedError(
                    f"version {version} of {self.path!r} is another tensor, which this one was saved over: "
                    f"sp.open({self.path!r}, version={version}).save(..., overwrite=True) brings it back"
                )
            shape = tuple(map(max, old.schema.shape, self._snapshot.schema.shape))

            def check(schema: Schema) -> None:
                raise ShapeError("a restore sets the shape")

            write_set = WriteSet((), (Box.from_shape(shape),))
            return self._commit(CommitTask("restore", write_set, lambda found: plan_restore(found, old), check))

    def compact(self, profile: str | None = None, write_order: WriteOrder | None = None) -> Snapshot:
        """Merge small adjacent files in one commit, and rebuild derived orders.

        Elements do not change, so commits of others never conflict with it.

        Parameters
        ----------
        profile
            ``"fast"``, ``"small"`` or ``"portable"``, for all files and later ones; unchanged by default.
        write_order
            Writes the files of a derived order in other processes.

        Raises
        ------
        InvalidValueError
            If there is no such profile.
        ReadOnlyError
            If the handle was opened at a version.
        """
        self._check_writable("compact")
        wanted = None if profile is None else check_profile(profile)
        with self._path_lock.lock:
            self._check_not_replaced()
            self._snapshot.invalidate_orders()
            orders = self._snapshot.orders[1:]
            task = CommitTask(
                "compact",
                WriteSet(),
                lambda found: plan_compaction(found, wanted or found.metadata.profile, self._sizes),
                lambda schema: None,
            )
            snapshot = self._commit(task)
            for order in orders:
                try:
                    build_order(snapshot, order, self._sizes, write_order)
                except StorageError as error:
                    raise StorageError(
                        f"version {snapshot.version} of {self.path!r} is committed, but its sort order {order} is not "
                        f"built: {str(error).removesuffix(UNCHANGED)}; see add_order()"
                    ) from error
            snapshot.invalidate_orders()
            return snapshot

    def _check_writable(self, what: str) -> None:
        if self._read_only:
            raise ReadOnlyError(
                f"{self.path!r} was opened at version {self._snapshot.version}, which is read-only: "
                f"open it without version= to {what}"
            )

    def _commit(self, task: CommitTask) -> Snapshot:
        """Plan and commit a task; retry until it succeeds or conflicts."""
        log, snapshot, nonce = self._log, self._snapshot, os.urandom(8).hex()
        limits = tuning()
        plan: CommitPlan | None = None
        try:
            with UnchangedClaim(), self._damage_by_replacement():
                for attempt in range(limits.commit_attempts):
                    self._check_not_replaced()
                    if attempt or log.version != snapshot.version or get_filesystem(self.path).exists(log.next_commit):
                        log = Log.open(self.path)
                        latest = Snapshot(log, snapshot)
                        if latest.identity != snapshot.identity:
                            raise self._replaced_error()
                        self._check_conflicts(latest, task)
                        if plan is not None and not plan.fits(snapshot, latest):
                            plan.undo(self.path)
                            plan = None
                        snapshot = latest
                    if plan is None:
                        if task.operation != "restore":
                            snapshot.check_own()
                        plan = task.plan(snapshot)
                    if plan.is_empty:
                        break
                    removed = {name for name, _ in plan.removed}
                    active = snapshot.active
                    rows = int(active.rows.sum()) + sum(file.rows for file in plan.added)
                    rows -= sum(
                        n for name, n in zip(active.paths, active.rows.tolist(), strict=True) if name in removed
                    )
                    notes = {
                        "operation": task.operation,
                        "nonce": nonce,
                        "nnz": rows,
                        "shape": list(plan.shape or snapshot.schema.shape),
                        "claim": (plan.write_set or task.write_set).to_json(),
                    }
                    if plan.labels is not None:
                        notes["labels"] = sorted(
                            {*snapshot.label_files(strict=False), *plan.labels.values(), *plan.label_parts}
                        )
                    try:
                        with get_filesystem(self.path).keep_folder(self.path):
                            self._check_not_replaced()  # again: writing the files may have taken long
                            log.commit(plan.added, plan.removed, notes, plan.shape, plan.schema, plan.labels)
                            with DoneClaim(f"version {log.version} of {self.path!r} is committed"):
                                snapshot = Snapshot(log, snapshot)
                    except LostRace:
                        time.sleep(random.uniform(0, _backoff_seconds(attempt)))
                        continue
                    break
                else:
                    raise ConflictError(
                        f"lost {limits.commit_attempts} races to commit to {self.path!r}: try again when it is quieter"
                    )
        except BaseException:
            if plan is not None and log.has_landed(snapshot.version, nonce):
                with suppress(StorageError):
                    self._log, self._snapshot = log, Snapshot(log, snapshot)
            elif plan is not None:
                plan.undo(self.path)
            raise
        self._log, self._snapshot = log, snapshot
        return snapshot

    def _check_conflicts(self, latest: Snapshot, task: CommitTask) -> None:
        """Raise ``ConflictError`` if a later commit conflicts with a task."""
        base = self._snapshot
        way_out = "call refresh(), read again and repeat the write"
        for commit in self._log.commits(base.version + 1):
            if commit.notes is None:
                raise ConflictError(f"another tool committed version {commit.version} of {self.path!r}: {way_out}")
            if task.conflicts_with(commit.notes):
                raise ConflictError(
                    f"version {commit.version} of {self.path!r} ({commit.notes['operation']}), by another writer, "
                    f"changed elements of this write: {way_out}"
                )
        if latest.schema.shape != base.schema.shape:
            try:
                task.check(latest.schema)
            except ShapeError:
                raise ConflictError(
                    f"another writer changed the shape of {self.path!r} from {base.schema.shape} "
                    f"to {latest.schema.shape}: {way_out}"
                ) from None

    def history(self) -> list[dict[str, Any]]:
        """Return the commits, newest first.

        Returns
        -------
        list of dict
            With ``version``, ``timestamp`` (UTC), ``operation``, ``nonce``, ``nnz`` and ``shape`` after the commit,
            ``files_added`` and ``files_removed``; and the ``report`` of an ingest. A version whose entry is missing
            between others has the operation ``"missing from the log"``, and None for the rest.

        Raises
        ------
        ConflictError
            If another tensor was saved over this one.
        """
        self._check_not_replaced()
        out: list[dict[str, Any]] = []
        first = min(entry_versions(self.path), default=0)
        versions = range(first, self._snapshot.version + 1)
        for version, commit in zip(versions, read_commits(self.path, versions), strict=True):
            if commit is None:
                blank = dict.fromkeys(
                    ("timestamp", "operation", "nonce", "nnz", "shape", "files_added", "files_removed")
                )
                out.append({"version": version, **blank, "operation": "missing from the log"})
                continue
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
                    **({"report": notes["report"]} if "report" in notes else {}),
                }
            )
        return out[::-1]

    def add_order(self, order: Sequence[int], write_order: WriteOrder | None = None) -> None:
        """Build or rebuild a derived sort order, within the memory limit.

        Parameters
        ----------
        order
            Permutation of the dimensions.
        write_order
            Writes its files in other processes.

        Raises
        ------
        ShapeError
            If ``order`` is not a permutation of the dimensions.
        """
        if self._read_only:
            raise ReadOnlyError(f"{self.path!r} was opened at a version: open it without version= to add an order")
        with self._path_lock.lock:
            self._check_not_replaced()
            self._snapshot.invalidate_orders()
            with UnchangedClaim():
                build_order(self._snapshot, order, self._sizes, write_order)
            self._snapshot.invalidate_orders()

    def vacuum(self, older_than: str | timedelta = "7 days", dry_run: bool = False) -> list[str]:
        """Delete files that no version newer than the horizon uses.

        See :func:`sparrow.storage.vacuum.vacuum`.
        """
        if self._read_only:
            raise ReadOnlyError(f"{self.path!r} was opened at a version: open it without version= to vacuum")
        with self._path_lock.lock:
            return vacuum(self.path, older_than, dry_run)

    def verify(self) -> list[Finding]:
        """Verify every file of the current version.

        See :func:`sparrow.storage.verify.verify`.
        """
        return verify(self._snapshot)

    def files(self, order: Sequence[int] | None = None) -> list[FileRecord]:
        """Return the data files of a sort order."""
        return self._snapshot.files(order)


def _backoff_seconds(attempt: int) -> float:
    """Return the longest wait after a lost race."""
    limits = tuning()
    return min(limits.backoff_max_seconds, limits.backoff_initial_seconds * 2.0**attempt)


def open(  # noqa: A001
    path: str | os.PathLike[str],
    version: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    sizes: Sizes | None = None,
) -> StoredHandle:
    """Open the latest version of a stored tensor, or an older one for reading.

    Parameters
    ----------
    path
        The folder.
    version
        A version; the handle is then read-only.
    storage_options
        Options of an object store; they hold for the tensor in this process and are stored nowhere.
    sizes
        Target sizes of the files of later commits.

    Raises
    ------
    NotFoundError
        If there is no tensor, or no such version.
    UnsupportedError
        If there are options and the path is not a URL, or it is a URL that cannot hold tensors.
    """
    final = absolute_path(path)
    with use_storage_options(final, storage_options):
        get_filesystem(final).recover(final)
        try:
            return read_stable(final, lambda: StoredHandle(Log.open(final, version), version is not None, sizes))
        except NotFoundError:
            if is_bundle(final) and not is_tensor(final):
                names = ", ".join(map(repr, open_bundle(final)))
                raise NotFoundError(f"{final!r} is a bundle, not a tensor: open one of its members {names}") from None
            raise


def reopen(path: str, version: int) -> StoredHandle:
    """Open a pickled handle read-only.

    In a forked process, where logs cannot be opened, return the inherited one.

    Raises
    ------
    StorageError
        If it cannot be opened.
    """
    for handle in list(_handles) if is_forked() else ():
        if (handle.path, handle.current.version) == (path, version):
            inherited = object.__new__(StoredHandle)  # copy.copy() would open it
            vars(inherited).update(vars(handle), _read_only=True)
            return inherited
    return open(path, version)


def iter_commits(path: str | os.PathLike[str]) -> Iterator[Commit]:
    """Yield the commits of a tensor, newest first, each read on demand.

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
    report: Mapping[str, int] | None = None,
    sizes: Sizes | None = None,
    storage_options: Mapping[str, str] | None = None,
    write_files: Callable[[str], Sequence[DataFile] | None] | None = None,
    write_order: WriteOrder | None = None,
) -> StoredHandle:
    """Store a tensor; it becomes visible in one step, or not at all.

    Parameters
    ----------
    path
        The folder to create.
    schema
        Shape, dimension names, dtype and fill value.
    blocks
        Stored elements, canonical over all blocks together.
    profile
        ``"fast"``, ``"small"`` or ``"portable"``.
    overwrite
        Replace an existing tensor or bundle.
    labels
        Labels by dimension number.
    orders
        Derived sort orders to build.
    operation, extra
        Operation in the history, and JSON values kept with the tensor.
    report
        Counts of an ingest, for the history.
    sizes
        Target sizes of files and row groups.
    storage_options
        Options of an object store.
    write_files
        Writes the blocks to data files of a folder in other processes; None where this process should.
    write_order
        Writes the files of a derived order in the same way.

    Raises
    ------
    ExistsError
        If something exists at ``path``.
    StorageError
        If the disk is full.
    """
    with stage_folder(path, overwrite, storage_options) as folder:
        files = None if write_files is None else write_files(os.fspath(folder))
        if files is None:
            with TensorWriter(
                folder, schema.dims, schema.dtype, profile=profile, coordinate_dtypes=schema.coordinate_dtypes,
                sizes=sizes,
            ) as writer:  # fmt: skip
                for block in blocks:
                    writer.write(block)
                files = writer.finish()
        create(folder, schema, files, labels=labels, profile=profile, operation=operation, extra=extra, report=report)
        for order in orders:
            build_order(Snapshot(Log.open(os.fspath(folder))), order, sizes or Sizes(), write_order)
    with DoneClaim(f"{os.fspath(path)!r} is complete"):
        return open(path, sizes=sizes)
