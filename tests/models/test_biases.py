"""The mean and the biases of explicit ratings, against a plain ALS that has them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import sparrow as sp
from sparrow.errors import InvalidValueError
from sparrow.models import ALS, evaluation
from tests.models import als_reference as reference

Floats = NDArray[np.float64]

OPTIONS: dict[str, Any] = {"regularization": 0.4, "unobserved_weight": 0, "biases": True, "solver": "exact"}


def ratings(rows: int = 40, cols: int = 30, seed: int = 0) -> Floats:
    """Ratings 1 to 5 by user and item; two rows and two columns are empty."""
    rng = np.random.default_rng(seed)
    taste = np.add.outer(rng.normal(0, 1, rows), rng.normal(0, 1, cols)) + rng.normal(0, 0.7, (rows, 2)) @ rng.normal(
        0, 0.7, (2, cols)
    )
    out = np.clip(np.round(2 * (3.5 + taste)) / 2, 0.5, 5) * (rng.random((rows, cols)) < 0.4)
    out[[3, 7]], out[:, [0, 9]] = 0, 0
    return np.asarray(out)


DENSE = ratings()


def plain(A: Floats, W: Floats, H: Floats, epochs: int, regularization: float, nu: float) -> dict[str, Any]:
    """Reference ALS with biases, row by row, from initial factors W and H."""
    mean = A[A != 0].mean()
    biases = [np.zeros(A.shape[0]), np.zeros(A.shape[1])]
    tables = [W.astype(float), H.astype(float)]
    for step in range(2 * epochs):
        mine, other = step % 2, 1 - step % 2
        for row, line in enumerate(A if mine == 0 else A.T):
            at = np.flatnonzero(line)
            if not len(at):
                continue
            fixed = np.column_stack([tables[other][at], np.ones(len(at))])
            left = fixed.T @ fixed + regularization * len(at) ** nu * np.eye(fixed.shape[1])
            result = np.linalg.solve(left, fixed.T @ (line[at] - mean - biases[other][at]))
            tables[mine][row], biases[mine][row] = result[:-1], result[-1]
    errors = (A - mean - biases[0][:, None] - biases[1] - tables[0] @ tables[1].T)[A != 0]
    loss = (errors**2).sum()
    for side in (0, 1):
        counts = (A != 0).sum(axis=1 - side)
        squares = (tables[side] ** 2).sum(axis=1) + biases[side] ** 2
        loss += (regularization * counts[counts > 0] ** nu * squares[counts > 0]).sum()
    return {
        "mean": mean, "users": biases[0], "items": biases[1], "loss": loss,
        "scores": mean + biases[0][:, None] + biases[1] + tables[0] @ tables[1].T,
    }  # fmt: skip


@pytest.mark.parametrize("nu", [0.0, 1.0])
@pytest.mark.parametrize("weighted", [True, False])
def test_against_reference(nu: float, weighted: bool) -> None:
    dense = DENSE if weighted else (DENSE != 0).astype(float)  # ratings of 1 are stored without values
    start = ALS(3, epochs=0, init="normal", frequency_scaling=nu, **OPTIONS).fit(dense)
    expected = plain(dense, start.user_factors[:, :3], start.item_factors[:, :3], 4, 0.4, nu)
    model = ALS(3, epochs=4, init="normal", frequency_scaling=nu, **OPTIONS).fit(dense)
    assert model.mean_ == pytest.approx(expected["mean"], rel=1e-6)
    np.testing.assert_allclose(model.user_biases_, expected["users"], atol=1e-4)
    np.testing.assert_allclose(model.item_biases_, expected["items"], atol=1e-4)
    np.testing.assert_allclose(model.user_factors @ model.item_factors.T, expected["scores"], atol=3e-4)
    assert model.loss_[-1] == pytest.approx(expected["loss"], rel=1e-5, abs=1e-8)
    assert (np.diff(model.loss_) <= 1e-6 * model.loss_[:-1] + 1e-9).all()
    assert not model.user_biases_[[3, 7]].any()
    assert not model.item_biases_[[0, 9]].any()


@pytest.mark.parametrize("options", [{"solver": "cg", "cg_steps": 30}, {"solver": "subspace", "block": 9}])
def test_iterative_solvers_converge(options: dict[str, Any]) -> None:
    exact = ALS(8, epochs=2, init="normal", **OPTIONS).fit(DENSE)
    model = ALS(8, epochs=2, init="normal", **{**OPTIONS, **options}).fit(DENSE)
    np.testing.assert_allclose(model.user_factors, exact.user_factors, atol=2e-3)


def test_exact_ill_conditioned() -> None:
    model = ALS(8, 1e-5, unobserved_weight=0, biases=True, epochs=2, solver="exact", init="normal").fit(DENSE)
    fixed = np.column_stack([model.user_factors[:, :8], np.ones(len(DENSE))])
    remainder = np.where(DENSE != 0, DENSE - model.mean_ - model.user_biases_[:, None], 0)
    expected = reference.solve(remainder.T, fixed, 1e-5, 0)
    result = np.column_stack([model.item_factors[:, :8], model.item_biases_])
    np.testing.assert_allclose(result, expected, atol=2e-3)


def test_predict_recommend_fold_in() -> None:
    model = ALS(4, epochs=6, **OPTIONS).fit(DENSE)
    scores = model.user_factors @ model.item_factors.T
    rows, items = np.nonzero(np.ones_like(DENSE))
    np.testing.assert_allclose(model.predict(rows, items).reshape(DENSE.shape), scores, rtol=1e-5)
    np.testing.assert_allclose(model.predict(3, np.arange(30)), model.mean_ + model.item_biases_, rtol=1e-5)
    np.testing.assert_allclose(scores[:, 9], model.mean_ + model.user_biases_, rtol=1e-5)

    candidates = np.where((DENSE != 0) | ~DENSE.any(axis=0), -np.inf, scores)
    ids, result = model.recommend([5, 3], k=4)
    np.testing.assert_array_equal(ids, np.argsort(-candidates[[5, 3]], axis=1, kind="stable")[:, :4])
    np.testing.assert_allclose(result, -np.sort(-candidates[[5, 3]], axis=1)[:, :4], rtol=1e-5)
    assert set(model.recommend([5], k=30, exclude=False)[0][0]) == set(range(30)) - {0, 9} | {-1}

    folded = model.fold_in(DENSE)
    fixed = np.column_stack([model.item_factors[:, :4], np.ones(30)])
    remainder = np.where(DENSE != 0, DENSE - model.mean_ - model.item_biases_, 0)
    expected = reference.solve(remainder, fixed, 0.4, 0)
    np.testing.assert_allclose(folded[:, :4], expected[:, :4], atol=1e-4)
    np.testing.assert_allclose(folded[:, 4], model.mean_ + expected[:, 4], atol=1e-4)
    assert (folded[:, 5] == 1).all()
    np.testing.assert_array_equal(model.recommend(DENSE[5:6], k=4)[1], model.recommend(sp.asarray(DENSE[5:6]), k=4)[1])


def test_similar_ignores_biases() -> None:
    model = ALS(4, epochs=6, **OPTIONS).fit(DENSE)
    H = model.item_factors[:, :4].astype(float)
    with np.errstate(invalid="ignore"):
        lines = H / np.linalg.norm(H, axis=1, keepdims=True)
    cosines = np.nan_to_num(lines @ lines[2], nan=-np.inf)
    cosines[2] = -np.inf
    ids, result = model.similar([2], k=3)
    np.testing.assert_array_equal(ids[0], np.argsort(-cosines)[:3])
    np.testing.assert_allclose(result[0], np.sort(cosines)[::-1][:3], rtol=1e-5)
    np.testing.assert_array_equal(model.similar(model.item_factors[2:3], k=4)[0][0, 1:], ids[0])


def test_saved_factors(tmp_path: Path) -> None:
    model = ALS(4, epochs=3, **OPTIONS).fit(DENSE)
    model.save_factors(tmp_path / "factors")
    users, items = (pq.read_table(tmp_path / "factors" / f"{side}_factors.parquet") for side in ("user", "item"))
    left, right = (np.array(table["factors"].to_pylist(), np.float32) for table in (users, items))
    np.testing.assert_allclose(left @ right.T, model.user_factors @ model.item_factors.T, rtol=1e-6)
    model.recommend_all(tmp_path / "best.parquet", k=2)
    ranking = pq.read_table(tmp_path / "best.parquet").to_pydict()
    ids, scores = model.recommend(np.arange(40), k=2)
    assert ranking["item"] == ids.ravel().tolist()
    np.testing.assert_array_equal(ranking["score"], scores.ravel())


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("solver", ["cg", "exact"])
def test_bit_identical_variants(tmp_path: Path, dtype: Any, solver: Any) -> None:
    dense = ratings(600, 500, 3)
    options: dict[str, Any] = {**OPTIONS, "factors": 6, "dtype": dtype, "solver": solver}
    model = ALS(**options, epochs=4).fit(dense)

    def bits(other: ALS) -> list[bytes]:
        arrays = [other.user_factors, other.item_factors, other.user_biases_, other.item_biases_, other.loss_]
        return [array.tobytes() for array in arrays]

    stored = sp.asarray(dense).save(tmp_path / "stored", orders=[(1, 0)])
    streamed = ALS(**options, epochs=4, buffer=1, memory_map=tmp_path / "maps").fit(stored)
    assert (streamed.mean_, bits(streamed)) == (model.mean_, bits(model))
    ALS(**options, epochs=2, checkpoint=tmp_path / "kept").fit(dense)
    assert bits(ALS(**options, epochs=4, checkpoint=tmp_path / "kept").fit(dense)) == bits(model)
    assert bits(pickle.loads(pickle.dumps(model))) == bits(model)
    if dtype == "float32":
        with pytest.raises(InvalidValueError, match="different biases"):
            ALS(**{**options, "biases": False}, checkpoint=tmp_path / "kept").fit(dense)


def test_biases_require_explicit_ratings() -> None:
    with pytest.raises(InvalidValueError, match=r"biases=True requires explicit ratings, unobserved_weight=0"):
        ALS(biases=True).fit(DENSE)
    with pytest.raises(InvalidValueError, match="biases must be True or False, got 'yes'"):
        ALS(biases="yes").fit(DENSE)  # type: ignore[arg-type]
    model = ALS(2, epochs=1).fit(DENSE)
    assert not hasattr(model, "mean_")
    assert not hasattr(model, "item_biases_")


def test_empty_matrix() -> None:
    model = ALS(2, epochs=1, **OPTIONS).fit(sp.zeros((3, 4)))
    assert model.mean_ == 0
    assert not model.predict([0, 1], [2, 3]).any()
    assert (model.recommend([0], k=2)[0] == -1).all()


def test_biases_lower_rmse(cli: Any, tmp_path: Path) -> None:
    dense = ratings(120, 80, 5)
    parts = evaluation.hold_out_entries(dense, 0.1)
    errors = {}
    for biases in (False, True):
        model = ALS(4, 2, unobserved_weight=0, biases=biases, solver="exact", init="normal").fit(parts.train)
        errors[biases] = evaluation.rmse(model, parts.test)
        at = np.nonzero(parts.test.to_numpy())
        expected = (model.user_factors @ model.item_factors.T)[at] - dense[at]
        assert errors[biases] == pytest.approx(np.sqrt((expected**2).mean()), rel=1e-5)
    assert errors[True] < 0.95 * errors[False]
    assert np.isnan(evaluation.rmse(model, sp.zeros((120, 80))))
    sp.asarray(dense).save(tmp_path / "ratings")
    done = cli(
        "als", tmp_path / "ratings", "--unobserved-weight", 0, "--biases", "--factors", 4, "--epochs", 2, "--json"
    )
    assert done.json["settings"]["biases"] is True
    assert done.json["loss"][-1] == pytest.approx(
        ALS(4, unobserved_weight=0, biases=True, epochs=2).fit(dense).loss_[-1], rel=1e-12
    )
