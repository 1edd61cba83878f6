"""Bounding boxes of views, for pruning files and row groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sparrow.core.bisection import bisect_sorted
from sparrow.core.indexing.points import IntArray

__all__ = ["Box"]


@dataclass(frozen=True, slots=True)
class Box:
    """Strided hyper-rectangle of base coordinates: an ascending range per dimension."""

    ranges: tuple[range, ...]
    members: tuple[tuple[int, IntArray], ...] = field(default=(), compare=False)
    """Pairs (dimension, sorted distinct coordinates) of dimensions indexed by lists, to skip chunks without any."""

    @classmethod
    def from_shape(cls, shape: Sequence[int]) -> Box:
        """Return the box of all coordinates of a tensor of this shape."""
        return cls(tuple(range(n) for n in shape))

    @property
    def size(self) -> int:
        """Number of coordinates in the box; :attr:`members` are ignored."""
        return math.prod(len(r) for r in self.ranges)

    def coordinates(self) -> tuple[IntArray, ...]:
        """Return all coordinates in the box, one array per dimension."""
        grid = np.meshgrid(*(np.arange(r.start, r.stop, r.step) for r in self.ranges), indexing="ij")
        return tuple(column.reshape(-1) for column in grid)

    def parts(self, limit: int) -> tuple[Box, ...]:
        """Return up to ``limit`` boxes of ranges that contain this one."""
        return (self,)

    def covers(self, low: Sequence[int], high: Sequence[int]) -> bool:
        """Return whether every coordinate within inclusive bounds lies in the box."""
        return all(
            len(r) > 0 and r[0] <= lo and hi <= r[-1] and (r.step == 1 or (lo == hi and lo in r))
            for r, lo, hi in zip(self.ranges, low, high, strict=True)
        )

    def intersects(self, low: Sequence[int], high: Sequence[int]) -> bool:
        """Return whether the box may intersect the inclusive bounds low to high."""
        return all(len(r) > 0 and r[0] <= hi and lo <= r[-1] for r, lo, hi in zip(self.ranges, low, high, strict=True))

    def intersection_mask(self, low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return a mask of the n bounding boxes that this box may intersect.

        ``low`` and ``high`` are inclusive, of shape (n, ndim). False positives are possible.
        """
        out = np.ones(len(low), dtype=bool)
        for dim, r in enumerate(self.ranges):
            if len(r) == 0:
                return np.zeros(len(low), dtype=bool)
            first, last = low[:, dim], high[:, dim]
            out &= (last >= r[0]) & (first <= r[-1])
            if len(r) > 1 and r.step > 1:
                start = np.maximum(first, r[0])
                start += (r[0] - start) % r.step
                out &= start <= last
        for dim, members in self.members:
            out &= bisect_sorted(members, low[:, dim]) < bisect_sorted(members, high[:, dim], "right")
        return out

    def overlap_fractions(self, low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the fraction of each of n bounding boxes that lies in this box.

        ``low`` and ``high`` are inclusive, of shape (n, ndim).
        """
        out = np.ones(len(low))
        for dim, r in enumerate(self.ranges):
            if len(r) == 0:
                return np.zeros(len(low))
            first, last = np.maximum(low[:, dim], r[0]), np.minimum(high[:, dim], r[-1])
            inside = (last - r[0]) // r.step - (first - r[0] - 1) // r.step
            out *= np.maximum(inside, 0) / (high[:, dim].astype(np.float64) - low[:, dim] + 1)
        return out

    def contains(self, coords: Sequence[IntArray]) -> NDArray[np.bool_]:
        """Return a mask, shape (n,), of the coordinates that lie in the box.

        ``coords`` holds one array of shape (n,) per dimension; :attr:`members` are ignored.
        """
        inside = np.ones(len(coords[0]) if coords else 1, dtype=bool)
        for r, column in zip(self.ranges, coords, strict=True):
            if len(r) == 0:
                inside[:] = False
                continue
            inside &= (column >= r[0]) & (column <= r[-1])
            if r.step != 1 and len(r) > 1:
                inside &= (column - r[0]) % r.step == 0
        return inside
