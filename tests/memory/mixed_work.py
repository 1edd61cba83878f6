"""Mixed work in one process, to find memory that is never freed.

Run it by ``python -m tests.memory.mixed_work --minutes 20``.

Each round opens tensors, queries, writes, multiplies, fits models and deletes what it made. Rounds end with a line of
JSON: resident and anonymous bytes, those of Arrow and of the buffer pool, and reservations. The first rounds import
libraries, compile kernels and fill caches, which have bounds; later ones must not grow.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import sparrow as sp
from sparrow.runtime import buffer_pool, memory
from tests.memory.measure import read_status

numpy: Any = np  # whose types know no tensors

STEPS: dict[str, Callable[[Any, Any, Path], Any]] = {
    "query": lambda A, B, d: (
        sp.sql("select d0, sum(value) from A group by d0 order by 2 desc limit 9", A=A).fetchall(),
        sp.sql("select count(*) from A join B using (d0, d1)", A=A, B=B).fetchall(),
    ),
    "read": lambda A, B, d: (
        A[5:90].to_numpy(),
        A[:, ::7].sum(axis=0).to_numpy(),
        (A * B).nnz,
        (A + B).max(axis=1).nnz,
    ),
    "export": lambda A, B, d: (A[:500].to_pandas(), A[:500].to_polars(), A[:500].to_scipy(), sp.export(A, d / "A.csv")),
    "ingest": lambda A, B, d: sp.ingest.columns(d / "A.csv", d / "I", coords=["d0", "d1"], value="value").verify(),
    "write": lambda A, B, d: (A.__setitem__(slice(3, 40), 0), A.put([[1, 2], [3, 4]], 5.0), A.__setitem__(A > 0.99, 1)),
    "append": lambda A, B, d: (A.append(B * 2, duplicates="last"), A.compact(), A.vacuum("0 seconds")),
    "product": lambda A, B, d: (
        (A @ B).nnz,
        A @ np.ones(A.shape[1]),
        (A[:900] @ B).save(d / "P"),
        sp.stack([A, B]).nnz,
    ),
    "sort": lambda A, B, d: (sp.sort(A).nnz, A.T.save(d / "T"), sp.unique_counts(A), numpy.median(A, axis=0).nnz),
    "graph": lambda A, B, d: (sp.graph.pagerank(A, tol=1e-3).nnz, sp.graph.bfs(A, 0).nnz, sp.graph.triangles(A).nnz),
    "solve": lambda A, B, d: (sp.linalg.svds(A, 2), sp.linalg.lsqr(A, np.ones(len(A)), iter_lim=3)),
    "fit": lambda A, B, d: (
        sp.models.ALS(factors=4, epochs=1).fit(A).recommend([1, 2]),
        sp.models.LogisticRegression(epochs=1, batch_size=512).fit(A, np.arange(len(A)) % 2).predict(B),
    ),
    "refuse": lambda A, B, d: _refuse(A),
}


def _refuse(A: sp.Tensor) -> None:
    with sp.config(memory_limit="1MB"), contextlib.suppress(sp.errors.TooLargeError):
        A.compute()


def run_round(folder: Path, seed: int, steps: list[str]) -> None:
    """Do some steps on new tensors."""
    work = folder / str(seed)
    work.mkdir()
    for name, number in (("A", seed), ("B", seed + 1)):
        sp.random((4000, 4000), nnz=60_000, seed=number).save(work / name)
    for step in steps:
        STEPS[step](sp.open(work / "A"), sp.open(work / "B"), work)
    shutil.rmtree(work)


def read_sizes() -> dict[str, int]:
    """Return sizes of the process in bytes, after what can be freed was."""
    gc.collect()
    memory.trim()
    return {
        "rss": read_status("VmRSS"),
        "anonymous": read_status("RssAnon"),
        "arrow": pa.total_allocated_bytes(),
        "pool": buffer_pool.cached_bytes(),
        "reserved": memory.limit() - memory.available(),
    }


def main() -> int:
    """Run the command line; return 1 if memory grows beyond what is allowed."""
    parser = argparse.ArgumentParser(prog="python -m tests.memory.mixed_work", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=1 << 30, help="stop after as many, if that is earlier")
    parser.add_argument("--warmup", type=int, default=10, help="rounds that may grow")
    parser.add_argument("--growth", type=int, default=60_000_000, help="bytes of growth allowed after these")
    parser.add_argument("--seed", type=int, default=0, help="of the tensors of the first round")
    parser.add_argument("--steps", nargs="*", default=list(STEPS), help="some of the steps")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    sp.config(memory_limit="300MB", progress=False)
    end = time.monotonic() + 60 * given.minutes
    found: list[int] = []
    with tempfile.TemporaryDirectory(prefix="sparrow-mixed-") as folder:
        while len(found) < given.rounds and (time.monotonic() < end or len(found) < 2):
            run_round(Path(folder), given.seed + 10 * len(found), given.steps)
            sizes: dict[str, Any] = read_sizes()
            print(json.dumps({"round": len(found), **sizes}), flush=True)
            found.append(sizes["anonymous"])
    least = max(found[: given.warmup])
    grown = max(found[given.warmup :], default=least) - least
    print(f"{len(found)} rounds, grown by {grown / 1e6:.1f} MB after the first {given.warmup}", file=sys.stderr)
    return int(grown > given.growth)


if __name__ == "__main__":
    sys.exit(main())
