"""Ctrl-C at every change of files leaves nothing hidden and nothing broken."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sparrow as sp
import sparrow.testing
from sparrow.storage import creation
from sparrow.storage.fs import failures, local, syscalls
from sparrow.storage.fs.failures import repeat_cut
from sparrow.storage.fs.syscalls import remove_tree

WRITES: dict[str, Callable[[Path], Any]] = {
    "save": lambda folder: tensor(1).save(folder / "t", overwrite=True),
    "save in new folders": lambda folder: tensor(1).save(folder / "a" / "b" / "t"),
    "ingest": lambda folder: sp.ingest.edges(folder / "e.txt", folder / "t", overwrite=True),
    "bundle": lambda folder: sp.ingest.libsvm(folder / "s.svm", folder / "t", overwrite=True),
    "export": lambda folder: sp.export(tensor(1), folder / "t.csv", overwrite=True),
    "add_order": lambda folder: sp.open(folder / "t").add_order((1, 0)),
}


def tensor(seed: int) -> Any:
    return sp.random((30, 20), nnz=60, seed=seed)


class CtrlC:
    """Raise KeyboardInterrupt before the n-th change of files, and a later one."""

    def __init__(self, number: int, again: int) -> None:
        self.count, self._at = 0, {number, number + again} if again else {number}

    def __call__(self, call: str, path: Any) -> None:
        self.count += 1
        if self.count in self._at:
            raise KeyboardInterrupt


def hidden(folder: Path) -> list[str]:
    """Return hidden files and folders, and those being written."""
    return [str(path) for path in folder.rglob("*") if path.name.endswith((".partial", ".partial.old"))]


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize(("strategy", "again"), [(None, 0), (None, 2), ("rename_twice", 1)])
def test_interrupted_writes_leave_nothing_hidden(name: str, again: int, strategy: str | None, tmp_path: Path) -> None:
    for number in itertools.count(1):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "e.txt").write_text("0 1\n1 2\n")
        (folder / "s.svm").write_text("1 1:1 2:2\n0 1:3\n")
        (folder / "t.csv").write_text("before")
        tensor(0).save(folder / "t")
        interrupt = CtrlC(number, again)
        with sparrow.testing.on("storage.file_operation", interrupt):
            try:
                if strategy is None:
                    WRITES[name](folder)
                else:
                    with sparrow.testing.strategy(strategy):
                        WRITES[name](folder)
                assert interrupt.count < number
            except KeyboardInterrupt:
                pass
        if not again:
            assert hidden(folder) == []
        tensor(2).save(folder / "other")  # any later write cleans up, whatever its name
        assert hidden(folder) == []
        assert set(os.listdir(folder)) - {"e.txt", "s.svm", "t.csv", "t", "other"} <= {"a"}
        assert sp.open(folder / "other").verify() == []
        if name != "bundle":
            assert sp.open(folder / "t").verify() == []
        if interrupt.count < number:
            break
    assert number > 4


EXIT = """
import sys, os
import sparrow as sp, sparrow.testing
from pathlib import Path
folder = Path(sys.argv[1])
count = 0
def interrupt(call, path):
    global count
    count += call != "open"
    if count >= 2 and call in ("rmtree", "unlink", "rmdir", "rename"):
        raise KeyboardInterrupt
with sparrow.testing.on("storage.file_operation", interrupt):
    try:
        sp.random((30, 20), nnz=60).save(folder / "t")
    except KeyboardInterrupt:
        print(len([name for name in os.listdir(folder) if name.endswith(".partial")]))
"""


def test_the_rest_is_deleted_at_exit(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", EXIT, tmp_path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")
    assert os.listdir(tmp_path) == []


def test_leftovers_of_our_own_process_number(tmp_path: Path) -> None:
    with sparrow.testing.on("storage.file_operation", lambda call, path: names.append(str(path))):
        names: list[str] = []
        tensor(0).save(tmp_path / "t")
    stem = next(Path(name).name for name in names if name.endswith(".partial")).rpartition("-")[0]
    assert stem.endswith(f"-{os.getpid()}")
    (tmp_path / f"{stem}-000000000000.partial").mkdir()  # as of an earlier process in another container
    tensor(0).save(tmp_path / "t", overwrite=True)
    assert os.listdir(tmp_path) == ["t"]


def test_writes_of_other_threads_are_left_alone(tmp_path: Path) -> None:
    from threading import Thread

    def save_beside(call: str, path: Any) -> None:
        if call == "rename" and "beside" not in done:
            done.append("beside")
            thread = Thread(target=lambda: tensor(3).save(tmp_path / "t", overwrite=True))
            thread.start()
            thread.join()

    done: list[str] = []
    with sparrow.testing.on("storage.file_operation", save_beside):
        tensor(4).save(tmp_path / "t", overwrite=True)
    assert (sp.open(tmp_path / "t") == tensor(4)).all()
    assert os.listdir(tmp_path) == ["t"]


@pytest.mark.parametrize(
    "error",
    [
        ValueError(
            "CommitProperties.custom_metadata value for 'sparrow' must be JSON-serializable: KeyboardInterrupt: "
        ),
        RuntimeError("INTERRUPT Error: Query interrupted"),
        OSError("Generic error: Python error: KeyboardInterrupt: "),
    ],
)
def test_wrapped_interrupts_are_keyboard_interrupts(error: Exception) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(KeyboardInterrupt):
        repeat_cut(fail)


def test_other_errors_stay_as_they_are() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        repeat_cut(lambda: int("x"))


@pytest.mark.parametrize("ignore_errors", [False, True])
@pytest.mark.parametrize("nth", [1, 2])
def test_interrupt_while_a_folder_is_closed(
    nth: int, ignore_errors: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_text("x")
    close, count = os.close, itertools.count(1)

    def close_and_interrupt(descriptor: int) -> None:
        close(descriptor)
        if next(count) == nth:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "close", close_and_interrupt)
        with pytest.raises(KeyboardInterrupt):
            remove_tree(str(tmp_path / "a"), ignore_errors)


INTERRUPTED_FILES = {module.__file__ for module in (creation, failures, local, syscalls)}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # files that Python closes later
@pytest.mark.parametrize("overwrite", [False, True])
def test_interrupt_of_any_call_leaves_nothing_hidden(overwrite: bool, tmp_path: Path) -> None:
    A = tensor(1)
    A.save(tmp_path / "warm")
    for number in itertools.count(1):
        folder = tmp_path / str(number)
        folder.mkdir()
        if overwrite:
            tensor(0).save(folder / "t")
        calls = 0

        def trace(frame: Any, event: str, arg: Any, number: int = number) -> None:
            nonlocal calls
            calls += event == "call" and frame.f_code.co_filename in INTERRUPTED_FILES
            if calls == number:
                sys.settrace(None)
                raise KeyboardInterrupt

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            A.save(folder / "t", overwrite=overwrite)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        assert hidden(folder) == [], number
        if (folder / "t").exists():
            assert sp.open(folder / "t").verify() == []
        if calls < number:
            break
    assert number > 30
