"""The GPU engine next to the stream engine and plain CuPy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from harness import DATA, Row, alternate, fresh

import sparrow as sp
from sparrow.errors import MissingDependencyError


def run(small: bool, rounds: int) -> list[Row]:
    try:
        sp.eye(2).compute("cupy")
    except MissingDependencyError as error:
        print(f"gpu: skipped, {error}", file=sys.stderr)
        return []
    import cupy
    import cupyx.scipy.sparse

    side = 1 << (12 if small else 18)
    power = sp.random((side, side), nnz=16 * side, seed=5, distribution="powerlaw")
    stored = power.save(fresh(DATA / "gpu.sparrow"))
    web = sp.datasets.load("cnr-2000").astype("float64").compute()
    x = np.random.default_rng(1).random((side, 64))
    there, wide = cupyx.scipy.sparse.csr_matrix(stored.to_scipy("csr")), cupy.asarray(x)
    held = cupyx.scipy.sparse.csr_matrix(web.to_scipy("csr"))
    cases: list[tuple[str, Callable[[str], Any], Callable[[], Any]]] = [
        ("A @ X from Parquet, 64 columns", lambda engine: sp.matmul(stored, x, engine=engine), lambda: there @ wide),
        ("cnr-2000, A @ A", (web @ web).compute, lambda: held @ held),
        ("(A * A + A).sum(axis=0) from Parquet", lambda engine: (stored * stored + stored).sum(axis=0).compute(engine),
         lambda: (there.multiply(there) + there).sum(axis=0)),
    ]  # fmt: skip
    out = []
    for name, ours, theirs in cases:

        def by_hand(theirs: Callable[[], Any] = theirs) -> None:
            theirs()
            cupy.cuda.Device().synchronize()

        turns = {"cupy": partial(ours, "cupy"), "stream": partial(ours, "stream"), "hand": by_hand}
        took = alternate(turns, rounds)
        detail = f"{took['cupy']:.3f} s : {took['stream']:.3f} s; of arrays on the device by hand {took['hand']:.3f} s"
        out.append(Row(f"GPU: {name}", "the stream engine", took["cupy"] / took["stream"], 1.0, detail))
    return out + [_epoch(web, solver, 16 if small else 128, rounds) for solver in ("cg", "exact", "subspace")]


def _epoch(web: sp.Tensor, solver: Any, factors: int, rounds: int) -> Row:
    """Return time of one more epoch of a fit, whose links are in memory."""

    def fit(engine: Any, epochs: int) -> Callable[[], Any]:
        return lambda: sp.models.ALS(factors, solver=solver, epochs=epochs, engine=engine).fit(web)

    took = alternate({f"{engine} {n}": fit(engine, n) for engine in ("cupy", "stream") for n in (1, 3)}, rounds)
    ours, theirs = ((took[f"{engine} 3"] - took[f"{engine} 1"]) / 2 for engine in ("cupy", "stream"))
    detail = f"{ours:.3f} s : {theirs:.3f} s, {2 * web.nnz / ours / 1e6:.1f} M links/s over both half steps"
    return Row(f'GPU: ALS epoch of cnr-2000, "{solver}", d = {factors}', "the processor", ours / theirs, 1.0, detail)
