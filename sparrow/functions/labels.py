"""Alignment of tensors by label, and of vectors to the labels of a matrix."""

from __future__ import annotations

from typing import Any

from sparrow.core.label_types import unify_label_types
from sparrow.errors import InvalidValueError, LabelError
from sparrow.functions.views import as_tensor
from sparrow.plan import AxisLabels, Cast, Join, Labels, Scan, align_by_name, axis_labels, make_map, match_scan
from sparrow.runtime.settings import JOINS
from sparrow.tensor import Tensor
from sparrow.tensor.matching import to_labelled

__all__ = [
    "align",
    "align_to_axis",
    "can_align",
    "check_same_labels",
    "describe_label_mismatch",
    "drop_labels",
    "find_labelled_axis",
    "is_labelled",
    "to_labelled_tensor",
]


def align(*tensors: Any, join: Join = "outer") -> tuple[Tensor, ...]:
    """Align tensors to the same labels along dimensions of one name, lazily.

    Default names (``d0``) and those that a reader assigned (``src``) go by position, counted from the last dimension.

    Operators do this by themselves; set their ``join`` with :func:`sparrow.config`.

    Parameters
    ----------
    *tensors
        At least one. Dimensions without labels, or of a name that no other has, stay as they are.
    join
        "outer" for all labels, ascending; "inner" for the common ones and "left" for those of the first tensor, in its
        order; "exact" to raise if they differ.

    Returns
    -------
    tuple of Tensor
        At labels that a tensor lacks, its elements are absent. Tensors that are aligned already are returned as they
        are.

    Raises
    ------
    LabelError
        If label types do not compare, labels repeat or are missing on one side, or they differ and ``join`` is "exact".
    InvalidValueError
        If ``join`` is unknown.

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
        raise InvalidValueError(f"join must be {', '.join(map(repr, JOINS[1:-1]))} or {JOINS[-1]!r}, got {join!r}")
    given = [as_tensor(tensor) for tensor in tensors]
    scans = [tensor.__sparrow_scan__() for tensor in given]
    return tuple(
        tensor if now is before else to_labelled_tensor(now, names)
        for tensor, before, (now, names) in zip(given, scans, align_by_name(scans, join), strict=True)
    )


def to_labelled_tensor(scan: Scan, names: Labels) -> Tensor:
    """Return the tensor of a scan, with the given labels."""
    return Tensor(make_map(Cast(scan.schema.dtype), [scan]).with_labels(names))


def align_to_axis(given: Any, A: Any, axis: int, name: str = "", what: str = "") -> Any:
    """Align a tensor to the labels of an axis of a matrix.

    Parameters
    ----------
    given
        Tensor whose first dimension is aligned; labels that it lacks become absent elements. Anything else, or a tensor
        without labels, is matched by position and returned as it is.
    A
        The matrix.
    axis
        0 for its rows, 1 for its columns.
    name, what
        Names of the argument and of the function, for errors. Without them labels that the matrix lacks are dropped, as
        in ``A @ x``, and some must be in common.

    Raises
    ------
    LabelError
        If the matrix lacks a label, or label types do not compare, labels repeat, or must be exact and differ.
    """
    given = to_labelled(given, A)
    if not (is_labelled(given, 0) and is_labelled(A, axis)):
        return given
    scan, wanted = given.__sparrow_scan__(), axis_labels(A.__sparrow_scan__())[axis]
    target = {0: (f"the {('rows', 'columns')[axis]} of A, {A.dims[axis]!r}", wanted)}
    found = match_scan(scan, target, f"{what}: {name}" if what else "the vector", "vector" if what else "mask")
    return given if found is scan else to_labelled_tensor(found, {**axis_labels(scan), 0: wanted})


def is_labelled(given: Any, axis: int) -> bool:
    """Return whether an object is a tensor with labels along an axis. No I/O."""
    return isinstance(given, Tensor) and axis in axis_labels(given.__sparrow_scan__())


def can_align(one: Any, other: Any, axis: int = 0, and_axis: int = 0) -> bool:
    """Return whether two axes match: by size, or by labels if both have some."""
    return one.shape[axis] == other.shape[and_axis] or (is_labelled(one, axis) and is_labelled(other, and_axis))


def check_same_labels(A: Any, what: str, may_be_disjoint: bool = False, axes: tuple[int, int] = (0, 1)) -> None:
    """Check that rows and columns of matrices have the same labels.

    Nothing is checked unless both have some.

    Parameters
    ----------
    A
        Matrix, or a stack of some.
    what
        Name of the matrix or function for errors.
    may_be_disjoint
        Allow labels of different things, equations and unknowns, of which none are equal.
    axes
        Axes of the rows and columns.

    Raises
    ------
    LabelError
        If they differ.
    """
    if not all(is_labelled(A, axis) for axis in axes):
        return
    labels = axis_labels(A.__sparrow_scan__())
    rows, columns = (labels[axis] for axis in axes)
    if not rows.equals(columns) and not (may_be_disjoint and _are_disjoint(rows, columns)):
        raise LabelError(f"{what}: rows and columns must have the same labels, but {describe_label_mismatch(A, axes)}")


def _are_disjoint(one: AxisLabels, other: AxisLabels) -> bool:
    """Return whether two axes have no label in common."""
    import pyarrow.compute as pc

    try:
        mine, theirs = unify_label_types([one.array(), other.array()], "rows and columns")
    except LabelError:  # of types that are never equal
        return True
    return not pc.any(pc.is_in(mine, value_set=theirs), min_count=0).as_py()


def describe_label_mismatch(A: Any, axes: tuple[int, int] = (0, 1)) -> str:
    """Describe how the labels of rows and columns differ, for an error message."""
    import pyarrow.compute as pc

    (rows, columns), (down, across) = (A.dims[axis] for axis in axes), (A.labels(axis) for axis in axes)
    begin = f"labels of {rows!r} and {columns!r} differ"
    for one, other, name in ((across, down, columns), (down, across, rows)):
        more = one.filter(pc.invert(pc.is_in(one, other)))
        if len(more):
            return f"{begin}: only {name!r} has {more[0].as_py()!r}: select the common labels with sel()"
    return f"{begin} in order: A.sel({{{rows!r}: A.labels({columns!r})}}) puts the rows in the order of the columns"


def find_labelled_axis(A: Any) -> int:
    """Return the axis of a square matrix whose labels apply to both."""
    return int(is_labelled(A, 1) and not is_labelled(A, 0))


def drop_labels(tensor: Tensor, axis: int) -> Tensor:
    """Return a tensor without labels along an axis."""
    scan = tensor.__sparrow_scan__()
    names = dict(axis_labels(scan))
    if names.pop(axis, None) is None:
        return tensor
    return to_labelled_tensor(scan, names)
