"""Factorisations: SciPy's ground. A matrix is handed over if it fits the memory limit with its factors."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from sparrow import memory
from sparrow.errors import InvalidValueError
from sparrow.linalg.operators import check_matrix, check_rows, check_square, check_vector
from sparrow.tensor import Tensor

__all__ = ["handed_over", "spilu", "splu", "spsolve", "spsolve_triangular"]

_FACTORS = 4
"""Factors are taken to be so many times as large as the matrix: how large they become shows only when they are made."""
_WAY_OUT = "solve it with sp.linalg.cg, gmres or lsqr, which leave the matrix on disk"


def handed_over(A: Any, what: str, remedy: str = _WAY_OUT) -> Any:
    """Return a square tensor as SciPy's CSC array of floats, if it and its factors are likely to fit the memory limit.

    Parameters
    ----------
    A
        The tensor; anything else is returned as it is.
    what, remedy
        What it is for, and the way out if it does not fit.

    Raises
    ------
    ShapeError
        If it is not square.
    TooLargeError
        If four times the matrix would pass what is free of the limit.
    """
    A = check_matrix(A, what)
    check_square(A, what)
    if not isinstance(A, Tensor):
        return A if isinstance(A, linalg.LinearOperator) else sparse.csc_array(A)
    nbytes = A.nnz * (A.dtype.itemsize + 4) + 4 * A.shape[0]
    memory.check(_FACTORS * nbytes, f"{what} of {A.nnz} entries and its factors", remedy)
    found = A.to_scipy("csc")
    return found if A.dtype.kind in "fc" else found.astype(float)


def _right(b: Any, A: Any, what: str) -> Any:
    """Return a right-hand side as SciPy takes it: an array, or sparse as it is."""
    return check_rows(b if sparse.issparse(b) else check_vector(b, "b"), "b", A.shape[0], what)


def spsolve(A: Any, b: Any, **options: Any) -> Any:
    """Solve ``A @ x = b`` directly, in memory: ``scipy.sparse.linalg.spsolve``.

    Parameters
    ----------
    A
        A square tensor, or what SciPy takes.
    b
        The right-hand side, a vector or matrix, array or tensor.
    **options
        SciPy's: ``permc_spec``, ``use_umfpack``.

    Returns
    -------
    ndarray

    Raises
    ------
    ShapeError
        If A is not square.
    TooLargeError
        If the matrix with factors of four times its size does not fit the memory limit: iterative solvers leave it on
        disk.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.spsolve(sp.asarray([[4.0, 1.0], [0.0, 3.0]]), [5.0, 3.0])
    array([1., 1.])
    """
    matrix = handed_over(A, "spsolve")
    return linalg.spsolve(matrix, _right(b, matrix, "spsolve"), **options)


def splu(A: Any, **options: Any) -> Any:
    """Return the LU factors of a sparse matrix, in memory: ``scipy.sparse.linalg.splu``.

    Parameters
    ----------
    A
        A square tensor, or what SciPy takes.
    **options
        SciPy's.

    Returns
    -------
    scipy.sparse.linalg.SuperLU
        Its ``solve(b)`` solves for as many right-hand sides as there are.

    Raises
    ------
    ShapeError
        If A is not square.
    TooLargeError
        If the matrix with factors of four times its size does not fit the memory limit.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> factors = sp.linalg.splu(sp.asarray([[4.0, 1.0], [0.0, 3.0]]))
    >>> factors.solve(np.array([5.0, 3.0]))
    array([1., 1.])
    """
    return linalg.splu(handed_over(A, "splu"), **options)


def spilu(A: Any, **options: Any) -> Any:
    """Return incomplete LU factors, for a preconditioner, in memory: ``scipy.sparse.linalg.spilu``.

    Parameters
    ----------
    A
        A square tensor, or what SciPy takes.
    **options
        SciPy's.

    Returns
    -------
    scipy.sparse.linalg.SuperLU

    Raises
    ------
    ShapeError
        If A is not square.
    TooLargeError
        If the matrix with factors of four times its size does not fit the memory limit.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> sp.linalg.spilu(sp.asarray([[4.0, 1.0], [0.0, 3.0]])).solve(np.array([5.0, 3.0]))
    array([1., 1.])
    """
    return linalg.spilu(handed_over(A, "spilu"), **options)


def spsolve_triangular(A: Any, b: Any, lower: bool = True, **options: Any) -> Any:
    """Solve ``A @ x = b`` for a triangular A, in memory: ``scipy.sparse.linalg.spsolve_triangular``.

    Parameters
    ----------
    A
        A square tensor, or what SciPy takes.
    b
        The right-hand side, a vector or matrix, array or tensor.
    lower
        Whether the entries are below the diagonal.
    **options
        SciPy's: ``unit_diagonal``.

    Returns
    -------
    ndarray

    Raises
    ------
    ShapeError
        If A is not square.
    InvalidValueError
        If a tensor has entries on the other side of the diagonal.
    TooLargeError
        If the matrix does not fit the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.spsolve_triangular(sp.asarray([[4.0, 0.0], [1.0, 3.0]]), [4.0, 4.0])
    array([1., 1.])
    """
    matrix = handed_over(A, "spsolve_triangular")
    if isinstance(A, Tensor):
        columns = np.repeat(np.arange(A.shape[1]), np.diff(matrix.indptr))
        if (matrix.indices < columns if lower else matrix.indices > columns).any():
            side, part = ("above", "tril") if lower else ("below", "triu")
            raise InvalidValueError(f"spsolve_triangular: entries {side} the diagonal: take sp.{part}(A)")
    return linalg.spsolve_triangular(matrix, _right(b, matrix, "spsolve_triangular"), lower, **options)
