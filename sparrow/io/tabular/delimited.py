"""CSV and its kin as batches: whole records of a block are parsed on threads, and every error knows its line."""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, NoReturn, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparrow.errors import IngestError
from sparrow.io.base.source import Source, TextBlock, max_line_bytes, read_blocks
from sparrow.io.tuning import tuning
from sparrow.runtime import settings
from sparrow.runtime.thread_pool import ordered_map

__all__ = ["CsvOptions", "LateTextError", "MalformedTextError", "ParsedRows", "batches"]

_PARTED = b"\x1f"
"""Stands for what parts columns where that is no single character."""

_NULLS = ["", "NA", "N/A", "n/a", "#N/A", "NULL", "null"]


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """What columns to read of delimited text, and how."""

    columns: list[str]
    floats: tuple[str, ...]
    """Columns that are float64, whatever their first rows look like."""
    texts: tuple[str, ...]
    """Columns that are texts, whatever they look like."""
    coords: tuple[str, ...]
    """Columns whose numbers are texts where one begins with a zero."""
    integers: tuple[str, ...]
    """Columns that are integers, whatever zeros they begin with."""
    header: bool
    delimiter: str | None
    """A character, several, or a blank for any run of blanks and tabs."""
    quotes: bool | None
    comment: str | None = None
    """What begins lines that say nothing."""
    encoding: str | None = None
    decimal: str = "."
    """What parts the whole from the fraction in numbers."""

    @property
    def own(self) -> bool:
        """Whether what parts columns is written as :data:`_PARTED` before the text is parsed."""
        return self.delimiter is not None and (len(self.delimiter) > 1 or self.delimiter == " ") and not self.quotes


def prepared(block: TextBlock, form: CsvOptions) -> TextBlock:
    """Return a block in UTF-8, comments blanked out, its columns parted by one character."""
    text = bytes(block.data)
    if form.encoding is not None:
        try:
            text = text.decode(form.encoding).encode()
        except UnicodeDecodeError as error:
            line = block.line_at(error.start)
            raise IngestError(f"the text is not in {form.encoding}", block.source.name, line) from None
    if form.comment is not None:
        text = re.sub(b"(?m)^[ \\t]*" + re.escape(form.comment.encode()) + b"[^\\n]*", b"", text)
    if form.own:
        if (at := text.find(_PARTED)) >= 0:
            line = block.first_line + text.count(b"\n", 0, at)
            raise IngestError("the text holds the control character 0x1f, which parts columns", block.source.name, line)
        assert form.delimiter is not None
        if form.delimiter == " ":
            text = re.sub(b"[ \\t]+", _PARTED, re.sub(b"(?m)^[ \\t]+|[ \\t\\r]+$", b"", text))
        else:
            text = text.replace(form.delimiter.encode(), _PARTED)
    return replace(block, data=np.frombuffer(bytearray(text), np.uint8))


class ParsedRows(NamedTuple):
    """Rows, and what tells the line of each."""

    data: pa.RecordBatch
    line_of: Callable[[int], int]


def batches(
    source: Source,
    form: CsvOptions,
    types: dict[str, pa.DataType],
    check: Callable[[list[str]], CsvOptions],
    advance: Any,
) -> Generator[ParsedRows]:
    """Yield the rows of a source; the first that has rows settles the types of the columns.

    Parameters
    ----------
    source, form
        What to read.
    types
        The types of columns so far; filled.
    check
        Is given the names of the columns, and returns the form with those to read.
    advance
        Is told the bytes that were read.
    """
    with closing(_blocks(source, form)) as text:
        first = next((block for block in text if bytes(block.data).strip()), None)
        if first is None:
            if form.header:
                raise IngestError("there is no line of column names: the text is empty", source.name)
            return
        start = (
            bytes(first.data[: tuning().delimiter_sample_bytes])
            .decode(errors="replace")
            .lstrip("\r\n")
            .split("\n", 1)[0]
            .rstrip("\r")
        )
        delimiter = form.delimiter or ("\t" if start.count("\t") > start.count(",") else ",")
        if form.own:
            delimiter, form = _PARTED.decode(), replace(form, quotes=False)
        form = replace(form, delimiter=delimiter, quotes=delimiter != "\t" if form.quotes is None else form.quotes)
        cut = _cut(first, text, form, advance)
        head = next(cut)
        names, head = _names(head, form)
        told = check(names)
        parser = _Parser(names, replace(form, columns=told.columns, floats=told.floats), types)
        begun = parser.settle(head, cut)
        parsed = cast("Generator[ParsedRows]", ordered_map(parser.parse, begun, settings.current().threads))
        with closing(parsed):
            yield from parsed


def _blocks(source: Source, form: CsvOptions) -> Generator[TextBlock]:
    """Yield the blocks of a source, prepared."""
    plain = form.encoding is None and form.comment is None and not form.own
    with closing(read_blocks(source)) as text:
        for block in text:
            yield block if plain else prepared(block, form)


def _cut(first: TextBlock, text: Iterator[TextBlock], form: CsvOptions, advance: Any) -> Iterator[TextBlock]:
    """Yield blocks of whole records: a quoted field may hold line ends, and so the end of a block."""
    from sparrow.kernels.parse.delimited import scan_records

    assert form.delimiter is not None
    held: TextBlock | None = None
    nothing = np.empty(0, np.int64)
    longest = max_line_bytes()
    block: TextBlock | None = first
    while block is not None:
        advance(block.advance)
        if held is not None:
            block = replace(block, data=np.concatenate([held.data, block.data]), first_line=held.first_line,
                            lines=held.lines + block.lines)  # fmt: skip
            held = None
        data: Any = block.data
        if form.quotes and bytes(memoryview(data)).find(b'"') >= 0:
            end, line = scan_records(data, ord(form.delimiter), 34, nothing)
            if end < len(data):
                held = replace(block, data=data[end:], first_line=block.first_line + line, lines=block.lines - line)
                block = replace(block, data=data[:end], lines=line)
                if len(held.data) > longest:
                    _unclosed(held)
        if len(block.data):
            yield block
        block = next(text, None)
    if held is not None:
        _unclosed(held)


def _unclosed(block: TextBlock) -> NoReturn:
    token = block.text(0, 200).split("\n", 1)[0]
    raise IngestError(
        "a quote that opens here is never closed: pass quotes=False if quotes are characters like others",
        block.source.name,
        block.first_line,
        token,
    )


def _names(block: TextBlock, form: CsvOptions) -> tuple[list[str], TextBlock]:
    """Return the names of the columns, and the block without the record that tells them."""
    from sparrow.kernels.parse.delimited import scan_records

    assert form.delimiter is not None
    lines = np.zeros(2, np.int64)
    lines[1] = -1
    scan_records(block.data, ord(form.delimiter), 34 if form.quotes else -1, lines)
    ends = np.flatnonzero(block.data == 10)
    stop = len(ends) if lines[1] < 0 else int(lines[1])
    begin = 0 if not lines[0] else int(ends[lines[0] - 1]) + 1
    text = block.text(begin, int(ends[stop - 1]) + 1)
    reader = partial(csv.reader, text.splitlines(keepends=True), delimiter=form.delimiter)
    try:
        names = next(reader() if form.quotes else reader(quoting=csv.QUOTE_NONE))
    except csv.Error as error:  # a name of more than 128 kB
        raise IngestError(f"the first record names no columns: {error}", block.source.name, block.first_line) from None
    if not form.header:
        return [f"c{k}" for k in range(len(names))], block
    below = block.data[int(ends[stop - 1]) + 1 :]
    return names, replace(block, data=below, first_line=block.first_line + stop, lines=block.lines - stop)


class _Parser:
    """Parses blocks, once the types are settled on several threads."""

    def __init__(self, names: list[str], form: CsvOptions, types: dict[str, pa.DataType]) -> None:
        self._names, self._form, self._types = names, form, types
        self._delimiter = form.delimiter or ","
        self._fixed: dict[str, pa.DataType] = {
            **dict.fromkeys(form.floats, pa.float64()), **dict.fromkeys(form.integers, pa.int64()),
            **dict.fromkeys(form.texts, pa.string()), **types
        }  # fmt: skip

    def settle(self, head: TextBlock, rest: Iterator[TextBlock]) -> Iterator[TextBlock]:
        """Settle the types of the columns from the first block that has rows, and yield all blocks."""
        taken = [head]
        while not taken[-1].data.size and (block := next(rest, None)) is not None:
            taken.append(block)
        if taken[-1].data.size:
            try:
                found = self._read(taken[-1], self._fixed)
            except pa.ArrowException as error:
                raise self._error(taken[-1], error) from error
            for field in found.schema:
                if field.name in self._fixed or pa.types.is_null(field.type):
                    continue
                kind = field.type
                if pa.types.is_temporal(kind):
                    kind = pa.string()  # dates stay the texts that they are
                elif field.name in self._form.coords and self._padded(taken[-1], field) is not None:
                    kind = pa.string()
                self._fixed[field.name] = self._types[field.name] = kind
        yield from taken
        yield from rest

    def parse(self, block: TextBlock) -> ParsedRows:
        """Return the rows of a block."""
        try:
            table = self._read(block, self._fixed)
        except pa.ArrowException as error:
            raise self._error(block, error) from error
        for field in table.schema:
            if field.name in self._form.coords and (late := self._padded(block, field)) is not None:
                row, token = late
                raise LateTextError(
                    field.name,
                    f"column {field.name!r} begins with a zero, after numbers that do not: pass text=[{field.name!r}] "
                    "to take it as text",
                    block.source.name,
                    self._line(block, row),
                    token,
                )
        rows = table.combine_chunks().to_batches()
        data = rows[0] if rows else pa.RecordBatch.from_pylist([], schema=table.schema)
        return ParsedRows(data, lambda row: self._line(block, row))

    def _read(self, block: TextBlock, types: dict[str, pa.DataType]) -> pa.Table:
        """Return the fields of a block. One that is empty is a null; of texts ``NA``, ``null``, ... are none."""
        if not block.data.size:
            fields = [pa.field(name, types.get(name, pa.null())) for name in self._form.columns]
            return pa.schema(fields).empty_table()
        table = self._fields(block, self._form.columns, types, null_values=_NULLS)
        empty = {
            field.name: field.type
            for field, column in zip(table.schema, table.columns, strict=True)
            if pa.types.is_string(field.type) and pc.any(pc.equal(column, "")).as_py()
        }
        if not empty:
            return table
        # What is set in quotes is a text, however short.
        texts = self._fields(
            block, list(empty), empty, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
        )
        for name in empty:
            at = table.schema.get_field_index(name)
            table = table.set_column(at, table.schema.field(at), texts.column(name))
        return table

    def _fields(self, block: TextBlock, columns: list[str], types: dict[str, pa.DataType], **more: Any) -> pa.Table:
        from pyarrow import csv as arrow_csv

        reading = arrow_csv.ReadOptions(
            use_threads=False, block_size=max(len(block.data) + 1, 64), column_names=self._names
        )
        parsing = arrow_csv.ParseOptions(
            delimiter=self._delimiter, quote_char='"' if self._form.quotes else False, newlines_in_values=True
        )
        return arrow_csv.read_csv(
            pa.BufferReader(pa.py_buffer(block.data)),
            read_options=reading,
            parse_options=parsing,
            convert_options=arrow_csv.ConvertOptions(
                include_columns=columns, column_types=types, decimal_point=self._form.decimal, **more
            ),
        )

    def _padded(self, block: TextBlock, field: pa.Field) -> tuple[int, str] | None:
        """Return the first row, and the text, of an integer column that begins with a zero."""
        from sparrow.kernels.parse.delimited import has_padded_field

        known = field.name in self._form.integers
        if known or not pa.types.is_integer(field.type) or not has_padded_field(block.data, ord(self._delimiter)):
            return None
        texts = self._read(block, {**self._fixed, field.name: pa.string()}).column(field.name).combine_chunks()
        found = pc.match_substring_regex(texts, r"^\s*0[0-9]")
        row = pc.index(found, True).as_py()
        return None if row < 0 else (row, texts[row].as_py())

    def _line(self, block: TextBlock, row: int) -> int:
        """Return the line of a row, counted from 1 in the source."""
        from sparrow.kernels.parse.delimited import scan_records

        lines = np.zeros(row + 1, np.int64)
        scan_records(block.data, ord(self._delimiter), 34 if self._form.quotes else -1, lines)
        return block.first_line + int(lines[row])

    def _error(self, block: TextBlock, error: pa.ArrowException) -> IngestError:
        """Return what is wrong, and the line of it."""
        text = str(error)
        found = re.search(r"Row #(\d+): ?", text)
        line = None if found is None else self._line(block, int(found[1]) - 1)
        text = text if found is None else text.replace(found[0], "", 1)
        column = re.search(r"In CSV column #(\d+): ", text)
        if column is None:
            return MalformedTextError(f"{text}{self._one_more(text, block)}", block.source.name, line)
        text = text.replace(column[0], "", 1)
        name = self._names[int(column[1])]
        if "invalid UTF8" in text:
            problem = f"column {name!r} is no UTF-8: pass encoding='latin-1' or another"
            return MalformedTextError(problem, block.source.name, line)
        hint = f"pass text=[{name!r}] to take the column as text"
        problem = f"column {name!r}: {text}; the first rows settle the type of a column: "
        if name not in self._form.coords:
            problem += "pass dtype='float64' for later values with decimals"
            return MalformedTextError(problem, block.source.name, line)
        return LateTextError(name, problem + hint, block.source.name, line)

    def _one_more(self, text: str, block: TextBlock) -> str:
        """Return the way out where lines have one cell more than there are names."""
        counts = re.search(r"Expected (\d+) columns, got (\d+): (.*)", text)
        if counts is None or int(counts[2]) != int(counts[1]) + 1 or not self._form.header:
            return ""
        if self._delimiter not in ",;|\t":  # others may say something to a shell, or to sed
            return ""
        parted = "\\t" if self._delimiter == "\t" else self._delimiter
        told, way = "begin with one cell more than there are names, as R writes the names of rows", f"^/row{parted}"
        if counts[3].endswith(self._delimiter):
            told = f"end in {self._delimiter!r}, and the line of names does not"
            way = f"\\r$/{parted}&" if 13 in block.data[:1000] else f"$/{parted}"
        return f"; if lines {told}: sed '1s/{way}/' {shlex.quote(block.source.name)} | sparrow ingest columns - DST ..."


class MalformedTextError(IngestError):
    """Text that pyarrow does not read."""


class LateTextError(IngestError):
    """A text in a column whose first rows are numbers: the table can be read again, with the column as text."""

    def __init__(self, column: str, *about: Any) -> None:
        super().__init__(*about)
        self.column = column

    def __reduce__(self) -> Any:
        return type(self), (self.column, *self.args)
