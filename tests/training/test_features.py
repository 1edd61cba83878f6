"""Against scikit-learn, which computes the same in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.model_selection import train_test_split as theirs
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, StandardScaler, normalize

import sparrow as sp
from sparrow.errors import InvalidValueError, LabelError, ShapeError, TooLargeError, UnsupportedError
from sparrow.training import hashed, idf, one_hot, scales, train_test_split


@pytest.fixture
def X(tmp_path: Path) -> Any:
    rng = np.random.default_rng(2)
    dense = np.where(rng.random((60, 11)) < 0.3, rng.integers(1, 6, (60, 11)), 0).astype(float)
    dense[:, 4] = 0
    dense[7] = 0
    return sp.asarray(dense).save(tmp_path / "x.sparrow")


# -- parts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0.25, 0.31, 7])
@pytest.mark.parametrize("stratified", [False, True])
def test_split(X: Any, size: Any, stratified: bool) -> None:
    y = np.repeat(["a", "b", "c"], [33, 17, 10])
    train, test, y_train, y_test = train_test_split(X, y, size, seed=3, stratify=True if stratified else None)
    expected = theirs(np.arange(60), y, test_size=size, random_state=0, stratify=y if stratified else None)
    assert (len(train), len(test)) == (len(expected[0]), len(expected[1]))
    if stratified:
        for ours, other in ((y_train, expected[2]), (y_test, expected[3])):
            counts = [np.bincount(np.unique(part, return_inverse=True)[1], minlength=3) for part in (ours, other)]
            assert np.abs(counts[0] - counts[1]).max() <= 1
    lines = np.concatenate([train.to_numpy(), test.to_numpy()])
    np.testing.assert_array_equal(np.sort(lines, axis=0), np.sort(X.to_numpy(), axis=0))
    again = train_test_split(X, sp.asarray(np.arange(60)), size, seed=3, stratify=y if stratified else None)
    np.testing.assert_array_equal(y[again[3].to_numpy()], y_test)
    np.testing.assert_array_equal(X.to_numpy()[again[3].to_numpy()], test.to_numpy())
    if not stratified:  # the draw is that of NumPy's permutation
        assert set(again[3].to_numpy()) == set(np.random.default_rng(3).permutation(60)[: len(test)])
    other = train_test_split(X, np.arange(60), size, seed=4)
    assert set(other[3]) != set(again[3].to_numpy())


def test_split_reads_nothing(X: Any) -> None:
    with sp.explained() as plans:
        train, test = train_test_split(X)
        assert plans == []
    assert (train.shape, test.shape) == ((45, 11), (15, 11))
    batch = next(iter(sp.batches(train, batch_size=45)))
    np.testing.assert_array_equal(batch.X.to_numpy(), train.to_numpy())


# -- scales and weights --------------------------------------------------------------------------


def test_scale_columns(X: Any) -> None:
    csr = X.to_scipy()
    standard, largest = StandardScaler(with_mean=False).fit(csr), MaxAbsScaler().fit(csr)
    np.testing.assert_allclose(scales(X), standard.scale_)
    np.testing.assert_allclose((X / scales(X)).to_numpy(), standard.transform(csr).toarray())
    np.testing.assert_allclose((X / scales(X, "max")).to_numpy(), largest.transform(csr).toarray())
    scaled = X / scales(X)
    assert scaled.nnz == X.nnz
    batch = next(iter(sp.batches(scaled, batch_size=60)))
    np.testing.assert_allclose(batch.X.to_numpy(), standard.transform(csr).toarray())


@pytest.mark.parametrize("by", ["l1", "l2", "max"])
def test_scale_rows(X: Any, by: Any) -> None:
    np.testing.assert_allclose((X / scales(X, by, axis=1)).to_numpy(), normalize(X.to_scipy(), by).toarray())


@pytest.mark.parametrize("smooth", [True, False])
def test_tf_idf(X: Any, smooth: bool) -> None:
    filled = X + (sp.asarray(np.arange(11) == 4) if not smooth else 0)  # scikit-learn divides by 0 there
    filled = filled if smooth else sp.asarray(filled)
    csr = scipy.sparse.csr_array(filled.to_numpy())
    weighed = filled * idf(filled, smooth)
    result = weighed / scales(weighed, "l2", axis=1)
    np.testing.assert_allclose(result.to_numpy(), TfidfTransformer(smooth_idf=smooth).fit_transform(csr).toarray())
    assert np.isfinite(idf(X, smooth)).all()


# -- columns -------------------------------------------------------------------------------------


def test_hashing_sums_columns(X: Any) -> None:
    for signed in (False, True):
        result = hashed(X, 4, signed, seed=1)
        kernel = hashed(sp.eye(11), 4, signed, seed=1).to_numpy()
        assert result.shape == (60, 4)
        assert (np.abs(kernel).sum(axis=1) == 1).all()
        assert (kernel < 0).any() == signed
        np.testing.assert_allclose(result.to_numpy(), X.to_numpy() @ kernel)
    assert hashed(X != 0, 4).dtype == np.int64
    assert hashed(X.astype("float32"), 4).dtype == np.float32
    places = hashed(sp.eye(20_000), 16, signed=False).sum(axis=0).to_numpy()
    assert ((places - 1250) ** 2 / 1250).sum() < 37.7  # the 0.999 quantile of chi-squared with 15 degrees of freedom
    rows = sp.random((2, 3000), density=0.5, seed=3)
    products = []
    for seed in range(40):
        a, b = hashed(rows, 64, seed=seed).to_numpy()
        products.append(a @ b)
    a, b = rows.to_numpy()
    assert abs(np.mean(products) - a @ b) < 4 * np.std(products) / np.sqrt(40)


def test_scales_of_narrow_integers() -> None:
    dense = np.array([[-128, 127], [-128, 0]], np.int8)
    np.testing.assert_array_equal(scales(dense, "max"), [128, 127])
    np.testing.assert_array_equal(scales(dense, "l1"), [256, 127])
    np.testing.assert_array_equal(scales(dense, "l2"), np.sqrt(np.square(dense.astype(float)).sum(axis=0)))
    np.testing.assert_array_equal(scales(np.array([[3 + 4j, 0]]), "l2"), [5, 1])


def test_empty_matrices() -> None:
    for by in ("std", "max", "l1", "l2"):
        np.testing.assert_array_equal(scales(np.zeros((0, 3)), by), np.ones(3))
    for smooth in (True, False):
        np.testing.assert_array_equal(idf(np.zeros((0, 3)), smooth), np.ones(3))


def test_bundles_and_paths(tmp_path: Path) -> None:
    X, y = sp.random((40, 6), density=0.3, seed=1), np.arange(40) % 2
    bundle = sp.Bundle({"X": X, "y": y}).save(tmp_path / "data.sparrow")
    for given in (bundle, tmp_path / "data.sparrow"):
        parts = train_test_split(given, test_size=10, stratify=True)
        assert [len(part) for part in parts] == [30, 10, 30, 10]
        assert parts[3].sum() == 5
        np.testing.assert_array_equal(scales(given, "l2"), scales(X, "l2"))


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_one_hot(kind: Any) -> None:
    rng = np.random.default_rng(5)
    columns = {"city": rng.choice(["Rome", "Bern", "Oslo"], 50), "age": rng.integers(20, 25, 50), "other": np.ones(50)}
    X: Any = one_hot(kind(columns), ["city", "age"])
    encoder = OneHotEncoder()
    expected = encoder.fit_transform(np.column_stack([columns["city"].astype(object), columns["age"].astype(object)]))
    np.testing.assert_array_equal(X.to_numpy(), expected.toarray())
    assert X.labels("feature").to_pylist() == [
        name.replace("x0_", "city=").replace("x1_", "age=") for name in encoder.get_feature_names_out()
    ]
    assert X.dims == ("row", "feature")


def test_one_hot_of_one_column() -> None:
    found = one_hot(pd.DataFrame({"city": ["Rome"]}), "city").labels("feature")
    assert found is not None
    assert found.to_pylist() == ["city=Rome"]
    with pytest.raises(InvalidValueError, match="columns must be a list of names, got 3"):
        one_hot(pd.DataFrame({"city": ["Rome"]}), 3)  # type: ignore[arg-type]


def test_one_hot_streams_and_nulls() -> None:
    import duckdb

    result: Any = one_hot(duckdb.sql("select i % 3 as a, nullif(i % 2, 1) as b from range(5000) t(i)"), ["b", "a"])
    assert result.labels("feature").to_pylist() == ["b=0", "a=0", "a=1", "a=2"]
    rows = np.arange(5000)
    np.testing.assert_array_equal(
        result.to_numpy(), np.column_stack([rows % 2 == 0, *(rows % 3 == k for k in range(3))])
    )
    words = pl.DataFrame({"a": ["x", "y", None]}, schema={"a": pl.Categorical})
    assert one_hot(words, ["a"]).to_numpy().tolist() == [[1, 0], [0, 1], [0, 0]]


# -- bad input -----------------------------------------------------------------------------------


def test_errors(X: Any) -> None:
    for size in ("a", np.nan, np.inf):
        with pytest.raises(
            InvalidValueError, match=f"test_size must be a fraction or a number of rows, got '?{size}'?"
        ):
            train_test_split(X, test_size=size)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match=r"seed must be .*, got -1"):
        train_test_split(X, seed=-1)
    for call in (scales, idf, lambda row: hashed(row, 2)):
        with pytest.raises(ShapeError, match=r"X must be a matrix .*, got shape \(4,\)"):
            call(np.ones(4))
    with pytest.raises(InvalidValueError, match=r"columns must be a positive integer, got 1\.5"):
        hashed(X, 1.5)  # type: ignore[arg-type]
    for size in (0, 60, 0.0, 1.0, -3):
        with pytest.raises(InvalidValueError, match=f"must leave rows in both parts, got test_size={size}"):
            train_test_split(X, test_size=size)
    with pytest.raises(ShapeError, match=r"y must have one value per row, 60 rows, got shape \(5,\)"):
        train_test_split(X, np.arange(5))
    with pytest.raises(ShapeError, match="stratify must have one value per row"):
        train_test_split(X, stratify=np.arange(5))
    with pytest.raises(InvalidValueError, match=r"by must be .*, got 'mean'"):
        scales(X, "mean")  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match=r"axis must be 0 .*, got 2"):
        scales(X, axis=2)
    with pytest.raises(InvalidValueError, match="columns must be a positive integer, got 0"):
        hashed(X, 0)
    with sp.config(memory_limit=1000), pytest.raises(TooLargeError, match="hashing 1000 columns"):
        hashed(sp.zeros((2, 1000)), 4)
    with pytest.raises(LabelError, match="columns must be among 'a', got 'b'"):
        one_hot(pl.DataFrame({"a": [1]}), ["b"])
    with pytest.raises(LabelError, match="columns must be unique"):
        one_hot(pl.DataFrame({"a": [1]}), ["a", "a"])
    with pytest.raises(UnsupportedError, match="column 'a' must have scalar values"):
        one_hot(pl.DataFrame({"a": [[1], [2]]}), ["a"])
    with pytest.raises(UnsupportedError, match="requires a table and columns, got list"):
        one_hot([1], ["a"])
