"""Single calls on 100 x 100 tensors next to pydata/sparse and SciPy.

And the plan of an einsum of several small tensors: how long it takes, and what its order costs beside the best one.
"""

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
"""Calls measured against pydata/sparse only."""


def run(rounds: int) -> list[Row]:
    """Return a row per call; pydata/sparse only where installed."""
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
    return out + _compare_plans(min(rounds, 20))


def fastest(one: Call, other: Call, rounds: int) -> tuple[float, float]:
    """Return the shortest seconds of two calls, run alternately."""
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
        **{name: _evaluate(call) for name, call in made.items()},
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
    """Return calls that yield arrays or numbers, for any library's tensors."""
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


def _evaluate(call: Call) -> Call:
    return lambda: call().compute()


EXPRESSIONS, LENGTH, GOAL = 10, 24, 5e-3
"""Number of random expressions, length of each axis, seconds that planning may take."""


def _compare_plans(rounds: int) -> list[Row]:
    """Compare planning time and flops of einsum with the goal and the optimum."""
    rng = np.random.default_rng(0)
    slowest, worst = (0.0, ""), (0.0, "")
    for number in range(EXPRESSIONS):
        terms, out = _expression(rng, 3 + number % 3)
        cells = [rng.random((LENGTH, LENGTH)) < rng.choice([0.02, 0.1, 0.3]) for _ in terms]
        text = f"{','.join(terms)}->{out}"
        took = []
        for _ in range(rounds):
            tensors = [sp.asarray(each.astype(float)) for each in cells]  # new ones, of which nothing is known
            start = time.perf_counter()
            sp.einsum(text, *tensors)
            took.append(time.perf_counter() - start)
        slowest = max(slowest, (min(took), text))
        path = sp.einsum_path(text, *tensors)[0][1:]
        orders = _Orders(terms, out, cells)
        worst = max(worst, (orders.products(path) / max(orders.best((1 << len(terms)) - 1), 1), text))
    return [
        Row("plan of einsum, 3 to 5 tensors", "the goal of 5 ms", slowest[0] / GOAL, 1.0,
            f"the slowest of {EXPRESSIONS}, {slowest[1]}: {1e3 * slowest[0]:.1f} ms"),
        Row("its products", "the best order", worst[0], 2.0, f"the worst of {EXPRESSIONS}, {worst[1]}"),
    ]  # fmt: skip


def _expression(rng: np.random.Generator, count: int) -> tuple[list[str], str]:
    """Return the letters of matrices that hang together, and of a result."""
    letters = "abcdef"[: count + 1]
    terms, used = ["ab"], ["a", "b"]
    while len(terms) < count:
        one, other = rng.choice(used), rng.choice(list(letters))
        if one != other:
            terms.append("".join(rng.permutation([one, other])))
            used = sorted({*used, other})
    return terms, "".join(rng.choice(used, 2, replace=False))


class _Orders:
    """Flops of einsum orders, counted on the operands."""

    def __init__(self, terms: list[str], out: str, cells: list[Any]) -> None:
        self._terms, self._out = terms, out
        self._known: dict[int, tuple[str, Any]] = {
            1 << k: each for k, each in enumerate(zip(terms, cells, strict=True))
        }
        self._best: dict[int, int] = {}

    def products(self, path: list[tuple[int, ...]]) -> int:
        """Return the number of products of a path."""
        left, total = [1 << k for k in range(len(self._terms))], 0
        for step in path:
            taken = [left[k] for k in step]
            left = [*(each for k, each in enumerate(left) if k not in step), sum(taken)]
            total += self._pairs(*taken) if len(taken) == 2 else 0
        return total

    def best(self, members: int) -> int:
        """Return the number of products of the best order."""
        if members & (members - 1) == 0:
            return 0
        if members not in self._best:
            parts = (part for part in range(1, members) if part & members == part and part < members ^ part)
            self._best[members] = min(
                self.best(part) + self.best(members ^ part) + self._pairs(part, members ^ part) for part in parts
            )
        return self._best[members]

    def _pairs(self, one: int, other: int) -> int:
        """Return the number of matching pairs of elements of two operand sets."""
        (a, left), (b, right) = self._product(one), self._product(other)
        both = "".join(letter for letter in a if letter in b)
        return int((np.einsum(f"{a}->{both}", left.astype(int)) * np.einsum(f"{b}->{both}", right.astype(int))).sum())

    def _product(self, members: int) -> tuple[str, Any]:
        """Return letters and pattern of the product of some operands."""
        if members not in self._known:
            inside = [term for k, term in enumerate(self._terms) if members >> k & 1]
            rest = [term for k, term in enumerate(self._terms) if not members >> k & 1]
            kept = "".join(sorted({*"".join(inside)} & {*"".join([self._out, *rest])}))
            cells = [each for k, (_, each) in enumerate(self._known[1 << k] for k in range(len(self._terms)))
                     if members >> k & 1]  # fmt: skip
            found = np.einsum(f"{','.join(inside)}->{kept}", *(each.astype(float) for each in cells), optimize=True)
            self._known[members] = kept, found > 0
        return self._known[members]
