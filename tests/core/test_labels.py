"""Label look-up."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow.core.labels import first_positions, label_position, label_positions, label_range
from sparrow.errors import LabelError


def test_label_position() -> None:
    names = pa.array(["a", "b"])
    assert label_position(names, "b", "src") == 1
    for labels, label in [(names, "c"), (names, 3), (None, "a")]:
        with pytest.raises(LabelError, match="'src'"):
            label_position(labels, label, "src")


@pytest.mark.parametrize(
    "sequence",
    [
        list,
        tuple,
        iter,
        np.array,
        pa.array,
        pl.Series,
        lambda names: np.array(names, object),
        lambda names: pa.chunked_array([names[:1], names[1:]]),
        lambda names: pa.array(names).dictionary_encode(),
        lambda names: pl.Series(names, dtype=pl.Categorical),
        lambda names: pa.array(names, pa.large_string()),
    ],
)
def test_label_positions_of_sequences(sequence: Any) -> None:
    labels = pa.array([f"{k:03}" for k in range(100)])
    names = ["042", "007", "042", "099"]
    assert label_positions(labels, sequence(names), "src").tolist() == [42, 7, 42, 99]
    assert label_positions(labels, sequence(names[:1]), "src").tolist() == [42]
    with pytest.raises(LabelError, match=r"'src' has no labels 'a', 'b'$"):
        label_positions(labels, sequence(["042", "a", "b"]), "src")
    with pytest.raises(LabelError, match=r"'src' has no labels 'a0', 'a1', 'a2', 'a3', 'a4' and 7 more$"):
        label_positions(labels, sequence([f"a{k}" for k in range(12)]), "src")


def test_label_positions_of_sets_and_mixed_types() -> None:
    labels = pa.array(["c", "a", "b"])
    assert label_positions(labels, {"b", "c"}, "src").tolist() == [0, 2]
    assert label_positions(labels, [], "src").tolist() == label_positions(labels, set(), "src").tolist() == []
    for wanted, text in ([["a", 3], "3"], [[None, "a"], "None"], [["a", b"b"], "b'b'"], [[1.5], "1.5"]):
        with pytest.raises(LabelError, match=f"no label {text}$"):
            label_positions(labels, wanted, "src")
    numbers = pa.array([10, 20, 30])
    assert label_positions(numbers, np.array([30, 10], np.int8), "src").tolist() == [2, 0]
    with pytest.raises(LabelError, match="no label '30'"):
        label_positions(numbers, ["30"], "src")


@pytest.mark.parametrize("kind", [pa.int8(), pa.int64(), pa.uint64()])
def test_labels_out_of_range_are_missing(kind: pa.DataType) -> None:
    labels = pa.array([10, 20], kind)
    for wanted in (2**70, -(2**70), 2**64, -(2**63) - 1, -300 if kind == pa.uint64() else -(2**63)):
        with pytest.raises(LabelError, match=f"dimension 'a' has no label {wanted}$"):
            label_position(labels, wanted, "a")
        with pytest.raises(LabelError, match=f"dimension 'a' has no label {wanted}$"):
            label_positions(labels, [10, wanted, 20], "a")
    assert label_range(labels, slice(10, 2**70), "a") == label_range(labels, slice(-(2**70), None), "a") == slice(0, 2)


@given(
    values=st.sets(st.integers(-4, 4)),
    bounds=st.tuples(*[st.one_of(st.integers(-400, 400), st.integers(-20, 20).map(lambda k: k / 4))] * 2),
    kind=st.sampled_from([float, Decimal, Fraction]),
)
def test_bounds_of_integer_labels_are_compared(values: set[int], bounds: Any, kind: Any) -> None:
    low, high = (kind(bound) if isinstance(bound, float) else bound for bound in bounds)
    labels = sorted(values)
    found = label_range(pa.array(labels, pa.int8()), slice(low, high), "t")
    assert labels[found] == [label for label in labels if low <= label <= high]


@pytest.mark.parametrize("bound", [float("nan"), True, "1"])
def test_bounds_of_other_types_raise(bound: Any) -> None:
    with pytest.raises(LabelError, match="bound of a label slice of dimension 't' must be of type int64"):
        label_range(pa.array([1, 2]), slice(None, bound), "t")
    with pytest.raises(LabelError, match=r"bound of a label slice of dimension 't' must be of type date32"):
        label_range(pa.array([dt.date(2020, 1, 1)]), slice(18262.5, None), "t")


def test_dates_match_strings() -> None:
    days = [dt.date(2020, 1, day) for day in (1, 2, 3)]
    for labels in pa.array(days), pa.array(list(map(str, days))):
        for wanted in days[1:], np.array(days[1:], "M8[D]"), np.array(days[1:], "M8[ns]"), pl.Series(days[1:]):
            assert label_positions(labels, wanted, "day").tolist() == [1, 2]
        assert label_position(labels, days[2], "day") == 2
        assert label_position(labels, np.datetime64("2020-01-02"), "day") == 1
        with pytest.raises(LabelError, match=r"no label datetime\.date\(2021, 1, 1\)"):
            label_positions(labels, [days[0], dt.date(2021, 1, 1)], "day")
    times = pa.array(["2020-01-01 05:06:07.000000", "2020-01-01 05:06:08.500000"])
    assert label_positions(times, [dt.datetime(2020, 1, 1, 5, 6, 8, 500000)], "time").tolist() == [1]
    assert label_positions(times, np.array(["2020-01-01T05:06:07"], "M8[s]"), "time").tolist() == [0]
    assert label_position(pa.array(["total", "2020-01-01"]), days[0], "day") == 1


def test_label_positions_use_one_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"row {k}" for k in range(20_000)]
    calls = []
    index_in = pc.index_in

    def count_call(*args: Any, **options: Any) -> Any:
        calls.append(args)
        return index_in(*args, **options)

    monkeypatch.setattr(pc, "index_in", count_call)
    assert label_positions(pa.array(names), names[::-2], "src").tolist() == list(range(19_999, -1, -2))
    assert len(calls) == 1


@given(
    st.lists(st.one_of(st.none(), st.sampled_from("abcdefgh")), max_size=40),
    st.lists(st.one_of(st.none(), st.sampled_from("abcdefgh")), max_size=40),
)
def test_first_positions_equal_list_index(wanted: list[str | None], among: list[str | None]) -> None:
    found = first_positions(pa.array(wanted, pa.string()), pa.array(among, pa.string()))
    assert found.to_pylist() == [None if one is None or one not in among else among.index(one) for one in wanted]


TYPED = [
    (["0", "1", "10"], 10, "has no label 10: labels are texts, use '10'"),
    (["0", "1", "10"], np.int64(6), "has no label 6: labels are texts, such as '0'"),
    (["0", "1", "10"], ["1", 10], "has no label 10: labels are texts, use '10'"),
    ([3, 5, 10], "5", "has no label '5': labels are integers, use 5"),
    ([3, 5, 10], "ann", "has no label 'ann': labels are integers, such as 3"),
    ([3, 5, 10], "٣", "has no label '٣': labels are integers, use 3"),
    ([3, 5, 10], 6, "has no label 6$"),
    (["a"], "b", "has no label 'b'$"),
    (["a"], 3, "has no label 3$"),
    ([3], "9" * 400, "labels are integers, such as 3"),
]


@pytest.mark.parametrize(("labels", "wanted", "told"), TYPED)
def test_labels_of_another_type_are_named(labels: list[Any], wanted: Any, told: str) -> None:
    x = sp.asarray(np.arange(1.0, len(labels) + 1), dims=["label"], labels={"label": labels})
    with pytest.raises(LabelError, match=told):
        x.sel(label=wanted)
    nodes = sp.asarray(np.eye(len(labels)), dims=("a", "b"), labels={"a": labels, "b": labels})
    with pytest.raises(LabelError, match=told):
        sp.graph.bfs(nodes, wanted)
