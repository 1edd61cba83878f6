"""The small real data sets that come with sparrow; each is stored once, in a cache folder, when it is first loaded."""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import suppress
from functools import cache as remembered
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from sparrow.errors import ExistsError, LabelError
from sparrow.runtime.resources import data_folder

__all__ = ["cache_folder", "names", "path", "read", "shipped", "stored"]


def __dir__() -> list[str]:
    return sorted(__all__)


@remembered
def shipped() -> dict[str, dict[str, Any]]:
    """Return the descriptions by name."""
    found: dict[str, dict[str, Any]] = json.loads((data_folder("datasets") / "index.json").read_text(encoding="utf-8"))
    return found


def names() -> list[str]:
    """Return the names of the data sets that come with sparrow.

    Returns
    -------
    list of str
        Ascending.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.datasets.names()
    ['a9a', 'a9a.t', 'cnr-2000', 'heart_scale']
    """
    return sorted(shipped())


def path(name: str, cache: str | os.PathLike[str] | None = None) -> Path:
    """Return the file of a data set as it was published, to read it with other programs.

    Parameters
    ----------
    name
        One of :func:`names`.
    cache
        Where to unpack it if sparrow is installed in an archive; the user's cache folder by default.

    Returns
    -------
    pathlib.Path

    Raises
    ------
    LabelError
        If there is none of that name.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.datasets.path("heart_scale").read_text().split()[:3]
    ['+1', '1:0.708333', '2:1']
    """
    if name not in shipped():
        raise LabelError(f"no data set {name!r} comes with sparrow: there are {', '.join(names())}")
    return _file(shipped()[name]["file"], cache)


def stored(name: str, cache: Path) -> Path:
    """Return the stored form of a data set, which is made where it is not there."""
    found = cache / f"{name}-{shipped()[name]['sha256'][:8]}.sparrow"
    if not found.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with suppress(ExistsError):  # another process stored it meanwhile
            read(name, found, cache)
    return found


def read(name: str, target: str | os.PathLike[str], cache: Path | None, **options: Any) -> None:
    """Store a data set."""
    from sparrow import ingest

    about = shipped()[name]
    getattr(ingest, about["format"])(_file(about["file"], cache), target, **about["options"], **options)


def cache_folder(folder: str | os.PathLike[str] | None) -> Path:
    """Return the folder for stored data sets."""
    if folder is not None:
        return Path(folder)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "sparrow"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sparrow"


def _file(relative: str, cache: str | os.PathLike[str] | None) -> Path:
    """Return a file of the folder ``datasets`` as a real path, unpacked if need be."""
    found: Traversable = data_folder("datasets")
    for part in relative.split("/"):
        found = found / part
    if isinstance(found, Path):
        return found
    unpacked = cache_folder(cache) / "published" / relative
    if not unpacked.exists():
        unpacked.parent.mkdir(parents=True, exist_ok=True)
        partial = unpacked.with_name(f"{unpacked.name}.{os.getpid()}.tmp")
        with found.open("rb") as source, partial.open("wb") as target:
            shutil.copyfileobj(source, target)
        partial.replace(unpacked)
    return unpacked
