"""Names and labels of objects of other libraries: xarray arrays, pandas frames."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from sparrow.core.label_types import check_labels, is_label_type, to_label_array
from sparrow.errors import LabelError, SparrowError, UnsupportedError
from sparrow.plan import axis_labels
from sparrow.plan.labels import AxisLabels

__all__ = [
    "drop_unnamed_index",
    "is_pandas",
    "is_polars",
    "is_xarray",
    "name_index",
    "object_labels",
    "reject_mixed_labels",
    "xarray_dims",
    "xarray_labels",
]

_UNNAMED = re.compile(r"__index_level_\d+__")
"""Columns of an index without a name, in a table of pandas."""


def is_xarray(obj: Any) -> bool:
    """Return whether an object is an array of xarray, with or without coordinates.

    Raises
    ------
    UnsupportedError
        If it is a dataset, which has several.
    """
    if type(obj).__module__.partition(".")[0] != "xarray":
        return False
    if hasattr(obj, "data_vars"):
        names = ", ".join(map(repr, obj.data_vars)) or "none"
        raise UnsupportedError(
            f"a {type(obj).__name__} of xarray has several arrays ({names}): convert one, as dataset[name], or all of "
            "them stacked, dataset.to_dataarray()"
        )
    return hasattr(obj, "dims") and hasattr(obj, "data")


def xarray_dims(array: Any) -> list[str]:
    """Return the dimension names of an xarray array; default names become ours."""
    return [f"d{axis}" if dim == f"dim_{axis}" else str(dim) for axis, dim in enumerate(array.dims)]


def xarray_labels(array: Any, axes: Iterable[int]) -> dict[int, pa.Array]:
    """Return the labels of axes that have an index, by axis.

    Positions along a dimension with a default name are not labels.

    Raises
    ------
    UnsupportedError, InvalidValueError
        If tensors cannot keep the labels.
    """
    found: dict[int, pa.Array] = {}
    for axis in axes:
        dim = array.dims[axis]
        index = array.indexes.get(dim) if hasattr(array, "indexes") else None
        if index is None:
            continue
        is_default = dim == f"dim_{axis}" and index.dtype.kind in "iu"
        if is_default and np.array_equal(index, np.arange(len(index))):
            continue
        try:
            if index.nlevels > 1:
                raise UnsupportedError(
                    f"labels of dimension {dim!r} must be texts, integers or dates, got a MultiIndex"
                )
            found[axis] = check_labels(index, str(dim), len(index))
        except SparrowError as error:
            raise type(error)(
                f"{error}: drop them with array.drop_vars({dim!r}) to go by position, or replace them with "
                f"labels={{{str(dim)!r}: ...}}"
            ) from None
    return found


def name_index(source: Any) -> Any:
    """Return a pandas frame as a table with its index; others as they are.

    Row numbers, a range without a name, are no column.

    Raises
    ------
    UnsupportedError
        If the index has a level without a name that is no range.
    """
    if not is_frame(source):
        return source
    names = list(source.index.names)
    try:
        table = pa.Table.from_pandas(source, preserve_index=True if None not in names else None)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise UnsupportedError(f"columns of the frame must be of one type each: {error}") from None
    if any(map(_UNNAMED.fullmatch, table.column_names)):
        kind = source.index.dtype if source.index.nlevels == 1 else "several levels"
        raise UnsupportedError(
            f"the index of the frame must have a name to be a dimension, got one of {kind} without: drop it with "
            "frame.reset_index(drop=True), name it with frame.rename_axis('name'), or pass coords= and value="
        )
    return table.to_reader()


def is_frame(obj: Any) -> bool:
    """Return whether an object is a data frame of pandas."""
    return is_pandas(obj) and hasattr(obj, "columns")


def is_pandas(obj: Any) -> bool:
    """Return whether an object is one of pandas."""
    return type(obj).__module__.partition(".")[0] == "pandas"


def is_polars(obj: Any) -> bool:
    """Return whether an object is one of polars."""
    return type(obj).__module__.partition(".")[0] == "polars"


def frame_to_table(frame: Any) -> pa.Table:
    """Return a pandas frame as a table with the levels of its index that have names.

    pandas itself leaves out an index that happens to be a range.

    Raises
    ------
    UnsupportedError
        If a column holds several types.
    """
    try:
        table = pa.Table.from_pandas(frame, preserve_index=True if None not in frame.index.names else None)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise UnsupportedError(f"columns of the frame must be of one type each: {error}") from None
    return drop_unnamed_index(table)


def drop_unnamed_index(table: pa.Table) -> pa.Table:
    """Return a table without the columns of an index of pandas that has no name."""
    return table.drop_columns([name for name in table.column_names if _UNNAMED.fullmatch(name)])


def object_labels(obj: Any, axes: Iterable[int] | None = None) -> dict[int, pa.Array]:
    """Return the labels of objects of xarray and pandas, by axis; {} for others.

    The default index of pandas has row numbers, which are no labels.

    Parameters
    ----------
    obj
        The object.
    axes
        Axes whose labels are wanted, by default all.

    Raises
    ------
    UnsupportedError, InvalidValueError
        If tensors cannot have the labels.
    """
    if is_xarray(obj):
        return xarray_labels(obj, range(len(obj.dims)) if axes is None else axes)
    if not is_pandas(obj) or not hasattr(obj, "index") or getattr(obj, "ndim", 0) not in (1, 2):
        return {}
    found = {}
    for axis in range(obj.ndim) if axes is None else axes:
        index = obj.columns if axis else obj.index
        if getattr(index, "step", None) == 1 and not index.start:  # a range from 0
            continue
        labels = to_label_array(index) if index.nlevels == 1 else None
        if labels is None or not is_label_type(labels.type):
            given = "several levels" if index.nlevels > 1 else str(index.dtype)
            raise UnsupportedError(
                f"the {'columns' if axis else 'index'} of a {type(obj).__name__} beside labels must be texts, integers "
                f"or dates, got {given}: pass its to_numpy() to go by position"
            )
        found[axis] = labels
    return found


def reject_mixed_labels(*columns: tuple[Any, int]) -> None:
    """Raise ``LabelError`` if a tensor and a labelled object differ in labels.

    Both are columns of one table, of which arrays are made. Integers of pandas are row numbers beside labels of other
    types.

    Parameters
    ----------
    *columns
        Columns, each with its axis along the rows.
    """
    foreign = [(given, axis) for given, axis in columns if is_pandas(given) or is_xarray(given)]
    tensors = [(given, axis) for given, axis in columns if hasattr(given, "__sparrow_scan__")] if foreign else []
    known = [found for given, axis in tensors if (found := axis_labels(given.__sparrow_scan__()).get(axis)) is not None]
    for given, axis in foreign if known else ():
        labels = object_labels(given, [axis]).get(axis)
        is_numbered = is_pandas(given) and labels is not None and pa.types.is_integer(labels.type)
        if labels is None or (is_numbered and not pa.types.is_integer(known[0].array().type)):
            continue
        if not known[0].equals(AxisLabels.of(labels)):
            raise LabelError(
                f"labels of a tensor and of a {type(given).__name__} differ, which would be combined by position: "
                "reindex it, or pass its to_numpy()"
            )
