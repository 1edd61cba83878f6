"""Lines of edge lists: what parts their columns, whether ids are names, whether there are weights.

The first block with an edge settles what the lines hold; those that differ from it further down are errors.
"""

from __future__ import annotations

import re
import shlex
import threading
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparrow.errors import IngestError
from sparrow.io.base.coo_writer import cast_checked, misfit_message
from sparrow.io.base.magic import reject_non_edges, split_words
from sparrow.io.base.source import Source, TextBlock, read_blocks
from sparrow.io.text.number_lines import find_line
from sparrow.io.tuning import tuning

__all__ = ["EdgeParser", "ParsedEdges"]

_NODES = re.compile(rb"(?m)^[#%][^\n]*\bNodes:[ \t]*(\d{1,18})\b")
_SHAPE = re.compile(rb"(?m)^# shape: (\d{1,19}) (\d{1,19})[ \t\r]*$")
_KONECT = re.compile(rb"%[ \t]*(sym|bip)\b[^\n]*\n(?:%[ \t]*\d+[ \t]+(\d{1,18})[ \t]+(\d{1,18})[ \t\r]*\n)?")
"""A header of KONECT about edges both ways or between two kinds of vertices, and how many there are of each."""
_SNAP = re.compile(rb"(?im)\A(?:#[^\n]*\n|[ \t\r]*\n)*?#[ \t]*undirected graph\b")
"""A header of SNAP about edges both ways, which stand in the file once: it is the first line, or soon follows."""
_OF_TABLES = ": of a table with other columns sparrow ingest columns takes those that are named"
_DISGUISES = ((b" ", b"\x1c"), (b",", b"\x1d"), (b"\t", b"\x1e"), (b"#", b"\x1f"))
"""Control characters that stand for what parts columns, in ids that may hold it."""


class ParsedEdges(NamedTuple):
    """What a block of text held: ids, or the positions of their texts."""

    block: TextBlock
    src: NDArray[np.int64]
    dst: NDArray[np.int64]
    src_end: NDArray[np.int64]
    dst_end: NDArray[np.int64]
    values: NDArray[Any] | None
    weighted: int
    columns: int
    status: int
    at: int


@dataclass
class EdgeParser:
    """The lines of edge lists, and what they were found to hold."""

    sources: list[Source]
    ids: str
    """``"int"``, ``"str"``, or ``"auto"`` until :meth:`probe` knows."""
    given: np.dtype[Any] | None
    """The type that values are to have."""
    header: bool
    delimiter: str | None
    of_vertices: bool
    """Whether ids are numbers of vertices that are listed elsewhere."""
    as_text: bool = False
    """Whether ids are names."""
    weighted: int = -1
    """1 with weights, 0 without, -1 as long as no edge was seen."""
    nodes: int = 0
    """What a line above the edges says that there are."""
    shape: tuple[int, int] | None = None
    """What a line above the edges says that the sizes are."""
    undirected: str | None = None
    """How a header says that edges go both ways."""
    bipartite: tuple[int, int] | None = None
    """How many vertices of two kinds there are where a header says that edges go between them; 0 if not told."""
    count: int = 0
    """The edges so far."""
    passed_over: bool = False
    """Whether there are columns after the third."""
    _counting: threading.Lock = field(default_factory=threading.Lock)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the values."""
        return self.given if self.given is not None else np.dtype(np.float64 if self.weighted == 1 else np.int64)

    def blocks(self) -> Generator[TextBlock]:
        """Yield the blocks of all sources, a header line of each blanked out."""
        from sparrow.kernels.parse.edge_lines import first_data_line

        skip = False
        with closing(read_blocks(self.sources)) as text:
            for block in text:
                if block.first_line == 1:
                    self._take_header(bytes(block.data[: tuning().detection_bytes]))
                block = self._parted(block)
                skip = self.header and (skip or block.first_line == 1)
                if skip:
                    first, end = first_data_line(block.data)
                    if end:
                        block, skip = _without(block, first, end), False
                yield block

    def _take_header(self, text: bytes) -> None:
        """Take what the comments at the begin of a file say of its edges."""
        if told := _NODES.search(text):
            self.nodes = max(self.nodes, int(told[1]))
        if (told := _SHAPE.search(text)) and max(map(int, told.groups())) < 2**63:
            m, n = self.shape or (0, 0)
            self.shape = max(m, int(told[1])), max(n, int(told[2]))
        if told := _KONECT.match(text):
            if told[1] == b"sym":
                self.undirected = "% sym"
            else:
                self.bipartite = int(told[2] or 0), int(told[3] or 0)
        elif _SNAP.match(text):
            self.undirected = "# Undirected graph"

    def _parted(self, block: TextBlock) -> TextBlock:
        """Return a block whose columns are parted by commas; what would part them otherwise is put in disguise."""
        parted = self.delimiter
        if parted is None:
            return block
        text = bytes(block.data)
        for _, disguise in _DISGUISES:
            if (at := text.find(disguise)) >= 0:
                raise IngestError("the text holds a control character", block.source.name, block.line_at(at))
        text = b"\n".join(line if line.lstrip()[:1] in (b"#", b"%") else _plain(line, parted.encode())
                          for line in text.split(b"\n"))  # fmt: skip
        return replace(block, data=np.frombuffer(bytearray(text), np.uint8))

    def probe(self, text: Iterator[TextBlock]) -> tuple[list[TextBlock], ParsedEdges | None]:
        """Take blocks up to the first with an edge, and settle from it what ids are and whether there are weights."""
        from sparrow.kernels.parse import edge_lines as kernels

        self.as_text = self.ids == "str"
        taken: list[TextBlock] = []
        for block in text:
            taken.append(block)
            first, end = kernels.first_data_line(block.data)
            if not end:
                continue
            reject_non_edges(
                block.text(0, tuning().detection_bytes).rpartition("\n")[0] or block.text(0, end), block.source.name
            )
            parsed = self._parse(block)
            if parsed.status == kernels.PADDED:
                self.as_text = True
                parsed = self._parse(block)
            if parsed.status == kernels.BAD_ID and self.ids == "auto":
                below = self._parse(_without(block, first, end))
                if parsed.at < end and below.status == kernels.GOOD and len(below.src):
                    line = block.text(first, end - 1).strip()
                    raise IngestError(
                        "the first line is no edge of integer ids, all that follow are: "
                        "say header=True to skip it, or ids='str' if ids are names",
                        block.source.name,
                        block.line_at(first),
                        line,
                    )
                self.as_text = True
                parsed = self._parse(block)
            if not len(parsed.src):
                raise self._error(parsed)
            self.weighted = parsed.weighted
            return taken, parsed
        return taken, None

    def parsed(self, block: TextBlock) -> ParsedEdges:
        """Parse a block, values in the dtype, or raise for the first line that is wrong."""
        from sparrow.kernels.parse import edge_lines as kernels

        if self.as_text:
            block.check_utf8()
        parsed = self._parse(block)
        parsed = parsed._replace(values=self._cast(parsed))
        if parsed.status != kernels.GOOD:
            raise self._error(parsed)
        with self._counting:
            self.count += len(parsed.src)
        if parsed.columns > kernels.FOURTH:
            self.passed_over = True
        return parsed

    def names(self, labels: pa.Array, rank: NDArray[np.int32]) -> tuple[pa.Array, NDArray[np.int32]]:
        """Return names as they were in the text, sorted, and the positions among them, for those of the blocks."""
        if self.delimiter is None:
            return labels, rank
        for plain, disguise in _DISGUISES:
            labels = pc.replace_substring(labels, disguise.decode(), plain.decode())
        order = pc.array_sort_indices(labels)
        places = np.empty(len(labels), np.int32)
        places[order.to_numpy()] = np.arange(len(labels), dtype=np.int32)
        return labels.take(order), places[rank]

    def _parse(self, block: TextBlock) -> ParsedEdges:
        from sparrow.kernels.parse import edge_lines as kernels

        n = block.lines
        src, dst = np.empty(n, np.int64), np.empty(n, np.int64)
        src_end, dst_end = (np.empty(n if self.as_text else 0, np.int64) for _ in range(2))
        whole = self.given is not None and self.given.kind in "iu"
        expected = self.weighted
        padded = self.ids != "auto"
        maybe = n if expected != 0 else 0
        weights = np.empty(0 if whole else maybe)
        integers = np.empty(maybe if whole else 0, np.int64)
        hard = np.empty(0 if whole else 2 * maybe, np.int64)
        count, weighted, columns, hards, status, at = kernels.parse_edges(
            block.data, self.as_text, padded, whole, expected, src, dst, src_end, dst_end, weights, integers, hard
        )
        for i, start in hard[: 2 * hards].reshape(-1, 2).tolist():
            weights[i] = float(block.token_at(start))
        values = (integers if whole else weights)[:count] if weighted == 1 else None
        return ParsedEdges(
            block, src[:count], dst[:count], src_end[:count], dst_end[:count], values, weighted, columns, status, at
        )

    def _cast(self, parsed: ParsedEdges) -> NDArray[Any] | None:
        if parsed.values is None:
            return None
        values, unfit = cast_checked(parsed.values, self.dtype)
        if unfit is not None:
            line, text = find_line(parsed.block, unfit)
            token = split_words(text, ",")[2]
            problem = f"the weight {misfit_message(parsed.values[unfit], self.dtype)}"
            raise IngestError(problem, parsed.block.source.name, line, token)
        return values

    def _error(self, parsed: ParsedEdges) -> IngestError:
        from sparrow.kernels.parse import edge_lines as kernels

        block, code, at = parsed.block, parsed.status, parsed.at
        token: str | None = block.token_at(at)
        whole = self.given is not None and self.given.kind in "iu"
        first, end = kernels.first_data_line(block.data)
        line = block.line_text(at)
        headed = self.header or block.first_line > 1 or not first <= at < end
        named = "" if headed else ": say header=True if the first line is no edge"
        problem = {
            kernels.BAD_ID: "the id is no integer: say ids='str' to take ids as names"
            if not self.of_vertices
            else "the id is no integer, which ids of vertices= must be",
            kernels.PADDED: "the id begins with a zero: say ids='str' to take ids as names, or ids='int' as numbers",
            kernels.LARGE_ID: "the id is beyond 2^63 - 1: say ids='str' to take ids as names",
            kernels.NEGATIVE: "the id is negative: say ids='str' to take ids as names",
            kernels.ONE_COLUMN: f"an edge needs two ids{named}",
            kernels.BAD_WEIGHT: "the weight is no integer: leave dtype= out to read numbers as float64"
            if whole
            else f"the weight is no number{_OF_TABLES if len(split_words(line, ',')) > 3 else named}",
            kernels.LARGE_WEIGHT: "the weight does not fit int64: leave dtype= out to read numbers as float64",
            kernels.MIXED: "there is a weight here, and none in the lines above: give all lines one, or none"
            if parsed.weighted == 0
            else "there is no weight here, unlike in the lines above: give all lines one, or none",
        }[code]
        if code == kernels.BAD_WEIGHT and re.match(r"\{['\"]", token or ""):
            file = "FILE" if block.source.path is None else shlex.quote(block.source.name)
            way = f"sed -E 's/\\{{.weight.[:] ?([^,}}]*)}}/\\1/' {file} | sparrow ingest edges - DST"
            problem = f"what edges hold is written as dictionaries; where that is a weight: {way}"
        if code == kernels.ONE_COLUMN or (code == kernels.MIXED and parsed.weighted == 1):
            token = line
            if (
                code == kernels.ONE_COLUMN
                and self.delimiter is None
                and (parted := re.search(r"\w(::|[;|]|[-=]+>)\w", token))
            ):
                problem = f"an edge needs two ids: say delimiter={parted[1]!r} if it parts them"
        return IngestError(problem, block.source.name, block.line_at(at), token)


def _plain(line: bytes, delimiter: bytes) -> bytes:
    ends = line.endswith(b"\r")
    cells = [cell.strip() for cell in line.removesuffix(b"\r").split(delimiter)] if line.strip() else [b""]
    for plain, disguise in _DISGUISES:
        cells = [cell.replace(plain, disguise) for cell in cells]
    return b",".join(cells) + b"\r" * ends


def _without(block: TextBlock, start: int, end: int) -> TextBlock:
    """Return a block with a line, that ends before ``end``, blanked out."""
    data = block.data.copy()
    data[start : end - 1] = 32
    return replace(block, data=data)
