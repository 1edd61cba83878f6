"""Entries of a Delta log, verified by their checksums."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from sparrow.errors import CorruptionError, NotFoundError
from sparrow.storage.delta.checksums import CHECKSUM_KEY, STATE_KEY, commit_checksum
from sparrow.storage.fs.filesystem import get_filesystem
from sparrow.storage.tuning import tuning

__all__ = [
    "LOG",
    "NOTES",
    "Commit",
    "check_nesting",
    "damage_candidates",
    "entry_errors",
    "entry_versions",
    "last_checkpoint",
    "last_version_without",
    "log_entry",
    "missing_entries",
    "missing_entry_error",
    "read_commit",
    "read_commits",
    "recorded_state",
    "table_id",
]

LOG = "_delta_log"
NOTES = "sparrow"
"""Key of sparrow's notes in the ``commitInfo`` of an entry."""
_REQUIRED_KEYS = {"dataChange", "modificationTime", "partitionValues"}
"""Keys of an added file without which deltalake fails with an error that names no entry."""


_ENTRY = re.compile(r"[0-9]{20}\.json")
_MAX_DEPTH, _DEEP_BYTES = 1000, 10_000
"""Depth of JSON that is passed to deltalake, and bytes of text that cannot overflow the stack of its parser."""


@dataclass(frozen=True, slots=True)
class Commit:
    """One entry of the log."""

    version: int
    timestamp: datetime
    notes: Mapping[str, Any] | None
    """Notes of sparrow: operation, nonce, ...; None for a commit of another tool."""
    added: tuple[str, ...]
    removed: tuple[str, ...]
    raw: Mapping[str, Any]
    """The whole commitInfo."""


def log_entry(path: str, version: int) -> str:
    """Return the file of a commit."""
    return os.path.join(path, LOG, f"{version:020d}.json")


def entry_versions(path: str) -> list[int]:
    """Return the versions whose entries exist, ascending."""
    names = get_filesystem(path).names(os.path.join(path, LOG))
    return [int(name[:20]) for name in names if _ENTRY.fullmatch(name)]


def last_checkpoint(path: str, version: int) -> int:
    """Return the last version up to one that has a checkpoint, -1 if none has."""
    names = get_filesystem(path).names(os.path.join(path, LOG))
    found = [int(name[:20]) for name in names if ".checkpoint." in name and name[:20].isdecimal()]
    return max((each for each in found if each <= version), default=-1)


def missing_entries(path: str, version: int) -> list[range]:
    """Return the ranges of versions up to one whose entries are missing, ascending."""
    out: list[range] = []
    following = 0
    for found in [*(each for each in entry_versions(path) if each <= version), version + 1]:
        if found > following:
            out.append(range(following, found))
        following = found + 1
    return out


def missing_entry_error(path: str, version: int) -> CorruptionError:
    """Return the error about a version whose entry is missing."""
    way = f", or open version {version - 1} or an earlier one" if version else ""
    return CorruptionError(f"the entry {log_entry(path, version)!r} of the log is missing: restore the file{way}")


def last_version_without(path: str, version: int, foreign: set[str], is_foreign: Callable[[str], bool]) -> int | None:
    """Return the last version that has no foreign file, None if there is none.

    Parameters
    ----------
    path, version
        Folder of the table, and the version to begin with.
    foreign
        Foreign files of that version.
    is_foreign
        Whether a file is foreign, by its name.
    """
    left = set(foreign)
    for at, commit in zip(range(version, -1, -1), read_commits(path, range(version, -1, -1)), strict=True):
        if not left:
            return at
        if commit is None:
            return None
        left = left.difference(commit.added).union(filter(is_foreign, commit.removed))
    return None


def read_commit(path: str, version: int) -> Commit | None:
    """Return a commit of the log of a folder, or None if there is no such version.

    Raises
    ------
    CorruptionError
        If it cannot be read, or was changed since it was committed.
    """
    return next(read_commits(path, range(version, version + 1)))


def read_commits(path: str, versions: range) -> Iterator[Commit | None]:
    """Yield commits of the log of a folder, None for versions that do not exist."""
    texts = get_filesystem(path).read_many([log_entry(path, version) for version in versions])
    for version, text in zip(versions, texts, strict=True):
        yield None if text is None else _parse_commit(path, version, text)


def _parse_commit(path: str, version: int, text: bytes) -> Commit:
    name = log_entry(path, version)
    with entry_errors(name):
        lines = [json.loads(line) for line in text.splitlines() if line.strip()]
        info: dict[str, Any] = next(line["commitInfo"] for line in lines if "commitInfo" in line)
        noted = info.get(NOTES)
        if noted is None and any(isinstance(value, str) and f'"{CHECKSUM_KEY}"' in value for value in info.values()):
            raise ValueError("its notes have another key")
        notes = json.loads(noted) if isinstance(noted, str) else None
        added = [line["add"] for line in lines if "add" in line]
        removals = [line["remove"] for line in lines if "remove" in line]
        removed = tuple(file["path"] for file in removals)
        when = info.get("timestamp", 0)
        if notes is not None and CHECKSUM_KEY in notes:
            columns = next((line["metaData"]["schemaString"] for line in lines if "metaData" in line), None)
            numbers = {line["txn"]["appId"]: line["txn"]["version"] for line in lines if "txn" in line}
            files = [(file["path"], file["size"], file["stats"]) for file in added]
            if notes["version"] != version or notes[CHECKSUM_KEY] != commit_checksum(
                notes, files, removed, numbers, columns
            ):
                raise ValueError("it was changed since it was committed")
            if not all(file.keys() >= _REQUIRED_KEYS for file in added):
                raise ValueError(f"a file lacks one of {', '.join(sorted(_REQUIRED_KEYS))}")
            if not all(isinstance(file.get("dataChange"), bool) for file in removals):
                raise ValueError("a removed file lacks dataChange")
            when = notes["time"]
        return Commit(
            version,
            datetime.fromtimestamp(when / 1000, tz=UTC),
            notes,
            tuple(file["path"] for file in added),
            removed,
            info,
        )


def table_id(path: str) -> str | None:
    """Return the id of a table, new for each table created; None without entry 0.

    Raises
    ------
    CorruptionError
        If the entry cannot be read.
    """
    try:
        text = get_filesystem(path).read(log_entry(path, 0))
    except NotFoundError:
        return None
    with entry_errors(log_entry(path, 0)):
        for line in text.splitlines():
            if b'"metaData"' in line and "metaData" in (action := json.loads(line)):
                return str(action["metaData"]["id"])
    return None


def recorded_state(path: str, version: int) -> str | None:
    """Return the state in the notes of a commit, or None if it has none."""
    try:
        text = get_filesystem(path).read(log_entry(path, version))
    except NotFoundError:
        return None  # deleted by another tool, after a checkpoint
    line = next((line for line in text.splitlines() if line.startswith(b'{"commitInfo"')), b"{}")
    with entry_errors(log_entry(path, version)):
        notes = json.loads(json.loads(line)["commitInfo"].get(NOTES, "{}"))
        if STATE_KEY in notes and notes["version"] != version:
            raise ValueError("it was changed since it was committed")
        return str(notes[STATE_KEY]) if STATE_KEY in notes else None


def check_nesting(path: str, version: int | None = None, first: int = 0) -> None:
    """Raise ``CorruptionError`` for an entry nested so deep that deltalake crashes.

    Parameters
    ----------
    path
        Folder of the table.
    version
        Version that will be read, the newest by default.
    first
        First version whose entry will be read. Those before the last checkpoint are not.
    """
    files, folder = get_filesystem(path), os.path.join(path, LOG)
    if files.is_remote:
        return
    last = f"{version:020d}.json" if version is not None else "~"
    names = [name for name in files.names(folder) if f"{first:020d}" <= name <= last]
    checkpoint = max((name for name in names if ".checkpoint." in name), default="")
    for name in names:
        entry = os.path.join(folder, name)
        if name.endswith(".json") and name >= checkpoint:
            is_deep = files.size(entry) > _DEEP_BYTES and _is_deep(files.read(entry))
        else:
            is_deep = name == checkpoint and _is_deep(_statistics_in(entry))
        if is_deep:
            raise CorruptionError(
                f"the entry {entry!r} of the log cannot be read: it is nested more than {_MAX_DEPTH} deep"
            )


def _is_deep(text: bytes | pa.Buffer) -> bool:
    """Return whether JSON is nested too deep for deltalake, by its brackets."""
    data = np.frombuffer(text, np.uint8)
    opened, closed = ((data == ord(a)) | (data == ord(b)) for a, b in ("[{", "]}"))
    depth = np.cumsum(opened.astype(np.int8) - closed.astype(np.int8), dtype=np.int64)
    return int(depth.max(initial=0)) > _MAX_DEPTH


def _statistics_in(checkpoint: str) -> bytes | pa.Buffer:
    """Return the JSON in a checkpoint one after the other, nothing if it is short."""
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(checkpoint) as file:
            groups = [file.metadata.row_group(at) for at in range(file.metadata.num_row_groups)]
            columns = [group.column(at) for group in groups for at in range(group.num_columns)]
            sizes = [each.total_uncompressed_size for each in columns if each.path_in_schema == "add.stats"]
            if sum(sizes) <= _DEEP_BYTES:
                return b""
            found = file.read(["add.stats"])["add"].combine_chunks().field("stats").cast(pa.large_string())
            return found.buffers()[2] or b""
    except (OSError, KeyError, ValueError, pa.ArrowException):
        return b""  # deltalake says what is wrong


@contextmanager
def entry_errors(name: str) -> Iterator[None]:
    """Raise ``CorruptionError`` naming an entry that cannot be parsed."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration, OverflowError, RecursionError) as error:
        problem = str(error) if isinstance(error, ValueError) else "it is truncated or changed"
        raise CorruptionError(f"the entry {name!r} of the log cannot be read: {problem}") from None


def damage_candidates(path: str, version: int) -> str:
    """Return the files of a version, one of which is damaged."""
    names = get_filesystem(path).names(os.path.join(path, LOG))
    last = os.path.basename(log_entry(path, version))
    checkpoints = [name for name in names if ".checkpoint." in name and name <= last][-1:]
    entries = [name for name in names if name.endswith(".json") and max(checkpoints, default="") < name <= last]
    found = [
        *checkpoints,
        *(name for name in names if name == "_last_checkpoint"),
        *entries[-tuning().suspects_named :],
    ]
    return f"one of {', '.join(map(repr, found))}" if found else "the whole log"
