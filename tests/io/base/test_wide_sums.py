"""Sums of duplicates are as exact as sums of tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import sparrow as sp


@pytest.mark.parametrize(("dtype", "count"), [("float16", 5_000), ("float32", 17_000_000)])
def test_ones_in_one_element(dtype: str, count: int) -> None:
    A = sp.from_coords([np.zeros(count, np.int8)], np.ones(count, dtype), shape=(2,), duplicates="sum")
    assert A.dtype == dtype
    assert A[0] == np.dtype(dtype).type(count)


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64", "float64"])
def test_sum_equals_sum_of_tensor(dtype: str) -> None:
    rng = np.random.default_rng(0)
    rows, values = rng.integers(0, 4, 20_000), rng.random(20_000).astype(dtype)
    found = sp.from_coords([rows], values, shape=(4,), duplicates="sum").to_numpy()
    exact = np.zeros(4, np.result_type(dtype, np.float64))
    np.add.at(exact, rows, values.astype(exact.dtype))
    np.testing.assert_array_equal(found, exact.astype(dtype))
    if dtype != "float16":
        repeated = scipy.sparse.coo_array((values, (rows, rows)), shape=(4, 4))
        np.testing.assert_array_equal(sp.asarray(repeated).to_numpy().diagonal(), exact.astype(dtype))


@pytest.mark.parametrize("format", ["edges", "columns", "tns"])
def test_ingested_sums(format: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows, values = rng.integers(0, 3, 5000), rng.random(5000).astype(np.float32)
    exact = np.zeros(3)
    np.add.at(exact, rows, values.astype(np.float64))
    options: dict[str, Any] = {"dtype": "float32", "duplicates": "sum"}
    lines = [f"{row} {row} {value!r}" for row, value in zip(rows.tolist(), values.tolist(), strict=True)]
    source = tmp_path / "data.txt"
    if format == "columns":
        lines = ["u,i,v", *(line.replace(" ", ",") for line in lines)]
        options |= {"coords": ["u", "i"], "value": "v"}
    elif format == "tns":
        lines = [
            " ".join((str(int(row) + 1), str(int(row) + 1), repr(float(value))))
            for row, value in zip(rows, values, strict=True)
        ]
    source.write_text("\n".join(lines) + "\n")
    found = getattr(sp.ingest, format)(source, tmp_path / "stored", **options)
    np.testing.assert_array_equal(found.to_numpy().diagonal(), exact.astype(np.float32))
