"""Graphs of networkx and igraph as tensors; what merely iterates is refused."""

from __future__ import annotations

import collections
import sys
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparrow as sp
from sparrow.errors import InvalidValueError, UnsupportedError

KINDS: list[Any] = [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph]
NAMES: dict[str, Any] = {
    "positions": lambda k: k,
    "texts": lambda k: f"node {k}",
    "numbers": lambda k: 1000 - 7 * k,
}


def draw_graph(kind: Any, seed: int, name: Any, weighted: bool) -> Any:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 12))
    result = kind()
    result.add_nodes_from(map(name, range(n)))
    for u, v in rng.integers(0, n, (int(rng.integers(0, 30)), 2)).tolist():
        weight = {"weight": float(rng.integers(1, 9)) / 2} if weighted and rng.random() < 0.8 else {}
        result.add_edge(name(u), name(v), **weight)
    return result


@settings(max_examples=40)
@given(
    st.sampled_from(KINDS), st.integers(0, 2**32), st.sampled_from(sorted(NAMES)), st.booleans(),
)  # fmt: skip
def test_networkx_graphs(kind: Any, seed: int, name: str, weighted: bool) -> None:
    graph = draw_graph(kind, seed, NAMES[name], weighted)
    A = sp.asarray(graph)
    np.testing.assert_array_equal(A.to_numpy(), nx.to_numpy_array(graph, multigraph_weight=sum))
    nodes = list(graph)
    expected = None if nodes == list(range(len(nodes))) else nodes
    assert [found and found.to_pylist() for found in map(A.labels, (0, 1))] == [expected, expected]
    assert A.dims == ("d0", "d1")
    assert np.issubdtype(A.dtype, np.integer) or weighted
    assert sp.asarray(graph, dims=("from", "to")).dims == ("from", "to")
    depths = sp.graph.bfs(graph, nodes[0])
    reached = nx.single_source_shortest_path_length(graph, nodes[0])
    assert depths.to_numpy().tolist() == [reached.get(node, -1) for node in nodes]


def test_labels_can_be_replaced() -> None:
    A = sp.asarray(nx.path_graph(["a", "b"]), labels={0: ["x", "y"], "d1": [3, 4]})
    assert [A.labels(axis).to_pylist() for axis in (0, 1)] == [["x", "y"], [3, 4]]  # type: ignore[union-attr]


def test_graphs_as_operands() -> None:
    graph = nx.DiGraph([("a", "b"), ("b", "a"), ("b", "c")])
    assert (sp.asarray(graph) + sp.asarray(graph)).to_numpy().tolist() == [[0, 2, 0], [2, 0, 2], [0, 0, 0]]
    ranks = sp.graph.pagerank(graph)
    expected = nx.pagerank(graph, tol=1e-12)
    np.testing.assert_allclose(ranks.to_numpy(), [expected[node] for node in graph], rtol=1e-4)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (nx.path_graph(3).adj, "pass the graph itself"),
        (nx.path_graph(3)[1], "pass the graph itself"),
        (nx.path_graph(3).nodes, "pass the graph itself"),
        (nx.path_graph(3).edges, "pass the graph itself"),
        (nx.path_graph(3).degree, "pass the graph itself"),
        (nx.Graph([((0, 1), (1, 1))]), "convert_node_labels_to_integers"),
        (nx.Graph([("a", 1)]), "convert_node_labels_to_integers"),
        (nx.Graph([(0.5, 1.5)]), "convert_node_labels_to_integers"),
        ({"a": {"b": 1}}, "got dict"),
        ({1, 2}, "got set"),
        ({1: 2}.values(), "got dict_values"),
        (iter([1, 2]), "got list_iterator"),
        ((k for k in range(3)), "got generator"),
        (object(), "got object"),
        (sys, "got module"),
    ],
)
def test_other_objects_are_refused(given: Any, error: str) -> None:
    with pytest.raises(UnsupportedError, match=error):
        sp.asarray(given)


class Indexable:
    """Object with the sequence protocol, which NumPy would read."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, at: int) -> int:
        return [5, 6][at]


def test_sequence_protocol_is_no_array() -> None:
    with pytest.raises(UnsupportedError, match="got Indexable"):
        sp.asarray(Indexable())
    for one in ([1, 2], (1, 2), range(1, 3), collections.deque([1, 2]), memoryview(bytes([1, 2])), bytearray([1, 2])):
        assert sp.asarray(one).to_numpy().tolist() == [1, 2]
    for scalar in (3, 2.5, True, 1j, np.float32(2)):
        assert sp.asarray(scalar).item() == scalar


def test_weights_of_zero(capfd: pytest.CaptureFixture[str]) -> None:
    graph = nx.Graph([(0, 1)])
    graph.add_edge(1, 2, weight=0)
    A = sp.asarray(graph, fill_value=np.inf)
    assert A.nnz == 4
    assert sp.graph.shortest_paths(A, 0).to_numpy().tolist() == [0, 1, 1]
    capfd.readouterr()
    assert sp.asarray(graph).nnz == 2
    assert "2 elements equal the fill value and are not stored" in capfd.readouterr().err


def test_weights_that_are_no_numbers() -> None:
    graph = nx.Graph([(0, 1)])
    graph.add_edge(1, 2, weight="far")
    with pytest.raises(UnsupportedError, match="weights of edges must be numbers"):
        sp.asarray(graph)


# -- igraph ---------------------------------------------------------------------------------------


@pytest.fixture
def igraph() -> Any:
    return pytest.importorskip("igraph")


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("named", [True, False])
def test_igraph_graphs(igraph: Any, directed: bool, weighted: bool, named: bool) -> None:
    graph = igraph.Graph(edges=[(0, 1), (1, 2), (2, 2), (3, 0), (0, 1)], n=5, directed=directed)
    if weighted:
        graph.es["weight"] = [1.5, 2.0, 3.0, 4.0, 0.5]
    if named:
        graph.vs["name"] = list("abcde")
    A = sp.asarray(graph)
    values = graph.es["weight"] if weighted else [1] * 5
    expected = np.zeros((5, 5))
    for (u, v), value in zip(graph.get_edgelist(), values, strict=True):
        expected[u, v] += value
        if not directed and u != v:
            expected[v, u] += value
    np.testing.assert_array_equal(A.to_numpy(), expected)
    labels = A.labels(1)
    assert (labels is None) if not named else labels.to_pylist() == list("abcde")  # type: ignore[union-attr]
    with pytest.raises(UnsupportedError, match="pass the graph itself"):
        sp.asarray(graph.vs)


# -- labels by the number of a dimension ------------------------------------------------------------


def test_labels_by_axis() -> None:
    A = sp.from_coords([[0, 1], [1, 0]], [1, 2], labels={0: ["a", "b", "c"], -1: [5, 6]})
    assert A.shape == (3, 2)
    assert A.labels(0).to_pylist() == ["a", "b", "c"]  # type: ignore[union-attr]
    B = sp.from_coords([[0, 1], [1, 0]], [1, 2], dims=("u", "i"), labels={"u": ["a", "b"], np.int64(1): [5, 6, 7]})
    assert B.shape == (2, 3)
    assert B.labels("i").to_pylist() == [5, 6, 7]  # type: ignore[union-attr]
    assert sp.asarray(np.eye(2), labels={1: ["x", "y"]}).labels(0) is None
    with pytest.raises(sp.errors.LabelError, match="by name and by number"):
        sp.from_coords([[0], [0]], [1], shape=(1, 1), dims=("u", "i"), labels={"u": ["a"], 0: ["b"]})
    with pytest.raises(IndexError, match="2 dimensions"):
        sp.from_coords([[0], [0]], [1], shape=(1, 1), labels={2: ["a"]})
    with pytest.raises(sp.errors.LabelError, match="no dimension True"):
        sp.from_coords([[0], [0]], [1], shape=(1, 1), labels={True: ["a"]})


@pytest.mark.parametrize("large", [2**53 + 1, -(2**53) - 1, np.int64(2**60 + 1)])
def test_weights_that_floats_would_round(large: Any) -> None:
    graph = nx.Graph([(0, 1, {"weight": large}), (1, 2, {"weight": 0.5})])
    with pytest.raises(InvalidValueError, match=f"must fit float64.*got {large}"):
        sp.asarray(graph)
    graph[0][1]["weight"] = float(large)
    assert sp.asarray(graph)[0, 1] == float(large)
