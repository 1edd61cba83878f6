"""Graph algorithms next to plain loops, SciPy and igraph."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from harness import DATA, Row, alternate, fresh
from numba import njit
from scipy.sparse import csgraph

import sparrow as sp

DAMPING, ROUNDS = 0.85, 30


def run(small: bool, rounds: int) -> list[Row]:
    """Return the rows of cnr-2000, and of generated graphs those of PageRank only."""
    web = sp.datasets.load("cnr-2000")
    out = [_pagerank("cnr-2000", web, rounds)]
    for n, links in [(1 << 16, 1_000_000)] if small else [(1 << 21, 20_000_000), (1 << 23, 100_000_000)]:
        power: Any = sp.random((n, n), nnz=links, seed=7, distribution="powerlaw") != 0
        power = power.save(fresh(DATA / "links.sparrow"))
        out.append(_pagerank(f"{links // 1_000_000} M links, power law", power, rounds))
        fresh(DATA / "links.sparrow")
    return out + _parts(web, rounds)


@njit(cache=True)
def _plain(indptr: Any, sources: Any, share: Any, ranks: Any, rounds: int) -> Any:
    """PageRank as one writes it: over the links to each node, in one thread."""
    n = len(ranks)
    given = np.empty(n)
    for _ in range(rounds):
        lost = 0.0
        for k in range(n):
            given[k] = ranks[k] * share[k]
            if share[k] == 0:
                lost += ranks[k]
        base = (0.15 + 0.85 * lost) / n
        for k in range(n):
            total = 0.0
            for at in range(indptr[k], indptr[k + 1]):
                total += given[sources[at]]
            ranks[k] = base + 0.85 * total
    return ranks


def _pagerank(name: str, stored: Any, rounds: int) -> Row:
    """Compare PageRank from files with a loop over CSR in RAM."""
    by_target = stored.T.to_scipy("csr")
    n, nnz = stored.shape[0], stored.nnz
    leaving = np.bincount(by_target.indices, minlength=n).astype(float)
    share = np.divide(1.0, leaving, out=np.zeros(n), where=leaving > 0)
    arrays = by_target.indptr, by_target.indices, share

    def ours() -> Any:
        try:
            return sp.linalg.pagerank(stored, DAMPING, tol=0.0, max_iter=ROUNDS)
        except sp.errors.ConvergenceError:  # asked for more than there is: every run does as many rounds
            return None

    ranks = sp.linalg.pagerank(stored, DAMPING, tol=1e-9)
    wanted = _plain(*arrays, np.full(n, 1 / n), 200)
    assert np.abs(ranks - wanted).sum() < 1e-6
    took = alternate({"sparrow": ours, "plain": lambda: _plain(*arrays, np.full(n, 1 / n), ROUNDS)}, rounds)
    rates = [ROUNDS * nnz / took[each] / 1e6 for each in ("sparrow", "plain")]
    detail = f"{ROUNDS} rounds from disk, {rates[0]:.0f} : {rates[1]:.0f} M links/s a round"
    return Row(
        f"PageRank, {name}", "plain loop over rows in RAM, one thread", took["sparrow"] / took["plain"], 1.0, detail
    )


def _parts(web: Any, rounds: int) -> list[Row]:
    """Return rows for components, searches and cores, stored and persisted."""
    csr, kept = web.to_scipy("csr"), web.persist()
    cases: list[tuple[str, Any, str, Any]] = [
        ("connected components", sp.graph.connected_components, "SciPy csgraph in RAM",
         lambda: csgraph.connected_components(csr, connection="weak")),
        ("strongly connected components", sp.graph.strongly_connected_components, "SciPy csgraph in RAM",
         lambda: csgraph.connected_components(csr, connection="strong")),
        ("breadth-first search", lambda A: sp.graph.bfs(A, 0), "SciPy csgraph in RAM",
         lambda: csgraph.breadth_first_order(csr, 0)),
        ("shortest paths", lambda A: sp.graph.shortest_paths(A, 0), "SciPy csgraph in RAM",
         lambda: csgraph.dijkstra(csr, indices=0)),
    ]  # fmt: skip
    try:
        import igraph
    except ModuleNotFoundError:
        print("no rows against igraph: it is not installed")
    else:
        directed = igraph.Graph(web.shape[0], np.column_stack(csr.nonzero()).tolist(), directed=True)
        both = directed.as_undirected().simplify()
        cases += [
            ("triangles", sp.graph.triangles, "igraph in RAM", lambda: both.list_triangles()
             if not hasattr(both, "count_adjacent_triangles") else both.count_adjacent_triangles()),
            ("core numbers", sp.graph.kcore, "igraph in RAM", both.coreness),
        ]  # fmt: skip
    out = []
    for name, ours, against, theirs in cases:
        took = alternate({"disk": partial(ours, web), "memory": partial(ours, kept), "peer": theirs}, rounds)
        for where, text in (("disk", "from disk"), ("memory", "persisted")):
            detail = f"{text}, {took[where]:.3f} s : {took['peer']:.3f} s"
            row = f"{name} of cnr-2000, {text}"
            out.append(Row(row, against, took[where] / took["peer"], 1.0, detail))
    return out
