"""Products of tensors: the rows of one operand, piece by piece, times the other, which is held by rows if it fits.

Whatever letters there are, a product is one of matrices: rows are the letters of the result that the operand of rows
has, columns those that only the other one has, and what is matched in between are the letters that both have. Letters
that neither the result nor the other operand has are left out: entries that then agree are added up with the rest.

A piece is a range of the leading letter with about as many products as fit a thread's buffers. A row is computed by one
thread, its products added in the order of the matched letters, so the bits depend neither on pieces nor on threads.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparrow import memory, settings
from sparrow.engines.stream import reading
from sparrow.engines.stream.computed import Computed, Evaluate, pieces, pieces_of, range_of
from sparrow.engines.stream.joining import Numbering, distinct, members
from sparrow.engines.stream.operands import MaskRows, Operand, OperandRows, roles
from sparrow.kernels.compiling import readonly
from sparrow.kernels.elementwise import align
from sparrow.kernels.entries import Block, RowBlock, accumulator, canonical, concatenate, pick, row_pointers
from sparrow.kernels.runs import group_starts
from sparrow.plan import Product, Scan, Semiring
from sparrow.relation import MemoryRelation
from sparrow.schema import is_fill
from sparrow.workers import ordered_map

if TYPE_CHECKING:
    from sparrow.engines.stream.panels import Spilled
    from sparrow.kernels.spgemm import Workspace

__all__ = ["Masked", "Multiplication", "multiplied"]

_PRODUCTS = 1 << 20
"""About how many products a thread computes at a time."""
_SHARE = 4
"""Of the free memory, one part for the operand of rows: beyond, it is read twice, piece by piece."""
_LARGE = 3
"""Of the memory to work in, one part for the operand that is held by rows: beyond, it is multiplied in panels."""
_SMALLEST = 1 << 12
"""Of the memory limit in bytes, one part is the number of products that a thread computes at a time of a panel."""
_LEAST = 1 << 14
"""The fewest of them."""
_SMALLER = 16
"""How many times fewer entries the operand of rows has where only those that match it are read of the other."""
_SPARSE = 4
"""How many times fewer entries a mask has than the operand of rows where it is looked at which rows it wants."""
_SPREAD = 4
"""Of a mask's entries and the rows, so many times more cells up to which it is counted where each row begins."""
_FEWER = 16
"""Products of a row that are gathered, at most, where a dense row is quick to add to."""
_CACHED = 1 << 16
"""Columns up to which a dense row stays in the cache."""
_TURNED, _DOTTED = 4, 2
"""Products that take as long as an entry brought into the order of columns, and as a step of a dot product."""
_NEAR, _STRETCH = 64, 1 << 12
"""Columns that share a word of the marks of a dense row; entries that are looked at together, to see if they do."""


def multiplied(node: Product, *scans: Scan) -> Computed:
    """Return the product of two scans, under a mask if there is a third.

    Raises
    ------
    TooLargeError
        When it is read, if an operand that does not fit cannot be multiplied in panels.
    """
    work = Multiplication(node, *scans)
    if node.mask is None or node.complement:
        return Computed(node, scans, work.cuts, work.between, begin=work.begin, most=work.most, rowwise=True)
    return Masked(node, scans, work)


class Masked(Computed):
    """The entries of a product at the cells of a mask."""

    def __init__(self, node: Product, scans: Sequence[Scan], work: Multiplication) -> None:
        super().__init__(node, scans, work.cuts, work.between, begin=work.begin, most=work.most, total=work.total)
        self._work = work

    def is_masked_by(self, scan: Scan) -> bool:
        """Return whether a scan is the mask, and shows its entries in the order of the result."""
        mask = self.inputs[2]
        return mask.source.token == scan.source.token and mask.view == scan.view and self._work.in_order

    def cuts(self) -> list[int]:
        """Return bounds along the leading dimension between which there is work for a thread."""
        return self._work.cuts()

    def weighted(self) -> Any:
        """Return the sum of the entries, each times the mask's value at it; None where the loop does not give it."""
        return self._work.total(weighted=True)

    def beside(self, first: int, last: int) -> Callable[[int, int], tuple[Block, NDArray[Any]]]:
        """Return what gives the entries between two bounds, and the mask's values at them, for pieces between two."""
        sources = self._work.sources(first, last)
        return lambda start, stop: self._work.computed(start, stop, sources)


class Multiplication:
    """One product: what is held of its operands, and the pieces of the result."""

    def __init__(self, node: Product, left: Scan, right: Scan, mask: Scan | None = None) -> None:
        self.node, self.schema = node, node.schema
        self.roles = roles(node)
        letters = node.letters
        if self.roles.swapped:
            left, right, letters = right, left, (letters[1], letters[0])
        self.left = Operand(left, letters[0], (*self.roles.rows, *self.roles.matched))
        self.right = Operand(right, letters[1], (*self.roles.matched, *self.roles.columns))
        self._mask = None if mask is None else Operand(mask, node.out, (*self.roles.rows, *self.roles.columns))
        self.dtype = _working(node.semiring, node.schema.dtype)
        self._lock = threading.Lock()
        self._idle: deque[Any] = deque()
        self._held: OperandRows | None = None
        self._spilled: Spilled | None = None
        self._wanted: NDArray[Any] | None = None
        self._columns: tuple[NDArray[Any], ...] | None = None
        self._partial = False
        self._ready = False

    # -- what is held --------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Read the operand that is held, and that of rows if it is not large."""
        with self._lock:
            if self._ready:
                return
            self._room = self._reserved()
            same = self.left.same_as(self.right)
            nbytes = self.left.rows * memory.entry_bytes(self.left.scan.schema, wide=True)
            found = used = None
            large = self._is_large()
            self._wanted = self._rows_of_mask()
            if not same and ((not self.roles.rows and not large) or nbytes <= memory.share(_SHARE)):
                found = self.left.entries(self._room, self._wanted)
                if len(self.roles.matched) == 1 and found.count <= self.right.rows // _SMALLER:
                    used = distinct(self.left.columns(found, self.roles.matched)[0])
            if large and used is None:
                from sparrow.engines.stream.panels import Spilled

                del found
                self._room.release()
                self._spilled, self._ready = Spilled(self), True
                return
            block = self.right.entries(self._room, used)
            self._lay_out(block)
            if same:
                found = block
            self._held = None if found is None else self._laid_in_rows(found)
            if self._held is not None and self._by_dots(self._held):
                self._turn()
            self._ready = True

    def _by_dots(self, held: OperandRows) -> bool:
        """Return whether products at a mask may be quicker cell by cell, by columns of the operand that is held."""
        if self._mask is None or self.node.complement or not self._single or not self._matched.plain:
            return False
        once = len(set(self.left.letters)) == len(self.roles.rows) + len(self.roles.matched)
        work, entries = int(held.done[-1]), len(self._arrays[1])
        if sum(array.nbytes for array in self._arrays) > memory.share(_SHARE):
            return False
        cells = self._mask.rows if _quick(self._mask.scan.relation) else work
        return once and _TURNED * (entries + self._across.size) + _DOTTED * cells < work

    def _turn(self) -> None:
        """Lay out the operand that is held by columns too."""
        from sparrow.kernels.dots import by_columns

        starts, columns, values = self._arrays
        begins = np.zeros(self._across.size + 1, np.uint64)
        rows, turned = np.empty(len(columns), np.uint32), np.empty_like(values)
        self._room.grow(begins.nbytes + rows.nbytes + turned.nbytes)
        by_columns(starts, columns, values, begins, rows, turned)
        self._columns = readonly(begins), readonly(rows), readonly(turned)

    def _rows_of_mask(self) -> NDArray[Any] | None:
        """Return the coordinates along the leading letter at which a mask has cells, if they may be few of all."""
        if self._mask is None or self.node.complement or not self.roles.rows or not _quick(self._mask.scan.relation):
            return None
        rows = self._mask.rows
        if _SPARSE * rows > self.left.rows or rows * self.schema.coordinate_dtype(0).itemsize > memory.share(_SHARE):
            return None
        found = list(reading.mapped(self._mask.scan, lambda block: distinct(block.coords[0]), axes=(0,)))
        wanted = distinct(np.concatenate(found)) if found else np.empty(0, self.schema.coordinate_dtype(0))
        return wanted if 2 * len(wanted) <= self.schema.shape[0] else None  # nearly all: not worth looking for

    def _reserved(self) -> memory.Reservation:
        """Return room for the operand that is held."""
        which, shape = "left" if self.roles.swapped else "right", self.right.scan.schema.shape
        what = f"the {which} operand of a product, of shape {shape}, held by rows"
        return memory.reserve(0, what, "multiply some of its columns at a time")

    def _is_large(self) -> bool:
        """Return whether the operand that would be held is better multiplied in panels."""
        scan = self.right.scan
        held = isinstance(scan.relation, MemoryRelation) and scan.view.is_identity
        nbytes = self.right.rows * memory.entry_bytes(scan.schema, wide=True)
        if held or nbytes <= memory.working() // _LARGE:
            return False
        from sparrow.engines.stream.panels import adds_up

        return adds_up(self.node.semiring)

    def panel(self, block: Block) -> Multiplication:
        """Return the product with some entries of the operand that is held, whose sums are not in their last type."""
        part = copy.copy(self)
        part._partial, part._idle, part._room = True, deque(), self._reserved()
        part._room.grow(block.nbytes)
        part._lay_out(block)
        return part

    def spans(self, block: Block) -> tuple[list[tuple[int, int]], Callable[[int, int], Block]]:
        """Return stretches of the rows of some entries of the other operand, and what multiplies one of them."""
        rows = self._laid_in_rows(block)
        length = self.schema.shape[0] if self.schema.ndim else 1
        _, mask = self.sources(*rows.bounds(length), held=True)

        def multiplied(first: int, last: int) -> Block:
            own = rows.stretch(first, last)
            cells = None if self._mask is None else self._mask_rows(own, mask, *own.bounds(length))
            return self._worker(cells)(own, cells, 0, last - first)[0]

        return rows.spans(min(_PRODUCTS, max(memory.limit() // _SMALLEST, _LEAST))), multiplied

    def _lay_out(self, block: Block) -> None:
        """Keep the operand that is held by rows."""
        from sparrow.kernels.rows import pointers

        inner = self.right.columns(block, self.roles.matched)
        outer = self.right.columns(block, self.roles.columns)
        shape = self.right.sizes
        self._matched = Numbering(inner, [shape[letter] for letter in self.roles.matched])
        self._across = Numbering(outer, [shape[letter] for letter in self.roles.columns])
        self._outer = outer
        own = self._matched.own
        height = self._matched.size
        starts = np.array([0, block.count]) if own is None else pointers(own, 0, height)
        columns = np.zeros(block.count, np.int32) if self._across.own is None else self._across.own
        self._starts = np.append(starts, starts[-1])  # one row more, of nothing, for what has no counterpart
        self._room.grow(self._starts.nbytes)
        self._few = np.uint64(_few(columns, self._across.size))
        self._single = len(set(self.right.letters)) == len(self.roles.matched) + len(self.roles.columns)
        self._arrays = (
            readonly(self._starts.view(np.uint64)),
            readonly(columns.astype(np.int32, copy=False).view(np.uint32)),
            readonly(self._numbers(block.values)),
        )

    def _laid_in_rows(self, block: Block) -> OperandRows:
        """Return entries of the operand of rows, which are sorted by rows, row by row, but for rows nobody wants."""
        from sparrow.kernels.spgemm import products_before

        if self._wanted is not None and block.count:
            block = pick(block, members(block.coords[0], self._wanted))
        coords = self.left.columns(block, self.roles.rows)
        places = self._matched.of(self.left.columns(block, self.roles.matched), block.count)
        starts = group_starts(coords, block.count) if coords else np.zeros(min(block.count, 1), np.int64)
        pointers = np.append(starts, block.count)
        places = readonly(places.astype(np.int32, copy=False))
        done = np.empty(len(pointers), np.int64)
        products_before(readonly(pointers), places, readonly(self._starts), done)
        rows = tuple(column[starts] for column in coords)
        return OperandRows(rows, pointers, places, self._numbers(block.values), done)

    def _numbers(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return values in the type in which products are added up."""
        multiply = self.node.semiring.multiply
        if multiply == "pair":
            return np.empty(len(values), self.dtype)  # nobody looks at them
        with np.errstate(all="ignore"):
            if multiply == "and" or self.node.semiring.add == "or":
                values = values != 0
            return values.astype(self.dtype, copy=False)

    # -- pieces --------------------------------------------------------------------------------------

    @property
    def in_order(self) -> bool:
        """Whether rows and columns are the axes of the result as they are."""
        return (*self.roles.rows, *self.roles.columns) == self.node.out

    def cuts(self) -> list[int]:
        """Return bounds along the leading letter of the result between which there is work for a thread."""
        self._prepare()
        if self._spilled is not None:
            return self._spilled.cuts()
        size = self.schema.shape[0]
        if not size:
            return [0]
        if self._held is not None:
            return [0, *self._held.cut(size, _PRODUCTS), size]
        bounds = pieces([self.left.scan], size)
        bounds = [0, *dict.fromkeys(bound for bound in bounds[1:-1] if 0 < bound < size), size]
        each = pieces_of([self.left.scan], 0, size)[0]

        def refined(span: tuple[int, int]) -> list[int]:
            rows = self._laid_in_rows(self.left.cleaned(each(*span)))
            return [*rows.cut(span[1], _PRODUCTS), span[1]]

        found = ordered_map(refined, itertools.pairwise(bounds), settings.current().threads)
        return [0, *itertools.chain.from_iterable(found)]

    def most(self, start: int, stop: int) -> int:
        """Return how many entries of the result there are at most between two bounds along its leading letter."""
        self._prepare()
        if self._spilled is not None:
            return self._spilled.most(start, stop)
        if self._held is None:
            return _PRODUCTS
        done = self._held.between(start, stop).done
        return int(done[-1] - done[0]) if len(done) else 0

    def begin(self, first: int, last: int) -> Evaluate:
        """Return :meth:`between` for pieces between two bounds, which keep what they read for the next one."""
        sources = self.sources(first, last)

        def evaluate(start: int, stop: int, rowwise: bool = False) -> Any:
            found = self._by_rows(start, stop, sources) if rowwise else None
            return self.computed(start, stop, sources)[0] if found is None else found

        return evaluate

    def between(self, start: int, stop: int) -> Block:
        """Return the entries of the result between two bounds along its leading letter."""
        return self.begin(start, stop)(start, stop)

    def sources(self, first: int, last: int, held: bool | None = None) -> tuple[Evaluate | None, Evaluate | None]:
        """Return what reads the operand of rows and the mask piece by piece; None what is held, or not there."""
        if held is None:
            self._prepare()
            held = self._held is not None or self._spilled is not None
        left = None if held else pieces_of([self.left.scan], first, last)[0]
        mask = None if self._mask is None or not self.schema.ndim else pieces_of([self._mask.scan], first, last)[0]
        return left, mask

    def computed(self, start: int, stop: int, sources: tuple[Evaluate | None, Evaluate | None]) -> Any:
        """Return the entries of the result between two bounds, and the values of the mask at them."""
        left, mask = sources
        if self._spilled is not None:
            block = self._spilled.between(start, stop)
            if self._mask is None or mask is None or self.node.complement:
                return block, None
            _, (_, weights) = align([block, mask(start, stop)], [0, 0], self.schema.shape, (True, True))
            return block, weights
        rows = self._rows_between(start, stop, left)
        cells = None if self._mask is None else self._mask_rows(rows, mask, start, stop)
        parts = list(self._parts(rows, cells))
        block = concatenate([found for found, _ in parts], self.schema.ndim, self.schema.dtype)
        block = self._sorted(block)
        beside = [values for _, values in parts if values is not None]
        none = np.empty(0, None if self._mask is None else self._mask.scan.schema.dtype)
        weights = np.concatenate(beside) if len(beside) > 1 else next(iter(beside), none)
        if self.roles.rows or not self.schema.ndim:
            return block, weights
        at = range_of(block.coords[0], start, stop)  # the one row gives all of them
        return block.take(at), weights[at]

    def total(self, weighted: bool = False) -> Any:
        """Return the sum of all entries at the cells of a mask, added by the loop, as ``dtype``; None where it cannot.

        Parameters
        ----------
        weighted
            Whether each is multiplied by the mask's value at it.
        """
        plain = self.node.semiring.add == "plus" and self.dtype == self.schema.dtype and self.dtype.kind in "if"
        if not plain or not self.roles.rows:
            return None
        bounds = self.cuts()
        if self._spilled is not None:
            return None
        sources = self.sources(0, bounds[-1]) if len(bounds) > 1 else (None, None)

        def added(span: tuple[int, int]) -> Any:
            rows = self._rows_between(*span, sources[0])
            mask = self._mask_rows(rows, sources[1], *span)
            count = len(rows.pointers) - 1
            out = np.empty(count, self.dtype)
            values = mask.block.values if weighted else np.broadcast_to(np.ones(1, self.dtype), mask.block.count)
            with self._space() as space:
                self._kernels().added(
                    *self._arguments(rows, 0, count), readonly(mask.begins), readonly(mask.ends),
                    readonly(mask.columns), readonly(np.ascontiguousarray(values, self.dtype)),
                    np.uint64(0), np.uint64(count), space.weights, space.state, out,
                )  # fmt: skip
            return np.add.reduce(out)

        with np.errstate(all="ignore"):
            spans = itertools.pairwise(bounds)
            return sum(ordered_map(added, spans, settings.current().threads), self.dtype.type(0))

    def _rows_between(self, start: int, stop: int, read: Evaluate | None) -> OperandRows:
        """Return the rows between two bounds along the leading letter: of what is held, or read."""
        if read is not None:
            return self._laid_in_rows(self.left.cleaned(read(start, stop)))
        assert self._held is not None
        return self._held.between(start, stop)

    def _parts(self, rows: OperandRows, mask: MaskRows | None) -> Iterator[tuple[Block, NDArray[Any] | None]]:
        """Yield the products of rows, some rows at a time, in order, and the mask's values at them."""
        spans, work = rows.spans(_PRODUCTS), self._worker(mask)
        threads = min(settings.current().threads, len(spans))
        yield from ordered_map(lambda span: work(rows, mask, *span), spans, threads)

    def _worker(self, mask: MaskRows | None) -> Callable[..., tuple[Block, Any]]:
        return self._everywhere if mask is None or self.node.complement else self._inside

    def _arguments(self, rows: OperandRows, first: int, last: int) -> tuple[NDArray[Any], ...]:
        """Return some rows, and what is held, as a kernel takes them."""
        begin, end = int(rows.pointers[first]), int(rows.pointers[last])
        pointers = readonly((rows.pointers[first : last + 1] - begin).astype(np.uint64))
        places = readonly(rows.places[begin:end].view(np.uint32))
        return pointers, places, readonly(rows.values[begin:end]), *self._arrays

    def _inside(self, rows: OperandRows, mask: MaskRows | None, first: int, last: int) -> tuple[Block, NDArray[Any]]:
        """Return the products of some rows at the cells of a mask."""
        assert mask is not None
        begins, ends = mask.begins[first:last], mask.ends[first:last]
        most = int((ends - begins).sum())
        at, out = (
            np.empty(most + 1, np.uint32 if mask.block.count < 2**32 else np.uint64),
            np.empty(most + 1, self.dtype),
        )
        cells = readonly(begins), readonly(ends), readonly(mask.columns)
        own = self._arguments(rows, first, last)
        if self._columns is not None and self._dots_pay(own[0], cells, int(rows.done[last] - rows.done[first])):
            n = self._kernels().dotted(*own[:3], *self._columns, *cells, self._fill, at, out)
        else:
            with self._space() as space:
                n = self._kernels().masked(
                    *own, *cells, np.uint64(0), np.uint64(last - first), self._fill, space.total, space.state, at, out
                )
        found = mask.block.take(at[:n])
        coords: list[Any] = [None] * self.schema.ndim
        for letter, column in zip((*self.roles.rows, *self.roles.columns), found.coords, strict=True):
            coords[self.node.out.index(letter)] = column
        return self._finished(coords, out[:n], found.values)

    def _dots_pay(self, pointers: NDArray[Any], cells: tuple[NDArray[Any], ...], work: int) -> bool:
        """Return whether some rows are quicker cell by cell than by so many products."""
        from sparrow.kernels.dots import steps_of_dots

        assert self._columns is not None
        return bool(_DOTTED * steps_of_dots(pointers, self._columns[0], *cells) < work)

    def _everywhere(self, rows: OperandRows, mask: MaskRows | None, first: int, last: int) -> tuple[Block, None]:
        """Return the products of some rows, but for those at the cells of a mask, if there is one."""
        from sparrow.kernels.rows import repeat

        pointers, columns, out = self._products(rows, mask, first, last)
        kinds = dict(zip(self.node.out, map(self.schema.coordinate_dtype, range(self.schema.ndim)), strict=True))
        found = {}
        for letter, column in zip(self.roles.rows, rows.coords, strict=True):
            found[letter] = np.empty(len(out), kinds[letter])
            repeat(column[first:last], pointers, found[letter])
        across = self._across.columns(columns, self._outer, [kinds[letter] for letter in self.roles.columns])
        found.update(zip(self.roles.columns, across, strict=False))
        return self._finished([found[letter] for letter in self.node.out], out, None)

    def _by_rows(self, start: int, stop: int, sources: tuple[Evaluate | None, Evaluate | None]) -> RowBlock | None:
        """Return the entries between two bounds row by row; None where they are not what the loop gives, as it is."""
        schema = self.schema
        as_it_is = self.dtype == schema.dtype and schema.fill_value == schema.fill_value
        if self._spilled is not None or len(self.roles.rows) != 1 or not self.in_order or not as_it_is:
            return None
        rows = self._rows_between(start, stop, sources[0])
        mask = None if self._mask is None else self._mask_rows(rows, sources[1], start, stop)
        count = len(rows.pointers) - 1
        pointers, columns, out = self._products(rows, mask, 0, count)
        kinds = [schema.coordinate_dtype(axis) for axis in range(1, schema.ndim)]
        return RowBlock(rows.coords[0], pointers, Block(tuple(self._across.columns(columns, self._outer, kinds)), out))

    def _products(
        self, rows: OperandRows, mask: MaskRows | None, first: int, last: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]]:
        """Return where the products of each of some rows begin, their columns and they, but for those at a mask."""
        count = last - first
        most = min(int(rows.done[last] - rows.done[first]), count * max(self._across.size, 1))
        pointers = np.empty(count + 1, np.int64)
        numbers, out = np.empty(most + 1, np.uint32), np.empty(most + 1, self.dtype)
        with self._space() as space:
            n = self._kernels().rows(
                *self._arguments(rows, first, last), np.uint64(0), np.uint64(count), self._single, self._few,
                self._fill, space.seed, space.total, space.marks, space.tops, space.keys, space.held, space.counts,
                pointers, numbers, out,
            )  # fmt: skip
        columns, out = numbers[:n].view(np.int32), out[:n]
        if mask is not None:
            from sparrow.kernels.masks import outside

            keep = np.empty(n, bool)
            begins, ends = readonly(mask.begins[first:last]), readonly(mask.ends[first:last])
            outside(pointers, columns, begins, ends, readonly(mask.columns), keep)
            pointers = np.append(0, np.cumsum(keep))[pointers]
            columns, out = columns[keep], out[keep]
        return pointers, columns, out

    def _finished(self, coords: Sequence[NDArray[Any]], out: NDArray[Any], weights: Any) -> tuple[Block, Any]:
        """Return results in the type of the result, without those that then are its fill."""
        if self._partial:
            return Block(tuple(coords), out), weights
        schema = self.schema
        with np.errstate(all="ignore"):
            values = out != 0 if schema.dtype.kind == "b" else out.astype(schema.dtype, copy=False)
        block = Block(tuple(coords), values)
        if values.dtype != out.dtype or schema.fill_value != schema.fill_value:
            absent = is_fill(values, schema.fill_value)
            if absent.any():
                block, weights = block.take(~absent), None if weights is None else weights[~absent]
        return block, weights

    def typed(self, coords: Sequence[NDArray[Any]], out: NDArray[Any]) -> Block:
        """Return sums as entries of the result."""
        return self._finished(coords, out, None)[0]

    def _sorted(self, block: Block) -> Block:
        """Return entries in the order of the result."""
        if self.in_order or not block.count:
            return block
        return canonical(block, self.schema.shape, None, keep_fill=True)

    def _mask_rows(self, rows: OperandRows, read: Evaluate | None, start: int, stop: int) -> MaskRows:
        """Return the cells that the mask has in each row."""
        assert self._mask is not None
        block = reading.entries(self._mask.scan) if read is None else read(start, stop)
        count = len(rows.pointers) - 1
        columns = self._across.of(self._mask.columns(block, self.roles.columns), block.count)
        known = columns < self._across.size if self._across.size < self._most_columns else None
        row: NDArray[Any] | None = None
        if len(rows.coords) > 1:
            numbering = Numbering(rows.coords, [self.left.sizes[letter] for letter in self.roles.rows])
            order = np.full(numbering.size + 1, -1, np.int64)
            order[numbering.own] = np.arange(count)
            row = order[numbering.of(self._mask.columns(block, self.roles.rows), block.count)]
            known = (row >= 0) & (True if known is None else known)
        if known is not None and not known.all():
            block, columns, row = block.take(known), columns[known], None if row is None else row[known]
        if row is None and rows.coords:
            leading = block.coords[0]
            wanted = rows.coords[0].astype(leading.dtype, copy=False)
            if stop - start <= _SPREAD * (block.count + count):
                from sparrow.kernels.rows import pointers

                bounds = pointers(leading, start, stop)
                begins, ends = bounds[wanted - start], bounds[wanted - start + 1]
            else:
                begins, ends = np.searchsorted(leading, wanted, "left"), np.searchsorted(leading, wanted, "right")
        else:
            bounds = row_pointers(np.zeros(block.count, np.int64) if row is None else row, count)
            begins, ends = bounds[:-1], bounds[1:]
        return MaskRows(block, begins.view(np.uint64), ends.view(np.uint64), columns.astype(np.uint32))

    @property
    def _most_columns(self) -> int:
        """How many columns there could be."""
        return math.prod(self.right.sizes[letter] for letter in self.roles.columns)

    @property
    def _fill(self) -> Any:
        return self.dtype.type(self.schema.fill_value)

    @property
    def _seed(self) -> Any:
        """What dense rows hold wherever nothing was added up; None where they hold anything."""
        from sparrow.kernels.spgemm import seed_of

        semiring = self.node.semiring
        if semiring.identity is not None or (self._mask is not None and not self.node.complement):
            return None  # what ``add`` leaves as it is may be an entry; loops under a mask leave what they added up
        return seed_of(semiring.add, self.dtype, self._across.size)

    @contextlib.contextmanager
    def _space(self) -> Iterator[Workspace]:
        """Give a thread buffers for products, clean, and take them back."""
        from sparrow.kernels.spgemm import Workspace

        space = self._idle.pop() if self._idle else Workspace(self._across.size, self.dtype, self._seed or 0)
        yield space
        self._idle.append(space)

    def _kernels(self) -> Any:
        from sparrow.kernels.spgemm import kernels_of

        semiring = self.node.semiring
        return kernels_of(
            semiring.add, semiring.multiply, self.dtype, self.roles.swapped, seeded=self._seed is not None
        )


def _quick(relation: Any) -> bool:
    """Return whether a relation can as well be read twice: it is no product, and made of none."""
    if isinstance(relation, Computed):
        return not isinstance(relation.token, Product) and all(_quick(scan.relation) for scan in relation.inputs)
    return bool(relation.exact)


def _working(semiring: Semiring, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type in which products are added up."""
    modular = semiring.plain or (semiring.add == "plus" and semiring.multiply in ("first", "second", "pair"))
    return np.dtype(np.uint64) if dtype == np.uint64 and not modular else accumulator(dtype)


def _few(columns: NDArray[Any], width: int) -> int:
    """Return up to how many products of a row are gathered, where there are such columns of so many."""
    from sparrow.kernels.spgemm import FEW

    return FEW if width > _CACHED and not _clustered(columns) else _FEWER


def _clustered(columns: NDArray[Any]) -> bool:
    """Return whether most entries, sorted by rows, are near to the one before."""
    stretches = [columns[start : start + _STRETCH] for start in range(0, len(columns), max(len(columns) // 16, 1))]
    steps = np.concatenate([np.diff(stretch) for stretch in stretches]) if len(columns) else columns
    return bool(2 * np.count_nonzero((steps >= 0) & (steps < _NEAR)) > len(steps))
