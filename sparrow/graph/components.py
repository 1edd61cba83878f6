"""Parts of a graph that hang together."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow import engines
from sparrow.graph.adjacency import AT_ONCE, Adjacency, to_neighbor_lists
from sparrow.graph.nodes import check_graph, per_group, per_node, reserve_per_node
from sparrow.runtime import memory, progress
from sparrow.tensor import Tensor

__all__ = ["connected_components", "strongly_connected_components"]

_SHARE = 4
"""Links between parts may take one part in so many of what is free of the memory limit."""
_LINK_BYTES = 64
"""Bytes that a link takes while SciPy finds components: a key or two, its ends, and a matrix of them."""
_LEAST = 4
"""Links between parts that are held in any case."""
_LITTLE = 0.8
"""Where more than this share of the links is left after a pass, nodes colour what they lead to."""
_LOW = 0xFFFFFFFF


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
    LabelError
        If rows and columns have labels that differ.
    TooLargeError
        If what is kept for each node does not fit the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> links = sp.from_coords([[0, 3], [2, 4]], [1, 1], shape=(5, 5))
    >>> sp.graph.connected_components(links).to_numpy()
    array([0, 1, 0, 2, 2])
    """
    from sparrow.kernels.graph import traversal

    unite: Any = traversal.unite
    A = check_graph(A)
    with reserve_per_node(A, 8, "connected components"):
        parent = np.arange(A.shape[0])
        with progress.bar("connected components", None, "links") as advance:
            for block in engines.blocks(A.__sparrow_scan__()):
                lists = to_neighbor_lists(block)
                unite(*lists.arrays, parent)
                advance(lists.count)
        traversal.flatten(parent)
        return per_node(A, parent, -1)


def strongly_connected_components(A: Tensor) -> Tensor:
    """Return which part of the graph each node belongs to, where links lead from each of its nodes to each other.

    Of links that fit in memory one search finds all parts (Pearce 2016). Others are read pass after pass: of as many as
    fit the parts are found by SciPy and taken as one node from then on; what nothing leads to, or from, is set aside.
    Where a pass brings little, the largest nodes colour what they lead to and find who leads to them.

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
    LabelError
        If rows and columns have labels that differ.
    TooLargeError
        If what is kept for each node does not fit the memory limit.

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
        reserve_per_node(A, 32, "strongly connected components"),
        ExitStack() as kept,
        Adjacency(A) as links,
        progress.bar("strongly connected components", None, "links") as advance,
    ):
        if links.held is not None:
            return per_group(A, _searched(links, advance))
        part = np.arange(n)
        alive = np.ones(n, np.bool_)
        room = max(memory.share(_SHARE) // _LINK_BYTES, _LEAST)  # of what is left
        back: Adjacency | None = None
        before, left = 0, _contracted(links, alive, part, room, advance)
        while left:
            if before and left > _LITTLE * before:
                back = back or kept.enter_context(Adjacency(A.T))
                _coloured(links, back, alive, part, advance)
            before, left = left, _contracted(links, alive, part, room, advance)
        return per_group(A, part)


def _searched(links: Adjacency, advance: Callable[[int], None]) -> NDArray[np.int32]:
    """Return a number of each node's part, below the number of nodes: of links in memory."""
    from sparrow.kernels.graph import traversal

    assert links.held is not None
    indptr, cols, _ = links.held
    n = links.size
    rank, path, waiting = np.zeros(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    at, first = np.empty(n, np.int64), np.empty(n, np.bool_)
    state = np.array([0, 0, 0, 1, n])
    while state[0] < n:
        advance(traversal.strong(indptr, cols, rank, path, at, first, waiting, state, AT_ONCE))
    rank -= 1
    return rank


def _contracted(
    links: Adjacency, alive: NDArray[np.bool_], part: NDArray[np.int64], room: int, advance: Callable[[int], None]
) -> int:
    """Join parts that lead to each other by links read in one pass, and set those aside that are whole.

    Returns how many links between other parts there may be: 0 if all parts were found.
    """
    from sparrow.kernels.graph import traversal

    gather: Any = traversal.gather
    leads, led = np.zeros_like(alive), np.zeros_like(alive)
    keys = np.empty(room, np.int64)
    filled = dropped = 0
    for lists in links.lists(alive):
        arrays = lists.arrays
        k, at, filled = gather(*arrays, alive, part, leads, led, 0, 0, keys, filled)
        while k < len(lists.nodes):
            seen, filled = filled, _joined(keys, filled, part)
            if filled > room // 2:  # too few of them were joined: what is left comes again in the next pass
                dropped, filled = dropped + seen, 0
            k, at, filled = gather(*arrays, alive, part, leads, led, k, at, keys, filled)
        advance(lists.count)
    filled = _joined(keys, filled, part, last=not dropped)
    if not dropped:
        alive[:] = False
        return 0
    for ends in (leads, led):
        marked = part[np.flatnonzero(ends)]
        ends[:] = False
        ends[marked] = True
    alive &= (leads & led)[part]
    return dropped + filled


def _joined(keys: NDArray[np.int64], count: int, part: NDArray[np.int64], last: bool = False) -> int:
    """Join parts by links between them; put the links that are left, each once, first and return how many they are.

    After the last links nothing is put anywhere.
    """
    import scipy.sparse
    from scipy.sparse import csgraph

    with memory.reserve(count * _LINK_BYTES, "links between parts"):
        found = _once(keys[:count])
        rows, cols = found >> 32, found & _LOW
        linked = np.zeros(len(part), np.bool_)
        linked[rows] = linked[cols] = True
        nodes = np.flatnonzero(linked)
        place = np.zeros(len(part), np.int32)
        place[nodes] = np.arange(len(nodes))
        indptr = np.append(0, np.cumsum(np.bincount(rows, minlength=len(part))[nodes]))
        arrays = np.ones(len(cols)), place[cols], indptr
        matrix = scipy.sparse.csr_array(arrays, shape=(len(nodes), len(nodes)))
        labels = csgraph.connected_components(matrix, directed=True, connection="strong")[1]
        first = np.zeros(labels.max(initial=-1) + 1, np.int64)
        first[labels[::-1]] = nodes[::-1]
        into = np.arange(len(part))
        into[nodes] = first[labels]
        part[:] = into[part]
        if last:
            return 0
        rows, cols = into[rows], into[cols]
        left = _once(((rows << 32) | cols)[rows != cols])
        keys[: len(left)] = left
        return len(left)


def _once(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return distinct keys, ascending; those given are sorted in place."""
    if bool((keys[1:] > keys[:-1]).all()):  # as they come of a graph that no part was found in
        return keys
    keys.sort()  # np.unique would hash them, which takes ten times as long
    new: NDArray[np.bool_] = np.append(True, keys[1:] != keys[:-1])
    return keys[new]


def _coloured(
    links: Adjacency,
    back: Adjacency,
    alive: NDArray[np.bool_],
    part: NDArray[np.int64],
    advance: Callable[[int], None],
) -> None:
    """Find the parts of nodes that nothing larger leads to: each of them colours what it leads to."""
    from sparrow.kernels.graph import traversal

    colour: Any = traversal.colour
    reach: Any = traversal.reach
    colours = np.arange(len(alive))
    active = alive.copy()
    while active.any():
        for lists in links.pending(active, others=True):
            colour(*lists.arrays, alive, colours, active)
            advance(lists.count)
        active &= alive
    found = alive & (colours == np.arange(len(alive)))
    active = found.copy()
    while active.any():
        for lists in back.pending(active, others=True):
            reach(*lists.arrays, alive, colours, found, active)
            advance(lists.count)
    part[found] = colours[found]
    alive &= ~found
