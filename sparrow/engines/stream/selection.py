"""Selection of elements in one scan: best values, first coordinates, samples.

Each keeps as many elements as it returns, so memory is bounded by the result and a chunk per thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.schema import Schema
from sparrow.engines.sort_orders import scan_order, sorted_order
from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.product.combine import find_largest
from sparrow.engines.stream.tuning import tuning
from sparrow.kernels.coo import Block, concat_blocks
from sparrow.plan import Scan
from sparrow.relations.protocol import Chunk
from sparrow.runtime import memory, settings
from sparrow.runtime.thread_pool import ordered_map

__all__ = ["best_elements", "best_of_lines", "empty_block", "first_elements", "reverse_values", "sample_elements"]


def best_of_lines(indptr: NDArray[np.int64], values: NDArray[Any], k: int, largest: bool) -> NDArray[np.int64]:
    """Return the positions of the k best values of each line, ascending.

    Those are the largest or the smallest. Of equal values the first are taken, and NaN only where nothing else is left.

    Examples
    --------
    >>> best_of_lines(np.array([0, 3, 5]), np.array([5, 7, 7, 1, 2]), 1, largest=False)
    array([0, 3])
    """
    return find_largest(indptr, values if largest else reverse_values(values), k)


def reverse_values(values: NDArray[Any]) -> NDArray[Any]:
    """Return values in the opposite order, NaN apart."""
    return ~values if values.dtype.kind in "iub" else -values


def best_elements(scan: Scan, k: int, largest: bool) -> Block:
    """Return the k largest or smallest stored elements, the best first.

    Of equal values those at the lowest coordinates come first, and NaN comes last.

    Raises
    ------
    TooLargeError
        If k elements exceed the memory limit.
    """

    def rank(block: Block) -> NDArray[Any]:
        return reverse_values(block.values) if largest else block.values

    return _smallest(scan, k, rank, f"the {k} {'largest' if largest else 'smallest'} elements")


def first_elements(scan: Scan, n: int, last: bool = False) -> Block:
    """Return the first or last n stored elements, sorted by the axes.

    Chunks of a suitable sort order are read from the first or the last one on until there are enough; without one, all
    are read.

    Raises
    ------
    TooLargeError
        If n elements exceed the memory limit.
    """
    n = min(n, scan.schema.size)
    small = scan_reader.read_small(scan)
    if small is not None:
        return small.take(slice(n) if not last else slice(max(small.count - n, 0), None))
    if not n:
        return empty_block(scan.schema)
    order = sorted_order(scan)
    if not scan.view.preserves_order(order) and scan.view.ndim:
        sign = -1 if last else 1
        found = _smallest(scan, n, lambda block: np.zeros(block.count, np.int8), f"{n} elements", sign)
        return found if not last else found.take(slice(None, None, -1))
    return _read_until(scan, order, _list_chunks(scan, order, last), n, last)


def _list_chunks(scan: Scan, order: tuple[int, ...], last: bool) -> Iterator[Chunk]:
    """Yield the chunks in order, or the last one first.

    The footers of many files are read as they are needed.
    """
    files = scan_reader.many_files(scan, order)
    if files is None:
        chunks = scan.relation.chunks(scan.view.box(), order)
        yield from reversed(chunks) if last else chunks
        return
    dim, end = order[0], scan.view.base_shape[order[0]] - 1
    listed = yielded = 0
    while listed < len(files):
        listed = min(2 * listed + 1, len(files))  # so few footers are read again
        bounds = (files[-listed].low[dim], end) if last else (0, files[listed - 1].high[dim])
        chunks = scan_reader.chunks_between(scan, order, *bounds)
        yield from chunks[: len(chunks) - yielded][::-1] if last else chunks[yielded:]
        yielded = len(chunks)


def _read_until(scan: Scan, order: tuple[int, ...], chunks: Iterator[Chunk], n: int, last: bool) -> Block:
    """Return n elements of chunks, which are read in turn."""
    read = scan_reader.reader(scan, order)
    threads, width = settings.current().threads, scan.schema.element_bytes()
    parts: list[Block] = []
    missing = n
    with memory.reserve(0, f"{n} elements", "ask for fewer, or read them with to_batches()") as room:
        while missing:
            batch: list[Chunk] = []
            while sum(chunk.rows for chunk in batch) < missing and len(batch) < 2 * threads:
                following = next(chunks, None)
                if following is None:
                    break
                batch.append(following)
            if not batch:
                break
            for block in ordered_map(read, batch, min(threads, len(batch))):
                count = min(block.count, missing)
                part = block.take(slice(block.count - count, None) if last else slice(count))
                room.grow(count * width)
                parts.append(Block(tuple(map(np.copy, part.coords)), part.values.copy()))  # drops the chunk
                missing -= count
    return _concat(parts[::-1] if last else parts, scan.schema)


def sample_elements(scan: Scan, n: int, rng: np.random.Generator) -> Block:
    """Return n stored elements chosen at random without repeats, sorted.

    Which ones depends on the elements and the generator only. Few elements of a relation that knows how many its
    chunks have are read from these chunks; otherwise all are read.

    Raises
    ------
    TooLargeError
        If n elements exceed the memory limit.
    """
    relation, view = scan.relation, scan.view
    what = f"a sample of {n} elements"
    if view.is_identity and relation.has_exact_counts and n * tuning().sampled_share <= relation.nnz:
        order = relation.orders[0]
        chunks = relation.chunks(view.box(), order)
        if all(chunk.is_exact for chunk in chunks):
            at = np.sort(rng.choice(relation.nnz, n, replace=False))
            ends = np.cumsum([chunk.rows for chunk in chunks])
            bounds = np.searchsorted(at, np.append(0, ends))
            read = scan_reader.reader(scan, order)
            hit = np.flatnonzero(np.diff(bounds))

            def pick(number: int) -> Block:
                own = at[bounds[number] : bounds[number + 1]] - (ends[number] - chunks[number].rows)
                return read(chunks[number]).take(own)

            with memory.reserve(n * scan.schema.element_bytes(), what, "take fewer"):
                return _concat(list(ordered_map(pick, hit.tolist(), settings.current().threads)), scan.schema)
    salt = int(rng.integers(0, 2**63))
    found = _smallest(scan, n, lambda block: _hash(block, salt), what)
    return found.take(np.lexsort(found.coords[::-1])) if found.coords else found


def _hash(block: Block, salt: int) -> NDArray[np.uint64]:
    """Return hashes of coordinates by the finalizer of SplitMix64.

    Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators".
    """
    state = np.full(block.count, salt, np.uint64)
    for column in block.coords:
        state += column.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    return state


def _smallest(scan: Scan, k: int, rank: Callable[[Block], NDArray[Any]], what: str, sign: int = 1) -> Block:
    """Return the k elements of lowest rank, in order.

    Equal ones are in the order of their coordinates, the reverse one if the sign is negative.
    """
    k = min(k, scan.schema.size)
    if not k:
        return empty_block(scan.schema)
    order = scan_order(scan)
    is_sorted = sign > 0 and scan.view.preserves_order(order)
    worst: list[Any] = []  # the highest rank among k elements that were found; later ones beyond it are dropped

    def sort(block: Block, ranks: NDArray[Any]) -> NDArray[np.int64]:
        keys = [column if sign > 0 else ~column for column in reversed(block.coords)]
        found: NDArray[np.int64] = np.lexsort((*keys, ranks))
        return found[:k]

    def select(block: Block) -> tuple[Block, NDArray[Any]]:
        ranks = rank(block)
        if worst:
            (near,) = np.nonzero(~(ranks > worst[0]))
            block, ranks = (block, ranks) if len(near) == block.count else (block.take(near), ranks[near])
        if block.count > k:
            if is_sorted:  # equal ranks are in the order of their coordinates
                at = np.sort(find_largest(np.array([0, block.count]), reverse_values(ranks), k))
            else:
                bound = np.partition(ranks, k - 1)[k - 1]
                (at,) = np.nonzero(~(ranks > bound) if bound == bound else np.ones(len(ranks), bool))
                at = at[sort(block.take(at), ranks[at])]
            block, ranks = block.take(at), ranks[at]
        return block, ranks

    best, ranks = empty_block(scan.schema), np.zeros(0)
    with memory.reserve(0, what, "ask for fewer") as room:
        chunks = scan_reader.unordered_chunks(scan, order)
        for block, found in scan_reader.map_blocks(scan, select, order, chunks, doing="selecting"):
            best = _concat([best, block], scan.schema)
            ranks = np.concatenate([ranks.astype(found.dtype), found])
            at = sort(best, ranks)
            best, ranks = best.take(at), ranks[at]
            room.resize(3 * best.nbytes)
            if len(ranks) == k and ranks[-1] == ranks[-1]:
                worst[:] = [ranks[-1]]
    return best


def _concat(blocks: list[Block], schema: Schema) -> Block:
    kept = [block for block in blocks if block.count]
    return concat_blocks(kept, schema.ndim, schema.dtype) if kept else empty_block(schema)


def empty_block(schema: Schema) -> Block:
    """Return a block without elements, with the dtypes of a schema."""
    return Block(tuple(np.zeros(0, kind) for kind in schema.coordinate_dtypes), np.zeros(0, schema.dtype))
