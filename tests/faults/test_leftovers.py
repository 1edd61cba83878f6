"""Failed and killed writes at every step leave nothing, or are cleaned up."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow import errors, storage
from sparrow.kernels.coo import Block
from sparrow.relations.edits import Edit
from tests.faults.dying import Events, FullDisk, Killed, die
from tests.faults.test_storage_kill import orphans, same
from tests.faults.writers import SCHEMA, SIZES, commit, edit, read_all, start
from tests.storage.helpers import end_all_processes

EXPORTS: dict[str, Callable[[Any, Path], Any]] = {
    "t.csv": lambda tensor, path: sp.export(tensor, path, overwrite=True),
    "t.edges.gz": lambda tensor, path: sp.export(tensor, path, overwrite=True),
    "t.parquet": lambda tensor, path: sp.export(tensor, path, overwrite=True),
    "t.arrow": lambda tensor, path: sp.export(tensor, path, overwrite=True),
    "t.npz": lambda tensor, path: tensor.to_npz(path),
}


def tensor() -> Any:
    return sp.from_coords(start(0).coords, start(0).values, shape=SCHEMA.shape)


def run_interrupted(events: Events, work: Callable[[], object]) -> BaseException | None:
    """Return the error of work under such events, None if it succeeded."""
    with events.count_calls():
        try:
            work()
        except (Exception, Killed) as error:  # noqa: BLE001 the test checks the type
            return error
    return None


@pytest.mark.parametrize("name", EXPORTS)
def test_killed_export_is_cleaned_up(tmp_path: Path, name: str) -> None:
    write, source, littered = EXPORTS[name], tensor(), 0
    for last in itertools.count(1):
        path = tmp_path / str(last) / name
        path.parent.mkdir()
        path.write_bytes(b"before")
        if run_interrupted(Events(last, die), lambda path=path: write(source, path)) is None:  # type: ignore[misc]
            break
        littered += len(os.listdir(path.parent)) - 1
        whole = path.read_bytes() != b"before"
        (path.parent / f".{name}.mine.partial").write_bytes(b"of somebody else")
        with pytest.MonkeyPatch.context() as patch:
            end_all_processes(patch)
            write(source, path)
        assert sorted(os.listdir(path.parent)) == sorted([name, f".{name}.mine.partial"])
        assert not whole or last > 2
    assert littered
    assert last > 2


@pytest.mark.parametrize("name", EXPORTS)
def test_export_to_full_disk(tmp_path: Path, name: str) -> None:
    source = tensor()
    for last in itertools.count(1):
        path = tmp_path / name
        path.write_bytes(b"before")
        error = run_interrupted(FullDisk(last), lambda path=path: EXPORTS[name](source, path))  # type: ignore[misc]
        if error is None:
            break
        assert isinstance(error, errors.StorageError)
        assert "disk is full" in str(error)
        assert os.listdir(tmp_path) == [name]
    assert last > 2


def _append(handle: storage.StoredHandle) -> None:
    cells = (np.array([1, 70]), np.array([2, 3]))
    handle.commit(Edit("append", upsert=Block(cells, np.array([7, 8])), existing="last"))


def _append_several(handle: storage.StoredHandle) -> None:
    cells = (np.arange(1, 10), np.arange(1, 10))
    value = int(read_all(handle.current).values.max()) + 1
    commit(handle, Edit("append", upsert=Block(cells, np.full(9, value)), existing="max"))


WRITES: dict[str, Callable[[storage.StoredHandle], object]] = {
    "commit": _append,
    "append of several edits": _append_several,
    "compact": lambda handle: storage.open(handle.path).compact(),
    "order": lambda handle: storage.open(handle.path).add_order((1, 0)),
    "order again": lambda handle: storage.open(handle.path).add_order((1, 0)),
}


@pytest.mark.parametrize("work", WRITES)
def test_write_to_full_disk(tmp_path: Path, work: str) -> None:
    handle = storage.save(tmp_path / "start", SCHEMA, [start(0)], sizes=SIZES)
    if work == "order again":
        handle.add_order((1, 0))
    for version in range(1, 6):
        commit(handle, edit(version))
    if work != "order again":  # which would take the stale order with it
        handle.vacuum("0 seconds")
    before, stale = read_all(handle.current), orphans(handle)
    for last in itertools.count(1):
        path = tmp_path / str(last)
        shutil.copytree(tmp_path / "start", path)
        copy = storage.open(path, sizes=SIZES)
        version = copy.current.version
        error = run_interrupted(FullDisk(last), lambda copy=copy: WRITES[work](copy))  # type: ignore[misc]
        again = storage.open(path, sizes=SIZES)
        assert again.verify() == []
        if error is None:
            break
        assert isinstance(error, errors.StorageError)
        assert "disk is full" in str(error)
        if again.current.version > version:
            assert f"version {version + 1} of {str(path)!r} is committed" in str(error)
        else:
            assert same(read_all(again.current), before)
            assert set(orphans(again)) <= set(stale)
        WRITES[work](again)
        assert storage.open(path).verify() == []
    assert last > 3


def test_killed_vacuum_of_a_stale_order(tmp_path: Path) -> None:
    start_handle = storage.save(tmp_path / "start", SCHEMA, [start(0)], sizes=SIZES)
    start_handle.add_order((1, 0))
    for version in range(1, 4):
        commit(start_handle, edit(version))
        if version < 3:  # its log has three entries, of which the second may be missing
            start_handle.add_order((1, 0))
    expected = read_all(start_handle.current)
    for last in itertools.count(1):
        path = tmp_path / str(last)
        shutil.copytree(tmp_path / "start", path)
        error = run_interrupted(Events(last, die), lambda path=path: storage.open(path).vacuum("0 seconds"))  # type: ignore[misc]
        handle = storage.open(path, sizes=SIZES)
        assert same(read_all(handle.current), expected)
        assert handle.verify() == []
        handle.add_order((1, 0))
        again = storage.open(path)
        assert (1, 0) in again.current.orders
        assert again.verify() == []
        assert np.array_equal((sp.open(path).T @ np.ones(SCHEMA.shape[0])), sp.open(path).to_numpy().sum(axis=0))
        if error is None:
            break
    assert last > 5
