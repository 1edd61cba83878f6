"""Labelled tensors: alignment by name and label, and appends of new labels."""

from __future__ import annotations

import gzip
import multiprocessing
import os
import pickle
import re
import threading
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparrow as sp
import sparrow.testing
from sparrow import engines
from sparrow.errors import (
    AxisError,
    CorruptionError,
    DuplicateError,
    IndexingError,
    IngestError,
    InvalidValueError,
    LabelError,
    NotFoundError,
    ReadOnlyError,
    ShapeError,
    UnsupportedError,
)
from sparrow.testing import on, strategy
from tests.engines.toy import Toy

Cells = dict[tuple[Any, ...], float]


def make_labelled(dense: Any, **labels: Any) -> sp.Tensor:
    """Return a tensor with named and labelled dimensions; None for no labels."""
    array = np.asarray(dense)
    given = {dim: names for dim, names in labels.items() if names is not None}
    found = array.nonzero()
    return sp.from_coords(found, array[found], array.shape, dims=list(labels), labels=given)


def names(tensor: sp.Tensor, dim: str | int) -> list[Any]:
    """Return the labels of a dimension that has some."""
    found = tensor.labels(dim)
    assert found is not None
    return list(found.to_pylist())


def cells_of(tensor: Any) -> tuple[tuple[tuple[Any, ...], ...], list[Any]]:
    """Return the labels of all dimensions, and the cells."""
    return tuple(tuple(names(tensor, axis)) for axis in range(tensor.ndim)), tensor.to_numpy().tolist()


USERS = ["eve", "ann", "dan", "bob", "zoe"]
ITEMS = [30, 10, 20, 40]


@st.composite
def matrices(draw: st.DrawFn) -> sp.Tensor:
    users = draw(st.lists(st.sampled_from(USERS), unique=True, min_size=1))
    items = draw(st.lists(st.sampled_from(ITEMS), unique=True, min_size=1))
    values = st.lists(st.sampled_from([0.0, 0.0, 1.0, -2.0, 3.5]), min_size=len(items), max_size=len(items))
    rows = draw(st.lists(values, min_size=len(users), max_size=len(users)))
    tensor = make_labelled(rows, user=users, item=items)
    return tensor.T if draw(st.booleans()) else tensor


def as_dict(tensor: sp.Tensor) -> tuple[list[Any], list[Any], Cells]:
    """Return users, items and cells of a matrix by label."""
    tensor = tensor if tensor.dims == ("user", "item") else tensor.T
    (users, items), rows = cells_of(tensor)
    cells = {(u, i): value for u, row in zip(users, rows, strict=True) for i, value in zip(items, row, strict=True)}
    return list(users), list(items), cells


FUNCTIONS: dict[str, tuple[Any, str]] = {
    "add": (np.add, "outer"),
    "subtract": (np.subtract, "outer"),
    "maximum": (np.maximum, "outer"),
    "greater": (np.greater, "outer"),
    "equal": (np.equal, "outer"),
    "multiply": (np.multiply, "inner"),
    "where": (lambda a, b: sp.where(a > 0, a, b) if isinstance(a, sp.Tensor) else np.where(a > 0, a, b), "outer"),
}


def join_frames(first: list[Any], second: list[Any], join: str) -> list[Any]:
    if first == second or join == "left":
        return first
    return sorted({*first, *second}) if join == "outer" else [one for one in first if one in second]


@pytest.fixture(scope="module", autouse=True)
def toy() -> Any:
    engines.register(Toy())
    yield
    engines.unregister("toy")


@settings(max_examples=15)
@given(matrices(), matrices(), st.sampled_from(sorted(FUNCTIONS)), st.sampled_from(["auto", "outer", "inner", "left"]))
def test_align_by_label(a: sp.Tensor, b: sp.Tensor, name: str, join: str) -> None:
    function, usual = FUNCTIONS[name]
    users, items, mine = as_dict(a)
    more, others, theirs = as_dict(b)
    how = usual if join == "auto" else join
    rows, columns = join_frames(users, more, how), join_frames(items, others, how)
    expected = [[function(mine.get((u, i), 0.0), theirs.get((u, i), 0.0)) for i in columns] for u in rows]
    with sp.config(join=join):  # type: ignore[arg-type]
        found = function(a, b)
    found = found if found.dims == ("user", "item") else found.T
    assert names(found, "user") == rows
    assert names(found, "item") == columns
    for engine in ("stream", "duckdb", "toy"):
        dense = found.compute(engine=engine).to_numpy()
        np.testing.assert_array_equal(dense, np.reshape(expected, (len(rows), len(columns))))


@pytest.mark.parametrize("max_slices", [1, 16, 1000])
def test_outer_join_fills_missing_labels(max_slices: int) -> None:
    sides = [np.arange(0, 90, 2), np.setdiff1d(np.arange(5, 100), [17, 40]), np.arange(3, 40)]
    parts, wanted = [], np.zeros((100, 100))
    for k, numbers in enumerate(sides):
        array = np.random.default_rng(k).integers(0, 3, (len(numbers), len(numbers))).astype(float)
        part = sp.asarray(array, dims=("user", "item")).copy()
        for dim in part.dims:
            part.set_labels(dim, [f"u{number:03}" for number in numbers])
        parts.append(part)
        wanted[np.ix_(numbers, numbers)] += array
    with sparrow.testing.tune("plan", max_concat_slices=max_slices):
        total = parts[0] + parts[1] + parts[2]
        aligned = sp.align(*parts)
    views = [one.__sparrow_scan__().view for one in aligned]
    assert all(group.max_repeats == 1 for view in views for group in view.points), "repeated rows are read slowly"
    there = np.unique(np.concatenate(sides))
    assert names(total, 0) == names(total, 1) == [f"u{number:03}" for number in there]
    np.testing.assert_array_equal(total.to_numpy(), wanted[np.ix_(there, there)])
    np.testing.assert_array_equal(total.sum(axis="user").to_numpy(), wanted[:, there].sum(axis=0))


@settings(max_examples=10)
@given(matrices(), matrices(), st.sampled_from(["outer", "inner", "left"]))
def test_align(a: sp.Tensor, b: sp.Tensor, join: str) -> None:
    one, other = sp.align(a, b, join=join)  # type: ignore[arg-type]
    assert (one.dims, other.dims) == (a.dims, b.dims)
    for before, after in ((a, one), (b, other)):
        _, _, cells = as_dict(before)
        users, items, found = as_dict(after)
        assert users == join_frames(as_dict(a)[0], as_dict(b)[0], join)
        assert items == join_frames(as_dict(a)[1], as_dict(b)[1], join)
        assert found == {at: cells.get(at, 0.0) for at in found}


@pytest.mark.parametrize("names", [["a", "b"], [date(2026, 1, 2), date(2025, 1, 2)], [7, -3]])
def test_empty_labels_match_any_type(names: list[Any]) -> None:
    some = sp.from_coords([[0, 1]], [1.0, 2.0], dims=["day"], labels={"day": names})
    none = sp.from_coords([[]], [], (0,), ["day"], labels={"day": pa.array([], pa.string())})
    for found in (some + none, none + some):
        assert found.to_polars(labels=True).sort("day").rows() == sorted(zip(names, [1.0, 2.0], strict=True))
    assert (some * none).shape == (0,)


@settings(max_examples=10)
@given(matrices(), matrices())
def test_matches_pandas(a: sp.Tensor, b: sp.Tensor) -> None:
    pd = pytest.importorskip("pandas")

    def frame(tensor: sp.Tensor) -> Any:
        users, items, _ = as_dict(tensor)
        turned = tensor if tensor.dims == ("user", "item") else tensor.T
        return pd.DataFrame(turned.to_numpy(), users, items)

    left, right = frame(a), frame(b)
    same = left.add(right, fill_value=0).fillna(0)
    users, items, _ = as_dict((a + b).compute())
    pd.testing.assert_frame_equal(frame((a + b).compute()), same, check_names=False, check_column_type=False)
    assert (users, items) == (list(same.index), list(same.columns))
    product = (left * right).dropna(how="all").dropna(how="all", axis=1)
    found = frame((a * b).compute())
    assert set(found.index) == set(left.index) & set(right.index)
    assert found.loc[sorted(product.index), sorted(product.columns)].equals(
        product.loc[sorted(product.index), sorted(product.columns)] + 0.0
    )


def xarrays() -> tuple[Any, Any]:
    """Return xarray, and what makes one of its arrays of a tensor."""
    xr = pytest.importorskip("xarray", reason="labels are compared with xarray's, of the extra dev")

    def array(tensor: sp.Tensor) -> Any:
        coords = {dim: names(tensor, dim) for dim in tensor.dims}
        return xr.DataArray(tensor.to_numpy(), coords=coords, dims=tensor.dims)

    return xr, array


def same_as(found: sp.Tensor, wanted: Any) -> None:
    """Compare a tensor with an xarray array: dimensions, labels, elements."""
    assert found.dims == wanted.dims
    assert [names(found, dim) for dim in found.dims] == [wanted[dim].values.tolist() for dim in found.dims]
    np.testing.assert_array_equal(found.to_numpy(), wanted.values)


@settings(max_examples=10)
@given(matrices(), matrices(), st.sampled_from(["outer", "inner", "left"]))
def test_matches_xarray(a: sp.Tensor, b: sp.Tensor, join: str) -> None:
    xr, array = xarrays()
    one, other = xr.align(array(a), array(b), join=join, fill_value=0.0)
    for mine, theirs in zip(sp.align(a, b, join=join), (one, other), strict=True):  # type: ignore[arg-type]
        assert mine.dims == theirs.dims
        assert all(names(mine, dim) == theirs[dim].values.tolist() for dim in mine.dims)
        np.testing.assert_array_equal(mine.to_numpy(), theirs.values)
    np.testing.assert_array_equal((a * b).to_numpy(), (array(a) * array(b)).values)


@settings(max_examples=10)
@given(matrices(), matrices(), st.booleans())
def test_exact_join_matches_xarray(a: sp.Tensor, b: sp.Tensor, turned: bool) -> None:
    xr, array = xarrays()
    b = a[::-1] + 1 if turned and a.dims == b.dims else b
    try:
        wanted = xr.align(array(a), array(b), join="exact")[1]
    except (ValueError, xr.AlignmentError):
        with pytest.raises(LabelError, match="exact"):
            sp.align(a, b, join="exact")
        with pytest.raises(LabelError, match="exact"), sp.config(join="exact"):
            a + b
        return
    same_as(sp.align(a, b, join="exact")[1], wanted)
    with sp.config(join="exact"):
        same_as((a + b).compute(), array(a) + array(b))


@settings(max_examples=10)
@given(matrices(), matrices(), st.data())
def test_products_and_sums_match_xarray(a: sp.Tensor, b: sp.Tensor, data: st.DataObject) -> None:
    xr, array = xarrays()
    a, b = (each if each.dims == ("user", "item") else each.T for each in (a, b))
    other = b.T.rename(user="other")
    if not set(names(a, "item")) & set(names(b, "item")):
        with pytest.raises(LabelError, match="contracted dimensions 'item' and 'item' have no label in common"):
            a @ other
        return
    wanted = xr.dot(array(a), array(other), dim="item").transpose("user", "other")
    same_as((a @ other).compute(), wanted)
    labels = names(b, "item")
    weights = sp.from_coords([np.arange(len(labels))], 1.0 + np.arange(len(labels)), dims=["item"],
                             labels={"item": labels})  # fmt: skip
    same_as((a * weights).compute(), (array(a) * array(weights)).transpose("user", "item"))
    users = data.draw(st.lists(st.sampled_from(names(a, "user")), unique=True, min_size=1))
    item = data.draw(st.sampled_from(names(a, "item")))
    same_as(a.sel(user=users), array(a).sel(user=users))
    same_as(a.sel(item=item), array(a).sel(item=item, drop=True))
    for dim in ("user", "item"):
        same_as(a.sum(axis=dim).compute(), array(a).sum(dim))
        same_as((a - a.max(axis=dim)).compute(), array(a) - array(a).max(dim))
    fewer = a.sel(user=users)
    left, right = xr.align(array(fewer), array(b), join="outer", exclude="user", fill_value=0.0)
    joined = xr.concat([left, right.assign_coords(user=[f"{user} too" for user in names(b, "user")])], "user")
    b.set_labels("user", [f"{user} too" for user in names(b, "user")])
    same_as(sp.concat([fewer, b], axis="user").compute(), joined)


# -- dimensions ----------------------------------------------------------------------------------


def test_dimensions_match_by_name() -> None:
    a = sp.from_coords([[0, 1], [1, 2]], [1, 2], (3, 3), dims=("src", "dst"))
    t = sp.from_coords([[1, 2], [0, 1]], [1, 2], (3, 3), dims=("dst", "src"))
    dense = a.to_numpy()
    assert (a + t).dims == ("src", "dst")
    np.testing.assert_array_equal((a + t).to_numpy(), 2 * dense)
    np.testing.assert_array_equal(sp.concat([a, t]).to_numpy(), np.vstack([dense, dense]))
    out = sp.zeros((3, 3), dtype="int64")
    assert out.dims == ("d0", "d1")  # default names: matched by position
    np.testing.assert_array_equal((out + a.T).to_numpy(), dense.T)
    b = a.compute()
    b[:] = t * 3
    np.testing.assert_array_equal(b.to_numpy(), 3 * dense)
    b.append(t, duplicates="sum")
    np.testing.assert_array_equal(b.to_numpy(), 4 * dense)


def test_tensor_meets_its_transpose() -> None:
    a = sp.from_coords([[0, 1], [1, 2]], [1, 2], (3, 3), dims=("src", "dst"))
    dense = a.to_numpy()
    for operation in (np.add, np.multiply, np.maximum, np.equal, lambda x, y: sp.concat([x, y])):
        with pytest.raises(LabelError, match=r"A\.T\.rename\(dst='src', src='dst'\) goes by position"):
            operation(a, a.T)
    with pytest.raises(LabelError, match="rename"):
        a[:] = a.T
    np.testing.assert_array_equal((a + a.T.rename(src="dst", dst="src")).to_numpy(), dense + dense.T)
    bare = sp.asarray(dense)
    np.testing.assert_array_equal((bare + bare.T).to_numpy(), dense + dense.T)


def test_broadcast_by_name() -> None:
    a = make_labelled([[1, 2], [3, 4]], user=None, item=None)
    np.testing.assert_array_equal((a - a.sum(axis=1)).to_numpy(), a.to_numpy() - [[3], [7]])
    np.testing.assert_array_equal((a - a.sum(axis=0)).to_numpy(), a.to_numpy() - [4, 6])
    bare = sp.asarray([[1, 2], [3, 4]])
    np.testing.assert_array_equal((bare - bare.sum(axis=1)).to_numpy(), [[-2, -5], [0, -3]])


def test_partly_different_names_raise() -> None:
    a, b = make_labelled(np.ones((2, 2)), user=None, item=None), make_labelled(np.ones((2, 2)), user=None, film=None)
    with pytest.raises(LabelError, match="agree in 'user' and not in the rest"):
        a + b
    with pytest.raises(LabelError, match="rename"):
        a.append(b)
    assert (a + b.rename(film="item")).nnz == 4
    assert (a + make_labelled(np.ones((2, 2)), row=None, col=None)).nnz == 4  # no common name: matched by position
    x = make_labelled([1, 2], user=["ann", "bob"])
    outer = x[:, None] * x[None, :]
    assert outer.to_numpy().tolist() == [[1, 2], [2, 4]]
    assert (outer.dims, names(outer, 1)) == (("user", "d1"), ["ann", "bob"])


def test_rename() -> None:
    a = make_labelled([[1, 0], [0, 2]], user=["ann", "bob"], item=None)
    b = a.rename({"user": "who"})
    assert b.dims == ("who", "item")
    assert names(b, "who") == ["ann", "bob"]
    assert names(b[1:], "who") == ["bob"]
    assert a.rename(user="user") is a
    assert sp.sql("select who, item, value from b order by who").fetchall() == [("ann", 0, 1), ("bob", 1, 2)]
    with pytest.raises(LabelError, match="no dimension 'who'"):
        a.rename(who="user")
    with pytest.raises(InvalidValueError):
        a.rename(user="item")


# -- labels of results ---------------------------------------------------------------------------


def test_remaining_axes_keep_labels() -> None:
    users, items = ["ann", "bob", "eve"], ["x", "y"]
    a = make_labelled([[1, 2], [0, 3], [4, 0]], user=users, item=items)
    same = [
        a + 1, -a, a * a, a > 1, a.astype("float32"), np.exp(a), sp.tril(a), a.refill(7), sp.where(a > 1, a, 0), abs(a),
        a.clip(0, 2), a.compute(), a.persist(), a + np.ones((3, 2)) * sp.asarray(np.ones((3, 2))), sp.compute(a + a)[0],
        pickle.loads(pickle.dumps(a * 2)), a + a[:1, :1].sum(), sp.asarray(np.ones((3, 2))) + a, np.isnan(a),
    ]  # fmt: skip
    for found in same:
        assert [names(found, axis) for axis in (0, 1)] == [users, items]
    assert names(a.sum(axis=0), "item") == items
    assert names((a.T[::-1] + 1), "item") == ["y", "x"]
    assert names(sp.sort(a, axis=1), "user") == users
    assert sp.sort(a, axis=1).labels("item") is None
    assert a.reshape(6).labels(0) is None
    assert names(sp.concat([a, a * 2], axis=1), "item") == [*items, *items]
    assert sp.concat([a, sp.asarray([[1, 1]])]).labels("user") is None
    assert names(sp.stack([a, a[::-1]]), "user") == users
    assert (a[:1] + sp.asarray(np.ones((3, 2)))).labels("user") is None  # a broadcast label is dropped


def test_equal_labels_skip_reading(tmp_path: Path) -> None:
    a = make_labelled([[1, 2], [0, 3]], user=["ann", "bob"], item=["x", "y"]).save(tmp_path / "a.sparrow")
    for name in os.listdir(tmp_path / "a.sparrow" / "_labels"):
        os.rename(tmp_path / "a.sparrow" / "_labels" / name, tmp_path / name)
    again = sp.open(tmp_path / "a.sparrow")
    for found in (again + again, again[1:] * again[1:], sp.concat([again, again]), again * a.to_numpy()):
        assert found.nnz
    with pytest.raises(NotFoundError, match="labels"):
        again + a[::-1]


def test_long_chains_of_labelled_steps() -> None:
    a = make_labelled(np.eye(3), user=["a", "b", "c"], item=["x", "y", "z"])
    total = a
    for _ in range(300):
        total = total[::-1] + a
    assert names(total, "user") == ["a", "b", "c"]
    joined = a
    for _ in range(60):
        joined = sp.concat([joined, a])[1:]
    assert names(joined, "user")[-3:] == ["a", "b", "c"]


def test_axes_by_name() -> None:
    a = make_labelled([[1, 2, 0], [0, 3, 4]], user=["ann", "bob"], item=["x", "y", "z"])
    dense = a.to_numpy()
    assert a.sum(axis="item").to_numpy().tolist() == [3, 7]
    assert names(a.max(axis=("item",)), "user") == ["ann", "bob"]
    assert a.mean(axis=("user", "item")) == dense.mean()
    assert sp.sum(a, axis="user").to_numpy().tolist() == [1, 5, 4]
    assert a.argmax(axis="item").to_numpy().tolist() == [1, 2]
    assert a.transpose("item", "user").dims == ("item", "user")
    assert a.transpose(("item", 0)).shape == (3, 2)
    assert a.cumsum(axis="item").tolist() == dense.cumsum(axis=1).tolist()
    assert names(sp.concat([a, a], axis="item"), "item") == ["x", "y", "z"] * 2
    assert names(sp.flip(a, axis="item"), "item") == ["z", "y", "x"]
    assert names(sp.roll(a, 1, axis="item"), "item") == ["z", "x", "y"]
    assert names(sp.take(a, [2, 0], axis="item"), "item") == ["z", "x"]
    assert sp.sort(a, axis="item").to_numpy().tolist() == np.sort(dense, axis=1).tolist()
    wrong: list[Any] = [lambda: a.sum(axis="film"), lambda: a.transpose("film", "user"), lambda: sp.concat([a], "film")]
    for call in wrong:
        with pytest.raises(AxisError, match="no dimension 'film': there are 'user', 'item'"):
            call()


def test_differences_along_labels() -> None:
    a = make_labelled([[1, 0, 4], [0, 2, 0], [7, 0, 0]], user=["ann", "bob", "dan"], item=["x", "y", "z"])
    for axis, dim in enumerate(a.dims):
        diff: Any = np.diff
        for found in (sp.diff(a, axis=dim), diff(a, axis=axis)):
            assert names(found, dim) == names(a, dim)[1:]
            assert names(found, 1 - axis) == names(a, 1 - axis)
            np.testing.assert_array_equal(found.to_numpy(), np.diff(a.to_numpy(), axis=axis))
    found = sp.diff(a, axis="user", n=2)
    assert names(found, "user") == ["dan"]
    np.testing.assert_array_equal(found.to_numpy(), np.diff(a.to_numpy(), axis=0, n=2))
    one = make_labelled([1, 0, 3], user=["ann", "bob", "dan"])
    assert sp.diff(one).to_numpy().tolist() == [-1, 3]
    assert names(sp.diff(one != 0), "user") == ["bob", "dan"]


@pytest.mark.parametrize("function", [np.multiply, np.add, np.maximum])
def test_outer_ignores_names(function: Any) -> None:
    a = make_labelled([[1, 0], [0, 2]], user=["ann", "bob"], item=["x", "y"])
    b = make_labelled([[3, 0, 1], [0, 4, 0]], user=["bob", "eve"], item=["y", "z", "w"])
    tag = make_labelled([5, 0], tag=["p", "q"])
    vectors = [
        (a[0], a[1]),
        (a[0], b[0]),
        (b[0], a[:, 1]),
        (a[0], tag),
        (a, b),
        (a, a),
        (tag, a),
        (a, b[:, 0]),
        (a, a.T),
    ]
    for one, other in vectors:
        found = function.outer(one, other)
        np.testing.assert_array_equal(found.to_numpy(), function.outer(one.to_numpy(), other.to_numpy()))
        assert [names(found, axis) for axis in range(found.ndim)] == [
            names(each, axis) for each in (one, other) for axis in range(each.ndim)
        ]
        assert found.dims[: one.ndim] == one.dims


def test_selecting() -> None:
    days = [date(2026, 1, day) for day in (1, 2, 5, 9)]
    a = make_labelled(np.arange(1, 13).reshape(3, 4), user=["bob", "ann", "eve"], day=days)
    dense = a.to_numpy()
    assert a.sel(user="ann", day="2026-01-05") == 7
    assert a.sel(user="ann", day=date(2026, 1, 5)) == 7
    assert a.sel(day=["2026-01-09", "2026-01-01"]).to_numpy().tolist() == dense[:, [3, 0]].tolist()
    assert a.sel(day=slice("2026-01-02", "2026-01-05")).to_numpy().tolist() == dense[:, 1:3].tolist()
    assert a.sel(day=slice("2026-01-03", None)).to_numpy().tolist() == dense[:, 2:].tolist()
    assert a.sel(day=slice(None, "2025-01-01")).shape == (3, 0)
    assert names(a.sel(day=slice("2026-01-03", "2026-01-08")), "day") == days[2:3]
    texts = make_labelled(dense, user=names(a, "user"), day=[str(day) for day in days])
    for start in (date(2026, 1, 3), np.datetime64("2026-01-03"), datetime(2026, 1, 2, 12)):
        for one in (a, texts) if not isinstance(start, datetime) else (texts,):
            assert names(one.sel(day=slice(start, date(2026, 1, 8))), "day") == names(one, "day")[2:3]
            assert one.sel(day=slice(None, start)).shape == (3, 2)
    assert a[[1, 0, 2]].sel(user=slice("ann", "c")).to_numpy().tolist() == dense[[1, 0]].tolist()
    with pytest.raises(LabelError, match="must be ascending") as caught:
        a.sel(user=slice("ann", "bob"))
    (way,) = re.findall(r"slice (A\.sel.*) for a tensor A", str(caught.value))
    ascending = eval(way, {"A": a})
    assert names(ascending.sel(user=slice(None, None)), "user") == sorted(names(a, "user"))
    assert names(ascending.sel(user=slice("ann", "bob")), "user") == ["ann", "bob"]
    with pytest.raises(LabelError, match=r"must be a date or time.*got 'soon'"):
        a.sel(day="soon")
    with pytest.raises(LabelError, match="of type string, got 3"):
        a[[1, 0, 2]].sel(user=slice(3, None))
    with pytest.raises(LabelError, match="cannot have a step"):
        a.sel(day=slice("2026-01-02", None, 2))
    with pytest.raises(LabelError, match="no labels"):
        make_labelled([1], user=None).sel(user=slice("a", "b"))
    assert a.isel(user=1, day=-1) == 8
    assert a.isel({"user": [2, 0]}, day=[1, 1]).to_numpy().tolist() == dense[np.ix_([2, 0], [1, 1])].tolist()
    assert names(a.isel(user=slice(None, None, -1)), "user") == ["eve", "ann", "bob"]
    with pytest.raises(LabelError, match="no dimension 'film'"):
        a.isel(film=0)


def test_orders_by_name(tmp_path: Path) -> None:
    a = make_labelled(np.eye(3), user=None, item=None).save(tmp_path / "a.sparrow", orders=[("item", "user")])
    assert a.files(order=("item", "user")) == a.files(order=(1, 0))
    a.add_order(("item", "user"))


def test_export_with_labels(tmp_path: Path) -> None:
    a = make_labelled([[1, 2], [0, 3]], user=["ann", "bob"], item=None)
    rows = [{"user": "ann", "item": 0, "value": 1}, {"user": "ann", "item": 1, "value": 2},
            {"user": "bob", "item": 1, "value": 3}]  # fmt: skip
    assert a.to_arrow(labels=True).to_pylist() == rows
    assert a.to_arrow().column("user").to_pylist() == [0, 0, 1]
    assert pa.Table.from_batches(a.to_batches(labels=True)).to_pylist() == rows
    assert a.to_polars(labels=True).to_dicts() == rows
    lazy = a.to_polars(lazy=True, labels=True)
    assert lazy.filter(pl.col("user") == "ann").sort("item").collect().to_dicts() == rows[:2]
    assert lazy.select("user", "value").sort("value").collect().rows() == [("ann", 1), ("ann", 2), ("bob", 3)]
    assert a[::-1].to_arrow(labels=True)["user"].to_pylist() == ["bob", "ann", "ann"]
    back = sp.from_relation(a.to_polars(labels=True), coords=["user", "item"], value="value")
    assert (back == a).all()


def test_to_pandas() -> None:
    pytest.importorskip("pandas")
    a = make_labelled([[1, 2], [0, 3]], user=["ann", "bob"], item=None)
    assert a.to_pandas().to_dict("list") == {"user": ["ann", "ann", "bob"], "item": [0, 1, 1], "value": [1, 2, 3]}
    assert a.to_pandas(labels=False)["user"].tolist() == [0, 0, 1]


# -- what cannot be brought together ---------------------------------------------------------------


def test_exact_labels() -> None:
    a = make_labelled([1, 2], user=["ann", "bob"])
    b = make_labelled([1, 2], user=["bob", "ann"])
    with sp.config(join="exact"):
        assert (a + a.compute()).nnz == 2
        with pytest.raises(LabelError, match="'user' differ, and join='exact': they are in another order"):
            a + b
        with pytest.raises(LabelError, match="the second has no 'bob'"):
            a * b[1:]
        with pytest.raises(LabelError, match="exact"):
            a.compute().append(b)
    with pytest.raises(LabelError, match="exact"):
        sp.align(a, b, join="exact")
    with pytest.raises(InvalidValueError, match="'outer'"):
        sp.align(a, b, join="right")  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="'auto'"):
        sp.config(join="right")  # type: ignore[arg-type]


def test_incomparable_labels_raise() -> None:
    a = make_labelled([1, 2], user=["ann", "bob"])
    with pytest.raises(LabelError, match=r"dimension 'user' are int64 and string"):
        a + make_labelled([1, 2], user=[1, 2])
    with pytest.raises(LabelError, match="'ann' repeats"):
        a[[0, 0]] + a
    assert (a[[0, 0]] + a[[0, 0]]).to_numpy().tolist() == [2, 2]  # equal labels are never compared
    with pytest.raises(LabelError, match="a third has no labels"):
        sp.where(sp.asarray([True, False]), a, a[::-1])
    with pytest.raises(LabelError, match="has no labels: label it"):
        sp.align(a, a[::-1], sp.from_coords([[0]], [1], (2,), dims=["user"]))
    texts = pa.array(["ann", "bob"])
    one = sp.from_coords([[0, 1]], [1, 2], (2,), dims=["user"], labels={"user": texts.cast(pa.large_string())})
    assert (one + a).to_numpy().tolist() == [2, 4]
    with pytest.raises(ShapeError):
        a + sp.asarray([1, 2, 3])


def test_labels_are_validated() -> None:
    def make(names: Any, dim: str = "user") -> Any:
        return sp.from_coords([[0, 1]], [1, 2], (2,), dims=["user"], labels={dim: names})

    assert names(make(np.array(["ann", "bob"])), 0) == ["ann", "bob"]
    assert names(sp.asarray([1, 2], dims=["user"], labels={"user": ["a", "b"]}), 0) == ["a", "b"]
    with pytest.raises(ShapeError, match="dimension 'user' of size 2 needs 2 labels, got 3"):
        make(["a", "b", "c"])
    with pytest.raises(InvalidValueError, match="must be distinct"):
        make(["a", "a"])
    with pytest.raises(InvalidValueError, match="distinct and not null"):
        make(["a", None])
    with pytest.raises(UnsupportedError, match="double"):
        make([0.5, 1.5])
    with pytest.raises(UnsupportedError, match="must be texts"):
        make([object(), object()])
    with pytest.raises(LabelError, match="no dimension 'item'"):
        make(["a", "b"], "item")
    with pytest.raises(InvalidValueError, match="set_labels"):
        sp.asarray(make(["a", "b"]), labels={"user": ["a", "b"]})


# -- writing -------------------------------------------------------------------------------------


@pytest.fixture(params=["memory", "stored"])
def ann_bob(request: pytest.FixtureRequest, tmp_path: Path) -> sp.Tensor:
    a = make_labelled([[1, 2], [3, 4]], user=["ann", "bob"], item=["x", "y"])
    return a if request.param == "memory" else a.save(tmp_path / "ann_bob.sparrow")


def test_append_new_labels(ann_bob: sp.Tensor) -> None:
    view = ann_bob[1:]
    ann_bob.append(make_labelled([[10, 20], [30, 40]], user=["dan", "eve"], item=["x", "y"]))
    assert names(ann_bob, "user") == ["ann", "bob", "dan", "eve"]
    assert ann_bob.to_numpy().tolist() == [[1, 2], [3, 4], [10, 20], [30, 40]]
    assert view.to_numpy().tolist() == [[3, 4]]  # a view of a part keeps its elements
    assert ann_bob.version in (None, 1)
    assert ann_bob.path is None or ann_bob.verify() == []


def test_append_by_label(ann_bob: sp.Tensor) -> None:
    more = make_labelled([[5, 6], [7, 0]], item=["y", "z"], user=["bob", "zoe"])
    with pytest.raises(DuplicateError):
        ann_bob.append(more)
    assert ann_bob.shape == (2, 2)
    ann_bob.append(more, duplicates="sum")
    assert cells_of(ann_bob) == ((("ann", "bob", "zoe"), ("x", "y", "z")), [[1, 2, 0], [3, 9, 7], [0, 6, 0]])
    ann_bob.append(make_labelled([[1]], user=["zoe"], item=["x"]))  # known labels: nothing grows
    assert ann_bob.to_numpy()[2].tolist() == [1, 6, 0]
    ann_bob.append(np.ones((3, 3), int), duplicates="first")  # by position without labels
    assert ann_bob.nnz == 9
    with pytest.raises(ShapeError, match=r"must be \(3, 3\), got \(2, 2\)"):
        ann_bob.append(np.ones((2, 2), int), duplicates="first")
    with pytest.raises(LabelError, match="no label 'yan', and a view cannot grow"):
        ann_bob[1:].append(make_labelled([[1]], user=["yan"], item=["x"]))
    with pytest.raises(LabelError, match="int64 and string"):
        ann_bob.append(make_labelled([[1]], user=[4], item=["x"]))


def test_append_labels_without_elements(ann_bob: sp.Tensor) -> None:
    ann_bob.append(make_labelled([[0]], user=["zoe"], item=["x"]))
    assert names(ann_bob, "user") == ["ann", "bob", "zoe"]
    assert ann_bob.to_numpy().tolist() == [[1, 2], [3, 4], [0, 0]]


def test_assign_by_label(ann_bob: sp.Tensor) -> None:
    ann_bob[:] = make_labelled([[7, 8], [5, 6]], user=["bob", "ann"], item=["y", "x"])
    assert ann_bob.to_numpy().tolist() == [[6, 5], [8, 7]]
    ann_bob[:, 1:] = make_labelled([[9], [0]], user=["bob", "ann"], item=["y"])
    assert ann_bob.to_numpy().tolist() == [[6, 0], [8, 9]]
    ann_bob[[1, 0]] = make_labelled([[1, 2]], user=["ann"], item=["x", "y"])  # no line for bob: fill
    assert ann_bob.to_numpy().tolist() == [[1, 2], [0, 0]]
    with ann_bob.edit() as e:
        e[:] = make_labelled([[3]], user=["bob"], item=["y"])
    assert ann_bob.to_numpy().tolist() == [[0, 0], [0, 3]]
    with pytest.raises(LabelError, match="no label 'zoe' to write to"):
        ann_bob[:] = make_labelled([[7, 8]], user=["zoe"], item=["x", "y"])
    ann_bob += make_labelled([[4]], user=["bob"], item=["x"])
    assert ann_bob.to_numpy().tolist() == [[0, 0], [4, 3]]
    ann_bob[0] = [1, 2]
    assert ann_bob.to_numpy().tolist() == [[1, 2], [4, 3]]


def test_append_table_by_column_names(ann_bob: sp.Tensor) -> None:
    ann_bob.append(pl.DataFrame({"item": ["x", "w"], "value": [5, 6], "user": ["zoe", "ann"]}))
    assert cells_of(ann_bob) == ((("ann", "bob", "zoe"), ("x", "y", "w")), [[1, 2, 6], [3, 4, 0], [5, 0, 0]])
    ann_bob.append(pl.LazyFrame({"stars": [9], "item": ["w"], "user": ["bob"]}))
    assert ann_bob.to_numpy()[1].tolist() == [3, 4, 9]
    ann_bob.append(pa.table({"item": [2], "user": [2], "value": [7]}))  # integers beside strings are positions
    assert ann_bob.to_numpy()[2].tolist() == [5, 0, 7]
    twice = pl.DataFrame({"item": ["v", "v"], "user": ["bob", "bob"], "value": [5, 6]})
    with pytest.raises(DuplicateError):
        ann_bob.append(twice)
    ann_bob.append(twice, duplicates="sum")
    assert ann_bob.sel(user="bob", item="v") == 11
    with pytest.raises(LabelError, match="no column 'item'"):
        ann_bob.append(pl.DataFrame({"film": ["x"], "user": ["zoe"], "value": [5]}))
    with pytest.raises(InvalidValueError, match="'a', 'b' are not dimensions"):
        ann_bob.append(pl.DataFrame({"item": ["x"], "user": ["zoe"], "a": [5], "b": [5]}))
    more = pl.DataFrame({"item": ["q"], "user": ["zoe"], "at": [99], "stars": [3], "value": [8]})
    ann_bob.append(more, value="stars")  # and not the column called value, nor the time
    assert ann_bob.sel(user="zoe", item="q") == 3
    with pytest.raises(LabelError, match="no column 'points' for the values"):
        ann_bob.append(more, value="points")
    with pytest.raises(InvalidValueError, match="value must name the column of values, got the dimension 'item'"):
        ann_bob.append(more, value="item")


@pytest.mark.parametrize("stored", [False, True])
def test_duplicate_error_names_labels(tmp_path: Path, stored: bool) -> None:
    a = make_labelled([[1, 0], [2, 3]], user=["ann", "bob"], item=["x", "y"])
    a = a.save(tmp_path / "a") if stored else a
    there = pl.DataFrame({"user": ["bob"], "item": ["x"], "value": [5]})
    with pytest.raises(DuplicateError, match=r"element \('bob', 'x'\) .*duplicates='sum'"):
        a.append(there)
    with pytest.raises(DuplicateError, match=r"element \('bob', 'x'\)"):  # and with labels that are new
        a.append(pl.concat([there, pl.DataFrame({"user": ["zoe"], "item": ["new"], "value": [5]})]))
    twice = pl.DataFrame({"user": ["zoe", "ann", "zoe"], "item": ["x", "x", "x"], "value": [1, 2, 3]})
    with pytest.raises(DuplicateError, match=r"^element \('zoe', 'x'\) is given twice: pass duplicates='sum'"):
        a.append(twice)
    with pytest.raises(DuplicateError, match=r"^element \('zoe', 'x'\) is given twice \(and 1 more repeats"):
        sp.from_relation(pl.concat([twice, twice[:1]]), coords=["user", "item"])
    a.sel(user="bob").append(make_labelled([0, 0], item=["x", "y"]))
    with pytest.raises(DuplicateError, match=r"element \('bob', 'y'\)"):
        a.sel(user="bob").append(make_labelled([0, 4], item=["x", "y"]))
    assert a.nnz == 3


def test_append_files(ann_bob: sp.Tensor, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("item,user,stars\n007,zoe,5\nx,7,6\n")
    ann_bob.append(tmp_path / "a.csv")
    assert names(ann_bob, "user") == ["ann", "bob", "7", "zoe"]
    assert names(ann_bob, "item") == ["x", "y", "007"]
    assert ann_bob.sel(user="zoe", item="007") == 5
    frame = pl.DataFrame({"item": ["x", "y"], "user": ["zoe", "tom"], "value": [8, 9]})
    frame.write_parquet(tmp_path / "a.parquet")
    frame.write_ipc(tmp_path / "a.arrow")
    frame.write_csv(tmp_path / "a.tsv", separator="\t")
    for end in ("parquet", "arrow", "tsv"):
        ann_bob.append(str(tmp_path / f"a.{end}"), duplicates="sum")
    assert (ann_bob.sel(user="zoe", item="x"), ann_bob.sel(user="tom", item="y")) == (24, 27)
    with pytest.raises(NotFoundError, match="no file"):
        ann_bob.append(tmp_path / "b.csv")
    (tmp_path / "a.svm").write_text("1 2:3")
    with pytest.raises(UnsupportedError, match=r"\.parquet"):
        ann_bob.append(tmp_path / "a.svm")


def test_from_xarray_keeps_names_and_labels() -> None:
    xr = pytest.importorskip("xarray", reason="its arrays have names and labels")
    days = np.array(["2026-01-01", "2026-01-02"], "datetime64[ns]")
    array = xr.DataArray(
        np.arange(12.0).reshape(2, 2, 3),
        dims=("day", "user", "dim_2"),
        coords={"day": days, "user": ["bob", "ann"], "dim_2": range(3), "depth": ("dim_2", [0.5, 1.5, 2.5])},
    )
    tensor = sp.asarray(array)
    assert tensor.dims == ("day", "user", "d2")
    assert names(tensor, "user") == ["bob", "ann"]
    assert tensor.labels("d2") is None
    for day in ("2026-01-02", date(2026, 1, 2)):
        assert (
            tensor.sel(day=day, user="ann").to_numpy().tolist() == array.sel(day=str(day), user="ann").values.tolist()
        )
    other = sp.asarray(array.rename(user="item"), dims=["a", "b", "c"], labels={"b": ["x", "y"]})
    assert (other.dims, names(other, "b")) == (("a", "b", "c"), ["x", "y"])


@given(*[st.sets(st.integers(0, 12), min_size=1)] * 2, st.sampled_from(["texts", "numbers", "dates"]))
def test_ascending_labels_join_in_order(mine: set[int], theirs: set[int], kind: str) -> None:
    made: Any = {"texts": "{:02}".format, "numbers": int, "dates": lambda k: date(2026, 1, 1 + k)}[kind]
    a, b = ([made(k) for k in sorted(each)] for each in (mine, theirs))
    found = sp.align(*(make_labelled(np.arange(1, 1 + len(each)), k=each) for each in (a, b)), join="outer")
    for side, own in zip(found, (a, b), strict=True):
        assert names(side, "k") == [made(k) for k in sorted(mine | theirs)]
        assert {label: cell for label, cell in zip(names(side, "k"), side.to_numpy(), strict=True) if cell} == {
            label: at for at, label in enumerate(own, 1)
        }


def test_append_reads_all_formats(ann_bob: sp.Tensor, tmp_path: Path, monkeypatch: Any) -> None:
    frame = pl.DataFrame({"item": ["x"], "user": ["zoe"], "value": [8]})
    whole = tmp_path / "whole"
    for at, folder in enumerate((whole, tmp_path / "parted" / "item=007", tmp_path / "parted" / "item=y")):
        folder.mkdir(parents=True)
        (frame if folder == whole else frame.drop("item")).write_parquet(folder / f"{at}.parquet")
    frame.with_columns(user=pl.lit("tom")).write_parquet(whole / "b.parquet")
    frame.clear().write_parquet(tmp_path / "nothing.parquet")
    ann_bob.append(whole)
    assert names(ann_bob, "user") == ["ann", "bob", "tom", "zoe"]
    ann_bob.append(tmp_path / "parted")
    assert names(ann_bob, "item") == ["x", "y", "007"]
    assert ann_bob.sel(user="zoe").to_numpy().tolist() == [8, 8, 8]
    ann_bob.append(tmp_path / "nothing.parquet")
    ann_bob.append(tmp_path / "whole" / "*.parquet", duplicates="sum")
    assert ann_bob.sel(user="tom", item="x") == 16
    with gzip.open(tmp_path / "a.jsonl.gz", "wt") as file:
        file.write('{"item": "x", "user": "jim", "value": 3}\n{"value": 4, "user": "jim", "item": "y"}\n')
    ann_bob.append(tmp_path / "a.jsonl.gz")
    assert ann_bob.sel(user="jim").to_numpy().tolist() == [3, 4, 0]
    (tmp_path / "none.csv").write_text("user,item,value\n")
    ann_bob.append(tmp_path / "none.csv")
    ann_bob.save(tmp_path / "own.sparrow")
    before = ann_bob.to_numpy()
    ann_bob.append(tmp_path / "own.sparrow", duplicates="sum")
    assert (ann_bob.to_numpy() == 2 * before).all()
    frame.with_columns(user=pl.lit("pat")).write_delta(str(tmp_path / "foreign"))
    ann_bob.append(tmp_path / "foreign")
    assert ann_bob.sel(user="pat", item="x") == 8
    next((tmp_path / "foreign").glob("*.parquet")).unlink()
    with pytest.raises(CorruptionError, match="is missing"):
        ann_bob.append(tmp_path / "foreign")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"user;item;value\nann;z;1\n", r"a.csv: the file has one column, .*pass delimiter=';'$"),
        (
            b"user,item,value\nJos\xe9,x,1\n",
            r"a.csv, line 2: .*'user' is not UTF-8: pass encoding='latin-1' or another$",
        ),
        (b"user,item,value\nann,x\n", r"a.csv, line 2: .*Expected 3 columns"),
        (b"", r"a.csv: .*expected a line of column names"),
    ],
)
def test_append_error_names_location(ann_bob: sp.Tensor, tmp_path: Path, text: bytes, told: str) -> None:
    (tmp_path / "a.csv").write_bytes(text)
    with pytest.raises(IngestError, match=told):
        ann_bob.append(tmp_path / "a.csv")
    assert ann_bob.shape == (2, 2)


def test_append_reading_options(ann_bob: sp.Tensor, tmp_path: Path) -> None:
    (tmp_path / "new.dat").write_bytes("zoë::z::5::9\n007::x::6::9\n".encode("latin-1"))
    told: dict[str, Any] = {"header": False, "delimiter": "::", "encoding": "latin-1", "format": "csv"}
    ann_bob.append(tmp_path / "new.dat", value="c2", coords=["c0", "c1"], **told)
    assert names(ann_bob, "user") == ["ann", "bob", "007", "zoë"]
    assert (ann_bob.sel(user="zoë", item="z"), ann_bob.sel(user="007", item="x")) == (5, 6)
    (tmp_path / "b.csv").write_text("# so\nfilm;who;user;stars\ny;tom;7;2,0\n")
    ann_bob.append(
        tmp_path / "b.csv", coords=("who", "film"), value="stars", delimiter=";", comment="#", decimal=",", quotes=False
    )
    assert ann_bob.sel(user="tom", item="y") == 2
    (tmp_path / "none.csv").write_text("film,who,stars\n")
    ann_bob.append(tmp_path / "none.csv", coords=["who", "film"])
    (tmp_path / "empty.csv").write_text("\n")
    before = ann_bob.nnz
    ann_bob.append(tmp_path / "empty.csv", header=False, coords=["c0", "c1"], value="c2")
    ann_bob.append(tmp_path / "empty.csv", format="json")
    assert ann_bob.nnz == before
    with pytest.raises(LabelError, match="no column 'c9' for the dimension 'item', columns are 'c0', 'c1', 'c2', 'c3'"):
        ann_bob.append(tmp_path / "new.dat", coords=["c0", "c9"], **told)
    ann_bob.save(tmp_path / "own.sparrow")
    (tmp_path / "a.csv").write_text("user,item,value\n")
    for path, options, problem in (
        ("a.csv", {"nulls": "drop"}, "options of append must be among coords, header.* got 'nulls'"),
        ("a.csv", {"index_base": 2}, "index_base must be 0 or 1, got 2"),
        ("own.sparrow", {"index_base": 1}, "append: index_base=1 requires a table, got Tensor"),
        ("a.csv", {"delimiter": ""}, "delimiter must be ASCII .* got ''"),
        ("a.csv", {"format": "xml"}, "format must be 'csv'.* got 'xml'"),
        ("a.csv", {"coords": ["user"]}, "a column for each of the dimensions user, item"),
        ("a.csv", {"coords": 5}, "coords must be a list of a column for each of the dimensions user, item, got 5"),
        ("own.sparrow", {"quotes": True}, "quotes apply to files only, .* is a stored tensor"),
    ):
        with pytest.raises((InvalidValueError, ShapeError), match=problem):
            ann_bob.append(tmp_path / path, **options)
    with pytest.raises(InvalidValueError, match="append: options header require a path of a table"):
        ann_bob.append(ann_bob, header=False)


@pytest.mark.parametrize("form", ["csv", "parquet", "dict"])
def test_append_index_base(tmp_path: Path, form: str) -> None:
    """Coordinates count from the base, as where the tensor came from; labels do not."""
    first = pl.DataFrame({"u": [1, 1, 2], "i": [1, 2, 1], "k": ["a", "b", "a"], "value": [5, 6, 7]})
    web = sp.ingest.columns(first, tmp_path / "A", coords=["u", "i", "k"], value="value", index_base=1)
    more = pl.DataFrame({"u": [1, 2], "i": [1, 2], "k": ["b", "c"], "value": [8, 9]})
    whole = sp.ingest.columns(
        pl.concat([first, more]), tmp_path / "B", coords=["u", "i", "k"], value="value", index_base=1
    )
    path = tmp_path / f"more.{form}"
    write: dict[str, Any] = {"csv": more.write_csv, "jsonl": more.write_ndjson, "parquet": more.write_parquet}
    if form in write:
        write[form](path)
    web.append(path if form in write else more.to_dict(as_series=False), index_base=1)
    assert web.to_numpy().tolist() == whole.to_numpy().tolist()
    assert names(web, "k") == ["a", "b", "c"]
    for column, told in (
        ([0, 1], r"coordinate 0 is out of range for dimension 0 of size 2, counted from 1 .*: pass index_base=0"),
        ([3, 1], r"coordinate 3 is out of range for dimension 0 of size 2, counted from 1 .*; resize\(\) makes room"),
    ):
        with pytest.raises(IndexingError, match=told):
            web.append(more.with_columns(u=pl.Series(column)), index_base=1)
    with pytest.raises(IndexingError, match=r"dimension 0 of size 2 .*: pass index_base=1 if the first one is 1"):
        web.append(more)
    with pytest.raises(IndexingError, match=r"coordinate -1 .*: coordinates start at 0$"):
        web.append(more.with_columns(u=pl.Series([-1, 1])))
    with pytest.raises(InvalidValueError, match="index_base=1 requires a table"):
        sp.eye(2).compute().append([[1, 0], [0, 0]], index_base=1)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_append_float_coordinates_of_tables(dtype: type[np.floating[Any]]) -> None:
    a = sp.from_coords([[0, 1]], [1, 2], (8,), dims=["id"])
    a.append({"id": np.array([5, 7], dtype), "value": [3, 4]})
    assert (a[5], a[7]) == (3, 4)
    for wrong in (np.inf, np.nan, 6.5):
        with pytest.raises((IndexingError, LabelError)):
            a.append({"id": np.array([6, wrong], dtype), "value": [3, 4]})
    assert a.nnz == 4


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("form", ["csv", "jsonl", "frame"])
def test_append_integral_floats(tmp_path: Path, form: str, labelled: bool) -> None:
    """Ids such as 7.0 are integers, as ingest reads them; others are refused."""
    a = sp.from_coords([[0, 1]], [1, 2], (8,), dims=["id"])
    if labelled:
        a = sp.from_coords([[0, 1]], [1, 2], (2,), dims=["id"], labels={"id": [700, 500]})
    path = tmp_path / f"more.{form}"

    def append(token: float) -> None:
        frame = pl.DataFrame({"id": [token], "value": [3]})
        if form != "frame":
            (frame.write_csv if form == "csv" else frame.write_ndjson)(path)
        a.append(frame if form == "frame" else path)

    append(7.0)
    assert a.nnz == 3
    assert a.sel(id=7) == 3 if labelled else a[7] == 3
    with pytest.raises((IngestError, LabelError, UnsupportedError)) as caught:
        append(7.5)
    assert "text=" not in str(caught.value)
    if form == "csv":
        path.write_text("id,value\n 6e0 ,4\n+5.,5\n")
        a.append(path)
        assert a.nnz == 5


@pytest.mark.parametrize(("coords", "value"), [([1, 0], 3), (["1", "0"], "3"), ([1, "i"], "x")])
def test_append_value_by_number(tmp_path: Path, coords: list[Any], value: Any) -> None:
    (tmp_path / "a.csv").write_text("i,u,u,x\n1,0,5,9\n")
    a = sp.zeros((2, 2)).rename(d0="u", d1="i").compute()
    with pytest.raises(LabelError, match="no column '4' for the values"):
        a.append(tmp_path / "a.csv", coords=coords, value=4)
    a.append(tmp_path / "a.csv", coords=coords, value=value)
    assert a.to_numpy().tolist() == [[0, 9], [0, 0]]


def test_append_files_of_different_types_raises(ann_bob: sp.Tensor, tmp_path: Path) -> None:
    for user in (["zoe"], [7]):
        pl.DataFrame({"item": ["x"], "user": user, "value": [8]}).write_parquet(tmp_path / f"{user[0]}.parquet")
    with pytest.raises(IngestError, match="the types of a column differ"):
        ann_bob.append(tmp_path / "*.parquet")


def test_append_dates_and_text() -> None:
    days = [date(2026, 1, 1)]
    for kind, more in (("dates", "2026-01-02"), ("texts", date(2026, 1, 2))):
        a = make_labelled([1], day=days if kind == "dates" else list(map(str, days)))
        a.append(pl.DataFrame({"day": [more], "value": [2]}))
        assert names(a, "day") == ([*days, date(2026, 1, 2)] if kind == "dates" else ["2026-01-01", "2026-01-02"])
        assert a.sel(day="2026-01-02") == a.sel(day=date(2026, 1, 2)) == 2
    with pytest.raises(LabelError, match="labels of 'day' must be date32"):
        make_labelled([1], day=days).append(pl.DataFrame({"day": ["someday"], "value": [2]}))


def test_append_days(tmp_path: Path) -> None:
    days = [date(2026, 1, 1), date(2026, 1, 2)]
    a = make_labelled([[1, 2]], user=["ann"], day=days).save(tmp_path / "days.sparrow")
    (tmp_path / "next.csv").write_text("day,user,value\n2026-01-03,bob,5\n2026-01-04,ann,6\n")
    a.append(tmp_path / "next.csv")
    assert names(a, "day") == [*days, date(2026, 1, 3), date(2026, 1, 4)]
    assert a.sel(day=slice("2026-01-03", None)).to_numpy().tolist() == [[0, 6], [5, 0]]


def test_append_table_without_labels() -> None:
    web = sp.zeros((3, 3), dtype="int64").rename(d0="src", d1="dst").compute()
    web.append(pa.table({"dst": [1, 2], "src": [0, 2], "value": [5, 6]}))
    assert web.to_numpy().tolist() == [[0, 5, 0], [0, 0, 0], [0, 0, 6]]
    with pytest.raises(LabelError, match="'src' has no labels"):
        web.append(pa.table({"dst": [1, 2], "src": ["a", "b"], "value": [5, 6]}))
    bare = sp.zeros((2, 2), dtype="int64")
    bare.append(pa.table({"i": [1], "j": [0], "value": [5]}))  # its dimensions have default names
    assert bare.to_numpy().tolist() == [[0, 0], [5, 0]]
    numbered = sp.from_coords([[0, 1]], [1, 2], (2,), dims=["id"], labels={"id": [700, 500]})
    numbered.append(pa.table({"id": [900, 500], "value": [3, 4]}), duplicates="sum")
    assert cells_of(numbered) == (((700, 500, 900),), [1, 6, 3])


def test_text_table_to_tensor() -> None:
    frame = pl.DataFrame({"user": ["eve", "ann", "eve"], "day": [10, 20, 30], "stars": [5, 4, 3]})
    a = sp.from_relation(frame.with_columns(pl.col("day").cast(pl.Date)), coords=["user", "day"], value="stars")
    assert a.shape == (2, 3)
    assert names(a, "user") == ["ann", "eve"]
    assert str(names(a, "day")[2]) == "1970-01-31"
    assert sp.asarray(frame, coords=["user"], value="stars", duplicates="sum").to_numpy().tolist() == [4, 8]
    with pytest.raises(UnsupportedError, match="double"):
        sp.asarray(frame.with_columns(day=0.5), coords=["day"], value="stars")


def test_set_labels(ann_bob: sp.Tensor) -> None:
    ann_bob.set_labels("user", ["u1", "u2"])
    assert names(ann_bob, "user") == ["u1", "u2"]
    assert ann_bob.sel(user="u2", item="x") == 3
    ann_bob.set_labels(["user", "item"], ["a", "b"])  # a shared vocabulary grows as one
    ann_bob.append(make_labelled([[8]], user=["c"], item=["a"]))
    assert cells_of(ann_bob) == ((("a", "b", "c"), ("a", "b", "c")), [[1, 2, 0], [3, 4, 0], [8, 0, 0]])
    with pytest.raises(ShapeError, match="needs 3 labels, got 1"):
        ann_bob.set_labels(0, ["a"])
    with pytest.raises(LabelError):
        ann_bob.set_labels("film", ["a"])
    with pytest.raises(UnsupportedError, match="view"):
        ann_bob[1:].set_labels(0, ["a"])
    with pytest.raises(ReadOnlyError):
        (ann_bob + 1).set_labels(0, ["a"])
    if ann_bob.path is not None:
        assert [commit["operation"] for commit in ann_bob.history()] == ["append", "set labels", "set labels", "save"]
        again = sp.open(ann_bob.path)
        assert cells_of(again) == cells_of(ann_bob)
        assert len(again.sel(user="c").labels("item")) == 3


def test_remove_labels(ann_bob: sp.Tensor) -> None:
    before = ann_bob.to_numpy().tolist()
    ann_bob.set_labels("user", None)
    assert (ann_bob.labels("user"), names(ann_bob, "item")) == (None, ["x", "y"])
    with pytest.raises(UnsupportedError, match=r"'item' has 2 labels .* append\(\) .*set_labels\('item', None\)"):
        ann_bob.resize(2, 3)
    ann_bob.set_labels(["user", "item"], None)
    ann_bob.resize(2, 3)
    assert ann_bob.to_numpy()[:, :2].tolist() == before
    if ann_bob.path is not None:
        assert sp.open(ann_bob.path).labels("item") is None
        assert names(sp.open(ann_bob.path, version=0), "user") == ["ann", "bob"]
        ann_bob.restore(0)
        assert names(ann_bob, "user") == ["ann", "bob"]
        assert ann_bob.verify() == []


# -- files ---------------------------------------------------------------------------------------


def grown(path: Path) -> sp.Tensor:
    """Return a stored tensor of two users, four at version 1 and five at version 2."""
    a = make_labelled([[1, 2], [3, 4]], user=["ann", "bob"], item=["x", "y"]).save(path)
    a.append(make_labelled([[10, 20], [30, 40]], user=["dan", "eve"], item=["x", "y"]))
    a.append(make_labelled([[5]], user=["zoe"], item=["w"]))
    return a


def test_labels_per_version(tmp_path: Path) -> None:
    a = grown(tmp_path / "a.sparrow")
    users = ["ann", "bob", "dan", "eve", "zoe"]
    for version, count in ((0, 2), (1, 4), (2, 5)):
        old = sp.open(tmp_path / "a.sparrow", version=version)
        assert names(old, "user") == users[:count]
        assert old.shape[0] == count
    a.compact("small")
    assert names(sp.open(tmp_path / "a.sparrow"), "user") == users
    a.restore(1)
    assert (names(a, "user"), names(a, "item")) == (users[:4], ["x", "y"])
    a.append(make_labelled([[6]], user=["yan"], item=["x"]))
    assert names(a, "user") == [*users[:4], "yan"]
    assert a.verify() == []
    assert [found for found in a.vacuum("7 days") if "_labels" in found] == []
    assert [found for found in a.vacuum("0 seconds") if "_labels" in found]
    assert names(sp.open(tmp_path / "a.sparrow"), "user") == [*users[:4], "yan"]
    assert a.verify() == []
    a.resize(3, 2)
    a.append(make_labelled([[6]], user=["bob"], item=["v"]))
    a.append(make_labelled([[7]], user=["dora"], item=["v"]))
    assert names(a, "user") == ["ann", "bob", "dan", "dora"]


def test_checkpoint_keeps_labels(tmp_path: Path) -> None:
    a = make_labelled([[1]], user=["u0"], item=["x"]).save(tmp_path / "a.sparrow")
    for k in range(1, 45):
        a.append(make_labelled([[k]], user=[f"u{k}"], item=["x"]))
    assert names(sp.open(tmp_path / "a.sparrow"), "user") == [f"u{k}" for k in range(45)]
    assert names(sp.open(tmp_path / "a.sparrow", version=30), "user") == [f"u{k}" for k in range(31)]


@pytest.mark.parametrize("users", [["ann", "bob", "dan", "eve"], ["zoe"]])
def test_damaged_labels_raise(tmp_path: Path, users: list[str]) -> None:
    a = grown(tmp_path / "a.sparrow")
    folder = tmp_path / "a.sparrow" / "_labels"
    (name,) = (name for name in os.listdir(folder) if sp_labels(folder / name) == users)
    data = (folder / name).read_bytes()
    (folder / name).write_bytes(data[:-20] + b"x" * 20)
    assert [finding.file for finding in a.verify()] == [f"_labels/{name}"] * len(a.verify())
    with pytest.raises(CorruptionError, match="damaged"):
        sp.open(tmp_path / "a.sparrow").labels("user")
    (folder / name).unlink()
    assert a.verify()[0].problem == "the file is missing"
    with pytest.raises(NotFoundError, match="gone"):
        sp.open(tmp_path / "a.sparrow").labels("user")


def sp_labels(path: Path) -> list[Any]:
    import pyarrow.parquet as pq

    return list(pq.read_table(path).column(0).to_pylist())


# -- several writers -----------------------------------------------------------------------------


def test_stale_writer_reuses_label_coordinate(tmp_path: Path) -> None:
    make_labelled([[1]], user=["u0"], item=["x"]).save(tmp_path / "a.sparrow")
    writers = [sp.open(tmp_path / "a.sparrow") for _ in range(4)]
    for k, writer in enumerate(writers):
        writer.append(make_labelled([[1], [10]], user=["new", f"own {k}"], item=["x"]), duplicates="sum")
    found = sp.open(tmp_path / "a.sparrow")
    users, _, cells = as_dict(found)
    assert users == ["u0", "new", *(f"own {k}" for k in range(4))]
    assert cells["new", "x"] == 4
    assert found.verify() == []
    stale = sp.open(tmp_path / "a.sparrow")
    found.append(make_labelled([[1]], user=["later"], item=["x"]))
    stale[0, 0] = 5  # an element outside the append
    assert stale.shape[0] == 7


def append_days(path: str, name: str, count: int) -> None:
    a = sp.open(path)
    for k in range(count):
        a.append(make_labelled([[1.0], [1.0]], user=[f"day {k}", f"{name} {k}"], item=["x"]), duplicates="sum")


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_concurrent_appends_of_new_labels(tmp_path: Path, kind: str) -> None:
    path = str(make_labelled([[1.0]], user=["u0"], item=["x"]).save(tmp_path / "a.sparrow").path)
    make: Any = threading.Thread if kind == "threads" else multiprocessing.get_context("forkserver").Process
    other = make(target=append_days, args=(path, "one", 6))
    other.start()
    append_days(path, "two", 6)
    other.join()
    found = sp.open(path)
    users, _, cells = as_dict(found)
    assert sorted(users) == sorted({"u0", *(f"{n} {k}" for n in ("one", "two", "day") for k in range(6))})
    assert all(cells[f"day {k}", "x"] == 2 for k in range(6))
    assert found.version == 12
    assert found.verify() == []


def test_append_with_new_labels_streams(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    old, new = rng.integers(1, 9, (20, 5)), rng.integers(1, 9, (30, 5))
    items = list("abcde")
    a = make_labelled(old, user=[f"u{k:02}" for k in range(20)], item=items).save(tmp_path / "a.sparrow")
    with strategy("append_in_batches"):
        a.append(make_labelled(new, user=[f"u{k:02}" for k in range(10, 40)], item=items[::-1]), duplicates="sum")
    expected = np.zeros((40, 5), int)
    expected[:20] = old
    expected[10:] += new[:, ::-1]
    np.testing.assert_array_equal(a.to_numpy(), expected)
    assert a.version == 1


def test_planning_reads_labels_only() -> None:
    a, b = make_labelled([1, 2], user=["ann", "bob"]), make_labelled([1, 2], user=["bob", "eve"])
    with on("relations.read", lambda rows: pytest.fail("elements were read")):
        assert (a + b).shape == (3,)


CROSSED = sp.from_coords(
    [[0, 1, 2], [1, 0, 1]], [1.0, 2.0, 3.0], dims=("u", "f"), labels={"u": ["a", "b", "c"], "f": ["x", "y"]}
)


@pytest.mark.parametrize("place", ["memory", "stored", "lazy"])
@pytest.mark.parametrize(
    "key",
    [
        np.ix_([2, 1, 0], [0, 1]),
        np.ix_([True, False, True], [1, 0]),
        (np.array([2, 0])[:, None], np.array([0, 1])),
        (np.array([[2], [0]]), [1]),
        np.ix_([0, 2], [1]),
    ],
)
def test_crossed_lists_keep_names_and_labels(key: Any, place: str, tmp_path: Path) -> None:
    A = CROSSED.save(tmp_path / "A") if place == "stored" else CROSSED * 1 if place == "lazy" else CROSSED
    found = A[key]
    rows, columns = (np.broadcast_to(part, np.broadcast_shapes(*map(np.shape, key))) for part in key)
    assert found.dims == ("u", "f")
    assert found.labels(0).to_pylist() == [["a", "b", "c"][k] for k in rows[:, 0]]
    assert found.labels(1).to_pylist() == [["x", "y"][k] for k in columns[0]]
    dense = CROSSED.to_numpy()
    np.testing.assert_array_equal(found.to_numpy(), dense[key])
    picked = np.zeros_like(dense)
    picked[key] = dense[key]
    np.testing.assert_array_equal((A + found).to_numpy(), dense + picked)  # by label, not by position


@pytest.mark.parametrize("place", ["memory", "stored", "listed", "masked", "reversed"])
def test_labels_of_any_slice_are_those_of_its_elements(place: str, tmp_path: Path) -> None:
    A: Any = sp.from_coords([[0, 1, 2, 3]], [1.0, 2, 3, 4], dims=("w",), labels={"w": list("abcd")})
    base = {
        "memory": lambda: A,
        "stored": lambda: A.save(tmp_path / "A"),
        "listed": lambda: A[[3, 0, 1, 2]],
        "masked": lambda: A[A > 1],
        "reversed": lambda: A[::-1],
    }[place]()
    names, values = np.array(base.labels(0).to_pylist()), base.to_numpy()
    ends = (None, -9, -5, -3, -2, 0, 1, 3, 9)
    for key in (slice(start, stop, step) for start in ends for stop in ends for step in (1, -1, 2, -2, -5)):
        found = base[key]
        assert found.labels(0).to_pylist() == names[key].tolist()
        np.testing.assert_array_equal(found.to_numpy(), values[key])
    assert base[-5:-2:-1].save(tmp_path / "empty").shape == values[-5:-2:-1].shape


def test_product_with_itself_has_default_names_and_labels() -> None:
    gram = CROSSED.T @ CROSSED
    assert gram.dims == ("d0", "d1")
    assert [gram.labels(axis).to_pylist() for axis in (0, 1)] == [["x", "y"]] * 2
    assert (gram + gram.T == 2 * gram).all()  # by position, which names would forbid
    named = gram.rename(d0="film", d1="other")
    assert sp.sql("select other, value from G where film = 'x'", G=named).fetchall() == [("x", 4.0)]


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=5), st.sampled_from(["text", "int", "date"]))
@settings(deadline=None, max_examples=25)
def test_repeated_labels_are_never_picked_from(letters: list[str], kind: str) -> None:
    kinds: dict[str, Any] = {"text": str, "int": ord, "date": lambda letter: date(2026, 1, ord(letter) - 96)}
    labels = [kinds[kind](letter) for letter in letters]
    series = pd.Series(np.arange(1, len(labels) + 1), index=pd.Index(labels))

    def join(given: list[Any]) -> sp.Tensor:
        return sp.concat([make_labelled([k], u=[label]) for k, label in enumerate(given, 1)])

    a = join(labels)
    for wanted in (*labels, [labels[0]], labels[:2], set(labels), np.array(labels)):
        several = not isinstance(wanted, str | int | date)
        wants: list[Any] = list(wanted) if several else [wanted]
        if any(labels.count(label) > 1 for label in wants):
            with pytest.raises(LabelError, match=r"occurs \d times along dimension 'u'") as caught:
                a.sel(u=wanted)
            label = next(one for one in labels if f"label {one!r} occurs" in str(caught.value))
            both = eval(re.findall(r"A\.isel\(.*\)$", str(caught.value))[0], {"A": a})
            assert both.to_numpy().tolist() == series[series.index == label].tolist()
        else:
            expected = sorted(wants) if isinstance(wanted, set) else wants
            found = a.sel(u=wanted)
            values = found.to_numpy().tolist() if several else [found]
            order = sorted(values) if isinstance(wanted, set) else values
            assert order == (sorted if isinstance(wanted, set) else list)([series[one] for one in expected])
    bounds = slice(min(labels), max(labels[:2]))
    oracle = pd.Series(series.to_numpy(), index=pd.Index(sorted(labels))).loc[bounds]
    assert join(sorted(labels)).sel(u=bounds).to_numpy().tolist() == oracle.tolist()


def test_repeated_labels_of_graphs_and_models() -> None:
    labels = ["a", "b", "c"]
    ratings = make_labelled(np.eye(3) + 1, user=labels, item=labels)[[0, 1, 1, 2]]
    model = sp.models.ALS(2, epochs=1).fit(ratings)
    assert len(model.recommend(["a"], 1)[0]) == 1
    with pytest.raises(LabelError, match=r"label 'b' occurs 2 times .*positions=True"):
        model.recommend(["b"], 1)
    with pytest.raises(LabelError, match="label 'b' occurs 2 times"):
        sp.models.evaluation.rmse(model, ratings[:2])
    truth = ratings[:, [0, 0, 2]]
    with pytest.raises(LabelError, match="label 'a' occurs 2 times along dimension 'item'"):
        sp.models.evaluation.metrics(np.array([["a"]] * 4), truth, recall=[1], ndcg=[1])
    graph = make_labelled(np.eye(3), src=labels, dst=labels)[[0, 0, 1]][:, [0, 0, 1]]
    with pytest.raises(LabelError, match="label 'a' occurs 2 times"):
        sp.graph.bfs(graph, "a")


def test_diagonals_of_labels_without_a_common_one_raise() -> None:
    A = sp.asarray([[1.0, 2], [3, 4]], dims=("u", "i"), labels={"u": ["a", "b"], "i": ["x", "y"]})
    for take in (np.diagonal, np.trace, sp.diagonal, lambda A: sp.einsum("ii->i", A)):
        with pytest.raises(LabelError, match=r"along a diagonal, 'u' and 'i' .* take it of to_numpy\(\)$"):
            take(A)
    assert np.diagonal(A.to_numpy()).tolist() == [1, 4]
    A.set_labels("i", ["b", "a"])
    assert np.trace(A) == 5
