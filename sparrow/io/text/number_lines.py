"""Text of numbers, line by line: base of readers of matrices and graphs."""

from __future__ import annotations

import os
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow import storage
from sparrow.core.casting import is_rounded_integer, misfit_message, parse_digits
from sparrow.core.schema import Schema
from sparrow.errors import IngestError, UnsupportedError
from sparrow.io.base.coo_writer import write_coo
from sparrow.io.base.magic import split_words
from sparrow.io.base.registry import DType, Duplicates, FillValue, Reader, Writer
from sparrow.io.base.report import Report
from sparrow.io.base.sample import Sample
from sparrow.io.base.source import TextBlock, open_source, read_blocks
from sparrow.io.base.suggestion import TypedSource
from sparrow.io.base.value_cast import ValueCast
from sparrow.io.tuning import tuning
from sparrow.relations.arrow import as_arrow, as_numpy
from sparrow.runtime.progress import bar
from sparrow.sorting import Rows

__all__ = [
    "ElementParser", "HeaderLine", "HeaderReader", "LineLayout", "NeighborLists", "NumberLinesReader",
    "NumberLinesWriter", "cast_lines", "check_coords", "counted_lists_in", "find_line", "parse_lines",
    "parse_neighbor_lists", "reject_banner",
]  # fmt: skip


_LINE_BYTES = 1 << 12
"""Bytes in which the end of a line is looked for at first."""


class HeaderLine(NamedTuple):
    """Line of a header."""

    number: int
    text: str

    def error(self, problem: str, name: str) -> IngestError:
        """Return the error about this line."""
        return IngestError(problem, name, self.number, self.text[:80])

    def sizes(self, count: int, what: str, name: str) -> tuple[int, ...]:
        """Return the ``count`` non-negative numbers of the line.

        Raises
        ------
        IngestError
            If the line is anything else.
        """
        tokens = split_words(self.text)
        if not all(token.isascii() and token.isdigit() for token in tokens) or len(tokens) != count:
            raise self.error(f"expected {what}", name)
        if any(len(token.lstrip("0")) > 19 or int(token[-19:]) >= 2**63 for token in tokens):
            raise self.error("the number is beyond 2^63 - 1", name)
        return tuple(int(token.lstrip("0") or "0") for token in tokens)


def reject_banner(lines: HeaderReader, name: str) -> None:
    """Raise ``IngestError`` for Matrix Market, whose banner is a comment here."""
    first = lines.peek()
    if first is not None and first.text.lower().startswith(("%%matrixmarket", "%matrixmarket")):
        ways = [TypedSource.of(name).command("mtx")] if os.path.isfile(name) else []
        raise IngestError("this is a Matrix Market file", name, commands=ways)


class HeaderReader:
    """Blocks of text whose first lines are taken one by one.

    Parameters
    ----------
    blocks
        The text.
    report
        Receives the number of comment lines that are skipped.
    """

    def __init__(self, blocks: Iterator[TextBlock], report: Report) -> None:
        self._blocks, self._report = blocks, report
        self._block: TextBlock | None = None
        self._at = 0
        self._number = 0
        self.comments = b""
        """Start of the text that :meth:`peek_data` skipped."""

    def peek(self) -> HeaderLine | None:
        """Return the next line without taking it; None at the end."""
        while self._block is None or self._at >= len(self._block.data):
            self._block, self._at = next(self._blocks, None), 0
            if self._block is None:
                return None
            self._number = self._block.first_line
        return HeaderLine(self._number, self._block.text(self._at, self._line_end()).strip(" \t\r\v\f"))

    def _line_end(self) -> int:
        """Return the position of the end of the next line."""
        assert self._block is not None
        data: Any = self._block.data
        size = _LINE_BYTES
        while not (found := data[self._at : self._at + size] == 10).any():
            size *= 2
        return self._at + int(np.argmax(found))

    def skip(self) -> None:
        """Take the line that :meth:`peek` returned."""
        self._at = self._line_end() + 1
        self._number += 1

    def peek_data(self, marks: bytes = b"%#") -> HeaderLine | None:
        """Return the next line of data; skip blank lines and comments before it."""
        blank = rb"[ \t\r\v\f]*"
        comment = blank + b"[" + re.escape(marks) + b"]"
        while (line := self.peek()) is not None and (not line.text or line.text[0].encode() in marks):
            assert self._block is not None
            data: Any = self._block.data
            found = re.compile(b"(?:(?:" + comment + rb"[^\n]*|" + blank + rb")\n)*").match(data, self._at)
            assert found is not None
            text = found[0]
            self.comments += text[: max(tuning().detection_bytes - len(self.comments), 0)]
            self._report.add(comments=len(re.findall(b"(?m)^" + comment, text)))
            self._at, self._number = self._at + len(text), self._number + text.count(b"\n")
        return line

    def rest(self) -> Generator[TextBlock]:
        """Yield the blocks from the next line on."""
        if self._block is not None:
            passed = self._number - self._block.first_line
            if self._at < len(self._block.data):
                yield replace(
                    self._block,
                    data=self._block.data[self._at :],
                    first_line=self._number,
                    lines=self._block.lines - passed,
                )
        yield from self._blocks


@dataclass(frozen=True, slots=True)
class LineLayout:
    """Columns of a line."""

    coords: int
    values: int
    """Numbers per value: 0, 1, or 2 if complex."""
    dtype: np.dtype[Any]
    """Type in which values are parsed: int64, uint64, float64 or complex128."""
    base: int = 1
    """Number of the first coordinate."""


class ParsedLines(NamedTuple):
    """Contents of the n lines of a block."""

    coords: NDArray[np.int64]
    """Shape (k, n), counted from 0."""
    values: NDArray[Any] | None
    """Shape (n,)."""
    extents: NDArray[np.int64]
    """Shape (k, 2): the smallest and the largest coordinate in the text."""
    comments: int
    """Number of comment lines."""
    rounded: int
    """Number of values that are integers which a float rounds."""
    first_rounded: int
    """Line of the first of these, counted from 0 among those of data."""


def parse_lines(block: TextBlock, layout: LineLayout) -> ParsedLines:
    """Parse the lines of a block.

    Raises
    ------
    IngestError
        If a line does not fit the layout: with file, line and token.
    """
    from sparrow.kernels.parse import number_lines as kernels

    is_integer = layout.dtype.kind in "iu"
    n, v = block.lines, layout.values
    coords = np.empty((layout.coords, n), np.int64)
    floats, integers = np.empty((0 if is_integer else n, v)), np.empty((n if is_integer else 0, v), np.int64)
    hard = np.empty(2 * n * v, np.int64)
    extents = np.empty((layout.coords, 2), np.int64)
    facts = np.zeros(3, np.int64)
    count, hards, status, at = kernels.parse_numbers(
        block.data, is_integer, layout.base, extents, coords, floats, integers, hard, facts
    )
    comments, rounded, first = facts.tolist()
    if status == kernels.BAD_VALUE and not is_integer and _FORTRAN.search(bytes(block.data)):
        return parse_lines(replace(block, data=_plain_exponents(block)), layout)
    if status != kernels.GOOD:
        raise _error(block, layout, status, at)
    read = hard[: 2 * hards].reshape(-1, 2)
    if layout.dtype.kind == "u":
        integers.reshape(-1)[read[:, 0]] = 0  # beyond int64, parsed below
        if (negative := integers[:count, 0] < 0).any():
            number, text = find_line(block, int(np.argmax(negative)))
            problem = f"the value is negative, and {layout.dtype} is unsigned: pass dtype='int64'"
            raise IngestError(problem, block.source.name, number, text)
    numbers: NDArray[Any] = integers.view(np.uint64) if layout.dtype.kind == "u" else integers if is_integer else floats
    for k, start in read.tolist():
        token = split_words(block.text(start, start + 1000))[0]
        numbers[divmod(k, v)] = _read(block, layout, start, token)
        if not is_integer and is_rounded_integer(token):
            first, rounded = min(k // v, first) if rounded else k // v, rounded + 1
    values = numbers[:count].reshape(-1).view(layout.dtype) if v else None
    return ParsedLines(coords[:, :count], values, extents, comments, rounded, first)


_FORTRAN = re.compile(rb"(?<=[0-9.])[dD](?=[+-]?[0-9])")
"""Exponent marker of doubles in Fortran."""


def _plain_exponents(block: TextBlock) -> NDArray[np.uint8]:
    return np.frombuffer(bytearray(_FORTRAN.sub(b"e", bytes(block.data))), np.uint8)


def _read(block: TextBlock, layout: LineLayout, start: int, token: str) -> Any:
    if layout.dtype.kind not in "iu":
        return float(token)
    number = int(token)
    if layout.dtype.kind == "u" and 0 <= number < 2**64:
        return np.uint64(number)
    problem = f"the value {misfit_message(number, layout.dtype)}"
    raise IngestError(problem, block.source.name, block.line_at(start), token)


def _error(block: TextBlock, layout: LineLayout, status: int, at: int) -> IngestError:
    from sparrow.kernels.parse import number_lines as kernels

    value = "a value" if layout.values == 1 else "two numbers for a value"
    parts = [f"{layout.coords} coordinates"] * (layout.coords > 0) + [value] * (layout.values > 0)
    expected = f"expected {' and '.join(parts)}"
    problem = {
        kernels.BAD_COORDINATE: "the coordinate must be an integer",
        kernels.LARGE: "the coordinate is beyond 2^63 - 1",
        kernels.BAD_VALUE: "the value must be an integer: pass dtype='float64' to read decimals"
        if layout.dtype.kind in "iu"
        else "the value must be a number",
        kernels.TOO_FEW: f"the line is too short: {expected}",
        kernels.TOO_MANY: f"the line is too long: {expected}",
    }[status]
    token = (split_words(block.text(at, at + 1000)) or [""])[0]
    if status == kernels.TOO_FEW:
        token = block.line_text(at)
    return IngestError(problem, block.source.name, block.line_at(at), token)


def cast_lines(block: TextBlock, layout: LineLayout, parsed: ParsedLines, cast: ValueCast) -> NDArray[Any] | None:
    """Return the values of the lines of a block, cast; None if they have none.

    Raises
    ------
    IngestError
        If a value does not fit: with file, line and token.
    """
    cast.report.add(comments=parsed.comments)
    if parsed.values is None:
        return None
    found, unfit = cast(parsed.values)
    problem = "" if unfit is None else cast.problem(parsed.values[unfit])
    if parsed.rounded and cast.dtype.kind in "iu":
        unfit = parsed.first_rounded
        problem = "is beyond 2^53, up to which files of reals hold integers: declare the field integer, if it is, or "
        problem += "pass dtype='float64' to round"
    elif unfit is None and not cast.accepts_rounded(parsed.rounded):
        unfit, problem = parsed.first_rounded, ""
    if unfit is not None:
        number, text = find_line(block, unfit)
        token = split_words(text)[layout.coords]
        beyond = (written := parse_digits(token)) is not None and not -(2**63) <= written < 2**63
        if beyond and parsed.rounded and cast.dtype.kind in "iu":
            problem = cast.problem(written)
        problem = problem or cast.problem_of(token)
        raise IngestError(f"the value {problem}", block.source.name, number, token)
    return found


def find_line(block: TextBlock, element: int) -> tuple[int, str]:
    """Return the number and the text of the line of an element, counted from 0."""
    for number, line in enumerate(bytes(block.data).split(b"\n"), block.first_line):
        text = line.strip()
        if text and text[0] not in b"#%":
            if element == 0:
                return number, text.decode(errors="backslashreplace")
            element -= 1
    raise AssertionError("the block has fewer elements")


class NeighborLists(NamedTuple):
    """Neighbor lists in the lines of a block."""

    lines: NDArray[np.int64]
    """List of each neighbor, counted from 0."""
    numbers: NDArray[np.int64]
    weights: NDArray[np.int64] | None
    heads: NDArray[np.int64]
    """Numbers before the neighbors, a row per list."""
    lists: int


def parse_neighbor_lists(block: TextBlock, comment: str = "", first: int = 0, weighted: bool = False) -> NeighborLists:
    """Return the neighbor lists in the lines of a block; blank lines are empty.

    Parameters
    ----------
    block
        Whole lines.
    comment
        Character that begins lines to ignore.
    first
        Count of numbers before the neighbors.
    weighted
        Whether a weight follows each neighbor.

    Raises
    ------
    IngestError
        If a token is not an integer, or is missing: with file, line and token.
    """
    from sparrow.kernels.parse import adjacency_lines as kernels

    max_count = kernels.count_numbers(block.data)
    lines, numbers = np.empty(max_count, np.int64), np.empty(max_count, np.int64)
    weights = np.empty(max_count if weighted else 0, np.int64)
    heads = np.empty((block.lines if first else 0, first), np.int64)
    sign = ord(comment) if comment else -1
    count, lists, status, at = kernels.parse_lists(block.data, sign, first, weighted, lines, numbers, weights, heads)
    if status != kernels.GOOD:
        problem = {
            kernels.BAD_NUMBER: "the neighbor must be an integer",
            kernels.LARGE: "the number is beyond 2^63 - 1",
            kernels.NO_WEIGHT: "the last neighbor of the line has no weight",
            kernels.TOO_FEW: f"the line is too short: expected {first} numbers before the neighbors",
        }[status]
        token = split_words(block.text(at, at + 80))[0] if status < kernels.NO_WEIGHT else None
        raise IngestError(problem, block.source.name, block.line_at(at), token)
    return NeighborLists(lines[:count], numbers[:count], weights[:count] if weighted else None, heads[:lists], lists)


def counted_lists_in(sample: Sample) -> tuple[int, list[list[int]]] | None:
    """Return the number in the first line of a sample, and those in each other line.

    None if the first line is anything else, or other lines hold other tokens.
    """
    count = sample.text.split("\n", 1)[0].strip()
    if not re.fullmatch("[0-9]{1,18}", count) or sample.number_rows is None:
        return None
    return int(count), [[int(token) for token in row] for row in sample.number_rows]


class ElementParser(ABC):
    """Parser of the elements of a file, block by block, on several threads.

    Parameters
    ----------
    layout
        Columns of a line.
    cast
        Cast of the values to the stored type.
    name
        Name of the file.
    """

    def __init__(self, layout: LineLayout, cast: ValueCast, name: str) -> None:
        self.layout, self.cast, self.name = layout, cast, name
        self.dtype = cast.dtype
        self.found = 0
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        """Count elements."""
        with self._lock:
            self.found += count

    def items(self, text: Iterator[TextBlock]) -> Iterator[tuple[TextBlock, Any]]:
        """Yield blocks, each with what depends on their order in the file."""
        for block in text:
            yield block, None

    @abstractmethod
    def rows(self, item: tuple[TextBlock, Any]) -> Rows:
        """Return the elements of a block."""

    @abstractmethod
    def shape(self, maxima: Sequence[int]) -> tuple[int, ...]:
        """Return the shape; raise if elements are missing or too many."""


@dataclass
class NumberLinesReader(Reader):
    """Base of readers of lines of numbers below a header."""

    _: KW_ONLY
    duplicates: Duplicates = "sum"
    dtype: DType = None
    fill_value: FillValue = 0

    accepts_many: ClassVar[bool] = False
    format: ClassVar[str]

    @abstractmethod
    def begin(self, lines: HeaderReader, name: str) -> tuple[ElementParser, tuple[str, ...], dict[str, Any]]:
        """Parse the header: return the parser, the dimensions, and facts for the history."""

    def labels(self, shape: tuple[int, ...]) -> dict[int, pa.Array]:
        """Return the labels by dimension; none by default."""
        return {}

    def read(self) -> str:
        """Store the file and return its folder."""
        source = open_source(self.src)
        name = source.name
        with storage.stage_folder(self.dst, self.overwrite) as folder, closing(read_blocks(source)) as text:
            lines = HeaderReader(text, self.report)
            parser, dims, extra = self.begin(lines, name)
            with bar("reading elements", source.size) as advance:

                def items() -> Iterator[tuple[TextBlock, Any]]:
                    for item in parser.items(lines.rest()):
                        yield item
                        advance(item[0].advance)

                written = write_coo(
                    folder,
                    items(),
                    parser.rows,
                    dims=dims,
                    dtype=parser.dtype,
                    weighted=parser.layout.values > 0,
                    duplicates=self.duplicates,
                    fill_value=self.fill_value,
                    profile=self.profile,
                    report=self.report,
                    describe=lambda element: (
                        f"{tuple(k + parser.layout.base for k in element)}, counted from {parser.layout.base}"
                    ),
                )
            shape = parser.shape(written.maxima)
            storage.create(
                folder,
                Schema(shape, dims, parser.dtype, self.fill_value),
                written.files,
                labels=self.labels(shape),
                profile=self.profile,
                operation=f"ingest {self.format}",
                report=self.report.counts,
                extra={"sources": [name], **extra},
            )
        return os.fspath(self.dst)


def check_coords(block: TextBlock, parsed: ParsedLines, base: int, shape: Sequence[int | None], hint: str = "") -> None:
    """Raise ``IngestError`` for the first coordinate out of bounds."""
    for k, ((low, high), size) in enumerate(zip(parsed.extents.tolist(), shape, strict=True)):
        largest = 2**63 - 2 + base if size is None else size - 1 + base
        if low <= high and (low < base or high > largest):
            column = parsed.coords[k] + base  # wraps back if base 1 overflowed int64
            element = int(np.argmax((column < base) | (column > largest)))
            number, text = find_line(block, element)
            if column[element] < base:
                problem = f"the coordinate must be at least {base}{hint}"
            else:
                problem = f"the coordinate exceeds the size {size} of dimension {k}"
            raise IngestError(problem, block.source.name, number, split_words(text)[k])


@dataclass
class NumberLinesWriter(Writer):
    """Base of writers of lines of numbers, with coordinates from 1."""

    title: ClassVar[str]

    @cached_property
    def count(self) -> int:
        """Number of elements; computing it may evaluate an expression."""
        return self.tensor.nnz

    @abstractmethod
    def head(self) -> list[str]:
        """Return the header; raise ``UnsupportedError`` for other tensors."""

    def columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """Return the columns of the lines: True as 1."""
        coords = [as_arrow(as_numpy(column).astype(np.int64) + 1) for column in batch.columns[: self.tensor.ndim]]
        values = batch.columns[self.tensor.ndim :]
        narrow = {pa.bool_(): pa.int8(), pa.float16(): pa.float32()}
        return [*coords, *(column.cast(narrow.get(column.type, column.type)) for column in values)]

    def write(self) -> int:
        """Write the file and return the number of elements."""
        from pyarrow import csv

        tensor = self.tensor
        if tensor.fill_value != 0:
            raise UnsupportedError(
                f"{self.title} needs fill 0, the tensor has {tensor.fill_value}: use npz, or A.refill(0)"
            )
        head = self.head()
        options = csv.WriteOptions(include_header=False, delimiter=" ", quoting_style="none")
        with self.sink() as file, bar("exporting", self.count, "elements") as advance:
            file.write("".join(line + "\n" for line in head).encode())
            out = pa.PythonFile(file, mode="w")
            for batch in tensor.to_batches():
                columns = self.columns(batch)
                csv.write_csv(pa.table(columns, [str(k) for k in range(len(columns))]), out, options)
                advance(batch.num_rows)
        return self.count
