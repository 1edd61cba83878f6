"""Many commits and queries at constant cost, and forked processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import sparrow as sp

COMMITS = 64
"""Three checkpoints, and some commits after the last."""


@pytest.fixture(scope="module")
def long_lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("long") / "t"
    tensor = sp.random((50, 40), nnz=300, seed=0).save(path)
    open_files, threads = 0, 0
    for k in range(COMMITS):
        tensor[k % 50, k % 40] = k + 1
        assert tensor[k % 50].nnz > 0
        assert sp.sql("select count(*) from tensor", tensor=tensor).fetchall() == [(tensor.nnz,)]
        if k == COMMITS // 2:
            open_files, threads = _handles()
    assert _handles()[0] <= open_files + 2
    assert _handles()[1] <= threads + 2
    return path


def _handles() -> tuple[int, int]:
    """Return the open files and threads of this process, without deltalake's pool."""
    return len(os.listdir("/proc/self/fd")), threading.active_count()


def test_open_reads_the_last_checkpoint_only(long_lived: Path, tmp_path: Path) -> None:
    whole = sp.open(long_lived)
    shutil.copytree(long_lived, tmp_path / "t")
    log = tmp_path / "t" / "_delta_log"
    checkpoints = sorted(log.glob("*.checkpoint.parquet"))
    last = int(checkpoints[-1].name.split(".")[0])
    assert COMMITS - last <= 20
    for entry in log.iterdir():
        number = entry.name.split(".")[0]
        if number.isdecimal() and int(number) < last:
            entry.unlink()  # whoever reads one of these fails
    short = sp.open(tmp_path / "t")
    assert (short.version, short.nnz) == (whole.version, whole.nnz) == (COMMITS, whole.nnz)
    assert (short.to_numpy() == whole.to_numpy()).all()
    short[0, 0] = 99
    assert sp.open(tmp_path / "t")[0, 0] == 99


FORKED = """
import os, pickle, sys, traceback, warnings
warnings.simplefilter("ignore")
import numpy as np, sparrow as sp
path = sys.argv[1]
opened, opens = os.pipe()
early = os.fork()
if early:
    tensor = sp.open(path)
    expected = tensor.to_numpy().sum(), sp.sql("select count(*) from tensor", tensor=tensor).fetchall()
    os.write(opens, b"1")
    assert os.waitpid(early, 0)[1] == 0
else:  # the parent had used nothing before
    os.read(opened, 1)
    tensor = sp.open(path)
    tensor[49, 39] = 5
    os._exit(0)
newest = sp.open(path)
assert newest[49, 39] == 5
child = os.fork()
if child:
    assert os.waitpid(child, 0)[1] == 0
    print("done")
else:
    code = 1
    try:
        assert np.isclose((tensor @ np.ones(40)).sum(), expected[0])
        assert sp.sql("select count(*) from tensor", tensor=tensor).fetchall() == expected[1]
        for sent in (tensor, tensor[[3, 1]], tensor.T):
            assert np.array_equal(pickle.loads(pickle.dumps(sent)).to_numpy(), sent.to_numpy())
        newest.put([[49], [39]], [5])  # changes nothing, and commits nothing
        write, write_newest = lambda: tensor.put([[0], [0]], [7]), lambda: newest.put([[0], [0]], [7])
        for work in (lambda: sp.open(path), tensor.refresh, write, write_newest, lambda: sp.eye(3).save(path + "2")):
            try:
                work()
            except sp.errors.StorageError as error:
                assert "forked" in str(error) and "spawn" in str(error), error
            else:
                raise AssertionError(work)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
"""


def test_calls_after_a_fork(long_lived: Path, tmp_path: Path) -> None:
    shutil.copytree(long_lived, tmp_path / "t")
    before = sorted(os.listdir(tmp_path / "t"))
    run = subprocess.run(
        [sys.executable, "-c", FORKED, str(tmp_path / "t")], capture_output=True, text=True, timeout=120, check=False
    )
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr
    assert "panicked" not in run.stderr
    assert os.listdir(tmp_path) == ["t"]
    assert len(os.listdir(tmp_path / "t")) == len(before) + 1  # of the early child's commit alone
