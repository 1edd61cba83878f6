"""Explicit ratings: zeros as ratings, constant ratings, and frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import sparrow as sp
from sparrow.errors import InvalidValueError, LabelError, SparrowError, UnsupportedError
from sparrow.models import ALS, evaluation

NAN = float("nan")
EXPLICIT: dict[str, Any] = {"unobserved_weight": 0, "regularization": 0.3}


def with_nan_fill(dense: NDArray[Any], labels: Any = None) -> sp.Tensor:
    """Return the elements that are not NaN, over a fill value of NaN."""
    coords = np.nonzero(~np.isnan(dense))
    names = ("user", "film") if labels else None
    return sp.from_coords(coords, dense[coords], shape=dense.shape, fill_value=NAN, dims=names, labels=labels)


def draw_ratings(seed: int, shape: tuple[int, int] = (25, 18)) -> NDArray[Any]:
    """Return ratings of which many are 0; absent ones are NaN."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(shape) < 0.4, rng.integers(-2, 3, shape), NAN)


def solve(dense: NDArray[Any], fixed: NDArray[Any], regularization: float) -> NDArray[Any]:
    """Return the exact factors of rows, with 0 as a rating."""
    out = np.zeros((len(dense), fixed.shape[1]))
    for row, line in enumerate(dense):
        at = np.flatnonzero(~np.isnan(line))
        if len(at):
            left = fixed[at].T @ fixed[at] + regularization * np.eye(fixed.shape[1])
            out[row] = np.linalg.solve(left, fixed[at].T @ line[at])
    return out


# -- zeros are ratings ---------------------------------------------------------------------------


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["memory", "stored", "streamed"]))
def test_zeros_are_ratings(seed: int, where: str) -> None:
    import tempfile

    dense = draw_ratings(seed)
    with tempfile.TemporaryDirectory() as folder:
        A = with_nan_fill(dense)
        A = A if where == "memory" else A.save(f"{folder}/a", orders=[(1, 0)])
        options: Any = {"buffer": 1} if where == "streamed" else {}
        model = ALS(3, epochs=3, solver="exact", init="normal", **EXPLICIT, **options).fit(A)
    users, items = (np.asarray(table, np.float64) for table in (model.user_factors, model.item_factors))
    np.testing.assert_allclose(items, solve(dense.T, users, 0.3), atol=1e-4)
    np.testing.assert_allclose(model.fold_in(with_nan_fill(dense[:5])), solve(dense[:5], items, 0.3), atol=1e-4)
    errors = (dense - users @ items.T)[~np.isnan(dense)]
    assert evaluation.rmse(model, with_nan_fill(dense)) == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-4)


def test_rating_of_zero_is_rated() -> None:
    dense = draw_ratings(1)
    model = ALS(3, epochs=2, **EXPLICIT).fit(with_nan_fill(dense))
    ids, _ = model.recommend(np.arange(25), k=18)
    for row, line in zip(dense, ids, strict=True):
        assert set(line[line >= 0]) == (set(np.flatnonzero(np.isnan(row))) if (~np.isnan(row)).any() else set())
    history = with_nan_fill(dense[3:4])
    assert not set(model.recommend(history, k=18)[0][0]) & set(np.flatnonzero(~np.isnan(dense[3])))


def test_centred_ratings_lose_nothing() -> None:
    stars = np.where(np.isnan(draw_ratings(2)), NAN, draw_ratings(2) + 3)
    A = with_nan_fill(stars)
    means = np.nanmean(stars, axis=1)
    model = ALS(2, epochs=2, solver="exact", init="normal", **EXPLICIT).fit(A - sp.asarray(means)[:, None])
    other = ALS(2, epochs=2, solver="exact", init="normal", **EXPLICIT).fit(with_nan_fill(stars - means[:, None]))
    np.testing.assert_array_equal(model.user_factors, other.user_factors)
    assert int((stars == means[:, None]).sum()) > 0


def test_splits_keep_fill() -> None:
    A = with_nan_fill(draw_ratings(3), {"user": [f"u{k}" for k in range(25)], "film": list(range(100, 118))})
    parts = evaluation.hold_out_entries(A)
    assert np.isnan(parts.train.fill_value)
    assert parts.train.nnz + parts.test.nnz == A.nnz
    held_out = evaluation.hold_out(A)
    assert held_out.history.dims == ("user", "film")
    users: Any = held_out.truth.labels("user")
    assert users.to_pylist() == [f"u{k}" for k in held_out.rows]
    assert held_out.history.nnz + held_out.truth.nnz == A[held_out.rows].nnz
    by_number = evaluation.split(A, test=0.3).train
    assert np.isnan(by_number.fill_value)


def test_fill_value_errors() -> None:
    A = with_nan_fill(draw_ratings(4))
    with pytest.raises(UnsupportedError, match=r"unobserved_weight=0\.001: .*np\.nan_to_num\(A\)"):
        ALS(2).fit(A)
    assert ALS(2, epochs=1).fit(np.nan_to_num(A)).n_features_in_ == 18
    with pytest.raises(UnsupportedError, match="must be 0, got 2"):
        ALS(2, **EXPLICIT).fit(sp.full((3, 3), 2.0))
    with pytest.raises(InvalidValueError, match="fill_value=nan"):
        ALS(2, **EXPLICIT).fit(draw_ratings(4))


# -- constant ratings ----------------------------------------------------------------------------

CONSTANT: dict[str, Any] = {
    "all": np.full((6, 5), 3.0),
    "likes": np.ones((6, 5)),
    "one": np.array([[0, 0, 0], [0, 4.0, 0]]),
    "holes": np.full((9, 7), 2.0) * (np.random.default_rng(0).random((9, 7)) < 0.5),
    "rows": np.repeat([[1.0], [5.0]], 4, axis=1),
}


@pytest.mark.parametrize("name", CONSTANT)
@pytest.mark.parametrize("solver", ["cg", "exact", "subspace"])
@pytest.mark.parametrize("regularization", [0.01, 0.2, 10.0])
def test_constant_ratings(name: str, solver: Any, regularization: float) -> None:
    dense = CONSTANT[name]
    model = ALS(2, regularization, unobserved_weight=0, biases=True, solver=solver, epochs=16).fit(dense)
    rows, items = dense.nonzero()
    assert np.isfinite(model.loss_).all()
    if name != "rows":
        np.testing.assert_allclose(model.predict(rows, items), dense[rows, items], rtol=1e-5)
    ids, _ = model.recommend([rows[0]], k=7, exclude=False)
    assert set(ids[0].tolist()) - {-1} == set(np.flatnonzero(dense.any(axis=0)).tolist())


def test_constant_ratings_after_loading(tmp_path: Path) -> None:
    model = ALS(2, unobserved_weight=0, biases=True, solver="exact").fit(CONSTANT["one"])
    model.save(tmp_path / "model")
    assert sp.models.load(tmp_path / "model").recommend([0], k=3)[0].tolist() == [[1, -1, -1]]


@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1e-10])
@pytest.mark.parametrize("biases", [True, False])
def test_tiny_ratings(scale: float, biases: bool) -> None:
    dense = scale * np.random.default_rng(0).random((8, 6))
    model = ALS(2, 0.1, unobserved_weight=0, biases=biases, epochs=8).fit(dense)
    assert np.isfinite(model.user_factors).all()
    assert evaluation.rmse(model, dense) < 1e-3


# -- frames --------------------------------------------------------------------------------------

TABLE = pd.DataFrame(
    {"user": ["a", "a", "b", "c", "c"], "film": ["x", "y", "x", "y", "z"], "value": [1.0, 5.0, 3.0, 0.0, 2.0]}
)


def scores(model: ALS) -> NDArray[Any]:
    return np.asarray(model.user_factors @ model.item_factors.T)


def test_pivoted_frame() -> None:
    wide = TABLE.pivot_table(index="user", columns="film", values="value")
    model = ALS(2, epochs=2, **EXPLICIT).fit(wide)
    expected = ALS(2, epochs=2, **EXPLICIT).fit(with_nan_fill(wide.to_numpy()))
    np.testing.assert_array_equal(scores(model), scores(expected))
    assert model.labels("row").to_pylist() == ["a", "b", "c"]  # type: ignore[union-attr]
    assert model.recommend(["b"], k=2)[0].tolist() == [["z", "y"]] or set(model.recommend(["b"], k=2)[0][0]) == {
        "y",
        "z",
    }
    turned = wide[["z", "x", "y"]].iloc[:2]
    np.testing.assert_allclose(model.fold_in(turned), model.fold_in(wide.iloc[:2]), rtol=1e-5)
    assert model.recommend(turned, k=2)[0].shape == (2, 2)
    assert evaluation.rmse(model, wide) == pytest.approx(evaluation.rmse(expected, with_nan_fill(wide.to_numpy())))


@pytest.mark.parametrize(
    ("frame", "rows", "items"),
    [
        (pd.DataFrame([[0, 1], [2, 0]], index=["a", "b"], columns=["x", "y"]), ["a", "b"], ["x", "y"]),
        (pd.DataFrame(np.eye(3)), None, None),
        (pd.DataFrame(np.eye(3), index=pd.Index([7, 3, 5], name="user")), [7, 3, 5], None),
        (pd.DataFrame(np.eye(2), columns=[318, 1]), None, [318, 1]),
        (pd.DataFrame({"x": [True, False], "y": [True, True]}, index=["a", "b"]), ["a", "b"], ["x", "y"]),
        (pd.DataFrame({"x": pd.array([1, None], "Int64"), "y": pd.array([0, 2], "Int64")}, index=["a", "b"]),
         ["a", "b"], ["x", "y"]),
    ],
)  # fmt: skip
def test_frames_are_matrices(frame: Any, rows: Any, items: Any) -> None:
    model = ALS(2, epochs=1, **EXPLICIT).fit(frame)
    assert model._training.shape == frame.shape
    assert [found and found.to_pylist() for found in map(model.labels, ("row", "item"))] == [rows, items]  # type: ignore[arg-type]


@pytest.mark.parametrize("frame", [TABLE, TABLE[TABLE.value != 3], TABLE.iloc[::-1]])
def test_frames_are_tables(frame: Any) -> None:
    model = ALS(2, epochs=1, **EXPLICIT).fit(frame)
    expected = sp.from_relation(frame, coords=["user", "film"])
    np.testing.assert_array_equal(model._training.to_numpy(), expected.to_numpy())
    assert ALS(2, epochs=1).fit(frame[["user", "film"]])._training.nnz == len(frame)


@pytest.mark.parametrize(
    ("frame", "error"),
    [
        (TABLE.rename(columns={"value": "stars"}), r"from_relation\(frame, coords="),
        (TABLE.assign(day=1), r"from_relation\(frame, coords="),
        (pd.DataFrame({"x": ["much"]}, index=["a"]), "must be numbers"),
        (pd.DataFrame(np.eye(2), index=["a", "a"]), "distinct"),
        (pd.DataFrame(np.eye(2), index=[0.5, 1.5]), "texts, integers or dates"),
    ],
)
def test_frame_errors(frame: Any, error: str) -> None:
    with pytest.raises(SparrowError, match=error):
        ALS(2, epochs=1).fit(frame)


def test_unknown_labels_of_a_frame() -> None:
    wide = TABLE.pivot_table(index="user", columns="film", values="value")
    model = ALS(2, epochs=1, **EXPLICIT).fit(wide)
    with pytest.raises(LabelError, match="unknown label 'tom'"):
        model.recommend(["tom"])
