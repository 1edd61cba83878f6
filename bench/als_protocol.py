"""Shared protocol of the ALS benchmarks: data, split, peer, recall, CPU time."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import scipy.sparse
from harness import DATA

import sparrow as sp
from sparrow.models import evaluation
from sparrow.models.recommender import Recommender

Array = np.ndarray[Any, Any]

REGULARIZATION, UNOBSERVED_WEIGHT = 0.2, 1e-3
"""Best on the validation tenth of cnr-2000, nodes with 10 links."""
EPOCHS = 16


@dataclass(frozen=True)
class Task:
    """Links to learn from, stored in both orders, and rows to test with."""

    links: sp.Tensor
    """Shape (n, n): all of them."""
    train: sp.Tensor
    """Shape (rows, n): those of the rows that are not for test."""
    test: evaluation.HeldOut

    def csr(self) -> scipy.sparse.csr_array:
        """Return the training links as SciPy's matrix of float32."""
        return scipy.sparse.csr_array(self.train.to_scipy("csr"), dtype=np.float32)


def web(least: int, seed: int = 0) -> Task:
    """Return the pages of cnr-2000 with ``least`` links each way, split for test."""
    path, trained = DATA / f"cnr-min{least}.sparrow", DATA / f"cnr-min{least}-train-{seed}.sparrow"
    if not path.exists():
        part, _ = evaluation.min_links(sp.datasets.load("cnr-2000"), least)
        part.save(path)
    whole = sp.open(path)
    parts = evaluation.split(whole, seed=seed)
    if not (trained / "_orders").is_dir():
        parts.train.save(trained, orders=[(1, 0)], overwrite=True)
    return Task(whole, sp.open(trained), parts.test)


class Folded(Recommender):
    """Item factors of any library, with rows folded in exactly in float64."""

    def __init__(
        self,
        item_factors: Array,
        regularization: float = REGULARIZATION,
        unobserved_weight: float = UNOBSERVED_WEIGHT,
        scaling: float = 0.0,
    ) -> None:
        self.item_factors_ = item_factors
        self.user_factors_ = item_factors[:0]
        self._settings = regularization, unobserved_weight, scaling

    def fold_in(self, rows: sp.Tensor) -> Array:
        """Return the factors of histories (m, items), shape (m, d)."""
        strength, alpha, scaling = self._settings
        H = self.item_factors_.astype(np.float64)
        everywhere = alpha * (H.T @ H)
        history = rows.to_scipy("csr")
        out = np.empty((rows.shape[0], H.shape[1]))
        for row in range(len(out)):
            found = H[history.indices[history.indptr[row] : history.indptr[row + 1]]]
            weight = strength * (len(found) + alpha * len(H)) ** scaling
            out[row] = np.linalg.solve(found.T @ found + everywhere + weight * np.eye(H.shape[1]), found.sum(axis=0))
        return out.astype(np.float32)


def als(factors: int, **other: Any) -> sp.models.ALS:
    """Return a model with the settings above, or others."""
    settings = {"regularization": REGULARIZATION, "unobserved_weight": UNOBSERVED_WEIGHT, "epochs": EPOCHS, **other}
    return sp.models.ALS(factors=factors, **settings)


def peer() -> str:
    """Return name and version of the peer library, or "" if it is missing."""
    try:
        return f"implicit {version('implicit')}"
    except PackageNotFoundError:
        return ""


def fit_implicit(
    csr: scipy.sparse.csr_array, factors: int, epochs: int, *, cg: bool = True, seed: int = 0, threads: int = 2
) -> Array:
    """Return item factors of ``implicit`` fitted to the same objective.

    Its weight of a link counts from 1 for any other cell and its target is 1 where the minimum of sparrow's
    is ``1 / (1 + alpha)``: dividing sparrow's objective by alpha gives the arguments below.
    """
    from implicit.cpu.als import AlternatingLeastSquares
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"):
        model = AlternatingLeastSquares(
            factors=factors, regularization=REGULARIZATION / UNOBSERVED_WEIGHT, alpha=1 + 1 / UNOBSERVED_WEIGHT,
            iterations=epochs, use_cg=cg, num_threads=threads, random_state=seed,
        )  # fmt: skip
        model.fit(scipy.sparse.csr_matrix(csr), show_progress=False)
    return model.item_factors_ / np.float32(np.sqrt(1 + UNOBSERVED_WEIGHT))


@dataclass(frozen=True)
class Took:
    """Medians."""

    cpu: float
    """Seconds of all threads of the process."""
    wall: float


def in_turn(cases: dict[str, Callable[[], Any]], rounds: int) -> dict[str, Took]:
    """Measure calls in alternation; callers have warmed them up."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, run in cases.items():
            gc.collect()
            cpu, wall = time.process_time(), time.perf_counter()
            run()
            found[name].append((time.process_time() - cpu, time.perf_counter() - wall))
    return {
        name: Took(statistics.median(cpu for cpu, _ in runs), statistics.median(wall for _, wall in runs))
        for name, runs in found.items()
    }
