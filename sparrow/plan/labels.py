"""Labels along axes: lazily read, and known to be equal without being read."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.core.indexing import ListAxis, RangeAxis, View
from sparrow.core.label_types import unify_label_types
from sparrow.errors import LabelError
from sparrow.plan.tuning import tuning
from sparrow.relations.protocol import Relation
from sparrow.runtime.events import emit

__all__ = ["AxisLabels", "Labels", "concat_labels", "dimension_labels", "labels_through", "relation_labels"]


class AxisLabels:
    """The labels along an axis, one per index, read when they are first needed.

    Parameters
    ----------
    key
        Equal keys mean equal labels.
    length
        Number of labels.
    read
        Returns the labels as an Arrow array.
    depth
        Number of other labels that ``read`` reads one inside the other; beyond a limit they are read at once.
    origin
        Relation, dimension and positions of its coordinates that they are the labels of, if they are known.
    """

    __slots__ = ("_array", "_depth", "_read", "key", "length", "origin")

    def __init__(
        self,
        key: Hashable,
        length: int,
        read: Callable[[], pa.Array],
        depth: int = 0,
        origin: tuple[Relation, int, range] | None = None,
    ) -> None:
        self.key, self.length, self.origin = key, length, origin
        self._read, self._depth = read, depth
        self._array: pa.Array | None = None
        if depth > tuning().label_depth:
            self.array()

    @classmethod
    def of(cls, labels: pa.Array) -> AxisLabels:
        """Return the labels of an array."""
        return cls(("labels", id(labels)), len(labels), lambda: labels)

    @property
    def depth(self) -> int:
        """The number of other labels that reading these reads one inside the other."""
        return self._depth

    def array(self) -> pa.Array:
        """Return the labels. May do I/O."""
        emit("plan.labels", length=self.length)
        if self._array is None:
            self._array, self._depth = self._read(), 0
        return self._array

    def take(self, positions: range | NDArray[Any]) -> AxisLabels:
        """Return the labels at positions, in their order."""
        if isinstance(positions, range):
            if positions == range(self.length):
                return self
            key, origin = (self.key, positions), None
            if self.origin is not None:
                relation, dim, of = self.origin
                step = of.step * positions.step
                start = of.start + of.step * positions.start
                origin = relation, dim, range(start, start + step * len(positions), step)
            read = lambda: _take_range(self.array(), positions)  # noqa: E731
            return AxisLabels(key, len(positions), read, self._depth + 1, origin)
        return AxisLabels(object(), len(positions), lambda: self.array().take(pa.array(positions)), self._depth + 1)

    def equals(self, other: AxisLabels) -> bool:
        """Return whether both have equal labels. May do I/O if the keys differ."""
        if self is other or self.key == other.key:
            return True
        if self.length != other.length:
            return False
        mine, theirs = self.array(), other.array()
        if mine.type != theirs.type:
            try:
                mine, theirs = unify_label_types([mine, theirs], "both sides")
            except LabelError:  # raised where they are aligned, with the name of the dimension
                return False
        return bool(mine.equals(theirs))


Labels: TypeAlias = Mapping[int, AxisLabels]
"""The labels of labelled axes, by axis."""


def concat_labels(parts: Sequence[AxisLabels]) -> AxisLabels:
    """Return the labels of axes joined one after the other."""
    key = ("concat", *(labels.key for labels in parts))
    depth = 1 + max(labels.depth for labels in parts)
    length = sum(labels.length for labels in parts)

    def read() -> pa.Array:
        return pa.concat_arrays(unify_label_types([labels.array() for labels in parts], "the parts"))

    return AxisLabels(key, length, read, depth)


def relation_labels(relation: Relation) -> Labels:
    """Return the labels of a relation's dimensions. Reads nothing."""
    return {dim: dimension_labels(relation, dim, key) for dim, key in relation.label_keys.items()}


def dimension_labels(relation: Relation, dim: int, key: Hashable) -> AxisLabels:
    """Return the labels of a labelled dimension, given their key. Reads nothing."""
    size = relation.schema.shape[dim]
    everything = range(size)
    read = lambda: _take_range(relation.labels(dim), everything)  # noqa: E731
    return AxisLabels((key, size), size, read, origin=(relation, dim, everything))


def labels_through(labels: Labels, view: View) -> Labels:
    """Return the labels of a view's axes, given those of its base. No I/O."""
    if view.is_identity:
        return labels
    out: dict[int, AxisLabels] = {}
    for number, axis in enumerate(view.axes):
        if isinstance(axis, RangeAxis) and axis.dim in labels:
            positions = range(axis.start, axis.start + axis.step * axis.length, axis.step)
            out[number] = labels[axis.dim].take(positions)
        elif isinstance(axis, ListAxis):
            group = view.points[axis.group]
            if len(group.dims) == 1 and len(group.shape) == 1 and group.dims[0] in labels:
                out[number] = labels[group.dims[0]].take(group.coords[0])
    return out


def _take_range(labels: pa.Array | None, positions: range) -> pa.Array:
    assert labels is not None
    if positions == range(len(labels)):
        return labels
    if positions.step == 1:
        return labels.slice(positions.start, len(positions))
    return labels.take(pa.array(np.arange(positions.start, positions.stop, positions.step)))
