"""Start of the program and of the library: CPU seconds of a new process."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence

from harness import Row

COMMANDS = {
    "sparrow --help": ["--help"],
    "sparrow --version": ["--version"],
    "sparrow sql -h": ["sql", "-h"],
    "sparrow ingest columns -h": ["ingest", "columns", "-h"],
}
TYPED = "sparrow sql query web=web."
COMPLETION = {"_SPARROW_COMPLETE": "complete_bash", "COMP_WORDS": TYPED, "COMP_CWORD": str(TYPED.count(" "))}
LIMIT_SECONDS = 0.15


def run(rounds: int) -> list[Row]:
    """Return a row per command, beside the goal, and for the library, beside SciPy."""
    commands = {name: cpu_seconds(["-m", "sparrow", *words], rounds) for name, words in COMMANDS.items()}
    commands["completion of w=web."] = cpu_seconds(["-m", "sparrow"], rounds, COMPLETION)
    out = [
        Row(name, f"{LIMIT_SECONDS} s of CPU", seconds / LIMIT_SECONDS, 1.0, f"{1e3 * seconds:.0f} ms")
        for name, seconds in commands.items()
    ]
    theirs = cpu_seconds(["-c", "import scipy.sparse"], rounds)
    for name, code in {
        "import sparrow": "import sparrow",
        "import sparrow, first tensor": "import sparrow; sparrow.eye(3)",
    }.items():
        ours = cpu_seconds(["-c", code], rounds)
        detail = f"{1e3 * ours:.0f} ms : {1e3 * theirs:.0f} ms"
        out.append(Row(name, "import scipy.sparse", ours / theirs, 2.0, detail))
    return out


def cpu_seconds(words: Sequence[str], rounds: int, environment: Mapping[str, str] | None = None) -> float:
    """Return the least CPU time of a new Python, after a run that writes byte code."""
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    found = []
    for _ in range(rounds + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, *words], stdout=subprocess.DEVNULL, check=True, env=settings | (environment or {})
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(found[1:])
