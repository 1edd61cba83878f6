"""Results that are kept: evaluated once, in memory or in a spill file."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np

from sparrow.core.indexing import Box, View
from sparrow.core.schema import Schema
from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.cache import cache_bytes
from sparrow.kernels.coo import Block, concat_blocks
from sparrow.plan import Scan
from sparrow.relations.arrow import arrow_table
from sparrow.relations.memory import MemoryRelation
from sparrow.relations.protocol import ArrowSource, Chunk, Relation, ScanStats, base_orders
from sparrow.runtime import memory
from sparrow.runtime.events import emit
from sparrow.sorting import SpilledBlocks, SpillFile

__all__ = ["SpilledRelation", "materialize"]


def materialize(relation: Relation) -> Relation:
    """Evaluate a relation once; return one of equal elements that is cheap to read.

    Its elements are in memory if they fit the budget of shared results, else in a spill file.
    """
    schema, budget = relation.schema, cache_bytes()
    room = memory.reserve(0, "a result that several operators read")
    blocks: list[Block] = []
    spilled: SpilledBlocks | None = None
    nbytes = 0
    small = relation.read_small()
    everything = Scan(relation, View.identity(schema.shape), schema)
    for block in scan_reader.iter_blocks(everything) if small is None else (small,):
        nbytes += block.nbytes
        if spilled is None and nbytes > budget and schema.shape:
            spilled = SpilledBlocks(SpillFile())
            weakref.finalize(spilled, spilled.spool.close)
            _append(spilled, blocks)
            blocks = []
            room.release()
        if spilled is None:
            blocks.append(block)
            room.resize(nbytes)
        else:
            _append(spilled, [block])
    emit("stream.materialize", relation=relation, nbytes=nbytes, is_spilled=spilled is not None)
    if spilled is not None:
        return SpilledRelation(schema, spilled, relation.token)
    return _MaterializedRelation(schema, concat_blocks(blocks, schema.ndim, schema.dtype), relation.token, room)


def _append(spilled: SpilledBlocks, blocks: Iterable[Block]) -> None:
    for block in blocks:
        if block.count:
            spilled.append(block)


class _MaterializedRelation(MemoryRelation):
    """A result in memory, with its reservation."""

    def __init__(self, schema: Schema, block: Block, token: Hashable, room: memory.Reservation) -> None:
        super().__init__(schema, block)
        self.token = token  # type: ignore[assignment]
        self._room = room
        room.resize(self.block.nbytes)


class SpilledRelation:
    """A result in a spill file, one chunk per block.

    Parameters
    ----------
    schema
        Schema of the elements.
    spilled
        Blocks in the order of the leading dimension.
    token
        Identity of the content.
    """

    version = None
    has_exact_counts = True
    is_small = False
    label_keys: Mapping[int, Hashable] = {}

    def __init__(self, schema: Schema, spilled: SpilledBlocks, token: Hashable) -> None:
        self.schema, self.token, self._spilled = schema, token, spilled
        self._counts = spilled.counts()
        self.nnz = sum(self._counts)
        others = tuple(n - 1 for n in schema.shape[1:])
        self._chunks = [
            Chunk(count, (low, *(0 for _ in others)), (high, *others), number)
            for number, (count, low, high) in enumerate(zip(self._counts, spilled.low, spilled.high, strict=True))
        ]
        self._low = np.array([chunk.low for chunk in self._chunks], np.int64)
        self._high = np.array([chunk.high for chunk in self._chunks], np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements in arrays."""
        return self.nnz * self.schema.element_bytes()

    @property
    def orders(self) -> tuple[tuple[int, ...], ...]:
        """The base order only."""
        return base_orders(self.schema.ndim)

    def labels(self, dim: int) -> None:
        """Return None: the plan knows the labels of a node."""

    def chunks(self, box: Box, order: tuple[int, ...] | None = None) -> list[Chunk]:
        """Return the blocks that may hold elements of a box."""
        found = np.flatnonzero(box.intersection_mask(self._low, self._high))
        return [self._chunks[number] for number in found.tolist()]

    def read_small(self) -> None:
        """Return None: the elements do not fit in memory."""

    def read(self, chunk: Chunk, dims: Sequence[int] | None = None) -> Block:
        """Return the elements of a chunk."""
        return self._spilled.read(chunk.ref)

    def stats(self, box: Box, order: tuple[int, ...] | None = None) -> ScanStats:
        """Return the number of elements in the chunks that meet a box."""
        chunks = self.chunks(box)
        rows = sum(chunk.rows for chunk in chunks)
        width = self.schema.element_bytes()
        skipped = (self.nnz - rows) * width
        return ScanStats(0, 0, len(self._chunks), len(chunks), rows, rows * width, float(rows), skipped)

    def source(self, box: Box, order: tuple[int, ...] | None = None) -> ArrowSource:
        """Return the elements of the chunks that meet a box as an Arrow table.

        Raises
        ------
        TooLargeError
            If they exceed the memory limit.
        """
        chunks = self.chunks(box)
        nbytes = sum(chunk.rows for chunk in chunks) * self.schema.element_bytes()
        memory.check(nbytes, f"the elements of an expression of shape {self.schema.shape}")
        blocks = [self.read(chunk) for chunk in chunks]
        return ArrowSource(arrow_table(self.schema, concat_blocks(blocks, self.schema.ndim, self.schema.dtype)))
