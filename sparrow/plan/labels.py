"""Labels along an axis: whose they are, at which places, and known to be equal without being read."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.core.indexing import ListAxis, RangeAxis, View
from sparrow.core.labels import is_string_type
from sparrow.errors import LabelError
from sparrow.plan.nodes import Node, Scan
from sparrow.relations.base import Relation

__all__ = ["AxisLabels", "Labels", "axis_labels", "concat_labels", "unify_label_types"]

_DEEPEST = 16
"""Labels of labels that are read one inside the other."""


class AxisLabels:
    """The labels along an axis, position = index, read when somebody looks at them.

    Parameters
    ----------
    key
        Labels of one key are equal.
    length
        How many there are.
    make
        Reads them.
    depth
        How many others that reads one inside the other.
    """

    __slots__ = ("_depth", "_found", "_make", "key", "length")

    def __init__(self, key: Hashable, length: int, make: Callable[[], pa.Array], depth: int = 0) -> None:
        self.key, self.length = key, length
        self._make, self._depth = make, depth
        self._found: pa.Array | None = None
        if depth > _DEEPEST:
            self.array()

    @classmethod
    def of(cls, labels: pa.Array) -> AxisLabels:
        """Return labels that are there."""
        return cls(("labels", id(labels)), len(labels), lambda: labels)

    def array(self) -> pa.Array:
        """Return the labels. Reads."""
        if self._found is None:
            self._found, self._depth = self._make(), 0
        return self._found

    def taken(self, places: range | NDArray[Any]) -> AxisLabels:
        """Return those at some places, in the order of these."""
        if isinstance(places, range):
            if places == range(self.length):
                return self
            return AxisLabels((self.key, places), len(places), lambda: _taken(self.array(), places), self._depth + 1)
        return AxisLabels(object(), len(places), lambda: self.array().take(pa.array(places)), self._depth + 1)

    def same(self, other: AxisLabels) -> bool:
        """Return whether both are the same labels in the same order. Reads, unless that is known."""
        if self is other or self.key == other.key:
            return True
        if self.length != other.length:
            return False
        mine, theirs = self.array(), other.array()
        if mine.type != theirs.type:
            try:
                mine, theirs = unify_label_types([mine, theirs], "both sides")
            except LabelError:  # said where they are to be brought together, with the dimension
                return False
        return bool(mine.equals(theirs))


Labels: TypeAlias = Mapping[int, AxisLabels]
"""The labels of the axes that have some."""


def axis_labels(scan: Scan) -> Labels:
    """Return the labels of what a scan shows: an axis along one dimension of the source has those. Reads nothing."""
    source = scan.source
    if not isinstance(source, Node):
        return _through(_of_relation(source), scan.view) if source.label_keys else {}
    own = source.labels
    return _through(own, scan.view) if own else own


def concat_labels(parts: Sequence[AxisLabels]) -> AxisLabels:
    """Return labels one after the other."""
    key = ("joined", *(names.key for names in parts))
    depth = 1 + max(names._depth for names in parts)
    length = sum(names.length for names in parts)
    return AxisLabels(
        key, length, lambda: pa.concat_arrays(unify_label_types([names.array() for names in parts], "the parts")), depth
    )


def unify_label_types(arrays: Sequence[pa.Array], what: str) -> list[pa.Array]:
    """Return labels as arrays of one type, which no labels at all are of.

    Raises
    ------
    LabelError
        If texts would be compared with numbers, or either with dates.
    """
    some = next((array.type for array in arrays if len(array)), arrays[0].type)
    arrays = [array if len(array) else pa.array([], some) for array in arrays]
    kinds = {array.type for array in arrays}
    if len(kinds) == 1:
        return list(arrays)
    if all(pa.types.is_integer(kind) for kind in kinds):
        return [array.cast(pa.int64()) for array in arrays]
    if all(is_string_type(kind.value_type if pa.types.is_dictionary(kind) else kind) for kind in kinds):
        return [array.cast(pa.large_string()) for array in arrays]
    if all(pa.types.is_date(kind) or pa.types.is_timestamp(kind) for kind in kinds):
        return [array.cast(pa.timestamp("us")) for array in arrays]
    raise LabelError(f"labels of {what} are {' and '.join(sorted(map(str, kinds)))}, which are never equal: cast them")


def _of_relation(relation: Relation) -> Labels:
    shape = relation.schema.shape

    def names(dim: int, key: Hashable) -> AxisLabels:
        return AxisLabels((key, shape[dim]), shape[dim], lambda: _taken(relation.labels(dim), range(shape[dim])))

    return {dim: names(dim, key) for dim, key in relation.label_keys.items()}


def _through(own: Labels, view: View) -> Labels:
    if view.is_identity:
        return own
    out: dict[int, AxisLabels] = {}
    for number, axis in enumerate(view.axes):
        if isinstance(axis, RangeAxis) and axis.dim in own:
            walk = range(axis.start, axis.start + axis.step * axis.length, axis.step)
            out[number] = own[axis.dim].taken(walk)
        elif isinstance(axis, ListAxis):
            group = view.points[axis.group]
            if len(group.dims) == 1 and len(group.shape) == 1 and group.dims[0] in own:
                out[number] = own[group.dims[0]].taken(group.coords[0])
    return out


def _taken(labels: pa.Array | None, walk: range) -> pa.Array:
    assert labels is not None
    if walk == range(len(labels)):
        return labels
    if walk.step == 1:
        return labels.slice(walk.start, len(walk))
    return labels.take(pa.array(np.arange(walk.start, walk.stop, walk.step)))
