"""Columns that are missing, repeated, or ids that may be names or numbers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparrow as sp
from sparrow.errors import IngestError


@pytest.mark.parametrize("nulls", ["error", "drop"])
@pytest.mark.parametrize("coords", [["u", "item"], ["u", "w.item"]])
def test_misspelt_json_column_is_refused(tmp_path: Any, nulls: Any, coords: Any) -> None:
    (tmp_path / "in.jsonl").write_text('{"u": 0, "w": {"i": 2}, "v": 3}\n{"u": 1, "w": {}, "v": 4}\n')
    with pytest.raises(IngestError, match=f"there is no column '{coords[1]}': the columns are 'u', 'w', 'v'"):
        sp.ingest.columns(tmp_path / "in.jsonl", tmp_path / "out", coords=coords, value="v", nulls=nulls)
    assert not (tmp_path / "out").exists()


def test_json_column_may_be_missing_in_lines(tmp_path: Any) -> None:
    (tmp_path / "in.jsonl").write_text('{"u": 0, "v": 3}\n{"u": 1, "i": 1, "v": 4}\n')
    A = sp.ingest.columns(tmp_path / "in.jsonl", tmp_path / "out", coords=["u", "i"], value="v", nulls="drop")
    assert A.nnz == 1


def test_repeated_parquet_columns_are_named_by_number(tmp_path: Any) -> None:
    table = pa.Table.from_arrays([pa.array([0, 1]), pa.array([1, 0]), pa.array([1.5, 2.5])], names=["u", "u", "v"])
    pq.write_table(table, tmp_path / "in.parquet")
    with pytest.raises(IngestError) as caught:
        sp.ingest(tmp_path / "in.parquet", tmp_path / "out")
    assert "coords=[0, 1]" in str(caught.value) or "coords=['0', '1']" in str(caught.value)
    A = sp.ingest.columns(tmp_path / "in.parquet", tmp_path / "out", coords=[0, 1], value="v")
    assert A.to_numpy().tolist() == [[0, 1.5], [2.5, 0]]


@pytest.mark.parametrize("odd", ["03", "x"])
def test_triples_of_odd_ids_are_names_with_a_note(tmp_path: Any, capsys: Any, odd: Any) -> None:
    (tmp_path / "in.txt").write_text(f"{odd} 1 2\n3 1 2\n")
    A = sp.ingest.triples(tmp_path / "in.txt", tmp_path / "out")
    assert A.nnz == 2
    assert A.labels("head").to_pylist() == sorted([odd, "2", "3"])
    assert "pass ids='int' if they are numbers" in capsys.readouterr().err


def test_triples_with_zeros_as_numbers(tmp_path: Any) -> None:
    (tmp_path / "in.txt").write_text("03 1 2\n3 1 0\n")
    A = sp.ingest.triples(tmp_path / "in.txt", tmp_path / "out", ids="int")
    assert A.shape == (4, 2, 4)


def test_dates_as_weights_have_a_way_out(tmp_path: Any) -> None:
    (tmp_path / "in.txt").write_text("1 2 2020-01-01\n2 3 2020-01-02\n")
    with pytest.raises(IngestError, match="must be a number, not a date") as caught:
        sp.ingest.edges(tmp_path / "in.txt", tmp_path / "out")
    assert "print $1, $2}" in caught.value.commands[0]


def test_complex_text_names_the_two_columns(tmp_path: Any) -> None:
    (tmp_path / "in.csv").write_text("u,i,v\n0,1,1+2j\n1,0,2\n")
    with pytest.raises(IngestError, match="two columns, 'value' and 'value_im'"):
        sp.ingest.columns(tmp_path / "in.csv", tmp_path / "out", coords=["u", "i"], value="v", dtype="complex128")
    (tmp_path / "in.csv").write_text("u,i,value,value_im\n0,1,1,2\n1,0,2,0\n")
    A = sp.ingest.columns(tmp_path / "in.csv", tmp_path / "out", coords=["u", "i"], value="value")
    assert A[0, 1] == 1 + 2j
