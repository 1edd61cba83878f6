"""Element-wise nodes: broadcasting, dtype, fill value, annihilation.

The fill of the result is the function of the fills, so ``exp(A)`` has fill 1 and ``A / A`` fill NaN, and both stay
sparse. Only in a product of arrays does an absent element annihilate: where an operand of fill 0 has no stored element
the product is 0, also against NaN and infinity, and the stored elements of the result are an intersection.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from mmap import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import View, broadcast_shapes
from sparrow.core.schema import Schema, check_array_ndim, check_dtype, default_dims, is_custom_name, is_given_name
from sparrow.core.storage_types import COMPRESSED, infer_function, resolve_stype
from sparrow.errors import InvalidValueError, NumberRangeError, ShapeError, UnsupportedError
from sparrow.kernels.coo import Block
from sparrow.plan.alignment import align_operands
from sparrow.plan.functions import Cast, GroupQuotient
from sparrow.plan.nodes import Dense, Map, Node, Reduce, Scan
from sparrow.plan.reductions import make_reduce
from sparrow.plan.tuning import tuning
from sparrow.relations.memory import MemoryRelation
from sparrow.relations.protocol import Relation
from sparrow.runtime import memory
from sparrow.runtime.validation import check_unmasked

__all__ = ["apply_function", "freeze_array", "make_map"]

_NAN_AT_FILL = (np.true_divide, np.floor_divide, np.remainder, np.fmod)
"""Functions that make NaN of two zeros, so that absent elements would become stored ones."""

_INNER_JOINED = (np.multiply, np.divide, np.floor_divide, np.remainder, np.fmod)
"""Products and quotients: labels that one operand lacks are dropped."""


def make_map(function: Callable[..., Any], operands: Sequence[Any]) -> Map:
    """Return the node of an element-wise function.

    Parameters
    ----------
    function
        Takes one array or scalar per operand, all of one shape, and returns an array of that shape.
    operands
        Scans, NumPy arrays and scalars, at least one of them a scan. Shapes broadcast; names and labels are aligned
        (:mod:`sparrow.plan.alignment`).

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    UnsupportedError
        If NumPy does not define the function for these types.
    """
    operands, names = align_operands(operands, "inner" if function in _INNER_JOINED else "outer")
    shapes = [o.schema.shape if isinstance(o, Scan) else np.shape(o) for o in operands]
    shape = shapes[0] if shapes.count(shapes[0]) == len(shapes) else _broadcast(operands, shapes)
    dtype = _dtype(function, operands)
    types = [o.schema.stype if isinstance(o, Scan) else "dense" if np.ndim(o) else None for o in operands]
    quotient = function is np.true_divide and isinstance(operands[1], np.ndarray) and operands[0].schema.has_zero_fill
    if quotient and (absent := _breaks_sparsity(operands[1])).any():
        operands = _split_division(operands[0], operands[1], absent)
        quotient = False
    arguments = [_argument(operand, shape) for operand in operands]
    if any(isinstance(argument, Dense) for argument in arguments):
        check_array_ndim(len(shape), "make a tensor of the array with sp.asarray")
    scans = [argument for argument in arguments if isinstance(argument, Scan)]
    product = (function is np.multiply or quotient) and all(isinstance(a, Scan | Dense) for a in arguments)
    required = tuple(product and scan.schema.has_zero_fill for scan in scans)
    dense = not any(required) and any(isinstance(argument, Dense) for argument in arguments)
    fill: Any = dtype.type(0)
    if not dense and not any(required):
        with np.errstate(all="ignore"):
            try:
                found = apply_function(
                    function, *(a.schema.fill_value if isinstance(a, Scan) else a for a in arguments)
                )
                fill = np.asarray(found)[()]
            except InvalidValueError:
                if 0 not in shape:  # no element has the fill
                    raise
    if function in _NAN_AT_FILL and fill != fill and len(scans) == 2 and scans[1].view.repeats > 1:
        found = _keep_quotient_sparse(function, *scans)
        if found is not None:
            return make_map(*found).with_labels(names)
    dims = _dims([operand.schema for operand in operands if isinstance(operand, Scan)], shape)
    stype = "dense" if dense else _stype(function, types, shapes, shape, bool(fill == 0))
    if any(required):
        if (done := _multiply_now(function, arguments, dtype)) is not None:
            function, arguments, required = Cast(dtype), [done], (False,)
        arguments = [Dense(freeze_array(a.array)) if isinstance(a, Dense) else a for a in arguments]
    schema = Schema(shape, dims, dtype, fill, stype, is_array=dense)
    return Map(function, tuple(arguments), required, schema).with_labels(names)


def _keep_quotient_sparse(
    function: Callable[..., Any], dividend: Scan, divisor: Scan
) -> tuple[Callable[..., Any], list[Scan]] | None:
    """Return a function of fill 0 and its operands for a broadcast quotient.

    A divisor that stores all its elements has any fill. One that reduces the dividend is 0 by which it divides only
    where there is nothing to divide: 0 / 0 is 0 there. None for any other divisor.
    """
    if not dividend.schema.has_zero_fill or not divisor.schema.has_zero_fill:
        return None
    relation = divisor.source
    if isinstance(relation, MemoryRelation) and relation.nnz == math.prod(relation.schema.shape):
        schema = replace(relation.schema, fill_value=relation.schema.dtype.type(1))
        full = Scan(MemoryRelation(schema, relation.block), divisor.view, schema.with_view(divisor.view))
        return function, [dividend, full]
    reduced = _find_reduction(divisor, _sources(dividend))
    if reduced is None:
        return None
    kept = [axis for axis in reduced.axes if axis is not None]
    axes = tuple(axis for axis in range(reduced.operand.schema.ndim) if axis not in kept)
    counts = make_reduce(reduced.operand, "count", axes, len(reduced.axes) > len(kept), "stored")
    return GroupQuotient(function), [
        dividend,
        divisor,
        Scan(counts, divisor.view, counts.schema.with_view(divisor.view)),
    ]


def _find_reduction(scan: Scan, sources: set[Hashable]) -> Reduce | None:
    """Return a reduction of some sources that a scan shows, or is a function of."""
    for node in _elementwise_below(scan):
        if isinstance(node, Reduce) and not sources.isdisjoint(_sources(node.operand)):
            return node
    return None


def _sources(scan: Scan) -> set[Hashable]:
    """Return the tokens of what a scan is an element-wise function of."""
    found: set[Hashable] = {scan.source.token}
    for node in _elementwise_below(scan):
        if isinstance(node, Map):
            found.update(below.source.token for below in node.scans)
    return found


def _elementwise_below(scan: Scan) -> Iterator[Relation | Node]:
    """Yield the source of a scan, and those of element-wise functions below."""
    waiting = [scan.source]
    for _ in range(_MAX_ELEMENTWISE_BELOW):
        if not waiting:
            return
        node = waiting.pop(0)
        yield node
        if isinstance(node, Map):
            waiting.extend(below.source for below in node.scans if below.view.is_identity)


_MAX_ELEMENTWISE_BELOW = 16


def _multiply_now(function: Callable[..., Any], arguments: Sequence[Any], dtype: np.dtype[Any]) -> Scan | None:
    """Return the product of a small tensor and a large writable array, or None.

    A lazy product would keep a copy of the array, which is larger than the result.
    """
    array = next((a.array for a in arguments if isinstance(a, Dense)), None)
    factor = next((a for a in arguments if isinstance(a, Scan) and isinstance(a.source, MemoryRelation)), None)
    if (
        array is None
        or factor is None
        or array.nbytes < tuning().eager_multiply_bytes
        or not factor.view.is_identity
        or _is_frozen(array)
    ):
        return None
    relation: Any = factor.source
    if array.size < tuning().eager_multiply_ratio * relation.nnz or factor.schema.ndim > 63:  # NumPy indexes with 63
        return None
    shape, block = relation.schema.shape, relation.block
    elements = np.broadcast_to(array, shape)[block.coords]
    with np.errstate(all="ignore"):
        values = apply_function(function, *(block.values if a is factor else elements for a in arguments))
    schema = Schema(shape, (), dtype)
    return Scan(MemoryRelation(schema, Block(block.coords, values).take(values != 0)), View.identity(shape), schema)


def freeze_array(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array that stays as it is until a node is computed.

    A memory-mapped array is returned as it is, since it may be larger than memory.

    Raises
    ------
    TooLargeError
        If there is no room for the copy.
    """
    if _is_frozen(array):
        return array
    core = array[tuple(slice(None if step else 1) for step in array.strides)]
    memory.check(core.nbytes, "a copy of the array", "make it read-only by flags.writeable = False")
    return np.broadcast_to(core.copy("K"), array.shape)


def _is_frozen(array: NDArray[Any]) -> bool:
    """Return whether an array is read-only or memory-mapped."""
    owner: Any = array
    writable = False
    while isinstance(owner, np.ndarray):
        writable = writable or owner.flags.writeable
        owner = owner.base
    return isinstance(owner, mmap) or (owner is None and not writable)


def apply_function(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call an element-wise function; translate NumPy's ``ValueError``."""
    try:
        return function(*arguments)
    except ValueError as error:
        raise InvalidValueError(str(error)) from None


def _broadcast(operands: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape of a result; an error says where only names would match."""
    try:
        return broadcast_shapes(shapes)
    except ShapeError as error:
        dims = sorted((operand.schema.dims for operand in operands if isinstance(operand, Scan)), key=len)
        if len(dims) < 2 or not 0 < len(dims[0]) < len(dims[-1]) or not set(dims[0]) <= set(dims[-1]):
            raise
        raise ShapeError(
            f"{error}: dimensions {dims[0]} and {dims[-1]} go by position, as a reader assigned their names. "
            "Reduce with keepdims=True, or give names with rename()"
        ) from None


def _dims(schemas: Sequence[Schema], shape: tuple[int, ...]) -> tuple[str, ...]:
    """Return the dimension names of a result: given before assigned and default ones."""
    whole = next((schema.dims for schema in schemas if schema.shape == shape), ())
    if whole and all(schema.dims is whole for schema in schemas):
        return whole
    names = list(whole or default_dims(len(shape)))
    best = [
        max([name, *(schema.dims[axis] for schema in schemas if schema.ndim >= -axis)], key=_name_rank)
        for axis, name in enumerate(names, -len(names))
    ]
    if len({name.casefold() for name in best}) == len(best):
        return tuple(best)
    for axis, name in enumerate(best):
        if name.casefold() not in map(str.casefold, names):
            names[axis] = name
    return tuple(names)


def _name_rank(name: str) -> int:
    return is_custom_name(name) + is_given_name(name)


def _dtype(function: Callable[..., Any], operands: Sequence[Any]) -> np.dtype[Any]:
    """Return the result dtype by NumPy 2's promotion."""
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


def _argument(operand: Any, shape: tuple[int, ...]) -> Any:
    """Return a scan broadcast to a shape, or an array as ``Dense``."""
    if isinstance(operand, Scan):
        return operand if operand.schema.shape == shape else operand.then(operand.view.broadcast_to(shape))
    if isinstance(operand, np.ndarray):
        check_unmasked(operand)
        return Dense(operand) if operand.ndim else operand[()]
    return operand


def _breaks_sparsity(array: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a mask of divisors by which 0 is not 0; all of a 0-d array."""
    return np.asarray((array == 0) | np.isnan(array)) if array.ndim else np.ones((), bool)


def _split_division(dividend: Scan, array: NDArray[Any], absent: NDArray[np.bool_]) -> list[Scan]:
    """Split a division into one that keeps sparsity and one by the rest."""
    one = array.dtype.type(1)
    schema = Schema(array.shape, (), check_dtype(array.dtype), one)
    rest = Block(absent.nonzero() if array.ndim else (), array[absent])
    divisor = Scan(MemoryRelation(schema, rest), View.identity(array.shape), schema)
    if absent.all():
        return [dividend, divisor]
    others = np.where(absent, one, array)
    others.flags.writeable = False  # no other reference exists
    quotient = make_map(np.true_divide, [dividend, others])
    return [Scan(quotient, View.identity(quotient.schema.shape), quotient.schema), divisor]


def _stype(
    function: Callable[..., Any],
    types: Sequence[str | None],
    shapes: Sequence[tuple[int, ...]],
    shape: tuple[int, ...],
    keeps_zero: bool,
) -> str:
    """Return the storage type of an element-wise result."""
    name = getattr(function, "__name__", type(function).__name__.lower())
    misfits = set()
    if not set(types).isdisjoint(COMPRESSED):
        misfits = {t for t, own in zip(types, shapes, strict=True) if t is not None and own != shape}
    stretched = not misfits.isdisjoint(COMPRESSED)
    return resolve_stype(name, types, infer_function(name, types, keeps_zero, bool(misfits), stretched))
