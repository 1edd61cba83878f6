"""JSON lines as batches: an object in each line, of which some members are the columns.

``user.id`` is the member ``id`` of the object ``user``, unless the first line has a member of that very name.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparrow.errors import IngestError
from sparrow.io.base.source import Source, TextBlock, read_blocks
from sparrow.io.tabular.delimited import CsvOptions, LateTextError, ParsedRows
from sparrow.io.tuning import tuning
from sparrow.runtime import settings
from sparrow.runtime.thread_pool import ordered_map

__all__ = ["batches"]


def batches(
    source: Source,
    form: CsvOptions,
    types: dict[str, pa.DataType],
    advance: Any,
    pick: Callable[[list[str]], list[str]] | None = None,
) -> Generator[ParsedRows]:
    """Yield the rows of a source; the first block settles the types of the columns, nulls where a member is missing.

    Parameters
    ----------
    source, form
        What to read.
    types
        The types of columns so far; filled.
    advance
        Is told the bytes that were read.
    pick
        Says which columns to read of those of the first line, in place of those of the form.
    """
    types |= dict.fromkeys(form.floats, pa.float64()) | dict.fromkeys(form.integers, pa.int64())
    types |= dict.fromkeys(form.texts, pa.string())
    with closing(read_blocks(source)) as text:
        first = next((block for block in text if bytes(block.data).strip()), None)
        if first is None:
            return
        if pick is not None:
            form = replace(form, columns=pick(list(_first(first))))
        paths = _paths(first, form)
        for field in _read(first, form, types, paths).data.schema:
            if not pa.types.is_null(field.type):
                types.setdefault(field.name, pa.string() if pa.types.is_temporal(field.type) else field.type)

        def counted() -> Generator[TextBlock]:
            advance(first.advance)
            yield first
            for block in text:
                advance(block.advance)
                yield block

        parsed = cast(
            "Generator[ParsedRows]",
            ordered_map(lambda block: _read(block, form, types, paths), counted(), settings.current().threads),
        )
        with closing(parsed):
            yield from parsed


def _paths(block: TextBlock, form: CsvOptions) -> dict[str, list[str]]:
    """Return by the names of columns the members that lead to them, one within the other."""
    own = _first(block)
    paths = {name: [name] if name in own else name.split(".") for name in form.columns}
    for name, path in paths.items():
        for outer, above in paths.items():
            if len(above) < len(path) and path[: len(above)] == above:
                problem = f"column {outer!r} is to hold column {name!r}, and a value at the same time"
                raise IngestError(problem, block.source.name, block.first_line)
    return paths


def _first(block: TextBlock) -> dict[str, Any]:
    """Return the first object of a block, an empty one where there is no object."""
    try:
        first = json.loads(next(line for line in bytes(memoryview(block.data)).split(b"\n") if line.strip()))  # type: ignore[arg-type]
    except (ValueError, RecursionError):
        first = {}
    return first if isinstance(first, dict) else {}


def _schema(paths: dict[str, list[str]], types: dict[str, pa.DataType]) -> pa.Schema:
    """Return the types of members, those within others as structs."""
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


def _member(table: pa.Table, path: list[str]) -> pa.Array | None:
    """Return what a path leads to, None where nothing is."""
    if not table.schema.get_all_field_indices(path[0]):
        return None
    found = table.column(path[0]).combine_chunks()
    for part in path[1:]:
        if not pa.types.is_struct(found.type) or found.type.get_field_index(part) < 0:
            return None
        found = pc.struct_field(found, part)
    return found


def _read(block: TextBlock, form: CsvOptions, types: dict[str, pa.DataType], paths: dict[str, list[str]]) -> ParsedRows:
    from pyarrow import json as arrow_json

    block.check_utf8()
    data: Any = block.data
    lines = bytes(memoryview(data)).split(b"\n")
    starts = [line.lstrip()[:1] for line in lines]
    numbers = np.flatnonzero([bool(start) for start in starts])
    known = _schema(paths, types)
    unknown = "ignore" if all(name in types for name in form.columns) else "infer"
    if not len(numbers):
        plain = pa.schema([pa.field(name, types[name]) for name in form.columns if name in types])
        return ParsedRows(pa.RecordBatch.from_pylist([], plain), lambda row: block.first_line)
    # Of lines that are no objects some, such as null, end the process in pyarrow; deep ones overflow its stack.
    if not {b"", b"{"}.issuperset(starts) or _deep(block.data, len(numbers)):
        return _slowly(block, lines, form, types, paths)
    try:
        table = arrow_json.read_json(
            pa.BufferReader(pa.py_buffer(data)),
            read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=arrow_json.ParseOptions(explicit_schema=known, unexpected_field_behavior=unknown),
        )
        if table.num_rows != len(numbers):
            raise pa.ArrowInvalid("an object is not in a line of its own")
    except (pa.ArrowException, UnicodeDecodeError):
        return _slowly(block, lines, form, types, paths)
    columns = []
    for name in form.columns:
        found = _member(table, paths[name])
        columns.append(pa.nulls(table.num_rows, types.get(name, pa.null())) if found is None else found)
    return ParsedRows(
        pa.RecordBatch.from_arrays(columns, form.columns), lambda row: block.first_line + int(numbers[row])
    )


def _deep(data: NDArray[np.uint8], count: int) -> bool:
    """Return whether lines, so many that are not blank, may nest deeply; brackets in texts count as others do."""
    opening = (data | 0x20) == ord("{")  # and [
    if int(np.count_nonzero(opening)) - count <= tuning().json_max_depth:
        return False
    steps = opening.astype(np.int8) - ((data | 0x20) == ord("}"))
    return bool(np.cumsum(steps, dtype=np.int64).max() > tuning().json_max_depth)


def _slowly(
    block: TextBlock, lines: list[bytes], form: CsvOptions, types: dict[str, pa.DataType], paths: dict[str, list[str]]
) -> ParsedRows:
    """Read line by line what pyarrow does not, numbers as texts where a column is one, or tell what is wrong."""
    name = block.source.name
    numbers: list[int] = []
    columns: dict[str, list[Any]] = {column: [] for column in form.columns}
    for number, line in enumerate(lines, block.first_line):
        if not line.strip():
            continue
        token = line.decode(errors="backslashreplace").strip()[:80]
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as wrong:
            raise IngestError(f"this is no JSON{_spread(token, name) or f': {wrong}'}", name, number, token) from None
        if not isinstance(found, dict):
            way = _spread("[", name) if isinstance(found, list) else ""
            raise IngestError(f"a line holds an object of names and values{way}", name, number, token)
        numbers.append(number)
        for column, values in columns.items():
            value: Any = found
            for part in paths[column]:
                value = value.get(part) if isinstance(value, dict) else None
            kind = types.get(column)
            if isinstance(value, int | float) and not isinstance(value, bool) and kind == pa.string():
                value = json.dumps(value)
            if isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value):
                raise IngestError(f"the text of {column!r} is no Unicode: it holds half a pair", name, number, token)
            try:
                if isinstance(value, dict | list):
                    raise TypeError
                pa.scalar(value, kind)
            except (pa.ArrowException, TypeError, OverflowError, ValueError):
                problem = f"column {column!r} holds {kind or 'one type'} in the lines above, and something else here"
                text = str(value)[:80]
                if column in form.coords and isinstance(value, str):
                    problem += f": pass text=[{column!r}]"
                    raise LateTextError(column, problem, name, number, text) from None
                raise IngestError(problem, name, number, text) from None
            values.append(value)
    try:
        arrays = [pa.array(values, types.get(column)) for column, values in columns.items()]
    except (pa.ArrowException, TypeError, OverflowError, ValueError) as error:
        for column in form.coords:
            texts = [isinstance(value, str) for value in columns[column]]
            if any(texts) and column not in types:
                at = texts.index(True)
                problem = f"column {column!r} holds texts and numbers: pass text=[{column!r}]"
                raise LateTextError(column, problem, name, numbers[at], str(columns[column][at])[:80]) from None
        problem = f"a column holds several types: {' '.join(str(error).split())[:200]}"
        raise IngestError(problem, name, block.first_line) from error
    return ParsedRows(pa.RecordBatch.from_arrays(arrays, form.columns), lambda row: numbers[row])


def _spread(line: str, name: str) -> str:
    """Return the way out for JSON that is not written object by line: one list, or objects over several lines."""
    wanted = {"[": ".[]", "[{": ".[]", "{": "."}.get(line)
    return "" if wanted is None else f"; by lines: jq -c '{wanted}' {shlex.quote(name)} | sparrow ingest columns - DST"
