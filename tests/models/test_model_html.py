"""HTML of models, names of scikit-learn, and loading by class."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import sparrow as sp
from sparrow.errors import InvalidValueError, NotFoundError
from sparrow.models import ALS, FactorizationMachine, LinearRegression, LogisticRegression
from sparrow.models.evaluation import Popularity
from sparrow.testing import observe

X = np.random.default_rng(0).integers(0, 2, (400, 6)) * 1.0
NAMES = [f"feature {k}<" for k in range(6)]


def table(model: Any) -> dict[str, str]:
    """Return the rows of two cells in the HTML of a model."""
    root = ElementTree.fromstring(f"<div>{model._repr_html_()}</div>")
    rows = [["".join(cell.itertext()) for cell in row] for row in root.iter("tr")]
    return {row[0]: row[1] for row in rows if len(row) == 2}


def fit_classifier(**options: Any) -> LogisticRegression:
    y = np.where(X[:, 0] - X[:, 3] + 0.1 > 0, "yes", "no")
    return LogisticRegression(lr=0.5, **options).fit(sp.asarray(X, dims=["row", "name"], labels={"name": NAMES}), y)


def test_classifier() -> None:
    model = fit_classifier(epochs=4, validation=0.25)
    rows = table(model)
    assert rows["parameters"] == "lr=0.5, epochs=4, validation=0.25"
    assert rows["features"] == "6 with names"
    assert rows["classes"] == "no, yes"
    assert rows["loss"] == f"{model.loss_[-1]:.6g}"
    assert rows["epochs"] == "4 of 4"
    assert rows["validation loss"].startswith(f"{model.validation_loss_[-1]:.6g}, lowest ")
    assert f"accuracy {model.validation_scores_['accuracy']:.4f}" in rows["validation"]
    largest = int(np.argmax(np.abs(model.coef_[0])))
    assert float(rows[NAMES[largest]]) == pytest.approx(model.coef_[0, largest], rel=1e-5)
    assert model._repr_html_().count("<polyline") == 2
    assert "learning curve: loss, validation loss" in model._repr_html_()


def test_other_models() -> None:
    line = LinearRegression(epochs=1).fit(X, X @ np.arange(6.0))
    assert "<svg" not in line._repr_html_()  # a curve of one point
    assert "validation" not in table(line)
    machine = FactorizationMachine(2, epochs=3).fit(X, X[:, 0])
    assert machine._repr_html_().count("<polyline") == 1
    many = LogisticRegression(epochs=2).fit(np.eye(40), np.arange(40))
    assert table(many)["classes"] == "0, 1, 2, 3, 4, ... 40 in all"
    A = sp.from_coords([[0, 0, 1, 2], [0, 1, 1, 2]], [5.0, 3, 4, 2], dims=["user", "film"])
    model = ALS(factors=2, epochs=3, unobserved_weight=0, biases=True).fit(A)
    rows = table(model)
    assert rows["trained on"] == "3 user x 3 film"
    assert rows["factors"].startswith("2 in float32, ")
    assert rows["mean rating"] == "3.5"
    assert rows["loss"] == f"{model.loss_[-1]:.6g} after 3 epochs"
    assert "6 half steps" in model._repr_html_()
    for unfitted in (ALS(), LogisticRegression(), LinearRegression(l2=1.0)):
        assert table(unfitted)["state"] == "not fitted: call fit()"
    assert table(ALS())["parameters"] == "defaults"
    assert not any(hasattr(ALS(), name) for name in ("user_factors_", "item_factors_", "loss_", "mean_"))
    assert not any(hasattr(LogisticRegression(), name) for name in ("coef_", "intercept_", "loss_"))
    assert table(LogisticRegression(epochs=1).fit(X, X[:, 0]))["classes"] == "0, 1"


def test_html_reads_nothing(tmp_path: Path) -> None:
    A = sp.random((50, 40), density=0.3, seed=0).save(tmp_path / "A.sparrow")
    model = ALS(factors=2, epochs=2).fit(A)
    with observe("storage.read_row_group") as read:
        assert "50" in model._repr_html_()
    assert not read


@pytest.mark.parametrize("patience", [None, 1])
def test_validation_scores_are_those_of_the_weights_kept(patience: int | None) -> None:
    y = (X[:, 0] > 0).astype(int)
    held = (X[:100], y[:100])
    model = LogisticRegression(epochs=6, validation=held, patience=patience, class_weight={0: 3.0, 1: 1.0})
    model.fit(X[100:], y[100:])
    assert model.validation_scores_ == pytest.approx(model.evaluate(*held))
    line = LinearRegression(epochs=3, validation=0.2).fit(X, X @ np.arange(6.0))
    assert line.validation_scores_.keys() == {"mse", "r2"}
    line.set_params(validation=None).fit(X, X @ np.arange(6.0))
    assert not hasattr(line, "validation_scores_")
    assert not hasattr(line, "validation_loss_")


def test_training_is_saved_and_loaded(tmp_path: Path) -> None:
    model = fit_classifier(epochs=4, validation=0.25)
    model.save(tmp_path / "model")
    for loaded in (LogisticRegression.load(tmp_path / "model"), sp.models.load(tmp_path / "model")):
        assert (loaded.loss_ == model.loss_).all()
        assert (loaded.validation_loss_ == model.validation_loss_).all()
        assert loaded.validation_scores_ == model.validation_scores_
        assert (loaded.n_iter_, loaded.t_) == (model.n_iter_, model.t_)
        assert re.sub("validation=0.25", "", loaded._repr_html_()) == re.sub("validation=0.25", "", model._repr_html_())
    assert pickle.loads(pickle.dumps(model)).validation_scores_ == model.validation_scores_
    with pytest.raises(InvalidValueError, match="must be a saved ALS, got LogisticRegression: use"):
        ALS.load(tmp_path / "model")
    with pytest.raises(NotFoundError):
        ALS.load(tmp_path / "gone")


def test_checkpoints_keep_validation_scores(tmp_path: Path) -> None:
    y = (X[:, 0] > 0).astype(int)
    settings: dict[str, Any] = {"epochs": 3, "validation": 0.25, "checkpoint": tmp_path / "kept"}
    first = LogisticRegression(**settings).fit(X, y)
    assert LogisticRegression(**settings).fit(X, y).validation_scores_ == first.validation_scores_


def test_factors_have_the_names_of_scikit_learn(tmp_path: Path) -> None:
    A = sp.asarray(np.kron(np.eye(3), np.ones((4, 4))))
    model = ALS(factors=3, epochs=2).fit(A)
    assert (model.user_factors_.shape, model.item_factors_.shape) == ((12, 3), (12, 3))
    assert (model.user_factors == model.user_factors_).all()  # earlier names
    assert (model.item_factors == model.item_factors_).all()
    model.save(tmp_path / "als")
    loaded = ALS.load(tmp_path / "als", memory_map=tmp_path / "maps")
    assert (loaded.item_factors_ == model.item_factors_).all()
    assert isinstance(loaded.user_factors_, np.memmap)
    popular: Any = Popularity().fit(A)
    popular.item_factors = popular.item_factors_ * 2
    assert popular.item_factors_[0, 0] == 8
