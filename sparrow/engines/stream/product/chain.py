"""Contractions of several tensors, ordered at run time by what is known of them.

The elements of the operands are counted along the axes that meet others. The cheapest step is computed into memory if
its result is expected to fit, and the rest is ordered again by the size of that result.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from sparrow.core.indexing import View
from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.capabilities import CountPushdown, Cursor, SumPushdown
from sparrow.engines.stream.operator import PhysicalOperator
from sparrow.engines.stream.product.product import CSRProductCursor, Product, ProductCursor, lower_matmul
from sparrow.engines.stream.product.sampled import SampledOp
from sparrow.engines.stream.product.tuning import tuning
from sparrow.errors import TooLargeError
from sparrow.plan import Contraction, Scan, is_sampled, make_contraction
from sparrow.plan.contraction_path import optimal_path, surviving_indices
from sparrow.plan.estimates import Estimate, count_degrees, estimate_operand, is_countable
from sparrow.relations.memory import MemoryRelation
from sparrow.runtime import events, memory
from sparrow.runtime.once import Once

__all__ = ["ChainMatMulOp", "ChainStep", "chain_steps", "lower_contraction"]


@dataclass(frozen=True, slots=True)
class _Term:
    """An operand with the indices of its axes."""

    indices: tuple[int, ...]
    scan: Scan
    known: Estimate
    reservations: tuple[memory.Reservation, ...] = ()
    """Memory of the steps in it that were computed."""


@dataclass(frozen=True, slots=True)
class ChainStep:
    """A step that ran, with its estimates and the elements found, if counted."""

    node: Contraction
    products: float
    entries: float
    found: int | None


chain_steps: ContextVar[list[ChainStep] | None] = ContextVar("sparrow_chain_steps", default=None)
"""List that steps are appended to as they run; None if they are not recorded."""


def lower_contraction(node: Contraction, *scans: Scan) -> PhysicalOperator:
    """Lower a contraction that is no array: of two scans, of more, or sampled.

    Parameters
    ----------
    node
        Plan node of the contraction.
    scans
        Its operands, and its mask if there is one.

    Raises
    ------
    TooLargeError
        On reading, as for :func:`sparrow.engines.stream.product.product.lower_matmul`.
    """
    if is_sampled(node):
        return SampledOp(node, *scans)
    return lower_matmul(node, *scans) if len(node.operands) == 2 else ChainMatMulOp(node, scans)


class ChainMatMulOp(PhysicalOperator, CountPushdown, SumPushdown):
    """Elements of a chain of products, whose order is decided on the first read.

    Parameters
    ----------
    node
        Plan node of the contraction.
    scans
        Its operands and its mask.
    """

    def __init__(self, node: Contraction, scans: Sequence[Scan]) -> None:
        super().__init__(node, scans)
        count = len(node.operands)
        terms = list(zip(node.indices, scans[:count], strict=True))
        self._last_step = Once(functools.partial(_run_steps, node, terms, scans[count:]))
        self._is_masked = node.mask is not None and not node.complement

    def partitions(self) -> list[int]:
        """Return bounds of partitions along the leading axis."""
        return self._last_step().partitions()

    def open(self, start: int, stop: int) -> Cursor:
        """Open a cursor over rows [start, stop) of the last product."""
        cursor = ProductCursor if self._is_masked else CSRProductCursor
        return cursor(self._last_step(), start, stop)

    def max_rows(self, start: int, stop: int) -> int:
        """Return an upper bound on the nnz of rows [start, stop)."""
        return self._last_step().max_rows(start, stop)

    def strategy(self) -> str | None:
        """Return the name of the tiling of the last product."""
        return self._last_step().strategy

    def count(self) -> int | None:
        """Return the number of stored elements; None if they are computed already."""
        return self._last_step().count()

    def sum(self) -> Any:
        """Return the sum of all elements at the mask; None where there is no sum."""
        return self._last_step().sum_at_mask() if self._is_masked else None


def _run_steps(node: Contraction, terms: Sequence[tuple[tuple[int, ...], Scan]], mask: Sequence[Scan]) -> Product:
    """Run all steps of a chain but the last, and return that."""
    rest = [_Term(indices, scan, _count_operand(indices, scan)) for indices, scan in terms]
    while len(rest) > 2:
        rest = _run_step(node, rest)
    one, other = rest
    last = replace(node, operands=(one.scan, other.scan), indices=(one.indices, other.indices))
    _record_step(last, *one.known.times(other.known, last.output_indices), None)
    events.emit("product.chain_last_step")
    reservations = (*one.reservations, *other.reservations)
    return Product(last, (one.scan, other.scan, *mask), profiled_as=node, reservations=reservations)


def _run_step(node: Contraction, terms: list[_Term]) -> list[_Term]:
    """Run the cheapest step of a chain; return the other terms and its result."""
    semiring, last = node.semiring, node.output_indices
    step = optimal_path([term.known for term in terms], last, semiring)[0]
    one, other = (terms[k] for k in step)
    rest = [term for k, term in enumerate(terms) if k not in step]
    out = surviving_indices(one.indices, other.indices, [term.indices for term in rest], last, semiring)
    node = make_contraction((one.scan, other.scan), (one.indices, other.indices), out, semiring)
    products, expected = one.known.times(other.known, out)
    relation: Any = lower_matmul(node, one.scan, other.scan)
    found, reservations = None, (*one.reservations, *other.reservations)
    if expected.nnz * node.schema.element_bytes() <= memory.share(tuning().chain_step_share):
        what = f"a step of einsum, of shape {node.schema.shape}"
        room = memory.reserve(0, what, "take a part of its operands")
        events.emit("product.chain_step", reservation=room)
        try:
            block = scan_reader.read_block(Scan(relation, View.identity(node.schema.shape), node.schema), room)
        except TooLargeError:
            room.release()  # larger than expected: computed when it is read, by partition
        else:
            for each in reservations:
                each.release()
            found, reservations = block.count, (room,)
            relation = MemoryRelation(node.schema, block)
    scan = Scan(relation, View.identity(node.schema.shape), node.schema)
    _record_step(node, products, expected, found)
    known = expected if found is None else estimate_operand(out, scan)
    result = _Term(out, scan, known, reservations)
    return [*rest[: step[0]], result, *rest[step[0] :]]  # where its first operand was


def _record_step(node: Contraction, products: float, expected: Estimate, found: int | None) -> None:
    """Append a step to the list of steps, if there is one."""
    steps = chain_steps.get()
    if steps is not None:
        steps.append(ChainStep(node, products, expected.nnz, found))


def _count_operand(indices: tuple[int, ...], scan: Scan) -> Estimate:
    """Estimate an operand by counting elements along its axes; may read columns."""
    for axis in range(scan.schema.ndim) if is_countable(scan) else ():
        if count_degrees(scan, axis) is None:
            count_degrees(scan, axis, _read_column(scan, axis))
    return estimate_operand(indices, scan)


def _read_column(scan: Scan, axis: int) -> Iterator[NDArray[Any]]:
    """Yield the coordinates along an axis, of all elements in any order."""
    for block in scan_reader.iter_blocks(scan, axes=(axis,)):
        yield block.coords[axis]
