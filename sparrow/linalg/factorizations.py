"""Dense factorizations, inverses and determinants, by NumPy.

Results are dense by nature: each function calls NumPy on the dense array, if that fits the memory limit. Names are
those of the array API standard.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparrow.core.schema import as_integer, check_array
from sparrow.errors import AxisError, InvalidValueError, ShapeError, SingularError, UnsupportedError
from sparrow.functions.elementwise import as_operand
from sparrow.functions.labels import align_to_axis
from sparrow.functions.numpy.operands import check_square_labels
from sparrow.plan import align_columns, normalize_axis
from sparrow.runtime.docs import SharedText
from sparrow.runtime.validation import check_flag
from sparrow.tensor import Tensor

__all__ = [
    "call_dense", "cholesky", "cross", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "matrix_rank", "pinv", "qr",
    "slogdet", "solve", "svd", "svdvals",
]  # fmt: skip

_R = TypeVar("_R")

_shared = SharedText(
    square="""
    Parameters
    ----------
    x
        Tensor or array of shape (..., n, n).
    """,
    matrices="""
    Parameters
    ----------
    x
        Tensor or array of shape (..., m, n).
    """,
    rtol="""
    rtol
        Tolerance relative to the largest singular value, a number or one per matrix; values below it count as 0. By
        default max(m, n) times the machine epsilon.
    """,
    square_error="""
    ShapeError
        If the last two axes differ in size.
    LabelError
        If the result depends on the order of rows, and rows and columns have labels that differ.
    """,
    matrix_error="""
    ShapeError
        If there are fewer than two dimensions.
    """,
    no_convergence="""
    numpy.linalg.LinAlgError
        If an element is not finite, or the iteration does not converge.
    """,
    too_large="""
    TooLargeError
        If the dense array would exceed the memory limit, or is far larger than the stored elements.
    """,
)


def _call_on_matrices(function: Callable[..., _R], x: Any, *args: Any, square: bool = False, **options: Any) -> _R:
    """Call NumPy's function on dense matrices after checking their shape."""
    result = as_operand(x)
    shape = np.shape(result)
    if len(shape) < 2 or (square and shape[-1] != shape[-2]):
        raise ShapeError(f"{function.__name__}: x must be {'square ' * square}matrices, got shape {shape}")
    check_square_labels(function.__name__, result)
    return call_dense(function, result, *args, **options)


def call_dense(function: Callable[..., _R], x: Any, *args: Any, **options: Any) -> _R:
    """Call NumPy's function on a dense array and translate its errors.

    Parameters
    ----------
    function
        Function of ``numpy.linalg``.
    x
        Tensor or array, its first argument.
    *args, **options
        The other arguments.

    Raises
    ------
    SingularError
        If a matrix is singular.
    numpy.linalg.LinAlgError
        If the computation fails otherwise.
    ShapeError, UnsupportedError
        In place of NumPy's errors of value and type.
    """
    dense = check_array(x, "x")
    try:
        return function(dense, *args, **options)
    except np.linalg.LinAlgError as error:
        if "Singular" in str(error):
            raise SingularError(f"{function.__name__}: a matrix of shape {dense.shape[-2:]} is singular") from None
        raise
    except TypeError as error:
        raise UnsupportedError(f"{function.__name__}: {error}") from None
    except (IndexError, ValueError) as error:
        raise ShapeError(f"{function.__name__}: {error}") from None


@_shared
def cholesky(x: Tensor | ArrayLike, /, *, upper: bool = False) -> NDArray[Any]:
    """Return the Cholesky factors of positive definite matrices.

    Only one triangle of each matrix is read.

    %(square)s
    upper
        Return the upper triangular factor R with ``R.conj().T @ R == x``; by default the lower one.

    Returns
    -------
    ndarray
        Of shape (..., n, n).

    Raises
    ------
    %(square_error)s
    numpy.linalg.LinAlgError
        If a matrix is not positive definite.
    %(too_large)s

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.cholesky(sp.asarray([[4.0, 0.0], [0.0, 9.0]]))
    array([[2., 0.],
           [0., 3.]])
    """
    return _call_on_matrices(np.linalg.cholesky, x, square=True, upper=check_flag("upper", upper))


@_shared
def cross(x1: Tensor | ArrayLike, x2: Tensor | ArrayLike, /, *, axis: int = -1) -> NDArray[Any]:
    """Return the cross products of vectors of length 3.

    Parameters
    ----------
    x1, x2
        Tensors or arrays of size 3 along the axis; the other axes broadcast.
    axis
        Axis of the vectors.

    Returns
    -------
    ndarray

    Raises
    ------
    ShapeError
        If the axis is out of range or not of size 3, or the other axes do not broadcast.
    %(too_large)s

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.cross(sp.asarray([1, 0, 0]), sp.asarray([0, 2, 0]))
    array([0, 0, 2])
    """
    one, other = align_columns([as_operand(x1), as_operand(x2)], ["cross: x1", "cross: x2"])
    along = as_integer(axis, "axis")
    for name, shape in (("x1", np.shape(one)), ("x2", np.shape(other))):
        try:
            size = shape[normalize_axis(along, len(shape))]
        except AxisError as error:
            raise AxisError(f"cross: {name} has shape {shape}: {error}") from None
        if size != 3:
            raise ShapeError(f"cross: {name} must have size 3 along axis {along}, got shape {shape}")
    return call_dense(np.linalg.cross, one, np.asarray(other), axis=along)


@_shared
def det(x: Tensor | ArrayLike, /) -> Any:
    """Return the determinants of matrices.

    %(square)s

    Returns
    -------
    ndarray
        Of shape (...); a scalar for one matrix.

    Raises
    ------
    %(square_error)s
    %(too_large)s

    See Also
    --------
    sparrow.linalg.splu : Sparse LU factorization.

    Examples
    --------
    >>> import sparrow as sp
    >>> float(sp.linalg.det(sp.asarray([[4.0, 1.0], [0.0, 3.0]])))
    12.0
    """
    return _call_on_matrices(np.linalg.det, x, square=True)


@_shared
def eig(x: Tensor | ArrayLike, /) -> Any:
    """Return the eigenvalues and eigenvectors of square matrices, complex.

    %(square)s

    Returns
    -------
    EigResult
        ``eigenvalues``, of shape (..., n) and unordered, and ``eigenvectors`` in columns; always complex, unlike in
        NumPy.

    Raises
    ------
    %(square_error)s
    %(no_convergence)s
    %(too_large)s

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.eig(sp.asarray([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    array([2.+0.j, 1.+0.j])
    """
    result: Any = _call_on_matrices(np.linalg.eig, x, square=True)
    return type(result)(*map(_to_complex, result))


@_shared
def eigvals(x: Tensor | ArrayLike, /) -> NDArray[Any]:
    """Return the eigenvalues of square matrices, complex and unordered.

    %(square)s

    Returns
    -------
    ndarray
        Of shape (..., n).

    Raises
    ------
    %(square_error)s
    %(no_convergence)s
    %(too_large)s

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.eigvals(sp.asarray([[0.0, 1.0], [-1.0, 0.0]]))
    array([0.+1.j, 0.-1.j])
    """
    return _to_complex(_call_on_matrices(np.linalg.eigvals, x, square=True))


def _to_complex(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(np.result_type(array, np.complex64), copy=False)


@_shared
def eigh(x: Tensor | ArrayLike, /) -> Any:
    """Return the eigenvalues and eigenvectors of symmetric or Hermitian matrices.

    Only one triangle of each matrix is read.

    %(square)s

    Returns
    -------
    EighResult
        ``eigenvalues``, of shape (..., n), ascending, and ``eigenvectors`` in columns.

    Raises
    ------
    %(square_error)s
    %(no_convergence)s
    %(too_large)s

    See Also
    --------
    sparrow.linalg.eigsh : Some of the eigenvalues of a sparse matrix.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.eigh(sp.asarray([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    array([1., 2.])
    """
    return _call_on_matrices(np.linalg.eigh, x, square=True)


@_shared
def eigvalsh(x: Tensor | ArrayLike, /) -> NDArray[Any]:
    """Return the eigenvalues of symmetric or Hermitian matrices, ascending.

    Only one triangle of each matrix is read.

    %(square)s

    Returns
    -------
    ndarray
        Of shape (..., n).

    Raises
    ------
    %(square_error)s
    %(no_convergence)s
    %(too_large)s

    See Also
    --------
    sparrow.linalg.eigsh : Some of the eigenvalues of a sparse matrix.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.eigvalsh(sp.asarray([[2.0, 0.0], [0.0, 1.0]]))
    array([1., 2.])
    """
    return _call_on_matrices(np.linalg.eigvalsh, x, square=True)


@_shared
def inv(x: Tensor | ArrayLike, /) -> NDArray[Any]:
    """Return the inverses of matrices.

    %(square)s

    Returns
    -------
    ndarray
        Of shape (..., n, n).

    Raises
    ------
    %(square_error)s
    SingularError
        If a matrix is singular.
    %(too_large)s

    See Also
    --------
    sparrow.linalg.spsolve : Solve a sparse system without an inverse.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.inv(sp.asarray([[4.0, 0.0], [0.0, 2.0]]))
    array([[0.25, 0.  ],
           [0.  , 0.5 ]])
    """
    return _call_on_matrices(np.linalg.inv, x, square=True)


@_shared
def matrix_rank(x: Tensor | ArrayLike, /, *, rtol: float | ArrayLike | None = None) -> Any:
    """Return the numerical ranks of matrices: the number of non-zero singular values.

    %(matrices)s
    %(rtol)s

    Returns
    -------
    ndarray
        Of shape (...); a scalar for one matrix.

    Raises
    ------
    %(matrix_error)s
    InvalidValueError
        If ``rtol`` is not numeric.
    %(too_large)s

    Examples
    --------
    >>> import sparrow as sp
    >>> int(sp.linalg.matrix_rank(sp.asarray([[4.0, 0.0], [2.0, 0.0]])))
    1
    """
    rtol, shape = _check_tolerance(rtol, "matrix_rank"), np.shape(as_operand(x))
    if 0 in shape[-2:] and len(shape) > 1:
        return np.zeros(shape[:-2], int)[()]
    return _call_on_matrices(np.linalg.matrix_rank, x, rtol=rtol)


@_shared
def pinv(x: Tensor | ArrayLike, /, *, rtol: float | ArrayLike | None = None) -> NDArray[Any]:
    """Return the Moore-Penrose pseudo-inverses of matrices.

    %(matrices)s
    %(rtol)s

    Returns
    -------
    ndarray
        Of shape (..., n, m).

    Raises
    ------
    %(matrix_error)s
    InvalidValueError
        If ``rtol`` is not numeric.
    %(no_convergence)s
    %(too_large)s

    See Also
    --------
    sparrow.linalg.lsqr : Least squares of a sparse matrix.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.pinv(sp.asarray([[4.0, 0.0]]))
    array([[0.25],
           [0.  ]])
    """
    result: Any = as_operand(x)
    if np.ndim(result) and result.dtype.kind in "biu":  # NumPy has no machine epsilon for integers
        result = result.astype(np.float64)
    return _call_on_matrices(np.linalg.pinv, result, rtol=_check_tolerance(rtol, "pinv"))


def _check_tolerance(rtol: Any, what: str) -> Any:
    """Return a tolerance as an array of numbers, or None."""
    if rtol is None:
        return None
    try:
        result = np.asarray(rtol)
    except ValueError:  # a ragged list
        result = np.empty(0, object)
    if result.dtype.kind not in "biuf":
        raise InvalidValueError(f"{what}: rtol must be a number, or one per matrix, got {rtol!r}")
    return result


@_shared
def qr(x: Tensor | ArrayLike, /, *, mode: Literal["reduced", "complete"] = "reduced") -> Any:
    """Return the QR factorizations of matrices.

    %(matrices)s
    mode
        "reduced" for Q of shape (..., m, min(m, n)), "complete" for Q of shape (..., m, m).

    Returns
    -------
    QRResult
        ``Q``, with orthonormal columns, and the upper triangular ``R``.

    Raises
    ------
    %(matrix_error)s
    InvalidValueError
        If ``mode`` is unknown.
    %(too_large)s

    Examples
    --------
    >>> import sparrow as sp
    >>> abs(sp.linalg.qr(sp.asarray([[0.0, 3.0], [2.0, 0.0]])).R)
    array([[2., 0.],
           [0., 3.]])
    """
    if mode not in ("reduced", "complete"):
        raise InvalidValueError(f"qr: mode must be 'reduced' or 'complete', got {mode!r}")
    return _call_on_matrices(np.linalg.qr, x, mode)


@_shared
def slogdet(x: Tensor | ArrayLike, /) -> Any:
    """Return the signs and log magnitudes of the determinants of matrices.

    %(square)s

    Returns
    -------
    SlogdetResult
        ``sign`` and ``logabsdet``, of shape (...); scalars for one matrix.

    Raises
    ------
    %(square_error)s
    %(too_large)s

    See Also
    --------
    sparrow.linalg.splu : Sparse LU factorization.

    Examples
    --------
    >>> import sparrow as sp
    >>> result = sp.linalg.slogdet(sp.asarray([[0.0, 1.0], [1.0, 0.0]]))
    >>> float(result.sign), float(result.logabsdet)
    (-1.0, 0.0)
    """
    return _call_on_matrices(np.linalg.slogdet, x, square=True)


@_shared
def solve(x1: Tensor | ArrayLike, x2: Tensor | ArrayLike, /) -> NDArray[Any]:
    """Solve ``x1 @ x = x2`` as dense systems.

    Parameters
    ----------
    x1
        Tensor or array of shape (..., n, n).
    x2
        Right-hand sides: a vector of length n, or matrices of shape (..., n, k). If both it and the rows of a single
        matrix have labels, they are matched by label.

    Returns
    -------
    ndarray

    Raises
    ------
    ShapeError
        If ``x1`` is not square, or ``x2`` does not match its rows.
    LabelError
        If ``x2`` has a label that no row has.
    SingularError
        If a matrix is singular.
    %(too_large)s

    See Also
    --------
    sparrow.linalg.spsolve : Solve a sparse system.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.solve(sp.asarray([[4.0, 1.0], [0.0, 3.0]]), [5.0, 3.0])
    array([1., 1.])
    """
    right = align_to_axis(as_operand(x2), x1, 0, "x2", "solve") if np.ndim(x1) == 2 else as_operand(x2)
    shape, own = np.shape(x1), np.shape(right)
    if len(shape) > 1 and shape[-2] == shape[-1] and own[-1 if len(own) == 1 else -2 :][:1] != shape[-2:-1]:
        raise ShapeError(f"solve: x2 must have {shape[-2]} rows, one per row of x1 of shape {shape}, got shape {own}")
    return _call_on_matrices(np.linalg.solve, x1, np.asarray(right), square=True)


@_shared
def svd(x: Tensor | ArrayLike, /, *, full_matrices: bool = True) -> Any:
    """Return the singular value decompositions of matrices.

    %(matrices)s
    full_matrices
        Return square ``U`` and ``Vh`` rather than min(m, n) singular vectors.

    Returns
    -------
    SVDResult
        ``U``, the singular values ``S``, descending, and ``Vh``.

    Raises
    ------
    %(matrix_error)s
    %(no_convergence)s
    %(too_large)s

    See Also
    --------
    sparrow.linalg.svds : Some of the singular values of a sparse matrix.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.svd(sp.asarray([[0.0, 3.0], [-4.0, 0.0]])).S
    array([4., 3.])
    """
    return _call_on_matrices(np.linalg.svd, x, full_matrices=check_flag("full_matrices", full_matrices))


@_shared
def svdvals(x: Tensor | ArrayLike, /) -> NDArray[Any]:
    """Return the singular values of matrices, descending.

    %(matrices)s

    Returns
    -------
    ndarray
        Of shape (..., min(m, n)).

    Raises
    ------
    %(matrix_error)s
    %(no_convergence)s
    %(too_large)s

    See Also
    --------
    sparrow.linalg.svds : Some of the singular values of a sparse matrix.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.svdvals(sp.asarray([[0.0, 3.0], [-4.0, 0.0]]))
    array([4., 3.])
    """
    return _call_on_matrices(np.linalg.svdvals, x)
