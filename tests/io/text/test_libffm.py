"""libffm text, against a plain parser."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow.errors import DuplicateError, IngestError, SparrowError, UnsupportedError
from sparrow.testing import tune


@given(st.integers(0, 2**32), st.integers(1, 8), st.sampled_from([9, 1 << 22]))
def test_any_text(tmp_path_factory: pytest.TempPathFactory, seed: int, rows: int, block: int) -> None:
    folder = tmp_path_factory.mktemp("ffm")
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((rows, 3, 4)) < 0.3, rng.standard_normal((rows, 3, 4)), 0)
    y = rng.integers(0, 2, rows)
    lines = ["# labels and features"]
    for label, sample in zip(y, X, strict=True):
        tokens = [f"{f}:{j}:{sample[f, j]}" for f, j in rng.permutation(np.argwhere(sample))]
        lines += [" " * (rng.random() < 0.2) + "  ".join([str(label), *tokens]) + "\t" * (rng.random() < 0.2)]
        lines += [""] * (rng.random() < 0.2)
    (folder / "a.ffm").write_text("\n".join(lines))
    with tune("io", block_bytes=block):
        found = sp.ingest.libffm(folder / "a.ffm", folder / "A.sparrow")
    used = tuple(slice(0, n) for n in found["X"].shape)
    np.testing.assert_array_equal(found["X"].to_numpy(), X[used])
    assert np.count_nonzero(X) == found["X"].nnz
    np.testing.assert_array_equal(found["y"].to_numpy(), y)
    assert sp.export(found, folder / "b.ffm.gz") == rows
    again = sp.ingest.libffm(folder / "b.ffm.gz", folder / "B.sparrow")
    np.testing.assert_array_equal(again["X"].to_numpy(), X[used])
    np.testing.assert_array_equal(again["y"].to_numpy(), y)


@pytest.mark.parametrize(
    ("text", "problem", "token"),
    [
        ("1 0:1:2\nx 0:1:2\n", "the label must be a number", "x"),
        ("1 0:1:2\n1 0:1\n", "a feature must be field:index:value", "0:1"),
        ("1 0:1:2\n1 0:1:2:3\n", "a feature must be field:index:value", "0:1:2:3"),
        ("1 0:1:2\n1 a:1:2\n", "an integer field and index", "a:1:2"),
        ("1 0:1:2\n1 0:1:b\n", "the value must be a number", "0:1:b"),
        ("1 0:1:2\n1 0:-1:2\n", "is negative", "0:-1:2"),
        (f"1 0:1:2\n1 0:{2**63}:2\n", "beyond 2\\^63 - 1", f"0:{2**63}:2"),
        (f"1 0:1:2\n1 0:{2**63 - 1}:2\n", "the largest coordinate", f"0:{2**63 - 1}:2"),
    ],
)
def test_bad_input(tmp_path: Path, text: str, problem: str, token: str) -> None:
    (tmp_path / "a.ffm").write_text(text)
    with pytest.raises(IngestError, match=problem) as found:
        sp.ingest.libffm(tmp_path / "a.ffm", tmp_path / "A.sparrow")
    assert (found.value.line, found.value.token) == (2, token)
    assert not (tmp_path / "A.sparrow").exists()


def test_duplicates_and_unsupported_bundles(tmp_path: Path) -> None:
    (tmp_path / "a.ffm").write_text("1 0:1:2 0:1:3\n")
    with pytest.raises(DuplicateError):
        sp.ingest.libffm(tmp_path / "a.ffm", tmp_path / "A.sparrow")
    found = sp.ingest.libffm(tmp_path / "a.ffm", tmp_path / "A.sparrow", duplicates="sum", dtype="int32")
    assert (found["X"].dtype, found["X"][0, 0, 1]) == (np.int32, 5)
    with pytest.raises(UnsupportedError, match="needs a bundle"):
        sp.export(sp.eye(2), tmp_path / "b.ffm")


@given(st.text("01:.- \n#xe", max_size=40))
def test_any_characters(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "a.ffm").write_text(text)
    try:
        sp.ingest.libffm(folder / "a.ffm", folder / "A.sparrow")
    except SparrowError:
        assert not (folder / "A.sparrow").exists()
