"""A process killed at any time leaves the last committed version."""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparrow import storage
from sparrow.kernels.coo import Block
from sparrow.relations.edits import apply_edit
from tests.faults import writers
from tests.faults.writers import SCHEMA, SIZES, read_all, start

EDIT_ROUNDS = 10
EDIT_EVENTS = 50
"""Some commits: one takes 5 to 20 events."""
CREATE_ROUNDS = 8
CREATE_EVENTS = 200
"""Some tensors."""


@pytest.fixture(scope="module", name="processes")
def processes_fixture() -> Any:
    return processes()


def processes() -> Any:
    """Return a forkserver context whose server has done the imports."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pytest", "tests.faults.writers", "deltalake", "pyarrow.parquet"])
    return context


def run_and_kill(processes: Any, work: Callable[..., None], path: Path, event: int, stop: bool) -> None:
    """Run ``work`` and kill it at its n-th event, or shortly after."""
    here, there = processes.Pipe()
    process = processes.Process(target=work, args=(str(path), there, event, stop))
    process.start()
    there.close()
    assert here.recv() == event
    process.kill()
    process.join()
    assert process.exitcode == -9
    here.close()


def same(a: Block, b: Block) -> bool:
    pairs = zip((*a.coords, a.values), (*b.coords, b.values), strict=True)
    return a.count == b.count and all(bool((x == y).all()) for x, y in pairs)


def test_kills_while_editing(tmp_path: Path, processes: Any) -> None:
    killed_while_editing(tmp_path / "t", processes, EDIT_ROUNDS, 0)


def killed_while_editing(path: Path, processes: Any, rounds: int, seed: int) -> None:
    """Kill editors of one tensor, one after another; their commits survive."""
    storage.save(path, SCHEMA, [start(0)], sizes=SIZES)
    expected = start(0)
    version = leftovers = 0
    draw = random.Random(seed)
    for number in range(rounds):
        run_and_kill(processes, writers.edit_forever, path, draw.randint(1, EDIT_EVENTS), stop=number % 2 == 0)
        handle = storage.open(path, sizes=SIZES)
        while version < handle.current.version:
            version += 1
            expected = apply_edit(expected, writers.edit(version), SCHEMA)
        assert same(read_all(handle.current), expected)
        assert [str(finding) for finding in handle.verify()] == []
        if number % 10 == 9:
            leftovers += len(orphans(handle))
            handle.vacuum("0 seconds")
            assert orphans(handle) == []
            assert handle.verify() == []
    if rounds >= EDIT_ROUNDS:
        assert version >= rounds // 2
        assert leftovers


def orphans(handle: storage.StoredHandle) -> list[str]:
    """Return the files in the folder that no version uses."""
    path = Path(handle.path)
    used = set(handle.current.base.names)
    for order in handle.current.orders[1:]:
        table = handle.current.table(order)
        used |= {f"{Path(table.folder).relative_to(path)}/{name}" for name in table.names}
    found = {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}
    logs = {
        name for name in found if "_delta_log/" in name and name.endswith((".json", ".parquet", "_last_checkpoint"))
    }
    return sorted(found - used - logs)


def test_kills_while_creating(tmp_path: Path, processes: Any) -> None:
    assert killed_while_creating(tmp_path, processes, CREATE_ROUNDS, 0) >= CREATE_ROUNDS // 2


def killed_while_creating(tmp_path: Path, processes: Any, rounds: int, seed: int) -> int:
    """Kill creators of tensors; visible tensors are complete. Return their number."""
    checked: set[str] = set()
    seen = 0
    draw = random.Random(seed)
    for number in range(rounds):
        run_and_kill(processes, writers.create_forever, tmp_path, draw.randint(1, CREATE_EVENTS), stop=number % 2 == 0)
        for path in sorted(tmp_path.glob("t*")):
            if path.name not in checked:
                handle = storage.open(path)
                assert same(read_all(handle.current), start(int(path.name[1:])))
                assert handle.verify() == []
                checked.add(path.name)
        if (tmp_path / "same").exists():
            seen += 1
            block = read_all(storage.open(tmp_path / "same").current)
            assert same(block, start(int(block.values[0]) - 1))
            assert storage.open(tmp_path / "same").verify() == []
        else:
            assert not seen
    storage.save(tmp_path / "same", SCHEMA, [start(0)], overwrite=True)
    assert not list(tmp_path.glob(".same.*"))
    return len(checked)
