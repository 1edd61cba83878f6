"""Batches of rows from Parquet, against slicing a SciPy CSR in RAM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from harness import DATA, Row, alternate, fresh

import sparrow as sp


def run(small: bool, rounds: int) -> list[Row]:
    height = 20_000 if small else 1_000_000
    X = sp.random((height, 10_000), nnz=24 * height, seed=8).save(fresh(DATA / "batches.sparrow"))
    csr = X.to_scipy("csr")
    y = np.arange(height, dtype=np.float64)
    rng = np.random.default_rng(0)

    def ours(size: int, shuffle: bool) -> Callable[[], int]:
        train = sp.batches(X, y, size, shuffle=shuffle)
        return lambda: sum(batch.to_scipy().nnz for batch in train)

    def theirs(size: int, shuffle: bool) -> Callable[[], int]:
        def epoch() -> int:
            order = rng.permutation(height) if shuffle else None
            found = 0
            for at in range(0, height - size + 1, size):
                rows: Any = slice(at, at + size) if order is None else order[at : at + size]
                found += csr[rows].nnz
                y[rows]
            return found

        return epoch

    out = []
    for size in (128, 4096):
        for shuffle in (False, True):
            took = alternate({"sparrow": ours(size, shuffle), "scipy": theirs(size, shuffle)}, rounds)
            speed = height / took["sparrow"] / 1e6
            detail = f"{took['sparrow']:.2f} s : {took['scipy']:.2f} s, {speed:.2f} M rows/s"
            work = f"batches of {size}{', shuffled' if shuffle else ''}, 24 M entries from Parquet"
            peer = "SciPy csr[rows] in RAM, as fast as this"
            out.append(Row(work, peer, took["scipy"] / took["sparrow"], 0.7, detail, more=True))
    return out
