"""Graph algorithms on square tensors: paths, components, rankings.

Each stored element is an edge from its row to its column, whatever its value and the fill value. A product under
min_plus, whose fill is infinity, is a graph too, with edges of weight 0.

Functions accept tensors in memory, on disk and lazy expressions. Adjacency lists stay in memory up to a quarter of the
memory limit and spill to disk beyond it; arrays of one value per node stay in memory.

Where rows or columns have labels, nodes are given by label, else by position. Results with one value per node are 1-D
tensors in memory with the row dimension's name and the labels: ``.sel(src="ann")`` reads one value and ``.to_numpy()``
returns an array by position. Random walks and lists of nodes are arrays of positions.
"""

from __future__ import annotations

from sparrow.graph.communities import kcore, label_propagation
from sparrow.graph.components import connected_components, strongly_connected_components
from sparrow.graph.counting import clustering, triangles
from sparrow.graph.paths import bfs, random_walks, shortest_paths
from sparrow.graph.ranking import adamic_adar, common_neighbors, hits, pagerank
from sparrow.graph.structure import degrees, induced_subgraph, largest_component, symmetrize
from sparrow.runtime.hints import hinted_getattr

__all__ = [
    "adamic_adar", "bfs", "clustering", "common_neighbors", "connected_components", "degrees", "hits",
    "induced_subgraph", "kcore", "label_propagation", "largest_component", "pagerank", "random_walks",
    "shortest_paths", "strongly_connected_components", "symmetrize", "triangles",
]  # fmt: skip

__getattr__ = hinted_getattr(__name__)


def __dir__() -> list[str]:
    return sorted(__all__)
