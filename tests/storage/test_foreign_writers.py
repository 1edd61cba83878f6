"""Commits of other Delta tools: refused with a way out that works, never skipped."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, WriterProperties, write_deltalake

import sparrow as sp
from sparrow import errors, storage

DENSE = np.array([[1.0, 0, 2], [0, 3, 0], [4, 0, 5]])


def append_row(row: int, col: int) -> Callable[[str], Any]:
    table = pa.table({"d0": pa.array([row], pa.int32()), "d1": pa.array([col], pa.int32()), "value": [9.0]})
    return lambda path: write_deltalake(path, table, mode="append")


WRITES: dict[str, Callable[[str], Any]] = {
    "inside": append_row(1, 2),
    "stored element": append_row(0, 0),
    "row past the end": append_row(99, 0),
    "column past the end": append_row(0, 3),
    "negative": append_row(-1, 0),
    "delete": lambda path: DeltaTable(path).delete("d0 = 1"),
    "update": lambda path: DeltaTable(path).update(predicate="d0 = 0", updates={"value": "7.0"}),
    "z-order": lambda path: DeltaTable(path).optimize.z_order(["d1"]),
}
READS: dict[str, Callable[[Any], Any]] = {
    "nnz": lambda A: A.nnz,
    "nnz of a transpose": lambda A: A.T.nnz,
    "count": lambda A: A.count(),
    "density": lambda A: A.density,
    "np.count_nonzero": np.count_nonzero,
    "to_numpy": lambda A: A.to_numpy(),
    "sum": lambda A: A.sum(),
    "row": lambda A: A[:2].to_numpy(),
    "sql": lambda A: sp.sql("select count(*) from A", A=A).fetchall(),
    "duckdb": lambda A: (A * 2).compute(engine="duckdb"),
    "product": lambda A: A @ np.ones(3),
    "batches": lambda A: list(A.to_batches()),
    "explain": lambda A: str(A.explain()),
    "files": lambda A: A.files(),
    "compact": lambda A: A.compact(),
    "add_order": lambda A: A.add_order((1, 0)),
    "append": lambda A: A.append(sp.from_coords([[1], [1]], [1.0], shape=(3, 3)), duplicates="last"),
    "write": lambda A: A.__setitem__((0, 0), 1),
}


@pytest.fixture
def path(tmp_path: Path) -> str:
    A = sp.asarray(DENSE).save(tmp_path / "t")
    A[2, 2] = 6
    return str(tmp_path / "t")


def run_way(text: str, new: Path) -> Any:
    """Run a suggested call."""
    return eval(text, {"sp": sp, "NEW": new})


@pytest.mark.parametrize("write", WRITES)
def test_foreign_commit_is_refused_with_ways_out(path: str, tmp_path: Path, write: str) -> None:
    WRITES[write](path)
    A = sp.open(path)
    ways: set[str] = set()
    for read in READS.values():
        with pytest.raises(errors.CorruptionError, match="sparrow did not write the file") as caught:
            read(A)
        ways |= set(re.findall(r"sp\.open\(.*?\)\.(?:restore|save)\(\w+\)", str(caught.value)))
    assert any("another tool added the file" in finding.problem for finding in A.verify())
    stored = pa.table(DeltaTable(path).to_pyarrow_table())
    assert len(ways) == (1 if write == "negative" else 2)
    restore, *save = sorted(ways)
    if save:
        taken = run_way(save[0], tmp_path / "new").to_arrow()["value"].to_pylist()
        before = [1.0] if write == "stored element" else []  # the newest row replaces it
        assert sorted([*taken, *before]) == sorted(stored["value"].to_pylist())
    run_way(restore, tmp_path / "new")
    np.testing.assert_array_equal(sp.open(path).to_numpy(), [[1, 0, 2], [0, 3, 0], [4, 0, 6]])
    assert sp.open(path).verify() == []


@pytest.mark.parametrize("write", WRITES)
def test_facts_are_shown_without_a_count(path: str, write: str) -> None:
    WRITES[write](path)
    A = sp.open(path)
    for text in (repr(A), repr(A.T)):
        assert "float64 nnz=? coo" in text
        assert "values are not shown" in text
    assert "? of 9 elements" in A._repr_html_()
    assert (A.shape, len(A)) == ((3, 3), 3)


def test_newest_rows_are_last(path: str, tmp_path: Path) -> None:
    for value in (7.0, 8.0, 6.0):
        write_deltalake(path, pa.table({"d0": pa.array([0], pa.int32()), "d1": [0], "value": [value]}), mode="append")
    DeltaTable(path).create_checkpoint()
    rules: tuple[tuple[Literal["last", "first", "max"], int], ...] = (("last", 6), ("first", 1), ("max", 8))
    for rule, expected in rules:
        assert sp.open(path, coords=["d0", "d1"], value="value", duplicates=rule)[0, 0] == expected
        new = sp.ingest.columns(path, tmp_path / rule, coords=["d0", "d1"], value="value", duplicates=rule)
        assert new[0, 0] == expected
    with storage.delta_table(path) as frame:  # statistics are those of the files
        assert frame.filter(pl.col("value") == 6).collect()["d0"].to_list() == [2, 0]


def test_rows_of_one_write_are_in_order(tmp_path: Path) -> None:
    found = str(tmp_path / "found")
    small = WriterProperties(max_row_group_size=1000, write_batch_size=1000)
    for first in (0, 20_000):
        values = np.arange(first, first + 20_000)
        table = pa.table({"row": values % 7, "value": values})
        write_deltalake(found, table, mode="append", target_file_size=5000, writer_properties=small)
    assert len(DeltaTable(found).file_uris()) > 4
    with storage.delta_table(found) as frame:
        assert frame.collect()["value"].to_list() == list(range(40_000))
    last = sp.open(found, coords="row", value="value", duplicates="last").to_numpy()
    assert sorted(last.tolist()) == list(range(39_993, 40_000))


def test_suggestion_names_the_last_own_version(path: str) -> None:
    append_row(1, 2)(path)
    sp.open(path).restore(0)
    append_row(2, 1)(path)
    append_row(2, 2)(path)
    with pytest.raises(errors.CorruptionError, match=r"restore\(3\)"):
        sp.open(path).sum()


def test_untouched_part_is_read(path: str) -> None:
    append_row(1, 2)(path)
    assert sp.open(path)[0, 2] == 2
    with pytest.raises(errors.CorruptionError):
        sp.open(path)[1, 2]


@pytest.mark.parametrize("dtype", ["uint64", "complex128"])
def test_only_restore_where_rows_would_be_misread(tmp_path: Path, dtype: str) -> None:
    A = sp.from_coords([[0, 1]], np.array([1, 2], dtype), labels={"d": ["a", "b"]}, dims=("d",)).save(tmp_path / "t")
    columns = {field.name: [1] for field in DeltaTable(tmp_path / "t").schema().fields}
    write_deltalake(
        tmp_path / "t", pa.table(columns).cast(pa.schema(DeltaTable(tmp_path / "t").schema())), mode="append"
    )
    A.refresh()
    with pytest.raises(errors.CorruptionError, match=r"restore\(0\)") as caught:
        A.sum()
    assert "coords=" not in str(caught.value)


def test_files_without_statistics(path: str) -> None:
    append_row(1, 2)(path)
    entry = Path(path, "_delta_log", f"{2:020d}.json")
    lines = [json.loads(line) for line in entry.read_text().splitlines()]
    for line in lines:
        line.get("add", {}).pop("stats", None)
    entry.write_text("\n".join(map(json.dumps, lines)))
    A = sp.open(path)
    with pytest.raises(errors.CorruptionError, match=r"restore\(1\)"):
        A.sum()
    assert any("without statistics" in finding.problem for finding in A.verify())
    A.restore(1)
    assert A.sum() == 16


def edit_entry(path: str, *actions: dict[str, Any]) -> None:
    """Write the next version as another tool would."""
    info = {"commitInfo": {"timestamp": 1, "operation": "SET"}}
    Path(path, "_delta_log", f"{2:020d}.json").write_text("\n".join(map(json.dumps, [info, *actions])))


@pytest.mark.parametrize(
    "protocol",
    [
        {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["fancy"], "writerFeatures": ["fancy"]},
        {"minReaderVersion": 9, "minWriterVersion": 9},
    ],
)
def test_unknown_reader_features_are_unsupported(path: str, protocol: dict[str, Any]) -> None:
    edit_entry(path, {"protocol": protocol})
    for read in (sp.open, lambda where: sp.open(where, coords=["d0", "d1"], value="value")):
        with pytest.raises(errors.UnsupportedError, match="does not support"):
            read(path)
    assert sp.open(path, version=1).sum() == 16


def test_column_mapping_is_unsupported_by_polars(tmp_path: Path) -> None:
    import polars as pl

    table = pa.table({"i": [0, 1], "j": [1, 0], "value": [2.0, 3.0]})
    write_deltalake(tmp_path / "t", table)
    entry = tmp_path / "t" / "_delta_log" / f"{0:020d}.json"
    lines = [json.loads(line) for line in entry.read_text().splitlines()]
    for line in lines:
        if "protocol" in line:
            features = {"readerFeatures": ["columnMapping"], "writerFeatures": ["columnMapping"]}
            line["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
        if "metaData" in line:
            line["metaData"]["configuration"] = {
                "delta.columnMapping.mode": "name",
                "delta.columnMapping.maxColumnId": "3",
            }
            schema = json.loads(line["metaData"]["schemaString"])
            for at, field in enumerate(schema["fields"], 1):
                field["metadata"] = {"delta.columnMapping.id": at, "delta.columnMapping.physicalName": field["name"]}
            line["metaData"]["schemaString"] = json.dumps(schema)
    entry.write_text("\n".join(map(json.dumps, lines)))
    try:
        expected = pl.scan_delta(str(tmp_path / "t")).collect()
    except Exception:  # noqa: BLE001 - whatever Polars raises must not come through
        with pytest.raises(errors.UnsupportedError, match="cannot be read"):
            sp.open(tmp_path / "t", coords=["i", "j"], value="value")
    else:
        assert sp.open(tmp_path / "t", coords=["i", "j"], value="value").nnz == len(expected)


def test_append_only_tables_name_the_property(path: str) -> None:
    DeltaTable(path).alter.set_table_properties({"delta.appendOnly": "true"})
    a = sp.open(path)
    before = a.to_numpy()
    with pytest.raises(errors.UnsupportedError, match=r"delta\.appendOnly=true, .*set_table_properties"):
        a[0, 0] = 99
    np.testing.assert_array_equal(sp.open(path).to_numpy(), before)
    DeltaTable(path).alter.set_table_properties({"delta.appendOnly": "false"})
    a = sp.open(path)
    a[0, 0] = 99
    assert sp.open(path)[0, 0] == 99
