"""Parquet files of recommendations and factors, written atomically."""

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
from sparrow.models.tuning import tuning
from sparrow.runtime.validation import check_flag, check_path
from sparrow.storage.fs.failures import UnchangedClaim, durability_error, write_error
from sparrow.storage.fs.filesystem import get_filesystem
from sparrow.storage.fs.local import fsync_path

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from sparrow.models.topk import Factors

__all__ = ["check_absent", "open_ranking_file", "ranking_table", "write_factors"]

Labels: TypeAlias = Mapping[str, pa.Array | None]


def local_path(folder: str | os.PathLike[str]) -> Path:
    """Return a local folder as a path; raise ``UnsupportedError`` for a URL."""
    if get_filesystem(folder).is_remote:
        raise UnsupportedError(f"path must be a local folder, got {os.fspath(folder)!r}: save locally and upload")
    return Path(folder)


def check_absent(path: str | os.PathLike[str], remedy: str) -> None:
    """Raise ``ExistsError`` if ``path`` exists."""
    if os.path.lexists(check_path(path)):
        raise ExistsError(f"{os.fspath(path)!r} exists: {remedy}")


@contextmanager
def open_ranking_file(
    path: str | os.PathLike[str], overwrite: bool = False, names: Labels = MappingProxyType({})
) -> Iterator[pq.ParquetWriter]:
    """Yield a Parquet writer of recommendations and rename its file on success.

    The writer uses a locked hidden file beside ``path``; the next writer of ``path`` takes over the file of a killed
    one.

    Parameters
    ----------
    path
        Final path.
    overwrite
        Replace an existing file.
    names
        Labels of rows and items, as in :func:`ranking_table`.

    Raises
    ------
    ExistsError
        If ``path`` exists and ``overwrite`` is False, or another process is writing it.
    StorageError
        If the file cannot be written.
    """
    import pyarrow.parquet as pq

    final, overwrite = Path(check_path(path)), check_flag("overwrite", overwrite)
    remedy = "choose another name, or pass overwrite=True to replace it"
    if not overwrite:
        check_absent(final, remedy)
    if final.is_dir():
        raise ExistsError(f"path must be a file, got the folder {os.fspath(path)!r}")
    hidden = final.with_name(f".{final.name}.partial")
    with UnchangedClaim():
        try:
            with _open_locked(hidden) as file:
                try:
                    with pq.ParquetWriter(
                        file,
                        _ranking_schema(names),
                        compression="lz4",
                        use_dictionary=["row", "rank", *(["item"] if names.get("item") is not None else [])],
                        column_encoding={"score": "BYTE_STREAM_SPLIT"}
                        | ({"item": "DELTA_BINARY_PACKED"} if names.get("item") is None else {}),
                    ) as writer:
                        yield writer
                    file.flush()
                    os.fsync(file.fileno())
                    if not overwrite:
                        check_absent(final, remedy)
                    hidden.replace(final)
                except BaseException:
                    hidden.unlink(missing_ok=True)
                    raise
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            raise write_error(error, final.parent) from error
    try:
        fsync_path(final.parent)
    except OSError as error:
        raise durability_error(f"{os.fspath(path)!r} is written", error) from error


@contextmanager
def _open_locked(path: Path) -> Iterator[IO[bytes]]:
    """Yield an empty file, locked against other processes."""
    while True:
        with path.open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ExistsError(
                    f"another process is writing {os.fspath(path)!r}: wait for it, or choose another name"
                ) from None
            if _is_same_file(path, file):
                file.truncate(0)
                yield file
                return
        # Its writer finished and renamed it between opening and locking: try again.


def _is_same_file(path: Path, file: IO[bytes]) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _ranking_schema(names: Labels) -> pa.Schema:
    kinds = [("row", pa.int64()), ("rank", pa.int32()), ("item", pa.int64()), ("score", pa.float32())]
    known = {name: labels.type for name, labels in names.items() if labels is not None}
    return pa.schema([pa.field(name, known.get(name, kind), nullable=False) for name, kind in kinds])


def ranking_table(
    first: int, ids: NDArray[np.int64], scores: NDArray[np.float32], names: Labels = MappingProxyType({})
) -> pa.Table:
    """Return rankings of consecutive rows as a table with one row per item.

    Parameters
    ----------
    first
        Number of the first row.
    ids, scores
        Shapes (m, k), as from :func:`sparrow.models.topk.iter_top_k`; ids of -1 are skipped.
    names
        Labels that replace the numbers in columns "row" and "item".
    """
    height, k = ids.shape
    rows = np.repeat(np.arange(first, first + height), k)
    ranks = np.tile(np.arange(1, k + 1, dtype=np.int32), height)
    columns: list[NDArray[Any]] = [rows, ranks, ids.reshape(-1), scores.reshape(-1)]
    valid = columns[2] >= 0
    if not valid.all():
        columns = [column[valid] for column in columns]
    schema = _ranking_schema(names)
    labels_by_column = [names.get(name) for name in schema.names]
    arrays = [
        pa.array(column) if labels is None else labels.take(pa.array(column))
        for column, labels in zip(columns, labels_by_column, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def write_factors(path: Path, name: str, factors: Factors, numbers: Any = None) -> None:
    """Write factors as Parquet with columns ``name`` and ``factors``.

    Parameters
    ----------
    path
        New file.
    name
        Column of row numbers.
    factors
        Shape (n, d), written as lists of float32.
    numbers
        Row numbers, shape (n,): integers, or an Arrow array of labels; 0 to n - 1 by default.

    Raises
    ------
    ShapeError
        If ``numbers`` does not have length n.
    InvalidValueError
        If ``numbers`` are not integers.
    """
    import pyarrow.parquet as pq

    height, width = factors.shape
    if numbers is not None and np.shape(numbers) != (height,):
        raise ShapeError(
            f"numbers of column {name!r} must have shape ({height},), one per row of factors, got {np.shape(numbers)}"
        )
    labels = numbers if isinstance(numbers, pa.Array) else None
    if numbers is not None and labels is None and height and np.asarray(numbers).dtype.kind not in "iu":
        raise InvalidValueError(f"numbers of column {name!r} must be integers, got {np.asarray(numbers).dtype}")
    list_type = pa.list_(pa.field("element", pa.float32(), nullable=False), width)
    number_type = pa.int64() if labels is None else labels.type
    schema = pa.schema([pa.field(name, number_type, nullable=False), pa.field("factors", list_type, nullable=False)])
    step = max(1, tuning().factor_write_bytes // (4 * width))
    with path.open("xb") as file, pq.ParquetWriter(file, schema, compression="none", use_dictionary=False) as writer:
        for start in range(0, height, step):
            block = np.ascontiguousarray(factors[start : start + step], dtype=np.float32)
            stop = start + len(block)
            if numbers is None:
                column = pa.array(np.arange(start, stop))
            else:
                column = pa.array(np.asarray(numbers[start:stop], np.int64)) if labels is None else labels[start:stop]
            lists = pa.FixedSizeListArray.from_arrays(pa.array(block.reshape(-1)), type=list_type)
            writer.write_table(pa.Table.from_arrays([column, lists], schema=schema))
        writer.close()
        file.flush()
        os.fsync(file.fileno())
