"""Local file system: files are written under a hidden name and renamed.

Processes that publish or recover folders side by side take ``flock`` on the parent folder itself. Lock files, such as
those of the package ``filelock``, are not used: they would stay beside the tensors of the user, where every other
leftover counts as an error, and deleting them is a race. The kernel drops a ``flock`` when its process ends, and on
network file systems without locks publishing goes on unlocked, where only a reader may be early.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import errno
import fcntl
import glob
import hashlib
import itertools
import os
import re
import socket
import stat
import threading
from collections.abc import Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa

from sparrow.errors import CorruptionError, ExistsError, NotFoundError, StorageError
from sparrow.runtime.events import emit
from sparrow.runtime.validation import full_path
from sparrow.storage.fs import syscalls
from sparrow.storage.fs.failures import UnchangedClaim, durability_error, read_error, write_error
from sparrow.storage.fs.protocols import FileSystem, Folder, NewFile
from sparrow.storage.tuning import tuning

__all__ = [
    "LOCAL",
    "TEMPORARY_FILE",
    "LocalFileSystem",
    "backup_path",
    "fsync_path",
    "is_process_alive",
]

TEMPORARY_FILE = re.compile(r"[0-9a-f]{8,32}-[0-9]+\.tmp")
"""Names of files that are being written."""

_RENAME_EXCHANGE = 2
_AT_FDCWD = -100
_ATTEMPTS_TO_STAGE = 10


class LocalFileSystem:
    """Files and folders of this machine.

    Implements :class:`~sparrow.storage.fs.protocols.FileSystem`.
    """

    is_remote = False
    prefetcher = None

    def exists(self, path: str) -> bool:
        """Return whether a file or folder exists."""
        return os.path.exists(path)

    def is_folder(self, path: str) -> bool:
        """Return whether a folder exists."""
        return os.path.isdir(path)

    def is_link(self, path: str) -> bool:
        """Return whether a path is a symbolic link."""
        return os.path.islink(path)

    def names(self, folder: str) -> list[str]:
        """List the names in a folder, sorted; none if it does not exist."""
        try:
            with _Raising("read", folder):
                return sorted(os.listdir(folder))
        except NotFoundError:
            return []

    def glob(self, pattern: str) -> list[str]:
        """List the files that match a pattern, sorted."""
        return [path for path in sorted(glob.glob(pattern, recursive=True)) if not os.path.isdir(path)]

    def size(self, path: str) -> int:
        """Return the size of a file in bytes."""
        with _Raising("read", path):
            return os.stat(path).st_size

    def modified_time(self, path: str) -> float:
        """Return the modification time of a file or folder."""
        with _Raising("read", path):
            return os.stat(path).st_mtime

    def fingerprint(self, path: str) -> Hashable:
        """Return inode, size and modification time of a file.

        ``CorruptionError`` for a link.
        """
        with _Raising("read", path):
            found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode):
            raise CorruptionError(
                f"{path!r} must be a regular file, got a link or a folder: sparrow did not make it, it is not read"
            )
        return found.st_ino, found.st_size, found.st_mtime_ns

    def folder_identity(self, path: str) -> Hashable:
        """Return inode and time of change of a folder, None if there is none.

        The inode of a folder that was deleted may be used again.
        """
        try:
            found = os.lstat(path)
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_ctime_ns

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        with _Raising("read", path):
            emit("storage.read", path=path)
            with open(path, "rb") as file:
                return file.read()

    def read_many(self, paths: Sequence[str]) -> Iterator[bytes | None]:
        """Yield the contents of files, None for a missing one."""
        for path in paths:
            try:
                yield self.read(path)
            except NotFoundError:
                yield None

    def read_tail(self, path: str, most: int) -> tuple[bytes, int]:
        """Return the last bytes of a file and its size."""
        with self.open(path) as file, _Raising("read", path):
            size = file.size()
            return file.read_at(min(size, most), max(0, size - most)), size

    def open(
        self, path: str, sequential: bool = False, size: int | None = None, immutable: bool = False
    ) -> pa.NativeFile:
        """Open a file for reading."""
        with _Raising("read", path):
            return pa.OSFile(path, "rb")

    @contextmanager
    def local_copy(self, path: str) -> Iterator[str]:
        """Yield the path itself."""
        yield path

    def canonical_path(self, path: str) -> str:
        """Return the path without symbolic links."""
        return os.path.realpath(path)

    def delta_options(self) -> dict[str, str] | None:
        """Return None."""
        return None

    def local_disk(self, path: str) -> str | None:
        """Return the nearest folder above a path that exists."""
        folder = Path(path).absolute().parent
        while not folder.exists():
            folder = folder.parent
        return str(folder)

    def make_folder(self, path: str) -> bool:
        """Create a folder, whose parent exists; return whether it is new."""
        try:
            with _Raising("write", path):
                syscalls.make_folder(path)
        except ExistsError:
            return False
        return True

    def create_file(self, folder: str) -> NewFile:
        """Begin a file under a temporary name."""
        with _Raising("write", folder):
            return _LocalFile(folder)

    def put(self, path: str, data: bytes) -> bool:
        """Write a temporary file and link it to ``path``; return False if that exists."""
        folder, name = os.path.split(path)
        with _Raising("write", folder):
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
    def atomic_write(self, path: str) -> Iterator[BinaryIO]:
        """Write a hidden file and rename it over ``path``."""
        target = os.path.realpath(full_path(path))  # the target of a link is replaced, not the link
        parent, name = os.path.split(target)
        if not os.path.isdir(parent):
            raise NotFoundError(f"there is no folder {parent!r} to write {name!r} into")
        if os.path.isdir(target):
            raise ExistsError(f"{path!r} is a folder: pass the name of a file")
        if os.path.exists(target) and not os.path.isfile(target):
            raise ExistsError(f"{path!r} is a device or a pipe, which cannot be replaced: pass the name of a file")
        part = _new_partial(parent, name)
        with UnchangedClaim(), _Raising("write", parent):
            try:
                with syscalls.create(part) as file:
                    yield file
                fsync_path(part)
                syscalls.replace(part, target)
            finally:
                _delete_partial(part)
        _make_names_durable(parent, f"{path!r} is written")

    def touch(self, path: str) -> None:
        """Set the times of a file to now."""
        with _Raising("write", path):
            syscalls.touch(path)

    def make_durable(self, path: str) -> None:
        """Flush a file and its folder to the disk."""
        with _Raising("write", path):
            fsync_path(path)
            fsync_path(os.path.dirname(path))

    def delete(self, path: str) -> None:
        """Delete a file or folder; of a link only the link.

        A folder is renamed first: half of one would be taken for a damaged one.
        """
        if not os.path.isdir(path) or os.path.islink(path) or path.endswith(".partial"):
            _delete(path)
            return
        hidden = _new_partial(*os.path.split(path))
        try:
            with contextlib.suppress(NotFoundError), _Raising("write", path):
                syscalls.rename(path, hidden)
        finally:
            _delete_partial(hidden)

    def delete_own(self, path: str, fingerprint: Hashable) -> None:
        """Delete a file if it has this fingerprint.

        The lock keeps other processes from writing it again in between.
        """
        with contextlib.suppress(OSError), _lock_folder(os.path.dirname(path)):
            if self.fingerprint(path) == fingerprint:
                syscalls.unlink(path)

    def delete_empty_folder(self, path: str) -> None:
        """Delete a folder unless something is in it."""
        with contextlib.suppress(OSError):
            syscalls.remove_folder(path)

    def is_occupied(self, path: str) -> bool:
        """Return whether the name exists, even as a dangling link."""
        return os.path.lexists(path)

    def as_folder(self, path: str) -> Folder:
        """Return a ``Path``."""
        return Path(path)

    def recover(self, path: str) -> None:
        """Rename back what a killed process was replacing at ``path`` or above."""
        path = full_path(path)
        emit("storage.recover", path=path)
        if not os.path.lexists(path):
            self.recover(os.path.dirname(path))  # the bundle of which it is a member
            if os.path.lexists(backup_path(path)):
                with contextlib.suppress(OSError), _lock_folder(os.path.dirname(path)):
                    _restore_backup(path)

    def is_staged(self, path: str) -> bool:
        """Return True: tensors are created in folders of their own."""
        return True

    def is_replacement(self, staged: str) -> bool:
        """Return False: a staged folder is always a new one."""
        return False

    def stage(self, path: str, replace: bool = False) -> str:
        """Create a hidden folder beside ``path`` with the process id in its name."""
        parent, name = os.path.split(path)
        staged = _new_partial(parent, name, _missing_folders(parent))
        try:
            with _Raising("write", parent):
                _make_staged(staged)
        except BaseException:
            _delete_partial(staged)
            raise
        return staged

    def keep_folder(self, path: str) -> AbstractContextManager[None]:
        """Share the lock that processes take to publish or recover folders."""
        return _lock_folder(os.path.dirname(path), fcntl.LOCK_SH)

    def publish(self, staged: str, path: str, replace: bool) -> None:
        """Rename ``staged`` to ``path``.

        A folder that it replaces takes the name ``staged``.

        Where the kernel cannot swap two names, the old folder is renamed to :func:`backup_path` in between, from where
        :meth:`recover` brings it back. Readers who find nothing meanwhile wait for the lock.
        """
        parent = os.path.dirname(path)
        with UnchangedClaim(), _Raising("write", parent), _lock_folder(parent):
            fsync_path(staged)
            if not (replace and os.path.lexists(path)):
                try:
                    syscalls.rename(staged, path)
                except OSError as error:
                    if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                        raise ExistsError(f"{path!r} exists: another process created it meanwhile") from None
                    raise
            elif not _exchange(staged, path):
                backup = backup_path(path)
                if os.path.lexists(backup):  # its process was killed after the new folder was in place
                    syscalls.rename(backup, _second_name(staged))
                try:
                    syscalls.rename(path, backup)
                    syscalls.rename(staged, path)
                finally:
                    _restore_backup(path)
                    if os.path.lexists(backup):
                        with contextlib.suppress(OSError):
                            syscalls.rename(backup, staged)  # recover() no longer finds it
        _make_names_durable(parent, f"{path!r} is complete")

    def discard_staged(self, staged: str) -> None:
        """Delete a staged folder as far as possible."""
        _delete_partial(staged)


LOCAL: FileSystem = LocalFileSystem()


class _LocalFile:
    """A file under a temporary name.

    Implements :class:`~sparrow.storage.fs.protocols.NewFile`.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._temporary = os.path.join(folder, f"{os.urandom(8).hex()}-0.tmp")
        self._file = syscalls.create(self._temporary, tuning().write_buffer_bytes)

    def write(self, data: Any) -> None:
        """Write the next bytes."""
        with _Raising("write", self._folder):
            emit("storage.write", path=self._temporary, nbytes=len(data))
            self._file.write(data)

    def finalize(self, name: str) -> Hashable | None:
        """Flush the file to the disk and rename it.

        Return its fingerprint if the name is new.
        """
        with _Raising("write", self._folder):
            self._flush()
            path = os.path.join(self._folder, name)
            with _lock_folder(self._folder):
                is_new = not os.path.lexists(path)
                syscalls.rename(self._temporary, path)
            fingerprint = LOCAL.fingerprint(path) if is_new else None
            try:
                fsync_path(self._folder)
            except OSError:
                if is_new:  # nothing refers to it yet
                    LOCAL.delete_own(path, fingerprint)
                raise
            return fingerprint

    def link(self, name: str) -> None:
        """Flush the file to the disk and give it a second, new name."""
        self._flush()
        syscalls.link(self._temporary, os.path.join(self._folder, name))
        fsync_path(self._folder)

    def _flush(self) -> None:
        self._file.flush()
        syscalls.fsync(self._file.fileno(), self._temporary)
        self._file.close()

    def discard(self) -> None:
        """Delete the file if it still has its temporary name."""
        with contextlib.suppress(OSError):  # a full disk refuses the buffered rest, which is dropped anyway
            self._file.close()
        with contextlib.suppress(FileNotFoundError):
            syscalls.unlink(self._temporary)


class _Raising:
    """Context manager that raises the errors of storage for ``OSError``.

    Not a generator: there, frames and the error refer to each other and keep alive what a caller has reserved
    (Python 3.13).
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
        raised = write_error(error, self._path) if self._what == "write" else read_error(error, self._path)
        for expected, named in ((FileNotFoundError, NotFoundError), (FileExistsError, ExistsError)):
            if isinstance(error, expected):
                raise named(str(raised)) from None
        raise raised from error


def fsync_path(path: str | os.PathLike[str]) -> None:
    """Flush a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        syscalls.fsync(descriptor, path)
    finally:
        os.close(descriptor)


def _make_names_durable(folder: str, what: str) -> None:
    """Flush the names in a folder after a rename; the error says what was done."""
    try:
        fsync_path(folder)
    except OSError as error:
        raise durability_error(what, error) from error


def _delete(path: str) -> None:
    with contextlib.suppress(NotFoundError), _Raising("write", path):
        if os.path.isdir(path) and not os.path.islink(path):
            syscalls.remove_tree(path)
        else:
            syscalls.unlink(path)


@contextmanager
def _lock_folder(folder: str, mode: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Lock a folder against processes that publish or recover in it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, mode)
        yield
    finally:
        os.close(descriptor)


def _exchange(a: str, b: str) -> bool:
    """Swap two folders by one system call; return False where the kernel has none."""
    if not tuning().exchange_folders:
        return False
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    return bool(rename(_AT_FDCWD, os.fsencode(a), _AT_FDCWD, os.fsencode(b), _RENAME_EXCHANGE) == 0)


def backup_path(path: str) -> str:
    """Return the fixed name of the old folder while ``path`` is replaced."""
    parent, name = os.path.split(path)
    digest = hashlib.sha256(os.fsencode(name)).hexdigest()[:16]
    return os.path.join(parent, f".{name[:80]}.{digest}.partial.old")


def _second_name(staged: str) -> str:
    """Return a second hidden name of the process that staged a folder."""
    return f"{staged.removesuffix('.partial')}-2.partial"


def _restore_backup(path: str) -> None:
    if not os.path.lexists(path) and os.path.lexists(backup_path(path)):
        syscalls.rename(backup_path(path), path)
        fsync_path(os.path.dirname(path))


class _Partial(NamedTuple):
    """A hidden file or folder that this process created, or is about to."""

    path: str
    target: str
    """The name that it gets in the end."""
    thread: int
    """The thread that writes there, 0 once it has ended."""
    parents: Sequence[str]
    """Folders created for it, outermost first."""


_partials: dict[str, _Partial] = {}
"""Hidden files and folders of this process that it has not deleted, by name.

Ctrl-C can come before a write begins to clean up, and while it does.
"""


def _new_partial(parent: str, name: str, parents: Sequence[str] = ()) -> str:
    """Return a hidden name beside a path.

    Delete those that failed writes and dead processes left.
    """
    stem = f".{name[:80]}.{socket.gethostname()[:40]}-"
    for hidden, found in list(_partials.items()):
        is_of_this_path = hidden.startswith(stem) and os.path.dirname(found.path) == parent
        if found.thread == 0 or (found.thread == threading.get_ident() and is_of_this_path):
            _delete_partial(found.path)
    _delete_leftovers(parent, stem)
    path = os.path.join(parent, f"{stem}{os.getpid()}-{os.urandom(6).hex()}.partial")
    _partials[os.path.basename(path)] = _Partial(path, os.path.join(parent, name), threading.get_ident(), parents)
    return path


def _delete_partial(path: str) -> None:
    """Delete a hidden file or folder of this process, as far as possible."""
    name = os.path.basename(path)
    if name not in _partials:
        return
    found = _partials[name] = _partials[name]._replace(thread=0)
    try:
        _delete_as_far_as_possible(found)
    except BaseException:  # Ctrl-C; by another one the next write or the end of the process deletes the rest
        _delete_as_far_as_possible(found)
        raise
    if not any(map(os.path.lexists, (path, _second_name(path), backup_path(found.target)))):
        _partials.pop(name, None)


def _delete_as_far_as_possible(partial: _Partial) -> None:
    for path in filter(os.path.lexists, (partial.path, _second_name(partial.path))):
        if os.path.isdir(path) and not os.path.islink(path):
            syscalls.remove_tree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                syscalls.unlink(path)
    if os.path.lexists(backup := backup_path(partial.target)):
        with contextlib.suppress(OSError), _lock_folder(os.path.dirname(backup)):
            _restore_backup(partial.target)
            if os.path.lexists(partial.target):  # the folder that replaced it
                syscalls.remove_tree(backup, ignore_errors=True)
    for folder in reversed(partial.parents):
        LOCAL.delete_empty_folder(folder)


def _missing_folders(path: str) -> list[str]:
    """Return the folders above and at a path that do not exist, outermost first."""
    missing: list[str] = []
    while not os.path.lexists(path) and os.path.dirname(path) != path:
        missing.insert(0, path)
        path = os.path.dirname(path)
    return missing


def _make_staged(path: str) -> None:
    """Create a folder and those above it.

    A failed write of another process may delete these meanwhile.
    """
    for attempt in itertools.count(1):
        try:
            syscalls.make_folders(os.path.dirname(path))
            syscalls.make_folder(path)
            return
        except FileNotFoundError:
            if attempt == _ATTEMPTS_TO_STAGE:
                raise


@atexit.register
def _delete_partials() -> None:
    """Delete what interrupted writes left, at the end of the process."""
    for found in list(_partials.values()):
        _delete_partial(found.path)


os.register_at_fork(after_in_child=_partials.clear)


def _delete_leftovers(parent: str, stem: str) -> None:
    """Delete what dead processes of this machine left beside a path."""
    try:
        names = os.listdir(parent)
    except OSError:
        return
    for name in names:
        if (
            name.startswith(stem)
            and name.endswith(".partial")
            and name.replace("-2.partial", ".partial") not in _partials
        ):
            pid = name[len(stem) :].split("-")[0]
            # One with our own number was left by a process that had it before, as in containers.
            if pid.isdecimal() and (int(pid) == os.getpid() or not is_process_alive(int(pid))):
                with contextlib.suppress(StorageError):
                    _delete(os.path.join(parent, name))


def is_process_alive(pid: int) -> bool:
    """Return whether a process of this machine runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
