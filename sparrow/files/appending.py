"""What paths name as what is appended: tables in files that ``columns`` reads, stored tensors, Delta tables."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import PurePath
from typing import Any

import pyarrow as pa

from sparrow import memory, storage
from sparrow.errors import IngestError, NotFoundError, UnsupportedError
from sparrow.files.delimited import Form
from sparrow.files.source import Source, folder_of, open_sources
from sparrow.files.tables import Query, open_table
from sparrow.interop.conversion import gathered
from sparrow.labels import is_text
from sparrow.storage.filesystem import of
from sparrow.tensor import Tensor

__all__ = ["appended"]

_TABLES = {".csv", ".tsv", ".txt", ".parquet", ".arrow", ".feather", ".ipc", ".json", ".jsonl", ".ndjson"}
_COMPRESSED = {".gz", ".zst", ".bz2"}
_COPIES = 3
"""A table is held about so many times while it becomes entries."""


def appended(
    src: str | os.PathLike[str], pick: Callable[[Sequence[str]], list[str]], kinds: Mapping[str, pa.DataType | None]
) -> Any:
    """Return what a path names, as a tensor or a table in memory.

    Parameters
    ----------
    src
        A file, a pattern, ``"-"`` for standard input, a folder of files, of ``name=value`` folders or of Parquet, a
        stored tensor, or a Delta table of another tool.
    pick
        Returns the columns to read, of those that there are.
    kinds
        The types of the labels of columns of coordinates, None of those that are numbers.

    Raises
    ------
    NotFoundError
        If there is nothing.
    UnsupportedError
        If a file is named as no table is.
    IngestError
        If one cannot be read: with file and line.
    CorruptionError
        If a file of a table of Delta is missing, damaged or a link.
    TooLargeError
        If the columns would pass the memory limit.
    """
    folder = folder_of(src)
    if folder is not None and storage.is_tensor(folder):
        try:
            return Tensor(storage.open(folder))
        except NotFoundError:  # of another tool
            with storage.delta_table(folder) as frame:
                return gathered(frame, pick(frame.collect_schema().names()), None)
    sources = _sources(src, folder)
    texts = tuple(name for name, kind in kinds.items() if kind is not None and is_text(kind))
    numbers = tuple(name for name, kind in kinds.items() if kind is None or pa.types.is_integer(kind))
    form = Form([], (), texts, tuple(kinds), numbers, header=True, delimiter=None, quotes=None)
    paths = [source.path or "-" for source in sources]
    read: list[str] = []

    def noted(names: Sequence[str]) -> list[str]:
        read[:] = pick(names)
        return read.copy()

    table = open_table(paths, Query([], form, None, pick=noted))
    try:
        found = _gathered(table.batches(lambda _: None), table.name)
        return pa.table({name: pa.nulls(0) for name in read}) if found is None else found
    except IngestError as error:
        if "say " in error.problem:
            error.problem += ", to sp.ingest.columns(src, path, coords=...), and append the tensor that it stores"
        raise


def _sources(src: str | os.PathLike[str], folder: str | None) -> list[Source]:
    """Return the files of a path; of a folder those that are Parquet, where it does not part them by columns."""
    if folder is not None:
        inside = of(folder).matching(os.path.join(glob.escape(folder), "*.parquet"))
        if inside:
            return open_sources(inside)
    sources = open_sources(src)
    for source in sources:
        ends = [end.lower() for end in PurePath(source.path or "-.csv").suffixes] or [""]
        end = ends[-2] if ends[-1] in _COMPRESSED and len(ends) > 1 else ends[-1]
        if end not in _TABLES:
            raise UnsupportedError(
                f"{source.name!r} is no .csv, .tsv, .jsonl, .parquet or .arrow: ingest it, or read it as a frame, and "
                "append that"
            )
    return sources


def _gathered(batches: Any, name: str) -> pa.Table | None:
    """Return batches as one table, None where there are none."""
    kept: list[pa.Table] = []
    rows = 0
    way = "ingest it with sp.ingest.columns(src, path, coords=...), at any length, and append that tensor"
    with memory.reserve(0, "", way) as room, closing(batches):
        for batch in batches:
            kept.append(pa.Table.from_batches([batch.data]))
            rows += batch.data.num_rows
            room.what = f"a table of more than {rows} rows, on its way into memory,"
            room.grow(_COPIES * batch.data.nbytes)
    try:
        return pa.concat_tables(kept, promote_options="permissive") if kept else None
    except pa.ArrowException as error:
        raise IngestError(f"the types of a column differ: {error}", name) from error
