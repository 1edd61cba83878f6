"""Names along an axis: which operand's they are, and at which places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.index import Listed, Range, View
from sparrow.plan.nodes import Reduce, Refill, Step
from sparrow.relation import Relation

__all__ = ["labels_of"]


def labels_of(source: Relation | Step, view: View, axis: int) -> pa.Array | None:
    """Return the labels along an axis of a view of a source, position = index, or None where there are none. Reads."""
    places: NDArray[Any] | None = None  # along the dimension in question; None for all of them, as they are
    while True:
        found = view.axes[axis]
        if isinstance(found, Range):
            dim = found.dim
            if (found.start, found.step, found.length) != (0, 1, view.base_shape[dim]):
                own: NDArray[Any] = found.start + found.step * np.arange(found.length)
                places = own if places is None else own[places]
        elif isinstance(found, Listed) and _along_one(view, found):
            dim = view.points[found.group].dims[0]
            own = view.points[found.group].coords[0]
            places = own if places is None else own[places]
        else:
            return None
        if not isinstance(source, Step):
            names = source.labels(dim)
            if names is None or places is None:
                return names if names is None else names.slice(0, view.base_shape[dim])  # a resize cuts some off
            return names.take(pa.array(places))
        if isinstance(source, Reduce):
            kept = source.axes[dim]
            if kept is None:
                return None
            axis, view, source = kept, source.operand.view, source.operand.source
        elif isinstance(source, Refill):
            axis, view, source = dim, source.operand.view, source.operand.source
        else:
            return None


def _along_one(view: View, axis: Listed) -> bool:
    group = view.points[axis.group]
    return len(group.dims) == 1 and len(group.shape) == 1
