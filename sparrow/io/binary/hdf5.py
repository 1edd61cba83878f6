"""Matrices in HDF5 files, streamed: what 10x Genomics, AnnData, binsparse share."""

from __future__ import annotations

import importlib
import mmap
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow import storage
from sparrow.core.array_validation import as_canonical, as_index, check_indices, check_pointers
from sparrow.core.labels import find_duplicate_label
from sparrow.core.schema import Schema, check_dtype, is_fill
from sparrow.errors import (
    IndexingError,
    IngestError,
    InvalidValueError,
    ShapeError,
    SparrowError,
    UnsupportedError,
)
from sparrow.io.base.coo_writer import check_label_memory, write_coo
from sparrow.io.base.magic import reject_compressed
from sparrow.io.base.report import Report
from sparrow.io.base.source import SIGNATURE_BYTES, open_sources
from sparrow.io.base.value_cast import ValueCast
from sparrow.io.tuning import tuning
from sparrow.kernels.coo import Duplicates
from sparrow.runtime.dependencies import missing_dependency
from sparrow.runtime.foreign_errors import find_errno
from sparrow.runtime.progress import bar
from sparrow.runtime.threads import call_elsewhere
from sparrow.sorting import Rows
from sparrow.storage.fs.failures import read_error
from sparrow.storage.fs.filesystem import get_filesystem

__all__ = [
    "HDF5_MAGIC",
    "ElementChunks",
    "StoredMatrix",
    "check_unique_labels",
    "check_unpacked_size",
    "get_group",
    "get_member",
    "open_file",
    "read_compressed",
    "read_dense",
    "read_indices",
    "read_labels",
    "store_matrix",
    "unknown_layout",
]

HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
_HEAP = b"GCOL\x01\x00\x00\x00"
"""Signature of a heap of texts and other values of any length."""
_OBJECT = struct.Struct("<H6xQ")
"""Number and size of an object in it."""

ElementChunks: TypeAlias = Iterator[tuple[NDArray[Any], ...]]
"""Elements, chunk by chunk: coordinates by dimension, then values."""


class StoredMatrix(NamedTuple):
    """Matrix in a file, or a tensor of any number of dimensions."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    nbytes: int
    chunks: Callable[[Callable[[int], None]], ElementChunks]
    """Function of one that is called with the bytes of each chunk, ``nbytes`` in all."""


@contextmanager
def open_file(src: Any) -> Iterator[tuple[str, Any]]:
    """Open an HDF5 file; errors of h5py within the block become ``IngestError``."""
    try:
        h5py = call_elsewhere(partial(importlib.import_module, "h5py"))  # fails for good if it is interrupted
    except ModuleNotFoundError as error:
        raise missing_dependency("reading HDF5", "h5py") from error
    sources = open_sources(src)
    if len(sources) > 1 or sources[0].path is None or sources[0].size is None:
        raise InvalidValueError(f"src must be one HDF5 file, got {src!r}")
    name = sources[0].name
    files = get_filesystem(name)
    with files.open(name, size=sources[0].size) as start:
        if not (begins := start.read(SIGNATURE_BYTES)).startswith(HDF5_MAGIC):
            reject_compressed(begins, name)
            raise IngestError("this is not an HDF5 file", name)
    try:
        with files.local_copy(name) as near:
            _check_heaps(near, name)
            with h5py.File(near, "r") as file:
                yield name, file
    except SparrowError:
        raise
    except (OSError, KeyError, ValueError, RuntimeError, TypeError, AttributeError, IndexError, OverflowError,
            UnicodeDecodeError, MemoryError) as error:  # fmt: skip
        if find_errno(error) is not None:
            raise read_error(error, name) from error
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise IngestError(f"the HDF5 file cannot be read: {reason}", name) from error


def _check_heaps(path: str, name: str) -> None:
    """Reject heaps without room for a header, on which the HDF5 library loops.

    Section III.E, "Disk Format: Level 1E - Global Heap", of the HDF5 File Format Specification.
    """
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if len(data) < 16 or data[14 if data[8] < 2 else 10] != 8:  # lengths of other sizes are rare
            return
        at, unpack = data.find(_HEAP), _OBJECT.unpack_from
        while at >= 0 and at + 16 <= len(data):
            end = min(at + int.from_bytes(data[at + 8 : at + 16], "little"), len(data))
            place = at + 16
            while place + 16 <= end:
                number, size = unpack(data, place)
                if number == 0 and size < 16:  # the size includes its own header
                    raise IngestError(f"the HDF5 file cannot be read: the heap of texts at byte {at} is damaged", name)
                place += 16 + -(-size // 8) * 8 if number else size
            at = data.find(_HEAP, at + 8)


def unknown_layout(file: Any, name: str) -> IngestError:
    """Return the error about an HDF5 file whose layout no format knows."""
    members = ", ".join(map(repr, file)) or "nothing"
    return IngestError(
        f"this is HDF5 with {members}, not a file of AnnData, 10x Genomics or binsparse: read its arrays with h5py and "
        "pass them to sp.from_coords",
        name,
    )


def get_member(group: Any, path: str, name: str) -> Any:
    """Return the member of a group at a path, None if it does not exist.

    Raises
    ------
    IngestError
        If it is a link to another file, which could be anybody's, a view of other datasets, or stored in other files.
    """
    found = group.get(path)
    if found is None:
        return None
    if found.file != group.file:
        raise IngestError(f"{path!r} is a link to another file, which is not read", name)
    if not hasattr(found, "keys") and (found.external or found.is_virtual):
        raise IngestError(f"{found.name!r} is a view of other datasets or in other files, which are not read", name)
    return found


def get_group(file: Any, path: str, name: str, *members: str) -> Any:
    """Return a group that has certain members.

    Raises
    ------
    IngestError
        If it is missing, or leads to other files.
    """
    found = get_member(file, path, name)
    if found is None:
        there = ", ".join(map(repr, file))
        raise IngestError(f"the file has no {path!r}, only {there or 'nothing'}", name)
    for member in members:
        if not hasattr(found, "keys") or get_member(found, member, name) is None:
            raise IngestError(f"{path!r} has no {member!r}", name)
    return found


def read_compressed(
    group: Any,
    shape: tuple[int, int],
    by_rows: bool,
    name: str,
    members: tuple[str, str, str] = ("data", "indices", "indptr"),
    values: Any = None,
    lines: Any = None,
) -> StoredMatrix:
    """Return a compressed matrix, stored as ``data``, ``indices`` and ``indptr``.

    Parameters
    ----------
    group, shape, by_rows, name
        Group, shape, whether ``indptr`` is of rows, and name of the file.
    members
        Names of the three datasets.
    values
        Values, instead of the dataset.
    lines
        Dataset of the rows (or columns) that ``indptr`` is of, if not all.

    Raises
    ------
    IngestError
        If the arrays contradict each other.
    """
    data, indices, indptr = (group[member] for member in members)
    data = data if values is None else values
    outer, inner = shape if by_rows else shape[::-1]
    if min(shape) < 0 or any(array.ndim != 1 for array in (data, indices, indptr)) or len(data) != len(indices):
        raise IngestError(
            f"{group.name!r} is not a compressed matrix: data and indices must be 1-D and of equal length", name
        )
    count = outer if lines is None else len(lines)
    for array in (indices, indptr):
        if array.dtype.kind not in "iu" and len(array):  # NumPy's empty arrays are float64
            raise IngestError(f"{array.name!r} must be integers, got {array.dtype}", name)
    if len(indptr) != count + 1:
        raise IngestError(f"{members[2]} of {group.name!r} must have {count + 1} integers, got {len(indptr)}", name)
    for array in (group[member] for member in members):
        check_unpacked_size(array, name)

    each = data.dtype.itemsize + indices.dtype.itemsize

    def chunks(advance: Callable[[int], None]) -> ElementChunks:
        done = 0
        rows, max_count = tuning().hdf5_rows, tuning().hdf5_elements
        for first in range(0, count, rows):
            bounds = indptr[first : first + rows + 1].astype(np.int64)
            with _naming_file(name, f"{members[2]} of {group.name!r} must ascend from 0 to {len(data)}: "):
                check_pointers(bounds, len(data), members[2], first=done, start=first, final=first + rows >= count)
            own = np.arange(first, first + len(bounds) - 1)
            if lines is not None:
                own = read_indices(lines, first, first + len(own), outer, name)
            for start in range(done, int(bounds[-1]), max_count):
                stop = min(start + max_count, int(bounds[-1]))
                outermost = np.repeat(own, np.diff(np.clip(bounds, start, stop)))
                other = read_indices(indices, start, stop, inner, name)
                yield (outermost, other, data[start:stop]) if by_rows else (other, outermost, data[start:stop])
                advance((stop - start) * each)
            done = int(bounds[-1])
        if done != len(data):  # without rows
            raise IngestError(f"{members[2]} of {group.name!r} must ascend from 0 to {len(data)}, got {done}", name)

    return StoredMatrix(shape, _dtype(data, name), len(data) * each, chunks)


def read_indices(array: Any, start: int, stop: int, size: int, name: str) -> NDArray[np.int64]:
    """Return a slice of a dataset of coordinates; raise if one is out of range."""
    with _naming_file(name):
        found = as_index(array.name, array[start:stop]).astype(np.int64, copy=False)
        return check_indices(found, size, repr(array.parent.name), start)


@contextmanager
def _naming_file(name: str, prefix: str = "") -> Iterator[None]:
    """Raise ``IngestError`` naming the file for an invalid array."""
    try:
        yield
    except (ShapeError, IndexingError, UnsupportedError, InvalidValueError) as error:
        raise IngestError(f"{prefix}{error}", name) from None


def read_dense(array: Any, name: str, fill_value: Any) -> StoredMatrix:
    """Return the elements of a dense matrix that differ from the fill value."""
    if array.ndim != 2:
        raise IngestError(f"{array.name!r} must have 2 dimensions, got {array.ndim}", name)
    size = check_unpacked_size(array, name)

    def chunks(advance: Callable[[int], None]) -> ElementChunks:
        height, width = array.shape
        max_count = tuning().hdf5_dense_elements
        wide = min(width, max_count) or 1
        step = max(max_count // wide, 1)
        for first in range(0, height, step):
            for left in range(0, width, wide):
                values = array[first : first + step, left : left + wide]
                rows, cols = np.nonzero(~is_fill(values, fill_value))
                yield rows + first, cols + left, values[rows, cols]
                advance(values.nbytes)

    return StoredMatrix(tuple(array.shape), _dtype(array, name), size, chunks)


def check_unpacked_size(array: Any, name: str) -> int:
    """Return the bytes of a dataset; raise for a decompression bomb."""
    size = int(array.size * array.dtype.itemsize)
    if size > tuning().bomb_min_bytes and size > tuning().hdf5_bomb_ratio * max(array.id.get_storage_size(), 1):
        raise IngestError(f"{array.name!r} unpacks to {tuning().hdf5_bomb_ratio} times its size and more", name)
    return size


def _dtype(array: Any, name: str) -> np.dtype[Any]:
    try:
        return check_dtype(array.dtype)
    except UnsupportedError:
        raise IngestError(f"{array.name!r} must be numbers or booleans, got {array.dtype}", name) from None


def read_labels(array: Any, name: str) -> pa.Array:
    """Return a dataset of texts or integers as labels."""
    if hasattr(array, "keys") and "codes" in array:
        return _decode_categories(get_group(array.file, array.name, name, "categories", "codes"), name)
    if hasattr(array, "keys"):  # nullable texts
        mask = get_member(array, "mask", name)
        if mask is not None and mask[:].any():
            raise IngestError(f"names in {array.name!r} are missing: pass labels=False to ignore them", name)
        array = get_group(array.file, array.name, name, "values")["values"]
    if array.ndim != 1:
        raise IngestError(f"{array.name!r} must be a list of names", name)
    check_unpacked_size(array, name)
    check_label_memory(len(array), 8 * len(array))
    if array.dtype.kind in "iu" and "categories" in array.attrs:  # anndata before 0.8
        try:
            known = array.file[array.attrs["categories"]]
            sound = known.dtype.kind not in "iu" and known.name.startswith(array.parent.name)
        except (AttributeError, KeyError, OSError, RuntimeError, TypeError, ValueError):
            sound = False
        if not sound:
            raise IngestError(f"the categories of {array.name!r} are damaged: pass labels=False to ignore them", name)
        return _take_labels(read_labels(known, name), array, name)
    if array.dtype.kind in "iu":
        return pa.array(array[:].astype(np.int64))
    try:
        labels = pa.array(array[:].tolist(), pa.binary()).cast(pa.string())
    except pa.ArrowException:
        raise IngestError(f"the names in {array.name!r} are not UTF-8", name) from None
    check_label_memory(len(labels), labels.nbytes)
    return labels


def _decode_categories(group: Any, name: str) -> pa.Array:
    """Return labels that are encoded as categories."""
    return _take_labels(read_labels(group["categories"], name), group["codes"], name)


def _take_labels(known: pa.Array, codes: Any, name: str) -> pa.Array:
    check_unpacked_size(codes, name)
    numbers = read_indices(codes, 0, len(codes), len(known), name)
    labels = known.take(pa.array(numbers))
    check_label_memory(len(labels), labels.nbytes)
    return labels


def check_unique_labels(labels: pa.Array, size: int, what: str, way: str, name: str) -> pa.Array:
    """Return labels, one per coordinate of a dimension and all different.

    Raises
    ------
    IngestError
        If they are not, with the way out.
    """
    if len(labels) != size:
        raise IngestError(f"expected {size} {what}, the size of the dimension, got {len(labels)}", name)
    if (twice := find_duplicate_label(labels)) is not None:
        raise IngestError(f"two {what} have the same name: {way}", name, token=str(twice))
    return labels


def store_matrix(
    dst: str | os.PathLike[str],
    matrix: StoredMatrix,
    *,
    dims: tuple[str, ...],
    labels: Mapping[int, pa.Array],
    dtype: np.dtype[Any] | None,
    duplicates: Duplicates,
    overwrite: bool,
    profile: str,
    operation: str,
    name: str,
    report: Report,
    fill_value: Any = 0,
) -> str:
    """Store a matrix, and return its folder."""
    kind = matrix.dtype if dtype is None else dtype
    if matrix.dtype.kind == "c" and kind.kind != "c":
        raise InvalidValueError(f"dtype={kind} cannot hold complex values: omit dtype, or pass complex64")

    cast = ValueCast(kind, dtype is not None, report)

    def rows_of(piece: tuple[NDArray[Any], ...]) -> Rows:
        *coords, given = piece
        values, unfit = cast(as_canonical(given))
        if unfit is not None:
            element = tuple(int(column[unfit]) for column in coords)
            raise IngestError(f"the value at {element} {cast.problem(given[unfit])}", name, token=str(given[unfit]))
        return Rows(tuple(coords), values)

    with storage.stage_folder(dst, overwrite) as folder, bar("reading the matrix", matrix.nbytes) as advance:
        written = write_coo(
            folder,
            matrix.chunks(advance),
            rows_of,
            dims=dims,
            dtype=kind,
            weighted=True,
            duplicates=duplicates,
            fill_value=fill_value,
            profile=profile,
            report=report,
        )
        storage.create(
            folder,
            Schema(matrix.shape, dims, kind, fill_value),
            written.files,
            labels=labels,
            profile=profile,
            operation=operation,
            report=report.counts,
            extra={"sources": [name]},
        )
    return os.fspath(dst)
