"""HDF5 files whose sink fails, or is interrupted, at any call."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from sparrow.io.binary import hdf5_output

SCRIPT = """
import io, signal, sys, threading
from contextlib import contextmanager

import h5py
import sparrow as sp
from sparrow.io.binary import hdf5_output
from sparrow.io.binary.binsparse import BinsparseWriter
from sparrow.io.binary.h5ad import H5adWriter
from sparrow.testing import tune


class Sink:
    name = None

    def __init__(self, problem, number, names):
        self._file, self._problem, self._number, self._names = io.BytesIO(), problem, number, names
        self.count, self.is_left = 0, False

    def __getattr__(self, name):
        def call(*args):
            assert not self.is_left, name
            self.count += name in self._names
            if name in self._names and self.count == self._number:
                self._problem()
            return getattr(self._file, name)(*args)
        return call


def fail():
    raise OSError(28, "full")


def fail_otherwise():
    raise MemoryError("full")


def interrupt():
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


def export(writer, sink):
    class Failing(writer):
        @contextmanager
        def sink(self):
            try:
                yield sink
            finally:
                sink.is_left = True

    return Failing(A, "a.h5").write()


signal.signal(signal.SIGINT, signal.default_int_handler)  # shells make programs in the background ignore it
A = sp.random((40, 30), nnz=60, seed=3)
CALLS = ("read", "write", "truncate", "flush")
CASES = [(fail, OSError, ("seek", *CALLS)), (interrupt, KeyboardInterrupt, CALLS), (fail, OSError, ("read",)),
         (fail_otherwise, MemoryError, ("read", "truncate", "flush"))]
total = 0
with tune("io", hdf5_label_batch=20):
    for writer in (H5adWriter, BinsparseWriter):
        for problem, error, names in CASES:
            number = 1
            while True:
                sink = Sink(problem, number, names)
                try:
                    assert export(writer, sink) == 60
                except error:
                    assert sink.count >= number
                else:
                    assert sink.count < number, (writer, problem, number)
                    break
                number += 1
            total += number - 1
            with h5py.File(sink._file) as file:
                assert len(file["X/data" if writer is H5adWriter else "values"]) == 60
print(total)
lost = hdf5_output.OutputFile(open(sys.argv[1], "w+b"))
lost.open()
lost.run(lambda file: file.update({"a": range(2000)}))
lost.__dict__["itself"] = lost  # the exit of the process finds it
"""


def test_any_call_of_the_sink_fails_or_is_interrupted(tmp_path: Path) -> None:
    """In a process of its own, as HDF5 crashes after failures that it sees."""
    run = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", SCRIPT, str(tmp_path / "lost.h5")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, ""), run.stderr
    assert int(run.stdout) > 200
    with h5py.File(tmp_path / "lost.h5") as file:
        assert len(file["a"]) == 2000


class Sink:
    """File in memory that tells when it is truncated, as HDF5 does last."""

    name = None

    def __init__(self, file: Any) -> None:
        self._file, self.is_closed = file, threading.Event()

    def flush(self) -> None:
        self._file.flush()
        self.is_closed.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_file_of_a_lost_owner_is_closed(tmp_path: Path) -> None:
    with open(tmp_path / "a.h5", "w+b") as below:
        sink = Sink(below)
        file = hdf5_output.OutputFile(sink)
        file.open()
        file.run(hdf5_output.create_resizable, "a", "i4")
        file.append({"a": np.arange(5)})
        file.append({"a": np.arange(3)})
        assert not sink.is_closed.is_set()
        del file
        assert sink.is_closed.wait(60)
    with h5py.File(tmp_path / "a.h5") as found:
        assert found["a"][:].tolist() == [0, 1, 2, 3, 4, 0, 1, 2]


def test_errors_of_the_caller_are_raised(tmp_path: Path) -> None:
    def fail(file: Any) -> None:
        raise ZeroDivisionError

    (tmp_path / "a.h5").touch()
    for work in (lambda file: file.run(fail), lambda file: 1 / 0):
        with pytest.raises(ZeroDivisionError), open(tmp_path / "a.h5", "r+b") as sink, \
                hdf5_output.create_file(sink) as file:  # fmt: skip
            work(file)
        h5py.File(tmp_path / "a.h5").close()
