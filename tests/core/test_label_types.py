"""Types of labels: times of any resolution are compared exactly."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import sparrow as sp
from sparrow.core.label_types import cast_exactly, to_label_array, unify_label_types
from sparrow.core.labels import label_position, label_positions, label_range
from sparrow.errors import InvalidValueError, LabelError, UnsupportedError

NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
DAY = 86_400 * 10**9
EPOCH = 1_577_836_800 * 10**9
"""2020-01-01, in nanoseconds since 1970."""

KINDS = [
    pa.date32(),
    pa.date64(),
    *(pa.timestamp(unit, zone) for unit in NS for zone in (None, "Europe/Berlin", "UTC")),
]
OFFSETS = st.sampled_from([0, 1, 500, 10**3, 10**6, 5 * 10**8, 10**9, 43_200 * 10**9, DAY, -1, -DAY, 40 * DAY + 1])


def tick(kind: pa.DataType) -> int:
    return DAY if pa.types.is_date(kind) else NS[kind.unit]


def zone_of(kind: pa.DataType) -> str | None:
    return None if pa.types.is_date(kind) else kind.tz


def make_array(instants: list[int], kind: pa.DataType) -> pa.Array:
    """Return instants in nanoseconds since 1970 as an Arrow array."""
    ticks = [instant // tick(kind) * (86_400_000 if pa.types.is_date64(kind) else 1) for instant in instants]
    return pa.array(ticks, pa.int32() if pa.types.is_date32(kind) else pa.int64()).cast(kind)


def representable(kind: pa.DataType) -> st.SearchStrategy[list[int]]:
    rounded = OFFSETS.map(lambda offset: (EPOCH + offset) // tick(kind) * tick(kind))
    return st.lists(rounded, min_size=1, max_size=6, unique=True)


@st.composite
def times(draw: st.DrawFn) -> tuple[list[int], pa.Array]:
    kind = draw(st.sampled_from(KINDS))
    instants = draw(representable(kind))
    return instants, make_array(instants, kind)


def as_pandas(array: pa.Array) -> Any:
    return pytest.importorskip("pandas").Series(array.to_pandas())


FORMS: dict[str, Callable[[pa.Array], Any]] = {
    "arrow": lambda array: array,
    "chunked": lambda array: pa.chunked_array([array[:1], array[1:]]),
    "dictionary": lambda array: array.dictionary_encode(),
    "objects": lambda array: array.to_pylist(),
    "scalars": list,
    "numpy": lambda array: array.to_numpy(zero_copy_only=False) if zone_of(array.type) is None else array,
    "series": as_pandas,
    "timestamps": lambda array: as_pandas(array).tolist(),
    "array of objects": lambda array: np.array([*as_pandas(array).tolist(), None], object)[:-1],
}


@given(times(), times(), st.sampled_from(sorted(FORMS)))
def test_times_are_found_exactly(labels: Any, wanted: Any, form: str) -> None:
    (instants, array), (others, given_array) = labels, wanted
    aware = zone_of(array.type) is not None, zone_of(given_array.type) is not None
    assume(form != "series" or not pa.types.is_date(given_array.type))  # objects, as in the form "timestamps"
    expected = [instants.index(one) if one in instants and aware[0] == aware[1] else -1 for one in others]
    queries = FORMS[form](given_array)
    if -1 not in expected:
        assert label_positions(array, queries, "t").tolist() == expected
    else:
        with pytest.raises(LabelError, match="dimension 't' has no label"):
            label_positions(array, queries, "t")
    for one, at in zip(FORMS["timestamps"](given_array), expected, strict=True):
        if at >= 0:
            assert label_position(array, one, "t") == at
        else:
            with pytest.raises(LabelError, match="dimension 't' has no label"):
                label_position(array, one, "t")


@given(times(), times())
def test_slices_compare_exactly(labels: Any, bounds: Any) -> None:
    instants, array = sorted(labels[0]), labels[1].take(pa.array(np.argsort(labels[0])))
    for instant, bound in zip(bounds[0], FORMS["timestamps"](bounds[1]), strict=True):
        if (zone_of(array.type) is None) != (zone_of(bounds[1].type) is None):
            with pytest.raises(LabelError, match="bound of a label slice"):
                label_range(array, slice(bound, None), "t")
            continue
        below, within = sum(one < instant for one in instants), sum(one <= instant for one in instants)
        assert label_range(array, slice(bound, None), "t") == slice(below, len(instants))
        assert label_range(array, slice(None, bound), "t") == slice(0, within)


@given(times(), times())
def test_times_align_exactly(mine: Any, theirs: Any) -> None:
    (instants, array), (others, other_array) = mine, theirs
    a, b = (
        sp.from_coords([np.arange(len(each))], np.arange(1.0, 1 + len(each)), dims=["t"], labels={"t": each})
        for each in (array, other_array)
    )
    if (zone_of(array.type) is None) != (zone_of(other_array.type) is None):
        for combine in (lambda: a + b, lambda: a * b, lambda: a.compute().append(b, duplicates="sum")):
            with pytest.raises(LabelError, match="with and without a time zone are never equal"):
                combine()
        return
    values = dict(zip(instants, a.to_numpy(), strict=True)), dict(zip(others, b.to_numpy(), strict=True))
    total = (a + b).compute()
    wanted = [values[0].get(one, 0) + values[1].get(one, 0) for one in sorted({*instants, *others})]
    assert instants == others or total.to_numpy().tolist() == wanted
    assert (a * b).sum() == sum(values[0][one] * values[1].get(one, 0) for one in instants)
    grown = a.compute()
    if any(one not in instants and one % tick(array.type) for one in others):
        with pytest.raises(LabelError, match="cannot represent"):
            grown.append(b, duplicates="sum")
        assert grown.shape == a.shape
    else:
        grown.append(b, duplicates="sum")
        assert sorted(grown.to_numpy().tolist()) == sorted(wanted)


def test_times_without_a_common_type_raise() -> None:
    nanoseconds = pa.array([1, EPOCH], pa.int64()).cast(pa.timestamp("ns"))
    old = pa.array([dt.date(1500, 1, 1)])
    with pytest.raises(
        LabelError, match=r"labels of both are date32\[day\] and timestamp\[ns\], and no type represents"
    ):
        unify_label_types([nanoseconds, old], "both")
    assert [one.type for one in unify_label_types([nanoseconds[1:], old], "both")] == [pa.timestamp("us")] * 2


NUMBERS = st.lists(
    st.sampled_from([0, 1, -1, 127, -128, 255, 2**31, 2**63 - 1, -(2**63), 2**63, 2**64 - 1]), unique=True
)


@given(NUMBERS, NUMBERS)
def test_wide_integers_are_found_and_align(mine: list[int], theirs: list[int]) -> None:
    arrays = [to_label_array(numbers) for numbers in (mine, theirs)]
    for numbers, array in zip((mine, theirs), arrays, strict=True):
        assert (array is None) == (any(one >= 2**63 for one in numbers) and any(one < 0 for one in numbers))
    array = arrays[0]
    if array is None or not mine:
        return
    for one in theirs:
        if one in mine:
            assert label_position(array, one, "n") == mine.index(one)
        else:
            with pytest.raises(LabelError, match="no label"):
                label_position(array, one, "n")
    if arrays[1] is None or not theirs:
        return
    both = {*mine, *theirs}
    if any(one >= 2**63 for one in both) and any(one < 0 for one in both):
        with pytest.raises(LabelError, match="no type represents all of them"):
            unify_label_types([array, arrays[1]], "both")
    else:
        assert [one.to_pylist() for one in unify_label_types([array, arrays[1]], "both")] == [mine, theirs]


@pytest.mark.parametrize(
    ("labels", "error"),
    [
        ([dt.date(2020, 1, 1), dt.datetime(2020, 1, 2, 12)], UnsupportedError),
        ([dt.datetime(2020, 1, 1, 12), dt.date(2020, 1, 1)], UnsupportedError),
        ([dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 2, tzinfo=dt.UTC)], UnsupportedError),
        ([dt.datetime(2020, 1, 1), "2020-01-02"], UnsupportedError),
        (np.array([dt.date(2020, 1, 1), dt.datetime(2020, 1, 2)], object), UnsupportedError),
        ([2**64, 1], UnsupportedError),
        ([-1, 2**63], UnsupportedError),
        (np.array(["2020-01-01T00:00:00.0000000005", "2020-01-02"], "M8[ps]"), UnsupportedError),
        (np.array(["NaT", "2020-01-01"], "M8[ns]"), InvalidValueError),
        ([0.5, 1.5], UnsupportedError),
        ([dt.timedelta(1), dt.timedelta(2)], UnsupportedError),
    ],
)
def test_labels_of_mixed_or_other_types_raise(labels: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="labels of dimension 't'"):
        sp.from_coords([[0, 1]], [1.0, 2.0], dims=["t"], labels={"t": labels})


def test_units_of_numpy_and_zones_become_labels() -> None:
    for unit, kind in (("Y", "date32[day]"), ("M", "date32[day]"), ("h", "timestamp[s]"), ("10us", "timestamp[us]")):
        found = to_label_array(np.array([3, 7], f"M8[{unit}]"))
        assert found is not None
        assert str(found.type) == kind
        assert found.to_numpy(zero_copy_only=False).astype(f"M8[{unit}]").astype(int).tolist() == [3, 7]
    berlin = [dt.datetime(2020, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=fold) for fold in (0, 1)]
    found = to_label_array(berlin)
    assert found is not None
    assert label_positions(found, berlin[::-1], "t").tolist() == [1, 0]  # the hour that occurs twice
    assert cast_exactly(pa.array(berlin), pa.timestamp("us")).null_count == 2
