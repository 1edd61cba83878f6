"""What a commit says of itself, so that a log that was changed since is noticed: its *seal* and the *state* it makes.

The seal covers one entry of the log: what it notes, adds and removes. The state covers all that a version is: its
files with their ranges, columns, metadata and shape, however the log gives them, by entries or by a checkpoint. Both
are in the notes of the commit; entries without them, of the first release or of other tools, are taken as they are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["BEFORE", "SEAL", "STATE", "seal", "state"]

SEAL, STATE, BEFORE = "seal", "state", "before"
"""Keys in the notes of a commit: its seal, the state that it makes and the one that it was made from."""

_DIGITS = 32


def seal(
    notes: Mapping[str, Any],
    added: Iterable[tuple[str, int, str]],
    removed: Iterable[str],
    transactions: Mapping[str, int],
    columns: str | None,
) -> str:
    """Return the seal of an entry.

    Parameters
    ----------
    notes
        What sparrow notes; the seal itself is left out.
    added
        Path, bytes and statistics of the files that it adds, as texts of the log.
    removed
        Paths of the files that it removes.
    transactions
        The numbers that it sets.
    columns
        The schema that it sets, as JSON, or None.
    """
    rest = {key: value for key, value in notes.items() if key != SEAL}
    schema = None if columns is None else json.loads(columns)
    whole = [rest, sorted(map(list, added)), sorted(removed), dict(transactions), schema]
    return _digest(json.dumps(whole, sort_keys=True).encode())


def state(
    paths: Sequence[str],
    numbers: Sequence[NDArray[np.int64]],
    columns: pa.Schema,
    metadata: str,
    shape: Sequence[int],
) -> str:
    """Return what tells a version from all others, whatever the order of its files.

    Parameters
    ----------
    paths
        The files.
    numbers
        What is known of them, arrays with a row for each.
    columns, metadata, shape
        Types of the columns, sparrow's text on the field ``value``, the shape.
    """
    ranked = sorted(range(len(paths)), key=paths.__getitem__)
    whole = [[paths[at] for at in ranked], [[field.name, str(field.type)] for field in columns], metadata, list(shape)]
    parts = [json.dumps(whole).encode()]
    parts += [np.ascontiguousarray(array[ranked], dtype="<i8").tobytes() for array in numbers]
    return _digest(b"\0".join(parts))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_DIGITS]
