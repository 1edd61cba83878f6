"""Edge lists to a stored square tensor: SNAP, KONECT, Common Crawl, CSV of two or three columns.

Ids that are integers are the coordinates. Ids that are texts are numbered as they come and put
aside; once all are known, in sorted order, the edges are read again and sorted.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
import warnings
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import chain
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparrow import progress, settings, storage
from sparrow.errors import DuplicateError, IngestError, InvalidValueError, UnsupportedError
from sparrow.files.kinds import refuse_no_edges
from sparrow.files.numbers import line_of
from sparrow.files.registry import DType, Duplicates, Format, Option, Reader, sizes_of
from sparrow.files.rows import Ids, Names, Shelf, Written, cast_values, check_space, write_entries
from sparrow.files.source import Source, SourceLike, TextBlock, blocks, open_sources, total_size
from sparrow.files.tables import TableWriter
from sparrow.files.vertices import names_of_vertices
from sparrow.progress import bar
from sparrow.schema import Schema, check_dtype, check_shape
from sparrow.sorting import Rows, memory_budget
from sparrow.storage.filesystem import of
from sparrow.workers import ordered_map

__all__ = ["FORMATS", "Edges", "EdgesWriter"]

_DIMS = ("src", "dst")

_SAMPLE = 1 << 16
"""Bytes of text that tell what the file is."""

_NODES = re.compile(rb"(?m)^[#%][^\n]*\bNodes:[ \t]*(\d{1,18})\b")
_DISGUISES = ((b" ", b"\x1c"), (b",", b"\x1d"), (b"\t", b"\x1e"), (b"#", b"\x1f"))
"""Control characters that stand for what parts columns, in ids that may hold it."""

_YEAR_2000, _YEAR_2100 = 946_684_800, 4_102_444_800
"""In seconds since 1970."""

_ENTRY_BYTES, _WEIGHT_BYTES = 2.5, 6.0
"""Bytes on disk of an edge and of its weight, roughly: what is said beforehand, not what is refused."""


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
        False stores each edge in both directions, a loop once.
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
        the edges, as SNAP has it, makes them N at least.
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
        Sequence[int] | None, Option("Sizes, beyond which no id may be.", metavar="M,N", parse=sizes_of)
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
        with storage.creating(self.dst, self.overwrite) as folder, ExitStack() as stack:
            labels = None if named is None else names_of_vertices(named)
            ingest = _Ingest(folder, self, sources, labels, stack)
            try:
                ingest.run()
            except DuplicateError as error:
                raise ingest.summed(error) from None
        if not ingest.lines:
            warnings.warn(f"{', '.join(source.name for source in sources)}: there is no edge", stacklevel=2)
        if ingest.passed_over:
            progress.note(f"{sources[0].name}: the columns after the third (timestamps?) were passed over")
        return os.fspath(self.dst)


def _are_times(values: NDArray[Any] | None) -> bool:
    """Return whether weights are all whole numbers that are times between 2000 and 2100, in (milli)seconds."""
    if values is None or not len(values):
        return False
    low, high = float(values.min()), float(values.max())
    within = any(_YEAR_2000 * unit <= low and high < _YEAR_2100 * unit for unit in (1, 1000))
    return within and bool((values == np.floor(values)).all())


class _Parsed(NamedTuple):
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
class _Ingest:
    folder: storage.Folder
    options: Edges
    sources: list[Source]
    labels: pa.Array | None
    """The names of the vertices where they were given."""
    stack: ExitStack
    passed_over: bool = False
    lines: int = 0
    """Of the first block that has any."""
    _as_text: bool = False
    _weighted: int = -1
    _times: bool = False
    """Whether the weights look like times, which are not summed."""
    _largest: int = -1
    _nodes: int = 0
    """What a line above the edges says that there are."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        reading = self.stack.enter_context(ExitStack())
        advance = reading.enter_context(bar("reading edges", total_size(self.sources)))
        text = self.stack.enter_context(closing(self._text()))
        start = self._probe(text)

        def counted() -> Iterator[TextBlock]:
            for block in chain(start, text):
                yield block
                advance(block.advance)
            reading.close()  # so that the bar of what follows shows

        if self._as_text:
            written, labels = self._named(counted())
        elif self.options.relabel:
            known = Ids()
            written = self._write(counted(), self._rows_of(known), [known, known])
            labels = pa.array(known.finish())
        else:
            written = self._write(counted(), self._rows_of(None))
            labels = self.labels
        n = max(self._largest + 1, self._nodes) if labels is None else len(labels)
        storage.create(
            self.folder,
            Schema(tuple(self.options.shape or (n, n)), _DIMS, self._dtype, 0),
            written.files,
            labels={} if labels is None else {0: labels, 1: labels},
            profile=self.options.profile,
            operation="ingest edges",
            extra={
                "sources": [source.name for source in self.sources],
                "directed": self.options.directed,
                "weighted": self._weighted == 1,
            },
        )

    def summed(self, error: DuplicateError) -> DuplicateError:
        """Return what to say of an edge that comes twice: of times that they are not summed."""
        if not self._times:
            return error
        return DuplicateError(
            f"{self.sources[0].name}: {str(error).partition(':')[0]}, and the third column looks like times, which "
            "nobody adds up: say duplicates='last', 'first', 'min' or 'max', or dtype='float64' if they are weights"
        )

    @property
    def _dtype(self) -> np.dtype[Any]:
        given = self.options.given
        return given if given is not None else np.dtype(np.float64 if self._weighted == 1 else np.int64)

    def _write(self, items: Iterable[Any], rows_of: Any, ids: list[Ids | None] | None = None) -> Written:
        return write_entries(
            self.folder,
            items,
            rows_of,
            dims=_DIMS,
            dtype=self._dtype,
            weighted=self._weighted == 1,
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

    # The text -------------------------------------------------------------------------------------

    def _text(self) -> Generator[TextBlock]:
        """Yield the blocks of all sources, a header line of each blanked out."""
        from sparrow.kernels.edges_text import first_data_line

        skip = False
        with closing(blocks(self.sources)) as text:
            for block in text:
                if block.first_line == 1 and (told := _NODES.search(bytes(block.data[:_SAMPLE]))):
                    self._nodes = max(self._nodes, int(told[1]))
                block = self._parted(block)
                skip = self.options.header and (skip or block.first_line == 1)
                if skip:
                    first, end = first_data_line(block.data)
                    if end:
                        block, skip = _without(block, first, end), False
                yield block

    def _parted(self, block: TextBlock) -> TextBlock:
        """Return a block whose columns are parted by commas; what would part them otherwise is put in disguise."""
        parted = self.options.delimiter
        if parted is None:
            return block
        text = bytes(block.data)
        for _, disguise in _DISGUISES:
            if (at := text.find(disguise)) >= 0:
                raise IngestError("the text holds a control character", block.source.name, block.line_at(at))
        text = b"\n".join(line if line.lstrip()[:1] in (b"#", b"%") else _plain(line, parted.encode())
                          for line in text.split(b"\n"))  # fmt: skip
        return replace(block, data=np.frombuffer(bytearray(text), np.uint8))

    def _probe(self, text: Iterator[TextBlock]) -> list[TextBlock]:
        """Take blocks up to the first with an edge, and settle from it what ids are and whether there are weights."""
        from sparrow.kernels import edges_text as kernels

        self._as_text = self.options.ids == "str"
        taken: list[TextBlock] = []
        for block in text:
            taken.append(block)
            first, end = kernels.first_data_line(block.data)
            if not end:
                continue
            refuse_no_edges(block.text(0, _SAMPLE).rpartition("\n")[0] or block.text(0, end), block.source.name)
            parsed = self._parse(block)
            if parsed.status == kernels.PADDED:
                self._as_text = True
                parsed = self._parse(block)
            if parsed.status == kernels.BAD_ID and self.options.ids == "auto":
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
                self._as_text = True
                parsed = self._parse(block)
            if not len(parsed.src):
                raise self._error(parsed)
            self._weighted = parsed.weighted
            given = self.options
            self._times = given.duplicates == "sum" and given.given is None and _are_times(parsed.values)
            self._check_space(block, len(parsed.src), parsed)
            break
        return taken

    def _check_space(self, block: TextBlock, count: int, parsed: _Parsed) -> None:
        size = total_size(self.sources)
        if size is None:
            return
        expected = int(count * max(size / max(block.advance, 1), 1)) * (1 if self.options.directed else 2)
        spilled = expected * (16 if self._weighted == 1 else 8)
        ascending = bool((parsed.src[1:] >= parsed.src[:-1]).all()) and not self._as_text
        if ascending or spilled <= memory_budget():
            spilled = 0
        check_space(self.folder, expected // 2, spilled)
        if settings.current().show_progress():  # what it says is worth counting
            sample = np.empty(0) if parsed.values is None else parsed.values[:10_000]
            varied = len(np.unique(sample)) > len(sample) // 2
            stored = int(expected * (_ENTRY_BYTES + (_WEIGHT_BYTES if varied else 0)))
            sorting = f" and {spilled:,} while sorting" if spilled else ""
            disk = of(self.folder).disk(os.fspath(self.folder))
            free = "" if disk is None else f", {shutil.disk_usage(disk).free:,} are free"
            progress.line(f"edges: about {stored:,} bytes on disk{sorting}{free}")

    def _parse(self, block: TextBlock) -> _Parsed:
        from sparrow.kernels import edges_text as kernels

        n = block.lines
        src, dst = np.empty(n, np.int64), np.empty(n, np.int64)
        src_end, dst_end = (np.empty(n if self._as_text else 0, np.int64) for _ in range(2))
        whole = self.options.given is not None and self.options.given.kind in "iu"
        expected = self._weighted
        padded = self.options.ids != "auto"
        maybe = n if expected != 0 else 0
        weights = np.empty(0 if whole else maybe)
        integers = np.empty(maybe if whole else 0, np.int64)
        hard = np.empty(0 if whole else 2 * maybe, np.int64)
        count, weighted, columns, hards, status, at = kernels.parse_edges(
            block.data, self._as_text, padded, whole, expected, src, dst, src_end, dst_end, weights, integers, hard
        )
        for i, start in hard[: 2 * hards].reshape(-1, 2).tolist():
            weights[i] = float(block.token_at(start))
        values = (integers if whole else weights)[:count] if weighted == 1 else None
        return _Parsed(
            block, src[:count], dst[:count], src_end[:count], dst_end[:count], values, weighted, columns, status, at
        )

    def _checked(self, block: TextBlock) -> _Parsed:
        """Parse a block, values in the dtype, or raise for the first line that is wrong."""
        from sparrow.kernels import edges_text as kernels

        if self._as_text:
            block.check_utf8()
        parsed = self._parse(block)
        parsed = parsed._replace(values=self._cast(parsed))
        if parsed.status != kernels.GOOD:
            raise self._error(parsed)
        self.lines = self.lines or len(parsed.src)
        if parsed.columns > kernels.FOURTH:
            self.passed_over = True
        return parsed

    def _cast(self, parsed: _Parsed) -> NDArray[Any] | None:
        if parsed.values is None:
            return None
        values, unfit = cast_values(parsed.values, self._dtype)
        if unfit is not None:
            line, text = line_of(parsed.block, unfit)
            token = text.replace(",", " ").split()[2]
            raise IngestError(f"the weight does not fit the type {self._dtype}", parsed.block.source.name, line, token)
        return values

    def _error(self, parsed: _Parsed) -> IngestError:
        from sparrow.kernels import edges_text as kernels

        block, code, at = parsed.block, parsed.status, parsed.at
        token: str | None = block.token_at(at)
        whole = self.options.given is not None and self.options.given.kind in "iu"
        problem = {
            kernels.BAD_ID: "the id is no integer: say ids='str' to take ids as names"
            if self.labels is None
            else "the id is no integer, which ids of vertices= must be",
            kernels.PADDED: "the id begins with a zero: say ids='str' to take ids as names, or ids='int' as numbers",
            kernels.LARGE_ID: "the id is beyond 2^63 - 1: say ids='str' to take ids as names",
            kernels.NEGATIVE: "the id is negative: say ids='str' to take ids as names",
            kernels.ONE_COLUMN: "an edge needs two ids: say header=True if the first line is none",
            kernels.BAD_WEIGHT: "the weight is no integer: leave dtype= out to read numbers as float64"
            if whole
            else "the weight is no number: say header=True if the first line is no edge",
            kernels.LARGE_WEIGHT: "the weight does not fit int64: leave dtype= out to read numbers as float64",
            kernels.MIXED: "there is a weight here, and none in the lines above: give all lines one, or none"
            if parsed.weighted == 0
            else "there is no weight here, unlike in the lines above: give all lines one, or none",
        }[code]
        if code == kernels.ONE_COLUMN or (code == kernels.MIXED and parsed.weighted == 1):
            line_start = at - block.text(0, at)[::-1].find("\n") if "\n" in block.text(0, at) else 0
            token = _line(block, line_start)
        return IngestError(problem, block.source.name, block.line_at(at), token)

    # Integer ids ----------------------------------------------------------------------------------

    def _rows_of(self, known: Ids | None) -> Any:
        """Return what turns a block of text into rows."""
        limit = 2**63 - 1 if self.labels is None else len(self.labels)
        shape = self.options.shape
        gaps = None if self.labels is None or not self.labels.null_count else np.asarray(self.labels.is_null())

        def rows_of(block: TextBlock) -> Rows:
            parsed = self._checked(block)
            src, dst = parsed.src, parsed.dst
            if len(src):
                largest = int(max(src.max(), dst.max()))
                if known is None and largest >= limit:
                    raise self._beyond(parsed, (src >= limit) | (dst >= limit), limit)
                if shape is not None and (outside := (src >= shape[0]) | (dst >= shape[1])).any():
                    i = int(np.argmax(outside))
                    at, _ = line_of(parsed.block, i)
                    token = str(src[i] if src[i] >= shape[0] else dst[i])
                    raise IngestError(f"the id is beyond shape={tuple(shape)}", parsed.block.source.name, at, token)
                if gaps is not None and (absent := gaps[src] | gaps[dst]).any():
                    raise self._beyond(parsed, absent, limit)
                with self._lock:
                    self._largest = max(self._largest, largest)
            if known is not None:
                known.add(np.concatenate([src, dst]))
            return self._shaped(src, dst, parsed.values)

        return rows_of

    def _beyond(self, parsed: _Parsed, wrong: NDArray[np.bool_], limit: int) -> IngestError:
        """Return the error about the first edge that ``wrong`` marks: an id of it cannot be."""
        i = int(np.argmax(wrong))
        line, _ = line_of(parsed.block, i)
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

    def _named(self, text: Iterable[TextBlock]) -> tuple[Written, pa.Array]:
        names = Names()
        shelf = self.stack.enter_context(closing(Shelf()))
        parsed = cast("Generator[_Parsed]", ordered_map(self._checked, text, settings.current().threads))
        with closing(parsed):
            for each in parsed:
                data = each.block.data
                src = names.codes_of(data, each.src, each.src_end)
                dst = names.codes_of(data, each.dst, each.dst_end)
                shelf.add(Rows((src.astype(np.int32), dst.astype(np.int32)), each.values))
        self.labels, rank = names.finish()
        if self.options.delimiter is not None:
            self.labels, rank = _undisguised(self.labels, rank)
        if self.options.shape is not None:
            problem = f"shape={self.options.shape}: the ids are names, such as {self.labels[0].as_py()!r}"
            raise InvalidValueError(problem)
        if self.options.ids == "auto":
            progress.note(f"{self.sources[0].name}: the ids are names, which become labels: say ids='str' or 'int'")

        def rows_of(rows: Rows) -> Rows:
            return self._shaped(rank[rows.coords[0]], rank[rows.coords[1]], rows.values)

        return self._write(shelf, rows_of), self.labels


def _plain(line: bytes, delimiter: bytes) -> bytes:
    ends = line.endswith(b"\r")
    cells = [cell.strip() for cell in line.removesuffix(b"\r").split(delimiter)] if line.strip() else [b""]
    for plain, disguise in _DISGUISES:
        cells = [cell.replace(plain, disguise) for cell in cells]
    return b",".join(cells) + b"\r" * ends


def _undisguised(labels: pa.Array, rank: NDArray[np.int32]) -> tuple[pa.Array, NDArray[np.int32]]:
    """Return labels as they were in the text, sorted again, and the positions among them."""
    for plain, disguise in _DISGUISES:
        labels = pc.replace_substring(labels, disguise.decode(), plain.decode())
    order = pc.array_sort_indices(labels)
    places = np.empty(len(labels), np.int32)
    places[order.to_numpy()] = np.arange(len(labels), dtype=np.int32)
    return labels.take(order), places[rank]


def _without(block: TextBlock, start: int, end: int) -> TextBlock:
    """Return a block with a line, that ends before ``end``, blanked out."""
    data = block.data.copy()
    data[start : end - 1] = 32
    return replace(block, data=data)


def _line(block: TextBlock, start: int) -> str:
    return block.text(start, start + 200).split("\n", 1)[0].strip()


@dataclass
class EdgesWriter(TableWriter):
    """Write a matrix as an edge list: a line ``# src dst value``, then columns parted by tabs, True as 1."""

    delimiter: ClassVar[str] = "\t"
    quoting: ClassVar[str] = "none"
    structure: ClassVar[str] = r"[\s,\"]"
    called: ClassVar[str] = "an edge list"
    comment: ClassVar[str] = "# "

    def check(self) -> None:
        """Raise ``UnsupportedError`` for what an edge list cannot hold."""
        tensor = self.tensor
        if tensor.ndim != 2:
            raise UnsupportedError(f"an edge list has two dimensions, this tensor {tensor.ndim}: use csv or parquet")
        if tensor.dtype.kind == "c":
            raise UnsupportedError(f"an edge has one number, and these are {tensor.dtype}: use csv or parquet")
        super().check()

    def schema(self) -> pa.Schema:
        """Return the columns as they are written: True is 1."""
        schema = super().schema()
        return schema.set(2, schema.field(2).with_type(pa.int8())) if self.tensor.dtype.kind == "b" else schema


FORMATS = (
    Format(
        "edges",
        "Edge lists: SNAP, KONECT, Common Crawl, CSV.",
        reader=Edges,
        writer=EdgesWriter,
        suffixes=(".edges", ".txt"),
    ),
)
