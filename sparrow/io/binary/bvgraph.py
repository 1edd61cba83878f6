"""Decoder of WebGraph's compressed graphs: properties and successor lists.

P. Boldi and S. Vigna, The WebGraph Framework I: Compression Techniques, 2004. Offsets are not needed to read a graph
from end to end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparrow.errors import IngestError, NotFoundError
from sparrow.io.tuning import tuning
from sparrow.runtime import memory
from sparrow.storage.fs.filesystem import get_filesystem

__all__ = ["GraphProperties", "ListChunk", "read_lists", "read_properties"]

_CLASSES = ("it.unimi.dsi.webgraph.BVGraph", "it.unimi.dsi.big.webgraph.BVGraph")

_PARTS = ("OUTDEGREES", "REFERENCES", "RESIDUALS", "BLOCK_COUNT", "BLOCKS")
_CODES = ("UNARY", "GAMMA", "DELTA", "ZETA", "NIBBLE", "GOLOMB")
_USUAL = {"OUTDEGREES": "GAMMA", "REFERENCES": "UNARY", "RESIDUALS": "ZETA", "BLOCK_COUNT": "GAMMA", "BLOCKS": "GAMMA"}


_PAIR = re.compile(r"((?:\\.|[^\\ \t\f=:])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class GraphProperties:
    """Contents of a file NAME.properties."""

    graph: str
    """Path of the bit stream."""
    nodes: int
    arcs: int
    window: int
    shortest: int
    """Length of the shortest interval, 0 without intervals."""
    k: int
    codes: tuple[int, ...]


def _parse_properties(text: str) -> dict[str, tuple[int, str]]:
    """Return the values of a .properties file by key, with their lines, as Java does."""
    props: dict[str, tuple[int, str]] = {}
    pending, first = "", 0
    lines = re.split(r"\r\n|\r|\n", text)
    for number, line in enumerate(lines, 1):
        line = line.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        first = first if pending else number
        pending += line
        if (len(line) - len(line.rstrip("\\"))) % 2 and number < len(lines):
            pending = pending[:-1]
            continue
        found = _PAIR.fullmatch(pending)
        assert found is not None
        key, value = (_ESCAPE.sub(_unescape, part) for part in found.groups())
        props[key] = first, value.strip()
        pending = ""
    return props


def _unescape(found: re.Match[str]) -> str:
    char = found[1]
    return chr(int(char[1:], 16)) if len(char) > 1 else {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(char, char)


def read_properties(base: str) -> GraphProperties:
    """Return the contents of NAME.properties.

    Raises
    ------
    NotFoundError
        If the file does not exist.
    IngestError
        If it is not of a BVGraph, or the coding is unknown.
    """
    name = base + ".properties"
    if not get_filesystem(name).exists(name):
        raise NotFoundError(f"there is no file {name!r}, which is needed to decode {base}.graph")
    with get_filesystem(name).open(name, sequential=True) as file:
        text = file.read(1 << 20).decode("latin-1")
    props = _parse_properties(text)
    at, kind = props.get("graphclass", (1, ""))
    kind = kind.removeprefix("class ")
    if kind not in _CLASSES:
        below = props.get("underlyinggraph")
        way = f": read its graph {below[1]!r}" if below else ""
        raise IngestError(f"graphclass must be BVGraph, got {kind}{way}", name, at)

    def number_of(key: str, usual: int | None = None, least: int = 0) -> int:
        if key not in props and usual is not None:
            return usual
        line, value = props.get(key, (1, ""))
        if not (value.isascii() and value.isdigit() and len(value) < 20 and int(value) >= least):
            problem = f"{key} must be an integer" if key in props else f"{key} is missing"
            raise IngestError(problem, name, line if key in props else None, value or None)
        return int(value)

    if number_of("version", 0) > 0:
        raise IngestError(f"version={props['version'][1]} of BVGraph is unknown", name, props["version"][0])
    if props.get("endianness", (0, "big"))[1].lower() not in ("big", "be", ""):
        raise IngestError("little-endian bit order is not supported: convert the graph", name, props["endianness"][0])
    codes = dict(_USUAL)
    line, flags = props.get("compressionflags", (1, ""))
    for flag in flags.replace(",", "|").split("|"):
        if not (flag := flag.strip()):
            continue
        part, _, code = flag.rpartition("_")
        if part not in (*_PARTS, "OFFSETS") or code not in _CODES:
            raise IngestError("the compression flag is unknown", name, line, flag)
        codes[part] = code
    k = number_of("zetak", 3, 1)
    if k > 60:
        raise IngestError("zetak must be at most 60", name, props["zetak"][0], props["zetak"][1])
    return GraphProperties(
        base + ".graph",
        number_of("nodes"),
        number_of("arcs"),
        number_of("windowsize", 7),
        number_of("minintervallength", 4),
        k,
        tuple(_CODES.index(codes[part]) for part in _PARTS),
    )


class ListChunk(NamedTuple):
    """Successor lists of consecutive nodes."""

    node: int
    """First of them."""
    degrees: NDArray[np.int64]
    links: NDArray[np.int64]
    advance: int
    """Bytes of the file read since the previous chunk."""


class _Bits:
    """Bits of a file, read in chunks."""

    def __init__(self, file: Any) -> None:
        from sparrow.kernels.parse.bvgraph import PADDING

        self._file, self._padding = file, PADDING
        self.data = np.zeros(PADDING, np.uint8)
        self.at = self.end = self.before = 0

    def more(self) -> int:
        """Read further bytes after those not yet used, and return their number."""
        used = self.at >> 3
        pending = self.end // 8 - used
        size = tuning().bvgraph_block_bytes
        data = np.zeros(pending + size + self._padding, np.uint8)
        data[:pending] = self.data[used : used + pending]
        found = self._file.readinto(memoryview(data)[pending : pending + size]) or 0  # type: ignore[arg-type]
        self.data, self.before = data, self.before + used
        self.at -= 8 * used
        self.end = 8 * (pending + found)
        return int(found)

    def rest(self) -> NDArray[np.uint8]:
        """Return the bits that were read and not used."""
        used = self.at >> 3
        return np.unpackbits(self.data[used : self.end // 8])[self.at & 7 :]


def read_lists(props: GraphProperties) -> Iterator[ListChunk]:
    """Yield the lists of a graph, in chunks that keep memory bounded.

    Raises
    ------
    IngestError
        If the file is truncated or damaged: with the node and the bit.
    TooLargeError
        If one list, or those that others refer to, exceed the memory limit.
    """
    from sparrow.kernels.parse import bvgraph as kernels

    files = get_filesystem(props.graph)
    size = files.size(props.graph)
    if props.nodes > 8 * size:
        raise IngestError(f"{size} bytes cannot hold {props.nodes} lists: the file is truncated, or .properties are of "
                          "another graph", props.graph)  # fmt: skip
    sizes, codes = np.array([props.window, props.shortest, props.k], np.int64), np.array(props.codes, np.int64)
    node = arcs = advance = 0
    most_lists, most_links = tuning().bvgraph_lists, tuning().bvgraph_links
    room, degrees, history = most_links, np.empty(0, np.int64), np.empty(0, np.int64)
    with files.open(props.graph, sequential=True, size=size) as file:
        bits = _Bits(file)
        while node < props.nodes:
            known = len(degrees)
            space = len(history) + room
            memory.check(8 * 4 * space, f"the lists from node {node} on", "")
            offsets = np.zeros(known + most_lists + 1, np.int64)
            np.cumsum(degrees, out=offsets[1 : known + 1])
            links = np.empty(space, np.int64)
            links[: len(history)] = history
            lists, bits.at, status, wanted = kernels.decode(
                bits.data, bits.at, bits.end, node, props.nodes, sizes, codes, links, offsets, known
            )
            if lists > known:
                start, stop = int(offsets[known]), int(offsets[lists])
                found = np.diff(offsets[: lists + 1])
                yield ListChunk(node, found[known:], links[start:stop], advance)
                node, arcs, advance = node + lists - known, arcs + stop - start, 0
                kept = max(lists - props.window, 0)
                degrees, history = found[kept:], links[int(offsets[kept]) : stop].copy()
                room = most_links
            if status == kernels.MORE:
                got = bits.more()
                advance += got
                if not got:
                    raise IngestError(f"the file ends in the list of node {node} of {props.nodes}", props.graph)
            elif status == kernels.BAD:
                raise IngestError(
                    f"the list of node {node} at bit {8 * bits.before + bits.at} is not ascending: the file "
                    "is damaged, or its .properties belong to another graph",
                    props.graph,
                )
            elif status == kernels.ROOM and wanted and lists == known:
                room = wanted
        left = bits.rest()
        if bits.more() or len(left) > 64 or left.any():
            raise IngestError(
                f"the lists end at bit {8 * bits.before + bits.at}, before the file does: it is damaged, or its "
                ".properties belong to another graph",
                props.graph,
            )
    if arcs != props.arcs:
        raise IngestError(f"expected {props.arcs} arcs by the .properties, got {arcs}", props.graph)
