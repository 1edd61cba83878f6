"""Reading data files: footers, kept since files never change, and row groups.

What is read is what was written: the name of a file tells the checksum of its footer, the footer that of each row
group, and both are compared, once in a process, before anything is made of them. Files of the first release tell
neither: such a file is hashed whole, as its name tells the hash.
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
from sparrow.relations.base import as_numpy
from sparrow.runtime.thread_pool import worker_local
from sparrow.storage.fs.filesystem import get_filesystem
from sparrow.storage.parquet.layout import decode_values

if TYPE_CHECKING:
    import pyarrow.parquet as pq

__all__ = [
    "DATA_FILE",
    "FIRST",
    "GROUPS",
    "LAST",
    "RUN",
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

RUN = "-run"
"""How the names of files end, before the type, that stand beside those in order."""

DATA_FILE = re.compile(
    rf"(?P<sha>[0-9a-f]{{64}})-(?P<nonce>[0-9a-f]{{16}}(?P<footer>[0-9a-f]{{8}})|[0-9a-f]{{8,32}})(?P<run>{RUN})?\.parquet"
)
"""Names of data files: the SHA-256 of the content, a nonce of the writer, and the CRC-32 of the footer."""

FIRST, LAST = b"sparrow.first", b"sparrow.last"
"""Keys in a file's footer: coordinates of the first and the last entry, as JSON."""

GROUPS = b"sparrow.groups"
"""Key in a file's footer: where each row group begins, how long it is and its CRC-32, as JSON."""

_KEPT = 4096
_TRAILER = 8
_TAIL = 1 << 16


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Footer:
    """What a file says about itself; arrays have one row for each row group."""

    metadata: pq.FileMetaData
    rows: NDArray[np.int64]
    nbytes: NDArray[np.int64]
    low: NDArray[np.int64]
    """Smallest coordinates, shape (row groups, dimensions)."""
    high: NDArray[np.int64]
    first: tuple[int, ...]
    """Coordinates of the first entry, by dimension number."""
    last: tuple[int, ...]
    pieces: tuple[tuple[int, int, int], ...]
    """Of each row group where its bytes begin, how many they are and their checksum."""
    checked: NDArray[np.bool_]
    """Which row groups were found to be as written."""
    size: int
    """Bytes of the file."""
    fingerprint: Hashable
    """What the file system said of the file."""


_footers: OrderedDict[str, Footer] = OrderedDict()
_lock = threading.Lock()


def read_footer(path: str, ndim: int) -> Footer:
    """Return the footer of a data file, read once.

    Raises
    ------
    NotFoundError
        If the file is gone.
    CorruptionError
        If it is no Parquet file that sparrow wrote.
    """
    try:
        stamp = get_filesystem(path).fingerprint(path)
    except NotFoundError:
        raise missing_file_error(path) from None
    with _lock:
        found = _footers.get(path)
        if found is not None and found.fingerprint == stamp:
            _footers.move_to_end(path)
            return found
    found = _load(path, ndim, stamp)
    with _lock:
        _footers[path] = found
        if len(_footers) > _KEPT:
            _footers.popitem(last=False)
    return found


def prefetch_footers(paths: Sequence[str]) -> None:
    """Take note that the footers of some files will be read."""
    if paths and (files := get_filesystem(paths[0])).is_remote:
        files.prefetch_tails([path for path in paths if path not in _footers], _TAIL)


def evict_footer(path: str) -> None:
    """Drop what is kept of a file."""
    with _lock:
        _footers.pop(path, None)
    own = worker_local()
    if getattr(own, "parquet_path", None) == path:
        own.parquet_path = own.parquet_footer = own.parquet_file = own.parquet_raw = None


def footer_checksum(tail: bytes) -> int:
    """Return the checksum of the footer that the last bytes of a file hold; -1 where they do not hold all of it."""
    length = int.from_bytes(tail[-_TRAILER:-4], "little") + _TRAILER
    return zlib.crc32(tail[-length:]) if length <= len(tail) and tail[-4:] == b"PAR1" else -1


def hash_file(path: str) -> str:
    """Return the hash of a file."""
    found = hashlib.sha256()
    with get_filesystem(path).open(path, sequential=True, immutable=True) as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()


def _end(path: str) -> tuple[bytes, int]:
    """Return the end of a file, all of its footer, and its size."""
    files = get_filesystem(path)
    tail, size = files.read_tail(path, _TAIL)
    length = int.from_bytes(tail[-_TRAILER:-4], "little") + _TRAILER
    return files.read_tail(path, length) if len(tail) < length <= size else (tail, size)


def _check_footer(path: str, tail: bytes) -> bool:
    """Check a footer by the name of its file; return whether the whole file was."""
    named = DATA_FILE.fullmatch(os.path.basename(path))
    if named is None:
        return False
    whole = named["footer"] is None
    sound = hash_file(path) == named["sha"] if whole else footer_checksum(tail) == int(named["footer"], 16)
    if not sound:
        raise CorruptionError(
            f"the data file {path!r} is damaged: its end is not what was written; verify() tells more"
        )
    return whole


def _load(path: str, ndim: int, stamp: Hashable) -> Footer:
    import pyarrow.parquet as pq

    try:
        tail, size = _end(path)
        whole = _check_footer(path, tail)
        metadata = pq.read_metadata(pa.BufferReader(tail))
    except NotFoundError:
        raise missing_file_error(path) from None
    except StorageError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise CorruptionError(f"the data file {path!r} cannot be read: {_one_line(error)}") from None
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
        first, last = tuple(json.loads(notes[FIRST])), tuple(json.loads(notes[LAST]))
        pieces = tuple((int(at), int(size), int(crc)) for at, size, crc in json.loads(notes.get(GROUPS, "[]")))
    except (KeyError, AttributeError, TypeError, ValueError, IndexError):
        raise CorruptionError(
            f"the data file {path!r} has no statistics of its coordinates: sparrow did not write it"
        ) from None
    checked = np.full(count, whole or len(pieces) != count)
    return Footer(metadata, rows, nbytes, low, high, first, last, pieces, checked, size, stamp)


def check_row_groups(path: str, ndim: int) -> None:
    """Compare all row groups of a file with their checksums, for a reader that does not do it itself.

    Raises
    ------
    CorruptionError
        If one is not what was written.
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
    try:
        sound = zlib.crc32(file.read_at(length, start)) == checksum
    except NotFoundError:
        raise missing_file_error(path) from None
    except StorageError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise CorruptionError(
            f"row group {group} of the data file {path!r} cannot be read: {_one_line(error)}"
        ) from None
    if not sound:
        raise CorruptionError(
            f"row group {group} of the data file {path!r} is damaged: its bytes are not what was written; "
            "restore the file, or an older version with restore()"
        )
    found.checked[group] = not get_filesystem(path).is_remote


def read_row_group(
    path: str,
    group: int,
    ndim: int,
    dtype: np.dtype[Any],
    kinds: Sequence[Any] | None = None,
    dims: Sequence[int] | None = None,
) -> Block:
    """Return the entries of a row group, zero-copy where the types agree; safe from several threads.

    Parameters
    ----------
    kinds
        The types wanted for the coordinates; those of the file by default.
    dims
        The dimensions whose coordinates are decoded, all by default; the columns of the others hold zeros.
    """
    file = _open(path, ndim, group)
    try:
        if dims is None:
            return to_block(file.read_row_group(group, use_threads=False), ndim, dtype, kinds)
        # By number: a name with a dot in it would be taken for a path.
        at = [*sorted(dims), *range(ndim, file.metadata.num_columns)]
        table = file.reader.read_row_group(group, column_indices=at, use_threads=False)
        block = to_block(table, len(dims), dtype, None if kinds is None else [kinds[dim] for dim in sorted(dims)])
        coords = [np.broadcast_to(np.zeros(1, np.int32), block.count)] * ndim
        for dim, column in zip(sorted(dims), block.coords, strict=True):
            coords[dim] = column
        return Block(tuple(coords), block.values)
    except StorageError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise CorruptionError(
            f"row group {group} of the data file {path!r} cannot be read: {_one_line(error)}; verify() tells more"
        ) from None


def to_block(table: pa.Table, ndim: int, dtype: np.dtype[Any], kinds: Sequence[Any] | None = None) -> Block:
    """Return the entries that the columns of a file hold."""
    columns = [_numpy(column) for column in table.columns]
    coords = columns[:ndim]
    if kinds is not None:
        coords = [column.astype(kind, copy=False) for column, kind in zip(coords, kinds, strict=True)]
    return Block(tuple(coords), decode_values(columns[ndim:], dtype))


def _open(path: str, ndim: int, group: int) -> pq.ParquetFile:
    """Return this thread's handle, for a row group that is sound.

    A handle shared by threads crashed readers, and most reads go on in the same file.
    """
    import pyarrow.parquet as pq

    own, found = worker_local(), read_footer(path, ndim)
    if getattr(own, "parquet_footer", None) is not found or own.parquet_pid != os.getpid():
        try:
            raw = get_filesystem(path).open(path, size=found.size, immutable=True)
            file = pq.ParquetFile(raw, metadata=found.metadata, pre_buffer=False)
        except NotFoundError:
            raise missing_file_error(path) from None
        except (OSError, pa.ArrowException) as error:
            raise CorruptionError(f"the data file {path!r} cannot be read: {_one_line(error)}") from None
        own.parquet_path, own.parquet_footer, own.parquet_raw = path, found, raw
        own.parquet_file, own.parquet_pid = file, os.getpid()
    _check_group(path, found, own.parquet_raw, group)
    return own.parquet_file


def _numpy(column: pa.ChunkedArray) -> NDArray[Any]:
    chunk = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if chunk.null_count:  # a damaged file
        cells: NDArray[Any] = chunk.to_numpy(zero_copy_only=False)
        return cells
    array, held = as_numpy(chunk), chunk.buffers()[1]
    if held.is_mutable and array.nbytes and not array.flags.writeable:
        # Decoded for nobody else: pyarrow shows as read-only what may be written.
        array = np.frombuffer(held, array.dtype, len(array), chunk.offset * array.itemsize)
    return array


def missing_file_error(path: str) -> NotFoundError:
    """Return the error for a data file that is gone."""
    return NotFoundError(
        f"the data file {path!r} is gone: if this is an old version, vacuum() has removed its files; "
        "if it is the current one, verify() lists what is missing"
    )


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
