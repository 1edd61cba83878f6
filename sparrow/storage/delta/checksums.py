"""Checksums of commits, by which a modified log is detected.

The *commit checksum* covers one entry of the log: notes, added and removed files. The *state* covers everything that a
version is: its files with their bounds, columns, metadata and shape, whether the log gives them by entries or by a
checkpoint. Both are in the notes of the commit. Entries without them, of the first release or of other tools, are not
verified.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["CHECKSUM_KEY", "PARENT_STATE_KEY", "STATE_KEY", "commit_checksum", "version_checksum"]

CHECKSUM_KEY, STATE_KEY, PARENT_STATE_KEY = "seal", "state", "before"
"""Keys in the notes of a commit: its checksum, its state and the state of the version it was made from."""

_HEX_DIGITS = 32


def commit_checksum(
    notes: Mapping[str, Any],
    added: Iterable[tuple[str, int, str]],
    removed: Iterable[str],
    transactions: Mapping[str, int],
    columns: str | None,
) -> str:
    """Return the checksum of an entry of the log.

    Parameters
    ----------
    notes
        Notes of sparrow; the checksum itself is left out.
    added
        Path, bytes and statistics of added files, as strings of the log.
    removed
        Paths of removed files.
    transactions
        Numbers set by the commit, by name.
    columns
        Schema set by the commit, as JSON, or None.
    """
    rest = {key: value for key, value in notes.items() if key != CHECKSUM_KEY}
    schema = None if columns is None else json.loads(columns)
    content = [rest, sorted(map(list, added)), sorted(removed), dict(transactions), schema]
    return _digest(json.dumps(content, sort_keys=True).encode())


def version_checksum(
    paths: Sequence[str],
    numbers: Sequence[NDArray[np.int64]],
    columns: pa.Schema,
    metadata: str,
    shape: Sequence[int],
) -> str:
    """Return the state of a version, independent of the order of its files.

    Parameters
    ----------
    paths
        The files.
    numbers
        Arrays with one row per file: bytes, rows and bounds.
    columns, metadata, shape
        Columns of the files, metadata on the field ``value``, and shape.
    """
    ranked = sorted(range(len(paths)), key=paths.__getitem__)
    content = [
        [paths[at] for at in ranked],
        [[field.name, str(field.type)] for field in columns],
        metadata,
        list(shape),
    ]
    parts = [json.dumps(content).encode()]
    parts += [np.ascontiguousarray(array[ranked], dtype="<i8").tobytes() for array in numbers]
    return _digest(b"\0".join(parts))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_HEX_DIGITS]
