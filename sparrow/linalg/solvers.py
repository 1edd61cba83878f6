"""SciPy's iterative solvers on tensors, with progress and label alignment."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import scipy.sparse.linalg as scipy_linalg

from sparrow.core.array_validation import check_scipy_array
from sparrow.core.schema import as_integer, is_given_name
from sparrow.errors import ConvergenceError, InvalidValueError, ShapeError, SingularError
from sparrow.functions.labels import align_to_axis, check_same_labels, find_labelled_axis, is_labelled
from sparrow.functions.views import as_tensor
from sparrow.interop.conversion import is_foreign_sparse
from sparrow.linalg.arrays import trace
from sparrow.linalg.direct import check_options, to_scipy_csc, translated_errors
from sparrow.linalg.operators import (
    Operator,
    align_vectors,
    check_matrix,
    check_square,
    shared,
    to_numeric_array,
    unwrap_tensor,
)
from sparrow.plan import render_rename
from sparrow.runtime import memory, progress, settings
from sparrow.runtime.validation import check_integer, check_number
from sparrow.tensor import Tensor

__all__ = ["bicgstab", "cg", "eigsh", "expm_multiply", "gmres", "lobpcg", "lsmr", "lsqr", "minres", "svds"]

_MATRIX_OPTIONS = ("M", "B", "Minv", "OPinv")
_ROUND_OPTIONS = ("maxiter", "iter_lim", "restart")
_NUMBER_OPTIONS = ("btol", "conlim", "damp", "shift", "tol")
"""Numeric options that SciPy does not validate with a clear error."""
_SPACE_FUNCTIONS = ("eigsh", "expm_multiply", "lobpcg")
"""Functions of a matrix that maps a space to itself: both axes share their labels."""
_SYMMETRIC_FUNCTIONS = ("eigsh", "lobpcg", "minres")
"""Functions that give wrong results of a matrix that is not symmetric, without an error."""
_BLOCK_VECTORS = {"lobpcg": 9, "expm_multiply": 4}
"""Arrays of the shape of the argument that a solver keeps: three blocks and their products."""

_PRODUCTS_PER_ROUND = {"bicgstab": 2, "cg": 1, "gmres": 1, "lsmr": 2, "lsqr": 2, "minres": 1}
_CALLED_EACH_ROUND = ("bicgstab", "cg", "gmres", "minres")
"""Solvers that call ``callback`` in each round."""

_BLOCK_ARGUMENTS = {"lobpcg": "X", "expm_multiply": "B"}
"""Functions of several vectors at once, and the argument that holds them."""


def _as_operator(A: Any) -> Any:
    """Return a tensor as an operator, anything else as it is."""
    return Operator(A, persist=True) if isinstance(A, Tensor) else A


def _call_scipy(
    name: str,
    A: Any,
    args: tuple[Any, ...],
    options: dict[str, Any],
    square: bool = True,
    matrix: Any = None,
    **internal: Any,
) -> Any:
    """Call a SciPy solver under a progress bar, with operators for tensors.

    Parameters
    ----------
    name
        SciPy's function.
    A, args, options
        Arguments of the caller, which are validated.
    square
        Whether A must be square.
    matrix
        Passed to SciPy in place of A.
    **internal
        Further options, which errors do not mention.
    """
    solve: Callable[..., Any] = getattr(scipy_linalg, name)
    check_options(name, options)
    operator = _as_operator(check_matrix(A, name))
    if square:  # such solvers multiply products: what belongs to rows is multiplied with columns
        check_square(operator, name)
        check_same_labels(unwrap_tensor(operator), name, name not in _SPACE_FUNCTIONS)
    has_side = name not in ("eigsh", "svds") and name not in _BLOCK_ARGUMENTS
    args = _check_args(name, operator, args, options)
    options = {option: _check_option(name, operator, option, value, options) for option, value in options.items()}
    nbytes, remedy = _reserve_basis(name, operator, args, options)
    if name in _SYMMETRIC_FUNCTIONS:
        _check_symmetric(name, operator if matrix is None else matrix, A)
    with (
        memory.reserve(nbytes, f"{name}: the vectors of its basis", remedy),
        progress.bar(name, _max_products(name, args, options), "products") as advance,
        translated_errors(name, options),
        operator.report_products(advance) if isinstance(operator, Operator) else nullcontext(),
        operator.require_finite(name) if isinstance(operator, Operator) and has_side else nullcontext(),
    ):
        options = _watch_rounds(name, options, advance) if settings.current().show_progress() else options
        return solve(operator if matrix is None else matrix, *args, **options, **internal)


def _max_products(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> float:
    """Return the maximal products of a solver; infinity without a limit."""
    if name == "lobpcg":  # products of blocks: of the guess, and of each round
        rounds = options.get("maxiter")
        return float(args[0].shape[1] * (2 + (min(args[0].shape[0], 20) if rounds is None else rounds)))
    rounds = options.get("iter_lim" if name == "lsqr" else "maxiter")
    if rounds is None or name not in _PRODUCTS_PER_ROUND:
        return math.inf
    each = int(options.get("restart") or 20) if name == "gmres" else 1
    return float(_PRODUCTS_PER_ROUND[name] * each * rounds)


def _watch_rounds(name: str, options: dict[str, Any], advance: progress.Advance) -> dict[str, Any]:
    """Return options with a callback that estimates the products that are left.

    GMRES passes its residual; for others the change of the solution stands for it.
    """
    given = options.get("callback")
    if name not in _CALLED_EACH_ROUND or (name == "gmres" and given is not None):
        return options
    rtol = options.get("rtol")
    rounds = progress.Convergence(1e-5 if rtol is None else float(rtol), math.inf)
    last: list[Any] = [0]
    count = itertools.count(1)

    def watch(found: Any) -> None:
        if name == "gmres":
            error = float(found)
        else:
            scale, change = np.linalg.norm(found), np.linalg.norm(found - last[0])
            last[0] = np.copy(found)
            error = float(change / scale) if scale else math.inf
        advance.set_left(_PRODUCTS_PER_ROUND[name] * (rounds.expect(error) - next(count)))
        if given is not None:
            given(found)

    return {**options, "callback": watch} | ({"callback_type": "pr_norm"} if name == "gmres" else {})


def _reserve_basis(name: str, A: Any, args: tuple[Any, ...], options: dict[str, Any]) -> tuple[int, str]:
    """Return the bytes of the basis that a solver keeps, and what makes it smaller.

    Lanczos and Arnoldi bases take fewer vectors than by default if these do not fit, unless the caller passes a number.
    """
    itemsize = max(np.dtype(A.dtype or np.float64).itemsize, 8)
    if name in ("eigsh", "svds") and str(options.get("solver", "arpack")).lower() == "arpack":
        length, k = min(A.shape), args[0]
        # Three vectors of reverse communication, the residual, and the result besides the basis.
        count, option, least, others = min(length, max(2 * k + 1, 20)), "ncv", k + 2, k + 4
    elif name == "gmres":
        length = A.shape[0]
        count, option, least, others = min(length, 20), "restart", 2, 4
    else:
        blocks = _BLOCK_VECTORS.get(name)
        return (0, "") if blocks is None else (blocks * args[0].nbytes, "pass fewer columns")
    fitting = memory.working_bytes() // 2 // (length * itemsize) - others
    given = options.get(option)
    count = count if given is None else min(as_integer(given, option), length)
    if given is None and fitting < count and length > least:
        count = options[option] = max(fitting, least)
    return (count + others) * length * itemsize, f"pass a smaller {option}="


def _check_args(name: str, A: Any, args: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, ...]:
    """Return the validated positional arguments after the matrix."""
    if name in ("eigsh", "svds"):
        return (_check_count(name, A, args[0], options),)
    argument = _BLOCK_ARGUMENTS.get(name, "b")
    axis = find_labelled_axis(unwrap_tensor(A)) if name in _SPACE_FUNCTIONS else 0
    side = align_vectors(args[0], argument, A, axis, name, several=name in _BLOCK_ARGUMENTS)
    if argument == "b":
        _check_finite(name, "b", side)
    if name == "lobpcg" and (side.ndim == 1 or not side.shape[1]):
        raise ShapeError(f"lobpcg: X must have one guess per column, got shape {side.shape}: pass x[:, None] for one")
    if name == "lsmr":  # SciPy adds products to it in place
        side = side.astype(np.result_type(A.dtype, side.dtype), copy=False)
    return (side, *(None if x0 is None else _initial_vector(name, A, "x0", x0, 1) for x0 in args[1:]))


def _check_count(name: str, A: Any, k: Any, options: dict[str, Any]) -> int:
    """Return the number of values to compute, if the solver can."""
    count, largest = as_integer(k, "k"), min(A.shape)
    solver = str(options.get("solver", "arpack")).lower()
    if solver != "propack":  # ARPACK finds all but one, all but two of complex matrices
        largest -= 2 if np.dtype(A.dtype).kind == "c" and solver == "arpack" else 1
    if not 1 <= count <= largest:
        kind = f"{'complex ' * (np.dtype(A.dtype).kind == 'c')}matrix of shape {A.shape}"
        bounds = f"k must be from 1 to {largest}" if largest > 0 else "no k is valid"
        dense = "sp.linalg.eigh" if name == "eigsh" else "sp.linalg.svd"
        raise InvalidValueError(f"{name}: {bounds} for a {kind}, got {count}: {dense} finds all of a dense matrix")
    return count


def _initial_vector(name: str, A: Any, option: str, vector: Any, axis: int) -> Any:
    """Return an initial vector as an aligned 1-D array of floats."""
    result = align_vectors(vector, option, A, axis, name, several=False).reshape(-1)
    result = result if result.dtype.kind in "fc" else result.astype(np.float64)
    if option == "x0":
        _check_finite(name, option, result)
    return result


def _check_finite(name: str, argument: str, vector: Any) -> None:
    """Raise ``InvalidValueError`` if a vector is not finite.

    No solution is then, however many rounds look for it.
    """
    values = vector.data if is_foreign_sparse(vector) else vector.reshape(-1)
    finite = np.isfinite(values)
    if not finite.all():
        at = int(np.argmin(finite))
        where = "" if is_foreign_sparse(vector) else f" at {at}"
        raise InvalidValueError(f"{name}: {argument} must be finite, got {values[at]}{where}")


def _render_symmetric_part(A: Any) -> str:
    """Return the expression of the symmetric (Hermitian) part of a matrix ``A``."""
    tensor = unwrap_tensor(A)
    name = "A" if tensor is A else "A.tensor"
    kind = np.dtype(tensor.dtype).kind
    transpose = f"{name}.conj().T" if kind == "c" else f"{name}.T"
    if isinstance(tensor, Tensor) and any(map(is_given_name, tensor.dims)):
        transpose += f".{render_rename(tensor.dims[::-1], tensor.dims)}"
    if kind in "biu":  # a sum could wrap
        return f"{name} / 2 + {transpose} / 2"
    return f"({name} + {transpose}) / 2"


def _check_symmetric(name: str, A: Any, given: Any) -> None:
    """Raise ``InvalidValueError`` if a product with the transpose differs.

    The error suggests the symmetric part of the argument that was given.
    """
    if not A.shape[0] or (isinstance(A, scipy_linalg.LinearOperator) and not isinstance(A, Operator)):
        return
    x = np.random.default_rng(0).standard_normal(A.shape[0])
    with np.errstate(all="ignore"):
        product, transposed = A @ x, A.conj().T @ x if not isinstance(A, Operator) else A.rmatvec(x)
        gap = np.linalg.norm(product - transposed)
        scale = max(np.linalg.norm(product), np.linalg.norm(transposed))
    precision = np.finfo(A.dtype if np.dtype(A.dtype).kind in "fc" else np.float64).eps
    if gap > math.sqrt(precision) * scale:
        raise InvalidValueError(
            f"{name}: A must be symmetric (Hermitian), and is not: pass {_render_symmetric_part(given)}, or use "
            "sp.linalg.svds, gmres or lsqr"
        )


def _check_option(name: str, A: Any, option: str, value: Any, options: dict[str, Any]) -> Any:
    """Return a validated option for SciPy, tensors as operators or arrays."""
    if value is None:
        return None
    axis = find_labelled_axis(unwrap_tensor(A)) if name in _SPACE_FUNCTIONS else 1
    if option in _MATRIX_OPTIONS:
        return _check_matrix_option(name, A, option, value, axis)
    if option in _ROUND_OPTIONS:
        check_integer(option, value, int(name in ("gmres", "eigsh", "svds")))
    elif option in _NUMBER_OPTIONS:
        check_number(option, value, minimum=-math.inf)
    elif option == "callback" and not callable(value):
        raise InvalidValueError(f"callback must be callable, got {value!r}")
    elif option == "x0":
        return _initial_vector(name, A, option, value, axis)
    elif option == "v0":
        if name == "svds":  # a left singular vector if there are fewer rows than columns
            axis = 0 if A.shape[0] < A.shape[1] or str(options.get("solver")).lower() == "propack" else 1
        return _initial_vector(name, A, option, value, axis)
    elif option == "Y":
        return align_vectors(value, option, A, axis, name)
    return to_numeric_array(value, option) if isinstance(value, Tensor) else value


def _check_matrix_option(name: str, A: Any, option: str, value: Any, axis: int) -> Any:
    """Return a matrix option of the shape of A; tensors are aligned."""
    if hasattr(value, "shape") and value.shape != A.shape:
        raise ShapeError(f"{name}: {option} must have the shape of A, {A.shape}, got {value.shape}")
    tensor, of = unwrap_tensor(value), unwrap_tensor(A)
    if not isinstance(tensor, Tensor):
        return check_scipy_array(value) if is_foreign_sparse(value) else value
    transposed = align_to_axis(tensor, of, axis, option, name).T
    aligned = align_to_axis(transposed, of, axis if name in _SPACE_FUNCTIONS else 0, option, name).T
    is_aligned = isinstance(value, Operator) and not (is_labelled(tensor, 0) or is_labelled(tensor, 1))
    return value if is_aligned else Operator(aligned, persist=True)


@shared
def cg(A: Any, b: Any, x0: Any = None, **options: Any) -> tuple[Any, int]:
    """Solve ``A @ x = b`` by conjugate gradients: ``scipy.sparse.linalg.cg``.

    A must be symmetric (Hermitian) and positive definite.

    Parameters
    ----------
    %(square)s
    %(side)s
    %(x0)s
    **options
        SciPy's ``rtol``, ``atol``, ``maxiter``, ``M`` (a preconditioner, which may be a tensor) and ``callback``.

    Returns
    -------
    %(solution)s

    Raises
    ------
    %(solver_errors)s

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> A = sp.asarray([[4.0, 1.0], [1.0, 3.0]])
    >>> x, info = sp.linalg.cg(A, [1.0, 2.0])
    >>> np.allclose(A @ x, [1, 2]), info
    (True, 0)
    """
    result: tuple[Any, int] = _call_scipy("cg", A, (b, x0), options)
    return result


@shared
def gmres(A: Any, b: Any, x0: Any = None, **options: Any) -> tuple[Any, int]:
    """Solve ``A @ x = b`` by GMRES: ``scipy.sparse.linalg.gmres``.

    Parameters
    ----------
    %(square)s
    %(side)s
    %(x0)s
    **options
        SciPy's ``rtol``, ``atol``, ``restart``, ``maxiter``, ``M``, ``callback`` and ``callback_type``.

    Returns
    -------
    %(solution)s

    Raises
    ------
    %(solver_errors)s

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> A = sp.asarray([[4.0, 1.0], [0.0, 3.0]])
    >>> x, info = sp.linalg.gmres(A, [1.0, 2.0])
    >>> np.allclose(A @ x, [1, 2]), info
    (True, 0)
    """
    result: tuple[Any, int] = _call_scipy("gmres", A, (b, x0), options)
    return result


@shared
def minres(A: Any, b: Any, x0: Any = None, **options: Any) -> tuple[Any, int]:
    """Solve ``A @ x = b`` by MINRES: ``scipy.sparse.linalg.minres``.

    A must be symmetric (Hermitian).

    Parameters
    ----------
    %(square)s
    %(side)s
    %(x0)s
    **options
        SciPy's ``rtol``, ``shift``, ``maxiter``, ``M`` and ``callback``.

    Returns
    -------
    %(solution)s

    Raises
    ------
    %(solver_errors)s

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> A = sp.asarray([[0.0, 1.0], [1.0, 3.0]])
    >>> x, info = sp.linalg.minres(A, [1.0, 2.0])
    >>> np.allclose(A @ x, [1, 2]), info
    (True, 0)
    """
    result: tuple[Any, int] = _call_scipy("minres", A, (b, x0), options)
    return result


@shared
def bicgstab(A: Any, b: Any, x0: Any = None, **options: Any) -> tuple[Any, int]:
    """Solve ``A @ x = b`` by BiCGSTAB: ``scipy.sparse.linalg.bicgstab``.

    Parameters
    ----------
    %(square)s
    %(side)s
    %(x0)s
    **options
        SciPy's ``rtol``, ``atol``, ``maxiter``, ``M`` and ``callback``.

    Returns
    -------
    %(solution)s

    Raises
    ------
    %(solver_errors)s

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> A = sp.asarray([[4.0, 1.0], [0.0, 3.0]])
    >>> x, info = sp.linalg.bicgstab(A, [1.0, 2.0])
    >>> np.allclose(A @ x, [1, 2]), info
    (True, 0)
    """
    result: tuple[Any, int] = _call_scipy("bicgstab", A, (b, x0), options)
    return result


@shared
def lsqr(A: Any, b: Any, **options: Any) -> tuple[Any, ...]:
    """Minimize the norm of ``A @ x - b``: ``scipy.sparse.linalg.lsqr``.

    Parameters
    ----------
    %(matrix)s
    %(side)s
    **options
        SciPy's ``damp``, ``atol``, ``btol``, ``conlim``, ``iter_lim``, ``calc_var`` and ``x0``.

    Returns
    -------
    tuple
        SciPy's ten results; the first is x, in the order of the columns.

    Raises
    ------
    %(vector_errors)s
    InvalidValueError
        If b or x0 is not finite.
    ConvergenceError
        If a product with A is not finite.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    >>> sp.linalg.lsqr(A, [1.0, 2.0, 2.0])[0].round(6)
    array([1., 1.])
    """
    result: tuple[Any, ...] = _call_scipy("lsqr", A, (b,), options, square=False)
    return result


@shared
def lsmr(A: Any, b: Any, **options: Any) -> tuple[Any, ...]:
    """Minimize the norm of ``A @ x - b``: ``scipy.sparse.linalg.lsmr``.

    Parameters
    ----------
    %(matrix)s
    %(side)s
    **options
        SciPy's ``damp``, ``atol``, ``btol``, ``conlim``, ``maxiter`` and ``x0``.

    Returns
    -------
    tuple
        SciPy's eight results; the first is x, in the order of the columns.

    Raises
    ------
    %(vector_errors)s
    InvalidValueError
        If b or x0 is not finite.
    ConvergenceError
        If a product with A is not finite.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    >>> sp.linalg.lsmr(A, [1.0, 2.0, 2.0])[0].round(6)
    array([1., 1.])
    """
    result: tuple[Any, ...] = _call_scipy("lsmr", A, (b,), options, square=False)
    return result


@shared
def eigsh(A: Any, k: int = 6, **options: Any) -> Any:
    """Return eigenpairs of a symmetric or Hermitian A: ``scipy.sparse.linalg.eigsh``.

    Parameters
    ----------
    %(square)s
    k
        Number of eigenvalues: from 1 to n - 1, or n - 2 if A is complex. :func:`eigh` computes all of a dense matrix.
    **options
        SciPy's ``which``, ``v0``, ``ncv``, ``maxiter``, ``tol``, ``return_eigenvectors``, ``M`` and ``sigma``. With
        ``sigma`` SciPy factorizes the matrix, which is loaded into memory.

    Returns
    -------
    w, v
        Eigenvalues, ascending, and eigenvectors as columns; only the values without ``return_eigenvectors``.

    Raises
    ------
    %(space_errors)s
    InvalidValueError
        If k is out of range, or A is not symmetric.
    SingularError
        If ``sigma`` is an eigenvalue.
    TooLargeError
        If the basis of ``ncv`` vectors exceeds the memory limit, for which ``ncv`` is smaller by default; or the matrix
        does, and ``sigma`` is given.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 5.0]])
    >>> sp.linalg.eigsh(A, 2)[0].round(6)
    array([3., 5.])
    """
    shifted = options.get("sigma") is not None and options.get("OPinv") is None
    factorized = shifted and not isinstance(A, scipy_linalg.LinearOperator)
    if shifted:
        check_number("eigsh: sigma", options["sigma"], minimum=-np.inf)
    matrix = to_scipy_csc(A, "eigsh with sigma", "omit sigma") if factorized else None
    try:
        result = _call_scipy("eigsh", A, (k,), options, matrix=matrix)
    except ConvergenceError:
        if not _is_zero(A):
            raise
        if options.get("M") is not None:
            raise ConvergenceError(
                "eigsh: A is all 0, so all eigenvalues are 0 and any M-orthonormal vectors are eigenvectors"
            ) from None
        zeros = _zeros(A, as_integer(k, "k"))
        result = (zeros.real, _unit_vectors(A, 0, zeros)) if options.get("return_eigenvectors", True) else zeros.real
    except RuntimeError as error:
        if not factorized or "singular" not in str(error):
            raise
        sigma = options["sigma"]
        raise SingularError(f"eigsh: sigma={sigma!r} is an eigenvalue of A: pass a number near it") from None
    # SciPy does not sort the eigenvalues of Hermitian matrices.
    if not options.get("return_eigenvectors", True):
        return np.sort(result)
    values, vectors = result
    order = np.argsort(values, kind="stable")
    return values[order], vectors[:, order]


@shared
def svds(A: Any, k: int = 6, **options: Any) -> Any:
    """Return singular values and vectors: ``scipy.sparse.linalg.svds``.

    Parameters
    ----------
    %(matrix)s
    k
        Number of singular values: from 1 to min(m, n) - 1, or min(m, n) - 2 if A is complex and the solver "arpack"; up
        to min(m, n) with "propack". :func:`svd` computes all of a dense matrix.
    **options
        SciPy's ``which``, ``v0``, ``ncv``, ``maxiter``, ``tol``, ``return_singular_vectors``, ``solver`` and ``rng``.

    Returns
    -------
    u, s, vh
        Left singular vectors as columns, singular values, and right singular vectors as rows.

    Raises
    ------
    %(vector_errors)s
    InvalidValueError
        If k is out of range, or the solver is "propack" for ``which="SM"``, of which PROPACK finds false zeros.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]])
    >>> sp.linalg.svds(A, 1)[1].round(6)
    array([4.])
    """
    if str(options.get("solver")).lower() == "propack" and options.get("which") == "SM":
        raise InvalidValueError(
            "svds: solver must be 'arpack' or 'lobpcg' for which='SM', got 'propack', which finds false zeros"
        )
    try:
        return _call_scipy("svds", A, (k,), options, square=False)
    except ConvergenceError:
        if not _is_zero(A):
            raise
    zeros, vectors = _zeros(A, as_integer(k, "k")), options.get("return_singular_vectors", True)
    if not vectors:
        return zeros.real
    u, v = (_unit_vectors(A, axis, zeros) for axis in (0, 1))
    return None if vectors == "vh" else u, zeros.real, None if vectors == "u" else v.T


def _is_zero(A: Any) -> bool:
    """Return whether a matrix is all 0, which makes ARPACK fail."""
    tensor = unwrap_tensor(A)
    if isinstance(tensor, scipy_linalg.LinearOperator):
        return False
    tensor = as_tensor(tensor)
    return bool(tensor.fill_value == 0 and tensor.nnz == 0)


def _zeros(A: Any, k: int) -> Any:
    """Return k zeros of the dtype that SciPy computes in."""
    return np.zeros(k, np.result_type(_as_operator(check_matrix(A, "A")).dtype, np.float32))


def _unit_vectors(A: Any, axis: int, values: Any) -> Any:
    """Return orthonormal columns along an axis of a matrix, one per value."""
    return np.eye(np.shape(unwrap_tensor(A))[axis], len(values), dtype=values.dtype)


@shared
def lobpcg(A: Any, X: Any, **options: Any) -> Any:
    """Return eigenpairs from a block of guesses: ``scipy.sparse.linalg.lobpcg``.

    Parameters
    ----------
    A
        Square symmetric tensor, which may stay on disk, operator, or what SciPy accepts. Each round reads it once.
    X
        Initial guesses, shape (n, k); a labelled tensor is aligned.
    **options
        SciPy's ``B``, ``M``, ``Y``, ``tol``, ``maxiter`` and ``largest``.

    Returns
    -------
    w, v
        Eigenvalues, and eigenvectors as columns.

    Raises
    ------
    %(space_errors)s

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> A = sp.asarray(np.diag(np.arange(1.0, 21.0)))
    >>> X = np.random.default_rng(0).standard_normal((20, 2))
    >>> sp.linalg.lobpcg(A, X, tol=1e-8, maxiter=100)[0].round(6)
    array([20., 19.])
    """
    return _call_scipy("lobpcg", A, (X.copy() if isinstance(X, np.ndarray) else X,), options)  # SciPy modifies X


@shared
def expm_multiply(A: Any, B: Any, **options: Any) -> Any:
    """Return ``expm(A) @ B``: ``scipy.sparse.linalg.expm_multiply``.

    Parameters
    ----------
    %(square)s
    B
        Vector or matrix; a labelled tensor is aligned.
    **options
        SciPy's ``start``, ``stop``, ``num`` and ``endpoint`` for ``expm(t * A) @ B`` at several t; ``traceA``, computed
        from the tensor by default.

    Returns
    -------
    ndarray
        Shape of B, with a leading axis for several t. Common type of A and B, at least float64 for several t.

    Raises
    ------
    %(space_errors)s
    InvalidValueError
        If only one of ``start`` and ``stop`` is given, ``num`` or ``endpoint`` without them, or ``stop`` is less.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> np.round(sp.linalg.expm_multiply(sp.asarray([[0.0, 1.0], [0.0, 0.0]]), [1.0, 2.0]), 6)
    array([3., 2.])
    """
    operator = _as_operator(check_matrix(A, "expm_multiply"))
    check_square(operator, "expm_multiply")
    if options.get("start") is not None and options.get("stop") is not None and options["stop"] < options["start"]:
        raise InvalidValueError(
            f"expm_multiply: stop must be at least start, got start={options['start']!r} and stop={options['stop']!r}: "
            "pass -A with positive times"
        )
    times = {name: options[name] for name in ("start", "stop", "num", "endpoint") if options.get(name) is not None}
    if times and not {"start", "stop"} <= times.keys():
        given = ", ".join(f"{name}={value!r}" for name, value in times.items())
        raise InvalidValueError(
            f"expm_multiply: start, stop and num go together, got {given} alone: they select num values of t from "
            "start to stop, 50 by default"
        )
    if not operator.shape[0]:  # SciPy divides by it
        return _empty_expm_multiply(operator, align_vectors(B, "B", operator, 0, "expm_multiply"), **options)
    if not isinstance(operator, Operator) or options.get("traceA") is not None:
        return _call_scipy("expm_multiply", operator, (B,), options)
    options.pop("traceA", None)
    trace_of_a = operator.dtype.type(trace(operator.tensor))  # a Python float would promote float32
    return _call_scipy("expm_multiply", operator, (B,), options, traceA=trace_of_a)


def _empty_expm_multiply(
    A: Any, B: Any, start: Any = None, stop: Any = None, num: Any = None, endpoint: Any = None, traceA: Any = None
) -> Any:
    """Return the result of SciPy's ``expm_multiply`` for a matrix of shape (0, 0)."""
    if start is stop is num is endpoint is None:
        return np.empty(B.shape, np.result_type(A.dtype, B.dtype))
    return np.empty((50 if num is None else num, *B.shape), np.result_type(A.dtype, B.dtype, np.float64))
