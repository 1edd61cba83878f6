"""Vectors and matrices as BLAS takes them, tensors and arrays alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparrow.errors import ShapeError
from sparrow.functions.elementwise import operand
from sparrow.functions.manipulation import tril, triu
from sparrow.tensor import Tensor

__all__ = ["added", "matrix", "scaled", "square", "triangle", "turned", "vector"]


def vector(x: Any, name: str) -> Any:
    """Return an operand as a vector: one dimension, or a matrix of one row or column.

    Raises
    ------
    ShapeError
        If it has another shape.
    """
    found: Any = operand(np.asarray(x) if np.isscalar(x) else x)
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
    found: Any = operand(np.asarray(A) if np.isscalar(A) else A)
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


def turned(A: Any, trans: int) -> Any:
    """Return a matrix as it is (0), transposed (1), or transposed and conjugated (2)."""
    if trans not in (0, 1, 2):
        raise ShapeError(f"trans={trans!r} must be 0, 1 for the transpose or 2 for its conjugate")
    if not trans:
        return A
    return A.T if trans == 1 or A.dtype.kind != "c" else np.conj(A).T


def triangle(A: Any, lower: bool, k: int = 0) -> Any:
    """Return a triangle of a matrix, beginning ``k`` diagonals off the main one."""
    if isinstance(A, Tensor):
        return tril(A, -k) if lower else triu(A, k)
    return np.tril(A, -k) if lower else np.triu(A, k)


def scaled(alpha: Any, product: Any) -> Any:
    """Return a product times a factor; 1 leaves it as it is."""
    return product if np.ndim(alpha) == 0 and alpha == 1 else alpha * product


def added(product: Any, beta: Any, y: Any, name: str) -> Any:
    """Return a product plus ``beta * y``; without y, or where ``beta`` is 0, the product: y is not read then."""
    if y is None or beta == 0:
        return product
    other: Any = operand(np.asarray(y) if np.isscalar(y) else y)
    if other.shape != product.shape:
        raise ShapeError(f"{name} has shape {other.shape}, the product {product.shape}")
    return product + scaled(beta, other)
