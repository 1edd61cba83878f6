"""BLAS level 2: a matrix and vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparrow.blas.operands import (
    added,
    along,
    conjugated,
    matrix,
    mirror,
    mirrored,
    multiplied,
    nothing,
    number,
    scaled,
    triangle,
    triangular,
    turned,
    vector,
)
from sparrow.errors import ShapeError
from sparrow.functions.labels import at_labels
from sparrow.functions.views import as_tensor

__all__ = ["gemv", "ger", "gerc", "hemv", "symv", "trsv"]


def gemv(alpha: Any, A: Any, x: Any, beta: Any = 0, y: Any = None, trans: int = 0) -> Any:
    """Return ``alpha * op(A) @ x + beta * y``.

    Parameters
    ----------
    alpha
        A number; with 0 A and x are not read.
    A
        A matrix of any shape, tensor or array.
    x
        A vector, tensor or array.
    beta, y
        A number and a vector, tensor or array, to be added; without ``beta`` y is not read.
    trans
        0 for A, 1 for its transpose, 2 for the conjugate of it.

    Returns
    -------
    Tensor or ndarray
        An array where x or y is one; of tensors lazy.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    InvalidValueError
        If ``trans`` is none of these.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> A = sp.asarray([[0, 2, 0], [1, 0, 4]])
    >>> sp.blas.gemv(2, A, [1, 2, 3], 3, np.ones(2)), sp.blas.gemv(1, A, [1, 2], trans=1)
    (array([11., 29.]), array([2, 2, 8]))
    """
    factor, left = number(alpha, "alpha"), turned(matrix(A, "A"), trans)
    return added(scaled(factor, multiplied(factor, left, vector(x, "x"))), beta, y, "y", left)


def symv(alpha: Any, A: Any, x: Any, beta: Any = 0, y: Any = None, lower: bool = False) -> Any:
    """Return ``alpha * A @ x + beta * y`` for a symmetric A, of which one triangle is read.

    Parameters
    ----------
    alpha
        A number; with 0 A and x are not read.
    A
        A square matrix, tensor or array.
    x
        A vector, tensor or array.
    beta, y
        A number and a vector, tensor or array, to be added; without ``beta`` y is not read.
    lower
        Whether it is the lower triangle that is read; the other one may hold anything.

    Returns
    -------
    Tensor or ndarray
        An array where x or y is one; of tensors lazy.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    LabelError
        If rows and columns of A have labels that differ.
    UnsupportedError
        If A is a tensor whose fill is not 0, and ``alpha`` is not: ``A.refill(0)`` has 0 there.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.blas.symv(1, sp.asarray([[1, 2], [9, 3]]), [1, 10])
    array([21, 32])
    """
    factor = number(alpha, "alpha")
    whole = mirrored(factor, A, "A", "symv")
    right = along(vector(x, "x"), whole)
    parts = (triangle(whole, lower), mirror(triangle(whole, lower, 1)))
    one, two = (multiplied(factor, part, right) for part in parts)
    return added(scaled(factor, one + two), beta, y, "y", whole)


def hemv(alpha: Any, A: Any, x: Any, beta: Any = 0, y: Any = None, lower: bool = False) -> Any:
    """Return ``alpha * A @ x + beta * y`` for a Hermitian A, of which one triangle is read.

    Parameters
    ----------
    alpha
        A number; with 0 A and x are not read.
    A
        A square matrix, tensor or array; the diagonal counts as real.
    x
        A vector, tensor or array.
    beta, y
        A number and a vector, tensor or array, to be added; without ``beta`` y is not read.
    lower
        Whether it is the lower triangle that is read.

    Returns
    -------
    Tensor or ndarray
        An array where x or y is one; of tensors lazy.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    LabelError
        If rows and columns of A have labels that differ.
    UnsupportedError
        If A is a tensor whose fill is not 0, and ``alpha`` is not: ``A.refill(0)`` has 0 there.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.blas.hemv(1, sp.asarray([[1, 2j], [0, 3]]), [1, 10])
    array([ 1.+20.j, 30. -2.j])
    """
    factor = number(alpha, "alpha")
    whole = mirrored(factor, A, "A", "hemv")
    right = along(vector(x, "x"), whole)
    above = triangle(whole, lower, 1)
    diagonal = np.real(triangle(triangle(whole, lower), not lower))
    one, two, three = (multiplied(factor, part, right) for part in (above, mirror(above, 2), diagonal))
    return added(scaled(factor, one + two + three), beta, y, "y", whole)


def ger(alpha: Any, x: Any, y: Any, A: Any = None) -> Any:
    """Return ``alpha * outer(x, y) + A``, nothing conjugated.

    Parameters
    ----------
    alpha
        A number; with 0 x and y are not read.
    x, y
        Vectors, tensors or arrays.
    A
        A matrix, tensor or array; none counts as 0.

    Returns
    -------
    Tensor or ndarray
        An array where all operands are arrays, or A is; else lazy.

    Raises
    ------
    ShapeError
        If the shapes do not fit.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.blas.ger(2, sp.asarray([0, 1]), [1, 0, 3]).to_numpy()
    array([[0, 0, 0],
           [2, 0, 6]])
    """
    factor, sides = number(alpha, "alpha"), (vector(x, "x"), vector(y, "y"))
    product = np.outer(*(sides if factor != 0 else map(nothing, sides)))
    return added(scaled(factor, product), 1, A, "A")


def gerc(alpha: Any, x: Any, y: Any, A: Any = None) -> Any:
    """Return ``alpha * outer(x, conj(y)) + A``.

    Parameters
    ----------
    alpha
        A number; with 0 x and y are not read.
    x, y
        Vectors, tensors or arrays.
    A
        A matrix, tensor or array; none counts as 0.

    Returns
    -------
    Tensor or ndarray
        As of :func:`ger`.

    Raises
    ------
    ShapeError
        If the shapes do not fit.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.blas.gerc(1, sp.asarray([0, 1]), [1j, 0]).to_numpy()
    array([[0.+0.j, 0.+0.j],
           [0.-1.j, 0.+0.j]])
    """
    return ger(alpha, x, conjugated(vector(y, "y")), A)


def trsv(A: Any, x: Any, lower: bool = False, trans: int = 0, diag: bool = False) -> Any:
    """Solve ``op(A) @ y = x`` for a triangular A, in memory, by SciPy; one triangle is read.

    Parameters
    ----------
    A
        A square matrix, tensor or array.
    x
        The right-hand side, tensor or array.
    lower
        Whether A is the lower triangle.
    trans
        0 for A, 1 for its transpose, 2 for the conjugate of it.
    diag
        Whether the diagonal counts as 1, whatever it holds.

    Returns
    -------
    ndarray

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    TooLargeError
        If the matrix does not fit the memory limit.
    InvalidValueError
        If ``trans`` is none of these.
    UnsupportedError
        If A is a tensor whose fill is not 0: ``A.refill(0)`` has 0 there.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.blas.trsv(sp.asarray([[4.0, 1.0], [9.0, 3.0]]), [5.0, 3.0])
    array([1., 1.])
    """
    return solved(A, vector(x, "x"), lower, trans, diag, "trsv")


def solved(A: Any, right: Any, lower: bool, trans: int, diag: bool, what: str) -> Any:
    """Return the solution of a triangular system for a vector or a matrix, in the words of who asks."""
    whole = as_tensor(triangular(A, "A", what))
    right = at_labels(right, whole, int(bool(trans)), "the right-hand side", what)
    if whole.shape[0] != right.shape[0]:
        raise ShapeError(f"{what}: A of shape {whole.shape} and a right-hand side of {right.shape[0]} rows do not fit")
    from sparrow.linalg.direct import solve_triangle

    part, options = turned(triangle(whole, lower), trans), {"unit_diagonal": diag}
    return solve_triangle(part, np.asarray(right), lower != bool(trans), options, what)
