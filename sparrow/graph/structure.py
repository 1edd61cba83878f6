"""Degrees, symmetrization and subgraphs."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparrow.errors import InvalidValueError, LabelError
from sparrow.functions.elementwise import add, logical_and, maximum, minimum
from sparrow.functions.searching import where
from sparrow.graph.adjacency import edge_mask, edge_weights, reverse_edges
from sparrow.graph.components import connected_components, strongly_connected_components
from sparrow.graph.nodes import check_graph, node_labels, node_positions, per_node, shared
from sparrow.runtime.validation import check_flag
from sparrow.tensor import Tensor

__all__ = ["degrees", "induced_subgraph", "largest_component", "symmetrize"]

_COMBINE = {"max": maximum, "min": minimum, "sum": add}


@shared
def degrees(A: Tensor, direction: Literal["out", "in", "both"] = "out", *, weighted: bool = False) -> Tensor:
    """Return the degree of each node.

    Parameters
    ----------
    %(graph)s
    direction
        "out" for outgoing edges, "in" for incoming ones, "both" for their sum, in which a self-loop counts twice.
    weighted
        Sum the edge weights instead of counting edges.

    Returns
    -------
    Tensor
        Degrees, shape (n,): int64, or of the type of the sum of the weights.

    Raises
    ------
    %(square_errors)s
    InvalidValueError
        If ``direction`` is unknown.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.from_coords([[0, 0, 1], [1, 2, 2]], [1, 1, 5], shape=(3, 3), dims=("src", "dst"))
    >>> sp.graph.degrees(A).to_numpy(), sp.graph.degrees(A, "in", weighted=True).to_numpy()
    (array([2, 1, 0]), array([0, 1, 6]))
    """
    A, weighted = check_graph(A), check_flag("weighted", weighted)
    if direction not in ("out", "in", "both"):
        raise InvalidValueError(f"direction={direction!r} must be 'out', 'in' or 'both'")
    axes = {"out": (1,), "in": (0,), "both": (1, 0)}[direction]
    counted = [np.asarray((edge_weights(A).sum(axis) if weighted else A.count(axis)).to_numpy()) for axis in axes]
    result: NDArray[Any] = counted[0] if len(counted) == 1 else counted[0] + counted[1]
    return per_node(A, result)


@shared
def symmetrize(A: Tensor, combine: Literal["max", "min", "sum"] = "max") -> Tensor:
    """Return the undirected graph as a lazy symmetric matrix.

    Parameters
    ----------
    %(graph)s
    combine
        How to combine the weights of an edge and its reverse. "max" and "sum" keep the weight of an edge without a
        reverse; "sum" doubles self-loops. "min" drops an edge without a reverse. For undirected distances use
        ``shortest_paths(A, source, directed=False)``.

    Returns
    -------
    Tensor
        Storage type "coo", with the fill value of the graph. Two weights whose "sum" is the fill, such as 5 and -5,
        leave no edge.

    Raises
    ------
    %(square_errors)s
    InvalidValueError
        If ``combine`` is unknown.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.graph.symmetrize(sp.asarray([[0, 3, -2], [1, 0, 0], [0, 0, 0]])).to_numpy()
    array([[ 0,  3, -2],
           [ 3,  0,  0],
           [-2,  0,  0]])
    """
    A = check_graph(A).asformat("coo")  # other storage types would fall back, with a warning, at each step
    given: Any = combine
    if not isinstance(given, str) or given not in _COMBINE:
        raise InvalidValueError(f"combine={combine!r} must be one of {', '.join(map(repr, _COMBINE))}")
    reverse = reverse_edges(A)
    mask, reverse_mask = edge_mask(A), edge_mask(reverse)
    one_way = A.dtype.type(A.fill_value) if combine == "min" else where(mask, A, reverse)
    result: Tensor = where(logical_and(mask, reverse_mask), _COMBINE[combine](A, reverse), one_way)
    return result


@shared
def induced_subgraph(A: Tensor, nodes: Any) -> Tensor:
    """Return the lazy subgraph of some nodes and the edges between them.

    Parameters
    ----------
    %(graph)s
    nodes
        Nodes of the subgraph in order, by label where there are labels, else by position; or a boolean mask, shape
        (n,).

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If A is not square, or a mask has another shape.
    LabelError, IndexingError
        If a node is unknown, or a labelled one is repeated.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.from_coords([[0, 1, 2], [1, 2, 0]], [1, 2, 3])
    >>> sp.graph.induced_subgraph(A, [2, 1]).to_numpy()
    array([[0, 0],
           [2, 0]])
    """
    A = check_graph(A)
    at = node_positions(A, nodes)
    labels = node_labels(A)
    if labels is not None and len(np.unique(at)) < len(at):
        repeated = at[np.bincount(at)[at] > 1][0]
        raise LabelError(f"nodes of a labelled graph must be unique, got {labels[int(repeated)].as_py()!r} twice")
    result: Tensor = A.oindex[at, at]
    return result


@shared
def largest_component(A: Tensor, connection: Literal["weak", "strong"] = "weak") -> tuple[Tensor, NDArray[np.int64]]:
    """Return the largest connected component.

    Parameters
    ----------
    %(graph)s
    connection
        "weak" ignores edge directions; "strong" requires paths in both directions.

    Returns
    -------
    component
        Lazy adjacency matrix of the component; of several of the same size, the one with the first node.
    nodes
        Positions of its nodes in the graph, ascending, int64.

    Raises
    ------
    %(square_errors)s
    InvalidValueError
        If ``connection`` is unknown.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.from_coords([[0, 1, 3], [1, 0, 4]], [1, 1, 1], shape=(5, 5))
    >>> component, nodes = sp.graph.largest_component(A)
    >>> component.shape, nodes
    ((2, 2), array([0, 1]))
    """
    A = check_graph(A)
    if connection not in ("weak", "strong"):
        raise InvalidValueError(f"connection={connection!r} must be 'weak' or 'strong'")
    find = connected_components if connection == "weak" else strongly_connected_components
    component = find(A).to_numpy()
    sizes = np.bincount(component) if len(component) else np.zeros(1, np.int64)
    nodes = np.flatnonzero(component == np.argmax(sizes))
    result: Tensor = A.oindex[nodes, nodes]
    return result, nodes
