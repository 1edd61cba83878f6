"""Operands of BLAS routines: conversion, alignment and scaling."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparrow.errors import InvalidValueError, ShapeError, UnsupportedError
from sparrow.functions.elementwise import as_factor
from sparrow.functions.generation import zeros_like
from sparrow.functions.labels import align_to_axis, can_align, check_same_labels, find_labelled_axis, to_labelled_tensor
from sparrow.plan import axis_labels
from sparrow.runtime.docs import SharedText
from sparrow.tensor import Tensor

__all__ = [
    "add_scaled", "align", "as_matrix", "as_square", "as_symmetric", "as_triangular", "as_vector", "check_scalar",
    "check_trans", "conjugate", "multiply", "reflect", "scale", "shared", "transpose", "triangle", "zeros_of",
]  # fmt: skip

shared = SharedText(
    x="""
    x
        Vector: a 1-D tensor or array, or a matrix of one row or column.
    """,
    xy="""
    x, y
        Vectors of equal length, tensors or arrays; labelled tensors are aligned.
    """,
    indices="""
    indices
        Positions, 1-D, in any order and possibly repeated; or a boolean mask of the length of y.
    """,
    alpha="""
    alpha
        Scalar factor. With 0 the other factors of the product are not read.
    """,
    beta_y="""
    beta, y
        Scalar and vector to add. With ``beta=0`` y is not read.
    """,
    beta_c="""
    beta, C
        Scalar and matrix to add. With ``beta=0`` C is not read.
    """,
    matrix="""
    A
        Matrix, shape (m, n), tensor or array.
    """,
    square="""
    A
        Square matrix, tensor or array.
    """,
    trans="""
    trans
        op(A): 0 for A, 1 for its transpose, 2 for its conjugate transpose.
    """,
    lower="""
    lower
        Read the lower triangle of A instead of the upper one; the other triangle is ignored.
    """,
    diag="""
    diag
        Take the diagonal as 1 without reading it.
    """,
    lazy_result="""
    Tensor or ndarray
        A lazy tensor if all operands are tensors, else an array.
    """,
    vector_errors="""
    ShapeError
        If an operand is not a vector, or lengths differ.
    """,
    index_errors="""
    ShapeError
        If an operand is not a vector, ``indices`` is not 1-D, or lengths differ.
    IndexError
        If an index is out of range.
    """,
    shape_error="""
    ShapeError
        If the shapes do not match.
    """,
    symmetric_errors="""
    ShapeError
        If the shapes do not match.
    LabelError
        If rows and columns of A have different labels.
    UnsupportedError
        If A is a tensor with a nonzero fill value and ``alpha`` is not 0: pass ``A.refill(0)``.
    """,
    solve_errors="""
    ShapeError
        If the shapes do not match.
    InvalidValueError
        If ``trans`` or ``trans_a`` is not 0, 1 or 2.
    SingularError
        If A is singular.
    TooLargeError
        If the matrix exceeds the memory limit.
    UnsupportedError
        If A is a tensor with a nonzero fill value: pass ``A.refill(0)``.
    """,
)


def check_scalar(value: Any, name: str) -> Any:
    """Return a scalar factor; raise ``InvalidValueError`` for anything else."""
    try:
        result = np.asarray(value)
    except ValueError:  # a ragged list
        result = np.empty(0)
    if result.ndim or result.dtype.kind not in "biufc":
        raise InvalidValueError(f"{name} must be a number, got {value!r}")
    return value if isinstance(value, bool | int | float | complex) else result[()]


def as_vector(x: Any, name: str) -> Any:
    """Return a 1-D operand; a matrix of one row or column is squeezed."""
    result = as_factor(x, name)
    if result.ndim == 2 and 1 in result.shape:
        return result[0] if result.shape[0] == 1 else result[:, 0]
    if result.ndim != 1:
        raise ShapeError(f"{name} must be a vector, got shape {result.shape}: take a slice")
    return result


def as_matrix(A: Any, name: str) -> Any:
    """Return a 2-D operand."""
    result = as_factor(A, name)
    if result.ndim != 2:
        raise ShapeError(f"{name} must be a matrix, got shape {result.shape}: take a slice")
    return result


def as_square(A: Any, name: str) -> Any:
    """Return an operand as a square matrix."""
    result = as_matrix(A, name)
    if result.shape[0] != result.shape[1]:
        raise ShapeError(f"{name} must be a square matrix, got shape {result.shape}")
    return result


def as_triangular(A: Any, name: str, routine: str) -> Any:
    """Return a square matrix whose triangles are sparse: its fill value must be 0."""
    result = as_square(A, name)
    if isinstance(result, Tensor) and result.fill_value != 0:
        raise UnsupportedError(
            f"{routine}: fill value of {name} must be 0, got {result.fill_value}: pass {name}.refill(0)"
        )
    return result


def as_symmetric(alpha: Any, A: Any, name: str, routine: str) -> Any:
    """Return a square matrix with equal labels on both axes; zeros if ``alpha`` is 0."""
    result = as_square(A, name)
    check_same_labels(result, name)
    return zeros_of(result) if alpha == 0 and isinstance(result, Tensor) else as_triangular(result, name, routine)


def align(x: Any, A: Any) -> Any:
    """Return a vector or matrix aligned with the labels of a symmetric matrix."""
    return align_to_axis(x, A, find_labelled_axis(A))


def zeros_of(x: Any) -> Any:
    """Return zeros of the shape, dtype and labels of an operand, without reading it."""
    if not isinstance(x, Tensor):
        return np.zeros_like(x)
    return to_labelled_tensor(zeros_like(x).__sparrow_scan__(), axis_labels(x.__sparrow_scan__()))


def conjugate(x: Any) -> Any:
    """Return the complex conjugate; a real operand is returned as it is."""
    return np.conj(x) if x.dtype.kind == "c" else x


def check_trans(trans: int, name: str) -> None:
    """Raise ``InvalidValueError`` unless ``trans`` is 0, 1 or 2."""
    if trans not in (0, 1, 2):
        raise InvalidValueError(f"{name} must be 0, 1 (transpose) or 2 (conjugate transpose), got {trans!r}")


def transpose(A: Any, trans: int, name: str = "trans") -> Any:
    """Return op(A): A (0), its transpose (1) or its conjugate transpose (2)."""
    check_trans(trans, name)
    if not trans:
        return A
    return A.T if trans == 1 else conjugate(A).T


def reflect(part: Any, trans: int = 1) -> Any:
    """Return the (conjugate) transpose of a triangle under its original names."""
    result = transpose(part, trans)
    return result.rename(dict(zip(part.dims, part.dims[::-1], strict=True))) if isinstance(part, Tensor) else result


def triangle(A: Any, lower: bool, k: int = 0) -> Any:
    """Return a triangle of a matrix, from the ``k``-th diagonal outward."""
    return np.tril(A, -k) if lower else np.triu(A, k)


def scale(alpha: Any, product: Any) -> Any:
    """Return ``alpha * product``, without a copy if nothing changes."""
    if alpha == 1 and (isinstance(alpha, int) or np.result_type(alpha, product.dtype) == product.dtype):
        return product
    return alpha * product


def multiply(alpha: Any, left: Any, right: Any) -> Any:
    """Return ``left @ right``; zeros, without reading the factors, if ``alpha`` is 0."""
    if can_align(left, right, 1):
        return left @ right if alpha != 0 else zeros_of(left[:, :0]) @ zeros_of(right[:0])
    if right.ndim == 1:
        raise ShapeError(f"x must have length {left.shape[1]}, got {right.shape[0]}: op(A) has shape {left.shape}")
    raise ShapeError(f"inner dimensions must be equal, got shapes {left.shape} and {right.shape}")


def add_scaled(product: Any, beta: Any, y: Any, name: str, left: Any = None, right: Any = None) -> Any:
    """Return ``product + beta * y``; ``product`` if y is None or ``beta`` is 0.

    Parameters
    ----------
    product
        Tensor or array.
    beta, y
        Scalar, and vector or matrix to add.
    name
        Argument name of ``y``.
    left, right
        Factors of ``product``; an array takes the labels of its axes from them.

    Raises
    ------
    ShapeError
        If ``y`` has another shape and cannot be aligned by label.
    LabelError
        If ``product`` is an array and ``y`` has labels that the factors lack.
    """
    beta = check_scalar(beta, "beta")
    if y is None:
        return product
    other = as_vector(y, name) if product.ndim == 1 else as_matrix(y, name)
    if beta == 0:
        return product
    if not isinstance(product, Tensor):
        other = align_to_axis(other, left, 0, name, "adding")
        if other.ndim == 2:
            other = align_to_axis(other.T, right, 1, name, "adding").T
    if not all(can_align(other, product, axis, axis) for axis in range(product.ndim)):
        raise ShapeError(f"{name} must have the shape of the product, {product.shape}, got {other.shape}")
    return product + scale(beta, other)
