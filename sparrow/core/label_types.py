"""Types of labels: conversion to Arrow, casts and comparison without loss."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.core.array_validation import check_arrow
from sparrow.errors import InvalidValueError, LabelError, ShapeError, UnsupportedError

__all__ = [
    "cast_exactly", "check_labels", "has_time_zone", "is_label_type", "is_string_type", "is_time_type",
    "tick_nanoseconds", "time_ticks", "to_label_array", "unify_label_types",
]  # fmt: skip

_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_DAY = 86_400 * 10**9
_INT64_MAX = 2**63 - 1


def is_string_type(kind: pa.DataType) -> bool:
    """Return whether an Arrow type is a string type."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_time_type(kind: pa.DataType) -> bool:
    """Return whether an Arrow type is one of dates or timestamps."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def has_time_zone(kind: pa.DataType) -> bool:
    """Return whether an Arrow type is one of timestamps with a time zone."""
    return bool(pa.types.is_timestamp(kind) and kind.tz is not None)


def is_label_type(kind: pa.DataType) -> bool:
    """Return whether labels can have an Arrow type."""
    return bool(is_string_type(kind) or pa.types.is_integer(kind) or is_time_type(kind))


def tick_nanoseconds(kind: pa.DataType) -> int:
    """Return the nanoseconds of a tick of a date or timestamp type."""
    if pa.types.is_date32(kind):
        return _DAY
    return _NANOSECONDS["ms" if pa.types.is_date64(kind) else kind.unit]


def time_ticks(array: pa.Array) -> NDArray[np.int64]:
    """Return dates or timestamps as ticks since 1970, int64; 0 for null."""
    stored = pa.int32() if pa.types.is_date32(array.type) else pa.int64()
    ticks: NDArray[np.int64] = array.cast(stored).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return ticks


def to_label_array(values: Any) -> pa.Array | None:
    """Return labels as an Arrow array, or None if their types are mixed.

    Nothing is cut: dates beside times, and times with and without a zone, are mixed.

    Parameters
    ----------
    values
        Sequence, NumPy, pandas or Arrow array, or an object with ``__arrow_c_stream__``.
    """
    try:
        if isinstance(values, pa.Array):
            found = values
        elif isinstance(values, pa.ChunkedArray) or hasattr(values, "__arrow_c_stream__"):
            found = pa.chunked_array(values)
        elif isinstance(values, np.ndarray) and values.dtype.kind == "M":
            return _from_datetime64(values)
        else:
            return _from_sequence(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    found = check_arrow(found, "labels")
    found = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    if pa.types.is_dictionary(found.type):
        names = found.dictionary
        names = names.cast(pa.large_string()) if pa.types.is_string_view(names.type) else names
        return names.take(found.indices)
    return found


def check_labels(labels: Any, dim: str, size: int | None = None) -> pa.Array:
    """Return labels along a dimension as an Arrow array.

    Raises
    ------
    ShapeError
        If their number differs from ``size``.
    InvalidValueError
        If one is repeated or null.
    UnsupportedError
        If they are not texts, integers or dates.
    """
    import pyarrow.compute as pc

    given = labels if hasattr(labels, "__len__") else list(labels)
    found = to_label_array(given)
    if found is None:
        kinds = ", ".join(sorted({type(label).__name__ for label in given}))
        raise UnsupportedError(f"labels of dimension {dim!r} must be texts, integers or dates of one type, got {kinds}")
    if not len(found) and pa.types.is_null(found.type):
        found = found.cast(pa.string())
    if pa.types.is_string_view(found.type):  # Arrow neither counts nor looks up any
        found = found.cast(pa.large_string())
    if len(found) and not is_label_type(found.type):
        raise UnsupportedError(f"labels of dimension {dim!r} must be texts, integers or dates, got {found.type}")
    if size is not None and len(found) != size:
        raise ShapeError(f"dimension {dim!r} of size {size} needs {size} labels, got {len(found)}")
    if found.null_count or pc.count_distinct(found).as_py() != len(found):
        raise InvalidValueError(f"labels of dimension {dim!r} must be distinct and not null")
    return found


def _from_sequence(values: Any) -> pa.Array | None:
    """Return Python objects as an Arrow array, or None if their types are mixed."""
    if getattr(getattr(values, "dtype", None), "kind", "O") != "O":  # a typed array, of NumPy or pandas
        found = pa.array(values)
        return found.dictionary_decode() if pa.types.is_dictionary(found.type) else found
    values = values if isinstance(values, list | tuple) else list(values)
    kinds = set(map(type, values)) - {type(None)}
    times = {kind for kind in kinds if issubclass(kind, date | np.datetime64)}
    if not times:
        try:
            return pa.array(values)
        except OverflowError:  # beyond int64
            return pa.array(values, pa.uint64())
    if times < kinds:
        return None
    if all(issubclass(kind, np.datetime64) for kind in times):
        return _from_datetime64(np.array(values, "M8"))
    stamps = [value for value in values if isinstance(value, datetime)]
    if not stamps:
        return pa.array(values, pa.date32())
    if len(stamps) < sum(value is not None for value in values) or len({v.tzinfo is None for v in stamps}) > 1:
        return None
    found = pa.array(values)
    rest = [getattr(value, "nanosecond", 0) for value in values]  # pandas' times have nanoseconds, which Arrow cuts
    if not any(rest):
        return found
    wide = cast_exactly(found, pa.timestamp("ns", found.type.tz))
    exact = pa.array(time_ticks(wide) + np.array(rest), mask=np.asarray(wide.is_null()))
    return None if wide.null_count > found.null_count else exact.cast(wide.type)


def _from_datetime64(values: NDArray[Any]) -> pa.Array | None:
    """Return NumPy's dates and times of any unit as an Arrow array, or None."""
    unit = np.datetime_data(values.dtype)[0]
    if unit not in ("D", *_NANOSECONDS):
        wider = np.dtype(f"M8[{'D' if unit in 'YMW' else 's' if unit in ('h', 'm') else 'ns'}]")
        cast = values.astype(wider)
        if not np.array_equal(cast.astype(values.dtype), values, equal_nan=True):  # beyond the range, or finer
            return None
        values = cast
    elif np.datetime_data(values.dtype)[1] != 1:
        values = values.astype(f"M8[{unit}]")
    return pa.array(values)


def cast_exactly(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return labels in another type; null for those that it cannot represent.

    Dates are midnights. A time with a zone is never one without.

    Raises
    ------
    pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError
        If Arrow has no such cast, or a text is not of the type.
    """
    own = array.type
    if own == kind:
        return array
    if is_time_type(own) and is_time_type(kind):
        return _cast_times(array, kind)
    if pa.types.is_integer(own) and pa.types.is_integer(kind):
        dtype = np.dtype(kind.to_pandas_dtype())
        values = array.fill_null(0).to_numpy(zero_copy_only=False)
        fits = (values >= np.iinfo(dtype).min) & (values <= np.iinfo(dtype).max)
        return pa.array(values.astype(dtype), mask=~fits | np.asarray(array.is_null()))
    return array.cast(kind)


def _cast_times(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if has_time_zone(array.type) != has_time_zone(kind):
        return pa.nulls(len(array), kind)
    ticks, mine, wanted = time_ticks(array), tick_nanoseconds(array.type), tick_nanoseconds(kind)
    if mine >= wanted:
        factor = mine // wanted
        fits = (ticks >= -(_INT64_MAX // factor)) & (ticks <= _INT64_MAX // factor)
        ticks = np.where(fits, ticks, 0) * factor
    else:
        ticks, rest = np.divmod(ticks, wanted // mine)
        fits = rest == 0
    stored = np.int64
    if pa.types.is_date32(kind):
        stored = np.int32  # type: ignore[assignment]
        fits &= (ticks >= np.iinfo(stored).min) & (ticks <= np.iinfo(stored).max)
    elif pa.types.is_date64(kind):
        fits &= ticks % (_DAY // wanted) == 0
    return pa.array(ticks.astype(stored), mask=~fits | np.asarray(array.is_null())).cast(kind)


def unify_label_types(arrays: Sequence[pa.Array], what: str) -> list[pa.Array]:
    """Return labels cast to one type without loss; an empty array takes any type.

    Raises
    ------
    LabelError
        If text would be compared with numbers, either with dates, or times with a zone with times without one; or if
        no type represents all.
    """
    some = next((array.type for array in arrays if len(array)), arrays[0].type)
    arrays = [array if len(array) else pa.array([], some) for array in arrays]
    types = {array.type for array in arrays}
    if len(types) == 1:
        return list(arrays)
    names = " and ".join(sorted(map(str, types)))
    if all(is_string_type(each.value_type if pa.types.is_dictionary(each) else each) for each in types):
        return [array.cast(pa.large_string()) for array in arrays]
    if all(map(pa.types.is_integer, types)):
        candidates = [pa.int64(), pa.uint64()]
    elif all(map(is_time_type, types)):
        if len(set(map(has_time_zone, types))) > 1:
            raise LabelError(
                f"labels of {what} are {names}: times with and without a time zone are never equal, give both a zone "
                "or neither"
            )
        zone = next((array.type.tz for array in arrays if has_time_zone(array.type)), None)
        finest = min(map(tick_nanoseconds, types))
        units = ["ns", "us", "ms", "s"]
        candidates = [
            pa.timestamp(unit, zone) for unit in units if _NANOSECONDS[unit] >= min(finest, _NANOSECONDS["s"])
        ]
        candidates = [pa.date32(), *candidates] if all(map(pa.types.is_date, types)) else candidates
    else:
        raise LabelError(f"labels of {what} are {names}, which are never equal: cast them")
    for kind in candidates:
        found = [cast_exactly(array, kind) for array in arrays]
        if all(new.null_count == old.null_count for new, old in zip(found, arrays, strict=True)):
            return found
    raise LabelError(f"labels of {what} are {names}, and no type represents all of them: cast them")
