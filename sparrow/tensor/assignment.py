"""Assignment: the edit of the base that writes a value to the elements of a view."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow import engines
from sparrow.core.indexing import Box, ListAxis, Selection, View
from sparrow.core.schema import Schema, is_fill
from sparrow.errors import (
    IndexingError,
    InvalidValueError,
    LabelError,
    NumberRangeError,
    ShapeError,
    UnsupportedError,
)
from sparrow.interop.conversion import dense_of_sparse, from_object, is_foreign_sparse
from sparrow.interop.interchange import check_dense, check_expansion, dense_array
from sparrow.kernels.coo import Block, canonicalize
from sparrow.plan import Scan, align_elements, fit_to_target
from sparrow.relations.edits import Edit
from sparrow.relations.protocol import Relation
from sparrow.runtime import memory
from sparrow.runtime.validation import check_unmasked
from sparrow.tensor.tuning import tuning

__all__ = ["align_value", "assignment_edit", "check_kind", "put_edit"]


def assignment_edit(base: Schema, view: View, value: Any) -> Edit:
    """Return the edit that writes a value, broadcast, to the elements of a view.

    What a view shows is cleared as one box or selection, so that writing fill to a billion elements lists none of them;
    if lists name an element twice the last value wins.

    Raises
    ------
    ShapeError
        If the value is ragged, or does not broadcast to the shape of the view.
    UnsupportedError
        If it is not numeric, or complex while the tensor is not.
    InvalidValueError
        If it is a Python number that the dtype cannot hold.
    TooLargeError
        If the elements would exceed the memory limit, or a sparse value of another fill would make too many of them
        (:func:`sparrow.interop.interchange.check_expansion`).
    """
    clear: tuple[Box, ...] = (view.box(),) if view.size else ()
    shape, given, value = _read_value(base, view, value)
    if not view.points:
        block = _broadcast_block(base, shape, given, view.shape)
    elif not view.size or _is_listed(shape, given, view):
        block, clear = _explicit_block(base, _cast(base, value), view.shape), ()
    else:
        block, clear = _last_of_repeats(_broadcast_block(base, shape, given, view.shape), view), (Selection(view),)
    coords = view.to_base(block.coords) if view.ndim else tuple(np.full(block.count, c) for _, c in view.fixed)
    upsert = canonicalize(Block(coords, block.values), base.shape, base.fill_value, "last", keep_fill=True)
    return Edit("write", clear=clear, upsert=upsert)


def _is_listed(shape: tuple[int, ...], block: Block, view: View) -> bool:
    """Return whether to list what is written through lists, fill included.

    Small writes are, and those of few fill values: commits then know what they change element by element.
    """
    times = view.size // max(math.prod(shape), 1)
    return view.size <= max(tuning().clear_box_max_elements, 4 * block.count * times)


def _last_of_repeats(block: Block, view: View) -> Block:
    """Return the elements at the last of equal points of each list."""
    kept = np.ones(block.count, bool)
    for number, group in enumerate(view.points):
        if not group.is_last.all():
            places = sorted(
                (axis.position, column)
                for axis, column in zip(view.axes, range(view.ndim), strict=True)
                if isinstance(axis, ListAxis) and axis.group == number
            )
            at = tuple(block.coords[column] for _, column in places)
            kept &= group.is_last.reshape(group.shape)[at]
    return block if kept.all() else block.take(kept)


def align_value(base: Relation, view: View, value: Any) -> Any:
    """Align a tensor with labels to those of a view that it is written to.

    Other values are returned as they are.

    Raises
    ------
    LabelError
        If it has labels that the view does not have.
    """
    if not hasattr(value, "__sparrow_scan__"):
        return value
    scan = value.__sparrow_scan__()
    found, more = fit_to_target(scan, Scan(base, view, base.schema.with_view(view)))
    for axis, labels in more.items():
        dim = base.schema.with_view(view).dims[axis]
        raise LabelError(
            f"dimension {dim!r} has no label {labels[0].as_py()!r} to write to: use append() to add labels, or "
            "sel() to omit some"
        )
    return value if found is scan else type(value)(found.source, found.view)


def put_edit(base: Schema, view: View, coords: Any, values: Any, names: tuple[str, ...]) -> Edit:
    """Return the edit that writes values to elements of a view by coordinate.

    Parameters
    ----------
    base
        Schema of the base.
    view
        View that the coordinates belong to.
    coords
        Shape (ndim, n).
    values
        Scalar or shape (n,).
    names
        Dimension names of the view.

    Raises
    ------
    ShapeError
        If ``coords`` is not (ndim, n), or ``values`` is neither a scalar nor (n,).
    IndexingError
        If a coordinate is not an integer, or out of range.
    UnsupportedError, InvalidValueError
        See :func:`assignment_edit`.
    """
    coords, values = align_elements(coords, values)
    columns = _check_coords(view.ndim, coords)
    count = len(columns[0]) if columns else 1
    for axis, (column, n) in enumerate(zip(columns, view.shape, strict=True)):
        wrong = (column < -n) | (column >= n)
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            raise IndexingError(
                f"index {int(column[at])} is out of range for dimension {names[axis]!r} of size {n} "
                f"(column {at} of coords)"
            )
        columns[axis] = np.where(column < 0, column + n, column).astype(np.int64)
    cast = _cast(base, np.asarray(values.to_numpy()) if hasattr(values, "__sparrow_scan__") else values)
    if not view.ndim:
        cast = cast.reshape(-1)[-1:]  # all are values of the single element
        count = len(cast)
    elif cast.shape not in ((), (1,), (count,)):
        raise ShapeError(f"values must be a scalar or have shape ({count},), got shape {cast.shape}")
    at_base = view.to_base(columns) if view.ndim else tuple(np.full(count, c) for _, c in view.fixed)
    block = Block(at_base, np.array(np.broadcast_to(cast, (count,))))
    return Edit("put", upsert=canonicalize(block, base.shape, base.fill_value, "last", keep_fill=True))


def _check_coords(ndim: int, coords: Any) -> list[NDArray[Any]]:
    """Return coordinates as one integer array per dimension."""
    check_unmasked(coords, "coords")
    try:
        columns = [np.asarray(column) for column in coords]
    except (TypeError, ValueError):
        raise ShapeError(f"coords must have shape (ndim, n) = ({ndim}, n), got ragged or non-array input") from None
    shape = tuple(column.shape for column in columns)
    if len(columns) != ndim:
        hint = ""
        if columns and all(part == (ndim,) for part in shape):
            hint = ": it looks like (n, ndim), pass its transpose"
        length = len(columns[0]) if columns and columns[0].ndim else 0
        raise ShapeError(f"coords must have shape (ndim, n) = ({ndim}, n), got ({len(columns)}, {length}){hint}")
    columns = [column.reshape(-1) if column.ndim < 2 else column for column in columns]
    if any(column.ndim > 1 or len(column) != len(columns[0]) for column in columns):
        raise ShapeError(f"coords must have rows of one length, got shapes {', '.join(map(str, shape))}")
    for column in columns:
        if column.dtype.kind not in "iu" and column.size:
            raise IndexingError(f"coords must be integers, got {column.dtype}")
    return [column.astype(np.int64) if column.dtype.kind != "u" else column for column in columns]


def _read_value(base: Schema, view: View, value: Any) -> tuple[tuple[int, ...], Block, Any]:
    """Return the shape of a value, its elements other than the fill, and itself.

    A sparse value of another fill is an array from then on.
    """
    if hasattr(value, "__sparrow_scan__"):
        scan = value.__sparrow_scan__()
        schema, block = scan.schema, None
    elif hasattr(value, "__sparrow_entries__") or is_foreign_sparse(value):
        scan = None
        schema, block, _ = from_object(value)
    else:
        return _elements_of_array(base, value)
    check_kind(schema.dtype, base.dtype)
    with np.errstate(all="ignore"):
        fill = np.asarray(schema.fill_value).astype(base.dtype)
    if not is_fill(fill.reshape(1), base.fill_value)[0]:
        found = engines.evaluate(scan, own=False) if block is None else block
        _check_fill(base, view, schema, found.count)
        check_dense(schema, "write fewer rows at a time")
        return _elements_of_array(base, dense_array(schema, found))
    found = engines.evaluate(scan) if block is None else block
    with np.errstate(all="ignore"):
        return schema.shape, Block(found.coords, found.values.astype(base.dtype)), value


def _elements_of_array(base: Schema, value: Any) -> tuple[tuple[int, ...], Block, Any]:
    """Return the result of :func:`_read_value` for a dense value."""
    cast = _cast(base, value)
    stored = ~is_fill(cast, base.fill_value)
    return cast.shape, Block(stored.nonzero() if cast.ndim else (), cast[stored]), value


def _check_fill(base: Schema, view: View, schema: Schema, count: int) -> None:
    """Warn, or raise, where a value of another fill would store far more."""
    fill, nbytes = base.fill_value, view.size * base.element_bytes()
    what = f"a value of fill {schema.fill_value}, written to a tensor of fill {fill} as {view.size:,} elements,"
    remedy = (
        f"a new tensor keeps the other fill, as in B = A + 1 and B.save(path); value * (A != {fill}) changes stored "
        f"elements only; value.refill({fill}) stores all on purpose"
    )
    memory.check(nbytes, what, remedy)
    check_expansion(nbytes, max(count, 1) * schema.element_bytes(), what, remedy)


def _broadcast_block(base: Schema, shape: tuple[int, ...], block: Block, target: tuple[int, ...]) -> Block:
    """Broadcast stored elements to a shape, by NumPy's rule of assignment."""
    extra = len(shape) - len(target)
    fitting, coords = shape, block.coords
    if extra > 0 and all(n == 1 for n in shape[:extra]):
        fitting, coords = shape[extra:], coords[extra:]
    if fitting == target:
        return Block(coords, block.values)
    try:
        view = View.identity(fitting).broadcast_to(target)
    except ShapeError:
        raise _shape_mismatch(shape, target) from None
    _check_memory(block.count * view.repeats, base)
    spread, elements = view.from_base(coords, block.count)
    return Block(spread, block.values if elements is None else block.values[elements])


def _check_memory(count: int, base: Schema) -> None:
    """Raise unless elements to write fit in memory while they are sorted and merged."""
    copies = 1 if count <= tuning().clear_box_max_elements else tuning().write_copies
    nbytes = copies * count * base.element_bytes(wide=True)
    memory.check(nbytes, lambda: f"{count} elements to write, with what sorts them,", "write fewer rows at a time")


def _shape_mismatch(shape: tuple[int, ...], target: tuple[int, ...]) -> ShapeError:
    return ShapeError(f"values of shape {shape} do not broadcast to the indexed shape {target}")


def _explicit_block(base: Schema, cast: NDArray[Any], target: tuple[int, ...]) -> Block:
    """Return all elements of a dense value, fill included, in NumPy's order."""
    shape = cast.shape
    while cast.ndim > len(target) and cast.shape[0] == 1:
        cast = cast[0]
    try:
        elements = np.broadcast_to(cast, target)
    except ValueError:
        raise _shape_mismatch(shape, target) from None
    _check_memory(elements.size, base)
    return Block(np.ones(target, bool).nonzero() if target else (), elements.reshape(-1))


def check_kind(given: np.dtype[Any], wanted: np.dtype[Any]) -> None:
    """Raise ``UnsupportedError`` if complex values would be written to a real tensor."""
    if given.kind == "c" and wanted.kind != "c":
        raise UnsupportedError(f"cannot write {given} values to a tensor of {wanted}: write their real parts")


def _cast(base: Schema, value: Any) -> NDArray[Any]:
    """Return a value as an array of the dtype of the base."""
    if is_foreign_sparse(value):
        value = dense_of_sparse(value)
    check_unmasked(value)
    try:
        given = np.asarray(value)
    except ValueError:
        raise ShapeError("values must have rows of one length, got ragged input") from None
    if given.dtype.kind not in "biufc" and not isinstance(value, int):
        raise UnsupportedError(f"cannot write {type(value).__name__} values to a tensor of {base.dtype}")
    check_kind(given.dtype, base.dtype)
    with np.errstate(all="ignore"):
        if hasattr(value, "dtype"):
            return np.asarray(given.astype(base.dtype))
        try:
            return np.asarray(value, dtype=base.dtype)  # NumPy wraps arrays, but not Python numbers
        except (OverflowError, ValueError) as error:
            kind = NumberRangeError if isinstance(error, OverflowError) else InvalidValueError
            raise kind(f"cannot write {value!r} to a tensor of {base.dtype}: {error}") from None
