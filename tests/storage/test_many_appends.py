"""Cost of many small appends, labels included."""

from __future__ import annotations

import json
import math
import os
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import sparrow as sp
import sparrow.testing
from sparrow import errors, storage
from sparrow.core.schema import Schema
from sparrow.relations.edits import Edit
from sparrow.testing import tune
from tests.storage.helpers import entries

LABELS = 20_000


def days(first: int, count: int, items: int = 20) -> pl.DataFrame:
    """Return a table of some days, which come after all before them, and of items."""
    day, item = np.divmod(np.arange(count * items), items)
    return pl.DataFrame({"day": [f"d{first + k:07}" for k in day], "item": item, "value": np.ones(len(day))})


def make_tensor(path: Path, count: int = LABELS) -> sp.Tensor:
    """Return a tensor of many labelled days."""
    day = np.arange(10 * count) // 10
    names = [f"d{k:07}" for k in range(count)]
    coords = [day, np.arange(10 * count) % 10]
    return sp.from_coords(coords, np.ones(10 * count), (count, 20), ["day", "item"], labels={"day": names}).save(path)


def sizes(folder: Path) -> dict[str, int]:
    """Return the bytes of data and labels by file."""
    found = [*folder.glob("*.parquet"), *(folder / "_labels").iterdir()]
    return {str(path.relative_to(folder)): path.stat().st_size for path in found}


def label_parts(a: sp.Tensor) -> list[int]:
    """Return the number of labels in each file of the leading dimension."""
    found = storage.open(str(a.path)).current.vocabulary(0)
    assert found is not None
    return [count for _, count in found.parts]


def test_append_writes_new_data_only(tmp_path: Path) -> None:
    a = make_tensor(tmp_path / "a")
    before = sizes(tmp_path / "a")
    whole = max(size for name, size in before.items() if "_labels" in name)
    rounds, bytes_of = 24, list[int]()
    with sparrow.testing.observe("storage.read_labels") as read:
        for k in range(rounds):
            a.append(days(LABELS + 5 * k, 5))
            after = sizes(tmp_path / "a")
            bytes_of.append(sum(size for name, size in after.items() if name not in before))
            before = after
    assert max(bytes_of) < whole / 4  # not one wrote the labels or the entries that were there
    assert len(read) <= 1 + rounds  # nor read them again
    assert sum(bytes_of[12:]) < 2 * sum(bytes_of[:12])
    assert label_parts(a)[0] == LABELS
    assert len(label_parts(a)) <= 2 + math.log2(rounds)
    assert a.shape == (LABELS + 5 * rounds, 20)
    assert a.nnz == 10 * LABELS + 5 * rounds * 20
    again = sp.open(tmp_path / "a")
    assert again.labels("day").to_pylist() == [f"d{k:07}" for k in range(again.shape[0])]
    assert again.sel(day=f"d{LABELS + 77:07}").sum() == 20
    assert again.verify() == []


@pytest.mark.parametrize("backward", [False, True])
def test_appends_at_one_end_rewrite_little(tmp_path: Path, backward: bool) -> None:
    rounds, rows = 40, 20
    handle = storage.save(tmp_path / "t", Schema((rounds * rows,)), [], sizes=storage.Sizes(group_rows=256))
    written, before = 0, set[str]()
    for k in range(rounds):
        at = rounds - 1 - k if backward else k
        handle.commit(Edit("append", upsert=entries([[c] for c in range(at * rows, (at + 1) * rows)], np.ones(rows))))
        files = handle.files()
        written += sum(record.rows for record in files if record.path not in before)
        before = {record.path for record in files}
        assert len(files) <= 1 + math.log2(k + 1)
    assert written <= rounds * rows * (1 + math.log2(rounds))
    assert handle.current.nnz == rounds * rows
    assert handle.verify() == []
    handle.compact()
    assert len(handle.files()) == 1


@pytest.mark.parametrize("front", [False, True])
@pytest.mark.parametrize("named", [False, True])
def test_expensive_appends_warn(tmp_path: Path, named: bool, front: bool) -> None:
    users = [f"u{k:04}" for k in range(2_000)]
    labels = {"user": users} if named else {}
    shape, dims = ((300, 2_000), ["item", "user"]) if front else ((2_000, 300), ["user", "item"])
    at = np.arange(2_000)
    stored = storage.save(
        tmp_path / "a",
        Schema(shape, tuple(dims)),
        [entries(np.stack([at // 20, at] if front else [at, at // 20], axis=1).tolist(), np.ones(2_000))],
        labels={dims.index(dim): pa.array(names) for dim, names in labels.items()},
        sizes=storage.Sizes(group_rows=64),
    )
    a = sp.Tensor(stored)
    limits = tune("tensor", small_commits_before_warning=8, append_rewrite_min_elements=2_000)
    with limits, warnings.catch_warnings(record=True) as found, sp.config(append_runs=0):
        warnings.simplefilter("always")
        for k in range(9):
            columns = {"user": [f"v{k}a", f"v{k}b"] if named else [1_003 + k, 1_900 + k], "item": [k, 200 + k]}
            a.append(pl.DataFrame({**columns, "value": [1.0, 1.0]}), duplicates="last")
    if named and not front:  # new labels come last in the first dimension, so nothing is written anew
        assert found == []
        return
    assert [warning.category for warning in found] == [errors.PerformanceWarning]
    assert f"before {dims[0]!r} that grows" in str(found[0].message)
    assert "8 appends added 16 elements and wrote 16,0" in str(found[0].message)
    assert found[0].filename == __file__


def parts(path: Path) -> sp.Tensor:
    """Return a tensor whose labels are in files of 4, 2 and 1, of versions 0 to 2."""
    a = make_tensor(path, 4)
    a.append(days(4, 2))
    a.append(days(6, 1))
    assert label_parts(a) == [4, 2, 1]
    return a


def test_label_files_are_merged(tmp_path: Path) -> None:
    a = parts(tmp_path / "a")
    a.append(days(7, 1))
    assert label_parts(a) == [8]
    a.append(days(8, 1))
    a.append(days(9, 1))
    assert label_parts(a) == [8, 2]
    a.compact()
    assert label_parts(a) == [10]
    a.compact()  # there is nothing left to do
    assert a.version == 6
    for version, count in enumerate([4, 6, 7, 8, 9, 10, 10]):
        old = sp.open(tmp_path / "a", version=version)
        assert old.labels("day").to_pylist() == [f"d{k:07}" for k in range(count)]
        assert old.verify() == []
    a.restore(2)
    assert label_parts(a) == [4, 2, 1]
    a.resize(5, 20)  # labels of what went are not taken up again
    a.append(days(9, 1))
    assert sp.open(tmp_path / "a").labels("day").to_pylist() == [f"d{k:07}" for k in [*range(5), 9]]
    assert a.verify() == []


def test_vacuum_keeps_label_files(tmp_path: Path) -> None:
    a = parts(tmp_path / "a")
    a.append(days(7, 1))
    a.restore(2)
    assert [name for name in a.vacuum("7 days") if "_labels" in name] == []
    assert [name for name in a.vacuum("0 seconds") if "_labels" in name] != []
    assert label_parts(a) == [4, 2, 1]
    assert sp.open(tmp_path / "a").labels("day").to_pylist() == [f"d{k:07}" for k in range(7)]
    assert a.verify() == []


def test_shared_labels_grow_together(tmp_path: Path) -> None:
    web = sp.from_coords([[0, 1], [1, 0]], [1, 1], dims=["src", "dst"]).save(tmp_path / "web")
    web.set_labels(["src", "dst"], ["a", "b"])
    web.append(pl.DataFrame({"src": ["c"], "dst": ["a"], "value": [1]}))
    snapshot = storage.open(tmp_path / "web").current
    assert snapshot.metadata.labels[0] == snapshot.metadata.labels[1]
    assert sp.open(tmp_path / "web").labels("dst").to_pylist() == ["a", "b", "c"]
    web.compact()
    snapshot = storage.open(tmp_path / "web").current
    assert snapshot.metadata.labels[0] == snapshot.metadata.labels[1]
    assert web.verify() == []


@pytest.mark.parametrize("at", [0, 1, 2])
def test_damaged_label_file_can_be_replaced(tmp_path: Path, at: int) -> None:
    a = parts(tmp_path / "a")
    found = storage.open(tmp_path / "a").current.vocabulary(0)
    assert found is not None
    part = tmp_path / "a" / found.parts[at][0]
    part.write_bytes(part.read_bytes()[:-9] + b"123456789")
    assert {finding.file for finding in a.verify()} == {found.parts[at][0]}
    with pytest.raises(errors.CorruptionError, match="damaged"):
        sp.open(tmp_path / "a").labels("day")
    again = sp.open(tmp_path / "a")
    again.set_labels("day", [f"e{k}" for k in range(7)])
    assert sp.open(tmp_path / "a").labels("day").to_pylist() == [f"e{k}" for k in range(7)]
    assert again.verify() == []


def test_old_readers_miss_partial_label_files(tmp_path: Path) -> None:
    a = parts(tmp_path / "a")
    number = storage.open(str(a.path)).current.metadata.labels[0].rpartition("-")[2][:15]
    names = os.listdir(tmp_path / "a" / "_labels")
    assert not any(name.startswith("0-") and number in name for name in names)


def test_transaction_names_are_fixed(tmp_path: Path) -> None:
    """Every version of sparrow finds the shape and labels of a grown tensor."""
    a = make_tensor(tmp_path / "a", 3)
    a.append(days(3, 1))
    text = (tmp_path / "a" / "_delta_log" / f"{1:020d}.json").read_text(encoding="utf-8")
    names = {line["txn"]["appId"] for line in map(json.loads, text.splitlines()) if "txn" in line}
    assert names == {"sparrow.shape.0", "sparrow.shape.1", "sparrow.labels.0", "sparrow.labels.1"}


@pytest.mark.parametrize("which", ["more-*", "0-*"])
def test_missing_label_file_is_named(tmp_path: Path, which: str) -> None:
    a = make_tensor(tmp_path / "a", 100)
    a.append(days(100, 3))
    (path,) = (tmp_path / "a" / "_labels").glob(which)
    path.unlink()
    with pytest.raises(errors.StorageError) as caught:
        sp.open(tmp_path / "a").labels("day")
    assert path.name in str(caught.value)
