"""Entries of a store for SQL: an Arrow dataset that DuckDB scans, read as every scan reads.

DuckDB hands its filters over. Those on coordinates leave out the row groups whose bounds they contradict, before
anything is fetched; what is fetched was checked, and the next row groups are on their way meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from sparrow.relations.base import Chunk, arrow_schema, arrow_table
from sparrow.runtime import settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.storage.delta.snapshot import Snapshot, only

if TYPE_CHECKING:
    from sparrow.core.indexing import Box

__all__ = ["Streamed"]


class Streamed(ds.Dataset):  # type: ignore[misc]
    """The entries of a snapshot that may lie in a box, begun anew by every scan."""

    def __init__(self, snapshot: Snapshot, box: Box, order: tuple[int, ...] | None) -> None:
        self._snapshot, self._box, self._order = snapshot, box, order
        self._threads = settings.current().threads
        self._context = copy_context()
        wanted = arrow_schema(snapshot.schema)
        if snapshot.schema.dtype == np.float16:  # DuckDB has no type as narrow
            at = wanted.get_field_index("value")
            wanted = wanted.set(at, wanted.field(at).with_type(pa.float32()))
        self._wanted = wanted

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._wanted

    def scanner(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **more: Any
    ) -> ds.Scanner:
        """Return a scanner of some columns of the entries that a filter lets through."""
        batches = pa.RecordBatchReader.from_batches(self._wanted, self._batches(filter))
        return ds.Scanner.from_batches(batches, columns=columns, filter=filter, use_threads=False)

    def _batches(self, filter: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        context = self._context.copy()  # who pulls has no settings of ours
        chunks = context.run(self._snapshot.chunks, self._box, self._order)
        if filter is not None and chunks:
            chunks = only(chunks, self._meeting(chunks, filter))
        blocks = ordered_map(self._snapshot.read, chunks, self._threads)
        while (block := context.run(next, blocks, None)) is not None:
            yield from arrow_table(self._snapshot.schema, block).cast(self._wanted).to_batches()

    def _meeting(self, chunks: Sequence[Chunk], filter: pc.Expression) -> list[int]:
        """Return the numbers of the chunks that a filter does not rule out by their bounds; pyarrow decides."""
        bounds = []
        for chunk in chunks:
            known = pc.scalar(True)
            for name, low, high in zip(self._snapshot.schema.dims, chunk.low, chunk.high, strict=True):
                known = known & (pc.field(name) >= low) & (pc.field(name) <= high)
            bounds.append(known)
        numbered = ds.FileSystemDataset.from_paths(
            list(map(str, range(len(chunks)))),
            schema=self._wanted,
            format=ds.ParquetFileFormat(),
            filesystem=LocalFileSystem(),
            partitions=bounds,
        )
        return sorted(int(fragment.path) for fragment in numbered.get_fragments(filter=filter))
