"""What the workers of the tests of the parameter store do: processes import it by its name."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import Any

import numpy as np

import sparrow as sp
from sparrow.training import ParameterStore, blocks


@dataclass
class Momentum:
    """The kind of optimiser that a store takes."""

    lr: float
    momentum: float = 0.0

    def create_state(self, w: Any) -> Any:
        return np.zeros_like(w)

    def update(self, w: Any, grad: Any, state: Any) -> None:
        state *= self.momentum
        state += self.lr * grad
        w -= state


def one_row(rows: ParameterStore, rank: int, workers: int, pushes: int) -> int:
    """Push rank + 1 to row rank, again and again."""
    for _ in range(pushes):
        rows.push("w", sp.formats.RowSparse(np.full((1, 2), rank + 1.0), [rank], (workers, 2)))
        rows.push("all", np.ones((50, 1)))
    return os.getpid()


def dies(rows: ParameterStore, rank: int, workers: int) -> None:
    """Be killed amid a push, its rows half in their places; worker 0 is killed, the others wait for it to be so."""
    if rank:
        signal.pause()

    def half(places: Any, ids: Any, values: Any) -> None:
        places[ids[:1]] = values[:1]
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(blocks, "_place", half)  # noqa: B010
    rows.push("w", np.ones((6, 2)))


def fails(rows: ParameterStore, rank: int, workers: int) -> None:
    raise ValueError("no such feature")


def gradient(X: Any, y: Any, weights: Any) -> tuple[Any, Any]:
    """Return columns of a batch and the gradient of the logistic loss for them."""
    columns, places = np.unique(X.indices, return_inverse=True)
    lines = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    scores = np.bincount(lines, X.data * weights(columns)[places], X.shape[0])
    off = 1 / (1 + np.exp(-scores)) - (y > 0)
    return columns, np.bincount(places, X.data * off[lines]) / X.shape[0]


def logistic(rows: ParameterStore, rank: int, workers: int, path: str, epochs: int) -> int:
    """Fit a part of the data."""
    part = sp.batches(path, batch_size=100, shuffle=True, seed=1, num_parts=workers, part_index=rank)
    for _ in range(epochs):
        for batch in part:
            columns, grad = gradient(batch.X, batch.y, lambda ids: rows.row_sparse_pull("w", ids).data[:, 0])
            rows.push("w", sp.formats.RowSparse(grad[:, None], columns, (batch.X.shape[1], 1)))
    return part.rows
