"""Where files lie: everything that storage does to them, in a form that an object store can take.

Files appear whole or not at all, are never changed once they are there, and are listed by folder. Nothing here renames
a file that readers know: a new tensor is its data files first and version 0 of its log last, put where none is. A disk
has something better for it, a folder that is renamed; :meth:`FileSystem.stage` and :meth:`FileSystem.publish` leave
that to the file system. Folders of this machine are in :mod:`sparrow.storage.fs.local`, object stores in
:mod:`sparrow.storage.fs.objects`.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, BinaryIO, Protocol, TypeAlias

import pyarrow as pa

from sparrow.errors import InvalidValueError, UnsupportedError
from sparrow.runtime.validation import check_path, full_path
from sparrow.storage.fs.local import LOCAL

__all__ = [
    "ByteRange",
    "FileSystem",
    "Folder",
    "NewFile",
    "Traffic",
    "absolute_path",
    "atomic_write",
    "count_request",
    "count_traffic",
    "get_filesystem",
    "pin_file_versions",
    "pinned_versions",
    "strip_secrets",
]

ByteRange: TypeAlias = tuple[str, int, int]
"""A stretch of a file: its path, where the stretch begins and how long it is."""

_NOT_IN_LOGS = re.compile(r"[\x00-\x1f\x7f\\]")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+://)([^/]*@)?([^?]*)(\?.*)?", re.DOTALL)


class NewFile(Protocol):
    """A file that is being written: nobody sees it before :meth:`keep`."""

    def write(self, data: Any) -> None:
        """Write the next bytes."""

    def finalize(self, name: str) -> None:
        """Let the file appear in its folder under a name; it survives a crash of the machine."""

    def discard(self) -> None:
        """Drop the file; nothing once it is kept."""


class FileSystem(Protocol):
    """What storage needs of the place where tensors lie; paths are texts, parts of them joined by ``/``.

    Whatever goes wrong is raised as ``NotFoundError``, ``ExistsError`` or ``StorageError`` that names the path. Safe
    from several threads.
    """

    # -- reading

    def exists(self, path: str) -> bool:
        """Return whether a file is there."""

    def is_folder(self, path: str) -> bool:
        """Return whether files lie below a path."""

    def is_link(self, path: str) -> bool:
        """Return whether a path leads to another place."""

    def names(self, folder: str) -> list[str]:
        """Return the names of the files and folders in a folder, sorted; none where it does not exist."""

    def glob(self, pattern: str) -> list[str]:
        """Return the files whose paths match a pattern, sorted; a star stands for what has no slash in it."""

    def size(self, path: str) -> int:
        """Return the bytes of a file."""

    def modified_time(self, path: str) -> float:
        """Return when a file was put there or touched, in seconds since 1970."""

    def fingerprint(self, path: str) -> Hashable:
        """Return what changes where somebody changes a file in place; a link is refused, it may lead anywhere."""

    def read(self, path: str) -> bytes:
        """Return the content of a file."""

    def read_many(self, paths: Sequence[str]) -> Iterator[bytes | None]:
        """Yield the contents of small files, None for one that is not there."""

    def read_tail(self, path: str, most: int) -> tuple[bytes, int]:
        """Return the last bytes of a file, at most so many, and how many bytes it has."""

    def open(
        self, path: str, sequential: bool = False, size: int | None = None, immutable: bool = False
    ) -> pa.NativeFile:
        """Open a file for random reads, or to be read through from its begin; ``size`` is its size, where known.

        One that is not ``fixed``, as those are whose names tell their content, may be replaced while it is read: then
        the read fails, and never mixes two files.
        """

    def local_copy(self, path: str) -> AbstractContextManager[str]:
        """Give a file a name on this machine for the length of a block, for libraries that open files themselves."""

    @property
    def is_remote(self) -> bool:
        """Whether every read asks another machine, so that what was checked once may come otherwise next time."""

    def prefetch_tails(self, paths: Sequence[str], most: int) -> None:
        """Take note that the ends of some files will be read, as :meth:`end` does: they may be fetched at once."""

    def prefetch_ranges(self, pieces: Sequence[ByteRange]) -> None:
        """Take note that some pieces will be read next, the nearest first, each in one go."""

    def delta_options(self) -> dict[str, str] | None:
        """Return the options that ``deltalake`` needs to get at the files."""

    def identity(self, path: str) -> str:
        """Return the same text for all spellings of a path."""

    # -- writing

    def local_disk(self, path: str) -> str | None:
        """Return a folder on the disk that a new path would fill, None where there is no end to it."""

    def make_folder(self, path: str) -> None:
        """Make a folder, if files need one and it is not there."""

    def create_file(self, folder: str) -> NewFile:
        """Begin a file whose name is known at its end, in a folder."""

    def put(self, path: str, data: bytes) -> bool:
        """Write a small file where there is none, whole; return False where one is, which stays."""

    def replacing(self, path: str) -> AbstractContextManager[BinaryIO]:
        """Open a file that takes its name, and the place of what has it, when the block ends well."""

    def touch(self, path: str) -> None:
        """Make a file as young as a new one."""

    def make_durable(self, path: str) -> None:
        """Make a file that another library wrote survive a crash of the machine."""

    def delete(self, path: str) -> None:
        """Delete a file, or a folder with all that is in it; nothing where nothing is."""

    # -- new tensors and bundles

    def is_occupied(self, path: str) -> bool:
        """Return whether something stands where a new tensor would go."""

    def recover(self, path: str) -> None:
        """Bring back what a process that was killed while replacing it left elsewhere."""

    def folder(self, path: str) -> Folder:
        """Return a folder in a form that names in it are joined to."""

    def stage(self, path: str, replace: bool = False) -> str:
        """Return the folder to write a new tensor in that :meth:`publish` makes visible at a path.

        That may be the path itself, where a tensor is visible by its log and a bundle by its listing, both put last.
        What killed processes left of earlier ones is cleared.
        """

    def is_replacement(self, staged: str) -> bool:
        """Return whether a tensor stands where a new one is staged, which takes its place by a commit to its log."""

    def publish(self, staged: str, path: str, replace: bool) -> None:
        """Let a staged folder appear at its path, whole; only where nothing is, unless it is to be replaced."""

    def discard_staged(self, staged: str) -> None:
        """Delete what is left of a staged folder, published or not."""


class Folder(Protocol):
    """A folder as :func:`sparrow.storage.stage_folder` gives it: a ``Path``, or what does as much for a URL."""

    def __fspath__(self) -> str:
        """Return its path."""

    def __truediv__(self, name: str) -> Folder:
        """Return what has a name in it."""


def get_filesystem(path: str | os.PathLike[str]) -> FileSystem:
    """Return the file system that a path lies in.

    Raises
    ------
    UnsupportedError
        If it is a URL of a kind that is not known, or one with a user, password or query in it.
    MissingDependencyError
        If it is a URL and what reads object stores is not installed.
    """
    text = check_path(path)
    if not _is_url(text):
        return LOCAL
    from sparrow.storage.fs.registry import store_of

    return store_of(text)


def _is_url(text: str) -> bool:
    """Return whether a path is a URL, or raise ``UnsupportedError`` where it may hold secrets."""
    if "://" not in text or (url := _URL.match(text)) is None:
        return False
    if url[2] or url[4]:
        way = "give storage_options= to sp.open or save, or set variables of the environment"
        if url[1].startswith("http"):
            way = "have another program fetch it, curl -L URL | sparrow ingest FORMAT - DST"
        raise UnsupportedError(
            f"{url[1] + url[3]!r} is a URL with a user, a password or a query, which may be secrets: leave them out "
            f"and {way}"
        )
    return True


def strip_secrets(name: str) -> str:
    """Return a path, or a URL without user, password and query."""
    url = _URL.match(name)
    return name if url is None else url[1] + url[3]


def absolute_path(path: str | os.PathLike[str]) -> str:
    """Return a path as an absolute one, a URL without slashes at its end.

    Raises
    ------
    UnsupportedError
        If it is a URL with a user, password or query in it.
    InvalidValueError
        If it holds a percent sign, a backslash or a control character, which Delta logs do not keep as they are, or is
        a URL with a ``#``.
    """
    text = check_path(path)
    url = _is_url(text)  # whose store may not be known before its options are
    if "%" in text:
        raise InvalidValueError(f"{text!r} holds a '%', which Delta logs take for an escape: use another name")
    whole = text.rstrip("/") if url else full_path(text)
    if url and "#" in whole:
        raise InvalidValueError(f"{whole!r} holds a '#', where Delta takes URLs to end: use another name")
    if (found := _NOT_IN_LOGS.search(whole)) is not None:
        raise InvalidValueError(f"{whole!r} holds {found[0]!r}, which Delta logs cannot: use another name")
    return whole


def atomic_write(path: str | os.PathLike[str]) -> AbstractContextManager[BinaryIO]:
    """Open a file that takes its name, and the place of what has it, when the block ends well.

    A failed write leaves nothing, a killed one at most a hidden file that the next one for this name removes.

    Raises
    ------
    NotFoundError
        If there is no such folder.
    ExistsError
        If the name is that of a folder.
    StorageError
        If the disk is full or fails, or the object store does.
    """
    return get_filesystem(path).replacing(os.fspath(path))


# -- files that others replace ----------------------------------------------------------------------

_versions: ContextVar[dict[str, Any] | None] = ContextVar("sparrow_versions", default=None)


@contextmanager
def pin_file_versions() -> Iterator[None]:
    """Let every file that is opened in the block be the same each time: a replaced one on a store is refused."""
    token = _versions.set({}) if _versions.get() is None else None
    try:
        yield
    finally:
        if token is not None:
            _versions.reset(token)


def pinned_versions() -> dict[str, Any]:
    """Return what is known in this block of the versions of files, by path: to be compared and added to."""
    found = _versions.get()
    return {} if found is None else found


# -- what is asked of other machines -------------------------------------------------------------


class Traffic:
    """Counts of what was asked of object stores, and of the bytes that came."""

    def __init__(self) -> None:
        self.requests = self.nbytes = 0
        self._lock = threading.Lock()

    def add(self, nbytes: int = 0) -> None:
        """Count a request."""
        with self._lock:
            self.requests += 1
            self.nbytes += nbytes


_traffic: ContextVar[tuple[Traffic, ...]] = ContextVar("sparrow_traffic", default=())


@contextmanager
def count_traffic() -> Iterator[Traffic]:
    """Count what this thread, and all that works for it, asks of object stores in the block; logs are not counted."""
    found = Traffic()
    _traffic.set((*_traffic.get(), found))
    try:
        yield found
    finally:  # a generator may end elsewhere than it began
        _traffic.set(tuple(each for each in _traffic.get() if each is not found))


def count_request(nbytes: int = 0) -> None:
    """Count a request for whoever counts here."""
    for found in _traffic.get():
        found.add(nbytes)
