"""Weakly and strongly connected components."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow import engines
from sparrow.graph.adjacency import Adjacency, to_neighbor_lists
from sparrow.graph.nodes import check_graph, per_group, per_node, reserve_per_node, shared
from sparrow.graph.tuning import tuning
from sparrow.kernels.coo import Block
from sparrow.plan.estimates import estimate_nnz
from sparrow.runtime import memory, progress
from sparrow.tensor import Tensor

__all__ = ["connected_components", "strongly_connected_components"]

_COLUMN_MASK = 0xFFFFFFFF
"""Lower half of an edge key, ``row << 32 | column``."""


@shared
def connected_components(A: Tensor) -> Tensor:
    """Return the weakly connected component of each node, in one pass over the edges.

    On a cluster, tasks find the components of ranges of the rows, and this process unites them.

    Parameters
    ----------
    %(graph)s

    Returns
    -------
    Tensor
        Component of each node, int64, shape (n,), numbered from 0 in the order of their first nodes.

    Raises
    ------
    %(graph_errors)s

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.from_coords([[0, 3], [2, 4]], [1, 1], shape=(5, 5))
    >>> sp.graph.connected_components(A).to_numpy()
    array([0, 1, 0, 2, 2])
    """
    from sparrow.kernels.graph import traversal

    A = check_graph(A)
    with reserve_per_node(A, 8, "connected components"):
        parent = np.arange(A.shape[0])
        scan = A.__sparrow_scan__()
        forests = engines.fold_ranges(scan, Forest(A.shape[0]))
        if forests is None:
            with progress.bar("connected components", estimate_nnz(scan), "edges") as advance:
                _unite(engines.iter_blocks(scan), parent, advance)
        else:
            for edges in forests:
                _unite([Block(edges, edges[0])], parent)  # without weights
        traversal.number_components(parent)
        return per_node(A, parent, -1)


@dataclass(frozen=True, slots=True)
class Forest:
    """Function of some edges of a graph: those that connect their components.

    Parameters
    ----------
    size
        Number of nodes.
    """

    size: int

    def __call__(self, blocks: Iterator[Block]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the ends of at most one edge per node."""
        with memory.reserve(8 * self.size, f"connected components: 8 bytes for each of {self.size} nodes"):
            parent = np.arange(self.size)
            _unite(blocks, parent)
            nodes = np.flatnonzero(parent != np.arange(self.size))
            return nodes.astype(np.int32), parent[nodes].astype(np.int32)


def _unite(
    blocks: Iterable[Block], parent: NDArray[np.int64], advance: Callable[[int], None] = lambda count: None
) -> None:
    """Unite the components of nodes that edges connect."""
    from sparrow.kernels.graph import traversal

    unite: Any = traversal.union_neighbors
    for block in blocks:
        if not block.count:
            continue
        lists = to_neighbor_lists(block)
        unite(*lists.arrays, parent)
        advance(lists.count)


@shared
def strongly_connected_components(A: Tensor) -> Tensor:
    """Return the strongly connected component of each node.

    In memory, one depth-first search finds all components (Pearce 2016). A spilled graph takes several passes. Each
    collects as many edges as fit, contracts their components (SciPy finds them) and drops components without incoming
    or outgoing edges. After a pass that contracts little, the largest nodes propagate their color along the edges, and
    a search along the reversed edges completes their components (Orzan 2004).

    Parameters
    ----------
    %(graph)s

    Returns
    -------
    Tensor
        Component of each node, int64, shape (n,), numbered from 0 in the order of their first nodes.

    Raises
    ------
    %(graph_errors)s

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.from_coords([[0, 1, 2, 3], [1, 0, 3, 0]], [1, 1, 1, 1], shape=(4, 4))
    >>> sp.graph.strongly_connected_components(A).to_numpy()
    array([0, 0, 1, 2])
    """
    A = check_graph(A)
    n = A.shape[0]
    with (
        reserve_per_node(A, 32, "strongly connected components"),
        ExitStack() as stack,
        Adjacency(A) as adjacency,
        progress.bar("strongly connected components", 2 * n + estimate_nnz(A.__sparrow_scan__()), "edges") as advance,
    ):
        if adjacency.csr is not None:
            return per_group(A, _search_in_memory(adjacency, advance))
        component = np.arange(n)
        alive = np.ones(n, np.bool_)
        limits = tuning()
        capacity = max(memory.share(limits.component_share) // limits.component_edge_bytes, limits.min_component_edges)
        reverse: Adjacency | None = None
        before, left = 0, _contract(adjacency, alive, component, capacity, advance)
        while left:
            if before and left > limits.coloring_ratio * before:
                reverse = reverse or stack.enter_context(Adjacency(A.T))
                _color(adjacency, reverse, alive, component, advance)
            before, left = left, _contract(adjacency, alive, component, capacity, advance)
        return per_group(A, component)


def _search_in_memory(adjacency: Adjacency, advance: progress.Advance) -> NDArray[np.int32]:
    """Return a component number below n for each node."""
    from sparrow.kernels.graph import traversal

    assert adjacency.csr is not None
    indptr, cols, _ = adjacency.csr
    n = adjacency.size
    rank, path, waiting = np.zeros(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    at, first = np.empty(n, np.int64), np.empty(n, np.bool_)
    state = np.array([0, 0, 0, 1, n])
    while state[0] < n:
        advance(
            traversal.strong_components(indptr, cols, rank, path, at, first, waiting, state, tuning().edges_per_call)
        )
    rank -= 1
    return rank


def _contract(
    adjacency: Adjacency,
    alive: NDArray[np.bool_],
    component: NDArray[np.int64],
    capacity: int,
    advance: progress.Advance,
) -> int:
    """Merge components in one pass over the edges and deactivate complete ones.

    Returns an upper bound on the remaining edges between components: 0 if all components were found.
    """
    from sparrow.kernels.graph import traversal

    gather: Any = traversal.gather_edges
    has_out, has_in = np.zeros_like(alive), np.zeros_like(alive)
    keys = np.empty(capacity, np.int64)
    filled = dropped = 0
    advance.set_left(adjacency.count_edges(alive))
    for lists in adjacency.neighbor_lists(alive):
        arrays = lists.arrays
        k, at, filled = gather(*arrays, alive, component, has_out, has_in, 0, 0, keys, filled)
        while k < len(lists.nodes):
            seen, filled = filled, _merge_components(keys, filled, component)
            if filled > capacity // 2:  # too few were merged: the next pass reads the others again
                dropped, filled = dropped + seen, 0
            k, at, filled = gather(*arrays, alive, component, has_out, has_in, k, at, keys, filled)
        advance(lists.count)
    filled = _merge_components(keys, filled, component, last=not dropped)
    if not dropped:
        alive[:] = False
        return 0
    for ends in (has_out, has_in):
        marked = component[np.flatnonzero(ends)]
        ends[:] = False
        ends[marked] = True
    alive &= (has_out & has_in)[component]
    return dropped + filled


def _merge_components(keys: NDArray[np.int64], count: int, component: NDArray[np.int64], last: bool = False) -> int:
    """Merge components that share edge ``keys``; return the number of other edges.

    They are compacted in place, unless ``last`` says that none follow.
    """
    import scipy.sparse
    from scipy.sparse import csgraph

    with memory.reserve(count * tuning().component_edge_bytes, "edges between components"):
        result = _sort_unique(keys[:count])
        rows, cols = result >> 32, result & _COLUMN_MASK
        linked = np.zeros(len(component), np.bool_)
        linked[rows] = linked[cols] = True
        nodes = np.flatnonzero(linked)
        place = np.zeros(len(component), np.int32)
        place[nodes] = np.arange(len(nodes))
        indptr = np.append(0, np.cumsum(np.bincount(rows, minlength=len(component))[nodes]))
        arrays = np.ones(len(cols)), place[cols], indptr
        matrix = scipy.sparse.csr_array(arrays, shape=(len(nodes), len(nodes)))
        labels = csgraph.connected_components(matrix, directed=True, connection="strong")[1]
        first = np.zeros(labels.max(initial=-1) + 1, np.int64)
        first[labels[::-1]] = nodes[::-1]
        into = np.arange(len(component))
        into[nodes] = first[labels]
        component[:] = into[component]
        if last:
            return 0
        rows, cols = into[rows], into[cols]
        left = _sort_unique(((rows << 32) | cols)[rows != cols])
        keys[: len(left)] = left
        return len(left)


def _sort_unique(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the distinct keys, ascending; ``keys`` is sorted in place."""
    if bool((keys[1:] > keys[:-1]).all()):  # sorted already if no component was merged yet
        return keys
    keys.sort()  # np.unique hashes them, which takes ten times as long
    new: NDArray[np.bool_] = np.append(True, keys[1:] != keys[:-1])
    return keys[new]


def _color(
    adjacency: Adjacency,
    reverse: Adjacency,
    alive: NDArray[np.bool_],
    component: NDArray[np.int64],
    advance: progress.Advance,
) -> None:
    """Find components by forward coloring and backward search."""
    from sparrow.kernels.graph import traversal

    color: Any = traversal.propagate_colors
    reach: Any = traversal.reach
    colors = np.arange(len(alive))
    active = alive.copy()
    while active.any():
        advance.set_left(adjacency.count_edges(active))
        for lists in adjacency.frontier_lists(active, others=True):
            color(*lists.arrays, alive, colors, active)
            advance(lists.count)
        active &= alive
    roots = alive & (colors == np.arange(len(alive)))
    active = roots.copy()
    while active.any():
        advance.set_left(reverse.count_edges(active))
        for lists in reverse.frontier_lists(active, others=True):
            reach(*lists.arrays, alive, colors, roots, active)
            advance(lists.count)
    component[roots] = colors[roots]
    alive &= ~roots
