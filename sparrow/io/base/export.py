"""Export of tensors to files that other programs read."""

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
    """Write a tensor, or a bundle that the format knows, to a file.

    Stored elements are streamed, so a tensor may be larger than memory (a .npz file is built in memory). Of shape, fill
    value and types a .npz file keeps all, edge lists the shape, tables the types of their columns. Tables, edge lists
    and .h5ad files hold labels, other formats coordinates. The write is atomic: a failed or interrupted export leaves
    what existed.

    Parameters
    ----------
    source
        The tensor; a bundle for libsvm, libffm and alx.
    dst
        File to create; ``"-"`` is standard output. Text is compressed if the name ends in ``.gz``, ``.zst`` or
        ``.bz2``.
    format
        By default by the suffix: ``.parquet``, ``.arrow`` (``.ipc``, ``.feather``), ``.csv``, ``.tsv``, ``.edges`` or
        ``.txt`` (an edge list: comments ``# shape: 4 7``, unless there are labels, and ``# src dst value``, then
        tab-separated columns, True as 1), ``.mtx`` (Matrix Market), ``.tns`` (FROSTT), ``.npz``, ``.npy``, ``.libsvm``
        or ``.svm``, ``.ffm`` (libffm), ``.graph-txt`` (ASCIIGraph), ``.h5ad`` (AnnData), ``.h5`` (binsparse).
        ``"alx"``, a folder of shards, must be named.
    overwrite
        Replace an existing file.
    **options
        Options of the format. ``labels=False`` (tables, edges): write coordinates instead of labels; libsvm and .npz
        hold none. ``index_base=0`` (libsvm): index of the first feature, 1 by default. ``shards=`` (alx).

    Returns
    -------
    int
        Number of rows written.

    Raises
    ------
    ExistsError
        If the file exists and ``overwrite`` is not set.
    InvalidValueError
        If the format is unknown, or has no such option.
    NotFoundError
        If the folder does not exist.
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
        raise UnsupportedError(
            f"source must be a tensor or a bundle, got {type(source).__name__}: convert it with sp.asarray"
        )
    name, overwrite = check_path(dst, "dst"), check_flag("overwrite", overwrite)
    chosen = _format(name, format)
    assert chosen.writer is not None
    known = [each.name for each in options_of(chosen.writer)]
    for option in options:
        if option not in known:
            there = f"it has {', '.join(map(repr, known))}" if known else "it has none"
            raise InvalidValueError(f"{option!r} is not an option of format {chosen.name!r}: {there}")
    writer = chosen.writer(source, name, **options)
    if name != "-" and not overwrite and get_filesystem(name).is_occupied(name):
        raise ExistsError(f"{name!r} exists: choose another name, or pass overwrite=True to replace it")
    return writer.write()


def unwritten_labels(source: Tensor | Bundle, dst: str, format: str | None) -> list[str]:
    """Return the labelled dimensions whose labels a file of the format lacks."""
    writer = _format(dst, format).writer
    if writer is None or writer.writes_labels:
        return []
    # Lines of libsvm begin with the labels of y.
    tensors = [source] if isinstance(source, Tensor) else [each for name, each in source.items() if name != "y"]
    found = (dim for each in tensors for axis, dim in enumerate(each.dims) if each.labels(axis) is not None)
    return list(dict.fromkeys(found))


def _format(name: str, format: str | None) -> Format:
    """Return the format for a name, or the one asked for."""
    written = {each.name: each for each in formats().values() if each.writer is not None}
    there = ", ".join(map(repr, written))
    if format is not None and format not in written:
        raise InvalidValueError(f"format must be one of {there}, got {format!r}")
    path = Path(name)
    packed = path.suffix in COMPRESSION_SUFFIXES
    suffix = (path.with_suffix("") if packed else path).suffix
    found = [each for each in written.values() if each.name == format or (format is None and suffix in each.suffixes)]
    if not found:
        raise InvalidValueError(f"the suffix of {name!r} is unknown: pass format=, one of {there}")
    if packed and found[0].writer is not None and not found[0].writer.text:
        raise InvalidValueError(f"format {found[0].name!r} is already compressed, got {name!r}: omit {path.suffix}")
    return found[0]
