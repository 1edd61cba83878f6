"""Parquet files that appear whole: of recommendations and of factors."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.errors import ExistsError, InvalidValueError, ShapeError, StorageError, UnsupportedError
from sparrow.runtime.validation import check_flag
from sparrow.storage.fs.filesystem import get_filesystem
from sparrow.storage.fs.local import fsync_path, write_error

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from sparrow.models.ranking import Factors

__all__ = ["check_absent", "ranking_table", "write_factors", "writing"]

Labels: TypeAlias = Mapping[str, pa.Array | None]

_PIECE = 1 << 24
"""Bytes of factors written at a time."""


def local(folder: str | os.PathLike[str]) -> Path:
    """Return a folder of this machine as a path.

    Raises
    ------
    UnsupportedError
        If it is one of an object store.
    """
    if get_filesystem(folder).is_remote:
        raise UnsupportedError(f"{os.fspath(folder)!r} is a URL: save factors on this machine and upload them")
    return Path(folder)


def check_absent(path: str | os.PathLike[str], way_out: str) -> None:
    """Raise ``ExistsError`` with a way out if something is at ``path``."""
    if os.path.lexists(path):
        raise ExistsError(f"{os.fspath(path)!r} exists: {way_out}")


@contextmanager
def writing(
    path: str | os.PathLike[str], overwrite: bool = False, names: Labels = MappingProxyType({})
) -> Iterator[pq.ParquetWriter]:
    """Yield a writer of recommendations whose file becomes ``path``, by one rename, when the block ends well.

    ``names`` are labels of rows and items, as of :func:`ranking_table`. Until then it is a hidden file beside
    it, locked; the next writer of ``path`` takes over what a killed one left.

    Raises
    ------
    ExistsError
        If something is there and ``overwrite`` is False, or another process is writing it.
    StorageError
        If the file cannot be written.
    """
    import pyarrow.parquet as pq

    final, overwrite = Path(path), check_flag("overwrite", overwrite)
    refused = "choose another name, or pass overwrite=True to replace it"
    if not overwrite:
        check_absent(final, refused)
    if final.is_dir():
        raise ExistsError(f"{os.fspath(path)!r} is a folder: name a file")
    hidden = final.with_name(f".{final.name}.partial")
    try:
        with _locked(hidden) as file:
            try:
                with pq.ParquetWriter(
                    file,
                    _ranking(names),
                    compression="lz4",
                    use_dictionary=["row", "rank", *(["item"] if names.get("item") is not None else [])],
                    column_encoding={"score": "BYTE_STREAM_SPLIT"}
                    | ({"item": "DELTA_BINARY_PACKED"} if names.get("item") is None else {}),
                ) as writer:
                    yield writer
                file.flush()
                os.fsync(file.fileno())
                if not overwrite:
                    check_absent(final, refused)
                hidden.replace(final)
                fsync_path(final.parent)
            except BaseException:
                hidden.unlink(missing_ok=True)
                raise
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise write_error(error, final.parent) from error


@contextmanager
def _locked(path: Path) -> Iterator[IO[bytes]]:
    """Yield an empty file that no other process writes."""
    while True:
        with path.open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ExistsError(
                    f"another process is writing {os.fspath(path)!r}: wait for it, or choose another name"
                ) from None
            if _is_at(path, file):
                file.truncate(0)
                yield file
                return
        # Between opening and locking its writer was done and renamed it.


def _is_at(path: Path, file: IO[bytes]) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _ranking(names: Labels) -> pa.Schema:
    kinds = [("row", pa.int64()), ("rank", pa.int32()), ("item", pa.int64()), ("score", pa.float32())]
    known = {name: labels.type for name, labels in names.items() if labels is not None}
    return pa.schema([pa.field(name, known.get(name, kind), nullable=False) for name, kind in kinds])


def ranking_table(
    first: int, ids: NDArray[np.int64], scores: NDArray[np.float32], names: Labels = MappingProxyType({})
) -> pa.Table:
    """Return ids and scores of consecutive rows, shapes (m, k), one row of the table for each that is not -1.

    Parameters
    ----------
    first
        The number of the first row.
    ids, scores
        As :func:`sparrow.models.ranking.ranked` yields them.
    names
        Labels that are written in place of the numbers of "row" and "item".
    """
    height, k = ids.shape
    rows = np.repeat(np.arange(first, first + height), k)
    ranks = np.tile(np.arange(1, k + 1, dtype=np.int32), height)
    columns: list[NDArray[Any]] = [rows, ranks, ids.reshape(-1), scores.reshape(-1)]
    found = columns[2] >= 0
    if not found.all():
        columns = [column[found] for column in columns]
    schema = _ranking(names)
    found_names = [names.get(name) for name in schema.names]
    arrays = [
        pa.array(column) if labels is None else labels.take(pa.array(column))
        for column, labels in zip(columns, found_names, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def write_factors(path: Path, name: str, factors: Factors, numbers: Any = None) -> None:
    """Write factors as Parquet: numbers as the column ``name``, and ``factors``, lists of one length.

    Parameters
    ----------
    path
        A new file.
    name
        The column of the numbers.
    factors
        Shape (n, d); written as float32, a piece at a time.
    numbers
        Shape (n,), integers or an Arrow array of labels; counted from 0 by default.

    Raises
    ------
    ShapeError
        If there are not n numbers.
    InvalidValueError
        If they are no integers.
    """
    import pyarrow.parquet as pq

    height, width = factors.shape
    if numbers is not None and np.shape(numbers) != (height,):
        raise ShapeError(
            f"there are {height} factors to number, and numbers of shape {np.shape(numbers)} for column {name!r}"
        )
    labels = numbers if isinstance(numbers, pa.Array) else None
    if numbers is not None and labels is None and height and np.asarray(numbers).dtype.kind not in "iu":
        raise InvalidValueError(f"the numbers for column {name!r} are {np.asarray(numbers).dtype}: give integers")
    kind = pa.list_(pa.field("element", pa.float32(), nullable=False), width)
    named = pa.int64() if labels is None else labels.type
    schema = pa.schema([pa.field(name, named, nullable=False), pa.field("factors", kind, nullable=False)])
    step = max(1, _PIECE // (4 * width))
    with path.open("xb") as file, pq.ParquetWriter(file, schema, compression="none", use_dictionary=False) as writer:
        for start in range(0, height, step):
            piece = np.ascontiguousarray(factors[start : start + step], dtype=np.float32)
            stop = start + len(piece)
            if numbers is None:
                here = pa.array(np.arange(start, stop))
            else:
                here = pa.array(np.asarray(numbers[start:stop], np.int64)) if labels is None else labels[start:stop]
            lists = pa.FixedSizeListArray.from_arrays(pa.array(piece.reshape(-1)), type=kind)
            writer.write_table(pa.Table.from_arrays([here, lists], schema=schema))
        writer.close()
        file.flush()
        os.fsync(file.fileno())
