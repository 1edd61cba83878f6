"""Files of object stores: range reads, uploads and versions."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any, BinaryIO, NamedTuple, Protocol

from sparrow.errors import StorageError
from sparrow.runtime import settings
from sparrow.storage.fs.failures import write_error
from sparrow.storage.fs.paths import strip_secrets
from sparrow.storage.fs.protocols import ByteRange
from sparrow.storage.tuning import tuning

__all__ = [
    "RangeStore",
    "RemoteFile",
    "Upload",
    "UrlFolder",
    "Version",
    "pin_file_versions",
    "pinned_versions",
    "spooled_file",
    "version_of",
]

_WINDOWS_AHEAD = 4


class Version(NamedTuple):
    """Properties that distinguish a file from one that replaces it."""

    size: int
    tag: str | None
    modified: datetime

    def differs(self, other: Version) -> bool:
        """Return whether two versions are different files.

        Entity tags decide where the server sends them.
        """
        if self.tag is not None and other.tag is not None:
            return self.size != other.size or self.tag != other.tag
        return self.size != other.size or self.modified != other.modified

    def __str__(self) -> str:
        return f"{self.size} bytes" + (f" of {self.modified:%Y-%m-%d %H:%M:%S}" if self.modified.timestamp() else "")


def version_of(meta: Any) -> Version:
    """Return the version in the metadata of an ``obstore`` response."""
    return Version(int(meta["size"]), meta["e_tag"], meta["last_modified"])


_pinned: ContextVar[dict[str, Version] | None] = ContextVar("sparrow_versions", default=None)


@contextmanager
def pin_file_versions() -> Iterator[None]:
    """Refuse files of a store that are replaced between two reads in the block."""
    token = _pinned.set({}) if _pinned.get() is None else None
    try:
        yield
    finally:
        if token is not None:
            _pinned.reset(token)


def pinned_versions() -> dict[str, Version]:
    """Return the versions of the files read in this block, by path."""
    found = _pinned.get()
    return {} if found is None else found


class RangeStore(Protocol):
    """The methods of a store that files use."""

    def version(self, path: str) -> Version:
        """Return the current version of a file."""

    def fetch(self, piece: ByteRange, version: Version | None = None) -> tuple[bytes, Version]:
        """Return the bytes of a range and their version."""

    def prefetch_ranges(self, pieces: Sequence[ByteRange], version: Version | None = None) -> None:
        """Fetch ranges of a version in the background."""

    def upload(self, path: str, file: BinaryIO) -> None:
        """Put a complete file."""


class RemoteFile(io.RawIOBase):
    """A file of a store for pyarrow: each read is one request.

    Parameters
    ----------
    store, path
        The file.
    window
        Bytes fetched at least, with the next windows prefetched; 0 for random reads.
    size
        Size of the file, if known.
    versions
        Versions by path, to which what is read is compared and added; None for immutable files.
    """

    def __init__(
        self, store: RangeStore, path: str, window: int, size: int | None, versions: dict[str, Version] | None
    ) -> None:
        super().__init__()
        self._store, self._path, self._window = store, path, window
        self._at = self._start = 0
        self._buffer = memoryview(b"")
        self._size = size
        self._versions = versions

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the offset of the next byte."""
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move to an offset and return it."""
        self._at = offset + (0 if whence == 0 else self._at if whence == 1 else self._length())
        return self._at

    def _length(self) -> int:
        if self._size is None:
            known = self._store.version(self._path)
            self.compare(known)
            self._size = known.size
        return self._size

    def compare(self, found: Version) -> None:
        """Raise ``StorageError`` if a version is not the one read before."""
        if self._versions is not None and (known := self._versions.setdefault(self._path, found)).differs(found):
            raise StorageError(
                f"{self._path!r} was replaced while it was read ({known}, then {found}): read it again when it "
                "is complete, or a copy"
            )

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        if size < 0:
            size = self._length() - self._at
        parts = []
        while size > 0:
            first = self._at - self._start
            if not 0 <= first < len(self._buffer):
                self._fetch(size)
                first = 0
            part = self._buffer[first : first + size]
            if not part:
                break
            parts.append(part)
            self._at += len(part)
            size -= len(part)
        return bytes(parts[0]) if len(parts) == 1 else b"".join(parts)

    def _fetch(self, size: int) -> None:
        """Fill the buffer from the current offset."""
        self._start, length = self._at, size
        total = self._length() if self._window else self._size
        if total is not None:  # stores refuse ranges that begin past the end
            length = max(min(self._window or size, total - self._at), 0)
        known = None if self._versions is None else self._versions.get(self._path)
        data = b""
        if length:
            self._prefetch(known)
            try:
                data, found = self._store.fetch((self._path, self._at, length), known)
            except StorageError:  # such as a range past the end of a file that became shorter
                if known is not None:
                    self.compare(self._store.version(self._path))
                raise
            self.compare(found)
        self._buffer = memoryview(data)
        if len(data) != length and self._size is not None:
            raise StorageError(
                f"{self._path!r} cannot be read: expected {length} bytes at offset {self._at}, got {len(data)}: did it "
                "change meanwhile? Try again"
            )

    def _prefetch(self, known: Version | None) -> None:
        """Prefetch the windows behind the current one."""
        if self._window and self._size is not None and (known is not None or self._versions is None):
            end = min(self._size, self._at + (1 + _WINDOWS_AHEAD) * self._window)
            starts = range(self._at + self._window, end, self._window)
            pieces = [(self._path, at, min(self._window, self._size - at)) for at in starts]
            self._store.prefetch_ranges(pieces, known)


class Upload:
    """A file spooled on this machine and uploaded at the end.

    A :class:`~sparrow.storage.fs.protocols.NewFile`.
    """

    def __init__(self, store: RangeStore, folder: str) -> None:
        self._store, self._folder = store, folder
        self._file = spooled_file()

    def write(self, data: Any) -> None:
        """Write the next bytes."""
        try:
            self._file.write(data)
        except OSError as error:
            raise write_error(error, settings.current().temp_directory) from error

    def finalize(self, name: str) -> None:
        """Upload the file under its name."""
        self._store.upload(f"{self._folder.rstrip('/')}/{name}", self._file)
        self._file.close()

    def discard(self) -> None:
        """Delete the spooled file."""
        self._file.close()


def spooled_file() -> Any:
    """Return an unnamed temporary file, in memory while it is small."""
    return tempfile.SpooledTemporaryFile(tuning().spool_memory_bytes, dir=settings.current().temp_directory)


class UrlFolder(os.PathLike[str]):
    """A folder of a store; implements :class:`~sparrow.storage.fs.protocols.Folder`."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __fspath__(self) -> str:
        return self._path

    __str__ = __fspath__

    def __repr__(self) -> str:
        return f"<{strip_secrets(self._path)}>"

    def __truediv__(self, name: str) -> UrlFolder:
        return UrlFolder(f"{self._path}/{name}")
