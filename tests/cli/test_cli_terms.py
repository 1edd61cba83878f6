"""Errors and notes of commands: in options and commands, never in Python."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow.cli.spelling import respell

PYTHON = re.compile(r"\bsp\.\w|\b[a-z_]+=(True|False)\b|\b(pass|omit|or) [a-z_]+=|\w\(\)|\bA\.\w|\.save\(")
"""Text that means nothing on a command line."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("terms")
    dims = ("user", "film")
    ids = {"user": [10, 20, 30], "film": [7, 8, 9]}
    ratings = sp.from_coords([[0, 0, 1, 2], [0, 1, 1, 2]], [5.0, 4.0, 3.0, 2.0], dims=dims, labels=ids)
    ratings.save(path / "ratings")
    model = sp.models.ALS(2, epochs=1).fit(ratings)
    model.save(path / "model")
    model.save_factors(path / "factors")
    sp.from_coords([[0], [1]], [1.0], shape=(2**32, 2**32)).save(path / "wide")
    sp.from_coords([[0], [1]], [2.0], shape=(2, 2), fill_value=1.0).save(path / "filled")
    sp.asarray(np.eye(2)).save(path / "zero")
    (path / "plain.csv").write_text("10,7,5\n")
    (path / "names.csv").write_text("d0,d1,value\na,b,5\n")
    (path / "zeros.csv").write_text("user,film,value\n40,7,0\n")
    (path / "a.npy").write_text("x")
    return path


COMMANDS: dict[str, tuple[str, str]] = {
    "unknown label": ("recommend model 99999", "pass --positions for positions"),
    "similar": ("recommend model --similar 99999", "pass --positions for positions"),
    "factors only": ("recommend factors 1", "sparrow als --out FOLDER"),
    "biases": ("als ratings --biases --factors 2 --epochs 1", "or no --biases"),
    "wide graph": ("graph components wide", "sparrow ingest edges does with --relabel"),
    "other fill": ("append zero filled", "fill value"),
    "grow labels": ("resize ratings 9,9", "'sparrow append' elements with new labels"),
    "columns": ("append ratings plain.csv --no-header", "pass --coords to name those of the dimensions, as --coords"),
    "no labels": ("append zero names.csv", "dimension 'd0' has no labels: map the column to integers"),
    "format": ("ingest npz plain.csv out", "sparrow ingest SRC DST detects formats"),
    "fill of mtx": ("export filled a.mtx", "use npz"),
    "fill note": ("append ratings zeros.csv", "changed nothing"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_messages_are_commands(cli: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(folder)
    words, expected = COMMANDS[name]
    done = cli(*words.split())
    assert expected in done.err, done.err
    assert not PYTHON.search(done.err), done.err


def test_recommend_by_position(cli: Any, folder: Path) -> None:
    labelled = cli("recommend", folder / "model", 20, "-k", 2, "--include-rated", "--json").json
    placed = cli("recommend", folder / "model", 1, "-k", 2, "--include-rated", "--positions", "--json").json
    assert [row["score"] for row in placed] == [row["score"] for row in labelled]
    assert [7 + row["item"] for row in placed] == [int(row["item"]) for row in labelled]
    near = cli("recommend", folder / "model", 1, "-k", 1, "--similar", "--positions", "--json").json
    labelled = cli("recommend", folder / "model", 8, "-k", 1, "--similar", "--json").json
    assert 7 + int(near[0]["similar"]) == int(labelled[0]["similar"])
    done = cli("recommend", folder / "model", "x", "--positions")
    assert (done.code, "must be positions, by --positions, got 'x'" in done.err) == (2, True)


def test_version_of_a_replaced_tensor_is_exported() -> None:
    text = "which this one was saved over: sp.open('a/b', version=3).save(..., overwrite=True) brings it back"
    assert respell(text, {}).endswith(": sparrow export 'a/b' FILE --at 3 writes it to a file")
