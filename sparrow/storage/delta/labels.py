"""Files of labels: one Parquet column each, its name the hash of its content, found again by a number in the log.

Labels that an append brings are a file of their own, ``more-…``, that names the files before it. Files that hold no
more labels than come after them are written anew with those, so n labels are in about log2(n) files at most, and each
is written about that often. A reader that knows only whole files does not find such a one, and says so.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from sparrow.core.schema import Schema
from sparrow.errors import CorruptionError, NotFoundError, ShapeError
from sparrow.storage.fs.filesystem import get_filesystem
from sparrow.storage.parquet.writer import HashingFile

__all__ = [
    "LABELS",
    "LABEL_FILE",
    "Vocabulary",
    "is_part",
    "label_files",
    "label_hash",
    "label_number",
    "read_labels",
    "read_part",
    "write_labels",
    "write_more",
]

LABELS = "_labels"
LABEL_FILE = re.compile(rf"{LABELS}/([0-9]+-(?P<sha>[0-9a-f]{{64}})|more-(?P<start>[0-9a-f]{{15}}))\.parquet")

_DIGITS = 15
_BEFORE = b"sparrow.before"
"""In the metadata of a file ``more-…``: the files of the labels before it, as JSON."""


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """The labels of a dimension, and the files that they are in."""

    array: pa.Array
    parts: tuple[tuple[str, int], ...]
    """Each file, relative to the folder, and how many labels it holds, in order."""


def label_number(name: str) -> int:
    """Return the number by which the log names a file of labels: the first 60 bits of the hash in its name."""
    return int(name.rpartition("-")[2][:_DIGITS], 16)


def is_part(name: str) -> bool:
    """Return whether a file of labels may stand on others."""
    return name.startswith(f"{LABELS}/more-")


def label_hash(name: str) -> str:
    """Return the hash of the content that the name of a file of labels tells, or the first digits of it."""
    return name.rpartition("-")[2].removesuffix(".parquet")


def read_labels(folder: str, name: str, known: Iterable[Vocabulary] = ()) -> Vocabulary:
    """Return labels of a tensor by the last file of them; files that ``known`` ones are made of are not read again.

    Raises
    ------
    NotFoundError, CorruptionError
        As :func:`read_part`.
    """
    there: dict[str, pa.Array] = {}
    for one in known:
        start = 0
        for part, count in one.parts:
            there[part] = one.array.slice(start, count)
            start += count
    last, before = read_part(folder, name)
    arrays = [there[part] if part in there else read_part(folder, part)[0] for part in before]
    parts = tuple((part, len(array)) for part, array in zip((*before, name), (*arrays, last), strict=True))
    if not before:
        return Vocabulary(last, parts)
    try:
        return Vocabulary(pa.concat_arrays([*arrays, last]), parts)
    except pa.ArrowException as error:
        raise CorruptionError(
            f"the labels in {os.path.join(folder, name)!r} do not fit those before: {error}"
        ) from None


def read_part(folder: str, name: str, check: bool = True) -> tuple[pa.Array, list[str]]:
    """Return the labels in a file of a tensor, whose name tells the hash of its content, and the files before it.

    Parameters
    ----------
    folder, name
        The tensor, and the file in it.
    check
        Whether the content has to have this hash.

    Raises
    ------
    NotFoundError
        If it is gone.
    CorruptionError
        If it is not what was written.
    """
    import pyarrow.parquet as pq

    path = os.path.join(folder, name)
    named = LABEL_FILE.fullmatch(name)
    if named is None:
        raise CorruptionError(f"the metadata of {folder!r} names the labels {name!r}, which is no file of labels in it")
    try:
        get_filesystem(path).fingerprint(path)
        data = get_filesystem(path).read(path)
    except NotFoundError:
        begun = named["start"]  # all that the log says of what a later commit wrote
        other = f", or of this folder in the file '<number>-{begun}….parquet'," if begun else ""
        raise NotFoundError(f"the labels in {path!r}{other} are gone: restore the file, or ingest again") from None
    if check and not hashlib.sha256(data).hexdigest().startswith(label_hash(name)):
        raise CorruptionError(f"the labels in {path!r} are damaged: restore the file, or ingest again")
    try:
        with pq.ParquetFile(pa.BufferReader(data), pre_buffer=False) as file:  # threads of Arrow may abort an exit
            table = file.read(use_threads=False)
        column = table.column(0)
        before = json.loads((table.schema.metadata or {}).get(_BEFORE, b"[]"))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise CorruptionError(f"the labels in {path!r} cannot be read: {error}") from None
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks(), before


def write_labels(path: str, schema: Schema, labels: Mapping[int, pa.Array | pa.ChunkedArray]) -> dict[int, str]:
    """Write the labels of dimensions, the very same array once, and return the files, relative to the folder.

    Raises
    ------
    ShapeError
        If they are not as many as the dimension is long.
    """
    names: dict[int, str] = {}
    written: dict[int, str] = {}
    for dim, array in labels.items():
        if id(array) in written:
            names[dim] = written[id(array)]
            continue
        if len(array) != schema.shape[dim]:
            raise ShapeError(
                f"{len(array)} labels for dimension {schema.dims[dim]!r} of size {schema.shape[dim]}: give one for each"
            )
        table = pa.table({"label": array})
        names[dim] = written[id(array)] = _write(path, table, partial("{}-{}.parquet".format, dim))
    return names


def write_more(path: str, labels: pa.Array, stored: Vocabulary) -> str:
    """Write the labels that come after those stored, and return the file, relative to the folder.

    Parameters
    ----------
    labels
        All of them, those stored first.
    """
    before, start = list(stored.parts), len(stored.array)
    while before and before[-1][1] <= len(labels) - start:
        start -= before.pop()[1]
    metadata = {_BEFORE: json.dumps([part for part, _ in before])}
    table = pa.table({"label": labels[start:]}).replace_schema_metadata(metadata)
    return _write(path, table, lambda sha: f"more-{sha[:_DIGITS]}.parquet")


def _write(path: str, table: pa.Table, named: Callable[[str], str]) -> str:
    import pyarrow.parquet as pq

    folder = os.path.join(path, LABELS)
    get_filesystem(folder).make_folder(folder)
    sink = HashingFile(folder)
    try:
        pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
        return f"{LABELS}/{sink.finalize(named)}"
    finally:
        sink.discard()


def label_files(path: str, created: Mapping[int, str], changed: Sequence[int]) -> Mapping[int, str]:
    """Return the files of labels: as created, or as later commits changed them, whose numbers begin their hashes."""
    if not changed:
        return created
    folder = os.path.join(path, LABELS)
    found: dict[int, str] = {}
    for number in {number for number in changed if number}:
        more = f"more-{number:0{_DIGITS}x}.parquet"
        if get_filesystem(path).exists(os.path.join(folder, more)):
            found[number] = more
    if any(number and number not in found for number in changed):  # there are few files that are no parts
        names = [name for name in get_filesystem(path).names(folder) if LABEL_FILE.fullmatch(f"{LABELS}/{name}")]
        found |= {label_number(name): name for name in names}
    out: dict[int, str] = {}
    for dim, number in enumerate(changed):
        if number:
            out[dim] = f"{LABELS}/{found.get(number, f'more-{number:0{_DIGITS}x}.parquet')}"
    return out
