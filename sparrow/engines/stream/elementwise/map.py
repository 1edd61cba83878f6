"""Functions of cells, piece by piece: the entries of their scans, aligned and given to the program of calls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.engines.sort_orders import count_rows_to_read
from sparrow.engines.stream import scan_reader
from sparrow.engines.stream.elementwise.fusion import FusedKernel
from sparrow.engines.stream.elementwise.lookup import Lookup
from sparrow.engines.stream.elementwise.outer import outer
from sparrow.engines.stream.operator import PhysicalOperator, ReadRange, open_cursors, partition_bounds
from sparrow.engines.stream.product.matmul import MaskedMatMulOp
from sparrow.kernels.coo import Block, filter_block, write_dense
from sparrow.kernels.elementwise import apply, combine
from sparrow.plan import Dense, Map, Scan, apply_function, function_name
from sparrow.runtime import memory
from sparrow.runtime.progress import format_quantity

__all__ = ["build_map", "check_repeats", "evaluate_dense"]

_MOST_REPEATED = 1 << 31
"""Cells that repeated entries may fill, whatever the memory limit."""
_QUOTIENTS = (np.true_divide, np.floor_divide, np.remainder, np.fmod)
"""Of two absent cells no number comes, and so an entry."""


def build_map(program: FusedKernel, scans: list[Scan]) -> PhysicalOperator:
    """Return the entries that a program yields; ``scans`` are its own, of relations."""
    masked = _under_mask(scans, program.required)
    if masked is not None:
        return _at_mask(program, scans, masked)
    schema, required = program.node.schema, program.required
    shape, fills = schema.shape, [scan.schema.fill_value for scan in scans]
    crossed = outer(scans, required)
    walked = [k for k, scan in enumerate(scans) if required[k] and scan.view.repeats <= 1]

    def looked_up() -> Scan | None:
        """Return the operand of a product that broadcasting repeats, if the entries of the other are all it takes."""
        other = scans[1 - walked[0]] if len(scans) == 2 and len(walked) == 1 else None
        return other if other is not None and Lookup.fits(other) else None

    def begin(first: int, last: int) -> ReadRange:
        if crossed is not None and crossed.fits:
            return crossed.begin(program, first, last)
        repeated = looked_up()
        if repeated is not None:
            return along(walked[0], Lookup(repeated, first, last), first, last)
        parts = open_cursors(scans, first, last)
        return lambda start, stop: combine(
            program, [piece(start, stop) for piece in parts], fills, shape, required, schema.fill_value
        )

    def along(number: int, lookup: Lookup, first: int, last: int) -> ReadRange:
        (piece,) = open_cursors([scans[number]], first, last)

        def evaluate(start: int, stop: int) -> Block:
            block = piece(start, stop)
            values, present = lookup.at(block)
            if required[1 - number] and not present.all():
                block, values = filter_block(block, present), values[present]
            columns = [block.values, values] if number == 0 else [values, block.values]
            return apply(program, block.coords, columns, schema.fill_value)

        return evaluate

    def cuts() -> list[int]:
        read = scans if looked_up() is None else [scans[walked[0]]]
        check_repeats(program.node, scans, required)
        if crossed is not None and crossed.fits:
            return crossed.cuts()
        return partition_bounds(read, shape[0] if shape else 1)

    def each(block: Block) -> Block:
        return apply(program, block.coords, [block.values], schema.fill_value)

    return PhysicalOperator(
        program.node,
        scans,
        cuts,
        lambda start, stop: begin(start, stop)(start, stop),
        each=each if len(scans) == 1 else None,
        axes=None if program.is_dense else (),
        begin=begin,
    )


def _under_mask(scans: Sequence[Scan], required: Sequence[bool]) -> int | None:
    """Return which of two scans is a product under the mask of the other one, whose entries need no aligning then."""
    if len(scans) != 2 or not all(required):
        return None
    for number, (scan, other) in enumerate([(scans[0], scans[1]), (scans[1], scans[0])]):
        if isinstance(scan.relation, MaskedMatMulOp) and scan.view.is_identity and scan.relation.is_masked_by(other):
            return number
    return None


def _at_mask(program: FusedKernel, scans: list[Scan], number: int) -> PhysicalOperator:
    """Return the entries that a program yields of a product and its mask."""
    product = scans[number].relation
    assert isinstance(product, MaskedMatMulOp)

    def begin(first: int, last: int) -> ReadRange:
        read = product.open_with_mask_values(first, last)

        def evaluate(start: int, stop: int) -> Block:
            block, weights = read(start, stop)
            columns = [block.values, weights] if number == 0 else [weights, block.values]
            return apply(program, block.coords, columns, program.node.schema.fill_value)

        return evaluate

    times = program.is_one("multiply") and all(
        np.can_cast(scan.schema.dtype, program.node.schema.dtype) for scan in scans
    )
    alike = times and program.node.schema.dtype == product.schema.dtype
    total = product.sum_weighted if alike else None
    return PhysicalOperator(program.node, scans, product.cuts, lambda a, b: begin(a, b)(a, b), begin=begin, total=total)


def check_repeats(node: Map, scans: Sequence[Scan], required: Sequence[bool]) -> None:
    """Refuse at once what would go on for hours: broadcasting that makes billions of entries, beyond the limit.

    Of products those whose operands share no axis are known to; absent cells leave of others nobody knows how many.

    Raises
    ------
    TooLargeError
        If it does; ``scans`` are what a function of cells, at the end of others, reads of relations.
    """
    size = node.schema.size
    crossed = outer(scans, required)
    if crossed is not None:
        _check_cells(node, min(crossed.cells, size), "has each entry of one operand meet each of the other")
    elif not any(required):
        for scan in scans:
            if scan.view.repeats > 1:
                rows = count_rows_to_read(scan)
                _check_cells(node, min(rows * scan.view.repeats, size), f"repeats {rows} entries")


def _check_cells(node: Map, cells: int, what: str) -> None:
    nbytes = cells * node.schema.element_bytes()
    if cells > _MOST_REPEATED and nbytes > memory.limit():
        of = f"{function_name(node.function)} of shape {node.schema.shape}"
        told = f"{of}, which {what} in up to {format_quantity(cells, 'cells')},"
        ones = ", give a divisor 1 instead of 0 (np.where(d == 0, 1, d))" if node.function in _QUOTIENTS else ""
        raise memory.too_large(told, nbytes, f"take a part of it{ones}")


def evaluate_dense(node: Map) -> NDArray[Any]:
    """Return a function of cells that a dense operand leaves no fill, its scans, of relations, made dense."""
    shape = node.schema.shape
    what = f"the dense result of shape {shape} and type {node.schema.dtype}"
    memory.check(math.prod(shape) * node.schema.dtype.itemsize, what, "take a part of the tensor")
    arguments = [
        _dense(operand) if isinstance(operand, Scan)
        else np.broadcast_to(operand.array, shape) if isinstance(operand, Dense) else operand
        for operand in node.operands
    ]  # fmt: skip
    with np.errstate(all="ignore"):
        return np.asarray(apply_function(node.function, *arguments))


def _dense(scan: Scan) -> NDArray[Any]:
    array = np.full(scan.schema.shape, scan.schema.fill_value, dtype=scan.schema.dtype)
    for block in scan_reader.iter_blocks(scan):
        write_dense(array, block)
    return array
