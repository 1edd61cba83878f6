"""Groups of nodes: cores, and labels that neighbours agree on."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparrow.graph.adjacency import AT_ONCE, Adjacency, sort_by_degree
from sparrow.graph.nodes import check_graph, per_group, per_node, reserve_per_node
from sparrow.runtime import progress
from sparrow.runtime.validation import check_integer, check_seed
from sparrow.tensor import Tensor

__all__ = ["kcore", "label_propagation"]


def kcore(A: Tensor) -> Tensor:
    """Return the core number of each node, links taken both ways: the largest k of a k-core that it is in.

    A k-core is a largest part of a graph in which every node has k neighbours or more. Of links that fit in memory the
    nodes of the fewest neighbours are taken away, one after the other (Batagelj and Zaversnik 2003). Else each node's
    number begins as that of its neighbours and falls to the largest h of which h neighbours have at least h, round
    after round.

    Parameters
    ----------
    A
        Links from rows to columns; their direction, values, and links of a node to itself do not matter.

    Returns
    -------
    Tensor
        A number for each node; ``sp.graph.induced_subgraph(A, sp.graph.kcore(A) >= k)`` is the k-core.

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
    >>> links = sp.from_coords([[0, 1, 2, 2], [1, 2, 0, 3]], [1, 1, 1, 1], shape=(5, 5))
    >>> core = sp.graph.kcore(links)
    >>> core.to_numpy()
    array([2, 2, 2, 1, 0])
    >>> sp.graph.induced_subgraph(links, core >= 2).shape
    (3, 3)
    """
    from sparrow.kernels.graph import traversal

    h_index: Any = traversal.h_index
    A = check_graph(A)
    with (
        reserve_per_node(A, 24, "core numbers"),
        Adjacency(A, undirected=True) as links,
        progress.bar("core numbers", None, "links") as advance,
    ):
        core = links.counts()
        if links.held is not None:
            indptr, cols, _ = links.held
            core = core.astype(np.int32)  # half the memory to jump about in
            begin, order, place = sort_by_degree(core)
            state = np.zeros(1, np.int64)
            while state[0] < len(core):
                advance(traversal.peel(indptr, cols, core, begin, order, place, state, AT_ONCE))
            return per_node(A, core.astype(np.int64))
        tally = np.zeros(int(core.max(initial=0)) + 1, np.int64)
        active = core > 0
        while active.any():
            for lists in links.pending(active):
                h_index(*lists.arrays, core, active, tally)
                advance(lists.count)
        return per_node(A, core)


def label_propagation(A: Tensor, *, max_iter: int = 100, seed: int = 0) -> Tensor:
    """Return communities: each node takes the label that most of its neighbours have, until none changes.

    Nodes begin with labels of their own and look at their neighbours one after the other, by position. Of several
    labels that are as frequent a node keeps its own, else takes one at random.

    Parameters
    ----------
    A
        Links from rows to columns; their direction, values, and links of a node to itself do not matter.
    max_iter
        The most rounds.
    seed
        Of the choices; the same seed gives the same communities.

    Returns
    -------
    Tensor
        The number of each node's community, from 0 in the order of their first nodes.

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
    >>> links = sp.from_coords([[0, 0, 1, 3, 3, 4, 2], [1, 2, 2, 4, 5, 5, 3]], [1] * 7, shape=(6, 6))
    >>> sp.graph.label_propagation(links).to_numpy()
    array([0, 0, 0, 1, 1, 1])
    """
    from sparrow.kernels.graph import traversal

    vote: Any = traversal.vote
    A = check_graph(A)
    check_integer("max_iter", max_iter, 0)
    check_seed(seed)
    n = A.shape[0]
    with (
        reserve_per_node(A, 40, "label propagation"),
        Adjacency(A, undirected=True) as links,
        progress.bar("label propagation", None, "links") as advance,
    ):
        labels, tally = np.arange(n), np.zeros(n, np.int64)
        active = links.counts() > 0
        for _ in range(max_iter):
            if not active.any():
                break
            for lists in links.lists(active.copy()):  # the same nodes from disk as from memory
                vote(*lists.arrays, labels, active, tally, seed)
                advance(lists.count)
    return per_group(A, labels)
