"""Numeric columns that are not read are named, where every value is 1."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparrow as sp
from sparrow.errors import InvalidValueError
from sparrow.testing import tune

STARS = pa.table({"user": ["ann", "bob"], "film": ["x", "y"], "text": ["a", "b"], "stars": [3, 5]})
TIMES = STARS.append_column("time", pa.array([1.5, 2.5])).append_column("seen", pa.array([True, False]))
COORDS = ["user", "film"]

FRAMES: dict[str, Callable[[pa.Table], Any]] = {
    "arrow": lambda table: table,
    "pandas": lambda table: table.to_pandas(),
    "polars": pl.from_arrow,
    "lazy": lambda table: pl.DataFrame(table).lazy(),
    "duckdb": duckdb.from_arrow,
}
FILES: dict[str, Callable[[pa.Table, Path], Any]] = {
    "csv": lambda table, path: table.to_pandas().to_csv(path, index=False),
    "jsonl": lambda table, path: table.to_pandas().to_json(path, orient="records", lines=True),
    "parquet": pq.write_table,
    "arrow": lambda table, path: pl.DataFrame(table).write_ipc(path),
}
ONE = "every value is 1, the column 'stars' was not read: pass value='stars' to read it"
SEVERAL = "every value is 1, the columns 'stars', 'time', 'seen' were not read: pass value='stars'"


@pytest.fixture(autouse=True)
def notes() -> Any:
    with sp.config(progress=None):
        yield


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("read", ["from_relation", "ingest"])
def test_unread_columns_of_frames(tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, read: str) -> None:
    def make(table: pa.Table, **options: Any) -> Any:
        if read == "ingest":
            return sp.ingest.columns(FRAMES[kind](table), tmp_path / "A.sparrow", overwrite=True, **options)
        return sp.from_relation(FRAMES[kind](table), **options)

    assert make(STARS, coords=COORDS).sum() == 2
    assert capsys.readouterr().err.count(ONE) == 1
    assert make(TIMES, coords=COORDS).sum() == 2
    assert capsys.readouterr().err.count(SEVERAL) == 1
    assert make(STARS, coords=COORDS, value="stars").sum() == 8
    assert make(TIMES.select(["user", "film", "text"]), coords=COORDS).sum() == 2
    assert "not read" not in capsys.readouterr().err


@pytest.mark.parametrize("kind", FILES)
def test_unread_columns_of_files(tmp_path: Path, capsys: pytest.CaptureFixture[str], cli: Any, kind: str) -> None:
    path = tmp_path / f"t.{kind}"
    FILES[kind](TIMES, path)
    options: dict[str, Any] = {"coords": COORDS, "overwrite": True}
    assert sp.ingest.columns(path, tmp_path / "A.sparrow", **options).sum() == 2
    assert capsys.readouterr().err.count(f"{path}: {SEVERAL}") == 1
    assert sp.ingest(path, tmp_path / "A.sparrow", **options).sum() == 2
    assert capsys.readouterr().err.count(SEVERAL) == 1
    assert sp.ingest.columns(path, tmp_path / "A.sparrow", **options, value="time").sum() == 4
    assert sp.ingest.columns(path, tmp_path / "A.sparrow", **options, duplicates="count").sum() == 2
    assert "not read" not in capsys.readouterr().err
    err = cli("ingest", "columns", path, tmp_path / "B.sparrow", "--coords", "user,film").err
    assert "'time', 'seen' were not read: pass --value stars, or another" in err


def test_unread_columns_by_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for kind in ("csv", "parquet"):
        FILES[kind](STARS, path := tmp_path / f"t.{kind}")
        A = sp.ingest.columns(path, tmp_path / f"{kind}.sparrow", coords=[0, 1])
        assert (A.dims, A.sum()) == (("user", "film"), 2)
        assert capsys.readouterr().err.count(ONE) == 1


def test_asarray_takes_the_only_numeric_column(capsys: pytest.CaptureFixture[str]) -> None:
    assert sp.asarray(STARS, coords=COORDS).sum() == 8
    assert "not read" not in capsys.readouterr().err
    assert sp.asarray(TIMES, coords=COORDS).sum() == 2
    assert capsys.readouterr().err.count(SEVERAL) == 1


def test_column_named_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = TIMES.rename_columns(["user", "film", "text", "value", "time", "seen"])
    assert sp.asarray(table, coords=COORDS).sum() == 8
    assert sp.from_relation(table, coords=COORDS).sum() == 8
    assert "not read" not in capsys.readouterr().err
    assert sp.ingest.columns(table, tmp_path / "A.sparrow", coords=COORDS).sum() == 2
    assert "'value', 'time', 'seen' were not read: pass value='value'" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["lazy", "duckdb"])
def test_column_named_value_of_long_relations(kind: str) -> None:
    count = 400_000
    table = pa.table({"i": pa.array(range(count)), "value": pa.array([2] * count)})
    with sp.config(memory_limit="700MB"), tune("interop", table_copies=400):
        assert sp.from_relation(FRAMES[kind](table), coords=["i"]).sum() == 2 * count


@pytest.mark.parametrize("coords", [b"user", {"user": 1}, 3])
def test_coords_must_be_a_list(tmp_path: Path, coords: Any) -> None:
    reads = (
        lambda: sp.from_relation(STARS, coords=coords),
        lambda: sp.asarray(STARS, coords=coords),
        lambda: sp.ingest.columns(STARS, tmp_path / "A.sparrow", coords=coords),
        lambda: sp.from_coords([[0]], [1], dims=["user"]).append(tmp_path / "t.csv", coords=coords),
    )
    (tmp_path / "t.csv").write_text("user,value\n1,2\n")
    for read in reads:
        with pytest.raises(InvalidValueError, match=r"coords must be .*, got"):
            read()


def test_one_name_is_a_list_of_one(tmp_path: Path) -> None:
    table = pa.table({"user": [3, 1], "value": [1.5, 2.0]})
    read = [
        sp.from_relation(table, coords="user"),
        sp.asarray(table, coords="user"),
        sp.ingest.columns(table, tmp_path / "A.sparrow", coords="user", value="value"),
    ]
    appended = sp.from_coords([[0]], [1.0], (4,), dims=["user"])
    (tmp_path / "t.csv").write_text("u,value\n3,1.5\n1,2\n")
    appended.append(tmp_path / "t.csv", coords="u")
    for A in read:
        assert A.dims == ("user",)
        assert A.to_numpy().tolist() == [0, 2, 0, 1.5]
    assert appended.to_numpy().tolist() == [1, 2, 0, 1.5]
