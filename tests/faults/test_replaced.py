"""Tensors that are saved over while others open, read and write them."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import sparrow as sp
import sparrow.testing
from sparrow import errors


def tensor(seed: int) -> Any:
    return sp.random((30, 20), nnz=60, seed=seed)


def save(path: Path, seed: int, versions: int = 1) -> None:
    made = tensor(seed).save(path, overwrite=True)
    for version in range(1, versions):
        made[0, 0] = version


def is_locked(folder: Path) -> bool:
    """Return whether a commit keeps the tensors of a folder from being replaced."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


class Overwriter:
    """Save tensors over a path at the n-th read of its files and the next ones."""

    def __init__(self, path: Path, number: int, times: int) -> None:
        self.path, self.number, self.left = path, number, times
        self.count = self.written = 0
        self._is_writing = False

    def __call__(self, **details: Any) -> None:
        if self._is_writing or self.path not in Path(details["path"]).parents:
            return
        self.count += 1
        if self.count >= self.number and self.left and not is_locked(self.path.parent):
            self._is_writing = True
            self.left -= 1
            self.written += 1
            save(self.path, 100 + self.written, versions=1 + self.written % 3)
            self._is_writing = False


@contextlib.contextmanager
def overwrite_during(path: Path, number: int, times: int, strategy: str | None) -> Iterator[Overwriter]:
    overwriter = Overwriter(path, number, times)
    with contextlib.ExitStack() as stack:
        if strategy is not None:
            stack.enter_context(sparrow.testing.strategy(strategy))
        for event in ("storage.read", "storage.load_footer"):
            stack.enter_context(sparrow.testing.on(event, overwriter))
        yield overwriter


@pytest.mark.parametrize("strategy", [None, "rename_twice"])
@pytest.mark.parametrize("times", [1, 2, 5])
def test_opening_what_is_overwritten(tmp_path: Path, times: int, strategy: str | None) -> None:
    path = tmp_path / "t"
    for number in itertools.count(1):
        save(path, 0, versions=3)
        with overwrite_during(path, number, times, strategy) as overwriter:
            opened = sp.open(path)
            old = sp.open(path, version=0)
            reached = overwriter.count >= number
        assert old.version == 0
        assert opened.shape == (30, 20)
        if overwriter.left == times:
            assert (opened.version, opened.nnz) == (2, sp.open(path).nnz)
        if not reached:
            break
    assert number > 1


ACTIONS: dict[str, Callable[[Any], Any]] = {
    "refresh": lambda tensor: tensor.refresh(),
    "put": lambda tensor: tensor.put([[1], [1]], [9.0]),
    "append": lambda tensor: tensor.append(sp.from_coords([[29], [19]], [1.0], shape=(30, 20)), duplicates="last"),
    "compact": lambda tensor: tensor.compact("small"),
    "restore": lambda tensor: tensor.restore(0),
    "history": lambda tensor: tensor.history(),
    "sum": lambda tensor: tensor.sum(),
}


@pytest.mark.parametrize("name", ACTIONS)
def test_using_what_is_overwritten(tmp_path: Path, name: str) -> None:
    path, conflicts, lost = tmp_path / "t", 0, 0
    for number in itertools.count(1):
        save(path, 0, versions=3)
        opened = sp.open(path)
        with overwrite_during(path, number, 1, None) as overwriter:
            try:
                ACTIONS[name](opened)
            except errors.ConflictError as error:
                conflicts += "another one was saved over it" in str(error)
            except errors.NotFoundError as error:
                lost += ".parquet' is gone" not in str(error)  # a file of the old tensor may be
        assert sp.open(path).verify() == []
        if overwriter.count < number:
            break
    assert not lost
    assert conflicts or name == "sum"


def test_overwriting_what_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for number in itertools.count(1):
        save(path, 0, versions=2)
        with overwrite_during(path, number, 1, None) as overwriter:
            made = tensor(7).save(path, overwrite=True)
        assert made.shape == (30, 20)
        assert sp.open(path).verify() == []
        if overwriter.count < number:
            break
    assert number > 1


def test_history_is_not_that_of_another_tensor(tmp_path: Path) -> None:
    save(tmp_path / "t", 0, versions=3)
    opened = sp.open(tmp_path / "t")
    save(tmp_path / "t", 1, versions=2)
    with pytest.raises(errors.ConflictError, match="saved over it"):
        opened.history()


def test_damage_is_told_once_nothing_is_overwritten(tmp_path: Path) -> None:
    save(tmp_path / "t", 0, versions=3)
    entry = tmp_path / "t" / "_delta_log" / f"{1:020d}.json"
    entry.write_bytes(entry.read_bytes()[:-40])
    with sparrow.testing.observe("storage.recover") as events, pytest.raises(errors.CorruptionError):
        sp.open(tmp_path / "t")
    assert len(events) < 10
