"""The shape of a graph: degrees, links taken both ways, parts of it."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparrow.errors import InvalidValueError, LabelError
from sparrow.functions.elementwise import add, logical_and, maximum, minimum
from sparrow.functions.searching import where
from sparrow.graph.adjacency import edge_mask, edge_weights, reverse_edges
from sparrow.graph.components import connected_components, strongly_connected_components
from sparrow.graph.nodes import check_graph, node_labels, node_positions, per_node
from sparrow.runtime.validation import check_flag
from sparrow.tensor import Tensor

__all__ = ["degrees", "induced_subgraph", "largest_component", "symmetrize"]

_COMBINE = {"max": maximum, "min": minimum, "sum": add}


def degrees(A: Tensor, direction: Literal["out", "in", "both"] = "out", *, weighted: bool = False) -> Tensor:
    """Return how many links each node has.

    Parameters
    ----------
    A
        Links from rows to columns.
    direction
        "out" for links from a node, "in" for links to it, "both" for both together, where a link of a node to itself
        counts twice.
    weighted
        Sum the values of the links instead.

    Returns
    -------
    Tensor
        A number for each node.

    Raises
    ------
    ShapeError
        If the tensor is no square matrix.
    LabelError
        If rows and columns have labels that differ.
    InvalidValueError
        If there is no such direction.

    Examples
    --------
    >>> import sparrow as sp
    >>> links = sp.from_coords([[0, 0, 1], [1, 2, 2]], [1, 1, 5], shape=(3, 3), dims=("src", "dst"))
    >>> sp.graph.degrees(links).to_numpy(), sp.graph.degrees(links, "in", weighted=True).to_numpy()
    (array([2, 1, 0]), array([0, 1, 6]))
    """
    A, weighted = check_graph(A), check_flag("weighted", weighted)
    if direction not in ("out", "in", "both"):
        raise InvalidValueError(f"direction={direction!r} must be 'out', 'in' or 'both'")
    axes = {"out": (1,), "in": (0,), "both": (1, 0)}[direction]
    counted = [np.asarray((edge_weights(A).sum(axis) if weighted else A.count(axis)).to_numpy()) for axis in axes]
    found: NDArray[Any] = counted[0] if len(counted) == 1 else counted[0] + counted[1]
    return per_node(A, found)


def symmetrize(A: Tensor, combine: Literal["max", "min", "sum"] = "max") -> Tensor:
    """Return the links both ways, lazily: an undirected graph as a matrix that equals its transpose.

    Parameters
    ----------
    A
        Links from rows to columns.
    combine
        What becomes of two links between the same nodes: the "max" or the "sum", which doubles links of nodes to
        themselves, each taken as it is where the other is absent; or the "min", which leaves no link there.

    Returns
    -------
    Tensor
        Of storage type "coo" and the fill of the graph: two links whose "sum" is the fill, as 5 and -5, leave none.

    Raises
    ------
    ShapeError
        If the tensor is no square matrix.
    LabelError
        If rows and columns have labels that differ.
    InvalidValueError
        If there is no such ``combine``.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.graph.symmetrize(sp.asarray([[0, 3, -2], [1, 0, 0], [0, 0, 0]])).to_numpy()
    array([[ 0,  3, -2],
           [ 3,  0,  0],
           [-2,  0,  0]])
    """
    A = check_graph(A).asformat("coo")  # others fall back from step to step
    given: Any = combine
    if not isinstance(given, str) or given not in _COMBINE:
        raise InvalidValueError(f"combine={combine!r} must be one of {', '.join(map(repr, _COMBINE))}")
    back = reverse_edges(A)
    here, there = edge_mask(A), edge_mask(back)
    alone = A.dtype.type(A.fill_value) if combine == "min" else where(here, A, back)
    found: Tensor = where(logical_and(here, there), _COMBINE[combine](A, back), alone)
    return found


def induced_subgraph(A: Tensor, nodes: Any) -> Tensor:
    """Return the links among some nodes, lazily.

    Parameters
    ----------
    A
        Links from rows to columns.
    nodes
        The nodes, by label where there are labels, else by position, none of them twice where there are labels; those
        of the result are in this order. Or a mask of all nodes.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If the tensor is no square matrix, or a mask has another shape.
    LabelError, IndexingError
        If there is no such node, or one with a label is given twice.

    Examples
    --------
    >>> import sparrow as sp
    >>> links = sp.from_coords([[0, 1, 2], [1, 2, 0]], [1, 2, 3])
    >>> sp.graph.induced_subgraph(links, [2, 1]).to_numpy()
    array([[0, 0],
           [2, 0]])
    """
    A = check_graph(A)
    at = node_positions(A, nodes)
    labels = node_labels(A)
    if labels is not None and len(np.unique(at)) < len(at):
        twice = at[np.bincount(at)[at] > 1][0]
        raise LabelError(f"node {labels[int(twice)].as_py()!r} is given twice: in a graph each label names one node")
    found: Tensor = A.oindex[at, at]
    return found


def largest_component(A: Tensor, connection: Literal["weak", "strong"] = "weak") -> tuple[Tensor, NDArray[np.int64]]:
    """Return the largest part of a graph that hangs together.

    Parameters
    ----------
    A
        Links from rows to columns.
    connection
        "weak" for nodes that links lead between whatever their direction, "strong" for nodes that lead to each other.

    Returns
    -------
    links
        Those among its nodes, lazily. Of several parts of one size it is that of the first node.
    nodes
        The positions of its nodes in the graph, ascending.

    Raises
    ------
    ShapeError
        If the tensor is no square matrix.
    LabelError
        If rows and columns have labels that differ.
    InvalidValueError
        If there is no such connection.

    Examples
    --------
    >>> import sparrow as sp
    >>> links = sp.from_coords([[0, 1, 3], [1, 0, 4]], [1, 1, 1], shape=(5, 5))
    >>> part, nodes = sp.graph.largest_component(links)
    >>> part.shape, nodes
    ((2, 2), array([0, 1]))
    """
    A = check_graph(A)
    if connection not in ("weak", "strong"):
        raise InvalidValueError(f"connection={connection!r} must be 'weak' or 'strong'")
    find = connected_components if connection == "weak" else strongly_connected_components
    component = find(A).to_numpy()
    sizes = np.bincount(component) if len(component) else np.zeros(1, np.int64)
    nodes = np.flatnonzero(component == np.argmax(sizes))
    found: Tensor = A.oindex[nodes, nodes]
    return found, nodes
