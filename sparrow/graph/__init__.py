"""Graphs: square tensors whose entries are links from rows to columns.

Every entry is a link and every absent cell is none, whatever the fill: a link of weight 0 is an entry beside another
fill, as in a product under min_plus, whose fill is infinity.

Every function takes tensors in memory, on disk and lazy, and looks at links round after round: kept in memory where
they take at most a quarter of the memory limit, else put aside on disk. What is kept of each node is in memory.

Nodes come and go by name. Where a graph has labels its nodes are given by label, else by position. What is known of
each node is a tensor of one dimension in memory, named as the rows of the graph are and with its labels:
``.sel(src="ann")`` reads one, ``.to_numpy()`` gives an array by position. Only walks and lists of nodes are arrays of
positions.
"""

from __future__ import annotations

from sparrow.graph.communities import kcore, label_propagation
from sparrow.graph.components import connected_components, strongly_connected_components
from sparrow.graph.counting import clustering, triangles
from sparrow.graph.paths import bfs, random_walks, shortest_paths
from sparrow.graph.ranking import adamic_adar, common_neighbors, hits, pagerank
from sparrow.graph.structure import degrees, induced_subgraph, largest_component, symmetrize

__all__ = [
    "adamic_adar", "bfs", "clustering", "common_neighbors", "connected_components", "degrees", "hits",
    "induced_subgraph", "kcore", "label_propagation", "largest_component", "pagerank", "random_walks",
    "shortest_paths", "strongly_connected_components", "symmetrize", "triangles",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)
