"""Writer of coordinates and values in any order as the data files of a tensor.

The readers of text, tables and arrays turn items of their input into rows on several threads. Rows that come sorted go
straight to the files, others through :class:`sparrow.sorting.Sorter`.
"""

from __future__ import annotations

import os
import shutil
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow import storage
from sparrow.core.schema import is_fill
from sparrow.errors import StorageError
from sparrow.interop.conversion import check_fill
from sparrow.io.base.report import Report
from sparrow.io.base.run_sink import RunSink
from sparrow.io.tuning import tuning
from sparrow.kernels.coo import Block, Duplicates
from sparrow.runtime import memory, settings
from sparrow.runtime.progress import bar
from sparrow.runtime.thread_pool import is_abandoned, ordered_map
from sparrow.sorting import Rows, Run, Segment, SpillFile, memory_budget
from sparrow.storage.fs.filesystem import get_filesystem
from sparrow.storage.parquet.reader import evict_footer, read_footer, read_row_group

if TYPE_CHECKING:
    from sparrow.sorting.sorter import Sorter

__all__ = [
    "DistinctIds",
    "LabelEncoder",
    "MergeOptions",
    "RowCounter",
    "SpillQueue",
    "StoredRows",
    "WrittenFiles",
    "average",
    "check_disk_space",
    "check_label_memory",
    "write_coo",
]

T = TypeVar("T")


class DistinctIds:
    """Distinct integers of a column, collected from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: NDArray[np.int64] = np.empty(0, np.int64)
        self._pending: list[NDArray[np.int64]] = []
        self._pending_count = 0

    def add(self, column: NDArray[np.int64]) -> None:
        """Add a column."""
        found, known = _distinct(column.copy()), self._known
        if len(known):
            found = found[known[np.minimum(np.searchsorted(known, found), len(known) - 1)] != found]
        with self._lock:
            self._pending.append(found)
            self._pending_count += len(found)
            if self._pending_count > len(self._known) // 2 + tuning().id_merge_min:
                self._merge()

    def _merge(self) -> None:
        self._known = _distinct(np.concatenate([self._known, *self._pending]))
        self._pending, self._pending_count = [], 0
        check_label_memory(len(self._known), self._known.nbytes)

    def finish(self) -> NDArray[np.int64]:
        """Return the integers, ascending."""
        with self._lock:
            self._merge()
        return self._known


def _distinct(column: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the distinct integers of a column, which is sorted in place."""
    column.sort()
    fresh = np.ones(len(column), bool)
    np.not_equal(column[1:], column[:-1], out=fresh[1:])
    return column[fresh]


class LabelEncoder:
    """Dictionary encoder of the texts of a column, for one thread."""

    def __init__(self) -> None:
        from sparrow.kernels.parse.interning import Interner

        self._interner = Interner()
        self._room = memory.reserve(0, "distinct labels")

    def codes_of(self, data: NDArray[np.uint8], start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the codes of the texts ``data[start[i]:end[i]]``."""
        return self._check_codes(self._interner.codes_of(data, start, end))

    def codes(self, texts: pa.Array) -> NDArray[np.int64]:
        """Return the codes of an array of strings without nulls."""
        return self._check_codes(self._interner.codes(texts))

    def _check_codes(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        nbytes = self._interner.nbytes
        if nbytes != self._room.nbytes:
            self._room.release()
            check_label_memory(len(self._interner), nbytes)
            self._room.resize(nbytes)
        return codes

    def finish(self) -> tuple[pa.Array, NDArray[np.int32]]:
        """Return the sorted texts, and the rank of each code; call once."""
        labels, rank = self._interner.finish(memory.available() - (memory.limit() - memory.working_bytes()))
        self._room.resize(labels.nbytes + rank.nbytes)
        return labels, rank


def check_label_memory(count: int, nbytes: int) -> None:
    """Raise ``TooLargeError`` if labels exceed their share of the memory limit."""
    if nbytes > (room := memory.share(tuning().label_memory_parts, unreserved=memory.limit() - memory.working_bytes())):
        raise memory.too_large(f"{count} distinct labels", nbytes, "map the ids to integers beforehand", room)


class SpillQueue:
    """First-in, first-out queue of rows, in memory and then on disk."""

    def __init__(self) -> None:
        self._budget = memory_budget() // tuning().spill_queue_divisor
        self._room = memory.reserve(0, "rows waiting for their labels")
        self._kept: list[Rows | tuple[list[Segment], Segment | None]] = []
        self._spool = SpillFile()

    def add(self, rows: Rows) -> None:
        """Append rows."""
        if self._room.nbytes + rows.nbytes <= self._budget:
            self._room.resize(self._room.nbytes + rows.nbytes)
            self._kept.append(rows)
        else:
            values = None if rows.values is None else self._spool.append(rows.values)
            self._kept.append(([self._spool.append(column) for column in rows.coords], values))

    def __iter__(self) -> Iterator[Rows]:
        for each in self._kept:
            if isinstance(each, Rows):
                yield each
            else:
                coords = tuple(self._spool.read(segment, 0, segment.count) for segment in each[0])
                yield Rows(coords, None if each[1] is None else self._spool.read(each[1], 0, each[1].count))

    def close(self) -> None:
        """Release memory and disk."""
        self._kept = []
        self._room.release()
        self._spool.close()


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """Data files of a tensor, and facts about its coordinates."""

    files: list[Any]
    maxima: tuple[int, ...]
    """Largest coordinate of each dimension in the input, -1 if there is none."""
    ids: tuple[NDArray[np.int64] | None, ...]
    """Distinct ids of each relabelled dimension, ascending; None for the others."""


@dataclass(frozen=True, slots=True, eq=False)
class MergeOptions:
    """Options of :func:`write_coo` for rows that are in files."""

    dims: Sequence[str]
    dtype: np.dtype[Any]
    weighted: bool
    duplicates: Duplicates
    fill_value: Any
    profile: str
    report: Report
    ids: Sequence[DistinctIds | None]
    describe: Callable[[tuple[int, ...]], str]
    mean: bool


class StoredRows(ABC):
    """Rows that are sorted runs in files already."""

    @abstractmethod
    def merge(self, folder: str | os.PathLike[str], options: MergeOptions) -> WrittenFiles:
        """Write them as data files; see :func:`write_coo`."""


def write_coo(
    folder: str | os.PathLike[str] | RunSink,
    items: Iterable[T] | StoredRows,
    rows_of: Callable[[T], Rows],
    *,
    dims: Sequence[str],
    dtype: np.dtype[Any],
    weighted: bool,
    duplicates: Duplicates,
    fill_value: Any,
    profile: str,
    report: Report,
    ids: Sequence[DistinctIds | None] | None = None,
    describe: Callable[[tuple[int, ...]], str] = str,
    mean: bool = False,
) -> WrittenFiles:
    """Write the rows of an input as the data files of a tensor.

    Parameters
    ----------
    folder
        Folder of the files; or the place of runs, if others merge them.
    items, rows_of
        Items of the input, and the function that turns one into rows, on several threads. Rows in files need none.
    dims, dtype, weighted, duplicates, fill_value, profile
        The tensor; see :class:`sparrow.sorting.Sorter` for ``weighted``.
    report
        Receives how many rows were read, stored, merged and dropped.
    ids
        For each dimension to relabel, the collector that ``rows_of`` adds its ids to.
    describe
        Formats the coordinates of an element for errors.
    mean
        Store the mean of the values given for an element. Values are complex numbers with an imaginary part of 1, so
        that ``duplicates="sum"`` yields the sum and the count.

    Raises
    ------
    DuplicateError
        If an element is given more than once and ``duplicates`` is ``"error"``.
    InvalidValueError
        If the fill value does not fit the dtype.
    NumberRangeError
        If values of an element are integers whose sum does not fit the dtype.
    StorageError
        If the disk is full.
    """
    ndim = len(dims)
    collectors = [None] * ndim if ids is None else list(ids)
    fill_value = check_fill(fill_value, dtype, None)
    if isinstance(folder, RunSink):
        assert not isinstance(items, StoredRows)
        folder.take(items, rows_of, collectors, ndim)
        return WrittenFiles([], folder.maxima, folder.ids)
    get_filesystem(folder).make_folder(os.fspath(folder))
    report.fill = fill_value
    if isinstance(items, StoredRows):
        options = MergeOptions(
            dims, dtype, weighted, duplicates, fill_value, profile, report, collectors, describe, mean
        )
        return items.merge(folder, options)
    summed = np.dtype(np.complex128) if mean else dtype
    from sparrow.sorting.sorter import Sorter

    sorter = Sorter(ndim, summed, weighted=weighted, duplicates=duplicates, describe=describe, wide_sums=True)

    counter = RowCounter(report)

    def prepare(item: T) -> Run | Rows:
        return sorter.prepare(counter.add(rows_of(item)))

    pieces = cast("Generator[Run | Rows]", ordered_map(prepare, items, settings.current().threads))

    def writer() -> Any:
        return storage.TensorWriter(folder, dims=tuple(dims), dtype=dtype, profile=profile)

    with closing(sorter), closing(pieces):
        if sorter.consume(pieces, pause=not any(collectors) and not mean):
            files = _write_sorted(folder, writer, sorter, pieces, dtype, fill_value)
            if files is not None:
                counter.finish(files)
                return WrittenFiles(files, sorter.maxima, (None,) * ndim)
        numbered = [None if each is None else each.finish() for each in collectors]
        largest = [top if known is None else len(known) for top, known in zip(sorter.maxima, numbered, strict=True)]
        dtypes = [np.dtype(np.int32 if top < 2**31 else np.int64) for top in largest]
        with bar("writing", sorter.count, "elements") as advance:
            parts = sorter.parts(dtypes, None, numbered, advance)
            if mean:
                parts = [average(part, dtype) for part in parts]
            parts = [counter.drop_fill(part, fill_value) for part in parts]
            files = _write_parts(parts, writer)
        counter.finish(files)
        return WrittenFiles(files, sorter.maxima, tuple(numbered))


class RowCounter:
    """Count of rows on their way from an input to files."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._rows = self._fill = 0
        self._lock = threading.Lock()

    def add(self, rows: Rows) -> Rows:
        """Count rows of the input."""
        with self._lock:
            self._rows += rows.size
        return rows

    def drop_fill(self, part: Iterator[Block], fill_value: Any) -> Iterator[Block]:
        """Yield the elements that differ from the fill value, and count the others."""
        for block in part:
            absent = is_fill(block.values, fill_value)
            if dropped := int(np.count_nonzero(absent)):
                with self._lock:
                    self._fill += dropped
                block = block.take(~absent)
            if block.count:
                yield block

    def finish(self, files: Sequence[Any]) -> None:
        """Report the rows that were read, stored, merged and dropped."""
        stored = sum(file.rows for file in files)
        merged = self._rows - stored - self._fill
        self._report.add(read=self._rows, stored=stored, merged=merged, fill=self._fill)


def average(part: Iterator[Block], dtype: np.dtype[Any]) -> Iterator[Block]:
    """Yield elements whose values are sums and counts with their means."""
    for block in part:
        yield Block(block.coords, (block.values.real / block.values.imag).astype(dtype))


def _write_parts(parts: Sequence[Iterator[Block]], writer: Callable[[], Any]) -> list[Any]:
    """Write each part to its own files, on several threads."""

    def write(part: Iterator[Block]) -> list[Any]:
        with writer() as out:
            for block in part:
                if is_abandoned():
                    break
                out.write(block)
            return list(out.finish())

    if len(parts) == 1:
        return write(parts[0])
    return [file for files in ordered_map(write, parts, settings.current().threads) for file in files]


def _write_sorted(
    folder: str | os.PathLike[str],
    writer: Callable[[], Any],
    sorter: Sorter,
    pieces: Iterator[Run | Rows],
    dtype: np.dtype[Any],
    fill_value: Any,
) -> list[Any] | None:
    """Write rows that come sorted to files; if order ends, return all to the sorter.

    Returns the files, or None if the sorter has everything.
    """

    def block(run: Run) -> Block | None:
        rows = run.rows()
        values = np.ones(run.count, dtype) if rows.values is None else rows.values
        # A zero dropped here would be lost if the written rows have to be sorted with the rest.
        return None if is_fill(values, fill_value).any() else Block(rows.coords, values)

    with writer() as out:
        odd: list[Run | Rows] = []
        waiting = sorter.drain()
        for run in waiting:
            straight = block(run)
            if straight is None:
                odd = [run, *waiting]
                break
            out.write(straight)
        if not odd:
            for piece in pieces:
                straight = block(piece) if isinstance(piece, Run) and sorter.follows(piece) else None
                if straight is None:
                    if isinstance(piece, Rows) and not piece.size:
                        continue
                    odd = [piece]
                    break
                assert isinstance(piece, Run)
                sorter.skip(piece)
                out.write(straight)
        files = list(out.finish())
        if not odd:
            return files
        again = _read_back(folder, files, len(sorter.maxima), dtype, sorter)
        sorter.consume(_chain_runs(again, odd, pieces))
        for file in files:
            path = os.path.join(folder, file.name)
            get_filesystem(path).delete(path)
            evict_footer(path)
    return None


def _read_back(
    folder: str | os.PathLike[str], files: Sequence[Any], ndim: int, dtype: np.dtype[Any], sorter: Sorter
) -> Iterator[Run | Rows]:
    for file in files:
        path = os.path.join(folder, file.name)
        for group in range(len(read_footer(path, ndim).rows)):
            block = read_row_group(path, group, ndim, dtype)
            yield sorter.prepare(Rows(block.coords, block.values if sorter.weighted else None))


def _chain_runs(*parts: Iterable[Run | Rows]) -> Iterator[Run | Rows]:
    for part in parts:
        yield from part


def check_disk_space(dst: str | os.PathLike[str], stored: int, spilled: int) -> None:
    """Raise ``StorageError`` if a tensor cannot fit the disks.

    Parameters
    ----------
    dst
        Folder to create.
    stored, spilled
        Lower bounds on the bytes of the tensor and of the sort.
    """
    disk = get_filesystem(dst).local_disk(os.fspath(dst))
    beside = None if disk is None else Path(disk)
    temporary = Path(settings.current().temp_directory)
    needs = {temporary: spilled} if beside is None else {beside: stored, temporary: spilled}
    if beside is not None and beside.stat().st_dev == temporary.stat().st_dev:
        needs = {beside: stored + spilled}
    for folder, need in needs.items():
        free = shutil.disk_usage(folder).free
        if need > free:
            raise StorageError(
                f"the disk of {os.fspath(folder)!r} is too small: about {need} bytes are needed and {free} are free; "
                "free space, or sort elsewhere with sp.config(temp_directory=...)"
            )
