"""NumPy fallback of product kernels, for :mod:`sparrow.kernels.dispatch`.

Sums run in the same order as in the kernels, so the bits are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparrow.kernels.dispatch import prefer_numpy

__all__ = ["count_products", "is_supported", "masked_spgemm", "multiply_unfused", "prefers_fallback", "spgemm"]

_PRODUCT_WORK = 4
"""Work of a product, which NumPy sorts, relative to that of an element."""

_KINDS = "iuf"
"""Dtype kinds for which NumPy gives the same bits as the kernels."""


def _minimum(a: Any, b: Any) -> Any:
    return np.where((a < b) | (a != a), a, b)  # the last of equal zeros, as in the kernels


def _maximum(a: Any, b: Any) -> Any:
    return np.where((a > b) | (a != a), a, b)


_MULTIPLY: dict[str, Callable[[Any, Any], Any]] = {
    "plus": np.add, "times": np.multiply, "min": _minimum, "max": _maximum, "and": np.bitwise_and,
    "first": lambda a, b: a, "second": lambda a, b: b, "pair": lambda a, b: np.ones_like(a),
}  # fmt: skip
_ADD: dict[str, Any] = {"plus": np.add, "min": np.minimum, "max": np.maximum, "or": np.bitwise_or, "any": None}


def is_supported(add: Any, multiply: Any, dtype: np.dtype[Any]) -> bool:
    """Return whether NumPy has a semiring's operations on a dtype, bit for bit."""
    product = getattr(multiply, "of", multiply)
    return all(isinstance(each, str) for each in (add, product)) and dtype.kind in _KINDS


def prefers_fallback(kernel: str, add: Any, multiply: Any, dtype: np.dtype[Any], products: int) -> bool:
    """Return whether NumPy multiplies in place of the kernel of a semiring."""
    if not is_supported(add, multiply, dtype):
        return False
    return prefer_numpy((kernel, add, multiply, dtype), _PRODUCT_WORK * products)


def multiply_unfused(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Return the product of two arrays of one dtype, with the bits of the kernels.

    NumPy fuses the multiplications and additions of complex numbers where the processor can, the kernels never do.
    """
    if a.dtype.kind != "c":
        result: NDArray[Any] = a * b
        return result
    out = np.empty(np.broadcast_shapes(a.shape, b.shape), a.dtype)
    out.real = a.real * b.real - a.imag * b.imag
    out.imag = a.real * b.imag + a.imag * b.real
    return out


def count_products(lhs_indptr: NDArray[Any], lhs_indices: NDArray[Any], rhs_indptr: NDArray[Any]) -> NDArray[np.int64]:
    """Return the number of products before each row, and in total, shape (m + 1,)."""
    before = np.zeros(len(lhs_indices) + 1, np.int64)
    np.cumsum(rhs_indptr[lhs_indices + 1] - rhs_indptr[lhs_indices], out=before[1:])
    result: NDArray[np.int64] = before[lhs_indptr]
    return result


def spgemm(
    add: Any, multiply: Any, width: int, lhs_indptr: NDArray[Any], lhs_indices: NDArray[Any], lhs_data: NDArray[Any],
    rhs_indptr: NDArray[Any], rhs_indices: NDArray[Any], rhs_data: NDArray[Any], mask_begins: NDArray[Any], mask_ends:
    NDArray[Any], mask_columns: NDArray[Any], fill: Any,
) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[Any]]:  # fmt: skip
    """Return the product of two CSR matrices as CSR: indptr, indices, data.

    Parameters
    ----------
    add, multiply
        Operations that :func:`is_supported` accepts; ``multiply`` takes the left value first.
    width
        Number of columns.
    lhs_indptr, lhs_indices, lhs_data, rhs_indptr, rhs_indices, rhs_data, mask_begins, mask_ends, mask_columns, fill
        As for the kernel ``rows`` of :mod:`sparrow.kernels.matmul.spgemm`; products at mask elements are dropped.
    """
    height = len(lhs_indptr) - 1
    keys, out = _accumulate(add, multiply, width, lhs_indptr, lhs_indices, lhs_data, rhs_indptr, rhs_indices, rhs_data)
    kept = out != fill
    if len(mask_begins):
        kept &= ~np.isin(keys, _mask_keys(width, mask_begins, mask_ends, mask_columns)[0])
    keys = keys[kept]
    indptr = np.searchsorted(keys, np.arange(height + 1) * width)
    return indptr, (keys % max(width, 1)).astype(np.uint32), out[kept]


def masked_spgemm(
    add: Any, multiply: Any, width: int, lhs_indptr: NDArray[Any], lhs_indices: NDArray[Any], lhs_data: NDArray[Any],
    rhs_indptr: NDArray[Any], rhs_indices: NDArray[Any], rhs_data: NDArray[Any], mask_begins: NDArray[Any], mask_ends:
    NDArray[Any], mask_columns: NDArray[Any], fill: Any,
) -> tuple[NDArray[np.int64], NDArray[Any]]:  # fmt: skip
    """Return the positions of mask elements that have products, and their sums.

    Parameters
    ----------
    add, multiply, width, lhs_indptr, lhs_indices, lhs_data, rhs_indptr, rhs_indices, rhs_data, fill
        As for :func:`spgemm`.
    mask_begins, mask_ends, mask_columns
        As for :func:`sparrow.kernels.matmul.masked.build_masked`.
    """
    keys, out = _accumulate(add, multiply, width, lhs_indptr, lhs_indices, lhs_data, rhs_indptr, rhs_indices, rhs_data)
    mask_keys, at = _mask_keys(width, mask_begins, mask_ends, mask_columns)
    place = np.searchsorted(keys, mask_keys)
    kept = np.append(keys, -1)[place] == mask_keys
    kept[kept] = out[place[kept]] != fill
    return at[kept], out[place[kept]]


def _mask_keys(
    width: int, mask_begins: NDArray[Any], mask_ends: NDArray[Any], mask_columns: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the keys ``row * width + column`` of mask elements, and their positions."""
    counts = (mask_ends - mask_begins).astype(np.int64)
    rows = np.repeat(np.arange(len(mask_begins)), counts)
    at = np.arange(len(rows)) + np.repeat(mask_begins.astype(np.int64) - (np.cumsum(counts) - counts), counts)
    return rows * width + mask_columns[at].astype(np.int64), at


def _accumulate(
    add: Any, multiply: Any, width: int, lhs_indptr: NDArray[Any], lhs_indices: NDArray[Any], lhs_data: NDArray[Any],
    rhs_indptr: NDArray[Any], rhs_indices: NDArray[Any], rhs_data: NDArray[Any],
) -> tuple[NDArray[np.int64], NDArray[Any]]:  # fmt: skip
    """Return the sorted composite keys of products, and their sums."""
    first, last = rhs_indptr[lhs_indices].astype(np.int64), rhs_indptr[lhs_indices + np.uint32(1)].astype(np.int64)
    counts = last - first
    own = np.repeat(np.arange(len(lhs_indices)), counts)
    at = np.arange(len(own)) + np.repeat(first - (np.cumsum(counts) - counts), counts)
    lengths = (lhs_indptr[1:] - lhs_indptr[:-1]).astype(np.int64)
    row = np.repeat(np.arange(len(lengths)), lengths)[own]
    key = row * width + rhs_indices[at].astype(np.int64)
    order = np.argsort(key, kind="stable")
    key = key[order]
    fresh = np.ones(len(key), bool)
    np.not_equal(key[1:], key[:-1], out=fresh[1:])
    with np.errstate(all="ignore"):
        times = _MULTIPLY[multiply] if isinstance(multiply, str) else multiply
        values = times(lhs_data[own], rhs_data[at]).astype(lhs_data.dtype, copy=False)[order]
        out = values[fresh]
        if add != "any" and len(out) < len(values):
            cell = np.cumsum(fresh) - 1
            _ADD[add].at(out, cell[~fresh], values[~fresh])
            if add in ("min", "max") and lhs_data.dtype.kind == "f":  # the last of equal zeros
                zero = (values == 0) & (out[cell] == 0)
                out[cell[zero]] = values[zero]
    return key[fresh], out
