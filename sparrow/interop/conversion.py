"""Schema and elements from objects of other libraries: arrays and tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from numbers import Number
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from sparrow.core.array_validation import as_canonical, check_arrow, check_coordinates, check_scipy_array
from sparrow.core.casting import wider_dtype
from sparrow.core.label_types import is_label_type, is_string_type
from sparrow.core.schema import (
    MAX_DIMENSION_SIZE,
    Schema,
    check_array,
    check_dims,
    check_dtype,
    check_shape,
    is_custom_name,
    is_fill,
    normalize_dims,
    unchecked_schema,
)
from sparrow.errors import (
    DuplicateError,
    IndexingError,
    InvalidValueError,
    LabelError,
    ShapeError,
    TooLargeError,
    UnsupportedError,
)
from sparrow.interop.binsparse import from_binsparse
from sparrow.interop.graph_objects import from_graph, is_graph
from sparrow.interop.interchange import Coordinates, from_cupy, from_npz, from_pydata, from_torch
from sparrow.interop.labelled_objects import (
    drop_unnamed_index,
    frame_to_table,
    is_frame,
    is_xarray,
    name_index,
    reject_mixed_labels,
    xarray_dims,
    xarray_labels,
)
from sparrow.interop.tuning import tuning
from sparrow.kernels.coo import Block, canonicalize, check_duplicates
from sparrow.kernels.sums import CAST_FIRST, SumRangeError
from sparrow.plan import align_elements
from sparrow.runtime import memory
from sparrow.runtime.validation import as_names, check_unmasked

__all__ = [
    "check_fill",
    "collect_table",
    "columns_to_append",
    "dense_of_sparse",
    "describe_unread",
    "from_appended_table",
    "from_coordinates",
    "from_object",
    "from_table",
    "is_foreign_sparse",
    "is_number_type",
    "is_pydata",
    "table_of_columns",
]

_MAX_NAMES_SHOWN = 5

Converted: TypeAlias = tuple[Schema, Block, dict[int, pa.Array]]
"""Schema, canonical elements, and the labels of labelled dimensions."""

CountFill: TypeAlias = Callable[[int], object]
"""Receives the number of elements that equal the fill value and are not stored."""

NoteUnread: TypeAlias = Callable[[Sequence[str]], object]
"""Receives the numeric columns of a table that are not read, though every value is 1."""


def from_coordinates(
    coords: Any,
    values: Any,
    shape: Sequence[int] | None,
    dims: Sequence[str] | None,
    duplicates: str,
    fill_value: Any = 0,
) -> tuple[Schema, Block]:
    """Return schema and canonical elements, as :func:`sparrow.from_coords` does."""
    rule = check_duplicates(duplicates)
    check_unmasked(values)
    check_unmasked(coords, "coords")
    columns = coords if isinstance(coords, list | tuple) else (coords,)
    reject_mixed_labels(*((column, getattr(column, "ndim", 1) - 1) for column in columns), (values, 0))
    coords, values = align_elements(coords, values)
    try:
        data = as_canonical(np.array(values))  # a copy: the tensor must not change with the caller's array
    except ValueError:
        raise ShapeError("values must be 1-D or a scalar, got a ragged list") from None
    if data.dtype == object:
        raise UnsupportedError("values must be numbers or booleans of one type, got objects")
    sizes = None if shape is None else check_shape(shape)
    columns = _columns(coords, None if sizes is None else len(sizes), data)
    count = len(columns[0]) if columns else data.size
    try:
        data = data if data.shape == (count,) else np.broadcast_to(data, (count,))
    except ValueError:
        turned = f"; coords of shape ({len(columns)}, {count}) looks like (nnz, ndim), pass its transpose"
        raise ShapeError(
            f"values must have shape ({count},) or be a scalar, got shape {data.shape}"
            + (turned if data.shape == (len(columns),) else "")
        ) from None
    if sizes is None:
        if not count:
            raise ShapeError("shape cannot be inferred without elements: pass shape=")
        sizes = check_shape(tuple(int(column.max()) + 1 for column in columns))
    check_coordinates(columns, sizes, count)
    dtype = check_dtype(data.dtype)
    names = check_dims(normalize_dims(dims) or None, len(sizes))
    schema = unchecked_schema(sizes, names, dtype, check_fill(fill_value, dtype), "coo")
    block = Block(tuple(map(np.ndarray.astype, columns, schema.coordinate_dtypes)), data)
    return schema, canonicalize(block, sizes, schema.fill_value, rule)


def check_fill(fill_value: Any, dtype: np.dtype[Any], way: str | None = "cast the values first") -> Any:
    """Return a fill value as a scalar of the dtype; raise if it does not fit.

    ``way`` is the way out that the error names, None for an argument ``dtype`` that holds the fill value.
    """
    if type(fill_value) is int and fill_value == 0:
        return dtype.type(0)
    given = check_array(fill_value, "fill_value")
    if given.ndim or given.dtype.kind not in "biufc":
        raise InvalidValueError(f"fill_value must be a number, got {fill_value!r}")
    with np.errstate(all="ignore"):
        found = (given.real if dtype.kind != "c" else given).astype(dtype)[()]
    exact = dtype.kind in "biu" or (given.dtype.kind == "c" and dtype.kind != "c")
    if (exact and found != given) or (np.isinf(found) and np.isfinite(given)):
        if way is None:
            wider = "complex128" if given.dtype.kind == "c" else wider_dtype(given.item(), dtype)
            way = f"pass dtype='{wider}'"
        raise InvalidValueError(f"fill_value must fit {dtype}, got {fill_value!r}: {way}")
    return found


def _columns(coords: Any, ndim: int | None, values: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """Return an array of integers per dimension."""
    try:
        columns = [np.asarray(column) for column in coords]
    except (TypeError, ValueError):
        raise ShapeError("coords must be (ndim, nnz): an array, or a list of integers for each dimension") from None
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
        raise ShapeError(f"coords must be (ndim, nnz) = ({ndim}, nnz), got ({len(columns)}, {length}){hint}")
    for dim, column in enumerate(columns):
        if not column.size:
            columns[dim] = column.astype(np.int64)
        elif column.dtype.kind not in "iu":
            raise UnsupportedError(f"coordinates of dimension {dim} must be integers, got {column.dtype}")
        elif column.dtype == np.uint64 and int(column.max()) >= MAX_DIMENSION_SIZE:
            raise IndexingError(f"coordinate {int(column.max())} of dimension {dim} is beyond 2^63 - 2")
    return columns


def from_object(
    obj: Any,
    coords: Sequence[str] | None = None,
    value: str | None = None,
    shape: Sequence[int] | None = None,
    dims: Sequence[str] | None = None,
    duplicates: str | None = None,
    labelled: Collection[str] = (),
    fill_value: Any = None,
    on_fill: CountFill | None = None,
    on_unread: NoteUnread | None = None,
) -> Converted:
    """Return schema, canonical elements and labels for :func:`sparrow.asarray`.

    Parameters
    ----------
    obj, coords, value, shape, dims, duplicates, fill_value
        See :func:`sparrow.asarray`.
    labelled
        Dimensions whose labels are not converted.
    on_fill
        Receives the number of elements of a sparse array or table that equal the fill value, if there are any: they
        are not stored.
    on_unread
        Receives the numeric columns of a table that are not read, if every value is 1 for want of a column of values.
    """
    is_table = hasattr(obj, "__arrow_c_stream__") or hasattr(obj, "collect_batches")
    options: dict[str, Any] = {"coords": coords, "value": value, "shape": shape, "duplicates": duplicates}
    for name, given in () if is_table else options.items():
        if given is not None:
            raise InvalidValueError(f"{name}= applies to tables only, got {type(obj).__name__}")
    if hasattr(obj, "__sparrow_entries__"):
        if fill_value is not None:
            raise InvalidValueError(f"fill_value= cannot be passed with {type(obj).__name__}: use A.refill(value)")
        schema, block = obj.__sparrow_entries__()
        return replace(schema, dims=normalize_dims(dims)), block, {}
    if is_table and not hasattr(obj, "__binsparse_descriptor__") and not hasattr(obj, "coords"):
        fill = 0 if fill_value is None else fill_value
        rule = duplicates or "error"
        options = {"fill_value": fill, "on_fill": on_fill, "on_unread": on_unread}
        return from_table(obj, coords, value, shape, dims, rule, rest=True, **options)
    if is_graph(obj):
        edges = from_graph(obj)
        weights = edges.weights
        if fill_value is not None and weights.dtype.kind in "biu":  # so that infinity marks what is no edge
            weights = weights.astype(np.result_type(weights, fill_value))
        found = Coordinates((edges.rows, edges.columns), weights, (edges.size, edges.size), duplicates="sum")
        schema, block = _from_array(found, dims, fill_value, on_fill)
        axes = [] if edges.labels is None else [axis for axis in (0, 1) if schema.dims[axis] not in labelled]
        return schema, block, dict.fromkeys(axes, edges.labels)
    if is_xarray(obj):
        names = xarray_dims(obj)
        schema, block = _from_array(obj.data, names if dims is None else dims, fill_value, on_fill)
        axes = [axis for axis, name in enumerate(schema.dims) if name not in labelled]
        return schema, block, xarray_labels(obj, axes)
    return *_from_array(obj, dims, fill_value, on_fill), {}


def _from_array(
    obj: Any, dims: Sequence[str] | None, fill_value: Any = None, on_fill: CountFill | None = None
) -> tuple[Schema, Block]:
    """Return schema and canonical elements of an array, dense or sparse."""
    obj = _to_known(obj)
    if (found := _as_coordinates(obj)) is not None:
        if fill_value is not None:
            found = found._replace(fill_value=fill_value)
        schema, block = from_coordinates(
            found.coords, found.values, found.shape, dims, found.duplicates, found.fill_value
        )
        # Blocks and diagonals hold zeros of their own.
        if on_fill is not None and getattr(obj, "format", None) not in ("bsr", "dia"):
            _count_fill(np.asarray(found.values), schema.fill_value, on_fill)
        return schema, block
    check_unmasked(obj)
    if not _is_array_like(obj):
        raise UnsupportedError(f"expected a NumPy or SciPy array, a tensor or an Arrow table, got {type(obj).__name__}")
    try:
        dense = np.asarray(obj)
    except ValueError:
        raise ShapeError("rows of a nested list must have the same length") from None
    if dense.dtype == object and isinstance(obj, list | tuple | int | np.ndarray):
        raise UnsupportedError("values must be numbers of 64 bits or booleans, all of one type, got objects")
    if dense.dtype == object:
        raise UnsupportedError(f"expected a NumPy or SciPy array, a tensor or an Arrow table, got {type(obj).__name__}")
    check_dtype(dense.dtype)
    fill = check_fill(0 if fill_value is None else fill_value, dense.dtype)
    stored = ~is_fill(dense, fill)
    at, values = (stored.nonzero(), dense[stored]) if dense.ndim else ((), dense.reshape(1))
    return from_coordinates(at, values, dense.shape, dims, "error", fill)


def _as_coordinates(obj: Any) -> Coordinates | None:
    """Return the elements of a sparse array of another library; None for others."""
    if isinstance(obj, Coordinates):
        return obj
    if is_foreign_sparse(obj):
        coo = check_scipy_array(obj).tocoo()
        return Coordinates(coo.coords, coo.data, coo.shape, duplicates="sum")
    if hasattr(obj, "coords") and hasattr(obj, "data") and hasattr(obj, "fill_value"):
        return Coordinates(obj.coords, obj.data, obj.shape, obj.fill_value)
    return from_binsparse(obj) if hasattr(obj, "__binsparse_descriptor__") else None


def _count_fill(values: np.ndarray[Any, Any], fill_value: Any, on_fill: CountFill) -> None:
    """Report the number of values that equal the fill value, if there are any."""
    if count := int(np.count_nonzero(is_fill(values, fill_value))):
        on_fill(count)


def _is_array_like(obj: Any) -> bool:
    """Return whether an object is made for NumPy, rather than merely iterable."""
    if isinstance(obj, np.ndarray | np.generic | Number | Sequence) or hasattr(obj, "__array__"):
        return True
    if hasattr(obj, "__array_interface__") or hasattr(obj, "__array_struct__"):
        return True
    try:
        memoryview(obj)
    except TypeError:
        return False
    return True


def is_foreign_sparse(obj: Any) -> bool:
    """Return whether an object is a sparse array of SciPy, CuPy or pydata/sparse."""
    return hasattr(type(obj), "nnz") and (hasattr(type(obj), "tocoo") or is_pydata(obj))


def is_pydata(obj: Any) -> bool:
    """Return whether an object is an array of pydata/sparse."""
    return type(obj).__module__.startswith("sparse.")


def dense_of_sparse(obj: Any) -> np.ndarray[Any, Any]:
    """Return a foreign sparse array as a dense one, after checking its indices."""
    obj = check_scipy_array(obj)
    dense: np.ndarray[Any, Any] = obj.todense() if is_pydata(obj) else obj.toarray()
    return dense


def _to_known(obj: Any) -> Any:
    """Return arrays of other libraries and .npz files as coordinates or SciPy arrays."""
    if isinstance(obj, str | os.PathLike):
        return from_npz(obj)
    library = type(obj).__module__.partition(".")[0]
    if library == "torch":
        return from_torch(obj)
    if library in ("cupy", "cupyx"):
        return from_cupy(obj)
    if is_pydata(obj):
        return from_pydata(obj)
    return obj


def from_table(
    source: Any,
    coords: Sequence[str] | None,
    value: str | None,
    shape: Sequence[int] | None,
    dims: Sequence[str] | None,
    duplicates: str,
    labelled: Collection[str] = (),
    rest: bool = False,
    fill_value: Any = 0,
    on_fill: CountFill | None = None,
    on_unread: NoteUnread | None = None,
) -> Converted:
    """Return schema, canonical elements and labels of a table without nulls.

    Columns of integers are coordinates. Those of texts and dates become labels: the distinct ones, ascending.

    Parameters
    ----------
    source
        An Arrow table, an object with ``__arrow_c_stream__``, a DuckDB relation or a Polars lazy frame.
    coords, value, shape, dims, duplicates
        See :func:`sparrow.asarray`.
    labelled
        Columns of integers that are labels too.
    rest
        Whether the only numeric column beside ``coords`` holds the values, whatever its name.
    fill_value, on_fill, on_unread
        See :func:`from_object`.

    Raises
    ------
    TooLargeError
        If its columns would exceed the memory limit.
    """
    if coords is not None:
        coords = as_names("coords", coords)
    if is_frame(source):
        source = name_index(source) if coords is None else frame_to_table(source)
    unread: list[str] = []
    table = collect_table(source, coords, value, rest, unread)
    names = table.column_names
    if value is None and coords is None and "value" in names:
        value = "value"
    if value is None and coords is not None and "value" in names and "value" not in coords:
        value = "value"
    if value is None and rest and coords is not None:
        value = next((name for name in names if name not in coords and is_number_type(table[name].type)), None)
    imaginary = "value_im" if value == "value" and "value_im" in names and "value_im" not in (coords or ()) else None
    picked = [name for name in names if name not in (value, imaginary)] if coords is None else list(coords)
    if shape is not None and len(check_shape(shape)) != len(picked):
        raise ShapeError(
            f"shape must have {len(picked)} sizes for the columns {', '.join(map(repr, picked))}, got {shape}"
        )
    columns = []
    labels: dict[int, pa.Array] = {}
    for dim, name in enumerate(picked):
        column = _decimals_as_integers(table[name], name)
        if column.null_count:
            raise InvalidValueError(
                f"column {name!r} has {column.null_count} nulls: coordinates must be integers or labels"
            )
        if pa.types.is_integer(column.type) and name not in labelled:
            columns.append(column.to_numpy())
            continue
        labels[dim], codes = _factorize(column, name)
        columns.append(codes)
        if shape is not None and shape[dim] != len(labels[dim]):
            raise InvalidValueError(
                f"column {name!r} has {len(labels[dim])} labels, but shape has {shape[dim]}: omit shape"
            )
    if value is None:
        values = np.ones(table.num_rows, np.int64)
    else:
        values = _values(table, value)
        if imaginary is not None:
            whole = np.empty(len(values), np.result_type(values.dtype, np.complex64))
            whole.real, whole.imag = values, _values(table, imaginary)
            values = whole
    try:
        schema, block = from_coordinates(
            columns, values, shape, picked if dims is None else dims, duplicates, fill_value
        )
    except (DuplicateError, SumRangeError) as error:
        names_of = [labels[dim].to_pylist() if dim in labels else None for dim in range(len(picked))]
        if isinstance(error, SumRangeError):
            raise error.restate(CAST_FIRST, names_of) from None
        raise error.by_label(names_of) from None
    if on_fill is not None:
        _count_fill(values, schema.fill_value, on_fill)
    if on_unread is not None and unread:
        on_unread(unread)
    return schema, block, labels


def from_appended_table(
    source: Any,
    target: Schema,
    kinds: Mapping[int, pa.DataType],
    duplicates: str = "error",
    value: str | None = None,
    index_base: int = 0,
    on_fill: CountFill | None = None,
) -> Converted:
    """Return schema, elements and labels of a table to append, matched by name.

    Parameters
    ----------
    source
        See :func:`from_table`. If the dimensions of the target have default names, columns are taken in order.
    target
        Schema of the tensor to append to.
    kinds
        Types of the labels of the target's labelled dimensions: columns of such a type hold labels.
    duplicates
        Rule for elements given more than once.
    value
        Column of the values; by default the one named value, or the remaining one.
    index_base
        Number of the first coordinate.
    on_fill
        See :func:`from_object`.

    Raises
    ------
    LabelError
        If a column is missing, or holds labels for a dimension without.
    IndexingError
        If a coordinate is out of range.
    DuplicateError
        If an element is given more than once.
    """
    table = drop_unnamed_index(collect_table(source, None, None))
    if not table.num_columns:  # an empty file has no columns
        table = pa.table(dict.fromkeys((*target.dims, value or "value"), pa.nulls(0)))
    picked, value = _match_columns(table.column_names, target, value)
    table = _as_labels(table, {picked[dim]: kind for dim, kind in kinds.items()}, picked, value)
    labelled, sizes = [], list(target.shape)
    for dim, name in enumerate(picked):
        kind, column = kinds.get(dim), table[name]
        if kind is None or pa.types.is_integer(kind):
            column = _floats_as_integers(column)
        whole = pa.types.is_integer(column.type)
        if kind is not None and (not whole or pa.types.is_integer(kind)):
            labelled.append(name)
            sizes[dim] = len(column.unique())
        elif whole or pa.types.is_decimal(column.type):
            column = _coordinates_of(column, name, target.shape[dim], dim, index_base)
        else:
            raise LabelError(
                f"append: column {name!r} holds {column.type}, but dimension {target.dims[dim]!r} has no labels: "
                "add them with set_labels(), or map the column to integers"
            )
        table = table.set_column(table.column_names.index(name), name, column)
    return from_table(table, picked, value, sizes, target.dims, duplicates, labelled, on_fill=on_fill)


def _floats_as_integers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of floats that are all integers below 2^53 as integers."""
    if not pa.types.is_floating(column.type) or column.null_count or not len(column):
        return column
    given = column.to_numpy().astype(np.float64, copy=False)
    if (np.abs(given) < 2**53).all() and (given % 1 == 0).all():
        return pa.chunked_array([given.astype(np.int64)])
    return column


def _coordinates_of(column: pa.ChunkedArray, name: str, size: int, dim: int, base: int) -> pa.ChunkedArray:
    """Return coordinates counted from 0, of which the first is ``base`` in a column.

    Raises
    ------
    IndexingError
        If one is out of range.
    """
    column = _decimals_as_integers(column, name)
    if not pa.types.is_integer(column.type) or column.null_count or not len(column):
        return column
    given = column.to_numpy()
    low = int(given.min())
    if low >= base and int(given.max()) < size + base:
        return pa.chunked_array([given - base]) if base else column
    row = int(np.argmax((given < base) | (given >= size + base)))
    number = int(given[row])
    if number < base:
        way = ": pass index_base=0 if the first one is 0" if base else ": coordinates start at 0"
    elif number == size and low > 0:
        way = ": pass index_base=1 if the first one is 1; resize() makes room for it otherwise"
    else:
        way = "; resize() makes room"
    counted = f", counted from {base}" if base else ""
    raise IndexingError(
        f"append: coordinate {number} is out of range for dimension {dim} of size {size}{counted} "
        f"(coords[{dim}][{row}]){way}"
    )


def columns_to_append(names: Sequence[str], target: Schema, value: str | None) -> list[str]:
    """Return the columns that :func:`from_appended_table` reads of a table."""
    picked, value = _match_columns(names, target, value)
    imaginary = ["value_im"] if value == "value" and "value_im" in names and "value_im" not in picked else []
    return [*picked, *([] if value is None else [value]), *imaginary]


def _match_columns(names: Sequence[str], target: Schema, value: str | None) -> tuple[list[str], str | None]:
    """Return the columns of coordinates, and that of values, of a table to append."""
    by_name = any(dim in names or is_custom_name(dim) for dim in target.dims)
    apart = {"value", "value_im", value}
    picked = list(target.dims) if by_name else [name for name in names if name not in apart]
    for name in [*picked, *([] if value is None else [value])]:
        if name not in names:
            what = "the values" if name == value else "the dimension"
            raise LabelError(f"append: no column {name!r} for {what}, columns are {', '.join(map(repr, names))}")
    if len(picked) != target.ndim:
        raise ShapeError(f"append: expected {target.ndim} columns of coordinates, got {', '.join(map(repr, picked))}")
    rest = [name for name in names if name not in picked and name != "value_im"]
    if value is None:
        if len(rest) > 1 and "value" not in rest:
            raise InvalidValueError(
                f"append: columns {', '.join(map(repr, rest))} are not dimensions of the tensor: pass value= to name "
                "that of the values"
            )
        value = "value" if "value" in rest else next(iter(rest), None)
    elif value in picked:
        raise InvalidValueError(f"append: value must name the column of values, got the dimension {value!r}")
    return picked, value


def table_of_columns(columns: Mapping[Any, Any]) -> pa.Table:
    """Return a dictionary of columns as a table.

    Raises
    ------
    UnsupportedError
        If a column is not 1-D, or of several types.
    ShapeError
        If lengths differ.
    """
    arrays = {}
    for name, values in columns.items():
        try:
            found = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise UnsupportedError(f"append: column {name!r} must be a list of one type: {error}") from None
        arrays[str(name)] = found
    if len({len(found) for found in arrays.values()}) > 1:
        lengths = ", ".join(f"{name!r} {len(found)}" for name, found in arrays.items())
        raise ShapeError(f"append: columns must be of one length, got {lengths}")
    return pa.table(arrays)


def _as_labels(table: pa.Table, kinds: Mapping[str, pa.DataType], picked: Sequence[str], value: str | None) -> pa.Table:
    """Return a table with columns cast to the types of labels; empty ones typed."""
    for at, field in enumerate(table.schema):
        kind = kinds.get(field.name)
        if not table.num_rows and field.name in (*picked, value):
            wanted = pa.int64() if kind is None else kind
        elif kind is not None and pa.types.is_date(field.type) and is_string_type(kind):
            wanted = pa.string()
        elif kind is not None and pa.types.is_temporal(kind) and is_string_type(field.type):
            wanted = kind
        else:
            continue
        try:
            table = table.set_column(at, field.name, table.column(at).cast(pa.string()).cast(wanted))
        except pa.ArrowInvalid as error:
            raise LabelError(f"append: labels of {field.name!r} must be {kind}: {error}") from None
    return table


def _factorize(column: pa.ChunkedArray, name: str) -> tuple[pa.Array, np.ndarray[Any, Any]]:
    """Return the distinct labels of a column, ascending, and the code of each row."""
    import pyarrow.compute as pc

    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not is_label_type(kind):
        raise UnsupportedError(
            f"coordinates must be integers, texts or dates, column {name!r} holds {kind}: "
            "pass the columns of coordinates as coords="
        )
    kind = pa.string() if pa.types.is_string_view(kind) else kind
    found = column.cast(kind).combine_chunks()
    labels = pc.unique(found)
    labels = labels.take(pc.array_sort_indices(labels))
    return labels, pc.index_in(found, value_set=labels).to_numpy(zero_copy_only=False).astype(np.int64)


def _values(table: pa.Table, name: str) -> np.ndarray[Any, Any]:
    """Return a column of values."""
    column = table[name]
    if column.null_count:
        raise InvalidValueError(f"column {name!r} has {column.null_count} nulls: filter or fill them")
    column = _decimals_as_integers(column, name)
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    if not pa.types.is_integer(column.type) and not pa.types.is_floating(column.type) and column.type != pa.bool_():
        raise UnsupportedError(f"values must be numbers or booleans, column {name!r} holds {column.type}")
    found: np.ndarray[Any, Any] = column.to_numpy()
    return found


def _select_columns(
    schema: pa.Schema, coords: Sequence[str] | None, value: str | None, rest: bool, unread: list[str] | None
) -> list[str]:
    """Return the columns that may hold coordinates and values.

    Numeric ones that are left over although there are no values are added to ``unread``.
    """
    names = schema.names
    for name in [*(coords or ()), *([] if value is None else [value])]:
        if name not in names:
            raise LabelError(f"no column {name!r}, columns are {', '.join(map(repr, names))}")
    wanted = names if coords is None else [*coords, value or "value", "value_im"]
    if coords is not None and value is None and ("value" not in names or "value" in coords):
        numeric = [each.name for each in schema if each.name not in wanted and is_number_type(each.type)]
        if rest and len(numeric) == 1:
            wanted = [*wanted, *numeric]
        elif unread is not None:
            unread += numeric
    picked = [name for name in names if name in wanted]
    for name in picked:
        if picked.count(name) > 1:
            raise InvalidValueError(f"{picked.count(name)} columns have the name {name!r}: rename them")
    return picked


def collect_table(
    source: Any,
    coords: Sequence[str] | None,
    value: str | None,
    rest: bool = False,
    unread: list[str] | None = None,
) -> pa.Table:
    """Return columns of coordinates and values of a table, in memory; None for all.

    Parameters
    ----------
    source, coords, value, rest
        See :func:`from_table`.
    unread
        Receives the names of numeric columns that are left over although no column holds values.

    Raises
    ------
    TooLargeError
        If they would exceed the memory limit: they are read as a stream.
    """
    if isinstance(source, pa.Table):
        picked = _select_columns(source.schema, coords, value, rest, unread)
        return check_arrow(source.select(picked), "the table")
    reader = None
    if hasattr(source, "collect_batches"):
        known = source.collect_schema().to_frame().to_arrow().schema
        query = source.select(_select_columns(known, coords, value, rest, unread))
        schema = query.collect_schema().to_frame().to_arrow().schema
        frames = query.collect_batches(chunk_size=tuning().batch_rows, maintain_order=True)
        batches = (batch.cast(schema) for frame in frames for batch in frame.to_arrow().to_batches())
    else:
        lines = source.to_arrow_reader(tuning().batch_rows) if hasattr(source, "to_arrow_reader") else source
        if not hasattr(lines, "__arrow_c_stream__"):
            raise UnsupportedError(
                f"expected a table, got {type(source).__name__}: "
                + ("make one of columns with pyarrow.table(...)" if isinstance(source, dict)
                   else "sp.asarray takes arrays, sp.from_coords elements")
            )  # fmt: skip
        try:
            reader = pa.RecordBatchReader.from_stream(lines)
        except pa.ArrowInvalid:
            raise UnsupportedError(
                f"expected a table, got {type(source).__name__}, a single column: pass its to_numpy() for a 1-D array"
            ) from None
        picked = _select_columns(reader.schema, coords, value, rest, unread)
        schema = pa.schema([reader.schema.field(name) for name in picked])
        batches = (batch.select(picked) for batch in reader)
    kept: list[pa.RecordBatch] = []
    rows = 0
    with memory.reserve(0, "", "store it with sp.ingest.columns(table, path, coords=...), at any length") as room:
        try:
            for batch in batches:
                kept.append(check_arrow(batch, "the table"))
                rows += len(batch)
                room.what = f"a table of more than {rows} rows, on its way into memory,"
                room.grow(tuning().table_copies * batch.nbytes)
        except TooLargeError:
            if reader is not None:  # DuckDB runs one query at a time
                reader.close()
            raise
    return pa.Table.from_batches(kept, schema)


def describe_unread(names: Sequence[str]) -> str:
    """Return the note on numeric columns that are not read, though every value is 1.

    Examples
    --------
    >>> describe_unread(["stars"])
    "every value is 1, the column 'stars' was not read: pass value='stars' to read it"
    """
    first = "value" if "value" in names else names[0]
    others = [name for name in names if name != first and not (first == "value" and name == "value_im")]
    if not others:
        return f"every value is 1, the column {first!r} was not read: pass value={first!r} to read it"
    shown = ", ".join(map(repr, [first, *others][:_MAX_NAMES_SHOWN]))
    more = len(others) + 1 - _MAX_NAMES_SHOWN
    shown += f" and {more} more" if more > 0 else ""
    return f"every value is 1, the columns {shown} were not read: pass value={first!r}, or another, to read one"


def is_number_type(kind: pa.DataType) -> bool:
    """Return whether a column of a type may hold values: numbers or booleans."""
    types = pa.types
    return any((types.is_integer(kind), types.is_boolean(kind), types.is_floating(kind), types.is_decimal(kind)))


def _decimals_as_integers(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Return a column of integral decimals, as SQL sums are, as int64; others as is."""
    if not pa.types.is_decimal(column.type) or column.type.scale:
        return column
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        raise InvalidValueError(f"column {name!r} holds integers beyond 2^63: cast it to double") from None
