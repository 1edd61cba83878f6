"""Names along an axis: which operand's they are, and at which places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.index import Listed, Range, View
from sparrow.plan.nodes import Product, Reduce, Refill, Scan, Step
from sparrow.relation import Relation

__all__ = ["labels_of"]


def labels_of(source: Relation | Step, view: View, axis: int) -> pa.Array | None:
    """Return the labels along an axis of a view of a source, position = index, or None where there are none. Reads."""
    places: NDArray[Any] | None = None  # along the dimension in question; None for all of them, as they are
    others: list[tuple[Relation | Step, View, int, NDArray[Any] | None]] = [(source, view, axis, places)]
    while others:  # of several operands that have an axis the first that has labels
        source, view, axis, places = others.pop()
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
            continue
        if not isinstance(source, Step):
            names = source.labels(dim)
            if names is None:
                continue
            if places is None:
                return names.slice(0, view.base_shape[dim])  # a resize cuts some off
            return names.take(pa.array(places))
        others += [(scan.source, scan.view, own_axis, places) for scan, own_axis in reversed(_along(source, dim))]
    return None


def _along(step: Step, dim: int) -> list[tuple[Scan, int]]:
    """Return the operands of a step, each with its axis, that a dimension of the result is that of, unchanged."""
    if isinstance(step, Reduce):
        kept = step.axes[dim]
        return [] if kept is None else [(step.operand, kept)]
    if isinstance(step, Refill):
        return [(step.operand, dim)]
    if isinstance(step, Product):
        letter = step.out[dim]
        sides = zip((step.left, step.right), step.letters, strict=True)
        return [(scan, own.index(letter)) for scan, own in sides if letter in own]
    return []


def _along_one(view: View, axis: Listed) -> bool:
    group = view.points[axis.group]
    return len(group.dims) == 1 and len(group.shape) == 1
