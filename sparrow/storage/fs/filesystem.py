"""Registry of file systems by URL scheme; other paths are local."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import BinaryIO

from sparrow.errors import UnsupportedError
from sparrow.runtime.validation import check_path
from sparrow.storage.fs.credentials import OBJECT_STORES
from sparrow.storage.fs.local import LOCAL
from sparrow.storage.fs.paths import is_url
from sparrow.storage.fs.protocols import FileSystem

__all__ = ["atomic_write", "get_filesystem", "register_scheme"]


def _connect_store(path: str) -> FileSystem:
    from sparrow.storage.fs.objects import ObjectStore  # most programs open no URL

    return ObjectStore.for_path(path)


def _connect_website(path: str) -> FileSystem:
    from sparrow.storage.fs.http import WebSite

    return WebSite.for_path(path)


_schemes: dict[str, Callable[[str], FileSystem]] = {
    "": lambda path: LOCAL,
    **dict.fromkeys(OBJECT_STORES, _connect_store),
    **dict.fromkeys(("http", "https"), _connect_website),
}


def register_scheme(scheme: str, connect: Callable[[str], FileSystem]) -> Callable[[str], FileSystem] | None:
    """Register the file system of a URL scheme.

    Parameters
    ----------
    scheme
        The scheme without ``://``; the empty string for paths that are not URLs.
    connect
        Returns the file system of a path; called for every access, so it caches.

    Returns
    -------
    callable or None
        The function registered before.
    """
    before = _schemes.get(scheme)
    _schemes[scheme] = connect
    return before


def get_filesystem(path: str | os.PathLike[str]) -> FileSystem:
    """Return the file system of a path.

    Raises
    ------
    UnsupportedError
        If it is a URL of an unknown scheme, or one with a user, password or query in it.
    InvalidValueError
        If it is a URL without a bucket.
    MissingDependencyError
        If it is a URL and ``obstore`` is not installed.
    """
    text = check_path(path)
    scheme = text.partition("://")[0] if is_url(text) else ""
    connect = _schemes.get(scheme)
    if connect is None:
        raise UnsupportedError(f"{text!r} is a URL of an unknown scheme: expected s3://, gs://, az:// or https://")
    return connect(text)


def atomic_write(path: str | os.PathLike[str]) -> AbstractContextManager[BinaryIO]:
    """Open a file that replaces ``path`` when the block succeeds.

    A failed write leaves nothing, a killed one at most a hidden file that the next write to ``path`` removes.

    Raises
    ------
    NotFoundError
        If the folder does not exist.
    ExistsError
        If the path is a folder.
    StorageError
        If the disk is full or fails, or the object store does.
    """
    return get_filesystem(path).atomic_write(os.fspath(path))
