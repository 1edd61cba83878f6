"""Products of a sum with broadcast terms, term by term.

``H - H.mean(axis="obs")`` stores nearly every element, but it is a sparse matrix plus one of rank one, and so is every
product with it: ``(S + 1 m^T) @ X = S @ X + 1 (m^T @ X)``. Sums, differences and scalings by broadcast tensors are
split into a core, which has all axes, and terms that are constant along some. The result equals that of the sum up to
rounding: where the terms nearly cancel, as in counts far from 0 that hardly vary, it has fewer correct digits.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import NewAxis, RangeAxis, View
from sparrow.plan.contraction import make_contraction
from sparrow.plan.elementwise import make_map
from sparrow.plan.functions import Cast, GroupQuotient
from sparrow.plan.nodes import Contraction, Dense, Map, Node, Scan
from sparrow.plan.reductions import make_reduce
from sparrow.plan.shapes import make_with_fill
from sparrow.plan.tuning import tuning

__all__ = ["BroadcastSum", "Term", "distribute", "distribute_contraction", "multiply_arrays", "split_sum"]

Factors: TypeAlias = Sequence[tuple[Any, tuple[int, ...]]]
"""Operands of a contraction, and the index of each axis of each."""


@dataclass(frozen=True, slots=True)
class Term:
    """Summand that is constant along the axes that it lacks."""

    scan: Scan
    """Values over the axes that it has."""
    axes: tuple[int, ...]
    """These axes of the sum, ascending."""


@dataclass(frozen=True, slots=True)
class BroadcastSum:
    """Scan as the sum of one of fill 0 and broadcast terms."""

    core: Scan
    terms: tuple[Term, ...]


def split_sum(scan: Scan) -> BroadcastSum | None:
    """Return a scan as a sum with broadcast terms; None if it is none.

    None for sums too small to be worth it, too, and for integers, which might wrap around. Does no I/O.
    """
    size, ndim = scan.schema.size, scan.schema.ndim
    if size < tuning().distributed_elements or not isinstance(scan.source, Map):
        return None
    summands = _summands(scan)
    whole = [each.scan for each in summands if len(each.axes) == ndim]
    terms = tuple(each for each in summands if len(each.axes) < ndim)
    if not whole or not terms or not all(each.schema.has_zero_fill for each in whole):
        return None
    if sum(term.scan.schema.size for term in terms) * tuning().distributed_ratio > size:
        return None
    return BroadcastSum(functools.reduce(lambda one, other: _map(np.add, one, other), whole), terms)


def _summands(scan: Scan) -> list[Term]:
    """Return the summands of a scan; the scan itself if it is no sum."""
    kept = _kept_axes(scan)
    if len(kept) < scan.schema.ndim:
        return [Term(_without_repeats(scan), kept)]
    whole = [Term(scan, kept)]
    node = scan.source
    if not isinstance(node, Map) or node.schema.dtype.kind not in "fc" or node.schema.dtype == np.float16:
        return whole
    if any(isinstance(operand, Dense) for operand in node.operands):
        return whole
    operands = _view_operands(node.operands, scan.view)
    if operands is None:
        return whole
    function, first, *others = node.function, *operands
    quotient = function.function if isinstance(function, GroupQuotient) else function
    parts: list[Term] = []
    if function in (np.add, np.subtract) and isinstance(first, Scan) and isinstance(others[0], Scan):
        negated = [Term(_map(np.negative, each.scan), each.axes) for each in _summands(others[0])]
        parts = [*_summands(first), *(negated if function is np.subtract else _summands(others[0]))]
    elif isinstance(function, Cast) or function in (np.negative, np.positive):
        parts = [Term(_map(function, each.scan), each.axes) for each in _summands(first)]
    elif function is np.multiply:
        if _is_factor(first):
            first, others = others[0], [first]
        if isinstance(first, Scan) and all(map(_is_factor, others)):
            parts = [_scale(np.multiply, each, others) for each in _summands(first)]
    elif quotient is np.true_divide and isinstance(first, Scan) and all(map(_is_factor, others)):
        parts = [_scale(function, each, others) for each in _summands(first)]
    return parts if len(parts) > 1 else whole


def _kept_axes(scan: Scan) -> tuple[int, ...]:
    """Return the axes along which a scan is not repeated."""
    axes = enumerate(scan.view.axes)
    return tuple(k for k, axis in axes if not (isinstance(axis, NewAxis) and axis.length > 1))


def _without_repeats(scan: Scan) -> Scan:
    kept = _kept_axes(scan)
    return scan.then(scan.view.then(tuple(slice(None) if k in kept else 0 for k in range(scan.view.ndim))))


def _view_operands(operands: Sequence[Any], view: View) -> list[Any] | None:
    """Return the operands of a map through a view; None if it has lists."""
    if view.is_identity:
        return list(operands)
    if not all(isinstance(axis, RangeAxis) for axis in view.axes):
        return None
    key: list[Any] = [slice(None)] * len(view.base_shape)
    for dim, at in view.fixed:
        key[dim] = at
    for axis in view.axes:
        assert isinstance(axis, RangeAxis)
        stop = axis.start + axis.step * axis.length
        key[axis.dim] = slice(axis.start, None if stop < 0 else stop, axis.step)
    place = sorted(axis.dim for axis in view.axes if isinstance(axis, RangeAxis))
    order = [place.index(axis.dim) for axis in view.axes if isinstance(axis, RangeAxis)]
    return [
        each.then(each.view.then(tuple(key)).permute(order)) if isinstance(each, Scan) else each for each in operands
    ]


def _is_factor(operand: Any) -> bool:
    """Return whether an operand scales others along some axes: a scalar or repeated."""
    return not isinstance(operand, Scan) or operand.view.repeats > 1


def _scale(function: Callable[..., Any], term: Term, factors: Sequence[Any]) -> Term:
    """Return a function of a term and broadcast factors, over the axes of any."""
    kept = [_kept_axes(each) if isinstance(each, Scan) else () for each in factors]
    axes = tuple(sorted({*term.axes, *itertools.chain(*kept)}))
    operands = [_insert_axes(term.scan, term.axes, axes)]
    for each, own in zip(factors, kept, strict=True):
        operands.append(_insert_axes(_without_repeats(each), own, axes) if isinstance(each, Scan) else each)
    return Term(_map(function, *operands), axes)


def _insert_axes(scan: Scan, own: Sequence[int], axes: Sequence[int]) -> Scan:
    """Return a scan with axes of length 1 where it has none."""
    new = [k for k, axis in enumerate(axes) if axis not in own]
    return scan.then(scan.view.insert_axes(new)) if new else scan


def _map(function: Callable[..., Any], *operands: Any) -> Scan:
    return _scan_of(make_map(function, operands))


def _scan_of(node: Node) -> Scan:
    return Scan(node, View.identity(node.schema.shape), node.schema)


# -- contractions --------------------------------------------------------------------------------


def distribute(node: Contraction) -> list[Factors] | None:
    """Return the products whose sum a contraction is; None if it has no sum to split.

    Returns
    -------
    list
        The operands of each product. Those of the first are the cores; in the others at least one has fewer axes, so
        that axes of the result may be missing, and summed ones, which multiply the product by their size.
    """
    if not any(isinstance(each, Scan) and isinstance(each.source, Map) for each in node.operands):
        return None
    if not node.semiring.plain or node.keep_fill:
        return None
    if not (node.mask is None and node.topk is None and node.score is None):
        return None
    if node.schema.dtype.kind not in "fc" or not node.contracted_indices:
        return None
    choices: list[list[tuple[Any, tuple[int, ...]]]] = []
    for operand, own in zip(node.operands, node.indices, strict=True):
        found = split_sum(operand) if isinstance(operand, Scan) and len(set(own)) == len(own) else None
        if found is None:
            choices.append([(operand, own)])
            continue
        terms = [(term.scan, tuple(own[k] for k in term.axes)) for term in found.terms]
        choices.append([(found.core, own), *terms])
    if not 1 < math.prod(map(len, choices)) <= tuning().max_products:
        return None
    products: list[Factors] = [list(each) for each in itertools.product(*choices)]
    dtypes = [each.schema.dtype for each, _ in products[0]]
    if np.result_type(*dtypes) != node.schema.dtype or len(dtypes) > 2:  # counts less a mean, times integers
        products = [[(_cast(each, node.schema.dtype), own) for each, own in factors] for factors in products]
    return products


def _cast(operand: Any, dtype: np.dtype[Any]) -> Any:
    if operand.schema.dtype == dtype:
        return operand
    return _map(Cast(dtype), operand) if isinstance(operand, Scan) else Dense(operand.array.astype(dtype))


def distribute_contraction(node: Contraction) -> Map | None:
    """Return a contraction of tensors as a sum of contractions, else None."""
    if node.schema.is_array or len(node.tensors) < len(node.operands):
        return None
    products = distribute(node)
    if products is None:
        return None
    sizes = _sizes(zip((each.schema.shape for each in node.operands), node.indices, strict=True))
    first, *others = products
    whole = make_contraction([each for each, _ in first], [own for _, own in first], node.output_indices)
    total = _scan_of(whole)
    for factors in others:
        term = _contract_factors(factors, node.output_indices, sizes, node.schema.dtype)
        schema = replace(node.schema, dims=())
        total = _scan_of(Map(np.add, (total, term), (False, False), schema))
    assert isinstance(total.source, Map)
    return replace(total.source, schema=node.schema).with_labels(node.labels)


def _contract_factors(factors: Factors, output: Sequence[int], sizes: dict[int, int], dtype: np.dtype[Any]) -> Scan:
    """Return a product, repeated along axes of the result that it lacks."""
    shape = tuple(sizes[index] for index in output)
    scale, summed = _summed_first(factors, output, sizes)
    scalars: list[Any] = [] if scale == 1 else [dtype.type(scale)]
    scans: list[Scan] = []
    indices: list[tuple[int, ...]] = []
    for (scan, own), drop in zip(factors, summed, strict=True):
        if not scan.schema.has_zero_fill:
            scan = _scan_of(make_with_fill(scan, 0, "coo"))
        if drop:
            axes = tuple(own.index(index) for index in drop)
            scan = _scan_of(make_reduce(scan, "sum", axes, dtype=dtype))
        if scan.schema.ndim:
            scans.append(scan)
            indices.append(tuple(index for index in own if index not in drop))
        else:
            scalars.insert(0, scan)
    present = [index for index in output if any(index in own for own in indices)]
    if len(scans) > 1:
        found = _scan_of(make_contraction(scans, indices, present))
    elif not scans:
        found = scalars.pop(0)
    else:
        found = scans[0].then(scans[0].view.permute([indices[0].index(index) for index in present]))
    for each in scalars:
        found = _map(np.multiply, found, each)
    found = _insert_axes(found, present, output)
    return found.then(found.view.broadcast_to(shape))


def multiply_arrays(
    arrays: Sequence[NDArray[Any]],
    indices: Sequence[tuple[int, ...]],
    output: Sequence[int],
    sizes: dict[int, int],
) -> NDArray[Any]:
    """Return a product of arrays that broadcasts to the result of a contraction.

    Parameters
    ----------
    arrays
        Factors, of which each is summed over what it alone has.
    indices, output
        The index of each axis of each, and of the result.
    sizes
        Size by index. Those of neither a factor nor the result multiply the product.
    """
    factors = list(zip(arrays, indices, strict=True))
    scale, summed = _summed_first(factors, output, sizes)
    operands: list[Any] = []
    number = {index: k for k, index in enumerate(sizes)}
    for (array, own), drop in zip(factors, summed, strict=True):
        reduced = array.sum(axis=tuple(own.index(index) for index in drop)) if drop else array
        operands += [reduced, [number[index] for index in own if index not in drop]]
    present = [index for index in output if any(index in own for own in indices)]
    with np.errstate(all="ignore"):
        found = np.einsum(*operands, [number[index] for index in present])
        found = found * found.dtype.type(scale)
    return np.reshape(found, [sizes[index] if index in present else 1 for index in output])


def _summed_first(factors: Factors, output: Sequence[int], sizes: dict[int, int]) -> tuple[int, list[tuple[int, ...]]]:
    """Return the size of the indices that no factor has, and those summed per factor."""
    everything = [index for _, own in factors for index in own]
    scale = math.prod(size for index, size in sizes.items() if index not in everything and index not in output)
    alone = [tuple(x for x in own if x not in output and everything.count(x) == 1) for _, own in factors]
    return scale, alone


def _sizes(operands: Iterable[tuple[Sequence[int], Sequence[int]]]) -> dict[int, int]:
    return {index: size for shape, own in operands for index, size in zip(own, shape, strict=True)}
