"""Saved and pickled models work without the data that they were fitted to."""

from __future__ import annotations

import datetime as dt
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import sparrow as sp
from sparrow.errors import (
    CorruptionError,
    ExistsError,
    InvalidValueError,
    SparrowError,
    TooLargeError,
    UnsupportedError,
)
from sparrow.models import ALS, evaluation
from sparrow.testing import on, tune
from tests.models import als_reference as reference

DENSE = reference.matrix(30, 20, 5, weighted=True)
LABELS: dict[str, Any] = {
    "none": {},
    "text": {"user": [f"u{k}" for k in range(30)], "film": [f"f{k}" for k in range(20)]},
    "numbers": {"user": [7 * k + 5 for k in range(30)], "film": [100 - k for k in range(20)]},
    "rows": {"user": [dt.date(2020, 1, 1) + dt.timedelta(k) for k in range(30)]},
}
SETTINGS: dict[str, dict[str, Any]] = {
    "implicit": {"unobserved_weight": 0.1},
    "explicit": {"unobserved_weight": 0, "regularization": 0.5},
    "biased": {"unobserved_weight": 0, "biases": True, "init": "normal"},
    "bfloat16": {"dtype": "bfloat16", "unobserved_weight": 0.1},
    "float16": {"dtype": "float16", "unobserved_weight": 0, "biases": True},
}


def ratings(labels: dict[str, Any]) -> sp.Tensor:
    return sp.asarray(DENSE, dims=("user", "film"), labels=labels)


def answers(model: Any, folder: Path) -> dict[str, Any]:
    """Return the results of every method of a model."""
    history = sp.asarray(DENSE[:4], dims=("user", "film"), labels=model_items(model))
    by_row = model.recommend([3, -1, 0, 3], k=6, positions=True)
    model.recommend_all(folder / "best.parquet", k=3, overwrite=True)
    result = {
        "users": model.user_factors,
        "items": model.item_factors,
        "loss": model.loss_,
        "rows": by_row,
        "again": model.recommend([3, -1, 0, 3], k=6, positions=True),  # the pattern is kept by now
        "all items": model.recommend([1, 2], k=20, exclude=False, positions=True),
        "histories": model.recommend(history, k=5),
        "similar": model.similar([2, -1], k=4, positions=True),
        "predicted": model.predict([0, 5], [3, 3], positions=True),
        "folded in": model.fold_in(history),
        "file": [column.to_numpy() for column in pq.read_table(folder / "best.parquet").columns],
    }
    labels = model.labels("row")
    if labels is not None and model.labels("item") is not None:
        names = labels.take([3, 7]).to_pylist()
        result["by label"] = model.recommend(names, k=4, labels=True)[1]
        result["names"] = model.recommend(names, k=4, labels=True)[0].tolist()
    return result


def model_items(model: Any) -> dict[str, Any]:
    labels = model.labels("item")
    return {} if labels is None else {"film": labels.to_pylist()}


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        pairs = zip(found[name], value, strict=True) if isinstance(value, tuple | list) else [(found[name], value)]
        for one, other in pairs:
            np.testing.assert_array_equal(one, other, err_msg=name)


def stored_elsewhere(given: sp.Tensor, kind: str, folder: Path) -> sp.Tensor:
    if kind == "memory":
        return given
    stored = given.save(folder / "data")
    return stored if kind == "stored" else stored * 1


@pytest.mark.parametrize("kind", ["memory", "stored", "lazy"])
@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("way", ["saved", "pickled", "pickled after loading"])
def test_model_without_data(kind: str, labels: str, way: str, tmp_path: Path) -> None:
    model = ALS(factors=4, epochs=2, **SETTINGS["implicit"]).fit(
        stored_elsewhere(ratings(LABELS[labels]), kind, tmp_path)
    )
    expected = answers(model, tmp_path)
    if way != "pickled":
        model.save(tmp_path / "model")
    found: Any = pickle.dumps(sp.models.load(tmp_path / "model") if way == "pickled after loading" else model)
    shutil.rmtree(tmp_path / "data", ignore_errors=True)
    if way == "saved":
        found = sp.models.load(tmp_path / "model")
    else:
        shutil.rmtree(tmp_path / "model", ignore_errors=True)
        found = pickle.loads(found)
    assert_same(answers(found, tmp_path), expected)
    assert [found.labels(side) for side in ("row", "item")] == [model.labels(side) for side in ("row", "item")]


@pytest.mark.parametrize("settings", SETTINGS)
def test_saved_settings(settings: str, tmp_path: Path) -> None:
    model = ALS(factors=3, epochs=2, memory_map=tmp_path / "map", seed=4, **SETTINGS[settings])
    model.fit(ratings(LABELS["text"])).save(tmp_path / "model")
    found = sp.models.load(tmp_path / "model")
    assert found.get_params() == model.get_params() | {"memory_map": None}
    assert_same(answers(found, tmp_path), answers(model, tmp_path))
    if "biases" in SETTINGS[settings]:
        assert found.mean_ == model.mean_
        np.testing.assert_array_equal(found.user_biases_, model.user_biases_)
        np.testing.assert_array_equal(found.item_biases_, model.item_biases_)
    mapped = sp.models.load(tmp_path / "model", memory_map=tmp_path / "other")
    assert (tmp_path / "other" / "item_factors.npy").exists()
    assert_same(answers(mapped, tmp_path), answers(model, tmp_path))


def test_saved_bundle(tmp_path: Path) -> None:
    model = ALS(factors=3, epochs=2, unobserved_weight=0, biases=True).fit(ratings(LABELS["text"]))
    model.save(tmp_path / "model")
    bundle: Any = sp.open(tmp_path / "model")
    assert list(bundle) == ["user_factors", "item_factors", "history", "user_biases", "item_biases", "rated_items"]
    assert bundle["item_factors"].dims == ("film", "factor")
    assert bundle["item_factors"].labels("film").to_pylist() == LABELS["text"]["film"]
    np.testing.assert_array_equal(bundle["history"].to_numpy(), DENSE != 0)
    assert not [finding for name in bundle for finding in bundle[name].verify()]
    with pytest.raises(ExistsError):
        model.save(tmp_path / "model")
    other = ALS(factors=2, epochs=1).fit(ratings({}))
    other.save(tmp_path / "model", overwrite=True)
    assert sp.models.load(tmp_path / "model").item_factors.shape == (20, 2)


@pytest.mark.parametrize("dims", [("factor", "number"), ("Factor", "item"), ("user", "FACTOR")])
def test_any_names_are_saved(dims: tuple[str, str], tmp_path: Path) -> None:
    model = ALS(factors=2, epochs=1).fit(sp.asarray(DENSE, dims=dims))
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(sp.models.load(tmp_path / "model").item_factors, model.item_factors)


def test_interrupted_save_leaves_nothing(tmp_path: Path) -> None:
    model = ALS(factors=3, epochs=1).fit(ratings({}))
    model.save(tmp_path / "model")
    before = sorted(tmp_path.rglob("*"))

    def save(path: Path, at: int) -> None:
        """Save over a path, interrupted at one of the renames of files."""
        seen = []

        def interrupt(**details: Any) -> None:
            seen.append(details)
            if len(seen) == at:
                raise KeyboardInterrupt

        with on("storage.write", interrupt), pytest.raises(KeyboardInterrupt):
            model.save(path, overwrite=True)

    for at in (1, 2, 4):
        for path in (tmp_path / "model", tmp_path / "new"):
            save(path, at)
            assert sorted(tmp_path.rglob("*")) == before
    np.testing.assert_array_equal(sp.models.load(tmp_path / "model").item_factors, model.item_factors)


def test_damage_is_found(tmp_path: Path) -> None:
    model = ALS(factors=3, epochs=1, unobserved_weight=0, biases=True).fit(ratings(LABELS["text"]))
    model.save(tmp_path / "model")
    expected = answers(model, tmp_path)
    files = [file for file in sorted((tmp_path / "model").rglob("*")) if file.is_file()]
    rng = np.random.default_rng(0)
    found = 0
    for file in files:
        content = file.read_bytes()
        for at in rng.integers(0, len(content), 4).tolist():
            file.write_bytes(content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :])
            try:
                assert_same(answers(sp.models.load(tmp_path / "model"), tmp_path), expected)
            except SparrowError:
                found += 1
        file.write_bytes(content)
    assert found > len(files)


def test_load_errors(tmp_path: Path) -> None:
    model = ALS(factors=3, epochs=1).fit(ratings({}))
    model.save_factors(tmp_path / "factors")
    with pytest.raises(InvalidValueError, match=r"factors of a model only.*model\.save"):
        sp.models.load(tmp_path / "factors")
    with pytest.raises(UnsupportedError, match="must be fitted"):
        ALS().save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    model.save(tmp_path / "model")
    sp.zeros((30, 4)).save(tmp_path / "model" / "user_factors", overwrite=True)
    with pytest.raises(CorruptionError, match=r"do not fit|swapped or replaced"):
        sp.models.load(tmp_path / "model")


def test_tables_beyond_memory_limit(tmp_path: Path) -> None:
    ALS(factors=64, epochs=1).fit(np.ones((3000, 3))).save(tmp_path / "model")
    with sp.config(memory_limit="500KB"):
        with pytest.raises(TooLargeError, match="memory_map=FOLDER"):
            sp.models.load(tmp_path / "model")
        found = sp.models.load(tmp_path / "model", memory_map=tmp_path / "map")
    assert found.user_factors.shape == (3000, 64)


def test_pickle_beyond_memory_limit(tmp_path: Path) -> None:
    dense = np.random.default_rng(0).random((400, 300)) < 0.5
    model = ALS(factors=2, epochs=1).fit(sp.asarray(dense).save(tmp_path / "data"))
    with sp.config(memory_limit="200KB"), pytest.raises(TooLargeError, match=r"save\(path\) does not load it"):
        pickle.dumps(model)


def test_long_history_stays_on_disk(tmp_path: Path) -> None:
    model = ALS(factors=3, epochs=1).fit(ratings(LABELS["text"]))
    model.save(tmp_path / "model")
    with tune("models", recommend_cache_share=1e12):
        found = sp.models.load(tmp_path / "model")
        assert found._training.path is not None
        assert_same(answers(found, tmp_path), answers(model, tmp_path))
    assert sp.models.load(tmp_path / "model")._training.path is None


def test_unfitted_and_baseline_pickles(tmp_path: Path) -> None:
    assert repr(pickle.loads(pickle.dumps(ALS(factors=3)))) == "ALS(factors=3)"
    stored = ratings(LABELS["text"]).save(tmp_path / "data")
    model = evaluation.Popularity().fit(stored)
    expected = model.recommend(["u3"], k=4)[0].tolist()
    copy = pickle.dumps(model)
    shutil.rmtree(tmp_path / "data")
    assert pickle.loads(copy).recommend(["u3"], k=4)[0].tolist() == expected


def test_loaded_model_is_evaluated(tmp_path: Path) -> None:
    dense = (np.kron(np.eye(4), np.ones((20, 12))) > 0) & (np.random.default_rng(0).random((80, 48)) < 0.8)
    parts = evaluation.split(dense, seed=1)
    model = ALS(factors=6, epochs=4).fit(parts.train)
    model.save(tmp_path / "model")
    found = sp.models.load(tmp_path / "model")
    assert evaluation.evaluate(found, parts.test) == evaluation.evaluate(model, parts.test)


# -- metrics of labels ---------------------------------------------------------------------------


@pytest.mark.parametrize("labels", ["text", "numbers"])
def test_metrics_by_label(labels: str) -> None:
    given = ratings(LABELS[labels])
    parts = evaluation.hold_out(given)
    model = ALS(factors=4, epochs=2, unobserved_weight=0.1).fit(given)
    by_number, _ = model.recommend(parts.history, k=10, labels=False)
    by_label, _ = model.recommend(parts.history, k=10, labels=True)
    arguments: Any = {"recall": [3, 5], "ndcg": [10]}
    expected = evaluation.metrics(by_number, parts.truth, **arguments)
    assert evaluation.metrics(by_label, parts.truth, **arguments) == expected
    turned = parts.truth[:, ::-1].compute()  # the same relation in another order of items
    assert evaluation.metrics(by_label, turned, **arguments) == expected
    by_label[:] = None
    assert set(evaluation.metrics(by_label, parts.truth, **arguments).values()) == {0.0}
    plain = sp.asarray(parts.truth.to_numpy())
    with pytest.raises(sp.errors.LabelError, match="items of truth have none"):
        evaluation.metrics(by_label, plain, **arguments)
