"""BLAS level 2: matrix-vector operations."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparrow.blas.operands import (
    add_scaled,
    align,
    as_matrix,
    as_symmetric,
    as_triangular,
    as_vector,
    check_scalar,
    conjugate,
    multiply,
    reflect,
    scale,
    shared,
    transpose,
    triangle,
    zeros_of,
)
from sparrow.errors import ShapeError
from sparrow.functions.labels import align_to_axis
from sparrow.functions.views import as_tensor
from sparrow.tensor.matching import label_operands

__all__ = ["gemv", "ger", "gerc", "hemv", "symv", "trsv"]


@shared
def gemv(alpha: Any, A: Any, x: Any, beta: Any = 0, y: Any = None, trans: int = 0) -> Any:
    """Return ``alpha * op(A) @ x + beta * y``.

    Parameters
    ----------
    %(alpha)s
    %(matrix)s
    %(x)s
    %(beta_y)s
    %(trans)s

    Returns
    -------
    %(lazy_result)s

    Raises
    ------
    %(shape_error)s
    InvalidValueError
        If ``trans`` is not 0, 1 or 2.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> A = sp.asarray([[0, 2, 0], [1, 0, 4]])
    >>> sp.blas.gemv(2, A, [1, 2, 3], 3, np.ones(2)), sp.blas.gemv(1, A, [1, 2], trans=1)
    (array([11., 29.]), array([2, 2, 8]))
    """
    A, x, y = label_operands((A, x, y))
    factor, left = check_scalar(alpha, "alpha"), transpose(as_matrix(A, "A"), trans)
    return add_scaled(scale(factor, multiply(factor, left, as_vector(x, "x"))), beta, y, "y", left)


@shared
def symv(alpha: Any, A: Any, x: Any, beta: Any = 0, y: Any = None, lower: bool = False) -> Any:
    """Return ``alpha * A @ x + beta * y`` for a symmetric A.

    Parameters
    ----------
    %(alpha)s
    %(square)s
    %(x)s
    %(beta_y)s
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
    >>> sp.blas.symv(1, sp.asarray([[1, 2], [9, 3]]), [1, 10])
    array([21, 32])
    """
    factor = check_scalar(alpha, "alpha")
    A, x, y = label_operands((A, x, y))
    A = as_symmetric(factor, A, "A", "symv")
    right = align(as_vector(x, "x"), A)
    parts = (triangle(A, lower), reflect(triangle(A, lower, 1)))
    one, two = (multiply(factor, part, right) for part in parts)
    return add_scaled(scale(factor, one + two), beta, y, "y", A)


@shared
def hemv(alpha: Any, A: Any, x: Any, beta: Any = 0, y: Any = None, lower: bool = False) -> Any:
    """Return ``alpha * A @ x + beta * y`` for a Hermitian A.

    Parameters
    ----------
    %(alpha)s
    A
        Square matrix, tensor or array. The imaginary part of its diagonal is ignored.
    %(x)s
    %(beta_y)s
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
    >>> sp.blas.hemv(1, sp.asarray([[1, 2j], [0, 3]]), [1, 10])
    array([ 1.+20.j, 30. -2.j])
    """
    factor = check_scalar(alpha, "alpha")
    A, x, y = label_operands((A, x, y))
    A = as_symmetric(factor, A, "A", "hemv")
    right = align(as_vector(x, "x"), A)
    strict = triangle(A, lower, 1)
    diagonal = np.real(triangle(triangle(A, lower), not lower))
    one, two, three = (multiply(factor, part, right) for part in (strict, reflect(strict, 2), diagonal))
    return add_scaled(scale(factor, one + two + three), beta, y, "y", A)


@shared
def ger(alpha: Any, x: Any, y: Any, A: Any = None) -> Any:
    """Return ``alpha * outer(x, y) + A``, without conjugation.

    Parameters
    ----------
    %(alpha)s
    x, y
        Vectors of length m and n, tensors or arrays.
    A
        Matrix to add, shape (m, n), tensor or array.

    Returns
    -------
    Tensor or ndarray
        An array if A, or both vectors, are arrays, else a lazy tensor.

    Raises
    ------
    %(shape_error)s

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.blas.ger(2, sp.asarray([0, 1]), [1, 0, 3]).to_numpy()
    array([[0, 0, 0],
           [2, 0, 6]])
    """
    x, y, A = label_operands((x, y, A))
    factor, sides = check_scalar(alpha, "alpha"), (as_vector(x, "x"), as_vector(y, "y"))
    product = np.outer(*(sides if factor != 0 else map(zeros_of, sides)))
    return add_scaled(scale(factor, product), 1, A, "A")


@shared
def gerc(alpha: Any, x: Any, y: Any, A: Any = None) -> Any:
    """Return ``alpha * outer(x, conj(y)) + A``.

    Parameters
    ----------
    %(alpha)s
    x, y
        Vectors of length m and n, tensors or arrays.
    A
        Matrix to add, shape (m, n), tensor or array.

    Returns
    -------
    Tensor or ndarray
        An array if A, or both vectors, are arrays, else a lazy tensor.

    Raises
    ------
    %(shape_error)s

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.blas.gerc(1, sp.asarray([0, 1]), [1j, 0]).to_numpy()
    array([[0.+0.j, 0.+0.j],
           [0.-1.j, 0.+0.j]])
    """
    x, y, A = label_operands((x, y, A))
    return ger(alpha, x, conjugate(as_vector(y, "y")), A)


@shared
def trsv(A: Any, x: Any, lower: bool = False, trans: int = 0, diag: bool = False) -> Any:
    """Solve ``op(A) @ y = x`` for a triangular A with SciPy, in memory.

    Parameters
    ----------
    %(square)s
    x
        Right-hand side, a vector, tensor or array.
    %(lower)s
    %(trans)s
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
    >>> sp.blas.trsv(sp.asarray([[4.0, 1.0], [9.0, 3.0]]), [5.0, 3.0])
    array([1., 1.])
    """
    A, x = label_operands((A, x))
    return solve_triangular(A, as_vector(x, "x"), lower, trans, diag, "trsv")


def solve_triangular(A: Any, right: Any, lower: bool, trans: int, diag: bool, routine: str) -> Any:
    """Solve a triangular system for a vector or matrix; errors name ``routine``."""
    A = as_tensor(as_triangular(A, "A", routine))
    right = align_to_axis(right, A, int(bool(trans)), "the right-hand side", routine)
    if A.shape[0] != right.shape[0]:
        raise ShapeError(f"{routine}: right-hand side must have {A.shape[0]} rows, got {right.shape[0]}")
    from sparrow.linalg.direct import solve_triangle

    part, options = transpose(triangle(A, lower), trans), {"unit_diagonal": diag}
    return solve_triangle(part, np.asarray(right), lower != bool(trans), options, routine)
