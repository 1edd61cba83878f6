from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import sparrow as sp
from sparrow.models import evaluation

SMALL = ["--factors", "8", "--epochs", "3"]


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Graph of 6 communities, and 20 nodes of low degree."""
    rng = np.random.default_rng(0)
    probabilities = np.kron(np.eye(6), np.ones((30, 30))) * 0.5 + 0.01
    dense = np.zeros((200, 200))
    dense[10:190, 10:190] = rng.random((180, 180)) < probabilities
    dense[:10, 20] = 1
    path = tmp_path_factory.mktemp("als") / "web.sparrow"
    sp.asarray(dense).save(path)
    return path


def test_evaluation_table(cli: Any, web: Path) -> None:
    done = cli("als", web, "--min-links", 3, "--evaluate", *SMALL)
    assert done.code == 0
    header, popularity, als = done.table
    assert header == ["model", "recall@20", "recall@50", "ndcg@100"]
    assert [popularity[0], als[0]] == ["popularity", "als"]
    assert float(als[1]) > 2 * float(popularity[1])
    assert "18 held-out rows" in done.err


def test_evaluation_json(cli: Any, web: Path) -> None:
    done = cli("als", web, "--min-links", 3, "--evaluate", "--seed", 5, "--json", *SMALL)
    assert done.code == 0
    report = done.json
    assert report["shape"] == [180, 180]
    A = sp.open(web)
    part, _ = evaluation.min_links(A, 3)
    assert report["nnz"] == part.nnz
    parts = evaluation.split(part, 5)
    model = sp.models.ALS(factors=8, epochs=3, seed=5).fit(parts.train)
    assert report["evaluation"]["als"] == evaluation.evaluate(model, parts.test)
    baseline = evaluation.Popularity().fit(parts.train)
    assert report["evaluation"]["popularity"] == evaluation.evaluate(baseline, parts.test)
    assert report["settings"]["factors"] == 8
    assert "loss" not in report


def test_search_continues_with_best(cli: Any, web: Path) -> None:
    weights = ["--regularization", "0.05,500", "--unobserved-weight", "0.01"]
    done = cli("als", web, "--min-links", 3, "--search", "--evaluate", "--json", *weights, *SMALL)
    assert done.code == 0
    report = done.json
    assert [one["regularization"] for one in report["search"]] == [0.05, 500]
    assert report["settings"]["regularization"] == 0.05
    assert report["settings"]["unobserved_weight"] == 0.01
    alone = cli("als", web, "--min-links", 3, "--search", *weights, *SMALL)
    assert alone.table[0] == ["regularization", "unobserved_weight", "recall@20", "recall@50", "ndcg@100"]
    assert [row[0] for row in alone.table[1:]] == ["0.05", "500"]


def test_fit_all_rows(cli: Any, web: Path) -> None:
    done = cli("als", web, "--solver", "exact", "--regularization", "0.1", *SMALL)
    assert done.code == 0
    assert done.table[0] == ["epoch", "loss,", "rows", "loss,", "items"]
    losses = [float(number.replace(",", "")) for row in done.table[1:] for number in row[1:]]
    assert len(losses) == 6
    assert losses == sorted(losses, reverse=True)


def test_saved_factors(cli: Any, web: Path, tmp_path: Path) -> None:
    folder = tmp_path / "factors"
    done = cli("als", web, "--min-links", 3, "--save", folder, "--json", *SMALL)
    assert done.code == 0
    assert done.json["saved"] == str(folder)
    part, kept = evaluation.min_links(sp.open(web), 3)
    model = sp.models.ALS(factors=8, epochs=3).fit(part)
    assert done.json["loss"] == [float(loss) for loss in model.loss_]
    assert done.json["settings"].items() <= model.get_params().items()
    assert {"regularization", "unobserved_weight"} <= done.json["settings"].keys()
    for name, column, factors in (("user", "row", model.user_factors), ("item", "item", model.item_factors)):
        table = pq.read_table(folder / f"{name}_factors.parquet")
        np.testing.assert_array_equal(table[column], kept)
        np.testing.assert_array_equal(np.stack(table["factors"].to_numpy()), factors)
    again = cli("als", web, "--save", folder, *SMALL)
    assert (again.code, again.out) == (1, "")
    assert "exists: choose another folder" in again.err


def test_checkpoint_resumes(cli: Any, web: Path, tmp_path: Path) -> None:
    words = ["als", web, "--evaluate", "--json", *SMALL, "--checkpoint", tmp_path / "kept"]
    first, second = cli(*words), cli(*words)
    assert first.code == second.code == 0
    assert list((tmp_path / "kept").iterdir())
    assert first.json == second.json


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ratings with labels of users, films or both, and a model of each."""
    folder = tmp_path_factory.mktemp("films")
    dense = np.kron(np.eye(2), np.ones((3, 4)))
    dense[0, 3] = dense[5, 7] = 0
    names = {"user": [f"user {k}" for k in range(6)], "film": [f"film {k}" for k in range(8)]}
    numbers = {"user": [7, 3, 5, 9, 1, 2], "film": list(range(100, 108))}
    days = {"user": np.arange("2024-01-01", "2024-01-07", dtype="M8[D]")}
    for name, labels in (("text", names), ("numbers", numbers), ("days", days), ("plain", {})):
        sp.asarray(dense, dims=["user", "film"], labels=labels).save(folder / name)
        model = sp.models.ALS(4, unobserved_weight=0.1, epochs=8).fit(sp.open(folder / name))
        model.save(folder / f"{name}.model")
    return folder


def test_saved_factors_have_labels(cli: Any, films: Path, tmp_path: Path) -> None:
    for name in ("text", "numbers", "days"):
        assert cli("als", films / name, "--save", tmp_path / name, *SMALL).code == 0
        for side, axis, column in (("user", 0, "row"), ("item", 1, "item")):
            table = pq.read_table(tmp_path / name / f"{side}_factors.parquet")
            labels = sp.open(films / name).labels(axis)
            expected = list(range(sp.open(films / name).shape[axis])) if labels is None else labels.to_pylist()
            assert table[column].to_pylist() == expected


def test_model_is_saved_and_recommends(cli: Any, films: Path, tmp_path: Path) -> None:
    words = ["als", films / "text", "--out", tmp_path / "model", "--unobserved-weight", 0.1, *SMALL]
    assert cli(*words, "--json").json["model"] == str(tmp_path / "model")
    again = cli(*words)
    assert (again.code, again.out) == (1, "")
    assert "--overwrite" in again.err
    assert cli(*words, "--overwrite").code == 0
    done = cli("recommend", tmp_path / "model", "user 0", "user 5", "-k", 1)
    assert done.code == 0
    assert done.out.splitlines()[2].split("  ")[:1] == ["user 0"]
    found = cli("recommend", tmp_path / "model", "user 0", "user 5", "-k", 1, "--json").json
    assert [(line["row"], line["rank"], line["item"]) for line in found] == [
        ("user 0", 1, "film 3"), ("user 5", 1, "film 7")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "row", "item", "best", "other"),
    [
        ("text", "user 0", "film 3", "film 3", {"film 0", "film 1", "film 2"}),
        ("numbers", "7", "103", 103, {100, 101, 102}),
        ("days", "2024-01-01", "3", 3, {0, 1, 2}),
        ("plain", "0", "3", 3, {0, 1, 2}),
    ],
)
def test_recommend_by_label(
    cli: Any, films: Path, tmp_path: Path, name: str, row: str, item: str, best: Any, other: Any
) -> None:
    model = films / f"{name}.model"
    found = cli("recommend", model, row, "-k", 1, "--json").json
    assert [(line["row"], line["item"]) for line in found] == [(row, best)]
    rated = cli("recommend", model, row, "-k", 4, "--include-rated", "--json").json
    assert {line["item"] for line in rated} == {best, *other}
    similar = cli("recommend", model, "--similar", item, "-k", 3, "--json").json
    assert {line["similar"] for line in similar} == other
    done = cli("recommend", model, "--out", tmp_path / "all.parquet", "-k", 1)
    assert (done.code, done.out) == (0, "")
    table = pq.read_table(tmp_path / "all.parquet")
    assert str(table["row"][0].as_py()) == row
    assert table["item"][0].as_py() == best


def test_nodes_keep_their_numbers(cli: Any, web: Path, tmp_path: Path) -> None:
    _, kept = evaluation.min_links(sp.open(web), 3)
    words = ["--save", tmp_path / "factors", "--out", tmp_path / "model", "--unobserved-weight", 0.1, *SMALL]
    assert cli("als", web, "--min-links", 3, *words).code == 0
    assert pq.read_table(tmp_path / "factors" / "user_factors.parquet")["row"].to_pylist() == kept.tolist()
    found = cli("recommend", tmp_path / "model", kept[0], "--json").json
    assert {line["item"] for line in found} <= set(kept.tolist())
    assert cli("recommend", tmp_path / "model", 0).code == 1


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (["{films}/text.model"], 2, "pass rows"),
        (["{films}/text.model", "user 0", "--out", "x"], 2, "leave out the rows"),
        (["{films}/text.model", "user 9"], 1, "unknown label 'user 9'"),
        (["{films}/numbers.model", "ada"], 2, "labels of type int64"),
        (["{films}/plain.model", "ada"], 2, "must be positions"),
        (["{films}/plain.model", "99"], 1, "out of range"),
        (["{films}/days.model", "2024-99-01"], 2, "labels of type date32"),
        (["{films}/text"], 1, "is not a model"),
        (["{films}/gone"], 1, "gone"),
        (["{films}/line.model", "0"], 2, "use sparrow predict"),
    ],
)
def test_recommend_errors(cli: Any, films: Path, words: list[str], code: int, problem: str) -> None:
    sp.models.LinearRegression().fit(np.eye(2), [1.0, 2.0]).save(films / "line.model", overwrite=True)
    done = cli("recommend", *(word.format(films=films) for word in words))
    assert (done.code, done.out) == (code, "")
    assert problem in " ".join(done.err.split())
    predicted = cli("predict", films / "text.model", films / "text")
    assert predicted.code == 2
    assert "use sparrow recommend" in " ".join(predicted.err.split())


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["{web}", "--factors", "0"],
        ["{web}", "--solver", "magic"],
        ["{web}", "--dtype", "int8"],
        ["{web}", "--regularization", "much"],
        ["{web}", "--regularization", "0.1,0.2"],
        ["{web}", "--unobserved-weight", "0.1,0.2", "--evaluate"],
        ["{web}", "--regularization", "-1"],
        ["{web}", "--search", "--unobserved-weight", "0.1,nan"],
        ["{web}", "--search", "--checkpoint", "{web}.steps"],
        ["{web}", "--min-links", "0"],
        ["{web}", "--epochs"],
    ],
)
def test_usage_errors(cli: Any, web: Path, words: list[str]) -> None:
    done = cli("als", *(word.format(web=web) for word in words))
    assert (done.code, done.out) == (2, "")
    assert "Error" in done.err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["{web}.gone"], "no tensor"),
        (["{web}", "--min-links", "150"], "no node"),
        (["{web}", "--regularization", "0", "--unobserved-weight", "0"], "regularization"),
    ],
)
def test_failures(cli: Any, web: Path, words: list[str], problem: str) -> None:
    done = cli("als", *(word.format(web=web) for word in words))
    assert (done.code, done.out) == (1, "")
    assert problem in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_help(cli: Any) -> None:
    done = cli("als", "--help")
    assert done.code == 0
    for option in ("--factors", "--unobserved-weight", "--min-links", "--evaluate", "--search", "--checkpoint"):
        assert option in done.out
