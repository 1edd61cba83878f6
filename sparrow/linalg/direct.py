"""Direct solvers: SciPy's sparse factorizations, in memory.

Fill-in is unknown before the factorization, so factors are assumed to be four times as large as the matrix. They may
grow beyond the memory limit, up to a dense matrix, and SuperLU cannot be interrupted by Ctrl-C.
"""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import linalg

from sparrow.errors import ConvergenceError, InvalidValueError, SingularError, SparrowError, UnsupportedError
from sparrow.functions.generation import zeros
from sparrow.functions.labels import check_same_labels, to_labelled_tensor
from sparrow.linalg.operators import align_vectors, check_matrix, check_square, shared, unwrap_tensor
from sparrow.linalg.tuning import tuning
from sparrow.plan import axis_labels
from sparrow.runtime import memory
from sparrow.tensor import Tensor

__all__ = [
    "Factors", "check_options", "singular_error", "solve_triangle", "spilu", "splu", "spsolve", "spsolve_triangular",
    "to_scipy_csc", "translated_errors",
]  # fmt: skip

_RENAMED = {"tol": "rtol", "restrt": "restart", "maxiter": "iter_lim", "iter_lim": "maxiter"}
"""Options of SciPy's functions by their names in older versions or in similar functions."""
_ITERATIVE_HINT = "use sp.linalg.cg, gmres or lsqr, which leave the matrix on disk"


def to_scipy_csc(A: Any, function: str, remedy: str = _ITERATIVE_HINT) -> Any:
    """Return a square matrix as SciPy's CSC array of floats.

    Parameters
    ----------
    A
        Tensor or operator; anything else is converted without a check of its size.
    function, remedy
        Name of the function, and advice if the matrix does not fit.

    Raises
    ------
    ShapeError
        If A is not square.
    UnsupportedError
        If A is an operator that holds no tensor.
    TooLargeError
        If the matrix and factors of four times its size exceed the free memory.
    """
    A = check_matrix(unwrap_tensor(A), function)
    check_square(A, function)
    if isinstance(A, linalg.LinearOperator):
        raise UnsupportedError(
            f"{function} requires a matrix, got {type(A).__name__}, which only multiplies: {_ITERATIVE_HINT}"
        )
    if not isinstance(A, Tensor):
        return sparse.csc_array(A)
    dtype = A.dtype if A.dtype.kind in "fc" and A.dtype != np.float16 else np.dtype(np.float64)
    nbytes = A.nnz * (dtype.itemsize + 4) + 4 * A.shape[0]
    required = tuning().factor_fill_ratio * nbytes
    memory.check(required, f"{function} of {A.nnz} stored elements and its factors", remedy)
    return A.astype(dtype).to_scipy("csc")


def check_options(name: str, options: dict[str, Any]) -> None:
    """Raise ``TypeError`` if SciPy's function of that name lacks an option."""
    known = inspect.signature(getattr(linalg, name)).parameters.keys()
    unknown = sorted(options.keys() - known)
    if unknown:
        renamed = [(old, _RENAMED[old]) for old in unknown if _RENAMED.get(old) in known]
        hint = "".join(f": {old} is called {new} now" for old, new in renamed[:1])
        raise TypeError(f"{name}() got an unexpected keyword argument {', '.join(map(repr, unknown))}{hint}")


@contextlib.contextmanager
def translated_errors(name: str, options: dict[str, Any]) -> Iterator[None]:
    """Translate SciPy's errors within a block; errors of a callback pass through."""
    try:
        yield
    except (SparrowError, np.linalg.LinAlgError, linalg.ArpackNoConvergence):
        raise
    except (TypeError, ValueError) as error:
        if options.get("callback") is not None:
            raise
        given = ", ".join(f"{option}={value!r}" for option, value in options.items() if np.ndim(value) == 0)
        raise InvalidValueError(
            f"{name}: {str(error).rstrip('.')}{f' (passed to SciPy: {given})' * bool(given)}"
        ) from error
    except linalg.ArpackError as error:
        raise ConvergenceError(f"{name}: {error}; A or v0 may contain NaN or infinity") from error


class Factors:
    """LU factors of a sparse matrix, for right-hand sides that are tensors.

    They have the attributes of ``scipy.sparse.linalg.SuperLU``: ``L``, ``U``, ``perm_r``, ``perm_c``.
    """

    def __init__(self, name: str, A: Any, factors: linalg.SuperLU) -> None:
        self._name, self._factors = name, factors
        tensor = unwrap_tensor(A)
        self._like: Any = factors  # what sides are matched with: names and labels, without elements
        if isinstance(tensor, Tensor):
            empty = zeros(tensor.shape, dims=tensor.dims)
            self._like = to_labelled_tensor(empty.__sparrow_scan__(), axis_labels(tensor.__sparrow_scan__()))

    def solve(self, rhs: Any, trans: str = "N") -> NDArray[Any]:
        """Solve ``A @ x = rhs``.

        Parameters
        ----------
        rhs
            Right-hand side, or several as the columns of a matrix: an array in the order of the rows, of the columns
            with ``trans``, or a tensor, which is aligned by label.
        trans
            "N" for A, "T" for its transpose, "H" for the conjugate transpose.

        Returns
        -------
        ndarray
            Solution, in the order of the columns of A, of the rows with ``trans``.

        Raises
        ------
        ShapeError
            If the length of a right-hand side is not the size of A.
        LabelError
            If it has labels that A lacks.
        InvalidValueError
            If ``trans`` is unknown, or the side is complex and A is real.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.asarray([[4.0, 1.0], [0.0, 3.0]])
        >>> sp.linalg.splu(A).solve(sp.asarray([5.0, 3.0]))
        array([1., 1.])
        """
        function = f"{self._name}: solve"
        right = align_vectors(rhs, "rhs", self._like, int(trans != "N"), function)
        with translated_errors(function, {"trans": trans}):
            found: NDArray[Any] = self._factors.solve(right.toarray() if sparse.issparse(right) else right, trans)
            return found

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_factors"), name)

    def __dir__(self) -> list[str]:
        return dir(self._factors)


def _factorize(name: str, A: Any, options: dict[str, Any]) -> Factors:
    check_options(name, options)
    matrix = to_scipy_csc(A, name)
    check_same_labels(unwrap_tensor(A), name, may_be_disjoint=True)
    try:
        with translated_errors(name, options):
            return Factors(name, A, getattr(linalg, name)(matrix, **options))
    except RuntimeError as error:
        if "singular" not in str(error):
            raise
        raise singular_error(name, matrix) from None


def singular_error(function: str, A: Any) -> SingularError:
    """Return the error for a singular matrix, or one with NaN or infinite values."""
    if not np.isfinite(A.data).all():
        return SingularError(f"{function}: A must be finite, got NaN or infinite values")
    return SingularError(
        f"{function}: A of shape {A.shape} is singular: sp.linalg.lsqr minimizes the norm of A @ x - b"
    )


@shared
def spsolve(A: Any, b: Any, **options: Any) -> Any:
    """Solve ``A @ x = b`` by LU factorization: ``scipy.sparse.linalg.spsolve``.

    Parameters
    ----------
    %(direct_matrix)s
    %(sides)s
    **options
        SciPy's ``permc_spec`` and ``use_umfpack``.

    Returns
    -------
    ndarray
        Solution, in the order of the columns of A.

    Raises
    ------
    %(side_errors)s
    %(factor_errors)s

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.spsolve(sp.asarray([[4.0, 1.0], [0.0, 3.0]]), [5.0, 3.0])
    array([1., 1.])
    """
    check_options("spsolve", options)
    matrix, right = to_scipy_csc(A, "spsolve"), align_vectors(b, "b", check_matrix(A, "spsolve"), 0, "spsolve")
    try:
        with translated_errors("spsolve", options), warnings.catch_warnings():
            warnings.simplefilter("error", linalg.MatrixRankWarning)
            return linalg.spsolve(matrix, right, **options)
    except (RuntimeError, linalg.MatrixRankWarning) as error:
        if "singular" not in str(error):
            raise
        raise singular_error("spsolve", matrix) from None


@shared
def splu(A: Any, **options: Any) -> Factors:
    """Return the LU factors of a sparse matrix: ``scipy.sparse.linalg.splu``.

    Parameters
    ----------
    %(direct_matrix)s
    **options
        SciPy's.

    Returns
    -------
    Factors
        SciPy's ``SuperLU``, whose ``solve(b)`` takes tensors, matched by label, and arrays in the order of the rows.

    Raises
    ------
    ShapeError
        If A is not square.
    %(factor_errors)s

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> factors = sp.linalg.splu(sp.asarray([[4.0, 1.0], [0.0, 3.0]]))
    >>> factors.solve(np.array([5.0, 3.0]))
    array([1., 1.])
    """
    return _factorize("splu", A, options)


@shared
def spilu(A: Any, **options: Any) -> Factors:
    """Return incomplete LU factors: ``scipy.sparse.linalg.spilu``.

    Parameters
    ----------
    %(direct_matrix)s
    **options
        SciPy's; ``fill_factor`` bounds the fill-in, 10 by default.

    Returns
    -------
    Factors
        A preconditioner: SciPy's ``SuperLU``, whose ``solve(b)`` takes tensors and arrays.

    Raises
    ------
    ShapeError
        If A is not square.
    %(factor_errors)s

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> sp.linalg.spilu(sp.asarray([[4.0, 1.0], [0.0, 3.0]])).solve(np.array([5.0, 3.0]))
    array([1., 1.])
    """
    return _factorize("spilu", A, options)


def solve_triangle(A: Any, b: Any, lower: bool, options: dict[str, Any], function: str) -> Any:
    """Call SciPy's ``spsolve_triangular``; errors name ``function``."""
    check_options("spsolve_triangular", options)
    matrix, given = to_scipy_csc(A, function), check_matrix(unwrap_tensor(A), function)
    if isinstance(given, Tensor):
        columns = np.repeat(np.arange(given.shape[1]), np.diff(matrix.indptr))
        if (matrix.indices < columns if lower else matrix.indices > columns).any():
            kind, part = ("lower", "tril") if lower else ("upper", "triu")
            raise InvalidValueError(f"{function}: A must be {kind} triangular: take sp.{part}(A)")
    right = align_vectors(b, "b", given, 0, function)
    try:
        with translated_errors(function, options):
            return linalg.spsolve_triangular(matrix, right, lower, **options)
    except np.linalg.LinAlgError:
        raise singular_error(function, matrix) from None


@shared
def spsolve_triangular(A: Any, b: Any, lower: bool = True, **options: Any) -> Any:
    """Solve a triangular system: ``scipy.sparse.linalg.spsolve_triangular``.

    Parameters
    ----------
    A
        Square triangular tensor or operator, or what SciPy accepts.
    %(sides)s
    lower
        Whether A is lower triangular.
    **options
        SciPy's ``unit_diagonal``.

    Returns
    -------
    ndarray
        Solution of ``A @ x = b``, in the order of the columns of A.

    Raises
    ------
    %(side_errors)s
    SingularError
        If the diagonal has a 0.
    InvalidValueError
        If a tensor has stored elements in the other triangle.
    TooLargeError
        If the matrix exceeds the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.spsolve_triangular(sp.asarray([[4.0, 0.0], [1.0, 3.0]]), [4.0, 4.0])
    array([1., 1.])
    """
    return solve_triangle(A, b, lower, options, "spsolve_triangular")
