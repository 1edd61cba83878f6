"""Relations in memory: canonical elements in arrays."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.core.indexing import Box, View
from sparrow.core.schema import Schema
from sparrow.kernels.coo import Block, CSRBlock, RowIndex
from sparrow.kernels.dispatch import prefer_numpy
from sparrow.relations.arrow import arrow_table
from sparrow.relations.edits import Edit, Growth, apply_edit, merge_labels
from sparrow.relations.protocol import ArrowSource, Chunk, Relation, ScanStats, base_orders
from sparrow.relations.tuning import tuning
from sparrow.runtime import events, settings
from sparrow.runtime.thread_pool import ordered_map

__all__ = ["MemoryHandle", "MemoryRelation", "RowSlices"]

_tokens = itertools.count()


@dataclass(frozen=True, slots=True, eq=False)
class RowSlices:
    """Slices ``starts[k]:stops[k]`` of a sorted block, one per requested row."""

    starts: NDArray[np.int64]
    stops: NDArray[np.int64]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of elements per row."""
        return self.stops - self.starts

    def take(self, columns: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """Concatenate the slices of each column."""
        lengths = self.lengths
        ends = np.cumsum(lengths)
        count, begins = int(ends[-1]) if len(ends) else 0, ends - lengths
        if prefer_numpy("copy_rows", count):
            at = np.arange(count)
            at += np.repeat(self.starts - begins, lengths)
            return [column[at] for column in columns]
        from sparrow.kernels.rows import copy_rows

        def gather(column: NDArray[Any]) -> NDArray[Any]:
            out = np.empty(count, column.dtype)
            copy_rows(self.starts, self.stops, begins, column, out)
            return out

        return list(ordered_map(gather, columns, settings.current().threads if count >= tuning().chunk_elements else 1))

    def take_block(self, block: Block) -> Block:
        """Return the elements of the slices."""
        *coords, values = self.take([*block.coords, block.values])
        return Block(tuple(coords), values)

    def coalesce(self) -> RowSlices:
        """Drop empty slices and merge adjacent ones."""
        starts, stops = (side[self.stops > self.starts] for side in (self.starts, self.stops))
        apart = np.append(True, starts[1:] != stops[:-1])[: len(starts)]
        return RowSlices(starts[apart], stops[np.append(apart[1:], True)[: len(stops)]])

    def split(self, size: int) -> Iterator[RowSlices]:
        """Yield partitions of ``size`` elements; the last may be smaller."""
        ends = np.cumsum(self.lengths)
        begins = ends - self.lengths
        for first in range(0, int(ends[-1]) if len(ends) else 0, size):
            low, high = np.searchsorted(ends, first, "right"), np.searchsorted(begins, first + size, "left")
            part = slice(int(low), int(high))
            starts = self.starts[part] + np.maximum(first - begins[part], 0)
            stops = self.stops[part] - np.maximum(ends[part] - (first + size), 0)
            yield RowSlices(starts, stops)


def _as_contiguous(block: Block, schema: Schema) -> Block:
    """Return contiguous columns in the dtypes of a schema, copied if necessary."""
    kinds, values = schema.coordinate_dtypes, block.values
    is_canonical = values.dtype is schema.dtype and values.flags.c_contiguous
    own = (*block.heads.coords, *block.rest.coords) if isinstance(block, CSRBlock) else block.coords
    for column, dtype in zip(own, kinds, strict=True):
        is_canonical = is_canonical and column.dtype is dtype and column.flags.c_contiguous
    if is_canonical:
        return block
    coords = tuple(map(np.ascontiguousarray, block.coords, kinds))
    return Block(coords, np.ascontiguousarray(values, schema.dtype))


class MemoryRelation:
    """Relation of canonical elements in arrays.

    Parameters
    ----------
    schema
        Schema of the tensor.
    block
        Canonical elements (see :func:`sparrow.kernels.coo.canonicalize`); not copied.
    labels
        Labels by dimension number.
    origin
        Token and view of the tensor of which the elements are a copy, or an element-wise function: alignment by name
        finds a tensor that meets its own transpose by it.
    """

    version = None
    has_exact_counts = True

    def __init__(
        self,
        schema: Schema,
        block: Block,
        labels: dict[int, pa.Array] | None = None,
        origin: tuple[Hashable, View] | None = None,
    ) -> None:
        self.schema = schema
        self.origin = origin
        self.block = _as_contiguous(block, schema)
        self.nnz = len(block.values)
        self.is_small = self.nnz <= tuning().chunk_elements
        self._labels = labels or {}
        self.label_keys = {dim: ("labels", id(found)) for dim, found in labels.items()} if labels else {}
        self.token = ("memory", next(_tokens))

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.block.nbytes

    @property
    def orders(self) -> tuple[tuple[int, ...], ...]:
        """The base order only."""
        return base_orders(len(self.schema.shape))

    def labels(self, dim: int) -> pa.Array | None:
        """Return the labels of a dimension, or None."""
        return self._labels.get(dim)

    def as_csr_block(self) -> Block:
        """Return all elements, in CSR form if rows are long enough; cached."""
        block = self.block
        if self.is_small or isinstance(block, CSRBlock) or not block.coords:
            return block
        found = CSRBlock.of(block)
        if found.heads.saves_memory:
            self.block = found
        return found

    def find_rows(self, leading: NDArray[Any]) -> RowSlices:
        """Return the slice of elements at each leading coordinate."""
        block = self.block
        if isinstance(block, CSRBlock) and len(block.heads.coords) == 1:
            (rows,), pointers = block.heads.coords, block.heads.pointers
            leading = leading.astype(rows.dtype)
            first, last = (np.searchsorted(rows, leading, side) for side in ("left", "right"))
            return RowSlices(pointers[first], pointers[last])
        column = block.coords[0]
        leading = leading.astype(column.dtype)  # otherwise the column would be cast
        return RowSlices(np.searchsorted(column, leading, "left"), np.searchsorted(column, leading, "right"))

    def read_rows(self, leading: NDArray[Any], slices: RowSlices) -> CSRBlock:
        """Return the elements at ascending leading coordinates, by their slices."""
        lengths = slices.lengths
        stored = lengths > 0
        rows = leading[stored].astype(self.schema.coordinate_dtype(0), copy=False)
        *coords, values = slices.take([*map(self.block.column, range(1, self.schema.ndim)), self.block.values])
        return CSRBlock(RowIndex((rows,), np.append(0, np.cumsum(lengths[stored]))), Block(tuple(coords), values))

    def value_at(self, coordinates: Sequence[int]) -> Any:
        """Return the stored value at coordinates, or None."""
        start, stop = 0, len(self.block.values)
        for column, coordinate in zip(self.block.coords, coordinates, strict=True):
            part, wanted = column[start:stop], column.dtype.type(coordinate)  # a Python integer would cast the column
            start, stop = start + part.searchsorted(wanted), start + part.searchsorted(wanted, "right")
        return self.block.values[start] if start < stop else None

    def _rows(self, box: Box) -> tuple[int, int]:
        """Return the slice of elements within the leading range of the box."""
        if not self.schema.ndim:
            return 0, self.nnz
        leading = box.ranges[0]
        if len(leading) == 0:
            return 0, 0
        if len(leading) == self.schema.shape[0]:
            return 0, self.nnz
        column = self.block.coords[0]
        low, high = column.dtype.type(leading[0]), column.dtype.type(leading[-1])  # otherwise the column would be cast
        return int(np.searchsorted(column, low, "left")), int(np.searchsorted(column, high, "right"))

    def _find_listed_rows(self, box: Box) -> RowSlices | None:
        """Return the slices of listed rows, or None without a list of rows."""
        return next((self.find_rows(wanted).coalesce() for dim, wanted in box.members if dim == 0), None)

    def chunks(self, box: Box, order: tuple[int, ...] | None = None) -> list[Chunk]:
        """Return slices of the arrays within the leading range or list of rows."""
        ndim = self.schema.ndim
        low, high = (0,) * ndim, tuple(n - 1 for n in self.schema.shape)
        listed, out = self._find_listed_rows(box), []
        if listed is not None:
            leading = self.block.coords[0]
            for part in listed.split(tuning().chunk_elements):
                low = (int(leading[part.starts[0]]), *low[1:])
                high = (int(leading[part.stops[-1] - 1]), *high[1:])
                out.append(Chunk(int(part.lengths.sum()), low, high, part))
            return out
        start, stop = self._rows(box)
        size = tuning().chunk_elements
        # The same chunks for all boxes, so that sums have the same bits.
        for begin in range(start - start % size if start < stop else stop, stop, size):
            first, last = max(begin, start), min(begin + size, stop)
            if ndim:
                leading = self.block.coords[0]
                low = (int(leading[first]), *low[1:])
                high = (int(leading[last - 1]), *high[1:])
            out.append(Chunk(last - first, low, high, (first, last)))
        return out

    def read_small(self) -> Block | None:
        """Return the arrays if they are one chunk, else None."""
        return self.block if self.is_small else None

    def read(self, chunk: Chunk, dims: Sequence[int] | None = None) -> Block:
        """Return a slice of the arrays, without a copy if contiguous."""
        events.emit("relations.read", rows=chunk.rows)
        if isinstance(chunk.ref, RowSlices):
            return chunk.ref.take_block(self.block)
        return self.block.take(slice(*chunk.ref))

    def stats(self, box: Box, order: tuple[int, ...] | None = None) -> ScanStats:
        """Return the amount of data that a scan of the box reads, without files."""
        start, stop = self._rows(box)
        listed = self._find_listed_rows(box)
        rows = stop - start if listed is None else int(listed.lengths.sum())
        width = self.nbytes // self.nnz if self.nnz else 0
        inside = float(rows)
        if rows:
            inside *= math.prod(map(len, box.ranges[1:])) / math.prod(self.schema.shape[1:])
            inside /= box.ranges[0].step if box.ranges and listed is None else 1
        return ScanStats(0, 0, 0, 0, rows, rows * width, inside, (self.nnz - rows) * width)

    def source(self, box: Box, order: tuple[int, ...] | None = None) -> ArrowSource:
        """Return the elements within the leading range of the box, without a copy."""
        start, stop = self._rows(box)
        return ArrowSource(arrow_table(self.schema, self.block.take(slice(start, stop))))


class MemoryHandle:
    """Handle of a tensor in memory."""

    path = None

    def __init__(self, relation: MemoryRelation) -> None:
        self.current = relation

    def commit(self, edit: Edit) -> MemoryRelation:
        """Apply an edit and return the new relation; the old one is unchanged."""
        old = self.current
        shape = old.schema.shape if edit.shape is None else edit.shape
        schema = Schema(shape, old.schema.dims, old.schema.dtype, old.schema.fill_value, old.schema.stype)
        block = apply_edit(old.block, edit, schema)
        self.current = type(old)(schema, block, old._labels)
        return self.current

    def grow(self, growth: Callable[[Relation], Growth], operation: str = "append") -> MemoryRelation:
        """Append with new labels; the old relation is unchanged."""
        old = self.current
        found = growth(old)
        schema = replace(old.schema, shape=found.shape)
        block = old.block
        for edit in found.edits():
            block = apply_edit(block, edit, schema)
        self.current = type(old)(schema, block, merge_labels(old._labels, found.labels))
        return self.current

    def refresh(self) -> MemoryRelation:
        """Return the current relation; memory has no other writers."""
        return self.current
