"""Factorisations: SciPy's ground. A matrix is handed over if it is likely to fit the memory limit with its factors.

How much the factors fill in shows only when they are made: they are taken to be four times as large as the matrix, and
may become as large as the dense one, beyond the memory limit, of which SuperLU knows nothing. Ctrl-C is answered when
it returns.
"""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from sparrow.errors import ConvergenceError, InvalidValueError, SingularError, SparrowError, UnsupportedError
from sparrow.linalg.operators import check_matrix, check_sides, check_square, tensor_of
from sparrow.runtime import memory
from sparrow.tensor import Tensor

__all__ = [
    "check_options", "handed_over", "refused", "singular", "solve_triangle", "spilu", "splu", "spsolve",
    "spsolve_triangular",
]  # fmt: skip

_FACTORS = 4
"""Factors are taken to be so many times as large as the matrix: how large they become shows only when they are made."""
_WAY_OUT = "solve it with sp.linalg.cg, gmres or lsqr, which leave the matrix on disk"


def handed_over(A: Any, what: str, remedy: str = _WAY_OUT) -> Any:
    """Return a square tensor as SciPy's CSC array of floats, if it and its factors are likely to fit the memory limit.

    Parameters
    ----------
    A
        The tensor, or its operator; anything else becomes such an array unchecked.
    what, remedy
        What it is for, and the way out if it does not fit.

    Raises
    ------
    ShapeError
        If it is not square.
    UnsupportedError
        If it is an operator of something else.
    TooLargeError
        If four times the matrix would pass what is free of the limit.
    """
    A = check_matrix(tensor_of(A), what)
    check_square(A, what)
    if isinstance(A, linalg.LinearOperator):
        raise UnsupportedError(f"{what} takes a matrix, and {type(A).__name__} only multiplies: {_WAY_OUT}")
    if not isinstance(A, Tensor):
        return sparse.csc_array(A)
    dtype = A.dtype if A.dtype.kind in "fc" and A.dtype != np.float16 else np.dtype(np.float64)
    nbytes = A.nnz * (dtype.itemsize + 4) + 4 * A.shape[0]
    memory.check(_FACTORS * nbytes, f"{what} of {A.nnz} entries and its factors", remedy)
    return A.astype(dtype).to_scipy("csc")


def check_options(name: str, options: dict[str, Any]) -> None:
    """Raise ``TypeError``, as Python does, if SciPy's function of that name has no such argument."""
    unknown = options.keys() - inspect.signature(getattr(linalg, name)).parameters.keys()
    if unknown:
        raise TypeError(f"{name}() has no argument {', '.join(map(repr, sorted(unknown)))}")


@contextlib.contextmanager
def refused(name: str, options: dict[str, Any]) -> Iterator[None]:
    """Say of which function what SciPy does not take is, within a block; what a callback raises is its own."""
    try:
        yield
    except (SparrowError, np.linalg.LinAlgError, linalg.ArpackNoConvergence):
        raise
    except (TypeError, ValueError) as error:
        if options.get("callback") is not None:
            raise
        given = ", ".join(f"{word}={each!r}" for word, each in options.items() if np.ndim(each) == 0)
        raise InvalidValueError(
            f"{name}: {str(error).rstrip('.')}{f': SciPy was given {given}' * bool(given)}"
        ) from error
    except linalg.ArpackError as error:
        raise ConvergenceError(f"{name}: entries of A or v0 may be NaN or infinite: {error}") from error


def _factors(name: str, A: Any, options: dict[str, Any]) -> Any:
    """Return SciPy's factors of a matrix."""
    check_options(name, options)
    matrix = handed_over(A, name)
    try:
        with refused(name, options):
            return getattr(linalg, name)(matrix, **options)
    except RuntimeError as error:
        if "singular" not in str(error):
            raise
        raise singular(name, matrix) from None


def singular(what: str, A: Any) -> SingularError:
    """Return the error that a matrix is singular, or holds what is no number."""
    if not np.isfinite(A.data).all():
        return SingularError(f"{what}: entries of A are NaN or infinite, so that no factors of it are told")
    return SingularError(
        f"{what}: A of shape {A.shape} is singular: sp.linalg.lsqr finds the least squares of A @ x - b"
    )


def spsolve(A: Any, b: Any, **options: Any) -> Any:
    """Solve ``A @ x = b`` directly, in memory: ``scipy.sparse.linalg.spsolve``.

    The factors are taken to be four times as large as the matrix. How much they fill in shows only when they are made,
    and they may grow far beyond the memory limit, up to a dense matrix; Ctrl-C is answered when SuperLU returns.

    Parameters
    ----------
    A
        A square tensor or its operator, or what SciPy takes.
    b
        The right-hand side, a vector or matrix, array or tensor. One with labels goes by those of the rows; where it
        lacks one its fill value counts.
    **options
        SciPy's: ``permc_spec``, ``use_umfpack``.

    Returns
    -------
    ndarray
        In the order of the columns of A.

    Raises
    ------
    ShapeError
        If A is not square, or b has not as many rows.
    LabelError
        If b has labels that the rows of A lack.
    SingularError
        If A is singular.
    TooLargeError
        If the matrix with factors of four times its size does not fit the memory limit: iterative solvers leave it on
        disk.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.spsolve(sp.asarray([[4.0, 1.0], [0.0, 3.0]]), [5.0, 3.0])
    array([1., 1.])
    """
    check_options("spsolve", options)
    matrix, right = handed_over(A, "spsolve"), check_sides(b, "b", check_matrix(A, "spsolve"), 0, "spsolve")
    try:
        with refused("spsolve", options), warnings.catch_warnings():
            warnings.simplefilter("error", linalg.MatrixRankWarning)
            return linalg.spsolve(matrix, right, **options)
    except (RuntimeError, linalg.MatrixRankWarning) as error:
        if "singular" not in str(error):
            raise
        raise singular("spsolve", matrix) from None


def splu(A: Any, **options: Any) -> Any:
    """Return the LU factors of a sparse matrix, in memory: ``scipy.sparse.linalg.splu``.

    The factors are taken to be four times as large as the matrix. How much they fill in shows only when they are made,
    and they may grow far beyond the memory limit, up to a dense matrix; Ctrl-C is answered when SuperLU returns.

    Parameters
    ----------
    A
        A square tensor or its operator, or what SciPy takes.
    **options
        SciPy's.

    Returns
    -------
    scipy.sparse.linalg.SuperLU
        Its ``solve(b)`` solves for as many right-hand sides as there are, arrays in the order of the rows.

    Raises
    ------
    ShapeError
        If A is not square.
    SingularError
        If it is singular.
    TooLargeError
        If the matrix with factors of four times its size does not fit the memory limit.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> factors = sp.linalg.splu(sp.asarray([[4.0, 1.0], [0.0, 3.0]]))
    >>> factors.solve(np.array([5.0, 3.0]))
    array([1., 1.])
    """
    return _factors("splu", A, options)


def spilu(A: Any, **options: Any) -> Any:
    """Return incomplete LU factors, for a preconditioner, in memory: ``scipy.sparse.linalg.spilu``.

    The factors are taken to be four times as large as the matrix. How much they fill in shows only when they are made:
    ``fill_factor`` says about how many times they may, 10 by default. Ctrl-C is answered when SuperLU returns.

    Parameters
    ----------
    A
        A square tensor or its operator, or what SciPy takes.
    **options
        SciPy's.

    Returns
    -------
    scipy.sparse.linalg.SuperLU

    Raises
    ------
    ShapeError
        If A is not square.
    SingularError
        If it is singular.
    TooLargeError
        If the matrix with factors of four times its size does not fit the memory limit.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> sp.linalg.spilu(sp.asarray([[4.0, 1.0], [0.0, 3.0]])).solve(np.array([5.0, 3.0]))
    array([1., 1.])
    """
    return _factors("spilu", A, options)


def solve_triangle(A: Any, b: Any, lower: bool, options: dict[str, Any], what: str) -> Any:
    """Return what SciPy's ``spsolve_triangular`` does, in the words of the function that it is asked by."""
    check_options("spsolve_triangular", options)
    matrix, given = handed_over(A, what), check_matrix(tensor_of(A), what)
    if isinstance(given, Tensor):
        columns = np.repeat(np.arange(given.shape[1]), np.diff(matrix.indptr))
        if (matrix.indices < columns if lower else matrix.indices > columns).any():
            side, part = ("above", "tril") if lower else ("below", "triu")
            raise InvalidValueError(f"{what}: entries {side} the diagonal: take sp.{part}(A)")
    right = check_sides(b, "b", given, 0, what)
    try:
        with refused(what, options):
            return linalg.spsolve_triangular(matrix, right, lower, **options)
    except np.linalg.LinAlgError:
        raise singular(what, matrix) from None


def spsolve_triangular(A: Any, b: Any, lower: bool = True, **options: Any) -> Any:
    """Solve ``A @ x = b`` for a triangular A, in memory: ``scipy.sparse.linalg.spsolve_triangular``.

    Parameters
    ----------
    A
        A square tensor or its operator, or what SciPy takes.
    b
        The right-hand side, a vector or matrix, array or tensor. One with labels goes by those of the rows; where it
        lacks one its fill value counts.
    lower
        Whether the entries are below the diagonal.
    **options
        SciPy's: ``unit_diagonal``.

    Returns
    -------
    ndarray
        In the order of the columns of A.

    Raises
    ------
    ShapeError
        If A is not square, or b has not as many rows.
    LabelError
        If b has labels that the rows of A lack.
    SingularError
        If there is a 0 on the diagonal.
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
    return solve_triangle(A, b, lower, options, "spsolve_triangular")
