"""Contraction nodes: dtype, fill value, names and labels of products.

Under plus and times absent elements are 0 and annihilate, also against NaN and infinity; another semiring ignores them,
whatever the fill. Either way only stored elements are multiplied, and the fill is the additive identity.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import View
from sparrow.core.schema import Schema
from sparrow.core.storage_types import COMPRESSED, check_stype, infer_dot, infer_function, infer_other, resolve_stype
from sparrow.errors import ShapeError, UnsupportedError
from sparrow.plan.alignment import align_mask
from sparrow.plan.labels import AxisLabels
from sparrow.plan.nodes import Dense, DenseContraction, Map, Product, Reduce, Scan, axis_labels
from sparrow.plan.reductions import make_reduce
from sparrow.plan.semirings import PLUS_TIMES, Semiring, or_as_max, product_dtype, result_fill
from sparrow.plan.shapes import make_with_fill
from sparrow.plan.tuning import tuning

__all__ = ["as_elementwise", "make_dense_contraction", "make_product"]

_MATMUL = ((0, 1), (1, 2), (0, 2))


def make_product(
    left: Scan,
    right: Scan,
    indices: tuple[Sequence[int], Sequence[int]],
    output_indices: Sequence[int],
    semiring: Semiring = PLUS_TIMES,
    mask: Scan | None = None,
    complement: bool = False,
    stype: str | None = None,
    reorderable: bool = False,
    keep_fill: bool = False,
) -> Product:
    """Return the product of two scans.

    Parameters
    ----------
    left, right
        Operands; of fill 0 under plus and times.
    indices
        The index of each axis of both.
    output_indices
        The indices of the result, each once and of one of the operands; others are summed.
    semiring
        Addition and multiplication.
    mask, complement
        A scan of the shape of the result: only positions at which it has a stored element, or with ``complement``
        none, are computed. Its dimensions and labels are aligned with those of the result.
    stype
        Storage type of the result, inferred by default.
    reorderable
        Whether it is one of several products that may be reordered.
    keep_fill
        Whether results that equal the fill are stored, for the product that takes them.

    Raises
    ------
    ShapeError
        If sizes along an index differ, or the mask has another shape.
    UnsupportedError
        If the fill of an operand is not 0 under plus and times, or the semiring does not support the dtypes.
    InvalidValueError
        If the semiring has no identity.
    """
    semiring = or_as_max(semiring)
    own, other = map(tuple, indices)
    sizes: dict[int, int] = {}
    first: dict[int, str] = {}
    for name, scan, along in (("left", left, own), ("right", right, other)):
        for axis, index in enumerate(along):
            size = scan.schema.shape[axis]
            side = f"dimension {axis} ({scan.schema.dims[axis]!r}, size {size}) of the {name} operand"
            if sizes.setdefault(index, size) != size:
                raise ShapeError(
                    f"product: shapes {left.schema.shape} and {right.schema.shape} do not fit: {first[index]} is not "
                    f"{side}"
                )
            first.setdefault(index, side)
    shape = tuple(sizes[index] for index in output_indices)
    if semiring.plain:
        left, right = _store_single_element(left), _store_single_element(right)
        _check_fills(left, right, shape)
    dtype = product_dtype(semiring, left.schema.dtype, right.schema.dtype)
    fill = result_fill(semiring, dtype)
    types = [left.schema.stype, right.schema.stype]
    step = "dot"
    if fill == 0 and _renumber(own, other, output_indices) == _MATMUL:
        found = infer_dot(types[0], types[1], requested=stype)
    elif (
        fill == 0 and tuple(output_indices) in (own, other) and set(own) | set(other) == set(output_indices)
    ):  # element-wise
        step, whole = "multiply", [along == tuple(output_indices) for along in (own, other)]
        stretched = any(kind in COMPRESSED and not is_whole for kind, is_whole in zip(types, whole, strict=True))
        found = infer_function(step, types, True, not all(whole), stretched)
    else:
        found = infer_other(next((kind for kind in ("coo", *COMPRESSED) if kind in types), "dense"))
    kind = resolve_stype(step, types, found) if stype is None else check_stype(stype, len(shape))
    names: dict[int, str] = {}
    for scan, along in ((right, other), (left, own)):
        names |= dict(zip(along, scan.schema.dims, strict=True))
    dims = tuple(names[index] for index in output_indices)
    unique = len({name.casefold() for name in dims}) == len(dims)
    schema = Schema(shape, dims if unique else (), dtype, fill, kind)
    labels: dict[int, AxisLabels] = {}
    for scan, along in ((right, other), (left, own)):
        labels |= {along[axis]: found for axis, found in axis_labels(scan).items()}
    along_out = {k: labels[index] for k, index in enumerate(output_indices) if index in labels}
    node = Product(
        left, right, (own, other), tuple(output_indices), semiring, None, False, schema, reorderable, keep_fill
    ).with_labels(along_out)
    if mask is None:
        return node
    mask = align_mask(mask, Scan(node, View.identity(shape), schema), (left, right))
    if mask.schema.shape != shape:
        raise ShapeError(f"product: mask has shape {mask.schema.shape}, expected {shape}")
    return replace(node, mask=mask, complement=complement).with_labels(along_out)


def as_elementwise(node: Product) -> Map | Reduce | None:
    """Return a product of equal indices as a reduced element-wise one, or None."""
    (own, other), dtype = node.indices, node.schema.dtype
    if set(own) != set(other) or not len(set(own)) == len(own) == len(other):
        return None
    if not node.semiring.plain or node.mask is not None or dtype.kind == "b" or dtype == np.float16:
        return None
    reduced = [index for index in own if index not in node.output_indices]
    order = (
        own
        if [index for index in own if index in node.output_indices] == [*node.output_indices]
        else (*node.output_indices, *reduced)
    )
    left, right = (
        scan.then(scan.view.permute([along.index(index) for index in order]))
        for scan, along in ((node.left, own), (node.right, other))
    )
    names = axis_labels(Scan(node, View.identity(node.schema.shape), node.schema))
    schema = replace(left.schema, dtype=dtype, fill_value=0) if reduced else node.schema
    elementwise = Map(np.multiply, (left, right), (True, True), schema)
    if not reduced:
        return elementwise.with_labels(names)
    scan = Scan(elementwise, View.identity(schema.shape), schema)
    sums = make_reduce(scan, "sum", tuple(order.index(index) for index in reduced), dtype=dtype)
    return replace(sums, schema=node.schema).with_labels(names)


def make_dense_contraction(
    scan: Scan,
    indices: Sequence[int],
    arrays: Sequence[NDArray[Any]],
    array_indices: Sequence[Sequence[int]],
    output_indices: Sequence[int],
) -> DenseContraction | None:
    """Return the one-pass contraction of a scan with arrays, None if impossible.

    That is so if an index repeats in an operand, an array shares no index with the scan, no array has all indices that
    the scan lacks, the fill is not 0, nothing is summed (the result is sparse), sizes differ, or intermediate sums are
    far larger than operands and result. Indices of one array alone that the result lacks are summed first.

    Parameters
    ----------
    indices, array_indices
        The index of each axis of the scan, and of each array.
    output_indices
        The indices of the result, each once and of one of the operands.
    """
    own = tuple(indices)
    sizes = dict(zip(own, scan.schema.shape, strict=True))
    others = [tuple(each) for each in array_indices]
    for array, along in zip(arrays, others, strict=True):
        if len(set(along)) < len(along) or (along and not set(along) & set(own)):
            return None
        if any(sizes.setdefault(index, n) != n for index, n in zip(along, array.shape, strict=True)):
            return None
    if len(set(own)) < len(own) or not scan.schema.has_zero_fill or set(sizes) <= set(output_indices):
        return None
    dtype = np.result_type(scan.schema.dtype, *(array.dtype for array in arrays))
    schema = Schema(tuple(sizes[index] for index in output_indices), (), dtype, stype="dense")
    node = DenseContraction(scan, own, tuple(map(Dense, arrays)), tuple(others), tuple(output_indices), schema)
    left = node.surviving_array_indices
    further = {index for each in left for index in each} - set(own)
    if not any(further <= set(each) for each in left):
        return None
    height, width = (math.prod(sizes[index] for index in part) for part in (set(own) & set(output_indices), further))
    if height * width > max(
        tuning().dense_contraction_elements, 2 * (schema.size + sum(array.size for array in arrays))
    ):
        return None
    return node


def _store_single_element(scan: Scan) -> Scan:
    """Return a scan of size 1 with its element stored; any other as it is."""
    if scan.schema.size != 1 or scan.schema.has_zero_fill:
        return scan
    stored = make_with_fill(scan, 0, scan.schema.stype)
    return Scan(stored, View.identity(stored.schema.shape), stored.schema)


def _check_fills(left: Scan, right: Scan, shape: tuple[int, ...]) -> None:
    """Raise if an operand has absent elements other than 0."""
    if 0 in shape:
        return
    for name, scan in (("left", left), ("right", right)):
        if scan.schema.size and not scan.schema.has_zero_fill:
            raise UnsupportedError(
                f"product: absent elements of the {name} operand are {scan.schema.fill_value}, expected 0: the result "
                f"of shape {shape} would be dense. Use refill(0) of the operand of shape {scan.schema.shape}, "
                "to_numpy() of both if they fit, or another semiring, which ignores absent elements"
            )


def _renumber(*indices: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return indices renumbered in order of first appearance."""
    number: dict[int, int] = {}
    return tuple(tuple(number.setdefault(index, len(number)) for index in own) for own in indices)
