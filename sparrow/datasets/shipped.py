"""Shipped data sets, each ingested into a cache folder when it is first loaded."""

from __future__ import annotations

import functools
import json
import os
import shutil
import sys
from contextlib import suppress
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from sparrow.errors import ExistsError, LabelError
from sparrow.runtime.resources import data_folder

__all__ = ["cache_folder", "extract", "names", "path", "read", "shipped_descriptions", "stored_path"]


def __dir__() -> list[str]:
    return sorted(__all__)


@functools.cache
def shipped_descriptions() -> dict[str, dict[str, Any]]:
    """Return the descriptions of shipped data sets, by name."""
    found: dict[str, dict[str, Any]] = json.loads((data_folder("datasets") / "index.json").read_text(encoding="utf-8"))
    return found


def names() -> list[str]:
    """Return the names of the shipped data sets.

    Returns
    -------
    list of str
        Sorted.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.datasets.names()
    ['a9a', 'a9a.t', 'cnr-2000', 'heart_scale']
    """
    return sorted(shipped_descriptions())


def path(name: str, cache: str | os.PathLike[str] | None = None) -> Path:
    """Return the published file of a shipped data set, to be read by other programs.

    Parameters
    ----------
    name
        One of :func:`names`.
    cache
        Folder to extract it to if sparrow is installed in an archive; the cache folder of the user by default.

    Returns
    -------
    pathlib.Path

    Raises
    ------
    LabelError
        If there is no such data set.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.datasets.path("heart_scale").read_text().split()[:3]
    ['+1', '1:0.708333', '2:1']
    """
    if name not in shipped_descriptions():
        raise LabelError(f"no data set {name!r} comes with sparrow: there are {', '.join(names())}")
    return extract(data_folder("datasets"), shipped_descriptions()[name]["file"], cache)


def stored_path(name: str, cache: Path) -> Path:
    """Return the stored form of a data set, ingested if it does not exist."""
    found = cache / f"{name}-{shipped_descriptions()[name]['sha256'][:8]}.sparrow"
    if not found.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with suppress(ExistsError):  # another process stored it meanwhile
            read(name, found, cache)
    return found


def read(name: str, target: str | os.PathLike[str], cache: Path | None, **options: Any) -> None:
    """Ingest a shipped data set."""
    from sparrow import ingest

    about = shipped_descriptions()[name]
    file = extract(data_folder("datasets"), about["file"], cache)
    getattr(ingest, about["format"])(file, target, **about["options"], **options)


def cache_folder(folder: str | os.PathLike[str] | None) -> Path:
    """Return the folder of stored data sets."""
    if folder is not None:
        return Path(folder)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "sparrow"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sparrow"


def extract(folder: Traversable, relative: str, cache: str | os.PathLike[str] | None) -> Path:
    """Return a file as a real path, extracted from an archive if need be."""
    found = folder
    for part in relative.split("/"):
        found = found / part
    if isinstance(found, Path):
        return found
    extracted = cache_folder(cache) / "published" / relative
    if not extracted.exists():
        extracted.parent.mkdir(parents=True, exist_ok=True)
        partial = extracted.with_name(f"{extracted.name}.{os.getpid()}.tmp")
        with found.open("rb") as source, partial.open("wb") as target:
            shutil.copyfileobj(source, target)
        partial.replace(extracted)
    return extracted
