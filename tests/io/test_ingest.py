"""Functions of ``sp.ingest``: opened results, docstrings, ``if_exists``."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

import sparrow as sp
from sparrow.errors import ExistsError, InvalidValueError

FORMATS = [getattr(sp.ingest, name) for name in sp.ingest.__all__]


@pytest.mark.parametrize("ingest", FORMATS, ids=sp.ingest.__all__)
def test_docstring_returns_section(ingest: Any) -> None:
    assert ingest.__module__ == "sparrow.ingest"
    document = inspect.getdoc(ingest)
    assert document is not None
    returns = document.split("Returns\n-------\n")[1].split("Raises\n")[0]
    assert "sp.open(dst)" in returns
    assert "str" not in returns.split()
    assert inspect.signature(ingest).return_annotation == returns.split("\n")[0]
    assert list(inspect.signature(ingest).parameters)[:2] == ["src", "dst"]


def test_src_and_dst_may_be_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("0 1\n")
    made = sp.ingest.edges(src=tmp_path / "a.txt", dst=tmp_path / "a.sparrow")
    assert made.nnz == 1


def test_if_exists(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("0 1\n")
    (tmp_path / "b.txt").write_text("0 1\n1 2\n")
    made = tmp_path / "a.sparrow"
    sp.ingest.edges(tmp_path / "a.txt", made, if_exists="open")
    assert sp.ingest.edges(tmp_path / "gone.txt", made, if_exists="open").nnz == 1, "nothing is read"
    with pytest.raises(ExistsError, match=r"overwrite=True to replace it, or if_exists='open' to open it"):
        sp.ingest.edges(tmp_path / "b.txt", made, if_exists="error")
    assert sp.ingest.edges(tmp_path / "b.txt", made, if_exists="replace").nnz == 2
    with pytest.raises(InvalidValueError, match="pass one of them"):
        sp.ingest.edges(tmp_path / "b.txt", made, if_exists="open", overwrite=True)
    wrong: Any = "skip"
    with pytest.raises(InvalidValueError, match="if_exists must be 'error', 'open' or 'replace', got 'skip'"):
        sp.ingest.edges(tmp_path / "b.txt", made, if_exists=wrong)
    other = tmp_path / "notes"
    other.mkdir()
    with pytest.raises(ExistsError, match="exists"):
        sp.ingest.edges(tmp_path / "b.txt", other, if_exists="open")
