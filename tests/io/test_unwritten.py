"""Labels, names and fill values that a format cannot hold: export says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow.errors import NotFoundError, UnsupportedError

HELD = {
    "csv": (True, True), "tsv": (True, True), "parquet": (True, True), "arrow": (True, True), "edges": (True, True),
    "h5ad": (True, False), "mtx": (False, False), "tns": (False, False), "npz": (False, False), "npy": (False, False),
    "h5": (False, False),
}  # fmt: skip
"""Whether a format holds labels, and names of dimensions."""


@pytest.mark.parametrize("suffix", HELD)
def test_export_notes_what_is_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str) -> None:
    labels, names = HELD[suffix]
    path = tmp_path / f"r.{suffix}"
    both = sp.from_coords([[0, 1], [0, 1]], [1.0, 2.0], dims=("user", "film"), labels={"user": ["ada", "bob"]})
    sp.export(both, path)
    err = capsys.readouterr().err
    assert ("labels of user are not exported" in err) is not labels
    assert ("names of dimensions user, film" in err) is not names
    assert err.count("\n") == (not (labels and names))
    plain = sp.from_coords([[0, 1], [0, 1]], [1.0, 2.0])
    sp.export(plain, path, overwrite=True)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz", "npy", "h5"])
def test_export_notes_the_fill_value(tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str) -> None:
    sp.export(sp.from_coords([[0]], [2.0], shape=(2,), fill_value=1.5), tmp_path / f"r.{suffix}")
    assert ("fill value 1.5 is not exported" in capsys.readouterr().err) is (suffix in ("csv", "parquet"))


def test_export_of_a_path(tmp_path: Path) -> None:
    A = sp.from_coords([[0, 1], [1, 0]], [3, 4])
    A.save(tmp_path / "A.sparrow")
    assert sp.export(tmp_path / "A.sparrow", tmp_path / "a.csv") == 2
    assert (tmp_path / "a.csv").read_text() == "d0,d1,value\n0,1,3\n1,0,4\n"
    with pytest.raises(NotFoundError, match="no tensor at"):
        sp.export(str(tmp_path / "B.sparrow"), tmp_path / "b.csv")
    with pytest.raises(UnsupportedError, match="source must be a tensor or a bundle, got ndarray"):
        sp.export(np.eye(2), tmp_path / "b.csv")  # type: ignore[arg-type]


PATHS: dict[str, Any] = {
    "ingest": lambda bad, _: sp.ingest(__file__, bad),
    "ingest open": lambda bad, _: sp.ingest(__file__, bad, if_exists="open"),
    "ingest edges": lambda bad, _: sp.ingest.edges(__file__, bad),
    "ingest columns": lambda bad, _: sp.ingest.columns({}, bad, coords=["i"]),
    "source": lambda bad, folder: sp.ingest(bad, folder / "o"),
    "source of edges": lambda bad, folder: sp.ingest.edges(bad, folder / "o"),
    "save": lambda bad, _: sp.asarray([1]).save(bad),
    "open": lambda bad, _: sp.open(bad),
    "export": lambda bad, _: sp.export(sp.asarray([1]), bad),
    "export source": lambda bad, folder: sp.export(bad, folder / "o.csv"),
    "load": lambda bad, _: sp.models.load(bad),
}


@pytest.mark.parametrize("call", PATHS)
@pytest.mark.parametrize("bad", [None, 3, 1.5, b"x"], ids=str)
def test_paths_must_be_paths(tmp_path: Path, call: str, bad: Any) -> None:
    with pytest.raises(sp.errors.SparrowError, match=r"(path|dst|src|source) must be .*, got") as caught:
        PATHS[call](bad, tmp_path)
    assert "os.PathLike" not in str(caught.value)
