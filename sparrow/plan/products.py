"""What products of tensors mean: their types, their fill, which cells take part.

Under plus and times absent cells hold 0 and annihilate, against NaN and infinity too; under another semiring an absent
cell is no entry, whatever it holds. Either way the entries of the result come of entries alone, and its fill is the
additive identity.
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
from sparrow.plan.labels import AxisLabels, axis_labels
from sparrow.plan.nodes import Dense, DenseContraction, Map, Product, Reduce, Scan
from sparrow.plan.reductions import make_reduce
from sparrow.plan.semirings import PLUS_TIMES, Semiring, or_as_max, product_dtype, result_fill
from sparrow.plan.shapes import make_with_fill

__all__ = ["as_elementwise", "make_dense_contraction", "make_product"]

_MATMUL = ((0, 1), (1, 2), (0, 2))
_ROOM = 1 << 20
"""Cells of sums that are few, whatever is given."""


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
        Under plus and times of fill 0.
    letters
        The letter of each axis of both.
    out
        The letters of the result, each once and of one of the scans.
    semiring
        What multiplies, and adds along the other letters.
    mask, complement
        A scan of the shape of the result outside whose entries, or with ``complement`` inside them, nothing is looked
        at; its dimensions and labels are matched with those of the result.
    stype
        The storage type of the result, inferred by default.
    free
        Whether it is a step of several that may be put in another order.
    keeps
        Whether a cell that comes out as the fill is an entry all the same, for the product that it is an operand of.

    Raises
    ------
    ShapeError
        If sizes along a letter differ, or the mask has another shape.
    UnsupportedError
        If the fill of an operand is not 0 under plus and times, or the types have no product.
    InvalidValueError
        If the semiring has no identity.
    """
    semiring = or_as_max(semiring)
    own, other = map(tuple, indices)
    sizes: dict[int, int] = {}
    first: dict[int, str] = {}
    for name, scan, along in (("left", left, own), ("right", right, other)):
        for axis, letter in enumerate(along):
            size = scan.schema.shape[axis]
            side = f"dimension {axis} ({scan.schema.dims[axis]!r}, size {size}) of the {name} operand"
            if sizes.setdefault(letter, size) != size:
                raise ShapeError(
                    f"product: shapes {left.schema.shape} and {right.schema.shape} do not fit: {first[letter]} is not "
                    f"{side}"
                )
            first.setdefault(letter, side)
    shape = tuple(sizes[letter] for letter in output_indices)
    if semiring.plain:
        left, right = _one_cell_stored(left), _one_cell_stored(right)
        _check_fills(left, right, shape)
    dtype = product_dtype(semiring, left.schema.dtype, right.schema.dtype)
    fill = result_fill(semiring, dtype)
    types = [left.schema.stype, right.schema.stype]
    step = "dot"
    if fill == 0 and _renumbered(own, other, output_indices) == _MATMUL:
        found = infer_dot(types[0], types[1], wanted=stype)
    elif (
        fill == 0 and tuple(output_indices) in (own, other) and set(own) | set(other) == set(output_indices)
    ):  # cell by cell
        step, whole = "multiply", [along == tuple(output_indices) for along in (own, other)]
        stretched = any(kind in COMPRESSED and not is_whole for kind, is_whole in zip(types, whole, strict=True))
        found = infer_function(step, types, True, not all(whole), stretched)
    else:
        found = infer_other(next((kind for kind in ("coo", *COMPRESSED) if kind in types), "dense"))
    kind = resolve_stype(step, types, found) if stype is None else check_stype(stype, len(shape))
    names: dict[int, str] = {}
    for scan, along in ((right, other), (left, own)):
        names |= dict(zip(along, scan.schema.dims, strict=True))
    dims = tuple(names[letter] for letter in output_indices)
    unique = len({name.casefold() for name in dims}) == len(dims)
    schema = Schema(shape, dims if unique else (), dtype, fill, kind)
    labels: dict[int, AxisLabels] = {}
    for scan, along in ((right, other), (left, own)):
        labels |= {along[axis]: found for axis, found in axis_labels(scan).items()}
    along_out = {k: labels[letter] for k, letter in enumerate(output_indices) if letter in labels}
    node = Product(
        left, right, (own, other), tuple(output_indices), semiring, None, False, schema, reorderable, keep_fill
    ).with_labels(along_out)
    if mask is None:
        return node
    mask = align_mask(mask, Scan(node, View.identity(shape), schema), (left, right))
    if mask.schema.shape != shape:
        raise ShapeError(f"product: the mask has shape {mask.schema.shape}, the result {shape}")
    return replace(node, mask=mask, complement=complement).with_labels(along_out)


def as_elementwise(node: Product) -> Map | Reduce | None:
    """Return a product whose operands have the same letters as the sum of a function of cells; None of any other."""
    (own, other), dtype = node.indices, node.schema.dtype
    if set(own) != set(other) or not len(set(own)) == len(own) == len(other):
        return None
    if not node.semiring.plain or node.mask is not None or dtype.kind == "b" or dtype == np.float16:
        return None
    gone = [letter for letter in own if letter not in node.output_indices]
    order = (
        own
        if [letter for letter in own if letter in node.output_indices] == [*node.output_indices]
        else (*node.output_indices, *gone)
    )
    left, right = (
        scan.then(scan.view.permute([along.index(letter) for letter in order]))
        for scan, along in ((node.left, own), (node.right, other))
    )
    names = axis_labels(Scan(node, View.identity(node.schema.shape), node.schema))
    schema = replace(left.schema, dtype=dtype, fill_value=0) if gone else node.schema
    cells = Map(np.multiply, (left, right), (True, True), schema)
    if not gone:
        return cells.with_labels(names)
    scan = Scan(cells, View.identity(schema.shape), schema)
    sums = make_reduce(scan, "sum", tuple(order.index(letter) for letter in gone), dtype=dtype)
    return replace(sums, schema=node.schema).with_labels(names)


def make_dense_contraction(
    scan: Scan,
    indices: Sequence[int],
    arrays: Sequence[NDArray[Any]],
    array_indices: Sequence[Sequence[int]],
    output_indices: Sequence[int],
) -> DenseContraction | None:
    """Return the sums of the entries of a scan, each times the cells of arrays at its coordinates, if they are that.

    They are not where something else than cells at an entry is multiplied: letters that come twice in one operand, an
    array without a letter of the scan, letters of arrays alone that no array has all of; where absent cells take part;
    and where nothing is added up, so that the result is sparse. Nor where sizes do not fit, nor where sums along
    letters that go would take far more cells than what is given and the result. Letters of one array alone that the
    result has not are summed at once.

    Parameters
    ----------
    letters, array_letters
        The letter of each axis of the scan, and of each array.
    out
        The letters of the result, each once and of one of the operands.
    """
    own = tuple(indices)
    sizes = dict(zip(own, scan.schema.shape, strict=True))
    others = [tuple(each) for each in array_indices]
    for array, along in zip(arrays, others, strict=True):
        if len(set(along)) < len(along) or (along and not set(along) & set(own)):
            return None
        if any(sizes.setdefault(letter, n) != n for letter, n in zip(along, array.shape, strict=True)):
            return None
    if len(set(own)) < len(own) or not scan.schema.has_zero_fill or set(sizes) <= set(output_indices):
        return None
    dtype = np.result_type(scan.schema.dtype, *(array.dtype for array in arrays))
    schema = Schema(tuple(sizes[letter] for letter in output_indices), (), dtype, stype="dense")
    node = DenseContraction(scan, own, tuple(map(Dense, arrays)), tuple(others), tuple(output_indices), schema)
    left = node.surviving_array_indices
    further = {letter for each in left for letter in each} - set(own)
    if not any(further <= set(each) for each in left):
        return None
    height, width = (math.prod(sizes[letter] for letter in part) for part in (set(own) & set(output_indices), further))
    if height * width > max(_ROOM, 2 * (schema.size + sum(array.size for array in arrays))):
        return None
    return node


def _one_cell_stored(scan: Scan) -> Scan:
    """Return a scan of one cell with that as its entry, if it is one of a fill; any other as it is."""
    if scan.schema.size != 1 or scan.schema.has_zero_fill:
        return scan
    stored = make_with_fill(scan, 0, scan.schema.stype)
    return Scan(stored, View.identity(stored.schema.shape), stored.schema)


def _check_fills(left: Scan, right: Scan, shape: tuple[int, ...]) -> None:
    """Refuse what would leave no fill; of an operand or a result without cells none is absent."""
    if 0 in shape:
        return
    for name, scan in (("left", left), ("right", right)):
        if scan.schema.size and not scan.schema.has_zero_fill:
            raise UnsupportedError(
                f"product: absent cells of the {name} operand are {scan.schema.fill_value}, so that cells of the "
                f"result of shape {shape} would be entries whatever is stored: use refill(0) of the operand of shape "
                f"{scan.schema.shape}, to_numpy() of both where they fit, or another semiring, under which absent "
                "cells take no part"
            )


def _renumbered(*letters: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return letters numbered in the order in which they come first."""
    number: dict[int, int] = {}
    return tuple(tuple(number.setdefault(letter, len(number)) for letter in own) for own in letters)
