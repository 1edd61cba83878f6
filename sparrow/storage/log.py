"""The Delta log of one folder: the only module that touches ``deltalake``.

Every commit is compare-and-swap: it goes in as the version after the one that was loaded, or not at
all. Retrying is up to the caller, who knows what the lost race means.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.errors import CorruptionError, ExistsError, NotFoundError, StorageError
from sparrow.storage.filesystem import disk_full, of
from sparrow.storage.layout import METADATA_KEY
from sparrow.storage.writer import DataFile

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable
    from deltalake.transaction import AddAction

__all__ = ["Active", "Commit", "Log", "LostRace"]

_LOG = "_delta_log"
_SHAPE = "sparrow.shape."
_NOTES = "sparrow"


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


@dataclass(frozen=True, slots=True)
class Commit:
    """One entry of the log."""

    version: int
    timestamp: datetime
    notes: Mapping[str, Any] | None
    """What sparrow recorded: operation, nonce, ...; None for a commit of another tool."""
    added: tuple[str, ...]
    removed: tuple[str, ...]
    raw: Mapping[str, Any]
    """The commitInfo as it is."""


class Log:
    """One version of a folder's log, and commits on top of it."""

    def __init__(self, path: str, table: DeltaTable) -> None:
        self.path = path
        self._table = table

    @classmethod
    def open(cls, path: str, version: int | None = None) -> Log:
        """Open the latest version, or the one named.

        Raises
        ------
        NotFoundError
            If there is no such table or version.
        """
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError

        if not of(path).is_folder(os.path.join(path, _LOG)):
            hint = "nothing is there" if not of(path).exists(path) else "what is there is no tensor"
            raise NotFoundError(f"no tensor at {path!r}: {hint}")
        try:
            if version is None or version >= 0:
                return cls(path, DeltaTable(path, version=version))
            raise DeltaError(f"no version {version}")
        except TableNotFoundError:
            raise NotFoundError(f"no tensor at {path!r}: its log is empty") from None
        except DeltaError as error:
            if version is not None:
                latest = cls.open(path).version
                if not 0 <= version <= latest:
                    raise NotFoundError(
                        f"{path!r} has no version {version}: versions go from 0 to {latest}, see history()"
                    ) from None
            raise CorruptionError(f"the log of {path!r} cannot be read: {str(error).splitlines()[0]}") from None

    @classmethod
    def create(cls, path: str, schema: pa.Schema, files: Sequence[DataFile], notes: Mapping[str, Any]) -> Log:
        """Commit version 0 of a folder: its schema and files that are there already.

        Raises
        ------
        ExistsError
            If the folder has a log.
        """
        from deltalake import Schema
        from deltalake.exceptions import DeltaError
        from deltalake.transaction import create_table_with_add_actions

        ndim = schema.get_field_index("value")
        configuration = {
            "delta.dataSkippingNumIndexedCols": str(ndim),
            "delta.enableExpiredLogCleanup": "false",
            "delta.checkpointInterval": "20",
        }
        try:
            create_table_with_add_actions(
                path,
                Schema.from_arrow(schema),
                _adds(files, schema),
                mode="error",
                configuration=configuration,
                commit_properties=_properties(notes, {}),
            )
        except (DeltaError, OSError) as error:
            there = read_commit(path, 0)
            if there is not None and (there.notes or {}).get("nonce") != notes["nonce"]:
                raise ExistsError(f"{path!r} is a tensor already") from None
            if there is None:
                if isinstance(error, OSError):
                    raise disk_full(error, path) from error
                raise StorageError(f"cannot create the log of {path!r}: {error}") from error
        log = cls.open(path)
        of(path).settle(_entry(path, 0))
        return log

    @property
    def version(self) -> int:
        """The version loaded."""
        return self._table.version()

    @property
    def next_commit(self) -> str:
        """The file that the next version's commit has, or will have."""
        return _entry(self.path, self.version + 1)

    @property
    def identity(self) -> str:
        """The table's own id, new for each table created."""
        return str(self._table.metadata().id)

    def replaced(self) -> bool:
        """Return whether another table, or none, stands in the folder by now."""
        try:
            text = of(self.path).read(_entry(self.path, 0))
        except NotFoundError:
            return not of(self.path).is_folder(os.path.join(self.path, _LOG))
        for line in text.splitlines():
            if b'"metaData"' in line and "metaData" in (action := json.loads(line)):
                return str(action["metaData"]["id"]) != self.identity
        return False

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
            f"{self.path!r} is a Delta table that sparrow did not write: ingest it with sp.ingest.columns"
        )

    def shape(self, created: Sequence[int]) -> tuple[int, ...]:
        """Return the shape: as created, or as later commits changed it."""
        from deltalake.exceptions import DeltaError

        changed: list[int] = []
        for dim, n in enumerate(created):
            try:
                new = self._table.transaction_version(f"{_SHAPE}{dim}")
            except DeltaError as error:
                raise CorruptionError(
                    f"the log of {self.path!r} cannot be read: {str(error).splitlines()[0]}"
                ) from None
            if new is None and not dim:  # a change sets all dimensions
                return tuple(created)
            changed.append(n if new is None else int(new))
        return tuple(changed)

    def active(self, dims: Sequence[str]) -> Active:
        """Return the files of the version."""
        table = pa.table(self._table.get_add_actions(flatten=False))
        count = table.num_rows
        low, high = np.zeros((count, len(dims)), np.int64), np.zeros((count, len(dims)), np.int64)
        if count:
            try:
                for name, bounds in (("min", low), ("max", high)):
                    if dims:
                        columns = table[name].combine_chunks()
                        for dim, label in enumerate(dims):
                            bounds[:, dim] = columns.field(label).cast(pa.int64()).to_numpy()
                rows = table["num_records"].to_numpy()
            except (KeyError, pa.ArrowException) as error:
                raise CorruptionError(
                    f"the log of {self.path!r} lacks the ranges of some file ({error}): another tool wrote to it"
                ) from None
        else:
            rows = np.zeros(0, np.int64)
        return Active(
            table["path"].to_pylist(), table["size_bytes"].to_numpy().astype(np.int64), rows.astype(np.int64), low, high
        )

    def reload(self) -> None:
        """Take in the commits of others."""
        from deltalake.exceptions import DeltaError

        try:
            self._table.update_incremental()
        except DeltaError as error:
            raise StorageError(f"the log of {self.path!r} cannot be read: {error}") from error

    def commit(
        self,
        added: Sequence[DataFile],
        removed: Sequence[tuple[str, int]],
        notes: Mapping[str, Any],
        shape: Sequence[int] | None = None,
        schema: pa.Schema | None = None,
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

        before = self.version
        now = int(time.time() * 1000)
        stored = self.schema() if schema is None else schema
        actions: list[Any] = list(_adds(added, stored))
        if schema is None:
            actions += [RemoveAction(path, True, now, size=nbytes) for path, nbytes in removed]
        transactions = {} if shape is None else {f"{_SHAPE}{dim}": int(n) for dim, n in enumerate(shape)}
        try:
            self._table.create_write_transaction(
                actions,
                mode="append" if schema is None else "overwrite",
                schema=self._table.schema() if schema is None else Schema.from_arrow(schema),
                commit_properties=_properties(notes, transactions),
            )
        except (DeltaError, OSError) as error:
            if not self.landed(before, str(notes["nonce"])):
                if isinstance(error, CommitFailedError):
                    raise LostRace from error
                if isinstance(error, OSError) and error.errno is not None:
                    raise disk_full(error, self.path) from error
                raise StorageError(f"cannot write the log of {self.path!r}: {error}") from error
        self.reload()
        of(self.path).settle(_entry(self.path, before + 1))

    def landed(self, before: int, nonce: str) -> bool:
        """Return whether a commit of ours is among those after version ``before``."""
        return any(c.notes is not None and c.notes.get("nonce") == nonce for c in self.commits(before + 1))

    def commits(self, start: int = 0) -> list[Commit]:
        """Return the commits from version ``start`` on, those beyond the loaded version too, oldest first."""
        out: list[Commit] = []
        while True:
            found = read_commit(self.path, start + len(out))
            if found is None:
                return out
            out.append(found)

    def commits_back(self, version: int) -> Iterator[Commit]:
        """Yield the commits from a version back, newest first, as far as the log goes."""
        while version >= 0 and (found := read_commit(self.path, version)) is not None:
            yield found
            version -= 1


def _entry(path: str, version: int) -> str:
    """Return the file of one commit."""
    return os.path.join(path, _LOG, f"{version:020d}.json")


def read_commit(path: str, version: int) -> Commit | None:
    """Return one commit of the log of a folder, or None where it has no such version."""
    try:
        lines = [json.loads(line) for line in of(path).read(_entry(path, version)).splitlines() if line.strip()]
    except NotFoundError:
        return None
    except ValueError as error:
        raise CorruptionError(f"version {version} in the log of {path!r} cannot be read: {error}") from None
    info: dict[str, Any] = next((line["commitInfo"] for line in lines if "commitInfo" in line), {})
    notes = info.get(_NOTES)
    return Commit(
        version,
        datetime.fromtimestamp(info.get("timestamp", 0) / 1000, tz=UTC),
        json.loads(notes) if isinstance(notes, str) else None,
        tuple(line["add"]["path"] for line in lines if "add" in line),
        tuple(line["remove"]["path"] for line in lines if "remove" in line),
        info,
    )


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
        custom_metadata={_NOTES: json.dumps(notes)},
        max_commit_retries=0,
        app_transactions=[Transaction(name, n) for name, n in transactions.items()],
    )
