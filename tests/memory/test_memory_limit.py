"""Public functions under a memory limit: all have a case, some run here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.memory.cases import CASES, EXEMPT, VARIANTS, all_public_names
from tests.memory.measure import list_cases

REPRESENTATIVES = (
    "training.train_test_split:3", "sp.sddmm:0", "sp.unique_counts:0", "sp.unique_counts:1", "sp.stack:3",
    "sp.einsum:0", "sp.Tensor.__setitem__:14",
    "sp.Tensor.__setitem__:2", "sp.Tensor.__setitem__:6", "sp.Tensor.__getitem__:4", "sp.Tensor.__getitem__:7",
    "sp.Tensor.repeated:5", "sp.Tensor.repeated:2", "sp.Tensor.save:1", "sp.Tensor.to_scipy:0", "np.histogram:0",
    "np.median:1", "np.concatenate:0", "linalg.eigsh:0",
)  # fmt: skip
"""One case of each way to keep to the limit: streaming, spilling, sorting on disk, refusing."""


def test_every_public_function_has_a_case() -> None:
    names = all_public_names()
    unknown = sorted(names - CASES.keys() - EXEMPT.keys())
    assert not unknown, f"functions that take a tensor are in neither CASES nor EXEMPT: {unknown}"
    assert not sorted((CASES.keys() | EXEMPT.keys()) - names - VARIANTS)
    assert not CASES.keys() & EXEMPT.keys()
    assert set(list_cases(list(REPRESENTATIVES))) == set(REPRESENTATIVES)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(("allowed", "code"), [(60_000_000, 0), (-1_000_000_000, 1)])
def test_growth_of_mixed_work(allowed: int, code: int) -> None:
    command = [sys.executable, "-m", "tests.memory.mixed_work", "--rounds", "3", "--warmup", "1", "--steps", "write"]
    run = subprocess.run([*command, "--growth", str(allowed)], capture_output=True, text=True, env=dict(os.environ))
    assert run.returncode == code, run.stderr
    assert [json.loads(line)["round"] for line in run.stdout.splitlines()] == [0, 1, 2]
    assert "3 rounds, grown by" in run.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_representatives_keep_to_the_limit(tmp_path: Path) -> None:
    limit, slack = 60_000_000, 110_000_000
    command = [sys.executable, "-m", "tests.memory.measure", str(tmp_path), *REPRESENTATIVES]
    options = ["--nnz", "8000000", "--limit", str(limit), "--slack", str(slack), "--processes", "1"]
    run = subprocess.run([*command, *options], capture_output=True, text=True, env=dict(os.environ))
    assert run.returncode in (0, 1), run.stderr
    found = [json.loads(line) for line in run.stdout.splitlines()]
    assert {one["name"] for one in found} == set(REPRESENTATIVES)
    wrong = [one for one in found if one["wrong"]]
    assert not wrong, f"beyond {limit + slack} bytes, or failed: {wrong}"
