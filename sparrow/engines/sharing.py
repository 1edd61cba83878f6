"""What several expressions that are computed together read once: chunks of files, and pieces of common expressions.

While :func:`shared` is in force, a chunk that one of them has read is kept for the others, as many as the memory for it
allows; who asks for a chunk that is being read waits for it.
"""

from __future__ import annotations

import bisect
import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Protocol

import numpy as np

from sparrow.index import View
from sparrow.kernels.entries import Block, concatenate
from sparrow.relation import Chunk, Relation

__all__ = ["read", "shared"]

_kept: dict[Hashable, Callable[[Chunk], Block]] = {}
"""How to read the relations that are shared at present, by token."""


class Computed(Relation, Protocol):
    """A relation that is computed when it is read."""

    def span(self, chunk: Chunk) -> tuple[int, int] | None:
        """Return the bounds along the leading dimension that a chunk is computed for; None of a chunk of the input."""


def read(relation: Relation, chunk: Chunk, dims: Sequence[int] | None = None) -> Block:
    """Return the entries of a chunk as ``relation.read`` does, read once where the relation is shared."""
    keeper = _kept.get(relation.token) if _kept else None
    return relation.read(chunk, dims) if keeper is None else keeper(chunk)


@contextmanager
def shared(stored: Sequence[Relation], computed: Sequence[tuple[Computed, Computed]], budget: int) -> Iterator[None]:
    """Keep what is read of some relations while the block runs, at most ``budget`` bytes beside what is in use.

    Parameters
    ----------
    stored
        Relations that read the chunks they name, such as files.
    computed
        Relations that compute any range of the leading dimension, each with one of equal entries that is asked in its
        place; ranges are put together from the pieces of that one.
    budget
        Bytes; what was asked for least recently goes first.
    """
    cache = _Cache(budget)
    mine: list[Hashable] = []
    readers = {relation.token: _chunks(relation, cache) for relation in stored}
    readers |= {relation.token: _pieces(source, cache) for relation, source in computed}
    try:
        for token, reader in readers.items():
            if token not in _kept:  # else another call shares it already
                _kept[token] = reader
                mine.append(token)
        yield
    finally:
        for token in mine:
            del _kept[token]


def _chunks(relation: Relation, cache: _Cache) -> Callable[[Chunk], Block]:
    return lambda chunk: cache.get((relation.token, chunk.ref), lambda: relation.read(chunk))


def _pieces(relation: Computed, cache: _Cache) -> Callable[[Chunk], Block]:
    """Return a reader of ranges that are put together from the relation's own pieces."""
    shape = relation.schema.shape
    own: list[tuple[int, int, Chunk]] = []
    lock = threading.Lock()

    def ranged(chunk: Chunk) -> Block:
        span = relation.span(chunk)
        if span is None:
            return cache.get((relation.token, chunk.ref), lambda: relation.read(chunk))
        if not shape:
            return cache.get(relation.token, lambda: relation.read(chunk))
        with lock:
            if not own:
                found = relation.chunks(View.identity(shape).box())
                own.extend((part.low[0], part.high[0] + 1, part) for part in found)
        first = bisect.bisect_right([low for low, _, _ in own], span[0]) - 1
        parts = []
        for low, high, piece in itertools.takewhile(lambda part: part[0] < span[1], own[first:]):
            block = cache.get((relation.token, low), lambda piece=piece: relation.read(piece))  # type: ignore[misc]
            parts.append(_between(block, max(span[0], low), min(span[1], high)))
        return concatenate(parts, len(shape), relation.schema.dtype)

    return ranged


def _between(block: Block, start: int, stop: int) -> Block:
    """Return the entries whose leading coordinate lies between two bounds."""
    leading = block.coords[0]
    kind = leading.dtype.type  # a Python integer would cast the whole column
    first, last = np.searchsorted(leading, kind(start), "left"), np.searchsorted(leading, kind(stop - 1), "right")
    return block.take(slice(int(first), int(last)))


class _Cache:
    """Blocks by key, each made once while it is kept."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._held = 0
        self._blocks: OrderedDict[Hashable, Future[Block]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Block]) -> Block:
        """Return the block of a key, made by whoever asks first."""
        with self._lock:
            future = self._blocks.get(key)
            mine = future is None
            if future is None:
                future = self._blocks[key] = Future()
            else:
                self._blocks.move_to_end(key)
        if not mine:
            return future.result()
        try:
            block = make()
        except BaseException as error:
            with self._lock:
                del self._blocks[key]
            future.set_exception(error)
            raise
        future.set_result(block)
        with self._lock:
            self._held += _nbytes(block)
            done = [k for k, kept in self._blocks.items() if kept.done()]
            for oldest in done:
                if self._held <= self._budget:
                    break
                self._held -= _nbytes(self._blocks.pop(oldest).result())
        return block


def _nbytes(block: Block) -> int:
    return block.values.nbytes + sum(column.nbytes for column in block.coords)
