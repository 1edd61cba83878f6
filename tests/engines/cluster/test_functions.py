"""Every function of graphs and linear algebra has the same results in tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import sparrow as sp
import sparrow.testing
from sparrow import engines
from sparrow.engines.cluster import Cluster
from tests.engines.cluster.here import Here

SIZE = 30
RNG = np.random.default_rng(3)
B, X = RNG.random(SIZE), RNG.random((SIZE, 4))

GRAPH: dict[str, Callable[[Any], Any]] = {
    "adamic_adar": sp.graph.adamic_adar,
    "bfs": lambda A: sp.graph.bfs(A, 0),
    "clustering": sp.graph.clustering,
    "common_neighbors": sp.graph.common_neighbors,
    "connected_components": lambda A: sp.graph.connected_components(A[:, ::-1] * (A > 0.8)),
    "degrees": lambda A: (sp.graph.degrees(A, "both"), sp.graph.degrees(A, "in", weighted=True)),
    "hits": lambda A: sp.graph.hits(A, tol=1e-4),
    "induced_subgraph": lambda A: sp.graph.induced_subgraph(A, [3, 1, 2, 9]),
    "kcore": sp.graph.kcore,
    "label_propagation": sp.graph.label_propagation,
    "largest_component": lambda A: sp.graph.largest_component(A * (A > 0.8)),
    "pagerank": lambda A: sp.graph.pagerank(A, personalization=[3, 4]),
    "random_walks": lambda A: sp.graph.random_walks(A, [0, 4], 5, weighted=True),
    "shortest_paths": lambda A: (sp.graph.shortest_paths(A, [0, 7]), sp.graph.shortest_paths(A, 0, directed=False)),
    "strongly_connected_components": lambda A: sp.graph.strongly_connected_components(A * (A > 0.8)),
    "symmetrize": lambda A: sp.graph.symmetrize(A, "sum"),
    "triangles": sp.graph.triangles,
}


def definite(A: Any) -> Any:
    return A + A.T + 20 * sp.eye(SIZE)


def triangular(A: Any) -> Any:
    return sp.tril(A) + 5 * sp.eye(SIZE)


LINALG: dict[str, Callable[[Any], Any]] = {
    "Operator": lambda A: [sp.linalg.Operator(A - A.mean(axis=0), persist).dot(X) for persist in (True, False, None)],
    "aslinearoperator": lambda A: [sp.linalg.aslinearoperator(A + 1).rmatmat(X[:, :k]) for k in (1, 4)],
    "bicgstab": lambda A: sp.linalg.bicgstab(definite(A), B),
    "cg": lambda A: sp.linalg.cg(definite(A), B),
    "cholesky": lambda A: sp.linalg.cholesky(definite(A)),
    "cross": lambda A: sp.linalg.cross(A[:, :3], A[:, 3:6]),
    "det": sp.linalg.det,
    "diagonal": lambda A: sp.linalg.diagonal(A, offset=1),
    "eig": sp.linalg.eig,
    "eigh": lambda A: sp.linalg.eigh(definite(A)),
    "eigsh": lambda A: sp.linalg.eigsh(definite(A), 3, v0=B),
    "eigvals": sp.linalg.eigvals,
    "eigvalsh": lambda A: sp.linalg.eigvalsh(definite(A)),
    "expm_multiply": lambda A: sp.linalg.expm_multiply(A / 10, X),
    "gmres": lambda A: sp.linalg.gmres(definite(A), B),
    "inv": sp.linalg.inv,
    "lobpcg": lambda A: sp.linalg.lobpcg(definite(A), X[:, :2], maxiter=40, tol=0.1),
    "lsmr": lambda A: sp.linalg.lsmr(A[:, :9], B)[0],
    "lsqr": lambda A: sp.linalg.lsqr(A[:, :9], B)[0],
    "matmul": lambda A: (sp.linalg.matmul(A, A, mask=A), sp.linalg.matmul(A, A, semiring="min_plus")),
    "matrix_norm": lambda A: [sp.linalg.matrix_norm(A, ord=order) for order in ("fro", 1, np.inf, 2)],
    "matrix_power": lambda A: sp.linalg.matrix_power(A, 5),
    "matrix_rank": sp.linalg.matrix_rank,
    "matrix_transpose": lambda A: sp.linalg.matrix_transpose(A * 2),
    "minres": lambda A: sp.linalg.minres(definite(A), B),
    "norm": lambda A: (sp.linalg.norm(A), sp.linalg.norm(A * 2, axis=1), sp.linalg.norm(A, axis=0)),
    "outer": lambda A: sp.linalg.outer(A[0], A[:, 3]),
    "pagerank": sp.linalg.pagerank,
    "pca": lambda A: sp.linalg.pca(A, 3),
    "pinv": lambda A: sp.linalg.pinv(A[:, :5]),
    "power_iteration": lambda A: sp.linalg.power_iteration(definite(A), tol=1e-3),
    "qr": lambda A: tuple(sp.linalg.qr(A)),
    "slogdet": lambda A: tuple(sp.linalg.slogdet(A)),
    "solve": lambda A: sp.linalg.solve(definite(A), B),
    "spilu": lambda A: sp.linalg.spilu(definite(A)).solve(B),
    "splu": lambda A: sp.linalg.splu(definite(A)).solve(B),
    "spsolve": lambda A: sp.linalg.spsolve(definite(A), B),
    "spsolve_triangular": lambda A: sp.linalg.spsolve_triangular(triangular(A), B),
    "svd": lambda A: tuple(sp.linalg.svd(A)),
    "svds": lambda A: sp.linalg.svds(A, 3, v0=B),
    "svdvals": sp.linalg.svdvals,
    "tensordot": lambda A: sp.linalg.tensordot(A, A[:, 2:9], 1),
    "trace": sp.linalg.trace,
    "vecdot": lambda A: sp.linalg.vecdot(A, A.T),
    "vector_norm": lambda A: [sp.linalg.vector_norm(A, axis=1, ord=order) for order in (1, 2, np.inf)],
}


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Any:
    rng = np.random.default_rng(0)
    coords = rng.integers(0, SIZE, (2, 150))
    A = sp.from_coords(coords, rng.random(150), shape=(SIZE, SIZE), duplicates="last")
    return A.save(tmp_path_factory.mktemp("functions") / "A.sparrow")


@pytest.fixture(scope="module", autouse=True)
def in_tasks() -> Iterator[None]:
    engines.register(Cluster("in_tasks", lambda cluster: Here()))
    with sparrow.testing.strategy("tiny_tasks", "small_chunks"):
        yield
    engines.unregister("in_tasks")


def arrays(found: Any) -> list[Any]:
    """Return the arrays of a result."""
    if isinstance(found, list | tuple):
        return [array for each in found for array in arrays(each)]
    return [np.asarray(found.to_numpy() if isinstance(found, sp.Tensor) else found)]


def test_every_function_is_here() -> None:
    assert sorted(GRAPH) == sorted(sp.graph.__all__)
    assert sorted(LINALG) == sorted(sp.linalg.__all__)


@pytest.mark.parametrize(
    ("function", "works"),
    [
        (sp.graph.connected_components, {"Fold"}),
        (sp.graph.pagerank, {"Products", "SortRows", "MergeRows", "MultiplyRows"}),
        (LINALG["svds"], {"StoreRows", "SortRows", "MergeRows", "MultiplyRows"}),
        (LINALG["cg"], {"StoreRows", "MultiplyRows"}),
    ],
)
def test_loops_run_in_tasks(function: Callable[[Any], Any], works: set[str], matrix: Any) -> None:
    with sp.config(engine="in_tasks"), sparrow.testing.observe("cluster.round") as rounds:
        function(matrix)
    assert works <= {type(details["work"]).__name__ for _, details in rounds}


@pytest.mark.parametrize("name", [*GRAPH, *LINALG])
def test_same_bits(name: str, matrix: Any) -> None:
    for function in (functions[name] for functions in (GRAPH, LINALG) if name in functions):
        with sp.config(engine="stream"):
            expected = arrays(function(matrix))
        with sp.config(engine="in_tasks"):
            found = arrays(function(matrix))
        assert [array.dtype for array in found] == [array.dtype for array in expected]
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)
