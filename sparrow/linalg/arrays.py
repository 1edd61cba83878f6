"""Norms and products by the names of the array API standard, of the last two axes of a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from sparrow.core.schema import as_integers
from sparrow.errors import AxisError, ShapeError, UnsupportedError
from sparrow.functions.contraction import tensordot
from sparrow.functions.dense_linalg import call_dense
from sparrow.functions.elementwise import operand
from sparrow.functions.manipulation import diagonal as any_diagonal
from sparrow.functions.products import matmul, matrix_power, vecdot
from sparrow.functions.views import as_tensor, matrix_transpose
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
        A tensor of at least two dimensions.
    offset
        How far the diagonal lies to the right of the main one, negative to the left.

    Returns
    -------
    Tensor
        The last axis runs along the diagonals.

    Raises
    ------
    ShapeError
        If there are fewer dimensions.

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
        A tensor of at least two dimensions; or an array, of which the result is NumPy's.
    keepdims
        Keep the two axes with length 1.
    ord
        "fro" for the root of the sum of squares; 1 or -1 for the largest or smallest sum of the magnitudes in a
        column; ``inf`` or ``-inf`` for that in a row; 2, -2 or "nuc" for the largest or smallest singular value, or
        their sum, of dense matrices.

    Returns
    -------
    Tensor
        A number of one matrix without ``keepdims``.

    Raises
    ------
    ShapeError
        If there are fewer dimensions.
    UnsupportedError
        If another norm is asked for, or singular values of float16.
    TooLargeError
        If singular values are asked for, and the dense matrices would pass the memory limit, or are far larger than
        what they hold: :func:`sparrow.linalg.svds` finds the largest.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[0.0, 3.0], [-4.0, 0.0]])
    >>> float(sp.linalg.matrix_norm(A)), float(sp.linalg.matrix_norm(A, ord=1))
    (5.0, 4.0)
    """
    given: Any = operand(x)
    if np.ndim(given) < 2:
        raise AxisError(f"matrix_norm takes matrices, got shape {np.shape(given)}")
    if isinstance(given, Tensor) and (ord in (2, -2, "nuc") or (ord in (1, np.inf) and _hollow(given))):
        return call_dense(np.linalg.matrix_norm, given, keepdims=keepdims, ord=ord)
    return np.linalg.matrix_norm(given, keepdims=keepdims, ord=ord)  # type: ignore[arg-type]


def _hollow(x: Tensor) -> bool:
    """Return whether matrices have no cells, of which the largest sum is 0 as NumPy has it."""
    return x.ndim > 1 and 0 in x.shape[-2:]


def norm(
    x: Any, /, ord: float | str | None = None, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
) -> Any:
    """Return a norm by NumPy's rules: of vectors along one axis, of matrices along two, of all cells by default.

    Parameters
    ----------
    x
        A tensor or its operator; or an array, of which the result is NumPy's.
    ord
        As of :func:`vector_norm` along one axis, as of :func:`matrix_norm` along two; the root of the sum of squares
        by default.
    axis
        The axis, or the two; by default all cells are one vector without ``ord``, and the tensor a vector or a matrix
        with one.
    keepdims
        Keep the axes with length 1.

    Returns
    -------
    Tensor
        A number over all axes without ``keepdims``.

    Raises
    ------
    ShapeError
        If an axis is out of range or named twice, or there are more than two and an ``ord``.
    UnsupportedError
        If there is no such norm.
    TooLargeError
        As of :func:`matrix_norm`.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[0.0, 3.0], [-4.0, 0.0]])
    >>> float(sp.linalg.norm(A)), float(sp.linalg.norm(A, 1)), sp.linalg.norm(A, axis=1).to_numpy()
    (5.0, 4.0, array([3., 4.]))
    """
    if not isinstance(x, Tensor | np.ndarray):
        from sparrow.linalg.operators import tensor_of  # brings SciPy's solvers with it

        x = tensor_of(x)
    found: Any = operand(x)
    if not isinstance(found, Tensor):
        along: Any = axis
        return np.linalg.norm(found, ord, along, keepdims)  # type: ignore[arg-type]
    if ord is None:
        return found.norm(2, axis, keepdims=keepdims)
    axes = tuple(range(found.ndim)) if axis is None else tuple(as_integers(axis, "axis"))
    if len(axes) == 1:
        if isinstance(ord, str):
            raise UnsupportedError(f"ord={ord!r} is a norm of matrices: name two axes, or give a number")
        return found.norm(ord, axes[0], keepdims=keepdims)
    if len(axes) != 2:
        raise ShapeError(f"a norm with ord={ord!r} is one of a vector or a matrix: name one or two axes, not {axes}")
    rows, columns = (normalize_axis(each, found.ndim) for each in axes)
    others = [each for each in range(found.ndim) if each not in (rows, columns)]
    made = matrix_norm(found.transpose(*others, rows, columns), ord=ord)
    if not keepdims:
        return made
    shape = [1 if each in (rows, columns) else n for each, n in enumerate(found.shape)]
    return as_tensor(made).reshape(*shape)


def outer(x1: Any, x2: Any, /) -> Tensor:
    """Return the products of each cell of a vector with each of another, lazily.

    Parameters
    ----------
    x1, x2
        Vectors, tensors or arrays.

    Returns
    -------
    Tensor
        A matrix.

    Raises
    ------
    ShapeError
        If one is no vector.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.outer(sp.asarray([0, 2]), sp.asarray([1, 0, 3])).to_numpy()
    array([[0, 0, 0],
           [2, 0, 6]])
    """
    one, other = as_tensor(x1), as_tensor(x2)
    if one.ndim != 1 or other.ndim != 1:
        raise ShapeError(f"outer takes two vectors, got shapes {one.shape} and {other.shape}")
    product: Tensor = one[:, None] * other[None, :]
    if one.fill_value == 0 and other.fill_value == 0:  # by entries, however long the vectors are
        found: Tensor = matmul(one[:, None], other[None, :])
        return found.rename(dict(zip(found.dims, product.dims, strict=True)))
    return product


def trace(x: Any, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Any:
    """Return the sums of the diagonals of the matrices in the last two axes.

    Parameters
    ----------
    x
        A tensor of at least two dimensions.
    offset
        How far the diagonal lies to the right of the main one, negative to the left.
    dtype
        The type that cells are cast to first; NumPy's choice by default.

    Returns
    -------
    Tensor
        A number of one matrix.

    Raises
    ------
    ShapeError
        If there are fewer dimensions.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.trace(sp.asarray([[1, 2], [0, 3]]))
    np.int64(4)
    """
    found = diagonal(x, offset=offset)
    return found.sum(None if found.ndim == 1 else -1, dtype=dtype)


def vector_norm(x: Any, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, ord: float = 2) -> Any:
    """Return the norms of the vectors along axes.

    Parameters
    ----------
    x
        A tensor; or an array, of which the result is NumPy's.
    axis
        The axes that go: an integer, a tuple, or all by default.
    keepdims
        Keep them with length 1.
    ord
        A positive number p for the root of the sum of the p-th powers of the magnitudes; ``inf`` for the largest of
        them, ``-inf`` for the smallest, 0 for the number of cells that are not 0.

    Returns
    -------
    Tensor
        A number over all axes without ``keepdims``.

    Raises
    ------
    ShapeError
        If an axis is out of range or named twice.
    InvalidValueError
        If there is no such ``ord``.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.linalg.vector_norm(sp.asarray([[0.0, 3.0], [-4.0, 0.0]]), axis=1).to_numpy()
    array([3., 4.])
    """
    found: Any = operand(x)
    if isinstance(found, Tensor):
        return found.norm(ord, axis, keepdims=keepdims)
    along: Any = axis
    return np.linalg.vector_norm(found, axis=along, keepdims=keepdims, ord=ord)
