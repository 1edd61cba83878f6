"""What the log of a folder tells of each commit: its entries, read as the files that they are, without ``deltalake``.

An entry of ours says how it was committed, so that one that was changed later is an error and not another tensor.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sparrow.errors import CorruptionError, NotFoundError
from sparrow.storage.delta.checksums import SEAL, STATE, seal
from sparrow.storage.fs.filesystem import get_filesystem

__all__ = ["LOG", "NOTES", "Commit", "log_entry", "parsing", "read_commit", "read_commits", "state_noted", "suspects"]

LOG = "_delta_log"
NOTES = "sparrow"
"""What the notes of a commit stand under in its ``commitInfo``."""
_TOLD = 40
"""The most entries that are named where one of them is damaged: there is a checkpoint after every 20."""
_OF_A_FILE = {"dataChange", "modificationTime", "partitionValues"}
"""What deltalake wants to know of a file, without which it does not say what it misses where."""


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


def log_entry(path: str, version: int) -> str:
    """Return the file of one commit."""
    return os.path.join(path, LOG, f"{version:020d}.json")


def read_commit(path: str, version: int) -> Commit | None:
    """Return one commit of the log of a folder, or None where it has no such version.

    Raises
    ------
    CorruptionError
        If it cannot be read, or is not as it was committed.
    """
    return next(read_commits(path, range(version, version + 1)))


def read_commits(path: str, versions: range) -> Iterator[Commit | None]:
    """Yield commits of the log of a folder, None for a version that it does not have."""
    texts = get_filesystem(path).read_many([log_entry(path, version) for version in versions])
    for version, text in zip(versions, texts, strict=True):
        yield None if text is None else _parsed(path, version, text)


def _parsed(path: str, version: int, text: bytes) -> Commit:
    name = log_entry(path, version)
    with parsing(name):
        lines = [json.loads(line) for line in text.splitlines() if line.strip()]
        info: dict[str, Any] = next(line["commitInfo"] for line in lines if "commitInfo" in line)
        noted = info.get(NOTES)
        if noted is None and any(isinstance(value, str) and f'"{SEAL}"' in value for value in info.values()):
            raise ValueError("its notes stand under another name")
        notes = json.loads(noted) if isinstance(noted, str) else None
        added = [line["add"] for line in lines if "add" in line]
        gone = [line["remove"] for line in lines if "remove" in line]
        removed = tuple(file["path"] for file in gone)
        when = info.get("timestamp", 0)
        if notes is not None and SEAL in notes:
            columns = next((line["metaData"]["schemaString"] for line in lines if "metaData" in line), None)
            numbers = {line["txn"]["appId"]: line["txn"]["version"] for line in lines if "txn" in line}
            files = [(file["path"], file["size"], file["stats"]) for file in added]
            if notes["version"] != version or notes[SEAL] != seal(notes, files, removed, numbers, columns):
                raise ValueError("it is not as it was committed")
            if not all(file.keys() >= _OF_A_FILE for file in added):
                raise ValueError(f"it does not say {', '.join(sorted(_OF_A_FILE))} of each file")
            if not all(isinstance(file.get("dataChange"), bool) for file in gone):
                raise ValueError("it does not say dataChange of each file that it removes")
            when = notes["time"]
        return Commit(
            version,
            datetime.fromtimestamp(when / 1000, tz=UTC),
            notes,
            tuple(file["path"] for file in added),
            removed,
            info,
        )


def state_noted(path: str, version: int) -> str | None:
    """Return the state that the commit of a version notes, or None where it notes none."""
    try:
        text = get_filesystem(path).read(log_entry(path, version))
    except NotFoundError:
        return None  # cleaned away by another tool, after a checkpoint
    line = next((line for line in text.splitlines() if line.startswith(b'{"commitInfo"')), b"{}")
    with parsing(log_entry(path, version)):
        notes = json.loads(json.loads(line)["commitInfo"].get(NOTES, "{}"))
        if STATE in notes and notes["version"] != version:
            raise ValueError("it is not as it was committed")
        return str(notes[STATE]) if STATE in notes else None


@contextmanager
def parsing(name: str) -> Iterator[None]:
    """Tell which entry of a log cannot be understood."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration, OverflowError) as error:
        problem = str(error) if isinstance(error, ValueError) else "it is cut off or changed"
        raise CorruptionError(f"the entry {name!r} of the log cannot be read: {problem}") from None


def suspects(path: str, version: int) -> str:
    """Return the files that a version is made of, where it cannot be told which of them is damaged."""
    names = get_filesystem(path).names(os.path.join(path, LOG))
    last = os.path.basename(log_entry(path, version))
    checkpoints = [name for name in names if ".checkpoint." in name and name <= last][-1:]
    entries = [name for name in names if name.endswith(".json") and max(checkpoints, default="") < name <= last]
    found = [*checkpoints, *(name for name in names if name == "_last_checkpoint"), *entries[-_TOLD:]]
    return f"one of {', '.join(map(repr, found))}" if found else "all of it"
