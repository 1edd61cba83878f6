"""Randomized fault trial for any length of time: ``make trial MINUTES=10``.

Rounds of nine kinds take turns, each with a seed: killed processes, interrupted processes, racing writers, full disks,
flipped bytes of tensors, of checkpoints and of models, arrays with wrong indices, malformed files, memory that grows.
Failures are printed
with the command that repeats them, and a table at the end.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import sparrow as sp
from sparrow import errors, storage
from tests.faults import interrupted, test_damage, test_leftovers, test_storage_kill, test_storage_race
from tests.faults.dying import FullDisk
from tests.faults.writers import SCHEMA, SIZES, commit, edit, read_all, start
from tests.interop.damaged import SOURCES
from tests.models import test_checkpoint_damage

TEXTS = {
    "edges": b"# a graph\n0 1 2.5\n1\t7 -3e2\n12  4 1\n4 4 0.001\n",
    "libsvm": b"+1 1:0.5 7:2 # why\n-1 3:1e-3\n1 qid:3 2:7\n\n-1 1:1 2:2 9:-4.25\n",
    "columns": b'user,film,stars\nada,7,4.5\n"b, ob",12,3\ncarl,0,-1\n',
}
"""A sound file for each reader, which the fuzz makes others of."""


@dataclass
class Kind:
    """One kind of rounds and what came of them."""

    name: str
    what: str
    run: Callable[[Path, int, int], tuple[int, list[str]]]
    """Takes a folder, a seed and about how many events; returns how many there were, and what went wrong."""
    events: int
    """In a round."""
    rounds: int = 0
    happened: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)


def kills(folder: Path, seed: int, events: int) -> tuple[int, list[str]]:
    """Kill processes that edit a tensor, and that create some."""
    processes = test_storage_kill.processes()
    (folder / "made").mkdir()
    test_storage_kill.killed_while_editing(folder / "t", processes, events // 2, seed)
    test_storage_kill.killed_while_creating(folder / "made", processes, events - events // 2, seed)
    return events, []


def interrupts(folder: Path, seed: int, events: int) -> tuple[int, list[str]]:
    """Send Ctrl-C to a process that multiplies, ingests, saves, queries and fits."""
    return interrupted.interrupt(test_storage_kill.processes(), folder, seed, events)


def races(folder: Path, seed: int, events: int) -> tuple[int, list[str]]:
    """Let processes write to the same tensors at once."""
    raced = test_storage_race.race(folder)
    test_storage_race.test_disjoint_appends_all_land(raced)
    test_storage_race.test_increments_lose_nothing(raced)
    test_storage_race.test_inserts_have_one_winner(raced)
    return 3 * test_storage_race.WRITERS * test_storage_race.COUNT, []


def faults(folder: Path, seed: int, events: int) -> tuple[int, list[str]]:
    """Fill the disk at any step of commits, add_order, compaction and exports."""
    draw, wrong = random.Random(seed), []
    source = test_leftovers.tensor()
    handle = storage.save(folder / "t", SCHEMA, [start(seed)], sizes=SIZES)
    version = handle.current.version
    for number in range(events):
        steps = draw.randint(1, 40)
        if draw.random() < 0.5:
            name, work = draw.choice(sorted(test_leftovers.EXPORTS.items()))
            path = folder / "out" / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"before")
            error = test_leftovers.run_interrupted(
                FullDisk(steps), lambda work=work, path=path: work(source, path)  # type: ignore[misc]
            )  # fmt: skip
            left = [each.name for each in path.parent.iterdir()]
            path.unlink()
            if left != [name] or not isinstance(error, errors.StorageError | None):
                wrong.append(f"{number}: {name}, full from step {steps} on: {error!r}, {left} are there")
            continue
        name = draw.choice(["edit", *test_leftovers.WRITES])
        before = read_all(handle.current)
        writes = {"edit": lambda one: commit(one, edit(seed + number)), **test_leftovers.WRITES}  # noqa: B023
        error = test_leftovers.run_interrupted(FullDisk(steps), lambda: writes[name](handle))  # noqa: B023
        handle = storage.open(folder / "t", sizes=SIZES)
        lost = handle.current.version == version and not test_storage_kill.same(read_all(handle.current), before)
        if lost or handle.verify() or not isinstance(error, errors.StorageError | None):
            wrong.append(f"{number}: {name}, full from step {steps} on: {error!r}, {handle.verify()}")
        version = handle.current.version
    return events, wrong


def flips(folder: Path, seed: int, events: int) -> tuple[int, list[str]]:
    """Flip, cut, zero and swap bytes of any file and read in every way."""
    return events, list(test_damage.damage(events, seed, folder))


def fits(folder: Path, seed: int, events: int) -> tuple[int, list[str]]:
    """Damage checkpoints of training and saved models."""
    return events, list(test_checkpoint_damage.damage_fits(folder, seed, events))


def arrays(folder: Path, seed: int, events: int) -> tuple[int, list[str]]:
    """Pass arrays with wrong indices to all that takes some, in other processes."""
    wrong = []
    for source in SOURCES:
        cases = str(max(events // len(SOURCES), 1))
        command = [sys.executable, "-W", "error", "-m", "tests.interop.damaged", source, str(seed), cases, str(folder)]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode:
            wrong.append(f"{source}: exit code {run.returncode}\n{run.stderr[-2000:]}")
    return events, wrong


def growth(folder: Path, seed: int, events: int) -> tuple[int, list[str]]:
    """Do mixed work in one process, whose memory must not grow after the first half."""
    command = [sys.executable, "-m", "tests.memory.mixed_work", "--seed", str(seed)]
    rounds = ["--rounds", str(events), "--warmup", str(-(-events // 2)), "--minutes", "60"]
    run = subprocess.run([*command, *rounds], capture_output=True, text=True)
    return events, [f"exit code {run.returncode}: {run.stderr[-2000:]}"] if run.returncode else []


def fuzz(folder: Path, seed: int, events: int) -> tuple[int, list[str]]:
    """Feed readers with mutated files; they read them or raise an error."""
    draw, wrong = random.Random(seed), []
    for number in range(events):
        reader = draw.choice(sorted(TEXTS))
        data = rubbish(TEXTS[reader], draw)
        path, target = folder / f"{number}.txt", folder / f"{number}.sparrow"
        path.write_bytes(data)
        options: dict[str, Any] = {"coords": ["user", "film"], "value": "stars"} if reader == "columns" else {}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that a file has no rows
                made = getattr(sp.ingest, reader)(path, target, **options)
            found = made["X"] if reader == "libsvm" else made
            assert np.ndim(found.sum()) == 0
            assert found.verify() == []
        except errors.SparrowError as error:
            if target.exists():
                wrong.append(f"{number}: {reader} of {data!r} left something behind an error: {error}")
        except BaseException as error:  # noqa: BLE001 that there is none is what is tried
            wrong.append(f"{number}: {reader} of {data!r}: {type(error).__name__}: {error}")
    return events, wrong


def rubbish(data: bytes, draw: random.Random) -> bytes:
    """Return a text after some random changes."""
    for _ in range(draw.randint(1, 4)):
        at, end = sorted((draw.randrange(len(data) + 1), draw.randrange(len(data) + 1)))
        piece = draw.choice([
            bytes([draw.randrange(256)]), b"", data[at:end], b"\n", b"\t", b'"', b":", b"-", b"nan", b"\x00",
            b"9" * draw.choice([1, 19, 400]), b"1e999", b"\xff\xfe", b"\r\n", b" " * 70_000,
        ])  # fmt: skip
        data = data[:at] + piece + data[draw.choice([at, end]) :]
    return data


def kinds(share: float = 1.0) -> list[Kind]:
    """Return the kinds; a share of the events of a usual round."""
    told = [
        ("kills", "processes killed while they write", kills, 20),
        ("interrupts", "Ctrl-C in products, ingest, writes, SQL and fits", interrupts, 60),
        ("races", "writes of processes at the same time", races, 180),
        ("faults", "writes to a disk that is full", faults, 100),
        ("flips", "files damaged, each read in several ways", flips, 100),
        ("fits", "checkpoints and models damaged", fits, 80),
        ("arrays", "arrays with wrong indices", arrays, 400),
        ("growth", "memory of a process that does all kinds of work", growth, 40),
        ("fuzz", "files that are not what readers expect", fuzz, 200),
    ]
    return [Kind(name, what, run, max(int(events * share), 4)) for name, what, run, events in told]


def one_round(kind: Kind, seed: int) -> None:
    """Run a round and count what came of it."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sparrow-trial-") as folder, sp.config(progress=False):
        try:
            happened, wrong = kind.run(Path(folder), seed, kind.events)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            happened, wrong = 0, [f"{type(error).__name__}: {error}\n{traceback.format_exc()}"]
    kind.rounds += 1
    kind.happened += happened
    kind.seconds += time.monotonic() - began
    kind.wrong += [f"{kind.name}, seed {seed}: {each}" for each in wrong]


def table(found: list[Kind]) -> str:
    """Return the results of all rounds, in Markdown."""
    rows = [
        f"| {k.name} | {k.what} | {k.rounds} | {k.happened:,} | {len(k.wrong)} | {k.seconds:.0f} s |" for k in found
    ]
    return "\n".join(["| kind | events | rounds | events run | wrong | time |", "|---|---|--:|--:|--:|--:|", *rows])


def main(words: list[str] | None = None) -> int:
    """Run the trial; return 1 if anything went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.trial", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="for how long; each kind has one round at least")
    parser.add_argument("--seed", type=int, default=None, help="of the first round; by default another each time")
    parser.add_argument(
        "--kind", choices=[kind.name for kind in kinds()], default=None, help="rounds of this kind only"
    )
    given = parser.parse_args(words)
    seed = random.SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
    found = [kind for kind in kinds() if given.kind in (None, kind.name)]
    end = time.monotonic() + 60 * given.minutes
    try:
        while True:
            kind = min(found, key=lambda kind: (kind.rounds > 0, kind.seconds))  # about as long on each
            if kind.rounds and time.monotonic() >= end:
                break
            left = max(end - time.monotonic(), 0)
            print(f"\r{kind.name}, seed {seed}, {left / 60:.1f} minutes left  ", end="", file=sys.stderr, flush=True)
            before = len(kind.wrong)
            one_round(kind, seed)
            for each in kind.wrong[before:]:
                print(f"\n{each}\nagain: python -m tests.trial --minutes 0 --kind {kind.name} --seed {seed}")
            seed += 1
    except KeyboardInterrupt:
        pass
    print(file=sys.stderr)
    print(table(found))
    return int(any(kind.wrong for kind in found))


if __name__ == "__main__":
    sys.exit(main())
