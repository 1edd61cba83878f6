"""Graph algorithms on the bundled web graph, against SciPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csgraph

import sparrow as sp
from sparrow import graph


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Any:
    shipped = Path(__file__).parents[2] / "datasets" / "cnr-2000" / "cnr-2000.edges.txt.zst"
    return sp.ingest.edges(shipped, tmp_path_factory.mktemp("cnr") / "web.sparrow")


@pytest.fixture(scope="module")
def matrix(web: sp.Tensor) -> Any:
    return web.to_scipy("csr")


def test_components_and_bfs_against_scipy(web: sp.Tensor, matrix: Any) -> None:
    for connection in ("weak", "strong"):
        count, expected = csgraph.connected_components(matrix, connection=connection)
        find = graph.connected_components if connection == "weak" else graph.strongly_connected_components
        result = find(web).to_numpy()
        assert result.max() + 1 == count
        assert len(np.unique(result.astype(np.int64) * count + expected)) == count
    far = csgraph.dijkstra(matrix, indices=0, unweighted=True)
    np.testing.assert_array_equal(graph.bfs(web, 0).to_numpy(), np.where(np.isinf(far), -1, far))


def test_pagerank_is_a_fixed_point(web: sp.Tensor, matrix: Any) -> None:
    ranks = graph.pagerank(web, tol=1e-10).to_numpy()
    degrees = np.asarray(matrix.sum(axis=1)).ravel()
    share = np.divide(ranks, degrees, out=np.zeros_like(ranks), where=degrees > 0)
    again = 0.85 * (matrix.T @ share + ranks[degrees == 0].sum() / len(ranks)) + 0.15 / len(ranks)
    assert np.abs(again - ranks).sum() < 1e-9


def test_triangles_against_matrix_product(web: sp.Tensor) -> None:
    part = web[:15_000, :15_000]
    both = (abs(part.to_scipy("csr")) + abs(part.to_scipy("csc").T)).tocsr()
    both.setdiag(0)
    both.eliminate_zeros()
    both.data[:] = 1
    expected = ((both @ both).multiply(both)).sum(axis=1) // 2
    np.testing.assert_array_equal(graph.triangles(part).to_numpy(), np.asarray(expected).ravel())
