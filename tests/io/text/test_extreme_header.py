"""Files of the Extreme Classification Repository, whose first line has sizes."""

from __future__ import annotations

import gzip
import shlex
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow.errors import IngestError
from sparrow.testing import tune


def text_of(x: Any, y: Any, comment: str = "") -> str:
    """Return rows below a header."""
    rows = [
        " ".join([",".join(map(str, np.flatnonzero(y[i]))), *(f"{j}:{float(x[i, j])!r}" for j in np.flatnonzero(x[i]))])
        for i in range(len(x))
    ]
    lines = [f"{len(x)} {x.shape[1]} {y.shape[1]}", *(row if row.strip() else f" 0:{0.0}" for row in rows)]
    return comment + "".join(f"{line}\n" for line in lines)


def random(seed: int, n: int = 40) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    x = np.round(rng.random((n, 12)), 3).astype(object) * (rng.random((n, 12)) < 0.3)
    return x.astype(float).round(3), rng.random((n, 5)) < 0.3


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["plain", "crlf", "gzip", "comment", "no final newline"])
def test_sizes_of_header_are_those_of_tensors(tmp_path: Path, seed: int, kind: str) -> None:
    x, y = random(seed)
    y[:, -1] = x[:, -1] = 0  # nothing occurs in the last columns
    text = text_of(x, y, "# a comment\n\n" if kind == "comment" else "")
    data = {"crlf": text.replace("\n", "\r\n"), "no final newline": text[:-1]}.get(kind, text).encode()
    (tmp_path / "a.txt").write_bytes(gzip.compress(data) if kind == "gzip" else data)
    with tune("io", libsvm_block_bytes=200):
        made = sp.ingest(tmp_path / "a.txt", tmp_path / "a")
    assert made["X"].shape == x.shape
    assert made["y"].shape == y.shape
    assert made["y"].labels("label") is None
    np.testing.assert_array_equal(made["X"].to_numpy(), x)
    np.testing.assert_array_equal(made["y"].to_numpy(), y)


def test_several_files_and_bases(tmp_path: Path) -> None:
    parts = [random(seed, n) for seed, n in ((0, 5), (1, 7))]
    for k, (x, y) in enumerate(parts):
        (tmp_path / f"{k}.txt").write_text(text_of(x, y))
    made = sp.ingest.libsvm([tmp_path / "0.txt", tmp_path / "1.txt"], tmp_path / "a", n_features=20)
    assert made["X"].shape == (12, 20)
    np.testing.assert_array_equal(made["X"].to_numpy()[:, :12], np.concatenate([x for x, _ in parts]))
    np.testing.assert_array_equal(made["y"].to_numpy(), np.concatenate([y for _, y in parts]))
    (tmp_path / "b.txt").write_text("1 3 2\n1 3:2\n")
    with pytest.raises(IngestError, match=r"b.txt, line 2: .* below 3, .*pass index_base=1.*\(at '3:2'\)"):
        sp.ingest.libsvm(tmp_path / "b.txt", tmp_path / "b")
    assert sp.ingest.libsvm(tmp_path / "b.txt", tmp_path / "b", index_base=1)["X"].to_numpy().tolist() == [[0, 0, 2]]
    (tmp_path / "c.txt").write_text("0 3 2\n")
    with pytest.warns(UserWarning, match="there are no rows"):
        made = sp.ingest.libsvm(tmp_path / "c.txt", tmp_path / "c")
    assert (made["X"].shape, made["y"].shape) == ((0, 3), (0, 2))


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["2 3 2\n1 0:1\n"], "a.txt: the header declares 2 points, got 1 rows"),
        (["1 3 2\n1 0:1\n0 1:1\n"], "the header declares 1 points, got 2 rows"),
        (["1 3 2\n2 0:1\n"], r"a.txt, line 2: the label must be an integer below 2, .*\(at '2'\)"),
        (["2 3 2\n0 0:1\n1,-1 0:1\n"], r"a.txt, line 3: the label must be an integer below 2, .*\(at '-1'\)"),
        (["1 3 2\n0.5 0:1\n"], r"\(at '0.5'\)"),
        (["1 3 2\n0 0:1\n", "1 4 2\n0 0:1\n"], r"b.txt, line 1: .* 3 features and 2 labels, this one 4 features"),
        (["1 3 2\n0 0:1\n", "0 0:1\n"], "b.txt, line 1: all files must have the same header.* this one no header"),
        (["0 0:1\n", "1 3 2\n0 0:1\n"], "b.txt, line 1: .* the first has no header, this one 3 features"),
        (["1 2 3 4\n0 0:1\n"], "a.txt, line 1: a feature must be index:value"),
        (["0 0:1\n1 3 2\n"], "a.txt, line 2: a feature must be index:value"),
    ],
)
def test_other_sizes_than_declared(tmp_path: Path, texts: list[str], told: str) -> None:
    for name, text in zip("ab", texts, strict=False):
        (tmp_path / f"{name}.txt").write_text(text)
    files = [tmp_path / f"{name}.txt" for name, _ in zip("ab", texts, strict=False)]
    with pytest.raises(IngestError, match=told):
        sp.ingest.libsvm(files if len(files) > 1 else files[0], tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("rows", ["0:0.5 2:1\n1:2\n", "7 0:0.5 2:1\n8,9 1:2\n"])
@pytest.mark.parametrize("packed", [False, True])
def test_header_without_labels_names_a_command(cli: Any, tmp_path: Path, rows: str, packed: bool) -> None:
    """Files of rows and of columns have two sizes; they may have no labels."""
    data = f"2 4\n{rows}".encode()
    path = tmp_path / "it's X.txt"
    path.write_bytes(gzip.compress(data) if packed else data)
    for k, words in enumerate(([], ["libsvm"])):
        done = cli("ingest", *words, path, tmp_path / f"out{k}")
        command = done.err[done.err.index("gzip" if packed else "sed") :].strip()
        before, _, last = command.rpartition(" | ")
        piped = subprocess.run(before, shell=True, capture_output=True, check=True).stdout
        (tmp_path / "piped").write_bytes(piped)
        ingest = [word if word != "-" else tmp_path / "piped" for word in shlex.split(last)[1:]]
        assert cli(*ingest).code == 0
        made = sp.open(tmp_path / f"out{k}")
        np.testing.assert_array_equal(made["X"].to_numpy(), [[0.5, 0, 1, 0], [0, 2, 0, 0]])
        labels = made["y"].labels(made["y"].ndim - 1)
        assert (None if labels is None else labels.to_pylist()) == (["7", "8", "9"] if rows[0] == "7" else None)
