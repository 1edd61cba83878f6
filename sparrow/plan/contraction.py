"""Contractions: dtype, fill value, names and labels, and what is dense by nature.

Under plus and times absent elements are 0 and annihilate, also against NaN and infinity; another semiring ignores them,
whatever the fill. Either way only stored elements are multiplied, and the fill is the additive identity.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparrow.core.indexing import View
from sparrow.core.schema import Schema
from sparrow.core.storage_types import COMPRESSED, check_stype, infer_dot, infer_function, infer_other, resolve_stype
from sparrow.errors import ShapeError, UnsupportedError
from sparrow.plan.alignment import align_mask
from sparrow.plan.estimates import estimate_nnz
from sparrow.plan.labels import AxisLabels
from sparrow.plan.nodes import Contraction, Dense, Map, Reduce, Scan, axis_labels
from sparrow.plan.reductions import make_reduce
from sparrow.plan.semirings import PLUS_TIMES, Semiring, or_as_max, product_dtype, result_fill
from sparrow.plan.shapes import make_with_fill
from sparrow.plan.tuning import tuning

__all__ = [
    "MatrixForm", "as_elementwise", "is_elementwise", "is_mostly_absent", "is_sampled", "make_contraction",
    "make_dense_contraction", "make_matmul", "make_sampled", "matrix_form", "surviving_array_indices",
]  # fmt: skip

_MATMUL = ((0, 1), (1, 2), (0, 2))

Indices: TypeAlias = Sequence[Sequence[int]]
"""The index of each axis of each operand."""


# -- tensors -------------------------------------------------------------------------------------


def make_contraction(
    scans: Sequence[Scan],
    indices: Indices,
    output_indices: Sequence[int],
    semiring: Semiring = PLUS_TIMES,
    mask: Scan | None = None,
    complement: bool = False,
    stype: str | None = None,
    keep_fill: bool = False,
    topk: int | None = None,
) -> Contraction:
    """Return the contraction of two or more scans.

    Parameters
    ----------
    scans
        Operands, of fill 0 under plus and times. More than two have one dtype, that of the result, under a semiring
        that may be reordered.
    indices
        The index of each axis of each.
    output_indices
        The indices of the result, each once and of one of the operands; others are summed.
    semiring
        Addition and multiplication.
    mask, complement
        A scan of the shape of the result: only positions at which it has a stored element, or with ``complement``
        none, are computed. Its dimensions and labels are aligned with those of the result.
    stype
        Storage type of the result, inferred by default.
    keep_fill
        Whether results that equal the fill are stored, for the contraction that takes them.
    topk
        Number of the largest elements that are kept along the last axis; None for all.

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
    given = [tuple(own) for own in indices]
    output = tuple(output_indices)
    shape = _output_shape(scans, given, output)
    if semiring.plain:
        scans = list(map(_store_single_element, scans))
        _check_fills(scans, shape)
    dtype = scans[0].schema.dtype
    for scan in scans[1:]:
        dtype = product_dtype(semiring, dtype, scan.schema.dtype)
    fill = result_fill(semiring, dtype)
    kind = _infer_stype(scans, given, output, bool(fill == 0), stype)
    names: dict[int, str] = {}
    labels: dict[int, AxisLabels] = {}
    for scan, along in zip(reversed(scans), reversed(given), strict=True):
        names |= dict(zip(along, scan.schema.dims, strict=True))
        labels |= {along[axis]: found for axis, found in axis_labels(scan).items()}
    dims = tuple(names[index] for index in output)
    unique = len({name.casefold() for name in dims}) == len(dims)
    schema = Schema(shape, dims if unique else (), dtype, fill, kind)
    along_out = {k: labels[index] for k, index in enumerate(output) if index in labels}
    node = Contraction(tuple(scans), tuple(given), output, semiring, schema, keep_fill=keep_fill, topk=topk)
    node.with_labels(along_out)
    if mask is None:
        return node
    mask = align_mask(mask, Scan(node, View.identity(shape), schema), tuple(scans))
    if mask.schema.shape != shape:
        raise ShapeError(f"product: mask has shape {mask.schema.shape}, expected {shape}")
    return replace(node, mask=mask, complement=complement).with_labels(along_out)


def is_elementwise(node: Contraction) -> bool:
    """Return whether a contraction is a reduced element-wise product."""
    if len(node.operands) != 2 or node.schema.is_array or node.keep_fill or node.topk is not None:
        return False
    (own, other), dtype = node.indices, node.schema.dtype
    if set(own) != set(other) or not len(set(own)) == len(own) == len(other):
        return False
    return node.semiring.plain and node.mask is None and dtype.kind != "b" and dtype != np.float16


def as_elementwise(node: Contraction) -> Map | Reduce | None:
    """Return a contraction of equal indices as a reduced element-wise product.

    None for any other contraction.
    """
    if not is_elementwise(node):
        return None
    own, dtype = node.indices[0], node.schema.dtype
    reduced = [index for index in own if index not in node.output_indices]
    order = (
        own
        if [index for index in own if index in node.output_indices] == [*node.output_indices]
        else (*node.output_indices, *reduced)
    )
    left, right = (
        scan.then(scan.view.permute([along.index(index) for index in order]))
        for scan, along in zip(node.tensors, node.indices, strict=True)
    )
    names = node.labels
    schema = replace(left.schema, dtype=dtype, fill_value=0) if reduced else node.schema
    elementwise = Map(np.multiply, (left, right), (True, True), schema)
    if not reduced:
        return elementwise.with_labels(names)
    scan = Scan(elementwise, View.identity(schema.shape), schema)
    sums = make_reduce(scan, "sum", tuple(order.index(index) for index in reduced), dtype=dtype)
    return replace(sums, schema=node.schema).with_labels(names)


def _output_shape(operands: Sequence[Scan], indices: Indices, output_indices: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of a result; raise if sizes along an index differ."""
    sizes: dict[int, int] = {}
    first: dict[int, str] = {}
    for number, (scan, along) in enumerate(zip(operands, indices, strict=True)):
        name = ("left", "right")[number] if len(operands) == 2 else f"{number}."
        for axis, index in enumerate(along):
            size = scan.schema.shape[axis]
            side = f"dimension {axis} ({scan.schema.dims[axis]!r}, size {size}) of the {name} operand"
            if sizes.setdefault(index, size) != size:
                shapes = " and ".join(str(each.schema.shape) for each in operands)
                raise ShapeError(f"product: shapes {shapes} do not fit: {first[index]} is not {side}")
            first.setdefault(index, side)
    return tuple(sizes[index] for index in output_indices)


def _infer_stype(
    scans: Sequence[Scan],
    indices: Sequence[tuple[int, ...]],
    output: tuple[int, ...],
    zero_fill: bool,
    stype: str | None,
) -> str:
    """Return the requested storage type of a result, or the inferred one."""
    types = [scan.schema.stype for scan in scans]
    step = "dot"
    if len(scans) > 2:
        found = infer_other(next((kind for kind in ("coo", *COMPRESSED) if kind in types), "dense"))
    elif zero_fill and _renumber(*indices, output) == _MATMUL:
        found = infer_dot(types[0], types[1], requested=stype)
    elif zero_fill and output in indices and {k for own in indices for k in own} == set(output):  # element-wise
        step, whole = "multiply", [along == output for along in indices]
        stretched = any(kind in COMPRESSED and not is_whole for kind, is_whole in zip(types, whole, strict=True))
        found = infer_function(step, types, True, not all(whole), stretched)
    else:
        found = infer_other(next((kind for kind in ("coo", *COMPRESSED) if kind in types), "dense"))
    return resolve_stype(step, types, found) if stype is None else check_stype(stype, len(output))


def _store_single_element(scan: Scan) -> Scan:
    """Return a scan of size 1 with its element stored; any other as it is."""
    if scan.schema.size != 1 or scan.schema.has_zero_fill:
        return scan
    stored = make_with_fill(scan, 0, scan.schema.stype)
    return Scan(stored, View.identity(stored.schema.shape), stored.schema)


def _check_fills(scans: Sequence[Scan], shape: tuple[int, ...]) -> None:
    """Raise if an operand has absent elements other than 0."""
    if 0 in shape:
        return
    for number, scan in enumerate(scans):
        if scan.schema.size and not scan.schema.has_zero_fill:
            name = ("left", "right")[number] if len(scans) == 2 else f"{number}."
            raise UnsupportedError(
                f"product: absent elements of the {name} operand are {scan.schema.fill_value}, expected 0: the result "
                f"of shape {shape} would be dense. Use refill(0) of the operand of shape {scan.schema.shape}, "
                "to_numpy() of both if they fit, or another semiring, which ignores absent elements"
            )


def _renumber(*indices: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return indices renumbered in order of first appearance."""
    number: dict[int, int] = {}
    return tuple(tuple(number.setdefault(index, len(number)) for index in own) for own in indices)


# -- tensors and arrays --------------------------------------------------------------------------

_MATMUL_INDICES: dict[tuple[int, int], tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[int, ...]]] = {
    (1, 1): (((1,), (1,)), ()),
    (1, 2): (((1,), (1, 2)), (2,)),
    (2, 1): (((0, 1), (1,)), (0,)),
    (2, 2): (((0, 1), (1, 2)), (0, 2)),
}
"""Indices of the operands and the result of a matrix product, by numbers of dimensions."""


def make_matmul(left: Scan | Dense, right: Scan | Dense) -> Contraction:
    """Return the matrix product of a tensor and an array of up to two dimensions.

    Shapes combine as in ``numpy.matmul`` and the dtype is NumPy's (bool for two bools). The tensor may have any fill.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    UnsupportedError
        If not exactly one operand is a tensor, or an operand has more than two dimensions.
    """
    one, other = left.schema, right.schema
    if isinstance(left, Scan) == isinstance(right, Scan):
        raise UnsupportedError("matmul: operands must be one tensor and one dense array: read one with to_numpy()")
    for name, side in (("left", one), ("right", other)):
        if side.ndim == 0:
            raise ShapeError(f"matmul: the {name} operand has no dimensions, it needs one or two; scale with '*'")
        if side.ndim > 2:
            raise UnsupportedError(
                f"matmul: the {name} operand has shape {side.shape}; operands of one or two dimensions are "
                "supported, so multiply one slice at a time"
            )
    across, down = one.ndim - 1, 0
    if one.shape[across] != other.shape[down]:
        raise ShapeError(
            f"matmul: shapes {one.shape} and {other.shape} do not fit: {_side('left', left, across)} "
            f"is not {_side('right', right, down)}"
        )
    indices, output = _MATMUL_INDICES[one.ndim, other.ndim]
    schema = Schema(
        one.shape[:-1] + other.shape[1:], (), np.result_type(one.dtype, other.dtype), stype="dense", is_array=True
    )
    return Contraction((left, right), indices, output, PLUS_TIMES, schema)


def _side(name: str, node: Scan | Dense, dim: int) -> str:
    size = node.schema.shape[dim]
    if isinstance(node, Scan):
        return f"dimension {dim} ({node.schema.dims[dim]!r}, size {size}) of the {name} operand"
    return f"dimension {dim} (size {size}) of the {name} operand"


def make_dense_contraction(
    operands: Sequence[Scan | NDArray[Any]], indices: Indices, output_indices: Sequence[int]
) -> Contraction | None:
    """Return a contraction of one scan with arrays that is an array, or None.

    A matrix product takes a scan of any fill. Any other contraction is dense in one pass unless an index repeats in an
    operand, an array shares no index with the scan, no array has all indices that the scan lacks, the fill is not 0,
    nothing is summed, sizes differ, most of the result would be absent, or intermediate sums are far larger than
    operands and result. Indices of one array alone that the result lacks are summed first.

    Parameters
    ----------
    operands
        One scan, and arrays.
    indices
        The index of each axis of each.
    output_indices
        The indices of the result, each once and of one of the operands.
    """
    given, output = [tuple(own) for own in indices], tuple(output_indices)
    found: list[Scan | Dense] = [each if isinstance(each, Scan) else Dense(each) for each in operands]
    at = next(k for k, each in enumerate(found) if isinstance(each, Scan))
    scan, own = found[at], given[at]
    assert isinstance(scan, Scan)
    sizes = dict(zip(own, scan.schema.shape, strict=True))
    for each, along in zip(found, given, strict=True):
        if len(set(along)) < len(along):
            return None
        if any(sizes.setdefault(index, n) != n for index, n in zip(along, each.schema.shape, strict=True)):
            return None
    dtype = np.result_type(*(each.schema.dtype for each in found))
    shape = tuple(sizes[index] for index in output)
    node = Contraction(
        tuple(found), tuple(given), output, PLUS_TIMES, Schema(shape, (), dtype, stype="dense", is_array=True)
    )
    if matrix_form(node) is not None:
        return node
    if any(along and not set(along) & set(own) for along in given) or not scan.schema.has_zero_fill:
        return None
    if set(sizes) <= set(output) or is_mostly_absent(node.schema, output, scan, own):
        return None
    left = surviving_array_indices(node)
    further = {index for each in left for index in each} - set(own)
    if not any(further <= set(each) for each in left):
        return None
    height, width = (math.prod(sizes[index] for index in part) for part in (set(own) & set(output), further))
    arrays = sum(each.array.size for each in found if isinstance(each, Dense))
    if height * width > max(tuning().dense_contraction_elements, 2 * (node.schema.size + arrays)):
        return None
    return node


def is_mostly_absent(schema: Schema, output_indices: Sequence[int], scan: Scan, own: Sequence[int]) -> bool:
    """Return whether a contraction with arrays has few elements and stays sparse.

    Parameters
    ----------
    schema, output_indices
        Those of the result.
    scan, own
        The scan, and the index of each of its axes.
    """
    limits, size = tuning(), schema.size
    if len(output_indices) < 2 or not set(output_indices) <= set(own) or size < limits.mostly_absent_elements:
        return False
    return size > limits.mostly_absent_ratio * estimate_nnz(scan)


def surviving_array_indices(node: Contraction) -> tuple[tuple[int, ...], ...]:
    """Return the indices of each array along which it is not summed first."""
    uses = Counter(itertools.chain(node.output_indices, *node.indices))
    pairs = list(zip(node.operands, node.indices, strict=True))
    known = {index for each, own in pairs if isinstance(each, Scan) for index in own}
    return tuple(tuple(x for x in own if x in known or uses[x] > 1) for each, own in pairs if isinstance(each, Dense))


@dataclass(frozen=True, slots=True)
class MatrixForm:
    """A contraction of a scan and an array as a matrix product ``scan @ array``."""

    scan: Scan
    """It has one or two axes, the contracted one last."""
    array: NDArray[Any]
    """It has one or two axes, the contracted one first."""
    transposed: bool
    """True if the result is the transpose of the product."""


def matrix_form(node: Contraction) -> MatrixForm | None:
    """Return a contraction of a scan and an array as a matrix product, or None."""
    if len(node.operands) != 2 or not node.schema.is_array:
        return None
    which = 0 if isinstance(node.operands[0], Scan) else 1
    scan, dense = node.operands[which], node.operands[1 - which]
    own, other = node.indices[which], node.indices[1 - which]
    shared = [index for index in own if index in other]
    if len(shared) != 1 or len(own) > 2 or len(other) > 2 or shared[0] in node.output_indices:
        return None
    assert isinstance(scan, Scan)
    assert isinstance(dense, Dense)
    array = dense.array
    if len(own) == 2 and own[0] == shared[0]:
        scan, own = scan.transpose(), own[::-1]
    if len(other) == 2 and other[1] == shared[0]:
        array, other = array.T, other[::-1]
    if node.output_indices == (*own[:-1], *other[1:]):
        return MatrixForm(scan, array, False)
    if node.output_indices == (*other[1:], *own[:-1]):
        return MatrixForm(scan, array, True)
    return None


# -- sampled products ----------------------------------------------------------------------------


def make_sampled(scan: Scan, left: NDArray[Any], right: NDArray[Any], schema: Schema) -> Contraction:
    """Return ``scan * (left @ right)`` at the stored elements of a matrix."""
    return Contraction((scan, Dense(left), Dense(right)), ((0, 1), (0, 2), (2, 1)), (0, 1), PLUS_TIMES, schema)


def is_sampled(node: Contraction) -> bool:
    """Return whether it is the product of two arrays at the elements of a scan."""
    return len(node.operands) == 3 and not node.schema.is_array and len(node.tensors) == 1
