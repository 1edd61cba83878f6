"""Missing attributes name the way out, and every way out runs."""

from __future__ import annotations

import copy
import functools
import pickle
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import matplotlib
import numpy as np
import polars as pl
import pytest
import scipy.sparse

import sparrow as sp
from sparrow.runtime.hints import TABLES

matplotlib.use("agg")
CASES = sorted({(table, hint) for table, hints in TABLES.items() for texts in hints.values() for hint in texts})
MODULES = [name for name in TABLES if name.startswith("sparrow")]


def module_of(name: str) -> Any:
    return functools.reduce(getattr, name.split(".")[1:], sp)


@functools.cache
def als() -> Any:
    return sp.models.ALS(factors=2, epochs=1).fit(ratings())


@functools.cache
def logistic() -> Any:
    return sp.models.LogisticRegression(epochs=1).fit(ratings(), [0.0, 1.0, 1.0, 0.0])


def ratings() -> sp.Tensor:
    return sp.asarray(
        np.arange(16.0).reshape(4, 4) % 6,
        dims=("user", "film"),
        labels={"user": ["ann", "bob", "dan", "eve"], "film": ["f", "g", "h", "i"]},
    )


FRAME = pl.DataFrame({"user": ["ann", "bob"], "film": ["f", "g"], "stars": [1.0, 2.0]})


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files that hints read."""
    folder = tmp_path_factory.mktemp("hints")
    matrix = scipy.sparse.csr_array(ratings().to_numpy())
    FRAME.write_csv(folder / "r.csv")
    FRAME.write_parquet(folder / "r.parquet")
    (folder / "r.txt").write_text("0 1\n1 2\n")
    (folder / "r.libsvm").write_text("1 1:2\n-1 2:3\n")
    sp.export(sp.asarray(matrix), folder / "r.mtx")
    scipy.sparse.save_npz(folder / "r.npz", matrix)
    ratings().save(folder / "r.sparrow")
    als().save(folder / "m.model")
    return folder


@pytest.fixture
def names(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the names that hints use, in a folder with the files that they read."""
    folder = tmp_path / "run"
    shutil.copytree(files, folder)
    monkeypatch.chdir(folder)
    dense, df, A = ratings().to_numpy(), FRAME, sp.open("r.sparrow")
    matrix = scipy.sparse.csr_array(dense)
    return {
        "sp": sp, "np": np, "df": df, "A": A, "B": ratings(), "M": matrix,
        "G": sp.asarray(dense + dense.T + 5 * np.eye(4)),
        "i": [0, 1], "j": [1, 2], "n": 2, "shape": A.shape, "coords": [[0, 1], [1, 2]], "values": [5.0, 6.0],
        "x": np.ones(4), "y": np.array([0.0, 1.0, 1.0, 0.0]), "m": als(),
        "batch": next(iter(sp.batches(ratings(), [0.0, 1.0, 1.0, 0.0], 2))),
        "batches": sp.batches(ratings(), [0.0, 1.0, 1.0, 0.0], 2),
        "bundle": sp.Bundle({"X": ratings(), "y": ratings()[0]}),
    }  # fmt: skip


@pytest.mark.parametrize(("table", "hint"), CASES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_hint_runs(table: str, hint: str, names: dict[str, Any]) -> None:
    if table == "Estimator":
        names["m"] = logistic()
        names["m"].save("m.model", overwrite=True)
    if "to_pandas" in hint:
        pytest.importorskip("pandas")
    exec(hint, names)


def owner_of(table: str) -> Any:
    if table in MODULES:
        return module_of(table)
    return {
        "Tensor": sp.eye(2), "Recommender": als(), "Estimator": logistic(), "Bundle": sp.Bundle({"A": sp.eye(2)}),
        "Batches": sp.batches(sp.eye(2), None, 1), "Batch": next(iter(sp.batches(sp.eye(2), None, 1))),
    }[table]  # fmt: skip


@pytest.mark.parametrize("table", TABLES)
def test_missing_names_are_answered(table: str) -> None:
    owner = owner_of(table)
    existing = set(dir(owner))
    for name, hints in TABLES[table].items():
        if isinstance(getattr(owner, name, None), ModuleType):
            continue  # a package inside, once it is imported
        assert name not in existing, f"{name} exists"
        assert not hasattr(owner, name)
        assert getattr(owner, name, None) is None
        with pytest.raises(AttributeError) as found:
            getattr(owner, name)
        assert str(found.value).endswith(f"has no attribute {name!r}: use {', or '.join(hints)}")
        assert found.value.name == name


@pytest.mark.parametrize(
    ("table", "wrong", "right"),
    [
        ("sparrow", "opne", "open"),
        ("sparrow", "from_coord", "from_coords"),
        ("sparrow.linalg", "svdss", "svds"),
        ("sparrow.graph", "page_rank", "pagerank"),
        ("sparrow.models", "LogisticRegresion", "LogisticRegression"),
        ("sparrow.optim", "Addam", "Adam"),
        ("sparrow.training", "train_test_spilt", "train_test_split"),
        ("Tensor", "to_nunpy", "to_numpy"),
        ("Recommender", "recomend", "recommend"),
        ("Estimator", "predict_probas", "predict_proba"),
        ("Bundle", "valeus", "values"),
    ],
)
def test_nearest_name(table: str, wrong: str, right: str) -> None:
    with pytest.raises(AttributeError, match=f"has no attribute '{wrong}': did you mean '{right}'\\?$"):
        getattr(owner_of(table), wrong)


PROBED = ["_repr_html_x_", "_ipython_canary_method_should_not_exist_", "__array_foo__", "__wrapped__", "_x"]


@pytest.mark.parametrize("table", TABLES)
def test_protocols_find_no_hint(table: str) -> None:
    owner = owner_of(table)
    for name in [*PROBED, "zzz_nonsense"]:
        assert not hasattr(owner, name)
        with pytest.raises(AttributeError) as found:
            getattr(owner, name)
        assert "use " not in str(found.value)
        assert "mean" not in str(found.value)
    assert not {*dir(owner)} & {*TABLES[table]}


def test_copies_and_pickles() -> None:
    for owner in (sp.eye(2), als(), logistic(), next(iter(sp.batches(sp.eye(2), None, 1)))):
        for found in (copy.copy(owner), pickle.loads(pickle.dumps(owner))):
            assert type(found) is type(owner)


def test_errors_of_properties_are_kept() -> None:
    class Broken(sp.Tensor):
        __slots__ = ()

        @property
        def depth(self) -> Any:
            broken: Any = {}
            return broken.missing

    with pytest.raises(AttributeError, match=r"^'dict' object has no attribute 'missing'$"):
        Broken(sp.eye(2).__sparrow_scan__().source).depth  # noqa: B018


def test_module_that_is_called() -> None:
    called: Any = sp
    assert sp.eye(2).nnz == 2  # the package is imported
    with pytest.raises(TypeError, match=r"sparrow\.tensor is a module, not a function: use sp\.asarray\(M\)"):
        called.tensor([1, 0])
