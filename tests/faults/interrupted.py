"""Mixed work interrupted by Ctrl-C at random moments; free of pytest imports."""

from __future__ import annotations

import faulthandler
import os
import random
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

import sparrow as sp
import sparrow.testing

LONGEST_SECONDS = 0.5
"""Longest work before the signal."""
PATIENCE_SECONDS = 120
"""Until a process that does not answer counts as hanging."""


def _product(folder: Path, draw: random.Random) -> None:
    A = sp.open(folder / "t")
    dense = A.to_numpy()
    np.testing.assert_allclose((A @ A.T).compute().to_numpy(), dense @ dense.T)
    np.testing.assert_allclose(A @ np.ones(A.shape[1]), dense.sum(axis=1))
    np.testing.assert_allclose((abs(A - 2 * A[::-1]).sum(axis=0)).to_numpy(), abs(dense - 2 * dense[::-1]).sum(axis=0))


def _sort_spilled(folder: Path, draw: random.Random) -> None:
    A = sp.random((500, 400), nnz=20_000, seed=draw.randrange(99))
    with sparrow.testing.tune("sorting", budget_bytes=65_536):
        assert A.T.compute().nnz == A.nnz


def _edit(folder: Path, draw: random.Random) -> None:
    A = sp.open(folder / "t")
    row = draw.randrange(A.shape[0])
    A[row] = sp.asarray(np.arange(A.shape[1]) % draw.randint(2, 9))
    A.put(([row, 0], [1, draw.randrange(A.shape[1])]), [3.0, 4.0])
    with A.edit() as edit:
        edit[:, 3] = 0
        edit[row, 4] = 7
    A[row] *= 2
    with sparrow.testing.strategy("append_in_batches"):
        A.append(sp.random(A.shape, nnz=60, seed=row), duplicates="sum")


def _maintain(folder: Path, draw: random.Random) -> None:
    A = sp.open(folder / "t")
    draw.choice([lambda: A.add_order((1, 0)), A.compact, lambda: A.vacuum("0 seconds")])()


def _save(folder: Path, draw: random.Random) -> None:
    A = sp.random((300, 200), nnz=3000, seed=draw.randrange(99))
    A.save(folder / f"saved{draw.randrange(3)}", overwrite=True)
    (2 * A).save(folder / "new" / "nested" / f"{draw.randrange(3)}", overwrite=True)


def _ingest(folder: Path, draw: random.Random) -> None:
    sp.ingest.edges(folder / "edges.txt", folder / "edges", overwrite=True)
    sp.ingest.columns(folder / "rows.csv", folder / "rows", coords=["u", "i"], value="v", overwrite=True)
    sp.ingest.libsvm(folder / "rows.svm", folder / "bundle", overwrite=True)


def _export(folder: Path, draw: random.Random) -> None:
    name = draw.choice(["out.csv", "out.parquet", "out.npz", "out.mtx.gz", "out.h5ad", "out.bsp.h5"])
    sp.export(sp.open(folder / "t"), folder / name, overwrite=True)


def _sql(folder: Path, draw: random.Random) -> None:
    A = sp.open(folder / "t")
    query = "select d0, sum(value) as s from A group by d0 order by s, d0"
    rows = sp.sql(query, A=A).fetchall()
    assert sp.sql(query, A=A).to_arrow_table().num_rows == len(rows)
    assert sp.sql(query, A=A).pl().height == len(rows)
    dense = A.to_numpy()
    np.testing.assert_allclose((A @ A.T).compute("duckdb").to_numpy(), dense @ dense.T)


def _fit(folder: Path, draw: random.Random) -> None:
    shutil.rmtree(folder / "done", ignore_errors=True)
    R = sp.random((60, 40), nnz=600, seed=1)
    model = sp.models.ALS(factors=4, epochs=3, checkpoint=str(folder / "checkpoint"), seed=2).fit(R)
    assert np.isfinite(model.recommend([3])[1]).all()
    model.save(folder / "als", overwrite=True)
    labels = np.arange(60) % 2
    linear = sp.models.LogisticRegression(epochs=3).fit(R, labels)
    linear.save(folder / "linear", overwrite=True)
    assert sp.models.load(folder / "linear").predict(R).shape == (60,)
    (folder / "checkpoint").rename(folder / "done")  # a half removed one would be damaged
    shutil.rmtree(folder / "done")


def _algorithms(folder: Path, draw: random.Random) -> None:
    G = sp.open(folder / "edges")
    assert np.isclose(np.asarray(sp.graph.pagerank(G)).sum(), 1.0)
    sp.graph.connected_components(G)
    sp.graph.bfs(G, 0)
    S = sp.asarray(np.eye(50) * 4 + np.diag(np.ones(49), 1) + np.diag(np.ones(49), -1))
    x = sp.linalg.cg(S, np.ones(50))[0]
    np.testing.assert_allclose(S @ x, np.ones(50), atol=1e-3)
    sp.linalg.svds(sp.open(folder / "t"), k=2)


WORKS: dict[str, Callable[[Path, random.Random], None]] = {
    "product": _product,
    "spilled sort": _sort_spilled,
    "edit": _edit,
    "maintenance": _maintain,
    "save": _save,
    "ingest": _ingest,
    "export": _export,
    "sql": _sql,
    "fit": _fit,
    "algorithms": _algorithms,
}


def prepare(folder: Path) -> None:
    """Write what the works read, and run each once."""
    sp.random((200, 100), nnz=2000, seed=1).save(folder / "t")
    draw = random.Random(5)
    edges = "".join(f"{draw.randrange(300)} {draw.randrange(300)}\n" for _ in range(3000))
    (folder / "edges.txt").write_text(edges)
    (folder / "rows.csv").write_text("u,i,v\n" + "".join(f"{k % 70},{k},{k % 5 + 0.5}\n" for k in range(3000)))
    (folder / "rows.svm").write_text("".join(f"{k % 2} {k % 9 + 1}:1 {k % 50 + 10}:2.5\n" for k in range(2000)))
    for name in ("ingest", *WORKS):
        WORKS[name](folder, draw)


def problems(folder: Path) -> list[str]:
    """Return the damages and leftovers of an interrupt."""
    found = [f"{path} is left" for path in folder.rglob("*") if path.name.endswith((".partial", ".partial.old"))]
    for log in folder.rglob("_delta_log"):
        name = log.parent.relative_to(folder)
        if "_orders" not in name.parts:
            found += [f"{name}: {each}" for each in sp.open(log.parent).verify()]
    for model in ("als", "linear"):
        if (folder / model).exists():
            sp.models.load(folder / model)
    return found


def _is_interrupt(dropped: str) -> bool:
    return dropped.startswith("KeyboardInterrupt()")


def work_until_interrupted(path: str, seed: int, events: int, parent: Connection) -> None:
    """Do mixed work until Ctrl-C, ``events`` times.

    Each time it sends None before the work, and the problems after it.
    """
    stacks = open(f"{path}-stacks", "w")  # noqa: SIM115 - open as long as the process
    faulthandler.register(signal.SIGUSR1, stacks)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a job in the background inherits that
    folder, draw = Path(path), random.Random(seed)
    dropped: list[str] = []
    before, sys.unraisablehook = sys.unraisablehook, lambda args: dropped.append(f"{args.exc_value!r} {args.object!r}")
    with sp.config(progress=False):
        prepare(folder)
        for _ in range(events):
            dropped.clear()
            doing = "nothing"
            try:
                parent.send(None)
                while not any(map(_is_interrupt, dropped)):  # Python cannot raise from a destructor
                    doing = draw.choice(sorted(WORKS))
                    WORKS[doing](folder, draw)
                wrong: list[str] = []
            except KeyboardInterrupt:
                wrong = []
            except BaseException as error:  # noqa: BLE001 - that there is none is what is tried
                wrong = [f"{doing}: {type(error).__name__}: {error}\n{traceback.format_exc()}"]
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # after an error the signal is still to come
            try:
                wrong += [f"{doing}: {each}" for each in problems(folder)]
                wrong += [f"{doing}: dropped {each}" for each in dropped if not _is_interrupt(each)]
            except Exception as error:  # noqa: BLE001 - so is that the files can be read
                wrong.append(f"after {doing}: {type(error).__name__}: {error}\n{traceback.format_exc()}")
            parent.send(wrong)
            signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.unraisablehook = before


def interrupt(processes: Any, folder: Path, seed: int, events: int) -> tuple[int, list[str]]:
    """Interrupt the work at random moments; return how often, and what went wrong."""
    draw = random.Random(seed)
    wrong: list[str] = []
    here, there = processes.Pipe()
    process = processes.Process(target=work_until_interrupted, args=(str(folder), seed, events, there))
    process.start()
    there.close()
    happened = 0
    try:
        for number in range(events):
            if not here.poll(PATIENCE_SECONDS) or here.recv() is not None:
                raise AssertionError(f"event {number} did not begin")
            if not here.poll(draw.random() * LONGEST_SECONDS):  # an error answers before the signal
                os.kill(process.pid, signal.SIGINT)
            if not here.poll(PATIENCE_SECONDS):
                os.kill(process.pid, signal.SIGUSR1)
                here.poll(1)
                stacks = Path(f"{folder}-stacks").read_text()
                raise AssertionError(f"event {number}: no answer to Ctrl-C in {PATIENCE_SECONDS} s\n{stacks}")
            wrong += [f"event {number}: {each}" for each in here.recv()]
            happened += 1
    except EOFError:
        process.join()
        wrong.append(f"event {happened}: the process ended with exit code {process.exitcode}")
    finally:
        if happened < events:
            process.kill()
        process.join()
        here.close()
        Path(f"{folder}-stacks").unlink(missing_ok=True)
    return happened, wrong
