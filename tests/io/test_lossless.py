"""Lossy conversions are refused, or reported with a count, in every format."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import sparrow as sp
from sparrow.errors import IngestError, InvalidValueError
from sparrow.testing import tune

BIG = 2**53 + 1
"""An integer that float64 rounds."""


def elements_of(A: Any) -> dict[tuple[Any, ...], Any]:
    """Return the elements of a tensor by label or coordinate."""
    *coords, values = (column.to_pylist() for column in A.to_arrow().columns)
    labels = [A.labels(dim) for dim in A.dims]
    cells = zip(*coords, strict=True)
    named = (
        tuple(k if names is None else names[k].as_py() for k, names in zip(cell, labels, strict=True)) for cell in cells
    )
    return dict(zip(named, values, strict=True))


def report(A: Any) -> dict[str, int]:
    found: dict[str, int] = A.history()[-1]["report"]
    return found


# -- integers beyond 2^53 -----------------------------------------------------------------------------


def write_jsonl(path: Path, values: list[Any]) -> None:
    path.write_text("".join(json.dumps({"i": k, "v": value}) + "\n" for k, value in enumerate(values)))


FLOATS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "edges": ("e.txt", lambda path, values: path.write_text("".join(f"{k} 0 {v}\n" for k, v in enumerate(values))), {}),
    "tns": (
        "t.tns",
        lambda path, values: path.write_text("".join(f"{k + 1} 1 {v}\n" for k, v in enumerate(values))),
        {},
    ),
    "columns": (
        "c.csv",
        lambda path, values: path.write_text("i,v\n" + "".join(f"{k},{v}\n" for k, v in enumerate(values))),
        {"coords": ["i"], "value": "v"},
    ),
    "columns-jsonl": ("c.jsonl", write_jsonl, {"coords": ["i"], "value": "v"}),
    "mtx": (
        "m.mtx",
        lambda path, values: path.write_text(
            f"%%MatrixMarket matrix coordinate real general\n{len(values)} 1 {len(values)}\n"
            + "".join(f"{k + 1} 1 {v}\n" for k, v in enumerate(values))
        ),
        {},
    ),
    "libffm": (
        "f.ffm",
        lambda path, values: path.write_text("".join(f"1 0:{k}:{v}\n" for k, v in enumerate(values))),
        {},
    ),
}
"""Formats whose default type is float64, or that settle on it: name, writer, options."""


@pytest.mark.parametrize("format", FLOATS)
@pytest.mark.parametrize("block", [16, 1 << 22])
def test_rounded_integer_among_decimals(tmp_path: Path, format: str, block: int) -> None:
    name, write, options = FLOATS[format]
    ingest = getattr(sp.ingest, format.split("-", maxsplit=1)[0])
    write(tmp_path / name, [0.5, BIG, 2**60, BIG + 2])
    with tune("io", block_bytes=block):
        with pytest.raises(IngestError, match="an integer that float64 does not hold") as caught:
            ingest(tmp_path / name, tmp_path / "A.sparrow", **options)
        assert caught.value.token in (str(BIG), f"0:1:{BIG}")
        assert not (tmp_path / "A.sparrow").exists()
        made = ingest(tmp_path / name, tmp_path / "A.sparrow", dtype="float64", **options)
    A = made["X"] if format == "libffm" else made
    assert sorted(elements_of(A).values()) == sorted([0.5, float(BIG), 2.0**60, float(BIG + 2)])
    assert report(A)["rounded"] == 2


@pytest.mark.parametrize("format", ["edges", "tns", "columns", "columns-jsonl"])
def test_large_integers_survive(tmp_path: Path, format: str) -> None:
    name, write, options = FLOATS[format]
    write(tmp_path / name, [BIG, -BIG, 3])
    options = options if format.startswith("columns") else {**options, "dtype": "int64"}
    A = getattr(sp.ingest, format.split("-", maxsplit=1)[0])(tmp_path / name, tmp_path / "A.sparrow", **options)
    assert A.dtype == np.int64
    assert sorted(elements_of(A).values()) == [-BIG, 3, BIG]


def test_libsvm_counts_rounded_integers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.svm").write_text(f"{BIG} 1:{BIG} 2:0.5\n1 1:{10**30 + 1} 2:{10**22}\n")
    X = sp.ingest.libsvm(tmp_path / "a.svm", tmp_path / "A.sparrow")["X"]
    assert report(X)["rounded"] == 3
    assert "3 integers rounded" in capsys.readouterr().err
    with pytest.raises(IngestError, match="does not fit int64"):
        sp.ingest.libsvm(tmp_path / "a.svm", tmp_path / "B.sparrow", dtype="int64")


@given(st.integers(-(2**63), 2**63 - 1) | st.integers(-(2**55), 2**55))
def test_edge_weights_are_exact_or_refused(tmp_path_factory: pytest.TempPathFactory, weight: int) -> None:
    folder = tmp_path_factory.mktemp("weights")
    (folder / "e.txt").write_text(f"0 1 {weight}\n1 0 0.5\n")
    if int(float(weight)) != weight:
        with pytest.raises(IngestError, match="does not hold"):
            sp.ingest.edges(folder / "e.txt", folder / "A.sparrow")
        return
    A = sp.ingest.edges(folder / "e.txt", folder / "A.sparrow")
    assert A[0, 1] == weight


def test_exported_integers_come_back(tmp_path: Path) -> None:
    A = sp.from_coords([[0, 1], [1, 0]], [BIG, 7])
    for name, ingest in (("a.edges", sp.ingest.edges), ("a.tns", sp.ingest.tns)):
        sp.export(A, tmp_path / name)
        with pytest.raises(IngestError, match=r"pass dtype='int64' to keep it"):
            ingest(tmp_path / name, tmp_path / "A.sparrow")
        B = ingest(tmp_path / name, tmp_path / "A.sparrow", dtype="int64")
        assert elements_of(B) == {(0, 1): BIG, (1, 0): 7}
        sp.ingest.edges(tmp_path / "a.edges", tmp_path / "A.sparrow", dtype="int64", overwrite=True)
        (tmp_path / "A.sparrow").rename(tmp_path / f"{name}.sparrow")


TABLES: dict[str, Any] = {
    "parquet": lambda table, path: pq.write_table(table, path / "t.parquet") or path / "t.parquet",
    "arrow": lambda table, path: table,
    "polars": lambda table, path: pl.from_arrow(table),
    "pandas": lambda table, path: table.to_pandas(),
}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize(("dtype", "value"), [("float64", BIG), ("float32", 2**24 + 1), ("float16", 2049)])
def test_declared_floats_count_rounded(tmp_path: Path, kind: str, dtype: str, value: int) -> None:
    src = TABLES[kind](pa.table({"i": [0, 1, 2], "v": [1, value, value - 1]}), tmp_path)
    A = sp.ingest.columns(src, tmp_path / "A.sparrow", coords=["i"], value="v", dtype=dtype)
    assert report(A)["rounded"] == 1
    assert report(A)["read"] == report(A)["stored"] == 3


# -- decimals -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("files", [1, 2])
@pytest.mark.parametrize(
    ("late", "problem"),
    [
        ({"u": 0, "i": 1, "v": 3.5}, "column 'v' must be int64, as in the lines above: pass dtype='float64'"),
        ({"u": 1.9, "i": 1, "v": 3}, "column 'u' must be int64"),
        ({"u": 1, "i": 1e300, "v": 3}, "column 'i' must be int64"),
        ({"u": 1, "i": 2**63, "v": 3}, "column 'i' must be int64"),
        ({"u": 1, "i": True, "v": 3}, "column 'i' must be int64"),
    ],
)
def test_json_decimals_are_refused(tmp_path: Path, files: int, late: Any, problem: str) -> None:
    """Also in a second file, and in a later block of the first one."""
    early = [{"u": k, "i": 0, "v": k + 1} for k in range(9)]
    texts = ["".join(json.dumps(line) + "\n" for line in lines) for lines in (early, [late])]
    texts = texts if files == 2 else ["".join(texts)]
    paths = [tmp_path / f"{k}.jsonl" for k in range(files)]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    with tune("io", block_bytes=40), pytest.raises(IngestError, match=re.escape(problem)) as caught:
        sp.ingest.columns(paths, tmp_path / "A.sparrow", coords=["u", "i"], value="v")
    assert (caught.value.file, caught.value.line) == (str(paths[-1]), 1 if files == 2 else 10)


def test_json_integral_decimals_are_integers(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"u":0,"v":3}\n{"u":1.0,"v":4.0}\n{"u":2,"v":null}\n')
    with tune("io", block_bytes=8):
        A = sp.ingest.columns(tmp_path / "a.jsonl", tmp_path / "A.sparrow", coords=["u"], value="v", nulls="drop")
    assert (A.dtype, elements_of(A)) == (np.int64, {(0,): 3, (1,): 4})
    assert report(A)["skipped"] == 1


@given(
    st.lists(
        st.tuples(
            st.integers(0, 5) | st.sampled_from([0.0, 3.0, 1.5, 2**53, 2**62]),
            st.integers(-9, 9) | st.sampled_from([0.5, 1e300, 2**53, BIG, -(2**63)]),
        ),
        min_size=1,
    ),
    st.sampled_from([1, 60, 1 << 22]),
    st.booleans(),
)
def test_json_lines_agree_with_json(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, Any]], block: int, split: bool
) -> None:
    """Accepted lines equal those of the json module, in any blocks and files."""
    folder = tmp_path_factory.mktemp("lines")
    cut = len(rows) // 2 if split else len(rows)
    paths = []
    for k, part in enumerate((rows[:cut], rows[cut:])):
        if part:
            paths.append(folder / f"{k}.jsonl")
            paths[-1].write_text("".join(json.dumps({"i": i, "v": v}) + "\n" for i, v in part))
    with tune("io", block_bytes=block):
        try:
            A = sp.ingest.columns(paths, folder / "A.sparrow", coords=["i"], value="v", duplicates="last", relabel=True)
        except IngestError:
            return
    want = {(int(i),): v for i, v in rows}
    assert {cell: value for cell, value in want.items() if value != 0} == elements_of(A)
    counts = report(A)
    assert counts["read"] == counts["stored"] + counts["merged"] + counts["fill"] == len(rows)


# -- append ---------------------------------------------------------------------------------------------


def row_to_append(kind: str, path: Path, i: Any, value: Any) -> Any:
    """Return one row to append, in a form of tables, tensors and files."""
    table = {"u": [1], "i": [i], "value": [value]}
    if kind == "csv":
        pd.DataFrame(table).to_csv(path / "a.csv", index=False)
        return path / "a.csv"
    if kind == "jsonl":
        (path / "a.jsonl").write_text(json.dumps({name: column[0] for name, column in table.items()}) + "\n")
        return path / "a.jsonl"
    if kind == "parquet":
        pl.DataFrame(table).write_parquet(path / "a.parquet")
        return path / "a.parquet"
    if kind == "tensor":
        return sp.from_coords([[1], [2]], [value], shape=(3, 3), dims=("u", "i"))
    if kind == "scipy":
        return scipy.sparse.coo_array(([value], ([1], [2])), shape=(3, 3))
    return pl.DataFrame(table) if kind == "polars" else pa.table(table)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "tensor", "scipy", "polars", "arrow"])
@pytest.mark.parametrize(
    ("dtype", "value", "fits"),
    [
        ("int64", 2.5, False),
        ("int64", 1e300, False),
        ("int8", 300, False),
        ("bool", 2, False),
        ("uint8", -1, False),
        ("float64", BIG, False),
        ("float32", 2**24 + 1, False),
        ("int64", 2.0, True),
        ("float64", 2**60, True),
        ("float32", 0.1, True),
    ],
)
@pytest.mark.parametrize("saved", [False, True])
def test_append_refuses_lossy_values(
    tmp_path: Path, kind: str, dtype: str, value: Any, fits: bool, saved: bool
) -> None:
    A = sp.from_coords([[0], [0]], np.ones(1, dtype), shape=(3, 3), dims=("u", "i"))
    A = A.save(tmp_path / "A.sparrow") if saved else A
    other = row_to_append(kind, tmp_path, 2, value)
    if fits:
        A.append(other)
        assert A[1, 2] == np.asarray(value).astype(dtype)
        return
    problem = f"append: values must fit {dtype} of the tensor, got {value}"
    with pytest.raises(InvalidValueError, match=re.escape(problem)):
        A.append(other)
    assert A.nnz == 1


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("int64", 2.75), ("int64", np.nan), ("int64", 1e30), ("int8", 300), ("uint8", -1), ("bool", 2), ("float32", BIG)],
)
@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("rule", ["error", "last", "sum"])
@pytest.mark.parametrize("rows", [1, 1 << 20])
def test_append_of_new_labels_refuses_lossy_values(
    tmp_path: Path, dtype: str, value: Any, saved: bool, rule: Any, rows: int
) -> None:
    one = np.ones(2, dtype)
    labels = {"day": ["mon", "tue"], "user": ["ann"]}
    A = sp.from_coords([[0, 1], [0, 0]], one, dims=("day", "user"), labels=labels)
    A = A.save(tmp_path / "A.sparrow") if saved else A
    tables: list[Any] = [pa.table({"day": days, "user": ["ann"] * 2, "value": [value] * 2}) for days in
                         (["wed", "fri"], ["mon", "wed"], ["wed", "mon"])]  # fmt: skip
    tables.append(sp.asarray(tables[0], coords=["day", "user"]))
    with sp.testing.tune("tensor", append_memory_parts=1 << 60 if rows == 1 else 8):
        for table in tables[: 1 if rule == "error" else 4]:
            with pytest.raises(InvalidValueError, match=f"append: values must fit {dtype} of the tensor, got "):
                A.append(table, duplicates=rule)
            assert [str(day) for day in A.labels("day") or []] == ["mon", "tue"]
            assert A.to_numpy().tolist() == [[1], [1]]
    A.append({"day": ["wed"], "user": ["ann"], "value": [1]})
    assert A.to_numpy().tolist() == [[1], [1], [1]]
    if saved:
        assert sp.open(tmp_path / "A.sparrow").verify() == []


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "polars", "arrow"])
def test_append_refuses_decimal_coordinates(tmp_path: Path, kind: str) -> None:
    A = sp.from_coords([[0], [0]], [1], shape=(3, 3), dims=("u", "i")).save(tmp_path / "A.sparrow")
    with pytest.raises(sp.errors.SparrowError):
        A.append(row_to_append(kind, tmp_path, 1.9, 1))
    assert A.nnz == 1


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "scipy", "polars", "arrow"])
def test_append_counts_fill(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    A = sp.from_coords([[0], [0]], [1], shape=(3, 3), dims=("u", "i")).save(tmp_path / "A.sparrow")
    A.append(row_to_append(kind, tmp_path, 2, 0))
    assert "append: 1 row equals the fill value and changed nothing" in capsys.readouterr().err
    assert A.nnz == 1


# -- explicit zeros --------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
def test_asarray_counts_explicit_zeros(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    S = scipy.sparse.coo_array(([5.0, 0.0, 0.0], ([0, 0, 2], [0, 2, 1])), shape=(3, 3)).asformat(form)
    A = sp.asarray(S)
    told = "2 elements equal the fill value and are not stored: pass another fill_value=" in capsys.readouterr().err
    assert told == (form not in ("bsr", "dia"))  # which hold zeros of their own
    assert (A.nnz, A.fill_value) == (1, 0)
    B = sp.asarray(S, fill_value=np.inf)
    assert B.fill_value == np.inf
    coo = S.tocoo()
    cells = zip(*(column.tolist() for column in coo.coords), strict=True)
    assert elements_of(B) == dict(zip(cells, coo.data.tolist(), strict=True))
    assert not capsys.readouterr().err


def test_asarray_fill_value_of_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pa.table({"i": [0, 1, 2], "value": [1.0, 0.0, 2.0]})
    assert sp.asarray(table).nnz == 2
    assert "1 element equals the fill value" in capsys.readouterr().err
    assert elements_of(sp.asarray(table, fill_value=-1)) == {(0,): 1, (1,): 0, (2,): 2}
    dense = sp.asarray(np.array([[1.0, 0.0], [7.0, 7.0]]), fill_value=7)
    assert (dense.nnz, dense[1, 0]) == (2, 7)
    assert not capsys.readouterr().err
    with pytest.raises(InvalidValueError, match=r"use A.refill\(value\)"):
        sp.asarray(dense, fill_value=0)
    with pytest.raises(InvalidValueError, match="fill_value must fit int64"):
        sp.asarray(np.eye(2, dtype=int), fill_value=0.5)
    assert sp.from_relation(table, coords=["i"], value="value").nnz == 2
    assert "1 element equals the fill value and is not stored\n" in capsys.readouterr().err


ZEROS = {
    "edges": ("e.txt", "0 1 0\n1 2 4\n", {}),
    "tns": ("t.tns", "1 2 0\n2 3 4\n", {}),
    "mtx": ("m.mtx", "%%MatrixMarket matrix coordinate real general\n3 3 2\n1 2 0\n2 3 4\n", {}),
    "columns": ("c.csv", "a,b,v\n0,1,0\n1,2,4\n", {"coords": ["a", "b"], "value": "v"}),
    "metis": ("g.graph", "2 1 1\n2 0\n1 0\n", {}),
}


@pytest.mark.parametrize("format", ZEROS)
def test_zeros_are_counted_or_kept(tmp_path: Path, format: str, capsys: pytest.CaptureFixture[str]) -> None:
    name, text, options = ZEROS[format]
    (tmp_path / name).write_text(text)
    ingest = getattr(sp.ingest, format)
    A = ingest(tmp_path / name, tmp_path / "A.sparrow", **options)
    zeros = 2 if format == "metis" else 1
    assert (A.fill_value, report(A)["fill"]) == (0, zeros)
    assert f"{zeros} of value 0 dropped" in capsys.readouterr().err
    B = ingest(tmp_path / name, tmp_path / "B.sparrow", fill_value=-1, **options)
    assert (B.fill_value, B.nnz, report(B)["fill"]) == (-1, A.nnz + zeros, 0)
    assert 0 in elements_of(B).values()
    assert not capsys.readouterr().err


def test_npz_zeros_are_counted_or_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scipy.sparse.save_npz(tmp_path / "a.npz", scipy.sparse.coo_array(([5.0, 0.0], ([0, 1], [0, 2])), shape=(2, 3)))
    A = sp.ingest.npz(tmp_path / "a.npz", tmp_path / "A.sparrow")
    assert (A.nnz, report(A)["fill"], report(A)["read"]) == (1, 1, 2)
    assert "1 of value 0 dropped" in capsys.readouterr().err
    B = sp.ingest.npz(tmp_path / "a.npz", tmp_path / "B.sparrow", fill_value=float("nan"))
    assert elements_of(B) == {(0, 0): 5, (1, 2): 0}


def test_shortest_paths_with_free_edges(tmp_path: Path) -> None:
    (tmp_path / "roads.txt").write_text("0 1 0\n1 2 3\n")
    roads = sp.ingest.edges(tmp_path / "roads.txt", tmp_path / "A.sparrow", fill_value=float("inf"))
    assert sp.graph.shortest_paths(roads, 0).to_numpy().tolist() == [0, 0, 3]
