"""BLAS level 3: matrix-matrix operations."""

from __future__ import annotations

from typing import Any

from sparrow.blas.level2 import solve_triangular
from sparrow.blas.operands import (
    add_scaled,
    align,
    as_matrix,
    as_square,
    as_symmetric,
    check_scalar,
    check_trans,
    conjugate,
    multiply,
    reflect,
    scale,
    shared,
    transpose,
    triangle,
    zeros_of,
)
from sparrow.tensor.matching import label_operands

__all__ = ["gemm", "symm", "syrk", "trsm"]


@shared
def gemm(alpha: Any, A: Any, B: Any, beta: Any = 0, C: Any = None, trans_a: int = 0, trans_b: int = 0) -> Any:
    """Return ``alpha * op(A) @ op(B) + beta * C``.

    Parameters
    ----------
    %(alpha)s
    A, B
        Matrices, tensors or arrays.
    %(beta_c)s
    trans_a, trans_b
        op(A) and op(B): 0 for the matrix, 1 for its transpose, 2 for its conjugate transpose.

    Returns
    -------
    %(lazy_result)s

    Raises
    ------
    %(shape_error)s
    InvalidValueError
        If ``trans_a`` or ``trans_b`` is not 0, 1 or 2.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[0, 2], [1, 0]])
    >>> sp.blas.gemm(1, A, A, trans_a=1).to_numpy(), sp.blas.gemm(10, A, [[1, 2], [3, 4]])
    (array([[1, 0],
            [0, 4]]), array([[60, 80],
            [10, 20]]))
    """
    A, B, C = label_operands((A, B, C))
    factor = check_scalar(alpha, "alpha")
    left, right = transpose(as_matrix(A, "A"), trans_a, "trans_a"), transpose(as_matrix(B, "B"), trans_b, "trans_b")
    return add_scaled(scale(factor, multiply(factor, left, right)), beta, C, "C", left, right)


@shared
def symm(alpha: Any, A: Any, B: Any, beta: Any = 0, C: Any = None, side: bool = False, lower: bool = False) -> Any:
    """Return ``alpha * A @ B + beta * C`` for a symmetric A.

    Parameters
    ----------
    %(alpha)s
    %(square)s
    B
        Matrix, tensor or array.
    %(beta_c)s
    side
        Compute ``alpha * B @ A + beta * C`` instead.
    %(lower)s

    Returns
    -------
    %(lazy_result)s

    Raises
    ------
    %(symmetric_errors)s

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.blas.symm(1, sp.asarray([[1, 2], [9, 3]]), [[1, 0], [10, 1]])
    array([[21,  2],
           [32,  3]])
    """
    A, B, C = label_operands((A, B, C))
    factor, other = check_scalar(alpha, "alpha"), as_matrix(B, "B")
    A = as_symmetric(factor, A, "A", "symm")
    other = align(other.T, A).T if side else align(other, A)
    parts = (triangle(A, lower), reflect(triangle(A, lower, 1)))
    one, two = (multiply(factor, *((other, part) if side else (part, other))) for part in parts)
    left, right = (other, A) if side else (A, other)
    return add_scaled(scale(factor, one + two), beta, C, "C", left, right)


@shared
def syrk(alpha: Any, A: Any, beta: Any = 0, C: Any = None, trans: bool = False) -> Any:
    """Return ``alpha * A @ A.T + beta * C``, both triangles.

    Parameters
    ----------
    %(alpha)s
    %(matrix)s
    %(beta_c)s
    trans
        Compute ``alpha * A.T @ A + beta * C`` instead.

    Returns
    -------
    %(lazy_result)s

    Raises
    ------
    %(shape_error)s

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.blas.syrk(1, sp.asarray([[0, 2, 0], [1, 0, 4]])).to_numpy()
    array([[ 4,  0],
           [ 0, 17]])
    """
    return gemm(alpha, A, A, beta, C, int(trans), int(not trans))


@shared
def trsm(
    alpha: Any,
    A: Any,
    B: Any,
    side: bool = False,
    lower: bool = False,
    trans_a: int = 0,
    diag: bool = False,
) -> Any:
    """Solve ``op(A) @ X = alpha * B`` for a triangular A with SciPy, in memory.

    Parameters
    ----------
    %(alpha)s
    %(square)s
    B
        Right-hand sides, a matrix, tensor or array.
    side
        Solve ``X @ op(A) = alpha * B`` instead.
    %(lower)s
    trans_a
        op(A): 0 for A, 1 for its transpose, 2 for its conjugate transpose.
    %(diag)s

    Returns
    -------
    ndarray

    Raises
    ------
    %(solve_errors)s

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.blas.trsm(2, sp.asarray([[4.0, 1.0], [9.0, 3.0]]), [[5.0], [3.0]])
    array([[2.],
           [2.]])
    """
    check_trans(trans_a, "trans_a")
    A, B = label_operands((A, B))
    factor, right = check_scalar(alpha, "alpha"), as_matrix(B, "B")
    right = scale(factor, right if factor != 0 else zeros_of(right))
    if not side:
        return solve_triangular(A, right, lower, trans_a, diag, "trsm")
    # X @ op(A) = B is op(A).T @ X.T = B.T, where op(A).T of a conjugate transpose is conj(A).
    A = conjugate(as_square(A, "A")) if trans_a == 2 else A
    return solve_triangular(A, right.T, lower, int(not trans_a), diag, "trsm").T
