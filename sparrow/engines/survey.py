"""Surveys: what a few chunks of a relation tell about it, for representations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.schema import Schema
from sparrow.engines.density import DensityGrid, DensityMap, spread_chunks
from sparrow.engines.sort_orders import sorted_order
from sparrow.engines.stream import lower, scan_reader
from sparrow.engines.stream.product.combine import find_largest
from sparrow.engines.stream.selection import empty_block, reverse_values
from sparrow.engines.tuning import tuning
from sparrow.kernels.coo import Block, concat_blocks, flat_positions
from sparrow.plan import Scan
from sparrow.relations.protocol import Chunk
from sparrow.runtime import settings
from sparrow.runtime.events import emit
from sparrow.runtime.thread_pool import ordered_map

__all__ = ["Survey", "survey"]


@dataclass
class Survey:
    """Elements of a few chunks, the first and the last among them."""

    first: Block
    """The first elements read, in the order of coordinates if ``is_sorted``."""
    last: Block
    """The last elements read, in the same order; empty if ``first`` has all."""
    count: int
    """Number of elements read."""
    is_complete: bool
    """True if all elements were read, so that ``count`` is their number."""
    is_sorted: bool
    """True if ``first`` and ``last`` are those of the tensor."""
    largest: Block | None = None
    """Largest elements read, the best first."""
    values: NDArray[Any] = field(default_factory=lambda: np.zeros(0))
    """Values read, or evenly spaced ones of them."""
    density: DensityMap | None = None
    """Density map over two axes."""


def survey(
    scan: Scan,
    rows: int,
    is_picture: bool = False,
    axes: tuple[int, int] | None = None,
    bins: int = 1,
    with_values: bool = False,
) -> Survey:
    """Read a few chunks of a relation and summarize them.

    Parameters
    ----------
    scan
        Scan of a relation; nodes are not computed.
    rows
        Number of first and of last elements, and of the largest ones.
    is_picture
        Read some more chunks, evenly spread, as a picture deserves.
    axes, bins
        Axes of a density map and its cells along the longer one, by default no map.
    with_values
        Keep values, and the largest elements.
    """
    (scan,) = lower([scan])
    found = Survey(empty_block(scan.schema), empty_block(scan.schema), 0, True, True)
    if not scan.view.size:
        return found
    grid = None if axes is None else DensityGrid(scan, axes, bins)
    order = sorted_order(scan)
    chunks, numbers, blocks = _read(scan, order, is_picture)
    found.is_complete = len(numbers) == len(chunks)
    is_ordered = scan.view.preserves_order(order) or not scan.view.ndim or not chunks
    found.is_sorted = is_ordered or found.is_complete
    step = -(-sum(chunks[number].rows for number in numbers) // tuning().survey_values)
    values: list[NDArray[Any]] = []
    for number, block in zip(numbers, blocks, strict=True):
        if not block.count:
            continue
        if grid is not None:
            grid.add(number, block)
        _add_ends(found, block, rows, scan.schema, is_ordered or not found.is_sorted)
        if with_values:
            values.append(block.values[:: max(step, 1)].copy())
            found.largest = _largest(found.largest, block, rows)
        found.count += block.count
    if found.count <= 2 * rows:
        found.last = empty_block(scan.schema)
    else:
        found.first = found.first.take(slice(rows))
    if values:
        found.values = np.concatenate(values)
    if grid is not None:
        found.density = grid.estimate(chunks)
    return found


def _read(scan: Scan, order: tuple[int, ...], is_picture: bool) -> tuple[list[Chunk], list[int], Iterator[Block]]:
    """Return the chunks of a scan, the numbers of some and their elements."""
    small = scan_reader.read_small(scan)
    if small is not None:
        top = tuple(n - 1 for n in scan.view.base_shape)
        return [Chunk(small.count, (0,) * len(top), top, None)], [0], iter([small])
    limits = tuning()
    limit = limits.picture_chunks if is_picture else limits.repr_chunks
    if scan.relation.version is None:  # reading memory takes little time
        limit *= limits.memory_chunks_ratio
    files = scan_reader.many_files(scan, order)
    if files is None:
        chunks = scan.relation.chunks(scan.view.box(), order)
        numbers = spread_chunks(len(chunks), limit).tolist()
    else:
        chunks, numbers = _spread_over_files(scan, order, files, limit)
    read = scan_reader.reader(scan, order)
    emit("engines.survey", num_chunks=len(chunks), num_read=len(numbers))
    return chunks, numbers, ordered_map(lambda at: read(chunks[at]), numbers, settings.current().threads)


def _spread_over_files(
    scan: Scan, order: tuple[int, ...], files: list[Chunk], limit: int
) -> tuple[list[Chunk], list[int]]:
    """Return one chunk of each of some files beside all else, and their numbers.

    All else are chunks of the rest of each file, which cannot be read. Only the footers of some files are read.
    """
    chunks: list[Chunk] = []
    numbers: list[int] = []
    dim, last = order[0], len(files) - 1
    picked = spread_chunks(len(files), limit).tolist()
    for at, file in enumerate(files):
        is_apart = 0 < at < last and files[at - 1].high[dim] < file.low[dim] and file.high[dim] < files[at + 1].low[dim]
        if at not in picked or not (is_apart or at in (0, last)):
            chunks.append(file)
            continue
        own = scan_reader.chunks_between(scan, order, file.low[dim], file.high[dim])
        chunk = own[0 if at == 0 else -1 if at == last else len(own) // 2]
        rest = replace(file, rows=max(file.rows - chunk.rows, 0))
        numbers.append(len(chunks) + (at == last))
        chunks += [rest, chunk] if at == last else [chunk, rest]
    return chunks, numbers


def _add_ends(found: Survey, block: Block, rows: int, schema: Schema, is_ordered: bool) -> None:
    """Add a block to the first 2 n and the last n elements."""
    if is_ordered:
        missing = 2 * rows - found.first.count
        firsts, lasts = block.take(slice(max(missing, 0))), block.take(slice(max(block.count - rows, 0), None))
        found.first = _concat(found.first, firsts, schema)
        last = _concat(found.last, lasts, schema)
        found.last = last.take(slice(max(last.count - rows, 0), None))
        return
    keys = _concat(found.first, block, schema)
    found.first = keys.take(_lowest(keys, 2 * rows, schema, 1))
    keys = _concat(found.last, block, schema)
    found.last = keys.take(_lowest(keys, rows, schema, -1)[::-1])


def _lowest(block: Block, n: int, schema: Schema, sign: int) -> NDArray[np.int64]:
    """Return the positions of the n elements at the lowest or highest coordinates."""
    if schema.size < 2**63 and block.count > n:
        flat = flat_positions(block.coords, schema.shape, block.count) * sign
        at = np.argpartition(flat, n)[:n]
        return at[np.argsort(flat[at])]
    order: NDArray[np.int64] = np.lexsort([column if sign > 0 else ~column for column in reversed(block.coords)])
    return order[:n]


def _largest(best: Block | None, block: Block, rows: int) -> Block | None:
    """Return the largest elements of a block and earlier ones; None if complex."""
    if block.values.dtype.kind == "c":
        return None
    found = block.take(find_largest(np.array([0, block.count]), block.values, rows))
    if best is not None:
        found = concat_blocks([best, found], len(best.coords), best.values.dtype)
    return found.take(np.lexsort((*reversed(found.coords), reverse_values(found.values)))[:rows])


def _concat(first: Block, second: Block, schema: Schema) -> Block:
    return concat_blocks([first, second], schema.ndim, schema.dtype)
