"""SpGEMM next to SciPy, MKL and GraphBLAS, in RAM and out of core."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from generate import rmat
from harness import DATA, Row, alternate, fresh, in_process
from scipy import sparse

import sparrow as sp
from sparrow.sorting import SpillFile

os.environ |= {
    "KMP_BLOCKTIME": "0",
    "OMP_WAIT_POLICY": "passive",
}  # else threads of a peer spin while the next one runs


def run(small: bool, rounds: int) -> list[Row]:
    out: list[Row] = []
    web = sp.datasets.load("cnr-2000").astype("float64").compute()
    side = 1 << (12 if small else 16)
    power = sp.random((side, side), nnz=16 * side, seed=5, distribution="powerlaw").compute()
    users = sp.random((50_000 if small else 500_000, 2000), nnz=40 * side, seed=6).compute()
    for name, A, B in [("cnr-2000, A @ A", web, web), ("power law, A @ A", power, power), ("A.T @ A", users.T, users)]:
        out += against_scipy(name, A, B, rounds)
    for name, A, B in shapes(small):
        out += against_scipy(name, A, B, rounds)
    stored = web.save(fresh(DATA / "spgemm.sparrow"))
    csr = web.to_scipy("csr")
    for name, ours, theirs, bound in [
        ("cnr-2000, A @ A from Parquet", (stored @ stored).compute, lambda: csr @ csr, 1.0),
        ("cnr-2000, (A @ A * A).sum()", (web @ web * web).sum, lambda: (csr @ csr).multiply(csr).sum(), 0.1),
    ]:
        took = alternate({"sparrow": ours, "scipy": theirs}, rounds)
        detail = f"{took['sparrow']:.2f} s : {took['scipy']:.2f} s"
        out.append(Row(name, "SciPy in RAM", took["sparrow"] / took["scipy"], bound, detail))
    for name, A, B in [("cnr-2000, A @ A", web, web), ("power law, A @ A", power, power), ("A.T @ A", users.T, users)]:
        out += against_peers(name, A, B, rounds)
    if "graphblas" in peers(web, web):
        from graphblas import monoid, semiring

        graph = _of_graphblas(csr)
        theirs = lambda: semiring.plus_pair(graph @ graph).new(mask=graph.S).reduce_scalar(monoid.plus).new().value  # noqa: E731
        ours = sp.matmul(web, web, semiring="plus_pair", mask=web).sum
        assert int(theirs()) == int(ours())
        took = alternate({"sparrow": ours, "graphblas": theirs}, rounds)
        detail = f"{took['sparrow']:.2f} s : {took['graphblas']:.2f} s"
        ratio = took["sparrow"] / took["graphblas"]
        out.append(Row("triangles of cnr-2000, as a sum under a mask", "GraphBLAS in RAM", ratio, 0.6, detail))
    return out + counts(web, rounds) + top_ten(small, rounds) + on_disk(small)


def counts(web: sp.Tensor, rounds: int) -> list[Row]:
    """Return the time of counting a product over that of computing it."""
    rows = web[: web.shape[0] // 4].compute()

    def compute() -> int:
        return sum(block.count for block in sp.engines.iter_blocks((rows @ web.T).__sparrow_scan__()))

    took = alternate({"count": lambda: (rows @ web.T).nnz, "compute": compute}, rounds)
    detail = f"{took['count']:.2f} s : {took['compute']:.2f} s"
    return [Row("cnr-2000, (A @ A.T).nnz", "computing it", took["count"] / took["compute"], 0.4, detail)]


def top_ten(small: bool, rounds: int) -> list[Row]:
    """Return the time of the ten nearest of TF-IDF rows over that of sparse_dot_topn."""
    if importlib.util.find_spec("sparse_dot_topn") is None:
        return []
    from sparse_dot_topn import sp_matmul_topn

    tfidf = sparse.csr_matrix(tfidf_rows(5_000 if small else 50_000))
    other, A = tfidf.T.tocsr(), sp.asarray(tfidf)
    theirs = lambda: sp_matmul_topn(tfidf, other, top_n=10, n_threads=2)  # noqa: E731
    took = alternate({"sparrow": sp.matmul(A, A.T, topk=10).compute, "sparse_dot_topn": theirs}, rounds)
    detail = f"{took['sparrow']:.2f} s : {took['sparse_dot_topn']:.2f} s"
    ratio = took["sparrow"] / took["sparse_dot_topn"]
    return [Row("ten nearest of TF-IDF rows", "sparse_dot_topn", ratio, 0.4, detail)]


def tfidf_rows(count: int) -> Any:
    """Return TF-IDF rows of texts of 12 words, whose frequencies follow Zipf's law."""
    words, rng = 30_000, np.random.default_rng(0)
    frequency = 1 / np.arange(1, words + 1) ** 0.9
    columns = rng.choice(words, count * 12, p=frequency / frequency.sum())
    terms = sparse.csr_array((np.ones(len(columns)), (np.repeat(np.arange(count), 12), columns)), shape=(count, words))
    terms.sum_duplicates()
    weighted = terms.multiply(np.log(count / np.maximum(np.bincount(terms.indices, minlength=words), 1)) + 1)
    lengths = np.sqrt(weighted.multiply(weighted).sum(axis=1))
    return sparse.diags_array(1 / lengths) @ weighted


def shapes(small: bool) -> Iterator[tuple[str, Any, Any]]:
    """Yield operands: uniform, power-law, banded, grids, sorted or not."""
    n = 10_000 if small else 100_000
    uniform = sp.random((n, n), nnz=20 * n, seed=7).compute()
    yield "uniform, 20 a row, A @ A", uniform, uniform
    social = rmat(10 if small else 14, 16)
    yield "R-MAT, A @ A", social, social
    large = rmat(12 if small else 20, 16)
    yield "R-MAT, 1,000 rows @ A", large[:1000].compute(), large
    diagonals = sparse.diags([np.linspace(1, 2, n)] * 21, range(-10, 11), shape=(n, n), format="csr")
    band = sp.asarray(diagonals).compute()
    yield "band of 21 diagonals, A @ A", band, band
    line = second_differences(20 if small else 80)
    grid = sp.asarray(sparse.kronsum(sparse.kronsum(line, line), line).tocsr()).compute()
    yield "stencil of a 3-D grid, A @ A", grid, grid
    line = second_differences(100 if small else 1000)
    plane = sparse.kronsum(line, line).tocsr()
    grid = sp.asarray(plane).compute()
    yield "stencil of a plane, A @ A", grid, grid
    order = np.random.default_rng(8).permutation(plane.shape[0])
    grid = sp.asarray(plane[order][:, order]).compute()
    yield "the same, rows in any order", grid, grid
    band = sp.asarray(second_differences(15 * n)).compute()
    yield "tridiagonal, A @ A", band, band
    thin = sp.random((10 * n, 10 * n), nnz=30 * n, seed=9).compute()
    yield "uniform, 3 a row, A @ A", thin, thin


def second_differences(n: int) -> Any:
    """Return the tridiagonal matrix of 1, -2 and 1."""
    return sparse.diags([1.0, -2.0, 1.0], [-1, 0, 1], shape=(n, n), format="csr")


def _of_graphblas(matrix: Any) -> Any:
    from graphblas.io import from_scipy_sparse

    return from_scipy_sparse(matrix)


def peers(A: Any, B: Any) -> dict[str, Callable[[], Any]]:
    """Return the product in each installed peer library."""
    left, right = A.compute().to_scipy("csr"), B.compute().to_scipy("csr")
    found: dict[str, Callable[[], Any]] = {}
    if importlib.util.find_spec("graphblas"):
        from graphblas import semiring

        one, other = _of_graphblas(left), _of_graphblas(right)
        found["graphblas"] = lambda: semiring.plus_times(one @ other).new().wait()
    if importlib.util.find_spec("sparse_dot_mkl"):
        try:
            from sparse_dot_mkl import dot_product_mkl
        except ImportError as error:  # the library itself is not where it looks
            print(f"no row against MKL: {error}")
        else:
            found["mkl"] = lambda: dot_product_mkl(left, right)
    return found


def against_peers(name: str, A: Any, B: Any, rounds: int) -> list[Row]:
    """Compare a product with GraphBLAS and MKL where installed."""
    took = alternate({"sparrow": (A @ B).compute, **peers(A, B)}, rounds)
    bounds = {"graphblas": ("GraphBLAS in RAM", 0.5), "mkl": ("MKL in RAM, not sorted", 1.0)}
    return [
        Row(name, against, took["sparrow"] / took[peer], bound, f"{took['sparrow']:.2f} s : {took[peer]:.2f} s")
        for peer, (against, bound) in bounds.items()
        if peer in took
    ]


def against_scipy(name: str, A: Any, B: Any, rounds: int) -> list[Row]:
    """Compare plus_times and min_plus products with SciPy's unsorted one."""
    left, right = A.compute().to_scipy("csr"), B.compute().to_scipy("csr")
    products = int(np.diff(right.indptr)[left.indices].sum())
    found = (A @ B).compute().to_scipy("csr")
    wanted = left @ right
    assert abs(found - wanted).sum() <= 1e-6 * max(abs(wanted).sum(), 1)
    cases = {
        "sparrow": (A @ B).compute, "scipy": lambda: left @ right, "min": sp.matmul(A, B, semiring="min_plus").compute,
    }  # fmt: skip
    took = alternate(cases, rounds)
    with sp.config(threads=1):
        alone = alternate({name: cases[name] for name in ("sparrow", "scipy")}, rounds)
    size = f"{products / 1e6:.0f} M products, {wanted.nnz / 1e6:.1f} M results"
    detail = f"{size}, {took['sparrow']:.2f} s : {took['scipy']:.2f} s"
    by_one = f"{size}, {alone['sparrow']:.2f} s : {alone['scipy']:.2f} s"
    tropical = f"{size}, {took['min']:.2f} s : {took['sparrow']:.2f} s"
    return [
        Row(name, "SciPy csr @ csr, not sorted", took["sparrow"] / took["scipy"], 0.4, detail),
        Row(f"{name}, one thread", "SciPy csr @ csr, not sorted", alone["sparrow"] / alone["scipy"], 0.7, by_one),
        Row(f"{name}, min_plus", "plus_times", took["min"] / took["sparrow"], 1.1, tropical),
    ]


_SPARROW = """
import sparrow as sp
A = sp.open(args[0])
(A[:100] @ A).nnz
if args[1] != "0":
    sp.config(memory_limit=int(args[1]), temp_directory=args[2])
begin()
(A @ A).nnz
"""
_DUCKDB = """
import glob, duckdb
con = duckdb.connect()
con.execute(f"set memory_limit='{int(args[1]) // 1000}kB'; set threads=2; set temp_directory='{args[2]}'")
con.execute("set preserve_insertion_order=false")
files = glob.glob(args[0] + "/*.parquet")
i, j, v = [row[0] for row in con.execute("describe select * from read_parquet($1)", [files]).fetchall()]
begin()
con.execute(f'''select count(*), sum(c) from (
    select a.{i}, b.{j}, sum(a.{v} * b.{v}) as c from read_parquet($1) a join read_parquet($1) b on a.{j} = b.{i}
    group by all)''', [files]).fetchall()
"""


def on_disk(small: bool) -> list[Row]:
    """Compare products three times beyond the held operand: CPU and peak."""
    out: list[Row] = []
    height = 30_000 if small else 300_000
    uniform = f"{height // 10_000} M uniform products"
    cases = {
        "cnr-2000, A @ A": (lambda: sp.datasets.load("cnr-2000").astype("float64"), 172_000_000),
        uniform: (lambda: sp.random((height, height), nnz=10 * height, seed=9), 180_000_000),
    }
    for name, (made, limit) in cases.items():
        path = fresh(DATA / "spilled.sparrow")
        made().save(path)
        (spilled, peak), (held, _) = (in_process(_SPARROW, path, most, DATA, cpu=True) for most in (limit, 0))
        most = limit + 200 * 10**6
        by_hand, _ = in_process(_DUCKDB, path, most, DATA, cpu=True)  # under the limit alone it gives up
        name = f"{name}, on disk under {limit // 10**6} MB"
        out.append(Row(name, "the same held", spilled / held, 1.2, f"{spilled:.2f} : {held:.2f} s of CPU"))
        out.append(Row(name, "the join in DuckDB", spilled / by_hand, 0.15, f"{spilled:.2f} : {by_hand:.2f} s of CPU"))
        out.append(
            Row(name, "limit and 200 MB", peak / most, 1.0, f"{peak / 1e6:.0f} : {most / 1e6:.0f} MB at the peak")
        )
        fresh(path)
    return out


SIZES = [10**6, 3 * 10**6, 10**7, 3 * 10**7, 10**8, 3 * 10**8, 10**9]
"""Products of :func:`grown`."""


def draw(folder: Path, found: list[tuple[int, float, int]]) -> None:
    """Write ``products-growth.svg``: CPU seconds and spilled bytes by products."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "products", "svg.fonttype": "none", "font.size": 9})
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5.2, 3.4), layout="constrained")
    axes.loglog([each[0] for each in found], [each[1] for each in found], "-o", ms=3, label="seconds of CPU")
    spilled = [each for each in found if each[2]]
    axes.loglog([each[0] for each in spilled], [each[2] / 1e9 for each in spilled], "--o", ms=3, label="GB spilled")
    axes.set(xlabel="products")
    axes.legend(frameon=False)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "products-growth.svg", metadata={"Date": None})
    plt.close(figure)
    for count, seconds, nbytes in found:
        print(f"{count / 1e6:,.0f} M products: {seconds:.2f} s of CPU, {nbytes / 1e6:,.0f} MB spilled")


def measure_growth(products: int) -> tuple[int, float, int]:
    """Return products, CPU seconds and spilled bytes of a stored A @ A."""
    height, spilled, write = products // 100, [0], SpillFile.write
    path, result = fresh(DATA / "growth.sparrow"), DATA / "growth-result.sparrow"
    A = sp.random((height, height), nnz=10 * height, seed=9).save(path)

    def count_spilled(self: SpillFile, segment: Any, start: int, array: Any) -> None:
        spilled[0] += array.nbytes
        write(self, segment, start, array)

    with sp.config(memory_limit="300MB"):
        sp.matmul(A[:100], A).nnz  # noqa: B018 - loops are compiled
        SpillFile.write = count_spilled  # type: ignore[method-assign]
        start = time.process_time()
        (A @ A).save(fresh(result))
        took = time.process_time() - start
        SpillFile.write = write  # type: ignore[method-assign]
    fresh(path)
    fresh(result)
    return products, took, spilled[0]
