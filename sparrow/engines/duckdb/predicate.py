"""Predicates of views on the coordinates of their base, in readable SQL."""

from __future__ import annotations

from collections.abc import Callable

from sparrow.core.indexing import RangeAxis, View

__all__ = ["axis_position", "view_predicates"]


def view_predicates(view: View, column: Callable[[int], str]) -> list[str]:
    """Return the predicates of a view; of lists only their bounds.

    Fixed dimensions become equalities, ranges become bounds and a modulo. Bounds of the whole dimension are left out.

    Parameters
    ----------
    column
        Returns the SQL of the column of a dimension of the base.
    """
    found = [f"{column(dim)} = {coordinate}" for dim, coordinate in view.fixed]
    box = view.box()
    for dim in sorted(axis.dim for axis in view.axes if isinstance(axis, RangeAxis)):
        found += _range_predicates(column(dim), box.ranges[dim], view.base_shape[dim])
    for group in view.points:
        for dim in group.dims:
            found += _range_predicates(column(dim), box.ranges[dim], view.base_shape[dim])
    return found


def _range_predicates(column: str, indices: range, size: int) -> list[str]:
    if len(indices) == 1:
        return [f"{column} = {indices[0]}"] if size > 1 else []
    low, high = indices[0], indices[-1]
    found = []
    # The last step may end before the last index; the modulo excludes the rest.
    if low > 0 and high < size - indices.step:
        found.append(f"{column} BETWEEN {low} AND {high}")
    elif low > 0:
        found.append(f"{column} >= {low}")
    elif high < size - indices.step:
        found.append(f"{column} <= {high}")
    if indices.step > 1:
        offset = low % indices.step
        found.append(f"{column} % {indices.step} = {offset}")
    return found


def axis_position(axis: RangeAxis, column: str) -> str:
    """Return the SQL of the coordinate of an element along an axis of a view."""
    if axis.length == 1:
        return f"{column} - {axis.start}" if axis.start else column
    distance = f"{axis.start} - {column}" if axis.step < 0 else f"{column} - {axis.start}" if axis.start else column
    step = abs(axis.step)
    if step == 1:
        return distance
    return f"({distance}) // {step}"
