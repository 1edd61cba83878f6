"""Delta log of a folder; the only module that uses ``deltalake``.

A commit is a compare-and-swap: it becomes the version after the loaded one, or raises :class:`LostRace`. Retrying is up
to the caller.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.errors import CorruptionError, ExistsError, NotFoundError, SparrowError, StorageError, UnsupportedError
from sparrow.relations.arrow import as_numpy
from sparrow.runtime.events import emit
from sparrow.runtime.foreign_errors import find_errno, summarize
from sparrow.storage.delta.checksums import CHECKSUM_KEY, PARENT_STATE_KEY, STATE_KEY, commit_checksum, version_checksum
from sparrow.storage.delta.history import (
    LOG,
    NOTES,
    Commit,
    check_nesting,
    damage_candidates,
    entry_versions,
    last_checkpoint,
    log_entry,
    missing_entries,
    missing_entry_error,
    read_commit,
    read_commits,
    recorded_state,
    table_id,
)
from sparrow.storage.delta.labels import label_file_number
from sparrow.storage.fs.failures import DoneClaim, durability_error, read_error, repeat_cut, write_error
from sparrow.storage.fs.filesystem import get_filesystem
from sparrow.storage.parquet.layout import METADATA_KEY, Metadata
from sparrow.storage.parquet.reader import DATA_FILE
from sparrow.storage.parquet.writer import DataFile
from sparrow.storage.tuning import tuning

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable
    from deltalake.transaction import AddAction

__all__ = ["ActiveFiles", "Log", "LostRace", "is_forked", "read_stable"]

_SHAPE_TRANSACTION = "sparrow.shape."
_LABELS_TRANSACTION = "sparrow.labels."
"""Names of transactions in the log, followed by a dimension number; part of the format on disk."""
_CHECKPOINT_INTERVAL = 20
"""Commits between two checkpoints, written into the log."""
_INDEXED_COLUMNS = "delta.dataSkippingNumIndexedCols"


class LostRace(Exception):
    """Another commit took the version; never leaves the storage layer."""


@dataclass(frozen=True, slots=True, eq=False)
class ActiveFiles:
    """Files of a version, in the order of the log; arrays have one row for each file."""

    paths: list[str]
    nbytes: NDArray[np.int64]
    rows: NDArray[np.int64]
    low: NDArray[np.int64]
    """Smallest coordinates, shape (files, dimensions)."""
    high: NDArray[np.int64]

    @classmethod
    def from_data_files(cls, files: Sequence[DataFile], ndim: int) -> ActiveFiles:
        """Return files that were written."""
        return cls(
            [file.name for file in files],
            np.array([file.nbytes for file in files], np.int64),
            np.array([file.rows for file in files], np.int64),
            np.array([file.low for file in files], np.int64).reshape(len(files), ndim),
            np.array([file.high for file in files], np.int64).reshape(len(files), ndim),
        )

    def without(self, paths: Container[str]) -> ActiveFiles:
        """Return all files but some."""
        return self.select([at for at, path in enumerate(self.paths) if path not in paths])

    def select(self, places: Sequence[int]) -> ActiveFiles:
        """Return some of the files."""
        kept = list(places)
        return ActiveFiles(
            [self.paths[at] for at in kept], self.nbytes[kept], self.rows[kept], self.low[kept], self.high[kept]
        )

    def concat(self, other: ActiveFiles) -> ActiveFiles:
        """Return these files and others."""
        pairs = ((self.nbytes, other.nbytes), (self.rows, other.rows), (self.low, other.low), (self.high, other.high))
        return ActiveFiles(self.paths + other.paths, *map(np.concatenate, pairs))


class Log:
    """One version of the log of a folder, and commits on top of it."""

    def __init__(self, path: str, table: DeltaTable) -> None:
        self.path = path
        self._table = table
        self._active: ActiveFiles | None = None
        self._shape: tuple[int, ...] | None = None
        self._labels: tuple[int, ...] | None = None

    @classmethod
    def open(cls, path: str, version: int | None = None) -> Log:
        """Open the latest version, or a given one.

        Raises
        ------
        NotFoundError
            If there is no such table or version.
        CorruptionError
            If the log cannot be read.
        """
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        if not get_filesystem(path).is_folder(os.path.join(path, LOG)):
            something = get_filesystem(path).exists(path) or get_filesystem(path).is_folder(path)
            hint = "nothing is there" if not something else "it is something else; sp.ingest reads files into tensors"
            raise NotFoundError(f"no tensor at {path!r}: {hint}")
        if get_filesystem(path).is_link(os.path.join(path, LOG)):
            raise CorruptionError(f"{os.path.join(path, LOG)!r} is a link, which may lead anywhere and is not followed")
        _check_not_forked()
        check_nesting(path, version)
        try:
            with _reading_log(path, version):
                if version is not None and version < 0:
                    raise ValueError(f"no version {version}")
                if version is not None and version > tuning().direct_open_versions and version > cls.open(path).version:
                    raise ValueError(f"no version {version}")
                options = get_filesystem(path).delta_options()
                return cls(path, repeat_cut(lambda: DeltaTable(path, version=version, storage_options=options)))
        except TableNotFoundError:
            raise NotFoundError(f"no tensor at {path!r}: its log is empty") from None
        except CorruptionError:
            if version is not None:
                latest = cls.open(path).version
                if not 0 <= version <= latest:
                    raise NotFoundError(
                        f"{path!r} has no version {version}: versions go from 0 to {latest}, see history()"
                    ) from None
            raise

    @classmethod
    def create(cls, path: str, schema: pa.Schema, files: Sequence[DataFile], notes: Mapping[str, Any]) -> None:
        """Commit version 0 of a folder: its schema, and files that exist already.

        Raises
        ------
        ExistsError
            If the folder has a log.
        """
        from deltalake import Schema
        from deltalake.exceptions import DeltaError
        from deltalake.transaction import create_table_with_add_actions

        _check_not_forked()
        configuration = {
            _INDEXED_COLUMNS: "-1",  # all: a tensor of more dimensions may replace this one
            "delta.enableExpiredLogCleanup": "false",
            "delta.checkpointInterval": str(_CHECKPOINT_INTERVAL),
        }
        adds = _add_actions(files, schema)
        columns = Schema.from_arrow(schema)
        active = ActiveFiles.from_data_files(files, schema.get_field_index("value"))
        notes = _with_checksums(notes, active, schema, adds, (), {}, columns.to_json())

        def write() -> None:
            try:
                create_table_with_add_actions(
                    path,
                    columns,
                    adds,
                    mode="error",
                    configuration=configuration,
                    storage_options=get_filesystem(path).delta_options(),
                    commit_properties=_properties(notes, {}),
                )
            except (DeltaError, OSError):
                found = read_commit(path, 0)
                if found is not None and (found.notes or {}).get("nonce") != notes["nonce"]:
                    raise ExistsError(f"{path!r} is a tensor already") from None
                if found is None:
                    raise

        try:
            repeat_cut(write)
        except StorageError:
            raise
        except (DeltaError, OSError) as error:
            raise write_error(error, path) from error
        get_filesystem(path).make_durable(log_entry(path, 0))

    @property
    def version(self) -> int:
        """The loaded version."""
        return self._table.version()

    @property
    def next_commit(self) -> str:
        """The entry of the next version, whether it exists or not."""
        return log_entry(self.path, self.version + 1)

    @property
    def identity(self) -> str:
        """Id of the table, new for each table created."""
        return str(self._table.metadata().id)

    def is_replaced(self) -> bool:
        """Return whether the folder now contains another table, or none."""
        found = table_id(self.path)
        if found is None:
            return not get_filesystem(self.path).is_folder(os.path.join(self.path, LOG))
        return found != self.identity

    def has_bounds(self, ndim: int) -> bool:
        """Return whether the log stores bounds of that many dimensions.

        Older versions of sparrow stored fewer.
        """
        most = int(self._table.metadata().configuration.get(_INDEXED_COLUMNS, "32"))
        return most < 0 or ndim <= most

    def schema(self) -> pa.Schema:
        """Return the schema of the files."""
        return pa.schema(self._table.schema().to_arrow())

    def read_metadata(self) -> Metadata:
        """Return the decoded metadata.

        Raises
        ------
        NotFoundError
            If there is none: the table is not sparrow's.
        CorruptionError
            If the metadata is damaged, or missing although sparrow wrote the version.
        """
        try:
            return Metadata.from_json(self.metadata(), repr(self.path))
        except CorruptionError as error:
            problem = str(error)
        except NotFoundError:
            if recorded_state(self.path, self.version) is None:
                raise
            problem = f"the log of {self.path!r} lacks the metadata of the tensor"
        raise CorruptionError(
            f"{problem}; damaged is {damage_candidates(self.path, self.version)}: restore the file, or open an "
            "earlier version"
        )

    def metadata(self) -> str:
        """Return the metadata on the field ``value``.

        Raises
        ------
        NotFoundError
            If there is none: the table is not sparrow's.
        """
        for field in self._table.schema().fields:
            if field.name == "value" and METADATA_KEY in field.metadata:
                return str(field.metadata[METADATA_KEY])
        raise NotFoundError(
            f"{self.path!r} is a Delta table that sparrow did not write: name the columns that make a tensor, "
            f"sp.open({self.path!r}, coords=[...], value=...)"
        )

    def shape(self, created: Sequence[int]) -> tuple[int, ...]:
        """Return the shape: as created, or as later commits changed it."""
        if self._shape is None:
            self._shape = self._transactions(_SHAPE_TRANSACTION, len(created))
        return self._shape + tuple(created[len(self._shape) :])

    def labels(self, ndim: int) -> tuple[int, ...]:
        """Return the number of the label file of each dimension, 0 for none.

        Empty if labels are as created.
        """
        if self._labels is None:
            self._labels = self._transactions(_LABELS_TRANSACTION, ndim)
        return self._labels

    def _transactions(self, name: str, ndim: int) -> tuple[int, ...]:
        """Return the numbers that commits set for the dimensions, empty if none did."""
        out: list[int] = []
        for dim in range(ndim):
            with _reading_log(self.path, self.version):
                new = repeat_cut(partial(self._table.transaction_version, f"{name}{dim}"))
            if new is None:  # a commit sets all dimensions or none
                break
            out.append(int(new))
        return tuple(out)

    def active(self, dims: Sequence[str]) -> ActiveFiles:
        """Return the files of the version.

        Raises
        ------
        CorruptionError
            If the log cannot be read, lacks the bounds of a file, or names one outside the folder.
        """
        if self._active is None:
            self._active = self._files(dims)
        return self._active

    def _add_table(self) -> pa.Table:
        with _reading_log(self.path, self.version):
            # Not pa.table(), which imports pandas.
            read = self._table.get_add_actions
            return repeat_cut(lambda: pa.RecordBatchReader.from_stream(read(flatten=False)).read_all())

    def sizes(self) -> dict[str, int]:
        """Return the files of the version with their sizes.

        Those of other tools may be in subfolders.

        Raises
        ------
        CorruptionError
            If the log cannot be read, or names a file outside the folder.
        """
        table = self._add_table()
        sizes = dict(zip(map(unquote, table["path"].to_pylist()), table["size_bytes"].to_pylist(), strict=True))
        for path in sizes:
            if "://" in path or {"", ".", ".."}.intersection(path.replace("\\", "/").split("/")):
                raise self._outside(path)
        return sizes

    def _outside(self, path: str) -> CorruptionError:
        return self._foreign(f"names the file {path!r}, which is not in its folder")

    def _foreign(self, problem: str) -> CorruptionError:
        return CorruptionError(
            f"the log of {self.path!r} {problem}: another tool wrote to it, "
            f"or damaged is {damage_candidates(self.path, self.version)}"
        )

    def _files(self, dims: Sequence[str]) -> ActiveFiles:
        table = self._add_table()
        count = table.num_rows
        low, high = np.zeros((count, len(dims)), np.int64), np.zeros((count, len(dims)), np.int64)
        paths = table["path"].to_pylist()
        own = np.array([DATA_FILE.fullmatch(path) is not None for path in paths], bool)

        def numbers(column: pa.ChunkedArray) -> NDArray[np.int64]:
            """Return a column; -1 for what other tools leave out, which no scan accepts."""
            if not column.null_count:
                return as_numpy(column.cast(pa.int64()))
            array = column.combine_chunks()
            if (as_numpy(array.is_null()) & own).any():
                raise ValueError(f"{array.null_count} of {count} values are missing")
            return as_numpy(array.cast(pa.int64()).fill_null(-1))

        try:
            rows, sizes = numbers(table["num_records"]), numbers(table["size_bytes"])
            for name, bounds in (("min", low), ("max", high)):
                if dims and (own.any() or name in table.column_names):
                    columns = table[name].combine_chunks()
                    for dim, label in enumerate(dims):
                        bounds[:, dim] = numbers(pa.chunked_array([columns.field(label)]))
                elif dims:
                    bounds[:] = -1
        except (KeyError, ValueError, TypeError, pa.ArrowException) as error:
            raise self._foreign(f"lacks the bounds of a file ({error})") from None
        outside = next((path for path in paths if "/" in path or "\\" in path or path in {"", ".", ".."}), None)
        if outside is not None:
            raise self._outside(outside)
        return ActiveFiles(paths, sizes, rows, low, high)

    def check(self, shape: Sequence[int]) -> None:
        """Verify the state of the version.

        Raises
        ------
        CorruptionError
            If an entry of the log, or its checkpoint, was changed.
        """
        recorded = recorded_state(self.path, self.version)
        if recorded is None:
            return
        columns = self.schema()
        files = self.active(columns.names[: columns.get_field_index("value")])
        if recorded != _checksum_of(files, columns, self.metadata(), (*shape, *self.labels(len(shape)))):
            self._diagnose()

    @contextmanager
    def locate_damage(self) -> Iterator[None]:
        """Raise the error of a damaged entry in place of one met in the block."""
        try:
            yield
        except SparrowError:
            for _ in self.iter_commits_backward(self.version):
                pass
            raise

    def _diagnose(self) -> NoReturn:
        """Raise an error that names the damaged entry, or else the log."""
        later: Commit | None = None
        for commit in self.iter_commits_backward(self.version):
            parent = None if later is None or later.notes is None else later.notes.get(PARENT_STATE_KEY)
            if parent is not None and commit.notes is not None and commit.notes.get(STATE_KEY, parent) != parent:
                raise CorruptionError(
                    f"the entry {log_entry(self.path, commit.version)!r} of the log belongs to another tensor"
                )
            later = commit
        raise CorruptionError(
            f"the log in {os.path.join(self.path, LOG)!r} does not match the checksum of version {self.version}: "
            f"damaged is {damage_candidates(self.path, self.version)}; restore the file, or open an earlier version"
        )

    def reload(self) -> None:
        """Load the commits of other processes."""
        _check_not_forked()
        self._active = self._shape = self._labels = None
        check_nesting(self.path, first=self.version + 1)
        with _reading_log(self.path):
            repeat_cut(self._table.update_incremental)

    def commit(
        self,
        added: Sequence[DataFile],
        removed: Sequence[tuple[str, int]],
        notes: Mapping[str, Any],
        shape: Sequence[int] | None = None,
        schema: pa.Schema | None = None,
        labels: Mapping[int, str] | None = None,
    ) -> None:
        """Commit the version after the loaded one, and load it.

        Parameters
        ----------
        added, removed
            New files, and (path, bytes) of removed files.
        notes
            Notes for the history; contain a ``nonce``.
        shape
            New shape, if it changes.
        schema
            New schema of the files, or new metadata: ``added`` then replaces all files.
        labels
            Label files by dimension, if they change.

        Raises
        ------
        LostRace
            If the version was taken; nothing was committed.
        StorageError
            If the log cannot be written; nothing was committed.
        """
        from deltalake import Schema
        from deltalake.exceptions import CommitFailedError, DeltaError
        from deltalake.transaction import RemoveAction

        _check_not_forked()
        before = self.version
        now = int(time.time() * 1000)
        stored = self.schema() if schema is None else schema
        adds = _add_actions(added, stored)
        transactions = {} if shape is None else {f"{_SHAPE_TRANSACTION}{dim}": int(n) for dim, n in enumerate(shape)}
        ndim = stored.get_field_index("value")
        numbers = self.labels(ndim) if labels is None else ()
        if labels is not None:
            numbers = tuple(label_file_number(labels[dim]) if dim in labels else 0 for dim in range(ndim))
            transactions |= {f"{_LABELS_TRANSACTION}{dim}": n for dim, n in enumerate(numbers)}
        old = stored if schema is None else self.schema()
        files = self.active(old.names[: old.get_field_index("value")])
        removed_paths = {path for path, _ in removed} if schema is None else set(files.paths)
        columns = None if schema is None else Schema.from_arrow(schema)
        after = (
            files.without(removed_paths).concat(ActiveFiles.from_data_files(added, ndim))
            if schema is None
            else ActiveFiles.from_data_files(added, ndim)
        )
        text = None if columns is None else columns.to_json()
        if text == self._table.schema().to_json():
            text = None  # deltalake writes columns only if they change
        parent = recorded_state(self.path, before)
        notes = {**notes, **({} if parent is None else {PARENT_STATE_KEY: parent})}
        notes = _with_checksums(
            notes, after, stored, adds, sorted(removed_paths), transactions, text, self.metadata(), before + 1, numbers
        )
        emit("storage.commit", path=self.path, version=before + 1)
        actions: list[Any] = list(adds)
        if schema is None:
            actions += [RemoveAction(path, True, now, size=nbytes) for path, nbytes in removed]

        def write() -> None:
            try:
                self._table.create_write_transaction(
                    actions,
                    mode="append" if schema is None else "overwrite",
                    schema=self._table.schema() if columns is None else columns,
                    commit_properties=_properties(notes, transactions),
                )
            except (DeltaError, OSError):
                if not self.has_landed(before, str(notes["nonce"])):
                    raise

        try:
            repeat_cut(write)
        except StorageError:
            raise
        except (DeltaError, OSError) as error:
            if isinstance(error, CommitFailedError) and find_errno(error) is None:
                if removed and self._table.metadata().configuration.get("delta.appendOnly", "").lower() == "true":
                    raise UnsupportedError(
                        f"{self.path!r} must not have the table property delta.appendOnly=true, which forbids to "
                        "replace files: unset it with "
                        "DeltaTable(path).alter.set_table_properties({'delta.appendOnly': 'false'})"
                    ) from error
                raise LostRace from error
            raise write_error(error, self.path) from error
        committed = f"version {before + 1} of {self.path!r} is committed"
        with DoneClaim(committed):
            self.reload()
        try:
            get_filesystem(self.path).make_durable(log_entry(self.path, before + 1))
        except StorageError as error:
            raise durability_error(committed, error) from error

    def has_landed(self, before: int, nonce: str) -> bool:
        """Return whether a commit with this nonce follows version ``before``.

        Raises
        ------
        StorageError
            If the log cannot be read.
        """
        try:
            return any(c.notes is not None and c.notes.get("nonce") == nonce for c in self.commits(before + 1))
        except StorageError as error:
            if self.is_replaced():  # and all versions with it
                return False
            raise StorageError(f"version {before + 1} of {self.path!r} may be committed or not: {error}") from error

    def commits(self, start: int = 0) -> list[Commit]:
        """Return the commits from version ``start`` to the newest, oldest first.

        Raises
        ------
        CorruptionError
            If an entry is missing, or cannot be read.
        """
        out: list[Commit] = []
        for found in read_commits(self.path, range(start, self.version + 1)):
            if found is None:
                raise missing_entry_error(self.path, start + len(out))
            out.append(found)
        while (found := read_commit(self.path, start + len(out))) is not None:
            out.append(found)
        return out

    def iter_commits_backward(self, version: int) -> Iterator[Commit]:
        """Yield the commits from a version back, newest first, as far as the log goes.

        Raises
        ------
        CorruptionError
            If an entry is missing between others, or cannot be read.
        """
        versions = range(version, -1, -1)
        for at, found in zip(versions, read_commits(self.path, versions), strict=True):
            if found is None:
                if any(earlier < at for earlier in entry_versions(self.path)):
                    raise missing_entry_error(self.path, at)
                return
            yield found


T = TypeVar("T")


def read_stable(path: str, read: Callable[[], T]) -> T:
    """Read a log, again if another tensor is saved over it meanwhile.

    A log that is read in part before and in part after looks damaged.
    """
    files, folder = get_filesystem(path), os.path.join(path, LOG)
    for _ in range(tuning().replaced_attempts):
        before = files.folder_identity(folder)
        try:
            return read()
        except (CorruptionError, NotFoundError):
            files.recover(path)  # which waits for a process that exchanges the folders
            if files.folder_identity(folder) == before:
                raise
    return read()


_first_pid: int | None = None
"""The process in which deltalake started its threads."""


def _check_not_forked() -> None:
    """Raise ``StorageError`` in a forked child of a process that used logs."""
    global _first_pid
    _first_pid = os.getpid() if _first_pid is None else _first_pid
    if is_forked():
        raise StorageError(
            "this process was forked from one that had used stored tensors: it can read those that are open, but open, "
            "refresh or write none. Start it by multiprocessing.get_context('spawn') or 'forkserver' "
            "(joblib's default, loky, does so)"
        )


def is_forked() -> bool:
    """Return whether this process was forked from one that had used logs."""
    return _first_pid is not None and os.getpid() != _first_pid


@contextmanager
def _reading_log(path: str, version: int | None = None) -> Iterator[None]:
    """Raise ``CorruptionError`` naming the entries that deltalake cannot read.

    Of the newest version by default.
    """
    from deltalake.exceptions import TableNotFoundError

    try:
        yield
    except (TableNotFoundError, StorageError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # the PanicException of deltalake is not an Exception
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        if find_errno(error) not in (None, errno.ENOENT):
            raise read_error(error, os.path.join(path, LOG)) from None
        entries = entry_versions(path)
        newest = max(entries, default=0) if version is None else version
        commits = [read_commit(path, each) for each in entries if each <= newest]  # raises for a damaged one
        problem = summarize(error)[:300]
        if "Unsupported" in problem and any(commit is not None and commit.notes is None for commit in commits):
            reason = problem.rpartition("Unsupported: ")[2]
            raise UnsupportedError(
                f"the Delta table {path!r} needs what deltalake does not support: {reason}. Rewrite it "
                "without that, with the tool that wrote it"
            ) from None
        first = last_checkpoint(path, newest) + 1
        for gap in missing_entries(path, newest):
            if gap[-1] >= first and newest <= max(entries, default=-1):
                raise missing_entry_error(path, max(gap[0], first)) from None
        damaged = damage_candidates(path, min(newest, max(entries, default=-1)))
        raise CorruptionError(
            f"the log in {os.path.join(path, LOG)!r} cannot be read, damaged is {damaged}: {problem}"
        ) from None


def _checksum_of(files: ActiveFiles, columns: pa.Schema, metadata: str, shape: Sequence[int]) -> str:
    return version_checksum(files.paths, (files.nbytes, files.rows, files.low, files.high), columns, metadata, shape)


def _with_checksums(
    notes: Mapping[str, Any],
    after: ActiveFiles,
    columns: pa.Schema,
    adds: Sequence[AddAction],
    removed: Sequence[str],
    transactions: Mapping[str, int],
    text: str | None,
    metadata: str = "",
    version: int = 0,
    labels: Sequence[int] = (),
) -> dict[str, Any]:
    """Return the notes of a commit with its checksum and state."""
    if text is not None:
        metadata = columns.field("value").metadata[METADATA_KEY.encode()].decode()
    out = {**notes, "version": version, "time": int(time.time() * 1000)}
    if "shape" in notes:
        out[STATE_KEY] = _checksum_of(after, columns, metadata, (*notes["shape"], *labels))
    out[CHECKSUM_KEY] = commit_checksum(
        out, [(add.path, add.size, add.stats) for add in adds], removed, transactions, text
    )
    return out


def _add_actions(files: Sequence[DataFile], schema: pa.Schema) -> list[AddAction]:
    from deltalake.transaction import AddAction

    dims = schema.names[: schema.get_field_index("value")]
    now = int(time.time() * 1000)
    out = []
    for file in files:
        statistics = {
            "numRecords": file.rows,
            "minValues": dict(zip(dims, file.low, strict=True)),
            "maxValues": dict(zip(dims, file.high, strict=True)),
            "nullCount": dict.fromkeys(dims, 0),
        }
        out.append(AddAction(file.name, file.nbytes, {}, now, True, json.dumps(statistics)))
    return out


def _properties(notes: Mapping[str, Any], transactions: Mapping[str, int]) -> CommitProperties:
    from deltalake import CommitProperties, Transaction

    return CommitProperties(
        custom_metadata={NOTES: json.dumps(notes)},
        max_commit_retries=0,
        app_transactions=[Transaction(name, n) for name, n in transactions.items()],
    )
