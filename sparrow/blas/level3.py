"""BLAS level 3: matrices."""

from __future__ import annotations

from typing import Any

from sparrow.blas.level2 import solved
from sparrow.blas.operands import (
    added,
    along,
    check_turn,
    conjugated,
    matrix,
    mirror,
    mirrored,
    multiplied,
    nothing,
    number,
    scaled,
    square,
    triangle,
    turned,
)

__all__ = ["gemm", "symm", "syrk", "trsm"]


def gemm(alpha: Any, A: Any, B: Any, beta: Any = 0, C: Any = None, trans_a: int = 0, trans_b: int = 0) -> Any:
    """Return ``alpha * op(A) @ op(B) + beta * C``.

    Parameters
    ----------
    alpha
        A number; with 0 A and B are not read.
    A, B
        Matrices, tensors or arrays.
    beta, C
        A number and a matrix, tensor or array, to be added; without ``beta`` C is not read.
    trans_a, trans_b
        0 for the matrix, 1 for its transpose, 2 for the conjugate of it.

    Returns
    -------
    Tensor or ndarray
        An array where one of them is; of tensors lazy.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    InvalidValueError
        If ``trans_a`` or ``trans_b`` is none of these.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[0, 2], [1, 0]])
    >>> sp.blas.gemm(1, A, A, trans_a=1).to_numpy(), sp.blas.gemm(10, A, [[1, 2], [3, 4]])
    (array([[1, 0],
            [0, 4]]), array([[60, 80],
            [10, 20]]))
    """
    factor = number(alpha, "alpha")
    left, right = turned(matrix(A, "A"), trans_a, "trans_a"), turned(matrix(B, "B"), trans_b, "trans_b")
    return added(scaled(factor, multiplied(factor, left, right)), beta, C, "C", left, right)


def symm(alpha: Any, A: Any, B: Any, beta: Any = 0, C: Any = None, side: bool = False, lower: bool = False) -> Any:
    """Return ``alpha * A @ B + beta * C`` for a symmetric A, of which one triangle is read.

    Parameters
    ----------
    alpha
        A number; with 0 A and B are not read.
    A
        A square matrix, tensor or array.
    B
        A matrix, tensor or array.
    beta, C
        A number and a matrix, tensor or array, to be added; without ``beta`` C is not read.
    side
        Whether A is on the right: ``B @ A``.
    lower
        Whether it is the lower triangle of A that is read.

    Returns
    -------
    Tensor or ndarray
        An array where one of them is; of tensors lazy.

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
    >>> sp.blas.symm(1, sp.asarray([[1, 2], [9, 3]]), [[1, 0], [10, 1]])
    array([[21,  2],
           [32,  3]])
    """
    factor, other = number(alpha, "alpha"), matrix(B, "B")
    whole = mirrored(factor, A, "A", "symm")
    other = along(other.T, whole).T if side else along(other, whole)
    parts = (triangle(whole, lower), mirror(triangle(whole, lower, 1)))
    one, two = (multiplied(factor, *((other, part) if side else (part, other))) for part in parts)
    left, right = (other, whole) if side else (whole, other)
    return added(scaled(factor, one + two), beta, C, "C", left, right)


def syrk(alpha: Any, A: Any, beta: Any = 0, C: Any = None, trans: bool = False) -> Any:
    """Return ``alpha * A @ A.T + beta * C``, both triangles.

    Parameters
    ----------
    alpha
        A number; with 0 A is not read.
    A
        A matrix, tensor or array.
    beta, C
        A number and a matrix, tensor or array, to be added; without ``beta`` C is not read.
    trans
        Whether it is ``A.T @ A``.

    Returns
    -------
    Tensor or ndarray
        An array where one of them is; of tensors lazy.

    Raises
    ------
    ShapeError
        If the shapes do not fit.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.blas.syrk(1, sp.asarray([[0, 2, 0], [1, 0, 4]])).to_numpy()
    array([[ 4,  0],
           [ 0, 17]])
    """
    return gemm(alpha, A, A, beta, C, int(trans), int(not trans))


def trsm(
    alpha: Any,
    A: Any,
    B: Any,
    side: bool = False,
    lower: bool = False,
    trans_a: int = 0,
    diag: bool = False,
) -> Any:
    """Solve ``op(A) @ X = alpha * B`` for a triangular A, in memory, by SciPy; one triangle is read.

    Parameters
    ----------
    alpha
        A number.
    A
        A square matrix, tensor or array.
    B
        The right-hand sides, a tensor or array.
    side
        Whether A is on the right: ``X @ op(A) = alpha * B``.
    lower
        Whether A is the lower triangle.
    trans_a
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
        If ``trans_a`` is none of these.
    UnsupportedError
        If A is a tensor whose fill is not 0: ``A.refill(0)`` has 0 there.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.blas.trsm(2, sp.asarray([[4.0, 1.0], [9.0, 3.0]]), [[5.0], [3.0]])
    array([[2.],
           [2.]])
    """
    check_turn(trans_a, "trans_a")
    factor, right = number(alpha, "alpha"), matrix(B, "B")
    right = scaled(factor, right if factor != 0 else nothing(right))
    if not side:
        return solved(A, right, lower, trans_a, diag, "trsm")
    # X @ op(A) = B is op(A).T @ X.T = B.T; of a conjugated one conj(A) @ X.T = B.T.
    whole = conjugated(square(A, "A")) if trans_a == 2 else A
    return solved(whole, right.T, lower, int(not trans_a), diag, "trsm").T
