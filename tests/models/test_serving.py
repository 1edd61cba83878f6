"""Repeated recommendations read and derive nothing anew."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow.models import ALS
from sparrow.models.blas_threads import single_threaded_blas
from sparrow.testing import observe, tune

EVENTS = ("storage.read", "storage.read_row_group", "relations.read")


@pytest.fixture
def model(tmp_path: Path) -> ALS:
    dense = np.random.default_rng(0).random((60, 40)) < 0.2
    labels = {"user": [f"u{k}" for k in range(60)], "film": [f"f{k}" for k in range(40)]}
    stored = sp.asarray(dense, dims=("user", "film"), labels=labels).save(tmp_path / "data")
    return ALS(4, epochs=2, unobserved_weight=0.1).fit(stored)


def count_reads(call: Any) -> int:
    total = 0
    for event in EVENTS:
        with observe(event) as seen:
            call()
        total += len(seen)
    return total


def test_history_is_read_once(model: ALS) -> None:
    calls: list[Any] = [lambda: model.recommend([3], k=5), lambda: model.recommend(["u5", "u7"], k=5)]
    assert count_reads(calls[0]) > 0
    for call in calls:
        call()  # reads the labels
        assert count_reads(call) == 0
    with tune("models", recommend_cache_share=1e12):
        model._derived.rated = None
        assert count_reads(calls[0]) > 0
        assert count_reads(calls[0]) > 0


def test_first_recommendation_reads_its_rows_only(tmp_path: Path) -> None:
    dense = np.random.default_rng(0).random((3000, 400)) < 0.3  # several row groups
    stored = sp.asarray(dense).save(tmp_path / "data")
    model = ALS(2, epochs=1).fit(stored)
    with observe("storage.read_row_group") as seen:
        model.recommend([3], k=5)
    with observe("storage.read_row_group") as all_groups:
        stored.to_numpy()
    assert 0 < len(seen) < len(all_groups)


def test_directions_are_normalized_once(model: ALS) -> None:
    first = model.similar([3, 5], k=4)
    assert model._derived.directions is not None
    kept = model._derived.directions
    second = model.similar([3, 5], k=4)
    assert model._derived.directions is kept
    with tune("models", recommend_cache_share=1e12):
        model._derived.directions = None
        third = model.similar([3, 5], k=4)
        assert model._derived.directions is None
    for other in (second, third):
        for one, two in zip(first, other, strict=True):
            np.testing.assert_array_equal(one, two)


def test_new_fit_forgets(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    model = ALS(4, epochs=2, unobserved_weight=0.1)
    for _ in range(2):
        dense = rng.random((30, 20)) < 0.3
        fresh = ALS(4, epochs=2, unobserved_weight=0.1).fit(dense)
        model.fit(dense)
        for _ in range(3):
            np.testing.assert_array_equal(model.recommend([3], k=20)[0], fresh.recommend([3], k=20)[0])
            np.testing.assert_array_equal(model.similar([3], k=5)[0], fresh.similar([3], k=5)[0])


def test_few_rows_are_scored_in_one_product(model: ALS) -> None:
    with observe("models.score_block") as blocks:
        model.recommend([3], k=5)
    assert [details["size"] for _, details in blocks] == [40]


def blas_threads() -> set[int]:
    from threadpoolctl import threadpool_info

    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


def test_blas_is_limited_and_restored() -> None:
    import scipy.linalg.cython_blas  # noqa: F401

    before = blas_threads()
    with single_threaded_blas(with_scipy=True):
        assert blas_threads() == {1}
        with single_threaded_blas():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == before
    with pytest.raises(ValueError, match="enough"), single_threaded_blas():
        raise ValueError("enough")
    assert blas_threads() == before


def test_pickle_without_validation_data(tmp_path: Path) -> None:
    X = sp.random((200, 8), density=0.4, seed=0).save(tmp_path / "X")
    y = (X @ np.linspace(-1, 1, 8) > 0).astype(float)
    model = sp.models.LogisticRegression(epochs=2, validation=(X[150:], y[150:])).fit(X[:150], y[:150])
    predicted = model.predict(X)
    here = pickle.loads(pickle.dumps(model))
    assert here.validation[0].shape == (50, 8)
    copy, features = pickle.dumps(model), X.to_scipy()
    shutil.rmtree(tmp_path / "X")
    found = pickle.loads(copy)
    np.testing.assert_array_equal(found.predict(features), predicted)
    assert found.partial_fit(features, y).t_ > 0
    with pytest.raises(sp.errors.NotFoundError, match="validation data was missing when the model was unpickled"):
        found.fit(features, y)
    share = sp.models.LogisticRegression(validation=0.1)
    assert pickle.loads(pickle.dumps(share)).validation == 0.1
