"""File signatures: compression, and files that no reader of text takes."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn, TypeAlias

from sparrow.errors import IngestError
from sparrow.io.base.suggestion import DECOMPRESSORS, PACKED_SUFFIXES

__all__ = [
    "Advice", "detect_compression", "load_signatures_with", "looks_binary", "register_signatures", "reject_compressed",
    "reject_container", "split_words",
]  # fmt: skip

_ARCHIVES = {
    b"\x1f\x9d": (".Z", "gzip -dc {file}"),
    b"Rar!\x1a\x07": ("rar", "unrar p -inul {file}"),
    b"PK\x03\x04": ("zip", "unzip -p {file}"),
    b"\x04\x22\x4d\x18": ("lz4", "lz4 -dc {file}"),
    b"7z\xbc\xaf\x27\x1c": ("7z", "7z x -so {file}"),
    b"\x5d\x00\x00": (".lzma", "xz -dc --format=lzma {file}"),
}
_PICKLE = ("a pickle", "pickles are never loaded, they may run programs: write the data in another format")
_R_DATA = ("an R data file", "write it from R with Matrix::writeMM(x, 'x.mtx') or write.csv(x, 'x.csv')")
_LFS = ("a pointer of Git LFS, not the file", "git lfs pull --include {file} fetches it")
_ANNEX = ("a pointer of git-annex, not the file", "git annex get {file} fetches it")
_UTF32 = ("text in UTF-32", "iconv -f utf-32 -t utf-8 {file} | sparrow ingest FORMAT - DST")
_UTF16 = ("text in UTF-16", "iconv -f utf-16 -t utf-8 {file} | sparrow ingest FORMAT - DST")

Advice: TypeAlias = str | Callable[[str], str]
"""Way to read a file: a text with ``{file}`` or ``{path!r}``, or a function that returns one for a path."""

_SIGNATURES: dict[bytes, tuple[str, Advice]] = {
    b"version https://git-lfs.github.com/spec/": _LFS,
    b"/annex/objects/": _ANNEX,
    b"FEA1": ("Feather version 1", "write it with pyarrow.feather as version 2"),
    b"SQLite format 3\x00": (
        "a SQLite database",
        "in Python, sp.ingest.columns(duckdb.sql(...), DST, coords=[...]) stores a query",
    ),
    b"\x80\x03": _PICKLE,
    b"\x80\x04": _PICKLE,
    b"\x80\x05": _PICKLE,
    b"Obj\x01": ("Avro", "in Python, sp.ingest.columns(polars.read_avro({path!r}), DST, coords=[...]) stores it"),
    b"MATLAB 5.0 MAT-file": (
        "a MATLAB file",
        "in Python, sp.asarray(scipy.io.loadmat({path!r})[...]).save(DST) stores a matrix",
    ),
    b"RDX2\n": _R_DATA,
    b"RDX3\n": _R_DATA,
    b"X\n\x00\x00\x00": _R_DATA,
    b"%PDF-": ("a PDF", "extract its text first"),
    b"\xff\xfe\x00\x00": _UTF32,
    b"\x00\x00\xfe\xff": _UTF32,
    b"\xff\xfe": _UTF16,
    b"\xfe\xff": _UTF16,
}
"""First bytes of binary files: kind, and the command that reads it. Formats add theirs."""

_loaders: list[Callable[[], object]] = []


def register_signatures(signatures: Mapping[bytes, tuple[str, Advice]]) -> None:
    """Add the first bytes of a binary format: its kind, and a command to read it."""
    _SIGNATURES.update(signatures)


def load_signatures_with(loader: Callable[[], object]) -> None:
    """Call ``loader``, which registers signatures, before a binary file is matched."""
    _loaders.append(loader)


def looks_binary(start: bytes) -> bool:
    """Return whether first bytes hold control characters, unlike text."""
    return any(byte < 9 or 13 < byte < 32 for byte in start)


def split_words(text: str, delimiters: str = "") -> list[str]:
    """Return the words between ASCII whitespace, or other characters.

    Unlike ``str.split`` this agrees with the kernels, which know ASCII whitespace only.
    """
    return re.findall(rf"[^ \t\n\r\v\f{delimiters}]+", text)


def detect_compression(start: bytes) -> str | None:
    """Return the compression: ``"gzip"``, ``"zstd"``, ``"bz2"``, ``"xz"`` or None."""
    if start.startswith(b"\x1f\x8b"):
        return "gzip"
    if start.startswith(b"\x28\xb5\x2f\xfd") or (start[1:4] == b"\x2a\x4d\x18" and 0x50 <= start[0] <= 0x5F):
        return "zstd"
    if start.startswith(b"BZh") and start[4:10] in (b"1AY&SY", b"\x17rE8P\x90"):
        return "bz2"
    return "xz" if start.startswith(b"\xfd7zXZ\x00") else None


def reject_compressed(start: bytes, name: str) -> None:
    """Raise ``IngestError`` if a file of a binary format is compressed, or a pointer."""
    for magic, (kind, way) in (b"version https://g", _LFS), (b"/annex/objects/", _ANNEX):
        if start.startswith(magic):
            raise IngestError(f"this is {kind}: {str(way).format(file=shlex.quote(name))}", name)
    if (compression := detect_compression(start)) is not None:
        command, plain = _decompression(name, compression)
        command = f"{command} > {shlex.quote(plain)}"
        raise IngestError(f"the file is compressed with {compression}: run {command} and read that", name)


def _decompression(name: str, compression: str) -> tuple[str, str]:
    """Return the command that decompresses a file, and a name for its output."""
    if name == "standard input":
        return f"{DECOMPRESSORS[compression]} -dc FILE", "UNPACKED"
    plain = os.path.splitext(name)[0] if Path(name).suffix in PACKED_SUFFIXES else f"{name}.unpacked"
    return f"{DECOMPRESSORS[compression]} -dc {shlex.quote(name)}", plain


def reject_container(start: bytes, name: str, compression: str | None = None) -> None:
    """Raise ``IngestError`` for a binary file or archive, with a command to read it.

    Parameters
    ----------
    start
        First bytes, decompressed; 262 or the whole file.
    name
        Name of the file.
    compression
        Compression of the file.
    """
    file, first, path = "FILE" if name == "standard input" else shlex.quote(name), "", name

    def reject(problem: str, command: str) -> NoReturn:
        raise IngestError(problem, name, commands=[first + command])

    if compression is not None:
        command, path = _decompression(name, compression)
        file = shlex.quote(path)
        first = f"{command} > {file}; "
        if detect_compression(start) is not None:
            first = ""
            unpack = f"{DECOMPRESSORS[detect_compression(start) or 'gzip']} -dc"
            reject("the file is compressed twice", f"{command} | {unpack} | sparrow ingest FORMAT - DST")
    for magic, (kind, command) in _ARCHIVES.items():
        if start.startswith(magic):
            if kind == "zip" and b".npy" in start[:80]:
                reject("this is a .npz file of arrays", f"sparrow ingest npz {file} DST")
            if kind == "zip" and (office := _document(start, path)) is not None:
                raise IngestError(f"this is {office[0]}, not text: {office[1].format(path=path)}", name)
            reject(
                f"{kind} files are not read: unpack it, or use gzip, zstd, bz2 or xz, for example",
                f"{command.format(file=file)} | sparrow ingest FORMAT - DST",
            )
    if start[257:262] == b"ustar":
        reject("this is a tar archive", f"tar -xOf {file} | sparrow ingest FORMAT - DST")
    if start.startswith(b"ORC") and b"\x00" in start:
        way = f"in Python, sp.ingest.columns(pyarrow.orc.read_table({path!r}), DST, coords=[...]) stores it"
        raise IngestError(f"this is ORC, not text: {way}", name)
    for load in _loaders if looks_binary(start) else ():
        load()
    for magic, (kind, advice) in _SIGNATURES.items():
        if start.startswith(magic):
            way = advice.format(file=file, path=path) if isinstance(advice, str) else advice(path)
            first = first if file in way or path in way else ""
            problem = f"this is {kind}" if ", not " in kind else f"this is {kind}, not text"
            if " DST" in way and "sparrow ingest" in way:
                reject(problem, way)
            raise IngestError(f"{problem}: {first}{way}", name)
    for order, (text, zeros) in {"le": (start[:8:2], start[1:8:2]), "be": (start[1:8:2], start[:8:2])}.items():
        if len(start) >= 8 and text.isascii() and b"\0" not in text and not any(zeros):
            reject(
                "this looks like text in UTF-16",
                f"iconv -f utf-16{order} -t utf-8 {file} | sparrow ingest FORMAT - DST",
            )


def _document(start: bytes, path: str) -> tuple[str, str] | None:
    """Return the kind of a zip archive that is a document, and the way to read it."""
    names = [start[30:110].decode(errors="replace")]
    with contextlib.suppress(OSError, zipfile.BadZipFile, ValueError):
        names += zipfile.ZipFile(path).namelist()[:1000]
    if any(name.startswith("xl/") for name in names):
        return "an Excel workbook", (
            "in Python, sp.ingest.columns(pandas.read_excel({path!r}), DST, coords=[...]) stores a sheet"
        )
    if any(name.endswith(("/data.pkl", "/version")) for name in names):
        return "a file of PyTorch", (
            "in Python, sp.asarray(torch.load({path!r}, weights_only=True)).save(DST) stores a sparse tensor"
        )
    if any(name.startswith(("[Content_Types].xml", "word/", "mimetype")) for name in names):
        return "a document of an office program", "save its tables as CSV"
    return None
