"""Names, labels and files are data: no code runs, no path escapes."""

from __future__ import annotations

import ast
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow import errors

PACKAGE = Path(sp.__file__).parent
RUNS = {"eval", "exec", "pickle.load", "pickle.loads", "pickle.Unpickler", "os.system", "os.popen", "os.umask"}
"""Calls that run what they are given, or change the whole process."""
ANSWERS = ("sparrow/engines/cluster/schedulers.py", "sparrow/engines/cluster/spark.py")
"""They unpickle the tasks on workers of a cluster, and what these return through Spark."""


def test_nothing_runs_what_it_reads_or_changes_the_process() -> None:
    loads = 0
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name, where = ast.unparse(node.func), f"{path.name}:{node.lineno}"
            assert name not in RUNS or (name == "pickle.loads" and path.as_posix().endswith(ANSWERS)), where
            options = {each.arg: ast.unparse(each.value) for each in node.keywords}
            assert options.get("shell", "False") == "False", where
            assert name != "torch.load" or options.get("weights_only") == "True", where
            if name == "np.load":
                loads += 1
                assert options.get("allow_pickle") == "False", where
    assert loads


class Trap:
    """A pickle of it makes a folder when it is loaded."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


def test_a_pickle_in_a_file_is_not_loaded(tmp_path: Path) -> None:
    trap = np.array([Trap(str(tmp_path / "sprung"))], object)
    np.savez(tmp_path / "a.npz", shape=np.array([2, 2]), data=trap, format=b"coo", fill_value=trap, coords=trap)
    np.savez(tmp_path / "b.npz", shape=np.array([2, 2]), data=trap, format=b"csr", indices=trap, indptr=trap)
    np.save(tmp_path / "v.npy", trap)
    for name in ("a.npz", "b.npz"):
        with pytest.raises(errors.IngestError):
            sp.ingest.npz(tmp_path / name, tmp_path / "t")
        with pytest.raises(errors.InvalidValueError):
            sp.asarray(str(tmp_path / name))
    for read in (sp.ingest.edges, sp.ingest.libsvm):
        with pytest.raises(errors.IngestError):
            read(tmp_path / "v.npy", tmp_path / "t")
    assert not (tmp_path / "sprung").exists()


SECRET = "hunter2"
URL = f"s3://me:{SECRET}@bucket/x.npz?signature={SECRET}"


@pytest.mark.parametrize(
    "work",
    [
        lambda eye: sp.open(URL),
        lambda eye: sp.open(URL, storage_options={"AWS_SECRET_ACCESS_KEY": SECRET}),
        lambda eye: eye.save(URL),
        lambda eye: sp.export(eye, URL, "csv"),
        lambda eye: eye.to_npz(URL),
        lambda eye: sp.asarray(URL),
        lambda eye: sp.ingest.edges(URL, "t"),
        lambda eye: sp.ingest.libsvm([URL], "t"),
        lambda eye: sp.ingest.columns(URL, "t", coords=["a"]),
        lambda eye: sp.ingest.npz(URL.split("?", maxsplit=1)[0], "t"),
        lambda eye: sp.ingest.edges("README.md", URL),
    ],
)
def test_secrets_of_a_url_are_not_shown(
    work: Callable[[Any], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("README.md").write_text("0 1\n")
    with pytest.raises(errors.UnsupportedError, match=r"s3://bucket/x.*is a URL") as raised:
        work(sp.eye(3))
    error: BaseException | None = raised.value
    while error is not None:
        assert SECRET not in str(error)
        error = error.__cause__ or error.__context__
    assert os.listdir(tmp_path) == ["README.md"]


def test_files_get_the_rights_that_the_process_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.umask(0o027)
    try:
        asked = threading.Event()
        monkeypatch.setattr(os, "umask", lambda mask: asked.set())
        A = sp.eye(3).save(tmp_path / "t")
        A[0, 1] = 2
        A.add_order((1, 0))
        sp.export(A, tmp_path / "t.csv")
        A.to_npz(tmp_path / "t.npz")
        assert not asked.is_set()
    finally:
        monkeypatch.undo()
        os.umask(before)
    for path in tmp_path.rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o750 if path.is_dir() else 0o640), path


def test_names_and_labels_are_data(tmp_path: Path) -> None:
    names = ['x"; drop table y; --', "../../etc"]
    A = sp.from_coords([[0, 1], [1, 0]], [1, 2], dims=names)
    stored = A.save(tmp_path / "t; rm -rf")
    assert stored.dims == tuple(names)
    assert stored.compute(engine="duckdb").to_numpy().tolist() == A.to_numpy().tolist()
    assert sp.sql("select sum(value) from A", A=stored).fetchall() == [(3,)]
    Path(tmp_path / "g.tsv").write_text("a'b\t$(reboot)\n../x\t;drop\n")
    graph = sp.ingest.edges(tmp_path / "g.tsv", tmp_path / "g")
    assert graph.labels("src").to_pylist() == ["$(reboot)", "../x", ";drop", "a'b"]
    assert graph.sel(src="a'b", dst="$(reboot)") == 1
    assert sorted(os.listdir(tmp_path)) == ["g", "g.tsv", "t; rm -rf"]
