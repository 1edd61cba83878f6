"""Methods of pandas and xarray that take a tensor as an array, by position.

These libraries ask an operand that they do not know for its array, ``frame @ A``, or for an attribute of their own,
``array + A``, and drop the labels of the tensor. Their own operand is in the frame of the caller: labels that differ
are refused here, as the operators of the tensor refuse them. Nothing but the frame tells ``series.dot(A)`` from
``pandas.Series(A)``: both call ``numpy.asarray(A)``. In a version of these libraries whose functions or variables have
other names, nothing is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

from sparrow.errors import UnsupportedError
from sparrow.interop.labelled_objects import is_pandas, is_xarray, xarray_dims
from sparrow.tensor.base import Base
from sparrow.tensor.matching import contracted_axes, reject_other_labels

__all__ = ["XARRAY_ATTRIBUTE", "reject_pandas_caller", "reject_xarray_caller"]

XARRAY_ATTRIBUTE = "variable"
"""Attribute that xarray asks an operand for before it computes with it."""
_ELEMENTWISE = {"_where", "_flex_arith_method", "_flex_cmp_method", "_clip_with_one_bound"}
_PANDAS_METHODS = {"dot", "_sanitize_column", *_ELEMENTWISE}
"""Functions of pandas that combine ``self`` with an operand."""
_XARRAY_OPERATORS = {"_binary_op", "_inplace_binary_op"}
"""Functions of xarray that name the dimensions of an operand as those of ``self``."""


def reject_pandas_caller(tensor: Base, caller: FrameType | None) -> None:
    """Raise ``LabelError`` if pandas asks for the array of other labels.

    Parameters
    ----------
    tensor
        Operand of pandas.
    caller
        Frame that asks for the array.
    """
    for frame in _frames(caller, "pandas"):
        name = frame.f_code.co_name
        if name not in _PANDAS_METHODS:
            continue
        own, axis = frame.f_locals.get("self"), frame.f_locals.get("axis")
        if is_pandas(own) and getattr(own, "ndim", None) and tensor.ndim:
            reject_other_labels(tensor, own, _pandas_axes(tensor, own, name, axis))
            return


def _pandas_axes(tensor: Base, own: Any, name: str, axis: Any) -> Mapping[int, int] | None:
    """Return the axis of the tensor by axis of an object of pandas."""
    if name == "dot":
        return contracted_axes(tensor, own, False)
    if name in _ELEMENTWISE and own.ndim > tensor.ndim:
        return {0 if axis in (0, "index", "rows") else 1: 0}
    return {0: 0} if name == "_sanitize_column" else None


def reject_xarray_caller(tensor: Base, caller: FrameType | None) -> None:
    """Raise ``LabelError`` if xarray computes with a tensor of other labels.

    Parameters
    ----------
    tensor
        Operand of xarray.
    caller
        Frame that asks for the attribute.

    Raises
    ------
    UnsupportedError
        If an operator of xarray has a tensor of more dimensions, which it cannot name.
    """
    first, is_operator = None, False
    for frame in _frames(caller, "xarray"):
        first, is_operator = frame, is_operator or frame.f_code.co_name in _XARRAY_OPERATORS
    if first is None or not tensor.ndim:
        return
    operands = [each for value in first.f_locals.values() for each in (value if isinstance(value, tuple) else (value,))]
    for each in operands:
        if type(each).__module__.partition(".")[0] == "xarray":
            for array in each.data_vars.values() if hasattr(each, "data_vars") else (each,):
                if is_xarray(array) and getattr(array, "ndim", None):
                    reject_other_labels(tensor, array)
                if is_operator and is_xarray(array) and tensor.ndim > getattr(array, "ndim", tensor.ndim):
                    raise UnsupportedError(
                        f"operands of a {type(array).__name__} of dimensions {tuple(xarray_dims(array))} must have "
                        f"no more, got a tensor of {tensor.dims}: convert the other with sp.asarray(array)"
                    )


def _frames(caller: FrameType | None, library: str) -> Iterator[FrameType]:
    """Yield the frames of a library that lead to a call, the innermost first."""
    while caller is not None and str(caller.f_globals.get("__name__", "")).partition(".")[0] == library:
        yield caller
        caller = caller.f_back
