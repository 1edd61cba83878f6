"""Object stores: files below a URL, put and read whole or by ranges, over ``obstore``.

Nothing is renamed: files appear under their own names, which carry the hash of what is in them, and a new tensor is
visible by version 0 of its log, put last and only where none is. A marker beside what is being made tells whose it is,
so that what killed processes left is cleared. Readers say what they will read next, and it is fetched meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from fnmatch import fnmatchcase
from typing import Any, BinaryIO, TypeVar
from urllib.parse import unquote

import pyarrow as pa

from sparrow import settings
from sparrow.errors import (
    ExistsError,
    InvalidValueError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from sparrow.storage.connections import SCHEMES, check_process, client, options_for, short, variables
from sparrow.storage.filesystem import Folder, NewFile, Piece, count_request, without_secrets
from sparrow.storage.local import alive, disk_full
from sparrow.storage.remote import WINDOW, RemoteFile

__all__ = ["ObjectStore", "store_of"]

T = TypeVar("T")

_CONNECTIONS = 16
_AHEAD_BYTES = 128 << 20
"""Bytes that may wait for those who said that they would read them."""
_UPLOAD = 8 << 20
_IN_MEMORY = 1 << 20
_LOG, _LISTING, _LABELS = "_delta_log", "bundle.json", "_labels"
_MARKER = re.compile(r"_creating-(?P<host>.{0,40})-(?P<pid>[0-9]+)-[0-9a-f]{12}")
_ABANDONED = 7 * 86400
"""Seconds after which what another machine began is taken for abandoned."""


# -- which store, and with which options -----------------------------------------------------------

_lock = threading.Lock()
_stores: OrderedDict[tuple[str, frozenset[tuple[str, str]], tuple[str, ...]], ObjectStore] = OrderedDict()
_KEPT = 32


def store_of(path: str) -> ObjectStore:
    """Return the store that a URL lies in, with the options given for it or for what it lies in.

    Raises
    ------
    UnsupportedError
        If it is of a kind that is not known.
    InvalidValueError
        If it names no bucket, or an option is not known.
    MissingDependencyError
        If ``obstore`` is not installed.
    """
    scheme, _, rest = path.partition("://")
    bucket = rest.split("/", 1)[0]
    if scheme not in SCHEMES:
        raise UnsupportedError(f"{path!r} is a URL of a kind that is not read: use s3://, gs://, az:// or https://")
    if not bucket:
        raise InvalidValueError(f"{path!r} names no bucket: give it as {scheme}://BUCKET/NAME")
    options = options_for(path)
    with _lock:
        key = f"{scheme}://{bucket}", frozenset(options.items()), variables()
        found = _stores.get(key)
        if found is None:
            found = _stores[key] = (WebSite if scheme.startswith("http") else ObjectStore)(key[0], options)
            if len(_stores) > _KEPT:
                _stores.popitem(last=False)
        return found


# -- a store ---------------------------------------------------------------------------------------


class ObjectStore:
    """Files of a bucket. Implements :class:`sparrow.storage.filesystem.FileSystem`."""

    fetches = True

    def __init__(self, root: str, options: Mapping[str, str]) -> None:
        self._root = root
        self._scheme = root.partition("://")[0]
        self._options = dict(options)
        self._store = client(root, options)
        self._fetched: OrderedDict[Piece, Future[Any]] = OrderedDict()
        self._guard = threading.Lock()

    def __repr__(self) -> str:
        return f"<ObjectStore {self._root}>"

    def __reduce__(self) -> Any:
        raise TypeError(f"the connection to {self._root} is not pickled: open the tensor where it is needed")

    def _key(self, path: str) -> str:
        return path[len(self._root) + 1 :].strip("/")

    def _ask(self, what: str, path: str, work: Callable[..., T], *args: Any, **more: Any) -> T:
        """Return the answer to a request, or raise an error of ours; failures that pass are tried again by obstore."""
        check_process()
        with self._telling(what, path):
            return work(self._store, *args, **more)

    @contextmanager
    def _telling(self, what: str, path: str) -> Iterator[None]:
        from obstore import exceptions

        try:
            yield
        except StorageError:
            raise
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise self._no_bucket() from None
            raise NotFoundError(f"{path!r} cannot be {what}: there is no such file") from None
        except exceptions.AlreadyExistsError:
            raise ExistsError(f"{path!r} exists") from None
        except (exceptions.BaseError, OSError, ValueError) as error:
            raise self._told(what, path, error) from None

    def _no_bucket(self) -> NotFoundError:
        return NotFoundError(
            f"there is no bucket {self._root}: make it first, or look whether name, region and endpoint are right"
        )

    def _told(self, what: str, path: str, error: Exception) -> StorageError:
        """Return the error to raise for one of obstore."""
        from obstore import exceptions

        text = str(error)
        if "NoSuchBucket" in text or "ContainerNotFound" in text:
            return self._no_bucket()
        variables = SCHEMES[self._scheme][0]
        way = f"set {variables}, or give storage_options= to sp.open or save" if variables else "it asks for a password"
        if "169.254.169.254" in text or "metadata.google" in text:
            return StorageError(f"{path!r} cannot be {what}: there are no credentials for {self._root}: {way}")
        refused = isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError)
        if refused or re.search(r"40[13] (Forbidden|Unauthorized)", text):
            code = re.search(r"<Code>(\w+)</Code>", text)
            told = f" ({code[1]})" if code else ""
            return StorageError(f"{path!r} cannot be {what}: access to {self._root} is denied{told}: {way}")
        return StorageError(f"{path!r} cannot be {what}: {short(error)}")

    # -- reading

    def exists(self, path: str) -> bool:
        """Return whether a file is there."""
        return self._head(path) is not None

    def _known(self, path: str) -> Any:
        """Return what is known of a file."""
        import obstore

        return self._counted("read", path, obstore.head, self._key(path))

    def _head(self, path: str) -> Any:
        """Return what is known of a file, None where it is not there."""
        try:
            return self._known(path)
        except NotFoundError:
            return None

    def _counted(self, what: str, path: str, work: Callable[..., T], *args: Any, **more: Any) -> T:
        count_request()
        return self._ask(what, path, work, *args, **more)

    def is_folder(self, path: str) -> bool:
        """Return whether files lie below a path."""
        return next(self._below(path), None) is not None

    def _below(self, path: str) -> Iterator[Any]:
        """Yield what is known of all files below a path."""
        import obstore

        with self._telling("listed", path):
            pages: Any = self._counted("listed", path, obstore.list, self._key(path) or None)
            for found in pages:
                yield from found

    def is_link(self, path: str) -> bool:
        """Return False: there are none."""
        return False

    def names(self, folder: str) -> list[str]:
        """Return the names of files and folders, sorted."""
        import obstore

        key = self._key(folder)
        found: Any = self._counted("listed", folder, obstore.list_with_delimiter, key or None)
        below = [*found["common_prefixes"], *(each["path"] for each in found["objects"])]
        start = len(key) + 1 if key else 0
        return sorted({name[start:].rstrip("/") for name in below} - {""})

    def matching(self, pattern: str) -> list[str]:
        """Return the files whose paths match a pattern; a star stands for what has no slash, two for anything."""
        plain = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
        folder = plain.rpartition("/")[0]
        paths = (f"{self._root}/{found['path']}" for found in self._below(folder))
        return sorted(path for path in paths if _matches(path, pattern))

    def size(self, path: str) -> int:
        """Return the bytes of a file."""
        return int(self._known(path)["size"])

    def modified(self, path: str) -> float:
        """Return when a file was put there, of a folder the youngest file below it."""
        found = self._head(path)
        if found is not None:
            return float(found["last_modified"].timestamp())
        times = [float(each["last_modified"].timestamp()) for each in self._below(path)]
        if not times:
            raise NotFoundError(f"{path!r} cannot be read: there is no such file")
        return max(times)

    def stamp(self, path: str) -> Hashable:
        """Return nothing that changes: a name tells what is in a file, and each piece that is fetched is checked."""
        return ()

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        import obstore

        key = self._key(path)
        data = self._ask("read", path, lambda store: bytes(obstore.get(store, key).bytes()))
        count_request(len(data))
        return data

    def read_all(self, paths: Sequence[str]) -> Iterator[bytes | None]:
        """Yield the contents of files, fetched side by side."""

        def work(path: str) -> bytes | None:
            try:
                return self.read(path)
            except NotFoundError:
                return None

        for start in range(0, len(paths), 2 * _CONNECTIONS):
            part = paths[start : start + 2 * _CONNECTIONS]
            if len(part) == 1:
                yield work(part[0])
            else:
                yield from [done.result() for done in [_pool().submit(copy_context().run, work, each) for each in part]]

    def end(self, path: str, most: int) -> tuple[bytes, int]:
        """Return the last bytes of a file and its size, by one request."""
        data, size = self.fetch((path, -1, most))
        return data, size

    def open(self, path: str, through: bool = False, size: int | None = None) -> pa.NativeFile:
        """Open a file; asks nothing yet."""
        return pa.PythonFile(RemoteFile(self, path, WINDOW if through else 0, size), mode="r")

    @contextmanager
    def near(self, path: str) -> Iterator[str]:
        """Fetch a file into the temporary folder."""
        suffix = os.path.splitext(path)[1]
        with tempfile.NamedTemporaryFile(dir=settings.current().temp_directory, suffix=suffix) as local:
            with self.open(path, through=True) as file:
                while data := file.read(WINDOW):
                    local.write(data)
            local.flush()
            yield local.name

    def fetch(self, piece: Piece) -> Any:
        """Return the bytes of a piece, fetched ahead or now; one that begins at -1 is the end, told with the size."""
        with self._guard:
            ready = self._fetched.pop(piece, None)
        if ready is not None:
            with contextlib.suppress(StorageError):  # it may have been asked for long ago
                return ready.result()
        return self._fetch(piece)

    def _fetch(self, piece: Piece) -> Any:
        import obstore

        path, start, length = piece
        key = self._key(path)

        def end(store: Any) -> tuple[bytes, int]:
            try:
                found = obstore.get(store, key, options={"range": {"suffix": length}})
            except Exception as error:
                if "416" in str(error) or "not supported" in str(error).lower():  # an empty file, or Azure
                    size = int(obstore.head(store, key)["size"])
                    first = max(0, size - length)
                    return (bytes(obstore.get_range(store, key, start=first, end=size)) if size else b""), size
                raise
            return bytes(found.bytes()), int(found.meta["size"])

        if start < 0:
            tail, size = self._ask("read", path, end)
            count_request(len(tail))
            return tail, size
        data = self._ask("read", path, obstore.get_range, key, start=start, length=length) if length else b""
        count_request(len(data))
        return data

    def ends_ahead(self, paths: Sequence[str], most: int) -> None:
        """Fetch the ends of files at once."""
        if len(paths) > 1:
            self.pieces_ahead([(path, -1, most) for path in paths])

    def pieces_ahead(self, pieces: Sequence[Piece]) -> None:
        """Fetch pieces while others are worked on; those that nobody came for make room."""
        with self._guard:
            for piece in pieces:
                if piece not in self._fetched:
                    self._fetched[piece] = _pool().submit(copy_context().run, self._fetch, piece)
            while sum(length for _, _, length in self._fetched) > _AHEAD_BYTES:
                self._fetched.popitem(last=False)[1].cancel()

    def delta_options(self) -> dict[str, str] | None:
        """Return the options as they were given."""
        return self._options or None

    def identity(self, path: str) -> str:
        """Return the URL."""
        return path.rstrip("/")

    # -- writing

    def disk(self, path: str) -> str | None:
        """Return None."""
        return None

    def make_folder(self, path: str) -> None:
        """Do nothing: folders are what names begin with."""

    def new_file(self, folder: str) -> NewFile:
        """Begin a file in the temporary folder of this machine; it is put where it belongs when it is whole."""
        return _Upload(self, folder)

    def put(self, path: str, data: bytes) -> bool:
        """Put a file where none is."""
        import obstore

        try:
            self._counted("written", path, obstore.put, self._key(path), data, mode="create")
        except ExistsError:
            return self.read(path) == data  # ours, where the answer to the first try was lost
        _note(path)
        return True

    def upload(self, path: str, file: BinaryIO) -> None:
        """Put a whole file, in the place of what has its name."""
        import obstore

        file.seek(0)
        self._counted(
            "written", path, obstore.put, self._key(path), file, chunk_size=_UPLOAD, max_concurrency=_CONNECTIONS // 4
        )
        _note(path)

    @contextmanager
    def replacing(self, path: str) -> Iterator[BinaryIO]:
        """Write a file on this machine and put it in place."""
        with _spooled() as file:
            yield file
            self.upload(path, file)

    def touch(self, path: str) -> None:
        """Put a file again, since a store copies none onto itself."""
        with _spooled() as file, self.open(path, through=True) as old:
            while data := old.read(WINDOW):
                file.write(data)
            self.upload(path, file)

    def settle(self, path: str) -> None:
        """Do nothing but take note: what a store has said yes to, it keeps."""
        _note(path)
        for each in _staging.get():
            if each.replaces and path.startswith(f"{each.path}/{_LOG}/"):
                each.published = True

    def delete(self, path: str) -> None:
        """Delete a file, or all that is below it."""
        self._delete_files([f"{self._root}/{found['path']}" for found in self._below(path)] or [path])

    def _delete_files(self, paths: Sequence[str]) -> None:
        import obstore

        if paths:
            with contextlib.suppress(NotFoundError):
                self._counted("deleted", paths[0], obstore.delete, [self._key(path) for path in paths])

    # -- new tensors and bundles

    def occupied(self, path: str) -> bool:
        """Return whether a tensor, a bundle or anything of others is there; what is being made does not count."""
        names = self.names(path)
        if _visible(names):
            return True
        if any(map(_MARKER.fullmatch, names)):
            return False
        return bool(names) or self._head(path) is not None

    def folder(self, path: str) -> Folder:
        """Return a URL that names are joined to."""
        return _Url(path)

    def recover(self, path: str) -> None:
        """Do nothing: nothing is ever put aside."""

    def stage(self, path: str, replace: bool = False) -> str:
        """Put a marker into the folder itself, and clear what processes left that are gone.

        A tensor that is to be replaced is left as it is: what was written and not committed is what ``vacuum`` deletes.
        """
        names = self.names(path)
        if _LISTING in names:
            raise UnsupportedError(
                f"{path!r} is a bundle, and on an object store nothing takes the place of several tensors in one step: "
                "choose another name, or delete it first"
            )
        if _LOG in names:
            if not replace:
                raise ExistsError(f"{path!r} exists: another process created it meanwhile")
            _staging.set((*_staging.get(), _Staging(path, None)))
            return path
        markers = [name for name in names if _MARKER.fullmatch(name)]
        gone = [name for name in markers if self._abandoned(path, name)]
        if gone and len(gone) == len(markers):
            self.delete(path)
        elif gone:
            self._delete_files([f"{path}/{name}" for name in gone])
        name = f"_creating-{socket.gethostname()[:40]}-{os.getpid()}-{os.urandom(6).hex()}"
        staging = _Staging(path, f"{path}/{name}")
        self.put(f"{path}/{name}", b"")
        _staging.set((*_staging.get(), staging))
        return path

    def _abandoned(self, path: str, name: str) -> bool:
        """Return whether the process that put a marker is gone, as far as that can be told."""
        found = _MARKER.fullmatch(name)
        assert found is not None
        if found["host"] == socket.gethostname()[:40]:
            return not alive(int(found["pid"]))
        try:
            return time.time() - self.modified(f"{path}/{name}") > _ABANDONED
        except NotFoundError:
            return True

    def replaces(self, staged: str) -> bool:
        """Return whether there is a tensor already, which stays until the log says otherwise."""
        return any(each.replaces and each.path == staged for each in _staging.get())

    def publish(self, staged: str, path: str, replace: bool) -> None:
        """Take note that what was staged is to stay: its log, or its listing, made it visible."""
        _staging.get()[-1].published = True

    def drop(self, staged: str) -> None:
        """Delete what this process put there, unless it was published, and the marker."""
        *rest, own = _staging.get()
        _staging.set(tuple(rest))
        with contextlib.suppress(StorageError):  # what cannot be deleted now is cleared by who comes next
            with own.guard:
                written = [] if own.published else sorted(own.written, key=_visible_last)
            if own.replaces:  # labels are called by their content alone: they may be those of the tensor that stays
                written = [path for path in written if f"/{_LABELS}/" not in path]
            self._delete_files(written if own.marker is None else [*written, own.marker])


class WebSite(ObjectStore):
    """Files of a web server, to be read."""

    def _key(self, path: str) -> str:
        return unquote(super()._key(path))

    def open(self, path: str, through: bool = False, size: int | None = None) -> pa.NativeFile:
        """Open a file; one of a server that sends whole files only is fetched into the temporary folder."""
        import obstore

        key = self._key(path)
        try:
            self._counted("read", path, obstore.get_range, key, start=0, length=1)
        except NotFoundError:
            raise
        except StorageError:
            file = _spooled()

            def fetch(store: Any) -> None:
                for data in obstore.get(store, key).stream(WINDOW):
                    file.write(data)
                    count_request(len(data))

            self._ask("read", path, fetch)
            file.seek(0)
            return pa.PythonFile(file, mode="r")
        return super().open(path, through, size)

    def is_folder(self, path: str) -> bool:
        """Return False: servers list no files, so what lies below an address is not known."""
        return False

    def matching(self, pattern: str) -> list[str]:
        """Refuse a pattern: servers list no files."""
        raise UnsupportedError(f"{pattern!r} is a pattern, and web servers list no files: give the files one by one")

    def _refuse(self, path: str) -> UnsupportedError:
        return UnsupportedError(
            f"{path!r} is a URL of the web, where files are read that sp.ingest takes: tensors live in folders of this "
            "machine and on s3://, gs:// and az://"
        )

    def occupied(self, path: str) -> bool:
        """Refuse to write."""
        raise self._refuse(path)

    def recover(self, path: str) -> None:
        """Refuse to look for a tensor."""
        raise self._refuse(path)

    @contextmanager
    def replacing(self, path: str) -> Iterator[BinaryIO]:
        """Refuse to write."""
        raise self._refuse(path)
        yield


class _Staging:
    """What a process puts below a path that is not published yet."""

    def __init__(self, path: str, marker: str | None) -> None:
        self.path, self.marker = path, marker
        self.replaces = marker is None
        self.written: set[str] = set()
        self.published = False
        self.guard = threading.Lock()


_staging: ContextVar[tuple[_Staging, ...]] = ContextVar("sparrow_staging", default=())


def _note(path: str) -> None:
    """Take note that a file was put, for all that is being made here."""
    for each in _staging.get():
        if path.startswith(f"{each.path}/"):
            with each.guard:
                each.written.add(path)


def _visible(names: Sequence[str]) -> bool:
    """Return whether the names in a folder are those of a tensor or bundle."""
    return _LOG in names or _LISTING in names


def _visible_last(path: str) -> tuple[bool, str]:
    """Sort logs and listings first: what is deleted becomes invisible before it becomes incomplete."""
    return f"/{_LOG}/" not in path and not path.endswith(f"/{_LISTING}"), path


class _Upload:
    """A file on its way. Implements :class:`sparrow.storage.filesystem.NewFile`."""

    def __init__(self, store: ObjectStore, folder: str) -> None:
        self._store, self._folder = store, folder
        self._file = _spooled()

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


def _spooled() -> Any:
    """Return a file of this machine that nobody sees, and that ends with the process."""
    return tempfile.SpooledTemporaryFile(_IN_MEMORY, dir=settings.current().temp_directory)


class _Url(os.PathLike[str]):
    """A folder of a store. Implements :class:`sparrow.storage.filesystem.Folder`."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __fspath__(self) -> str:
        return self._path

    __str__ = __fspath__

    def __repr__(self) -> str:
        return f"<{without_secrets(self._path)}>"

    def __truediv__(self, name: str) -> _Url:
        return _Url(f"{self._path}/{name}")


# -- threads ---------------------------------------------------------------------------------------

_threads: ThreadPoolExecutor | None = None


def _pool() -> ThreadPoolExecutor:
    """Return the threads that wait for stores; they do no work."""
    global _threads
    if _threads is None:
        _threads = ThreadPoolExecutor(_CONNECTIONS, "sparrow-fetch")
    return _threads


def _after_fork() -> None:
    global _threads, _lock
    _threads, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def _matches(path: str, pattern: str) -> bool:
    """Return whether a path matches a pattern part by part."""
    if "**" in pattern:
        return fnmatchcase(path, pattern.replace("**/", "*").replace("**", "*"))
    own, wanted = path.split("/"), pattern.split("/")
    return len(own) == len(wanted) and all(map(fnmatchcase, own, wanted))
