"""The small real data sets that come with sparrow: ``sp.datasets.load("cnr-2000")``.

Each is stored once, in a cache folder, when it is first loaded. ``datasets/README.md`` tells
where they come from, their licences and whom to cite.
"""

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

from sparrow import storage
from sparrow.errors import ExistsError, LabelError
from sparrow.resources import data_folder
from sparrow.tensor import Tensor
from sparrow.tensor.bundle import Bundle

__all__ = ["describe", "load", "names", "path"]


def __dir__() -> list[str]:
    return sorted(__all__)


@remembered
def _index() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads((data_folder("datasets") / "index.json").read_text(encoding="utf-8"))
    return found


def names() -> list[str]:
    """Return the names of the data sets.

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
    return sorted(_index())


def describe(name: str) -> dict[str, Any]:
    """Return what is known of a data set.

    Parameters
    ----------
    name
        One of :func:`names`.

    Returns
    -------
    dict
        Title, format, shape, nnz, licence, source, sha256 of its file.

    Raises
    ------
    LabelError
        If there is none of that name.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.datasets.describe("a9a")["shape"]
    [32561, 123]
    """
    if name not in _index():
        raise LabelError(f"no data set {name!r}: there are {', '.join(names())}")
    return dict(_index()[name])


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
    return _file(describe(name)["file"], cache)


def load(name: str, cache: str | os.PathLike[str] | None = None) -> Tensor | Bundle:
    """Return a data set as a stored tensor, or as a :class:`sparrow.Bundle` of them (libsvm: ``X`` and ``y``).

    What is returned stays as it was published and is read-only: ``save`` it elsewhere to write to it.

    Parameters
    ----------
    name
        One of :func:`names`.
    cache
        The folder to keep it in; the user's cache folder by default.

    Returns
    -------
    Tensor or dict of Tensor

    Raises
    ------
    LabelError
        If there is none of that name.

    Examples
    --------
    >>> import sparrow as sp
    >>> heart = sp.datasets.load("heart_scale", cache=".")
    >>> heart["X"].shape, heart["X"].nnz, heart["y"].shape
    ((270, 13), 3378, (270,))
    """
    from sparrow import ingest

    about = describe(name)
    home = _cache(cache)
    stored = home / f"{name}-{about['sha256'][:8]}.sparrow"
    if not stored.exists():
        home.mkdir(parents=True, exist_ok=True)
        with suppress(ExistsError):  # another process stored it meanwhile
            getattr(ingest, about["format"])(_file(about["file"], home), stored, **about["options"])
    if storage.is_bundle(stored):
        return Bundle._stored(str(stored), storage.open_bundle(stored), version=0)
    return Tensor(storage.open(stored, 0))


def _cache(folder: str | os.PathLike[str] | None) -> Path:
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
    unpacked = _cache(cache) / "published" / relative
    if not unpacked.exists():
        unpacked.parent.mkdir(parents=True, exist_ok=True)
        partial = unpacked.with_name(f"{unpacked.name}.{os.getpid()}.tmp")
        with found.open("rb") as source, partial.open("wb") as target:
            shutil.copyfileobj(source, target)
        partial.replace(unpacked)
    return unpacked
