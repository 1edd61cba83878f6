"""SciPy's iterative solvers on tensors: each is SciPy's own function, handed an operator that reads the tensor."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import scipy.sparse.linalg as scipy_linalg

from sparrow.core.schema import as_integer
from sparrow.errors import ConvergenceError, InvalidValueError, ShapeError, SingularError
from sparrow.functions.labels import at_labels, check_space, is_labelled, space_axis
from sparrow.functions.views import as_tensor
from sparrow.linalg.arrays import trace
from sparrow.linalg.direct import check_options, handed_over, refused
from sparrow.linalg.operators import Operator, check_matrix, check_sides, check_square, check_vector, tensor_of
from sparrow.runtime import progress
from sparrow.runtime.validation import check_integer, check_number
from sparrow.tensor import Tensor

__all__ = ["bicgstab", "cg", "eigsh", "expm_multiply", "gmres", "lobpcg", "lsmr", "lsqr", "minres", "svds"]

_MATRICES = ("M", "B", "Minv", "OPinv")
"""Options that are multiplied by."""
_ROUNDS = ("maxiter", "iter_lim", "restart")
"""Options that are numbers of rounds."""
_NUMBERS = ("btol", "conlim", "damp", "shift", "tol")
"""Options that are numbers, beside those of which SciPy says what is wrong with them."""
_SPACES = ("eigsh", "expm_multiply", "lobpcg")
"""Functions of a matrix that maps a space to itself."""
_BLOCKS = {"lobpcg": "X", "expm_multiply": "B"}
"""Functions that take several vectors in one go, and the argument that they are."""


def _operator(A: Any) -> Any:
    """Return what SciPy is handed for an operand: a tensor becomes an operator that keeps to memory if it fits."""
    return Operator(A, persist=True) if isinstance(A, Tensor) else A


def _called(
    name: str,
    A: Any,
    given: tuple[Any, ...],
    options: dict[str, Any],
    square: bool = True,
    instead: Any = None,
    **more: Any,
) -> Any:
    """Call SciPy's function of that name, with operators for tensors or what is given ``instead``, under a bar.

    What it is handed ``more`` than the options is none that errors tell of.
    """
    solve: Callable[..., Any] = getattr(scipy_linalg, name)
    check_options(name, options)
    operator = _operator(check_matrix(A, name))
    if square:
        check_square(operator, name)
    if name in _SPACES:
        check_space(tensor_of(operator), name)
    given = _checked(name, operator, given, options)
    options = {word: _option(name, operator, word, each, options) for word, each in options.items()}
    with (
        progress.bar(name, None, "products") as advance,
        refused(name, options),
        operator.telling(advance) if isinstance(operator, Operator) else nullcontext(),
    ):
        return solve(operator if instead is None else instead, *given, **options, **more)


def _checked(name: str, A: Any, given: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, ...]:
    """Return a right-hand side and a start as arrays, or a number of values as it is, checked against the matrix."""
    if name in ("eigsh", "svds"):
        return (_count(name, A, given[0], options),)
    word = _BLOCKS.get(name, "b")
    axis = space_axis(tensor_of(A)) if name in _SPACES else 0
    side = check_sides(given[0], word, A, axis, name, several=name in _BLOCKS)
    if name == "lobpcg" and (side.ndim == 1 or not side.shape[1]):
        raise ShapeError(
            f"lobpcg: X has the shape {side.shape}, A {A.shape}: give one guess a column, x[:, None] for one"
        )
    if name == "lsmr":  # SciPy adds products to it in place
        side = side.astype(np.result_type(A.dtype, side.dtype), copy=False)
    return (side, *(None if each is None else _start(name, A, "x0", each, 1) for each in given[1:]))


def _count(name: str, A: Any, k: Any, options: dict[str, Any]) -> int:
    """Return how many values there are to be, if the solver finds so many."""
    count, most, way = as_integer(k, "k"), min(A.shape), "sp.linalg.eigh" if name == "eigsh" else "sp.linalg.svd"
    solver = str(options.get("solver", "arpack")).lower()
    if solver != "propack":  # ARPACK lets one vector go, of complex matrices two
        most -= 2 if np.dtype(A.dtype).kind == "c" and solver == "arpack" else 1
    if not 1 <= count <= most:
        kind = f"{'complex ' * (np.dtype(A.dtype).kind == 'c')}matrix of shape {A.shape}"
        some = f"use 1 to {most}, or " if most > 0 else "use "
        raise InvalidValueError(f"{name}: k={count} of a {kind}: {some}{way}, which finds all of a dense one")
    return count


def _start(name: str, A: Any, word: str, given: Any, axis: int) -> Any:
    """Return a vector to begin with as an array of one dimension."""
    found = check_sides(given, word, A, axis, name, several=False).reshape(-1)
    return found if found.dtype.kind in "fc" else found.astype(np.float64)


def _option(name: str, A: Any, word: str, given: Any, options: dict[str, Any]) -> Any:
    """Return what SciPy is handed for an option, checked against the matrix: operators and arrays for tensors."""
    if given is None:
        return None
    tensor = tensor_of(A)
    across = space_axis(tensor) if name in _SPACES else 1
    if word in _MATRICES:
        return _matrix(name, A, word, given, across)
    if word in _ROUNDS:
        check_integer(word, given, int(name in ("gmres", "eigsh", "svds")))
    elif word in _NUMBERS:
        check_number(word, given, least=-math.inf)
    elif word == "callback" and not callable(given):
        raise InvalidValueError(f"callback={given!r}: give a function")
    elif word == "x0":
        return _start(name, A, word, given, across)
    elif word == "v0":
        if name == "svds":  # a left singular vector where there are fewer rows than columns
            across = 0 if A.shape[0] < A.shape[1] or str(options.get("solver")).lower() == "propack" else 1
        return _start(name, A, word, given, across)
    elif word == "Y":
        return check_sides(given, word, A, across, name)
    return check_vector(given, word) if isinstance(given, Tensor) else given


def _matrix(name: str, A: Any, word: str, given: Any, across: int) -> Any:
    """Return a matrix from the rows of another to its columns, as a preconditioner is one; a tensor at their labels."""
    if hasattr(given, "shape") and given.shape != A.shape:
        raise ShapeError(f"{name}: {word} has the shape {given.shape}, A {A.shape}: give one of the shape of A")
    tensor, whole = tensor_of(given), tensor_of(A)
    if not isinstance(tensor, Tensor):
        return given
    turned = at_labels(tensor, whole, across, word, name).T
    placed = at_labels(turned, whole, across if name in _SPACES else 0, word, name).T
    same = isinstance(given, Operator) and not (is_labelled(tensor, 0) or is_labelled(tensor, 1))
    return given if same else Operator(placed, persist=True)


def cg(A: Any, b: Any, x0: Any = None, **options: Any) -> tuple[Any, int]:
    """Solve ``A @ x = b`` for a symmetric positive definite A by conjugate gradients: ``scipy.sparse.linalg.cg``.

    Parameters
    ----------
    A
        A square tensor that may stay on disk, or what SciPy takes.
    b
        The right-hand side, an array or a tensor of one dimension. One with labels goes by those of the rows.
    x0
        Where to begin, by the labels of the columns; 0 by default.
    **options
        SciPy's: ``rtol``, ``atol``, ``maxiter``, ``M`` (a preconditioner, a tensor too), ``callback``.

    Returns
    -------
    x
        An array in the order of the columns.
    info
        0 where it converged.

    Raises
    ------
    ShapeError
        If A is not square, or vectors or M do not fit.
    LabelError
        If they have labels that A lacks.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> A = sp.asarray([[4.0, 1.0], [1.0, 3.0]])
    >>> x, info = sp.linalg.cg(A, [1.0, 2.0])
    >>> np.allclose(A @ x, [1, 2]), info
    (True, 0)
    """
    found: tuple[Any, int] = _called("cg", A, (b, x0), options)
    return found


def gmres(A: Any, b: Any, x0: Any = None, **options: Any) -> tuple[Any, int]:
    """Solve ``A @ x = b`` by generalised minimal residuals: ``scipy.sparse.linalg.gmres``.

    Parameters
    ----------
    A
        A square tensor that may stay on disk, or what SciPy takes.
    b
        The right-hand side, an array or a tensor of one dimension. One with labels goes by those of the rows.
    x0
        Where to begin, by the labels of the columns; 0 by default.
    **options
        SciPy's: ``rtol``, ``atol``, ``restart``, ``maxiter``, ``M``, ``callback``, ``callback_type``.

    Returns
    -------
    x
        An array in the order of the columns.
    info
        0 where it converged.

    Raises
    ------
    ShapeError
        If A is not square, or vectors or M do not fit.
    LabelError
        If they have labels that A lacks.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> A = sp.asarray([[4.0, 1.0], [0.0, 3.0]])
    >>> x, info = sp.linalg.gmres(A, [1.0, 2.0])
    >>> np.allclose(A @ x, [1, 2]), info
    (True, 0)
    """
    found: tuple[Any, int] = _called("gmres", A, (b, x0), options)
    return found


def minres(A: Any, b: Any, x0: Any = None, **options: Any) -> tuple[Any, int]:
    """Solve ``A @ x = b`` for a symmetric A by minimal residuals: ``scipy.sparse.linalg.minres``.

    Parameters
    ----------
    A
        A square tensor that may stay on disk, or what SciPy takes.
    b
        The right-hand side, an array or a tensor of one dimension. One with labels goes by those of the rows.
    x0
        Where to begin, by the labels of the columns; 0 by default.
    **options
        SciPy's: ``rtol``, ``shift``, ``maxiter``, ``M``, ``callback``.

    Returns
    -------
    x
        An array in the order of the columns.
    info
        0 where it converged.

    Raises
    ------
    ShapeError
        If A is not square, or vectors or M do not fit.
    LabelError
        If they have labels that A lacks.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> A = sp.asarray([[0.0, 1.0], [1.0, 3.0]])
    >>> x, info = sp.linalg.minres(A, [1.0, 2.0])
    >>> np.allclose(A @ x, [1, 2]), info
    (True, 0)
    """
    found: tuple[Any, int] = _called("minres", A, (b, x0), options)
    return found


def bicgstab(A: Any, b: Any, x0: Any = None, **options: Any) -> tuple[Any, int]:
    """Solve ``A @ x = b`` by stabilised biconjugate gradients: ``scipy.sparse.linalg.bicgstab``.

    Parameters
    ----------
    A
        A square tensor that may stay on disk, or what SciPy takes.
    b
        The right-hand side, an array or a tensor of one dimension. One with labels goes by those of the rows.
    x0
        Where to begin, by the labels of the columns; 0 by default.
    **options
        SciPy's: ``rtol``, ``atol``, ``maxiter``, ``M``, ``callback``.

    Returns
    -------
    x
        An array in the order of the columns.
    info
        0 where it converged.

    Raises
    ------
    ShapeError
        If A is not square, or vectors or M do not fit.
    LabelError
        If they have labels that A lacks.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> A = sp.asarray([[4.0, 1.0], [0.0, 3.0]])
    >>> x, info = sp.linalg.bicgstab(A, [1.0, 2.0])
    >>> np.allclose(A @ x, [1, 2]), info
    (True, 0)
    """
    found: tuple[Any, int] = _called("bicgstab", A, (b, x0), options)
    return found


def lsqr(A: Any, b: Any, **options: Any) -> tuple[Any, ...]:
    """Find the x of the least squares of ``A @ x - b``: ``scipy.sparse.linalg.lsqr``.

    Parameters
    ----------
    A
        A tensor of two dimensions that may stay on disk, or what SciPy takes.
    b
        The right-hand side, an array or a tensor of one dimension. One with labels goes by those of the rows.
    **options
        SciPy's: ``damp``, ``atol``, ``btol``, ``conlim``, ``iter_lim``, ``calc_var``, ``x0``.

    Returns
    -------
    tuple
        x, why it stopped, iterations, norms and variances: SciPy's ten. x is in the order of the columns.

    Raises
    ------
    ShapeError
        If vectors do not fit.
    LabelError
        If they have labels that A lacks.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    >>> sp.linalg.lsqr(A, [1.0, 2.0, 2.0])[0].round(6)
    array([1., 1.])
    """
    found: tuple[Any, ...] = _called("lsqr", A, (b,), options, square=False)
    return found


def lsmr(A: Any, b: Any, **options: Any) -> tuple[Any, ...]:
    """Find the x of the least squares of ``A @ x - b`` by minimal residuals: ``scipy.sparse.linalg.lsmr``.

    Parameters
    ----------
    A
        A tensor of two dimensions that may stay on disk, or what SciPy takes.
    b
        The right-hand side, an array or a tensor of one dimension. One with labels goes by those of the rows.
    **options
        SciPy's: ``damp``, ``atol``, ``btol``, ``conlim``, ``maxiter``, ``x0``.

    Returns
    -------
    tuple
        x, why it stopped, iterations and norms: SciPy's eight. x is in the order of the columns.

    Raises
    ------
    ShapeError
        If vectors do not fit.
    LabelError
        If they have labels that A lacks.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    >>> sp.linalg.lsmr(A, [1.0, 2.0, 2.0])[0].round(6)
    array([1., 1.])
    """
    found: tuple[Any, ...] = _called("lsmr", A, (b,), options, square=False)
    return found


def eigsh(A: Any, k: int = 6, **options: Any) -> Any:
    """Return eigenvalues, and their vectors, of a symmetric or Hermitian A: ``scipy.sparse.linalg.eigsh``.

    Parameters
    ----------
    A
        A square tensor that may stay on disk, or what SciPy takes.
    k
        How many: at least 1, and fewer than there are, of a complex matrix by two. :func:`eigh` finds all.
    **options
        SciPy's: ``which``, ``v0``, ``ncv``, ``maxiter``, ``tol``, ``return_eigenvectors``, ``M``, ``sigma``. With
        ``sigma`` SciPy factorises the matrix, which is brought into memory for it.

    Returns
    -------
    w, v
        The values in ascending order, and the vectors as columns; the values alone without ``return_eigenvectors``.

    Raises
    ------
    ShapeError
        If A is not square, or ``v0`` or ``M`` does not fit.
    LabelError
        If rows and columns have labels that differ, or ``v0`` or ``M`` others.
    InvalidValueError
        If k is out of range.
    SingularError
        If ``sigma`` is an eigenvalue.
    TooLargeError
        If there is a ``sigma`` and the matrix does not fit the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 5.0]])
    >>> sp.linalg.eigsh(A, 2)[0].round(6)
    array([3., 5.])
    """
    shifted = options.get("sigma") is not None and options.get("OPinv") is None
    own = shifted and not isinstance(A, scipy_linalg.LinearOperator)
    if shifted:
        check_number("eigsh: sigma", options["sigma"], least=-np.inf)
    instead = handed_over(A, "eigsh with sigma", "leave sigma out") if own else None
    try:
        found = _called("eigsh", A, (k,), options, instead=instead)
    except ConvergenceError:
        if not _all_zero(A):
            raise
        if options.get("M") is not None:
            raise ConvergenceError(
                "eigsh: A is all 0, so all eigenvalues are 0, of any vectors that M takes for orthonormal"
            ) from None
        zeros = _zeros(A, as_integer(k, "k"))
        found = (zeros.real, _units(A, 0, zeros)) if options.get("return_eigenvectors", True) else zeros.real
    except RuntimeError as error:
        if not own or "singular" not in str(error):
            raise
        sigma = options["sigma"]
        raise SingularError(f"eigsh: sigma={sigma!r} is an eigenvalue of A: give a number near it") from None
    # SciPy leaves the values of Hermitian matrices in the order that ARPACK found them in.
    if not options.get("return_eigenvectors", True):
        return np.sort(found)
    values, vectors = found
    order = np.argsort(values, kind="stable")
    return values[order], vectors[:, order]


def svds(A: Any, k: int = 6, **options: Any) -> Any:
    """Return singular values and vectors: ``scipy.sparse.linalg.svds``.

    Parameters
    ----------
    A
        A tensor of two dimensions that may stay on disk, or what SciPy takes.
    k
        How many: at least 1, and fewer than the lesser of both sizes, of a complex matrix by two under "arpack"; under
        "propack" as many. :func:`svd` finds all.
    **options
        SciPy's: ``which``, ``v0``, ``ncv``, ``maxiter``, ``tol``, ``return_singular_vectors``, ``solver``, ``rng``.

    Returns
    -------
    u, s, vh
        The left vectors as columns, the values, the right vectors as rows.

    Raises
    ------
    ShapeError
        If ``v0`` does not fit.
    LabelError
        If it has labels that A lacks.
    InvalidValueError
        If k is out of range.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]])
    >>> sp.linalg.svds(A, 1)[1].round(6)
    array([4.])
    """
    try:
        return _called("svds", A, (k,), options, square=False)
    except ConvergenceError:
        if not _all_zero(A):
            raise
    zeros, wanted = _zeros(A, as_integer(k, "k")), options.get("return_singular_vectors", True)
    if not wanted:
        return zeros.real
    u, v = (_units(A, axis, zeros) for axis in (0, 1))
    return None if wanted == "vh" else u, zeros.real, None if wanted == "u" else v.T


def _all_zero(A: Any) -> bool:
    """Return whether a matrix is all 0, of which ARPACK finds nothing: it is not told of what only multiplies."""
    whole = tensor_of(A)
    if isinstance(whole, scipy_linalg.LinearOperator):
        return False
    cells = as_tensor(whole)
    return bool(cells.fill_value == 0 and cells.nnz == 0)


def _zeros(A: Any, k: int) -> Any:
    """Return as many zeros, in the type that SciPy computes in."""
    return np.zeros(k, np.result_type(_operator(check_matrix(A, "A")).dtype, np.float32))


def _units(A: Any, axis: int, values: Any) -> Any:
    """Return orthonormal columns along an axis of a matrix, one for each value and of its type."""
    return np.eye(np.shape(tensor_of(A))[axis], len(values), dtype=values.dtype)


def lobpcg(A: Any, X: Any, **options: Any) -> Any:
    """Return eigenvalues and vectors of a symmetric A from a block of guesses: ``scipy.sparse.linalg.lobpcg``.

    Parameters
    ----------
    A
        A square tensor that may stay on disk, or what SciPy takes. Each round reads it once for all columns.
    X
        The guesses, shape (n, k), by the labels of rows and columns where it has some.
    **options
        SciPy's: ``B``, ``M``, ``Y``, ``tol``, ``maxiter``, ``largest``.

    Returns
    -------
    w, v
        The values, and the vectors as columns.

    Raises
    ------
    ShapeError
        If A is not square, or X, Y, B or M does not fit.
    LabelError
        If rows and columns have labels that differ, or these others.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> A = sp.asarray(np.diag(np.arange(1.0, 21.0)))
    >>> X = np.random.default_rng(0).standard_normal((20, 2))
    >>> sp.linalg.lobpcg(A, X, tol=1e-8, maxiter=100)[0].round(6)
    array([20., 19.])
    """
    return _called("lobpcg", A, (X.copy() if isinstance(X, np.ndarray) else X,), options)  # SciPy writes to it


def expm_multiply(A: Any, B: Any, **options: Any) -> Any:
    """Return ``expm(A) @ B``, the exponential of a matrix times a vector or matrix: SciPy's ``expm_multiply``.

    Parameters
    ----------
    A
        A square tensor that may stay on disk, or what SciPy takes.
    B
        A vector or matrix, an array or a tensor, by the labels of rows and columns where it has some.
    **options
        SciPy's: ``start``, ``stop``, ``num``, ``endpoint`` for ``expm(t * A) @ B`` at several t, and ``traceA``, which
        is read from the tensor by default.

    Returns
    -------
    ndarray
        Of the shape of B, with a leading axis for several t, and of the common type of A and B, with one of at
        least float64.

    Raises
    ------
    ShapeError
        If A is not square, or B has not as many rows.
    LabelError
        If rows and columns have labels that differ, or B others.
    InvalidValueError
        If there is one of ``start`` and ``stop`` alone, or a ``num`` or ``endpoint`` without them.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> np.round(sp.linalg.expm_multiply(sp.asarray([[0.0, 1.0], [0.0, 0.0]]), [1.0, 2.0]), 6)
    array([3., 2.])
    """
    operator = _operator(check_matrix(A, "expm_multiply"))
    check_square(operator, "expm_multiply")
    times = {word: options[word] for word in ("start", "stop", "num", "endpoint") if options.get(word) is not None}
    if times and not {"start", "stop"} <= times.keys():
        given = ", ".join(f"{word}={each!r}" for word, each in times.items())
        raise InvalidValueError(
            f"expm_multiply: {given} alone: start, stop and num go together, for num values of t from start to stop, "
            "50 by default"
        )
    if not operator.shape[0]:  # by which SciPy divides
        return _of_no_cells(operator, check_sides(B, "B", operator, 0, "expm_multiply"), **options)
    if not isinstance(operator, Operator) or options.get("traceA") is not None:
        return _called("expm_multiply", operator, (B,), options)
    options.pop("traceA", None)
    own = operator.dtype.type(trace(operator.tensor))  # a number of Python would make it float64
    return _called("expm_multiply", operator, (B,), options, traceA=own)


def _of_no_cells(
    A: Any, B: Any, start: Any = None, stop: Any = None, num: Any = None, endpoint: Any = None, traceA: Any = None
) -> Any:
    """Return what SciPy's ``expm_multiply`` would of a matrix without cells."""
    if start is stop is num is endpoint is None:
        return np.empty(B.shape, np.result_type(A.dtype, B.dtype))
    return np.empty((50 if num is None else num, *B.shape), np.result_type(A.dtype, B.dtype, np.float64))
