from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import date, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import sparrow as sp
from sparrow.errors import (
    ConvergenceError,
    ExistsError,
    InvalidValueError,
    ShapeError,
    TooLargeError,
    UnsupportedError,
)
from sparrow.kernels.ml import linear
from sparrow.models import FactorizationMachine, LinearRegression, LogisticRegression
from sparrow.models.metrics import Classification, Regression
from sparrow.models.targets import is_held_out
from sparrow.optim import FTRL, SGD, AdaGrad, Adam, Cosine
from sparrow.testing import observe, on

metrics = pytest.importorskip("sklearn.metrics")


def data(rows: int = 300, columns: int = 20, classes: int = 0, seed: int = 0) -> tuple[Any, Any]:
    X = sp.random((rows, columns), density=0.3, seed=seed)
    rng = np.random.default_rng(seed)
    if not classes:
        return X, X @ rng.normal(size=columns) + 0.5
    scores = X @ rng.normal(size=(columns, classes)) + 0.3 * rng.normal(size=(rows, classes))
    return X, scores.argmax(axis=1)


def bits(model: Any) -> tuple[bytes, ...]:
    return model._weights.rows.tobytes(), model._weights.bias.tobytes(), model.loss_.tobytes()


# -- what is computed, against plain NumPy ------------------------------------------------------


def loss_and_slopes(loss: int, scores: Any, target: float) -> tuple[float, Any]:
    k = np.arange(len(scores))
    if loss == linear.SQUARED:
        return float((scores[0] - target) ** 2 / 2), scores - target
    if loss == linear.SOFTMAX:
        probabilities = np.exp(scores) / np.exp(scores).sum()
        return float(-np.log(probabilities[int(target)])), probabilities - (k == target)
    sign = np.array([2.0 * target - 1]) if len(scores) == 1 else np.where(k == target, 1.0, -1.0)
    if loss == linear.LOGISTIC:
        return float(np.log1p(np.exp(-sign * scores))[0]), -sign / (1 + np.exp(sign * scores))
    return float(np.maximum(1 - sign * scores, 0).sum()), np.where(sign * scores < 1, -sign, 0.0)


def plain_epochs(
    model: Any, loss: int, X: Any, targets: Any, optimizer: Any, outputs: int
) -> tuple[Any, Any, list[float]]:
    """Train without kernels, on dense mini-batches."""
    factors = getattr(model, "factors", 0)
    w = np.zeros((X.shape[1], 1 + factors if factors else outputs))
    if factors:
        w[:, 1:] = (0.01 * np.random.default_rng(model.seed).standard_normal((len(w), factors), np.float32)).astype(
            float
        )
    bias = np.zeros((1, outputs))
    state, bias_state = optimizer.create_state(w), optimizer.create_state(bias)
    losses = []
    for _ in range(model.epochs):
        total = 0.0
        for start in range(0, len(X), model.batch_size):
            rows = X[start : start + model.batch_size]
            gradient, of_scores = np.zeros_like(w), np.zeros_like(bias)
            for x, target in zip(rows, targets[start : start + model.batch_size], strict=True):
                if factors:
                    inner = x @ w[:, 1:]
                    pairs = (inner**2).sum() - ((x[:, None] * w[:, 1:]) ** 2).sum()
                    scores = bias[0] + x @ w[:, :1] + pairs / 2
                else:
                    scores = bias[0] + x @ w
                value, slopes = loss_and_slopes(loss, scores, target)
                total += value
                of_scores += slopes / len(rows)
                if factors:
                    gradient[:, 0] += slopes[0] * x / len(rows)
                    gradient[:, 1:] += slopes[0] * x[:, None] * (inner - x[:, None] * w[:, 1:]) / len(rows)
                else:
                    gradient += np.outer(x, slopes) / len(rows)
            at = np.flatnonzero(rows.any(axis=0))
            optimizer.update(w, sp.formats.RowSparse(gradient[at], at, w.shape), state)
            optimizer.update(bias, of_scores, bias_state)
        losses.append(total / len(X))
    return w, bias, losses


OPTIMIZERS = [
    SGD(0.1, lazy=True),
    SGD(0.1, momentum=0.9, lazy=True),
    SGD(0.1, momentum=0.9, lazy=False),
    SGD(Cosine(0.1, 100), momentum=0.5, nesterov=True, clip_gradient=0.2, lazy=True),
    Adam(0.1, lazy=True),
    Adam(0.1, lazy=False),
    AdaGrad(0.3, rescale_grad=0.5, lazy=True),
    FTRL(0.3, lazy=True),
]


@settings(max_examples=15, deadline=None)
@given(
    optimizer=st.sampled_from(OPTIMIZERS),
    kind=st.sampled_from(["squared", "logistic", "softmax", "hinge", "hinge of three", "machine"]),
    batch=st.integers(1, 9),
    seed=st.integers(0, 1000),
)
def test_training_against_plain_optimizer(optimizer: Any, kind: str, batch: int, seed: int) -> None:
    classes = {"squared": 0, "machine": 0, "softmax": 3, "hinge of three": 3}.get(kind, 2)
    X, y = data(23, 6, classes, seed)
    if len(np.unique(y)) < classes:
        y[:classes] = range(classes)
    shared: dict[str, Any] = {"optimizer": optimizer, "epochs": 2, "batch_size": batch, "shuffle": False, "seed": seed}
    model: Any
    if kind == "machine":
        model, loss = FactorizationMachine(3, **shared), linear.SQUARED
    elif kind == "squared":
        model, loss = LinearRegression(**shared), linear.SQUARED
    else:
        model = LogisticRegression(loss="hinge" if "hinge" in kind else "logistic", **shared)
        loss = {"logistic": linear.LOGISTIC, "softmax": linear.SOFTMAX}.get(kind, linear.HINGE)
    model.fit(X, y)
    outputs = 1 if classes < 3 else classes
    w, bias, losses = plain_epochs(model, loss, X.to_numpy(), y, optimizer, outputs)
    np.testing.assert_allclose(model._weights.rows, w, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(model._weights.bias, bias, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(model.loss_, losses, rtol=1e-7, atol=1e-10)


def test_penalties() -> None:
    X, y = np.eye(2), [3.0, 0.05]
    shared: dict[str, Any] = {"epochs": 500, "batch_size": 2, "fit_intercept": False}
    ridge = LinearRegression("sgd", 0.5, l2=0.5, **shared).fit(X, y)
    np.testing.assert_allclose(ridge.coef_, np.array(y) / 2 / (0.5 + 0.5), rtol=1e-9)  # mean over 2 rows
    lasso = LinearRegression("sgd", 0.5, l1=0.1, **shared).fit(X, y)
    np.testing.assert_allclose(lasso.coef_, [3.0 - 0.2, 0.0], rtol=1e-9)
    net = LinearRegression("sgd", 0.5, l1=0.1, l2=0.5, **shared).fit(X, y)
    np.testing.assert_allclose(net.coef_, [(1.5 - 0.1) / 1.0, 0.0], rtol=1e-9)
    follower = LinearRegression("ftrl", 0.5, l1=20.0, **shared).fit(X, y)
    assert follower.coef_[0] > 2
    assert follower.coef_[1] == 0


@pytest.mark.parametrize("lazy", [True, False])
def test_tutorial_regression(lazy: bool) -> None:
    X = sp.random((1000, 100), density=0.01, seed=0)
    y = X @ np.arange(1.0, 101.0)
    model = LinearRegression(SGD(0.05, momentum=0.9, lazy=lazy), batch_size=1, epochs=10, init="normal").fit(X, y)
    assert model.evaluate(X, y)["mse"] < 1
    assert model.loss_[0] > 100
    assert model.t_ == 10_000


def test_a9a_against_sklearn() -> None:
    from sklearn.linear_model import LogisticRegression as Theirs

    train: Any = sp.datasets.load("a9a")
    test: Any = sp.datasets.load("a9a.t")
    model = LogisticRegression(epochs=4).fit(train)
    result = model.evaluate(test)
    X, y = test["X"].to_scipy("csr"), test["y"].to_numpy()
    theirs = Theirs(max_iter=200, tol=1e-3).fit(train["X"].to_scipy("csr"), train["y"].to_numpy())
    probabilities = theirs.predict_proba(X)[:, 1]
    assert result["accuracy"] == pytest.approx(theirs.score(X, y), abs=0.003)
    assert result["log_loss"] == pytest.approx(metrics.log_loss(y, probabilities), abs=0.003)
    assert result["auc"] == pytest.approx(metrics.roc_auc_score(y, probabilities), abs=0.003)
    assert result["auc"] == pytest.approx(metrics.roc_auc_score(y, model.decision_function(X)), abs=5e-5)


def test_factorization_machine_learns_pairs() -> None:
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 30, 4000), rng.integers(0, 20, 4000)
    tastes, kinds = rng.normal(size=(30, 2)), rng.normal(size=(20, 2))
    y = (tastes[users] * kinds[items]).sum(axis=1)
    rows = np.arange(4000)
    X = sp.from_coords(
        [np.concatenate([rows, rows]), np.concatenate([users, 30 + items])], np.ones(8000), shape=(4000, 50)
    )
    machine = FactorizationMachine(4, epochs=30, validation=0.2).fit(X, y)
    line = LinearRegression(epochs=10, validation=0.2).fit(X, y)
    assert machine.validation_loss_[-1] < 0.2 * line.validation_loss_[-1]
    signs = FactorizationMachine(4, "logistic", epochs=20).fit(X, np.where(y > 0, "good", "bad"))
    assert signs.score(X, np.where(y > 0, "good", "bad")) > 0.9
    assert signs.predict_proba(X[:3]).sum(axis=1) == pytest.approx(1)
    assert machine.factors_.shape == (50, 4)
    assert machine.coef_.shape == (50,)


# -- the same bits ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model", [LogisticRegression(epochs=2), FactorizationMachine(2, "logistic", epochs=2)], ids=repr
)
def test_results_independent_of_threads_and_storage(model: Any, tmp_path: Path) -> None:
    X, y = data(20_000, 50, classes=2)
    stored = X.save(tmp_path / "X")
    sources = (X, stored, X.to_scipy("csr"), X.to_format("csr"), X * 1.0)
    for source in sources:
        result = set()
        for threads in (1, 3):
            with sp.config(threads=threads):
                result.add(bits(model.set_params(shuffle=True).fit(source, y)))
        assert len(result) == 1
    assert len({bits(model.set_params(shuffle=False).fit(source, y)) for source in sources}) == 1


def test_partial_fit_equals_unshuffled_fit() -> None:
    X, y = data(900, 20, classes=3)
    reference = LogisticRegression(epochs=1, shuffle=False, batch_size=30).fit(X, y)
    parts = LogisticRegression(batch_size=30)
    for batch in sp.batches(X, y, batch_size=300):
        parts.partial_fit(batch.X, batch.y, classes=[0, 1, 2])
    np.testing.assert_array_equal(parts.coef_, reference.coef_)
    assert parts.t_ == reference.t_ == 30


# -- checkpoints --------------------------------------------------------------------------------

CHECKED: dict[str, Any] = {
    "sgd": lambda **kw: LinearRegression(SGD(0.05, momentum=0.9), **kw),
    "adam, early stop": lambda **kw: LogisticRegression("adam", 0.01, validation=0.2, patience=3, **kw),
    "machine": lambda **kw: FactorizationMachine(2, optimizer="ftrl", **kw),
}


@pytest.mark.parametrize("name", CHECKED)
@pytest.mark.parametrize("epochs", [0, 1, 4])
def test_interrupted_fit_resumes(name: str, epochs: int, tmp_path: Path) -> None:
    X, y = data(400, 10, classes=2)
    expected = CHECKED[name](epochs=6).fit(X, y)
    calls = iter(range(epochs))

    def stop() -> None:
        if next(calls, None) is None:
            raise KeyboardInterrupt

    with on("models.train_chunk", stop), pytest.raises(KeyboardInterrupt):
        CHECKED[name](epochs=6, checkpoint=tmp_path).fit(X, y)
    resumed = CHECKED[name](epochs=6, checkpoint=tmp_path).fit(X, y)
    assert bits(resumed) == bits(expected)
    assert (resumed.n_iter_, resumed.t_) == (expected.n_iter_, expected.t_)
    with observe("models.train_chunk") as chunks:
        assert bits(CHECKED[name](epochs=6, checkpoint=tmp_path).fit(X, y)) == bits(expected)
    assert chunks == []  # a complete fit is not repeated


def test_next_epoch_is_read_ahead() -> None:
    X, y = data(400, 10, classes=2)
    started = [threading.Event() for _ in range(4)]
    counts = itertools.count(), itertools.count(1)

    def count_reads() -> None:
        started[next(counts[0])].set()

    def wait_for_next() -> None:
        following = next(counts[1])
        assert following == 4 or started[following].wait(60)

    with sp.config(threads=2), on("training.read_window", count_reads), on("models.train_chunk", wait_for_next):
        LogisticRegression(epochs=4).fit(X, y)
    assert (next(counts[0]), next(counts[1])) == (4, 5)


@pytest.mark.parametrize("shuffle", [False, True])
def test_read_ahead_waits_for_validation(shuffle: bool) -> None:
    X, y = data(400, 10, classes=2)
    with sp.config(threads=2), observe("training.read_window") as reads:
        LogisticRegression(epochs=3, validation=0.2, shuffle=shuffle).fit(X, y)
    assert len(reads) == 6  # three epochs of one window, each validated


def test_killed_fit_resumes(tmp_path: Path) -> None:
    X, y = data(400, 10, classes=2)
    X.save(tmp_path / "X")
    np.save(tmp_path / "y.npy", y)
    script = (
        "import sys, numpy as np, sparrow as sp\n"
        "at = sys.argv[1]\n"
        "model = sp.models.LogisticRegression('adam', epochs=100_000, checkpoint=at + '/check')\n"
        "model.fit(at + '/X', np.load(at + '/y.npy'))\n"
    )
    child = subprocess.Popen([sys.executable, "-c", script, os.fspath(tmp_path)])
    try:
        while child.poll() is None and not list((tmp_path / "check").glob("step-*")):
            time.sleep(0.005)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == -signal.SIGKILL
    done = max(int(folder.name[5:]) for folder in (tmp_path / "check").glob("step-*"))
    assert 0 < done < 100_000
    options: dict[str, Any] = {"optimizer": "adam", "epochs": done + 2}
    stored = sp.open(tmp_path / "X")
    resumed = LogisticRegression(**options, checkpoint=tmp_path / "check").fit(stored, y)
    assert bits(resumed) == bits(LogisticRegression(**options).fit(stored, y))


@pytest.mark.parametrize(
    ("change", "name"), [({"l2": 0.1}, "l2"), ({"seed": 1}, "seed"), ({"lr": 0.3}, "lr"), ({}, "data")]
)
def test_checkpoint_of_other_fit_is_rejected(change: dict[str, Any], name: str, tmp_path: Path) -> None:
    X, y = data(100, 5)
    LinearRegression(epochs=2, checkpoint=tmp_path).fit(X, y)
    with pytest.raises(InvalidValueError, match=f"belongs to a fit with different {name}: pass another folder"):
        LinearRegression(epochs=2, checkpoint=tmp_path, **change).fit(X, y if change else y + 1)
    with pytest.raises(InvalidValueError, match=r"epochs must be at least 2, .* got 1"):
        LinearRegression(epochs=1, checkpoint=tmp_path).fit(X, y)


# -- validation ---------------------------------------------------------------------------------


def test_early_stopping_keeps_best_weights() -> None:
    X, y = data(60, 40, classes=2)
    model = LogisticRegression(lr=1.0, epochs=200, validation=0.3, patience=4).fit(X, y)
    best = int(model.validation_loss_.argmin())
    assert model.n_iter_ == best + 5 < 200
    assert len(model.loss_) == len(model.validation_loss_) == model.n_iter_
    short = LogisticRegression(lr=1.0, epochs=best + 1, validation=0.3).fit(X, y)
    np.testing.assert_array_equal(model.coef_, short.coef_)


def test_partial_fit_ignores_validation() -> None:
    X, y = data(4)
    result, expected = (LinearRegression(validation=share).partial_fit(X, y) for share in (1e-9, None))
    np.testing.assert_array_equal(result.coef_, expected.coef_)
    unread = LinearRegression(validation="nowhere.sparrow").partial_fit(X, y)
    np.testing.assert_array_equal(unread.coef_, expected.coef_)


def test_held_out_rows_are_not_trained_on() -> None:
    X, y = data(500, 10)
    aside = LinearRegression(validation=0.25).fit(X, y)
    held_out = is_held_out(np.arange(500), 0, 0.25)
    assert 90 < held_out.sum() < 160
    spoilt = np.where(held_out, 1e6, y)
    np.testing.assert_array_equal(LinearRegression(validation=0.25).fit(X, spoilt).coef_, aside.coef_)
    given = LinearRegression(validation=(X[held_out], y[held_out]), epochs=3).fit(X, y)
    assert given.evaluate(X[held_out], y[held_out])["mse"] / 2 == pytest.approx(given.validation_loss_[-1])


def test_sample_and_class_weights() -> None:
    X, y = data(300, 10, classes=2)
    keep = np.arange(300) % 3 > 0
    options: dict[str, Any] = {"shuffle": False, "batch_size": 3, "epochs": 3}
    dropped = LogisticRegression(**{**options, "batch_size": 2}).fit(X[keep], y[keep])
    np.testing.assert_array_equal(LogisticRegression(**options).fit(X, y, sample_weight=keep).coef_, dropped.coef_)
    by_hand = LogisticRegression(**options).fit(X, y, sample_weight=np.where(y == 1, 3.0, 1.0))
    by_class = LogisticRegression(**options, class_weight={1: 3}).fit(X, y)
    np.testing.assert_array_equal(by_class.coef_, by_hand.coef_)
    rare = np.where(np.arange(300) < 20, 1, 0)
    even = LogisticRegression(class_weight="balanced", epochs=50).fit(X, rare).predict(X)
    assert even.sum() > LogisticRegression(epochs=50).fit(X, rare).predict(X).sum() + 20


# -- figures ------------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), pieces=st.integers(1, 5), weighted=st.booleans())
def test_metrics_against_sklearn(seed: int, pieces: int, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    y = np.append(rng.integers(0, 2, 58), [0, 1]).astype(float)
    scores = (rng.normal(size=60) + y).round(rng.integers(0, 4))
    weights = rng.random(60) if weighted else np.ones(60)
    counts, line = Classification(True), Regression()
    for at in np.array_split(np.arange(60), pieces):
        counts.add(scores[at, None], y[at], weights[at])
        line.add(scores[at, None], y[at], weights[at])
    result, probabilities = counts.result(), 1 / (1 + np.exp(-scores))
    assert result["accuracy"] == pytest.approx(metrics.accuracy_score(y, scores > 0, sample_weight=weights))
    assert result["log_loss"] == pytest.approx(metrics.log_loss(y, probabilities, sample_weight=weights))
    assert result["auc"] == pytest.approx(metrics.roc_auc_score(y, scores, sample_weight=weights), abs=2e-3)
    assert line.result()["mse"] == pytest.approx(metrics.mean_squared_error(y, scores, sample_weight=weights))
    assert line.result()["r2"] == pytest.approx(metrics.r2_score(y, scores, sample_weight=weights))


def test_metrics_multiclass_and_hinge() -> None:
    X, y = data(300, 10, classes=3)
    model = LogisticRegression().fit(X, y)
    result = model.evaluate(X, y)
    assert result["log_loss"] == pytest.approx(metrics.log_loss(y, model.predict_proba(X)))
    assert result["accuracy"] == np.mean(model.predict(X) == y)
    assert set(result) == {"accuracy", "log_loss"}
    hinge = LogisticRegression(loss="hinge").fit(X, y > 0)
    assert set(hinge.evaluate(X, y > 0)) == {"accuracy", "auc"}
    assert not hasattr(hinge, "predict_proba")
    with pytest.raises(UnsupportedError, match="probabilities require loss='logistic', got 'hinge'"):
        hinge.predict_proba(X)


# -- inputs, names, files -----------------------------------------------------------------------


def test_input_kinds(tmp_path: Path) -> None:
    X, y = data(100, 6)
    dense = X.to_numpy()
    sp.Bundle({"X": X, "y": y}).save(tmp_path / "both")
    X.save(tmp_path / "X")
    frame = pd.DataFrame(dense, columns=list("abcdef"))
    expected = LinearRegression(shuffle=False).fit(X, y)
    given: list[tuple[Any, Any]] = [
        (dense, y), (dense.tolist(), y.tolist()), (scipy.sparse.csc_matrix(dense), pd.Series(y)),
        (scipy.sparse.coo_array(dense), sp.asarray(y)), (frame, y), (tmp_path / "both", None),
        (str(tmp_path / "X"), tmp_path / "both" / "y"), (sp.open(tmp_path / "both"), None), (X.to_format("csc"), y),
    ]  # fmt: skip
    for features, labels in given:
        model = LinearRegression(shuffle=False).fit(features, labels)
        np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-12)
        np.testing.assert_allclose(
            model.predict(features if labels is not None else X), expected.predict(X), rtol=1e-12
        )


def test_feature_names_from_labels() -> None:
    names = ["ann", "bob", "cat"]
    X = sp.from_coords([[0, 0, 1, 2], [0, 1, 1, 2]], [1.0, 2.0, 3.0, 1.0], shape=(3, 3), dims=("row", "who"),
                       labels={"who": names})  # fmt: skip
    model = LogisticRegression(epochs=30).fit(X, ["x", "y", "z"])
    assert model.feature_names_in_.tolist() == names
    w = model.coefficients()
    assert w.dims == ("who", "class")
    np.testing.assert_array_equal(w.to_numpy().T, model.coef_)
    best = sp.sql(
        "select w_who.label from w join w_who using (who) join w_class using (class) where w_class.label = 'z' "
        "order by value desc limit 1"
    ).fetchall()
    assert best == [("cat",)]
    with pytest.raises(InvalidValueError, match="feature names should match"):
        model.predict(sp.from_coords([[0], [0]], [1.0], shape=(1, 3), labels={"d1": ["ann", "cat", "bob"]}))
    plain = LinearRegression().fit(np.eye(3), [1.0, 2.0, 3.0])
    assert plain.coefficients().dims == ("feature",)
    assert not hasattr(plain, "feature_names_in_")


SAVED: list[Any] = [
    LinearRegression(SGD(Cosine(0.1, 50), momentum=0.9), l2=0.01),
    LogisticRegression(class_weight={2: 3.0}),
    LogisticRegression("ftrl", 0.5, l1=0.01, dtype="float32"),
    FactorizationMachine(3, "logistic"),
]


@pytest.mark.parametrize("model", SAVED, ids=repr)
def test_save_and_load(model: Any, tmp_path: Path) -> None:
    X, y = data(200, 8, classes=0 if isinstance(model, LinearRegression) else 2 if hasattr(model, "factors") else 3)
    model.fit(pd.DataFrame(X.to_numpy(), columns=list("abcdefgh")), y)
    model.save(tmp_path / "model")
    loaded = sp.models.load(tmp_path / "model")
    assert repr(loaded) == repr(model)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.feature_names_in_.tolist() == list("abcdefgh")
    assert bytes(loaded._weights.rows) == bytes(model._weights.rows)
    assert loaded.partial_fit(X, y).t_ > 0
    with pytest.raises(ExistsError):
        model.save(tmp_path / "model")
    model.save(tmp_path / "model", overwrite=True)
    assert not [
        finding for name in sp.open(tmp_path / "model") for finding in sp.open(tmp_path / "model")[name].verify()
    ]


CLASSES: list[Any] = [
    np.array([b"no", b"yes", b"\xff"]),
    np.array(["2024-01-01", "2024-01-02", "2025-06-30"], "M8[D]"),
    np.array([1, 2, 10**15], "M8[ns]"),
    np.array([1, 5, 9], "m8[s]"),
    np.array(["a", "b", "c"]),
    np.array(["a", "b", "c"], object),
    np.array([b"a", b"b", b"c"], object),
    np.array([date(2024, 1, 1), date(2024, 1, 2), date(2024, 5, 1)]),
    np.array([datetime(2024, 1, 1, 5, 6, 7, 8), datetime(2024, 1, 2), datetime(2024, 5, 1)]),
    np.array([1.0, 3.0, 1e300]),
    np.array([0, 7, 2**64 - 1], np.uint64),
]


@pytest.mark.parametrize("classes", CLASSES, ids=lambda classes: f"{classes.dtype}-{type(classes[0]).__name__}")
def test_classes_are_saved(classes: Any, tmp_path: Path) -> None:
    X, y = data(60, 5, classes=3)
    labels = classes[np.asarray(y, int)]
    model = LogisticRegression(epochs=1, class_weight="balanced").fit(X, labels)
    model.save(tmp_path / "model")
    loaded = sp.models.load(tmp_path / "model")
    assert loaded.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(loaded.classes_, model.classes_)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.evaluate(X, labels) == model.evaluate(X, labels)
    np.testing.assert_array_equal(loaded._class_weight_values, model._class_weight_values)


def test_class_weights_of_odd_labels_are_saved(tmp_path: Path) -> None:
    weights: Any = {b"no": 2.0, b"yes": 0.5}
    model = LogisticRegression(epochs=1, class_weight=weights).fit(np.eye(4), np.array([b"no", b"yes"] * 2))
    model.save(tmp_path / "model")
    assert sp.models.load(tmp_path / "model").class_weight == weights


@pytest.mark.parametrize("label", [(1, 2), 1j, Fraction(1, 2), None])
def test_labels_that_are_no_classes(label: Any) -> None:
    y = np.empty(4, object)
    y[:] = [label, "b", "b", label]
    with pytest.raises(InvalidValueError, match="Unknown label type"):
        LogisticRegression(epochs=1).fit(np.eye(4), y)


@pytest.mark.parametrize("dim", ["number", "Number", "class", "output", "one", "feature"])
def test_any_name_of_features_is_saved(dim: str, tmp_path: Path) -> None:
    X = sp.asarray(np.eye(4), dims=("row", dim), labels={dim: list("abcd")})
    for y in ([0, 1, 0, 1], [0, 1, 2, 1]):
        model = LogisticRegression(epochs=1).fit(X, y)
        model.save(tmp_path / "model", overwrite=True)
        np.testing.assert_array_equal(sp.models.load(tmp_path / "model").predict(X), model.predict(X))


def test_load_errors(tmp_path: Path) -> None:
    sp.eye(3).save(tmp_path / "eye")
    sp.Bundle({"X": sp.eye(3)}).save(tmp_path / "bundle")
    for name in ("eye", "bundle"):
        with pytest.raises(InvalidValueError, match="is not a model"):
            sp.models.load(tmp_path / name)
    with pytest.raises(UnsupportedError, match=r"a schedule of sp.optim to save"):
        LinearRegression(SGD(lambda step: 0.1)).fit(np.eye(2), [1, 2]).save(tmp_path / "odd")
    assert not (tmp_path / "odd").exists()


# -- errors ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (LinearRegression("newton"), "optimizer must be one of 'sgd', 'adam', .* got 'newton'"),  # type: ignore[arg-type]
        (LinearRegression(SGD(0.1), 0.2), "lr must be None beside optimizer=SGD.*got 0.2"),
        (LinearRegression(lr=-1), "lr must be a finite number of at least 0, got -1"),
        (LinearRegression(l1=-1), "l1 must be .*, got -1"),
        (LinearRegression(batch_size=0), "batch_size must be an integer of at least 1, got 0"),
        (LinearRegression(epochs=0), "epochs must be .*, got 0"),
        (LinearRegression(init="random"), "init must be .* got 'random'"),
        (LinearRegression(dtype="int8"), "dtype must be 'float32' or 'float64', got 'int8'"),  # type: ignore[arg-type]
        (LinearRegression(patience=2), "patience=2 requires validation"),
        (LinearRegression(validation=1.5), "validation must be a fraction between 0 and 1, or .X, y., got 1.5"),
        (LinearRegression(validation=1e-9), "validation=1e-09 holds out 0 of 2 rows"),
        (LinearRegression(validation=np.float32(0.999)), "holds out 2 of 2 rows"),
        (
            LinearRegression(init=lambda shape, rng: np.ones(7)),
            r"init must return weights of shape \(2, 1\), got \(7,\)",
        ),
        (LinearRegression(init=lambda shape, rng: np.full(shape, np.nan)), "init must return finite weights"),
        (LinearRegression(lr=lambda step: "fast"), "learning rate must be finite and not negative, got 'fast'"),  # type: ignore[arg-type]
        (LogisticRegression(loss="log"), "loss must be one of 'logistic', 'hinge', got 'log'"),  # type: ignore[arg-type]
        (LogisticRegression(class_weight="even"), "class_weight must be .* got 'even'"),  # type: ignore[arg-type]
        (LogisticRegression(class_weight={7: 1.0}), r"classes of class_weight must be among \[0, 1\], got 7"),
        (FactorizationMachine(0), "factors must be .*, got 0"),
        (FactorizationMachine(2, "hinge"), "loss must be one of 'squared', 'logistic', got 'hinge'"),  # type: ignore[arg-type]
    ],
)
def test_parameter_errors(model: Any, words: str) -> None:
    with pytest.raises((InvalidValueError, ShapeError), match=words):
        model.fit(np.eye(2), [0, 1])


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda m: m.fit(np.eye(3), [1, 2]), ShapeError, "one label per row of X, 3 rows, got 2 labels"),
        (lambda m: m.fit(np.eye(3), [1, 1, 1]), InvalidValueError, r"at least two classes, got one class, \[1\]"),
        (lambda m: m.fit(np.eye(3), [1, 2, 0.5]), InvalidValueError, "must be integers or strings, got 0.5"),
        (lambda m: m.fit(np.eye(2), np.array([None, "b"], object)), InvalidValueError, "one comparable type"),
        (lambda m: m.fit(np.eye(3)), InvalidValueError, "requires y to be passed"),
        (lambda m: m.fit(np.ones(3), [1, 2, 3]), ShapeError, "Reshape your data"),
        (lambda m: m.fit(np.diag([1, np.nan]), [0, 1]), InvalidValueError, "NaN .* at row 1, column 1"),
        (lambda m: m.fit(np.eye(2), [0, np.inf]), InvalidValueError, "row 1 has the label inf"),
        (lambda m: m.fit(np.eye(2), [0, 1], [1, -1]), InvalidValueError, "sample_weight must be .*, got -1.0"),
        (lambda m: m.fit(np.eye(2), [0, 1], [1]), ShapeError, r"sample_weight has shape \(1,\), expected \(2,\)"),
        (lambda m: m.predict(np.eye(2)), UnsupportedError, "must be fitted"),
        (lambda m: m.fit(np.eye(2), [0, 1]).predict(np.eye(3)), ShapeError, "X has 3 features, but Log.* expecting 2"),
        (lambda m: m.fit(np.eye(2), [0, 1]).partial_fit(sp.eye(3), [0, 1, 1]), ShapeError, "X has 3 features"),
        (lambda m: m.fit(np.eye(2), [0, 1]).partial_fit(np.eye(2), [1, 7]), InvalidValueError,
         r"row 1 has the unknown class 7, expected one of \[0, 1\]"),
        (lambda m: m.partial_fit(np.eye(2), [0, 7], classes=[0, 1]), InvalidValueError, "class 7 of y must be"),
        (lambda m: m.fit(np.eye(2), [0, 1]).evaluate(np.eye(2), [0, 7]), InvalidValueError, "unknown class 7"),
    ],
)  # fmt: skip
def test_data_errors(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(LogisticRegression(epochs=1))


def test_sparse_matrix_with_fewer_columns() -> None:
    X, y = data(50, 8)
    model = LinearRegression(epochs=2).fit(X, y)
    np.testing.assert_array_equal(model.predict(X[:, :5]), model.predict(X[:, :5].to_numpy() @ np.eye(5, 8)))


def test_divergence_error() -> None:
    X, y = data(100, 5)
    with np.errstate(over="ignore"), pytest.raises(ConvergenceError, match=r"lower lr \(now 1e\+06\)"):
        LinearRegression("sgd", lr=1e6, epochs=300).fit(X, y)


def test_weights_beyond_the_memory_limit() -> None:
    wide = sp.from_coords([[0, 1], [0, 10**8 - 1]], [1.0, 1.0], shape=(2, 10**8))
    with sp.config(memory_limit="700MB"), pytest.raises(TooLargeError, match="weights of 100000000 columns"):
        LogisticRegression().fit(wide, [0, 1])


def test_factorization_machine_on_ratings(shared_data: Path) -> None:
    table = pd.read_csv(shared_data / "ml-latest-small" / "ratings.csv.gz")
    users, films = (table[name].astype("category").cat.codes.to_numpy() for name in ("userId", "movieId"))
    rows, width = np.arange(len(table)), users.max() + 1 + films.max() + 1
    cols = np.append(users.astype(int), users.max() + 1 + films)
    X = sp.from_coords([np.append(rows, rows), cols], np.ones(2 * len(rows)), shape=(len(rows), width))
    machine = FactorizationMachine(8, epochs=3, l2=0.02, validation=0.1).fit(X, table["rating"])
    line = LinearRegression(epochs=8, validation=0.1).fit(X, table["rating"])
    assert machine.validation_loss_.min() < 0.995 * line.validation_loss_.min()
