"""A graph researcher with a list of links between names: ranks, groups, factors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import sparrow as sp

NODES = [f"{group}{k:02}" for group in "abc" for k in range(40)]


@pytest.fixture(scope="module")
def adjacency() -> NDArray[Any]:
    """Three groups of 40 nodes, most links within a group."""
    rng = np.random.default_rng(0)
    inside = np.arange(120)[:, None] // 40 == np.arange(120) // 40
    found = rng.random((120, 120)) < np.where(inside, 0.25, 0.01)
    np.fill_diagonal(found, False)
    return found


@pytest.fixture
def graph(adjacency: NDArray[Any], tmp_path: Path) -> sp.Tensor:
    """The links, stored."""
    src, dst = np.nonzero(adjacency)
    (tmp_path / "links.txt").write_text("".join(f"{NODES[a]} {NODES[b]}\n" for a, b in zip(src, dst, strict=True)))
    found: sp.Tensor = sp.ingest.edges(tmp_path / "links.txt", tmp_path / "links.sparrow", ids="str")
    return found


def test_the_top_nodes_have_names(graph: sp.Tensor, adjacency: NDArray[Any], capfd: pytest.CaptureFixture[str]) -> None:
    ranks = sp.graph.pagerank(graph).topk(5)
    assert ranks.columns == ["src", "value"]
    assert set(ranks["src"]) <= set(NODES)
    assert ranks["value"].is_sorted(descending=True)
    most = graph.count(axis="src").topk(1)
    assert most["value"].to_list() == [adjacency.sum(axis=0).max()]
    assert graph.head(1)["src"].to_list() == [NODES[0]]
    assert capfd.readouterr().err == ""


def test_links_of_both_directions(graph: sp.Tensor, adjacency: NDArray[Any]) -> None:
    counts = adjacency.astype(int)
    labels: Any = graph.labels("src")
    order = [NODES.index(name) for name in labels.to_pylist()]
    counts = counts[np.ix_(order, order)]
    np.testing.assert_array_equal((graph + graph.T).to_numpy(), counts + counts.T)
    np.testing.assert_array_equal((graph * graph.T).to_numpy(), counts * counts.T)
    stored = graph.sum(axis=0)
    assert stored.shape == (120,)


def test_groups_and_walks_by_name(graph: sp.Tensor) -> None:
    links = (graph + graph.T > 0).astype("float64")
    groups = sp.graph.label_propagation(links)
    assert groups.value_counts()["count"].sum() == 120
    walks = sp.graph.random_walks(graph, ["a00", "b00"], length=6, seed=0)
    assert walks.shape == (2, 7)
    reached = sp.graph.bfs(graph, "a00")
    assert reached.sel(src="a00") == 0


def test_factors_recommend_links_by_name(graph: sp.Tensor) -> None:
    model = sp.models.ALS(factors=8, unobserved_weight=0.1, epochs=10).fit(graph)
    names, scores = model.recommend(["a00"], k=5)
    assert {name[0] for name in names[0]} == {"a"}
    assert names.shape == scores.shape == (1, 5)
    similar, _ = model.similar(["b03"], k=5)
    assert {name[0] for name in similar[0]} == {"b"}
