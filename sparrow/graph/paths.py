"""Shortest paths and random walks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.schema import as_integer
from sparrow.errors import InvalidValueError
from sparrow.graph.adjacency import Adjacency
from sparrow.graph.nodes import check_graph, node_positions, per_node, reserve_per_node, shared
from sparrow.graph.tuning import tuning
from sparrow.kernels.jit.warmup import as_readonly
from sparrow.runtime import events, memory, progress
from sparrow.runtime.validation import check_flag, check_integer, check_seed
from sparrow.tensor import Tensor

__all__ = ["bfs", "random_walks", "shortest_paths"]

_FIXED_POINT_TOTAL = 1 << 62
"""Sum of the integer weights of all lists: random walks draw by integers, which do not round."""
_NO_PREDECESSORS = np.empty(0, np.int32)


@shared
def bfs(A: Tensor, source: Any, *, directed: bool = True, max_depth: int | None = None) -> Tensor:
    """Return the number of edges from the nearest source to each node.

    Breadth-first search with a queue in memory; a spilled graph is read round after round.

    Parameters
    ----------
    %(graph)s
    %(source)s
    directed
        False to follow edges in both directions.
    max_depth
        Maximum distance in edges.

    Returns
    -------
    Tensor
        Distances, int64, shape (n,), with fill -1: the value of unreachable nodes.

    Raises
    ------
    %(node_errors)s
    InvalidValueError
        If ``max_depth`` is not a non-negative integer.
    %(memory_error)s

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.from_coords([[0, 1, 3], [1, 2, 0]], [1, 1, 1], shape=(4, 4))
    >>> sp.graph.bfs(A, 0).to_numpy()
    array([ 0,  1,  2, -1])
    """
    if max_depth is not None:
        check_integer("max_depth", max_depth, minimum=0)
    limit = np.inf if max_depth is None else int(max_depth)
    A, directed = check_graph(A), check_flag("directed", directed)
    with reserve_per_node(A, 24, "breadth-first search"), Adjacency(A, undirected=not directed) as adjacency:
        if adjacency.csr is not None:
            return per_node(A, _breadth_first(adjacency, node_positions(A, source), limit), -1)
        distance = _relax_until_stable(adjacency, node_positions(A, source), "breadth-first search", limit, None)
        return per_node(A, np.where(np.isinf(distance), -1, distance).astype(np.int64), -1)


@shared
def shortest_paths(A: Tensor, source: Any, *, directed: bool = True) -> Tensor:
    """Return the length of the shortest path from the nearest source to each node.

    Parameters
    ----------
    A
        Adjacency matrix, shape (n, n); values are edge lengths. Negative lengths are allowed unless a cycle is
        negative, and edges of length NaN are ignored.
    %(source)s
    directed
        False to follow edges in both directions; of an edge and its reverse the shorter counts.

    Returns
    -------
    Tensor
        Lengths, float64, shape (n,), with fill infinity: the value of unreachable nodes.

    Raises
    ------
    %(node_errors)s
    InvalidValueError
        If the graph has a negative cycle, which a negative edge of an undirected graph is.
    UnsupportedError
        If values are complex.
    %(memory_error)s

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.from_coords([[0, 0, 1], [1, 2, 2]], [1.0, 5.0, 2.5], shape=(4, 4))
    >>> sp.graph.shortest_paths(A, 0).to_numpy()
    array([0. , 1. , 3.5, inf])
    """
    A, undirected = check_graph(A), not check_flag("directed", directed)
    with reserve_per_node(A, 24, "shortest paths"), Adjacency(A, weighted=True, undirected=undirected) as adjacency:
        at = node_positions(A, source)
        if adjacency.csr is not None and bool((adjacency.csr[2] >= 0).all()):
            return per_node(A, _delta_stepping(adjacency, at, None), np.inf)
        with reserve_per_node(A, 16, "shortest paths with negative lengths"):
            cycles = _NegativeCycles(adjacency.size)
            if adjacency.csr is not None:
                return per_node(A, _delta_stepping(adjacency, at, cycles), np.inf)
            return per_node(A, _relax_until_stable(adjacency, at, "shortest paths", np.inf, cycles), np.inf)


class _NegativeCycles:
    """Negative cycle detection in the predecessor graph.

    A cycle of predecessors may result from rounding once; a negative one persists, so two checks in a row must find it.
    """

    def __init__(self, n: int) -> None:
        self.predecessors = np.full(n, -1, np.int32)
        self._last, self._marks = np.full(n, -np.inf), np.empty(n, np.int32)
        self._cycle_seen = False

    def check(self, distance: NDArray[np.float64]) -> None:
        """Raise ``InvalidValueError`` if this check and the last one found a cycle."""
        from sparrow.kernels.graph import traversal

        has_cycle = bool(traversal.has_negative_cycle(self.predecessors, distance, self._last, self._marks))
        if has_cycle and self._cycle_seen:
            raise InvalidValueError("shortest_paths: graph has a negative cycle, so lengths are unbounded")
        self._cycle_seen = has_cycle
        self._last[:] = distance


def _breadth_first(adjacency: Adjacency, at: NDArray[np.int64], limit: float) -> NDArray[np.int64]:
    """Return distances in edges over a graph in memory, -1 for unreachable nodes."""
    from sparrow.kernels.graph import traversal

    assert adjacency.csr is not None
    indptr, cols, _ = adjacency.csr
    distance, queue = np.full(adjacency.size, -1), np.empty(adjacency.size, np.int32)
    at = np.unique(at)
    distance[at], queue[: len(at)] = 0, at
    state = np.array([0, len(at)])
    with progress.bar("breadth-first search", len(cols), "edges") as advance:
        while state[0] < state[1]:
            advance(traversal.bfs_levels(indptr, cols, queue, float(limit), distance, state, tuning().edges_per_call))
    return distance


def _delta_stepping(adjacency: Adjacency, at: NDArray[np.int64], cycles: _NegativeCycles | None) -> NDArray[np.float64]:
    """Return path lengths over a graph in memory by delta-stepping.

    Source: Meyer, Sanders 2003. With negative lengths there is one bucket, and the loop is that of Bellman and Ford.
    """
    from sparrow.kernels.graph import traversal

    assert adjacency.csr is not None
    indptr, cols, weights = adjacency.csr
    n = adjacency.size
    distance, near, later, waits = (
        np.full(n, np.inf),
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.zeros(n, np.uint8),
    )
    at = np.unique(at)
    distance[at], near[: len(at)], waits[at] = 0.0, at, 1
    # At a width of three median weights, webs, power laws and grids visit each node 1.0 to 1.3 times.
    width = 3 * float(np.median(weights[:: max(len(weights) // tuning().weight_sample, 1)])) if len(weights) else 0.0
    predecessors, max_edges = _NO_PREDECESSORS, tuning().edges_per_call
    if cycles is not None:
        width, predecessors = np.inf, cycles.predecessors
        max_edges = min(max_edges, tuning().passes_before_cycle_check * (n + len(cols)))
    bound, state = np.array([width]), np.array([0, len(at), 0])
    with progress.bar("shortest paths", n + len(cols), "edges") as advance:
        while state[1] or state[2]:
            if cycles is not None:
                cycles.check(distance)
            events.emit("graph.relax")
            advance(
                traversal.near_far_paths(
                    indptr, cols, weights, width, distance, predecessors, near, later, waits, bound, state, max_edges
                )
            )
    return distance


def _relax_until_stable(
    adjacency: Adjacency, at: NDArray[np.int64], title: str, limit: float, cycles: _NegativeCycles | None
) -> NDArray[np.float64]:
    """Return path lengths over a spilled graph, relaxed until none changes."""
    from sparrow.kernels.graph import traversal

    relax: Any = traversal.relax
    distance = np.full(adjacency.size, np.inf)
    active = np.zeros(adjacency.size, np.bool_)
    distance[at], active[at] = 0.0, True
    predecessors = _NO_PREDECESSORS if cycles is None else cycles.predecessors
    rounds = work = 0
    with progress.bar(title, None, "edges") as advance:
        while active.any():
            if cycles is not None and rounds.bit_count() == 1:  # after 1, 2, 4, 8, ... rounds
                cycles.check(distance)
            before, work = work, adjacency.count_edges(active)
            advance.set_left(progress.work_left(before, work))
            for lists in adjacency.frontier_lists(active):
                events.emit("graph.relax")
                relax(*lists.arrays, as_readonly(lists.weights), limit, distance, predecessors, active)
                advance(lists.count)
            rounds += 1
    return distance


@shared
def random_walks(A: Tensor, sources: Any, length: int, *, weighted: bool = False, seed: int = 0) -> NDArray[np.int64]:
    """Return random walks along outgoing edges.

    Parameters
    ----------
    %(graph)s
    sources
        Start node of each walk, by label where there are labels, else by position; nodes may repeat.
    length
        Number of steps.
    weighted
        Draw edges in proportion to their weights instead of uniformly.
    seed
        Seed of the draws.

    Returns
    -------
    ndarray
        Positions of the visited nodes, int64, shape (walks, length + 1); -1 after a node without outgoing edges.
        ``numpy.append(A.labels(0), None)[walks]`` are their labels.

    Raises
    ------
    %(node_errors)s
    InvalidValueError
        If ``length`` is negative, or a weight is negative, NaN or infinite.
    UnsupportedError
        If weights are complex.
    TooLargeError
        If the walks or the arrays of n values exceed the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.from_coords([[0, 1, 2], [1, 2, 0]], [1, 1, 1], shape=(4, 4))
    >>> sp.graph.random_walks(A, [0, 2, 3], 3)
    array([[ 0,  1,  2,  0],
           [ 2,  0,  1,  2],
           [ 3, -1, -1, -1]])
    """
    A = check_graph(A)
    if as_integer(length, "length") < 0:
        raise InvalidValueError(f"length must be a non-negative integer, got {length}")
    check_seed(seed)
    starts = node_positions(A, sources)
    memory.check(8 * len(starts) * (length + 1), f"{len(starts)} walks of {length} steps", "use several calls")
    walks = np.full((len(starts), length + 1), -1, np.int64)
    walks[:, 0] = starts
    rng = np.random.default_rng(seed)
    with (
        Adjacency(A, weighted=weighted) as adjacency,
        progress.bar("random walks", length * len(starts), "steps") as advance,
    ):
        weights, total = None, None
        for step in range(length):
            draws = rng.random(len(starts))
            current = walks[:, step]
            active = np.zeros(adjacency.size, np.bool_)
            active[current[current >= 0]] = True
            for lists in adjacency.neighbor_lists(active):
                at = np.searchsorted(lists.nodes, current)
                at[at == len(lists.nodes)] = 0
                on = np.flatnonzero(lists.nodes[at] == current) if len(lists.nodes) else np.empty(0, np.int64)
                if weighted and weights is not lists.weights:  # a graph in memory yields the same array in each step
                    weights = lists.weights
                    edges = (
                        np.stack([lists.starts, lists.stops], 1).ravel() if adjacency.csr is None else adjacency.csr[0]
                    )
                    total = _cumulative_weights(weights, edges)
                walks[on, step + 1] = _draw_edges(
                    lists.starts[at[on]], lists.stops[at[on]], lists.cols, total, draws[on]
                )
            advance(len(starts))
    return walks


def _cumulative_weights(weights: NDArray[np.float64], edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the cumulative integer weights of edges, shape (edges + 1,).

    Every list has the same total, however large its weights, and integers do not round: no edge disappears behind
    heavier ones. ``edges`` holds the bounds of the lists.
    """
    _check_weights(weights)
    total = np.zeros(len(weights) + 1, np.int64)
    begins = edges[:-1][edges[1:] > edges[:-1]]
    if not len(begins):
        return total
    counts = np.diff(begins, append=len(weights))
    largest = np.maximum.reduceat(weights, begins)
    largest[largest == 0] = 1
    shares = weights / np.repeat(largest, counts)  # the sum of the weights may overflow
    sums = np.add.reduceat(shares, begins)
    sums[sums == 0] = 1
    shares *= np.repeat(_FIXED_POINT_TOTAL // len(begins) / sums, counts)
    np.cumsum(shares.astype(np.int64), out=total[1:])
    return total


def _check_weights(weights: NDArray[np.float64]) -> None:
    smallest, largest = weights.min(initial=0), weights.max(initial=0)
    if smallest < 0:
        raise InvalidValueError(
            f"edge weights must not be negative, got {smallest}: use their magnitude, or weighted=False"
        )
    if not np.isfinite(largest):
        raise InvalidValueError(f"edge weights must be finite, got {largest}: replace it, or use weighted=False")


def _draw_edges(
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    cols: NDArray[np.int32],
    total: NDArray[np.int64] | None,
    draws: NDArray[np.float64],
) -> NDArray[Any]:
    """Return a random neighbor of each list ``cols[start:stop]``, -1 if empty.

    ``draws`` are uniform in [0, 1).
    """
    has_edge = stops > starts
    if not len(cols):
        return np.full(len(starts), -1)
    if total is None:
        at = starts + (draws * (stops - starts)).astype(np.int64)
    else:
        low, high = total[starts], total[stops]
        has_edge &= high > low
        # A draw may round up into the next list, and must not hit an edge of weight 0.
        at = np.searchsorted(total, np.minimum(low + (draws * (high - low)).astype(np.int64), high - 1), "right") - 1
    return np.where(has_edge, cols[np.minimum(at, len(cols) - 1)], -1)
