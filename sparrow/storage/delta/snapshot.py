"""Snapshot: one immutable version of a stored tensor."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.core.indexing import Box
from sparrow.core.schema import Schema
from sparrow.errors import CorruptionError, InvalidValueError, NotFoundError, StorageError
from sparrow.kernels.coo import Block
from sparrow.relations.protocol import ArrowSource, Chunk, ParquetSource, ScanStats
from sparrow.runtime.events import emit
from sparrow.storage.delta.append_runs import DecodedRuns, MergedChunk, Part, merge_parts, plan_chunks
from sparrow.storage.delta.file_table import FileTable, concat_runs, content_digest, read_tables, select_row_groups
from sparrow.storage.delta.history import last_version_without
from sparrow.storage.delta.labels import LABELS, Vocabulary, is_partial, read_labels, resolve_label_files
from sparrow.storage.delta.log import ActiveFiles, Log
from sparrow.storage.fs.filesystem import get_filesystem
from sparrow.storage.fs.protocols import ByteRange
from sparrow.storage.parquet.layout import stored_columns
from sparrow.storage.parquet.reader import DATA_FILE, read_row_group
from sparrow.storage.tuning import tuning

__all__ = ["FileRecord", "Snapshot", "order_folder"]

ORDERS = "_orders"


@dataclass(frozen=True, slots=True, eq=False)
class DamagedOrder:
    """A derived sort order that cannot be scanned."""

    table: FileTable | None
    """Its files, or None if its log cannot be read."""
    problem: str


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A data file of a tensor."""

    path: str
    rows: int
    bytes: int
    first: tuple[int, ...]
    """Coordinates of the first element, by dimension number whatever the order."""
    last: tuple[int, ...]
    """Coordinates of the last element."""


class ScanProgress:
    """Row groups that a scan reads one after the other, and which of them were read."""

    __slots__ = ("_lock", "_requested", "pieces")

    def __init__(self) -> None:
        self.pieces: list[ByteRange] = []
        self._requested: set[int] = set()
        self._lock = threading.Lock()

    def advance(self, at: int) -> None:
        """Note that a row group is read now.

        If the scan is sequential, prefetch the next ones.
        """
        with self._lock:
            limits = tuning()
            lag = limits.scan_parallel_groups
            is_sequential = at < lag or not self._requested.isdisjoint(range(at - lag, at))
            self._requested.add(at)
            if not is_sequential:
                return
            ahead, room = [], limits.scan_prefetch_bytes
            for k in range(at + 1, min(at + 1 + limits.scan_prefetch_groups, len(self.pieces))):
                room -= self.pieces[k][2]
                if room < 0:
                    break
                if k not in self._requested and self.pieces[k][2]:
                    ahead.append(k)
            self._requested.update(ahead)
            if (prefetcher := get_filesystem(self.pieces[at][0]).prefetcher) is not None:
                prefetcher.prefetch_ranges([self.pieces[k] for k in ahead])


@dataclass(frozen=True, slots=True)
class RowGroupRef:
    """Location of a chunk: a row group, and its place in the scan."""

    path: str
    number: int
    place: int = field(compare=False)
    progress: ScanProgress | None = field(compare=False)
    run: bool = False
    """True if the file belongs to an append run."""


def order_folder(path: str, order: Sequence[int]) -> str:
    """Return the folder of a derived sort order."""
    return os.path.join(path, ORDERS, "-".join(map(str, order)))


def check_not_link(path: str) -> str:
    """Return the path of a folder in a tensor.

    Raise ``CorruptionError`` if it is a link, which may lead anywhere.
    """
    if get_filesystem(path).is_link(path):
        raise CorruptionError(f"{path!r} is a link, which may lead anywhere and is not followed")
    return path


class Snapshot:
    """One version of a stored tensor.

    Implements :class:`sparrow.relations.protocol.Relation`, thread-safe.

    Built from the log alone; footers are read when a scan needs row groups.

    Parameters
    ----------
    log
        The version.
    before
        An earlier snapshot, whose labels and decoded runs are reused.
    """

    def __init__(self, log: Log, before: Snapshot | None = None) -> None:
        with log.locate_damage():
            found = log.read_metadata()
            ndim = found.schema.ndim
            shape = log.shape(found.schema.shape)
            schema = Schema(shape, found.schema.dims, found.schema.dtype, found.schema.fill_value, found.schema.stype)
            labels = resolve_label_files(log.path, found.labels, log.labels(ndim))
            metadata = replace(found, schema=schema, labels=labels)
            base, runs = read_tables(log, metadata, found.order or tuple(range(ndim)))
        self.set_tables(base, runs)
        self.path = log.path
        self.metadata = metadata
        self.identity = log.identity, found.replaced
        self._version = log.version
        self._dtypes = tuple(schema.coordinate_dtype(dim) for dim in range(ndim))
        self._content_digest: str | None = None
        self._orders: dict[tuple[int, ...], FileTable] | None = None
        self.further_orders: tuple[tuple[tuple[int, ...], str], ...] = ()
        """Sort orders in other folders."""
        self._damaged: dict[tuple[int, ...], DamagedOrder] = {}
        self._labels: dict[str, Vocabulary] = {}
        self._known: dict[str, Vocabulary] = {}
        if before is not None and before.identity == self.identity:
            self._known = dict(before._labels or before._known)
        self._lock = threading.Lock()
        known = before._decoded if before is not None and before._dtypes == self._dtypes else None
        self._decoded: DecodedRuns = DecodedRuns((int(run.rows.sum()) for run in self.runs), known)

    def __repr__(self) -> str:
        return f"<Snapshot of {self.path!r}, version {self._version}>"

    @property
    def schema(self) -> Schema:
        """Shape, dimension names, dtype and fill value."""
        return self.metadata.schema

    @property
    def version(self) -> int:
        """The version."""
        return self._version

    @property
    def has_exact_counts(self) -> bool:
        """True if chunks are row groups with exact counts, without append runs."""
        return not self.runs

    def set_tables(self, base: FileTable, runs: tuple[FileTable, ...]) -> None:
        """Set the base files and the append runs."""
        self.base, self.runs = base, runs
        self.tables: tuple[FileTable, ...] = (base, concat_runs(runs)) if runs else (base,)
        """The files in order, then those of all runs, whatever run they are of."""

    @property
    def active(self) -> ActiveFiles:
        """All files of the base order, append runs included."""
        return self.base.active if not self.runs else self.base.active.concat(self.tables[1].active)

    @property
    def extra(self) -> dict[str, Any]:
        """Values kept for the creator of the tensor."""
        return dict(self.metadata.extra)

    @property
    def token(self) -> Hashable:
        """Hashable identity of the content: the digest of the files, and the metadata."""
        return ("stored", self.digest, self.metadata.to_json(), *self.further_orders)

    @property
    def digest(self) -> str:
        """Digest of the contents of the files."""
        if self._content_digest is None:
            self._content_digest = content_digest(self.active.paths)
        return self._content_digest

    @property
    def nnz(self) -> int:
        """Number of stored elements, from the log, rows of other tools included."""
        return sum(int(table.rows.sum()) for table in self.tables)

    @property
    def nbytes(self) -> int:
        """Bytes of the data files of the base order, from the log."""
        return sum(int(table.nbytes.sum()) for table in self.tables)

    @property
    def orders(self) -> tuple[tuple[int, ...], ...]:
        """The base order, then complete derived orders built from these files."""
        return (self.base.order, *self._load_orders())

    @property
    def damaged(self) -> dict[tuple[int, ...], DamagedOrder]:
        """Derived orders that are not scanned because they are damaged."""
        self._load_orders()
        return self._damaged

    def with_order(self, order: tuple[int, ...], folder: str) -> Snapshot:
        """Return the snapshot with a further sort order, which is in another folder.

        Raises
        ------
        StorageError
            If it cannot be opened, or is not of this version.
        """
        table = self._open_order(order, folder)
        if table is None:
            raise NotFoundError(
                f"there is no sort order {order} of version {self._version} of {self.path!r} in {folder!r}"
            )
        found = copy.copy(self)
        found._orders, found._lock = {**self._load_orders(), order: table}, threading.Lock()
        found.further_orders = (*self.further_orders, (order, folder))
        return found

    def invalidate_orders(self) -> None:
        """Look for derived orders again when next asked."""
        with self._lock:
            self._orders = None

    def _load_orders(self) -> dict[tuple[int, ...], FileTable]:
        with self._lock:
            if self._orders is None:
                self._orders, self._damaged = {}, {}
                for order in list_orders(self.path, self.schema.ndim):
                    try:
                        table = self._open_order(order)
                    except StorageError as error:
                        self._damaged[order] = DamagedOrder(None, str(error))
                        continue
                    if table is None:
                        continue
                    problem = next(
                        filter(None, map(_find_problem, map(table.path, range(len(table))), table.nbytes)), None
                    )
                    if problem is None:
                        self._orders[order] = table
                    else:
                        self._damaged[order] = DamagedOrder(table, problem)
            return self._orders

    def _open_order(self, order: tuple[int, ...], folder: str | None = None) -> FileTable | None:
        """Return the files of a derived order, or None if it is stale."""
        try:
            log = Log.open(folder or check_not_link(order_folder(self.path, order)))
        except NotFoundError:
            return None
        with log.locate_damage():
            found = log.read_metadata()
            if found.built_from != self.digest or found.order != order:
                return None
            return read_tables(log, found, order)[0]

    def _tables(self, order: Sequence[int] | None) -> tuple[FileTable, ...]:
        """Return the files of an order, then the append runs beside them."""
        found = self.table(order)
        return self.tables if found is self.base else (found,)

    def table(self, order: Sequence[int] | None = None) -> FileTable:
        """Return the files of a sort order; without append runs.

        Raises
        ------
        InvalidValueError
            If there is no such order, or it is stale.
        CorruptionError
            If it is damaged.
        """
        if order is None or tuple(order) == self.base.order:
            return self.base
        found = self._load_orders().get(tuple(order))
        if found is None:
            damaged = self._damaged.get(tuple(order))
            if damaged is not None:
                raise CorruptionError(
                    f"the sort order {tuple(order)} is damaged, rebuild it with add_order(): {damaged.problem}"
                )
            raise InvalidValueError(
                f"{self.path!r} has no sort order {tuple(order)} of version {self._version}: build it with add_order()"
            )
        return found

    @property
    def label_keys(self) -> dict[int, Hashable]:
        """Hash of the labels of each dimension that has labels."""
        return {dim: os.path.basename(name).split("-")[-1] for dim, name in self.metadata.labels.items()}

    def labels(self, dim: int) -> pa.Array | None:
        """Return the labels of a dimension, indexed by coordinate, or None; read once."""
        found = self.vocabulary(dim)
        return None if found is None else found.array

    def vocabulary(self, dim: int) -> Vocabulary | None:
        """Return the labels of a dimension with the files that contain them, or None."""
        name = self.metadata.labels.get(dim)
        if name is None:
            return None
        with self._lock:
            if name not in self._labels:
                check_not_link(os.path.join(self.path, LABELS))
                found = self._known.get(name) or read_labels(self.path, name, self._known.values())
                self._labels[name] = found
                if self._labels.keys() >= set(self.metadata.labels.values()):
                    self._known = {}
            return self._labels[name]

    def label_files(self, strict: bool = True) -> set[str]:
        """Return all label files of this version, relative to the folder.

        Parameters
        ----------
        strict
            Raise if the last file, which lists those before it, cannot be read.
        """
        out = set(self.metadata.labels.values())
        for dim, name in self.metadata.labels.items():
            if is_partial(name):
                try:
                    found = self.vocabulary(dim)
                except (CorruptionError, NotFoundError):
                    if strict:
                        raise
                    continue
                assert found is not None
                out.update(part for part, _ in found.parts)
        return out

    def chunks(self, box: Box, order: tuple[int, ...] | None = None) -> list[Chunk]:
        """Return the chunks that may hold elements of a box, in order.

        Files are pruned by bounds in the log, row groups by those in footers, which are read for the remaining files.
        """
        table = self.table(order)
        if self.runs and table is self.base:
            parts = [part for each in self.tables for part in self.iter_parts(each, box)]
            return plan_chunks(parts, box=box)
        return self._groups(table, box)

    def file_bounds(self, box: Box, order: tuple[int, ...]) -> list[Chunk] | None:
        """Return the files that may hold elements of a box as chunks, by the log.

        They cannot be read; nothing is read to list them. None with append runs, which lie between the others.
        """
        table = self.table(order)
        if self.runs and table is self.base:
            return None
        return [
            Chunk(int(table.rows[at]), tuple(table.low[at].tolist()), tuple(table.high[at].tolist()), None)
            for at in self._select_files(table, box)
        ]

    def split_runs(self, box: Box, order: tuple[int, ...] | None = None) -> tuple[list[Chunk], list[Chunk]]:
        """Return the row groups of :meth:`chunks` and of append runs, unmerged.

        If the runs outweigh the rest they are merged instead, and stay decoded.
        """
        first, *others = (self._groups(table, box) for table in self._tables(order))
        runs = others[0] if others else []
        if sum(chunk.rows for chunk in runs) > sum(chunk.rows for chunk in first):
            return self.chunks(box, order), []
        return first, runs

    def check_own(self) -> None:
        """Raise ``CorruptionError`` if another tool wrote a file of this version."""
        for table in self.tables:
            self._check_own(table, np.arange(len(table)))

    def _check_own(self, table: FileTable, places: NDArray[Any]) -> None:
        at = table.find_foreign(self.schema.shape, places)
        if at is not None:
            raise self._foreign_file_error(table, at)
        if table.overlaps:
            raise CorruptionError(
                f"files in {table.folder!r} of version {self._version} overlap, by the log; verify() lists all damage"
            )

    def _foreign_file_error(self, table: FileTable, at: int) -> CorruptionError:
        """Return the error about a file that another tool wrote, with the ways out."""
        name, path = table.names[at], self.path
        low, high = table.low[at].tolist(), table.high[at].tolist()
        problem = f"sparrow did not write the file {name!r} of version {self._version}"
        if table.rows[at] >= 0 and not all(
            0 <= a <= b < n for a, b, n in zip(low, high, self.schema.shape, strict=True)
        ):
            problem += f", whose coordinates from {tuple(low)} to {tuple(high)} leave the shape {self.schema.shape}"
        foreign = {each for table in self.tables for each in table.names if DATA_FILE.fullmatch(each) is None}
        try:
            last = last_version_without(path, self._version, foreign, lambda each: DATA_FILE.fullmatch(each) is None)
        except StorageError:
            last = None
        ways = [] if last is None else [f"sp.open({path!r}).restore({last}) returns to the last version of sparrow"]
        value = stored_columns(self.schema, table.coordinate_dtypes)[-1]
        if min(low, default=0) >= 0 and value.is_plain and self.schema.has_zero_fill:
            lost = ", without labels" if self.metadata.labels else ""
            dims = list(self.schema.dims)
            ways.append(
                f"sp.open({path!r}, coords={dims}, value='value', duplicates='last').save(NEW) makes a tensor of all "
                f"rows, of the newest where they repeat an element{lost}"
            )
        way = f": {'; '.join(ways)}" if ways else ""
        return CorruptionError(f"{path!r} cannot be read, {problem}{way}")

    def _select_files(self, table: FileTable, box: Box) -> list[int]:
        """Return the numbers of the files that may hold elements of a box.

        Raises
        ------
        CorruptionError
            If another tool wrote one of them, or wrote coordinates outside the shape to any.
        """
        places = table.select_files(box)
        self._check_own(table, places)
        found: list[int] = places.tolist()
        return found

    def _groups(self, table: FileTable, box: Box) -> list[Chunk]:
        """Return the row groups of some files that may hold elements of a box."""
        out: list[Chunk] = []
        places, run = self._select_files(table, box), table in self.tables[1:]
        table.prefetch_footers(places)
        progress = ScanProgress() if get_filesystem(self.path).is_remote else None
        for at in places:
            path, found = table.path(at), table.footer(at)
            for group in select_row_groups(found, box):
                low, high = tuple(found.low[group].tolist()), tuple(found.high[group].tolist())
                if progress is not None:
                    start, length = found.pieces[group][:2] if found.pieces else (0, 0)
                    progress.pieces.append((path, start, length))
                out.append(Chunk(int(found.rows[group]), low, high, RowGroupRef(path, group, len(out), progress, run)))
        return out

    def iter_parts(self, table: FileTable, box: Box) -> Iterator[Part]:
        """Yield the row groups of some files that may hold elements of a box."""
        places = self._select_files(table, box)
        table.prefetch_footers(places)
        for at in places:
            yield from self._parts(table, at, select_row_groups(table.footer(at), box))

    def run_parts(self) -> list[Part]:
        """Return all row groups of the append runs."""
        return [part for table in self.tables[1:] for part in self.iter_parts(table, Box.from_shape(self.schema.shape))]

    def base_parts(self, places: Iterable[int]) -> list[Part]:
        """Return all row groups of some base files."""
        self.base.prefetch_footers(places)
        return [part for at in places for part in self._parts(self.base, at, range(len(self.base.footer(at).rows)))]

    def _parts(self, table: FileTable, at: int, groups: Iterable[int]) -> Iterator[Part]:
        found = table.footer(at)
        for group in groups:
            low, high = tuple(found.low[group].tolist()), tuple(found.high[group].tolist())
            yield Part(low, high, int(found.rows[group]), table is not self.base, (table.path(at), group))

    def read_part(self, part: Part) -> Block:
        """Return the elements of a part; read-only."""
        if isinstance(part.ref, Block):
            return part.ref

        def decode() -> Block:
            path, group = part.ref
            return read_row_group(path, group, self.schema.ndim, self.schema.dtype, self._dtypes)

        return self._decoded.get(part, decode) if part.run else decode()

    is_small = False

    def read_small(self) -> Block | None:
        """Return None: files are read chunk by chunk."""
        return None

    def select_chunks(self, chunks: Sequence[Chunk], numbers: Iterable[int]) -> list[Chunk]:
        """Return some of the chunks of a scan, as a scan of their own."""
        progress = ScanProgress()
        out: list[Chunk] = []
        for number in numbers:
            found: RowGroupRef | MergedChunk = chunks[number].ref
            if isinstance(found, MergedChunk):
                out.append(chunks[number])
                continue
            if found.progress is not None:
                progress.pieces.append(found.progress.pieces[found.place])
            out.append(replace(chunks[number], ref=replace(found, place=len(out), progress=progress)))
        return out

    def read(self, chunk: Chunk, dims: Sequence[int] | None = None) -> Block:
        """Return the elements of a chunk, without a copy if the dtypes agree."""
        emit("storage.read_chunk", snapshot=self, chunk=chunk, dims=dims)
        found: RowGroupRef | MergedChunk = chunk.ref
        if isinstance(found, MergedChunk):
            return merge_parts(found, self.read_part, self.schema.ndim, self.schema.dtype)
        if found.run and (block := self._decoded.peek((found.path, found.number))) is not None:
            return block
        if found.progress is not None:
            found.progress.advance(found.place)
        return read_row_group(found.path, found.number, self.schema.ndim, self.schema.dtype, self._dtypes, dims)

    def stats(self, box: Box, order: tuple[int, ...] | None = None) -> ScanStats:
        """Return the statistics of a scan of the box."""
        tables = self._tables(order)
        for table in tables:
            self._check_own(table, table.select_files(box))
        first, *others = (table.stats(box) for table in tables)
        return first.plus(others[0]) if others else first

    def source(self, box: Box, order: tuple[int, ...] | None = None) -> ParquetSource | ArrowSource:
        """Return the files or the dataset that a SQL engine scans.

        Local files that may hold elements of the box, none if there are none; a dataset for remote files.
        """
        tables = self._tables(order)
        if get_filesystem(self.path).is_remote:
            from sparrow.storage.parquet.dataset import ChunkDataset  # imports pyarrow.dataset, for 0.3 s

            return ArrowSource(ChunkDataset(self, box, order))
        paths: list[str] = []
        for table in tables:
            places = self._select_files(table, box)
            table.check_row_groups(places)  # SQL engines do not verify checksums
            paths += map(table.path, places)
        return ParquetSource(tuple(paths), stored_columns(self.schema, tables[0].coordinate_dtypes))

    def files(self, order: Sequence[int] | None = None) -> list[FileRecord]:
        """Return the data files of a sort order, then those of append runs.

        Reads their footers.
        """
        tables = self._tables(order)
        for table in tables:
            self._check_own(table, np.arange(len(table)))
            table.prefetch_footers(range(len(table)))
        return [
            FileRecord(table.path(at), int(table.rows[at]), int(table.nbytes[at]), found.first, found.last)
            for table in tables
            for at in range(len(table))
            for found in (table.footer(at),)
        ]


def _find_problem(path: str, nbytes: int) -> str | None:
    """Return a message about a missing file or a wrong size, None if it is fine."""
    try:
        found = get_filesystem(path).size(path)
    except StorageError as error:
        return str(error)
    return None if found == nbytes else f"{path!r} has {found} bytes, the log says {nbytes}"


def list_orders(path: str, ndim: int) -> list[tuple[int, ...]]:
    """Return the derived sort orders that have a folder, fresh or stale."""
    out: list[tuple[int, ...]] = []
    folder = check_not_link(os.path.join(path, ORDERS))
    for name in get_filesystem(folder).names(folder):
        parts = name.split("-")
        if all(part.isdecimal() for part in parts) and sorted(map(int, parts)) == list(range(ndim)):
            out.append(tuple(map(int, parts)))
    return out
