"""Tensors brought to the same labels, and what goes along a matrix brought to the labels of its rows or columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sparrow.errors import InvalidValueError, LabelError
from sparrow.functions.generation import tensor_from_block
from sparrow.functions.views import as_tensor
from sparrow.kernels.coo import concat_blocks
from sparrow.plan import Cast, Join, Labels, Scan, align_by_name, axis_labels, fit_to_target, make_map
from sparrow.runtime.settings import JOINS
from sparrow.tensor import Tensor

__all__ = [
    "align",
    "align_to_axis",
    "can_align",
    "check_same_labels",
    "describe_label_mismatch",
    "find_labelled_axis",
    "is_labelled",
    "to_labelled_tensor",
]


def align(*tensors: Any, join: Join = "outer") -> tuple[Tensor, ...]:
    """Return tensors at the same labels along dimensions of one name, lazily.

    Operators do this by themselves, and say ``join`` by :func:`sparrow.config`; here is what they compute with.

    Parameters
    ----------
    *tensors
        At least one. Dimensions without labels, or with a name of their own, stay as they are.
    join
        "outer" takes all labels, in ascending order; "inner" those that all have and "left" those of the first, in
        the order of the first; "exact" raises an error where they are not equal.

    Returns
    -------
    tuple of Tensor
        Where a tensor has no label of its own, its cells have its fill value. Tensors whose labels are equal are
        returned as they are.

    Raises
    ------
    LabelError
        If labels are of types that do not compare, repeat, are missing on one side, or differ and ``join`` is "exact".
    InvalidValueError
        If there is no such join.

    Examples
    --------
    >>> import sparrow as sp
    >>> a = sp.from_coords([[0, 1]], [1, 2], dims=["user"], labels={"user": ["ann", "bob"]})
    >>> b = sp.from_coords([[0, 1]], [3, 4], dims=["user"], labels={"user": ["bob", "eve"]})
    >>> one, other = sp.align(a, b)
    >>> one.labels("user").to_pylist(), one.to_numpy(), other.to_numpy()
    (['ann', 'bob', 'eve'], array([1, 2, 0]), array([0, 3, 4]))
    """
    if join not in JOINS[1:]:
        raise InvalidValueError(f"join={join!r}: use {', '.join(map(repr, JOINS[1:-1]))} or {JOINS[-1]!r}")
    given = [as_tensor(tensor) for tensor in tensors]
    scans = [tensor.__sparrow_scan__() for tensor in given]
    return tuple(
        tensor if now is before else to_labelled_tensor(now, names)
        for tensor, before, (now, names) in zip(given, scans, align_by_name(scans, join), strict=True)
    )


def to_labelled_tensor(scan: Scan, names: Labels) -> Tensor:
    """Return what a scan shows as a tensor with labels."""
    return Tensor(make_map(Cast(scan.schema.dtype), [scan]).with_labels(names))


def align_to_axis(given: Any, A: Any, axis: int, name: str = "", what: str = "") -> Any:
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
    scan, wanted = given.__sparrow_scan__(), axis_labels(A.__sparrow_scan__())[axis]
    names = axis_labels(scan)
    if wanted.equals(names[0]):
        return given
    schema = replace(scan.schema, shape=(wanted.length, *scan.schema.shape[1:]))
    target = tensor_from_block(schema, concat_blocks([], schema.ndim, schema.dtype), {0: wanted.array()})
    placed, more = fit_to_target(scan, target.__sparrow_scan__())
    if more and what:
        raise LabelError(
            f"{what}: {name} has the label {more[0][0].as_py()!r}, and none of the {('rows', 'columns')[axis]} of A, "
            f"{A.dims[axis]!r}, has: leave it out with sel(), or give an array, which goes by position"
        )
    return to_labelled_tensor(placed.then(placed.view.then((slice(wanted.length),))), {**names, 0: wanted})


def is_labelled(given: Any, axis: int) -> bool:
    """Return whether this is a tensor that has labels along an axis. Reads nothing."""
    return isinstance(given, Tensor) and axis in axis_labels(given.__sparrow_scan__())


def can_align(one: Any, other: Any, axis: int = 0, and_axis: int = 0) -> bool:
    """Return whether two axes go together: of one size, or both with labels, by which they are aligned."""
    return one.shape[axis] == other.shape[and_axis] or (is_labelled(one, axis) and is_labelled(other, and_axis))


def check_same_labels(A: Any, what: str) -> None:
    """Check that a matrix maps a space to itself: rows and columns have the same labels, if both have some.

    Raises
    ------
    LabelError
        If they do not.
    """
    if not (is_labelled(A, 0) and is_labelled(A, 1)):
        return
    names = axis_labels(A.__sparrow_scan__())
    if not names[0].equals(names[1]):
        raise LabelError(f"{what}: rows and columns are to be the same, but {describe_label_mismatch(A)}")


def describe_label_mismatch(A: Any) -> str:
    """Return in which way labels of rows and columns differ, and the way out."""
    import pyarrow.compute as pc

    (rows, columns), (down, across) = A.dims, (A.labels(axis) for axis in (0, 1))
    begin = f"labels of {rows!r} and {columns!r} differ"
    for one, other, name in ((across, down, columns), (down, across, rows)):
        more = one.filter(pc.invert(pc.is_in(one, other)))
        if len(more):
            return f"{begin}: {more[0].as_py()!r} is one of {name!r} alone: take those that both have with sel()"
    return f"{begin} in order: A.sel({{{rows!r}: A.labels({columns!r})}}) takes the rows in the order of the columns"


def find_labelled_axis(A: Any) -> int:
    """Return the axis that has the labels of both, of a matrix that maps a space to itself."""
    return int(is_labelled(A, 1) and not is_labelled(A, 0))
