"""Every operation that shows a bar knows its total and ends it complete."""

from __future__ import annotations

import ast
import io
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.cells import cell_len

import sparrow as sp
from sparrow.models.evaluation import search
from sparrow.testing import observe, strategy, tune
from tests.engines.stream.test_spilled import SMALL
from tests.io.text.test_libsvm import ingest as ingest_libsvm

ROOT = Path(__file__).resolve().parent.parent
Run = Callable[[Path], Any]

A: Any = sp.random((60, 60), nnz=900, seed=1)
GRAPH: Any = sp.asarray((A.to_numpy() != 0).astype(float))
SQUARE = np.eye(60) * 20 + A.to_numpy() + A.to_numpy().T
B = np.ones(60)


def on_disk(run: Run) -> Run:
    """Run an algorithm on a spilled graph."""

    def run_spilled(folder: Path) -> Any:
        with strategy("edges_on_disk"), tune("graph", read_edges=100, triangle_share=1 << 60, component_share=1 << 60):
            return run(folder)

    return run_spilled


def by_parts(name: str) -> Run:
    """Multiply stored tensors by small parts."""

    def multiply(folder: Path) -> Any:
        left = sp.random((70, 90), density=0.1, seed=3).save(folder / "left")
        right = sp.random((90, 120), density=0.2, seed=4).save(folder / "right")
        with strategy(name), tune("product", **SMALL):
            return (left @ right).compute()

    return multiply


def by_chunks(run: Callable[[Any], Any]) -> Run:
    """Evaluate tensors in memory by small chunks."""

    def evaluate(folder: Path) -> Any:
        with tune("relations", chunk_elements=50), strategy("partitioned"):
            return run(A)

    return evaluate


def ingest_text(name: str, text: str, **options: Any) -> Run:
    def ingest(folder: Path) -> Any:
        (folder / "file.txt").write_text(text)
        return getattr(sp.ingest, name)(folder / "file.txt", folder / "out", **options)

    return ingest


def export_to(suffix: str, back: str = "", tensor: Any = A) -> Run:
    def export(folder: Path) -> Any:
        sp.export(tensor, folder / f"file{suffix}")
        return back and getattr(sp.ingest, back)(folder / f"file{suffix}", folder / "out")

    return export


def graph(name: str, *args: Any, **options: Any) -> Run:
    return lambda folder: getattr(sp.graph, name)(GRAPH, *args, **options)


def solve(name: str, *args: Any, **options: Any) -> Run:
    return lambda folder: getattr(sp.linalg, name)(sp.asarray(SQUARE), *(args or (B,)), **options)


def logistic(folder: Path, **options: Any) -> Any:
    X, y = sp.random((300, 8), density=0.5, seed=2), np.arange(300) % 2
    return sp.models.LogisticRegression(epochs=3, **options).fit(X, y)


def als(folder: Path, **options: Any) -> Any:
    return sp.models.ALS(4, epochs=3, **options).fit(A)


def recommend(folder: Path) -> Any:
    return als(folder).recommend_all(folder / "out.parquet", k=3)


def export_libsvm(folder: Path) -> Any:
    ingest_libsvm(folder, "1 1:0.5\n")
    return sp.export(sp.open(folder / "out"), folder / "a.libsvm")


def multiply_stored(folder: Path) -> Any:
    with strategy("compiled"):
        return A.save(folder / "a") @ B


def hdf5_matrix(folder: Path) -> Any:
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "a.h5ad", "w") as file:
        file.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
        X = file.create_dataset("X", data=A.to_numpy())
        X.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
    return sp.ingest.h5ad(folder / "a.h5ad", folder / "out")


LINES = "".join(f"{k % 7} {k % 11}\n" for k in range(300))
EXACT = {
    *("random walks", "triangles", "connected components", "reducing", "counting", "multiplying panels"),
    *("adding up panels", "counting ratings", "epoch 3 of 3", "searching", "recommending", "exporting", "generating"),
    *("reading edges", "writing", "reading elements", "reading lists", "reading triples", "reading documents"),
    *("reading libffm text", "reading libsvm text", "reading the matrix", "reading the table"),
}
"""Bars whose total is reached."""
UNKNOWN = {"eigsh", "expm_multiply", "lsmr", "lsqr", "svds"}
"""Solvers whose products cannot be foreseen."""
CASES: list[tuple[str, Run]] = [
    ("breadth-first search", graph("bfs", 0)),
    ("breadth-first search", on_disk(graph("bfs", 0))),
    ("shortest paths", graph("shortest_paths", 0)),
    ("shortest paths", on_disk(graph("shortest_paths", 0))),
    ("random walks", graph("random_walks", [0, 1], 5)),
    ("triangles", graph("triangles")),
    ("triangles", on_disk(graph("clustering"))),
    ("connected components", graph("connected_components")),
    ("strongly connected components", graph("strongly_connected_components")),
    ("strongly connected components", on_disk(graph("strongly_connected_components"))),
    ("hits", graph("hits")),
    ("core numbers", graph("kcore")),
    ("core numbers", on_disk(graph("kcore"))),
    ("label propagation", graph("label_propagation")),
    ("label propagation", on_disk(graph("label_propagation", max_iter=3))),
    ("pagerank", lambda folder: sp.linalg.pagerank(GRAPH)),
    ("power iteration", lambda folder: sp.linalg.power_iteration(sp.asarray(SQUARE), tol=1e-3)),
    *((name, solve(name)) for name in ("cg", "gmres", "minres", "bicgstab", "lsqr", "lsmr", "expm_multiply")),
    ("cg", solve("cg", B, maxiter=30, callback=lambda found: None)),
    ("gmres", solve("gmres", B, maxiter=3, restart=5)),
    ("lobpcg", solve("lobpcg", np.random.default_rng(0).standard_normal((60, 3)), tol=1e-2, maxiter=40)),
    ("eigsh", solve("eigsh", 3)),
    ("svds", solve("svds", 3)),
    ("reducing", by_chunks(lambda A: A.sum(axis=0).compute())),
    ("selecting", by_chunks(lambda A: (A * 2).topk(3))),
    ("counting", by_chunks(lambda A: (A * 2).count(axis=None))),
    ("computing", by_chunks(lambda A: (A + A[::-1]).compute())),
    ("multiplying", multiply_stored),
    ("multiplying part by part", by_parts("k_panels")),
    ("multiplying panels", by_parts("external_sum")),
    ("adding up panels", by_parts("external_sum")),
    ("reading an operand", by_parts("row_sections")),
    ("counting ratings", als),
    ("epoch 3 of 3", als),
    ("epoch 3 of 3", lambda folder: als(folder, unobserved_weight=0, biases=True)),
    ("epoch 3 of 3", logistic),
    ("epoch 2 of 3", lambda folder: logistic(folder, validation=0.5, patience=1, optimizer=sp.optim.SGD(1e3))),
    ("searching", lambda folder: search(GRAPH, sp.models.ALS(4, epochs=1), {"regularization": [0.1, 1.0]})),
    ("recommending", recommend),
    ("reading edges", ingest_text("edges", LINES)),
    ("writing", ingest_text("edges", LINES)),
    ("reading elements", export_to(".mtx", "mtx")),
    ("reading lists", ingest_text("metis", "3 2\n2 3\n1\n1\n")),
    ("reading lists", export_to(".graph-txt", "webgraph", GRAPH)),
    ("reading triples", ingest_text("triples", "a\tlikes\tb\nb\tlikes\tc\n")),
    ("reading documents", ingest_text("text", "one two\ntwo three\n")),
    ("reading libffm text", ingest_text("libffm", "1 0:1:0.5 1:2:1\n0 0:2:1\n" * 50)),
    ("reading libsvm text", lambda folder: ingest_libsvm(folder, "1 1:0.5\n0 2:1\n" * 50)),
    ("reading the matrix", export_to(".h5", "binsparse")),
    ("reading the matrix", export_to(".h5ad", "h5ad")),
    ("reading the array", export_to(".npy", "npy")),
    ("reading the matrix", hdf5_matrix),
    ("reading the table", ingest_text("columns", "a,b,v\n1,2,3\n4,5,6\n", coords=["a", "b"], value="v")),
    *(("exporting", export_to(suffix)) for suffix in (".csv", ".mtx", ".npy", ".h5", ".h5ad")),
    ("exporting", lambda folder: sp.export(ingest_text("libffm", "1 0:1:0.5\n")(folder), folder / "a.ffm")),
    ("exporting", export_libsvm),
    ("generating", lambda folder: sp.datasets.rmat(folder / "g.csv", 6, 100)),
]
EXEMPT = {
    "checking the file": "it reads a published file, which is fetched by hand",
    "looking for the rows": "it ends with an error that names the rows",
    "reading shards": "its folder of shards is another format; tests/io/binary/test_alx.py",
    "reading vertices": "a file of names beside a graph; tests/io/text/test_edges.py",
    "persisting": "repeated products; tests/engines/test_repeats.py",
    "putting in order": "views of spilled results",
}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def text_of(description: Any) -> str:
    return str(description() if callable(description) else description)


@pytest.mark.parametrize(("description", "run"), CASES, ids=[f"{k}-{name}" for k, (name, _) in enumerate(CASES)])
def test_bars_end_complete(description: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    with (
        tune("runtime", progress_delay_seconds=0.0, progress_interval_seconds=0.0),
        sp.config(progress=True, threads=2),
        observe("progress.start", "progress.advance", "progress.finish") as seen,
    ):
        run(tmp_path)
    ends = [details for name, details in seen if name == "progress.finish"]
    assert sum(end["done"] for end in ends if text_of(end["description"]).partition(",")[0] == description)
    assert len(ends) == sum(name == "progress.start" for name, _ in seen)
    for end in ends:
        assert end["is_complete"]
        assert end["total"] == end["done"]
        name = text_of(end["description"]).partition(",")[0]
        assert name in UNKNOWN or math.isfinite(end["expected"]), name
        assert name not in EXACT or end["expected"] == end["done"], name
    lines = [line.split("\r")[-1] for line in terminal.getvalue().split("\n") if "\r" in line or "%" in line]
    assert lines
    frames = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", terminal.getvalue()).replace("\n", "\r").split("\r")
    assert max(map(cell_len, frames)) < 80, "a line of 80 columns wraps in some terminals"
    assert all("100%" in line for line in lines if "  " in line), lines


def test_every_bar_has_a_case() -> None:
    found = set()
    for path in (ROOT / "sparrow").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
                texts = node.args[:1] if name == "bar" else [key.value for key in node.keywords if key.arg == "doing"]
                found |= {text.value for text in texts if isinstance(text, ast.Constant)}
    assert found - {None} == ({name for name, _ in CASES} | EXEMPT.keys()) & found
    assert EXEMPT.keys() <= found
