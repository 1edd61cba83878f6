"""Tables of named columns: CSV, Parquet, Arrow.

Readers yield batches of selected columns, from Polars and DuckDB too; :mod:`sparrow.io.tabular.options` makes tensors
of them. Writers emit one column per dimension and one for the values, two for complex values.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparrow.errors import IngestError, SparrowError, UnsupportedError
from sparrow.io.base.registry import Format, Option, Writer
from sparrow.io.base.source import Source, open_sources, total_size
from sparrow.io.tabular import delimited
from sparrow.io.tabular.delimited import CsvOptions
from sparrow.io.tabular.partitions import partitions
from sparrow.io.tuning import tuning
from sparrow.runtime.duckdb_connection import quote_name, translate_errors
from sparrow.runtime.progress import bar
from sparrow.storage.fs.filesystem import get_filesystem

__all__ = ["FORMATS", "ReadSpec", "TableBatch", "TableSource", "TableWriter", "open_table"]

_ARROW_FILE, _ARROW_STREAM = b"ARROW1", b"\xff\xff\xff\xff"

Advance: TypeAlias = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class ReadSpec:
    """What to read of a table, and how."""

    columns: list[str]
    form: CsvOptions | None = None
    """How CSV is read."""
    format: str | None = None
    seen: set[str] = field(default_factory=set, compare=False)
    """Names of columns that there were, read or not."""
    pick: Callable[[Sequence[str]], list[str]] | None = None
    """Says which columns to read of those that there are, in place of ``columns``."""
    halves: tuple[str, str] | None = None
    """The columns of real and imaginary halves; the second is read too, where it is there, and both as decimals."""

    def among(self, names: Sequence[str], file: str | None, within: Sequence[str] = ()) -> ReadSpec:
        """Return the query of columns that there are, or of members ``within`` them, each once.

        Raises
        ------
        IngestError
            If one is missing, or there are two of its name.
        """
        other = next((mark for mark in ";|\t" if len(names) == 1 and mark in names[0]), None)
        if self.pick is not None and other is not None:
            raise IngestError(f"there is one column, {names[0][:80]!r}; say delimiter={other!r}", file)
        found = self if self.pick is None else self._of(self.pick(names))
        if self.halves is not None and self.halves[1] in names and self.halves[1] not in found.columns:
            found = found._of([*found.columns, self.halves[1]], self.halves)
        found.seen.update(names)
        for name in found.columns:
            times = list(names).count(name)
            if times != 1 and (times or name not in within):
                what = "there is no column" if not times else f"there are {times} columns"
                way = "" if other is None else f"; say delimiter={other!r}"
                shown = ", ".join(repr(name[:80]) for name in [*names, *within][:50])
                raise IngestError(f"{what} {name!r}: the columns are {shown}{way}", file)
        return found

    def without(self, names: Collection[str]) -> ReadSpec:
        """Return what is left to read where some columns are known."""
        pick = self.pick
        if pick is not None:
            return replace(self, pick=lambda own: [name for name in pick([*own, *names]) if name not in names])
        return self._of([name for name in self.columns if name not in names]) if names else self

    def _of(self, columns: list[str], floats: Sequence[str] = ()) -> ReadSpec:
        form = self.form
        if form is not None:
            form = replace(form, columns=columns, floats=(*form.floats, *floats))
        return replace(self, columns=columns, form=form, pick=None)


class TableBatch(NamedTuple):
    """Rows of the wanted columns."""

    data: pa.RecordBatch
    source: str | None
    row: int
    """The number of its first row, counted from 1 within the source."""
    line_of: Callable[[int], int] | None = None
    """Tells the line of each row, where there are lines."""
    kept: NDArray[np.int64] | None = None
    """Which of the rows that were read these are, where some were dropped."""

    def where(self, at: int) -> tuple[int, int | None]:
        """Return the number and the line of a row, counted from 0 in the batch."""
        at = at if self.kept is None else int(self.kept[at])
        return self.row + at, None if self.line_of is None else self.line_of(at)


class TableSource(NamedTuple):
    """A table to read once."""

    name: str
    size: int | None
    """What the progress of reading is measured in."""
    least: int
    """The fewest bytes that the tensor takes."""
    batches: Callable[[Advance], Generator[TableBatch]]


def open_table(src: Any, query: ReadSpec) -> TableSource:
    """Return what ``src`` is, as batches of the wanted columns.

    Raises
    ------
    IngestError
        If a column is missing (for files and streams once they are read).
    NotFoundError
        If a file is missing or a pattern matches none.
    UnsupportedError
        If ``src`` is no table.
    """
    import duckdb

    if isinstance(src, str | os.PathLike) or (isinstance(src, list | tuple) and src):
        sources = open_sources(src)
        size = total_size(sources)
        return TableSource(
            ", ".join(source.name for source in sources),
            size,
            (size or 0) // tuning().min_compression,
            lambda advance: _files(sources, query, advance),
        )
    kind = type(src).__name__
    if isinstance(src, duckdb.DuckDBPyRelation):
        query = query.among(list(src.columns), None)
        wanted = ", ".join(map(quote_name, query.columns))
        return TableSource(
            kind, None, 0, lambda advance: _stream(src.project(wanted).to_arrow_reader(tuning().batch_rows), query)
        )
    if kind == "LazyFrame" and hasattr(src, "collect_batches"):
        query = query.among(src.collect_schema().names(), None)
        frames = src.select(query.columns)
        return TableSource(
            kind,
            None,
            0,
            lambda advance: _stream(
                chain.from_iterable(
                    pa.table(frame).to_batches() for frame in frames.collect_batches(chunk_size=tuning().batch_rows)
                ),
                query,
            ),
        )
    if hasattr(src, "__arrow_c_stream__"):

        def read(advance: Advance) -> Generator[TableBatch]:
            with pa.RecordBatchReader.from_stream(src) as reader:
                yield from _stream(reader, _among(query, reader.schema, None))

        return TableSource(kind, None, 0, read)
    raise UnsupportedError(
        f"a {kind} is no table: give a path, a list of paths, an object with __arrow_c_stream__, "
        "a Polars LazyFrame or a DuckDB relation"
    )


def _among(query: ReadSpec, schema: pa.Schema, file: str | None) -> ReadSpec:
    """Return the query of columns of a schema; what is in objects is called as in JSON lines, ``user.id``."""

    def members(field: pa.Field) -> Iterator[str]:
        for inner in field.type if pa.types.is_struct(field.type) else ():
            yield f"{field.name}.{inner.name}"
            yield from members(inner.with_name(f"{field.name}.{inner.name}"))

    return query.among(schema.names, file, [name for field in schema for name in members(field)])


def _picked(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """Return some columns of a batch, or members of objects in them."""
    found = []
    for name in columns:
        path = [name] if name in batch.schema.names else name.split(".")
        column = batch.column(path[0])
        found.append(pc.struct_field(column, path[1:]) if path[1:] else column)
    return pa.RecordBatch.from_arrays(found, list(columns))


def _stream(batches: Any, query: ReadSpec) -> Generator[TableBatch]:
    row = 1
    for batch in _checked((_picked(batch, query.columns) for batch in batches), None):
        yield TableBatch(batch, None, row)
        row += batch.num_rows


def _checked(batches: Any, file: str | None) -> Iterator[pa.RecordBatch]:
    """Yield batches; what makes them fail becomes an ``IngestError``.

    Offsets, indices and texts that come from outside are looked at before anything follows them.
    """
    import duckdb

    row = 1
    stream = iter(batches)
    while True:
        try:
            with translate_errors():
                batch = next(stream)
            batch.validate(full=True)
        except StopIteration:
            return
        except (pa.ArrowException, duckdb.Error, OSError, ValueError, OverflowError, MemoryError) as error:
            if isinstance(error, SparrowError) or isinstance(error.__cause__, IngestError):
                raise
            raise IngestError(f"cannot be read after row {row - 1}: {error}", file) from error
        yield batch
        row += batch.num_rows


def _files(sources: Sequence[Source], query: ReadSpec, advance: Advance) -> Generator[TableBatch]:
    types: dict[str, pa.DataType] = {}
    wanted = None if query.pick is not None else query.columns
    told = partitions(sources, wanted, () if query.form is None else query.form.texts)
    for source, constants in zip(sources, told, strict=True):
        with closing(_file(source, query.without(constants), types, advance)) as batches:
            for batch in batches:
                data = batch.data
                for name, value in constants.items():
                    data = data.append_column(name, pa.repeat(value, data.num_rows))
                yield batch._replace(data=data)


def _file(source: Source, query: ReadSpec, types: dict[str, pa.DataType], advance: Advance) -> Generator[TableBatch]:
    if not query.columns and query.pick is None:
        raise IngestError("folders tell all columns that are asked for: name one that is in the file", source.name)
    kind = query.format or _format(source)
    if kind == "csv":
        yield from _csv(source, query, types, advance)
        return
    if kind == "json":
        yield from _json(source, query, types, advance)
        return
    if kind == "arrow":
        batches = _arrow(source, query, advance)
    elif source.path is not None and source.size is not None:
        batches = _parquet(source.path, source.size, query, advance)
    else:
        raise IngestError("parquet cannot be read from a pipe: give a file", source.name)
    row = 1
    for batch in _checked(batches, source.name):
        yield TableBatch(batch, source.name, row)
        row += batch.num_rows


def _csv(source: Source, query: ReadSpec, types: dict[str, pa.DataType], advance: Advance) -> Generator[TableBatch]:
    assert query.form is not None
    row = 1

    def check(names: list[str]) -> CsvOptions:
        found = query.among(names, source.name).form
        assert found is not None
        return found

    try:
        with closing(delimited.batches(source, query.form, types, check, advance)) as found:
            for each in found:
                yield TableBatch(each.data, source.name, row, each.line_of)
                row += each.data.num_rows
    except delimited.LateTextError as error:
        error.problem = f"cannot be read after row {row - 1}: {error.problem}"
        raise
    except delimited.MalformedTextError as error:
        raise IngestError(f"cannot be read after row {row - 1}: {error.problem}", source.name, error.line) from error


def _json(source: Source, query: ReadSpec, types: dict[str, pa.DataType], advance: Advance) -> Generator[TableBatch]:
    from sparrow.io.tabular import json_lines

    assert query.form is not None
    pick, row = query.pick, 1
    if (halves := query.halves) is not None and halves[1] not in query.columns:

        def pick(own: Sequence[str]) -> list[str]:
            return [*query.columns, *(name for name in own if name == halves[1])]

    with closing(json_lines.batches(source, query.form, types, advance, pick)) as found:
        for each in found:
            yield TableBatch(each.data, source.name, row, each.line_of)
            row += each.data.num_rows


def _format(source: Source) -> str:
    if source.path is None or source.size is None:
        return "csv"
    with get_filesystem(source.path).open(source.path, size=source.size) as file:
        start = file.read(9).removeprefix(b"\xef\xbb\xbf")
    if start.lstrip()[:1] == b"{" or {".json", ".jsonl", ".ndjson"} & set(Path(source.name).suffixes):
        return "json"
    if start.lstrip()[:1] == b"[" and b"{" in start:
        way = f"jq -c '.[]' {shlex.quote(source.name)} | sparrow ingest columns - DST --format json ..."
        raise IngestError(f"this is JSON, but no object in each line: {way}", source.name)
    arrow = start.startswith((_ARROW_FILE, _ARROW_STREAM))
    return "parquet" if start[:4] == b"PAR1" else "arrow" if arrow else "csv"


def _parquet(path: str, total: int, query: ReadSpec, advance: Advance) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    with get_filesystem(path).open(path) as raw, pq.ParquetFile(raw, page_checksum_verification=True) as file:
        query = _among(query, file.schema_arrow, path)
        rows = max(file.metadata.num_rows, 1)
        for batch in file.iter_batches(tuning().batch_rows, columns=query.columns):
            yield _picked(batch, query.columns)
            advance(total * batch.num_rows // rows)


def _arrow(source: Source, query: ReadSpec, advance: Advance) -> Iterator[pa.RecordBatch]:
    """Yield the batches of Arrow's file format or of its stream format; a pipe holds the latter."""
    if source.path is None or source.size is None:
        with ExitStack() as stack:
            stream: Any = getattr(sys.stdin, "buffer", sys.stdin)
            if source.path is not None:
                stream = stack.enter_context(open(source.path, "rb"))
            reader = stack.enter_context(pa.ipc.open_stream(pa.PythonFile(stream, mode="r")))
            query = _among(query, reader.schema, source.name)
            yield from (_picked(batch, query.columns) for batch in reader)
        return
    with get_filesystem(source.path).open(source.path, sequential=True) as file:
        whole = file.read(len(_ARROW_FILE)) == _ARROW_FILE
        file.seek(0)
        if not whole:
            with pa.ipc.open_stream(file) as reader:
                query = _among(query, reader.schema, source.name)
                told = 0
                for batch in reader:
                    yield _picked(batch, query.columns)
                    told, before = file.tell(), told
                    advance(told - before)
            return
        with pa.ipc.open_file(file) as reader:
            query = _among(query, reader.schema, source.name)
            for k in range(reader.num_record_batches):
                yield _picked(reader.get_batch(k), query.columns)
                advance(source.size // reader.num_record_batches)


# -- writing ---------------------------------------------------------------------------------------


@dataclass
class TableWriter(Writer):
    """Write the entries of a tensor as a table, by default as text."""

    _: KW_ONLY
    labels: Annotated[bool, Option("Labels or numbers, where there are both.", flag="--labels/--numbers")] = True

    writes_labels: ClassVar[bool] = True
    delimiter: ClassVar[str] = ","
    quoting: ClassVar[str] = "needed"
    called: ClassVar[str] = "a table"
    comment: ClassVar[str] = ""
    """What the line of names begins with."""

    @cached_property
    def named(self) -> dict[int, pa.Array]:
        """The labels that are written instead of coordinates, by axis."""
        tensor = self.tensor
        labels = ((axis, tensor.labels(axis)) for axis in range(tensor.ndim) if self.labels)
        return {axis: found for axis, found in labels if found is not None}

    structure: ClassVar[tuple[str, str]] = ("", "")
    """A pattern of what labels must not hold, for it parts columns or says something else, and what that is."""

    def check(self) -> None:
        """Raise ``UnsupportedError`` for a tensor that the format cannot hold."""
        pattern, what = self.structure
        for axis, found in self.named.items() if pattern else ():
            if pa.types.is_integer(found.type):
                continue
            texts = found.cast(pa.string())
            at = pc.index(pc.match_substring_regex(texts, pattern), True).as_py()
            if at >= 0:
                raise UnsupportedError(
                    f"the label {texts[at].as_py()!r} of {self.tensor.dims[axis]!r} cannot be written in "
                    f"{self.called}, where {what}: write numbers with labels=False, or csv"
                )

    def schema(self) -> pa.Schema:
        """Return the columns as they are written."""
        schema = pa.RecordBatchReader.from_stream(self.tensor).schema
        for axis, found in self.named.items():
            schema = schema.set(axis, pa.field(schema.field(axis).name, found.type, nullable=False))
        if self.text:  # text is written of plain numbers
            for k, field in enumerate(schema):
                if pa.types.is_float16(field.type):
                    schema = schema.set(k, field.with_type(pa.float32()))
        return schema

    @contextmanager
    def batches(self, file: Any, schema: pa.Schema) -> Iterator[Callable[[pa.RecordBatch], Any]]:
        """Return what writes batches of a schema to a file, within a block."""
        from pyarrow import csv as arrow_csv

        names = [f'"{name.replace(chr(34), chr(34) * 2)}"' if self.delimiter in name else name for name in schema.names]
        file.write((self.comment + self.delimiter.join(names) + "\n").encode())
        options = arrow_csv.WriteOptions(include_header=False, delimiter=self.delimiter, quoting_style=self.quoting)
        with arrow_csv.CSVWriter(pa.PythonFile(file, mode="w"), schema, write_options=options) as text:
            yield text.write_batch

    def write(self) -> int:
        """Write the file and return the number of rows."""
        tensor, rows = self.tensor, 0
        self.check()
        schema = self.schema()
        with (
            self.sink() as file,
            self.batches(file, schema) as write,
            bar("exporting", tensor.nnz, "entries") as advance,
        ):
            for batch in tensor.to_batches():
                columns = list(batch.columns)
                for axis, found in self.named.items():
                    columns[axis] = found.take(columns[axis])
                columns = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
                write(pa.RecordBatch.from_arrays(columns, schema=schema))
                rows += batch.num_rows
                advance(batch.num_rows)
        return rows


@dataclass
class TsvWriter(TableWriter):
    """Write the entries as columns parted by tabs, without quotes."""

    delimiter: ClassVar[str] = "\t"
    quoting: ClassVar[str] = "none"
    structure: ClassVar[tuple[str, str]] = (
        r"[\t\r\n\"]|^$",
        "tabs, line ends and quotes part columns, and nothing stands for a null",
    )
    called: ClassVar[str] = "lines parted by tabs"


@dataclass
class ParquetWriter(TableWriter):
    """Write the entries as Parquet."""

    text: ClassVar[bool] = False

    @contextmanager
    def batches(self, file: Any, schema: pa.Schema) -> Iterator[Callable[[pa.RecordBatch], Any]]:
        """Return what writes batches of a schema to a file, within a block."""
        import pyarrow.parquet as pq

        with pq.ParquetWriter(file, schema, compression="zstd", write_page_checksum=True) as parquet:
            yield parquet.write_batch


@dataclass
class ArrowWriter(TableWriter):
    """Write the entries as an Arrow file."""

    text: ClassVar[bool] = False

    @contextmanager
    def batches(self, file: Any, schema: pa.Schema) -> Iterator[Callable[[pa.RecordBatch], Any]]:
        """Return what writes batches of a schema to a file, within a block."""
        with pa.ipc.new_file(file, schema) as arrow:
            yield arrow.write_batch


FORMATS = (
    Format("parquet", "Parquet.", writer=ParquetWriter, suffixes=(".parquet",)),
    Format("arrow", "Arrow files.", writer=ArrowWriter, suffixes=(".arrow", ".ipc", ".feather")),
    Format("csv", "Columns parted by commas.", writer=TableWriter, suffixes=(".csv",)),
    Format("tsv", "Columns parted by tabs.", writer=TsvWriter, suffixes=(".tsv",)),
)
"""What is written; reading them all is the format ``columns``."""
