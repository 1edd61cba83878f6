"""One call on a tensor of 100 x 100 cells and 500 entries in memory, computed: against pydata/sparse and SciPy."""

# ruff: noqa: PLW0108 - an expression is made anew by each call

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
from harness import Row

import sparrow as sp

Call = Callable[[], Any]
SIDE, ENTRIES, CALLS = 100, 500, 10


def run(rounds: int) -> list[Row]:
    """Return a row for each call; those against pydata/sparse only where it is installed."""
    rng = np.random.default_rng(0)
    a = np.zeros((SIDE, SIDE))
    a.flat[rng.choice(a.size, ENTRIES, replace=False)] = rng.random(ENTRIES)
    b, x = a.T.copy(), np.ones(SIDE)
    peers: dict[str, dict[str, Call]] = {"SciPy": _scipy(a, b, x)}
    try:
        import sparse
    except ModuleNotFoundError:
        print("no rows against pydata/sparse: it is not installed, the extra 'bench' has it")
    else:
        peers = {"pydata/sparse": _pydata(sparse, a, b, x), **peers}
    own = _sparrow(a, b, x)
    out = []
    for peer, calls in peers.items():
        for name, call in calls.items():
            ours, theirs = fastest(own[name], call, rounds)
            detail = f"{SIDE} x {SIDE}, {1e6 * ours:.0f} us : {1e6 * theirs:.0f} us"
            out.append(Row(name, peer, ours / theirs, 1.0 if peer == "pydata/sparse" else 20.0, detail))
    return out


def fastest(one: Call, other: Call, rounds: int) -> tuple[float, float]:
    """Return the shortest seconds of each, run in turn a few calls at a time: a median of so little is of the noise."""
    found = []
    for _ in range(rounds):
        for call in (one, other):
            call()
            gc.collect(0)
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            found.append((time.perf_counter() - start) / CALLS)
    return min(found[::2]), min(found[1::2])


def _sparrow(a: Any, b: Any, x: Any) -> dict[str, Call]:
    A, B = sp.asarray(a), sp.asarray(b)
    coords, values = np.array(a.nonzero()), a[a != 0]
    return {
        "A @ x": lambda: A @ x,
        "A @ B": lambda: (A @ B).compute(),
        "A[3, 4]": lambda: A[3, 4],
        "A[5:50]": lambda: A[5:50].compute(),
        "A[:, 7]": lambda: A[:, 7].compute(),
        "A.sum()": lambda: A.sum(),
        "A.max()": lambda: A.max(),
        "A.sum(axis=0)": lambda: A.sum(axis=0).compute(),
        "A.sum(axis=1)": lambda: A.sum(axis=1).compute(),
        "A + B": lambda: (A + B).compute(),
        "A * B": lambda: (A * B).compute(),
        "A * 2": lambda: (A * 2).compute(),
        "A > 0": lambda: (A > 0).compute(),
        "A.T": lambda: A.T.compute(),
        "A.astype": lambda: A.astype(np.float32).compute(),
        "A.reshape": lambda: A.reshape(50, 200).compute(),
        "stack": lambda: sp.stack([A, B]).compute(),
        "concat": lambda: sp.concat([A, B]).compute(),
        "tril": lambda: sp.tril(A).compute(),
        "diagonal": lambda: sp.diagonal(A).compute(),
        "A.nnz": lambda: A.nnz,
        "A.to_numpy()": lambda: A.to_numpy(),
        "from_coords": lambda: sp.from_coords(coords, values, shape=a.shape),
    }


def _pydata(sparse: Any, a: Any, b: Any, x: Any) -> dict[str, Call]:
    A, B = sparse.COO.from_numpy(a), sparse.COO.from_numpy(b)
    coords, values = np.array(a.nonzero()), a[a != 0]
    return {
        "A @ x": lambda: A @ x,
        "A @ B": lambda: A @ B,
        "A[3, 4]": lambda: A[3, 4],
        "A[5:50]": lambda: A[5:50],
        "A[:, 7]": lambda: A[:, 7],
        "A.sum()": lambda: A.sum(),
        "A.max()": lambda: A.max(),
        "A.sum(axis=0)": lambda: A.sum(axis=0),
        "A.sum(axis=1)": lambda: A.sum(axis=1),
        "A + B": lambda: A + B,
        "A * B": lambda: A * B,
        "A * 2": lambda: A * 2,
        "A > 0": lambda: A > 0,
        "A.T": lambda: A.T,
        "A.astype": lambda: A.astype(np.float32),
        "A.reshape": lambda: A.reshape((50, 200)),
        "stack": lambda: sparse.stack([A, B]),
        "concat": lambda: sparse.concatenate([A, B]),
        "tril": lambda: sparse.tril(A),
        "diagonal": lambda: sparse.diagonal(A),
        "A.to_numpy()": lambda: A.todense(),
        "from_coords": lambda: sparse.COO(coords, values, shape=a.shape),
    }


def _scipy(a: Any, b: Any, x: Any) -> dict[str, Call]:
    A, B = scipy.sparse.csr_array(a), scipy.sparse.csr_array(b)
    coords, values = np.array(a.nonzero()), a[a != 0]
    return {
        "A @ x": lambda: A @ x,
        "A @ B": lambda: A @ B,
        "A[3, 4]": lambda: A[3, 4],
        "A[5:50]": lambda: A[5:50],
        "A[:, 7]": lambda: A[:, 7],
        "A.sum()": lambda: A.sum(),
        "A.sum(axis=0)": lambda: A.sum(axis=0),
        "A + B": lambda: A + B,
        "A * 2": lambda: A * 2,
        "A.reshape": lambda: A.reshape((50, 200)),
        "concat": lambda: scipy.sparse.vstack([A, B], format="csr"),
        "tril": lambda: scipy.sparse.tril(A, format="csr"),
        "from_coords": lambda: scipy.sparse.csr_array((values, tuple(coords)), shape=a.shape),
    }
