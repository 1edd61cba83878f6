"""Every system call fails once, those of delta-rs, DuckDB and HDF5 included."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


@pytest.fixture(scope="module")
def failing_disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the library that makes calls fail."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs Linux and a C compiler")
    library = tmp_path_factory.mktemp("disk") / "disk.so"
    command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(FOLDER / "disk.c"), "-ldl"]
    subprocess.run(command, check=True)
    return library


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        "commits write ENOSPC from-then-on",
        "files write ENOSPC from-then-on",
        "exports write EIO once",
        "reads read EIO once",
    ],
)
def test_every_call_fails_once(case: str, failing_disk: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.failing_disk", *case.split()],
        cwd=FOLDER.parent.parent,
        env={**os.environ, "LD_PRELOAD": str(failing_disk)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
