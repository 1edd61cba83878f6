"""Where files lie: everything that storage does to them, in a form that an object store can take.

Files appear whole or not at all, are never changed once they are there, and are listed by folder. Nothing here renames
a file that readers know: a new tensor is its data files first and version 0 of its log last, put where none is. A disk
has something better for it, a folder that is renamed; :meth:`FileSystem.stage` and :meth:`FileSystem.publish` leave
that to the file system. Folders of this machine are here, object stores in :mod:`sparrow.storage.objects`.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import glob
import hashlib
import os
import re
import shutil
import socket
import stat
import threading
from collections.abc import Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeAlias

import pyarrow as pa

from sparrow.errors import (
    CorruptionError,
    ExistsError,
    InvalidValueError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)

__all__ = [
    "DISK_FULL",
    "TEMPORARY",
    "FileSystem",
    "Folder",
    "LocalFileSystem",
    "NewFile",
    "Piece",
    "Traffic",
    "absolute",
    "alive",
    "count_request",
    "counting",
    "disk_full",
    "fsync_folder",
    "of",
    "replacing",
    "without_secrets",
]

TEMPORARY = re.compile(r"[0-9a-f]{8,32}-[0-9]+\.tmp")
"""Names of files that are being written."""

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

Piece: TypeAlias = tuple[str, int, int]
"""A stretch of a file: its path, where the stretch begins and how long it is."""

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+://)([^/]*@)?([^?]*)(\?.*)?", re.DOTALL)
_EXCHANGE = 2
_HERE = -100


class NewFile(Protocol):
    """A file that is being written: nobody sees it before :meth:`keep`."""

    def write(self, data: Any) -> None:
        """Write the next bytes."""

    def keep(self, name: str) -> None:
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

    def matching(self, pattern: str) -> list[str]:
        """Return the files whose paths match a pattern, sorted; a star stands for what has no slash in it."""

    def size(self, path: str) -> int:
        """Return the bytes of a file."""

    def modified(self, path: str) -> float:
        """Return when a file was put there or touched, in seconds since 1970."""

    def stamp(self, path: str) -> Hashable:
        """Return what changes where somebody changes a file in place; a link is refused, it may lead anywhere."""

    def read(self, path: str) -> bytes:
        """Return the content of a file."""

    def read_all(self, paths: Sequence[str]) -> Iterator[bytes | None]:
        """Yield the contents of small files, None for one that is not there."""

    def end(self, path: str, most: int) -> tuple[bytes, int]:
        """Return the last bytes of a file, at most so many, and how many bytes it has."""

    def open(self, path: str, through: bool = False, size: int | None = None) -> pa.NativeFile:
        """Open a file for random reads, or to be read through from its begin; ``size`` is its size, where known."""

    def near(self, path: str) -> AbstractContextManager[str]:
        """Give a file a name on this machine for the length of a block, for libraries that open files themselves."""

    @property
    def fetches(self) -> bool:
        """Whether every read asks another machine, so that what was checked once may come otherwise next time."""

    def ends_ahead(self, paths: Sequence[str], most: int) -> None:
        """Take note that the ends of some files will be read, as :meth:`end` does: they may be fetched at once."""

    def pieces_ahead(self, pieces: Sequence[Piece]) -> None:
        """Take note that some pieces will be read next, the nearest first, each in one go."""

    def delta_options(self) -> dict[str, str] | None:
        """Return the options that ``deltalake`` needs to get at the files."""

    def identity(self, path: str) -> str:
        """Return the same text for all spellings of a path."""

    # -- writing

    def disk(self, path: str) -> str | None:
        """Return a folder on the disk that a new path would fill, None where there is no end to it."""

    def make_folder(self, path: str) -> None:
        """Make a folder, if files need one and it is not there."""

    def new_file(self, folder: str) -> NewFile:
        """Begin a file whose name is known at its end, in a folder."""

    def put(self, path: str, data: bytes) -> bool:
        """Write a small file where there is none, whole; return False where one is, which stays."""

    def replacing(self, path: str) -> AbstractContextManager[BinaryIO]:
        """Open a file that takes its name, and the place of what has it, when the block ends well."""

    def touch(self, path: str) -> None:
        """Make a file as young as a new one."""

    def settle(self, path: str) -> None:
        """Make a file that another library wrote survive a crash of the machine."""

    def delete(self, path: str) -> None:
        """Delete a file, or a folder with all that is in it; nothing where nothing is."""

    # -- new tensors and bundles

    def occupied(self, path: str) -> bool:
        """Return whether something stands where a new tensor would go."""

    def recover(self, path: str) -> None:
        """Bring back what a process that was killed while replacing it left elsewhere."""

    def folder(self, path: str) -> Folder:
        """Return a folder in a form that names in it are joined to."""

    def stage(self, path: str) -> str:
        """Return the folder to write a new tensor in that :meth:`publish` makes visible at a path.

        That may be the path itself, where a tensor is visible by its log and a bundle by its listing, both put last.
        What killed processes left of earlier ones is cleared.
        """

    def publish(self, staged: str, path: str, replace: bool) -> None:
        """Let a staged folder appear at its path, whole; only where nothing is, unless it is to be replaced."""

    def drop(self, staged: str) -> None:
        """Delete what is left of a staged folder, published or not."""


class Folder(Protocol):
    """A folder as :func:`sparrow.storage.creating` gives it: a ``Path``, or what does as much for a URL."""

    def __fspath__(self) -> str:
        """Return its path."""

    def __truediv__(self, name: str) -> Folder:
        """Return what has a name in it."""


def of(path: str | os.PathLike[str]) -> FileSystem:
    """Return the file system that a path lies in.

    Raises
    ------
    UnsupportedError
        If it is a URL of a kind that is not known, or one with a user, password or query in it.
    MissingDependencyError
        If it is a URL and what reads object stores is not installed.
    """
    text = os.fspath(path)
    if "://" not in text or (url := _URL.match(text)) is None:
        return LOCAL
    if url[2] or url[4]:
        raise UnsupportedError(
            f"{url[1] + url[3]!r} is a URL with a user, a password or a query, which may be secrets: leave them out "
            "and give storage_options= to sp.open or save, or set variables of the environment"
        )
    from sparrow.storage import objects

    return objects.store_of(text)


def without_secrets(name: str) -> str:
    """Return a path, or a URL without user, password and query."""
    url = _URL.match(name)
    return name if url is None else url[1] + url[3]


def absolute(path: str | os.PathLike[str]) -> str:
    """Return a path as an absolute one, a URL without slashes at its end.

    Raises
    ------
    UnsupportedError
        If it is a URL that cannot hold tensors.
    InvalidValueError
        If it holds a percent sign, which Delta logs take for an escape.
    """
    text = os.fspath(path)
    files = of(path)
    if "%" in text:
        raise InvalidValueError(f"{text!r} holds a '%', which Delta logs take for an escape: use another name")
    return os.path.abspath(text) if files is LOCAL else text.rstrip("/")


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
def counting() -> Iterator[Traffic]:
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


def disk_full(error: OSError, where: str | os.PathLike[str]) -> StorageError:
    """Return the error to raise for one of the operating system met while writing."""
    if error.errno in DISK_FULL:
        return StorageError(f"the disk is full: no space left to write in {os.fspath(where)!r}; nothing was changed")
    return StorageError(f"cannot write in {os.fspath(where)!r}: {error.strerror or error}")


# -- a disk --------------------------------------------------------------------------------------


class LocalFileSystem:
    """Folders of this machine. Implements :class:`FileSystem`."""

    def exists(self, path: str) -> bool:
        """Return whether a file or folder is there."""
        return os.path.exists(path)

    def is_folder(self, path: str) -> bool:
        """Return whether there is a folder."""
        return os.path.isdir(path)

    def is_link(self, path: str) -> bool:
        """Return whether there is a symbolic link."""
        return os.path.islink(path)

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted; none where it does not exist."""
        try:
            with _telling("read", folder):
                return sorted(os.listdir(folder))
        except NotFoundError:
            return []

    def matching(self, pattern: str) -> list[str]:
        """Return the files that match a pattern."""
        return [path for path in sorted(glob.glob(pattern, recursive=True)) if not os.path.isdir(path)]

    def size(self, path: str) -> int:
        """Return the bytes of a file."""
        with _telling("read", path):
            return os.stat(path).st_size

    def modified(self, path: str) -> float:
        """Return when a file or folder was last changed."""
        with _telling("read", path):
            return os.stat(path).st_mtime

    def stamp(self, path: str) -> Hashable:
        """Return the number of a file, its size and when it was last changed."""
        with _telling("read", path):
            found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode):
            raise CorruptionError(
                f"{path!r} is no file but a link or a folder: sparrow did not make it, it is not read"
            )
        return found.st_ino, found.st_size, found.st_mtime_ns

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        with _telling("read", path), open(path, "rb") as file:
            return file.read()

    def read_all(self, paths: Sequence[str]) -> Iterator[bytes | None]:
        """Yield the contents of files."""
        for path in paths:
            try:
                yield self.read(path)
            except NotFoundError:
                yield None

    def end(self, path: str, most: int) -> tuple[bytes, int]:
        """Return the last bytes of a file and its size."""
        with self.open(path) as file, _telling("read", path):
            size = file.size()
            return file.read_at(min(size, most), max(0, size - most)), size

    def open(self, path: str, through: bool = False, size: int | None = None) -> pa.NativeFile:
        """Open a file."""
        with _telling("read", path):
            return pa.OSFile(path, "rb")

    @contextmanager
    def near(self, path: str) -> Iterator[str]:
        """Give a file its own name."""
        yield path

    fetches = False

    def ends_ahead(self, paths: Sequence[str], most: int) -> None:
        """Do nothing: the system reads ahead."""

    def pieces_ahead(self, pieces: Sequence[Piece]) -> None:
        """Do nothing: the system reads ahead."""

    def delta_options(self) -> dict[str, str] | None:
        """Return None."""
        return None

    def identity(self, path: str) -> str:
        """Return the path without symbolic links."""
        return os.path.realpath(path)

    def disk(self, path: str) -> str | None:
        """Return the folder that is there already."""
        folder = Path(path).absolute().parent
        while not folder.exists():
            folder = folder.parent
        return str(folder)

    def make_folder(self, path: str) -> None:
        """Make a folder in one that is there."""
        with contextlib.suppress(ExistsError), _telling("write", path):
            os.mkdir(path)

    def new_file(self, folder: str) -> NewFile:
        """Begin a file under a temporary name."""
        with _telling("write", folder):
            return _LocalFile(folder)

    def put(self, path: str, data: bytes) -> bool:
        """Write a file aside and link it where there is none."""
        folder, name = os.path.split(path)
        with _telling("write", folder):
            file = _LocalFile(folder)
            try:
                file.write(data)
                file.link(name)
            except FileExistsError:
                return False
            finally:
                file.discard()
        return True

    @contextmanager
    def replacing(self, path: str) -> Iterator[BinaryIO]:
        """Write a hidden file and rename it."""
        target = os.path.abspath(path)
        parent, name = os.path.split(target)
        if not os.path.isdir(parent):
            raise NotFoundError(f"there is no folder {parent!r} to write {name!r} into")
        if os.path.isdir(target):
            raise ExistsError(f"{path!r} is a folder: give the name of a file")
        part = _partial(parent, name)
        with _telling("write", parent):
            try:
                with open(part, "xb") as file:
                    yield file
                fsync_folder(part)
                os.replace(part, target)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(part)
                raise
            fsync_folder(parent)

    def touch(self, path: str) -> None:
        """Set the times of a file to now."""
        with _telling("write", path):
            os.utime(path)

    def settle(self, path: str) -> None:
        """Sync a file and its folder."""
        with _telling("write", path):
            fsync_folder(path)
            fsync_folder(os.path.dirname(path))

    def delete(self, path: str) -> None:
        """Delete a file or folder, never what a link leads to."""
        with contextlib.suppress(NotFoundError), _telling("write", path):
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)

    def occupied(self, path: str) -> bool:
        """Return whether anything has this name, a dangling link too."""
        return os.path.lexists(path)

    def folder(self, path: str) -> Folder:
        """Return a ``Path``."""
        return Path(path)

    def recover(self, path: str) -> None:
        """Rename back what stood at a path, or around it, before it was to be replaced by two renames."""
        path = os.path.abspath(path)
        if not os.path.lexists(path):
            self.recover(os.path.dirname(path))  # the bundle it is a member of
            if os.path.lexists(_aside(path)):
                with contextlib.suppress(OSError), _locked(os.path.dirname(path)):
                    _put_back(path)

    def stage(self, path: str) -> str:
        """Make a hidden folder beside a path. Its name tells the process, so that others see when that is gone."""
        parent, name = os.path.split(path)
        staged = _partial(parent, name)
        with _telling("write", parent):
            os.makedirs(parent, exist_ok=True)
            os.mkdir(staged)
        return staged

    def publish(self, staged: str, path: str, replace: bool) -> None:
        """Rename a folder; what it replaces gets its name.

        Where the system cannot swap two names, what is replaced waits under a third that :meth:`recover` knows, and
        readers who find nothing wait for the lock.
        """
        parent = os.path.dirname(path)
        with _telling("write", parent), _locked(parent):
            fsync_folder(staged)
            if not (replace and os.path.lexists(path)):
                try:
                    os.rename(staged, path)
                except OSError as error:
                    if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                        raise ExistsError(f"{path!r} exists: another process created it meanwhile") from None
                    raise
            elif not self._exchange(staged, path):
                aside = _aside(path)
                if os.path.lexists(aside):  # left by a process that was killed when its tensor was in place
                    os.rename(aside, _spare(staged))
                try:
                    os.rename(path, aside)
                    os.rename(staged, path)
                    os.rename(aside, staged)  # from here on nobody brings it back
                except BaseException:
                    _put_back(path)
                    raise
            fsync_folder(parent)

    @staticmethod
    def _exchange(a: str, b: str) -> bool:
        """Swap two folders in one step; False where the system cannot."""
        try:
            rename = ctypes.CDLL(None, use_errno=True).renameat2
        except (OSError, AttributeError):
            return False
        return bool(rename(_HERE, os.fsencode(a), _HERE, os.fsencode(b), _EXCHANGE) == 0)

    def drop(self, staged: str) -> None:
        """Delete a folder as far as it can be."""
        for folder in (staged, _spare(staged)):
            shutil.rmtree(folder, ignore_errors=True)


LOCAL: FileSystem = LocalFileSystem()


class _LocalFile:
    """A file under a temporary name. Implements :class:`NewFile`."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._temporary = os.path.join(folder, f"{os.urandom(8).hex()}-0.tmp")
        self._file = open(self._temporary, "xb", buffering=1 << 20)  # noqa: SIM115 keep() and discard() close it

    def write(self, data: Any) -> None:
        """Write the next bytes."""
        with _telling("write", self._folder):
            self._file.write(data)

    def keep(self, name: str) -> None:
        """Sync the file and give it its name."""
        with _telling("write", self._folder):
            self._finish()
            path = os.path.join(self._folder, name)
            os.rename(self._temporary, path)
            try:
                fsync_folder(self._folder)
            except OSError:
                os.unlink(path)  # nobody was told of it
                raise

    def link(self, name: str) -> None:
        """Sync the file and give it a name that no other has, beside its temporary one."""
        self._finish()
        os.link(self._temporary, os.path.join(self._folder, name))
        fsync_folder(self._folder)

    def _finish(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def discard(self) -> None:
        """Delete the file if it still has its temporary name."""
        with contextlib.suppress(OSError):  # flushing what the full disk refused: the file goes anyway
            self._file.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._temporary)


@contextmanager
def _telling(what: str, path: str) -> Iterator[None]:
    """Turn errors of the operating system into those of storage."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        told = disk_full(error, path) if what == "write" else StorageError(_unreadable(error, path))
        for kind, named in ((FileNotFoundError, NotFoundError), (FileExistsError, ExistsError)):
            if isinstance(error, kind):
                raise named(str(told)) from None
        raise told from error


def _unreadable(error: OSError, path: str) -> str:
    return f"{path!r} cannot be read: {error.strerror or error}"


def fsync_folder(path: str | os.PathLike[str]) -> None:
    """Make the names in a folder, or the bytes of a file, survive a crash of the machine."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Hold a folder against others that publish or recover in it, as far as the file system has locks."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _aside(path: str) -> str:
    """Return where what is replaced by two renames lies between them: one name for each path, to be found again."""
    parent, name = os.path.split(path)
    digest = hashlib.sha256(os.fsencode(name)).hexdigest()[:16]
    return os.path.join(parent, f".{name[:80]}.{digest}.partial.old")


def _spare(staged: str) -> str:
    """Return a second name of a staged folder's process."""
    return f"{staged.removesuffix('.partial')}-2.partial"


def _put_back(path: str) -> None:
    if not os.path.lexists(path) and os.path.lexists(_aside(path)):
        os.rename(_aside(path), path)
        fsync_folder(os.path.dirname(path))


def replacing(path: str | os.PathLike[str]) -> AbstractContextManager[BinaryIO]:
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
    return of(path).replacing(os.fspath(path))


def _partial(parent: str, name: str) -> str:
    """Return a hidden name for what is made beside its place, and clear what dead processes left of earlier ones."""
    stem = f".{name[:80]}.{socket.gethostname()[:40]}-"
    _remove_stale(parent, stem)
    return os.path.join(parent, f"{stem}{os.getpid()}-{os.urandom(6).hex()}.partial")


def _remove_stale(parent: str, stem: str) -> None:
    """Remove what dead processes of this machine left beside a path."""
    try:
        names = os.listdir(parent)
    except OSError:
        return
    for name in names:
        if name.startswith(stem) and name.endswith(".partial"):
            pid = name[len(stem) :].split("-")[0]
            if pid.isdecimal() and not alive(int(pid)):
                with contextlib.suppress(StorageError):
                    LOCAL.delete(os.path.join(parent, name))


def alive(pid: int) -> bool:
    """Return whether there is a process of this number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
