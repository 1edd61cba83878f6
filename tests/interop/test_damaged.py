"""Arrays from outside with wrong indices: an error, or the right answer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.damaged import SOURCES

CASES = 60


@pytest.mark.parametrize("source", SOURCES)
def test_damaged_arrays(source: str, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.interop.damaged", source, "7", str(CASES), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr[-4000:]
