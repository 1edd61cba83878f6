"""Rows of a matrix in files that tasks map into memory, for rounds of products.

A matrix that is multiplied again and again is read once. Tasks write ranges of its rows, in CSR, to the scratch folder;
a product is then a round whose tasks get a vector and map their rows. They may run on any machine: its page cache keeps
what it read. Rows that the files of the matrix do not lead with, as those of ``A.T``, are sorted in two rounds.

The bits are those of persisted rows (:mod:`sparrow.engines.repeats`), and so of the stream engine.
"""

from __future__ import annotations

import itertools
import os
import weakref
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sparrow.core.schema import Schema
from sparrow.engines.cluster.scratch import Scratch, array_result, map_array, store_array
from sparrow.engines.cluster.sorting import StoredRun, store_run
from sparrow.engines.cluster.tasks import check_chunks, cut_range
from sparrow.engines.repeats import PersistedRows, finish_values, persist_rows, to_rows
from sparrow.engines.sort_orders import product_order
from sparrow.engines.stream import Stream
from sparrow.engines.stream.scan_reader import map_blocks, split_runs
from sparrow.kernels.coo import Block, concat_blocks, sort_block
from sparrow.plan import Scan
from sparrow.relations.csr import CSRRows
from sparrow.relations.protocol import Chunk
from sparrow.runtime import memory
from sparrow.storage import count_files

__all__ = ["MergeRows", "MultiplyRows", "RowFiles", "SortRows", "StoreRows", "chunks_in_order"]

_NONE = np.zeros(0, np.int64)
_stream = Stream()


class RowFiles:
    """The rows of a matrix in files of a folder, which is removed with this object.

    Parameters
    ----------
    folder
        Folder that this process and its tasks share.
    """

    def __init__(self, folder: str) -> None:
        self.scratch = Scratch(folder).__enter__()
        self.bounds: list[int] = []
        """Ranges of rows, one per file of each kind, of about equal numbers of elements."""
        self.elements = 0.0
        """Elements of the matrix, estimated."""
        self.nbytes = 0
        weakref.finalize(self, self.scratch.close)


def _path(folder: str, name: str, number: int) -> str:
    return os.path.join(folder, f"{name}-{number}.npy")


def _save(folder: str, start: int, rows: PersistedRows) -> int:
    """Write rows that begin at ``start``; return the bytes.

    The row pointers come last: a task that runs twice replaces whole files, by equal ones.
    """
    arrays = {"values": rows.rows.values, "columns": rows.rows.indices, "pointers": rows.rows.indptr}
    if len(rows.parts):
        arrays = {"parts": rows.parts, "targets": rows.targets} | arrays
    for name, array in arrays.items():
        store_array(folder, array, f"{name}-{start}")
    return rows.nbytes


def _load(folder: str, start: int) -> PersistedRows:
    """Map rows that begin at ``start``."""
    pointers, columns, values = (map_array(_path(folder, name, start)) for name in ("pointers", "columns", "values"))
    parts = targets = _NONE
    if os.path.exists(_path(folder, "parts", start)):
        parts, targets = (map_array(_path(folder, name, start)) for name in ("parts", "targets"))
    rows = PersistedRows(CSRRows(pointers, columns, values), parts, targets)
    count_files(read=rows.nbytes)
    return rows


@dataclass(frozen=True, slots=True)
class StoreRows:
    """Write ranges of the rows of a matrix whose order leads with them."""

    path: str
    dtype: np.dtype[Any] = field(compare=False)
    """Dtype of the sums."""

    def __call__(self, scans: list[Scan], start: int, stop: int, folder: str) -> int:
        """Write rows [start, stop); return their bytes."""
        part = cut_range(scans[0], start, stop)
        with memory.reserve(0, "rows of a matrix that is multiplied repeatedly") as room:
            if part.step is None:
                rows = persist_rows(part, self.dtype, room)
            else:
                block = _stream.evaluate(part, own=False)
                values = finish_values(block.values, part.schema.fill_value, self.dtype, room)
                at, columns = block.coords
                rows = to_rows(at, columns, values, _NONE, None, part.schema.shape, room)
            return _save(self.path, start, rows)


def chunks_in_order(scan: Scan) -> list[Chunk]:
    """Return the chunks of a relation in the order of the stream engine's sums."""
    chunks, runs = split_runs(scan.relation, scan.view.box(), product_order(scan))
    return [*chunks, *runs]


@dataclass(frozen=True, slots=True)
class SortRows:
    """Write parts of a matrix as runs that are sorted by row.

    Elements of a row stay in order. Parts are chunks of a relation, or ranges of the columns of an expression.
    """

    checksum: int = 0
    """Checksum of the numbers of rows of the chunks."""

    def __call__(self, scans: list[Scan], start: int, stop: int, folder: str) -> StoredRun:
        """Sort part [start, stop)."""
        (scan,) = scans
        with memory.reserve(0, "elements of a matrix that is multiplied repeatedly") as room:
            block = self._read(scan, start, stop)
            room.grow(3 * block.nbytes)
            return store_run(sort_block(block, scan.schema.shape, leading=1), folder)

    def _read(self, scan: Scan, start: int, stop: int) -> Block:
        if scan.step is not None:
            block, dtype = _stream.evaluate(cut_range(scan, start, stop, 1), own=False), scan.schema.coordinate_dtype(1)
            return Block((block.coords[0], block.coords[1].astype(dtype) + dtype.type(start)), block.values)
        chunks = check_chunks(chunks_in_order(scan), self.checksum)
        blocks = list(map_blocks(scan, lambda block: block, product_order(scan), chunks[start:stop]))
        return concat_blocks(blocks, 2, scan.schema.dtype)


@dataclass(frozen=True, slots=True)
class MergeRows:
    """Write ranges of the rows of a matrix, gathered from sorted runs."""

    path: str
    runs: Sequence[StoredRun] = field(compare=False)
    schema: Schema
    """Schema of the matrix."""
    dtype: np.dtype[Any] = field(compare=False)
    """Dtype of the sums."""

    def __call__(self, scans: list[Scan], start: int, stop: int, folder: str) -> int:
        """Write rows [start, stop); return their bytes."""
        schema = self.schema
        with memory.reserve(0, "rows of a matrix that is multiplied repeatedly") as room:
            parts = []
            for found in itertools.chain.from_iterable(run.read(start, stop) for run in self.runs):
                room.grow(2 * found.nbytes)
                assert found.values is not None
                parts.append(Block(found.coords, found.values))
            block = concat_blocks(parts, 2, schema.dtype)
            values = finish_values(block.values, schema.fill_value, self.dtype, room)
            at, columns = block.coords[0] - block.coords[0].dtype.type(start), block.coords[1]
            shape = (stop - start, schema.shape[1])
            return _save(self.path, start, to_rows(at, columns, values, _NONE, None, shape, room))


@dataclass(frozen=True, slots=True)
class MultiplyRows:
    """Multiply rows in files with an array."""

    path: str
    starts: tuple[int, ...]
    """First row of each file, ascending."""
    x: Any
    """Array in the dtype of the sums, shape (k,) or (k, c)."""
    max_bytes: int

    def __call__(self, scans: list[Scan], start: int, stop: int, folder: str) -> Any:
        """Return the product of rows [start, stop), less the fill."""
        x = np.asarray(self.x)
        out = np.zeros((stop - start, *x.shape[1:]), x.dtype)
        with np.errstate(all="ignore"):
            for first in self.starts[bisect_left(self.starts, start) : bisect_left(self.starts, stop)]:
                rows = _load(self.path, first)
                rows.accumulate(None, x, out[first - start : first - start + rows.height])
        return array_result(folder, out, self.max_bytes)
