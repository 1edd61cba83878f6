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
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from sparrow.core.casting import is_rounded_integer, misfit_message, parse_digits
from sparrow.errors import IngestError
from sparrow.io.base.foreign import reject_foreign
from sparrow.io.base.layout import is_number, json_list_command, json_options
from sparrow.io.base.magic import split_words
from sparrow.io.base.report import Report
from sparrow.io.base.source import Source, TextBlock, compression_of, read_blocks
from sparrow.io.base.suggestion import TypedSource
from sparrow.io.base.value_cast import ValueCast
from sparrow.io.text.mtx import missing_banner
from sparrow.io.tuning import tuning

__all__ = ["EdgeBlock", "EdgeParser", "LineFacts", "ParsedEdges", "pairs_of_lists", "reject_non_edges", "split_edge"]

_NODES = re.compile(rb"(?m)^[#%][^\n]*\bNodes:[ \t]*(\d{1,18})\b")
_EDGES = re.compile(rb"(?m)^[#%][^\n]*\bEdges:[ \t]*(\d{1,18})\b")
_SHAPE = re.compile(rb"(?m)^# shape: (\d{1,19}) (\d{1,19})[ \t\r]*$")
_KONECT = re.compile(rb"%[ \t]*(sym|bip)\b[^\n]*\n(?:%[ \t]*\d+[ \t]+(\d{1,18})[ \t]+(\d{1,18})[ \t\r]*\n)?")
"""Header of KONECT on undirected edges or two kinds of vertices, and the number of each kind."""
_SNAP = re.compile(rb"(?im)\A(?:#[^\n]*\n|[ \t\r]*\n)*?#[ \t]*undirected graph\b")
"""Header of SNAP on undirected edges, which are in the file once."""
_MARKED = re.compile(rb"(?m)^[ \t]*([#%][^\s][^\n]*)$")
"""Line that begins with a mark and no blank: a comment above the first edge, or an edge."""
_OF_TABLES = ": sparrow ingest columns reads tables with other columns"
_BLANKS = " \t\r\v\f"
_MAX_TEXT_LABELS = 20
_MIN_SHARED_NAMES = 4
"""Words of which one at least begins a line, if lines are lists of neighbors."""
_MAX_ODD_LINES = 3
"""Lines of other ids that are named, where all others hold integers."""


_ARROW = re.compile("<?[-=]+>|--|[\u2192\u2194]")
"""Marks that some write between the ends of an edge."""


class ParsedEdges(NamedTuple):
    """Edges of a block: ids, or the bounds of their texts."""

    block: EdgeBlock
    src: NDArray[np.int64]
    dst: NDArray[np.int64]
    src_end: NDArray[np.int64]
    dst_end: NDArray[np.int64]
    values: NDArray[Any] | None
    weighted: int
    status: int
    at: int
    facts: list[int]
    """Counts of comments and others, by the constants of the kernel."""


@dataclass(frozen=True, slots=True)
class EdgeBlock(TextBlock):
    """Lines of an edge list, and where the comments above its first edge end."""

    header_end: int = 0


class OddId(NamedTuple):
    """Id that is no integer, among integers."""

    file: str
    line: int
    token: str


class ExtraColumns(NamedTuple):
    """First line with more than three columns: place in the input, and text."""

    source: int
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class LineFacts:
    """Facts about the lines of some sources."""

    nodes: int
    edges: int | None
    shape: tuple[int, int] | None
    undirected: str | None
    bipartite: tuple[int, int] | None
    count: int
    extra: int
    joined: int
    first_extra: ExtraColumns | None


@dataclass
class EdgeParser:
    """Parser of the lines of edge lists, and what it has found about them."""

    src: Any
    """The source as it was typed, for commands."""
    sources: list[Source]
    ids: str
    """``"int"``, ``"str"``, or ``"auto"`` until :meth:`probe` knows."""
    given: np.dtype[Any] | None
    """Type of the values, if given."""
    header: bool
    delimiter: str | None
    comment: str | None
    """Prefix of comment lines, empty if there are none; None for ``#`` and ``%`` above the first edge."""
    of_vertices: bool
    """True if ids refer to a file of vertices."""
    report: Report
    as_text: bool = False
    """True if ids are names."""
    weighted: int = -1
    """1 with weights, 0 without, -1 before the first edge."""
    times: bool = False
    """True if the weights look like timestamps and would be summed."""
    nodes: int = 0
    """Number of vertices declared in a comment."""
    edges: int | None = None
    """Number of edges declared in the comments of all files."""
    shape: tuple[int, int] | None = None
    """Shape declared in a comment."""
    undirected: str | None = None
    """Header that declares undirected edges."""
    bipartite: tuple[int, int] | None = None
    """Numbers of vertices of two kinds declared in a header; 0 if unknown."""
    odd: list[OddId] = field(default_factory=list)
    """The few ids that are no integers, among those of the first block."""
    count: int = 0
    """Number of edges so far."""
    extra: int = 0
    """Number of lines with columns after the third."""
    _joined: int = 0
    _first_extra: ExtraColumns | None = None
    _counting: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._separator = np.frombuffer((self.delimiter or "").encode(), np.uint8)
        self._prefix = np.frombuffer((self.comment or "").encode(), np.uint8)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        return self.given if self.given is not None else np.dtype(np.float64 if self.weighted == 1 else np.int64)

    @property
    def _typed(self) -> TypedSource:
        return TypedSource.of(self.src, compression_of(self.sources[0]))

    @property
    def _value_cast(self) -> ValueCast:
        return ValueCast(self.dtype, self.given is not None, self.report)

    def blocks(self) -> Generator[EdgeBlock]:
        """Yield the blocks of all sources, with header lines blanked out."""
        in_header = skip = False
        declared: list[int | None] = []
        with closing(read_blocks(self.sources)) as text:
            for each in text:
                if each.first_line == 1:
                    declared.append(self._read_header(bytes(each.data[: tuning().detection_bytes])))
                    in_header, skip = True, self.header
                size = len(each.data) if in_header else 0
                block = EdgeBlock(each.source, each.data, each.first_line, each.lines, each.advance, size)
                if in_header:
                    first, end = self._data_line(block)
                    header_end = self._find_header_end(block, first if end else size)
                    block, in_header = replace(block, header_end=header_end), header_end == size
                if skip:
                    first, end = self._data_line(block)
                    if end:
                        block, skip = _blank_out(block, first, end), False
                yield block
        if declared and None not in declared:
            self.edges = sum(count for count in declared if count is not None)

    def _read_header(self, text: bytes) -> int | None:
        """Take facts from the comments above a file; return the number of edges."""
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
        edges = _EDGES.search(text)
        return None if edges is None else int(edges[1])

    def _find_header_end(self, block: EdgeBlock, stop: int) -> int:
        """Return the end of the comments above the first edge.

        Ids may begin with a mark, too.
        """
        if self.comment is not None or self.ids == "int":
            return stop
        if not (marked := [*_MARKED.finditer(bytes(block.data[:stop]))]):
            return stop
        limit = tuning().detection_lines
        lines = block.text(stop, stop + tuning().detection_bytes).split("\n", limit)[:limit]
        below = [row for line in lines if (row := self.split(line))]
        if self.ids == "auto" and below and all(token.isdigit() for row in below for token in row[:2]):
            return stop
        for found in marked:
            row = self.split(found[1].decode(errors="backslashreplace"))
            if len(row) not in ({len(below[0])} if below else {2, 3}):
                continue
            encoded = re.match(rb"%[0-9A-Fa-f]{2}", found[1]) is not None
            stated = self.delimiter is not None and self.ids == "str"
            mark = found[1][:1].decode()
            if encoded or stated or any(token[:1] == mark != token for row in below for token in row[:2]):
                return found.start()
        return stop

    def _data_line(self, block: EdgeBlock, number: int = 0) -> tuple[int, int]:
        """Return the bounds of a line of data; the end is 0 if there are fewer."""
        from sparrow.kernels.parse.edge_lines import data_line

        start, end = data_line(block.data, number, self._prefix, self._prefix_size, block.header_end)
        return start, end

    @property
    def _prefix_size(self) -> int:
        from sparrow.kernels.parse.edge_lines import ANY_MARK

        return ANY_MARK if self.comment is None else len(self._prefix)

    def find_line(self, block: EdgeBlock, edge: int) -> tuple[int, str]:
        """Return number and text of the line of an edge of a block."""
        start, end = self._data_line(block, edge)
        return block.line_at(start), block.text(start, end).strip()

    def split(self, line: str) -> list[str]:
        """Return the columns of a line, without a comment behind them."""
        return split_edge(line, self.delimiter, self.comment)

    def probe(self, text: Iterator[EdgeBlock]) -> tuple[list[EdgeBlock], ParsedEdges | None]:
        """Take blocks up to the first edge, which decides on ids and weights."""
        from sparrow.kernels.parse import edge_lines as kernels

        self.as_text = self.ids == "str"
        blocks: list[EdgeBlock] = []
        for block in text:
            blocks.append(block)
            first, end = self._data_line(block)
            if not end:
                continue
            sample = block.text(0, tuning().detection_bytes).rpartition("\n")[0] or block.text(0, end)
            reject_non_edges(sample, self._typed, block.source.name, self.delimiter, self.comment)
            parsed = self._parse(block)
            if self.ids == "auto" and parsed.status in (kernels.PADDED, kernels.BAD_ID):
                self._reject_decimals(block, parsed)
                odd = self._find_odd_ids(block, parsed)
                if parsed.status == kernels.BAD_ID and len(odd) == 1 and parsed.at < end:
                    raise IngestError(
                        "the first line is not an edge of integer ids, the others are: "
                        "pass header=True to skip it, or ids='str' if ids are names",
                        block.source.name,
                        block.line_at(first),
                        block.text(first, end - 1).strip(),
                    )
                self.odd = odd
                self.as_text = True
                parsed = self._parse(block)
            if not len(parsed.src):
                raise self._error(parsed)
            self.weighted = parsed.weighted
            return blocks, parsed
        return blocks, None

    def _reject_decimals(self, block: EdgeBlock, parsed: ParsedEdges) -> None:
        """Raise ``IngestError`` for an id such as 1.5, if all are numbers."""
        token = self._token(block, parsed.at)
        if not is_number(token) or re.fullmatch(r"\d+", token):
            return
        start = self._data_line(block)[0]
        limit = tuning().detection_lines
        lines = block.text(start, start + tuning().detection_bytes).split("\n", limit)[:limit]
        if all(is_number(end) for line in lines[:-1] or lines for end in self.split(line)[:2]):
            problem = "the id must be an integer, as 7, 7.0 and 7e0 are: pass ids='str' to take ids as names"
            raise IngestError(problem, block.source.name, block.line_at(parsed.at), token)

    def _find_odd_ids(self, block: EdgeBlock, parsed: ParsedEdges) -> list[OddId]:
        """Return the ids that are no integers in a block of integers, if few."""
        from sparrow.kernels.parse import edge_lines as kernels

        odd: list[OddId] = []
        while parsed.status in (kernels.PADDED, kernels.BAD_ID):
            if len(odd) == _MAX_ODD_LINES:
                return []
            start, end = self._data_line(block, len(parsed.src))
            odd.append(OddId(block.source.name, block.line_at(parsed.at), self._token(block, parsed.at)))
            block = _blank_out(block, start, end)
            parsed = self._parse(block)
        return odd if parsed.status == kernels.GOOD and len(parsed.src) >= len(odd) else []

    def parse(self, block: EdgeBlock) -> ParsedEdges:
        """Parse a block, with values in the dtype; raise for the first bad line."""
        from sparrow.kernels.parse import edge_lines as kernels

        if self.as_text:
            block.check_utf8()
        parsed = self._parse(block)
        parsed = parsed._replace(values=self._cast(parsed))
        if parsed.status != kernels.GOOD:
            raise self._error(parsed)
        facts = parsed.facts
        if not self._value_cast.accepts_rounded(facts[kernels.INEXACT_WEIGHTS]):
            line, text = self.find_line(block, facts[kernels.INEXACT_AT])
            token = self.split(text)[2]
            problem = f"the weight {self._value_cast.problem_of(token)}"
            if self.times:
                problem += (
                    "; it looks like a timestamp, and dtype= lets repeated edges sum them: pass duplicates='last', "
                    "'first', 'min' or 'max', too"
                )
            raise IngestError(problem, block.source.name, line, token)
        self.report.add(comments=facts[kernels.COMMENTS], rewritten=facts[kernels.REWRITTEN])
        with self._counting:
            self.count += len(parsed.src)
            self.extra += facts[kernels.EXTRA]
            self._joined += facts[kernels.JOINED]
            if facts[kernels.EXTRA]:
                place = (self.sources.index(block.source), *self.find_line(block, facts[kernels.EXTRA_AT]))
                if self._first_extra is None or place < self._first_extra:
                    self._first_extra = ExtraColumns(*place)
        return parsed

    def facts(self) -> LineFacts:
        """Return facts about the lines of the sources."""
        return LineFacts(
            self.nodes, self.edges, self.shape, self.undirected, self.bipartite, self.count, self.extra, self._joined,
            self._first_extra,
        )  # fmt: skip

    def take(self, found: LineFacts, first: int) -> None:
        """Add what was found in later sources, the first of which has a number."""
        self.nodes = max(self.nodes, found.nodes)
        known = self.edges if first else 0
        self.edges = None if known is None or found.edges is None else known + found.edges
        if found.shape is not None:
            m, n = self.shape or (0, 0)
            self.shape = max(m, found.shape[0]), max(n, found.shape[1])
        self.undirected = found.undirected or self.undirected
        self.bipartite = found.bipartite or self.bipartite
        self.count += found.count
        self.extra += found.extra
        self._joined += found.joined
        if self._first_extra is None and found.first_extra is not None:
            self._first_extra = found.first_extra._replace(source=found.first_extra.source + first)

    def check_columns(self) -> None:
        """Raise ``IngestError`` if few lines have more columns than the others."""
        if self._first_extra is None or not self._joined or 2 * self.extra > self.count:
            return
        source, line, text = self._first_extra
        ways = []
        if self.delimiter in (None, " "):
            ways = [self._typed.pipe("awk -F'[ \\t,]+' '{print $1, $2, $3}'", "edges")]
        raise IngestError(
            f"{self.extra:,} of {self.count:,} lines have more than three columns, perhaps two lines run together, or "
            "lists of neighbors; if the columns after the third are of no use",
            self.sources[source].name,
            line,
            text[:200],
            ways,
        )

    def _parse(self, block: EdgeBlock) -> ParsedEdges:
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
        counts = np.zeros(kernels.FACTS, np.int64)
        count, weighted, hards, status, at = kernels.parse_edges(
            block.data, self.as_text, padded, is_integer, expected, self._separator, self._prefix, self._prefix_size,
            block.header_end, src, dst, src_end, dst_end, weights, integers, hard, counts,
        )  # fmt: skip
        facts = counts.tolist()
        for i, start in hard[: 2 * hards].reshape(-1, 2).tolist():
            token = self._token(block, start)
            weights[i] = float(token)
            if is_rounded_integer(token):
                facts[kernels.INEXACT_AT] = min(i, facts[kernels.INEXACT_AT]) if facts[kernels.INEXACT_WEIGHTS] else i
                facts[kernels.INEXACT_WEIGHTS] += 1
        values = (integers if is_integer else weights)[:count] if weighted == 1 else None
        return ParsedEdges(
            block, src[:count], dst[:count], src_end[:count], dst_end[:count], values, weighted, status, at, facts
        )

    def _token(self, block: EdgeBlock, at: int) -> str:
        """Return the column that begins at a position."""
        return (self.split(block.text(at, at + 1000).split("\n", 1)[0]) or [""])[0]

    def _cast(self, parsed: ParsedEdges) -> NDArray[Any] | None:
        if parsed.values is None:
            return None
        values, unfit = self._value_cast(parsed.values)
        if unfit is not None:
            line, text = self.find_line(parsed.block, unfit)
            problem = f"the weight {self._value_cast.problem(parsed.values[unfit])}"
            raise IngestError(problem, parsed.block.source.name, line, self.split(text)[2])
        return values

    def _large_weight(self, token: str | None) -> str:
        """Return the error message for a weight, an integer beyond int64."""
        number = parse_digits(token or "") or 2**63
        return misfit_message(number, np.dtype(np.uint64 if self.given == np.uint64 else np.int64))

    def _error(self, parsed: ParsedEdges) -> IngestError:
        from sparrow.kernels.parse import edge_lines as kernels

        block, code, at = parsed.block, parsed.status, parsed.at
        token: str | None = self._token(block, at)
        is_integer = self.given is not None and self.given.kind in "iu"
        first, end = self._data_line(block)
        line = block.line_text(at)
        headed = self.header or block.first_line > 1 or not first <= at < end
        named = "" if headed else ": pass header=True if the first line is not an edge"
        marked = "" if token is None or token[:1] not in ("#", "%") else f", or comment={token[0]!r} to pass over it"
        problem = {
            kernels.BAD_ID: f"the id must be an integer: pass ids='str' to take ids as names{marked}"
            if not self.of_vertices
            else "the id must be an integer, as in vertices=",
            kernels.PADDED: "the id begins with a zero: pass ids='str' to take ids as names, or ids='int' as numbers",
            kernels.LARGE_ID: "the id is beyond 2^63 - 1: pass ids='str' to take ids as names",
            kernels.NEGATIVE: "the id is negative: pass ids='str' to take ids as names",
            kernels.ONE_COLUMN: f"an edge needs two ids{named}",
            kernels.BAD_WEIGHT: "the weight must be an integer: omit dtype= or pass dtype='float64' to read decimals"
            if is_integer
            else f"the weight must be a number{_OF_TABLES if len(self.split(line)) > 3 else named}",
            kernels.LARGE_WEIGHT: f"the weight {self._large_weight(token)}",
            kernels.MIXED: "the line has a weight, unlike those above: give all lines one, or none"
            if parsed.weighted == 0
            else "the line has no weight, unlike those above: give all lines one, or none",
        }[code]
        if code == kernels.BAD_WEIGHT and re.match(r"\d{4}-\d\d-\d\d", token or ""):
            ways = [self._typed.pipe("awk -F'[ \\t,]+' '{print $1, $2}'", "edges")]
            problem = "the weight must be a number, not a date; to leave the dates out"
            return IngestError(problem, block.source.name, block.line_at(at), token, ways)
        if code == kernels.BAD_WEIGHT and re.match(r"\{['\"]", token or ""):
            script = shlex.quote(r"s/\{.weight.[:] ?([^,}]*)}/\1/")
            way = self._typed.pipe(f"sed -E {script}", "edges")
            problem = "attributes of edges are dictionaries; to read their weight"
            return IngestError(problem, block.source.name, block.line_at(at), token, [way])
        if code == kernels.ONE_COLUMN or (code == kernels.MIXED and parsed.weighted == 1):
            token = line
            if (
                code == kernels.ONE_COLUMN
                and self.delimiter is None
                and (separated := re.search(r"\w(::|[;|]|[-=]+>)\w", token))
            ):
                problem = f"an edge needs two ids: pass delimiter={separated[1]!r} if it separates them"
        return IngestError(problem, block.source.name, block.line_at(at), token)


def split_edge(line: str, delimiter: str | None = None, comment: str | None = None) -> list[str]:
    """Return the columns of a line of an edge list, without a comment behind them.

    Examples
    --------
    >>> split_edge("C# F# 3 # a note"), split_edge("New York; Rome; 2", ";")
    (['C#', 'F#', '3'], ['New York', 'Rome', '2'])
    """
    if delimiter is not None and delimiter != " ":
        return [column.strip(_BLANKS) for column in line.split(delimiter)] if line.strip(_BLANKS) else []
    words = split_words(line, "," if delimiter is None else "")
    mark = "#" if comment is None else comment
    if delimiter is None and len(mark) == 1:
        for at, word in enumerate(words):
            if word[0] == mark and (at > 1 or len(word) == 1):
                return words[:at]
    return words


def _blank_out(block: EdgeBlock, start: int, end: int) -> EdgeBlock:
    """Return a block with the line that ends before ``end`` blanked out."""
    data = block.data.copy()
    data[start : end - 1] = 32
    return replace(block, data=data)


# -- text that is not an edge list -------------------------------------------------------------------


def reject_non_edges(
    text: str, typed: TypedSource, name: str, delimiter: str | None = None, comment: str | None = None
) -> None:
    """Raise ``IngestError`` for text that is not an edge list, with a way to read it.

    Parameters
    ----------
    text
        First lines, whole.
    typed
        The source as it was typed, for commands.
    name
        Name of the file.
    delimiter, comment
        Options of the parser.
    """
    limit = tuning().detection_lines
    lines = [line.strip() for line in text.split("\n", limit)[:limit] if line.strip()]
    if not lines:
        return
    suffixes = Path(name).suffixes

    def reject(problem: str, *commands: str, token: str | None = None) -> NoReturn:
        raise IngestError(problem, name, token=token, commands=commands)

    if lines[0].lower().startswith(("%%matrixmarket", "%matrixmarket")):
        reject("this is a Matrix Market file, whose ids count from 1", typed.command("mtx"))
    marks = ("#", "%") if comment is None else (comment,) if comment else ()
    data = [line for line in lines if not line.startswith(marks)]
    rows = [row for line in data if (row := split_edge(line, delimiter, comment))]
    if not rows or not rows[0]:
        return
    if lines[0][0] == "{" or re.match(r"\[(\s*[\[{\"0-9-]|$)", lines[0]):
        if lines[0][0] == "[":
            way = json_list_command(text, typed)
            reject("this is JSON, not an edge list, as one list", *([] if way is None else [way]), token=lines[0][:80])
        reject("this is JSON, not an edge list", typed.command("columns", **json_options(data)), token=lines[0][:80])
    reject_foreign("\n".join(lines), typed, name)
    if delimiter is not None and delimiter != " ":
        return  # whose fields may hold anything
    arrow = rows[0][1] if len(rows[0]) > 2 and _ARROW.fullmatch(rows[0][1]) else None
    if arrow and all(row[1:2] == [arrow] and row[2:3] != ["{}"] for row in rows):
        way = typed.pipe(f"sed 's/[[:blank:]]*{arrow}[[:blank:]]*/ /'", "edges")
        reject(f"edges are written with {arrow!r} between their ids", way)
    if all(token[0] == token[-1] == '"' and len(token) > 2 for row in rows for token in row[:2]):
        reject(
            "these are quoted names, not an edge list; sparrow ingest columns reads them if they hold blanks or "
            "commas, else",
            typed.pipe("{text} | tr -d '\"'", "edges"),
        )
    if "#" in lines and _is_tgf(rows, sum(line[0] not in "#%" for line in lines[: lines.index("#")])):
        way = typed.pipe("sed '1,/^#/d'", "edges")
        reject("this is a graph in TGF, with vertices before its edges", way)
    if ".tns" in suffixes:
        count = len(rows[-1]) - 1  # the first lines may be sizes
        reject(f"this is a tensor of {count} dimensions (.tns), whose coordinates count from 1", typed.command("tns"))
    if {".mtx", ".mm"} & set(suffixes):
        problem = "the name is that of a Matrix Market file, but the banner is missing"
        raise missing_banner(problem, rows, typed, name)
    features = [token for row in rows for token in row[1:]]
    if features and all(re.fullmatch(r"\d+:\S+", token) for token in features):
        _reject_samples(rows, features, typed, name)
    _reject_lists(data, typed, name)
    _reject_ragged(data, rows, typed, name)


def _reject_samples(rows: Sequence[Sequence[str]], features: Sequence[str], typed: TypedSource, name: str) -> NoReturn:
    """Raise ``IngestError`` for libsvm or libffm, with labels of text or not."""
    kind = "libffm" if all(token.count(":") == 2 for token in features) else "libsvm"
    labels = list(dict.fromkeys(row[0] for row in rows if ":" not in row[0]))
    texts = [label for label in labels if not all(is_number(part) for part in label.split(","))]
    if texts and len(texts) < len(labels):
        raise IngestError(f"this is {kind} text, but a label is not a number as the others are", name, token=texts[0])
    if not texts or len(labels) > _MAX_TEXT_LABELS:
        raise IngestError(
            f"this is {kind} text, not an edge list", name, commands=[] if texts else [typed.command(kind)]
        )
    script = "; ".join(f"s/^{re.escape(label)}([[:blank:]]|$)/{k}\\1/" for k, label in enumerate(sorted(labels)))
    way = typed.pipe(f"sed -E {shlex.quote(script)}", kind)
    problem = f"this is {kind} text whose labels are texts, which must be numbers"
    raise IngestError(problem, name, token=texts[0], commands=[way])


def _reject_lists(lines: Sequence[str], typed: TypedSource, name: str) -> None:
    """Raise ``IngestError`` for a name, a separator and a list in each line."""
    found = re.search("[;|]", lines[0])
    if found is None:
        return
    sign = found[0]
    parts = [line.split(sign) for line in lines]
    if all(len(part) == 2 and len(split_words(part[1], ",")) >= 1 for part in parts) and any(
        len(split_words(part[1], ",")) > 2 for part in parts
    ):
        script = '{n = split($2, a, /[ \\t,]+/); for (i = 1; i <= n; i++) if (a[i] != "") print $1 "\\t" a[i]}'
        separator = shlex.quote("[|]" if sign == "|" else sign)
        way = typed.pipe(f"awk -F{separator} '{script}'", "columns", header=False, coords=["c0", "c1"])
        problem = f"lines are a name, {sign!r} and a list, not an edge list; as pairs of both"
        raise IngestError(problem, name, token=lines[0][:80], commands=[way])


def _is_tgf(rows: Sequence[Sequence[str]], count: int) -> bool:
    """Return whether ``count`` rows name vertices, and later rows connect them."""
    vertices = {row[0] for row in rows[:count] if row and row[0].isdigit()}
    named = not any(
        token.isdigit() for row in rows[:count] for token in row[1:2]
    )  # it would be the other end of an edge
    return named and len(vertices) == count > 1 and all(row and {*row[:2]} <= vertices for row in rows[count:])


def pairs_of_lists(lines: Sequence[str]) -> str:
    """Return the command that prints lists, one in each line, as pairs."""
    if any("," in line for line in lines):
        return "awk -F'[ \\t,]+' '{for (i=2; i<=NF; i++) if ($i != \"\") print $1, $i}'"
    return "awk '{for (i=2; i<=NF; i++) print $1, $i}'"


def _has_names(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether a first row may name columns of numbers."""
    below = [token for row in rows[1:] for token in row]
    return not any(map(is_number, rows[0])) and all(map(is_number, below))


def _name_each_other(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether lines may be lists of neighbors: words that begin others."""
    neighbors = {token for row in rows for token in row[1:]}
    return _MIN_SHARED_NAMES * len(neighbors & {row[0] for row in rows}) >= len(neighbors)


def _reject_ragged(lines: Sequence[str], rows: Sequence[Sequence[str]], typed: TypedSource, name: str) -> None:
    """Raise ``IngestError`` for lines whose lengths are not those of edges."""
    lengths = [len(row) for row in rows]
    counts = sorted({*lengths})
    begins = lengths[0] == 1 and rows[0][0].isdigit()
    metis = bool({".graph", ".metis"} & set(Path(name).suffixes))
    are_numbers = all(token.isdigit() for row in rows for token in row)
    extras = counts[0] >= 3 and counts[-1] - counts[0] <= 2 and not metis and not are_numbers  # after the weight
    usual = max(map(lengths.count, counts))
    if len(counts) == 1 or extras or 4 * usual >= 3 * len(rows) or any(row[2:3] and row[2][0] == "{" for row in rows):
        return
    tabs = {line.count("\t") for line in lines}
    if len(tabs) == 1 and 0 not in tabs and not are_numbers:
        ways = [typed.command("columns", header=False, coords=[f"c{k}" for k in range(max(tabs) + 1)])]
        problem = "columns are separated by tabs and hold blanks"
        if tabs == {2}:
            problem += ": they may be triples, or a table"
            ways.insert(0, typed.command("triples"))
        elif tabs == {1}:
            ways.insert(0, typed.command("edges", delimiter="\t"))
        raise IngestError(problem, name, commands=ways)
    if counts[-1] < 4 and not begins and not metis:
        return
    kind = "neighbor lists, one line per vertex. As an edge list"
    way = typed.pipe(pairs_of_lists(lines), "edges")
    if are_numbers and begins:
        kind, way = "neighbor lists below a line with the number of vertices", typed.command("webgraph")
    elif are_numbers and metis:
        kind = "a METIS graph, whose lines are the neighbors of vertices 1, 2, ..."
        way = typed.command("metis")
    elif not are_numbers and (not _name_each_other(rows) or _has_names(rows)):
        raise IngestError(f"lines have {counts[0]} to {counts[-1]} columns: they have no common layout", name)
    problem = f"lines have {counts[0]} to {counts[-1]} columns, not an edge list: this looks like {kind}"
    raise IngestError(problem, name, commands=[way])
