"""JSON lines as record batches: an object per line, its members are columns.

``user.id`` is the member ``id`` of the object ``user``, unless the first line has a member of that very name.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparrow.errors import IngestError
from sparrow.io.base.source import Source, TextBlock
from sparrow.io.tabular.delimited import CsvOptions, LateTextError, ParsedRows, TextTableReader
from sparrow.io.tuning import tuning

__all__ = ["JsonLinesReader"]


class JsonLinesReader(TextTableReader):
    """Reader of JSON lines.

    Parameters
    ----------
    source, options, types, advance
        See :class:`~sparrow.io.tabular.delimited.TextTableReader`.
    choose
        Chooses the columns to read from the members of the first line, instead of those of the options.
    """

    def __init__(
        self,
        source: Source,
        options: CsvOptions,
        types: dict[str, pa.DataType],
        advance: Callable[[int], None],
        choose: Callable[[list[str]], list[str]] | None = None,
    ) -> None:
        super().__init__(source, options, types, advance)
        self._choose = choose
        types |= dict.fromkeys(options.floats, pa.float64()) | dict.fromkeys(options.integers, pa.int64())
        types |= dict.fromkeys(options.texts, pa.string())

    def begin(self, first: TextBlock, rest: Iterator[TextBlock]) -> Iterator[TextBlock]:
        """Decide on columns and types, and return the blocks to parse."""
        if self._choose is not None:
            self.options = replace(self.options, columns=self._choose(list(_first_object(first))))
        self._paths = _member_paths(first, self.options)
        for field in self.parse(first).data.schema:
            if not pa.types.is_null(field.type):
                self.types.setdefault(field.name, pa.string() if pa.types.is_temporal(field.type) else field.type)
        return self._advancing(chain([first], rest))

    def _advancing(self, blocks: Iterator[TextBlock]) -> Iterator[TextBlock]:
        for block in blocks:
            self.advance(block.advance)
            yield block

    def parse(self, block: TextBlock) -> ParsedRows:
        """Return the rows of a block, with nulls for missing members."""
        return _read(block, self.options, self.types, self._paths)


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
    block: TextBlock, options: CsvOptions, types: dict[str, pa.DataType], paths: dict[str, list[str]]
) -> ParsedRows:
    from pyarrow import json as arrow_json

    block.check_utf8()
    data: Any = block.data
    lines = bytes(memoryview(data)).split(b"\n")
    starts = [line.lstrip()[:1] for line in lines]
    numbers = np.flatnonzero([bool(start) for start in starts])
    known = _schema(paths, types)
    unknown = "ignore" if all(name in types for name in options.columns) else "infer"
    if not len(numbers):
        plain = pa.schema([pa.field(name, types[name]) for name in options.columns if name in types])
        return ParsedRows(pa.RecordBatch.from_pylist([], plain), lambda row: block.first_line)
    # Lines such as null crash pyarrow, and deep ones overflow its stack.
    if not {b"", b"{"}.issuperset(starts) or _is_deep(block.data, len(numbers)):
        return _read_slowly(block, lines, options, types, paths)
    try:
        table = arrow_json.read_json(
            pa.BufferReader(pa.py_buffer(data)),
            read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=arrow_json.ParseOptions(explicit_schema=known, unexpected_field_behavior=unknown),
        )
        if table.num_rows != len(numbers):
            raise pa.ArrowInvalid("an object is not in a line of its own")
    except (pa.ArrowException, UnicodeDecodeError):
        return _read_slowly(block, lines, options, types, paths)
    columns = []
    for name in options.columns:
        found = _get_member(table, paths[name])
        columns.append(pa.nulls(table.num_rows, types.get(name, pa.null())) if found is None else found)
    return ParsedRows(
        pa.RecordBatch.from_arrays(columns, options.columns), lambda row: block.first_line + int(numbers[row])
    )


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
) -> ParsedRows:
    """Parse lines one by one that pyarrow rejects, or raise for the first bad one."""
    name = block.source.name
    numbers: list[int] = []
    columns: dict[str, list[Any]] = {column: [] for column in options.columns}
    for number, line in enumerate(lines, block.first_line):
        if not line.strip():
            continue
        token = line.decode(errors="backslashreplace").strip()[:80]
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as wrong:
            raise IngestError(
                f"this is not JSON{_by_lines(token, name) or f': {wrong}'}", name, number, token
            ) from None
        if not isinstance(found, dict):
            way = _by_lines("[", name) if isinstance(found, list) else ""
            raise IngestError(f"a line must be an object of names and values{way}", name, number, token)
        numbers.append(number)
        for column, values in columns.items():
            value: Any = found
            for part in paths[column]:
                value = value.get(part) if isinstance(value, dict) else None
            kind = types.get(column)
            if isinstance(value, int | float) and not isinstance(value, bool) and kind == pa.string():
                value = json.dumps(value)
            if isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value):
                raise IngestError(
                    f"the text of {column!r} is not Unicode: it holds half a surrogate pair", name, number, token
                )
            try:
                if isinstance(value, dict | list):
                    raise TypeError
                pa.scalar(value, kind)
            except (pa.ArrowException, TypeError, OverflowError, ValueError):
                problem = f"column {column!r} must be {kind or 'of one type'}, as in the lines above"
                text = str(value)[:80]
                if column in options.coords and isinstance(value, str):
                    problem += f": pass text=[{column!r}]"
                    raise LateTextError(column, problem, name, number, text) from None
                raise IngestError(problem, name, number, text) from None
            values.append(value)
    try:
        arrays = [pa.array(values, types.get(column)) for column, values in columns.items()]
    except (pa.ArrowException, TypeError, OverflowError, ValueError) as error:
        for column in options.coords:
            texts = [isinstance(value, str) for value in columns[column]]
            if any(texts) and column not in types:
                at = texts.index(True)
                problem = f"column {column!r} mixes texts and numbers: pass text=[{column!r}]"
                raise LateTextError(column, problem, name, numbers[at], str(columns[column][at])[:80]) from None
        problem = f"a column mixes types: {' '.join(str(error).split())[:200]}"
        raise IngestError(problem, name, block.first_line) from error
    return ParsedRows(pa.RecordBatch.from_arrays(arrays, options.columns), lambda row: numbers[row])


def _by_lines(line: str, name: str) -> str:
    """Return the way out for JSON that is a list, or objects over several lines."""
    wanted = {"[": ".[]", "[{": ".[]", "{": "."}.get(line)
    return "" if wanted is None else f"; by lines: jq -c '{wanted}' {shlex.quote(name)} | sparrow ingest columns - DST"
