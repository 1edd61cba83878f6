"""Matrix Market files, against a plain writer and SciPy's reader."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.io._mmio import mmread  # in Python alone: the compiled one waits for ever once in a hundred runs

import sparrow as sp
from sparrow.errors import DuplicateError, IngestError, InvalidValueError, ShapeError, UnsupportedError
from sparrow.testing import tune

SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")
HEAD = "%%MatrixMarket matrix coordinate real general\n"


def some_matrix(seed: int, shape: tuple[int, int], kind: str, symmetry: str) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random(shape) < 0.4, rng.integers(-9, 10, shape), 0).astype(kind)
    if kind[0] in "fc":
        dense *= np.asarray(rng.standard_normal(), kind)
    if kind[0] == "c":
        dense += 1j * np.where(dense != 0, rng.standard_normal(shape), 0)
    if symmetry == "general":
        return dense
    lower = np.tril(dense, -1)
    diagonal = np.diag(np.diag(dense))
    whole: dict[str, NDArray[Any]] = {
        "symmetric": lower + diagonal + lower.T,
        "skew-symmetric": lower - lower.T,
        "hermitian": lower + diagonal.real + lower.conj().T,
    }
    return whole[symmetry]


def written(dense: NDArray[Any], symmetry: str, array: bool) -> bytes:
    """Return a matrix as text, without the elements implied by symmetry."""
    field = {"i": "integer", "f": "real", "c": "complex"}[dense.dtype.kind]
    lines = [f"%%MatrixMarket matrix {'array' if array else 'coordinate'} {field} {symmetry}", "% a comment"]
    rows, cols = dense.shape
    below = {"general": -cols, "skew-symmetric": 1}.get(symmetry, 0)
    cells = [(i, j) for j in range(cols) for i in range(rows) if i - j >= below and (array or dense[i, j])]
    lines.append(f"{rows} {cols}" + ("" if array else f" {len(cells)}"))
    for i, j in cells:
        value = dense[i, j].item()
        text = f"{value.real!r} {value.imag!r}" if field == "complex" else repr(value)
        lines.append(text if array else f"{i + 1} {j + 1} {text}")
    return ("\n".join(lines) + "\n").encode()


@given(
    st.integers(0, 2**32),
    st.sampled_from(["int64", "float64", "complex128"]),
    st.sampled_from(SYMMETRIES),
    st.booleans(),
    st.tuples(st.integers(0, 9), st.integers(0, 9)),
    st.sampled_from([40, 1 << 22]),
)
def test_any_matrix(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    kind: str,
    symmetry: str,
    array: bool,
    shape: tuple[int, int],
    block: int,
) -> None:
    folder = tmp_path_factory.mktemp("mtx")
    if symmetry == "hermitian":
        kind = "complex128"
    shape = shape if symmetry == "general" else (shape[0], shape[0])
    dense = some_matrix(seed, shape, kind, symmetry)
    (folder / "A.mtx").write_bytes(written(dense, symmetry, array))
    with tune("io", block_bytes=block):
        A = sp.ingest.mtx(folder / "A.mtx", folder / "A.sparrow")
    assert A.shape == shape
    assert A.dtype == kind
    assert A.nnz == np.count_nonzero(dense)
    np.testing.assert_array_equal(A.to_numpy(), dense)
    assert A.verify() == []


@given(
    st.integers(0, 2**32),
    st.sampled_from(["bool", "int8", "uint64", "float16", "float32", "float64", "complex64", "complex128"]),
    st.tuples(st.integers(0, 9), st.integers(0, 9)),
)
def test_mtx_export_is_read_by_scipy(
    tmp_path_factory: pytest.TempPathFactory, seed: int, kind: str, shape: tuple[int, int]
) -> None:
    folder = tmp_path_factory.mktemp("mtx")
    dense = np.abs(some_matrix(seed, shape, "float64", "general")).astype(kind)
    assert sp.export(sp.asarray(dense), folder / "A.mtx.gz") == np.count_nonzero(dense)
    found = mmread(io.BytesIO(gzip.decompress((folder / "A.mtx.gz").read_bytes())))
    np.testing.assert_array_equal(np.asarray(found.toarray()).astype(kind), dense)
    again = sp.ingest.mtx(folder / "A.mtx.gz", folder / "A.sparrow", dtype=kind)
    assert again.dtype == kind
    np.testing.assert_array_equal(again.to_numpy(), dense)


def test_real_files(shared_data: Path, tmp_path: Path) -> None:
    compared = 0
    for file in sorted([*(shared_data / "mtx").glob("*.mtx*"), *(shared_data / "mtx-variants").glob("*.mtx*")]):
        if file.name in ("windows_newlines.mtx", "fullcsa.mtx", "matrix_uint64.mtx"):
            continue
        expected = sps.csr_array(mmread(file))
        expected.eliminate_zeros()
        found = sp.ingest.mtx(file, tmp_path / "A.sparrow", overwrite=True)
        assert found.shape == expected.shape
        assert found.nnz == expected.nnz
        assert (sps.csr_array(found.to_scipy()) != expected).nnz == 0
        compared += 1
    assert compared > 50
    # SciPy rejects some line ends, an array after a blank line, and integers beyond int64.
    eye = sp.ingest.mtx(shared_data / "mtx-variants" / "windows_newlines.mtx", tmp_path / "A.sparrow", overwrite=True)
    np.testing.assert_array_equal(eye.to_numpy(), np.eye(3))
    with pytest.raises(IngestError, match="the value does not fit int64") as found_error:
        sp.ingest.mtx(shared_data / "mtx" / "matrix_uint64.mtx", tmp_path / "B.sparrow")
    assert found_error.value.token == "18446744073709551615"


def test_integers_are_exact(tmp_path: Path) -> None:
    text = f"%%MatrixMarket matrix coordinate unsigned-integer general\n1 2 2\n1 1 {2**63 - 1}\n1 2 {2**53 + 1}\n"
    (tmp_path / "A.mtx").write_text(text)
    A = sp.ingest.mtx(tmp_path / "A.mtx", tmp_path / "A.sparrow")
    assert A.dtype == np.uint64
    assert A.to_numpy().tolist() == [[2**63 - 1, 2**53 + 1]]
    (tmp_path / "B.mtx").write_text(text.replace(str(2**63 - 1), str(2**64 - 1)))
    with pytest.raises(IngestError, match="the largest stored integer: pass dtype='float64'") as found:
        sp.ingest.mtx(tmp_path / "B.mtx", tmp_path / "B.sparrow")
    assert (found.value.line, found.value.token) == (3, str(2**64 - 1))
    assert sp.ingest.mtx(tmp_path / "B.mtx", tmp_path / "B.sparrow", dtype="float64")[0, 0] == 2.0**64


def test_exponents_of_fortran(tmp_path: Path) -> None:
    (tmp_path / "a.mtx").write_text(HEAD + "% d\n2 2 3\n1 1 1.5D+02\n1 2 -2d-1\n2 2 .5e1 % 1D2\n")
    assert sp.ingest.mtx(tmp_path / "a.mtx", tmp_path / "A.sparrow").to_numpy().tolist() == [[150, -0.2], [0, 5]]
    (tmp_path / "b.mtx").write_text(HEAD + "1 1 1\n1 1 1D\n")
    with pytest.raises(IngestError, match="the value must be a number") as found:
        sp.ingest.mtx(tmp_path / "b.mtx", tmp_path / "B.sparrow")
    assert (found.value.line, found.value.token) == (3, "1D")
    # A byte that is not UTF-8 is shown as \x9d, which is no exponent.
    (tmp_path / "a.mtx").write_bytes(HEAD.encode() + b"2 2 1\n1 1 1\x9d3\n")
    with pytest.raises(IngestError, match="the value must be a number"):
        sp.ingest.mtx(tmp_path / "a.mtx", tmp_path / "B.sparrow")


def test_skew_symmetric_minimum_is_an_error(tmp_path: Path) -> None:
    head = "%%MatrixMarket matrix coordinate integer skew-symmetric\n2 2 1\n2 1 "
    (tmp_path / "a.mtx").write_text(f"{head}{-(2**63)}\n")
    with pytest.raises(IngestError, match="no negative in int64: pass dtype='float64'"):
        sp.ingest.mtx(tmp_path / "a.mtx", tmp_path / "A.sparrow")
    found = sp.ingest.mtx(tmp_path / "a.mtx", tmp_path / "A.sparrow", dtype="float64")
    assert found.to_numpy().tolist() == [[0, 2.0**63], [-(2.0**63), 0]]
    for field, dtype in (("real", "uint8"), ("integer", "bool"), ("unsigned-integer", None)):
        (tmp_path / "b.mtx").write_text(f"%%MatrixMarket matrix coordinate {field} skew-symmetric\n2 2 1\n2 1 1\n")
        with pytest.raises(InvalidValueError, match=r"cannot hold the negatives .* signed one, such as int64"):
            sp.ingest.mtx(tmp_path / "b.mtx", tmp_path / "C.sparrow", dtype=dtype, overwrite=True)
        found = sp.ingest.mtx(tmp_path / "b.mtx", tmp_path / "C.sparrow", dtype="int8", overwrite=True)
        assert found.to_numpy().tolist() == [[0, -1], [1, 0]]


def test_duplicates(tmp_path: Path) -> None:
    (tmp_path / "A.mtx").write_text(HEAD + "2 2 3\n1 1 1\n2 2 5\n1 1 2\n")
    assert sp.ingest.mtx(tmp_path / "A.mtx", tmp_path / "A.sparrow", dims=("a", "b"))[0, 0] == 3
    assert sp.ingest.mtx(tmp_path / "A.mtx", tmp_path / "B.sparrow", duplicates="last")[0, 0] == 2
    with pytest.raises(DuplicateError, match=r"\(1, 1\), counted from 1"):
        sp.ingest.mtx(tmp_path / "A.mtx", tmp_path / "C.sparrow", duplicates="error")
    assert not (tmp_path / "C.sparrow").exists()


@pytest.mark.parametrize(
    ("text", "problem", "line", "token"),
    [
        ("", "must begin with %%MatrixMarket", 1, None),
        ("1 2\n3 4\n", "must begin with %%MatrixMarket", 1, "1 2"),
        ("%%MatrixMarket matrix coordinate real\n1 1 0\n", "the banner must be", 1, None),
        ("%%MatrixMarket vector coordinate real general\n1 1 0\n", "the banner must be", 1, None),
        ("%%MatrixMarket matrix sparse real general\n1 1 0\n", "got 'sparse'", 1, None),
        ("%%MatrixMarket matrix array pattern general\n1 1\n", "layout array and field pattern exclude", 1, None),
        (
            "%%MatrixMarket matrix coordinate real symmetric\n2 3 0\n",
            "a symmetric matrix must be square, got 2 x 3",
            2,
            "2 3 0",
        ),
        (HEAD, "ends before the line of sizes", None, None),
        (HEAD + "% only\n\n3 3\n", "rows, columns, elements", 4, "3 3"),
        (HEAD + "3 3 -1\n", "rows, columns, elements", 2, "3 3 -1"),
        (HEAD + f"3 {2**63} 1\n", "beyond 2\\^63", 2, None),
        (HEAD + "3 3 1\n0 1 5\n", "must be at least 1", 3, "0"),
        (HEAD + "3 3 1\n1 4 5\n", "exceeds the size 3 of dimension 1", 3, "4"),
        (HEAD + "3 3 1\n1.5 1 5\n", "the coordinate must be an integer", 3, "1.5"),
        (HEAD + "3 3 1\n1 1 x\n", "the value must be a number", 3, "x"),
        (HEAD + "3 3 1\n1 1 5%\n", "the value must be a number", 3, "5%"),
        (HEAD + "3 3 1\n1 1% 5\n", "the coordinate must be an integer", 3, "1%"),
        (HEAD + "3 3 1\n1 1 -1.#IND\n", "the value must be a number", 3, "-1.#IND"),  # of C on Windows
        (HEAD + f"3 3 1\n{-(2**63)} 1 5\n", "must be at least 1", 3, str(-(2**63))),
        (HEAD + f"3 3 1\n{2**63 - 1} 1 5\n", "exceeds the size 3 of dimension 0", 3, str(2**63 - 1)),
        (HEAD + "3 3 1\n1 1 % 5\n", "too short: expected 2 coordinates and a value", 3, "1 1 % 5"),
        ("%%MatrixMarket matrix array real general\n1 2\n1 2\n", "the line is too long: expected a value", 3, "2"),
        (HEAD + "3 3 1\n1 1\n", "too short: expected 2 coordinates and a value", 3, "1 1"),
        (HEAD + "3 3 1\n% note\n\n1 1 1 1\n", "the line is too long", 5, "1"),
        (HEAD + "3 3 2\n1 1 1\n", "expected 2 elements by the line of sizes, got 1", None, None),
        (HEAD + "3 3 1\n1 1 1\n2 2 2\n", "expected 1 elements by the line of sizes, got more", None, None),
        (
            "%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n",
            "expected 4 elements by the line of sizes, got 3",
            None,
            None,
        ),
        ("%%MatrixMarket matrix array complex general\n1 1\n1\n", "two numbers for a value", 3, "1"),
        ("%%MatrixMarket matrix coordinate integer general\n1 1 1\n1 1 1.5\n", "value must be an integer", 3, "1.5"),
        ("%%MatrixMarket matrix coordinate unsigned-integer general\n1 1 1\n1 1 -1\n", "negative", 3, "1 1 -1"),
    ],
)
def test_bad_input(tmp_path: Path, text: str, problem: str, line: int | None, token: str | None) -> None:
    (tmp_path / "A.mtx").write_text(text)
    with pytest.raises(IngestError, match=problem) as found:
        sp.ingest.mtx(tmp_path / "A.mtx", tmp_path / "A.sparrow")
    if line is not None:
        assert found.value.line == line
    if token is not None:
        assert found.value.token == token
    assert not (tmp_path / "A.sparrow").exists()


def test_types(tmp_path: Path) -> None:
    (tmp_path / "A.mtx").write_text(HEAD + "1 1 1\n1 1 300\n")
    with pytest.raises(IngestError, match="the value does not fit int8") as found:
        sp.ingest.mtx(tmp_path / "A.mtx", tmp_path / "A.sparrow", dtype="int8")
    assert (found.value.line, found.value.token) == (3, "300")
    (tmp_path / "B.mtx").write_text("%%MatrixMarket matrix coordinate complex general\n1 1 1\n1 1 3 4\n")
    with pytest.raises(InvalidValueError, match="cannot hold complex values"):
        sp.ingest.mtx(tmp_path / "B.mtx", tmp_path / "B.sparrow", dtype="float32")
    with pytest.raises(ShapeError, match="dims must have 2 names, got 3"):
        sp.ingest.mtx(tmp_path / "B.mtx", tmp_path / "B.sparrow", dims=("a", "b", "c"))
    with pytest.raises(UnsupportedError, match="needs 2 dimensions, the tensor has 3"):
        sp.export(sp.asarray(np.ones((1, 1, 1))), tmp_path / "C.mtx")
    with pytest.raises(UnsupportedError, match="needs fill 0"):
        sp.export(sp.asarray(np.ones((1, 1))) + 1, tmp_path / "C.mtx")
    assert not (tmp_path / "C.mtx").exists()


def test_integers_beyond_int64_as_float64(tmp_path: Path) -> None:
    file = tmp_path / "a.mtx"
    file.write_text("%MatrixMarket matrix coordinate integer general\n1 2 2\n1 1 18446744073709551615\n1 2 3\n")
    with pytest.raises(
        IngestError, match=r"line 3: .*does not fit int64: pass dtype='float64' \(at '18446744073709551615'"
    ):
        sp.ingest.mtx(file, tmp_path / "a.sparrow")
    read = sp.ingest.mtx(file, tmp_path / "a.sparrow", dtype="float64")
    assert np.array_equal(read.to_numpy(), [[2.0**64, 3.0]])
