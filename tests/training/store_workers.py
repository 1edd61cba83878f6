"""Functions of worker processes in tests of the parameter store."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import Any

import numpy as np

import sparrow as sp
from sparrow.testing import on
from sparrow.training import ParameterStore


@dataclass
class Momentum:
    """Optimizer with the protocol of a store."""

    lr: float
    momentum: float = 0.0

    def create_state(self, w: Any) -> Any:
        return np.zeros_like(w)

    def update(self, w: Any, grad: Any, state: Any) -> None:
        state *= self.momentum
        state += self.lr * grad
        w -= state


def push_one_row(rows: ParameterStore, rank: int, workers: int, pushes: int) -> int:
    """Push rank + 1 to row rank repeatedly."""
    for _ in range(pushes):
        rows.push("w", sp.formats.RowSparse(np.full((1, 2), rank + 1.0), [rank], (workers, 2)))
        rows.push("all", np.ones((50, 1)))
    return os.getpid()


def die(rows: ParameterStore, rank: int, workers: int) -> None:
    """Kill worker 0 during a push, with half of the rows written; the others wait."""
    if rank:
        signal.pause()

    def write_half(rows: Any, ids: Any, values: Any) -> None:
        rows[ids[:1]] = values[:1]
        os.kill(os.getpid(), signal.SIGKILL)

    with on("training.replay_journal", write_half):
        rows.push("w", np.ones((6, 2)))


def fail(rows: ParameterStore, rank: int, workers: int) -> None:
    raise ValueError("no such feature")


def gradient(X: Any, y: Any, weights: Any) -> tuple[Any, Any]:
    """Return columns of a batch and the gradient of the logistic loss for them."""
    columns, places = np.unique(X.indices, return_inverse=True)
    lines = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    scores = np.bincount(lines, X.data * weights(columns)[places], X.shape[0])
    off = 1 / (1 + np.exp(-scores)) - (y > 0)
    return columns, np.bincount(places, X.data * off[lines]) / X.shape[0]


def fit_logistic(rows: ParameterStore, rank: int, workers: int, path: str, epochs: int) -> int:
    """Fit one part of the data."""
    part = sp.batches(path, batch_size=100, shuffle=True, seed=1, num_parts=workers, part_index=rank)
    for _ in range(epochs):
        for batch in part:
            columns, grad = gradient(batch.X, batch.y, lambda ids: rows.row_sparse_pull("w", ids).data[:, 0])
            rows.push("w", sp.formats.RowSparse(grad[:, None], columns, (batch.X.shape[1], 1)))
    return part.rows
