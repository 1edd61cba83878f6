"""Ways through a graph: how many links, how far, and at random."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.schema import as_integer
from sparrow.errors import InvalidValueError
from sparrow.graph.adjacency import AT_ONCE, Adjacency
from sparrow.graph.nodes import check_graph, node_positions, per_node, reserve_per_node
from sparrow.kernels.jit.warmup import readonly
from sparrow.runtime import memory, progress
from sparrow.runtime.validation import check_flag, check_integer, check_seed
from sparrow.tensor import Tensor

__all__ = ["bfs", "random_walks", "shortest_paths"]

_ALL = 1 << 62
"""What the weights of all lists add up to."""
_SAMPLE = 1024
"""Weights that say how far nodes are near."""
_PASSES = 4
"""How often all links may have been looked at before circles are looked for."""
_NONE_BEFORE = np.empty(0, np.int32)
"""What nodes were reached from, where nobody asks."""


def bfs(A: Tensor, source: Any, *, directed: bool = True, max_depth: int | None = None) -> Tensor:
    """Return how many links away each node is, by breadth-first search.

    Parameters
    ----------
    A
        Links from rows to columns.
    source
        Where to begin: a node, or several, by label where there are labels, else by position.
    directed
        False to take links both ways.
    max_depth
        Look no further than so many links.

    Returns
    -------
    Tensor
        The links on the shortest way to each node from the nearest source; the fill is -1, of nodes that no way leads
        to.

    Raises
    ------
    ShapeError
        If the tensor is no square matrix.
    LabelError, IndexingError
        If there is no such node.
    InvalidValueError
        If ``max_depth`` is no integer, or negative.
    TooLargeError
        If what is kept for each node does not fit the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> links = sp.from_coords([[0, 1, 3], [1, 2, 0]], [1, 1, 1], shape=(4, 4))
    >>> sp.graph.bfs(links, 0).to_numpy()
    array([ 0,  1,  2, -1])
    """
    if max_depth is not None:
        check_integer("max_depth", max_depth, least=0)
    limit = np.inf if max_depth is None else int(max_depth)
    A, directed = check_graph(A), check_flag("directed", directed)
    with reserve_per_node(A, 24, "breadth-first search"), Adjacency(A, undirected=not directed) as links:
        if links.held is not None:
            return per_node(A, _searched(links, node_positions(A, source), limit), -1)
        far = _distances(links, node_positions(A, source), "breadth-first search", limit, None)
        return per_node(A, np.where(np.isinf(far), -1, far).astype(np.int64), -1)


def shortest_paths(A: Tensor, source: Any) -> Tensor:
    """Return how far each node is, links being as long as their values say.

    Parameters
    ----------
    A
        Links from rows to columns. Lengths may be negative as long as no circle is; no way is shorter
        by a link of NaN. Of both ways, :func:`symmetrize` it.
    source
        Where to begin: a node, or several, by label where there are labels, else by position.

    Returns
    -------
    Tensor
        The length of the shortest way to each node from the nearest source; the fill is infinity, of nodes that no way
        leads to.

    Raises
    ------
    ShapeError
        If the tensor is no square matrix.
    LabelError, IndexingError
        If there is no such node.
    InvalidValueError
        If one gets ever shorter by going round a circle.
    UnsupportedError
        If values are complex.
    TooLargeError
        If what is kept for each node does not fit the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> links = sp.from_coords([[0, 0, 1], [1, 2, 2]], [1.0, 5.0, 2.5], shape=(4, 4))
    >>> sp.graph.shortest_paths(links, 0).to_numpy()
    array([0. , 1. , 3.5, inf])
    """
    A = check_graph(A)
    with reserve_per_node(A, 24, "shortest paths"), Adjacency(A, weighted=True) as links:
        at = node_positions(A, source)
        if links.held is not None and bool((links.held[2] >= 0).all()):
            return per_node(A, _nearer(links, at, None), np.inf)
        with reserve_per_node(A, 16, "shortest paths, links of which may be shorter than 0"):
            circles = _Circles(links.size)
            if links.held is not None:
                return per_node(A, _nearer(links, at, circles), np.inf)
            return per_node(A, _distances(links, at, "shortest paths", np.inf, circles), np.inf)


class _Circles:
    """What tells that ways get ever shorter round a circle: by the node that each was reached from.

    That two of these close a circle may come of rounding once; it is found twice where it goes on.
    """

    def __init__(self, n: int) -> None:
        self.before = np.full(n, -1, np.int32)
        self._was, self._marks = np.full(n, -np.inf), np.empty(n, np.int32)
        self._found = False

    def check(self, far: NDArray[np.float64]) -> None:
        """Raise ``InvalidValueError`` if there was a circle the time before, and still is."""
        from sparrow.kernels.graph import traversal

        found = bool(traversal.circular(self.before, far, self._was, self._marks))
        if found and self._found:
            raise InvalidValueError(
                "shortest paths: a circle of links is shorter than 0, so that ways through it have no shortest one"
            )
        self._found = found
        self._was[:] = far


def _searched(links: Adjacency, at: NDArray[np.int64], limit: float) -> NDArray[np.int64]:
    """Return how many links away each node is, -1 where no way leads: of links in memory, by a queue of nodes."""
    from sparrow.kernels.graph import traversal

    assert links.held is not None
    indptr, cols, _ = links.held
    far, queue = np.full(links.size, -1), np.empty(links.size, np.int32)
    at = np.unique(at)
    far[at], queue[: len(at)] = 0, at
    state = np.array([0, len(at)])
    with progress.bar("breadth-first search", None, "links") as advance:
        while state[0] < state[1]:
            advance(traversal.search(indptr, cols, queue, float(limit), far, state, AT_ONCE))
    return far


def _nearer(links: Adjacency, at: NDArray[np.int64], circles: _Circles | None) -> NDArray[np.float64]:
    """Return how far each node is, of links in memory: near nodes go before others, where no link is shorter than 0."""
    from sparrow.kernels.graph import traversal

    assert links.held is not None
    indptr, cols, weights = links.held
    n = links.size
    far, near, later, waits = np.full(n, np.inf), np.empty(n, np.int32), np.empty(n, np.int32), np.zeros(n, np.uint8)
    at = np.unique(at)
    far[at], near[: len(at)], waits[at] = 0.0, at, 1
    # Three median links: nodes are looked at 1.0 to 1.3 times each, on webs, power laws and grids alike.
    width = 3 * float(np.median(weights[:: max(len(weights) // _SAMPLE, 1)])) if len(weights) else 0.0
    before, most = _NONE_BEFORE, AT_ONCE
    if circles is not None:
        width, before, most = np.inf, circles.before, min(AT_ONCE, _PASSES * (n + len(cols)))
    bound, state = np.array([width]), np.array([0, len(at), 0])
    with progress.bar("shortest paths", None, "links") as advance:
        while state[1] or state[2]:
            if circles is not None:
                circles.check(far)
            advance(traversal.nearer(indptr, cols, weights, width, far, before, near, later, waits, bound, state, most))
    return far


def _distances(
    links: Adjacency, at: NDArray[np.int64], doing: str, limit: float, circles: _Circles | None
) -> NDArray[np.float64]:
    """Return how far each node is from the nearest of some: lists of nodes that came nearer are looked at again."""
    from sparrow.kernels.graph import traversal

    relax: Any = traversal.relax
    far = np.full(links.size, np.inf)
    active = np.zeros(links.size, np.bool_)
    far[at], active[at] = 0.0, True
    before = _NONE_BEFORE if circles is None else circles.before
    rounds = 0
    with progress.bar(doing, None, "links") as advance:
        while active.any():
            if circles is not None and rounds.bit_count() == 1:  # as often as the rounds have binary digits
                circles.check(far)
            for lists in links.pending(active):
                relax(*lists.arrays, readonly(lists.weights), limit, far, before, active)
                advance(lists.count)
            rounds += 1
    return far


def random_walks(A: Tensor, sources: Any, length: int, *, weighted: bool = False, seed: int = 0) -> NDArray[np.int64]:
    """Return walks through a graph that follow links at random.

    Parameters
    ----------
    A
        Links from rows to columns.
    sources
        Where walks begin, one for each: nodes by label where there are labels, else by position; a node may occur
        several times.
    length
        The links that a walk follows.
    weighted
        Follow a link in proportion to its value rather than all alike.
    seed
        Of the choices.

    Returns
    -------
    ndarray
        The positions of nodes, shape (walks, length + 1); -1 after a node without links. Where nodes have labels,
        ``numpy.append(A.labels(0), None)[walks]`` has those, None after such a node.

    Raises
    ------
    ShapeError
        If the tensor is no square matrix.
    LabelError, IndexingError
        If there is no such node.
    InvalidValueError
        If the length is negative, or a value to go by is, or is not finite.
    UnsupportedError
        If values to go by are complex.
    TooLargeError
        If the walks, or what is kept for each node, do not fit the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> links = sp.from_coords([[0, 1, 2], [1, 2, 0]], [1, 1, 1], shape=(4, 4))
    >>> sp.graph.random_walks(links, [0, 2, 3], 3)
    array([[ 0,  1,  2,  0],
           [ 2,  0,  1,  2],
           [ 3, -1, -1, -1]])
    """
    A = check_graph(A)
    if as_integer(length, "length") < 0:
        raise InvalidValueError(f"length={length} must not be negative")
    check_seed(seed)
    starts = node_positions(A, sources)
    memory.check(8 * len(starts) * (length + 1), f"{len(starts)} walks of {length} links", "walk in several calls")
    walks = np.full((len(starts), length + 1), -1, np.int64)
    walks[:, 0] = starts
    rng = np.random.default_rng(seed)
    with (
        Adjacency(A, weighted=weighted) as links,
        progress.bar("random walks", length * len(starts), "links") as advance,
    ):
        weights, total = None, None
        for step in range(length):
            draws = rng.random(len(starts))
            here = walks[:, step]
            active = np.zeros(links.size, np.bool_)
            active[here[here >= 0]] = True
            for lists in links.lists(active):
                at = np.searchsorted(lists.nodes, here)
                at[at == len(lists.nodes)] = 0
                on = np.flatnonzero(lists.nodes[at] == here) if len(lists.nodes) else np.empty(0, np.int64)
                if weighted and weights is not lists.weights:  # links in memory come with the same ones in each step
                    weights = lists.weights
                    edges = np.stack([lists.starts, lists.stops], 1).ravel() if links.held is None else links.held[0]
                    total = _running(weights, edges)
                walks[on, step + 1] = _drawn(lists.starts[at[on]], lists.stops[at[on]], lists.cols, total, draws[on])
            advance(len(starts))
    return walks


def _running(weights: NDArray[np.float64], edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what the weights before each link, and all of them, add up to, for lists that lie between edges.

    Each list adds up to the same, however heavy its links are, in integers, so that none is lost to rounding behind
    others that weigh more.
    """
    _check_weights(weights)
    total = np.zeros(len(weights) + 1, np.int64)
    begins = edges[:-1][edges[1:] > edges[:-1]]
    if not len(begins):
        return total
    counts = np.diff(begins, append=len(weights))
    largest = np.maximum.reduceat(weights, begins)
    largest[largest == 0] = 1
    shares = weights / np.repeat(largest, counts)  # a sum of weights may pass what is finite
    sums = np.add.reduceat(shares, begins)
    sums[sums == 0] = 1
    shares *= np.repeat(_ALL // len(begins) / sums, counts)
    np.cumsum(shares.astype(np.int64), out=total[1:])
    return total


def _check_weights(weights: NDArray[np.float64]) -> None:
    least, most = weights.min(initial=0), weights.max(initial=0)
    if least < 0:
        raise InvalidValueError("values to go by must not be negative: take their magnitude, or leave weighted out")
    if not np.isfinite(most):
        raise InvalidValueError(
            f"values to go by must be finite numbers, and one is {most}: replace it, or leave weighted out"
        )


def _drawn(
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    cols: NDArray[np.int32],
    total: NDArray[np.int64] | None,
    draws: NDArray[np.float64],
) -> NDArray[Any]:
    """Return the end of one link between each start and stop, -1 where there is none, for draws between 0 and 1."""
    some = stops > starts
    if not len(cols):
        return np.full(len(starts), -1)
    if total is None:
        at = starts + (draws * (stops - starts)).astype(np.int64)
    else:
        low, high = total[starts], total[stops]
        some &= high > low
        # A draw may round up to the next list, and must not hit a link of no weight.
        at = np.searchsorted(total, np.minimum(low + (draws * (high - low)).astype(np.int64), high - 1), "right") - 1
    return np.where(some, cols[np.minimum(at, len(cols) - 1)], -1)
