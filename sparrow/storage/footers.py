"""Reading data files: footers, kept since files never change, and row groups."""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.errors import CorruptionError, NotFoundError
from sparrow.kernels.entries import Block
from sparrow.storage.layout import decode
from sparrow.workers import local

if TYPE_CHECKING:
    import pyarrow.parquet as pq

__all__ = ["FIRST", "LAST", "Footer", "footer", "forget", "missing", "read_group", "to_block"]

FIRST, LAST = b"sparrow.first", b"sparrow.last"
"""Keys in a file's footer: coordinates of the first and the last entry, as JSON."""

_KEPT = 4096


@dataclass(frozen=True, slots=True, eq=False)
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


_footers: OrderedDict[str, Footer] = OrderedDict()
_lock = threading.Lock()


def footer(path: str, ndim: int) -> Footer:
    """Return the footer of a data file, read once.

    Raises
    ------
    NotFoundError
        If the file is gone.
    CorruptionError
        If it is no Parquet file that sparrow wrote.
    """
    with _lock:
        found = _footers.get(path)
        if found is not None:
            _footers.move_to_end(path)
            return found
    found = _load(path, ndim)
    with _lock:
        _footers[path] = found
        if len(_footers) > _KEPT:
            _footers.popitem(last=False)
    return found


def forget(path: str) -> None:
    """Drop what is kept of a file."""
    with _lock:
        _footers.pop(path, None)
    own = local()
    if getattr(own, "parquet_path", None) == path:
        own.parquet_path = own.parquet_file = None


def _load(path: str, ndim: int) -> Footer:
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(path)
    except FileNotFoundError:
        raise missing(path) from None
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
    except (KeyError, AttributeError, TypeError, ValueError, IndexError):
        raise CorruptionError(
            f"the data file {path!r} has no statistics of its coordinates: sparrow did not write it"
        ) from None
    return Footer(metadata, rows, nbytes, low, high, first, last)


def read_group(
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
    file = _open(path, ndim)
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
    return Block(tuple(coords), decode(columns[ndim:], dtype))


def _open(path: str, ndim: int) -> pq.ParquetFile:
    """Return this thread's handle: a shared one crashed readers, and most reads go on in the same file."""
    import pyarrow.parquet as pq

    own = local()
    if getattr(own, "parquet_path", None) == path and own.parquet_pid == os.getpid():
        return own.parquet_file
    metadata = footer(path, ndim).metadata
    try:
        file = pq.ParquetFile(path, metadata=metadata, pre_buffer=False)
    except FileNotFoundError:
        raise missing(path) from None
    except (OSError, pa.ArrowException) as error:
        raise CorruptionError(f"the data file {path!r} cannot be read: {_one_line(error)}") from None
    own.parquet_path, own.parquet_file, own.parquet_pid = path, file, os.getpid()
    return file


def _numpy(column: pa.ChunkedArray) -> NDArray[Any]:
    chunk = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    array: NDArray[Any] = chunk.to_numpy(zero_copy_only=False)
    return array


def missing(path: str) -> NotFoundError:
    """Return the error for a data file that is gone."""
    return NotFoundError(
        f"the data file {path!r} is gone: if this is an old version, vacuum() has removed its files; "
        "if it is the current one, verify() lists what is missing"
    )


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
