"""Element-wise functions and reductions next to pydata/sparse and SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
from generate import matrix
from harness import DATA, Row, alternate, fresh, in_process

import sparrow as sp

Work: TypeAlias = dict[str, Callable[[], Any]]

_REDUCTIONS: tuple[tuple[str, int | None], ...] = (
    ("sum", None),
    ("sum", 0),
    ("sum", 1),
    ("mean", 1),
    ("max", 1),
    ("max", None),
)


def run(small: int, large: int, rounds: int) -> list[Row]:
    """Return the rows of both sizes; pydata/sparse only where installed."""
    out: list[Row] = []
    try:
        import sparse
    except ModuleNotFoundError:
        print("no rows against pydata/sparse: it is not installed, the extra 'bench' has it")
    else:

        def coo(n: int, rows: Any, columns: Any, values: Any) -> Any:
            coords = np.stack([rows, columns]).astype(np.int64)
            return sparse.COO(coords, values, (n, n), has_duplicates=False, sorted=True)

        out += _rows(small, rounds, "pydata/sparse", 1.0, coo, _work)
    out += _rows(large, rounds, "SciPy CSR in RAM", 3.0, _csr, _scipy)
    return out


def _csr(n: int, rows: Any, columns: Any, values: Any) -> Any:
    return scipy.sparse.csr_array((values, (rows, columns)), shape=(n, n))


def _work(A: Any, B: Any, vector: np.ndarray[Any, Any]) -> Work:
    """Return the timed operations, in NumPy's names."""
    return {
        "A + B": lambda: A + B,
        "A * B": lambda: A * B,
        "A * 2": lambda: A * 2,
        "sin(A)": lambda: np.sin(A),
        "A > 0": lambda: A > 0,
        "A + A.T": lambda: A + A.T,
        "A * row": lambda: A * vector,
    } | _reductions(A)


def _reductions(A: Any) -> Work:
    return {
        f"A.{name}({'' if axis is None else f'axis={axis}'})": lambda name=name, axis=axis: getattr(A, name)(axis=axis)
        for name, axis in _REDUCTIONS
    }


def _scipy(A: Any, B: Any, vector: np.ndarray[Any, Any]) -> Work:
    """Return the same in SciPy's words, each result in CSR."""
    return _work(A, B, vector) | {
        "A * B": lambda: A.multiply(B),
        "sin(A)": A.sin,
        "A + A.T": lambda: A + A.T.tocsr(),
        "A * row": lambda: A.multiply(vector).tocsr(),
    }


def _sparrow(A: sp.Tensor, B: sp.Tensor, vector: np.ndarray[Any, Any]) -> Work:
    """Return the same, computed."""
    return {name: lambda make=make: _evaluate(make()) for name, make in _work(A, B, vector).items()}


def _evaluate(found: Any) -> Any:
    return found.compute() if isinstance(found, sp.Tensor) else found


def _rows(
    count: int, rounds: int, against: str, bound: float, peer: Callable[..., Any], words: Callable[..., Work]
) -> list[Row]:
    n = max(count // 20, 16)
    entries = [matrix(n, count, seed=seed) for seed in (0, 1)]
    nnz = len(entries[0][2])
    vector = np.random.default_rng(2).random(n)
    memory = [sp.from_coords([rows, columns], values, shape=(n, n)) for rows, columns, values in entries]
    stored = [tensor.save(fresh(DATA / f"cells-{k}.sparrow")) for k, tensor in enumerate(memory)]
    sides = {
        "peer": words(peer(n, *entries[0]), peer(n, *entries[1]), vector),
        "memory": _sparrow(memory[0], memory[1], vector),
        "Parquet": _sparrow(stored[0], stored[1], vector),
    }
    del entries
    out = []
    for name in sides["peer"]:
        _check(name, *(work[name]() for work in sides.values()))
        took = alternate({side: work[name] for side, work in sides.items()}, rounds)
        for side in ("memory", "Parquet"):
            detail = f"{nnz / 1e6:.0f} M entries, {1e3 * took[side]:.1f} ms : {1e3 * took['peer']:.1f} ms"
            out.append(Row(f"{name}, {side}", against, took[side] / took["peer"], bound, detail))
    return out


def _check(name: str, *found: Any) -> None:
    """Raise if results differ in sum or in number of elements."""
    sums = [float(result.sum()) for result in found]
    np.testing.assert_allclose(sums[1:], sums[0], rtol=1e-6, atol=1e-6, err_msg=name)
    counts = {_count(result) for result in found if result.ndim == 2}
    if len(counts) > 1:
        raise AssertionError(f"{name}: {counts} entries")


def _count(found: Any) -> int:
    if isinstance(found, sp.Tensor):
        return found.nnz
    return int(np.count_nonzero(found.data))  # peers keep zeros that they computed


_SPARROW = """
import sparrow as sp
A = sp.open(args[0])
(A[:10] + A[:10]).nnz
sp.config(memory_limit=int(args[2]), temp_directory=args[3])
begin()
(A + A.T).save(args[1])
"""
_DUCKDB = """
import duckdb, glob
con = duckdb.connect()
con.execute(f"set memory_limit='{int(args[2]) // 1000}kB'; set threads=2; set temp_directory='{args[3]}'")
files = glob.glob(args[0] + "/*.parquet")
i, j, v = [row[0] for row in con.execute("describe select * from read_parquet($1)", [files]).fetchall()]
begin()
con.execute(f'''copy (
    select i, j, sum(v) as v
    from (select {i} as i, {j} as j, {v} as v from read_parquet({files}) union all
          select {j}, {i}, {v} from read_parquet({files}))
    group by all order by i, j) to '{args[1]}' (format parquet)''')
"""


def on_disk(nnz: int) -> list[Row]:
    """Compare sums of two sort orders beyond the memory limit: CPU and peak."""
    limit, path, out = 300 * 10**6, fresh(DATA / "cells.sparrow"), DATA / "cells-out"
    sp.random((nnz // 10, nnz // 10), nnz=nnz, seed=3).save(path)
    took, peak = in_process(_SPARROW, path, fresh(out), limit, DATA, cpu=True)
    most = limit + 200 * 10**6
    by_hand, _ = in_process(_DUCKDB, path, fresh(out), most, DATA, cpu=True)
    fresh(path)
    fresh(out)
    name = f"A + A.T, {nnz / 1e6:.0f} M entries, from disk to disk under {limit // 10**6} MB"
    return [
        Row(name, "the query in DuckDB", took / by_hand, 1.0, f"{took:.1f} : {by_hand:.1f} s of CPU"),
        Row(name, "limit and 200 MB", peak / most, 1.0, f"{peak / 1e6:.0f} : {most / 1e6:.0f} MB at the peak"),
        *stacks(nnz),
    ]


_STACKS = """
import sparrow as sp
A, B, M = (sp.open(path) for path in args[:3])
(A[:, :10] + B[:, :10]).nnz
sp.config(memory_limit=int(args[3]), temp_directory=args[4])
begin()
{}
"""


def stacks(nnz: int) -> list[Row]:
    """Measure peak memory of operations on stacks of two large matrices."""
    limit, n = 350 * 10**6, nnz // 100
    paths = [fresh(DATA / f"stack-{name}.sparrow") for name in "ABM"]
    for seed, path in enumerate(paths[:2]):
        sp.random((2, n, n), nnz=nnz, seed=seed).save(path)
    sp.random((n, n), nnz=nnz // 100, seed=2).save(paths[2])
    out, most = [], limit + 200 * 10**6
    for name, work in (
        ("A + B", "(A + B).nnz"),
        ("A @ M", "(A @ M).nnz"),
        ("A + B, summed", "(A + B).sum(axis=(0, 1))"),
    ):
        _, peak = in_process(_STACKS.format(work), *paths, limit, DATA, cpu=True)
        detail = f"{peak / 1e6:.0f} : {most / 1e6:.0f} MB at the peak"
        name = f"{name}, stacks of 2 matrices, {nnz / 1e6:.0f} M entries, under {limit // 10**6} MB"
        out.append(Row(name, "limit and 200 MB", peak / most, 1.0, detail))
    for path in paths:
        fresh(path)
    return out
