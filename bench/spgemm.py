"""Products of sparse matrices, in memory and from Parquet, against SciPy in RAM."""

from __future__ import annotations

from typing import Any

import numpy as np
from harness import DATA, Row, alternate, fresh

import sparrow as sp


def run(small: bool, rounds: int) -> list[Row]:
    out: list[Row] = []
    web = sp.datasets.load("cnr-2000").astype("float64").compute()
    side = 1 << (12 if small else 16)
    power = sp.random((side, side), nnz=16 * side, seed=5, distribution="powerlaw").compute()
    users = sp.random((50_000 if small else 500_000, 2000), nnz=40 * side, seed=6).compute()
    for name, A, B in [("cnr-2000, A @ A", web, web), ("power law, A @ A", power, power), ("A.T @ A", users.T, users)]:
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
    return out


def against_scipy(name: str, A: Any, B: Any, rounds: int) -> list[Row]:
    """Compare a product under plus and times, and under min and plus, with SciPy's, which is not sorted."""
    left, right = A.compute().to_scipy("csr"), B.compute().to_scipy("csr")
    products = int(np.diff(right.indptr)[left.indices].sum())
    found = (A @ B).compute().to_scipy("csr")
    wanted = left @ right
    assert abs(found - wanted).sum() <= 1e-6 * max(abs(wanted).sum(), 1)
    cases = {
        "sparrow": (A @ B).compute, "scipy": lambda: left @ right, "min": sp.matmul(A, B, semiring="min_plus").compute,
    }  # fmt: skip
    took = alternate(cases, rounds)
    size = f"{products / 1e6:.0f} M products, {wanted.nnz / 1e6:.1f} M results"
    detail = f"{size}, {took['sparrow']:.2f} s : {took['scipy']:.2f} s"
    tropical = f"{size}, {took['min']:.2f} s : {took['sparrow']:.2f} s"
    return [
        Row(name, "SciPy csr @ csr, not sorted", took["sparrow"] / took["scipy"], 0.4, detail),
        Row(f"{name}, min_plus", "plus_times", took["min"] / took["sparrow"], 1.1, tropical),
    ]
