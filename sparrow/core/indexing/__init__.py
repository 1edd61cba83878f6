"""The index algebra: which cells of a base a view shows, and where they stand in it.

A :class:`View` maps each base dimension to one of three things:

* a **fixed** coordinate (an integer index dropped the dimension),
* a :class:`Range` axis, ``base = start + step * view`` (a slice), or
* a group of :class:`Points` (lists and masks): base coordinates listed in arrays, whose own
  dimensions are :class:`Listed` axes. Dimensions that were indexed by lists that pair up share a group.

Axes that come from no dimension are :class:`New` (``None`` in an index). Views compose: an index of
a view is again one view of the same base, so a chain of any depth is one predicate on one scan.
Fixed dimensions become equalities, ranges become bounds and a modulo, groups become a join that
keeps order and repeats. Cost: O(rank) for basic indexes, O(length of the lists) with lists.

Everything here is pure: no I/O, no engine. All coordinates are counted from 0 and negative numbers
are gone once an index has been taken apart.
"""

from __future__ import annotations

from sparrow.core.indexing.axes import Axis, Listed, New, Range
from sparrow.core.indexing.box import Box
from sparrow.core.indexing.parse import Mask, Mode
from sparrow.core.indexing.points import Points
from sparrow.core.indexing.shapes import broadcast_shapes, check_permutation
from sparrow.core.indexing.view import View

__all__ = [
    "Axis",
    "Box",
    "Listed",
    "Mask",
    "Mode",
    "New",
    "Points",
    "Range",
    "View",
    "broadcast_shapes",
    "check_permutation",
]
