"""Label files: one Parquet column each, named by hash.

Labels that an append adds get a file of their own, ``more-…``, which lists the files before it. Files with no more
labels than follow them are rewritten together with these. So n labels are in O(log n) files, and each is written
O(log n) times. Versions of sparrow that know complete files only do not find such a file, and say so.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from sparrow.core.schema import Schema
from sparrow.errors import CorruptionError, NotFoundError, ShapeError
from sparrow.runtime.events import emit
from sparrow.storage.fs.failures import damage_error
from sparrow.storage.fs.filesystem import get_filesystem
from sparrow.storage.parquet.writer import HashingFile

__all__ = [
    "LABELS",
    "LABEL_FILE",
    "Vocabulary",
    "WrittenLabels",
    "append_labels",
    "is_partial",
    "label_file_number",
    "label_hash",
    "read_label_file",
    "read_labels",
    "resolve_label_files",
    "write_labels",
]

LABELS = "_labels"
LABEL_FILE = re.compile(rf"{LABELS}/([0-9]+-(?P<sha>[0-9a-f]{{64}})|more-(?P<start>[0-9a-f]{{15}}))\.parquet")

_NUMBER_DIGITS = 15
_PREDECESSORS_KEY = b"sparrow.before"
"""Metadata key of a file ``more-…``: the label files before it, as JSON."""


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """Labels of a dimension, and the files that contain them."""

    array: pa.Array
    parts: tuple[tuple[str, int], ...]
    """Files relative to the folder with their numbers of labels, in order."""


class WrittenLabels:
    """Label files that a commit creates, deleted if it fails.

    Files are named by their content, so that another version or writer may have the same: those stay.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._folder = os.path.join(path, LABELS)
        self._is_new_folder = False
        self._created: list[tuple[str, Hashable]] = []

    def write(self, table: pa.Table, named: Callable[[str], str]) -> str:
        """Write a file and return its name relative to the tensor."""
        import pyarrow.parquet as pq

        self._is_new_folder |= get_filesystem(self.path).make_folder(self._folder)
        try:
            sink = HashingFile(self._folder)
        except NotFoundError:  # deleted with the files of another write that failed
            self._is_new_folder |= get_filesystem(self.path).make_folder(self._folder)
            sink = HashingFile(self._folder)
        try:
            pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
            name = sink.finalize(named)
        finally:
            sink.discard()
        if sink.fingerprint is not None:
            self._created.append((os.path.join(self._folder, name), sink.fingerprint))
        return f"{LABELS}/{name}"

    def undo(self) -> None:
        """Delete the files that were created."""
        files = get_filesystem(self.path)
        for name, fingerprint in self._created:
            files.delete_own(name, fingerprint)
        if self._is_new_folder:
            files.delete_empty_folder(self._folder)


def label_file_number(name: str) -> int:
    """Return the number of a label file in the log: 60 bits of its hash."""
    return int(name.rpartition("-")[2][:_NUMBER_DIGITS], 16)


def is_partial(name: str) -> bool:
    """Return whether a label file may continue others."""
    return name.startswith(f"{LABELS}/more-")


def label_hash(name: str) -> str:
    """Return the hash in the name of a label file, or its first digits."""
    return name.rpartition("-")[2].removesuffix(".parquet")


def read_labels(folder: str, name: str, known: Iterable[Vocabulary] = ()) -> Vocabulary:
    """Return labels by the last of their files.

    Files that ``known`` vocabularies consist of are not read again.

    Raises
    ------
    NotFoundError, CorruptionError
        As :func:`read_label_file`.
    """
    known_arrays: dict[str, pa.Array] = {}
    for one in known:
        start = 0
        for part, count in one.parts:
            known_arrays[part] = one.array.slice(start, count)
            start += count
    last, before = read_label_file(folder, name)
    arrays = [known_arrays[part] if part in known_arrays else read_label_file(folder, part)[0] for part in before]
    parts = tuple((part, len(array)) for part, array in zip((*before, name), (*arrays, last), strict=True))
    if not before:
        return Vocabulary(last, parts)
    try:
        return Vocabulary(pa.concat_arrays([*arrays, last]), parts)
    except pa.ArrowException as error:
        raise CorruptionError(
            f"the label file {os.path.join(folder, name)!r} does not continue those before it: {error}"
        ) from None


def read_label_file(folder: str, name: str, check: bool = True) -> tuple[pa.Array, list[str]]:
    """Return the labels in a file, and the files before it.

    Parameters
    ----------
    folder, name
        The tensor, and the file in it.
    check
        Verify the hash of the content.

    Raises
    ------
    NotFoundError
        If it is gone.
    CorruptionError
        If it is damaged.
    """
    import pyarrow.parquet as pq

    emit("storage.read_labels", path=name)
    path = os.path.join(folder, name)
    named = LABEL_FILE.fullmatch(name)
    if named is None:
        raise CorruptionError(f"the metadata of {folder!r} names the label file {name!r}, which is not in it")
    try:
        get_filesystem(path).fingerprint(path)
        data = get_filesystem(path).read(path)
    except NotFoundError:
        begun = named["start"]  # the log has only this number of it
        other = f", or of this folder in the file '<number>-{begun}….parquet'," if begun else ""
        raise NotFoundError(f"the label file {path!r}{other} is gone: restore the file, or ingest again") from None
    if check and not hashlib.sha256(data).hexdigest().startswith(label_hash(name)):
        raise CorruptionError(f"the label file {path!r} is damaged: restore the file, or ingest again")
    try:
        # Without pre_buffer and threads: those of Arrow may abort the interpreter at exit.
        with pq.ParquetFile(pa.BufferReader(data), pre_buffer=False) as file:
            table = file.read(use_threads=False)
        column = table.column(0)
        before = json.loads((table.schema.metadata or {}).get(_PREDECESSORS_KEY, b"[]"))
    except (OSError, ValueError, IndexError, RecursionError, pa.ArrowException) as error:
        raise damage_error(f"the label file {path!r}", error) from None
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks(), before


def write_labels(
    target: WrittenLabels, schema: Schema, labels: Mapping[int, pa.Array | pa.ChunkedArray]
) -> dict[int, str]:
    """Write labels and return the files relative to the tensor.

    Dimensions with the same array share a file.

    Raises
    ------
    ShapeError
        If the number of labels differs from the size of the dimension.
    """
    names: dict[int, str] = {}
    written: dict[int, str] = {}
    for dim, array in labels.items():
        if id(array) in written:
            names[dim] = written[id(array)]
            continue
        if len(array) != schema.shape[dim]:
            raise ShapeError(
                f"got {len(array)} labels for dimension {schema.dims[dim]!r} of size {schema.shape[dim]}: "
                "pass one for each"
            )
        table = pa.table({"label": array})
        names[dim] = written[id(array)] = target.write(table, partial("{}-{}.parquet".format, dim))
    return names


def append_labels(target: WrittenLabels, labels: pa.Array, stored: Vocabulary) -> str:
    """Write the labels after the stored ones and return the file.

    Parameters
    ----------
    target
        Writes the file.
    labels
        All labels, the stored ones first.
    stored
        The stored ones.
    """
    before, start = list(stored.parts), len(stored.array)
    while before and before[-1][1] <= len(labels) - start:
        start -= before.pop()[1]
    metadata = {_PREDECESSORS_KEY: json.dumps([part for part, _ in before])}
    table = pa.table({"label": labels[start:]}).replace_schema_metadata(metadata)
    return target.write(table, lambda sha: f"more-{sha[:_NUMBER_DIGITS]}.parquet")


def resolve_label_files(path: str, created: Mapping[int, str], changed: Sequence[int]) -> Mapping[int, str]:
    """Return the label files of a version by their numbers."""
    if not changed:
        return created
    folder = os.path.join(path, LABELS)
    found: dict[int, str] = {}
    for number in {number for number in changed if number}:
        more = f"more-{number:0{_NUMBER_DIGITS}x}.parquet"
        if get_filesystem(path).exists(os.path.join(folder, more)):
            found[number] = more
    if any(number and number not in found for number in changed):  # complete files, of which there are few: list them
        names = [name for name in get_filesystem(path).names(folder) if LABEL_FILE.fullmatch(f"{LABELS}/{name}")]
        found |= {label_file_number(name): name for name in names}
    out: dict[int, str] = {}
    for dim, number in enumerate(changed):
        if number:
            out[dim] = f"{LABELS}/{found.get(number, f'more-{number:0{_NUMBER_DIGITS}x}.parquet')}"
    return out
