"""Sampled dense-dense matrix multiplication (SDDMM)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparrow import engines
from sparrow.core.indexing import View
from sparrow.core.schema import Schema, check_dtype
from sparrow.core.storage_types import infer_function, resolve_stype
from sparrow.errors import ShapeError, UnsupportedError
from sparrow.functions.elementwise import as_factor
from sparrow.functions.labels import can_align
from sparrow.functions.tuning import tuning
from sparrow.functions.views import as_tensor
from sparrow.kernels.coo import accumulator_dtype
from sparrow.plan import Scan, axis_labels, make_sampled
from sparrow.relations.memory import MemoryHandle, MemoryRelation
from sparrow.runtime import memory
from sparrow.tensor import Tensor
from sparrow.tensor.base import read_labels
from sparrow.tensor.matching import label_operands
from sparrow.tensor.products import matmul

__all__ = ["sddmm"]


def sddmm(S: Tensor, X: Tensor | ArrayLike, Y: Tensor | ArrayLike) -> Tensor:
    """Return ``S * (X @ Y)``, computed at the stored elements of ``S``.

    For two arrays it is computed at once, in batches, in time proportional to ``S.nnz * K``, unless the result takes
    more than a quarter of the memory limit: then it is lazy. If one is a tensor the result is lazy too: the product of
    tensors with mask ``S``.

    Parameters
    ----------
    S
        Tensor of shape (M, N) and fill value 0.
    X, Y
        Tensors or arrays of shapes (M, K) and (K, N); axes that both have labels are aligned and may differ in size.

    Returns
    -------
    Tensor
        Shape (M, N), with the names and labels of ``S``; if labels differ, those of ``S * (X @ Y)``.

    Raises
    ------
    ShapeError
        If the shapes do not match.
    UnsupportedError
        If the fill value of ``S`` is not 0.
    TooLargeError
        If copies of the arrays would exceed the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> S = sp.asarray([[0, 1], [2, 0]])
    >>> sp.sddmm(S, [[1.0], [10.0]], [[3.0, 5.0]]).to_numpy()
    array([[ 0.,  5.],
           [60.,  0.]])
    """
    pattern = as_tensor(S)
    _, X, Y = label_operands((pattern, X, Y))
    left, right = as_factor(X, "sddmm: X"), as_factor(Y, "sddmm: Y")
    shapes = pattern.shape, left.shape, right.shape
    if {len(shape) for shape in shapes} != {2} or not (
        can_align(pattern, left) and can_align(pattern, right, 1, 1) and can_align(left, right, 1)
    ):
        raise ShapeError(f"sddmm: shapes must be (M, N), (M, K) and (K, N), got {', '.join(map(str, shapes))}")
    if pattern.fill_value != 0:
        raise UnsupportedError(f"sddmm: the fill value of S must be 0, got {pattern.fill_value}: use S.refill(0) first")
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        product = matmul(as_tensor(left), as_tensor(right), mask=pattern)
        return pattern * product  # type: ignore[no-any-return]
    scan = pattern.__sparrow_scan__()
    product = check_dtype(np.result_type(left.dtype, right.dtype))
    dtype = check_dtype(np.result_type(pattern.dtype, product))
    kind = resolve_stype(
        "multiply", [pattern.stype, "dense"], infer_function("multiply", [pattern.stype, "dense"], True)
    )
    node = make_sampled(scan, left, right, Schema(pattern.shape, pattern.dims, dtype, 0, kind))
    _check_memory(left, right.T, product)
    if pattern.nnz * node.schema.element_bytes() > memory.share(tuning().sampled_share):
        return Tensor(node.with_labels(axis_labels(scan)))
    block = engines.evaluate(Scan(node, View.identity(node.schema.shape), node.schema))
    return Tensor(MemoryHandle(MemoryRelation(node.schema, block, read_labels(scan))))


def _check_memory(left: NDArray[Any], right: NDArray[Any], dtype: np.dtype[Any]) -> None:
    """Raise unless the arrays as the kernel takes them fit in memory."""
    summed = accumulator_dtype(dtype)
    copied = sum(each.size for each in (left, right) if each.dtype != summed or not each.flags.c_contiguous)
    memory.check(copied * summed.itemsize, "copies of the arrays of sddmm", "take a part of S")
