"""Bundles: mappings of tensors stored in one folder, atomically."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sparrow as sp
from sparrow.errors import ExistsError, InvalidValueError, LabelError, SparrowError


def test_save_bundle(tmp_path: Path) -> None:
    X = sp.asarray([[0.5, 0], [0, 2]], dims=["row", "col"], labels={"col": ["a", "b"]})
    bundle = sp.Bundle({"X": X * 2, "y": np.array([1.0, -1.0])})
    assert (list(bundle), bundle.path, repr(bundle)) == (["X", "y"], None, "<Bundle in memory: X, y>")
    stored = bundle.save(tmp_path / "two.sparrow", profile="small")
    again = sp.open(tmp_path / "two.sparrow")
    for found in (stored, again):
        assert found["X"].to_numpy().tolist() == [[1, 0], [0, 4]]
        assert found["X"].sel(col="b").to_numpy().tolist() == [0, 4]
        assert found["y"].to_numpy().tolist() == [1, -1]
        assert [found[name].verify() for name in found] == [[], []]
    with pytest.raises(ExistsError):
        bundle.save(tmp_path / "two.sparrow")
    sp.Bundle({"X": again["X"]}).save(tmp_path / "two.sparrow", overwrite=True)  # it reads what it replaces
    assert list(sp.open(tmp_path / "two.sparrow")) == ["X"]


def test_export_expressions_as_libsvm(tmp_path: Path) -> None:
    (tmp_path / "two.svm").write_text("1 1:2 3:0.5\n-1 1:2\n")
    two = sp.ingest.libsvm(tmp_path / "two.svm", tmp_path / "two.sparrow")
    assert sp.export(sp.Bundle({"X": two["X"] * 4, "y": two["y"]}), tmp_path / "four.svm") == 2
    assert (tmp_path / "four.svm").read_text() == "1 1:8 3:2\n-1 1:8\n"


def test_bad_bundles(tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match="at least one"):
        sp.Bundle({})
    with pytest.raises(SparrowError):
        sp.Bundle({"X": object()})
    bundle = sp.Bundle({"../X": sp.eye(2)})
    with pytest.raises(InvalidValueError, match="cannot name"):
        bundle.save(tmp_path / "b.sparrow")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(LabelError, match="the bundle has no tensor 'y'"):
        bundle["y"]
