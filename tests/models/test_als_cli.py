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
