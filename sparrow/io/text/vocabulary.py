"""Vocabulary files: names of vertices, entities, relations or terms, with ids."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.core.labels import find_duplicate_label
from sparrow.errors import IngestError
from sparrow.io.base.coo_writer import check_label_memory
from sparrow.io.base.source import Source, TextBlock, read_blocks, total_size
from sparrow.runtime import settings
from sparrow.runtime.progress import bar
from sparrow.runtime.thread_pool import ordered_map

__all__ = ["read_vertex_names", "read_vocabulary"]


def read_vocabulary(source: Source) -> pa.Array:
    """Return the names in a file, each at the position of its number.

    Lines hold a name, a name and its number, or a number and its name, separated by a tab or else by blanks; their
    count may come first.

    Raises
    ------
    IngestError
        If the numbers are not 0, 1, ..., or a name is repeated.
    """
    lines: list[tuple[int, str]] = []
    size = 0
    with closing(read_blocks(source)) as text:
        for block in text:
            block.check_utf8()
            for number, line in enumerate(bytes(block.data).decode().split("\n"), block.first_line):
                if line.strip():
                    lines.append((number, line.strip("\r\n")))
                    size += len(line)
            check_label_memory(len(lines), size + 100 * len(lines))
    if len(lines) > 1 and lines[0][1].strip() == str(len(lines) - 1):
        del lines[0]
    rows = [_cells(line) for _, line in lines]
    width = len(rows[0]) if rows else 1
    for (number, line), row in zip(lines, rows, strict=True):
        if len(row) != width or width > 2 or not all(row):
            raise IngestError("a line must be a name, or a name and its number", source.name, number, line[:80])
    if width == 2:
        for own, other in ((1, 0), (0, 1)):
            numbers = [int(row[own]) if row[own].isascii() and row[own].isdigit() else -1 for row in rows]
            if sorted(numbers) == list(range(len(rows))):
                names = [""] * len(rows)
                for at, row in zip(numbers, rows, strict=True):
                    names[at] = row[other]
                break
        else:
            raise IngestError(f"one column must hold the numbers from 0 to {len(rows) - 1}", source.name)
    else:
        names = [row[0] for row in rows]
    labels = pa.array(names, pa.string())
    if (twice := find_duplicate_label(labels)) is not None:
        raise IngestError("a name has two numbers", source.name, token=twice)
    return labels


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("\t")] if "\t" in line else line.split()


def read_vertex_names(sources: list[Source]) -> pa.Array:
    """Return the names of vertices by id, null for ids without a name."""
    from sparrow.kernels.parse import edge_lines as kernels

    def parse(block: TextBlock) -> tuple[NDArray[np.int64], pa.Array, int]:
        block.check_utf8()
        ids, start, end = (np.empty(block.lines, np.int64) for _ in range(3))
        count, status, at = kernels.parse_vertices(block.data, ids, start, end)
        if status != kernels.GOOD:
            problem = {
                kernels.BAD_ID: "the id of a vertex must be an integer",
                kernels.LARGE_ID: "the id of a vertex is beyond 2^63 - 1",
                kernels.NEGATIVE: "the id of a vertex is negative",
                kernels.NO_NAME: "a vertex needs an id and a name",
            }[status]
            raise IngestError(problem, block.source.name, block.line_at(at), block.token_at(at))
        start, end = start[:count], end[:count]
        offsets = np.empty(count + 1, np.int32)
        texts = np.empty(int((end - start).sum()), np.uint8)
        kernels.gather_texts(block.data, start, end, offsets, texts)
        names = pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(texts))
        return ids[:count], names, block.advance

    ids: list[NDArray[np.int64]] = []
    names: list[pa.Array] = []
    nbytes = count = 0
    with bar("reading vertices", total_size(sources)) as advance, closing(read_blocks(sources)) as text:
        parsed = cast("Generator[Any]", ordered_map(parse, text, settings.current().threads))
        with closing(parsed):
            for numbers, texts, step in parsed:
                ids.append(numbers)
                names.append(texts)
                count += len(texts)
                nbytes += numbers.nbytes + texts.nbytes
                check_label_memory(count, nbytes)
                advance(step)
    numbers = np.concatenate(ids) if ids else np.empty(0, np.int64)
    labels = pa.chunked_array(names, pa.string())
    if nbytes > 2**30:
        labels = labels.cast(pa.large_string())
    labels = labels.combine_chunks()
    if isinstance(labels, pa.ChunkedArray):
        labels = pa.concat_arrays(labels.chunks) if labels.num_chunks else pa.array([], labels.type)
    if not np.array_equal(numbers, np.arange(len(numbers))):
        labels = _place_labels(numbers, labels, sources[0].name)
    if (twice := find_duplicate_label(labels)) is not None:
        raise IngestError("two vertices have the same name", sources[0].name, token=twice)
    return labels


def _place_labels(numbers: NDArray[np.int64], labels: pa.Array, file: str) -> pa.Array:
    """Return labels at the positions given by their ids."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    if (ordered[1:] == ordered[:-1]).any():
        twice = int(ordered[1:][ordered[1:] == ordered[:-1]][0])
        raise IngestError("the id of a vertex is repeated", file, token=str(twice))
    size = int(ordered[-1]) + 1
    check_label_memory(size, 8 * size)
    places = np.full(size, -1, np.int64)
    places[numbers] = np.arange(len(numbers))
    return labels.take(pa.array(places, mask=places < 0))
