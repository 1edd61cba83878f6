"""One version of a stored tensor, readable from several threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from sparrow.core.indexing import Box
from sparrow.core.schema import Schema
from sparrow.errors import CorruptionError, InvalidValueError, NotFoundError, StorageError
from sparrow.kernels.coo import Block
from sparrow.relations.base import ArrowSource, Chunk, ParquetSource, ScanStats
from sparrow.storage.delta.append_runs import Decoded, Merged, Part, cut, merged
from sparrow.storage.delta.file_table import FileTable, beside, digest, groups_meeting, log_tables
from sparrow.storage.delta.labels import LABELS, Vocabulary, is_part, label_files, read_labels
from sparrow.storage.delta.log import Active, Log
from sparrow.storage.fs.filesystem import ByteRange, get_filesystem
from sparrow.storage.parquet.layout import Metadata, stored_columns
from sparrow.storage.parquet.reader import read_row_group

__all__ = ["FileRecord", "Snapshot", "order_folder"]

ORDERS = "_orders"

_AHEAD, _AHEAD_BYTES = 16, 32 << 20
"""How many row groups, and how many bytes of them, may be fetched ahead."""
_BESIDE = 4
"""How many row groups threads may read side by side that still count as one after the other."""


@dataclass(frozen=True, slots=True, eq=False)
class DamagedOrder:
    """A derived order that cannot be scanned."""

    table: FileTable | None
    """Its files, or None where its log cannot be read."""
    problem: str


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A data file of a tensor."""

    path: str
    rows: int
    bytes: int
    first: tuple[int, ...]
    """Coordinates of the first entry, by dimension number whatever the order."""
    last: tuple[int, ...]
    """Coordinates of the last entry."""


class Reading:
    """Row groups that a scan reads one after the other, and how far it has come."""

    __slots__ = ("_asked", "_lock", "pieces")

    def __init__(self) -> None:
        self.pieces: list[ByteRange] = []
        self._asked: set[int] = set()
        self._lock = threading.Lock()

    def advance(self, at: int) -> None:
        """Take note that a row group is read now; where those just before it were, fetch the next ones meanwhile."""
        with self._lock:
            follows = at < _BESIDE or not self._asked.isdisjoint(range(at - _BESIDE, at))
            self._asked.add(at)
            if not follows:
                return
            ahead, room = [], _AHEAD_BYTES
            for k in range(at + 1, min(at + 1 + _AHEAD, len(self.pieces))):
                room -= self.pieces[k][2]
                if room < 0:
                    break
                if k not in self._asked and self.pieces[k][2]:
                    ahead.append(k)
            self._asked.update(ahead)
            get_filesystem(self.pieces[at][0]).prefetch_ranges([self.pieces[k] for k in ahead])


@dataclass(frozen=True, slots=True)
class Group:
    """Where a chunk is: a row group of a file, one of those that a scan reads."""

    path: str
    number: int
    place: int = field(compare=False)
    reading: Reading | None = field(compare=False)
    run: bool = False
    """Whether the file is of a run."""


def only(chunks: Sequence[Chunk], numbers: Iterable[int]) -> list[Chunk]:
    """Return some of the chunks of a scan, as a scan that reads these."""
    reading = Reading()
    out: list[Chunk] = []
    for number in numbers:
        found: Group | Merged = chunks[number].ref
        if isinstance(found, Merged):
            out.append(chunks[number])
            continue
        if found.reading is not None:
            reading.pieces.append(found.reading.pieces[found.place])
        out.append(replace(chunks[number], ref=replace(found, place=len(out), reading=reading)))
    return out


def order_folder(path: str, order: Sequence[int]) -> str:
    """Return the folder of a derived order."""
    return os.path.join(path, ORDERS, "-".join(map(str, order)))


def follow(path: str) -> str:
    """Return the path of a folder in a tensor, which must not be a link.

    Raises
    ------
    CorruptionError
        If it is: it may lead anywhere.
    """
    if get_filesystem(path).is_link(path):
        raise CorruptionError(f"{path!r} is a link: it may lead anywhere and is not followed")
    return path


class Snapshot:
    """One version of a stored tensor: implements :class:`sparrow.relations.base.Relation`.

    Built from the log alone; footers of data files are read where a scan needs their row groups. Labels and runs that
    an earlier version has read are taken from there.
    """

    def __init__(self, log: Log, before: Snapshot | None = None) -> None:
        with log.locate_damage():
            found = Metadata.from_json(log.metadata(), repr(log.path))
            ndim = found.schema.ndim
            shape = log.shape(found.schema.shape)
            schema = Schema(shape, found.schema.dims, found.schema.dtype, found.schema.fill_value, found.schema.stype)
            labels = label_files(log.path, found.labels, log.labels(ndim))
            metadata = replace(found, schema=schema, labels=labels)
            base, runs = log_tables(log, metadata, found.order or tuple(range(ndim)))
        self.take(base, runs)
        self.path = log.path
        self.metadata = metadata
        self.identity = log.identity, found.replaced
        self._version = log.version
        self._kinds = tuple(schema.coordinate_dtype(dim) for dim in range(ndim))
        self._digest: str | None = None
        self._orders: dict[tuple[int, ...], FileTable] | None = None
        self._damaged: dict[tuple[int, ...], DamagedOrder] = {}
        self._labels: dict[str, Vocabulary] = {}
        self._known: dict[str, Vocabulary] = {}
        if before is not None and before.identity == self.identity:
            self._known = dict(before._labels or before._known)
        self._lock = threading.Lock()
        known = before._decoded if before is not None and before._kinds == self._kinds else None
        self._decoded: Decoded = Decoded((int(run.rows.sum()) for run in self.runs), known)

    def __repr__(self) -> str:
        return f"<Snapshot of {self.path!r}, version {self._version}>"

    @property
    def schema(self) -> Schema:
        """Shape, names, dtype, fill."""
        return self.metadata.schema

    @property
    def version(self) -> int:
        """The version."""
        return self._version

    @property
    def exact(self) -> bool:
        """Whether chunks are row groups, whose entries are counted: where runs stand beside the files they are not."""
        return not self.runs

    def take(self, base: FileTable, runs: tuple[FileTable, ...]) -> None:
        """Be of some files in order, and of runs beside them."""
        self.base, self.runs = base, runs
        self.tables: tuple[FileTable, ...] = (base, beside(runs)) if runs else (base,)
        """The files in order, then those of all runs, whatever run they are of."""

    @property
    def active(self) -> Active:
        """All files of the base order."""
        return self.base.active if not self.runs else self.base.active.plus(self.tables[1].active)

    @property
    def extra(self) -> dict[str, Any]:
        """What the maker of the tensor wanted to be kept."""
        return dict(self.metadata.extra)

    @property
    def token(self) -> Hashable:
        """The digest of the files and what the log says of the tensor."""
        return ("stored", self.digest, self.metadata.to_json())

    @property
    def digest(self) -> str:
        """What tells the contents of the files."""
        if self._digest is None:
            self._digest = digest(self.active.paths)
        return self._digest

    @property
    def nnz(self) -> int:
        """The number of entries, from the log."""
        return sum(int(table.rows.sum()) for table in self.tables)

    @property
    def nbytes(self) -> int:
        """Bytes of the data files of the base order, from the log."""
        return sum(int(table.nbytes.sum()) for table in self.tables)

    @property
    def orders(self) -> tuple[tuple[int, ...], ...]:
        """The base order, then those derived from exactly these files that are all there."""
        return (self.base.order, *self._derived())

    @property
    def damaged(self) -> dict[tuple[int, ...], DamagedOrder]:
        """The derived orders that are not scanned since their log is broken, or files are missing or cut off."""
        self._derived()
        return self._damaged

    def invalidate_orders(self) -> None:
        """Look again, when next asked, for orders that others may have built."""
        with self._lock:
            self._orders = None

    def _derived(self) -> dict[tuple[int, ...], FileTable]:
        with self._lock:
            if self._orders is None:
                self._orders, self._damaged = {}, {}
                for order in derived_orders(self.path, self.schema.ndim):
                    try:
                        table = self._open_order(order)
                    except CorruptionError as error:
                        self._damaged[order] = DamagedOrder(None, str(error))
                        continue
                    if table is None:
                        continue
                    problem = next(
                        filter(None, map(_incomplete, map(table.path, range(len(table))), table.nbytes)), None
                    )
                    if problem is None:
                        self._orders[order] = table
                    else:
                        self._damaged[order] = DamagedOrder(table, problem)
            return self._orders

    def _open_order(self, order: tuple[int, ...]) -> FileTable | None:
        """Return the files of a derived order, or None where it is stale."""
        try:
            log = Log.open(follow(order_folder(self.path, order)))
        except NotFoundError:
            return None
        with log.locate_damage():
            found = Metadata.from_json(log.metadata(), repr(log.path))
            if found.built_from != self.digest or found.order != order:
                return None
            return log_tables(log, found, order)[0]

    def _tables(self, order: Sequence[int] | None) -> tuple[FileTable, ...]:
        """Return the files of an order, then the runs that stand beside them."""
        found = self.table(order)
        return self.tables if found is self.base else (found,)

    def table(self, order: Sequence[int] | None = None) -> FileTable:
        """Return the files of an order; of the base order those that are in order.

        Raises
        ------
        InvalidValueError
            If there is no such order, or it is stale.
        CorruptionError
            If it is damaged.
        """
        if order is None or tuple(order) == self.base.order:
            return self.base
        found = self._derived().get(tuple(order))
        if found is None:
            damaged = self._damaged.get(tuple(order))
            if damaged is not None:
                raise CorruptionError(
                    f"the order {tuple(order)} is damaged, rebuild it with add_order(): {damaged.problem}"
                )
            raise InvalidValueError(
                f"{self.path!r} has no order {tuple(order)} of version {self._version}: build it with add_order()"
            )
        return found

    @property
    def label_keys(self) -> dict[int, Hashable]:
        """For each dimension that has labels the hash of what is in their file."""
        return {dim: os.path.basename(name).split("-")[-1] for dim, name in self.metadata.labels.items()}

    def labels(self, dim: int) -> pa.Array | None:
        """Return the labels of a dimension, position = coordinate, or None. Reads their files, once."""
        found = self.vocabulary(dim)
        return None if found is None else found.array

    def vocabulary(self, dim: int) -> Vocabulary | None:
        """Return the labels of a dimension and the files that they are in, or None."""
        name = self.metadata.labels.get(dim)
        if name is None:
            return None
        with self._lock:
            if name not in self._labels:
                follow(os.path.join(self.path, LABELS))
                found = self._known.get(name) or read_labels(self.path, name, self._known.values())
                self._labels[name] = found
                if self._labels.keys() >= set(self.metadata.labels.values()):
                    self._known = {}
            return self._labels[name]

    def label_files(self, strict: bool = True) -> set[str]:
        """Return all files that hold labels of this version, relative to the folder.

        Parameters
        ----------
        strict
            Whether it is an error where the last file, which names those before it, cannot be read.
        """
        out = set(self.metadata.labels.values())
        for dim, name in self.metadata.labels.items():
            if is_part(name):
                try:
                    found = self.vocabulary(dim)
                except StorageError:
                    if strict:
                        raise
                    continue
                assert found is not None
                out.update(part for part, _ in found.parts)
        return out

    def chunks(self, box: Box, order: tuple[int, ...] | None = None) -> list[Chunk]:
        """Return the row groups that may hold entries of the box, in order.

        Files are skipped by the ranges in the log, row groups by those in the footers, which are
        read for the files that are left.
        """
        table = self.table(order)
        if self.runs and table is self.base:
            parts = [part for each in self.tables for part in self.parts(each, box)]
            return cut(parts, box=box)
        return self._groups(table, box)

    def split_runs(self, box: Box, order: tuple[int, ...] | None = None) -> tuple[list[Chunk], list[Chunk]]:
        """Return what :meth:`chunks` does without merging anything: the row groups in order, and those of runs.

        Where runs would be read for a small part of them, they are merged and stay decoded instead.
        """
        first, *others = (self._groups(table, box) for table in self._tables(order))
        runs = others[0] if others else []
        if sum(chunk.rows for chunk in runs) > sum(chunk.rows for chunk in first):
            return self.chunks(box, order), []
        return first, runs

    def _groups(self, table: FileTable, box: Box) -> list[Chunk]:
        """Return the row groups of some files that may hold entries of a box."""
        out: list[Chunk] = []
        places, run = table.intersecting(box).tolist(), table in self.tables[1:]
        table.prefetch_footers(places)
        reading = Reading() if get_filesystem(self.path).is_remote else None
        for at in places:
            path, found = table.path(at), table.footer(at)
            for group in groups_meeting(found, box):
                low, high = tuple(found.low[group].tolist()), tuple(found.high[group].tolist())
                if reading is not None:
                    start, length = found.pieces[group][:2] if found.pieces else (0, 0)
                    reading.pieces.append((path, start, length))
                out.append(Chunk(int(found.rows[group]), low, high, Group(path, group, len(out), reading, run)))
        return out

    def parts(self, table: FileTable, box: Box) -> Iterator[Part]:
        """Yield the row groups of some files that may hold entries of a box."""
        places = table.intersecting(box).tolist()
        table.prefetch_footers(places)
        for at in places:
            found = table.footer(at)
            for group in groups_meeting(found, box):
                low, high = tuple(found.low[group].tolist()), tuple(found.high[group].tolist())
                yield Part(low, high, int(found.rows[group]), table is not self.base, (table.path(at), group))

    def read_part(self, part: Part) -> Block:
        """Return the entries of a row group, or those in memory; not to be written to."""
        if isinstance(part.ref, Block):
            return part.ref

        def decode() -> Block:
            path, group = part.ref
            return read_row_group(path, group, self.schema.ndim, self.schema.dtype, self._kinds)

        return self._decoded.get(part, decode) if part.run else decode()

    is_small = False

    def read_small(self) -> None:
        """Return None: files are read chunk by chunk."""

    def read(self, chunk: Chunk, dims: Sequence[int] | None = None) -> Block:
        """Return the entries of a chunk; zero-copy where the file holds the types wanted."""
        found: Group | Merged = chunk.ref
        if isinstance(found, Merged):
            return merged(found, self.read_part, self.schema.ndim, self.schema.dtype)
        if found.run and (held := self._decoded.held((found.path, found.number))) is not None:
            return held
        if found.reading is not None:
            found.reading.advance(found.place)
        return read_row_group(found.path, found.number, self.schema.ndim, self.schema.dtype, self._kinds, dims)

    def stats(self, box: Box, order: tuple[int, ...] | None = None) -> ScanStats:
        """Return what a scan of the box touches."""
        first, *others = (table.stats(box) for table in self._tables(order))
        return first.plus(others[0]) if others else first

    def source(self, box: Box, order: tuple[int, ...] | None = None) -> ParquetSource | ArrowSource:
        """Return the files that may hold entries of the box, and how the columns lie in them; a stream of a store.

        There may be no file at all: an engine then scans nothing.
        """
        tables = self._tables(order)
        if get_filesystem(self.path).is_remote:
            from sparrow.storage.parquet.dataset import (
                Streamed,  # a third of a second, which who runs no SQL does not pay
            )

            return ArrowSource(Streamed(self, box, order))
        paths: list[str] = []
        for table in tables:
            places = table.intersecting(box).tolist()
            table.check_groups(places)  # SQL engines take pages as they are
            paths += map(table.path, places)
        return ParquetSource(tuple(paths), stored_columns(self.schema, tables[0].coordinate_dtypes))

    def files(self, order: Sequence[int] | None = None) -> list[FileRecord]:
        """Return the data files of an order, then those that stand beside them. Reads their footers."""
        tables = self._tables(order)
        for table in tables:
            table.prefetch_footers(range(len(table)))
        return [
            FileRecord(table.path(at), int(table.rows[at]), int(table.nbytes[at]), found.first, found.last)
            for table in tables
            for at in range(len(table))
            for found in (table.footer(at),)
        ]


def _incomplete(path: str, nbytes: int) -> str | None:
    """Return what is wrong with a file at first sight: it is missing, or not as long as the log says."""
    try:
        found = get_filesystem(path).size(path)
    except StorageError as error:
        return str(error)
    return None if found == nbytes else f"{path!r} has {found} bytes, the log says {nbytes}"


def derived_orders(path: str, ndim: int) -> list[tuple[int, ...]]:
    """Return the orders that have a folder, fresh or stale."""
    out: list[tuple[int, ...]] = []
    folder = follow(os.path.join(path, ORDERS))
    for name in get_filesystem(folder).names(folder):
        parts = name.split("-")
        if all(part.isdecimal() for part in parts) and sorted(map(int, parts)) == list(range(ndim)):
            out.append(tuple(map(int, parts)))
    return out
