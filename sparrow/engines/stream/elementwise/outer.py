"""Products of operands that share no axis, as in ``v[:, None] * w``: each entry of one with each of the other."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from sparrow.core.indexing import NewAxis
from sparrow.engines.sort_orders import count_rows_to_read
from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.elementwise.fusion import FusedKernel
from sparrow.engines.stream.elementwise.lookup import Lookup
from sparrow.engines.stream.operator import ReadRange, open_cursors, partition_bounds
from sparrow.kernels.coo import Block
from sparrow.kernels.elementwise import apply
from sparrow.plan import Scan

__all__ = ["Outer", "outer"]


def outer(scans: Sequence[Scan], required: Sequence[bool]) -> Outer | None:
    """Return how two scans are multiplied that walk the leading axes and the others; None where they do not."""
    if len(scans) != 2 or not all(required) or min(scan.view.repeats for scan in scans) <= 1:
        return None
    walked = [[not isinstance(axis, NewAxis) for axis in scan.view.axes] for scan in scans]
    first = 0 if walked[0][0] else 1
    split = sum(walked[first])
    leading = [k < split for k in range(len(walked[first]))]
    apart = walked[first] == leading and walked[1 - first] == [not own for own in leading]
    return Outer(scans, first, split) if apart else None


class Outer:
    """Two scans that broadcasting repeats along each other's axes.

    Parameters
    ----------
    scans
        Both of them.
    first
        Which of them walks the leading axes.
    split
        How many those are.
    """

    def __init__(self, scans: Sequence[Scan], first: int, split: int) -> None:
        self._first = first
        ndim = scans[0].schema.ndim
        self._whole = scans[first]
        self._rows = scans[first].then(scans[first].view.then((slice(None),) * split + (0,) * (ndim - split)))
        self._others = scans[1 - first].then(scans[1 - first].view.then((0,) * split + (slice(None),) * (ndim - split)))
        self._repeated = scans[1 - first]
        self._held: Block | None = None
        self._lock = threading.Lock()

    @property
    def fits(self) -> bool:
        """Whether what walks the other axes fits in memory."""
        return Lookup.fits(self._repeated)

    @property
    def cells(self) -> int:
        """How many cells come of it, at most."""
        return count_rows_to_read(self._rows) * count_rows_to_read(self._others)

    def cuts(self) -> list[int]:
        """Return the bounds of pieces."""
        more = count_rows_to_read(self._others) / self._whole.view.repeats
        return partition_bounds(
            [self._whole], self._whole.schema.shape[0], more=max(more, 1 / self._whole.view.repeats)
        )

    def begin(self, program: FusedKernel, start: int, stop: int) -> ReadRange:
        """Return what computes the cells between two bounds."""
        (piece,) = open_cursors([self._rows], start, stop)
        fill = program.node.schema.fill_value

        def evaluate(start: int, stop: int) -> Block:
            rows, others = piece(start, stop), self._other_entries()
            coords = [np.repeat(column, others.count) for column in rows.coords]
            coords += [np.tile(column, rows.count) for column in others.coords]
            columns = [np.repeat(rows.values, others.count), np.tile(others.values, rows.count)]
            return apply(program, tuple(coords), columns[:: -1 if self._first else 1], fill)

        return evaluate

    def _other_entries(self) -> Block:
        with self._lock:
            if self._held is None:
                self._held = scan_reader.read_block(self._others)
        return self._held
