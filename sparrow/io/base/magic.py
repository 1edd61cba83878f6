"""File signatures: compression, and files that no reader of text takes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from sparrow.errors import IngestError

__all__ = [
    "DECOMPRESSORS", "NTRIPLES_COMMAND", "detect_compression", "load_signatures_with", "quote_file",
    "register_signatures", "reject_compressed", "reject_container", "split_words",
]  # fmt: skip

DECOMPRESSORS = {"gzip": "gzip", "zstd": "zstd", "bz2": "bzip2"}
"""Commands that decompress what readers take."""

_ARCHIVES = {
    b"\x1f\x9d": (".Z", "gzip -dc {file}"),
    b"Rar!\x1a\x07": ("rar", "unrar p -inul {file}"),
    b"\xfd7zXZ\x00": ("xz", "xz -dc {file}"),
    b"PK\x03\x04": ("zip", "unzip -p {file}"),
    b"\x04\x22\x4d\x18": ("lz4", "lz4 -dc {file}"),
    b"7z\xbc\xaf\x27\x1c": ("7z", "7z x -so {file}"),
}
_PICKLE = ("a pickle", "pickles are never loaded, they may run programs: write the data in another format")
_R_DATA = ("an R data file", "write it from R with Matrix::writeMM(x, 'x.mtx') or write.csv(x, 'x.csv')")
_UTF32 = ("text in UTF-32", "iconv -f utf-32 -t utf-8 {file} | sparrow ingest FORMAT - DST")
_UTF16 = ("text in UTF-16", "iconv -f utf-16 -t utf-8 {file} | sparrow ingest FORMAT - DST")
_SIGNATURES: dict[bytes, tuple[str, str]] = {
    b"FEA1": ("Feather version 1", "write it with pyarrow.feather as version 2"),
    b"SQLite format 3\x00": ("a SQLite database", "pass a DuckDB relation of it to sp.ingest.columns in Python"),
    b"\x80\x03": _PICKLE,
    b"\x80\x04": _PICKLE,
    b"\x80\x05": _PICKLE,
    b"Obj\x01": ("Avro", "sp.ingest.columns(polars.read_avro(...), ...) stores it"),
    b"MATLAB 5.0 MAT-file": ("a MATLAB file", "scipy.io.loadmat(...) reads it: sp.asarray(...).save(DST)"),
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

NTRIPLES_COMMAND = "sed 's/ *\\.$//; s/ /\\t/; s/ /\\t/' {file} | sparrow ingest triples - DST"
"""Command that reads N-Triples."""

_SUFFIXES = {".gz", ".zst", ".bz2"}


_loaders: list[Callable[[], object]] = []


def register_signatures(signatures: Mapping[bytes, tuple[str, str]]) -> None:
    """Add the first bytes of a binary format: its kind, and a command to read it."""
    _SIGNATURES.update(signatures)


def load_signatures_with(loader: Callable[[], object]) -> None:
    """Call ``loader``, which registers signatures, before a binary file is matched."""
    _loaders.append(loader)


def _looks_binary(start: bytes) -> bool:
    return any(byte < 9 or 13 < byte < 32 for byte in start)


def split_words(text: str, delimiters: str = "") -> list[str]:
    """Return the words between ASCII whitespace, or other characters.

    Unlike ``str.split`` this agrees with the kernels, which know ASCII whitespace only.
    """
    return re.findall(rf"[^ \t\n\r\v\f{delimiters}]+", text)


def quote_file(name: str) -> str:
    """Return the name of a file for a command line, ``FILE`` for standard input."""
    return "FILE" if name == "standard input" else shlex.quote(name)


def detect_compression(start: bytes) -> str | None:
    """Return the compression of a file, ``"gzip"``, ``"zstd"``, ``"bz2"`` or None."""
    if start.startswith(b"\x1f\x8b"):
        return "gzip"
    if start.startswith(b"\x28\xb5\x2f\xfd") or (start[1:4] == b"\x2a\x4d\x18" and 0x50 <= start[0] <= 0x5F):
        return "zstd"
    if start.startswith(b"BZh") and start[4:10] in (b"1AY&SY", b"\x17rE8P\x90"):
        return "bz2"
    return None


def reject_compressed(start: bytes, name: str) -> None:
    """Raise ``IngestError`` if a file is compressed and its format is not read so."""
    if (compression := detect_compression(start)) is not None:
        command, plain = _decompression(name, compression)
        raise IngestError(f"the file is compressed with {compression}: run {command} > {plain} and read that", name)


def _decompression(name: str, compression: str) -> tuple[str, str]:
    """Return the command that decompresses a file, and a name for its output."""
    if name == "standard input":
        return f"{DECOMPRESSORS[compression]} -dc FILE", "UNPACKED"
    plain = name.removesuffix(Path(name).suffix) if Path(name).suffix in _SUFFIXES else f"{name}.unpacked"
    return f"{DECOMPRESSORS[compression]} -dc {shlex.quote(name)}", shlex.quote(plain)


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
    file, first = quote_file(name), ""
    if compression is not None:
        command, file = _decompression(name, compression)
        first = f"{command} > {file}; "
        if detect_compression(start) is not None:
            raise IngestError(f"the file is compressed twice: {command} | sparrow ingest FORMAT - DST", name)
    for magic, (kind, command) in _ARCHIVES.items():
        if start.startswith(magic):
            if kind == "zip" and b".npy" in start[:80]:
                raise IngestError(f"this is a .npz file of arrays: {first}sparrow ingest npz {file} DST", name)
            raise IngestError(
                f"{kind} files are not read: unpack it, or use gzip, zstd or bz2, for example "
                f"{first}{command.format(file=file)} | sparrow ingest FORMAT - DST",
                name,
            )
    if start[257:262] == b"ustar":
        raise IngestError(f"this is a tar archive: {first}tar -xOf {file} | sparrow ingest FORMAT - DST", name)
    if start.startswith(b"ORC") and b"\x00" in start:
        raise IngestError("this is ORC, not text: sp.ingest.columns(pyarrow.orc.read_table(...), ...) stores it", name)
    for load in _loaders if _looks_binary(start) else ():
        load()
    for magic, (kind, command) in _SIGNATURES.items():
        if start.startswith(magic):
            raise IngestError(f"this is {kind}, not text: {first}{command.format(file=file)}", name)
    for order, (text, zeros) in {"le": (start[:8:2], start[1:8:2]), "be": (start[1:8:2], start[:8:2])}.items():
        if len(start) >= 8 and text.isascii() and b"\0" not in text and not any(zeros):
            command = f"{first}iconv -f utf-16{order} -t utf-8 {file} | sparrow ingest FORMAT - DST"
            raise IngestError(f"this looks like text in UTF-16: {command}", name)
