"""Vectors at the labels of the rows or the columns of a matrix, which solvers take as arrays, by position."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sparrow.errors import LabelError
from sparrow.functions.generation import in_memory
from sparrow.functions.labels import shown
from sparrow.kernels.entries import concatenate
from sparrow.plan import fitted, names_along
from sparrow.tensor import Tensor

__all__ = ["at_labels", "check_space", "is_labelled", "space_axis"]


def at_labels(given: Any, A: Any, axis: int, name: str = "", what: str = "") -> Any:
    """Return what goes along an axis of a matrix in the order of the labels that this has.

    Parameters
    ----------
    given
        A tensor, whose first dimension is looked at; where it lacks a label, its cells have its fill value. Anything
        else, and what has no labels, goes by position and is returned as it is.
    A
        The matrix, whose labels count where it is a tensor.
    axis
        0 for its rows, 1 for its columns.
    name, what
        Of the argument and of the function, for errors. Without them labels that the matrix lacks are left out, as
        ``A @ x`` has it.

    Raises
    ------
    LabelError
        If the matrix lacks a label, or labels are of types that do not compare, repeat, or are to be exact.
    """
    if not (is_labelled(given, 0) and is_labelled(A, axis)):
        return given
    scan, wanted = given.__sparrow_scan__(), names_along(A.__sparrow_scan__())[axis]
    names = names_along(scan)
    if wanted.same(names[0]):
        return given
    schema = replace(scan.schema, shape=(wanted.length, *scan.schema.shape[1:]))
    target = in_memory(schema, concatenate([], schema.ndim, schema.dtype), {0: wanted.array()})
    placed, more = fitted(scan, target.__sparrow_scan__())
    if more and what:
        raise LabelError(
            f"{what}: {name} has the label {more[0][0].as_py()!r}, and none of the {('rows', 'columns')[axis]} of A, "
            f"{A.dims[axis]!r}, has: leave it out with sel(), or give an array, which goes by position"
        )
    return shown(placed.then(placed.view.then((slice(wanted.length),))), {**names, 0: wanted})


def is_labelled(given: Any, axis: int) -> bool:
    """Return whether this is a tensor that has labels along an axis. Reads nothing."""
    return isinstance(given, Tensor) and axis in names_along(given.__sparrow_scan__())


def check_space(A: Any, what: str) -> None:
    """Check that a matrix maps a space to itself: rows and columns have the same labels, if both have some.

    Raises
    ------
    LabelError
        If they do not.
    """
    if not (is_labelled(A, 0) and is_labelled(A, 1)):
        return
    names = names_along(A.__sparrow_scan__())
    if not names[0].same(names[1]):
        rows, columns = A.dims
        raise LabelError(
            f"{what}: labels of {rows!r} and {columns!r} differ, and rows and columns are to be the same: "
            f"A.sel({{{rows!r}: A.labels({columns!r})}}) takes the rows in the order of the columns"
        )


def space_axis(A: Any) -> int:
    """Return the axis that has the labels of both, of a matrix that maps a space to itself."""
    return int(is_labelled(A, 1) and not is_labelled(A, 0))
