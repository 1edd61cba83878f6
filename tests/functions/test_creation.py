"""Creation of tensors from coordinates, arrays, tables and files."""

from __future__ import annotations

import json
import re
from datetime import timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow.core.schema import DTYPES
from sparrow.errors import (
    CorruptionError,
    DuplicateError,
    IndexingError,
    InvalidValueError,
    LabelError,
    NotFoundError,
    ShapeError,
    TooLargeError,
    UnsupportedError,
)


def test_unsorted_coords() -> None:
    coords = np.array([[0, 1, 0], [1, 1, 2], [1, 2, 0], [2, 0, 1], [2, 2, 0]]).T
    A = sp.from_coords(coords, [1, 2, 3, 4, 5], shape=(3, 3, 3))
    assert (A.shape, A.nnz, A.dtype.name, A.dims) == ((3, 3, 3), 5, "int64", ("d0", "d1", "d2"))
    dense = np.zeros((3, 3, 3), int)
    dense[tuple(coords)] = [1, 2, 3, 4, 5]
    assert np.array_equal(A.to_numpy(), dense)


def test_zero_array_stores_nothing() -> None:
    A = sp.zeros((10_000, 10_000, 100))
    assert (A.nnz, A.size, A.nbytes) == (0, 10**10, 0)
    assert sp.zeros((2**40, 2**40)).size == 2**80


def test_last_element_of_huge_tensor() -> None:
    A = sp.from_coords([[9999], [9999], [99]], [1.0], shape=(10_000, 10_000, 100))
    assert A[9999, 9999, 99] == 1.0
    assert A[-1, -1, -1] == 1.0
    assert A[0, 0, 0] == 0.0


def test_infer_dtype_and_shape() -> None:
    A = sp.from_coords([[0, 4], [2, 1]], [1, 2.5])
    assert (A.shape, A.dtype.name) == ((5, 3), "float64")
    assert sp.from_coords([[0, 1]], True).dtype == bool
    assert sp.from_coords([[1]], np.float16(2)).to_numpy().tolist() == [0, 2]


@pytest.mark.parametrize(
    ("coords", "values", "shape", "error", "words"),
    [
        ([[0, 1], [0, 1], [1, 0]], [1, 2, 3], (2, 2), ShapeError, "transpose"),
        ([[0, 1], [0]], [1, 2], None, ShapeError, "one length"),
        ([[0, 1], [0, 1]], [1, 2, 3], None, ShapeError, r"must have shape \(2,\) or be a scalar"),
        ([[], []], [], None, ShapeError, "shape="),
        ([[0, 2], [0, 1]], [1, 2], (2, 2), IndexingError, "coordinate 2 is out of range for dimension 0 of size 2"),
        ([[0, 1], [0, -1]], [1, 2], (2, 2), IndexingError, "coordinate -1 is out of range for dimension 1"),
        ([[0.0, 1.0]], [1, 2], None, UnsupportedError, "dimension 0 must be integers"),
        ([[0, 0]], [1, 2], None, DuplicateError, r"\(0,\)"),
        ([[0]], ["a"], None, UnsupportedError, "not supported"),
        ([[0]], [{}], None, UnsupportedError, "objects"),
    ],
)
def test_invalid_coords_raise(coords: Any, values: Any, shape: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        sp.from_coords(coords, values, shape)


def test_duplicates_by_rule() -> None:
    for rule, expected in {"sum": 7.0, "last": 4.0, "first": 3.0, "min": 3.0, "max": 4.0}.items():
        assert sp.from_coords([[1, 1]], [3.0, 4.0], duplicates=rule)[1] == expected
    with pytest.raises(InvalidValueError, match="'sum'"):
        sp.from_coords([[1, 1]], [3.0, 4.0], duplicates="mean")


def test_fill_values_not_stored() -> None:
    assert sp.from_coords([[0, 1, 2]], [0.0, -0.0, np.nan]).nnz == 1
    A = sp.from_coords([[0, 1, 2]], [1.0, 2.0, 1.0], fill_value=1)
    assert A.nnz == 1
    assert A.to_numpy().tolist() == [1, 2, 1]


@given(st.data(), st.sampled_from([d for d in DTYPES if d.kind in "bif" and d != np.float16]))
def test_dense_and_scipy_round_trips(data: st.DataObject, dtype: np.dtype[Any]) -> None:
    shape = data.draw(st.tuples(st.integers(0, 4), st.integers(0, 4)))
    dense = np.array(data.draw(st.lists(st.integers(0, 2), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1])))
    dense = dense.reshape(shape).astype(dtype)
    A = sp.asarray(dense)
    assert A.dtype == dtype
    assert A.nnz == np.count_nonzero(dense)
    assert np.array_equal(np.asarray(A), dense)
    for form in ("csr", "csc", "coo"):
        out = A.to_scipy(form)
        assert isinstance(out, scipy.sparse.sparray)
        assert np.array_equal(out.toarray(), dense)
        assert np.array_equal(sp.asarray(out).to_numpy(), dense)


def test_scipy_duplicates_are_summed() -> None:
    csr = scipy.sparse.csr_array(([1, 2, 3, 4, 5, 6, 1], [0, 2, 2, 0, 1, 2, 1], [0, 2, 3, 7]), shape=(3, 3))
    found = sp.asarray(csr).to_scipy("csr")
    assert found.data.tolist() == [1, 2, 3, 4, 6, 6]
    assert found.indices.tolist() == [0, 2, 2, 0, 1, 2]
    assert found.indptr.tolist() == [0, 2, 3, 6]


def test_compressed_formats() -> None:
    dense = np.array([[0, 2, 0, 0], [0, 0, 3, 0], [0, 0, 0, 0], [1, 0, 4, 0], [0, 0, 2, 1]])
    csr, csc = sp.asarray(dense).to_scipy("csr"), sp.asarray(dense).to_scipy("csc")
    assert (csr.data.tolist(), csr.indices.tolist()) == ([2, 3, 1, 4, 2, 1], [1, 2, 0, 2, 2, 3])
    assert csr.indptr.tolist() == [0, 1, 2, 2, 4, 6]
    assert (csc.data.tolist(), csc.indices.tolist()) == ([1, 2, 3, 4, 2, 1], [3, 0, 1, 3, 4, 4])
    assert csc.indptr.tolist() == [0, 1, 2, 5, 6]


def test_slice_to_csr() -> None:
    coords = np.array([[0, 1, 0], [1, 1, 2], [1, 2, 0], [2, 0, 1], [2, 2, 0]]).T
    csr = sp.from_coords(coords, [1, 2, 3, 4, 5], shape=(3, 3, 3))[:, :, 0].to_scipy("csr")
    assert (csr.data.tolist(), csr.indices.tolist(), csr.indptr.tolist()) == ([1, 3, 5], [1, 2, 2], [0, 1, 2, 3])


def test_arrow_and_polars_round_trips() -> None:
    A = sp.from_coords([[0, 1], [2, 0]], [1.5, 2.5], dims=("user", "item"))
    table = A.to_arrow()
    assert table.to_pydict() == {"user": [0, 1], "item": [2, 0], "value": [1.5, 2.5]}
    assert sp.asarray(table).dims == ("user", "item")
    assert sp.asarray(A.to_polars(), coords=["item", "user"]).shape == (3, 2)
    assert pa.table(A).equals(table)
    assert pl.DataFrame(A).equals(A.to_polars())
    counts = sp.asarray(pa.table({"i": [1, 1, 2]}), coords=["i"], duplicates="sum")
    assert counts.to_numpy().tolist() == [0, 2, 1]


def test_invalid_tables_raise() -> None:
    table = pa.table({"i": [0, None], "s": ["a", "b"], "v": [1.0, None]})
    with pytest.raises(LabelError, match="'i', 's', 'v'"):
        sp.asarray(table, coords=["x"])
    with pytest.raises(InvalidValueError, match="1 nulls"):
        sp.asarray(table, coords=["i"])
    assert [str(name) for name in sp.asarray(table, coords=["s"]).labels("s") or ()] == ["a", "b"]
    with pytest.raises(InvalidValueError, match="'v' has 1 nulls"):
        sp.asarray(pa.table({"i": [0, 1], "v": [1.0, None]}), coords=["i"], value="v")


def test_unsupported_objects_raise() -> None:
    with pytest.raises(UnsupportedError, match=r"expected a NumPy or SciPy array, .* got object"):
        sp.asarray(object())
    with pytest.raises(UnsupportedError, match="not supported"):
        sp.asarray(["a"])


def test_to_scipy_requires_zero_fill() -> None:
    with pytest.raises(UnsupportedError, match="need fill 0, the tensor has"):
        sp.from_coords([[0]], [2.0], fill_value=1).to_scipy()


def test_open_missing(tmp_path: Any) -> None:
    with pytest.raises(NotFoundError):
        sp.open(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError):
        sp.open(tmp_path)


def test_input_arrays_are_copied() -> None:
    coords, values = np.array([0, 1], np.int32), np.array([1.0, 2.0])
    matrix = scipy.sparse.coo_array(([1.0, 2.0], ([0, 1], [1, 0])))
    A, B = sp.from_coords([coords], values), sp.asarray(matrix)
    coords[:], values[:], matrix.data[:] = 1, 99, 0
    assert A.to_numpy().tolist() == [1, 2]
    assert B.to_numpy().tolist() == [[0, 1], [2, 0]]


@pytest.mark.parametrize("format", ["coo", "csr", "csc"])
def test_to_scipy_is_writable(format: str) -> None:
    A = sp.asarray(np.eye(3))
    found = A.to_scipy(format)
    found.data[:] = 7
    assert A.to_numpy().tolist() == np.eye(3).tolist()


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [("int64", np.nan), ("int64", 0.5), ("uint8", 300), ("uint8", -1), ("float64", 1j), ("float64", "a")],
)
def test_fill_out_of_range_raises(dtype: str, fill: object) -> None:
    with pytest.raises(ValueError, match="fill_value must"):
        sp.from_coords([[0]], np.ones(1, dtype), fill_value=fill)
    assert sp.from_coords([[0]], np.ones(1, "uint8"), fill_value=255.0).fill_value == np.uint8(255)
    assert np.isnan(sp.from_coords([[0]], np.ones(1, "complex64"), fill_value=np.nan).fill_value)


def test_integer_sums_from_sql() -> None:
    A = sp.asarray(np.array([[2**53 + 1, 0], [1, 1]]))
    B = sp.from_relation(sp.sql("select d0, sum(value) as v from A group by d0", A=A), coords=["d0"], value="v")
    assert B.dtype == np.int64
    assert B.to_numpy().tolist() == [2**53 + 1, 2]
    past = sp.sql("select 0 as i, sum(9223372036854775807::hugeint) * 4 as v")
    with pytest.raises(ValueError, match="beyond 2\\^63"):
        sp.from_relation(past, coords=["i"], value="v")


@pytest.mark.parametrize("kind", ["duckdb", "polars"])
def test_relation_beyond_memory_is_sorted_on_disk(kind: str, tmp_path: Path) -> None:
    text = "select 'u' || range % 7 as u, (range * 7919) % 10007 as i, range + 0.5 as v from range(30000)"
    rel = sp.sql(text)
    given = rel.pl().lazy() if kind == "polars" else rel
    expected = sp.from_relation(given, coords=["u", "i"], value="v", duplicates="sum")
    with sp.config(memory_limit=1_000_000, temp_directory=tmp_path):
        found = sp.from_relation(given, coords=["u", "i"], value="v", duplicates="sum")
        with pytest.raises(TooLargeError):  # a stream is read once
            sp.from_relation(rel.to_arrow_reader(500), coords=["u", "i"], value="v", duplicates="sum")
        assert not list(tmp_path.iterdir())
    with sp.config(memory_limit=300_000, temp_directory=tmp_path), pytest.raises(TooLargeError):
        sp.from_relation(given, coords=["u", "i"], value="v")
    assert not list(tmp_path.iterdir())
    assert (found.path, found.shape, found.dims) == (None, expected.shape, expected.dims)
    labels: list[Any] = [each.labels("u") for each in (found, expected)]
    assert labels[0].to_pylist() == labels[1].to_pylist()
    np.testing.assert_array_equal(found.to_numpy(), expected.to_numpy())


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_arrow_roundtrip(dtype: str) -> None:
    dense = np.array([1 + 2j, 0, complex(3, np.inf)], dtype)
    found = sp.asarray(sp.asarray(dense).to_arrow(), shape=(3,))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.to_numpy(), dense)


def test_dtype_argument() -> None:
    for thing in ([0, 300], np.array([0, 300]), scipy.sparse.coo_array([[0, 300]]), sp.asarray([0, 300])):
        found = sp.asarray(thing, dtype="float32")
        assert found.dtype == np.float32
        assert found.nnz == 1
    assert sp.asarray(2**63, dtype="uint64").item() == 2**63
    with pytest.raises(OverflowError, match="300"):
        sp.asarray([0, 300], dtype="uint8")
    with pytest.raises(UnsupportedError, match="float64"):
        sp.asarray([1j], dtype="float64")


def test_copies() -> None:
    A = sp.asarray([1, 0])
    assert sp.asarray(A) is sp.asarray(A, copy=False) is A
    B, lazy = sp.asarray(A, copy=True), sp.astype(A, A.dtype)
    A[1] = 7
    assert (A.nnz, B.nnz, lazy.nnz) == (2, 1, 1)
    assert sp.astype(A, A.dtype, copy=False) is A
    with pytest.raises(InvalidValueError, match="copy=False"):
        sp.asarray([1], copy=False)
    with pytest.raises(InvalidValueError, match="copy=False"):
        sp.asarray(A, dtype="int8", copy=False)


def test_open_version_by_time(tmp_path: Any) -> None:
    A = sp.eye(3).save(tmp_path / "a")
    A[0, 1] = 5
    A[0, 2] = 6
    times = [record["timestamp"] for record in reversed(A.history())]
    for version, at in enumerate(times):
        for when in (at, at.isoformat(), at.astimezone(timezone(timedelta(hours=-5)))):
            assert sp.open(tmp_path / "a", version=when).version == max(k for k, t in enumerate(times) if t <= at)
        assert sp.open(tmp_path / "a", int(version)).version == version
    for day in (times[-1].date(), f"{times[-1]:%Y-%m-%d}"):
        assert sp.open(tmp_path / "a", day).nnz == 5, "the version at the end of that day"
    with pytest.raises(NotFoundError, match=r"had no version at 1999-12-31: the first known one, 0, is of 20"):
        sp.open(tmp_path / "a", "1999-12-31")
    with pytest.raises(InvalidValueError, match=r"version must be an integer or a time such as .*, got 'last week'"):
        sp.open(tmp_path / "a", "last week")


def test_open_foreign_delta_table(tmp_path: Any) -> None:
    path = str(tmp_path / "t")
    pl.DataFrame({"user": ["a", "b"], "item": [1, 2], "stars": [1.0, 2.0]}).write_delta(path)
    with pytest.raises(NotFoundError, match="did not write") as told:
        sp.open(path)
    assert f"sp.open({path!r}, coords=[...], value=...)" in str(told.value)
    found = sp.open(path, coords=["user", "item"], value="stars")
    assert found.sel(user="b").to_numpy().tolist() == [0, 0, 2.0]
    assert found.dims == ("user", "item")
    pl.DataFrame({"user": ["a"], "item": [1], "stars": [5.0]}).write_delta(path, mode="append")
    with pytest.raises(DuplicateError):
        sp.open(path, coords=["user", "item"], value="stars")
    assert sp.open(path, coords=["user", "item"], value="stars", duplicates="sum")[0, 1] == 6
    assert sp.open(path, 0, coords=["user", "item"]).to_numpy().tolist() == [[0, 1, 0], [0, 0, 1]]
    with pytest.raises(LabelError, match="'film'"):
        sp.open(path, coords=["user", "film"])
    with pytest.raises(NotFoundError, match="no version 7"):
        sp.open(path, 7, coords=["user"])
    with pytest.raises(NotFoundError, match="nothing is there"):
        sp.open(tmp_path / "u", coords=["user"])
    with pytest.raises(InvalidValueError, match="must be an integer"):
        sp.open(path, "2026-11-22", coords=["user"])
    with pytest.raises(InvalidValueError, match="requires coords="):
        sp.open(path, value="stars")


def test_damaged_foreign_delta_table_raises(tmp_path: Path) -> None:
    path, other = tmp_path / "t", tmp_path / "other"
    options: dict[str, Any] = {"partition_by": ["user"]}
    frame = pl.DataFrame({"user": ["a/b", "c%d"], "item": [1, 2], "stars": [1.0, 2.0]})
    frame.write_delta(path, delta_write_options=options)
    frame.with_columns(stars=100.0).write_delta(other)
    secret = next(other.glob("*.parquet"))
    entry = path / "_delta_log" / "00000000000000000000.json"
    sound = entry.read_text()

    def read() -> float:
        return float(sp.open(path, coords=["user", "item"], value="stars").sum())

    assert read() == 3
    for outside in (f"../other/{secret.name}", str(secret), secret.as_uri(), f"a/%2e%2e/../../other/{secret.name}"):
        lines = [json.loads(line) for line in sound.splitlines()]
        next(line for line in lines if "add" in line)["add"]["path"] = outside
        entry.write_text("\n".join(map(json.dumps, lines)))
        with pytest.raises(CorruptionError, match=r"names the file .* which is not in its folder"):
            read()
    entry.write_text(sound)
    folder = next(path.glob("user=c*"))
    file = next(folder.glob("*.parquet"))
    kept = file.read_bytes()
    for damaged, problem in ((kept[:40], "damaged"), (kept[:4] + bytes(40) + kept[44:], "damaged"), (None, "missing")):
        file.unlink() if damaged is None else file.write_bytes(damaged)
        with pytest.raises(CorruptionError, match=rf"{re.escape(repr(str(file)))}.* is {problem}"):
            read()
    file.symlink_to(secret)
    with pytest.raises(CorruptionError, match="is a link"):
        read()
    file.unlink()
    folder.rmdir()
    folder.symlink_to(other)
    with pytest.raises(CorruptionError, match="is a link"):
        read()


@pytest.mark.parametrize("kind", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i4", ">u2"])
@pytest.mark.parametrize("size", [100, 127, 128, 200, 256, 40_000, 2**31, 2**40, 2**63 - 1])
def test_coords_of_every_dtype(kind: str, size: int) -> None:
    dtype = np.dtype(kind)
    last = min(size, np.iinfo(dtype).max) - 1
    A = sp.from_coords(np.array([[0, last]], dtype), [1, 2], shape=(size,))
    assert (A.nnz, A[last]) == (2, 2)
    outside = [-1] if dtype.kind == "i" else []
    outside += [size] if size <= np.iinfo(dtype).max else []
    for coordinate in outside:
        with pytest.raises(IndexingError, match=rf"coordinate {coordinate} (is out of range for|of) dimension 0"):
            sp.from_coords(np.array([[0, coordinate]], dtype), [1, 2], shape=(size,))


@given(st.integers(0, 2**32), st.sampled_from(["error", "sum", "last", "first", "min", "max"]), st.booleans())
def test_small_inputs_sorted_or_not(seed: int, duplicates: Any, ascending: bool) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 6, rng.integers(1, 4)))
    flat = rng.integers(0, np.prod(shape), rng.integers(0, 12))
    flat = np.unique(flat) if duplicates == "error" else np.sort(flat) if ascending else flat
    values = rng.integers(-2, 3, len(flat)).astype(float)
    dense = np.zeros(np.prod(shape))
    for cell in np.unique(flat):
        own = values[flat == cell]
        dense[cell] = {"last": own[-1], "first": own[0], "min": own.min(), "max": own.max()}.get(duplicates, own.sum())
    A = sp.from_coords(np.array(np.unravel_index(flat, shape)), values, shape=shape, duplicates=duplicates)
    assert A.nnz == np.count_nonzero(dense)
    np.testing.assert_array_equal(A.to_numpy(), dense.reshape(shape))


def test_no_shared_memory() -> None:
    coords, values = np.array([[0, 1, 2], [1, 1, 2]], np.int32), np.array([1.0, 2.0, 3.0])
    A = sp.from_coords(coords, values, shape=(3, 3))
    coords[:], values[:] = 0, 0
    assert (A[0, 1], A[1, 1], A[2, 2]) == (1, 2, 3)
    cells = A.to_numpy()
    cells[:] = 7
    assert A[0, 1] == 1


def test_infer_value_column() -> None:
    table = pa.table({"i": [0, 1], "j": [1, 0], "stars": [1.5, 2.0]})
    for form in (table, pl.from_arrow(table), pl.LazyFrame(pl.from_arrow(table)), table.to_reader()):
        assert sp.asarray(form, coords=["i", "j"]).to_numpy().tolist() == [[0, 1.5], [2, 0]]
    assert sp.asarray(table, coords=["j"]).to_numpy().tolist() == [1, 1]  # two are left
    assert sp.asarray(table.append_column("value", [[7, 8]]), coords=["i", "j"])[0, 1] == 7
    names = pa.table({"i": [0, 1], "name": ["a", "b"]})
    assert sp.asarray(names, coords=["i"]).to_numpy().tolist() == [1, 1]


INTEGER_COLUMNS = pa.table(
    {"u": pa.array([30, 10, 30], pa.int32()), "i": [7, 7, -5], "t": ["b", "a", "b"], "v": [1.0, 2, 3]}
)


@pytest.mark.parametrize("relabel", [True, False, ["u"], "i", ["i", "u"], []])
def test_relation_with_integer_labels(relabel: Any) -> None:
    named = ["u", "i"] if relabel is True else [relabel] if isinstance(relabel, str) else relabel or []
    table = INTEGER_COLUMNS if "i" in named else INTEGER_COLUMNS.set_column(1, "i", pa.array([7, 7, 5]))
    A = sp.from_relation(table, coords=["u", "i", "t"], value="v", relabel=relabel)
    for dim in ("u", "i", "t"):
        labels = A.labels(dim)
        expected = sorted(set(table[dim].to_pylist())) if dim in named or dim == "t" else None
        assert (labels if labels is None else labels.to_pylist()) == expected
    for row in table.to_pylist():
        names: Any = {dim: A.labels(dim) for dim in A.dims}
        places = [row[dim] if names[dim] is None else names[dim].to_pylist().index(row[dim]) for dim in A.dims]
        assert A[tuple(places)] == row["v"]


def test_relation_relabels_its_coordinates_only() -> None:
    with pytest.raises(sp.errors.InvalidValueError, match=r"relabel must name columns of coords=\['u'\], got 'v'"):
        sp.from_relation(INTEGER_COLUMNS, coords=["u"], value="v", relabel=["v"], duplicates="sum")
    with pytest.raises(sp.errors.InvalidValueError, match="column 'u' has 2 labels, but shape has 31"):
        sp.from_relation(INTEGER_COLUMNS, coords=["u"], value="v", relabel=True, shape=(31,), duplicates="sum")


def test_integer_labels_survive_sql() -> None:
    A = sp.from_coords([[0, 1], [1, 0]], [1.0, 2.0], dims=("u", "i"), labels={"u": [10, 7], "i": ["a", "b"]})
    same = sp.from_relation(sp.sql("select u, i, value from A"), coords=["u", "i"], relabel=True)
    assert (same == A).all()
