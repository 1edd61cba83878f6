"""JSON lines as batches: an object in each line, of which some members are the columns."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import closing
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow import settings
from sparrow.errors import IngestError
from sparrow.files.delimited import Form, LateText, Lines
from sparrow.files.source import Source, TextBlock, blocks
from sparrow.workers import ordered_map

__all__ = ["batches"]

_DEEPEST = 200
"""How deeply pyarrow is let go into a line."""


def batches(source: Source, form: Form, types: dict[str, pa.DataType], advance: Any) -> Generator[Lines]:
    """Yield the rows of a source; the first block settles the types of the columns, nulls where a member is missing.

    Parameters
    ----------
    source, form
        What to read.
    types
        The types of columns so far; filled.
    advance
        Is told the bytes that were read.
    """
    types |= dict.fromkeys(form.floats, pa.float64()) | dict.fromkeys(form.integers, pa.int64())
    types |= dict.fromkeys(form.texts, pa.string())
    with closing(blocks(source)) as text:
        first = next((block for block in text if bytes(block.data).strip()), None)
        if first is None:
            return
        for field in _read(first, form, types).data.schema:
            if not pa.types.is_null(field.type):
                types.setdefault(field.name, pa.string() if pa.types.is_temporal(field.type) else field.type)

        def counted() -> Generator[TextBlock]:
            advance(first.advance)
            yield first
            for block in text:
                advance(block.advance)
                yield block

        parsed = cast(
            "Generator[Lines]",
            ordered_map(lambda block: _read(block, form, types), counted(), settings.current().threads),
        )
        with closing(parsed):
            yield from parsed


def _read(block: TextBlock, form: Form, types: dict[str, pa.DataType]) -> Lines:
    from pyarrow import json as arrow_json

    data: Any = block.data
    lines = bytes(memoryview(data)).split(b"\n")
    numbers = np.flatnonzero([bool(line.strip()) for line in lines])
    known = pa.schema([pa.field(name, types[name]) for name in form.columns if name in types])
    unknown = "infer" if len(known) < len(form.columns) else "ignore"
    if not len(numbers):
        return Lines(pa.RecordBatch.from_pylist([], known), lambda row: block.first_line)
    if _deep(block.data, len(numbers)):  # pyarrow would overflow its stack
        return _slowly(block, lines, form, types)
    try:
        table = arrow_json.read_json(
            pa.BufferReader(pa.py_buffer(data)),
            read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=arrow_json.ParseOptions(explicit_schema=known, unexpected_field_behavior=unknown),
        )
        if table.num_rows != len(numbers):
            raise pa.ArrowInvalid("an object is not in a line of its own")
    except (pa.ArrowException, UnicodeDecodeError):
        return _slowly(block, lines, form, types)
    columns = []
    for name in form.columns:
        if table.schema.get_all_field_indices(name):
            columns.append(table.column(name).combine_chunks())
        else:
            columns.append(pa.nulls(table.num_rows, types.get(name, pa.null())))
    return Lines(pa.RecordBatch.from_arrays(columns, form.columns), lambda row: block.first_line + int(numbers[row]))


def _deep(data: NDArray[np.uint8], count: int) -> bool:
    """Return whether lines, so many that are not blank, may nest deeply; brackets in texts count as others do."""
    opening = (data | 0x20) == ord("{")  # and [
    if int(np.count_nonzero(opening)) - count <= _DEEPEST:
        return False
    steps = opening.astype(np.int8) - ((data | 0x20) == ord("}"))
    return bool(np.cumsum(steps, dtype=np.int64).max() > _DEEPEST)


def _slowly(block: TextBlock, lines: list[bytes], form: Form, types: dict[str, pa.DataType]) -> Lines:
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
            raise IngestError(f"this is no JSON: {wrong}", name, number, token) from None
        if not isinstance(found, dict):
            raise IngestError("a line holds an object of names and values", name, number, token)
        numbers.append(number)
        for column, values in columns.items():
            value = found.get(column)
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
                    problem += f": say text=[{column!r}]"
                    raise LateText(column, problem, name, number, text) from None
                raise IngestError(problem, name, number, text) from None
            values.append(value)
    try:
        arrays = [pa.array(values, types.get(column)) for column, values in columns.items()]
    except (pa.ArrowException, TypeError, OverflowError, ValueError) as error:
        for column in form.coords:
            texts = [isinstance(value, str) for value in columns[column]]
            if any(texts) and column not in types:
                at = texts.index(True)
                problem = f"column {column!r} holds texts and numbers: say text=[{column!r}]"
                raise LateText(column, problem, name, numbers[at], str(columns[column][at])[:80]) from None
        problem = f"a column holds several types: {' '.join(str(error).split())[:200]}"
        raise IngestError(problem, name, block.first_line) from error
    return Lines(pa.RecordBatch.from_arrays(arrays, form.columns), lambda row: numbers[row])
