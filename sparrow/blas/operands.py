"""Vectors and matrices as BLAS takes them, tensors and arrays alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparrow.errors import ShapeError
from sparrow.functions.elementwise import factor

__all__ = ["added", "conjugated", "matrix", "multiplied", "scaled", "square", "triangle", "turned", "vector"]


def vector(x: Any, name: str) -> Any:
    """Return an operand as a vector: one dimension, or a matrix of one row or column.

    Raises
    ------
    ShapeError
        If it has another shape.
    """
    found = factor(x)
    if found.ndim == 2 and 1 in found.shape:
        return found[0] if found.shape[0] == 1 else found[:, 0]
    if found.ndim != 1:
        raise ShapeError(f"{name} is a vector, not of shape {found.shape}: take a slice")
    return found


def matrix(A: Any, name: str) -> Any:
    """Return an operand as a matrix.

    Raises
    ------
    ShapeError
        If it has not two dimensions.
    """
    found = factor(A)
    if found.ndim != 2:
        raise ShapeError(f"{name} is a matrix, not of shape {found.shape}: take a slice")
    return found


def square(A: Any, name: str) -> Any:
    """Return an operand as a square matrix.

    Raises
    ------
    ShapeError
        If it is none.
    """
    found = matrix(A, name)
    if found.shape[0] != found.shape[1]:
        raise ShapeError(f"{name} is a square matrix, not of shape {found.shape}")
    return found


def conjugated(x: Any) -> Any:
    """Return complex cells conjugated, others as they are."""
    return np.conj(x) if x.dtype.kind == "c" else x


def turned(A: Any, trans: int) -> Any:
    """Return a matrix as it is (0), transposed (1), or transposed and conjugated (2)."""
    if trans not in (0, 1, 2):
        raise ShapeError(f"trans={trans!r} must be 0, 1 for the transpose or 2 for its conjugate")
    if not trans:
        return A
    return A.T if trans == 1 else conjugated(A).T


def triangle(A: Any, lower: bool, k: int = 0) -> Any:
    """Return a triangle of a matrix, beginning ``k`` diagonals off the main one."""
    return np.tril(A, -k) if lower else np.triu(A, k)


def scaled(alpha: Any, product: Any) -> Any:
    """Return a product times a factor; 1 leaves it as it is."""
    return product if np.ndim(alpha) == 0 and alpha == 1 else alpha * product


def multiplied(left: Any, right: Any) -> Any:
    """Return the product of a matrix and a vector or a matrix.

    Raises
    ------
    ShapeError
        If they do not fit.
    """
    if left.shape[1] == right.shape[0]:
        return left @ right
    if right.ndim == 1:
        raise ShapeError(f"op(A) of shape {left.shape} and x of {right.shape[0]} cells do not fit")
    raise ShapeError(f"matrices of shapes {left.shape} and {right.shape} do not fit")


def added(product: Any, beta: Any, y: Any, name: str) -> Any:
    """Return a product plus ``beta * y``; without y, or where ``beta`` is 0, the product: y is not read then.

    Raises
    ------
    ShapeError
        If y has another shape.
    """
    if y is None:
        return product
    other = vector(y, name) if product.ndim == 1 else matrix(y, name)
    if beta == 0:
        return product
    if other.shape != product.shape:
        raise ShapeError(f"{name} has shape {other.shape}, the product {product.shape}")
    return product + scaled(beta, other)
