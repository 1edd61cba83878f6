"""Relations whose chunks are split, for views that repeat elements."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.bisection import bisect_sorted
from sparrow.core.indexing import Box
from sparrow.kernels.coo import Block
from sparrow.relations.memory import MemoryRelation
from sparrow.relations.protocol import Chunk, Relation, ScanStats
from sparrow.relations.tuning import tuning
from sparrow.runtime import settings
from sparrow.runtime.once import Once

__all__ = ["SplitRelation"]


class SplitRelation:
    """A relation whose chunks are slices of those of another one.

    A slice has a share of the elements of a chunk that lie in the box: other elements are not repeated.

    Parameters
    ----------
    relation
        The other relation.
    rows
        Maximal number of elements of a chunk.
    growth
        Average number of times that a view repeats an element; statistics count each repeat.
    """

    is_small = False
    has_exact_counts = False

    def __init__(self, relation: Relation, rows: int, growth: float) -> None:
        self.relation, self._rows, self._growth = relation, rows, growth
        self._decoded: OrderedDict[tuple[int, int], tuple[Chunk, Box, Once[Block]]] = OrderedDict()
        """The elements of the chunks read last, by identity and box, which are kept: no other one has their id."""
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.relation, name)

    def read_small(self) -> None:
        """Return None: the elements are read in parts."""

    def chunks(self, box: Box, order: tuple[int, ...] | None = None) -> list[Chunk]:
        """Return slices of the chunks of the relation."""
        return self._split(self.relation.chunks(box, order), box)

    def split_runs(self, box: Box, order: tuple[int, ...]) -> tuple[list[Chunk], list[Chunk]]:
        """Return slices of the ordered chunks, and of those of append runs."""
        found = getattr(self.relation, "split_runs", None)
        first, runs = (self.relation.chunks(box, order), []) if found is None else found(box, order)
        return self._split(first, box), self._split(runs, box)

    def _split(self, chunks: Sequence[Chunk], box: Box) -> list[Chunk]:
        out = []
        for chunk in chunks:
            count = min(-(-chunk.rows // self._rows), tuning().max_slices)
            rows = int(chunk.rows / max(count, 1) * self._growth) + 1
            out += [Chunk(rows, chunk.low, chunk.high, (chunk, box, k, count), False) for k in range(count)]
        return out

    def read(self, chunk: Chunk, dims: Sequence[int] | None = None) -> Block:
        """Return the elements of a chunk, with all coordinates.

        The chunk that it is a slice of is decoded once for slices that are read together.
        """
        whole, box, k, count = chunk.ref
        key = id(whole), id(box)
        with self._lock:
            found = self._decoded.get(key)
            if found is None:
                found = self._decoded[key] = whole, box, Once(partial(self._decode, whole, box))
                if len(self._decoded) > settings.current().threads + 1:
                    self._decoded.popitem(last=False)
        block = found[2]()
        return block.take(slice(k * block.count // count, (k + 1) * block.count // count))

    def _decode(self, chunk: Chunk, box: Box) -> Block:
        """Return the elements of a chunk of the relation that lie in the box."""
        block = self.relation.read(chunk)
        inside = box.contains(block.coords)
        for dim, members in box.members:
            column = block.coords[dim]
            inside &= members.take(bisect_sorted(members, column), mode="clip") == column
        return block if inside.all() else block.take(inside.nonzero()[0])

    def row_lengths(self, leading: NDArray[Any]) -> NDArray[np.float64]:
        """Return the number of elements at leading coordinates, estimated for files."""
        if isinstance(self.relation, MemoryRelation):
            return self.relation.find_rows(leading).lengths.astype(np.float64)
        chunks = self.relation.chunks(Box.from_shape(self.relation.schema.shape))
        out = np.zeros(len(leading))
        for chunk in chunks:
            low, high = chunk.low[0], chunk.high[0]
            out[(leading >= low) & (leading <= high)] += chunk.rows / (high - low + 1)
        return out

    def stats(self, box: Box, order: tuple[int, ...] | None = None) -> ScanStats:
        """Return the statistics of a scan of the box, with repeats."""
        found = self.relation.stats(box, order)
        return replace(found, rows=int(found.rows * self._growth), inside=found.inside * self._growth)
