"""Rows by a list: from Parquet beside one by one, persisted beside SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
from harness import DATA, Row, alternate, fresh

import sparrow as sp

_LISTS = 20
"""Lists of 1,000 rows that a case takes in a round, others each time: one is over in less than a millisecond."""

Rows: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


def run(height: int, rounds: int) -> list[Row]:
    """Return the rows, on a matrix of about 29 elements per row."""
    rng = np.random.default_rng(0)
    drawn = np.sort(rng.integers(0, 100_000, (height, 29), np.int32))
    apart = np.diff(drawn, prepend=-1) > 0
    pointers = np.append(0, np.cumsum(apart.sum(axis=1)))
    columns, values = drawn[apart], rng.standard_normal(pointers[-1])
    csr = scipy.sparse.csr_array((values, columns, pointers), shape=(height, 100_000))
    stored = sp.asarray(csr).save(fresh(DATA / "rows.sparrow"))
    kept = stored.persist()
    wanted = rng.integers(0, height, 1_000)
    assert (kept[wanted].to_scipy("csr") != csr[wanted]).nnz == 0

    def lists(work: Callable[[Rows], Any], count: int, times: int = 1) -> Callable[[], None]:
        def read_one_by_one() -> None:
            for _ in range(times):
                work(rng.integers(0, height, count))

        return read_one_by_one

    took = alternate(
        {
            "a list": lists(lambda rows: stored[rows].compute(), 10),
            "one by one": lists(lambda rows: [stored[int(row)].compute() for row in rows], 10),
            "compute": lists(lambda rows: kept[rows].compute(), 1_000, _LISTS),
            "to_scipy": lists(lambda rows: kept[rows].to_scipy("csr"), 1_000, _LISTS),
            "scipy": lists(lambda rows: csr[rows], 1_000, _LISTS),
        },
        rounds,
    )

    def row(work: str, mine: str, against: str, peer: str, bound: float) -> Row:
        times = _LISTS if peer == "scipy" else 1
        told = " : ".join(f"{1e3 * took[side] / times:.2f} ms" for side in (mine, peer))
        detail = f"{stored.nnz / 1e6:.0f} M entries in {height:,} rows: {told}"
        return Row(work, against, took[mine] / took[peer], bound, detail)

    return [
        row("10 random rows of Parquet, a list", "a list", "one by one", "one by one", 2.0),
        row("1,000 random rows, persisted, compute()", "compute", "SciPy csr[rows]", "scipy", 3.0),
        row('1,000 random rows, persisted, to_scipy("csr")', "to_scipy", "SciPy csr[rows]", "scipy", 3.0),
    ]
