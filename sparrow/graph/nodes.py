"""Validation of graphs, node lookup by label or position, and results per node."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.core.labels import label_positions
from sparrow.core.schema import Schema, check_array, is_fill
from sparrow.errors import IndexingError, LabelError, ShapeError
from sparrow.functions.generation import tensor_from_block
from sparrow.functions.labels import describe_label_mismatch
from sparrow.functions.views import as_tensor
from sparrow.kernels.coo import Block
from sparrow.runtime import memory
from sparrow.runtime.docs import SharedText
from sparrow.runtime.validation import check_unmasked
from sparrow.tensor import Tensor
from sparrow.tensor.matching import to_labelled

__all__ = ["check_graph", "node_labels", "node_positions", "per_group", "per_node", "reserve_per_node", "shared"]

shared = SharedText(
    graph="""
    A
        Adjacency matrix, shape (n, n). Each stored element is an edge from its row to its column.
    """,
    undirected_graph="""
    A
        Adjacency matrix, shape (n, n). Edge directions, weights and self-loops are ignored.
    """,
    source="""
    source
        Start node, or several, by label where there are labels, else by position.
    """,
    pairs="""
    pairs
        Node pairs, shape (m, 2), by label where there are labels, else by position; or a tensor with a stored element
        at each pair. All pairs of different nodes by default; a node and itself are ignored.
    """,
    tol="""
    tol
        Stop when the sum of absolute changes of a round is at most ``tol``.
    max_iter
        Maximum number of rounds.
    """,
    square_errors="""
    ShapeError
        If A is not square.
    LabelError
        If rows and columns have different labels.
    """,
    node_errors="""
    ShapeError
        If A is not square.
    LabelError, IndexingError
        If a node is unknown.
    """,
    pair_errors="""
    ShapeError
        If A is not square, or ``pairs`` has a wrong shape.
    LabelError, IndexingError
        If a node is unknown.
    """,
    memory_error="""
    TooLargeError
        If the arrays of n values exceed the memory limit.
    """,
    graph_errors="""
    %(square_errors)s
    %(memory_error)s
    """,
)
_MAX_NODES = 2**31 - 1
"""Adjacency lists store int32."""


def check_graph(A: Any) -> Tensor:
    """Return a graph as a square tensor.

    Raises
    ------
    ShapeError
        If it is not a square matrix, or has 2^31 rows or more.
    LabelError
        If rows and columns have different labels.
    """
    tensor = as_tensor(A)
    if tensor.ndim != 2 or tensor.shape[0] != tensor.shape[1]:
        raise ShapeError(
            f"graph must be a square matrix of edges from rows to columns, got shape {tensor.shape}{_hint(tensor)}"
        )
    if tensor.shape[0] > _MAX_NODES:
        raise ShapeError(
            f"graph must have fewer than 2^31 nodes, got {tensor.shape[0]}: renumber the nodes that have edges, as "
            "sp.ingest.edges does with relabel=True"
        )
    rows, columns = (tensor.labels(axis) for axis in (0, 1))
    if rows is not None and columns is not None and not rows.equals(columns):
        raise LabelError(
            f"rows and columns of a graph must have the same labels, but {describe_label_mismatch(tensor)}"
        )
    return tensor


def _hint(A: Tensor) -> str:
    """Return a hint to turn a labelled matrix or typed edges into a graph."""
    if A.ndim == 2 and A.labels(0) is not None and A.labels(1) is not None:
        return (
            ": sp.export(A, 'a.edges'), then sp.ingest.edges('a.edges', 'graph.sparrow'), makes a graph whose rows and "
            "columns have the same labels"
        )
    if A.ndim != 3:
        return ""
    kinds = [k for k in range(3) if len({size for axis, size in enumerate(A.shape) if axis != k}) == 1]
    dim = A.dims[1 if 1 in kinds or not kinds else kinds[0]]
    return f": select one relation with A.isel({dim}=0) or sel(), or sum all with A.sum(axis={dim!r})"


def node_labels(A: Tensor) -> pa.Array | None:
    """Return the labels of the nodes, from the rows or else the columns."""
    labels = A.labels(0)
    return A.labels(1) if labels is None else labels


def node_positions(A: Tensor, nodes: Any) -> NDArray[np.int64]:
    """Return the positions of nodes given by label, position or mask.

    Parameters
    ----------
    A
        Adjacency matrix.
    nodes
        Labels where the graph has labels, else positions; or a boolean mask, shape (n,).

    Raises
    ------
    LabelError
        If a label is unknown, or a mask has other labels.
    IndexingError
        If a position is out of range.
    ShapeError
        If a mask has another shape.
    """
    check_unmasked(nodes, "nodes")
    labels = node_labels(A)
    if getattr(nodes, "dtype", None) == np.bool_ and getattr(nodes, "ndim", 0):
        return _mask_positions(A, nodes, labels)
    several = isinstance(nodes, Iterable) and not isinstance(nodes, str | bytes) and getattr(nodes, "ndim", 1) > 0
    given: Any = nodes if several else [nodes]
    if labels is not None:
        return label_positions(labels, given, A.dims[0])
    n, result = A.shape[0], _integers(given if hasattr(given, "__array__") else list(given))
    outside = (result < -n) | (result >= n)
    if outside.any():
        raise IndexingError(f"node {result[outside][0]} is out of range: the graph has {n} nodes")
    result = result.astype(np.int64)
    return np.where(result < 0, result + n, result)


def _mask_positions(A: Tensor, mask: Any, labels: pa.Array | None) -> NDArray[np.int64]:
    """Return the positions at which a mask is true."""
    if mask.shape != A.shape[:1]:
        raise ShapeError(f"mask has shape {mask.shape}, expected {A.shape[:1]}: one value per node")
    mask = to_labelled(mask, A, {0: 1 if A.labels(0) is None else 0})
    if isinstance(mask, Tensor):
        own = mask.labels(0)
        if own is not None and labels is not None and not own.equals(labels):
            raise LabelError("labels of the mask must equal those of the graph, in the same order: reindex the mask")
        mask = mask.to_numpy()
    return np.flatnonzero(mask)


def _integers(nodes: Any) -> NDArray[Any]:
    """Return positions as an integer array, of dtype object if one exceeds 64 bits."""
    result = check_array(nodes, "nodes")
    if result.ndim != 1:
        raise ShapeError(f"nodes must be 1-D, got shape {result.shape}")
    if not len(result):
        return result.astype(np.int64)
    if result.dtype.kind in "iu":
        return result
    exact = np.array(nodes, object)
    for one in exact.tolist():
        if isinstance(one, bool) or not isinstance(one, int | np.integer):
            raise LabelError(f"nodes of a graph without labels must be integer positions, got {one!r}")
    return exact


def per_node(A: Tensor, values: NDArray[Any], fill_value: Any = 0) -> Tensor:
    """Return an array of one value per node as a tensor with the graph's labels."""
    schema = Schema((A.shape[0],), (A.dims[0],), values.dtype, fill_value)
    remaining = np.flatnonzero(~is_fill(values, schema.fill_value))
    labels = node_labels(A)
    block = Block((remaining.astype(schema.coordinate_dtype(0)),), values[remaining])
    return tensor_from_block(schema, block, None if labels is None else {0: labels})


def per_group(A: Tensor, groups: NDArray[Any]) -> Tensor:
    """Return each node's group, renumbered from 0 in the order of first nodes."""
    nodes = np.arange(len(groups))
    first = np.empty_like(nodes)
    first[groups[::-1]] = nodes[::-1]
    number = np.cumsum(first[groups] == nodes) - 1
    return per_node(A, number[first[groups]], -1)


def reserve_per_node(A: Tensor, node_bytes: int, what: str) -> memory.Reservation:
    """Reserve ``node_bytes`` for every node for the length of a block."""
    return memory.reserve(node_bytes * A.shape[0], f"{what}: {node_bytes} bytes for each of {A.shape[0]} nodes", "")
