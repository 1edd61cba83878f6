"""Run cases under a memory limit and report the peak of each: ``make memory``.

Each case runs on tiny tensors first, which imports libraries and compiles kernels. Then the peak of the resident bytes
counts anew (``clear_refs``). Its growth may reach the limit and ``SLACK_BYTES``, beyond the arrays of the result.
"""

from __future__ import annotations

import argparse
import gc
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import sparrow as sp
from sparrow.runtime import memory
from tests.memory.cases import CASES, Case, Data, consume

SLACK_BYTES = 200_000_000
"""Growth allowed beyond the limit."""


STORE = """
import sys
from pathlib import Path
from tests.memory.cases import Data
data = Data(Path(sys.argv[1]), int(sys.argv[2]))
for name in sys.argv[3:]: data.path_of(name)
"""


def read_status(key: str) -> int:
    """Return a number of bytes from the status of the process."""
    with open("/proc/self/status") as file:
        return int(file.read().partition(f"{key}:")[2].split()[0]) * 1024


def reset_peak() -> int:
    """Return the resident bytes, from which the peak counts anew."""
    gc.collect()
    memory.trim()
    Path("/proc/self/clear_refs").write_text("5")
    return read_status("VmRSS")


def list_cases(patterns: list[str]) -> dict[str, Case]:
    """Return cases by name and number: all, or those of some patterns."""
    found = {
        f"{name}:{number}": one
        for name, calls in CASES.items()
        for number, one in enumerate(calls if isinstance(calls, list) else [calls])
    }
    return {name: one for name, one in found.items() if not patterns or any(_matches(name, p) for p in patterns)}


def _matches(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else pattern in (name, name.rpartition(":")[0])


class Timeout(BaseException):
    """A case took longer than it may."""


def run(one: Case, data: Data, seconds: int) -> dict[str, Any]:
    """Run a case; return outcome and peak, in bytes beyond start and result."""

    def stop(*_: Any) -> None:
        raise Timeout

    before, began, held, outcome = reset_peak(), time.monotonic(), 0, "ok"
    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            held = consume(one(data))
    except sp.errors.TooLargeError as error:
        outcome = f"refused: {error}"
    except Timeout:
        outcome = "timeout"
    except sp.errors.UnsupportedError as error:
        outcome = f"unsupported: {error}"
    except Exception as error:  # noqa: BLE001 reported
        outcome = f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
    peak = read_status("VmHWM")
    seconds_taken = time.monotonic() - began
    shutil.rmtree(data.folder / "scratch", ignore_errors=True)
    return {"outcome": outcome, "start": before, "growth": peak - before - held, "held": held, "seconds": seconds_taken}


def create(data: Data, names: set[str]) -> None:
    """Store missing tensors in another process, whose memory does not count."""
    if any(not (data.folder / name).exists() for name in names):
        command = [sys.executable, "-c", STORE, str(data.folder), str(data.nnz), *sorted(names)]
        subprocess.run(command, check=True)


def measure(names: list[str], data: Data, given: argparse.Namespace) -> None:
    """Run cases in this process and print the result of each."""
    with tempfile.TemporaryDirectory() as folder:
        small = Data(Path(folder), 2000)
        sp.config(memory_limit=given.limit, progress=False)
        allowed = memory.limit() + given.slack
        for name in names:
            one = list_cases([name])[name]
            found = run(one, small, given.seconds)  # imports and compiles what the case needs
            create(data, small.used)
            if found["outcome"] != "timeout":
                found = run(one, data, given.seconds)
            refused = found["outcome"].startswith(("refused", "unsupported", "timeout"))
            found["wrong"] = found["growth"] > allowed or not (found["outcome"] == "ok" or refused)
            print(json.dumps({"name": name, **found}), flush=True)


def main() -> int:
    """Run the command line; return 1 if a case exceeds the limit or fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.memory.measure", description=__doc__)
    parser.add_argument("folder", type=Path, help="of the stored tensors; they are created if they do not exist")
    parser.add_argument("cases", nargs="*", help="names, or beginnings with *; all by default")
    parser.add_argument("--nnz", type=int, default=100_000_000, help="elements of 16 bytes of each tensor")
    parser.add_argument("--limit", default="160MB", help="memory limit of sparrow")
    parser.add_argument("--slack", type=int, default=SLACK_BYTES, help="bytes allowed beyond the limit")
    parser.add_argument("--seconds", type=int, default=600, help="for one case")
    parser.add_argument("--processes", type=int, default=40, help="run one after the other, for parts of the cases")
    given = parser.parse_intermixed_args()
    data, names = Data(given.folder, given.nnz), list(list_cases(given.cases))
    if given.processes == 1 or len(names) == 1:
        measure(names, data, given)
        return 0
    size, wrong = -(-len(names) // given.processes), []
    options = ["--processes=1", *(f"--{name}={getattr(given, name)}" for name in ("nnz", "limit", "slack", "seconds"))]
    for start in range(0, len(names), size):
        part = names[start : start + size]
        command = [sys.executable, "-m", "tests.memory.measure", str(given.folder), *part, *options]
        missing = dict.fromkeys(part)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            for line in child.stdout:
                one = json.loads(line)
                del missing[one["name"]]
                mark = "WRONG" if one["wrong"] else ""
                text = f"{one['growth'] / 1e6:8.0f} MB {one['seconds']:7.1f} s {mark:6}{one['outcome'][:60]}"
                print(f"{one['name']:40s}{text}", flush=True)
                wrong += [one["name"]] if one["wrong"] else []
        for name in missing:
            print(f"{name:40s} the process died")
            wrong.append(name)
    print(f"{len(names)} cases, {len(wrong)} wrong: {' '.join(wrong)}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
