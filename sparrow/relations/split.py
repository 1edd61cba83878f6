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

from sparrow.core.indexing import Box
from sparrow.kernels.coo import Block
from sparrow.relations.memory import MemoryRelation
from sparrow.relations.protocol import Chunk, Relation, ScanStats
from sparrow.runtime import settings
from sparrow.runtime.once import Once

__all__ = ["SplitRelation"]


class SplitRelation:
    """A relation whose chunks are slices of those of another one.

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
        self._decoded: OrderedDict[int, Once[Block]] = OrderedDict()
        """The chunks read last, by identity."""
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.relation, name)

    def read_small(self) -> None:
        """Return None: the elements are read in parts."""

    def chunks(self, box: Box, order: tuple[int, ...] | None = None) -> list[Chunk]:
        """Return slices of the chunks of the relation."""
        return self._split(self.relation.chunks(box, order))

    def split_runs(self, box: Box, order: tuple[int, ...]) -> tuple[list[Chunk], list[Chunk]]:
        """Return slices of the ordered chunks, and of those of append runs."""
        found = getattr(self.relation, "split_runs", None)
        first, runs = (self.relation.chunks(box, order), []) if found is None else found(box, order)
        return self._split(first), self._split(runs)

    def _split(self, chunks: Sequence[Chunk]) -> list[Chunk]:
        out = []
        for chunk in chunks:
            for start in range(0, chunk.rows, self._rows):
                stop = None if start + self._rows >= chunk.rows else start + self._rows
                rows = int((chunk.rows - start if stop is None else self._rows) * self._growth) + 1
                out.append(Chunk(rows, chunk.low, chunk.high, (chunk, start, stop), False))
        return out

    def read(self, chunk: Chunk, dims: Sequence[int] | None = None) -> Block:
        """Return the elements of a chunk, with all coordinates.

        The chunk that it is a slice of is decoded once for slices that are read together.
        """
        whole, start, stop = chunk.ref
        with self._lock:
            once = self._decoded.get(id(whole))
            if once is None:
                once = self._decoded[id(whole)] = Once(partial(self.relation.read, whole))
                if len(self._decoded) > settings.current().threads + 1:
                    self._decoded.popitem(last=False)
        return once().take(slice(start, stop))

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
