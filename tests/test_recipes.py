"""The recipes of ``ingest/`` run as scripts, on files as they are published."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import sparrow as sp


def run(repository: Path, recipe: str, *words: object) -> str:
    command = [sys.executable, str(repository / "ingest" / recipe), *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_snap(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "graph.txt").write_text("# Nodes: 3 Edges: 3\r\n# FromNodeId\tToNodeId\r\n3\t7\r\n7\t3\r\n3\t9\r\n")
    told = run(repository, "snap.py", tmp_path / "graph.txt", tmp_path / "kept.sparrow")
    assert told == "<Tensor kept.sparrow (src: 10, dst: 10) int64 nnz=3 coo v0>\n"
    told = run(repository, "snap.py", tmp_path / "graph.txt", tmp_path / "new.sparrow", "--relabel", "--undirected")
    assert told == "<Tensor new.sparrow (src: 3, dst: 3) int64 nnz=4 coo v0>\n"


def test_libsvm_collection(repository: Path, shipped: Path, tmp_path: Path) -> None:
    run(repository, "libsvm_collection.py", shipped / "a9a" / "a9a.gz", shipped / "a9a" / "a9a.t.gz", tmp_path / "a9a")
    found = {part: sp.open(tmp_path / "a9a" / part)["X"] for part in ("train", "test")}
    assert {part: (X.shape, X.nnz) for part, X in found.items()} == {
        "train": ((32561, 123), 451592),
        "test": ((16281, 123), 225731),
    }
