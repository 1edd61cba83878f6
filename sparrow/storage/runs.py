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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.kernels.entries import Block, concatenate, in_order
from sparrow.relation import Chunk

__all__ = ["Decoded", "Merged", "Part", "cut", "joined", "members", "merged"]

Key: TypeAlias = tuple[int, ...]

_HELD = 1 << 20
"""Entries of runs that stay decoded, at most."""


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


class Decoded:
    """Row groups of runs that stay decoded, since each is read for many chunks; safe from several threads."""

    def __init__(self, before: Decoded | None = None) -> None:
        self._lock = threading.Lock()
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
            while sum(block.count for block in self._held.values()) > _HELD:
                self._held.popitem(last=False)
        return found


def cut(parts: Sequence[Part], rows: int = _HELD // 4) -> list[Chunk]:
    """Return chunks that hold the entries of all parts, in order.

    They begin where row groups of the files in order do, and in between wherever about ``rows`` entries of runs come.
    """
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
        bounds = starts[at] if at else None, starts[at + 1] if at + 1 < len(starts) else None
        low, high = (
            [side(ends) for ends in zip(*(getattr(part, name) for part, _ in shares), strict=True)]
            for side, name in ((min, "low"), (max, "high"))
        )
        if bounds[0] is not None:
            low[0] = max(low[0], bounds[0][0])
        if bounds[1] is not None:
            high[0] = min(high[0], bounds[1][0] - (len(bounds[1]) == 1))
        if low[0] <= high[0]:
            taken = Merged(tuple(part for part, _ in shares), *bounds)
            out.append(Chunk(sum(share for _, share in shares), tuple(low), tuple(high), taken))
    return out


def merged(ref: Merged, read: Callable[[Part], Block], ndim: int, dtype: np.dtype[Any]) -> Block:
    """Return the entries of a chunk, in order; its arrays are nobody else's."""
    blocks: list[Block] = []
    for part in ref.parts:
        block = read(part)
        start = 0 if ref.start is None else _place(block, ref.start)
        stop = block.count if ref.stop is None else _place(block, ref.stop)
        if start < stop:
            found = block.take(slice(start, stop))
            blocks.append(_copied(found) if part.run else found)
    return joined(blocks, ndim, dtype)


def joined(blocks: Sequence[Block], ndim: int, dtype: np.dtype[Any]) -> Block:
    """Return the union of sorted blocks that have no cell in common, in order."""
    blocks = [block for block in blocks if block.count]
    if len(blocks) < 2:
        return concatenate(blocks, ndim, dtype)
    large = max(blocks, key=lambda block: block.count)
    small = concatenate([block for block in blocks if block is not large], ndim, dtype)
    keys = _keys(large, small)
    if keys is None:
        both = concatenate([large, small], ndim, dtype)
        tops = [int(column.max()) + 1 for column in both.coords]
        return in_order(both, tops)
    from sparrow.kernels.rows import spliced

    ranked = np.argsort(keys[1], kind="stable")
    at = np.searchsorted(keys[0], keys[1][ranked])
    small = small.take(ranked)
    coords = tuple(spliced(a, at, b) for a, b in zip(large.coords, small.coords, strict=True))
    return Block(coords, spliced(large.values, at, small.values))


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
    out: list[NDArray[np.int64]] = []
    for block in blocks:
        keys = block.coords[0].astype(np.int64)
        for column, span in zip(block.coords[1:], spans[1:], strict=True):
            keys *= span
            keys += column
        out.append(keys)
    return out


def _place(block: Block, key: Key) -> int:
    """Return how many entries come before a key, of which the first coordinates are given."""
    start, stop = 0, block.count
    for column, wanted in zip(block.coords, key, strict=False):
        part = column[start:stop]
        start, stop = (start + int(np.searchsorted(part, wanted, side)) for side in ("left", "right"))
    return start


def _copied(block: Block) -> Block:
    return Block(tuple(column.copy() for column in block.coords), block.values.copy())
