"""Export of tensors to files that other programs read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sparrow import storage
from sparrow.core.schema import is_given_name
from sparrow.errors import ExistsError, InvalidValueError, UnsupportedError
from sparrow.io.base.registry import COMPRESSION_SUFFIXES, Format, Writer, formats, options_of
from sparrow.runtime import progress
from sparrow.runtime.validation import check_flag, check_path
from sparrow.storage.fs.filesystem import get_filesystem
from sparrow.tensor import Tensor
from sparrow.tensor.bundle import Bundle

__all__ = ["export"]

_USUAL_DIMS = {"row", "col", "field", "src", "dst", "obs", "var"}
"""Names of dimensions that readers assign, which are not missed."""


def export(
    source: Tensor | Bundle | str | os.PathLike[str],
    dst: str | os.PathLike[str],
    format: str | None = None,
    *,
    overwrite: bool = False,
    **options: Any,
) -> int:
    """Write a tensor, or a bundle that the format knows, to a file.

    Stored elements are streamed, so a tensor may be larger than memory (a .npz file is built in memory). Of shape, fill
    value and types a .npz file keeps all, edge lists the shape, tables the types of their columns. Tables, edge lists
    and .h5ad files hold labels, other formats coordinates; a note says what of labels, names of dimensions and the fill
    value is not written. The write is atomic: a failed or interrupted export leaves what existed.

    Parameters
    ----------
    source
        The tensor, or the path of a stored one; a bundle for libsvm, libffm and alx.
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
        If the folder does not exist, or ``source`` is a path and nothing is stored there.
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
    if isinstance(source, str | os.PathLike):
        source = _open(check_path(source, "source"))
    if not isinstance(source, Tensor | Bundle):
        raise UnsupportedError(
            f"source must be a tensor or a bundle, got {type(source).__name__}: convert it with sp.asarray, or pass "
            "the path of a stored one"
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
    rows = writer.write()
    if lost := _unwritten(source, chosen.writer):
        progress.write_note(f"{name}: {lost}" if name != "-" else lost)
    return rows


def _open(path: str) -> Tensor | Bundle:
    """Open the tensor or bundle at a path."""
    if storage.is_bundle(path):
        return Bundle._from_folder(path, storage.open_bundle(path))
    return Tensor(storage.open(path))


def _unwritten(source: Tensor | Bundle, writer: type[Writer]) -> str:
    """Return the note on labels, names and fill values that are lost, or ''."""
    # Lines of libsvm begin with the labels of y.
    tensors = [source] if isinstance(source, Tensor) else [each for name, each in source.items() if name != "y"]
    axes = [(each, axis, dim) for each in tensors for axis, dim in enumerate(each.dims)]
    lost = []
    labelled = dict.fromkeys(dim for each, axis, dim in axes if each.labels(axis) is not None)
    named = dict.fromkeys(dim for _, _, dim in axes if is_given_name(dim) and dim not in _USUAL_DIMS)
    if labelled and not writer.writes_labels:
        lost.append(f"labels of {', '.join(labelled)} are not exported")
    if named and not writer.writes_dims:
        names = f"names of dimensions {', '.join(named)}"
        lost.append(f"nor are {names}" if lost else f"{names} are not exported")
    if lost:
        lost = [f"{', '.join(lost)}: csv and parquet contain them"]
    fills = dict.fromkeys(str(each.fill_value) for each in tensors if each.fill_value != 0)
    if fills and not writer.writes_fill:
        lost.append(f"the fill value {', '.join(fills)} is not exported: npz contains it")
    return "; ".join(lost)


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
