"""Parser of edge lists: separators, kinds of ids, presence of weights.

The first block with an edge decides what the lines hold; a line that differs from it further down is an error.
"""

from __future__ import annotations

import re
import shlex
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparrow.errors import IngestError
from sparrow.io.base.coo_writer import cast_checked, misfit_message
from sparrow.io.base.magic import NTRIPLES_COMMAND, quote_file, split_words
from sparrow.io.base.source import Source, TextBlock, read_blocks
from sparrow.io.text.number_lines import find_line
from sparrow.io.tuning import tuning

__all__ = ["EdgeParser", "ParsedEdges", "reject_non_edges"]

_NODES = re.compile(rb"(?m)^[#%][^\n]*\bNodes:[ \t]*(\d{1,18})\b")
_SHAPE = re.compile(rb"(?m)^# shape: (\d{1,19}) (\d{1,19})[ \t\r]*$")
_KONECT = re.compile(rb"%[ \t]*(sym|bip)\b[^\n]*\n(?:%[ \t]*\d+[ \t]+(\d{1,18})[ \t]+(\d{1,18})[ \t\r]*\n)?")
"""Header of KONECT on undirected edges or two kinds of vertices, and the number of each kind."""
_SNAP = re.compile(rb"(?im)\A(?:#[^\n]*\n|[ \t\r]*\n)*?#[ \t]*undirected graph\b")
"""Header of SNAP on undirected edges, which are in the file once."""
_OF_TABLES = ": sparrow ingest columns reads tables with other columns"
_ESCAPES = ((b" ", b"\x1c"), (b",", b"\x1d"), (b"\t", b"\x1e"), (b"#", b"\x1f"))
"""Control characters that stand for separators within ids."""


_ARROW = re.compile("<?[-=]+>|--|[\u2192\u2194]")
"""Marks that some write between the ends of an edge."""

_GRAPHS = (
    (
        "a DIMACS graph",
        r"(c\b.*\n)*p\s+(sp|edge|col|max|min)\s+\d+\s+\d+$",
        "grep '^[ae] ' {file} | cut -d ' ' -f 2- | sparrow ingest edges - DST",
    ),
    ("a Pajek graph", r"\*(vertices|network)\b", "convert it with networkx.write_edgelist(networkx.read_pajek(...))"),
    (
        "DOT",
        r"(strict\s+)?(di)?graph\b[^\[\n]*\{",
        "convert it with networkx.write_edgelist(networkx.nx_pydot.read_dot(...))",
    ),
    ("GML", r"(graph\s*\[|creator\s+\")", "convert it with networkx.write_edgelist(networkx.read_gml(...))"),
    (
        "a Rutherford-Boeing matrix",
        r".*\n[\d ]+\n[rcipq][suhzr][ae]\s+\d+\s+\d+\s+\d+",
        "scipy.io.hb_read(...) reads it: sp.asarray(...).save(DST)",
    ),
    ("GDF", r"nodedef>", "sed '1,/^edgedef>/d' {file} | cut -d , -f 1,2 | sparrow ingest edges - DST"),
    ("UCINET's DL", r"dl\s+n\s*=", "convert it with igraph.Graph.Read_DL(...).write_edgelist(...)"),
    (
        "an adjacency list of networkx",
        r"#.*\n#\s*GMT .*\n#",
        "convert it with networkx.write_edgelist(networkx.read_adjlist(...)) or read_multiline_adjlist",
    ),
    ("N-Triples", r"(<[^>\s]+>|_:\S+)\s+<[^>\s]+>\s+.*\.$", NTRIPLES_COMMAND),
)
"""Graph formats that are not read: name, first lines, and the way to read them."""


class ParsedEdges(NamedTuple):
    """Edges of a block: ids, or the bounds of their texts."""

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
    """Parser of the lines of edge lists, and what it has found about them."""

    sources: list[Source]
    ids: str
    """``"int"``, ``"str"``, or ``"auto"`` until :meth:`probe` knows."""
    given: np.dtype[Any] | None
    """Type of the values, if given."""
    header: bool
    delimiter: str | None
    of_vertices: bool
    """Whether ids refer to a file of vertices."""
    as_text: bool = False
    """Whether ids are names."""
    weighted: int = -1
    """1 with weights, 0 without, -1 before the first edge."""
    nodes: int = 0
    """Number of vertices declared in a comment."""
    shape: tuple[int, int] | None = None
    """Shape declared in a comment."""
    undirected: str | None = None
    """Header that declares undirected edges."""
    bipartite: tuple[int, int] | None = None
    """Numbers of vertices of two kinds declared in a header; 0 if unknown."""
    count: int = 0
    """Number of edges so far."""
    ignored_columns: bool = False
    """Whether there are columns after the third."""
    _counting: threading.Lock = field(default_factory=threading.Lock)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        return self.given if self.given is not None else np.dtype(np.float64 if self.weighted == 1 else np.int64)

    def blocks(self) -> Generator[TextBlock]:
        """Yield the blocks of all sources, with header lines blanked out."""
        from sparrow.kernels.parse.edge_lines import first_data_line

        skip = False
        with closing(read_blocks(self.sources)) as text:
            for block in text:
                if block.first_line == 1:
                    self._read_header(bytes(block.data[: tuning().detection_bytes]))
                block = self._escape_separators(block)
                skip = self.header and (skip or block.first_line == 1)
                if skip:
                    first, end = first_data_line(block.data)
                    if end:
                        block, skip = _blank_out(block, first, end), False
                yield block

    def _read_header(self, text: bytes) -> None:
        """Take what the comments at the start of a file declare."""
        if found := _NODES.search(text):
            self.nodes = max(self.nodes, int(found[1]))
        if (found := _SHAPE.search(text)) and max(map(int, found.groups())) < 2**63:
            m, n = self.shape or (0, 0)
            self.shape = max(m, int(found[1])), max(n, int(found[2]))
        if found := _KONECT.match(text):
            if found[1] == b"sym":
                self.undirected = "% sym"
            else:
                self.bipartite = int(found[2] or 0), int(found[3] or 0)
        elif _SNAP.match(text):
            self.undirected = "# Undirected graph"

    def _escape_separators(self, block: TextBlock) -> TextBlock:
        """Return a block with commas between columns, and other separators escaped."""
        parted = self.delimiter
        if parted is None:
            return block
        text = bytes(block.data)
        for _, escape in _ESCAPES:
            if (at := text.find(escape)) >= 0:
                raise IngestError("the text holds a control character", block.source.name, block.line_at(at))
        text = b"\n".join(line if line.lstrip()[:1] in (b"#", b"%") else _join_with_commas(line, parted.encode())
                          for line in text.split(b"\n"))  # fmt: skip
        return replace(block, data=np.frombuffer(bytearray(text), np.uint8))

    def probe(self, text: Iterator[TextBlock]) -> tuple[list[TextBlock], ParsedEdges | None]:
        """Take blocks up to the first edge, which decides on ids and weights."""
        from sparrow.kernels.parse import edge_lines as kernels

        self.as_text = self.ids == "str"
        blocks: list[TextBlock] = []
        for block in text:
            blocks.append(block)
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
                below = self._parse(_blank_out(block, first, end))
                if parsed.at < end and below.status == kernels.GOOD and len(below.src):
                    line = block.text(first, end - 1).strip()
                    raise IngestError(
                        "the first line is not an edge of integer ids, the others are: "
                        "pass header=True to skip it, or ids='str' if ids are names",
                        block.source.name,
                        block.line_at(first),
                        line,
                    )
                self.as_text = True
                parsed = self._parse(block)
            if not len(parsed.src):
                raise self._error(parsed)
            self.weighted = parsed.weighted
            return blocks, parsed
        return blocks, None

    def parse(self, block: TextBlock) -> ParsedEdges:
        """Parse a block, with values in the dtype; raise for the first bad line."""
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
            self.ignored_columns = True
        return parsed

    def names(self, labels: pa.Array, rank: NDArray[np.int32]) -> tuple[pa.Array, NDArray[np.int32]]:
        """Return the names, unescaped and sorted, and the rank of each code."""
        if self.delimiter is None:
            return labels, rank
        for plain, escape in _ESCAPES:
            labels = pc.replace_substring(labels, escape.decode(), plain.decode())
        order = pc.array_sort_indices(labels)
        places = np.empty(len(labels), np.int32)
        places[order.to_numpy()] = np.arange(len(labels), dtype=np.int32)
        return labels.take(order), places[rank]

    def _parse(self, block: TextBlock) -> ParsedEdges:
        from sparrow.kernels.parse import edge_lines as kernels

        n = block.lines
        src, dst = np.empty(n, np.int64), np.empty(n, np.int64)
        src_end, dst_end = (np.empty(n if self.as_text else 0, np.int64) for _ in range(2))
        is_integer = self.given is not None and self.given.kind in "iu"
        expected = self.weighted
        padded = self.ids != "auto"
        maybe = n if expected != 0 else 0
        weights = np.empty(0 if is_integer else maybe)
        integers = np.empty(maybe if is_integer else 0, np.int64)
        hard = np.empty(0 if is_integer else 2 * maybe, np.int64)
        count, weighted, columns, hards, status, at = kernels.parse_edges(
            block.data, self.as_text, padded, is_integer, expected, src, dst, src_end, dst_end, weights, integers, hard
        )
        for i, start in hard[: 2 * hards].reshape(-1, 2).tolist():
            weights[i] = float(block.token_at(start))
        values = (integers if is_integer else weights)[:count] if weighted == 1 else None
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
        is_integer = self.given is not None and self.given.kind in "iu"
        first, end = kernels.first_data_line(block.data)
        line = block.line_text(at)
        headed = self.header or block.first_line > 1 or not first <= at < end
        named = "" if headed else ": pass header=True if the first line is not an edge"
        problem = {
            kernels.BAD_ID: "the id must be an integer: pass ids='str' to take ids as names"
            if not self.of_vertices
            else "the id must be an integer, as in vertices=",
            kernels.PADDED: "the id begins with a zero: pass ids='str' to take ids as names, or ids='int' as numbers",
            kernels.LARGE_ID: "the id is beyond 2^63 - 1: pass ids='str' to take ids as names",
            kernels.NEGATIVE: "the id is negative: pass ids='str' to take ids as names",
            kernels.ONE_COLUMN: f"an edge needs two ids{named}",
            kernels.BAD_WEIGHT: "the weight must be an integer: omit dtype= to read float64"
            if is_integer
            else f"the weight must be a number{_OF_TABLES if len(split_words(line, ',')) > 3 else named}",
            kernels.LARGE_WEIGHT: "the weight does not fit int64: omit dtype= to read float64",
            kernels.MIXED: "the line has a weight, unlike those above: give all lines one, or none"
            if parsed.weighted == 0
            else "the line has no weight, unlike those above: give all lines one, or none",
        }[code]
        if code == kernels.BAD_WEIGHT and re.match(r"\{['\"]", token or ""):
            file = "FILE" if block.source.path is None else shlex.quote(block.source.name)
            way = f"sed -E 's/\\{{.weight.[:] ?([^,}}]*)}}/\\1/' {file} | sparrow ingest edges - DST"
            problem = f"attributes of edges are dictionaries; to read their weight: {way}"
        if code == kernels.ONE_COLUMN or (code == kernels.MIXED and parsed.weighted == 1):
            token = line
            if (
                code == kernels.ONE_COLUMN
                and self.delimiter is None
                and (parted := re.search(r"\w(::|[;|]|[-=]+>)\w", token))
            ):
                problem = f"an edge needs two ids: pass delimiter={parted[1]!r} if it separates them"
        return IngestError(problem, block.source.name, block.line_at(at), token)


def _join_with_commas(line: bytes, delimiter: bytes) -> bytes:
    """Return a line with commas between columns, its other separators escaped."""
    ends = line.endswith(b"\r")
    fields = [field.strip() for field in line.removesuffix(b"\r").split(delimiter)] if line.strip() else [b""]
    for plain, escape in _ESCAPES:
        fields = [field.replace(plain, escape) for field in fields]
    return b",".join(fields) + b"\r" * ends


def _blank_out(block: TextBlock, start: int, end: int) -> TextBlock:
    """Return a block with the line that ends before ``end`` blanked out."""
    data = block.data.copy()
    data[start : end - 1] = 32
    return replace(block, data=data)


# -- text that is not an edge list -------------------------------------------------------------------


def reject_non_edges(text: str, name: str) -> None:
    """Raise ``IngestError`` for text that is not an edge list, with a way to read it.

    Parameters
    ----------
    text
        First lines, whole.
    name
        Name of the file.
    """
    lines = [
        line.strip() for line in text.split("\n", tuning().detection_lines)[: tuning().detection_lines] if line.strip()
    ]
    if not lines:
        return
    file = quote_file(name)
    suffixes = Path(name).suffixes
    if lines[0].lower().startswith(("%%matrixmarket", "%matrixmarket")):
        raise IngestError(f"this is a Matrix Market file, whose ids count from 1: sparrow ingest mtx {file} DST", name)
    data = [line.split("#", 1)[0] for line in lines if line[0] not in "#%"]
    rows = [split_words(line, ",") for line in data]
    if not rows or not rows[0]:
        return
    for kind, pattern, way in _GRAPHS:
        if re.match(pattern, "\n".join(lines), re.IGNORECASE | re.MULTILINE):
            raise IngestError(f"this is {kind}, not an edge list: {way.format(file=file)}", name, token=lines[0][:80])
    arrow = rows[0][1] if len(rows[0]) > 2 and _ARROW.fullmatch(rows[0][1]) else None
    if arrow and all(row[1:2] == [arrow] and row[2:3] != ["{}"] for row in rows):
        way = f"sed 's/[[:blank:]]*{arrow}[[:blank:]]*/ /' {file} | sparrow ingest edges - DST"
        raise IngestError(f"edges are written with {arrow!r} between their ids: {way}", name)
    if lines[0][0] in "{[<":
        kind, way = "JSON", f"sparrow ingest columns {file} DST --coords A,B"
        if lines[0][0] == "<":
            kind, way = "HTML or XML", "write two columns, one edge per line"
        elif lines[0][0] == "[":
            way = f"jq -c '.[]' {file} | sparrow ingest columns - DST --format json --coords A,B"
        raise IngestError(f"this is {kind}, not an edge list: {way}", name, token=lines[0][:80])
    if all(token[0] == token[-1] == '"' and len(token) > 2 for row in rows for token in row[:2]):
        raise IngestError(
            "these are quoted names, not an edge list; sparrow ingest columns reads them if they hold blanks or "
            f"commas, else: tr -d '\"' < {file} | sparrow ingest edges - DST",
            name,
        )
    if "#" in lines and _is_tgf(rows, sum(line[0] not in "#%" for line in lines[: lines.index("#")])):
        way = f"sed '1,/^#/d' {file} | sparrow ingest edges - DST"
        raise IngestError(f"this is a graph in TGF, with vertices before its edges: {way}", name)
    if ".tns" in suffixes:
        count = len(rows[-1]) - 1  # the first lines may be sizes
        raise IngestError(
            f"this is a tensor of {count} dimensions (.tns), whose coordinates count from 1: "
            f"sparrow ingest tns {file} DST",
            name,
        )
    if all(re.fullmatch(r"\d+:\S+", token) for row in rows for token in row[1:]) and any(len(row) > 1 for row in rows):
        kind = "libffm" if all(token.count(":") == 2 for row in rows for token in row[1:]) else "libsvm"
        raise IngestError(f"this is {kind} text, not an edge list: sparrow ingest {kind} {file} DST", name)
    _reject_ragged(data, rows, file, name)


def _is_tgf(rows: Sequence[Sequence[str]], count: int) -> bool:
    """Return whether ``count`` rows name vertices, and later rows connect them."""
    vertices = {row[0] for row in rows[:count] if row and row[0].isdigit()}
    named = not any(
        token.isdigit() for row in rows[:count] for token in row[1:2]
    )  # it would be the other end of an edge
    return named and len(vertices) == count > 1 and all(row and {*row[:2]} <= vertices for row in rows[count:])


def _reject_ragged(lines: Sequence[str], rows: Sequence[Sequence[str]], file: str, name: str) -> None:
    """Raise ``IngestError`` for lines whose lengths are not those of edges."""
    counts = sorted({len(row) for row in rows})
    begins = len(rows[0]) == 1 and rows[0][0].isdigit()
    metis = bool({".graph", ".metis"} & set(Path(name).suffixes))
    extras = counts[0] >= 3 and counts[-1] - counts[0] <= 2 and not metis  # columns after the weight
    if len(counts) == 1 or extras or any(row[2:3] and row[2][0] == "{" for row in rows):
        return
    are_numbers = all(token.isdigit() for row in rows for token in row)
    tabs = {line.count("\t") for line in lines}
    if len(tabs) == 1 and 0 not in tabs and not are_numbers:
        triples = f"if they are triples, sparrow ingest triples {file} DST; else " if tabs == {2} else ""
        coords = ",".join(f"c{k}" for k in range(max(tabs) + 1))
        way = f"{triples}sparrow ingest columns {file} DST --no-header --coords {coords}"
        raise IngestError(f"columns are separated by tabs and hold blanks: {way}", name)
    if counts[-1] < 4 and not begins and not metis:
        return
    kind = "neighbor lists, one line per vertex"
    way = f". As an edge list: awk '{{for (i=2; i<=NF; i++) print $1, $i}}' {file} | sparrow ingest edges - DST"
    if are_numbers and begins:
        kind, way = (
            "neighbor lists below a line with the number of vertices",
            f": sparrow ingest webgraph {file} DST",
        )
    elif are_numbers and metis:
        kind, way = (
            "a METIS graph, whose lines are the neighbors of vertices 1, 2, ...",
            f": sparrow ingest metis {file} DST",
        )
    raise IngestError(
        f"lines have {counts[0]} to {counts[-1]} columns, not an edge list: this looks like {kind}{way}", name
    )
