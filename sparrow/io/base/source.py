"""Sources of text: files, globs and standard input as blocks of whole lines.

A thread reads ahead. Compression is detected from the content, never from the name.
"""

from __future__ import annotations

import glob
import gzip
import io
import os
import shlex
import sys
import threading
import zlib
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import PurePath
from typing import IO, Any, BinaryIO, TypeAlias, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.errors import IngestError, InvalidValueError, NotFoundError
from sparrow.io.base.magic import detect_compression, reject_container, split_words
from sparrow.io.base.suggestion import DECOMPRESSORS
from sparrow.io.tuning import tuning
from sparrow.runtime import memory
from sparrow.runtime.events import emit
from sparrow.runtime.foreign_errors import find_errno
from sparrow.runtime.threads import Channel
from sparrow.runtime.validation import check_path
from sparrow.storage.fs.filesystem import get_filesystem

__all__ = [
    "SIGNATURE_BYTES", "Source", "SourceLike", "TextBlock", "as_rereadable", "check_encoding", "compression_of",
    "folder_path", "max_line_bytes", "open_source", "open_sources", "peek_source", "read_blocks", "total_size",
]  # fmt: skip

SourceLike: TypeAlias = str | os.PathLike[str] | IO[Any] | Sequence[str | os.PathLike[str] | IO[Any]]
"""A path, a glob pattern, ``"-"`` for standard input, an open file, or a list of these."""

_DELTA = "_delta_log"
SIGNATURE_BYTES, _COMPRESSION_BYTES = 262, 16
"""Bytes that reveal the kind and the compression of a file; no more are awaited from a slow pipe."""


@dataclass(frozen=True, slots=True)
class Source:
    """File to read, or standard input."""

    name: str
    """Name in errors."""
    path: str | None
    """Path, None for standard input."""
    size: int | None
    """Bytes as stored, None if unknown (pipes)."""
    stream: Any = None
    """Open file to read instead of the path, with ``peek``."""


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Whole lines of one source."""

    source: Source
    data: NDArray[np.uint8]
    r"""The text, not empty; its last byte is ``\n`` and every line end in it is ``\n`` or ``\r\n``."""
    first_line: int
    """Number of its first line, from 1 within the source."""
    lines: int
    advance: int
    """Bytes of the source, as stored, read since the previous block."""

    def line_at(self, position: int) -> int:
        """Return the line number of a position, from 1 within the source."""
        return self.first_line + int(np.count_nonzero(self.data[:position] == 10))

    def text(self, start: int, stop: int) -> str:
        """Return the text between two positions, with bytes that are not UTF-8 escaped."""
        return bytes(self.data[start:stop]).decode(errors="backslashreplace")

    def line_text(self, position: int) -> str:
        """Return the start of the line of a position, up to 200 bytes, stripped."""
        before = bytes(self.data[max(position - 10_000, 0) : position])
        begin = position - len(before.rpartition(b"\n")[2])
        return self.text(begin, begin + 200).split("\n", 1)[0].strip()

    def token_at(self, position: int) -> str:
        """Return the token that begins at a position, up to a blank or comma."""
        return (split_words(self.text(position, position + 1000), ",") or [""])[0]

    def check_utf8(self) -> None:
        """Raise ``IngestError`` for the first bytes that are not UTF-8."""
        data: Any = self.data
        try:
            str(memoryview(data), "utf-8")
        except UnicodeDecodeError as error:
            token = self.token_at(error.start)
            file = "FILE" if self.source.path is None else shlex.quote(self.source.name)
            command = f"iconv -f latin1 -t utf-8 {file} | sparrow ingest FORMAT - DST"
            compression = compression_of(self.source)
            if compression is not None:
                unpack = f"{DECOMPRESSORS[compression]} -dc {file}"
                command = f"{unpack} | iconv -f latin1 -t utf-8 | sparrow ingest FORMAT - DST"
            problem = "the text is not UTF-8; if it is Latin-1"
            raise IngestError(problem, self.source.name, self.line_at(error.start), token, commands=[command]) from None


def open_sources(src: SourceLike) -> list[Source]:
    """Return the sources that ``src`` names, in order; matches of a glob are sorted.

    Parameters
    ----------
    src
        A path, a glob pattern, ``"-"`` for standard input, an open file, or a list of these. A folder of folders
        ``name=value``, or one that Spark wrote, stands for all files in it. Of patterns and folders, empty files and
        names that begin with ``_`` or ``.`` are passed over.

    Raises
    ------
    NotFoundError
        If a file is missing or a pattern matches none.
    IngestError
        If a path is another folder.
    UnsupportedError
        If the scheme of a URL is unknown.
    InvalidValueError
        If the list is empty or names standard input twice.
    """
    is_list = isinstance(src, Iterable) and not isinstance(src, str | bytes) and not hasattr(src, "read")
    wanted: list[Any] = list(src) if is_list else [src]  # type: ignore[arg-type]
    if not wanted:
        raise InvalidValueError("src must be a path, a glob pattern, a list of them, or '-', got an empty list")
    found: list[Source] = []
    for item in wanted:
        if hasattr(item, "read"):
            found.append(_open_file(item))
            continue
        name = check_path(item, "src")
        files = get_filesystem(name)
        if name == "-":
            found.append(Source("standard input", None, None))
        elif files.is_remote:
            found.extend(_remote(name))
        elif os.path.isdir(name) and (inside := _partition_files(name) or _spark_files(name)):
            found.extend(map(_source, _visible(inside)))
        elif os.path.exists(name):
            found.append(_source(name))
        elif glob.has_magic(name):
            matches = files.glob(name)
            if not matches:
                raise NotFoundError(f"no file matches {name!r}")
            found.extend(map(_source, _visible(matches, name)))
        else:
            raise NotFoundError(f"there is no file {name!r}")
    if sum(source.path is None and source.stream is None for source in found) > 1:
        raise InvalidValueError("standard input ('-') can be read once only")
    return found


def open_source(src: SourceLike) -> Source:
    """Return the only source of ``src``; ``InvalidValueError`` if there are several."""
    sources = open_sources(src)
    if len(sources) > 1:
        raise InvalidValueError(f"src must be one file, got {len(sources)}: {src!r}")
    return sources[0]


def as_rereadable(src: SourceLike) -> list[Any]:
    """Return the items of a source, open files as paths or peekable streams."""
    items: list[Any] = [src] if isinstance(src, str | os.PathLike) or hasattr(src, "read") else [*src]
    opened = [_open_file(each) if hasattr(each, "read") else None for each in items]
    return [
        os.fspath(item) if source is None else source.path or source.stream
        for item, source in zip(items, opened, strict=True)
    ]


def peek_source(source: Source, size: int) -> Source:
    """Return the first bytes of an open file, which remain to be read."""
    return Source(source.name, None, None, _Pipe(io.BytesIO(source.stream.peek(size)), owned=True, name=source.name))


def folder_path(src: SourceLike) -> str | None:
    """Return the path if ``src`` is a folder, else None."""
    if not isinstance(src, str | os.PathLike):
        return None
    name = os.fspath(src)
    return name if get_filesystem(name).is_folder(name) else None


def check_encoding(encoding: str) -> None:
    """Raise ``InvalidValueError`` for an unknown encoding, or one that changes ASCII."""
    try:
        plain = bytes(range(128)).decode(encoding) == bytes(range(128)).decode("ascii")
    except (LookupError, UnicodeDecodeError):
        plain = False
    if not plain:
        raise InvalidValueError(f"encoding must be a superset of ASCII, such as latin-1, got {encoding!r}: use iconv")


def _partition_files(folder: str) -> list[str]:
    """Return the files of a folder of folders ``name=value``, in order."""
    names = os.listdir(folder)
    if _DELTA in names or not any("=" in name and os.path.isdir(os.path.join(folder, name)) for name in names):
        return []
    out = []
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        out += [os.path.join(root, name) for name in files if not name.startswith((".", "_"))]
    return sorted(out)


def _spark_files(folder: str) -> list[str]:
    """Return the files of a folder that Spark or Dask wrote, none for others."""
    names = sorted(os.listdir(folder))
    visible = [name for name in names if not name.startswith((".", "_"))]
    is_parts = "_SUCCESS" in names or (visible and all(name.startswith("part") for name in visible))
    paths = [os.path.join(folder, name) for name in visible]
    return paths if is_parts and _DELTA not in names and not any(map(os.path.isdir, paths)) else []


def _visible(paths: list[str], pattern: str = "") -> list[str]:
    """Return the files that are neither empty nor hidden; all if none is left."""
    shown = ("_", ".") if os.path.basename(pattern)[:1] not in ("_", ".") else ()
    kept = [path for path in paths if not os.path.basename(path).startswith(shown) and os.path.getsize(path)]
    return kept or paths


def _open_file(file: Any) -> Source:
    """Return the source of an open file: its path if it has one, else its bytes."""
    name = getattr(file, "name", None)
    if isinstance(file, _Pipe):
        return Source(file.name, None, None, file)
    if isinstance(name, str) and os.path.isfile(name) and hasattr(file, "tell") and not file.tell():
        return Source(name, name, os.path.getsize(name))
    stream = getattr(file, "buffer", file)
    if isinstance(stream, io.TextIOBase):
        stream = io.BytesIO(stream.read().encode())
    shown = name if isinstance(name, str) else type(file).__name__
    return Source(shown, None, None, _Pipe(stream, owned=False, name=shown))


def compression_of(source: Source) -> str | None:
    """Return the compression of a file, None for pipes."""
    if source.path is None or source.size is None:
        return None
    with get_filesystem(source.path).open(source.path, size=source.size) as file:
        return detect_compression(file.read(_COMPRESSION_BYTES))


def _source(path: str) -> Source:
    if os.path.isdir(path):
        raise _folder_error(path)
    return Source(path, path, os.path.getsize(path) if os.path.isfile(path) else None)


def _folder_error(path: str) -> IngestError:
    if get_filesystem(path).is_folder(os.path.join(path, _DELTA)):
        way = f"sparrow ingest {shlex.quote(path)} DST"
        return IngestError(
            "this is a Delta table, whose log decides which of its files are valid: pass the columns that hold "
            "coordinates and values, which are listed by",
            file=path,
            commands=[way],
        )
    names = [name for name in get_filesystem(path).names(path) if not name.startswith((".", "_"))]
    if not names:
        return IngestError("this folder has no files: pass files, or a folder that has some", file=path)
    suffixes = Counter("".join(PurePath(name).suffixes) for name in names)
    usual = max(suffixes, key=lambda suffix: (suffixes[suffix], suffix))
    if suffixes[usual] < min(len(names), 2) or not usual:
        way = f"one of its files, such as {os.path.join(path, min(names))!r}"
    else:
        way = f"its files, such as {os.path.join(path, f'*{usual}')!r}"
    return IngestError(f"this is a folder: pass {way}", file=path)


def _remote(name: str) -> list[Source]:
    """Return the files of a URL, or of a pattern of one."""
    files = get_filesystem(name)
    names = files.glob(name) if glob.has_magic(name) else [name]
    if not names:
        raise NotFoundError(f"no file matches {name!r}")
    try:
        found = [Source(each, each, files.size(each)) for each in names]
        hidden = ("_", ".") if len(names) > 1 and os.path.basename(name)[:1] not in ("_", ".") else ()
        return [each for each in found if each.size and not os.path.basename(each.name).startswith(hidden)] or found
    except NotFoundError:
        if files.is_folder(name):
            raise _folder_error(name) from None
        raise


def total_size(sources: Sequence[Source]) -> int | None:
    """Return the bytes of all sources as stored, or None if one is unknown."""
    sizes = [source.size for source in sources]
    return None if None in sizes else sum(size for size in sizes if size is not None)


class _Pipe(io.RawIOBase):
    """Unseekable stream whose first bytes can be peeked at."""

    def __init__(self, raw: BinaryIO | io.RawIOBase, owned: bool, name: str = "") -> None:
        super().__init__()
        self.name = name
        self._raw = raw
        self._owned = owned
        self._start = b""
        self.taken = 0

    def peek(self, n: int) -> bytes:
        while len(self._start) < n:
            more = self._raw.read(n - len(self._start))
            if not more:
                break
            self._start += more
        return self._start

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        if self._start:
            piece, self._start = self._start[: len(view)], self._start[len(view) :]
        else:
            piece = self._raw.read(len(view)) or b""
        view[: len(piece)] = piece
        self.taken += len(piece)
        return len(piece)

    def close(self) -> None:
        if self._owned:
            self._raw.close()
        super().close()


class _Stream:
    """Text of a source, and the position in it as stored."""

    def __init__(self, source: Source) -> None:
        self._source, self._given = source, 0
        self._raw: pa.NativeFile | _Pipe
        self.compression: str | None
        if source.size is not None:
            assert source.path is not None
            self._raw = get_filesystem(source.path).open(source.path, sequential=True, size=source.size)
            self.compression = detect_compression(self._raw.read(_COMPRESSION_BYTES))
            self._raw.seek(0)
        else:
            self._raw = _open_pipe(source)
            self.compression = detect_compression(self._raw.peek(_COMPRESSION_BYTES))
        self._gzip = self.compression == "gzip" and source.size is not None
        self._text: Any = self._raw
        if self.compression == "xz":
            import lzma

            self._text = lzma.LZMAFile(cast("BinaryIO", self._raw))  # noqa: SIM115 - close() does
        elif self.compression is not None:
            below = pa.PythonFile(self._raw, mode="r") if isinstance(self._raw, _Pipe) else self._raw
            self._text = pa.CompressedInputStream(below, self.compression)

    def readinto(self, view: memoryview) -> int:
        try:
            n = int(self._text.readinto(view))
        except _lzma_errors() as error:
            raise OSError(str(error)) from error
        except (OSError, pa.ArrowException) as error:
            if not self._gzip:
                raise
            n = self._read_padded(view, error)
        self._given += n
        return n

    def _read_padded(self, view: memoryview, error: Exception) -> int:
        """Continue with Python's gzip, which skips padding zeros as ``gzip -d`` does."""
        self._gzip = False
        self.close()
        path = cast("str", self._source.path)
        self._raw = get_filesystem(path).open(path, sequential=True, size=self._source.size)
        self._text = gzip.GzipFile(fileobj=cast("BinaryIO", self._raw))
        try:
            if self._text.seek(self._given) != self._given:
                raise error
            return int(self._text.readinto(view))
        except (EOFError, OSError, zlib.error):
            raise error from None

    def tell(self) -> int:
        return self._raw.taken if isinstance(self._raw, _Pipe) else int(self._raw.tell())

    def close(self) -> None:
        if self._text is not self._raw:
            self._text.close()
        self._raw.close()


def _lzma_errors() -> tuple[type[Exception], ...]:
    """Return the errors of a damaged .xz file, if one may be read."""
    lzma = sys.modules.get("lzma")
    return () if lzma is None else (lzma.LZMAError, EOFError)


def _open_pipe(source: Source) -> _Pipe:
    if source.stream is not None:
        return cast("_Pipe", source.stream)
    if source.path is not None:
        return _Pipe(open(source.path, "rb", buffering=0), owned=True)
    # A blocked read must not hold the lock of the buffer above it when the process ends.
    stream: Any = getattr(sys.stdin, "buffer", sys.stdin)
    return _Pipe(getattr(stream, "raw", stream), owned=False)


def read_blocks(source: Source | Sequence[Source], block_bytes: int | None = None) -> Generator[TextBlock]:
    r"""Yield the text of sources, one after the other, as blocks of whole lines.

    A thread reads a few blocks ahead; close the iterator to stop it. Lines end in ``\n`` or ``\r\n``; a source whose
    first block holds ``\r`` and no ``\n`` has its ``\r`` turned into ``\n``. A byte order mark of UTF-8 is skipped. A
    line longer than a block makes that block longer. Blocks do not span sources.

    Parameters
    ----------
    source
        A source, or several.
    block_bytes
        Size of a block; :attr:`~sparrow.io.tuning.IoTuning.block_bytes` by default.

    Raises
    ------
    IngestError
        In order: if a source cannot be read, is compressed in an unknown way, truncated or damaged, holds NUL bytes,
        or has a line beyond :func:`max_line_bytes`.
    """
    sources = [source] if isinstance(source, Source) else list(source)
    size = tuning().block_bytes if block_bytes is None else block_bytes
    ready: Channel[TextBlock | BaseException | None] = Channel(tuning().read_ahead_blocks)

    def read() -> None:
        try:
            for each in sources:
                with closing(_source_blocks(each, size)) as cut:
                    for block in cut:
                        if not ready.put(block):
                            return
            ready.put(None)
        except BaseException as error:  # noqa: BLE001 - handed to the reader's caller, at its place in the order
            ready.put(error)

    thread = threading.Thread(target=copy_context().run, args=(read,), name="sparrow-reader", daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            emit("io.block", source=item.source.name, first_line=item.first_line)
            yield item
    finally:
        ready.close()
        # The reader of a silent pipe never ends: it is a daemon, leave it.
        thread.join(timeout=None if all(each.size is not None for each in sources) else tuning().pipe_join_seconds)


def max_line_bytes() -> int:
    """Return the length of the longest line that is read, in bytes."""
    return min(tuning().max_line_bytes, memory.limit() // tuning().line_memory_parts)


def _source_blocks(source: Source, block_size: int) -> Generator[TextBlock]:
    """Yield the blocks of one source."""
    stream: _Stream | None = None
    try:
        stream = _Stream(source)
        yield from _split_lines(source, stream, block_size)
    except (OSError, EOFError, pa.ArrowException) as error:
        if find_errno(error) is not None:  # the system could not read it
            raise
        packed = None if stream is None else stream.compression
        unpacked = "" if packed is None else f": the file may be damaged, check it with {DECOMPRESSORS[packed]} -t"
        raise IngestError(f"cannot be read: {error}{unpacked}", file=source.name) from error
    finally:
        if stream is not None:
            stream.close()


def _split_lines(source: Source, stream: _Stream, block_size: int) -> Iterator[TextBlock]:
    carry: memoryview | bytes = b""
    longest, bomb_bytes, bomb_ratio = max_line_bytes(), tuning().bomb_min_bytes, tuning().bomb_ratio
    line, position, unpacked, returns_only, started, yielded = 1, 0, 0, False, False, False
    while True:
        buffer = bytearray(max(block_size, 2 * len(carry)) + 1)  # one byte for a missing final newline
        space = len(buffer) - 1
        buffer[: len(carry)] = carry
        used = len(carry)
        with memoryview(buffer) as view:
            while used < space and (n := stream.readinto(view[used:space])):
                used += n
        at_end = used < space
        unpacked += used - len(carry)
        if unpacked > bomb_bytes and unpacked > bomb_ratio * stream.tell():
            raise IngestError(
                f"the file unpacks to more than {bomb_ratio} times its size: if this is intended, decompress it first, "
                "for example gzip -dc FILE | sparrow ingest FORMAT - DST",
                source.name,
                line,
            )
        start = 0
        if not started:
            started = True
            start = 3 if buffer.startswith(b"\xef\xbb\xbf") else 0
            reject_container(bytes(buffer[: min(used, SIGNATURE_BYTES)]), source.name, stream.compression)
        if not yielded:
            carriage = buffer.find(b"\r", 0, used)
            returns_only = carriage >= 0 and (at_end or carriage < used - 1) and buffer.find(b"\n", 0, used) < 0
        if returns_only:
            buffer = buffer.replace(b"\r", b"\n")
        nul = buffer.find(b"\0", start, used)
        if nul >= 0:
            raise IngestError(
                "there is a NUL byte: this is not text in UTF-8 or ASCII",
                file=source.name,
                line=line + buffer.count(b"\n", 0, nul),
            )
        if at_end and used > start and buffer[used - 1] != 10:
            buffer[used] = 10
            used += 1
        end = buffer.rfind(b"\n", start, used) + 1
        if end <= 0:
            if at_end:
                return
            if used >= longest:
                raise IngestError(f"a line is longer than {longest} bytes: is this text?", source.name, line)
            carry = bytes(memoryview(buffer)[start:used])
            continue
        now = stream.tell()
        data = np.frombuffer(buffer, np.uint8)[start:end]
        lines = int(np.count_nonzero(data == 10))
        yield TextBlock(source, data, line, lines, now - position)
        position, yielded = now, True
        if at_end:
            return
        line += lines
        carry = memoryview(buffer)[end:used]
