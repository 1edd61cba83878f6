"""Readers refuse fills and sums of duplicates that a dtype does not hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow.errors import InvalidValueError, NumberRangeError, SparrowError
from sparrow.kernels.sums import exact_sum, find_overflow

LARGE = 2**62


def _columns(path: Any, first: Any, second: Any) -> Any:
    path.write_text(f"0,1,{first}\n0,1,{second}\n2,2,1\n")
    return sp.ingest.columns, {"coords": [0, 1], "value": 2, "header": False}


def _jsonl(path: Any, first: Any, second: Any) -> Any:
    rows = [{"u": 0, "i": 1, "v": first}, {"u": 0, "i": 1, "v": second}, {"u": 2, "i": 2, "v": 1}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return sp.ingest.columns, {"coords": ["u", "i"], "value": "v", "format": "json"}


def _parquet(path: Any, first: Any, second: Any) -> Any:
    pq.write_table(pa.table({"u": [0, 0, 2], "i": [1, 1, 2], "v": [first, second, 1]}), path)
    return sp.ingest.columns, {"coords": ["u", "i"], "value": "v", "format": "parquet"}


def _texts(path: Any, first: Any, second: Any) -> Any:
    path.write_text(f"u,i,v\na,x,{first}\na,x,{second}\nb,y,1\n")
    return sp.ingest.columns, {"coords": ["u", "i"], "value": "v", "format": "csv"}


def _edges(path: Any, first: Any, second: Any) -> Any:
    path.write_text(f"0 1 {first}\n0 1 {second}\n2 2 1\n")
    return sp.ingest.edges, {}


def _tns(path: Any, first: Any, second: Any) -> Any:
    path.write_text(f"1 2 {first}\n1 2 {second}\n3 3 1\n")
    return sp.ingest.tns, {}


def _mtx(path: Any, first: Any, second: Any) -> Any:
    path.write_text(f"%%MatrixMarket matrix coordinate integer general\n3 3 3\n1 2 {first}\n1 2 {second}\n3 3 1\n")
    return sp.ingest.mtx, {}


def _libsvm(path: Any, first: Any, second: Any) -> Any:
    path.write_text(f"1 2:{first} 2:{second}\n0 3:1\n")
    return sp.ingest.libsvm, {}


SUMMING = [_columns, _jsonl, _parquet, _texts, _edges, _tns, _mtx]


@pytest.mark.parametrize("write", [*SUMMING, _libsvm])
@pytest.mark.parametrize(("first", "second", "dtype"), [(100, 100, "int8"), (-100, -29, "int8"), (200, 56, "uint8")])
def test_sums_must_fit_the_dtype(tmp_path: Any, write: Any, first: Any, second: Any, dtype: Any) -> None:
    read, options = write(tmp_path / "in.txt", first, second)
    with pytest.raises(SparrowError, match=rf"sum {first + second}, which does not fit {dtype}: pass dtype='int64'"):
        read(tmp_path / "in.txt", tmp_path / "out", dtype=dtype, duplicates="sum", **options)
    assert not (tmp_path / "out").exists()
    A = read(tmp_path / "in.txt", tmp_path / "out", dtype="int64", duplicates="sum", **options)
    X = A["X"] if isinstance(A, sp.Bundle) else A
    assert X.sum() == first + second + 1


@pytest.mark.parametrize("write", SUMMING)
def test_sums_beyond_int64_are_refused(tmp_path: Any, write: Any) -> None:
    read, options = write(tmp_path / "in.txt", LARGE, LARGE)
    with pytest.raises(NumberRangeError, match=rf"sum {2 * LARGE}, which does not fit int64: pass dtype='float64'"):
        read(tmp_path / "in.txt", tmp_path / "out", dtype="int64", duplicates="sum", **options)
    A = read(tmp_path / "in.txt", tmp_path / "out", dtype="float64", duplicates="sum", **options)
    assert A.max() == 2.0**63


def test_sum_error_names_labels(tmp_path: Any) -> None:
    read, options = _texts(tmp_path / "in.txt", 100, 100)
    with pytest.raises(NumberRangeError, match=r"element \('a', 'x'\)"):
        read(tmp_path / "in.txt", tmp_path / "out", dtype="int8", duplicates="sum", **options)


def test_partial_sums_may_leave_the_dtype(tmp_path: Any) -> None:
    Path(tmp_path / "in.txt").write_text("0 1 100\n0 1 100\n0 1 -100\n")
    A = sp.ingest.edges(tmp_path / "in.txt", tmp_path / "out", dtype="int8")
    assert A[0, 1] == 100


@pytest.mark.parametrize("stored", [True, False])
def test_append_sums_must_fit(tmp_path: Any, stored: Any) -> None:
    A = sp.from_coords([[0], [1]], np.array([100], np.int8), (2, 2), labels={0: ["a", "b"]})
    A = A.save(tmp_path / "a") if stored else A
    A = sp.open(tmp_path / "a") if stored else A
    with pytest.raises(NumberRangeError, match=r"\('a', 1\) have the sum 200.*astype\('int64'\)"):
        A.append(A.copy(), duplicates="sum")
    assert A.to_numpy().tolist() == [[0, 100], [0, 0]]


def test_from_coords_sums_must_fit() -> None:
    with pytest.raises(NumberRangeError, match=r"astype\('float64'\) first"):
        sp.from_coords([[0, 0], [1, 1]], [LARGE, LARGE], (2, 2), duplicates="sum")


_DTYPES = st.sampled_from(["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])


@given(data=st.data(), name=_DTYPES, stored=st.booleans())
def test_overflow_is_found_exactly(data: Any, name: Any, stored: Any) -> None:
    info = np.iinfo(name)
    top = min(info.max, 2**63 - 1) if stored else info.max
    number = st.integers(info.min, top) | st.sampled_from([int(info.min), int(top), int(top) // 2 + 1])
    runs = data.draw(st.lists(st.lists(number, min_size=1, max_size=4), min_size=1, max_size=4))
    values = np.array([value for run in runs for value in run], name)
    starts = np.cumsum([0, *(len(run) for run in runs[:-1])])
    expected = next(((k, sum(run)) for k, run in enumerate(runs) if not info.min <= sum(run) <= top), None)
    assert find_overflow(values, starts, stored) == expected
    assert exact_sum(values) == sum(map(sum, runs))


def _npy(path: Any, first: Any, second: Any) -> Any:
    np.save(path, np.array([[0, first], [second, 0]]))
    path.with_suffix(".txt.npy").rename(path)
    return sp.ingest.npy, {}


def _metis(path: Any, first: Any, second: Any) -> Any:
    path.write_text(f"2 1 001\n2 {first}\n1 {first}\n")
    return sp.ingest.metis, {}


FILLED = [_columns, _jsonl, _parquet, _texts, _edges, _tns, _mtx, _npy, _metis]


@pytest.mark.parametrize("write", FILLED)
@pytest.mark.parametrize(
    ("fill", "dtype", "way"),
    [
        (np.inf, "int64", "float64"), (np.nan, "int32", "float64"), (0.5, "int64", "float64"),
        (300, "int8", "int64"), (-1, "uint8", "int64"), (np.inf, "bool", "float64"), (1e300, "float32", "float64"),
    ],
)  # fmt: skip
def test_fill_must_fit_the_dtype(tmp_path: Any, write: Any, fill: Any, dtype: Any, way: Any) -> None:
    read, options = write(tmp_path / "in.txt", 1, 1)
    options |= {} if read is sp.ingest.npy else {"duplicates": "max"}
    with pytest.raises(InvalidValueError, match=f"fill_value must fit {dtype}, got .*: pass dtype='{way}'"):
        read(tmp_path / "in.txt", tmp_path / "out", dtype=dtype, fill_value=fill, **options)
    assert not (tmp_path / "out").exists()
    A = read(tmp_path / "in.txt", tmp_path / "out", dtype=way, fill_value=fill, **options)
    np.testing.assert_equal(A.fill_value, A.dtype.type(fill))


def test_complex_fill_must_fit_the_dtype(tmp_path: Any) -> None:
    read, options = _columns(tmp_path / "in.txt", 1, 1)
    options["duplicates"] = "max"
    with pytest.raises(InvalidValueError, match="fill_value must fit float64, got 1j: pass dtype='complex128'"):
        read(tmp_path / "in.txt", tmp_path / "out", dtype="float64", fill_value=1j, **options)
    assert read(tmp_path / "in.txt", tmp_path / "out", dtype="complex128", fill_value=1j, **options).fill_value == 1j


def test_fill_keeps_zeros_beside_it(tmp_path: Any) -> None:
    (tmp_path / "in.txt").write_text("0 1 3\n1 2 0\n")
    with pytest.raises(InvalidValueError, match=r"fill_value must fit int64, got 0\.5: pass dtype='float64'"):
        sp.ingest.edges(tmp_path / "in.txt", tmp_path / "out", fill_value=0.5, dtype="int64")
    A = sp.ingest.edges(tmp_path / "in.txt", tmp_path / "out", fill_value=0.5, dtype="float64")
    assert A.nnz == 2
    assert A[1, 2] == 0
