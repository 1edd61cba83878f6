from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow.models import FactorizationMachine, LinearRegression, LogisticRegression


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with bundles ``train``, ``test``, ``numbers`` and tensor ``plain``."""
    path = tmp_path_factory.mktemp("training")
    X = sp.random((400, 12), density=0.4, seed=0)
    y = X @ np.linspace(-1, 1, 12)
    for name, part in (("train", slice(0, 300)), ("test", slice(300, 400))):
        sp.Bundle({"X": X[part], "y": np.where(y[part] > 0, 1.0, -1.0)}).save(path / name)
    sp.Bundle({"X": X, "y": y}).save(path / "numbers")
    X.save(path / "plain")
    return path


def test_training_json(cli: Any, folder: Path, tmp_path: Path) -> None:
    words = ["--epochs", 3, "--lr", 0.5, "--validate", folder / "test", "--out", tmp_path / "model", "--json"]
    done = cli("train", "logistic", folder / "train", *words)
    assert done.code == 0
    report = done.json
    model = LogisticRegression(lr=0.5, epochs=3, validation=str(folder / "test")).fit(folder / "train")
    assert report["loss"] == model.loss_.tolist()
    assert report["validation_loss"] == model.validation_loss_.tolist()
    assert report["train"] == model.evaluate(folder / "train")
    assert report["validation"] == model.evaluate(folder / "test")
    assert (report["shape"], report["epochs"], report["updates"]) == ([300, 12], 3, model.t_)
    assert "300 rows, 12 columns, 3 epochs" in done.err
    np.testing.assert_array_equal(sp.models.load(tmp_path / "model").coef_, model.coef_)


def test_train_and_predict_text(cli: Any, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    done = cli("train", "logistic", folder / "train", "--epochs", 2, "--validate", 0.2, "--out", out)
    assert done.code == 0
    assert done.table[0] == ["epoch", "loss", "validation", "loss"]
    assert [line[0] for line in done.table[1:3]] == ["1", "2"]
    assert done.table[3] == ["rows", "accuracy", "log_loss", "auc"]
    output = cli("predict", out, folder / "test")
    model = sp.models.load(out)
    np.testing.assert_array_equal(np.array(output.out.split(), float), model.predict(folder / "test"))
    assert f"accuracy {model.evaluate(folder / 'test')['accuracy']:.4f}" in output.err
    probabilities = cli("predict", out, folder / "test" / "X", "--chances")
    rows = np.array([line.split() for line in probabilities.out.splitlines()], float)
    np.testing.assert_allclose(rows, model.predict_proba(folder / "test"), rtol=1e-5)
    assert probabilities.err == ""
    result = cli("predict", out, folder / "test", "--json").json
    assert result["predictions"] == model.predict(folder / "test").tolist()
    assert result["figures"] == model.evaluate(folder / "test")


def test_model_kinds(cli: Any, folder: Path, tmp_path: Path) -> None:
    words = [folder / "plain", "--labels", folder / "numbers" / "y", "--optimizer", "sgd", "--lr", 0.1, "--json"]
    report = cli("train", "linear", *words).json
    assert report["loss"] == LinearRegression("sgd", 0.1).fit(folder / "numbers").loss_.tolist()
    machine = cli("train", "fm", folder / "train", "--loss", "logistic", "--factors", 2, "--epochs", 2, "--json").json
    assert machine["loss"] == FactorizationMachine(2, "logistic", epochs=2).fit(folder / "train").loss_.tolist()


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["train", "logistic", "{}/plain"], 1, "is a tensor without labels: pass --labels, or a bundle"),
        (["train", "linear", "{}/numbers", "--loss", "hinge"], 2, "--loss of linear must be squared, got hinge"),
        (
            ["train", "linear", "{}/numbers", "--validate", "some"],
            2,
            "--validate must be a bundle or a share such as 0.1",
        ),
        (["train", "linear", "{}/numbers", "--batch-size", "0"], 2, "batch-size"),
        (["train", "linear", "{}/numbers", "--out", "{}/plain"], 1, "choose another folder, or pass --overwrite"),
        (["train", "linear", "{}/numbers", "--optimizer", "sgd", "--lr", "1e9"], 1, "lower lr"),
        (["train", "logistic", "{}/numbers"], 1, "Unknown label type"),
        (["predict", "{}/plain", "{}/plain"], 1, "is not a model"),
        (["train", "forest", "{}/plain"], 2, "forest"),
    ],
)
def test_usage_errors(cli: Any, folder: Path, words: list[str], code: int, text: str) -> None:
    with np.errstate(over="ignore"):
        done = cli(*(word.format(folder) for word in words))
    assert done.code == code
    assert text in " ".join(done.err.replace("│", " ").split())
