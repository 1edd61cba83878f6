"""The predicate that a view puts on the coordinates of its base, in SQL that people can read too."""

from __future__ import annotations

from collections.abc import Callable

from sparrow.core.indexing import RangeAxis, View

__all__ = ["conditions", "positions"]


def conditions(view: View, column: Callable[[int], str]) -> list[str]:
    """Return what must hold of a base entry for the view to show it, lists apart: of those only the bounds.

    Fixed dimensions become equalities, ranges bounds and a modulo. Bounds that every cell keeps are left out.

    Parameters
    ----------
    column
        Gives the SQL of a base dimension's column.
    """
    found = [f"{column(dim)} = {coordinate}" for dim, coordinate in view.fixed]
    box = view.box()
    for dim in sorted(axis.dim for axis in view.axes if isinstance(axis, RangeAxis)):
        found += _within(column(dim), box.ranges[dim], view.base_shape[dim])
    for group in view.points:
        for dim in group.dims:
            found += _within(column(dim), box.ranges[dim], view.base_shape[dim])
    return found


def _within(column: str, cells: range, size: int) -> list[str]:
    if len(cells) == 1:
        return [f"{column} = {cells[0]}"] if size > 1 else []
    low, high = cells[0], cells[-1]
    found = []
    # The last of several steps may stop short of the end: the modulo says the rest.
    if low > 0 and high < size - cells.step:
        found.append(f"{column} BETWEEN {low} AND {high}")
    elif low > 0:
        found.append(f"{column} >= {low}")
    elif high < size - cells.step:
        found.append(f"{column} <= {high}")
    if cells.step > 1:
        offset = low % cells.step
        found.append(f"{column} % {cells.step} = {offset}")
    return found


def positions(axis: RangeAxis, column: str) -> str:
    """Return the SQL of an axis's coordinate, given that the base entry is shown."""
    if axis.length == 1:
        return f"{column} - {axis.start}" if axis.start else column
    distance = f"{axis.start} - {column}" if axis.step < 0 else f"{column} - {axis.start}" if axis.start else column
    step = abs(axis.step)
    if step == 1:
        return distance
    return f"({distance}) // {step}"
