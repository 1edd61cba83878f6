"""BLAS level 1: vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparrow.blas.operands import conjugated, meet, nothing, number, scaled, vector
from sparrow.core.schema import check_array
from sparrow.errors import InvalidValueError, ShapeError
from sparrow.tensor import Tensor

__all__ = [
    "asum", "axpy", "copy", "dot", "dotc", "gather", "gather_zero", "iamax", "iamin", "nrm2", "rot", "scal", "scatter",
    "swap",
]  # fmt: skip


def _pair(x: Any, y: Any) -> tuple[Any, Any]:
    one, other = vector(x, "x"), vector(y, "y")
    if not meet(one, other):
        raise ShapeError(f"x has {one.shape[0]} cells and y {other.shape[0]}")
    return one, other


def _magnitudes(x: Any) -> Any:
    """Return what BLAS calls magnitudes: of complex numbers those of both parts added up."""
    if x.dtype.kind == "c":
        return np.abs(x.real) + np.abs(x.imag)
    if x.dtype.kind != "i":
        return np.abs(x)
    return np.abs(x.astype(np.int64)).astype(np.uint64)  # of the least int8, -128, it is no int8


def dot(x: Any, y: Any) -> Any:
    """Return the sum of the products of the cells of two vectors, not conjugated.

    Parameters
    ----------
    x, y
        Vectors of as many cells, tensors or arrays; two tensors with labels are aligned.

    Returns
    -------
    scalar

    Raises
    ------
    ShapeError
        If they are no vectors, or of different lengths.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.blas.dot(sp.asarray([1, 2, 0, 4]), [1, 2, 3, 4])
    np.int64(21)
    """
    one, other = _pair(x, y)
    return one @ other


def dotc(x: Any, y: Any) -> Any:
    """Return the sum of the products of the cells of two vectors, the first one's conjugated.

    Parameters
    ----------
    x, y
        Vectors of as many cells, tensors or arrays; two tensors with labels are aligned.

    Returns
    -------
    scalar

    Raises
    ------
    ShapeError
        If they are no vectors, or of different lengths.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.blas.dotc(sp.asarray([1j, 0]), [1j, 5])
    np.complex128(1+0j)
    """
    one, other = _pair(x, y)
    return conjugated(one) @ other


def nrm2(x: Any) -> Any:
    """Return the Euclidean norm of a vector.

    Parameters
    ----------
    x
        A vector, tensor or array.

    Returns
    -------
    scalar

    Raises
    ------
    ShapeError
        If it is no vector.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.blas.nrm2(sp.asarray([3.0, 0.0, 4.0]))
    np.float64(5.0)
    """
    found = vector(x, "x")
    norm = _norm(found)
    limits = np.finfo(norm.dtype)
    if np.isfinite(norm) and norm > limits.tiny**0.5 / limits.eps:
        return norm
    most = np.abs(found).max(initial=0)  # squares may have been too large or small
    return norm if most == 0 or not np.isfinite(most) else type(norm)(_norm(found / most) * most)


def _norm(x: Any) -> Any:
    with np.errstate(over="ignore", under="ignore"):
        return np.linalg.norm(x)


def asum(x: Any) -> Any:
    """Return the sum of the magnitudes of the cells; of complex numbers those of both parts.

    Parameters
    ----------
    x
        A vector, tensor or array.

    Returns
    -------
    scalar

    Raises
    ------
    ShapeError
        If it is no vector.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.blas.asum(sp.asarray([1, 0, -4]))
    np.uint64(5)
    """
    return _magnitudes(vector(x, "x")).sum()


def iamax(x: Any) -> int:
    """Return the index of the first cell of the largest magnitude, absent cells too.

    Parameters
    ----------
    x
        A vector, tensor or array.

    Returns
    -------
    int
        From 0.

    Raises
    ------
    ShapeError
        If it is no vector.
    InvalidValueError
        If it has no cells.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.blas.iamax(sp.asarray([1, -2, 0, 4]))
    3
    """
    return int(_magnitudes(_some(x, "iamax")).argmax())


def iamin(x: Any) -> int:
    """Return the index of the first cell of the smallest magnitude: where a cell is absent, the first absent one.

    Parameters
    ----------
    x
        A vector, tensor or array.

    Returns
    -------
    int
        From 0.

    Raises
    ------
    ShapeError
        If it is no vector.
    InvalidValueError
        If it has no cells.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.blas.iamin(sp.asarray([1, -2, 0, 4]))
    2
    """
    return int(_magnitudes(_some(x, "iamin")).argmin())


def _some(x: Any, name: str) -> Any:
    found = vector(x, "x")
    if not found.shape[0]:
        raise InvalidValueError(f"{name} of a vector without cells")
    return found


def axpy(x: Any, y: Any, a: Any = 1) -> Any:
    """Return ``a * x + y``.

    Parameters
    ----------
    x, y
        Vectors of as many cells, tensors or arrays; two tensors with labels are aligned.
    a
        A number; with 0 x is not read.

    Returns
    -------
    Tensor or ndarray
        An array where one of them is; of two tensors lazy.

    Raises
    ------
    ShapeError
        If they are no vectors, or of different lengths.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> sp.blas.axpy(sp.asarray([1, 2, 0, 4]), np.array([1, 2, 3, 4]))
    array([2, 4, 3, 8])
    """
    factor, (one, other) = number(a, "a"), _pair(x, y)
    return scaled(factor, one if factor != 0 else nothing(one)) + other


def rot(x: Any, y: Any, c: Any, s: Any) -> tuple[Any, Any]:
    """Rotate pairs of cells: return ``c * x + s * y`` and ``c * y - s * x``.

    Parameters
    ----------
    x, y
        Vectors of as many cells, tensors or arrays; two tensors with labels are aligned.
    c, s
        Cosine and sine.

    Returns
    -------
    x, y
        With entries where either had one; arrays where one of them is.

    Raises
    ------
    ShapeError
        If they are no vectors, or of different lengths.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> sp.blas.rot(sp.asarray([1, 2, 0, 4]), np.array([1, 2, 3, 4]), 1, 2)
    (array([ 3,  6,  6, 12]), array([-1, -2,  3, -4]))
    """
    c, s = number(c, "c"), number(s, "s")
    one, other = _pair(x, y)
    return scaled(c, one) + scaled(s, other), scaled(c, other) - scaled(s, one)


def scal(a: Any, x: Any) -> Any:
    """Return ``a * x``.

    Parameters
    ----------
    a
        A number.
    x
        A vector, tensor or array.

    Returns
    -------
    Tensor or ndarray
        As x; of a tensor lazy.

    Raises
    ------
    ShapeError
        If it is no vector.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.blas.scal(2, sp.asarray([1, 2, 0, 4])).to_numpy()
    array([2, 4, 0, 8])
    """
    return scaled(number(a, "a"), vector(x, "x"))


def copy(x: Any) -> Any:
    """Return a vector of its own: what is written to either does not show in the other.

    Parameters
    ----------
    x
        A vector, tensor or array.

    Returns
    -------
    Tensor or ndarray
        As x, in memory.

    Raises
    ------
    ShapeError
        If it is no vector.

    Examples
    --------
    >>> import sparrow as sp
    >>> x = sp.asarray([1, 0])
    >>> y = sp.blas.copy(x)
    >>> y[1] = 5
    >>> x.to_numpy(), y.to_numpy()
    (array([1, 0]), array([1, 5]))
    """
    found = vector(x, "x")
    return found.compute() if isinstance(found, Tensor) else found.copy()


def swap(x: Any, y: Any) -> tuple[Any, Any]:
    """Return copies of two vectors, the second one first.

    Parameters
    ----------
    x, y
        Vectors of as many cells, tensors or arrays.

    Returns
    -------
    y, x

    Raises
    ------
    ShapeError
        If they are no vectors, or of different lengths.

    Examples
    --------
    >>> import numpy as np, sparrow as sp
    >>> x, y = sp.blas.swap(sp.asarray([1, 0]), np.array([5, 6]))
    >>> x, y.to_numpy()
    (array([5, 6]), array([1, 0]))
    """
    one, other = _pair(x, y)
    return copy(other), copy(one)


def gather(y: Any, indices: Any) -> Any:
    """Return the cells of a vector at some indices, as an array.

    Parameters
    ----------
    y
        A vector, tensor or array.
    indices
        Where; in any order, and several times if need be. Or a mask of all cells.

    Returns
    -------
    ndarray

    Raises
    ------
    ShapeError
        If it is no vector, or indices have several dimensions, or are a mask of another length.
    IndexError
        If an index is out of range.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.blas.gather(sp.asarray([1, 2, 0, 4]), [0, 2, 3])
    array([1, 0, 4])
    """
    y = vector(y, "y")
    found = y[_indices(indices, y)]
    return found.to_numpy() if isinstance(found, Tensor) else found


def gather_zero(y: Any, indices: Any) -> tuple[Any, Any]:
    """Return the cells of a vector at some indices, and the vector with 0 there.

    Parameters
    ----------
    y
        A vector, tensor or array.
    indices
        Where.

    Returns
    -------
    values
        An array.
    y
        As y, in memory.

    Raises
    ------
    ShapeError
        If it is no vector, or indices have several dimensions, or are a mask of another length.
    IndexError
        If an index is out of range.

    Examples
    --------
    >>> import sparrow as sp
    >>> values, rest = sp.blas.gather_zero(sp.asarray([1, 2, 0, 4]), [0, 2, 3])
    >>> values, rest.to_numpy()
    (array([1, 0, 4]), array([0, 2, 0, 0]))
    """
    at = _indices(indices, vector(y, "y"))
    values = gather(y, at)
    return values, scatter(np.zeros_like(values), at, y)


def scatter(x: Any, indices: Any, y: Any) -> Any:
    """Return a vector with numbers written at some indices; of an index that repeats the last one stays.

    Parameters
    ----------
    x
        The numbers, one for each index: an array, or a tensor.
    indices
        Where they go.
    y
        The vector, tensor or array.

    Returns
    -------
    Tensor or ndarray
        As y, in memory.

    Raises
    ------
    ShapeError
        If y is no vector, or there are not as many numbers as indices.
    IndexError
        If an index is out of range.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.blas.scatter([7, 8], [3, 0], sp.asarray([1, 2, 0, 4])).to_numpy()
    array([8, 2, 0, 7])
    """
    at = _indices(indices, vector(y, "y"))
    values = vector(x, "x")
    if values.shape != at.shape:
        raise ShapeError(f"x has {values.shape[0]} numbers, for {at.size} indices")
    made = copy(y)
    if len(at):
        made[at] = values.to_numpy() if isinstance(values, Tensor) else values
    return made


def _indices(given: Any, y: Any) -> Any:
    """Return indices of a vector: those that a mask marks, where one is given."""
    found = np.atleast_1d(check_array(given, "indices"))
    if found.ndim > 1:
        raise ShapeError(f"indices of shape {found.shape}: give a list of them, of one dimension")
    if found.dtype == bool:
        if len(found) != len(y):
            raise ShapeError(f"indices: a mask of {len(found)} cells, for a vector of {len(y)}")
        return np.flatnonzero(found)
    return found if found.size else found.astype(np.int64)
