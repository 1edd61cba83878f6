"""Triangles of a graph, and how close its nodes' neighbours are."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.graph.adjacency import Adjacency, NeighborLists, sort_by_degree
from sparrow.graph.nodes import check_graph, per_node, reserve_per_node
from sparrow.kernels.jit.warmup import readonly
from sparrow.runtime import memory, progress, settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.tensor import Tensor

__all__ = ["clustering", "triangles"]

_PARTS = 16
"""Nodes are dealt out to threads in so many parts for each."""
_SHARE = 4
"""Links that triangles are closed by may take one part in so many of what is free of the memory limit."""


def triangles(A: Tensor) -> Tensor:
    """Return in how many triangles each node is, links taken both ways.

    Each link is kept once in memory, from the node of fewer links, and triangles are closed there; of a graph too large
    for that, part by part of them, while all links are read again from disk.

    Parameters
    ----------
    A
        Links from rows to columns; their direction, values, and links of a node to itself do not matter.

    Returns
    -------
    Tensor
        A number for each node; their sum is three times the number of triangles.

    Raises
    ------
    ShapeError
        If the tensor is no square matrix.
    LabelError
        If rows and columns have labels that differ.
    TooLargeError
        If what is kept for each node does not fit the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> links = sp.from_coords([[0, 1, 2, 2], [1, 2, 0, 3]], [1, 1, 1, 1], shape=(4, 4))
    >>> sp.graph.triangles(links).to_numpy()
    array([1, 1, 1, 0])
    """
    A = check_graph(A)
    return per_node(A, _counted(A)[0])


def clustering(A: Tensor) -> Tensor:
    """Return the share of the pairs of each node's neighbours that are linked themselves.

    Parameters
    ----------
    A
        Links from rows to columns; their direction, values, and links of a node to itself do not matter.

    Returns
    -------
    Tensor
        A number from 0 to 1 for each node, 0 for those with fewer than two neighbours.

    Raises
    ------
    ShapeError
        If the tensor is no square matrix.
    LabelError
        If rows and columns have labels that differ.
    TooLargeError
        If what is kept for each node does not fit the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> links = sp.from_coords([[0, 1, 2, 2], [1, 2, 0, 3]], [1, 1, 1, 1], shape=(4, 4))
    >>> sp.graph.clustering(links).to_numpy().round(3)
    array([1.   , 1.   , 0.333, 0.   ])
    """
    A = check_graph(A)
    counts, neighbours = _counted(A)
    pairs = neighbours * (neighbours - 1) / 2
    return per_node(A, np.divide(counts, pairs, out=np.zeros(len(counts)), where=pairs > 0))


def _counted(A: Tensor) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the triangles and the neighbours of each node."""
    each = 32 + 12 * settings.current().threads
    with reserve_per_node(A, each, "triangles"), Adjacency(A, undirected=True) as links:
        neighbours = links.counts()
        return _closed(links, neighbours), neighbours


def _closed(links: Adjacency, neighbours: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count triangles: each link leads from the node of fewer neighbours, which bounds how many leave any node."""
    n, total, threads = links.size, int(neighbours.sum()), settings.current().threads
    rank = readonly(sort_by_degree(neighbours.astype(np.int32))[2])
    # What k links lead to has k neighbours each, so that no list is longer than the root of all links.
    most = min(total // 2, max(memory.share(_SHARE) // 4, math.isqrt(total)))
    lanes = [(np.full(n, -1, np.int32), np.zeros(n, np.int64)) for _ in range(threads)]
    low = 0
    with memory.reserve(4 * most, "links of triangles"), progress.bar("triangles", None, "links") as advance:
        up = np.empty(most, np.int32)
        while low < n:
            indptr = _upward(links, rank, low, up)
            held = rank, low, readonly(indptr), readonly(up)
            for lists in links.lists():
                _closed_by(lists, held, lanes, advance)
            low += len(indptr) - 1
    found: NDArray[np.int64] = np.sum([counts for _, counts in lanes], axis=0)
    return found[rank]


def _closed_by(
    lists: NeighborLists,
    held: tuple[Any, ...],
    lanes: list[tuple[NDArray[np.int32], NDArray[np.int64]]],
    advance: Callable[[int], None],
) -> None:
    """Count the triangles that begin with lists, into the marks and counts of each thread."""
    from sparrow.kernels.graph import traversal

    close: Any = traversal.count_triangles
    nodes, starts, stops, cols = lists.arrays
    reached = np.append(0, np.cumsum(stops - starts))
    shares = np.linspace(0, reached[-1], _PARTS * len(lanes) + 1)
    bounds = np.unique(np.searchsorted(reached, shares))
    bounds[0], bounds[-1] = 0, len(nodes)

    def counted(lane: int) -> None:
        for k in range(lane, len(bounds) - 1, len(lanes)):
            part = slice(bounds[k], bounds[k + 1])
            close(nodes[part], starts[part], stops[part], cols, *held, *lanes[lane])
            advance(int(reached[bounds[k + 1]] - reached[bounds[k]]))

    for _ in ordered_map(counted, range(len(lanes)), len(lanes)):
        pass


def _upward(links: Adjacency, rank: NDArray[np.int32], low: int, up: NDArray[np.int32]) -> NDArray[np.int64]:
    """Write the higher ranks that nodes from ``low`` on lead to, as far as there is room; return where each begins."""
    from sparrow.kernels.graph import traversal

    gather: Any = traversal.upward
    lengths = np.zeros(links.size - low + 1, np.int64)
    active = np.ones(links.size, np.bool_)
    active[:low] = False
    filled = 0
    for lists in links.lists(active if low else None):
        k, filled = gather(*lists.arrays, rank, low, lengths, up, filled)
        if k < len(lists.nodes):
            lengths = lengths[: int(lists.nodes[k]) - low + 1]
            break
    return np.cumsum(lengths)
