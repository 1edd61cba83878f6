"""What rearrangements mean: cells joined, regrouped, cut by their position, put in order, added up along lines."""

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
from sparrow.plan.labels import axis_labels
from sparrow.plan.nodes import Accumulate, Concat, Diagonal, Reshape, Scan, Sort, Triangle, WithFill
from sparrow.runtime import memory

__all__ = [
    "concat_offsets",
    "make_accumulate",
    "make_concat",
    "make_diagonal",
    "make_reshape",
    "make_sort",
    "make_triangle",
    "make_with_fill",
]


def make_concat(scans: Sequence[Scan], axis: int) -> Concat:
    """Return scans joined along an axis that they have; fills must be equal, dtypes are promoted.

    Along other axes labels that differ are brought together. Along the axis itself the result has labels where all
    have some.

    Raises
    ------
    LabelError
        If names or labels do not fit.
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
            raise ShapeError(f"shapes {first.shape} and {shape} do not join along axis {axis}")
        size += shape[axis]
        one_dtype = one_dtype and other.dtype == dtype
        # What has no cells has none absent.
        one_fill = one_fill and (filled == fill or (filled != filled and fill != fill) or 0 in shape)
    if not one_dtype:
        dtype = np.result_type(*[other.dtype for other in schemas])
        fill = fill.astype(dtype)
    if not one_fill:
        fills = ", ".join(str(other.fill_value) for other in schemas if 0 not in other.shape)
        raise UnsupportedError(f"tensors of fills {fills} do not join: give them one, A.refill({fill})")
    types = [other.stype for other in schemas]
    stype = resolve_stype("concat", types, infer_concat(types, axis))
    shape = (*before, size, *after)
    if size > MAX_DIMENSION_SIZE:
        check_shape(shape)
    return Concat(tuple(scans), axis, unchecked_schema(shape, first.dims, dtype, fill, stype)).with_labels(names)


def concat_offsets(node: Concat) -> list[int]:
    """Return where each scan of a join begins along its axis, and the end of the last."""
    return [0, *itertools.accumulate([scan.schema.shape[node.axis] for scan in node.operands])]


def make_reshape(scan: Scan, shape: tuple[int, ...]) -> Reshape:
    """Return the cells of a scan in another shape of as many cells, in row-major order.

    Raises
    ------
    ShapeError
        If the numbers of cells differ.
    """
    old = scan.schema
    if math.prod(old.shape) != math.prod(shape):
        raise ShapeError(f"cannot reshape {old.shape} of {old.size} cells into {shape} of {math.prod(shape)}")
    stype = resolve_stype("reshape", [old.stype], infer_other(old.stype))
    while isinstance(scan.source, Reshape) and scan.view.is_identity:  # the shapes in between do not matter
        scan = scan.source.operand
    return Reshape(scan, unchecked_schema(shape, default_dims(len(shape)), old.dtype, old.fill_value, stype))


def make_triangle(scan: Scan, k: int, upper: bool) -> Triangle:
    """Return the cells of the last two axes on and above (below) the diagonal that lies ``k`` to the right.

    Raises
    ------
    ShapeError
        If the scan has fewer than two axes.
    UnsupportedError
        If its fill is not 0.
    """
    old = scan.schema
    if old.ndim < 2:
        raise ShapeError(f"a triangle needs two axes, the tensor has shape {old.shape}")
    if old.fill_value != 0:
        raise UnsupportedError(f"a triangle of a tensor of fill {old.fill_value} is dense: its rest is 0")
    return Triangle(scan, k, upper, old).with_labels(axis_labels(scan))


def make_diagonal(scan: Scan, offset: int) -> Diagonal:
    """Return the diagonal of a matrix that lies ``offset`` to the right.

    Raises
    ------
    ShapeError
        If the scan has not two axes.
    """
    old = scan.schema
    if old.ndim != 2:
        raise ShapeError(f"a diagonal needs a matrix, the tensor has shape {old.shape}")
    height, width = old.shape
    length = max(min(height - max(-offset, 0), width - max(offset, 0)), 0)
    stype = "coo" if old.stype in COMPRESSED else old.stype
    return Diagonal(scan, offset, unchecked_schema((length,), default_dims(1), old.dtype, old.fill_value, stype))


def make_sort(scan: Scan) -> Sort:
    """Return the cells of a scan, each line along the last axis in ascending order, NaN last.

    In a line come the entries that are less than fill, then the absent cells, then the other entries: no cell becomes
    an entry that was none.
    """
    old = scan.schema
    stype = resolve_stype("sort", [old.stype], infer_other(old.stype))
    names = {axis: found for axis, found in axis_labels(scan).items() if axis < old.ndim - 1}
    return Sort(scan, Schema(old.shape, old.dims, old.dtype, old.fill_value, stype)).with_labels(names)


def make_with_fill(scan: Scan, fill_value: Any, stype: str) -> WithFill:
    """Return the cells of a scan as entries beside another fill.

    Raises
    ------
    TooLargeError
        If as many entries as there are cells would pass the memory limit.
    """
    old = scan.schema
    schema = Schema(old.shape, old.dims, old.dtype, fill_value, stype)
    what = f"a tensor of shape {schema.shape} and fill {old.fill_value} has an entry for nearly every cell"
    what += f" once its fill is {schema.fill_value}: they"
    memory.check(schema.size * schema.element_bytes(), what, "keep the storage type 'coo', take a smaller view")
    return WithFill(scan, schema).with_labels(axis_labels(scan))


def make_accumulate(
    scan: Scan, ufunc: np.ufunc, axis: int | None, dtype: np.dtype[Any] | None = None, initial: Any = None
) -> Accumulate:
    """Return what a ufunc makes of each line from its start up to each cell: dense after the first entry.

    Parameters
    ----------
    scan
        What is added up.
    ufunc
        ``np.add`` or ``np.multiply``.
    axis
        Along which; None means all cells in row-major order, and gives a vector.
    dtype
        In which cells are added up, NumPy's choice by default.
    initial
        What stands before the first cell of each line, if that is wanted.

    Raises
    ------
    UnsupportedError
        If ``dtype`` drops the imaginary parts of complex cells, or no array has so many dimensions.
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
    return Accumulate(scan, ufunc, axis, initial, Schema(shape, (), dtype, stype="dense"))
