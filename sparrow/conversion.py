"""Schema and entries from what other libraries hold: coordinates, arrays, tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sparrow.errors import IndexingError, InvalidValueError, LabelError, ShapeError, UnsupportedError
from sparrow.kernels.entries import Block, canonical, check_duplicates
from sparrow.schema import LARGEST_DIMENSION, Schema, check_dtype, check_shape, is_fill

__all__ = ["from_coordinates", "from_object", "from_table"]


def from_coordinates(
    coords: Any,
    values: Any,
    shape: Sequence[int] | None,
    dims: Sequence[str] | None,
    duplicates: str,
    fill_value: Any = 0,
) -> tuple[Schema, Block]:
    """Return schema and canonical entries; what :func:`sparrow.from_coords` checks is checked here."""
    rule = check_duplicates(duplicates)
    data = np.array(values)  # a copy: what the caller later does to the array must not show in the tensor
    if data.dtype == object:
        raise UnsupportedError("values must be numbers or booleans of one type, got objects")
    columns = _columns(coords, None if shape is None else len(check_shape(shape)), data)
    count = len(columns[0]) if columns else data.size
    try:
        data = np.broadcast_to(data, (count,))
    except ValueError:
        raise ShapeError(
            f"values have shape {data.shape} for {count} coordinates: one value each, or a scalar"
        ) from None
    if shape is None:
        if not count:
            raise ShapeError("without entries there is nothing to tell the shape from: say shape=")
        shape = tuple(int(column.max()) + 1 for column in columns)
    sizes = check_shape(shape)
    for dim, (column, size) in enumerate(zip(columns, sizes, strict=True)):
        for extreme in (int(column.min()), int(column.max())) if count else ():
            if extreme < 0:
                raise IndexingError(
                    f"coordinate {extreme} is out of range for dimension {dim}: coordinates count from 0"
                )
            if extreme >= size:
                raise IndexingError(f"coordinate {extreme} is out of range for dimension {dim} of size {size}")
    dtype = check_dtype(data.dtype)
    schema = Schema(sizes, tuple(dims or ()), dtype, _fill(fill_value, dtype))
    block = Block(tuple(column.astype(schema.coordinate_dtype(d)) for d, column in enumerate(columns)), data)
    return schema, canonical(block, sizes, schema.fill_value, rule)


def _fill(fill_value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a fill value as a scalar of the dtype; one that the dtype cannot hold is refused."""
    given = np.asarray(fill_value)
    if given.ndim or given.dtype.kind not in "biufc":
        raise InvalidValueError(f"fill_value={fill_value!r} is no number")
    with np.errstate(all="ignore"):
        found = (given.real if dtype.kind != "c" else given).astype(dtype)[()]
    exact = dtype.kind in "biu" or (given.dtype.kind == "c" and dtype.kind != "c")
    if exact and found != given:
        raise InvalidValueError(f"fill_value={fill_value!r} is no value of {dtype}: cast the values first")
    return found


def _columns(coords: Any, ndim: int | None, values: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """Return one array of integers for each dimension."""
    columns = [np.asarray(column) for column in coords]
    lengths = {column.shape for column in columns}
    if len(lengths) > 1 or any(column.ndim != 1 for column in columns):
        raise ShapeError(
            "coords must be (ndim, nnz), one row for each dimension, all of one length; "
            f"got rows of shapes {', '.join(str(column.shape) for column in columns)}"
        )
    if ndim is not None and len(columns) != ndim:
        turned = bool(columns) and columns[0].shape == (ndim,) and values.shape in ((), (len(columns),))
        hint = ": it looks like (nnz, ndim), pass its transpose" if turned else ""
        length = len(columns[0]) if columns else 0
        raise ShapeError(f"coords has shape ({len(columns)}, {length}), expected (ndim, nnz) with ndim {ndim}{hint}")
    for dim, column in enumerate(columns):
        if not column.size:
            columns[dim] = column.astype(np.int64)
        elif column.dtype.kind not in "iu":
            raise UnsupportedError(f"coordinates of dimension {dim} must be integers, got {column.dtype}")
        elif column.dtype == np.uint64 and int(column.max()) >= LARGEST_DIMENSION:
            raise IndexingError(f"coordinate {int(column.max())} of dimension {dim} is beyond 2^63 - 2")
    return columns


def from_object(
    obj: Any,
    coords: Sequence[str] | None = None,
    value: str | None = None,
    shape: Sequence[int] | None = None,
    dims: Sequence[str] | None = None,
    duplicates: str | None = None,
) -> tuple[Schema, Block]:
    """Return schema and canonical entries of what :func:`sparrow.asarray` takes."""
    if hasattr(obj, "tocoo") and hasattr(obj, "nnz"):
        coo = obj.tocoo()
        return from_coordinates(coo.coords, coo.data, coo.shape, dims, "sum")
    if hasattr(obj, "coords") and hasattr(obj, "data") and hasattr(obj, "fill_value"):
        return from_coordinates(obj.coords, obj.data, obj.shape, dims, "error", obj.fill_value)
    if hasattr(obj, "__arrow_c_stream__"):
        return from_table(pa.table(obj), coords, value, shape, dims, duplicates or "error")
    dense = np.asarray(obj)
    if dense.dtype == object:
        raise UnsupportedError(
            f"{type(obj).__name__} is no array: pass a NumPy or SciPy array, a tensor or an Arrow table"
        )
    check_dtype(dense.dtype)
    zero = np.zeros((), dense.dtype)[()]
    at = (~is_fill(dense, zero)).nonzero() if dense.ndim else ()
    values = dense[at] if dense.ndim else dense.reshape(1)
    return from_coordinates(at, values, dense.shape, dims, "error")


def from_table(
    table: pa.Table,
    coords: Sequence[str] | None,
    value: str | None,
    shape: Sequence[int] | None,
    dims: Sequence[str] | None,
    duplicates: str,
) -> tuple[Schema, Block]:
    """Return schema and canonical entries of a table; nulls and coordinates that are no integers are refused."""
    names = table.column_names
    if value is None and coords is None and "value" in names:
        value = "value"
    if value is None and coords is not None and "value" in names and "value" not in coords:
        value = "value"
    imaginary = "value_im" if value == "value" and "value_im" in names and "value_im" not in (coords or ()) else None
    picked = [name for name in names if name not in (value, imaginary)] if coords is None else list(coords)
    for name in [*picked, *([] if value is None else [value])]:
        if name not in names:
            raise LabelError(f"no column {name!r}: there are {', '.join(map(repr, names))}")
    columns = []
    for name in picked:
        column = _whole(table[name], name)
        if column.null_count:
            raise InvalidValueError(f"column {name!r} holds {column.null_count} nulls: a coordinate must be an integer")
        if not pa.types.is_integer(column.type):
            raise UnsupportedError(
                f"coordinate column {name!r} holds {column.type}, not integers: sp.ingest.columns makes labels of texts"
            )
        columns.append(column.to_numpy())
    if value is None:
        values = np.ones(table.num_rows, np.int64)
    else:
        column = table[value]
        if column.null_count:
            raise InvalidValueError(
                f"column {value!r} holds {column.null_count} nulls: filter them or give them a value"
            )
        column = _whole(column, value)
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())
        values = column.to_numpy()
        if imaginary is not None:
            whole = np.empty(len(values), np.result_type(values.dtype, np.complex64))
            whole.real, whole.imag = values, table[imaginary].to_numpy()
            values = whole
    return from_coordinates(columns, values, shape, picked if dims is None else dims, duplicates)


def _whole(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Return a column of decimals without fraction, such as SQL's sums of integers, as int64; others as they are."""
    if not pa.types.is_decimal(column.type) or column.type.scale:
        return column
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        raise InvalidValueError(f"column {name!r} holds integers past 2^63: cast it to double") from None
