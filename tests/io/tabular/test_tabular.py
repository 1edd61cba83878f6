"""Tables to tensors: real files, generated tables, errors."""

from __future__ import annotations

import contextlib
import csv
import datetime
import decimal
import gzip
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparrow as sp
from sparrow import storage
from sparrow.core.indexing import View
from sparrow.errors import (
    DuplicateError,
    IngestError,
    InvalidValueError,
    NotFoundError,
    ShapeError,
    TooLargeError,
    UnsupportedError,
)
from sparrow.io.base.coo_writer import LabelEncoder
from sparrow.io.tabular.options import Columns
from sparrow.relations.protocol import scan
from sparrow.runtime import memory
from sparrow.testing import tune


def columns(*args: Any, **options: Any) -> str:
    return Columns(*args, **options).read()


def read_stored(path: Any) -> Any:
    return storage.open(os.fspath(path)).current


def cells(path: Any) -> dict[tuple[Any, ...], Any]:
    """Return the elements, by label for labelled dimensions."""
    relation = read_stored(path)
    names = [relation.labels(dim) for dim in range(relation.schema.ndim)]
    lists = [None if each is None else each.to_pylist() for each in names]
    out: dict[tuple[Any, ...], Any] = {}
    for block in scan(relation, View.identity(relation.schema.shape).box()):
        for cell, value in zip(
            zip(*(c.tolist() for c in block.coords), strict=True), block.values.tolist(), strict=True
        ):
            out[tuple(c if of is None else of[c] for c, of in zip(cell, lists, strict=True))] = value
    assert len(out) == relation.nnz
    return out


@pytest.fixture
def ingest(tmp_path: Path) -> Any:
    """Return a function that stores a table, or CSV text, and returns its elements."""

    def run(src: Any, **options: Any) -> dict[tuple[Any, ...], Any]:
        if isinstance(src, str | bytes):
            (tmp_path / "t.csv").write_bytes(src if isinstance(src, bytes) else src.encode())
            src = tmp_path / "t.csv"
        assert columns(src, tmp_path / "t.sparrow", overwrite=True, **options) == str(tmp_path / "t.sparrow")
        return cells(tmp_path / "t.sparrow")

    return run


@pytest.fixture
def schema(tmp_path: Path) -> Any:
    return lambda: read_stored(tmp_path / "t.sparrow").schema


# -- real files ----------------------------------------------------------------------------------


def test_ratings(shared_data: Path, ingest: Any, schema: Any, tmp_path: Path) -> None:
    file = shared_data / "ml-latest-small" / "ratings.csv.gz"
    with gzip.open(file, "rt") as text:
        rows = [(int(r["userId"]), int(r["movieId"]), float(r["rating"])) for r in csv.DictReader(text)]
    want = {(u, m): r for u, m, r in rows}
    assert len(want) == 100836
    assert ingest(file, coords=["userId", "movieId"], value="rating", relabel=True) == want
    assert schema().shape == (610, 9724)
    assert schema().dims == ("userId", "movieId")
    assert ingest(file, coords=["userId", "movieId"], value="rating", relabel=["movieId"]) == want
    assert schema().shape == (611, 9724)
    with pytest.warns(UserWarning, match="^movieId: 9,724 of 193,610 ids occur; relabel=True makes them labels"):
        assert ingest(file, coords=["userId", "movieId"], value="rating", dims=["u", "m"]) == want
    assert schema().shape == (611, 193610)
    assert schema().dims == ("u", "m")
    assert read_stored(tmp_path / "t.sparrow").labels(0) is None


def test_triples(shared_data: Path, ingest: Any, schema: Any) -> None:
    file = shared_data / "kg-umls" / "train.txt"
    want = {tuple(line.split("\t")): 1 for line in file.read_text().splitlines()}
    assert ingest(file, coords=["c0", "c1", "c2"], header=False) == want
    assert len(want) == 5216
    assert schema().shape == (135, 46, 132)
    assert schema().dtype == np.int64


def test_titles_in_quotes(shared_data: Path, ingest: Any) -> None:
    file = shared_data / "ml-latest-small" / "movies.csv"
    with open(file, newline="") as text:
        want = {(int(r["movieId"]), r["title"]): 1 for r in csv.DictReader(text)}
    with pytest.warns(UserWarning, match="movieId: 9,742 of 193,610 ids occur"):
        assert ingest(file, coords=["movieId", "title"]) == want


# -- generated tables against a plain reader -----------------------------------------------------

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=5)


@pytest.mark.filterwarnings("ignore:.*ids occur")
@given(st.data(), st.sampled_from(["sum", "last", "first", "min", "max"]), st.booleans())
def test_agrees_with_a_plain_reader(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, rule: str, spill: bool
) -> None:
    folder = tmp_path_factory.mktemp("columns")
    kinds = data.draw(st.lists(st.sampled_from(["int", "wide", "text", "anew"]), min_size=1, max_size=4))
    element: dict[str, Any] = {
        "int": st.integers(0, 5),
        "anew": st.integers(0, 5),
        "wide": st.integers(0, 2) | st.integers(0, 2**63 - 2),
        "text": TEXTS,
    }
    value = st.sampled_from([0.5, -1.25, 0.1, 0.0, 3e-9])
    rows = data.draw(st.lists(st.tuples(*(element[kind] for kind in kinds), value), min_size=1, max_size=25))
    names = [f"{kind} {k}" for k, kind in enumerate(kinds)]
    fields = [pa.field(n, pa.string() if k == "text" else pa.int64()) for n, k in zip(names, kinds, strict=True)]
    fields.append(pa.field("what", pa.float64()))
    table = pa.Table.from_pylist(
        [dict(zip([*names, "what"], row, strict=True)) for row in rows], schema=pa.schema(fields)
    )
    form = data.draw(st.sampled_from(["table", "parquet", "stream", "polars", "lazy", "duckdb", "csv", "arrow", "ipc"]))
    source: Any = table
    if form == "parquet":
        source = folder / "t.parquet"
        pq.write_table(table, source, row_group_size=3)
    elif form == "arrow":
        source = folder / "t.arrow"
        with pa.ipc.new_file(source, table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
    elif form == "ipc":
        source = folder / "t.arrows"
        with pa.ipc.new_stream(source, table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
    elif form == "stream":
        source = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=4))
    elif form == "polars":
        source = pl.DataFrame(table)
    elif form == "lazy":
        source = pl.DataFrame(table).lazy()
    elif form == "duckdb":
        source = duckdb.connect().from_arrow(table)
    elif form == "csv":
        source = folder / "t.csv"
        with open(source, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, quoting=csv.QUOTE_ALL)
            writer.writerows([[*names, "what"], *rows])
        # Texts that all look like numbers would become numbers.
        if any(kind == "text" for kind in kinds) and form == "csv":
            with open(source, "a", newline="", encoding="utf-8") as file:
                extra = tuple("a text" if kind == "text" else 0 for kind in kinds)
                csv.writer(file, quoting=csv.QUOTE_ALL).writerow([*extra, 1.0])
                rows = [*rows, (*extra, 1.0)]
    with tune("sorting", budget_bytes=300 if spill else None):
        anew = [name for name, kind in zip(names, kinds, strict=True) if kind == "anew"]
        columns(source, folder / "t.sparrow", coords=names, value="what", duplicates=rule, relabel=anew)
    given: dict[tuple[Any, ...], list[float]] = {}
    for *cell, weight in rows:
        given.setdefault(tuple(cell), []).append(weight)
    fold: dict[str, Any] = {"sum": total, "last": lambda v: v[-1], "first": lambda v: v[0], "min": min, "max": max}
    want = {cell: fold[rule](weights) for cell, weights in given.items()}
    assert cells(folder / "t.sparrow") == {cell: weight for cell, weight in want.items() if weight != 0}
    relation = read_stored(folder / "t.sparrow")
    for dim, kind in enumerate(kinds):
        seen = sorted({row[dim] for row in rows})
        if kind in ("text", "anew"):
            assert relation.labels(dim).to_pylist() == seen
            assert relation.schema.shape[dim] == len(seen)
        else:
            assert relation.labels(dim) is None
            assert relation.schema.shape[dim] == seen[-1] + 1


def total(values: list[float]) -> float:
    out = values[0]
    for value in values[1:]:
        out += value
    return out


# -- options -------------------------------------------------------------------------------------


def test_indicator_and_count(ingest: Any, schema: Any) -> None:
    text = "u,i\n1,2\n0,5\n1,2\n"
    assert ingest(text, coords=["u", "i"], duplicates="sum") == {(0, 5): 1, (1, 2): 2}
    assert schema().dtype == np.int64
    assert ingest(text, coords=["u", "i"], duplicates="last", dtype="bool") == {(0, 5): True, (1, 2): True}
    with pytest.raises(DuplicateError, match=r"element \(1, 2\) is given more than once"):
        ingest(text, coords=["u", "i"])
    with pytest.raises(DuplicateError, match=r"element \('b', 7\) is given more than once"):
        ingest("u,i\nb,7\na,5\nb,7\n", coords=["u", "i"], relabel=["i"])


@pytest.mark.parametrize(
    ("text", "options", "told"),
    [
        ("u,i,v\n1,2,3\n4,4,4\n1,2,5\n1,2,6\n", {}, r"t\.csv, line 4: row 3: element (1, 2) @ line 2: pass"),
        ("u,i,v\n1,2,3\n1,3,5\n1,2,6\n", {"index_base": 1}, "line 4: row 3: element (0, 1) @ line 2:"),
        ("u,i,v\nb,2,\nb,2,3\n\nb,2,4\n", {"nulls": "drop"}, "line 5: row 3: element ('b', 2) @ line 3:"),
        ("u,i,v\nb,9,1\na,9,2\nb,9,3\n", {"relabel": ["i"]}, "line 4: row 3: element ('b', 9) @ line 2:"),
        ("u,i,v\nb,09,1\nb,9,2\nb,09,3\n", {}, "line 4: row 3: element ('b', '09') @ line 2:"),
        ("u,i,v\n2020-01-01,1,1\n2020-01-01,1,1\n", {}, "line 3: row 2: element ('2020-01-01', 1) @ line 2:"),
        (
            "u,i,v,w\nb,2,1,1\na,2,1,1\nb,2,1,3\n",
            {"value": ["v", "w"]},
            "line 4: row 3: element ('b', 2) @ line 2:",
        ),
    ],
)
def test_duplicate_error_names_lines(ingest: Any, text: str, options: dict[str, Any], told: str) -> None:
    pattern = told.replace("(", r"\(").replace(")", r"\)").replace("@", "is given more than once, first in")
    with pytest.raises(DuplicateError, match=pattern):
        ingest(text, **{"coords": ["u", "i"], "value": "v", **options})


def test_duplicates_in_files_and_tables(tmp_path: Path) -> None:
    for name, text in (("one.csv", "u,i\n1,2\n7,7\n"), ("two.csv", "u,i\n5,5\n1,2\n")):
        (tmp_path / name).write_text(text)
    with pytest.raises(DuplicateError, match=r"two\.csv, line 3: row 2: element .*, first in .*one\.csv, line 2:"):
        sp.ingest.columns([tmp_path / "one.csv", tmp_path / "two.csv"], tmp_path / "files", coords=["u", "i"])
    table = pl.DataFrame({"u": [5, 1, 5], "i": [0, 1, 0]})
    with pytest.raises(DuplicateError, match=r"^row 3: element \(5, 0\) .*, first in row 1: pass"):
        sp.ingest.columns(table, tmp_path / "table", coords=["u", "i"])
    stream = pa.table(table).to_reader()  # which cannot be read again
    with pytest.raises(DuplicateError, match=r"^element \(5, 0\) is given more than once: pass"):
        sp.ingest.columns(stream, tmp_path / "stream", coords=["u", "i"])


def test_fill_value(ingest: Any, schema: Any) -> None:
    assert ingest("i,v\n0,5\n1,0\n2,7\n", coords=["i"], value="v", fill_value=5) == {(1,): 0, (2,): 7}
    assert schema().fill_value == 5
    assert ingest("i,v\n0,nan\n1,0\n", coords=["i"], value="v", fill_value=float("nan"), dtype="float64") == {(1,): 0}


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [(getattr(pa, name)(), name.replace("bool_", "bool")) for name in
     ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
      "bool_")]
    + [(pa.decimal128(9, 2), "float64"), (pa.dictionary(pa.int8(), pa.int16()), "int16")],
)  # fmt: skip
def test_the_type_of_the_column(ingest: Any, schema: Any, kind: pa.DataType, dtype: str) -> None:
    values: list[Any] = [True, False, True] if dtype == "bool" else [1, 0, 3]
    if pa.types.is_decimal(kind):
        values = [decimal.Decimal("1.25"), decimal.Decimal(0), decimal.Decimal(-3)]
    array = pa.array([1, 0, 3], pa.int16()).dictionary_encode() if pa.types.is_dictionary(kind) else (
        pa.array(np.array(values, "float16")) if dtype == "float16" else pa.array(values, kind)
    )  # fmt: skip
    assert ingest(pa.table({"i": [4, 2, 0], "v": array}), coords=["i"], value="v") == {
        (0,): float(values[2]) if dtype == "float64" else values[2],
        (4,): float(values[0]) if dtype == "float64" else values[0],
    }
    assert schema().dtype == np.dtype(dtype)
    ingest(pa.table({"i": [4, 2, 0], "v": array}), coords=["i"], value="v", dtype="complex64")
    assert schema().dtype == np.complex64


@pytest.mark.parametrize(
    "kind",
    [pa.int8(), pa.uint8(), pa.int32(), pa.uint64(), pa.float32(), pa.float64(), pa.decimal128(5, 1)],
)
def test_integral_numbers_are_coordinates(ingest: Any, schema: Any, kind: pa.DataType) -> None:
    values = [decimal.Decimal(3), decimal.Decimal(0)] if pa.types.is_decimal(kind) else [3, 0]
    assert ingest(pa.table({"i": pa.array(values, kind)}), coords=["i"]) == {(0,): 1, (3,): 1}
    assert schema().shape == (4,)


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_string_types_are_labels(ingest: Any, kind: pa.DataType) -> None:
    array = pa.array(["b", "", "ü"]).cast(kind) if not pa.types.is_dictionary(kind) else (
        pa.array(["b", "", "ü"]).dictionary_encode()
    )  # fmt: skip
    sliced = pa.table({"i": array, "j": [1, 2, 3]}).slice(1)
    assert ingest(sliced, coords=["i", "j"]) == {("", 2): 1, ("ü", 3): 1}


def test_dates_are_labels(ingest: Any) -> None:
    table = pa.table({"day": [datetime.date(2024, 5, 1), datetime.date(2023, 1, 2)], "i": [0, 1]})
    assert ingest(table, coords=["day", "i"]) == {("2023-01-02", 1): 1, ("2024-05-01", 0): 1}
    assert ingest("day,i\n2024-05-01,0\n2023-01-02 10:00,1\n", coords=["day", "i"]) == {
        ("2023-01-02 10:00", 1): 1,
        ("2024-05-01", 0): 1,
    }


def test_shape(ingest: Any, schema: Any) -> None:
    text = "i,j\n1,2\n"
    ingest(text, coords=["i", "j"], shape=(5, None))
    assert schema().shape == (5, 3)
    ingest(text, coords=["i", "j"], shape=(2**62, 3))
    assert schema().shape == (2**62, 3)
    ingest("i,j\na,2\n", coords=["i", "j"], shape=(1, 9))
    assert schema().shape == (1, 9)
    with pytest.raises(
        IngestError,
        match=r"t.csv, line 2: row 1: column 'j' is out of range for the size 2 \(at '2'\)",
    ):
        ingest(text, coords=["i", "j"], shape=(5, 2))
    with pytest.raises(ShapeError, match="column 'i' has 1 labels, but shape has 4"):
        ingest("i,j\na,2\n", coords=["i", "j"], shape=(4, 9))
    with pytest.raises(ShapeError, match="shape must have 2 sizes"):
        ingest(text, coords=["i", "j"], shape=(4,))


def test_delimiters_and_line_ends(ingest: Any) -> None:
    want = {(1, "a,b"): 2.5, (0, "c"): 1.0}
    assert ingest('i,j,v\r\n1,"a,b",2.5\r\n\r\n0,c,1', coords=["i", "j"], value="v") == want
    assert ingest("i\tj\tv\n1\ta,b\t2.5\n0\tc\t1\n", coords=["i", "j"], value="v") == want
    assert ingest("i;j;v\n1;a,b;2.5\n0;c;1\n", coords=["i", "j"], value="v", delimiter=";") == want
    assert ingest("1 a\n0 c\n", coords=["c1", "c0"], header=False, delimiter=" ") == {("a", 1): 1, ("c", 0): 1}
    assert ingest('i,"j k"\n3,"two\nlines"\n', coords=["i", "j k"], dims=["i", "j"]) == {(3, "two\nlines"): 1}
    assert ingest("\ufeffi,j\n3,4\n", coords=["i", "j"]) == {(3, 4): 1}


def test_late_decimals_in_value_column(ingest: Any) -> None:
    text = "i,v\n" + "".join(f"{k},1\n" for k in range(900_000)) + "900000,0.5\n"
    with pytest.raises(IngestError, match=r"t\.csv, line 900002: cannot be read after row"):
        ingest(text, coords=["i"], value="v")
    assert ingest(text, coords=["i"], value="v", dtype="float64")[900_000,] == 0.5


def test_several_files_of_several_formats(tmp_path: Path, ingest: Any) -> None:
    (tmp_path / "a.csv").write_text("j,i,v\n1,2,3\n")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"i,x,j,v\n5,0,0,1\n"))
    pq.write_table(pa.table({"v": [9], "i": [0], "j": [0]}), tmp_path / "c.parquet")
    want = {(2, 1): 3, (5, 0): 1, (0, 0): 9}
    files = [tmp_path / name for name in ("a.csv", "b.csv.gz", "c.parquet")]
    assert ingest(files, coords=["i", "j"], value="v") == want
    (tmp_path / "part1.tsv").write_text("i\tj\n0\t1\n")
    (tmp_path / "part2.tsv").write_text("i\tj\n2\t3\n")
    assert ingest([str(tmp_path / "part*.tsv")], coords=["i", "j"]) == {(0, 1): 1, (2, 3): 1}


def test_standard_input(tmp_path: Path, pipe_stdin: Callable[[bytes], None]) -> None:
    pipe_stdin(b"i,j,v\na,1,2\nb,0,3\n")
    Columns("-", tmp_path / "in.sparrow", coords=["i", "j"], value="v").read()
    assert cells(tmp_path / "in.sparrow") == {("a", 1): 2, ("b", 0): 3}


def test_an_arrow_stream_on_standard_input(tmp_path: Path, pipe_stdin: Callable[[bytes], None]) -> None:
    table = pa.table({"i": ["a", "b"], "j": [1, 0], "v": [2, 3]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    pipe_stdin(sink.getvalue().to_pybytes())
    Columns("-", tmp_path / "in.sparrow", coords=["i", "j"], value="v", format="arrow").read()
    assert cells(tmp_path / "in.sparrow") == {("a", 1): 2, ("b", 0): 3}


def test_late_decimals(tmp_path: Path, ingest: Any) -> None:
    rows = "".join(f"{i},1\n" for i in range(600_000))
    (tmp_path / "late.csv").write_text(f"i,v\n{rows}600000,1.5\n")
    with pytest.raises(IngestError, match=r"late.csv, line 600002: .*'1.5'; .* pass dtype='float64'"):
        ingest(tmp_path / "late.csv", coords=["i"], value="v")
    assert ingest(tmp_path / "late.csv", coords=["i"], value="v", dtype="float64")[(600_000,)] == 1.5


def test_a_cut_arrow_stream(tmp_path: Path) -> None:
    table = pa.table({"i": list(range(1000))})
    with pa.ipc.new_stream(tmp_path / "whole", table.schema) as writer:
        writer.write_table(table, max_chunksize=100)
    (tmp_path / "cut").write_bytes((tmp_path / "whole").read_bytes()[:-700])
    with pytest.raises(IngestError, match=r"cut.*cannot be read"):
        columns(tmp_path / "cut", tmp_path / "t.sparrow", coords=["i"])
    assert not (tmp_path / "t.sparrow").exists()


def test_names_are_data(ingest: Any) -> None:
    table = pa.table({'a "b"; drop': ["x'; --", "ü"], "j.k": [1, 2]})
    con = duckdb.connect()
    for src in (table, con.from_arrow(table), pl.DataFrame(table).lazy()):
        assert ingest(src, coords=['a "b"; drop', "j.k"]) == {("x'; --", 1): 1, ("ü", 2): 1}


def test_an_empty_table(ingest: Any, schema: Any) -> None:
    table = pa.table({"i": pa.array([], pa.int64()), "s": pa.array([], pa.string()), "v": pa.array([], pa.float32())})
    assert ingest(table, coords=["i", "s"], value="v") == {}
    assert schema().shape == (0, 0)
    with pytest.warns(UserWarning, match=r"t\.csv: there are no rows"):
        assert ingest("i,v\n", coords=["i"], value="v") == {}
    with pytest.warns(UserWarning, match=r"t\.csv: there are no rows"):
        assert ingest("i,v\n", coords=["i"], value="v", shape=(7,)) == {}
    assert schema().shape == (7,)


# -- errors -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "token", "message"),
    [
        ("i,j,v\n1,2,3\n,2,3\n", None, "row 2: column 'i' is null"),
        ("i,j,v\n1,2,3\n1,3,\n", None, "row 2: column 'v' is null"),
        ("i,j,v\n1,2,3\n1,-3,4\n", "-3", "row 2: column 'j' is negative"),
        ("i,j,v\n1,2,3\n1,3.5,4\n", "3.5", "row 2: column 'j' is not an integer"),
        (
            "i,j,v\n1,2,3\n1,99999999999999999999,4\n",
            "1e+20",
            "row 2: column 'j' is not an integer below 2^53: pass ids={'j': 'str'}",
        ),
        ("i,j,v\n1,2,3\n9223372036854775807,2,4\n", "9223372036854775807", "row 2: column 'i' is beyond 2^63 - 2"),
        ("i,j,v\n1,2,x\n", "x", "values must be numbers, column 'v' holds string"),
        ("i,j,v\n1,true,3\n", None, "coordinates must be integers, texts or dates, column 'j' holds bool"),
        ("i,j,w\n1,2,3\n", None, "there is no column 'v': the columns are 'i', 'j', 'w'"),
        ("i,j,v,j\n1,2,3,4\n", None, "there are 2 columns 'j'"),
        ("i,j,v\n1,2\n", None, "cannot be read after row 0: CSV parse error: Expected 3 columns, got 2: 1,2"),
        ("", None, "expected a line of column names"),
    ],
)
def test_bad_tables(ingest: Any, tmp_path: Path, text: str, token: str | None, message: str) -> None:
    with pytest.raises(IngestError, match=re.escape(message)) as caught:
        ingest(text, coords=["i", "j"], value="v")
    assert caught.value.file == str(tmp_path / "t.csv")
    assert caught.value.token == token
    assert os.listdir(tmp_path) == ["t.csv"]


@pytest.mark.parametrize(
    ("dtype", "value", "fits"),
    [("int8", 128, False), ("int8", -128, True), ("uint8", -1, False), ("float32", 1e300, False), ("bool", 2, False),
     ("int64", 2.0**63, False), ("int64", 0.5, False), ("uint64", 2.0**62, True), ("int32", float("nan"), False)],
)  # fmt: skip
def test_values_must_fit(ingest: Any, dtype: str, value: float, fits: bool) -> None:
    table = pa.table({"i": [0, 1], "v": pa.array([1, value], pa.int64() if isinstance(value, int) else pa.float64())})
    if fits:
        assert ingest(table, coords=["i"], value="v", dtype=dtype) == {(0,): 1, (1,): value}
    else:
        with pytest.raises(IngestError, match=f"row 2: column 'v' is out of range for {dtype}"):
            ingest(table, coords=["i"], value="v", dtype=dtype)


def test_row_numbers_across_batches(ingest: Any) -> None:
    table = pa.table({"i": [*range(10), -4], "s": list("abcdefghijk")})
    batches = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=3))
    with pytest.raises(IngestError, match="row 11: column 'i' is negative"):
        ingest(batches, coords=["i", "s"])


def test_column_type_must_not_change(tmp_path: Path, ingest: Any) -> None:
    pq.write_table(pa.table({"i": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"i": ["x"]}), tmp_path / "b.parquet")
    with pytest.raises(IngestError, match=r"b.parquet: column 'i' holds string from row 1 on, but numbers before"):
        ingest([tmp_path / "a.parquet", tmp_path / "b.parquet"], coords=["i"])


def test_stream_error_propagates(ingest: Any) -> None:
    schema = pa.schema([("i", pa.int64())])

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array([1])], schema=schema)
        raise IngestError("my own", "mine", 7)

    with pytest.raises(IngestError, match="my own"):
        ingest(pa.RecordBatchReader.from_batches(schema, batches()), coords=["i"])
    relation = duckdb.connect().sql(
        "select case when i < 400000 then i else error('late') end as i from range(500000) t(i)"
    )
    with pytest.raises(IngestError, match="late"):
        ingest(relation, coords=["i"])


@pytest.mark.parametrize(
    "options",
    [
        {"coords": []},
        {"coords": ["i", "i"]},
        {"coords": ["i"], "relabel": ["j"]},
        {"coords": ["i"], "profile": "tiny"},
        {"coords": ["i"], "format": "xls"},
        {"coords": ["i"], "delimiter": "a\n"},
        {"coords": ["i"], "duplicates": "mean"},
        {"coords": ["value"]},
        {"coords": ["i", "I"]},
    ],
)
def test_bad_arguments(tmp_path: Path, options: Any) -> None:
    with pytest.raises(InvalidValueError):
        columns(pa.table({"i": [1]}), tmp_path / "t.sparrow", **options)


def test_no_table(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"src must be a path.* got int"):
        columns(5, tmp_path / "t.sparrow", coords=["i"])
    with pytest.raises(NotFoundError):
        columns(tmp_path / "none.csv", tmp_path / "t.sparrow", coords=["i"])
    assert not os.listdir(tmp_path)


def test_lazy_frame_is_streamed(ingest: Any) -> None:
    frame = pl.LazyFrame({"i": range(100_000)}).with_columns(j=pl.col("i") % 7, v=pl.lit(1.0)).filter(pl.col("j") < 2)
    found = ingest(frame, coords=["j", "i"], value="v")
    assert len(found) == sum(k % 7 < 2 for k in range(100_000))


@tune("sorting", budget_bytes=200_000)
def test_more_rows_than_memory_holds(ingest: Any) -> None:
    rng = np.random.default_rng(2)
    n = 60_000
    i, j, v = rng.integers(0, 500, n), rng.integers(0, 500, n), rng.random(n)
    want: dict[tuple[Any, ...], float] = {}
    for a, b, w in zip(i.tolist(), j.tolist(), v.tolist(), strict=True):
        want[a, b] = want.get((a, b), 0.0) + w
    table = pa.table({"i": i, "j": j, "v": v})
    assert ingest(table, coords=["i", "j"], value="v", duplicates="sum") == want
    texts = table.set_column(0, "i", table["i"].cast(pa.string()))
    assert ingest(texts, coords=["i", "j"], value="v", duplicates="sum") == {
        (str(a), b): w for (a, b), w in want.items()
    }


# -- lines, quotes, texts that look like numbers ---------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "options"),
    [
        ("i,j\n\n1,2\r\n\r\n3,x\n", 5, {}),
        ('i,j\n1,"a\n\nb"\n-1,c\n', 5, {}),
        ('"i\n",j\n1,2\n-1,2\n', 4, {"coords": ["i\n", "j"], "dims": ["i", "j"]}),
        ("1,2\n1,2,3\n", 2, {"header": False, "coords": ["c0", "c1"]}),
        ("i,j\n0,1\n,1\n", 3, {}),
        ('i,j\n0,1\n2,"x\n', 3, {}),
        ('i,j\n0,5" pipe\n-2,"6"" pipe, \n long"\n', 3, {}),
    ],
)
@pytest.mark.parametrize("small", [False, True])
def test_csv_errors_name_the_line(ingest: Any, text: str, line: int, options: Any, small: bool) -> None:
    options = {"coords": ["i", "j"], **options}
    if "3,x" in text and not small:
        options["value"] = "j"
        options["coords"] = ["i"]
    elif "3,x" in text:
        options["ids"] = {"j": "int"}
    with tune("io", block_bytes=8 if small else 1 << 22), pytest.raises(IngestError) as caught:
        ingest(text, **options)
    assert caught.value.line == line


def test_records_span_blocks(ingest: Any) -> None:
    text = "i,s\n" + "".join(f'{k},"a ""{k}""\n, b"\n' for k in range(200))
    want = {(k, f'a "{k}"\n, b'): 1 for k in range(200)}
    for size in (1, 7, 64, 1 << 20):
        with tune("io", block_bytes=size):
            assert ingest(text, coords=["i", "s"]) == want


def test_quotes_in_tsv(ingest: Any) -> None:
    text = 'a\tb\n"Foo\tx\nbar\ty"\n'
    assert ingest(text, coords=["a", "b"]) == {('"Foo', "x"): 1, ("bar", 'y"'): 1}
    assert ingest('a\tb\n"Fo o"\tx\n', coords=["a", "b"], quotes=True) == {("Fo o", "x"): 1}
    assert ingest('a,b\n"Foo,x\n', coords=["a", "b"], quotes=False) == {('"Foo', "x"): 1}
    with pytest.raises(IngestError, match="never closed: pass quotes=False") as caught:
        ingest(text.replace('y"', "y"), coords=["a", "b"], quotes=True)
    assert caught.value.line == 2


@tune("io", block_bytes=16)
def test_leading_zeros_are_texts(ingest: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert ingest("u,i\n007,1\n7,0\n", coords=["u", "i"]) == {("007", 1): 1, ("7", 0): 1}
    assert ingest('u,i\n"01",1\n', coords=["u", "i"]) == {("01", 1): 1}
    assert ingest("u,v\n7,01\n", coords=["u"], value="v") == {(7,): 1}
    assert ingest("u,v\n7,0.5\n0,00\n", coords=["u"], value="v") == {(7,): 0.5}
    text = "u,i\n" + "".join(f"{k},{k}\n" for k in range(20)) + "007,3\n"
    assert ("007", 3) in ingest(text, coords=["u", "i"])  # read again
    assert "line 22: column 'u' holds texts, and is read again" in capsys.readouterr().err
    assert ("007", 3) in ingest(text, coords=["u", "i"], text=["u"])
    assert not capsys.readouterr().err
    assert (7, 3) in ingest(text, coords=["u", "i"], ids={"u": "int"})


@tune("io", block_bytes=16)
def test_late_texts_in_number_column(ingest: Any) -> None:
    text = "u,i\n" + "".join(f"{k},{k}\n" for k in range(20)) + "x7,3\n"
    with pytest.raises(IngestError, match=r"'u' is not an integer: pass ids=\{'u': 'str'\} if these are") as caught:
        ingest(text, coords=["u", "i"], ids={"u": "int"})
    assert (caught.value.line, caught.value.token) == (22, "x7")
    assert ("x7", 3) in ingest(text, coords=["u", "i"], ids={"u": "str"})
    assert ("x7", 3) in ingest(text, coords=["u", "i"])  # read again
    found = ingest(text, coords=["u", "i"], text="u")
    assert ("x7", 3) in found
    assert ("19", 19) in found
    with pytest.raises(InvalidValueError, match=r"text must name columns .* got 'v'"):
        ingest(text, coords=["u", "i"], text=["v"])


def test_late_text_in_pipe_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    text = "u\n" + "1\n" * 3_000_000 + "x7\n"
    with contextlib.ExitStack() as stack:
        writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=(text,))
        writer.start()
        stack.callback(writer.join)
        with pytest.raises(IngestError, match=r"invalid value 'x7'; .*pass text=\['u'\]") as caught:
            columns(tmp_path / "pipe", tmp_path / "t.sparrow", coords=["u"], duplicates="sum")
    assert caught.value.line == 3_000_002


@pytest.mark.parametrize("block", [16, 1 << 22])
def test_csv_delimiters(ingest: Any, block: int) -> None:
    with tune("io", block_bytes=block):
        ratings = "1::Toy Story::5\n2::Heat::3\n2::Toy Story::4\n"
        want = {(1, "Toy Story"): 5, (2, "Heat"): 3, (2, "Toy Story"): 4}
        assert ingest(ratings, coords=["c0", "c1"], value="c2", header=False, delimiter="::") == want
        blanks = "  i   j \t v\n# one\n 1  a  2 \n\n\t3 b\t4\r\n#\n"
        want = {(1, "a"): 2, (3, "b"): 4}
        assert ingest(blanks, coords=["i", "j"], value="v", delimiter=" ", comment="#") == want
        for bad, line in (("1::a\n2\n", 2), ("1::a\n\n1::b::c\n", 3)):
            with pytest.raises(IngestError) as caught:
                ingest(bad, coords=["c0", "c1"], header=False, delimiter="::")
            assert caught.value.line == line
        with pytest.raises(IngestError, match="0x1f") as caught:
            ingest("1::a\n2::\x1f\n", coords=["c0", "c1"], header=False, delimiter="::")
        assert caught.value.line == 2
        with pytest.raises(InvalidValueError, match="a delimiter of one character"):
            ingest("1::a\n", coords=["c0"], delimiter="::", quotes=True)


def test_other_encodings(ingest: Any) -> None:
    data = "ort,n\nKöln,1\nÅs,2\n".encode("latin-1")
    assert ingest(data, coords=["ort"], value="n", encoding="latin-1") == {("Köln",): 1, ("Ås",): 2}
    with pytest.raises(IngestError, match="not ascii") as caught:
        ingest(data, coords=["ort"], value="n", encoding="ascii")
    assert caught.value.line == 2
    with pytest.raises(InvalidValueError, match="a superset of ASCII"):
        ingest(data, coords=["ort"], encoding="utf-16")


@pytest.mark.parametrize(
    "text",
    ["a;v\r\n5;2.5;\r\n6;3.5;\r\n", "a,v\n5,2.5,\n6,3.5,\n"],
)
def test_extra_field_hint(ingest: Any, tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_bytes(text.encode())
    more: Any = {"coords": ["a"], "value": "v", "delimiter": ";" if ";" in text else None}
    with pytest.raises(IngestError, match=r"Expected 2 columns, got 3.*; if lines end") as caught:
        ingest(tmp_path / "a.csv", **more)
    assert caught.value.line == 2
    command = caught.value.commands[0].partition(" | ")[0]
    mended = subprocess.run(command, shell=True, capture_output=True, check=True).stdout
    assert ingest(mended, **more) == {(5,): 2.5, (6,): 3.5}


def test_decimal_comma(ingest: Any) -> None:
    text = "a;v\n1;3,5\n2;-4,25\n3;7\n"
    assert ingest(text, coords=["a"], value="v", delimiter=";", decimal=",") == {(1,): 3.5, (2,): -4.25, (3,): 7}
    with pytest.raises(IngestError, match="pass decimal=',' if the comma is") as caught:
        ingest(text, coords=["a"], value="v", delimiter=";")
    assert (caught.value.line, caught.value.token) == (2, "3,5")
    with pytest.raises(InvalidValueError, match="decimal must differ from delimiter"):
        ingest("a,v\n1,2\n", coords=["a"], delimiter=",", decimal=",")
    for token, point, told in (
        ("1.000,5", ",", "values must be numbers, column 'v' holds string: remove the separators of thousands"),
        ("1,000", ".", "decimal separator, or remove the separators of thousands"),
        ("4,25", ".", "decimal separator (at"),
        ("0x1F", ",", "pass another value=, or none"),
    ):
        first = "3,5" if point == "," else "inf"
        with pytest.raises(IngestError, match=re.escape(told)) as caught:
            ingest(f"a;v\n1;{first}\n2;{token}\n", coords=["a"], value="v", delimiter=";", decimal=point)
        assert (caught.value.line, caught.value.token) == (3, token)


def test_means_and_counts(ingest: Any, schema: Any) -> None:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"i": rng.integers(0, 9, 500), "j": rng.integers(0, 9, 500), "v": rng.integers(-2, 3, 500)})
    rows = frame.group_by("i", "j").agg(pl.col("v").mean().alias("mean"), pl.len().alias("count")).to_dicts()
    means = {(row["i"], row["j"]): row["mean"] for row in rows if row["mean"]}
    found = ingest(frame, coords=["i", "j"], value="v", duplicates="mean")
    assert found == pytest.approx(means)
    assert schema().dtype == np.float64
    text = frame.with_columns(pl.col("i").cast(pl.String)).write_csv()
    found = ingest(text, coords=["i", "j"], value="v", duplicates="mean", text=["i"], dtype="float32")
    assert found == pytest.approx({(str(i), j): v for (i, j), v in means.items()})
    counts = {(row["i"], row["j"]): row["count"] for row in rows}
    assert ingest(frame, coords=["i", "j"], value="v", duplicates="count") == counts
    assert schema().dtype == np.int64
    with pytest.raises(InvalidValueError, match="a float dtype"):
        ingest(frame, coords=["i", "j"], value="v", duplicates="mean", dtype="int64")


def test_rows_with_nulls(ingest: Any) -> None:
    text = "i,v\n1,2\n,3\n4,\n5,6\nx,7\n"
    with pytest.raises(IngestError, match="is null: pass nulls='drop'") as caught:
        ingest(text[:18], coords=["i"], value="v")
    assert caught.value.line == 3
    assert ingest(text[:18] + "8,6\n", coords=["i"], value="v", nulls="drop") == {(1,): 2, (5,): 6, (8,): 6}
    with pytest.raises(IngestError, match="row 5: column 'i' is not an integer") as caught:
        ingest(pa.table({"i": ["1", None, "4", "5", "x"]}), coords=["i"], nulls="drop", ids={"i": "int"})
    assert caught.value.token == "x"


def test_ignored_value_column_is_noted(ingest: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with sp.config(progress=True):
        assert ingest("i,value\n1,5\n", coords=["i"]) == {(1,): 1}
        assert "the column 'value' was not read: pass value='value'" in capsys.readouterr().err
        assert ingest("i,value\n1,5\n", coords=["i"], value="value") == {(1,): 5}
        assert ingest("i,value\n1,5\n", coords=["i"], duplicates="count") == {(1,): 1}
        assert "was not read" not in capsys.readouterr().err


@pytest.mark.parametrize("delimiter", [",", "\t"])
def test_empty_field_is_null(ingest: Any, delimiter: str) -> None:
    text = "user,item,v\nann,x,1\n,x,2\nNA,null,3\nbob,,4\n".replace(",", delimiter)
    with pytest.raises(IngestError, match="row 2: column 'user' is null: pass nulls='drop'") as caught:
        ingest(text, coords=["user", "item"], value="v")
    assert caught.value.line == 3
    kept = {("ann", "x"): 1, ("NA", "null"): 3}
    assert ingest(text, coords=["user", "item"], value="v", nulls="drop") == kept
    if delimiter == ",":  # fields separated by tabs have no quotes
        assert ingest('user,v\n"",1\nann,2\n', coords=["user"], value="v") == {("",): 1, ("ann",): 2}
        text = 'user,v\n"",1\n,3\nann,2\n'
        assert ingest(text, coords=["user"], value="v", nulls="drop") == {("",): 1, ("ann",): 2}


def test_ids_of_another_kind(ingest: Any) -> None:
    table = pa.table({"i": [1, 2], "j": ["5", "7"]})
    assert ingest(table, coords=["i", "j"], ids={"i": "str", "j": "int"}) == {("1", 5): 1, ("2", 7): 1}
    assert ingest("i,j\n1,2\n3,3\n", coords=["i", "j"], index_base=1) == {(0, 1): 1, (2, 2): 1}
    with pytest.raises(IngestError, match="below 1: pass index_base=0") as caught:
        ingest("i\n1\n0\n", coords=["i"], index_base=1)
    assert caught.value.line == 3
    for bad in ({"k": "str"}, {"i": "float"}):
        with pytest.raises(InvalidValueError, match="ids must map columns of coords to 'str' or 'int'"):
            ingest(table, coords=["i"], ids=bad)


def test_labels_of(ingest: Any, tmp_path: Path, schema: Any) -> None:
    known = pa.table({"user": ["zoe", "ann"], "year": [2001, 1999], "item": [7, 3]})
    other = columns(known, tmp_path / "other.sparrow", coords=["user", "year", "item"], relabel=["year"])
    text = "u,y,item,v\nzoe,2001,6,2\nann,2001,0,3\n"
    how = {"coords": ["u", "y", "item"], "dims": ["user", "year", "item"], "value": "v", "labels_of": other}
    assert ingest(text, **how) == {("zoe", 2001, 6): 2, ("ann", 2001, 0): 3}
    assert schema().shape == (2, 2, 8)
    for bad, token in (("eve,2001,6,2", "eve"), ("ann,2000,6,2", "2000"), ("ann,1999,8,2", "8")):
        with pytest.raises(
            IngestError, match=r"not one of the labels of labels_of|out of range for the size 8"
        ) as caught:
            ingest(f"u,y,item,v\nann,1999,0,1\n{bad}\n", **how)
        assert (caught.value.line, caught.value.token) == (3, token)
    with pytest.raises(InvalidValueError, match="labels_of must have one of the dimensions"):
        ingest(text, coords=["u"], labels_of=other)


@pytest.mark.parametrize("block", [40, 1 << 22])
def test_json_lines(ingest: Any, block: int) -> None:
    with tune("io", block_bytes=block):
        lines = [{"user": "ann", "item": k, "stars": k / 2, "more": {"a": [k]}} for k in range(1, 9)]
        text = "\n".join(json.dumps(line) + "\n" * (k % 3 == 0) for k, line in enumerate(lines))
        want = {("ann", k): k / 2 for k in range(1, 9)}
        assert ingest(text, coords=["user", "item"], value="stars") == want
        assert ingest(text, coords=["item", "user"], ids={"item": "str"}) == {(str(k), "ann"): 1 for k in range(1, 9)}
        late = text + '\n{"user": "eve", "item": "x", "stars": 1}\n'
        assert ("eve", "x") in ingest(late, coords=["user", "item"])
        for bad, problem in [("{", r"not JSON; by lines [^|]* jq -c '\.' .*sparrow ingest FORMAT - DST"),
                             ("[", r"not JSON; by lines [^|]* jq -c '\.\[\]'"),
                             ("[1]", r"(?s)must be an object .*jq -c '\.\[\]'"),
                             ('{"item": {}}', "as in the lines above"),
                             ('{"user": "a"}', "is null")]:  # fmt: skip
            with pytest.raises(IngestError, match=problem) as caught:
                ingest(f"{text}\n{bad}\n", coords=["user", "item"])
            assert caught.value.line == text.count("\n") + 2


@pytest.mark.parametrize("block", [60, 1 << 22])
def test_nested_members_of_json_lines(ingest: Any, block: int) -> None:
    with tune("io", block_bytes=block):
        lines = [{"user": {"id": f"u{k}", "at": {"x": k}}, "a.b": k + 1, "stars": 1.5} for k in range(1, 6)]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        names: Any = {"coords": ["user.id", "user.at.x", "a.b"], "dims": ["user", "x", "b"], "value": "stars"}
        assert ingest(text, **names) == {(f"u{k}", k, k + 1): 1.5 for k in range(1, 6)}
        slow = text + json.dumps(lines[0] | {"user": {"id": 7, "at": {"x": 9}}}) + "\n"  # pyarrow refuses the number
        assert ("7", 9, 2) in ingest(slow, **names)
        with pytest.raises(IngestError, match=r"column 'user\.at\.x' is null"):
            ingest(text + '{"user": {"id": "u", "at": null}, "a.b": 1, "stars": 1}\n', **names)


def test_members_within_columns(ingest: Any, tmp_path: Path) -> None:
    lines = [{"user": {"id": f"u{k}", "at": {"x": k}}, "a.b": k + 1, "stars": 1.5} for k in range(1, 6)]
    table = pa.Table.from_pylist(lines)
    pq.write_table(table, tmp_path / "a.parquet")
    for name, written in (("a.arrow", pa.ipc.new_file), ("b.arrow", pa.ipc.new_stream)):
        with pa.OSFile(str(tmp_path / name), "wb") as file, written(file, table.schema) as writer:
            writer.write_table(table)
    names: Any = {"coords": ["user.id", "user.at.x", "a.b"], "dims": ["user", "x", "b"], "value": "stars"}
    for src in (table, *(tmp_path / name for name in ("a.parquet", "a.arrow", "b.arrow"))):
        assert ingest(src, **names) == {(f"u{k}", k, k + 1): 1.5 for k in range(1, 6)}
        with pytest.raises(IngestError, match=r"no column 'user\.at\.y': the columns are 'user', .*'user\.at\.x'"):
            ingest(src, coords=["user.at.y"])
    holes = pa.Table.from_pylist([*lines, {"user": None, "a.b": 1, "stars": 1.0}])
    with pytest.raises(IngestError, match=r"row 6: column 'user\.id' is null"):
        ingest(holes, **names)


@pytest.mark.parametrize("names", [["a", "a.b"], ["a.b", "a"]])
def test_nested_member_conflict(ingest: Any, names: list[str]) -> None:
    for line in ({"a": {"b": 1}}, {"a": 1}):
        with pytest.raises(IngestError, match=r"column 'a' cannot hold both a value and column 'a\.b'"):
            ingest(json.dumps(line) + "\n", coords=names, dims=["x", "y"], text=["a", "a.b"])
    assert ingest('{"a": 1, "a.b": 2}\n', coords=["a", "a.b"], dims=["x", "y"]) == {(1, 2): 1}


@pytest.mark.parametrize("line", ["5", "null", "[1]", '"u"'])
def test_json_line_must_be_object(tmp_path: Path, line: str) -> None:
    for number, lines in enumerate(([line, '{"u": 1}'], ['{"u": 1}', line]), 1):
        (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")
        with pytest.raises(IngestError, match="a line must be an object of names and values") as found:
            sp.ingest.columns(tmp_path / "a.jsonl", tmp_path / "A.sparrow", coords=["u"])
        assert found.value.line == number


def test_json_lines_not_utf8(ingest: Any, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes('{"u": "a"}\n{"u": "Käse"}\n'.encode("latin-1"))
    with pytest.raises(IngestError, match=r"(?s)not UTF-8; if it is Latin-1 .* iconv") as caught:
        sp.ingest.columns(tmp_path / "a.jsonl", tmp_path / "A.sparrow", coords=["u"])
    assert caught.value.line == 2
    assert ingest('\ufeff{"u": "a", "v": 3}\n', coords=["u"], value="v") == {("a",): 3}


def test_json_lines_lone_surrogate(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"u": "a", "v": 1}\n{"u": "\\ud800", "v": 2}\n')
    with pytest.raises(IngestError, match="not Unicode: it holds half a surrogate pair") as found:
        sp.ingest.columns(tmp_path / "a.jsonl", tmp_path / "A.sparrow", coords=["u"], value="v")
    assert found.value.line == 2


def test_json_lines_that_nest_deeply(ingest: Any) -> None:
    for depth in (300, 100_000):
        with pytest.raises(IngestError) as caught:
            ingest('{"i": 0}\n{"i": ' + "[" * depth + "]" * depth + "}\n", coords=["i"])
        assert caught.value.line == 2
        assert len(str(caught.value)) < 400
    beside = '{"x": ' + '{"y": [' * 150 + "]}" * 150 + ', "i": 7}\n{"x": "' + "[" * 300 + '", "i": 8}\n'
    assert ingest(beside, coords=["i"]) == {(7,): 1, (8,): 1}


def test_a_row_longer_than_a_block(ingest: Any) -> None:
    long = "x" * 10_000_000
    assert ingest(f"i,s\n1,{long}\n2,y\n", coords=["i", "s"]) == {(1, long): 1, (2, "y"): 1}


# -- damaged files ---------------------------------------------------------------------------------

# Reads damaged copies of a file, in the same process: a crash ends it.
FUZZ = """
import random, sys
from pathlib import Path
from sparrow.errors import IngestError
from sparrow.io.tabular.readers import ReadSpec, open_table

for path in map(Path, sys.argv[1:]):
    whole, bad = path.read_bytes(), path.with_suffix(".bad")
    form = "parquet" if path.name == "parquet" else "arrow"
    draw = random.Random(1)
    refused = 0
    for _ in range(400):
        data = bytearray(whole)
        how = draw.choice(["cut", "flip", "bytes", "ends"])
        if how == "cut":
            del data[draw.randrange(len(data)):]
        elif how == "flip":
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        elif how == "bytes":
            for _ in range(8):
                data[draw.randrange(len(data))] = draw.randrange(256)
        else:
            at = draw.choice([draw.randrange(1500), -draw.randrange(1, 1500)])
            data[at] = draw.choice([0, 1, 127, 128, 255])
        bad.write_bytes(data)
        try:
            for batch in open_table(bad, ReadSpec(["i", "s", "d", "v"], format=form)).batches(lambda n: None):
                for column in batch.data.columns:
                    column.to_pylist()
        except IngestError:
            refused += 1
    print(refused, flush=True)
"""


def test_damaged_tables_do_not_crash(tmp_path: Path) -> None:
    n = 600
    texts = [f"name{k % 37}" for k in range(n)]
    table = pa.table(
        {"i": range(n), "s": texts, "d": pa.array(texts).dictionary_encode(), "v": [k / 7 for k in range(n)]}
    )
    paths = [tmp_path / kind for kind in ("parquet", "file", "stream")]
    pq.write_table(table, paths[0], row_group_size=200)
    for path, new in zip(paths[1:], (pa.ipc.new_file, pa.ipc.new_stream), strict=True):
        with new(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=200)
    done = subprocess.run([sys.executable, "-c", FUZZ, *paths], capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout, done.stderr[-2000:])
    refused = list(map(int, done.stdout.split()))
    assert len(refused) == 3
    assert min(refused) > 100


def test_bad_arrow_offsets(tmp_path: Path) -> None:
    """Offsets must be validated, not only lengths."""
    offsets, data = pa.py_buffer(np.array([0, 2**20, 4], np.int32)), pa.py_buffer(b"abcd")
    array = pa.StringArray.from_buffers(2, offsets, data)
    with pytest.raises(IngestError, match="cannot be read after row 0"):
        columns(pa.RecordBatchReader.from_batches(pa.schema([("s", pa.string())]), [
            pa.RecordBatch.from_arrays([array], ["s"])]), tmp_path / "t.sparrow", coords=["s"])  # fmt: skip


def test_oversized_header_record(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("user,fi" + 140_000 * " " + "lm,stars\nada,7,1\n")
    with pytest.raises(IngestError, match=r"t\.csv.*must name the columns"):
        columns(tmp_path / "t.csv", tmp_path / "t", coords=["user"], value="stars")


# -- partition columns --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow", "json"])
def test_partition_columns(tmp_path: Path, kind: str) -> None:
    expected: dict[tuple[Any, ...], float] = {}
    for k, (year, month, city) in enumerate([(2025, "12", "S%C3%A3o Paulo"), (2026, "01", "Ulm"), (2026, "02", "Ulm")]):
        folder = tmp_path / f"year={year}" / f"month={month}" / f"city={city}"
        folder.mkdir(parents=True)
        frame = pl.DataFrame({"user": [k, 7], "stars": [k + 0.5, k + 1.5]})
        if kind == "csv":
            frame.write_csv(folder / "a.csv")
        elif kind == "parquet":
            frame.write_parquet(folder / "a.parquet")
        elif kind == "arrow":
            frame.write_ipc(folder / "a.arrow")
        else:
            frame.write_ndjson(folder / "a.json")
        name = "São Paulo" if "%" in city else city
        expected |= {(year, int(month), name, user): k + n + 0.5 for n, user in enumerate((k, 7))}
    found = columns(
        str(tmp_path / "year=*" / "**" / f"*.{kind}"), tmp_path / "t",
        coords=["year", "month", "city", "user"], value="stars",
    )  # fmt: skip
    assert cells(found) == expected
    assert read_stored(found).schema.shape == (2027, 13, 2, 8)


def test_partitions_of_dates_and_texts(tmp_path: Path) -> None:
    for day, zone in (("2026-11-21", "007"), ("2026-11-22", "12")):
        folder = tmp_path / f"day={day}" / f"zone={zone}"
        folder.mkdir(parents=True)
        (folder / "a.csv").write_text("user,zoned\n3,1\n")
    found = columns(
        str(tmp_path / "*" / "*" / "*.csv"), tmp_path / "t", coords=["day", "zone", "user"], ids={"zone": "str"},
    )  # fmt: skip
    relation = read_stored(found)
    assert relation.labels(1).to_pylist() == ["007", "12"]
    assert relation.labels(0).cast(pa.string()).to_pylist() == ["2026-11-21", "2026-11-22"]
    assert relation.schema.shape == (2, 2, 4)


def test_folders_without_partitions(tmp_path: Path) -> None:
    for name in ("year=2026", f"year={'__HIVE_DEFAULT_PARTITION__'}", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.csv").write_text("user,stars\n3,4.5\n")
    files = [tmp_path / "year=2026" / "a.csv", tmp_path / "year=__HIVE_DEFAULT_PARTITION__" / "a.csv"]
    with pytest.raises(IngestError, match=r"row 1: column 'year' is null"):
        columns(files, tmp_path / "t", coords=["year", "user"], value="stars")
    found = columns(files, tmp_path / "t", coords=["year", "user"], value="stars", nulls="drop")
    assert cells(found) == {(2026, 3): 4.5}
    with pytest.raises(IngestError, match="no column 'year'"):
        columns([files[0], tmp_path / "other" / "a.csv"], tmp_path / "u", coords=["year", "user"], value="stars")
    with pytest.raises(IngestError, match="all columns are in the names of folders"):
        columns(files[0], tmp_path / "u", coords=["year"])


# -- columns of values -------------------------------------------------------------------


@settings(max_examples=20)
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from(["ann", "bob", "eve"]),
            st.integers(0, 9),
            st.one_of(st.none(), st.integers(1, 9)),
            st.one_of(st.none(), st.floats(1, 2)),
        ),
        max_size=12,
    ),
    relabel=st.booleans(),
    rule=st.sampled_from(["sum", "last", "max", "mean"]),
)
def test_several_values_are_a_bundle(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], relabel: bool, rule: str
) -> None:
    path = tmp_path_factory.mktemp("several")
    names = ["user", "item", "stars", "price"]
    kinds = [pa.string(), pa.int64(), pa.int16(), pa.float64()]
    table = pa.table([pa.array([row[k] for row in rows], kind) for k, kind in enumerate(kinds)], names=names)
    options: dict[str, Any] = {"coords": ["user", "item"], "duplicates": rule, "nulls": "drop"}
    options["relabel"] = ["item"] if relabel else False
    found = Path(columns(table, path / "both", value=["stars", "price"], **options))
    members = storage.open_bundle(found)
    assert list(members) == ["stars", "price"]
    for name, member in members.items():
        alone = columns(table.drop_columns([n for n in names[2:] if n != name]), path / name, value=name, **options)
        assert cells(member) == cells(alone)
        assert read_stored(member).schema.dtype == read_stored(alone).schema.dtype
        labels = read_stored(member).labels(0)
        assert ([] if labels is None else labels.to_pylist()) == sorted({row[0] for row in rows})
        assert read_stored(member).schema.shape == read_stored(members["stars"]).schema.shape
        assert storage.open(member).verify() == []


def test_value_columns_of_csv(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("user,item,stars,price\nann,3,4,1.5\nbob,1,,2.5\nann,1,5,0.5\n")
    with pytest.raises(IngestError, match=r"row 2: column 'stars' is null"):
        columns(tmp_path / "a.csv", tmp_path / "t", coords=["user", "item"], value=["price", "stars"])
    assert not (tmp_path / "t").exists()
    bundle = sp.ingest.columns(
        tmp_path / "a.csv", tmp_path / "t", coords=["user", "item"], value=["price", "stars"], nulls="drop"
    )
    assert cells(bundle["price"].path) == {("ann", 3): 1.5, ("bob", 1): 2.5, ("ann", 1): 0.5}
    assert cells(bundle["stars"].path) == {("ann", 3): 4, ("ann", 1): 5}
    assert bundle["stars"].labels("user").to_pylist() == bundle["price"].labels("user").to_pylist() == ["ann", "bob"]
    reader = pa.table({"i": [0, 1], "a": [1, 2], "b": [3.0, 4.0]}).to_reader()  # a stream is read once
    bundle = sp.ingest.columns(reader, tmp_path / "s", coords=["i"], value=["a", "b"], fill_value=3)
    assert (bundle["a"].to_numpy().tolist(), bundle["b"].to_numpy().tolist(), bundle["b"].nnz) == ([1, 2], [3, 4], 1)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"value": []}, "at least one"),
        ({"value": ["a", "A"]}, "distinct columns"),
        ({"value": ["a", "_b"]}, "cannot name a tensor"),
        ({"value": ["a", "b"], "duplicates": "count"}, "ignores values"),
        ({"value": ["a", "b"], "duplicates": "mean", "dtype": "int64"}, "a float dtype"),
    ],
)
def test_bad_value_columns(tmp_path: Path, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidValueError, match=problem):
        columns(pa.table({"i": [0]}), tmp_path / "t", coords=["i"], **options)


def test_repeated_header_is_an_error(tmp_path: Path) -> None:
    whole = tmp_path / "both.csv"
    options: dict[str, Any] = {"coords": ["user", "film"]}
    whole.write_text("user,film,stars\n1,7,4\nuser,film,stars\n2,8,3\n")
    with pytest.raises(
        IngestError,
        match=r"both.csv, line 3: .*column 'stars' holds string.*header line is repeated.*\(at 'stars'\)",
    ):
        sp.ingest.columns(whole, tmp_path / "a.sparrow", value="stars", **options)
    for text in ("user,film\nann,7\nuser,film\nbob,8\n", "user,film\n1,7\nuser,film\n2,8\n"):
        whole.write_text(text)
        with pytest.raises(IngestError, match=r"both.csv, line 3: .*the header line is repeated"):
            sp.ingest.columns(whole, tmp_path / "a.sparrow", **options)
    whole.write_text("user,film\nann,film\nuser,7\n")  # names that are labels
    assert sp.ingest.columns(whole, tmp_path / "a.sparrow", **options).nnz == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"user,film\nann,1\n\xe9,2\n", r"line 3: .*'user' is not UTF-8: pass encoding='latin-1'.*xe9"),
        (b"user;film\n1;2\n", r"no column 'user'.*; pass delimiter=';'"),
        (b'[{"user": 1, "film": 2}]\n', r"not an object in each line: jq -c '\.\[\]'"),
    ],
)
def test_errors_suggest_options(tmp_path: Path, text: bytes, problem: str) -> None:
    (tmp_path / "a.csv").write_bytes(text)
    with pytest.raises(IngestError, match=problem):
        sp.ingest.columns(tmp_path / "a.csv", tmp_path / "a.sparrow", coords=["user", "film"])


# -- ids beyond coordinates -------------------------------------------------------------------


HASHES = [-(2**63), -5, 0, 7, 2**62, 2**63 - 1]


@pytest.mark.parametrize("kind", ["csv", "parquet", "frame", "lazy", "relation"])
def test_relabel_negative_ids_and_hashes(kind: str, tmp_path: Path) -> None:
    frame = pl.DataFrame({"id": HASHES[::-1], "v": range(1, 7), "k": [3, -1, 3, 4, 5, 4]})
    if kind == "csv":
        frame.write_csv(tmp_path / "t.csv")
    elif kind == "parquet":
        frame.write_parquet(tmp_path / "t.parquet")
    src: Any = {"csv": tmp_path / "t.csv", "parquet": tmp_path / "t.parquet", "frame": frame, "lazy": frame.lazy(),
                "relation": duckdb.sql("select * from frame")}[kind]  # fmt: skip
    a = sp.ingest.columns(src, tmp_path / "t", coords=["id", "k"], value="v", relabel=True)
    ids, others = a.labels("id"), a.labels("k")
    assert ids is not None
    assert others is not None
    assert (ids.type, ids.to_pylist()) == (pa.int64(), HASHES)
    assert others.to_pylist() == [-1, 3, 4, 5]
    assert {(i, k): v for i, k, v in a.to_polars(labels=True).rows()} == {(i, k): v for i, v, k in frame.rows()}
    assert a.sel(id=-(2**63), k=4) == 6


@tune("io", block_bytes=64)
@pytest.mark.parametrize("late", [False, True])
def test_hashes_beyond_int64(late: bool, tmp_path: Path) -> None:
    hashes = [2**64 - 1, 12345678901234567890, 5, 2**53 + 1]
    rows = [*range(10, 60 if late else 12), *hashes]
    (tmp_path / "t.csv").write_text("id,v\n" + "".join(f"{k},{n + 1}\n" for n, k in enumerate(rows)))
    pl.DataFrame({"id": pl.Series(rows, dtype=pl.UInt64), "v": range(1, len(rows) + 1)}).write_parquet(
        tmp_path / "t.parquet"
    )
    for file in ("t.csv", "t.parquet"):
        a = sp.ingest.columns(tmp_path / file, tmp_path / "t", coords=["id"], value="v", relabel=True, overwrite=True)
        found = a.labels("id")
        assert found is not None
        assert (found.type, found.to_pylist()) == (pa.uint64(), sorted(rows))
        assert a.sel(id=2**64 - 1) == rows.index(2**64 - 1) + 1
        assert a.sel(id=[2**53 + 1, 5]).to_numpy().tolist() == [len(rows), len(rows) - 1]
        assert a.verify() == []


def test_negative_ids_of_streams_are_errors(ingest: Any, tmp_path: Path) -> None:
    assert ingest("id\n-5\nx\n", coords=["id"], relabel=True) == {("-5",): 1, ("x",): 1}  # not all are integers
    with pytest.raises(
        IngestError, match="column 'id' is negative: coordinates start at 0; pass relabel=True to number"
    ) as caught:
        ingest("id\n3\n-5\n", coords=["id"])
    assert (caught.value.line, caught.value.token) == (3, "-5")
    batch = pa.record_batch({"id": [1, -3]})
    stream = pa.RecordBatchReader.from_batches(batch.schema, iter([batch]))
    with pytest.raises(IngestError, match=r"row 2: column 'id' is negative or beyond .* pass a file or a table"):
        ingest(stream, coords=["id"], relabel=True)


def test_partitioned_folder(tmp_path: Path) -> None:
    for month, users in ((1, ["ann", "bob"]), (2, ["ann"])):
        folder = tmp_path / "log" / "year=2026" / f"month={month}"
        folder.mkdir(parents=True)
        pl.DataFrame({"user": users}).write_parquet(folder / "data.parquet")
    (tmp_path / "log" / "year=2026" / "_SUCCESS").touch()
    a = sp.ingest.columns(tmp_path / "log", tmp_path / "t", coords=["month", "user"])
    assert a.to_polars(labels=True).rows() == [(1, "ann", 1), (1, "bob", 1), (2, "ann", 1)]
    with pytest.raises(IngestError, match=r"this is a folder: pass its files, such as '.*/month=1/\*\.parquet'"):
        sp.ingest.columns(tmp_path / "log" / "year=2026" / "month=1", tmp_path / "u", coords=["user"])


def test_labels_of_columns_share_memory_limit() -> None:
    texts = pa.array([f"user {k}" for k in range(1000)])
    with sp.config(memory_limit=10**6):
        before = memory.available()
        names = LabelEncoder()
        names.codes(texts)
        assert memory.available() == before - names._interner.nbytes
        with pytest.raises(TooLargeError, match=r"distinct labels would take .* reserved by concurrent operations"):
            LabelEncoder().codes(pa.array([f"{k:0500d}" for k in range(1000)]))
        labels, rank = names.finish()
        assert memory.available() == before - labels.nbytes - rank.nbytes
        del names
        assert memory.available() == before


@pytest.mark.parametrize("odd", ["03", "x", "1_0", "3\x1c", "\x1f3", "\u0663", "0" * 5000 + "3"])
@pytest.mark.parametrize("size", [1, 30])
def test_odd_id_among_integers_is_noted(tmp_path: Path, capfd: Any, odd: str, size: int) -> None:
    text = "u,i\n" + "".join(f"{k},1\n" for k in range(1, size + 1)) + f"{odd},7\n"
    (tmp_path / "a.csv").write_text(text)
    made = sp.ingest.columns(tmp_path / "a.csv", tmp_path / "a", coords=["u", "i"])
    assert odd in made.labels("u").to_pylist()
    told = capfd.readouterr().err
    assert (
        f"a.csv, line {size + 2}: {odd[:80]!r} in column 'u' is not written as an integer, unlike most others" in told
    )
    assert ("pass ids={'u': 'int'} to read it as 3" in told) == (odd == "03")
    for options in ({"text": ["u"]}, {"ids": {"u": "str"}}):
        sp.ingest.columns(tmp_path / "a.csv", tmp_path / "b", coords=["u", "i"], overwrite=True, **options)
        assert "is not written" not in capfd.readouterr().err
    if odd == "03":
        ids = sp.ingest.columns(tmp_path / "a.csv", tmp_path / "c", coords=["u", "i"], ids={"u": "int"})
        assert ids.labels("u") is None
