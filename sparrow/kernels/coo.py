"""Blocks of stored elements in COO form: sorting, merging, deduplication.

A block is *canonical* if it is sorted lexicographically by coordinates, without duplicates and without values equal to
the fill value.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from sparrow.core.schema import is_fill
from sparrow.errors import DuplicateError
from sparrow.kernels.dispatch import prefer_numpy
from sparrow.kernels.runs import group_starts
from sparrow.kernels.sums import CAST_FIRST, SumRangeError, find_overflow
from sparrow.kernels.tuning import dispatch, tuning
from sparrow.runtime import settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.runtime.validation import check_choice

__all__ = [
    "Block",
    "CSRBlock",
    "Duplicates",
    "RowIndex",
    "accumulator_dtype",
    "canonicalize",
    "check_duplicates",
    "concat_blocks",
    "filter_block",
    "flat_positions",
    "merge_blocks",
    "row_pointers",
    "sort_block",
    "sort_order",
    "sort_to_csr",
    "write_dense",
]  # fmt: skip

Duplicates: TypeAlias = Literal["error", "sum", "last", "first", "min", "max"]
"""Rule that reduces several values of one element."""

_NUMPY_MAX_INDEX_ARRAYS = 32
_UINT16_SIZE = 1 << 16
"""Number of uint16 values: NumPy sorts them with a radix sort."""


@dataclass(slots=True, eq=False)  # frozen dataclasses take three times as long to construct
class Block:
    """Stored elements in COO form.

    ``coords[k]``, shape (n,), int32 or int64, holds the coordinates along dimension k; ``values`` has shape (n,).
    Blocks are immutable by convention: the arrays are never replaced.
    """

    coords: tuple[NDArray[Any], ...]
    values: NDArray[Any]

    @property
    def count(self) -> int:
        """Number of stored elements, n."""
        return len(self.values)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.values.nbytes + sum(column.nbytes for column in self.coords)

    def take(self, at: Any) -> Block:
        """Return the elements selected by positions, a slice or a mask."""
        return Block(tuple([column[at] for column in self.coords]), self.values[at])

    def copy(self, kinds: Sequence[np.dtype[Any]], dtype: np.dtype[Any]) -> Block:
        """Return a copy cast to the given dtypes of coordinates and values."""
        return Block(tuple(map(np.ndarray.astype, self.coords, kinds)), self.values.astype(dtype))

    def column(self, dim: int) -> NDArray[Any]:
        """Return the coordinates along one dimension."""
        return self.coords[dim]

    def indptr(self, height: int) -> NDArray[np.int64]:
        """Return row pointers, shape (height + 1,), of elements sorted by row."""
        return row_pointers(self.coords[0], height)

    def write(self, arrays: Sequence[NDArray[Any]], start: int, stop: int) -> None:
        """Copy coordinates and values to ``[start, stop)`` of ``ndim + 1`` arrays."""
        limits = tuning()
        for array, column in zip(arrays, (*self.coords, self.values), strict=True):
            wide = array.itemsize in (4, 8, 16) and array.dtype == column.dtype
            wide = (
                wide and array.nbytes >= limits.stream_copy_min_bytes and not prefer_numpy("stream_copy", stop - start)
            )
            if wide and column.strides == array.strides:
                from sparrow.kernels.rows import stream_copy

                stream_copy(column, array[start:stop])
            else:
                array[start:stop] = column


@dataclass(frozen=True, slots=True, eq=False)
class RowIndex:
    """Run-length encoded leading coordinates of elements sorted by row, as in CSR."""

    coords: tuple[NDArray[Any], ...]
    """Coordinate of each row along each leading dimension, shape (m,)."""
    pointers: NDArray[np.int64]
    """Row pointers, shape (m + 1,)."""

    @property
    def count(self) -> int:
        """Number of stored elements."""
        return int(self.pointers[-1])

    @property
    def saves_memory(self) -> bool:
        """True if rows are long enough for pointers to take less memory than coordinates."""
        return tuning().csr_min_row_elements * len(self.pointers) <= self.count

    def write(self, arrays: Sequence[NDArray[Any]], start: int) -> None:
        """Decode to arrays, one per leading dimension, from position ``start`` on."""
        from sparrow.kernels.rows import repeat_rows

        for column, array in zip(self.coords, arrays, strict=True):
            repeat_rows(column, self.pointers, array[start : start + self.count])

    def between(self, first: int, last: int) -> RowIndex:
        """Return rows ``first:last``, with pointers starting at 0."""
        pointers = self.pointers[first : last + 1]
        return RowIndex(tuple([column[first:last] for column in self.coords]), pointers - pointers[0])

    def indptr(self, height: int) -> NDArray[np.int64]:
        """Return row pointers, shape (height + 1,), of a single leading dimension."""
        rows, count = self.coords[0], len(self.coords[0])
        if count and rows[-1] == count - 1:  # no empty row before the last one
            return np.append(self.pointers, np.full(height - count, self.pointers[-1]))
        out = np.zeros(height + 1, np.int64)
        out[rows + 1] = np.diff(self.pointers)
        return np.cumsum(out, out=out)

    @staticmethod
    def of(begins: NDArray[np.int64], dtype: np.dtype[Any]) -> RowIndex:
        """Build the index of the non-empty rows of row pointers."""
        rows = np.flatnonzero(begins[1:] != begins[:-1])
        return RowIndex((rows.astype(dtype),), begins[np.append(rows, len(begins) - 1)])

    @staticmethod
    def concat(parts: Sequence[RowIndex]) -> RowIndex:
        """Concatenate the indices of consecutive blocks."""
        pointers = np.empty(sum(len(part.pointers) - 1 for part in parts) + 1, np.int64)
        row = begin = 0
        for part in parts:
            stop = row + len(part.pointers) - 1
            np.add(part.pointers[:-1], begin, out=pointers[row:stop])
            row, begin = stop, begin + part.count
        pointers[row] = begin
        coords = zip(*(part.coords for part in parts), strict=True)
        return RowIndex(tuple(map(np.concatenate, coords)), pointers)


class CSRBlock(Block):
    """Block in CSR form: the first access to ``coords`` decodes leading coordinates.

    Parameters
    ----------
    heads
        Leading coordinates.
    rest
        Other coordinates, and values.
    written
        Decoded coordinates, if available.
    """

    __slots__ = ("_written", "heads", "rest")

    def __init__(self, heads: RowIndex, rest: Block, written: tuple[NDArray[Any], ...] | None = None) -> None:
        self.heads, self.rest, self.values = heads, rest, rest.values
        self._written = written

    @classmethod
    def of(cls, block: Block) -> CSRBlock:
        """Encode the first dimension of a sorted block."""
        starts = group_starts(block.coords[:1], block.count)
        heads = RowIndex((block.coords[0][starts],), np.append(starts, block.count))
        return cls(heads, Block(block.coords[1:], block.values), block.coords)

    @property
    def coords(self) -> tuple[NDArray[Any], ...]:  # type: ignore[override]
        """All coordinates of each element."""
        if self._written is None:  # two threads may decode concurrently, which only costs time
            arrays = [np.empty(self.count, column.dtype) for column in self.heads.coords]
            pointers = self.heads.pointers
            step = tuning().thread_min_elements
            cuts = np.searchsorted(pointers, np.arange(step, self.count, step))
            spans = itertools.pairwise(np.unique([0, *cuts, len(pointers) - 1]).tolist())

            def write(span: tuple[int, int]) -> None:
                self.heads.between(*span).write(arrays, int(pointers[span[0]]))

            for _ in ordered_map(write, spans, settings.current().threads):
                pass
            self._written = (*arrays, *self.rest.coords)
        return self._written

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays once decoded."""
        return self.count * sum(column.itemsize for column in self.heads.coords) + self.rest.nbytes

    def copy(self, kinds: Sequence[np.dtype[Any]], dtype: np.dtype[Any]) -> Block:
        """Return a copy cast to the given dtypes; row pointers are shared."""
        leading = len(self.heads.coords)
        own = tuple([column.astype(kind, copy=False) for column, kind in zip(self.heads.coords, kinds, strict=False)])
        return CSRBlock(RowIndex(own, self.heads.pointers), self.rest.copy(kinds[leading:], dtype))

    def column(self, dim: int) -> NDArray[Any]:
        """Return the coordinates along one dimension; leading ones are decoded."""
        leading = len(self.heads.coords)
        return self.coords[dim] if dim < leading else self.rest.coords[dim - leading]

    def indptr(self, height: int) -> NDArray[np.int64]:
        """Return row pointers, shape (height + 1,)."""
        return super().indptr(height) if len(self.heads.coords) > 1 else self.heads.indptr(height)

    def write(self, arrays: Sequence[NDArray[Any]], start: int, stop: int) -> None:
        """Copy coordinates and values to ``[start, stop)`` of ``ndim + 1`` arrays."""
        leading = len(self.heads.coords)
        self.heads.write(arrays[:leading], start)
        self.rest.write(arrays[leading:], start, stop)

    def __reduce__(self) -> tuple[Any, ...]:
        return Block, (self.coords, self.values)


def filter_block(block: Block, keep: NDArray[np.bool_]) -> Block:
    """Return the elements selected by a mask, without the GIL for large blocks."""
    if prefer_numpy("compress", block.count):
        return block.take(keep)
    from sparrow.kernels.merge import as_words, compress

    count = int(np.count_nonzero(keep))
    coords = tuple(
        column[:count] if column.strides == (0,) else compress(as_words(column), keep, count).view(column.dtype)
        for column in block.coords
    )
    return Block(coords, compress(as_words(block.values), keep, count).view(block.values.dtype))


_DUPLICATE_RULES = get_args(Duplicates)


def check_duplicates(duplicates: str) -> Duplicates:
    """Validate a rule for duplicates and return it."""
    check_choice("duplicates", duplicates, _DUPLICATE_RULES)
    return duplicates  # type: ignore[return-value]


def concat_blocks(blocks: Sequence[Block], ndim: int, dtype: np.dtype[Any]) -> Block:
    """Concatenate blocks without sorting."""
    if len(blocks) == 1:
        return blocks[0]
    if not blocks:
        return Block(tuple(np.zeros(0, np.int32) for _ in range(ndim)), np.zeros(0, dtype))
    coords = tuple([np.concatenate([b.coords[k] for b in blocks]) for k in range(ndim)])
    return Block(coords, np.concatenate([b.values for b in blocks]))


def accumulator_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which products of a result dtype are accumulated.

    Integers of any width sum in int64 modulo 2^64; narrower and unsigned results are its low bits. Booleans count in
    int64, float16 sums in float32.
    """
    if dtype.kind in "biu":
        return np.dtype(np.int64)
    return np.dtype(np.float32) if dtype == np.float16 else dtype


def flat_positions(coords: Sequence[NDArray[Any]], shape: Sequence[int], count: int) -> NDArray[np.int64]:
    """Return the C-order positions of elements in a tensor of size below 2^63."""
    if not coords:
        return np.zeros(count, np.int64)
    out = coords[0].astype(np.int64)
    for column, n in zip(coords[1:], shape[1:], strict=True):
        out *= n
        out += column
    return out


def write_dense(cells: NDArray[Any], block: Block) -> None:
    """Write elements to a C-contiguous array of the tensor's shape."""
    if 0 < cells.ndim <= _NUMPY_MAX_INDEX_ARRAYS:
        cells[block.coords] = block.values
    else:
        cells.reshape(-1)[flat_positions(block.coords, cells.shape, block.count)] = block.values


def linear_keys(coords: Sequence[NDArray[Any]], shape: Sequence[int]) -> NDArray[np.int64] | None:
    """Return one sortable int64 key per element, None for sizes of 2^63 or more."""
    if math.prod([n or 1 for n in shape]) >= 2**63:
        return None
    return flat_positions(coords, shape, len(coords[0]) if coords else 0)


def row_pointers(rows: NDArray[Any], height: int) -> NDArray[np.int64]:
    """Return row pointers, shape (height + 1,), of elements grouped by row."""
    out = np.zeros(height + 1, np.int64)
    if prefer_numpy("count_rows", len(rows)):
        np.cumsum(np.bincount(rows, minlength=height), out=out[1:])
        return out
    from sparrow.kernels.rows import count_rows

    count_rows(rows, out[1:])
    return np.cumsum(out, out=out)


def is_sorted(coords: Sequence[NDArray[Any]], strict: bool = False) -> bool:
    """Return whether coordinates ascend lexicographically, strictly if ``strict``."""
    n = len(coords[0]) if coords else 0
    tie = np.ones(max(n - 1, 0), dtype=bool)
    for column in coords:
        later, earlier = column[1:], column[:-1]
        if bool(np.any(tie & (later < earlier))):
            return False
        tie &= later == earlier
    return not (strict and bool(tie.any()))


def sort_order(coords: Sequence[NDArray[Any]], shape: Sequence[int]) -> NDArray[Any] | None:
    """Return the stable lexicographic sort order, None for a large sorted block."""
    if not coords:
        return None
    count = len(coords[0])
    if count > dispatch().small_work and is_sorted(coords):
        return None
    key = linear_keys(coords, shape)
    if prefer_numpy("sort_stable", count) or count >= 2**31:
        if key is None:
            return np.lexsort(tuple(reversed(coords)))
        return (key.astype(np.uint16) if math.prod(shape) <= _UINT16_SIZE else key).argsort(kind="stable")
    from sparrow.kernels.keys import sort_stable

    order: NDArray[Any] | None = None
    for column in reversed(coords if key is None else [key]):
        digits = column.astype(np.int64, copy=False)
        found = sort_stable(digits if order is None else digits[order], 0)[1]
        order = found if order is None else order[found]
    return order


def canonicalize(
    block: Block,
    shape: Sequence[int],
    fill_value: Any,
    duplicates: Duplicates = "error",
    keep_fill: bool = False,
    leading: int | None = None,
) -> Block:
    """Sort and deduplicate elements, and drop values equal to the fill value.

    Sums run in input order, of floats in float64.

    Parameters
    ----------
    keep_fill
        Keep values equal to the fill value.
    leading
        Number of first coordinates to sort by; elements that agree in these must be sorted already.

    Raises
    ------
    DuplicateError
        If an element occurs twice and ``duplicates`` is ``"error"``.
    NumberRangeError
        If integers of an element have a sum beyond the dtype.
    """
    is_small = leading is None and block.coords and block.count <= dispatch().small_work
    key = linear_keys(block.coords, shape) if is_small else None
    if key is None or np.count_nonzero(key[1:] <= key[:-1]):
        block = _unique(sort_block(block, shape, leading), duplicates)
    if not keep_fill:
        absent = is_fill(block.values, fill_value)
        if np.count_nonzero(absent):
            block = block.take(~absent)
    return block


def _unique(block: Block, duplicates: Duplicates) -> Block:
    """Deduplicate sorted elements."""
    n = block.count
    fresh = np.zeros(n, dtype=bool)
    fresh[:1] = True
    for column in block.coords:
        fresh[1:] |= column[1:] != column[:-1]
    if not fresh.all():
        starts = np.flatnonzero(fresh)
        if duplicates == "error":
            at = int(np.flatnonzero(~fresh)[0])
            where = tuple(int(column[at]) for column in block.coords)
            more = n - len(starts) - 1
            others = f" (and {more} more repeats)" if more else ""
            raise DuplicateError(
                f"element {where} is given twice{others}: pass duplicates='sum', 'last', 'first', 'min' or 'max'",
                where,
            )
        if duplicates == "sum" and (beyond := find_overflow(block.values, starts)) is not None:
            at = int(starts[beyond[0]])
            where = tuple(int(column[at]) for column in block.coords)
            raise SumRangeError.of(where, beyond[1], block.values.dtype, way=CAST_FIRST)
        block = Block(tuple(c[starts] for c in block.coords), reduce_runs(block.values, starts, duplicates))
    return block


def sort_block(block: Block, shape: Sequence[int], leading: int | None = None) -> Block:
    """Return elements in lexicographic order.

    With ``leading``, elements that agree in that many first coordinates must be sorted already.
    """
    if leading == 1 and _can_count(block, shape[0]):
        if is_sorted(block.coords[:1]):
            return block
        begins, *coords, values = _count_sort(block, shape[0])
        heads = RowIndex.of(begins, block.coords[0].dtype)
        if heads.saves_memory:
            return CSRBlock(heads, Block(tuple(coords), values))
        rows = np.empty(block.count, block.coords[0].dtype)
        heads.write([rows], 0)
        return Block((rows, *coords), values)
    order = sort_order(block.coords[:leading], shape[:leading])
    return block if order is None else _take_sorted(block, order)


def sort_to_csr(block: Block, shape: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[Any]]:
    """Return row pointers, columns and values of a matrix; sorting by row is stable."""
    if _can_count(block, shape[0]):
        begins, columns, values = _count_sort(block, shape[0])
        return begins, columns, values
    block = sort_block(block, shape, leading=1)
    return row_pointers(block.coords[0], shape[0]), block.coords[1], block.values


def _can_count(block: Block, height: int) -> bool:
    """Return whether a counting sort by the first coordinate pays off."""
    if block.values.itemsize > 8 or height > tuning().counting_sort_max_ratio * block.count:
        return False
    return not prefer_numpy("counting_sort", block.count)


def _count_sort(block: Block, height: int) -> list[NDArray[Any]]:
    """Sort by counting; return row pointers, other coordinates and values."""
    from sparrow.kernels.rows import counting_sort

    leading = block.coords[0]
    begins = row_pointers(leading, height)
    threads = settings.current().threads if block.count >= tuning().thread_min_elements else 1
    columns = (*block.coords[1:], block.values)
    return [begins, *ordered_map(lambda column: counting_sort(leading, begins, column), columns, threads)]


def _take_sorted(block: Block, order: NDArray[Any]) -> Block:
    """Return the elements at positions; large blocks are gathered on threads."""
    if order.dtype != np.int32:
        return block.take(order)
    from sparrow.kernels.keys import gather_values

    threads = settings.current().threads if block.count >= tuning().thread_min_elements else 1
    *coords, values = ordered_map(lambda column: gather_values(column, order), (*block.coords, block.values), threads)
    return Block(tuple(coords), values)


def reduce_runs(values: NDArray[Any], starts: NDArray[np.int64], duplicates: Duplicates) -> NDArray[Any]:
    """Reduce each run of ``values`` that begins at ``starts`` to one value."""
    if duplicates == "first":
        return np.asarray(values[starts])
    if duplicates == "last":
        return np.asarray(values[np.append(starts[1:], len(values)) - 1])
    ufunc: np.ufunc = {"sum": np.add, "min": np.minimum, "max": np.maximum}[duplicates]
    given = values.dtype
    values = values.astype(sum_dtype(given), copy=False) if duplicates == "sum" else values
    out = values[starts]
    later = np.ones(len(values), dtype=bool)
    later[starts] = False
    run = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(values)))
    with np.errstate(all="ignore"):
        ufunc.at(out, run[later], values[later])  # reduceat adds pairwise, not in order
        return out.astype(given, copy=False)


def sum_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which many values are added: float64 for shorter floats."""
    return np.promote_types(dtype, np.float64) if dtype.kind in "fc" else dtype


def merge_blocks(old: Block, new: Block, shape: Sequence[int], duplicates: Duplicates) -> Block:
    """Merge two canonical blocks; duplicates are reduced with ``old`` first."""
    coords = tuple(np.concatenate([a, b]) for a, b in zip(old.coords, new.coords, strict=True))
    both = Block(coords, np.concatenate([old.values, new.values]))
    return canonicalize(both, shape, None, duplicates, keep_fill=True)
