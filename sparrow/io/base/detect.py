"""What format a file has, told from its first bytes and lines, and why."""

from __future__ import annotations

import json
import re
import shlex
from contextlib import closing
from typing import NamedTuple

from sparrow.errors import IngestError, InvalidValueError
from sparrow.io.base.magic import lists_of, reject_non_edges, split_words
from sparrow.io.base.source import folder_path, open_sources, read_blocks
from sparrow.io.binary.alx import shard_split
from sparrow.io.binary.binsparse import find_descriptors
from sparrow.io.binary.hdf5 import MAGIC, open_file
from sparrow.io.binary.tenx import find_matrix
from sparrow.io.binary.webgraph import bvgraph_basename
from sparrow.io.text.triples import find_splits
from sparrow.io.tuning import tuning
from sparrow.storage.fs.filesystem import get_filesystem

__all__ = ["Detection", "detect_format"]

_TABLES = {b"PAR1": "Parquet", b"ARROW1": "an Arrow file", b"\xff\xff\xff\xff": "an Arrow stream"}

_PAIR = re.compile(r"(\d+|qid):\S+")

_TRIPLE = re.compile(r"\d+:\d+:[^:\s]+")


class Detection(NamedTuple):
    """A format, and what tells it."""

    format: str
    reason: str


def detect_format(src: str) -> Detection:
    r"""Return the format of a file, which its first bytes and lines tell.

    Parameters
    ----------
    src
        The file, or a pattern of which the first match is looked at; compressed or not.

    Raises
    ------
    IngestError
        If it is of a kind that takes options to read, or that is not read: with the command to type.
    InvalidValueError
        If it is standard input, which can be read once only.
    NotFoundError
        If there is no such file.

    Examples
    --------
    >>> from pathlib import Path
    >>> size = Path("small.txt").write_text("+1 3:0.5 7:1\n-1 2:1\n")
    >>> sniffed("small.txt")
    Kind(format='libsvm', why='lines are a label and index:value pairs')
    """
    if bvgraph_basename(src) is not None:
        return Detection("webgraph", "there are .properties of a compressed graph beside it")
    folder = folder_path(src) is not None
    if any(map(shard_split, get_filesystem(src).names(src) if folder else [src])):
        return Detection("alx", "it is called as the shards of ALX's web graphs are")
    if folder and find_splits(src):
        return Detection("triples", "there are train, valid and test in the folder")
    if folder and find_matrix(src) is not None:
        return Detection("tenx", "there is a matrix.mtx in the folder")
    source = open_sources(src)[0]
    if source.path is None:
        raise InvalidValueError("standard input cannot be looked at beforehand: name its format")
    name = source.name
    if source.size is not None:
        with get_filesystem(source.path).open(source.path, size=source.size) as file:
            start = file.read(262)
        if start.startswith(b"PK\x03\x04") and (name.endswith(".npz") or b".npy" in start[:80]):
            return Detection("npz", "a zip archive of .npy arrays")
        if start.startswith(b"\x93NUMPY"):
            return Detection("npy", "it begins as the .npy files of NumPy do")
        if start.startswith(MAGIC):
            return Detection(*_of_hdf5(name))
        for magic, kind in _TABLES.items():
            if start.startswith(magic):
                raise _table(f"this is {kind}", name)
    with closing(read_blocks(source, tuning().detection_bytes)) as text:
        block = next(text, None)
    if block is None:
        raise IngestError("the file is empty", name)
    sample = block.text(0, tuning().detection_bytes)
    whole = sample if len(block.data) <= tuning().detection_bytes else sample.rpartition("\n")[0] or sample
    return _of_text(whole, name)


def _of_hdf5(name: str) -> tuple[str, str]:
    with open_file(name) as (_, file):
        if find_descriptors(file):
            return "binsparse", "HDF5 with an attribute binsparse, which describes its arrays"
        if "X" in file or "obs" in file:
            return "h5ad", "HDF5 that holds obs or X, as AnnData's does"
        if "matrix" in file or any(hasattr(file[key], "keys") and "indptr" in file[key] for key in file):
            return "tenx", "HDF5 that holds a matrix by columns, as 10x Genomics writes it"
        there = ", ".join(map(repr, file)) or "nothing"
        raise IngestError(
            f"this is HDF5 of {there}, neither of AnnData, 10x Genomics nor binsparse: read its arrays with h5py and "
            "give them to sp.from_coords",
            name,
        )


def _of_text(text: str, name: str) -> Detection:
    lines = [line.strip() for line in re.split(r"[\r\n]+", text) if line.strip()]
    data = [line for line in lines if line[0] not in "#%"]
    if lines and lines[0].lower().startswith(("%%matrixmarket", "%matrixmarket")):
        return Detection("mtx", "the first line is a banner %%MatrixMarket")
    if re.match(r"%[ \t]*(sym|asym|bip)\b", text):
        return Detection("edges", "the first line is a header of KONECT")
    sizes = re.search(r"(?m)^# sizes:((?: \d+)+)\s*$", text)
    if sizes is not None and (not data or len(split_words(data[0])) == len(split_words(sizes[1])) + 1):
        return Detection("tns", "a comment tells sizes, as exported files do")
    if not data and re.search(r"(?m)^# [^\t\n]+\t[^\t\n]+\tvalue\r?$", text):
        return Detection(
            "edges", "a comment names two columns and value, as that of an exported file without edges does"
        )
    if not data:
        raise IngestError("there are comments alone in the beginning of the file: name its format", name)
    if data[0] == "sptensor":
        return Detection("tns", "the first line is sptensor")
    if ".tns" in name.rsplit("/", 1)[-1]:
        return Detection("tns", "it is called .tns")
    rows = [split_words(line.split("#")[0]) for line in data]
    pairs = [token for row in rows for token in row[1:] if _is_label(rows[0][0])]
    if pairs and all(_TRIPLE.fullmatch(token) for token in pairs):
        return Detection("libffm", "lines are a label and field:index:value triples")
    found = sum(_PAIR.fullmatch(token) is not None for token in pairs)
    if pairs and 2 * found >= len(pairs):
        return Detection("libsvm", "lines are a label and index:value pairs")  # its reader finds the odd one
    if data[0].startswith("{"):
        raise _json(data[0], name)
    if all(line.count("::") == data[0].count("::") > 0 for line in data):
        coords, file = "c0,c1" if data[0].count("::") > 1 else "c0", shlex.quote(name)
        value = "c2" if data[0].count("::") > 1 else "c1"
        raise IngestError(
            f"columns are parted by '::': sparrow ingest columns {file} DST --delimiter '::' --no-header "
            f"--coords {coords} --value {value}",
            name,
        )
    if lists := lists_of(text, name):
        return Detection(*lists)
    _refuse_table(data, name)
    reject_non_edges(text, name)
    cells = [row for line in data if (row := split_words(line.split("#")[0], ","))]
    tabs = {line.count("\t") for line in data}
    if len(tabs) == 1 and min(tabs) > 1 and any(" " in line for line in data):
        cells = [line.split("\t") for line in data]
    counts = {len(row) for row in cells}
    if min(counts, default=0) < 2:
        raise _one_column(data, name)
    if min(counts) > 3 and all(_is_number(token) for row in cells for token in row):
        raise _several(min(counts), name)
    if min(counts) >= 3 and not any(_is_number(row[2]) or row[2][:1] == "{" for row in cells):
        coords = ",".join(f"c{k}" for k in range(min(counts)))
        triples = counts == {3} and not any("," in line for line in data)
        told = f": sparrow ingest triples {shlex.quote(name)} DST; else" if triples else ""
        parted = "" if all("\t" in line or "," in line for line in data) else " --delimiter ' '"
        raise IngestError(
            f"lines of {min(counts)} names are no edges with a weight, perhaps triples{told}: sparrow ingest columns "
            f"{shlex.quote(name)} DST --no-header{parted} --coords {coords}",
            name,
        )
    if len(data) == 1 and "," in data[0] and not any(map(_is_number, cells[0])):
        raise IngestError("one line of names may be the head of an empty table, or an edge: name its format", name,
                          token=data[0][:80])  # fmt: skip
    ids = "names" if any(not token.isdigit() for row in cells for token in row[:2]) else "numbers"
    return Detection("edges", f"lines begin with two ids that are {ids}")


def _json(line: str, name: str) -> IngestError:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return IngestError("this is JSON, but no object in each line: write it so", name, token=line[:80])
    numbers = [str(key) for key in list(found)[2:] if isinstance(found[key], int | float)]
    return _table("these are JSON lines", name, [str(key) for key in found], numbers[0] if numbers else None)


def _refuse_table(lines: list[str], name: str) -> None:
    """Raise ``IngestError`` for columns under a line of names."""
    for delimiter in ("\t", ",", ";", "|"):
        first = lines[0].split(delimiter)
        if len(first) < 2 or len(lines) < 2:
            continue
        below = [line.split(delimiter) for line in lines[1:20]]
        numbers = any(_is_number(token) for row in below for token in row)
        if numbers and not any(_is_number(token) for token in first) and all(len(row) >= len(first) for row in below):
            names = [token.strip().strip('"') for token in first]
            whole = [row for row in below if len(row) == len(names)]
            values = [
                column
                for k, column in enumerate(names[1:], 1)
                if (k > 1 or column == "value") and whole and all(_is_number(row[k].strip('"')) for row in whole)
            ]
            value = "value" if "value" in values else values[0] if values else None
            raise _table("this is a table", name, names, value)


def _one_column(lines: list[str], name: str) -> IngestError:
    """Return the error about lines of which one has one column."""
    for delimiter in ";|":
        count = lines[0].count(delimiter)
        if 0 < count < 3 and all(line.count(delimiter) == count for line in lines):
            way = f"sparrow ingest edges {shlex.quote(name)} DST --delimiter '{delimiter}'"
            return IngestError(f"columns are parted by {delimiter!r}: {way}", name)
    at = next(line for line in lines if len(split_words(line.split("#")[0], ",")) < 2)
    return IngestError("a line of one column is no entry of any format that is read", name, token=at[:80])


def _table(what: str, name: str, columns: list[str] | None = None, value: str | None = None) -> IngestError:
    told = f" of columns {', '.join(map(repr, columns))}" if columns else ""
    coords = ",".join(columns[:2]) if columns else "A,B"
    if columns and value == columns[-1] == "value":  # as exported tables are
        coords = ",".join(columns[:-1])
    if not columns:
        value = "V"
    values = f" --value {shlex.quote(value)}" if value else ""
    example = shlex.join(["sparrow", "ingest", "columns", name]) + f" DST --coords {shlex.quote(coords)}{values}"
    return IngestError(f"{what}{told}: say which are coordinates and which the value, for example {example}", name)


def _several(count: int, name: str) -> IngestError:
    file = shlex.quote(name)
    coords = ",".join(f"c{k}" for k in range(count - 1))
    return IngestError(
        f"lines of {count} numbers may be coordinates counted from 1 and a value: sparrow ingest tns {file} DST; or a "
        f"table without names: sparrow ingest columns {file} DST --no-header --coords {coords} --value c{count - 1}",
        name,
    )


def _is_label(token: str) -> bool:
    """Return whether lines of samples may begin so: with a label, several, or a feature where there is none."""
    return all(map(_is_number, token.strip(",").split(","))) or _PAIR.fullmatch(token) is not None


def _is_number(token: str) -> bool:
    try:
        float(token)
    except ValueError:
        return False
    return True
