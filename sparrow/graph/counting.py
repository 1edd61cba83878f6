"""Triangle counts and clustering coefficients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.graph.adjacency import Adjacency, NeighborLists, sort_by_degree
from sparrow.graph.nodes import check_graph, per_node, reserve_per_node, shared
from sparrow.graph.tuning import tuning
from sparrow.kernels.jit.warmup import as_readonly
from sparrow.runtime import memory, progress, settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.tensor import Tensor

__all__ = ["clustering", "triangles"]


@shared
def triangles(A: Tensor) -> Tensor:
    """Return the number of triangles through each node of an undirected graph.

    Each edge is kept once, oriented from the node of lower degree, and triangles are closed in memory. If these edges
    do not fit, parts of them are loaded in turn, and all edges are read again for each part.

    Parameters
    ----------
    %(undirected_graph)s

    Returns
    -------
    Tensor
        Counts, int64, shape (n,). Their sum is three times the number of triangles.

    Raises
    ------
    %(graph_errors)s

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.from_coords([[0, 1, 2, 2], [1, 2, 0, 3]], [1, 1, 1, 1], shape=(4, 4))
    >>> sp.graph.triangles(A).to_numpy()
    array([1, 1, 1, 0])
    """
    A = check_graph(A)
    return per_node(A, _count_triangles(A)[0])


@shared
def clustering(A: Tensor) -> Tensor:
    """Return the clustering coefficient of each node of an undirected graph.

    It is the fraction of pairs of a node's neighbors that are connected by an edge.

    Parameters
    ----------
    %(undirected_graph)s

    Returns
    -------
    Tensor
        Coefficients from 0 to 1, float64, shape (n,); 0 for nodes with fewer than two neighbors.

    Raises
    ------
    %(graph_errors)s

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.from_coords([[0, 1, 2, 2], [1, 2, 0, 3]], [1, 1, 1, 1], shape=(4, 4))
    >>> sp.graph.clustering(A).to_numpy().round(3)
    array([1.   , 1.   , 0.333, 0.   ])
    """
    A = check_graph(A)
    counts, degrees = _count_triangles(A)
    pairs = degrees * (degrees - 1) / 2
    return per_node(A, np.divide(counts, pairs, out=np.zeros(len(counts)), where=pairs > 0))


def _count_triangles(A: Tensor) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the triangle count and the degree of each node."""
    each = 32 + 12 * settings.current().threads
    with reserve_per_node(A, each, "triangles"), Adjacency(A, undirected=True) as adjacency:
        degrees = adjacency.degrees()
        return _count_closed(adjacency, degrees), degrees


def _count_closed(adjacency: Adjacency, degrees: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count triangles over edges oriented toward the node of higher degree."""
    n, total, threads = adjacency.size, int(degrees.sum()), settings.current().threads
    rank = as_readonly(sort_by_degree(degrees.astype(np.int32))[2])
    # A node with k outgoing edges has k neighbors of degree k or more, so no list is longer than sqrt(total).
    capacity = min(total // 2, max(memory.share(tuning().triangle_share) // 4, math.isqrt(total)))
    lanes = [(np.full(n, -1, np.int32), np.zeros(n, np.int64)) for _ in range(threads)]
    low = 0
    with memory.reserve(4 * capacity, "edges of triangles"), progress.bar("triangles", total, "edges") as advance:
        up = np.empty(capacity, np.int32)
        left = total // 2
        while low < n:
            indptr = _load_oriented(adjacency, rank, low, up)
            left -= int(indptr[-1])
            advance.set_left(total * (1 + -(-left // max(capacity, 1))))  # each pass reads all edges
            oriented = rank, low, as_readonly(indptr), as_readonly(up)
            for lists in adjacency.neighbor_lists():
                _count_block(lists, oriented, lanes, advance)
            low += len(indptr) - 1
    result: NDArray[np.int64] = np.sum([counts for _, counts in lanes], axis=0)
    return result[rank]


def _count_block(
    lists: NeighborLists,
    oriented: tuple[Any, ...],
    lanes: list[tuple[NDArray[np.int32], NDArray[np.int64]]],
    advance: Callable[[int], None],
) -> None:
    """Count the triangles that start in ``lists``, in the arrays of each thread."""
    from sparrow.kernels.graph import traversal

    close: Any = traversal.count_triangles
    nodes, starts, stops, cols = lists.arrays
    reached = np.append(0, np.cumsum(stops - starts))
    shares = np.linspace(0, reached[-1], tuning().triangle_parts_per_thread * len(lanes) + 1)
    bounds = np.unique(np.searchsorted(reached, shares))
    bounds[0], bounds[-1] = 0, len(nodes)

    def count(lane: int) -> None:
        for k in range(lane, len(bounds) - 1, len(lanes)):
            part = slice(bounds[k], bounds[k + 1])
            close(nodes[part], starts[part], stops[part], cols, *oriented, *lanes[lane])
            advance(int(reached[bounds[k + 1]] - reached[bounds[k]]))

    for _ in ordered_map(count, range(len(lanes)), len(lanes)):
        pass


def _load_oriented(adjacency: Adjacency, rank: NDArray[np.int32], low: int, up: NDArray[np.int32]) -> NDArray[np.int64]:
    """Write the neighbors of higher rank of nodes from ``low`` on; return offsets."""
    from sparrow.kernels.graph import traversal

    gather: Any = traversal.orient_by_rank
    lengths = np.zeros(adjacency.size - low + 1, np.int64)
    active = np.ones(adjacency.size, np.bool_)
    active[:low] = False
    filled = 0
    for lists in adjacency.neighbor_lists(active if low else None):
        k, filled = gather(*lists.arrays, rank, low, lengths, up, filled)
        if k < len(lists.nodes):
            lengths = lengths[: int(lists.nodes[k]) - low + 1]
            break
    return np.cumsum(lengths)
