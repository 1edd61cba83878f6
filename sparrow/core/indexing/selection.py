"""Selections: the coordinates of a base that a view with lists shows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sparrow.core.bisection import bisect_sorted
from sparrow.core.indexing.axes import NewAxis, RangeAxis
from sparrow.core.indexing.box import Box
from sparrow.core.indexing.points import IntArray
from sparrow.core.indexing.view import View

__all__ = ["Selection"]

_RUN_CHUNK = 1 << 16


class Selection(Box):
    """The coordinates that a view with lists shows, within its bounding box.

    Parameters
    ----------
    view
        The view; no axis of it repeats elements by broadcasting.
    """

    __slots__ = ("view",)

    def __init__(self, view: View) -> None:
        box = view.box()
        super().__init__(box.ranges, box.members)
        object.__setattr__(self, "view", view)

    view: View
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def size(self) -> int:
        """Number of coordinates, those listed twice once."""
        lengths = [axis.length for axis in self.view.axes if isinstance(axis, RangeAxis | NewAxis)]
        return math.prod([*lengths, *(int(np.count_nonzero(group.is_last)) for group in self.view.points)])

    def coordinates(self) -> tuple[IntArray, ...]:
        """Return all coordinates that the view shows, each once."""
        dims: list[tuple[int, ...]] = [(dim,) for dim, _ in self.view.fixed]
        columns: list[list[IntArray]] = [[np.array([coordinate])] for _, coordinate in self.view.fixed]
        for axis in self.view.axes:
            if isinstance(axis, RangeAxis):
                dims.append((axis.dim,))
                columns.append([axis.start + axis.step * np.arange(axis.length)])
        for group in self.view.points:
            dims.append(group.dims)
            columns.append([column.reshape(-1)[group.is_last] for column in group.coords])
        grid = np.meshgrid(*(np.arange(len(each[0])) for each in columns if each), indexing="ij")
        out: list[IntArray] = [np.zeros(0, np.int64)] * len(self.view.base_shape)
        for own, each, at in zip([d for d in dims if d], [c for c in columns if c], grid, strict=True):
            for dim, column in zip(own, each, strict=True):
                out[dim] = column[at.reshape(-1)]
        return tuple(out)

    def parts(self, limit: int) -> tuple[Box, ...]:
        """Return boxes of runs of the first listed dimension, up to ``limit``."""
        if not self.members:
            return (Box(self.ranges),)
        dim, members = self.members[0]
        stops = _run_stops(members, limit)
        found = []
        for part in np.split(members, stops):
            ranges = list(self.ranges)
            ranges[dim] = range(int(part[0]), int(part[-1]) + 1)
            found.append(Box(tuple(ranges)))
        return tuple(found)

    def covers(self, low: Sequence[int], high: Sequence[int]) -> bool:
        """Return whether every coordinate within inclusive bounds is shown.

        False for lists that pair up.
        """
        if any(len(group.dims) > 1 for group in self.view.points):
            return False
        listed = dict(self.members)
        for dim, (r, lo, hi) in enumerate(zip(self.ranges, low, high, strict=True)):
            if dim in listed:
                first, last = bisect_sorted(listed[dim], lo), bisect_sorted(listed[dim], hi, "right")
                if last - first != hi - lo + 1:
                    return False
            elif not Box((r,)).covers((lo,), (hi,)):
                return False
        return True

    def intersects(self, low: Sequence[int], high: Sequence[int]) -> bool:
        """Return whether the selection may have a coordinate within inclusive bounds."""
        return super().intersects(low, high) and all(
            bisect_sorted(members, low[dim]) < bisect_sorted(members, high[dim], "right")
            for dim, members in self.members
        )

    def contains(self, coords: Sequence[IntArray]) -> NDArray[np.bool_]:
        """Return a mask, shape (n,), of the coordinates that the view shows."""
        inside = super().contains(coords)
        for group in (group for group in self.view.points if group.dims):
            at = np.flatnonzero(inside)
            inside[at] = group.count_matches([coords[dim][at] for dim in group.dims]) > 0
        return inside


def _run_stops(members: IntArray, limit: int) -> IntArray:
    """Return the stops of runs of consecutive coordinates, except the last one.

    Positions at equal distances if there are ``limit`` runs or more.
    """
    found: list[IntArray] = []
    for start in range(0, len(members) - 1, _RUN_CHUNK):  # the differences of all would take as much again
        found.append(np.flatnonzero(np.diff(members[start : start + _RUN_CHUNK + 1]) > 1) + (start + 1))
        if sum(map(len, found)) >= limit:
            return np.unique(np.linspace(0, len(members), limit + 1).astype(np.int64)[1:-1])
    return np.concatenate(found) if found else np.zeros(0, np.int64)
