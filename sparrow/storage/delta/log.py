"""The Delta log of one folder: the only module that touches ``deltalake``.

Every commit is compare-and-swap: it goes in as the version after the one that was loaded, or not at
all. Retrying is up to the caller, who knows what the lost race means.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.errors import CorruptionError, ExistsError, NotFoundError, SparrowError, StorageError
from sparrow.relations.base import as_numpy
from sparrow.storage.delta.checksums import BEFORE, SEAL, STATE, seal, state
from sparrow.storage.delta.history import (
    LOG,
    NOTES,
    Commit,
    log_entry,
    parsing,
    read_commit,
    read_commits,
    state_noted,
    suspects,
)
from sparrow.storage.delta.labels import label_number
from sparrow.storage.fs.filesystem import get_filesystem
from sparrow.storage.fs.local import DISK_FULL_ERRNOS, write_error
from sparrow.storage.parquet.layout import METADATA_KEY
from sparrow.storage.parquet.writer import DataFile

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable
    from deltalake.transaction import AddAction

__all__ = ["Active", "Log", "LostRace", "forked"]

_SHAPE = "sparrow.shape."
_LABELS = "sparrow.labels."  # on disk: never renamed
_MANY = 10_000
"""Versions up to here are opened without a look at the latest: delta-rs names every commit before one that is not."""
_INDEXED = "delta.dataSkippingNumIndexedCols"


class LostRace(Exception):
    """Another commit took the version; never leaves the storage layer."""


@dataclass(frozen=True, slots=True, eq=False)
class Active:
    """The files of a version, in the order of the log; arrays have one row for each file."""

    paths: list[str]
    nbytes: NDArray[np.int64]
    rows: NDArray[np.int64]
    low: NDArray[np.int64]
    """Smallest coordinates, shape (files, dimensions)."""
    high: NDArray[np.int64]

    @classmethod
    def of(cls, files: Sequence[DataFile], ndim: int) -> Active:
        """Return files that were written."""
        return cls(
            [file.name for file in files],
            np.array([file.nbytes for file in files], np.int64),
            np.array([file.rows for file in files], np.int64),
            np.array([file.low for file in files], np.int64).reshape(len(files), ndim),
            np.array([file.high for file in files], np.int64).reshape(len(files), ndim),
        )

    def without(self, paths: Container[str]) -> Active:
        """Return these files less some."""
        return self.at([at for at, path in enumerate(self.paths) if path not in paths])

    def at(self, places: Sequence[int]) -> Active:
        """Return some of these files."""
        kept = list(places)
        return Active(
            [self.paths[at] for at in kept], self.nbytes[kept], self.rows[kept], self.low[kept], self.high[kept]
        )

    def plus(self, other: Active) -> Active:
        """Return these files and others."""
        pairs = ((self.nbytes, other.nbytes), (self.rows, other.rows), (self.low, other.low), (self.high, other.high))
        return Active(self.paths + other.paths, *map(np.concatenate, pairs))


class Log:
    """One version of a folder's log, and commits on top of it."""

    def __init__(self, path: str, table: DeltaTable) -> None:
        self.path = path
        self._table = table
        self._active: Active | None = None
        self._shape: tuple[int, ...] | None = None
        self._labels: tuple[int, ...] | None = None

    @classmethod
    def open(cls, path: str, version: int | None = None) -> Log:
        """Open the latest version, or the one named.

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
            hint = "nothing is there" if not something else "what is there is no tensor; sp.ingest reads files into one"
            raise NotFoundError(f"no tensor at {path!r}: {hint}")
        if get_filesystem(path).is_link(os.path.join(path, LOG)):
            raise CorruptionError(f"{os.path.join(path, LOG)!r} is a link: it may lead anywhere and is not followed")
        _refuse_fork()
        try:
            with _reading(path, version):
                if version is not None and version < 0:
                    raise ValueError(f"no version {version}")
                if version is not None and version > _MANY and version > cls.open(path).version:
                    raise ValueError(f"no version {version}")
                return cls(
                    path, DeltaTable(path, version=version, storage_options=get_filesystem(path).delta_options())
                )
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
        """Commit version 0 of a folder: its schema and files that are there already.

        Raises
        ------
        ExistsError
            If the folder has a log.
        """
        from deltalake import Schema
        from deltalake.exceptions import DeltaError
        from deltalake.transaction import create_table_with_add_actions

        _refuse_fork()
        configuration = {
            _INDEXED: "-1",  # another tensor, of more dimensions, may take the place of this one
            "delta.enableExpiredLogCleanup": "false",
            "delta.checkpointInterval": "20",
        }
        adds = _adds(files, schema)
        columns = Schema.from_arrow(schema)
        active = Active.of(files, schema.get_field_index("value"))
        notes = _sealed(notes, active, schema, adds, (), {}, columns.to_json())
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
        except (DeltaError, OSError) as error:
            there = read_commit(path, 0)
            if there is not None and (there.notes or {}).get("nonce") != notes["nonce"]:
                raise ExistsError(f"{path!r} is a tensor already") from None
            if there is None:
                if isinstance(error, OSError):
                    raise write_error(error, path) from error
                raise StorageError(f"cannot create the log of {path!r}: {error}") from error
        get_filesystem(path).make_durable(log_entry(path, 0))

    @property
    def version(self) -> int:
        """The version loaded."""
        return self._table.version()

    @property
    def next_commit(self) -> str:
        """The file that the next version's commit has, or will have."""
        return log_entry(self.path, self.version + 1)

    @property
    def identity(self) -> str:
        """The table's own id, new for each table created."""
        return str(self._table.metadata().id)

    def is_replaced(self) -> bool:
        """Return whether another table, or none, stands in the folder by now."""
        try:
            text = get_filesystem(self.path).read(log_entry(self.path, 0))
        except NotFoundError:
            return not get_filesystem(self.path).is_folder(os.path.join(self.path, LOG))
        with parsing(log_entry(self.path, 0)):
            for line in text.splitlines():
                if b'"metaData"' in line and "metaData" in (action := json.loads(line)):
                    return str(action["metaData"]["id"]) != self.identity
        return False

    def has_bounds(self, ndim: int) -> bool:
        """Return whether bounds of so many dimensions are read back from the log: what wrote it may have said less."""
        most = int(self._table.metadata().configuration.get(_INDEXED, "32"))
        return most < 0 or ndim <= most

    def schema(self) -> pa.Schema:
        """Return the schema of the files."""
        return pa.schema(self._table.schema().to_arrow())

    def metadata(self) -> str:
        """Return the text on the field ``value``.

        Raises
        ------
        NotFoundError
            If there is none: the table is not sparrow's.
        """
        for field in self._table.schema().fields:
            if field.name == "value" and METADATA_KEY in field.metadata:
                return str(field.metadata[METADATA_KEY])
        raise NotFoundError(
            f"{self.path!r} is a Delta table that sparrow did not write: say which of its columns make a tensor, "
            f"sp.open({self.path!r}, coords=[...], value=...)"
        )

    def shape(self, created: Sequence[int]) -> tuple[int, ...]:
        """Return the shape: as created, or as later commits changed it."""
        if self._shape is None:
            self._shape = self._numbers(_SHAPE, len(created))
        return self._shape + tuple(created[len(self._shape) :])

    def labels(self, ndim: int) -> tuple[int, ...]:
        """Return the number of the file of labels of each dimension, 0 for none; () where they are as created."""
        if self._labels is None:
            self._labels = self._numbers(_LABELS, ndim)
        return self._labels

    def _numbers(self, name: str, ndim: int) -> tuple[int, ...]:
        """Return the numbers that commits set for the dimensions, () where none did."""
        out: list[int] = []
        for dim in range(ndim):
            with _reading(self.path, self.version):
                new = self._table.transaction_version(f"{name}{dim}")
            if new is None:  # a change sets all dimensions
                break
            out.append(int(new))
        return tuple(out)

    def active(self, dims: Sequence[str]) -> Active:
        """Return the files of the version.

        Raises
        ------
        CorruptionError
            If the log cannot be read, lacks the ranges of a file, or names one outside of the folder.
        """
        if self._active is None:
            self._active = self._files(dims)
        return self._active

    def _added(self) -> pa.Table:
        with _reading(self.path, self.version):
            # pa.table would import pandas, to see whether this is one of its frames.
            return pa.RecordBatchReader.from_stream(self._table.get_add_actions(flatten=False)).read_all()

    def sizes(self) -> dict[str, int]:
        """Return the files of the version and their bytes; those of other tools may lie in folders of the folder.

        Raises
        ------
        CorruptionError
            If the log cannot be read, or names a file outside of the folder.
        """
        table = self._added()
        sizes = dict(zip(map(unquote, table["path"].to_pylist()), table["size_bytes"].to_pylist(), strict=True))
        for path in sizes:
            if "://" in path or {"", ".", ".."}.intersection(path.replace("\\", "/").split("/")):
                raise self._outside(path)
        return sizes

    def _outside(self, path: str) -> CorruptionError:
        return CorruptionError(f"the log of {self.path!r} names the file {path!r}, which is not in its folder")

    def _files(self, dims: Sequence[str]) -> Active:
        table = self._added()
        count = table.num_rows
        low, high = np.zeros((count, len(dims)), np.int64), np.zeros((count, len(dims)), np.int64)
        if count:
            try:
                for name, bounds in (("min", low), ("max", high)):
                    if dims:
                        columns = table[name].combine_chunks()
                        for dim, label in enumerate(dims):
                            bounds[:, dim] = _integers(columns.field(label))
                rows, sizes = _integers(table["num_records"]), _integers(table["size_bytes"])
            except (KeyError, ValueError, TypeError, pa.ArrowException) as error:
                raise CorruptionError(
                    f"the log of {self.path!r} lacks the ranges of some file ({error}): another tool wrote to it"
                ) from None
        else:
            rows = sizes = np.zeros(0, np.int64)
        paths = table["path"].to_pylist()
        outside = next((path for path in paths if "/" in path or "\\" in path or path in {"", ".", ".."}), None)
        if outside is not None:
            raise self._outside(outside)
        return Active(paths, sizes, rows, low, high)

    def check(self, shape: Sequence[int]) -> None:
        """Check that the version is as it was committed.

        Raises
        ------
        CorruptionError
            If an entry of the log, or its checkpoint, was changed since.
        """
        told = state_noted(self.path, self.version)
        if told is None:
            return
        columns = self.schema()
        files = self.active(columns.names[: columns.get_field_index("value")])
        if told != _state(files, columns, self.metadata(), (*shape, *self.labels(len(shape)))):
            self._diagnose()

    @contextmanager
    def locate_damage(self) -> Iterator[None]:
        """Name the entry of the log that is damaged, if one is, where what the log says makes no sense."""
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
            told = None if later is None or later.notes is None else later.notes.get(BEFORE)
            if told is not None and commit.notes is not None and commit.notes.get(STATE, told) != told:
                raise CorruptionError(
                    f"the entry {log_entry(self.path, commit.version)!r} of the log is one of another tensor"
                )
            later = commit
        raise CorruptionError(
            f"the log in {os.path.join(self.path, LOG)!r} does not give version {self.version} as it was committed: "
            f"damaged is {suspects(self.path, self.version)}; restore the file, or open an earlier version"
        )

    def reload(self) -> None:
        """Take in the commits of others."""
        _refuse_fork()
        self._active = self._shape = self._labels = None
        with _reading(self.path):
            self._table.update_incremental()

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
            New files, and (path, bytes) of files that go.
        notes
            What history keeps; holds a ``nonce``.
        shape
            The new shape, if it changes.
        schema
            A new schema of the files or new metadata: ``added`` then replaces all files.
        labels
            The files of labels by dimension, if they change.

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

        _refuse_fork()
        before = self.version
        now = int(time.time() * 1000)
        stored = self.schema() if schema is None else schema
        adds = _adds(added, stored)
        transactions = {} if shape is None else {f"{_SHAPE}{dim}": int(n) for dim, n in enumerate(shape)}
        ndim = stored.get_field_index("value")
        numbers = self.labels(ndim) if labels is None else ()
        if labels is not None:
            numbers = tuple(label_number(labels[dim]) if dim in labels else 0 for dim in range(ndim))
            transactions |= {f"{_LABELS}{dim}": n for dim, n in enumerate(numbers)}
        old = stored if schema is None else self.schema()
        files = self.active(old.names[: old.get_field_index("value")])
        gone = {path for path, _ in removed} if schema is None else set(files.paths)
        columns = None if schema is None else Schema.from_arrow(schema)
        after = files.without(gone).plus(Active.of(added, ndim)) if schema is None else Active.of(added, ndim)
        text = None if columns is None else columns.to_json()
        if text == self._table.schema().to_json():
            text = None  # deltalake writes no columns that stay as they are
        told = state_noted(self.path, before)
        notes = {**notes, **({} if told is None else {BEFORE: told})}
        notes = _sealed(
            notes, after, stored, adds, sorted(gone), transactions, text, self.metadata(), before + 1, numbers
        )
        actions: list[Any] = list(adds)
        if schema is None:
            actions += [RemoveAction(path, True, now, size=nbytes) for path, nbytes in removed]
        try:
            self._table.create_write_transaction(
                actions,
                mode="append" if schema is None else "overwrite",
                schema=self._table.schema() if columns is None else columns,
                commit_properties=_properties(notes, transactions),
            )
        except (DeltaError, OSError) as error:
            if not self.has_landed(before, str(notes["nonce"])):
                if isinstance(error, CommitFailedError):
                    raise LostRace from error
                if isinstance(error, OSError) and error.errno is not None:
                    raise write_error(error, self.path) from error
                raise StorageError(f"cannot write the log of {self.path!r}: {error}") from error
        self.reload()
        try:
            get_filesystem(self.path).make_durable(log_entry(self.path, before + 1))
        except StorageError as error:
            cause = error.__cause__
            full = isinstance(cause, OSError) and cause.errno in DISK_FULL_ERRNOS
            raise StorageError(
                f"version {before + 1} of {self.path!r} is committed, but may not survive a crash of the machine: "
                f"{'the disk is full' if full else cause or error}"
            ) from error

    def has_landed(self, before: int, nonce: str) -> bool:
        """Return whether a commit of ours is among those after version ``before``."""
        return any(c.notes is not None and c.notes.get("nonce") == nonce for c in self.commits(before + 1))

    def commits(self, start: int = 0) -> list[Commit]:
        """Return the commits from version ``start`` on, those beyond the loaded version too, oldest first."""
        out: list[Commit] = []
        for found in read_commits(self.path, range(start, self.version + 1)):
            if found is None:
                return out
            out.append(found)
        while (found := read_commit(self.path, start + len(out))) is not None:
            out.append(found)
        return out

    def iter_commits_backward(self, version: int) -> Iterator[Commit]:
        """Yield the commits from a version back, newest first, as far as the log goes."""
        for found in read_commits(self.path, range(version, -1, -1)):
            if found is None:
                return
            yield found


_began: int | None = None
"""The process in which deltalake began its threads."""


def _refuse_fork() -> None:
    """Refuse to use logs in the child of a process that did: a fork leaves deltalake's threads behind.

    Raises
    ------
    StorageError
        If this is one.
    """
    global _began
    _began = os.getpid() if _began is None else _began
    if forked():
        raise StorageError(
            "this process was forked from one that had used stored tensors: it can read those that are open, but open, "
            "refresh or write none. Start it by multiprocessing.get_context('spawn') or 'forkserver' "
            "(joblib's default, loky, does so)"
        )


def forked() -> bool:
    """Return whether this is the child of a process that had used logs, by a fork: then it cannot."""
    return _began is not None and os.getpid() != _began


@contextmanager
def _reading(path: str, version: int | None = None) -> Iterator[None]:
    """Tell which entry of a log it is that deltalake cannot read, of those of a version, the newest by default."""
    from deltalake.exceptions import TableNotFoundError

    try:
        yield
    except (TableNotFoundError, StorageError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # deltalake panics with an exception of its own
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        last = 0
        while read_commit(path, last) is not None:
            last += 1
        told = next(iter(str(error).splitlines()), type(error).__name__)
        damaged = suspects(path, last - 1 if version is None else min(version, last - 1))
        raise CorruptionError(
            f"the log in {os.path.join(path, LOG)!r} cannot be read, damaged is {damaged}: {told}"
        ) from None


def _integers(column: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
    """Return numbers of files, all of which there must be."""
    if column.null_count:
        raise ValueError(f"{column.null_count} of {len(column)} numbers are missing")
    return as_numpy(column.cast(pa.int64()))


def _state(files: Active, columns: pa.Schema, metadata: str, shape: Sequence[int]) -> str:
    return state(files.paths, (files.nbytes, files.rows, files.low, files.high), columns, metadata, shape)


def _sealed(
    notes: Mapping[str, Any],
    after: Active,
    columns: pa.Schema,
    adds: Sequence[AddAction],
    removed: Sequence[str],
    transactions: Mapping[str, int],
    text: str | None,
    metadata: str = "",
    version: int = 0,
    labels: Sequence[int] = (),
) -> dict[str, Any]:
    """Return the notes of a commit with what tells whether it was changed later."""
    if text is not None:
        metadata = columns.field("value").metadata[METADATA_KEY.encode()].decode()
    out = {**notes, "version": version, "time": int(time.time() * 1000)}
    if "shape" in notes:
        out[STATE] = _state(after, columns, metadata, (*notes["shape"], *labels))
    out[SEAL] = seal(out, [(add.path, add.size, add.stats) for add in adds], removed, transactions, text)
    return out


def _adds(files: Sequence[DataFile], schema: pa.Schema) -> list[AddAction]:
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
