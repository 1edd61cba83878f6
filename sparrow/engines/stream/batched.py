"""Steps of which few slices along the leading dimension hold many entries each: computed slice by slice.

Pieces of a step are ranges of its leading dimension. Where that is so short that one slice is more than a piece may be,
as of a stack of a few large matrices, each slice is a step of its own, with a dimension less, that has pieces.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from sparrow.core.indexing import Box, View
from sparrow.engines.sort_orders import sorted_order
from sparrow.engines.stream.operator import PhysicalOperator, ReadRange, open_cursors, partition_bounds, read_range
from sparrow.kernels.coo import Block
from sparrow.plan import Map, Node, Product, Scan, Triangle, WithFill, push_index
from sparrow.plan.estimates import estimate_nnz, estimate_product
from sparrow.relations.base import Chunk
from sparrow.runtime import memory

__all__ = ["BatchedOp", "has_large_slices", "shown"]

_SHORT = 1 << 12
"""Slices that are told apart at most."""
_LONG = 1 << 20
"""Entries from which on a slice is long..."""
_COPIES = 16
"""... and bytes of it that are in memory for each that is kept, which are more than there is to work in."""
_AT_ONCE = 2
"""Slices of which what they hold is kept: threads are done with one while others begin the next."""
_SLICED = (Map, Product, WithFill, Triangle)


def has_large_slices(step: Node, inputs: Sequence[Scan]) -> bool:
    """Return whether slices of a step along its leading dimension are long, and steps of their own. Reads no data.

    Parameters
    ----------
    inputs
        The scans of relations that it reads.
    """
    schema = step.schema
    if not isinstance(step, _SLICED) or schema.ndim < 2 or not 0 < schema.shape[0] <= _SHORT:
        return False
    if math.prod(schema.shape[1:]) < _LONG:
        return False
    if isinstance(step, Map) and len(inputs) == 1 and inputs[0].view.preserves_order(sorted_order(inputs[0])):
        return False  # pieces are the chunks of the input
    if isinstance(step, Product):
        if schema.ndim < 3:  # a row of a matrix is no longer than a piece may be, and has nothing to be cut by
            return False
        rows = max(estimate_product(step))
    else:
        rows = estimate_nnz(Scan(step, View.identity(schema.shape), schema))
    each = rows / schema.shape[0]
    if each < _LONG or each * _COPIES * schema.element_bytes() < memory.working_bytes():
        return False
    return push_index(step, (0, *(slice(None) for _ in schema.shape[1:]))) is not None


def shown(step: Node, scan: Scan) -> PhysicalOperator:
    """Return the entries of a step that a scan of another relation shows."""

    def begin(first: int, last: int) -> ReadRange:
        return open_cursors([scan], first, last)[0]

    return PhysicalOperator(
        step, [scan], lambda: partition_bounds([scan], step.schema.shape[0]), partial(read_range, scan), begin=begin
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece of a slice: between two bounds along its leading dimension, or one of its chunks."""

    at: int
    start: int
    stop: int
    chunk: Chunk | None


class BatchedOp(PhysicalOperator):
    """The entries of a step, slice by slice along the leading dimension.

    Parameters
    ----------
    step
        What is computed.
    inputs
        The scans of relations that it reads.
    lower
        Returns the scan of a relation that has the entries of a step.
    """

    is_small = False

    def __init__(self, step: Node, inputs: Sequence[Scan], lower: Callable[[Node], Scan]) -> None:
        self._step, self._lower = step, lower
        self._kept: OrderedDict[int, tuple[Scan, ReadRange]] = OrderedDict()
        self._found: dict[int, list[tuple[_Part, int]]] = {}
        self._making = threading.RLock()
        super().__init__(step, inputs, tuple, self._unasked)

    def _slice(self, at: int) -> tuple[Scan, ReadRange]:
        """Return the scan of a slice and what reads its pieces; the last ones are kept, with what they hold."""
        with self._making:
            if at not in self._kept:
                found = push_index(self._step, (at, *(slice(None) for _ in self.schema.shape[1:])))
                assert found is not None
                scan = self._lower(found)
                self._kept[at] = scan, open_cursors([scan], 0, scan.schema.shape[0])[0]
                if len(self._kept) > _AT_ONCE:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(at)
            return self._kept[at]

    def _parts(self, at: int) -> list[tuple[_Part, int]]:
        """Return the pieces of a slice and about how many entries each has: told once, nothing is held for them."""
        with self._making:
            if at not in self._found:
                relation = self._slice(at)[0].relation
                self._found[at] = []
                for chunk in relation.chunks(View.identity(self.schema.shape[1:]).box()):
                    span = relation.span(chunk) if isinstance(relation, PhysicalOperator) else None
                    start, stop = span or (chunk.low[0], chunk.high[0] + 1)
                    self._found[at].append((_Part(at, start, stop, None if span else chunk), chunk.rows))
            return self._found[at]

    def chunks(self, box: Box, order: tuple[int, ...] | None = None) -> list[Chunk]:
        """Return the pieces of slices that meet the box, whole. Reads no data pages."""
        members = next((found for dim, found in box.members if dim == 0), None)
        leading = box.ranges[0] if members is None else set(members.tolist()).intersection(box.ranges[0])
        if any(len(r) == 0 for r in box.ranges):
            return []
        low, high = (0,) * (self.schema.ndim - 2), tuple(n - 1 for n in self.schema.shape[2:])
        first, last = box.ranges[1][0], box.ranges[1][-1]
        return [
            Chunk(rows, (at, part.start, *low), (at, part.stop - 1, *high), part, False)
            for at in sorted(leading)
            for part, rows in self._parts(at)
            if part.start <= last and first < part.stop
        ]

    def read(self, chunk: Chunk, dims: Sequence[int] | None = None) -> Block:
        """Compute a piece."""
        part: _Part = chunk.ref
        scan, piece = self._slice(part.at)
        block = piece(part.start, part.stop) if part.chunk is None else scan.relation.read(part.chunk)
        return Block((np.full(block.count, part.at, self.schema.coordinate_dtype(0)), *block.coords), block.values)

    def span(self, chunk: Chunk) -> None:
        """Return None: a piece is no range of the leading dimension."""

    def _unasked(self, start: int, stop: int) -> Block:
        """Never asked for: pieces are those of slices."""
        raise AssertionError
