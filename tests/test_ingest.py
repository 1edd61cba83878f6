"""What ``sp.ingest`` adds to the readers: the opened tensors, and documents that say so."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

import sparrow as sp

FORMATS = [getattr(sp.ingest, name) for name in sp.ingest.__all__]


@pytest.mark.parametrize("ingest", FORMATS, ids=sp.ingest.__all__)
def test_the_document_says_what_comes_back(ingest: Any) -> None:
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
