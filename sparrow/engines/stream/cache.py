"""Relations that several operators read: each chunk is computed once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import Box, View
from sparrow.engines.stream.operator import PhysicalOperator
from sparrow.engines.stream.tuning import tuning
from sparrow.kernels.coo import Block
from sparrow.relations.protocol import ArrowSource, Chunk, ParquetSource, Relation, ScanStats
from sparrow.runtime import memory
from sparrow.runtime.once import Once

if TYPE_CHECKING:
    from sparrow.core.schema import Schema

__all__ = ["Cache", "CachedRelation", "cache_bytes"]


class CachedRelation:
    """A relation whose chunks are cached for other readers.

    Parameters
    ----------
    relation
        Files, or an operator: its own partitions are then the chunks, whatever is read of it.
    cache
        Cache of blocks, shared by the relations of a plan.
    """

    def __init__(self, relation: Relation, cache: Cache) -> None:
        self._relation, self._cache = relation, cache
        self._is_computed = isinstance(relation, PhysicalOperator)
        self._own: _OwnChunks | None = None
        self._is_small: bool | None = None
        self._lock = threading.Lock()  # a Once of a method of this object would be a reference cycle

    schema: Schema = property(lambda self: self._relation.schema)  # type: ignore[assignment]
    token: Hashable = property(lambda self: self._relation.token)
    version: int | None = property(lambda self: self._relation.version)  # type: ignore[assignment]
    orders: tuple[tuple[int, ...], ...] = property(lambda self: self._relation.orders)  # type: ignore[assignment]

    @property
    def label_keys(self) -> Mapping[int, Hashable]:
        """Keys of the labels of dimensions."""
        return self._relation.label_keys

    def labels(self, dim: int) -> Any:
        """Return the labels of a dimension."""
        return self._relation.labels(dim)

    @property
    def has_exact_counts(self) -> bool:
        """True if the rows of chunks are exact counts of their elements."""
        return self.is_small if self._is_computed else self._relation.has_exact_counts

    @property
    def nnz(self) -> int:
        """The number of stored elements; those of an operator are computed and cached."""
        if not self._is_computed:
            return self._relation.nnz
        return sum(self.read(chunk).count for chunk in self._own_chunks()[0])

    @property
    def nbytes(self) -> int:
        """Bytes of the data files, or of the elements in arrays."""
        return self.nnz * self.schema.element_bytes() if self._is_computed else self._relation.nbytes

    @property
    def is_small(self) -> bool:
        """True if all elements of an operator are one block, which is computed."""
        if self._is_small is None:
            is_small = self._is_computed and self._relation.is_small
            self._is_small = is_small and self._read_all().count <= tuning().partition_rows
        return self._is_small

    def read_small(self) -> Block | None:
        """Return all elements if they are one small block, else None."""
        return self._read_all() if self.is_small else None

    def _read_all(self) -> Block:
        """Return all elements of a small operator."""
        return self._cache.get(self.token, self._relation.read_small)  # type: ignore[arg-type]

    def chunks(self, box: Box, order: tuple[int, ...] | None = None) -> list[Chunk]:
        """Return the chunks of the relation that may hold elements of the box."""
        if not self._is_computed:
            return self._relation.chunks(box, order)
        if any(len(r) == 0 for r in box.ranges):
            return []
        own, low, high = self._own_chunks()
        if len(own) == 1:
            return own
        return [own[k] for k in np.flatnonzero(box.intersection_mask(low, high)).tolist()]

    def stats(self, box: Box, order: tuple[int, ...] | None = None) -> ScanStats:
        """Return the statistics of a scan of the box."""
        found = self._relation.stats(box, order)
        if not self._is_computed:
            return found
        # Operators add up their inputs, which one that several operators read would count again and again.
        rows = min(found.rows, self._read_all().count if self.is_small else max(self.schema.size, 1))
        return replace(found, rows=rows, inside=min(found.inside, float(rows)))

    def source(self, box: Box, order: tuple[int, ...] | None = None) -> ParquetSource | ArrowSource:
        """Return the files or table that a SQL engine scans for the box."""
        return self._relation.source(box, order)

    def read(self, chunk: Chunk, dims: Sequence[int] | None = None) -> Block:
        """Return the elements of a chunk with all coordinates, as others may need them."""
        relation = self._relation
        if not self._is_computed:
            return self._cache.get((relation.token, chunk.ref), lambda: relation.read(chunk))
        own: Chunk | None = chunk.ref
        if own is None:
            return self._read_all()
        return self._cache.get((relation.token, own.low, own.high, own.ref), lambda: relation.read(own))

    def _own_chunks(self) -> _OwnChunks:
        """Return all chunks of an operator, and their lowest and highest coordinates."""
        if self._own is None:
            with self._lock:
                if self._own is None:
                    self._own = self._list_chunks()
        return self._own

    def _list_chunks(self) -> _OwnChunks:
        shape = self.schema.shape
        if self.is_small:
            everything = (0,) * len(shape), tuple(n - 1 for n in shape)
            chunks = [Chunk(self._read_all().count, *everything, None)]
        else:
            found = self._relation.chunks(View.identity(shape).box())
            chunks = [Chunk(chunk.rows, chunk.low, chunk.high, chunk, chunk.is_exact) for chunk in found]
        low, high = (np.array([getattr(chunk, end) for chunk in chunks], np.int64) for end in ("low", "high"))
        return chunks, low, high


_OwnChunks: TypeAlias = tuple[list[Chunk], NDArray[np.int64], NDArray[np.int64]]


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
        self._blocks: OrderedDict[Hashable, Once[Block]] = OrderedDict()
        self._sizes: dict[Hashable, int] = {}
        """Bytes of the blocks that are computed."""
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Block]) -> Block:
        """Return the block of a key; the first thread that asks computes it.

        If that fails or is interrupted, the next one tries again.
        """
        with self._lock:
            once = self._blocks.get(key)
            if once is None:
                once = self._blocks[key] = Once(make)
            else:
                self._blocks.move_to_end(key)
            is_counted = key in self._sizes
        block = once()
        if not is_counted:
            with self._lock:
                if self._blocks.get(key) is once and key not in self._sizes:
                    self._sizes[key] = block.nbytes
                    self._evict(self._room.nbytes + block.nbytes)
        return block

    def _evict(self, nbytes: int) -> None:
        """Drop the least recently used blocks until the others fit; the lock is held.

        It looks only at blocks that it drops, and at those that are being computed.
        """
        oldest = []
        for key in self._blocks:
            if nbytes <= self._budget:
                break
            if key in self._sizes:
                oldest.append(key)
                nbytes -= self._sizes[key]
        for key in oldest:
            del self._blocks[key], self._sizes[key]
        self._room.resize(nbytes)
