"""Where results go that are not returned as they are: ``out=``, and operators that work in place."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparrow.errors import ShapeError, UnsupportedError
from sparrow.tensor.base import Base

__all__ = ["into", "kept"]


def into(target: Any, result: Any, name: str, casting: Any = "same_kind") -> Any:
    """Write a result to an array or a tensor, which keeps its type, and a tensor its fill; return that.

    Parameters
    ----------
    target
        An array, or a tensor that can be written to; None for the result as it is.
    result
        A tensor, an array or a number.
    name
        What is done, for errors.
    casting
        Which changes of type are allowed.

    Raises
    ------
    UnsupportedError
        If the target is neither, or its type is no place for the result's.
    ShapeError
        If their shapes differ.
    ReadOnlyError
        If it is a tensor that cannot be written to.
    """
    if target is None:
        return result
    if not isinstance(target, np.ndarray | Base):
        raise UnsupportedError(f"{name}: out={type(target).__name__} is no place to write to: give an array or tensor")
    _check(target, result, name, casting)
    target[...] = result.to_numpy() if isinstance(target, np.ndarray) and isinstance(result, Base) else result  # type: ignore[index,attr-defined]
    return target


def kept(target: Any, result: Any, name: str) -> Any:
    """Return the result of an operator in place on what cannot be written to: in the target's type.

    Raises
    ------
    UnsupportedError
        If that type is no place for the result's.
    ShapeError
        If the shapes differ.
    """
    _check(target, result, name, "same_kind")
    return result.astype(target.dtype)


def _check(target: Any, result: Any, name: str, casting: Any) -> None:
    given = np.asarray(result).dtype if not hasattr(result, "dtype") else result.dtype
    if not np.can_cast(given, target.dtype, casting):
        raise UnsupportedError(
            f"{name} gives {given}, which cannot be written to {target.dtype}: use A = A.astype(...) first, or an "
            "out= of that type"
        )
    if np.shape(result) != target.shape:
        raise ShapeError(f"{name} gives shape {np.shape(result)}, which is not that of the target, {target.shape}")
