"""A notebook user with ratings: every cell shows data, and nothing on stderr."""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sparrow as sp
from docs.notebook_outputs import start_kernel

CELLS = {
    "file": """
import numpy as np, polars as pl, sparrow as sp
sp.config(progress=True)
rng = np.random.default_rng(0)
users, films = np.unique(rng.zipf(1.5, (4000, 2)) % [200, 300], axis=0).T
stars = np.where((users + films) % 3 == 0, 4.5, 2.5)
pl.DataFrame({"userId": users * 7 + 1, "movieId": films * 31 + 1, "rating": stars}).write_csv("ratings.csv")
""",
    "ingest": """
ratings = sp.ingest.columns("ratings.csv", "ratings.sparrow", coords=["userId", "movieId"], value="rating",
                            relabel=True)
ratings
""",
    "tiny": """
sp.from_coords([[0, 1], [0, 1]], [4.5, 3.0], dims=("user", "film"),
               labels={"user": ["ann", "bob"], "film": ["Alien", "Brazil"]})
""",
    "head": "ratings.head()",
    "vector": 'ratings.count(axis="userId").compute()',
    "top": 'ratings.count(axis="userId").topk(3)',
    "describe": "ratings.describe()",
    "history": "ratings.history()",
    "files": "ratings.files()",
    "labels": "ratings.labels()",
    "plan": "ratings[:20].explain()",
    "picture": "ratings.spy()",
    "model": "sp.models.ALS(factors=8, unobserved_weight=0.1, epochs=5).fit(ratings)",
    "recommend": "model = _; model.recommend([8], k=3)[0].tolist()",
    "bundle": """
bundle = sp.ingest.libsvm(sp.datasets.path("heart_scale"), "heart.sparrow")
bundle
""",
    "classifier": "sp.models.LogisticRegression(epochs=5, validation=0.2).fit(bundle)",
    "progress": """
import sparrow.testing
with sparrow.testing.tune("runtime", progress_delay_seconds=0):
    model = sp.models.LogisticRegression(epochs=5, validation=0.2).fit(bundle)
""",
    "mistake": "ratings.sel(userId=7)",
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[Any]]]:
    """Outputs of the cells, by name."""
    for name in ("nbclient", "nbformat", "ipykernel", "matplotlib"):
        pytest.importorskip(name, reason="runs notebooks")
    nbclient, nbformat = map(importlib.import_module, ("nbclient", "nbformat"))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code.strip()) for code in CELLS.values()])
    with warnings.catch_warnings(), start_kernel(tmp_path_factory.mktemp("walk")) as kernel:
        warnings.simplefilter("ignore")  # of the libraries that run notebooks
        client: Any = nbclient.NotebookClient(notebook, km=kernel, timeout=300, allow_errors=True)
        try:
            client.execute()
        finally:
            client.kc.stop_channels()
            client.kc.context.destroy(linger=0)
        yield {name: cell.outputs for name, cell in zip(CELLS, notebook.cells, strict=True)}


def find_data(outputs: list[Any], kind: str) -> str:
    """Return the outputs of a media type, joined."""
    return "".join(str(out.data[kind]) for out in outputs if "data" in out and kind in out.data)


def read_text(html: str) -> str:
    """Return the text of HTML."""
    return re.sub(r"\s+", " ", re.sub(r"<style.*?</style>|<[^>]+>", " ", html, flags=re.DOTALL))


def test_nothing_is_written_to_stderr(outputs: dict[str, list[Any]]) -> None:
    written = {
        name: out.text for name, found in outputs.items() for out in found
        if out.output_type == "stream" and out.name == "stderr"
    }  # fmt: skip
    assert written == {}


def test_only_the_mistake_raises(outputs: dict[str, list[Any]]) -> None:
    failed = [name for name, found in outputs.items() if any(out.output_type == "error" for out in found)]
    assert failed == ["mistake"]


def test_results_show_values_and_labels(outputs: dict[str, list[Any]]) -> None:
    tiny = read_text(find_data(outputs["tiny"], "text/html"))
    assert all(shown in tiny for shown in ("ann", "bob", "Alien", "Brazil", "4.5", "3"))
    stored = read_text(find_data(outputs["ingest"], "text/html"))
    assert all(shown in stored for shown in ("userId", "movieId", "1,114", "4.5", "float64"))
    assert "?" not in stored
    plain = find_data(outputs["ingest"], "text/plain")
    assert "4.5" in plain
    assert "?" not in plain


def test_tables_are_tables(outputs: dict[str, list[Any]]) -> None:
    for name in ("head", "top", "describe", "history", "files", "labels"):
        assert "<table" in find_data(outputs[name], "text/html"), name
    top = read_text(find_data(outputs["top"], "text/html"))
    assert "32" in top
    assert "133" in top
    assert "np.float64" not in find_data(outputs["describe"], "text/plain")


def test_pictures_say_something(outputs: dict[str, list[Any]]) -> None:
    assert len(find_data(outputs["picture"], "image/png")) > 5000
    vector = find_data(outputs["vector"], "text/html")
    assert "<svg" in vector  # a histogram, not a square
    assert "133" in read_text(vector)  # the largest value


def test_plans_and_models_render(outputs: dict[str, list[Any]]) -> None:
    plan = find_data(outputs["plan"], "text/html")
    assert "\\n" not in plan
    assert "scan" in read_text(plan)
    assert "\\n" not in find_data(outputs["plan"], "text/plain")
    assert "8" in read_text(find_data(outputs["model"], "text/html"))
    assert "loss" in read_text(find_data(outputs["model"], "text/html"))
    assert "loss" in read_text(find_data(outputs["classifier"], "text/html"))
    bundle = read_text(find_data(outputs["bundle"], "text/html"))
    assert "X" in bundle
    assert "270" in bundle


def test_progress_ends_complete(outputs: dict[str, list[Any]]) -> None:
    shown = read_text(find_data(outputs["progress"], "text/html"))
    assert "epoch 5 of 5, loss" in shown
    assert "100%" in shown


def test_recommendations_follow_labels(outputs: dict[str, list[Any]]) -> None:
    assert find_data(outputs["recommend"], "text/plain") == "[[838, 2636, 6914]]"


def test_tracebacks_show_the_line_of_the_user(outputs: dict[str, list[Any]]) -> None:
    (error,) = [out for out in outputs["mistake"] if out.output_type == "error"]
    plain = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error.traceback))
    assert "ratings.sel(userId=7)" in plain
    assert "userId" in error.evalue
    assert re.findall(r"sparrow/\w+/[\w/]*\.py", plain) == []


def test_movielens_asks_for_relabel(shared_data: Path, tmp_path: Path) -> None:
    source = shared_data / "ml-latest-small" / "ratings.csv.gz"
    columns: Any = {"coords": ["userId", "movieId"], "value": "rating"}
    with pytest.warns(UserWarning, match=r"movieId.*9,724 of 193,610.*relabel=True"):
        sp.ingest.columns(source, tmp_path / "gaps.sparrow", **columns)
    stars = sp.ingest.columns(source, tmp_path / "stars.sparrow", relabel=True, **columns)
    assert stars.shape == (610, 9724)
    model = sp.models.ALS(factors=8, epochs=3).fit(stars)
    films, _ = model.recommend([1], k=3)
    assert set(films[0].tolist()) <= set(stars.labels("movieId").to_pylist())
