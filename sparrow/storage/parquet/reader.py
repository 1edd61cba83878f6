"""Reader of data files: cached footers and row groups, verified by checksums.

The name of a file carries the checksum of its footer, and the footer those of the row groups. Both are verified once
per process before anything is decoded. Files of the first release have neither: they are hashed as a whole, by the
hash in their names.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
import zlib
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.errors import CorruptionError, NotFoundError, StorageError
from sparrow.kernels.coo import Block
from sparrow.relations.arrow import as_numpy
from sparrow.runtime.events import emit
from sparrow.runtime.thread_pool import worker_local
from sparrow.storage.fs.failures import damage_error
from sparrow.storage.fs.filesystem import get_filesystem
from sparrow.storage.fs.traffic import count_files, is_counting
from sparrow.storage.parquet.layout import decode_values
from sparrow.storage.tuning import tuning

if TYPE_CHECKING:
    import pyarrow.parquet as pq

__all__ = [
    "DATA_FILE",
    "FIRST_KEY",
    "LAST_KEY",
    "ROW_GROUPS_KEY",
    "RUN_SUFFIX",
    "Footer",
    "check_row_groups",
    "evict_footer",
    "footer_checksum",
    "hash_file",
    "missing_file_error",
    "prefetch_footers",
    "read_footer",
    "read_row_group",
    "to_block",
]

RUN_SUFFIX = "-run"
"""Suffix, before the extension, of the names of files of append runs."""

DATA_FILE = re.compile(
    rf"(?P<sha>[0-9a-f]{{64}})-(?P<nonce>[0-9a-f]{{16}}(?P<footer>[0-9a-f]{{8}})|[0-9a-f]{{8,32}})(?P<run>{RUN_SUFFIX})?\.parquet"
)
"""Names of data files: SHA-256 of the content, nonce of the writer, CRC-32 of the footer."""

FIRST_KEY, LAST_KEY = b"sparrow.first", b"sparrow.last"
"""Keys in a footer: coordinates of the first and the last element, as JSON."""

ROW_GROUPS_KEY = b"sparrow.groups"
"""Key in a footer: offset, length and CRC-32 of each row group, as JSON."""

_TRAILER_BYTES = 8
"""Length of the footer and the magic bytes at the end of a Parquet file."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Footer:
    """Footer of a data file; arrays have one row for each row group."""

    metadata: pq.FileMetaData
    rows: NDArray[np.int64]
    nbytes: NDArray[np.int64]
    low: NDArray[np.int64]
    """Smallest coordinates, shape (row groups, dimensions)."""
    high: NDArray[np.int64]
    first: tuple[int, ...]
    """Coordinates of the first element, by dimension number."""
    last: tuple[int, ...]
    pieces: tuple[tuple[int, int, int], ...]
    """Offset, length and checksum of each row group; empty in files of the first release."""
    checked: NDArray[np.bool_]
    """True if the checksum of each row group has been verified."""
    bounded: NDArray[np.bool_]
    """True if coordinates were found within low and high, and sorted, shape (row groups, dimensions)."""
    leading: list[int]
    """The dimension that the file is sorted by first, once it is known."""
    size: int
    """Bytes of the file."""
    fingerprint: Hashable
    """Fingerprint of the file when the footer was read."""


_footers: OrderedDict[str, Footer] = OrderedDict()
_lock = threading.Lock()


def read_footer(path: str, ndim: int) -> Footer:
    """Return the footer of a data file, cached.

    Raises
    ------
    NotFoundError
        If the file is gone.
    CorruptionError
        If it is damaged or was not written by sparrow.
    """
    try:
        fingerprint = get_filesystem(path).fingerprint(path)
    except NotFoundError:
        raise missing_file_error(path) from None
    with _lock:
        found = _footers.get(path)
        if found is not None and found.fingerprint == fingerprint:
            _footers.move_to_end(path)
            return found
    found = _load_footer(path, ndim, fingerprint)
    with _lock:
        _footers[path] = found
        if len(_footers) > tuning().cached_footers:
            _footers.popitem(last=False)
    return found


def prefetch_footers(paths: Sequence[str]) -> None:
    """Prefetch the footers of remote files that will be read."""
    if paths and (prefetcher := get_filesystem(paths[0]).prefetcher) is not None:
        prefetcher.prefetch_tails([path for path in paths if path not in _footers], tuning().footer_tail_bytes)


def evict_footer(path: str) -> None:
    """Drop the cached footer and handle of a file."""
    with _lock:
        _footers.pop(path, None)
    own = worker_local()
    if getattr(own, "parquet_path", None) == path:
        own.parquet_path = own.parquet_footer = own.parquet_file = own.parquet_raw = None


def footer_checksum(tail: bytes) -> int:
    """Return the checksum of a footer, -1 if ``tail`` is only a part of it."""
    length = int.from_bytes(tail[-_TRAILER_BYTES:-4], "little") + _TRAILER_BYTES
    return zlib.crc32(tail[-length:]) if length <= len(tail) and tail[-4:] == b"PAR1" else -1


def hash_file(path: str) -> str:
    """Return the SHA-256 of a file as hexadecimal digits."""
    found = hashlib.sha256()
    with get_filesystem(path).open(path, sequential=True, immutable=True) as file:
        while block := file.read(tuning().hash_block_bytes):
            found.update(block)
    return found.hexdigest()


def _read_footer_bytes(path: str) -> tuple[bytes, int]:
    """Return the tail of a file with its whole footer, and the size of the file."""
    files = get_filesystem(path)
    tail, size = files.read_tail(path, tuning().footer_tail_bytes)
    length = int.from_bytes(tail[-_TRAILER_BYTES:-4], "little") + _TRAILER_BYTES
    return files.read_tail(path, length) if len(tail) < length <= size else (tail, size)


def _check_footer(path: str, tail: bytes) -> bool:
    """Verify a footer by the name of its file.

    Return whether that meant hashing the whole file.
    """
    named = DATA_FILE.fullmatch(os.path.basename(path))
    if named is None:
        return False
    hash_only = named["footer"] is None
    emit("storage.checksum", path=path, row_group=None)
    intact = hash_file(path) == named["sha"] if hash_only else footer_checksum(tail) == int(named["footer"], 16)
    if not intact:
        raise CorruptionError(
            f"the data file {path!r} is damaged: the checksum of its footer does not match; verify() lists all damage"
        )
    return hash_only


def _load_footer(path: str, ndim: int, fingerprint: Hashable) -> Footer:
    import pyarrow.parquet as pq

    emit("storage.load_footer", path=path)
    try:
        tail, size = _read_footer_bytes(path)
        hash_only = _check_footer(path, tail)
        metadata = pq.read_metadata(pa.BufferReader(tail))
    except NotFoundError:
        raise missing_file_error(path) from None
    except StorageError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise damage_error(f"the data file {path!r}", error) from None
    count = metadata.num_row_groups
    rows, nbytes = np.zeros(count, np.int64), np.zeros(count, np.int64)
    low, high = np.zeros((count, ndim), np.int64), np.zeros((count, ndim), np.int64)
    try:
        for number in range(count):
            group = metadata.row_group(number)
            rows[number] = group.num_rows
            for at in range(group.num_columns):
                column = group.column(at)
                nbytes[number] += column.total_compressed_size
                if at < ndim:
                    statistics = column.statistics
                    low[number, at], high[number, at] = statistics.min, statistics.max
        notes = metadata.metadata or {}
        first, last = tuple(json.loads(notes[FIRST_KEY])), tuple(json.loads(notes[LAST_KEY]))
        pieces = tuple((int(at), int(size), int(crc)) for at, size, crc in json.loads(notes.get(ROW_GROUPS_KEY, "[]")))
    except (KeyError, AttributeError, TypeError, ValueError, IndexError, RecursionError):
        raise CorruptionError(
            f"the data file {path!r} lacks statistics of its coordinates: sparrow did not write it"
        ) from None
    checked = np.full(count, hash_only or len(pieces) != count)
    bounded = np.zeros((count, ndim), bool)
    return Footer(metadata, rows, nbytes, low, high, first, last, pieces, checked, bounded, [], size, fingerprint)


def check_row_groups(path: str, ndim: int) -> None:
    """Verify the row groups of a file, for readers that do not.

    Raises
    ------
    CorruptionError
        If a row group is damaged.
    """
    found = read_footer(path, ndim)
    if not found.checked.all():
        with get_filesystem(path).open(path, immutable=True) as file:
            for group in np.flatnonzero(~found.checked).tolist():
                _check_group(path, found, file, group)


def _check_group(path: str, found: Footer, file: pa.NativeFile, group: int) -> None:
    if found.checked[group]:
        return
    start, length, checksum = found.pieces[group]
    emit("storage.checksum", path=path, row_group=group)
    try:
        intact = zlib.crc32(file.read_at(length, start)) == checksum
    except NotFoundError:
        raise missing_file_error(path) from None
    except StorageError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise damage_error(f"row group {group} of the data file {path!r}", error) from None
    if not intact:
        raise CorruptionError(
            f"row group {group} of the data file {path!r} is damaged: its checksum does not match; "
            "restore the file, or an older version with restore()"
        )
    found.checked[group] = not get_filesystem(path).is_remote


def read_row_group(
    path: str,
    group: int,
    ndim: int,
    dtype: np.dtype[Any],
    coordinate_dtypes: Sequence[Any] | None = None,
    dims: Sequence[int] | None = None,
) -> Block:
    """Return the elements of a row group, without a copy if the dtypes agree.

    Thread-safe.

    Parameters
    ----------
    path, group
        File, and number of the row group.
    ndim, dtype
        Number of dimensions and dtype of the values.
    coordinate_dtypes
        Dtypes wanted for the coordinates; those of the file by default.
    dims
        Dimensions whose coordinates are decoded, all by default; the columns of the others are zeros.

    Raises
    ------
    NotFoundError
        If the file is gone.
    CorruptionError
        If it is damaged.
    """
    emit("storage.read_row_group", path=path, row_group=group)
    file = _open_checked(path, ndim, group)
    if is_counting():
        described = file.metadata.row_group(group)
        columns = range(described.num_columns) if dims is None else [*dims, *range(ndim, described.num_columns)]
        count_files(read=sum(described.column(at).total_compressed_size for at in columns))
    try:
        if dims is None:
            block = to_block(file.read_row_group(group, use_threads=False), ndim, dtype, coordinate_dtypes)
            _check_bounds(path, ndim, group, range(ndim), block)
            return block
        # Columns by number: pyarrow takes a name with a dot for a path.
        at = [*sorted(dims), *range(ndim, file.metadata.num_columns)]
        table = file.reader.read_row_group(group, column_indices=at, use_threads=False)
        block = to_block(
            table,
            len(dims),
            dtype,
            None if coordinate_dtypes is None else [coordinate_dtypes[dim] for dim in sorted(dims)],
        )
        _check_bounds(path, ndim, group, sorted(dims), block)
        kinds = [np.dtype(np.int32)] * ndim if coordinate_dtypes is None else coordinate_dtypes
        coords = [np.broadcast_to(np.zeros(1, kind), block.count) for kind in kinds]
        for dim, column in zip(sorted(dims), block.coords, strict=True):
            coords[dim] = column
        return Block(tuple(coords), block.values)
    except StorageError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise damage_error(
            f"row group {group} of the data file {path!r}", error, "; verify() lists all damage"
        ) from None


def _check_bounds(path: str, ndim: int, group: int, dims: Sequence[int], block: Block) -> None:
    """Raise ``CorruptionError`` if coordinates lie outside the footer's bounds.

    Also if those of the leading dimension do not ascend. Kernels follow coordinates without checks, and plans rely on
    bounds and order. Each row group is checked once per process.
    """
    found = read_footer(path, ndim)
    for dim, column in zip(dims, block.coords, strict=True):
        if found.bounded[group, dim]:
            continue
        low, high = int(found.low[group, dim]), int(found.high[group, dim])
        if len(column) and not low <= int(column.min()) <= int(column.max()) <= high:
            raise CorruptionError(
                f"row group {group} of the data file {path!r} is damaged: coordinates of dimension {dim} must be from "
                f"{low} to {high} by its footer, got {int(column.min())} to {int(column.max())}"
            )
        if dim in found.leading and (column[1:] < column[:-1]).any():
            raise CorruptionError(
                f"row group {group} of the data file {path!r} is damaged: coordinates of dimension {dim}, by which it "
                "is sorted, must ascend; verify() lists all damage"
            )
        found.bounded[group, dim] = True


def to_block(table: pa.Table, ndim: int, dtype: np.dtype[Any], coordinate_dtypes: Sequence[Any] | None = None) -> Block:
    """Return the elements in the columns of a file."""
    columns = [_numpy(column) for column in table.columns]
    coords = columns[:ndim]
    if coordinate_dtypes is not None:
        coords = [column.astype(kind, copy=False) for column, kind in zip(coords, coordinate_dtypes, strict=True)]
    return Block(tuple(coords), decode_values(columns[ndim:], dtype))


def _open_checked(path: str, ndim: int, group: int) -> pq.ParquetFile:
    """Return the handle of this thread after verifying a row group.

    Each thread has its own, because pyarrow crashes on shared handles, and keeps it, because most reads continue in the
    same file.
    """
    import pyarrow.parquet as pq

    own, found = worker_local(), read_footer(path, ndim)
    if getattr(own, "parquet_footer", None) is not found or own.parquet_pid != os.getpid():
        try:
            raw = get_filesystem(path).open(path, size=found.size, immutable=True)
            file = pq.ParquetFile(raw, metadata=found.metadata, pre_buffer=False)
        except NotFoundError:
            raise missing_file_error(path) from None
        except StorageError:
            raise
        except (OSError, pa.ArrowException) as error:
            raise damage_error(f"the data file {path!r}", error) from None
        own.parquet_path, own.parquet_footer, own.parquet_raw = path, found, raw
        own.parquet_file, own.parquet_pid = file, os.getpid()
    _check_group(path, found, own.parquet_raw, group)
    return own.parquet_file


def _numpy(column: pa.ChunkedArray) -> NDArray[Any]:
    chunk = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if chunk.null_count:  # a damaged file
        values: NDArray[Any] = chunk.to_numpy(zero_copy_only=False)
        return values
    array, buffer = as_numpy(chunk), chunk.buffers()[1]
    if buffer.is_mutable and array.nbytes and not array.flags.writeable:
        # The buffer is not shared, though pyarrow marks the array read-only.
        array = np.frombuffer(buffer, array.dtype, len(array), chunk.offset * array.itemsize)
    return array


def missing_file_error(path: str) -> NotFoundError:
    """Return the error for a data file that is gone."""
    return NotFoundError(
        f"the data file {path!r} is gone: if this is an old version, vacuum() has removed its files; "
        "if it is the current one, verify() lists what is missing"
    )
