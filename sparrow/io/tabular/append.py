"""Tables and tensors named by a path, to append: files, stored tensors, Delta."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import PurePath
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from sparrow import storage
from sparrow.core.label_types import is_string_type
from sparrow.errors import IngestError, InvalidValueError, LabelError, NotFoundError, UnsupportedError
from sparrow.interop.conversion import collect_table
from sparrow.io.base.registry import DeclaredOption, options_of
from sparrow.io.base.source import Source, folder_path, open_sources
from sparrow.io.tabular.delimited import LateTextError
from sparrow.io.tabular.options import Columns
from sparrow.io.tabular.readers import ReadSpec, find_column, open_table
from sparrow.io.tuning import tuning
from sparrow.runtime import memory
from sparrow.storage.fs.filesystem import get_filesystem
from sparrow.storage.fs.remote_file import pin_file_versions
from sparrow.tensor import Tensor

__all__ = ["is_stored_tensor", "read_appended", "reading_options"]

_READING = ("coords", "header", "delimiter", "quotes", "comment", "encoding", "decimal", "format")
_OPTIONS = (*_READING, "index_base")

_TABLES = {".csv", ".tsv", ".txt", ".parquet", ".arrow", ".feather", ".ipc", ".json", ".jsonl", ".ndjson"}
_COMPRESSED = {".gz", ".zst", ".bz2"}


def reading_options() -> tuple[DeclaredOption, ...]:
    """Return the options of ``columns`` that describe how a table is stored in files."""
    own = (each for each in options_of(Columns) if each.name in _OPTIONS)
    return tuple(each._replace(default=None) if each.name == "coords" else each for each in own)


def is_stored_tensor(src: str | os.PathLike[str]) -> bool:
    """Return whether a path is that of a stored tensor, and not of a table."""
    folder = folder_path(src)
    return folder is not None and storage.is_tensor(folder) and _open_tensor(folder) is not None


def _open_tensor(folder: str) -> Tensor | None:
    """Return a stored tensor; None for a Delta table of another tool."""
    try:
        return Tensor(storage.open(folder))
    except NotFoundError:
        return None


@pin_file_versions()
def read_appended(
    src: str | os.PathLike[str],
    choose: Callable[[Sequence[str]], list[str]],
    kinds: Mapping[str, pa.DataType | None],
    reading: Mapping[str, Any] = MappingProxyType({}),
    value: str | None = None,
) -> Any:
    """Return the source at a path, as a tensor or a table in memory.

    Parameters
    ----------
    src
        A file, a pattern, ``"-"`` for standard input, a folder of files, of ``name=value`` folders or of Parquet, a
        stored tensor, or a Delta table of another tool.
    choose
        Returns the columns to read, given all of them.
    kinds
        Types of the labels of each dimension, None for those without labels.
    reading
        Options of ``columns`` on how files are read, of which ``coords`` are the columns of the dimensions.
    value
        Column of the values, which ``choose`` asks for: the table has it by this name, if it is a number, too.

    Raises
    ------
    InvalidValueError
        If an option is unknown, or a stored table is read with some.
    LabelError
        If a column of ``coords`` is missing.
    NotFoundError
        If nothing exists.
    UnsupportedError
        If the suffix of a file is not that of a table.
    IngestError
        If a file cannot be read: with file and line.
    CorruptionError
        If a file of a Delta table is missing, damaged or a link.
    TooLargeError
        If the columns would exceed the memory limit.
    """
    for name in reading:
        if name not in _READING:
            raise InvalidValueError(f"options of append must be among {', '.join(_OPTIONS)}, got {name!r}")
    folder = folder_path(src)
    if folder is not None and storage.is_tensor(folder):
        if reading:
            raise InvalidValueError(f"{', '.join(reading)} apply to files only, {folder!r} is a stored tensor")
        if (tensor := _open_tensor(folder)) is not None:
            return tensor
        with storage.delta_table(folder) as frame:
            return collect_table(frame, choose(frame.collect_schema().names()), None)
    sources = _sources(src, folder, "format" in reading)
    given = reading.get("coords")
    coords = [*kinds] if given is None else [given] if isinstance(given, str) else given
    if not isinstance(coords, Sequence) or len(coords) != len(kinds):
        raise InvalidValueError(
            f"coords must be a list of a column for each of the dimensions {', '.join(kinds)}, got {coords!r}"
        )
    own = Columns(src, "", **{**reading, "coords": coords}, dims=tuple(kinds))
    dims = dict(zip(own.coord_names, kinds, strict=True))
    texts = tuple(name for name, dim in dims.items() if (kind := kinds[dim]) is not None and is_string_type(kind))
    numbers = tuple(name for name, dim in dims.items() if (kind := kinds[dim]) is None or pa.types.is_integer(kind))
    assert own.spec.csv is not None
    form = replace(own.spec.csv, columns=[], texts=texts, integers=numbers)
    read: list[str] = []

    def choose_and_note(names: Sequence[str]) -> list[str]:
        places = {}
        for name, dim in () if given is None else dims.items():
            place = names.index(name) if list(names).count(name) == 1 else find_column(names, name)
            if place is None:
                there = ", ".join(map(repr, names))
                raise LabelError(f"append: no column {name!r} for the dimension {dim!r}, columns are {there}")
            places[place] = name
        if value is not None and value not in names and (place := find_column(names, value)) is not None:
            places.setdefault(place, value)
        own_names = [places.get(k, name) for k, name in enumerate(names)]
        named = {dims.get(name, name): name for name in own_names if name in dims or name not in kinds}
        try:
            read[:] = [named[name] for name in choose([*named])]
        except LabelError as error:
            if given is None and "for the dimension" in str(error):
                example = [*names, *kinds][: len(kinds)]
                raise LabelError(
                    f"{error}: pass coords= to name those of the dimensions, as {_spell_coords(example)}"
                ) from None
            raise
        return read.copy()

    table = open_table(
        [source.path or "-" for source in sources], ReadSpec([], form, own.format, choose=choose_and_note)
    )
    try:
        found = _collect(table.batches(lambda _: None), table.name)
        found = pa.table({name: pa.nulls(0) for name in read}) if found is None else found
        return found.rename_columns([dims.get(name, name) for name in found.column_names])
    except LateTextError as error:
        dim = dims.get(error.column, error.column)
        way = (
            "its labels are integers"
            if kinds.get(dim) is not None
            else (f"dimension {dim!r} has no labels: add them with set_labels(), or map the column to integers")
        )
        error.problem += f", and {way}" if error.column in numbers else ""
        raise
    except IngestError as error:
        hint = re.search(r"pass (\w+)=", error.problem)
        if hint is not None and hint[1] not in _READING:
            error.problem += ", to sp.ingest.columns, and append the tensor that it stores"
        raise


def _spell_coords(names: Sequence[str]) -> str:
    """Return names of columns as an argument."""
    return f"coords={[str(name) for name in names]}"


def _sources(src: str | os.PathLike[str], folder: str | None, is_format_given: bool) -> list[Source]:
    """Return the files of a path; of a folder without partitions the Parquet files."""
    if folder is not None:
        inside = get_filesystem(folder).glob(os.path.join(glob.escape(folder), "*.parquet"))
        if inside:
            return open_sources(inside)
    sources = open_sources(src)
    for source in sources:
        ends = [end.lower() for end in PurePath(source.path or "-.csv").suffixes] or [""]
        end = ends[-2] if ends[-1] in _COMPRESSED and len(ends) > 1 else ends[-1]
        if end not in _TABLES and not is_format_given:
            raise UnsupportedError(
                f"file must be .csv, .tsv, .jsonl, .parquet or .arrow, got {source.name!r}: pass format='csv' or "
                "another, or ingest it, or read it as a frame, and append that"
            )
    return sources


def _collect(batches: Any, name: str) -> pa.Table | None:
    """Return batches as one table, None if there are none."""
    kept: list[pa.Table] = []
    rows = 0
    way = "store it with sp.ingest.columns, at any length, and append that tensor"
    with memory.reserve(0, "", way) as room, closing(batches):
        for batch in batches:
            kept.append(pa.Table.from_batches([batch.data]))
            rows += batch.data.num_rows
            room.what = f"a table of more than {rows} rows, on its way into memory,"
            room.grow(tuning().append_copies * batch.data.nbytes)
    try:
        return pa.concat_tables(kept, promote_options="permissive") if kept else None
    except pa.ArrowException as error:
        raise IngestError(f"the types of a column differ: {error}", name) from error
