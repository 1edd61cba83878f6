"""Making new tensors appear whole: everything is written beside the destination and renamed at the end."""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
import re
import shutil
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sparrow.errors import (
    CorruptionError,
    ExistsError,
    InvalidValueError,
    NotFoundError,
    ShapeError,
    StorageError,
    UnsupportedError,
)
from sparrow.schema import Schema
from sparrow.storage.bundle import is_bundle, is_tensor
from sparrow.storage.layout import METADATA_KEY, Metadata, arrow_schema, check_profile
from sparrow.storage.log import Log
from sparrow.storage.snapshot import LABELS
from sparrow.storage.writer import DISK_FULL, DataFile, HashingFile, disk_full, fsync_folder, widen

__all__ = ["create", "creating", "local_path"]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_EXCHANGE = 2
_HERE = -100


def local_path(path: str | os.PathLike[str]) -> str:
    """Return a path as an absolute one.

    Raises
    ------
    UnsupportedError
        If it is a URL.
    InvalidValueError
        If it holds a percent sign, which Delta logs take for an escape.
    """
    text = os.fspath(path)
    if _URL.match(text):
        raise UnsupportedError(f"{text!r} is a URL: tensors are stored in local folders only, copy it to one")
    if "%" in text:
        raise InvalidValueError(f"{text!r} holds a '%', which Delta logs take for an escape: use another name")
    return os.path.abspath(text)


# -- a folder that appears at once ---------------------------------------------------------------


@contextmanager
def creating(path: str | os.PathLike[str], overwrite: bool = False) -> Iterator[Path]:
    """Yield a hidden folder beside ``path`` that becomes ``path``, by one rename, when the block ends well.

    Whatever ends the block otherwise, Ctrl-C included, removes the folder; one that a killed process
    left is removed when the same destination is next created.

    Parameters
    ----------
    path
        The destination.
    overwrite
        Replace what is there, if it is a tensor or bundle of sparrow.

    Raises
    ------
    ExistsError
        If something is there and ``overwrite`` is not set, or it is not sparrow's.
    StorageError
        If the folder cannot be made, or the disk is full.
    """
    final = local_path(path)
    parent, name = os.path.split(final)
    _refuse(final, overwrite)
    stem = f".{name[:80]}.{socket.gethostname()[:40]}-"
    _remove_stale(parent, stem)
    folder = Path(parent, f"{stem}{os.getpid()}-{os.urandom(6).hex()}.partial")
    try:
        os.makedirs(parent, exist_ok=True)
        folder.mkdir()
    except OSError as error:
        raise disk_full(error, parent) from error
    try:
        try:
            yield folder
        except OSError as error:
            if error.errno in DISK_FULL:
                raise disk_full(error, parent) from error
            raise
        try:
            fsync_folder(folder)
            _refuse(final, overwrite)
            _put(folder, final, overwrite)
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            raise disk_full(error, parent) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _refuse(final: str, overwrite: bool) -> None:
    if not os.path.lexists(final):
        return
    if not overwrite:
        raise ExistsError(f"{final!r} exists: choose another name, or pass overwrite=True to replace it")
    if not _is_ours(final):
        raise ExistsError(f"{final!r} is no tensor or bundle of sparrow, so it is not overwritten: remove it yourself")


def _is_ours(path: str) -> bool:
    if is_bundle(path):
        return True
    if not is_tensor(path):
        return False
    try:
        return bool(Log.open(path).metadata())
    except (NotFoundError, CorruptionError):
        return False


def _put(folder: Path, final: str, overwrite: bool) -> None:
    """Rename a folder to its destination; what was there ends up under the folder's name."""
    if overwrite and os.path.lexists(final):
        if not _exchange(str(folder), final):
            aside = f"{folder}.old"
            os.rename(final, aside)
            os.rename(folder, final)
            shutil.rmtree(aside, ignore_errors=True)
    else:
        try:
            os.rename(folder, final)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise ExistsError(f"{final!r} exists: another process created it meanwhile") from None
            raise
    fsync_folder(os.path.dirname(final))


def _exchange(a: str, b: str) -> bool:
    """Swap two folders in one step; False where the system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    return bool(rename(_HERE, os.fsencode(a), _HERE, os.fsencode(b), _EXCHANGE) == 0)


def _remove_stale(parent: str, stem: str) -> None:
    """Remove what dead processes of this machine left beside a destination."""
    try:
        names = os.listdir(parent)
    except OSError:
        return
    for name in names:
        if name.startswith(stem):
            pid = name[len(stem) :].split("-")[0]
            if pid.isdecimal() and not _alive(int(pid)):
                shutil.rmtree(os.path.join(parent, name), ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


# -- version 0 -----------------------------------------------------------------------------------


def create(
    path: str | os.PathLike[str],
    schema: Schema,
    files: Sequence[DataFile],
    *,
    labels: Mapping[int, pa.Array] | None = None,
    profile: str = "fast",
    operation: str = "create",
    extra: Mapping[str, Any] | None = None,
    order: Sequence[int] = (),
    built_from: str | None = None,
) -> None:
    """Commit version 0 of a tensor whose files are in the folder already.

    Parameters
    ----------
    path
        The folder.
    schema
        Shape, names, dtype, fill.
    files
        What :meth:`TensorWriter.finish` returned; of several writers, in any order.
    labels
        Labels by dimension number, as many as the dimension is long; dimensions that are given the
        very same array share a file.
    profile
        The profile of later edits.
    operation
        What history shows.
    extra
        JSON values to keep with the tensor.
    order, built_from
        Of a derived order: the order, and the digest of the base's files.

    Raises
    ------
    ShapeError
        If a file or the labels do not fit the shape.
    StorageError
        If key ranges of files overlap, the folder has a log, or the disk is full.
    """
    final = local_path(path)
    ndim = schema.ndim
    base = tuple(order) or tuple(range(ndim))
    files = widen(Path(final), schema.dims, schema.dtype, files, check_profile(profile), base)
    files = sorted(files, key=lambda file: [file.first[dim] for dim in base])
    for file in files:
        for dim, top in enumerate(file.high):
            if top >= schema.shape[dim]:
                raise ShapeError(
                    f"the coordinate {top} is out of range for dimension {schema.dims[dim]!r} "
                    f"of size {schema.shape[dim]}"
                )
    for left, right in itertools.pairwise(files):
        if [left.last[dim] for dim in base] >= [right.first[dim] for dim in base]:
            raise StorageError(
                f"the files from {left.first} to {left.last} and from {right.first} to {right.last} overlap: "
                "the parts that several writers take must be apart"
            )
    names: dict[int, str] = {}
    written: dict[int, str] = {}
    for dim, array in (labels or {}).items():
        if id(array) not in written:
            written[id(array)] = _write_labels(final, schema, dim, array)
        names[dim] = written[id(array)]
    metadata = Metadata(schema, check_profile(profile), tuple(order), names, built_from, extra or {})
    kinds = [files[0].coordinate_dtypes[dim] if files else schema.coordinate_dtype(dim).name for dim in range(ndim)]
    columns = arrow_schema(schema.dims, schema.dtype, list(map(np.dtype, kinds)), {METADATA_KEY: metadata.to_json()})
    notes = {
        "operation": operation,
        "nonce": os.urandom(8).hex(),
        "nnz": sum(file.rows for file in files),
        "shape": list(schema.shape),
    }
    Log.create(final, columns, files, notes)


def _write_labels(path: str, schema: Schema, dim: int, labels: pa.Array | pa.ChunkedArray) -> str:
    """Write the labels of a dimension and return the file, relative to the folder."""
    import pyarrow.parquet as pq

    if len(labels) != schema.shape[dim]:
        raise ShapeError(
            f"{len(labels)} labels for dimension {schema.dims[dim]!r} of size {schema.shape[dim]}: give one for each"
        )
    folder = Path(path, LABELS)
    sink: HashingFile | None = None
    try:
        folder.mkdir(exist_ok=True)
        sink = HashingFile(folder, f"{os.urandom(8).hex()}-{dim}.tmp")
        pq.write_table(pa.table({"label": labels}), sink, compression="zstd", write_page_checksum=True)
        name = sink.keep(lambda sha: f"{dim}-{sha}.parquet")
        fsync_folder(folder)
    except OSError as error:
        raise disk_full(error, folder) from error
    finally:
        if sink is not None and not sink.kept:
            sink.discard()
    return f"{LABELS}/{name}"
