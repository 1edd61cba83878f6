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
PYDATA_ALONE = "A.max()", "A.sum(axis=1)", "A * B", "A > 0", "A.T", "A.astype"
"""What is measured against pydata/sparse alone."""


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
    made = {
        **_expressions(A, B),
        "stack": lambda: sp.stack([A, B]),
        "concat": lambda: sp.concat([A, B]),
        "tril": lambda: sp.tril(A),
        "diagonal": lambda: sp.diagonal(A),
    }
    return {
        **{name: _computed(call) for name, call in made.items()},
        **_answers(A, x),
        "A.to_numpy()": lambda: A.to_numpy(),
        "from_coords": lambda: sp.from_coords(coords, values, shape=a.shape),
    }


def _pydata(sparse: Any, a: Any, b: Any, x: Any) -> dict[str, Call]:
    A, B = sparse.COO.from_numpy(a), sparse.COO.from_numpy(b)
    coords, values = np.array(a.nonzero()), a[a != 0]
    return {
        **_answers(A, x),
        **_expressions(A, B),
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
    calls = {
        **_answers(A, x),
        **_expressions(A, B),
        "concat": lambda: scipy.sparse.vstack([A, B], format="csr"),
        "tril": lambda: scipy.sparse.tril(A, format="csr"),
        "from_coords": lambda: scipy.sparse.csr_array((values, tuple(coords)), shape=a.shape),
    }
    return {name: call for name, call in calls.items() if name not in PYDATA_ALONE}


def _answers(A: Any, x: Any) -> dict[str, Call]:
    """Return calls that give an array or a number, written alike for everybody's tensors."""
    return {
        "A @ x": lambda: A @ x,
        "A[3, 4]": lambda: A[3, 4],
        "A.sum()": lambda: A.sum(),
        "A.max()": lambda: A.max(),
    }


def _expressions(A: Any, B: Any) -> dict[str, Call]:
    """Return calls that give a tensor, written alike; those of sparrow are lazy."""
    return {
        "A @ B": lambda: A @ B,
        "A[5:50]": lambda: A[5:50],
        "A[:, 7]": lambda: A[:, 7],
        "A.sum(axis=0)": lambda: A.sum(axis=0),
        "A.sum(axis=1)": lambda: A.sum(axis=1),
        "A + B": lambda: A + B,
        "A * B": lambda: A * B,
        "A * 2": lambda: A * 2,
        "A > 0": lambda: A > 0,
        "A.T": lambda: A.T,
        "A.astype": lambda: A.astype(np.float32),
        "A.reshape": lambda: A.reshape((50, 200)),
    }


def _computed(call: Call) -> Call:
    return lambda: call().compute()
