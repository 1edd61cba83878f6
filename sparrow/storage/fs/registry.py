"""Which store a URL lies in, and with which options: one connection for each."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict

from sparrow.errors import InvalidValueError, UnsupportedError
from sparrow.storage.fs.credentials import SCHEMES, environment_variables, options_for
from sparrow.storage.fs.http import WebSite
from sparrow.storage.fs.objects import ObjectStore

__all__ = ["store_of"]

_lock = threading.Lock()
_stores: OrderedDict[tuple[str, frozenset[tuple[str, str]], tuple[str, ...]], ObjectStore] = OrderedDict()
_KEPT = 32


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


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
        key = f"{scheme}://{bucket}", frozenset(options.items()), environment_variables()
        found = _stores.get(key)
        if found is None:
            found = _stores[key] = (WebSite if scheme.startswith("http") else ObjectStore)(key[0], options)
            if len(_stores) > _KEPT:
                _stores.popitem(last=False)
        return found
