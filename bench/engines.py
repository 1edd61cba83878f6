"""Time of engine="auto" next to every engine that has the same result."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from generate import matrix
from harness import DATA, Row, alternate, fresh

import sparrow as sp

Work = tuple[str, dict[str, Callable[[], Any]]]
"""A name, and what computes it by name of an engine."""


def run(count: int, rounds: int) -> list[Row]:
    """Return the rows: processor time of "auto" over that of the fastest engine.

    Repeated products are timed once their rows are persisted. Where DuckDB has the result to rounding only, its time is
    shown and does not count.
    """
    sp.sum(sp.eye(3).sum(axis=0).compute(engine="duckdb"))  # loads DuckDB
    out = []
    for name, engines in works(count):
        took = alternate(engines, rounds, warm=6, summarize=min, clock=time.process_time)
        best = min(
            (engine for engine in took if engine not in ("auto", "duckdb, rounded")), key=lambda each: took[each]
        )
        detail = ", ".join(f"{engine} {1e3 * seconds:.1f} ms" for engine, seconds in took.items())
        out.append(Row(name, f"the fastest engine: {best}", took["auto"] / took[best], 1.2, detail))
    return out


def works(count: int) -> Iterator[Work]:
    """Yield the operations."""
    n = max(count // 24, 1000)
    A, B = (
        sp.from_coords([rows, columns], values, shape=(n, n)).save(fresh(DATA / f"engines-{k}.sparrow"))
        for k, (rows, columns, values) in enumerate(matrix(n, count, seed=k) for k in (0, 1))
    )
    ints = (A * 10).astype("int64").save(fresh(DATA / "engines-ints.sparrow"))
    cube = sp.random((200, 300, count // 200), nnz=count, seed=3).save(fresh(DATA / "engines-cube.sparrow"))
    pairs = sp.random((n, n), nnz=count // 5000, seed=4).save(fresh(DATA / "engines-pairs.sparrow"))
    one = (pairs != 0).astype("int64").save(fresh(DATA / "engines-one.sparrow"))
    web = sp.datasets.load("cnr-2000").astype("float64").compute()
    yield from _repeat("A @ x", A, 1)
    yield from _repeat("A @ X, 8 vectors", A, 8)
    yield from _repeat("A.T @ x", A.T, 1)
    yield from _repeat("ints @ x", ints, 1)
    yield from _repeat("cnr-2000 in memory, A @ x", web, 1)
    yield from _repeat("cnr-2000 in memory, A.T @ x", web.T, 1)
    yield "A.sum(axis=0)", _every(lambda: A.sum(axis=0), "rounded")
    yield "A.sum(axis=1)", _every(lambda: A.sum(axis=1), "rounded")
    yield "A.max(axis=0)", _every(lambda: A.max(axis=0))
    yield "A.count(axis=0)", _every(lambda: A.count(axis=0))
    yield "ints.sum(axis=0)", _every(lambda: ints.sum(axis=0))
    yield "sum of 3-D over (0, 2)", _every(lambda: cube.sum(axis=(0, 2)), "rounded")
    yield "maximum of 3-D over 1", _every(lambda: cube.max(axis=1))
    yield "A + B", _every(lambda: A + B)
    yield "A * B", _every(lambda: A * B)
    yield "A > 0.5", _every(lambda: A > 0.5)
    yield "A.T, sorted", _every(lambda: A.T)
    yield "every seventh column, a list", _every(lambda: A[:, np.arange(0, n, 7)])
    yield "ints @ a few pairs", _every(lambda: ints @ one)
    yield "a few pairs @ ints", _every(lambda: one @ ints)
    yield "a few pairs @ A, min_plus", _every(lambda: sp.matmul(pairs, A, semiring="min_plus"))
    yield "A @ a few pairs", _every(lambda: A @ pairs, "rounded")
    yield "cnr-2000, 2,000 rows @ A", _every(lambda: web[:2000] @ web, "rounded")


def _every(make: Callable[[], sp.Tensor], duckdb: str = "") -> dict[str, Callable[[], Any]]:
    """Return the evaluation of an expression by engine."""
    engines = {"auto": "auto", "stream": "stream", f"duckdb{', ' * bool(duckdb)}{duckdb}": "duckdb"}
    return {name: lambda engine=engine: make().compute(engine=engine) for name, engine in engines.items()}


def _repeat(name: str, A: sp.Tensor, width: int) -> Iterator[Work]:
    """Yield repeated products with a matrix, and with one persisted by hand."""
    x = np.random.default_rng(0).random((A.shape[1], width) if width > 1 else A.shape[1])
    x = x if A.dtype.kind == "f" else (10 * x).astype(A.dtype)
    kept = A.persist()
    duckdb = "duckdb, rounded" if A.dtype.kind == "f" else "duckdb"
    yield (
        f"{name}, repeated",
        {
            "auto": lambda: A @ x,
            "stream": lambda: sp.matmul(A, x, engine="stream"),
            duckdb: lambda: sp.matmul(A, x, engine="duckdb"),
            "persisted": lambda: kept @ x,
        },
    )
