"""Adjacency matrices of graphs of networkx and igraph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.core.label_types import check_labels
from sparrow.errors import InvalidValueError, SparrowError, UnsupportedError

__all__ = ["AdjacencyMatrix", "from_graph", "is_graph"]


class AdjacencyMatrix(NamedTuple):
    """Edges of a graph; repeated ones add up."""

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    weights: NDArray[Any]
    size: int
    """Number of nodes."""
    labels: pa.Array | None
    """Names of the nodes; None if they are 0, 1, ... ."""


def is_graph(obj: Any) -> bool:
    """Return whether an object is a graph of networkx or igraph.

    Raises
    ------
    UnsupportedError
        If it is another object of these libraries, such as a view of the nodes or of the neighbors.
    """
    library = type(obj).__module__.partition(".")[0]
    bases = [base.__module__.partition(".")[0] for base in type(obj).__mro__]
    if library not in ("networkx", "igraph") and not {"networkx", "igraph"}.intersection(bases):
        return False
    if hasattr(obj, "get_edgelist") or (hasattr(obj, "is_multigraph") and hasattr(obj, "edges")):
        return True
    raise UnsupportedError(f"expected a graph, got {type(obj).__name__} of {library}: pass the graph itself")


def from_graph(graph: Any) -> AdjacencyMatrix:
    """Return the weighted adjacency matrix of a graph, symmetric if it is undirected.

    The weight of an edge is its attribute ``weight``, 1 by default.

    Raises
    ------
    UnsupportedError
        If nodes or weights are of a kind that tensors do not have.
    InvalidValueError
        If an integer among weights that are floats is rounded as one.
    """
    if hasattr(graph, "get_edgelist"):
        n, is_directed = graph.vcount(), graph.is_directed()
        ends = np.array(graph.get_edgelist(), np.int64).reshape(-1, 2)
        given: Any = graph.es["weight"] if "weight" in graph.es.attributes() else [1] * len(ends)
        nodes: Sequence[Any] = graph.vs["name"] if "name" in graph.vs.attributes() else range(n)
        remedy = "name them by texts"
    else:
        nodes = list(graph)
        n, is_directed = len(nodes), graph.is_directed()
        position = {node: at for at, node in enumerate(nodes)}
        edges = list(graph.edges(data="weight", default=1))
        ends = np.array([(position[u], position[v]) for u, v, _ in edges], np.int64).reshape(-1, 2)
        given = [weight for _, _, weight in edges]
        remedy = "networkx.convert_node_labels_to_integers(graph) numbers them"
    weights = np.array(given) if len(ends) else np.empty(0, np.int64)
    if weights.dtype.kind not in "biufc":
        raise UnsupportedError(f"weights of edges must be numbers, got {weights.dtype}")
    if weights.dtype.kind in "fc":
        _check_rounding(given, weights)
    rows, columns = ends.T
    if not is_directed:
        reverse = rows != columns
        rows, columns = np.concatenate([rows, columns[reverse]]), np.concatenate([columns, rows[reverse]])
        weights = np.concatenate([weights, weights[reverse]])
    return AdjacencyMatrix(rows, columns, weights, n, _labels(nodes, remedy))


def _labels(nodes: Sequence[Any], remedy: str) -> pa.Array | None:
    if all(type(node) is int and node == at for at, node in enumerate(nodes)):
        return None
    try:
        return check_labels(list(nodes), "nodes")
    except SparrowError as error:
        raise type(error)(f"nodes of the graph: {error}: {remedy}") from None


def _check_rounding(given: Sequence[Any], weights: NDArray[Any]) -> None:
    """Raise for an integer that is rounded because other weights are floats."""
    large = np.flatnonzero(np.abs(weights) >= 2.0 ** (np.finfo(weights.dtype).nmant + 1))
    for at in large.tolist():
        weight = given[at]
        if isinstance(weight, int | np.integer) and int(weights[at].real) != int(weight):
            raise InvalidValueError(
                f"weights of edges must fit {weights.dtype}, as some are no integers, got {weight}: make it a float"
            )
