"""Note that kernels are being compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
from sparrow.kernels.jit.compiler import njit
import sparrow as sp
from sparrow.testing import tune

def compile_one_of(module):
    def double(x):
        return 2 * x
    double.__module__ = module
    assert njit(double)(3) == 6

def step(name):
    print(name, file=sys.stderr, flush=True)

with tune("runtime", progress_delay_seconds=0.0):
    compile_one_of("sparrow.kernels.hidden")
    step("no terminal")
    with sp.config(progress=False):
        compile_one_of("sparrow.kernels.disabled")
    step("disabled")
with sp.config(progress=True):
    with tune("runtime", progress_delay_seconds=1e9):
        compile_one_of("sparrow.kernels.quick")
    step("quick")
    with tune("runtime", progress_delay_seconds=0.0):
        compile_one_of("elsewhere")
        step("elsewhere")
        compile_one_of("sparrow.kernels.slow")
        step("slow")
        compile_one_of("sparrow.kernels.other")
        step("other")
"""


def test_slow_compilation_writes_one_note() -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stderr.splitlines() == [
        "no terminal", "disabled", "quick", "elsewhere", "compiling kernels, once on this machine", "slow", "other",
    ]  # fmt: skip


def test_any_kernel_writes_the_note(tmp_path: Path) -> None:
    """Parsers, sorts and products alike: the first use of a kernel in an empty cache."""
    script = (
        "import numpy as np, sparrow as sp\n"
        "from sparrow.kernels.keys import sortedness\n"
        "from sparrow.testing import tune\n"
        "with sp.config(progress=True), tune('runtime', progress_delay_seconds=0.0):\n"
        "    sortedness(np.arange(5, dtype=np.int64), 3)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False,
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
    )  # fmt: skip
    assert (run.returncode, run.stderr) == (0, "compiling kernels, once on this machine\n"), run.stderr
