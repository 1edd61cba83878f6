"""What an assignment means: the cells that a view shows and a value, as one edit of the base."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow import engines
from sparrow.core.indexing import View
from sparrow.core.schema import Schema, is_fill
from sparrow.errors import (
    IndexingError,
    InvalidValueError,
    LabelError,
    NumberRangeError,
    ShapeError,
    UnsupportedError,
)
from sparrow.interop.conversion import from_object, is_foreign_sparse
from sparrow.kernels.coo import Block, canonicalize
from sparrow.plan import Scan, fit_to_target
from sparrow.relations.base import Edit, Relation
from sparrow.runtime import memory
from sparrow.runtime.validation import check_unmasked

__all__ = ["assignment", "check_kind", "placed", "placement"]


def assignment(base: Schema, view: View, value: Any) -> Edit:
    """Return the edit that writes ``value``, broadcast, to the cells of a view.

    Cells of ranges are cleared as one box, so that writing fill to a billion cells lists none of them;
    where lists name a cell twice the last value wins.

    Raises
    ------
    ShapeError
        If the value is ragged, or does not broadcast to the shape of the view.
    UnsupportedError
        If it is no number, or complex and the tensor is not.
    InvalidValueError
        If it is a Python number that the tensor's dtype cannot hold.
    TooLargeError
        If the cells to write would pass the memory limit.
    """
    sparse = None if view.points else _sparse(base, value)
    if sparse is not None:
        block = _spread(base, *sparse, view.shape)
    else:
        cast = _cast(base, value)
        if view.points:
            block = _listed(base, cast, view.shape)
        else:
            stored = ~is_fill(cast, base.fill_value)
            given = Block(stored.nonzero() if cast.ndim else (), cast[stored])
            block = _spread(base, cast.shape, given, view.shape)
    placed = view.to_base(block.coords) if view.ndim else tuple(np.full(block.count, c) for _, c in view.fixed)
    upsert = canonicalize(Block(placed, block.values), base.shape, base.fill_value, "last", keep_fill=True)
    return Edit("write", clear=() if view.points or view.size == 0 else (view.box(),), upsert=upsert)


def placed(base: Relation, view: View, value: Any) -> Any:
    """Return what is to be written to the cells of a view: of a tensor with labels what has theirs, in their order.

    Raises
    ------
    LabelError
        If it has labels that the cells do not have.
    """
    if not hasattr(value, "__sparrow_scan__"):
        return value
    scan = value.__sparrow_scan__()
    found, more = fit_to_target(scan, Scan(base, view, base.schema.with_view(view)))
    for axis, labels in more.items():
        dim = base.schema.with_view(view).dims[axis]
        raise LabelError(
            f"dimension {dim!r} has no label {labels[0].as_py()!r} to write to: append() adds labels, sel() leaves "
            "some out"
        )
    return value if found is scan else type(value)(found.source, found.view)


def placement(base: Schema, view: View, coords: Any, values: Any, names: tuple[str, ...]) -> Edit:
    """Return the edit that writes values to cells of a view, given by coordinates of shape (ndim, n).

    Parameters
    ----------
    names
        The names of the view's axes.

    Raises
    ------
    ShapeError
        If ``coords`` is not (ndim, n), or ``values`` neither a scalar nor (n,).
    IndexingError
        If a coordinate is no integer, or out of range.
    UnsupportedError, InvalidValueError
        As :func:`assignment`.
    """
    columns = _columns(view.ndim, coords)
    count = len(columns[0]) if columns else 1
    for axis, (column, n) in enumerate(zip(columns, view.shape, strict=True)):
        wrong = (column < -n) | (column >= n)
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            raise IndexingError(
                f"index {int(column[at])} is out of range for dimension {names[axis]!r} of size {n} "
                f"(cell {at} of coords)"
            )
        columns[axis] = np.where(column < 0, column + n, column).astype(np.int64)
    cast = _cast(base, np.asarray(values.to_numpy()) if hasattr(values, "__sparrow_scan__") else values)
    if not view.ndim:
        cast = cast.reshape(-1)[-1:]  # all are values of the one cell
        count = len(cast)
    elif cast.shape not in ((), (1,), (count,)):
        raise ShapeError(f"values of shape {cast.shape} for {count} cells: expected a scalar or shape ({count},)")
    placed = view.to_base(columns) if view.ndim else tuple(np.full(count, c) for _, c in view.fixed)
    block = Block(placed, np.array(np.broadcast_to(cast, (count,))))
    return Edit("put", upsert=canonicalize(block, base.shape, base.fill_value, "last", keep_fill=True))


def _columns(ndim: int, coords: Any) -> list[NDArray[Any]]:
    """Return coordinates, one array for each dimension."""
    try:
        columns = [np.asarray(column) for column in coords]
    except (TypeError, ValueError):
        raise ShapeError(f"coords is ragged or no array: expected shape (ndim, n) with ndim {ndim}") from None
    shape = tuple(column.shape for column in columns)
    if len(columns) != ndim:
        hint = ""
        if columns and all(part == (ndim,) for part in shape):
            hint = ": it looks like (n, ndim), pass its transpose"
        length = len(columns[0]) if columns and columns[0].ndim else 0
        raise ShapeError(f"coords must be (ndim, n) = ({ndim}, n), got ({len(columns)}, {length}){hint}")
    columns = [column.reshape(-1) if column.ndim < 2 else column for column in columns]
    if any(column.ndim > 1 or len(column) != len(columns[0]) for column in columns):
        raise ShapeError(f"coords has rows of shapes {', '.join(map(str, shape))}: expected (n,) for each, all as long")
    for column in columns:
        if column.dtype.kind not in "iu" and column.size:
            raise IndexingError(f"coords holds {column.dtype} values: coordinates are integers")
    return [column.astype(np.int64) if column.dtype.kind != "u" else column for column in columns]


def _sparse(base: Schema, value: Any) -> tuple[tuple[int, ...], Block] | None:
    """Return shape and entries of a tensor or container; None for others, and where absent cells are no fill."""
    if hasattr(value, "__sparrow_scan__"):
        scan = value.__sparrow_scan__()
        schema, block = scan.schema, None
    elif hasattr(value, "__sparrow_entries__") or is_foreign_sparse(value):
        scan = None
        schema, block, _ = from_object(value)
    else:
        return None
    check_kind(schema.dtype, base.dtype)
    with np.errstate(all="ignore"):
        fill = np.asarray(schema.fill_value).astype(base.dtype)
    if not is_fill(fill.reshape(1), base.fill_value)[0]:
        return None
    found = engines.evaluate(scan) if block is None else block
    with np.errstate(all="ignore"):
        return schema.shape, Block(found.coords, found.values.astype(base.dtype))


def _spread(base: Schema, shape: tuple[int, ...], block: Block, target: tuple[int, ...]) -> Block:
    """Return entries of an array of some shape, broadcast to another by NumPy's rule of assignment."""
    extra = len(shape) - len(target)
    fitting, coords = shape, block.coords
    if extra > 0 and all(n == 1 for n in shape[:extra]):
        fitting, coords = shape[extra:], coords[extra:]
    if fitting == target:
        return Block(coords, block.values)
    try:
        view = View.identity(fitting).broadcast_to(target)
    except ShapeError:
        raise _misfit(shape, target) from None
    memory.check(block.count * view.repeats * base.element_bytes(wide=True), "writing that many cells")
    placed, entries = view.from_base(coords, block.count)
    return Block(placed, block.values if entries is None else block.values[entries])


def _misfit(shape: tuple[int, ...], target: tuple[int, ...]) -> ShapeError:
    return ShapeError(f"values of shape {shape} do not fit the indexed cells of shape {target}")


def _listed(base: Schema, cast: NDArray[Any], target: tuple[int, ...]) -> Block:
    """Return all cells of a dense value, fill too, in view coordinates and in NumPy's order."""
    shape = cast.shape
    while cast.ndim > len(target) and cast.shape[0] == 1:
        cast = cast[0]
    try:
        cells = np.broadcast_to(cast, target)
    except ValueError:
        raise _misfit(shape, target) from None
    memory.check(cells.size * base.element_bytes(wide=True), "writing that many cells")
    return Block(np.ones(target, bool).nonzero() if target else (), cells.reshape(-1))


def check_kind(given: np.dtype[Any], wanted: np.dtype[Any]) -> None:
    """Raise ``UnsupportedError`` where values cannot be cast: complex numbers are not made real in silence."""
    if given.kind == "c" and wanted.kind != "c":
        raise UnsupportedError(f"cannot write {given} values to a tensor of {wanted}: write their real part")


def _cast(base: Schema, value: Any) -> NDArray[Any]:
    """Return a value as an array of the tensor's dtype."""
    if is_foreign_sparse(value):
        value = value.toarray()
    check_unmasked(value)
    try:
        given = np.asarray(value)
    except ValueError:
        raise ShapeError("the values are ragged: their rows differ in length") from None
    if given.dtype.kind not in "biufc" and not isinstance(value, int):
        raise UnsupportedError(f"cannot write {type(value).__name__} values to a tensor of {base.dtype}")
    check_kind(given.dtype, base.dtype)
    with np.errstate(all="ignore"):
        if hasattr(value, "dtype"):
            return np.asarray(given.astype(base.dtype))
        try:
            return np.asarray(value, dtype=base.dtype)  # as NumPy, which wraps arrays but not Python's numbers
        except (OverflowError, ValueError) as error:
            kind = NumberRangeError if isinstance(error, OverflowError) else InvalidValueError
            raise kind(f"cannot write {value!r} to a tensor of {base.dtype}: {error}") from None
