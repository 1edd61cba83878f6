"""Creation of tensors: data files, version 0 of the log, then visibility."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sparrow.core.schema import Schema
from sparrow.errors import (
    ConflictError,
    CorruptionError,
    ExistsError,
    NotFoundError,
    ShapeError,
    StorageError,
    UnsupportedError,
)
from sparrow.runtime.validation import check_flag
from sparrow.storage.bundle import is_bundle, is_tensor
from sparrow.storage.delta.history import read_commit
from sparrow.storage.delta.labels import WrittenLabels, write_labels
from sparrow.storage.delta.log import Log, LostRace, read_stable
from sparrow.storage.delta.snapshot import Snapshot
from sparrow.storage.fs.credentials import options_for, use_storage_options
from sparrow.storage.fs.failures import DISK_FULL_ERRNOS, UnchangedClaim, write_error
from sparrow.storage.fs.filesystem import get_filesystem
from sparrow.storage.fs.local import TEMPORARY_FILE
from sparrow.storage.fs.paths import absolute_path
from sparrow.storage.parquet.layout import METADATA_KEY, Metadata, arrow_schema, check_profile
from sparrow.storage.parquet.reader import DATA_FILE
from sparrow.storage.parquet.writer import DataFile, widen_coordinates
from sparrow.storage.tuning import tuning

__all__ = ["can_share", "create", "has_own_options", "share_folder", "stage_folder"]


@contextlib.contextmanager
def stage_folder(
    path: str | os.PathLike[str], overwrite: bool = False, storage_options: Mapping[str, str] | None = None
) -> Iterator[Any]:
    """Yield a folder that appears as ``path`` when the block succeeds.

    Any error, including Ctrl-C, deletes the folder. What a killed process left is deleted when the same path is next
    created, and what it was about to replace is restored.

    Parameters
    ----------
    path
        The destination.
    overwrite
        Replace an existing tensor or bundle of sparrow.
    storage_options
        Options of an object store.

    Raises
    ------
    ExistsError
        If something exists and ``overwrite`` is False, or it is not sparrow's.
    StorageError
        If the folder cannot be created, or the disk is full.
    """
    overwrite = check_flag("overwrite", overwrite)
    final = absolute_path(path)
    with use_storage_options(final, storage_options):
        files = get_filesystem(final)
        files.recover(final)
        _check_free(final, overwrite)
        staged: str | None = None
        try:  # first of all: Ctrl-C may come as soon as the folder exists
            with UnchangedClaim():
                staged = files.stage(final, overwrite)
            with UnchangedClaim():
                try:
                    yield files.as_folder(staged)
                except OSError as error:
                    if error.errno in DISK_FULL_ERRNOS and not isinstance(error, StorageError):
                        raise write_error(error, os.path.dirname(final)) from error
                    raise
                if staged != final:
                    _check_free(final, overwrite)
            files.publish(staged, final, overwrite)
        finally:
            if staged is not None:
                try:
                    files.discard_staged(staged)
                except KeyboardInterrupt:  # perhaps before anything was done
                    if not files.is_remote:
                        files.discard_staged(staged)
                    raise


def has_own_options(path: str) -> bool:
    """Return whether only this process has the options of an object store."""
    return get_filesystem(path).is_remote and bool(options_for(path))


def can_share(folder: str) -> bool:
    """Return whether other processes may write data files to a folder being created.

    Not to an object store whose options only this process has, or where a tensor is visible.
    """
    return not has_own_options(folder) and get_filesystem(folder).is_staged(folder)


@contextlib.contextmanager
def share_folder(folder: str) -> Iterator[list[DataFile]]:
    """Let other processes write data files to a folder that is being created.

    The block adds them to the list. If it fails, those in an object store are deleted. Files that killed processes had
    begun are deleted when it ends, unless a table is there, which other processes may write to.
    """
    files, found = get_filesystem(folder), list[DataFile]()
    try:
        yield found
    except BaseException:
        if files.is_remote:
            _delete(folder, filter(DATA_FILE.fullmatch, files.names(folder)))
        raise
    for file in found if files.is_remote else ():
        files.make_durable(f"{folder}/{file.name}")
    if not files.is_remote and not is_tensor(folder):  # files of object stores are invisible until they are complete
        _delete(folder, filter(TEMPORARY_FILE.fullmatch, files.names(folder)))


def _check_free(final: str, overwrite: bool) -> None:
    if not get_filesystem(final).is_occupied(final):
        return
    if not _is_ours(final):
        raise ExistsError(
            f"{final!r} exists and is not a tensor or bundle of sparrow, which alone are overwritten: choose another "
            "name, or remove it yourself"
        )
    if not overwrite:
        raise ExistsError(f"{final!r} exists: choose another name, or pass overwrite=True to replace it")


def _is_ours(path: str) -> bool:
    if is_bundle(path):
        return True
    if not is_tensor(path):
        return False
    try:
        return bool(read_stable(path, lambda: Log.open(path).metadata()))
    except (NotFoundError, CorruptionError):
        return False


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
    report: Mapping[str, int] | None = None,
) -> None:
    """Commit version 0 of a tensor whose files are in the folder already.

    One of several processes succeeds.

    Data files that others left uncommitted are deleted afterwards, and so are those of a process that comes too late. A
    tensor to be replaced on an object store gets the new one as its next version, so that its readers go on.

    Parameters
    ----------
    path
        The folder.
    schema
        Shape, dimension names, dtype and fill value.
    files
        Results of :meth:`TensorWriter.finish`; of several writers, in any order.
    labels
        Labels by dimension number, one per coordinate; dimensions with the same array share a file.
    profile
        Profile of later edits.
    operation
        Operation in the history.
    extra
        JSON values kept with the tensor.
    order, built_from
        Of a derived order: the order, and the digest of the base files.
    report
        Counts of an ingest, for the history.

    Raises
    ------
    ShapeError
        If a file or the labels do not fit the shape.
    ExistsError
        If the folder has a log.
    StorageError
        If key ranges of files overlap, or the disk is full.
    """
    final = absolute_path(path)
    ndim = schema.ndim
    base = tuple(order) or tuple(range(ndim))
    files = widen_coordinates(final, schema.dims, schema.dtype, files, check_profile(profile), base)
    files = sorted(files, key=lambda file: [file.first[dim] for dim in base])
    for file in files:
        for dim, top in enumerate(file.high):
            if top >= schema.shape[dim]:
                raise ShapeError(
                    f"coordinate {top} is out of range for dimension {schema.dims[dim]!r} of size {schema.shape[dim]}"
                )
    for left, right in itertools.pairwise(files):
        if [left.last[dim] for dim in base] >= [right.first[dim] for dim in base]:
            raise StorageError(
                f"the files from {left.first} to {left.last} and from {right.first} to {right.last} overlap: "
                "several writers must write disjoint ranges"
            )
    names = write_labels(WrittenLabels(final), schema, labels or {})
    replaced = os.urandom(8).hex() if get_filesystem(final).is_replacement(final) else None
    metadata = Metadata(schema, check_profile(profile), tuple(order), names, built_from, extra or {}, replaced)
    dtypes = [files[0].coordinate_dtypes[dim] if files else schema.coordinate_dtype(dim).name for dim in range(ndim)]
    columns = arrow_schema(schema.dims, schema.dtype, list(map(np.dtype, dtypes)), {METADATA_KEY: metadata.to_json()})
    notes = {
        "operation": operation,
        "nonce": os.urandom(8).hex(),
        "nnz": sum(file.rows for file in files),
        "shape": list(schema.shape),
    }
    if report is not None:
        notes["report"] = dict(report)
    if replaced is not None:
        _replace(final, columns, files, notes, names)
        return
    own = {file.name for file in files}
    others = {name for name in get_filesystem(final).names(final) if DATA_FILE.fullmatch(name)} - own
    try:
        Log.create(final, columns, files, notes)
    except ExistsError:
        winner = read_commit(final, 0)
        _delete(final, own.difference(winner.added if winner else own))
        raise
    _delete(final, others)


def _replace(
    path: str, columns: pa.Schema, files: Sequence[DataFile], notes: Mapping[str, Any], labels: Mapping[int, str]
) -> None:
    """Commit a tensor over whatever the log of another contains by then."""
    attempts = tuning().commit_attempts
    for _ in range(attempts):
        log = Log.open(path)
        if not log.has_bounds(len(notes["shape"])):
            raise UnsupportedError(
                f"the log of {path!r}, by an older sparrow, cannot hold a tensor of {len(notes['shape'])} dimensions: "
                "choose another name, or delete it first"
            )
        kept = {*Snapshot(log).label_files(strict=False), *labels.values()}
        all_notes = {**notes, "labels": sorted(kept)} if kept else notes
        with contextlib.suppress(LostRace):
            log.commit(files, (), all_notes, notes["shape"], columns, labels)
            return
    raise ConflictError(f"lost {attempts} races to replace {path!r}: try again when it is quieter")


def _delete(path: str, names: Iterable[str]) -> None:
    for name in names:
        get_filesystem(path).delete(os.path.join(path, name))
