"""Object stores: files below a URL, put and read whole or by ranges, over ``obstore``.

Nothing is renamed: files appear under their own names, which carry the hash of what is in them, and a new tensor is
visible by version 0 of its log, put last and only where none is. A marker beside what is being made tells whose it is,
so that what killed processes left is cleared. Readers say what they will read next, and it is fetched meanwhile.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import copy_context
from fnmatch import fnmatchcase
from typing import Any, BinaryIO, TypeVar

import pyarrow as pa

from sparrow.errors import ExistsError, InvalidValueError, NotFoundError, StorageError, UnsupportedError
from sparrow.runtime import settings
from sparrow.runtime.thread_pool import Pool
from sparrow.storage.fs import staging
from sparrow.storage.fs.credentials import SCHEMES, check_process, connect, summarize_error
from sparrow.storage.fs.filesystem import ByteRange, Folder, NewFile, count_request, pinned_versions
from sparrow.storage.fs.remote_file import WINDOW, RemoteFile, Upload, Url, Version, spooled, version_of

__all__ = ["ObjectStore"]

T = TypeVar("T")

_CONNECTIONS = 16
_AHEAD_BYTES = 128 << 20
"""Bytes that may wait for those who said that they would read them."""
_UPLOAD = 8 << 20
_ABANDONED = 7 * 86400
"""Seconds after which what another machine began is taken for abandoned."""


class ObjectStore:
    """Files of a bucket. Implements :class:`sparrow.storage.fs.filesystem.FileSystem`."""

    is_remote = True

    def __init__(self, root: str, options: Mapping[str, str]) -> None:
        self._root = root
        self._scheme = root.partition("://")[0]
        self._options = dict(options)
        self._store = connect(root, options)
        self._fetched: OrderedDict[tuple[ByteRange, Version | None], Future[tuple[bytes, Version]]] = OrderedDict()
        self._guard = threading.Lock()

    def __repr__(self) -> str:
        return f"<ObjectStore {self._root}>"

    def __reduce__(self) -> Any:
        raise TypeError(f"the connection to {self._root} is not pickled: open the tensor where it is needed")

    def _key(self, path: str) -> str:
        key = path[len(self._root) + 1 :].rstrip("/")
        if key and {"", ".", ".."} & {*key.split("/")}:
            raise InvalidValueError(f"{path!r} has a part that is empty or dots, which stores have no folders for")
        return key

    def _ask(self, what: str, path: str, work: Callable[..., T], *args: Any, **more: Any) -> T:
        """Return the answer to a request, or raise an error of ours; failures that pass are tried again by obstore."""
        from obstore import exceptions

        check_process()
        try:
            return work(self._store, *args, **more)
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
        if "builder error" in text and (endpoint := re.search(r"http://[^/\s]+", text)):
            name = f"{SCHEMES[self._scheme][1]}allow_http"
            return StorageError(
                f"{path!r} cannot be {what}: {endpoint[0]} is not encrypted; to allow that set {name.upper()}=true, or "
                f"give storage_options={{{name!r}: 'true'}}"
            )
        refused = isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError)
        if refused or re.search(r"40[13] (Forbidden|Unauthorized)", text):
            code = re.search(r"<Code>(\w+)</Code>", text)
            told = f" ({code[1]})" if code else ""
            return StorageError(f"{path!r} cannot be {what}: access to {self._root} is denied{told}: {way}")
        return StorageError(f"{path!r} cannot be {what}: {summarize_error(error)}")

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

        pages: Any = iter(self._counted("listed", path, obstore.list, self._key(path) or None))
        while (page := self._ask("listed", path, lambda _: next(pages, None))) is not None:
            yield from page

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

    def glob(self, pattern: str) -> list[str]:
        """Return the files whose paths match a pattern; a star stands for what has no slash, two for anything."""
        plain = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
        folder = plain.rpartition("/")[0]
        paths = (f"{self._root}/{found['path']}" for found in self._below(folder))
        return sorted(path for path in paths if _matches(path, pattern))

    def size(self, path: str) -> int:
        """Return the bytes of a file."""
        found = self.version(path)
        pinned_versions().setdefault(path, found)
        return found.size

    def version(self, path: str) -> Version:
        """Return what tells a file from what takes its place."""
        return version_of(self._known(path))

    def modified_time(self, path: str) -> float:
        """Return when a file was put there, of a folder the youngest file below it."""
        found = self._head(path)
        if found is not None:
            return float(found["last_modified"].timestamp())
        times = [float(each["last_modified"].timestamp()) for each in self._below(path)]
        if not times:
            raise NotFoundError(f"{path!r} cannot be read: there is no such file")
        return max(times)

    def fingerprint(self, path: str) -> Hashable:
        """Return nothing that changes: a name tells what is in a file, and each piece that is fetched is checked."""
        return ()

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        import obstore

        key = self._key(path)
        data = self._ask("read", path, lambda store: bytes(obstore.get(store, key).bytes()))
        count_request(len(data))
        return data

    def read_many(self, paths: Sequence[str]) -> Iterator[bytes | None]:
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

    def read_tail(self, path: str, most: int) -> tuple[bytes, int]:
        """Return the last bytes of a file and its size, by one request."""
        data, found = self.fetch((path, -1, most))
        return data, found.size

    def open(
        self, path: str, sequential: bool = False, size: int | None = None, immutable: bool = False
    ) -> pa.NativeFile:
        """Open a file; asks nothing yet."""
        known = None if immutable else pinned_versions()
        return pa.PythonFile(RemoteFile(self, path, WINDOW if sequential else 0, size, known), mode="r")

    @contextmanager
    def local_copy(self, path: str) -> Iterator[str]:
        """Fetch a file into the temporary folder."""
        suffix = os.path.splitext(path)[1]
        with tempfile.NamedTemporaryFile(dir=settings.current().temp_directory, suffix=suffix) as local:
            with self.open(path, sequential=True) as file:
                while data := file.read(WINDOW):
                    local.write(data)
            local.flush()
            yield local.name

    def fetch(self, piece: ByteRange, version: Version | None = None) -> tuple[bytes, Version]:
        """Return the bytes of a piece and of which version they are, fetched ahead of that version or now.

        A piece that begins at -1 is the end.
        """
        with self._guard:
            ready = self._fetched.pop((piece, version), None)
        if ready is not None:
            with contextlib.suppress(StorageError):  # it may have been asked for long ago
                data, found = ready.result()
                if version is None or not found.differs(version):
                    return data, found
        return self._fetch(piece)

    def _fetch(self, piece: ByteRange) -> tuple[bytes, Version]:
        import obstore

        path, start, length = piece
        key = self._key(path)

        def part(store: Any, span: Any) -> tuple[bytes, Version]:
            found = obstore.get(store, key, options={"range": span})
            return bytes(found.bytes()), version_of(found.meta)

        def end(store: Any) -> tuple[bytes, Version]:
            try:
                return part(store, {"suffix": length})
            except Exception as error:
                if "416" in str(error) or "not supported" in str(error).lower():  # an empty file, or Azure
                    known = version_of(obstore.head(store, key))
                    first = max(0, known.size - length)
                    return part(store, (first, known.size)) if known.size else (b"", known)
                raise

        data, version = (
            self._ask("read", path, end) if start < 0 else self._ask("read", path, part, (start, start + length))
        )
        count_request(len(data))
        return data, version

    def prefetch_tails(self, paths: Sequence[str], most: int) -> None:
        """Fetch the ends of files at once."""
        if len(paths) > 1:
            self.prefetch_ranges([(path, -1, most) for path in paths])

    def prefetch_ranges(self, pieces: Sequence[ByteRange], version: Version | None = None) -> None:
        """Fetch pieces while others are worked on; those that nobody came for make room."""
        with self._guard:
            for piece in pieces:
                if (piece, version) not in self._fetched:
                    self._fetched[piece, version] = _pool().submit(copy_context().run, self._fetch, piece)
            while sum(length for (_, _, length), _ in self._fetched) > _AHEAD_BYTES:
                self._fetched.popitem(last=False)[1].cancel()

    def delta_options(self) -> dict[str, str] | None:
        """Return the options as they were given."""
        return self._options or None

    def identity(self, path: str) -> str:
        """Return the URL."""
        return path.rstrip("/")

    # -- writing

    def local_disk(self, path: str) -> str | None:
        """Return None."""
        return None

    def make_folder(self, path: str) -> None:
        """Do nothing: folders are what names begin with."""

    def create_file(self, folder: str) -> NewFile:
        """Begin a file in the temporary folder of this machine; it is put where it belongs when it is whole."""
        return Upload(self, folder)

    def put(self, path: str, data: bytes) -> bool:
        """Put a file where none is."""
        import obstore

        try:
            self._counted("written", path, obstore.put, self._key(path), data, mode="create")
        except ExistsError:
            return self.read(path) == data  # ours, where the answer to the first try was lost
        staging.note(path)
        return True

    def upload(self, path: str, file: BinaryIO) -> None:
        """Put a whole file, in the place of what has its name."""
        import obstore

        file.seek(0)
        self._counted(
            "written", path, obstore.put, self._key(path), file, chunk_size=_UPLOAD, max_concurrency=_CONNECTIONS // 4
        )
        staging.note(path)

    @contextmanager
    def replacing(self, path: str) -> Iterator[BinaryIO]:
        """Write a file on this machine and put it in place."""
        with spooled() as file:
            yield file
            self.upload(path, file)

    def touch(self, path: str) -> None:
        """Put a file again, since a store copies none onto itself."""
        with spooled() as file, self.open(path, sequential=True, immutable=True) as old:
            while data := old.read(WINDOW):
                file.write(data)
            self.upload(path, file)

    def make_durable(self, path: str) -> None:
        """Do nothing but take note: what a store has said yes to, it keeps."""
        staging.note(path)
        for each in staging.making.get():
            if each.is_replacement and path.startswith(f"{each.path}/{staging.LOG}/"):
                each.published = True

    def delete(self, path: str) -> None:
        """Delete a file, or all that is below it."""
        self._delete_files([f"{self._root}/{found['path']}" for found in self._below(path)] or [path])

    def _delete_files(self, paths: Sequence[str]) -> None:
        import obstore

        for _, turn in itertools.groupby(sorted(paths, key=staging.turn), staging.turn):
            part = list(turn)  # which some stores delete in any order
            try:
                self._counted("deleted", part[0], obstore.delete, [self._key(path) for path in part])
            except NotFoundError:  # another process cleared it too
                for path in part if len(part) > 1 else ():
                    self._delete_files([path])

    # -- new tensors and bundles

    def is_occupied(self, path: str) -> bool:
        """Return whether a tensor, a bundle or anything of others is there; what is being made does not count."""
        names = self.names(path)
        if staging.visible(names):
            return True
        if any(map(staging.is_marker, names)):
            return False
        return bool(names) or self._head(path) is not None

    def folder(self, path: str) -> Folder:
        """Return a URL that names are joined to."""
        return Url(path)

    def recover(self, path: str) -> None:
        """Do nothing: nothing is ever put aside."""

    def stage(self, path: str, replace: bool = False) -> str:
        """Put a marker into the folder itself, and clear what processes left that are gone.

        A tensor that is to be replaced is left as it is: what was written and not committed is what ``vacuum`` deletes.
        """
        names = self.names(path)
        if staging.LISTING in names:
            raise UnsupportedError(
                f"{path!r} is a bundle, and on an object store nothing takes the place of several tensors in one step: "
                "choose another name, or delete it first"
            )
        if staging.LOG in names:
            if not replace:
                raise ExistsError(f"{path!r} exists: another process created it meanwhile")
            staging.making.set((*staging.making.get(), staging.Staging(path, None)))
            return path
        markers = [name for name in names if staging.is_marker(name)]
        gone = [name for name in markers if self._abandoned(path, name)]
        if gone and len(gone) == len(markers):
            self.delete(path)
        elif gone:
            self._delete_files([f"{path}/{name}" for name in gone])
        marker = f"{path}/{staging.new_marker()}"
        self.put(marker, b"")
        staging.making.set((*staging.making.get(), staging.Staging(path, marker)))
        return path

    def _abandoned(self, path: str, marker: str) -> bool:
        """Return whether the process that put a marker is gone, as far as that can be told."""
        if (gone := staging.is_gone(marker)) is not None:
            return gone
        try:
            return time.time() - self.modified_time(f"{path}/{marker}") > _ABANDONED
        except NotFoundError:
            return True

    def is_replacement(self, staged: str) -> bool:
        """Return whether there is a tensor already, which stays until the log says otherwise."""
        return any(each.is_replacement and each.path == staged for each in staging.making.get())

    def publish(self, staged: str, path: str, replace: bool) -> None:
        """Take note that what was staged is to stay: its log, or its listing, made it visible."""
        staging.making.get()[-1].published = True

    def discard_staged(self, staged: str) -> None:
        """Delete what this process put there, unless it was published, and the marker."""
        *rest, own = staging.making.get()
        staging.making.set(tuple(rest))
        with contextlib.suppress(StorageError):  # what cannot be deleted now is cleared by who comes next
            with own.guard:
                written = [] if own.published else sorted(own.written)
            if (
                own.is_replacement
            ):  # labels are called by their content alone: they may be those of the tensor that stays
                written = [path for path in written if f"/{staging.LABELS}/" not in path]
            self._delete_files(written if own.marker is None else [*written, own.marker])


_threads: Pool | None = None


def _pool() -> Pool:
    """Return the threads that wait for stores; they do no work."""
    global _threads
    if _threads is None or _threads.ended:
        _threads = Pool(_CONNECTIONS, "sparrow-fetch")
    return _threads


def _after_fork() -> None:
    global _threads
    _threads = None


os.register_at_fork(after_in_child=_after_fork)


def _matches(path: str, pattern: str) -> bool:
    """Return whether a path matches a pattern part by part."""
    if "**" in pattern:
        return fnmatchcase(path, pattern.replace("**/", "*").replace("**", "*"))
    own, wanted = path.split("/"), pattern.split("/")
    return len(own) == len(wanted) and all(map(fnmatchcase, own, wanted))
