"""Paths of stored tensors in queries: ``from 'web.sparrow'``."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
from collections.abc import Collection
from pathlib import PurePath
from typing import Any

from sparrow.errors import InvalidValueError, NotFoundError
from sparrow.functions import creation
from sparrow.runtime.duckdb_connection import quote_name
from sparrow.storage import is_bundle, is_tensor
from sparrow.tensor.bundle import Bundle

__all__ = [
    "add_alias", "check_readable", "is_path", "open_table", "remote_paths", "stem", "stored_beside", "stored_tables",
    "suggest_paths",
]  # fmt: skip

_SUFFIX = ".sparrow"
_SHOWN_PATHS = 8
"""Stored tensors that an error lists."""


def is_path(name: str) -> bool:
    """Return whether a name of a query can be a path: it has a slash or suffix."""
    return "/" in name or os.sep in name or bool(PurePath(name).suffix)


def stem(path: str) -> str:
    """Return the name of a path in a query: that of its file, without the suffix.

    Examples
    --------
    >>> stem("data/web.sparrow"), stem("a9a.sparrow/X")
    ('web', 'X')
    """
    return PurePath(path).name.removesuffix(_SUFFIX)


def remote_paths(query: str) -> list[str]:
    """Return the URLs of object stores that a query may name as tensors.

    DuckDB would look for an extension to read them.

    Examples
    --------
    >>> remote_paths("from 's3://b/web.sparrow' join 's3://b/a.parquet' on url = 'gs://b/c'")
    ['s3://b/web.sparrow']
    """
    urls = re.findall(r"""(?i)\b(?:from|join)\s+['"]((?:s3|gs|az)://[^'"?*]+)['"]""", query)
    return [url for url in dict.fromkeys(urls) if PurePath(url).suffix in ("", _SUFFIX)]


def open_table(path: str, version: int | str | None = None) -> Any:
    """Return the tensor stored at a path that a query names.

    It is None if nothing is there and the name need not be a path.

    Raises
    ------
    NotFoundError
        If nothing is stored there.
    InvalidValueError
        If it is a bundle, or a file that DuckDB does not read.
    """
    path = os.path.expanduser(path)
    if is_tensor(path) or is_bundle(path):
        found = creation.open(path, version)
        if isinstance(found, Bundle):
            members = " or ".join(f"'{os.path.join(path, name)}'" for name in found)
            raise InvalidValueError(f"sql: {path!r} is a bundle of tensors: name one of them, {members}")
        return found
    check_readable(path)
    if "/" not in path and not path.endswith(_SUFFIX):
        return None
    raise NotFoundError(f"sql: no tensor is stored at {path!r}{suggest_paths(path)}")


def check_readable(path: str) -> None:
    """Raise ``InvalidValueError`` for a file, which DuckDB does not read."""
    if os.path.isfile(path):
        raise InvalidValueError(
            f"sql: {path!r} is neither a stored tensor nor a file that DuckDB reads: sp.ingest stores files as tensors"
        )


def suggest_paths(path: str) -> str:
    """Return stored tensors that may be meant, for an error."""
    folder, name = os.path.split(path.rstrip("/"))
    if folder and not os.path.isdir(folder):
        return f": there is no folder {folder!r}"
    stems = {stem(each): each for each in stored_tables(folder)}
    close = [stems[each] for each in difflib.get_close_matches(stem(name), stems, 3)]
    paths = [repr(each) for each in close or [*stems.values()][:_SHOWN_PATHS]]
    if not paths:
        return ""
    return f": did you mean {' or '.join(paths)}?" if close else f": there are {', '.join(paths)}"


def stored_tables(folder: str = "") -> list[str]:
    """Return the paths of the tensors and bundles that are stored in a folder.

    A bundle stands for the tensors in it.
    """
    found: list[str] = []
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(folder or os.curdir)):
            path = os.path.join(folder, name)
            if not os.path.isdir(path):
                continue
            if is_tensor(path):
                found.append(path)
            elif is_bundle(path):
                found += stored_tables(path)
    return found


def stored_beside(name: str) -> str:
    """Return a hint if a name without a path is that of a stored tensor, else ""."""
    for path in (f"{name}{_SUFFIX}", f"./{name}"):
        if name.isidentifier() and is_tensor(path):
            return f", or write its path, from '{path}'"
    return ""


def add_alias(query: str, paths: Collection[str], problem: str) -> tuple[str, str] | None:
    """Name a path in a query after its file, as DuckDB names files.

    Parameters
    ----------
    query
        Its columns may be qualified: ``select web.dst from 'web.sparrow'``.
    paths
        Paths that it names.
    problem
        Error that it was refused with.

    Returns
    -------
    tuple of str or None
        The query and the path, if the error is that the name of one was not found.
    """
    missing = re.search(r'Referenced table "(.*?)" not found', problem)
    if missing is None:
        return None
    alias = missing[1]
    path = next((path for path in paths if stem(path) == alias != path), None)
    if path is None:
        return None
    spelled = "|".join(re.escape(f"{quote}{path}{quote}") for quote in "'\"")
    quoted = quote_name(alias).replace("\\", r"\\")
    return re.sub(rf"(?i)(\b(?:from|join)\s+)({spelled})(?!\s+as\b)", rf"\1\2 AS {quoted}", query), path
