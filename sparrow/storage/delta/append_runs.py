"""Runs of appended entries beside the sorted files, and how a scan sees all of them as one sorted whole.

The files of a tensor are sorted and apart. What an append brings all over their keys is a run: files sorted and apart
among themselves, whose keys lie between those of the others. No cell is in two of them, so that whoever reads all
files reads the tensor; who wants it in order merges here, chunk by chunk.
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

from sparrow.core.indexing import Box
from sparrow.kernels.coo import Block, concat_blocks, flat_positions, sort_block
from sparrow.relations.base import Chunk, RowSlices

__all__ = ["Decoded", "Merged", "Part", "cut", "joined", "members", "merged", "place"]

Key: TypeAlias = tuple[int, ...]

_HELD = 1 << 20
"""Entries of runs that stay decoded, at most, where these are a row group each."""
_FEW = 1 << 12
"""The most coordinates that are looked for one by one."""
_GROUP = 1 << 18
"""About how many entries a row group has."""


@dataclass(frozen=True, slots=True)
class Part:
    """What is in order by itself: a row group, or a block in memory."""

    low: Key
    """Smallest coordinate of each dimension."""
    high: Key
    rows: int
    run: bool
    """Whether it is of a run, or of the files that come in order."""
    ref: Any
    """Where it is."""

    @property
    def start(self) -> Key:
        """First coordinates of a key that no entry is below, as many as the bounds tell exactly."""
        known = 0
        while known < len(self.low) - 1 and self.low[known] == self.high[known]:
            known += 1
        return self.low[: known + 1]


@dataclass(frozen=True, slots=True)
class Merged:
    """Where a chunk is: the entries of some parts from one key on, and below another; None is no bound."""

    parts: tuple[Part, ...]
    start: Key | None
    stop: Key | None
    box: Box | None = field(default=None, compare=False)
    """Entries outside need not be there: they are left out before parts are merged."""
    asked: Hashable = None
    """What tells the box."""


class Decoded:
    """Row groups of runs that stay decoded, since each is read for many chunks; safe from several threads.

    Parameters
    ----------
    runs
        How many entries each run has. Two row groups of each have room, else a scan would decode them for every chunk.
    before
        What was decoded of the version before.
    """

    def __init__(self, runs: Iterable[int] = (), before: Decoded | None = None) -> None:
        self._lock = threading.Lock()
        self._room = max(_HELD, 2 * sum(min(rows, _GROUP) for rows in runs))
        self._held: OrderedDict[Any, Block] = OrderedDict()
        if before is not None:
            with before._lock:
                self._held.update(before._held)

    def get(self, part: Part, decode: Callable[[], Block]) -> Block:
        """Return the entries of a row group, not to be written to."""
        with self._lock:
            found = self._held.get(part.ref)
            if found is not None:
                self._held.move_to_end(part.ref)
                return found
        found = decode()
        with self._lock:
            self._held[part.ref] = found
            while sum(block.count for block in self._held.values()) > self._room:
                self._held.popitem(last=False)
        return found

    def held(self, ref: Any) -> Block | None:
        """Return the entries of a row group where they are decoded; not to be written to."""
        with self._lock:
            return self._held.get(ref)


def cut(parts: Sequence[Part], rows: int = _GROUP, box: Box | None = None) -> list[Chunk]:
    """Return chunks that hold the entries of all parts, in order.

    They begin where row groups of the files in order do, and in between wherever about ``rows`` entries of runs come.
    Only entries in a box are wanted, all by default.
    """
    first_key = end_key = asked = None
    if box is not None and box.ranges and parts:
        first_key, end_key = (box.ranges[0][0],), (box.ranges[0][-1] + 1,)
        asked = box.ranges, tuple((dim, wanted.tobytes()) for dim, wanted in box.members)
    starts: list[Key] = []
    waiting = 0
    for start, run, count in sorted((part.start, part.run, part.rows) for part in parts):
        if not run or not starts or waiting + count > rows:
            if not starts or starts[-1] != start:
                starts.append(start)
            waiting = count if run else 0
        else:
            waiting += count
    found: list[list[tuple[Part, int]]] = [[] for _ in starts]
    for part in parts:
        first = max(bisect_right(starts, part.low) - 1, 0)
        last = bisect_right(starts, part.high)
        for at in range(first, last):
            found[at].append((part, max(part.rows // (last - first), 1)))
    out: list[Chunk] = []
    for at, shares in enumerate(found):
        if not shares:
            continue
        following = starts[at + 1] if at + 1 < len(starts) else None
        bounds = _tighter(starts[at] if at else None, first_key, max), _tighter(following, end_key, min)
        low, high = (
            [side(ends) for ends in zip(*(getattr(part, name) for part, _ in shares), strict=True)]
            for side, name in ((min, "low"), (max, "high"))
        )
        if bounds[0] is not None:
            low[0] = max(low[0], bounds[0][0])
        if bounds[1] is not None:
            high[0] = min(high[0], bounds[1][0] - (len(bounds[1]) == 1))
        if low[0] <= high[0]:
            taken = Merged(tuple(part for part, _ in shares), *bounds, box, asked)
            out.append(Chunk(sum(share for _, share in shares), tuple(low), tuple(high), taken, counted=False))
    return out


def _tighter(a: Key | None, b: Key | None, side: Callable[[Key, Key], Key]) -> Key | None:
    return b if a is None else a if b is None else side(a, b)


def merged(ref: Merged, read: Callable[[Part], Block], ndim: int, dtype: np.dtype[Any]) -> Block:
    """Return the entries of a chunk, in order; its arrays are nobody else's."""
    blocks: list[Block] = []
    for part in ref.parts:
        block = read(part)
        start = 0 if ref.start is None else place(block, ref.start)
        stop = block.count if ref.stop is None else place(block, ref.stop)
        if start < stop:
            found = block.take(slice(start, stop))
            inside = found if ref.box is None else _inside(found, part, ref.box)
            blocks.append(_copied(inside) if part.run and inside is found else inside)
    return joined(blocks, ndim, dtype)


def _inside(block: Block, part: Part, box: Box) -> Block:
    """Return the entries of a stretch of a part without many that lie outside a box; the very block where all are."""
    for dim, wanted in box.members:
        if dim == 0:
            column = block.coords[0]
            asked = wanted[slice(*np.searchsorted(wanted, [column[0], column[-1] + 1]))].astype(column.dtype)
            if len(asked) <= _FEW:
                ends = np.searchsorted(column, asked, "left"), np.searchsorted(column, asked, "right")
                block = RowSlices(*ends).block(block)
    keep: NDArray[np.bool_] | None = None
    for dim, r in enumerate(box.ranges[1:], 1):
        if part.low[dim] < r[0] or part.high[dim] > r[-1]:
            column = block.coords[dim]
            kind = column.dtype.type  # a Python integer would cast the whole column
            near = (column >= kind(r[0])) & (column <= kind(r[-1]))
            keep = near if keep is None else keep & near
    return block if keep is None else block.take(keep)


def joined(blocks: Sequence[Block], ndim: int, dtype: np.dtype[Any]) -> Block:
    """Return the union of sorted blocks that have no cell in common, in order."""
    blocks = [block for block in blocks if block.count]
    if len(blocks) < 2:
        return concat_blocks(blocks, ndim, dtype)
    large = max(blocks, key=lambda block: block.count)
    small = concat_blocks([block for block in blocks if block is not large], ndim, dtype)
    if len(blocks) > 2:
        small = sort_block(small, [int(column.max()) + 1 for column in small.coords])
    at = _places(large, small)
    if at is None:
        both = concat_blocks([large, small], ndim, dtype)
        return sort_block(both, [int(column.max()) + 1 for column in both.coords])
    from sparrow.kernels.rows import insert_sorted

    coords = tuple(insert_sorted(a, at, b) for a, b in zip(large.coords, small.coords, strict=True))
    return Block(coords, insert_sorted(large.values, at, small.values))


def _places(large: Block, small: Block) -> NDArray[np.int64] | None:
    """Return before which entries of a sorted block those of another come; None where keys would pass 2^63."""
    if len(large.coords) < 2:
        return np.searchsorted(large.coords[0], small.coords[0]) if large.coords else None
    rest = [block.coords[1] for block in (large, small)]
    if len(large.coords) > 2:
        keys = _keys(*(Block(block.coords[1:], block.values) for block in (large, small)))
        if keys is None:
            return None
        rest = keys
    from sparrow.kernels.rows import merge_positions

    return merge_positions(large.coords[0], rest[0], small.coords[0], rest[1])


def members(block: Block, wanted: Block) -> NDArray[np.bool_]:
    """Return for each entry wanted whether a sorted block has its cell."""
    if not block.count or not wanted.count:
        return np.zeros(wanted.count, dtype=bool)
    keys = _keys(block, wanted)
    if keys is None:
        cells = set(zip(*(column.tolist() for column in block.coords), strict=True))
        asked = zip(*(column.tolist() for column in wanted.coords), strict=True)
        return np.fromiter((cell in cells for cell in asked), dtype=bool, count=wanted.count)
    at = np.minimum(np.searchsorted(keys[0], keys[1]), block.count - 1)
    return np.asarray(keys[0][at] == keys[1])


def _keys(*blocks: Block) -> list[NDArray[np.int64]] | None:
    """Return one integer for each entry of blocks that are not empty, ascending as the cells; None past 2^63."""
    spans = [max(int(column.max()) for column in side) + 1 for side in zip(*(b.coords for b in blocks), strict=True)]
    if math.prod(spans) >= 2**63:
        return None
    return [flat_positions(block.coords, spans, block.count) for block in blocks]


def place(block: Block, key: Key) -> int:
    """Return how many entries come before a key, of which the first coordinates are given."""
    start, stop = 0, block.count
    for column, wanted in zip(block.coords, key, strict=False):
        part, kind = column[start:stop], column.dtype.type  # a Python integer would cast the whole column
        if wanted > np.iinfo(kind).max:
            return stop
        start, stop = (start + int(np.searchsorted(part, kind(wanted), side)) for side in ("left", "right"))
    return start


def _copied(block: Block) -> Block:
    return Block(tuple(column.copy() for column in block.coords), block.values.copy())
