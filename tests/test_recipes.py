"""The recipes of ``ingest/`` run as scripts, on files as they are published."""

from __future__ import annotations

import runpy
import shutil
import sys
from collections.abc import Callable, Mapping
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
    counts = "3 edges read, 3 stored, 0 merged as duplicates\n"
    assert told == f"{counts}<Tensor kept.sparrow (src: 10, dst: 10) int64 nnz=3 coo v0>\n"
    told = run("snap.py", tmp_path / "graph.txt", tmp_path / "new.sparrow", "--relabel", "--undirected")
    counts = "3 edges read, 4 stored, 2 merged as duplicates\n"
    assert told == f"{counts}<Tensor new.sparrow (src: 3, dst: 3) int64 nnz=4 coo v0>\n"


def test_libsvm_collection(run: Callable[..., str], datasets_folder: Path, tmp_path: Path) -> None:
    run(
        "libsvm_collection.py",
        datasets_folder / "a9a" / "a9a.gz",
        datasets_folder / "a9a" / "a9a.t.gz",
        tmp_path / "a9a",
    )
    found = {part: sp.open(tmp_path / "a9a" / part)["X"] for part in ("train", "test")}
    assert {part: (X.shape, X.nnz) for part, X in found.items()} == {
        "train": ((32561, 123), 451592),
        "test": ((16281, 123), 225731),
    }


def test_a_part_that_is_bad_leaves_nothing(run: Callable[..., str], tmp_path: Path) -> None:
    texts = {"train": "1 1:2 3:1\n", "bad": "1 1:2 x:1\n", "test": "-1 2:1 4:2\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(sp.errors.IngestError, match="bad, line 1"):
        run("libsvm_collection.py", tmp_path / "train", tmp_path / "bad", tmp_path / "both")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(texts)
    (tmp_path / ".both.partial" / "train").mkdir(parents=True)  # of a run that was killed
    run("libsvm_collection.py", tmp_path / "train", tmp_path / "test", tmp_path / "both")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*texts, "both"])
    assert [sp.open(tmp_path / "both" / part)["X"].shape for part in ("train", "test")] == [(1, 4), (1, 4)]
    with pytest.raises(SystemExit):
        run("libsvm_collection.py", tmp_path / "train", tmp_path / "test", tmp_path / "both")


def test_published(run: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "wiki-Vote.txt").write_text("# unpacked\r\n3\t7\r\n7\t3\r\n")
    told = run("published.py", "wiki-Vote", tmp_path / "votes.sparrow", "--files", tmp_path)
    assert told == "<Tensor votes.sparrow (src: 8, dst: 8) int64 nnz=2 coo v0>\n"
    votes = sp.open(tmp_path / "votes.sparrow")
    votes[0, 0] = 5  # it is the caller's own
    with pytest.raises(sp.errors.ExistsError):
        sp.datasets.ingest("wiki-Vote", tmp_path / "votes.sparrow", tmp_path)
    assert run("published.py", "heart_scale", tmp_path / "votes.sparrow", "--overwrite") != told


@pytest.mark.parametrize(
    ("name", "files", "shape", "nnz"),
    [
        ("in-2004", {"in-2004.graph": "cnr-2000/cnr-2000.graph", "in-2004.properties": "cnr-2000/cnr-2000.properties"},
         (325557, 325557), 3216152),
        ("p2p-Gnutella08", {"p2p-Gnutella08.txt": "p2p-Gnutella08/p2p-Gnutella08.txt"}, (6301, 6301), 20777),
        ("news20.binary", {"news20.binary.gz": "a9a/a9a.gz"}, (32561, 1355191), 451592),
        ("uber", {"uber.tns.gz": "tns/med.tns.gz"}, (2425, 10816, 29567), 100000),
        ("bcsstk13", {"bcsstk13.mtx.gz": "mtx/bcsstk13.mtx.gz"}, (2003, 2003), 83883),
        ("ml-latest-small", {"ratings.csv.gz": "ml-latest-small/ratings.csv.gz"}, (610, 9724), 100836),
        ("WN18", {"train2id.txt": "kg-wn18/valid.txt", "valid2id.txt": "kg-wn18/valid.txt",
                  "test2id.txt": "kg-wn18/test.txt", "entity2id.txt": "kg-wn18/entity2id.txt",
                  "relation2id.txt": "kg-wn18/relation2id.txt"}, (40943, 18, 40943), 5000),
    ],
)  # fmt: skip
def test_published_files_of_each_family(
    name: str, files: dict[str, str], shape: tuple[int, ...], nnz: int, shared_data: Path, tmp_path: Path
) -> None:
    for file, source in files.items():
        shutil.copy(shared_data / source, tmp_path / file)
    found = sp.datasets.ingest(name, tmp_path / "stored.sparrow", tmp_path)
    if isinstance(found, Mapping):
        found = found["X" if "X" in found else "test"]
    assert (found.shape, found.nnz) == (shape, nnz)
