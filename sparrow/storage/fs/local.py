"""Folders of this machine: files are written under a hidden name and renamed, folders too."""

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
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from sparrow.errors import CorruptionError, ExistsError, NotFoundError, StorageError
from sparrow.runtime.validation import full_path

if TYPE_CHECKING:
    from sparrow.storage.fs.filesystem import ByteRange, FileSystem, Folder, NewFile

__all__ = [
    "DISK_FULL_ERRNOS",
    "LOCAL",
    "TEMPORARY_FILE",
    "LocalFileSystem",
    "fsync_path",
    "is_process_alive",
    "write_error",
]

TEMPORARY_FILE = re.compile(r"[0-9a-f]{8,32}-[0-9]+\.tmp")
"""Names of files that are being written."""

DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_EXCHANGE = 2
_HERE = -100


def write_error(error: OSError, where: str | os.PathLike[str]) -> StorageError:
    """Return the error to raise for one of the operating system met while writing."""
    if error.errno in DISK_FULL_ERRNOS:
        return StorageError(f"the disk is full: no space left to write in {os.fspath(where)!r}; nothing was changed")
    return StorageError(f"cannot write in {os.fspath(where)!r}: {error.strerror or error}")


class LocalFileSystem:
    """Folders of this machine. Implements :class:`sparrow.storage.fs.filesystem.FileSystem`."""

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
            with _Telling("read", folder):
                return sorted(os.listdir(folder))
        except NotFoundError:
            return []

    def glob(self, pattern: str) -> list[str]:
        """Return the files that match a pattern."""
        return [path for path in sorted(glob.glob(pattern, recursive=True)) if not os.path.isdir(path)]

    def size(self, path: str) -> int:
        """Return the bytes of a file."""
        with _Telling("read", path):
            return os.stat(path).st_size

    def modified_time(self, path: str) -> float:
        """Return when a file or folder was last changed."""
        with _Telling("read", path):
            return os.stat(path).st_mtime

    def fingerprint(self, path: str) -> Hashable:
        """Return the number of a file, its size and when it was last changed."""
        with _Telling("read", path):
            found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode):
            raise CorruptionError(
                f"{path!r} is no file but a link or a folder: sparrow did not make it, it is not read"
            )
        return found.st_ino, found.st_size, found.st_mtime_ns

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        with _Telling("read", path), open(path, "rb") as file:
            return file.read()

    def read_many(self, paths: Sequence[str]) -> Iterator[bytes | None]:
        """Yield the contents of files."""
        for path in paths:
            try:
                yield self.read(path)
            except NotFoundError:
                yield None

    def read_tail(self, path: str, most: int) -> tuple[bytes, int]:
        """Return the last bytes of a file and its size."""
        with self.open(path) as file, _Telling("read", path):
            size = file.size()
            return file.read_at(min(size, most), max(0, size - most)), size

    def open(
        self, path: str, sequential: bool = False, size: int | None = None, immutable: bool = False
    ) -> pa.NativeFile:
        """Open a file."""
        with _Telling("read", path):
            return pa.OSFile(path, "rb")

    @contextmanager
    def local_copy(self, path: str) -> Iterator[str]:
        """Give a file its own name."""
        yield path

    is_remote = False

    def prefetch_tails(self, paths: Sequence[str], most: int) -> None:
        """Do nothing: the system reads ahead."""

    def prefetch_ranges(self, pieces: Sequence[ByteRange]) -> None:
        """Do nothing: the system reads ahead."""

    def delta_options(self) -> dict[str, str] | None:
        """Return None."""
        return None

    def identity(self, path: str) -> str:
        """Return the path without symbolic links."""
        return os.path.realpath(path)

    def local_disk(self, path: str) -> str | None:
        """Return the folder that is there already."""
        folder = Path(path).absolute().parent
        while not folder.exists():
            folder = folder.parent
        return str(folder)

    def make_folder(self, path: str) -> None:
        """Make a folder in one that is there."""
        with contextlib.suppress(ExistsError), _Telling("write", path):
            os.mkdir(path)

    def create_file(self, folder: str) -> NewFile:
        """Begin a file under a temporary name."""
        with _Telling("write", folder):
            return _LocalFile(folder)

    def put(self, path: str, data: bytes) -> bool:
        """Write a file aside and link it where there is none."""
        folder, name = os.path.split(path)
        with _Telling("write", folder):
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
        target = os.path.realpath(full_path(path))  # what a link leads to is written, not the link
        parent, name = os.path.split(target)
        if not os.path.isdir(parent):
            raise NotFoundError(f"there is no folder {parent!r} to write {name!r} into")
        if os.path.isdir(target):
            raise ExistsError(f"{path!r} is a folder: give the name of a file")
        if os.path.exists(target) and not os.path.isfile(target):
            raise ExistsError(f"{path!r} is a device or a pipe, which no file takes the place of: write a file")
        part = _partial(parent, name)
        with _Telling("write", parent):
            try:
                with open(part, "xb") as file:
                    yield file
                fsync_path(part)
                os.replace(part, target)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(part)
                raise
            fsync_path(parent)

    def touch(self, path: str) -> None:
        """Set the times of a file to now."""
        with _Telling("write", path):
            os.utime(path)

    def make_durable(self, path: str) -> None:
        """Sync a file and its folder."""
        with _Telling("write", path):
            fsync_path(path)
            fsync_path(os.path.dirname(path))

    def delete(self, path: str) -> None:
        """Delete a file or folder, never what a link leads to."""
        with contextlib.suppress(NotFoundError), _Telling("write", path):
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)

    def is_occupied(self, path: str) -> bool:
        """Return whether anything has this name, a dangling link too."""
        return os.path.lexists(path)

    def folder(self, path: str) -> Folder:
        """Return a ``Path``."""
        return Path(path)

    def recover(self, path: str) -> None:
        """Rename back what stood at a path, or around it, before it was to be replaced by two renames."""
        path = full_path(path)
        if not os.path.lexists(path):
            self.recover(os.path.dirname(path))  # the bundle it is a member of
            if os.path.lexists(backup_path(path)):
                with contextlib.suppress(OSError), _locked(os.path.dirname(path)):
                    _put_back(path)

    def is_replacement(self, staged: str) -> bool:
        """Return False: what is staged is a folder of its own."""
        return False

    def stage(self, path: str, replace: bool = False) -> str:
        """Make a hidden folder beside a path. Its name tells the process, so that others see when that is gone."""
        parent, name = os.path.split(path)
        staged = _partial(parent, name)
        with _Telling("write", parent):
            os.makedirs(parent, exist_ok=True)
            os.mkdir(staged)
        return staged

    def publish(self, staged: str, path: str, replace: bool) -> None:
        """Rename a folder; what it replaces gets its name.

        Where the system cannot swap two names, what is replaced waits under a third that :meth:`recover` knows, and
        readers who find nothing wait for the lock.
        """
        parent = os.path.dirname(path)
        with _Telling("write", parent), _locked(parent):
            fsync_path(staged)
            if not (replace and os.path.lexists(path)):
                try:
                    os.rename(staged, path)
                except OSError as error:
                    if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                        raise ExistsError(f"{path!r} exists: another process created it meanwhile") from None
                    raise
            elif not self._exchange(staged, path):
                aside = backup_path(path)
                if os.path.lexists(aside):  # left by a process that was killed when its tensor was in place
                    os.rename(aside, _spare(staged))
                try:
                    os.rename(path, aside)
                    os.rename(staged, path)
                    os.rename(aside, staged)  # from here on nobody brings it back
                except BaseException:
                    _put_back(path)
                    raise
            fsync_path(parent)

    @staticmethod
    def _exchange(a: str, b: str) -> bool:
        """Swap two folders in one step; False where the system cannot."""
        try:
            rename = ctypes.CDLL(None, use_errno=True).renameat2
        except (OSError, AttributeError):
            return False
        return bool(rename(_HERE, os.fsencode(a), _HERE, os.fsencode(b), _EXCHANGE) == 0)

    def discard_staged(self, staged: str) -> None:
        """Delete a folder as far as it can be."""
        for folder in (staged, _spare(staged)):
            shutil.rmtree(folder, ignore_errors=True)


LOCAL: FileSystem = LocalFileSystem()


class _LocalFile:
    """A file under a temporary name. Implements :class:`sparrow.storage.fs.filesystem.NewFile`."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._temporary = os.path.join(folder, f"{os.urandom(8).hex()}-0.tmp")
        self._file = open(self._temporary, "xb", buffering=1 << 20)  # noqa: SIM115 keep() and discard() close it

    def write(self, data: Any) -> None:
        """Write the next bytes."""
        with _Telling("write", self._folder):
            self._file.write(data)

    def finalize(self, name: str) -> None:
        """Sync the file and give it its name."""
        with _Telling("write", self._folder):
            self._finish()
            path = os.path.join(self._folder, name)
            os.rename(self._temporary, path)
            try:
                fsync_path(self._folder)
            except OSError:
                os.unlink(path)  # nobody was told of it
                raise

    def link(self, name: str) -> None:
        """Sync the file and give it a name that no other has, beside its temporary one."""
        self._finish()
        os.link(self._temporary, os.path.join(self._folder, name))
        fsync_path(self._folder)

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


class _Telling:
    """Turn errors of the operating system into those of storage.

    No generator: in one, frames and the error hold each other, and with them what a caller has reserved (Python 3.13).
    """

    __slots__ = ("_path", "_what")

    def __init__(self, what: str, path: str) -> None:
        self._what, self._path = what, path

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not isinstance(error, OSError) or isinstance(error, StorageError):
            return
        path = self._path
        told = write_error(error, path) if self._what == "write" else StorageError(_unreadable(error, path))
        for expected, named in ((FileNotFoundError, NotFoundError), (FileExistsError, ExistsError)):
            if isinstance(error, expected):
                raise named(str(told)) from None
        raise told from error


def _unreadable(error: OSError, path: str) -> str:
    return f"{path!r} cannot be read: {error.strerror or error}"


def fsync_path(path: str | os.PathLike[str]) -> None:
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


def backup_path(path: str) -> str:
    """Return where what is replaced by two renames lies between them: one name for each path, to be found again."""
    parent, name = os.path.split(path)
    digest = hashlib.sha256(os.fsencode(name)).hexdigest()[:16]
    return os.path.join(parent, f".{name[:80]}.{digest}.partial.old")


def _spare(staged: str) -> str:
    """Return a second name of a staged folder's process."""
    return f"{staged.removesuffix('.partial')}-2.partial"


def _put_back(path: str) -> None:
    if not os.path.lexists(path) and os.path.lexists(backup_path(path)):
        os.rename(backup_path(path), path)
        fsync_path(os.path.dirname(path))


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
            if pid.isdecimal() and not is_process_alive(int(pid)):
                with contextlib.suppress(StorageError):
                    LOCAL.delete(os.path.join(parent, name))


def is_process_alive(pid: int) -> bool:
    """Return whether there is a process of this number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
