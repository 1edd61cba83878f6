"""Tensors to files that other programs read, in every format that has a writer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sparrow.errors import ExistsError, InvalidValueError, UnsupportedError
from sparrow.io.base.registry import COMPRESSION_SUFFIXES, Format, formats, options_of
from sparrow.runtime.validation import check_flag, check_path
from sparrow.storage.fs.filesystem import get_filesystem
from sparrow.tensor import Tensor
from sparrow.tensor.bundle import Bundle

__all__ = ["export", "unwritten_labels"]


def export(
    source: Tensor | Bundle,
    dst: str | os.PathLike[str],
    format: str | None = None,
    *,
    overwrite: bool = False,
    **options: Any,
) -> int:
    """Write a tensor, or a bundle that the format knows, to a file and return the number of rows written.

    What is written are the entries, streamed, so a tensor may be larger than memory (a .npz file is made in memory).
    Of shape, fill and types a .npz file keeps all, edges their shape, a table the types of its columns. Labels are in
    tables, edges and .h5ad files; others hold coordinates. The file takes its name when it is whole: a failed or
    interrupted export leaves what was there.

    Parameters
    ----------
    source
        The tensor; a bundle for libsvm, libffm and alx.
    dst
        The file; ``"-"`` is standard output. Text is compressed where the name ends in ``.gz``, ``.zst`` or ``.bz2``.
    format
        By default what the name ends in says: ``.parquet``, ``.arrow`` (``.ipc``, ``.feather``), ``.csv``, ``.tsv``,
        ``.edges`` or ``.txt`` (an edge list: lines ``# shape: 4 7``, unless there are labels, and ``# src dst value``,
        then columns parted by tabs, True as 1),
        ``.mtx`` (Matrix Market), ``.tns`` (FROSTT), ``.npz``, ``.npy``, ``.libsvm`` or ``.svm``, ``.ffm`` (libffm),
        ``.graph-txt`` (ASCIIGraph), ``.h5ad`` (AnnData), ``.h5`` (binsparse). ``"alx"`` is a folder of shards, which
        is to be said.
    overwrite
        Replace a file that is there.
    **options
        Those of the format. ``labels=False`` (tables, edges): coordinates where a dimension has labels; libsvm and
        .npz know none. ``index_base=0`` (libsvm): what the first column is called instead of 1. ``shards=`` (alx).

    Returns
    -------
    int
        The number of rows.

    Raises
    ------
    ExistsError
        If there is a file and ``overwrite`` is not set.
    InvalidValueError
        If no format is told, or an option is not one of the format's.
    NotFoundError
        If there is no such folder.
    UnsupportedError
        If the format cannot hold the tensor.

    Examples
    --------
    >>> from pathlib import Path
    >>> import sparrow as sp
    >>> A = sp.from_coords([[0, 2, 2], [1, 0, 3]], [5, 6, 7], dims=("src", "dst"))
    >>> sp.export(A, "links.csv")
    3
    >>> Path("links.csv").read_text().split()
    ['src,dst,value', '0,1,5', '2,0,6', '2,3,7']
    """
    if not isinstance(source, Tensor | Bundle):
        raise UnsupportedError(f"{type(source).__name__} is no tensor: sp.asarray makes one of an array or a table")
    name, overwrite = check_path(dst, "dst"), check_flag("overwrite", overwrite)
    chosen = _format(name, format)
    assert chosen.writer is not None
    known = [each.name for each in options_of(chosen.writer)]
    for option in options:
        if option not in known:
            there = f"it has {', '.join(map(repr, known))}" if known else "it has none"
            raise InvalidValueError(f"{option!r} is no option of the format {chosen.name!r}: {there}")
    writer = chosen.writer(source, name, **options)
    if name != "-" and not overwrite and get_filesystem(name).is_occupied(name):
        raise ExistsError(f"{name!r} exists: choose another name, or pass overwrite=True to replace it")
    return writer.write()


def unwritten_labels(source: Tensor | Bundle, dst: str, format: str | None) -> list[str]:
    """Return the dimensions with labels, of which a file of the format holds none."""
    writer = _format(dst, format).writer
    if writer is None or writer.writes_labels:
        return []
    # Labels of y are what the lines of libsvm begin with.
    tensors = [source] if isinstance(source, Tensor) else [each for name, each in source.items() if name != "y"]
    found = (dim for each in tensors for axis, dim in enumerate(each.dims) if each.labels(axis) is not None)
    return list(dict.fromkeys(found))


def _format(name: str, format: str | None) -> Format:
    """Return the format that a name, and who calls, ask for."""
    written = {each.name: each for each in formats().values() if each.writer is not None}
    there = ", ".join(map(repr, written))
    if format is not None and format not in written:
        raise InvalidValueError(f"format={format!r}: use one of {there}")
    path = Path(name)
    packed = path.suffix in COMPRESSION_SUFFIXES
    suffix = (path.with_suffix("") if packed else path).suffix
    found = [each for each in written.values() if each.name == format or (format is None and suffix in each.suffixes)]
    if not found:
        raise InvalidValueError(f"the name {name!r} tells no format: say format=, one of {there}")
    if packed and found[0].writer is not None and not found[0].writer.text:
        raise InvalidValueError(f"{name!r}: {found[0].name} is compressed inside, leave out {path.suffix}")
    return found[0]
