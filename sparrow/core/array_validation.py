"""Validation of arrays that sparrow did not make.

Arrays of other libraries, files and pickles pass one of these functions before a compiled loop or a routine of SciPy
reads them: such loops follow pointers and indices without bounds checks. Each check is a vectorized pass. Errors name
the array, the position and the values; readers of files turn them into ``IngestError``.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.errors import IndexingError, InvalidValueError, ShapeError, UnsupportedError
from sparrow.runtime.validation import check_unmasked

__all__ = [
    "as_canonical",
    "as_index",
    "as_row_numbers",
    "check_arrow",
    "check_compressed",
    "check_coordinates",
    "check_indices",
    "check_pointers",
    "check_scipy_array",
]

_COMPRESSED = {"csr": ("row", 0), "csc": ("column", 1), "bsr": ("row of blocks", 0)}


def as_index(name: str, indices: Any) -> NDArray[Any]:
    """Return indices or pointers as a 1-D array of int32 or int64.

    Raises
    ------
    ShapeError
        If it is not 1-D.
    UnsupportedError
        If it does not hold integers, or has masked elements.
    InvalidValueError
        If an unsigned integer is 2^63 or more.
    """
    check_unmasked(indices, name)
    try:
        array = np.asarray(indices)
    except ValueError:
        raise ShapeError(f"{name} must be 1-D, got a ragged list") from None
    if array.ndim != 1:
        raise ShapeError(f"{name} must be 1-D, got shape {array.shape}")
    if array.size and array.dtype.kind not in "iu":
        raise UnsupportedError(f"{name} must be integers, got {array.dtype}")
    if array.dtype == np.uint64 and array.size and int(array.max()) >= 2**63:
        raise InvalidValueError(f"{name} must be below 2^63, got {int(array.max())}")
    native = array.dtype.newbyteorder("=")
    return array.astype(native if native in (np.int32, np.int64) else np.int64, copy=False)


def _first_outside(indices: NDArray[Any], size: int) -> int | None:
    """Return the first position of an integer outside [0, size), or None.

    Integers are read as unsigned ones, so that one maximum finds negative ones too.
    """
    if not indices.size:
        return None
    if not indices.dtype.isnative:
        indices = indices.astype(indices.dtype.newbyteorder("="))
    width, signed = 8 * indices.itemsize, indices.dtype.kind == "i"
    largest = int((indices.view(f"u{indices.itemsize}") if signed else indices).max())
    if largest < min(size, 1 << (width - signed)):
        return None
    return int(np.argmax((indices < 0) | (indices >= size)))


def check_indices(indices: NDArray[Any], size: int, name: str = "indices", start: int = 0) -> NDArray[Any]:
    """Return integers unchanged if they are in [0, size).

    Parameters
    ----------
    indices
        Shape (n,), from :func:`as_index`.
    size
        Size of their dimension.
    name, start
        Name of the array, and position of the first of these integers in it.

    Raises
    ------
    IndexingError
        If one is out of range.
    """
    at = _first_outside(indices, size)
    if at is not None:
        raise IndexingError(f"index {start + at} of {name} must be from 0 to {size - 1}, got {int(indices[at])}")
    return indices


def check_pointers(
    indptr: NDArray[Any],
    count: int,
    name: str = "indptr",
    line: str = "row",
    *,
    first: int = 0,
    start: int = 0,
    final: bool = True,
) -> NDArray[Any]:
    """Return row pointers, or some consecutive ones, unchanged if they are valid.

    Parameters
    ----------
    indptr
        Shape (n,), n > 0, from :func:`as_index`.
    count
        Number of elements that they point to.
    name, line
        Name of the array, and of what it points to.
    first, start
        Value that the first of these pointers must have, and its position in the array.
    final
        Whether the last of these pointers is the last of all, which must equal ``count``.

    Raises
    ------
    ShapeError
        If they do not ascend from ``first`` to ``count``.
    """
    if int(indptr[0]) != first:
        raise ShapeError(f"{name} must begin with {first}, got {int(indptr[0])}")
    falls = indptr[1:] < indptr[:-1]
    if falls.any():
        at = int(np.argmax(falls))
        raise ShapeError(
            f"{name} must not decrease, got {int(indptr[at])} and {int(indptr[at + 1])} at {line} {start + at}"
        )
    last = int(indptr[-1])
    if last > count or (final and last != count):
        raise ShapeError(f"{name} must end with {count}, the number of values, got {last}")
    return indptr


def check_compressed(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    lines: int,
    across: int,
    line: str = "row",
    full: bool = True,
) -> None:
    """Raise unless arrays are compressed rows or columns; duplicates are allowed.

    Parameters
    ----------
    data
        Shape (n, ...).
    indices, indptr
        From :func:`as_index`.
    lines, across
        Number of lines, which ``indptr`` is of, and size of the other dimension.
    line
        Name of a line.
    full
        Check every pointer and index; else lengths and ends only.

    Raises
    ------
    ShapeError
        If lengths differ, or pointers do not ascend from 0 to n.
    IndexingError
        If an index is out of range.
    """
    if data.shape[:1] != indices.shape:
        raise ShapeError(f"data and indices must have one shape (nnz,), got {data.shape} and {indices.shape}")
    if len(indptr) != lines + 1:
        raise ShapeError(f"indptr must have {lines + 1} pointers for {lines} {line}s, got {len(indptr)}")
    if not full:
        indptr = indptr[[0, -1]]
    check_pointers(indptr, len(indices), line=line)
    at = _first_outside(indices, across) if full else None
    if at is not None:
        row = int(np.searchsorted(indptr, at, "right")) - 1
        raise IndexingError(
            f"index {int(indices[at])} of {line} {row} is out of range for size {across} (indices[{at}])"
        )


def as_row_numbers(indptr: NDArray[Any], dtype: Any = np.int64) -> NDArray[Any]:
    """Return the row of each element of valid row pointers."""
    return np.repeat(np.arange(len(indptr) - 1, dtype=dtype), np.diff(indptr))


def check_coordinates(columns: Sequence[NDArray[Any]], shape: Sequence[int], count: int, full: bool = True) -> None:
    """Raise unless coordinates lie within a shape.

    Parameters
    ----------
    columns
        An array of integers per dimension.
    shape
        Sizes of the dimensions.
    count
        Number of elements.
    full
        Check every coordinate; else lengths only.

    Raises
    ------
    ShapeError
        If there is not one array per dimension, each of shape ``(count,)``.
    IndexingError
        If a coordinate is negative, or not below the size of its dimension.
    """
    if len(columns) != len(shape):
        raise ShapeError(f"coords must have {len(shape)} rows, one per dimension, got {len(columns)}")
    for dim, (column, size) in enumerate(zip(columns, shape, strict=True)):
        if column.shape != (count,):
            raise ShapeError(f"coords[{dim}] must have shape ({count},), one per value, got {column.shape}")
        at = _first_outside(column, size) if full else None
        if at is not None:
            number = int(column[at])
            rule = ": coordinates start at 0" if number < 0 else ""
            raise IndexingError(
                f"coordinate {number} is out of range for dimension {dim} of size {size}{rule} (coords[{dim}][{at}])"
            )


def as_canonical(values: NDArray[Any]) -> NDArray[Any]:
    """Return values with each True as the byte 1, whatever byte it came as.

    Loops and comparisons that read booleans as bytes would take a True of another byte for a third value.
    """
    if values.dtype != np.bool_ or not values.size:
        return values
    found = values.view(np.uint8)
    return values if int(found.max()) <= 1 else found != 0


def check_arrow(data: Any, name: str) -> Any:
    """Return an Arrow array, batch or table unchanged if it is valid.

    Offsets, dictionary codes and UTF-8 are checked.

    Raises
    ------
    InvalidValueError
        If it is invalid.
    """
    try:
        data.validate(full=True)
    except pa.ArrowException as error:
        raise InvalidValueError(f"{name} must be valid Arrow data, got: {' '.join(str(error).split())}") from None
    return data


_ARRAYS = {
    "csr": ("data", "indices", "indptr"), "csc": ("data", "indices", "indptr"), "bsr": ("data", "indices", "indptr"),
    "coo": ("data", "coords"), "dia": ("data", "offsets"), "lil": ("dtype",), "dok": ("dtype",),
}  # fmt: skip
"""Attributes of sparse arrays of SciPy that have a byte order, by format."""


def check_scipy_array(array: Any) -> Any:
    """Return a sparse array of SciPy in native byte order, after checking it.

    Sparse arrays are mutable, and SciPy checks neither the order of pointers nor indices when it converts one. Its
    conversions fail on the other byte order.

    Raises
    ------
    ShapeError
        If lengths contradict each other, or pointers do not ascend from 0 to the number of values.
    IndexingError
        If an index is out of range.
    UnsupportedError
        If indices are not integers.
    """
    layout, shape = getattr(array, "format", None), array.shape
    if layout in _COMPRESSED:
        line, major = _COMPRESSED[layout]
        lines, across = (1, *shape) if len(shape) == 1 else (shape[major], shape[1 - major])
        data = np.asarray(array.data)
        if layout == "bsr":
            if data.ndim != 3 or 0 in data.shape[1:] or lines % data.shape[1] or across % data.shape[2]:
                raise ShapeError(f"data must be blocks that divide the shape {shape}, got shape {data.shape}")
            lines, across = lines // data.shape[1], across // data.shape[2]
        elif data.ndim != 1:
            raise ShapeError(f"data must be 1-D, got shape {data.shape}")
        for name in ("indices", "indptr"):  # SciPy fails on others even if they are empty
            if (dtype := np.asarray(getattr(array, name)).dtype).kind not in "iu":
                raise UnsupportedError(f"{name} must be integers, got {dtype}")
        check_compressed(
            data, as_index("indices", array.indices), as_index("indptr", array.indptr), lines, across, line
        )
    elif layout == "coo":
        columns = [as_index(f"coords[{dim}]", column) for dim, column in enumerate(array.coords)]
        check_coordinates(columns, shape, np.asarray(array.data).size)
    elif layout == "dia":
        data, offsets = np.asarray(array.data), as_index("offsets", array.offsets)
        if data.ndim != 2 or len(data) != len(offsets):
            raise ShapeError(f"data must have {len(offsets)} rows, one per offset, got shape {data.shape}")
    elif layout == "lil":
        rows, values = np.asarray(array.rows), np.asarray(array.data)
        if rows.shape != shape[:1] or values.shape != rows.shape:
            raise ShapeError(f"rows and data must have shape {shape[:1]}, got {rows.shape} and {values.shape}")
        for row, (places, given) in enumerate(zip(rows, values, strict=True)):
            if len(places) != len(given):
                raise ShapeError(f"rows[{row}] and data[{row}] must be of one length, got {len(places)}, {len(given)}")
        check_indices(as_index("rows", list(chain.from_iterable(rows))), shape[1], "columns")
    elif layout == "dok":
        keys = list(array.keys()) if len(shape) > 1 else [(key,) for key in array]
        columns = [as_index(f"keys[{dim}]", list(column)) for dim, column in enumerate(zip(*keys, strict=True))]
        check_coordinates(columns or [np.zeros(0, np.int64)] * len(shape), shape, len(keys))
    given = {name: getattr(array, name) for name in _ARRAYS.get(str(layout), ())}
    native = {name: _as_native(value) for name, value in given.items()}
    if all(native[name] is value for name, value in given.items()):
        return array
    result = copy.copy(array)
    for name, value in native.items():
        setattr(result, name, value)
    return result


def _as_native(value: Any) -> Any:
    """Return a dtype, an array or a tuple of arrays in native byte order."""
    if isinstance(value, tuple):
        arrays = tuple(map(_as_native, value))
        return value if all(map(operator.is_, arrays, value)) else arrays
    if isinstance(value, np.dtype):
        return value if value.isnative else value.newbyteorder("=")
    array = np.asarray(value)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
