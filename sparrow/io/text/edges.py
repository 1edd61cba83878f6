"""Edge lists to and from square tensors: SNAP, KONECT, Common Crawl, columns.

Integer ids are the coordinates. Text ids are encoded in order of appearance and queued, on disk if need be; once all
are known the codes are replaced by the ranks of the sorted texts.
"""

from __future__ import annotations

import os
import re
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import KW_ONLY, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow import storage
from sparrow.core.schema import Schema, assigned_dims, check_dtype, check_shape
from sparrow.errors import DuplicateError, IngestError, InvalidValueError, UnsupportedError
from sparrow.io.base.coo_writer import DistinctIds, LabelEncoder, SpillQueue, WrittenFiles, check_disk_space, write_coo
from sparrow.io.base.layout import (
    TextLayout,
    are_since_1970,
    dense_rows,
    digits_as_integer,
    is_integral,
    is_number,
    looks_like_sizes,
)
from sparrow.io.base.magic import split_words
from sparrow.io.base.registry import DType, Duplicates, FillValue, Format, Option, Reader, parse_shape, shared
from sparrow.io.base.run_sink import RunSink
from sparrow.io.base.sample import Sample, Stage
from sparrow.io.base.shards import Shards, parse_shards
from sparrow.io.base.source import Source, SourceLike, open_sources, total_size
from sparrow.io.tabular.writers import TableWriter
from sparrow.io.text.edge_parser import EdgeBlock, EdgeParser, LineFacts, ParsedEdges, reject_non_edges
from sparrow.io.text.vocabulary import read_vertex_names
from sparrow.runtime import settings
from sparrow.runtime.progress import bar
from sparrow.runtime.thread_pool import ordered_map
from sparrow.sorting import Rows, memory_budget

__all__ = ["FORMATS", "Edges", "EdgesWriter"]

_DIMS = assigned_dims("src", "dst")

_MIN_EVIDENCE, _SHARED_LINES = 3, 20
"""Lines from which ids must be of one kind, and from which the ranges of integers must overlap."""
_MIN_STEPS = 4
"""Steps from edge to edge that show whether weights ascend, as seconds since a beginning do."""


@shared
@dataclass
class Edges(Reader):
    r"""Store an edge list as a square tensor ``src, dst`` with fill 0.

    Lines hold two ids, separated by tabs, blanks or a comma in any mix, then an optional weight. Blank lines, comments,
    a third column ``{}`` and columns after the third are ignored. Without weights each edge counts 1. Integers may be
    written as ``7.0`` or ``7e3``.

    Parameters
    ----------
    %(src)s
    %(dst)s
    vertices
        Files with a vertex per line: id and name, further columns are ignored. The names become the labels of both
        dimensions, and every id of an edge must be among them.
    ids
        ``"int"``: ids are coordinates, from 0. ``"str"``: ids are names; sorted, they become the labels of both
        dimensions. ``"auto"``: names if the first block of text (4 MB) has an id that is not an integer or begins with
        a zero, such as ``007``; further down such an id is an error.
    relabel
        Number the ids that occur from 0, ascending; the labels of both dimensions are the original ids.
    self_loops
        ``"keep"`` or ``"drop"`` edges from a vertex to itself. Their vertices count in either case.
    directed
        False stores each edge in both directions, a loop once. A file whose header declares undirected edges (``%
        sym`` of KONECT, ``# Undirected graph`` of SNAP) is stored as it stands, and a note says so.
    duplicates
        Rule for edges given more than once, after mirroring: ``"error"``, ``"sum"``, ``"last"``, ``"first"``,
        ``"min"`` or ``"max"``. Weights that look like timestamps are not summed: a repeated edge is an error then,
        unless ``dtype`` declares them numbers. These are times since 1970 in seconds, with decimals or not, or in
        milli-, micro- or nanoseconds; dates such as ``20260131`` or ``20260131235959``; and integers that ascend from
        line to line.
    dtype
        Type of the values; by default float64 with weights and int64 without.
    header
        Skip the first line of each file that is not a comment.
    delimiter
        The only separator of columns: a tab, a semicolon, or several characters. Ids may then hold blanks and commas. A
        blank is any run of blanks and tabs.
    comment
        Prefix of lines to pass over, such as ``"#"``; ``""`` if there are none. By default lines that begin with ``#``
        or ``%``: all of them above the first edge, and below those with a blank behind the mark. Names such as
        ``%%C3%%85land`` and ``#tag`` are ids.
    %(fill_value)s
    shape
        Sizes (m, n) that bound the ids; by default they follow from the ids. A line ``# Nodes: N`` of SNAP makes them
        at least N, ``# shape: M N`` of exported files M and N. For KONECT files of two kinds of vertices (``% bip``) a
        note gives the sizes.
    %(storing)s

    Returns
    -------
    Tensor
        ``sp.open(dst)``: the stored tensor of shape (n, n), with n the largest id + 1 or the number of labels; or of
        ``shape``.

    Raises
    ------
    IngestError
        If a line is not an edge, only some lines have a weight, an id is negative, beyond 2^63 - 2, not an integer
        where integers are expected or not among the vertices, or a weight does not fit ``dtype``: with file, line and
        token.
    DuplicateError
        If an edge is given more than once and ``duplicates`` is ``"error"``, or timestamps would be summed.
    %(not_found)s
    %(exists)s
    StorageError
        If the disk is too small.
    TooLargeError
        If the labels exceed their share of the memory limit.
    %(invalid)s

    Examples
    --------
    >>> from pathlib import Path
    >>> import sparrow as sp
    >>> size = Path("links.txt").write_text("# src dst\n0 2\n2\t1\n")
    >>> web = sp.ingest.edges("links.txt", "links.sparrow")
    >>> web.shape, web.dims, web.nnz
    ((3, 3), ('src', 'dst'), 2)
    """

    _: KW_ONLY
    vertices: Annotated[SourceLike | None, Option("File of vertices: id and name.", metavar="FILE", parse=str)] = None
    ids: Annotated[Literal["auto", "int", "str"], Option("Kind of ids.")] = "auto"
    relabel: Annotated[bool, Option("Number the ids that occur, without gaps.")] = False
    self_loops: Annotated[Literal["keep", "drop"], Option("Edges from a vertex to itself.")] = "keep"
    directed: Annotated[
        bool, Option("Undirected stores each edge in both directions.", flag="--directed/--undirected")
    ] = True
    duplicates: Duplicates = "sum"
    dtype: DType = None
    header: Annotated[bool, Option("Skip a first line of column names.")] = False
    delimiter: Annotated[str | None, Option("Separator of columns. [default: blanks, tabs or a comma]")] = None
    comment: Annotated[
        str | None, Option("Prefix of lines to pass over. [default: # and % above the first edge]", metavar="TEXT")
    ] = None
    fill_value: FillValue = 0
    shape: Annotated[Sequence[int] | None, Option("Sizes that bound the ids.", metavar="M,N", parse=parse_shape)] = None

    unit: ClassVar[str] = "edges"
    examples: ClassVar[str] = """\
sparrow ingest edges wiki-Vote.txt.gz votes.sparrow
sparrow ingest edges edges.txt.gz web.sparrow --vertices vertices.txt.gz"""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.given = None if self.dtype is None else check_dtype(self.dtype)
        if self.delimiter is not None:
            self.delimiter = self.delimiter.replace("\\t", "\t")
            if not self.delimiter.isascii() or not self.delimiter or set(self.delimiter) & set("\r\n#%"):
                raise InvalidValueError(f"delimiter must be ASCII without line ends, # or %, got {self.delimiter!r}")
        if self.comment is not None and (self.comment != self.comment.strip() or "\n" in self.comment):
            raise InvalidValueError(f"comment must be a prefix such as '#', or '', got {self.comment!r}")
        if self.shape is not None:
            self.shape = check_shape(self.shape)
            if len(self.shape) != 2 or self.vertices is not None or self.ids == "str" or self.relabel:
                raise InvalidValueError(
                    f"shape must be two sizes, for integer ids that keep their numbers, got {self.shape}"
                )
            if not self.directed and self.shape[0] != self.shape[1]:
                raise InvalidValueError(f"shape must be square with directed=False, got {self.shape}")
        if self.vertices is not None:
            if self.ids == "str" or self.relabel:
                raise InvalidValueError("vertices= names integer ids: it excludes ids='str' and relabel=True")
            self.ids = "int"

    def read(self) -> str:
        """Store the edge list and return its folder."""
        sources = open_sources(self.src)
        named = None if self.vertices is None else open_sources(self.vertices)
        with storage.stage_folder(self.dst, self.overwrite) as folder, ExitStack() as stack:
            labels = None if named is None else read_vertex_names(named)
            lines = self._parser(sources, labels)
            ingest = _Ingest(folder, self, lines, labels, stack)
            try:
                ingest.run()
            except DuplicateError as error:
                raise ingest.duplicate_error(error) from None
        if not lines.count:
            warnings.warn(f"{', '.join(source.name for source in sources)}: there are no edges", stacklevel=2)
        if lines.undirected and self.directed:
            way = "pass directed=False to store both directions"
            self.report.note(
                f"{sources[0].name}: edges are undirected ({lines.undirected}) and stored in one direction: {way}"
            )
        if lines.bipartite is not None and self.shape is None:
            m, n = (size + 1 if size else letter for size, letter in zip(lines.bipartite, "mn", strict=True))
            way = f"shape=({m}, {n}) separates their sizes, sp.ingest.columns their labels"
            self.report.note(
                f"{sources[0].name}: two kinds of vertices (% bip) share the ids of a square matrix: {way}"
            )
        if ingest.sizes is not None:
            hint = f"the first line, {ingest.sizes}, looks like sizes and a number of edges"
            self.report.note(f"{sources[0].name}: {hint}, but is stored as an edge: pass header=True to skip it")
        if lines.times and self.given is not None and self.given.kind in "iu" and self.report.counts["merged"]:
            way = "pass duplicates='last', 'first', 'min' or 'max' to keep one"
            self.report.note(
                f"{sources[0].name}: the third column looks like timestamps, which repeated edges sum: {way}"
            )
        if lines.extra:
            self.report.note(f"{sources[0].name}: columns after the third (timestamps?) are ignored")
        self._compare_header(lines, ingest.size, sources[0].name)
        return os.fspath(self.dst)

    def _parser(self, sources: list[Source], labels: pa.Array | None) -> EdgeParser:
        return EdgeParser(
            self.src, sources, self.ids, self.given, self.header, self.delimiter, self.comment, labels is not None,
            self.report,
        )  # fmt: skip

    def parse_shard(self, sources: Sequence[Source], state: _State, sink: RunSink) -> _Facts:
        """Leave the rows of some of the files as runs, and return facts about them."""
        lines = self._parser(list(sources), state.labels)
        lines.as_text, lines.weighted, lines.times = state.as_text, state.weighted, state.times
        with ExitStack() as stack:
            ingest = _Ingest(sink, self, lines, state.labels, stack)
            ingest.write_rows(stack.enter_context(closing(lines.blocks())))
            return ingest.facts()

    def _compare_header(self, lines: EdgeParser, size: int, name: str) -> None:
        """Note how a header on nodes and edges differs from what was read and stored."""
        stored = self.report.counts["stored"]
        if lines.edges is not None and (lines.edges != lines.count or (self.directed and lines.edges != stored)):
            self.report.note(f"the header declares {lines.edges:,} edges; {self.report.line(self.source_name)}")
        if lines.nodes and size > lines.nodes:
            way = "pass relabel=True to number them without gaps"
            self.report.note(f"{name}: the header declares {lines.nodes:,} nodes, ids go up to {size - 1:,}: {way}")


def _are_times(values: NDArray[Any] | None) -> bool:
    """Return whether weights look like timestamps: of our time, or ascending."""
    if values is None or not len(values):
        return False
    low, high = float(values.min()), float(values.max())
    if are_since_1970(low, high):
        return True
    if low < 0 or not (values == np.floor(values)).all():
        return False
    steps = np.diff(values)
    ascends = bool((steps >= 0).all()) and 4 * int(np.count_nonzero(steps)) >= len(steps)
    return (len(steps) >= _MIN_STEPS and ascends) or _are_dates(values, low, high)


def _are_dates(values: NDArray[Any], low: float, high: float) -> bool:
    """Return whether integers are dates as 20260131, perhaps with a time of day."""
    for unit in (1, 10**4, 10**6):
        if 19_000_000 * unit <= low and high < 21_000_000 * unit:
            days, times = np.divmod(values.astype(np.int64), unit)
            hours, minutes, seconds = (times * (10**6 // unit) // 10**place % 100 for place in (4, 2, 0))
            months, dates = days // 100 % 100, days % 100
            fits = (months >= 1) & (months <= 12) & (dates >= 1) & (dates <= 31)
            return bool((fits & (hours < 24) & (minutes < 60) & (seconds <= 60)).all())
    return False


@dataclass(frozen=True, slots=True, eq=False)
class _State:
    """Decisions by the first edges of the input."""

    as_text: bool
    weighted: int
    labels: pa.Array | None
    """The names of the vertices where they were given."""
    times: bool
    """True if the weights look like timestamps and would be summed."""


@dataclass(frozen=True, slots=True)
class _Facts:
    """Facts about the lines of a task."""

    lines: LineFacts
    largest: tuple[int, int]


@dataclass
class _Ingest:
    folder: storage.Folder | RunSink
    options: Edges
    lines: EdgeParser
    labels: pa.Array | None
    """The names of the vertices where they were given."""
    stack: ExitStack
    size: int = 0
    """Size of the tensor."""
    sizes: str | None = None
    """The first edge, if it may be a header of sizes."""
    _times: bool = False
    """True if the weights look like timestamps."""
    _largest: tuple[int, int] = (-1, -1)
    """Largest id of each end."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        """Store the edges of all files."""
        assert not isinstance(self.folder, RunSink)
        reading = self.stack.enter_context(ExitStack())
        advance = reading.enter_context(bar("reading edges", total_size(self.lines.sources)))
        text = self.stack.enter_context(closing(self.lines.blocks()))
        start, probed = self.lines.probe(text)
        if probed is not None:
            given = self.options
            self.lines.times = given.duplicates == "sum" and _are_times(probed.values)
            self._times = self.lines.times and given.given is None
            self._check_space(probed)

        def count_blocks() -> Iterator[EdgeBlock]:
            for block in chain(start, text):
                yield block
                advance(block.advance)
            reading.close()  # so that the next progress bar shows

        def state() -> _State:
            text.close()
            reading.close()  # so that the progress of tasks shows
            return _State(self.lines.as_text, self.lines.weighted, self.labels, self.lines.times)

        with parse_shards(self.options, self.lines.sources, self.folder, state) as shards:
            if shards is not None:
                for number, facts in zip(shards.bounds, shards.facts, strict=False):
                    self._take(facts, number)
            written, labels = self.write_rows(count_blocks() if shards is None else shards)
        self.lines.check_columns()
        if self.lines.as_text or self.options.relabel:
            self.options.report.add(labels=0 if labels is None else len(labels))
        if probed is not None and not self.lines.as_text and len(self.lines.sources) == 1:
            first = [probed.src[0], probed.dst[0], *(() if probed.values is None else probed.values[:1])]
            if first[-1] == self.lines.count - 1 > 1:
                self.sizes = " ".join(str(int(each)) for each in first)
        shape = self._shape(labels)
        self.size = max(shape)
        storage.create(
            self.folder,
            Schema(shape, _DIMS, self.lines.dtype, self.options.fill_value),
            written.files,
            labels={} if labels is None else {0: labels, 1: labels},
            profile=self.options.profile,
            operation="ingest edges",
            report=self.options.report.counts,
            extra={
                "sources": [source.name for source in self.lines.sources],
                "directed": self.options.directed,
                "weighted": self.lines.weighted == 1,
            },
        )

    def write_rows(self, blocks: Iterable[EdgeBlock] | Shards) -> tuple[WrittenFiles, pa.Array | None]:
        """Write the rows of all blocks, or of files that tasks parsed."""
        if self.lines.as_text:
            return self._write_named(blocks)
        if self.options.relabel:
            known = DistinctIds()
            written = self._write(blocks, self._rows_of(known), [known, known])
            return written, pa.array(known.finish())
        return self._write(blocks, self._rows_of(None)), self.labels

    # files that tasks parse -----------------------------------------------------------------------

    def facts(self) -> _Facts:
        """Return facts about the lines of a task."""
        return _Facts(self.lines.facts(), self._largest)

    def _take(self, facts: _Facts, first: int) -> None:
        """Add facts about the lines of a task, whose first source has a number."""
        self.lines.take(facts.lines, first)
        self._largest = max(self._largest[0], facts.largest[0]), max(self._largest[1], facts.largest[1])

    def _shape(self, labels: pa.Array | None) -> tuple[int, ...]:
        if self.options.shape is not None:
            return tuple(self.options.shape)
        if labels is not None:
            return (len(labels), len(labels))
        m, n = (largest + 1 for largest in self._largest)
        if self.lines.shape is not None and self.options.directed:
            return max(m, self.lines.shape[0]), max(n, self.lines.shape[1])
        n = max(m, n, self.lines.nodes, *(self.lines.shape or ()))
        return (n, n)

    def duplicate_error(self, error: DuplicateError) -> DuplicateError:
        """Return the error about a repeated edge, which differs for timestamps."""
        if not self._times:
            return error
        return DuplicateError(
            f"{self.lines.sources[0].name}: {str(error).partition(':')[0]}; the third column looks like timestamps, "
            "which are not summed: pass duplicates='last', 'first', 'min' or 'max', or dtype='float64' if they "
            "are weights"
        )

    def _write(
        self, items: Iterable[Any] | Shards, rows_of: Any, ids: list[DistinctIds | None] | None = None
    ) -> WrittenFiles:
        return write_coo(
            self.folder,
            items,
            rows_of,
            dims=_DIMS,
            dtype=self.lines.dtype,
            weighted=self.lines.weighted == 1,
            duplicates="error" if self._times else self.options.duplicates,
            fill_value=self.options.fill_value,
            profile=self.options.profile,
            report=self.options.report,
            ids=ids,
            describe=self._describe,
        )

    def _describe(self, element: tuple[int, ...]) -> str:
        if self.labels is None:
            return str(element)
        return str(tuple(self.labels[k].as_py() for k in element))

    def _check_space(self, parsed: ParsedEdges) -> None:
        assert not isinstance(self.folder, RunSink)
        size = total_size(self.lines.sources)
        if size is None:
            return
        directions = 1 if self.options.directed else 2
        expected = int(len(parsed.src) * max(size / max(parsed.block.advance, 1), 1)) * directions
        spilled = expected * (16 if self.lines.weighted == 1 else 8)
        ascending = bool((parsed.src[1:] >= parsed.src[:-1]).all()) and not self.lines.as_text
        if ascending or spilled <= memory_budget():
            spilled = 0
        check_disk_space(self.folder, expected // 2, spilled)

    # integer ids ----------------------------------------------------------------------------------

    def _rows_of(self, known: DistinctIds | None) -> Any:
        """Return the function that turns a block of text into rows."""
        limit = 2**63 - 1 if self.labels is None else len(self.labels)
        shape = self.options.shape
        gaps = None if self.labels is None or not self.labels.null_count else np.asarray(self.labels.is_null())

        def rows_of(block: EdgeBlock) -> Rows:
            parsed = self.lines.parse(block)
            src, dst = parsed.src, parsed.dst
            if len(src):
                largest = int(src.max()), int(dst.max())
                if known is None and max(largest) >= limit:
                    raise self._id_error(parsed, (src >= limit) | (dst >= limit), limit)
                if shape is not None and (outside := (src >= shape[0]) | (dst >= shape[1])).any():
                    i = int(np.argmax(outside))
                    at, _ = self.lines.find_line(parsed.block, i)
                    token = str(src[i] if src[i] >= shape[0] else dst[i])
                    raise IngestError(f"the id exceeds shape={tuple(shape)}", parsed.block.source.name, at, token)
                if gaps is not None and (absent := gaps[src] | gaps[dst]).any():
                    raise self._id_error(parsed, absent, limit)
                with self._lock:
                    self._largest = max(self._largest[0], largest[0]), max(self._largest[1], largest[1])
            if known is not None:
                known.add(np.concatenate([src, dst]))
            return self._transform(src, dst, parsed.values)

        return rows_of

    def _id_error(self, parsed: ParsedEdges, wrong: NDArray[np.bool_], limit: int) -> IngestError:
        """Return the error about the first edge in a mask, whose id is unknown."""
        i = int(np.argmax(wrong))
        line, _ = self.lines.find_line(parsed.block, i)
        ends = int(parsed.src[i]), int(parsed.dst[i])
        beyond = [end for end in ends if end >= limit]
        if beyond and self.labels is None:
            problem = "the id is beyond the largest dimension, 2^63 - 1: pass relabel=True or ids='str'"
        elif beyond:
            problem = f"the id must be below the number of vertices, {limit}"
        else:
            beyond = [end for end in ends if not cast("pa.Array", self.labels)[end].is_valid]
            problem = "the id is not in vertices="
        return IngestError(problem, parsed.block.source.name, line, str(beyond[0]))

    def _transform(self, src: NDArray[np.int64], dst: NDArray[np.int64], values: NDArray[Any] | None) -> Rows:
        """Return rows without loops and with mirrored edges, as asked, in order."""
        rows = Rows((src, dst), values)
        if self.options.self_loops == "drop":
            proper = src != dst
            if loops := len(src) - int(np.count_nonzero(proper)):
                rows = rows.take(proper)
                self.options.report.add(read=loops, loops=loops)
        if not self.options.directed:
            src, dst = rows.coords
            kept = np.ones(2 * len(src), bool)
            np.not_equal(src, dst, out=kept[1::2])
            mirrored = tuple(np.stack(pair, axis=1).reshape(-1)[kept] for pair in ((src, dst), (dst, src)))
            more = len(mirrored[0]) - len(src)
            self.options.report.add(read=-more, mirrored=more)
            rows = Rows(mirrored, None if rows.values is None else np.repeat(rows.values, 2)[kept])
        return rows

    # ids that are names ---------------------------------------------------------------------------

    def _write_named(self, text: Iterable[EdgeBlock] | Shards) -> tuple[WrittenFiles, pa.Array]:
        if isinstance(text, Shards):
            self.labels = text.labels[0]
            self._note_names()
            return self._write(text, None), self.labels
        names = LabelEncoder()
        queue = self.stack.enter_context(closing(SpillQueue()))
        parsed = cast("Generator[ParsedEdges]", ordered_map(self.lines.parse, text, settings.current().threads))
        with closing(parsed):
            for each in parsed:
                data = each.block.data
                src = names.codes_of(data, each.src, each.src_end)
                dst = names.codes_of(data, each.dst, each.dst_end)
                queue.add(Rows((src.astype(np.int32), dst.astype(np.int32)), each.values))
        self.labels, rank = names.finish()
        if isinstance(self.folder, RunSink):
            self.folder.labels = (self.labels, self.labels)
        else:
            self._note_names()

        def rows_of(rows: Rows) -> Rows:
            return self._transform(rank[rows.coords[0]], rank[rows.coords[1]], rows.values)

        return self._write(queue, rows_of), self.labels

    def _note_names(self) -> None:
        """Note that ids are names, if no option says so; raise if a shape bounds them."""
        assert self.labels is not None
        if self.options.shape is not None:
            problem = f"shape needs integer ids, got {self.labels[0].as_py()!r}"
            raise InvalidValueError(problem)
        if self.options.ids == "auto":
            way = "pass ids='str' or 'int' to decide"
            name = self.lines.sources[0].name
            for file, line, token in self.lines.odd:
                integer = digits_as_integer(token)
                number = "" if integer is None else f", or pass ids='int' to read it as {integer}"
                self.options.report.note(
                    f"{file}, line {line}: the id {token!r} is not written as an integer, unlike the others, so that "
                    f"all ids are names: correct the line if it is wrong{number}"
                )
            self.options.report.note(f"{name}: the ids are names, which become labels: {way}")


@dataclass
class EdgesWriter(TableWriter):
    """Write a matrix as an edge list: comments on shape and columns, tabs, True as 1."""

    delimiter: ClassVar[str] = "\t"
    quoting: ClassVar[str] = "none"
    forbidden_labels: ClassVar[tuple[str, str]] = (
        r"[\s,\"]|^[#%]|^$",
        "blanks, commas and quotes separate columns, and # and % begin comments",
    )
    title: ClassVar[str] = "an edge list"
    comment: ClassVar[str] = "# "

    def check(self) -> None:
        """Raise ``UnsupportedError`` for what an edge list cannot hold."""
        tensor = self.tensor
        if tensor.ndim != 2:
            raise UnsupportedError(f"an edge list needs 2 dimensions, the tensor has {tensor.ndim}: use csv or parquet")
        if tensor.dtype.kind == "c":
            raise UnsupportedError(f"an edge list cannot hold {tensor.dtype} values: use csv or parquet")
        if tensor.fill_value != 0:
            raise UnsupportedError(f"an edge list needs fill 0, the tensor has {tensor.fill_value}: use csv")
        super().check()

    def schema(self) -> pa.Schema:
        """Return the columns as written: True is 1."""
        schema = super().schema()
        return schema.set(2, schema.field(2).with_type(pa.int8())) if self.tensor.dtype.kind == "b" else schema

    @contextmanager
    def batches(self, file: Any, schema: pa.Schema) -> Iterator[Callable[[pa.RecordBatch], Any]]:
        """Open a writer of record batches to a file."""
        if not self.written_labels:
            file.write("# shape: {} {}\n".format(*self.tensor.shape).encode())
        with super().batches(file, schema) as write:
            yield write


def _detect_header(sample: Sample) -> str | None:
    if re.match(r"%[ \t]*(sym|asym|bip)\b", sample.text):
        return "the first line is a header of KONECT"
    if not sample.data and re.search(r"(?m)^# [^\t\n]+\t[^\t\n]+\tvalue\r?$", sample.text):
        return "a comment names two columns and value, as in exported files without edges"
    return None


def _detect_lines(sample: Sample) -> str:
    """Accept edges for which there is evidence; raise with commands for others."""
    reject_non_edges(sample.text, sample.typed, sample.name)
    layout = sample.layout
    single = layout is not None and len(sample.data) == 1 and layout.delimiter == ","
    if layout is not None and single and all(token.strip() and not is_number(token) for token in layout.rows[0]):
        problem = "one line of names may be the header of an empty table, or an edge: name its format"
        raise IngestError(problem, sample.name, token=sample.data[0][:80])
    if layout is not None and (reason := _edge_evidence(layout, sample.whole)) is not None:
        return reason
    raise _ask(sample)


def _edge_evidence(layout: TextLayout, whole: bool) -> str | None:
    """Return why all lines look like edges, None if some do not."""
    rows = [[token.strip() for token in row] for row in layout.rows]
    is_plain = layout.delimiter in (" ", "\t", ",") and not layout.quoted and layout.names is None
    if not is_plain or layout.width > 3 or any(split_words(token, ",") != [token] for row in rows for token in row):
        return None
    src, dst = layout.columns[0], layout.columns[1]
    if layout.width == 3 and not all(is_number(row[2]) for row in rows) and any(row[2] != "{}" for row in rows):
        return None
    kinds = {"integer" if column.kind == "time" else column.kind for column in (src, dst)}
    integral = all(token[:1].isdigit() and is_number(token) and is_integral(token) for row in rows for token in row[:2])
    if not kinds <= {"integer", "text"} or (kinds == {"integer"} and not integral) or looks_like_sizes(rows, whole):
        return None
    if len(rows) >= _MIN_EVIDENCE and (len(kinds) > 1 or all(row[0] == row[1] for row in rows)):
        return None
    if (len(rows) >= _SHARED_LINES or (not integral and len(rows) > 1)) and not _share_ids(rows, integral):
        return None
    if whole and len(rows) == layout.width == len(_DIMS) + 1 and any(row[2] == "0" for row in rows):
        return None  # a dense matrix
    found = "two integer ids" if kinds == {"integer"} else "two ids"
    weight = " and a weight" if layout.width == len(_DIMS) + 1 and rows[0][2] != "{}" else ""
    return f"{found}{weight} per line"


def _share_ids(rows: Sequence[Sequence[str]], integral: bool) -> bool:
    """Return whether both columns may hold ids of the same vertices."""
    if not integral:
        return bool({row[0] for row in rows} & {row[1] for row in rows})
    ends = [[float(row[k]) for row in rows] for k in range(2)]
    return max(map(min, ends)) <= min(map(max, ends))


def _ask(sample: Sample) -> IngestError:
    """Return the error about ambiguous lines, with the likely commands."""
    layout, typed, name = sample.layout, sample.typed, sample.name
    if layout is None:
        widths = Counter(len(split_words(line, ",")) for line in sample.data)
        table = [
            f"{count:,} {'lines' if count > 1 else 'line'} of {width} {'words' if width > 1 else 'word'}"
            for width, count in sorted(widths.items())
        ]
        odd = min(sample.data, key=lambda line: (widths[len(split_words(line, ","))], len(split_words(line, ","))))
        problem = "the lines have no common layout, so that no format is likely; name it if there is one"
        arrows = [re.fullmatch(r"[^\s,]+?(->|=>|--|\u2192)[^\s,]+", line) for line in sample.data]
        if all(arrows) and len({each[1] for each in arrows if each}) == 1 and arrows[0] is not None:
            sign = arrows[0][1]
            way = typed.command("edges", delimiter=sign)
            way = way if sign.isascii() else typed.pipe(f"sed 's/{sign}/ /'", "edges")
            return IngestError(f"ids are separated by {sign!r}, which is no blank or comma", name, commands=[way])
        if min(widths) < 2:
            problem = "a line has one column, which no format has"
        return IngestError(problem, name, token=odd[:80], table=table)
    rows, width = layout.rows, layout.width
    table = layout.table()
    columns = sample.columns_command(layout.options())
    if looks_like_sizes(rows, sample.whole):
        field = "integer" if all(re.fullmatch(r"[-+]?\d+", row[-1]) for row in rows) else "real"
        banner = f"%%MatrixMarket matrix coordinate {field} general"
        commands = [typed.command("edges", header=True)]
        if len(rows[0]) == 3:
            commands.append(typed.pipe(f"(echo '{banner}'; {{text}})", "mtx"))
        problem = "the first line may be sizes and the number of the others: a header of edges, or that of a matrix"
        return IngestError(problem, name, token=" ".join(rows[0])[:80], commands=commands, table=table)
    if layout.is_dense:
        return dense_rows(layout, name)
    commands = [columns]
    third = layout.columns[2] if width == 3 else None
    weighted = third is None or (third.is_number and not layout.has_decimal_commas)
    problem = f"lines of {width} columns may be a table"
    if width <= 3 and layout.delimiter in ";|" and weighted:
        problem = f"columns are separated by {layout.delimiter!r}: they may be edges, or a table"
        commands.insert(0, typed.command("edges", delimiter=layout.delimiter))
    elif third is not None and third.kind == "text" and layout.delimiter in "\t ":
        problem = "lines of 3 names are perhaps triples, or a table"
        commands.insert(0, sample.below_comments.command("triples"))
    elif width <= 3 and layout.delimiter == "\t" and weighted:
        problem = f"lines of {width} columns may be edges, or a table"
        commands.insert(0, typed.command("edges", delimiter="\t"))
    elif width <= 3 and weighted and layout.delimiter in " ,":
        problem = f"lines of {width} columns may be a table, or edges"
        blanks = any(split_words(token) != [token] for row in rows for token in row[:2])
        kind = "str" if any(column.kind == "decimal" for column in layout.columns[:2]) else None
        commands.append(typed.command("edges", delimiter=layout.delimiter if blanks else None, ids=kind))
    elif width > 3 and layout.delimiter == " " and all(column.is_number for column in layout.columns):
        base = 0 if any(float(token) == 0 for row in rows for token in row[:-1]) else None
        problem = f"lines of {width} numbers may be coordinates and a value, or a table without names"
        commands.insert(0, typed.command("tns", index_base=base))
    elif width > 3 and {".edges", ".edgelist"} & {*Path(name).suffixes} and layout.delimiter in " \t,":
        problem = f"lines of {width} columns may be edges whose further columns are ignored, or a table"
        commands.insert(0, typed.command("edges"))
    return IngestError(problem, name, commands=commands, table=table)


FORMATS = (
    Format(
        "edges",
        "Edge lists: SNAP, KONECT, Common Crawl, CSV.",
        reader=Edges,
        writer=EdgesWriter,
        suffixes=(".edges", ".txt"),
        detectors={Stage.HEADER: _detect_header, Stage.FALLBACK: _detect_lines},
    ),
)
