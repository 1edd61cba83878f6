"""Tensors brought to the same labels."""

from __future__ import annotations

from typing import Any

from sparrow.errors import InvalidValueError
from sparrow.functions.views import as_tensor
from sparrow.plan import Cast, Join, Labels, Scan, by_name, map_cells
from sparrow.settings import JOINS
from sparrow.tensor import Tensor

__all__ = ["align", "shown"]


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
        tensor if now is before else shown(now, names)
        for tensor, before, (now, names) in zip(given, scans, by_name(scans, join), strict=True)
    )


def shown(scan: Scan, names: Labels) -> Tensor:
    """Return what a scan shows as a tensor with labels."""
    return Tensor(map_cells(Cast(scan.schema.dtype), [scan]).named(names))
