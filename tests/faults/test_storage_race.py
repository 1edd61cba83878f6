"""Concurrent writers lose nothing and never store an element twice."""

from __future__ import annotations

import multiprocessing
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow.testing
from sparrow import errors, storage
from sparrow.core.indexing import Box
from sparrow.core.schema import Schema
from sparrow.kernels.coo import Block
from sparrow.relations.edits import Edit
from tests.faults import writers
from tests.faults.writers import SIZES, read_all

WRITERS = 3
COUNT = 12


@pytest.fixture(scope="module", name="raced")
def run_races(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    """Return three tensors that several processes wrote, and their reports."""
    return race(tmp_path_factory.mktemp("raced"))


def race(folder: Path) -> tuple[Path, list[Any]]:
    """Run the races; the tests below look at what came of them."""
    for name in ("append", "increment", "claim"):
        storage.save(folder / name, Schema((4000, 3), dtype=np.dtype(np.int64)), [], sizes=SIZES)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pytest", "tests.faults.writers", "deltalake", "pyarrow.parquet"])
    running = []
    line = context.Barrier(WRITERS)
    for who in range(WRITERS):
        here, there = context.Pipe()
        process = context.Process(target=writers.race, args=(str(folder), who, COUNT, line, there))
        process.start()
        there.close()
        running.append((process, here))
    results = []
    for process, here in running:
        results.append(here.recv())
        process.join()
        assert process.exitcode == 0
    return folder, results


def test_disjoint_appends_all_land(raced: tuple[Path, list[Any]]) -> None:
    path, handle = raced[0] / "append", storage.open(raced[0] / "append")
    block = read_all(handle.current)
    wanted = sorted((10 * k + who, m, who + 1) for k in range(COUNT) for who in range(WRITERS) for m in range(3))
    assert list(zip(*(c.tolist() for c in (*block.coords, block.values)), strict=True)) == wanted
    assert handle.current.version == COUNT * WRITERS
    assert handle.verify() == []
    versions = (storage.open(path, version).current for version in range(handle.current.version + 1))
    assert {p.name for p in path.glob("*.parquet")} == {name for version in versions for name in version.active.paths}
    assert not list(path.glob("*.tmp"))


def test_increments_lose_nothing(raced: tuple[Path, list[Any]]) -> None:
    handle = storage.open(raced[0] / "increment")
    assert int(read_all(handle.current).values.sum()) == COUNT * WRITERS
    assert handle.current.version == COUNT * WRITERS
    assert sum(conflicts for _, conflicts, _ in raced[1]) > 0
    assert handle.verify() == []


def test_inserts_have_one_winner(raced: tuple[Path, list[Any]]) -> None:
    handle = storage.open(raced[0] / "claim")
    block = read_all(handle.current)
    taken = {int(row): int(who) - 1 for row, who in zip(block.coords[0], block.values, strict=True)}
    won = [cells for _, _, cells in raced[1]]
    assert sorted(k for cells in won for k in cells) == sorted(taken)
    for who, cells in enumerate(won):
        assert all(taken[k] == who for k in cells)
    assert handle.verify() == []


# -- races that are staged, in one process --------------------------------------------------------


def put(row: int, value: int = 1, **more: Any) -> Edit:
    return Edit("put", upsert=Block((np.array([row]), np.array([0])), np.array([value])), **more)


@pytest.fixture
def two(tmp_path: Path) -> tuple[storage.StoredHandle, storage.StoredHandle]:
    """Two handles of one tensor, as of two processes: one file, rows 0 to 99."""
    block = Block((np.arange(0, 100, 2), np.zeros(50, np.int64)), np.ones(50, np.int64))
    storage.save(tmp_path / "t", Schema((100, 3), dtype=np.dtype(np.int64)), [block])
    return storage.open(tmp_path / "t"), storage.open(tmp_path / "t")


def test_disjoint_writes_to_one_file_merge(two: tuple[storage.StoredHandle, ...]) -> None:
    one, other = two
    one.commit(put(10, 7))
    other.commit(put(12, 8))
    values = dict(zip(read_all(other.current).coords[0].tolist(), read_all(other.current).values.tolist(), strict=True))
    assert (values[10], values[12], len(values)) == (7, 8, 50)
    assert other.current.version == 2
    assert other.verify() == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (put(10, 5), put(10, 6)),
        (put(11, 5), put(11, 6)),
        (put(10, 5), Edit("clear", (Box((range(20), range(3))),))),
        (Edit("clear", (Box((range(20), range(3))),)), put(10, 5)),
        (Edit("clear", (Box((range(20), range(3))),)), Edit("clear", (Box((range(10, 30), range(3))),))),
        (Edit("resize", shape=(200, 3)), Edit("resize", shape=(300, 3))),
        (Edit("resize", (Box((range(50, 100), range(3))),), shape=(50, 3)), put(99, 2)),
        (put(99, 2), Edit("resize", (Box((range(50, 100), range(3))),), shape=(50, 3))),
    ],
)
def test_overlapping_writes_conflict(two: tuple[storage.StoredHandle, ...], first: Edit, second: Edit) -> None:
    one, other = two
    one.commit(first)
    before = other.current
    with pytest.raises(errors.ConflictError, match="refresh"):
        other.commit(second)
    with pytest.raises(errors.ConflictError, match="refresh"):
        other.commit(second)
    assert other.current is before
    assert {p.name for p in Path(one.path).glob("*.parquet")} == set(before.base.names) | set(one.current.base.names)
    other.refresh()
    if first.shape is None or second.upsert is None:
        assert other.commit(second).version == 2
        assert other.verify() == []


def test_growth_does_not_conflict(two: tuple[storage.StoredHandle, ...]) -> None:
    one, other = two
    one.commit(Edit("append", upsert=put(150).upsert, shape=(200, 3)))
    assert other.commit(put(3)).schema.shape == (200, 3)
    assert other.current.nnz == 52


def test_lost_race_reuses_written_files(two: tuple[storage.StoredHandle, ...], tmp_path: Path) -> None:
    blocks = [Block((np.arange(100), np.zeros(100, np.int64)), np.ones(100, np.int64))]
    storage.save(tmp_path / "u", Schema((100, 3), dtype=np.dtype(np.int64)), blocks, sizes=SIZES)
    one, other = (storage.open(tmp_path / "u", sizes=SIZES) for _ in range(2))
    writers: list[str] = []

    def race(path: str, files: int) -> None:
        writers.append("one" if "other" in writers else "other")
        if writers == ["other"]:
            one.commit(put(90, 9))

    with sparrow.testing.on("storage.write_files", race):
        other.commit(put(2, 5))
    assert writers == ["other", "one"]  # each wrote its files once
    assert other.current.version == 2
    assert other.verify() == []
    assert sorted(set(read_all(other.current).values.tolist())) == [1, 5, 9]


def test_commit_of_another_tool_conflicts(two: tuple[storage.StoredHandle, ...]) -> None:
    from deltalake import DeltaTable

    one, other = two
    DeltaTable(one.path).delete("d0 = 4")
    with pytest.raises(errors.ConflictError, match="another tool"):
        other.commit(put(50))


def test_threads_of_one_handle_take_turns(tmp_path: Path) -> None:
    handle = storage.save(tmp_path / "t", Schema((100, 3), dtype=np.dtype(np.int64)), [], sizes=SIZES)
    failures: list[BaseException] = []

    def work(who: int) -> None:
        try:
            for k in range(8):
                handle.commit(put(4 * k + who))
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=work, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert read_all(handle.current).coords[0].tolist() == list(range(32))
    assert handle.current.version == 32
