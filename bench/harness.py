"""Side-by-side timing: alternating runs, medians, ratios, peak memory."""

from __future__ import annotations

import gc
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
DATA = FOLDER / "data"


@dataclass(frozen=True)
class Row:
    """One row of a table: sparrow's time, bytes or memory over the peer's."""

    work: str
    against: str
    ratio: float
    bound: float
    """Goal for the ratio: an upper bound, or a lower bound where ``more`` is set."""
    detail: str
    more: bool = False

    @property
    def met(self) -> bool:
        return self.ratio >= self.bound if self.more else self.ratio <= self.bound


def alternate(
    cases: dict[str, Callable[[], Any]],
    rounds: int = 5,
    warm: int = 1,
    summarize: Callable[[list[float]], float] = statistics.median,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return the median seconds of each case over alternating runs.

    Each case runs ``rounds`` times, after ``warm`` unmeasured runs. ``summarize`` replaces the median, ``clock``
    the wall clock.
    """
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for turn in range(rounds + warm):
        for name, run in cases.items():
            gc.collect()
            start = clock()
            run()
            took = clock() - start
            if turn >= warm:
                seconds[name].append(took)
    return {name: summarize(runs) for name, runs in seconds.items()}


def in_process(code: str, *args: object, cpu: bool = False) -> tuple[float, int]:
    """Run ``code`` in a Python process; return its seconds and peak resident bytes.

    ``code`` prepares, untimed, then calls ``begin()``, then does the work. ``cpu`` measures CPU time of all threads.
    """
    clock = "time.process_time" if cpu else "time.perf_counter"
    prelude = (
        f"import re, sys, time\nargs = sys.argv[1:]\nstart = [{clock}()]\ndef begin():\n    start[0] = {clock}()\n"
    )
    closing = (
        f"\ntook = {clock}() - start[0]\n"
        "peak = re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1]\n"
        "print(took, int(peak) * 1024)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", prelude + code + closing, *map(str, args)],
        stdout=subprocess.PIPE, text=True, check=True, cwd=FOLDER.parent,
    )  # fmt: skip
    took, peak = run.stdout.split()[-2:]
    return float(took), int(peak)


def processes_in_turn(cases: dict[str, tuple[str, tuple[object, ...]]], rounds: int) -> dict[str, tuple[float, int]]:
    """Return median seconds and largest peak bytes of cases run in processes."""
    runs: dict[str, list[tuple[float, int]]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, (code, args) in cases.items():
            runs[name].append(in_process(code, *args))
    return {
        name: (statistics.median(took for took, _ in found), max(peak for _, peak in found))
        for name, found in runs.items()
    }


def fresh(path: Path) -> Path:
    """Delete what is at the path, create its parent and return the path."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def table(rows: list[Row], details: bool = False) -> str:
    """Return the rows as a Markdown table, optionally with their details."""
    out = ["| Work | Peer | Ratio | Goal | Met |" + " Detail |" * details, "|---|---|--:|--:|---|" + "---|" * details]
    for row in rows:
        sign = ">=" if row.more else "<="
        met = "yes" if row.met else "**no**"
        goal, met = (f"{sign} {row.bound:g}", met) if math.isfinite(row.bound) else ("none", "")
        line = f"| {row.work} | {row.against} | {row.ratio:.2f} | {goal} | {met} |"
        out.append(line + f" {row.detail} |" * details)
    return "\n".join(out)


def machine() -> str:
    """Describe the machine and the library versions."""
    import duckdb
    import numpy
    import pyarrow
    import scipy
    from llvmlite import binding  # type: ignore[import-untyped]

    cores, has = len(os.sched_getaffinity(0)), binding.get_host_cpu_features()
    vectors = next((bits for name, bits in (("avx512f", 512), ("avx2", 256)) if has.get(name)), 128)
    versions = f"Python {platform.python_version()}, numpy {numpy.__version__}, scipy {scipy.__version__}"
    versions += f", pyarrow {pyarrow.__version__}, duckdb {duckdb.__version__}"
    return f"{cores} cores, {vectors}-bit vectors, {versions}"
