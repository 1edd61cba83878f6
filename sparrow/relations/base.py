"""What every source of entries offers, whether it is files or memory, and the one in memory.

A :class:`Relation` is a frozen set of entries: one version of a stored tensor, or arrays. A
:class:`Handle` is what live tensors share: it knows the current relation and commits edits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.core.indexing import Box
from sparrow.core.schema import Schema, is_fill
from sparrow.kernels.coo import Block, CSRBlock, Duplicates, RowIndex, merge_blocks
from sparrow.runtime import settings
from sparrow.runtime.thread_pool import ordered_map

__all__ = [
    "ArrowSource",
    "Chunk",
    "Edit",
    "Growth",
    "Handle",
    "MemoryHandle",
    "MemoryRelation",
    "ParquetSource",
    "Relation",
    "RowSlices",
    "ScanStats",
    "StoredColumn",
    "apply_edit",
    "arrow_schema",
    "arrow_table",
    "as_arrow",
    "as_numpy",
    "base_orders",
    "labelled_table",
    "merge_labels",
    "scan",
]


@dataclass(frozen=True, slots=True)
class Chunk:
    """The unit of parallel reading: a row group of a file, or a piece of the arrays in memory."""

    rows: int
    low: tuple[int, ...]
    """Smallest coordinate of each dimension."""
    high: tuple[int, ...]
    """Largest coordinate of each dimension."""
    ref: Any
    """What the relation needs to find it."""
    counted: bool = True
    """Whether ``rows`` is how many entries it has, and no estimate."""


@dataclass(frozen=True, slots=True)
class ScanStats:
    """What a scan of a box touches. ``rows`` and ``nbytes`` are those of the row groups read.

    ``row_groups`` is an estimate as to files that are passed over: nobody reads their footers for it; so is ``inside``,
    how many of the rows lie in the box, if they lie anywhere between the bounds of their row groups.
    """

    files: int
    files_read: int
    row_groups: int
    row_groups_read: int
    rows: int
    nbytes: int
    inside: float

    def plus(self, other: ScanStats) -> ScanStats:
        """Return what two scans touch together."""
        return ScanStats(
            self.files + other.files,
            self.files_read + other.files_read,
            self.row_groups + other.row_groups,
            self.row_groups_read + other.row_groups_read,
            self.rows + other.rows,
            self.nbytes + other.nbytes,
            self.inside + other.inside,
        )


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """How a logical column lies in the files.

    Examples
    --------
    >>> StoredColumn("value", ("value",), pa.int16(), np.dtype(np.uint8)).plain
    False
    """

    name: str
    """The name of the dimension, or ``value``."""
    stored: tuple[str, ...]
    """The columns of the files: one, or real and imaginary part."""
    kind: pa.DataType
    """The type of these columns."""
    dtype: np.dtype[Any]
    """The type of what they mean, which every engine makes of them with casts of its own."""

    @property
    def plain(self) -> bool:
        """Whether the column of the files is the logical one as it is."""
        return len(self.stored) == 1 and self.kind == pa.from_numpy_dtype(self.dtype)


@dataclass(frozen=True, slots=True)
class ParquetSource:
    """Files for a SQL scan: paths, and how each logical column lies in them."""

    paths: tuple[str, ...]
    columns: tuple[StoredColumn, ...]
    """How the logical columns lie in the files, coordinates first."""


@dataclass(frozen=True, slots=True)
class ArrowSource:
    """An Arrow table or dataset for a SQL scan, its columns named and typed as the logical ones."""

    table: Any


class Relation(Protocol):
    """A frozen set of entries, canonical, readable from several threads."""

    @property
    def schema(self) -> Schema:
        """Shape, names, dtype, fill."""

    @property
    def token(self) -> Hashable:
        """Equal tokens mean equal entries."""

    @property
    def nnz(self) -> int:
        """The number of entries, known without reading data."""

    @property
    def nbytes(self) -> int:
        """Bytes of the data files, or of the arrays."""

    @property
    def version(self) -> int | None:
        """The version of a stored tensor, None in memory."""

    @property
    def exact(self) -> bool:
        """Whether the rows of a chunk are its entries, counted, and no estimate."""

    @property
    def orders(self) -> tuple[tuple[int, ...], ...]:
        """The sort orders that can be scanned; the first is the base order (0, 1, ...)."""

    @property
    def label_keys(self) -> Mapping[int, Hashable]:
        """For each dimension that has labels what tells them: equal keys mean equal labels. Reads nothing."""

    def labels(self, dim: int) -> pa.Array | None:
        """Return the labels of a dimension, position = coordinate, or None. Reads."""

    def chunks(self, box: Box, order: tuple[int, ...] | None = None) -> list[Chunk]:
        """Return the chunks that may hold entries of the box, sorted by the order. Reads no data pages."""

    @property
    def is_small(self) -> bool:
        """Whether there is at most a chunk of elements, available without reading files: see ``read_small``."""

    def read_small(self) -> Block | None:
        """Return all elements in the base order, read-only, if ``is_small``; else None."""

    def read(self, chunk: Chunk, dims: Sequence[int] | None = None) -> Block:
        """Return the entries of a chunk: coords by dimension number whatever the order, values in the dtype.

        Only the coordinates along ``dims`` (all of them by default) are wanted: the others need not be decoded, their
        columns have the length of the values and may hold anything.
        """

    def stats(self, box: Box, order: tuple[int, ...] | None = None) -> ScanStats:
        """Return what a scan of the box touches. Reads no data pages."""

    def source(self, box: Box, order: tuple[int, ...] | None = None) -> ParquetSource | ArrowSource:
        """Return what a SQL engine scans for the box (a superset of it)."""


def scan(relation: Relation, box: Box, order: tuple[int, ...] | None = None) -> Iterator[Block]:
    """Yield blocks that hold every entry of the box and possibly others, sorted by the order.

    Chunks are decoded on the threads of the settings and come in order.
    """
    yield from ordered_map(relation.read, relation.chunks(box, order), settings.current().threads)


@dataclass(frozen=True, slots=True)
class Edit:
    """One atomic change: cells cleared, then entries written.

    ``upsert`` holds base coordinates, sorted and unique; a value that equals fill removes the cell.
    ``existing`` says what an entry does to a cell that has one: ``"last"`` replaces it.
    """

    operation: str
    clear: tuple[Box, ...] = ()
    upsert: Block | None = None
    existing: Duplicates = "last"
    shape: tuple[int, ...] | None = None
    """The new shape, if it changes."""


@dataclass(frozen=True, slots=True)
class Growth:
    """What is appended with labels that dimensions have not had so far."""

    labels: Mapping[int, pa.Array | None]
    """All labels, old ones first, of the dimensions that grow; None takes those of a dimension away."""
    shape: tuple[int, ...]
    edits: Callable[[], Iterable[Edit]]
    """Begins the entries, at coordinates of the new shape; no edit clears."""
    kept: Mapping[int, int] = field(default_factory=dict)
    """How many of the labels a dimension has already, where the others come after them."""


T = TypeVar("T")


def merge_labels(old: Mapping[int, T], new: Mapping[int, T | None]) -> dict[int, T]:
    """Return labels by dimension with new ones in place of old ones; None takes them away."""
    return {dim: found for dim, found in {**old, **new}.items() if found is not None}


class Handle(Protocol):
    """What live tensors share: a base, its views and theirs hold one handle."""

    @property
    def current(self) -> Relation:
        """The current relation."""

    @property
    def path(self) -> str | None:
        """Where the tensor is stored, None in memory."""

    def commit(self, edit: Edit) -> Relation:
        """Apply the edit to the current relation, atomically, and return the new one."""

    def grow(self, growth: Callable[[Relation], Growth], operation: str = "append") -> Relation:
        """Append what a growth says of the relation that it turns out to go on top of, all of it at once."""

    def refresh(self) -> Relation:
        """Take in commits of other processes."""


def apply_edit(block: Block, edit: Edit, schema: Schema) -> Block:
    """Return canonical entries with an edit applied to them: the meaning of every edit, in memory.

    Raises
    ------
    DuplicateError
        If ``existing`` is ``"error"`` and a cell of ``upsert`` has an entry.
    """
    for box in edit.clear:
        block = block.take(~box.contains(block.coords)) if block.count else block
    if edit.upsert is not None and edit.upsert.count:
        block = merge_blocks(block, edit.upsert, schema.shape, edit.existing)
    absent = is_fill(block.values, schema.fill_value)
    return block.take(~absent) if absent.any() else block


@lru_cache(128)
def base_orders(ndim: int) -> tuple[tuple[int, ...], ...]:
    """Return the sort orders of what has the base order only."""
    return (tuple(range(ndim)),)


_tokens = itertools.count()
_CHUNK = 1 << 18
_HANDFUL = 1 << 11
"""Entries that are taken from their places before a loop for it is there."""


@dataclass(frozen=True, slots=True, eq=False)
class RowSlices:
    """Positions of entries in arrays: from ``starts[k]`` up to ``stops[k]``, each for one k after another."""

    starts: NDArray[np.int64]
    stops: NDArray[np.int64]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many there are of each k."""
        return self.stops - self.starts

    def take(self, columns: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """Return what stands there in each of some arrays."""
        lengths = self.lengths
        ends = np.cumsum(lengths)
        count, begins = int(ends[-1]) if len(ends) else 0, ends - lengths
        if count < _HANDFUL:
            at = np.arange(count)
            at += np.repeat(self.starts - begins, lengths)
            return [column[at] for column in columns]
        from sparrow.kernels.rows import copy_rows

        def taken(column: NDArray[Any]) -> NDArray[Any]:
            out = np.empty(count, column.dtype)
            copy_rows(self.starts, self.stops, begins, column, out)
            return out

        return list(ordered_map(taken, columns, settings.current().threads if count >= _CHUNK else 1))

    def block(self, entries: Block) -> Block:
        """Return those of some entries that stand there."""
        *coords, values = self.take([*entries.coords, entries.values])
        return Block(tuple(coords), values)

    def joined(self) -> RowSlices:
        """Return them without what is empty, neighbours as one."""
        starts, stops = (side[self.stops > self.starts] for side in (self.starts, self.stops))
        apart = np.append(True, starts[1:] != stops[:-1])[: len(starts)]
        return RowSlices(starts[apart], stops[np.append(apart[1:], True)[: len(stops)]])

    def cut(self, size: int) -> Iterator[RowSlices]:
        """Yield them in parts of so many positions; the last may have fewer."""
        ends = np.cumsum(self.lengths)
        begins = ends - self.lengths
        for first in range(0, int(ends[-1]) if len(ends) else 0, size):
            low, high = np.searchsorted(ends, first, "right"), np.searchsorted(begins, first + size, "left")
            part = slice(int(low), int(high))
            starts = self.starts[part] + np.maximum(first - begins[part], 0)
            stops = self.stops[part] - np.maximum(ends[part] - (first + size), 0)
            yield RowSlices(starts, stops)


def _laid_out(block: Block, schema: Schema) -> Block:
    """Return entries as one stretch for each column, in the types of a schema, without a copy where they are."""
    kinds, values = schema.coordinate_dtypes, block.values
    as_it_is = values.dtype is schema.dtype and values.flags.c_contiguous
    own = (*block.heads.coords, *block.rest.coords) if isinstance(block, CSRBlock) else block.coords
    for column, dtype in zip(own, kinds, strict=True):
        as_it_is = as_it_is and column.dtype is dtype and column.flags.c_contiguous
    if as_it_is:
        return block
    coords = tuple(map(np.ascontiguousarray, block.coords, kinds))
    return Block(coords, np.ascontiguousarray(values, schema.dtype))


class MemoryRelation:
    """Canonical entries in arrays.

    Parameters
    ----------
    schema
        Shape, names, dtype, fill.
    block
        Canonical entries (see :func:`sparrow.kernels.coo.canonicalize`); not copied.
    labels
        Labels by dimension number.
    """

    version = None
    exact = True

    def __init__(self, schema: Schema, block: Block, labels: dict[int, pa.Array] | None = None) -> None:
        self.schema = schema
        self.block = _laid_out(block, schema)
        self.nnz = len(block.values)
        self.is_small = self.nnz <= _CHUNK
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

    def by_rows(self) -> Block:
        """Return the entries, where rows are long with each told once: that is kept once it is known."""
        block = self.block
        if self.is_small or isinstance(block, CSRBlock) or not block.coords:
            return block
        found = CSRBlock.of(block)
        if found.heads.saves_memory:
            self.block = found
        return found

    def places(self, leading: NDArray[Any]) -> RowSlices:
        """Return where the entries of each of some coordinates of the leading dimension stand."""
        block = self.block
        if isinstance(block, CSRBlock) and len(block.heads.coords) == 1:
            (rows,), pointers = block.heads.coords, block.heads.pointers
            leading = leading.astype(rows.dtype)
            first, last = (np.searchsorted(rows, leading, side) for side in ("left", "right"))
            return RowSlices(pointers[first], pointers[last])
        column = block.coords[0]
        leading = leading.astype(column.dtype)  # else the column would be cast
        return RowSlices(np.searchsorted(column, leading, "left"), np.searchsorted(column, leading, "right"))

    def some(self, leading: NDArray[Any], places: RowSlices) -> CSRBlock:
        """Return the entries of some ascending coordinates of the leading dimension, which stand at such places."""
        lengths = places.lengths
        there = lengths > 0
        rows = leading[there].astype(self.schema.coordinate_dtype(0), copy=False)
        *coords, values = places.take([*map(self.block.column, range(1, self.schema.ndim)), self.block.values])
        return CSRBlock(RowIndex((rows,), np.append(0, np.cumsum(lengths[there]))), Block(tuple(coords), values))

    def at(self, cell: Sequence[int]) -> Any:
        """Return the value of the entry of a cell, None where it has none."""
        start, stop = 0, len(self.block.values)
        for column, coordinate in zip(self.block.coords, cell, strict=True):
            part, wanted = column[start:stop], column.dtype.type(coordinate)  # an integer would cast the whole column
            start, stop = start + part.searchsorted(wanted), start + part.searchsorted(wanted, "right")
        return self.block.values[start] if start < stop else None

    def _rows(self, box: Box) -> tuple[int, int]:
        """Return the positions between which the box lies, by the leading dimension."""
        if not self.schema.ndim:
            return 0, self.nnz
        leading = box.ranges[0]
        if len(leading) == 0:
            return 0, 0
        if len(leading) == self.schema.shape[0]:
            return 0, self.nnz
        column = self.block.coords[0]
        low, high = column.dtype.type(leading[0]), column.dtype.type(leading[-1])  # else the column would be cast
        return int(np.searchsorted(column, low, "left")), int(np.searchsorted(column, high, "right"))

    def _listed(self, box: Box) -> RowSlices | None:
        """Return where entries of the box stand, if its leading dimension is under a list."""
        return next((self.places(wanted).joined() for dim, wanted in box.members if dim == 0), None)

    def chunks(self, box: Box, order: tuple[int, ...] | None = None) -> list[Chunk]:
        """Return pieces of the arrays: those between the bounds of the leading dimension, or of its members."""
        ndim = self.schema.ndim
        low, high = (0,) * ndim, tuple(n - 1 for n in self.schema.shape)
        listed, out = self._listed(box), []
        if listed is not None:
            leading = self.block.coords[0]
            for part in listed.cut(_CHUNK):
                low = (int(leading[part.starts[0]]), *low[1:])
                high = (int(leading[part.stops[-1] - 1]), *high[1:])
                out.append(Chunk(int(part.lengths.sum()), low, high, part))
            return out
        start, stop = self._rows(box)
        for first in range(start, stop, _CHUNK):
            last = min(first + _CHUNK, stop)
            if ndim:
                leading = self.block.coords[0]
                low = (int(leading[first]), *low[1:])
                high = (int(leading[last - 1]), *high[1:])
            out.append(Chunk(last - first, low, high, (first, last)))
        return out

    def read_small(self) -> Block:
        """Return the arrays."""
        return self.block

    def read(self, chunk: Chunk, dims: Sequence[int] | None = None) -> Block:
        """Return a piece of the arrays, without a copy where it is one stretch."""
        if isinstance(chunk.ref, RowSlices):
            return chunk.ref.block(self.block)
        return self.block.take(slice(*chunk.ref))

    def stats(self, box: Box, order: tuple[int, ...] | None = None) -> ScanStats:
        """Return what a scan of the box touches; arrays count as no files."""
        start, stop = self._rows(box)
        listed = self._listed(box)
        rows = stop - start if listed is None else int(listed.lengths.sum())
        width = self.nbytes // self.nnz if self.nnz else 0
        inside = float(rows)
        if rows:
            inside *= math.prod(map(len, box.ranges[1:])) / math.prod(self.schema.shape[1:])
            inside /= box.ranges[0].step if box.ranges and listed is None else 1
        return ScanStats(0, 0, 0, 0, rows, rows * width, inside)

    def source(self, box: Box, order: tuple[int, ...] | None = None) -> ArrowSource:
        """Return the entries between the bounds of the leading dimension as an Arrow table, without a copy."""
        start, stop = self._rows(box)
        return ArrowSource(arrow_table(self.schema, self.block.take(slice(start, stop))))


def arrow_schema(schema: Schema) -> pa.Schema:
    """Return the columns of entries in Arrow: one for each dimension, then ``value`` (and ``value_im``)."""
    fields = [
        pa.field(name, pa.from_numpy_dtype(schema.coordinate_dtype(dim)), nullable=False)
        for dim, name in enumerate(schema.dims)
    ]
    real = np.empty(0, schema.dtype).real.dtype
    fields.append(pa.field("value", pa.from_numpy_dtype(real), nullable=False))
    if schema.dtype.kind == "c":
        fields.append(pa.field("value_im", pa.from_numpy_dtype(real), nullable=False))
    return pa.schema(fields)


def as_arrow(column: NDArray[Any]) -> pa.Array:
    """Return numbers as an Arrow array, of the same memory where it is contiguous.

    ``pa.array`` would import pandas, to see whether this is one of its series, which takes longer than many a command.
    """
    if column.dtype.kind not in "iuf":
        return pa.array(column)
    memory = pa.py_buffer(np.ascontiguousarray(column))
    return pa.Array.from_buffers(pa.from_numpy_dtype(column.dtype), len(column), [None, memory])


def as_numpy(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """Return an Arrow array without nulls as NumPy's, numbers of the same memory; ``to_numpy`` would import pandas."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_integer(array.type) or pa.types.is_floating(array.type):
        numbers: NDArray[Any] = np.from_dlpack(array)
        return numbers
    cells: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return cells


def arrow_table(schema: Schema, block: Block) -> pa.Table:
    """Return entries as an Arrow table with the columns of :func:`arrow_schema`."""
    columns = [
        as_arrow(column.astype(schema.coordinate_dtype(dim), copy=False)) for dim, column in enumerate(block.coords)
    ]
    if schema.dtype.kind == "c":
        columns.append(as_arrow(block.values.real))
        columns.append(as_arrow(block.values.imag))
    else:
        columns.append(as_arrow(block.values))
    return pa.Table.from_arrays(columns, schema=arrow_schema(schema))


def labelled_table(schema: Schema, block: Block, labels: Mapping[int, pa.Array]) -> pa.Table:
    """Return entries as :func:`arrow_table` does, with labels in place of coordinates along some dimensions."""
    table = arrow_table(schema, block)
    for dim, names in labels.items():
        table = table.set_column(dim, schema.dims[dim], names.take(pa.array(block.coords[dim])))
    return table


class MemoryHandle:
    """The handle of a tensor in memory."""

    path = None

    def __init__(self, relation: MemoryRelation) -> None:
        self.current = relation

    def commit(self, edit: Edit) -> MemoryRelation:
        """Apply the edit; readers of the old relation keep it."""
        old = self.current
        shape = old.schema.shape if edit.shape is None else edit.shape
        schema = Schema(shape, old.schema.dims, old.schema.dtype, old.schema.fill_value, old.schema.stype)
        block = apply_edit(old.block, edit, schema)
        self.current = type(old)(schema, block, old._labels)
        return self.current

    def grow(self, growth: Callable[[Relation], Growth], operation: str = "append") -> MemoryRelation:
        """Append with new labels; readers of the old relation keep it."""
        old = self.current
        found = growth(old)
        schema = replace(old.schema, shape=found.shape)
        block = old.block
        for edit in found.edits():
            block = apply_edit(block, edit, schema)
        self.current = type(old)(schema, block, merge_labels(old._labels, found.labels))
        return self.current

    def refresh(self) -> MemoryRelation:
        """Return the current relation: memory has no other writers."""
        return self.current
