"""JSON lines as record batches: an object per line, its members are columns.

``user.id`` is the member ``id`` of the object ``user``, unless the first line has a member of that very name.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparrow.core.casting import misfit_message
from sparrow.errors import IngestError
from sparrow.io.base.report import Report
from sparrow.io.base.source import Source, TextBlock, compression_of
from sparrow.io.base.suggestion import TypedSource
from sparrow.io.tabular.delimited import CsvOptions, LateTextError, ParsedRows, TextTableReader, may_be_rounded
from sparrow.io.tuning import tuning

__all__ = ["JsonLinesReader"]


class JsonLinesReader(TextTableReader):
    """Reader of JSON lines.

    Parameters
    ----------
    source, options, types, advance, report
        See :class:`~sparrow.io.tabular.delimited.TextTableReader`.
    choose
        Chooses the columns to read from the members of the first line, instead of those of the options.
    unread
        Receives the names of members of the first line that are numbers and are not read, unless None.
    """

    def __init__(
        self,
        source: Source,
        options: CsvOptions,
        types: dict[str, pa.DataType],
        advance: Callable[[int], None],
        report: Report,
        choose: Callable[[list[str]], list[str]] | None = None,
        unread: dict[str, None] | None = None,
    ) -> None:
        super().__init__(source, options, types, advance, report)
        self._choose, self._unread = choose, unread
        self._is_first = not types
        """True for the first of the files, whose members are those of all."""
        types |= dict.fromkeys(options.floats, pa.float64()) | dict.fromkeys(options.integers, pa.int64())
        types |= dict.fromkeys(options.texts, pa.string())

    def begin(self, first: TextBlock, rest: Iterator[TextBlock]) -> Iterator[TextBlock]:
        """Decide on columns and types, and return the blocks to parse."""
        if self._choose is not None:
            self.options = replace(self.options, columns=self._choose(list(_first_object(first))))
        if self._unread is not None:
            members = _first_object(first).items()
            columns = self.options.columns
            numbers = (name for name, value in members if isinstance(value, int | float) and name not in columns)
            self._unread.update(dict.fromkeys(numbers))
        self._paths = _member_paths(first, self.options)
        found = _read(first, self.options, self.types, self._paths, Report())  # it is parsed again, and counted then
        if self._is_first and found.data.num_rows:
            empty = [name for name in self.options.columns if found.data.column(name).null_count == found.data.num_rows]
            _check_members(first, {name: self._paths[name] for name in empty})
        for field in found.data.schema:
            if not pa.types.is_null(field.type):
                self.types.setdefault(field.name, pa.string() if pa.types.is_temporal(field.type) else field.type)
        return self._advancing(chain([first], rest))

    def _advancing(self, blocks: Iterator[TextBlock]) -> Iterator[TextBlock]:
        for block in blocks:
            self.advance(block.advance)
            yield block

    def parse(self, block: TextBlock) -> ParsedRows:
        """Return the rows of a block, with nulls for missing members."""
        return _read(block, self.options, self.types, self._paths, self.report)


def _member_paths(block: TextBlock, options: CsvOptions) -> dict[str, list[str]]:
    """Return the path of members to each column."""
    own = _first_object(block)
    paths = {name: [name] if name in own else name.split(".") for name in options.columns}
    for name, path in paths.items():
        for outer, above in paths.items():
            if len(above) < len(path) and path[: len(above)] == above:
                problem = f"column {outer!r} cannot hold both a value and column {name!r}"
                raise IngestError(problem, block.source.name, block.first_line)
    return paths


def _check_members(block: TextBlock, paths: dict[str, list[str]]) -> None:
    """Raise ``IngestError`` for a path that no object of a block has."""
    missing = dict(paths)
    for line in bytes(memoryview(block.data)).split(b"\n") if paths else ():  # type: ignore[arg-type]
        record: Any = json.loads(line) if line.strip() else None
        for name, path in [*missing.items()]:
            value = record
            for part in path[:-1]:
                value = value.get(part) if isinstance(value, dict) else None
            if isinstance(value, dict) and path[-1] in value:
                del missing[name]
        if not missing:
            return
    if missing:
        own = [*_first_object(block)]
        shown = ", ".join(repr(name[:80]) for name in own[:50])
        raise IngestError(f"there is no column {next(iter(missing))!r}: the columns are {shown}", block.source.name)


def _first_object(block: TextBlock) -> dict[str, Any]:
    """Return the first object of a block, empty if there is none."""
    try:
        first = json.loads(next(line for line in bytes(memoryview(block.data)).split(b"\n") if line.strip()))  # type: ignore[arg-type]
    except (ValueError, RecursionError):
        first = {}
    return first if isinstance(first, dict) else {}


def _schema(paths: dict[str, list[str]], types: dict[str, pa.DataType]) -> pa.Schema:
    """Return the types of members, nested ones as structs."""
    tree: dict[str, Any] = {}
    for name, path in paths.items():
        if name in types:
            below = tree
            for part in path[:-1]:
                below = below.setdefault(part, {})
            below[path[-1]] = types[name]

    def fields(below: dict[str, Any]) -> list[pa.Field]:
        return [
            pa.field(name, pa.struct(fields(kind)) if isinstance(kind, dict) else kind) for name, kind in below.items()
        ]

    return pa.schema(fields(tree))


def _get_member(table: pa.Table, path: list[str]) -> pa.Array | None:
    """Return the column at a path, None if missing."""
    if not table.schema.get_all_field_indices(path[0]):
        return None
    found = table.column(path[0]).combine_chunks()
    for part in path[1:]:
        if not pa.types.is_struct(found.type) or found.type.get_field_index(part) < 0:
            return None
        found = pc.struct_field(found, part)
    return found


def _read(
    block: TextBlock,
    options: CsvOptions,
    types: dict[str, pa.DataType],
    paths: dict[str, list[str]],
    report: Report,
) -> ParsedRows:
    block.check_utf8()
    data: Any = block.data
    lines = bytes(memoryview(data)).split(b"\n")
    starts = [line.lstrip()[:1] for line in lines]
    numbers = np.flatnonzero([bool(start) for start in starts])
    if not len(numbers):
        plain = pa.schema([pa.field(name, types[name]) for name in options.columns if name in types])
        return ParsedRows(pa.RecordBatch.from_pylist([], plain), lambda row: block.first_line)
    columns = None
    # Lines such as null crash pyarrow, and deep ones overflow its stack.
    if {b"", b"{"}.issuperset(starts) and not _is_deep(block.data, len(numbers)):
        columns = _parse_columns(data, len(numbers), options.columns, types, paths)
    if columns is None:
        return _read_slowly(block, lines, options, types, paths, report)
    return ParsedRows(
        pa.RecordBatch.from_arrays(columns, options.columns), lambda row: block.first_line + int(numbers[row])
    )


def _parse_columns(
    data: Any, count: int, names: list[str], types: dict[str, pa.DataType], paths: dict[str, list[str]]
) -> list[pa.Array] | None:
    """Return the columns of a text; None if pyarrow cannot parse it without loss.

    Types that do not fit are inferred anew, and cast where that loses nothing.
    """
    from pyarrow import json as arrow_json

    known = _schema(paths, types)
    texts = _schema(paths, {name: kind for name, kind in types.items() if pa.types.is_string(kind)})
    for schema in (known, texts):
        unknown = "infer" if schema is texts or any(name not in types for name in names) else "ignore"
        with contextlib.suppress(pa.ArrowException, UnicodeDecodeError):
            table = arrow_json.read_json(
                pa.BufferReader(pa.py_buffer(data)),
                read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
                parse_options=arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unknown),
            )
            if table.num_rows != count:
                return None  # an object is not in a line of its own
            found = [_get_member(table, paths[name]) for name in names]
            columns = [
                pa.nulls(count, types.get(name, pa.null())) if column is None else column
                for name, column in zip(names, found, strict=True)
            ]
            if any(map(may_be_rounded, columns)):
                return None
            return [
                column if name not in types or pa.types.is_null(column.type) else _cast_number(column, types[name])
                for name, column in zip(names, columns, strict=True)
            ]
    return None


def _cast_number(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column as numbers of a type; raise ``ArrowException`` if they change."""
    if column.type == kind:
        return column
    is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if not is_number or not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise pa.ArrowInvalid(f"{column.type} is not {kind}")
    return column.cast(kind)


def _is_deep(data: NDArray[np.uint8], count: int) -> bool:
    """Return whether lines may nest deeply; brackets in texts count too."""
    opening = (data | 0x20) == ord("{")  # and [
    if int(np.count_nonzero(opening)) - count <= tuning().json_max_depth:
        return False
    steps = opening.astype(np.int8) - ((data | 0x20) == ord("}"))
    return bool(np.cumsum(steps, dtype=np.int64).max() > tuning().json_max_depth)


def _read_slowly(
    block: TextBlock,
    lines: list[bytes],
    options: CsvOptions,
    types: dict[str, pa.DataType],
    paths: dict[str, list[str]],
    report: Report,
) -> ParsedRows:
    """Parse lines one by one that pyarrow rejects, or raise for the first bad one."""
    name = block.source.name
    numbers: list[int] = []
    columns: dict[str, list[Any]] = {column: [] for column in options.columns}
    wrong: IngestError | None = None
    for number, line in enumerate(lines, block.first_line):
        if not line.strip():
            continue
        token = line[:500].decode(errors="backslashreplace").strip()[:80]
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            ways = _by_lines(token, block.source)
            hint = "; by lines" if ways else f": {error}"
            wrong = IngestError(f"this is not JSON{hint}", name, number, token, ways)
            break
        if not isinstance(found, dict):
            ways = _by_lines("[", block.source) if isinstance(found, list) else []
            hint = "; by lines" if ways else ""
            wrong = IngestError(f"a line must be an object of names and values{hint}", name, number, token, ways)
            break
        numbers.append(number)
        for column, values in columns.items():
            value: Any = found
            for part in paths[column]:
                value = value.get(part) if isinstance(value, dict) else None
            values.append(value)
    converted = [_Column(column, values, types.get(column), options) for column, values in columns.items()]
    if faults := [each for each in converted if each.row is not None]:
        first = min(faults, key=lambda each: each.row or 0)
        raise first.error(name, numbers)
    if wrong is not None:
        raise wrong
    report.add(rounded=sum(each.rounded for each in converted))
    return ParsedRows(
        pa.RecordBatch.from_arrays([each.array for each in converted], options.columns),
        lambda row: numbers[row],
    )


class _Column:
    """Members of JSON objects as a column of one type, converted without loss.

    Parameters
    ----------
    name
        Name of the column.
    values
        Python objects.
    kind
        Type of the column, None to infer it.
    options
        Columns that are coordinates, and those of a declared type.
    """

    def __init__(self, name: str, values: list[Any], kind: pa.DataType | None, options: CsvOptions) -> None:
        self.name, self._values = name, values
        self._is_coordinate, self._declared = name in options.coords, name in options.floats
        self._is_integer = name in options.integers
        self.rounded = 0
        """Integers that were rounded to floats."""
        self.row: int | None = None
        """Row of the first value that does not fit."""
        self._kind = _infer_type(values) if kind is None else kind
        self.array = pa.nulls(0)
        try:
            self.array = pa.array([*map(self._convert, values)], self._kind)
        except (TypeError, OverflowError, ValueError):
            self.row = next(row for row, value in enumerate(values) if not self._fits(value))

    def _fits(self, value: Any) -> bool:
        try:
            pa.scalar(self._convert(value), self._kind)
        except (TypeError, OverflowError, ValueError):
            return False
        return True

    def _convert(self, value: Any) -> Any:
        """Return a value as one of the type; raise if it is not exactly that."""
        kind = self._kind
        if value is None:
            return None
        if isinstance(value, dict | list | bool | str):
            if isinstance(value, dict | list) or kind != (pa.bool_() if isinstance(value, bool) else pa.string()):
                raise TypeError
            return value
        if pa.types.is_string(kind):
            return json.dumps(value)
        if pa.types.is_integer(kind):
            whole = int(value)  # NaN and infinity raise
            if whole != value:  # which pyarrow would cut
                raise ValueError
            return whole
        if kind == pa.bool_():
            raise TypeError
        number = float(value)
        if isinstance(value, int) and int(number) != value:
            if not self._declared:
                raise ValueError
            self.rounded += 1
        return number

    def error(self, file: str, lines: Sequence[int]) -> IngestError:
        """Return the error about the first value that does not fit."""
        assert self.row is not None
        value, line = self._values[self.row], lines[self.row]
        token = str(value)[:80]
        if isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value):
            problem = f"the text of {self.name!r} is not Unicode: it holds half a surrogate pair"
            return IngestError(problem, file, line, ascii(token))
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if self._is_integer:
            return LateTextError(self.name, f"column {self.name!r} is not an integer", file, line, token)
        problem = f"column {self.name!r} must be {self._kind}, as in the lines above"
        if self._is_coordinate and isinstance(value, str):
            return LateTextError(self.name, f"{problem}: pass text=[{self.name!r}]", file, line, token)
        if self._is_coordinate and is_number and pa.types.is_integer(self._kind):
            problem += f": pass ids={{{self.name!r}: 'str'}} if these are names"
        if not self._is_coordinate and is_number and pa.types.is_floating(self._kind):
            problem = f"column {self.name!r} {misfit_message(value, np.dtype(np.float64), keep=None)}"
            problem = problem.replace(" is an integer", " holds an integer")
        elif is_number and isinstance(value, int) and not -(2**63) <= value < 2**63 and not self._is_coordinate:
            beyond = "beyond 2^63 - 1, the largest" if value > 0 else "below -2^63, the smallest"
            problem = f"column {self.name!r} holds an integer {beyond} stored integer: pass dtype='float64'"
        elif not self._is_coordinate and is_number and pa.types.is_integer(self._kind):
            problem += ": pass dtype='float64' if later values have decimals"
        return IngestError(problem, file, line, token)


def _infer_type(values: list[Any]) -> pa.DataType:
    """Return the type of a column by its first value; numbers are floats if one is."""
    kinds = [type(value) for value in values if value is not None]
    if not kinds:
        return pa.null()
    if kinds[0] in (str, bool):
        return pa.string() if kinds[0] is str else pa.bool_()
    return pa.float64() if float in kinds else pa.int64()


def _by_lines(line: str, source: Source) -> list[str]:
    """Return the command for JSON that is a list, or objects over several lines."""
    wanted = {"[": ".[]", "[{": ".[]", "{": "."}.get(line)
    typed = TypedSource.of(source.path or "-", compression_of(source))
    return [] if wanted is None else [typed.pipe(f"jq -c '{wanted}'", "FORMAT", format="json")]
