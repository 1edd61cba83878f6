"""Rows whose coordinates exceed 63 bits: a key and a structured value."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.kernels.coo import sort_order
from sparrow.sorting.rows import Rows

__all__ = ["fold_rows", "folded_dtype", "sort_rows", "unfold_rows"]


def folded_dtype(ndim: int, dtype: np.dtype[Any], weighted: bool) -> np.dtype[Any]:
    """Return the structured dtype of everything but the leading coordinate of a row."""
    fields: list[tuple[str, Any]] = [(f"c{k}", np.int64) for k in range(1, ndim)]
    return np.dtype([*fields, ("value", dtype)] if weighted else fields, align=True)


def fold_rows(rows: Rows, dtype: np.dtype[Any]) -> Rows:
    """Return one-dimensional rows with values of :func:`folded_dtype`."""
    out = np.zeros(rows.size, dtype)
    for k, column in enumerate(rows.coords[1:], 1):
        out[f"c{k}"] = column
    if rows.values is not None:
        out["value"] = rows.values
    return Rows(rows.coords[:1], out)


def unfold_rows(leading: NDArray[Any] | None, rest: NDArray[Any]) -> Rows:
    """Invert :func:`fold_rows`; without the leading coordinate if it is None."""
    names = rest.dtype.names
    assert names is not None
    values = np.ascontiguousarray(rest["value"]) if "value" in names else None
    coords = [np.ascontiguousarray(rest[name]) for name in names if name != "value"]
    return Rows(tuple(coords if leading is None else [leading, *coords]), values)


def sort_rows(rows: Rows) -> Rows:
    """Sort rows stably by all coordinates; the leading one is sorted already."""
    leading, *others = rows.coords
    ranks = np.zeros(rows.size, np.int64)
    np.cumsum(leading[1:] != leading[:-1], out=ranks[1:])
    columns = [ranks, *others]
    order = sort_order(columns, [int(column.max(initial=0)) + 1 for column in columns])
    return rows if order is None else rows.take(order)
