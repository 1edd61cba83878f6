"""Dtypes by the names of the array API standard: casts, limits, promotion."""

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
    """Cast the elements to another dtype, lazily.

    Elements that become equal to the fill value are not stored.

    Parameters
    ----------
    x
        Tensor, or anything :func:`sparrow.asarray` accepts.
    dtype
        The dtype.
    copy
        Return a new, lazy and read-only tensor even if the dtype is the same.
    device
        "cpu" or None.

    Returns
    -------
    Tensor
        Of the shape of ``x``.

    Raises
    ------
    UnsupportedError
        If tensors do not support the dtype.
    InvalidValueError
        If the device is unknown.

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
    """Return whether one dtype can be cast to another without loss, by NumPy's rule.

    Parameters
    ----------
    from_
        Dtype, tensor or array.
    to
        Dtype.

    Returns
    -------
    bool

    Raises
    ------
    UnsupportedError
        If one is not a dtype.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.can_cast(sp.asarray([1, 2]), sp.float64), sp.can_cast(sp.float64, sp.int64)
    (True, False)
    """
    return np.can_cast(_dtype(from_), _dtype(to))


def finfo(type: Any, /) -> np.finfo[Any]:
    """Return the limits of a floating dtype: ``bits``, ``eps``, ``max``, ``min``, ...

    Parameters
    ----------
    type
        Floating or complex dtype, tensor or array.

    Returns
    -------
    numpy.finfo

    Raises
    ------
    UnsupportedError
        If it is not such a dtype.

    Examples
    --------
    >>> import sparrow as sp
    >>> float(sp.finfo(sp.asarray([0.5])).eps)
    2.220446049250313e-16
    """
    dtype = _dtype(type)
    if dtype.kind not in "fc":
        raise UnsupportedError(f"finfo requires a floating or complex dtype, got {dtype}: use iinfo")
    return np.finfo(dtype)


def iinfo(type: Any, /) -> np.iinfo[Any]:
    """Return the limits of an integer dtype: ``bits``, ``max``, ``min``, ``dtype``.

    Parameters
    ----------
    type
        Integer dtype, tensor or array.

    Returns
    -------
    numpy.iinfo

    Raises
    ------
    UnsupportedError
        If it is not such a dtype.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.iinfo(sp.int8).max
    127
    """
    dtype = _dtype(type)
    if dtype.kind not in "iu":
        raise UnsupportedError(f"iinfo requires an integer dtype, got {dtype}: use finfo")
    return np.iinfo(dtype)


def isdtype(dtype: DTypeLike, kind: Any) -> bool:
    """Return whether a dtype is of a kind.

    Parameters
    ----------
    dtype
        A dtype.
    kind
        "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric", a
        dtype, or a tuple of these, one of which must match.

    Returns
    -------
    bool

    Raises
    ------
    UnsupportedError
        If ``dtype`` is not a dtype, or ``kind`` is unknown.

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
        raise UnsupportedError(f"kind={kind!r} is not a kind of dtypes: {error}") from None


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """Return the dtype that NumPy's promotion gives for operands.

    Parameters
    ----------
    *arrays_and_dtypes
        Tensors, arrays, dtypes and numbers, at least one; Python numbers adapt to the others.

    Returns
    -------
    numpy.dtype

    Raises
    ------
    UnsupportedError
        If there are none, or one is not a dtype.

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.result_type(sp.asarray([1, 2]), sp.float32), sp.result_type(sp.float32, 1)
    (dtype('float64'), dtype('float32'))
    """
    if not arrays_and_dtypes:
        raise UnsupportedError("result_type requires at least one array or dtype")
    numbers = (int, float, complex)
    return np.result_type(*(one if isinstance(one, numbers) else _dtype(one) for one in arrays_and_dtypes))


def _dtype(given: Any) -> np.dtype[Any]:
    """Return a dtype, or that of an array."""
    found = given if isinstance(given, type) else getattr(given, "dtype", given)
    try:
        return np.dtype(found)
    except (TypeError, ValueError):
        raise UnsupportedError(f"{given!r} is neither a dtype nor an array") from None
