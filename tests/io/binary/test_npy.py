"""Dense arrays and .npz files, against NumPy and SciPy."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow.errors import IngestError, InvalidValueError, SparrowError
from sparrow.testing import tune

TYPES = ["?", "i1", "u2", ">i4", "<i8", "u8", "f2", ">f4", "f8", "c8", ">c16"]


@given(
    st.integers(0, 2**32), st.lists(st.integers(0, 5), max_size=4), st.sampled_from(TYPES), st.sampled_from("CF"),
    st.sampled_from([0, 1]), st.sampled_from([64, 1 << 22]),
)  # fmt: skip
def test_any_array(
    tmp_path_factory: pytest.TempPathFactory, seed: int, shape: list[int], kind: str, order: Any, fill: int, block: int
) -> None:
    folder = tmp_path_factory.mktemp("npy")
    dense = np.random.default_rng(seed).integers(0, 3, shape).astype(kind).copy(order)
    np.save(folder / "a.npy", dense)
    with tune("io", npy_block_bytes=block):
        A = sp.ingest.npy(folder / "a.npy", folder / "A.sparrow", fill_value=fill)
        assert (A.shape, A.dtype, A.nnz) == (
            dense.shape,
            dense.dtype.newbyteorder("="),
            np.count_nonzero(dense != fill),
        )
        np.testing.assert_array_equal(A.to_numpy(), dense)
        sp.export(A, folder / "b.npy")
    again = np.load(folder / "b.npy")
    assert again.dtype == A.dtype
    np.testing.assert_array_equal(again, dense)


def test_options(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([[0, 300]]))
    A = sp.ingest.npy(tmp_path / "a.npy", tmp_path / "A.sparrow", dims=("x", "y"), dtype="float32")
    assert (A.dims, A.dtype) == (("x", "y"), np.float32)
    with pytest.raises(IngestError, match=r"the value at \(0, 1\) does not fit int8"):
        sp.ingest.npy(tmp_path / "a.npy", tmp_path / "B.sparrow", dtype="int8")
    np.save(tmp_path / "a.npy", np.array([1j]))
    with pytest.raises(InvalidValueError, match="cannot hold complex values"):
        sp.ingest.npy(tmp_path / "a.npy", tmp_path / "B.sparrow", dtype="int8")


def test_bad_npy(tmp_path: Path) -> None:
    for array in (np.array(["a"]), np.array([None]), np.zeros(2, [("a", int)]), np.array([], "M8[s]")):
        np.save(tmp_path / "a.npy", array)
        with pytest.raises(IngestError, match="must be numbers or booleans"):
            sp.ingest.npy(tmp_path / "a.npy", tmp_path / "A.sparrow")


@given(st.integers(0, 2**32), st.sampled_from(["cut", "flip", "longer"]))
def test_damage(tmp_path_factory: pytest.TempPathFactory, seed: int, how: str) -> None:
    folder = tmp_path_factory.mktemp("damage")
    rng = np.random.default_rng(seed)
    out = io.BytesIO()
    np.save(out, rng.integers(0, 2, (3, 4)))
    data = bytearray(out.getvalue())
    if how == "flip":
        data[int(rng.integers(0, 128))] ^= int(rng.integers(1, 256))
    data = data[: int(rng.integers(0, len(data)))] if how == "cut" else data + b"x" * (how == "longer")
    (folder / "a.npy").write_bytes(data)
    try:
        sp.ingest.npy(folder / "a.npy", folder / "A.sparrow")
    except SparrowError:
        assert not (folder / "A.sparrow").exists()
    else:
        assert how == "flip"


def test_npz_with_descending_indptr_is_rejected(tmp_path: Path) -> None:
    arrays: dict[str, Any] = {
        "indices": np.array([0, 1]),
        "indptr": np.array([0, 5, 2]),
        "data": np.ones(2),
        "shape": np.array([2, 3]),
    }
    np.savez(tmp_path / "a.npz", format=np.array(b"csr"), **arrays)
    with pytest.raises(IngestError, match=r"indptr|index pointer") as caught:
        sp.ingest.npz(tmp_path / "a.npz", tmp_path / "a.sparrow")
    assert str(caught.value).count("not a sparse array of SciPy") == 1


def test_npy_other_errors(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.eye(2))
    (tmp_path / "b.npy").write_bytes(gzip.compress((tmp_path / "a.npy").read_bytes()))
    with pytest.raises(IngestError, match=r"gzip -dc \S+ > \S+/b\.npy\.unpacked and read that"):
        sp.ingest.npy(tmp_path / "b.npy", tmp_path / "b.sparrow")
    np.savez(tmp_path / "d.npz", x=np.eye(2), y=np.eye(3))
    with pytest.raises(IngestError, match=r"it holds 'x', 'y': sp\.asarray\(numpy\.load\(\S+\['x'\]\)\.save\(DST\)"):
        sp.ingest.npz(tmp_path / "d.npz", tmp_path / "d.sparrow")


def test_npz_of_any_name_and_pickled_arrays(tmp_path: Path) -> None:
    matrix = scipy.sparse.csr_array(np.array([[0.0, 2.0], [0.0, 0.0]]))
    scipy.sparse.save_npz(tmp_path / "a.npz", matrix)
    (tmp_path / "a.npz").rename(tmp_path / "a.dat")
    for read in (sp.ingest, sp.ingest.npz):
        np.testing.assert_array_equal(
            read(tmp_path / "a.dat", tmp_path / "a", overwrite=True).to_numpy(), matrix.toarray()
        )
    np.save(tmp_path / "b.npy", np.array(matrix, dtype=object), allow_pickle=True)
    with pytest.raises(IngestError, match=r"got object, a pickle, which is never loaded: scipy.sparse.save_npz\(...\)"):
        sp.ingest(tmp_path / "b.npy", tmp_path / "b")
