"""Triangles of a graph, and how close its nodes' neighbours are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sparrow import memory, progress, settings
from sparrow.functions.manipulation import tril
from sparrow.graph.links import Links
from sparrow.graph.nodes import check_graph, per_node, room_for_nodes, turned
from sparrow.tensor import Tensor
from sparrow.tensor.products import matmul
from sparrow.workers import ordered_map

__all__ = ["clustering", "triangles"]

_PARTS = 16
"""Nodes are dealt out to threads in so many parts for each."""


def triangles(A: Tensor) -> Tensor:
    """Return in how many triangles each node is, links taken both ways.

    Each link is kept once in memory, from the node of fewer links, and triangles are closed there; of a graph too large
    for that they are counted by products of tensors under a mask, out of core.

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
    with room_for_nodes(A, 32 + 8 * settings.current().threads, "triangles"), Links(A, undirected=True) as links:
        neighbours = links.counts()
        if 4 * int(neighbours.sum()) > memory.limit() // 4:
            return _by_products(links.tensor), neighbours
        return _closed(links, neighbours), neighbours


def _closed(links: Links, neighbours: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count triangles over links that lead from nodes of fewer neighbours to those of more."""
    from sparrow.kernels import graphs

    indptr = np.zeros(links.size + 1, np.int64)
    rank = np.empty(links.size, np.int32)
    rank[np.lexsort((np.arange(links.size), neighbours))] = np.arange(links.size, dtype=np.int32)
    kept: list[NDArray[np.int32]] = [np.empty(0, np.int32)]
    for lists in links.lists():
        lengths = lists.stops - lists.starts
        rows = np.repeat(lists.nodes, lengths)
        cols = lists.cols[lists.starts[0] : lists.stops[-1]] if len(lengths) else lists.cols
        up = rank[rows] < rank[cols]
        kept.append(cols[up])
        indptr[1:] += np.bincount(rows[up], minlength=links.size)
    indptr, cols = np.cumsum(indptr), np.concatenate(kept)
    threads = settings.current().threads
    parts = max(min(_PARTS * threads, links.size), 1)
    bounds = np.unique(np.searchsorted(indptr, np.linspace(0, indptr[-1], parts + 1)))
    bounds[0], bounds[-1] = 0, links.size

    def counted(lane: int) -> NDArray[np.int64]:
        counts = np.zeros(links.size, np.int64)
        for k in range(lane, len(bounds) - 1, threads):
            graphs.count_triangles(bounds[k], bounds[k + 1], indptr, cols, counts)
            advance(int(indptr[bounds[k + 1]] - indptr[bounds[k]]))
        return counts

    with progress.bar("triangles", len(cols), "links") as advance:
        found: NDArray[np.int64] = np.sum(list(ordered_map(counted, range(threads), threads)), axis=0)
    return found


def _by_products(both: Tensor) -> NDArray[np.int64]:
    """Count the triangles u > v > w of links both ways at u and w by one product under a mask, at v by another."""
    below = tril(both, -1)
    ends = matmul(below, below, semiring="plus_pair", mask=below)
    middle = matmul(turned(below), below, semiring="plus_pair", mask=below)
    sums = (ends.sum(axis=1), ends.sum(axis=0), middle.sum(axis=1))
    found: NDArray[np.int64] = np.sum([each.to_numpy() for each in sums], axis=0).astype(np.int64)
    return found
