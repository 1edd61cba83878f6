"""A relation that is computed when it is read: the result of an operation, piece by piece.

An expression such as ``A + B`` is a tensor whose base is one of these, so every view of it, product with it
and conversion of it goes the way of any other tensor. Pieces are ranges of the leading dimension, small enough
that a few of them fit in memory, whatever the size of the operands.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Hashable, Sequence

import numpy as np
import pyarrow as pa

from sparrow import settings
from sparrow.engines import stream
from sparrow.engines.choose import scan_order
from sparrow.errors import TooLargeError
from sparrow.index import Box, Range, View
from sparrow.kernels.entries import Block, concatenate
from sparrow.plan import Scan
from sparrow.relation import ArrowSource, Chunk, ScanStats, arrow_table
from sparrow.schema import Schema

__all__ = ["Derived", "piece_of", "pieces"]

_tokens = itertools.count()
_PIECE_ROWS = 1 << 19


class Derived:
    """Entries that an operation yields.

    Parameters
    ----------
    schema
        What the result is.
    inputs
        The scans that it reads, for statistics.
    cuts
        Returns the pieces: ascending bounds along the leading dimension, from 0 to its size.
    evaluate
        Returns the canonical entries between two bounds, at coordinates of the whole result.
    labels
        Labels by dimension number.
    """

    def __init__(
        self,
        schema: Schema,
        inputs: Sequence[Scan],
        cuts: Callable[[], Sequence[int]],
        evaluate: Callable[[int, int], Block],
        labels: Callable[[int], pa.Array | None] = lambda dim: None,
    ) -> None:
        self._schema = schema
        self._inputs = tuple(inputs)
        self._cuts = cuts
        self._bounds: Sequence[int] | None = None
        self._evaluate = evaluate
        self._labels = labels
        self._token = ("derived", next(_tokens))
        self._count: int | None = None
        self._lock = threading.Lock()

    @property
    def schema(self) -> Schema:
        """Shape, names, dtype, fill."""
        return self._schema

    @property
    def token(self) -> Hashable:
        """Its own: equal tokens mean equal entries."""
        return self._token

    @property
    def version(self) -> None:
        """No version: an expression pins those of its operands."""
        return

    @property
    def orders(self) -> tuple[tuple[int, ...], ...]:
        """The base order only."""
        return (tuple(range(self._schema.ndim)),)

    @property
    def known_nnz(self) -> int | None:
        """The number of entries once it has been counted."""
        return self._count

    @property
    def nnz(self) -> int:
        """The number of entries: computed once, and kept."""
        if self._count is None:
            everything = Scan(self, View.identity(self._schema.shape), self._schema)
            self._count = sum(block.count for block in stream.blocks(everything))
        return self._count

    @property
    def nbytes(self) -> int:
        """Bytes that the entries take in arrays."""
        width = sum(self._schema.coordinate_dtype(dim).itemsize for dim in range(self._schema.ndim))
        return self.nnz * (width + self._schema.dtype.itemsize)

    def labels(self, dim: int) -> pa.Array | None:
        """Return the labels of a dimension, or None."""
        return self._labels(dim)

    def chunks(self, box: Box, order: tuple[int, ...] | None = None) -> list[Chunk]:
        """Return the pieces that meet the box, cut to it along the leading dimension. Reads no data pages."""
        shape = self._schema.shape
        if any(len(r) == 0 for r in box.ranges):
            return []
        if not shape:
            return [Chunk(1, (), (), (0, 1))]
        with self._lock:
            if self._bounds is None:
                self._bounds = self._cuts()
        first, last = box.ranges[0][0], box.ranges[0][-1]
        low, high = (0,) * (len(shape) - 1), tuple(n - 1 for n in shape[1:])
        out = []
        for start, stop in itertools.pairwise(self._bounds):
            start, stop = max(start, first), min(stop, last + 1)
            if start < stop:
                out.append(Chunk(_PIECE_ROWS, (start, *low), (stop - 1, *high), (start, stop)))
        return out

    def read(self, chunk: Chunk) -> Block:
        """Compute a piece."""
        return self._evaluate(*chunk.ref)

    def stats(self, box: Box, order: tuple[int, ...] | None = None) -> ScanStats:
        """Return what computing all of it reads of its inputs."""
        found = [scan.relation.stats(scan.view.box(), scan_order(scan)) for scan in self._inputs]
        fields = ("files", "files_read", "row_groups", "row_groups_read", "rows", "nbytes")
        return ScanStats(*(sum(getattr(one, name) for one in found) for name in fields))

    def source(self, box: Box, order: tuple[int, ...] | None = None) -> ArrowSource:
        """Compute the entries of the box and return them as an Arrow table.

        Raises
        ------
        TooLargeError
            If they would pass the memory limit.
        """
        limit = settings.current().memory_limit
        blocks, nbytes = [], 0
        for chunk in self.chunks(box, order):
            block = self.read(chunk)
            blocks.append(block)
            nbytes += block.values.nbytes + sum(column.nbytes for column in block.coords)
            if nbytes > limit:
                raise TooLargeError(
                    f"the entries of an expression of shape {self._schema.shape} pass the memory limit of {limit} "
                    "bytes: save(path) it and query the stored tensor, or raise the limit"
                )
        return ArrowSource(arrow_table(self._schema, concatenate(blocks, self._schema.ndim, self._schema.dtype)))


def pieces(scans: Sequence[Scan], size: int) -> list[int]:
    """Return bounds along the leading axis, of ``size`` cells, between which the scans have entries for one piece.

    Bounds come from the chunks of scans whose leading axis walks the leading dimension of an order; where there is
    none such the axis is cut evenly. Reads footers, no data pages.
    """
    rows = 0
    steps: list[tuple[int, int]] = []
    for scan in scans:
        axis = scan.view.axes[0]
        order = scan_order(scan)
        chunks = scan.relation.chunks(scan.view.box(), order)
        total = sum(chunk.rows for chunk in chunks)
        rows += total
        if isinstance(axis, Range) and order[0] == axis.dim:
            for chunk in chunks:
                at = (chunk.high[axis.dim] - axis.start) // axis.step + 1
                steps.append((min(max(at, 0), size), chunk.rows))
        else:
            count = -(-total // _PIECE_ROWS)
            steps.extend((size * (k + 1) // count, _PIECE_ROWS) for k in range(count))
    bounds, gathered = [0], 0
    for at, count in sorted(steps):
        gathered += count
        if gathered >= _PIECE_ROWS and bounds[-1] < at < size:
            bounds.append(at)
            gathered = 0
    return [*bounds, size] if size else [0]


def piece_of(scan: Scan, start: int, stop: int) -> Block:
    """Return the canonical entries of a scan whose leading coordinate lies between two bounds, where they stand."""
    if not scan.schema.ndim:
        return stream.entries(scan)
    view = scan.view.then((slice(start, stop),))
    block = stream.entries(Scan(scan.relation, view, scan.relation.schema.through(view)))
    leading = block.coords[0].astype(scan.schema.coordinate_dtype(0), copy=False)
    moved = leading + np.asarray(start, dtype=leading.dtype) if start else leading
    return Block((moved, *block.coords[1:]), block.values)
