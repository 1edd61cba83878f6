"""Delimited text (CSV) as record batches; errors know their line."""

from __future__ import annotations

import contextlib
import csv
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple, NoReturn, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparrow.core.casting import is_rounded_integer, misfit_message, parse_digits
from sparrow.errors import IngestError
from sparrow.interop.conversion import is_number_type
from sparrow.io.base.layout import digits_as_integer, is_integral, is_number
from sparrow.io.base.report import Report
from sparrow.io.base.source import Source, TextBlock, compression_of, max_line_bytes, read_blocks
from sparrow.io.base.suggestion import TypedSource
from sparrow.io.tuning import tuning
from sparrow.runtime import settings
from sparrow.runtime.thread_pool import ordered_map

__all__ = [
    "CsvOptions",
    "CsvReader",
    "LateTextError",
    "MalformedTextError",
    "ParsedRows",
    "TextTableReader",
    "may_be_rounded",
]

_SEPARATOR = b"\x1f"
"""Separator that replaces those of several characters, and runs of blanks."""

_RECORD_BYTES = 1 << 16
"""Bytes in which the first record is looked for."""
_NULLS = ["", "NA", "N/A", "n/a", "#N/A", "NULL", "null"]


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """Columns to read of delimited text, and its syntax."""

    columns: list[str]
    floats: tuple[str, ...]
    """Columns that are float64, whatever their first rows look like."""
    texts: tuple[str, ...]
    """Columns that are texts, whatever they look like."""
    coords: tuple[str, ...]
    """Columns that are texts if one of their numbers begins with a zero."""
    integers: tuple[str, ...]
    """Columns that are integers, with leading zeros or not."""
    header: bool
    delimiter: str | None
    """One or more characters, or a blank for any run of blanks and tabs."""
    quotes: bool | None
    comment: str | None = None
    """Prefix of lines to ignore."""
    encoding: str | None = None
    decimal: str = "."
    """Decimal separator."""

    @property
    def needs_separator(self) -> bool:
        """True if separators are replaced by :data:`_SEPARATOR` before parsing."""
        return self.delimiter is not None and (len(self.delimiter) > 1 or self.delimiter == " ")


def _normalize(block: TextBlock, options: CsvOptions, report: Report) -> TextBlock:
    """Return a block in UTF-8, comments blanked out, with one-character separators."""
    text = bytes(block.data)
    if options.encoding is not None:
        try:
            text = text.decode(options.encoding).encode()
        except UnicodeDecodeError as error:
            line = block.line_at(error.start)
            raise IngestError(f"the text is not {options.encoding}", block.source.name, line) from None
    if options.comment is not None:
        text, comments = re.subn(b"(?m)^[ \\t]*" + re.escape(options.comment.encode()) + b"[^\\n]*", b"", text)
        report.add(comments=comments)
    if options.needs_separator:
        if (at := text.find(_SEPARATOR)) >= 0:
            line = block.first_line + text.count(b"\n", 0, at)
            raise IngestError(
                "the text holds the control character 0x1f, which is reserved as separator", block.source.name, line
            )
        assert options.delimiter is not None
        if options.delimiter == " " and not options.quotes:
            text = re.sub(b"[ \\t]+", _SEPARATOR, re.sub(b"(?m)^[ \\t]+|[ \\t\\r]+$", b"", text))
        elif options.delimiter != " ":  # blanks between quotes stay: CsvReader.blocks replaces the others
            text = text.replace(options.delimiter.encode(), _SEPARATOR)
    return replace(block, data=np.frombuffer(bytearray(text), np.uint8))


def _replace_blanks(block: TextBlock, inside: bool) -> tuple[TextBlock, bool]:
    """Return a block with :data:`_SEPARATOR` between fields in place of blanks."""
    from sparrow.kernels.parse.delimited import replace_blanks

    out = np.empty(len(block.data), np.uint8)
    size, inside = replace_blanks(block.data, 34, _SEPARATOR[0], inside, out)
    return replace(block, data=out[:size]), bool(inside)


class ParsedRows(NamedTuple):
    """Rows of a block, and the function that returns the line of one."""

    data: pa.RecordBatch
    line_of: Callable[[int], int]


class TextTableReader(ABC):
    """Base of readers of tables in text: the first rows decide the types of columns.

    Blocks are parsed on several threads.

    Parameters
    ----------
    source, options
        Text and columns to read.
    types
        Types of the columns so far; updated.
    advance
        Receives the number of bytes read.
    report
        Receives the number of comment lines, and of integers rounded to floats.
    """

    def __init__(
        self,
        source: Source,
        options: CsvOptions,
        types: dict[str, pa.DataType],
        advance: Callable[[int], None],
        report: Report,
    ) -> None:
        self.source, self.options, self.types, self.advance, self.report = source, options, types, advance, report

    def batches(self) -> Generator[ParsedRows]:
        """Yield the rows of the source."""
        with closing(self.blocks()) as text:
            first = next((block for block in text if bytes(block.data).strip()), None)
            if first is None:
                self.check_empty()
                return
            blocks = self.begin(first, text)
            parsed = cast("Generator[ParsedRows]", ordered_map(self.parse, blocks, settings.current().threads))
            with closing(parsed):
                yield from parsed

    def blocks(self) -> Generator[TextBlock]:
        """Yield the blocks of the source."""
        return read_blocks(self.source)

    def check_empty(self) -> None:  # noqa: B027 - most sources may be empty
        """Raise ``IngestError`` if a source without text is an error."""

    @abstractmethod
    def begin(self, first: TextBlock, rest: Iterator[TextBlock]) -> Iterator[TextBlock]:
        """Decide on columns and types, and return the blocks to parse."""

    @abstractmethod
    def parse(self, block: TextBlock) -> ParsedRows:
        """Return the rows of a block."""


def _cut_records(first: TextBlock, text: Iterator[TextBlock], options: CsvOptions, advance: Any) -> Iterator[TextBlock]:
    """Yield blocks of whole records: quoted fields may hold line ends."""
    from sparrow.kernels.parse.delimited import scan_records

    assert options.delimiter is not None
    pending: TextBlock | None = None
    nothing = np.empty(0, np.int64)
    longest = max_line_bytes()
    block: TextBlock | None = first
    while block is not None:
        advance(block.advance)
        if pending is not None:
            block = replace(block, data=np.concatenate([pending.data, block.data]), first_line=pending.first_line,
                            lines=pending.lines + block.lines)  # fmt: skip
            pending = None
        data: Any = block.data
        if options.quotes and bytes(memoryview(data)).find(b'"') >= 0:
            end, line = scan_records(data, ord(options.delimiter), 34, nothing)
            if end < len(data):
                pending = replace(block, data=data[end:], first_line=block.first_line + line, lines=block.lines - line)
                block = replace(block, data=data[:end], lines=line)
                if len(pending.data) > longest:
                    _raise_unclosed(pending)
        if len(block.data):
            yield block
        block = next(text, None)
    if pending is not None:
        _raise_unclosed(pending)


def _raise_unclosed(block: TextBlock) -> NoReturn:
    token = block.text(0, 200).split("\n", 1)[0]
    raise IngestError(
        "a quote that opens here is never closed: pass quotes=False if quotes are plain characters",
        block.source.name,
        block.first_line,
        token,
    )


def _column_names(block: TextBlock, options: CsvOptions) -> tuple[list[str], list[str], TextBlock]:
    """Return column names, the first record, and the block without the header."""
    from sparrow.kernels.parse.delimited import scan_records

    assert options.delimiter is not None
    lines = np.zeros(2, np.int64)
    lines[1] = -1
    scan_records(block.data, ord(options.delimiter), 34 if options.quotes else -1, lines)
    ends = np.flatnonzero(block.data == 10)
    stop = len(ends) if lines[1] < 0 else int(lines[1])
    begin = 0 if not lines[0] else int(ends[lines[0] - 1]) + 1
    text = block.text(begin, int(ends[stop - 1]) + 1)
    reader = partial(csv.reader, text.splitlines(keepends=True), delimiter=options.delimiter)
    try:
        record = next(reader() if options.quotes else reader(quoting=csv.QUOTE_NONE))
    except csv.Error as error:  # a name beyond 128 kB
        raise IngestError(
            f"the first record must name the columns: {error}", block.source.name, block.first_line
        ) from None
    if not options.header:
        return [f"c{k}" for k in range(len(record))], record, block
    below = block.data[int(ends[stop - 1]) + 1 :]
    return (
        record.copy(),
        record,
        replace(block, data=below, first_line=block.first_line + stop, lines=block.lines - stop),
    )


class CsvReader(TextTableReader):
    """Reader of delimited text.

    Parameters
    ----------
    source, options, types, advance, report
        See :class:`TextTableReader`.
    choose
        Receives the names of the columns and the fields of the first record, and returns the options with the columns
        to read, and the position of those that are named otherwise.
    unread
        Receives the names of columns that are not read and whose first rows hold numbers, unless None.
    """

    def __init__(
        self,
        source: Source,
        options: CsvOptions,
        types: dict[str, pa.DataType],
        advance: Callable[[int], None],
        report: Report,
        choose: Callable[[list[str], list[str]], tuple[CsvOptions, Mapping[str, int]]],
        unread: dict[str, None] | None = None,
    ) -> None:
        super().__init__(source, options, types, advance, report)
        self._choose, self._unread = choose, unread

    def blocks(self) -> Generator[TextBlock]:
        """Yield blocks in UTF-8, without comments, with one-character separators."""
        options = self.options
        is_plain = options.encoding is None and options.comment is None and not options.needs_separator
        inside = False
        with closing(read_blocks(self.source)) as text:
            for each in text:
                block = each if is_plain else _normalize(each, options, self.report)
                if options.delimiter == " " and options.quotes:
                    block, inside = _replace_blanks(block, inside)
                yield block

    def check_empty(self) -> None:
        """Raise ``IngestError`` if the header line is missing."""
        if self.options.header:
            raise IngestError("the text is empty: expected a line of column names", self.source.name)

    def begin(self, first: TextBlock, rest: Iterator[TextBlock]) -> Iterator[TextBlock]:
        """Decide on separator, quotes, columns and types; return whole records."""
        options = self.options
        sample = bytes(first.data[: tuning().delimiter_sample_bytes]).decode(errors="replace")
        line = sample.lstrip("\r\n").split("\n", 1)[0].rstrip("\r")
        delimiter = options.delimiter or ("\t" if line.count("\t") > line.count(",") else ",")
        if options.needs_separator:
            delimiter, options = _SEPARATOR.decode(), replace(options, quotes=bool(options.quotes))
        quotes = delimiter != "\t" if options.quotes is None else options.quotes
        options = replace(options, delimiter=delimiter, quotes=quotes)
        cut = _cut_records(first, rest, options, self.advance)
        head = next(cut)
        self._names, record, head = _column_names(head, options)
        if options.header and self._has_row_names(head, options):
            self._names = ["", *self._names]
            self.report.note(f"{self.source.name}: lines begin with names of rows, which the header does not name")
        chosen, positions = self._choose(self._names, record)
        if options.header and not self.types and all(map(is_number, record)):
            self.report.note(
                f"{self.source.name}: the first line, {delimiter.join(record)[:80]}, is read as names of columns: pass "
                "header=False if it is a row"
            )
        for name, position in positions.items():
            self._names[position] = name
        self.options = replace(options, columns=chosen.columns, floats=chosen.floats)
        self._delimiter = delimiter
        self._fixed: dict[str, pa.DataType] = {
            **dict.fromkeys(self.options.floats, pa.float64()), **dict.fromkeys(self.options.integers, pa.int64()),
            **dict.fromkeys(self.options.texts, pa.string()), **self.types
        }  # fmt: skip
        if self._unread is not None:
            self._unread.update(dict.fromkeys(self._find_numeric(head)))
        return self._settle(head, cut)

    def _find_numeric(self, head: TextBlock) -> list[str]:
        """Return the columns that are not read and whose first rows hold numbers."""
        others = [name for name in self._names if name not in self.options.columns and self._names.count(name) == 1]
        end = min(len(head.data), _RECORD_BYTES)
        ends = np.flatnonzero(np.asarray(head.data[:end]) == 10)[: tuning().detection_lines]
        if not others or not len(ends):
            return []
        rows = replace(head, data=head.data[: int(ends[-1]) + 1])
        try:
            table = self._fields(rows, others, {}, null_values=_NULLS)
        except pa.ArrowException:  # a quoted field with line ends, or a damaged line, which is read and reported later
            return []
        return [each.name for each in table.schema if is_number_type(each.type)]

    def _has_row_names(self, block: TextBlock, options: CsvOptions) -> bool:
        """Return whether names of rows come before the columns that are named."""
        text = block.text(0, _RECORD_BYTES).splitlines(keepends=True)
        reader = partial(csv.reader, text, delimiter=options.delimiter or ",")
        with contextlib.suppress(StopIteration, csv.Error):
            first = next(row for row in (reader() if options.quotes else reader(quoting=csv.QUOTE_NONE)) if row)
            return len(first) == len(self._names) + 1 and first[-1] != ""
        return False

    def _settle(self, head: TextBlock, rest: Iterator[TextBlock]) -> Iterator[TextBlock]:
        """Decide the types from the first block with rows, and yield all blocks."""
        blocks = [head]
        while not blocks[-1].data.size and (block := next(rest, None)) is not None:
            blocks.append(block)
        if blocks[-1].data.size:
            try:
                found = self._read(blocks[-1], self._fixed)
            except pa.ArrowException as error:
                raise self._error(blocks[-1], error) from error
            for field in found.schema:
                if field.name in self._fixed or pa.types.is_null(field.type):
                    continue
                kind = field.type
                if pa.types.is_temporal(kind):
                    kind = pa.string()  # dates are labels, stored as texts
                elif field.name in self.options.coords and self._leading_zero(blocks[-1], field) is not None:
                    kind = pa.string()
                    self._note_odd(blocks[-1], field.name)
                elif field.name in self.options.coords and pa.types.is_string(kind):
                    self._note_odd(blocks[-1], field.name)
                self._fixed[field.name] = self.types[field.name] = kind
        yield from blocks
        yield from rest

    def parse(self, block: TextBlock) -> ParsedRows:
        """Return the rows of a block."""
        try:
            table = self._read(block, self._fixed)
        except pa.ArrowException as error:
            raise self._error(block, error) from error
        for field in table.schema:
            if field.name in self.options.coords and (late := self._leading_zero(block, field)) is not None:
                row, token = late
                raise LateTextError(
                    field.name,
                    f"column {field.name!r} begins with a zero, unlike the numbers above: pass text=[{field.name!r}] "
                    "to take it as text",
                    block.source.name,
                    self._line(block, row),
                    token,
                )
        for field in table.schema:
            self._check_rounded(block, field.name, table.column(field.name))
        rows = table.combine_chunks().to_batches()
        data = rows[0] if rows else pa.RecordBatch.from_pylist([], schema=table.schema)
        return ParsedRows(data, lambda row: self._line(block, row))

    def _check_rounded(self, block: TextBlock, name: str, column: pa.ChunkedArray) -> None:
        """Count integers that a float type rounds; raise unless it was declared."""
        if name in self.options.coords or not may_be_rounded(column):
            return
        texts = self._read(block, {**self._fixed, name: pa.string()}).column(name).to_pylist()
        found = [row for row, text in enumerate(texts) if text is not None and is_rounded_integer(text)]
        if found and name not in self.options.floats:
            number = parse_digits(texts[found[0]]) or 0  # never within int64 in all lines, or it would be int64
            problem = misfit_message(number, np.dtype(np.float64), keep=None).removeprefix("is ")
            line = self._line(block, found[0])
            raise IngestError(f"column {name!r} holds {problem}", block.source.name, line, texts[found[0]].strip())
        self.report.add(rounded=len(found))

    def _read(self, block: TextBlock, types: dict[str, pa.DataType]) -> pa.Table:
        """Return the columns of a block; empty fields are nulls unless quoted."""
        if not block.data.size:
            fields = [pa.field(name, types.get(name, pa.null())) for name in self.options.columns]
            return pa.schema(fields).empty_table()
        try:
            table = self._fields(block, self.options.columns, types, null_values=_NULLS)
        except pa.ArrowException:
            integers = [name for name in self.options.columns if name in self.options.integers]
            if not integers:
                raise
            loose = {**types, **dict.fromkeys(integers, pa.string())}
            table = self._fields(block, self.options.columns, loose, null_values=_NULLS)
            for at, name in enumerate(self.options.columns):
                if name in integers:
                    table = table.set_column(at, name, self._parse_integers(block, name, table.column(at)))
        empty = {
            field.name: field.type
            for field, column in zip(table.schema, table.columns, strict=True)
            if pa.types.is_string(field.type) and pc.any(pc.equal(column, "")).as_py()
        }
        if not empty:
            return table
        # Quoted fields are texts, empty ones too.
        texts = self._fields(
            block, list(empty), empty, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
        )
        for name in empty:
            at = table.schema.get_field_index(name)
            table = table.set_column(at, table.schema.field(at), texts.column(name))
        return table

    def _parse_integers(self, block: TextBlock, name: str, texts: pa.ChunkedArray) -> pa.Array:
        """Parse integers such as 7, 7.0 and 7e3; raise for the first other text."""
        out: list[int | None] = []
        for row, text in enumerate(texts.to_pylist()):
            token = "" if text is None else text.strip().replace(self.options.decimal, ".")
            number = None if token in _NULLS else int(Decimal(token)) if is_integral(token) else 2**63
            if number is not None and not -(2**63) <= number < 2**63:
                problem = f"column {name!r} is not an integer"
                raise LateTextError(name, problem, block.source.name, self._line(block, row), text.strip())
            out.append(number)
        return pa.array(out, pa.int64())

    def _fields(self, block: TextBlock, columns: list[str], types: dict[str, pa.DataType], **more: Any) -> pa.Table:
        from pyarrow import csv as arrow_csv

        reading = arrow_csv.ReadOptions(
            use_threads=False, block_size=max(len(block.data) + 1, 64), column_names=self._names
        )
        parsing = arrow_csv.ParseOptions(
            delimiter=self._delimiter, quote_char='"' if self.options.quotes else False, newlines_in_values=True
        )
        return arrow_csv.read_csv(
            pa.BufferReader(pa.py_buffer(block.data)),
            read_options=reading,
            parse_options=parsing,
            convert_options=arrow_csv.ConvertOptions(
                include_columns=columns, column_types=types, decimal_point=self.options.decimal, **more
            ),
        )

    def _leading_zero(self, block: TextBlock, field: pa.Field) -> tuple[int, str] | None:
        """Return the first row and text of an integer column that begin with a zero."""
        from sparrow.kernels.parse.delimited import has_padded_field

        known = field.name in self.options.integers
        if known or not pa.types.is_integer(field.type) or not has_padded_field(block.data, ord(self._delimiter)):
            return None
        texts = self._read(block, {**self._fixed, field.name: pa.string()}).column(field.name).combine_chunks()
        found = pc.match_substring_regex(texts, r"^\s*0[0-9]")
        row = pc.index(found, True).as_py()
        return None if row < 0 else (row, texts[row].as_py())

    def _note_odd(self, block: TextBlock, name: str) -> None:
        """Note an id that is not written as an integer, unlike most of its column."""
        if name in self.options.texts:
            return
        texts = self._read(block, {**self._fixed, name: pa.string()}).column(name).combine_chunks()
        plain = pc.match_substring_regex(texts, r"^\s*(0|[1-9][0-9]*)\s*$")
        count = pc.sum(plain).as_py() or 0
        if 2 * count < len(texts) or (row := pc.index(plain, False).as_py()) < 0:
            return
        token = texts[row].as_py()
        integer = digits_as_integer(token)
        number = "" if integer is None else f", or pass ids={{{name!r}: 'int'}} to read it as {integer}"
        self.report.note(
            f"{block.source.name}, line {self._line(block, row)}: {token[:80]!r} in column {name!r} is not written as "
            f"an integer, unlike most others, so that the column holds names: correct the line if it is wrong{number}"
        )

    def _line(self, block: TextBlock, row: int) -> int:
        """Return the line of a row, from 1 in the source."""
        from sparrow.kernels.parse.delimited import scan_records

        lines = np.zeros(row + 1, np.int64)
        scan_records(block.data, ord(self._delimiter), 34 if self.options.quotes else -1, lines)
        return block.first_line + int(lines[row])

    def _error(self, block: TextBlock, error: pa.ArrowException) -> IngestError:
        """Return the error about a block, with its line."""
        text = str(error)
        found = re.search(r"Row #(\d+): ?", text)
        line = None if found is None else self._line(block, int(found[1]) - 1)
        text = text if found is None else text.replace(found[0], "", 1)
        column = re.search(r"In CSV column #(\d+): ", text)
        if column is None:
            hint, ways = self._extra_field_hint(text, block)
            return MalformedTextError(f"{text}{hint}", block.source.name, line, commands=ways)
        text = text.replace(column[0], "", 1)
        name = self._names[int(column[1])]
        if "invalid UTF8" in text:
            problem = f"column {name!r} is not UTF-8: pass encoding='latin-1' or another"
            return MalformedTextError(problem, block.source.name, line)
        if name not in self.options.coords and re.search(r"invalid value '[^']*\d[ij]\)?'", text):
            problem = f"column {name!r}: {text}; complex numbers are read from two columns, 'value' and 'value_im'"
            return MalformedTextError(problem, block.source.name, line)
        hint = f"pass text=[{name!r}] to take the column as text"
        problem = f"column {name!r}: {text}; the first rows decide the type of a column: "
        if name not in self.options.coords:
            problem += "pass dtype='float64' if later values have decimals, or exceed 2^63 - 1"
            return MalformedTextError(problem, block.source.name, line)
        return LateTextError(name, problem + hint, block.source.name, line)

    def _extra_field_hint(self, text: str, block: TextBlock) -> tuple[str, list[str]]:
        """Return the way out if lines have one field more than there are names."""
        counts = re.search(r"Expected (\d+) columns, got (\d+): (.*)", text)
        if counts is None or int(counts[2]) != int(counts[1]) + 1 or not self.options.header:
            return "", []
        separator = "\\t" if self._delimiter == "\t" else self._delimiter
        if separator not in (",", ";", "|", "\\t") or not counts[3].endswith(self._delimiter):
            return "", []  # others may be special to a shell, or to sed
        way = f"\\r$/{separator}&" if 13 in block.data[:1000] else f"$/{separator}"
        typed = TypedSource.of(block.source.path or "-", compression_of(block.source))
        hint = f"; if lines end in {self._delimiter!r}, and the line of names does not"
        return hint, [typed.pipe(f"sed '1s/{way}/'")]


_EXACT = 2.0**53
"""Magnitude from which a float may be a rounded integer."""


def may_be_rounded(column: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether a column of floats parsed from text may hold rounded integers."""
    if not pa.types.is_floating(column.type):
        return False
    beyond = pc.greater_equal(pc.abs(column), _EXACT)
    return bool(pc.any(pc.and_(beyond, pc.is_finite(column))).as_py())


class MalformedTextError(IngestError):
    """Text that pyarrow cannot parse."""


class LateTextError(IngestError):
    """Text in a column of numbers, which can be read again as texts."""

    def __init__(self, column: str, *about: Any) -> None:
        super().__init__(*about)
        self.column = column

    def __reduce__(self) -> Any:
        return type(self), (self.column, *self.args)
