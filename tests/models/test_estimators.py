"""scikit-learn's own checks of an estimator."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import sparrow as sp

checks = pytest.importorskip("sklearn.utils.estimator_checks")

MODELS: list[Any] = [
    sp.models.LinearRegression(lr=1.0, epochs=30),
    sp.models.LogisticRegression(lr=0.5, batch_size=8, epochs=40),
    sp.models.FactorizationMachine(2, lr=1.0, epochs=30),
]
# A row of weight 2 is one step, the same row twice are two: so it is with SGDClassifier.
NOT_THE_SAME = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")


def _all() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # models do not inherit from BaseEstimator: sparrow runs without scikit-learn
        for model in MODELS:
            for estimator, check in checks.estimator_checks_generator(model, legacy=True, mark=None):
                name = getattr(check, "func", check).__name__
                if name not in NOT_THE_SAME:
                    yield pytest.param(estimator, check, id=f"{type(model).__name__}-{name}")


@pytest.mark.parametrize(("estimator", "check"), list(_all()))
def test_sklearn_estimator_checks(estimator: Any, check: Any) -> None:
    check(estimator)
