"""Norms and products of the array API standard."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from sparrow.core.schema import as_integers
from sparrow.errors import AxisError, ShapeError, UnsupportedError
from sparrow.functions.contraction import tensordot
from sparrow.functions.elementwise import as_operand
from sparrow.functions.manipulation import diagonal as any_diagonal
from sparrow.functions.products import matmul, matrix_power, outer_product, vecdot
from sparrow.functions.views import as_tensor, matrix_transpose
from sparrow.linalg.factorizations import call_dense
from sparrow.plan import normalize_axis
from sparrow.tensor import Tensor

__all__ = [
    "diagonal", "matmul", "matrix_norm", "matrix_power", "matrix_transpose", "norm", "outer", "tensordot", "trace",
    "vecdot", "vector_norm",
]  # fmt: skip


def diagonal(x: Any, /, *, offset: int = 0) -> Tensor:
    """Return the diagonals of the matrices in the last two axes, lazily.

    Parameters
    ----------
    x
        Tensor, shape (..., m, n).
    offset
        Diagonal to return: positive above the main one, negative below.

    Returns
    -------
    Tensor
        The last axis runs along the diagonals.

    Raises
    ------
    ShapeError
        If x has fewer than two dimensions.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.diagonal(sp.asarray([[[1, 2], [0, 3]], [[4, 0], [5, 6]]])).to_numpy()
    array([[1, 3],
           [4, 6]])
    """
    tensor = as_tensor(x)
    return any_diagonal(tensor, offset) if tensor.ndim < 3 else any_diagonal(tensor, offset, -2, -1)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: float | str | None = "fro") -> Any:
    """Return the norms of the matrices in the last two axes.

    Parameters
    ----------
    x
        Tensor or array, shape (..., m, n). The result for an array is NumPy's.
    keepdims
        Keep the two axes with length 1.
    ord
        "fro": Frobenius norm. 1 or -1: largest or smallest column sum of magnitudes. ``inf`` or ``-inf``: the same of
        rows. 2, -2 or "nuc": largest or smallest singular value, or their sum, computed from dense matrices.

    Returns
    -------
    Tensor
        A scalar for a single matrix without ``keepdims``.

    Raises
    ------
    ShapeError
        If x has fewer than two dimensions.
    UnsupportedError
        If ``ord`` is unknown, or asks for singular values of float16.
    TooLargeError
        If singular values require dense matrices beyond the memory limit, or far larger than their stored elements:
        :func:`sparrow.linalg.svds` computes the largest ones.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[0.0, 3.0], [-4.0, 0.0]])
    >>> float(sp.linalg.matrix_norm(A)), float(sp.linalg.matrix_norm(A, ord=1))
    (5.0, 4.0)
    """
    given: Any = as_operand(x)
    if np.ndim(given) < 2:
        raise AxisError(f"matrix_norm requires at least two dimensions, got shape {np.shape(given)}")
    if isinstance(given, Tensor) and (ord in (2, -2, "nuc") or (ord in (1, np.inf) and _is_empty(given))):
        return call_dense(np.linalg.matrix_norm, given, keepdims=keepdims, ord=ord)
    return np.linalg.matrix_norm(given, keepdims=keepdims, ord=ord)  # type: ignore[arg-type]


def _is_empty(x: Tensor) -> bool:
    """Return whether matrices are empty; NumPy defines their largest sum as 0."""
    return x.ndim > 1 and 0 in x.shape[-2:]


def norm(
    x: Any, /, ord: float | str | None = None, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
) -> Any:
    """Return a vector or matrix norm, by the rules of ``numpy.linalg.norm``.

    Parameters
    ----------
    x
        Tensor, operator or array. The result for an array is NumPy's.
    ord
        As in :func:`vector_norm` for one axis, as in :func:`matrix_norm` for two; by default the root of the sum of
        squares.
    axis
        One axis for vector norms, two for matrix norms. By default, the flattened tensor without ``ord``, else all
        axes.
    keepdims
        Keep the axes with length 1.

    Returns
    -------
    Tensor
        A scalar over all axes without ``keepdims``.

    Raises
    ------
    ShapeError
        If an axis is out of range or repeated, or there are more than two and an ``ord``.
    UnsupportedError
        If ``ord`` is unknown.
    TooLargeError
        See :func:`matrix_norm`.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[0.0, 3.0], [-4.0, 0.0]])
    >>> float(sp.linalg.norm(A)), float(sp.linalg.norm(A, 1)), sp.linalg.norm(A, axis=1).to_numpy()
    (5.0, 4.0, array([3., 4.]))
    """
    if not isinstance(x, Tensor | np.ndarray):
        from sparrow.linalg.operators import unwrap_tensor  # imports SciPy's solvers

        x = unwrap_tensor(x)
    result: Any = as_operand(x)
    if not isinstance(result, Tensor):
        along: Any = axis
        return np.linalg.norm(result, ord, along, keepdims)  # type: ignore[arg-type]
    if ord is None:
        return result.norm(2, axis, keepdims=keepdims)
    axes = tuple(range(result.ndim)) if axis is None else tuple(as_integers(axis, "axis"))
    if len(axes) == 1:
        if isinstance(ord, str):
            raise UnsupportedError(f"ord={ord!r} is a matrix norm: pass two axes, or a number as ord")
        return result.norm(ord, axes[0], keepdims=keepdims)
    if len(axes) != 2:
        raise ShapeError(f"norm with ord={ord!r} requires one or two axes, got {axes}")
    row_axis, column_axis = (normalize_axis(number, result.ndim) for number in axes)
    others = [number for number in range(result.ndim) if number not in (row_axis, column_axis)]
    norms = matrix_norm(result.transpose(*others, row_axis, column_axis), ord=ord)
    if not keepdims:
        return norms
    shape = [1 if number in (row_axis, column_axis) else n for number, n in enumerate(result.shape)]
    return as_tensor(norms).reshape(*shape)


def outer(x1: Any, x2: Any, /) -> Tensor:
    """Return the outer product of two vectors, lazily.

    Parameters
    ----------
    x1, x2
        Vectors of length m and n, tensors or arrays.

    Returns
    -------
    Tensor
        Matrix, shape (m, n).

    Raises
    ------
    ShapeError
        If an operand is not 1-D.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.outer(sp.asarray([0, 2]), sp.asarray([1, 0, 3])).to_numpy()
    array([[0, 0, 0],
           [2, 0, 6]])
    """
    one, other = as_tensor(x1), as_tensor(x2)
    if one.ndim != 1 or other.ndim != 1:
        raise ShapeError(f"outer requires two vectors, got shapes {one.shape} and {other.shape}")
    return outer_product(one, other)


def trace(x: Any, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Any:
    """Return the traces of the matrices in the last two axes.

    Parameters
    ----------
    x
        Tensor, shape (..., m, n).
    offset
        Diagonal to sum: positive above the main one, negative below.
    dtype
        Type of the sums; NumPy's choice by default.

    Returns
    -------
    Tensor
        A scalar for a single matrix.

    Raises
    ------
    ShapeError
        If x has fewer than two dimensions.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.trace(sp.asarray([[1, 2], [0, 3]]))
    np.int64(4)
    """
    result = diagonal(x, offset=offset)
    return result.sum(None if result.ndim == 1 else -1, dtype=dtype)


def vector_norm(x: Any, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, ord: float = 2) -> Any:
    """Return vector norms over axes.

    Parameters
    ----------
    x
        Tensor or array. The result for an array is NumPy's.
    axis
        Axis or axes to reduce; all by default.
    keepdims
        Keep them with length 1.
    ord
        A positive p for the p-norm, ``inf`` or ``-inf`` for the largest or smallest magnitude, 0 for the number of
        nonzero elements.

    Returns
    -------
    Tensor
        A scalar over all axes without ``keepdims``.

    Raises
    ------
    ShapeError
        If an axis is out of range or repeated.
    InvalidValueError
        If ``ord`` is unknown.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.vector_norm(sp.asarray([[0.0, 3.0], [-4.0, 0.0]]), axis=1).to_numpy()
    array([3., 4.])
    """
    result: Any = as_operand(x)
    if isinstance(result, Tensor):
        return result.norm(ord, axis, keepdims=keepdims)
    along: Any = axis
    return np.linalg.vector_norm(result, axis=along, keepdims=keepdims, ord=ord)
