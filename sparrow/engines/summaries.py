"""Summaries of stored elements in one scan: first, best, sampled, counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.registry import STREAM
from sparrow.engines.run import shorten
from sparrow.engines.sort_orders import scan_order
from sparrow.engines.stream import lower, scan_reader, selection
from sparrow.engines.tracing import trace
from sparrow.kernels.coo import Block
from sparrow.plan import Scan
from sparrow.runtime import memory

__all__ = ["best_elements", "count_values", "first_elements", "histogram", "sample_elements", "value_range"]

ValueCounts: TypeAlias = "tuple[NDArray[Any], NDArray[np.int64]]"
"""Distinct values, ascending, and their counts."""


def best_elements(scan: Scan, k: int, largest: bool) -> Block:
    """Return the k largest or smallest stored elements, the best first.

    See :func:`sparrow.engines.stream.selection.best_elements`.
    """
    return _select(scan, lambda lowered: selection.best_elements(lowered, k, largest))


def first_elements(scan: Scan, n: int, last: bool = False) -> Block:
    """Return the first or last n stored elements, sorted.

    See :func:`sparrow.engines.stream.selection.first_elements`.
    """
    return _select(scan, lambda lowered: selection.first_elements(lowered, n, last))


def sample_elements(scan: Scan, n: int, rng: np.random.Generator) -> Block:
    """Return n stored elements chosen at random, sorted.

    See :func:`sparrow.engines.stream.selection.sample_elements`.
    """
    return _select(scan, lambda lowered: selection.sample_elements(lowered, n, rng))


def _select(scan: Scan, select: Callable[[Scan], Block]) -> Block:
    (scan,) = shorten([scan])
    with trace(scan, STREAM, "stream: elements are selected as they are read") as tracer:
        return tracer.block(select(*lower(tracer.scans)))


@contextmanager
def _lower_traced(scan: Scan) -> Iterator[Scan]:
    (scan,) = shorten([scan])
    with trace(scan, STREAM, "stream: values are counted as they are read") as tracer:
        (found,) = lower(tracer.scans)
        yield found


def _map_values(scan: Scan, work: Callable[[NDArray[Any]], Any]) -> Iterator[Any]:
    """Yield ``work(values)`` for each chunk of a relation, in any order."""
    chunks = scan_reader.unordered_chunks(scan, scan_order(scan)) if scan.view.size else []
    yield from scan_reader.map_blocks(scan, lambda block: work(block.values), None, chunks, (), "counting values")


def count_values(scan: Scan) -> ValueCounts:
    """Return the distinct stored values, ascending, and their counts.

    NaN is one value.

    Raises
    ------
    TooLargeError
        If the distinct values exceed the memory limit.
    """
    found: ValueCounts = np.zeros(0, scan.schema.dtype), np.zeros(0, np.int64)
    waiting: list[ValueCounts] = []
    what = f"the distinct values of a tensor of shape {scan.schema.shape}"
    with memory.reserve(0, what, "use hist(), or round the values") as room, _lower_traced(scan) as lowered:
        for counted in _map_values(lowered, lambda values: np.unique(values, return_counts=True)):
            waiting.append(counted)
            rows = sum(len(values) for values, _ in waiting)
            needed = _MERGE_COPIES * (len(found[0]) + rows) * (found[0].itemsize + 8)
            room.grow(max(needed - room.nbytes, 0))
            if rows >= len(found[0]):  # so each value is merged a logarithmic number of times
                found, waiting = _merge([found, *waiting]), []
    return _merge([found, *waiting])


_MERGE_COPIES = 4
"""Copies of values and counts in memory while they are merged: parts, joined, order, sorted."""


def _merge(parts: list[ValueCounts]) -> ValueCounts:
    """Return the distinct values of several counts and the sums of their counts."""
    values, counts = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
    order = np.argsort(values, kind="stable")
    values, counts = values[order], counts[order]
    is_first = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=is_first[1:])
    if values.dtype.kind in "fc":
        is_first[1:] &= ~(np.isnan(values[1:]) & np.isnan(values[:-1]))
    starts = np.flatnonzero(is_first)
    return values[starts], np.add.reduceat(counts, starts) if len(starts) else counts


def value_range(scan: Scan) -> tuple[Any, Any] | None:
    """Return the smallest and the largest finite stored value, or None."""

    def extremes(values: NDArray[Any]) -> tuple[Any, Any] | None:
        finite = values[np.isfinite(values)]
        return (finite.min(), finite.max()) if len(finite) else None

    with _lower_traced(scan) as lowered:
        found = [pair for pair in _map_values(lowered, extremes) if pair is not None]
    return (min(low for low, _ in found), max(high for _, high in found)) if found else None


def histogram(scan: Scan, edges: NDArray[Any]) -> NDArray[np.int64]:
    """Return the number of finite stored values between edges, as NumPy does."""

    def count(values: NDArray[Any]) -> NDArray[np.int64]:
        if values.dtype.kind == "f":
            values = values[np.isfinite(values)]
        elif values.dtype == bool:
            values = values.astype(np.uint8)
        return np.histogram(values, edges)[0].astype(np.int64)

    total = np.zeros(len(edges) - 1, np.int64)
    with _lower_traced(scan) as lowered:
        for counts in _map_values(lowered, count):
            total += counts
    return total
