"""Files of an object store: as pyarrow reads them, and on their way there."""

from __future__ import annotations

import io
import os
import tempfile
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from sparrow.errors import StorageError
from sparrow.runtime import settings
from sparrow.storage.fs.filesystem import strip_secrets
from sparrow.storage.fs.local import write_error

if TYPE_CHECKING:
    from sparrow.storage.fs.objects import ObjectStore

__all__ = ["WINDOW", "RemoteFile", "Upload", "Url", "Version", "spooled", "version_of"]

WINDOW = 4 << 20
"""Bytes fetched at a time where a file is read from its begin to its end."""

_IN_MEMORY = 1 << 20


class RemoteFile(io.RawIOBase):
    """A file of a store, for pyarrow: what is read in one go is fetched in one, and kept until the next.

    With a window at least so much is fetched, and what comes after it meanwhile: for files that are read through.
    """

    def __init__(
        self, store: ObjectStore, path: str, window: int, size: int | None, versions: dict[str, Version] | None
    ) -> None:
        super().__init__()
        self._store, self._path, self._window = store, path, window
        self._at = self._start = 0
        self._held = memoryview(b"")
        self._size = size
        self._versions = versions

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the place of the next byte."""
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a place and return it."""
        self._at = offset + (0 if whence == 0 else self._at if whence == 1 else self._length())
        return self._at

    def _length(self) -> int:
        if self._size is None:
            known = self._store.version(self._path)
            self.compare(known)
            self._size = known.size
        return self._size

    def compare(self, found: Version) -> None:
        """Refuse what took the place of the file."""
        if self._versions is not None and (known := self._versions.setdefault(self._path, found)).differs(found):
            raise StorageError(
                f"{self._path!r} was replaced while it was read ({known}, then {found}): read it again once nobody "
                "writes it, or a copy"
            )

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        if size < 0:
            size = self._length() - self._at
        parts = []
        while size > 0:
            first = self._at - self._start
            if not 0 <= first < len(self._held):
                self._fetch(size)
                first = 0
            part = self._held[first : first + size]
            if not part:
                break
            parts.append(part)
            self._at += len(part)
            size -= len(part)
        return bytes(parts[0]) if len(parts) == 1 else b"".join(parts)

    def _fetch(self, size: int) -> None:
        """Fetch what stands at the place that is to be read."""
        self._start, length = self._at, size
        whole = self._length() if self._window else self._size
        if whole is not None:  # what begins behind the end is refused
            length = max(min(self._window or size, whole - self._at), 0)
        known = None if self._versions is None else self._versions.get(self._path)
        data = b""
        if length:
            self._fetch_ahead(known)
            try:
                data, found = self._store.fetch((self._path, self._at, length), known)
            except StorageError:  # as where there is less of the file now
                if known is not None:
                    self.compare(self._store.version(self._path))
                raise
            self.compare(found)
        self._held = memoryview(data)
        if len(data) != length and self._size is not None:
            raise StorageError(
                f"{self._path!r} cannot be read: of {length} bytes from {self._at} on {len(data)} came: did it "
                "change meanwhile? Try again"
            )

    def _fetch_ahead(self, known: Version | None) -> None:
        """Have fetched what comes behind the window."""
        if self._window and self._size is not None and (known is not None or self._versions is None):
            starts = range(self._at + self._window, min(self._size, self._at + 5 * self._window), self._window)
            pieces = [(self._path, at, min(self._window, self._size - at)) for at in starts]
            self._store.prefetch_ranges(pieces, known)


class Version(NamedTuple):
    """What tells a file from what takes its place."""

    size: int
    tag: str | None
    modified: datetime

    def differs(self, other: Version) -> bool:
        """Return whether these are two files; the time is that of the server, who need not tell it, as the tag."""
        if self.tag is not None and other.tag is not None:
            return self.size != other.size or self.tag != other.tag
        return self.size != other.size or self.modified != other.modified

    def __str__(self) -> str:
        return f"{self.size} bytes" + (f" of {self.modified:%Y-%m-%d %H:%M:%S}" if self.modified.timestamp() else "")


def version_of(meta: Any) -> Version:
    """Return the version that an answer of ``obstore`` tells."""
    return Version(int(meta["size"]), meta["e_tag"], meta["last_modified"])


class Upload:
    """A file on its way. Implements :class:`sparrow.storage.fs.filesystem.NewFile`."""

    def __init__(self, store: ObjectStore, folder: str) -> None:
        self._store, self._folder = store, folder
        self._file = spooled()

    def write(self, data: Any) -> None:
        """Write the next bytes."""
        try:
            self._file.write(data)
        except OSError as error:
            raise write_error(error, settings.current().temp_directory) from error

    def finalize(self, name: str) -> None:
        """Put the file under its name."""
        self._store.upload(f"{self._folder.rstrip('/')}/{name}", self._file)
        self._file.close()

    def discard(self) -> None:
        """Drop the file."""
        self._file.close()


def spooled() -> Any:
    """Return a file of this machine that nobody sees, and that ends with the process."""
    return tempfile.SpooledTemporaryFile(_IN_MEMORY, dir=settings.current().temp_directory)


class Url(os.PathLike[str]):
    """A folder of a store. Implements :class:`sparrow.storage.fs.filesystem.Folder`."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __fspath__(self) -> str:
        return self._path

    __str__ = __fspath__

    def __repr__(self) -> str:
        return f"<{strip_secrets(self._path)}>"

    def __truediv__(self, name: str) -> Url:
        return Url(f"{self._path}/{name}")
