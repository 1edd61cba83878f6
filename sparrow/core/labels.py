"""Label look-up: coordinates of the labels of a dimension."""

from __future__ import annotations

import math
from collections.abc import Set as AbstractSet
from collections.abc import Sized
from datetime import date
from numbers import Number
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.core.label_types import (
    cast_exactly,
    has_time_zone,
    is_string_type,
    is_time_type,
    tick_nanoseconds,
    time_ticks,
    to_label_array,
)
from sparrow.core.tuning import tuning
from sparrow.errors import LabelError
from sparrow.runtime import settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.runtime.validation import check_unmasked

__all__ = [
    "check_found_once", "describe_mismatch", "find_duplicate_label", "find_labels", "first_positions", "label_position",
    "label_positions", "label_range",
]  # fmt: skip


def label_position(labels: pa.Array | None, label: Any, dim: str) -> int:
    """Return the coordinate of one label; see :func:`label_positions`."""
    return int(label_positions(labels, [label[()] if isinstance(label, np.ndarray) else label], dim)[0])


def label_positions(labels: pa.Array | None, wanted: Any, dim: str) -> NDArray[np.int64]:
    """Return the coordinates of several labels, shape (n,), int64.

    Parameters
    ----------
    labels
        Labels of the dimension, or None.
    wanted
        List, NumPy or Arrow array, series or set of labels; coordinates of a set are sorted. Dates match their ISO
        text and vice versa.
    dim
        Name of the dimension, for error messages.

    Raises
    ------
    LabelError
        If the dimension has no labels, a label is missing or occurs more than once, or a string is not a date where
        labels are dates.
    """
    if labels is None:
        raise _no_labels(dim)
    check_unmasked(wanted, "labels")
    unordered = isinstance(wanted, AbstractSet)
    values: Any = wanted if isinstance(wanted, Sized) and not unordered else list(wanted)
    found = find_labels(labels, values)
    if found.null_count:
        missing = np.flatnonzero(found.is_null().to_numpy(zero_copy_only=False))
        limit = tuning().reported_labels
        names = ", ".join(repr(_to_python(values[int(k)])) for k in missing[:limit])
        more = f" and {len(missing) - limit} more" if len(missing) > limit else ""
        raise LabelError(
            f"dimension {dim!r} has no label{'s' * (len(missing) > 1)} {names}{more}"
            f"{_hint(labels, values, values[int(missing[0])])}"
        )
    positions: NDArray[np.int64] = found.to_numpy(zero_copy_only=False).astype(np.int64)
    check_found_once(labels, positions, dim)
    return np.sort(positions) if unordered else positions


def check_found_once(labels: pa.Array, positions: NDArray[np.int64], dim: str, way: str = "") -> None:
    """Raise ``LabelError`` if a label that was looked up occurs more than once.

    Parameters
    ----------
    labels
        Labels of the dimension.
    positions
        First position of each label that was looked up.
    dim
        Name of the dimension, for error messages.
    way
        Way out; by default a selection of these positions.
    """
    import pyarrow.compute as pc

    if len(positions) == 1:  # a linear scan, as in the look-up
        at = int(positions[0])
        if labels.slice(at + 1).index(labels[at]).as_py() < 0:
            return
        twice = labels[at]
    else:
        distinct = np.unique(positions)
        found = np.flatnonzero(pc.is_in(labels, value_set=labels.take(pa.array(distinct))))
        if len(found) == len(distinct):
            return
        twice = labels[int(np.setdiff1d(found, distinct)[0])]
    places = np.flatnonzero(pc.equal(labels, twice).fill_null(False))
    shown = f", A.isel({{{dim!r}: {places.tolist()}}})" if len(places) <= tuning().reported_labels else " with isel()"
    way = way or f"select by position{shown}"
    raise LabelError(f"label {twice.as_py()!r} occurs {len(places)} times along dimension {dim!r}: {way}")


def _no_labels(dim: str) -> LabelError:
    return LabelError(f"dimension {dim!r} has no labels: index it by position")


def first_positions(wanted: pa.Array, among: pa.Array) -> pa.Array:
    """Return the first position of each wanted label in an array of the same type.

    The position of a null or missing label is null. The hash table is built from the smaller side.
    """
    import pyarrow.compute as pc

    if 4 * len(wanted) > len(among):
        return pc.index_in(wanted, value_set=among, skip_nulls=True)
    coded = wanted.dictionary_encode()
    chunk = tuning().label_chunk_rows

    def encode(start: int) -> NDArray[np.int32]:
        found = pc.index_in(among.slice(start, chunk), value_set=coded.dictionary, skip_nulls=True)
        out: NDArray[np.int32] = found.fill_null(-1).to_numpy()
        return out

    starts = range(0, max(len(among), 1), chunk)
    codes = np.concatenate(list(ordered_map(encode, starts, settings.current().threads if len(starts) > 1 else 1)))
    hits = np.flatnonzero(codes >= 0)[::-1]  # reversed: the first of repeated labels is written last
    positions = np.full(len(coded.dictionary) + 1, -1, np.int64)
    positions[codes[hits]] = hits
    found = positions[coded.indices.fill_null(len(coded.dictionary)).to_numpy()]
    return pa.array(found, mask=found < 0)


def label_range(labels: pa.Array | None, wanted: slice, dim: str) -> slice:
    """Return the positions between two labels of sorted labels, both included.

    Raises
    ------
    LabelError
        If there are no labels, they are not ascending, the slice has a step, or a bound has a different type. Equal
        labels may follow one another.
    """
    import pyarrow.compute as pc

    if labels is None:
        raise _no_labels(dim)
    if wanted.step is not None:
        raise LabelError(f"a label slice of dimension {dim!r} cannot have a step, got {wanted.step!r}: slice positions")
    if not pc.all(pc.less_equal(labels[:-1], labels[1:]), min_count=0).as_py():
        raise LabelError(
            f"labels of dimension {dim!r} must be ascending to be sliced: slice "
            f"A.sel({{{dim!r}: sorted(A.labels({dim!r}).to_pylist())}}) for a tensor A, or index by position"
        )
    bounds = [0, len(labels)]
    for k, bound in enumerate((wanted.start, wanted.stop)):
        if bound is None:
            continue
        try:
            bounds[k] = _compare_bound(labels, bound, inclusive=bool(k))
        except (pa.ArrowException, TypeError, OverflowError):
            raise LabelError(
                f"bound of a label slice of dimension {dim!r} must be of type {labels.type}, got {bound!r}"
            ) from None
    return slice(*bounds)


def _compare_bound(labels: pa.Array, bound: Any, inclusive: bool) -> int:
    """Return the number of labels below a bound, or up to it if ``inclusive``."""
    import pyarrow.compute as pc

    kind = labels.type
    if isinstance(bound, str) and is_time_type(kind):
        bound = _parse_dates(pa.array([bound]), kind)
    if isinstance(bound, date | np.datetime64 | pa.Array):
        bounds = bound if isinstance(bound, pa.Array) else to_label_array([bound])
        if bounds is None or not is_time_type(bounds.type):
            raise TypeError
        if is_string_type(kind):
            labels, bounds = _cast_temporal(labels, bounds)
            kind = labels.type
        if is_time_type(kind):
            if has_time_zone(kind) != has_time_zone(bounds.type):
                raise TypeError
            tick, rest = divmod(int(time_ticks(bounds)[0]) * tick_nanoseconds(bounds.type), tick_nanoseconds(kind))
            ticks = time_ticks(labels)
            return int(np.count_nonzero(ticks <= tick if inclusive or rest else ticks < tick))
        bound = bounds[0]
    number: Any = bound.as_py() if isinstance(bound, pa.Scalar) else bound
    if isinstance(bound := number, Number):
        bound = _round_bound(number, kind, inclusive)
        if bound is None:
            return len(labels) if number > 0 else 0
    return int(pc.sum((pc.less_equal if inclusive else pc.less)(labels, pa.scalar(bound, kind))).as_py() or 0)


def _round_bound(number: Any, kind: pa.DataType, inclusive: bool) -> int | None:
    """Return a bound of integer labels as one of them; None if out of their range."""
    if not pa.types.is_integer(kind) or isinstance(number, bool) or np.isnan(float(number)):
        raise TypeError
    limits = np.iinfo(kind.to_pandas_dtype())
    if not limits.min <= number <= limits.max:
        return None
    rounded: int = math.floor(number) if inclusive else math.ceil(number)
    return rounded


def _parse_dates(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Parse strings as dates or times; ``LabelError`` names the first invalid one."""
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid:
        for text in texts:
            try:
                text.cast(kind)
            except pa.ArrowInvalid:
                raise LabelError(f"label must be a date or time of type {kind}, got {text.as_py()!r}") from None
        raise


def _to_python(label: Any) -> Any:
    if isinstance(label, pa.Scalar):
        return label.as_py()
    is_number = isinstance(label, np.generic) and not isinstance(label, np.datetime64)  # whose item() may be a number
    return label.item() if is_number else label


def find_labels(labels: pa.Array, values: Any) -> pa.Array:
    """Return the coordinates of values, null for missing labels; types may be mixed."""
    as_array = to_label_array(values)
    if as_array is not None and (found := _find(labels, as_array)) is not None:
        return found
    kinds: dict[Any, list[int]] = {}  # types are mixed, or differ from that of the labels
    for k, value in enumerate(values):
        width = (value >= 2**63) + (not -(2**63) <= value < 2**64) if isinstance(value, int) else 0
        kinds.setdefault((type(value), getattr(value, "tzinfo", None) is None, width), []).append(k)
    positions = np.full(len(values), -1, np.int64)
    for places in kinds.values():
        same = to_label_array([_to_python(values[k]) for k in places])
        if same is not None and (known := _find(labels, same)) is not None:
            positions[places] = known.fill_null(-1).to_numpy(zero_copy_only=False)
    return pa.array(positions, mask=positions < 0)


def describe_mismatch(labels: pa.Array, value: Any) -> str:
    """Return a hint where a number is missing among texts, or a text among numbers.

    Parameters
    ----------
    labels
        Labels that exist.
    value
        Label that is missing among them.

    Returns
    -------
    str
        Continues an error message; empty if the types agree, or the texts are no numbers.
    """
    value, kind = _to_python(value), labels.type
    other: Any
    if isinstance(value, int | float) and is_string_type(kind):
        what, other = "texts", str(value)
    elif isinstance(value, str) and pa.types.is_integer(kind):
        what, other = "integers", int(value) if value.strip().lstrip("+-").isdecimal() and len(value) < 20 else None
    else:
        return ""
    if other is not None and find_labels(labels, [other]).null_count == 0:
        return f": labels are {what}, use {other!r}"
    example = labels[0].as_py() if len(labels) else None
    is_alike = isinstance(example, int) or (isinstance(example, str) and example.isdecimal())
    return f": labels are {what}, such as {example!r}" if is_alike else ""


def _hint(labels: pa.Array, values: Any, missing: Any) -> str:
    """Return a hint where labels and values differ in type or time zone."""
    if mismatch := describe_mismatch(labels, missing):
        return mismatch
    given = to_label_array(values)
    if given is None or not (is_time_type(given.type) and is_time_type(labels.type)):
        return ""
    if has_time_zone(given.type) == has_time_zone(labels.type):
        return ""
    return f": its labels are {labels.type}, times with and without a time zone are never equal"


def _find(labels: pa.Array, wanted: pa.Array) -> pa.Array | None:
    """Return coordinates, null for missing labels; None if types are not comparable."""
    kind = labels.type
    if not len(wanted):
        return pa.array([], pa.int64())
    if is_time_type(kind) and is_string_type(wanted.type):
        wanted = _parse_dates(wanted, kind)
    if is_time_type(wanted.type) and is_string_type(kind):
        labels, wanted = _cast_temporal(labels, wanted)
        kind = labels.type
    if is_string_type(kind) != is_string_type(wanted.type) or is_time_type(kind) != is_time_type(wanted.type):
        return None
    try:
        wanted = cast_exactly(wanted, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    if len(wanted) == 1:  # a linear scan is faster than a hash table of all labels
        at = labels.index(wanted[0]).as_py() if wanted[0].is_valid else -1
        return pa.array([at if at >= 0 else None], pa.int64())
    return first_positions(wanted, labels)


def _cast_temporal(labels: pa.Array, wanted: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Cast string labels to the type of dates; otherwise cast dates to strings."""
    zone = wanted.type.tz if pa.types.is_timestamp(wanted.type) else None
    kinds = [pa.timestamp(unit, zone) for unit in ("ns", "us")] if pa.types.is_timestamp(wanted.type) else [wanted.type]
    for kind in kinds:
        try:
            return labels.cast(kind), wanted.cast(kind)
        except pa.ArrowInvalid:
            continue
    return labels, wanted.cast(labels.type)


def find_duplicate_label(labels: pa.Array) -> Any:
    """Return a label that occurs more than once, or None. Nulls are ignored."""
    import pyarrow.compute as pc

    labels = labels.drop_null()
    if len(labels.unique()) == len(labels):
        return None
    counts = pc.value_counts(labels)
    return counts.field("values")[pc.index(pc.greater(counts.field("counts"), 1), True)].as_py()
