"""SciPy's iterative solvers on tensors: each is SciPy's own function, handed an operator that reads the tensor."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse.linalg as scipy_linalg

from sparrow import progress
from sparrow.errors import InvalidValueError
from sparrow.linalg.arrays import trace
from sparrow.linalg.direct import handed_over
from sparrow.linalg.operators import Operator, check_matrix, check_rows, check_square, check_vector
from sparrow.schema import as_integer
from sparrow.tensor import Tensor

__all__ = ["bicgstab", "cg", "eigsh", "expm_multiply", "gmres", "lobpcg", "lsmr", "lsqr", "minres", "svds"]

_MATRICES = ("M", "B", "Minv", "OPinv")
"""Options that are multiplied by."""


def _operator(A: Any) -> Any:
    """Return what SciPy is handed for an operand: a tensor becomes an operator that keeps to memory if it fits."""
    return Operator(A, persist=True) if isinstance(A, Tensor) else A


def _option(word: str, given: Any) -> Any:
    """Return what SciPy is handed for an option: of a tensor that is no matrix to multiply by the array."""
    return check_vector(given, word) if isinstance(given, Tensor) and word not in _MATRICES else _operator(given)


def _called(name: str, A: Any, given: tuple[Any, ...], options: dict[str, Any], square: bool = True) -> Any:
    """Call SciPy's function of that name with operators for tensors, under a bar that counts products."""
    solve: Callable[..., Any] = getattr(scipy_linalg, name)
    unknown = options.keys() - inspect.signature(solve).parameters.keys()
    if unknown:
        raise TypeError(f"{name}() has no argument {', '.join(map(repr, sorted(unknown)))}")
    A = check_matrix(A, name)
    if square:
        check_square(A, name)
    operator = _operator(A)
    options = {word: _option(word, each) for word, each in options.items()}
    given = _checked(name, A.shape, given)
    with progress.bar(name, None, "products") as advance:
        if isinstance(operator, Operator):
            operator.on_product = advance
        return solve(operator, *given, **options)


def _checked(name: str, shape: tuple[int, int], given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a right-hand side and a start as arrays, or a number of values as it is, checked against the matrix."""
    if name in ("eigsh", "svds"):
        k, most = as_integer(given[0], "k"), min(shape) - 1
        if not 1 <= k <= most:
            raise InvalidValueError(f"{name}: k={k} of a matrix of shape {shape}: use 1 to {most}")
        return (k,)
    word = {"lobpcg": "X", "expm_multiply": "B"}.get(name, "b")
    side = check_rows(check_vector(given[0], word), word, shape[0], name)
    return (side, *(None if each is None else check_vector(each, "x0") for each in given[1:]))


def cg(A: Any, b: Any, x0: Any = None, **options: Any) -> tuple[Any, int]:
    """Solve ``A @ x = b`` for a symmetric positive definite A by conjugate gradients: ``scipy.sparse.linalg.cg``.

    Parameters
    ----------
    A
        A square tensor that may stay on disk, or what SciPy takes.
    b
        The right-hand side, an array or a tensor of one dimension.
    x0
        Where to begin; 0 by default.
    **options
        SciPy's: ``rtol``, ``atol``, ``maxiter``, ``M`` (a preconditioner, a tensor too), ``callback``.

    Returns
    -------
    x
        An array.
    info
        0 where it converged.

    Raises
    ------
    ShapeError
        If A is not square.

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
        The right-hand side, an array or a tensor of one dimension.
    x0
        Where to begin; 0 by default.
    **options
        SciPy's: ``rtol``, ``atol``, ``restart``, ``maxiter``, ``M``, ``callback``, ``callback_type``.

    Returns
    -------
    x
        An array.
    info
        0 where it converged.

    Raises
    ------
    ShapeError
        If A is not square.

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
        The right-hand side, an array or a tensor of one dimension.
    x0
        Where to begin; 0 by default.
    **options
        SciPy's: ``rtol``, ``shift``, ``maxiter``, ``M``, ``callback``.

    Returns
    -------
    x
        An array.
    info
        0 where it converged.

    Raises
    ------
    ShapeError
        If A is not square.

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
        The right-hand side, an array or a tensor of one dimension.
    x0
        Where to begin; 0 by default.
    **options
        SciPy's: ``rtol``, ``atol``, ``maxiter``, ``M``, ``callback``.

    Returns
    -------
    x
        An array.
    info
        0 where it converged.

    Raises
    ------
    ShapeError
        If A is not square.

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
        The right-hand side, an array or a tensor of one dimension.
    **options
        SciPy's: ``damp``, ``atol``, ``btol``, ``conlim``, ``iter_lim``, ``calc_var``, ``x0``.

    Returns
    -------
    tuple
        x, why it stopped, iterations, norms and variances: SciPy's ten.

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
        The right-hand side, an array or a tensor of one dimension.
    **options
        SciPy's: ``damp``, ``atol``, ``btol``, ``conlim``, ``maxiter``, ``x0``.

    Returns
    -------
    tuple
        x, why it stopped, iterations and norms: SciPy's eight.

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
        How many.
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
        If A is not square.
    TooLargeError
        If there is a ``sigma`` and the matrix does not fit the memory limit.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 5.0]])
    >>> sp.linalg.eigsh(A, 2)[0].round(6)
    array([3., 5.])
    """
    if options.get("sigma") is not None and options.get("OPinv") is None:
        A = handed_over(A, "eigsh with sigma", "leave sigma out")
    found = _called("eigsh", A, (k,), options)
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
        How many.
    **options
        SciPy's: ``which``, ``v0``, ``ncv``, ``maxiter``, ``tol``, ``return_singular_vectors``, ``solver``, ``rng``.

    Returns
    -------
    u, s, vh
        The left vectors as columns, the values, the right vectors as rows.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]])
    >>> sp.linalg.svds(A, 1)[1].round(6)
    array([4.])
    """
    return _called("svds", A, (k,), options, square=False)


def lobpcg(A: Any, X: Any, **options: Any) -> Any:
    """Return eigenvalues and vectors of a symmetric A from a block of guesses: ``scipy.sparse.linalg.lobpcg``.

    Parameters
    ----------
    A
        A square tensor that may stay on disk, or what SciPy takes. Each round reads it once for all columns.
    X
        The guesses, shape (n, k).
    **options
        SciPy's: ``B``, ``M``, ``Y``, ``tol``, ``maxiter``, ``largest``.

    Returns
    -------
    w, v
        The values, and the vectors as columns.

    Raises
    ------
    ShapeError
        If A is not square.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> A = sp.asarray(np.diag(np.arange(1.0, 21.0)))
    >>> X = np.random.default_rng(0).standard_normal((20, 2))
    >>> sp.linalg.lobpcg(A, X, tol=1e-8, maxiter=100)[0].round(6)
    array([20., 19.])
    """
    return _called("lobpcg", A, (X,), options)


def expm_multiply(A: Any, B: Any, **options: Any) -> Any:
    """Return ``expm(A) @ B``, the exponential of a matrix times a vector or matrix: SciPy's ``expm_multiply``.

    Parameters
    ----------
    A
        A square tensor that may stay on disk, or what SciPy takes.
    B
        A vector or matrix, an array or a tensor.
    **options
        SciPy's: ``start``, ``stop``, ``num``, ``endpoint`` for ``expm(t * A) @ B`` at several t, and ``traceA``, which
        is read from the tensor by default.

    Returns
    -------
    ndarray
        Of the shape of B, with a leading axis for several t.

    Raises
    ------
    ShapeError
        If A is not square.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> np.round(sp.linalg.expm_multiply(sp.asarray([[0.0, 1.0], [0.0, 0.0]]), [1.0, 2.0]), 6)
    array([3., 2.])
    """
    if isinstance(A, Tensor) and options.get("traceA") is None:
        check_square(A, "expm_multiply")
        options["traceA"] = trace(A).item()
    return _called("expm_multiply", A, (B,), options)
