"""The recipes of ``ingest/`` run as scripts, on files as they are published."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import sparrow as sp


@pytest.fixture
def run(repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    def script(recipe: str, *words: object) -> str:
        path = str(repository / "ingest" / recipe)
        monkeypatch.setattr(sys, "argv", [path, *map(str, words)])
        capsys.readouterr()
        runpy.run_path(path, run_name="__main__")
        return capsys.readouterr().out

    return script


def test_snap(run: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "graph.txt").write_text("# Nodes: 3 Edges: 3\r\n# FromNodeId\tToNodeId\r\n3\t7\r\n7\t3\r\n3\t9\r\n")
    told = run("snap.py", tmp_path / "graph.txt", tmp_path / "kept.sparrow")
    assert told == "<Tensor kept.sparrow (src: 10, dst: 10) int64 nnz=3 coo v0>\n"
    told = run("snap.py", tmp_path / "graph.txt", tmp_path / "new.sparrow", "--relabel", "--undirected")
    assert told == "<Tensor new.sparrow (src: 3, dst: 3) int64 nnz=4 coo v0>\n"


def test_libsvm_collection(run: Callable[..., str], shipped: Path, tmp_path: Path) -> None:
    run("libsvm_collection.py", shipped / "a9a" / "a9a.gz", shipped / "a9a" / "a9a.t.gz", tmp_path / "a9a")
    found = {part: sp.open(tmp_path / "a9a" / part)["X"] for part in ("train", "test")}
    assert {part: (X.shape, X.nnz) for part, X in found.items()} == {
        "train": ((32561, 123), 451592),
        "test": ((16281, 123), 225731),
    }
