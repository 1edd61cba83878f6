"""Graphs of the WebGraph framework: compressed as BVGraph, or as text, ASCIIGraph."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparrow import storage
from sparrow.core.schema import Schema
from sparrow.errors import IngestError, UnsupportedError
from sparrow.io.base.coo_writer import write_coo
from sparrow.io.base.registry import Duplicates, Format, Reader, Writer
from sparrow.io.base.source import Source, TextBlock, open_source, read_blocks
from sparrow.io.binary import bvgraph
from sparrow.io.text.adjacency import parse_neighbor_lists
from sparrow.io.text.number_lines import HeaderReader
from sparrow.io.tuning import tuning
from sparrow.relations.base import as_numpy
from sparrow.runtime.progress import bar
from sparrow.sorting import Rows
from sparrow.storage.fs.filesystem import get_filesystem

__all__ = ["FORMATS", "AsciiGraphWriter", "WebGraph", "bvgraph_basename"]

_DIMS = ("src", "dst")
_VALUES = np.dtype(np.int64)


def bvgraph_basename(name: str) -> str | None:
    """Return the common part of the names of a BVGraph's files, of which ``name`` is one or that part; None if none."""
    for suffix in (".graph", ".properties", ".offsets"):
        if name.endswith(suffix) and _is_file(name.removesuffix(suffix) + ".properties"):
            return name.removesuffix(suffix)
    return name if not _is_file(name) and _is_file(name + ".properties") else None


def _is_file(name: str) -> bool:
    files = get_filesystem(name)
    return files.exists(name) and not files.is_folder(name)


@dataclass
class WebGraph(Reader):
    r"""Store a graph of the WebGraph framework as a square tensor ``src, dst`` of ones.

    A compressed graph (BVGraph) is a file NAME.graph beside NAME.properties; all its codes, references and intervals
    are known, and offsets are not needed. Text (ASCIIGraph) is the number of nodes, then a line of successors for each
    node, numbered from 0; an empty line is a node without any. Lists of arcs are ``edges``.

    Parameters
    ----------
    src
        NAME, NAME.graph or NAME.properties of a compressed graph; or a file of text, ``"-"`` for standard input. Text
        may be packed by gzip, zstd or bz2, which is told from the content.
    dst
        The folder to create.
    duplicates
        What becomes of a successor that comes twice in a list of text: ``"error"``, ``"sum"``, ``"last"``, ``"first"``,
        ``"min"`` or ``"max"``.
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
        What ``sp.open(dst)`` does: int64, with a row and a column for each node.

    Raises
    ------
    IngestError
        If the text holds anything else, has fewer or more lists than nodes, or a successor is none of the nodes: with
        line and token. If a compressed graph is damaged: with node and bit.
    DuplicateError
        If a successor comes twice and ``duplicates`` is ``"error"``.
    NotFoundError
        If there is no such file.
    ExistsError
        If something is at ``dst`` and ``overwrite`` is not set.
    TooLargeError
        If one list passes the memory limit.
    InvalidValueError
        If an argument is not one of those above.

    Examples
    --------
    >>> from pathlib import Path
    >>> import sparrow as sp
    >>> size = Path("small.graph-txt").write_text("3\n1 2\n\n0\n")
    >>> web = sp.ingest.webgraph("small.graph-txt", "small.sparrow")
    >>> web.shape, web.nnz, web[2, 0]
    ((3, 3), 3, np.int64(1))
    """

    _: KW_ONLY
    duplicates: Duplicates = "error"

    accepts_many: ClassVar[bool] = False
    examples: ClassVar[str] = """\
sparrow ingest webgraph cnr-2000.graph web.sparrow
sparrow ingest webgraph cnr-2000.graph-txt.gz web.sparrow"""

    def read(self) -> str:
        """Store the graph and return its folder."""
        base = bvgraph_basename(os.fspath(self.src)) if isinstance(self.src, str | os.PathLike) else None
        if base is not None:
            told = bvgraph.read_properties(base)
            source = open_source(told.graph)
            self._write(told.nodes, source, bvgraph.read_lists(told), _linked)
        else:
            self._text(open_source(self.src))
        return os.fspath(self.dst)

    def _text(self, source: Source) -> None:
        if source.path is not None and source.name.endswith(".graph"):
            missing = source.name.removesuffix(".graph") + ".properties"
            raise IngestError(
                f"a compressed graph needs {missing!r} beside it, and there is none. If this is text, a METIS graph: "
                f"sparrow ingest metis {source.name} DST",
                source.name,
            )
        with closing(read_blocks(source)) as text:
            lines = HeaderReader(text)
            head = lines.peek()
            if head is None:
                raise IngestError("the file is empty: the number of nodes comes first", source.name)
            (nodes,) = head.sizes(1, "the number of nodes, which comes first", source.name)
            lines.skip()
            read = 0

            def counted() -> Iterator[TextBlock]:
                nonlocal read
                for block in lines.rest():
                    read = block.first_line + block.lines - 2
                    yield block

            self._write(
                nodes, source, counted(), lambda block: _listed(block, nodes), lambda: _whole(read, nodes, source)
            )

    def _write(
        self,
        nodes: int,
        source: Source,
        items: Iterable[Any],
        rows_of: Callable[[Any], Rows],
        check: Callable[[], None] = lambda: None,
    ) -> None:
        with (
            storage.stage_folder(self.dst, self.overwrite) as folder,
            bar("reading lists", source.size) as advance,
        ):

            def told() -> Iterator[Any]:
                for item in items:
                    yield item
                    advance(item.advance)

            written = write_coo(
                folder,
                told(),
                rows_of,
                dims=_DIMS,
                dtype=_VALUES,
                weighted=False,
                duplicates=self.duplicates,
                fill_value=0,
                profile=self.profile,
            )
            check()
            storage.create(
                folder,
                Schema((nodes, nodes), _DIMS, _VALUES, 0),
                written.files,
                profile=self.profile,
                operation="ingest webgraph",
                extra={"sources": [source.name]},
            )


def _linked(piece: bvgraph.ListChunk) -> Rows:
    nodes = np.arange(piece.node, piece.node + len(piece.degrees))
    return Rows((np.repeat(nodes, piece.degrees), piece.links), None)


def _listed(block: TextBlock, nodes: int) -> Rows:
    found = parse_neighbor_lists(block)
    src = found.lines + (block.first_line - 2)
    wrong = (found.numbers < 0) | (found.numbers >= nodes) | (src >= nodes)
    if wrong.any():
        at = int(np.argmax(wrong))
        line = block.first_line + int(found.lines[at])
        if src[at] >= nodes:
            raise IngestError(f"there are more lists than the {nodes} nodes", block.source.name, line)
        problem = f"the successor is none of the {nodes} nodes, which count from 0"
        raise IngestError(problem, block.source.name, line, str(found.numbers[at]))
    return Rows((src, found.numbers), None)


def _whole(read: int, nodes: int, source: Source) -> None:
    if read < nodes:
        raise IngestError(
            f"there are {max(read, 0)} lists and {nodes} nodes: each has a line, be it empty", source.name
        )


@dataclass
class AsciiGraphWriter(Writer):
    """Write a square matrix of ones as ASCIIGraph: the number of nodes, then a line of successors for each node."""

    def write(self) -> int:
        """Write the file and return the number of arcs."""
        tensor = self.tensor
        if tensor.ndim != 2 or tensor.shape[0] != tensor.shape[1]:
            raise UnsupportedError(f"a graph is a square matrix, and this tensor has the shape {tensor.shape}: use csv")
        if tensor.fill_value != 0:
            raise UnsupportedError(f"a graph has no fill but 0, and this tensor has {tensor.fill_value}: use npz")
        if tensor.dtype.kind == "c":
            raise UnsupportedError(f"an ASCIIGraph has no weights, and these are {tensor.dtype}: use csv, or A != 0")
        nodes, node, arcs = tensor.shape[0], 0, 0
        pending: list[pa.Array] = []
        with self.sink() as file, bar("exporting", tensor.nnz, "entries") as advance:
            file.write(f"{nodes}\n".encode())
            for batch in tensor.to_batches():
                src, dst, values = batch.columns
                if (as_numpy(values) != 1).any():
                    raise UnsupportedError(
                        "an ASCIIGraph has no weights, and these are not all 1: use edges, or A != 0"
                    )
                at, count = src.to_numpy(), batch.num_rows
                # The list of the last node may go on in the next batch.
                last = int(at[-1])
                ends = int(np.searchsorted(at, last))
                if last > node:
                    texts = pa.concat_arrays([*pending, dst.slice(0, ends).cast(pa.string())])
                    carried = len(texts) - ends
                    _write_lists(file, node, last, np.concatenate([np.full(carried, node), at[:ends]]), texts)
                    pending, node = [], last
                pending.append(dst.slice(ends).cast(pa.string()))
                arcs += count
                advance(count)
            texts = pa.concat_arrays([pa.array([], pa.string()), *pending])
            _write_lists(file, node, nodes, np.full(len(texts), node), texts)
        return arcs


def _write_lists(file: Any, first: int, stop: int, src: Any, texts: pa.Array) -> None:
    """Write the lines of the nodes from ``first`` to before ``stop``."""
    own = np.unique(src)
    starts = np.searchsorted(src, own)
    lists = pa.ListArray.from_arrays(pa.array(np.append(starts, len(src)), pa.int32()), texts)
    node = first
    for each, line in zip(own.tolist(), pc.binary_join(lists, " ").to_pylist(), strict=True):
        _write_empty(file, each - node)
        file.write(line.encode() + b"\n")
        node = each + 1
    _write_empty(file, stop - node)


def _write_empty(file: Any, count: int) -> None:
    most = tuning().blank_lines
    while count > 0:
        file.write(b"\n" * min(count, most))
        count -= most


FORMATS = (
    Format(
        "webgraph",
        "Graphs of the WebGraph framework: BVGraph, ASCIIGraph.",
        reader=WebGraph,
        writer=AsciiGraphWriter,
        suffixes=(".graph-txt",),
    ),
)
