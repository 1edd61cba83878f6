"""Functions of cells, lazily: operands are scanned piece by piece, aligned, and given to the function.

The fill of the result is the function of the fills, so ``exp(A)`` has fill 1 and ``A / A`` fill NaN and both stay
sparse. Only in a product of arrays does an absent cell annihilate: where an operand of fill 0 has no entry the
product is 0, against NaN and infinity too, and the cells of the result are an intersection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.engines import stream
from sparrow.engines.derived import Derived, Evaluate, pieces, pieces_of
from sparrow.engines.lookup import Lookup
from sparrow.errors import InvalidValueError, NumberRangeError, UnsupportedError
from sparrow.index import View, broadcast_shapes
from sparrow.kernels.elementwise import apply, combine
from sparrow.kernels.entries import Block, pick
from sparrow.plan import Dense, Map, Scan
from sparrow.relation import MemoryRelation
from sparrow.schema import Schema, check_dtype

__all__ = ["elementwise", "result_dtype"]


def result_dtype(function: Callable[..., Any], operands: Sequence[Any]) -> np.dtype[Any]:
    """Return the dtype NumPy gives ``function`` of operands: scans and arrays by their dtype, scalars as they are.

    Raises
    ------
    UnsupportedError
        If NumPy has no such function of these types.
    """
    empty = [
        np.empty(0, operand.schema.dtype) if isinstance(operand, Scan)
        else np.empty(0, operand.dtype) if isinstance(operand, np.ndarray) else operand
        for operand in operands
    ]  # fmt: skip
    try:
        with np.errstate(all="ignore"):
            return check_dtype(np.asarray(function(*empty)).dtype)
    except TypeError as error:
        raise UnsupportedError(str(error)) from None
    except OverflowError as error:
        raise NumberRangeError(f"{error}: cast the tensor with astype() first") from None


def elementwise(function: Callable[..., Any], operands: Sequence[Any]) -> Derived | NDArray[Any]:
    """Return a function of cells: a lazy relation, or an array at once where a dense operand leaves no fill.

    Parameters
    ----------
    function
        Takes one array or scalar for each operand, all of one shape, and returns one such array.
    operands
        Scans, NumPy arrays and scalars, at least one of them a scan. Shapes broadcast.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    UnsupportedError
        If NumPy has no such function of these types.
    """
    shape = broadcast_shapes([o.schema.shape if isinstance(o, Scan) else np.shape(o) for o in operands])
    dtype = result_dtype(function, operands)
    if function is np.true_divide and isinstance(operands[1], np.ndarray) and operands[0].schema.zero_fill:
        operands = [operands[0], _as_scan(operands[1])]
    arguments = [_stretched(operand, shape) for operand in operands]
    scans = [argument for argument in arguments if isinstance(argument, Scan)]
    fills = [scan.schema.fill_value for scan in scans]
    product = function is np.multiply and all(isinstance(a, Scan | np.ndarray) for a in arguments)
    annihilates = [product and scan.schema.zero_fill for scan in scans]
    if len(scans) < sum(isinstance(a, Scan | np.ndarray) for a in arguments) and not any(annihilates):
        return _at_once(function, arguments, shape, dtype)
    if any(annihilates):
        fill = dtype.type(0)
    else:
        with np.errstate(all="ignore"):
            fill = np.asarray(
                _called(function, *(a.schema.fill_value if isinstance(a, Scan) else a for a in arguments))
            )[()]
    schema = Schema(shape, _names(operands, shape), dtype, fill)

    def cells(coords: tuple[NDArray[Any], ...], columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
        stored = iter(columns)
        values = np.asarray(
            _called(
                function,
                *(
                    next(stored) if isinstance(a, Scan) else _at(a, coords) if isinstance(a, np.ndarray) else a
                    for a in arguments
                ),
            )
        )
        return values.astype(dtype, copy=False) if values.ndim else np.full(len(columns[0]), values, dtype)

    walked = [k for k, scan in enumerate(scans) if annihilates[k] and scan.view.repeats <= 1]

    def looked_up() -> Scan | None:
        """Return the operand of a product that broadcasting repeats, if the entries of the other are all it takes."""
        other = scans[1 - walked[0]] if len(scans) == 2 and len(walked) == 1 else None
        return other if other is not None and Lookup.fits(other) else None

    def begin(first: int, last: int) -> Evaluate:
        repeated = looked_up()
        if repeated is not None:
            return along(walked[0], Lookup(repeated, first, last), first, last)
        parts = pieces_of(scans, first, last)
        return lambda start, stop: combine(
            cells, [piece(start, stop) for piece in parts], fills, shape, annihilates, schema.fill_value
        )

    def along(number: int, lookup: Lookup, first: int, last: int) -> Evaluate:
        (piece,) = pieces_of([scans[number]], first, last)

        def evaluate(start: int, stop: int) -> Block:
            block = piece(start, stop)
            values, present = lookup.at(block)
            if annihilates[1 - number] and not present.all():
                block, values = pick(block, present), values[present]
            columns = [block.values, values] if number == 0 else [values, block.values]
            return apply(cells, block.coords, columns, schema.fill_value)

        return evaluate

    def cuts() -> list[int]:
        read = scans if looked_up() is None else [scans[walked[0]]]
        return pieces(read, shape[0] if shape else 1)

    def each(block: Block) -> Block:
        return apply(cells, block.coords, [block.values], schema.fill_value)

    parts = [Dense(o) if isinstance(a, np.ndarray) else a for o, a in zip(operands, arguments, strict=True)]
    node = Map(function, tuple(parts), tuple(annihilates), schema)
    dense = any(isinstance(a, np.ndarray) for a in arguments)
    return Derived(
        schema,
        scans,
        cuts,
        lambda start, stop: begin(start, stop)(start, stop),
        node=node,
        each=each if len(scans) == 1 else None,
        axes=None if dense else (),
        begin=begin,
    )


def _called(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return a function of cells; of values that NumPy refuses, such as negative powers of integers, an own error."""
    try:
        return function(*arguments)
    except ValueError as error:
        raise InvalidValueError(str(error)) from None


def _stretched(operand: Any, shape: tuple[int, ...]) -> Any:
    """Return an operand broadcast to a shape; arrays without dimensions count as scalars."""
    if isinstance(operand, Scan):
        if operand.schema.shape == shape:
            return operand
        view = operand.view.broadcast_to(shape)
        return Scan(operand.relation, view, operand.relation.schema.through(view))
    if isinstance(operand, np.ndarray):
        return np.broadcast_to(operand, shape) if operand.ndim else operand[()]
    return operand


def _at(array: NDArray[Any], coords: tuple[NDArray[Any], ...]) -> NDArray[Any]:
    """Return the cells of a broadcast array at coordinates, looking only along the axes on which it changes."""
    changing = [k for k, step in enumerate(array.strides) if step]
    core = array[tuple(slice(None) if step else 0 for step in array.strides)]
    if len(changing) == 1:
        return core.take(coords[changing[0]])
    return np.asarray(core[tuple(coords[k] for k in changing)])


def _as_scan(array: NDArray[Any]) -> Scan:
    """Return a divisor as a scan that says 1 where it is not looked at, so that 0 / 0 and 0 / NaN are found."""
    one = array.dtype.type(1)
    stored = array != one
    block = Block(stored.nonzero(), array[stored]) if array.ndim else Block((), array[stored].reshape(-1))
    schema = Schema(array.shape, (), check_dtype(array.dtype), one)
    return Scan(MemoryRelation(schema, block), View.identity(array.shape), schema)


def _at_once(
    function: Callable[..., Any], arguments: Sequence[Any], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> NDArray[Any]:
    """Return the dense result of dense operands and scans, these made dense."""
    stream.check_output(shape, dtype)
    with np.errstate(all="ignore"):
        return np.asarray(_called(function, *(_dense(a) if isinstance(a, Scan) else a for a in arguments)))


def _dense(scan: Scan) -> NDArray[Any]:
    array = np.full(scan.schema.shape, scan.schema.fill_value, dtype=scan.schema.dtype)
    for block in stream.blocks(scan):
        array[block.coords] = block.values
    return array


def _names(operands: Sequence[Any], shape: tuple[int, ...]) -> tuple[str, ...]:
    """Return the dimension names of the first tensor of the shape of the result."""
    for operand in operands:
        if isinstance(operand, Scan) and operand.schema.shape == shape:
            return operand.schema.dims
    return ()
