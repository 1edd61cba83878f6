"""Files of an object store: as pyarrow reads them, and on their way there."""

from __future__ import annotations

import io
import os
import tempfile
from typing import TYPE_CHECKING, Any

from sparrow import settings
from sparrow.errors import StorageError
from sparrow.storage.filesystem import without_secrets
from sparrow.storage.local import disk_full

if TYPE_CHECKING:
    from sparrow.storage.objects import ObjectStore

__all__ = ["WINDOW", "RemoteFile", "Upload", "Url", "spooled"]

WINDOW = 4 << 20
"""Bytes fetched at a time where a file is read from its begin to its end."""

_IN_MEMORY = 1 << 20


class RemoteFile(io.RawIOBase):
    """A file of a store, for pyarrow: what is read in one go is fetched in one, and kept until the next.

    With a window at least so much is fetched, and what comes after it meanwhile: for files that are read through.
    """

    def __init__(self, store: ObjectStore, path: str, window: int, size: int | None) -> None:
        super().__init__()
        self._store, self._path, self._window = store, path, window
        self._at = self._start = 0
        self._held = memoryview(b"")
        self._size = size

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
            self._size = self._store.size(self._path)
        return self._size

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
        if self._window:
            whole = self._length()
            length = max(min(self._window, whole - self._at), 0)
            starts = range(self._at + self._window, min(whole, self._at + 5 * self._window), self._window)
            self._store.pieces_ahead([(self._path, at, min(self._window, whole - at)) for at in starts])
        elif self._size is not None:  # what begins behind the end is refused
            length = max(min(size, self._size - self._at), 0)
        self._held = memoryview(self._store.fetch((self._path, self._at, length)) if length else b"")
        if len(self._held) != length and self._size is not None:
            raise StorageError(
                f"{self._path!r} cannot be read: of {length} bytes from {self._at} on {len(self._held)} came: did it "
                "change meanwhile? Try again"
            )


class Upload:
    """A file on its way. Implements :class:`sparrow.storage.filesystem.NewFile`."""

    def __init__(self, store: ObjectStore, folder: str) -> None:
        self._store, self._folder = store, folder
        self._file = spooled()

    def write(self, data: Any) -> None:
        """Write the next bytes."""
        try:
            self._file.write(data)
        except OSError as error:
            raise disk_full(error, settings.current().temp_directory) from error

    def keep(self, name: str) -> None:
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
    """A folder of a store. Implements :class:`sparrow.storage.filesystem.Folder`."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __fspath__(self) -> str:
        return self._path

    __str__ = __fspath__

    def __repr__(self) -> str:
        return f"<{without_secrets(self._path)}>"

    def __truediv__(self, name: str) -> Url:
        return Url(f"{self._path}/{name}")
