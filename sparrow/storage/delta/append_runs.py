"""Append runs: sorted files beside the base files, merged on read.

Base files are sorted and disjoint. An append that is spread over all their keys becomes a run: files sorted and
disjoint among themselves, whose keys lie between those of the others. No element is in two files, so readers without a
need for order read all files; sorted readers merge here, chunk by chunk.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.core.bisection import bisect_sorted
from sparrow.core.indexing import Box
from sparrow.kernels.coo import Block, concat_blocks, flat_positions, sort_block
from sparrow.relations.memory import RowSlices
from sparrow.relations.protocol import Chunk
from sparrow.runtime.events import emit
from sparrow.storage.tuning import tuning

__all__ = [
    "DecodedRuns",
    "MergedChunk",
    "Part",
    "isin_block",
    "merge_blocks",
    "merge_parts",
    "plan_chunks",
    "search_key",
]

Key: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A sorted unit: a row group, or a block in memory."""

    low: Key
    """Smallest coordinate of each dimension."""
    high: Key
    rows: int
    run: bool
    """True if it belongs to an append run."""
    ref: Any
    """Location: path and number of a row group, or the block."""

    @property
    def start(self) -> Key:
        """Leading coordinates of the first key, as far as the bounds determine it."""
        known = 0
        while known < len(self.low) - 1 and self.low[known] == self.high[known]:
            known += 1
        return self.low[: known + 1]


@dataclass(frozen=True, slots=True)
class MergedChunk:
    """Location of a merged chunk: elements of some parts, in a range of keys."""

    parts: tuple[Part, ...]
    start: Key | None
    stop: Key | None
    box: Box | None = field(default=None, compare=False)
    """Elements outside may be left out; they are dropped before the merge."""
    box_key: Hashable = None
    """Hashable form of the box."""


class DecodedRuns:
    """Cache of decoded row groups of runs, each of which is read for many chunks.

    Thread-safe.

    Parameters
    ----------
    runs
        Number of elements of each run. Two row groups of each fit, else a scan would decode them for every chunk.
    before
        Cache of the version before.
    """

    def __init__(self, runs: Iterable[int] = (), before: DecodedRuns | None = None) -> None:
        self._lock = threading.Lock()
        group_rows = tuning().run_chunk_rows
        self._capacity = max(tuning().decoded_run_rows, 2 * sum(min(rows, group_rows) for rows in runs))
        self._blocks: OrderedDict[Any, Block] = OrderedDict()
        if before is not None:
            with before._lock:
                self._blocks.update(before._blocks)

    def get(self, part: Part, decode: Callable[[], Block]) -> Block:
        """Return the elements of a row group, decoding it if needed; read-only."""
        with self._lock:
            found = self._blocks.get(part.ref)
            if found is not None:
                self._blocks.move_to_end(part.ref)
                return found
        found = decode()
        with self._lock:
            self._blocks[part.ref] = found
            while sum(block.count for block in self._blocks.values()) > self._capacity:
                self._blocks.popitem(last=False)
        return found

    def peek(self, ref: Any) -> Block | None:
        """Return the elements of a row group if it is decoded; read-only."""
        with self._lock:
            return self._blocks.get(ref)


def plan_chunks(
    parts: Sequence[Part], rows: int | None = None, box: Box | None = None, starts: Iterable[Key] = ()
) -> list[Chunk]:
    """Return chunks that cover the elements of all parts, in order.

    Parameters
    ----------
    parts
        The parts. Chunks begin where parts of the base files do, and after every ``rows`` elements of runs.
    rows
        Elements of runs in a chunk; the tuning parameter ``run_chunk_rows`` by default.
    box
        Elements outside need not be covered.
    starts
        Further keys at which chunks begin.
    """
    rows = tuning().run_chunk_rows if rows is None else rows
    first_key = end_key = box_key = None
    if box is not None and box.ranges and parts:
        first_key, end_key = (box.ranges[0][0],), (box.ranges[0][-1] + 1,)
        box_key = box.ranges, tuple((dim, wanted.tobytes()) for dim, wanted in box.members)
    cuts: list[Key] = []
    pending = 0
    marks = [(part.start, part.run, part.rows) for part in parts] + [(start, False, 0) for start in starts]
    for start, run, count in sorted(marks):
        if not run or not cuts or pending + count > rows:
            if not cuts or cuts[-1] != start:
                cuts.append(start)
            pending = count if run else 0
        else:
            pending += count
    found: list[list[tuple[Part, int]]] = [[] for _ in cuts]
    for part in parts:
        first = max(bisect_right(cuts, part.low) - 1, 0)
        last = bisect_right(cuts, part.high)
        for at in range(first, last):
            found[at].append((part, max(part.rows // (last - first), 1)))
    out: list[Chunk] = []
    for at, shares in enumerate(found):
        if not shares:
            continue
        following = cuts[at + 1] if at + 1 < len(cuts) else None
        bounds = _narrower(cuts[at] if at else None, first_key, max), _narrower(following, end_key, min)
        low, high = (
            [side(ends) for ends in zip(*(getattr(part, name) for part, _ in shares), strict=True)]
            for side, name in ((min, "low"), (max, "high"))
        )
        if bounds[0] is not None:
            low[0] = max(low[0], bounds[0][0])
        if bounds[1] is not None:
            high[0] = min(high[0], bounds[1][0] - (len(bounds[1]) == 1))
        if low[0] <= high[0]:
            ref = MergedChunk(tuple(part for part, _ in shares), *bounds, box, box_key)
            out.append(Chunk(sum(share for _, share in shares), tuple(low), tuple(high), ref, is_exact=False))
    return out


def _narrower(a: Key | None, b: Key | None, side: Callable[[Key, Key], Key]) -> Key | None:
    return b if a is None else a if b is None else side(a, b)


def merge_parts(ref: MergedChunk, read: Callable[[Part], Block], ndim: int, dtype: np.dtype[Any]) -> Block:
    """Return the elements of a chunk in order, in arrays of its own."""
    blocks: list[Block] = []
    for part in ref.parts:
        block = read(part)
        start = 0 if ref.start is None else search_key(block, ref.start)
        stop = block.count if ref.stop is None else search_key(block, ref.stop)
        if start < stop:
            found = block.take(slice(start, stop))
            clipped = found if ref.box is None else _clip_to_box(found, part, ref.box)
            blocks.append(_copy(clipped) if part.run and clipped is found else clipped)
    out = merge_blocks(blocks, ndim, dtype)
    emit("storage.merge_runs", rows=out.count)
    return out


def _clip_to_box(block: Block, part: Part, box: Box) -> Block:
    """Drop most elements of a part that lie outside a box.

    Return the same block if none do.
    """
    for dim, wanted in box.members:
        if dim == 0:
            column = block.coords[0]
            rows = wanted[bisect_sorted(wanted, column[0]) : bisect_sorted(wanted, column[-1], "right")]
            rows = rows.astype(column.dtype)
            if len(rows) <= tuning().row_search_max:
                ends = np.searchsorted(column, rows, "left"), np.searchsorted(column, rows, "right")
                block = RowSlices(*ends).take_block(block)
    keep: NDArray[np.bool_] | None = None
    for dim, r in enumerate(box.ranges[1:], 1):
        if part.low[dim] < r[0] or part.high[dim] > r[-1]:
            column = block.coords[dim]
            kind = column.dtype.type  # NumPy would cast the whole column for a Python integer
            mask = (column >= kind(r[0])) & (column <= kind(r[-1]))
            keep = mask if keep is None else keep & mask
    return block if keep is None else block.take(keep)


def merge_blocks(blocks: Sequence[Block], ndim: int, dtype: np.dtype[Any]) -> Block:
    """Return the union of sorted, disjoint blocks in order."""
    blocks = [block for block in blocks if block.count]
    if len(blocks) < 2:
        return concat_blocks(blocks, ndim, dtype)
    large = max(blocks, key=lambda block: block.count)
    small = concat_blocks([block for block in blocks if block is not large], ndim, dtype)
    if len(blocks) > 2:
        small = sort_block(small, [int(column.max()) + 1 for column in small.coords])
    at = _insert_positions(large, small)
    if at is None:
        both = concat_blocks([large, small], ndim, dtype)
        return sort_block(both, [int(column.max()) + 1 for column in both.coords])
    from sparrow.kernels.rows import insert_sorted

    coords = tuple(insert_sorted(a, at, b) for a, b in zip(large.coords, small.coords, strict=True))
    return Block(coords, insert_sorted(large.values, at, small.values))


def _insert_positions(large: Block, small: Block) -> NDArray[np.int64] | None:
    """Return the insert positions of ``small`` in ``large``, or None past int64."""
    if len(large.coords) < 2:
        return np.searchsorted(large.coords[0], small.coords[0]) if large.coords else None
    rest = [block.coords[1] for block in (large, small)]
    if len(large.coords) > 2:
        keys = _flat_keys(*(Block(block.coords[1:], block.values) for block in (large, small)))
        if keys is None:
            return None
        rest = keys
    from sparrow.kernels.rows import merge_positions

    return merge_positions(large.coords[0], rest[0], small.coords[0], rest[1])


def isin_block(block: Block, wanted: Block) -> NDArray[np.bool_]:
    """Test for each element of ``wanted`` whether a sorted block contains it."""
    if not block.count or not wanted.count:
        return np.zeros(wanted.count, dtype=bool)
    keys = _flat_keys(block, wanted)
    if keys is None:
        known = set(zip(*(column.tolist() for column in block.coords), strict=True))
        asked = zip(*(column.tolist() for column in wanted.coords), strict=True)
        return np.fromiter((key in known for key in asked), dtype=bool, count=wanted.count)
    at = np.minimum(np.searchsorted(keys[0], keys[1]), block.count - 1)
    return np.asarray(keys[0][at] == keys[1])


def _flat_keys(*blocks: Block) -> list[NDArray[np.int64]] | None:
    """Return one sortable integer per element, or None past int64."""
    spans = [max(int(column.max()) for column in side) + 1 for side in zip(*(b.coords for b in blocks), strict=True)]
    if math.prod(spans) >= 2**63:
        return None
    return [flat_positions(block.coords, spans, block.count) for block in blocks]


def search_key(block: Block, key: Key) -> int:
    """Return the number of elements of a sorted block before a key prefix."""
    start, stop = 0, block.count
    for column, wanted in zip(block.coords, key, strict=False):
        part, kind = column[start:stop], column.dtype.type  # NumPy would cast the whole column for a Python integer
        if wanted > np.iinfo(kind).max:
            return stop
        start, stop = (start + int(np.searchsorted(part, kind(wanted), side)) for side in ("left", "right"))
    return start


def _copy(block: Block) -> Block:
    return Block(tuple(column.copy() for column in block.coords), block.values.copy())
