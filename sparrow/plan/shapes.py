"""Structural nodes: concat, reshape, triangle, diagonal, sort, fill."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sparrow.core.schema import (
    MAX_DIMENSION_SIZE,
    Schema,
    check_array_ndim,
    check_shape,
    default_dims,
    unchecked_schema,
)
from sparrow.core.storage_types import COMPRESSED, infer_concat, infer_other, resolve_stype
from sparrow.errors import ShapeError, UnsupportedError
from sparrow.plan.alignment import align_operands
from sparrow.plan.nodes import Accumulate, Concat, Diagonal, Reshape, Scan, Sort, TopK, Triangle, WithFill, axis_labels
from sparrow.runtime import memory

__all__ = [
    "concat_offsets",
    "make_accumulate",
    "make_concat",
    "make_diagonal",
    "make_reshape",
    "make_sort",
    "make_tile",
    "make_topk",
    "make_triangle",
    "make_with_fill",
]


def make_concat(scans: Sequence[Scan], axis: int) -> Concat:
    """Return the concatenation of scans along an axis; dtypes are promoted.

    Along other axes labels that differ are aligned. Along the axis itself the result has labels if all operands have.

    Raises
    ------
    LabelError
        If dimension names or labels do not match.
    ShapeError
        If shapes differ in another axis.
    UnsupportedError
        If fills differ.
    """
    scans, names = align_operands(scans, "outer", axis)
    first = scans[0].schema
    schemas = [scan.schema for scan in scans]
    before, after = first.shape[:axis], first.shape[axis + 1 :]
    dtype, fill = first.dtype, next((other.fill_value for other in schemas if 0 not in other.shape), first.fill_value)
    size = 0
    one_dtype = one_fill = True
    for other in schemas:
        shape, filled = other.shape, other.fill_value
        if len(shape) != len(first.shape) or shape[:axis] != before or shape[axis + 1 :] != after:
            raise ShapeError(f"shapes {first.shape} and {shape} cannot be concatenated along axis {axis}")
        size += shape[axis]
        one_dtype = one_dtype and other.dtype == dtype
        # An operand of size 0 has no absent elements.
        one_fill = one_fill and (filled == fill or (filled != filled and fill != fill) or 0 in shape)
    if not one_dtype:
        dtype = np.result_type(*[other.dtype for other in schemas])
        fill = fill.astype(dtype)
    if not one_fill:
        fills = ", ".join(str(other.fill_value) for other in schemas if 0 not in other.shape)
        raise UnsupportedError(f"concat: fill values must be equal, got {fills}: use A.refill({fill})")
    types = [other.stype for other in schemas]
    stype = resolve_stype("concat", types, infer_concat(types, axis))
    shape = (*before, size, *after)
    if size > MAX_DIMENSION_SIZE:
        check_shape(shape)
    return Concat(tuple(scans), axis, unchecked_schema(shape, first.dims, dtype, fill, stype)).with_labels(names)


def concat_offsets(node: Concat) -> list[int]:
    """Return the start of each operand along the axis, and the end of the last."""
    return [0, *itertools.accumulate([scan.schema.shape[node.axis] for scan in node.operands])]


def make_reshape(scan: Scan, shape: tuple[int, ...]) -> Reshape:
    """Return a reshape of a scan, in row-major order.

    Raises
    ------
    ShapeError
        If the sizes differ.
    """
    old = scan.schema
    if math.prod(old.shape) != math.prod(shape):
        raise ShapeError(f"cannot reshape {old.shape} of size {old.size} into {shape} of size {math.prod(shape)}")
    stype = resolve_stype("reshape", [old.stype], infer_other(old.stype))
    while isinstance(scan.source, Reshape) and scan.view.is_identity:  # shapes in between do not matter
        scan = scan.source.operand
    return Reshape(scan, unchecked_schema(shape, default_dims(len(shape)), old.dtype, old.fill_value, stype))


def make_tile(scan: Scan, axis: int, count: int) -> Reshape:
    """Return copies of a scan joined along an axis without labels, by broadcasting."""
    old = scan.schema
    shape = (*old.shape[:axis], old.shape[axis] * count, *old.shape[axis + 1 :])
    check_shape(shape)
    key = (slice(None),) * axis + (None,)
    repeated = scan.view.then(key).broadcast_to((*old.shape[:axis], count, *old.shape[axis:]))
    stype = resolve_stype("concat", [old.stype], infer_concat([old.stype], axis))
    schema = unchecked_schema(shape, old.dims, old.dtype, old.fill_value, stype)
    return Reshape(scan.then(repeated), schema).with_labels(axis_labels(scan))


def make_triangle(scan: Scan, k: int, upper: bool) -> Triangle:
    """Return the triangle above or below diagonal ``k`` of the last two axes.

    Raises
    ------
    ShapeError
        If the scan has fewer than two axes.
    UnsupportedError
        If its fill value is not 0.
    """
    old = scan.schema
    if old.ndim < 2:
        raise ShapeError(f"a triangle needs at least two axes, got shape {old.shape}")
    if old.fill_value != 0:
        raise UnsupportedError(f"a triangle needs fill value 0, got {old.fill_value}: the result would be dense")
    return Triangle(scan, k, upper, old).with_labels(axis_labels(scan))


def make_diagonal(scan: Scan, offset: int) -> Diagonal:
    """Return the diagonal of a matrix, ``offset`` to the right of the main one.

    Raises
    ------
    ShapeError
        If the scan is not a matrix.
    """
    old = scan.schema
    if old.ndim != 2:
        raise ShapeError(f"a diagonal needs a matrix, got shape {old.shape}")
    height, width = old.shape
    length = max(min(height - max(-offset, 0), width - max(offset, 0)), 0)
    stype = "coo" if old.stype in COMPRESSED else old.stype
    return Diagonal(scan, offset, unchecked_schema((length,), default_dims(1), old.dtype, old.fill_value, stype))


def make_sort(scan: Scan) -> Sort:
    """Return a scan sorted along the last axis in ascending order, NaN last.

    Absent elements stay absent: stored ones below the fill come first, then the absent ones, then the others.
    """
    old = scan.schema
    stype = resolve_stype("sort", [old.stype], infer_other(old.stype))
    names = {axis: found for axis, found in axis_labels(scan).items() if axis < old.ndim - 1}
    return Sort(scan, Schema(old.shape, old.dims, old.dtype, old.fill_value, stype)).with_labels(names)


def make_topk(scan: Scan, k: int, largest: bool) -> TopK:
    """Return a scan with the k best stored elements of each line, the last axis."""
    return TopK(scan, k, largest, scan.schema).with_labels(axis_labels(scan))


def make_with_fill(scan: Scan, fill_value: Any, stype: str) -> WithFill:
    """Return a scan with another fill value, its absent elements stored.

    Raises
    ------
    TooLargeError
        If storing every element would exceed the memory limit.
    """
    old = scan.schema
    schema = Schema(old.shape, old.dims, old.dtype, fill_value, stype)
    what = f"the elements of a tensor of shape {schema.shape} and fill {old.fill_value}"
    what += f", nearly all stored once its fill is {schema.fill_value},"
    memory.check(schema.size * schema.element_bytes(), what, "keep the storage type 'coo', take a smaller view")
    return WithFill(scan, schema).with_labels(axis_labels(scan))


def make_accumulate(
    scan: Scan, ufunc: np.ufunc, axis: int | None, dtype: np.dtype[Any] | None = None, initial: Any = None
) -> Accumulate:
    """Return ``ufunc.accumulate`` of a scan, an array.

    Parameters
    ----------
    ufunc
        ``np.add`` or ``np.multiply``.
    axis
        None flattens in row-major order and gives a vector.
    dtype
        Dtype of the accumulation, NumPy's choice by default.
    initial
        First value of each line, none by default.

    Raises
    ------
    UnsupportedError
        If ``dtype`` drops imaginary parts, or the result has more dimensions than NumPy arrays may have.
    """
    old = scan.schema
    check_array_ndim(old.ndim)
    if dtype is not None and old.dtype.kind == "c" != dtype.kind:
        raise UnsupportedError(f"dtype={dtype} drops the imaginary parts of {old.dtype}: take A.real first")
    if dtype is None:
        dtype = ufunc.accumulate(np.zeros(1, old.dtype)).dtype
    before = 0 if initial is None else 1
    along = old.ndim - 1 if axis is None else axis
    sizes = tuple(n + before * (k == along) for k, n in enumerate(old.shape))
    shape = sizes if axis is not None or before else (old.size,)
    return Accumulate(scan, ufunc, axis, initial, Schema(shape, (), dtype, stype="dense", is_array=True))
