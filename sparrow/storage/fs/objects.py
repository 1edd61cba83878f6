"""Object stores: files below a URL, through ``obstore``.

Nothing is renamed. Data files carry the hash of their content in their names, and a new tensor becomes visible by
version 0 of its log, put last and only if absent. A marker beside an unpublished tensor names its owner, so that what
killed processes left is deleted. Scans announce the ranges they will read, which are fetched in the background.
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
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from fnmatch import fnmatchcase
from typing import Any, BinaryIO, Self, TypeVar

import pyarrow as pa

from sparrow.errors import ExistsError, InvalidValueError, NotFoundError, StorageError, UnsupportedError
from sparrow.runtime import settings
from sparrow.runtime.threads import Pool, Task
from sparrow.storage.fs import staging
from sparrow.storage.fs.credentials import (
    check_process,
    connect,
    environment_variables,
    options_for,
    provider_of,
    summarize_error,
)
from sparrow.storage.fs.failures import repeat_cut
from sparrow.storage.fs.protocols import ByteRange, Folder, NewFile, Prefetcher
from sparrow.storage.fs.remote_file import (
    RemoteFile,
    Upload,
    UrlFolder,
    Version,
    pinned_versions,
    spooled_file,
    version_of,
)
from sparrow.storage.fs.traffic import count_request
from sparrow.storage.tuning import tuning

__all__ = ["ObjectStore"]

T = TypeVar("T")

_lock = threading.Lock()
_stores: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
_threads: Pool | None = None


class ObjectStore:
    """Files of a bucket.

    Implements :class:`~sparrow.storage.fs.protocols.FileSystem`.
    """

    is_remote = True

    def __init__(self, root: str, options: Mapping[str, str]) -> None:
        self._root = root
        self._scheme = root.partition("://")[0]
        self._options = dict(options)
        self._store = connect(root, options)
        self._fetched: OrderedDict[tuple[ByteRange, Version | None], Task[tuple[bytes, Version]]] = OrderedDict()
        self._guard = threading.Lock()

    @classmethod
    def for_path(cls, path: str) -> Self:
        """Return the store of a URL, cached by bucket, options and environment.

        Raises
        ------
        InvalidValueError
            If it has no bucket, or an option is unknown.
        MissingDependencyError
            If ``obstore`` is not installed.
        """
        scheme, _, rest = path.partition("://")
        bucket = rest.split("/", 1)[0]
        if not bucket:
            raise InvalidValueError(f"{path!r} must name a bucket: {scheme}://BUCKET/NAME")
        options = options_for(path)
        with _lock:
            key = cls, f"{scheme}://{bucket}", frozenset(options.items()), environment_variables()
            found = _stores.get(key)
            if found is None:
                found = _stores[key] = cls(f"{scheme}://{bucket}", options)
                if len(_stores) > tuning().cached_stores:
                    _stores.popitem(last=False)
            store: Self = found
            return store

    def __repr__(self) -> str:
        return f"<ObjectStore {self._root}>"

    def __reduce__(self) -> Any:
        raise TypeError(f"the connection to {self._root} cannot be pickled: open the tensor where it is needed")

    def _key(self, path: str) -> str:
        key = path[len(self._root) + 1 :].rstrip("/")
        if key and {"", ".", ".."} & {*key.split("/")}:
            raise InvalidValueError(f"{path!r} has a part that is empty or dots, which object stores do not resolve")
        return key

    def _request(self, what: str, path: str, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Call a function of obstore and count it as a request."""
        count_request()
        return self._call(what, path, function, *args, **kwargs)

    def _call(self, what: str, path: str, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Call a function of obstore, which retries transient failures itself.

        Raise our errors.
        """
        from obstore import exceptions

        check_process()
        try:
            return repeat_cut(lambda: function(self._store, *args, **kwargs))
        except StorageError:
            raise
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise self._no_bucket() from None
            raise NotFoundError(f"{path!r} cannot be {what}: there is no such file") from None
        except exceptions.AlreadyExistsError:
            raise ExistsError(f"{path!r} exists") from None
        except (exceptions.BaseError, OSError, ValueError) as error:
            raise self._translate_error(what, path, error) from None

    def _no_bucket(self) -> NotFoundError:
        return NotFoundError(f"there is no bucket {self._root}: make it first, or check name, region and endpoint")

    def _translate_error(self, what: str, path: str, error: Exception) -> StorageError:
        """Return the error to raise for one of obstore."""
        from obstore import exceptions

        text = str(error)
        if "NoSuchBucket" in text or "ContainerNotFound" in text:
            return self._no_bucket()
        provider = provider_of(self._scheme)
        way_out = "it requires a password"
        if provider.credentials:
            way_out = f"set {provider.credentials}, or pass storage_options= to sp.open or save"
        if "169.254.169.254" in text or "metadata.google" in text:
            return StorageError(f"{path!r} cannot be {what}: there are no credentials for {self._root}: {way_out}")
        if "builder error" in text and (endpoint := re.search(r"http://[^/\s]+", text)):
            name = f"{provider.prefix}allow_http"
            return StorageError(
                f"{path!r} cannot be {what}: {endpoint[0]} is not encrypted; to allow that set {name.upper()}=true, or "
                f"pass storage_options={{{name!r}: 'true'}}"
            )
        refused = isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError)
        if refused or re.search(r"40[13] (Forbidden|Unauthorized)", text):
            code = re.search(r"<Code>(\w+)</Code>", text)
            reason = f" ({code[1]})" if code else ""
            return StorageError(f"{path!r} cannot be {what}: access to {self._root} is denied{reason}: {way_out}")
        return StorageError(f"{path!r} cannot be {what}: {summarize_error(error)}")

    # -- reading

    def exists(self, path: str) -> bool:
        """Return whether a file exists."""
        return self._metadata_or_none(path) is not None

    def _metadata(self, path: str) -> Any:
        """Return the metadata of a file."""
        import obstore

        return self._request("read", path, obstore.head, self._key(path))

    def _metadata_or_none(self, path: str) -> Any:
        try:
            return self._metadata(path)
        except NotFoundError:
            return None

    def is_folder(self, path: str) -> bool:
        """Return whether files exist below a path."""
        return next(self._iter_below(path), None) is not None

    def _iter_below(self, path: str) -> Iterator[Any]:
        """Yield the metadata of all files below a path."""
        import obstore

        last: str | None = None
        pages: Any = None

        def read(store: Any) -> Any:
            nonlocal pages
            try:
                pages = iter(obstore.list(store, self._key(path) or None, offset=last)) if pages is None else pages
                return next(pages, None)
            except Exception:
                pages = None  # begin again after what was read
                raise

        count_request()
        while (page := self._call("listed", path, read)) is not None:
            yield from page
            last = page[-1]["path"] if page else last

    def is_link(self, path: str) -> bool:
        """Return False: object stores have no links."""
        return False

    def names(self, folder: str) -> list[str]:
        """List the names of files and folders in a folder, sorted."""
        import obstore

        key = self._key(folder)
        found: Any = self._request("listed", folder, obstore.list_with_delimiter, key or None)
        below = [*found["common_prefixes"], *(each["path"] for each in found["objects"])]
        start = len(key) + 1 if key else 0
        return sorted({name[start:].rstrip("/") for name in below} - {""})

    def glob(self, pattern: str) -> list[str]:
        """List the files whose paths match a pattern, sorted.

        ``*`` does not match a slash, ``**`` does.
        """
        plain = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
        folder = plain.rpartition("/")[0]
        paths = (f"{self._root}/{found['path']}" for found in self._iter_below(folder))
        return sorted(path for path in paths if _matches(path, pattern))

    def size(self, path: str) -> int:
        """Return the size of a file in bytes."""
        found = self.version(path)
        pinned_versions().setdefault(path, found)
        return found.size

    def version(self, path: str) -> Version:
        """Return the current version of a file."""
        return version_of(self._metadata(path))

    def modified_time(self, path: str) -> float:
        """Return the modification time of a file, or of the youngest file below a folder."""
        found = self._metadata_or_none(path)
        if found is not None:
            return float(found["last_modified"].timestamp())
        times = [float(each["last_modified"].timestamp()) for each in self._iter_below(path)]
        if not times:
            raise NotFoundError(f"{path!r} cannot be read: there is no such file")
        return max(times)

    def fingerprint(self, path: str) -> Hashable:
        """Return a constant: what is fetched is verified by checksums."""
        return ()

    def folder_identity(self, path: str) -> Hashable:
        """Return a constant: a tensor is replaced by a commit to its log."""
        return ()

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        import obstore

        key = self._key(path)
        data = self._call("read", path, lambda store: _body(obstore.get(store, key), path)[0])
        count_request(len(data))
        return data

    def read_many(self, paths: Sequence[str]) -> Iterator[bytes | None]:
        """Yield the contents of files, fetched concurrently."""

        def read(path: str) -> bytes | None:
            try:
                return self.read(path)
            except NotFoundError:
                return None

        batch = 2 * tuning().connections
        for start in range(0, len(paths), batch):
            part = paths[start : start + batch]
            if len(part) == 1:
                yield read(part[0])
            else:
                yield from [done.result() for done in [_pool().submit(copy_context().run, read, each) for each in part]]

    def read_tail(self, path: str, most: int) -> tuple[bytes, int]:
        """Return the last bytes of a file and its size, by one request."""
        data, found = self.fetch((path, -1, most))
        return data, found.size

    def open(
        self, path: str, sequential: bool = False, size: int | None = None, immutable: bool = False
    ) -> pa.NativeFile:
        """Open a file; makes no request yet."""
        known = None if immutable else pinned_versions()
        window = tuning().window_bytes if sequential else 0
        return pa.PythonFile(RemoteFile(self, path, window, size, known), mode="r")

    @contextmanager
    def local_copy(self, path: str) -> Iterator[str]:
        """Fetch a file into the temporary folder."""
        suffix = os.path.splitext(path)[1]
        with tempfile.NamedTemporaryFile(dir=settings.current().temp_directory, suffix=suffix) as local:
            with self.open(path, sequential=True) as file:
                while data := file.read(tuning().window_bytes):
                    local.write(data)
            local.flush()
            yield local.name

    def fetch(self, piece: ByteRange, version: Version | None = None) -> tuple[bytes, Version]:
        """Return the bytes of a range and their version, prefetched or fetched now.

        A range of offset -1 is the tail of the file.
        """
        with self._guard:
            ready = self._fetched.pop((piece, version), None)
        if ready is not None:
            with contextlib.suppress(StorageError):  # fetched long ago, perhaps: try again now
                data, found = ready.result()
                if version is None or not found.differs(version):
                    return data, found
        return self._fetch(piece)

    def _fetch(self, piece: ByteRange) -> tuple[bytes, Version]:
        import obstore

        path, start, length = piece
        key = self._key(path)

        def get(store: Any, span: Any) -> tuple[bytes, Version]:
            return _body(obstore.get(store, key, options={"range": span}), path)

        def get_tail(store: Any) -> tuple[bytes, Version]:
            try:
                return get(store, {"suffix": length})
            except Exception as error:
                if "416" in str(error) or "not supported" in str(error).lower():  # an empty file, or Azure
                    known = version_of(obstore.head(store, key))
                    first = max(0, known.size - length)
                    return get(store, (first, known.size)) if known.size else (b"", known)
                raise

        data, version = (
            self._call("read", path, get_tail) if start < 0 else self._call("read", path, get, (start, start + length))
        )
        count_request(len(data))
        return data, version

    @property
    def prefetcher(self) -> Prefetcher:
        """The store itself."""
        return self

    def prefetch_tails(self, paths: Sequence[str], most: int) -> None:
        """Fetch the tails of files concurrently."""
        if len(paths) > 1:
            self.prefetch_ranges([(path, -1, most) for path in paths])

    def prefetch_ranges(self, pieces: Sequence[ByteRange], version: Version | None = None) -> None:
        """Fetch ranges in the background.

        Ranges that are not read are dropped, oldest first.
        """
        with self._guard:
            for piece in pieces:
                if (piece, version) not in self._fetched:
                    self._fetched[piece, version] = _pool().submit(copy_context().run, self._fetch, piece)
            while sum(length for (_, _, length), _ in self._fetched) > tuning().prefetch_bytes:
                self._fetched.popitem(last=False)[1].drop()

    def delta_options(self) -> dict[str, str] | None:
        """Return the options as they were passed."""
        return self._options or None

    def canonical_path(self, path: str) -> str:
        """Return the URL."""
        return path.rstrip("/")

    # -- writing

    def local_disk(self, path: str) -> str | None:
        """Return None."""
        return None

    def make_folder(self, path: str) -> bool:
        """Return False: a folder is a prefix of names."""
        return False

    def create_file(self, folder: str) -> NewFile:
        """Begin a file on this machine, uploaded when it is complete."""
        return Upload(self, folder)

    def put(self, path: str, data: bytes) -> bool:
        """Put a file if the path is free; return False if it is taken."""
        import obstore

        try:
            self._request("written", path, obstore.put, self._key(path), data, mode="create")
        except ExistsError:
            return self.read(path) == data  # our own, if the answer to a first try was lost
        staging.note_written(path)
        return True

    def upload(self, path: str, file: BinaryIO) -> None:
        """Put a complete file, replacing any at that path."""
        import obstore

        file.seek(0)
        part, concurrency = tuning().upload_part_bytes, max(tuning().connections // 4, 1)
        self._request("written", path, obstore.put, self._key(path), file, chunk_size=part, max_concurrency=concurrency)
        staging.note_written(path)

    @contextmanager
    def atomic_write(self, path: str) -> Iterator[BinaryIO]:
        """Write a file on this machine and upload it."""
        with spooled_file() as file:
            yield file
            self.upload(path, file)

    def touch(self, path: str) -> None:
        """Put a file again: stores do not copy a file onto itself."""
        with spooled_file() as file, self.open(path, sequential=True, immutable=True) as old:
            while data := old.read(tuning().window_bytes):
                file.write(data)
            self.upload(path, file)

    def make_durable(self, path: str) -> None:
        """Note the file as written; a store keeps what it has acknowledged."""
        staging.note_written(path)
        for each in staging.current.get():
            if each.is_replacement and path.startswith(f"{each.path}/{staging.LOG}/"):
                each.published = True

    def delete(self, path: str) -> None:
        """Delete a file, or all files below it."""
        self._delete_files([f"{self._root}/{found['path']}" for found in self._iter_below(path)] or [path])

    def delete_own(self, path: str, fingerprint: Hashable) -> None:
        """Do nothing: stores do not delete on a condition.

        ``vacuum`` deletes what no version uses.
        """

    def delete_empty_folder(self, path: str) -> None:
        """Do nothing: a folder is a prefix of names."""

    def _delete_files(self, paths: Sequence[str]) -> None:
        import obstore

        for _, group in itertools.groupby(sorted(paths, key=staging.deletion_rank), staging.deletion_rank):
            part = list(group)  # in one request, which stores work off in any order
            try:
                self._request("deleted", part[0], obstore.delete, [self._key(path) for path in part])
            except NotFoundError:  # another process deletes them too
                for path in part if len(part) > 1 else ():
                    self._delete_files([path])

    # -- new tensors and bundles

    def is_occupied(self, path: str) -> bool:
        """Return whether a tensor, a bundle or other files exist.

        Unpublished tensors do not count.
        """
        names = self.names(path)
        if staging.is_visible(names):
            return True
        if any(map(staging.is_marker, names)):
            return False
        return bool(names) or self._metadata_or_none(path) is not None

    def as_folder(self, path: str) -> Folder:
        """Return a URL to which names can be joined."""
        return UrlFolder(path)

    def recover(self, path: str) -> None:
        """Do nothing: a replacement is one commit."""

    def stage(self, path: str, replace: bool = False) -> str:
        """Put a marker into the folder itself and delete what dead processes left there.

        A tensor to be replaced stays as it is; its old files are deleted by ``vacuum``.
        """
        names = self.names(path)
        if staging.LISTING in names:
            raise UnsupportedError(
                f"{path!r} is a bundle, and an object store cannot replace several tensors in one step: "
                "choose another name, or delete it first"
            )
        if staging.LOG in names:
            if not replace:
                raise ExistsError(f"{path!r} exists: another process created it meanwhile")
            staging.current.set((*staging.current.get(), staging.Staging(path, None)))
            return path
        markers = [name for name in names if staging.is_marker(name)]
        dead = [name for name in markers if self._is_abandoned(path, name)]
        if dead and len(dead) == len(markers):
            self.delete(path)
        elif dead:
            self._delete_files([f"{path}/{name}" for name in dead])
        marker = f"{path}/{staging.new_marker()}"
        self.put(marker, b"")
        staging.current.set((*staging.current.get(), staging.Staging(path, marker)))
        return path

    def _is_abandoned(self, path: str, marker: str) -> bool:
        """Return whether the owner of a marker has ended.

        On other machines its age decides.
        """
        if (dead := staging.is_owner_dead(marker)) is not None:
            return dead
        try:
            return time.time() - self.modified_time(f"{path}/{marker}") > tuning().abandoned_seconds
        except NotFoundError:
            return True

    def is_staged(self, path: str) -> bool:
        """Return whether all files below a path are of a tensor being created."""
        return any(each.marker is not None and f"{path}/".startswith(f"{each.path}/") for each in staging.current.get())

    def is_replacement(self, staged: str) -> bool:
        """Return whether a visible tensor is replaced by a commit to its log."""
        return any(each.is_replacement and each.path == staged for each in staging.current.get())

    def keep_folder(self, path: str) -> AbstractContextManager[None]:
        """Do nothing: a replacement is one commit."""
        return contextlib.nullcontext()

    def publish(self, staged: str, path: str, replace: bool) -> None:
        """Note that the staged files stay: log or listing have made them visible."""
        staging.current.get()[-1].published = True

    def discard_staged(self, staged: str) -> None:
        """Delete the marker and, unless published, the files that this process put."""
        *rest, own = staging.current.get()
        staging.current.set(tuple(rest))
        with contextlib.suppress(StorageError):  # the next writer deletes what cannot be deleted now
            with own.guard:
                written = [] if own.published else sorted(own.written)
            if own.is_replacement:  # labels are named by content alone: the tensor that stays may share them
                written = [path for path in written if f"/{staging.LABELS}/" not in path]
            self._delete_files(written if own.marker is None else [*written, own.marker])


def _body(response: Any, path: str) -> tuple[bytes, Version]:
    """Return the body of a response, whole, and the version of the file."""
    data = bytes(response.bytes())
    start, stop = response.range
    if len(data) != stop - start:
        raise StorageError(
            f"{path!r} cannot be read: expected {stop - start} bytes at offset {start}, got {len(data)}: did it change "
            "meanwhile? Try again"
        )
    return data, version_of(response.meta)


def _pool() -> Pool:
    """Return the threads that wait for responses."""
    global _threads
    if _threads is None or _threads.is_shut_down:
        _threads = Pool(tuning().connections, "sparrow-fetch")
    return _threads


def _after_fork() -> None:
    global _lock, _threads
    _lock, _threads = threading.Lock(), None


os.register_at_fork(after_in_child=_after_fork)


def _matches(path: str, pattern: str) -> bool:
    """Return whether a path matches a pattern part by part."""
    if "**" in pattern:
        return fnmatchcase(path, pattern.replace("**/", "*").replace("**", "*"))
    parts, patterns = path.split("/"), pattern.split("/")
    return len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))
