"""Batched operators: nodes with a few large slices, evaluated one by one.

Partitions are ranges of the leading dimension. If one slice is larger than a partition may be, as in a stack of a few
large matrices, each slice is lowered as a node of its own, with one dimension less and partitions of its own.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sparrow.core.indexing import Box, View
from sparrow.engines.sort_orders import sorted_order
from sparrow.engines.stream.capabilities import Cursor
from sparrow.engines.stream.cursors import open_cursor
from sparrow.engines.stream.operator import PhysicalOperator
from sparrow.engines.stream.partitioning import is_large_slice
from sparrow.engines.stream.tuning import tuning
from sparrow.kernels.coo import Block
from sparrow.plan import Contraction, Map, Node, Scan, push_index
from sparrow.plan.estimates import estimate_contraction, estimate_nnz
from sparrow.relations.protocol import Chunk
from sparrow.runtime.events import emit

__all__ = ["BatchedOp", "has_large_slices"]


def has_large_slices(node: Node, children: Sequence[Scan]) -> bool:
    """Return whether slices of a node are larger than a partition. Reads no data.

    Parameters
    ----------
    node
        The node.
    children
        Scans that it reads, of relations.
    """
    schema, parameters = node.schema, tuning()
    if not node.splits_into_slices or schema.ndim < 2 or not 0 < schema.shape[0] <= parameters.max_batches:
        return False
    if math.prod(schema.shape[1:]) < parameters.min_batch_elements:
        return False
    if isinstance(node, Map) and len(children) == 1 and children[0].view.preserves_order(sorted_order(children[0])):
        return False  # partitions are the chunks of the input
    if isinstance(node, Contraction):
        if schema.ndim < 3:  # a row of a matrix is not larger than a partition, and cannot be divided further
            return False
        rows = max(estimate_contraction(node))
    else:
        rows = estimate_nnz(Scan(node, View.identity(schema.shape), schema))
    per_slice = rows / schema.shape[0]
    if not is_large_slice(per_slice, schema):
        return False
    return push_index(node, (0, *(slice(None) for _ in schema.shape[1:]))) is not None


@dataclass(frozen=True, slots=True)
class _BatchRef:
    """Reference of rows [start, stop) of a slice, or of one of its chunks."""

    index: int
    start: int
    stop: int
    chunk: Chunk | None


class BatchedOp(PhysicalOperator):
    """A node evaluated slice by slice along its leading dimension.

    Parameters
    ----------
    node
        The node.
    lowered
        The same node on relations.
    children
        Scans that it reads, of relations.
    lower
        Returns the scan of a relation for a node.
    """

    is_small = False

    def __init__(self, node: Node, lowered: Node, children: Sequence[Scan], lower: Callable[[Node], Scan]) -> None:
        super().__init__(node, children)
        self._lowered, self._lower = lowered, lower
        self._slices: OrderedDict[int, tuple[Scan, Cursor]] = OrderedDict()
        self._partitions: dict[int, list[tuple[_BatchRef, int]]] = {}
        self._opening = threading.RLock()

    def strategy(self) -> str:
        """Return the name of the strategy."""
        return "batched"

    def _slice(self, index: int) -> tuple[Scan, Cursor]:
        """Return the scan of a slice and a cursor over it; the last ones used stay open."""
        with self._opening:
            if index not in self._slices:
                found = push_index(self._lowered, (index, *(slice(None) for _ in self.schema.shape[1:])))
                assert found is not None
                scan = self._lower(found)
                self._slices[index] = scan, open_cursor(scan, 0, scan.schema.shape[0])
                if len(self._slices) > tuning().max_open_batches:
                    self._slices.popitem(last=False)
                emit("stream.open_batch", index=index, num_open=len(self._slices))
            self._slices.move_to_end(index)
            return self._slices[index]

    def _batch_partitions(self, index: int) -> list[tuple[_BatchRef, int]]:
        """Return the partitions of a slice with upper bounds on their nnz, computed once."""
        with self._opening:
            if index not in self._partitions:
                relation = self._slice(index)[0].relation
                self._partitions[index] = []
                for chunk in relation.chunks(View.identity(self.schema.shape[1:]).box()):
                    span = relation.partition_range(chunk) if isinstance(relation, PhysicalOperator) else None
                    start, stop = span or (chunk.low[0], chunk.high[0] + 1)
                    ref = _BatchRef(index, start, stop, None if span else chunk)
                    self._partitions[index].append((ref, chunk.rows))
            return self._partitions[index]

    def chunks(self, box: Box, order: tuple[int, ...] | None = None) -> list[Chunk]:
        """Return the partitions of slices that meet a box, not clipped to it."""
        members = next((found for dim, found in box.members if dim == 0), None)
        leading = box.ranges[0] if members is None else set(members.tolist()).intersection(box.ranges[0])
        if any(len(r) == 0 for r in box.ranges):
            return []
        low, high = (0,) * (self.schema.ndim - 2), tuple(n - 1 for n in self.schema.shape[2:])
        first, last = box.ranges[1][0], box.ranges[1][-1]
        return [
            Chunk(rows, (index, ref.start, *low), (index, ref.stop - 1, *high), ref, False)
            for index in sorted(leading)
            for ref, rows in self._batch_partitions(index)
            if ref.start <= last and first < ref.stop
        ]

    def compute(self, chunk: Chunk, dims: Sequence[int] | None) -> Block:
        """Return the elements of a chunk."""
        ref: _BatchRef = chunk.ref
        scan, cursor = self._slice(ref.index)
        block = cursor.read(ref.start, ref.stop) if ref.chunk is None else scan.relation.read(ref.chunk)
        leading = np.full(block.count, ref.index, self.schema.coordinate_dtype(0))
        return Block((leading, *block.coords), block.values)

    def partition_range(self, chunk: Chunk) -> None:
        """Return None: a chunk is part of a slice, no range of the leading dimension."""
