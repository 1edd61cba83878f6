"""Files of labels: one Parquet column each, its name the hash of its content, found again by a number in the log."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from functools import partial

import pyarrow as pa

from sparrow.errors import CorruptionError, NotFoundError, ShapeError
from sparrow.schema import Schema
from sparrow.storage.filesystem import of
from sparrow.storage.writer import HashingFile

__all__ = ["LABELS", "LABEL_FILE", "label_files", "label_number", "read_labels", "write_labels"]

LABELS = "_labels"
LABEL_FILE = re.compile(rf"{LABELS}/[0-9]+-(?P<sha>[0-9a-f]{{64}})\.parquet")

_DIGITS = 15


def label_number(name: str) -> int:
    """Return the number by which the log names a file of labels: the first 60 bits of the hash in its name."""
    return int(name.rpartition("-")[2][:_DIGITS], 16)


def read_labels(folder: str, name: str, check: bool = True) -> pa.Array:
    """Return the labels in a file of a tensor, whose name tells the hash of its content.

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
        of(path).stamp(path)
        data = of(path).read(path)
    except NotFoundError:
        raise NotFoundError(f"the labels in {path!r} are gone: restore the file, or ingest again") from None
    if check and hashlib.sha256(data).hexdigest() != named["sha"]:
        raise CorruptionError(f"the labels in {path!r} are damaged: restore the file, or ingest again")
    try:
        with pq.ParquetFile(pa.BufferReader(data), pre_buffer=False) as file:  # threads of Arrow may abort an exit
            column = file.read(use_threads=False).column(0)
    except (OSError, pa.ArrowException) as error:
        raise CorruptionError(f"the labels in {path!r} cannot be read: {error}") from None
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def write_labels(path: str, schema: Schema, labels: Mapping[int, pa.Array | pa.ChunkedArray]) -> dict[int, str]:
    """Write the labels of dimensions, the very same array once, and return the files, relative to the folder.

    Raises
    ------
    ShapeError
        If they are not as many as the dimension is long.
    """
    import pyarrow.parquet as pq

    folder = os.path.join(path, LABELS)
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
        of(folder).make_folder(folder)
        sink = HashingFile(folder)
        try:
            pq.write_table(pa.table({"label": array}), sink, compression="zstd", write_page_checksum=True)
            name = sink.keep(partial("{}-{}.parquet".format, dim))
        finally:
            sink.discard()
        names[dim] = written[id(array)] = f"{LABELS}/{name}"
    return names


def label_files(path: str, created: Mapping[int, str], changed: Sequence[int]) -> Mapping[int, str]:
    """Return the files of labels: as created, or as later commits changed them, whose numbers begin their hashes."""
    if not changed:
        return created
    folder = os.path.join(path, LABELS)
    known: dict[int, str] = {}
    for name in of(path).names(folder):
        found = LABEL_FILE.fullmatch(f"{LABELS}/{name}")
        if found is not None:
            known[label_number(name)] = name
    out: dict[int, str] = {}
    for dim, number in enumerate(changed):
        if number:
            gone = f"{dim}-{number:0{_DIGITS}x}".ljust(len(f"{dim}-") + 64, "0") + ".parquet"
            out[dim] = f"{LABELS}/{known.get(number, gone)}"
    return out
