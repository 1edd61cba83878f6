"""Published data sets by name: those that come with sparrow, and those that people fetch."""

from __future__ import annotations

import hashlib
import os
import shlex
import tomllib
from contextlib import suppress
from functools import cache as remembered
from pathlib import Path
from typing import Any

from sparrow import storage
from sparrow.datasets.shipped import cache_folder, names, shipped, stored
from sparrow.errors import ExistsError, IngestError, LabelError, NotFoundError
from sparrow.progress import bar
from sparrow.resources import data_folder
from sparrow.tensor import Tensor
from sparrow.tensor.bundle import Bundle

__all__ = ["describe", "load", "tabulated"]

_BLOCK = 1 << 22


@remembered
def published() -> dict[str, dict[str, Any]]:
    """Return the descriptions of the sets to fetch by name."""
    text = (data_folder("datasets") / "published.toml").read_text(encoding="utf-8")
    found: dict[str, Any] = tomllib.loads(text)
    families = found.pop("family")
    return {name: families[about["family"]] | about for name, about in found.items()}


def describe(name: str) -> dict[str, Any]:
    """Return what is known of a data set.

    Parameters
    ----------
    name
        One of :func:`list`.

    Returns
    -------
    dict
        Title, format, options, licence, source or citation; where known shape, nnz and sha256 of its file. Of one that
        is to be fetched also ``fetch``, the addresses, ``files``, what has to be there, and ``unpack``.

    Raises
    ------
    LabelError
        If there is none of that name.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.datasets.describe("a9a")["shape"]
    [32561, 123]
    >>> sp.datasets.describe("uk-2002")["fetch"][0]
    'http://data.law.di.unimi.it/webdata/uk-2002/uk-2002.graph'
    """
    about = shipped().get(name) or published().get(name)
    if about is None:
        raise LabelError(
            f"no data set {name!r}: there are {', '.join(names())}; and to fetch {', '.join(sorted(published()))}"
        )
    return dict(about)


def tabulated(cache: str | os.PathLike[str] | None = None) -> list[dict[str, Any]]:
    """Return the data sets there are: those that come with sparrow first, then those to fetch.

    Parameters
    ----------
    cache
        The folder that stored ones are kept in; the user's cache folder by default.

    Returns
    -------
    list of dict
        Name, title, format, shape and nnz (None where not known), licence, and where it is: ``"here"``, in the
        ``"cache"``, or to ``"fetch"``.

    Examples
    --------
    >>> import sparrow as sp
    >>> [each["name"] for each in sp.datasets.list() if each["where"] == "here"]
    ['a9a', 'a9a.t', 'cnr-2000', 'heart_scale']
    """
    home, out = cache_folder(cache), []
    for name in (*names(), *sorted(published())):
        about = describe(name)
        where = "here" if name in shipped() else "cache" if _place(name, home).exists() else "fetch"
        out.append(
            {"name": name, "title": about["title"], "format": about["format"], "shape": about.get("shape"),
             "nnz": about.get("nnz"), "licence": about["licence"], "where": where}
        )  # fmt: skip
    return out


def load(
    name: str, cache: str | os.PathLike[str] | None = None, files: str | os.PathLike[str] | None = None
) -> Tensor | Bundle:
    """Return a data set as a stored tensor, or as a :class:`sparrow.Bundle` of them (libsvm: ``X`` and ``y``).

    What is returned stays as it was published and is read-only: ``save`` it elsewhere to write to it. Nothing is
    fetched: where files are missing the error says which, from where, and where to put them.

    Parameters
    ----------
    name
        One of :func:`list`.
    cache
        The folder to keep it in; the user's cache folder by default.
    files
        The folder that fetched files are in; ``files/NAME`` of the cache by default.

    Returns
    -------
    Tensor or dict of Tensor

    Raises
    ------
    LabelError
        If there is none of that name.
    NotFoundError
        If it is to be fetched.
    IngestError
        If a fetched file is not the one that was published.

    Examples
    --------
    >>> import sparrow as sp
    >>> heart = sp.datasets.load("heart_scale", cache=".")
    >>> heart["X"].shape, heart["X"].nnz, heart["y"].shape
    ((270, 13), 3378, (270,))
    >>> sp.datasets.load("uber", cache=".")
    Traceback (most recent call last):
    ...
    sparrow.errors.NotFoundError: the data set 'uber' is not on this machine: there is no files/uber/uber.tns.gz. ...
    """
    home = cache_folder(cache)
    if name in shipped():
        found = stored(name, home)
    else:
        about = describe(name)
        found = _place(name, home)
        if not found.exists():
            _store(name, about, found, Path(files) if files is not None else home / "files" / name)
    if storage.is_bundle(found):
        return Bundle._stored(str(found), storage.open_bundle(found), version=0)
    return Tensor(storage.open(found, 0))


def _place(name: str, home: Path) -> Path:
    return home / f"{name}.sparrow"


def _store(name: str, about: dict[str, Any], target: Path, folder: Path) -> None:
    """Store fetched files."""
    from sparrow import ingest

    missing = [file for file in about["files"] if not (folder / file).exists()]
    if missing:
        raise NotFoundError(_way(name, about, folder, missing))
    for file, digest in about.get("sha256", {}).items():
        if _digest(folder / file) != digest:
            raise IngestError(
                f"this is not the file that was published: its sha256 is not {digest}", str(folder / file)
            )
    first = folder / about["files"][0] if not about.get("whole") else folder
    target.parent.mkdir(parents=True, exist_ok=True)
    with suppress(ExistsError):  # another process stored it meanwhile
        getattr(ingest, about["format"])(first, target, **about.get("options", {}))


def _digest(path: Path) -> str:
    found = hashlib.sha256()
    with open(path, "rb") as file, bar("checking the file", path.stat().st_size) as advance:
        while block := file.read(_BLOCK):
            found.update(block)
            advance(len(block))
    return found.hexdigest()


def _way(name: str, about: dict[str, Any], folder: Path, missing: list[str]) -> str:
    """Return what to fetch, and where to put it."""
    place = shlex.quote(str(folder))
    lines = [f"the data set {name!r} is not on this machine: there is no {folder / missing[0]}. To fetch it:"]
    lines += [f"  mkdir -p {place} && cd {place}"]
    lines += [f"  curl -fLO {shlex.quote(address)}" for address in about["fetch"]]
    lines += [f"  {command}" for command in about.get("unpack", [])]
    lines += [f"Then load it again. About it: {about['page']}. Licence: {about['licence']}. Cite: {about['cite']}"]
    return "\n".join(lines)
