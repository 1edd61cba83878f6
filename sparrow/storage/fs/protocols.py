"""Protocols of a file system that stores tensors.

A file appears whole or not at all and never changes afterwards. A new tensor becomes visible in one step: its data
files first and version 0 of its log last. Local file systems rename a folder for that; object stores write in place.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, BinaryIO, Protocol, TypeAlias

import pyarrow as pa

__all__ = ["ByteRange", "FileSystem", "Folder", "NewFile", "Prefetcher", "Publisher", "Reader", "Writer"]

ByteRange: TypeAlias = tuple[str, int, int]
"""A range of a file: path, offset and length in bytes."""


class NewFile(Protocol):
    """A file being written, invisible before :meth:`finalize`."""

    def write(self, data: Any) -> None:
        """Write the next bytes."""

    def finalize(self, name: str) -> Hashable | None:
        """Make the file durable and visible in its folder under a name.

        Return what :meth:`Writer.delete_own` needs to delete it, or None if it replaced an equal file.
        """

    def discard(self) -> None:
        """Delete the file unless it is finalized."""


class Folder(Protocol):
    """A ``Path``, or its like for a URL, as ``stage_folder`` yields it."""

    def __fspath__(self) -> str:
        """Return the path."""

    def __truediv__(self, name: str) -> Folder:
        """Return the path of a name in the folder."""


class Reader(Protocol):
    """Reading files and listing folders.

    Paths are strings with ``/`` between their parts. Failures raise ``NotFoundError``, ``ExistsError`` or
    ``StorageError`` naming the path. Every method is thread-safe; so are those of the other protocols.
    """

    def exists(self, path: str) -> bool:
        """Return whether a file exists."""

    def is_folder(self, path: str) -> bool:
        """Return whether files exist below a path."""

    def is_link(self, path: str) -> bool:
        """Return whether a path is a symbolic link."""

    def names(self, folder: str) -> list[str]:
        """List the names in a folder, sorted; none if it does not exist."""

    def glob(self, pattern: str) -> list[str]:
        """List the files whose paths match a pattern, sorted.

        ``*`` does not match a slash.
        """

    def size(self, path: str) -> int:
        """Return the size of a file in bytes."""

    def modified_time(self, path: str) -> float:
        """Return the modification time of a file in seconds since 1970."""

    def fingerprint(self, path: str) -> Hashable:
        """Return a value that changes when a file is changed in place.

        Raises
        ------
        CorruptionError
            If the path is a symbolic link: it may lead anywhere.
        """

    def folder_identity(self, path: str) -> Hashable:
        """Return a value that changes when another folder takes the name.

        A constant where folders are not replaced.
        """

    def read(self, path: str) -> bytes:
        """Return the content of a file."""

    def read_many(self, paths: Sequence[str]) -> Iterator[bytes | None]:
        """Yield the contents of small files in order, None for a missing one."""

    def read_tail(self, path: str, most: int) -> tuple[bytes, int]:
        """Return the last ``most`` bytes of a file, or all of it, and its size."""

    def open(
        self, path: str, sequential: bool = False, size: int | None = None, immutable: bool = False
    ) -> pa.NativeFile:
        """Open a file for reading.

        Parameters
        ----------
        path
            The file.
        sequential
            The file will be read from start to end.
        size
            Size in bytes, if known.
        immutable
            The name identifies the content. Other files may be replaced while they are read: the read then fails
            rather than mix two versions.
        """

    def local_copy(self, path: str) -> AbstractContextManager[str]:
        """Give a file a local path in a block, for libraries that open files."""

    def canonical_path(self, path: str) -> str:
        """Return the same string for all spellings of a path."""

    def delta_options(self) -> dict[str, str] | None:
        """Return the storage options that ``deltalake`` needs."""


class Prefetcher(Protocol):
    """Fetching ranges of remote files ahead of the reads that need them."""

    def prefetch_tails(self, paths: Sequence[str], most: int) -> None:
        """Prefetch the tails of files that :meth:`Reader.read_tail` will read."""

    def prefetch_ranges(self, pieces: Sequence[ByteRange]) -> None:
        """Prefetch ranges that will be read next, each by one read, the nearest first."""


class Writer(Protocol):
    """Writing and deleting files."""

    def local_disk(self, path: str) -> str | None:
        """Return a folder on the disk that a new path would fill, None if unlimited."""

    def make_folder(self, path: str) -> bool:
        """Create a folder if it does not exist; return whether it did.

        Not on file systems without folders.
        """

    def create_file(self, folder: str) -> NewFile:
        """Begin a file in a folder; its name is given at the end."""

    def put(self, path: str, data: bytes) -> bool:
        """Write a small file atomically.

        Return False and write nothing if the path exists.
        """

    def atomic_write(self, path: str) -> AbstractContextManager[BinaryIO]:
        """Open a file that replaces ``path`` when the block succeeds."""

    def touch(self, path: str) -> None:
        """Set the modification time of a file to now."""

    def make_durable(self, path: str) -> None:
        """Make a file that another library wrote survive a crash of the machine."""

    def delete(self, path: str) -> None:
        """Delete a file, or a folder and everything in it; a missing path is ignored."""

    def delete_own(self, path: str, fingerprint: Hashable) -> None:
        """Delete a file that this process wrote, unless another one wrote it again since."""

    def delete_empty_folder(self, path: str) -> None:
        """Delete a folder if it is empty."""


class Publisher(Protocol):
    """Making new tensors and bundles visible in one step."""

    def is_occupied(self, path: str) -> bool:
        """Return whether something exists where a new tensor would go."""

    def recover(self, path: str) -> None:
        """Undo a replacement that a killed process left half done."""

    def as_folder(self, path: str) -> Folder:
        """Return a folder to which names can be joined by ``/``."""

    def stage(self, path: str, replace: bool = False) -> str:
        """Return the folder to write in, which :meth:`publish` makes visible.

        It may be ``path`` itself: a tensor is visible by its log and a bundle by its listing, both written last.
        Staged folders of killed processes are deleted.
        """

    def is_staged(self, path: str) -> bool:
        """Return whether all files below a path are of a tensor being created."""

    def is_replacement(self, staged: str) -> bool:
        """Return whether a tensor in ``staged`` is replaced by a commit to its log."""

    def keep_folder(self, path: str) -> AbstractContextManager[None]:
        """Keep other processes from replacing a tensor in the block."""

    def publish(self, staged: str, path: str, replace: bool) -> None:
        """Make a staged folder visible at ``path``.

        Raise ``ExistsError`` if it is taken and ``replace`` is False.
        """

    def discard_staged(self, staged: str) -> None:
        """Delete what is left of a staged folder, whether published or not."""


class FileSystem(Reader, Writer, Publisher, Protocol):
    """A file system that stores tensors."""

    @property
    def is_remote(self) -> bool:
        """True if every read is a request to another machine."""

    @property
    def prefetcher(self) -> Prefetcher | None:
        """Prefetching, or None where reads are local."""
