"""Tensors in text, against arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow.errors import DuplicateError, IngestError, InvalidValueError, UnsupportedError
from sparrow.testing import tune


@given(
    st.integers(0, 2**32),
    st.lists(st.integers(1, 5), min_size=1, max_size=5),
    st.sampled_from(["", "sizes", "sptensor"]),
    st.sampled_from([0, 1]),
    st.booleans(),
    st.sampled_from([30, 1 << 22]),
)
def test_any_tensor(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    shape: list[int],
    head: str,
    base: Any,
    values: bool,
    block: int,
) -> None:
    folder = tmp_path_factory.mktemp("tns")
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random(shape) < 0.5, rng.standard_normal(shape) if values else 1, 0)
    at = np.argwhere(dense)
    lines = ["# a comment", ""]
    if head:
        lines += ["sptensor"] * (head == "sptensor") + [f"{len(shape)} ", " ".join(map(str, shape))]
        lines += [str(len(at))] * (head == "sptensor")
    lines += ["\t".join(map(str, (*(cell + base), *([float(dense[tuple(cell)])] if values else [])))) for cell in at]
    (folder / "A.tns").write_text("\n".join(lines) + "\n")
    given_shape = None if head else shape
    if (not head and not len(at)) or (not values and len(shape) == 1 and head != "sptensor"):
        return  # an empty file tells nothing, and one number in a line could be that of the dimensions
    with tune("io", block_bytes=block):
        A = sp.ingest.tns(folder / "A.tns", folder / "A.sparrow", index_base=base, values=values, shape=given_shape)
    assert A.dtype == (np.float64 if values else np.int64)
    np.testing.assert_array_equal(A.to_numpy(), dense)
    assert sp.export(A, folder / "B.tns.zst") == len(at)
    again = sp.ingest.tns(folder / "B.tns.zst", folder / "B.sparrow", dtype=A.dtype)  # sizes are in a comment
    np.testing.assert_array_equal(again.to_numpy(), dense)


@pytest.mark.parametrize(
    ("name", "options", "shape", "nnz"),
    [
        ("3d_7.tns", {}, (4, 4, 3), 9),
        ("3tensor.tns", {}, (1073, 1, 7), 3),
        ("KG_JF17K_3_ids_1based.tns", {"values": False}, (104, 11540, 11541, 11539), 34544),
        ("med.tns.gz", {}, (2425, 10816, 29567), 100000),
        ("small.tns", {}, (2, 3, 2), 6),
        ("small4_zeroidx.tns", {"index_base": 0}, (3, 3, 4, 3), 8),
        ("sptensor.tns", {}, (5, 4, 3), 18),
        ("sptensor_0_based.tns", {"index_base": 0}, (5, 4, 3), 18),
    ],
)
def test_real_files(
    shared_data: Path, tmp_path: Path, name: str, options: dict[str, Any], shape: tuple[int, ...], nnz: int
) -> None:
    A = sp.ingest.tns(shared_data / "tns" / name, tmp_path / "A.sparrow", **options)
    assert (A.shape, A.nnz) == (shape, nnz)


@pytest.mark.parametrize(
    ("text", "problem", "line", "token"),
    [
        ("", "neither elements nor sizes", None, None),
        ("# nothing\n", "neither elements nor sizes", None, None),
        ("1 1 2.5\n# \u00e9\u00e9\u00e9\n1 2\n", "too short: expected 2 coordinates and a value", 3, "1 2"),
        ("1 1 2.5\n1 2\n", "too short: expected 2 coordinates and a value", 2, "1 2"),
        ("1 1 2.5\n1 2 3 4\n", "the line is too long", 2, "4"),
        ("1 1 2.5\n1 x 3\n", "the coordinate must be an integer", 2, "x"),
        ("1 1 2.5\n1 1 three\n", "the value must be a number", 2, "three"),
        ("1 1 2.5\n1 1 1.#INF\n", "the value must be a number", 2, "1.#INF"),
        ("1 1 2.5\n# note\n0 1 3\n", "must be at least 1: pass index_base=0", 3, "0"),
        ("2\n3 3\n4 1 1\n", "exceeds the size 3 of dimension 0", 3, "4"),
        ("2\n3 3 3\n4 1 1\n", "a line of 2 sizes", 2, "3 3 3"),
        ("2\n", "ends before the line of sizes", None, None),
        ("sptensor\n", "after sptensor must be the number of dimensions", None, None),
        ("sptensor\n2\n3 3\n", "ends before the number of elements", None, None),
        ("sptensor\n2\n3 3\n2\n1 1 1\n", "expected 2 elements by the header, got 1", None, None),
        (f"1 {2**63} 1\n", "beyond 2\\^63 - 1", 1, str(2**63)),
    ],
)
def test_bad_input(tmp_path: Path, text: str, problem: str, line: int | None, token: str | None) -> None:
    (tmp_path / "A.tns").write_text(text)
    with pytest.raises(IngestError, match=problem) as found:
        sp.ingest.tns(tmp_path / "A.tns", tmp_path / "A.sparrow")
    if line is not None:
        assert found.value.line == line
    if token is not None:
        assert found.value.token == token
    assert not (tmp_path / "A.sparrow").exists()


def test_options(tmp_path: Path) -> None:
    (tmp_path / "A.tns").write_text("1 1 7\n1 1 8\n")
    A = sp.ingest.tns(tmp_path / "A.tns", tmp_path / "A.sparrow", dims=("a", "b"), shape=(None, 5), dtype="int16")
    assert (A.dims, A.shape, A.dtype, A[0, 0]) == (("a", "b"), (1, 5), np.int16, 15)
    with pytest.raises(DuplicateError, match=r"\(1, 1\), counted from 1"):
        sp.ingest.tns(tmp_path / "A.tns", tmp_path / "B.sparrow", duplicates="error")
    (tmp_path / "B.tns").write_text("1 1 7\n")
    with pytest.raises(InvalidValueError, match="must be one file, got 2"):
        sp.ingest.tns(str(tmp_path / "*.tns"), tmp_path / "B.sparrow")
    with pytest.raises(InvalidValueError, match="must have 2 sizes"):
        sp.ingest.tns(tmp_path / "A.tns", tmp_path / "B.sparrow", shape=(1, 2, 3))
    with pytest.raises(InvalidValueError, match="one number per value"):
        sp.ingest.tns(tmp_path / "A.tns", tmp_path / "B.sparrow", dtype="complex64")
    with pytest.raises(UnsupportedError, match="values are complex128"):
        sp.export(sp.asarray([1j]), tmp_path / "C.tns")


@pytest.mark.parametrize("format", ["tns", "webgraph", "mtx"])
def test_huge_numbers_in_header(tmp_path: Path, format: str) -> None:
    head = "%%MatrixMarket matrix array real general\n1 " if format == "mtx" else ""
    (tmp_path / "a.txt").write_text(head + "9" * 5000 + "\n")
    with pytest.raises(IngestError, match=r"beyond 2\^63 - 1"):
        getattr(sp.ingest, format)(tmp_path / "a.txt", tmp_path / "a.sparrow")
