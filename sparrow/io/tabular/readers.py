"""Readers of tables: CSV, JSON lines, Parquet, Arrow, Polars, DuckDB."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path, PurePath
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparrow.core.array_validation import check_arrow
from sparrow.errors import (
    IngestError,
    InvalidValueError,
    LabelError,
    ShapeError,
    SparrowError,
    UnsupportedError,
)
from sparrow.interop.conversion import is_number_type
from sparrow.interop.labelled_objects import frame_to_table, is_frame
from sparrow.io.base.layout import is_number
from sparrow.io.base.report import Report
from sparrow.io.base.source import Source, folder_path, open_sources, total_size
from sparrow.io.base.suggestion import TypedSource
from sparrow.io.tabular.delimited import CsvOptions, CsvReader, LateTextError, MalformedTextError
from sparrow.io.tuning import tuning
from sparrow.runtime.duckdb_connection import quote_name, translate_errors
from sparrow.storage import delta_table, is_tensor
from sparrow.storage.fs.filesystem import get_filesystem

__all__ = [
    "Advance", "ReadSpec", "TableBatch", "TableSource", "constants_of", "find_column", "iter_files", "open_table",
    "read_head",
]  # fmt: skip

_ARROW_FILE, _ARROW_STREAM = b"ARROW1", b"\xff\xff\xff\xff"

_OTHER_DELIMITERS = ("::", ";", "|", "\t", " ")
"""Separators that need an option."""
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_INTEGER = re.compile(r"-?[0-9]{1,18}")

Advance: TypeAlias = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class ReadSpec:
    """Columns to read of a table, and options."""

    columns: list[str]
    csv: CsvOptions | None = None
    """Options of CSV and JSON lines."""
    format: str | None = None
    unread: dict[str, None] | None = field(default=None, compare=False)
    """Receives the names of numeric columns that are not read, as far as the first rows tell; None to ignore them."""
    choose: Callable[[Sequence[str]], list[str]] | None = None
    """Chooses the columns to read from all of them, instead of ``columns``."""
    complex_columns: tuple[str, str] | None = None
    """Columns of real and imaginary parts; the second is optional."""
    positions: Mapping[str, int] = field(default_factory=dict)
    """Positions of columns that are given by number, or without the blanks around their names."""
    resolved: dict[str, str] = field(default_factory=dict, compare=False)
    """Names in the file of such columns."""
    report: Report = field(default_factory=Report, compare=False)
    """Counts of what readers pass over or round."""
    types: dict[str, pa.DataType] = field(default_factory=dict, compare=False)
    """Types of columns of text, decided by the first rows."""

    def restrict_to(
        self, names: Sequence[str], file: str | None, within: Sequence[str] = (), record: Sequence[str] = ()
    ) -> ReadSpec:
        """Return the spec restricted to existing columns, or members ``within`` them.

        Parameters
        ----------
        names
            All columns.
        file
            Name of the file, None for others.
        within
            Members of columns.
        record
            Fields of the first record of delimited text, by which errors tell how to read it.

        Raises
        ------
        IngestError
            If a column is missing, or its name is ambiguous.
        """
        way = self._way_to_read(record)
        shown = ", ".join(repr(name[:80]) for name in [*names, *within][:50])
        found = self
        if self.choose is not None:
            if len(record) == 1 and "delimiter=" in way and "' '" not in way:
                raise IngestError(f"the file has one column, {record[0][:80]!r}: {way[2:]}", file)
            try:
                found = self._with_columns(self.choose(names))
            except (InvalidValueError, LabelError, ShapeError):
                if way:
                    raise IngestError(f"the columns are {shown}{way}", file) from None
                raise
        if (
            self.complex_columns is not None
            and self.complex_columns[1] in names
            and self.complex_columns[1] not in found.columns
        ):
            found = found._with_columns([*found.columns, self.complex_columns[1]], self.complex_columns)
        positions = {}
        for name in found.columns:
            times = list(names).count(name)
            if times == 1:
                continue
            place = None if times else find_column(names, name)
            if place is not None:
                positions[name] = place
                found.resolved[name] = names[place]
            elif times or name not in within:
                what = "there is no column" if not times else f"there are {times} columns"
                numbers = [k for k, each in enumerate(names) if each == name]
                way = f"; name it by its number, {' or '.join(map(str, numbers))}" if times else way
                raise IngestError(f"{what} {name!r}: the columns are {shown}{way}", file)
        places = [positions[name] if name in positions else names.index(name) for name in found.columns if record]
        for at, place in enumerate(places):
            if place in places[:at]:
                one, other = found.columns[places.index(place)], found.columns[at]
                problem = f"columns {one!r} and {other!r} are the same, {names[place]!r}, number {place}"
                raise IngestError(f"{problem}{way or '; the name of a column comes before its number'}", file)
        return replace(found, positions=positions)

    def _way_to_read(self, record: Sequence[str]) -> str:
        """Return options that the first record suggests, else an empty text."""
        start = record[0].strip() if record else ""
        if start.startswith("{"):
            split = ", after jq -c '.' has made a line of each" if start == "{" else ""
            return f"; pass format='json' if these are objects of JSON{split}"
        if start.startswith("[") and "{" in start:
            return "; pass format='json' after jq -c '.[]' has made a line of each object"
        if any(re.fullmatch(r'".*"', each.strip()) for each in record):
            return "; pass quotes=True, since names are in quotes"
        if any("\\x" in each for each in record):
            return "; pass encoding='latin-1' or another, since names are not UTF-8"
        if start.startswith("<"):
            return ": is this HTML or XML, perhaps a page in place of the file?"
        if len(record) == 1 and (mark := next((mark for mark in _OTHER_DELIMITERS if mark in start), None)) is not None:
            return f"; pass delimiter={mark!r}"
        if record and self.csv is not None and self.csv.header and all(map(is_number, record)):
            names = ", ".join([f"c{k}" for k in range(len(record))][:3] + ["..."] * (len(record) > 3))
            return f"; pass header=False if the first line is a row: names are {names} then"
        return ""

    def without(self, names: Collection[str]) -> ReadSpec:
        """Return the specification without the columns that are known."""
        pick = self.choose
        if pick is not None:
            return replace(self, choose=lambda own: [name for name in pick([*own, *names]) if name not in names])
        return self._with_columns([name for name in self.columns if name not in names]) if names else self

    def note_unread(self, schema: pa.Schema) -> None:
        """Keep the names of the numeric columns of a table that are not read."""
        if self.unread is None:
            return
        places = {*self.positions.values()}
        self.unread.update(
            (each.name, None)
            for place, each in enumerate(schema)
            if each.name not in self.columns and place not in places and is_number_type(each.type)
        )

    def _with_columns(self, columns: list[str], floats: Sequence[str] = ()) -> ReadSpec:
        form = self.csv
        if form is not None:
            form = replace(form, columns=columns, floats=(*form.floats, *floats))
        return replace(self, columns=columns, csv=form, choose=None)


def find_column(names: Sequence[str], wanted: str) -> int | None:
    """Return the position of a column by its number, or name without blanks.

    Examples
    --------
    >>> find_column(["id", "id", " n "], "1"), find_column(["id", "id", " n "], "n"), find_column(["a"], "b")
    (1, 2, None)
    """
    stripped = [name.strip() for name in names]
    if wanted and stripped.count(wanted.strip()) == 1:
        return stripped.index(wanted.strip())
    return int(wanted) if re.fullmatch("[0-9]{1,6}", wanted) and int(wanted) < len(names) else None


class TableBatch(NamedTuple):
    """Batch of rows of the wanted columns."""

    data: pa.RecordBatch
    source: str | None
    row: int
    """Number of its first row, from 1 within the source."""
    line_of: Callable[[int], int] | None = None
    """Returns the line of a row, for text."""
    kept: NDArray[np.int64] | None = None
    """Positions of these rows among those read, if some were dropped."""

    def where(self, at: int) -> tuple[int, int | None]:
        """Return row number and line of a row, counted from 0 in the batch."""
        at = at if self.kept is None else int(self.kept[at])
        return self.row + at, None if self.line_of is None else self.line_of(at)


class TableSource(NamedTuple):
    """Table that can be read once."""

    name: str
    size: int | None
    """Bytes to read, for the progress bar."""
    min_bytes: int
    """Lower bound on the size of the tensor, in bytes."""
    batches: Callable[[Advance], Generator[TableBatch]]
    files: Sequence[Source] = ()
    """The files that are read, if it is made of files."""


def open_table(src: Any, spec: ReadSpec) -> TableSource:
    """Return a source as batches of the wanted columns.

    Raises
    ------
    IngestError
        If a column is missing (for files and streams once they are read).
    NotFoundError
        If a file is missing or a pattern matches none.
    UnsupportedError
        If ``src`` is not a table.
    """
    import duckdb

    if (folder := folder_path(src)) is not None and is_tensor(folder):
        return TableSource(folder, None, 0, lambda advance: _delta(folder, spec))
    if isinstance(src, str | os.PathLike) or (isinstance(src, list | tuple) and src) or hasattr(src, "read"):
        sources = open_sources(src)
        size = total_size(sources)
        return TableSource(
            ", ".join(source.name for source in sources),
            size,
            (size or 0) // tuning().min_compression,
            lambda advance: iter_files(sources, spec, advance),
            sources,
        )
    kind = type(src).__name__
    if isinstance(src, duckdb.DuckDBPyRelation):
        spec = spec.restrict_to(list(src.columns), None)
        if spec.unread is not None:
            spec.note_unread(src.limit(0).to_arrow_table().schema)
        names = {name: src.columns[place] for name, place in spec.positions.items()}
        wanted = ", ".join(f"{quote_name(names.get(name, name))} as {quote_name(name)}" for name in spec.columns)
        return TableSource(
            kind, None, 0, lambda advance: _stream(src.project(wanted).to_arrow_reader(tuning().batch_rows), spec)
        )
    if kind == "LazyFrame" and hasattr(src, "collect_batches"):
        spec = spec.restrict_to(src.collect_schema().names(), None)
        if spec.unread is not None:
            spec.note_unread(src.collect_schema().to_frame().to_arrow().schema)
        frames, plain = _project(src, spec), replace(spec, positions={})
        return TableSource(
            kind,
            None,
            0,
            lambda advance: _stream(
                chain.from_iterable(
                    pa.table(frame).to_batches() for frame in frames.collect_batches(chunk_size=tuning().batch_rows)
                ),
                plain,
            ),
        )
    if is_frame(src):
        src = frame_to_table(src)
    if hasattr(src, "__arrow_c_stream__"):

        def read(advance: Advance) -> Generator[TableBatch]:
            with pa.RecordBatchReader.from_stream(src) as reader:
                yield from _stream(reader, _restrict(spec, reader.schema, None))

        return TableSource(kind, None, 0, read)
    raise UnsupportedError(
        f"src must be a path, a list of paths, an object with __arrow_c_stream__, a Polars LazyFrame or a DuckDB "
        f"relation, got {kind}"
    )


def _delta(folder: str, spec: ReadSpec) -> Generator[TableBatch]:
    """Yield the rows of a Delta table of another tool."""
    with delta_table(folder) as frame:
        found = spec.restrict_to(frame.collect_schema().names(), folder)
        if found.unread is not None:
            found.note_unread(frame.collect_schema().to_frame().to_arrow().schema)
        frames = _project(frame, found).collect_batches(chunk_size=tuning().batch_rows)
        batches = (batch for each in frames for batch in pa.table(each).to_batches())
        for batch in _stream(batches, replace(found, positions={})):
            yield batch._replace(source=folder)


def _restrict(spec: ReadSpec, schema: pa.Schema, file: str | None) -> ReadSpec:
    """Return the spec of columns of a schema, with members such as ``user.id``."""

    def members(field: pa.Field) -> Iterator[str]:
        for inner in field.type if pa.types.is_struct(field.type) else ():
            yield f"{field.name}.{inner.name}"
            yield from members(inner.with_name(f"{field.name}.{inner.name}"))

    found = spec.restrict_to(schema.names, file, [name for field in schema for name in members(field)])
    found.note_unread(schema)
    return found


def _select(batch: pa.RecordBatch, spec: ReadSpec) -> pa.RecordBatch:
    """Return columns of a batch, or members of structs in them."""
    found = []
    for name in spec.columns:
        place = spec.positions.get(name) if name not in batch.schema.names else None
        path = [name] if name in batch.schema.names or place is not None else name.split(".")
        column = batch.column(path[0] if place is None else place)
        found.append(pc.struct_field(column, path[1:]) if path[1:] else column)
    return pa.RecordBatch.from_arrays(found, list(spec.columns))


def _project(frame: Any, spec: ReadSpec) -> Any:
    """Return a Polars lazy frame with the columns, under the names asked for."""
    import polars as pl

    names = frame.collect_schema().names()
    return frame.select([
        pl.nth(spec.positions[name]).alias(name) if name in spec.positions and name not in names else pl.col(name)
        for name in spec.columns
    ])  # fmt: skip


def _stream(batches: Any, spec: ReadSpec) -> Generator[TableBatch]:
    row = 1
    for batch in _validate_batches((_select(batch, spec) for batch in batches), None):
        yield TableBatch(batch, None, row)
        row += batch.num_rows


def _validate_batches(batches: Any, file: str | None) -> Iterator[pa.RecordBatch]:
    """Yield validated batches; what makes them fail becomes an ``IngestError``.

    Offsets, indices and texts from outside are checked before anything follows them.
    """
    import duckdb

    row = 1
    stream = iter(batches)
    while True:
        try:
            with translate_errors():
                batch = next(stream)
        except StopIteration:
            return
        except (pa.ArrowException, duckdb.Error, OSError, ValueError, OverflowError, MemoryError) as error:
            if isinstance(error, SparrowError) or isinstance(error.__cause__, IngestError):
                raise
            if isinstance(error, OSError) and error.errno is not None:  # the system could not read it
                raise
            raise IngestError(f"cannot be read after row {row - 1}: {error}", file) from error
        try:
            check_arrow(batch, "the batch")
        except InvalidValueError as error:
            raise IngestError(f"cannot be read after row {row - 1}: {error}", file) from error
        yield batch
        row += batch.num_rows


def constants_of(sources: Sequence[Source], spec: ReadSpec) -> list[dict[str, pa.Scalar]]:
    """Return, for each file, the values of wanted columns in names of its folders."""
    wanted = None if spec.choose is not None else spec.columns
    return partition_columns(sources, wanted, () if spec.csv is None else spec.csv.texts)


def iter_files(
    sources: Sequence[Source],
    spec: ReadSpec,
    advance: Advance = lambda n: None,
    partitions: Sequence[Mapping[str, pa.Scalar]] | None = None,
) -> Generator[TableBatch]:
    """Yield the rows of files, one after the other.

    Parameters
    ----------
    partitions
        Columns in the names of folders, by default those of these files alone.
    """
    partitions = constants_of(sources, spec) if partitions is None else partitions
    for source, constants in zip(sources, partitions, strict=True):
        with closing(_file(source, spec.without(constants), spec.types, advance)) as batches:
            for batch in batches:
                data = batch.data
                for name, value in constants.items():
                    data = data.append_column(name, pa.repeat(value, data.num_rows))
                yield batch._replace(data=data)


def _file(source: Source, spec: ReadSpec, types: dict[str, pa.DataType], advance: Advance) -> Generator[TableBatch]:
    if not spec.columns and spec.choose is None:
        raise IngestError("all columns are in the names of folders: name one that is in the file", source.name)
    kind = spec.format or _detect_format(source)
    if kind == "csv":
        yield from _csv(source, spec, types, advance)
        return
    if kind == "json":
        yield from _json(source, spec, types, advance)
        return
    if kind == "arrow":
        batches = _arrow(source, spec, advance)
    elif source.path is not None and source.size is not None:
        batches = _parquet(source.path, source.size, spec, advance)
    else:
        raise IngestError("Parquet cannot be read from a pipe or stream: pass the path of a file", source.name)
    row = 1
    for batch in _validate_batches(batches, source.name):
        yield TableBatch(batch, source.name, row)
        row += batch.num_rows


def _csv(source: Source, spec: ReadSpec, types: dict[str, pa.DataType], advance: Advance) -> Generator[TableBatch]:
    assert spec.csv is not None
    row = 1

    def choose(names: list[str], record: list[str]) -> tuple[CsvOptions, Mapping[str, int]]:
        found = spec.restrict_to(names, source.name, record=record)
        assert found.csv is not None
        return found.csv, found.positions

    try:
        reader = CsvReader(source, spec.csv, types, advance, spec.report, choose, spec.unread)
        with closing(reader.batches()) as found:
            for each in found:
                yield TableBatch(each.data, source.name, row, each.line_of)
                row += each.data.num_rows
    except LateTextError as error:
        error.problem = f"cannot be read after row {row - 1}: {error.problem}"
        raise
    except MalformedTextError as error:
        problem = f"cannot be read after row {row - 1}: {error.problem}"
        raise IngestError(problem, source.name, error.line, commands=error.commands) from error


def _json(source: Source, spec: ReadSpec, types: dict[str, pa.DataType], advance: Advance) -> Generator[TableBatch]:
    from sparrow.io.tabular.json_lines import JsonLinesReader

    assert spec.csv is not None
    choose, row = spec.choose, 1
    if (halves := spec.complex_columns) is not None and halves[1] not in spec.columns:

        def choose(own: Sequence[str]) -> list[str]:
            return [*spec.columns, *(name for name in own if name == halves[1])]

    reader = JsonLinesReader(source, spec.csv, types, advance, spec.report, choose, spec.unread)
    with closing(reader.batches()) as found:
        for each in found:
            yield TableBatch(each.data, source.name, row, each.line_of)
            row += each.data.num_rows


def _detect_format(source: Source) -> str:
    if source.stream is not None:
        start = source.stream.peek(9).removeprefix(b"\xef\xbb\xbf")
    elif source.path is None or source.size is None:
        return "csv"
    else:
        with get_filesystem(source.path).open(source.path, size=source.size) as file:
            start = file.read(9).removeprefix(b"\xef\xbb\xbf")
    if start.lstrip()[:1] == b"{" or {".json", ".jsonl", ".ndjson"} & set(Path(source.name).suffixes):
        return "json"
    if start.lstrip()[:1] == b"[" and b"{" in start:
        way = TypedSource.of(source.path or "-").pipe("jq -c '.[]'", "FORMAT", format="json")
        raise IngestError("this is JSON, but not an object in each line", source.name, commands=[way])
    arrow = start.startswith((_ARROW_FILE, _ARROW_STREAM))
    return "parquet" if start[:4] == b"PAR1" else "arrow" if arrow else "csv"


def _parquet(path: str, total: int, spec: ReadSpec, advance: Advance) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    with get_filesystem(path).open(path) as raw, pq.ParquetFile(raw, page_checksum_verification=True) as file:
        spec = _restrict(spec, file.schema_arrow, path)
        rows = max(file.metadata.num_rows, 1)
        names = None if spec.positions else spec.columns  # which _select counts among all
        for batch in file.iter_batches(tuning().batch_rows, columns=names):
            yield _select(batch, spec)
            advance(total * batch.num_rows // rows)


def read_head(path: str, rows: int = 20) -> pa.Table:
    """Return the first rows of a Parquet or Arrow file."""
    import pyarrow.parquet as pq

    with get_filesystem(path).open(path) as raw:
        start = raw.read(len(_ARROW_FILE))
        raw.seek(0)
        if start.startswith(b"PAR1"):
            with pq.ParquetFile(raw) as file:
                batch = next(file.iter_batches(rows), None)
                return file.schema_arrow.empty_table() if batch is None else pa.Table.from_batches([batch])
        opened = pa.ipc.open_file(raw) if start == _ARROW_FILE else pa.ipc.open_stream(raw)
        with opened as reader:
            found = reader.num_record_batches if start == _ARROW_FILE else None
            batch = reader.get_batch(0) if found else next(iter(reader), None) if found is None else None
            return reader.schema.empty_table() if batch is None else pa.Table.from_batches([batch.slice(0, rows)])


def _arrow(source: Source, spec: ReadSpec, advance: Advance) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an Arrow file or stream; a pipe holds the latter."""
    if source.path is None or source.size is None:
        with ExitStack() as stack:
            stream: Any = source.stream or getattr(sys.stdin, "buffer", sys.stdin)
            if source.path is not None:
                stream = stack.enter_context(open(source.path, "rb"))
            reader = stack.enter_context(pa.ipc.open_stream(pa.PythonFile(stream, mode="r")))
            spec = _restrict(spec, reader.schema, source.name)
            yield from (_select(batch, spec) for batch in reader)
        return
    with get_filesystem(source.path).open(source.path, sequential=True) as file:
        is_file = file.read(len(_ARROW_FILE)) == _ARROW_FILE
        file.seek(0)
        if not is_file:
            with pa.ipc.open_stream(file) as reader:
                spec = _restrict(spec, reader.schema, source.name)
                position = 0
                for batch in reader:
                    yield _select(batch, spec)
                    position, before = file.tell(), position
                    advance(position - before)
            return
        with pa.ipc.open_file(file) as reader:
            spec = _restrict(spec, reader.schema, source.name)
            for k in range(reader.num_record_batches):
                yield _select(reader.get_batch(k), spec)
                advance(source.size // reader.num_record_batches)


# -- columns in the names of folders ----------------------------------------------------------------


def partition_columns(
    sources: Sequence[Source], columns: Collection[str] | None, texts: Collection[str] = ()
) -> list[dict[str, pa.Scalar]]:
    """Return, for each file, the values of the columns in the names of its folders.

    Hive and Spark write tables to ``year=2026/month=11/part.parquet``. A column is of integers if all of its values are
    (``month=01`` is 1), of dates if all are, else of texts.

    Parameters
    ----------
    sources
        The files.
    columns
        Columns to read, None for all.
    texts
        Columns that are texts whatever they look like.
    """
    found = [_partition_folders(source.path, columns) for source in sources]
    out: list[dict[str, pa.Scalar]] = [{} for _ in sources]
    for name in {name: None for each in found for name in each}:
        given = [each[name] for each in found if name in each]
        values = iter(_partition_values(given, name in texts))
        for columns_of_file, each in zip(out, found, strict=True):
            if name in each:
                columns_of_file[name] = next(values)
    return out


def _partition_folders(path: str | None, columns: Collection[str] | None) -> dict[str, str | None]:
    out: dict[str, str | None] = {}
    for folder in PurePath(path or "").parts[:-1]:
        name, sign, value = folder.partition("=")
        if sign and (columns is None or unquote(name) in columns):
            out[unquote(name)] = None if value == _HIVE_NULL else unquote(value)
    return out


def _partition_values(values: Sequence[str | None], text: bool) -> pa.Array:
    there = [value for value in values if value is not None]
    if not text and there and all(map(_INTEGER.fullmatch, there)):
        numbers: list[Any] = [None if value is None else int(value) for value in values]
        return pa.array(numbers, pa.int64())
    array = pa.array(values, pa.string())
    if text or not there:
        return array
    try:
        return array.cast(pa.date32())
    except pa.ArrowInvalid:
        return array
