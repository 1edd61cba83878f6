"""Program that writes and reads while system calls fail.

Run it with ``disk.c`` preloaded.
Every case is repeated with the first, the second, ... call failing, until it succeeds. What is wrong is printed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import sparrow as sp
import sparrow.testing

WRITES, READS = 0, 1
FOREVER = 1 << 40
DONE = ("is committed, but", "is complete, but", "is written, but", "may be committed or not")
"""Texts that say what was done before the error."""


class Disk:
    """The calls of the preloaded library."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(os.environ["LD_PRELOAD"])
        self._library.disk_call.restype = ctypes.c_char_p
        self._library.disk_arm.argtypes = [ctypes.c_char_p, ctypes.c_int, *[ctypes.c_long] * 2, ctypes.c_int]

    def arm(self, folder: Path, sort: int, first: int, last: int, code: int) -> None:
        """Let calls below a folder fail."""
        self._library.disk_arm(os.fsencode(folder), sort, first, last, code)

    def disarm(self) -> tuple[int, str]:
        """Return the number of calls so far and the first that failed; stop failing."""
        found = int(self._library.disk_count()), str(self._library.disk_call().decode())
        self._library.disk_arm(b"", 0, 0, 0, 0)
        return found


def tensor_with_labels() -> Any:
    """Return a tensor whose dimensions have labels."""
    names = {"u": ["a", "b", "c"], "i": ["x", "y", "z"]}
    return sp.from_coords([[0, 1, 2], [0, 1, 2]], [1.0, 2.0, 3.0], shape=(3, 3), dims=("u", "i"), labels=names)


def build(folder: Path) -> None:
    """Make tensors with versions, labels and an order, a model and text files."""
    folder.mkdir()
    sp.random((60, 40), nnz=300, seed=0).save(folder / "t")
    sp.open(folder / "t")[0, 0] = 5.0
    tensor_with_labels().save(folder / "l")
    sp.random((60, 40), nnz=300, seed=0).save(folder / "o", orders=[(1, 0)])
    sp.open(folder / "o")[0, 0] = 5.0
    sp.models.LinearRegression().fit(np.eye(2), [1.0, 2.0]).save(folder / "m")
    (folder / "e.txt").write_text("0 1\n1 2\n2 0\n")
    (folder / "e.csv").write_text("u,i,value\na,x,1\nb,y,2\n")
    (folder / "new.csv").write_text("u,i,value\nd,x,1\nb,w,2\n")
    (folder / "s.svm").write_text("1 1:1 2:2\n0 1:3\n")


def edit(folder: Path) -> None:
    """Change elements in one commit."""
    with sp.open(folder / "t").edit() as edits:
        edits[0, 1] = 3.0
        edits[4, 4] = 5.0


def append_in_batches(folder: Path) -> None:
    """Append elements of which few fit in memory."""
    with sparrow.testing.strategy("append_in_batches"):
        sp.open(folder / "t").append(sp.random((60, 40), nnz=40, seed=3), duplicates="sum")


def export(folder: Path, name: str) -> None:
    """Export a tensor to a file."""
    sp.export(sp.open(folder / "t"), folder / name)


CASES: dict[str, dict[str, Callable[[Path], Any]]] = {
    "commits": {
        "append": lambda f: sp.open(f / "l").append(f / "new.csv"),
        "large append": append_in_batches,
        "edit": edit,
        "resize": lambda f: sp.open(f / "t").resize((100, 100)),
        "compact": lambda f: sp.open(f / "o").compact("small"),
        "restore": lambda f: sp.open(f / "t").restore(0),
        "add_order": lambda f: sp.open(f / "t").add_order((1, 0)),
        "add_order again": lambda f: sp.open(f / "o").add_order((1, 0)),
    },
    "files": {
        "save": lambda f: tensor_with_labels().save(f / "x" / "y" / "n"),
        "overwrite": lambda f: tensor_with_labels().save(f / "o", overwrite=True, orders=[(1, 0)]),
        "model": lambda f: sp.models.LinearRegression().fit(np.eye(2), [1.0, 3.0]).save(f / "m", overwrite=True),
        "edges": lambda f: sp.ingest.edges(f / "e.txt", f / "n"),
        "columns": lambda f: sp.ingest.columns(f / "e.csv", f / "t", coords=["u", "i"], value="value", overwrite=True),
        "libsvm": lambda f: sp.ingest.libsvm(f / "s.svm", f / "n"),
    },
    "exports": {
        name: partial(export, name=name)
        for name in ("n.csv", "n.parquet", "n.npz", "n.mtx.gz", "n.h5ad", "n.bsp.h5")
    },
    "reads": {
        "elements": lambda f: sp.open(f / "t").to_numpy().tolist(),
        "labels": lambda f: float(sp.open(f / "l").sel(u="b", i="y")),
        "order": lambda f: sp.open(f / "o").T[3].to_numpy().tolist(),
        "sql": lambda f: sp.sql("select sum(value) from A", A=sp.open(f / "t")).fetchall(),
        "duckdb": lambda f: sp.matmul(sp.open(f / "t"), np.ones(40), engine="duckdb").round(9).tolist(),
        "history": lambda f: len(sp.open(f / "t").history()),
        "old version": lambda f: sp.open(f / "t", version=0).to_numpy().tolist(),
        "model": lambda f: sp.models.load(f / "m").coef_.tolist(),
    },
}  # fmt: skip


def tree(folder: Path) -> list[str]:
    """Return everything in a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def state(folder: Path) -> dict[str, Any]:
    """Return versions and elements of all tensors."""
    found = {name: sp.open(folder / name) for name in ("t", "l", "o")}
    return {name: (each.version, each.shape, each.to_numpy().tobytes()) for name, each in found.items()}


def problems(
    error: BaseException | None, code: int, before: tuple[Any, Any], after: tuple[Any, Any], damage: list[str]
) -> Iterator[str]:
    """Yield what is wrong with an error, and with what it left."""
    if error is None:
        return
    text, changed = str(error), before != after
    if not isinstance(error, sp.errors.StorageError) or isinstance(error, sp.errors.CorruptionError):
        yield f"{type(error).__module__}.{type(error).__name__}"
    if "\x1b" in text:
        yield "it has colours"
    if ("the disk is full" if code == errno.ENOSPC else os.strerror(code)) not in text:
        yield "the reason is missing"
    if "nothing was changed" in text and changed:
        yield "something was changed"
    if changed and not any(done in text for done in DONE):
        yield "it does not say what was changed"
    litter = [name for name in after[0] if name not in before[0] and (".partial" in name or ".tmp" in name)]
    if litter or damage:
        yield f"{litter} are left, {damage}"


def run(name: str, work: Callable[[Path], Any], sort: int, code: int, once: bool, base: Path) -> Iterator[str]:
    """Run a case with each of its calls failing."""
    disk, results = Disk(), set()
    before = tree(base), state(base)
    for number in range(1, 500):
        folder = base.parent / f"{name} {number}"
        shutil.copytree(base, folder)
        error, result = None, None
        disk.arm(folder, sort, number, number if once else FOREVER, code)
        try:
            result = work(folder)
        except BaseException as raised:  # noqa: BLE001 its type is checked
            error = raised
        count, call = disk.disarm()
        where = f"{name}: call {number}, {call.replace(str(base.parent), '')}: {error}: "
        after, damage = before, []
        if (names := tree(folder)) != before[0]:  # every change adds a file
            after = names, state(folder)
            damage = [str(each) for path in ("t", "l", "o") for each in sp.open(folder / path).verify()]
        yield from (where + each for each in problems(error, code, before, after, damage))
        if error is None and sort == READS and after == before:
            results.add(repr(result))
        if error is None and sort == WRITES and not once and count >= number:  # or another way was found
            yield where + "it did not fail"
        shutil.rmtree(folder)
        if count < number:
            break
    if len(results) > 1:
        yield f"{name}: results differ: {results}"


def main(cases: str, sort: int, code: int, once: bool) -> int:
    """Run cases and return the number of problems."""
    warnings.simplefilter("ignore")
    found = 0
    with tempfile.TemporaryDirectory() as folder, sp.config(progress=False):
        base = Path(folder, "base")
        build(base)
        for name, work in CASES[cases].items():
            for problem in run(name, work, sort, code, once, base):
                sys.stdout.write(f"{problem}\n")
                found += 1
    return found


if __name__ == "__main__":
    kind, sort_of_call, error_name, how_often = sys.argv[1:]
    sys.exit(min(main(kind, int(sort_of_call == "read"), getattr(errno, error_name), how_often == "once"), 100))
