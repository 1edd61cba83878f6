"""What a file is that was given for something else: told from its first bytes, with the command that reads it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from sparrow.errors import IngestError
from sparrow.io.tuning import tuning

__all__ = [
    "DECOMPRESSORS",
    "NTRIPLES_COMMAND",
    "detect_compression",
    "lists_of",
    "reject_compressed",
    "reject_container",
    "reject_non_edges",
    "split_words",
]  # fmt: skip

DECOMPRESSORS = {"gzip": "gzip", "zstd": "zstd", "bz2": "bzip2"}
"""The commands of the compressions that are read."""

_PACKED = {
    b"\x1f\x9d": (".Z", "gzip -dc {file}"),
    b"Rar!\x1a\x07": ("rar", "unrar p -inul {file}"),
    b"\xfd7zXZ\x00": ("xz", "xz -dc {file}"),
    b"PK\x03\x04": ("zip", "unzip -p {file}"),
    b"\x04\x22\x4d\x18": ("lz4", "lz4 -dc {file}"),
    b"7z\xbc\xaf\x27\x1c": ("7z", "7z x -so {file}"),
}
_COLUMNS = "sparrow ingest columns {file} DST --coords A,B --value V"
_CONTAINERS = {
    b"PAR1": ("Parquet", _COLUMNS),
    b"ARROW1": ("an Arrow file", _COLUMNS),
    b"\xff\xff\xff\xff": ("an Arrow stream", _COLUMNS),
    b"FEA1": ("Feather of version 1", "write it anew by pyarrow.feather, as version 2"),
    b"\x89HDF\r\n\x1a\n": (
        "HDF5",
        "sparrow ingest {file} DST tells whether it is of AnnData or 10x Genomics, and reads it",
    ),
    b"\x93NUMPY": ("a NumPy array", "sparrow ingest npy {file} DST"),
    b"SQLite format 3\x00": ("a SQLite database", "sparrow ingest columns takes a DuckDB relation of it in Python"),
    b"\x80\x03": ("a pickle", "pickles are never loaded, for they may run programs: write it in another format"),
    b"\x80\x04": ("a pickle", "pickles are never loaded, for they may run programs: write it in another format"),
    b"\x80\x05": ("a pickle", "pickles are never loaded, for they may run programs: write it in another format"),
    b"Obj\x01": ("Avro", "sp.ingest.columns(polars.read_avro(...), ...) stores it"),
    b"MATLAB 5.0 MAT-file": ("a MATLAB file", "scipy.io.loadmat(...) reads it: sp.asarray(...).save(DST)"),
    b"RDX2\n": ("data of R", "Matrix::writeMM(x, 'x.mtx') or write.csv(x, 'x.csv') in R writes it anew"),
    b"RDX3\n": ("data of R", "Matrix::writeMM(x, 'x.mtx') or write.csv(x, 'x.csv') in R writes it anew"),
    b"X\n\x00\x00\x00": ("data of R", "Matrix::writeMM(x, 'x.mtx') or write.csv(x, 'x.csv') in R writes it anew"),
    b"%PDF-": ("a PDF", "take the text out of it first"),
    b"\xff\xfe\x00\x00": ("text in UTF-32", "iconv -f utf-32 -t utf-8 {file} | sparrow ingest FORMAT - DST"),
    b"\x00\x00\xfe\xff": ("text in UTF-32", "iconv -f utf-32 -t utf-8 {file} | sparrow ingest FORMAT - DST"),
    b"\xff\xfe": ("text in UTF-16", "iconv -f utf-16 -t utf-8 {file} | sparrow ingest FORMAT - DST"),
    b"\xfe\xff": ("text in UTF-16", "iconv -f utf-16 -t utf-8 {file} | sparrow ingest FORMAT - DST"),
}

NTRIPLES_COMMAND = "sed 's/ *\\.$//; s/ /\\t/; s/ /\\t/' {file} | sparrow ingest triples - DST"
"""How N-Triples are read."""

_SUFFIXES = {".gz", ".zst", ".bz2"}

_ARROW = re.compile("<?[-=]+>|--|[\u2192\u2194]")
"""What some write between the ends of a link."""

_GRAPHS = (
    (
        "a DIMACS graph",
        r"(c\b.*\n)*p\s+(sp|edge|col|max|min)\s+\d+\s+\d+$",
        "grep '^[ae] ' {file} | cut -d ' ' -f 2- | sparrow ingest edges - DST",
    ),
    ("a Pajek graph", r"\*(vertices|network)\b", "write it with networkx.write_edgelist(networkx.read_pajek(...))"),
    (
        "DOT",
        r"(strict\s+)?(di)?graph\b[^\[\n]*\{",
        "write it with networkx.write_edgelist(networkx.nx_pydot.read_dot(...))",
    ),
    ("GML", r"(graph\s*\[|creator\s+\")", "write it with networkx.write_edgelist(networkx.read_gml(...))"),
    (
        "a Rutherford-Boeing matrix",
        r".*\n[\d ]+\n[rcipq][suhzr][ae]\s+\d+\s+\d+\s+\d+",
        "scipy.io.hb_read(...) reads it: sp.asarray(...).save(DST)",
    ),
    ("GDF", r"nodedef>", "sed '1,/^edgedef>/d' {file} | cut -d , -f 1,2 | sparrow ingest edges - DST"),
    ("UCINET's DL", r"dl\s+n\s*=", "write it with igraph.Graph.Read_DL(...).write_edgelist(...)"),
    (
        "an adjacency list of networkx",
        r"#.*\n#\s*GMT .*\n#",
        "write it with networkx.write_edgelist(networkx.read_adjlist(...)) or read_multiline_adjlist",
    ),
    ("N-Triples", r"(<[^>\s]+>|_:\S+)\s+<[^>\s]+>\s+.*\.$", NTRIPLES_COMMAND),
)
"""Graphs in text that is not read: how it begins."""


def split_words(text: str, also: str = "") -> list[str]:
    """Return what blanks of ASCII part, and another character: as the kernels do, where str.split knows more blanks."""
    return re.findall(rf"[^ \t\n\r\v\f{also}]+", text)


def detect_compression(start: bytes) -> str | None:
    """Return the compression that the first bytes of a file tell, of those that are read."""
    if start.startswith(b"\x1f\x8b"):
        return "gzip"
    if start.startswith(b"\x28\xb5\x2f\xfd") or (start[1:4] == b"\x2a\x4d\x18" and 0x50 <= start[0] <= 0x5F):
        return "zstd"
    if start.startswith(b"BZh") and start[4:10] in (b"1AY&SY", b"\x17rE8P\x90"):
        return "bz2"
    return None


def reject_compressed(start: bytes, name: str) -> None:
    """Raise ``IngestError`` for the first bytes of a file that is compressed, where the format of it is not read so."""
    if (compression := detect_compression(start)) is not None:
        unpack, plain = _unpacking(name, compression)
        raise IngestError(f"this is compressed by {compression}: unpack it, {unpack} > {plain}, and read that", name)


def _unpacking(name: str, compression: str) -> tuple[str, str]:
    """Return the command that unpacks a file, and what may be the name of what it writes."""
    if name == "standard input":
        return f"{DECOMPRESSORS[compression]} -dc FILE", "UNPACKED"
    plain = name.removesuffix(Path(name).suffix) if Path(name).suffix in _SUFFIXES else f"{name}.unpacked"
    return f"{DECOMPRESSORS[compression]} -dc {shlex.quote(name)}", shlex.quote(plain)


def reject_container(start: bytes, name: str, compression: str | None = None) -> None:
    """Raise ``IngestError`` for the first bytes of a file that is no text, or packed as is not read.

    Parameters
    ----------
    start
        The first bytes, at least 262 where there are as many.
    name
        What the file is called.
    compression
        What they were unpacked by.
    """
    file, first = "FILE" if name == "standard input" else shlex.quote(name), ""
    if compression is not None:
        unpack, file = _unpacking(name, compression)
        first = f"{unpack} > {file}; "
        if detect_compression(start) is not None:
            raise IngestError(f"this is compressed twice: {unpack} | sparrow ingest FORMAT - DST", name)
    for magic, (kind, unpack) in _PACKED.items():
        if start.startswith(magic):
            if kind == "zip" and b".npy" in start[:80]:
                raise IngestError(f"this is a .npz file of arrays: {first}sparrow ingest npz {file} DST", name)
            raise IngestError(
                f"{kind} files are not read: unpack it, or use gzip, zstd or bz2, for example "
                f"{first}{unpack.format(file=file)} | sparrow ingest FORMAT - DST",
                name,
            )
    if start[257:262] == b"ustar":
        raise IngestError(f"this is a tar archive: {first}tar -xOf {file} | sparrow ingest FORMAT - DST", name)
    if start.startswith(b"ORC") and b"\x00" in start:
        raise IngestError("this is ORC, no text: sp.ingest.columns(pyarrow.orc.read_table(...), ...) stores it", name)
    for magic, (kind, way) in _CONTAINERS.items():
        if start.startswith(magic):
            raise IngestError(f"this is {kind}, no text: {first}{way.format(file=file)}", name)
    for order, (text, zeros) in {"le": (start[:8:2], start[1:8:2]), "be": (start[1:8:2], start[:8:2])}.items():
        if len(start) >= 8 and text.isascii() and b"\0" not in text and not any(zeros):
            way = f"{first}iconv -f utf-16{order} -t utf-8 {file} | sparrow ingest FORMAT - DST"
            raise IngestError(f"this looks like text in UTF-16: {way}", name)


def reject_non_edges(text: str, name: str) -> None:
    """Raise ``IngestError`` for text whose lines are no edges, but another kind of file.

    Parameters
    ----------
    text
        The first lines, whole.
    name
        What the file is called.
    """
    lines = [
        line.strip() for line in text.split("\n", tuning().detection_lines)[: tuning().detection_lines] if line.strip()
    ]
    if not lines:
        return
    file = "FILE" if name == "standard input" else shlex.quote(name)
    suffixes = Path(name).suffixes
    if lines[0].lower().startswith(("%%matrixmarket", "%matrixmarket")):
        raise IngestError(f"this is a Matrix Market file, whose ids count from 1: sparrow ingest mtx {file} DST", name)
    data = [line.split("#", 1)[0] for line in lines if line[0] not in "#%"]
    cells = [split_words(line, ",") for line in data]
    if not cells or not cells[0]:
        return
    for kind, pattern, way in _GRAPHS:
        if re.match(pattern, "\n".join(lines), re.IGNORECASE | re.MULTILINE):
            raise IngestError(f"this is {kind}, no edge list: {way.format(file=file)}", name, token=lines[0][:80])
    arrow = cells[0][1] if len(cells[0]) > 2 and _ARROW.fullmatch(cells[0][1]) else None
    if arrow and all(row[1:2] == [arrow] and row[2:3] != ["{}"] for row in cells):
        way = f"sed 's/[[:blank:]]*{arrow}[[:blank:]]*/ /' {file} | sparrow ingest edges - DST"
        raise IngestError(f"links are written with {arrow!r} between their ids: {way}", name)
    if lines[0][0] in "{[<":
        kind, way = "JSON", f"sparrow ingest columns {file} DST --coords A,B"
        if lines[0][0] == "<":
            kind, way = "HTML or XML", "write two columns, an edge a line"
        elif lines[0][0] == "[":
            way = f"jq -c '.[]' {file} | sparrow ingest columns - DST --format json --coords A,B"
        raise IngestError(f"this is {kind}, no edge list: {way}", name, token=lines[0][:80])
    if all(token[0] == token[-1] == '"' and len(token) > 2 for row in cells for token in row[:2]):
        raise IngestError(
            "these are names in quotes, no edge list; sparrow ingest columns reads them where they hold blanks or "
            f"commas, else: tr -d '\"' < {file} | sparrow ingest edges - DST",
            name,
        )
    if "#" in lines and _is_tgf(cells, sum(line[0] not in "#%" for line in lines[: lines.index("#")])):
        way = f"sed '1,/^#/d' {file} | sparrow ingest edges - DST"
        raise IngestError(f"this is a graph in TGF, whose vertices stand before its edges: {way}", name)
    if ".tns" in suffixes:
        count = len(cells[-1]) - 1  # the first lines may tell sizes
        raise IngestError(
            f"this is a tensor of {count} dimensions (.tns), whose coordinates count from 1: "
            f"sparrow ingest tns {file} DST",
            name,
        )
    if all(re.fullmatch(r"\d+:\S+", token) for row in cells for token in row[1:]) and any(
        len(row) > 1 for row in cells
    ):
        kind = "libffm" if all(token.count(":") == 2 for row in cells for token in row[1:]) else "libsvm"
        raise IngestError(f"this is {kind} text, no edge list: sparrow ingest {kind} {file} DST", name)
    _refuse_ragged(data, cells, file, name)


def _is_tgf(rows: Sequence[Sequence[str]], count: int) -> bool:
    """Return whether so many rows are numbered vertices with names, and those after them edges among their numbers."""
    vertices = {row[0] for row in rows[:count] if row and row[0].isdigit()}
    named = not any(token.isdigit() for row in rows[:count] for token in row[1:2])  # which is the other end of an edge
    return named and len(vertices) == count > 1 and all(row and {*row[:2]} <= vertices for row in rows[count:])


def lists_of(text: str, name: str) -> tuple[str, str] | None:
    """Return the format of a graph whose lines are lists of neighbours, and what tells it; None for other text.

    Parameters
    ----------
    text
        The first lines, whole.
    name
        What the file is called.
    """
    first, *rest = text.split("\n", tuning().detection_lines)[: tuning().detection_lines] or [""]
    called = set(Path(name).suffixes)
    if ".graph-txt" in called:
        return "webgraph", "it is called .graph-txt"
    if not all(re.fullmatch("[0-9]+", token) for line in rest for token in split_words(line) if line[:1] != "%"):
        return None
    if {".graph", ".metis"} & called and len(split_words(first)) > 1:
        return "metis", "it is text called .graph"
    if not re.fullmatch("[0-9]{1,18}", first := first.strip()):
        return None
    lists = [[int(token) for token in split_words(line)] for line in rest if line[:1] != "%"]
    lists = lists[:-1] if lists and not lists[-1] else lists  # behind the last line end
    if lists and all(len(each) == 3 for each in lists):
        return "triples", "a line with their count, then lines of three numbers"
    ascending = all(a < b for each in lists for a, b in pairwise(each))
    if len({len(each) for each in lists}) > 1 and ascending and max(map(max, filter(None, lists))) < int(first):
        return "webgraph", "a line with the number of nodes, then ascending lists of several lengths"
    return None


def _refuse_ragged(lines: Sequence[str], cells: Sequence[Sequence[str]], file: str, name: str) -> None:
    """Raise ``IngestError`` for lines of several lengths, beyond an edge and its weight."""
    counts = sorted({len(row) for row in cells})
    begins = len(cells[0]) == 1 and cells[0][0].isdigit()
    metis = bool({".graph", ".metis"} & set(Path(name).suffixes))
    extras = counts[0] >= 3 and counts[-1] - counts[0] <= 2 and not metis  # what some lines say behind the weight
    if len(counts) == 1 or extras or any(row[2:3] and row[2][0] == "{" for row in cells):
        return
    whole = all(token.isdigit() for row in cells for token in row)
    tabs = {line.count("\t") for line in lines}
    if len(tabs) == 1 and 0 not in tabs and not whole:
        triples = f"if they are triples, sparrow ingest triples {file} DST; else " if tabs == {2} else ""
        coords = ",".join(f"c{k}" for k in range(max(tabs) + 1))
        way = f"{triples}sparrow ingest columns {file} DST --no-header --coords {coords}"
        raise IngestError(f"columns are parted by tabs and hold blanks: {way}", name)
    if counts[-1] < 4 and not begins and not metis:
        return
    kind = "lists of neighbours, one line for each vertex"
    way = f". As an edge list: awk '{{for (i=2; i<=NF; i++) print $1, $i}}' {file} | sparrow ingest edges - DST"
    if whole and begins:
        kind, way = (
            "lists of neighbours after a line with the number of vertices",
            f": sparrow ingest webgraph {file} DST",
        )
    elif whole and metis:
        kind, way = (
            "a METIS graph, whose lines are the neighbours of vertex 1, 2, ...",
            f": sparrow ingest metis {file} DST",
        )
    raise IngestError(
        f"lines have {counts[0]} to {counts[-1]} columns, no edge list: this looks like {kind}{way}", name
    )
