from __future__ import annotations

import itertools
import operator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse.csgraph
from hypothesis import given, settings
from hypothesis import strategies as st

import sparrow as sp
from sparrow import errors, graph
from sparrow.graph import adjacency
from sparrow.runtime import memory
from sparrow.testing import observe, strategy, tune


@st.composite
def matrices(draw: st.DrawFn, least: int = 1) -> Any:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = draw(st.integers(1, 14))
    density = draw(st.sampled_from([0.05, 0.15, 0.4]))
    return rng.integers(least, 9, (n, n)) * (rng.random((n, n)) < density)


def out_of_core() -> AbstractContextManager[None]:
    """Spill adjacency lists and read them in small pieces."""
    return tune("graph", adjacency_share=1 << 40, seek_ratio=3, read_edges=5, read_gap_edges=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    count = itertools.count()
    path = tmp_path_factory.mktemp("graphs")
    return lambda a: sp.asarray(a).save(path / f"{next(count)}.sparrow")


def to_digraph(a: Any) -> Any:
    return nx.from_numpy_array(a, create_using=nx.DiGraph)


def to_simple_graph(a: Any) -> Any:
    """Return the graph of links both ways without those of a node to itself."""
    result = nx.Graph(to_digraph(a))
    result.remove_edges_from(nx.selfloop_edges(result))
    return result


def array_of(by_node: Any, n: int, missing: Any = 0) -> Any:
    return np.array([by_node.get(k, missing) for k in range(n)])


def partition(component: Any) -> set[frozenset[int]]:
    result: dict[int, set[int]] = {}
    for node, number in enumerate(np.asarray(component).tolist()):
        result.setdefault(number, set()).add(node)
    assert list(result) == list(range(len(result)))  # in the order of their first nodes
    return set(map(frozenset, result.values()))


@settings(max_examples=5)
@given(a=matrices())
def test_against_networkx(a: Any, folder: Any) -> None:
    A = folder(a)
    check_against_networkx(a, A)
    with out_of_core():
        check_against_networkx(a, A)


@settings(max_examples=12)
@given(a=matrices(), max_edges=st.integers(1, 30), data=st.data())
def test_kernel_calls_resume(a: Any, max_edges: int, data: st.DataObject) -> None:
    n = len(a)
    one, both = to_digraph(a), to_simple_graph(a)
    sources = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=4))
    depth = data.draw(st.integers(0, 4))
    with tune("graph", edges_per_call=max_edges):
        for A in (sp.asarray(a), sp.asarray(a).persist(), sp.asarray(a.T).persist().T):
            steps = nx.multi_source_dijkstra_path_length(one, set(sources), cutoff=depth, weight=None)
            result = graph.bfs(A, sources, max_depth=depth).to_numpy()
            np.testing.assert_array_equal(result, array_of(steps, n, -1))
            far = nx.multi_source_dijkstra_path_length(one, set(sources))
            np.testing.assert_array_equal(graph.shortest_paths(A, sources).to_numpy(), array_of(far, n, np.inf))
            strong = set(map(frozenset, nx.strongly_connected_components(one)))
            assert partition(graph.strongly_connected_components(A)) == strong
            np.testing.assert_array_equal(graph.kcore(A).to_numpy(), array_of(nx.core_number(both), n))


@settings(max_examples=10)
@given(seed=st.integers(0, 2**32), least=st.sampled_from([0, -1]), spread=st.sampled_from([3, 1000]))
def test_shortest_paths_of_any_length(seed: int, least: int, spread: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 25))
    lengths = np.where(rng.random((n, n)) < 0.2, rng.integers(least, spread, (n, n)) / 2.0, np.inf)
    if rng.random() < 0.5:
        lengths[:, rng.integers(n)] = np.nan if least < 0 else np.inf  # what no way is shorter by
    at = np.nonzero(~np.isinf(lengths))
    A = sp.from_coords(at, lengths[at], shape=(n, n), fill_value=np.inf)  # so that a link may have length 0
    one = nx.DiGraph()
    one.add_nodes_from(range(n))
    one.add_weighted_edges_from((i, j, lengths[i, j]) for i, j in np.argwhere(np.isfinite(lengths)).tolist())
    try:
        expected: Any = nx.single_source_bellman_ford_path_length(one, 0)
    except nx.NetworkXUnbounded:
        with pytest.raises(errors.InvalidValueError, match="negative cycle"):
            graph.shortest_paths(A, 0)
        return
    np.testing.assert_allclose(graph.shortest_paths(A, 0).to_numpy(), array_of(expected, n, np.inf))


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32), spilled=st.booleans(), dtype=st.sampled_from(["float64", "float32", "int64"]))
def test_undirected_shortest_paths(seed: int, spilled: bool, dtype: str) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 25))
    lengths = (rng.integers(1, 20, (n, n)) * (rng.random((n, n)) < 0.15)).astype(dtype)
    sources = rng.choice(n, int(rng.integers(1, 3)))
    A = sp.asarray(lengths)
    with out_of_core() if spilled else nullcontext():
        found = graph.shortest_paths(A, sources, directed=False).to_numpy()
    expected = scipy.sparse.csgraph.dijkstra(scipy.sparse.csr_array(lengths), directed=False, indices=sources)
    np.testing.assert_array_equal(found, expected.min(axis=0))
    both = nx.Graph()
    both.add_nodes_from(range(n))
    for i, j in np.argwhere(lengths).tolist():
        length = min(lengths[i, j], both.get_edge_data(i, j, {"weight": np.inf})["weight"])
        both.add_edge(i, j, weight=length)
    known = nx.multi_source_dijkstra_path_length(both, set(sources.tolist()))
    np.testing.assert_array_equal(found, array_of(known, n, np.inf))


def test_undirected_paths_of_odd_lengths() -> None:
    one_way = sp.asarray([[0, 1, 0], [5, 0, 0], [0, 2, 0]])
    assert graph.shortest_paths(one_way, 0, directed=False).to_numpy().tolist() == [0, 1, 3]
    A = sp.from_coords([[0, 1, 2, 2], [1, 0, 1, 3]], [np.nan, 4.0, 0.0, np.nan], shape=(4, 4), fill_value=np.inf)
    for context in (nullcontext(), out_of_core()):
        with context:
            assert graph.shortest_paths(A, 0, directed=False).to_numpy().tolist() == [0, 4, 4, np.inf]
            for coords in ([[1], [2]], [[2], [2]]):
                negative = sp.from_coords(coords, [-1.0], shape=(4, 4))
                with pytest.raises(errors.InvalidValueError, match="negative cycle"):
                    graph.shortest_paths(negative, 2, directed=False)
    with pytest.raises(errors.InvalidValueError, match="directed"):
        graph.shortest_paths(A, 0, directed="no")  # type: ignore[arg-type]


def check_against_networkx(a: Any, A: sp.Tensor) -> None:
    n = len(a)
    one, both = to_digraph(a), to_simple_graph(a)
    np.testing.assert_array_equal(graph.degrees(A).to_numpy(), array_of(dict(one.out_degree()), n))
    np.testing.assert_array_equal(graph.degrees(A, "in", weighted=True).to_numpy(), a.sum(axis=0))
    np.testing.assert_array_equal(graph.degrees(A, "both").to_numpy(), array_of(dict(one.degree()), n))
    np.testing.assert_array_equal(
        graph.bfs(A, n - 1).to_numpy(), array_of(nx.single_source_shortest_path_length(one, n - 1), n, -1)
    )
    np.testing.assert_array_equal(
        graph.bfs(A, 0, directed=False, max_depth=2).to_numpy(),
        array_of(nx.single_source_shortest_path_length(both, 0, 2), n, -1),
    )
    np.testing.assert_array_equal(
        graph.shortest_paths(A, [0, n - 1]).to_numpy(),
        array_of(nx.multi_source_dijkstra_path_length(one, {0, n - 1}), n, np.inf),
    )
    assert partition(graph.connected_components(A)) == set(map(frozenset, nx.weakly_connected_components(one)))
    strong = set(map(frozenset, nx.strongly_connected_components(one)))
    assert partition(graph.strongly_connected_components(A)) == strong
    np.testing.assert_array_equal(graph.triangles(A).to_numpy(), array_of(nx.triangles(both), n))
    np.testing.assert_allclose(graph.clustering(A).to_numpy(), array_of(nx.clustering(both), n))
    np.testing.assert_array_equal(graph.kcore(A).to_numpy(), array_of(nx.core_number(both), n))
    part, nodes = graph.largest_component(A, "strong")
    assert len(nodes) == max(map(len, strong))
    np.testing.assert_array_equal(part.to_numpy(), a[np.ix_(nodes, nodes)])
    np.testing.assert_array_equal(graph.symmetrize(A, "sum").to_numpy(), a + a.T)
    np.testing.assert_array_equal(graph.symmetrize(A, "min").to_numpy(), np.minimum(a, a.T))


@settings(max_examples=10)
@given(a=matrices(-8), fill=st.sampled_from([0, 9, 0.5, np.inf, np.nan]))
def test_symmetrize_one_way_edges(a: Any, fill: float, folder: Any) -> None:
    links_of = {(i, j): float(a[i, j]) for i, j in np.argwhere(a).tolist()}
    ends = np.array(list(links_of), dtype=int).reshape(-1, 2).T
    tensor = sp.from_coords(ends, np.array(list(links_of.values()), float), shape=a.shape, fill_value=fill)
    for A in (tensor, folder(tensor)):
        for name, combine in (("max", max), ("min", min), ("sum", operator.add)):
            expected = np.full(a.shape, fill, float)
            for (i, j), weight in links_of.items():
                alone = fill if name == "min" else weight
                expected[i, j] = expected[j, i] = combine(weight, links_of[j, i]) if (j, i) in links_of else alone
            result = graph.symmetrize(A, name)  # type: ignore[arg-type]
            np.testing.assert_array_equal(result.to_numpy(), expected)
            assert result.nnz == np.sum((expected != fill) & ~np.isnan(expected))


@pytest.mark.parametrize("stype", ["csr", "csc", "row_sparse", "dense"])
def test_symmetrize_any_stype_without_fallback(stype: Any, recwarn: Any) -> None:
    result = graph.symmetrize(sp.asarray([[0, 3], [0, 0]]).asformat(stype))
    assert (result.stype, result.to_numpy().tolist(), list(recwarn)) == ("coo", [[0, 3], [3, 0]], [])


_CALLS: dict[str, Any] = {
    "adamic_adar": graph.adamic_adar,
    "bfs": lambda A: graph.bfs(A, 0),
    "clustering": graph.clustering,
    "common_neighbors": lambda A: graph.common_neighbors(A, A),
    "connected_components": graph.connected_components,
    "degrees": lambda A: graph.degrees(A, "both"),
    "hits": lambda A: graph.hits(A)[0],
    "induced_subgraph": lambda A: graph.induced_subgraph(A, [4, 1, 0, 5]),
    "kcore": graph.kcore,
    "label_propagation": graph.label_propagation,
    "largest_component": lambda A: graph.largest_component(A)[0],
    "pagerank": graph.pagerank,
    "random_walks": lambda A: sp.asarray(graph.random_walks(A, [0, 1, 2, 3], 6, weighted=True)),
    "shortest_paths": lambda A: graph.shortest_paths(A, 0),
    "strongly_connected_components": graph.strongly_connected_components,
    "symmetrize": graph.symmetrize,
    "triangles": graph.triangles,
    "weights of degrees": lambda A: graph.degrees(A, weighted=True),
}


@pytest.mark.parametrize("name", [*graph.__all__, "weights of degrees"])
def test_stored_elements_are_edges_of_any_fill(name: str) -> None:
    a = np.where(np.random.default_rng(5).random((9, 9)) < 0.25, np.arange(1.0, 10), 0)
    ends = np.nonzero(a)
    for with_links in (nullcontext, out_of_core):
        with with_links():
            expected = _CALLS[name](sp.asarray(a))
            for fill in (np.inf, np.nan, 0.5, -1):
                result = _CALLS[name](sp.from_coords(ends, a[ends], shape=a.shape, fill_value=fill))
                np.testing.assert_array_equal(_entries(result), _entries(expected))


def _entries(result: sp.Tensor) -> Any:
    return np.array(list(result.to_arrow().to_pydict().values()))


def test_zero_values_with_other_fill_are_edges() -> None:
    A = sp.from_coords([[0, 1, 2], [1, 2, 1]], [0.0, 0.0, 2.0], shape=(4, 4), fill_value=np.inf)
    assert graph.degrees(A).to_numpy().tolist() == [1, 1, 1, 0]
    assert graph.degrees(A, weighted=True).to_numpy().tolist() == [0, 0, 2, 0]
    assert graph.connected_components(A).to_numpy().tolist() == [0, 0, 0, 1]
    assert graph.shortest_paths(A, 0).to_numpy().tolist() == [0, 0, 0, np.inf]
    assert (graph.symmetrize(A).nnz, graph.symmetrize(A)[1, 0], graph.symmetrize(A, "min")[2, 1]) == (4, 0, 0)
    followed = sp.asarray([[0, 0, 0, 0], [0, 0, 0, 0], [0, 2, 0, 0], [0, 0, 0, 0]])  # one of weight 0 is not
    np.testing.assert_array_equal(graph.pagerank(A).to_numpy(), graph.pagerank(followed).to_numpy())


def test_min_plus_product_is_a_graph() -> None:
    roads = sp.from_coords([[0, 1, 2], [1, 2, 0]], [1.0, 4.0, 2.0], shape=(3, 3))
    A = sp.matmul(roads, roads, semiring="min_plus")
    assert graph.degrees(A, weighted=True).to_numpy().tolist() == [5, 6, 3]
    np.testing.assert_allclose(graph.pagerank(A).to_numpy(), 1 / 3)
    assert graph.symmetrize(A).to_numpy().tolist() == [[np.inf, 6, 5], [6, np.inf, 3], [5, 3, np.inf]]


@settings(max_examples=5)
@given(a=matrices())
def test_strong_components_out_of_core(a: Any, folder: Any) -> None:
    with tune("graph", component_share=1 << 60):  # four edges fit
        strong = set(map(frozenset, nx.strongly_connected_components(to_digraph(a))))
        assert partition(graph.strongly_connected_components(sp.asarray(a))) == strong
        with out_of_core():
            assert partition(graph.strongly_connected_components(folder(a))) == strong


@settings(max_examples=6)
@given(a=matrices())
def test_triangles_in_parts(a: Any, folder: Any) -> None:
    expected = array_of(nx.triangles(to_simple_graph(a)), len(a))
    with tune("graph", triangle_share=1 << 60):  # one list fits
        np.testing.assert_array_equal(graph.triangles(sp.asarray(a)).to_numpy(), expected)
        with out_of_core():
            np.testing.assert_array_equal(graph.triangles(folder(a)).to_numpy(), expected)


@settings(max_examples=5)
@given(a=matrices())
def test_label_propagation_majority(a: Any, folder: Any) -> None:
    A, both = folder(a), to_simple_graph(a)
    result = graph.label_propagation(A, seed=3).to_numpy()
    partition(result)
    for node in range(len(a)):
        votes = np.bincount([result[other] for other in both[node]], minlength=len(a))
        assert votes[result[node]] == votes.max() or not len(both[node])
    with out_of_core():
        np.testing.assert_array_equal(graph.label_propagation(A, seed=3).to_numpy(), result)


@settings(max_examples=8)
@given(a=matrices())
def test_common_neighbors_against_networkx(a: Any) -> None:
    n, both = len(a), to_simple_graph(a)
    pairs = [(u, v) for u in range(n) for v in range(n) if u != v]
    counts, close = np.zeros((n, n), int), np.zeros((n, n))
    for u, v in pairs:
        counts[u, v] = len(list(nx.common_neighbors(both, u, v)))
    for u, v, score in nx.adamic_adar_index(both, pairs):
        close[u, v] = score
    A = sp.asarray(a)
    np.testing.assert_array_equal(graph.common_neighbors(A).to_numpy(), counts)
    np.testing.assert_allclose(graph.adamic_adar(A).to_numpy(), close)
    queries = np.array(pairs[::3], dtype=int).reshape(-1, 2)
    only = np.zeros((n, n), bool)
    only[queries[:, 0], queries[:, 1]] = True
    np.testing.assert_array_equal(graph.common_neighbors(A, queries).to_numpy(), counts * only)
    np.testing.assert_allclose(graph.adamic_adar(A, sp.asarray(only)).to_numpy(), close * only)


@settings(max_examples=10)
@given(a=matrices(), seed=st.integers(0, 100))
def test_walks_follow_edges(a: Any, seed: int, folder: Any) -> None:
    A = folder(a)
    starts = np.arange(len(a)).repeat(3)
    for weighted in (False, True):
        walks = graph.random_walks(A, starts, 5, weighted=weighted, seed=seed)
        for here, there in zip(walks[:, :-1].ravel(), walks[:, 1:].ravel(), strict=True):
            assert there == -1 if here < 0 or not a[here].any() else a[here, there] > 0
        with out_of_core():
            np.testing.assert_array_equal(graph.random_walks(A, starts, 5, weighted=weighted, seed=seed), walks)


def test_walks_draw_by_weight() -> None:
    A = sp.from_coords([[0, 0, 0], [0, 1, 2]], [1.0, 3.0, 0.5], shape=(3, 3))
    steps = graph.random_walks(A, np.zeros(9000, int), 1, weighted=True)[:, 1]
    np.testing.assert_allclose(np.bincount(steps) / 9000, np.array([1, 3, 0.5]) / 4.5, atol=0.02)
    steps = graph.random_walks(A, np.zeros(9000, int), 1)[:, 1]
    np.testing.assert_allclose(np.bincount(steps) / 9000, 1 / 3, atol=0.02)
    with pytest.raises(errors.InvalidValueError, match="must not be negative"):
        graph.random_walks(A * -1, [0], 1, weighted=True)


def test_walks_draw_light_edges_after_heavy(folder: Any) -> None:
    dense = [[0, 1e17, 0, 0], [3.0, 0, 1.0, 0], [1.7e308, 0, 0, 1.7e308], [0, 5e-324, 5e-324, 0]]
    for A in (sp.asarray(dense), sp.asarray(dense).persist(), folder(np.array(dense))):
        for with_links in (nullcontext, out_of_core):
            with with_links():
                starts = np.arange(4).repeat(4000)
                steps = graph.random_walks(A, starts, 1, weighted=True)[:, 1].reshape(4, -1)
            shares = np.array([np.bincount(one, minlength=4) / 4000 for one in steps])
            expected = np.array([[0, 1, 0, 0], [0.75, 0, 0.25, 0], [0.5, 0, 0, 0.5], [0, 0.5, 0.5, 0]])
            np.testing.assert_allclose(shares, expected, atol=0.03)


def test_walk_weights_must_be_finite(folder: Any) -> None:
    for value in (np.inf, np.nan):
        A = folder(np.array([[0, value], [1, 0]]))
        for with_links in (nullcontext, out_of_core):
            with with_links(), pytest.raises(errors.InvalidValueError, match=f"must be finite, got {value}"):
                graph.random_walks(A, [0], 1, weighted=True)
    A = sp.from_coords([[0, 0, 1], [0, 1, 0]], [0.0, 0.0, 1.0], shape=(2, 2), fill_value=-1)
    assert graph.random_walks(A, [1], 2, weighted=True).tolist() == [[1, 0, -1]]  # links of no weight are none


def test_hubs_and_authorities() -> None:
    a = np.random.default_rng(0).integers(0, 3, (9, 9))
    hubs, authorities = graph.hits(sp.asarray(a), tol=1e-12)
    expected = nx.hits(to_digraph(a))
    np.testing.assert_allclose(hubs.to_numpy(), array_of(expected[0], 9), atol=1e-8)
    np.testing.assert_allclose(authorities.to_numpy(), array_of(expected[1], 9), atol=1e-8)
    with pytest.raises(errors.ConvergenceError, match="in 1 rounds"):
        graph.hits(sp.asarray(a), tol=1e-12, max_iter=1)
    with pytest.raises(errors.UnsupportedError, match="hits: edge weights must be real"):
        graph.hits(sp.asarray(a) * 1j)


@pytest.fixture
def labelled_graph() -> Any:
    names = ["ann", "bob", "eve", "dan"]
    tensor = sp.from_coords([[0, 1, 2], [1, 2, 0]], [2.0, 3.0, 4.0], shape=(4, 4), dims=("src", "dst"))
    tensor.set_labels(["src", "dst"], names)
    return tensor


def test_nodes_by_label(labelled_graph: Any) -> None:
    far: Any = graph.bfs(labelled_graph, "bob")
    assert (far.dims, far.labels("src").to_pylist()) == (("src",), ["ann", "bob", "eve", "dan"])
    assert (far.sel(src="ann"), far.sel(src="dan"), far.nnz) == (2, -1, 3)
    assert graph.shortest_paths(labelled_graph, ["bob", "eve"]).sel(src="ann") == 4
    assert graph.induced_subgraph(labelled_graph, ["eve", "ann"]).sel(src="eve", dst="ann") == 4
    assert graph.random_walks(labelled_graph, ["dan", "ann"], 2).tolist() == [[3, -1, -1], [0, 1, 2]]
    ranks = graph.pagerank(labelled_graph, personalization={"dan": 2.0})
    assert ranks.sel(src="dan") == pytest.approx(1.0)
    assert graph.common_neighbors(labelled_graph, [("ann", "eve")]).sel(src="ann", dst="eve") == 1
    part: Any
    part, nodes = graph.largest_component(labelled_graph)
    assert (part.labels("dst").to_pylist(), nodes.tolist()) == (["ann", "bob", "eve"], [0, 1, 2])
    with pytest.raises(errors.LabelError, match="no label 'tom'"):
        graph.bfs(labelled_graph, "tom")


def test_personalization_is_weights_or_nodes() -> None:
    A = sp.asarray([[0, 1.0, 1], [0, 0, 1], [1, 0, 0]])
    jump: Any
    weights = np.array([1, 2, 5])
    expected = sp.linalg.pagerank(A, personalization=weights)
    series, labelled = pd.Series(weights), A.copy()
    labelled.set_labels([0, 1], [5, 2, 1])
    for jump in (weights, weights.astype(np.uint8), weights * 1.0, sp.asarray(weights), sp.asarray(weights * 1.0)):
        np.testing.assert_array_equal(graph.pagerank(A, personalization=jump).to_numpy(), expected)
        np.testing.assert_array_equal(graph.pagerank(labelled, personalization=jump).to_numpy(), expected)
    for jump in (series, series.astype("Int64"), pl.Series(weights), [1.0, 2.0, 5.0], (1, 2, 5.0), {0: 1, 1: 2, 2: 5}):
        np.testing.assert_array_equal(graph.pagerank(A, personalization=jump).to_numpy(), expected)
    ranks = graph.pagerank(A, dangling=[0, 1, 1]).to_numpy()
    np.testing.assert_array_equal(ranks, sp.linalg.pagerank(A, dangling=[1, 1, 0]))
    expected = sp.linalg.pagerank(A, personalization=[1, 0, 1])
    for jump in ([0, 2], np.array([0, 2]), sp.asarray([2, 0]), pa.array([0, 2]), {0, 2}, {0: 1, -1: 1}):
        np.testing.assert_array_equal(graph.pagerank(A, personalization=jump).to_numpy(), expected)
    with pytest.raises(errors.ShapeError, match=r"personalization has shape \(2,\)"):
        graph.pagerank(A, personalization=np.array([0.5, 0.5]))


def test_personalization_aligns_labels(labelled_graph: Any) -> None:
    weights = {"dan": 1.0, "eve": 2.0, "bob": 3.0, "ann": 4.0}
    given = sp.from_coords([range(4)], [*weights.values()], dims=("node",), labels={"node": [*weights]})
    expected = graph.pagerank(labelled_graph, personalization=weights, dangling={"ann": 4.0, "bob": 3.0}).to_numpy()
    for jump in (given, given.astype(np.int32), given * 2):
        # Nodes that the tensor lacks have weight 0.
        result = graph.pagerank(labelled_graph, personalization=jump, dangling=given[2:])
        np.testing.assert_array_equal(result.to_numpy(), expected)
    by_position = graph.pagerank(labelled_graph, personalization=given.to_numpy()).to_numpy()
    with sp.config(join="exact"), pytest.raises(errors.LabelError, match="join='exact'"):
        graph.pagerank(labelled_graph, personalization=given)
    bare = sp.from_coords(labelled_graph.to_scipy("coo").coords, labelled_graph.to_scipy("coo").data, shape=(4, 4))
    np.testing.assert_array_equal(graph.pagerank(bare, personalization=given).to_numpy(), by_position)
    foreign = sp.from_coords([[0, 1]], [1.0, 1.0], labels={"d0": ["ann", "tom"]})
    for option in ("personalization", "dangling"):
        for names, message in ((foreign, "label 'tom'"), (given[[0, 0, 1]], "label 'dan' repeats")):
            with pytest.raises(errors.LabelError, match=message):
                graph.pagerank(labelled_graph, **{option: names})  # type: ignore[arg-type]


def test_pairs_tensor_aligns_labels(labelled_graph: Any) -> None:
    expected = graph.common_neighbors(labelled_graph, [("ann", "bob"), ("eve", "ann")]).to_numpy()
    names = {"d0": ["eve", "ann", "bob"], "d1": ["ann", "eve", "bob"]}
    pairs = sp.from_coords([[0, 0, 1], [0, 1, 2]], [1, 1, 1], shape=(3, 3), labels=names)
    np.testing.assert_array_equal(graph.common_neighbors(labelled_graph, pairs).to_numpy(), expected)
    pairs.set_labels("d1", ["ann", "eve", "tom"])
    with pytest.raises(errors.LabelError, match="pairs has the label 'tom'"):
        graph.adamic_adar(labelled_graph, pairs)


def test_weights_of_repeated_nodes_add_up(labelled_graph: Any) -> None:
    A = sp.asarray([[0, 1.0, 1], [0, 0, 1], [1, 0, 0]])
    result = graph.pagerank(A, personalization={0: 1, -3: 1, 1: 1}).to_numpy()
    np.testing.assert_array_equal(result, sp.linalg.pagerank(A, personalization=[2, 1, 0]))
    with pytest.raises(errors.ShapeError, match=r"dangling: weight of node 'dan' must be a number, got \[1, 2\]"):
        graph.pagerank(labelled_graph, dangling={"ann": 1, "dan": [1, 2]})


def test_pairs_need_no_identity_matrix() -> None:
    A = sp.asarray([[0, 1, 1], [0, 0, 1], [1, 0, 0]])
    with observe("graph.all_pairs") as observed:
        assert graph.common_neighbors(A, [(0, 1), (2, 2)]).to_numpy().tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 0]]
        assert graph.adamic_adar(A, [(0, 1)]).nnz == 1
    assert observed == []


def test_positions_of_any_integers() -> None:
    A = sp.asarray([[0, 1], [1, 0]])
    nodes: Any
    for nodes in (np.uint64(2**63 + 1), 2**70, -(2**70), [0, 2**63], [2**64, 1], np.array([1, 2**65], object)):
        number: Any = nodes if np.isscalar(nodes) else max(nodes)
        with pytest.raises(errors.IndexingError, match=f"node {number} is out of range: the graph has 2 nodes"):
            graph.bfs(A, nodes)
    for nodes in (pa.array([0, 1]), pa.chunked_array([[0], [1]]), pd.Series([0, 1]), np.array([0, 1], object), {0, 1}):
        assert graph.bfs(A, nodes).to_numpy().tolist() == [0, 0]
    for nodes, text in (([True, False], "True"), ([2**70, 0.5], "0.5"), ([None], "None"), (pa.array(["a"]), "'a'")):
        with pytest.raises(errors.LabelError, match=f"must be integer positions, got {text}"):
            graph.bfs(A, nodes)


def test_integers_beyond_64_bits_are_unknown_labels() -> None:
    A = sp.from_coords([[0, 1], [1, 0]], [1.0, 1.0], shape=(2, 2), dims=("a", "b"))
    A.set_labels(["a", "b"], [10, 20])
    calls: list[tuple[int, Any]] = [
        (2**70, lambda: A.sel(a=2**70)),
        (2**63, lambda: graph.induced_subgraph(A, [10, 2**63])),
        (2**64, lambda: graph.pagerank(A, personalization={2**64: 1})),
    ]
    for number, call in calls:
        with pytest.raises(errors.LabelError, match=f"dimension 'a' has no label {number}$"):
            call()


def test_errors(labelled_graph: Any) -> None:
    with pytest.raises(errors.ShapeError, match="graph must be a square matrix"):
        graph.bfs(sp.zeros((2, 3)), 0)
    differing = {"src": ["a", "b"], "dst": ["b", "a"]}
    with pytest.raises(errors.InvalidValueError, match="must be finite, got NaN"):
        graph.hits(sp.asarray([[0, np.nan], [1, 0]]))
    with pytest.raises(errors.InvalidValueError, match="hits: edge weights must not be negative"):
        graph.hits(sp.asarray([[0, -1.0, 1], [1, 0, 0], [0, 0, 0]]))
    with pytest.raises(errors.ShapeError, match="relabel=True"):
        graph.degrees(sp.zeros((2**40, 2**40)))
    with pytest.raises(errors.LabelError, match="'src' and 'dst' differ"):
        graph.kcore(sp.from_coords([[0], [1]], [1], shape=(2, 2), dims=("src", "dst"), labels=differing))
    with pytest.raises(errors.LabelError, match="nodes of a graph without labels must be integer positions, got 'ann'"):
        graph.bfs(sp.zeros((2, 2)), "ann")
    with pytest.raises(errors.IndexingError, match="node 2 is out of range: the graph has 2 nodes"):
        graph.bfs(sp.zeros((2, 2)), [0, 2])
    with pytest.raises(errors.UnsupportedError, match="edge weights must be real"):
        graph.shortest_paths(sp.asarray([[0, 1j], [0, 0]]), 0)
    with pytest.raises(errors.InvalidValueError, match="negative cycle"):
        graph.shortest_paths(sp.asarray([[0, 1], [-2, 0]]), 0)
    with pytest.raises(errors.InvalidValueError, match="max_depth must be an integer of at least 0, got -1"):
        graph.bfs(sp.zeros((2, 2)), 0, max_depth=-1)
    for call in (
        lambda: graph.degrees(labelled_graph, "up"),  # type: ignore[arg-type]
        lambda: graph.symmetrize(labelled_graph, "mean"),  # type: ignore[arg-type]
        lambda: graph.largest_component(labelled_graph, "both"),  # type: ignore[arg-type]
        lambda: graph.random_walks(labelled_graph, ["ann"], -1),
    ):
        with pytest.raises(errors.InvalidValueError, match="must"):
            call()
    with sp.config(memory_limit=memory.limit() - memory.available() + 100_000), pytest.raises(errors.TooLargeError):
        graph.connected_components(sp.zeros((2**20, 2**20)))


def test_empty_graphs() -> None:
    for n in (0, 3):
        A = sp.zeros((n, n))
        for find in (
            graph.triangles,
            graph.clustering,
            graph.kcore,
            graph.connected_components,
            graph.pagerank,
            graph.strongly_connected_components,
            graph.label_propagation,
            graph.degrees,
        ):
            assert find(A).shape == (n,)
    assert graph.bfs(A, []).to_numpy().tolist() == [-1, -1, -1]
    assert graph.largest_component(sp.zeros((0, 0)))[1].tolist() == []
    assert graph.random_walks(A, [1], 2).tolist() == [[1, -1, -1]]


def test_spill_files_and_memory_are_released(folder: Any, tmp_path: Path) -> None:
    A, free = folder(np.triu(np.ones((9, 9), int))), memory.available()
    with out_of_core(), sp.config(temp_directory=tmp_path):
        graph.kcore(A)
        with pytest.raises(KeyboardInterrupt):
            interrupt(A)
    assert list(tmp_path.iterdir()) == []
    assert memory.available() == free


def interrupt(A: sp.Tensor) -> None:
    with adjacency.Adjacency(A, undirected=True) as result:
        assert result.csr is None
        next(result.neighbor_lists())
        raise KeyboardInterrupt


def test_small_frontier_reads_its_lists_only(folder: Any) -> None:
    n = 3000
    rows, cols = np.arange(n - 1), np.arange(1, n)
    far = np.arange(0, n - 100, 7)  # links back: lists between those that are read
    links_of = (np.concatenate([rows, far + 50]), np.concatenate([cols, far]))
    dense = sp.from_coords(links_of, np.ones(len(links_of[0])), shape=(n, n))
    A = folder(dense)
    with strategy("edges_on_disk"), observe("graph.read_edges") as reads:
        assert graph.bfs(A, 0).to_numpy().tolist() == list(range(n))
    assert 0 < sum(details["count"] for _, details in reads) <= 2 * A.nnz


def test_spilled_lists_equal_lists_in_memory(folder: Any) -> None:
    rng = np.random.default_rng(4)
    A = folder(np.where(rng.random((60, 60)) < 0.1, rng.integers(1, 9, (60, 60)), 0))
    for undirected in (False, True):
        with adjacency.Adjacency(A, not undirected, undirected) as in_memory, out_of_core():
            for gap in (0, 3, 1000):
                with tune("graph", read_gap_edges=gap), adjacency.Adjacency(A, not undirected, undirected) as spilled:
                    assert (in_memory.csr is None, spilled.csr is None) == (False, True)
                    np.testing.assert_array_equal(in_memory.degrees(), spilled.degrees())
                    for active in (None, rng.random(60) < 0.1, rng.random(60) < 0.6, np.zeros(60, bool)):
                        assert _to_list(in_memory, active) == _to_list(spilled, active)


def _to_list(result: adjacency.Adjacency, active: Any) -> list[Any]:
    out = []
    for lists in result.neighbor_lists(active):
        for node, start, stop in zip(lists.nodes, lists.starts, lists.stops, strict=True):
            out.append((int(node), lists.cols[start:stop].tolist(), lists.weights[start:stop].tolist()))
    return out


@pytest.mark.parametrize("names", [(), ("edges_on_disk",)], ids=["memory", "disk"])
def test_negative_cycle_is_found_early(names: tuple[str, ...]) -> None:
    n = 3000
    rng = np.random.default_rng(5)
    rows, cols = (np.append(rng.integers(0, n, 5 * n), ends) for ends in ([0, 1], [1, 0]))
    lengths = np.append(rng.random(5 * n), [-1.0, -1.0])
    A = sp.from_coords([rows, cols], lengths, shape=(n, n), duplicates="last")
    with (
        strategy(*names),
        observe("graph.relax") as calls,
        pytest.raises(errors.InvalidValueError, match="graph has a negative cycle"),
    ):
        graph.shortest_paths(A, 0)
    assert 0 < len(calls) < 100  # not a round for each node


def test_negative_path_and_zero_cycle() -> None:
    n = 2000
    path = sp.from_coords([np.arange(n - 1), np.arange(1, n)], np.full(n - 1, -1.0), shape=(n, n))
    np.testing.assert_array_equal(graph.shortest_paths(path, 0).to_numpy(), -np.arange(float(n)))
    # A circle of 0, and one that is endlessly near at once.
    ends = [0, 1, 2, 2, 3, 4], [1, 2, 0, 3, 4, 3]
    ring = sp.from_coords(ends, [0.5, 0.25, -0.75, -np.inf, -1.0, 1.0], shape=(5, 5))
    assert graph.shortest_paths(ring, 0).to_numpy().tolist() == [0, 0.5, 0.75, -np.inf, -np.inf]


def test_nodes_by_mask() -> None:
    nodes = ["a", "b", "c", "d", "e"]
    names = {"src": nodes, "dst": nodes}
    A = sp.from_coords([[0, 1, 2, 2], [1, 2, 0, 3]], [1] * 4, shape=(5, 5), dims=("src", "dst"), labels=names)
    core = graph.kcore(A)
    for mask in (core >= 2, core.to_numpy() >= 2):
        part = graph.induced_subgraph(A, mask)
        assert part.labels("src") == pa.array(["a", "b", "c"])
        assert part.nnz == 3
    assert graph.bfs(A, core == 0).to_numpy().tolist() == [-1, -1, -1, -1, 0]
    with pytest.raises(errors.ShapeError, match=r"mask has shape \(2,\), expected \(5,\)"):
        graph.bfs(A, np.array([True, False]))
    with pytest.raises(errors.LabelError, match="labels of the mask"):
        graph.induced_subgraph(A[::-1, ::-1], core >= 2)
    with pytest.raises(errors.LabelError, match="got 'b' twice"):
        graph.induced_subgraph(A, ["b", "b", "c"])
    walks = graph.random_walks(A, ["c", "d"], 2)
    labels = np.array([*nodes, None])  # as np.append(A.labels(0), None)
    assert labels[walks][1].tolist() == ["d", None, None]


def test_rankings_of_large_weights_and_little_memory() -> None:
    A = sp.from_coords([[0, 1, 2], [1, 2, 0]], [1, 1, 1], shape=(3, 3))
    expected = graph.pagerank(A, personalization=[1.0, 1.0, 1.0]).to_numpy()
    np.testing.assert_array_equal(graph.pagerank(A, personalization=[1e308] * 3).to_numpy(), expected)
    n = 100_000
    ring = sp.from_coords([np.arange(n), np.roll(np.arange(n), 1)], np.ones(n), shape=(n, n))
    with sp.config(memory_limit=memory.limit() - memory.available() + 60 * n):
        assert graph.pagerank(ring).sum() == pytest.approx(1)
        assert graph.hits(ring)[0].sum() == pytest.approx(1)
