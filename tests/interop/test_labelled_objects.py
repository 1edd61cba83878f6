"""Conversions of xarray arrays and pandas frames keep names and labels, or raise."""

from __future__ import annotations

import datetime as dt
import operator
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow.errors import InvalidValueError, LabelError, ShapeError, SparrowError, UnsupportedError

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


def foreign_operands(order: list[int], labelled: bool = True) -> dict[str, Any]:
    """Return two tensors, and objects of pandas and xarray with labels in an order."""
    xr = pytest.importorskip("xarray")
    labels, dense = list("abc"), np.array([[1.0, 2, 3], [4, 5, 6], [7, 8, 10]])
    index = pandas.Index(labels)[order] if labelled else None
    coords = {"u": np.array(labels)[order], "i": np.array(labels)[order]} if labelled else {}
    A = sp.asarray(dense, dims=("u", "i"), labels={"u": labels, "i": labels})
    v = sp.asarray([1.0, 2, 3], dims=("u",), labels={"u": labels})
    values, both = np.array([10.0, 20, 30])[order], dense[np.ix_(order, order)] * 10
    X = xr.DataArray(both, dims=("u", "i"), coords=coords)
    x = xr.DataArray(values, dims=("u",), coords={"u": coords["u"]} if labelled else {})
    return {
        "A": A, "v": v, "m": v > 1, "s": pandas.Series(values, index=index), "x": x, "X": X, "xr": xr, "np": np,
        "F": pandas.DataFrame(both, index=index, columns=index), "ds": xr.Dataset({"x": x}),
    }  # fmt: skip


FOREIGN_FIRST: dict[str, Any] = {
    "s @ A": [300, 360, 450],
    "np.matmul(s, A)": [300, 360, 450],
    "s @ v": 140,
    "s.dot(v)": 140,
    "F @ v": [140, 320, 530],
    "(F @ A).iloc[0]": [300, 360, 450],
    "(F.T @ A).iloc[0]": [660, 780, 970],
    "(A @ F).iloc[0]": [300, 360, 450],
    "s + v": [11, 22, 33],
    "s.where(m)": [np.nan, 20, 30],
    "s.mask(m, v)": [10, 2, 3],
    "F.where(A > 2).iloc[0]": [np.nan, np.nan, 30],
    "F.add(v, axis=0).iloc[1]": [42, 52, 62],
    "F.sub(v).iloc[1]": [39, 48, 57],
    "F.gt(v, axis='index').iloc[0]": [True, True, True],
    "F.assign(z=v)['z']": [1, 2, 3],
    "s.clip(v)": [10, 20, 30],
    "x + v": [11, 22, 33],
    "x > v": [True, True, True],
    "x.copy().__iadd__(v)": [11, 22, 33],
    "np.add(x, v)": [11, 22, 33],
    "np.hypot(x, v) ** 2": [101, 404, 909],
    "(X + A)[0]": [11, 22, 33],
    "X.where(A > 2)[0]": [np.nan, np.nan, 30],
    "xr.where(x > 0, v, x)": [1, 2, 3],
    "x.fillna(v)": [10, 20, 30],
    "xr.apply_ufunc(np.add, x, v)": [11, 22, 33],
    "(ds + v).x": [11, 22, 33],
}
"""Expressions in which another library has the say, with their values where labels are equal."""


@pytest.mark.parametrize("expression", FOREIGN_FIRST)
def test_foreign_code_does_not_drop_other_labels(expression: str) -> None:
    with pytest.raises(LabelError, match=r"which would be combined by position: (reindex it|convert it)"):
        eval(expression, foreign_operands([2, 0, 1]))
    for labelled in (True, False):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = eval(expression, foreign_operands([0, 1, 2], labelled))
        np.testing.assert_allclose(np.asarray(found), FOREIGN_FIRST[expression])


def test_values_of_foreign_objects_are_not_read() -> None:
    A = sp.asarray([1.0, 2, 3], dims=("u",), labels={"u": list("abc")})
    frame = pandas.DataFrame({"name": ["x", "y", "z"]}, index=list("abc"))
    assert frame.assign(z=A)["z"].tolist() == [1, 2, 3]
    assert frame["name"].where(A > 1).tolist()[1:] == ["y", "z"]
    with pytest.raises(LabelError, match="labels of dimension 'u' differ"):
        frame[::-1].assign(z=A)


@pytest.mark.parametrize("library", ["pandas", "xarray"])
def test_unknown_versions_of_libraries_take_arrays(library: str) -> None:
    A = sp.asarray([1.0, 2, 3], dims=("u",), labels={"u": list("abc")})
    kind = type("Foreign", (), {"__module__": f"{library}.core.other"})
    holders = [None, object(), kind(), *(kind() for _ in range(4))]
    for holder, attributes in zip(
        holders[3:], ({"ndim": 1}, {"ndim": 2}, {"dims": ("u",), "data": [1]}, {"data_vars": {"x": 1}}), strict=True
    ):
        vars(holder).update(attributes)
    for name in ("dot", "_where", "_sanitize_column", "_flex_arith_method", "_binary_op"):
        scope: dict[str, Any] = {"np": np, "__name__": f"{library}.core.other"}
        exec(f"def {name}(self, other, axis=None): return np.asarray(getattr(other, 'variable', other))", scope)
        for holder in holders:
            np.testing.assert_array_equal(scope[name](holder, A), [1, 2, 3])


def test_xarray_does_not_broadcast_names_by_position() -> None:
    space = foreign_operands([0, 1, 2])
    for expression in ("X + v", "np.add(v, X)", "np.add(x, A)", "A * x", "X.T + A"):
        with pytest.raises(LabelError, match=r"combined by position: convert it with sp\.asarray\(array\)"):
            eval(expression, space)
    A, v, X, x = (space[name] for name in ("A", "v", "X", "x"))
    np.testing.assert_array_equal((sp.asarray(X) + v).to_numpy()[1], [42, 52, 62])
    np.testing.assert_array_equal((A * sp.asarray(x)).to_numpy()[1], [80, 100, 120])
    with pytest.raises(NotImplementedError, match="generalized ufuncs"):
        np.vecmat(x, A)
    with pytest.raises(TypeError, match="dot only operates on DataArrays"):
        X @ A


def test_other_calls_of_pandas_and_xarray_take_tensors_as_arrays() -> None:
    space = foreign_operands([2, 0, 1])
    A, v, s, xr = (space[name] for name in ("A", "v", "s", "xr"))
    assert pandas.Series(v, index=list("cab")).tolist() == [1, 2, 3]  # other labels on purpose
    assert pandas.DataFrame(A, index=list("cab")).shape == (3, 3)
    assert s.isin(v).tolist() == [False] * 3
    assert xr.DataArray(v, dims="u").shape == (3,)
    with pytest.raises(AttributeError, match="no attribute 'variable'"):
        _ = A.variable


@pytest.mark.parametrize("kind", ["pandas", "xarray"])
def test_containers_refuse_columns_of_other_labels(kind: str) -> None:
    numbers = sp.asarray([0, 1, 2], dims=("u",), labels={"u": list("abc")})

    def column(order: list[int]) -> Any:
        if kind == "xarray":
            return make_array([list("abc")[k] for k in order], np.array([5, 6, 7])[order])
        return pandas.Series([5, 6, 7], index=list("abc")).iloc[order]

    makers: dict[str, Any] = {
        "COO": lambda data: sp.formats.COO(data, [numbers]),
        "from_coords": lambda data: sp.formats.COO.from_coords([numbers, [0, 0, 0]], data),
        "CSR": lambda data: sp.formats.CSR(data, numbers, [0, 3], shape=(1, 3)),
        "begin and end": lambda end: sp.formats.CSR.from_begin_end([1] * 9, [0] * 9, numbers, end, shape=(3, 9)),
        "RowSparse": lambda data: sp.formats.RowSparse(data, numbers),
        "put": lambda data: sp.formats.RowSparse([[0], [0], [0]], [0, 1, 2]).put(numbers, data),
    }
    for name, make in makers.items():
        with pytest.raises(LabelError, match=r"labels of a tensor and of a \w+ differ.*reindex it"):
            make(column([2, 0, 1]))
        if name == "COO":
            assert make(column([0, 1, 2])).data.tolist() == [5, 6, 7]


BINARY = [np.add, np.subtract, np.multiply, np.divide, np.power, np.greater, np.equal, np.floor_divide]


@pytest.mark.parametrize("index", [None, ["a", "b", "c"]])
@pytest.mark.parametrize("shape", [(2, 3), (1, 3), (2, 2, 3)])
def test_series_broadcast_along_the_last_axis(shape: tuple[int, ...], index: Any) -> None:
    dense, values = np.arange(1.0, 1 + np.prod(shape)).reshape(shape), np.array([2.0, 4, 3])
    A = sp.asarray(dense, dims=(*"xyz"[: len(shape) - 1], "u"), labels={"u": list("abc")})
    series = pandas.Series(values, index=index)
    for function in BINARY:
        for left, right, wanted in ((A, series, function(dense, values)), (series, A, function(values, dense))):
            np.testing.assert_array_equal(np.asarray(function(left, right)), wanted)
    assert (A * series).labels("u").equals(A.labels("u"))
    for product in (A * series, series * A, A.__mul__(pandas.Index(values))):
        np.testing.assert_array_equal(np.asarray(product), dense * values)
    with pytest.raises(LabelError, match="labels of dimension 'u' differ"):
        A * pandas.Series(values, index=list("cab"))
    with pytest.raises(ShapeError, match="do not broadcast"):
        A + pandas.Series([1.0, 2.0])


def test_series_are_written_into_wider_tensors(tmp_path: Path) -> None:
    dense = np.array([[1.0, 0], [2, 3]])
    sp.asarray(dense).save(tmp_path / "A")
    A = opened = sp.open(tmp_path / "A")
    A *= pandas.Series([2.0, 4])
    assert A is opened
    np.testing.assert_array_equal(sp.open(tmp_path / "A").to_numpy(), dense * [2, 4])


@pytest.mark.parametrize("operation", [operator.add, operator.mul, operator.pow, operator.gt, operator.eq])
@pytest.mark.parametrize("dims", [(), ("b",)])
def test_wider_tensors_beside_xarray_raise(operation: Any, dims: tuple[str, ...]) -> None:
    xr = pytest.importorskip("xarray")
    dense, values = np.array([[1.0, 2], [4, 3]]), np.array([2.0, 3]) if dims else np.array(2.0)
    A = sp.asarray(dense, dims=("a", "b"), labels={"b": ["p", "q"]})
    array = xr.DataArray(values, dims=dims, coords={"b": ["p", "q"]} if dims else {})
    for left, right in ((A, array), (array, A), (array.to_dataset(name="x"), A)):
        with pytest.raises(UnsupportedError, match=r"got a tensor of \('a', 'b'\): convert the other with sp\.asarray"):
            operation(left, right)
    np.testing.assert_array_equal(np.asarray(operation(A, sp.asarray(array))), operation(dense, values))
    np.testing.assert_array_equal(np.asarray(operation(sp.asarray(array), A)), operation(values, dense))


@pytest.mark.parametrize("kind", ["csr_array", "csc_array", "coo_array", "dia_array", "lil_array", "csr_matrix"])
def test_multiply_of_scipy_names_the_function(kind: str) -> None:
    dense = np.array([[1.0, 0], [2, 3]])
    S, A = getattr(scipy.sparse, kind)(np.eye(2)), sp.asarray(dense)
    for other in (A, A[1], A[:1]):
        with pytest.raises(UnsupportedError, match=r"use np\.multiply\(S, A\), or S\.multiply\(A\.to_scipy\(\)\)"):
            S.multiply(other)
        wanted = np.eye(2) * other.to_numpy()
        np.testing.assert_array_equal(np.asarray(np.multiply(S, other)), wanted)
        np.testing.assert_array_equal(S.multiply(other.to_scipy()).toarray(), wanted)
    if "array" in kind:
        np.testing.assert_array_equal(np.asarray(S * A), np.eye(2) * dense)
