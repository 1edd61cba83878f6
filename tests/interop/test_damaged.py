"""Arrays from outside with wrong indices: an error, or the right answer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import sparrow as sp
from sparrow.errors import UnsupportedError
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


@pytest.mark.parametrize("name", ["indices", "indptr"])
def test_empty_index_arrays_of_floats(name: str) -> None:
    array = scipy.sparse.csr_array((1, 3))
    setattr(array, name, getattr(array, name).astype(np.float64))
    with pytest.raises(UnsupportedError, match=f"{name} must be integers, got float64"):
        sp.asarray(array)
