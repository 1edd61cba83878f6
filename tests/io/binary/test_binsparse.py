"""Tensors in HDF5 by binsparse, against arrays laid out by NumPy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow.errors import IngestError, InvalidValueError
from sparrow.io.base.detect import detect_format
from sparrow.testing import tune

h5py = pytest.importorskip("h5py")

DENSE = np.array([[0, 2, 0, 0], [1, 0, 0, 3], [0, 0, 0, 0]])


def _write_described(path: Path, descriptor: dict[str, Any], arrays: dict[str, Any], group: str = "/") -> Path:
    with h5py.File(path, "w") as file:
        found = file.require_group(group)
        whole = {
            "version": "0.1",
            "data_types": {name: str(array.dtype) for name, array in arrays.items()},
            **descriptor,
        }
        found.attrs["binsparse"] = json.dumps({"binsparse": whole})
        for name, array in arrays.items():
            found[name] = array
    return path


def _make_arrays(dense: Any, format: str) -> dict[str, Any]:
    """Return the arrays of a matrix in a format."""
    across = format in ("CSC", "DCSC", "COOC", "DMATC")
    turned = dense.T if across else dense
    rows, cols = np.nonzero(turned)
    if format in ("DMAT", "DMATR", "DMATC"):
        return {"values": turned.reshape(-1)}
    values = {"indices_1": cols.astype(np.uint64), "values": turned[rows, cols]}
    if format.startswith("COO"):
        return {"indices_0": rows.astype(np.uint64), **values}
    lengths = np.bincount(rows, minlength=len(turned))
    kept = np.flatnonzero(lengths) if format[0] == "D" else np.arange(len(turned))
    pointers = np.concatenate([[0], np.cumsum(lengths[kept])]).astype(np.uint64)
    return {"pointers_to_1": pointers, **values} | ({"indices_0": kept} if format[0] == "D" else {})


@pytest.mark.parametrize("format", ["CSR", "CSC", "DCSR", "DCSC", "COO", "COOR", "COOC", "DMAT", "DMATR", "DMATC"])
@tune("io", hdf5_rows=2, hdf5_elements=1, hdf5_dense_elements=4)
def test_formats_of_binsparse(tmp_path: Path, format: str) -> None:
    path = _write_described(tmp_path / "a.h5", {"format": format, "shape": [3, 4]}, _make_arrays(DENSE, format), "/m")
    assert detect_format(str(path)).format == "binsparse"
    assert sp.ingest.binsparse(path, tmp_path / "a").to_numpy().tolist() == DENSE.tolist()


def test_columns_of_an_empty_matrix_have_any_dtype(tmp_path: Path) -> None:
    arrays = {"pointers_to_1": np.zeros(4, np.int64), "indices_1": np.array([]), "values": np.array([])}
    path = _write_described(tmp_path / "a.h5", {"format": "CSR", "shape": [3, 4]}, arrays)
    assert sp.ingest.binsparse(path, tmp_path / "a").nnz == 0
    arrays["indices_1"] = arrays["values"] = np.ones(1)
    path = _write_described(tmp_path / "b.h5", {"format": "CSR", "shape": [3, 4]}, arrays)
    with pytest.raises(IngestError, match="'/indices_1' must be integers, got float64"):
        sp.ingest.binsparse(path, tmp_path / "b")


def test_values_of_binsparse(tmp_path: Path) -> None:
    places = {"indices_0": np.array([1, 0, 1]), "indices_1": np.array([0, 1, 3])}

    def read(values: Any, kind: str, **more: Any) -> Any:
        arrays = {**places, "values": np.asarray(values), **more.pop("arrays", {})}
        told = {"format": "COO", "shape": [3, 4], "data_types": {"values": kind}, **more}
        return sp.ingest.binsparse(_write_described(tmp_path / "a.h5", told, arrays), tmp_path / "a", overwrite=True)

    assert read([2.5], "iso[float64]").to_numpy().sum() == 7.5
    assert read([1.0, 2, 3, 4, 5, 6], "complex[float64]")[1, 3] == 5 + 6j
    with pytest.raises(InvalidValueError, match="dtype=float64 cannot hold complex values"):
        sp.ingest.binsparse(tmp_path / "a.h5", tmp_path / "real", dtype="float64")
    assert read(np.array([1, 1, 0], np.uint8), "bint8").dtype == bool
    fill = {"fill_value": np.array([9.0])}
    dense = {"format": "DMATR", "shape": [1, 3], "data_types": {"values": "float64"}, "fill": True}
    path = _write_described(tmp_path / "d.h5", dense, {"values": np.array([5.0, 0, 9]), **fill})
    assert sp.ingest.binsparse(path, tmp_path / "d").to_numpy().tolist() == [[5, 0, 9]]
    assert read([1.0, 2, 3], "float64", fill=True, arrays=fill).to_numpy().sum() == 6 + 9 * 9
    cube = {"indices_0": np.array([0, 1]), "indices_1": np.array([2, 0]), "indices_2": np.array([1, 1])}
    level = {"level_desc": "sparse", "rank": 3, "level": {"level_desc": "element"}}
    told = {"format": "custom", "custom": {"level": level, "transpose": [2, 0, 1]}, "shape": [3, 2, 2]}
    for form in ({}, {"format": {"custom": told["custom"]}}, {"format": told["custom"]}):
        path = _write_described(tmp_path / "a.h5", told | form, {**cube, "values": np.array([5, 6])})
        found = sp.ingest.binsparse(path, tmp_path / "c", overwrite=True)
        assert np.argwhere(found.to_numpy()).tolist() == [[0, 1, 1], [2, 1, 0]]


@pytest.mark.parametrize(
    ("structure", "want"),
    [
        ("symmetric_lower", [[1, 2j], [2j, 0]]),
        ("skew_symmetric_lower", [[1, -2j], [2j, 0]]),
        ("hermitian_lower", [[1, -2j], [2j, 0]]),
    ],
)
def test_triangles_of_binsparse(tmp_path: Path, structure: str, want: list[list[complex]]) -> None:
    arrays = {"indices_0": np.array([0, 1]), "indices_1": np.array([0, 0]), "values": np.array([1, 0, 0, 2.0])}
    told = {"format": "COOR", "shape": [2, 2], "structure": structure, "data_types": {"values": "complex[float64]"}}
    path = _write_described(tmp_path / "a.h5", told, arrays)
    assert sp.ingest.binsparse(path, tmp_path / "a").to_numpy().tolist() == want
    path = _write_described(tmp_path / "b.h5", {**told, "structure": structure.replace("lower", "upper")}, arrays)
    with pytest.raises(IngestError, match="on the wrong side of the diagonal"):
        sp.ingest.binsparse(path, tmp_path / "b")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"version": "2.0"}, "must be 0.1, got"),
        ({"format": "CSF"}, "'CSF' of 2 dimensions is not read"),
        ({"shape": [3]}, "of 1 dimensions is not read"),
        ({"shape": [3, 2]}, "must be from 0 to 1"),
        ({"shape": "x"}, "cannot be read"),
        ({"structure": "symmetric_lower"}, "does not apply"),
        ({"fill": True}, "no 'fill_value'"),
        ({"format": "DMAT"}, "must have 12 values"),
        ({"format": "CSR"}, "no 'pointers_to_1'"),
        ({"data_types": {}}, "cannot be read"),
        ({"format": ["COO"]}, "is not read"),
        ({"number_of_stored_values": 99}, "must have 99 values by its descriptor"),
    ],
)
def test_damaged_binsparse(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    path = _write_described(tmp_path / "a.h5", {"format": "COO", "shape": [3, 4], **change}, _make_arrays(DENSE, "COO"))
    with pytest.raises(IngestError, match=problem):
        sp.ingest.binsparse(path, tmp_path / "a")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("dtype", "ndim"), [("float64", 2), ("complex64", 1), ("complex128", 2), ("bool", 3), ("uint8", 2), ("int64", 3)]
)
def test_binsparse_round_trip(tmp_path: Path, dtype: str, ndim: int) -> None:
    coords = np.array([[0, 2, 5], [1, 0, 3], [2, 2, 0]])[:ndim]
    values = np.array([1, 2, 3]).astype(dtype)
    if dtype[0] == "c":
        values.imag = 1, np.inf, -0.5
    for fill in (0, 7) if dtype != "bool" else (False,):
        tensor = sp.from_coords(coords, values, shape=(6,) * ndim, fill_value=np.dtype(dtype).type(fill))
        assert sp.export(tensor, tmp_path / "a.h5", overwrite=True) == 3
        back = sp.ingest.binsparse(tmp_path / "a.h5", tmp_path / "a", overwrite=True)
        assert (back.dtype, back.fill_value, back.shape) == (tensor.dtype, tensor.fill_value, tensor.shape)
        assert back.to_numpy().tolist() == tensor.to_numpy().tolist()
        with h5py.File(tmp_path / "a.h5") as file:
            found = {name: file[name][:] for name in file}
            descriptor = json.loads(file.attrs["binsparse"])

        class Describing:
            def __binsparse_descriptor__(self, descriptor: Any = descriptor) -> Any:
                return descriptor

            def __binsparse__(self, found: Any = found) -> Any:
                return found

        assert sp.asarray(Describing()).to_numpy().tolist() == tensor.to_numpy().tolist()
