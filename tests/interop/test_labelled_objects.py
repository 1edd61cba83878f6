"""Conversions of xarray arrays and pandas frames keep names and labels, or raise."""

from __future__ import annotations

import datetime as dt
import operator
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow.errors import InvalidValueError, SparrowError, UnsupportedError

LABELS: dict[str, list[Any]] = {
    "texts": ["a", "b", "c"],
    "integers": [3, 1, 2],
    "positions": [0, 1, 2],
    "dates": list(np.array(["2020-01-01", "2020-01-02", "2020-01-05"], "M8[ns]")),
}
OTHERS: dict[str, Any] = {
    "decimals": [0.5, 1.5, 2.5],
    "booleans": [True, False, True],
    "durations": np.array([1, 2, 3], "m8[s]"),
    "mixed": np.array(["a", 1, dt.date(2020, 1, 1)], object),
    "repeated": ["a", "a", "b"],
    "missing": ["a", None, "b"],
    "not a time": np.array(["NaT", "2020-01-01", "2020-01-02"], "M8[ns]"),
}


def make_array(labels: Any, values: Any = (1.0, 2.0, 3.0)) -> Any:
    xr = pytest.importorskip("xarray", reason="its arrays have names and labels")
    return xr.DataArray(list(values), dims="x", coords={"x": labels})


@given(st.sampled_from(sorted(LABELS)), st.permutations(range(3)), st.permutations(range(3)), st.integers(1, 3))
def test_xarray_sums_equal_xarray(kind: str, mine: list[int], theirs: list[int], count: int) -> None:
    xr = pytest.importorskip("xarray", reason="an oracle")
    a, b = (make_array([LABELS[kind][k] for k in order[:count]], range(1, 1 + count)) for order in (mine, theirs))
    found = (sp.asarray(a) + sp.asarray(b)).compute()
    left, right = xr.align(a, b, join="outer", fill_value=0)
    wanted = dict(zip(left["x"].values.tolist(), (left + right).values, strict=True))
    labels = found.labels("x").to_numpy(zero_copy_only=False)
    assert dict(zip(labels.astype(left["x"].dtype).tolist(), found.to_numpy(), strict=True)) == wanted


@pytest.mark.parametrize("kind", sorted(OTHERS))
def test_labels_that_cannot_be_kept_raise(kind: str) -> None:
    array = make_array(OTHERS[kind])
    with pytest.raises(
        (UnsupportedError, InvalidValueError), match=r"labels of dimension 'x' must be .*drop_vars\('x'\)"
    ):
        sp.asarray(array)
    assert sp.asarray(array.drop_vars("x")).labels("x") is None
    assert sp.asarray(array, labels={"x": ["p", "q", "r"]}).sel(x="q") == 2
    assert sp.asarray(array, dims=["y"], labels={"y": ["p", "q", "r"]}).sel(y="q") == 2


def test_xarray_variables_keep_names_and_datasets_raise() -> None:
    xr = pytest.importorskip("xarray")
    assert sp.asarray(xr.Variable(("user", "dim_1"), np.eye(2))).dims == ("user", "d1")
    stacked = xr.DataArray(np.eye(2), dims=("a", "b"), coords={"a": ["p", "q"], "b": [1, 2]}).stack(c=("a", "b"))
    with pytest.raises(UnsupportedError, match="got a MultiIndex"):
        sp.asarray(stacked)
    dataset = xr.Dataset({"first": make_array(["a", "b", "c"]), "second": 1.0})
    with pytest.raises(UnsupportedError, match=r"a Dataset of xarray has several arrays \('first', 'second'\)"):
        sp.asarray(dataset)
    assert sp.asarray(dataset["first"]).sel(x="c") == 3
    assert sp.asarray(dataset[["first"]].to_dataarray("name")).sel(name="first", x="b") == 2


def make_frame() -> Any:
    pd = pytest.importorskip("pandas")
    return pd.DataFrame({"user": [0, 0, 1, 2, 2], "film": [1, 2, 0, 1, 3], "value": [1.0, 5.0, 3.0, 4.0, 5.0]})


@given(st.lists(st.booleans(), min_size=5, max_size=5).filter(any))
def test_row_numbers_of_frames_never_become_a_dimension(kept: list[bool]) -> None:
    frame = make_frame()[kept]
    whole = sp.asarray(frame.reset_index(drop=True))
    try:
        found = sp.asarray(frame)
    except UnsupportedError as error:
        assert "reset_index(drop=True)" in str(error)  # noqa: PT017 - the index may happen to be regular
    else:
        assert found.dims == whole.dims == ("user", "film")
        assert (found == whole).all()
    assert (sp.asarray(frame, coords=["user", "film"]) == whole).all()
    assert (sp.asarray(frame.rename_axis("row")).sum(axis="row") == whole).all()
    for dims in (("user", "film"), None):
        target = sp.from_coords([[2], [3]], [0.0], shape=(3, 4), dims=dims)
        target.append(frame)
        assert target.sum() == whole.sum()


def test_indices_of_frames() -> None:
    frame = make_frame()
    for regular in (True, False):
        named = frame.rename_axis("row") if regular else frame[::-1].rename_axis("row")
        assert sp.asarray(named).dims == ("user", "film", "row")
    assert sp.asarray(frame.set_index(["user", "film"])).dims == ("user", "film")
    texts = frame.set_axis(list("abcde"))
    for bad in (texts, frame.set_index(["user", "film"]).rename_axis([None, "film"])):
        with pytest.raises(UnsupportedError, match=r"index of the frame must have a name .*rename_axis\('name'\)"):
            sp.asarray(bad)
    rows: Any = sp.asarray(texts.rename_axis("row")).labels("row")
    assert rows.to_pylist() == list("abcde")
    with pytest.raises(SparrowError, match="of one type each"):
        sp.asarray(frame.assign(film=["a", 1, 2, 3, 4]))


@pytest.mark.parametrize("operation", [operator.add, operator.sub, operator.mul, operator.floordiv, operator.pow])
def test_frames_are_no_elementwise_operands(operation: Any) -> None:
    A, frame = sp.asarray(np.eye(3)), pandas.DataFrame(np.eye(3))
    with pytest.raises(UnsupportedError, match=r"got DataFrame: pass its to_numpy\(\)"):
        operation(A, frame)
    with np.errstate(all="ignore"):
        found = np.asarray(operation(A, frame.to_numpy()))
        np.testing.assert_array_equal(found, operation(np.eye(3), np.eye(3)))
    np.testing.assert_array_equal(A @ frame, np.eye(3))
