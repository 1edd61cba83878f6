"""Sampled dense-dense matrix multiplication (SDDMM)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparrow import engines
from sparrow.core.schema import Schema, check_dtype
from sparrow.core.storage_types import infer_function, resolve_stype
from sparrow.errors import ShapeError, UnsupportedError
from sparrow.functions.elementwise import as_factor
from sparrow.functions.labels import can_align
from sparrow.functions.tuning import tuning
from sparrow.functions.views import as_tensor
from sparrow.kernels.coo import Block, accumulator_dtype, filter_block
from sparrow.kernels.jit.warmup import as_readonly
from sparrow.kernels.matmul import numpy_fallback
from sparrow.relations.memory import MemoryHandle, MemoryRelation
from sparrow.runtime import memory, progress, settings
from sparrow.runtime.thread_pool import ordered_map
from sparrow.tensor import Tensor
from sparrow.tensor.base import read_labels
from sparrow.tensor.products import matmul

__all__ = ["sddmm"]

_LANES = 8
"""Partial sums of a row in the compiled loop, which the NumPy fallback adds in the same order."""


def sddmm(S: Tensor, X: Tensor | ArrayLike, Y: Tensor | ArrayLike) -> Tensor:
    """Return ``S * (X @ Y)``, computed at the stored elements of ``S``.

    For two arrays it is computed at once, in batches, in time proportional to ``S.nnz * K``. If one is a tensor the
    result is lazy: the product of tensors with mask ``S``.

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
        If the stored elements would exceed the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> S = sp.asarray([[0, 1], [2, 0]])
    >>> sp.sddmm(S, [[1.0], [10.0]], [[3.0, 5.0]]).to_numpy()
    array([[ 0.,  5.],
           [60.,  0.]])
    """
    pattern = as_tensor(S)
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
    block = engines.evaluate(scan)
    if dtype == product:
        values = _sample_products(block, left, right, dtype)
    else:  # X @ Y has its own dtype, in which integers wrap
        sums = _sample_products(Block(block.coords, np.ones(block.count, product)), left, right, product)
        with np.errstate(all="ignore"):
            values = np.multiply(block.values, sums, dtype=dtype)
    found = filter_block(Block(block.coords, values), values != 0)
    kind = resolve_stype(
        "multiply", [pattern.stype, "dense"], infer_function("multiply", [pattern.stype, "dense"], True)
    )
    schema = Schema(pattern.shape, pattern.dims, dtype, 0, kind)
    return Tensor(MemoryHandle(MemoryRelation(schema, found, read_labels(scan))))


def _sample_products(block: Block, left: NDArray[Any], right: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return values times the product of two arrays at their coordinates."""
    summed, right = accumulator_dtype(dtype), right.T
    copied = sum(each.size for each in (left, right) if each.dtype != summed or not each.flags.c_contiguous)
    room = block.count * max(dtype.itemsize, summed.itemsize) + copied * summed.itemsize
    memory.check(room, "the values of sddmm and copies of its arrays", "take a part of S")
    with np.errstate(all="ignore"):
        rows, columns = np.ascontiguousarray(left, summed), np.ascontiguousarray(right, summed)
        given, out = block.values.astype(summed, copy=False), np.empty(block.count, summed)
        if numpy_fallback.use_numpy(block.count * left.shape[1]):
            there = rows[block.coords[0]], columns[block.coords[1]]
            np.multiply(given, _sum_in_lanes(np.multiply(*there)), out=out)
        else:
            from sparrow.kernels.matmul import sddmm

            multiply: Any = sddmm.sddmm
            arrays = (*map(as_readonly, (*block.coords, given)),)
            factors = as_readonly(rows), as_readonly(columns)
            batch = tuning().sddmm_batch_elements

            def multiply_batch(start: int) -> int:
                part = slice(start, start + batch)
                multiply(*(array[part] for array in arrays), *factors, out[part])
                return len(out[part])

            with progress.bar("multiplying", block.count, "elements") as advance:
                starts = list(range(0, block.count, batch))
                for done in ordered_map(multiply_batch, starts, settings.current().threads):
                    advance(done)
        return out != 0 if dtype.kind == "b" else out.astype(dtype, copy=False)


def _sum_in_lanes(products: NDArray[Any]) -> NDArray[Any]:
    """Return row sums in the order of the compiled loop: eight partial sums."""
    lanes = np.zeros((len(products), _LANES), products.dtype)
    for first in range(0, products.shape[1], _LANES):
        part = products[:, first : first + _LANES]
        lanes[:, : part.shape[1]] += part
    while lanes.shape[1] > 1:
        half = lanes.shape[1] // 2
        lanes = lanes[:, :half] + lanes[:, half:]
    return lanes[:, 0]
