"""Sorting, merging and cleaning entries: parallel arrays of coordinates and values.

A block of entries is *canonical* when it is sorted lexicographically by its coordinates, holds no
coordinate twice and no value that equals fill.
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
from sparrow.errors import DuplicateError, InvalidValueError
from sparrow.kernels.runs import group_starts
from sparrow.runtime import settings
from sparrow.runtime.thread_pool import ordered_map

__all__ = [
    "CSR_MIN_MEAN_ROW_ELEMENTS",
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
"""What becomes of several entries for one cell."""

CSR_MIN_MEAN_ROW_ELEMENTS = 2
"""Entries of a row, on average, from which its leading coordinates are told once."""
_FEW = 1 << 12
"""Entries up to which NumPy's own indexing is as fast as a compiled loop."""
_INDICES = 32
"""Arrays that NumPy takes as an index, and more."""
_SHORT = 1 << 16
"""Cells whose positions have 16 bits, which NumPy sorts digit by digit."""
_MANY = 1 << 18
"""Entries from which threads are worth starting."""
_LARGE = 1 << 25
"""Bytes of an array that are no more in the cache once it is written."""
_SPREAD = 4
"""Cells along an axis for each entry, up to which entries are sorted by it by counting."""


@dataclass(slots=True, eq=False)  # a frozen one takes three times as long to make, and every call makes a few
class Block:
    """Entries: ``coords[k]`` (shape (n,), int32 or int64) along dimension k, and ``values`` (shape (n,)).

    Neither is ever put in the place of another.
    """

    coords: tuple[NDArray[Any], ...]
    values: NDArray[Any]

    @property
    def count(self) -> int:
        """The number of entries, n."""
        return len(self.values)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.values.nbytes + sum(column.nbytes for column in self.coords)

    def take(self, at: Any) -> Block:
        """Return the entries at positions, in a slice or under a mask."""
        return Block(tuple([column[at] for column in self.coords]), self.values[at])

    def copy(self, kinds: Sequence[np.dtype[Any]], dtype: np.dtype[Any]) -> Block:
        """Return a copy with coordinates and values of some types."""
        return Block(tuple(map(np.ndarray.astype, self.coords, kinds)), self.values.astype(dtype))

    def column(self, dim: int) -> NDArray[Any]:
        """Return the coordinates along one dimension."""
        return self.coords[dim]

    def indptr(self, height: int) -> NDArray[np.int64]:
        """Return where each of so many rows begins and where the last one ends, of entries sorted by row."""
        return row_pointers(self.coords[0], height)

    def write(self, arrays: Sequence[NDArray[Any]], start: int, stop: int) -> None:
        """Copy the entries to positions of arrays: one for each dimension, one of values."""
        for array, column in zip(arrays, (*self.coords, self.values), strict=True):
            wide = array.itemsize in (4, 8, 16) and array.dtype == column.dtype
            if wide and array.nbytes >= _LARGE and stop - start >= _FEW and column.strides == array.strides:
                from sparrow.kernels.rows import stream_copy

                stream_copy(column, array[start:stop])
            else:
                array[start:stop] = column


@dataclass(frozen=True, slots=True, eq=False)
class RowIndex:
    """The leading coordinates of entries that stand row by row, those of each row told once."""

    coords: tuple[NDArray[Any], ...]
    """Of each row along each of the leading dimensions: shape (m,)."""
    pointers: NDArray[np.int64]
    """Where each row begins, and where the last one ends: shape (m + 1,)."""

    @property
    def count(self) -> int:
        """The number of entries."""
        return int(self.pointers[-1])

    def write(self, arrays: Sequence[NDArray[Any]], start: int) -> None:
        """Write them out, from a position of arrays on: one for each of the leading dimensions."""
        from sparrow.kernels.rows import repeat_rows

        for column, array in zip(self.coords, arrays, strict=True):
            repeat_rows(column, self.pointers, array[start : start + self.count])

    def between(self, first: int, last: int) -> RowIndex:
        """Return those of some rows, whose entries are counted from the first one on."""
        pointers = self.pointers[first : last + 1]
        return RowIndex(tuple([column[first:last] for column in self.coords]), pointers - pointers[0])

    def indptr(self, height: int) -> NDArray[np.int64]:
        """Return where each of so many rows begins and where the last one ends, of one leading dimension."""
        rows, count = self.coords[0], len(self.coords[0])
        if count and rows[-1] == count - 1:  # each up to the last one has an entry
            return np.append(self.pointers, np.full(height - count, self.pointers[-1]))
        out = np.zeros(height + 1, np.int64)
        out[rows + 1] = np.diff(self.pointers)
        return np.cumsum(out, out=out)

    @staticmethod
    def of(begins: NDArray[np.int64], dtype: np.dtype[Any]) -> RowIndex:
        """Return those of rows 0, 1, ... that begin, and end, somewhere; of a type."""
        rows = np.flatnonzero(begins[1:] != begins[:-1])
        return RowIndex((rows.astype(dtype),), begins[np.append(rows, len(begins) - 1)])

    @staticmethod
    def joined(parts: Sequence[RowIndex]) -> RowIndex:
        """Return those of entries that stand one after the other."""
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
    """Entries row by row, whose leading coordinates are written out when somebody first asks for ``coords``.

    Parameters
    ----------
    heads
        The leading coordinates, in their types.
    rest
        The coordinates along the other dimensions, and the values.
    written
        All coordinates, where they are written out already.
    """

    __slots__ = ("_written", "heads", "rest")

    def __init__(self, heads: RowIndex, rest: Block, written: tuple[NDArray[Any], ...] | None = None) -> None:
        self.heads, self.rest, self.values = heads, rest, rest.values
        self._written = written

    @classmethod
    def of(cls, block: Block) -> CSRBlock:
        """Return sorted entries with each coordinate along the first dimension told once as well."""
        starts = group_starts(block.coords[:1], block.count)
        heads = RowIndex((block.coords[0][starts],), np.append(starts, block.count))
        return cls(heads, Block(block.coords[1:], block.values), block.coords)

    @property
    def coords(self) -> tuple[NDArray[Any], ...]:  # type: ignore[override]
        """All coordinates of each entry."""
        if self._written is None:  # two threads may write them out at once, which costs time alone
            arrays = [np.empty(self.count, column.dtype) for column in self.heads.coords]
            pointers = self.heads.pointers
            cuts = np.searchsorted(pointers, np.arange(_MANY, self.count, _MANY))
            spans = itertools.pairwise(np.unique([0, *cuts, len(pointers) - 1]).tolist())

            def write(span: tuple[int, int]) -> None:
                self.heads.between(*span).write(arrays, int(pointers[span[0]]))

            for _ in ordered_map(write, spans, settings.current().threads):
                pass
            self._written = (*arrays, *self.rest.coords)
        return self._written

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, written out or not."""
        return self.count * sum(column.itemsize for column in self.heads.coords) + self.rest.nbytes

    def copy(self, kinds: Sequence[np.dtype[Any]], dtype: np.dtype[Any]) -> Block:
        """Return a copy with coordinates and values of some types; what tells rows once is never written to."""
        leading = len(self.heads.coords)
        own = tuple([column.astype(kind, copy=False) for column, kind in zip(self.heads.coords, kinds, strict=False)])
        return CSRBlock(RowIndex(own, self.heads.pointers), self.rest.copy(kinds[leading:], dtype))

    def column(self, dim: int) -> NDArray[Any]:
        """Return the coordinates along one dimension: leading ones are written out."""
        leading = len(self.heads.coords)
        return self.coords[dim] if dim < leading else self.rest.coords[dim - leading]

    def indptr(self, height: int) -> NDArray[np.int64]:
        """Return where each of so many rows begins and where the last one ends."""
        return super().indptr(height) if len(self.heads.coords) > 1 else self.heads.indptr(height)

    def write(self, arrays: Sequence[NDArray[Any]], start: int, stop: int) -> None:
        """Copy the entries to positions of arrays: one for each dimension, one of values."""
        leading = len(self.heads.coords)
        self.heads.write(arrays[:leading], start)
        self.rest.write(arrays[leading:], start, stop)

    def __reduce__(self) -> tuple[Any, ...]:
        return Block, (self.coords, self.values)


def filter_block(block: Block, keep: NDArray[np.bool_]) -> Block:
    """Return the entries under a mask, without holding the GIL where they are many."""
    if block.count < _FEW:
        return block.take(keep)
    from sparrow.kernels.merge import as_words, compress

    count = int(np.count_nonzero(keep))
    coords = tuple(
        column[:count] if column.strides == (0,) else compress(as_words(column), keep, count).view(column.dtype)
        for column in block.coords
    )
    return Block(coords, compress(as_words(block.values), keep, count).view(block.values.dtype))


_RULES = get_args(Duplicates)


def check_duplicates(duplicates: str) -> Duplicates:
    """Return the rule for duplicates, or raise ``InvalidValueError`` naming the rules there are."""
    given: object = duplicates
    if not isinstance(given, str) or given not in _RULES:
        raise InvalidValueError(f"duplicates={duplicates!r}: use one of {', '.join(map(repr, _RULES))}")
    return duplicates  # type: ignore[return-value]


def concat_blocks(blocks: Sequence[Block], ndim: int, dtype: np.dtype[Any]) -> Block:
    """Return the entries of several blocks, one after the other."""
    if len(blocks) == 1:
        return blocks[0]
    if not blocks:
        return Block(tuple(np.zeros(0, np.int32) for _ in range(ndim)), np.zeros(0, dtype))
    coords = tuple([np.concatenate([b.coords[k] for b in blocks]) for k in range(ndim)])
    return Block(coords, np.concatenate([b.values for b in blocks]))


def accumulator_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type in which products of this result type are summed.

    Integers of any width sum in int64 modulo 2^64, of which every narrower or unsigned result is the
    low bits; booleans count in int64; float16 sums in float32.
    """
    if dtype.kind in "biu":
        return np.dtype(np.int64)
    return np.dtype(np.float32) if dtype == np.float16 else dtype


def flat_positions(coords: Sequence[NDArray[Any]], shape: Sequence[int], count: int) -> NDArray[np.int64]:
    """Return positions of ``count`` entries in C order; the cells must not pass 2^63."""
    if not coords:
        return np.zeros(count, np.int64)
    out = coords[0].astype(np.int64)
    for column, n in zip(coords[1:], shape[1:], strict=True):
        out *= n
        out += column
    return out


def write_dense(cells: NDArray[Any], block: Block) -> None:
    """Write entries to a C-contiguous array of their shape; many by one array of positions, which takes less time."""
    if block.count < _FEW and 0 < cells.ndim <= _INDICES:
        cells[block.coords] = block.values
    else:
        cells.reshape(-1)[flat_positions(block.coords, cells.shape, block.count)] = block.values


def linear_keys(coords: Sequence[NDArray[Any]], shape: Sequence[int]) -> NDArray[np.int64] | None:
    """Return one ascending-comparable integer per entry, or None where the cells pass 2^63."""
    if math.prod([n or 1 for n in shape]) >= 2**63:
        return None
    return flat_positions(coords, shape, len(coords[0]) if coords else 0)


def row_pointers(rows: NDArray[Any], height: int) -> NDArray[np.int64]:
    """Return where each row begins once entries are sorted by row, and their number at the end: shape (height + 1,)."""
    out = np.zeros(height + 1, np.int64)
    if len(rows) < _MANY:
        np.cumsum(np.bincount(rows, minlength=height), out=out[1:])
        return out
    from sparrow.kernels.rows import count_rows

    count_rows(rows, out[1:])
    return np.cumsum(out, out=out)


def is_sorted(coords: Sequence[NDArray[Any]], strict: bool = False) -> bool:
    """Return whether entries are in lexicographic order; ``strict`` wants no coordinate twice as well."""
    n = len(coords[0]) if coords else 0
    tie = np.ones(max(n - 1, 0), dtype=bool)
    for column in coords:
        later, earlier = column[1:], column[:-1]
        if bool(np.any(tie & (later < earlier))):
            return False
        tie &= later == earlier
    return not (strict and bool(tie.any()))


def sort_order(coords: Sequence[NDArray[Any]], shape: Sequence[int]) -> NDArray[Any] | None:
    """Return the stable order that sorts entries lexicographically, or None where many are sorted."""
    if not coords:
        return None
    key = linear_keys(coords, shape) if len(coords[0]) < _FEW else None
    if key is not None:
        return (key.astype(np.uint16) if math.prod(shape) <= _SHORT else key).argsort(kind="stable")
    if is_sorted(coords):
        return None
    key = linear_keys(coords, shape)
    columns = coords if key is None else [key]
    if not _FEW <= len(columns[0]) < 2**31:
        return np.lexsort(tuple(reversed(columns)))
    from sparrow.kernels.keys import sort_stable

    order: NDArray[Any] | None = None
    for column in reversed(columns):
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
    """Return entries sorted, unique and, unless ``keep_fill``, without values that equal fill.

    Sums run in the order of the input, in the dtype of the values. Where ``leading`` is given, entries that agree in so
    many first coordinates are in order already.

    Raises
    ------
    DuplicateError
        If a coordinate comes twice and ``duplicates`` is ``"error"``.
    """
    few = leading is None and block.coords and len(block.values) < _FEW
    key = linear_keys(block.coords, shape) if few else None
    if key is None or np.count_nonzero(key[1:] <= key[:-1]):
        block = _unique(sort_block(block, shape, leading), duplicates)
    if not keep_fill:
        absent = is_fill(block.values, fill_value)
        if np.count_nonzero(absent):
            block = block.take(~absent)
    return block


def _unique(block: Block, duplicates: Duplicates) -> Block:
    """Return sorted entries with one for each cell."""
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
            others = f" (and {more} more times a cell repeats)" if more else ""
            raise DuplicateError(
                f"the cell {where} is given twice{others}: say duplicates='sum', 'last', 'first', 'min' or 'max'", where
            )
        block = Block(tuple(c[starts] for c in block.coords), reduce_runs(block.values, starts, duplicates))
    return block


def sort_block(block: Block, shape: Sequence[int], leading: int | None = None) -> Block:
    """Return entries sorted by their coordinates, of which those that agree in ``leading`` first ones are in order."""
    if leading == 1 and _countable(block, shape[0]):
        if is_sorted(block.coords[:1]):
            return block
        begins, *coords, values = _counted(block, shape[0])
        heads = RowIndex.of(begins, block.coords[0].dtype)
        if CSR_MIN_MEAN_ROW_ELEMENTS * len(heads.pointers) <= block.count:
            return CSRBlock(heads, Block(tuple(coords), values))
        rows = np.empty(block.count, block.coords[0].dtype)
        heads.write([rows], 0)
        return Block((rows, *coords), values)
    order = sort_order(block.coords[:leading], shape[:leading])
    return block if order is None else _ordered(block, order)


def sort_to_csr(block: Block, shape: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[Any]]:
    """Return entries of a matrix by rows: where each begins, columns and values; those of a row are in order."""
    from sparrow.kernels.rows import indptr_from_sorted

    if _countable(block, shape[0]):
        begins, columns, values = _counted(block, shape[0])
        return begins, columns, values
    block = sort_block(block, shape, leading=1)
    return indptr_from_sorted(block.coords[0], 0, shape[0]), block.coords[1], block.values


def _countable(block: Block, height: int) -> bool:
    """Return whether entries are sorted by their first coordinate, of so many, by counting."""
    return block.count >= _FEW and height <= _SPREAD * block.count and block.values.itemsize <= 8


def _counted(block: Block, height: int) -> list[NDArray[Any]]:
    """Return entries sorted by their first coordinate: where each begins, the other coordinates, and the values.

    Column by column on threads where they are many.
    """
    from sparrow.kernels.rows import counting_sort

    leading = block.coords[0]
    begins = row_pointers(leading, height)
    threads = settings.current().threads if block.count >= _MANY else 1
    columns = (*block.coords[1:], block.values)
    return [begins, *ordered_map(lambda column: counting_sort(leading, begins, column), columns, threads)]


def _ordered(block: Block, order: NDArray[Any]) -> Block:
    """Return the entries at positions, column by column on threads where they are many."""
    if order.dtype != np.int32:
        return block.take(order)
    from sparrow.kernels.keys import gather_values

    threads = settings.current().threads if block.count >= _MANY else 1
    *coords, values = ordered_map(lambda column: gather_values(column, order), (*block.coords, block.values), threads)
    return Block(tuple(coords), values)


def reduce_runs(values: NDArray[Any], starts: NDArray[np.int64], duplicates: Duplicates) -> NDArray[Any]:
    """Return one value for each run of ``values`` that begins at ``starts``."""
    if duplicates == "first":
        return np.asarray(values[starts])
    if duplicates == "last":
        return np.asarray(values[np.append(starts[1:], len(values)) - 1])
    ufunc: np.ufunc = {"sum": np.add, "min": np.minimum, "max": np.maximum}[duplicates]
    out = values[starts]
    later = np.ones(len(values), dtype=bool)
    later[starts] = False
    run = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(values)))
    with np.errstate(all="ignore"):
        ufunc.at(out, run[later], values[later])  # reduceat would add pairwise, not in order
    return out


def merge_blocks(old: Block, new: Block, shape: Sequence[int], duplicates: Duplicates) -> Block:
    """Return the union of two sorted unique blocks; ``old`` comes first where both have a cell."""
    coords = tuple(np.concatenate([a, b]) for a, b in zip(old.coords, new.coords, strict=True))
    both = Block(coords, np.concatenate([old.values, new.values]))
    return canonicalize(both, shape, None, duplicates, keep_fill=True)
