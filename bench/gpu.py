"""The engine for GPUs beside the stream engine and CuPy by hand; nothing where there is no device."""

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
    return out
