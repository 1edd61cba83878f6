"""Arrow dataset of a remote tensor for SQL engines.

DuckDB passes its filters. Those on coordinates skip row groups by their bounds before anything is fetched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextvars import copy_context
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from sparrow.core.indexing import Box
from sparrow.core.schema import Schema
from sparrow.kernels.coo import Block
from sparrow.relations.arrow import arrow_schema, arrow_table
from sparrow.relations.protocol import Chunk
from sparrow.runtime import settings
from sparrow.runtime.thread_pool import ordered_map

__all__ = ["ChunkDataset", "ChunkSource"]


class ChunkSource(Protocol):
    """A relation whose chunks can be pruned before a scan, such as a snapshot."""

    @property
    def schema(self) -> Schema:
        """Shape, dimension names, dtype and fill value."""

    def chunks(self, box: Box, order: tuple[int, ...] | None = None) -> list[Chunk]:
        """Return the chunks that may hold elements of a box."""

    def select_chunks(self, chunks: Sequence[Chunk], numbers: Iterable[int]) -> list[Chunk]:
        """Return some of these chunks as a scan of their own."""

    def read(self, chunk: Chunk) -> Block:
        """Return the elements of a chunk."""


class ChunkDataset(ds.Dataset):  # type: ignore[misc]
    """Arrow dataset of the stored elements that may lie in a box.

    Parameters
    ----------
    source
        The snapshot.
    box
        The box.
    order
        Sort order of the files; the base order by default.
    """

    def __init__(self, source: ChunkSource, box: Box, order: tuple[int, ...] | None) -> None:
        self._source, self._box, self._order = source, box, order
        self._threads = settings.current().threads
        self._context = copy_context()
        schema = arrow_schema(source.schema)
        if source.schema.dtype == np.float16:  # DuckDB has no half floats
            at = schema.get_field_index("value")
            schema = schema.set(at, schema.field(at).with_type(pa.float32()))
        self._schema = schema

    @property
    def schema(self) -> pa.Schema:
        """The columns: one for each dimension, then ``value``."""
        return self._schema

    def scanner(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **kwargs: Any
    ) -> ds.Scanner:
        """Return a scanner of the elements that satisfy a filter."""
        batches = pa.RecordBatchReader.from_batches(self._schema, self._batches(filter))
        return ds.Scanner.from_batches(batches, columns=columns, filter=filter, use_threads=False)

    def _batches(self, filter: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        context = self._context.copy()  # the engine pulls from threads without our settings
        chunks = context.run(self._source.chunks, self._box, self._order)
        if filter is not None and chunks:
            chunks = self._source.select_chunks(chunks, self._prune(chunks, filter))
        blocks = ordered_map(self._source.read, chunks, self._threads)
        while (block := context.run(next, blocks, None)) is not None:
            yield from arrow_table(self._source.schema, block).cast(self._schema).to_batches()

    def _prune(self, chunks: Sequence[Chunk], filter: pc.Expression) -> list[int]:
        """Return the numbers of the chunks whose bounds may satisfy a filter."""
        bounds = []
        for chunk in chunks:
            known = pc.scalar(True)
            for name, low, high in zip(self._source.schema.dims, chunk.low, chunk.high, strict=True):
                known = known & (pc.field(name) >= low) & (pc.field(name) <= high)
            bounds.append(known)
        numbered = ds.FileSystemDataset.from_paths(
            list(map(str, range(len(chunks)))),
            schema=self._schema,
            format=ds.ParquetFileFormat(),
            filesystem=LocalFileSystem(),
            partitions=bounds,
        )
        return sorted(int(fragment.path) for fragment in numbered.get_fragments(filter=filter))
