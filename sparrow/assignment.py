"""What an assignment means: the cells that a view shows and a value, as one edit of the base."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparrow import engines
from sparrow.errors import ShapeError, UnsupportedError
from sparrow.exports import check_room
from sparrow.index import View
from sparrow.kernels.entries import Block, canonical
from sparrow.relation import Edit
from sparrow.schema import Schema, is_fill

__all__ = ["assignment"]


def assignment(base: Schema, view: View, value: Any) -> Edit:
    """Return the edit that writes ``value``, broadcast, to the cells of a view.

    Cells of ranges are cleared as one box, so that writing fill to a billion cells lists none of them;
    where lists name a cell twice the last value wins.

    Raises
    ------
    ShapeError
        If the value does not broadcast to the shape of the view.
    UnsupportedError
        If it is no number.
    TooLargeError
        If the cells to write would pass the memory limit.
    """
    block = _sparse(base, view, value) if hasattr(value, "__sparrow_scan__") else None
    if block is None:
        block = _dense(base, view, value)
    placed = view.to_base(block.coords) if view.ndim else tuple(np.full(block.count, c) for _, c in view.fixed)
    upsert = canonical(Block(placed, block.values), base.shape, base.fill_value, "last", keep_fill=True)
    return Edit("write", clear=() if view.points or view.size == 0 else (view.box(),), upsert=upsert)


def _sparse(base: Schema, view: View, value: Any) -> Block | None:
    """Return the entries of a tensor that fits cell by cell; None where it has to be broadcast or listed."""
    scan = value.__sparrow_scan__()
    if scan.schema.shape != view.shape or view.points or scan.schema.fill_value != base.fill_value:
        return None
    found = engines.entries(scan)
    return Block(found.coords, found.values.astype(base.dtype))


def _dense(base: Schema, view: View, value: Any) -> Block:
    """Return the entries of a dense value, in view coordinates; all cells where lists may name one twice."""
    given = np.asarray(value)
    if given.dtype.kind not in "biufc":
        raise UnsupportedError(f"cannot write {type(value).__name__} values to a tensor of {base.dtype}")
    with np.errstate(all="ignore"):
        cast = given.astype(base.dtype)
    try:
        cells = np.broadcast_to(cast, view.shape)
    except ValueError:
        raise ShapeError(f"values of shape {given.shape} do not fit the indexed cells of shape {view.shape}") from None
    if given.ndim == 0 and not view.points and bool(is_fill(cast.reshape(1), base.fill_value)[0]):
        return Block(tuple(np.zeros(0, np.int64) for _ in view.shape), np.zeros(0, base.dtype))
    check_room(view.size * (8 * max(view.ndim, 1) + base.dtype.itemsize), "writing that many cells")
    stored = np.ones(view.shape, bool) if view.points else ~is_fill(cells, base.fill_value)
    return Block(stored.nonzero() if view.ndim else (), cells[stored])
