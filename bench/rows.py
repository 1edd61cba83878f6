"""Rows by a list: from Parquet beside one by one, persisted beside SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
from harness import DATA, Row, alternate, fresh

import sparrow as sp

_LISTS = 20
"""Lists that a case takes in a round, others each time: a single one is over in less than a millisecond."""

Rows: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


def run(height: int, rounds: int) -> list[Row]:
    """Return the rows, on a matrix of about 29 entries in each of so many rows."""
    rng = np.random.default_rng(0)
    width = 100_000
    cells = np.unique(np.repeat(np.arange(height), 29) * width + rng.integers(0, width, 29 * height))
    columns, values = (cells % width).astype(np.int32), rng.standard_normal(len(cells))
    pointers = np.searchsorted(cells, np.arange(height + 1) * width)
    stored = sp.from_coords([cells // width, columns], values, shape=(height, width)).save(fresh(DATA / "rows.sparrow"))
    csr, kept = scipy.sparse.csr_array((values, columns, pointers), shape=stored.shape), stored.persist()
    del cells
    wanted = rng.integers(0, height, 1_000)
    assert (kept[wanted].to_scipy("csr") != csr[wanted]).nnz == 0

    def lists(work: Callable[[Rows], Any], count: int) -> Callable[[], None]:
        def each() -> None:
            for _ in range(_LISTS):
                work(rng.integers(0, height, count))

        return each

    took = alternate(
        {
            "a list": lists(lambda rows: stored[rows].compute(), 10),
            "one by one": lists(lambda rows: [stored[int(row)].compute() for row in rows], 10),
            "compute": lists(lambda rows: kept[rows].compute(), 1_000),
            "to_scipy": lists(lambda rows: kept[rows].to_scipy("csr"), 1_000),
            "scipy": lists(lambda rows: csr[rows], 1_000),
        },
        rounds,
    )
    milliseconds = {name: 1e3 * seconds / _LISTS for name, seconds in took.items()}
    size = f"{stored.nnz / 1e6:.0f} M entries in {height:,} rows"

    def row(work: str, mine: str, against: str, peer: str, bound: float) -> Row:
        detail = f"{size}: {milliseconds[mine]:.2f} ms : {milliseconds[peer]:.2f} ms"
        return Row(work, against, took[mine] / took[peer], bound, detail)

    return [
        row("10 random rows of Parquet, a list", "a list", "one by one", "one by one", 2.0),
        row("1,000 random rows, persisted, compute()", "compute", "SciPy csr[rows]", "scipy", 3.0),
        row('1,000 random rows, persisted, to_scipy("csr")', "to_scipy", "SciPy csr[rows]", "scipy", 3.0),
    ]
