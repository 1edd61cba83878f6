"""Products from Parquet next to SciPy in RAM; SQL next to SQL by hand."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import scipy.sparse
from generate import matrix
from harness import DATA, Row, alternate, fresh

import sparrow as sp


def run(count: int, rounds: int) -> list[Row]:
    n = 1 << 20
    rows, columns, values = matrix(n, count)
    A = sp.from_coords([rows, columns], values, shape=(n, n))
    stored = A.save(fresh(DATA / "product.sparrow"))
    csr = scipy.sparse.csr_array((values, (rows, columns)), shape=(n, n))
    nnz = stored.nnz
    rng = np.random.default_rng(0)
    x, X = rng.standard_normal(n), rng.standard_normal((n, 8))
    del A, rows, columns, values
    out: list[Row] = []

    np.testing.assert_allclose(stored @ x, csr @ x, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(stored @ X, csr @ X, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(stored.T @ x, csr.T @ x, rtol=1e-9, atol=1e-9)
    floor = "first floor 3.5, goal 2.0"
    for name, ours, theirs in [
        ("SpMV A @ x", lambda: sp.matmul(stored, x, engine="stream"), lambda: csr @ x),
        ("SpMM A @ X, 8 vectors", lambda: sp.matmul(stored, X, engine="stream"), lambda: csr @ X),
        ("SpMV A.T @ x", lambda: sp.matmul(stored.T, x, engine="stream"), lambda: csr.T @ x),
    ]:
        took = alternate({"sparrow": ours, "scipy": theirs}, rounds)
        detail = f"{nnz / 1e6:.0f} M entries, {took['sparrow']:.2f} s : {took['scipy']:.2f} s; {floor}"
        out.append(Row(f"{name} from Parquet", "SciPy CSR in RAM", took["sparrow"] / took["scipy"], 3.5, detail))

    out += compare_persisted(stored, csr, x, X, rounds)

    paths = [record.path for record in stored.files()]
    con = duckdb.connect()
    con.execute("set threads = 2")
    con.register("x", pa.table({"j": np.arange(n, dtype=np.int32), "x": x}))

    def by_hand() -> None:
        found = con.execute(
            "select a.d0 as i, sum(a.value * x.x) as y from read_parquet($1) a join x on a.d1 = x.j group by a.d0",
            [paths],
        ).fetchnumpy()
        y = np.zeros(n)
        y[found["i"]] = found["y"]

    took = alternate({"sparrow": lambda: sp.matmul(stored, x, engine="duckdb"), "hand": by_hand}, rounds)
    detail = f"{nnz / 1e6:.0f} M entries, {took['sparrow']:.2f} s : {took['hand']:.2f} s"
    out.append(Row('SpMV, engine="duckdb"', "the same SQL by hand", took["sparrow"] / took["hand"], 1.1, detail))

    middle = n // 2
    question = "select d1, count(*) c, sum(value) s from {} where value > 0 group by d1 order by s desc limit 5"
    took = alternate(
        {
            "sparrow": lambda: sp.sql(question.format("A"), A=stored).fetchall(),
            "hand": lambda: con.execute(question.format("read_parquet($1)"), [paths]).fetchall(),
        },
        rounds,
    )
    detail = f"filter, group by, top 5: {took['sparrow']:.2f} s : {took['hand']:.2f} s"
    out.append(Row("sp.sql", "the same SQL by hand", took["sparrow"] / took["hand"], 1.1, detail))

    took = alternate(
        {
            "row": stored[middle].compute,
            "box": stored[middle : middle + 50_000, middle : middle + 50_000].compute,
            "scipy box": lambda: csr[middle : middle + 50_000, middle : middle + 50_000],
        },
        rounds,
    )
    detail = f"a row of Parquet {took['row'] * 1e3:.1f} ms, a box of 50 000 x 50 000 {took['box'] * 1e3:.1f} ms"
    out.append(Row("box slice", "SciPy CSR in RAM", took["box"] / took["scipy box"], 3.0, detail))
    return out


def compare_persisted(stored: sp.Tensor, csr: Any, x: Any, X: Any, rounds: int) -> list[Row]:
    kept, nnz = stored.persist(), stored.nnz
    np.testing.assert_allclose(kept @ X, csr @ X, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(kept.T @ x, csr.T @ x, rtol=1e-9, atol=1e-9)  # lays out the columns
    out: list[Row] = []
    for name, ours, theirs in [
        ("SpMV A @ x, persisted", lambda: kept @ x, lambda: csr @ x),
        ("SpMM A @ X, 8 vectors, persisted", lambda: kept @ X, lambda: csr @ X),
        ("SpMV A.T @ x, persisted", lambda: kept.T @ x, lambda: csr.T @ x),
    ]:
        took = alternate({"sparrow": ours, "scipy": theirs}, 3 * rounds)
        detail = f"{nnz / 1e6:.0f} M entries, {took['sparrow'] * 1e3:.0f} ms : {took['scipy'] * 1e3:.0f} ms"
        out.append(Row(name, "SciPy CSR in RAM", took["sparrow"] / took["scipy"], 0.7, detail))
    return out
