"""Protocols of relations and of handles that edit them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from sparrow.core.indexing import Box
from sparrow.core.schema import Schema
from sparrow.kernels.coo import Block
from sparrow.relations.edits import Edit, Growth
from sparrow.runtime import settings
from sparrow.runtime.thread_pool import ordered_map

__all__ = [
    "ArrowSource",
    "Chunk",
    "Handle",
    "ParquetSource",
    "Relation",
    "ScanStats",
    "StoredColumn",
    "base_orders",
    "count_elements",
    "scan",
]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Unit of parallel I/O: a row group of a file, or a slice of arrays."""

    rows: int
    low: tuple[int, ...]
    """Smallest coordinate of each dimension."""
    high: tuple[int, ...]
    """Largest coordinate of each dimension."""
    ref: Any
    """Reference that its relation resolves; opaque to others."""
    is_exact: bool = True
    """True if ``rows`` is an exact count of elements."""


@dataclass(frozen=True, slots=True)
class ScanStats:
    """Amount of data that a scan of a box reads.

    ``rows`` and ``nbytes`` are totals of the row groups read. ``row_groups`` is an estimate for skipped files, whose
    footers are not read. ``inside`` estimates the rows in the box, assuming that rows are uniform within the bounds of
    their row groups. ``skipped_nbytes`` are the bytes of the other row groups and files.
    """

    files: int
    files_read: int
    row_groups: int
    row_groups_read: int
    rows: int
    nbytes: int
    inside: float
    skipped_nbytes: int = 0

    def plus(self, other: ScanStats) -> ScanStats:
        """Return the sum of two scans."""
        return ScanStats(
            self.files + other.files,
            self.files_read + other.files_read,
            self.row_groups + other.row_groups,
            self.row_groups_read + other.row_groups_read,
            self.rows + other.rows,
            self.nbytes + other.nbytes,
            self.inside + other.inside,
            self.skipped_nbytes + other.skipped_nbytes,
        )


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """Representation of a logical column in the files.

    Examples
    --------
    >>> StoredColumn("value", ("value",), pa.int16(), np.dtype(np.uint8)).is_plain
    False
    """

    name: str
    """Dimension name, or ``value``."""
    stored: tuple[str, ...]
    """Columns of the files: one, or real and imaginary part."""
    kind: pa.DataType
    """Arrow type of these columns."""
    dtype: np.dtype[Any]
    """Logical dtype, to which engines cast."""

    @property
    def is_plain(self) -> bool:
        """True if the stored column equals the logical one."""
        return len(self.stored) == 1 and self.kind == pa.from_numpy_dtype(self.dtype)


@dataclass(frozen=True, slots=True)
class ParquetSource:
    """Files for a SQL scan."""

    paths: tuple[str, ...]
    columns: tuple[StoredColumn, ...]
    """Logical columns, coordinates first."""


@dataclass(frozen=True, slots=True)
class ArrowSource:
    """Arrow table or dataset for a SQL scan, with logical column names and types."""

    table: Any


class Relation(Protocol):
    """Immutable set of canonical elements, readable from several threads."""

    @property
    def schema(self) -> Schema:
        """Shape, dimension names, dtype and fill value."""

    @property
    def token(self) -> Hashable:
        """Identity of the content: equal tokens imply equal elements."""

    @property
    def nnz(self) -> int:
        """Number of stored elements, known without I/O.

        Answers are those of :func:`count_elements`.
        """

    @property
    def nbytes(self) -> int:
        """Bytes of the data files, or of the arrays."""

    @property
    def version(self) -> int | None:
        """Version of a stored tensor; None in memory."""

    @property
    def has_exact_counts(self) -> bool:
        """True if the rows of chunks are exact counts of their elements."""

    @property
    def orders(self) -> tuple[tuple[int, ...], ...]:
        """Sort orders available to scans, the base order (0, 1, ...) first."""

    @property
    def label_keys(self) -> Mapping[int, Hashable]:
        """Identity of the labels of each labelled dimension, without I/O.

        Equal keys imply equal labels.
        """

    def labels(self, dim: int) -> pa.Array | None:
        """Return the labels of a dimension by coordinate, or None. May do I/O."""

    def chunks(self, box: Box, order: tuple[int, ...] | None = None) -> list[Chunk]:
        """Return the chunks that may contain elements of the box, in sort order.

        Reads no data pages.
        """

    @property
    def is_small(self) -> bool:
        """True if all elements are one chunk, available without I/O."""

    def read_small(self) -> Block | None:
        """Return all elements in base order if :attr:`is_small`, else None.

        The arrays are read-only.
        """

    def read(self, chunk: Chunk, dims: Sequence[int] | None = None) -> Block:
        """Return the elements of a chunk.

        ``coords`` are in the order of dimensions in any sort order. Only coordinates along ``dims`` (default: all) are
        decoded; other columns have arbitrary content.
        """

    def stats(self, box: Box, order: tuple[int, ...] | None = None) -> ScanStats:
        """Return the amount of data that a scan of the box reads.

        Reads no data pages.
        """

    def source(self, box: Box, order: tuple[int, ...] | None = None) -> ParquetSource | ArrowSource:
        """Return the source of a SQL scan, a superset of the box."""


def count_elements(relation: Relation) -> int:
    """Return the number of stored elements, known without I/O.

    Raises
    ------
    CorruptionError
        If another tool wrote to the folder of a stored tensor: its rows may repeat elements, or leave the shape.
    """
    check = getattr(relation, "check_own", None)
    if check is not None:
        check()
    return relation.nnz


def scan(relation: Relation, box: Box, order: tuple[int, ...] | None = None) -> Iterator[Block]:
    """Yield blocks that contain all elements of the box, in sort order.

    They may contain other elements. Chunks are decoded on threads.
    """
    yield from ordered_map(relation.read, relation.chunks(box, order), settings.current().threads)


class Handle(Protocol):
    """Mutable reference to the current relation, shared by a tensor and its views."""

    @property
    def current(self) -> Relation:
        """Current relation."""

    @property
    def path(self) -> str | None:
        """Location of a stored tensor; None in memory."""

    def commit(self, edit: Edit) -> Relation:
        """Apply an edit to the current relation atomically, and return the new one."""

    def grow(self, growth: Callable[[Relation], Growth], operation: str = "append") -> Relation:
        """Append atomically.

        ``growth`` is called again with the current relation if another commit came first.
        """

    def refresh(self) -> Relation:
        """Load commits of other processes and return the current relation."""


@lru_cache(128)
def base_orders(ndim: int) -> tuple[tuple[int, ...], ...]:
    """Return the sort orders of a relation with the base order only."""
    return (tuple(range(ndim)),)
