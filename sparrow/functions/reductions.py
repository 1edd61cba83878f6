"""Reductions and running totals of the array API standard.

Each reduction of a tensor is its method, and shares that method's documentation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sparrow import engines
from sparrow.core.schema import check_dtype
from sparrow.errors import ShapeError, UnsupportedError
from sparrow.functions.elementwise import as_operand
from sparrow.functions.views import as_tensor
from sparrow.plan import make_accumulate, normalize_axis
from sparrow.runtime.docs import SharedText, document_as
from sparrow.runtime.validation import check_flag
from sparrow.tensor import Tensor

__all__ = [
    "all", "any", "argmax", "argmin", "count_nonzero", "cumulative_prod", "cumulative_sum", "max", "mean", "min",
    "prod", "std", "sum", "var",
]  # fmt: skip

Axis: TypeAlias = "int | str | Sequence[int | str] | None"
Where: TypeAlias = Literal["all", "stored"]

_X = "Tensor, or anything :func:`sparrow.asarray` accepts; the result for arrays and numbers is NumPy's."
_WHERE = '"all" elements or the "stored" ones; "stored" raises ``UnsupportedError`` for arrays and numbers.'
_CORRECTION = "Number subtracted from the number of elements to give the divisor; ``ddof`` is NumPy's name for it."

_shared = SharedText(
    accumulation="""
    tensor
        Tensor of at least one dimension.
    axis
        Axis to accumulate along; may be omitted for a vector.
    dtype
        Type of the computation; NumPy's choice by default.
    """,
    accumulation_result="""
    Returns
    -------
    ndarray
        Of the shape of the tensor; one longer along the axis with ``include_initial``.

    Raises
    ------
    ShapeError
        If there is no such axis, or there are several and none is passed.
    TooLargeError
        If the array would exceed the memory limit.
    """,
)


def _reduce(name: str, x: Any, where: Where = "all", **options: Any) -> Any:
    """Reduce a tensor by its method, and anything else by NumPy's function."""
    found = as_operand(x)
    options = {option: tuple(value) if isinstance(value, list) else value for option, value in options.items()}
    if isinstance(found, Tensor):
        return getattr(found, name)(where=where, **options)
    if where != "all":
        raise UnsupportedError(f"where={where!r} requires a tensor, got {type(x).__name__}")
    return getattr(np, name)(found, **options)


def _divisor(correction: float, ddof: float) -> dict[str, float]:
    """Return the option that was given; both, which raise, if both were."""
    return {"ddof": ddof} | ({"correction": correction} if correction else {}) if ddof else {"correction": correction}


@document_as(Tensor.all, x=_X, where=_WHERE)
def all(  # noqa: A001
    x: Any, /, axis: Axis = None, *, keepdims: bool = False, where: Where = "all", out: Any = None
) -> Any:
    """Return whether all elements are non-zero."""
    return _reduce("all", x, where, axis=axis, keepdims=keepdims, out=out)


@document_as(Tensor.any, x=_X, where=_WHERE)
def any(  # noqa: A001
    x: Any, /, axis: Axis = None, *, keepdims: bool = False, where: Where = "all", out: Any = None
) -> Any:
    """Return whether any element is non-zero."""
    return _reduce("any", x, where, axis=axis, keepdims=keepdims, out=out)


@document_as(Tensor.argmax, x=_X)
def argmax(x: Any, /, axis: int | str | None = None, *, keepdims: bool = False, where: Where = "all") -> Any:
    """Return the first position of the largest element."""
    return _reduce("argmax", x, where, axis=axis, keepdims=keepdims)


@document_as(Tensor.argmin, x=_X)
def argmin(x: Any, /, axis: int | str | None = None, *, keepdims: bool = False, where: Where = "all") -> Any:
    """Return the first position of the smallest element."""
    return _reduce("argmin", x, where, axis=axis, keepdims=keepdims)


def count_nonzero(x: Any, /, axis: Axis = None, *, keepdims: bool = False) -> Any:
    """Return the number of non-zero elements, int64.

    Parameters
    ----------
    x
        Tensor, or anything :func:`sparrow.asarray` accepts; the result for arrays and numbers is NumPy's.
    axis
        Axes to reduce: one or a tuple, by number or name; all by default.
    keepdims
        Keep the reduced axes with length 1.

    Returns
    -------
    Tensor or scalar
        A lazy tensor; a NumPy scalar if no axis is left.

    Raises
    ------
    ShapeError
        If an axis is out of range or repeated.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.asarray([[0, 2, 0], [3, 0, -1]])
    >>> sp.count_nonzero(A), sp.count_nonzero(A, axis=1).to_numpy()
    (np.int64(3), array([1, 2]))
    """
    axes: Any = tuple(axis) if isinstance(axis, list) else axis
    return np.count_nonzero(as_operand(x), axis=axes, keepdims=keepdims)


@_shared
def cumulative_prod(
    tensor: Tensor, axis: int | str | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> NDArray[Any]:
    """Return the cumulative product of the elements along an axis, a dense array.

    Parameters
    ----------
    %(accumulation)s
    include_initial
        Prepend the initial value 1 to each line.

    %(accumulation_result)s

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.cumulative_prod(sp.asarray([[1, 2, 3], [4, 0, 5]]), axis=1)
    array([[1, 2, 6],
           [4, 0, 0]])
    """
    return _accumulate(tensor, np.multiply, axis, dtype, include_initial)


@_shared
def cumulative_sum(
    tensor: Tensor, axis: int | str | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> NDArray[Any]:
    """Return the cumulative sum of the elements along an axis, a dense array.

    Parameters
    ----------
    %(accumulation)s
    include_initial
        Prepend the initial value 0 to each line.

    %(accumulation_result)s

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.cumulative_sum(sp.asarray([[0, 2, 0], [1, 0, 1]]), axis=1)
    array([[0, 2, 2],
           [1, 1, 2]])
    """
    return _accumulate(tensor, np.add, axis, dtype, include_initial)


def _accumulate(
    tensor: Tensor, ufunc: np.ufunc, axis: int | str | None, dtype: DTypeLike | None, include_initial: bool
) -> NDArray[Any]:
    tensor = as_tensor(tensor)
    if axis is None and tensor.ndim != 1:
        raise ShapeError(f"axis= is required for a tensor of shape {tensor.shape}")
    node = make_accumulate(
        tensor.__sparrow_scan__(),
        ufunc,
        normalize_axis(0 if axis is None else axis, tensor.ndim, tensor.dims),
        None if dtype is None else check_dtype(dtype),
        ufunc.identity if check_flag("include_initial", include_initial) else None,
    )
    totals: NDArray[Any] = engines.evaluate_dense(node)
    return totals


@document_as(Tensor.max, x=_X, where=_WHERE)
def max(  # noqa: A001
    x: Any, /, axis: Axis = None, *, keepdims: bool = False, where: Where = "all"
) -> Any:
    """Return the largest element; NaN if there is one."""
    return _reduce("max", x, where, axis=axis, keepdims=keepdims)


@document_as(Tensor.mean, x=_X, where=_WHERE)
def mean(
    x: Any, /, axis: Axis = None, *, dtype: DTypeLike | None = None, keepdims: bool = False, where: Where = "all"
) -> Any:
    """Return the mean: the sum divided by the number of elements."""
    return _reduce("mean", x, where, axis=axis, keepdims=keepdims, dtype=dtype)


@document_as(Tensor.min, x=_X, where=_WHERE)
def min(  # noqa: A001
    x: Any, /, axis: Axis = None, *, keepdims: bool = False, where: Where = "all"
) -> Any:
    """Return the smallest element; NaN if there is one."""
    return _reduce("min", x, where, axis=axis, keepdims=keepdims)


@document_as(Tensor.prod, x=_X, where=_WHERE)
def prod(
    x: Any, /, axis: Axis = None, *, dtype: DTypeLike | None = None, keepdims: bool = False, where: Where = "all"
) -> Any:
    """Return the product of elements."""
    return _reduce("prod", x, where, axis=axis, keepdims=keepdims, dtype=dtype)


@document_as(Tensor.std, x=_X, where=_WHERE, ddof=_CORRECTION, correction=_CORRECTION)
def std(
    x: Any, /, axis: Axis = None, *, correction: float = 0.0, keepdims: bool = False, where: Where = "all",
    ddof: float = 0,
) -> Any:  # fmt: skip
    """Return the standard deviation, the square root of the variance."""
    return _reduce("std", x, where, axis=axis, keepdims=keepdims, **_divisor(correction, ddof))


@document_as(Tensor.sum, x=_X, where=_WHERE)
def sum(  # noqa: A001
    x: Any, /, axis: Axis = None, *, dtype: DTypeLike | None = None, keepdims: bool = False, where: Where = "all"
) -> Any:
    """Return the sum of elements."""
    return _reduce("sum", x, where, axis=axis, keepdims=keepdims, dtype=dtype)


@document_as(Tensor.var, x=_X, where=_WHERE, ddof=_CORRECTION, correction=_CORRECTION)
def var(
    x: Any, /, axis: Axis = None, *, correction: float = 0.0, keepdims: bool = False, where: Where = "all",
    ddof: float = 0,
) -> Any:  # fmt: skip
    """Return the variance: the mean squared distance from the mean."""
    return _reduce("var", x, where, axis=axis, keepdims=keepdims, **_divisor(correction, ddof))
