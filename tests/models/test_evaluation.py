from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import sparrow as sp
from sparrow.errors import IndexingError, InvalidValueError, ShapeError
from sparrow.models.evaluation import (
    Popularity,
    beaten,
    evaluate,
    hold_out,
    hold_out_entries,
    metrics,
    min_links,
    search,
    split,
)


def make_ratings(seed: int, height: int = 60, width: int = 40, density: float = 0.2) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    return (rng.random((height, width)) < density) * rng.integers(1, 9, (height, width))


# -- splitting -----------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.sampled_from([0.02, 0.1, 0.5]))
def test_hold_out_quarter_of_ratings(data: int, seed: int, density: float) -> None:
    dense = make_ratings(data, density=density)
    degrees = (dense != 0).sum(axis=1)
    if not (degrees >= 4).any():
        with pytest.raises(sp.errors.InvalidValueError, match="at least 4 ratings"):
            hold_out(sp.asarray(dense), seed)
        return
    result = hold_out(sp.asarray(dense), seed)
    np.testing.assert_array_equal(result.rows, np.flatnonzero(degrees >= 4))
    history, truth = result.history.to_numpy(), result.truth.to_numpy()
    np.testing.assert_array_equal((truth != 0).sum(axis=1), degrees[result.rows] // 4)
    assert not ((history != 0) & (truth != 0)).any()
    np.testing.assert_array_equal(history + truth, dense[result.rows])
    again = hold_out(sp.asarray(dense), seed)
    np.testing.assert_array_equal(again.truth.to_numpy(), truth)


def test_hold_out_is_uniform() -> None:
    result = hold_out(sp.asarray(np.ones((8000, 9))), seed=1)
    assert result.truth.nnz == 16_000
    share = np.asarray(result.truth.count(axis=0)) / 8000
    np.testing.assert_allclose(share, 2 / 9, atol=0.025)  # five standard deviations


@given(st.integers(0, 2**32 - 1))
def test_split_partitions_rows(seed: int) -> None:
    dense = make_ratings(3, height=50, density=0.3)
    A = sp.asarray(dense)
    parts, more = split(A, seed, test=0.2), split(A, seed, test=0.2, validation=0.1)
    assert parts.validation is None
    assert more.validation is not None
    assert (len(parts.rows), len(more.rows)) == (40, 35)
    np.testing.assert_array_equal(parts.train.to_numpy(), dense[parts.rows])
    np.testing.assert_array_equal(parts.test.truth.to_numpy(), more.test.truth.to_numpy())
    np.testing.assert_array_equal(parts.test.rows, more.test.rows)
    assert not set(parts.test.rows.tolist()) & set(parts.rows.tolist())
    assert set(more.validation.rows.tolist()) <= set(parts.rows.tolist()) - set(more.rows.tolist())
    for held_out in (more.test, more.validation):
        np.testing.assert_array_equal(held_out.history.to_numpy() + held_out.truth.to_numpy(), dense[held_out.rows])


def test_split_seeds(tmp_path: Path) -> None:
    A = sp.asarray(make_ratings(0))
    first, second = split(A, 0), split(A, 1)
    assert first.test.rows.tolist() != second.test.rows.tolist()
    stored = split(A.save(tmp_path / "a.sparrow"), 0)
    np.testing.assert_array_equal(stored.test.truth.to_numpy(), first.test.truth.to_numpy())
    np.testing.assert_array_equal(stored.train.to_numpy(), first.train.to_numpy())


@pytest.mark.parametrize("shares", [(0, 0), (0.5, 0.5), (1, 0), (0.1, -0.1), (math.nan, 0)])
def test_split_fraction_errors(shares: tuple[float, float]) -> None:
    with pytest.raises(sp.errors.InvalidValueError, match="must be fractions"):
        split(sp.asarray(make_ratings(0)), test=shares[0], validation=shares[1])


def test_split_numpy_fractions() -> None:
    A = sp.asarray(make_ratings(0))
    share: Any = np.float32(0.25)
    assert split(A, test=share).train.shape == split(A, test=0.25).train.shape
    assert hold_out_entries(A, share).train.nnz == hold_out_entries(A, 0.25).train.nnz


def test_split_requires_matrix() -> None:
    with pytest.raises(sp.errors.ShapeError):
        split(sp.zeros((3, 3, 3)))


# -- figures -------------------------------------------------------------------------------------


def test_metrics_by_hand() -> None:
    # Row 0 finds 2 of 3 (ranks 1 and 4), row 1 has one rating and finds it at rank 2, row 2 finds nothing.
    truth = sp.from_coords([[0, 0, 0, 1, 2], [1, 2, 3, 5, 0]], 1, shape=(3, 9))
    ids = np.array([[2, 4, 5, 1], [0, 5, 1, -1], [8, -1, -1, -1]])
    result = metrics(ids, truth, recall=[2, 4], ndcg=[2, 4])
    assert result["recall@2"] == pytest.approx((1 / 2 + 1 + 0) / 3)
    assert result["recall@4"] == pytest.approx((2 / 3 + 1 + 0) / 3)
    second = 1 / math.log2(3)
    assert result["ndcg@2"] == pytest.approx((1 / (1 + second) + second + 0) / 3)
    best = 1 + second + 1 / 2
    assert result["ndcg@4"] == pytest.approx(((1 + 1 / math.log2(5)) / best + second + 0) / 3)


@pytest.mark.parametrize("wrong", [2, -2, 2**63])
def test_metrics_refuse_positions_outside(wrong: int) -> None:
    truth = sp.asarray([[1.0, 0], [0, 1]])
    with pytest.raises(IndexingError, match=rf"positions from 0 to 1, or -1 for none, got {wrong} at \[1, 0\]"):
        metrics(np.asarray([[0], [wrong]], np.uint64 if wrong > 2 else np.int64), truth, recall=[1], ndcg=[1])
    with pytest.raises(ShapeError, match="ids must have 2 rows"):
        metrics(np.array([0, 1]), truth, recall=[1], ndcg=[1])
    cutoffs: Any = [0.5]
    with pytest.raises(InvalidValueError, match="must be integer cutoffs"):
        metrics(np.array([[0], [1]]), truth, recall=cutoffs, ndcg=[1])


def test_evaluate_refuses_positions_outside() -> None:
    labels = {"d1": list("abcdefgh")}
    held_out = hold_out(sp.asarray(np.ones((3, 8)), labels=labels))
    turned = replace(held_out, truth=held_out.truth.sel(d1=list("hgfedcba")))

    class Wrong:
        def recommend(self, rows: Any, k: int, /) -> Any:
            return np.full((3, k), 8), np.zeros((3, k), np.float32)

    with pytest.raises(IndexingError, match=r"got 8 at .*the history of 8 items"):
        evaluate(Wrong(), turned, recall=[1], ndcg=[1])


def test_metrics_extremes() -> None:
    truth = sp.from_coords([[0] * 30, np.arange(30)], 1, shape=(1, 99))
    everything = metrics(np.arange(60)[None], truth, ndcg=[60])
    assert everything == {"recall@20": 1, "recall@50": 1, "ndcg@60": pytest.approx(1)}
    nothing = metrics(np.full((1, 60), -1), sp.from_coords([[0], [98]], 1, shape=(1, 99)), ndcg=[60])
    assert set(nothing.values()) == {0}


@pytest.mark.parametrize("wrong", [{"recall": [], "ndcg": []}, {"recall": [0]}, {"ndcg": [-3]}])
def test_cutoff_errors(wrong: dict[str, Any]) -> None:
    parts = split(make_ratings(0))
    with pytest.raises(sp.errors.InvalidValueError, match="cutoffs of at least 1"):
        evaluate(Popularity().fit(parts.train), parts.test, **wrong)


def test_array_inputs() -> None:
    dense = make_ratings(0, 40, 40)
    parts, expected = split(dense, seed=3), split(sp.asarray(dense), seed=3)
    np.testing.assert_array_equal(parts.test.truth.to_numpy(), expected.test.truth.to_numpy())
    np.testing.assert_array_equal(hold_out(dense).truth.to_numpy(), hold_out(sp.asarray(dense)).truth.to_numpy())
    np.testing.assert_array_equal(min_links(dense, 8)[1], min_links(sp.asarray(dense), 8)[1])
    np.testing.assert_array_equal(Popularity().fit(dense).item_factors[:, 0], (dense != 0).sum(axis=0))


def test_negative_seed_error() -> None:
    with pytest.raises(sp.errors.InvalidValueError, match="seed must be"):
        split(make_ratings(0), seed=-1)


def test_ranking_errors() -> None:
    truth = sp.from_coords([[0], [1]], 1, shape=(1, 9))
    with pytest.raises(sp.errors.ShapeError, match="50"):
        metrics(np.zeros((1, 20), np.int64), truth, ndcg=[])
    with pytest.raises(sp.errors.ShapeError):
        metrics(np.zeros((2, 100), np.int64), truth)
    with pytest.raises(sp.errors.InvalidValueError, match="got none in row 1"):
        metrics(np.zeros((2, 100), np.int64), sp.from_coords([[0], [1]], 1, shape=(2, 9)))


def plain_protocol(dense: NDArray[Any], seed: int, items: NDArray[Any], ks: tuple[int, int], deep: int) -> list[float]:
    """Return the metrics of a model that scores by ``history @ items @ items.T``."""
    height, width = dense.shape
    drawn = np.random.default_rng([seed, 0]).permutation(height)[: round(0.1 * height)]
    parts = split(sp.asarray(dense), seed)
    evaluated = sorted(int(row) for row in drawn if np.count_nonzero(dense[row]) >= 4)
    assert parts.test.rows.tolist() == evaluated
    history, truth = parts.test.history.to_numpy(), parts.test.truth.to_numpy()
    totals = [0.0, 0.0, 0.0]
    for at in range(len(evaluated)):
        expected = {j for j in range(width) if truth[at, j]}
        observed = {j for j in range(width) if history[at, j]}
        assert len(expected) == (len(expected) + len(observed)) // 4
        scores = [math.fsum(history[at, i] * float(items[i] @ items[j]) for i in observed) for j in range(width)]
        ranking = sorted((j for j in range(width) if j not in observed), key=lambda j: (-scores[j], j))
        for place, k in enumerate(ks):
            totals[place] += len(expected & set(ranking[:k])) / min(k, len(expected))
        gained = sum(1 / math.log2(rank + 2) for rank, j in enumerate(ranking[:deep]) if j in expected)
        totals[2] += gained / sum(1 / math.log2(rank + 2) for rank in range(min(deep, len(expected))))
    return [total / len(evaluated) for total in totals]


class Neighbours(Popularity):
    """Model whose factors are integers, so that every score is exact."""

    def __init__(self, items: NDArray[Any]) -> None:
        self.item_factors = items.astype(np.float32)
        self.user_factors = np.empty((0, items.shape[1]), np.float32)

    def fold_in(self, rows: sp.Tensor) -> NDArray[np.float32]:
        return np.asarray(rows.to_numpy() @ self.item_factors, dtype=np.float32)


@pytest.mark.parametrize("seed", [0, 1])
def test_protocol_against_plain_python(seed: int) -> None:
    dense = make_ratings(seed, height=200, width=50, density=0.3)
    items = np.random.default_rng(seed).integers(-2, 3, (50, 3))
    result = evaluate(Neighbours(items), split(sp.asarray(dense), seed).test, recall=(3, 10), ndcg=(20,))
    assert list(result.values()) == pytest.approx(plain_protocol(dense, seed, items, (3, 10), 20))
    assert 0 < result["recall@3"] < 1


def test_popularity_ranking() -> None:
    dense = make_ratings(5)
    model = Popularity().fit(sp.asarray(dense))
    history = np.zeros((2, 40))
    history[1, 7] = 3
    order = np.argsort(-(dense != 0).sum(axis=0), kind="stable")
    ids, _ = model.recommend(sp.asarray(history), k=40)
    np.testing.assert_array_equal(ids[0], order)
    np.testing.assert_array_equal(ids[1], [*order[order != 7], -1])


# -- search --------------------------------------------------------------------------------------


class Noisy(Popularity):
    """Popularity with noise; remembers what it was fitted to."""

    fits: list[sp.Tensor]

    def __init__(self, noise: float = 0.0, seed: int = 0, fits: Any = None) -> None:
        self.noise, self.seed, self.fits = noise, seed, fits

    def get_params(self) -> dict[str, Any]:
        return {"noise": self.noise, "seed": self.seed, "fits": self.fits}

    def fit(self, A: sp.Tensor) -> Self:
        super().fit(A)
        noise = np.random.default_rng(self.seed).normal(0, 1, self.item_factors.shape)
        self.item_factors = (self.item_factors + self.noise * noise).astype(np.float32)
        self.fits.append(A)
        return self


def test_search_uses_validation_rows() -> None:
    rng = np.random.default_rng(0)
    A = sp.asarray(rng.random((400, 300)) < np.linspace(0, 0.3, 300))
    fits: list[sp.Tensor] = []
    model = Noisy(fits=fits)
    result = search(A, model, {"noise": [1000.0, 0.0], "seed": [1, 2]})
    assert sorted((one["noise"], one["seed"]) for one in result) == [(0, 1), (0, 2), (1000, 1), (1000, 2)]
    assert [one["recall@20"] for one in result] == sorted((one["recall@20"] for one in result), reverse=True)
    assert {one["noise"] for one in result[:2]} == {0}
    assert [result[0]["seed"], result[1]["seed"]] == [1, 2]  # ties keep the order of the grid
    parts = split(A, validation=0.1)
    assert len(fits) == 4
    np.testing.assert_array_equal(fits[0].to_numpy(), parts.train.to_numpy())
    assert parts.validation is not None
    best = Noisy(fits=[]).fit(parts.train)
    assert evaluate(best, parts.validation)["ndcg@100"] == result[0]["ndcg@100"]
    assert not hasattr(model, "item_factors")


@pytest.mark.parametrize(
    "wrong", [{"grid": {"noise": []}}, {"grid": {"sound": [1]}}, {"by": "recall@7"}, {"validation": 0}]
)
def test_search_errors(wrong: dict[str, Any]) -> None:
    with pytest.raises(sp.errors.InvalidValueError):
        search(sp.asarray(make_ratings(0)), Noisy(fits=[]), **{"grid": {"noise": [0.0]}, **wrong})


# -- the filter ----------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.integers(0, 6))
def test_min_links_filters_once(seed: int, least: int) -> None:
    dense = make_ratings(seed, 30, 30, density=0.12)
    out, into = (dense != 0).sum(axis=1), (dense != 0).sum(axis=0)
    expected = np.flatnonzero((out >= least) & (into >= least))
    if not len(expected):
        with pytest.raises(sp.errors.InvalidValueError, match="no node has an in-degree"):
            min_links(sp.asarray(dense), least)
        return
    part, kept = min_links(sp.asarray(dense), least)
    np.testing.assert_array_equal(kept, expected)
    np.testing.assert_array_equal(part.to_numpy(), dense[np.ix_(expected, expected)])


def test_min_links_requires_graph() -> None:
    with pytest.raises(sp.errors.ShapeError, match="square"):
        min_links(sp.zeros((3, 4)), 1)
    with pytest.raises(sp.errors.InvalidValueError):
        min_links(sp.zeros((3, 3)), -1)


def test_published_web_graph(tmp_path: Path) -> None:
    web = sp.datasets.load("cnr-2000", cache=tmp_path)
    assert isinstance(web, sp.Tensor)
    part, kept = min_links(web, 10)
    assert (len(kept), part.nnz) == (24_178, 512_618)
    parts = split(part)
    result = evaluate(Popularity().fit(parts.train), parts.test)
    expected = {"recall@20": 0.073, "recall@50": 0.122, "ndcg@100": 0.097}  # of another draw of the rows
    assert result == pytest.approx(expected, abs=0.006)
    model = sp.models.ALS(factors=128, regularization=0.2, unobserved_weight=1e-3, epochs=8).fit(parts.train)
    result = evaluate(model, parts.test)
    assert result["recall@20"] >= 0.944
    assert result["recall@50"] >= 0.966


def test_hold_out_entries() -> None:
    labels = {"user": list("abcdef"), "item": list("vwxyz")}
    rng = np.random.default_rng(3)
    A = sp.asarray(rng.integers(0, 6, (6, 5)).astype(float), dims=["user", "item"], labels=labels)
    parts = hold_out_entries(A, share=0.3, seed=1)
    assert parts.test.nnz == round(0.3 * A.nnz)
    assert np.array_equal((parts.train + parts.test).to_numpy(), A.to_numpy())
    assert (parts.train * parts.test).nnz == 0
    assert parts.train.labels("item") == pa.array(labels["item"])
    again, other = hold_out_entries(A, 0.3, 1), hold_out_entries(A, 0.3, 2)
    assert np.array_equal(again.test.to_numpy(), parts.test.to_numpy())
    assert not np.array_equal(other.test.to_numpy(), parts.test.to_numpy())
    for share in (0, 1, 0.001, -0.2):
        with pytest.raises(InvalidValueError, match="must leave ratings to train and to test"):
            hold_out_entries(A, share)


def test_popularity_note(capsys: pytest.CaptureFixture[str]) -> None:
    dense = np.random.default_rng(0).random((60, 40)) < np.linspace(0, 0.9, 40)
    parts = split(sp.asarray(dense))
    popular = evaluate(Popularity().fit(parts.train), parts.test, (5,), (10,))
    assert capsys.readouterr().err == ""

    class Rarest:
        """Recommends what has fewest links."""

        _training = parts.train

        def recommend(self, rows: sp.Tensor, k: int, /) -> Any:
            return np.tile(np.arange(k), (rows.shape[0], 1)), None

    model = Rarest()
    result = evaluate(model, parts.test, (5,), (10,))
    message = capsys.readouterr().err
    for name in ("recall@5", "ndcg@10"):
        assert f"{name} {result[name]:.3f} (popularity alone {popular[name]:.3f})" in message
    assert result["recall@5"] < popular["recall@5"]
    assert "popularity wins: raise unobserved_weight" in message
    assert evaluate(model, parts.test, (5,), (10,), baseline=False) == result
    assert capsys.readouterr().err == ""
    assert beaten({"recall@5": 0.3}, {"recall@5": 0.3}) == ""
