"""METIS graphs: one line per vertex, with its neighbors, counted from 1.

G. Karypis, manual of METIS 5.1, section "Graph file".
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparrow import storage
from sparrow.core.schema import Schema, assigned_dims, check_dtype
from sparrow.errors import IngestError
from sparrow.io.base.coo_writer import write_coo
from sparrow.io.base.magic import split_words
from sparrow.io.base.registry import DType, Duplicates, FillValue, Format, Reader, shared
from sparrow.io.base.report import Report
from sparrow.io.base.sample import Sample, Stage
from sparrow.io.base.source import TextBlock, open_source, read_blocks
from sparrow.io.base.value_cast import ValueCast
from sparrow.io.text.number_lines import HeaderLine, HeaderReader, parse_neighbor_lists, reject_banner
from sparrow.runtime.progress import bar
from sparrow.sorting import Rows

__all__ = ["FORMATS", "Metis"]

_DIMS = assigned_dims("src", "dst")
_COMMENT = "%"
_LIST = re.compile(rb"(?m)^(?!%)[^\n]*\S[^\n]*$")
"""Line that is neither blank nor a comment."""


@shared
@dataclass
class Metis(Reader):
    r"""Store a METIS graph as a square tensor ``src, dst``, edges both ways.

    The first line gives the numbers of vertices and edges, then what the lines hold: sizes and weights of vertices, and
    weights of edges. A blank line is a vertex without neighbors; lines that begin with ``%`` are comments.

    Parameters
    ----------
    %(src_file)s
    %(dst)s
    %(duplicates)s
    dtype
        Type of the values; int64 by default.
    %(fill_value)s
    %(storing)s

    Returns
    -------
    Tensor or Bundle
        ``sp.open(dst)``: the stored graph: ones, or the weights of edges. If vertices have weights or sizes, a bundle
        of ``graph`` and ``vertices``: a row per vertex, with its size first if it has one, then its weights.

    Raises
    ------
    IngestError
        If lines contradict the first one, the number of edges differs, or a neighbor is not a vertex: with file, line
        and token.
    %(duplicate_error)s
    %(store_errors)s

    Examples
    --------
    >>> from pathlib import Path
    >>> import sparrow as sp
    >>> size = Path("path.graph").write_text("3 2\n2\n1 3\n2\n")
    >>> path = sp.ingest.metis("path.graph", "path.sparrow")
    >>> path.shape, path.nnz, path[0, 1]
    ((3, 3), 4, np.int64(1))
    """

    _: KW_ONLY
    duplicates: Duplicates = "error"
    dtype: DType = None
    fill_value: FillValue = 0

    accepts_many: ClassVar[bool] = False
    examples: ClassVar[str] = "sparrow ingest metis karate.graph karate.sparrow"

    def read(self) -> str:
        """Store the graph and return its folder."""
        source = open_source(self.src)
        name = source.name
        dtype = np.dtype(np.int64) if self.dtype is None else check_dtype(self.dtype)
        with storage.stage_folder(self.dst, self.overwrite) as folder, closing(read_blocks(source)) as text:
            lines = HeaderReader(text, self.report)
            reject_banner(lines, source.name)
            line = lines.peek_data(_COMMENT.encode())
            if line is None:
                raise IngestError("the file is empty: the first line must give the numbers of vertices and edges", name)
            head = _read_header(line, name)
            lines.skip()
            lists = _Lists(head, ValueCast(dtype, self.dtype is not None, self.report))
            graph = folder / "graph" if head.first else folder
            with bar("reading lists", source.size) as advance:

                def items() -> Iterator[tuple[TextBlock, int]]:
                    for item in lists.items(lines.rest()):
                        yield item
                        advance(item[0].advance)

                written = write_coo(
                    graph,
                    items(),
                    lists.rows,
                    dims=_DIMS,
                    dtype=dtype,
                    weighted=head.weighted,
                    duplicates=self.duplicates,
                    fill_value=self.fill_value,
                    profile=self.profile,
                    report=self.report,
                )
            lists.check(name)
            about: dict[str, Any] = {
                "profile": self.profile, "operation": "ingest metis", "extra": {"sources": [name]},
                "report": self.report.counts,
            }  # fmt: skip
            storage.create(graph, Schema((head.vertices,) * 2, _DIMS, dtype, self.fill_value), written.files, **about)
            if head.first:
                self._vertices(folder / "vertices", head, lists, about)
                storage.write_bundle(folder, {"graph": None, "vertices": None}, {"sources": [name]})
        return os.fspath(self.dst)

    def _vertices(self, folder: storage.Folder, head: _Head, lists: _Lists, about: dict[str, Any]) -> None:
        dims = ("vertex", "weight")
        written = write_coo(
            folder,
            sorted(lists.heads, key=lambda each: each[0]),
            lambda each: _weight_rows(*each),
            dims=dims,
            dtype=np.dtype(np.int64),
            weighted=True,
            duplicates="error",
            fill_value=0,
            profile=self.profile,
            report=Report(),
        )
        storage.create(folder, Schema((head.vertices, head.first), dims, np.dtype(np.int64), 0), written.files, **about)


class _Head(NamedTuple):
    """First line of a METIS graph."""

    vertices: int
    edges: int
    weighted: bool
    """True if edges have weights."""
    first: int
    """Number of sizes and weights of a vertex before its neighbors."""


def _read_header(line: HeaderLine, name: str) -> _Head:
    tokens = split_words(line.text)
    kind = tokens[2] if len(tokens) > 2 else "0"
    if not 2 <= len(tokens) <= 4 or not set(kind) <= {"0", "1"} or len(kind) > 3:
        raise line.error("the first line of a METIS graph must be vertices, edges and optionally fmt and ncon", name)
    sizes = line.sizes(len(tokens), "the numbers of vertices and edges, fmt and ncon", name)
    sized, weighed, weighted = (digit == "1" for digit in kind.zfill(3))
    constraints = sizes[3] if len(tokens) == 4 else int(weighed)
    if constraints > 1000 or (weighed and not constraints) or (len(tokens) == 4 and constraints > 1 and not weighed):
        raise line.error("fmt and ncon, the number of weights per vertex, contradict each other", name)
    return _Head(sizes[0], sizes[1], weighted, sized + (constraints if weighed else 0))


class _Lists:
    """Neighbor lists of a file, counted."""

    def __init__(self, head: _Head, cast: ValueCast) -> None:
        self.head, self._cast = head, cast
        self.heads: list[tuple[int, NDArray[np.int64]]] = []
        self._lists = self._found = 0
        self._lock = threading.Lock()

    def items(self, text: Iterator[TextBlock]) -> Iterator[tuple[TextBlock, int]]:
        """Yield blocks, each with the number of lists before it."""
        for block in text:
            yield block, self._lists
            starts = np.flatnonzero(block.data == 10)[:-1] + 1
            comments = int((block.data[starts] == ord(_COMMENT)).sum()) + int(block.data[0] == ord(_COMMENT))
            self._lists += block.lines - comments
            self._cast.report.add(comments=comments)

    def rows(self, item: tuple[TextBlock, int]) -> Rows:
        """Return the elements of a block."""
        block, before = item
        vertices = self.head.vertices
        found = parse_neighbor_lists(self._trim(block, before), _COMMENT, self.head.first, self.head.weighted)
        src = found.lines + before
        wrong = (found.numbers < 1) | (found.numbers > vertices)
        if wrong.any():
            at = int(np.argmax(wrong))
            line = _line_of(block, int(found.lines[at]))
            problem = f"the neighbor must be one of the vertices 1 to {vertices}"
            raise IngestError(problem, block.source.name, line, str(found.numbers[at]))
        values = None
        if found.weights is not None:
            values, unfit = self._cast(found.weights)
            if unfit is not None:
                problem = f"the weight {self._cast.problem(found.weights[unfit])}"
                line, token = _line_of(block, int(found.lines[unfit])), str(found.weights[unfit])
                raise IngestError(problem, block.source.name, line, token)
        with self._lock:
            self._found += len(src)
            if self.head.first:
                self.heads.append((before, found.heads))
        return Rows((src, found.numbers - 1), values)

    def _trim(self, block: TextBlock, before: int) -> TextBlock:
        """Return a block without the blank lines after the last vertex."""
        if before + block.lines <= self.head.vertices:
            return block
        starts = np.concatenate([[0], np.flatnonzero(block.data == 10)[:-1] + 1])
        lists = before + np.cumsum(block.data[starts] != ord(_COMMENT))
        behind = starts[lists > self.head.vertices]
        stop = int(behind[0]) if len(behind) else len(block.data)
        data: Any = block.data
        if (found := _LIST.search(data, stop)) is not None:
            problem = f"expected {self.head.vertices} lines, one per vertex, got more"
            line = found[0].decode(errors="backslashreplace")[:80]
            raise IngestError(problem, block.source.name, block.line_at(found.start()), line)
        return replace(block, data=block.data[:stop])

    def check(self, name: str) -> None:
        """Raise ``IngestError`` if lists or edges are missing or too many."""
        if self._lists < self.head.vertices:
            problem = f"expected {self.head.vertices} lines, one per vertex, got {self._lists}"
            raise IngestError(problem, name)
        if self._found != 2 * self.head.edges:
            raise IngestError(
                f"expected {2 * self.head.edges} neighbors, two per edge of the first line, got {self._found}",
                name,
            )


def _line_of(block: TextBlock, index: int) -> int:
    """Return the line number of a list, counted from 0 in the block."""
    for number, line in enumerate(bytes(block.data).split(b"\n"), block.first_line):
        if line[:1] != _COMMENT.encode():
            if index == 0:
                return number
            index -= 1
    raise AssertionError("the block has fewer lists")


def _weight_rows(before: int, heads: NDArray[np.int64]) -> Rows:
    vertex, weight = np.divmod(np.arange(heads.size), max(heads.shape[1], 1))
    return Rows((vertex + before, weight), heads.reshape(-1))


def _detect(sample: Sample) -> str | None:
    is_named = bool({".graph", ".metis"} & set(Path(sample.name).suffixes))
    first = sample.text.split("\n", 1)[0]
    if is_named and len(split_words(first)) > 1 and sample.number_rows is not None:
        return "text whose name ends in .graph or .metis"
    return None


FORMATS = (
    Format(
        "metis",
        "METIS graphs: neighbor lists.",
        reader=Metis,
        suffixes=(".graph", ".metis"),
        detectors={Stage.LISTS: _detect},
    ),
)
