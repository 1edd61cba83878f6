"""ALS: CPU time, recall and memory next to ``implicit``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from als_protocol import EPOCHS, Folded, Task, als, fit_implicit, in_turn, peer, web
from generate import links as rmat
from harness import DATA, Row, alternate, fresh, in_process

import sparrow as sp
from sparrow.models import evaluation
from sparrow.models.recommender import Recommender

# The first fit compiles; the one of many links is what is measured.
FIT = """
import sparrow as sp
path, tiny, factors, epochs, limit, buffer = args
sp.config(threads=2, progress=False, memory_limit=limit)
sp.models.ALS(factors=int(factors), epochs=1, buffer=buffer).fit(sp.open(tiny))
begin()
if int(epochs):
    sp.models.ALS(factors=int(factors), epochs=int(epochs), buffer=buffer).fit(sp.open(path))
"""


def run(small: bool) -> list[Row]:
    task = web(10)
    out: list[Row] = []
    if peer():
        for d in (16, 32) if small else (64, 128):
            out += _beside_implicit(task, d, rounds=1 if small else 3)
    else:
        print("implicit is not installed: no rows beside it. pip install implicit", file=sys.stderr)
    out += _recall(task, 32 if small else 128)
    if small:
        out += _beyond_buffers(rmat(15, 1_000_000), 16, "4MB")
    else:
        out += _beyond_buffers(rmat(21, 110_000_000), 64, "128MB")
    return out + _for_all_rows(4_000 if small else 40_000, 10_000 if small else 100_000)


def _beside_implicit(task: Task, d: int, rounds: int) -> list[Row]:
    """Compare CPU seconds per epoch of sparrow from Parquet with implicit in RAM."""
    csr = task.csr()
    goals = {"cg": 0.5, "exact": 1.5}
    for solver in goals:
        als(d, solver=solver, epochs=1).fit(task.train)
    cases = {solver: lambda solver=solver: als(d, solver=solver).fit(task.train) for solver in goals}
    took = in_turn({**cases, "implicit": lambda: fit_implicit(csr, d, EPOCHS)}, rounds)
    theirs = took["implicit"]
    out = []
    for solver, goal in goals.items():
        ours = took[solver]
        detail = (
            f"{csr.nnz / 1e6:.2f} M links, {EPOCHS} epochs: {ours.cpu / EPOCHS:.3f} s : {theirs.cpu / EPOCHS:.3f} s "
            f"of CPU, {ours.wall / EPOCHS:.3f} s : {theirs.wall / EPOCHS:.3f} s of time"
        )
        against = f"{peer()}, CG of 3 steps"
        out.append(Row(f'ALS epoch, "{solver}", d = {d}, CPU', against, ours.cpu / theirs.cpu, goal, detail))
    if d >= 128:  # below that more rows have as many links as factors and are solved by Cholesky too
        short = 2
        cholesky = in_turn({"it": lambda: fit_implicit(csr, d, short, cg=False)}, 1)["it"].cpu / short
        exact = took["exact"].cpu / EPOCHS
        detail = f"{exact:.3f} s : {cholesky:.3f} s of CPU"
        out.append(Row(f'ALS epoch, "exact", d = {d}, CPU', f"{peer()}, Cholesky", exact / cholesky, 0.15, detail))
    return out


def _recall(task: Task, d: int) -> list[Row]:
    found = {
        name: evaluation.evaluate(als(d, **given).fit(task.train), task.test, baseline=False)
        for name, given in _VARIANTS.items()
    }
    cg = found['"cg"']
    out = []
    for metric, goal in [("recall@20", 0.944), ("recall@50", 0.966)]:
        detail = f"{cg[metric]:.3f}, popularity {_popularity(task)[metric]:.3f}"
        out.append(Row(f'{metric}, "cg", d = {d}', f"the goal of {goal}", cg[metric] / goal, 1.0, detail, True))
    if peer():
        theirs = evaluation.evaluate(Folded(fit_implicit(task.csr(), d, EPOCHS)), task.test)
        for name in ('"cg"', '"exact"', '"subspace"'):
            gap = found[name]["recall@20"] - theirs["recall@20"]
            detail = f"{found[name]['recall@20']:.3f} : {theirs['recall@20']:.3f}; 1 is no gap, the bound one of -0.005"
            out.append(Row(f"recall@20, {name}, d = {d}", f"{peer()}, CG", 1 + gap, 0.995, detail, True))
    for dtype in ("bfloat16", "float16"):
        lost = cg["recall@20"] - found[dtype]["recall@20"]
        detail = f"{found[dtype]['recall@20']:.4f} : {cg['recall@20']:.4f}; 1 is no loss, the bound one of 0.002"
        out.append(Row(f"recall@20, {dtype} tables, d = {d}", "float32 tables", 1 - lost, 0.998, detail, True))
    return out


_VARIANTS = {
    '"cg"': {}, '"exact"': {"solver": "exact"}, '"subspace"': {"solver": "subspace"},
    "bfloat16": {"dtype": "bfloat16"}, "float16": {"dtype": "float16"},
}  # fmt: skip


def _popularity(task: Task) -> dict[str, float]:
    return evaluation.evaluate(evaluation.Popularity().fit(task.train), task.test)


def _beyond_buffers(A: sp.Tensor, d: int, buffer: str) -> list[Row]:
    """Measure an epoch that streams ratings: seconds, CPU seconds, peak memory."""
    tables = 4 * d * sum(A.shape)
    limit = 700_000_000 + tables
    tiny = rmat(10, 10_000)

    def fit(epochs: int, **given: Any) -> Callable[[], Any]:
        return lambda: als(d, epochs=epochs, **given).fit(A)

    als(d, epochs=1).fit(tiny)
    with sp.config(progress=False):
        held = in_turn({"1": fit(1), "3": fit(3)}, 1)
        with sp.config(memory_limit=limit):
            streamed = in_turn({"1": fit(1, buffer=buffer), "3": fit(3, buffer=buffer)}, 1)
    (time, cpu), (time_held, cpu_held) = (
        ((found["3"].wall - found["1"].wall) / 2, (found["3"].cpu - found["1"].cpu) / 2) for found in (streamed, held)
    )
    spent = f"{cpu:.2f} s : {cpu_held:.2f} s"
    _, peak = in_process(FIT, A.path, tiny.path, d, 1, limit, buffer)
    _, runtime = in_process(FIT, A.path, tiny.path, d, 0, limit, buffer)
    size = f"{A.nnz / 1e6:.0f} M links, {A.shape[0] / 1e6:.1f} M nodes, d = {d}, buffers of {buffer}"
    parts = f"peak {peak / 1e6:.0f} MB, tables {tables / 1e6:.0f} MB, runtime {runtime / 1e6:.0f} MB"
    over = (peak - tables - runtime) / 300e6
    return [
        Row("ALS epoch, links streamed, time", "links in memory", time / time_held, 1.4,
            f"{size}: {time:.2f} s : {time_held:.2f} s"),
        Row("ALS epoch, links streamed, CPU", "links in memory", cpu / cpu_held, 1.4, spent),
        Row("ALS, links streamed, memory beyond tables and runtime", "300 MB", over, 1.0, parts),
    ]  # fmt: skip


class _Drawn(Recommender):
    """Factors drawn at random."""

    def __init__(self, rows: int, items: int, d: int) -> None:
        rng = np.random.default_rng(0)
        self.user_factors_ = rng.standard_normal((rows, d), np.float32)
        self.item_factors_ = rng.standard_normal((items, d), np.float32)
        self._training = sp.zeros((rows, items), "int8")


def _for_all_rows(rows: int, items: int) -> list[Row]:
    d, k = 128, 100
    model = _Drawn(rows, items, d)
    path = fresh(DATA / "recommended.parquet")
    block, width = model.user_factors_[:4096], min(items, 8192)
    scores = np.empty((len(block), width), np.float32)

    def multiply() -> None:
        for first in range(0, items - width + 1, width):
            np.matmul(block, model.item_factors_[first : first + width].T, out=scores)

    took = alternate({"ours": lambda: model.recommend_all(path, k, overwrite=True), "sgemm": multiply}, 3)
    ours = rows * items / took["ours"]
    sgemm = len(block) * (items // width * width) / took["sgemm"]
    detail = (
        f"{rows:,} rows x {items:,} items, d = {d}, {k} best, to Parquet: {took['ours']:.1f} s, "
        f"{2 * d * ours / 1e9:.0f} : {2 * d * sgemm / 1e9:.0f} GFLOP/s"
    )
    fresh(path)
    return [Row("recommend_all", "the products alone, by sgemm", ours / sgemm, 0.5, detail, True)]
