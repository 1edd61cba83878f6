"""Factorisations and inverses by the array API standard: dense by nature, and NumPy's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparrow.core.schema import as_integer
from sparrow.errors import AxisError, InvalidValueError, ShapeError, UnsupportedError
from sparrow.functions.elementwise import operand
from sparrow.functions.labels import at_labels
from sparrow.plan import normalize_axis
from sparrow.runtime.validation import check_flag
from sparrow.tensor import Tensor

__all__ = [
    "cholesky", "cross", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "matrix_rank", "of_cells", "pinv", "qr",
    "slogdet", "solve", "svd", "svdvals",
]  # fmt: skip

_R = TypeVar("_R")


def _of_matrices(function: Callable[..., _R], x: Any, *args: Any, square: bool = False, **options: Any) -> _R:
    """Call NumPy's function of the dense cells of matrices, of as many rows as columns where ``square``."""
    found = operand(x)
    shape = np.shape(found)
    if len(shape) < 2 or (square and shape[-1] != shape[-2]):
        raise ShapeError(f"{function.__name__} takes {'square ' * square}matrices, got shape {shape}")
    return of_cells(function, found, *args, **options)


def of_cells(function: Callable[..., _R], x: Any, *args: Any, **options: Any) -> _R:
    """Call NumPy's function; what it refuses is an error of ours, a matrix that is singular stays NumPy's."""
    cells = np.asarray(x)
    try:
        return function(cells, *args, **options)
    except np.linalg.LinAlgError:
        raise
    except TypeError as error:
        raise UnsupportedError(f"{function.__name__}: {error}") from None
    except (IndexError, ValueError) as error:
        raise ShapeError(f"{function.__name__}: {error}") from None


def cholesky(x: Tensor | ArrayLike, /, *, upper: bool = False) -> NDArray[Any]:
    """Return the triangular factor of positive definite matrices, dense.

    Parameters
    ----------
    x
        A tensor or array of at least two dimensions, the last two of one size; only one triangle is looked at.
    upper
        The upper factor, whose conjugate transpose times it is the matrix; the lower one by default.

    Returns
    -------
    ndarray
        Of the shape of ``x``.

    Raises
    ------
    ShapeError
        If these are no square matrices.
    numpy.linalg.LinAlgError
        If one is not positive definite.
    TooLargeError
        If the dense matrices would pass the memory limit, or are far larger than what they hold.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.cholesky(sp.asarray([[4.0, 0.0], [0.0, 9.0]]))
    array([[2., 0.],
           [0., 3.]])
    """
    return _of_matrices(np.linalg.cholesky, x, square=True, upper=check_flag("upper", upper))


def cross(x1: Tensor | ArrayLike, x2: Tensor | ArrayLike, /, *, axis: int = -1) -> NDArray[Any]:
    """Return the cross products of vectors of three cells, dense; other axes broadcast.

    Parameters
    ----------
    x1, x2
        Tensors or arrays, of three cells along the axis.
    axis
        Along which the vectors lie.

    Returns
    -------
    ndarray

    Raises
    ------
    ShapeError
        If there are not three cells along the axis, there is no such axis, or the others do not broadcast.
    TooLargeError
        If a dense array would pass the memory limit, or is far larger than what it holds.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.cross(sp.asarray([1, 0, 0]), sp.asarray([0, 2, 0]))
    array([0, 0, 2])
    """
    one, other, along = operand(x1), operand(x2), as_integer(axis, "axis")
    for name, shape in (("x1", np.shape(one)), ("x2", np.shape(other))):
        try:
            size = shape[normalize_axis(along, len(shape))]
        except AxisError as error:
            raise AxisError(f"cross: {name} has the shape {shape}: {error}") from None
        if size != 3:
            raise ShapeError(f"cross: {name} has the shape {shape}, {size} cells along axis {along}: a vector has 3")
    return of_cells(np.linalg.cross, one, np.asarray(other), axis=along)


def det(x: Tensor | ArrayLike, /) -> Any:
    """Return the determinants of matrices.

    Parameters
    ----------
    x
        A tensor or array of at least two dimensions, the last two of one size.

    Returns
    -------
    ndarray
        Without the last two axes; a number of one matrix.

    Raises
    ------
    ShapeError
        If these are no square matrices.
    TooLargeError
        If the dense matrices would pass the memory limit, or are far larger than what they hold:
        :func:`sparrow.linalg.splu` factors them as they are.

    Examples
    --------
    >>> import sparrow as sp
    >>> float(sp.linalg.det(sp.asarray([[4.0, 1.0], [0.0, 3.0]])))
    12.0
    """
    return _of_matrices(np.linalg.det, x, square=True)


def eig(x: Tensor | ArrayLike, /) -> Any:
    """Return the eigenvalues and eigenvectors of square matrices, dense and complex.

    Parameters
    ----------
    x
        A tensor or array of at least two dimensions, the last two of one size.

    Returns
    -------
    EigResult
        ``eigenvalues``, in no order, and ``eigenvectors``, in columns: complex numbers, where
        ``numpy.linalg.eig`` gives real ones if all are.

    Raises
    ------
    ShapeError
        If these are no square matrices.
    numpy.linalg.LinAlgError
        If a cell is not finite, or the iteration does not end.
    TooLargeError
        If the dense matrices would pass the memory limit, or are far larger than what they hold.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.eig(sp.asarray([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    array([2.+0.j, 1.+0.j])
    """
    found: Any = _of_matrices(np.linalg.eig, x, square=True)
    return type(found)(*map(_complex, found))


def eigvals(x: Tensor | ArrayLike, /) -> NDArray[Any]:
    """Return the eigenvalues of square matrices, as complex numbers in no order.

    Parameters
    ----------
    x
        A tensor or array of at least two dimensions, the last two of one size.

    Returns
    -------
    ndarray
        Without the last axis.

    Raises
    ------
    ShapeError
        If these are no square matrices.
    numpy.linalg.LinAlgError
        If a cell is not finite, or the iteration does not end.
    TooLargeError
        If the dense matrices would pass the memory limit, or are far larger than what they hold.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.eigvals(sp.asarray([[0.0, 1.0], [-1.0, 0.0]]))
    array([0.+1.j, 0.-1.j])
    """
    return _complex(_of_matrices(np.linalg.eigvals, x, square=True))


def _complex(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(np.result_type(array, np.complex64), copy=False)


def eigh(x: Tensor | ArrayLike, /) -> Any:
    """Return the eigenvalues and eigenvectors of symmetric or Hermitian matrices, dense.

    Parameters
    ----------
    x
        A tensor or array of at least two dimensions, the last two of one size; only one triangle is looked at.

    Returns
    -------
    EighResult
        ``eigenvalues``, ascending, and ``eigenvectors``, in columns.

    Raises
    ------
    ShapeError
        If these are no square matrices.
    numpy.linalg.LinAlgError
        If the iteration does not end.
    TooLargeError
        If the dense matrices would pass the memory limit, or are far larger than what they hold:
        :func:`sparrow.linalg.eigsh` finds a few of the values and leaves them sparse.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.eigh(sp.asarray([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    array([1., 2.])
    """
    return _of_matrices(np.linalg.eigh, x, square=True)


def eigvalsh(x: Tensor | ArrayLike, /) -> NDArray[Any]:
    """Return the eigenvalues of symmetric or Hermitian matrices, ascending.

    Parameters
    ----------
    x
        A tensor or array of at least two dimensions, the last two of one size; only one triangle is looked at.

    Returns
    -------
    ndarray
        Without the last axis.

    Raises
    ------
    ShapeError
        If these are no square matrices.
    numpy.linalg.LinAlgError
        If the iteration does not end.
    TooLargeError
        If the dense matrices would pass the memory limit, or are far larger than what they hold:
        :func:`sparrow.linalg.eigsh` finds a few of the values and leaves them sparse.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.eigvalsh(sp.asarray([[2.0, 0.0], [0.0, 1.0]]))
    array([1., 2.])
    """
    return _of_matrices(np.linalg.eigvalsh, x, square=True)


def inv(x: Tensor | ArrayLike, /) -> NDArray[Any]:
    """Return the inverses of matrices, dense.

    Parameters
    ----------
    x
        A tensor or array of at least two dimensions, the last two of one size.

    Returns
    -------
    ndarray
        Of the shape of ``x``.

    Raises
    ------
    ShapeError
        If these are no square matrices.
    numpy.linalg.LinAlgError
        If one is singular.
    TooLargeError
        If the dense matrices would pass the memory limit, or are far larger than what they hold:
        :func:`sparrow.linalg.spsolve` solves without an inverse.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.inv(sp.asarray([[4.0, 0.0], [0.0, 2.0]]))
    array([[0.25, 0.  ],
           [0.  , 0.5 ]])
    """
    return _of_matrices(np.linalg.inv, x, square=True)


def matrix_rank(x: Tensor | ArrayLike, /, *, rtol: float | ArrayLike | None = None) -> Any:
    """Return the numbers of singular values of matrices that are not 0 to within a tolerance.

    Parameters
    ----------
    x
        A tensor or array of at least two dimensions.
    rtol
        What counts as 0, as a fraction of the largest singular value; by default as many roundings as the matrix is
        long.

    Returns
    -------
    ndarray
        Without the last two axes; a number of one matrix.

    Raises
    ------
    ShapeError
        If there are fewer dimensions.
    InvalidValueError
        If ``rtol`` is no number.
    TooLargeError
        If the dense matrices would pass the memory limit, or are far larger than what they hold.

    Examples
    --------
    >>> import sparrow as sp
    >>> int(sp.linalg.matrix_rank(sp.asarray([[4.0, 0.0], [2.0, 0.0]])))
    1
    """
    rtol, shape = _tolerance(rtol, "matrix_rank"), np.shape(operand(x))
    if 0 in shape[-2:] and len(shape) > 1:
        return np.zeros(shape[:-2], int)[()]
    return _of_matrices(np.linalg.matrix_rank, x, rtol=rtol)


def pinv(x: Tensor | ArrayLike, /, *, rtol: float | ArrayLike | None = None) -> NDArray[Any]:
    """Return the pseudo-inverses of matrices, dense.

    Parameters
    ----------
    x
        A tensor or array of at least two dimensions.
    rtol
        Which singular values count as 0, as a fraction of the largest; by default as many roundings as the matrix is
        long.

    Returns
    -------
    ndarray
        Of the shape of ``x``, the last two axes exchanged.

    Raises
    ------
    ShapeError
        If there are fewer dimensions.
    InvalidValueError
        If ``rtol`` is no number.
    numpy.linalg.LinAlgError
        If the iteration does not end.
    TooLargeError
        If the dense matrices would pass the memory limit, or are far larger than what they hold:
        :func:`sparrow.linalg.lsqr` solves without.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.pinv(sp.asarray([[4.0, 0.0]]))
    array([[0.25],
           [0.  ]])
    """
    found: Any = operand(x)
    if np.ndim(found) and found.dtype.kind in "biu":  # of integers NumPy knows no roundings to take for 0
        found = found.astype(np.float64)
    return _of_matrices(np.linalg.pinv, found, rtol=_tolerance(rtol, "pinv"))


def _tolerance(rtol: Any, what: str) -> Any:
    """Return a tolerance as numbers, or None for the default.

    Raises
    ------
    InvalidValueError
        If it is none.
    """
    if rtol is None:
        return None
    try:
        found = np.asarray(rtol)
    except ValueError:  # a ragged list
        found = np.empty(0, object)
    if found.dtype.kind not in "biuf":
        raise InvalidValueError(f"{what}: rtol={rtol!r}: give a number, or one for each matrix")
    return found


def qr(x: Tensor | ArrayLike, /, *, mode: Literal["reduced", "complete"] = "reduced") -> Any:
    """Return the factors of matrices into orthonormal columns and an upper triangle, dense.

    Parameters
    ----------
    x
        A tensor or array of at least two dimensions.
    mode
        "reduced": as many columns as the matrix has, or rows if these are fewer; "complete": as many as rows.

    Returns
    -------
    QRResult
        ``Q`` and ``R``.

    Raises
    ------
    ShapeError
        If there are fewer dimensions.
    InvalidValueError
        If there is no such mode.
    TooLargeError
        If the dense matrices would pass the memory limit, or are far larger than what they hold.

    Examples
    --------
    >>> import sparrow as sp
    >>> abs(sp.linalg.qr(sp.asarray([[0.0, 3.0], [2.0, 0.0]])).R)
    array([[2., 0.],
           [0., 3.]])
    """
    if mode not in ("reduced", "complete"):
        raise InvalidValueError(f"qr: mode={mode!r}: use 'reduced' or 'complete'")
    return _of_matrices(np.linalg.qr, x, mode)


def slogdet(x: Tensor | ArrayLike, /) -> Any:
    """Return the signs and the logarithms of the magnitudes of the determinants of matrices.

    Parameters
    ----------
    x
        A tensor or array of at least two dimensions, the last two of one size.

    Returns
    -------
    SlogdetResult
        ``sign`` and ``logabsdet``, numbers of one matrix.

    Raises
    ------
    ShapeError
        If these are no square matrices.
    TooLargeError
        If the dense matrices would pass the memory limit, or are far larger than what they hold:
        :func:`sparrow.linalg.splu` factors them as they are.

    Examples
    --------
    >>> import sparrow as sp
    >>> found = sp.linalg.slogdet(sp.asarray([[0.0, 1.0], [1.0, 0.0]]))
    >>> float(found.sign), float(found.logabsdet)
    (-1.0, 0.0)
    """
    return _of_matrices(np.linalg.slogdet, x, square=True)


def solve(x1: Tensor | ArrayLike, x2: Tensor | ArrayLike, /) -> NDArray[Any]:
    """Solve ``x1 @ x = x2``, dense; :func:`sparrow.linalg.spsolve` leaves a large matrix sparse.

    Parameters
    ----------
    x1
        A tensor or array of at least two dimensions, the last two of one size.
    x2
        A vector, or matrices of as many rows; by label where rows of one matrix and they have some.

    Returns
    -------
    ndarray

    Raises
    ------
    ShapeError
        If ``x1`` is no square matrix, or ``x2`` does not go with it.
    LabelError
        If ``x2`` has a label that no row has.
    numpy.linalg.LinAlgError
        If one is singular.
    TooLargeError
        If the dense matrices would pass the memory limit, or are far larger than what they hold:
        :func:`sparrow.linalg.spsolve` leaves them sparse.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.solve(sp.asarray([[4.0, 1.0], [0.0, 3.0]]), [5.0, 3.0])
    array([1., 1.])
    """
    beside = at_labels(operand(x2), x1, 0, "x2", "solve") if np.ndim(x1) == 2 else operand(x2)
    shape, own = np.shape(x1), np.shape(beside)
    if len(shape) > 1 and shape[-2] == shape[-1] and own[-1 if len(own) == 1 else -2 :][:1] != shape[-2:-1]:
        raise ShapeError(f"solve: x2 has the shape {own}, x1 {shape}: give a number, or a row, for each of its rows")
    return _of_matrices(np.linalg.solve, x1, np.asarray(beside), square=True)


def svd(x: Tensor | ArrayLike, /, *, full_matrices: bool = True) -> Any:
    """Return the singular values and vectors of matrices, dense.

    Parameters
    ----------
    x
        A tensor or array of at least two dimensions.
    full_matrices
        Whether there are as many vectors as rows and as columns, rather than as singular values.

    Returns
    -------
    SVDResult
        ``U``, ``S``, descending, and ``Vh``.

    Raises
    ------
    ShapeError
        If there are fewer dimensions.
    numpy.linalg.LinAlgError
        If the iteration does not end.
    TooLargeError
        If the dense matrices would pass the memory limit, or are far larger than what they hold:
        :func:`sparrow.linalg.svds` finds a few of the values and leaves them sparse.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.svd(sp.asarray([[0.0, 3.0], [-4.0, 0.0]])).S
    array([4., 3.])
    """
    return _of_matrices(np.linalg.svd, x, full_matrices=check_flag("full_matrices", full_matrices))


def svdvals(x: Tensor | ArrayLike, /) -> NDArray[Any]:
    """Return the singular values of matrices, descending.

    Parameters
    ----------
    x
        A tensor or array of at least two dimensions.

    Returns
    -------
    ndarray
        Without the last two axes, and one for the values.

    Raises
    ------
    ShapeError
        If there are fewer dimensions.
    numpy.linalg.LinAlgError
        If the iteration does not end.
    TooLargeError
        If the dense matrices would pass the memory limit, or are far larger than what they hold:
        :func:`sparrow.linalg.svds` finds a few of the values and leaves them sparse.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.svdvals(sp.asarray([[0.0, 3.0], [-4.0, 0.0]]))
    array([4., 3.])
    """
    return _of_matrices(np.linalg.svdvals, x)
