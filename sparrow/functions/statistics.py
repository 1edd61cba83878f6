"""Reductions by the names and with the arguments of the array API standard: ``sp.sum(A, axis=0)``.

They are the methods of a tensor: lazy, unless over all axes; absent cells take part with the fill value. What is no
tensor stays as dense as it was: of arrays and numbers the result is NumPy's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from sparrow.errors import UnsupportedError
from sparrow.functions.elementwise import operand
from sparrow.tensor import Tensor

__all__ = ["all", "any", "max", "mean", "min", "prod", "reduced", "std", "sum", "var"]

Where = Literal["all", "stored"]


def reduced(name: str, x: Any, where: Where = "all", **options: Any) -> Any:
    """Return a reduction of a tensor by its method, and of an array by NumPy's function of that name.

    Parameters
    ----------
    name
        That of both.
    x
        A tensor, an array or a number.
    where
        "all", or of a tensor "stored".
    **options
        What both take.

    Raises
    ------
    UnsupportedError
        If ``x`` is none of these, or an array and asked for what it has stored.
    """
    found = operand(x)
    if isinstance(found, Tensor):
        return getattr(found, name)(where=where, **_lists_as_tuples(options))
    if where != "all":
        raise UnsupportedError(f"where={where!r} is for tensors: {type(x).__name__} has no stored entries")
    return getattr(np, name)(found, **_lists_as_tuples(options))


def _lists_as_tuples(options: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}


def all(  # noqa: A001
    x: Any, /, axis: int | str | Sequence[int | str] | None = None, *, keepdims: bool = False, where: Where = "all"
) -> Any:
    """Return whether no cell is 0.

    Parameters
    ----------
    x
        A tensor; or an array or a number, of which the result is NumPy's.
    axis
        The axes that go: an integer, a tuple, or all by default.
    keepdims
        Keep them with length 1.
    where
        "all" cells, or the "stored" ones.

    Returns
    -------
    Tensor
        A tensor; a number over all axes without ``keepdims``.

    Raises
    ------
    ShapeError
        If an axis is out of range or named twice.
    UnsupportedError
        If ``x`` is none of these.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[0, 2, 0], [3, 0, -1]])
    >>> sp.all(A), sp.all(A, axis=0).to_numpy()
    (np.False_, array([False, False, False]))
    """
    return reduced("all", x, where, axis=axis, keepdims=keepdims)


def any(  # noqa: A001
    x: Any, /, axis: int | str | Sequence[int | str] | None = None, *, keepdims: bool = False, where: Where = "all"
) -> Any:
    """Return whether a cell is not 0.

    Parameters
    ----------
    x
        A tensor; or an array or a number, of which the result is NumPy's.
    axis
        The axes that go: an integer, a tuple, or all by default.
    keepdims
        Keep them with length 1.
    where
        "all" cells, or the "stored" ones.

    Returns
    -------
    Tensor
        A tensor; a number over all axes without ``keepdims``.

    Raises
    ------
    ShapeError
        If an axis is out of range or named twice.
    UnsupportedError
        If ``x`` is none of these.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[0, 2, 0], [3, 0, -1]])
    >>> sp.any(A), sp.any(A, axis=1).to_numpy()
    (np.True_, array([ True,  True]))
    """
    return reduced("any", x, where, axis=axis, keepdims=keepdims)


def max(  # noqa: A001
    x: Any, /, axis: int | str | Sequence[int | str] | None = None, *, keepdims: bool = False, where: Where = "all"
) -> Any:
    """Return the largest value; NaN wins, and absent cells have the fill value.

    Parameters
    ----------
    x
        A tensor; or an array or a number, of which the result is NumPy's.
    axis
        The axes that go: an integer, a tuple, or all by default.
    keepdims
        Keep them with length 1.
    where
        "all" cells, or the "stored" ones.

    Returns
    -------
    Tensor
        A tensor; a number over all axes without ``keepdims``.

    Raises
    ------
    ShapeError
        If an axis is out of range or named twice, or there are no cells.
    UnsupportedError
        If ``x`` is none of these.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[0, 2, 0], [3, 0, -1]])
    >>> sp.max(A), sp.max(A, axis=1, where="stored").to_numpy()
    (np.int64(3), array([2, 3]))
    """
    return reduced("max", x, where, axis=axis, keepdims=keepdims)


def mean(
    x: Any,
    /,
    axis: int | str | Sequence[int | str] | None = None,
    *,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    where: Where = "all",
) -> Any:
    """Return the mean: the sum divided by the number of cells.

    Parameters
    ----------
    x
        A tensor; or an array or a number, of which the result is NumPy's.
    axis
        The axes that go: an integer, a tuple, or all by default.
    dtype
        The type that cells are cast to first, and that of the result; NumPy's choice by default.
    keepdims
        Keep them with length 1.
    where
        "all" cells, or the "stored" ones.

    Returns
    -------
    Tensor
        A tensor; a number over all axes without ``keepdims``.

    Raises
    ------
    ShapeError
        If an axis is out of range or named twice.
    UnsupportedError
        If ``x`` is none of these, or ``dtype`` drops the imaginary parts of complex cells.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[0, 2, 0], [3, 0, -1]])
    >>> float(sp.mean(A, where="stored"))
    1.3333333333333333
    """
    return reduced("mean", x, where, axis=axis, keepdims=keepdims, dtype=dtype)


def min(  # noqa: A001
    x: Any, /, axis: int | str | Sequence[int | str] | None = None, *, keepdims: bool = False, where: Where = "all"
) -> Any:
    """Return the smallest value; NaN wins, and absent cells have the fill value.

    Parameters
    ----------
    x
        A tensor; or an array or a number, of which the result is NumPy's.
    axis
        The axes that go: an integer, a tuple, or all by default.
    keepdims
        Keep them with length 1.
    where
        "all" cells, or the "stored" ones.

    Returns
    -------
    Tensor
        A tensor; a number over all axes without ``keepdims``.

    Raises
    ------
    ShapeError
        If an axis is out of range or named twice, or there are no cells.
    UnsupportedError
        If ``x`` is none of these.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[0, 2, 0], [3, 0, -1]])
    >>> sp.min(A), sp.min(A, axis=0).to_numpy()
    (np.int64(-1), array([ 0,  0, -1]))
    """
    return reduced("min", x, where, axis=axis, keepdims=keepdims)


def prod(
    x: Any,
    /,
    axis: int | str | Sequence[int | str] | None = None,
    *,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    where: Where = "all",
) -> Any:
    """Return the product of cells, in NumPy's type; integers wrap.

    Parameters
    ----------
    x
        A tensor; or an array or a number, of which the result is NumPy's.
    axis
        The axes that go: an integer, a tuple, or all by default.
    dtype
        The type that cells are cast to first, and that of the result; NumPy's choice by default.
    keepdims
        Keep them with length 1.
    where
        "all" cells, or the "stored" ones.

    Returns
    -------
    Tensor
        A tensor; a number over all axes without ``keepdims``.

    Raises
    ------
    ShapeError
        If an axis is out of range or named twice.
    UnsupportedError
        If ``x`` is none of these, or ``dtype`` drops the imaginary parts of complex cells.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[0, 2, 0], [3, 0, -1]])
    >>> sp.prod(A), sp.prod(A, where="stored")
    (np.int64(0), np.int64(-6))
    """
    return reduced("prod", x, where, axis=axis, keepdims=keepdims, dtype=dtype)


def std(
    x: Any,
    /,
    axis: int | str | Sequence[int | str] | None = None,
    *,
    correction: float = 0.0,
    keepdims: bool = False,
    where: Where = "all",
) -> Any:
    """Return the standard deviation, the root of :func:`var`.

    Parameters
    ----------
    x
        A tensor; or an array or a number, of which the result is NumPy's.
    axis
        The axes that go: an integer, a tuple, or all by default.
    correction
        What is taken off the number of cells that the sum of squares is divided by.
    keepdims
        Keep them with length 1.
    where
        "all" cells, or the "stored" ones.

    Returns
    -------
    Tensor
        A tensor; a number over all axes without ``keepdims``.

    Raises
    ------
    ShapeError
        If an axis is out of range or named twice.
    UnsupportedError
        If ``x`` is none of these.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[0, 2, 0], [3, 0, -1]])
    >>> sp.std(A, axis=0).to_numpy()
    array([1.5, 1. , 0.5])
    """
    return reduced("std", x, where, axis=axis, keepdims=keepdims, correction=correction)


def sum(  # noqa: A001
    x: Any,
    /,
    axis: int | str | Sequence[int | str] | None = None,
    *,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    where: Where = "all",
) -> Any:
    """Return the sum of cells, in NumPy's type; integers wrap.

    Parameters
    ----------
    x
        A tensor; or an array or a number, of which the result is NumPy's.
    axis
        The axes that go: an integer, a tuple, or all by default.
    dtype
        The type that cells are cast to first, and that of the result; NumPy's choice by default.
    keepdims
        Keep them with length 1.
    where
        "all" cells, or the "stored" ones.

    Returns
    -------
    Tensor
        A tensor; a number over all axes without ``keepdims``.

    Raises
    ------
    ShapeError
        If an axis is out of range or named twice.
    UnsupportedError
        If ``x`` is none of these, or ``dtype`` drops the imaginary parts of complex cells.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[0, 2, 0], [3, 0, -1]])
    >>> sp.sum(A), sp.sum(A, axis=0).to_numpy()
    (np.int64(4), array([ 3,  2, -1]))
    """
    return reduced("sum", x, where, axis=axis, keepdims=keepdims, dtype=dtype)


def var(
    x: Any,
    /,
    axis: int | str | Sequence[int | str] | None = None,
    *,
    correction: float = 0.0,
    keepdims: bool = False,
    where: Where = "all",
) -> Any:
    """Return the variance: the mean of the squared distances from the mean.

    Parameters
    ----------
    x
        A tensor; or an array or a number, of which the result is NumPy's.
    axis
        The axes that go: an integer, a tuple, or all by default.
    correction
        What is taken off the number of cells that the sum of squares is divided by.
    keepdims
        Keep them with length 1.
    where
        "all" cells, or the "stored" ones.

    Returns
    -------
    Tensor
        A tensor; a number over all axes without ``keepdims``.

    Raises
    ------
    ShapeError
        If an axis is out of range or named twice.
    UnsupportedError
        If ``x`` is none of these.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[0, 2, 0], [3, 0, -1]])
    >>> sp.var(A, axis=0).to_numpy()
    array([2.25, 1.  , 0.25])
    """
    return reduced("var", x, where, axis=axis, keepdims=keepdims, correction=correction)
