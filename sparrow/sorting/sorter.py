"""External sorter: runs of keys in memory and on disk, merged range by range."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparrow.core.schema import Schema, is_fill
from sparrow.errors import DuplicateError, InvalidValueError
from sparrow.kernels.coo import Block, Duplicates, sum_dtype
from sparrow.kernels.keys import (
    Keys,
    Layout,
    choose_layout,
    gather_values,
    layout_covers,
    pack,
    repack,
    sort_stable,
    sortedness,
    unpack,
)
from sparrow.kernels.sums import SumRangeError, exact_sum, find_overflow, is_storable
from sparrow.runtime import events, memory, settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.sorting.rows import Column, Rows, Run, duplicate_error, unpack_key
from sparrow.sorting.spill import Segment, SpillFile, memory_budget
from sparrow.sorting.tuning import tuning
from sparrow.sorting.wide import fold_rows, folded_dtype, sort_rows, unfold_rows

__all__ = ["Sorter", "sorted_blocks"]

_PARTITION_BITS = 11
"""Leading bits by which rows are partitioned on arrival, in one pass of the radix sort."""


class _Range(NamedTuple):
    """Rows of all runs between two keys: ``start[r]:stop[r]`` of run r."""

    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    is_single: bool
    """True if all rows have the same key."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int((self.stop - self.start).sum())


def _ignore(n: int) -> None:
    pass


class Sorter:
    """External sorter of rows into canonical blocks, within the memory limit.

    Parameters
    ----------
    ndim
        Number of dimensions, at least 1.
    dtype
        Dtype of the values, of input and output.
    weighted
        Whether rows have values; otherwise the value of an element is its number of rows under ``duplicates="sum"``,
        else 1.
    duplicates
        Rule for several rows of one element; sums run in input order.
    describe
        Formats coordinates for errors.
    leading
        Coordinates that precede those of rows in errors.
    wide_sums
        Add shorter floats in float64: a sum of many is exact to rounding once. Sums of integers must fit the dtype.
    """

    def __init__(
        self,
        ndim: int,
        dtype: np.dtype[Any],
        *,
        weighted: bool,
        duplicates: Duplicates,
        describe: Callable[[tuple[int, ...]], str] = str,
        leading: tuple[int, ...] = (),
        wide_sums: bool = False,
    ) -> None:
        self._wide_sums = wide_sums and duplicates == "sum"
        self._sum_dtype = sum_dtype(dtype) if self._wide_sums else dtype
        self._ndim, self._dtype, self._duplicates = ndim, dtype, duplicates
        self.weighted = weighted
        self._describe, self._leading = describe, leading
        self._tuning = tuning()
        self._budget = memory_budget()
        self._reservation = memory.reserve(0, "rows being sorted")
        self._threads = settings.current().threads
        self._layout: Layout = choose_layout((0,) * ndim) or ()
        self._maxima: tuple[int, ...] = (-1,) * ndim
        self._runs: list[Run] = []
        self._ascending = True
        self._last: tuple[int, ...] = (-1,) * ndim
        self._spill_file = SpillFile()
        self._wide: Sorter | None = None
        """Sorter by the leading coordinate, once coordinates exceed 63 bits; the others are part of the value."""

    @cached_property
    def _by_leading(self) -> Sorter:
        dtype = folded_dtype(self._ndim, self._dtype, self.weighted)
        return Sorter(1, dtype, weighted=True, duplicates="error")

    @property
    def maxima(self) -> tuple[int, ...]:
        """Largest coordinate of each dimension so far, -1 if there is none."""
        return self._maxima

    @property
    def count(self) -> int:
        """Number of buffered rows."""
        return sum(run.count for run in self._runs) if self._wide is None else self._wide.count

    def close(self) -> None:
        """Free memory and disk space."""
        self._runs = []
        self._reservation.release()
        self._spill_file.close()
        if self._wide is not None:
            self._wide.close()

    # Input ----------------------------------------------------------------------------------------

    def prepare(self, rows: Rows) -> Run | Rows:
        """Return a batch of rows as a run for :meth:`consume`. Thread-safe."""
        if not rows.size:
            return rows
        maxima = tuple(int(column.max()) for column in rows.coords)
        layout: Layout | None = self._layout
        if not layout_covers(self._layout, maxima):
            layout = choose_layout(_maximum(maxima, self._maxima))
        if layout is None:
            return self._fold(rows, maxima)
        keys = pack(rows.coords, layout)
        values = None if rows.values is None else np.ascontiguousarray(rows.values)
        below = sum(layout[1:])
        ascending, is_sorted, is_sorted_by_minor = sortedness(keys, below)
        minor = None
        if is_sorted_by_minor:
            minor = int(keys[0]) & ((1 << below) - 1), int(keys[-1]) & ((1 << below) - 1)
        unsorted_bits: int | None = None
        if not is_sorted:
            if values is None:
                keys.sort()
            else:
                # One pass partitions the rows; each range is sorted on merge.
                unsorted_bits = max(maxima[0].bit_length() - _PARTITION_BITS, 0)
                keys, values = _sort_rows(keys, values, below + unsorted_bits)
                if minor is not None and not unsorted_bits:
                    unsorted_bits = None
        last = unpack_key(keys[-1], layout)
        return Run(
            layout,
            len(keys),
            maxima,
            keys,
            values,
            keys[:: self._tuning.sample_stride].copy(),
            ascending,
            last,
            minor,
            unsorted_bits,
        )

    def consume(self, prepared: Iterable[Run | Rows], *, pause: bool = False) -> bool:
        """Buffer runs, and spill them beyond the memory budget.

        With ``pause``, stop instead of spilling if all rows arrived in strictly ascending order.

        Returns
        -------
        bool
            Whether it paused: :meth:`drain` then returns the rows, and later ones are still in ``prepared``.
        """
        source = iter(prepared)
        for batch in source:
            if not self._add(batch):
                self._widen(itertools.chain(self.drain(), [batch], source))
                return False
            if self._reservation.nbytes > self._budget:
                if pause and self._ascending:
                    return True
                self._spill()
        return False

    def follows(self, batch: Run | Rows) -> bool:
        """Return whether rows are strictly ascending and greater than all earlier rows."""
        return isinstance(batch, Run) and batch.ascending and self._last < batch.first

    def skip(self, batch: Run) -> None:
        """Account for rows that the caller writes itself."""
        self._last, self._maxima = batch.last, _maximum(self._maxima, batch.maxima)

    def drain(self) -> Iterator[Run]:
        """Yield and drop all buffered rows; equal elements are in input order."""
        runs, self._runs = self._runs[::-1], []
        self._reservation.release()
        while runs:
            run = runs.pop()
            if isinstance(run.keys, np.ndarray):
                yield run
                continue
            for start in range(0, run.count, self._tuning.chunk_rows):
                stop = min(start + self._tuning.chunk_rows, run.count)
                values = None if run.values is None else self._read(run.values, start, stop)
                yield replace(run, count=stop - start, keys=self._read(run.keys, start, stop), values=values)

    def _fold(self, rows: Rows, maxima: tuple[int, ...]) -> Run:
        """Return rows sorted by their leading coordinate."""
        run = self._by_leading.prepare(fold_rows(rows, self._by_leading._dtype))
        assert isinstance(run, Run)
        return replace(run, maxima=maxima, ascending=False)

    def _widen(self, batches: Iterable[Run | Rows]) -> None:
        """Switch to sorting by the leading coordinate alone."""

        def fold_all() -> Iterator[Run]:
            for batch in batches:
                if isinstance(batch, Rows):
                    continue  # empty batches stay unsorted rows
                run = batch if len(batch.layout) == 1 else self._fold(batch.rows(), batch.maxima)
                self._maxima = _maximum(self._maxima, run.maxima)
                yield replace(run, maxima=run.maxima[:1])

        self._wide = self._by_leading
        self._wide.consume(fold_all())

    def _add(self, batch: Run | Rows) -> bool:
        """Buffer a run, unless keys would exceed 63 bits."""
        if isinstance(batch, Rows):
            return True  # empty batches stay unsorted rows
        if len(batch.layout) < self._ndim:
            return False
        maxima = _maximum(self._maxima, batch.maxima)
        if not layout_covers(self._layout, maxima):
            layout = choose_layout(maxima)
            if layout is None:
                return False
            self._runs = [self._relayout(run, layout) for run in self._runs]
            self._layout = layout
        self._ascending = self._ascending and self.follows(batch)
        self.skip(batch)
        if batch.layout != self._layout:
            batch = self._relayout(batch, self._layout)
        self._runs.append(batch)
        self._reservation.resize(self._reservation.nbytes + batch.nbytes)
        return True

    def _relayout(self, run: Run, layout: Layout) -> Run:
        keys = run.keys
        if isinstance(keys, Segment):
            for start in range(0, run.count, self._tuning.chunk_rows):
                chunk = self._spill_file.read(keys, start, min(start + self._tuning.chunk_rows, run.count))
                self._spill_file.write(keys, start, repack(chunk, run.layout, layout))
        else:
            keys = repack(keys, run.layout, layout)
        return replace(run, layout=layout, keys=keys, samples=repack(run.samples, run.layout, layout), minor=None)

    def _spill(self) -> None:
        """Merge the runs in memory into one on disk."""
        fresh = self._sort_tied_runs([run for run in self._runs if isinstance(run.keys, np.ndarray)])
        count = sum(run.count for run in fresh)
        events.emit("sorting.spill", runs=len(fresh), rows=count)
        stride = self._tuning.sample_stride
        keys = self._spill_file.reserve(count, np.dtype(np.int64))
        values = self._spill_file.reserve(count, self._dtype) if self.weighted else None
        samples: list[Keys] = []
        at = 0
        sorted_bits = _sorted_bits(fresh)

        def gather(range_: _Range) -> tuple[Keys, NDArray[Any] | None]:
            return self._gather(fresh, range_, sorted_bits)

        for merged, weights in ordered_map(gather, self._ranges(fresh)[0], self._threads):
            self._spill_file.write(keys, at, merged)
            if values is not None and weights is not None:
                self._spill_file.write(values, at, weights)
            samples.append(merged[-at % stride :: stride].copy())
            at += len(merged)
        first, last = fresh[0].minor, fresh[-1].minor
        minor = (first[0], last[1]) if sorted_bits and first is not None and last is not None else None
        merged_samples = np.concatenate(samples)
        merged_run = replace(
            fresh[0], count=count, keys=keys, values=values, samples=merged_samples, minor=minor, unsorted_bits=None
        )
        self._runs = [run for run in self._runs if isinstance(run.keys, Segment)] + [merged_run]
        self._reservation.release()

    # Output ---------------------------------------------------------------------------------------

    def parts(
        self,
        dtypes: Sequence[np.dtype[Any]],
        fill_value: Any,
        ids: Sequence[NDArray[np.int64] | None] | None = None,
        advance: Callable[[int], None] = _ignore,
    ) -> list[Iterator[Block]]:
        """Return iterators over consecutive parts of the canonical blocks.

        They may run on different threads. Call it once.

        Parameters
        ----------
        dtypes
            Coordinate dtype of each dimension.
        fill_value
            Value of elements to drop; None keeps all.
        ids
            For each dimension None, or its sorted distinct ids, by whose positions coordinates are replaced.
        advance
            Called with the rows that each block was made of, :attr:`count` in all.

        Raises
        ------
        DuplicateError
            From the iterators, if an element has several rows and ``duplicates`` is ``"error"``.
        NumberRangeError
            From the iterators, if integers of an element have a sum beyond the dtype, under ``wide_sums``.
        """
        places = [_rank_of(known) for known in ids or (None,) * self._ndim]
        wide, sorted_bits = self._wide, _sorted_bits(self._runs)

        def finish(coords: tuple[NDArray[Any], ...], values: NDArray[Any]) -> Block:
            values = self._as_dtype(values)
            if fill_value is not None and (absent := is_fill(values, fill_value)).any():
                coords, values = tuple(column[~absent] for column in coords), values[~absent]
            coords = tuple(place(column) for place, column in zip(places, coords, strict=True))
            return Block(tuple(c.astype(d, copy=False) for c, d in zip(coords, dtypes, strict=True)), values)

        def reduce_range(range_: _Range) -> Block:
            if wide is not None:
                return finish(*self._reduce_wide_range(wide, range_))
            if range_.is_single:
                keys, values = self._reduce_single(range_)
            else:
                keys, weights = self._gather(self._runs, range_, sorted_bits)
                fresh = np.ones(len(keys), bool)
                np.not_equal(keys[1:], keys[:-1], out=fresh[1:])
                at, values = self._reduce(fresh, weights, lambda i: unpack_key(keys[i], self._layout))
                keys = keys if at is None else keys[at]
            return finish(unpack(keys, self._layout), values)

        def blocks(ranges: list[_Range], threads: int) -> Iterator[Block]:
            for exceeds_range, group in itertools.groupby(ranges, lambda range_: wide is not None and range_.is_single):
                if not exceeds_range:
                    found = list(group)
                    for range_, block in zip(found, ordered_map(reduce_range, found, threads), strict=True):
                        yield block
                        advance(range_.n_rows)
                    continue
                assert wide is not None
                for range_ in group:
                    for block in self._sort_wide_group(wide, range_, fill_value):
                        yield finish(block.coords, block.values)
                    advance(range_.n_rows)

        parts = (wide or self)._partition()
        threads = self._threads if len(parts) == 1 else 1
        return [_drop_empty(blocks(part, threads)) for part in parts]

    def _partition(self) -> list[list[_Range]]:
        self._runs = self._sort_tied_runs(self._runs)
        total, limits = self.count, self._tuning
        one = total <= limits.single_part_max_rows
        return self._ranges(self._runs, 1 if one else 2 * -(-total // (2 * limits.max_part_rows)))

    def _reduce_wide_range(self, wide: Sorter, range_: _Range) -> tuple[tuple[NDArray[Any], ...], NDArray[Any]]:
        """Return the sorted elements of a range of leading coordinates, and their values."""
        keys, rest = wide._gather(wide._runs, range_, 0)
        assert rest is not None
        coords, weights = sort_rows(unfold_rows(keys, rest))
        fresh = np.zeros(len(keys), bool)
        fresh[:1] = True
        for column in coords:
            fresh[1:] |= column[1:] != column[:-1]
        at, values = self._reduce(fresh, weights, lambda i: tuple(int(column[i]) for column in coords))
        return (coords if at is None else tuple(column[at] for column in coords)), values

    def _sort_wide_group(self, wide: Sorter, range_: _Range, fill_value: Any) -> Iterator[Block]:
        """Yield the elements at a leading coordinate with more rows than a range."""
        leading = int(wide._key(range_)[0])
        events.emit("sorting.sort_group", coordinates=self._ndim - 1)
        inner = Sorter(
            self._ndim - 1, self._dtype, weighted=self.weighted, duplicates=self._duplicates,
            describe=self._describe, leading=(*self._leading, leading),
            wide_sums=self._wide_sums,
        )  # fmt: skip
        rows = (unfold_rows(None, rest) for rest in wide._values(range_))
        with closing(inner):
            inner.consume(ordered_map(inner.prepare, rows, self._threads))
            for block in inner.blocks([np.dtype(np.int64)] * (self._ndim - 1), fill_value):
                yield Block((np.full(block.count, leading), *block.coords), block.values)

    def blocks(
        self,
        dtypes: Sequence[np.dtype[Any]],
        fill_value: Any,
        ids: Sequence[NDArray[np.int64] | None] | None = None,
        advance: Callable[[int], None] = _ignore,
    ) -> Iterator[Block]:
        """Yield canonical blocks in order: all :meth:`parts`, one after the other."""
        return itertools.chain.from_iterable(self.parts(dtypes, fill_value, ids, advance))

    def _as_dtype(self, values: NDArray[Any]) -> NDArray[Any]:
        """Cast values; counts of rows must fit the dtype."""
        if not self.weighted and self._dtype.kind in "iu" and len(values):
            largest = int(values.max())
            if largest > np.iinfo(self._dtype).max:
                raise InvalidValueError(
                    f"the count of an element must fit {self._dtype}, got {largest}: pass dtype='int64'"
                )
        with np.errstate(all="ignore"):
            return values.astype(self._dtype, copy=False)

    def _reduce(
        self, fresh: NDArray[np.bool_], values: NDArray[Any] | None, coords_at: Callable[[int], tuple[int, ...]]
    ) -> tuple[NDArray[np.int64] | None, NDArray[Any]]:
        """Return the first row and the value of each element.

        ``fresh`` marks the first row of each element. The first rows are None if all rows are distinct. Rows of one
        element are combined from the first to the last.
        """
        n = len(fresh)
        if fresh.all():
            return None, np.ones(n, np.int64) if values is None else values
        starts = np.flatnonzero(fresh)
        rule = self._duplicates
        if rule == "error":
            raise self._duplicate_error(coords_at(int(np.flatnonzero(~fresh)[0])))
        if values is None:
            return starts, np.diff(starts, append=n) if rule == "sum" else np.ones(len(starts), np.int64)
        if rule == "first":
            return starts, values[starts]
        if rule == "last":
            return starts, values[np.append(starts[1:], n) - 1]
        if self._wide_sums and (beyond := find_overflow(values, starts, stored=True)) is not None:
            raise self._sum_error(coords_at(int(starts[beyond[0]])), beyond[1])
        values = values.astype(self._sum_dtype, copy=False)
        out = values[starts]
        more = np.flatnonzero(~fresh)
        group = np.searchsorted(starts, more, "right") - 1
        with np.errstate(all="ignore"):
            {"sum": np.add, "min": np.minimum, "max": np.maximum}[rule].at(out, group, values[more])
        return starts, out

    def _duplicate_error(self, coords: tuple[int, ...]) -> DuplicateError:
        return duplicate_error((*self._leading, *coords), self._describe)

    def _sum_error(self, coords: tuple[int, ...], total: int) -> SumRangeError:
        return SumRangeError.of((*self._leading, *coords), total, self._dtype, self._describe)

    def _reduce_single(self, range_: _Range) -> tuple[Keys, NDArray[Any]]:
        """Return the key and value of a range of rows of one element."""
        total, key = int((range_.stop - range_.start).sum()), self._key(range_)
        if total > 1 and self._duplicates == "error":
            raise self._duplicate_error(unpack_key(key[0], self._layout))
        if not self.weighted:
            return key, np.array([total if self._duplicates == "sum" else 1], np.int64)
        if self._wide_sums and self._dtype.kind in "iu":
            exact = sum(map(exact_sum, self._values(range_)))
            if not is_storable(exact, self._dtype):
                raise self._sum_error(unpack_key(key[0], self._layout), exact)
            return key, np.array([exact], self._dtype)
        accumulated = np.empty(0, self._sum_dtype)
        for more in self._values(range_):
            values = np.concatenate([accumulated, more])
            accumulated = self._reduce(np.arange(len(values)) == 0, values, lambda i: ())[1]
        return key, accumulated

    def _key(self, range_: _Range) -> Keys:
        """Return the key of the first row of a range, shape (1,)."""
        run = int(np.argmax(range_.start < range_.stop))
        start = int(range_.start[run])
        return self._read(self._runs[run].keys, start, start + 1)

    def _values(self, range_: _Range) -> Iterator[NDArray[Any]]:
        """Yield the values of a range in chunks, those of equal keys in input order."""
        for run, start, stop in zip(self._runs, range_.start.tolist(), range_.stop.tolist(), strict=True):
            assert run.values is not None
            for at in range(start, stop, self._tuning.chunk_rows):
                yield self._read(run.values, at, min(at + self._tuning.chunk_rows, stop))

    def _read(self, column: Column, start: int, stop: int) -> NDArray[Any]:
        return self._spill_file.read(column, start, stop) if isinstance(column, Segment) else column[start:stop]

    def _gather(self, runs: Sequence[Run], range_: _Range, sorted_bits: int) -> tuple[Keys, NDArray[Any] | None]:
        """Return the sorted rows of a range; equal keys are in input order."""
        parts: list[tuple[Keys, NDArray[Any] | None]] = []
        ordered = True
        for run, start, stop in zip(runs, range_.start.tolist(), range_.stop.tolist(), strict=True):
            if start < stop:
                values = None if run.values is None else self._read(run.values, start, stop)
                parts.append((self._read(run.keys, start, stop), values))
                ordered &= run.unsorted_bits is None
        if len(parts) == 1 and ordered:
            return parts[0]
        keys = np.concatenate([part[0] for part in parts])
        ordered = ordered and all(a[0][-1] <= b[0][0] for a, b in itertools.pairwise(parts))
        if not self.weighted:
            if not ordered:
                keys.sort()
            return keys, None
        values = np.concatenate([part[1] for part in parts if part[1] is not None])
        if not ordered:
            keys, values = _sort_rows(keys, values, sorted_bits)
        return keys, values

    def _sort_tied_runs(self, runs: list[Run]) -> list[Run]:
        """Return runs, fully sorted if rows tied in the sorted bits exceed a range."""
        if all(run.unsorted_bits is None for run in runs):
            return runs
        limits = self._tuning
        max_rows = self._range_rows(limits.tie_row_bytes)
        if np.unique(_samples(runs), return_counts=True)[1].max() * limits.sample_stride <= max_rows:
            return runs
        return [run if run.unsorted_bits is None else self._sort_run(run) for run in runs]

    def _range_rows(self, row_bytes: int) -> int:
        limits = self._tuning
        return min(max(self._budget // row_bytes, limits.min_range_rows), limits.max_range_rows)

    def _sort_run(self, run: Run) -> Run:
        """Fully sort a partitioned run in memory."""
        assert isinstance(run.keys, np.ndarray)
        assert isinstance(run.values, np.ndarray)
        events.emit("sorting.sort_run", rows=run.count)
        keys, values = _sort_rows(run.keys, run.values, 0 if run.minor is None else sum(run.layout[1:]))
        samples = keys[:: self._tuning.sample_stride].copy()
        return replace(run, keys=keys, values=values, samples=samples, unsorted_bits=None)

    def _ranges(self, runs: Sequence[Run], parts: int = 1) -> list[list[_Range]]:
        """Split the rows of runs into parts, and parts into ranges of keys.

        A thread sorts a range in memory.
        """
        if not runs:
            return [[]]
        limits = self._tuning
        size = self._range_rows(limits.range_row_bytes * (self._threads + 2))
        size = min(size, max(limits.cached_range_rows, limits.range_rows_per_run * len(runs)))
        samples = np.sort(_samples(runs))
        step = max(size // limits.sample_stride, 1)
        cuts, times = np.unique(samples[step::step], return_counts=True)
        alone = cuts[(times > 1) & (cuts < np.iinfo(np.int64).max)]
        if any(run.unsorted_bits is not None for run in runs):
            alone = alone[:0]
        begins = np.unique(samples[[len(samples) * part // parts for part in range(1, parts)]])
        splitters = np.unique(np.concatenate([cuts, alone + 1, begins]))
        edges = np.zeros((len(splitters) + 2, len(runs)), np.int64)
        for r, run in enumerate(runs):
            edges[1:-1, r] = self._positions(run, splitters)
            edges[-1, r] = run.count
        single = np.isin(splitters, alone)
        first = np.isin(splitters, begins)
        out: list[list[_Range]] = [[]]
        for i, (start, stop) in enumerate(itertools.pairwise(edges)):
            if i and first[i - 1]:
                out.append([])
            if (start < stop).any():
                out[-1].append(_Range(start, stop, bool(i and single[i - 1])))
        return [part for part in out if part] or [[]]

    def _positions(self, run: Run, splitters: Keys) -> NDArray[np.int64]:
        """Return the number of keys of a run below each splitter."""
        if isinstance(run.keys, np.ndarray):
            return np.searchsorted(run.keys, splitters)
        out = np.zeros(len(splitters), np.int64)
        stride = self._tuning.sample_stride
        for i, above in enumerate(np.searchsorted(run.samples, splitters).tolist()):
            if above:
                start = (above - 1) * stride
                chunk = self._spill_file.read(run.keys, start, min(start + stride, run.count))
                out[i] = start + np.searchsorted(chunk, splitters[i])
        return out


def sorted_blocks(rows: Iterable[Rows], schema: Schema) -> Iterator[Block]:
    """Sort elements in any order into canonical blocks of a schema."""
    with closing(Sorter(schema.ndim, schema.dtype, weighted=True, duplicates="error")) as sorter:
        sorter.consume(ordered_map(sorter.prepare, rows, settings.current().threads))
        yield from sorter.blocks(schema.coordinate_dtypes, None)  # stored elements equal to the fill value are kept


def _samples(runs: Sequence[Run]) -> Keys:
    """Return the samples of all runs, truncated to commonly sorted bits."""
    unsorted_bits = [run.unsorted_bits for run in runs if run.unsorted_bits is not None]
    samples = np.concatenate([run.samples for run in runs])
    if unsorted_bits:
        samples &= -1 << (sum(runs[0].layout[1:]) + max(unsorted_bits))
    return samples


def _sort_rows(keys: Keys, values: NDArray[Any], sorted_bits: int) -> tuple[Keys, NDArray[Any]]:
    """Sort rows stably by their keys without the lowest ``sorted_bits``."""
    events.emit("sorting.sort_rows", sorted_bits=sorted_bits)
    keys, order = sort_stable(keys, sorted_bits)
    return keys, gather_values(values, order)


def _sorted_bits(runs: Sequence[Run]) -> int:
    """Return the number of bits below the leading coordinate, or 0.

    It is 0 unless rows of one leading coordinate are sorted by the others across runs.
    """
    ends = [run.minor for run in runs]
    follow = all(a and b and a[1] <= b[0] for a, b in itertools.pairwise(ends))
    return sum(runs[0].layout[1:]) if runs and ends[0] and follow else 0


def _maximum(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    return tuple(max(pair) for pair in zip(a, b, strict=True))


def _rank_of(known: NDArray[np.int64] | None) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Return the map from ids to ranks, a table unless the ids are far apart."""
    if known is None:
        return lambda column: column
    if not len(known) or int(known[-1]) > tuning().id_table_gap * len(known) + 1000:
        return lambda column: np.searchsorted(known, column)
    table = np.zeros(int(known[-1]) + 1, np.int32 if len(known) <= 2**31 else np.int64)
    table[known] = np.arange(len(known), dtype=table.dtype)
    return lambda column: table[column]


def _drop_empty(blocks: Iterable[Block]) -> Iterator[Block]:
    return (block for block in blocks if block.count)
