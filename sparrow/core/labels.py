"""Labels, the names of the coordinates of a dimension, and the coordinates found by them."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from collections.abc import Set as AbstractSet
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.errors import LabelError
from sparrow.runtime import settings
from sparrow.runtime.thread_pool import ordered_map

__all__ = ["first_places", "is_text", "label_position", "label_positions", "label_range", "repeated_label"]

_NAMED = 5
"""How many missing labels an error names."""
_PART = 1 << 18
"""How many labels a thread looks through at a time."""


def label_position(labels: pa.Array | None, label: Any, dim: str) -> int:
    """Return the coordinate of a label; see :func:`label_positions`.

    Raises
    ------
    LabelError
        If the dimension has no labels, or not this one.
    """
    return int(label_positions(labels, [label[()] if isinstance(label, np.ndarray) else label], dim)[0])


def label_positions(labels: pa.Array | None, wanted: Any, dim: str) -> NDArray[np.int64]:
    """Return the coordinates of several labels.

    Parameters
    ----------
    labels
        Those of the dimension.
    wanted
        Any sequence of labels: a list, an array of NumPy or Arrow, a series. Of a set, which has no order, the
        coordinates ascend. Dates and times are found among texts of them, and texts of them among dates and times.
    dim
        The name of the dimension, for errors.

    Raises
    ------
    LabelError
        If the dimension has no labels, or not these: the first that are missing are named; or a text is no date.
    """
    if labels is None:
        raise LabelError(f"dimension {dim!r} has no labels: index it by number")
    unordered = isinstance(wanted, AbstractSet)
    given: Any = wanted if isinstance(wanted, Sized) and not unordered else list(wanted)
    among = _arrow(given)
    if among is None or (found := _found(labels, among)) is None:
        # Of several kinds, or of another one: those that may be labels at all.
        kind = type(labels[0].as_py()) if len(labels) else str
        given = [_python(one) for one in given]
        likely = [one if isinstance(one, kind) and _fits(one, labels.type) else None for one in given]
        found = _found(labels, pa.array(likely, labels.type))
        assert found is not None
    if found.null_count:
        at = np.flatnonzero(found.is_null().to_numpy(zero_copy_only=False))
        names = ", ".join(repr(_python(given[int(k)])) for k in at[:_NAMED])
        more = f" and {len(at) - _NAMED} more" if len(at) > _NAMED else ""
        raise LabelError(f"dimension {dim!r} has no label{'s' * (len(at) > 1)} {names}{more}")
    places_of: NDArray[np.int64] = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return np.sort(places_of) if unordered else places_of


def first_places(wanted: pa.Array, among: pa.Array) -> pa.Array:
    """Return where each label first is among others of its type, null for none; of a null too.

    The side with fewer labels is the one that a hash table is made of.
    """
    import pyarrow.compute as pc

    if 4 * len(wanted) > len(among):
        return pc.index_in(wanted, value_set=among, skip_nulls=True)
    coded = wanted.dictionary_encode()

    def numbered(start: int) -> NDArray[np.int32]:
        part = pc.index_in(among.slice(start, _PART), value_set=coded.dictionary, skip_nulls=True)
        codes: NDArray[np.int32] = part.fill_null(-1).to_numpy()
        return codes

    starts = range(0, max(len(among), 1), _PART)
    number = np.concatenate(list(ordered_map(numbered, starts, settings.current().threads if len(starts) > 1 else 1)))
    hits = np.flatnonzero(number >= 0)[::-1]  # of labels that repeat the first is written last
    places = np.full(len(coded.dictionary) + 1, -1, np.int64)
    places[number[hits]] = hits
    found = places[coded.indices.fill_null(len(coded.dictionary)).to_numpy()]
    return pa.array(found, mask=found < 0)


def label_range(labels: pa.Array | None, wanted: slice, dim: str) -> slice:
    """Return the positions from one label to another, both taken in, of labels in ascending order.

    Raises
    ------
    LabelError
        If there are no labels, they are in no order, or ends of another type.
    """
    import pyarrow.compute as pc

    if labels is None:
        raise LabelError(f"dimension {dim!r} has no labels: index it by number")
    if wanted.step is not None:
        raise LabelError(f"a slice of labels of dimension {dim!r} has no step: take one of its positions")
    if not pc.all(pc.less(labels[:-1], labels[1:])).as_py():
        raise LabelError(f"labels of dimension {dim!r} are not in ascending order: a slice of them means nothing")
    places = [0, len(labels)]
    for k, (end, before) in enumerate(((wanted.start, pc.less), (wanted.stop, pc.less_equal))):
        if end is None:
            continue
        try:
            places[k] = pc.sum(before(*_end(labels, end))).as_py() or 0
        except (pa.ArrowException, TypeError, OverflowError):
            raise LabelError(f"labels of dimension {dim!r} are of type {labels.type}, and {end!r} is not") from None
    return slice(*places)


def _end(labels: pa.Array, end: Any) -> tuple[pa.Array, pa.Scalar]:
    """Return labels and an end of a slice of them as both of one kind."""
    kind = labels.type
    if isinstance(end, str) and pa.types.is_temporal(kind):
        return labels, _as_dates(pa.array([end]), kind)[0]
    if not isinstance(end, date | np.datetime64):
        return labels, pa.scalar(end, kind)
    ends = pa.array(np.array([end]) if isinstance(end, np.datetime64) else [end])
    labels, ends = _instants(labels, ends) if is_text(kind) else (labels, ends.cast(kind))
    return labels, ends[0]


def _as_dates(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return texts as dates or times of a kind."""
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid:
        for text in texts:
            try:
                text.cast(kind)
            except pa.ArrowInvalid:
                raise LabelError(f"labels are of type {kind}, and {text.as_py()!r} is no date") from None
        raise


def _fits(label: Any, kind: pa.DataType) -> bool:
    """Return whether a type has room for a label: 8 bits have none for 300."""
    try:
        pa.scalar(label, kind)
    except (pa.ArrowException, OverflowError):
        return False
    return True


def _python(label: Any) -> Any:
    if isinstance(label, pa.Scalar):
        return label.as_py()
    return label.item() if isinstance(label, np.generic) else label


def _arrow(wanted: Any) -> pa.Array | None:
    """Return labels as an Arrow array, or None where they are of several kinds."""
    try:
        if isinstance(wanted, pa.Array):
            found = wanted
        elif isinstance(wanted, pa.ChunkedArray) or hasattr(wanted, "__arrow_c_stream__"):
            found = pa.chunked_array(wanted).combine_chunks()
        else:
            days = isinstance(wanted, Sequence) and len(wanted) > 0 and isinstance(wanted[0], np.datetime64)
            try:
                found = pa.array(np.array(wanted) if days else wanted)
            except OverflowError:  # beyond int64
                found = pa.array(wanted, pa.uint64())
        if pa.types.is_dictionary(found.type):
            names = found.dictionary
            names = names.cast(pa.large_string()) if pa.types.is_string_view(names.type) else names
            return names.take(found.indices)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    return found


def _found(labels: pa.Array, wanted: pa.Array) -> pa.Array | None:
    """Return the coordinates of labels, null where there is none; None where the kinds cannot be compared."""
    kind = labels.type
    if not len(wanted):
        return pa.array([], pa.int64())
    if pa.types.is_temporal(kind) and is_text(wanted.type):
        wanted = _as_dates(wanted, kind)
    if pa.types.is_temporal(wanted.type) and is_text(kind):
        labels, wanted = _instants(labels, wanted)
        kind = labels.type
    if is_text(kind) != is_text(wanted.type):
        return None
    try:
        wanted = wanted.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    if len(wanted) == 1:  # one pass without a table of all labels
        at = labels.index(wanted[0]).as_py() if wanted[0].is_valid else -1
        return pa.array([at if at >= 0 else None], pa.int64())
    return first_places(wanted, labels)


def _instants(labels: pa.Array, wanted: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return texts and dates or times as both of one kind: as times, if all texts are of some."""
    zone = wanted.type.tz if pa.types.is_timestamp(wanted.type) else None
    kinds = [pa.timestamp(unit, zone) for unit in ("ns", "us")] if pa.types.is_timestamp(wanted.type) else [wanted.type]
    for kind in kinds:
        try:
            return labels.cast(kind), wanted.cast(kind)
        except pa.ArrowInvalid:
            continue
    return labels, wanted.cast(labels.type)


def repeated_label(labels: pa.Array) -> Any:
    """Return a label that comes twice, None where all differ; nulls are no labels."""
    import pyarrow.compute as pc

    labels = labels.drop_null()
    if len(labels.unique()) == len(labels):
        return None
    counts = pc.value_counts(labels)
    return counts.field("values")[pc.index(pc.greater(counts.field("counts"), 1), True)].as_py()


def is_text(kind: pa.DataType) -> bool:
    """Return whether labels of a type are texts."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
