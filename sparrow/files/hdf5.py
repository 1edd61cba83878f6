"""Matrices in HDF5 files by their compressed rows or columns, read piece by piece: what 10x and AnnData share."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow import storage
from sparrow.errors import IngestError, InvalidValueError, MissingDependencyError, SparrowError, UnsupportedError
from sparrow.files.rows import cast_values, check_labels, write_entries
from sparrow.files.source import open_sources
from sparrow.kernels.entries import Duplicates
from sparrow.labels import repeated_label
from sparrow.progress import bar
from sparrow.schema import Schema, check_dtype
from sparrow.sorting import Rows
from sparrow.storage.filesystem import of

__all__ = ["Matrix", "compressed", "dense", "group_of", "opened", "store", "texts", "unique"]

_ROWS, _ENTRIES = 1 << 18, 1 << 19
_BOMB_RATIO, _BOMB_LEAST = 2000, 10**9
"""Entries in bytes that are more than this, and so many times as many as are stored, are taken for an attack."""

MAGIC = b"\x89HDF\r\n\x1a\n"


class Matrix(NamedTuple):
    """A matrix in a file."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    nbytes: int
    pieces: Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]]
    """Rows, columns and values."""


@contextmanager
def opened(src: Any) -> Iterator[tuple[str, Any]]:
    """Open a file; what h5py raises of it within the block becomes an ``IngestError``."""
    try:
        import h5py
    except ModuleNotFoundError as error:
        raise MissingDependencyError("HDF5 files are read with h5py: pip install 'sparrow-tensor[hdf5]'") from error
    sources = open_sources(src)
    if len(sources) > 1 or sources[0].path is None or sources[0].size is None:
        raise InvalidValueError(f"src={src!r}: give the name of one HDF5 file")
    name = sources[0].name
    files = of(name)
    with files.open(name, size=sources[0].size) as start:
        if start.read(len(MAGIC)) != MAGIC:
            raise IngestError("this is no HDF5 file", name)
    try:
        with files.near(name) as near, h5py.File(near, "r") as file:
            yield name, file
    except SparrowError:
        raise
    except (OSError, KeyError, ValueError, RuntimeError, TypeError, AttributeError, IndexError, OverflowError,
            UnicodeDecodeError, MemoryError) as error:  # fmt: skip
        if isinstance(error, OSError) and error.errno == 28:
            raise
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise IngestError(f"the HDF5 file cannot be read: {reason}", name) from error


def group_of(file: Any, path: str, name: str, *members: str) -> Any:
    """Return a group that has these members.

    Raises
    ------
    IngestError
        If there is none.
    """
    found = file.get(path)
    if found is None:
        there = ", ".join(map(repr, file))
        raise IngestError(f"there is no {path!r} in the file: it holds {there or 'nothing'}", name)
    for member in members:
        if not hasattr(found, "keys") or member not in found:
            raise IngestError(f"{path!r} holds no {member!r}", name)
    return found


def compressed(group: Any, shape: tuple[int, int], by_rows: bool, name: str) -> Matrix:
    """Return a matrix that is in a group as ``data``, ``indices`` and ``indptr``.

    Raises
    ------
    IngestError
        If the arrays do not go together.
    """
    data, indices, indptr = (group[member] for member in ("data", "indices", "indptr"))
    outer, inner = shape if by_rows else shape[::-1]
    if min(shape) < 0 or any(array.ndim != 1 for array in (data, indices, indptr)) or len(data) != len(indices):
        raise IngestError(f"{group.name!r} holds no compressed matrix: data and indices are not two lists", name)
    if len(indptr) != outer + 1 or any(array.dtype.kind not in "iu" for array in (indices, indptr)):
        raise IngestError(f"indptr of {group.name!r} has {len(indptr)} integers, and {outer + 1} are due", name)
    for array in (data, indices, indptr):
        _unpacked(array, name)

    def pieces() -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]]:
        done = 0
        for first in range(0, outer, _ROWS):
            bounds = indptr[first : first + _ROWS + 1].astype(np.int64)
            if bounds[0] != done or (np.diff(bounds) < 0).any() or bounds[-1] > len(data):
                raise IngestError(f"indptr of {group.name!r} does not ascend from 0 to {len(data)}", name)
            for start in range(done, int(bounds[-1]), _ENTRIES):
                stop = min(start + _ENTRIES, int(bounds[-1]))
                lengths = np.diff(np.clip(bounds, start, stop))
                own = np.repeat(np.arange(first, first + len(lengths)), lengths)
                other = indices[start:stop].astype(np.int64)
                if (wrong := (other < 0) | (other >= inner)).any():
                    at = int(np.argmax(wrong))
                    problem = f"index {at + start} of {group.name!r} is none of {inner}"
                    raise IngestError(problem, name, token=str(other[at]))
                yield (own, other, data[start:stop]) if by_rows else (other, own, data[start:stop])
            done = int(bounds[-1])
        if done != len(data):
            raise IngestError(f"indptr of {group.name!r} does not ascend from 0 to {len(data)}", name)

    return Matrix(shape, _dtype(data, name), len(data) * (data.dtype.itemsize + indices.dtype.itemsize), pieces())


def dense(array: Any, name: str) -> Matrix:
    """Return a matrix that is in a dataset cell by cell."""
    if array.ndim != 2:
        raise IngestError(f"{array.name!r} has {array.ndim} dimensions, and a matrix two", name)
    size = _unpacked(array, name)

    def pieces() -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]]:
        height, width = array.shape
        wide = min(width, 4 * _ENTRIES) or 1
        step = max(4 * _ENTRIES // wide, 1)
        for first in range(0, height, step):
            for left in range(0, width, wide):
                cells = array[first : first + step, left : left + wide]
                rows, cols = np.nonzero(cells)
                yield rows + first, cols + left, cells[rows, cols]

    return Matrix(tuple(array.shape), _dtype(array, name), size, pieces())


def _unpacked(array: Any, name: str) -> int:
    """Return the bytes of a dataset, or raise ``IngestError`` where they are far more than are stored."""
    size = int(array.size * array.dtype.itemsize)
    if size > _BOMB_LEAST and size > _BOMB_RATIO * max(array.id.get_storage_size(), 1):
        raise IngestError(f"{array.name!r} unpacks to {_BOMB_RATIO} times its size and more", name)
    return size


def _dtype(array: Any, name: str) -> np.dtype[Any]:
    try:
        return check_dtype(array.dtype)
    except UnsupportedError:
        raise IngestError(f"{array.name!r} holds {array.dtype}, which are no values of tensors", name) from None


def texts(array: Any, name: str) -> pa.Array:
    """Return a dataset of texts or integers as labels."""
    if hasattr(array, "keys"):  # texts of which some may be missing
        array = array["values"]
    if array.ndim != 1:
        raise IngestError(f"{array.name!r} is no list of names", name)
    check_labels(len(array), 8 * len(array))
    if array.dtype.kind in "iu":
        return pa.array(array[:].astype(np.int64))
    try:
        labels = pa.array(array[:].tolist(), pa.binary()).cast(pa.string())
    except pa.ArrowException:
        raise IngestError(f"the names in {array.name!r} are no UTF-8", name) from None
    check_labels(len(labels), labels.nbytes)
    return labels


def unique(labels: pa.Array, size: int, what: str, way: str, name: str) -> pa.Array:
    """Return labels that are as many as the dimension is long, and all different.

    Raises
    ------
    IngestError
        If they are not, with the way out.
    """
    if len(labels) != size:
        raise IngestError(f"there are {len(labels)} {what}, and the dimension has the size {size}", name)
    if (twice := repeated_label(labels)) is not None:
        raise IngestError(f"two {what} are called the same: {way}", name, token=str(twice))
    return labels


def store(
    dst: str | os.PathLike[str],
    matrix: Matrix,
    *,
    dims: tuple[str, str],
    labels: Mapping[int, pa.Array],
    dtype: np.dtype[Any] | None,
    duplicates: Duplicates,
    overwrite: bool,
    profile: str,
    operation: str,
    name: str,
) -> str:
    """Store a matrix, and return its folder."""
    kind = matrix.dtype if dtype is None else dtype

    def rows_of(piece: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]) -> Rows:
        rows, cols, given = piece
        values, unfit = cast_values(given, kind)
        if unfit is not None:
            cell = int(rows[unfit]), int(cols[unfit])
            raise IngestError(f"the value at {cell} does not fit the type {kind}", name, token=str(given[unfit]))
        return Rows((rows, cols), values)

    with storage.creating(dst, overwrite) as folder, bar("reading the matrix", matrix.nbytes) as advance:

        def items() -> Iterator[Any]:
            for piece in matrix.pieces:
                yield piece
                advance(piece[2].nbytes)

        written = write_entries(
            folder,
            items(),
            rows_of,
            dims=dims,
            dtype=kind,
            weighted=True,
            duplicates=duplicates,
            fill_value=0,
            profile=profile,
        )
        storage.create(
            folder,
            Schema(matrix.shape, dims, kind, 0),
            written.files,
            labels=labels,
            profile=profile,
            operation=operation,
            extra={"sources": [name]},
        )
    return os.fspath(dst)
