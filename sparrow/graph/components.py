"""Parts of a graph that hang together."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow import engines, memory, progress
from sparrow.graph.links import Links, as_lists
from sparrow.graph.nodes import check_graph, per_node, room_for_nodes
from sparrow.tensor import Tensor

__all__ = ["connected_components", "strongly_connected_components"]

_MANY = 50
"""Where more than one node in so many has no link in or out, a further pass may find more of them."""
_REST_BYTES = 40
"""Bytes that a link takes while SciPy finds components: its ends, and a matrix of them."""


def connected_components(A: Tensor) -> Tensor:
    """Return which part of the graph each node belongs to, whatever the direction of links: one pass over them.

    Parameters
    ----------
    A
        Links from rows to columns.

    Returns
    -------
    Tensor
        The number of each node's part. Parts are numbered from 0 in the order of their first nodes.

    Raises
    ------
    ShapeError
        If the tensor is no square matrix.

    Examples
    --------
    >>> import sparrow as sp
    >>> links = sp.from_coords([[0, 3], [2, 4]], [1, 1], shape=(5, 5))
    >>> sp.graph.connected_components(links).to_numpy()
    array([0, 1, 0, 2, 2])
    """
    from sparrow.kernels import graphs

    unite: Any = graphs.unite
    A = check_graph(A)
    with room_for_nodes(A, 8, "connected components"):
        parent = np.arange(A.shape[0])
        with progress.bar("connected components", None, "links") as advance:
            for block in engines.blocks(A.__sparrow_scan__()):
                lists = as_lists(block)
                unite(*lists.arrays, parent)
                advance(lists.count)
        graphs.flatten(parent)
        return per_node(A, parent, -1)


def strongly_connected_components(A: Tensor) -> Tensor:
    """Return which part of the graph each node belongs to, where links lead from each of its nodes to each other.

    Nodes without links in or out are parts of their own and go first. Where what is left does not fit in memory its
    largest nodes colour what they lead to and find who leads to them, until it fits; SciPy does the rest.

    Parameters
    ----------
    A
        Links from rows to columns.

    Returns
    -------
    Tensor
        The number of each node's part. Parts are numbered from 0 in the order of their first nodes.

    Raises
    ------
    ShapeError
        If the tensor is no square matrix.

    Examples
    --------
    >>> import sparrow as sp
    >>> links = sp.from_coords([[0, 1, 2, 3], [1, 0, 3, 0]], [1, 1, 1, 1], shape=(4, 4))
    >>> sp.graph.strongly_connected_components(links).to_numpy()
    array([0, 0, 1, 2])
    """
    A = check_graph(A)
    n = A.shape[0]
    with (
        room_for_nodes(A, 24, "strongly connected components"),
        ExitStack() as kept,
        Links(A) as links,
        progress.bar("strongly connected components", None, "links") as advance,
    ):
        part = np.full(n, -1, np.int64)
        alive = np.ones(n, np.bool_)
        count, gone = _trimmed(links, alive, part, advance)
        back: Links | None = None
        while count * _REST_BYTES > memory.limit() // 4:
            if gone * _MANY < np.count_nonzero(alive):
                back = back or kept.enter_context(Links(A.T))
                _coloured(links, back, alive, part, advance)
            count, gone = _trimmed(links, alive, part, advance)
        if alive.any():
            _finished(links, alive, part, count)
    first = np.full(n, n, np.int64)
    np.minimum.at(first, part, np.arange(n))
    return per_node(A, np.unique(first[part], return_inverse=True)[1].astype(np.int64), -1)


def _trimmed(
    links: Links, alive: NDArray[np.bool_], part: NDArray[np.int64], advance: Callable[[int], None]
) -> tuple[int, int]:
    """Make nodes that no link leads to or from parts of their own; return how many links there were, and such nodes."""
    from sparrow.kernels import graphs

    count_ends: Any = graphs.count_ends
    leads, led = np.zeros_like(alive), np.zeros_like(alive)
    count = 0
    for lists in links.lists(alive):
        count += count_ends(*lists.arrays, alive, leads, led)
        advance(lists.count)
    gone = np.flatnonzero(alive & ~(leads & led))
    part[gone] = gone
    alive[gone] = False
    return count, len(gone)


def _coloured(
    links: Links,
    back: Links,
    alive: NDArray[np.bool_],
    part: NDArray[np.int64],
    advance: Callable[[int], None],
) -> None:
    """Find the parts of nodes that nothing larger leads to: each of them colours what it leads to."""
    from sparrow.kernels import graphs

    colour: Any = graphs.colour
    reach: Any = graphs.reach
    colours = np.arange(len(alive))
    active = alive.copy()
    while active.any():
        for lists in links.pending(active):
            colour(*lists.arrays, alive, colours, active)
            advance(lists.count)
        active &= alive
    found = alive & (colours == np.arange(len(alive)))
    active = found.copy()
    while active.any():
        for lists in back.pending(active):
            reach(*lists.arrays, alive, colours, found, active)
            advance(lists.count)
    part[found] = colours[found]
    alive &= ~found


def _finished(links: Links, alive: NDArray[np.bool_], part: NDArray[np.int64], count: int) -> None:
    """Find the parts of what is left in memory."""
    import scipy.sparse
    from scipy.sparse import csgraph

    nodes = np.flatnonzero(alive)
    number = np.zeros(len(alive), np.int32)
    number[nodes] = np.arange(len(nodes))
    with memory.reserve(count * _REST_BYTES, "the links that are left"):
        ends: list[tuple[NDArray[np.int32], ...]] = []
        for lists in links.lists(alive):
            lengths = lists.stops - lists.starts
            at = np.arange(lengths.sum()) + np.repeat(lists.starts - (np.cumsum(lengths) - lengths), lengths)
            rows, cols = np.repeat(lists.nodes, lengths), lists.cols[at]
            kept = alive[cols]
            ends.append((number[rows[kept]], number[cols[kept]]))
        rows, cols = (np.concatenate(side) for side in zip(*ends, strict=True))
        matrix = scipy.sparse.coo_array((np.ones(len(rows), np.int8), (rows, cols)), shape=(len(nodes), len(nodes)))
        found = csgraph.connected_components(matrix, directed=True, connection="strong")[1]
    first = np.zeros(found.max() + 1, np.int64)
    first[found[::-1]] = nodes[::-1]
    part[nodes] = first[found]
