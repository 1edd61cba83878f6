"""The loops of a product over rows: everywhere, at a mask, and added up at one."""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.stream.product.layouts import Held
from sparrow.engines.stream.product.operands import MaskRows, OperandRows, Operands
from sparrow.kernels.coo import Block, CSRBlock, RowIndex
from sparrow.kernels.jit.warmup import as_readonly
from sparrow.kernels.matmul import numpy_fallback
from sparrow.runtime import buffer_pool, memory, settings

if TYPE_CHECKING:
    from sparrow.kernels.matmul.workspace import Workspace

__all__ = ["DOTTED", "TOGETHER", "Loops"]

DOTTED = 2
"""Products that take as long as a step of a dot product."""
_DENSE = 4
"""Of the free memory, one part for the dense rows of threads: those for which there is none wait for one."""
TOGETHER = 4
"""Threads that multiply at the same time where the limit is small: pieces are cut for so many, however many there are,
since what is reduced piece by piece is rounded as it is cut."""
_NOWHERE, _NO_COLUMNS = as_readonly(np.empty(0, np.uint64)), as_readonly(np.empty(0, np.uint32))
"""The cells of no mask."""


class Loops:
    """What multiplies rows with what is held.

    Parameters
    ----------
    operands
        Those of the product.
    held
        The operand that is held.
    dots
        Whether products at a mask may be quicker cell by cell.
    partial
        Whether it is a part of it, so that what comes out is added up with more in the type of products.
    roomy
        Whether there is room for the dense rows of all threads.
    """

    def __init__(
        self, operands: Operands, held: Held, dots: bool = False, partial: bool = False, roomy: bool = False
    ) -> None:
        self._operands, self._node, self._schema = operands, operands.node, operands.node.schema
        self._held, self._dots, self._partial = held, dots, partial
        self._fill = operands.left_out
        self._scratch = buffer_pool.ScratchPool()
        self._spaces: queue.SimpleQueue[Workspace | None] = queue.SimpleQueue()
        nbytes, current = held.across.size * (operands.dtype.itemsize + 1), settings.current()
        threads = current.threads if current.ample else min(current.threads, TOGETHER)
        for _ in range(threads if roomy else max(min(threads, memory.share(_DENSE) // max(nbytes, 1)), 1)):
            self._spaces.put(None)
        if self.work == self._everywhere and not numpy_fallback.suffices(len(held.arrays[1])):
            held.patterns()

    @property
    def work(self) -> Callable[[OperandRows, MaskRows | None, int, int], tuple[Block, Any]]:
        """What returns the entries of some rows, and the mask's values at them where they are those of its cells."""
        return self._everywhere if self._operands.mask is None or self._node.complement else self._inside

    def _inside(self, rows: OperandRows, mask: MaskRows | None, first: int, last: int) -> tuple[Block, NDArray[Any]]:
        """Return the products of some rows at the cells of a mask."""
        assert mask is not None
        at, out = self._marked(rows, mask, first, last)
        found = mask.block.take(at)
        coords: list[Any] = [None] * self._schema.ndim
        for letter, column in zip(
            (*self._operands.roles.rows, *self._operands.roles.columns), found.coords, strict=True
        ):
            coords[self._node.output_indices.index(letter)] = column
        return self._finished(coords, out, found.values)

    def _marked(self, rows: OperandRows, mask: MaskRows, first: int, last: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return which cells of a mask have products of some rows, and those."""
        cells = self._cells(mask, first, last)
        most, work = int((cells[1] - cells[0]).sum()), int(rows.done[last] - rows.done[first])
        own = self._arguments(rows, first, last)
        if self._by_numpy("masked", max(most, work, last - first)):
            by_numpy: Any = numpy_fallback.at_cells
            at, out = by_numpy(*self._operations, self._held.across.size, *own, *cells, self._fill)
            return at, out
        at = np.empty(most + 1, np.uint32 if mask.block.count < 2**32 else np.uint64)
        out = np.empty(most + 1, self._operands.dtype)
        if self._dots and self.dots_pay(own[0], cells, work):
            n = self._kernels().dotted(*own[:3], *self._held.by_columns(), *cells, self._fill, at, out)
        else:
            with self._space() as space:
                n = self._kernels().masked(
                    *own, *cells, np.uint64(0), np.uint64(last - first), self._fill, space.total, space.state, at, out
                )
        return at[:n], out[:n]

    def dots_pay(self, pointers: NDArray[Any], cells: tuple[NDArray[Any], ...], work: int) -> bool:
        """Return whether some rows are quicker cell by cell than by so many products."""
        from sparrow.kernels.matmul.masked_dot import steps_of_dots

        return bool(DOTTED * steps_of_dots(pointers, self._held.by_columns()[0], *cells) < work)

    def _everywhere(self, rows: OperandRows, mask: MaskRows | None, first: int, last: int) -> tuple[Block, None]:
        """Return the products of some rows, but for those at the cells of a mask, if there is one."""
        pointers, columns, out = self._products(rows, mask, first, last)
        kinds = dict(
            zip(self._node.output_indices, map(self._schema.coordinate_dtype, range(self._schema.ndim)), strict=True)
        )
        found = {}
        for letter, column in zip(self._operands.roles.rows, rows.coords, strict=True):
            found[letter] = _repeated(column[first:last], pointers, kinds[letter])
        across = self._held.named(columns, [kinds[letter] for letter in self._operands.roles.columns])
        found.update(zip(self._operands.roles.columns, across, strict=False))
        return self._finished([found[letter] for letter in self._node.output_indices], out, None)

    def by_rows(self, rows: OperandRows, mask: MaskRows | None) -> CSRBlock:
        """Return the products of rows, in the order of the result, as the loop gives them."""
        pointers, columns, out = self._products(rows, mask, 0, len(rows.pointers) - 1)
        kinds = [self._schema.coordinate_dtype(axis) for axis in range(len(rows.coords), self._schema.ndim)]
        rest = Block(tuple(self._held.named(columns, kinds)), out)
        leading = zip(rows.coords, self._schema.coordinate_dtypes, strict=False)
        heads = RowIndex(tuple([column.astype(kind, copy=False) for column, kind in leading]), pointers)
        return CSRBlock(heads, rest)

    def by_letters(
        self, rows: OperandRows, mask: MaskRows | None, first: int, last: int
    ) -> tuple[NDArray[np.int64], list[NDArray[Any]], NDArray[Any]]:
        """Return where the products of each of some rows begin, their coordinates as columns, and they."""
        columns = self._operands.roles.columns
        kinds = [self._schema.coordinate_dtype(self._node.output_indices.index(letter)) for letter in columns]
        if mask is None or self._node.complement:
            pointers, numbers, out = self._products(rows, mask, first, last)
            return pointers, self._held.named(numbers, kinds), out
        at, out = self._marked(rows, mask, first, last)
        pointers = np.append(np.searchsorted(at, mask.begins[first:last]), len(at))
        own = mask.block.take(at).coords[len(self._operands.roles.rows) :]
        return pointers, [column.astype(kind, copy=False) for column, kind in zip(own, kinds, strict=True)], out

    def added(self, rows: OperandRows, mask: MaskRows, weighted: bool) -> Any:
        """Return the sum of the products of rows at the cells of a mask, each times its value there if ``weighted``."""
        dtype, count = self._operands.dtype, len(rows.pointers) - 1
        out = np.empty(count, dtype)
        values = mask.block.values if weighted else np.broadcast_to(np.ones(1, dtype), mask.block.count)
        with self._space() as space:
            self._kernels().added(
                *self._arguments(rows, 0, count), *self._cells(mask, 0, count),
                as_readonly(np.ascontiguousarray(values, dtype)),
                np.uint64(0), np.uint64(count), space.weights, space.state, out,
            )  # fmt: skip
        return np.add.reduce(out)

    def _products(
        self, rows: OperandRows, mask: MaskRows | None, first: int, last: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]]:
        """Return where the products of each of some rows begin, their columns and they, but for those at a mask."""
        count, products = last - first, int(rows.done[last] - rows.done[first])
        cells = (_NOWHERE, _NOWHERE, _NO_COLUMNS) if mask is None else self._cells(mask, first, last)
        arguments = self._arguments(rows, first, last)
        if self._by_numpy("rows", max(products, count, int((cells[1] - cells[0]).sum()))):
            by_numpy: Any = numpy_fallback.products
            pointers, numbers, out = by_numpy(*self._operations, self._held.across.size, *arguments, *cells, self._fill)
            return pointers, numbers.view(np.int32), out
        from sparrow.kernels.matmul import symbolic
        from sparrow.kernels.matmul.workspace import SLACK

        prepare: Any = symbolic.planned
        most = min(products, count * max(self._held.across.size, 1))
        pointers = np.empty(count + 1, np.int64)
        kinds = np.dtype(np.uint32), self._operands.dtype
        numbers, out = (buffer_pool.Buffer(most + SLACK, kind, self._scratch) for kind in kinds)
        own, places, left, starts, columns, right = arguments
        done, width = as_readonly(rows.done[first : last + 1].view(np.uint64)), np.uint64(self._held.across.size)
        with self._space() as space:
            plan = space.plan(count, min(products, count * int(self._held.gathered)))
            dense = prepare(
                own, places, rows.patterns[first:last], starts, columns, self._held.patterns(), *cells, done,
                self._held.single, self._seed is not None, self._held.gathered, space.order, space.counts, space.plans,
                *plan,
            )  # fmt: skip
            n = self._kernels().rows(
                own, places, left, starts, columns, right, *cells, done, *plan, self._held.single, width, self._fill,
                *space.dense(dense), pointers, numbers.array, out.array,
            )  # fmt: skip
        return pointers, numbers.first(n).view(np.int32), out.first(n)

    def _finished(self, coords: Sequence[NDArray[Any]], out: NDArray[Any], weights: Any) -> tuple[Block, Any]:
        """Return results in the type of the result, unless more is added to them."""
        if self._partial:
            return Block(tuple(coords), out), weights
        return self._operands.finished(coords, out, weights)

    def _cells(self, mask: MaskRows, first: int, last: int) -> tuple[NDArray[Any], ...]:
        """Return the cells of a mask in some rows as a kernel takes them."""
        return as_readonly(mask.begins[first:last]), as_readonly(mask.ends[first:last]), as_readonly(mask.columns)

    def _arguments(self, rows: OperandRows, first: int, last: int) -> tuple[NDArray[Any], ...]:
        """Return some rows, and what is held, as a kernel takes them."""
        begin, end = int(rows.pointers[first]), int(rows.pointers[last])
        pointers = as_readonly((rows.pointers[first : last + 1] - begin).view(np.uint64))
        places = as_readonly(rows.places[begin:end].view(np.uint32))
        return pointers, places, as_readonly(rows.values[begin:end]), *self._held.arrays

    @property
    def _seed(self) -> Any:
        """What dense rows hold wherever nothing was added up; None where they hold anything."""
        from sparrow.kernels.matmul.workspace import seed_of

        semiring = self._node.semiring
        if semiring.identity is not None or (self._operands.mask is not None and not self._node.complement):
            return None  # what ``add`` leaves as it is may be an entry; loops under a mask leave what they added up
        return seed_of(semiring.add, self._operands.dtype, self._held.across.size, len(self._held.arrays[1]))

    @property
    def _operations(self) -> tuple[Any, Any]:
        """What adds and what multiplies: a named operation is given the value of the operand of rows first."""
        semiring = self._node.semiring
        turned = {"first": "second", "second": "first"} if self._operands.roles.swapped else {}
        multiply = semiring.multiply
        return semiring.add, turned.get(multiply, multiply) if isinstance(multiply, str) else multiply

    def _by_numpy(self, kind: str, count: int) -> bool:
        """Return whether so many products of a kind are multiplied by NumPy, as the loop is not loaded."""
        semiring = *self._operations, self._operands.dtype
        return numpy_fallback.known(*semiring) and numpy_fallback.spares((kind, *semiring), count)

    @contextlib.contextmanager
    def _space(self) -> Iterator[Workspace]:
        """Give a thread buffers for products, clean, and take them back, unless they may not be."""
        from sparrow.kernels.matmul.workspace import Workspace

        space, clean = self._spaces.get(), None
        try:
            if space is None:
                space = Workspace(self._held.across.size, self._operands.dtype, self._seed)
            yield space
            clean = space
        finally:
            self._spaces.put(clean)

    def _kernels(self) -> Any:
        from sparrow.kernels.matmul.spgemm import kernels_of

        add, multiply = self._operations
        swapped = self._operands.roles.swapped and callable(multiply)
        return kernels_of(add, multiply, self._operands.dtype, swapped, seeded=self._seed is not None)


def _repeated(values: NDArray[Any], pointers: NDArray[np.int64], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return what stands for each row at all its entries."""
    count = int(pointers[-1])
    if numpy_fallback.suffices(count):
        return np.repeat(values, np.diff(pointers)).astype(dtype, copy=False)
    from sparrow.kernels.rows import repeat_rows

    out = np.empty(count, dtype)
    repeat_rows(values, pointers, out)
    return out
