"""Vectors and matrices as BLAS takes them, tensors and arrays alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparrow.errors import InvalidValueError, ShapeError, UnsupportedError
from sparrow.functions.elementwise import factor
from sparrow.functions.generation import zeros_like
from sparrow.functions.labels import at_labels, check_space, meet, shown, space_axis
from sparrow.plan import names_along
from sparrow.tensor import Tensor

__all__ = [
    "added", "along", "check_turn", "conjugated", "matrix", "meet", "mirror", "mirrored", "multiplied", "nothing",
    "number", "scaled", "square", "triangle", "triangular", "turned", "vector",
]  # fmt: skip


def number(given: Any, name: str) -> Any:
    """Return a factor, if it is a number.

    Raises
    ------
    InvalidValueError
        If it is none.
    """
    try:
        found = np.asarray(given)
    except ValueError:  # a ragged list
        found = np.empty(0)
    if found.ndim or found.dtype.kind not in "biufc":
        raise InvalidValueError(f"{name}={given!r}: give a number")
    return given if isinstance(given, bool | int | float | complex) else found[()]


def vector(x: Any, name: str) -> Any:
    """Return an operand as a vector: one dimension, or a matrix of one row or column.

    Raises
    ------
    ShapeError
        If it has another shape.
    """
    found = factor(x, name)
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
    found = factor(A, name)
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


def triangular(A: Any, name: str, what: str) -> Any:
    """Return an operand as a square matrix of which a triangle is taken.

    Raises
    ------
    ShapeError
        If it is not square.
    UnsupportedError
        If it is a tensor whose fill is not 0.
    """
    found = square(A, name)
    if isinstance(found, Tensor) and found.fill_value != 0:
        raise UnsupportedError(
            f"{what}: absent cells of {name} are {found.fill_value}, so that a triangle of it is dense: use "
            f"{name}.refill(0) first"
        )
    return found


def mirrored(alpha: Any, A: Any, name: str, what: str) -> Any:
    """Return an operand as a square matrix of which one triangle is the mirror of the other; zeros for a factor of 0.

    Raises
    ------
    ShapeError
        If it is not square.
    LabelError
        If rows and columns have labels that differ.
    UnsupportedError
        If it is a tensor whose fill is not 0.
    """
    found = square(A, name)
    check_space(found, name)
    return nothing(found) if alpha == 0 and isinstance(found, Tensor) else triangular(found, name, what)


def along(x: Any, A: Any) -> Any:
    """Return what such a matrix is multiplied with, its first axis at the labels of both rows and columns."""
    return at_labels(x, A, space_axis(A))


def nothing(x: Any) -> Any:
    """Return zeros like a vector or a matrix, of which no cell is read."""
    if not isinstance(x, Tensor):
        return np.zeros_like(x)
    return shown(zeros_like(x).__sparrow_scan__(), names_along(x.__sparrow_scan__()))


def conjugated(x: Any) -> Any:
    """Return complex cells conjugated, others as they are."""
    return np.conj(x) if x.dtype.kind == "c" else x


def check_turn(trans: int, name: str) -> None:
    """Raise ``InvalidValueError`` unless this says how a matrix is taken."""
    if trans not in (0, 1, 2):
        raise InvalidValueError(f"{name}={trans!r}: give 0, 1 for the transpose or 2 for its conjugate")


def turned(A: Any, trans: int, name: str = "trans") -> Any:
    """Return a matrix as it is (0), transposed (1), or transposed and conjugated (2)."""
    check_turn(trans, name)
    if not trans:
        return A
    return A.T if trans == 1 else conjugated(A).T


def mirror(part: Any, trans: int = 1) -> Any:
    """Return a triangle on the other side of the diagonal, transposed as by :func:`turned`, its names as they were."""
    found = turned(part, trans)
    return found.rename(dict(zip(part.dims, part.dims[::-1], strict=True))) if isinstance(part, Tensor) else found


def triangle(A: Any, lower: bool, k: int = 0) -> Any:
    """Return a triangle of a matrix, beginning ``k`` diagonals off the main one."""
    return np.tril(A, -k) if lower else np.triu(A, k)


def scaled(alpha: Any, product: Any) -> Any:
    """Return a product times a factor; 1 leaves it as it is, unless it is of a type that the product takes on."""
    if alpha == 1 and (isinstance(alpha, int) or np.result_type(alpha, product.dtype) == product.dtype):
        return product
    return alpha * product


def multiplied(alpha: Any, left: Any, right: Any) -> Any:
    """Return the product of a matrix and a vector or a matrix, zeros without a look at them where the factor is 0.

    Raises
    ------
    ShapeError
        If they do not fit, and have no labels to be aligned by.
    """
    if meet(left, right, 1):
        return left @ right if alpha != 0 else nothing(left[:, :0]) @ nothing(right[:0])
    if right.ndim == 1:
        raise ShapeError(f"op(A) of shape {left.shape} and x of {right.shape[0]} cells do not fit")
    raise ShapeError(f"matrices of shapes {left.shape} and {right.shape} do not fit")


def added(product: Any, beta: Any, y: Any, name: str, left: Any = None, right: Any = None) -> Any:
    """Return a product plus ``beta * y``; without y, or where ``beta`` is 0, the product: y is not read then.

    The sides that were multiplied say what the labels of a product are that is an array.

    Raises
    ------
    ShapeError
        If y has another shape, and no labels to be aligned by.
    LabelError
        If the product is an array, and y has labels that its sides lack.
    """
    beta = number(beta, "beta")
    if y is None:
        return product
    other = vector(y, name) if product.ndim == 1 else matrix(y, name)
    if beta == 0:
        return product
    if not isinstance(product, Tensor):
        other = at_labels(other, left, 0, name, "adding")
        if other.ndim == 2:
            other = at_labels(other.T, right, 1, name, "adding").T
    if not all(meet(other, product, axis, axis) for axis in range(product.ndim)):
        raise ShapeError(f"{name} has shape {other.shape}, the product {product.shape}")
    return product + scaled(beta, other)
