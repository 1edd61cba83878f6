"""Edge lists to a stored square tensor: SNAP, KONECT, Common Crawl, CSV of two or three columns.

Ids that are integers are the coordinates. Ids that are texts are numbered as they come and put
aside; once all are known, in sorted order, the edges are read again and sorted.
"""

from __future__ import annotations

import os
import shutil
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import KW_ONLY, dataclass, field
from itertools import chain
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow import storage
from sparrow.core.schema import Schema, check_dtype, check_shape
from sparrow.errors import DuplicateError, IngestError, InvalidValueError, UnsupportedError
from sparrow.io.base.coo_writer import DistinctIds, LabelEncoder, SpillQueue, WrittenFiles, check_disk_space, write_coo
from sparrow.io.base.registry import DType, Duplicates, Format, Option, Reader, parse_shape
from sparrow.io.base.source import SourceLike, TextBlock, open_sources, total_size
from sparrow.io.tabular.readers import TableWriter
from sparrow.io.text.edge_parser import EdgeParser, ParsedEdges
from sparrow.io.text.number_lines import find_line
from sparrow.io.text.vertices import read_vertex_names
from sparrow.io.tuning import tuning
from sparrow.runtime import progress, settings
from sparrow.runtime.progress import bar
from sparrow.runtime.thread_pool import ordered_map
from sparrow.sorting import Rows, memory_budget
from sparrow.storage.fs.filesystem import get_filesystem

__all__ = ["FORMATS", "Edges", "EdgesWriter"]

_DIMS = ("src", "dst")

_YEAR_2000, _YEAR_2100 = 946_684_800, 4_102_444_800
"""In seconds since 1970."""


@dataclass
class Edges(Reader):
    r"""Store an edge list as a square tensor with dimensions ``src, dst`` and fill 0.

    Lines hold two ids, parted by tabs, blanks or a comma in any mix, then perhaps a weight. Lines
    that begin with ``#`` or ``%`` and blank lines are passed over, and so is a third column ``{}``,
    which is no weight, and a fourth column. Without weights each edge counts 1. Edges of weight 0
    are not stored.

    Parameters
    ----------
    src
        A path, a glob pattern, ``"-"`` for standard input, or a list of these. gzip, zstd and bz2
        are told from the content.
    dst
        The folder to create.
    vertices
        Files with one line for each vertex: its id and its name, more columns are passed over. The
        names become the labels of both dimensions, and every id of an edge must be among them.
    ids
        ``"int"``: ids are coordinates, counted from 0. ``"str"``: ids are names; the distinct ones,
        sorted, become the labels of both dimensions, and the position of a name its coordinate.
        ``"auto"``: names if the first block of text (4 MB) holds an id that is no integer or begins with
        a zero, as ``007``; such an id further down is an error.
    relabel
        Number the ids that occur from 0 in ascending order; the labels of both dimensions are the
        original ids.
    self_loops
        ``"keep"`` or ``"drop"`` edges from a vertex to itself. Their vertices count in both cases.
    directed
        False stores each edge in both directions, a loop once. Of a file that says above its edges that they
        are undirected (``% sym``, as KONECT has it, ``# Undirected graph``, as SNAP has it) and is read without, a
        note says so.
    duplicates
        What becomes of an edge that comes twice, after mirroring: ``"error"``, ``"sum"``,
        ``"last"``, ``"first"``, ``"min"`` or ``"max"``. Weights that look like times, in seconds or milliseconds
        since 1970, are not summed: such an edge is an error, unless ``dtype`` says that they are numbers.
    dtype
        Type of the values; float64 with weights and int64 without by default.
    header
        Skip the first line of each file that is no comment.
    delimiter
        What parts columns, where that is one thing and nothing else: a tab, a semicolon, several characters. Ids may
        then hold blanks and commas.
    shape
        The sizes (m, n), beyond which no id may be; by default they follow from the ids. A line ``# Nodes: N`` above
        the edges, as SNAP has it, makes them N at least, and ``# shape: M N``, as exported files have it, M and N. Of a
        file of KONECT with two kinds of vertices (``% bip``) that is read without, a note says which sizes they have.
    overwrite
        Replace what is at ``dst``.
    if_exists
        Where a tensor or bundle is at ``dst`` already: ``"error"``, ``"open"`` to open it and read nothing, or
        ``"replace"``, which is ``overwrite=True``.
    profile
        ``"fast"`` or ``"small"``.

    Returns
    -------
    Tensor
        What ``sp.open(dst)`` does: a stored tensor of shape (n, n), n the largest id + 1 or, where there are
        labels, their number; or of ``shape``.

    Raises
    ------
    IngestError
        If a line is no edge, only some lines have a weight, an id is negative or beyond 2^63 - 2,
        no integer where integers were expected or beyond the vertices, or a weight does not fit
        ``dtype``: with file, line and token.
    DuplicateError
        If an edge comes twice and ``duplicates`` is ``"error"``, or times would be summed.
    NotFoundError
        If a file is missing or a pattern matches none.
    ExistsError
        If something is at ``dst`` and ``overwrite`` is not set.
    StorageError
        If the disk is too small.
    TooLargeError
        If the labels take too much of the memory limit.
    InvalidValueError
        If an argument is not one of those above.

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
    vertices: Annotated[
        SourceLike | None, Option("A file that lists the vertices: number and name.", metavar="FILE", parse=str)
    ] = None
    ids: Annotated[Literal["auto", "int", "str"], Option("What vertices are called by.")] = "auto"
    relabel: Annotated[bool, Option("Number the vertices anew, without gaps.")] = False
    self_loops: Annotated[Literal["keep", "drop"], Option("Links from a vertex to itself.")] = "keep"
    directed: Annotated[bool, Option("Undirected stores each edge both ways.", flag="--directed/--undirected")] = True
    duplicates: Duplicates = "sum"
    dtype: DType = None
    header: Annotated[bool, Option("Skip a first line of column names.")] = False
    delimiter: Annotated[str | None, Option("What parts columns. [default: blanks, tabs or a comma]")] = None
    shape: Annotated[
        Sequence[int] | None, Option("Sizes, beyond which no id may be.", metavar="M,N", parse=parse_shape)
    ] = None

    examples: ClassVar[str] = """\
sparrow ingest edges wiki-Vote.txt.gz votes.sparrow
sparrow ingest edges edges.txt.gz web.sparrow --vertices vertices.txt.gz"""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.given = None if self.dtype is None else check_dtype(self.dtype)
        if self.delimiter is not None:
            self.delimiter = self.delimiter.replace("\\t", "\t")
            if not self.delimiter.isascii() or not self.delimiter or set(self.delimiter) & set("\r\n#%"):
                raise InvalidValueError(f"delimiter={self.delimiter!r}: use ASCII characters, no line ends, # or %")
        if self.shape is not None:
            self.shape = check_shape(self.shape)
            if len(self.shape) != 2 or self.vertices is not None or self.ids == "str" or self.relabel:
                raise InvalidValueError(f"shape={self.shape}: give two sizes, for ids that are numbers")
            if not self.directed and self.shape[0] != self.shape[1]:
                raise InvalidValueError(f"shape={self.shape}: undirected edges make a square matrix")
        if self.vertices is not None:
            if self.ids == "str" or self.relabel:
                raise InvalidValueError("vertices= names integer ids: leave out ids='str' and relabel=True")
            self.ids = "int"

    def read(self) -> str:
        """Store the edge list and return its folder."""
        sources = open_sources(self.src)
        named = None if self.vertices is None else open_sources(self.vertices)
        with storage.stage_folder(self.dst, self.overwrite) as folder, ExitStack() as stack:
            labels = None if named is None else read_vertex_names(named)
            lines = EdgeParser(sources, self.ids, self.given, self.header, self.delimiter, labels is not None)
            ingest = _Ingest(folder, self, lines, labels, stack)
            try:
                ingest.run()
            except DuplicateError as error:
                raise ingest.summed(error) from None
        if not lines.count:
            warnings.warn(f"{', '.join(source.name for source in sources)}: there is no edge", stacklevel=2)
        if lines.undirected and self.directed:
            way = "directed=False stores both directions"
            progress.write_note(
                f"{sources[0].name}: edges are undirected ({lines.undirected}), and each is stored as it stands: {way}"
            )
        if lines.bipartite is not None and self.shape is None:
            m, n = (size + 1 if size else letter for size, letter in zip(lines.bipartite, "mn", strict=True))
            way = f"shape=({m}, {n}) gives each a size of its own, sp.ingest.columns labels of its own"
            progress.write_note(f"{sources[0].name}: two kinds of vertices (% bip) share one square of ids: {way}")
        if ingest.sizes is not None:
            told = f"the first line, {ingest.sizes}, looks like sizes and the number of edges that follow"
            progress.write_note(f"{sources[0].name}: {told}, and is stored as an edge: header=True passes it over")
        if lines.passed_over:
            progress.write_note(f"{sources[0].name}: the columns after the third (timestamps?) were passed over")
        return os.fspath(self.dst)


def _are_times(values: NDArray[Any] | None) -> bool:
    """Return whether weights are all whole numbers that are times between 2000 and 2100, in (milli)seconds."""
    if values is None or not len(values):
        return False
    low, high = float(values.min()), float(values.max())
    within = any(_YEAR_2000 * unit <= low and high < _YEAR_2100 * unit for unit in (1, 1000))
    return within and bool((values == np.floor(values)).all())


@dataclass
class _Ingest:
    folder: storage.Folder
    options: Edges
    lines: EdgeParser
    labels: pa.Array | None
    """The names of the vertices where they were given."""
    stack: ExitStack
    sizes: str | None = None
    """The first edge, where it may be none."""
    _times: bool = False
    """Whether the weights look like times, which are not summed."""
    _largest: tuple[int, int] = (-1, -1)
    """Of each end."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        reading = self.stack.enter_context(ExitStack())
        advance = reading.enter_context(bar("reading edges", total_size(self.lines.sources)))
        text = self.stack.enter_context(closing(self.lines.blocks()))
        start, probed = self.lines.probe(text)
        if probed is not None:
            given = self.options
            self._times = given.duplicates == "sum" and given.given is None and _are_times(probed.values)
            self._check_space(probed)

        def counted() -> Iterator[TextBlock]:
            for block in chain(start, text):
                yield block
                advance(block.advance)
            reading.close()  # so that the bar of what follows shows

        if self.lines.as_text:
            written, labels = self._named(counted())
        elif self.options.relabel:
            known = DistinctIds()
            written = self._write(counted(), self._rows_of(known), [known, known])
            labels = pa.array(known.finish())
        else:
            written = self._write(counted(), self._rows_of(None))
            labels = self.labels
        if probed is not None and not self.lines.as_text and len(self.lines.sources) == 1:
            first = [probed.src[0], probed.dst[0], *(() if probed.values is None else probed.values[:1])]
            if first[-1] == self.lines.count - 1 > 1:
                self.sizes = " ".join(str(int(each)) for each in first)
        storage.create(
            self.folder,
            Schema(self._shape(labels), _DIMS, self.lines.dtype, 0),
            written.files,
            labels={} if labels is None else {0: labels, 1: labels},
            profile=self.options.profile,
            operation="ingest edges",
            extra={
                "sources": [source.name for source in self.lines.sources],
                "directed": self.options.directed,
                "weighted": self.lines.weighted == 1,
            },
        )

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

    def summed(self, error: DuplicateError) -> DuplicateError:
        """Return what to say of an edge that comes twice: of times that they are not summed."""
        if not self._times:
            return error
        return DuplicateError(
            f"{self.lines.sources[0].name}: {str(error).partition(':')[0]}, and the third column looks like times, "
            "which nobody adds up: say duplicates='last', 'first', 'min' or 'max', or dtype='float64' if they "
            "are weights"
        )

    def _write(self, items: Iterable[Any], rows_of: Any, ids: list[DistinctIds | None] | None = None) -> WrittenFiles:
        return write_coo(
            self.folder,
            items,
            rows_of,
            dims=_DIMS,
            dtype=self.lines.dtype,
            weighted=self.lines.weighted == 1,
            duplicates="error" if self._times else self.options.duplicates,
            fill_value=0,
            profile=self.options.profile,
            ids=ids,
            describe=self._describe,
        )

    def _describe(self, cell: tuple[int, ...]) -> str:
        if self.labels is None:
            return str(cell)
        return str(tuple(self.labels[k].as_py() for k in cell))

    def _check_space(self, parsed: ParsedEdges) -> None:
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
        if settings.current().show_progress():  # what it says is worth counting
            sample = np.empty(0) if parsed.values is None else parsed.values[:10_000]
            varied = len(np.unique(sample)) > len(sample) // 2
            stored = int(expected * (tuning().edge_bytes + (tuning().weight_bytes if varied else 0)))
            sorting = f" and {spilled:,} while sorting" if spilled else ""
            disk = get_filesystem(self.folder).local_disk(os.fspath(self.folder))
            free = "" if disk is None else f", {shutil.disk_usage(disk).free:,} are free"
            progress.write_line(f"edges: about {stored:,} bytes on disk{sorting}{free}")

    # Integer ids ----------------------------------------------------------------------------------

    def _rows_of(self, known: DistinctIds | None) -> Any:
        """Return what turns a block of text into rows."""
        limit = 2**63 - 1 if self.labels is None else len(self.labels)
        shape = self.options.shape
        gaps = None if self.labels is None or not self.labels.null_count else np.asarray(self.labels.is_null())

        def rows_of(block: TextBlock) -> Rows:
            parsed = self.lines.parsed(block)
            src, dst = parsed.src, parsed.dst
            if len(src):
                largest = int(src.max()), int(dst.max())
                if known is None and max(largest) >= limit:
                    raise self._beyond(parsed, (src >= limit) | (dst >= limit), limit)
                if shape is not None and (outside := (src >= shape[0]) | (dst >= shape[1])).any():
                    i = int(np.argmax(outside))
                    at, _ = find_line(parsed.block, i)
                    token = str(src[i] if src[i] >= shape[0] else dst[i])
                    raise IngestError(f"the id is beyond shape={tuple(shape)}", parsed.block.source.name, at, token)
                if gaps is not None and (absent := gaps[src] | gaps[dst]).any():
                    raise self._beyond(parsed, absent, limit)
                with self._lock:
                    self._largest = max(self._largest[0], largest[0]), max(self._largest[1], largest[1])
            if known is not None:
                known.add(np.concatenate([src, dst]))
            return self._shaped(src, dst, parsed.values)

        return rows_of

    def _beyond(self, parsed: ParsedEdges, wrong: NDArray[np.bool_], limit: int) -> IngestError:
        """Return the error about the first edge that ``wrong`` marks: an id of it cannot be."""
        i = int(np.argmax(wrong))
        line, _ = find_line(parsed.block, i)
        ends = int(parsed.src[i]), int(parsed.dst[i])
        beyond = [end for end in ends if end >= limit]
        if beyond and self.labels is None:
            problem = "the id is beyond the largest dimension, 2^63 - 1: say relabel=True, or ids='str'"
        elif beyond:
            problem = f"the id is beyond the {limit} vertices of vertices="
        else:
            beyond = [end for end in ends if not cast("pa.Array", self.labels)[end].is_valid]
            problem = "the id is none of vertices="
        return IngestError(problem, parsed.block.source.name, line, str(beyond[0]))

    def _shaped(self, src: NDArray[np.int64], dst: NDArray[np.int64], values: NDArray[Any] | None) -> Rows:
        """Return rows with loops dropped and edges mirrored as asked; the order of the input is kept."""
        rows = Rows((src, dst), values)
        if self.options.self_loops == "drop":
            proper = src != dst
            if not proper.all():
                rows = rows.take(proper)
        if not self.options.directed:
            src, dst = rows.coords
            kept = np.ones(2 * len(src), bool)
            np.not_equal(src, dst, out=kept[1::2])
            mirrored = tuple(np.stack(pair, axis=1).reshape(-1)[kept] for pair in ((src, dst), (dst, src)))
            rows = Rows(mirrored, None if rows.values is None else np.repeat(rows.values, 2)[kept])
        return rows

    # Ids that are names ---------------------------------------------------------------------------

    def _named(self, text: Iterable[TextBlock]) -> tuple[WrittenFiles, pa.Array]:
        names = LabelEncoder()
        shelf = self.stack.enter_context(closing(SpillQueue()))
        parsed = cast("Generator[ParsedEdges]", ordered_map(self.lines.parsed, text, settings.current().threads))
        with closing(parsed):
            for each in parsed:
                data = each.block.data
                src = names.codes_of(data, each.src, each.src_end)
                dst = names.codes_of(data, each.dst, each.dst_end)
                shelf.add(Rows((src.astype(np.int32), dst.astype(np.int32)), each.values))
        self.labels, rank = self.lines.names(*names.finish())
        if self.options.shape is not None:
            problem = f"shape={self.options.shape}: the ids are names, such as {self.labels[0].as_py()!r}"
            raise InvalidValueError(problem)
        if self.options.ids == "auto":
            name = self.lines.sources[0].name
            progress.write_note(f"{name}: the ids are names, which become labels: say ids='str' or 'int'")

        def rows_of(rows: Rows) -> Rows:
            return self._shaped(rank[rows.coords[0]], rank[rows.coords[1]], rows.values)

        return self._write(shelf, rows_of), self.labels


@dataclass
class EdgesWriter(TableWriter):
    """Write a matrix as an edge list: comments on its shape and columns, then columns parted by tabs, True as 1."""

    delimiter: ClassVar[str] = "\t"
    quoting: ClassVar[str] = "none"
    structure: ClassVar[tuple[str, str]] = (
        r"[\s,\"]|^[#%]|^$",
        "blanks, commas and quotes part columns, and # and % begin comments",
    )
    called: ClassVar[str] = "an edge list"
    comment: ClassVar[str] = "# "

    def check(self) -> None:
        """Raise ``UnsupportedError`` for what an edge list cannot hold."""
        tensor = self.tensor
        if tensor.ndim != 2:
            raise UnsupportedError(f"an edge list has two dimensions, this tensor {tensor.ndim}: use csv or parquet")
        if tensor.dtype.kind == "c":
            raise UnsupportedError(f"an edge has one number, and these are {tensor.dtype}: use csv or parquet")
        if tensor.fill_value != 0:
            raise UnsupportedError(f"an edge list has no fill but 0, and this tensor has {tensor.fill_value}: use csv")
        super().check()

    def schema(self) -> pa.Schema:
        """Return the columns as they are written: True is 1."""
        schema = super().schema()
        return schema.set(2, schema.field(2).with_type(pa.int8())) if self.tensor.dtype.kind == "b" else schema

    @contextmanager
    def batches(self, file: Any, schema: pa.Schema) -> Iterator[Callable[[pa.RecordBatch], Any]]:
        """Return what writes batches of a schema to a file, within a block."""
        if not self.named:
            file.write("# shape: {} {}\n".format(*self.tensor.shape).encode())
        with super().batches(file, schema) as write:
            yield write


FORMATS = (
    Format(
        "edges",
        "Edge lists: SNAP, KONECT, Common Crawl, CSV.",
        reader=Edges,
        writer=EdgesWriter,
        suffixes=(".edges", ".txt"),
    ),
)
