"""METIS graphs, against arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow.errors import IngestError, SparrowError
from sparrow.testing import tune


@given(
    st.integers(0, 2**32),
    st.integers(0, 12),
    st.booleans(),
    st.integers(0, 3),
    st.booleans(),
    st.sampled_from([9, 1 << 22]),
)
def test_any_graph(
    tmp_path_factory: pytest.TempPathFactory, seed: int, n: int, sized: bool, ncon: int, weighted: bool, block: int
) -> None:
    folder = tmp_path_factory.mktemp("metis")
    rng = np.random.default_rng(seed)
    dense = np.triu(rng.random((n, n)) < 0.4, 1) * (rng.integers(1, 9, (n, n)) if weighted else 1)
    dense += dense.T
    vertices = rng.integers(0, 5, (n, sized + ncon))
    fmt = f"{sized:d}{ncon > 0:d}{weighted:d}"
    lines = ["% a graph", f"{n} {np.count_nonzero(dense) // 2} {fmt}" + (f" {ncon}" if ncon != 1 else "")]
    for vertex, row in zip(vertices, dense, strict=True):
        told = [f"{k + 1} {row[k]}" if weighted else str(k + 1) for k in np.flatnonzero(row)]
        lines += ["% between"] * (rng.random() < 0.2) + [" ".join([*map(str, vertex), *told]) + " "]
    (folder / "a.graph").write_text("\n".join([*lines, "", "% end", ""]))
    with tune("io", block_bytes=block):
        found = sp.ingest.metis(folder / "a.graph", folder / "A.sparrow")
    np.testing.assert_array_equal((found["graph"] if vertices.shape[1] else found).to_numpy(), dense)
    if vertices.shape[1]:
        np.testing.assert_array_equal(found["vertices"].to_numpy(), vertices)


@pytest.mark.parametrize(("name", "n", "m"), [("jazz.graph", 198, 2742), ("karate.graph", 34, 78)])
def test_real_files(shared_data: Path, tmp_path: Path, name: str, n: int, m: int) -> None:
    A = sp.ingest.metis(shared_data / "metis" / name, tmp_path / "A.sparrow")
    assert (A.shape, A.nnz) == ((n, n), 2 * m)
    np.testing.assert_array_equal(A.to_numpy(), A.T.to_numpy())


@pytest.mark.parametrize(
    ("text", "problem", "line", "token"),
    [
        ("", "the file is empty", None, None),
        ("2\n", "the first line of a METIS graph must be", 1, "2"),
        ("2 1 7\n", "the first line of a METIS graph must be", 1, "2 1 7"),
        ("2 x\n", "expected the numbers of vertices", 1, "2 x"),
        ("2 1 10 0\n", "contradict each other", 1, "2 1 10 0"),
        ("2 1\n3\n1\n", "one of the vertices 1 to 2", 2, "3"),
        ("2 1\n0\n1\n", "one of the vertices 1 to 2", 2, "0"),
        ("2 1\nb\n1\n", "must be an integer", 2, "b"),
        ("2 1 1\n2\n1 1\n", "last neighbor of the line has no weight", 2, None),
        ("2 1 10\n1 2\n\n", "expected 1 numbers before", 3, None),
        ("2 1\n2\n", "expected 2 lines, one per vertex, got 1", None, None),
        ("2 1\n2\n1\n1\n", "expected 2 lines, one per vertex, got more", 4, "1"),
        ("2 2\n2\n1\n", "expected 4 neighbors, two per edge of the first line, got 2", None, None),
    ],
)
def test_bad_input(tmp_path: Path, text: str, problem: str, line: int | None, token: str | None) -> None:
    (tmp_path / "a.graph").write_text(text)
    with pytest.raises(IngestError, match=problem) as found:
        sp.ingest.metis(tmp_path / "a.graph", tmp_path / "A.sparrow")
    assert (found.value.line, found.value.token) == (line, token)
    assert not (tmp_path / "A.sparrow").exists()


@given(st.binary(max_size=60), st.booleans())
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes, headed: bool) -> None:
    folder = tmp_path_factory.mktemp("bytes")
    (folder / "a.graph").write_bytes(b"3 2 11\n" * headed + data)
    try:
        sp.ingest.metis(folder / "a.graph", folder / "A.sparrow")
    except SparrowError:
        assert not (folder / "A.sparrow").exists()
