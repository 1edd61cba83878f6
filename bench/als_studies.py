"""Measurements of the ALS report; each returns JSON for one section."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import als_solvers
import numpy as np
import scipy.sparse
from als_protocol import (
    EPOCHS,
    REGULARIZATION,
    UNOBSERVED_WEIGHT,
    Array,
    Folded,
    Task,
    als,
    fit_implicit,
    in_turn,
    peer,
    web,
)
from generate import links as rmat
from threadpoolctl import threadpool_limits

import sparrow as sp
from sparrow.models import evaluation

Found = dict[str, Any]


def epoch_cost(train: sp.Tensor, factors: int, solver: str) -> float:
    """Return the CPU seconds of one epoch: (three epochs - one epoch) / 2."""

    def fit(epochs: int) -> None:
        als(factors, solver=solver, epochs=epochs).fit(train)

    fit(1)
    rounds = 3 if train.nnz < 2_000_000 else 1
    found = in_turn({"one": lambda: fit(1), "three": lambda: fit(3)}, rounds)
    return (found["three"].cpu - found["one"].cpu) / 2


def _some(csr: scipy.sparse.csr_array, count: int) -> tuple[scipy.sparse.csr_array, int]:
    """Return sampled rows that have links, and the number of such rows."""
    filled = np.flatnonzero(np.diff(csr.indptr))
    drawn = np.random.default_rng(0).choice(filled, min(count, len(filled)), replace=False)
    return csr[np.sort(drawn)], len(filled)


def solvers(quick: bool) -> Found:
    """CPU time of an epoch against the number of factors, by solver."""
    task = web(10)
    csr = task.csr()
    sides = (csr, scipy.sparse.csr_array(csr.T))
    sample = 200 if quick else 2000
    out: list[Found] = []
    for d in (16, 32) if quick else (16, 32, 64, 128, 256):
        with sp.config(threads=1):
            model = als(d, epochs=2).fit(task.train)
            tables = (np.asarray(model.item_factors_), np.asarray(model.user_factors_))
            line: Found = {"d": d, "seconds": {}}
            ours = {f"sparrow {solver}": epoch_cost(task.train, d, solver) for solver in ("exact", "cg", "subspace")}
        for name in als_solvers.SOLVERS:
            seconds = steps = 0.0
            for side, table in zip(sides, tables, strict=True):
                rows, filled = _some(side, sample)
                everywhere = als_solvers.gramian(table, UNOBSERVED_WEIGHT)
                with threadpool_limits(1, "blas"):
                    als_solvers.solve_rows(rows[:2], table, everywhere, REGULARIZATION, name)
                    start = time.process_time()
                    _, taken = als_solvers.solve_rows(rows, table, everywhere, REGULARIZATION, name)
                    seconds += (time.process_time() - start) / rows.shape[0] * filled
                steps += taken / rows.shape[0] / len(sides)
            line["seconds"][name] = seconds
            if name == "CG":
                line["steps"] = steps
        line["seconds"] |= ours
        out.append(line)
    return {"links": csr.nnz, "nodes": csr.shape[1], "sample": sample, "rows": out}


def precision(quick: bool) -> Found:
    """Return recall by epoch with parts of the arithmetic in bfloat16."""
    task = web(10)
    csr = task.csr()
    sides = (csr, scipy.sparse.csr_array(csr.T))
    d, epochs = (8, 3) if quick else (32, EPOCHS)
    rng = np.random.default_rng(0)
    normal = rng.standard_normal((csr.shape[1], d), np.float32) * np.float32(0.1 / np.sqrt(d))
    uniform = rng.random((csr.shape[1], d), np.float32) * np.float32(0.01)
    levels = als_solvers.PRECISIONS
    cases = [("normal", normal, level) for level in levels]
    cases += [("uniform", uniform, level) for level in (levels[0], levels[-1])]
    curves: list[Found] = []
    for strength in (1e-2, 1e-4) if quick else (1e-2, 5e-3, 3e-3, 1e-3, 3e-4):
        for start, H, level in cases:
            curve = _curve(task, sides, H, epochs, strength, level)
            curves.append({"start": start, "regularization": strength, "precision": level, "recall@20": curve})
    first = _first_indefinite(sides, _round_table(normal, levels[-1]), epochs, 3e-3, longest=1000)
    return {"d": d, "epochs": epochs, "unobserved_weight": UNOBSERVED_WEIGHT, "curves": curves, "indefinite": first}


def _first_indefinite(
    sides: tuple[scipy.sparse.csr_array, scipy.sparse.csr_array], H: Array, epochs: int, strength: float, longest: int
) -> Found:
    """Find the epoch and rows whose bfloat16 matrices become indefinite."""
    level = als_solvers.PRECISIONS[-1]
    for epoch in range(1, epochs + 1):
        for name, side in zip(("rows", "columns"), sides, strict=True):
            before = float(np.abs(H).max())
            everywhere = als_solvers.gramian(H, UNOBSERVED_WEIGHT, level)
            weights = _weights(side, strength)
            count, least = als_solvers.indefinite(side, H, everywhere, weights, level, longest)
            H = _pass(side, H, strength, level)
            if count:
                largest = float(np.abs(H).max())
                found = {"epoch": epoch, "side": name, "count": count, "least": least}
                return {**found, "before": before, "largest": largest, "longest": longest, "regularization": strength}
    return {}


def _weights(side: scipy.sparse.csr_array, strength: float) -> Array:
    """Return lambda of each row, scaled by its length, shape (rows,)."""
    return strength * (np.diff(side.indptr) + UNOBSERVED_WEIGHT * side.shape[1])


def _pass(side: scipy.sparse.csr_array, H: Array, strength: float, level: str) -> Array:
    """Return the other table after a half step."""
    with threadpool_limits(1, "blas"):
        everywhere = als_solvers.gramian(H, UNOBSERVED_WEIGHT, level)
        return als_solvers.solve_rows(side, H, everywhere, _weights(side, strength), "CG", level)[0]


def _round_table(table: Array, level: str) -> Array:
    """Return a copy of a table, in bfloat16 unless the level is float32."""
    table = table.copy()
    if level != "float32":
        als_solvers.round_bfloat16(table.reshape(-1))
    return table


def _curve(
    task: Task, sides: tuple[scipy.sparse.csr_array, scipy.sparse.csr_array], start: Array, epochs: int,
    strength: float, level: str,
) -> list[float]:  # fmt: skip
    """Return Recall@20 after each epoch."""
    H = _round_table(start, level)
    curve = []
    for _ in range(epochs):
        for side in sides:
            H = _pass(side, H, strength, level)
        model = Folded(H, strength, scaling=1.0)
        curve.append(evaluation.evaluate(model, task.test)["recall@20"] if np.isfinite(H).all() else 0.0)
    return curve


def recall(quick: bool) -> Found:
    """Recall by solver, dtype and number of epochs, and of the peer's factors."""
    task = web(10)
    d, seeds = (16, (0,)) if quick else (128, (0, 1))
    epochs = 4 if quick else EPOCHS
    cases: list[tuple[str, dict[str, Any]]] = [(f"{s}, float32", {"solver": s}) for s in ("cg", "exact", "subspace")]
    cases += [(f"cg, {dtype}", {"dtype": dtype}) for dtype in ("bfloat16", "float16")]
    cases += [(f"cg, float32, {n} epochs", {"epochs": n}) for n in ((1, 2) if quick else (2, 4, 8, 32))]
    out: list[Found] = [
        {"model": "popularity", **evaluation.evaluate(evaluation.Popularity().fit(task.train), task.test)}
    ]
    for name, given in cases:
        runs = [als(d, **{"epochs": epochs, "seed": seed, **given}).fit(task.train) for seed in seeds]
        out.append({"model": name, **_mean([evaluation.evaluate(run, task.test, baseline=False) for run in runs])})
    if peer():
        csr = task.csr()
        for name, cg in [(f"{peer()}, CG", True), (f"{peer()}, Cholesky", False)]:
            runs = [fit_implicit(csr, d, epochs, cg=cg, seed=seed) for seed in seeds]
            out.append({"model": name, **_mean([evaluation.evaluate(Folded(H), task.test) for H in runs])})
    return {"d": d, "epochs": epochs, "seeds": len(seeds), "rows": len(task.test.rows), "models": out}


def _mean(runs: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}


def density(quick: bool) -> Found:
    """Recall against how many links each node of the graph must have."""
    d, epochs = (8, 2) if quick else (64, EPOCHS)
    grid = {"regularization": [0.05, 0.2, 0.8], "unobserved_weight": [1e-3, 3e-3]}
    out: list[Found] = []
    for least in (50, 10) if quick else (50, 30, 20, 10, 5, 3):
        A = web(least).links
        share = min(0.1, 3000 / A.shape[0])
        tried = evaluation.search(A, als(d, epochs=epochs), grid, test=share, validation=share)
        best = {name: tried[0][name] for name in grid}
        parts = evaluation.split(A, test=share)
        found = evaluation.evaluate(als(d, epochs=epochs, **best).fit(parts.train), parts.test, baseline=False)
        popular = evaluation.evaluate(evaluation.Popularity().fit(parts.train), parts.test)
        out.append(
            {"least": least, "nodes": A.shape[0], "links": A.nnz, "tested": len(parts.test.rows), **best, **found,
             "popularity": popular["recall@20"], "worst": tried[-1]["recall@20"], "best": tried[0]["recall@20"]}
        )  # fmt: skip
    return {"d": d, "epochs": epochs, "graphs": out}


def growth(quick: bool) -> Found:
    """Return CPU seconds of an epoch by number of links."""
    d = 16 if quick else 64
    scales = (12, 13, 14) if quick else (15, 16, 17, 18, 19)
    fixed = scales[len(scales) // 2]
    cases = [("24 links a node", scale, 24 << scale) for scale in scales]
    cases += [(f"2^{fixed} nodes", fixed, per_node << fixed) for per_node in (3, 6, 12, 48)]
    out = []
    for family, scale, draws in cases:
        A = rmat(scale, draws)
        seconds = {solver: epoch_cost(A, d, solver) for solver in ("cg", "exact")}
        out.append({"family": family, "nodes": 1 << scale, "links": A.nnz, **seconds})
    return {"d": d, "graphs": out}


def padding(quick: bool) -> Found:
    """The share of slots that hold no link, by the way of batching."""
    graphs = {"cnr-2000": sp.datasets.load("cnr-2000"), "cnr-2000, nodes with 10 links": web(10).links}
    scale = 14 if quick else 19
    graphs[f"R-MAT, 2^{scale} nodes"] = rmat(scale, 24 << scale)
    out = []
    for name, A in graphs.items():
        for axis, side in [(1, "rows"), (0, "columns")]:
            lengths = np.asarray(A.count(axis=axis)).astype(np.int64)
            filled = lengths[lengths > 0]
            shape = {"mean": float(filled.mean()), "longest": int(filled.max())}
            out.append({"graph": name, "side": side, **shape, **als_solvers.padding(lengths)})
    return {"graphs": out}


def windows(quick: bool) -> Found:
    """Return recall of ALX's approximate top-K by order of ids and windows."""
    task = web(10)
    d = 16 if quick else 128
    model = als(d, epochs=4 if quick else EPOCHS).fit(task.train)
    H = np.asarray(model.item_factors_)
    rows = Folded(H).fold_in(task.test.history)
    history = task.test.history.to_scipy("csr")
    shuffled = np.random.default_rng(0).permutation(len(H))
    k = 50
    multipliers = (1, 5, 20)
    ids: dict[str, list[Array]] = {}
    for first in range(0, len(rows), 256):
        part = rows[first : first + 256]
        scores = part @ H.T
        for r in range(len(part)):
            scores[r, history.indices[history.indptr[first + r] : history.indptr[first + r + 1]]] = -np.inf
        rounded = scores.copy()
        als_solvers.round_bfloat16(rounded.reshape(-1))
        found = {
            "exact, float32": np.argsort(-scores, axis=1, kind="stable")[:, :k],
            "exact, scores rounded to bfloat16": np.argsort(-rounded, axis=1, kind="stable")[:, :k],
        }
        for each in multipliers:
            name = f"best of {each}K windows"
            found[f"{name}, ids in the order of the addresses"] = als_solvers.window_top_k(scores, k, each)
            found[f"{name}, ids shuffled"] = shuffled[als_solvers.window_top_k(scores[:, shuffled], k, each)]
        for name, part_ids in found.items():
            ids.setdefault(name, []).append(part_ids)
    out = [
        {"search": name, **evaluation.metrics(np.concatenate(parts).astype(np.int64), task.test.truth, ndcg=())}
        for name, parts in ids.items()
    ]
    return {"d": d, "k": k, "items": len(H), "rows": len(rows), "searches": out}


STUDIES: dict[str, Callable[[bool], Found]] = {
    "recall": recall,
    "solvers": solvers,
    "precision": precision,
    "density": density,
    "growth": growth,
    "padding": padding,
    "windows": windows,
}
