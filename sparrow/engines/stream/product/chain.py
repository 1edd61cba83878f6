"""Products of several tensors in the order that is cheapest by what is known when they run.

What einsum builds is a chain of products of two, ordered by numbers of entries, and read by nobody. When it runs, the
entries of its operands are counted along the axes that meet others, a step is computed into memory if it is expected to
fit, and what is left is ordered again by what came out.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from sparrow.core.indexing import View
from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.operator import PhysicalOperator, ReadRange
from sparrow.engines.stream.product import matmul
from sparrow.engines.stream.product.matmul import Multiplication
from sparrow.errors import TooLargeError
from sparrow.kernels.coo import Block
from sparrow.plan import Product, Scan, make_product
from sparrow.plan.contraction_path import optimal_path, surviving_indices
from sparrow.plan.estimates import Estimate, count_degrees, estimate_operand, is_countable
from sparrow.relations.base import MemoryRelation
from sparrow.runtime import memory

__all__ = ["ChainMatMulOp", "Done", "done", "multiplied"]

_SHARE = 4
"""Of the free memory, one part for the result of a step."""


@dataclass(frozen=True, slots=True)
class _Term:
    """An operand: the letters of its axes."""

    indices: tuple[int, ...]
    scan: Scan
    known: Estimate
    rooms: tuple[memory.Reservation, ...] = ()
    """Of the steps that it is made of and that are held."""


@dataclass(frozen=True, slots=True)
class Done:
    """A step that ran: what was expected of it, and how many entries came out where they were counted."""

    node: Product
    products: float
    entries: float
    found: int | None


done: ContextVar[list[Done] | None] = ContextVar("sparrow_done", default=None)
"""Where steps are told that run; None where nobody listens."""


def multiplied(node: Product, *scans: Scan) -> PhysicalOperator:
    """Return the product of two scans, under a mask if there is a third; of a chain of them in the cheapest order.

    Raises
    ------
    TooLargeError
        When it is read, as of :func:`sparrow.engines.stream.product.matmul.multiplied`.
    """
    terms = _terms_of(node, scans[:2])
    if not terms:
        return matmul.multiplied(node, *scans)
    return ChainMatMulOp(node, scans, terms)


class ChainMatMulOp(PhysicalOperator):
    """The entries of a chain of products, in an order that shows when they are first read.

    Parameters
    ----------
    node
        The last product as it was built.
    scans
        What it was built of, and its mask.
    terms
        What is multiplied, with the letters of each.
    """

    def __init__(self, node: Product, scans: Sequence[Scan], terms: Sequence[tuple[tuple[int, ...], Scan]]) -> None:
        work = _Ordered(node, terms, scans[2:])
        inside = node.mask is not None and not node.complement
        super().__init__(
            node, [*(scan for _, scan in terms), *scans[2:]], work.cuts, work.between, begin=work.begin,
            most=work.most, total=work.total if inside else None, rowwise=not inside,
        )  # fmt: skip
        self.scans, self.terms = tuple(scans), terms


def _terms_of(node: Product, scans: Sequence[Scan]) -> list[tuple[tuple[int, ...], Scan]]:
    """Return what a chain of products multiplies, with the letters of each; nothing unless there are more than two."""
    fresh = itertools.count(1 + max((letter for own in node.indices for letter in own), default=0))
    found: list[tuple[tuple[int, ...], Scan]] = []

    def unfold(letters: tuple[int, ...], scan: Scan) -> None:
        relation: Any = scan.relation
        inner = relation.token if isinstance(relation, PhysicalOperator) and scan.view.is_identity else None
        if not isinstance(inner, Product) or not inner.reorderable or inner.mask is not None or not alike(inner):
            found.append((letters, scan))
            return
        name = dict(zip(inner.output_indices, letters, strict=True))
        chained = isinstance(relation, ChainMatMulOp)
        for own, below in relation.terms if chained else zip(inner.indices, relation.children, strict=True):
            unfold(tuple(name.setdefault(letter, next(fresh)) for letter in own), below)

    def alike(inner: Product) -> bool:
        return inner.semiring == node.semiring and inner.schema.dtype == node.schema.dtype

    if node.reorderable:
        for letters, scan in zip(node.indices, scans, strict=False):
            unfold(letters, scan)
    same = all(scan.schema.dtype == node.schema.dtype for _, scan in found)  # else each order has types of its own
    return found if same and len(found) > 2 else []


class _Ordered:
    """A chain of products, put in order and computed but for its last step when it is first read.

    Parameters
    ----------
    node
        The last product as it was built.
    terms
        What is multiplied, with the letters of each.
    mask
        Of the result.
    """

    def __init__(self, node: Product, terms: Sequence[tuple[tuple[int, ...], Scan]], mask: Sequence[Scan]) -> None:
        self._node, self._terms, self._mask = node, terms, mask
        self._rooms: list[memory.Reservation] = []
        self._lock = threading.Lock()
        self._last: Multiplication | None = None

    def cuts(self) -> list[int]:
        """Return bounds along the leading letter of the result between which there is work for a thread."""
        return self._work().cuts()

    def most(self, start: int, stop: int) -> int:
        """Return how many entries of the result there are at most between two bounds along its leading letter."""
        return self._work().most(start, stop)

    def begin(self, first: int, last: int) -> ReadRange:
        """Return :meth:`between` for pieces between two bounds, which keep what they read for the next one."""
        return self._work().begin(first, last)

    def between(self, start: int, stop: int) -> Block:
        """Return the entries of the result between two bounds along its leading letter."""
        return self._work().between(start, stop)

    def total(self) -> Any:
        """Return the sum of the entries at the cells of the mask; None where the loop does not give it."""
        return self._work().total()

    def _work(self) -> Multiplication:
        """Return the last product, of what was computed before it."""
        with self._lock:
            if self._last is None:
                left = [_Term(letters, scan, _counted(letters, scan)) for letters, scan in self._terms]
                while len(left) > 2:
                    left = self._after_a_step(left)
                one, other = left
                self._rooms = [*one.rooms, *other.rooms]
                node = replace(self._node, left=one.scan, right=other.scan, indices=(one.indices, other.indices))
                _tell(node, *one.known.times(other.known, node.output_indices), None)
                self._last = Multiplication(node, one.scan, other.scan, *self._mask)
            return self._last

    def _after_a_step(self, left: list[_Term]) -> list[_Term]:
        """Return what is left after the cheapest step, its result among it."""
        semiring, last = self._node.semiring, self._node.output_indices
        step = optimal_path([term.known for term in left], last, semiring)[0]
        one, other = (left[k] for k in step)
        left = [term for k, term in enumerate(left) if k not in step]
        out = surviving_indices(one.indices, other.indices, [term.indices for term in left], last, semiring)
        node = make_product(one.scan, other.scan, (one.indices, other.indices), out, semiring)
        products, expected = one.known.times(other.known, out)
        relation: Any = matmul.multiplied(node, one.scan, other.scan)
        found, rooms = None, (*one.rooms, *other.rooms)
        if expected.nnz * node.schema.element_bytes() <= memory.share(_SHARE):
            room = memory.reserve(0, f"a step of einsum, of shape {node.schema.shape}", "take a part of its operands")
            try:
                block = scan_reader.entries(Scan(relation, View.identity(node.schema.shape), node.schema), room)
            except TooLargeError:
                room.release()  # more than expected: its pieces are computed when they are read
            else:
                for each in rooms:
                    each.release()
                found, rooms = block.count, (room,)
                relation = MemoryRelation(node.schema, block)
        scan = Scan(relation, View.identity(node.schema.shape), node.schema)
        _tell(node, products, expected, found)
        known = expected if found is None else estimate_operand(out, scan)
        return [*left[: step[0]], _Term(out, scan, known, rooms), *left[step[0] :]]  # in the order of what is given


def _tell(node: Product, products: float, expected: Estimate, found: int | None) -> None:
    """Tell whoever listens what a step was."""
    told = done.get()
    if told is not None:
        told.append(Done(node, products, expected.nnz, found))


def _counted(letters: tuple[int, ...], scan: Scan) -> Estimate:
    """Return what is known of an operand, its entries counted along its axes; columns of files are read for that."""
    for axis in range(scan.schema.ndim) if is_countable(scan) else ():
        if count_degrees(scan, axis) is None:
            count_degrees(scan, axis, _column(scan, axis))
    return estimate_operand(letters, scan)


def _column(scan: Scan, axis: int) -> Iterator[NDArray[Any]]:
    """Yield the coordinates along an axis, of all entries in any order."""
    for block in scan_reader.blocks(scan, axes=(axis,)):
        yield block.coords[axis]
