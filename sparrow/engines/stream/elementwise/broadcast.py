"""Broadcast inputs of maps: kept in memory, looked up or repeated."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import NewAxis, View
from sparrow.core.schema import Schema, is_fill
from sparrow.engines.sort_orders import count_rows_to_read
from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.capabilities import Cursor
from sparrow.engines.stream.cursors import open_cursors
from sparrow.engines.stream.elementwise.fusion import FusedKernel
from sparrow.engines.stream.materialize import materialize
from sparrow.engines.stream.operator import PhysicalOperator
from sparrow.engines.stream.partitioning import partition_bounds
from sparrow.engines.stream.repeats import kept_axes, repeat_block, without_repeats
from sparrow.engines.stream.tuning import tuning
from sparrow.errors import PerformanceWarning
from sparrow.kernels.coo import Block, concat_blocks, filter_block, flat_positions
from sparrow.kernels.elementwise import align
from sparrow.plan import GroupQuotient, Map, Scan, function_name
from sparrow.relations.memory import MemoryRelation
from sparrow.runtime import memory
from sparrow.runtime.caller import warn_caller
from sparrow.runtime.events import emit
from sparrow.runtime.progress import format_quantity

__all__ = [
    "BroadcastTable",
    "BroadcastTables",
    "check_repeated",
    "check_repeats",
    "find_lookups",
    "find_outer_split",
    "keep_repeated",
    "split_outer",
]

_NAN_AT_FILL = (np.true_divide, np.floor_divide, np.remainder, np.fmod)
"""Functions that make NaN of two zeros, so that absent elements become stored ones."""
_OUTER_WAY = "take a part of it, or multiply or divide by its factors one after the other"
_WAY = "take a part of it, or only multiply by it: products, svds and pca take the terms of a sum one by one"


def keep_repeated(scan: Scan) -> Scan:
    """Return a scan with new axes of the same elements in memory, each once."""
    core = without_repeats(scan)
    relation = MemoryRelation(core.schema, scan_reader.read_block(core, own=False))
    return _broadcast(relation, kept_axes(scan), scan.schema.shape)


def _broadcast(relation: MemoryRelation, kept: Sequence[int], shape: tuple[int, ...]) -> Scan:
    """Return the scan of a relation that is repeated along all axes but some."""
    new = [k for k in range(len(shape)) if k not in kept]
    view = View.identity(relation.schema.shape).insert_axes(new).broadcast_to(shape)
    return Scan(relation, view, relation.schema.with_view(view))


def find_lookups(scans: Sequence[Scan]) -> list[int]:
    """Return the inputs that are repeated along the same axes, of one set of axes."""
    patterns: dict[tuple[bool, ...], list[int]] = {}
    for number, scan in enumerate(scans):
        if scan.view.repeats > 1:
            pattern = tuple(isinstance(axis, NewAxis) for axis in scan.view.axes)
            patterns.setdefault(pattern, []).append(number)
    return max(patterns.values(), key=len, default=[])


class BroadcastTable:
    """Elements of inputs that broadcasting repeats, kept in memory.

    The inputs are repeated along the same axes. Where the other inputs have no elements, the function of most of these
    is often the fill of the result, as 0 divided by them is: only the remainder is repeated.

    Parameters
    ----------
    kernel
        Element-wise functions.
    scans
        Inputs of the kernel.
    numbers
        The inputs in the table.
    blocks
        Elements of these inputs, by default all.
    rows
        Range of the leading axis that the blocks hold, by default all. If given, the inputs are repeated along other
        axes.
    remainder
        What is known of the remainder.
    """

    def __init__(
        self,
        kernel: FusedKernel,
        scans: Sequence[Scan],
        numbers: Sequence[int],
        blocks: Sequence[Block] | None = None,
        rows: tuple[int, int] | None = None,
        remainder: Block | None = None,
    ) -> None:
        schema = kernel.node.schema
        self.numbers, self._schema = tuple(numbers), schema
        self._kept = kept_axes(scans[numbers[0]])
        self._start, stop = rows or (0, schema.shape[0])
        heights = (stop - self._start, *schema.shape[1:])
        self._shape = tuple(heights[k] for k in self._kept)
        self._size = math.prod(self._shape)
        if blocks is None:
            blocks = [scan_reader.read_block(without_repeats(scans[number]), own=False) for number in numbers]
        self._fills = [scans[number].schema.fill_value for number in numbers]
        self._is_needed = any(kernel.required[number] for number in numbers)
        needs = [kernel.required[number] for number in numbers]
        shape = [schema.shape[k] for k in self._kept]
        self._coords, self._columns = align(blocks, self._fills, shape, needs)
        self._keys = self._positions(self._coords, len(self._columns[0]))
        self._ranks: NDArray[np.int32] | None = None
        if len(self._keys) < self._size <= tuning().lookup_ratio * max(len(self._keys), tuning().min_lookup_positions):
            self._ranks = np.full(self._size, -1, np.int32)
            self._ranks[self._keys] = np.arange(len(self._keys), dtype=np.int32)
        self.remainder = self._find_remainder(kernel, scans) if remainder is None else remainder
        """Elements to repeat, with their values in the result if all inputs are in the table."""
        emit("stream.broadcast", kept=len(self._keys), repeated=self.remainder.count)

    def _find_remainder(self, kernel: FusedKernel, scans: Sequence[Scan]) -> Block:
        count, others = len(self._keys), [k for k in range(len(scans)) if k not in self.numbers]
        values = np.zeros(count, self._schema.dtype)
        if any(kernel.required[k] for k in others):
            return Block(tuple(column[:0] for column in self._coords), values[:0])
        if kernel.is_dense:  # arrays among the arguments differ from repeat to repeat
            return Block(self._coords, values)
        columns: list[Any] = [np.full(count, scan.schema.fill_value, scan.schema.dtype) for scan in scans]
        for number, column in zip(self.numbers, self._columns, strict=True):
            columns[number] = column
        with np.errstate(all="ignore"):
            values = kernel((), columns)
        return Block(self._coords, values).take(~is_fill(values, self._schema.fill_value))

    def _positions(self, coords: Sequence[NDArray[Any]], count: int) -> NDArray[Any]:
        """Return the positions of n coordinates along the axes that are kept."""
        if self._start:
            first = coords[0]
            coords = [first - first.dtype.type(self._start), *coords[1:]]
        return flat_positions(coords, self._shape, count)

    def remainder_scan(self) -> Scan:
        """Return the scan of all that is repeated."""
        schema = Schema(
            tuple(self._schema.shape[k] for k in self._kept), (), self._schema.dtype, self._schema.fill_value
        )
        return _broadcast(MemoryRelation(schema, self.remainder), self._kept, self._schema.shape)

    def find(self, coords: Sequence[NDArray[Any]], count: int) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """Return table positions of n coordinates, and a mask of those found.

        None if all are.
        """
        wanted = self._positions([coords[k] for k in self._kept], count)
        if len(self._keys) == self._size:
            return wanted, None
        if self._ranks is not None:
            at: NDArray[Any] = self._ranks[wanted]
            found = at >= 0
        elif not len(self._keys):
            return np.zeros(count, np.int64), np.zeros(count, bool)
        else:
            at = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
            found = self._keys[at] == wanted
        return at, None if found.all() else found

    def values(self, at: NDArray[Any], found: NDArray[np.bool_] | None) -> list[NDArray[Any]]:
        """Return the values of each input at positions that were found, else its fill."""
        if not len(self._keys):
            return [
                np.full(len(at), fill, column.dtype) for fill, column in zip(self._fills, self._columns, strict=True)
            ]
        columns = [column[at] for column in self._columns]
        if found is None:
            return columns
        return [np.where(found, column, fill) for column, fill in zip(columns, self._fills, strict=True)]

    @property
    def is_needed(self) -> bool:
        """True if the result has no elements at positions that are not in the table."""
        return self._is_needed

    def repeat(self, start: int, stop: int) -> Block:
        """Return the remainder in rows [start, stop) of the result."""
        return repeat_block(self.remainder, self._kept, self._schema, start, stop)

    def is_dense(self, start: int, stop: int) -> bool:
        """Return whether half or more of all positions of some rows are repeated."""
        if self._is_needed or self.remainder.count * tuning().dense_repeat_ratio < self._size:
            return False
        rows = math.prod(self._schema.shape[1:]) * (stop - start)
        return rows <= tuning().dense_repeat_ratio * tuning().partition_rows

    def spread(self, start: int, stop: int) -> list[NDArray[Any]]:
        """Return the values of each input at all positions of rows [start, stop)."""
        shape = (stop - start, *self._schema.shape[1:])
        out = []
        for column, fill in zip(self._columns, self._fills, strict=True):
            core = np.full(self._size, fill, column.dtype)
            core[self._keys] = column
            sizes = iter(self._shape)
            core = core.reshape([next(sizes) if k in self._kept else 1 for k in range(self._schema.ndim)])
            core = core[start - self._start : stop - self._start] if self._kept[:1] == (0,) else core
            out.append(np.broadcast_to(core, shape).reshape(-1))
        return out


class BroadcastTables:
    """Inputs that broadcasting repeats, in a table for each range of rows.

    They do not fit in memory. Those that are repeated along other axes than the leading one are read range by range. Of
    those that are repeated along the leading axis, the elements that a range needs are kept. Results of operators are
    computed once.

    Parameters
    ----------
    kernel
        Element-wise functions.
    scans
        Inputs of the kernel.
    numbers
        The inputs in the tables, all repeated along the same axes.
    """

    def __init__(self, kernel: FusedKernel, scans: Sequence[Scan], numbers: Sequence[int]) -> None:
        self._kernel, self._scans, self._numbers = kernel, scans, numbers
        self._kept = kept_axes(scans[numbers[0]])
        self._shape = tuple(kernel.node.schema.shape[k] for k in self._kept)
        self._cores = [_keep_computed(without_repeats(scans[number])) for number in numbers]
        self._is_by_rows = self._kept[:1] == (0,)
        remainder = self._find_remainder()
        self.remainder_table: BroadcastTable | None = None
        """Table without elements that has the remainder.

        None if that does not fit in memory, or positions do not fit in 64 bits.
        """
        if remainder is not None:
            nothing = [concat_blocks([], len(self._kept), core.schema.dtype) for core in self._cores]
            self.remainder_table = BroadcastTable(kernel, scans, numbers, nothing, remainder=remainder)

    def _find_remainder(self) -> Block | None:
        """Return the elements to repeat.

        None if they do not fit in memory, or positions do not fit in 64 bits.
        """
        if math.prod(self._shape) >= 2**63:
            return None
        kernel = self._kernel
        dtype, ndim = kernel.node.schema.dtype, len(self._kept)
        found: list[Block] = []
        others = [k for k in range(len(self._scans)) if k not in self._numbers]
        if not any(kernel.required[k] for k in others):
            size = self._shape[0]
            budget = memory.limit() // tuning().repeated_parts
            for start, stop in itertools.pairwise(partition_bounds(self._cores, size)):
                blocks = [cursor.read(start, stop) for cursor in open_cursors(self._cores, start, stop)]
                found.append(BroadcastTable(kernel, self._scans, self._numbers, blocks).remainder)
                budget -= found[-1].count * tuning().element_bytes
                if budget < 0:
                    return None
        return concat_blocks(found, ndim, dtype)

    def open(self, start: int, stop: int) -> Sequence[Cursor]:
        """Open cursors over the inputs in rows [start, stop) of the result."""
        return open_cursors(self._cores, start, stop) if self._is_by_rows else ()

    def read(self, cursors: Sequence[Cursor], walked: Sequence[Block], start: int, stop: int) -> BroadcastTable:
        """Return the table for rows [start, stop).

        Parameters
        ----------
        cursors
            What :meth:`open` returned.
        walked
            Elements of the other inputs in these rows.
        """
        assert self.remainder_table is not None
        remainder = self.remainder_table.remainder
        if self._is_by_rows:
            blocks = [cursor.read(start, stop) for cursor in cursors]
            rows = (start, stop)
        else:
            needed = [remainder.coords, *([block.coords[k] for k in self._kept] for block in walked)]
            keys = [flat_positions(coords, self._shape, len(coords[0])) for coords in needed]
            blocks = [_select(core, np.unique(np.concatenate(keys)), self._shape) for core in self._cores]
            rows = None
        return BroadcastTable(self._kernel, self._scans, self._numbers, blocks, rows, remainder)


def _keep_computed(scan: Scan) -> Scan:
    """Return a scan of a result that is computed once."""
    if not isinstance(scan.relation, PhysicalOperator) or not scan.view.is_identity:
        return scan
    return Scan(materialize(scan.relation), scan.view, scan.schema)


def _select(scan: Scan, keys: NDArray[Any], shape: Sequence[int]) -> Block:
    """Return the elements at ascending positions, in canonical order."""
    found = []
    for block in scan_reader.iter_sorted_blocks(scan):
        own = flat_positions(block.coords, shape, block.count)
        at = np.minimum(np.searchsorted(keys, own), len(keys) - 1)
        found.append(filter_block(block, keys[at] == own) if len(keys) else block.take(slice(0)))
    return concat_blocks(found, len(shape), scan.schema.dtype)


def find_outer_split(scans: Sequence[Scan]) -> tuple[int, int] | None:
    """Return the input with the leading axes of an outer product, and their number.

    An outer product is one of inputs that share no axis, as in ``v[:, None] * w``. None for other inputs.
    """
    if len(scans) != 2 or min(scan.view.repeats for scan in scans) <= 1:
        return None
    own = [[not isinstance(axis, NewAxis) for axis in scan.view.axes] for scan in scans]
    first = 0 if own[0][0] else 1
    split = sum(own[first])
    leading = [k < split for k in range(len(own[first]))]
    is_outer = own[first] == leading and own[1 - first] == [not each for each in leading]
    return (first, split) if is_outer else None


def split_outer(scans: Sequence[Scan], first: int) -> tuple[Scan, Scan]:
    """Return both scans without broadcast axes, that of the leading axes first."""
    return without_repeats(scans[first]), without_repeats(scans[1 - first])


def check_repeats(node: Map, scans: Sequence[Scan], required: Sequence[bool]) -> None:
    """Raise if inputs that do not fit in memory are repeated too often.

    Outer products are known to; other products drop an unknown number of the repeated elements.

    Parameters
    ----------
    node
        Last function of a fused kernel.
    scans
        Inputs of the kernel, of relations.
    required
        Whether the output has elements only where the input has.

    Raises
    ------
    TooLargeError
        If broadcasting produces more elements than the memory limit and tuning permit.
    """
    if all(required) and find_outer_split(scans) is not None:
        rows, others = split_outer(scans, 0)
        check_repeated(node, count_rows_to_read(rows) * count_rows_to_read(others), "an outer product", warns=False)
    elif not any(required):
        for scan in scans:
            if scan.view.repeats > 1:
                count = count_rows_to_read(scan)
                check_repeated(node, count * scan.view.repeats, f"a broadcast of {count} elements")


def check_repeated(node: Map, count: int, what: str, warns: bool = True) -> None:
    """Raise if broadcasting produces too many elements, warn if it produces many.

    Parameters
    ----------
    node
        Last function of a fused kernel.
    count
        Upper bound of their number.
    what
        Description for the error.
    warns
        Whether many elements are likely to be a surprise; those of an outer product are not.

    Raises
    ------
    TooLargeError
        If they are more than the memory limit and tuning permit.
    """
    count = min(count, node.schema.size)
    nbytes, limits = count * node.schema.element_bytes(), tuning()
    if nbytes <= limits.silent_repeat_bytes:
        return
    function = node.function.function if isinstance(node.function, GroupQuotient) else node.function
    message = f"{function_name(function)} of shape {node.schema.shape}, {what} with up to "
    message += f"{format_quantity(count, 'elements')},"
    ones = ", give a divisor 1 instead of 0 (np.where(d == 0, 1, d))" if function in _NAN_AT_FILL else ""
    if count > limits.max_repeated_elements and nbytes > memory.limit():
        raise memory.too_large(message, nbytes, f"{_WAY if warns else _OUTER_WAY}{ones}")
    if not warns:
        return
    warn_caller(
        f"{message} stores {format_quantity(nbytes, 'bytes')}: broadcasting stores an element wherever the result is "
        f"not its fill value {node.schema.fill_value}; {_WAY}{ones}",
        PerformanceWarning,
    )
