"""Types of values by the names of the array API standard: casts, limits, promotion."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from sparrow.errors import UnsupportedError
from sparrow.functions.inspection import check_device
from sparrow.functions.views import as_tensor
from sparrow.tensor import Tensor

__all__ = ["astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]


def astype(x: Any, dtype: DTypeLike, /, *, copy: bool = True, device: str | None = None) -> Tensor:
    """Return the cells in another type, lazily; values that become fill are not kept.

    Parameters
    ----------
    x
        A tensor, or what :func:`sparrow.asarray` takes.
    dtype
        The type.
    copy
        Whether the result is another tensor where the type is the same: lazy and read-only, as a view through a list.
    device
        "cpu", or None for the same.

    Returns
    -------
    Tensor
        Of the shape of ``x``.

    Raises
    ------
    UnsupportedError
        If tensors cannot hold the type.
    InvalidValueError
        If there is no such device.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.astype(sp.asarray([[0.5, 0, 2.5]]), sp.int64).nnz
    1
    """
    check_device(device)
    found: Tensor = as_tensor(x).astype(dtype, copy=copy)
    return found


def can_cast(from_: Any, to: DTypeLike, /) -> bool:
    """Return whether values of a type can become those of another without loss, by NumPy's rule.

    Parameters
    ----------
    from_
        A type, or a tensor or array, whose type is meant.
    to
        A type.

    Returns
    -------
    bool

    Raises
    ------
    UnsupportedError
        If one is no type.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.can_cast(sp.asarray([1, 2]), sp.float64), sp.can_cast(sp.float64, sp.int64)
    (True, False)
    """
    return np.can_cast(_dtype(from_), _dtype(to))


def finfo(type: Any, /) -> np.finfo[Any]:
    """Return the limits of a floating type: ``bits``, ``eps``, ``max``, ``min``, ``smallest_normal``, ``dtype``.

    Parameters
    ----------
    type
        A floating or complex type, or a tensor or array, whose type is meant.

    Returns
    -------
    numpy.finfo

    Raises
    ------
    UnsupportedError
        If it is no such type.

    Examples
    --------
    >>> import sparrow as sp
    >>> float(sp.finfo(sp.asarray([0.5])).eps)
    2.220446049250313e-16
    """
    dtype = _dtype(type)
    if dtype.kind not in "fc":
        raise UnsupportedError(f"finfo is for floating and complex types, not for {dtype}: use iinfo")
    return np.finfo(dtype)


def iinfo(type: Any, /) -> np.iinfo[Any]:
    """Return the limits of an integer type: ``bits``, ``max``, ``min``, ``dtype``.

    Parameters
    ----------
    type
        An integer type, or a tensor or array, whose type is meant.

    Returns
    -------
    numpy.iinfo

    Raises
    ------
    UnsupportedError
        If it is no such type.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.iinfo(sp.int8).max
    127
    """
    dtype = _dtype(type)
    if dtype.kind not in "iu":
        raise UnsupportedError(f"iinfo is for integer types, not for {dtype}: use finfo")
    return np.iinfo(dtype)


def isdtype(dtype: DTypeLike, kind: Any) -> bool:
    """Return whether a type is of a kind.

    Parameters
    ----------
    dtype
        A type.
    kind
        "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric",
        a type, or a tuple of these, of which one must fit.

    Returns
    -------
    bool

    Raises
    ------
    UnsupportedError
        If the first is no type, or the second no kind.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.isdtype(sp.asarray([1]).dtype, ("integral", "real floating"))
    True
    """
    given = _dtype(dtype)
    try:
        return np.isdtype(given, kind)
    except (TypeError, ValueError) as error:
        raise UnsupportedError(f"kind={kind!r} is no kind of types: {error}") from None


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """Return the type of what operands of these types make, by NumPy's promotion.

    Parameters
    ----------
    *arrays_and_dtypes
        Tensors, arrays, types and numbers, at least one; Python's numbers take the type of the others.

    Returns
    -------
    numpy.dtype

    Raises
    ------
    UnsupportedError
        If there are none, or one is no type.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.result_type(sp.asarray([1, 2]), sp.float32), sp.result_type(sp.float32, 1)
    (dtype('float64'), dtype('float32'))
    """
    if not arrays_and_dtypes:
        raise UnsupportedError("result_type needs at least one array or type")
    numbers = (int, float, complex)
    return np.result_type(*(one if isinstance(one, numbers) else _dtype(one) for one in arrays_and_dtypes))


def _dtype(given: Any) -> np.dtype[Any]:
    """Return a type, or that of an array."""
    found = given if isinstance(given, type) else getattr(given, "dtype", given)
    try:
        return np.dtype(found)
    except (TypeError, ValueError):
        raise UnsupportedError(f"{given!r} is no type and no array") from None
