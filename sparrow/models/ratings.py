"""Matrices of ratings from tensors, arrays and pandas frames."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparrow.core.label_types import check_labels
from sparrow.core.schema import Schema
from sparrow.errors import ShapeError, UnsupportedError
from sparrow.functions.creation import asarray
from sparrow.kernels.coo import Block
from sparrow.plan import Scan
from sparrow.relations.memory import MemoryHandle, MemoryRelation
from sparrow.tensor import Tensor

__all__ = ["as_ratings", "check_matrix", "is_fill_nan"]


def as_ratings(obj: Any) -> Tensor:
    """Return a matrix of ratings as a tensor.

    Parameters
    ----------
    obj
        A tensor, or what :func:`sparrow.asarray` accepts. A pandas frame is a matrix if its index or columns are named,
        its index has texts or dates or its columns have numbers: index and columns are the labels, NaN is no rating,
        and if there are NaN, 0 is a rating. Other frames are tables of rows, items and ratings.

    Raises
    ------
    UnsupportedError
        If a frame is neither, or has no numbers.
    """
    if not _is_pandas_frame(obj):
        return asarray(obj)
    if _is_matrix(obj):
        return _from_frame(obj)
    names = list(map(str, obj.columns))
    if len(names) == 2 or (len(names) == 3 and "value" in names):
        return asarray(obj.reset_index(drop=True))
    raise UnsupportedError(
        f"a frame must have the columns of rows, items and 'value', or users in a named index, got columns {names}: "
        "pass sp.from_relation(frame, coords=[ROWS, ITEMS], value=RATINGS)"
    )


def _is_pandas_frame(obj: Any) -> bool:
    return hasattr(obj, "columns") and hasattr(obj, "index") and hasattr(obj, "iloc")


def _is_matrix(frame: Any) -> bool:
    """Return whether a frame has a row per user and a column per item."""
    is_named = frame.index.name is not None or frame.columns.name is not None
    return is_named or frame.columns.dtype.kind in "iu" or frame.index.dtype.kind not in "iub"


def _from_frame(frame: Any) -> Tensor:
    try:
        dense = frame.to_numpy()
        dense = frame.to_numpy(np.float64, na_value=math.nan) if dense.dtype.kind == "O" else dense
    except (TypeError, ValueError) as error:
        raise UnsupportedError(f"ratings must be numbers, got a frame of other values: {error}") from None
    names = [axis.name for axis in (frame.index, frame.columns)]
    are_names = all(isinstance(name, str) for name in names) and names[0].lower() != names[1].lower()
    dims = tuple(names) if are_names and "value" not in names else None
    fill = math.nan if dense.dtype.kind == "f" and np.isnan(dense).any() else 0
    stored = np.nonzero(~np.isnan(dense) if fill else dense)
    schema = Schema(dense.shape, dims or ("d0", "d1"), dense.dtype, dense.dtype.type(fill))
    labels = {
        axis: check_labels(index.to_numpy(), schema.dims[axis], len(index))
        for axis, index in enumerate((frame.index, frame.columns))
        if not (index.dtype.kind in "iu" and np.array_equal(index, np.arange(len(index))))
    }
    coords = tuple(at.astype(schema.coordinate_dtype(axis)) for axis, at in enumerate(stored))
    return Tensor(MemoryHandle(MemoryRelation(schema, Block(coords, dense[stored]), labels)))


def is_fill_nan(schema: Schema) -> bool:
    """Return whether absent elements are NaN, so that 0 is a rating."""
    return schema.dtype.kind == "f" and bool(np.isnan(schema.fill_value))


def check_matrix(scan: Scan, columns: int | None = None) -> None:
    """Raise an error unless a scan is a real matrix with fill 0 or NaN.

    Raises
    ------
    ShapeError
        If it is not 2-D, or does not have ``columns`` columns.
    UnsupportedError
        If it is complex, or its fill value is neither 0 nor NaN.
    """
    schema = scan.schema
    if schema.ndim != 2:
        raise ShapeError(f"ratings must be a matrix of users and items, got shape {schema.shape}: A[:1] is one user")
    if columns is not None and schema.shape[1] != columns:
        raise ShapeError(f"rows must have {columns} columns, as the fitted matrix, got {schema.shape[1]}")
    if schema.dtype.kind == "c":
        raise UnsupportedError("ratings must be real, got a complex tensor: use its real part or magnitude")
    if schema.fill_value != 0 and not is_fill_nan(schema):
        raise UnsupportedError(
            f"fill value of the ratings must be 0, got {schema.fill_value}: subtract it first; or NaN, if 0 is a rating"
        )
