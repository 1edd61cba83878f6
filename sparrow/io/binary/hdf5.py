"""Matrices in HDF5 files, read and written piece by piece: what 10x, AnnData and binsparse share."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow import storage
from sparrow.core.labels import find_duplicate_label
from sparrow.core.schema import Schema, check_dtype
from sparrow.errors import IngestError, InvalidValueError, MissingDependencyError, SparrowError, UnsupportedError
from sparrow.io.base.coo_writer import cast_checked, check_label_memory, misfit_message, write_coo
from sparrow.io.base.magic import reject_compressed
from sparrow.io.base.source import open_sources
from sparrow.io.tuning import tuning
from sparrow.kernels.coo import Duplicates
from sparrow.runtime.progress import bar
from sparrow.sorting import Rows
from sparrow.storage.fs.filesystem import get_filesystem

__all__ = [
    "ElementChunks",
    "StoredMatrix",
    "append_rows",
    "check_unique_labels",
    "check_unpacked_size",
    "create_file",
    "create_resizable",
    "get_group",
    "get_member",
    "open_file",
    "read_compressed",
    "read_dense",
    "read_indices",
    "read_labels",
    "store_matrix",
]  # fmt: skip

_CHUNK_ELEMENTS = 1 << 16
"""Shape of the chunks of datasets that are written, a property of the file."""

MAGIC = b"\x89HDF\r\n\x1a\n"
_HEAP = b"GCOL\x01\x00\x00\x00"
"""What a collection of texts and other values of any length begins with."""
_OBJECT = struct.Struct("<H6xQ")
"""The number and the size of one of them."""

ElementChunks: TypeAlias = Iterator[tuple[NDArray[Any], ...]]
"""Entries, piece by piece: coordinates by dimension, then values."""


class StoredMatrix(NamedTuple):
    """A matrix in a file, or a tensor of any number of dimensions."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    nbytes: int
    pieces: ElementChunks


@contextmanager
def open_file(src: Any) -> Iterator[tuple[str, Any]]:
    """Open a file; what h5py raises of it within the block becomes an ``IngestError``."""
    try:
        import h5py
    except ModuleNotFoundError as error:
        raise MissingDependencyError("HDF5 files are read with h5py: pip install 'sparrow-tensor[hdf5]'") from error
    sources = open_sources(src)
    if len(sources) > 1 or sources[0].path is None or sources[0].size is None:
        raise InvalidValueError(f"src={src!r}: give the name of one HDF5 file")
    name = sources[0].name
    files = get_filesystem(name)
    with files.open(name, size=sources[0].size) as start:
        if not (begins := start.read(16)).startswith(MAGIC):
            reject_compressed(begins, name)
            raise IngestError("this is no HDF5 file", name)
    try:
        with files.local_copy(name) as near:
            _check_heaps(near, name)
            with h5py.File(near, "r") as file:
                yield name, file
    except SparrowError:
        raise
    except (OSError, KeyError, ValueError, RuntimeError, TypeError, AttributeError, IndexError, OverflowError,
            UnicodeDecodeError, MemoryError) as error:  # fmt: skip
        if isinstance(error, OSError) and error.errno == 28:
            raise
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise IngestError(f"the HDF5 file cannot be read: {reason}", name) from error


def _check_heaps(path: str, name: str) -> None:
    """Refuse a heap of texts whose free room is smaller than a header: at none the HDF5 library goes round for ever.

    Section III.E, "Disk Format: Level 1E - Global Heap", of the HDF5 File Format Specification.
    """
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if len(data) < 16 or data[14 if data[8] < 2 else 10] != 8:  # lengths of other sizes are seldom
            return
        at, told = data.find(_HEAP), _OBJECT.unpack_from
        while at >= 0 and at + 16 <= len(data):
            end = min(at + int.from_bytes(data[at + 8 : at + 16], "little"), len(data))
            place = at + 16
            while place + 16 <= end:
                number, size = told(data, place)
                if number == 0 and size < 16:  # its own header is a part of it
                    raise IngestError(f"the HDF5 file cannot be read: the heap of texts at byte {at} is damaged", name)
                place += 16 + -(-size // 8) * 8 if number else size
            at = data.find(_HEAP, at + 8)


def create_file(sink: Any) -> Any:
    """Return the HDF5 file that is written to a sink."""
    try:
        import h5py
    except ModuleNotFoundError as error:
        raise MissingDependencyError("HDF5 is written with h5py: pip install 'sparrow-tensor[hdf5]'") from error
    return h5py.File(sink.name if isinstance(sink.name, str) else sink, "w")


def create_resizable(group: Any, name: str, dtype: Any) -> Any:
    """Return a new dataset that :func:`append_rows` makes longer."""
    return group.create_dataset(
        name,
        (0,),
        dtype,
        maxshape=(None,),
        chunks=(_CHUNK_ELEMENTS,),
        compression="gzip",
        compression_opts=1,
        shuffle=True,
    )


def append_rows(array: Any, part: NDArray[Any]) -> None:
    """Write what comes next in a dataset."""
    array.resize((len(array) + len(part),))
    array[len(array) - len(part) :] = part


def get_member(group: Any, path: str, name: str) -> Any:
    """Return what is at a path of a group, None where nothing is.

    Raises
    ------
    IngestError
        If it is a link to another file, which may be anybody's, or its bytes are in one. What a dataset is a view of
        may be such a link as well.
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
    """Return a group that has these members.

    Raises
    ------
    IngestError
        If there is none, or it leads to other files.
    """
    found = get_member(file, path, name)
    if found is None:
        there = ", ".join(map(repr, file))
        raise IngestError(f"there is no {path!r} in the file: it holds {there or 'nothing'}", name)
    for member in members:
        if not hasattr(found, "keys") or get_member(found, member, name) is None:
            raise IngestError(f"{path!r} holds no {member!r}", name)
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
    """Return a matrix that is in a group as ``data``, ``indices`` and ``indptr``.

    Parameters
    ----------
    group, shape, by_rows, name
        Where, how large, whether ``indptr`` is of rows, and what the file is called.
    members
        What the three are called.
    values
        What gives the values instead of the dataset.
    lines
        The dataset of the rows (or columns) that there are, where ``indptr`` is of these alone.

    Raises
    ------
    IngestError
        If the arrays do not go together.
    """
    data, indices, indptr = (group[member] for member in members)
    data = data if values is None else values
    outer, inner = shape if by_rows else shape[::-1]
    if min(shape) < 0 or any(array.ndim != 1 for array in (data, indices, indptr)) or len(data) != len(indices):
        raise IngestError(f"{group.name!r} holds no compressed matrix: data and indices are not two lists", name)
    count = outer if lines is None else len(lines)
    for array in (indices, indptr):
        if array.dtype.kind not in "iu":
            raise IngestError(f"{array.name!r} holds {array.dtype}, and integers are due", name)
    if len(indptr) != count + 1:
        raise IngestError(f"{members[2]} of {group.name!r} has {len(indptr)} integers, and {count + 1} are due", name)
    for array in (group[member] for member in members):
        check_unpacked_size(array, name)

    def pieces() -> ElementChunks:
        done = 0
        rows, most = tuning().hdf5_rows, tuning().hdf5_elements
        for first in range(0, count, rows):
            bounds = indptr[first : first + rows + 1].astype(np.int64)
            if bounds[0] != done or (np.diff(bounds) < 0).any() or bounds[-1] > len(data):
                raise IngestError(f"{members[2]} of {group.name!r} does not ascend from 0 to {len(data)}", name)
            own = np.arange(first, first + len(bounds) - 1)
            if lines is not None:
                own = read_indices(lines, first, first + len(own), outer, name)
            for start in range(done, int(bounds[-1]), most):
                stop = min(start + most, int(bounds[-1]))
                outermost = np.repeat(own, np.diff(np.clip(bounds, start, stop)))
                other = read_indices(indices, start, stop, inner, name)
                yield (outermost, other, data[start:stop]) if by_rows else (other, outermost, data[start:stop])
            done = int(bounds[-1])
        if done != len(data):
            raise IngestError(f"{members[2]} of {group.name!r} does not ascend from 0 to {len(data)}", name)

    return StoredMatrix(shape, _dtype(data, name), len(data) * (data.dtype.itemsize + indices.dtype.itemsize), pieces())


def read_indices(array: Any, start: int, stop: int, size: int, name: str) -> NDArray[np.int64]:
    """Return a stretch of a dataset of coordinates, or raise ``IngestError`` where one is none of the dimension."""
    found: NDArray[np.int64] = array[start:stop].astype(np.int64)
    if (wrong := (found < 0) | (found >= size)).any():
        at = int(np.argmax(wrong))
        raise IngestError(f"index {at + start} of {array.parent.name!r} is none of {size}", name, token=str(found[at]))
    return found


def read_dense(array: Any, name: str) -> StoredMatrix:
    """Return a matrix that is in a dataset cell by cell."""
    if array.ndim != 2:
        raise IngestError(f"{array.name!r} has {array.ndim} dimensions, and a matrix two", name)
    size = check_unpacked_size(array, name)

    def pieces() -> ElementChunks:
        height, width = array.shape
        most = tuning().hdf5_dense_elements
        wide = min(width, most) or 1
        step = max(most // wide, 1)
        for first in range(0, height, step):
            for left in range(0, width, wide):
                cells = array[first : first + step, left : left + wide]
                rows, cols = np.nonzero(cells)
                yield rows + first, cols + left, cells[rows, cols]

    return StoredMatrix(tuple(array.shape), _dtype(array, name), size, pieces())


def check_unpacked_size(array: Any, name: str) -> int:
    """Return the bytes of a dataset, or raise ``IngestError`` where they are far more than are stored."""
    size = int(array.size * array.dtype.itemsize)
    if size > tuning().bomb_min_bytes and size > tuning().hdf5_bomb_ratio * max(array.id.get_storage_size(), 1):
        raise IngestError(f"{array.name!r} unpacks to {tuning().hdf5_bomb_ratio} times its size and more", name)
    return size


def _dtype(array: Any, name: str) -> np.dtype[Any]:
    try:
        return check_dtype(array.dtype)
    except UnsupportedError:
        raise IngestError(f"{array.name!r} holds {array.dtype}, which are no values of tensors", name) from None


def read_labels(array: Any, name: str) -> pa.Array:
    """Return a dataset of texts or integers as labels."""
    if hasattr(array, "keys") and "codes" in array:
        return _of_categories(get_group(array.file, array.name, name, "categories", "codes"), name)
    if hasattr(array, "keys"):  # texts of which some may be missing
        mask = get_member(array, "mask", name)
        if mask is not None and mask[:].any():
            raise IngestError(f"names in {array.name!r} are missing: say labels=False to do without", name)
        array = get_group(array.file, array.name, name, "values")["values"]
    if array.ndim != 1:
        raise IngestError(f"{array.name!r} is no list of names", name)
    check_unpacked_size(array, name)
    check_label_memory(len(array), 8 * len(array))
    if array.dtype.kind in "iu" and "categories" in array.attrs:  # as anndata wrote them before 0.8
        try:
            known = array.file[array.attrs["categories"]]
            sound = known.dtype.kind not in "iu" and known.name.startswith(array.parent.name)
        except (AttributeError, KeyError, OSError, RuntimeError, TypeError, ValueError):
            sound = False
        if not sound:
            raise IngestError(f"the names that {array.name!r} numbers are damaged: say labels=False", name)
        return _taken(read_labels(known, name), array, name)
    if array.dtype.kind in "iu":
        return pa.array(array[:].astype(np.int64))
    try:
        labels = pa.array(array[:].tolist(), pa.binary()).cast(pa.string())
    except pa.ArrowException:
        raise IngestError(f"the names in {array.name!r} are no UTF-8", name) from None
    check_label_memory(len(labels), labels.nbytes)
    return labels


def _of_categories(group: Any, name: str) -> pa.Array:
    """Return the names that are told by their numbers among those that there are."""
    return _taken(read_labels(group["categories"], name), group["codes"], name)


def _taken(known: pa.Array, codes: Any, name: str) -> pa.Array:
    check_unpacked_size(codes, name)
    numbers = read_indices(codes, 0, len(codes), len(known), name)
    labels = known.take(pa.array(numbers))
    check_label_memory(len(labels), labels.nbytes)
    return labels


def check_unique_labels(labels: pa.Array, size: int, what: str, way: str, name: str) -> pa.Array:
    """Return labels that are as many as the dimension is long, and all different.

    Raises
    ------
    IngestError
        If they are not, with the way out.
    """
    if len(labels) != size:
        raise IngestError(f"there are {len(labels)} {what}, and the dimension has the size {size}", name)
    if (twice := find_duplicate_label(labels)) is not None:
        raise IngestError(f"two {what} are called the same: {way}", name, token=str(twice))
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
    fill_value: Any = 0,
) -> str:
    """Store a matrix, and return its folder."""
    kind = matrix.dtype if dtype is None else dtype
    if matrix.dtype.kind == "c" and kind.kind != "c":
        raise InvalidValueError(f"dtype={kind}: the values are complex; leave dtype out, or give complex64")

    def rows_of(piece: tuple[NDArray[Any], ...]) -> Rows:
        *coords, given = piece
        values, unfit = cast_checked(given, kind)
        if unfit is not None:
            cell = tuple(int(column[unfit]) for column in coords)
            raise IngestError(
                f"the value at {cell} {misfit_message(given[unfit], kind)}", name, token=str(given[unfit])
            )
        return Rows(tuple(coords), values)

    with storage.stage_folder(dst, overwrite) as folder, bar("reading the matrix", matrix.nbytes) as advance:

        def items() -> Iterator[Any]:
            for piece in matrix.pieces:
                yield piece
                advance(piece[-1].nbytes)

        written = write_coo(
            folder,
            items(),
            rows_of,
            dims=dims,
            dtype=kind,
            weighted=True,
            duplicates=duplicates,
            fill_value=fill_value,
            profile=profile,
        )
        storage.create(
            folder,
            Schema(matrix.shape, dims, kind, fill_value),
            written.files,
            labels=labels,
            profile=profile,
            operation=operation,
            extra={"sources": [name]},
        )
    return os.fspath(dst)
