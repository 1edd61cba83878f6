"""K-cores and communities."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparrow.graph.adjacency import Adjacency, sort_by_degree
from sparrow.graph.nodes import check_graph, per_group, per_node, reserve_per_node, shared
from sparrow.graph.tuning import tuning
from sparrow.runtime import progress
from sparrow.runtime.validation import check_integer, check_seed
from sparrow.tensor import Tensor

__all__ = ["kcore", "label_propagation"]


@shared
def kcore(A: Tensor) -> Tensor:
    """Return the core number of each node of an undirected graph.

    A k-core is a maximal subgraph in which every node has at least k neighbors. A node's core number is the largest k
    of a k-core that contains it. In memory, nodes of the lowest degree are peeled one by one (Batagelj and Zaversnik
    2003). A spilled graph is read round after round: each core number starts at the degree and falls to the h-index of
    the neighbors' numbers (Montresor et al. 2013).

    Parameters
    ----------
    %(undirected_graph)s

    Returns
    -------
    Tensor
        Core numbers, int64, shape (n,). ``sp.graph.induced_subgraph(A, sp.graph.kcore(A) >= k)`` is the k-core.

    Raises
    ------
    %(graph_errors)s

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.from_coords([[0, 1, 2, 2], [1, 2, 0, 3]], [1, 1, 1, 1], shape=(5, 5))
    >>> core = sp.graph.kcore(A)
    >>> core.to_numpy()
    array([2, 2, 2, 1, 0])
    >>> sp.graph.induced_subgraph(A, core >= 2).shape
    (3, 3)
    """
    from sparrow.kernels.graph import traversal

    h_index: Any = traversal.h_index
    A = check_graph(A)
    with (
        reserve_per_node(A, 24, "core numbers"),
        Adjacency(A, undirected=True) as adjacency,
        progress.bar(
            "core numbers", A.shape[0] + adjacency.count_edges(np.ones(A.shape[0], np.bool_)), "edges"
        ) as advance,
    ):
        core = adjacency.degrees()
        if adjacency.csr is not None:
            indptr, cols, _ = adjacency.csr
            core = core.astype(np.int32)  # half the memory of the random accesses
            begin, order, place = sort_by_degree(core)
            state = np.zeros(1, np.int64)
            while state[0] < len(core):
                advance(traversal.peel_cores(indptr, cols, core, begin, order, place, state, tuning().edges_per_call))
            return per_node(A, core.astype(np.int64))
        tally = np.zeros(int(core.max(initial=0)) + 1, np.int64)
        active, work = core > 0, 0
        while active.any():
            before, work = work, adjacency.count_edges(active)
            advance.set_left(progress.work_left(before, work))
            for lists in adjacency.frontier_lists(active):
                h_index(*lists.arrays, core, active, tally)
                advance(lists.count)
        return per_node(A, core)


@shared
def label_propagation(A: Tensor, *, max_iter: int = 100, seed: int = 0) -> Tensor:
    """Return communities by label propagation.

    Each node starts with its own label. In each round the nodes, in order of position, take the most frequent label of
    their neighbors; on a tie a node keeps its label if it is among the most frequent, else one is drawn at random. The
    loop ends when no label changes.

    Parameters
    ----------
    %(undirected_graph)s
    max_iter
        Maximum number of rounds.
    seed
        Seed of the random ties.

    Returns
    -------
    Tensor
        Community of each node, int64, shape (n,), numbered from 0 in the order of their first nodes.

    Raises
    ------
    %(graph_errors)s

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.from_coords([[0, 0, 1, 3, 3, 4, 2], [1, 2, 2, 4, 5, 5, 3]], [1] * 7, shape=(6, 6))
    >>> sp.graph.label_propagation(A).to_numpy()
    array([0, 0, 0, 1, 1, 1])
    """
    from sparrow.kernels.graph import traversal

    vote: Any = traversal.propagate_labels
    A = check_graph(A)
    check_integer("max_iter", max_iter, 0)
    check_seed(seed)
    n = A.shape[0]
    with (
        reserve_per_node(A, 40, "label propagation"),
        Adjacency(A, undirected=True) as adjacency,
        progress.bar("label propagation", adjacency.count_edges(np.ones(n, np.bool_)), "edges") as advance,
    ):
        labels, tally = np.arange(n), np.zeros(n, np.int64)
        active, work = adjacency.degrees() > 0, 0
        for number in range(max_iter):
            if not active.any():
                break
            before, work = work, adjacency.count_edges(active)
            advance.set_left(min(progress.work_left(before, work), work * (max_iter - number)))
            # Iterate over a copy, so that a spilled graph yields the same nodes as one in memory.
            for lists in adjacency.neighbor_lists(active.copy()):
                vote(*lists.arrays, labels, active, tally, seed)
                advance(lists.count)
    return per_group(A, labels)
