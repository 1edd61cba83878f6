"""Relations that several operators read: each chunk is computed once."""

from __future__ import annotations

import bisect
import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from sparrow.core.indexing import Box, View
from sparrow.engines.stream.operator import PhysicalOperator
from sparrow.engines.stream.partitioning import range_slice
from sparrow.engines.stream.tuning import tuning
from sparrow.kernels.coo import Block, concat_blocks
from sparrow.relations.protocol import ArrowSource, Chunk, ParquetSource, Relation, ScanStats
from sparrow.runtime import memory

if TYPE_CHECKING:
    from sparrow.core.schema import Schema

__all__ = ["Cache", "CachedRelation", "cache_bytes"]


class CachedRelation:
    """A relation whose chunks are cached for other readers.

    Parameters
    ----------
    relation
        Files, or an operator: its ranges are then assembled from its own partitions.
    cache
        Cache of blocks, shared by the relations of a plan.
    """

    def __init__(self, relation: Relation, cache: Cache) -> None:
        self._relation, self._cache = relation, cache
        self._own: list[tuple[int, int, Chunk]] = []
        self._lock = threading.Lock()

    schema: Schema = property(lambda self: self._relation.schema)  # type: ignore[assignment]
    token: Hashable = property(lambda self: self._relation.token)
    nnz: int = property(lambda self: self._relation.nnz)  # type: ignore[assignment]
    nbytes: int = property(lambda self: self._relation.nbytes)  # type: ignore[assignment]
    version: int | None = property(lambda self: self._relation.version)  # type: ignore[assignment]
    has_exact_counts: bool = property(lambda self: self._relation.has_exact_counts)  # type: ignore[assignment]
    orders: tuple[tuple[int, ...], ...] = property(lambda self: self._relation.orders)  # type: ignore[assignment]

    @property
    def label_keys(self) -> Mapping[int, Hashable]:
        """Keys of the labels of dimensions."""
        return self._relation.label_keys

    def labels(self, dim: int) -> Any:
        """Return the labels of a dimension."""
        return self._relation.labels(dim)

    def chunks(self, box: Box, order: tuple[int, ...] | None = None) -> list[Chunk]:
        """Return the chunks of the relation that may hold elements of the box."""
        return self._relation.chunks(box, order)

    def stats(self, box: Box, order: tuple[int, ...] | None = None) -> ScanStats:
        """Return the statistics of a scan of the box."""
        return self._relation.stats(box, order)

    def source(self, box: Box, order: tuple[int, ...] | None = None) -> ParquetSource | ArrowSource:
        """Return the files or table that a SQL engine scans for the box."""
        return self._relation.source(box, order)

    is_small = False

    def read_small(self) -> None:
        """Return None: only chunks are cached."""

    def read(self, chunk: Chunk, dims: Sequence[int] | None = None) -> Block:
        """Return the elements of a chunk with all coordinates, as others may need them."""
        relation = self._relation
        span = relation.partition_range(chunk) if isinstance(relation, PhysicalOperator) else None
        if span is None:
            return self._cache.get((relation.token, chunk.ref), lambda: relation.read(chunk))
        if not relation.schema.shape:
            return self._cache.get(relation.token, lambda: relation.read(chunk))
        with self._lock:
            if not self._own:
                found = relation.chunks(View.identity(relation.schema.shape).box())
                self._own.extend((part.low[0], part.high[0] + 1, part) for part in found)
        first = bisect.bisect_right([low for low, _, _ in self._own], span[0]) - 1
        parts = []
        for low, high, piece in itertools.takewhile(lambda part: part[0] < span[1], self._own[first:]):
            block = self._cache.get((relation.token, low), lambda piece=piece: relation.read(piece))  # type: ignore[misc]
            parts.append(block.take(range_slice(block.coords[0], max(span[0], low), min(span[1], high))))
        return concat_blocks(parts, relation.schema.ndim, relation.schema.dtype)


def cache_bytes() -> int:
    """Return the budget of shared chunks, a share of the working memory."""
    fixed = tuning().cache_bytes
    if fixed is not None:
        return fixed
    return memory.share(tuning().cache_parts, unreserved=memory.limit() - memory.working_bytes())


class Cache:
    """Least-recently-used cache of blocks, with its memory reserved.

    A block is computed once while it is cached.

    Parameters
    ----------
    budget
        Bytes of blocks that are kept.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._room = memory.reserve(0, "chunks that several operators read")
        self._blocks: OrderedDict[Hashable, Future[Block]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Block]) -> Block:
        """Return the block of a key; the first thread that asks computes it."""
        with self._lock:
            future = self._blocks.get(key)
            mine = future is None
            if future is None:
                future = self._blocks[key] = Future()
            else:
                self._blocks.move_to_end(key)
        if not mine:
            return future.result()
        try:
            block = make()
        except BaseException as error:
            with self._lock:
                del self._blocks[key]
            future.set_exception(error)
            raise
        future.set_result(block)
        with self._lock:
            held = self._room.nbytes + block.nbytes
            done = [k for k, kept in self._blocks.items() if kept.done()]
            for oldest in done:
                if held <= self._budget:
                    break
                held -= self._blocks.pop(oldest).result().nbytes
            self._room.resize(held)
        return block
