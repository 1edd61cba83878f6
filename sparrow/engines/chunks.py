"""Chunks of a scan, to be read one by one and in any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sparrow.engines.run import shorten
from sparrow.engines.sort_orders import scan_order, sorted_order
from sparrow.engines.stream import lower
from sparrow.engines.stream.scan_reader import reader
from sparrow.kernels.coo import Block
from sparrow.plan import Scan
from sparrow.relations.protocol import Chunk

__all__ = ["ScanChunks", "scan_chunks"]


@dataclass(frozen=True, slots=True)
class ScanChunks:
    """Chunks of a scan in a sort order, and the function that reads one."""

    scan: Scan
    """The scan; of an expression, one of the operator that computes it."""
    order: tuple[int, ...]
    chunks: list[Chunk]
    """Chunks that may hold elements of the scan, in sort order."""
    read: Callable[[Chunk], Block]
    """Returns the elements of a chunk that lie in the view, at its coordinates. Thread-safe."""


def scan_chunks(scan: Scan, axes: Sequence[int] | None = None, is_sorted: bool = False) -> ScanChunks:
    """Return the chunks of a scan in the order that reads the fewest rows.

    Parameters
    ----------
    axes
        Axes whose coordinates are needed, by default all; the other columns have undefined contents.
    is_sorted
        Prefer the order of the view's axes unless another reads far fewer rows.
    """
    (scan,) = lower(shorten([scan]))
    if not scan.view.size:
        order = scan.relation.orders[0]
        return ScanChunks(scan, order, [], reader(scan, order, axes))
    order = sorted_order(scan) if is_sorted else scan_order(scan)
    return ScanChunks(scan, order, scan.relation.chunks(scan.view.box(), order), reader(scan, order, axes))
