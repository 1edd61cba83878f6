"""Files that number names: ``entity2id.txt`` and its like."""

from __future__ import annotations

from contextlib import closing

import pyarrow as pa

from sparrow.core.labels import find_duplicate_label
from sparrow.errors import IngestError
from sparrow.io.base.coo_writer import check_label_memory
from sparrow.io.base.source import Source, read_blocks

__all__ = ["read_vocabulary"]


def read_vocabulary(source: Source) -> pa.Array:
    """Return the names that a file lists, each at the place of its number.

    Lines hold a name, a name and its number, or a number and its name, parted by a tab or else by blanks; their count
    may stand first.

    Raises
    ------
    IngestError
        If the numbers are not those from 0 on, or two names are the same.
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
            raise IngestError("a line is a name, or a name and its number", source.name, number, line[:80])
    if width == 2:
        for own, other in ((1, 0), (0, 1)):
            numbers = [int(row[own]) if row[own].isascii() and row[own].isdigit() else -1 for row in rows]
            if sorted(numbers) == list(range(len(rows))):
                names = [""] * len(rows)
                for at, row in zip(numbers, rows, strict=True):
                    names[at] = row[other]
                break
        else:
            raise IngestError(f"neither column holds the numbers from 0 to {len(rows) - 1}", source.name)
    else:
        names = [row[0] for row in rows]
    labels = pa.array(names, pa.string())
    if (twice := find_duplicate_label(labels)) is not None:
        raise IngestError("two numbers have one name", source.name, token=twice)
    return labels


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("\t")] if "\t" in line else line.split()
