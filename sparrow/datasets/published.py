"""Catalog of data sets: descriptions, loading, and what to fetch."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import tomllib
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from sparrow import storage
from sparrow.datasets.shipped import cache_folder, names, read, shipped_descriptions, stored_path
from sparrow.errors import ExistsError, IngestError, LabelError, NotFoundError
from sparrow.io.base.registry import COMPRESSION_SUFFIXES
from sparrow.runtime.progress import bar
from sparrow.runtime.resources import data_folder
from sparrow.tensor import Tensor
from sparrow.tensor.bundle import Bundle
from sparrow.tensor.display import html_table, table

__all__ = ["describe", "ingest", "list_datasets", "load", "way"]

_HASH_BLOCK_BYTES = 1 << 22


@cache
def read_descriptions() -> dict[str, dict[str, Any]]:
    """Return the descriptions of data sets to fetch, by name."""
    text = (data_folder("datasets") / "published.toml").read_text(encoding="utf-8")
    found: dict[str, Any] = tomllib.loads(text)
    families = found.pop("family")
    return {name: families[about["family"]] | about for name, about in found.items()}


def describe(name: str) -> dict[str, Any]:
    """Return the description of a data set.

    Parameters
    ----------
    name
        One of :func:`list`.

    Returns
    -------
    dict
        Title, format, options, licence, source or citation; if known shape, nnz and sha256 of its file. For data sets
        to fetch also ``fetch``, the addresses, ``files``, the files needed, and ``unpack``.

    Raises
    ------
    LabelError
        If the name is unknown.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.datasets.describe("a9a")["shape"]
    [32561, 123]
    >>> sp.datasets.describe("uk-2002")["fetch"][0]
    'http://data.law.di.unimi.it/webdata/uk-2002/uk-2002.graph'
    """
    about = shipped_descriptions().get(name) or read_descriptions().get(name)
    if about is None:
        raise LabelError(
            f"no data set {name!r}: there are {', '.join(names())}, and {len(read_descriptions())} to fetch: "
            "sp.datasets.list() names all"
        )
    return dict(about)


class Listing(list[dict[str, Any]]):
    """List of data sets as dicts, rendered as a table."""

    HEADERS = ("name", "format", "shape", "entries", "where", "title")

    def rows(self) -> list[tuple[str, ...]]:
        """Return the rows of the table."""
        out: list[tuple[str, ...]] = []
        for each in self:
            shape = " x ".join(f"{size:,}" for size in each["shape"] or ())
            nnz = "" if each["nnz"] is None else f"{each['nnz']:,}"
            out.append((each["name"], each["format"], shape, nnz, each["where"], each["title"]))
        return out

    def __repr__(self) -> str:
        return table(self.rows(), self.HEADERS, shutil.get_terminal_size().columns)

    def _repr_html_(self) -> str:
        return html_table(self.rows(), self.HEADERS)


def list_datasets(cache: str | os.PathLike[str] | None = None) -> Listing:
    """Return the data sets, as a list that is rendered as a table.

    Parameters
    ----------
    cache
        Folder of stored data sets; the cache folder of the user by default.

    Returns
    -------
    list of dict
        Name, title, format, shape and nnz (None if unknown), licence, and where it is: ``"here"``, in the ``"cache"``,
        or to ``"fetch"``.

    Examples
    --------
    >>> import sparrow as sp
    >>> [each["name"] for each in sp.datasets.list() if each["where"] == "here"]
    ['a9a', 'a9a.t', 'cnr-2000', 'heart_scale']
    """
    home, out = cache_folder(cache), Listing()
    for name in (*names(), *sorted(read_descriptions())):
        about = describe(name)
        where = "here" if name in shipped_descriptions() else "cache" if _stored_path(name, home).exists() else "fetch"
        out.append(
            {"name": name, "title": about["title"], "format": about["format"], "shape": about.get("shape"),
             "nnz": about.get("nnz"), "licence": about["licence"], "where": where}
        )  # fmt: skip
    return out


def load(
    name: str, cache: str | os.PathLike[str] | None = None, files: str | os.PathLike[str] | None = None
) -> Tensor | Bundle:
    """Return a data set as a stored tensor or a :class:`sparrow.Bundle`.

    The result is read-only; ``save`` it elsewhere to write to it. Nothing is downloaded: if files are missing, the
    error says which ones, their addresses, and where to put them.

    Parameters
    ----------
    name
        One of :func:`list`.
    cache
        Folder of stored data sets; the cache folder of the user by default.
    files
        Folder of fetched files; ``files/NAME`` in the cache by default.

    Returns
    -------
    Tensor or dict of Tensor

    Raises
    ------
    LabelError
        If the name is unknown.
    NotFoundError
        If files must be fetched first.
    IngestError
        If a fetched file is not the published one.

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
    if name in shipped_descriptions():
        found = stored_path(name, home)
    else:
        describe(name)
        found = _stored_path(name, home)
        if not found.exists():
            _store_in_cache(name, found, _files_folder(name, cache, files))
    return _open(found, version=0)


def ingest(
    name: str,
    dst: str | os.PathLike[str],
    files: str | os.PathLike[str] | None = None,
    *,
    overwrite: bool = False,
    profile: str = "fast",
) -> Tensor | Bundle:
    """Store a data set at ``dst``, with the reader and options of its description.

    Parameters
    ----------
    name
        One of :func:`list`.
    dst
        Folder to create.
    files
        Folder of fetched files, ``files/NAME`` in the cache folder of the user by default; text may be compressed.
    overwrite
        Replace an existing tensor or bundle.
    profile
        ``"fast"``, ``"small"`` or ``"portable"``.

    Returns
    -------
    Tensor or Bundle
        What ``sp.open(dst)`` returns.

    Raises
    ------
    LabelError
        If the name is unknown.
    NotFoundError
        If a file is missing; the error says what to fetch.
    IngestError
        If a file is not the published one.
    ExistsError
        If ``dst`` exists and ``overwrite`` is False.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.datasets.ingest("heart_scale", "heart.sparrow")["X"].nnz
    3378
    """
    options = {"overwrite": overwrite, "profile": profile}
    if name in shipped_descriptions():
        read(name, dst, None, **options)
    else:
        _ingest(name, dst, _files_folder(name, None, files), **options)
    return _open(dst)


def _open(path: str | os.PathLike[str], version: int | None = None) -> Tensor | Bundle:
    if storage.is_bundle(path):
        return Bundle._from_folder(str(path), storage.open_bundle(path), version=version)
    return Tensor(storage.open(path, version))


def _stored_path(name: str, home: Path) -> Path:
    return home / f"{name}.sparrow"


def _files_folder(name: str, cache: str | os.PathLike[str] | None, files: str | os.PathLike[str] | None) -> Path:
    """Return the folder of fetched files."""
    return cache_folder(cache) / "files" / name if files is None else Path(files)


def _store_in_cache(name: str, target: Path, folder: Path) -> None:
    """Ingest fetched files into the cache."""
    _locate_files(name, folder)
    target.parent.mkdir(parents=True, exist_ok=True)
    with suppress(ExistsError):  # another process stored it meanwhile
        _ingest(name, target, folder)


def _ingest(name: str, target: str | os.PathLike[str], folder: Path, **options: Any) -> None:
    """Ingest fetched files with the reader named in the description."""
    from sparrow import ingest

    about, files = describe(name), _locate_files(name, folder)
    for file, digest in about.get("sha256", {}).items():
        if files[file].name == file and _hash_file(files[file]) != digest:
            raise IngestError(
                f"the file is not the file that was published: its sha256 must be {digest}", str(files[file])
            )
    source = folder if about.get("whole") else files[about["files"][0]]
    getattr(ingest, about["format"])(source, target, **about.get("options", {}), **options)


def _locate_files(name: str, folder: Path) -> dict[str, Path]:
    """Return the paths of the files of a data set, by published name.

    Their compression may differ.
    """
    about, found = describe(name), dict[str, Path]()
    for file in about["files"]:
        plain = file.removesuffix(Path(file).suffix) if Path(file).suffix in COMPRESSION_SUFFIXES else file
        here = [folder / each for each in (file, plain, *(plain + end for end in COMPRESSION_SUFFIXES))]
        path = next((each for each in here if each.exists()), None)
        if path is None:
            raise NotFoundError(
                f"the data set {name!r} is not on this machine: there is no {folder / file}. {way(name, folder)}"
            )
        found[file] = path
    return found


def _hash_file(path: Path) -> str:
    found = hashlib.sha256()
    with open(path, "rb") as file, bar("checking the file", path.stat().st_size) as advance:
        while block := file.read(_HASH_BLOCK_BYTES):
            found.update(block)
            advance(len(block))
    return found.hexdigest()


def way(name: str, files: str | os.PathLike[str] | None = None) -> str:
    """Return instructions to fetch a data set.

    Parameters
    ----------
    name
        One of :func:`list` that is not shipped.
    files
        Folder to put it in; ``files/NAME`` in the cache folder of the user by default.

    Returns
    -------
    str
        Shell commands, then web page, licence and citation.

    Raises
    ------
    LabelError
        If the name is unknown, or the data set is shipped.

    Examples
    --------
    >>> import sparrow as sp
    >>> print(sp.datasets.way("west0479", "downloads"))
    To fetch it:
      mkdir -p downloads && cd downloads
      curl -fLO https://suitesparse-collection-website.herokuapp.com/MM/HB/west0479.tar.gz
      tar -xzf west0479.tar.gz --strip-components 1
    Then load it again. ...
    """
    if name in shipped_descriptions():
        raise LabelError(f"the data set {name!r} comes with sparrow: there is nothing to fetch")
    about, place = describe(name), shlex.quote(str(_files_folder(name, None, files)))
    lines = ["To fetch it:", f"  mkdir -p {place} && cd {place}"]
    lines += [f"  curl -fLO {shlex.quote(address)}" for address in about["fetch"]]
    lines += [f"  {command}" for command in about.get("unpack", [])]
    lines += [f"Then load it again. About it: {about['page']}. Licence: {about['licence']}. Cite: {about['cite']}"]
    return "\n".join(lines)
