"""Ingest of several files in two rounds of tasks of a cluster.

Tasks of the first round parse some of the files each, as one process would, and leave their rows as sorted runs in the
scratch folder, with coordinates that are ranks among their own labels. This process merges the labels. Tasks of the
second round merge one range of all runs each, in the order of the input, and write data files. So elements, labels,
counts and errors are those of one process, to the bit: rows of one element are combined in the order of the input.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow.engines.task_rounds import (
    FileTarget,
    Rounds,
    StoredRun,
    bound_ranges,
    open_rounds,
    store_array,
    tuning,
)
from sparrow.errors import DuplicateError, SparrowError
from sparrow.io.base.coo_writer import LabelEncoder, MergeOptions, RowCounter, StoredRows, WrittenFiles, average
from sparrow.io.base.report import Report
from sparrow.io.base.run_sink import RunSink
from sparrow.io.base.source import Source
from sparrow.kernels.coo import Duplicates
from sparrow.kernels.sums import SumRangeError
from sparrow.plan import Scan
from sparrow.runtime import events, settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.runtime.validation import full_path
from sparrow.sorting import Rows, Run, duplicate_error
from sparrow.storage import DataFile, can_share, has_own_options, share_folder
from sparrow.storage.fs.remote_file import pin_file_versions

__all__ = ["ParsedShard", "ShardReader", "Shards", "parse_shards", "read_labels", "store_labels"]


class ShardReader(Protocol):
    """A reader of several files, some of which a task reads by themselves."""

    report: Report
    unit: ClassVar[str]

    def parse_shard(self, sources: Sequence[Source], state: Any, sink: RunSink) -> Any:
        """Leave the rows of some files as runs, and return facts about them.

        Parameters
        ----------
        sources
            Consecutive files of the input.
        state
            What the first rows of the input decided.
        sink
            Takes the rows, and the labels whose ranks they hold.
        """


@dataclass(frozen=True, slots=True, eq=False)
class ParsedShard:
    """Rows of the files of a task, and facts about them."""

    runs: Sequence[StoredRun]
    maxima: tuple[int, ...]
    """Largest coordinate of each dimension."""
    ids: tuple[Any, ...]
    """Distinct ids of each relabelled dimension."""
    labels: tuple[str | None, ...]
    """Files of the labels of each dimension whose coordinates are their ranks."""
    facts: Any
    """Facts that the format merges."""
    counts: Mapping[str, int]
    """Counts of the report."""
    error: SparrowError | None


@dataclass(frozen=True, slots=True, eq=False)
class ParsedFiles:
    """Parse files and leave their rows as sorted runs."""

    reader: ShardReader
    sources: Sequence[Source]
    state: Any
    """Decisions by the first rows of the input."""

    def __call__(self, scans: list[Scan], start: int, stop: int, folder: str) -> ParsedShard:
        """Parse the sources [start, stop); an error of theirs is part of the result."""
        sink, reader, facts, error = RunSink(folder), self.reader, None, None
        reader.report = Report(reader.unit)
        with settings.config(progress=False), pin_file_versions():
            try:
                facts = reader.parse_shard(self.sources[start:stop], self.state, sink)
            except SparrowError as found:
                error = found
        distinct = {id(labels): labels for labels in sink.labels if labels is not None}  # axes may share theirs
        files = {key: store_labels(labels, folder) for key, labels in distinct.items()}
        return ParsedShard(
            sink.runs, sink.maxima, tuple(None if each is None else store_array(folder, each) for each in sink.ids),
            tuple(files.get(id(labels)) for labels in sink.labels), facts, reader.report.counts, error,
        )  # fmt: skip


def store_labels(labels: pa.Array, folder: str) -> str:
    """Write labels to a file of the scratch folder."""
    path = os.path.join(folder, f"{uuid.uuid4().hex}.arrow")
    with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, pa.schema([("label", labels.type)])) as writer:
        writer.write_batch(pa.record_batch([labels], ["label"]))
    return path


def read_labels(path: str) -> pa.Array:
    """Return the labels in a file, mapped into memory."""
    with pa.memory_map(path) as file, pa.ipc.open_file(file) as reader:
        return pa.concat_arrays([reader.get_batch(k).column(0) for k in range(reader.num_record_batches)])


@contextmanager
def parse_shards(
    reader: ShardReader, sources: Sequence[Source], folder: Any, state: Callable[[], Any]
) -> Iterator[Shards | None]:
    """Parse files in tasks of the configured cluster; None if this process should.

    Parameters
    ----------
    reader
        The reader, with a method ``parse_shard``.
    sources
        Its files.
    folder
        Folder of the tensor.
    state
        Returns what the first rows of the input decided, and ends reading it.

    Raises
    ------
    SparrowError
        The first error of the input, as it would be raised here.
    """
    opened = open_rounds("auto")
    if opened is None or not _are_shards(sources) or not can_share(os.fspath(folder)):
        yield None
        return
    with opened as rounds:
        bounds = _cut_files([source.size or 0 for source in sources], rounds.slots)
        if len(bounds) < 3:
            yield None
            return
        decided = state()
        there = [replace(source, path=_absolute_path(source.path or "")) for source in sources]
        reader.report.clear()  # what was read so far is read again
        shards: list[ParsedShard] = rounds.run([], ParsedFiles(reader, tuple(there), decided), bounds)
        for shard in shards:
            if shard.error is not None:
                raise shard.error
            reader.report.add(**shard.counts)
        yield Shards(rounds, shards, bounds)


def _absolute_path(path: str) -> str:
    """Return a path that does not depend on the working directory of a task."""
    return path if "://" in path else full_path(path)


def _are_shards(sources: Sequence[Source]) -> bool:
    """Return whether sources are large files that other processes can read."""
    if any(source.path is None or source.size is None or has_own_options(source.path) for source in sources):
        return False
    return len(sources) > 1 and sum(source.size or 0 for source in sources) >= 2 * tuning().min_task_bytes


def _cut_files(sizes: Sequence[int], slots: int) -> list[int]:
    """Return bounds of consecutive files of about equal sizes."""
    total, bounds, gathered = sum(sizes), [0], 0
    count = min(total // tuning().min_task_bytes, tuning().tasks_per_slot * slots, len(sizes))
    for number, size in enumerate(sizes[:-1], 1):
        gathered += size
        if gathered * count >= total * len(bounds):
            bounds.append(number)
    return [*bounds, len(sizes)]


class Shards(StoredRows):
    """Rows of files that tasks have parsed.

    Parameters
    ----------
    rounds
        Runs tasks.
    parts
        Results of the tasks that parsed, in the order of the input.
    bounds
        Number of the first source of each task, and the number of sources.
    """

    def __init__(self, rounds: Rounds, parts: Sequence[ParsedShard], bounds: Sequence[int]) -> None:
        self.rounds, self._parts = rounds, parts
        self._dims = max(len(part.maxima) for part in parts)
        self.bounds = bounds
        self.facts = [part.facts for part in parts]
        """Facts of each task, in the order of the input."""
        self._ranks: list[NDArray[Any] | None] = [None] * self._dims
        self._starts: list[list[int]] = [[] for _ in range(self._dims)]
        self.labels: list[pa.Array | None] = [None] * self._dims
        """Labels of each dimension whose texts tasks have ranked, sorted."""
        known: dict[tuple[str | None, ...], int] = {}
        for dim in range(self._dims):
            files = tuple(part.labels[dim] if dim < len(part.labels) else None for part in parts)
            if any(files):
                same = known.setdefault(files, dim)
                if same == dim:
                    self._merge_labels(dim, files)
                self.labels[dim], self._ranks[dim] = self.labels[same], self._ranks[same]
                self._starts[dim] = self._starts[same]

    def _merge_labels(self, dim: int, files: Sequence[str | None]) -> None:
        """Merge the labels of a dimension, and rank those of each task among them."""
        names, codes = LabelEncoder(), []
        for path in files:
            found = np.zeros(0, np.int64) if path is None else names.codes(read_labels(path))
            codes.append(found.astype(np.int32))
        self.labels[dim], rank = names.finish()
        self._ranks[dim] = rank[np.concatenate(codes)]
        self._starts[dim] = [0, *np.cumsum([len(each) for each in codes]).tolist()]

    def merge(self, folder: str | os.PathLike[str], options: MergeOptions) -> WrittenFiles:
        """Write all rows; see :func:`~sparrow.io.base.coo_writer.write_coo`."""
        for dim, collector in enumerate(options.ids):
            for part in self._parts:
                if collector is not None and part.maxima:
                    collector.add(np.array(part.ids[dim]))
        numbers = tuple(None if each is None else each.finish() for each in options.ids)
        tops = [max((part.maxima[dim] for part in self._parts if part.maxima), default=-1) for dim in range(self._dims)]
        maxima = tuple(top if names is None else len(names) - 1 for top, names in zip(tops, self.labels, strict=True))
        largest = [top if known is None else len(known) for top, known in zip(maxima, numbers, strict=True)]
        dtypes = tuple(np.dtype(np.int32 if top < 2**31 else np.int64) for top in largest)
        pieces = [
            _Piece(run, tuple((starts[k], starts[k + 1]) if starts else None for starts in self._starts))
            for k, part in enumerate(self._parts)
            for run in part.runs
        ]
        shown = [piece.by_rank(self._ranks) for piece in pieces]
        bounds = bound_ranges(shown, maxima[0] + 1, self.rounds.slots, self.rounds.memory_limit)
        pack = self.rounds.pack
        dims = tuple(options.dims)
        target = FileTarget(os.fspath(folder), options.profile, dims, options.dtype, dtypes, tuple(range(len(dims))))
        work = MergedRows(
            pieces, tuple(None if each is None else pack(each) for each in self._ranks), target, options.weighted,
            options.duplicates, options.fill_value, options.mean,
            tuple(None if each is None else pack(each) for each in numbers),
        )  # fmt: skip
        with share_folder(target.path) as files:
            for found in self.rounds.run([], work, bounds):
                if found.cell is not None and found.total is not None:
                    raise SumRangeError.of(found.cell, found.total, options.dtype, options.describe)
                if found.cell is not None:
                    raise duplicate_error(found.cell, options.describe)
                options.report.add(**found.counts)
                files += found.files
        return WrittenFiles(files, maxima, numbers)


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """A run, and where the ranks of its labels are among those of all tasks."""

    run: StoredRun
    spans: tuple[tuple[int, int] | None, ...]

    def by_rank(self, ranks: Sequence[Any]) -> StoredRun:
        """Return the run with a sample of the final leading coordinates."""
        return self.run if self.spans[0] is None else replace(self.run, sample=self.ranks(0, ranks)[self.run.sample])

    def ranks(self, dim: int, ranks: Sequence[Any]) -> NDArray[Any]:
        """Return the ranks of its labels, ascending."""
        span = self.spans[dim]
        assert span is not None
        return np.asarray(ranks[dim][slice(*span)])


@dataclass(frozen=True, slots=True)
class _MergedRows:
    """Data files of a range, and counts of its rows."""

    files: list[DataFile]
    counts: Mapping[str, int]
    """Counts of the report."""
    cell: tuple[int, ...] | None = None
    """Element that is given more than once, where that is an error."""
    total: int | None = None
    """Sum of its values that does not fit the dtype, where they are added."""


@dataclass(frozen=True, slots=True, eq=False)
class MergedRows:
    """Merge ranges of runs in the order of the input and write data files."""

    pieces: Sequence[_Piece]
    ranks: tuple[Any, ...]
    """Ranks of the labels of all tasks, for each dimension that has them."""
    target: FileTarget
    weighted: bool
    duplicates: Duplicates
    fill_value: Any
    mean: bool
    ids: tuple[Any, ...]
    """Sorted distinct ids of each relabelled dimension."""

    def __call__(self, scans: list[Scan], start: int, stop: int, folder: str) -> _MergedRows:
        """Write the elements with leading coordinates in [start, stop)."""
        from sparrow.sorting.sorter import Sorter

        events.emit("cluster.merge", start=start, runs=len(self.pieces))
        dtype = np.dtype(np.complex128) if self.mean else self.target.dtype
        sorter = Sorter(
            len(self.target.dims), dtype, weighted=self.weighted, duplicates=self.duplicates, wide_sums=True
        )
        report = Report()
        counter = RowCounter(report)

        def prepare(rows: Rows) -> Run | Rows:
            return sorter.prepare(counter.add(rows))

        with closing(sorter):
            sorter.consume(ordered_map(prepare, self._read(start, stop), settings.current().threads))
            blocks = sorter.blocks(self.target.coordinate_dtypes, None, self.ids)
            blocks = average(blocks, self.target.dtype) if self.mean else blocks
            try:
                files = self.target.write(counter.drop_fill(blocks, self.fill_value))
            except DuplicateError as error:
                return _MergedRows([], {}, error.cell)
            except SumRangeError as error:
                return _MergedRows([], {}, error.cell, error.total)
        counter.finish(files)
        return _MergedRows(files, report.counts)

    def _read(self, start: int, stop: int) -> Iterator[Rows]:
        """Yield the rows of a range, in the order of the input."""
        for piece in self.pieces:
            low, high = start, stop
            if piece.spans[0] is not None:
                low, high = np.searchsorted(piece.ranks(0, self.ranks), [start, stop]).tolist()
            for rows in piece.run.read(low, high) if low < high else ():
                coords = tuple(
                    column if span is None else piece.ranks(dim, self.ranks)[column]
                    for dim, (column, span) in enumerate(zip(rows.coords, piece.spans, strict=True))
                )
                yield Rows(coords, rows.values)
