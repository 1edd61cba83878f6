"""BLAS level 1: vector operations."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparrow.blas.operands import as_vector, check_scalar, conjugate, scale, shared, zeros_of
from sparrow.core.schema import check_array
from sparrow.errors import InvalidValueError, ShapeError
from sparrow.functions.labels import can_align
from sparrow.plan import align_columns
from sparrow.tensor import Tensor
from sparrow.tensor.matching import label_operands, match_axes, to_labelled

__all__ = [
    "asum", "axpy", "copy", "dot", "dotc", "gather", "gather_zero", "iamax", "iamin", "nrm2", "rot", "scal", "scatter",
    "swap",
]  # fmt: skip


def _vectors(x: Any, y: Any) -> tuple[Any, Any]:
    x, y = label_operands((x, y))
    one, other = as_vector(x, "x"), as_vector(y, "y")
    if not can_align(one, other):
        raise ShapeError(f"x and y must have equal length, got {one.shape[0]} and {other.shape[0]}")
    return one, other


def _magnitudes(x: Any) -> Any:
    """Return magnitudes as BLAS defines them: ``|real| + |imag|`` if complex."""
    if x.dtype.kind == "c":
        return np.abs(x.real) + np.abs(x.imag)
    if x.dtype.kind != "i":
        return np.abs(x)
    return np.abs(x.astype(np.int64)).astype(np.uint64)  # abs(int8(-128)) overflows int8


@shared
def dot(x: Any, y: Any) -> Any:
    """Return the dot product of two vectors, without conjugation.

    Parameters
    ----------
    %(xy)s

    Returns
    -------
    scalar

    Raises
    ------
    %(vector_errors)s

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.blas.dot(sp.asarray([1, 2, 0, 4]), [1, 2, 3, 4])
    np.int64(21)
    """
    one, other = _vectors(x, y)
    return one @ other


@shared
def dotc(x: Any, y: Any) -> Any:
    """Return the dot product of the conjugate of x with y.

    Parameters
    ----------
    %(xy)s

    Returns
    -------
    scalar

    Raises
    ------
    %(vector_errors)s

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.blas.dotc(sp.asarray([1j, 0]), [1j, 5])
    np.complex128(1+0j)
    """
    one, other = _vectors(x, y)
    return conjugate(one) @ other


@shared
def nrm2(x: Any) -> Any:
    """Return the Euclidean norm of a vector, without overflow or underflow.

    Parameters
    ----------
    %(x)s

    Returns
    -------
    scalar

    Raises
    ------
    %(vector_errors)s

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.blas.nrm2(sp.asarray([3.0, 0.0, 4.0]))
    np.float64(5.0)
    """
    result = as_vector(x, "x")
    norm = _norm(result)
    limits = np.finfo(norm.dtype)
    if np.isfinite(norm) and norm > limits.tiny**0.5 / limits.eps:
        return norm
    largest = np.abs(result).max(initial=0)  # the squares may have overflowed or underflowed
    return norm if largest == 0 or not np.isfinite(largest) else type(norm)(_norm(result / largest) * largest)


def _norm(x: Any) -> Any:
    with np.errstate(over="ignore", under="ignore"):
        return np.linalg.norm(x)


@shared
def asum(x: Any) -> Any:
    """Return the sum of absolute values; of ``|real| + |imag|`` if complex.

    Parameters
    ----------
    %(x)s

    Returns
    -------
    scalar

    Raises
    ------
    %(vector_errors)s

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.blas.asum(sp.asarray([1, 0, -4]))
    np.uint64(5)
    """
    return _magnitudes(as_vector(x, "x")).sum()


@shared
def iamax(x: Any) -> int:
    """Return the index of the first element of largest magnitude.

    Parameters
    ----------
    %(x)s

    Returns
    -------
    int
        Index from 0, absent elements counted.

    Raises
    ------
    %(vector_errors)s
    InvalidValueError
        If the vector is empty.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.blas.iamax(sp.asarray([1, -2, 0, 4]))
    3
    """
    return int(_magnitudes(_nonempty(x, "iamax")).argmax())


@shared
def iamin(x: Any) -> int:
    """Return the index of the first element of smallest magnitude.

    Parameters
    ----------
    %(x)s

    Returns
    -------
    int
        Index from 0, absent elements counted.

    Raises
    ------
    %(vector_errors)s
    InvalidValueError
        If the vector is empty.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.blas.iamin(sp.asarray([1, -2, 0, 4]))
    2
    """
    return int(_magnitudes(_nonempty(x, "iamin")).argmin())


def _nonempty(x: Any, routine: str) -> Any:
    result = as_vector(x, "x")
    if not result.shape[0]:
        raise InvalidValueError(f"{routine}: x must not be empty")
    return result


@shared
def axpy(x: Any, y: Any, a: Any = 1) -> Any:
    """Return ``a * x + y``.

    Parameters
    ----------
    %(xy)s
    a
        Scalar factor; with 0 x is not read.

    Returns
    -------
    %(lazy_result)s

    Raises
    ------
    %(vector_errors)s

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> sp.blas.axpy(sp.asarray([1, 2, 0, 4]), np.array([1, 2, 3, 4]))
    array([2, 4, 3, 8])
    """
    factor, (one, other) = check_scalar(a, "a"), _vectors(x, y)
    return scale(factor, one if factor != 0 else zeros_of(one)) + other


@shared
def rot(x: Any, y: Any, c: Any, s: Any) -> tuple[Any, Any]:
    """Apply a Givens rotation: return ``c * x + s * y`` and ``c * y - s * x``.

    Parameters
    ----------
    %(xy)s
    c, s
        Cosine and sine.

    Returns
    -------
    x, y
        Rotated vectors: lazy tensors if both operands are tensors, else arrays.

    Raises
    ------
    %(vector_errors)s

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> sp.blas.rot(sp.asarray([1, 2, 0, 4]), np.array([1, 2, 3, 4]), 1, 2)
    (array([ 3,  6,  6, 12]), array([-1, -2,  3, -4]))
    """
    c, s = check_scalar(c, "c"), check_scalar(s, "s")
    one, other = _vectors(x, y)
    return scale(c, one) + scale(s, other), scale(c, other) - scale(s, one)


@shared
def scal(a: Any, x: Any) -> Any:
    """Return ``a * x``.

    Parameters
    ----------
    a
        Scalar factor.
    %(x)s

    Returns
    -------
    %(lazy_result)s

    Raises
    ------
    %(vector_errors)s

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.blas.scal(2, sp.asarray([1, 2, 0, 4])).to_numpy()
    array([2, 4, 0, 8])
    """
    return scale(check_scalar(a, "a"), as_vector(x, "x"))


@shared
def copy(x: Any) -> Any:
    """Return an independent copy of a vector in memory.

    Parameters
    ----------
    %(x)s

    Returns
    -------
    Tensor or ndarray

    Raises
    ------
    %(vector_errors)s

    Examples
    --------
    >>> import sparrow as sp
    >>> x = sp.asarray([1, 0])
    >>> y = sp.blas.copy(x)
    >>> y[1] = 5
    >>> x.to_numpy(), y.to_numpy()
    (array([1, 0]), array([1, 5]))
    """
    result = as_vector(x, "x")
    return result.compute() if isinstance(result, Tensor) else result.copy()


@shared
def swap(x: Any, y: Any) -> tuple[Any, Any]:
    """Return copies of y and x.

    Parameters
    ----------
    %(xy)s

    Returns
    -------
    y, x

    Raises
    ------
    %(vector_errors)s

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> x, y = sp.blas.swap(sp.asarray([1, 0]), np.array([5, 6]))
    >>> x, y.to_numpy()
    (array([5, 6]), array([1, 0]))
    """
    one, other = _vectors(x, y)
    return copy(other), copy(one)


@shared
def gather(y: Any, indices: Any) -> Any:
    """Return the elements of a vector at some indices as an array.

    Parameters
    ----------
    y
        Vector, tensor or array.
    %(indices)s

    Returns
    -------
    ndarray

    Raises
    ------
    %(index_errors)s

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.blas.gather(sp.asarray([1, 2, 0, 4]), [0, 2, 3])
    array([1, 0, 4])
    """
    y = as_vector(y, "y")
    result = y[_positions(indices, y)]
    return result.to_numpy() if isinstance(result, Tensor) else result


@shared
def gather_zero(y: Any, indices: Any) -> tuple[Any, Any]:
    """Return the elements at some indices, and a copy of y with 0 there.

    Parameters
    ----------
    y
        Vector, tensor or array.
    %(indices)s

    Returns
    -------
    values
        Array.
    y
        Copy in memory, tensor or array as y.

    Raises
    ------
    %(index_errors)s

    Examples
    --------
    >>> import sparrow as sp
    >>> values, rest = sp.blas.gather_zero(sp.asarray([1, 2, 0, 4]), [0, 2, 3])
    >>> values, rest.to_numpy()
    (array([1, 0, 4]), array([0, 2, 0, 0]))
    """
    at = _positions(indices, as_vector(y, "y"))
    values = gather(y, at)
    return values, scatter(np.zeros_like(values), at, y)


@shared
def scatter(x: Any, indices: Any, y: Any) -> Any:
    """Return a copy of y with the elements of x written at some indices.

    Parameters
    ----------
    x
        Values, one for each index; of a repeated index the last one is stored.
    %(indices)s
    y
        Vector, tensor or array.

    Returns
    -------
    Tensor or ndarray
        Copy in memory, tensor or array as y.

    Raises
    ------
    %(index_errors)s

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.blas.scatter([7, 8], [3, 0], sp.asarray([1, 2, 0, 4])).to_numpy()
    array([8, 2, 0, 7])
    """
    x, indices, y = label_operands((x, indices, y))
    values, indices = align_columns([as_vector(x, "x"), indices], ["scatter: x", "scatter: indices"])
    at = _positions(indices, as_vector(y, "y"))
    if values.shape != at.shape:
        raise ShapeError(f"x must have one element per index, {at.size}, got {values.shape[0]}")
    result = copy(y)
    if len(at):
        is_matched = isinstance(result, Tensor) or not isinstance(values, Tensor)
        result[at] = values if is_matched else values.to_numpy()
    return result


def _positions(indices: Any, y: Any) -> Any:
    """Return indices, or those of the true elements of a mask, as an integer array."""
    indices = to_labelled(indices, y, {0: 0})
    if isinstance(indices, Tensor) and indices.dtype == bool:
        indices = match_axes(indices, y, {0: 0}, "indices", "mask", "y")
    result = np.atleast_1d(check_array(indices, "indices"))
    if result.ndim > 1:
        raise ShapeError(f"indices must be 1-D, got shape {result.shape}")
    if result.dtype == bool:
        if len(result) != len(y):
            raise ShapeError(f"indices must be a mask of length {len(y)}, got length {len(result)}")
        return np.flatnonzero(result)
    return result if result.size else result.astype(np.int64)
