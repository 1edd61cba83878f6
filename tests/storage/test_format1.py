"""Tensors of the first release stay readable; see format1/README.md."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import sparrow as sp
from sparrow import storage
from sparrow.relations.edits import Edit
from tests.storage.helpers import entries, read_all

STORED = Path(__file__).parent / "format1"


def version_0() -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return version 0 of the matrix."""
    rows, cols = np.indices((30, 20))
    return np.where((7 * rows + 3 * cols) % 9 == 0, 1 + rows + cols / 100, 0)


def version_1() -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return version 1 of the matrix."""
    out = version_0()
    out[0, 0], out[5, 1] = 0, -1.5
    return out


def test_format1_reads() -> None:
    matrix = sp.open(STORED / "matrix")
    assert (matrix.shape, matrix.dims, matrix.dtype, matrix.fill_value) == ((30, 20), ("user", "item"), "float64", 0)
    assert matrix.version == 1
    assert matrix.nnz == np.count_nonzero(version_1())
    np.testing.assert_array_equal(matrix.to_numpy(), version_1())
    np.testing.assert_array_equal(matrix[5:, 3:9].to_numpy(), version_1()[5:, 3:9])
    np.testing.assert_allclose(matrix @ np.arange(20.0), version_1() @ np.arange(20.0))
    np.testing.assert_array_equal(sp.open(STORED / "matrix", version=0).to_numpy(), version_0())
    assert [commit["operation"] for commit in matrix.history()] == ["write", "save"]


def test_format1_labels_and_order() -> None:
    matrix = sp.open(STORED / "matrix")
    assert matrix.labels("user").to_pylist() == [f"user {k:02}" for k in range(30)]
    assert matrix.labels("item").to_pylist() == [f"Größe {k}" for k in range(20)]
    assert matrix.sel(user="user 05", item="Größe 1") == -1.5
    snapshot = storage.open(STORED / "matrix").current
    assert snapshot.orders == ((0, 1), (1, 0))
    assert snapshot.extra == {"source": "format1"}
    block = read_all(snapshot, (1, 0))
    np.testing.assert_array_equal(np.stack([block.coords[1], block.coords[0]], axis=1), np.argwhere(version_1().T))
    np.testing.assert_array_equal(block.values, version_1().T[version_1().T != 0])


@pytest.mark.parametrize("where", ["", "where item_code between 4 and 9", "where value < 0"])
def test_format1_sql(where: str) -> None:
    matrix = sp.open(STORED / "matrix")
    found = sp.sql(f"select user_code, item_code, value from matrix {where} order by all", matrix=matrix).fetchall()
    cells = [(int(i), int(j), version_1()[i, j]) for i, j in np.argwhere(version_1())]
    if "item" in where:
        cells = [cell for cell in cells if 4 <= cell[1] <= 9]
    elif where:
        cells = [cell for cell in cells if cell[2] < 0]
    assert found == cells


def test_format1_verifies() -> None:
    bundle = sp.open(STORED / "bundle")
    assert isinstance(bundle, Mapping)
    for tensor in (sp.open(STORED / "matrix"), sp.open(STORED / "matrix", version=0), *bundle.values()):
        assert tensor.verify() == []


def test_format1_bundle() -> None:
    bundle = sp.open(STORED / "bundle")
    assert list(bundle) == ["X", "y"]
    assert storage.bundle_info(STORED / "bundle") == {
        "members": {"X": {"role": "data"}, "y": {}},
        "extra": {"format": "libsvm"},
    }
    X, y = bundle["X"], bundle["y"]
    assert (X.shape, X.dims, X.dtype) == ((2, 100_000), ("row", "col"), np.complex64)
    assert [X[0, 2], X[1, 0], X[1, 70_000]] == [1 + 2j, np.inf, -1j]
    assert (y.dtype, y.fill_value, y.to_numpy().tolist()) == (np.uint8, 7, [7, 200])


def test_format1_writes(tmp_path: Path) -> None:
    path = Path(shutil.copytree(STORED / "matrix", tmp_path / "matrix"))
    handle = storage.open(path)
    handle.commit(Edit("put", upsert=entries([(29, 19)], [8.0])))
    handle.add_order((1, 0))
    handle.compact()
    assert handle.verify() == []
    wanted = version_1()
    wanted[29, 19] = 8
    np.testing.assert_array_equal(sp.open(path).to_numpy(), wanted)
    np.testing.assert_array_equal(sp.open(path, version=1).to_numpy(), version_1())
    handle.restore(0)
    np.testing.assert_array_equal(sp.open(path).to_numpy(), version_0())
    assert handle.vacuum("0 seconds")
    assert handle.verify() == []
