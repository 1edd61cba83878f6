"""Vacuum deletes unused files and nothing else."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from sparrow import errors, storage
from sparrow.core.schema import Schema
from sparrow.relations.edits import Edit
from sparrow.storage.vacuum import parse_age
from tests.storage.helpers import TINY, entries, names, random_entries, read_all

SCHEMA = Schema((50, 40))
DAY = 86400


def age(path: Path, seconds: float) -> None:
    past = time.time() - seconds
    os.utime(path, (past, past))


def edit(handle: storage.StoredHandle, value: float) -> None:
    handle.commit(Edit("put", upsert=entries([(25, 20)], [value])))


def test_vacuum_deletes_old_files(tmp_path: Path) -> None:
    path = tmp_path / "t"
    handle = storage.save(path, SCHEMA, [random_entries(SCHEMA, 100)], sizes=TINY)
    first = set(handle.current.base.names)
    for value in range(1, 5):
        edit(handle, value)
    latest = set(handle.current.base.names)
    gone = names(path) - latest
    assert handle.vacuum() == []
    assert handle.vacuum("0 seconds", dry_run=True) == sorted(gone)
    assert names(path) == gone | latest
    assert handle.vacuum(timedelta(0)) == sorted(gone)
    assert names(path) == latest
    assert handle.verify() == []
    old = storage.open(path, 0)
    assert old.current.nnz == random_entries(SCHEMA, 100).count
    with pytest.raises(errors.NotFoundError, match=r"vacuum\(\) has removed its files"):
        read_all(old.current)
    assert {finding.file for finding in old.verify()} == first - latest
    assert handle.vacuum("0 seconds") == []


def test_vacuum_keeps_recent_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    handle = storage.save(path, SCHEMA, [random_entries(SCHEMA, 100)], sizes=TINY)
    edit(handle, 1)
    for value in (2, 3):
        before = handle.history()[0]["timestamp"].timestamp()
        while time.time() < before + 0.002:  # until the clock of the log has moved on
            pass
        edit(handle, value)
    for file in path.glob("*.parquet"):
        age(file, DAY)
    newest, second, first = (commit["timestamp"].timestamp() for commit in handle.history()[:3])
    assert first < second < newest
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now)
    handle.vacuum(timedelta(seconds=now - (first + second) / 2))
    for version in (1, 2, 3):
        assert storage.open(path, version).verify() == []
    assert storage.open(path, 0).verify() != []


def test_vacuum_deletes_old_leftovers(tmp_path: Path) -> None:
    path = tmp_path / "t"
    handle = storage.save(
        path, SCHEMA, [random_entries(SCHEMA, 100)], labels={0: pa.array([str(k) for k in range(50)])}, orders=[(1, 0)]
    )
    leftovers = [
        path / "0123456789abcdef-3.tmp",
        path / f"{'a' * 64}-0123456789abcdef.parquet",
        path / "_orders" / "1-0" / f"{'b' * 64}-0123456789abcdef.parquet",
        path / "_orders" / ".1-0.host-1-ab.partial",
        path / "_labels" / "0123456789abcdef-0.tmp",
        path / "_labels" / f"0-{'c' * 64}.parquet",
        path / "_delta_log" / "_commit_0bd1a6e1-5a3c-4a45-b3ec-3b3f4b0a7f4d.json.tmp",
    ]
    foreign = [path / "notes.txt", path / "part-0001.parquet", path / f"{'A' * 64}-0123456789abcdef.parquet"]
    for file in leftovers + foreign:
        if file.suffix == ".partial":
            file.mkdir()
        else:
            file.write_text("x")
    assert handle.vacuum("1 hour") == []
    for file in leftovers + foreign:
        age(file, DAY)
    wanted = sorted(str(file.relative_to(path)) for file in leftovers)
    assert handle.vacuum("1 hour") == wanted
    assert not any(file.exists() for file in leftovers)
    assert all(file.exists() for file in foreign)
    assert storage.open(path).verify() == []
    assert storage.open(path).current.orders == ((0, 1), (1, 0))


def test_vacuum_deletes_stale_orders(tmp_path: Path) -> None:
    path = tmp_path / "t"
    handle = storage.save(path, SCHEMA, [random_entries(SCHEMA, 100)], orders=[(1, 0)])
    handle.add_order((1, 0))
    edit(handle, 1)
    assert handle.vacuum("1 hour") == []
    assert "_orders/1-0" in handle.vacuum("0 seconds")
    assert not (path / "_orders" / "1-0").exists()
    handle.add_order((1, 0))
    edit(handle, 2)
    handle.add_order((1, 0))
    removed = handle.vacuum("0 seconds")
    assert [name for name in removed if name.startswith("_orders")] == [
        name for name in removed if name.startswith("_orders/1-0/")
    ]
    assert handle.current.orders == ((0, 1), (1, 0))
    assert storage.open(path).verify() == []


def test_parse_age() -> None:
    assert parse_age("7 days") == timedelta(days=7)
    assert parse_age("1 week") == timedelta(days=7)
    assert parse_age("0 seconds") == timedelta(0)
    assert parse_age("1.5 hours") == timedelta(minutes=90)
    for wrong in ("", "7", "days", "-1 days", "7 years"):
        with pytest.raises(errors.InvalidValueError, match="an age must be"):
            parse_age(wrong)
    with pytest.raises(errors.InvalidValueError, match="negative"):
        parse_age(timedelta(seconds=-1))
