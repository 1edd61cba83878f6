"""Graphs of the WebGraph framework: compressed (BVGraph) or text (ASCIIGraph)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparrow import storage
from sparrow.core.schema import Schema, assigned_dims
from sparrow.errors import IngestError, UnsupportedError
from sparrow.io.base.coo_writer import write_coo
from sparrow.io.base.registry import Duplicates, Format, Reader, Writer, shared
from sparrow.io.base.sample import Sample, Stage
from sparrow.io.base.source import Source, TextBlock, open_source, read_blocks
from sparrow.io.binary import bvgraph
from sparrow.io.text.number_lines import HeaderReader, counted_lists_in, parse_neighbor_lists
from sparrow.io.tuning import tuning
from sparrow.relations.arrow import as_numpy
from sparrow.runtime.progress import bar
from sparrow.sorting import Rows
from sparrow.storage.fs.filesystem import get_filesystem

__all__ = ["FORMATS", "AsciiGraphWriter", "WebGraph", "bvgraph_basename"]

_DIMS = assigned_dims("src", "dst")
_VALUES = np.dtype(np.int64)


def bvgraph_basename(name: str) -> str | None:
    """Return the basename of a BVGraph that ``name`` is, or a file of it, or None."""
    for suffix in (".graph", ".properties", ".offsets"):
        if name.endswith(suffix) and _is_file(name.removesuffix(suffix) + ".properties"):
            return name.removesuffix(suffix)
    return name if not _is_file(name) and _is_file(name + ".properties") else None


def _is_file(name: str) -> bool:
    files = get_filesystem(name)
    return files.exists(name) and not files.is_folder(name)


@shared
@dataclass
class WebGraph(Reader):
    r"""Store a graph of the WebGraph framework as a square tensor ``src, dst``.

    Its values are ones. A compressed graph (BVGraph) is a file NAME.graph beside NAME.properties; all codes,
    references and intervals are supported, offsets are not needed. Text (ASCIIGraph) is the number of nodes, then a
    line of successors per node, numbered from 0; an empty line is a node without successors. Lists of arcs are read by
    ``edges``.

    Parameters
    ----------
    src
        NAME, NAME.graph or NAME.properties of a compressed graph; or a text file, ``"-"`` for standard input. gzip,
        zstd and bz2 of text are detected from the content.
    %(dst)s
    %(duplicates)s
    %(storing)s

    Returns
    -------
    Tensor
        ``sp.open(dst)``: the stored tensor, int64, with a row and a column per node.

    Raises
    ------
    IngestError
        If text is malformed, the number of lists differs from that of nodes, or a successor is not a node: with line
        and token. If a compressed graph is damaged: with node and bit.
    %(duplicate_error)s
    %(not_found)s
    %(exists)s
    TooLargeError
        If one list exceeds the memory limit.
    %(invalid)s

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
            properties = bvgraph.read_properties(base)
            source = open_source(properties.graph)
            self._write(properties.nodes, source, bvgraph.read_lists(properties), _chunk_rows)
        else:
            self._text(open_source(self.src))
        return os.fspath(self.dst)

    def _text(self, source: Source) -> None:
        if source.path is not None and source.name.endswith(".graph"):
            missing = source.name.removesuffix(".graph") + ".properties"
            raise IngestError(
                f"a compressed graph needs {missing!r} beside it, which is missing. If this is text of METIS: "
                f"sparrow ingest metis {source.name} DST",
                source.name,
            )
        with closing(read_blocks(source)) as text:
            lines = HeaderReader(text, self.report)
            head = lines.peek()
            if head is None:
                raise IngestError("the file is empty: the first line must be the number of nodes", source.name)
            (nodes,) = head.sizes(1, "the number of nodes in the first line", source.name)
            lines.skip()
            read = 0

            def count_blocks() -> Iterator[TextBlock]:
                nonlocal read
                for block in lines.rest():
                    read = block.first_line + block.lines - 2
                    yield block

            self._write(
                nodes,
                source,
                count_blocks(),
                lambda block: _block_rows(block, nodes),
                lambda: _check_complete(read, nodes, source),
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

            def advancing() -> Iterator[Any]:
                for item in items:
                    yield item
                    advance(item.advance)

            written = write_coo(
                folder,
                advancing(),
                rows_of,
                dims=_DIMS,
                dtype=_VALUES,
                weighted=False,
                duplicates=self.duplicates,
                fill_value=0,
                profile=self.profile,
                report=self.report,
            )
            check()
            storage.create(
                folder,
                Schema((nodes, nodes), _DIMS, _VALUES, 0),
                written.files,
                profile=self.profile,
                operation="ingest webgraph",
                report=self.report.counts,
                extra={"sources": [source.name]},
            )


def _chunk_rows(piece: bvgraph.ListChunk) -> Rows:
    nodes = np.arange(piece.node, piece.node + len(piece.degrees))
    return Rows((np.repeat(nodes, piece.degrees), piece.links), None)


def _block_rows(block: TextBlock, nodes: int) -> Rows:
    found = parse_neighbor_lists(block)
    src = found.lines + (block.first_line - 2)
    wrong = (found.numbers < 0) | (found.numbers >= nodes) | (src >= nodes)
    if wrong.any():
        at = int(np.argmax(wrong))
        line = block.first_line + int(found.lines[at])
        if src[at] >= nodes:
            raise IngestError(f"expected {nodes} lists, one per node, got more", block.source.name, line)
        problem = f"the successor must be one of the nodes 0 to {nodes - 1}"
        raise IngestError(problem, block.source.name, line, str(found.numbers[at]))
    return Rows((src, found.numbers), None)


def _check_complete(read: int, nodes: int, source: Source) -> None:
    if read < nodes:
        raise IngestError(f"expected {nodes} lists, a line per node, empty or not, got {max(read, 0)}", source.name)


@dataclass
class AsciiGraphWriter(Writer):
    """Write a square matrix of ones as ASCIIGraph."""

    def write(self) -> int:
        """Write the file and return the number of arcs."""
        tensor = self.tensor
        if tensor.ndim != 2 or tensor.shape[0] != tensor.shape[1]:
            raise UnsupportedError(f"webgraph needs a square matrix, got shape {tensor.shape}: use csv")
        if tensor.fill_value != 0:
            raise UnsupportedError(f"webgraph needs fill 0, the tensor has {tensor.fill_value}: use npz")
        if tensor.dtype.kind == "c":
            raise UnsupportedError(f"an ASCIIGraph has no weights, the values are {tensor.dtype}: use csv, or A != 0")
        nodes, node, arcs = tensor.shape[0], 0, 0
        pending: list[pa.Array] = []
        with self.sink() as file, bar("exporting", tensor.nnz, "elements") as advance:
            file.write(f"{nodes}\n".encode())
            for batch in tensor.to_batches():
                src, dst, values = batch.columns
                if (as_numpy(values) != 1).any():
                    raise UnsupportedError(
                        "an ASCIIGraph has no weights, but the values are not all 1: use edges, or A != 0"
                    )
                at, count = src.to_numpy(), batch.num_rows
                # The list of the last node may continue in the next batch.
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
    """Write the lines of the nodes from ``first`` to ``stop``, exclusive."""
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
    max_count = tuning().blank_lines
    while count > 0:
        file.write(b"\n" * min(count, max_count))
        count -= max_count


def _detect_path(sample: Sample) -> str | None:
    name = bvgraph_basename(sample.src)
    beside = name is not None and get_filesystem(name).exists(f"{name}.graph")
    return "a .properties file of a compressed graph is beside it" if beside else None


def _detect_lists(sample: Sample) -> str | None:
    if ".graph-txt" in Path(sample.name).suffixes:
        return "the name ends in .graph-txt"
    if (found := counted_lists_in(sample)) is None:
        return None
    nodes, lists = found
    ascending = all(a < b for each in lists for a, b in pairwise(each))
    if len({len(each) for each in lists}) > 1 and ascending and max(map(max, filter(None, lists))) < nodes:
        return "a line with the number of nodes, then ascending lists of different lengths"
    return None


FORMATS = (
    Format(
        "webgraph",
        "Graphs of the WebGraph framework: BVGraph, ASCIIGraph.",
        reader=WebGraph,
        writer=AsciiGraphWriter,
        suffixes=(".graph-txt",),
        detectors={Stage.PATH: _detect_path, Stage.LISTS: _detect_lists},
    ),
)
