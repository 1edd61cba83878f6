"""Nodes of a graph: given by label or position, and what is known of each as a tensor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.core.labels import label_positions
from sparrow.core.schema import Schema, check_array, is_fill
from sparrow.errors import IndexingError, LabelError, ShapeError
from sparrow.functions.generation import in_memory
from sparrow.functions.labels import apart
from sparrow.functions.views import as_tensor
from sparrow.kernels.entries import Block
from sparrow.runtime import memory
from sparrow.tensor import Tensor

__all__ = ["check_graph", "node_labels", "node_positions", "per_group", "per_node", "reserve_per_node"]

_MOST_NODES = 2**31 - 1


def check_graph(A: Any) -> Tensor:
    """Return a tensor as links from nodes to nodes.

    Raises
    ------
    ShapeError
        If it is not a square matrix, or has 2^31 rows or more.
    LabelError
        If rows and columns have labels that differ.
    """
    tensor = as_tensor(A)
    if tensor.ndim != 2 or tensor.shape[0] != tensor.shape[1]:
        raise ShapeError(
            f"a graph is a square matrix, links from rows to columns, not shape {tensor.shape}{_way_out(tensor)}"
        )
    if tensor.shape[0] > _MOST_NODES:
        raise ShapeError(
            f"{tensor.shape[0]} nodes: each takes some bytes of memory; number those that have links, as "
            "sp.ingest.edges does with relabel=True"
        )
    rows, columns = (tensor.labels(axis) for axis in (0, 1))
    if rows is not None and columns is not None and not rows.equals(columns):
        raise LabelError(f"a graph has the same nodes both ways, but {apart(tensor)}")
    return tensor


def _way_out(A: Tensor) -> str:
    """Return how links of several kinds, as triples of a knowledge graph are, become links of one."""
    if A.ndim != 3:
        return ""
    kinds = [k for k in range(3) if len({size for axis, size in enumerate(A.shape) if axis != k}) == 1]
    dim = A.dims[1 if 1 in kinds or not kinds else kinds[0]]
    return f": choose one kind with A.isel({dim}=0) or sel(), or add up all with A.sum(axis={dim!r})"


def node_labels(A: Tensor) -> pa.Array | None:
    """Return the labels of nodes, which rows or columns have."""
    labels = A.labels(0)
    return A.labels(1) if labels is None else labels


def node_positions(A: Tensor, nodes: Any) -> NDArray[np.int64]:
    """Return the positions of nodes: of labels where the graph has some, else they are positions; or of a mask of all.

    Raises
    ------
    LabelError
        If there is no node of that label, or a mask has other labels.
    IndexingError
        If a position is out of range.
    ShapeError
        If a mask has another shape.
    """
    labels = node_labels(A)
    if getattr(nodes, "dtype", None) == np.bool_ and getattr(nodes, "ndim", 0):
        return _marked(A, nodes, labels)
    several = isinstance(nodes, Iterable) and not isinstance(nodes, str | bytes) and getattr(nodes, "ndim", 1) > 0
    given: Any = nodes if several else [nodes]
    if labels is not None:
        return label_positions(labels, given, A.dims[0])
    n, found = A.shape[0], _integers(given if hasattr(given, "__array__") else list(given))
    outside = (found < -n) | (found >= n)
    if outside.any():
        raise IndexingError(f"node {found[outside][0]} is out of range: the graph has {n} nodes")
    found = found.astype(np.int64)
    return np.where(found < 0, found + n, found)


def _marked(A: Tensor, mask: Any, labels: pa.Array | None) -> NDArray[np.int64]:
    """Return the positions of the nodes that a mask marks."""
    if mask.shape != A.shape[:1]:
        raise ShapeError(f"a mask of shape {mask.shape} marks none of the graph's {A.shape[0]} nodes: give one of all")
    if isinstance(mask, Tensor):
        own = mask.labels(0)
        if own is not None and labels is not None and not own.equals(labels):
            raise LabelError("the mask has other labels than the graph, or in another order: reindex it")
        mask = mask.to_numpy()
    return np.flatnonzero(mask)


def _integers(nodes: Any) -> NDArray[Any]:
    """Return positions as an array: of Python's integers if some take more than 64 bits."""
    found = check_array(nodes, "nodes")
    if found.ndim != 1:
        raise ShapeError(f"nodes of shape {found.shape}: give a list of them, of one dimension")
    if not len(found):
        return found.astype(np.int64)
    if found.dtype.kind in "iu":
        return found
    exact = np.array(nodes, object)
    for one in exact.tolist():
        if isinstance(one, bool) or not isinstance(one, int | np.integer):
            raise LabelError(f"the graph has no labels: nodes are positions, not {one!r}")
    return exact


def per_node(A: Tensor, values: NDArray[Any], fill_value: Any = 0) -> Tensor:
    """Return one number for each node as a tensor in memory, along the rows' dimension with the nodes' labels."""
    schema = Schema((A.shape[0],), (A.dims[0],), values.dtype, fill_value)
    kept = np.flatnonzero(~is_fill(values, schema.fill_value))
    labels = node_labels(A)
    block = Block((kept.astype(schema.coordinate_dtype(0)),), values[kept])
    return in_memory(schema, block, None if labels is None else {0: labels})


def per_group(A: Tensor, groups: NDArray[Any]) -> Tensor:
    """Return the group of each node as a tensor, groups numbered from 0 in the order of their first nodes."""
    nodes = np.arange(len(groups))
    first = np.empty_like(nodes)
    first[groups[::-1]] = nodes[::-1]
    number = np.cumsum(first[groups] == nodes) - 1
    return per_node(A, number[first[groups]], -1)


def reserve_per_node(A: Tensor, each: int, what: str) -> memory.Reservation:
    """Reserve ``each`` bytes for every node, while ``what`` is computed."""
    return memory.reserve(each * A.shape[0], f"{what}: {each} bytes for each of {A.shape[0]} nodes", "")
