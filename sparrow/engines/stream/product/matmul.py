"""Products of tensors: the rows of one operand, piece by piece, times the other, which is held by rows if it fits.

Whatever letters there are, a product is one of matrices: rows are the letters of the result that the operand of rows
has, columns those that only the other one has, and what is matched in between are the letters that both have. Letters
that neither the result nor the other operand has are left out: entries that then agree are added up with the rest.

A piece is a range of the leading letter with about as many products as fit a thread's buffers. A row is computed by one
thread, its products added in the order of the matched letters, so the bits depend neither on pieces nor on threads.
What is reduced from a product is rounded piece by piece: these are cut by the memory limit, whatever the threads.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.operator import PhysicalOperator, ReadRange, open_cursors, partition_bounds, range_slice
from sparrow.engines.stream.product.indexing import distinct
from sparrow.engines.stream.product.kernels import DOTTED, TOGETHER, Loops
from sparrow.engines.stream.product.layouts import Held
from sparrow.engines.stream.product.operands import MaskRows, OperandRows, Operands
from sparrow.kernels.coo import Block, CSRBlock, canonicalize, concat_blocks
from sparrow.kernels.elementwise import align
from sparrow.plan import Product, Scan
from sparrow.plan.estimates import estimate_product
from sparrow.relations.base import MemoryRelation
from sparrow.runtime import memory, settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.sorting import SpillFile

if TYPE_CHECKING:
    from sparrow.engines.stream.product.external_sum import Summed
    from sparrow.engines.stream.product.row_sections import Sections
    from sparrow.engines.stream.product.spilled import Spilled

__all__ = ["MaskedMatMulOp", "Multiplication", "multiplied"]

T = TypeVar("T")

_PRODUCTS = 1 << 21
"""About how many products a thread computes at a time, where memory is ample; else half as many."""
_LEAST, _PRODUCT_BYTES = 1 << 17, 512
"""At least how many where memory is scarce, and the bytes to work in for each: of what a product takes itself, what is
computed of several and what waits for its turn."""
_ADDED = 4
"""How many times more of them where they are added up at once: nothing is written."""
_SHARE = 4
"""Of the free memory, one part for the operand of rows: beyond, it is read twice, piece by piece."""
_WHOLE = 2
"""How many times longer a piece is that is multiplied at once, where its rows could be cut further."""
_LARGE = 3
"""Of the memory to work in, one part for the operand that is held by rows: beyond, it is put aside on disk."""
_SMALLER = 16
"""How many times fewer entries the operand of rows has where only those that match it are read of the other."""
_SPARSE = 4
"""How many times fewer entries a mask has than the operand of rows where it is looked at which rows it wants."""
_TURNED = 4
"""Products that take as long as an entry brought into the order of columns."""


def multiplied(node: Product, *scans: Scan) -> PhysicalOperator:
    """Return the product of two scans, under a mask if there is a third.

    Raises
    ------
    TooLargeError
        When it is read, if an operand that does not fit can be multiplied neither in strips nor in panels.
    """
    work = Multiplication(node, *scans)
    if node.mask is None or node.complement:
        return PhysicalOperator(node, scans, work.cuts, work.between, begin=work.begin, most=work.most, rowwise=True)
    return MaskedMatMulOp(node, scans, work)


class MaskedMatMulOp(PhysicalOperator):
    """The entries of a product at the cells of a mask."""

    def __init__(self, node: Product, scans: Sequence[Scan], work: Multiplication) -> None:
        super().__init__(node, scans, work.cuts, work.between, begin=work.begin, most=work.most, total=work.total)
        self._work = work

    def is_masked_by(self, scan: Scan) -> bool:
        """Return whether a scan is the mask, and shows its entries in the order of the result."""
        mask = self.children[2]
        return mask.source.token == scan.source.token and mask.view == scan.view and self._work.operands.in_order

    def cuts(self) -> list[int]:
        """Return bounds along the leading dimension between which there is work for a thread."""
        return self._work.cuts()

    def weighted(self) -> Any:
        """Return the sum of the entries, each times the mask's value at it; None where the loop does not give it."""
        return self._work.total(weighted=True)

    def beside(self, first: int, last: int) -> Callable[[int, int], tuple[Block, NDArray[Any]]]:
        """Return what gives the entries between two bounds, and the mask's values at them, for pieces between two."""
        sources = self._work.sources(first, last)
        return lambda start, stop: self._work.computed(start, stop, sources, beside=True)


class Multiplication:
    """One product: what is held of its operands, and the pieces of the result."""

    def __init__(self, node: Product, left: Scan, right: Scan, mask: Scan | None = None) -> None:
        self.operands = Operands(node, left, right, mask)
        self.node, self.schema = node, node.schema
        self._lock = threading.Lock()
        self._held: Held | None = None
        self._rows: OperandRows | None = None
        self._spilled: Spilled | Summed | None = None
        self._sections: Sections | None = None
        self._own: Block | None = None
        """The entries of the operand of rows, if they are those of the mask, in its order."""
        self.wanted: NDArray[Any] | None = None
        """The leading coordinates at which a mask has cells, where they are few."""
        self._ready = False

    # -- what is held --------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Read the operand that is held, and that of rows if it is not large."""
        with self._lock:
            if self._ready:
                return
            room = self.reserved()
            roles, left, right = self.operands.roles, self.operands.left, self.operands.right
            same = left.same_as(right)
            nbytes = left.rows * left.scan.schema.element_bytes(wide=True)
            found = used = None
            large, fits = self._is_large(), nbytes <= memory.share(_SHARE)
            self.wanted = self._rows_of_mask()
            if not same and fits:
                found = left.entries(room, self.wanted)
                if len(roles.matched) == 1 and found.count <= right.rows // _SMALLER:
                    used = distinct(left.columns(found, roles.matched)[0])
            block = (
                None if used is None else right.some(room, used, memory.working_bytes() // _LARGE if large else None)
            )
            if block is None and (large or not (roles.rows or same or fits)):
                found = None
                room.release()
                if self._put_aside():
                    self._ready = True
                    return
            if found is None and not (roles.rows or same):
                found = left.entries(room, self.wanted)  # one row, which no piece divides
            if block is None:
                block = right.entries(room)
            self._held = Held(self.operands, block, room)
            if same:
                found = block
            self._rows = None if found is None else self._held.rows(found, self.wanted)
            room.grow(0 if self._rows is None else self._rows.nbytes)
            mask = self.operands.mask
            if mask is not None and self.wanted is None and mask.same_as(left):
                self._own = found
            dots = self._rows is not None and self._by_dots(self._held, self._rows)
            self._loops = Loops(self.operands, self._held, dots=dots)
            self._ready = True

    def _by_dots(self, held: Held, rows: OperandRows) -> bool:
        """Return whether products at a mask may be quicker cell by cell, by columns of the operand that is held."""
        left, roles, mask = self.operands.left, self.operands.roles, self.operands.mask
        if mask is None or self.node.complement or not held.single or not held.matched.plain:
            return False
        once = len(set(left.indices)) == len(roles.rows) + len(roles.matched)
        work, entries = int(rows.done[-1]), len(held.arrays[1])
        if sum(array.nbytes for array in held.arrays) > memory.share(_SHARE):
            return False
        cells = mask.rows if _quick(mask.scan.relation) else work
        return once and _TURNED * (entries + held.across.size) + DOTTED * cells < work

    def _rows_of_mask(self) -> NDArray[Any] | None:
        """Return the coordinates along the leading letter at which a mask has cells, if they may be few of all."""
        mask = self.operands.mask
        if mask is None or self.node.complement or not self.operands.roles.rows or not _quick(mask.scan.relation):
            return None
        rows = mask.rows
        if _SPARSE * rows > self.operands.left.rows or rows * self.schema.coordinate_dtype(0).itemsize > memory.share(
            _SHARE
        ):
            return None
        found = list(scan_reader.map_blocks(mask.scan, lambda block: distinct(block.coords[0]), axes=(0,)))
        wanted = distinct(np.concatenate(found)) if found else np.empty(0, self.schema.coordinate_dtype(0))
        return wanted if 2 * len(wanted) <= self.schema.shape[0] else None  # nearly all: not worth looking for

    def reserved(self) -> memory.Reservation:
        """Return room for the operand that is held."""
        which, shape = "left" if self.operands.roles.swapped else "right", self.operands.right.scan.schema.shape
        what = f"the {which} operand of a product, of shape {shape}, held by rows"
        return memory.reserve(0, what, "multiply some of its columns at a time")

    def _is_large(self) -> bool:
        """Return whether the operand that would be held is better put aside on disk."""
        right = self.operands.right
        held = isinstance(right.scan.relation, MemoryRelation) and right.scan.view.is_identity
        return not held and right.rows * self.operands.width > memory.working_bytes() // _LARGE

    def _put_aside(self) -> bool:
        """Put the operands aside on disk; return whether the product is had of that."""
        from sparrow.engines.stream.product import external_sum, row_sections, spilled, tiling

        adds_up, aside = external_sum.adds_up(self.node.semiring), SpillFile()
        try:
            left = right = None
            if self.operands.roles.rows:
                left, right = tiling.put_aside(self.operands, aside, self.wanted)
            if left is not None and right is not None:
                self._sections = row_sections.sections(self, left, right)
            if left is not None and self._sections is None:
                self._spilled = spilled.spilled(self, left, right, adds_up)
        finally:
            if self._sections is None:
                aside.close()
        if self._sections is None and self._spilled is None and adds_up:
            self._spilled = external_sum.Summed(self)
        return self._sections is not None or self._spilled is not None

    def cells_at(self, held: Held, rows: OperandRows) -> MaskRows | None:
        """Return the cells that the mask has in rows; None where there is none."""
        bounds = rows.bounds(self.schema.shape[0] if self.schema.ndim else 1)
        return self._cells(held, rows, self.sources(*bounds, held=True)[1], *bounds)

    # -- pieces --------------------------------------------------------------------------------------

    def cuts(self) -> list[int]:
        """Return bounds along the leading letter of the result between which there is work for a thread."""
        self._prepare()
        aside, size = self._spilled or self._sections, self.schema.shape[0]
        if aside is not None:
            mask = self.operands.mask  # of which a piece of few results may have many cells
            between = [] if mask is None or not size else partition_bounds([mask.scan], size)
            return sorted({*aside.cuts(), *between})
        if not size:
            return [0]
        if self._rows is not None:
            return [0, *self._rows.cut(size, _products()), size]
        left = self.operands.left.scan
        bounds = partition_bounds([left], size)
        bounds = [0, *dict.fromkeys(bound for bound in bounds[1:-1] if 0 < bound < size), size]
        each = open_cursors([left], 0, size)[0]

        def refined(span: tuple[int, int]) -> list[int]:
            rows = self._rows_between(*span, each)
            return [*rows.cut(span[1], _products()), span[1]]

        found = ordered_map(refined, itertools.pairwise(bounds), settings.current().threads)
        return [0, *itertools.chain.from_iterable(found)]

    def most(self, start: int, stop: int) -> int:
        """Return how many entries of the result there are at most between two bounds along its leading letter.

        About how many, where the operand of rows is read piece by piece.
        """
        self._prepare()
        aside = self._spilled or self._sections
        if aside is not None:
            return aside.most(start, stop)
        if self._rows is None:
            part = (stop - start) / self.schema.shape[0] if self.schema.ndim else 1
            return max(_products(), int(self._expected * part))
        done, coords = self._rows.done, self._rows.coords
        at = range_slice(coords[0], start, stop) if coords else slice(0, len(done) - 1)
        return int(done[at.stop] - done[at.start]) if len(done) else 0

    @functools.cached_property
    def _expected(self) -> float:
        """About how many entries there are of the result, or products if they are fewer."""
        return min(estimate_product(self.node))

    def begin(self, first: int, last: int) -> ReadRange:
        """Return :meth:`between` for pieces between two bounds, which keep what they read for the next one."""
        sources = self.sources(first, last)

        def evaluate(start: int, stop: int, rowwise: bool = False) -> Any:
            found = self._by_rows(start, stop, sources) if rowwise else None
            return self.computed(start, stop, sources)[0] if found is None else found

        return evaluate

    def between(self, start: int, stop: int) -> Block:
        """Return the entries of the result between two bounds along its leading letter."""
        return self.begin(start, stop)(start, stop)

    def sources(self, first: int, last: int, held: bool | None = None) -> tuple[ReadRange | None, ReadRange | None]:
        """Return what reads the operand of rows and the mask piece by piece; None what is held, or not there."""
        if held is None:
            self._prepare()
            held = self._rows is not None or self._spilled is not None or self._sections is not None
        left = None if held else open_cursors([self.operands.left.scan], first, last)[0]
        mask = self.operands.mask
        return left, None if mask is None or not self.schema.ndim else open_cursors([mask.scan], first, last)[0]

    def computed(
        self, start: int, stop: int, sources: tuple[ReadRange | None, ReadRange | None], beside: bool = False
    ) -> Any:
        """Return the entries of the result between two bounds, and ``beside`` them the values of the mask there."""
        left, mask = sources
        if self._spilled is not None:
            block = self._spilled.between(start, stop)
            if mask is None or self.node.complement or not beside:
                return block, None
            _, (_, weights) = align([block, mask(start, stop)], [0, 0], self.schema.shape, (True, True))
            return block, weights

        what = f"the entries of a product of shape {self.schema.shape} at one coordinate of its first dimension"
        with memory.reserve(0, what, "put one first of which each coordinate has fewer, take a smaller view") as room:

            def multiplied(held: Held, loops: Loops, rows: OperandRows) -> list[tuple[Block, NDArray[Any] | None]]:
                found: list[tuple[Block, NDArray[Any] | None]] = []
                for part in self._parts(loops, rows, self._cells(held, rows, mask, start, stop)):
                    if found:  # one coordinate has more than a piece is to have
                        room.grow(part[0].nbytes)
                    found.append(part)
                return found

            parts = list(itertools.chain.from_iterable(self._each(start, stop, left, multiplied)))
            block = concat_blocks([entries for entries, _ in parts], self.schema.ndim, self.schema.dtype)
        if not self.operands.in_order and block.count:
            block = canonicalize(block, self.schema.shape, None, keep_fill=True)
        found = [values for _, values in parts if values is not None]
        none = np.empty(0, None if self.operands.mask is None else self.operands.mask.scan.schema.dtype)
        weights = np.concatenate(found) if len(found) > 1 else next(iter(found), none)
        if self.operands.roles.rows or not self.schema.ndim:
            return block, weights
        at = range_slice(block.coords[0], start, stop)  # the one row gives all of them
        return block.take(at), weights[at]

    def total(self, weighted: bool = False) -> Any:
        """Return the sum of all entries at the cells of a mask, added by the loop, as ``dtype``; None where it cannot.

        Parameters
        ----------
        weighted
            Whether each is multiplied by the mask's value at it.
        """
        dtype = self.operands.dtype
        plain = self.node.semiring.add == "plus" and dtype == self.schema.dtype and dtype.kind in "if"
        if not plain or not self.operands.roles.rows:
            return None
        bounds = self.cuts()
        if self._spilled is not None:
            return None
        if self._rows is not None:
            bounds = [*bounds[:-1:_ADDED], bounds[-1]]
        sources = self.sources(0, bounds[-1]) if len(bounds) > 1 else (None, None)

        def added(span: tuple[int, int]) -> Any:
            def at_mask(held: Held, loops: Loops, rows: OperandRows) -> Any:
                cells = self._cells(held, rows, sources[1], *span)
                assert cells is not None
                return loops.added(rows, cells, weighted)

            return sum(self._each(*span, sources[0], at_mask), dtype.type(0))

        with np.errstate(all="ignore"):
            spans = itertools.pairwise(bounds)
            return sum(ordered_map(added, spans, settings.current().threads), dtype.type(0))

    def _each(
        self, start: int, stop: int, read: ReadRange | None, work: Callable[[Held, Loops, OperandRows], T]
    ) -> list[T]:
        """Return what becomes of the rows between two bounds, with what is held for them."""
        if self._sections is not None:
            return self._sections.each(start, stop, work)
        assert self._held is not None
        return [work(self._held, self._loops, self._rows_between(start, stop, read))]

    def _rows_between(self, start: int, stop: int, read: ReadRange | None) -> OperandRows:
        """Return the rows between two bounds along the leading letter: of what is held, or read."""
        if read is not None:
            assert self._held is not None
            return self._held.rows(self.operands.left.cleaned(read(start, stop)), self.wanted)
        assert self._rows is not None
        return self._rows.between(start, stop)

    def _cells(self, held: Held, rows: OperandRows, read: ReadRange | None, start: int, stop: int) -> MaskRows | None:
        """Return the cells of the mask in rows between two bounds; None where there is no mask."""
        mask = self.operands.mask
        if mask is None:
            return None
        own = None if self._own is None else held.own_cells(rows, self._own)
        if own is not None:
            return own
        return held.mask_rows(rows, scan_reader.entries(mask.scan) if read is None else read(start, stop), start, stop)

    def _parts(
        self, loops: Loops, rows: OperandRows, mask: MaskRows | None
    ) -> Iterator[tuple[Block, NDArray[Any] | None]]:
        """Yield the products of rows, some rows at a time, in order, and the mask's values at them."""
        if self._sections is not None:  # which has pieces that are no larger
            yield loops.work(rows, mask, 0, len(rows.pointers) - 1)
            return
        spans, work = rows.spans(_products()), loops.work
        threads = min(settings.current().threads, len(spans))
        yield from ordered_map(lambda span: work(rows, mask, *span), spans, threads)

    def _by_rows(self, start: int, stop: int, sources: tuple[ReadRange | None, ReadRange | None]) -> CSRBlock | None:
        """Return the entries between two bounds row by row; None where they are not what the loop gives, as it is."""
        schema = self.schema
        as_it_is = self.operands.dtype == schema.dtype and schema.fill_value == schema.fill_value
        if self._spilled is not None or not self.operands.roles.rows or not self.operands.in_order:
            return None

        def by_rows(held: Held, loops: Loops, rows: OperandRows) -> CSRBlock | None:
            if len(rows.coords) > 1 and rows.done[-1] - rows.done[0] > _WHOLE * _products():
                return None
            return loops.by_rows(rows, self._cells(held, rows, sources[1], start, stop))

        found = self._each(start, stop, sources[0], by_rows) if as_it_is else []
        return found[0] if len(found) == 1 else None


def _products() -> int:
    if settings.current().ample:
        return _PRODUCTS
    fits = memory.working_bytes() // (_PRODUCT_BYTES * TOGETHER)
    return min(_PRODUCTS // 2, max(fits, _LEAST))


def _quick(relation: Any) -> bool:
    """Return whether a relation can as well be read twice: it is no product, and made of none."""
    if isinstance(relation, PhysicalOperator):
        return not isinstance(relation.token, Product) and all(_quick(scan.relation) for scan in relation.children)
    return bool(relation.exact)
