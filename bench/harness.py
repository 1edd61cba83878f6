"""Timing side by side: alternating runs in one process, medians, ratios, peak memory of a process of its own."""

from __future__ import annotations

import gc
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
    """One line of the table: how sparrow's time, bytes or memory compare with the peer's."""

    work: str
    against: str
    ratio: float
    bound: float
    """What the design asks for: the ratio has to stay below it (above it where ``more`` is set)."""
    detail: str
    more: bool = False

    @property
    def met(self) -> bool:
        return self.ratio >= self.bound if self.more else self.ratio <= self.bound


def alternate(cases: dict[str, Callable[[], Any]], rounds: int = 5, warm: int = 1) -> dict[str, float]:
    """Return the median seconds of each case, run in turn ``rounds`` times after ``warm`` unmeasured turns."""
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for turn in range(rounds + warm):
        for name, run in cases.items():
            gc.collect()
            start = time.perf_counter()
            run()
            took = time.perf_counter() - start
            if turn >= warm:
                seconds[name].append(took)
    return {name: statistics.median(runs) for name, runs in seconds.items()}


def in_process(code: str, *args: object, cpu: bool = False) -> tuple[float, int]:
    """Return seconds, of all processors with ``cpu``, and peak resident bytes of a Python process that runs ``code``.

    ``code`` sets up, which is not timed, then calls ``begin()``, then does the work.
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
    """Return median seconds and largest peak memory of each case, each run in processes of its own, in turn."""
    runs: dict[str, list[tuple[float, int]]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, (code, args) in cases.items():
            runs[name].append(in_process(code, *args))
    return {
        name: (statistics.median(took for took, _ in found), max(peak for _, peak in found))
        for name, found in runs.items()
    }


def fresh(path: Path) -> Path:
    """Return the path with nothing there."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def table(rows: list[Row]) -> str:
    """Return the rows as Markdown."""
    out = ["| work | against | ratio | asked | met | detail |", "|---|---|---|---|---|---|"]
    for row in rows:
        sign = ">=" if row.more else "<="
        met = "yes" if row.met else "**no**"
        out.append(f"| {row.work} | {row.against} | {row.ratio:.2f} | {sign} {row.bound:g} | {met} | {row.detail} |")
    return "\n".join(out)


def machine() -> str:
    """Return what the numbers were taken on, as far as it matters for ratios."""
    import duckdb
    import numpy
    import pyarrow
    import scipy
    from llvmlite import binding  # type: ignore[import-untyped]

    cores, has = len(os.sched_getaffinity(0)), binding.get_host_cpu_features()
    vectors = next((bits for name, bits in (("avx512f", 512), ("avx2", 256)) if has.get(name)), 128)
    versions = f"Python {platform.python_version()}, numpy {numpy.__version__}, scipy {scipy.__version__}"
    versions += f", pyarrow {pyarrow.__version__}, duckdb {duckdb.__version__}"
    return f"{cores} cores, vectors of {vectors} bits, {versions}"
