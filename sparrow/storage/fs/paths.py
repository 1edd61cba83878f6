"""Paths of tensors: URLs without secrets, and absolute paths."""

from __future__ import annotations

import os
import re

from sparrow.errors import InvalidValueError, UnsupportedError
from sparrow.runtime.validation import check_path, full_path

__all__ = ["absolute_path", "is_url", "strip_secrets"]

_NOT_IN_LOGS = re.compile(r"[\x00-\x1f\x7f\\]")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+://)([^/]*@)?([^?]*)(\?.*)?", re.DOTALL)


def is_url(text: str) -> bool:
    """Return whether a path is a URL.

    Raises
    ------
    UnsupportedError
        If it is one with a user, password or query, which may be secrets.
    """
    if "://" not in text or (url := _URL.match(text)) is None:
        return False
    if url[2] or url[4]:
        way_out = "pass storage_options= to sp.open or save, or set environment variables"
        if url[1].startswith("http"):
            way_out = "have another program fetch it, curl -L URL | sparrow ingest FORMAT - DST"
        raise UnsupportedError(
            f"{url[1] + url[3]!r} is a URL with a user, a password or a query, which may be secrets: leave them out "
            f"and {way_out}"
        )
    return True


def strip_secrets(name: str) -> str:
    """Return a path, or a URL without user, password and query."""
    url = _URL.match(name)
    return name if url is None else url[1] + url[3]


def absolute_path(path: str | os.PathLike[str]) -> str:
    """Return an absolute path, or a URL without trailing slashes.

    Raises
    ------
    UnsupportedError
        If it is a URL with a user, password or query.
    InvalidValueError
        If it contains a percent sign, a backslash or a control character, which Delta logs do not preserve, or is a
        URL with a ``#``.
    """
    text = check_path(path)
    url = is_url(text)  # not get_filesystem(): the options of the store may not be known yet
    if "%" in text:
        raise InvalidValueError(f"{text!r} contains '%', which Delta logs read as an escape: use another name")
    absolute = text.rstrip("/") if url else full_path(text)
    if url and "#" in absolute:
        raise InvalidValueError(f"{absolute!r} contains '#', where Delta ends a URL: use another name")
    if (found := _NOT_IN_LOGS.search(absolute)) is not None:
        raise InvalidValueError(f"{absolute!r} contains {found[0]!r}, which Delta logs cannot hold: use another name")
    return absolute
