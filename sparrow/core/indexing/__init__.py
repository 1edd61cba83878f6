"""Index algebra: views of a base tensor and their composition.

A :class:`View` maps each base dimension to one of

* a **fixed** coordinate (an integer index dropped the dimension),
* a :class:`RangeAxis`, ``base = start + step * view`` (a slice), or
* a group of :class:`Points` (lists and masks), whose dimensions are :class:`ListAxis` axes. Dimensions indexed by
  lists that broadcast together share a group.

Axes without a base dimension are :class:`NewAxis` (``None`` in an index). Views compose: indexing a view returns a view
of the same base, so a chain of indexes is one predicate on one scan. Fixed dimensions lower to equalities, ranges to
bounds and a modulo, point groups to an order-preserving join. Composition costs O(ndim) plus the length of lists.

This package does no I/O. Parsed indexes hold non-negative coordinates only.
"""

from __future__ import annotations

from sparrow.core.indexing.axes import Axis, ListAxis, NewAxis, RangeAxis
from sparrow.core.indexing.box import Box
from sparrow.core.indexing.parse import Mask, Mode
from sparrow.core.indexing.points import Points
from sparrow.core.indexing.selection import Selection
from sparrow.core.indexing.shapes import broadcast_shapes, check_permutation
from sparrow.core.indexing.view import View

__all__ = [
    "Axis",
    "Box",
    "ListAxis",
    "Mask",
    "Mode",
    "NewAxis",
    "Points",
    "RangeAxis",
    "Selection",
    "View",
    "broadcast_shapes",
    "check_permutation",
]
